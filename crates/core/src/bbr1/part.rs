//! The places at which a variant may replace a part of BBRv1: an estimator, a detector, what follows from it, a gain.
//! Each answers as BBRv1 does unless a variant says otherwise.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::Bbr1Params;
use crate::event::{Ack, CaState};
use crate::sampler::RateSampler;

/// A rate sample that the windowed maximum has just seen.
#[derive(Clone, Copy, Debug)]
pub struct NewRate<'a> {
    /// Packets/µs · 2^24.
    pub bw: u64,
    /// The windowed maximum with it.
    pub max: u64,
    /// Startup is over.
    pub pipe_full: bool,
    /// Packet-timed round trips so far.
    pub round: u64,
    /// The ACK that brought it.
    pub ack: &'a Ack,
}

/// What a part is shown of each ACK, after RTprop took it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The ACK.
    pub ack: &'a Ack,
    /// RTprop.
    pub min_rtt_us: Option<u64>,
    /// The bandwidth in use, packets/µs · 2^24.
    pub bw: u64,
    /// Packet-timed round trips so far.
    pub round: u64,
    /// The phase of the gain cycle, in ProbeBW.
    pub phase: Option<u8>,
    /// The flow is in ProbeRTT.
    pub in_probe_rtt: bool,
}

/// What a recovery that rules the window does with it at an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shrink {
    /// Keep in flight what is: BBRv1's packet conservation.
    Conserve,
    /// Half of it, and at most so many BDP (1/256).
    Halve {
        /// That many.
        most: u32,
    },
    /// Leave it.
    Hold,
}

/// What a variant replaces. Each method's default is BBRv1's rule.
pub trait Part: Clone {
    /// The path is another one: what was learnt is forgotten.
    fn restart(&mut self);

    /// The sampler that has just made the sample of the next ACK, for what the sample does not tell.
    #[inline]
    fn note_send_elapsed(&mut self, _sampler: &RateSampler) {}

    /// A rate sample came.
    #[inline]
    fn on_rate(&mut self, _new: &NewRate<'_>) {}

    /// The estimate of bandwidth, instead of the windowed maximum `max`.
    #[inline]
    fn bandwidth(&self, max: u64, _pipe_full: bool) -> u64 {
        max
    }

    /// What must grow for the pipe not to be full.
    #[inline]
    fn growing_bandwidth(&self, max: u64) -> u64 {
        max
    }

    /// RTprop with a new sample; `None`: by BBRv1's rule.
    #[inline]
    fn min_rtt(&mut self, _now_us: u64, _rtt_us: u64) -> Option<u64> {
        None
    }

    /// Any ACK came.
    #[inline]
    fn observe(&mut self, _seen: &Seen<'_>) {}

    /// Whether it is time for ProbeRTT; `expired`: no RTT as small as RTprop for the length of its window.
    #[inline]
    fn wants_probe_rtt(&mut self, expired: bool) -> bool {
        expired
    }

    /// ProbeRTT begins.
    #[inline]
    fn enter_probe_rtt(&mut self, _ack: &Ack) {}

    /// Whether ProbeRTT is over; `None`: by BBRv1's rule of a round and 200 ms.
    #[inline]
    fn is_drained(&mut self, _seen: &Seen<'_>) -> Option<bool> {
        None
    }

    /// Pacing gain of ProbeRTT, 1/256.
    #[inline]
    fn probe_rtt_pacing_gain(&self) -> u32 {
        super::UNIT
    }

    /// Window of ProbeRTT in BDP, 1/256; 0 for BBRv1's floor.
    #[inline]
    fn probe_rtt_cwnd_gain(&self) -> u32 {
        0
    }

    /// Pacing gain of the probing phase.
    #[inline]
    fn gain_up(&self, gain: u32) -> u32 {
        gain
    }

    /// Pacing gain of the draining phase.
    #[inline]
    fn gain_down(&self, gain: u32) -> u32 {
        gain
    }

    /// Whether a recovery that begins now begins with a round of packet conservation.
    #[inline]
    fn begins_conservation(&self) -> bool {
        true
    }

    /// The window with which a recovery begins; `conserved` is what is in flight and what was just acknowledged.
    #[inline]
    fn first_window(&self, _cwnd: u32, conserved: u32) -> u32 {
        conserved
    }

    /// Whether recovery rules the window at this ACK; `conservation` is that of BBRv1.
    #[inline]
    fn conserves(&self, conservation: bool, _state: CaState) -> bool {
        conservation
    }

    /// What it does with the window.
    #[inline]
    fn shrink(&mut self) -> Shrink {
        Shrink::Conserve
    }
}

/// A part with what it begins from, so that a flow can begin in place.
pub trait Replacement: Part + Sized {
    /// The parameters that it adds to BBRv1's.
    type Params;
    /// Any value, for [`Self::begin`] to overwrite.
    const BLANK: Self;

    /// A flow begins: sets every field.
    fn begin(&mut self, params: &Self::Params, base: &Bbr1Params);
}

/// BBRv1 itself.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Part for Plain {
    fn restart(&mut self) {}
}

impl Replacement for Plain {
    type Params = ();
    const BLANK: Self = Self;

    fn begin(&mut self, _params: &(), _base: &Bbr1Params) {}
}
