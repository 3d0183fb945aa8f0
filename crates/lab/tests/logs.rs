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
