//! What the host tells an algorithm: plain values, in the draft's order within one ACK.
//! In: nothing. Out: [`Ack`], [`CaState`], [`Init`]. Never: a reference into the host.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::rate_sample::RateSample;
use crate::units::{Span, Time};

/// The host's loss-recovery state, in Linux's words (`tcp_ca_state`), ordered as there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaState {
    /// Nothing unusual.
    #[default]
    Open,
    /// Packets were reported out of order; nothing is known to be lost.
    Disorder,
    /// The window is being reduced for a reason other than loss (ECN).
    Cwr,
    /// Fast recovery.
    Recovery,
    /// Recovery from a retransmission time-out.
    Loss,
}

/// What an algorithm starts from.
#[derive(Clone, Copy, Debug)]
pub struct Init {
    /// Now.
    pub now: Time,
    /// Payload bytes of a full packet.
    pub mss: u32,
    /// Initial window, packets.
    pub initial_cwnd: u32,
    /// Smoothed RTT, if the handshake gave one.
    pub srtt: Option<Span>,
    /// Upper bound of the window, packets.
    pub cwnd_clamp: u32,
    /// The transport can report more than one loss a round trip: SACK, or QUIC's ranges.
    pub selective_acks: bool,
    /// Seed of the algorithm's dice.
    pub seed: u64,
    /// Smallest RTT so far, where the host knows one apart from `srtt`.
    pub min_rtt: Option<Span>,
    /// Packets delivered so far: Linux counts the SYN as one.
    pub delivered: u64,
    /// When the newest were delivered, µs.
    pub delivered_time_us: u64,
    /// Packets marked lost so far.
    pub lost: u64,
    /// The host's own tick count, where it has one (Linux `tcp_jiffies32`); else it is computed from `now`.
    pub tick: Option<u64>,
}

impl Init {
    /// Linux's usual start: ten packets, no bound on the window, SACK.
    pub const fn new(now: Time, mss: u32, seed: u64) -> Self {
        Self {
            now,
            mss,
            initial_cwnd: 10,
            srtt: None,
            cwnd_clamp: u32::MAX,
            selective_acks: true,
            seed,
            min_rtt: None,
            delivered: 0,
            delivered_time_us: now.as_micros(),
            lost: 0,
            tick: None,
        }
    }
}

/// One ACK, after the host has processed it (Linux `tcp_cong_control`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Ack {
    /// Now.
    pub now: Time,
    /// The delivery-rate sample.
    pub rs: RateSample,
    /// Packets delivered so far (draft: `C.delivered`).
    pub delivered: u64,
    /// When the newest were delivered, µs (draft: `C.delivered_time`).
    pub delivered_time_us: u64,
    /// Packets marked lost so far.
    pub lost: u64,
    /// Packets in flight after this ACK.
    pub in_flight: u32,
    /// The recovery state after this ACK.
    pub ca_state: CaState,
    /// Smoothed RTT.
    pub srtt: Option<Span>,
    /// When the pacer will next let a packet go (Linux `tcp_wstamp_ns`); any past time if it would now.
    pub edt: Time,
    /// Oldest unacknowledged sequence, packets.
    pub una: u64,
    /// Next new sequence, packets.
    pub next: u64,
    /// The cumulative ACK advanced.
    pub advanced: bool,
    /// The window was the limit in the last round (Linux `tcp_is_cwnd_limited`).
    pub cwnd_limited: bool,
    /// Packets outstanding: sent and not cumulatively acknowledged.
    pub packets_out: u32,
    /// The host paces even algorithms that did not ask for it.
    pub paced: bool,
    /// Growth is allowed on this ACK (Linux `tcp_may_raise_cwnd`): data was acknowledged in order.
    pub may_raise_cwnd: bool,
    /// The host's own tick count, where it has one (Linux `tcp_jiffies32`); else it is computed from `now`.
    pub tick: Option<u64>,
}

/// A packet was just marked lost (draft: `HandleLostPacket`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Lost {
    /// Now.
    pub now: Time,
    /// Its place in the stream: consecutive ones make one gap.
    pub seq: u64,
    /// Packets in flight right after it was sent, itself included (draft: `P.tx_in_flight`).
    pub tx_in_flight: u32,
    /// Packets marked lost since it was sent, itself included (draft: `C.lost` − `P.lost`).
    pub lost: u32,
    /// The application was the limit when it was sent.
    pub is_app_limited: bool,
    /// Packets delivered so far.
    pub delivered: u64,
}

/// A packet is about to leave while none is in flight (Linux `CA_EVENT_TX_START`).
#[derive(Clone, Copy, Debug)]
pub struct TxStart {
    /// Now.
    pub now: Time,
    /// Packets delivered so far.
    pub delivered: u64,
    /// The connection is marked app-limited.
    pub app_limited: bool,
    /// Since the last packet was sent.
    pub idle: Span,
    /// When the newest packets were delivered, µs.
    pub delivered_time_us: u64,
    /// Smoothed RTT.
    pub srtt: Option<Span>,
    /// The retransmission time-out.
    pub rto: Span,
    /// Nothing at all is outstanding.
    pub none_outstanding: bool,
    /// The host's own tick count, where it has one; else it is computed from `now`.
    pub tick: Option<u64>,
}

/// What congestion has taught an algorithm not to exceed (BBRv2 and later); `None` where there is no such bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Draft: `BBR.bw_shortterm`, of payload; Linux `bw_lo`.
    pub bw_shortterm: Option<crate::Rate>,
    /// Draft: `BBR.inflight_shortterm`, bytes; Linux `inflight_lo`.
    pub inflight_shortterm: Option<u64>,
    /// Draft: `BBR.inflight_longterm`, bytes; Linux `inflight_hi`.
    pub inflight_longterm: Option<u64>,
}

impl Bounds {
    /// No bound at all.
    pub const NONE: Self = Self { bw_shortterm: None, inflight_shortterm: None, inflight_longterm: None };
}

/// What an algorithm thinks, for traces and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// What it is doing.
    pub state: crate::State,
    /// Bandwidth estimate in bit/s of payload; 0 where the algorithm has none.
    pub bw: crate::Rate,
    /// Its minimum RTT.
    pub min_rtt: Option<Span>,
    /// Pacing gain in 1/256; 0 where the algorithm has none.
    pub pacing_gain: u32,
    /// cwnd gain in 1/256; 0 where the algorithm has none.
    pub cwnd_gain: u32,
    /// Slow-start threshold, packets; `u32::MAX` where there is none.
    pub ssthresh: u32,
    /// Packet-timed rounds so far.
    pub round_count: u64,
    /// The pipe counts as full.
    pub full_bw_reached: bool,
    /// A policed rate is in use (BBRv1).
    pub lt_use_bw: bool,
    /// Allowance for aggregated ACKs, packets.
    pub extra_acked: u32,
    /// The bounds in force.
    pub bounds: Bounds,
    /// The bounds that a spurious recovery would give back; none where no episode has been saved.
    pub undo: Bounds,
}
