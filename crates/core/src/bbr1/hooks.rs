//! Hooks by which a variant may replace a part of BBRv1: an estimator, a detector and its consequences, a gain.
//! Each default is BBRv1's own rule.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::Bbr1Params;
use crate::event::{Ack, CaState};
use crate::sampler::RateSampler;

/// A rate sample that has just entered the windowed maximum.
#[derive(Clone, Copy, Debug)]
pub struct NewRate<'a> {
    /// Packets/µs · 2^24.
    pub bw: u64,
    /// The windowed maximum, this sample included.
    pub max: u64,
    /// True once Startup is over.
    pub pipe_full: bool,
    /// Packet-timed round trips so far.
    pub round: u64,
    /// The ACK that brought the sample.
    pub ack: &'a Ack,
}

/// View of an ACK passed to a part, after RTprop was updated.
#[derive(Clone, Copy, Debug)]
pub struct AckContext<'a> {
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
    /// True in ProbeRTT.
    pub in_probe_rtt: bool,
}

/// Effect on the window at an ACK of a recovery that controls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shrink {
    /// Keeps the volume in flight: BBRv1's packet conservation.
    Conserve,
    /// Halves the window, with a share of the BDP as upper bound.
    Halve {
        /// The bound, in 1/256 of a BDP.
        max: u32,
        /// Halves inflight plus newly acknowledged packets instead, if that is more than the window.
        is_of_inflight: bool,
    },
    /// Leaves it unchanged.
    Hold,
}

/// BBRv1 implementation from which a variant's authors started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// Linux 6.12.
    Linux6_12,
    /// Linux 4.14: an RTT equal to RTprop or from a delayed ACK renews it, and every window of ProbeBW has two packets more.
    Linux4_14,
}

/// Rules that a variant may replace. Each method's default is BBRv1's rule.
pub trait Hooks: Clone {
    /// Discards everything measured, since the path has changed.
    fn restart(&mut self);

    /// Implementation whose rules apply where versions of BBRv1 differ.
    #[inline]
    fn base(&self) -> Base {
        Base::Linux6_12
    }

    /// Takes data that the rate sample lacks from the sampler, which has just made the next ACK's sample.
    #[inline]
    fn note_send_elapsed(&mut self, _sampler: &RateSampler) {}

    /// Handles a rate sample.
    #[inline]
    fn on_rate(&mut self, _new: &NewRate<'_>) {}

    /// Bandwidth estimate, instead of the windowed maximum `max`.
    #[inline]
    fn bandwidth(&self, max: u64, _pipe_full: bool) -> u64 {
        max
    }

    /// Value whose growth shows that the pipe is not yet full.
    #[inline]
    fn growing_bandwidth(&self, max: u64) -> u64 {
        max
    }

    /// RTprop after a new sample; `None`: by BBRv1's rule.
    #[inline]
    fn min_rtt(&mut self, _now_us: u64, _rtt_us: u64) -> Option<u64> {
        None
    }

    /// Handles any ACK.
    #[inline]
    fn observe(&mut self, _seen: &AckContext<'_>) {}

    /// True if ProbeRTT is due; `expired`: no RTT as small as RTprop for the length of its window.
    #[inline]
    fn wants_probe_rtt(&mut self, expired: bool) -> bool {
        expired
    }

    /// Handles a change of the mode.
    #[inline]
    fn enter_mode(&mut self) {}

    /// Handles the start of ProbeRTT.
    #[inline]
    fn enter_probe_rtt(&mut self, _ack: &Ack) {}

    /// True if ProbeRTT is over; `None`: by BBRv1's rule of a round and 200 ms.
    #[inline]
    fn is_drained(&mut self, _seen: &AckContext<'_>) -> Option<bool> {
        None
    }

    /// True if the window returns to its value before ProbeRTT.
    #[inline]
    fn restores_after_probe_rtt(&self) -> bool {
        true
    }

    /// Gain of the window, 1/256.
    #[inline]
    fn cwnd_gain(&self, gain: u32) -> u32 {
        gain
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

    /// True if a recovery that begins now starts with a round of packet conservation.
    #[inline]
    fn begins_conservation(&self) -> bool {
        true
    }

    /// First window of a recovery; `conserved` is the volume in flight plus the volume just acknowledged.
    #[inline]
    fn first_window(&self, _cwnd: u32, conserved: u32) -> u32 {
        conserved
    }

    /// True if recovery controls the window at this ACK; `conservation` is BBRv1's own rule.
    #[inline]
    fn conserves(&self, conservation: bool, _state: CaState) -> bool {
        conservation
    }

    /// Effect of the recovery on the window.
    #[inline]
    fn shrink(&mut self) -> Shrink {
        Shrink::Conserve
    }
}

/// A part together with its parameters, so that a flow can be initialised in place.
pub trait HooksInit: Hooks + Sized {
    /// Parameters that it adds to BBRv1's.
    type Params;
    /// A placeholder value, for [`Self::begin`] to overwrite.
    const BLANK: Self;

    /// Initialises every field at the start of a flow.
    fn begin(&mut self, params: &Self::Params, base: &Bbr1Params);
}

/// BBRv1 itself, without replacements.
#[derive(Clone, Copy, Debug)]
pub struct NoHooks;

impl Hooks for NoHooks {
    fn restart(&mut self) {}
}

impl HooksInit for NoHooks {
    type Params = ();
    const BLANK: Self = Self;

    fn begin(&mut self, _params: &(), _base: &Bbr1Params) {}
}
