//! Max-min fair shares of a run's flows over time, where they share one or several links of known rate.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::NANOS_PER_SEC;

use super::result::FlowResult;
use crate::link::Service;
use crate::setup::{ChangeKind, Setup, Traffic};
use crate::tcp::HEADER_BYTES;

/// Fair shares from a time on, until the next step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Start of the step.
    pub from_s: f64,
    /// Share of each flow, bits of payload per second; NaN for a flow that is not there.
    pub shares_bps: Vec<f64>,
}

/// Range of links of a flow (the first, and one past the last), and the upper limit of its rate.
pub type Demand = ((usize, usize), f64);

/// Max-min fair rates of flows: no flow can get more without taking from one that gets less.
pub fn max_min(capacities: &[f64], flows: &[Demand]) -> Vec<f64> {
    let mut left = capacities.to_vec();
    let mut rates = vec![f64::NAN; flows.len()];
    let mut open: Vec<usize> = (0..flows.len()).collect();
    while !open.is_empty() {
        let count =
            |link: usize| open.iter().filter(|&&flow| (flows[flow].0.0..flows[flow].0.1).contains(&link)).count();
        let level = |link: usize| match count(link) {
            0 => f64::INFINITY,
            some => left[link].max(0.0) / some as f64,
        };
        let levels: Vec<f64> = (0..left.len()).map(level).collect();
        let of = |flow: usize| levels[flows[flow].0.0..flows[flow].0.1].iter().copied().fold(flows[flow].1, f64::min);
        let lowest = open.iter().map(|&flow| of(flow)).fold(f64::INFINITY, f64::min);
        let (done, rest): (Vec<usize>, Vec<usize>) = open.iter().partition(|&&flow| of(flow) <= lowest);
        for flow in done {
            rates[flow] = lowest;
            left[flows[flow].0.0..flows[flow].0.1].iter_mut().for_each(|capacity| *capacity -= lowest);
        }
        open = rest;
    }
    rates
}

/// Fair shares over a run: a new step wherever a flow starts or ends, or a rate changes. Empty if a link has no rate of its own.
/// The rate of an application limits its flow's share; random loss is not deducted.
pub fn steps(setup: &Setup, results: &[FlowResult]) -> Vec<Step> {
    // The link of `up` comes last.
    let links = || setup.links.iter().chain(setup.up.as_deref());
    let nominal: Vec<f64> = links()
        .filter(|link| matches!(link.service, Service::Rate(_)))
        .map(|link| link.service.nominal_rate().as_bytes_per_sec() as f64 * 8.0)
        .collect();
    if nominal.len() < links().count() {
        return Vec::new();
    }
    let seconds = |nanos: u64| nanos as f64 / NANOS_PER_SEC as f64;
    let rates = setup.schedule.iter().filter_map(|change| match change.what {
        ChangeKind::Rate(rate) => {
            Some((seconds(change.at.as_nanos()), change.link, rate.as_bytes_per_sec() as f64 * 8.0))
        }
        _ => None,
    });
    let rates: Vec<(f64, usize, f64)> = rates.collect();
    let lives: Vec<(f64, f64)> = (setup.flows.iter().zip(results))
        .map(|(flow, result)| (result.start_s, flow.end_s(result).unwrap_or(f64::INFINITY)))
        .collect();
    let end = seconds(setup.duration.as_nanos());
    let mut times: Vec<f64> =
        rates.iter().map(|rate| rate.0).chain(lives.iter().flat_map(|life| [life.0, life.1])).collect();
    times.retain(|&t| t < end);
    times.sort_by(f64::total_cmp);
    times.dedup();
    let step = |from_s: f64| {
        let mut capacities = nominal.clone();
        for (_, link, bps) in rates.iter().filter(|rate| rate.0 <= from_s) {
            capacities[*link] = *bps;
        }
        let there: Vec<usize> =
            (0..lives.len()).filter(|&nth| lives[nth].0 <= from_s && from_s < lives[nth].1).collect();
        let wants = |nth: usize| {
            let flow = &setup.flows[nth];
            let payload = f64::from(flow.mss) / f64::from(flow.mss + HEADER_BYTES);
            let demand = match &flow.traffic {
                Traffic::Rate { rate, .. } => rate.as_bytes_per_sec() as f64 * 8.0 / payload,
                Traffic::Call(call) => call.rate().as_bytes_per_sec() as f64 * 8.0 / payload,
                _ => f64::INFINITY,
            };
            let links = if flow.is_upload { (setup.links.len(), setup.links.len() + 1) } else { flow.links };
            (payload, (links, demand))
        };
        let all: Vec<(f64, Demand)> = there.iter().map(|&nth| wants(nth)).collect();
        let found = max_min(&capacities, &all.iter().map(|(_, flow)| *flow).collect::<Vec<_>>());
        let mut shares_bps = vec![f64::NAN; lives.len()];
        for ((nth, (payload, _)), rate) in there.into_iter().zip(&all).zip(found) {
            shares_bps[nth] = rate * payload;
        }
        Step { from_s, shares_bps }
    };
    times.into_iter().map(step).collect()
}

/// Mean fair share of each flow over an interval, while the flow is there; NaN if it never is.
pub fn means(steps: &[Step], flows: usize, from_s: f64, to_s: f64) -> Vec<f64> {
    let mut sums = vec![(0.0, 0.0); flows];
    for (nth, step) in steps.iter().enumerate() {
        let until = steps.get(nth + 1).map_or(to_s, |next| next.from_s).min(to_s);
        let length = until - step.from_s.max(from_s);
        if length <= 0.0 {
            continue;
        }
        for (sum, share) in sums.iter_mut().zip(&step.shares_bps).filter(|(_, share)| share.is_finite()) {
            *sum = (sum.0 + share * length, sum.1 + length);
        }
    }
    sums.into_iter().map(|(sum, length)| sum / length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flow_over_both_links_of_a_parking_lot_gets_half_of_the_slower_one() {
        let flows = [((0, 2), f64::INFINITY), ((0, 1), f64::INFINITY), ((1, 2), f64::INFINITY)];
        assert_eq!(max_min(&[20.0, 10.0], &flows), [5.0, 15.0, 5.0]);
    }

    #[test]
    fn what_a_flow_does_not_want_is_left_to_the_others() {
        let flows = [((0, 1), 1.0), ((0, 1), f64::INFINITY), ((0, 1), f64::INFINITY)];
        assert_eq!(max_min(&[9.0], &flows), [1.0, 4.0, 4.0]);
    }

    #[test]
    fn a_mean_covers_the_time_in_which_the_flow_is_there() {
        let step = |from_s, shares: [f64; 2]| Step { from_s, shares_bps: shares.to_vec() };
        let steps = [step(0.0, [10.0, f64::NAN]), step(5.0, [5.0, 5.0])];
        assert_eq!(means(&steps, 2, 0.0, 10.0), [7.5, 5.0]);
        assert_eq!(means(&steps, 2, 6.0, 10.0), [5.0, 5.0]);
        assert!(means(&steps[..1], 2, 0.0, 5.0)[1].is_nan());
    }
}
