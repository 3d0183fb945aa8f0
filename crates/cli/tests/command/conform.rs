//! End-to-end tests of `bbrlab conform`: verdicts, exit status, JSON, JUnit, a page; and logs, good and bad.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;

use serde_json::Value;

use super::{Dir, refused, stdout};

/// True if every element that opens is closed, in order: enough of XML for our own output.
fn is_well_formed(xml: &str) -> bool {
    let mut open: Vec<&str> = Vec::new();
    for tag in xml.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap_or("");
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or("");
        match tag {
            _ if tag.starts_with('?') || tag.ends_with('/') => {}
            _ if tag.starts_with('/') => {
                if open.pop() != Some(name) {
                    return false;
                }
            }
            _ => open.push(name),
        }
    }
    open.is_empty()
}

const CELL: [&str; 6] = ["conform", "bbr3", "--case", "1", "--cell", "20mbit/10ms"];

#[test]
fn a_case_that_holds_ends_with_0_and_says_so() {
    let output = Dir::new("holds").bbrlab(&CELL);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("1 of 1 case holds, 0 fail, 0 not applicable"), "{}", stdout(&output));
    assert!(output.stderr.is_empty());
}

#[test]
fn json_junit_and_page_tell_the_same() {
    let dir = Dir::new("files");
    let files = ["--json", "c.json", "--junit", "c.xml", "--report", "c.html"];
    assert_eq!(dir.bbrlab(&[&CELL[..], &files].concat()).status.code(), Some(0));
    let json: Value = serde_json::from_str(&dir.text("c.json")).unwrap();
    assert_eq!((&json["schema"], &json["draft"]), (&Value::from(1), &Value::from("draft-ietf-ccwg-bbr-06")));
    let case = &json["cases"][0];
    assert_eq!((&case["algorithm"], &case["case"], &case["verdict"]), (&"bbr3".into(), &"01".into(), &"holds".into()));
    assert_eq!(case["cells"][0]["rate_bps"], 20_000_000);
    assert!(case["cells"][0]["checks"].as_array().is_some_and(|checks| checks.len() > 4));
    let xml = dir.text("c.xml");
    assert!(is_well_formed(&xml) && xml.contains("tests=\"1\" failures=\"0\""), "{xml}");
    let page = dir.text("c.html");
    assert!(page.starts_with("<!doctype html>") && page.contains("20mbit") && page.contains("ribbons"));
}

#[test]
fn json_to_standard_output_takes_the_place_of_the_table() {
    let output = Dir::new("stdout").bbrlab(&[&CELL[..], &["--json", "-"]].concat());
    assert!(serde_json::from_str::<Value>(&stdout(&output)).unwrap()["cases"].is_array());
}

#[test]
fn what_does_not_apply_is_said_with_its_reason_and_is_no_failure() {
    let output = Dir::new("not").bbrlab(&["conform", "bbr1", "cubic", "--case", "2"]);
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    assert!(text.contains("BBRv1 ignores loss in Startup") && text.contains("how cubic should meet it"), "{text}");
    assert!(text.contains("2 not applicable"), "{text}");
}

#[test]
fn a_case_that_fails_ends_with_1_and_draws_the_failing_cell() {
    let case = "number = 1\ntitle = 'T'\nanchor = 'a'\ndemand = 'd'\nreading = ''\nalgorithms = ['bbr3']\nduration = '1'\n\
        [[check]]\nwhat = 'it flies'\nmeasure = 'f.max(\"cwnd\", 0, 1) < 0.0'\n";
    let dir = Dir::new("fails");
    fs::create_dir(dir.0.join("cases")).unwrap();
    let dir = dir.with("cases/1.toml", case);
    let args =
        ["conform", "bbr3", "--cases", "cases", "--cell", "1mbit/10ms", "--junit", "c.xml", "--report", "c.html"];
    let output = dir.bbrlab(&args);
    assert_eq!(output.status.code(), Some(1));
    refused(&dir, &["conform", "bbr3", "--cases", "cases", "--case", "3"], "no case \"3\"; write 1, or");
    assert!(stdout(&output).contains("case 01 at 1mbit/10ms: it flies: expected yes, measured no"));
    assert!(is_well_formed(&dir.text("c.xml")) && dir.text("c.xml").contains("<failure"));
    assert!(dir.text("c.html").contains("bbr3, 1mbit and 10ms"));
}

#[test]
#[cfg(feature = "quic")]
fn a_case_between_a_stacks_endpoints_is_judged_like_any_other() {
    let cell = ["conform", "s2n+bbr3", "noq+bbr3", "--case", "3", "--case", "19", "--cell", "1mbit/100ms"];
    let output = Dir::new("stacks").bbrlab(&cell);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("2 of 4 cases hold, 0 fail, 2 not applicable"), "{text}");
    assert!(text.contains("QUIC has no retransmission time-out"), "{text}");
}

#[test]
fn bad_arguments_are_refused_in_one_line() {
    let dir = Dir::new("bad");
    refused(&dir, &["conform"], "ALGO");
    refused(&dir, &["conform", "bbr4"], "no algorithm \"bbr4\"");
    refused(&dir, &["conform", "bbr3", "--case", "23"], "no case \"23\"; write 1 to 22");
    refused(&dir, &["conform", "bbr3", "--cell", "3mbit/1s"], "not in the grid");
    refused(&dir, &["conform", "bbr3", "--cell", "fast"], "write RATE/RTT");
    refused(&dir, &["conform", "bbr3", "--log", "x"], "--log");
    refused(&dir, &["conform", "bbr3", "--cases", "nowhere"], "nowhere");
    fs::create_dir(dir.0.join("empty")).unwrap();
    refused(&dir, &["conform", "bbr3", "--cases", "empty"], "it holds no *.toml");
    refused(&dir, &["reproduce", "F1", "--experiments", "empty"], "it holds no *.toml");
    refused(&dir, &["conform", "bbr3", "--json", "a", "--junit", "a"], "same file");
    refused(&dir, &["conform", "--log", "nowhere"], "does not exist");
}

#[test]
fn bad_logs_are_refused_in_one_line() {
    for (name, text, part) in [
        ("empty", "", "neither qlog"),
        ("prose", "Dear all,\nthe flow was fine.\n", "neither qlog"),
        ("broken", "{\"traces\": [", "not JSON"),
        ("json", "{\"answer\": 42}", "no traces"),
        ("silent", "{\"traces\": [{\"events\": []}]}", "holds no window"),
        ("csv", "t_s,flow,cwnd\n0.1,a,many\n", "line 2"),
    ] {
        let dir = Dir::new(name).with("log", text);
        refused(&dir, &["conform", "--log", "log"], part);
    }
    let dir = Dir::new("binary");
    fs::write(dir.0.join("log"), [0_u8, 159, 146, 150, 255, 0, 10, 13]).unwrap();
    refused(&dir, &["conform", "--log", "log"], "neither qlog");
}

#[test]
fn our_own_traces_are_judged_in_every_form_in_which_they_leave() {
    let dir = Dir::new("own");
    let run = [
        "run",
        "--quiet",
        "--rate",
        "10mbit",
        "--rtt",
        "40ms",
        "--buffer",
        "2bdp",
        "--duration",
        "14s",
        "--flow",
        "bbr3",
    ];
    let files = ["--qlog", "t.sqlog", "--csv", "t.csv"];
    assert_eq!(dir.bbrlab(&[&run[..], &files].concat()).status.code(), Some(0));
    fs::create_dir(dir.0.join("d")).unwrap();
    assert_eq!(dir.bbrlab(&[&run[..], &["--csv", "d", "--qlog", "t.qlog"]].concat()).status.code(), Some(0));
    for (log, phases) in [("t.sqlog", true), ("t.qlog", true), ("d/flows.csv", true), ("t.csv", false)] {
        let output = dir.bbrlab(&["conform", "--log", log, "--json", "j"]);
        let json: Value = serde_json::from_str(&dir.text("j")).unwrap();
        let checks = json["flows"][0]["checks"].as_array().unwrap();
        let of = |verdict: &str| checks.iter().filter(|check| check["verdict"] == verdict).count();
        assert_eq!(output.status.code(), Some(0), "{log}: {checks:#?}");
        let is_order = |check: &&Value| check["what"].as_str().is_some_and(|what| what.contains("diagram"));
        let order = checks.iter().find(is_order).unwrap();
        assert_eq!(order["verdict"] == "holds", phases, "{log}: {order}");
        assert!(of("holds") >= if phases { 12 } else { 3 }, "{log}: {checks:#?}");
    }
}

#[test]
fn samples_of_ss_are_judged_with_and_without_times() {
    let call = |bw: &str, gain: &str, cwnd: u32| {
        format!(
            "ESTAB 0 0 10.0.0.1:5201 10.0.0.2:4444\n\t bbr rtt:41/0.5 mss:1448 cwnd:{cwnd} bbr:(bw:{bw},mrtt:40,pacing_gain:{gain},\
             cwnd_gain:2) pacing_rate {bw} busy:100ms unacked:10 retrans:0/0 minrtt:40\n"
        )
    };
    let calls = [call("5Mbps", "2.77", 20), call("9.9Mbps", "0.5", 60), call("9.9Mbps", "1.25", 70)];
    let timed: String = calls.iter().zip(1..).map(|(call, t)| format!("{}.5\n{call}", 1_732_240_000 + t)).collect();
    let dir = Dir::new("ss").with("timed", &timed).with("plain", &calls.concat());
    for log in ["timed", "plain"] {
        let output = dir.bbrlab(&["conform", "--log", log, "--junit", "x.xml", "--report", "x.html"]);
        assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
        assert!(stdout(&output).contains("the output of ss -tin, 3 samples"));
        assert!(is_well_formed(&dir.text("x.xml")) && dir.text("x.html").contains("pacing"));
    }
}

#[test]
fn a_flow_that_breaks_the_drafts_order_fails() {
    let event = |t: u32, state: &str| {
        format!("{{\"time\":{t},\"name\":\"recovery:congestion_state_updated\",\"data\":{{\"new\":\"{state}\"}}}}\n")
    };
    let text = [event(0, "startup"), event(100, "probe_bw_up"), event(200, "drain")].concat();
    let dir = Dir::new("order").with("log", &text);
    let output = dir.bbrlab(&["conform", "--log", "log"]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
}
