//! What a controller asks of an algorithm, and the choice among all of them.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::State;
use crate::algorithm::AlgorithmConfig;
use crate::bbr1::Bbr1;
use crate::bbr3::{Bbr3, Draft06, Edition, Ietf100, Linux, V2};
use crate::event::{Ack, CaState, Init, Lost, TxStart};
use crate::fixed::Fixed;
use crate::loss_based::LossBased;
use crate::sampler::RateSampler;
use crate::snapshot::Snapshot;
use crate::units::{Rate, Span, Time};
#[cfg(feature = "variants")]
use crate::variant::{Davis, Variant};

mod sealed {
    /// Only algorithms of this crate: what they are asked may grow.
    pub trait Sealed {}
}
pub(crate) use sealed::Sealed;

/// What an algorithm wants after an event.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Outputs {
    /// The window in full packets.
    pub cwnd: u32,
    /// The window in bytes.
    pub cwnd_bytes: u64,
    /// The rate at which to send; `None` of an algorithm that has none.
    pub pacing_rate: Option<Rate>,
    /// Samples of what is in flight now would measure the algorithm, not the path.
    pub is_app_limited: bool,
}

/// What a controller asks of an algorithm. Volumes are bytes or packets, as [`Algorithm::counts_bytes`] says.
pub trait Algorithm: Sealed {
    /// It counts bytes, as the draft does; otherwise packets, as the kernel does.
    fn counts_bytes(&self) -> bool {
        false
    }

    /// Everything that was learnt of the path is forgotten; the parameters stay.
    fn restart(&mut self, init: &Init);

    /// Packets leave.
    fn on_sent(&mut self, _packets: u32) {}

    /// A packet leaves while none is in flight.
    fn on_tx_start(&mut self, _start: &TxStart) {}

    /// It learns something of each loss; the others only of the recovery that follows.
    fn hears_losses(&self) -> bool {
        false
    }

    /// Packets were marked lost.
    fn on_lost(&mut self, _lost: &Lost) {}

    /// A tail loss probe that repeated data was answered.
    fn on_tlp_ack(&mut self) {}

    /// A tail loss probe repaired a loss.
    fn on_tlp_recovery(&mut self, _now: Time, _delivered: u64, _is_app_limited: bool) {}

    /// The ACK in progress reports congestion marks, so many of them of packets that it delivers.
    fn on_congestion_mark(&mut self, _packets: u64) {}

    /// An ACK is processed; `sampler` has just made its sample.
    fn on_ack(&mut self, ack: &Ack, sampler: &mut RateSampler);

    /// The same, and what it wants then.
    #[inline]
    fn process(&mut self, ack: &Ack, sampler: &mut RateSampler, mss: u32) -> Outputs {
        self.on_ack(ack, sampler);
        self.outputs(mss)
    }

    /// The recovery state changes.
    fn on_ca_state(&mut self, _old: CaState, _new: CaState) {}

    /// A timer began a recovery.
    fn on_recovery_by_timer(&mut self, _ack: &Ack) {}

    /// A retransmission time-out, or persistent congestion; `first` of this episode.
    fn on_rto(&mut self, ack: &Ack, first: bool);

    /// The losses of this episode turned out not to be any.
    fn on_undo(&mut self, ack: &Ack);

    /// For longer than a time-out no more than `used` packets of the window were used.
    fn on_cwnd_unused(&mut self, _used: u32) {}

    /// Payload bytes of a full packet changed.
    fn on_mss(&mut self, _mss: u32) {}

    /// The receiver was asked for an ACK per `packets` packets, or `max_ack_delay` after the first of them.
    fn on_ack_frequency(&mut self, _packets: u32, _max_ack_delay: Span) {}

    /// No faster than this from now on.
    fn set_max_pacing_rate(&mut self, _most: Option<Rate>) {}

    /// The window in full packets.
    fn cwnd(&self) -> u32;

    /// The window in bytes, of packets of `mss` bytes.
    fn cwnd_bytes(&self, mss: u32) -> u64 {
        self.cwnd() as u64 * mss as u64
    }

    /// The rate at which to send; `None` of an algorithm that has none.
    fn pacing_rate(&self) -> Option<Rate>;

    /// The size of a burst in bytes, where the algorithm decides on it by itself.
    fn own_quantum(&self) -> Option<u64> {
        None
    }

    /// Smallest burst in packets.
    fn min_tso_segs(&self) -> u32 {
        2
    }

    /// Samples of what is in flight now would measure the algorithm, not the path.
    #[inline]
    fn wants_app_limited(&self) -> bool {
        false
    }

    /// All that it wants, for packets of `mss` bytes.
    #[inline]
    fn outputs(&self, mss: u32) -> Outputs {
        Outputs {
            cwnd: self.cwnd(),
            cwnd_bytes: self.cwnd_bytes(mss),
            pacing_rate: self.pacing_rate(),
            is_app_limited: self.wants_app_limited(),
        }
    }

    /// The host should look for an idle application at each ACK and timer, not only when it writes.
    fn wants_app_limited_checks(&self) -> bool {
        false
    }

    /// It is only itself when its pacing rate is enforced.
    fn needs_pacing(&self) -> bool {
        true
    }

    /// It slows down where packets are marked, so that the host may send them as ECN-capable.
    fn answers_marks(&self) -> bool {
        false
    }

    /// The window still doubles every round.
    fn in_slow_start(&self) -> bool {
        matches!(self.state(), State::Startup | State::SlowStart)
    }

    /// What it is doing.
    fn state(&self) -> State;

    /// What it thinks.
    fn snapshot(&self) -> Snapshot;
}

/// Any algorithm, chosen by name when a connection begins. An enum, so that the hot path pays no virtual call.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "core does not allocate, so a flow holds its algorithm in place")]
pub struct AnyAlgorithm(Any);

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "core does not allocate, so a flow holds its algorithm in place")]
enum Any {
    Fixed(Fixed),
    LossBased(LossBased),
    Bbr1(Bbr1),
    Bbr3(Bbr3<Draft06>),
    Bbr3Linux(Bbr3<Linux>),
    Bbr2(Bbr3<V2>),
    Ietf100(Bbr3<Ietf100>),
    #[cfg(feature = "variants")]
    Variant(Variant),
    #[cfg(feature = "variants")]
    Davis(Davis),
}

/// Calls the same method of whichever algorithm runs.
macro_rules! each {
    ($algorithm:expr, $flow:ident => $call:expr) => {
        match $algorithm {
            Any::Fixed($flow) => $call,
            Any::LossBased($flow) => $call,
            Any::Bbr1($flow) => $call,
            Any::Bbr3($flow) => $call,
            Any::Bbr3Linux($flow) => $call,
            Any::Bbr2($flow) => $call,
            Any::Ietf100($flow) => $call,
            #[cfg(feature = "variants")]
            Any::Variant($flow) => $call,
            #[cfg(feature = "variants")]
            Any::Davis($flow) => $call,
        }
    };
}

impl AnyAlgorithm {
    /// The algorithm of this name with these parameters.
    pub fn new(config: &AlgorithmConfig, init: &Init) -> Self {
        Self(match config {
            AlgorithmConfig::Fixed(p) => Any::Fixed(Fixed::new(p)),
            AlgorithmConfig::Reno(p) => Any::LossBased(LossBased::reno(p, init)),
            AlgorithmConfig::Cubic(p) => Any::LossBased(LossBased::cubic(p, init)),
            AlgorithmConfig::Bbr1(p) => Any::Bbr1(Bbr1::new(p, init)),
            AlgorithmConfig::Bbr1Draft00(p) => Any::Bbr1(Bbr1::new_draft00(p, init)),
            AlgorithmConfig::Bbr3(Edition::Draft06, p) => Any::Bbr3(Bbr3::new(p, init)),
            AlgorithmConfig::Bbr3(Edition::Linux, p) => Any::Bbr3Linux(Bbr3::new(p, init)),
            AlgorithmConfig::Bbr3(Edition::V2, p) => Any::Bbr2(Bbr3::new(p, init)),
            AlgorithmConfig::Bbr3(Edition::Ietf100, p) => Any::Ietf100(Bbr3::new(p, init)),
            #[cfg(feature = "variants")]
            AlgorithmConfig::Variant(p) => Any::Variant(Variant::new(p, init)),
            #[cfg(feature = "variants")]
            AlgorithmConfig::Davis(p) => Any::Davis(Davis::new(p, init)),
        })
    }

    /// Everything that BBRv2 and BBRv3 remember; `None` of the others.
    #[cfg(feature = "inside")]
    pub fn bbr3_inside(&self) -> Option<crate::bbr3::Bbr3Inside> {
        match &self.0 {
            Any::Bbr3(flow) => Some(flow.inside()),
            Any::Bbr3Linux(flow) => Some(flow.inside()),
            Any::Bbr2(flow) => Some(flow.inside()),
            Any::Ietf100(flow) => Some(flow.inside()),
            _ => None,
        }
    }

    /// Everything that BBRv1 remembers; `None` of the others.
    #[cfg(feature = "inside")]
    pub fn bbr1_inside(&self) -> Option<crate::bbr1::Bbr1Inside> {
        match &self.0 {
            Any::Bbr1(flow) => Some(flow.inside()),
            _ => None,
        }
    }
}

impl Sealed for AnyAlgorithm {}

#[allow(clippy::inline_always, reason = "a match in between, and nothing else")]
impl Algorithm for AnyAlgorithm {
    fn counts_bytes(&self) -> bool {
        each!(&self.0, flow => flow.counts_bytes())
    }

    fn restart(&mut self, init: &Init) {
        each!(&mut self.0, flow => flow.restart(init));
    }

    #[inline(always)]
    fn on_sent(&mut self, packets: u32) {
        if let Any::LossBased(flow) = &mut self.0 {
            flow.on_sent(packets);
        }
    }

    fn on_tx_start(&mut self, start: &TxStart) {
        each!(&mut self.0, flow => flow.on_tx_start(start));
    }

    fn hears_losses(&self) -> bool {
        each!(&self.0, flow => flow.hears_losses())
    }

    fn on_lost(&mut self, lost: &Lost) {
        each!(&mut self.0, flow => flow.on_lost(lost));
    }

    fn on_tlp_ack(&mut self) {
        each!(&mut self.0, flow => flow.on_tlp_ack());
    }

    fn on_tlp_recovery(&mut self, now: Time, delivered: u64, is_app_limited: bool) {
        each!(&mut self.0, flow => flow.on_tlp_recovery(now, delivered, is_app_limited));
    }

    fn on_congestion_mark(&mut self, packets: u64) {
        each!(&mut self.0, flow => flow.on_congestion_mark(packets));
    }

    fn on_ack(&mut self, ack: &Ack, sampler: &mut RateSampler) {
        each!(&mut self.0, flow => Algorithm::on_ack(flow, ack, sampler));
    }

    #[inline(always)]
    fn process(&mut self, ack: &Ack, sampler: &mut RateSampler, mss: u32) -> Outputs {
        each!(&mut self.0, flow => flow.process(ack, sampler, mss))
    }

    fn on_ca_state(&mut self, old: CaState, new: CaState) {
        each!(&mut self.0, flow => Algorithm::on_ca_state(flow, old, new));
    }

    fn on_recovery_by_timer(&mut self, ack: &Ack) {
        each!(&mut self.0, flow => flow.on_recovery_by_timer(ack));
    }

    fn on_rto(&mut self, ack: &Ack, first: bool) {
        each!(&mut self.0, flow => flow.on_rto(ack, first));
    }

    fn on_undo(&mut self, ack: &Ack) {
        each!(&mut self.0, flow => flow.on_undo(ack));
    }

    fn on_cwnd_unused(&mut self, used: u32) {
        each!(&mut self.0, flow => flow.on_cwnd_unused(used));
    }

    fn on_mss(&mut self, mss: u32) {
        each!(&mut self.0, flow => flow.on_mss(mss));
    }

    fn on_ack_frequency(&mut self, packets: u32, max_ack_delay: Span) {
        each!(&mut self.0, flow => flow.on_ack_frequency(packets, max_ack_delay));
    }

    fn set_max_pacing_rate(&mut self, most: Option<Rate>) {
        each!(&mut self.0, flow => flow.set_max_pacing_rate(most));
    }

    fn cwnd(&self) -> u32 {
        each!(&self.0, flow => flow.cwnd())
    }

    fn cwnd_bytes(&self, mss: u32) -> u64 {
        each!(&self.0, flow => Algorithm::cwnd_bytes(flow, mss))
    }

    fn pacing_rate(&self) -> Option<Rate> {
        each!(&self.0, flow => Algorithm::pacing_rate(flow))
    }

    #[inline(always)]
    fn own_quantum(&self) -> Option<u64> {
        match &self.0 {
            Any::Bbr3(flow) => flow.own_quantum(),
            _ => None,
        }
    }

    fn min_tso_segs(&self) -> u32 {
        each!(&self.0, flow => flow.min_tso_segs())
    }

    fn wants_app_limited(&self) -> bool {
        each!(&self.0, flow => flow.wants_app_limited())
    }

    #[inline(always)]
    fn outputs(&self, mss: u32) -> Outputs {
        each!(&self.0, flow => Algorithm::outputs(flow, mss))
    }

    fn wants_app_limited_checks(&self) -> bool {
        each!(&self.0, flow => flow.wants_app_limited_checks())
    }

    fn needs_pacing(&self) -> bool {
        each!(&self.0, flow => flow.needs_pacing())
    }

    fn answers_marks(&self) -> bool {
        each!(&self.0, flow => flow.answers_marks())
    }

    fn in_slow_start(&self) -> bool {
        each!(&self.0, flow => Algorithm::in_slow_start(flow))
    }

    #[inline]
    fn state(&self) -> State {
        each!(&self.0, flow => flow.state())
    }

    fn snapshot(&self) -> Snapshot {
        each!(&self.0, flow => flow.snapshot())
    }
}
