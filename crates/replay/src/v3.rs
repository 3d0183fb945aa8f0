//! One flow of google/bbr v3: repeats the kernel's calls on core's `Bbr3`, and compares the whole state after each ACK.
// SPDX-License-Identifier: Apache-2.0 OR MIT
//!
//! The calls between two states are made once the second one is read: the random numbers that a call drew are in a line after it,
//! or, in logs without such lines, in the state that follows; and the request for ssthresh and the resulting recovery state are
//! two calls in the kernel and one in core. Calls after a flow's last state can't be compared, and are not replayed: closing the
//! connection is such a call.

use bbrlab_core::{
    CaState, Init, MICROS_PER_SEC, Span, State as Phase, Time,
    algorithms::{self, Ack, Bbr3, Edition, LinuxV3},
    estimators::FlightSample,
    internals::{Bbr3Internals, GAIN_UNIT},
    params::Bbr3Params,
};

use super::compare::Outputs;
use super::v3_log::{self, CaState as CaChange, Event, Fault, Init as Begin, Lost, STATE_KEYS, State, TxStart};
use super::{BEFORE_INIT, DRAWN, DRAWN_UNTOLD, Step, TICK_AT_START};

/// The kernel's `~0U`: no bound, no RTT.
const NONE: u64 = u32::MAX as u64;
/// Ticks per second of the kernels that wrote such logs.
pub const HZ: u32 = 250;
/// `TCP_CA_Loss`.
const LOSS: u32 = 4;
/// Largest value of the kernel's `rounds_since_probe`.
const ROUNDS_MAX: u64 = 255;

/// A 32-bit counter that may wrap, extended to 64 bits.
#[derive(Clone, Copy, Debug, Default)]
struct Counter(Option<u64>);

impl Counter {
    /// Returns the extension of `value` that is nearer to the last one.
    fn near(self, value: u32) -> u64 {
        // Starts one wrap later, so that an older value is not below zero.
        let last = self.0.unwrap_or((1 << 32) | u64::from(value));
        let step = value.wrapping_sub(last as u32) as i32;
        last.saturating_add_signed(step.into())
    }

    fn see(&mut self, value: u32) -> u64 {
        let seen = self.near(value);
        self.0 = Some(seen);
        seen
    }
}

/// A flow under comparison.
#[derive(Clone, Debug, Default)]
pub struct V3Flow {
    /// `None` before `init`.
    core: Option<Bbr3<LinuxV3>>,
    /// Calls since the last state, and the values that they drew.
    calls: Vec<Event>,
    /// True if ssthresh was requested, and the state for which it was requested is not yet known.
    asked: bool,
    /// The socket's `prior_cwnd` at `init`: the window when ssthresh was requested in the handshake.
    prior_cwnd: u32,
    delivered: Counter,
    tick: Counter,
    /// Time of the last tick read.
    tick_at: u64,
}

impl V3Flow {
    /// True once the flow has begun.
    pub const fn has_begun(&self) -> bool {
        self.core.is_some()
    }

    /// Takes a line; a state triggers the calls before it, and is compared with their result.
    pub fn step(&mut self, port: u16, event: Event) -> Result<Step, Fault> {
        let mut step = Step::default();
        match event {
            Event::State(_) if !self.is_acked() => return Err(Fault::NoAck(port)),
            Event::State(state) if state.is_uninitialised() => {
                self.forget_connection();
                step.explained.push(BEFORE_INIT);
            }
            Event::State(state) => {
                if self.core.is_none() {
                    return Err(Fault::NoBeginning(port));
                }
                let calls = core::mem::take(&mut self.calls);
                *self = self.replayed(&calls, &state, &mut step);
            }
            Event::Init(begin) => self.begin(&begin, &mut step),
            Event::Draw(_) => self.calls.push(event),
            _ if self.is_acked() => return Err(Fault::NoState(port)),
            _ => self.calls.push(event),
        }
        Ok(step)
    }

    /// True if the newest call is an ACK.
    fn is_acked(&self) -> bool {
        let newest = self.calls.iter().rev().find(|event| !matches!(event, Event::Draw(_)));
        matches!(newest, Some(Event::Ack(_)))
    }

    /// Returns the flow after these calls, which left the kernel's flow in `state`.
    fn replayed(&self, calls: &[Event], state: &State, step: &mut Step) -> Self {
        let is_told = calls.iter().any(|event| matches!(event, Event::Draw(_)));
        let wait = self.core.as_ref().map(|core| core.internals().bw_probe_wait.as_micros());
        if is_told || wait == Some(state.wait_us()) {
            let (flow, done) = self.made(calls, state, None);
            step.add(done);
            return flow;
        }
        // The log lacks its draws, and there was one. A round may have begun since.
        step.explained.push(DRAWN_UNTOLD);
        let (flow, done) = self.made(calls, state, Some(state.rounds()));
        if done.outputs.unequal.is_none() || state.rounds() == 0 {
            step.add(done);
            return flow;
        }
        let (later, begun) = self.made(calls, state, Some(state.rounds() - 1));
        if begun.outputs.unequal.is_some() {
            step.add(done);
            return flow;
        }
        step.add(begun);
        later
    }

    /// Makes the calls and compares the result, with `rounds` as the draw where the log lacks it.
    fn made(&self, calls: &[Event], state: &State, rounds: Option<u64>) -> (Self, Step) {
        let (mut flow, mut step) = (self.clone(), Step::default());
        if let (Some(core), Some(rounds)) = (&mut flow.core, rounds) {
            core.set_next_draw(rounds, Span::micros(state.wait_us()));
        }
        for (nth, call) in calls.iter().enumerate() {
            if let (Some(core), Some(Event::Draw(draw))) = (&mut flow.core, calls.get(nth + 1)) {
                core.set_next_draw(draw.rounds.into(), Span::micros(draw.wait_us.into()));
                step.explained.push(DRAWN);
            }
            flow.call(call, &mut step);
        }
        if let Some(core) = &flow.core {
            compare(state, core, &mut step.outputs);
        }
        (flow, step)
    }

    /// Discards the connection, to start a new one. A client's kernel calls the module for the SYN-ACK before it has initialised it,
    /// on zeroes; `init` then sets all of it. So this is a new connection, and the state after its ACK proves nothing.
    fn forget_connection(&mut self) {
        if self.core.take().is_some() {
            self.prior_cwnd = 0;
        }
        self.note_handshake();
    }

    /// Takes the one trace left by calls before `init`: the window that a time-out of the SYN saved.
    fn note_handshake(&mut self) {
        for call in core::mem::take(&mut self.calls) {
            if let Event::Ssthresh(request) = call {
                self.prior_cwnd = request.cwnd;
            }
        }
    }

    fn begin(&mut self, begin: &Begin, step: &mut Step) {
        self.note_handshake();
        self.delivered = Counter::default();
        self.asked = false;
        let mut init = Init::new(Time::nanos(begin.now)).with_mss(begin.mss).with_seed(0);
        init.srtt = (begin.srtt_us > 0).then(|| Span::micros(begin.srtt_us.into()));
        init.min_rtt = (begin.min_rtt_us != u32::MAX).then(|| Span::micros(begin.min_rtt_us.into()));
        init.initial_cwnd = begin.cwnd;
        init.delivered = self.delivered.see(begin.delivered);
        init.tick = Some(self.see_tick(begin.now, begin.tick));
        let mut params = Bbr3Params::of(Edition::LinuxV3);
        params.hz = HZ;
        let mut core = Bbr3::<LinuxV3>::new(&params, &init);
        core.set_prior_cwnd(self.prior_cwnd);
        step.outputs.compare_number("snd_cwnd after init", begin.cwnd, core.cwnd());
        self.core = Some(core);
    }

    fn see_tick(&mut self, now: u64, tick: u32) -> u64 {
        self.tick_at = now;
        self.tick.see(tick)
    }

    /// Tick of a time for which the log has none: advanced by the multiples of a tick that the clock has passed.
    fn tick_of(&self, now: u64) -> u64 {
        let ticks = |ns: u64| ns / (1_000 * MICROS_PER_SEC / u64::from(HZ));
        let passed = ticks(now).saturating_sub(ticks(self.tick_at));
        self.tick.0.unwrap_or(1 << 32).saturating_add(passed)
    }

    fn call(&mut self, event: &Event, step: &mut Step) {
        let Some(mut core) = self.core.take() else {
            return;
        };
        self.call_core(&mut core, event, step);
        self.core = Some(core);
    }

    fn call_core(&mut self, core: &mut Bbr3<LinuxV3>, event: &Event, step: &mut Step) {
        let before = core.cwnd();
        match event {
            Event::Ack(acked) => {
                step.outputs.compare_number("snd_cwnd before the call", acked.cwnd, before);
                if acked.is_tlp {
                    core.on_tlp_ack();
                }
                core.on_ack(&self.ack(acked), &flight(acked));
            }
            Event::Lost(lost) => core.on_lost_packet(&self.lost(lost)),
            Event::TlpRecovery(repair) => {
                let delivered = self.delivered.see(repair.delivered);
                core.on_tlp_recovery(Time::nanos(repair.now), delivered, repair.is_app_limited);
            }
            Event::Ssthresh(request) => {
                step.outputs.compare_number("snd_cwnd before the call", request.cwnd, before);
                self.asked = true;
            }
            Event::Undo(undo) => core.on_undo(&at(undo.now)),
            Event::CaState(change) => {
                self.ca_state(core, change, &mut step.outputs);
                if change.new == LOSS {
                    // In this state alone, the stack changes the window first.
                    step.outputs.compare_number("snd_cwnd after a time-out", change.cwnd, core.cwnd());
                } else {
                    step.outputs.compare_number("snd_cwnd before the call", change.cwnd, before);
                }
            }
            Event::TxStart(start) => {
                if start.tick.is_none() && start.is_app_limited && core.state() == Phase::ProbeRtt {
                    step.explained.push(TICK_AT_START);
                }
                core.on_tx_start(&self.tx_start(start));
            }
            Event::Init(_) | Event::State(_) | Event::Draw(_) => {}
        }
    }

    /// Handles a change of the recovery state: the kernel decides on requests for ssthresh; they are an input here only for time-outs.
    fn ca_state(&mut self, core: &mut Bbr3<LinuxV3>, change: &CaChange, outputs: &mut Outputs) {
        let asked = core::mem::take(&mut self.asked);
        let (old, new) = (ca_state(change.old), ca_state(change.new));
        if new == CaState::Loss {
            let mut ack = at(change.now);
            (ack.in_flight, ack.ca_state) = (change.in_flight.into(), new);
            core.on_rto(&ack, asked);
            return;
        }
        let reduces = |state| matches!(state, CaState::Cwr | CaState::Recovery);
        outputs.compare("ssthresh asked", asked, reduces(new) && !reduces(old));
        core.on_ca_state(old, new);
    }

    fn ack(&mut self, acked: &v3_log::Ack) -> Ack {
        let delivered = self.delivered.see(acked.delivered);
        let mut ack = Ack::default();
        ack.now = Time::nanos(acked.now);
        ack.rs.delivered = acked.rs_delivered;
        ack.rs.interval_us = acked.interval_us.filter(|interval| *interval > 0);
        ack.rs.prior_delivered = self.delivered.near(acked.prior_delivered);
        ack.rs.rtt_us = acked.rtt_us;
        ack.rs.losses = acked.losses.into();
        ack.rs.acked_sacked = acked.acked_sacked.into();
        ack.rs.prior_in_flight = acked.prior_in_flight.into();
        ack.rs.is_app_limited = acked.is_app_limited;
        ack.rs.is_ack_delayed = acked.is_ack_delayed;
        ack.delivered = delivered;
        ack.delivered_time_us = acked.delivered_us;
        ack.lost = acked.lost.into();
        ack.in_flight = acked.in_flight.into();
        ack.ca_state = ca_state(acked.ca_state);
        ack.srtt = (acked.srtt_us > 0).then(|| Span::micros(acked.srtt_us.into()));
        ack.edt = Time::nanos(acked.wstamp);
        ack.cwnd_limited = acked.cwnd_limited;
        ack.packets_out = acked.packets_out;
        ack.tick = Some(self.see_tick(acked.now, acked.tick));
        ack
    }

    fn lost(&mut self, lost: &Lost) -> algorithms::Lost {
        let mut loss = algorithms::Lost::default();
        loss.now = Time::nanos(lost.now);
        loss.tx_in_flight = lost.tx_in_flight.into();
        loss.lost = lost.lost.into();
        loss.packets = lost.packets;
        loss.volume = lost.packets.into();
        loss.is_app_limited = lost.is_app_limited;
        loss.delivered = self.delivered.see(lost.delivered);
        loss
    }

    fn tx_start(&mut self, recorded: &TxStart) -> algorithms::TxStart {
        let tick = match recorded.tick {
            Some(tick) => self.see_tick(recorded.now, tick),
            None => self.tick_of(recorded.now),
        };
        let mut start = algorithms::TxStart::default();
        start.now = Time::nanos(recorded.now);
        start.delivered = self.delivered.0.unwrap_or(0);
        start.app_limited = recorded.is_app_limited;
        start.none_outstanding = true;
        start.tick = Some(tick);
        start
    }
}

/// An ACK at this time that delivers nothing.
fn at(now: u64) -> Ack {
    let mut ack = Ack::default();
    ack.now = Time::nanos(now);
    ack
}

const fn ca_state(state: u32) -> CaState {
    match state {
        0 => CaState::Open,
        1 => CaState::Disorder,
        2 => CaState::Cwr,
        3 => CaState::Recovery,
        _ => CaState::Loss,
    }
}

fn flight(acked: &v3_log::Ack) -> FlightSample {
    let mut flight = FlightSample::default();
    flight.tx_in_flight = acked.tx_in_flight;
    flight.lost = acked.rs_lost;
    flight.delivered_ce = acked.delivered_ce;
    flight.is_ece = acked.is_ece;
    flight
}

fn compare(kernel: &State, core: &Bbr3<LinuxV3>, outputs: &mut Outputs) {
    let internals = core.internals();
    outputs.compare_number("snd_cwnd", kernel.cwnd, core.cwnd());
    outputs.compare_number("sk_pacing_rate", kernel.pacing_rate, core.pacing_rate().as_bytes_per_sec());
    for (((_, name), theirs), ours) in STATE_KEYS.iter().zip(kernel.values).zip(values(core.state(), &internals)) {
        // Remains of a cycle have no meaning in other modes; core does not keep them.
        if let Some(ours) = ours {
            outputs.compare_number(name, theirs, ours);
        }
    }
    outputs.compare("bw_hi", kernel.bw_hi, internals.raw.bw_hi);
    outputs.compare("extra_acked", kernel.extra_acked, internals.raw.extra_acked);
}

/// Returns core's values in the order of [`STATE_KEYS`].
fn values(state: Phase, core: &Bbr3Internals) -> [Option<u64>; STATE_KEYS.len()] {
    let raw = &core.raw;
    let (mode, phase) = mode(state);
    let gain = |gain: u32| u64::from(gain) * 256 / u64::from(GAIN_UNIT);
    let bound = |value: Option<u64>| value.unwrap_or(NONE);
    [
        Some(mode),
        phase,
        Some(gain(core.pacing_gain)),
        Some(gain(core.cwnd_gain)),
        Some(bound(raw.bw_lo)),
        Some(bound(raw.inflight_lo)),
        Some(bound(raw.inflight_hi)),
        Some(bound(raw.min_rtt_us)),
        Some(bound(raw.probe_rtt_min_us)),
        Some(raw.full_bw),
        Some(core.full_bw_reached.into()),
        Some(core.full_bw_now.into()),
        Some(core.full_bw_count.into()),
        Some(raw.ack_phase.into()),
        Some(raw.bw_probe_samples.into()),
        Some(core.prev_probe_too_high.into()),
        Some(raw.stopped_risky_probe.into()),
        Some(core.bw_probe_wait.as_micros()),
        Some(core.rounds_since_probe_up.min(ROUNDS_MAX)),
        Some(raw.prior_cwnd),
        Some(raw.loss_in_round.into()),
        Some(raw.loss_round_start.into()),
        Some(raw.loss_events_in_round.into()),
        Some(raw.bw_latest),
        Some(raw.inflight_latest),
    ]
}

/// Returns the kernel's mode, and its phase of PROBE_BW.
const fn mode(state: Phase) -> (u64, Option<u64>) {
    match state {
        Phase::Startup => (0, None),
        Phase::Drain => (1, None),
        Phase::ProbeBwUp => (2, Some(0)),
        Phase::ProbeBwDown => (2, Some(1)),
        Phase::ProbeBwCruise => (2, Some(2)),
        Phase::ProbeBwRefill => (2, Some(3)),
        _ => (3, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_32_bits_go_on_beyond_their_end() {
        let mut counter = Counter::default();
        let first = counter.see(u32::MAX - 1);
        assert_eq!(counter.see(3), first + 5);
        assert_eq!(counter.near(u32::MAX), first + 1, "older than the last");
        assert_eq!(counter.see(4), first + 6);
    }

    #[test]
    fn a_tick_that_the_log_lacks_follows_from_the_clock() {
        let mut flow = V3Flow::default();
        let tick = flow.see_tick(7_999_999, u32::MAX);
        assert_eq!(flow.tick_of(7_999_999), tick);
        assert_eq!(flow.tick_of(8_000_000), tick + 1);
        assert_eq!(flow.tick_of(0), tick);
    }
}
