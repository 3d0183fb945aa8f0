//! Tests of the translation to `ip` and `tc`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use bbrlab_sim::scenario::Scenario;

fn planned(keys: &[(&str, &str)]) -> Plan {
    let mut scenario = Scenario::default();
    keys.iter().for_each(|(key, text)| scenario.set(key, text).unwrap());
    plan(&scenario.resolve().unwrap()).unwrap()
}

#[test]
fn cake_is_the_shaper_and_hosts_have_addresses_of_their_own() {
    let flows = ["cubic,host=1", "cubic,host=2", "cubic,host=1", "cubic"].map(|flow| ("flow", flow));
    let path = [("rate", "20mbit"), ("buffer", "100p"), ("aqm", "cake:diffserv4,rtt=50ms")];
    let mut plan = planned(&[&path[..], &flows].concat());
    let line = "root handle 1: cake bandwidth 20000000bit diffserv4 triple-isolate rtt 50000.000us memlimit 228000";
    assert_eq!(plan.disciplines["n0"].trim(), format!("qdisc add dev l0 {line}"));
    let ends: Vec<(u8, u8)> = plan.ends.iter().map(|end| (end.from.octets()[3], end.to.octets()[3])).collect();
    assert_eq!(ends, [(1, 1), (2, 2), (3, 1), (4, 3)]);
    let what = ChangeKind::Rate(Rate::bits_per_sec(5_000_000));
    let changed = plan.change(&Change { at: bbrlab_core::Time::ZERO, link: 0, what });
    assert!(changed[0].1.starts_with("qdisc change dev l0 root handle 1: cake bandwidth 5000000bit"), "{changed:?}");
}

#[test]
fn without_cake_equal_flows_share_their_addresses() {
    let plan = planned(&[("flow", "cubic,host=1"), ("flow", "bbr1"), ("aqm", "codel")]);
    assert_eq!((plan.ends[0].from, plan.ends[0].to), (plan.ends[1].from, plan.ends[1].to));
    assert!(plan.disciplines["n0"].contains(" tbf ") && plan.disciplines["n0"].contains(" codel "));
}
