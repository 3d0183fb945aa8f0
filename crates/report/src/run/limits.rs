//! Reference lines of a run's figures: link capacity, fair shares, base delay, buffer.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{NANOS_PER_SEC, Time};
use bbrlab_sim::link::{Buffer, Service};
use bbrlab_sim::record::fair;
use bbrlab_sim::setup::{Change, ChangeKind, Setup};
use bbrlab_sim::tcp::HEADER_BYTES;

use super::{Run, bin_ns, seconds};
use crate::model::{Series, Style};

/// Bytes per delivery opportunity of a trace. Source: mahimahi.
const OPPORTUNITY_BYTES: u64 = 1500;

impl Run<'_> {
    /// Returns true if the schedule has such a change, of the forward direction's links or of the path.
    fn changes(&self, is: impl Fn(&ChangeKind) -> bool) -> bool {
        let forward = |setup: &Setup, change: &Change| change.link < setup.links.len() && is(&change.what);
        self.setup.is_some_and(|setup| setup.schedule.iter().any(|change| forward(setup, change)))
    }

    /// Bytes on the wire of a full segment of the first flow.
    fn wire_bytes(&self) -> f64 {
        f64::from(self.setup.and_then(|setup| setup.flows.first()).map_or(1448, |flow| flow.mss) + HEADER_BYTES)
    }

    /// Buffer of the only link, in packets, if it is constant.
    pub(super) fn buffer(&self) -> Option<Series> {
        let setup = self.setup.filter(|setup| setup.links.len() == 1)?;
        let packets = match setup.links[0].buffer {
            Buffer::Packets(packets) => packets as f64,
            Buffer::Bytes(bytes) => bytes as f64 / self.wire_bytes(),
        };
        (!self.changes(|what| matches!(what, ChangeKind::Buffer(_)))).then(|| reference("buffer", vec![(0.0, packets)]))
    }

    /// Base RTT of the path as a line.
    pub(super) fn base_rtt(&self) -> Option<Series> {
        self.base_rtt_s().map(|rtt_s| reference("base RTT", vec![(0.0, rtt_s * 1e3)]))
    }

    /// RTT of the path without queueing, if it is constant and the same for all flows.
    fn base_rtt_s(&self) -> Option<f64> {
        let setup = self.setup?;
        let is_one = setup.flows.iter().all(|flow| flow.rtt.is_none() && flow.access.is_none());
        let rtt_s = setup.path.rtt.as_nanos() as f64 / NANOS_PER_SEC as f64;
        (is_one && !self.changes(|what| matches!(what, ChangeKind::Rtt(_)))).then_some(rtt_s)
    }

    /// Bottleneck rate over time, as in [`Self::rate_of_link_bps`].
    fn rate_bps(&self) -> Vec<(f64, f64)> {
        self.setup.map_or_else(Vec::new, |setup| self.rate_of_link_bps(setup, setup.bottleneck))
    }

    /// Rate of a link over time, as corners of a staircase; empty for a delivery trace or a link whose rate follows its
    /// load.
    fn rate_of_link_bps(&self, setup: &Setup, link: usize) -> Vec<(f64, f64)> {
        let rates = match (&setup.links[link].service, self.trace.links.get(link)) {
            (Service::Rate(_), Some(link)) => &link.rate_bps,
            _ => return Vec::new(),
        };
        let known = rates.iter().zip(&self.t_s).filter(|(rate, _)| **rate > 0).map(|(&rate, &t)| (t, rate as f64));
        corners(known, self.t_s.last().copied().unwrap_or(0.0))
    }

    /// Capacity of the bottleneck: a line if it is constant, an area if it changes. For several links, not all crossed
    /// by every flow, one line each.
    pub(super) fn capacity(&self) -> Vec<Series> {
        if self.setup.is_some_and(|setup| setup.links.len() > 1) {
            return self.link_rate();
        }
        let rate = self.rate_bps();
        if rate.len() == 2 {
            return vec![reference("link rate", vec![rate[0]])];
        }
        if !rate.is_empty() {
            let (x, y) = rate.into_iter().unzip();
            return vec![Series { name: "link rate".to_owned(), style: Style::Area, x, y, ..Series::default() }];
        }
        let Some(setup) = self.setup else { return Vec::new() };
        let Service::Trace(delivery) = &setup.links[setup.bottleneck].service else { return Vec::new() };
        let end_ns = self.trace.t_ns.last().copied().unwrap_or(0);
        let bin = bin_ns(end_ns);
        let edges: Vec<u64> = (0..=end_ns / bin).map(|nth| nth * bin).collect();
        let bits = |pair: &[u64]| {
            let count = delivery.count_until(Time::nanos(pair[1])) - delivery.count_until(Time::nanos(pair[0]));
            (seconds(pair[0]), (count * 8 * OPPORTUNITY_BYTES) as f64 / seconds(pair[1] - pair[0]))
        };
        let (mut x, mut y): (Vec<f64>, Vec<f64>) = edges.windows(2).map(bits).unzip();
        x.extend(edges.last().map(|&edge| seconds(edge)));
        y.extend(y.last().copied());
        vec![Series { name: "capacity of the trace".to_owned(), style: Style::Area, x, y, ..Series::default() }]
    }

    /// Fair share of payload for each active flow, if several flows share links of known rates: one line if all flows have the
    /// same, else one for each flow that is drawn, by max-min over the links that it crosses.
    pub(super) fn fair_share(&self) -> Vec<Series> {
        let Some(setup) = self.setup.filter(|setup| setup.flows.len() > 1) else { return Vec::new() };
        let end = self.t_s.last().copied().unwrap_or(0.0);
        let steps = fair::steps(setup, self.results);
        let line = |name: &str, share: &dyn Fn(&fair::Step) -> f64| {
            let known =
                steps.iter().map(|step| (step.from_s, share(step))).filter(|(t, bps)| *t < end && bps.is_finite());
            let shares = corners(known, end);
            (!shares.is_empty()).then(|| match shares.as_slice() {
                [first, _] => reference(name, vec![*first]),
                _ => reference(name, shares),
            })
        };
        let same = |step: &fair::Step| {
            let known = || step.shares_bps.iter().copied().filter(|bps| bps.is_finite());
            (known().fold(f64::INFINITY, f64::min), known().fold(f64::NAN, f64::max))
        };
        if steps.iter().all(|step| same(step).0 == same(step).1 || same(step).1.is_nan()) {
            return line("fair share", &|step| same(step).1).into_iter().collect();
        }
        let drawn = self.flows.iter().filter_map(|(flow, ..)| {
            let nth = self.results.iter().position(|result| result.name == flow.name)?;
            line(&format!("fair share of {}", flow.name), &|step| step.shares_bps[nth])
        });
        drawn.collect()
    }

    /// Bandwidth times base RTT, in segments.
    pub(super) fn bdp(&self) -> Option<Series> {
        let rtt_s = self.base_rtt_s()?;
        let segments = |(t, bps): (f64, f64)| (t, bps * rtt_s / (8.0 * self.wire_bytes()));
        let corners: Vec<(f64, f64)> = self.rate_bps().into_iter().map(segments).collect();
        (!corners.is_empty()).then(|| reference("BDP", if corners.len() == 2 { vec![corners[0]] } else { corners }))
    }

    /// Rate of each link as a line, if it has one.
    pub(super) fn link_rate(&self) -> Vec<Series> {
        let Some(setup) = self.setup else { return Vec::new() };
        let several = setup.links.len() > 1;
        let line = |link: usize| {
            let rate = self.rate_of_link_bps(setup, link);
            let name = if several { format!("rate of link {}", link + 1) } else { "link rate".to_owned() };
            (!rate.is_empty()).then(|| reference(&name, if rate.len() == 2 { vec![rate[0]] } else { rate }))
        };
        (0..setup.links.len()).filter_map(line).collect()
    }
}

/// Converts values that hold until the next to the corners of a line: two for each step.
fn corners(values: impl Iterator<Item = (f64, f64)>, end: f64) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for (t, value) in values {
        match corners.last().copied() {
            Some((_, last)) if last == value => {}
            Some((_, last)) => corners.extend([(t, last), (t, value)]),
            None => corners.push((t, value)),
        }
    }
    corners.extend(corners.last().map(|&(_, last)| (end, last)));
    corners
}

/// Builds a reference line; one point alone spans the axis.
fn reference(name: &str, points: Vec<(f64, f64)>) -> Series {
    let (x, y) = points.into_iter().unzip();
    Series { name: name.to_owned(), style: Style::Reference, x, y, ..Series::default() }
}

#[cfg(test)]
mod tests {
    use bbrlab_sim::scenario::ScenarioFile;

    use crate::model::{Figure, Provenance, Series};

    /// Returns the first figure of such a run's page.
    fn overview(toml: &str) -> Figure {
        let setup = ScenarioFile::from_toml(toml, "a test").unwrap().scenario.resolve().unwrap();
        let output = bbrlab_sim::engine::run(&setup);
        super::super::for_run(&output.result, &output.trace, Some(&setup), Provenance::default()).lead.remove(0)
    }

    fn line<'a>(figure: &'a Figure, name: &str) -> Option<&'a Series> {
        figure.panels[0].series.iter().find(|series| series.name == name)
    }

    #[test]
    fn a_flow_that_has_ended_no_longer_halves_the_fair_share() {
        let figure = overview("duration = '10s'\nflow = ['cubic', 'cubic,size=1MB']");
        let share = &line(&figure, "fair share").unwrap().y;
        assert!(share[share.len() - 1] > 1.99 * share[0], "{share:?}");
    }

    #[test]
    fn in_a_parking_lot_each_flow_has_its_own_fair_share() {
        let links = "[[link]]\nrate = '10mbit'\n[[link]]\nrate = '20mbit'";
        let flows = "['bbr1,name=long', 'bbr1,links=1..1,name=slow', 'bbr1,links=2..2,name=fast']";
        let figure = overview(&format!("duration = '5s'\nflow = {flows}\n{links}"));
        let share = |flow: &str| line(&figure, &format!("fair share of {flow}")).unwrap().y[0];
        assert!((share("long") - share("slow")).abs() < 1e-9);
        assert!((share("fast") / share("long") - 3.0).abs() < 1e-9);
    }

    #[test]
    fn each_of_several_links_has_a_line_of_its_own_rate() {
        let links = "[[link]]\nrate = '10mbit'\n[[link]]\nrate = '20mbit'";
        let figure = overview(&format!("duration = '5s'\nflow = ['bbr1,links=1..1', 'bbr1,links=2..2']\n{links}"));
        let rate = |link: usize| line(&figure, &format!("rate of link {link}")).unwrap().y.clone();
        assert_eq!((rate(1), rate(2)), (vec![10.0], vec![20.0]));
        assert!(line(&figure, "link rate").is_none());
    }
}
