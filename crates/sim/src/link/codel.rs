//! CoDel: drops from the head once the waiting time has stayed above target for an interval, at an increasing rate.
//! Source: RFC 8289 §5. Differs: as in Linux, `count` resumes within 16 intervals, 1/√`count` is estimated by one Newton step from
//! its previous value, times count in 1024 ns, a mark counts as a drop, and a backlog of at most an MTU is no standing queue.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, Time};

use super::config::Codel as CodelConfig;
use super::fifo::{Entry, Fifo, Limit, Tally};
use super::{LinkPacket, Verdict};

/// Intervals within which a new dropping state continues at the previous drop rate. Source: Linux `codel_impl.h`.
const RESUME_INTERVALS: u64 = 16;

/// Bytes of a full packet of Ethernet. Source: Linux `psched_mtu`, in `codel_should_drop`.
pub(super) const MTU_BYTES: u32 = 1514;

/// Binary logarithm of the nanoseconds in a tick of its clock. Source: Linux `codel.h`, `CODEL_SHIFT`.
const TICK_BITS: u32 = 10;

/// Packet source of a controller.
pub(super) trait Source<P> {
    fn pop(&mut self) -> Option<Entry<P>>;
    /// Waiting bytes after the last pop.
    fn backlog(&self) -> u64;
}

/// State of the control law, one per queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Control {
    /// Tick at which the delay will have been above target for an interval.
    first_above: Option<u64>,
    dropping: bool,
    /// Tick of the next drop; 0 before the first. Differs: Linux's clock of 32 bits then counts as recent for 16 intervals after a
    /// boot, and in the second half of every 4,398 s; here never.
    drop_next: u64,
    count: u32,
    last_count: u32,
    /// Estimate of 1/√count in units of 2⁻¹⁶. After a large change of the count, it takes several drops to follow.
    inv_sqrt: u16,
}

/// A CoDel queue.
#[derive(Clone, Debug)]
pub(super) struct Codel<P> {
    config: CodelConfig,
    control: Control,
    fifo: Fifo<P>,
    /// The MTU, or the largest packet so far: a backlog of at most that is not a standing queue.
    max_packet: u32,
}

impl<P: LinkPacket> Codel<P> {
    pub fn new(config: CodelConfig) -> Self {
        Self { config, control: Control::default(), fifo: Fifo::new(), max_packet: MTU_BYTES }
    }

    pub fn fifo(&self) -> &Fifo<P> {
        &self.fifo
    }

    pub fn enqueue(&mut self, entry: Entry<P>, limit: Limit, tally: &mut Tally) -> Verdict {
        if !self.fifo.has_room(limit, entry.packet.wire_bytes()) {
            tally.stats.drops += 1;
            return Verdict::Dropped;
        }
        self.max_packet = self.max_packet.max(entry.packet.wire_bytes());
        self.fifo.push(entry);
        Verdict::Queued
    }

    pub fn dequeue(&mut self, now: Time, tally: &mut Tally) -> Option<Entry<P>> {
        self.control.dequeue(now, &self.config, self.max_packet, &mut self.fifo, tally)
    }
}

impl<P: LinkPacket> Source<P> for Fifo<P> {
    fn pop(&mut self) -> Option<Entry<P>> {
        Fifo::pop(self)
    }

    fn backlog(&self) -> u64 {
        self.bytes()
    }
}

impl Control {
    /// Returns the next packet to send after dropping those before it.
    pub fn dequeue<P: LinkPacket>(
        &mut self,
        now: Time,
        config: &CodelConfig,
        max_packet: u32,
        source: &mut impl Source<P>,
        tally: &mut Tally,
    ) -> Option<Entry<P>> {
        let head = source.pop();
        let due = self.above_for_interval(now, config, max_packet, head.as_ref(), source.backlog());
        let mut next = if self.dropping {
            self.keep_dropping(now, config, max_packet, head, due, source, tally)
        } else if due {
            self.start_dropping(now, config, max_packet, head, source, tally)
        } else {
            head
        }?;
        let is_selected = !config.ce_only_ect_1 || next.packet.is_l4s();
        if is_selected && config.ce_threshold.is_some_and(|threshold| waited(now, &next) > span_ticks(threshold)) {
            tally.try_mark(&mut next.packet);
        }
        Some(next)
    }

    /// Counts drops made elsewhere in this queue, so that the control law takes them into account.
    pub fn add_drops(&mut self, drops: u32) {
        self.count = self.count.saturating_add(drops);
    }

    #[expect(clippy::too_many_arguments, reason = "the state of one step of one loop")]
    fn keep_dropping<P: LinkPacket>(
        &mut self,
        now: Time,
        config: &CodelConfig,
        max_packet: u32,
        mut head: Option<Entry<P>>,
        mut due: bool,
        source: &mut impl Source<P>,
        tally: &mut Tally,
    ) -> Option<Entry<P>> {
        self.dropping = due;
        // Bounded by the waiting packets: each iteration but the last takes one.
        while self.dropping && ticks(now) >= self.drop_next {
            let mut entry = head?;
            self.count = self.count.saturating_add(1);
            self.inv_sqrt = newton_step(self.inv_sqrt, self.count);
            if config.ecn && tally.try_mark(&mut entry.packet) {
                self.drop_next = self.control_law(self.drop_next, config.interval);
                return Some(entry);
            }
            tally.drop_queued(&entry.packet);
            head = source.pop();
            due = self.above_for_interval(now, config, max_packet, head.as_ref(), source.backlog());
            self.dropping = due;
            if due {
                self.drop_next = self.control_law(self.drop_next, config.interval);
            }
        }
        head
    }

    fn start_dropping<P: LinkPacket>(
        &mut self,
        now: Time,
        config: &CodelConfig,
        max_packet: u32,
        head: Option<Entry<P>>,
        source: &mut impl Source<P>,
        tally: &mut Tally,
    ) -> Option<Entry<P>> {
        let mut entry = head?;
        let next = if config.ecn && tally.try_mark(&mut entry.packet) {
            Some(entry)
        } else {
            tally.drop_queued(&entry.packet);
            let next = source.pop();
            self.above_for_interval(now, config, max_packet, next.as_ref(), source.backlog());
            next
        };
        self.dropping = true;
        let since = ticks(now).saturating_sub(self.drop_next);
        let recent = self.drop_next > 0 && since < RESUME_INTERVALS.saturating_mul(span_ticks(config.interval));
        let grown = self.count.saturating_sub(self.last_count);
        (self.count, self.inv_sqrt) =
            if grown > 1 && recent { (grown, newton_step(self.inv_sqrt, grown)) } else { (1, u16::MAX) };
        self.last_count = self.count;
        self.drop_next = self.control_law(ticks(now), config.interval);
        next
    }

    /// True if the waiting time has been above target for a whole interval. Updates the start of that interval.
    fn above_for_interval<P>(
        &mut self,
        now: Time,
        config: &CodelConfig,
        max_packet: u32,
        head: Option<&Entry<P>>,
        backlog: u64,
    ) -> bool {
        let above = head.is_some_and(|entry| waited(now, entry) >= span_ticks(config.target));
        if !above || backlog <= u64::from(max_packet) {
            if head.is_none() {
                self.dropping = false;
            }
            self.first_above = None;
            return false;
        }
        let since = *self.first_above.get_or_insert(ticks(now) + span_ticks(config.interval));
        ticks(now) > since
    }

    /// Computes `from` + interval/√count, rounded down.
    fn control_law(&self, from: u64, interval: Span) -> u64 {
        let step = (u128::from(span_ticks(interval)) * u128::from(self.inv_sqrt)) >> 16;
        from.saturating_add(u64::try_from(step).unwrap_or(u64::MAX))
    }
}

const fn ticks(at: Time) -> u64 {
    at.as_nanos() >> TICK_BITS
}

const fn span_ticks(span: Span) -> u64 {
    span.as_nanos() >> TICK_BITS
}

/// Waiting time of a packet in ticks.
const fn waited<P>(now: Time, entry: &Entry<P>) -> u64 {
    ticks(now).saturating_sub(ticks(entry.arrived))
}

/// Improves an estimate x of 1/√n, in units of 2⁻¹⁶: x·(3 − n·x²)/2. Source: Linux, `codel_Newton_step`. It wraps as there if n
/// grew more than threefold since the last step, as it does after an overflow.
fn newton_step(x: u16, n: u32) -> u16 {
    let x = u64::from(x) << 16;
    let square = (x * x) >> 32;
    let factor = (3_u64 << 32).wrapping_sub(u64::from(n) * square) >> 2;
    ((factor.wrapping_mul(x) >> 31) as u32 >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::testing::{Packet, packet};

    const CONFIG: CodelConfig = CodelConfig {
        target: Span::millis(5),
        interval: Span::millis(100),
        ecn: false,
        ce_threshold: None,
        ce_only_ect_1: false,
    };

    /// Empties a queue of `n` packets that arrived at 0, one packet per millisecond.
    /// Returns the milliseconds at which the head was dropped or marked.
    fn standing_queue(config: CodelConfig, ect: bool, n: u64) -> (Vec<u64>, Vec<Entry<Packet>>) {
        let (mut codel, mut tally) = (Codel::new(config), Tally::default());
        for _ in 0..n {
            let entry = Entry { packet: Packet { ect, ..packet(1500) }, arrived: Time::ZERO };
            codel.enqueue(entry, Limit::NONE, &mut tally);
        }
        let (mut acted, mut sent) = (Vec::new(), Vec::new());
        for ms in 0..n {
            let before = tally.stats.drops + tally.stats.marks;
            sent.extend(codel.dequeue(Time::ZERO + Span::millis(ms), &mut tally));
            if tally.stats.drops + tally.stats.marks > before {
                acted.push(ms);
            }
        }
        (acted, sent)
    }

    #[test]
    fn an_mtu_of_small_packets_is_no_standing_queue() {
        // 66 bytes each: 22 fit into an MTU. One packet a second leaves, each far above target.
        let dropped = |n: u64| {
            let (mut codel, mut tally) = (Codel::new(CONFIG), Tally::default());
            for _ in 0..n {
                codel.enqueue(Entry { packet: packet(66), arrived: Time::ZERO }, Limit::NONE, &mut tally);
            }
            for s in 1..=n {
                codel.dequeue(Time::ZERO + Span::secs(s), &mut tally);
            }
            tally.stats.drops
        };
        assert_eq!(dropped(22), 0);
        assert!(dropped(30) > 0);
    }

    #[test]
    fn drops_follow_the_control_law() {
        // Above target from 5 ms on, so due after 105 ms; then every 100 ms over the root of the count, estimated by Newton steps.
        let (mut expected, mut next, mut estimate) = (vec![105], 105.0, 1.0);
        for count in 1..8 {
            estimate *= (3.0 - f64::from(count) * estimate * estimate) / 2.0;
            next += 100.0 * estimate;
            expected.push(next.floor() as u64);
        }
        let (dropped, _) = standing_queue(CONFIG, false, 600);
        // Its ticks of 1024 ns, and a root of 16 bits, can move a drop to the next packet.
        assert!(dropped.len() >= expected.len());
        for (at, expected) in dropped.iter().zip(&expected) {
            assert!(at.abs_diff(*expected) <= 1, "{dropped:?} instead of {expected:?}");
        }
    }

    #[test]
    fn the_drop_rate_follows_the_count_by_one_newton_step_a_drop() {
        // From the estimate of 1/√1: x(3 − n·x²)/2 in floating point, beside Linux's 16 bits.
        let (mut estimate, mut exact) = (u16::MAX, 1.0_f64);
        for n in 2..2000_u32 {
            estimate = newton_step(estimate, n);
            exact *= (3.0 - f64::from(n) * exact * exact) / 2.0;
            assert!((f64::from(estimate) / 65_536.0 / exact - 1.0).abs() < 0.03, "{n}: {estimate} for {exact}");
        }
        // A count that falls from 100 to 4 leaves the rate near that of 44, not of 4.
        assert_eq!(newton_step(6554, 4), 9699);
    }

    #[test]
    fn ecn_marks_where_it_would_have_dropped() {
        let (marked, sent) = standing_queue(CodelConfig { ecn: true, ..CONFIG }, true, 600);
        assert_eq!(sent.len(), 600);
        assert_eq!(sent.iter().filter(|entry| entry.packet.ce).count(), marked.len());
        assert_eq!(marked[..3], standing_queue(CONFIG, false, 600).0[..3]);
    }

    #[test]
    fn packets_that_cannot_be_marked_are_dropped_though_ecn_is_on() {
        let (dropped, sent) = standing_queue(CodelConfig { ecn: true, ..CONFIG }, false, 600);
        assert!(sent.len() < 600 && !dropped.is_empty());
    }

    #[test]
    fn a_backlog_of_one_packet_is_left_alone_however_long_it_waits() {
        let (mut codel, mut tally) = (Codel::new(CONFIG), Tally::default());
        for second in 0..100 {
            let arrived = Time::ZERO + Span::secs(second);
            codel.enqueue(Entry { packet: packet(1500), arrived }, Limit::NONE, &mut tally);
            codel.dequeue(arrived + Span::millis(900), &mut tally);
        }
        assert_eq!(tally.stats.drops, 0);
    }

    #[test]
    fn ce_threshold_marks_every_packet_that_waited_longer() {
        let config = CodelConfig { ce_threshold: Some(Span::millis(1)), ..CONFIG };
        let (_, sent) = standing_queue(config, true, 50);
        assert_eq!(sent.iter().filter(|entry| entry.packet.ce).count(), 48);
    }

    #[test]
    fn a_threshold_for_ect_1_spares_ect_0() {
        let config = CodelConfig { ce_threshold: Some(Span::millis(1)), ce_only_ect_1: true, ..CONFIG };
        let (mut codel, mut tally) = (Codel::new(config), Tally::default());
        for l4s in [false, true, false, true] {
            let packet = Packet { ect: true, l4s, ..packet(66) };
            codel.enqueue(Entry { packet, arrived: Time::ZERO }, Limit::NONE, &mut tally);
        }
        let sent = std::iter::from_fn(|| codel.dequeue(Time::ZERO + Span::millis(9), &mut tally));
        assert!(sent.map(|entry| entry.packet.ce).eq([false, true, false, true]));
    }

    #[test]
    fn a_dropping_state_soon_after_another_resumes_its_rate() {
        let mut control = Control { count: 10, last_count: 2, drop_next: 1, ..Control::default() };
        let (mut fifo, mut tally) = (Fifo::new(), Tally::default());
        (0..3).for_each(|_| fifo.push(Entry { packet: packet(1500), arrived: Time::ZERO }));
        let head = fifo.pop();
        control.start_dropping(Time::nanos(2048), &CONFIG, 1500, head, &mut fifo, &mut tally);
        assert_eq!((control.count, control.last_count), (8, 8));
        let late = Time::ZERO + Span::secs(100);
        let head = fifo.pop();
        control.start_dropping(late, &CONFIG, 1500, head, &mut fifo, &mut tally);
        assert_eq!(control.count, 1);
    }

    /// An overflow of FQ-CoDel raises the count of a queue that has never dropped.
    #[test]
    fn the_first_dropping_state_begins_at_one_drop() {
        let mut control = Control { count: 10, ..Control::default() };
        let (mut fifo, mut tally) = (Fifo::new(), Tally::default());
        (0..2).for_each(|_| fifo.push(Entry { packet: packet(1500), arrived: Time::ZERO }));
        let head = fifo.pop();
        control.start_dropping(Time::ZERO + Span::millis(200), &CONFIG, 1500, head, &mut fifo, &mut tally);
        assert_eq!(control.count, 1);
    }
}
