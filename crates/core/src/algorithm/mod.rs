//! The interface between a controller and a congestion control algorithm.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod forward;
#[cfg(test)]
pub(crate) mod tests;

use signature::{Ack, CaState, Init, Lost, Rate, RateSampler, Snapshot, Span, State, Time, TxStart};

/// The types used in the signatures of [`Algorithm`], in scope for `forward_algorithm!`.
pub(crate) mod signature {
    pub(crate) use super::Outputs;
    pub(crate) use crate::event::{Ack, CaState, Init, Lost, TxStart};
    pub(crate) use crate::sampler::RateSampler;
    pub(crate) use crate::snapshot::Snapshot;
    pub(crate) use crate::state::State;
    pub(crate) use crate::units::{Rate, Span, Time};
}

/// Window, rate, application limit and state after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outputs {
    /// Congestion window in full packets.
    pub cwnd: u32,
    /// Congestion window in bytes.
    pub cwnd_bytes: u64,
    /// Pacing rate; `None` if the algorithm has none.
    pub pacing_rate: Option<Rate>,
    /// True if samples of the data now in flight would measure the algorithm, not the path.
    pub is_app_limited: bool,
    /// State of the algorithm.
    pub state: State,
}

impl Outputs {
    /// Collects the outputs of an algorithm from its single methods, for packets of `mss` bytes.
    #[inline]
    pub fn of<A: Algorithm + ?Sized>(algorithm: &A, mss: u32) -> Self {
        Self {
            cwnd: algorithm.cwnd(),
            cwnd_bytes: algorithm.cwnd_bytes(mss),
            pacing_rate: algorithm.pacing_rate(),
            is_app_limited: algorithm.wants_app_limited(),
            state: algorithm.state(),
        }
    }
}

forward::define! { ($)
    /// A congestion control algorithm, as [`Controller`](crate::Controller) runs it.
    ///
    /// Implement it for a type of your own and pass that to [`Controller::with_algorithm`](crate::Controller::with_algorithm).
    /// Four methods are required; every other has a default, which its documentation states.
    ///
    /// The controller measures delivery rate and RTT, counts the data in flight, and detects loss episodes unless the host does.
    /// It calls the methods named `on_…` as events occur, and reads the outputs after each of them. All values are arguments: an
    /// algorithm reads no clock, and draws random numbers from a generator seeded with [`Init::seed`].
    ///
    /// Volumes are in bytes if [`Algorithm::counts_bytes`] returns true, in full packets otherwise.
    ///
    /// ```
    /// use bbrlab_core::algorithms::{Ack, Algorithm};
    /// use bbrlab_core::estimators::RateSampler;
    /// use bbrlab_core::{CaState, Controller, Init, Time};
    ///
    /// /// Adds a packet per round trip and halves the window once per loss episode.
    /// struct Aimd {
    ///     cwnd: u32,
    ///     acked: u64,
    /// }
    ///
    /// impl Algorithm for Aimd {
    ///     fn restart(&mut self, init: &Init) {
    ///         *self = Self { cwnd: init.initial_cwnd, acked: 0 };
    ///     }
    ///     fn on_ack(&mut self, ack: &Ack, _: &mut RateSampler) {
    ///         self.acked += ack.rs.acked_sacked;
    ///         if ack.ca_state == CaState::Open && self.acked >= self.cwnd.into() {
    ///             (self.cwnd, self.acked) = (self.cwnd + 1, 0);
    ///         }
    ///     }
    ///     fn on_ca_state(&mut self, old: CaState, new: CaState) {
    ///         if old < CaState::Cwr && matches!(new, CaState::Cwr | CaState::Recovery) {
    ///             self.cwnd = (self.cwnd / 2).max(2);
    ///         }
    ///     }
    ///     fn on_rto(&mut self, _: &Ack, _: bool) {
    ///         self.cwnd = 2;
    ///     }
    ///     fn cwnd(&self) -> u32 {
    ///         self.cwnd
    ///     }
    /// }
    ///
    /// let init = Init::new(Time::ZERO);
    /// let cc = Controller::with_algorithm(Aimd { cwnd: init.initial_cwnd, acked: 0 }, &init);
    /// assert_eq!((cc.cwnd(), cc.pacing_rate()), (10, None));
    /// ```
    pub trait Algorithm {
        required {
            /// Resets all state that depends on the path and keeps the parameters: the connection moved to another path.
            fn restart(&mut self, init: &Init);

            /// Updates the model by one ACK. `sampler` has just produced the rate sample `ack.rs`.
            fn on_ack(&mut self, ack: &Ack, sampler: &mut RateSampler);

            /// Handles a retransmission time-out or persistent congestion. `first` is false if an earlier one belongs to the same episode.
            fn on_rto(&mut self, ack: &Ack, first: bool);

            /// Returns the congestion window in full packets; 1 or more.
            fn cwnd(&self) -> u32;
        }
        provided {
            /// Returns true if volumes are in bytes, as in the draft; false if in packets, as in Linux. Read once. Default: false.
            fn counts_bytes(&self) -> bool {
                false
            }

            /// Handles the sending of packets. Default: nothing.
            [each_packet]
            fn on_sent(&mut self, packets: u32) {}

            /// Handles the first packet sent while none is in flight. Default: nothing.
            fn on_tx_start(&mut self, start: &TxStart) {}

            /// Returns true if the algorithm needs [`Self::on_lost`] for every loss. Read once. Default: false.
            fn needs_on_lost(&self) -> bool {
                false
            }

            /// Returns true if recovery, where the controller keeps it, lasts until a round without loss; false if it ends with the
            /// delivery of a packet sent after its beginning. Read once. Default: false.
            fn continues_recovery(&self) -> bool {
                false
            }

            /// Handles packets marked lost; called only if [`Self::needs_on_lost`]. Default: nothing.
            fn on_lost(&mut self, lost: &Lost) {}

            /// Handles the ACK of a tail loss probe that repeated data. Default: nothing.
            fn on_tlp_ack(&mut self) {}

            /// Handles a loss that a tail loss probe repaired. Default: nothing.
            fn on_tlp_recovery(&mut self, now: Time, delivered: u64, is_app_limited: bool) {}

            /// Handles ECN marks on `packets` of the packets that the ACK in progress delivers. Default: nothing.
            fn on_congestion_mark(&mut self, packets: u64) {}

            /// Handles the end of a round by an ACK with marks, before the reduction that they cause. `una` is the first packet not
            /// acknowledged, `next` the next to be sent; `delivered` includes this ACK's packets. Default: nothing.
            fn on_marked_round(&mut self, una: u64, next: u64, delivered: u64) {}

            /// Updates the model by one ACK and returns the outputs. Default: [`Self::on_ack`], then [`Self::outputs`]; an override must
            /// be equivalent.
            #[inline]
            [each_ack]
            fn process(&mut self, ack: &Ack, sampler: &mut RateSampler, mss: u32) -> Outputs {
                self.on_ack(ack, sampler);
                self.outputs(mss)
            }

            /// Handles a change of the loss-recovery state. A loss episode begins with [`CaState::Recovery`], a reduction for marks with
            /// [`CaState::Cwr`]; both end with [`CaState::Open`]. Default: nothing.
            fn on_ca_state(&mut self, old: CaState, new: CaState) {}

            /// Handles a recovery begun by a timer instead of an ACK. Default: nothing.
            fn on_recovery_by_timer(&mut self, ack: &Ack) {}

            /// Takes back the reduction of this episode: its losses were spurious. Default: nothing, so that the reduction stays.
            fn on_undo(&mut self, ack: &Ack) {}

            /// Stops a window reduction that ECN marks justify, after its losses proved spurious; cwnd stays. Default: nothing.
            fn on_reduction_stopped(&mut self) {}

            /// Handles a window that stayed above its use, at most `used` packets, for longer than a time-out. Default: nothing.
            fn on_cwnd_unused(&mut self, used: u32) {}

            /// Handles a new size of full packets, in bytes of payload. Default: nothing.
            fn on_mss(&mut self, mss: u32) {}

            /// Handles a request to the receiver for one ACK per `packets` packets, or `max_ack_delay` after the first of them.
            /// Default: nothing.
            fn on_ack_frequency(&mut self, packets: u32, max_ack_delay: Span) {}

            /// Sets or lifts an upper bound of the pacing rate. Default: nothing; the controller applies the bound by itself.
            fn set_max_pacing_rate(&mut self, rate: Option<Rate>) {}

            /// Returns the congestion window in bytes. Default: [`Self::cwnd`] packets of `mss` bytes.
            fn cwnd_bytes(&self, mss: u32) -> u64 {
                u64::from(self.cwnd()) * u64::from(mss)
            }

            /// Returns the pacing rate. Default: `None`, no rate.
            fn pacing_rate(&self) -> Option<Rate> {
                None
            }

            /// Returns the size of a burst in bytes if the algorithm sets it. Default: `None`, about a millisecond at the pacing rate.
            [each_packet]
            fn own_quantum(&self) -> Option<u64> {
                None
            }

            /// Returns the smallest burst in packets. Default: 2, as in Linux.
            fn min_tso_segs(&self) -> u32 {
                2
            }

            /// Returns true if samples of the data now in flight would measure the algorithm, not the path. Default: false.
            #[inline]
            fn wants_app_limited(&self) -> bool {
                false
            }

            /// Returns all outputs, for packets of `mss` bytes. Default: [`Outputs::of`]; an override must be equivalent.
            #[inline]
            [each_ack]
            fn outputs(&self, mss: u32) -> Outputs {
                Outputs::of(self, mss)
            }

            /// Returns true if the host should check for an idle application at each ACK and timer, not only at writes. Read once.
            /// Default: false.
            fn wants_app_limited_checks(&self) -> bool {
                false
            }

            /// Returns true if the algorithm depends on its pacing rate being enforced. Default: true if it has a rate.
            fn needs_pacing(&self) -> bool {
                self.pacing_rate().is_some()
            }

            /// Returns true if the algorithm responds to ECN marks, so that the host may send ECN-capable packets. Default: false.
            fn supports_ecn(&self) -> bool {
                false
            }

            /// Returns true if the window still doubles every round. Default: true in [`State::Startup`] and [`State::SlowStart`].
            fn in_slow_start(&self) -> bool {
                matches!(self.state(), State::Startup | State::SlowStart)
            }

            /// Returns the current state, for traces. Default: [`State::CongestionAvoidance`].
            [read]
            fn state(&self) -> State {
                State::CongestionAvoidance
            }

            /// Returns a read-only view of the model, for traces. Default: [`Snapshot::of`] the current state.
            fn snapshot(&self) -> Snapshot {
                Snapshot::of(self.state())
            }
        }
    }
}

pub(crate) use forward::{forward_match, forward_method, own_methods};
