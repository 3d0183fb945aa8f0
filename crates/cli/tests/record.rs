//! `bbrlab record` on a real kernel: it records, and leaves nothing behind, however it ends.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::{sleep, spawn};
use std::time::Duration;

/// Maximum time for the kernel to undo something.
const PATIENCE: Duration = Duration::from_secs(10);

fn start(out: &Path, seconds: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_bbrlab"))
        .args(["record", "--rate", "10mbit", "--rtt", "20ms", "--flow", "bbr1", "--flow", "cubic"])
        .args(["--duration", seconds, "--out"])
        .arg(out)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("bbrlab-record-{}-{name}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// Interfaces of the host's own network.
fn interfaces() -> BTreeSet<String> {
    fs::read_dir("/sys/class/net").unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Named network namespaces.
fn named() -> BTreeSet<String> {
    let entries = fs::read_dir("/run/netns").into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Held by each test that runs the tap: its programs have the same names in every process.
static TAP: Mutex<()> = Mutex::new(());

/// Number of loaded BPF programs with the tap's names, of all processes.
fn programs() -> usize {
    // Every loaded program has its symbol here.
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap();
    symbols.lines().filter(|line| line.contains("bpf_prog_") && line.contains("_tap_")).count()
}

fn holds_within(what: &str, is: impl Fn() -> bool) {
    let step = Duration::from_millis(50);
    for _ in 0..PATIENCE.as_millis() / step.as_millis() {
        if is() {
            return;
        }
        sleep(step);
    }
    panic!("{what}: not within {PATIENCE:?}");
}

/// Ends a recording half way with this signal; nothing may be left.
fn ended_by(signal: &str) {
    let _alone = TAP.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = scratch(signal);
    let before = (interfaces(), named());
    let mut child = start(&dir.join("out.tap"), "30s");
    holds_within("the tap is there", || programs() > 0);
    sleep(Duration::from_millis(700)); // until the flows have started
    let killed = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert!(!child.wait().unwrap().success());
    holds_within("the tap is gone", || programs() == 0);
    assert_eq!((interfaces(), named()), before);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "files of an ended recording");
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
#[ignore = "needs root, BPF and network namespaces"]
fn a_recording_replays_and_leaves_nothing() {
    let _alone = TAP.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = scratch("whole");
    let before = (interfaces(), named());
    let out = dir.join("out.tap");
    let mut child = start(&out, "1500ms");
    assert!(child.wait().unwrap().success());
    let replay = Command::new(env!("CARGO_BIN_EXE_bbrlab")).args(["replay", "--json"]).arg(&out).output().unwrap();
    let text = String::from_utf8(replay.stdout).unwrap();
    assert!(replay.status.success(), "{text}");
    assert!(text.contains("\"flows\": 2"), "{text}");
    holds_within("the tap is gone", || programs() == 0);
    assert_eq!((interfaces(), named()), before);
    fs::remove_dir_all(&dir).unwrap();
}

/// Goal: the host's own connections never reach a log, though they call the same functions of the kernel.
#[test]
#[ignore = "needs root, BPF and network namespaces"]
fn a_recording_has_only_its_own_connections() {
    let _alone = TAP.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = scratch("only");
    let out = dir.join("out.tap");
    let mut child = start(&out, "1500ms");
    let mut transfers = 0;
    while child.try_wait().unwrap().is_none() {
        transfer();
        transfers += usize::from(programs() > 0);
    }
    assert!(child.wait().unwrap().success() && transfers > 0);
    let replay = Command::new(env!("CARGO_BIN_EXE_bbrlab")).args(["replay", "--json"]).arg(&out).output().unwrap();
    let text = String::from_utf8(replay.stdout).unwrap();
    assert!(text.contains("\"flows\": 2"), "{text}");
    fs::remove_dir_all(&dir).unwrap();
}

/// Sends a megabyte over a connection of the host's default algorithm.
fn transfer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    let reading = spawn(move || receiver.read_to_end(&mut Vec::new()).unwrap());
    sender.write_all(&vec![0; 1 << 20]).unwrap();
    drop(sender);
    assert_eq!(reading.join().unwrap(), 1 << 20);
}

/// Goal: our programs decide the same in the kernel as the same code does here. A difference would be detected.
#[test]
#[ignore = "needs root, BPF and network namespaces"]
fn a_recording_of_ours_replays_bit_for_bit_and_a_changed_one_does_not() {
    let dir = scratch("ours");
    let out = dir.join("out.tap");
    let status = Command::new(env!("CARGO_BIN_EXE_bbrlab"))
        .args([
            "record",
            "--rate",
            "20mbit",
            "--rtt",
            "20ms",
            "--loss",
            "1%",
            "--flow",
            "bbr3-linux,pacing_margin_percent=5",
        ])
        .args(["--flow", "bbr1,program=bbrlab", "--flow", "cubic,program=bbrlab", "--duration", "1500ms", "--out"])
        .arg(&out)
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    let replay = || Command::new(env!("CARGO_BIN_EXE_bbrlab")).args(["replay", "--json"]).arg(&out).output().unwrap();
    let text = String::from_utf8(replay().stdout).unwrap();
    assert!(replay().status.success() && text.contains("\"flows\": 3"), "{text}");
    // The pacing rate of every ACK depends on the margin, so another margin is always detected.
    let (recorded, other) = (b"percent=5", b"percent=6");
    let log = fs::read(&out).unwrap();
    let at = log.windows(recorded.len()).position(|window| window == recorded).unwrap();
    let changed = [&log[..at], other, &log[at + recorded.len()..]].concat();
    fs::write(&out, changed).unwrap();
    assert_eq!(replay().status.code(), Some(1));
    // The kernel's own algorithm beside ours would give two kinds of log.
    let mixed = Command::new(env!("CARGO_BIN_EXE_bbrlab"))
        .args(["record", "--flow", "bbr3-linux", "--flow", "cubic", "--duration", "1s", "--out"])
        .arg(dir.join("mixed.tap"))
        .output()
        .unwrap();
    assert_eq!(mixed.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&mixed.stderr).contains("add program=bbrlab"));
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
#[ignore = "needs root, BPF and network namespaces"]
fn an_interrupted_recording_leaves_nothing() {
    ended_by("-INT");
}

#[test]
#[ignore = "needs root, BPF and network namespaces"]
fn a_killed_recording_leaves_nothing_in_the_kernel() {
    ended_by("-KILL");
}
