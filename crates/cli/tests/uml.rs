//! `--on uml`: the command on a real kernel in virtual time. Ignored unless asked for, because the kernel must be built
//! (`make uml`).
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

fn bbrlab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bbrlab")).args(args).output().expect("the command starts")
}

fn result(args: &[&str]) -> Value {
    let output = bbrlab(&[&["run", "--on", "uml", "--json", "-"], args].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn refusal(args: &[&str]) -> String {
    let output = bbrlab(&[&["run", "--on", "uml"], args].concat());
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr).expect("text")
}

#[test]
#[ignore = "needs the kernel of make uml"]
fn one_bbr_flow_fills_its_link_with_the_queue_that_linux_leaves() {
    let result =
        result(&["--rate", "10mbit", "--rtt", "40ms", "--buffer", "267p", "--flow", "bbr1", "--duration", "20s"]);
    let flow = &result["flows"][0];
    let goodput = flow["goodput_bps"].as_f64().unwrap();
    let rtt = flow["rtt_ms"]["mean"].as_f64().unwrap();
    assert!((9.3e6..9.57e6).contains(&goodput), "{goodput}");
    assert!((45.0..54.0).contains(&rtt), "{rtt}");
    assert_eq!((&result["on"], result["bottleneck"]["drops"].as_u64()), (&Value::from("uml"), Some(0)));
}

#[test]
#[ignore = "needs the kernel of make uml"]
fn a_transfer_ends_when_its_last_byte_has_arrived() {
    let result = result(&["--rate", "10mbit", "--rtt", "40ms", "--flow", "cubic,size=100kB", "--duration", "5s"]);
    let flow = &result["flows"][0];
    assert_eq!(flow["bytes"].as_u64(), Some(100_000));
    let fct = flow["fct_s"].as_f64().unwrap();
    assert!((0.17..0.22).contains(&fct), "{fct}");
}

/// Types of the blocks of a pcapng file, in order.
fn blocks(file: &[u8]) -> Vec<u32> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut kinds) = (0, Vec::new());
    while at < file.len() {
        kinds.push(word(at));
        at += word(at + 4) as usize;
    }
    kinds
}

#[test]
#[ignore = "needs the kernel of make uml"]
fn a_capture_holds_every_packet_of_the_sender_up_to_its_limit() {
    let dir = std::env::temp_dir().join(format!("bbrlab-uml-pcap-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("sender.pcapng");
    let packets = |limit: &str| {
        let path = file.to_str().unwrap();
        let flags = ["--flow", "cubic,size=100kB", "--duration", "3s", "--pcap", path, "--pcap-limit", limit];
        let output = bbrlab(&[&["run", "--on", "uml", "-q"], &flags[..]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let count = blocks(&std::fs::read(&file).unwrap()).iter().filter(|kind| **kind == 6).count();
        (count, String::from_utf8(output.stderr).unwrap())
    };
    let (all, said) = packets("1000");
    // SYN, 70 segments, FIN perhaps; an ACK for two of them at least.
    assert!((71 + 36..=73 + 73).contains(&all), "{all} packets; {said}");
    let (some, said) = packets("50");
    assert!(some == 50 && said.contains("50 packets were recorded"), "{some} packets; {said}");
    // A directory gets what a real kernel's path shows: the sender's side.
    let output = bbrlab(&["run", "--on", "uml", "-q", "--duration", "1s", "--pcap", &format!("{}/", dir.display())]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(names, ["sender.pcapng"]);
}

#[test]
#[ignore = "needs the kernel of make uml"]
fn a_schedule_changes_the_path() {
    let args =
        ["--rate", "10mbit", "--rtt", "20ms", "--flow", "cubic", "--duration", "20s", "--schedule", "10s:rate=30mbit"];
    let goodput = result(&args)["flows"][0]["goodput_bps"].as_f64().unwrap();
    assert!((18e6..20e6).contains(&goodput), "{goodput}");
}

#[test]
#[ignore = "needs the kernel of make uml"]
fn a_policer_drops_what_exceeds_its_rate() {
    let result = result(&[
        "--rate",
        "100mbit",
        "--rtt",
        "40ms",
        "--policer",
        "rate=10mbit,burst=50kB",
        "--flow",
        "cubic",
        "--duration",
        "20s",
    ]);
    let goodput = result["flows"][0]["goodput_bps"].as_f64().unwrap();
    assert!((4e6..9.7e6).contains(&goodput), "{goodput}");
    assert!(result["bottleneck"]["drops"].as_u64().unwrap() > 10);
}

#[test]
fn what_a_kernel_cannot_express_is_refused_in_one_line() {
    if bbrlab(&["run", "--on", "uml", "--duration", "1s", "--flow", "fixed"]).status.code() != Some(2) {
        panic!("a kernel has no fixed window");
    }
    for args in [&["--ack-aggregation", "20ms"][..], &["--flow", "bbr1,pacing_gain_up=1.5"], &["--reorder", "1%"]] {
        let said = refusal(args);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.starts_with("bbrlab: --on uml: "), "{said}");
    }
}

#[test]
#[ignore = "needs the kernel of make uml"]
fn a_killed_command_leaves_no_kernel_running_and_the_next_one_removes_its_directory() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_bbrlab"))
        .args(["run", "--on", "uml", "--duration", "600s"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    std::thread::sleep(Duration::from_secs(2));
    let exchange = format!("bbrlab-uml-{}-0", child.id());
    assert!(uses(&exchange) > 0, "a kernel runs");
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    let gone = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        uses(&exchange) == 0
    });
    assert!(gone, "the kernel outlives its command");
    result(&["--rate", "1mbit", "--duration", "1s", "--flow", "bbr1"]);
    assert!(!std::env::temp_dir().join(&exchange).exists());
}

/// Processes whose command line holds `text`.
fn uses(text: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let lines = entries.flatten().filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(text)).count()
}
