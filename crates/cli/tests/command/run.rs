//! Running a scenario, and common behaviour of all commands: flags, outputs, listings.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::path::Path;
use std::process::Stdio;

use super::{Dir, stderr, stdout};

/// Asserts exit status 2, exactly this line on standard error, nothing on standard output and no files.
fn refused_with(name: &str, args: &[&str], line: &str) {
    let dir = Dir::new(name);
    let output = dir.bbrlab(args);
    let error = stderr(&output);
    assert_eq!((output.status.code(), error.trim_end()), (Some(2), line), "{args:?}");
    assert_eq!(error.lines().count(), 1);
    assert!(output.stdout.is_empty() && dir.files().is_empty(), "{args:?} wrote {:?}", dir.files());
}

const QUICK: [&str; 7] = ["run", "--rate", "2mbit", "--duration", "2s", "--flow", "bbr1"];

fn quick(more: &[&'static str]) -> Vec<&'static str> {
    [&QUICK[..], more].concat()
}

#[test]
fn bad_flags_are_refused_in_one_line_and_nothing_is_written() {
    let json = ["--json", "out.json"];
    let cases: [(&[&str], &str); 7] = [
        (
            &["--flow", "bbr4"],
            "bbrlab: flow 1: no algorithm \"bbr4\" (did you mean bbr1, bbr2 or bbr3?); see `bbrlab list algorithms`",
        ),
        (
            &["--rate", "ten"],
            "bbrlab: --rate: \"ten\" is not a rate; write a number with bit, kbit, mbit, gbit or tbit, as in 10mbit",
        ),
        (
            &["--loss", "-1%"],
            "bbrlab: --loss: \"-1%\" is not a loss rate; write a share or ge:p,r,1-h,1-k, as in 1% or ge:1%,10%",
        ),
        (&["--warmup", "60s"], "bbrlab: --warmup: 60s leaves nothing of 60s to measure; write less than duration"),
        (
            &["--on", "moon"],
            "bbrlab: --on: \"moon\" is not a backend; write sim, uml, kernel, quic:s2n, quic:noq or quic:quinn",
        ),
        (
            &["--ratee", "1mbit"],
            "bbrlab: unexpected argument '--ratee'; a similar argument exists: '--rate'; see `bbrlab run --help`",
        ),
        (&["--repeat", "0"], "bbrlab: --repeat: \"0\" is not a number of runs; write a whole number from 1 to 100000"),
    ];
    for (index, (args, line)) in cases.iter().enumerate() {
        refused_with(&format!("flags{index}"), &[&["run"], &json[..], args].concat(), line);
    }
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_run() {
    refused_with(
        "nodir",
        &["run", "--duration", "1000000s", "--json", "/proc/missing/out.json"],
        "bbrlab: --json: /proc/missing/out.json: its directory cannot be created; name another place",
    );
    refused_with(
        "isdir",
        &["run", "--duration", "1000000s", "--report", "."],
        "bbrlab: --report: .: it is a directory; name a file",
    );
}

#[test]
fn a_missing_directory_is_made_and_goes_again_where_the_command_fails() {
    let dir = Dir::new("made");
    let run = ["run", "--duration", "10ms", "--json", "a/b/out.json", "--csv", "c/d/"];
    assert_eq!(dir.bbrlab(&run).status.code(), Some(0));
    assert!(dir.0.join("a/b/out.json").is_file() && dir.0.join("c/d/flows.csv").is_file());
    let fails = ["run", "--duration", "10ms", "--json", "e/f/out.json", "--report", "a"];
    assert_eq!(dir.bbrlab(&fails).status.code(), Some(2));
    assert_eq!(dir.files(), ["a", "c"]);
}

#[test]
fn two_outputs_in_one_file_are_refused() {
    let line = "bbrlab: --report: it names the same file as --json; name another";
    refused_with("same", &["run", "--json", "x", "--report", "./x"], line);
}

#[test]
fn a_missing_scenario_is_refused() {
    let line = "bbrlab: none.toml: it does not exist; name a scenario in TOML or the JSON of a result";
    refused_with("nofile", &["run", "none.toml"], line);
}

#[test]
fn no_command_is_refused_with_the_commands() {
    let line = "bbrlab: no command; write one of run, emulate, reproduce, record, replay, validate, sweep, compare, path, advise, tune, cdn, score, conform, host, ab, watch, serve, get, play, list, doctor, completions, man, or see `bbrlab --help`";
    refused_with("nothing", &[], line);
}

#[test]
fn a_selection_that_leaves_no_scenario_to_compare_is_refused() {
    let none = "no scenario of the matrix";
    for (args, line) in [
        (&["--longest", "1ms"][..], format!("bbrlab: --longest: {none} is that short; write a longer time, as in 60s")),
        (&["--only", "tcp"], "bbrlab: --only: no scenario has \"tcp\" in its name".to_owned()),
        (&["--random", "4", "--only", "tcp"], "bbrlab: --only: no scenario has \"tcp\" in its name".to_owned()),
        (
            &["--only", "bbr1", "--longest", "1ms"],
            format!("bbrlab: --only, --longest: {none} has \"bbr1\" in its name and lasts at most 1ms"),
        ),
    ] {
        refused_with("validate", &[&["validate"], args].concat(), &line);
    }
}

#[test]
fn an_unknown_experiment_is_refused() {
    refused_with(
        "noexp",
        &["reproduce", "F99x"],
        "bbrlab: no experiment \"F99x\" (did you mean F9?); see `bbrlab list experiments`",
    );
}

#[test]
fn a_run_writes_what_is_asked_for_and_nothing_else() {
    let dir = Dir::new("writes");
    let output = dir.bbrlab(&quick(&["--json", "r.json", "--csv", "s.csv", "--qlog", "logs/", "--report", "r.html"]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(dir.files(), ["logs", "r.html", "r.json", "s.csv"]);
    let table = stdout(&output);
    assert!(table.contains("bbr1#0") && table.contains("bottleneck") && !table.contains('\x1b'), "{table}");
    assert!(output.stderr.is_empty());
    for (log, event) in [("run.qlog", "transport:packet_sent"), ("run.sqlog", "quic:packet_sent")] {
        let text = fs::read_to_string(dir.0.join("logs").join(log)).unwrap();
        assert!(text.matches(event).count() > 100 && text.contains("acked_ranges"), "{log}");
    }
}

#[test]
fn a_result_runs_again_to_the_same_result() {
    let dir = Dir::new("again");
    let first = dir.bbrlab(&quick(&["--loss", "1%", "--seed", "5", "--json", "first.json", "-q"]));
    let second = dir.bbrlab(&["run", "first.json", "--json", "second.json", "-q"]);
    assert_eq!((first.status.code(), second.status.code()), (Some(0), Some(0)));
    let read = |name: &str| {
        let text = fs::read_to_string(dir.0.join(name)).unwrap();
        text.lines().filter(|line| !line.contains("\"wall_s\"")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(read("first.json"), read("second.json"));
}

#[test]
fn json_on_standard_output_is_json_alone() {
    let dir = Dir::new("stdout");
    let output = dir.bbrlab(&quick(&["--json", "-", "--repeat", "3"]));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["summary"]["jain"]["n"], 3);
    assert_eq!(document["runs"].as_array().map(Vec::len), Some(3));
    assert!(dir.files().is_empty());
}

#[test]
fn a_failed_expectation_is_exit_status_1() {
    let dir = Dir::new("expect");
    let toml = "duration = \"2s\"\n[[expect]]\nid = \"X\"\nmeasure = \"1.0 + 1.0\"\nmax = 1.0\n";
    fs::write(dir.0.join("x.toml"), toml).unwrap();
    let output = dir.bbrlab(&["run", "x.toml"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("FAILS  X"));
}

#[test]
fn what_could_not_be_measured_does_not_hold() {
    let dir = Dir::new("nan");
    fs::write(dir.0.join("x.toml"), "duration = \"1s\"\n[[expect]]\nmeasure = \"0.0 / 0.0\"\nmin = 0.0\n").unwrap();
    for repeat in ["1", "2"] {
        let output = dir.bbrlab(&["run", "x.toml", "--repeat", repeat]);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    }
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let dir = Dir::new("pipe");
    let mut child = dir.command(&["list", "schema"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn every_listing_and_generated_page_prints() {
    let dir = Dir::new("lists");
    for args in [
        &["list"][..],
        &["list", "algorithms"],
        &["list", "parameters", "bbr1"],
        &["list", "experiments"],
        &["doctor"],
        &["man"],
        &["completions", "bash"],
        &["--help"],
        &["run", "--help"],
        &["--version"],
    ] {
        let output = dir.bbrlab(args);
        assert!(output.status.success() && !output.stdout.is_empty(), "{args:?}: {}", stderr(&output));
    }
}

/// To regenerate it: `cargo run -p bbrlab -- list schema > docs/scenario.schema.json`.
#[test]
fn the_schema_in_docs_is_the_one_that_the_command_prints() {
    let dir = Dir::new("schema");
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scenario.schema.json");
    let printed = stdout(&dir.bbrlab(&["list", "schema"]));
    assert_eq!(fs::read_to_string(kept).unwrap(), printed, "renew docs/scenario.schema.json");
}

#[test]
fn a_capture_of_the_sender_is_one_file_and_of_the_path_one_a_place() {
    let dir = Dir::new("pcap");
    let output = dir.bbrlab(&quick(&["--pcap", "a.pcapng", "-q"]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let magic = fs::read(dir.0.join("a.pcapng")).unwrap()[..4].to_vec();
    assert_eq!(magic, [0x0a, 0x0d, 0x0d, 0x0a]);
    dir.bbrlab(&quick(&["--pcap", "taps/", "-q"]));
    let mut names: Vec<_> = fs::read_dir(dir.0.join("taps")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["bottleneck-in.pcapng", "bottleneck-out.pcapng", "receiver.pcapng", "sender.pcapng"]);
}

#[test]
fn a_capture_that_is_cut_says_so() {
    let dir = Dir::new("cut");
    let output = dir.bbrlab(&quick(&["--pcap", "a.pcapng", "--pcap-limit", "50", "-q"]));
    let warning = stderr(&output);
    assert!(output.status.success() && warning.starts_with("bbrlab: --pcap: seed 1: 50 packets were recorded by "));
    assert!(warning.contains("--pcap-limit") && warning.lines().count() == 1, "{warning}");
}

#[test]
fn a_file_without_end_is_refused_as_a_scenario() {
    let line = "bbrlab: /dev/zero: it holds more than the 4 MiB of a scenario; name a scenario in TOML or the JSON of a \
                result";
    refused_with("endless", &["run", "/dev/zero"], line);
}

#[test]
fn a_result_of_another_schema_is_refused() {
    let dir = Dir::new("schema99");
    fs::write(dir.0.join("x.json"), "{\"schema\":99,\"scenario\":{}}").unwrap();
    let error = stderr(&dir.bbrlab(&["run", "x.json"]));
    assert!(error.starts_with("bbrlab: x.json: schema: 99 is not a schema"), "{error}");
}

/// Goal: a late failure leaves none of the files written before it.
#[test]
fn an_output_that_fails_leaves_no_other_output() {
    let dir = Dir::new("full");
    let output = dir.bbrlab(&quick(&["--csv", "traces/", "--pcap", "a.pcapng", "--json", "/dev/full", "-q"]));
    assert_eq!((output.status.code(), dir.files()), (Some(2), Vec::new()));
}

#[test]
fn a_thousand_flows_are_summarised_by_algorithm() {
    let dir = Dir::new("thousand");
    let flows = ["--flow", "bbr1*500", "--flow", "cubic*500"];
    let output = dir.bbrlab(&[&["run", "--rate", "1gbit", "--duration", "100ms"], &flows[..]].concat());
    let table = stdout(&output);
    assert!(table.starts_with("cc ") && table.lines().count() < 25, "{table}");
}
