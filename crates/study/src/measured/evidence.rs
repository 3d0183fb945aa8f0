//! From connections to paths: each path keeps what was measured on it together.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;

use bbrlab_core::AlgorithmConfig;
use bbrlab_stats::plural::counted;
use bbrlab_stats::quantile::nearest_position;

use super::{Connection, SEGMENT};
use crate::paths::{KindSpec, Measured};

/// Share trimmed from both ends of a range, as rates and RTTs of real users scatter. Ours.
const TRIM: f64 = 0.1;
/// Minimum bytes sent for a connection's counters to count: most are past start-up by then. Ours.
const ENOUGH: f64 = 1e6;
/// Maximum random loss assumed where the counters cannot exclude it. Ours, as where nothing is known.
const LOSS_UNSEEN: f64 = 1e-3;
/// Maximum number of paths. Ours: more than an answer draws.
const PATHS_MAX: usize = 400;
/// Smallest share of its maximum to which a loss-based flow reduces its window. Source: CUBIC's beta, RFC 9438, section 4.6.
const BETA: f64 = 0.7;
/// Assumptions about what a connection does not show: the link's maximum rate relative to the connection's, and the number and
/// algorithms of its rivals. The adviser simulates such paths and keeps those that reproduce the measurement. Ours.
const RATE_UNSEEN: f64 = 8.0;
const RIVALS: &str = "0..4";
const RIVAL_FLOWS: [&str; 4] = ["cubic", "bbr1", "bbr3", "cubic,on=2s/off=2s"];
/// Smallest and largest buffer of a path whose algorithm in use is simulated, in BDP of the connection: from a shallow switch to a bloated
/// home router. Without a simulation the smallest is that of [`KindSpec::unknown`]. Ours.
const BUFFER_MIN: f64 = 0.1;
const BUFFER_UNSEEN: f64 = 0.3;
const BUFFER_MAX: f64 = 8.0;
/// Rise of the RTT, relative to its base, from which a queue was there. Ours: below it, jitter looks the same.
const FILLED: f64 = 0.05;

/// Evidence from connections about their paths.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// One class for each path, with what was measured on it together; an unknown rate is left empty. None if no connection
    /// shows an RTT.
    pub specs: Vec<KindSpec>,
    /// Statements of the evidence, one sentence each.
    pub said: Vec<String>,
    /// Reason why there is no rate, if there is none.
    pub no_rate: Option<String>,
    /// Current algorithm in the syntax of `--flow`.
    pub current: Option<String>,
}

/// The connections between two hosts, which share one path.
#[derive(Clone, Debug, Default)]
struct HostPair {
    rate_bps: Option<f64>,
    is_app_limited: bool,
    min_rtt_s: Option<f64>,
    rtt_s: Option<f64>,
    /// Bytes sent by the connections that report both counters.
    sent: f64,
    again: f64,
    is_counted: bool,
    /// Maximum loss of a CUBIC or Reno flow here, by its window.
    bound: Option<f64>,
}

impl HostPair {
    fn of(connections: &[&Connection]) -> Self {
        let enough = |one: &&&Connection| one.sent.is_none_or(|sent| sent >= ENOUGH);
        let own: Vec<&Connection> = connections.iter().filter(enough).copied().collect();
        let rates: Vec<f64> = own.iter().filter_map(|one| one.rate_bps).filter(|rate| *rate > 0.0).collect();
        let rtts =
            |of: fn(&Connection) -> Option<f64>| connections.iter().filter_map(move |one| of(one)).filter(|s| *s > 0.0);
        let counted: Vec<(f64, f64)> = own.iter().filter_map(|one| one.sent.zip(one.again)).collect();
        Self {
            rate_bps: (!rates.is_empty()).then(|| rates.iter().sum()),
            is_app_limited: own.iter().any(|one| one.is_app_limited),
            min_rtt_s: rtts(|one| one.min_rtt_s).reduce(f64::min),
            rtt_s: rtts(|one| one.rtt_s).reduce(f64::max),
            sent: counted.iter().map(|(sent, _)| sent).sum(),
            again: counted.iter().map(|(_, again)| again).sum(),
            is_counted: !counted.is_empty(),
            bound: own.iter().filter_map(|one| most_loss(one)).reduce(f64::min),
        }
    }

    /// Seconds by which its RTT has risen.
    fn queue_s(&self) -> f64 {
        let min_rtt = self.min_rtt_s.unwrap_or(0.0);
        (self.rtt_s.unwrap_or(min_rtt) - min_rtt).max(0.0)
    }

    /// The path as a class. `fills`: its flows are loss-based, so the queue that they keep tells the buffer, unless rivals keep it.
    fn spec(&self, fills: bool) -> KindSpec {
        let (base, queue) = (self.min_rtt_s.unwrap_or(0.0), self.queue_s());
        let is_filled = fills && queue > FILLED * base;
        let (low, high) = match self.rate_bps {
            // The simulation of the algorithm in use decides: rivals such as BBRv1 keep a deep buffer half empty, for loss-based flows too.
            Some(_) => (queue.max(BUFFER_MIN * base), (BUFFER_MAX * base).max(2.0 * queue)),
            // Window and queue are between their maximum and 0.7 of it: BDP + queue >= 0.7 (BDP + buffer).
            None if is_filled => (queue, (queue + (1.0 - BETA) * base) / BETA),
            None => (queue.max(BUFFER_UNSEEN * base), (BUFFER_MAX * base).max(2.0 * queue)),
        };
        let micros = |s: f64| format!("{:.0}us", (s * 1e6).max(1.0));
        let mut spec =
            KindSpec { rtt: micros(base), buffer: format!("{}..{}", micros(low), micros(high)), ..KindSpec::unknown() };
        if let Some(loss) = self.loss() {
            spec.loss = format!("0%..{:.5}%", (100.0 * loss).max(0.00001));
        }
        if let Some(rate_bps) = self.rate_bps {
            let rate = |bps: f64| format!("{:.0}bit", bps.max(8.0));
            spec.rate = format!("{}..{}", rate(rate_bps), rate(RATE_UNSEEN * rate_bps));
            spec.rivals = RIVALS.to_owned();
            spec.rival_flows = RIVAL_FLOWS.map(str::to_owned).to_vec();
            spec.measured = Some(Measured {
                rate_bps,
                rtt_ratio: self.rtt_s.filter(|_| base > 0.0).map(|rtt| rtt / base),
                retransmit_ratio: (self.is_counted && self.sent > 0.0).then(|| self.again / self.sent),
            });
        }
        spec
    }

    /// Maximum random loss that the counters allow. Losses of start-up are excluded: at most what path and queue hold.
    /// Nor can a loss-based flow have kept its window at a higher loss than its response function allows.
    fn loss(&self) -> Option<f64> {
        if !self.is_counted || self.sent <= 0.0 {
            return None;
        }
        let (min_rtt, rtt) = (self.min_rtt_s.unwrap_or(0.0), self.rtt_s.or(self.min_rtt_s).unwrap_or(0.0));
        let start_up = self.rate_bps.unwrap_or(0.0) / 8.0 * (rtt.max(min_rtt) + min_rtt);
        let seen = (self.again - start_up).max(0.0) / self.sent;
        // Zero losses in n packets exclude, at 95 %, a share of 3/n and more.
        let unseen = (3.0 * SEGMENT / self.sent).min(LOSS_UNSEEN);
        Some(seen.max(unseen).min(self.bound.unwrap_or(1.0)).min(0.5))
    }
}

/// Loss at which CUBIC (RFC 9438, section 5.2), or Reno, sustains this connection's mean window; doubled, as a single
/// connection may deviate from the mean.
fn most_loss(connection: &Connection) -> Option<f64> {
    let cubic = match connection.cc.as_deref()? {
        "cubic" => true,
        "reno" => false,
        _ => return None,
    };
    let rtt = connection.rtt_s.or(connection.min_rtt_s)?;
    let window = connection.rate_bps? * rtt / 8.0 / SEGMENT;
    if window <= 1.0 {
        return None;
    }
    let reno = 1.5 / (window * window);
    let by_cubic = (1.054 * rtt.powf(0.75) / window).powf(4.0 / 3.0);
    Some(2.0 * if cubic { reno.max(by_cubic) } else { reno })
}

/// Derives paths from the connections, with the reasoning in words.
pub fn evidence(connections: &[Connection]) -> Evidence {
    let away: Vec<&Connection> = connections.iter().filter(|one| !one.is_loopback()).collect();
    let used = if away.is_empty() { connections.iter().collect() } else { away };
    let pairs = paths(&used);
    let mut said = vec![count_of(&used, pairs.len(), connections.len() - used.len())];
    let with_rtt: Vec<&HostPair> = pairs.iter().filter(|pair| pair.min_rtt_s.is_some()).collect();
    let bulk: Vec<&HostPair> = with_rtt.iter().copied().filter(|pair| pair.rate_bps.is_some()).collect();
    let is_known = |pair: &&HostPair| pair.rate_bps.is_some();
    let no_rate = (!pairs.iter().any(|pair| is_known(&pair))).then(|| no_rate(&used, &pairs));
    let current = current(&used, &mut said);
    let mut chosen = if bulk.is_empty() { with_rtt.clone() } else { bulk };
    if !chosen.is_empty() && chosen.len() < pairs.len() {
        let limited = pairs.iter().filter(|pair| pair.is_app_limited && pair.rate_bps.is_none()).count();
        said.push(format!(
            "{} left out: no rate to be seen{}",
            counted(pairs.len() - chosen.len(), "path"),
            if limited > 0 {
                format!(" ({limited} limited by the application, where the choice matters little)")
            } else {
                String::new()
            }
        ));
    }
    // In order of rate, so that a sequence of draws covers slow and fast paths alike.
    chosen.sort_by(|a, b| a.rate_bps.unwrap_or(0.0).total_cmp(&b.rate_bps.unwrap_or(0.0)));
    if chosen.len() > PATHS_MAX {
        said.push(format!("{PATHS_MAX} of {} paths are used, evenly by rate", chosen.len()));
        chosen = (0..PATHS_MAX).map(|nth| chosen[nth * chosen.len() / PATHS_MAX]).collect();
    }
    let fills = matches!(current.as_deref(), Some("cubic" | "reno"));
    let specs: Vec<KindSpec> = chosen.iter().map(|pair| pair.spec(fills)).collect();
    describe(&chosen, fills, &pairs, &mut said);
    Evidence { specs, said, no_rate, current }
}

/// The evidence in words, over all paths.
fn describe(chosen: &[&HostPair], fills: bool, pairs: &[HostPair], said: &mut Vec<String>) {
    let range = |values: Vec<f64>, scale: f64, places: usize| {
        trimmed(values).map(|(low, high)| span(low * scale, high * scale, places))
    };
    if let Some(rate) = range(chosen.iter().filter_map(|pair| pair.rate_bps).collect(), 1e-6, 3) {
        said.push(format!(
            "rate: {rate} Mbit/s, what was delivered on a path; with rivals, the link carries theirs too"
        ));
    }
    if let Some(rtt) = range(chosen.iter().filter_map(|pair| pair.min_rtt_s).collect(), 1e3, 1) {
        said.push(format!("RTT: {rtt} ms, the smallest of each path"));
        let risen = range(chosen.iter().map(|pair| pair.queue_s()).collect(), 1e3, 1).unwrap_or_default();
        said.push(if chosen.iter().all(|pair| pair.rate_bps.is_some()) {
            format!(
                "buffer: at least the {risen} ms that RTTs rose by; a drawn one is kept if the simulated RTT is like the measured one"
            )
        } else if fills {
            format!(
                "buffer: from the {risen} ms that RTTs rose by, as a loss-based flow keeps it between full and 0.7 full"
            )
        } else {
            format!("buffer: at least the {risen} ms that RTTs rose by; its full size is unknown")
        });
    }
    match trimmed(chosen.iter().filter_map(|pair| pair.loss()).collect()) {
        Some((_, high)) => {
            let (sent, again) = pairs.iter().fold((0.0, 0.0), |sum, path| (sum.0 + path.sent, sum.1 + path.again));
            said.push(format!(
                "random loss: at most {:.4} %, for the losses of start-up and of a full queue are not random; {:.4} % was \
                 retransmitted in all",
                100.0 * high,
                100.0 * again / sent.max(1.0)
            ));
        }
        None => {
            said.push(format!("random loss: {}, assumed, as the counters do not show it", KindSpec::unknown().loss))
        }
    }
}

fn paths(connections: &[&Connection]) -> Vec<HostPair> {
    let mut grouped: BTreeMap<(String, String), Vec<&Connection>> = BTreeMap::new();
    for (nth, one) in connections.iter().enumerate() {
        // A connection without a known peer is on a path of its own.
        grouped.entry(one.hosts().unwrap_or_else(|| (String::new(), nth.to_string()))).or_default().push(one);
    }
    grouped.values().map(|own| HostPair::of(own)).collect()
}

fn count_of(used: &[&Connection], paths: usize, loopback: usize) -> String {
    let mut text = format!("{} on {}", counted(used.len(), "connection"), counted(paths, "path"));
    if paths < used.len() {
        text += " (those between the same two hosts share one)";
    }
    if loopback > 0 {
        text += &format!("; {} over loopback left out", counted(loopback, "connection"));
    }
    if paths >= 10 {
        text += "; the ranges below leave a tenth of the paths out at either end, the answer none";
    }
    text
}

fn no_rate(used: &[&Connection], paths: &[HostPair]) -> String {
    let max = used.iter().filter_map(|one| one.sent).reduce(f64::max);
    match max {
        Some(max) if max < ENOUGH => format!(
            "not enough data: {} sent {:.1} kB at most, and start-up alone takes about 1 MB; record a longer transfer, \
             or say --rate",
            if used.len() == 1 { "the one connection" } else { "its connections" },
            max / 1e3
        ),
        _ if paths.iter().any(|path| path.is_app_limited) => {
            "not enough data: every connection that sent enough was limited by its application (app_limited), so none shows \
             the link's rate; record a bulk transfer, or give --rate"
                .to_owned()
        }
        _ => "not enough data: no connection shows a delivery rate; record a bulk transfer, or give --rate".to_owned(),
    }
}

/// Returns the algorithm with the most bytes sent.
fn current(used: &[&Connection], said: &mut Vec<String>) -> Option<String> {
    let mut bytes: BTreeMap<&str, f64> = BTreeMap::new();
    for one in used {
        if let Some(cc) = &one.cc {
            *bytes.entry(cc).or_default() += one.sent.unwrap_or(1.0).max(1.0);
        }
    }
    let (name, own) = bytes.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
    let share = 100.0 * own / bytes.values().sum::<f64>();
    let of = if bytes.len() > 1 { format!(" ({share:.0} % of the bytes)") } else { String::new() };
    // `bbrlab host` gives our own algorithms names that a kernel accepts.
    let own = name.strip_prefix("bbrlab_").unwrap_or(name).replace('_', "-");
    let known = match own.as_str() {
        "bbr" => "bbr1",
        "bbr3" => "bbr3-linux",
        own if AlgorithmConfig::named(own).is_some() => own,
        _ => {
            said.push(format!("in use: {name}{of}, which bbrlab does not have; compared with cubic instead"));
            return None;
        }
    };
    said.push(format!("in use: {name}{of}{}", if *name == known { String::new() } else { format!(", here {known}") }));
    Some(known.to_owned())
}

/// Smallest and largest value after trimming a tenth at either end.
fn trimmed(mut values: Vec<f64>) -> Option<(f64, f64)> {
    if values.is_empty() {
        return None;
    }
    values.sort_by(f64::total_cmp);
    // With few values, none is trimmed.
    let trim = if values.len() >= 10 { TRIM } else { 0.0 };
    Some((nearest_position(&values, trim), nearest_position(&values, 1.0 - trim)))
}

fn span(low: f64, high: f64, places: usize) -> String {
    let (low, high) = (format!("{low:.places$}"), format!("{high:.places$}"));
    if low == high { low } else { format!("{low} to {high}") }
}
