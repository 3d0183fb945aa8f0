//! Metrics of all connections for Prometheus, in the OpenMetrics text format. No label contains an address.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::Duration;

use bbrlab_live::watch::{ConnectionState, listening};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::steering::Steering;
use super::{Source, server};
use crate::{Error, Verdict, print};
use bbrlab_live::clock::Stopwatch;

/// Maximum number of ports with a label of their own; the others share one. Ours: no label set grows without bound.
const PORTS_MOST: usize = 64;
/// Port label of connections that this host opened, and of ports without a label of their own.
const OTHER: &str = "other";

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct Labels {
    cc: String,
    port: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct StateLabels {
    cc: String,
    state: String,
}

type Histograms = Family<Labels, Histogram, fn() -> Histogram>;
type Bytes = Family<Labels, Counter<u64, AtomicU64>>;
type Count<L> = Family<L, Gauge<i64, AtomicI64>>;

/// All metrics, and the counters that they are computed from.
struct Metrics {
    registry: Arc<Registry>,
    connections: Count<Labels>,
    states: Count<StateLabels>,
    rtt: Histograms,
    min_rtt: Histograms,
    goodput: Histograms,
    retransmit: Histograms,
    sent: Bytes,
    again: Bytes,
    acked: Bytes,
    limited: Family<Labels, Counter<u64, AtomicU64>>,
    samples: Counter<u64, AtomicU64>,
    busy: Counter<f64, AtomicU64>,
    steering: Steering,
    counted: BTreeMap<u64, [u64; 3]>,
    shown: (BTreeMap<Labels, i64>, BTreeMap<StateLabels, i64>),
    ports: BTreeSet<u16>,
}

impl Metrics {
    fn new() -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.000_25, 2.0, 17));
        let rates = || Histogram::new(exponential_buckets(1_000.0, 4.0, 12));
        let ratios = || Histogram::new([0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0]);
        let mut all = Self {
            registry: Arc::default(),
            connections: Family::default(),
            states: Family::default(),
            rtt: Family::new_with_constructor(seconds),
            min_rtt: Family::new_with_constructor(seconds),
            goodput: Family::new_with_constructor(rates),
            retransmit: Family::new_with_constructor(ratios),
            sent: Family::default(),
            again: Family::default(),
            acked: Family::default(),
            limited: Family::default(),
            samples: Counter::default(),
            busy: Counter::default(),
            steering: Steering::default(),
            counted: BTreeMap::new(),
            shown: Default::default(),
            ports: BTreeSet::new(),
        };
        let mut to = Registry::with_prefix("bbrlab");
        let other = |unit: &str| Unit::Other(unit.to_owned());
        to.register("tcp_connections", "Established connections", all.connections.clone());
        to.register("tcp_states", "Connections in each state of their congestion control", all.states.clone());
        let each = "one value per connection per sample";
        to.register_with_unit("tcp_rtt", format!("Smoothed RTT, {each}"), Unit::Seconds, all.rtt.clone());
        to.register_with_unit("tcp_min_rtt", format!("Minimum RTT, {each}"), Unit::Seconds, all.min_rtt.clone());
        let text = "Acknowledged payload, one value per sample for each connection that sent";
        to.register_with_unit("tcp_goodput", text, other("bytes_per_second"), all.goodput.clone());
        let text = "Retransmitted share of the payload sent, one value per sample for each connection that sent";
        to.register_with_unit("tcp_retransmit", text, other("ratio"), all.retransmit.clone());
        let text = "Payload sent since the exporter started, retransmissions included";
        to.register_with_unit("tcp_sent", text, Unit::Bytes, all.sent.clone());
        let text = "Payload retransmitted since the exporter started";
        to.register_with_unit("tcp_retransmitted", text, Unit::Bytes, all.again.clone());
        let text = "Payload acknowledged since the exporter started";
        to.register_with_unit("tcp_acked", text, Unit::Bytes, all.acked.clone());
        let text = "Samples in which a connection's newest delivery rate was application-limited";
        to.register("tcp_app_limited_samples", text, all.limited.clone());
        all.steering.register(&mut to);
        to.register("exporter_samples", "Samples taken of all connections", all.samples.clone());
        to.register_with_unit("exporter_sampling", "Time spent sampling", Unit::Seconds, all.busy.clone());
        all.registry = Arc::new(to);
        all
    }

    /// Counts one sample, which took `busy_s`.
    fn count(&mut self, seen: &[ConnectionState], listening: &BTreeSet<u16>, busy_s: f64) {
        let (mut connections, mut states) = (BTreeMap::new(), BTreeMap::new());
        let mut counted = BTreeMap::new();
        for one in seen {
            let labels = Labels { cc: one.cc.clone(), port: self.port(one.local.port(), listening) };
            if let Some(state) = one.state {
                *states.entry(StateLabels { cc: one.cc.clone(), state: state.to_owned() }).or_insert(0) += 1;
            }
            if one.rtt_ms > 0.0 {
                self.rtt.get_or_create(&labels).observe(one.rtt_ms / 1e3);
            }
            if let Some(min) = one.min_rtt_ms {
                self.min_rtt.get_or_create(&labels).observe(min / 1e3);
            }
            if let (Some(share), Some(bps)) = (one.retransmit_ratio, one.goodput_bps) {
                self.retransmit.get_or_create(&labels).observe(share);
                self.goodput.get_or_create(&labels).observe(bps / 8.0);
            }
            if one.is_app_limited {
                self.limited.get_or_create(&labels).inc();
            }
            // Bytes from before the first sample are not counted; a connection that is new since then counts from its start.
            let now = [one.sent_bytes, one.retransmitted_bytes, one.acked_bytes];
            let before = match self.counted.get(&one.cookie) {
                Some(before) => *before,
                None if self.samples.get() == 0 => now,
                None => [0; 3],
            };
            for ((family, now), before) in [&self.sent, &self.again, &self.acked].into_iter().zip(now).zip(before) {
                family.get_or_create(&labels).inc_by(now.saturating_sub(before));
            }
            counted.insert(one.cookie, now);
            *connections.entry(labels).or_insert(0) += 1;
        }
        self.counted = counted;
        set(&self.connections, &mut self.shown.0, connections);
        set(&self.states, &mut self.shown.1, states);
        self.samples.inc();
        self.busy.inc_by(busy_s);
    }

    /// Label of a port.
    fn port(&mut self, port: u16, listening: &BTreeSet<u16>) -> String {
        let is_known = self.ports.contains(&port);
        if !is_known && listening.contains(&port) && self.ports.len() < PORTS_MOST {
            self.ports.insert(port);
        }
        if self.ports.contains(&port) { port.to_string() } else { OTHER.to_owned() }
    }
}

/// Sets a gauge family, and removes labels that are gone. The remaining ones are never absent from a scrape.
fn set<L: Clone + std::hash::Hash + Eq + Ord>(family: &Count<L>, shown: &mut BTreeMap<L, i64>, now: BTreeMap<L, i64>) {
    for gone in shown.keys().filter(|labels| !now.contains_key(labels)) {
        family.remove(gone);
    }
    for (labels, count) in &now {
        family.get_or_create(labels).set(*count);
    }
    *shown = now;
}

/// Samples every `interval`, and serves metrics at `address` until it is interrupted.
pub fn serve(
    source: &mut Source,
    address: SocketAddr,
    token: Option<String>,
    interval: Duration,
) -> Result<Verdict, Error> {
    let mut metrics = Metrics::new();
    let fault = |source| Error::Listen { flag: "--prometheus", address, source };
    let listener = TcpListener::bind(address).map_err(fault)?;
    server::start(listener, Arc::clone(&metrics.registry), token).map_err(fault)?;
    print(&format!("http://{address}/metrics\n"))?;
    loop {
        let watch = Stopwatch::start();
        let listening = listening()?;
        let sample = source.sample()?;
        metrics.steering.read();
        metrics.count(&sample.seen, &listening, watch.seconds());
        std::thread::sleep(interval);
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;

    use super::super::tests::seen;
    use super::*;

    fn value(metrics: &Metrics, line: &str) -> Option<f64> {
        let mut body = String::new();
        text::encode(&mut body, &metrics.registry).unwrap();
        assert!(body.ends_with("# EOF\n"));
        body.lines().find_map(|one| one.strip_prefix(line)?.trim().parse().ok())
    }

    #[test]
    fn counters_grow_by_what_was_sent_and_gauges_forget_what_closed() {
        let mut metrics = Metrics::new();
        let listening = BTreeSet::from([443]);
        let mut one = seen("192.0.2.1:50000", 8e6, 40.0);
        metrics.count(&[one.clone()], &listening, 0.001);
        let sent = r#"bbrlab_tcp_sent_bytes_total{cc="bbr3_linux",port="443"}"#;
        assert_eq!(value(&metrics, sent), Some(0.0), "what was sent before it began is not counted");
        one.sent_bytes += 500;
        let mut new = seen("192.0.2.1:50001", 8e6, 40.0);
        (new.cookie, new.sent_bytes) = (2, 300);
        metrics.count(&[one, new], &listening, 0.001);
        assert_eq!(value(&metrics, sent), Some(800.0));
        assert_eq!(value(&metrics, r#"bbrlab_tcp_connections{cc="bbr3_linux",port="443"}"#), Some(2.0));
        assert_eq!(value(&metrics, r#"bbrlab_tcp_rtt_seconds_count{cc="bbr3_linux",port="443"}"#), Some(3.0));
        let state = r#"bbrlab_tcp_states{cc="bbr3_linux",state="probe_bw_cruise"}"#;
        assert_eq!(value(&metrics, state), Some(2.0));
        metrics.count(&[], &listening, 0.001);
        assert_eq!((value(&metrics, state), value(&metrics, sent)), (None, Some(800.0)));
    }

    #[test]
    fn the_dashboard_asks_for_metrics_that_are_there() {
        let text = include_str!("../../../../../contrib/grafana-dashboard.json");
        let dashboard: serde_json::Value = serde_json::from_str(text).unwrap();
        assert!(dashboard["panels"].as_array().unwrap().len() >= 8);
        let mut metrics = Metrics::new();
        metrics.count(&[seen("192.0.2.1:50000", 8e6, 40.0)], &BTreeSet::from([443]), 0.001);
        let mut body = String::new();
        text::encode(&mut body, &metrics.registry).unwrap();
        let asked: BTreeSet<&str> = text
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|word| word.starts_with("bbrlab_"))
            .collect();
        assert!(asked.len() >= 9);
        for name in asked {
            assert!(body.contains(&format!("\n{name}{{")) || body.contains(&format!("\n{name} ")), "{name}");
        }
    }

    #[test]
    fn the_alerts_ask_for_metrics_that_are_there() {
        let text = include_str!("../../../../../contrib/alerts.yml");
        let mut metrics = Metrics::new();
        metrics.count(&[seen("192.0.2.1:50000", 8e6, 40.0)], &BTreeSet::from([443]), 0.001);
        metrics.steering.pretend();
        let mut body = String::new();
        text::encode(&mut body, &metrics.registry).unwrap();
        let asked: BTreeSet<&str> = text
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|word| word.starts_with("bbrlab_"))
            .collect();
        assert!(asked.len() >= 6);
        for name in asked {
            assert!(body.contains(&format!("\n{name}{{")) || body.contains(&format!("\n{name} ")), "{name}");
        }
    }

    /// A million clients on a million ports share one label.
    #[test]
    fn labels_are_bounded() {
        let mut metrics = Metrics::new();
        let listening: BTreeSet<u16> = (1000..2000).collect();
        let all: Vec<ConnectionState> = (900..2000_u16)
            .map(|port| {
                let mut one = seen("192.0.2.1:50000", 8e6, 40.0);
                one.local.set_port(port);
                one
            })
            .collect();
        metrics.count(&all, &listening, 0.001);
        let mut body = String::new();
        text::encode(&mut body, &metrics.registry).unwrap();
        let rows = body.lines().filter(|line| line.starts_with("bbrlab_tcp_connections{")).count();
        assert_eq!(rows, PORTS_MOST + 1);
        assert!(!body.contains("192.0.2.1"), "no address is told");
    }
}
