//! The series as qlog, in the drafts' dialect (JSON text sequence) and in the one that qvis 0.3 reads.
//! A trace is sampled, so there is no event for a single packet.
// SPDX-License-Identifier: Apache-2.0 OR MIT
// Formats: draft-ietf-quic-qlog-main-schema-13 and -quic-events-12; for qvis, draft-ietf-quic-qlog-main-schema-02.

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

/// Which names events have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Draft,
    Qvis,
}

/// The drafts' sequential file (`.sqlog`): one trace, each event with its flow as `group_id`, in the order of time.
pub fn sequence(record: &Record<'_>, to: &mut dyn Write) -> io::Result<()> {
    // The schema and the format stand first, where readers look for them; a map would sort them elsewhere.
    let trace = json!({
        "title": title(record),
        "common_fields": { "time_format": "relative_to_epoch", "reference_time": { "clock_type": "monotonic", "epoch": "unknown" } },
        "vantage_point": { "name": "bbrlab", "type": "server" },
        "event_schemas": EVENT_SCHEMAS,
    });
    writeln!(
        to,
        "{SEPARATOR}{{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\"serialization_format\":\"application/qlog+json-seq\",\"title\":{},\"trace\":{trace}}}",
        Value::from(title(record)),
    )?;
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

/// What qvis opens (`.qlog`): one JSON document with a trace for each flow.
pub fn qvis(record: &Record<'_>, to: &mut dyn Write) -> io::Result<()> {
    let mut traces = Vec::new();
    for mut flow in writers(record, Dialect::Qvis) {
        let mut events = Vec::new();
        record.trace.t_ns.iter().enumerate().for_each(|(index, &t_ns)| flow.advance(index, t_ns, &mut events));
        traces.push(json!({
            "title": flow.name,
            "vantage_point": { "name": flow.name, "type": "server" },
            "common_fields": { "ODCID": flow.name, "group_id": flow.name, "time_format": "relative", "reference_time": 0 },
            "events": events.into_iter().map(|(_, event)| event).collect::<Vec<Value>>(),
        }));
    }
    write!(
        to,
        "{{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON\",\"title\":{},\"traces\":",
        Value::from(title(record))
    )?;
    serde_json::to_writer(&mut *to, &traces)?;
    writeln!(to, "}}")
}

fn title(record: &Record<'_>) -> String {
    match record.result.scenario["name"].as_str().filter(|name| !name.is_empty()) {
        Some(name) => format!("{name}, seed {}", record.result.seed),
        None => format!("bbrlab, seed {}", record.result.seed),
    }
}

fn writers<'a>(record: &Record<'a>, dialect: Dialect) -> Vec<FlowWriter<'a>> {
    let flows = record.trace.flows.iter().zip(&record.setup.flows);
    flows
        .map(|(trace, setup)| FlowWriter {
            name: &setup.name,
            mss: setup.mss.into(),
            trace,
            dialect,
            state: 0,
            before: None,
            metrics: Map::new(),
            model: Map::new(),
        })
        .collect()
}

/// Walks over one flow's samples and says what changed.
struct FlowWriter<'a> {
    name: &'a str,
    mss: u64,
    trace: &'a FlowTrace,
    dialect: Dialect,
    /// Index of the next change of state.
    state: usize,
    before: Option<State>,
    metrics: Map<String, Value>,
    model: Map<String, Value>,
}

impl FlowWriter<'_> {
    /// Adds the events up to the sample `index` at `t_ns`.
    fn advance(&mut self, index: usize, t_ns: u64, events: &mut Vec<(u64, Value)>) {
        let draft = self.dialect == Dialect::Draft;
        let group = draft.then_some(self.name);
        while let Some(&(at, state)) = self.trace.states.get(self.state).filter(|(at, _)| at.as_nanos() <= t_ns) {
            let name = if draft { "quic:congestion_state_updated" } else { "recovery:congestion_state_updated" };
            let mut data = json!({ "new": state.name() });
            if let Some(before) = self.before {
                data["old"] = before.name().into();
            }
            events.push((at.as_nanos(), event(at.as_nanos(), name, data, group)));
            (self.before, self.state) = (Some(state), self.state + 1);
        }
        let metrics = self.metrics_at(index);
        let name = if draft { "quic:recovery_metrics_updated" } else { "recovery:metrics_updated" };
        if let Some(data) = changed(&mut self.metrics, metrics) {
            events.push((t_ns, event(t_ns, name, data, group)));
        }
        let model = self.model_at(index);
        if let Some(data) = changed(&mut self.model, model) {
            events.push((t_ns, event(t_ns, "bbr:model_updated", data, group)));
        }
    }

    fn metrics_at(&self, index: usize) -> Map<String, Value> {
        let trace = self.trace;
        let at = |column: &[u32]| column.get(index).copied().unwrap_or(0);
        let mut map = Map::new();
        let mut put = |key: &str, value: Value| map.insert(key.to_owned(), value);
        // A model without a value says 0, which a reader would draw as one.
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

/// What differs from the last event of its kind, as the drafts allow; nothing if nothing does.
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
    use super::*;
    use crate::export::testing::example;

    fn text(fill: fn(&Record<'_>, &mut dyn Write) -> io::Result<()>) -> String {
        let (setup, result, trace) = example();
        let mut bytes = Vec::new();
        fill(&Record { setup: &setup, result: &result, trace: &trace }, &mut bytes).unwrap();
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

    #[test]
    fn only_what_changed_is_said_again() {
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
