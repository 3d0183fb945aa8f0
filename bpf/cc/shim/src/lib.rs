//! C interface to core's algorithms; each call works on one connection in memory owned by the host.
//!
//! `bpf/cc` compiles it into a kernel's BPF programs, one object per algorithm; `tools/targets.py` checks the result for BPF
//! and for the browser; the differential test calls the same functions natively. The structures match those of `bpf/cc/flow.h`.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![cfg_attr(any(target_os = "none", target_os = "unknown"), no_std)]

mod bbr1;
#[cfg(any(feature = "bbr2", feature = "bbr3", feature = "bbr3_linux", feature = "bbr_lab"))]
mod bbr3;
mod prague;
mod telemetry;
mod window;

use bbrlab_core::{
    CaState, Init, Rate, Span, Time,
    algorithms::{Ack, Algorithm, Lost, TxStart},
    estimators::FlightSample,
    params::MAX_PARAMS,
};
use core::mem::MaybeUninit;

pub use bbr1::*;
#[cfg(any(feature = "bbr2", feature = "bbr3", feature = "bbr3_linux", feature = "bbr_lab"))]
pub use bbr3::*;
pub use prague::*;
pub use telemetry::Telemetry;
pub use window::*;

#[cfg(any(target_os = "none", target_os = "unknown"))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        // Deliberately undefined: a reference to it means that core can panic.
        safe fn core_may_panic() -> !;
    }
    core_may_panic()
}

/// Parameter values of an algorithm, as returned by [`bbrlab_core::AlgorithmConfig::values`].
pub type Parameters = [u32; MAX_PARAMS];

/// Connection state read by the host.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the kernel's, or core's")]
pub struct Input {
    pub now_ns: u64,
    pub tick: u64,
    pub departure_ns: u64,
    pub delivered_us: u64,
    pub delivered: u64,
    pub lost: u64,
    pub srtt_us: u64,
    pub in_flight: u64,
    // The rate sample; negative numbers mean no sample.
    pub rs_delivered: i64,
    pub rs_interval_us: i64,
    pub rs_prior_delivered: u64,
    pub rs_rtt_us: i64,
    pub rs_losses: u64,
    pub rs_acked_sacked: u64,
    pub rs_prior_in_flight: u64,
    /// Bit flags: application-limited, delayed ACK.
    pub rs_marks: u64,
    pub ca_state: u32,
    /// Bit flags of [`mark`].
    pub marks: u32,
    pub mss: u32,
    pub marked_since: u32,
    /// Bytes per second.
    pub max_rate: u64,
    // Of the newest packet delivered, or of the packets just lost.
    pub tx_in_flight: u64,
    pub lost_since: u64,
    // Fields that most ACKs do not need. An RTT of 0 means none.
    pub min_rtt_us: u64,
    pub idle_ns: u64,
    pub rto_ns: u64,
    pub una: u64,
    pub next: u64,
    pub seed: u64,
    pub volume: u64,
    pub seq: u64,
    // Values that the host has drawn or decided.
    pub rounds: u64,
    pub span_us: u64,
    /// Bytes per second, from a host that decides on its pacing rate by itself.
    pub pacing_rate: u64,
    pub old_ca_state: u32,
    pub packets_out: u32,
    pub cwnd: u32,
    pub cwnd_clamp: u32,
    pub cwnd_count: u32,
    pub ssthresh: u32,
    // Packets just lost, or marked, or requested per ACK.
    pub packets: u32,
    /// The sequence number after the newest packet delivered; used only by readers of a recording.
    pub newest_end: u32,
}

/// Bits of [`Input::marks`].
pub mod mark {
    /// The application was the limiting factor.
    pub const APP_LIMITED: u32 = 1;
    /// The cumulative ACK advanced.
    pub const ADVANCED: u32 = 1 << 1;
    /// The window was the limiting factor.
    pub const CWND_LIMITED: u32 = 1 << 2;
    /// The window may be raised.
    pub const MAY_RAISE: u32 = 1 << 3;
    /// The host paces.
    pub const PACED: u32 = 1 << 4;
    /// The first time-out of an episode.
    pub const FIRST_TIMEOUT: u32 = 1 << 5;
    /// The ACK reports congestion marks.
    pub const ECE: u32 = 1 << 6;
    /// The newest packet delivered was a retransmission.
    pub const RETRANSMISSION: u32 = 1 << 7;
}

/// Outputs of the algorithm.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Bytes per second.
    pub pacing_rate: u64,
    /// Packets.
    pub cwnd: u32,
    /// Packets.
    pub min_burst: u32,
    /// True if samples of the data now in flight would measure the algorithm, not the path.
    pub mark_app_limited: u32,
    /// Numeric value of [`bbrlab_core::State`].
    pub state: u32,
    /// `snd_cwnd_cnt` of a host that manages the window itself.
    pub cwnd_count: u32,
    /// Packets.
    pub ssthresh: u32,
}

/// One connection as stored in a map of a BPF program: zeroed at first, then initialised by `NAME_init`.
#[repr(C)]
pub struct Flow<A> {
    /// Outputs of the last event.
    pub output: Output,
    /// Inputs of the next event.
    pub input: Input,
    algorithm: MaybeUninit<A>,
}

impl<A: CongestionOps> Default for Flow<A> {
    fn default() -> Self {
        // SAFETY: all zeros are a valid value: `export!` has the compiler check this for the algorithm; the other fields are numbers.
        unsafe { MaybeUninit::zeroed().assume_init() }
    }
}

/// One algorithm as the C interface calls it.
pub trait CongestionOps: Sized {
    /// Initialises in place; `self` is all zeros, a valid value of each of these types, as `export!` has the compiler check.
    fn init(&mut self, parameters: &Parameters, init: &Init);
    /// Takes over connection state that the host has just read; called before any other event.
    #[inline(always)]
    fn read(&mut self, _input: &Input) {}
    /// Handles an ACK.
    fn on_ack(&mut self, ack: &Ack, flight: &FlightSample);
    /// Handles a change of the recovery state.
    fn on_ca_state(&mut self, old: CaState, new: CaState);
    /// Handles a retransmission time-out.
    fn on_rto(&mut self, ack: &Ack, first: bool);
    /// Handles an undo: the losses of this episode were spurious.
    fn on_undo(&mut self, ack: &Ack);
    /// Handles a packet that leaves while none is in flight.
    fn on_tx_start(&mut self, start: &TxStart);
    /// Handles a change of the payload bytes of a full packet.
    fn on_mss(&mut self, mss: u32);
    /// Sets an upper bound on the pacing rate.
    fn on_max_rate(&mut self, _most: Rate) {}
    /// Handles a lost packet, for an algorithm that needs each loss reported.
    fn on_lost(&mut self, _input: &Input) {}
    /// Handles an ACK that answers a tail-loss probe.
    fn on_tlp_ack(&mut self) {}
    /// Handles a loss repaired by a tail-loss probe.
    fn on_tlp_recovery(&mut self, _input: &Input) {}
    /// Handles an RTT measured separately from its ACK, or the marks of an ACK.
    fn on_rtt(&mut self, _ack: &Ack, _flight: &FlightSample) {}
    /// Slow-start threshold after a loss, for an algorithm whose window the host reduces.
    fn threshold(&mut self) -> u32 {
        0
    }
    /// Current outputs.
    fn outputs(&self) -> Output;
    /// Fills in a snapshot of the algorithm's model.
    fn telemetry(&self, into: &mut Telemetry);
}

/// Implements the events that reach an algorithm unchanged.
macro_rules! same_events {
    () => {
        $crate::same_events! {
            on_ca_state(old: CaState, new: CaState);
            on_rto(ack: &Ack, first: bool);
            on_undo(ack: &Ack);
            on_tx_start(start: &TxStart);
            on_mss(mss: u32);
        }
        #[inline(always)]
        fn on_max_rate(&mut self, max: Rate) {
            Algorithm::set_max_pacing_rate(self, Some(max));
        }
        #[inline(always)]
        fn telemetry(&self, into: &mut Telemetry) {
            into.fill(&Algorithm::snapshot(self));
        }
    };
    ($($name:ident($($arg:ident: $type:ty),+);)+) => {
        $(
            #[inline(always)]
            fn $name(&mut self, $($arg: $type),+) {
                Algorithm::$name(self, $($arg),+);
            }
        )+
    };
}
pub(crate) use same_events;

impl Output {
    /// Outputs of an algorithm that paces.
    #[inline(always)]
    fn of(algorithm: &impl Algorithm, pacing_rate: Rate) -> Self {
        Self {
            pacing_rate: pacing_rate.as_bytes_per_sec(),
            cwnd: algorithm.cwnd(),
            min_burst: algorithm.min_tso_segs(),
            mark_app_limited: algorithm.wants_app_limited().into(),
            state: algorithm.state() as u32,
            ..Self::default()
        }
    }
}

impl Input {
    #[inline(always)]
    const fn marked(&self, bit: u32) -> bool {
        self.marks & bit != 0
    }

    #[inline(always)]
    fn srtt(&self) -> Option<Span> {
        (self.srtt_us > 0).then_some(Span::micros(self.srtt_us))
    }

    /// Builds the ACK anew for each step, so that unused fields are neither computed nor kept in memory.
    #[inline(always)]
    fn ack(&self) -> Ack {
        let mut ack = Ack::default();
        let known = |value: i64| u64::try_from(value).ok();
        ack.now = Time::nanos(self.now_ns);
        ack.rs.delivered = known(self.rs_delivered);
        ack.rs.interval_us = known(self.rs_interval_us);
        ack.rs.prior_delivered = self.rs_prior_delivered;
        ack.rs.rtt_us = known(self.rs_rtt_us);
        ack.rs.losses = self.rs_losses;
        ack.rs.acked_sacked = self.rs_acked_sacked;
        ack.rs.prior_in_flight = self.rs_prior_in_flight;
        ack.rs.is_app_limited = self.rs_marks & 1 != 0;
        ack.rs.is_ack_delayed = self.rs_marks & 2 != 0;
        ack.delivered = self.delivered;
        ack.delivered_time_us = self.delivered_us;
        ack.lost = self.lost;
        ack.in_flight = self.in_flight;
        ack.ca_state = ca_state(self.ca_state);
        ack.srtt = self.srtt();
        ack.edt = Time::nanos(self.departure_ns);
        ack.una = self.una;
        ack.next = self.next;
        ack.advanced = self.marked(mark::ADVANCED);
        ack.cwnd_limited = self.marked(mark::CWND_LIMITED);
        ack.packets_out = self.packets_out;
        ack.paced = self.marked(mark::PACED);
        ack.may_raise_cwnd = self.marked(mark::MAY_RAISE);
        ack.tick = Some(self.tick);
        ack
    }

    #[inline(always)]
    fn flight(&self) -> FlightSample {
        let mut flight = FlightSample::default();
        flight.tx_in_flight = self.tx_in_flight as u32;
        flight.lost = self.lost_since as u32;
        flight.delivered_ce = self.marked_since;
        flight.is_ece = self.marked(mark::ECE);
        flight.is_retransmit = self.marked(mark::RETRANSMISSION);
        flight
    }

    #[inline(always)]
    fn init(&self) -> Init {
        let mut init = Init::new(Time::nanos(self.now_ns)).with_mss(self.mss).with_seed(self.seed);
        init.initial_cwnd = self.cwnd;
        init.srtt = self.srtt();
        init.cwnd_clamp = self.cwnd_clamp;
        init.max_pacing_rate = (self.max_rate < u64::MAX).then_some(Rate::bytes_per_sec(self.max_rate));
        init.min_rtt = (self.min_rtt_us > 0).then_some(Span::micros(self.min_rtt_us));
        init.delivered = self.delivered;
        init.delivered_time_us = self.delivered_us;
        init.lost = self.lost;
        init.tick = Some(self.tick);
        init
    }

    #[inline(always)]
    fn tx_start(&self) -> TxStart {
        let mut start = TxStart::default();
        start.now = Time::nanos(self.now_ns);
        start.delivered = self.delivered;
        start.app_limited = self.marked(mark::APP_LIMITED);
        start.idle = Span::nanos(self.idle_ns);
        start.delivered_time_us = self.delivered_us;
        start.srtt = self.srtt();
        start.rto = Span::nanos(self.rto_ns);
        start.none_outstanding = self.packets_out == 0;
        start.tick = Some(self.tick);
        start
    }

    #[inline(always)]
    fn lost(&self) -> Lost {
        let mut lost = Lost::default();
        lost.now = Time::nanos(self.now_ns);
        lost.seq = self.seq;
        lost.packets = self.packets;
        lost.volume = self.volume;
        lost.tx_in_flight = self.tx_in_flight;
        lost.lost = self.lost_since;
        lost.is_app_limited = self.marked(mark::APP_LIMITED);
        lost.delivered = self.delivered;
        lost
    }
}

#[inline(always)]
const fn ca_state(number: u32) -> CaState {
    match number {
        0 => CaState::Open,
        1 => CaState::Disorder,
        2 => CaState::Cwr,
        3 => CaState::Recovery,
        _ => CaState::Loss,
    }
}

/// Events by number, in the order of `enum event` of `bpf/cc/flow.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those of the functions")]
pub enum Event {
    Init,
    Ack,
    TxStart,
    Rto,
    CaState,
    Undo,
    Mss,
    MaxRate,
    TlpAck,
    TlpRecovery,
    Lost,
    Rtt,
    Threshold,
}

impl Event {
    /// All events.
    pub const ALL: [Self; 13] = [
        Self::Init,
        Self::Ack,
        Self::TxStart,
        Self::Rto,
        Self::CaState,
        Self::Undo,
        Self::Mss,
        Self::MaxRate,
        Self::TlpAck,
        Self::TlpRecovery,
        Self::Lost,
        Self::Rtt,
        Self::Threshold,
    ];

    /// Returns the event with this number, if there is one.
    pub fn of(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

impl<A: CongestionOps> Flow<A> {
    /// Runs an event on `input`; `parameters` are those given to `init`. For native hosts: BPF has a function for each event.
    pub fn call(&mut self, event: Event, parameters: &Parameters) {
        match event {
            Event::Init => self.with(|algorithm, input| algorithm.init(parameters, &input.init())),
            Event::Ack => self.with_ack(|algorithm, _, ack, flight| algorithm.on_ack(ack, flight)),
            Event::TxStart => self.with(|algorithm, input| algorithm.on_tx_start(&input.tx_start())),
            Event::Rto => self.with_ack(|algorithm, input, ack, _| {
                algorithm.on_rto(ack, input.marked(mark::FIRST_TIMEOUT));
            }),
            Event::CaState => self.with(|algorithm, input| {
                algorithm.on_ca_state(ca_state(input.old_ca_state), ca_state(input.ca_state));
            }),
            Event::Undo => self.with_ack(|algorithm, _, ack, _| algorithm.on_undo(ack)),
            Event::Mss => self.with(|algorithm, input| algorithm.on_mss(input.mss)),
            Event::MaxRate => self.with(|algorithm, input| algorithm.on_max_rate(Rate::bytes_per_sec(input.max_rate))),
            Event::TlpAck => self.with(|algorithm, _| algorithm.on_tlp_ack()),
            Event::TlpRecovery => self.with(|algorithm, input| algorithm.on_tlp_recovery(input)),
            Event::Lost => self.with(|algorithm, input| algorithm.on_lost(input)),
            Event::Rtt => self.with_ack(|algorithm, _, ack, flight| algorithm.on_rtt(ack, flight)),
            Event::Threshold => {
                let mut threshold = 0;
                self.with(|algorithm, _| threshold = algorithm.threshold());
                self.output.ssthresh = threshold;
            }
        }
    }

    /// Snapshot of the algorithm's model.
    pub fn telemetry(&self) -> Telemetry {
        let mut telemetry = Telemetry::default();
        self.tell(&mut telemetry);
        telemetry
    }

    #[inline(always)]
    fn with(&mut self, event: impl FnOnce(&mut A, &Input)) {
        // SAFETY: the memory was zero, or an algorithm was initialised in it; both are valid values.
        let algorithm = unsafe { self.algorithm.assume_init_mut() };
        algorithm.read(&self.input);
        event(algorithm, &self.input);
        self.output = algorithm.outputs();
    }

    #[inline(always)]
    fn with_ack(&mut self, event: impl FnOnce(&mut A, &Input, &Ack, &FlightSample)) {
        self.with(|algorithm, input| event(algorithm, input, &input.ack(), &input.flight()));
    }

    #[inline(always)]
    fn step(&mut self, step: impl FnOnce(&mut A, &Ack, &FlightSample)) {
        // SAFETY: as above.
        step(unsafe { self.algorithm.assume_init_mut() }, &self.input.ack(), &self.input.flight());
    }

    #[inline(always)]
    fn end_ack(&mut self) {
        self.with(|_, _| {});
    }

    #[inline(always)]
    fn tell(&self, into: &mut Telemetry) {
        // SAFETY: as above.
        unsafe { self.algorithm.assume_init_ref() }.telemetry(into);
    }
}

/// Defines the C functions of one algorithm, and the size of its connection state.
macro_rules! export {
    ($algorithm:ty: $bytes:ident $init:ident $ack:ident $ca_state:ident $rto:ident $undo:ident $tx_start:ident $mss:ident $max_rate:ident $telemetry:ident) => {
        // SAFETY: the compiler rejects a constant that is not a valid value of its type.
        const _: $algorithm = unsafe { core::mem::MaybeUninit::zeroed().assume_init() };
        /// Size of a connection, in bytes.
        #[unsafe(no_mangle)]
        pub extern "C" fn $bytes() -> u64 {
            size_of::<$crate::Flow<$algorithm>>() as u64
        }
        /// Initialises a connection.
        #[unsafe(no_mangle)]
        pub extern "C" fn $init(flow: &mut $crate::Flow<$algorithm>, parameters: &$crate::Parameters) {
            flow.with(|algorithm, input| $crate::CongestionOps::init(algorithm, parameters, &input.init()));
        }
        /// Handles an ACK.
        #[unsafe(no_mangle)]
        pub extern "C" fn $ack(flow: &mut $crate::Flow<$algorithm>) {
            flow.with_ack(|algorithm, _, ack, flight| $crate::CongestionOps::on_ack(algorithm, ack, flight));
        }
        /// Handles a change of the recovery state.
        #[unsafe(no_mangle)]
        pub extern "C" fn $ca_state(flow: &mut $crate::Flow<$algorithm>) {
            flow.with(|algorithm, input| {
                $crate::CongestionOps::on_ca_state(
                    algorithm,
                    $crate::ca_state(input.old_ca_state),
                    $crate::ca_state(input.ca_state),
                );
            });
        }
        /// Handles a retransmission time-out.
        #[unsafe(no_mangle)]
        pub extern "C" fn $rto(flow: &mut $crate::Flow<$algorithm>) {
            flow.with_ack(|algorithm, input, ack, _| {
                $crate::CongestionOps::on_rto(algorithm, ack, input.marked($crate::mark::FIRST_TIMEOUT));
            });
        }
        /// Handles an undo: the losses of this episode were spurious.
        #[unsafe(no_mangle)]
        pub extern "C" fn $undo(flow: &mut $crate::Flow<$algorithm>) {
            flow.with_ack(|algorithm, _, ack, _| $crate::CongestionOps::on_undo(algorithm, ack));
        }
        /// Handles a packet that leaves while none is in flight.
        #[unsafe(no_mangle)]
        pub extern "C" fn $tx_start(flow: &mut $crate::Flow<$algorithm>) {
            flow.with(|algorithm, input| $crate::CongestionOps::on_tx_start(algorithm, &input.tx_start()));
        }
        /// Handles a change of the payload bytes of a full packet.
        #[unsafe(no_mangle)]
        pub extern "C" fn $mss(flow: &mut $crate::Flow<$algorithm>) {
            flow.with(|algorithm, input| $crate::CongestionOps::on_mss(algorithm, input.mss));
        }
        /// Sets an upper bound on the pacing rate.
        #[unsafe(no_mangle)]
        pub extern "C" fn $max_rate(flow: &mut $crate::Flow<$algorithm>) {
            flow.with(|algorithm, input| {
                $crate::CongestionOps::on_max_rate(algorithm, bbrlab_core::Rate::bytes_per_sec(input.max_rate));
            });
        }
        /// Fills in a snapshot of the algorithm's model.
        #[unsafe(no_mangle)]
        pub extern "C" fn $telemetry(flow: &$crate::Flow<$algorithm>, into: &mut $crate::Telemetry) {
            flow.tell(into);
        }
    };
}
pub(crate) use export;
