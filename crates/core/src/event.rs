//! Events of one connection as an algorithm reads them: plain structs that may gain fields.
//! Volumes are in the algorithm's own unit where an algorithm reads them: bytes by the draft, packets by the kernel.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::sampler::RateSample;
use crate::units::{Rate, Span, Time};

/// The host's loss-recovery state, with Linux's names (`tcp_ca_state`) in Linux's order. Exhaustive: a host maps its own states to
/// these, and the compiler reports one that it left out; Linux has had the same five since 2.4.
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

/// Start of an algorithm: the present time, with defaults for everything that a host does not set.
///
/// ```
/// use bbrlab_core::{Init, Time};
/// let init = Init::new(Time::ZERO).with_mss(1_440).with_seed(7);
/// assert_eq!((init.mss, init.seed, init.initial_cwnd), (1_440, 7, 10));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Init {
    /// The present time.
    pub now: Time,
    /// Payload bytes of a full packet; 0 counts as 1.
    pub mss: u32,
    /// Seed of the algorithm's random numbers.
    pub seed: u64,
    /// Initial window, full packets.
    pub initial_cwnd: u32,
    /// Smoothed RTT, if the handshake gave one.
    pub srtt: Option<Span>,
    /// Upper bound of the window, full packets.
    pub cwnd_clamp: u32,
    /// Upper bound of the pacing rate (Linux `SO_MAX_PACING_RATE`).
    pub max_pacing_rate: Option<Rate>,
    /// True if the transport can report more than one loss per round trip: SACK, or QUIC's ranges.
    pub selective_acks: bool,
    /// Smallest RTT so far, where the host has one besides `srtt`.
    pub min_rtt: Option<Span>,
    /// Volume delivered so far, in the algorithm's unit: Linux counts the SYN as one packet.
    pub delivered: u64,
    /// Time at which the newest of it was delivered, µs.
    pub delivered_time_us: u64,
    /// Volume marked lost so far.
    pub lost: u64,
    /// The host's own tick count, if it has one (Linux `tcp_jiffies32`); else it is computed from `now`.
    pub tick: Option<u64>,
}

impl Init {
    /// Creates an `Init` with full packets of 1200 bytes, the minimum of QUIC (RFC 9000 §14.1).
    /// The rest is Linux's usual start: ten packets, no bound on window or rate, SACK. The seed is 0: give each connection its
    /// own by [`Init::with_seed`].
    pub const fn new(now: Time) -> Self {
        Self {
            now,
            mss: 1_200,
            seed: 0,
            initial_cwnd: 10,
            srtt: None,
            cwnd_clamp: u32::MAX,
            max_pacing_rate: None,
            selective_acks: true,
            min_rtt: None,
            delivered: 0,
            delivered_time_us: now.as_micros(),
            lost: 0,
            tick: None,
        }
    }

    /// Sets the payload bytes of a full packet; 0 counts as 1.
    #[must_use]
    pub const fn with_mss(mut self, bytes: u32) -> Self {
        self.mss = bytes;
        self
    }

    /// Sets the seed of the algorithm's random numbers. Connections with different seeds probe at different times.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}

/// One ACK, after the host has processed it (Linux `tcp_cong_control`), as an algorithm reads it.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Ack {
    /// The present time.
    pub now: Time,
    /// The delivery-rate sample.
    pub rs: RateSample,
    /// Volume delivered so far (draft: `C.delivered`).
    pub delivered: u64,
    /// Time at which the newest of it was delivered, µs (draft: `C.delivered_time`).
    pub delivered_time_us: u64,
    /// Volume marked lost so far (draft: `C.lost`).
    pub lost: u64,
    /// Volume in flight after this ACK (draft: `C.inflight`).
    pub in_flight: u64,
    /// The recovery state after this ACK.
    pub ca_state: CaState,
    /// Smoothed RTT.
    pub srtt: Option<Span>,
    /// Time at which the pacer will next let a packet go (Linux `tcp_wstamp_ns`); any past time if it would now.
    pub edt: Time,
    /// Oldest unacknowledged packet, or a count that advances like it: rounds of RTT samples are delimited by it.
    pub una: u64,
    /// Next new packet, or a count that advances like it.
    pub next: u64,
    /// True if the cumulative ACK advanced.
    pub advanced: bool,
    /// True if the window was the limit in the last round (Linux `tcp_is_cwnd_limited`).
    pub cwnd_limited: bool,
    /// Packets outstanding: sent and not cumulatively acknowledged.
    pub packets_out: u32,
    /// True if the host paces even algorithms that do not require it.
    pub paced: bool,
    /// True if growth is allowed on this ACK (Linux `tcp_may_raise_cwnd`): data was acknowledged in order.
    pub may_raise_cwnd: bool,
    /// The host's own tick count, if it has one (Linux `tcp_jiffies32`); else it is computed from `now`.
    pub tick: Option<u64>,
}

/// Packets that were just marked lost together (draft: `HandleLostPacket`; Linux `tcp_mark_skb_lost`), as an algorithm reads it.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Lost {
    /// The present time.
    pub now: Time,
    /// Sequence position of the first packet: a loss that begins where the last one ended belongs to the same gap.
    pub seq: u64,
    /// Number of packets.
    pub packets: u32,
    /// Volume of the packets (draft: `P.data_length`; Linux `tcp_skb_pcount`).
    pub volume: u64,
    /// Volume in flight right after they were sent, including themselves (draft: `P.tx_in_flight`).
    pub tx_in_flight: u64,
    /// Volume marked lost since they were sent, including themselves (draft: `C.lost` − `P.lost`).
    pub lost: u64,
    /// True if the application was the limit when they were sent.
    pub is_app_limited: bool,
    /// Volume delivered so far.
    pub delivered: u64,
}

/// A packet is about to leave while none is in flight (Linux `CA_EVENT_TX_START`).
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct TxStart {
    /// The present time.
    pub now: Time,
    /// Volume delivered so far.
    pub delivered: u64,
    /// True if the path was empty because of the application.
    pub app_limited: bool,
    /// Time since the last packet was sent.
    pub idle: Span,
    /// Time at which the newest of it was delivered, µs.
    pub delivered_time_us: u64,
    /// Smoothed RTT.
    pub srtt: Option<Span>,
    /// The retransmission time-out.
    pub rto: Span,
    /// True if nothing at all is outstanding.
    pub none_outstanding: bool,
    /// The host's own tick count, if it has one; else it is computed from `now`.
    pub tick: Option<u64>,
}
