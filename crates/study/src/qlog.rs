//! Events of a qlog: the drafts' sequences and documents, qvis's 0.3, and the older form with events as arrays, as picoquic and mvfst
//! write it. A sequence is read record by record, a document as a whole.
// SPDX-License-Identifier: Apache-2.0 OR MIT
// Formats: draft-ietf-quic-qlog-main-schema-00 to -13, draft-ietf-quic-qlog-quic-events.

use std::io::{BufRead, BufReader, Read};

use serde_json::{Map, Value};

use crate::{Error, Result};

/// Longest line of a sequence, and largest document. Ours: a document is held in memory as a whole.
const LINE_MAX: u64 = 1 << 26;
/// Largest length of a packet, bytes: a longer one is damage. Source: RFC 768, a length of 16 bits.
pub(crate) const PACKET_MAX: u64 = 65_535;
/// A millisecond in seconds: qlog's default unit of time.
const MS: f64 = 1e-3;
/// A microsecond in seconds: the unit of times where `time_units` is `us`, until draft-02.
const US: f64 = 1e-6;

/// Unit of `ack_delay` in picoquic's logs, which have the frame's own number. Source: RFC 9000 18.2, the default of 2^3 µs; picoquic has no
/// other.
const ACK_DELAY_UNIT: f64 = 8e-6;

/// An event of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Time since the reference of the log, seconds.
    pub t_s: f64,
    /// Type without its category, in lower case: `metrics_updated`.
    pub kind: &'a str,
    /// Connection: the event's group, or the title of its trace.
    pub connection: &'a str,
    /// Unit of the times in `data`, seconds.
    pub unit_s: f64,
    /// Unit of `ack_delay`, seconds.
    delay_unit_s: f64,
    /// Fields.
    pub data: &'a Map<String, Value>,
}

impl Event<'_> {
    /// Value of the first of these fields that is a number, or a text of one.
    pub fn number(&self, keys: &[&str]) -> Option<f64> {
        keys.iter().find_map(|key| number(self.data.get(*key)))
    }

    /// The same of a time, in seconds.
    pub fn seconds(&self, keys: &[&str]) -> Option<f64> {
        self.number(keys).map(|time| time * self.unit_s)
    }

    /// Value of the first of these fields that is a text.
    pub fn text(&self, keys: &[&str]) -> Option<&str> {
        text_of(self.data, keys)
    }

    /// Number of the packet.
    pub fn packet_number(&self) -> Option<u64> {
        let header = self.data.get("header").and_then(|header| number(header.get("packet_number")));
        header.or_else(|| self.number(&["packet_number"])).filter(|number| *number >= 0.0).map(|number| number as u64)
    }

    /// Type of the packet, as in `1RTT`.
    pub fn packet_type(&self) -> Option<&str> {
        let header = self.data.get("header").and_then(|header| header.get("packet_type")?.as_str());
        header.or_else(|| self.text(&["packet_type"]))
    }

    /// Ranges of packets that its ACK frames acknowledge, both ends included; `None` if it has no ACK frame.
    pub fn acked_ranges(&self) -> Option<Vec<(u64, u64)>> {
        let frames = self.data.get("frames")?.as_array()?;
        let is_ack = |frame: &&Value| {
            frame.get("frame_type").and_then(Value::as_str).is_some_and(|kind| kind.starts_with("ack"))
        };
        let mut ranges =
            frames.iter().filter(is_ack).filter_map(|frame| frame.get("acked_ranges")?.as_array()).peekable();
        ranges.peek()?;
        let ends = |range: &Value| {
            let (from, to) = (number(range.get(0)).or_else(|| number(Some(range)))?, number(range.get(1)));
            Some((from as u64, to.unwrap_or(from) as u64))
        };
        Some(ranges.flatten().filter_map(ends).collect())
    }

    /// Time for which the receiver held back the ACK, seconds.
    pub fn ack_delay_s(&self) -> Option<f64> {
        let frames = self.data.get("frames")?.as_array()?;
        let delay = frames.iter().find_map(|frame| number(frame.get("ack_delay")))?;
        (delay >= 0.0).then_some(delay * self.delay_unit_s)
    }

    /// Length of the UDP payload, bytes.
    pub fn datagram_bytes(&self) -> Option<u64> {
        let raw = self.data.get("raw").and_then(|raw| number(raw.get("length")));
        let bytes = raw.or_else(|| self.number(&["byte_length", "length"]))?;
        (bytes >= 0.0).then_some((bytes as u64).min(PACKET_MAX))
    }

    /// Length of the packet, bytes.
    pub fn packet_bytes(&self) -> Option<u64> {
        let raw = self.data.get("raw").and_then(|raw| number(raw.get("length")));
        raw.or_else(|| number(self.data.get("header")?.get("packet_size")))
            .or_else(|| self.number(&["packet_size"]))
            .filter(|bytes| *bytes >= 0.0)
            .map(|bytes| (bytes as u64).min(PACKET_MAX))
    }
}

/// A record that is not JSON.
#[derive(Debug)]
pub struct Damage {
    /// Its line, from 1.
    pub line: u64,
    /// True if nothing follows it: the log is cut off.
    pub is_last: bool,
    /// The fault.
    pub cause: serde_json::Error,
}

/// Reads a qlog, and hands its events over in the file's order. Returns the first record that is not JSON; nothing behind it is read.
///
/// # Errors
/// If it is no JSON, or JSON without a trace; if a document is larger than 64 MiB; if it cannot be read.
pub fn read(from: impl Read, mut on_event: impl FnMut(&Event<'_>)) -> Result<Option<Damage>> {
    let mut lines = BufReader::new(from);
    let mut reader = Reader { on_event: &mut on_event, clock: Clock::default(), records: 0, has_trace: false };
    let (mut line, mut whole, mut number) = (Vec::new(), Vec::new(), 0);
    loop {
        line.clear();
        if lines.by_ref().take(LINE_MAX).read_until(b'\n', &mut line).map_err(|_| Error::CaptureUnreadable)? == 0 {
            break;
        }
        number += 1;
        if !whole.is_empty() {
            whole.extend_from_slice(&line);
            if whole.len() as u64 > LINE_MAX {
                return Err(Error::LargeDocument(LINE_MAX >> 20));
            }
            continue;
        }
        // RFC 7464's separator may precede each record.
        for piece in line.split(|byte| *byte == 0x1e) {
            let piece = piece.trim_ascii();
            let piece = piece.strip_prefix("\u{feff}".as_bytes()).unwrap_or(piece);
            if piece.is_empty() {
                continue;
            }
            match serde_json::from_slice(piece) {
                Ok(record) => reader.record(&record),
                // A document over several lines.
                Err(_) if reader.records == 0 => {
                    whole = piece.to_vec();
                    whole.push(b'\n');
                }
                Err(cause) => {
                    let is_last = lines.fill_buf().map_err(|_| Error::CaptureUnreadable)?.trim_ascii().is_empty();
                    return Ok(Some(Damage { line: number, is_last, cause }));
                }
            }
        }
    }
    if !whole.is_empty() {
        reader.record(&serde_json::from_slice(whole.trim_ascii_end()).map_err(Error::QlogNotJson)?);
    }
    if reader.has_trace { Ok(None) } else { Err(Error::NotAQlog) }
}

/// Reads a number, including one written as text.
fn number(value: Option<&Value>) -> Option<f64> {
    let value = value?;
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
    number.is_finite().then_some(number)
}

fn text_of<'a>(map: &'a Map<String, Value>, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| map.get(*key)?.as_str())
}

/// Time base of a trace.
#[derive(Clone, Copy, Debug)]
struct Clock {
    unit_s: f64,
    delay_unit_s: f64,
    is_delta: bool,
    last_s: f64,
}

impl Default for Clock {
    fn default() -> Self {
        Self { unit_s: MS, delay_unit_s: MS, is_delta: false, last_s: 0.0 }
    }
}

impl Clock {
    fn of(trace: &Value) -> Self {
        let common = trace.get("common_fields");
        let format = common.and_then(|common| common.get("time_format")).and_then(Value::as_str).unwrap_or("");
        let units = trace.get("configuration").and_then(|configuration| configuration.get("time_units"));
        let unit_s = if units.and_then(Value::as_str) == Some("us") { US } else { MS };
        Self {
            unit_s,
            delay_unit_s: if title(trace) == Some("picoquic") { ACK_DELAY_UNIT } else { unit_s },
            is_delta: format.contains("delta") || format == "relative_to_previous_event",
            last_s: 0.0,
        }
    }
}

struct Reader<'a> {
    on_event: &'a mut dyn FnMut(&Event<'_>),
    /// Time base of a sequence.
    clock: Clock,
    records: u64,
    /// True if a trace or an event was found.
    has_trace: bool,
}

impl Reader<'_> {
    /// Handles a record of a sequence, a document, or a list of documents.
    fn record(&mut self, record: &Value) {
        self.records += 1;
        if let Value::Array(documents) = record {
            documents.iter().for_each(|one| self.record(one));
            return;
        }
        let traces = record.get("traces").and_then(Value::as_array);
        for (place, trace) in traces.into_iter().flatten().enumerate() {
            self.trace(trace, &format!("trace {place}"));
        }
        if record.get("events").is_some() {
            self.trace(record, "trace");
        } else if let Some(trace) = record.get("trace") {
            self.has_trace = true;
            self.clock = Clock::of(trace);
        } else if traces.is_none() {
            let mut clock = self.clock;
            self.event(record, &[], "connection", &mut clock);
            self.clock = clock;
        }
    }

    fn trace(&mut self, trace: &Value, name: &str) {
        let Some(events) = trace.get("events").and_then(Value::as_array) else { return };
        self.has_trace = true;
        let mut clock = Clock::of(trace);
        let fields = trace.get("event_fields").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let fields: Vec<String> =
            fields.iter().map(|field| field.as_str().unwrap_or("").to_ascii_lowercase()).collect();
        for event in events {
            self.event(event, &fields, title(trace).unwrap_or(name), &mut clock);
        }
    }

    /// Handles one event, as an object or as an array of the fields that the trace names.
    fn event(&mut self, event: &Value, fields: &[String], trace: &str, clock: &mut Clock) {
        let (time, name, data, group) = match event {
            Value::Object(map) => {
                let name = text_of(map, &["name"]).or_else(|| text_of(map, &["event", "type"]));
                (map.get("time").or_else(|| map.get("relative_time")), name, map.get("data"), map.get("group_id"))
            }
            Value::Array(values) => {
                let at =
                    |wanted: &[&str]| values.get(fields.iter().position(|field| wanted.contains(&field.as_str()))?);
                let name = at(&["event", "event_type", "name", "type"]).and_then(Value::as_str);
                (at(&["relative_time", "time", "delta_time"]), name, at(&["data"]), at(&["group_id"]))
            }
            _ => return,
        };
        let (Some(time), Some(name), Some(data)) = (number(time), name, data.and_then(Value::as_object)) else {
            return;
        };
        self.has_trace = true;
        let at_s = time * clock.unit_s;
        clock.last_s = if clock.is_delta { clock.last_s + at_s } else { at_s };
        let kind = name.rsplit(':').next().unwrap_or(name).to_ascii_lowercase();
        let connection = group.and_then(Value::as_str).unwrap_or(trace);
        let Clock { unit_s, delay_unit_s, last_s: t_s, .. } = *clock;
        (self.on_event)(&Event { t_s, kind: &kind, connection, unit_s, delay_unit_s, data });
    }
}

fn title(trace: &Value) -> Option<&str> {
    let named = trace.get("title").and_then(Value::as_str);
    named.or_else(|| trace.get("vantage_point")?.get("name")?.as_str()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time in µs, kind, connection and the field `latest_rtt` in µs.
    type Seen = (i64, String, String, Option<i64>);

    /// All events, and the line of a damaged record.
    fn events(text: &str) -> (Vec<Seen>, Option<u64>) {
        let mut seen = Vec::new();
        let micros = |seconds: f64| (1e6 * seconds).round() as i64;
        let damage = read(text.as_bytes(), |event| {
            let rtt = event.seconds(&["latest_rtt"]).map(micros);
            seen.push((micros(event.t_s), event.kind.to_owned(), event.connection.to_owned(), rtt));
        });
        (seen, damage.unwrap().map(|one| one.line))
    }

    /// picoquic's form: https://github.com/private-octopus/picoquic, picoquictest/binlog_ref.qlog, and loglib/qlog.c for the metrics.
    #[test]
    fn arrays_of_fields_have_their_times_and_rtts_in_the_traces_unit() {
        let text = r#"{ "qlog_version": "draft-00", "title": "picoquic", "traces": [
            { "vantage_point": { "name": "backend-67", "type": "client" }, "title": "picoquic", "description": "01020304",
              "event_fields": ["relative_time", "CATEGORY", "EVENT_TYPE", "DATA"], "configuration": {"time_units": "us"},
              "events": [
                [1500, "recovery", "metrics_updated", {"cwnd": 15360, "latest_rtt": 40123}],
                ["2000", "TRANSPORT", "PACKET_SENT", {"packet_type": "1RTT", "header": {"packet_number": "7", "packet_size": 1440}}]]}]}"#;
        let of = |at, kind: &str, rtt| (at, kind.to_owned(), "picoquic".to_owned(), rtt);
        assert_eq!(
            events(text),
            (vec![of(1500, "metrics_updated", Some(40_123)), of(2000, "packet_sent", None)], None)
        );
        let mut packet = None;
        read(text.as_bytes(), |event| packet = event.packet_number().zip(event.packet_bytes()).or(packet)).unwrap();
        assert_eq!(packet, Some((7, 1440)));
    }

    #[test]
    fn the_delays_of_acks_are_in_the_writers_unit() {
        let delay_s = |title: &str, units: &str| {
            let text = format!(
                r#"{{"traces":[{{"title":"{title}","event_fields":["time","event","data"],"configuration":{{"time_units":"{units}"}},
                "events":[[1,"packet_received",{{"frames":[{{"frame_type":"padding"}},{{"frame_type":"ack","ack_delay":62}}]}}]]}}]}}"#
            );
            let mut delay_s = None;
            read(text.as_bytes(), |event| delay_s = event.ack_delay_s()).unwrap();
            delay_s.map(|delay_s| (1e6 * delay_s).round())
        };
        assert_eq!(delay_s("a server", "ms"), Some(62_000.0));
        assert_eq!(delay_s("mvfst", "us"), Some(62.0));
        assert_eq!(delay_s("picoquic", "us"), Some(496.0));
    }

    #[test]
    fn records_of_a_sequence_come_with_and_without_separators_and_header() {
        let event =
            "{\"time\":2.5,\"name\":\"recovery:metrics_updated\",\"data\":{\"latest_rtt\":40},\"group_id\":\"a\"}";
        let wanted = |connection: &str| (2500, "metrics_updated".to_owned(), connection.to_owned(), Some(40_000));
        let header = "{\"qlog_version\":\"0.4\",\"trace\":{\"common_fields\":{\"time_format\":\"relative\"}}}";
        for text in
            [event.to_owned(), format!("\u{feff}\u{1e}{header}\r\n\u{1e}{event}\r\n"), format!("{header}\u{1e}{event}")]
        {
            assert_eq!(events(&text), (vec![wanted("a")], None), "{text:?}");
        }
        let without = event.replace(",\"group_id\":\"a\"", "");
        assert_eq!(events(&without).0, [wanted("connection")]);
    }

    #[test]
    fn times_that_count_from_the_event_before_are_summed() {
        let text = r#"[{"traces":[{"common_fields":{"time_format":"delta"},"events":[
            {"time":5,"name":"recovery:metrics_updated","data":{}},
            {"time":5,"category":"recovery","event":"metrics_updated","data":{}}]}]}]"#;
        assert_eq!(events(text).0.iter().map(|one| one.0).collect::<Vec<_>>(), [5000, 10_000]);
    }

    #[test]
    fn a_damaged_record_is_named_by_its_line_and_ends_the_log() {
        let good = "{\"time\":1,\"name\":\"recovery:metrics_updated\",\"data\":{\"cwnd\":1}}\n";
        for (text, expected) in [
            (format!("{good}{{oops\n{good}"), (1, 2, false)),
            (format!("{good}{good}{{\"time\":"), (2, 3, true)),
            (format!("{good}{{\"time\":\n \n"), (1, 2, true)),
        ] {
            let mut count = 0;
            let damage = read(text.as_bytes(), |_| count += 1).unwrap().unwrap();
            assert_eq!((count, damage.line, damage.is_last), expected, "{text}");
        }
        for (text, expected) in [("{oops", "it is not JSON"), ("{\"a\":1}", "no traces"), ("", "no traces")] {
            let error = read(text.as_bytes(), |_| ()).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
