//! Path properties inferred from measurements of live connections: `ss -tin`, iperf3's JSON, records of TCP_INFO as
//! CSV. The result is ranges for rate, RTT, buffer and loss, with their evidence; unknown properties stay open and are
//! reported as such.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;

use bbrlab_core::AlgorithmConfig;
use serde_json::Value;

use crate::paths::KindSpec;
use crate::ss::{Fields, addresses};
use crate::{Error, Result};
use bbrlab_stats::plural::counted;
use bbrlab_stats::quantile::nearest_position;

/// One connection: its newest counters, its best rate, its range of RTTs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Connection {
    /// Both endpoints with their ports, if known.
    pub ends: Option<(String, String)>,
    /// Congestion control, as named by the kernel.
    pub cc: Option<String>,
    /// Highest delivery rate or goodput, bit/s; `None` if the sender had nothing more to send.
    pub rate_bps: Option<f64>,
    /// A rate was found, but it was application-limited.
    pub is_app_limited: bool,
    /// Smallest RTT, seconds.
    pub min_rtt_s: Option<f64>,
    /// Usual RTT, seconds.
    pub rtt_s: Option<f64>,
    /// Bytes sent.
    pub sent: Option<f64>,
    /// Retransmitted bytes among them.
    pub again: Option<f64>,
}

/// Evidence from connections about their paths.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Ranges; an unknown rate or RTT is left empty.
    pub spec: KindSpec,
    /// Statements of the evidence, one sentence each.
    pub said: Vec<String>,
    /// Reason why there is no rate, if there is none.
    pub no_rate: Option<String>,
    /// Current algorithm in the syntax of `--flow`.
    pub current: Option<String>,
}

/// Payload of a full packet, for counters in segments.
const SEGMENT: f64 = 1448.0;
/// Share trimmed from both ends of a range, as rates and RTTs of real users scatter. Ours.
const TRIM: f64 = 0.1;
/// Minimum bytes sent for a connection's counters to count: most are past start-up by then. Ours.
const ENOUGH: f64 = 1e6;
/// Maximum random loss assumed where the counters cannot exclude it. Ours, as where nothing is known.
const LOSS_UNSEEN: f64 = 1e-3;
/// Reads a text in any of the three formats.
pub fn read(text: &str) -> Result<Vec<Connection>> {
    let head = text.trim_start();
    let connections = if head.starts_with('{') || head.starts_with('[') {
        iperf3(head)?
    } else if text.lines().next().is_some_and(|line| line.contains("tcpi_")) {
        records(text)?
    } else {
        ss(text)
    };
    if connections.iter().all(|one| one.min_rtt_s.is_none() && one.rate_bps.is_none()) {
        return Err(Error::NoSamples);
    }
    Ok(connections)
}

/// Reads `ss -tin`, once or repeated: the newest counters of each connection.
fn ss(text: &str) -> Vec<Connection> {
    let mut found = LatestSamples::default();
    let mut ends = None;
    for line in text.lines() {
        let words = Fields::of(line);
        if let Some((local, peer)) = addresses(&words.0) {
            ends = Some((local.to_owned(), peer.to_owned()));
        }
        let Some(min_rtt) = words.number("minrtt").or_else(|| words.number("rtt")) else { continue };
        found.add(connection(&words, min_rtt, ends.take()));
    }
    found.into_connections()
}

/// Connections sampled repeatedly: newest counters, best rate and range of RTTs of each.
#[derive(Clone, Debug, Default)]
pub struct LatestSamples {
    found: Vec<Connection>,
    known: BTreeMap<(String, String), usize>,
}

impl LatestSamples {
    /// Adds a sample of a connection; one with unknown endpoints counts as a new connection each time.
    pub fn add(&mut self, connection: Connection) {
        let Some(ends) = &connection.ends else { return self.found.push(connection) };
        match self.known.get(ends) {
            Some(at) => self.found[*at].update(connection),
            None => {
                self.known.insert(ends.clone(), self.found.len());
                self.found.push(connection);
            }
        }
    }

    /// Returns the connections in order of first appearance.
    pub fn into_connections(self) -> Vec<Connection> {
        self.found
    }
}

fn connection(words: &Fields<'_>, min_rtt_ms: f64, ends: Option<(String, String)>) -> Connection {
    let segments = words.number("data_segs_out").map(|segments| segments * words.number("mss").unwrap_or(SEGMENT));
    let sent = words.number("bytes_sent").or(segments).or_else(|| words.number("bytes_acked"));
    let lost = words.text("retrans").and_then(|text| text.rsplit('/').next()?.parse::<f64>().ok());
    let again = words.number("bytes_retrans").or(lost.map(|n| n * words.number("mss").unwrap_or(SEGMENT)));
    let rate = words.rate("delivery_rate");
    let is_app_limited = words.has("app_limited");
    let version_3 = words.text("bbr").is_some_and(|model| model.contains("version:3") || model.contains("bw_hi:"));
    let cc = words.congestion_control().map(|name| match name {
        "bbr" if version_3 => "bbr3".to_owned(),
        name => name.to_owned(),
    });
    Connection {
        ends,
        cc,
        // A sender without data to send gives no information about the path's rate.
        rate_bps: rate.filter(|_| !is_app_limited),
        is_app_limited: is_app_limited && rate.is_some(),
        min_rtt_s: Some(min_rtt_ms / 1e3),
        rtt_s: words.number("rtt").map(|rtt| rtt / 1e3),
        sent,
        again: again.or(sent.map(|_| 0.0)),
    }
}

impl Connection {
    /// Merges a newer sample of the same connection.
    fn update(&mut self, newer: Self) {
        let min = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::min);
        let max = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        *self = Self {
            rate_bps: max(self.rate_bps, newer.rate_bps),
            min_rtt_s: min(self.min_rtt_s, newer.min_rtt_s),
            rtt_s: max(self.rtt_s, newer.rtt_s),
            ..newer
        };
    }

    /// Hosts without ports: connections between the same two share their path.
    fn hosts(&self) -> Option<(String, String)> {
        let host = |end: &str| end.rsplit_once(':').map_or(end, |(host, _)| host).to_owned();
        self.ends.as_ref().map(|(local, peer)| (host(local), host(peer)))
    }

    fn is_loopback(&self) -> bool {
        let own = |host: &str| host.starts_with("127.") || matches!(host, "[::1]" | "::1" | "[::ffff:127.0.0.1]");
        self.hosts().is_some_and(|(local, peer)| own(&local) && own(&peer))
    }
}

/// Reads `iperf3 -J` of the sending side.
fn iperf3(text: &str) -> Result<Vec<Connection>> {
    let value: Value = serde_json::from_str(text).map_err(Error::NotJson)?;
    if let Some(error) = value["error"].as_str() {
        return Err(Error::Iperf3(error.to_owned()));
    }
    if value["start"]["test_start"]["protocol"].as_str().is_some_and(|protocol| protocol != "TCP") {
        return Err(Error::Udp);
    }
    let cc = value["end"]["sender_tcp_congestion"].as_str().map(str::to_owned);
    let host = |key: &str| value["start"]["connected"][0][key].as_str().unwrap_or("iperf3").to_owned();
    let (local, peer) = (host("local_host"), host("remote_host"));
    let streams = value["end"]["streams"].as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for (nth, stream) in streams.iter().enumerate() {
        let sender = &stream["sender"];
        let micros = |key: &str| sender[key].as_f64().filter(|micros| *micros > 0.0).map(|micros| micros / 1e6);
        found.push(Connection {
            ends: Some((format!("{local}:{nth}"), format!("{peer}:{nth}"))),
            cc: cc.clone(),
            rate_bps: stream["receiver"]["bits_per_second"].as_f64().or_else(|| sender["bits_per_second"].as_f64()),
            is_app_limited: false,
            min_rtt_s: micros("min_rtt"),
            rtt_s: micros("mean_rtt"),
            sent: sender["bytes"].as_f64(),
            again: sender["retransmits"].as_f64().map(|segments| segments * SEGMENT),
        });
    }
    Ok(found)
}

/// Reads records of TCP_INFO: a CSV with the kernel's names in its header, and optionally `local` and `peer`.
fn records(text: &str) -> Result<Vec<Connection>> {
    if let Some(line) = crate::quotes::left_open(text.as_bytes()) {
        return Err(Error::at(format!("line {line}"))(Error::OpenQuote));
    }
    let mut lines = text.lines().enumerate();
    let (_, head) = lines.next().ok_or(Error::Empty)?;
    let names: Vec<&str> = head.split(',').map(str::trim).collect();
    let place = |name: &str| names.iter().position(|known| *known == name);
    let (min_rtt, rtt, rate) = (place("tcpi_min_rtt"), place("tcpi_rtt"), place("tcpi_delivery_rate"));
    let (sent, again) = (place("tcpi_bytes_sent"), place("tcpi_bytes_retrans"));
    let limited = place("tcpi_delivery_rate_app_limited");
    let ends = place("local").zip(place("peer"));
    let mut found = Vec::new();
    for (nth, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let get = |place: Option<usize>| -> Result<Option<f64>> {
            let Some(cell) = place.and_then(|place| cells.get(place)).filter(|cell| !cell.is_empty()) else {
                return Ok(None);
            };
            cell.parse()
                .map(Some)
                .map_err(|_| Error::at(format!("line {}", nth + 1))(Error::NotANumber((*cell).to_owned())))
        };
        let text = |place: usize| cells.get(place).map(|cell| (*cell).to_owned());
        let limited = get(limited)?.is_some_and(|flag| flag != 0.0);
        let rate = get(rate)?;
        found.push(Connection {
            ends: ends.and_then(|(local, peer)| text(local).zip(text(peer))),
            cc: None,
            // The kernel counts delivery in bytes per second.
            rate_bps: rate.filter(|_| !limited).map(|rate| rate * 8.0),
            is_app_limited: limited && rate.is_some(),
            min_rtt_s: get(min_rtt)?.filter(|micros| *micros > 0.0).map(|micros| micros / 1e6),
            rtt_s: get(rtt)?.map(|micros| micros / 1e6),
            sent: get(sent)?,
            again: get(again)?,
        });
    }
    Ok(found)
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

/// Derives ranges from the connections, with the reasoning in words.
pub fn evidence(connections: &[Connection]) -> Evidence {
    let away: Vec<&Connection> = connections.iter().filter(|one| !one.is_loopback()).collect();
    let used = if away.is_empty() { connections.iter().collect() } else { away };
    let paths = paths(&used);
    let mut said = vec![count_of(&used, paths.len(), connections.len() - used.len())];
    let mut spec = KindSpec::unknown();
    let rates: Vec<f64> = paths.iter().filter_map(|path| path.rate_bps).collect();
    let no_rate = rates.is_empty().then(|| no_rate(&used, &paths));
    if let Some((low, high)) = trimmed(rates) {
        spec.rate = format!("{:.0}bit..{:.0}bit", low.max(8.0), high.max(8.0));
        said.push(format!("rate: {} Mbit/s, what was delivered on a path", span(low / 1e6, high / 1e6, 3)));
    }
    if let Some((shortest, longest)) = trimmed(paths.iter().filter_map(|path| path.min_rtt_s).collect()) {
        spec.rtt = format!("{:.0}us..{:.0}us", (shortest * 1e6).max(1.0), (longest * 1e6).max(1.0));
        said.push(format!("RTT: {} ms, the smallest of each path", span(shortest * 1e3, longest * 1e3, 1)));
        // The observed queue fits into the buffer; its full size is unknown.
        let risen = paths.iter().filter_map(|path| Some(path.rtt_s? - path.min_rtt_s?)).filter(|risen| *risen > 0.0);
        let queue = trimmed(risen.collect()).map_or(0.0, |(_, high)| high);
        let (low, high) = (queue.max(0.3 * shortest), (8.0 * longest).max(2.0 * queue));
        spec.buffer = format!("{:.0}us..{:.0}us", (low * 1e6).max(1.0), (high * 1e6).max(1.0));
        said.push(format!("buffer: at least the {:.1} ms that RTTs rose by, up to {:.0} ms", queue * 1e3, high * 1e3));
    }
    match trimmed(paths.iter().filter_map(HostPair::loss).collect()) {
        Some((_, high)) => {
            spec.loss = format!("0%..{:.5}%", (100.0 * high).max(0.00001));
            let (sent, again) = paths.iter().fold((0.0, 0.0), |sum, path| (sum.0 + path.sent, sum.1 + path.again));
            said.push(format!(
                "random loss: at most {:.4} %, for the losses of start-up and of a full queue are not random; {:.4} % was \
                 retransmitted in all",
                100.0 * high,
                100.0 * again / sent.max(1.0)
            ));
        }
        None => said.push(format!("random loss: {}, assumed, as the counters do not show it", spec.loss)),
    }
    let current = current(&used, &mut said);
    Evidence { spec, said, no_rate, current }
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
        text += "; a tenth of the paths is dropped at either end of each range";
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of `ss -tin` with one connection.
    fn call(ends: &str, details: &str) -> String {
        format!("ESTAB 0 0 {ends}\n\t {details}\n")
    }

    fn of(text: &str) -> Evidence {
        evidence(&read(text).unwrap())
    }

    /// Maximum random loss, per cent.
    fn loss(evidence: &Evidence) -> f64 {
        evidence.spec.loss.trim_start_matches("0%..").trim_end_matches('%').parse().unwrap()
    }

    const ENDS: &str = "10.0.0.1:443 10.0.0.2:5000";

    #[test]
    fn a_line_of_ss_gives_rate_rtt_and_retransmissions() {
        let text = call(
            ENDS,
            "bbr wscale:7,7 rto:244 rtt:41.9/0.5 minrtt:40.1 bytes_sent:1000000 bytes_retrans:10000 \
             delivery_rate 9556208bps busy:1s",
        );
        let one = &read(&text).unwrap()[0];
        assert_eq!((one.rate_bps, one.min_rtt_s), (Some(9_556_208.0), Some(40.1 / 1e3)));
        assert_eq!((one.sent, one.again, one.cc.as_deref()), (Some(1e6), Some(1e4), Some("bbr")));
    }

    #[test]
    fn iperf3_and_tcp_info_are_told_apart() {
        let json = r#"{"end":{"streams":[{"sender":{"bytes":1448000,"bits_per_second":1e7,"retransmits":10,
            "min_rtt":20000,"mean_rtt":30000},"receiver":{"bits_per_second":9e6}}],"sender_tcp_congestion":"reno"}}"#;
        let one = &read(json).unwrap()[0];
        assert_eq!((one.rate_bps, one.min_rtt_s, one.again), (Some(9e6), Some(0.02), Some(14_480.0)));
        assert_eq!(of(json).current.as_deref(), Some("reno"));
        let csv = "tcpi_min_rtt,tcpi_rtt,tcpi_delivery_rate\n20000,25000,1000000\n";
        assert_eq!(read(csv).unwrap()[0].rate_bps, Some(8e6));
    }

    #[test]
    fn what_is_none_of_them_is_refused_in_a_line() {
        for text in [
            "",
            "hello",
            "{}",
            "{",
            "tcpi_min_rtt\nx\n",
            "tcpi_min_rtt\n\"4",
            "minrtt:nan",
            "[1,2]",
            "{\"end\":{\"streams\":[1]}}",
            "{\"error\":\"unable to connect\"}",
            "{\"start\":{\"test_start\":{\"protocol\":\"UDP\"}}}",
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(!error.is_empty() && !error.contains('\n'), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_sender_without_data_says_nothing_of_the_rate_and_that_is_said() {
        let found = of("rtt:41.9/0.5 minrtt:40.1 delivery_rate 9556208bps app_limited busy:1s");
        assert_eq!((found.spec.rate.as_str(), found.spec.rtt.as_str()), ("", "40100us..40100us"));
        assert!(found.no_rate.unwrap().contains("limited by its application"));
        let csv = "tcpi_min_rtt,tcpi_delivery_rate,tcpi_delivery_rate_app_limited\n20000,1000,1\n20000,2000,0\n";
        assert_eq!(read(csv).unwrap().iter().filter_map(|one| one.rate_bps).collect::<Vec<_>>(), [16_000.0]);
    }

    #[test]
    fn a_few_kilobytes_are_not_enough_data() {
        let found = of(&call(ENDS, "cubic rtt:41.9/0.5 minrtt:40.1 cwnd:10 bytes_sent:4500 delivery_rate 955Kbps"));
        assert_eq!(found.spec.rate, "");
        let why = found.no_rate.unwrap();
        assert!(why.starts_with("not enough data: the one connection sent 4.5 kB"), "{why}");
    }

    #[test]
    fn streams_of_one_test_are_one_path_of_their_rates_sum() {
        let stream = r#"{"sender":{"bytes":12500000,"bits_per_second":1e7,"retransmits":0,"min_rtt":20000,
            "mean_rtt":30000},"receiver":{"bits_per_second":1e7}}"#;
        let found = of(&format!("{{\"end\":{{\"streams\":[{stream},{stream},{stream}]}}}}"));
        assert_eq!(found.spec.rate, "30000000bit..30000000bit");
        assert!(found.said[0].starts_with("3 connections on 1 path"), "{:?}", found.said);
    }

    #[test]
    fn calls_repeated_are_one_connection_with_its_newest_counters() {
        let details = |sent: u64, rate: u64| {
            format!("cubic rtt:30/1 minrtt:20 cwnd:10 bytes_sent:{sent} bytes_retrans:0 delivery_rate {rate}Mbps")
        };
        let text = call(ENDS, &details(2_000_000, 20)) + &*call(ENDS, &details(9_000_000, 10));
        let all = read(&text).unwrap();
        assert_eq!((all.len(), all[0].sent, all[0].rate_bps), (1, Some(9e6), Some(2e7)));
    }

    #[test]
    fn losses_of_start_up_are_not_taken_for_random_loss() {
        // 100 Mbit/s over 40 ms lost as much as path and queue hold, once, of 200 MB.
        let details =
            "bbr rtt:60/1 minrtt:40 cwnd:400 bytes_sent:200000000 bytes_retrans:1200000 delivery_rate 100Mbps";
        let start_up = of(&call(ENDS, details));
        assert!(loss(&start_up) < 0.01, "{}", start_up.spec.loss);
        // Ten times that cannot come from start-up.
        let random = of(&call(ENDS, &details.replace("1200000", "12000000")));
        assert!((5.0..6.0).contains(&loss(&random)), "{}", random.spec.loss);
    }

    #[test]
    fn a_window_of_cubic_excludes_the_loss_under_which_it_could_not_be_kept() {
        let details = "cubic rtt:50/1 minrtt:40 cwnd:400 bytes_sent:20000000 bytes_retrans:700000 delivery_rate 90Mbps";
        assert!(loss(&of(&call(ENDS, details))) < 0.01);
    }

    #[test]
    fn the_algorithm_in_use_is_named_as_the_lab_calls_it() {
        let details = |cc: &str| format!("{cc} rtt:30/1 minrtt:20 cwnd:10 bytes_sent:2000000 delivery_rate 20Mbps");
        let current = |cc: &str| of(&call(ENDS, &details(cc))).current;
        assert_eq!(current("ts sack bbr").as_deref(), Some("bbr1"));
        assert_eq!(current("bbr bbr:(bw:9Mbps,mrtt:40,version:3)").as_deref(), Some("bbr3-linux"));
        assert_eq!(current("cubic").as_deref(), Some("cubic"));
        assert_eq!(current("htcp"), None);
        assert!(of(&call(ENDS, &details("htcp"))).said.iter().any(|line| line.contains("htcp, which bbrlab does not")));
    }

    #[test]
    fn loopback_is_left_out_where_there_is_more() {
        let details = "cubic rtt:0.05/0.01 minrtt:0.02 cwnd:10 bytes_sent:20000000 delivery_rate 9000Mbps";
        let far = "cubic rtt:30/1 minrtt:20 cwnd:10 bytes_sent:2000000 delivery_rate 20Mbps";
        let found = of(&(call("127.0.0.1:80 127.0.0.1:5000", details) + &*call(ENDS, far)));
        assert_eq!(found.spec.rate, "20000000bit..20000000bit");
        assert!(found.said[0].contains("1 connection over loopback left out"), "{:?}", found.said);
    }

    #[test]
    fn a_kind_made_of_samples_is_one_that_the_language_reads() {
        let one = Connection {
            rate_bps: Some(9e6),
            min_rtt_s: Some(0.02),
            rtt_s: Some(0.05),
            sent: Some(5e7),
            again: Some(2e5),
            ..Connection::default()
        };
        let found = evidence(&[one.clone(), one.clone(), one]);
        crate::paths::Kind::parse(&found.spec).unwrap();
        assert!(found.spec.buffer.starts_with("30000us"), "{found:?}");
    }
}
