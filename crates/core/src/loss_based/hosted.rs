//! Reno and CUBIC for a host that reduces the window itself, as Linux does between the calls of `tcp_congestion_ops`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Growth, LossBased};
#[cfg(feature = "inside")]
use crate::cubic::CubicInside;
use crate::event::{Ack, TxStart};
use crate::units::Rate;

/// The window as the host holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostWindow {
    /// `snd_cwnd`.
    pub cwnd: u32,
    /// `snd_cwnd_cnt`: packets acknowledged towards the next increase.
    pub cwnd_count: u32,
    /// `snd_ssthresh`.
    pub ssthresh: u32,
}

impl LossBased {
    /// Takes over what the host made of the window since the last call, and its pacing rate.
    pub fn set_window(&mut self, window: HostWindow, pacing_rate: Rate) {
        self.cwnd = window.cwnd;
        self.cwnd_count = window.cwnd_count;
        self.ssthresh = window.ssthresh;
        self.pacing_rate = pacing_rate.as_bytes_per_sec();
    }

    /// The window after a call.
    pub const fn window(&self) -> HostWindow {
        HostWindow { cwnd: self.cwnd, cwnd_count: self.cwnd_count, ssthresh: self.ssthresh }
    }

    /// An RTT was measured.
    // spec: Linux cubictcp_acked
    pub fn on_pkts_acked(&mut self, ack: &Ack) {
        self.watch_rtt(ack);
    }

    /// The host lets the window grow.
    // spec: Linux cubictcp_cong_avoid
    pub fn on_cong_avoid(&mut self, ack: &Ack) {
        if ack.cwnd_limited {
            self.grow(ack);
        }
    }

    /// A loss episode begins: the threshold that the host should take.
    // spec: Linux cubictcp_recalc_ssthresh
    pub fn recalc_ssthresh(&mut self) -> u32 {
        self.threshold_after_loss()
    }

    /// A time-out is being recovered from; the host has set the window.
    // spec: Linux cubictcp_state
    pub fn on_loss_state(&mut self, ack: &Ack) {
        if let Growth::Cubic(cubic) = &mut self.growth {
            cubic.on_rto(ack);
        }
    }

    /// A packet leaves while none is in flight; a restart after idleness is the host's.
    // spec: Linux cubictcp_cwnd_event
    pub fn on_hosted_tx_start(&mut self, start: &TxStart) {
        if let Growth::Cubic(cubic) = &mut self.growth {
            cubic.on_tx_start(start);
        }
    }

    /// Everything CUBIC remembers; `None` of Reno.
    #[cfg(feature = "inside")]
    pub const fn cubic_inside(&self) -> Option<CubicInside> {
        match &self.growth {
            Growth::Cubic(cubic) => Some(cubic.inside()),
            Growth::Reno { .. } => None,
        }
    }
}
