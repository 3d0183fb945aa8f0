//! One CUBIC flow: repeats the kernel's calls on core's CUBIC, and compares the complete state after each.
//! No value of CUBIC's own state is put into core's.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{
    Init, MICROS_PER_SEC, Rate, Span, Time,
    algorithms::{Ack, HostWindow, LossBased, TxStart},
    internals::CubicInternals,
    params::CubicParams,
};

use super::bbr::{LOSS, TX_START};
use super::compare::Outputs;
use super::field::{Field, Kind};
use super::{Record, Step, WINDOW, try_ticks};

/// A flow under comparison.
#[derive(Clone, Debug)]
pub struct CubicFlow {
    core: LossBased,
    hz: u64,
    /// Origin of sequence numbers.
    base: u32,
}

impl CubicFlow {
    /// Creates the flow that `record`, an `init`, begins, on a kernel with `hz` ticks per second.
    pub fn begin(record: &Record, hz: u32) -> (Self, Step) {
        let mut params = CubicParams::default();
        params.hz = hz;
        let mut init =
            Init::new(Time::nanos(record.get(Field::ClockNs))).with_mss(record.get32(Field::Mss)).with_seed(0);
        init.initial_cwnd = record.get32(Field::Cwnd);
        init.cwnd_clamp = record.get32(Field::CwndClamp);
        let core = LossBased::cubic(&params, &init);
        let flow = Self { core, hz: u64::from(hz), base: record.get32(Field::Next) };
        let mut step = Step::default();
        flow.compare(record, &mut step.outputs);
        (flow, step)
    }

    /// Makes the call of `record`, and compares the result.
    pub fn step(&mut self, record: &Record, kind: Kind) -> Step {
        let mut step = Step::default();
        let window = HostWindow {
            cwnd: record.get32(Field::Cwnd),
            cwnd_count: record.get32(Field::CwndCnt),
            ssthresh: record.get32(Field::Ssthresh),
        };
        if window != self.core.window() {
            step.explained.push(WINDOW);
        }
        self.core.set_window(window, Rate::bytes_per_sec(record.get(Field::PacingRate)));
        step.add(try_ticks(self, record, |flow, tick| flow.call(record, kind, tick)));
        step
    }

    fn call(&mut self, record: &Record, kind: Kind, tick: u64) -> Outputs {
        let mut outputs = Outputs::default();
        let ack = self.ack(record, tick);
        match kind {
            Kind::PktsAcked => self.core.on_pkts_acked(&ack),
            Kind::CongAvoid => self.core.on_cong_avoid(&ack),
            Kind::Ssthresh => {
                let threshold = self.core.recalc_ssthresh();
                outputs.compare_number("ssthresh", record.get(Field::Answer), threshold);
            }
            Kind::SetState if record.get(Field::ArgA) == LOSS => self.core.on_loss_state(&ack),
            Kind::CwndEvent if record.get(Field::ArgA) == TX_START => {
                self.core.on_hosted_tx_start(&self.tx_start(record, tick));
            }
            Kind::Undo => {
                // The stack's own answer, from a window that the stack has saved.
                let before = record.get(Field::Cwnd).max(record.get(Field::PriorCwnd));
                outputs.compare("undo_cwnd", record.get(Field::Answer), before);
            }
            _ => {}
        }
        self.compare(record, &mut outputs);
        outputs
    }

    fn sequence(&self, record: &Record, field: Field) -> u64 {
        u64::from(record.get32(field).wrapping_sub(self.base))
    }

    fn ack(&self, record: &Record, tick: u64) -> Ack {
        let is_avoiding = record.kind() == Some(Kind::CongAvoid);
        let acked = if is_avoiding { Field::ArgB } else { Field::RsAckedSacked };
        let mut ack = Ack::default();
        ack.now = Time::nanos(record.get(Field::ClockNs));
        ack.rs.rtt_us = record.get_positive(Field::RsRttUs);
        ack.rs.acked_sacked = record.get(acked);
        ack.una = self.sequence(record, Field::Una);
        ack.next = self.sequence(record, Field::Next);
        ack.in_flight = record.in_flight().into();
        ack.packets_out = record.get32(Field::PacketsOut);
        ack.cwnd_limited = is_cwnd_limited(record);
        ack.paced = record.get(Field::PacingStatus) != 0;
        ack.tick = Some(tick);
        ack
    }

    fn tx_start(&self, record: &Record, tick: u64) -> TxStart {
        let idle = (tick as u32).wrapping_sub(record.get32(Field::LastSend)) as i32;
        let idle = u64::try_from(idle).unwrap_or(0);
        let mut start = TxStart::default();
        start.now = Time::nanos(record.get(Field::ClockNs));
        start.delivered = record.get(Field::Delivered);
        start.app_limited = record.get(Field::AppLimited) != 0;
        start.idle = Span::micros((idle * MICROS_PER_SEC).div_ceil(self.hz));
        start.delivered_time_us = record.get(Field::DeliveredUs);
        start.none_outstanding = true;
        start.tick = Some(tick);
        start
    }

    fn compare(&self, record: &Record, outputs: &mut Outputs) {
        let window = self.core.window();
        outputs.compare_number("snd_cwnd", record.get(Field::CwndAfter), window.cwnd);
        outputs.compare_number("snd_cwnd_cnt", record.get(Field::CwndCntAfter), window.cwnd_count);
        outputs.compare_number("snd_ssthresh", record.get(Field::SsthreshAfter), window.ssthresh);
        if let Some(core) = self.core.cubic_internals() {
            compare_curve(record, &core, outputs);
            self.compare_hystart(record, &core, outputs);
        }
    }

    fn compare_hystart(&self, record: &Record, core: &CubicInternals, outputs: &mut Outputs) {
        let Some(core) = core.hystart else {
            return;
        };
        let low = |value: u64| value & u64::from(u32::MAX);
        let word = record.word(10);
        outputs.compare_number("sample_cnt", word >> 16 & 0xff, core.sample_cnt);
        outputs.compare_number("found", word >> 24, u32::from(core.found));
        outputs.compare_number("round_start", record.word(11), low(core.round_start_us));
        let end = record.word(12).wrapping_sub(self.base);
        outputs.compare_number("end_seq", end, low(core.end_seq));
        outputs.compare_number("last_ack", record.word(13), low(core.last_ack_us));
        outputs.compare_number("curr_rtt", record.word(14), low(core.curr_rtt_us));
    }
}

/// Compares the words of Linux's `struct bictcp`.
fn compare_curve(record: &Record, core: &CubicInternals, outputs: &mut Outputs) {
    let low = |value: u64| value & u64::from(u32::MAX);
    outputs.compare_number("cnt", record.word(0), core.cnt);
    outputs.compare_number("last_max_cwnd", record.word(1), core.last_max_cwnd);
    outputs.compare_number("last_cwnd", record.word(2), core.last_cwnd);
    outputs.compare_number("last_time", record.word(3), low(core.last_time));
    outputs.compare_number("bic_origin_point", record.word(4), core.origin_point);
    outputs.compare_number("bic_K", record.word(5), core.k);
    outputs.compare_number("delay_min", record.word(6), core.delay_min_us);
    outputs.compare_number("epoch_start", record.word(7), low(core.epoch_start));
    outputs.compare_number("ack_cnt", record.word(8), core.ack_cnt);
    outputs.compare_number("tcp_cwnd", record.word(9), core.tcp_cwnd);
}

// spec: Linux tcp_is_cwnd_limited
fn is_cwnd_limited(record: &Record) -> bool {
    let in_slow_start = record.get(Field::Cwnd) < record.get(Field::Ssthresh);
    record.get(Field::CwndLimited) != 0
        || (in_slow_start && record.get(Field::Cwnd) < 2 * u64::from(record.get32(Field::MaxPacketsOut)))
}
