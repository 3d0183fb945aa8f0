//! Metrics that an advice reports for each candidate.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use serde::Serialize;

use crate::choose::objective::Terms;
use crate::sweep::{Metric, Row};

/// A metric reported for a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Figure {
    /// Goodput, Mbit/s.
    Goodput,
    /// Goodput up to the fair share, relative to it, %.
    FairShare,
    /// Median RTT, ms.
    RttP50,
    /// 95th percentile of RTT, ms.
    RttP95,
    /// Median RTT over the base RTT.
    RttRatio,
    /// Retransmitted over sent, %.
    Retransmitted,
    /// Rivals' goodput over their fair share, %; on paths with rivals.
    Others,
    /// Quality of the call or video, %.
    Quality,
}

impl Figure {
    /// All metrics, in display order.
    pub const ALL: [Self; 8] = [
        Self::Goodput,
        Self::FairShare,
        Self::RttP50,
        Self::RttP95,
        Self::RttRatio,
        Self::Retransmitted,
        Self::Others,
        Self::Quality,
    ];

    /// Table heading.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput",
            Self::FairShare => "of fair share",
            Self::RttP50 => "RTT p50",
            Self::RttP95 => "RTT p95",
            Self::RttRatio => "over base RTT",
            Self::Retransmitted => "retransmitted",
            Self::Others => "rivals get",
            Self::Quality => "quality",
        }
    }

    /// Unit.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Goodput => "Mbit/s",
            Self::FairShare | Self::Retransmitted | Self::Quality => "%",
            Self::RttP50 | Self::RttP95 => "ms",
            Self::RttRatio => "×",
            Self::Others => "% of theirs",
        }
    }

    /// Returns the metric of one run; NaN if it has none.
    pub(super) fn of(self, row: &Row) -> f64 {
        let terms = Terms::of(&row.figures).0;
        let quality = row.get(Metric::FirstQuality);
        match self {
            Self::Goodput => row.get(Metric::FirstGoodputBps) * 1e-6,
            // An application sends what it has, not its share.
            Self::FairShare if quality.is_finite() => f64::NAN,
            Self::FairShare => 100.0 * terms[Terms::GOODPUT],
            Self::RttP50 => row.get(Metric::FirstRttP50Ms),
            Self::RttP95 => row.get(Metric::FirstRttP95Ms),
            Self::RttRatio => row.get(Metric::FirstRttP50Ms) / row.get(Metric::RttBaseMs),
            Self::Retransmitted => 100.0 * row.get(Metric::FirstRetransmitRatio),
            Self::Others if row.get(Metric::Flows) > row.get(Metric::FirstFlows) => 100.0 * terms[Terms::OTHERS],
            Self::Others => f64::NAN,
            Self::Quality => 100.0 * quality,
        }
    }

    /// Metric behind each term of the score, in the order of [`Terms`].
    pub(super) const fn of_terms(is_application: bool) -> [Self; Terms::COUNT] {
        let first = if is_application { Self::Quality } else { Self::FairShare };
        [first, Self::RttRatio, Self::Retransmitted, Self::Others]
    }

    /// Returns true if higher is better.
    pub(super) const fn is_gain(self) -> bool {
        matches!(self, Self::Goodput | Self::FairShare | Self::Others | Self::Quality)
    }
}
