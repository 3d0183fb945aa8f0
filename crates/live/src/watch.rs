//! Live connections over time: their progress since the previous sample, and their algorithm's model.
//! Reads the same kernel interface as `ss` and changes nothing.
// SPDX-License-Identifier: Apache-2.0 OR MIT
//!
//! ```no_run
//! use bbrlab_live::watch::{Filter, Watcher};
//! let mut watcher = Watcher::default();
//! for one in watcher.sample(&Filter::default())? {
//!     println!("{} → {}: {} at RTT {:.1} ms", one.local, one.remote, one.cc, one.rtt_ms);
//! }
//! # Ok::<(), bbrlab_live::Error>(())
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use bbrlab_core::State;
use serde::Serialize;

use crate::columns::state_of;
use crate::sock_diag::{self, Query};
use crate::tcp_info::{Bbr3Phase, BbrInfo, TcpInfo};
use crate::{Error, Result, clock};

/// `TCP_LISTEN`.
const LISTEN: u32 = 10;
/// Unit of BBR's gains.
const UNITY: f64 = 256.0;

/// Selection of connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Local or remote port.
    pub port: Option<u16>,
    /// Congestion control, by the kernel's name.
    pub cc: Option<String>,
    /// Network of the remote address.
    pub remote: Option<Network>,
}

impl Filter {
    fn takes(&self, one: &sock_diag::Connection) -> bool {
        self.port.is_none_or(|port| [one.local.port(), one.remote.port()].contains(&port))
            && self.cc.as_ref().is_none_or(|cc| one.congestion_control.as_ref() == Some(cc))
            && self.remote.as_ref().is_none_or(|network| network.holds(one.remote.ip()))
    }
}

/// An address, or a network as `192.0.2.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// True if the address is in the network; an IPv4-mapped IPv6 address counts as IPv4.
    pub fn holds(&self, other: IpAddr) -> bool {
        match (self.address, other.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (u32::from(own) ^ u32::from(other)).checked_shr(32 - self.bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (u128::from(own) ^ u128::from(other)).checked_shr(128 - self.bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl std::str::FromStr for Network {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let fault = || Error::NotANetwork(text.to_owned());
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| fault())?;
        let max = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(max), |bits| bits.parse().map_err(|_| fault()))?;
        if bits > max {
            return Err(Error::Prefix { text: text.to_owned(), max });
        }
        Ok(Self { address, bits })
    }
}

/// An algorithm's model of its path.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Model {
    /// Bandwidth estimate of the bottleneck, bits a second.
    pub bw_bps: u64,
    /// The model's minimum RTT.
    pub min_rtt_ms: f64,
    /// Factor on the bandwidth for pacing.
    pub pacing_gain: f64,
    /// Factor on the BDP for the window.
    pub cwnd_gain: f64,
    /// Short-term bound of the rate, bits a second.
    pub bw_shortterm_bps: Option<u64>,
    /// Short-term bound of the data in flight, bytes.
    pub inflight_shortterm_bytes: Option<u64>,
    /// Long-term bound of the data in flight, bytes.
    pub inflight_longterm_bytes: Option<u64>,
    /// Packet-timed rounds.
    pub rounds: Option<u64>,
}

/// A connection's current state, and its progress since the previous sample.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConnectionState {
    /// Local address.
    pub local: SocketAddr,
    /// Remote address.
    pub remote: SocketAddr,
    /// Unique ID of the connection until the next reboot.
    pub cookie: u64,
    /// Congestion control, by the kernel's name.
    pub cc: String,
    /// The algorithm's state or, if it exposes none, the state inferred from the window.
    pub state: Option<&'static str>,
    /// Bytes acknowledged since the previous sample, bits a second; none in the first.
    pub goodput_bps: Option<f64>,
    /// The kernel's newest sample of the delivery rate, bits a second.
    pub delivery_bps: Option<u64>,
    /// True if that sample was application-limited.
    pub is_app_limited: bool,
    /// Pacing rate, bits a second; none without pacing.
    pub pacing_bps: Option<u64>,
    /// Smoothed RTT.
    pub rtt_ms: f64,
    /// Minimum RTT of the kernel's own filter.
    pub min_rtt_ms: Option<f64>,
    /// Congestion window, packets.
    pub cwnd: u32,
    /// Packets in flight.
    pub in_flight: u32,
    /// Payload of a full packet, bytes.
    pub mss: u32,
    /// Payload sent, retransmissions included, bytes.
    pub sent_bytes: u64,
    /// Payload retransmitted, bytes.
    pub retransmitted_bytes: u64,
    /// Payload acknowledged, bytes.
    pub acked_bytes: u64,
    /// Share of the bytes sent since the previous sample that were retransmissions; none if nothing was sent.
    pub retransmit_ratio: Option<f64>,
    /// Time since data was last sent.
    pub idle_ms: u32,
    /// The algorithm's model, if it is exposed.
    pub model: Option<Model>,
}

/// Counters at the previous sample.
#[derive(Clone, Copy, Debug, Default)]
struct PreviousSample {
    acked: u64,
    sent: u64,
    again: u64,
}

/// Samples the connections of this network namespace repeatedly.
#[derive(Debug, Default)]
pub struct Watcher {
    past: BTreeMap<u64, PreviousSample>,
    sampled_ns: Option<u64>,
}

impl Watcher {
    /// Takes a sample of the connections.
    pub fn sample(&mut self, filter: &Filter) -> Result<Vec<ConnectionState>> {
        let now_ns = clock::now_ns();
        let all = sock_diag::dump(&Query::default())?;
        Ok(self.compare(&all, filter, now_ns))
    }

    fn compare(&mut self, all: &[sock_diag::Connection], filter: &Filter, now_ns: u64) -> Vec<ConnectionState> {
        let since_s = self.sampled_ns.map(|then| now_ns.saturating_sub(then) as f64 / 1e9);
        let mut past = BTreeMap::new();
        let mut seen = Vec::new();
        for one in all {
            let Some(info) = one.info else { continue };
            let count = count(&info);
            // Of the others too: a connection that the filter takes later did not begin then.
            past.insert(one.cookie, count);
            if filter.takes(one) {
                seen.push(shown(one, &info, count, self.past.get(&one.cookie).copied(), since_s));
            }
        }
        (self.past, self.sampled_ns) = (past, Some(now_ns));
        seen
    }
}

/// Ports on which this host listens.
pub fn listening() -> Result<BTreeSet<u16>> {
    let all = sock_diag::dump(&Query { states: 1 << LISTEN, ..Query::default() })?;
    Ok(all.iter().map(|one| one.local.port()).collect())
}

/// Reads the byte counters; kernels before 4.19 count only segments.
fn count(info: &TcpInfo) -> PreviousSample {
    let segments = |count: u32| u64::from(count) * u64::from(info.snd_mss);
    let has_retransmits = info.has("bytes_retrans");
    PreviousSample {
        acked: info.bytes_acked,
        sent: if has_retransmits { info.bytes_sent } else { segments(info.data_segs_out) },
        again: if has_retransmits { info.bytes_retrans } else { segments(info.total_retrans) },
    }
}

fn shown(
    one: &sock_diag::Connection,
    info: &TcpInfo,
    now: PreviousSample,
    past: Option<PreviousSample>,
    since_s: Option<f64>,
) -> ConnectionState {
    let known = |rtt: u32| (rtt != u32::MAX && rtt != 0).then(|| ms(rtt));
    // A connection that the sample before did not have has begun since; how long it has been sending is not known.
    let before = past.or_else(|| since_s.map(|_| PreviousSample::default()));
    let sent = before.map(|past| (now.sent.saturating_sub(past.sent), now.again.saturating_sub(past.again)));
    let goodput = past.zip(since_s).map(|(past, s)| now.acked.saturating_sub(past.acked) as f64 * 8.0 / s.max(1e-3));
    ConnectionState {
        local: one.local,
        remote: one.remote,
        cookie: one.cookie,
        cc: one.congestion_control.clone().unwrap_or_default(),
        state: state(info, one.bbr.as_ref()).map(State::name),
        goodput_bps: goodput,
        delivery_bps: (info.delivery_rate > 0).then(|| info.delivery_rate.saturating_mul(8)),
        is_app_limited: info.flags & 1 != 0,
        pacing_bps: (info.pacing_rate != u64::MAX).then(|| info.pacing_rate.saturating_mul(8)),
        rtt_ms: ms(info.rtt),
        min_rtt_ms: known(info.min_rtt),
        cwnd: info.snd_cwnd,
        in_flight: info.in_flight(),
        mss: info.snd_mss,
        sent_bytes: now.sent,
        retransmitted_bytes: now.again,
        acked_bytes: now.acked,
        retransmit_ratio: sent.filter(|(sent, _)| *sent > 0).map(|(sent, again)| again as f64 / sent as f64),
        idle_ms: info.last_data_sent,
        model: one.bbr.as_ref().map(|bbr| model(bbr, info)),
    }
}

fn ms(micros: u32) -> f64 {
    f64::from(micros) / 1e3
}

fn state(info: &TcpInfo, bbr: Option<&BbrInfo>) -> Option<State> {
    let phase = bbr.and_then(|bbr| bbr.v3).map_or(Bbr3Phase::Unknown, |v3| v3.phase);
    match phase {
        Bbr3Phase::Startup => Some(State::Startup),
        Bbr3Phase::Drain => Some(State::Drain),
        Bbr3Phase::ProbeRtt => Some(State::ProbeRtt),
        Bbr3Phase::ProbeBwUp => Some(State::ProbeBwUp),
        Bbr3Phase::ProbeBwDown => Some(State::ProbeBwDown),
        Bbr3Phase::ProbeBwCruise => Some(State::ProbeBwCruise),
        Bbr3Phase::ProbeBwRefill => Some(State::ProbeBwRefill),
        Bbr3Phase::Unknown => state_of(info, bbr),
    }
}

fn model(bbr: &BbrInfo, info: &TcpInfo) -> Model {
    let bytes = |packets: u32| (packets != u32::MAX).then(|| u64::from(packets) * u64::from(info.snd_mss));
    Model {
        bw_bps: bbr.bw.saturating_mul(8),
        min_rtt_ms: ms(bbr.min_rtt),
        pacing_gain: f64::from(bbr.pacing_gain) / UNITY,
        cwnd_gain: f64::from(bbr.cwnd_gain) / UNITY,
        bw_shortterm_bps: bbr.v3.and_then(|v3| (v3.bw_lo < u64::MAX).then(|| v3.bw_lo.saturating_mul(8))),
        inflight_shortterm_bytes: bbr.v3.and_then(|v3| bytes(v3.inflight_lo)),
        inflight_longterm_bytes: bbr.v3.and_then(|v3| bytes(v3.inflight_hi)),
        rounds: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(cookie: u64, remote: &str, change: fn(&mut TcpInfo)) -> sock_diag::Connection {
        let mut info =
            TcpInfo { length: 248, state: 1, snd_mss: 1000, rtt: 40_000, min_rtt: 30_000, ..TcpInfo::default() };
        change(&mut info);
        sock_diag::Connection {
            state: 1,
            local: "10.0.0.1:443".parse().unwrap(),
            remote: remote.parse().unwrap(),
            cookie,
            uid: 0,
            inode: 0,
            receive_queue: 0,
            send_queue: 0,
            congestion_control: Some("bbr".to_owned()),
            info: Some(info),
            bbr: None,
        }
    }

    #[test]
    fn rates_are_those_since_the_last_look() {
        let mut watcher = Watcher::default();
        let all = Filter::default();
        let before = connection(7, "192.0.2.9:50000", |info| (info.bytes_sent, info.bytes_acked) = (10_000, 8_000));
        let first = watcher.compare(&[before], &all, 1_000_000_000);
        assert_eq!((first[0].goodput_bps, first[0].retransmit_ratio, first[0].rtt_ms), (None, None, 40.0));
        let after = connection(7, "192.0.2.9:50000", |info| {
            (info.bytes_sent, info.bytes_acked, info.bytes_retrans) = (30_000, 18_000, 5_000);
        });
        let new = connection(8, "192.0.2.9:50001", |info| {
            (info.bytes_sent, info.bytes_acked, info.bytes_retrans) = (1 << 20, 1 << 19, 1 << 18);
        });
        let second = watcher.compare(&[after.clone(), new], &all, 3_000_000_000);
        assert_eq!((second[0].goodput_bps, second[0].retransmit_ratio), (Some(40_000.0), Some(0.25)));
        // A connection that has begun since has no rate yet, but what it sent is known.
        assert_eq!((second[1].goodput_bps, second[1].retransmit_ratio), (None, Some(0.25)));
        assert_eq!(watcher.compare(&[after], &all, 4_000_000_000)[0].goodput_bps, Some(0.0));
        assert_eq!(watcher.past.len(), 1, "what is closed is forgotten");
    }

    #[test]
    fn a_connection_that_the_filter_takes_later_did_not_begin_then() {
        let mut watcher = Watcher::default();
        let using = |cc: &str, acked: u64| {
            let one = connection(7, "192.0.2.9:50000", |_| {});
            let info = one.info.map(|info| TcpInfo { bytes_sent: acked, bytes_acked: acked, ..info });
            [sock_diag::Connection { info, congestion_control: Some(cc.to_owned()), ..one }]
        };
        let filter = Filter { cc: Some("bbr".to_owned()), ..Filter::default() };
        watcher.compare(&using("cubic", 1 << 21), &filter, 1_000_000_000);
        assert!(watcher.compare(&using("cubic", 1 << 21), &filter, 2_000_000_000).is_empty());
        let taken = watcher.compare(&using("bbr", (1 << 21) + 1_000), &filter, 3_000_000_000);
        assert_eq!(taken[0].goodput_bps, Some(8_000.0));
    }

    #[test]
    fn an_old_kernels_segments_count() {
        let old = connection(1, "192.0.2.9:1", |info| {
            (info.length, info.data_segs_out, info.total_retrans) = (192, 20, 2);
        });
        let seen = Watcher::default().compare(&[old], &Filter::default(), 0);
        assert_eq!((seen[0].sent_bytes, seen[0].retransmitted_bytes), (20_000, 2_000));
    }

    #[test]
    fn filters_name_ports_algorithms_and_networks() {
        let one = connection(1, "[::ffff:192.0.2.9]:50000", |_| {});
        let takes = |filter: Filter| filter.takes(&one);
        let network = |text: &str| Filter { remote: Some(text.parse().unwrap()), ..Filter::default() };
        assert!(takes(Filter { port: Some(443), ..Filter::default() }));
        assert!(takes(Filter { port: Some(50_000), ..Filter::default() }));
        assert!(!takes(Filter { port: Some(80), ..Filter::default() }));
        assert!(!takes(Filter { cc: Some("cubic".to_owned()), ..Filter::default() }));
        assert!(takes(network("192.0.2.0/24")) && takes(network("0.0.0.0/0")) && takes(network("192.0.2.9")));
        assert!(!takes(network("192.0.3.0/24")) && !takes(network("::/0")));
        for (text, word) in
            [("x", "neither an address"), ("10.0.0.0/33", "at most 32"), ("10.0.0.0/x", "nor a network")]
        {
            assert!(text.parse::<Network>().unwrap_err().to_string().contains(word), "{text}");
        }
    }

    #[test]
    fn v3_tells_its_phase_and_bounds() {
        let mut bytes = [0_u8; 52];
        bytes[..4].copy_from_slice(&1_250_000_u32.to_ne_bytes());
        bytes[8..12].copy_from_slice(&30_000_u32.to_ne_bytes());
        bytes[12..16].copy_from_slice(&320_u32.to_ne_bytes());
        bytes[16..20].copy_from_slice(&512_u32.to_ne_bytes());
        bytes[28..36].fill(0xff);
        bytes[37] = 4;
        bytes[40..44].fill(0xff);
        bytes[44..48].copy_from_slice(&50_u32.to_ne_bytes());
        let mut one = connection(1, "192.0.2.9:1", |_| {});
        one.bbr = BbrInfo::parse(&bytes);
        let seen = &Watcher::default().compare(&[one], &Filter::default(), 0)[0];
        let model = seen.model.as_ref().unwrap();
        assert_eq!((seen.state, model.bw_bps, model.min_rtt_ms), (Some("probe_bw_up"), 10_000_000, 30.0));
        assert_eq!((model.pacing_gain, model.cwnd_gain), (1.25, 2.0));
        assert_eq!((model.inflight_shortterm_bytes, model.inflight_longterm_bytes), (None, Some(50_000)));
    }
}
