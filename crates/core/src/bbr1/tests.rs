//! BBRv1 compared with Linux 6.12's `tcp_bbr.c`, rule by rule: each transition with its condition just met and just not met.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use crate::units::Time;

mod model;
mod output;
mod policer;

/// One packet a millisecond, in the kernel's unit.
pub(crate) const PER_MS: u64 = BW_UNIT / 1_000;
/// The driver's RTT.
pub(crate) const RTT_US: u64 = 40_000;

/// A flow with a clock and counters, fed by hand.
pub(crate) struct Driver<V = NoHooks> {
    pub(crate) bbr: Bbr1<V>,
    pub(crate) now_us: u64,
    pub(crate) delivered: u64,
    lost: u64,
    pub(crate) rtt_us: u64,
    pub(crate) ca_state: CaState,
}

impl Driver {
    /// Creates a flow with ten packets, 1448 bytes, 40 ms from the handshake, at 1 s.
    fn new() -> Self {
        Self::with(&Bbr1Params::default())
    }

    fn with(params: &Bbr1Params) -> Self {
        Self::with_part(params, NoHooks)
    }

    /// Creates a flow in ProbeBW at `phase`, with a full pipe of `PER_MS` · 40 ms = 40 packets.
    fn cruising(phase: u8) -> Self {
        let mut driver = Self::new();
        driver.delivered = 1_000;
        driver.bbr.rounds.next_delivered = 2_000;
        driver.bbr.full_bw_reached = true;
        driver.bbr.max_bw.reset(0, PER_MS);
        driver.bbr.mode = Mode::ProbeBw { phase, since_us: driver.now_us };
        driver.bbr.update_gains();
        driver.bbr.set_pacing_rate(PER_MS, UNIT, None);
        driver.bbr.cwnd = 80;
        driver
    }

    fn bare(&self) -> Ack {
        Ack {
            now: Time::micros(self.now_us),
            delivered: self.delivered,
            delivered_time_us: self.now_us,
            lost: self.lost,
            ..Ack::default()
        }
    }

    fn phase(&self) -> u8 {
        match self.bbr.mode {
            Mode::ProbeBw { phase, .. } => phase,
            mode => panic!("not in ProbeBW but {mode:?}"),
        }
    }
}

impl<V: Hooks> Driver<V> {
    /// The same with parts of BBRv1 replaced.
    pub(crate) fn with_part(params: &Bbr1Params, part: V) -> Self {
        let now_us = 1_000_000;
        let init =
            Init { srtt: Some(Span::micros(RTT_US)), ..Init::new(Time::micros(now_us)).with_mss(1448).with_seed(1) };
        let bbr = Bbr1::with_part(params, &init, part);
        Self { bbr, now_us, delivered: 0, lost: 0, rtt_us: RTT_US, ca_state: CaState::Open }
    }

    /// Feeds an ACK of one packet at the present bandwidth, `after_us` later, changed by `edit`.
    pub(crate) fn ack_with(&mut self, after_us: u64, edit: impl FnOnce(&mut Ack)) {
        self.now_us += after_us;
        self.delivered += 1;
        let mut ack = Ack {
            now: Time::micros(self.now_us),
            rs: crate::estimators::RateSample {
                delivered: Some(40),
                interval_us: Some(RTT_US),
                prior_delivered: 0,
                rtt_us: Some(self.rtt_us),
                acked_sacked: 1,
                prior_in_flight: 40,
                ..crate::estimators::RateSample::default()
            },
            delivered: self.delivered,
            delivered_time_us: self.now_us,
            in_flight: 40,
            ca_state: self.ca_state,
            srtt: Some(Span::micros(self.rtt_us)),
            edt: Time::micros(self.now_us),
            ..Ack::default()
        };
        edit(&mut ack);
        self.lost += ack.rs.losses;
        ack.lost = self.lost;
        self.bbr.on_ack(&ack);
    }

    pub(crate) fn ack(&mut self, after_us: u64) {
        self.ack_with(after_us, |_| {});
    }

    /// Feeds an ACK that begins a round, with a sample of `bw` packets in 40 ms.
    pub(crate) fn round_with(&mut self, bw: u64, edit: impl FnOnce(&mut Ack)) {
        let prior_delivered = self.bbr.rounds.next_delivered.min(self.delivered + 1);
        self.bbr.rounds.next_delivered = prior_delivered;
        self.ack_with(RTT_US, |ack| {
            ack.rs.prior_delivered = prior_delivered;
            ack.rs.delivered = Some(bw);
            edit(ack);
        });
    }

    pub(crate) fn round(&mut self, bw: u64) {
        self.round_with(bw, |_| {});
    }

    pub(crate) fn is_probe_rtt(&self) -> bool {
        matches!(self.bbr.mode, Mode::ProbeRtt { .. })
    }
}
