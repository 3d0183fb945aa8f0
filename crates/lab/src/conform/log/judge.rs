//! Checks of a log against the draft's requirements. A requirement that the log cannot show is not applicable; the
//! missing data is named.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::State;

use super::{FlowLog, Phase, Sample};
use crate::conform::{CheckResult, Verdict};
use crate::expect::may_follow;
use bbrlab_stats::quantile::interpolated_percentile;

/// Check that fails on a state change that the draft does not have.
pub const ORDER: &str = "changes of phase that the draft's diagram does not have";
/// Pacing gains of the draft, and of Linux's v3 and v2 where they differ.
const GAINS: [(State, &[f64]); 6] = [
    (State::Startup, &[2.77, 2.885]),
    (State::Drain, &[0.5, 0.35]),
    (State::ProbeBwDown, &[0.9, 0.75]),
    (State::ProbeBwCruise, &[1.0]),
    (State::ProbeBwRefill, &[1.0]),
    (State::ProbeBwUp, &[1.25]),
];
/// Tolerance of a logged gain: three digits of precision and the pacing margin.
const GAIN_LOGGED: f64 = 0.02;
/// Tolerance of the median of pacing over estimate. Ours: both move between two events.
const GAIN_MEASURED: f64 = 0.1;
/// Source: draft `ProbeRTTInterval`, less a tick of a kernel's clock.
const INTERVAL_S: f64 = 4.99;
/// Source: draft `ProbeRTTDuration`, less the same.
const DURATION_S: f64 = 0.19;
/// Source: draft `MinPipeCwnd`.
const FLOOR_PACKETS: f64 = 4.0;
/// Rounds after which Drain must end, by the pseudo-code, plus one for the log's own resolution.
const DRAIN_ROUNDS: f64 = 5.0;
/// Packet size assumed if the log has none: a lower bound. Source: RFC 9000, the smallest datagram that a path must
/// carry.
const MSS_ASSUMED: f64 = 1_200.0;

/// Evaluates every requirement on one flow of a log.
pub fn judge(flow: &FlowLog) -> Vec<CheckResult> {
    let mut seen = vec![order(flow), startup_exit(flow), drain_length(flow)];
    seen.extend(GAINS.iter().map(|(state, gains)| gain(flow, *state, gains)));
    seen.extend([probe_rtt_interval(flow), probe_rtt_length(flow), probe_rtt_depth(flow)]);
    seen.extend([window_floor(flow), within_window(flow), window_gain(flow), min_rtt(flow)]);
    seen
}

fn not_shown(what: &str, missing: &str) -> CheckResult {
    CheckResult {
        what: what.to_owned(),
        expected: String::new(),
        measured: f64::NAN,
        unit: String::new(),
        verdict: Verdict::NotApplicable,
        reason: Some(format!("the log does not show it: {missing}")),
    }
}

fn shown(what: &str, unit: &str, measured: f64, min: Option<f64>, max: Option<f64>) -> CheckResult {
    let holds = !measured.is_nan() && min.is_none_or(|min| measured >= min) && max.is_none_or(|max| measured <= max);
    CheckResult {
        what: what.to_owned(),
        expected: crate::experiment::bounds_text(min, max, unit),
        measured,
        unit: unit.to_owned(),
        verdict: if holds { Verdict::Holds } else { Verdict::Fails },
        reason: None,
    }
}

const NO_PHASES: &str = "it names no phases of BBR";
const COARSE: &str = "it is sampled more rarely than once a round trip, so that phases may be missing";

/// Returns true if phases come from samples alone and these are too sparse.
fn is_coarse(flow: &FlowLog) -> bool {
    let gaps: Vec<f64> = flow.samples.windows(2).map(|pair| pair[1].t_s - pair[0].t_s).collect();
    let round = round_s(flow);
    flow.is_sampled && (!flow.is_timed || round.is_nan() || interpolated_percentile(&gaps, 50.0) > round)
}

/// Periods in phases: the phase, its beginning, its end, and true if the log shows the end.
fn visits(flow: &FlowLog) -> Vec<(Phase, f64, f64, bool)> {
    let last = flow.samples.last().map_or(0.0, |sample| sample.t_s);
    let ends = flow.phases.iter().skip(1).map(|(t_s, _)| (*t_s, true)).chain([(last, false)]);
    flow.phases
        .iter()
        .zip(ends)
        .map(|((begin, phase), (end, ended))| (*phase, *begin, end.max(*begin), ended))
        .collect()
}

fn of_state(flow: &FlowLog, state: State) -> Vec<(f64, f64, bool)> {
    let here = |(phase, begin, end, ended): (Phase, f64, f64, bool)| {
        (phase == Phase::Known(state)).then_some((begin, end, ended))
    };
    visits(flow).into_iter().filter_map(here).collect()
}

fn samples(flow: &FlowLog, from_s: f64, to_s: f64) -> &[Sample] {
    let begin = flow.samples.partition_point(|sample| sample.t_s < from_s);
    let end = flow.samples.partition_point(|sample| sample.t_s < to_s);
    &flow.samples[begin..end.max(begin)]
}

/// Smallest value that is not NaN; NaN if there is none.
fn min(values: impl Iterator<Item = f64>) -> f64 {
    values.filter(|value| !value.is_nan()).reduce(f64::min).unwrap_or(f64::NAN)
}

/// Round-trip time of the flow without queueing.
fn round_s(flow: &FlowLog) -> f64 {
    min(flow.samples.iter().flat_map(|sample| [sample.min_rtt_s, sample.rtt_s]).filter(|rtt| *rtt > 0.0))
}

fn order(flow: &FlowLog) -> CheckResult {
    let what = ORDER;
    let whole: Option<Vec<State>> = flow.phases.iter().map(|(_, phase)| phase.state()).collect();
    match whole {
        _ if flow.phases.len() < 2 => not_shown(what, NO_PHASES),
        _ if is_coarse(flow) => not_shown(what, COARSE),
        None => not_shown(what, "it does not distinguish the phases of ProbeBW"),
        Some(states) => {
            let stray = states.windows(2).filter(|pair| !may_follow(pair[0], pair[1])).count();
            shown(what, "", stray as f64, None, Some(0.0))
        }
    }
}

fn startup_exit(flow: &FlowLog) -> CheckResult {
    let what = "Startup ends in Drain (if only within an ACK), or in ProbeRTT";
    let Some(first) = flow.phases.iter().position(|(_, phase)| *phase == Phase::Known(State::Startup)) else {
        return not_shown(what, if flow.phases.is_empty() { NO_PHASES } else { "it begins after Startup" });
    };
    match flow.phases.get(first + 1) {
        None => not_shown(what, "it ends within Startup"),
        Some((_, next)) => {
            // If everything in flight fits, Drain ends with the ACK that begins it.
            let is_drawn = next.state().is_some_and(|next| may_follow(State::Startup, next)) || next.is_probe_bw();
            shown(what, "", f64::from(u8::from(is_drawn)), Some(1.0), None)
        }
    }
}

fn drain_length(flow: &FlowLog) -> CheckResult {
    let what = "longest Drain, in round trips";
    let drains: Vec<f64> = of_state(flow, State::Drain).into_iter().filter(|d| d.2).map(|(a, b, _)| b - a).collect();
    if flow.phases.is_empty() || drains.is_empty() {
        return not_shown(
            what,
            if flow.phases.is_empty() { NO_PHASES } else { "it holds no Drain from beginning to end" },
        );
    }
    // A queue of one BDP doubles the round trip.
    let round = of_state(flow, State::Drain)
        .iter()
        .flat_map(|(a, b, _)| samples(flow, *a, *b).iter().map(|sample| sample.rtt_s))
        .filter(|rtt| !rtt.is_nan())
        .fold(round_s(flow), f64::max);
    if !flow.is_timed || round.is_nan() {
        return not_shown(what, "it has no times or no RTTs");
    }
    if is_coarse(flow) {
        return not_shown(what, COARSE);
    }
    let longest = drains.into_iter().fold(0.0, f64::max);
    shown(what, "", longest / round, None, Some(DRAIN_ROUNDS))
}

/// Checks the pacing gain of a phase: as logged, or as the median of pacing over estimate.
fn gain(flow: &FlowLog, state: State, gains: &[f64]) -> CheckResult {
    let what = format!("pacing gain in {}", state.name());
    let inside: Vec<&Sample> = of_state(flow, state).iter().flat_map(|(a, b, _)| samples(flow, *a, *b)).collect();
    if inside.is_empty() {
        return not_shown(&what, if flow.phases.is_empty() { NO_PHASES } else { "it holds no sample of that phase" });
    }
    let logged: Vec<f64> = inside.iter().map(|s| s.pacing_gain).filter(|gain| !gain.is_nan()).collect();
    let ratios: Vec<f64> = inside.iter().map(|s| s.pacing_bps / s.bw_bps).filter(|gain| gain.is_finite()).collect();
    // Startup never lowers the pacing rate (draft SetPacingRateWithGain), so pacing over estimate has no upper bound there.
    let has_most = state != State::Startup || !logged.is_empty();
    let (values, slack) = if logged.is_empty() { (ratios, GAIN_MEASURED) } else { (logged, GAIN_LOGGED) };
    if values.is_empty() {
        return not_shown(&what, "it holds neither gains nor both pacing rate and estimate");
    }
    let median = interpolated_percentile(&values, 50.0);
    // Compares with the edition whose gain is nearest.
    let off = |gain: &f64| (median - gain).abs();
    let nearest = gains.iter().copied().min_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or(1.0);
    shown(&what, "", median, Some(nearest * (1.0 - slack)), has_most.then_some(nearest * (1.0 + slack)))
}

fn probe_rtt_interval(flow: &FlowLog) -> CheckResult {
    let what = "shortest time between two ProbeRTTs";
    let probes = of_state(flow, State::ProbeRtt);
    if flow.phases.is_empty() || !flow.is_timed {
        return not_shown(what, if flow.is_timed { NO_PHASES } else { "it has no times" });
    }
    if probes.len() < 2 {
        return not_shown(what, "it holds fewer than two ProbeRTTs");
    }
    let shortest = min(probes.windows(2).map(|pair| pair[1].0 - pair[0].1));
    shown(what, "s", shortest, Some(INTERVAL_S), None)
}

fn probe_rtt_length(flow: &FlowLog) -> CheckResult {
    let what = "shortest ProbeRTT";
    let probes = of_state(flow, State::ProbeRtt);
    let whole: Vec<f64> = probes.into_iter().filter(|p| p.2).map(|(a, b, _)| b - a).collect();
    if flow.phases.is_empty() || !flow.is_timed {
        return not_shown(what, if flow.is_timed { NO_PHASES } else { "it has no times" });
    }
    if whole.is_empty() {
        return not_shown(what, "it holds no ProbeRTT from beginning to end");
    }
    // At least the minimum duration, and at least a round trip.
    let round = round_s(flow);
    let least_s = if round.is_nan() { DURATION_S } else { DURATION_S.max(round) };
    shown(what, "s", min(whole.into_iter()), Some(least_s), None)
}

fn probe_rtt_depth(flow: &FlowLog) -> CheckResult {
    let what = "minimum in flight in ProbeRTT over its target";
    let mss = flow.mss.unwrap_or(MSS_ASSUMED);
    let mut worst = f64::NAN;
    for (begin, end, ended) in of_state(flow, State::ProbeRtt) {
        let inside = samples(flow, begin, end);
        let bdp = inside.first().map_or(f64::NAN, |s| s.bw_bps / 8.0 * s.min_rtt_s);
        let lowest = min(inside.iter().map(|sample| sample.inflight));
        // A flow that keeps BBRv1's four packets is below half a BDP as well.
        if ended && !bdp.is_nan() && !lowest.is_nan() {
            worst = (lowest / (bdp / 2.0).max(FLOOR_PACKETS * mss)).max(worst);
        }
    }
    if worst.is_nan() {
        return not_shown(what, "it holds no whole ProbeRTT with what is in flight, estimate and minimum RTT");
    }
    shown(what, "", worst, None, Some(1.05))
}

fn window_floor(flow: &FlowLog) -> CheckResult {
    let what = "smallest window";
    let smallest = min(flow.samples.iter().map(|sample| sample.cwnd));
    match flow.mss {
        _ if smallest.is_nan() => not_shown(what, "it holds no window"),
        None => not_shown(what, "it holds no packet size"),
        Some(mss) => shown(what, "packets", smallest / mss, Some(FLOOR_PACKETS), None),
    }
}

fn within_window(flow: &FlowLog) -> CheckResult {
    let what = "share of samples with more in flight than the window and a packet";
    let mss = flow.mss.unwrap_or(MSS_ASSUMED);
    let known = flow.samples.iter().filter(|sample| !(sample.cwnd + sample.inflight).is_nan());
    let (all, over) = known.fold((0.0, 0.0), |(all, over), sample| {
        (all + 1.0, over + f64::from(u8::from(sample.inflight > sample.cwnd + mss)))
    });
    if all == 0.0 {
        return not_shown(what, "it holds no window, or not what is in flight");
    }
    // After the window shrinks, the amount in flight exceeds it for a round trip.
    shown(what, "", over / all, None, Some(0.1))
}

fn window_gain(flow: &FlowLog) -> CheckResult {
    let what = "median of the window in ProbeBW over the BDP";
    let in_probe_bw = |(phase, begin, end, _): (Phase, f64, f64, bool)| phase.is_probe_bw().then_some((begin, end));
    let spells: Vec<(f64, f64)> = visits(flow).into_iter().filter_map(in_probe_bw).collect();
    let floor = FLOOR_PACKETS * flow.mss.unwrap_or(MSS_ASSUMED);
    // A missing BDP is no BDP of zero, which `max` would make of it.
    let ratio = |sample: &Sample| {
        let bdp = sample.bw_bps / 8.0 * sample.min_rtt_s;
        if bdp.is_nan() { f64::NAN } else { sample.cwnd / bdp.max(floor / 2.0) }
    };
    let values: Vec<f64> = spells
        .iter()
        .flat_map(|(begin, end)| samples(flow, *begin, *end))
        .map(ratio)
        .filter(|ratio| ratio.is_finite())
        .collect();
    if values.is_empty() {
        return not_shown(what, "it holds no ProbeBW with window, estimate and minimum RTT");
    }
    // Two BDPs; less if loss set a bound, more with the allowance for aggregated ACKs and three bursts.
    shown(what, "", interpolated_percentile(&values, 50.0), Some(0.5), Some(6.0))
}

fn min_rtt(flow: &FlowLog) -> CheckResult {
    let what = "samples whose minimum RTT is above the newest RTT by more than a tenth";
    let known: Vec<&Sample> = flow.samples.iter().filter(|s| !(s.rtt_s + s.min_rtt_s).is_nan()).collect();
    if known.is_empty() {
        return not_shown(what, "it holds no minimum RTT beside RTTs");
    }
    // Half a millisecond allows for clocks that count in milliseconds.
    let above = known.iter().filter(|s| s.min_rtt_s > s.rtt_s * 1.1 + 0.0005).count();
    shown(what, "", above as f64 / known.len() as f64, None, Some(0.02))
}
