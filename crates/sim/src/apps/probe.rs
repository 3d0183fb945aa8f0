//! The lag probe: small packets at a fixed interval, echoed by the receiver, as `ping` sends them. It crosses the same queues as
//! the flows, and has no congestion control.
//!
//! Responsiveness in round trips per minute (RPM) follows draft-ietf-ippm-responsiveness, with the parts that such a probe has:
//! see [`Responsiveness`].
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, Time};

use crate::link::{Loss, LossModel};
use crate::metrics::{Histogram, secs};
use crate::path::seed;
use crate::record::result::{ProbeResult, Responsiveness};
use crate::setup::{ChangeKind, Setup, Traffic};
use crate::tcp::{HEADER_BYTES, Segment};

/// Wire size of a probe: 56 bytes of data as iputils' `ping` sends, ICMP (8), IPv4 (20) and Ethernet (14).
pub const PROBE_BYTES: u32 = 98;
/// Part of the seed used for the loss of echoes, so that no other random number depends on it.
const ECHO_STREAM: usize = 5_000_000;
/// Wait for an echo before any has arrived. Source: iputils `ping`, `MAXWAIT`.
const WAIT_WITHOUT_ECHO: Span = Span::secs(10);
/// Share of the samples kept by the one-sided trimmed mean. Source: draft-ietf-ippm-responsiveness-09, TMP.
const TRIMMED_TO: f64 = 0.95;
/// Milliseconds in a minute.
const MINUTE_MS: f64 = 60_000.0;
/// Microseconds to milliseconds.
const US_TO_MS: f64 = 1e-3;

/// The probe of a simulated run: its packets, and the loss of their echoes.
#[derive(Clone, Debug)]
pub struct Prober {
    /// Index of its packets' flow: one past the last flow.
    flow: u32,
    /// Random loss of echoes.
    loss: LossModel,
    log: ProbeLog,
}

/// Record of the probes sent and of their echoes, on any backend.
#[derive(Clone, Debug)]
pub struct ProbeLog {
    interval: Span,
    /// Probes sent so far.
    sent: u64,
    /// Start and end of measurement.
    measured: (Time, Time),
    /// One bit per probe: its echo has arrived.
    echoed: Vec<u64>,
    /// Number of the last probe whose echo arrived, plus 1.
    past_last: u64,
    /// RTTs of probes sent during measurement, µs.
    rtt_us: Histogram,
    is_recorded: bool,
    samples: Vec<(Time, u32)>,
}

impl Prober {
    /// Creates the probe of a setup, if it has one.
    pub fn new(setup: &Setup) -> Option<Box<Self>> {
        let log = ProbeLog::new(setup)?;
        let flow = u32::try_from(setup.flows.len()).unwrap_or(u32::MAX);
        let loss = LossModel::new(setup.path.ack_loss, seed(setup.seed, ECHO_STREAM));
        Some(Box::new(Self { flow, loss, log }))
    }

    /// Time of the next probe.
    pub fn next(&self) -> Time {
        self.log.due(self.log.sent)
    }

    /// Index of its packets' flow.
    pub const fn flow(&self) -> u32 {
        self.flow
    }

    /// The probes sent and their echoes.
    pub const fn log(&self) -> &ProbeLog {
        &self.log
    }

    /// Sends the probe that is due.
    pub fn send(&mut self, now: Time) -> Segment {
        let seq = self.log.sent;
        self.log.on_sent(seq);
        Segment { seq, sent: now, flow: self.flow, len: (PROBE_BYTES - HEADER_BYTES) as u16, hop: 0, marks: 0 }
    }

    /// Echoes a probe that arrived at `at`. The echo takes `back`, unless it is lost.
    pub fn on_arrival(&mut self, at: Time, probe: &Segment, back: Span) {
        if !self.loss.lose() {
            self.on_echo(at + back, probe);
        }
    }

    /// Takes an echo that arrived at `arrival`.
    pub fn on_echo(&mut self, arrival: Time, probe: &Segment) {
        self.log.on_echo(probe.seq, probe.sent, arrival);
    }

    /// Applies the loss of ACKs that a schedule has set by `now`.
    pub fn follow(&mut self, setup: &Setup, now: Time) {
        let set = |change: &crate::setup::Change| match change.what {
            ChangeKind::AckLoss(loss) if change.at <= now => Some(loss),
            _ => None,
        };
        let loss: Loss = setup.schedule.iter().rev().find_map(set).unwrap_or(setup.path.ack_loss);
        self.loss.set(loss);
    }
}

impl ProbeLog {
    /// Creates an empty record, if the setup has a probe.
    pub fn new(setup: &Setup) -> Option<Self> {
        let interval = setup.probe?;
        let probes = setup.duration.as_nanos() / interval.as_nanos().max(1) + 1;
        let probes = usize::try_from(probes).unwrap_or(usize::MAX);
        let is_recorded = setup.sample.is_some();
        Some(Self {
            interval,
            sent: 0,
            measured: (setup.warmup, setup.duration),
            echoed: vec![0; probes.div_ceil(64)],
            past_last: 0,
            rtt_us: Histogram::default(),
            is_recorded,
            samples: Vec::with_capacity(if is_recorded { probes } else { 0 }),
        })
    }

    /// Time at which the probe with this number is due.
    const fn due(&self, number: u64) -> Time {
        Time::nanos(self.interval.as_nanos().saturating_mul(number))
    }

    /// Records that the probe with this number was sent.
    pub fn on_sent(&mut self, number: u64) {
        self.sent = self.sent.max(number + 1);
    }

    /// Records an echo that arrived at `arrival`, of a probe sent at `sent`; a second one is ignored.
    pub fn on_echo(&mut self, number: u64, sent: Time, arrival: Time) {
        if arrival > self.measured.1 {
            return;
        }
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        let Some(word) = self.echoed.get_mut(word).filter(|word| **word & bit == 0) else { return };
        *word |= bit;
        self.past_last = self.past_last.max(number + 1);
        let rtt_us = arrival.since(sent).as_micros();
        if self.due(number) >= self.measured.0 {
            self.rtt_us.add(rtt_us);
        }
        if self.is_recorded {
            self.samples.push((arrival, u32::try_from(rtt_us).unwrap_or(u32::MAX)));
        }
    }

    /// Returns the RTTs with the arrival times of their echoes, sorted, if the run records series.
    pub fn samples(&self) -> Vec<(Time, u32)> {
        let mut samples = self.samples.clone();
        samples.sort_by_key(|(at, _)| *at);
        samples
    }

    /// Figures of a run that ended at `end`. `loads` are the RTTs of each flow, µs.
    pub fn result<'h>(&self, setup: &Setup, end: Time, loads: impl Iterator<Item = &'h Histogram>) -> ProbeResult {
        // As `ping` does, waits for twice the largest RTT before it calls a probe lost.
        let wait = match self.rtt_us.count() {
            0 => WAIT_WITHOUT_ECHO.max(setup.path.rtt),
            _ => Span::micros(self.rtt_us.max().saturating_mul(2)),
        };
        let is_counted = |number: u64| {
            let sent = self.due(number);
            sent >= self.measured.0 && (number < self.past_last || sent + wait < end)
        };
        let sent = (0..self.sent).filter(|number| is_counted(*number)).count() as u64;
        let lost = sent.saturating_sub(self.rtt_us.count());
        let bulk = |flow: &crate::setup::FlowSetup| flow.traffic == Traffic::Bulk;
        let loads: Vec<_> =
            setup.flows.iter().zip(loads).filter(|(flow, _)| bulk(flow)).map(|(_, rtts)| rtts).collect();
        ProbeResult {
            interval_s: secs(Time::ZERO + self.interval),
            sent,
            lost,
            loss_ratio: if sent == 0 { 0.0 } else { lost as f64 / sent as f64 },
            rtt_ms: (self.rtt_us.count() > 0).then(|| self.rtt_us.distribution(US_TO_MS)),
            rpm: responsiveness(&self.rtt_us, &loads),
        }
    }
}

/// Responsiveness from the RTTs of probes and of load-generating flows, µs; `None` without samples of both. The flows weigh the
/// same, since the draft's probe chooses its connection at random.
fn responsiveness(probe: &Histogram, loads: &[&Histogram]) -> Option<Responsiveness> {
    let per_minute = |rtts: &[&Histogram]| {
        let mean_ms = Histogram::trimmed_mean(rtts, TRIMMED_TO) * US_TO_MS;
        (mean_ms > 0.0).then(|| MINUTE_MS / mean_ms)
    };
    let (foreign, loaded) = (per_minute(&[probe])?, per_minute(loads)?);
    Some(Responsiveness { rpm: f64::midpoint(foreign, loaded), foreign, loaded })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rtts: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        rtts.iter().for_each(|rtt| histogram.add(*rtt));
        histogram
    }

    #[test]
    fn rpm_is_the_mean_of_both_rates_over_the_lowest_95_percent() {
        // 19 probes of 20 ms and one of a second, which is trimmed; loaded connections of 60 ms.
        let mut probes = vec![20_000; 19];
        probes.push(1_000_000);
        let rpm = responsiveness(&of(&probes), &[&of(&[60_000; 40])]).unwrap();
        assert!((rpm.foreign - 3000.0).abs() < 6.0 && (rpm.loaded - 1000.0).abs() < 2.0, "{rpm:?}");
        assert!((rpm.rpm - 2000.0).abs() < 4.0);
        assert_eq!(responsiveness(&of(&probes), &[&of(&[])]), None);
        assert_eq!(responsiveness(&of(&probes), &[]), None);
    }

    #[test]
    fn a_slow_connection_counts_for_rpm_as_much_as_a_fast_one() {
        // Of both together .95 are kept: all of the fast one's half and .45 of the slow one's.
        let (fast, slow) = (of(&[60_000; 1_000]), of(&[600_000; 10]));
        let rpm = responsiveness(&of(&[20_000]), &[&fast, &of(&[]), &slow]).unwrap();
        let mean_ms = (0.5 * 60.0 + 0.45 * 600.0) / 0.95;
        assert!((rpm.loaded * mean_ms / 60_000.0 - 1.0).abs() < 0.01, "{rpm:?}");
    }
}
