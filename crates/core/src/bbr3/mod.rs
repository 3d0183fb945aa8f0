//! BBRv3 by draft-ietf-ccwg-bbr-06, with the draft's names; by a few switches also Google's v3 for Linux, v2alpha and the prototype of 2017.
//! In: one [`Ack`] at a time with its [`FlightSample`], each packet lost, the host's recovery events. Out: window, rate, quantum. Never: a clock.
//! A flow's life: Startup doubles the rate until it stops growing or loss is high, Drain empties the queue that made;
//! then cycles of ProbeBW: drain, cruise below the known bounds, refill the pipe, probe above them; ProbeRTT every 5 s.
//!
//! Volumes are counted in `smss` a packet: bytes in the draft's edition, where a packet is `mss` of them, packets in the kernel's,
//! where it is one. Bandwidth is volume/µs · 2^24, gains and shares are in 1/25600. Marks of the delivered count are in packets.
//! `spec:` without a source names a place in the draft. `Decision:` marks what the draft leaves open or says in two ways.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod aggregation;
mod ecn;
mod inside;
mod loss;
mod params;
mod probe_bw;
mod probe_rtt;
mod signals;
mod startup;
mod window;

use crate::State;
use crate::event::{Ack, Bounds, CaState, Init, Snapshot, TxStart};
use crate::params::FINE;
use crate::rate_sample::FlightSample;
use crate::rng::Rng;
use crate::shared::{FullPipe, Rounds};
use crate::units::{Rate, Span, Time};
use aggregation::Aggregation;
use ecn::Ecn;
use loss::Undo;
use window::Plan;

pub use inside::{Bbr3Inside, GAIN_UNIT};
pub use params::Bbr3Params;
pub(crate) use params::{IETF100, LINUX, V2};

/// Bandwidth is counted in volume/µs times this. Source: Linux `BW_UNIT`.
const BW_UNIT: u64 = 1 << 24;
/// Gain 1.
const UNIT: u32 = FINE;
/// No bound. Source: the draft's `Infinity`.
const INFINITY: u64 = u64::MAX;

/// Which text is followed where they differ by more than a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edition {
    /// draft-ietf-ccwg-bbr-06: bytes, a byte-exact window.
    Draft06,
    /// Google's v3 for Linux: packets, the kernel's clock and rounding.
    Linux,
    /// Google's v2alpha for Linux.
    V2,
    /// The prototype of IETF 100.
    Ietf100,
}

impl Edition {
    /// The kernel's rules.
    const fn is_kernel(self) -> bool {
        !matches!(self, Self::Draft06)
    }

    /// The rules before v3.
    const fn is_v2(self) -> bool {
        matches!(self, Self::V2 | Self::Ietf100)
    }
}

/// What the flow is doing (draft: `BBR.state`), with what only that needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Startup,
    /// Since this round (draft: `BBR.drain_start_round`).
    Drain {
        start_round: u64,
    },
    ProbeBwDown,
    ProbeBwCruise,
    ProbeBwRefill,
    ProbeBwUp,
    /// Draft: `BBR.probe_rtt_done_stamp`, in ticks, and `BBR.probe_rtt_round_done`.
    ProbeRtt {
        done_stamp: Option<u64>,
        round_done: bool,
    },
}

/// What ACKs say about probing (draft: `BBR.ack_phase`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// The draft's `RS` and `C` at one ACK, in this flow's units.
#[derive(Clone, Copy, Debug)]
struct Sample<'a> {
    ack: &'a Ack,
    flight: &'a FlightSample,
    smss: u64,
    /// The ACK delivered something. Decision: one that did not changes neither rounds nor signals.
    has_data: bool,
    /// 0 where the interval is too short to be believed.
    delivery_rate: u64,
    delivered: u64,
    newly_acked: u64,
    inflight: u64,
}

impl Sample<'_> {
    const fn tx_in_flight(&self) -> u64 {
        self.flight.tx_in_flight as u64 * self.smss // both below 2^32
    }

    const fn lost(&self) -> u64 {
        self.flight.lost as u64 * self.smss
    }

    const fn delivered_ce(&self) -> u64 {
        self.flight.delivered_ce as u64 * self.smss
    }

    const fn prior_inflight(&self) -> u64 {
        self.ack.rs.prior_in_flight.saturating_mul(self.smss)
    }
}

/// A flow of BBRv2 or BBRv3.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "the draft's state is that")]
pub struct Bbr3 {
    p: Bbr3Params,
    edition: Edition,
    /// Volume of a packet, and bytes of a unit of volume.
    smss: u64,
    unit_bytes: u64,
    mss: u64,
    initial_cwnd: u64,
    cwnd_clamp: u64,
    /// Draft: `BBR.MinPipeCwnd`.
    min_pipe_cwnd: u64,
    has_selective_acks: bool,
    // Outputs
    cwnd: u64,
    /// The same in whole packets: hosts ask for it far more often than it changes.
    cwnd_packets: u32,
    /// Bytes per second.
    pacing_rate: u64,
    send_quantum: u64,
    plan: Plan,
    // General
    state: Phase,
    /// The gains are still those of the state before.
    is_state_new: bool,
    pacing_gain: u32,
    cwnd_gain: u32,
    rounds: Rounds,
    idle_restart: bool,
    has_seen_rtt: bool,
    mark_app_limited: bool,
    /// Linux: the window is at its target.
    try_fast_path: bool,
    rng: Rng,
    // Model
    max_bw_filter: [u64; 2],
    /// Draft: `BBR.max_bw`: the larger of the two.
    max_bw: u64,
    bw_shortterm: u64,
    /// Draft: `BBR.bw`.
    bw: u64,
    inflight_longterm: u64,
    inflight_shortterm: u64,
    min_rtt_us: u64,
    aggregation: Aggregation,
    // Congestion
    bw_latest: u64,
    inflight_latest: u64,
    loss_round_delivered: u64,
    loss_round_start: bool,
    is_loss_in_round: bool,
    loss_events_in_round: u32,
    last_lost_seq: u64,
    is_tlp_ack: bool,
    ecn: Ecn,
    undo: Undo,
    prior_cwnd: u64,
    prev_ca_state: CaState,
    // Full pipe
    full_bw: FullPipe,
    full_bw_now: bool,
    full_bw_reached: bool,
    // ProbeBW
    ack_phase: AckPhase,
    is_bw_probe_sample: bool,
    bw_probe_up_acked: u64,
    probe_up_acked_per_inc: u64,
    bw_probe_up_rounds: u32,
    rounds_since_probe_up: u64,
    bw_probe_wait: Span,
    cycle_stamp: Time,
    prev_probe_too_high: bool,
    prev_probe_precautionary: bool,
    // ProbeRTT; stamps in ticks
    probe_rtt_interval: u64,
    min_rtt_filter_len: u64,
    min_rtt_stamp: u64,
    probe_rtt_min_delay_us: u64,
    probe_rtt_min_stamp: u64,
    probe_rtt_expired: bool,
}

impl Bbr3 {
    /// A flow that begins now.
    // spec: #initialization OnInit. Decision: what that does not initialise begins as in Linux bbr_init.
    pub fn new(params: &Bbr3Params, edition: Edition, init: &Init) -> Self {
        let mss = u64::from(init.mss.max(1));
        let (smss, unit_bytes) = if edition.is_kernel() { (1, mss) } else { (mss, 1) };
        let clamp = init.cwnd_clamp.max(1);
        let cwnd = u64::from(init.initial_cwnd.clamp(1, clamp)) * smss;
        let min_rtt_us = init.min_rtt.or(init.srtt).map_or(INFINITY, |srtt| srtt.as_micros().max(1));
        let mut bbr = Self {
            p: *params,
            edition,
            smss,
            unit_bytes,
            mss,
            // Linux keeps seven bits of it.
            initial_cwnd: if edition.is_kernel() { cwnd.min(127) } else { cwnd },
            cwnd_clamp: u64::from(clamp) * smss,
            has_selective_acks: init.selective_acks,
            cwnd,
            cwnd_packets: 0,
            pacing_rate: 0,
            send_quantum: 0,
            plan: Plan::NONE,
            state: Phase::Startup,
            is_state_new: false,
            pacing_gain: params.startup_pacing_gain,
            cwnd_gain: params.startup_cwnd_gain,
            rounds: Rounds { next_delivered: init.delivered, ..Rounds::default() },
            idle_restart: false,
            has_seen_rtt: false,
            mark_app_limited: false,
            try_fast_path: false,
            rng: Rng::derive(init.seed, 0x0062_6272_0033),
            max_bw_filter: [0; 2],
            max_bw: 0,
            min_pipe_cwnd: u64::from(params.min_pipe_cwnd) * smss,
            bw_shortterm: INFINITY,
            bw: 0,
            inflight_longterm: INFINITY,
            inflight_shortterm: INFINITY,
            min_rtt_us,
            aggregation: Aggregation::new(init.now.as_micros()),
            bw_latest: 0,
            inflight_latest: 0,
            // The first round of loss begins once the first flight is acknowledged.
            loss_round_delivered: init.delivered.saturating_add(1),
            loss_round_start: false,
            is_loss_in_round: false,
            loss_events_in_round: 0,
            last_lost_seq: INFINITY,
            is_tlp_ack: false,
            ecn: Ecn::default(),
            undo: Undo::default(),
            prior_cwnd: 0,
            prev_ca_state: CaState::Open,
            full_bw: FullPipe::default(),
            full_bw_now: false,
            full_bw_reached: false,
            ack_phase: AckPhase::Init,
            is_bw_probe_sample: false,
            bw_probe_up_acked: 0,
            probe_up_acked_per_inc: INFINITY,
            bw_probe_up_rounds: 0,
            rounds_since_probe_up: 0,
            bw_probe_wait: Span::ZERO,
            cycle_stamp: Time::ZERO,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            probe_rtt_interval: 0,
            min_rtt_filter_len: 0,
            min_rtt_stamp: 0,
            probe_rtt_min_delay_us: min_rtt_us,
            probe_rtt_min_stamp: 0,
            probe_rtt_expired: false,
        };
        bbr.probe_rtt_interval = bbr.ticks(params.probe_rtt_interval);
        bbr.min_rtt_filter_len = bbr.ticks(params.min_rtt_filter_len);
        bbr.min_rtt_stamp = bbr.tick(init.now, init.tick);
        bbr.probe_rtt_min_stamp = bbr.min_rtt_stamp;
        bbr.init_pacing_rate(init.srtt);
        bbr.set_send_quantum();
        bbr.note_cwnd();
        bbr
    }

    /// One ACK, in the draft's order.
    // spec: #per-ack-steps UpdateOnACK
    pub fn on_ack(&mut self, ack: &Ack, flight: &FlightSample) {
        let rs = self.sample(ack, flight);
        if self.update_model_and_state(&rs) {
            self.update_control_parameters(&rs, ack.srtt);
        }
        self.forget_old_episode(ack.ca_state);
        if self.edition.is_kernel() {
            self.note_cycle(&rs);
        }
        self.prev_ca_state = ack.ca_state;
        self.check();
    }

    /// False: nothing happened that the outputs depend on.
    // spec: #per-ack-steps UpdateModelAndState; google/bbr v3 bbr_main, bbr_run_fast_path.
    // Differs: BBR.bw follows its two bounds at once, so nothing updates it last.
    #[inline]
    fn update_model_and_state(&mut self, rs: &Sample<'_>) -> bool {
        self.update_round(rs);
        let fast = if self.edition.is_kernel() { self.begin_kernel_ack(rs) } else { None };
        if fast.is_none() {
            self.update_latest_delivery_signals(rs);
            self.update_congestion_signals(rs);
            self.update_ack_aggregation(rs);
            self.check_full_bw_reached(rs);
        }
        self.check_startup_done(rs);
        self.check_drain_done(rs);
        self.update_probe_bw_cycle_phase(rs);
        self.update_min_rtt(rs);
        self.check_probe_rtt(rs);
        self.advance_latest_delivery_signals(rs);
        if self.is_state_new {
            self.update_gains();
        }
        match fast {
            None => true,
            Some(before) => !self.try_fast_path || before != (self.state(), self.min_rtt_us),
        }
    }

    /// What the kernel does first. The state and RTT before if the rest can be short; v2alpha then does without the latest signals.
    #[inline(never)]
    fn begin_kernel_ack(&mut self, rs: &Sample<'_>) -> Option<(State, u64)> {
        self.update_ecn(rs);
        if !self.may_take_fast_path(rs) {
            return None;
        }
        if !self.edition.is_v2() {
            self.update_latest_delivery_signals(rs);
        }
        Some((self.state(), self.min_rtt_us))
    }

    /// An application-limited sample that can teach nothing, while window and target agree. Linux then saves its work, and does not
    /// watch the aggregation of ACKs either.
    // spec: google/bbr v3 bbr_run_fast_path
    fn may_take_fast_path(&self, rs: &Sample<'_>) -> bool {
        self.try_fast_path
            && rs.ack.rs.is_app_limited
            && rs.delivery_rate < self.max_bw()
            && !self.is_loss_in_round
            && !self.ecn.in_round
    }

    // spec: #per-ack-steps UpdateControlParameters
    // Rate, quantum and most of the window follow from the model alone, which few ACKs change.
    #[inline]
    fn update_control_parameters(&mut self, rs: &Sample<'_>, srtt: Option<Span>) {
        if !self.is_plan_valid() {
            self.take_first_rtt(srtt);
            self.set_pacing_rate();
            self.set_send_quantum();
            self.make_plan();
        }
        debug_assert!(self.is_plan_right(), "an input of the plan changed unnoticed");
        self.set_cwnd(rs);
    }

    /// What holds after every ACK.
    fn check(&self) {
        // After a time-out Linux lets the window grow from one packet.
        let floor = if self.edition.is_kernel() { self.smss } else { self.min_pipe_cwnd };
        debug_assert!(self.cwnd >= floor.min(self.cwnd_clamp), "window below its floor");
        debug_assert!(self.pacing_rate > 0 && self.send_quantum > 0);
        debug_assert!(self.bw == self.max_bw.min(self.bw_shortterm), "a bound of the rate changed unnoticed");
        debug_assert!(self.bw_shortterm > 0, "a bound of nothing would stop the flow");
        debug_assert!(self.inflight_with_headroom() <= self.inflight_longterm.max(self.min_pipe_cwnd));
        debug_assert!(u64::from(self.cwnd_packets) == (self.cwnd / self.smss).clamp(1, u32::MAX.into()));
    }

    /// The host's ACK in this flow's units.
    // spec: #upon-receiving-an-ack GenerateRateSample. Linux rounds the rate up, so that a low one can grow.
    #[inline]
    fn sample<'a>(&self, ack: &'a Ack, flight: &'a FlightSample) -> Sample<'a> {
        let delivered = self.volume(ack.rs.delivered.unwrap_or(0));
        let interval_us = ack.rs.interval_us.unwrap_or(u64::MAX).max(1);
        let (mut volume, mut has_data) = (delivered.saturating_mul(BW_UNIT), ack.rs.delivered.is_some());
        if self.edition.is_kernel() {
            volume = volume.saturating_add(interval_us - 1);
            // Linux has no use for a sample without a rate, or of what was delivered before.
            has_data &= ack.rs.interval_us.is_some() && ack.rs.acked_sacked > 0;
        }
        let delivery_rate = if ack.rs.interval_us.is_some() { volume / interval_us } else { 0 };
        Sample {
            ack,
            flight,
            smss: self.smss,
            has_data,
            delivery_rate,
            delivered,
            newly_acked: self.volume(ack.rs.acked_sacked),
            inflight: u64::from(ack.in_flight) * self.smss,
        }
    }

    /// So many packets in this flow's units.
    #[inline]
    const fn volume(&self, packets: u64) -> u64 {
        packets.saturating_mul(self.smss)
    }

    /// A packet leaves while none is in flight.
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
        // Decision: the whole epoch begins anew, as in Linux; the draft resets its time and forgets its volume.
        self.aggregation.restart(start.now.as_micros());
        if self.is_in_a_probe_bw_state() {
            self.take_first_rtt(start.srtt);
            self.set_pacing_rate_with_gain(UNIT);
            self.set_send_quantum();
            self.forget_plan();
        } else if matches!(self.state, Phase::ProbeRtt { .. }) {
            self.check_probe_rtt_done(start.now, start.tick, start.delivered);
            self.update_gains();
        }
    }

    /// Payload bytes of a full packet changed. What was measured in bytes stays so; what was in packets too, as in Linux.
    pub fn on_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss.max(1));
        self.forget_plan();
        if self.edition.is_kernel() {
            self.unit_bytes = self.mss;
            return;
        }
        let clamp = self.cwnd_clamp / self.smss;
        self.smss = self.mss;
        self.cwnd_clamp = self.volume(clamp);
        self.min_pipe_cwnd = self.volume(u64::from(self.p.min_pipe_cwnd));
        self.cwnd = self.cwnd.min(self.cwnd_clamp).max(self.min_pipe_cwnd.min(self.cwnd_clamp));
        self.set_send_quantum();
        self.note_cwnd();
    }

    /// Congestion window, whole packets.
    #[inline]
    pub const fn cwnd(&self) -> u32 {
        self.cwnd_packets
    }

    /// Whoever changes the window says so here.
    #[inline(never)]
    fn note_cwnd(&mut self) {
        self.cwnd_packets = u32::try_from(self.cwnd / self.smss).unwrap_or(u32::MAX).max(1);
    }

    /// Congestion window, bytes.
    pub const fn cwnd_bytes(&self) -> u64 {
        self.cwnd.saturating_mul(self.unit_bytes)
    }

    /// Pacing rate.
    pub const fn pacing_rate(&self) -> Rate {
        Rate::bytes_per_sec(self.pacing_rate)
    }

    /// The draft decides on the size of bursts itself (bytes); Linux leaves it to the host.
    pub const fn send_quantum(&self) -> Option<u64> {
        if self.edition.is_kernel() { None } else { Some(self.send_quantum) }
    }

    /// Smallest burst that the sender may make, packets.
    // spec: Linux sysctl_tcp_min_tso_segs; v2alpha bbr_min_tso_segs
    pub const fn min_tso_segs(&self) -> u32 {
        if self.edition.is_v2() && self.pacing_rate < window::MIN_TSO_RATE / 8 { 1 } else { self.p.send_quantum_min }
    }

    /// Samples of what is in flight now would measure ProbeRTT, not the path.
    // spec: #probertt-logic HandleProbeRTT calls MarkConnectionAppLimited
    pub const fn wants_app_limited(&self) -> bool {
        self.mark_app_limited
    }

    /// What the flow thinks.
    pub fn snapshot(&self) -> Snapshot {
        let in_256ths = |gain: u32| (u64::from(gain) * 256 + u64::from(UNIT) / 2) as u32 / UNIT;
        Snapshot {
            state: self.state(),
            bw: Rate::bytes_per_sec(self.rate_bytes_per_sec(self.bw(), UNIT, 0)),
            min_rtt: (self.min_rtt_us != INFINITY).then_some(Span::micros(self.min_rtt_us)),
            pacing_gain: in_256ths(self.pacing_gain),
            cwnd_gain: in_256ths(self.cwnd_gain),
            ssthresh: u32::MAX,
            round_count: self.rounds.count,
            full_bw_reached: self.full_bw_reached,
            lt_use_bw: false,
            extra_acked: u32::try_from(self.aggregation.extra_acked / self.smss).unwrap_or(u32::MAX),
            bounds: self.bounds(self.bw_shortterm, self.inflight_shortterm, self.inflight_longterm),
            undo: self.undo_bounds(),
        }
    }

    /// Bounds in the host's units.
    pub(crate) fn bounds(&self, bw: u64, shortterm: u64, longterm: u64) -> Bounds {
        let bytes = |volume: u64| (volume != INFINITY).then(|| volume.saturating_mul(self.unit_bytes));
        Bounds {
            bw_shortterm: (bw != INFINITY).then(|| Rate::bytes_per_sec(self.rate_bytes_per_sec(bw, UNIT, 0))),
            inflight_shortterm: bytes(shortterm),
            inflight_longterm: bytes(longterm),
        }
    }

    /// What the flow is doing, for traces.
    pub const fn state(&self) -> State {
        match self.state {
            Phase::Startup => State::Startup,
            Phase::Drain { .. } => State::Drain,
            Phase::ProbeBwDown => State::ProbeBwDown,
            Phase::ProbeBwCruise => State::ProbeBwCruise,
            Phase::ProbeBwRefill => State::ProbeBwRefill,
            Phase::ProbeBwUp => State::ProbeBwUp,
            Phase::ProbeRtt { .. } => State::ProbeRtt,
        }
    }

    /// Changes the state. Its gains hold from the end of this ACK's steps, as in Linux.
    const fn set_state(&mut self, state: Phase) {
        self.state = state;
        self.is_state_new = true;
        if self.is_in_a_probe_bw_state() {
            self.try_fast_path = false;
        }
    }

    /// The gains of the present state.
    // spec: #summary-of-control-behavior-in-the-state-machine. Decision: that table holds; the draft's StartProbeBW_* set no gain.
    #[inline(never)]
    const fn update_gains(&mut self) {
        self.forget_plan();
        self.is_state_new = false;
        let p = &self.p;
        (self.pacing_gain, self.cwnd_gain) = match self.state {
            Phase::Startup => (p.startup_pacing_gain, p.startup_cwnd_gain),
            Phase::Drain { .. } => (p.drain_pacing_gain, p.startup_cwnd_gain),
            Phase::ProbeBwDown => (p.probe_down_pacing_gain, p.default_cwnd_gain),
            Phase::ProbeBwCruise | Phase::ProbeBwRefill => (UNIT, p.default_cwnd_gain),
            Phase::ProbeBwUp => (p.probe_up_pacing_gain, p.probe_up_cwnd_gain),
            // Linux leaves the smaller window to the cap that follows.
            Phase::ProbeRtt { .. } if self.edition.is_kernel() => (UNIT, UNIT),
            Phase::ProbeRtt { .. } => (UNIT, p.probe_rtt_cwnd_gain),
        };
    }
}

/// `value` times `by`/25600, rounded down, saturating.
#[inline]
const fn scaled(value: u64, by: u32) -> u64 {
    let (by, unit) = (by as u64, FINE as u64);
    match value.checked_mul(by) {
        Some(product) => product / unit,
        // The same, in two parts; the second one is small.
        None => (value / unit).saturating_mul(by).saturating_add(value % unit * by / unit),
    }
}

#[cfg(test)]
mod tests;
