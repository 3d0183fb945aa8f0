//! A third party's flow, as far as a log shows it: qlog in its dialects, `ss -tin` over time, our own trace. No input
//! text causes a panic, and missing data supports no conclusion.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod csv;
mod judge;
mod phase;
mod qlog;
mod ss;
mod write;

use bbrlab_stats::plural::verb;
pub use judge::{ORDER, judge};
pub use phase::Phase;
pub use write::{JudgedFlows, json, junit, page};

use crate::{Error, Result};

/// A parsed log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// Name of the log's format.
    pub form: &'static str,
    pub flows: Vec<FlowLog>,
}

/// Data of one flow in a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowLog {
    /// Name in the log.
    pub name: String,
    /// Congestion control, if the log names it.
    pub cc: Option<String>,
    /// Payload bytes of a full packet, if the log holds it.
    pub mss: Option<f64>,
    /// Times are real times; otherwise they only count samples.
    pub is_timed: bool,
    /// Phases come from samples, so that short ones may be missing; otherwise from events.
    pub is_sampled: bool,
    /// Snapshots in time order.
    pub samples: Vec<Sample>,
    /// Phases entered, with the time.
    pub phases: Vec<(f64, Phase)>,
    /// Times at which packets were declared lost; empty also if the log has no event or count of losses.
    pub losses: Vec<f64>,
}

/// Returns true for an edition that the draft describes: BBRv3, or a name that leaves the edition open, such as the
/// `bbr` of a kernel or of another stack.
pub fn is_of_the_draft(cc: &str) -> bool {
    // `s2n:bbr` is the stack's own.
    let (is_foreign, cc) = cc.rsplit_once(':').map_or((false, cc), |(_, own)| (true, own));
    let is_older = !is_foreign && bbrlab_core::AlgorithmConfig::named(cc).is_some();
    cc.starts_with("bbr3") || (cc.starts_with("bbr") && !is_older)
}

impl FlowLog {
    /// Number of losses in words; a log without loss events does not show that there were none.
    pub fn losses_text(&self) -> String {
        match self.losses.len() {
            0 => "no loss in the log".to_owned(),
            losses => verb(losses, "loss", "losses"),
        }
    }

    /// Returns true if the draft applies to the flow: its algorithm is BBRv3, one that was requested, or unknown.
    pub fn is_judged(&self, asked: &[String]) -> bool {
        match &self.cc {
            _ if asked.is_empty() => self.cc.as_deref().is_none_or(is_of_the_draft),
            Some(cc) => asked.contains(cc),
            None => true,
        }
    }
}

/// One snapshot; values missing from the log are NaN. Windows are in bytes, rates in bit/s, times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub t_s: f64,
    pub cwnd: f64,
    pub inflight: f64,
    pub pacing_bps: f64,
    /// Bandwidth estimate of the model.
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
    /// A sample without any data.
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

/// Reads a log in any supported format. The error is one line: location, value found, values accepted.
pub fn read(text: &str) -> Result<Log> {
    let start = text.trim_start_matches(['\u{feff}', '\u{1e}', ' ', '\t', '\r', '\n']);
    let mut log = if start.starts_with('{') || start.starts_with('[') {
        qlog::read(text)?
    } else if start.starts_with("t_s,") {
        csv::read(start)?
    } else if ss::is_likely(text) {
        ss::read(text)?
    } else {
        return Err(Error::UnknownLog);
    };
    let has_samples = |flow: &FlowLog| !flow.samples.is_empty() || !flow.phases.is_empty();
    log.flows.retain(has_samples);
    if log.flows.is_empty() {
        return Err(Error::EmptyLog(log.form));
    }
    Ok(log)
}

#[cfg(test)]
mod tests {
    use bbrlab_core::State;

    use super::*;
    use crate::conform::Verdict;

    #[test]
    fn the_draft_of_bbr3_judges_no_older_bbr_and_no_other_algorithm() {
        for (cc, is_judged) in [
            ("bbr3", true),
            ("bbr3-linux", true),
            ("bbr", true),
            ("s2n:bbr", true),
            ("bbr1", false),
            ("bbr2", false),
            ("bbr-s", false),
            ("cubic", false),
        ] {
            let flow = FlowLog { cc: Some(cc.to_owned()), ..FlowLog::default() };
            assert_eq!(flow.is_judged(&[]), is_judged, "{cc}");
        }
        assert!(FlowLog::default().is_judged(&[]));
    }

    #[test]
    fn only_a_logged_gain_of_startup_has_an_upper_bound() {
        let gain = |sample: Sample| {
            let phases = vec![(0.0, Phase::Known(State::Startup))];
            let samples = [0.1, 0.2].map(|t_s| Sample { t_s, ..sample }).to_vec();
            let flow = FlowLog { phases, samples, ..FlowLog::default() };
            let found = judge::judge(&flow).into_iter().find(|check| check.what == "pacing gain in startup");
            found.unwrap().verdict
        };
        let measured = |pacing_bps| Sample { pacing_bps, bw_bps: 1e6, ..Sample::UNKNOWN };
        assert_eq!((gain(measured(9e6)), gain(measured(2e6))), (Verdict::Holds, Verdict::Fails));
        assert_eq!(gain(Sample { pacing_gain: 9.0, ..Sample::UNKNOWN }), Verdict::Fails);
    }

    #[test]
    fn a_log_without_events_of_loss_is_not_said_to_show_none() {
        let flow = |losses: &[f64]| FlowLog { losses: losses.to_vec(), ..FlowLog::default() }.losses_text();
        assert_eq!((flow(&[]), flow(&[0.1, 0.2])), ("no loss in the log".into(), "2 losses".into()));
    }
}
