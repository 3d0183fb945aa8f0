//! Samples, states and losses of the connections of a qlog. An unknown event is skipped.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;

use bbrlab_study::qlog::{self, Event};

use super::{FlowLog, Log, Phase, Sample};
use crate::{Error, Result};

/// Maximum flows of one log. Ours: a guard against a log of group identifiers that never repeat.
const FLOWS_MAX: usize = 1_000;
/// Bits per second in the drafts' unit of rates.
const BITS: f64 = 1.0;
/// Bits per second in quiche's unit, bytes per second. Source: quiche 0.30, `to_bytes_per_second` in recovery/mod.rs.
const BYTES: f64 = 8.0;
/// Maximum losses of one event that counts them. Ours: a guard against a count that is no number of packets.
const LOSSES_MAX: f64 = 10_000.0;

pub(super) fn read(text: &str) -> Result<Log> {
    let mut flows: BTreeMap<String, Builder> = BTreeMap::new();
    let damage = qlog::read(text.as_bytes(), |event| {
        if let Some(flow) = flows.get_mut(event.connection) {
            flow.take(event);
        } else if flows.len() < FLOWS_MAX {
            flows.entry(event.connection.to_owned()).or_insert_with(|| Builder::new(event.connection)).take(event);
        }
    })?;
    // A log that is cut off is accepted if it holds more than its header.
    if let Some(damage) = damage.filter(|damage| !damage.is_last || flows.is_empty()) {
        return Err(Error::at(format!("line {}", damage.line))(Error::Record(damage.cause)));
    }
    Ok(Log { form: "qlog", flows: flows.into_values().map(Builder::finish).collect() })
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

impl Builder {
    fn new(name: &str) -> Self {
        let flow = FlowLog { name: name.to_owned(), is_timed: true, ..FlowLog::default() };
        Self { flow, last: Sample::UNKNOWN, lost: 0.0, rate_unit: BITS }
    }

    fn take(&mut self, event: &Event<'_>) {
        match event.kind {
            "metrics_updated" | "metric_update" | "recovery_metrics_updated" | "model_updated" => self.metrics(event),
            "congestion_state_updated" => {
                let new = event.text(&["new"]).filter(|name| Phase::named(name).is_some());
                self.enter(event.t_s, new.or_else(|| event.text(&["trigger"])).unwrap_or(""));
            }
            "packet_lost" => self.lose(event.t_s),
            "parameters_set" | "recovery_parameters_set" => {
                let mss = event.number(&["max_datagram_size", "max_udp_payload_size"]);
                self.flow.mss = mss.or(self.flow.mss);
                let cc = event.text(&["congestion_control", "congestion_controller"]).map(str::to_owned);
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
    fn quiche(&mut self, event: &Event<'_>) {
        if !event.data.keys().any(|key| key.starts_with("cf_")) {
            return;
        }
        self.rate_unit = BYTES;
        // BBR's estimate; its other controllers do not log it.
        if let Some(rate) = event.number(&["cf_delivery_rate"]).filter(|rate| *rate > 0.0) {
            self.last.bw_bps = rate * BYTES;
        }
        let lost = event.data.get("cf_lost_packets").and_then(|lost| lost.get("delta")?.as_f64()).unwrap_or(0.0);
        let mut left = lost.min(LOSSES_MAX);
        while left >= 1.0 {
            self.lose(event.t_s);
            left -= 1.0;
        }
    }

    fn metrics(&mut self, event: &Event<'_>) {
        self.quiche(event);
        let rate_unit = self.rate_unit;
        let mut put = |keys: &[&str], scale: f64, slot: fn(&mut Sample) -> &mut f64| {
            if let Some(value) = event.number(keys) {
                *slot(&mut self.last) = value * scale;
            }
        };
        put(&["congestion_window", "cwnd"], 1.0, |s| &mut s.cwnd);
        put(&["bytes_in_flight"], 1.0, |s| &mut s.inflight);
        put(&["pacing_rate"], rate_unit, |s| &mut s.pacing_bps);
        // A delivery rate is a sample, not the model's estimate.
        put(&["max_bw", "bw"], 1.0, |s| &mut s.bw_bps);
        put(&["latest_rtt"], event.unit_s, |s| &mut s.rtt_s);
        put(&["min_rtt"], event.unit_s, |s| &mut s.min_rtt_s);
        put(&["pacing_gain"], 1.0, |s| &mut s.pacing_gain);
        put(&["cwnd_gain"], 1.0, |s| &mut s.cwnd_gain);
        self.last.t_s = event.t_s;
        self.last.lost = self.lost;
        if let Some(state) = event.text(&["state", "phase"]) {
            self.enter(event.t_s, state);
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
            "events":[["1500","RECOVERY","METRIC_UPDATE",{"cwnd":3000,"bytes_in_flight":1500,"min_rtt":40000}]]}]}"#;
        let sample = read(text).unwrap().flows[0].samples[0];
        assert_eq!((sample.t_s, sample.cwnd, sample.inflight, sample.min_rtt_s), (0.0015, 3000.0, 1500.0, 0.04));
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
