//! One BBR flow: repeats the kernel's calls on core's `bbr1`, and compares the complete state after each.
//! No value of the kernel's state is put into core's.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{
    CaState, Init, Rng, Span, Time,
    algorithms::{Ack, Bbr1, TxStart},
    estimators::RateSample,
    internals::Bbr1Internals,
    params::Bbr1Params,
};

use super::compare::Outputs;
use super::field::{Field, Kind};
use super::kernel_bbr::KernelBbr;
use super::{Record, Step, begin_at_ticks, try_ticks};

/// Number of phases from which the gain cycle may start (`bbr_cycle_rand`).
const DRAWS: u32 = 7;
/// Phases of the gain cycle.
const PHASES: u32 = 8;
/// `TCP_CA_Loss`.
pub const LOSS: u64 = 4;
/// `CA_EVENT_TX_START`.
pub const TX_START: u64 = 0;
/// [`Field::Answer`] of a `cong_control` without the smallest burst, which is always 1 or 2.
const NO_ANSWER: u64 = 0;
/// `rs->rtt_us`, `tcp_min_rtt` and `min_rtt_us` before any sample.
const NO_RTT: u32 = u32::MAX;
/// PROBE_BW among the kernel's modes.
const PROBE_BW: u32 = 2;

/// A flow under comparison.
#[derive(Clone, Debug)]
pub struct BbrFlow {
    core: Bbr1,
    mss: u64,
    before: KernelBbr,
    /// False until the first ACK: the kernel's `bbr_init` leaves both gains uninitialised, and the first ACK writes them.
    has_gains: bool,
}

impl BbrFlow {
    /// Creates the flow that `record`, an `init`, begins, on a kernel with `hz` ticks per second.
    pub fn begin(record: &Record, hz: u32) -> (Self, Step) {
        begin_at_ticks(record, |tick| Self::begin_at(record, hz, tick))
    }

    fn begin_at(record: &Record, hz: u32, tick: u64) -> (Self, Outputs) {
        let mut params = Bbr1Params::default();
        params.hz = hz;
        let mut init =
            Init::new(Time::nanos(record.get(Field::ClockNs))).with_mss(record.get32(Field::Mss)).with_seed(0);
        init.initial_cwnd = record.get32(Field::Cwnd);
        init.srtt = srtt(record);
        init.cwnd_clamp = record.get32(Field::CwndClamp);
        init.min_rtt = (record.get32(Field::MinRttUs) != NO_RTT).then(|| Span::micros(record.get(Field::MinRttUs)));
        init.delivered = record.get(Field::Delivered);
        init.delivered_time_us = record.get(Field::DeliveredUs);
        init.lost = record.get(Field::Lost);
        init.tick = Some(tick);
        let flow = Self {
            core: Bbr1::new(&params, &init),
            mss: record.get(Field::Mss),
            before: KernelBbr::read(record),
            has_gains: false,
        };
        let mut outputs = Outputs::default();
        flow.compare(record, &mut outputs);
        (flow, outputs)
    }

    /// Makes the call of `record`, and compares the result.
    pub fn step(&mut self, record: &Record, kind: Kind) -> Step {
        let mut step = Step::default();
        if kind != Kind::SetState {
            // Only a time-out shrinks the window outside of BBR.
            step.outputs.compare_number("snd_cwnd before the call", record.get(Field::Cwnd), self.core.cwnd());
        }
        if record.get(Field::Mss) != self.mss {
            self.mss = record.get(Field::Mss);
            self.core.on_mss(record.get32(Field::Mss));
        }
        let after = KernelBbr::read(record);
        if is_drawn(&self.before, &after) {
            step.explained.push(super::RANDOM);
            self.core.set_rng(cycle_draw(after.cycle_idx));
        }
        self.before = after;
        step.add(try_ticks(self, record, |flow, tick| flow.call(record, kind, tick)));
        step
    }

    fn call(&mut self, record: &Record, kind: Kind, tick: u64) -> Outputs {
        let mut outputs = Outputs::default();
        let unmoved = self.core.internals().ssthresh;
        match kind {
            Kind::CongControl => {
                self.core.on_ack(&ack(record, tick));
                self.has_gains = true;
                // A tap that traces the kernel's functions has the smallest burst in records of its own.
                if record.get(Field::Answer) != NO_ANSWER {
                    self.compare_burst(record, &mut outputs);
                }
                let mark = u64::from(record.get32(Field::Delivered).wrapping_add(record.in_flight())).max(1);
                let left = if self.core.wants_app_limited() { mark } else { record.get(Field::AppLimited) };
                outputs.compare("app_limited", record.get(Field::AppLimitedAfter), left);
            }
            Kind::MinTsoSegs => self.compare_burst(record, &mut outputs),
            Kind::CwndEvent if record.get(Field::ArgA) == TX_START => self.core.on_tx_start(&tx_start(record, tick)),
            Kind::SetState if record.get(Field::ArgA) == LOSS => self.core.on_rto(&ack(record, tick), false),
            // BBR returns the present threshold unchanged: the call only saves the window.
            Kind::Ssthresh => self.core.on_ca_state(CaState::Open, CaState::Recovery),
            Kind::Undo => {
                self.core.on_undo(&ack(record, tick));
                outputs.compare_number("undo_cwnd", record.get(Field::Answer), self.core.cwnd());
            }
            _ => {}
        }
        let ssthresh = self.core.internals().ssthresh;
        let left = if ssthresh == unmoved { record.get32(Field::Ssthresh) } else { ssthresh };
        outputs.compare_number("snd_ssthresh", record.get32(Field::SsthreshAfter), left);
        self.compare(record, &mut outputs);
        outputs
    }

    fn compare_burst(&self, record: &Record, outputs: &mut Outputs) {
        outputs.compare_number("min_tso_segs", record.get(Field::Answer), self.core.min_tso_segs());
    }

    fn compare(&self, record: &Record, outputs: &mut Outputs) {
        let (kernel, core) = (KernelBbr::read(record), self.core.internals());
        compare_model(&kernel, &core, outputs);
        compare_long_term(&kernel, &core, outputs);
        compare_mode(&kernel, &core, outputs);
        if self.has_gains {
            outputs.compare_number("pacing_gain", kernel.pacing_gain, core.pacing_gain);
            outputs.compare_number("cwnd_gain", kernel.cwnd_gain, core.cwnd_gain);
        }
        outputs.compare_number("prior_cwnd", kernel.prior_cwnd, core.prior_cwnd);
        outputs.compare_number("prev_ca_state", kernel.prev_ca_state, core.prev_ca_state as u32);
        outputs.compare("packet_conservation", kernel.packet_conservation, core.packet_conservation);
        outputs.compare_number("snd_cwnd", record.get(Field::CwndAfter), core.cwnd);
        let asked = core.pacing_rate.min(record.get(Field::PacingMax));
        outputs.compare("sk_pacing_rate", record.get(Field::PacingRateAfter), asked);
    }
}

fn compare_model(kernel: &KernelBbr, core: &Bbr1Internals, outputs: &mut Outputs) {
    outputs.compare_number("rtt_cnt", kernel.rtt_cnt, core.rtt_cnt);
    outputs.compare_number("next_rtt_delivered", kernel.next_rtt_delivered, core.next_rtt_delivered);
    outputs.compare("round_start", kernel.round_start, core.round_start);
    outputs.compare("bw", kernel.bw.map(|(t, v)| (u64::from(t), u64::from(v))), core.bw);
    outputs.compare_number("full_bw", kernel.full_bw, core.full_bw);
    outputs.compare_number("full_bw_cnt", kernel.full_bw_cnt, core.full_bw_cnt);
    outputs.compare("full_bw_reached", kernel.full_bw_reached, core.full_bw_reached);
    let min_rtt = core.min_rtt_us.unwrap_or(u64::from(NO_RTT));
    outputs.compare_number("min_rtt_us", kernel.min_rtt_us, min_rtt);
    outputs.compare_number("min_rtt_stamp", kernel.min_rtt_stamp, core.min_rtt_stamp & u64::from(u32::MAX));
    outputs.compare("has_seen_rtt", kernel.has_seen_rtt, core.has_seen_rtt);
    outputs.compare("ack_epoch_mstamp", kernel.ack_epoch_mstamp, core.ack_epoch_mstamp_us);
    outputs.compare_number("ack_epoch_acked", kernel.ack_epoch_acked, core.ack_epoch_acked);
    outputs.compare("extra_acked", kernel.extra_acked, core.extra_acked);
    outputs.compare_number("extra_acked_win_rtts", kernel.extra_acked_win_rtts, core.extra_acked_win_rtts);
    outputs.compare_number("extra_acked_win_idx", kernel.extra_acked_win_idx, core.extra_acked_win_idx);
}

fn compare_long_term(kernel: &KernelBbr, core: &Bbr1Internals, outputs: &mut Outputs) {
    outputs.compare("lt_is_sampling", kernel.lt_is_sampling, core.lt_is_sampling);
    outputs.compare("lt_use_bw", kernel.lt_use_bw, core.lt_use_bw);
    outputs.compare_number("lt_rtt_cnt", kernel.lt_rtt_cnt, core.lt_rtt_cnt);
    outputs.compare_number("lt_bw", kernel.lt_bw, core.lt_bw);
    outputs.compare_number("lt_last_delivered", kernel.lt_last_delivered, core.lt_last_delivered);
    outputs.compare_number("lt_last_stamp", kernel.lt_last_stamp, core.lt_last_stamp_ms & u64::from(u32::MAX));
    outputs.compare_number("lt_last_lost", kernel.lt_last_lost, core.lt_last_lost);
}

/// Compares the mode, and the fields that belong to it: the kernel keeps those of earlier modes, core does not.
fn compare_mode(kernel: &KernelBbr, core: &Bbr1Internals, outputs: &mut Outputs) {
    outputs.compare_number("mode", kernel.mode, core.mode);
    outputs.compare("idle_restart", kernel.idle_restart, core.idle_restart);
    if let (Some(phase), Some(since)) = (core.cycle_idx, core.cycle_mstamp_us) {
        outputs.compare_number("cycle_idx", kernel.cycle_idx, phase);
        outputs.compare("cycle_mstamp", kernel.cycle_mstamp, since);
    }
    if let Some(stamp) = core.probe_rtt_done_stamp {
        outputs.compare_number("probe_rtt_done_stamp", kernel.probe_rtt_done_stamp, stamp & u64::from(u32::MAX));
    }
    if let Some(done) = core.probe_rtt_round_done {
        outputs.compare("probe_rtt_round_done", kernel.probe_rtt_round_done, done);
    }
}

/// True if the call drew the phase with which the gain cycle begins.
fn is_drawn(before: &KernelBbr, after: &KernelBbr) -> bool {
    after.mode == PROBE_BW && (before.mode != PROBE_BW || (before.lt_use_bw && !after.lt_use_bw))
}

/// Creates random numbers whose next value starts the cycle at this phase.
fn cycle_draw(phase: u32) -> Rng {
    let draw = u64::from((PHASES - phase) % PHASES).min(u64::from(DRAWS) - 1);
    let seeds = (0..).map(Rng::new);
    seeds.take(10_000).find(|rng| rng.clone().below(u64::from(DRAWS)) == draw).unwrap_or_else(|| Rng::new(0))
}

fn srtt(record: &Record) -> Option<Span> {
    let srtt8 = record.get(Field::Srtt8Us);
    (srtt8 != 0).then(|| Span::micros(srtt8 >> 3))
}

fn ca_state(record: &Record) -> CaState {
    match record.get(Field::CaState) {
        0 => CaState::Open,
        1 => CaState::Disorder,
        2 => CaState::Cwr,
        3 => CaState::Recovery,
        _ => CaState::Loss,
    }
}

fn sample(record: &Record) -> RateSample {
    let flags = record.get(Field::RsFlags);
    let mut sample = RateSample::default();
    sample.delivered = record.get_positive(Field::RsDelivered);
    sample.interval_us = record.get_positive(Field::RsIntervalUs).filter(|interval| *interval > 0);
    sample.prior_delivered = record.get(Field::RsPriorDelivered);
    sample.rtt_us = record.get_positive(Field::RsRttUs);
    sample.losses = record.get_positive(Field::RsLosses).unwrap_or(0);
    sample.acked_sacked = record.get(Field::RsAckedSacked);
    sample.prior_in_flight = record.get(Field::RsPriorInFlight);
    sample.is_app_limited = flags & 1 != 0;
    sample.is_ack_delayed = flags & 4 != 0;
    sample
}

fn ack(record: &Record, tick: u64) -> Ack {
    let mut ack = Ack::default();
    ack.now = Time::nanos(record.get(Field::ClockNs));
    ack.rs = sample(record);
    ack.delivered = record.get(Field::Delivered);
    ack.delivered_time_us = record.get(Field::DeliveredUs);
    ack.lost = record.get(Field::Lost);
    ack.in_flight = record.in_flight().into();
    ack.ca_state = ca_state(record);
    ack.srtt = srtt(record);
    ack.edt = Time::nanos(record.get(Field::WstampNs));
    ack.packets_out = record.get32(Field::PacketsOut);
    ack.tick = Some(tick);
    ack
}

fn tx_start(record: &Record, tick: u64) -> TxStart {
    let mut start = TxStart::default();
    start.now = Time::nanos(record.get(Field::ClockNs));
    start.delivered = record.get(Field::Delivered);
    start.app_limited = record.get(Field::AppLimited) != 0;
    start.delivered_time_us = record.get(Field::DeliveredUs);
    start.srtt = srtt(record);
    start.none_outstanding = record.get(Field::PacketsOut) == 0;
    start.tick = Some(tick);
    start
}
