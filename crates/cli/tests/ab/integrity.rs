//! A test compares what it says it compares, whatever happens to it or to its arms.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::place::*;

#[test]
#[ignore = "needs the right to load BPF programs"]
fn a_command_that_hangs_gives_new_connections_the_default() {
    inside!("integrity::a_command_that_hangs_gives_new_connections_the_default");
    let place = Place::new("hangs");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let child = place.start(&listener, &["--arms", "reno,reno"]);
    assert_eq!(connect(&listener).used(), "reno");
    let pid = Pid::from_raw(child.id().cast_signed());
    kill(pid, Signal::SIGSTOP).unwrap();
    thread::sleep(Duration::from_secs(11));
    assert_eq!(connect(&listener).used(), default());
    kill(pid, Signal::SIGCONT).unwrap();
    thread::sleep(Duration::from_millis(500));
    assert_eq!(connect(&listener).used(), "reno");
    let (_, said) = interrupt(child);
    assert!(said.contains("this command did not run for a while"), "{said}");
    assert_eq!(place.report()["connections"], 2);
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn an_arm_keeps_its_parameters_and_cannot_become_the_default_in_silence() {
    inside!("integrity::an_arm_keeps_its_parameters_and_cannot_become_the_default_in_silence");
    let place = Place::new("arms");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let load = place.bbrlab(&["host", "load", "bbr3-linux,beta=0.6"]);
    assert!(load.status.success(), "{}", String::from_utf8_lossy(&load.stderr));
    // Its own copy, as the loaded one has other parameters; and the loaded one, by its name.
    let child = place.start(&listener, &["--arms", "reno,bbr3-linux,bbr3_linux"]);
    let test: serde_json::Value =
        serde_json::from_slice(&fs::read(place.out().join("experiment.json")).unwrap()).unwrap();
    let arms = test["arms"].as_array().unwrap();
    let is = |arm: usize, algorithm: &str, name: &str, own: bool| {
        assert_eq!((&arms[arm]["algorithm"], &arms[arm]["name"]), (&algorithm.into(), &name.into()), "{test}");
        assert_eq!(arms[arm]["is_loaded_for_it"], own, "{test}");
    };
    is(1, "bbr3-linux", "bbr3_linux.2", true);
    is(2, "bbr3-linux,beta=0.6", "bbr3_linux", false);
    let status = String::from_utf8(place.bbrlab(&["host", "status"]).stdout).unwrap();
    assert!(status.contains("in tests   bbr3_linux.2") && !status.contains("others'"), "{status}");
    let unload = place.bbrlab(&["host", "unload", "bbr3_linux"]);
    let said = String::from_utf8(unload.stderr).unwrap();
    assert_eq!(unload.status.code(), Some(2), "{said}");
    assert!(said.starts_with("bbrlab: bbr3_linux: a test uses it") && said.lines().count() == 1, "{said}");
    let other = place.bbrlab(&["ab", "start", "--arms", "reno,bbr3_linux.2", "--multi", "--out", "second"]);
    let said = String::from_utf8(other.stderr).unwrap();
    assert!(other.status.code() == Some(2) && said.contains("another test has loaded it"), "{said}");
    // Somebody else takes it away.
    fs::remove_dir_all("/sys/fs/bpf/bbrlab/bbr3_linux").unwrap();
    thread::sleep(Duration::from_secs(3));
    assert!(!available().split_whitespace().any(|name| name == "bbr3_linux"), "{}", available());
    let status = String::from_utf8(place.bbrlab(&["ab", "status"]).stdout).unwrap();
    assert!(status.contains("bbr3_linux was stopped: bbr3_linux was unloaded"), "{status}");
    let (_, said) = interrupt(child);
    assert!(said.contains("was stopped: bbr3_linux was unloaded"), "{said}");
    assert!(place.report()["notes"].to_string().contains("was unloaded, or replaced, during the test"));
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn what_a_full_disk_lost_is_known_after_a_kill() {
    inside!("integrity::what_a_full_disk_lost_is_known_after_a_kill");
    let place = Place::new("lost");
    fs::create_dir(place.out()).unwrap();
    run("mount", &["-t", "tmpfs", "-o", "size=64k", "none", place.out().to_str().unwrap()]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // A connection that is open when records are taken has two, and both may be lost: here each must have one.
    let mut child = place.start(&listener, &["--arms", "cubic,reno", "--every", "1h"]);
    for _ in 0..600 {
        let mut pair = connect(&listener);
        pair.carry(1_000);
        pair.close();
    }
    thread::sleep(Duration::from_secs(1));
    let filler = fs::File::create(place.out().join("filler")).unwrap();
    while (&filler).write(&[0; 512]).is_ok_and(|written| written > 0) {}
    drop(filler);
    for _ in 0..100 {
        let mut pair = connect(&listener);
        pair.carry(1_000);
        pair.close();
    }
    thread::sleep(Duration::from_secs(4));
    child.kill().unwrap();
    child.wait().unwrap();
    let report = place.report();
    let kept = report["connections"].as_u64().unwrap();
    let lost = report["counts"]["disk_lost"].as_u64().unwrap();
    assert!(kept > 0 && lost >= 100 && kept + lost == 700, "{kept} and {lost}");
    assert!(report["notes"].to_string().contains("connections were lost"), "{}", report["notes"]);
    assert_eq!(
        report["arms"][0]["no_record"].as_u64().unwrap() + report["arms"][1]["no_record"].as_u64().unwrap(),
        lost
    );
    run("umount", &[place.out().to_str().unwrap()]);
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn a_running_test_has_given_up_the_rights_that_it_does_not_need() {
    inside!("integrity::a_running_test_has_given_up_the_rights_that_it_does_not_need");
    let place = Place::new("rights");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let child = place.start(&listener, &["--arms", "cubic,bbr3-linux"]);
    // CAP_DAC_OVERRIDE, NET_ADMIN, SYS_PTRACE, SYS_ADMIN, PERFMON and BPF.
    let needed = [1, 12, 19, 21, 38, 39].iter().fold(0_u64, |all, bit| all | 1 << bit);
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    for thread in threads {
        let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().to_owned()
        };
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            let held = u64::from_str_radix(&field(set), 16).unwrap();
            assert_eq!(held & !needed, 0, "{set} {held:x}");
        }
        assert_eq!(field("NoNewPrivs:"), "1");
    }
    interrupt(child);
    place.assert_nothing_acts();
}
