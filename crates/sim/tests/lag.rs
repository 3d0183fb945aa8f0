//! The lag probe: its RTT follows the queue, it disturbs no flow's random numbers, and every form of the engine counts the same.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_sim::engine::{run, run_by_events};
use bbrlab_sim::record::result::{ProbeResult, RunResult};
use bbrlab_sim::scenario::Scenario;
use bbrlab_sim::setup::Setup;

fn setup(keys: &[(&str, &str)]) -> Setup {
    let mut scenario = Scenario::default();
    let base = [("rate", "20mbit"), ("rtt", "40ms"), ("duration", "10s"), ("probe", "20ms")];
    for (key, text) in base.iter().chain(keys) {
        scenario.set(key, text).unwrap();
    }
    scenario.resolve().unwrap()
}

fn probe(keys: &[(&str, &str)]) -> (ProbeResult, RunResult) {
    let result = run(&setup(keys)).result;
    (*result.probe.clone().unwrap(), result)
}

#[test]
fn on_an_idle_path_each_probe_takes_the_path_s_round_trip_and_its_own_serialisation() {
    let (probe, _) = probe(&[("flow", "cubic,size=1kB"), ("warmup", "1s")]);
    let rtt = probe.rtt_ms.unwrap();
    // 98 bytes at 20 Mbit/s take 39 µs.
    assert_eq!((rtt.min, rtt.max), (Some(40.039), 40.039));
    // From 1 s to 10 s; the last two would return after the end.
    assert_eq!((probe.sent, probe.lost), (448, 0));
    assert_eq!(probe.rpm, None, "no flow loads the path");
}

#[test]
fn rpm_falls_as_the_queue_grows() {
    let rpm = |buffer| probe(&[("flow", "cubic"), ("buffer", buffer), ("warmup", "2s")]).0.rpm.unwrap().rpm;
    let (shallow, deep, deepest) = (rpm("0.5bdp"), rpm("2bdp"), rpm("8bdp"));
    assert!(shallow > 1.2 * deep && deep > 1.2 * deepest, "{shallow} {deep} {deepest}");
    // No queue can make a round trip shorter than the path's.
    assert!(shallow < 1500.0, "{shallow}");
}

#[test]
fn a_probe_waits_in_the_flows_queue_and_passes_it_where_each_flow_has_its_own() {
    let p95 = |aqm| probe(&[("flow", "cubic"), ("buffer", "4bdp"), ("aqm", aqm)]).0.rtt_ms.unwrap().p95;
    assert!(p95("droptail") > 120.0, "{}", p95("droptail"));
    for aqm in ["fq_codel", "fq", "cake"] {
        assert!(p95(aqm) < 43.0, "{aqm}: {}", p95(aqm));
    }
}

#[test]
fn losses_of_probes_and_of_echoes_both_count() {
    let (probe, _) = probe(&[("flow", "cubic,size=1kB"), ("loss", "10%"), ("ack_loss", "20%"), ("duration", "100s")]);
    assert_eq!(probe.rtt_ms.as_ref().unwrap().p50.round(), 40.0);
    assert!((0.25..0.31).contains(&probe.loss_ratio), "{}", probe.loss_ratio);
}

#[test]
fn a_path_that_goes_down_loses_every_later_probe() {
    let keys = [("flow", "cubic,size=1kB"), ("schedule", "5s:loss=100%")];
    let (probe, _) = probe(&keys);
    assert!(probe.sent > 490 && probe.lost.abs_diff(probe.sent / 2) < 5, "{probe:?}");
}

#[test]
fn planning_ahead_counts_the_same_as_going_event_by_event() {
    for keys in [
        &[("flow", "bbr3"), ("flow", "cubic")][..],
        &[("flow", "cubic"), ("loss", "1%"), ("ack_loss", "5%")],
        &[("flow", "cubic"), ("aqm", "fq_codel"), ("jitter", "5ms")],
        &[("flow", "cubic"), ("schedule", "3s:rate=5mbit,rtt=80ms,ack_loss=10%")],
    ] {
        let setup = setup(keys);
        let (ahead, events) = (run(&setup), run_by_events(&setup));
        assert_eq!(ahead.result.probe, events.result.probe, "{keys:?}");
        assert_eq!(ahead.trace, events.trace, "{keys:?}");
    }
}

#[test]
fn a_probe_whose_echo_cannot_have_returned_is_not_lost() {
    let (probe, _) = probe(&[("flow", "cubic"), ("rtt", "30s"), ("duration", "29s"), ("probe", "1s")]);
    assert_eq!((probe.sent, probe.lost, probe.rtt_ms), (0, 0, None));
}
