//! Runs behind CAKE: classes of traffic, hosts, and the reverse direction.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_sim::engine::run;
use bbrlab_sim::record::result::RunResult;
use bbrlab_sim::scenario::Scenario;

/// Runs flows for 20 s behind 20 Mbit/s, 40 ms and 4 BDP.
fn with(aqm: &str, flows: &[&str], keys: &[(&str, &str)]) -> RunResult {
    let mut scenario = Scenario::default();
    let path = [("rate", "20mbit"), ("rtt", "40ms"), ("buffer", "4bdp"), ("duration", "20s"), ("warmup", "5s")];
    for (key, text) in path.into_iter().chain([("aqm", aqm)]).chain(keys.iter().copied()) {
        scenario.set(key, text).unwrap();
    }
    for flow in flows {
        scenario.set("flow", flow).unwrap();
    }
    run(&scenario.resolve().unwrap()).result
}

fn mbps(result: &RunResult, flow: usize) -> f64 {
    result.flows[flow].goodput_bps / 1e6
}

fn rtt_p95(result: &RunResult, flow: usize) -> f64 {
    result.flows[flow].rtt_ms.as_ref().unwrap().p95
}

#[test]
fn a_flow_marked_ef_keeps_its_rate_and_waits_less_than_one_that_is_not() {
    let flows = |dscp: &str| [&format!("cubic,rate=4mbit{dscp}"), "cubic*8"].map(str::to_owned);
    let run = |flows: [String; 2]| with("cake:diffserv4", &flows.each_ref().map(String::as_str), &[]);
    let (marked, plain) = (run(flows(",dscp=EF")), run(flows("")));
    // Below voice's quarter of the rate, but above a ninth of it.
    assert!(mbps(&marked, 0) > 3.9 && mbps(&plain, 0) < 3.0, "{} {}", mbps(&marked, 0), mbps(&plain, 0));
    assert!(rtt_p95(&marked, 0) + 5.0 < rtt_p95(&plain, 0), "{} {}", rtt_p95(&marked, 0), rtt_p95(&plain, 0));
}

#[test]
fn bulk_traffic_leaves_the_link_to_the_rest() {
    let run = with("cake:diffserv4", &["cubic", "bbr3,dscp=LE"], &[]);
    assert!(mbps(&run, 0) > 8.0 * mbps(&run, 1), "{} {}", mbps(&run, 0), mbps(&run, 1));
    let one_tin = with("cake:besteffort", &["cubic", "bbr3,dscp=LE"], &[]);
    assert!(mbps(&one_tin, 0) < 1.3 * mbps(&one_tin, 1), "{} {}", mbps(&one_tin, 0), mbps(&one_tin, 1));
}

#[test]
fn hosts_share_equally_only_where_cake_counts_them() {
    let flows = ["cubic*4,host=1", "cubic,host=2"];
    let (hosts, alone) = (with("cake", &flows, &[]), with("cake:flows", &flows, &[]));
    assert!((8.5..10.5).contains(&mbps(&hosts, 4)), "{}", mbps(&hosts, 4));
    assert!((3.0..4.5).contains(&mbps(&alone, 4)), "{}", mbps(&alone, 4));
}

#[test]
fn classes_hold_on_the_reverse_link_too() {
    let up = ("up", "rate=5mbit,buffer=200p,aqm=cake:diffserv4");
    let run = with("cake", &["cubic,direction=up", "cubic,direction=up,dscp=CS1"], &[up]);
    // Linux's own: 6.1 times as much, by the medians of five runs.
    assert!(mbps(&run, 0) > 5.0 * mbps(&run, 1), "{} {}", mbps(&run, 0), mbps(&run, 1));
}

#[test]
fn a_changed_rate_changes_the_shares_of_the_tins() {
    let run = with("cake:diffserv4", &["cubic", "cubic,dscp=CS1"], &[("schedule", "1s:rate=5mbit")]);
    assert!((4.0..4.9).contains(&(mbps(&run, 0) + mbps(&run, 1))));
    assert!(mbps(&run, 0) > 6.0 * mbps(&run, 1), "{} {}", mbps(&run, 0), mbps(&run, 1));
}

#[test]
fn flows_that_can_be_marked_lose_nothing() {
    let run = with("cake", &["cubic,ecn=on"], &[]);
    assert_eq!(run.flows[0].retransmit_ratio, 0.0);
    assert!(run.bottleneck.marks > 0 && rtt_p95(&run, 0) < 50.0, "{:?}", run.bottleneck);
}
