//! Somebody else's flow, as far as a log shows it: qlog in its dialects, `ss -tin` over time, our own trace.
//! No text makes it panic, and nothing is concluded from what is not shown.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod csv;
mod judge;
mod phase;
mod qlog;
mod ss;
mod write;

pub use judge::{ORDER, judge};
pub use phase::Phase;
pub use write::{Judged, json, junit, page};

/// A log that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// Its form, in words.
    pub form: &'static str,
    pub flows: Vec<FlowLog>,
}

/// What a log shows of one flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowLog {
    /// Its name in the log.
    pub name: String,
    /// Its congestion control, where the log says which.
    pub cc: Option<String>,
    /// Payload bytes of a full packet, where the log says so.
    pub mss: Option<f64>,
    /// Times are times; otherwise they only count samples.
    pub is_timed: bool,
    /// Phases come from samples, so that short ones may be missing; otherwise from events.
    pub is_sampled: bool,
    /// Snapshots, in the order of time.
    pub samples: Vec<Sample>,
    /// The phases entered, with the time.
    pub phases: Vec<(f64, Phase)>,
    /// When a packet was declared lost.
    pub losses: Vec<f64>,
}

impl FlowLog {
    /// Whether the draft's demands are its own: it runs a BBR, the algorithm that is asked for, or nobody knows what.
    pub fn is_judged(&self, asked: &[String]) -> bool {
        match &self.cc {
            _ if asked.is_empty() => self.cc.as_ref().is_none_or(|cc| cc.starts_with("bbr")),
            Some(cc) => asked.contains(cc),
            None => true,
        }
    }
}

/// One snapshot; what the log does not hold is NaN. Windows are in bytes, rates in bit/s, times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub t_s: f64,
    pub cwnd: f64,
    pub inflight: f64,
    pub pacing_bps: f64,
    /// The model's bandwidth.
    pub bw_bps: f64,
    /// Newest RTT.
    pub rtt_s: f64,
    pub min_rtt_s: f64,
    pub pacing_gain: f64,
    pub cwnd_gain: f64,
    /// Packets declared lost so far.
    pub lost: f64,
}

impl Sample {
    /// Nothing is known yet.
    pub const UNKNOWN: Self = Self {
        t_s: f64::NAN,
        cwnd: f64::NAN,
        inflight: f64::NAN,
        pacing_bps: f64::NAN,
        bw_bps: f64::NAN,
        rtt_s: f64::NAN,
        min_rtt_s: f64::NAN,
        pacing_gain: f64::NAN,
        cwnd_gain: f64::NAN,
        lost: f64::NAN,
    };
}

/// Reads a log, whatever its form. The error is one line: where, what it held, what would do.
pub fn read(text: &str) -> Result<Log, String> {
    let start = text.trim_start_matches(['\u{feff}', '\u{1e}', ' ', '\t', '\r', '\n']);
    let mut log = if start.starts_with('{') || start.starts_with('[') {
        qlog::read(text)?
    } else if start.starts_with("t_s,") {
        csv::read(start)?
    } else if ss::is_likely(text) {
        ss::read(text)?
    } else {
        return Err("it is neither qlog (JSON), nor a CSV trace of bbrlab, nor the output of ss -tin".to_owned());
    };
    let has_samples = |flow: &FlowLog| !flow.samples.is_empty() || !flow.phases.is_empty();
    log.flows.retain(has_samples);
    if log.flows.is_empty() {
        return Err(format!("it is {}, but holds no window, rate, RTT or state; record recovery metrics", log.form));
    }
    Ok(log)
}
