//! BBR-APG: the gains of probing follow the free space in the bottleneck's buffer, and the losses of probing. A
//! reconstruction from an abstract.
//! Experimental: it does not claim to be the paper's algorithm.
//! Spec: Li, Zheng, Yang et al., HotICN 2022, whose abstract alone is public; every rule here is ours.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::bbr1::{AckContext, Bbr1Params, Hooks, HooksInit, UNIT};
use crate::minmax::MinMax;
use crate::params::params;
use crate::wide;

params! {
    /// BBR-APG's parameters beyond BBRv1's.
    ApgParams {
        /// Maximum that probing adds to a gain of 1.
        up_range: Gain = 64, 0, 1024, "ours: BBRv1's 0.25";
        /// Smallest gain of probing.
        up_floor: Gain = 269, 257, 512, "ours: 1.05";
        /// Factor on the addition of probing after a probe that lost packets.
        loss_keeps: Share = 128, 0, 256, "ours: half";
        /// Queue in BDP from which the draining phase follows the queue.
        deep_queue: Gain = 64, 0, 2560, "ours: 0.25, what probing alone makes";
        /// Smallest gain of draining.
        down_floor: Gain = 128, 1, 256, "ours: 0.5";
        /// Time for which a queue or a loss affects the gains.
        memory: Micros = 10_000_000, 100_000, 3_600_000_000, "ours: RTprop's window";
    }
}

/// Hooks of BBR-APG.
#[derive(Clone, Debug)]
pub struct Apg {
    p: ApgParams,
    /// The deepest recent queue, in 1/256 packets, and the time of the last loss, µs.
    deepest: MinMax,
    lost_us: Option<u64>,
    /// True if the last probe lost packets; then the phase for which the gains were set.
    probe_lost: bool,
    last_phase: Option<u8>,
    up: u32,
    down: u32,
}

impl Apg {
    pub(crate) const fn new(p: &ApgParams) -> Self {
        let up = UNIT + p.up_range;
        Self {
            p: *p,
            deepest: MinMax::EMPTY,
            lost_us: None,
            probe_lost: false,
            last_phase: None,
            up: if up < p.up_floor { p.up_floor } else { up },
            down: if UNIT > p.up_range + p.down_floor { UNIT - p.up_range } else { p.down_floor },
        }
    }

    /// Gain of probing, with `queue` and `bdp` in 1/256 packets: its full range with room for a BDP, none without room.
    fn up_for(&self, queue: u64, bdp: u64, now_us: u64) -> u32 {
        let has_lost = self.lost_us.is_some_and(|at| now_us.saturating_sub(at) <= u64::from(self.p.memory));
        let room = if has_lost { self.deepest.get().saturating_sub(queue).min(bdp) } else { bdp };
        let mut add = wide::mul_div(room, u64::from(self.p.up_range), bdp) as u32;
        if self.probe_lost {
            add = add * self.p.loss_keeps / 256;
        }
        (UNIT + add).max(self.p.up_floor)
    }

    /// Gain of draining: removes what probing added; all of it for a deep queue.
    fn down_for(&self, queue: u64, bdp: u64) -> u32 {
        let mirrored = (2 * UNIT).saturating_sub(self.up);
        let queue_gain = wide::mul_div(queue, 256, bdp).min(u64::from(UNIT)) as u32;
        let down = if queue_gain > self.p.deep_queue { mirrored.min(UNIT - queue_gain) } else { mirrored };
        down.clamp(self.p.down_floor.min(UNIT - 1), UNIT - 1)
    }
}

impl HooksInit for Apg {
    type Params = ApgParams;
    const BLANK: Self = Self::new(&ApgParams::BLANK);

    fn begin(&mut self, params: &ApgParams, _base: &Bbr1Params) {
        *self = Self::new(params);
    }
}

impl Hooks for Apg {
    fn restart(&mut self) {
        *self = Self::new(&self.p);
    }

    /// Sets the gains when their phase begins.
    fn observe(&mut self, seen: &AckContext<'_>) {
        let (now_us, min_rtt_us) = (seen.ack.now.as_micros(), seen.min_rtt_us.unwrap_or(0));
        let volume = |us: u64| wide::mul_shr(seen.bw, us, 16);
        if let Some(rtt_us) = seen.ack.rs.rtt_us {
            let queue = volume(rtt_us.saturating_sub(min_rtt_us));
            self.deepest.running_max(self.p.memory.into(), now_us, queue);
        }
        if seen.ack.rs.losses > 0 {
            self.lost_us = Some(now_us);
            // Losses of the probing phase appear while it lasts and in the phase after it.
            self.probe_lost |= matches!(seen.phase, Some(0 | 1));
        }
        if seen.phase == self.last_phase {
            return;
        }
        self.last_phase = seen.phase;
        let queue = volume(seen.ack.srtt.map_or(0, |srtt| srtt.as_micros()).saturating_sub(min_rtt_us));
        let bdp = volume(min_rtt_us);
        match seen.phase {
            Some(0) => {
                self.up = self.up_for(queue, bdp, now_us);
                self.probe_lost = false;
            }
            Some(1) => self.down = self.down_for(queue, bdp),
            _ => {}
        }
    }

    fn gain_up(&self, _gain: u32) -> u32 {
        self.up
    }

    fn gain_down(&self, _gain: u32) -> u32 {
        self.down
    }
}
