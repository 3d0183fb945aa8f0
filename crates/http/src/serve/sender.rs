//! Path statistics of a connection's sender, which the receiver lacks.
//! `serve` returns them at a reserved path, and `get` requests them over the same connection.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::os::fd::OwnedFd;
use std::sync::Mutex;

use bbrlab_live::socket::tcp_info;
use bbrlab_sim::metrics::Histogram;
use s2n_quic::provider::event::{ConnectionInfo, ConnectionMeta, Subscriber, events};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, PoisonError};

use super::activity::Activity;
use super::held::{Held, Total};

/// Path of the sender's statistics.
pub const PATH: &str = "/.well-known/bbrlab";
/// Server name of servers that support it.
pub const SERVER: &str = "bbrlab";

/// A sender's statistics since the start of its connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sender {
    /// Congestion control of the sender.
    pub cc: String,
    /// Packets sent, with or without data; segments for TCP.
    pub packets: u64,
    /// Packets that QUIC declared lost; segments that TCP retransmitted.
    pub retransmits: u64,
    /// Smoothed RTT.
    pub rtt_ms: f64,
    /// Shortest RTT.
    pub rtt_min_ms: f64,
    /// Median and 95th percentile of the RTT of each ACK. Not available for TCP.
    pub rtt_p50_ms: Option<f64>,
    pub rtt_p95_ms: Option<f64>,
}

/// Statistics of a TCP connection, from the kernel.
pub fn of_tcp(fd: &OwnedFd, cc: &str) -> Sender {
    let Ok(info) = tcp_info(fd) else { return Sender { cc: cc.to_owned(), ..Sender::default() } };
    Sender {
        cc: cc.to_owned(),
        packets: info.segs_out.into(),
        retransmits: info.total_retrans.into(),
        rtt_ms: f64::from(info.rtt) / 1e3,
        rtt_min_ms: f64::from(info.min_rtt) / 1e3,
        rtt_p50_ms: None,
        rtt_p95_ms: None,
    }
}

/// Statistics of a QUIC connection.
#[derive(Debug, Default)]
pub struct ConnectionStats {
    pub activity: Activity,
    pub held: Held,
    tally: Mutex<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    packets: u64,
    lost: u64,
    smoothed_ns: u128,
    min_ns: u128,
    rtts_ns: Histogram,
}

impl ConnectionStats {
    /// The statistics so far.
    pub fn sender(&self, cc: &str) -> Sender {
        let tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        let quantile = |q| Some(tally.rtts_ns.quantile(q) / 1e6).filter(|rtt| *rtt > 0.0);
        Sender {
            cc: cc.to_owned(),
            packets: tally.packets,
            retransmits: tally.lost,
            rtt_ms: tally.smoothed_ns as f64 / 1e6,
            rtt_min_ms: tally.min_ns as f64 / 1e6,
            rtt_p50_ms: quantile(0.5),
            rtt_p95_ms: quantile(0.95),
        }
    }

    fn count(&self, what: impl FnOnce(&mut Tally)) {
        what(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Event subscriber that gives each connection its [`ConnectionStats`].
#[derive(Debug, Default)]
pub struct Watcher(Total);

impl Subscriber for Watcher {
    type ConnectionContext = Arc<ConnectionStats>;

    fn create_connection_context(&mut self, _: &ConnectionMeta, _: &ConnectionInfo) -> Arc<ConnectionStats> {
        Arc::new(ConnectionStats { held: Held::of(&self.0), ..ConnectionStats::default() })
    }

    fn on_packet_sent(&mut self, watched: &mut Arc<ConnectionStats>, _: &ConnectionMeta, _: &events::PacketSent) {
        watched.count(|tally| tally.packets += 1);
    }

    fn on_packet_lost(&mut self, watched: &mut Arc<ConnectionStats>, _: &ConnectionMeta, event: &events::PacketLost) {
        if !event.is_mtu_probe {
            watched.count(|tally| tally.lost += 1);
        }
    }

    fn on_recovery_metrics(
        &mut self,
        watched: &mut Arc<ConnectionStats>,
        _: &ConnectionMeta,
        event: &events::RecoveryMetrics,
    ) {
        watched.count(|tally| {
            tally.smoothed_ns = event.smoothed_rtt.as_nanos();
            tally.min_ns = event.min_rtt.as_nanos();
            tally.rtts_ns.add(u64::try_from(event.latest_rtt.as_nanos()).unwrap_or(u64::MAX));
        });
        watched.held.in_flight(event.bytes_in_flight.into());
    }

    fn on_tx_stream_progress(
        &mut self,
        watched: &mut Arc<ConnectionStats>,
        _: &ConnectionMeta,
        event: &events::TxStreamProgress,
    ) {
        watched.activity.moved(event.bytes);
        watched.held.sent(event.bytes);
    }
}
