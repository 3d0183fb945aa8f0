//! Connection properties reported by the host, in the flow's unit of volume.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::event::Init;
use crate::units::{Rate, Span};
use crate::wide;

/// Bounds and sizes reported by the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    /// Payload bytes of a full packet.
    mss: u64,
    /// Volume of a full packet (draft: `C.SMSS`), and bytes in a unit of volume.
    smss: u64,
    unit_bytes: u64,
    initial_cwnd: u64,
    cwnd_clamp: u64,
    /// Draft: `BBR.MinPipeCwnd`.
    min_pipe_cwnd: u64,
    /// Bytes per second.
    max_rate: u64,
    /// The requested ACK frequency: packets and µs; none where the first is 0.
    ack_packets: u32,
    ack_delay_us: u64,
    pub(super) has_selective_acks: bool,
    /// Incremented by each change of the fields above.
    changes: u32,
}

impl Host {
    pub(super) const NONE: Self = Self {
        mss: 0,
        smss: 0,
        unit_bytes: 0,
        initial_cwnd: 0,
        cwnd_clamp: 0,
        min_pipe_cwnd: 0,
        max_rate: 0,
        ack_packets: 0,
        ack_delay_us: 0,
        has_selective_acks: false,
        changes: 0,
    };

    /// Sets the present initial window and the fields derived from it.
    pub(super) fn init(&mut self, init: &Init, counts_packets: bool, initial_max: u64, min_pipe_cwnd: u32) {
        let mss = init.mss.max(1);
        self.mss = mss.into();
        (self.smss, self.unit_bytes) = if counts_packets { (1, mss.into()) } else { (mss.into(), 1) };
        let clamp = init.cwnd_clamp.max(1);
        let initial = u64::from(init.initial_cwnd.clamp(1, clamp)) * self.smss;
        self.initial_cwnd = initial.min(initial_max);
        self.cwnd_clamp = u64::from(clamp) * self.smss;
        self.min_pipe_cwnd = u64::from(min_pipe_cwnd) * self.smss;
        self.has_selective_acks = init.selective_acks;
        self.ack_packets = 0;
        self.ack_delay_us = 0;
        self.changes = 0;
        self.set_max_rate(init.max_pacing_rate);
    }

    #[inline]
    pub(super) const fn mss(&self) -> u64 {
        self.mss
    }

    #[inline]
    pub(super) const fn smss(&self) -> u64 {
        self.smss
    }

    #[inline]
    pub(super) const fn unit_bytes(&self) -> u64 {
        self.unit_bytes
    }

    #[inline]
    pub(super) const fn initial_cwnd(&self) -> u64 {
        self.initial_cwnd
    }

    #[inline]
    pub(super) const fn cwnd_clamp(&self) -> u64 {
        self.cwnd_clamp
    }

    #[inline]
    pub(super) const fn min_pipe_cwnd(&self) -> u64 {
        self.min_pipe_cwnd
    }

    #[inline]
    pub(super) const fn max_rate(&self) -> u64 {
        self.max_rate
    }

    #[inline]
    pub(super) const fn changes(&self) -> u32 {
        self.changes
    }

    /// Changes the bytes of a full packet. Measurements in bytes stay in bytes, those in packets stay in packets, as in Linux.
    pub(super) fn set_mss(&mut self, mss: u32, counts_packets: bool) {
        self.changes = self.changes.wrapping_add(1);
        let old = self.smss.max(1);
        self.mss = mss.max(1).into();
        if counts_packets {
            self.unit_bytes = self.mss;
            return;
        }
        // Both were products of packets and the old size.
        self.cwnd_clamp = wide::saturating_mul(self.cwnd_clamp / old, self.mss);
        self.min_pipe_cwnd = wide::saturating_mul(self.min_pipe_cwnd / old, self.mss);
        self.smss = self.mss;
    }

    pub(super) const fn set_max_rate(&mut self, rate: Option<Rate>) {
        self.changes = self.changes.wrapping_add(1);
        self.max_rate = match rate {
            Some(rate) => rate.as_bytes_per_sec(),
            None => u64::MAX,
        };
    }

    pub(super) const fn set_ack_frequency(&mut self, packets: u32, max_ack_delay: Span) {
        self.changes = self.changes.wrapping_add(1);
        self.ack_packets = packets;
        self.ack_delay_us = max_ack_delay.as_micros();
    }

    /// Returns the volume that a receiver with a reduced ACK frequency may hold back, at `bw`.
    // spec: draft-ietf-ccwg-bbr #quic-offload-budget
    pub(super) fn held_back(&self, bw: u64) -> u64 {
        if self.ack_packets == 0 {
            return 0;
        }
        let threshold = wide::saturating_mul(self.ack_packets.into(), self.smss);
        threshold.min(wide::mul_shr(bw, self.ack_delay_us, super::BW_SHIFT))
    }
}
