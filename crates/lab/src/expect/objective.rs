//! Score of a run, for flows named by a prefix: rate, delay, retransmissions, others' share and fairness in one number.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_sim::metrics::jain;
use bbrlab_sim::record::result::FlowResult;
use bbrlab_sim::setup::{Change, ChangeKind, FlowSetup, Setup, Traffic};
use bbrlab_study::choose::objective::{Objective, Terms};
use bbrlab_study::sweep::loss;

use super::RunView;
use crate::Result;

/// Payload of a full packet over its bytes on the wire: 1448/1514.
const EFFICIENCY: f64 = 1448.0 / 1514.0;
/// Round trips of an ideal short transfer: the handshake, and slow start. Ours.
const ROUNDS: f64 = 4.0;
/// Margin of random loss that counts as the path's, not the sender's. Ours.
const LOSS_MARGIN: f64 = 1.05;

/// Prefix of the names of the flows under test.
pub const OWN: &str = "own";

/// Mean of a link property over the measured time, weighted by its duration.
fn over_time(setup: &Setup, first: f64, of: impl Fn(&Change) -> Option<f64>) -> f64 {
    let (from, to) = (setup.warmup.as_nanos(), setup.duration.as_nanos());
    let (mut value, mut since, mut sum) = (first, from, 0.0);
    for change in &setup.schedule {
        let Some(next) = of(change) else { continue };
        let at = change.at.as_nanos().clamp(from, to);
        sum += value * (at - since) as f64;
        (value, since) = (next, at);
    }
    sum += value * (to - since) as f64;
    sum / (to - from).max(1) as f64
}

/// Capacity of the bottleneck for payload, bits per second: the mean of its rate, or the policer's if that is lower, less the
/// random loss.
pub fn capacity_bps(setup: &Setup) -> f64 {
    let link = &setup.links[setup.bottleneck];
    let rate = over_time(setup, link.service.nominal_rate().as_bytes_per_sec() as f64, |change| match change.what {
        ChangeKind::Rate(rate) if change.link == setup.bottleneck => Some(rate.as_bytes_per_sec() as f64),
        _ => None,
    });
    let policed = link.policer.map_or(rate, |policer| rate.min(policer.rate.as_bytes_per_sec() as f64));
    8.0 * policed * EFFICIENCY * (1.0 - random_loss(setup))
}

fn random_loss(setup: &Setup) -> f64 {
    over_time(setup, loss(setup.links[setup.bottleneck].loss), |change| match change.what {
        ChangeKind::Loss(of) => Some(loss(of)),
        _ => None,
    })
}

/// Two-way propagation time of a flow: the longest of the run.
fn base_ms(setup: &Setup, flow: &FlowSetup) -> f64 {
    let own = flow.rtt.unwrap_or(setup.path.rtt).as_nanos();
    let changed = setup.schedule.iter().filter_map(|change| match change.what {
        ChangeKind::Rtt(rtt) => Some(rtt.as_nanos()),
        _ => None,
    });
    changed.fold(own, u64::max) as f64 / 1e6
}

/// Goodput of the flows under test over their fair share, or the ideal completion time over theirs.
fn rate_term(setup: &Setup, own: &[(&FlowSetup, &FlowResult)], count: usize) -> f64 {
    let capacity = capacity_bps(setup);
    let transfers = own.iter().filter_map(|(flow, result)| match flow.traffic {
        Traffic::Size(bytes) => Some((flow, bytes, result.fct_s)),
        _ => None,
    });
    let terms: Vec<f64> = transfers
        .map(|(flow, bytes, fct_s)| {
            let ideal = bytes as f64 * 8.0 / capacity + ROUNDS * base_ms(setup, flow) / 1e3;
            fct_s.map_or(0.0, |fct| (ideal / fct).min(1.0))
        })
        .collect();
    if !terms.is_empty() {
        return bbrlab_stats::mean(&terms);
    }
    let goodputs: Vec<f64> = own.iter().map(|(_, result)| result.goodput_bps).collect();
    let sum: f64 = goodputs.iter().sum();
    if own.iter().any(|(flow, _)| flow.traffic != Traffic::Bulk) {
        return (sum / capacity).min(1.0);
    }
    let fair = capacity * own.len() as f64 / count as f64;
    (sum / fair).min(1.0) * jain(&goodputs)
}

/// Terms of the score of the flows under test.
pub fn terms(run: &RunView) -> Result<Terms> {
    let (setup, result) = (&*run.setup, &run.output.result);
    let pairs = || setup.flows.iter().zip(&result.flows);
    let own: Vec<(&FlowSetup, &FlowResult)> = pairs().filter(|(flow, _)| flow.name.starts_with(OWN)).collect();
    let others: Vec<f64> =
        pairs().filter(|(flow, _)| !flow.name.starts_with(OWN)).map(|(_, result)| result.goodput_bps).collect();
    if own.is_empty() {
        run.named(OWN)?; // the error
    }
    let count = setup.flows.len();
    let mean = |of: &dyn Fn(&(&FlowSetup, &FlowResult)) -> f64| {
        bbrlab_stats::known_mean(&own.iter().map(of).collect::<Vec<_>>())
    };
    let delay = mean(&|(flow, result)| {
        let rtt = result.rtt_ms.as_ref().map_or(f64::NAN, |rtt| rtt.p50);
        (base_ms(setup, flow) / rtt).min(1.0)
    });
    let repeated = mean(&|(_, result)| result.retransmit_ratio) - LOSS_MARGIN * random_loss(setup);
    let is_bulk = own.iter().all(|(flow, _)| flow.traffic == Traffic::Bulk);
    let others = if others.is_empty() || !is_bulk {
        1.0
    } else {
        let fair = capacity_bps(setup) * others.len() as f64 / count as f64;
        (others.iter().sum::<f64>() / fair).min(1.0)
    };
    Ok(Terms([rate_term(setup, &own, count), delay, 1.0 - repeated.clamp(0.0, 1.0), others]))
}

/// Score of the flows under test by an objective's name.
pub fn score(run: &RunView, objective: &str) -> Result<f64> {
    Ok(Objective::named(objective)?.score_of_terms(&terms(run)?))
}
