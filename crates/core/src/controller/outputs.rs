//! Outputs that a host may read: window, rate, quantum, and the algorithm's model.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::Controller;
use crate::algorithm::Algorithm;
use crate::event::CaState;
use crate::host::Flight;
use crate::rtt::RttEstimator;
use crate::sampler::RateSampler;
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::units::Rate;

impl<A: Algorithm> Controller<A> {
    /// Number of full packets that may be in flight.
    #[inline]
    pub const fn cwnd(&self) -> u32 {
        self.cwnd
    }

    /// Bytes that may be in flight. A host that sends packets of several sizes uses this, whatever the algorithm counts.
    #[inline]
    pub const fn cwnd_bytes(&self) -> u64 {
        self.cwnd_bytes
    }

    /// True if a packet of that size may leave now: the window has room for it, or nothing is in flight. Pacing is separate.
    #[inline]
    pub const fn can_send(&self, bytes: u64) -> bool {
        self.flight.bytes == 0 || self.flight.bytes.saturating_add(bytes) <= self.cwnd_bytes
    }

    /// Volume in flight: the controller's count, or the last value that the host reported.
    pub const fn in_flight(&self) -> Flight {
        self.flight
    }

    /// Rate at which to send; `None` where neither the algorithm nor [`Self::set_max_pacing_rate`] sets one. Enforce it if
    /// [`Self::needs_pacing`], by a [`crate::Pacer`] for instance; it also sizes bursts.
    #[inline]
    pub const fn pacing_rate(&self) -> Option<Rate> {
        self.pacing_rate
    }

    /// True if the algorithm works as designed only when its pacing rate is enforced.
    pub fn needs_pacing(&self) -> bool {
        self.algorithm.needs_pacing()
    }

    /// True if the algorithm slows down for marked packets: only then should a host send them as ECN-capable.
    pub fn supports_ecn(&self) -> bool {
        self.algorithm.supports_ecn()
    }

    /// Bytes that may leave at once: about a millisecond of the pacing rate.
    // spec: Linux tcp_tso_autosize
    pub fn send_quantum(&self) -> u64 {
        if let Some(bytes) = self.own_quantum() {
            return bytes;
        }
        let burst = self.pacing_rate().map_or(0, |rate| rate.as_bytes_per_sec() >> 10).min(65_536);
        burst.max(u64::from(self.min_tso_segs()) * u64::from(self.mss))
    }

    /// The quantum in bytes, if the algorithm sets it; it overrides the host's own rule.
    // spec: draft-ietf-ccwg-bbr #send-quantum-bbrsendquantum
    #[inline]
    pub fn own_quantum(&self) -> Option<u64> {
        self.algorithm.own_quantum()
    }

    /// Smallest burst in packets (Linux `min_tso_segs`).
    #[inline]
    pub fn min_tso_segs(&self) -> u32 {
        self.algorithm.min_tso_segs()
    }

    /// True if the host should check for an idle application not only at writes, but at the start of each ACK and timer.
    // spec: draft-ietf-ccwg-bbr #detecting-application-limited-phases; google/bbr's kernel. Linux checks only at writes.
    #[inline]
    pub const fn wants_app_limited_checks(&self) -> bool {
        self.checks_app_limit
    }

    /// True while the window still doubles every round.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.algorithm.in_slow_start()
    }

    /// Payload bytes of a full packet.
    pub const fn mss(&self) -> u32 {
        self.mss
    }

    /// True if the algorithm counts bytes: packet counts alone are then ignored. False if it counts packets: byte counts alone are ignored.
    #[inline]
    pub const fn counts_bytes(&self) -> bool {
        self.counts_bytes
    }

    /// True if the algorithm needs each loss by itself; if not, losses of different bursts may be reported together.
    #[inline]
    pub const fn needs_on_lost(&self) -> bool {
        self.needs_on_lost
    }

    /// The last recovery state reported, or that of the controller's own recovery.
    #[inline]
    pub const fn ca_state(&self) -> CaState {
        self.ca_state
    }

    /// True if recovery, where the controller keeps it, lasts until a round without loss: BBRv1 and its variants.
    pub fn continues_recovery(&self) -> bool {
        self.algorithm.continues_recovery()
    }

    /// Number of loss episodes that the controller's own recovery has undone as spurious; 0 if the host keeps recovery.
    pub const fn undone_episodes(&self) -> u32 {
        match &self.episode {
            Some(episode) => episode.undone(),
            None => 0,
        }
    }

    /// The RTT estimator.
    #[inline]
    pub const fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// The delivery-rate sampler. It counts bytes or packets, as the algorithm does.
    #[inline]
    pub const fn sampler(&self) -> &RateSampler {
        &self.sampler
    }

    /// The algorithm.
    pub const fn algorithm(&self) -> &A {
        &self.algorithm
    }

    /// State of the algorithm.
    #[inline]
    pub fn state(&self) -> State {
        debug_assert_eq!(self.state, self.algorithm.state(), "a state that no event has reported");
        self.state
    }

    /// Read-only view of the algorithm's model, and the cause of its last transition.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.algorithm.snapshot();
        snapshot.min_rtt = snapshot.min_rtt.or(self.rtt.min());
        snapshot
    }
}
