//! COBALT: CoDel whose drop rate decays step by step, beside BLUE for flows that do not respond.
//! Source: Linux `sch_cake`, `cobalt_should_drop` and its neighbours, in the same integers.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Rng, Span, Time};

/// 1/√n in units of 2⁻³² for small counts; above, a Newton step from the previous value. Source: Linux, `inv_sqrt_cache`.
const INV_SQRT: [u32; 16] = [
    u32::MAX,
    u32::MAX,
    3_037_000_500,
    2_479_700_525,
    2_147_483_647,
    1_920_767_767,
    1_753_413_056,
    1_623_345_051,
    1_518_500_250,
    1_431_655_765,
    1_358_187_914,
    1_294_981_364,
    1_239_850_263,
    1_191_209_601,
    1_147_878_294,
    1_108_955_788,
];
/// Steps of BLUE's drop probability in units of 2⁻³²: up at an overflow, down at an empty queue. Source: Linux, `cake_set_rate`.
const BLUE_UP: u32 = 1 << 24;
const BLUE_DOWN: u32 = 1 << 20;
/// A queue is left alone while packets wait less than this many serialisation times of a full packet. Source: Linux.
const SPARED_PACKETS: u64 = 4;

/// Parameters shared by the queues of a tin.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Params {
    /// Acceptable standing delay.
    pub target: Span,
    /// Delay from the first packet above target to the first signal, which later signals divide by √count.
    pub interval: Span,
    /// Serialisation time of a full packet; zero without a known rate.
    pub packet_time: Span,
}

/// Fate of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub is_marked: bool,
    pub is_dropped: bool,
}

/// State of one queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Cobalt {
    count: u32,
    /// 1/√count in units of 2⁻³². Zero in a fresh queue, as in Linux, so that its first signal does not wait for an interval.
    inv_sqrt: u32,
    /// Time of the next signal; without one due, the end of the queue's activity.
    drop_next: Time,
    dropping: bool,
    /// BLUE's drop probability in units of 2⁻³².
    p_drop: u32,
    blue_changed: Option<Time>,
}

impl Cobalt {
    /// Decides on a packet that waited for `waited`; it can be marked if `ect`.
    pub fn judge(&mut self, now: Time, params: &Params, waited: Span, ect: bool, rng: &mut Rng) -> Decision {
        let is_over = waited > params.target && waited.as_nanos() > SPARED_PACKETS * params.packet_time.as_nanos();
        let mut is_late = now > self.drop_next;
        let mut is_due = self.count > 0 && now >= self.drop_next;
        if is_over {
            if !self.dropping {
                self.drop_next = self.signal_after(now, params);
            }
            self.count = self.count.max(1);
        }
        self.dropping = is_over;
        let mut decision = Decision { is_marked: false, is_dropped: false };
        if is_due && self.dropping {
            decision = Decision { is_marked: ect, is_dropped: !ect };
            self.set_count(self.count.saturating_add(1));
            self.drop_next = self.signal_after(self.drop_next, params);
            is_late = now > self.drop_next;
        } else {
            // Bounded by the count.
            while is_due {
                self.set_count(self.count - 1);
                self.drop_next = self.signal_after(self.drop_next, params);
                is_late = now > self.drop_next;
                is_due = self.count > 0 && now >= self.drop_next;
            }
        }
        // BLUE drops whatever can be marked.
        if self.p_drop > 0 && (rng.next_u64() >> 32) < u64::from(self.p_drop) {
            decision.is_dropped = true;
        }
        if self.count == 0 {
            self.drop_next = now + params.interval;
        } else if is_late && !decision.is_dropped {
            self.drop_next = now;
        }
        decision
    }

    /// Notes that a packet of the queue was dropped because all queues together were full.
    pub fn on_overflow(&mut self, now: Time, params: &Params) {
        if self.may_change_blue(now, params) {
            self.p_drop = self.p_drop.saturating_add(BLUE_UP);
            self.blue_changed = Some(now);
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// Notes that the queue had its turn and was empty.
    pub fn on_empty(&mut self, now: Time, params: &Params) {
        if self.p_drop > 0 && self.may_change_blue(now, params) {
            self.p_drop = self.p_drop.saturating_sub(BLUE_DOWN);
            self.blue_changed = Some(now);
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.set_count(self.count - 1);
            self.drop_next = self.signal_after(self.drop_next, params);
        }
    }

    /// True until the state of a queue that stays empty has decayed.
    pub fn is_active(&self, now: Time) -> bool {
        self.p_drop > 0 || self.count > 0 || now < self.drop_next
    }

    fn may_change_blue(&self, now: Time, params: &Params) -> bool {
        self.blue_changed.is_none_or(|at| now.since(at) > params.target)
    }

    fn set_count(&mut self, count: u32) {
        self.count = count;
        self.inv_sqrt = match INV_SQRT.get(count as usize) {
            Some(exact) => *exact,
            None => newton_step(self.inv_sqrt, count),
        };
    }

    /// Computes `from` + interval/√count, rounded down.
    fn signal_after(&self, from: Time, params: &Params) -> Time {
        let step = (u128::from(params.interval.as_nanos()) * u128::from(self.inv_sqrt)) >> 32;
        from + Span::nanos(u64::try_from(step).unwrap_or(u64::MAX))
    }
}

/// Improves an estimate x of 1/√n: x·(3 − n·x²)/2, rounded down at each step.
fn newton_step(x: u32, n: u32) -> u32 {
    let square = (u64::from(x) * u64::from(x)) >> 32;
    let factor = (3_u64 << 32).saturating_sub(u64::from(n) * square) >> 2;
    u32::try_from((factor * u64::from(x)) >> 31).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMS: Params =
        Params { target: Span::millis(5), interval: Span::millis(100), packet_time: Span::micros(600) };

    /// Judges one packet a millisecond, with a waiting time of `waited` each. Returns the times of the drops in ms.
    fn drops(cobalt: &mut Cobalt, from: u64, to: u64, waited: Span) -> Vec<u64> {
        let mut rng = Rng::new(1);
        let at = |ms| Time::ZERO + Span::millis(ms);
        (from..to).filter(|ms| cobalt.judge(at(*ms), &PARAMS, waited, false, &mut rng).is_dropped).collect()
    }

    #[test]
    fn a_fresh_queue_drops_its_second_packet_above_target_and_then_by_the_control_law() {
        let mut cobalt = Cobalt::default();
        assert!(drops(&mut cobalt, 0, 10, Span::millis(1)).is_empty());
        let mut expected = vec![11];
        let mut next = 10.0;
        for count in 2..8 {
            next += 100.0 / f64::from(count).sqrt();
            expected.push(next.ceil() as u64);
        }
        assert_eq!(drops(&mut cobalt, 10, 400, Span::millis(6))[..7], expected);
    }

    #[test]
    fn a_decayed_queue_waits_for_an_interval() {
        let mut cobalt = Cobalt::default();
        drops(&mut cobalt, 0, 50, Span::millis(6));
        assert!(drops(&mut cobalt, 50, 2000, Span::millis(1)).is_empty());
        assert_eq!((cobalt.count, cobalt.inv_sqrt), (0, u32::MAX));
        assert_eq!(drops(&mut cobalt, 2000, 2110, Span::millis(6)), [2100]);
    }

    #[test]
    fn the_count_falls_by_one_at_a_time_when_the_delay_is_below_target() {
        let mut cobalt = Cobalt::default();
        drops(&mut cobalt, 0, 1000, Span::millis(6));
        let before = cobalt.count;
        drops(&mut cobalt, 1000, 1050, Span::millis(1));
        assert!(before > 8 && cobalt.count < before && cobalt.count + 5 > before, "{before}, then {}", cobalt.count);
    }

    #[test]
    fn a_delay_of_four_packets_is_left_alone() {
        let slow = Params { packet_time: Span::millis(2), ..PARAMS };
        let mut rng = Rng::new(1);
        let mut cobalt = Cobalt::default();
        for ms in 0..1000 {
            let decision = cobalt.judge(Time::ZERO + Span::millis(ms), &slow, Span::millis(8), false, &mut rng);
            assert!(!decision.is_dropped);
        }
    }

    #[test]
    fn a_packet_that_can_be_marked_is_marked_where_another_is_dropped() {
        let mut rng = Rng::new(1);
        let (mut marked, mut dropped) = (Cobalt::default(), Cobalt::default());
        for ms in 0..1000 {
            let (now, waited) = (Time::ZERO + Span::millis(ms), Span::millis(6));
            let mark = marked.judge(now, &PARAMS, waited, true, &mut rng);
            let drop = dropped.judge(now, &PARAMS, waited, false, &mut rng);
            assert_eq!((mark.is_marked, mark.is_dropped), (drop.is_dropped, false));
        }
    }

    #[test]
    fn blue_rises_once_per_target_at_overflow_and_falls_once_per_target_at_an_empty_queue() {
        let mut cobalt = Cobalt::default();
        let at = |ms| Time::ZERO + Span::millis(ms);
        for ms in 0..=11 {
            cobalt.on_overflow(at(ms), &PARAMS);
        }
        assert_eq!(cobalt.p_drop, 2 * BLUE_UP);
        assert!(drops(&mut cobalt.clone(), 100, 100_000, Span::ZERO).len() > 500);
        for ms in 20..=32 {
            cobalt.on_empty(at(ms), &PARAMS);
        }
        assert_eq!(cobalt.p_drop, 2 * BLUE_UP - 3 * BLUE_DOWN);
        assert!(cobalt.is_active(at(100_000)));
    }

    #[test]
    fn newton_steps_follow_the_root() {
        let mut estimate = INV_SQRT[15];
        for n in 16..5000_u32 {
            estimate = newton_step(estimate, n);
            let exact = (1_u64 << 32) as f64 / f64::from(n).sqrt();
            assert!((f64::from(estimate) / exact - 1.0).abs() < 2e-3, "{n}: {estimate} for {exact}");
        }
    }
}
