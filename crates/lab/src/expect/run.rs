//! View of a finished run for expectations: the whole run, its flows together, its bottleneck.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::Arc;

use bbrlab_core::{NANOS_PER_SEC, State, Time};

use super::{columns, series};
use crate::{Error, Result};
use bbrlab_sim::link::Service;
use bbrlab_sim::metrics::convergence_s;
use bbrlab_sim::record::Output;
use bbrlab_sim::setup::Setup;
use bbrlab_stats::known_mean;

/// Width of the bins over which fairness is judged, seconds. Ours.
const FAIRNESS_BIN_S: f64 = 1.0;

/// One finished run.
#[derive(Clone, Debug)]
pub struct RunView {
    /// Name within the experiment.
    pub name: Arc<str>,
    pub setup: Arc<Setup>,
    pub output: Arc<Output>,
    /// Sample times of the trace in seconds, kept because every windowed measure needs them.
    pub t_s: Arc<[f64]>,
}

impl RunView {
    /// Creates a view of a finished run.
    pub fn new(name: &str, setup: Arc<Setup>, output: Arc<Output>) -> Self {
        let t_s = columns::seconds(&output.trace).into();
        Self { name: name.into(), setup, output, t_s }
    }

    /// Returns the sample times, or the reason why there are none.
    pub fn grid(&self) -> Result<&[f64]> {
        if self.t_s.is_empty() {
            return Err(Error::NoSeries(self.name.to_string()));
        }
        Ok(&self.t_s)
    }

    pub fn flow_column(&self, flow: usize, name: &str) -> Result<Vec<f64>> {
        self.grid()?;
        columns::flow(&self.setup, &self.output.trace, flow, name).ok_or_else(|| {
            let (count, known) = (self.output.trace.flows.len(), columns::FLOW_COLUMNS.join(", "));
            self.no_column(name, "flow", flow, count, known)
        })
    }

    pub fn link_column(&self, link: usize, name: &str) -> Result<Vec<f64>> {
        self.grid()?;
        columns::link(&self.output.trace, link, name).ok_or_else(|| {
            let (count, known) = (self.output.trace.links.len(), columns::LINK_COLUMNS.join(", "));
            self.no_column(name, "link", link, count, known)
        })
    }

    fn no_column(&self, name: &str, of: &'static str, index: usize, count: usize, known: String) -> Error {
        Error::NoSeriesColumn { run: self.name.to_string(), name: name.to_owned(), of, index, count, known }
    }

    pub fn bottleneck_column(&self, name: &str) -> Result<Vec<f64>> {
        self.link_column(self.setup.bottleneck, name)
    }

    /// Returns the indices of the flows with that algorithm or name; `""` means all.
    pub fn select(&self, who: &str) -> Result<Vec<usize>> {
        let matches = |i: &usize| {
            let flow = &self.setup.flows[*i];
            who.is_empty() || flow.cc() == who || flow.name == who
        };
        let chosen: Vec<usize> = (0..self.setup.flows.len()).filter(matches).collect();
        if chosen.is_empty() {
            let known = self.setup.flows.iter().map(|f| f.name.clone()).collect();
            return Err(Error::UnknownFlow { run: self.name.to_string(), name: who.to_owned(), known });
        }
        Ok(chosen)
    }

    /// Returns the indices of the flows whose names begin with a text.
    pub fn named(&self, begin: &str) -> Result<Vec<usize>> {
        let chosen: Vec<usize> =
            (0..self.setup.flows.len()).filter(|i| self.setup.flows[*i].name.starts_with(begin)).collect();
        if chosen.is_empty() {
            let known = self.setup.flows.iter().map(|f| f.name.clone()).collect();
            return Err(Error::UnknownFlow { run: self.name.to_string(), name: begin.to_owned(), known });
        }
        Ok(chosen)
    }

    /// Total goodput of some flows over the run's measurement interval.
    pub fn goodput_mbps(&self, flows: &[usize]) -> f64 {
        let result = &self.output.result;
        result.goodput_bps(flows.iter().filter_map(|i| result.flows.get(*i))) / 1e6
    }

    /// Total goodput of some flows within an interval.
    pub fn goodput_mbps_between(&self, flows: &[usize], from_s: f64, to_s: f64) -> Result<f64> {
        let mut sum = 0.0;
        for flow in flows {
            let received_kb = self.flow_column(*flow, "received_kB")?;
            sum += series::growth(&self.t_s, &received_kb, from_s, to_s) * 8e-3 / (to_s - from_s);
        }
        Ok(sum)
    }

    /// Jain's index in each fairness bin of an interval. With `skip_probe_rtt`, bins that overlap any flow's ProbeRTT
    /// are left out.
    pub fn jain_bins(&self, from_s: f64, to_s: f64, skip_probe_rtt: bool) -> Result<Vec<f64>> {
        let received = self.received_all()?;
        let dips = if skip_probe_rtt { self.all_intervals("probe_rtt") } else { Vec::new() };
        let mut bins = Vec::new();
        let mut start = from_s;
        while start + FAIRNESS_BIN_S <= to_s + 1e-9 {
            let end = start + FAIRNESS_BIN_S;
            if !dips.iter().any(|(enter, leave)| *enter < end && *leave > start) {
                let grown: Vec<f64> = received.iter().map(|r| series::growth(&self.t_s, r, start, end)).collect();
                bins.push(series::jain(&grown));
            }
            start = end;
        }
        Ok(bins)
    }

    /// Time from which the shares in bins of `bin_s` seconds stay fair, ProbeRTT included; NaN if never.
    pub fn convergence_in_bins_s(&self, bin_s: f64) -> Result<f64> {
        let count = (self.duration_s() / bin_s + 1e-9) as usize;
        let binned = |column: &Vec<f64>| -> Vec<f64> {
            let edge = |i: usize| i as f64 * bin_s;
            (0..count).map(|i| series::growth(&self.t_s, column, edge(i), edge(i + 1))).collect()
        };
        let rows: Vec<_> = self.received_all()?.iter().map(binned).collect();
        let lives = self.setup.flows.iter().zip(&self.output.result.flows).map(|(flow, result)| {
            let start = flow.start.as_nanos() as f64 / NANOS_PER_SEC as f64 / bin_s;
            (start.ceil() as usize, flow.end_s(result).map_or(count, |end_s| (end_s / bin_s) as usize))
        });
        let lives: Vec<_> = lives.collect();
        Ok(convergence_s(&rows, &lives, count, &[]).map_or(f64::NAN, |bin| bin * bin_s))
    }

    /// Cumulative bytes received by each flow.
    fn received_all(&self) -> Result<Vec<Vec<f64>>> {
        (0..self.setup.flows.len()).map(|i| self.flow_column(i, "received_kB")).collect()
    }

    /// Retransmitted over sent segments of some flows within an interval.
    pub fn retransmit_ratio(&self, flows: &[usize], from_s: f64, to_s: f64) -> Result<f64> {
        let (mut again, mut sent) = (0.0, 0.0);
        for flow in flows {
            let mss_kb = f64::from(self.setup.flows[*flow].mss) / 1e3;
            again += series::growth(&self.t_s, &self.flow_column(*flow, "retransmitted")?, from_s, to_s);
            sent += series::growth(&self.t_s, &self.flow_column(*flow, "sent_kB")?, from_s, to_s) / mss_kb;
        }
        Ok(if sent > 0.0 { again / sent } else { f64::NAN })
    }

    /// Drops over arrivals at the bottleneck within an interval.
    pub fn drop_ratio(&self, from_s: f64, to_s: f64) -> Result<f64> {
        let drops = series::growth(&self.t_s, &self.bottleneck_column("drops")?, from_s, to_s);
        let arrivals = series::growth(&self.t_s, &self.bottleneck_column("arrivals")?, from_s, to_s);
        Ok(if arrivals > 0.0 { drops / arrivals } else { f64::NAN })
    }

    /// Bytes that left the bottleneck over its capacity, within an interval.
    pub fn utilisation(&self, from_s: f64, to_s: f64) -> Result<f64> {
        let rate = self.bottleneck_column("rate_mbps")?;
        let could_kb = known_mean(&rate[series::window(&self.t_s, from_s, to_s)]) * (to_s - from_s) * 125.0;
        let did_kb = series::growth(&self.t_s, &self.bottleneck_column("departed_kB")?, from_s, to_s);
        Ok(if could_kb > 0.0 { did_kb / could_kb } else { f64::NAN })
    }

    /// Mean queue of the bottleneck within an interval, in bandwidth-delay products.
    pub fn queue_bdp(&self, from_s: f64, to_s: f64) -> Result<f64> {
        let queue_kb = self.bottleneck_column("queue_kB")?;
        Ok(known_mean(&queue_kb[series::window(&self.t_s, from_s, to_s)]) * 1e3 / self.bdp_bytes())
    }

    /// Configured rate of the bottleneck; NaN if it has no fixed rate.
    pub fn rate_mbps(&self) -> f64 {
        match self.setup.links.get(self.setup.bottleneck).map(|l| &l.service) {
            Some(Service::Rate(rate)) => rate.as_bits_per_sec() as f64 / 1e6,
            _ => f64::NAN,
        }
    }

    /// Two-way propagation delay of the path.
    pub fn rtprop_ms(&self) -> f64 {
        self.setup.path.rtt.as_nanos() as f64 / 1e6
    }

    /// Bandwidth-delay product of the path in bytes on the wire.
    pub fn bdp_bytes(&self) -> f64 {
        self.rate_mbps() * self.rtprop_ms() * 125.0
    }

    /// End of the run.
    pub fn duration_s(&self) -> f64 {
        self.setup.duration.as_nanos() as f64 / NANOS_PER_SEC as f64
    }

    /// Intervals that one flow spent in a state. `probe_bw` covers its phases together.
    pub fn intervals(&self, flow: usize, state: &str) -> Result<Vec<(f64, f64)>> {
        let Some(trace) = self.output.trace.flows.get(flow) else {
            return Err(Error::NoFlow {
                run: self.name.to_string(),
                index: flow as i64,
                count: self.output.trace.flows.len(),
            });
        };
        if state != "probe_bw" && !State::ALL.iter().any(|s| s.name() == state) {
            let known = State::ALL.iter().map(|s| s.name()).collect();
            return Err(Error::UnknownState { name: state.to_owned(), known });
        }
        Ok(intervals(&trace.states, self.duration_s(), |s| is_in(s, state)))
    }

    /// Intervals that any flow spent in a state.
    fn all_intervals(&self, state: &str) -> Vec<(f64, f64)> {
        (0..self.setup.flows.len()).filter_map(|i| self.intervals(i, state).ok()).flatten().collect()
    }
}

fn is_in(state: State, name: &str) -> bool {
    let cycle = matches!(state, State::ProbeBwRefill | State::ProbeBwUp | State::ProbeBwDown | State::ProbeBwCruise);
    state.name() == name || (name == "probe_bw" && cycle)
}

/// Joins consecutive changes into intervals; the last state lasts to the end of the run.
fn intervals(changes: &[(Time, State)], end_s: f64, wanted: impl Fn(State) -> bool) -> Vec<(f64, f64)> {
    let mut found: Vec<(f64, f64)> = Vec::new();
    for (i, (at, state)) in changes.iter().enumerate() {
        let start_s = at.as_nanos() as f64 / NANOS_PER_SEC as f64;
        let leave_s = changes.get(i + 1).map_or(end_s, |(next, _)| next.as_nanos() as f64 / NANOS_PER_SEC as f64);
        if !wanted(*state) {
            continue;
        }
        match found.last_mut() {
            Some(last) if last.1 == start_s && i > 0 && wanted(changes[i - 1].1) => last.1 = leave_s,
            _ => found.push((start_s, leave_s)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expect::testing;

    #[test]
    fn goodput_between_two_moments_counts_what_arrived_between_them() {
        let view = testing::two_flows();
        assert!((view.goodput_mbps_between(&[0], 1.0, 3.0).unwrap() - 8.0).abs() < 1e-9);
        assert!((view.goodput_mbps_between(&[0, 1], 1.0, 3.0).unwrap() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn a_class_is_named_by_its_algorithm_or_one_flow_by_its_name() {
        let view = testing::two_flows();
        assert_eq!(view.select("cubic").unwrap(), [1]);
        assert_eq!(view.select("bbr1#0").unwrap(), [0]);
        assert_eq!(view.select("").unwrap(), [0, 1]);
        assert!(view.select("vegas").unwrap_err().to_string().contains("bbr1#0, cubic#0"));
    }

    #[test]
    fn convergence_can_be_asked_for_in_longer_bins_than_seconds() {
        let view = testing::two_flows();
        let (short, long) = (view.convergence_in_bins_s(1.0).unwrap(), view.convergence_in_bins_s(4.0).unwrap());
        assert!(short.is_nan() && long.is_nan(), "8 and 2 Mbit/s never are fair: {short} {long}");
    }

    #[test]
    fn fairness_bins_leave_out_the_seconds_of_probe_rtt_when_asked() {
        let view = testing::two_flows();
        assert_eq!(view.jain_bins(0.0, 4.0, false).unwrap().len(), 4);
        assert_eq!(view.jain_bins(0.0, 4.0, true).unwrap().len(), 3);
    }

    #[test]
    fn the_fairness_of_a_bin_is_that_of_what_arrived_in_it() {
        let view = testing::two_flows();
        let expected = series::jain(&[8.0, 2.0]);
        assert!((view.jain_bins(1.0, 2.0, false).unwrap()[0] - expected).abs() < 1e-9);
    }

    #[test]
    fn drops_over_arrivals_are_those_of_the_window() {
        let view = testing::two_flows();
        assert_eq!(view.drop_ratio(0.0, 2.0).unwrap(), 0.0);
        assert_eq!(view.drop_ratio(2.0, 4.0).unwrap(), 0.1);
    }

    #[test]
    fn retransmissions_are_counted_against_segments_sent() {
        let view = testing::two_flows();
        assert!((view.retransmit_ratio(&[0], 0.0, 4.0).unwrap() - 0.05).abs() < 1e-3);
    }

    #[test]
    fn utilisation_is_what_left_over_what_could_have_left() {
        assert!((testing::two_flows().utilisation(1.0, 3.0).unwrap() - 0.8).abs() < 1e-9);
    }

    #[test]
    fn a_queue_in_bdp_is_relative_to_rate_times_rtt() {
        let view = testing::two_flows();
        assert_eq!(view.bdp_bytes(), 50_000.0);
        assert!((view.queue_bdp(1.0, 4.0).unwrap() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn the_three_phases_of_the_gain_cycle_are_one_interval_of_probe_bw() {
        let view = testing::two_flows();
        assert_eq!(view.intervals(0, "probe_bw").unwrap(), [(1.0, 2.5), (2.75, 4.0)]);
        assert_eq!(view.intervals(0, "probe_rtt").unwrap(), [(2.5, 2.75)]);
        assert_eq!(view.intervals(0, "probe_bw_up").unwrap(), [(1.0, 1.5), (2.75, 4.0)]);
        assert!(view.intervals(0, "probe_bw_sideways").is_err());
    }

    #[test]
    fn a_windowed_measure_without_series_says_what_to_add() {
        let mut view = testing::two_flows();
        view.t_s = Vec::new().into();
        assert!(view.flow_column(0, "rtt_ms").unwrap_err().to_string().contains("sample"));
    }
}
