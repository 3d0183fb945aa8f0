//! Sweep, advise and tune as their user meets them.
//! In: arguments. Out: verdicts. Never: a network, a right, a wait.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn bbrlab(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bbrlab")).current_dir(dir).args(args).stdin(Stdio::null()).output().unwrap()
}

/// A directory of its own for each test, gone at its end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("bbrlab-use-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

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
    bbrlab(&dir.0, &[&SWEEP[..], more].concat())
}

#[test]
fn a_sweep_in_shards_gives_the_bytes_of_one_in_a_piece() {
    let dir = Dir::new("shards");
    assert_eq!(sweep(&dir, &["whole"]).status.code(), Some(0));
    let first = sweep(&dir, &["parts", "--shard", "2/2"]);
    assert!(text(&first.stdout).contains("4 of 8 blocks"), "{}", text(&first.stdout));
    assert!(!dir.0.join("parts/runs.parquet").exists());
    let last = sweep(&dir, &["parts", "--shard", "1/2"]);
    assert!(text(&last.stdout).contains("medians over 8 runs"), "{}", text(&last.stdout));
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
    assert!(fs::read_to_string(dir.0.join("a.html")).unwrap().contains("Which one where"));
}

#[test]
fn another_sweep_does_not_enter_a_sweeps_directory() {
    let dir = Dir::new("other");
    assert_eq!(sweep(&dir, &["a"]).status.code(), Some(0));
    let other = sweep(&dir, &["a", "--seed", "9"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("another sweep"), "{}", text(&other.stderr));
    assert_eq!(sweep(&dir, &["a", "--seed", "9", "--fresh"]).status.code(), Some(0));
    fs::create_dir(dir.0.join("mine")).unwrap();
    fs::write(dir.0.join("mine/thesis.txt"), "x").unwrap();
    assert!(text(&sweep(&dir, &["mine", "--fresh"]).stderr).contains("other things"));
    assert!(dir.0.join("mine/thesis.txt").exists());
}

#[test]
fn bad_input_is_refused_in_a_line_and_leaves_nothing() {
    let dir = Dir::new("bad");
    fs::write(dir.0.join("bad.toml"), "[[path]]\nrate = \"fast\"\nrtt = \"1ms\"\n").unwrap();
    fs::write(dir.0.join("other.toml"), "cc = \"bbr1\"\n[parameters]\ncwnd_gain = \"2\"\n").unwrap();
    let cases: [(&[&str], &str); 12] = [
        (&["sweep", "--out", "x"], "a sweep has an axis"),
        (&["sweep", "--vary", "speed=1,2", "--out", "x"], "axis \"speed\" is no key"),
        (&["sweep", "--vary", "rate=1mbit,fast", "--out", "x"], "fast"),
        (&["sweep", "--vary", "rate=1mbit,2mbit", "--shard", "3/2", "--out", "x"], "no share"),
        (&["sweep", "--vary", "rate=1mbit,2mbit", "--show", "speed", "--out", "x"], "no figure"),
        (&["advise", "--rtt", "40ms"], "--rate: say what is known"),
        (&["advise", "--rate", "20mbit..2mbit", "--rtt", "40ms"], "runs backwards"),
        (&["advise", "--rate", "20mbit", "--rtt", "40ms", "--objective", "fun"], "no objective"),
        (&["advise", "--from", "other.toml"], "no connection with an RTT"),
        (&["tune", "bbr3", "--population", "bad.toml"], "path 1: rate"),
        (&["tune", "bbr9", "--population", "missing.toml"], "missing.toml"),
        (&["run", "--flow", "bbr3,params=other.toml"], "those of bbr1, not of bbr3"),
    ];
    for (args, what) in cases {
        let output = bbrlab(&dir.0, args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(what) && error.lines().count() == 1, "{args:?}: {error}");
    }
    assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 2);
}

#[test]
fn advice_for_a_lossy_path_names_bbr_with_its_gain() {
    let dir = Dir::new("advise");
    let args = ["advise", "--rate", "5mbit", "--rtt", "40ms", "--loss", "2%", "--draws", "3", "--json", "a.json"];
    let output = bbrlab(&dir.0, &args);
    let said = text(&output.stdout);
    assert!(said.starts_with("Use bbr") && said.contains("Why: ") && said.contains('×'), "{said}");
    let json: serde_json::Value = serde_json::from_str(&fs::read_to_string(dir.0.join("a.json")).unwrap()).unwrap();
    assert_eq!(json["advice"]["candidates"][0]["flow"], "cubic");
    let kept = bbrlab(&dir.0, &["advise", "--rate", "5mbit", "--rtt", "40ms", "--current", "bbr3", "--draws", "2"]);
    assert!(text(&kept.stdout).starts_with("Don't change: bbr3"), "{}", text(&kept.stdout));
}

#[test]
fn a_tuned_file_is_taken_by_a_flow() {
    let dir = Dir::new("tune");
    fs::write(dir.0.join("p.toml"), "[[path]]\nrate = \"3mbit\"\nrtt = \"30ms\"\nloss = \"4%\"\n").unwrap();
    let args = ["tune", "bbr3", "--population", "p.toml", "--settings", "4", "--generations", "1", "--paths", "1"];
    let output = bbrlab(&dir.0, &[&args[..], &["--held-out", "2", "--out", "t.toml", "--report", "t.html"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("tuned less bbr3"), "{}", text(&output.stdout));
    let flow = ["run", "--rate", "3mbit", "--duration", "1s", "--flow", "bbr3,params=t.toml", "--json"];
    let run = bbrlab(&dir.0, &[&flow[..], &["-"]].concat());
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    assert!(text(&run.stdout).contains("loss_thresh"), "{}", text(&run.stdout));
}
