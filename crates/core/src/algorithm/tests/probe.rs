//! An algorithm that overrides every method of the trait, to test what forwards them.
// SPDX-License-Identifier: Apache-2.0 OR MIT

extern crate std;

use core::cell::RefCell;
use std::vec::Vec;

use crate::algorithm::{Algorithm, METHOD_COUNT, Outputs};
use crate::event::{Ack, CaState, Init, Lost, TxStart};
use crate::sampler::RateSampler;
use crate::snapshot::Snapshot;
use crate::state::{Cause, State};
use crate::units::{Rate, Span, Time};

/// Returns from each method a value that no default returns, and records the method's name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probe {
    called: RefCell<Vec<&'static str>>,
}

impl Probe {
    fn note(&self, method: &'static str) {
        self.called.borrow_mut().push(method);
    }

    /// The methods called since the last time, in order.
    pub(crate) fn take_called(&self) -> Vec<&'static str> {
        self.called.take()
    }
}

pub(crate) const RATE: Rate = Rate::bits_per_sec(1_234_000);
pub(crate) const OUTPUTS: Outputs =
    Outputs { cwnd: 13, cwnd_bytes: 14, pacing_rate: None, is_app_limited: true, state: State::Loss };
pub(crate) const PROCESSED: Outputs = Outputs { cwnd: 15, ..OUTPUTS };

impl Algorithm for Probe {
    fn restart(&mut self, _init: &Init) {
        self.note("restart");
    }

    fn on_ack(&mut self, _ack: &Ack, _sampler: &mut RateSampler) {
        self.note("on_ack");
    }

    fn on_rto(&mut self, _ack: &Ack, _first: bool) {
        self.note("on_rto");
    }

    fn cwnd(&self) -> u32 {
        self.note("cwnd");
        11
    }

    fn counts_bytes(&self) -> bool {
        self.note("counts_bytes");
        true
    }

    fn on_sent(&mut self, _packets: u32) {
        self.note("on_sent");
    }

    fn on_tx_start(&mut self, _start: &TxStart) {
        self.note("on_tx_start");
    }

    fn needs_on_lost(&self) -> bool {
        self.note("needs_on_lost");
        true
    }

    fn continues_recovery(&self) -> bool {
        self.note("continues_recovery");
        true
    }

    fn on_lost(&mut self, _lost: &Lost) {
        self.note("on_lost");
    }

    fn on_tlp_ack(&mut self) {
        self.note("on_tlp_ack");
    }

    fn on_tlp_recovery(&mut self, _now: Time, _delivered: u64, _is_app_limited: bool) {
        self.note("on_tlp_recovery");
    }

    fn on_congestion_mark(&mut self, _packets: u64) {
        self.note("on_congestion_mark");
    }

    fn on_marked_round(&mut self, _una: u64, _next: u64, _delivered: u64) {
        self.note("on_marked_round");
    }

    fn process(&mut self, _ack: &Ack, _sampler: &mut RateSampler, _mss: u32) -> Outputs {
        self.note("process");
        PROCESSED
    }

    fn on_ca_state(&mut self, _old: CaState, _new: CaState) {
        self.note("on_ca_state");
    }

    fn on_recovery_by_timer(&mut self, _ack: &Ack) {
        self.note("on_recovery_by_timer");
    }

    fn on_undo(&mut self, _ack: &Ack) {
        self.note("on_undo");
    }

    fn on_reduction_stopped(&mut self) {
        self.note("on_reduction_stopped");
    }

    fn on_cwnd_unused(&mut self, _used: u32) {
        self.note("on_cwnd_unused");
    }

    fn on_mss(&mut self, _mss: u32) {
        self.note("on_mss");
    }

    fn on_ack_frequency(&mut self, _packets: u32, _max_ack_delay: Span) {
        self.note("on_ack_frequency");
    }

    fn set_max_pacing_rate(&mut self, _rate: Option<Rate>) {
        self.note("set_max_pacing_rate");
    }

    fn cwnd_bytes(&self, _mss: u32) -> u64 {
        self.note("cwnd_bytes");
        12
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.note("pacing_rate");
        Some(RATE)
    }

    fn own_quantum(&self) -> Option<u64> {
        self.note("own_quantum");
        Some(777)
    }

    fn min_tso_segs(&self) -> u32 {
        self.note("min_tso_segs");
        9
    }

    fn wants_app_limited(&self) -> bool {
        self.note("wants_app_limited");
        true
    }

    fn outputs(&self, _mss: u32) -> Outputs {
        self.note("outputs");
        OUTPUTS
    }

    fn wants_app_limited_checks(&self) -> bool {
        self.note("wants_app_limited_checks");
        true
    }

    fn needs_pacing(&self) -> bool {
        self.note("needs_pacing");
        false
    }

    fn supports_ecn(&self) -> bool {
        self.note("supports_ecn");
        true
    }

    fn in_slow_start(&self) -> bool {
        self.note("in_slow_start");
        true
    }

    fn state(&self) -> State {
        self.note("state");
        State::Loss
    }

    fn snapshot(&self) -> Snapshot {
        self.note("snapshot");
        Snapshot { cause: Cause::Idle, ..Snapshot::of(State::Drain) }
    }
}

/// Calls each method of the trait once, and returns those that `algorithm` did not pass on to the probe inside it, by name or value.
pub(crate) fn dropped<A: Algorithm>(mut algorithm: A, probe: impl Fn(&A) -> &Probe) -> Vec<&'static str> {
    let mut dropped = Vec::new();
    let now = Time::ZERO;
    let (ack, mut sampler) = (Ack::default(), RateSampler::new(now));
    macro_rules! pass {
        ($($method:ident ( $($arg:expr),* ) $(== $value:expr)?;)+) => {
            $({
                #[allow(unused_variables, reason = "most methods return nothing")]
                let returned = algorithm.$method($($arg),*);
                let is_equal = true $(&& returned == $value)?;
                let called = probe(&algorithm).take_called();
                if !is_equal || called != [stringify!($method)] {
                    dropped.push(stringify!($method));
                }
            })+
            assert_eq!([$(stringify!($method)),+].len(), METHOD_COUNT, "a method of the trait is missing here");
        };
    }
    pass! {
        restart(&Init::new(now));
        on_ack(&ack, &mut sampler);
        on_rto(&ack, true);
        cwnd() == 11;
        counts_bytes() == true;
        on_sent(1);
        on_tx_start(&TxStart::default());
        needs_on_lost() == true;
        continues_recovery() == true;
        on_lost(&Lost::default());
        on_tlp_ack();
        on_tlp_recovery(now, 1, false);
        on_congestion_mark(1);
        on_marked_round(1, 2, 3);
        process(&ack, &mut sampler, 1) == PROCESSED;
        on_ca_state(CaState::Open, CaState::Loss);
        on_recovery_by_timer(&ack);
        on_undo(&ack);
        on_reduction_stopped();
        on_cwnd_unused(1);
        on_mss(1);
        on_ack_frequency(1, Span::ZERO);
        set_max_pacing_rate(None);
        cwnd_bytes(1) == 12;
        pacing_rate() == Some(RATE);
        own_quantum() == Some(777);
        min_tso_segs() == 9;
        wants_app_limited() == true;
        outputs(1) == OUTPUTS;
        wants_app_limited_checks() == true;
        needs_pacing() == false;
        supports_ecn() == true;
        in_slow_start() == true;
        state() == State::Loss;
        snapshot() == Snapshot { cause: Cause::Idle, ..Snapshot::of(State::Drain) };
    }
    dropped
}
