//! BBRv1 in the kernel's fixed point (Linux 6.12 `tcp_bbr.c`): packets, µs, gains in 1/256, bandwidth in packets/µs·2^24.
//! A flow's life: Startup doubles the rate until bandwidth stops growing, Drain empties the queue that Startup built,
//! ProbeBW cycles its gain around 1, and ProbeRTT every 10 s reveals the path's own delay.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod aggregation;
mod bandwidth;
mod flow;
mod hooks;
#[cfg(any(feature = "unstable-internals", test))]
mod internals;
mod min_rtt;
mod params;
mod window;

use crate::event::{Ack, CaState, Init, TxStart};
use crate::loss_based::NO_SSTHRESH;
use crate::rng::Rng;
use crate::shared::{FullPipe, OutputCache, Rounds};
use crate::snapshot::Snapshot;
use crate::state::Cause;
use crate::units::{Rate, Span, Time};
use crate::{State, estimators::MinMax, wide};
use aggregation::Aggregation;
use bandwidth::LongTerm;

#[cfg(feature = "variants")]
pub(crate) use hooks::{AckContext, Base, NewRate, Shrink};
pub(crate) use hooks::{Hooks, HooksInit, NoHooks};
#[cfg(feature = "unstable-internals")]
pub use internals::Bbr1Internals;
pub use params::Bbr1Params;

/// Fixed-point unit of bandwidth: packets/µs times this. Source: Linux `BW_UNIT`.
pub(crate) const BW_UNIT: u64 = 1 << 24;
/// Gain 1. Source: Linux `BBR_UNIT`.
pub(crate) const UNIT: u32 = 256;
/// Phases of the gain cycle. Source: Linux `CYCLE_LEN`.
const CYCLE_LEN: u8 = 8;
/// Number of phases in which the cycle may start: all but the draining one. Source: Linux `bbr_cycle_rand`.
const CYCLE_RAND: u64 = 7;
/// Window and BDP before anything is measured on the path, packets. Source: Linux `TCP_INIT_CWND`.
const UNKNOWN_PATH_CWND: u32 = 10;
/// RTT assumed for the first pacing rate before any is measured. Source: Linux `bbr_init_pacing_rate_from_rtt`.
const DEFAULT_RTT_US: u64 = 1_000;

/// State of the flow, with the data that only this state needs.
// `repr(u8)`: it is tested several times per ACK, so it should be a byte to compare, not a niche to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Mode {
    Startup,
    Drain,
    /// The `phase` of the gain cycle, and its start in µs of delivered time.
    ProbeBw {
        phase: u8,
        since_us: u64,
    },
    /// Once inflight is low: the tick at which to leave, and whether a round has passed.
    ProbeRtt {
        done_at: Option<u64>,
        round_done: bool,
    },
}

/// A BBRv1 flow. `V` replaces parts of it for a variant; BBRv1 itself replaces none, and the hooks cost it nothing.
#[derive(Clone, Debug)]
pub struct Bbr1<V = NoHooks> {
    p: Bbr1Params,
    mss: u64,
    cwnd_clamp: u32,
    mode: Mode,
    cwnd: u32,
    /// Bytes per second, as `sk_pacing_rate`, and at most `sk_max_pacing_rate`.
    pacing_rate: u64,
    max_pacing_rate: u64,
    pacing_gain: u32,
    cwnd_gain: u32,
    rounds: Rounds,
    // Bandwidth
    max_bw: MinMax,
    lt: LongTerm,
    full_bw: FullPipe,
    full_bw_reached: bool,
    // Minimum RTT
    min_rtt_us: Option<u64>,
    min_rtt_tick: u64,
    min_rtt_window_ticks: u64,
    /// End of the filter's window, by the flow's own clock.
    min_rtt_until: Time,
    has_seen_rtt: bool,
    idle_restart: bool,
    // Window
    prior_cwnd: u32,
    prev_ca_state: CaState,
    packet_conservation: bool,
    aggregation: Aggregation,
    /// Packets that are safe before anything is measured on the path.
    unknown_path_cwnd: u32,
    /// Cause of the present mode, or of the present phase of the gain cycle.
    cause: Cause,
    /// Value that the kernel writes into `snd_ssthresh` when Startup ends, only for its observers.
    ssthresh: u32,
    /// True if this ACK was processed in ProbeRTT: samples of the data now in flight measure only ProbeRTT.
    mark_app_limited: bool,
    draft_quantum: bool,
    plan: OutputCache<5>,
    rng: Rng,
    part: V,
}

impl Bbr1 {
    /// Creates a flow that begins now, with Linux's rules.
    pub fn new(params: &Bbr1Params, init: &Init) -> Self {
        Self::with_part(params, init, NoHooks)
    }

    /// Creates a flow that begins now, with the send quantum and the initial window of the first draft.
    pub fn new_draft00(params: &Bbr1Params, init: &Init) -> Self {
        let unknown_path_cwnd = init.initial_cwnd.max(1);
        Self { draft_quantum: true, unknown_path_cwnd, ..Self::new(params, init) }
    }
}

impl<V: HooksInit> Bbr1<V> {
    /// Creates a flow that begins now, with Linux's rules except those that `V` replaces.
    pub fn with(params: &Bbr1Params, part: &V::Params, init: &Init) -> Self {
        let mut bbr = Self::blank(V::BLANK);
        bbr.init(params, part, init);
        bbr
    }

    /// Initialises a flow in place; nothing of the old value remains. No copy is made on the stack, since a BPF program has
    /// only 512 bytes of it. For BBRv1 itself, `part` is `&()`.
    #[inline]
    pub fn init(&mut self, params: &Bbr1Params, part: &V::Params, init: &Init) {
        self.part.begin(part, params);
        self.begin(params, init);
    }
}

impl<V: Hooks> Bbr1<V> {
    /// Creates a flow that begins now, with Linux's rules except for `part`.
    pub(crate) fn with_part(params: &Bbr1Params, init: &Init, part: V) -> Self {
        let mut bbr = Self::blank(part);
        bbr.begin(params, init);
        bbr
    }

    /// A placeholder flow, for [`Self::begin`] to initialise.
    const fn blank(part: V) -> Self {
        Self {
            p: Bbr1Params::BLANK,
            mss: 0,
            cwnd_clamp: 0,
            mode: Mode::Startup,
            cwnd: 0,
            pacing_rate: 0,
            max_pacing_rate: 0,
            pacing_gain: 0,
            cwnd_gain: 0,
            rounds: Rounds { count: 0, next_delivered: 0, start: false },
            max_bw: MinMax::EMPTY,
            lt: LongTerm::EMPTY,
            full_bw: FullPipe::EMPTY,
            full_bw_reached: false,
            min_rtt_us: None,
            min_rtt_tick: 0,
            min_rtt_window_ticks: 0,
            min_rtt_until: Time::ZERO,
            has_seen_rtt: false,
            idle_restart: false,
            prior_cwnd: 0,
            prev_ca_state: CaState::Open,
            packet_conservation: false,
            aggregation: Aggregation::new(0),
            unknown_path_cwnd: 0,
            cause: Cause::Begin,
            ssthresh: 0,
            mark_app_limited: false,
            draft_quantum: false,
            plan: OutputCache::EMPTY,
            rng: Rng::new(0),
            part,
        }
    }

    /// Sets every field but the part; the pattern names all of them, so that none can be forgotten.
    fn begin(&mut self, params: &Bbr1Params, init: &Init) {
        #[rustfmt::skip]
        let Self {
            p, mss, cwnd_clamp, mode, cwnd, pacing_rate, max_pacing_rate, pacing_gain, cwnd_gain, rounds, max_bw, lt, full_bw, full_bw_reached,
            min_rtt_us, min_rtt_tick, min_rtt_window_ticks, min_rtt_until, has_seen_rtt, idle_restart, prior_cwnd, prev_ca_state,
            packet_conservation, aggregation, unknown_path_cwnd, cause, ssthresh, mark_app_limited, draft_quantum,
            plan, rng, part,
        } = self;
        *p = *params;
        *mss = u64::from(init.mss.max(1));
        *cwnd_clamp = init.cwnd_clamp.max(1);
        *mode = Mode::Startup;
        *cwnd = init.initial_cwnd.max(1).min(*cwnd_clamp);
        *max_pacing_rate = bytes_per_sec_or_max(init.max_pacing_rate);
        *cause = Cause::Begin;
        (*pacing_rate, *pacing_gain, *cwnd_gain) = (0, params.pacing_gain_startup, params.cwnd_gain_startup);
        *rounds = Rounds { next_delivered: init.delivered, ..Rounds::default() };
        *max_bw = MinMax::EMPTY;
        *lt = LongTerm::EMPTY;
        lt.begin_interval(init.delivered_time_us, init.delivered, init.lost);
        (*full_bw, *full_bw_reached) = (FullPipe::EMPTY, false);
        // Linux `tcp_min_rtt`: the handshake's sample counts like any other.
        *min_rtt_us = init.min_rtt.or(init.srtt).map(|rtt| rtt.as_micros().max(1));
        if let Some(rtt_us) = *min_rtt_us {
            part.min_rtt(init.now.as_micros(), rtt_us);
        }
        (*min_rtt_tick, *min_rtt_window_ticks, *min_rtt_until, *has_seen_rtt) = (0, 0, Time::ZERO, false);
        (*idle_restart, *packet_conservation, *mark_app_limited) = (false, false, false);
        (*prior_cwnd, *prev_ca_state) = (0, CaState::Open);
        *aggregation = Aggregation::new(init.now.as_micros());
        (*unknown_path_cwnd, *ssthresh, *draft_quantum) = (UNKNOWN_PATH_CWND, NO_SSTHRESH, false);
        *plan = OutputCache::EMPTY;
        *rng = Rng::derive(init.seed, 0x0062_6272);
        self.min_rtt_window_ticks = self.ticks(params.min_rtt_window);
        self.stamp_min_rtt(self.tick(init.now, init.tick));
        self.init_pacing_rate_from_rtt(init.srtt);
    }

    /// Discards everything measured on the path; the parameters stay.
    pub(crate) fn restart(&mut self, init: &Init) {
        let (params, draft_quantum) = (self.p, self.draft_quantum);
        self.part.restart();
        self.begin(&params, init);
        if draft_quantum {
            self.draft_quantum = true;
            self.unknown_path_cwnd = init.initial_cwnd.max(1);
        }
    }

    /// Sets an upper bound on the pacing rate (Linux `sk_max_pacing_rate`).
    pub fn set_max_pacing_rate(&mut self, rate: Option<Rate>) {
        self.max_pacing_rate = bytes_per_sec_or_max(rate);
        self.pacing_rate = self.pacing_rate.min(self.max_pacing_rate);
        self.plan = OutputCache::EMPTY;
    }

    /// The variant's part, for inputs that only its host provides.
    pub(crate) const fn part_mut(&mut self) -> &mut V {
        &mut self.part
    }

    /// Handles one ACK, in the kernel's order: the steps below, which may also be called one by one, in this order.
    // spec: Linux bbr_main
    pub fn on_ack(&mut self, ack: &Ack) {
        self.step_bandwidth(ack);
        self.step_mode(ack);
        self.step_outputs(ack);
    }

    /// First step of an ACK: bandwidth, and the aggregation of ACKs.
    #[inline]
    pub fn step_bandwidth(&mut self, ack: &Ack) {
        if self.update_bw(ack) {
            self.update_ack_aggregation(ack);
        }
    }

    /// Second step of an ACK: the mode, the minimum RTT, the gains.
    #[inline]
    pub fn step_mode(&mut self, ack: &Ack) {
        self.update_cycle_phase(ack);
        // In ProbeBW, the state of nearly all ACKs, the pipe has been found and drained.
        if !matches!(self.mode, Mode::ProbeBw { .. }) {
            self.find_full_pipe(ack);
        }
        self.update_min_rtt(ack);
        self.update_gains();
    }

    /// Last step of an ACK: rate and window.
    #[inline]
    pub fn step_outputs(&mut self, ack: &Ack) {
        self.set_outputs(ack);
        debug_assert!(self.cwnd >= 1 && self.pacing_rate > 0);
    }

    /// Handles a change of the host's recovery state from `old` to `new`; losses that begin a recovery save the window.
    // spec: Linux bbr_ssthresh
    pub fn on_ca_state(&mut self, old: CaState, new: CaState) {
        let reduces = |state| matches!(state, CaState::Recovery | CaState::Cwr);
        if reduces(new) && !reduces(old) {
            self.save_cwnd();
        }
    }

    /// Handles a retransmission time-out, after the host has marked the lost packets. `first` of this loss episode.
    // spec: Linux bbr_set_state(TCP_CA_Loss), tcp_enter_loss
    pub fn on_rto(&mut self, ack: &Ack, first: bool) {
        if first {
            self.save_cwnd();
        }
        self.cwnd = packets(ack.in_flight).saturating_add(1).min(self.cwnd_clamp);
        self.prev_ca_state = CaState::Loss;
        self.full_bw.bw = 0;
        self.rounds.start = true; // a round without a delivery is still a round
        self.lt_bw_sampling(ack, true, false);
    }

    /// Handles an undo: the losses of this episode were spurious.
    // spec: Linux bbr_undo_cwnd
    pub fn on_undo(&mut self, ack: &Ack) {
        self.full_bw = FullPipe::default();
        self.lt.reset(ack);
    }

    /// Handles a packet that leaves while none is in flight: a restart from idle if the application was the silent party.
    // spec: Linux bbr_cwnd_event(CA_EVENT_TX_START)
    pub fn on_tx_start(&mut self, start: &TxStart) {
        if !start.app_limited {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart_epoch(start.now.as_micros());
        match self.mode {
            Mode::ProbeBw { .. } => {
                let bw = self.bw();
                self.set_pacing_rate(bw, UNIT, start.srtt);
            }
            Mode::ProbeRtt { .. } if self.part.base() == hooks::Base::Linux6_12 => {
                let tick = self.tick(start.now, start.tick);
                self.check_probe_rtt_done(tick, start.delivered_time_us);
            }
            Mode::Startup | Mode::Drain | Mode::ProbeRtt { .. } => {}
        }
    }

    /// Sets the payload bytes of a full packet.
    pub fn on_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss.max(1));
        self.plan = OutputCache::EMPTY;
    }

    /// Congestion window, packets.
    pub const fn cwnd(&self) -> u32 {
        self.cwnd
    }

    /// Pacing rate.
    pub const fn pacing_rate(&self) -> Rate {
        Rate::bits_per_sec(self.pacing_rate << 3) // never above an eighth of what 64 bits hold
    }

    /// Smallest burst that the sender may make, in packets: one below 1.2 Mbit/s, else two.
    // spec: Linux bbr_min_tso_segs
    pub const fn min_tso_segs(&self) -> u32 {
        if self.pacing_rate < window::MIN_TSO_RATE / 8 { 1 } else { 2 }
    }

    /// True on each ACK of ProbeRTT, the last included: the kernel marks the connection app-limited, so that the low rate is ignored.
    pub const fn wants_app_limited(&self) -> bool {
        self.mark_app_limited
    }

    /// Replaces the source of random numbers, for a host that has its own.
    pub fn set_rng(&mut self, rng: Rng) {
        self.rng = rng;
    }

    /// Returns a snapshot of the flow's model.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            cause: self.cause,
            bw: Rate::bytes_per_sec(self.rate_bytes_per_sec(self.bw(), UNIT, 0)),
            min_rtt: self.min_rtt_us.map(Span::micros),
            pacing_gain: self.pacing_gain,
            cwnd_gain: self.cwnd_gain,
            round_count: self.rounds.count,
            full_bw_reached: self.full_bw_reached,
            lt_use_bw: self.lt.in_use(),
            extra_acked: self.aggregation.extra_acked(),
            ..Snapshot::of(self.state())
        }
    }

    /// State of the flow, for traces.
    pub fn state(&self) -> State {
        match self.mode {
            Mode::Startup => State::Startup,
            Mode::Drain => State::Drain,
            Mode::ProbeRtt { .. } => State::ProbeRtt,
            Mode::ProbeBw { phase: 0, .. } if !self.lt.in_use() => State::ProbeBwUp,
            Mode::ProbeBw { phase: 1, .. } if !self.lt.in_use() => State::ProbeBwDown,
            Mode::ProbeBw { .. } => State::ProbeBwCruise,
        }
    }

    /// Returns the pacing gain of a phase of the cycle.
    fn phase_gain(&self, phase: u8) -> u32 {
        match phase {
            0 => self.part.gain_up(self.p.pacing_gain_up),
            1 => self.part.gain_down(self.p.pacing_gain_down),
            _ => UNIT,
        }
    }

    // spec: Linux bbr_update_cycle_phase, bbr_advance_cycle_phase
    fn update_cycle_phase(&mut self, ack: &Ack) {
        if let Mode::ProbeBw { phase, since_us } = self.mode {
            if self.is_next_cycle_phase(ack, since_us) {
                self.mode = Mode::ProbeBw { phase: (phase + 1) % CYCLE_LEN, since_us: ack.delivered_time_us };
                self.cause = Cause::PhaseOver;
            }
        }
    }

    // spec: Linux bbr_is_next_cycle_phase
    fn is_next_cycle_phase(&self, ack: &Ack, since_us: u64) -> bool {
        let elapsed = ack.delivered_time_us.saturating_sub(since_us);
        let is_full_length = self.min_rtt_us.is_some_and(|min_rtt| elapsed > min_rtt);
        if self.pacing_gain == UNIT {
            return is_full_length;
        }
        let max_bw = self.path_bw();
        let prior = u32::try_from(ack.rs.prior_in_flight).unwrap_or(u32::MAX);
        if self.pacing_gain > UNIT {
            // A probe must really fill the pipe, unless losses show that this is impossible.
            return is_full_length
                && (ack.rs.losses > 0
                    || self.packets_in_net_at_edt(ack, prior) >= self.inflight(max_bw, self.pacing_gain));
        }
        is_full_length || self.packets_in_net_at_edt(ack, prior) <= self.inflight(max_bw, UNIT)
    }

    #[inline]
    fn find_full_pipe(&mut self, ack: &Ack) {
        self.check_full_bw_reached(ack);
        self.check_drain(ack);
    }

    // spec: Linux bbr_check_full_bw_reached
    fn check_full_bw_reached(&mut self, ack: &Ack) {
        if self.full_bw_reached || !self.rounds.start || ack.rs.is_app_limited {
            return;
        }
        let threshold = wide::saturating_mul(self.full_bw.bw, u64::from(self.p.full_bw_growth)) >> 8;
        if !self.full_bw.grew(self.part.growing_bandwidth(self.max_bw.get()), threshold) {
            self.full_bw_reached = self.full_bw.is_full(self.p.full_bw_rounds);
        }
    }

    // spec: Linux bbr_check_drain
    fn check_drain(&mut self, ack: &Ack) {
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.enter(Mode::Drain);
            self.cause = Cause::Plateau;
            self.ssthresh = u32::try_from(self.inflight(self.path_bw(), UNIT)).unwrap_or(u32::MAX);
        }
        if self.mode == Mode::Drain
            && self.packets_in_net_at_edt(ack, packets(ack.in_flight)) <= self.inflight(self.path_bw(), UNIT)
        {
            self.enter_probe_bw(ack.delivered_time_us);
            self.cause = Cause::Drained;
        }
    }

    /// Starts the cycle at a random phase to desynchronise flows, but never at the draining one, which would only lose rate.
    // spec: Linux bbr_reset_probe_bw_mode
    fn enter_probe_bw(&mut self, delivered_time_us: u64) {
        let drawn = CYCLE_LEN - 1 - self.rng.below(CYCLE_RAND) as u8;
        self.enter(Mode::ProbeBw { phase: (drawn + 1) % CYCLE_LEN, since_us: delivered_time_us });
    }

    // spec: Linux bbr_reset_mode
    fn leave_probe_rtt(&mut self, delivered_time_us: u64) {
        self.cause = Cause::ProbeRttDone;
        if self.full_bw_reached {
            self.enter_probe_bw(delivered_time_us);
        } else {
            self.enter(Mode::Startup);
        }
    }

    /// Changes the mode.
    #[inline]
    fn enter(&mut self, mode: Mode) {
        self.mode = mode;
        self.part.enter_mode();
    }

    // spec: Linux bbr_update_gains
    fn update_gains(&mut self) {
        // Tested first, because most ACKs arrive in this state.
        if let Mode::ProbeBw { phase, .. } = self.mode {
            self.pacing_gain = if self.lt.in_use() { UNIT } else { self.phase_gain(phase) };
            self.cwnd_gain = self.part.cwnd_gain(self.p.cwnd_gain);
            return;
        }
        let (pacing_gain, cwnd_gain) = match self.mode {
            Mode::Startup => (self.p.pacing_gain_startup, self.p.cwnd_gain_startup),
            Mode::Drain => (self.p.pacing_gain_drain, self.p.cwnd_gain_startup),
            Mode::ProbeBw { .. } | Mode::ProbeRtt { .. } => (self.part.probe_rtt_pacing_gain(), UNIT),
        };
        (self.pacing_gain, self.cwnd_gain) = (pacing_gain, self.part.cwnd_gain(cwnd_gain));
    }
}

/// A bound in bytes per second; the largest number means no bound.
fn bytes_per_sec_or_max(rate: Option<Rate>) -> u64 {
    rate.map_or(u64::MAX, Rate::as_bytes_per_sec).max(1)
}

/// Converts a volume to a count of packets, which never exceeds 2^32.
#[inline]
fn packets(volume: u64) -> u32 {
    if volume > u32::MAX as u64 { u32::MAX } else { volume as u32 }
}

#[cfg(test)]
pub(crate) mod tests;
