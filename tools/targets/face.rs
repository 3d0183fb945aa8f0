//! A host without an operating system, as a kernel's BPF program is: every event of each algorithm behind a function of its own,
//! plain integers in and out, state in memory that the caller has. `tools/targets.py` builds it and reads what is left.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![no_std]

use bbrlab_core::concrete::{BbrAcd, BbrApg, BbrCpa, BbrS, acd_base};
use bbrlab_core::{
    AcdParams, Ack, ApgParams, Bbr1, Bbr1Params, CaState, CpaParams, CubicParams, Davis, DavisParams, FlightSample,
    Init, LossBased, Lost, QuantileParams, Rate, RenoParams, Span, Time, TxStart,
};
use core::mem::MaybeUninit;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    unsafe extern "C" {
        // Nobody defines it: where it is wanted, core can panic.
        safe fn core_may_panic() -> !;
    }
    core_may_panic()
}

/// What a host read of its connection.
#[repr(C)]
pub struct Input {
    pub now_ns: u64,
    pub tick: u64,
    pub departure_ns: u64,
    pub delivered_us: u64,
    pub delivered: u64,
    pub lost: u64,
    pub srtt_us: u64,
    pub min_rtt_us: u64,
    pub idle_ns: u64,
    pub rto_ns: u64,
    pub una: u64,
    pub next: u64,
    pub seed: u64,
    pub in_flight: u64,
    pub ca_state: u32,
    pub old_ca_state: u32,
    pub packets_out: u32,
    pub mss: u32,
    pub cwnd: u32,
    pub cwnd_clamp: u32,
    /// Bits: application-limited, cumulative ACK advanced, window-limited, may raise the window, paced, first time-out,
    /// reports marks, newest was a retransmission.
    pub marks: u32,
    // The rate sample; negative numbers for none.
    pub rs_delivered: i64,
    pub rs_interval_us: i64,
    pub rs_prior_delivered: u64,
    pub rs_rtt_us: i64,
    pub rs_losses: u64,
    pub rs_acked_sacked: u64,
    pub rs_prior_in_flight: u64,
    /// Bits: application-limited, delayed ACK.
    pub rs_marks: u64,
    // Of the newest packet delivered, or of those just lost.
    pub tx_in_flight: u64,
    pub lost_since: u64,
    pub marked_since: u32,
    // Of those just lost, or marked, or asked for in an ACK.
    pub packets: u32,
    pub volume: u64,
    pub seq: u64,
    // What another has drawn or decided.
    pub rounds: u64,
    pub span_us: u64,
    pub max_rate: u64,
}

/// What the algorithm wants.
#[repr(C)]
pub struct Output {
    pub pacing_rate: u64,
    pub cwnd: u32,
    pub min_burst: u32,
    pub mark_app_limited: u32,
    pub state: u32,
}

/// One connection, as a map of a BPF program holds it: zero at first, then what `NAME_init` made of it.
#[repr(C)]
pub struct Flow<A> {
    input: Input,
    output: Output,
    /// Here, because they would take half of the stack.
    ack: Ack,
    flight: FlightSample,
    algorithm: MaybeUninit<A>,
}

/// One algorithm behind the face.
pub trait Face: Sized {
    /// Begins in place; `self` is all zeros, which is a value of each of these types, as `face!` has the compiler check.
    fn init(&mut self, init: &Init);
    fn on_ack(&mut self, ack: &Ack, flight: &FlightSample);
    fn on_ca_state(&mut self, old: CaState, new: CaState);
    fn on_rto(&mut self, ack: &Ack, first: bool);
    fn on_undo(&mut self, ack: &Ack);
    fn on_tx_start(&mut self, start: &TxStart);
    fn on_mss(&mut self, mss: u32);
    fn outputs(&self) -> Output;
}

impl Input {
    #[inline(always)]
    const fn marked(&self, bit: u32) -> bool {
        self.marks >> bit & 1 != 0
    }

    #[inline(always)]
    fn srtt(&self) -> Option<Span> {
        (self.srtt_us > 0).then_some(Span::micros(self.srtt_us))
    }

    #[inline(always)]
    fn fill(&self, ack: &mut Ack) {
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
        ack.advanced = self.marked(1);
        ack.cwnd_limited = self.marked(2);
        ack.packets_out = self.packets_out;
        ack.paced = self.marked(4);
        ack.may_raise_cwnd = self.marked(3);
        ack.tick = Some(self.tick);
    }

    #[inline(always)]
    fn fill_flight(&self, flight: &mut FlightSample) {
        flight.tx_in_flight = self.tx_in_flight as u32;
        flight.lost = self.lost_since as u32;
        flight.delivered_ce = self.marked_since;
        flight.is_ece = self.marked(6);
        flight.is_retransmit = self.marked(7);
    }

    #[inline(always)]
    fn init(&self) -> Init {
        let mut init = Init::new(Time::nanos(self.now_ns), self.mss, self.seed);
        init.initial_cwnd = self.cwnd;
        init.srtt = self.srtt();
        init.cwnd_clamp = self.cwnd_clamp;
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
        start.app_limited = self.marked(0);
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
        lost.is_app_limited = self.marked(0);
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

impl<A: Face> Flow<A> {
    #[inline(always)]
    fn with(&mut self, event: impl FnOnce(&mut A, &Input)) {
        // SAFETY: the memory was zero, or an algorithm has begun in it; both are values of it.
        let algorithm = unsafe { self.algorithm.assume_init_mut() };
        event(algorithm, &self.input);
        self.output = algorithm.outputs();
    }

    #[inline(always)]
    fn with_ack(&mut self, event: impl FnOnce(&mut A, &Input, &Ack, &FlightSample)) {
        self.input.fill(&mut self.ack);
        self.input.fill_flight(&mut self.flight);
        // SAFETY: as above.
        let algorithm = unsafe { self.algorithm.assume_init_mut() };
        event(algorithm, &self.input, &self.ack, &self.flight);
        self.output = algorithm.outputs();
    }
}

/// The functions of one algorithm.
macro_rules! face {
    ($algorithm:ty: $init:ident $ack:ident $ca_state:ident $rto:ident $undo:ident $tx_start:ident $mss:ident) => {
        // SAFETY: a constant that is no value of its type is not compiled.
        const _: $algorithm = unsafe { core::mem::MaybeUninit::zeroed().assume_init() };
        #[unsafe(no_mangle)]
        pub extern "C" fn $init(flow: &mut Flow<$algorithm>) {
            flow.with(|algorithm, input| Face::init(algorithm, &input.init()));
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $ack(flow: &mut Flow<$algorithm>) {
            flow.with_ack(|algorithm, _, ack, flight| Face::on_ack(algorithm, ack, flight));
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $ca_state(flow: &mut Flow<$algorithm>) {
            flow.with(|algorithm, input| {
                Face::on_ca_state(algorithm, ca_state(input.old_ca_state), ca_state(input.ca_state));
            });
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $rto(flow: &mut Flow<$algorithm>) {
            flow.with_ack(|algorithm, input, ack, _| Face::on_rto(algorithm, ack, input.marked(5)));
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $undo(flow: &mut Flow<$algorithm>) {
            flow.with_ack(|algorithm, _, ack, _| Face::on_undo(algorithm, ack));
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $tx_start(flow: &mut Flow<$algorithm>) {
            flow.with(|algorithm, input| Face::on_tx_start(algorithm, &input.tx_start()));
        }
        #[unsafe(no_mangle)]
        pub extern "C" fn $mss(flow: &mut Flow<$algorithm>) {
            flow.with(|algorithm, input| Face::on_mss(algorithm, input.mss));
        }
    };
}

#[cfg(any(bbr3, bbr3_linux))]
mod bbr3;

/// BBRv1 and what replaces a part of it.
macro_rules! bbr1 {
    ($algorithm:ty, $init:expr) => {
        impl Face for $algorithm {
            #[inline(always)]
            fn init(&mut self, init: &Init) {
                #[allow(clippy::redundant_closure_call)]
                ($init)(self, init);
            }
            #[inline(always)]
            fn on_ack(&mut self, ack: &Ack, _flight: &FlightSample) {
                Self::on_ack(self, ack);
            }
            #[inline(always)]
            fn on_ca_state(&mut self, old: CaState, new: CaState) {
                Self::on_ca_state(self, old, new);
            }
            #[inline(always)]
            fn on_rto(&mut self, ack: &Ack, first: bool) {
                Self::on_rto(self, ack, first);
            }
            #[inline(always)]
            fn on_undo(&mut self, ack: &Ack) {
                Self::on_undo(self, ack);
            }
            #[inline(always)]
            fn on_tx_start(&mut self, start: &TxStart) {
                Self::on_tx_start(self, start);
            }
            #[inline(always)]
            fn on_mss(&mut self, mss: u32) {
                Self::on_mss(self, mss);
            }
            #[inline(always)]
            fn outputs(&self) -> Output {
                Output {
                    pacing_rate: self.pacing_rate().as_bytes_per_sec(),
                    cwnd: self.cwnd(),
                    min_burst: self.min_tso_segs(),
                    mark_app_limited: self.wants_app_limited().into(),
                    state: self.state() as u32,
                }
            }
        }
    };
}

bbr1!(Bbr1, |flow: &mut Bbr1, init: &Init| flow.init(&Bbr1Params::default(), &(), init));
bbr1!(BbrCpa, |flow: &mut BbrCpa, init: &Init| flow.init(&Bbr1Params::default(), &CpaParams::default(), init));
bbr1!(BbrAcd, |flow: &mut BbrAcd, init: &Init| flow.init(&acd_base(), &AcdParams::default(), init));
bbr1!(BbrS, |flow: &mut BbrS, init: &Init| flow.init(&Bbr1Params::default(), &QuantileParams::default(), init));
bbr1!(BbrApg, |flow: &mut BbrApg, init: &Init| flow.init(&Bbr1Params::default(), &ApgParams::default(), init));

#[cfg(bbr1)]
face!(Bbr1: bbr1_init bbr1_ack bbr1_ca_state bbr1_rto bbr1_undo bbr1_tx_start bbr1_mss);
#[cfg(cpa)]
face!(BbrCpa: cpa_init cpa_ack cpa_ca_state cpa_rto cpa_undo cpa_tx_start cpa_mss);
#[cfg(acd)]
face!(BbrAcd: acd_init acd_ack acd_ca_state acd_rto acd_undo acd_tx_start acd_mss);
#[cfg(bbrs)]
face!(BbrS: bbrs_init bbrs_ack bbrs_ca_state bbrs_rto bbrs_undo bbrs_tx_start bbrs_mss);
#[cfg(apg)]
face!(BbrApg: apg_init apg_ack apg_ca_state apg_rto apg_undo apg_tx_start apg_mss);

/// What is not paced by its own will.
#[inline(always)]
fn window_only((cwnd, rate): (u32, Rate)) -> Output {
    Output { pacing_rate: rate.as_bytes_per_sec(), cwnd, min_burst: 1, mark_app_limited: 0, state: 0 }
}

impl Face for Davis {
    #[inline(always)]
    fn init(&mut self, init: &Init) {
        *self = Self::new(&DavisParams::default(), init);
    }
    #[inline(always)]
    fn on_ack(&mut self, ack: &Ack, _flight: &FlightSample) {
        Self::on_ack(self, ack);
    }
    fn on_ca_state(&mut self, _old: CaState, _new: CaState) {}
    #[inline(always)]
    fn on_rto(&mut self, ack: &Ack, first: bool) {
        Self::on_rto(self, ack, first);
    }
    #[inline(always)]
    fn on_undo(&mut self, ack: &Ack) {
        Self::on_undo(self, ack);
    }
    fn on_tx_start(&mut self, _start: &TxStart) {}
    #[inline(always)]
    fn on_mss(&mut self, mss: u32) {
        Self::on_mss(self, mss);
    }
    #[inline(always)]
    fn outputs(&self) -> Output {
        window_only(Self::outputs(self))
    }
}

#[cfg(davis)]
face!(Davis: davis_init davis_ack davis_ca_state davis_rto davis_undo davis_tx_start davis_mss);

/// Reno and CUBIC are one type; each has its beginning.
#[repr(transparent)]
pub struct Cubic(LossBased);
#[repr(transparent)]
pub struct Reno(LossBased);

macro_rules! loss_based {
    ($algorithm:ident, $new:expr) => {
        impl Face for $algorithm {
            #[inline(always)]
            fn init(&mut self, init: &Init) {
                #[allow(clippy::redundant_closure_call)]
                let flow = ($new)(init);
                self.0 = flow;
            }
            #[inline(always)]
            fn on_ack(&mut self, ack: &Ack, _flight: &FlightSample) {
                self.0.on_ack(ack);
            }
            #[inline(always)]
            fn on_ca_state(&mut self, _old: CaState, new: CaState) {
                self.0.on_ca_state(new);
            }
            #[inline(always)]
            fn on_rto(&mut self, ack: &Ack, first: bool) {
                self.0.on_rto(ack, first);
            }
            #[inline(always)]
            fn on_undo(&mut self, ack: &Ack) {
                self.0.on_undo(ack);
            }
            #[inline(always)]
            fn on_tx_start(&mut self, start: &TxStart) {
                self.0.on_tx_start(start);
                self.0.on_sent(1);
                self.0.on_cwnd_unused(1);
            }
            #[inline(always)]
            fn on_mss(&mut self, mss: u32) {
                self.0.on_mss(mss);
            }
            #[inline(always)]
            fn outputs(&self) -> Output {
                window_only((self.0.cwnd(), self.0.pacing_rate()))
            }
        }
    };
}

loss_based!(Cubic, |init: &Init| LossBased::cubic(&CubicParams::default(), init));
loss_based!(Reno, |init: &Init| LossBased::reno(&RenoParams::default(), init));

#[cfg(cubic)]
face!(Cubic: cubic_init cubic_ack cubic_ca_state cubic_rto cubic_undo cubic_tx_start cubic_mss);
#[cfg(reno)]
face!(Reno: reno_init reno_ack reno_ca_state reno_rto reno_undo reno_tx_start reno_mss);
