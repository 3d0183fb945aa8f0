//! Reader for qlog: the drafts' sequences and documents, qvis's 0.3, and the older form with events as arrays. An
//! unknown event is skipped.
// SPDX-License-Identifier: Apache-2.0 OR MIT
// Formats: draft-ietf-quic-qlog-main-schema-00 to -13, draft-ietf-quic-qlog-quic-events.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{FlowLog, Log, Phase, Sample};
use crate::{Error, Result};

/// Maximum flows of one log. Ours: a guard against a log of group identifiers that never repeat.
const FLOWS_MAX: usize = 1_000;
/// A millisecond in seconds: qlog's default time unit.
const MS: f64 = 1e-3;
/// Bits per second in the drafts' unit of rates.
const BITS: f64 = 1.0;
/// Bits per second in quiche's unit, bytes per second. Source: quiche 0.30, `to_bytes_per_second` in recovery/mod.rs.
const BYTES: f64 = 8.0;
/// Maximum losses of one event that counts them. Ours: a guard against a count that is no number of packets.
const LOSSES_MAX: f64 = 10_000.0;

pub(super) fn read(text: &str) -> Result<Log> {
    let mut reader = Reader::default();
    // One document, or one record per line, each optionally preceded by RFC 7464's separator.
    match serde_json::from_str::<Value>(text.trim_start_matches(['\u{feff}', '\u{1e}']).trim()) {
        Ok(document) => reader.document(&document)?,
        Err(whole) => reader.sequence(text, whole)?,
    }
    let flows: Vec<FlowLog> = reader.flows.into_values().map(Builder::finish).collect();
    Ok(Log { form: "qlog", flows })
}

/// Time base of a trace.
#[derive(Clone, Copy, Debug)]
struct Clock {
    unit_s: f64,
    is_delta: bool,
    last_s: f64,
}

impl Default for Clock {
    fn default() -> Self {
        Self { unit_s: MS, is_delta: false, last_s: 0.0 }
    }
}

#[derive(Debug, Default)]
struct Reader {
    flows: BTreeMap<String, Builder>,
}

/// A flow under construction: metrics are logged when they change, so the last values stay.
#[derive(Debug)]
struct Builder {
    flow: FlowLog,
    last: Sample,
    lost: f64,
    /// Unit of rates, in bit/s.
    rate_unit: f64,
}

fn object(value: &Value) -> Option<&Map<String, Value>> {
    value.as_object()
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

impl Reader {
    fn document(&mut self, document: &Value) -> Result<()> {
        let records = match document {
            Value::Array(records) => records.as_slice(),
            one => std::slice::from_ref(one),
        };
        let mut found = false;
        for record in records {
            let traces = record.get("traces").and_then(Value::as_array);
            for (place, trace) in traces.into_iter().flatten().enumerate() {
                found |= self.trace(trace, &format!("trace {place}"));
            }
            if record.get("events").is_some() {
                found |= self.trace(record, "trace");
            }
        }
        if found { Ok(()) } else { Err(Error::NotAQlog) }
    }

    fn trace(&mut self, trace: &Value, name: &str) -> bool {
        let Some(events) = trace.get("events").and_then(Value::as_array) else {
            return false;
        };
        let mut clock = clock(trace);
        let name = title(trace).unwrap_or(name);
        let fields: Vec<&str> = trace
            .get("event_fields")
            .and_then(Value::as_array)
            .map(|fields| fields.iter().map(|field| field.as_str().unwrap_or("")).collect())
            .unwrap_or_default();
        for event in events {
            self.event(event, &fields, name, &mut clock);
        }
        true
    }

    fn sequence(&mut self, text: &str, whole: serde_json::Error) -> Result<()> {
        let mut clock = Clock::default();
        let mut records = 0_usize;
        let name = "connection";
        for (number, line) in text.lines().enumerate() {
            for piece in line.split('\u{1e}').map(str::trim).filter(|piece| !piece.is_empty()) {
                let record: Value = match serde_json::from_str(piece) {
                    Ok(record) => record,
                    // A truncated log is accepted if it holds more than its header.
                    Err(_) if records > 1 && text.lines().nth(number + 1).is_none() => break,
                    Err(_) if records == 0 => return Err(Error::NotJson(whole)),
                    Err(error) => return Err(Error::at(format!("line {}", number + 1))(Error::Record(error))),
                };
                records += 1;
                if let Some(trace) = record.get("trace") {
                    clock = self::clock(trace);
                } else {
                    self.event(&record, &[], name, &mut clock);
                }
            }
        }
        Ok(())
    }

    /// Handles one event, as an object or as an array of the fields that the trace names.
    fn event(&mut self, event: &Value, fields: &[&str], trace: &str, clock: &mut Clock) {
        let (time, name, data, group);
        let joined;
        match event {
            Value::Object(map) => {
                time = number(map.get("time").or_else(|| map.get("relative_time")));
                name = match (text_of(map, &["name"]), text_of(map, &["category"]), text_of(map, &["event", "type"])) {
                    (Some(name), ..) => name,
                    (None, Some(category), Some(event)) => {
                        joined = format!("{category}:{event}");
                        &joined
                    }
                    _ => return,
                };
                data = map.get("data").and_then(object);
                group = text_of(map, &["group_id"]);
            }
            Value::Array(values) => {
                let at = |wanted: &[&str]| {
                    let place =
                        fields.iter().position(|field| wanted.contains(&field.to_ascii_lowercase().as_str()))?;
                    values.get(place)
                };
                time = number(at(&["relative_time", "time", "delta_time"]));
                let word = |wanted: &[&str]| at(wanted).and_then(Value::as_str).unwrap_or("");
                joined = format!("{}:{}", word(&["category"]), word(&["event", "event_type", "name", "type"]));
                name = &joined;
                data = at(&["data"]).and_then(object);
                group = at(&["group_id"]).and_then(Value::as_str);
            }
            _ => return,
        }
        let (Some(time), Some(data)) = (time, data) else {
            return;
        };
        let at = time * clock.unit_s;
        clock.last_s = if clock.is_delta { clock.last_s + at } else { at };
        let kind = name.rsplit(':').next().unwrap_or(name).to_ascii_lowercase();
        let flow = group.unwrap_or(trace);
        if self.flows.len() >= FLOWS_MAX && !self.flows.contains_key(flow) {
            return;
        }
        let builder = self.flows.entry(flow.to_owned()).or_insert_with(|| Builder::new(flow));
        builder.take(clock.last_s, &kind, data);
    }
}

fn title(trace: &Value) -> Option<&str> {
    let named = trace.get("title").and_then(Value::as_str);
    named.or_else(|| trace.get("vantage_point")?.get("name")?.as_str()).filter(|name| !name.is_empty())
}

fn clock(trace: &Value) -> Clock {
    let common = trace.get("common_fields");
    let format = common.and_then(|common| common.get("time_format")).and_then(Value::as_str).unwrap_or("");
    let units = trace.get("configuration").and_then(|c| c.get("time_units")).and_then(Value::as_str);
    Clock {
        unit_s: if units == Some("us") { 1e-6 } else { MS },
        is_delta: format.contains("delta") || format == "relative_to_previous_event",
        last_s: 0.0,
    }
}

impl Builder {
    fn new(name: &str) -> Self {
        let flow = FlowLog { name: name.to_owned(), is_timed: true, ..FlowLog::default() };
        Self { flow, last: Sample::UNKNOWN, lost: 0.0, rate_unit: BITS }
    }

    fn take(&mut self, t_s: f64, kind: &str, data: &Map<String, Value>) {
        match kind {
            "metrics_updated" | "metric_update" | "recovery_metrics_updated" | "model_updated" => {
                self.metrics(t_s, data);
            }
            "congestion_state_updated" => {
                let new = data.get("new").and_then(Value::as_str);
                let new = new.filter(|name| Phase::named(name).is_some()).or_else(|| data.get("trigger")?.as_str());
                self.enter(t_s, new.unwrap_or(""));
            }
            "packet_lost" => self.lose(t_s),
            "parameters_set" | "recovery_parameters_set" => {
                let mss = number(data.get("max_datagram_size").or_else(|| data.get("max_udp_payload_size")));
                self.flow.mss = mss.or(self.flow.mss);
                let cc = text_of(data, &["congestion_control", "congestion_controller"]).map(str::to_owned);
                self.flow.cc = cc.or(self.flow.cc.take());
            }
            _ => {}
        }
    }

    fn enter(&mut self, t_s: f64, name: &str) {
        if let Some(phase) = Phase::named(name)
            && self.flow.phases.last().is_none_or(|(_, last)| *last != phase)
        {
            self.flow.phases.push((t_s, phase));
        }
    }

    fn lose(&mut self, t_s: f64) {
        self.lost += 1.0;
        self.flow.losses.push(t_s);
    }

    /// Reads the fields of quiche's own, `cf_…`. They are in the first metrics, and its rates are in bytes.
    fn quiche(&mut self, t_s: f64, data: &Map<String, Value>) {
        if !data.keys().any(|key| key.starts_with("cf_")) {
            return;
        }
        self.rate_unit = BYTES;
        // BBR's estimate; its other controllers do not log it.
        if let Some(rate) = number(data.get("cf_delivery_rate")).filter(|rate| *rate > 0.0) {
            self.last.bw_bps = rate * BYTES;
        }
        let lost = data.get("cf_lost_packets").and_then(|lost| number(lost.get("delta"))).unwrap_or(0.0);
        let mut left = lost.min(LOSSES_MAX);
        while left >= 1.0 {
            self.lose(t_s);
            left -= 1.0;
        }
    }

    fn metrics(&mut self, t_s: f64, data: &Map<String, Value>) {
        self.quiche(t_s, data);
        let rate_unit = self.rate_unit;
        let mut put = |keys: &[&str], scale: f64, slot: fn(&mut Sample) -> &mut f64| {
            if let Some(value) = keys.iter().find_map(|key| number(data.get(*key))) {
                *slot(&mut self.last) = value * scale;
            }
        };
        put(&["congestion_window", "cwnd"], 1.0, |s| &mut s.cwnd);
        put(&["bytes_in_flight"], 1.0, |s| &mut s.inflight);
        put(&["pacing_rate"], rate_unit, |s| &mut s.pacing_bps);
        // A delivery rate is a sample, not the model's estimate.
        put(&["max_bw", "bw"], 1.0, |s| &mut s.bw_bps);
        put(&["latest_rtt"], MS, |s| &mut s.rtt_s);
        put(&["min_rtt"], MS, |s| &mut s.min_rtt_s);
        put(&["pacing_gain"], 1.0, |s| &mut s.pacing_gain);
        put(&["cwnd_gain"], 1.0, |s| &mut s.cwnd_gain);
        self.last.t_s = t_s;
        self.last.lost = self.lost;
        if let Some(state) = text_of(data, &["state", "phase"]) {
            self.enter(t_s, state);
        }
        self.flow.samples.push(self.last);
    }

    fn finish(mut self) -> FlowLog {
        // Threads that write one file do not always write in time order.
        self.flow.samples.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
        self.flow.phases.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.flow.losses.sort_by(f64::total_cmp);
        self.flow
    }
}

#[cfg(test)]
mod tests {
    use bbrlab_core::State;

    use super::*;

    #[test]
    fn a_sequence_of_the_drafts_is_read_event_by_event() {
        let text = "\u{1e}{\"qlog_version\":\"0.4\",\"trace\":{\"common_fields\":{\"time_format\":\"relative\"}}}\n\
            \u{1e}{\"time\":10,\"name\":\"recovery:metrics_updated\",\"data\":{\"congestion_window\":14720,\"min_rtt\":40.0}}\n\
            \u{1e}{\"time\":20,\"name\":\"recovery:packet_lost\",\"data\":{}}\n\
            \u{1e}{\"time\":30,\"name\":\"quic:recovery_metrics_updated\",\"data\":{\"pacing_rate\":1000000}}\n\
            \u{1e}{\"time\":40,\"name\":\"recovery:congestion_state_updated\",\"data\":{\"new\":\"startup\"}}\n";
        let flow = &read(text).unwrap().flows[0];
        assert_eq!(flow.samples.len(), 2);
        assert_eq!((flow.samples[1].cwnd, flow.samples[1].pacing_bps, flow.samples[1].lost), (14720.0, 1e6, 1.0));
        assert_eq!((flow.samples[0].t_s, flow.samples[0].min_rtt_s), (0.01, 0.04));
        assert_eq!(flow.phases, [(0.04, Phase::Known(State::Startup))]);
    }

    #[test]
    fn quiches_rates_are_in_bytes_and_its_losses_in_its_metrics() {
        let text = "{\"time\":1,\"name\":\"quic:recovery_metrics_updated\",\"data\":{\"cf_delivery_rate\":0,\"pacing_rate\":1000}}\n\
            {\"time\":2,\"name\":\"quic:recovery_metrics_updated\",\"data\":{\"cf_delivery_rate\":500,\"cf_lost_packets\":\
            {\"total\":2,\"delta\":2}}}\n\
            {\"time\":3,\"name\":\"quic:recovery_metrics_updated\",\"data\":{\"pacing_rate\":2000}}\n";
        let flow = &read(text).unwrap().flows[0];
        let rates: Vec<f64> = flow.samples.iter().map(|sample| sample.pacing_bps).collect();
        assert_eq!(rates, [8e3, 8e3, 16e3]);
        assert!(flow.samples[0].bw_bps.is_nan(), "no estimate yet");
        assert_eq!((flow.samples[2].bw_bps, flow.samples[2].lost, flow.losses.len()), (4e3, 2.0, 2));
        let text = text.replace("\"delta\":2", "\"delta\":1e300");
        assert_eq!(read(&text).unwrap().flows[0].losses.len(), 10_000);
    }

    #[test]
    fn events_as_arrays_follow_the_traces_fields() {
        let text = r#"{"qlog_version":"draft-01","traces":[{"configuration":{"time_units":"us"},
            "event_fields":["relative_time","CATEGORY","EVENT_TYPE","DATA"],
            "events":[["1500","RECOVERY","METRIC_UPDATE",{"cwnd":3000,"bytes_in_flight":1500}]]}]}"#;
        let flow = &read(text).unwrap().flows[0];
        assert_eq!((flow.samples[0].t_s, flow.samples[0].cwnd, flow.samples[0].inflight), (0.0015, 3000.0, 1500.0));
    }

    #[test]
    fn times_that_count_from_the_event_before_are_summed() {
        let text = r#"{"traces":[{"common_fields":{"time_format":"delta"},"events":[
            {"time":5,"name":"recovery:metrics_updated","data":{"cwnd":1}},
            {"time":5,"name":"recovery:metrics_updated","data":{"cwnd":2}}]}]}"#;
        assert_eq!(read(text).unwrap().flows[0].samples[1].t_s, 0.01);
    }

    #[test]
    fn a_broken_line_is_named_and_a_torn_end_forgiven() {
        let good = "{\"time\":1,\"name\":\"recovery:metrics_updated\",\"data\":{\"cwnd\":1}}\n";
        assert!(read(&format!("{good}{{oops\n{good}")).unwrap_err().to_string().contains("line 2"));
        assert_eq!(read(&format!("{good}{good}{{\"time\":")).unwrap().flows[0].samples.len(), 2);
        assert!(read("{oops").unwrap_err().to_string().contains("not JSON"));
        assert!(read("{\"a\":1}").unwrap_err().to_string().contains("no traces"));
    }
}
