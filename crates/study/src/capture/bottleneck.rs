//! Load, queue and drops of a bottleneck as the senders of all its flows see them, where nothing else on the path delays or loses packets.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{NANOS_PER_SEC, Rate, Span, Time};
use bbrlab_sim::link::{AckAggregation, Loss, Service};
use bbrlab_sim::metrics::QueueDelay;
use bbrlab_sim::record::result::Distribution;
use bbrlab_sim::record::summary::{LinkCounts, NS_TO_MS};
use bbrlab_sim::setup::{ChangeKind, Setup};

use super::result::Counted;

/// A distribution without known values.
pub const UNKNOWN: Distribution =
    Distribution { min: None, mean: f64::NAN, p50: f64::NAN, p95: f64::NAN, p99: f64::NAN, max: f64::NAN };

/// The only link of a path, with its rates over time.
#[derive(Clone, Debug)]
pub struct Bottleneck {
    /// RTT without queue or serialisation.
    base: Span,
    /// Bytes per second from each time on; the first is in force at the start.
    rates: Vec<(Time, f64)>,
    /// The measured time.
    measured: (Time, Time),
}

impl Bottleneck {
    /// The link of a scenario, if all that its packets meet is this link and a constant delay.
    pub fn of(setup: &Setup) -> Option<Self> {
        let [link] = &setup.links[..] else { return None };
        let Service::Rate(rate) = link.service else { return None };
        let path = &setup.path;
        let keeps_data = path.jitter == Span::ZERO && path.reorder == 0.0 && path.duplicate == 0.0;
        let keeps_acks = path.ack_loss == Loss::None && path.ack_aggregation == AckAggregation::None;
        let is_direct = setup.flows.iter().all(|flow| flow.rtt.is_none() && flow.access.is_none());
        if !keeps_data || !keeps_acks || !is_direct || link.loss != Loss::None || setup.up.is_some() {
            return None;
        }
        let bytes_per_s = |rate: Rate| rate.as_bits_per_sec() as f64 / 8.0;
        let mut rates = vec![(Time::ZERO, bytes_per_s(rate))];
        for change in &setup.schedule {
            match change.what {
                ChangeKind::Rate(rate) => rates.push((change.at, bytes_per_s(rate))),
                ChangeKind::Buffer(_) => {}
                ChangeKind::Loss(_) | ChangeKind::Rtt(_) | ChangeKind::AckLoss(_) => return None,
            }
        }
        let first = setup.flows.iter().map(|flow| flow.start).min().unwrap_or(Time::ZERO);
        Some(Self { base: path.rtt, rates, measured: (setup.warmup.max(first), setup.duration) })
    }

    /// Time to serialise some bytes at the first rate, ns.
    fn service_ns(&self, bytes: f64) -> f64 {
        bytes / self.rates[0].1 * NANOS_PER_SEC as f64
    }

    /// Bytes that could leave in the measured time.
    fn capacity_bytes(&self) -> f64 {
        let (from, until) = self.measured;
        let ends = self.rates.iter().skip(1).map(|(at, _)| *at).chain([until]);
        let parts = self.rates.iter().zip(ends);
        parts.map(|((begin, rate), end)| rate * end.min(until).since((*begin).max(from)).as_nanos() as f64 / 1e9).sum()
    }

    /// Queueing delay over time. After a fall of the rate it shows in packets that are lost, so it is unknown where the rate changes.
    fn queue_ms(&self, counted: &[Counted]) -> Distribution {
        if self.rates.len() > 1 {
            return UNKNOWN;
        }
        let mut delay = QueueDelay::starting_at(self.measured.0);
        counted.iter().for_each(|one| delay.merge(&one.tally.passed.delay));
        delay.distribution(self.measured.1, NS_TO_MS)
    }

    /// Counts of the link from those of all its flows.
    pub fn counts(&self, counted: &[Counted]) -> LinkCounts {
        let sum = |count: &dyn Fn(&Counted) -> u64| counted.iter().map(count).sum();
        LinkCounts {
            arrivals: sum(&|one| one.segments(one.counters.sent)),
            drops: sum(&|one| one.segments(one.counters.again.saturating_sub(one.counters.needless))),
            marks: 0,
            departed_bytes: sum(&Counted::wire_bytes),
            capacity_bytes: self.capacity_bytes(),
            packets: sum(&|one| one.segments(one.counters.delivered)),
            queue_ms: self.queue_ms(counted),
        }
    }
}

/// Queueing delays of one flow's packets.
#[derive(Clone, Debug, Default)]
pub struct Passed {
    delay: QueueDelay,
    /// Bytes on the wire acknowledged since the newest RTT.
    waiting: f64,
}

impl Passed {
    /// Records that `wire` bytes were acknowledged, the newest of them in a packet of `packet` bytes with this RTT, if it is known.
    pub fn on_ack(&mut self, link: &Bottleneck, wire: f64, packet: f64, rtt_ns: Option<u64>) {
        self.waiting += wire;
        let Some(rtt_ns) = rtt_ns else { return };
        let alone = link.base.as_nanos() + link.service_ns(packet) as u64;
        let lasted = link.service_ns(std::mem::take(&mut self.waiting));
        self.delay.add(Span::nanos(rtt_ns.saturating_sub(alone)), lasted as u64);
    }
}
