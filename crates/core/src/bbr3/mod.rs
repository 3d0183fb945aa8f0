//! BBRv3 by draft-ietf-ccwg-bbr-06, with the draft's names; rule tables also make it Google's v3 for Linux, v2alpha and
//! the prototype of 2017.
//! A flow's life: Startup doubles the rate until it stops growing or loss is high, Drain empties the queue that Startup built;
//! then cycles of ProbeBW: drain, cruise below the known bounds, refill the pipe, probe above them; ProbeRTT every 5 s.
//!
//! Volumes are in the edition's own unit: bytes in the draft's, where a full packet is `mss` of them, packets in the kernel's.
//! Bandwidth is volume/µs · 2^24, gains and shares are in 1/25600. Marks of the delivered count are volumes too.
//! `spec:` without a source names a place in the draft. `Decision:` marks a point that the draft leaves open or contradicts.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod aggregation;
mod bounds;
mod ecn;
mod flow;
mod full_pipe;
mod host;
#[cfg(any(feature = "unstable-internals", test))]
mod internals;
mod lab;
mod loss;
mod min_rtt;
mod model;
mod params;
mod phase;
mod probe;
mod probe_rtt;
mod queue;
mod rules;
mod startup;
mod undo;
mod window;

use core::marker::PhantomData;

use crate::State;
use crate::event::{Ack, CaState, Init, TxStart};
use crate::params::{FINE, MAX_PARAMS};
use crate::sampler::FlightSample;
use crate::snapshot::{self, Snapshot};
use crate::state::Cause;
use crate::units::{Rate, Span};
use crate::wide;
use aggregation::Aggregation;
use bounds::Limits;
use ecn::Ecn;
use full_pipe::FullPipe;
use host::Host;
use min_rtt::MinRtt;
use model::Model;
use phase::{Gains, Phase};
use probe::Probe;
use queue::QueueState;
use rules::{FastPath, Marks};
use undo::Undo;
use window::Window;

#[cfg(all(test, not(feature = "unstable-internals")))]
use internals::Bbr3Internals;
#[cfg(feature = "unstable-internals")]
pub use internals::{Bbr3Internals, Bbr3Raw, GAIN_UNIT};
pub use lab::{LabParams, QueueParams};
pub use params::Bbr3Params;
pub use rules::{Draft06, Edition, Ietf100, Lab, LinuxV2, LinuxV3, Rules};

/// Fixed-point unit of bandwidth: volume/µs times this. Source: Linux `BW_UNIT`.
const BW_UNIT: u64 = 1 << BW_SHIFT;
const BW_SHIFT: u32 = 24;
/// Gain 1.
const UNIT: u32 = FINE;
/// No bound. Source: the draft's `Infinity`.
const INFINITY: u64 = u64::MAX;

/// Values that the steps of one ACK pass to each other.
#[derive(Clone, Copy, Debug)]
struct AckFlags {
    /// True if the ACK delivered something. Decision: one that did not changes neither rounds nor signals.
    has_data: bool,
    /// Draft: `RS.delivery_rate`; 0 where the interval is too short to be reliable.
    delivery_rate: u64,
    /// True if Linux takes its fast path.
    is_fast: bool,
    /// The state and the minimum RTT before the ACK.
    state: State,
    min_rtt_us: u64,
}

impl AckFlags {
    const NONE: Self = Self { has_data: false, delivery_rate: 0, is_fast: false, state: State::Startup, min_rtt_us: 0 };
}

/// A flow of BBRv2 or BBRv3 that follows the rules of an edition.
#[derive(Clone, Debug)]
pub struct Bbr3<R: Rules> {
    p: Bbr3Params,
    host: Host,
    phase: Phase,
    cause: Cause,
    gains: Gains,
    out: Window,
    model: Model,
    bounds: Limits,
    full_pipe: FullPipe,
    min_rtt: MinRtt,
    aggregation: Aggregation,
    probe: Probe,
    ecn: Ecn,
    undo: Undo,
    queue: R::Queue,
    seen: AckFlags,
    prev_ca_state: CaState,
    /// Draft: `BBR.idle_restart`.
    idle_restart: bool,
    mark_app_limited: bool,
    rules: PhantomData<R>,
}

impl<R: Rules> Bbr3<R> {
    /// Creates a flow that begins now.
    pub fn new(params: &Bbr3Params, init: &Init) -> Self {
        let mut bbr = Self {
            p: *params,
            host: Host::NONE,
            phase: Phase::Startup,
            cause: Cause::Begin,
            gains: Gains::NONE,
            out: Window::NONE,
            model: Model::NONE,
            bounds: Limits::NONE,
            full_pipe: FullPipe::NONE,
            min_rtt: MinRtt::NONE,
            aggregation: Aggregation::NONE,
            probe: Probe::NONE,
            ecn: Ecn::NONE,
            undo: Undo::NONE,
            queue: R::Queue::NONE,
            seen: AckFlags::NONE,
            prev_ca_state: CaState::Open,
            idle_restart: false,
            mark_app_limited: false,
            rules: PhantomData,
        };
        bbr.init(params, init);
        bbr
    }

    /// Initialises a flow in place, part by part, for hosts that have no room for a second one.
    // spec: #initialization OnInit. Decision: fields that OnInit does not initialise begin as in Linux bbr_init.
    pub fn init(&mut self, params: &Bbr3Params, init: &Init) {
        self.p = *params;
        self.host.init(init, R::COUNTS_PACKETS, R::INITIAL_CWND_MAX, params.min_pipe_cwnd);
        self.phase = Phase::Startup;
        self.cause = Cause::Begin;
        self.gains = Gains::of::<R>(State::Startup, &self.p);
        self.out = Window::NONE;
        self.out.cwnd = u64::from(init.initial_cwnd.max(1)).min(init.cwnd_clamp.max(1).into()) * self.smss();
        self.model = Model::NONE;
        self.model.rounds.next_delivered = init.delivered;
        self.bounds.init(init.delivered);
        self.full_pipe = FullPipe::NONE;
        let (interval, filter_len) = (self.ticks(params.probe_rtt_interval), self.ticks(params.min_rtt_filter_len));
        self.min_rtt.init(init, self.tick(init.now, init.tick), interval, filter_len);
        self.aggregation = Aggregation::NONE;
        self.aggregation.restart(init.now.as_micros());
        self.probe.init(init.seed);
        self.ecn = Ecn::NONE;
        self.undo = Undo::NONE;
        self.restart_queue();
        self.seen = AckFlags::NONE;
        self.prev_ca_state = CaState::Open;
        self.idle_restart = false;
        self.mark_app_limited = false;
        self.init_pacing_rate(init.srtt);
        self.set_send_quantum();
    }

    /// Initialises in place from the values of [`AlgorithmConfig::values`](crate::AlgorithmConfig::values).
    #[inline]
    pub fn init_with_values(&mut self, values: &[u32; MAX_PARAMS], init: &Init) {
        self.queue.set_parameters(values);
        self.init(&Bbr3Params::from_values(values, R::Queue::PARAMETERS), init);
    }

    /// Handles one ACK, in the draft's order: the steps below, which may also be called one by one, in this order.
    // spec: #per-ack-steps UpdateOnACK, UpdateModelAndState. Differs: BBR.bw is derived from its two bounds on use, so
    // nothing updates it last.
    #[inline]
    pub fn on_ack(&mut self, ack: &Ack, flight: &FlightSample) {
        self.step_round(ack, flight);
        self.step_signals(ack, flight);
        self.step_startup(ack, flight);
        self.step_cycle(ack, flight);
        self.step_rtt(ack, flight);
        self.step_outputs(ack, flight);
    }

    /// First step of an ACK: its rate, the round, and the choice of the fast path.
    #[inline]
    pub fn step_round(&mut self, ack: &Ack, flight: &FlightSample) {
        self.sample(ack);
        self.model.update_round(self.seen.has_data, ack.rs.prior_delivered, ack.delivered);
        if self.model.rounds.start {
            self.probe.rounds_since_probe_up = self.probe.rounds_since_probe_up.saturating_add(1);
        }
        if matches!(R::MARKS, Marks::Share) {
            self.update_ecn(ack, flight);
        }
        if !matches!(R::FAST_PATH, FastPath::None) {
            self.seen.is_fast = self.may_take_fast_path(ack);
            (self.seen.state, self.seen.min_rtt_us) = (self.phase.state(), self.min_rtt.min_rtt_us);
        }
    }

    /// Second step of an ACK: volume delivered and lost in the round, and the aggregation of ACKs.
    #[inline]
    pub fn step_signals(&mut self, ack: &Ack, flight: &FlightSample) {
        if !self.is_fast() || matches!(R::FAST_PATH, FastPath::KeepsSignals) {
            self.update_latest_delivery_signals(ack);
        }
        if !self.is_fast() {
            self.update_congestion_signals(ack, flight);
            self.update_ack_aggregation(ack);
        }
    }

    /// Third step of an ACK: tests for a full pipe, and for the end of the queue that Startup built.
    #[inline]
    pub fn step_startup(&mut self, ack: &Ack, flight: &FlightSample) {
        if !self.is_fast() {
            self.check_full_bw_reached(ack, flight);
        }
        self.check_startup_done(ack, flight);
        self.check_drain_done(ack);
    }

    /// Fourth step of an ACK: the cycle of ProbeBW.
    #[inline]
    pub fn step_cycle(&mut self, ack: &Ack, flight: &FlightSample) {
        self.update_probe_bw_cycle_phase(ack, flight);
    }

    /// Fifth step of an ACK: the minimum RTT and ProbeRTT. A kernel's verifier checks the halves of bbr-lab's one by one.
    #[inline]
    pub fn step_rtt(&mut self, ack: &Ack, flight: &FlightSample) {
        self.step_min_rtt(ack, flight);
        self.step_probe_rtt(ack, flight);
    }

    /// First half of [`step_rtt`](Self::step_rtt): the minimum RTT, and what follows from the queue.
    #[inline]
    pub fn step_min_rtt(&mut self, ack: &Ack, _flight: &FlightSample) {
        self.update_min_rtt(ack);
        self.update_queue(ack);
    }

    /// Second half of [`step_rtt`](Self::step_rtt): ProbeRTT.
    #[inline]
    pub fn step_probe_rtt(&mut self, ack: &Ack, _flight: &FlightSample) {
        self.check_probe_rtt(ack);
        self.advance_latest_delivery_signals(ack);
    }

    /// Last step of an ACK: rate, quantum and window, and preparation for the next ACK.
    // spec: google/bbr v3 bbr_main, bbr_run_fast_path
    #[inline]
    pub fn step_outputs(&mut self, ack: &Ack, flight: &FlightSample) {
        let seen = &self.seen;
        let is_same = seen.state as u8 == self.phase.state() as u8 && seen.min_rtt_us == self.min_rtt.min_rtt_us;
        if !self.is_fast() || !self.out.try_fast_path || !is_same {
            self.update_control_parameters(ack);
        }
        self.end_ack(ack, flight);
    }

    /// First part of [`step_outputs`](Self::step_outputs) of an edition without a fast path: rate, quantum, and v3's window.
    #[inline]
    pub fn step_plan(&mut self, ack: &Ack, _flight: &FlightSample) {
        if !self.is_plan_valid() {
            self.begin_plan(ack.srtt);
        }
    }

    /// Second part: the window is bounded by the queue.
    #[inline]
    pub fn step_bound(&mut self, _ack: &Ack, _flight: &FlightSample) {
        if !self.is_plan_valid() {
            self.end_plan();
        }
    }

    /// Last part: the window, and preparation for the next ACK.
    #[inline]
    pub fn step_window(&mut self, ack: &Ack, flight: &FlightSample) {
        self.set_cwnd(ack);
        self.end_ack(ack, flight);
    }

    #[inline]
    fn end_ack(&mut self, ack: &Ack, flight: &FlightSample) {
        self.forget_old_episode(ack.ca_state);
        if matches!(R::MARKS, Marks::Share) {
            self.note_cycle(flight);
        }
        self.prev_ca_state = ack.ca_state;
        self.check();
    }

    #[inline]
    const fn is_fast(&self) -> bool {
        !matches!(R::FAST_PATH, FastPath::None) && self.seen.is_fast
    }

    /// True for an application-limited sample without information, while window and target agree. Linux then saves its work,
    /// and does not update the aggregation of ACKs either.
    // spec: google/bbr v3 bbr_run_fast_path
    #[inline]
    fn may_take_fast_path(&self, ack: &Ack) -> bool {
        self.out.try_fast_path
            && ack.rs.is_app_limited
            && self.seen.delivery_rate < self.model.max_bw()
            && !self.bounds.is_loss_in_round
            && !self.ecn.in_round
    }

    // spec: #per-ack-steps UpdateControlParameters
    // Rate, quantum and most of the window depend only on the model, which few ACKs change.
    #[inline]
    fn update_control_parameters(&mut self, ack: &Ack) {
        if !self.is_plan_valid() {
            self.make_plan(ack.srtt);
        }
        debug_assert!(self.is_plan_right(), "an input of the plan changed unnoticed");
        self.set_cwnd(ack);
    }

    /// Checks the invariants that hold after every ACK.
    #[inline]
    fn check(&self) {
        // After a time-out, Linux lets the window grow from one packet.
        let floor = if R::WINDOW_NEEDS_ACKED { self.smss() } else { self.host.min_pipe_cwnd() };
        debug_assert!(self.out.cwnd >= floor.min(self.host.cwnd_clamp()), "window below its floor");
        debug_assert!(self.out.pacing_rate > 0 && self.out.send_quantum > 0);
        debug_assert!(self.bounds.bw_shortterm > 0, "a bound of nothing would stop the flow");
        debug_assert!(
            self.inflight_with_headroom() <= self.bounds.inflight_longterm.max(self.host.min_pipe_cwnd()),
            "less than no headroom"
        );
    }

    /// Derives rate and evidence from an ACK.
    // spec: #upon-receiving-an-ack GenerateRateSample. Linux rounds the rate up, so that a low one can grow.
    #[inline]
    fn sample(&mut self, ack: &Ack) {
        let delivered = ack.rs.delivered.unwrap_or(0);
        let scaled = if delivered >> (64 - BW_SHIFT) == 0 { delivered << BW_SHIFT } else { u64::MAX };
        self.seen.has_data = ack.rs.delivered.is_some();
        if R::SAMPLE_NEEDS_RATE {
            self.seen.has_data &= ack.rs.interval_us.is_some() && ack.rs.acked_sacked > 0;
        }
        self.seen.delivery_rate = match ack.rs.interval_us {
            Some(us) if us > 0 => {
                if R::RATES_ROUND_UP {
                    scaled.saturating_add(us - 1) / us
                } else {
                    scaled / us
                }
            }
            _ => 0,
        };
    }

    /// Volume of a full packet.
    #[inline]
    const fn smss(&self) -> u64 {
        if R::COUNTS_PACKETS { 1 } else { self.host.smss() }
    }

    /// Draft: `BBR.bw`.
    // spec: #when-not-probing-for-bandwidth BoundBWForModel
    #[inline]
    fn bw(&self) -> u64 {
        self.model.max_bw().min(self.bounds.bw_shortterm)
    }

    /// Handles a packet that leaves while none is in flight.
    // spec: #per-transmit-steps OnTransmit
    pub fn on_tx_start(&mut self, start: &TxStart) {
        self.handle_restart_from_idle(start);
    }

    // spec: #actions-when-restarting-from-idle HandleRestartFromIdle; Linux bbr_cwnd_event(CA_EVENT_TX_START)
    fn handle_restart_from_idle(&mut self, start: &TxStart) {
        if !start.app_limited {
            return;
        }
        self.idle_restart = true;
        // Decision: the whole epoch begins anew, as in Linux; the draft resets its time but does not mention its volume.
        self.aggregation.restart(start.now.as_micros());
        if self.phase.is_in_a_probe_bw_state() {
            self.take_first_rtt(start.srtt);
            self.set_pacing_rate_with_gain(UNIT);
            self.set_send_quantum();
        } else if self.phase.is_probe_rtt() {
            self.check_probe_rtt_done(start.now, start.tick, start.delivered);
        }
    }

    /// Sets the payload bytes of a full packet. Measurements in bytes stay in bytes, those in packets stay in packets, as in Linux.
    pub fn on_mss(&mut self, mss: u32) {
        self.host.set_mss(mss, R::COUNTS_PACKETS);
        if !R::COUNTS_PACKETS {
            let clamp = self.host.cwnd_clamp();
            self.out.cwnd = self.out.cwnd.min(clamp).max(self.host.min_pipe_cwnd().min(clamp));
            self.set_send_quantum();
        }
    }

    /// Sets an upper bound on the pacing rate from now on (Linux `SO_MAX_PACING_RATE`).
    pub fn set_max_pacing_rate(&mut self, max: Option<Rate>) {
        self.host.set_max_rate(max);
        self.out.pacing_rate = self.out.pacing_rate.min(self.host.max_rate()).max(1);
    }

    /// Leaves room in the window for data whose ACKs the peer holds back: up to `packets` packets, or `max_ack_delay`.
    /// 0 packets: no such request.
    // spec: #quic-offload-budget
    pub const fn set_ack_frequency(&mut self, packets: u32, max_ack_delay: Span) {
        self.host.set_ack_frequency(packets, max_ack_delay);
    }

    /// Sets the window before the flow began, in packets, if it was larger: Linux remembers that of a lost SYN.
    // spec: Linux tcp_sock.prior_cwnd, as bbr_init takes it over
    pub const fn set_prior_cwnd(&mut self, packets: u32) {
        self.undo.prior_cwnd = (packets as u64).wrapping_mul(self.smss()); // both below 2^32
    }

    /// Congestion window in whole packets.
    #[inline]
    pub fn cwnd(&self) -> u32 {
        u32::try_from(self.out.cwnd / self.smss().max(1)).unwrap_or(u32::MAX).max(1)
    }

    /// Congestion window in bytes.
    #[inline]
    pub fn cwnd_bytes(&self) -> u64 {
        if R::COUNTS_PACKETS { wide::saturating_mul(self.out.cwnd, self.host.unit_bytes()) } else { self.out.cwnd }
    }

    /// Pacing rate.
    #[inline]
    pub const fn pacing_rate(&self) -> Rate {
        Rate::bits_per_sec(self.out.pacing_rate << 3) // never above an eighth of what 64 bits hold
    }

    /// Burst size in bytes where the algorithm sets it, as in the draft; `None` where the host does, as in Linux.
    pub const fn send_quantum(&self) -> Option<u64> {
        if R::OWN_QUANTUM { Some(self.out.send_quantum) } else { None }
    }

    /// Smallest burst that the sender may make, in packets.
    // spec: Linux sysctl_tcp_min_tso_segs; v2alpha bbr_min_tso_segs
    pub const fn min_tso_segs(&self) -> u32 {
        if self.out.pacing_rate < R::SMALL_BURST_RATE { 1 } else { self.p.send_quantum_min }
    }

    /// True if samples of the data now in flight would measure ProbeRTT, not the path.
    // spec: #probertt-logic HandleProbeRTT calls MarkConnectionAppLimited
    #[inline]
    pub const fn wants_app_limited(&self) -> bool {
        self.mark_app_limited
    }

    /// Returns a snapshot of the flow's model.
    pub fn snapshot(&self) -> Snapshot {
        let in_256ths = |gain: u32| (u64::from(gain) * 256 + u64::from(UNIT) / 2) as u32 / UNIT;
        Snapshot {
            cause: self.cause,
            bw: Rate::bytes_per_sec(self.rate_bytes_per_sec(self.bw(), UNIT, 0)),
            min_rtt: (self.min_rtt.min_rtt_us != INFINITY).then_some(Span::micros(self.min_rtt.min_rtt_us)),
            pacing_gain: in_256ths(self.gains.pacing),
            cwnd_gain: in_256ths(self.gains.cwnd),
            round_count: self.model.rounds.count,
            full_bw_reached: self.full_pipe.reached,
            extra_acked: u32::try_from(self.aggregation.extra_acked / self.smss().max(1)).unwrap_or(u32::MAX),
            bounds: self.shown(self.bounds.bw_shortterm, self.bounds.inflight_shortterm, self.bounds.inflight_longterm),
            undo: self.undo_bounds(),
            ..Snapshot::of(self.state())
        }
    }

    /// Converts bounds to the host's units.
    fn shown(&self, bw: u64, shortterm: u64, longterm: u64) -> snapshot::Bounds {
        let bytes = |volume: u64| (volume != INFINITY).then(|| wide::saturating_mul(volume, self.host.unit_bytes()));
        snapshot::Bounds {
            bw_shortterm: (bw != INFINITY).then(|| Rate::bytes_per_sec(self.rate_bytes_per_sec(bw, UNIT, 0))),
            inflight_shortterm: bytes(shortterm),
            inflight_longterm: bytes(longterm),
        }
    }

    /// State of the flow, for traces.
    pub const fn state(&self) -> State {
        self.phase.state()
    }
}

/// `value` times `by`/25600, rounded down, saturating.
#[inline]
const fn scaled(value: u64, by: u32) -> u64 {
    if value >> 32 == 0 { value * by as u64 / FINE as u64 } else { scaled_wide(value, by as u64) }
}

/// The same as `scaled`, in two parts; the second one is small.
#[inline(never)]
const fn scaled_wide(value: u64, by: u64) -> u64 {
    let unit = FINE as u64;
    wide::saturating_mul(value / unit, by).saturating_add(value % unit * by / unit)
}

#[cfg(test)]
mod tests;
