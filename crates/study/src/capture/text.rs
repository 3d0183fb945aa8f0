//! Estimates in other forms: lines of text, a scenario in TOML, a measured connection for advice.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write as _;

use bbrlab_stats::number::{ms, percent, rate_in_text, rounded};

use super::estimate::{Estimate, LossKind, Vantage};
use crate::measured::Connection;

/// Smallest share of overtaken data that a scenario repeats. Ours.
const REORDERED_MIN: f64 = 1e-4;
/// Header bytes of a frame if an estimate has no rate. Source: Ethernet, IPv4, TCP with timestamps.
const HEADERS: f64 = 66.0;

/// One property with its value and its basis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Property.
    pub name: &'static str,
    /// Value; a dash if it is unknown.
    pub value: String,
    /// Basis.
    pub from: String,
}

fn at_most(is_upper_bound: bool, text: String) -> String {
    if is_upper_bound { format!("at most {text}") } else { text }
}

fn at_least(is_lower_bound: bool, text: String) -> String {
    if is_lower_bound { format!("at least {text}") } else { text }
}

impl Estimate {
    /// Value of the rate, for a table.
    pub fn rate_text(&self) -> String {
        self.rate.as_ref().map_or("–".to_owned(), |rate| at_least(rate.is_lower_bound, rate_in_text(rate.bps)))
    }

    /// Value of the buffer, for a table.
    pub fn buffer_text(&self) -> String {
        self.buffer.as_ref().map_or("–".to_owned(), |buffer| {
            at_least(
                buffer.is_lower_bound,
                format!("{} kB ({} BDP)", rounded(buffer.bytes / 1e3, 3), rounded(buffer.bdp, 2)),
            )
        })
    }

    /// Value of the base RTT in ms, for a table.
    pub fn base_text(&self) -> String {
        self.rtt.as_ref().map_or("–".to_owned(), |rtt| at_most(rtt.is_upper_bound, ms(rtt.base_ms)))
    }

    /// Kinds of loss, for a table.
    pub fn loss_text(&self) -> String {
        match self.losses.as_slice() {
            _ if self.hides_loss() => "–".to_owned(),
            [] if self.loss_ratio > 0.0 => format!("{} of unknown kind", percent(self.loss_ratio)),
            [] => "none".to_owned(),
            kinds => kinds
                .iter()
                .map(|one| format!("{} {}", one.kind.name(), percent(one.ratio)))
                .collect::<Vec<_>>()
                .join(", "),
        }
    }

    /// True if the capture cannot show what was lost.
    pub const fn hides_loss(&self) -> bool {
        matches!(self.vantage, Vantage::Receiver | Vantage::Unknown)
    }

    /// All properties with their values and bases.
    pub fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut add = |name, value: String, from: &str| lines.push(Line { name, value, from: from.to_owned() });
        let vantage = match self.vantage {
            Vantage::Sender => Some("at the sender of the data"),
            Vantage::Receiver => Some("at the receiver of the data"),
            Vantage::Between => Some("between sender and receiver"),
            Vantage::Unknown => None,
        };
        if let Some(vantage) = vantage {
            add("captured", vantage.to_owned(), &self.vantage_from);
        }
        if self.vantage == Vantage::Receiver {
            return lines;
        }
        if let Some(rate) = &self.rate {
            let range = format!(
                ", four fifths within {} to {}",
                rate_in_text(rate.range_bps.0),
                rate_in_text(rate.range_bps.1)
            );
            let has_range = !rate.is_lower_bound && rate.range_bps != (rate.bps, rate.bps);
            let range = if has_range { range } else { String::new() };
            add("rate", format!("{}{range}", self.rate_text()), &rate.from);
        }
        if let Some(rtt) = &self.rtt {
            add("base RTT", format!("{} ms", self.base_text()), &rtt.from);
            let rise = format!(
                "{} ms median, {} p95, {} max",
                ms(rtt.p50_ms - rtt.base_ms),
                ms(rtt.p95_ms - rtt.base_ms),
                ms(rtt.max_ms - rtt.base_ms)
            );
            let from = if self.vantage == Vantage::Unknown { &rtt.from } else { "ACKs of data sent once" };
            add("RTT rise", rise, from);
        }
        if let Some(buffer) = &self.buffer {
            add("buffer", format!("{}, {} ms to drain", self.buffer_text(), ms(buffer.ms)), &buffer.from);
        }
        for loss in &self.losses {
            let value = format!("{}, {}, in {} episodes", loss.kind.name(), percent(loss.ratio), loss.episodes.round());
            add("loss", format!("{value}, {} in a row", rounded(loss.run, 2)), &loss.from);
        }
        if self.losses.is_empty() && !self.hides_loss() {
            add("loss", self.loss_text(), "retransmissions without a duplicate report");
        }
        if let Some(policer) = &self.policer {
            let value = format!("{}, burst {} kB", rate_in_text(policer.bps), rounded(policer.burst_bytes / 1e3, 3));
            add("policer", value, &policer.from);
        }
        if self.acks.segments > 0.0 {
            self.endpoints(&mut add);
        }
        if let Some(own) = &self.algorithm {
            add("algorithm", own.name.clone(), &own.from);
        }
        lines
    }

    /// Properties that only packets show: order, ACKs, limits of both ends.
    fn endpoints(&self, add: &mut impl FnMut(&'static str, String, &str)) {
        let reordered = match self.reordered_ratio {
            0.0 => "none".to_owned(),
            ratio => format!("{}, by {} segments at most", percent(ratio), rounded(self.reordered_segments, 3)),
        };
        add("reordering", reordered, "data acknowledged after later data, and sent once");
        add(
            "needless",
            percent(self.needless_ratio),
            "retransmissions of data that had arrived, by ACKs and duplicate reports",
        );
        let period =
            self.acks.period_ms.map_or(String::new(), |period| format!(", in clusters every {} ms", ms(period)));
        add("ACKs", format!("one for {} segments{period}", rounded(self.acks.segments, 3)), &self.acks.from);
        add("application", percent(self.application_limited), "share of the time with nothing in flight");
        if let Some(share) = self.receiver_limited {
            add("receiver", percent(share), "share of the time in which the receive window was full");
        }
    }

    /// True if a scenario can have this path: rate and RTT are known.
    pub fn is_path(&self) -> bool {
        self.rate.is_some() && self.rtt.is_some()
    }

    /// Keys of a scenario with this path, and their values.
    pub fn keys(&self) -> Vec<(&'static str, String)> {
        let (Some(rate), Some(rtt)) = (&self.rate, &self.rtt) else { return Vec::new() };
        let mut keys = vec![
            ("rate", format!("{:.0}bit", rate.bps.max(8.0))),
            ("rtt", format!("{:.0}us", (1e3 * rtt.base_ms).max(1.0))),
        ];
        if let Some(buffer) = &self.buffer {
            keys.push(("buffer", format!("{:.0}B", buffer.bytes.max(self.mss as f64 + HEADERS))));
        }
        if let Some(policer) = &self.policer {
            let burst = policer.burst_bytes.max(self.mss as f64 + HEADERS);
            keys.push(("policer", format!("rate={:.0}bit,burst={burst:.0}B", policer.bps.max(8.0))));
        }
        if let Some(loss) = self.losses_of(LossKind::Random) {
            keys.push(("loss", format!("{:.4}%", (100.0 * loss.ratio).min(50.0))));
        } else if let Some(loss) = self.losses_of(LossKind::Burst) {
            // In the bad state everything is lost: its mean length is the mean run, its share the share of losses.
            let out = (1.0 / loss.run.max(1.0)).min(1.0);
            let into = (loss.ratio.min(0.5) * out / (1.0 - loss.ratio.min(0.5))).min(1.0);
            keys.push(("loss", format!("ge:{:.4}%,{:.2}%", 100.0 * into, 100.0 * out)));
        }
        if self.reordered_ratio >= REORDERED_MIN {
            keys.push(("reorder", format!("{:.3}%", (100.0 * self.reordered_ratio).min(100.0))));
        }
        if let Some(period_ms) = self.acks.period_ms {
            keys.push(("ack_aggregation", format!("{:.0}us", (1e3 * period_ms).max(1.0))));
        }
        keys
    }

    /// A scenario in TOML with this path, its bases as comments; none if rate or RTT is unknown.
    pub fn toml(&self, source: &str) -> Option<String> {
        if !self.is_path() {
            return None;
        }
        let one_line = |text: &str| text.replace(['\n', '\r'], " ");
        let mut text = format!(
            "# Path of {} → {}, estimated by bbrlab path from {}\n",
            self.sender,
            self.receiver,
            one_line(source)
        );
        for line in self.lines() {
            let _ = writeln!(text, "# {}: {} (from {})", line.name, line.value, one_line(&line.from));
        }
        for unknown in &self.unknown {
            let _ = writeln!(text, "# unknown: {}", one_line(unknown));
        }
        for (key, value) in self.keys() {
            let _ = writeln!(text, "{key} = \"{value}\"");
        }
        if let Some(own) = &self.algorithm {
            let _ = writeln!(text, "flow = [\"{}\"]", own.name);
        }
        Some(text)
    }

    /// The connection as a measurement for advice. A limit of the sender or the receiver hides the path's rate.
    pub fn connection(&self) -> Connection {
        let policed = self.policer.as_ref().map(|policer| policer.bps);
        let rate = self.rate.as_ref().map(|rate| policed.map_or(rate.bps, |policed| policed.min(rate.bps)));
        let is_app_limited = self.application_limited > 0.5 || self.receiver_limited.is_some_and(|share| share > 0.5);
        let is_bound = self.rate.as_ref().is_some_and(|rate| rate.is_lower_bound);
        Connection {
            ends: Some((self.sender.clone(), self.receiver.clone())),
            cc: self.algorithm.as_ref().map(|own| own.name.clone()),
            rate_bps: rate.filter(|_| !(is_app_limited && is_bound)).map(|rate| rate.min(self.goodput_bps.max(1.0))),
            is_app_limited: is_app_limited && is_bound,
            min_rtt_s: self.rtt.as_ref().map(|rtt| rtt.base_ms / 1e3),
            rtt_s: self.rtt.as_ref().map(|rtt| rtt.p50_ms / 1e3),
            sent: Some(self.sent_bytes),
            again: (!self.hides_loss()).then_some(self.retransmitted_bytes),
        }
    }
}
