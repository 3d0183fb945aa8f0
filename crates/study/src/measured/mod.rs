//! Path properties inferred from measurements of live connections: `ss -tin`, iperf3's JSON, records of TCP_INFO as
//! CSV. The result is ranges for rate, RTT, buffer and loss, with their evidence; unknown properties stay open and are
//! reported as such.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;

use serde_json::Value;

use crate::ss::{Fields, addresses};
use crate::{Error, Result};

mod evidence;

pub use evidence::{Evidence, evidence};

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

/// Payload of a full packet, for counters in segments.
const SEGMENT: f64 = 1448.0;
/// Share of the rate given by iperf3's `-b` from which a stream was limited by it. Ours.
const TOLD: f64 = 0.9;

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
    // `-b`: the rate that one stream was told to send. One that came close was limited by that.
    let told = value["start"]["test_start"]["target_bitrate"].as_f64().filter(|bps| *bps > 0.0);
    let host = |key: &str| value["start"]["connected"][0][key].as_str().unwrap_or("iperf3").to_owned();
    let (local, peer) = (host("local_host"), host("remote_host"));
    let streams = value["end"]["streams"].as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for (nth, stream) in streams.iter().enumerate() {
        let sender = &stream["sender"];
        let rate = stream["receiver"]["bits_per_second"].as_f64().or_else(|| sender["bits_per_second"].as_f64());
        let is_app_limited = told.zip(rate).is_some_and(|(told, rate)| rate >= TOLD * told);
        let micros = |key: &str| sender[key].as_f64().filter(|micros| *micros > 0.0).map(|micros| micros / 1e6);
        found.push(Connection {
            ends: Some((format!("{local}:{nth}"), format!("{peer}:{nth}"))),
            cc: cc.clone(),
            rate_bps: rate.filter(|_| !is_app_limited),
            is_app_limited,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::KindSpec;

    /// Output of `ss -tin` with one connection.
    fn call(ends: &str, details: &str) -> String {
        format!("ESTAB 0 0 {ends}\n\t {details}\n")
    }

    fn of(text: &str) -> Evidence {
        evidence(&read(text).unwrap())
    }

    /// The only path.
    fn path(evidence: &Evidence) -> &KindSpec {
        assert_eq!(evidence.specs.len(), 1, "{evidence:?}");
        &evidence.specs[0]
    }

    /// Maximum random loss, per cent.
    fn loss(evidence: &Evidence) -> f64 {
        path(evidence).loss.trim_start_matches("0%..").trim_end_matches('%').parse().unwrap()
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
        assert_eq!((path(&found).rate.as_str(), path(&found).rtt.as_str()), ("", "40100us"));
        assert!(found.no_rate.unwrap().contains("limited by its application"));
        let csv = "tcpi_min_rtt,tcpi_delivery_rate,tcpi_delivery_rate_app_limited\n20000,1000,1\n20000,2000,0\n";
        assert_eq!(read(csv).unwrap().iter().filter_map(|one| one.rate_bps).collect::<Vec<_>>(), [16_000.0]);
    }

    #[test]
    fn a_few_kilobytes_are_not_enough_data() {
        let found = of(&call(ENDS, "cubic rtt:41.9/0.5 minrtt:40.1 cwnd:10 bytes_sent:4500 delivery_rate 955Kbps"));
        assert_eq!(path(&found).rate, "");
        let why = found.no_rate.unwrap();
        assert!(why.starts_with("not enough data: the one connection sent 4.5 kB"), "{why}");
    }

    #[test]
    fn streams_of_one_test_are_one_path_of_their_rates_sum() {
        let stream = r#"{"sender":{"bytes":12500000,"bits_per_second":1e7,"retransmits":0,"min_rtt":20000,
            "mean_rtt":30000},"receiver":{"bits_per_second":1e7}}"#;
        let found = of(&format!("{{\"end\":{{\"streams\":[{stream},{stream},{stream}]}}}}"));
        assert_eq!(path(&found).measured.unwrap().rate_bps, 3e7);
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
        assert!(loss(&start_up) < 0.01, "{}", path(&start_up).loss);
        // Ten times that cannot come from start-up.
        let random = of(&call(ENDS, &details.replace("1200000", "12000000")));
        assert!((5.0..6.0).contains(&loss(&random)), "{}", path(&random).loss);
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
        assert_eq!(path(&found).measured.unwrap().rate_bps, 2e7);
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
        assert_eq!(found.specs.len(), 3);
        for spec in &found.specs {
            crate::paths::Kind::parse(spec).unwrap();
            assert!(spec.buffer.starts_with("30000us"), "{found:?}");
        }
    }

    #[test]
    fn what_was_measured_on_a_path_stays_together() {
        let one = |nth: u32, rate_bps: f64, min_rtt_s: f64, rise: f64| Connection {
            ends: Some((format!("10.0.0.1:{nth}"), format!("10.1.0.{nth}:443"))),
            cc: Some("cubic".to_owned()),
            rate_bps: Some(rate_bps),
            min_rtt_s: Some(min_rtt_s),
            rtt_s: Some(min_rtt_s * rise),
            sent: Some(5e7),
            again: Some(1e4),
            ..Connection::default()
        };
        let found = evidence(&[one(1, 100e6, 0.01, 2.0), one(2, 2e6, 0.2, 1.0)]);
        let [slow, fast] = &found.specs[..] else { panic!("{found:?}") };
        assert_eq!((slow.rtt.as_str(), fast.rtt.as_str()), ("200000us", "10000us"));
        // The simulation decides which buffer gives the rise, as rivals may keep the queue.
        assert_eq!((slow.buffer.as_str(), fast.buffer.as_str()), ("20000us..1600000us", "10000us..80000us"));
        // Without a rate nothing is simulated. A loss-based flow keeps the queue between 0.7 of all and all: (10 ms + 0.3 x 10 ms) / 0.7.
        let no_rate =
            |rise: f64| evidence(&[Connection { rate_bps: None, ..one(1, 1.0, 0.01, rise) }]).specs[0].buffer.clone();
        assert_eq!((no_rate(2.0).as_str(), no_rate(1.0).as_str()), ("10000us..18571us", "3000us..80000us"));
        let measured = fast.measured.unwrap();
        assert_eq!((measured.rate_bps, measured.rtt_ratio, measured.retransmit_ratio), (100e6, Some(2.0), Some(2e-4)));
    }

    #[test]
    fn a_rate_that_iperf3_was_told_is_no_rate_of_the_path() {
        let json = |told: f64| {
            format!(
                r#"{{"start":{{"test_start":{{"protocol":"TCP","target_bitrate":{told}}}}},"end":{{"streams":[{{"sender":{{"bytes":14480000,
                "min_rtt":20000,"mean_rtt":30000}},"receiver":{{"bits_per_second":4.9e7}}}}]}}}}"#
            )
        };
        let found = of(&json(5e7));
        assert!(found.no_rate.unwrap().contains("limited by its application"));
        assert_eq!(read(&json(0.0)).unwrap()[0].rate_bps, Some(4.9e7));
        assert_eq!(read(&json(9e7)).unwrap()[0].rate_bps, Some(4.9e7));
    }
}
