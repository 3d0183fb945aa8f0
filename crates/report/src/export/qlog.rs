//! Time series as qlog, in the drafts' dialect (JSON text sequence) and in that of qvis 0.3. The sender's packets are
//! included if the run recorded them. [`Stream`] writes the events of a connection as they happen.
// SPDX-License-Identifier: Apache-2.0 OR MIT
// Formats: draft-ietf-quic-qlog-main-schema-13 and -quic-events-12; for qvis, draft-ietf-quic-qlog-main-schema-02.

mod packets;

use std::io::{self, Write};

use bbrlab_core::State;
use serde_json::{Map, Value, json};

use super::Record;
use bbrlab_sim::record::trace::FlowTrace;

/// Schemas of the events below; the last is our own.
const EVENT_SCHEMAS: [&str; 3] = [
    "urn:ietf:params:qlog:events:quic-12",
    "urn:ietf:params:qlog:events:simulation-13",
    "https://github.com/bbrlab/bbrlab/qlog/112026/bbr",
];
/// RFC 7464's record separator.
const SEPARATOR: char = '\u{1e}';

/// Dialect of event names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The drafts' dialect.
    Draft,
    /// Dialect of qvis 0.3.
    Qvis,
}

/// A packet header.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Packet type, as in `1RTT`.
    pub kind: &'a str,
    pub number: u64,
    /// Length, if known.
    pub bytes: Option<u64>,
    /// Ranges of packets that it acknowledges, both ends included.
    pub acked: &'a [[u64; 2]],
}

/// Event of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketEvent {
    Sent,
    Received,
    Lost,
}

/// Log of one connection, written event by event; times are relative to its beginning. Only the last metrics are kept
/// in memory.
#[derive(Debug)]
pub struct Stream<W> {
    to: W,
    dialect: Dialect,
    name: String,
    metrics: Map<String, Value>,
    is_first: bool,
}

impl<W: Write> Stream<W> {
    /// Begins the log of the connection `name` from the viewpoint of its `client` or its `server`.
    pub fn begin(mut to: W, dialect: Dialect, name: &str, vantage: &str) -> io::Result<Self> {
        let title = Value::from(name);
        let vantage = json!({ "name": name, "type": vantage });
        match dialect {
            Dialect::Draft => {
                let trace = json!({
                    "title": name,
                    "common_fields": { "time_format": "relative_to_epoch", "reference_time": { "clock_type": "monotonic", "epoch": "unknown" } },
                    "vantage_point": vantage,
                    "event_schemas": &EVENT_SCHEMAS[..1],
                });
                sequence_head(&mut to, &title, &trace)?;
            }
            Dialect::Qvis => {
                let fields = json!({ "ODCID": name, "group_id": name, "time_format": "relative", "reference_time": 0 });
                qvis_head(&mut to, &title)?;
                write!(to, "[{{\"title\":{title},\"vantage_point\":{vantage},\"common_fields\":{fields},\"events\":[")?;
            }
        }
        Ok(Self { to, dialect, name: name.to_owned(), metrics: Map::new(), is_first: true })
    }

    /// Logs an event of a packet.
    pub fn packet(&mut self, t_ns: u64, fate: PacketEvent, packet: Packet<'_>) -> io::Result<()> {
        self.put(t_ns, packet_name(self.dialect, fate), packet_data(packet))
    }

    /// Logs recovery's metrics; unchanged ones are omitted.
    pub fn metrics(&mut self, t_ns: u64, now: Map<String, Value>) -> io::Result<()> {
        let name = if self.dialect == Dialect::Draft { DRAFT_METRICS } else { QVIS_METRICS };
        let mut all = self.metrics.clone();
        all.extend(now);
        changed(&mut self.metrics, all).map_or(Ok(()), |data| self.put(t_ns, name, data))
    }

    /// Logs a state change of the congestion control.
    pub fn state(&mut self, t_ns: u64, state: &str) -> io::Result<()> {
        let name = if self.dialect == Dialect::Draft { DRAFT_STATE } else { QVIS_STATE };
        self.put(t_ns, name, json!({ "new": state }))
    }

    /// Logs a new maximum datagram length.
    pub fn max_datagram_size(&mut self, t_ns: u64, bytes: u64) -> io::Result<()> {
        self.put(t_ns, parameters_name(self.dialect), json!({ "max_datagram_size": bytes }))
    }

    fn put(&mut self, t_ns: u64, name: &str, data: Value) -> io::Result<()> {
        match self.dialect {
            Dialect::Draft => writeln!(self.to, "{SEPARATOR}{}", event(t_ns, name, data, Some(&self.name))),
            Dialect::Qvis => {
                let comma = if std::mem::take(&mut self.is_first) { "" } else { "," };
                write!(self.to, "{comma}\n{}", event(t_ns, name, data, None))
            }
        }
    }

    /// Ends the log.
    pub fn finish(mut self) -> io::Result<()> {
        if self.dialect == Dialect::Qvis {
            writeln!(self.to, "]}}]}}")?;
        }
        self.to.flush()
    }
}

const fn parameters_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Draft => "quic:recovery_parameters_set",
        Dialect::Qvis => "recovery:parameters_set",
    }
}

const fn packet_name(dialect: Dialect, fate: PacketEvent) -> &'static str {
    match (dialect, fate) {
        (Dialect::Draft, PacketEvent::Sent) => "quic:packet_sent",
        (Dialect::Draft, PacketEvent::Received) => "quic:packet_received",
        (Dialect::Draft, PacketEvent::Lost) => "quic:packet_lost",
        (Dialect::Qvis, PacketEvent::Sent) => "transport:packet_sent",
        (Dialect::Qvis, PacketEvent::Received) => "transport:packet_received",
        (Dialect::Qvis, PacketEvent::Lost) => "recovery:packet_lost",
    }
}

fn packet_data(packet: Packet<'_>) -> Value {
    let mut data = json!({ "header": { "packet_type": packet.kind, "packet_number": packet.number } });
    if let Some(bytes) = packet.bytes {
        data["raw"] = json!({ "length": bytes });
    }
    if !packet.acked.is_empty() {
        data["frames"] = json!([{ "frame_type": "ack", "acked_ranges": packet.acked }]);
    }
    data
}

const DRAFT_METRICS: &str = "quic:recovery_metrics_updated";
const QVIS_METRICS: &str = "recovery:metrics_updated";
const DRAFT_STATE: &str = "quic:congestion_state_updated";
const QVIS_STATE: &str = "recovery:congestion_state_updated";

fn sequence_head(to: &mut dyn Write, title: &Value, trace: &Value) -> io::Result<()> {
    writeln!(
        to,
        "{SEPARATOR}{{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\"serialization_format\":\"application/qlog+json-seq\",\"title\":{title},\"trace\":{trace}}}"
    )
}

fn qvis_head(to: &mut dyn Write, title: &Value) -> io::Result<()> {
    write!(to, "{{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON\",\"title\":{title},\"traces\":")
}

/// Writes the drafts' sequential file (`.sqlog`): one trace, each event with its flow as `group_id`, in time order.
pub fn sequence(record: &Record<'_>, to: &mut dyn Write) -> io::Result<()> {
    // Schema and format come first, where readers look for them; a map would sort them elsewhere.
    let trace = json!({
        "title": title(record),
        "common_fields": { "time_format": "relative_to_epoch", "reference_time": { "clock_type": "monotonic", "epoch": "unknown" } },
        "vantage_point": { "name": "bbrlab", "type": "server" },
        "event_schemas": EVENT_SCHEMAS,
    });
    sequence_head(to, &title(record).into(), &trace)?;
    let scenario = json!({ "name": title(record), "details": record.result.scenario });
    writeln!(to, "{SEPARATOR}{}", event(0, "simulation:scenario", scenario, None))?;
    let mut flows = writers(record, Dialect::Draft);
    for (index, &t_ns) in record.trace.t_ns.iter().enumerate() {
        let mut events: Vec<(u64, Value)> = Vec::new();
        for flow in &mut flows {
            flow.advance(index, t_ns, &mut events);
        }
        events.sort_by_key(|(t_ns, _)| *t_ns);
        events.iter().try_for_each(|(_, event)| writeln!(to, "{SEPARATOR}{event}"))?;
    }
    Ok(())
}

/// Writes the file for qvis (`.qlog`): one JSON document with a trace for each flow.
pub fn qvis(record: &Record<'_>, to: &mut dyn Write) -> io::Result<()> {
    qvis_head(to, &title(record).into())?;
    write!(to, "[")?;
    for (nth, mut flow) in writers(record, Dialect::Qvis).into_iter().enumerate() {
        let name = flow.name;
        let vantage = json!({ "name": name, "type": "server" });
        let fields = json!({ "ODCID": name, "group_id": name, "time_format": "relative", "reference_time": 0 });
        let (begin, title) = (if nth == 0 { "" } else { "," }, Value::from(name));
        write!(to, "{begin}{{\"title\":{title},\"vantage_point\":{vantage},\"common_fields\":{fields},\"events\":[")?;
        let mut is_first = true;
        for (index, &t_ns) in record.trace.t_ns.iter().enumerate() {
            let mut events: Vec<(u64, Value)> = Vec::new();
            flow.advance(index, t_ns, &mut events);
            events.sort_by_key(|(t_ns, _)| *t_ns);
            for (_, event) in events {
                let comma = if std::mem::take(&mut is_first) { "" } else { "," };
                write!(to, "{comma}{event}")?;
            }
        }
        write!(to, "]}}")?;
    }
    writeln!(to, "]}}")
}

fn title(record: &Record<'_>) -> String {
    match record.result.scenario["name"].as_str().filter(|name| !name.is_empty()) {
        Some(name) => format!("{name}, seed {}", record.result.seed),
        None => format!("bbrlab, seed {}", record.result.seed),
    }
}

fn writers<'a>(record: &Record<'a>, dialect: Dialect) -> Vec<FlowWriter<'a>> {
    let flows = (0..).zip(record.trace.flows.iter().zip(&record.setup.flows));
    flows
        .map(|(nth, (trace, setup))| FlowWriter {
            name: &setup.name,
            cc: setup.cc(),
            mss: setup.mss.into(),
            lost: 0,
            trace,
            dialect,
            state: 0,
            before: None,
            metrics: Map::new(),
            model: Map::new(),
            packets: packets::Packets::new(nth, record.packets),
            samples: record.trace.t_ns.len(),
        })
        .collect()
}

/// Walks over one flow's samples and emits the changes.
struct FlowWriter<'a> {
    name: &'a str,
    cc: &'static str,
    mss: u64,
    /// Packets declared lost up to the last sample.
    lost: u64,
    trace: &'a FlowTrace,
    dialect: Dialect,
    /// Index of the next state change.
    state: usize,
    before: Option<State>,
    metrics: Map<String, Value>,
    model: Map<String, Value>,
    packets: packets::Packets<'a>,
    /// Number of samples.
    samples: usize,
}

impl FlowWriter<'_> {
    /// Adds the events up to the sample `index` at `t_ns`.
    fn advance(&mut self, index: usize, t_ns: u64, events: &mut Vec<(u64, Value)>) {
        let draft = self.dialect == Dialect::Draft;
        let group = draft.then_some(self.name);
        if index == 0 {
            let data = json!({ "max_datagram_size": self.mss, "congestion_control": self.cc });
            events.push((0, event(0, parameters_name(self.dialect), data, group)));
        }
        while let Some(&(at, state)) = self.trace.states.get(self.state).filter(|(at, _)| at.as_nanos() <= t_ns) {
            let name = if draft { DRAFT_STATE } else { QVIS_STATE };
            let mut data = json!({ "new": state.name() });
            if let Some(before) = self.before {
                data["old"] = before.name().into();
            }
            events.push((at.as_nanos(), event(at.as_nanos(), name, data, group)));
            (self.before, self.state) = (Some(state), self.state + 1);
        }
        // The last sample also covers everything after it.
        let until = if index + 1 == self.samples { u64::MAX } else { t_ns };
        self.packets.advance(until, self.dialect, |at, name, data| events.push((at, event(at, name, data, group))));
        for data in self.losses(index) {
            events.push((t_ns, event(t_ns, packet_name(self.dialect, PacketEvent::Lost), data, group)));
        }
        let metrics = self.metrics_at(index);
        let name = if draft { DRAFT_METRICS } else { QVIS_METRICS };
        if let Some(data) = changed(&mut self.metrics, metrics) {
            events.push((t_ns, event(t_ns, name, data, group)));
        }
        let model = self.model_at(index);
        if let Some(data) = changed(&mut self.model, model) {
            events.push((t_ns, event(t_ns, "bbr:model_updated", data, group)));
        }
    }

    /// Packets declared lost since the last sample: their numbers if the run recorded packets.
    fn losses(&mut self, index: usize) -> Vec<Value> {
        let lost = self.trace.lost.get(index).copied().unwrap_or(0);
        let count = lost.saturating_sub(std::mem::replace(&mut self.lost, lost));
        let numbers = self.packets.declared_lost(count);
        let unknown = count.saturating_sub(numbers.len() as u64);
        let header = |number: Option<u64>| match number {
            Some(number) => json!({ "header": { "packet_type": "1RTT", "packet_number": number } }),
            None => json!({ "header": { "packet_type": "1RTT" } }),
        };
        numbers.into_iter().map(|number| header(Some(number))).chain((0..unknown).map(|_| header(None))).collect()
    }

    fn metrics_at(&self, index: usize) -> Map<String, Value> {
        let trace = self.trace;
        let at = |column: &[u32]| column.get(index).copied().unwrap_or(0);
        let mut map = Map::new();
        let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
        // A model without a value reports 0, which would be drawn as a value.
        for (key, us) in [("min_rtt", at(&trace.min_rtt_us)), ("latest_rtt", at(&trace.rtt_us))] {
            if us > 0 {
                put(key, (f64::from(us) / 1000.0).into());
            }
        }
        put("congestion_window", (u64::from(at(&trace.cwnd)) * self.mss).into());
        put("bytes_in_flight", (u64::from(at(&trace.inflight)) * self.mss).into());
        put("packets_in_flight", at(&trace.inflight).into());
        if let Some(&pacing) = trace.pacing_bps.get(index).filter(|&&pacing| pacing > 0) {
            put("pacing_rate", pacing.into());
        }
        map
    }

    fn model_at(&self, index: usize) -> Map<String, Value> {
        let mut map = Map::new();
        if let Some(&bw) = self.trace.bw_bps.get(index).filter(|&&bw| bw > 0) {
            map.insert("max_bw".to_owned(), bw.into());
            let min_rtt = self.trace.min_rtt_us.get(index).copied().unwrap_or(0);
            map.insert("min_rtt".to_owned(), (f64::from(min_rtt) / 1000.0).into());
            map.insert("state".to_owned(), self.before.map_or("", State::name).into());
        }
        map
    }
}

/// Returns the fields that differ from the last event of its kind, as the drafts allow; `None` if there are none.
fn changed(last: &mut Map<String, Value>, now: Map<String, Value>) -> Option<Value> {
    let data: Map<String, Value> =
        now.iter().filter(|(key, value)| last.get(*key) != Some(value)).map(|(k, v)| (k.clone(), v.clone())).collect();
    *last = now;
    (!data.is_empty()).then_some(Value::Object(data))
}

fn event(t_ns: u64, name: &str, data: Value, group: Option<&str>) -> Value {
    let mut event = json!({ "time": t_ns as f64 / 1e6, "name": name, "data": data });
    if let Some(group) = group {
        event["group_id"] = group.into();
    }
    event
}

#[cfg(test)]
mod tests {
    use bbrlab_sim::record::packets::{Direction, PacketRecord, Tap, TcpFlags};

    use super::*;
    use crate::export::testing::example;

    /// Three packets, the second lost and retransmitted; ACKs of the first, of the third, and of all.
    fn packets() -> Vec<PacketRecord> {
        let record = |t_ms: u64, dir, seq, ack, sack| PacketRecord {
            t_ns: t_ms * 1_000_000,
            flow: 0,
            dir,
            seq,
            ack,
            len: if dir == Direction::Data { 1000 } else { 0 },
            flags: TcpFlags::ACK,
            ecn: 0,
            window: 65_535,
            scale: 0,
            mss: 1012,
            ts_val: 0,
            ts_ecr: 0,
            sack: [sack, (0, 0), (0, 0)],
            tap: Tap::Sender,
        };
        let data = |t_ms, seq| record(t_ms, Direction::Data, seq, 1, (0, 0));
        let ack = |t_ms, ack, sack| record(t_ms, Direction::Ack, 1, ack, sack);
        let (none, third) = ((0, 0), (2001, 3001));
        let handshake = PacketRecord { len: 0, flags: TcpFlags::SYN, ..data(0, 0) };
        let elsewhere = PacketRecord { tap: Tap::Receiver, ..data(2, 1) };
        let other = PacketRecord { flow: 1, ..data(2, 1) };
        let sent = [handshake, data(1, 1), data(1, 1001), data(2, 2001), elsewhere, other];
        let rest = [ack(11, 1001, none), ack(12, 1001, third), data(13, 1001), ack(25, 3001, none)];
        [&sent[..], &rest[..]].concat()
    }

    #[test]
    fn each_transmission_has_a_number_and_an_ack_names_what_it_acknowledges() {
        let document: Value = serde_json::from_str(&text(qvis)).unwrap();
        let of = |flow: usize| document["traces"][flow]["events"].as_array().unwrap().clone();
        let packets: Vec<(f64, String, Value, Value)> = of(0)
            .iter()
            .filter(|event| event["name"].as_str().unwrap().contains(":packet_"))
            .map(|event| {
                let (data, name) = (&event["data"], event["name"].as_str().unwrap().rsplit('_').next().unwrap());
                let frame = &data["frames"][0];
                let what = if name == "sent" { &frame["offset"] } else { &frame["acked_ranges"] }.clone();
                (event["time"].as_f64().unwrap(), name.to_owned(), data["header"]["packet_number"].clone(), what)
            })
            .collect();
        let sent = |t_ms: f64, number: u64, offset: u64| (t_ms, "sent".to_owned(), number.into(), offset.into());
        let received = |t_ms: f64, number: u64, acked: Value| (t_ms, "received".to_owned(), number.into(), acked);
        assert_eq!(
            packets,
            [
                sent(1.0, 0, 0),
                sent(1.0, 1, 1000),
                sent(2.0, 2, 2000),
                received(11.0, 0, json!([[0, 0]])),
                received(12.0, 1, json!([[2, 2]])),
                sent(13.0, 3, 1000),
                (20.0, "lost".to_owned(), 1.into(), Value::Null),
                received(25.0, 2, json!([[3, 3]])),
            ]
        );
        let times: Vec<f64> = of(0).iter().map(|event| event["time"].as_f64().unwrap()).collect();
        assert!(times.is_sorted(), "{times:?}");
        assert_eq!(of(1).iter().filter(|event| event["name"] == "transport:packet_sent").count(), 1);
    }

    fn text(fill: fn(&Record<'_>, &mut dyn Write) -> io::Result<()>) -> String {
        let (setup, result, trace) = example();
        let mut bytes = Vec::new();
        fill(&Record { setup: &setup, result: &result, trace: &trace, packets: &packets() }, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn every_record_of_the_sequence_is_json_behind_a_separator_in_the_order_of_time() {
        let text = text(sequence);
        assert!(
            text[..256].contains("urn:ietf:params:qlog:file:sequential")
                && text[..256].contains("application/qlog+json-seq")
        );
        let records: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line.strip_prefix(SEPARATOR).unwrap()).unwrap()).collect();
        let times: Vec<f64> = records[1..].iter().map(|record| record["time"].as_f64().unwrap()).collect();
        assert!(times.is_sorted(), "{times:?}");
        assert_eq!(records[1]["name"], "simulation:scenario");
    }

    #[test]
    fn a_change_of_state_says_what_was_before() {
        let text = text(sequence);
        assert!(text.contains(r#""data":{"new":"recovery","old":"startup"}"#), "{text}");
    }

    /// Trap: `conform --log` reported no losses of a run that dropped 259 packets, as its log had no event of them.
    #[test]
    fn each_packet_that_the_sender_declares_lost_is_an_event_with_its_number() {
        let (setup, result, mut trace) = example();
        let last = trace.t_ns.len() - 1;
        trace.flows[0].lost = vec![0; trace.t_ns.len()];
        trace.flows[0].lost[last] = 2;
        for packets in [packets(), Vec::new()] {
            let mut bytes = Vec::new();
            let record = Record { setup: &setup, result: &result, trace: &trace, packets: &packets };
            sequence(&record, &mut bytes).unwrap();
            let text = String::from_utf8(bytes).unwrap();
            let lost: Vec<Value> = text
                .lines()
                .map(|line| serde_json::from_str::<Value>(line.strip_prefix(SEPARATOR).unwrap()).unwrap())
                .filter(|event| {
                    event["name"] == "quic:packet_lost" && event["group_id"] == setup.flows[0].name.as_str()
                })
                .map(|event| event["data"]["header"]["packet_number"].clone())
                .collect();
            // The second packet was lost; the sample counts one more, which no capture contains.
            let first = if packets.is_empty() { Value::Null } else { 1.into() };
            assert_eq!(lost, [first, Value::Null]);
        }
    }

    #[test]
    fn a_metrics_update_holds_only_changed_values() {
        let document: Value = serde_json::from_str(&text(qvis)).unwrap();
        let events = document["traces"][1]["events"].as_array().unwrap();
        let metrics: Vec<&Value> = events.iter().filter(|event| event["name"] == "recovery:metrics_updated").collect();
        assert_eq!(metrics[1]["data"]["congestion_window"], 21_000);
        assert_eq!(
            metrics[2]["data"],
            json!({ "bytes_in_flight": 3000, "packets_in_flight": 3, "latest_rtt": 42.5, "pacing_rate": 6_000_000 })
        );
    }
}
