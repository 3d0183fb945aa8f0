//! Reno, CUBIC and DCTCP for a host that reduces the window itself, as Linux does between the calls of `tcp_congestion_ops`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Growth, LossBased};
#[cfg(feature = "unstable-internals")]
use crate::cubic::CubicInternals;
use crate::event::{Ack, CaState, TxStart};
use crate::units::Rate;

/// Window fields held by the host.
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
    /// Adopts the host's window, which may have changed since the last call, and its pacing rate.
    pub fn set_window(&mut self, window: HostWindow, pacing_rate: Rate) {
        self.cwnd = window.cwnd;
        self.cwnd_count = window.cwnd_count;
        self.ssthresh = window.ssthresh;
        self.pacing_rate = pacing_rate.as_bytes_per_sec();
    }

    /// Returns the window after a call.
    pub const fn window(&self) -> HostWindow {
        HostWindow { cwnd: self.cwnd, cwnd_count: self.cwnd_count, ssthresh: self.ssthresh }
    }

    /// Handles an RTT measurement.
    // spec: Linux cubictcp_acked
    pub fn on_pkts_acked(&mut self, ack: &Ack) {
        self.watch_rtt(ack);
    }

    /// Grows the window; called when the host allows growth.
    // spec: Linux cubictcp_cong_avoid
    pub fn on_cong_avoid(&mut self, ack: &Ack) {
        if ack.cwnd_limited {
            self.grow(ack);
        }
    }

    /// Starts an episode; returns the threshold for the host to use. The host does not tell marks from losses here: DCTCP's
    /// answer is that for marks, and [`Self::on_hosted_loss`] follows if there was a loss.
    // spec: Linux cubictcp_recalc_ssthresh, dctcp_ssthresh
    pub fn recalc_ssthresh(&mut self) -> u32 {
        self.threshold_after(CaState::Cwr)
    }

    /// Handles an episode of loss, which may follow one of marks: DCTCP's threshold is half the window, whatever was marked.
    // spec: Linux dctcp_react_to_loss
    pub fn on_hosted_loss(&mut self) {
        if let Growth::Dctcp(_) = self.growth {
            self.ssthresh = self.threshold_after(CaState::Recovery);
        }
    }

    /// Counts the marked packets of an ACK, whether or not the window may grow.
    // spec: Linux dctcp_update_alpha
    pub fn on_in_ack_event(&mut self, ack: &Ack, marked: u64) {
        self.on_congestion_mark(marked);
        self.watch_rtt(ack);
    }

    /// Handles a recovery from a time-out; the host has set the window.
    // spec: Linux cubictcp_state
    pub fn on_loss_state(&mut self, ack: &Ack) {
        if let Growth::Cubic(cubic) = &mut self.growth {
            cubic.on_rto(ack);
        }
    }

    /// Handles a packet that leaves while none is in flight; the host applies any restart after idleness.
    // spec: Linux cubictcp_cwnd_event
    pub fn on_hosted_tx_start(&mut self, start: &TxStart) {
        if let Growth::Cubic(cubic) = &mut self.growth {
            cubic.on_tx_start(start);
        }
    }

    /// Returns CUBIC's complete state; `None` for Reno.
    #[cfg(feature = "unstable-internals")]
    pub const fn cubic_internals(&self) -> Option<CubicInternals> {
        match &self.growth {
            Growth::Cubic(cubic) => Some(cubic.internals()),
            Growth::Reno { .. } | Growth::Dctcp(_) => None,
        }
    }
}
