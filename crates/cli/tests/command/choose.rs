//! End-to-end tests of sweep, advise and tune.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::process::Output;

use super::{Dir, refused, stderr, stdout};

const SWEEP: [&str; 12] = [
    "sweep",
    "--vary",
    "cc=bbr1,cubic",
    "--vary",
    "loss=0%,1%",
    "--rate",
    "2mbit",
    "--duration",
    "1s",
    "--repeat",
    "2",
    "--out",
];

fn sweep(dir: &Dir, more: &[&str]) -> Output {
    dir.bbrlab(&[&SWEEP[..], more].concat())
}

#[test]
fn a_sweep_in_shards_gives_the_bytes_of_one_in_a_piece() {
    let dir = Dir::new("shards");
    assert_eq!(sweep(&dir, &["whole"]).status.code(), Some(0));
    let first = sweep(&dir, &["parts", "--shard", "2/2"]);
    assert!(stdout(&first).contains("4 of 8 blocks"), "{}", stdout(&first));
    assert!(!dir.0.join("parts/runs.parquet").exists());
    let last = sweep(&dir, &["parts", "--shard", "1/2"]);
    assert!(stdout(&last).contains("medians over 8 runs"), "{}", stdout(&last));
    let read = |name: &str| fs::read(dir.0.join(name)).unwrap();
    assert_eq!(read("whole/runs.parquet"), read("parts/runs.parquet"));
}

#[test]
fn an_interrupted_sweep_goes_on_and_does_nothing_twice() {
    let dir = Dir::new("goes-on");
    assert_eq!(sweep(&dir, &["a"]).status.code(), Some(0));
    let (kept, lost) = (dir.0.join("a/blocks/000000.csv"), dir.0.join("a/blocks/000005.csv"));
    let before = fs::read(dir.0.join("a/runs.parquet")).unwrap();
    fs::remove_file(lost).unwrap();
    let made = fs::metadata(&kept).unwrap().modified().unwrap();
    assert_eq!(sweep(&dir, &["a", "--report", "a.html", "--tree", "cc"]).status.code(), Some(0));
    assert_eq!(fs::metadata(&kept).unwrap().modified().unwrap(), made);
    assert_eq!(fs::read(dir.0.join("a/runs.parquet")).unwrap(), before);
    assert!(fs::read_to_string(dir.0.join("a.html")).unwrap().contains("Best choice by region"));
}

#[test]
fn another_sweep_does_not_enter_a_sweeps_directory() {
    let dir = Dir::new("other");
    assert_eq!(sweep(&dir, &["a"]).status.code(), Some(0));
    let other = sweep(&dir, &["a", "--seed", "9"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(stderr(&other).contains("another sweep"), "{}", stderr(&other));
    assert_eq!(sweep(&dir, &["a", "--seed", "9", "--fresh"]).status.code(), Some(0));
    fs::remove_file(dir.0.join("a/sweep.json")).unwrap();
    assert!(stderr(&sweep(&dir, &["a"])).contains("parts of a sweep without"));
}

#[test]
fn a_fresh_sweep_leaves_what_is_not_its_own() {
    let dir = Dir::new("fresh");
    assert_eq!(sweep(&dir, &["a", "--samples"]).status.code(), Some(0));
    fs::write(dir.0.join("a/blocks/000099.csv"), "of a larger sweep").unwrap();
    for file in ["a/thesis.txt", "a/samples/mine.parquet"] {
        fs::write(dir.0.join(file), "x").unwrap();
    }
    assert_eq!(sweep(&dir, &["a", "--seed", "9", "--fresh"]).status.code(), Some(0));
    let there = |name: &str| dir.0.join("a").join(name).exists();
    assert!(there("thesis.txt") && there("samples/mine.parquet") && there("runs.parquet"));
    assert!(!there("blocks/000099.csv"));
    assert_eq!(fs::read_dir(dir.0.join("a/samples")).unwrap().count(), 1);
}

#[test]
fn shards_that_start_at_once_share_the_directory() {
    let dir = Dir::new("at-once");
    let start = |shard: &str| dir.command(&[&SWEEP[..], &["a", "--shard", shard]].concat()).spawn().unwrap();
    let mut shards = ["1/4", "2/4", "3/4", "4/4"].map(start);
    assert!(shards.iter_mut().all(|shard| shard.wait().unwrap().success()));
    assert!(dir.0.join("a/runs.parquet").exists());
}

#[test]
fn bad_input_is_refused_in_a_line_and_leaves_nothing() {
    let dir = Dir::new("bad");
    fs::write(dir.0.join("bad.toml"), "[[path]]\nrate = \"fast\"\nrtt = \"1ms\"\n").unwrap();
    fs::write(dir.0.join("other.toml"), "cc = \"bbr1\"\n[parameters]\ncwnd_gain = \"2\"\n").unwrap();
    let cases: [(&[&str], &str); 15] = [
        (&["sweep", "--out", "x"], "a sweep has an axis"),
        (&["sweep", "--vary", "speed=1,2", "--out", "x"], "axis \"speed\" is not a scenario key"),
        (&["sweep", "--vary", "rate=1mbit,fast", "--out", "x"], "fast"),
        (&["sweep", "--vary", "rate=1mbit,2mbit", "--shard", "3/2", "--out", "x"], "is not a shard"),
        (&["sweep", "--vary", "rate=1mbit,2mbit", "--show", "speed", "--out", "x"], "no figure"),
        (&["sweep", "--vary", "rate=1mbit,1mbit", "--out", "x"], "\"1mbit\" appears twice"),
        (&["sweep", "--vary", "rate=1mbit,2mbit", "--out", "bad.toml"], "it is a file; name a directory"),
        (&["advise", "--rtt", "40ms"], "--rate: give what is known"),
        (&["advise", "--rate", "20mbit..2mbit", "--rtt", "40ms"], "runs backwards"),
        (&["advise", "--rate", "20mbit", "--rtt", "40ms", "--objective", "fun"], "no objective"),
        (&["advise", "--from", "other.toml"], "no connection's rate or RTT"),
        (
            &["advise", "--rate", "10mbit", "--rtt", "40ms", "--algorithms", "bbr1;bbr3*2"],
            "--algorithms: \"bbr3*2\" sets what or when to send",
        ),
        (&["advise", "--rate", "10mbit", "--rtt", "40ms", "--current", "bbr9"], "--current: no algorithm \"bbr9\""),
        (&["advise", "--rate", "10mbit", "--rtt", "40ms", "--algorithms", "cubic"], "nothing to compare with"),
        (&["run", "--flow", "bbr3,params=other.toml"], "those of bbr1, not of bbr3"),
    ];
    for (args, what) in cases {
        refused(&dir, args, what);
    }
    assert_eq!(dir.files(), ["bad.toml", "other.toml"]);
}

#[test]
fn advice_for_a_lossy_path_names_bbr_with_its_gain() {
    let dir = Dir::new("advise");
    let path = ["advise", "--rate", "5mbit", "--rtt", "40ms", "--loss", "2%", "--rivals", "0"];
    let output = dir.bbrlab(&[&path[..], &["--draws", "8", "--json", "a.json"]].concat());
    let said = stdout(&output);
    assert!(
        said.contains(" bbr") && !said.starts_with("Don't") && said.contains("Why: ") && said.contains('×'),
        "{said}"
    );
    let json: serde_json::Value = serde_json::from_str(&fs::read_to_string(dir.0.join("a.json")).unwrap()).unwrap();
    assert_eq!(json["advice"]["candidates"][0]["flow"], "cubic");
    let with = ["advise", "--rate", "5mbit", "--rtt", "40ms", "--algorithms", "bbr1;bbr1,lt_bw=off", "--draws", "2"];
    assert!(stdout(&dir.bbrlab(&with)).contains("bbr1,lt_bw=off over cubic"));
    let kept = dir.bbrlab(&["advise", "--rate", "5mbit", "--rtt", "40ms", "--current", "bbr3", "--draws", "2"]);
    assert!(stdout(&kept).contains("cubic over bbr3"), "{}", stdout(&kept));
    assert!(stdout(&kept).contains("not enough data: 2 paths are too few"), "{}", stdout(&kept));
}

#[test]
fn advice_from_a_measurement_names_what_it_found_and_refuses_what_says_too_little() {
    let call = |sent: u64, more: &str| {
        format!(
            "ESTAB 0 0 10.0.0.1:443 10.0.0.2:5000\n\t ts sack bbr rto:244 rtt:52.1/0.5 minrtt:40.1 mss:1448 cwnd:100 \
             bytes_sent:{sent} bytes_retrans:20000 delivery_rate 4.5Mbps {more}\n"
        )
    };
    let dir = Dir::new("from").with("ss.txt", &call(90_000_000, "")).with("idle.txt", &call(4500, ""));
    let dir = dir.with("limited.txt", &call(90_000_000, "app_limited"));
    let said = stdout(&dir.bbrlab(&["advise", "--from", "ss.txt", "--draws", "2"]));
    assert!(
        said.contains("cubic over bbr1")
            && said.contains("\nInferred:\n")
            && said.contains("\n  - in use: bbr, here bbr1\n")
            && said.matches("Inferred").count() == 1,
        "{said}"
    );
    refused(&dir, &["advise", "--from", "idle.txt"], "not enough data: the one connection sent 4.5 kB");
    refused(&dir, &["advise", "--from", "limited.txt"], "limited by its application");
}

#[test]
#[cfg_attr(not(feature = "tune"), ignore = "needs the feature tune")]
fn a_tuned_file_is_taken_by_a_flow() {
    let dir = Dir::new("tune");
    fs::write(dir.0.join("p.toml"), "[[path]]\nrate = \"3mbit\"\nrtt = \"30ms\"\nloss = \"4%\"\n").unwrap();
    let args = ["tune", "bbr3", "--population", "p.toml", "--settings", "4", "--generations", "1", "--paths", "1"];
    let output = dir.bbrlab(&[&args[..], &["--held-out", "2", "--out", "t.toml", "--report", "t.html"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("tuned less bbr3"), "{}", stdout(&output));
    assert!(!stdout(&output).contains("no path had a rival"), "{}", stdout(&output));
    let alone = dir.bbrlab(&[&args[..], &["--held-out", "2", "--no-rivals"]].concat());
    assert!(stdout(&alone).contains("Warning: no path had a rival"), "{}", stdout(&alone));
    let flow = ["run", "--rate", "3mbit", "--duration", "1s", "--flow", "bbr3,params=t.toml", "--json"];
    let run = dir.bbrlab(&[&flow[..], &["-"]].concat());
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert!(stdout(&run).contains("loss_thresh"), "{}", stdout(&run));
}
