//! The path of a QUIC connection from its sender's qlog: packets sent, and recovery's metrics after each ACK. Events
//! are read one by one if the file is a sequence.
// SPDX-License-Identifier: Apache-2.0 OR MIT
// Formats: draft-ietf-quic-qlog-main-schema and -quic-events, and qvis's 0.3; the names of older drafts too.

use std::io::{BufRead, BufReader, Read};

use serde_json::{Map, Value};

use super::estimate::{AckEstimate, Estimate, Vantage};
use super::flow::Flow;
use super::signals::{AckSignal, Lost};
use super::{Paths, judge, loss};
use crate::{Error, Result};

/// Longest line of a sequence, and largest document. Ours: a document is held in memory as a whole.
const LINE_MAX: u64 = 1 << 26;
/// Largest number of packets sent that are remembered. Ours: a window of 180 MB.
const SENT_MAX: usize = 131_072;
/// Bytes of a packet if the log names no length. Source: RFC 9000 14.
const PACKET: u64 = 1200;
/// Bytes of Ethernet, IPv4 and UDP around a packet.
const HEADERS: u64 = 42;

/// Connection of a log so far.
#[derive(Default)]
struct Log {
    flow: Flow,
    events: u64,
    name: String,
    unit_ns: f64,
    is_delta: bool,
    now_ns: u64,
    largest: u64,
    sent: std::collections::BTreeMap<u64, (u64, u64)>,
    last_rtt_ns: u64,
    in_flight: u64,
    acked: u64,
    lost_bytes: u64,
}

/// Reads a qlog, a document or a sequence.
pub fn read(from: impl Read) -> Result<Paths> {
    let mut lines = BufReader::new(from);
    let mut log = Log { unit_ns: 1e6, ..Log::default() };
    let (mut text, mut cut) = (String::new(), false);
    let mut whole = String::new();
    loop {
        text.clear();
        let read = lines.by_ref().take(LINE_MAX).read_line(&mut text).map_err(|_| Error::NotACapture)?;
        if read == 0 {
            break;
        }
        let line = text.trim_matches(['\u{1e}', '\u{feff}', '\n', '\r', ' ', '\t']);
        if line.is_empty() {
            continue;
        }
        match serde_json::from_str::<Value>(line) {
            Ok(value) if whole.is_empty() => log.record(&value),
            _ if whole.is_empty() && log.events > 0 => {
                cut = true;
                break;
            }
            // A document over several lines.
            _ => whole += &text,
        }
        if whole.len() as u64 > LINE_MAX {
            return Err(Error::LargeDocument(LINE_MAX >> 20));
        }
    }
    if !whole.is_empty() {
        let value: Value = serde_json::from_str(&whole).map_err(|_| Error::NotACapture)?;
        log.record(&value);
    }
    let packets = log.events;
    let path = log.finish()?;
    let notes =
        if cut { vec!["the log is cut off or damaged; it was read up to there".to_owned()] } else { Vec::new() };
    Ok(Paths { paths: vec![path], notes, packets })
}

fn number(value: Option<&Value>) -> Option<f64> {
    let value = value?;
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

impl Log {
    /// Handles a record of a sequence, or a whole document.
    fn record(&mut self, value: &Value) {
        if let Some(trace) = value.get("trace") {
            self.begin(trace);
        }
        for trace in value
            .get("traces")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .chain(value.get("events").map(|_| value))
        {
            self.begin(trace);
            for event in trace.get("events").and_then(Value::as_array).into_iter().flatten() {
                self.event(event);
            }
        }
        if value.get("name").is_some() && value.get("time").is_some() {
            self.event(value);
        }
    }

    fn begin(&mut self, trace: &Value) {
        let common = trace.get("common_fields");
        let format = common.and_then(|common| common.get("time_format")).and_then(Value::as_str).unwrap_or("");
        self.is_delta = format.contains("delta") || format == "relative_to_previous_event";
        if let Some(title) = trace.get("title").and_then(Value::as_str) {
            title.clone_into(&mut self.name);
        }
    }

    fn event(&mut self, event: &Value) {
        let (Some(time), Some(name)) = (number(event.get("time")), event.get("name").and_then(Value::as_str)) else {
            return;
        };
        let Some(data) = event.get("data").and_then(Value::as_object) else { return };
        let at = (time * self.unit_ns) as u64;
        self.now_ns = if self.is_delta { self.now_ns.saturating_add(at) } else { at };
        self.events += 1;
        match name.rsplit(':').next().unwrap_or(name) {
            "packet_sent" => self.on_sent(data),
            "packet_lost" => self.on_lost(data),
            "metrics_updated" | "recovery_metrics_updated" => self.on_metrics(data),
            _ => {}
        }
    }

    fn on_sent(&mut self, data: &Map<String, Value>) {
        let bytes = length(data).unwrap_or(PACKET);
        let counters = &mut self.flow.counters;
        counters.packets += 1;
        counters.sent = counters.sent.saturating_add(bytes);
        counters.largest = counters.largest.max(bytes);
        counters.headers = HEADERS;
        self.flow.first_ns.get_or_insert(self.now_ns);
        self.flow.signals.get_or_insert_default().on_sent(self.now_ns, bytes);
        if let Some(number) = packet_number(data) {
            self.largest = self.largest.max(number);
            self.sent.insert(number, (self.now_ns, bytes));
            while self.sent.len() > SENT_MAX {
                self.sent.pop_first();
            }
        }
    }

    fn on_lost(&mut self, data: &Map<String, Value>) {
        let Some(number) = packet_number(data) else { return };
        let (sent_ns, bytes) = self.sent.remove(&number).unwrap_or((self.now_ns, PACKET));
        self.lost_bytes = self.lost_bytes.saturating_add(bytes);
        self.flow.counters.again = self.flow.counters.again.saturating_add(bytes);
        let from = number.saturating_mul(PACKET);
        let (before_ns, after_ns) = (self.last_rtt_ns, self.last_rtt_ns);
        let lost = Lost { sent_ns, from, to: from.saturating_add(PACKET), before_ns, after_ns };
        self.flow.signals.get_or_insert_default().on_lost(&lost, PACKET);
    }

    /// Recovery's metrics: what is no longer in flight and was not lost has arrived.
    fn on_metrics(&mut self, data: &Map<String, Value>) {
        let rtt_ns = number(data.get("latest_rtt")).map(|ms| (ms * 1e6) as u64).filter(|rtt| *rtt > 0);
        let is_new = rtt_ns.is_some();
        self.last_rtt_ns = rtt_ns.unwrap_or(self.last_rtt_ns);
        if let Some(bytes) = number(data.get("bytes_in_flight")) {
            self.in_flight = bytes as u64;
        }
        let gone = self.flow.counters.sent.saturating_sub(self.lost_bytes).saturating_sub(self.in_flight);
        let bytes = gone.saturating_sub(self.acked);
        if bytes == 0 || self.last_rtt_ns == 0 {
            return;
        }
        self.acked = gone;
        self.flow.last_ns = self.now_ns;
        self.flow.counters.acks += 1;
        self.flow.counters.delivered = gone;
        // The newest packet acknowledged left one RTT ago.
        let rtt = is_new.then(|| (self.now_ns.saturating_sub(self.last_rtt_ns), self.last_rtt_ns));
        let mss = self.flow.mss();
        let signal = AckSignal { now_ns: self.now_ns, bytes, rtt, lead: 1, mss, has_holes: false };
        self.flow.signals.get_or_insert_default().on_ack(&signal);
    }

    fn finish(mut self) -> Result<Estimate> {
        if self.events == 0 {
            return Err(Error::NotACapture);
        }
        self.flow.finish();
        let flow = &self.flow;
        let (Some(signals), Some(first_ns)) = (flow.signals.as_deref(), flow.first_ns) else {
            return Err(Error::NoMetrics);
        };
        let Some(link) = judge::link(flow) else { return Err(Error::NoMetrics) };
        let losses = loss::judge(flow, &link);
        let counters = flow.counters;
        let duration_s = flow.last_ns.saturating_sub(first_ns) as f64 / 1e9;
        let sent = (counters.sent as f64).max(1.0);
        let unknown = [
            "reordering, ACK spacing and the receiver's limits: a qlog of recovery's metrics does not have them",
            "the congestion control: name it with --current where it matters",
        ];
        Ok(Estimate {
            sender: if self.name.is_empty() { "qlog".to_owned() } else { self.name.clone() },
            receiver: "peer".to_owned(),
            vantage: Vantage::Sender,
            start_s: 0.0,
            duration_s,
            sent_bytes: counters.sent as f64,
            retransmitted_bytes: counters.again as f64,
            delivered_bytes: counters.delivered as f64,
            goodput_bps: if duration_s > 0.0 { 8.0 * counters.delivered as f64 / duration_s } else { 0.0 },
            mss: flow.mss(),
            rate: Some(judge::rate(flow, &link)),
            rtt: judge::rtt(signals, &link),
            buffer: judge::buffer(flow, &link, &losses),
            loss_ratio: self.lost_bytes as f64 / sent,
            losses: losses.kinds,
            policer: losses.policer,
            needless_ratio: 0.0,
            reordered_ratio: 0.0,
            reordered_segments: 0.0,
            acks: AckEstimate { segments: 0.0, period_ms: None, from: "not in a qlog".to_owned() },
            application_limited: 0.0,
            receiver_limited: None,
            algorithm: None,
            unknown: unknown.map(str::to_owned).to_vec(),
        })
    }
}

fn length(data: &Map<String, Value>) -> Option<u64> {
    let raw = data.get("raw").and_then(|raw| number(raw.get("length")));
    raw.or_else(|| number(data.get("header")?.get("packet_size")))
        .or_else(|| number(data.get("packet_size")))
        .map(|bytes| bytes as u64)
}

fn packet_number(data: &Map<String, Value>) -> Option<u64> {
    let header = data.get("header").and_then(|header| number(header.get("packet_number")));
    header.or_else(|| number(data.get("packet_number"))).map(|number| number as u64)
}
