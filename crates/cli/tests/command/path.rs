//! `bbrlab path`, and captures as paths of other commands.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use serde_json::Value;

use super::{Dir, stderr, stdout};

const RUN: [&str; 11] =
    ["run", "--rate", "20mbit", "--rtt", "40ms", "--buffer", "1bdp", "--duration", "6s", "--quiet", "--pcap"];

fn json(dir: &Dir, arguments: &[&str]) -> Value {
    let output = dir.bbrlab(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn near(value: &Value, expected: f64) -> bool {
    value.as_f64().is_some_and(|value| (value / expected - 1.0).abs() < 0.02)
}

#[test]
fn a_capture_becomes_a_path_a_scenario_and_advice() {
    let dir = Dir::new("path");
    let output = dir.bbrlab(&[&RUN[..], &["a.pcapng", "--flow", "cubic"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let found = json(&dir, &["path", "a.pcapng", "--json", "-", "--out", "path.toml"]);
    let own = &found["files"][0]["capture"]["paths"][0];
    assert!(near(&own["rate"]["bps"], 20e6) && near(&own["rtt"]["base_ms"], 40.0), "{own:#}");
    assert_eq!(own["losses"][0]["kind"], "tail_drop");
    // The scenario of the path, as a file of `run`, as its path, and the capture itself.
    for arguments in [&["run", "path.toml"][..], &["run", "--path", "path.toml"], &["run", "--path", "a.pcapng"]] {
        let result = json(&dir, &[arguments, &["--duration", "1s", "--flow", "bbr3", "--json", "-"]].concat());
        let rate = result["scenario"]["rate"].as_str().unwrap();
        assert!(rate == "20mbit" || rate.starts_with("19.9") || rate.starts_with("20.0"), "{arguments:?}: {rate}");
    }
    // A key beside the file replaces its own.
    let other = json(&dir, &["run", "--path", "a.pcapng", "--rtt", "7ms", "--duration", "1s", "--json", "-"]);
    assert_eq!(other["scenario"]["rtt"], "7ms");
    let advice = dir.bbrlab(&["advise", "--from", "a.pcapng", "--draws", "2", "--duration", "3s"]);
    assert!(stdout(&advice).contains("1 connection on 1 path"), "{}{}", stdout(&advice), stderr(&advice));
}

#[test]
fn several_captures_are_one_table_the_largest_first() {
    let dir = Dir::new("paths");
    for (file, flow) in [("a.pcapng", "cubic,size=200kB"), ("b.pcapng", "bbr1")] {
        let output = dir.bbrlab(&[&RUN[..], &[file, "--flow", flow]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let text = stdout(&dir.bbrlab(&["path", "a.pcapng", "b.pcapng", "--top", "1"]));
    let row = text.lines().nth(1).unwrap();
    assert!(row.contains("b.pcapng") && text.contains("1 connection more"), "{text}");
}
