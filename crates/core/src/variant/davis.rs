//! TCP Davis: a window of one BDP, probed by a step and measured a round later; not a BBR, and not paced.
//! It does not respond to loss, except to an undo in slow start.
//! Spec: Lynn, Ghosal, NAS 2022, and the rules of its public code (tcp_davis), in our words.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::State;
use crate::event::{Ack, Init};
use crate::params::params;
use crate::rng::Rng;
use crate::snapshot::Snapshot;
use crate::units::{MICROS_PER_SEC, Rate, Span};
use crate::wide;

/// Pacing for hosts that pace every algorithm, per cent of window over smallest RTT. Source: ours, Linux's for slow
/// start; Davis sets no rate.
const PACING: u64 = 200;
/// RTT assumed for that rate before any is measured. Source: ours, as in BBRv1.
const DEFAULT_RTT_US: u64 = 1_000;

params! {
    /// TCP Davis's parameters.
    DavisParams {
        /// Smallest window.
        cwnd_min: Packets = 4, 1, 1000, "tcp_davis MIN_CWND";
        /// Smallest step above the BDP.
        gain_min: Packets = 4, 1, 1000, "tcp_davis MIN_GAIN";
        /// Weight of a change of the BDP in the step.
        reactivity: Gain = 32, 1, 2560, "tcp_davis REACTIVITY: 1/8; more than the sensitivity";
        /// The step where the BDP does not change.
        sensitivity: Gain = 4, 1, 256, "tcp_davis SENSITIVITY: 1/64";
        /// Window of slow start in BDP.
        slow_start_gain: Gain = 384, 257, 2560, "tcp_davis: 1.5";
        /// RTTs of draining.
        drain: Rounds = 2, 1, 1000, "tcp_davis DRAIN_RTTS";
        /// Minimum number of RTTs at the BDP.
        stable_min: Rounds = 3, 1, 1000, "tcp_davis STABLE_RTTS_MIN";
        /// Maximum number of RTTs at the BDP.
        stable_max: Rounds = 6, 1, 1000, "tcp_davis STABLE_RTTS_MAX";
        /// RTTs of the step before it is measured.
        gain_1: Rounds = 2, 1, 1000, "tcp_davis GAIN_1_RTTS";
        /// RTTs of measuring.
        gain_2: Rounds = 1, 1, 1000, "tcp_davis GAIN_2_RTTS";
        /// Age of the smallest RTT from which the path is drained to find it again.
        min_rtt_window: Micros = 10_000_000, 100_000, 3_600_000_000, "tcp_davis RTT_TIMEOUT";
    }
}

/// State of the flow. Each lasts for a number of RTTs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Drain,
    Stable {
        rtts: u32,
    },
    /// The step, until a round of it is on the path.
    Gain1,
    /// Measurement, from this count and time on.
    Gain2 {
        delivered: u64,
        since_us: u64,
    },
}

/// A TCP Davis flow.
#[derive(Clone, Debug)]
pub struct Davis {
    p: DavisParams,
    mss: u64,
    cwnd: u32,
    cwnd_clamp: u32,
    /// True until slow start has ended.
    in_slow_start: bool,
    phase: Phase,
    phase_since_us: u64,
    bdp: u64,
    last_bdp: u64,
    gain: u64,
    last_rtt_us: u64,
    min_rtt_us: u64,
    min_rtt_at_us: u64,
    phases: u64,
    rng: Rng,
}

impl Davis {
    /// Creates a flow that begins now.
    pub fn new(p: &DavisParams, init: &Init) -> Self {
        let rtt_us = init.srtt.map_or(0, |rtt| rtt.as_micros().max(1));
        let clamp = init.cwnd_clamp.max(1);
        Self {
            p: *p,
            mss: u64::from(init.mss.max(1)),
            cwnd: p.cwnd_min.min(clamp),
            cwnd_clamp: clamp,
            in_slow_start: true,
            phase: Phase::Gain1,
            phase_since_us: init.now.as_micros(),
            bdp: p.cwnd_min.into(),
            last_bdp: 0,
            gain: u64::from(p.gain_min),
            last_rtt_us: rtt_us,
            min_rtt_us: rtt_us,
            min_rtt_at_us: init.now.as_micros(),
            phases: 0,
            rng: Rng::derive(init.seed, 0x6461_7669),
        }
    }

    /// Discards everything measured on the path; the parameters stay.
    pub(crate) fn restart(&mut self, init: &Init) {
        *self = Self::new(&self.p, init);
    }

    /// Handles one ACK. Its losses are ignored.
    #[inline(never)]
    pub fn on_ack(&mut self, ack: &Ack) {
        self.advance(ack);
        // After a time-out too.
        self.set_cwnd(self.cwnd.into());
    }

    fn advance(&mut self, ack: &Ack) {
        let now_us = ack.now.as_micros();
        // Differs: tcp_davis treats an srtt in eighths of a µs as one in µs where an RTT is below a tick.
        if let Some(rtt_us) = ack.rs.rtt_us.or(ack.srtt.map(Span::as_micros)) {
            self.last_rtt_us = rtt_us.max(1);
            if self.min_rtt_us == 0 || self.last_rtt_us < self.min_rtt_us {
                self.min_rtt_us = self.last_rtt_us;
                self.min_rtt_at_us = now_us;
            }
        }
        let wait_us = wide::saturating_mul(u64::from(self.rtts()), self.last_rtt_us);
        if self.last_rtt_us == 0 || now_us <= self.phase_since_us.saturating_add(wait_us) {
            return;
        }
        self.phase_since_us = now_us;
        self.phases += 1;
        self.phase = match self.phase {
            Phase::Drain => self.settle(),
            Phase::Stable { .. } => {
                self.set_cwnd(self.bdp.saturating_add(self.gain));
                Phase::Gain1
            }
            Phase::Gain1 => Phase::Gain2 { delivered: ack.delivered, since_us: now_us },
            Phase::Gain2 { delivered, since_us } => self.measured(ack, delivered, since_us),
        };
    }

    /// Number of RTTs of the present phase.
    const fn rtts(&self) -> u32 {
        match self.phase {
            Phase::Drain => self.p.drain,
            Phase::Stable { rtts } => rtts,
            Phase::Gain1 => self.p.gain_1,
            Phase::Gain2 { .. } => self.p.gain_2,
        }
    }

    /// Sets the BDP to the volume delivered by the step.
    fn measured(&mut self, ack: &Ack, delivered: u64, since_us: u64) -> Phase {
        let now_us = ack.now.as_micros();
        let newly = ack.delivered.saturating_sub(delivered);
        let bdp = wide::mul_div_ceil(newly, self.min_rtt_us, now_us.saturating_sub(since_us));
        if self.in_slow_start {
            return self.slow_start(bdp);
        }
        self.last_bdp = self.bdp;
        self.bdp = bdp;
        self.gain = self.next_gain();
        if now_us.saturating_sub(self.min_rtt_at_us) > u64::from(self.p.min_rtt_window) {
            self.min_rtt_us = self.last_rtt_us;
            self.min_rtt_at_us = now_us;
            return self.drain();
        }
        self.settle()
    }

    /// Grows the window by half while the BDP grows; then the path is drained.
    fn slow_start(&mut self, bdp: u64) -> Phase {
        self.bdp = bdp;
        if bdp > self.last_bdp {
            self.last_bdp = bdp;
            self.set_cwnd(wide::mul_shr(bdp, u64::from(self.p.slow_start_gain), 8));
            return Phase::Gain1;
        }
        self.in_slow_start = false;
        self.drain()
    }

    /// The change of the BDP, plus a small share of it: α · BDP + β · last BDP, with α = 1 + R − S/R and β = S − α.
    fn next_gain(&self) -> u64 {
        let s = u64::from(self.p.sensitivity);
        let r = u64::from(self.p.reactivity).max(s + 1); // as the code corrects it: otherwise a falling BDP enlarges the step
        let min = wide::mul_shr(self.bdp, s, 8).max(u64::from(self.p.gain_min));
        // The same as α · (BDP − last BDP) + S · last BDP; a sum below zero is below the minimum anyway.
        let (raised, lowered) = (256 + r, s * 256 / r);
        let rest = wide::mul(self.last_bdp, s);
        let change = wide::mul(self.bdp.abs_diff(self.last_bdp), raised.abs_diff(lowered));
        let follow = if (raised >= lowered) == (self.bdp >= self.last_bdp) {
            wide::add(rest, change)
        } else {
            wide::sub(rest, change)
        };
        wide::shr(follow, 8).max(min)
    }

    fn drain(&mut self) -> Phase {
        self.set_cwnd(0);
        Phase::Drain
    }

    fn settle(&mut self) -> Phase {
        self.set_cwnd(self.bdp);
        let spread = self.p.stable_max.saturating_sub(self.p.stable_min);
        Phase::Stable { rtts: self.p.stable_min + self.rng.below(u64::from(spread) + 1) as u32 }
    }

    fn set_cwnd(&mut self, packets: u64) {
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        self.cwnd = packets.max(self.p.cwnd_min).min(self.cwnd_clamp);
    }

    /// Applies the host's own rule for a time-out; the next ACK raises the window to its minimum.
    pub fn on_rto(&mut self, ack: &Ack, _first: bool) {
        let in_flight = if ack.in_flight > u64::from(u32::MAX) { u32::MAX } else { ack.in_flight as u32 };
        self.cwnd = in_flight.saturating_add(1).min(self.cwnd_clamp);
    }

    /// Ends slow start after a spurious loss.
    pub fn on_undo(&mut self, ack: &Ack) {
        if self.in_slow_start {
            self.in_slow_start = false;
            self.phase_since_us = ack.now.as_micros();
            self.phase = self.drain();
        }
    }

    /// Sets the payload bytes of a full packet.
    pub fn on_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss.max(1));
    }

    pub(crate) const fn in_slow_start(&self) -> bool {
        self.in_slow_start
    }

    /// Window and pacing rate.
    #[inline(never)]
    pub fn outputs(&self) -> (u32, Rate) {
        (self.cwnd, self.pacing_rate())
    }

    #[cfg(test)]
    pub(super) const fn cwnd(&self) -> u32 {
        self.cwnd
    }

    /// The step after the BDP has changed from `last` to `bdp`.
    #[cfg(test)]
    pub(super) fn step_after(mut self, last: u64, bdp: u64) -> u64 {
        (self.last_bdp, self.bdp) = (last, bdp);
        self.next_gain()
    }

    /// Rate for the size of bursts, and for hosts that pace every algorithm: never the limit.
    fn pacing_rate(&self) -> Rate {
        let rtt_us = if self.min_rtt_us == 0 { DEFAULT_RTT_US } else { self.min_rtt_us };
        let rate = wide::mul_div(u64::from(self.cwnd) * self.mss, MICROS_PER_SEC / 100 * PACING, rtt_us);
        Rate::bytes_per_sec(rate.clamp(1, u64::MAX / 8))
    }

    pub(crate) const fn state(&self) -> State {
        match self.phase {
            _ if self.in_slow_start => State::SlowStart,
            Phase::Drain => State::Drain,
            Phase::Stable { .. } => State::ProbeBwCruise,
            Phase::Gain1 | Phase::Gain2 { .. } => State::ProbeBwUp,
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let bw = wide::mul_div(self.bdp, self.mss * MICROS_PER_SEC, self.min_rtt_us);
        Snapshot {
            bw: Rate::bytes_per_sec(bw),
            min_rtt: (self.min_rtt_us > 0).then(|| Span::micros(self.min_rtt_us)),
            ssthresh: if self.in_slow_start { u32::MAX } else { self.p.cwnd_min },
            round_count: self.phases,
            full_bw_reached: !self.in_slow_start,
            ..Snapshot::of(self.state())
        }
    }
}
