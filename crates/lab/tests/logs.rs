//! Logs of real stacks, recorded over loopback by tools/logs: they can be parsed, and yield the expected evidence.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_lab::conform::{CheckResult, Verdict, log};

fn judged(text: &str) -> (log::Log, Vec<CheckResult>) {
    let log = log::read(text).unwrap();
    let seen = log::judge(&log.flows[0]);
    (log, seen)
}

fn of<'a>(seen: &'a [CheckResult], what: &str) -> &'a CheckResult {
    seen.iter().find(|seen| seen.what.contains(what)).unwrap()
}

#[test]
fn s2n_quics_bbr_keeps_the_order_of_phases() {
    let (log, seen) = judged(include_str!("data/logs/s2n-quic.sqlog"));
    let flow = &log.flows[0];
    assert!(flow.samples.len() > 50 && flow.phases.len() > 3 && !flow.losses.is_empty());
    assert_eq!(of(&seen, "diagram").verdict, Verdict::Holds, "{:?}", flow.phases);
    assert_eq!(of(&seen, "more in flight than the window").verdict, Verdict::Holds);
    assert_eq!(of(&seen, "minimum RTT").verdict, Verdict::Holds);
    let reason = of(&seen, "minimum in flight in ProbeRTT").reason.clone();
    assert!(reason.is_some_and(|reason| reason.contains("the log does not show it")));
}

#[test]
fn noqs_own_qlog_is_read_as_it_writes_it() {
    let (log, seen) = judged(include_str!("data/logs/noq.sqlog"));
    let flow = &log.flows[0];
    assert!(flow.samples.len() > 100 && flow.phases.is_empty() && flow.mss == Some(1_472.0));
    assert_eq!(of(&seen, "smallest window").verdict, Verdict::Holds);
    assert_eq!(of(&seen, "diagram").verdict, Verdict::NotApplicable, "it names no phases");
    assert!(seen.iter().all(|seen| seen.verdict != Verdict::Fails), "{seen:?}");
}

#[test]
fn quiches_bbr2_is_read_with_its_own_units_of_rates_and_its_losses() {
    let (log, seen) = judged(include_str!("data/logs/quiche.sqlog"));
    let flow = &log.flows[0];
    assert!(flow.samples.len() > 600 && flow.phases.len() == 7 && flow.losses.len() == 9, "{:?}", flow.phases);
    assert_eq!(of(&seen, "diagram").verdict, Verdict::Holds, "{:?}", flow.phases);
    for state in ["startup", "drain", "probe_bw_down", "probe_bw_cruise", "probe_bw_refill", "probe_bw_up"] {
        assert_eq!(of(&seen, &format!("pacing gain in {state}")).verdict, Verdict::Holds, "{state}");
    }
    assert_eq!(of(&seen, "over the BDP").verdict, Verdict::Holds);
    // The link had 2 Mbit/s, of which headers take some.
    let estimate_bps = flow.samples.last().unwrap().bw_bps;
    assert!((1.8e6..2.0e6).contains(&estimate_bps), "{estimate_bps}");
}

#[test]
fn without_an_estimate_there_is_no_ratio_to_the_bdp() {
    let text = include_str!("data/logs/quiche.sqlog").replace("cf_delivery_rate", "cf_other");
    let (_, seen) = judged(&text);
    assert_eq!(of(&seen, "over the BDP").verdict, Verdict::NotApplicable);
    assert_eq!(of(&seen, "pacing gain in startup").verdict, Verdict::NotApplicable);
}
