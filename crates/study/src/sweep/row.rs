//! One run of a sweep as metrics. Its line of text reads back to the same values; no digit is lost.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;

use crate::comparison::Better;
use crate::paths::quality;
use bbrlab_sim::link::{Buffer, Loss};
use bbrlab_sim::metrics;
use bbrlab_sim::record::result::{Distribution, FlowResult, RunResult};
use bbrlab_sim::scenario::Scenario;
use bbrlab_sim::setup::Setup;
use bbrlab_sim::tcp::HEADER_BYTES;

/// Declares the metrics once: variant, name in files and flags, display unit, display factor.
macro_rules! metrics {
    ($($variant:ident: $name:literal, $unit:literal, $scale:literal;)+) => {
        /// A metric of a row. "First" stands for the flows of the scenario's first `flow`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Metric {
            $(#[doc = $name] $variant,)+
        }

        impl Metric {
            /// All metrics, in the order of a row.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Name in files and flags.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Display unit.
            pub const fn unit(self) -> &'static str {
                match self { $(Self::$variant => $unit),+ }
            }

            /// Factor from the stored value to the display unit.
            pub const fn scale(self) -> f64 {
                match self { $(Self::$variant => $scale),+ }
            }
        }
    };
}

metrics! {
    RateBps: "rate_bps", "Mbit/s", 1e-6;
    RttBaseMs: "rtt_base_ms", "ms", 1.0;
    BdpPackets: "bdp_packets", "packets", 1.0;
    BufferBdp: "buffer_bdp", "BDP", 1.0;
    Loss: "loss", "%", 100.0;
    Flows: "flows", "", 1.0;
    GoodputBps: "goodput_bps", "Mbit/s", 1e-6;
    Utilisation: "utilisation", "%", 100.0;
    DropRatio: "drop_ratio", "%", 100.0;
    RetransmitRatio: "retransmit_ratio", "%", 100.0;
    QueueMeanMs: "queue_mean_ms", "ms", 1.0;
    QueueP50Ms: "queue_p50_ms", "ms", 1.0;
    QueueP95Ms: "queue_p95_ms", "ms", 1.0;
    QueueP99Ms: "queue_p99_ms", "ms", 1.0;
    Jain: "jain", "", 1.0;
    ConvergenceS: "convergence_s", "s", 1.0;
    FirstFlows: "first_flows", "", 1.0;
    FirstGoodputBps: "first_goodput_bps", "Mbit/s", 1e-6;
    FirstShare: "first_share", "%", 100.0;
    FirstRttP50Ms: "first_rtt_p50_ms", "ms", 1.0;
    FirstRttP95Ms: "first_rtt_p95_ms", "ms", 1.0;
    FirstRetransmitRatio: "first_retransmit_ratio", "%", 100.0;
    FirstJitterMs: "first_jitter_ms", "ms", 1.0;
    FirstFctS: "first_fct_s", "s", 1.0;
    Packets: "packets", "", 1.0;
    CapacityBps: "capacity_bps", "Mbit/s", 1e-6;
    FirstQuality: "first_quality", "%", 100.0;
}

impl Metric {
    /// Number of metrics.
    pub const COUNT: usize = Self::ALL.len();

    /// Direction in which the metric improves; none if it describes the path or the run.
    pub const fn better(self) -> Option<Better> {
        match self {
            Self::GoodputBps
            | Self::Utilisation
            | Self::Jain
            | Self::FirstGoodputBps
            | Self::FirstShare
            | Self::FirstQuality => Some(Better::More),
            Self::DropRatio
            | Self::RetransmitRatio
            | Self::QueueMeanMs
            | Self::QueueP50Ms
            | Self::QueueP95Ms
            | Self::QueueP99Ms
            | Self::ConvergenceS
            | Self::FirstRttP50Ms
            | Self::FirstRttP95Ms
            | Self::FirstRetransmitRatio
            | Self::FirstJitterMs
            | Self::FirstFctS => Some(Better::Less),
            Self::RateBps
            | Self::RttBaseMs
            | Self::BdpPackets
            | Self::BufferBdp
            | Self::Loss
            | Self::Flows
            | Self::FirstFlows
            | Self::Packets
            | Self::CapacityBps => None,
        }
    }

    /// Returns the metric with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|metric| metric.name() == name)
    }
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Hash of the whole scenario, seed included: equal runs have equal ids.
    pub id: u64,
    pub seed: u64,
    /// Values in the order of [`Metric::ALL`]; NaN where a run has none.
    pub figures: [f64; Metric::COUNT],
}

impl Row {
    /// Computes the metrics of one run.
    pub fn new(scenario: &Scenario, setup: &Setup, result: &RunResult) -> Self {
        let link = &setup.links[setup.bottleneck];
        let rate = link.service.nominal_rate().as_bytes_per_sec() as f64;
        let rtt_s = setup.path.rtt.as_nanos() as f64 / 1e9;
        let first = scenario.flow.first().map_or(result.flows.len(), |flow| flow.count as usize);
        let own: Vec<&FlowResult> = result.flows.iter().take(first).collect();
        let all: Vec<&FlowResult> = result.flows.iter().collect();
        let packet = f64::from(setup.flows.first().map_or(1448, |flow| flow.mss) + HEADER_BYTES);
        let buffer = match link.buffer {
            Buffer::Packets(packets) => packets as f64 * packet,
            Buffer::Bytes(bytes) => bytes as f64,
        };
        let goodput = |of: &[&FlowResult]| result.goodput_bps(of.iter().copied());
        let mean = |of: &[&FlowResult], what: &dyn Fn(&FlowResult) -> f64| {
            of.iter().map(|flow| what(flow)).sum::<f64>() / of.len() as f64
        };
        // Mean over the flows that measured an RTT.
        let mean_rtt = |of: &[&FlowResult], what: fn(&Distribution) -> f64| {
            let rtts: Vec<f64> = of.iter().filter_map(|flow| flow.rtt_ms.as_ref().map(what)).collect();
            rtts.iter().sum::<f64>() / rtts.len() as f64
        };
        // Flows are weighted by the bytes they carried.
        let again = |of: &[&FlowResult]| {
            let bytes: f64 = of.iter().map(|flow| flow.bytes as f64).sum();
            let again: f64 = of.iter().map(|flow| flow.retransmit_ratio * flow.bytes as f64).sum();
            if bytes > 0.0 { again / bytes } else { 0.0 }
        };
        let queue = &result.bottleneck.queue_ms;
        let bdp = rate * rtt_s;
        let figures = [
            8.0 * rate,
            1e3 * rtt_s,
            bdp / packet,
            buffer / bdp,
            loss(link.loss),
            all.len() as f64,
            goodput(&all),
            result.bottleneck.utilisation,
            result.bottleneck.drop_ratio,
            again(&all),
            queue.mean,
            queue.p50,
            queue.p95,
            queue.p99,
            result.jain,
            result.convergence_s.unwrap_or(f64::NAN),
            own.len() as f64,
            goodput(&own),
            goodput(&own) / goodput(&all),
            mean_rtt(&own, |rtt| rtt.p50),
            mean_rtt(&own, |rtt| rtt.p95),
            again(&own),
            mean(&own, &|flow| flow.jitter_ms),
            mean(&own, &|flow| flow.fct_s.unwrap_or(f64::NAN)),
            result.packets as f64,
            8.0 * link.policer.map_or(rate, |policer| rate.min(policer.rate.as_bytes_per_sec() as f64)),
            own.iter().zip(&setup.flows).map(|(flow, setup)| quality(setup, flow)).sum::<f64>() / own.len() as f64,
        ];
        let text = serde_json::to_string(scenario).unwrap_or_default();
        Self { id: metrics::fnv1a(text.as_bytes()), seed: setup.seed, figures }
    }

    /// Returns a metric; NaN if the run has none.
    pub const fn get(&self, metric: Metric) -> f64 {
        self.figures[metric as usize]
    }

    /// Parses the output of its `Display`.
    pub fn parse(line: &str) -> Option<Self> {
        let mut cells = line.split(',');
        let id = u64::from_str_radix(cells.next()?, 16).ok()?;
        let seed = cells.next()?.parse().ok()?;
        let figures: Vec<f64> = cells.map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Self { id, seed, figures: figures.try_into().ok()? })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x},{}", self.id, self.seed)?;
        // Display prints the shortest text that reads back to the same bits.
        self.figures.iter().try_for_each(|figure| write!(f, ",{figure}"))
    }
}

/// Long-term loss rate of a loss model.
pub fn loss(loss: Loss) -> f64 {
    match loss {
        Loss::None => 0.0,
        Loss::Bernoulli(p) => p,
        Loss::GilbertElliott { p, r, loss_bad, loss_good } => {
            let bad = if p + r > 0.0 { p / (p + r) } else { 0.0 };
            bad * loss_bad + (1.0 - bad) * loss_good
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_reads_back_to_the_same_bits() {
        let mut row = super::super::tests::sweep().run(3).unwrap();
        assert_eq!(Row::parse(&row.to_string()).unwrap().to_string(), row.to_string());
        row.figures[7] = 0.1 + 0.2;
        row.figures[8] = 5e-324;
        row.figures[9] = f64::NAN;
        let back = Row::parse(&row.to_string()).unwrap();
        assert!(
            row.figures.iter().zip(&back.figures).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan())
        );
    }

    #[test]
    fn what_is_no_row_is_refused() {
        let line = super::super::tests::sweep().run(0).unwrap().to_string();
        for cut in 0..line.len() {
            let shorter = Row::parse(&line[..cut]);
            assert!(shorter.is_none_or(|row| row.to_string() != line), "{cut}");
        }
        assert!(Row::parse(&format!("{line},1")).is_none());
    }

    #[test]
    fn bursts_of_loss_count_by_their_mean() {
        let ge = Loss::GilbertElliott { p: 0.01, r: 0.09, loss_bad: 0.5, loss_good: 0.0 };
        assert!((loss(ge) - 0.05).abs() < 1e-12);
    }
}
