//! `bbrlab ab start --rule`: a policy's holdout is compared with the clients that the rule takes, and a guardrail withdraws the rule.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::process::Child;
use std::time::Duration;

use bbrlab_study::ab::{Assigner, AssignmentUnit, PrefixLengths};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage, setsockopt, sockopt};

use crate::place::*;

const POLICY: &str = r#"
default = "cubic"
[[rule]]
name = "others"
clients = ["127.200.0.0/16"]
algorithm = "reno"
[[rule]]
name = "near"
rtt = "< 1s"
algorithm = "reno"
holdout = "50%"
"#;

/// A connection of a client at this address.
fn connect_from(from: IpAddr, listener: &TcpListener) -> Pair {
    let client = socket::socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None).unwrap();
    socket::bind(client.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(from, 0))).unwrap();
    socket::connect(client.as_raw_fd(), &SockaddrStorage::from(listener.local_addr().unwrap())).unwrap();
    let (server, from) = listener.accept().unwrap();
    Pair { client: client.into(), server, from, pause: Duration::ZERO }
}

/// A client of another network each time.
fn client(nth: usize) -> IpAddr {
    [127, 1 + (nth / 250) as u8, (nth % 250) as u8, 9].into()
}

fn ended(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn the_holdout_of_a_rule_is_the_control_and_nothing_is_assigned() {
    inside!("rule::the_holdout_of_a_rule_is_the_control_and_nothing_is_assigned");
    let place = Place::new("rule");
    // Both ends of a connection are here: the one that opens it has the server for a client.
    place.apply(&format!("connections = \"both\"{POLICY}"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let child = place.start_with(&["--rule", "near"]);
    let key = fs::read_to_string(place.out().join("key")).unwrap().parse().unwrap();
    let assigner = Assigner { key, by: AssignmentUnit::ClientPrefix, keep: PrefixLengths::default() };
    let mut seen = [0_u64; 2];
    for nth in 0..400 {
        let mut pair = connect_from(client(nth), &listener);
        let here = listener.local_addr().unwrap();
        for (own, from, to) in [(pair.used(), pair.from, here), (name_of(&pair.client), here, pair.from)] {
            let is_control = assigner.bucket(from, to, 0) < 5_000;
            assert_eq!(own, if is_control { "cubic" } else { "reno" });
            seen[usize::from(!is_control)] += 1;
        }
        pair.carry(20_000);
        pair.close();
    }
    // Accepted under another rule, and by an application that chose for itself; the ends that open them are in the test.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    setsockopt(&other, sockopt::TcpCongestion, &"reno".into()).unwrap();
    for pair in [connect_from([127, 200, 0, 1].into(), &listener), connect_from([127, 100, 0, 1].into(), &other)] {
        seen[usize::from(name_of(&pair.client) == "reno")] += 1;
        assert_eq!(pair.used(), "reno");
        pair.close();
    }
    let refused = place.bbrlab(&["ab", "split", "10,90"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("the holdout of rule near"), "{refused:?}");
    interrupt(child);
    let report = place.report();
    assert_eq!(report["connections"], 802);
    assert_eq!(report["arms"][0]["connections"], seen[0]);
    for arm in report["arms"].as_array().unwrap() {
        assert_eq!((&arm["refused"], &arm["overridden"]), (&0.into(), &0.into()), "{arm}");
    }
    assert_eq!(report["sample_ratio"]["is_mismatch"], false, "{report:#}");
    assert!(report["notes"].to_string().contains("holdout of rule near"), "{report:#}");
    assert_eq!(place.status()["rules"][1]["held_out"], seen[0]);
    place.policy(&["remove"]);
    place.assert_no_policy();
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn a_rule_that_harms_is_withdrawn_and_stays_so_until_it_is_reinstated() {
    inside!("rule::a_rule_that_harms_is_withdrawn_and_stays_so_until_it_is_reinstated");
    let place = Place::new("withdrawn");
    place.apply(POLICY);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut child = place.start_with(&["--rule", "near", "--withdraw"]);
    let mut served = 0;
    while child.try_wait().unwrap().is_none() {
        for nth in 0..100 {
            let mut pair = connect_from(client(served + nth), &listener);
            // Loopback makes no algorithm slow; a client that reads late does.
            pair.pause = if pair.used() == "reno" { Duration::from_millis(20) } else { Duration::ZERO };
            pair.carry(2_000_000);
            pair.close();
        }
        served += 100;
        assert!(served < 3_000, "nothing was withdrawn");
    }
    let said = ended(child);
    assert!(said.contains("rule near was withdrawn: reno"), "{said}");
    let used = |address: IpAddr| {
        let pair = connect_from(address, &listener);
        let used = pair.used();
        pair.close();
        used
    };
    assert!((0..50).all(|nth| used(client(nth)) == "cubic"));
    assert_eq!(used([127, 200, 0, 1].into()), "reno", "the other rule stays");
    let rule = &place.status()["rules"][1];
    assert!(rule["withdrawn"].as_str().unwrap().starts_with("reno"), "{rule}");
    assert!(rule["taken"].as_u64().unwrap() > 100, "counters go on: {rule}");
    assert!(place.policy(&["explain", "127.0.0.1"]).contains("withdrawn"));
    let again = place.bbrlab(&["ab", "start", "--rule", "near", "--out", "again"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("--reinstate"));
    assert!(place.apply(POLICY).contains("still withdrawn, see --reinstate: near"));
    assert!((0..50).all(|nth| used(client(nth)) == "cubic"));
    let text = place.policy(&["apply", "policy.toml", "--reinstate", "--cgroup", &place.below()]);
    assert!(!text.contains("withdrawn"), "{text}");
    assert!((0..50).any(|nth| used(client(nth)) == "reno"));
    place.policy(&["remove"]);
    place.assert_no_policy();
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn a_test_of_a_rule_ends_with_its_policy() {
    inside!("rule::a_test_of_a_rule_ends_with_its_policy");
    let place = Place::new("ends");
    for (name, why) in
        [("far", "it has others, near"), ("others", "holds no client out"), ("near", "no policy is in force")]
    {
        if name == "near" {
            place.policy(&["remove"]);
        } else {
            place.apply(POLICY);
        }
        let refused = place.bbrlab(&["ab", "start", "--rule", name, "--out", "none"]);
        assert_eq!(refused.status.code(), Some(2));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains(why) && said.lines().count() == 1, "{said}");
        assert!(!place.dir.join("none").exists());
    }
    for end in ["replace", "remove"] {
        place.apply(POLICY);
        let child = place.start_with(&["--rule", "near"]);
        if end == "remove" {
            place.policy(&["remove"]);
        } else {
            place.apply(&POLICY.replace("50%", "40%"));
        }
        let said = ended(child);
        assert!(said.contains("the policy was replaced, or is no longer in force"), "{said}");
        fs::remove_dir_all(place.out()).unwrap();
    }
    place.policy(&["remove"]);
    place.assert_no_policy();
}
