//! bbr-lab's rules: window and probe follow the queue that the smallest RTT of a round shows. docs/bbr-lab.md has the reasons.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod windows;

use self::windows::Windows;
use super::lab::QueueParams;
use super::phase::Phase;
use super::rules::Rules;
use super::{BW_SHIFT, Bbr3, INFINITY, UNIT, scaled};
use crate::event::Ack;
use crate::params::MAX_PARAMS;
use crate::units::{MICROS_PER_SEC, Span, Time};
use crate::wide;

/// The state of these rules in an edition: a [`Queue`], or nothing, so that no other edition has a byte or an instruction of them.
pub trait QueueState: Copy + core::fmt::Debug + Send + Sync + 'static {
    /// The state of a flow that is not initialised.
    const NONE: Self;
    /// The state, if the edition has these rules.
    fn get(&self) -> Option<&Queue>;
    /// The same, to change it.
    fn get_mut(&mut self) -> Option<&mut Queue>;
    /// Number of parameters of these rules, which stand before the edition's.
    const PARAMETERS: usize;
    /// Sets them from these values.
    fn set_parameters(&mut self, values: &[u32; MAX_PARAMS]);
}

impl QueueState for () {
    const NONE: Self = ();

    #[inline]
    fn get(&self) -> Option<&Queue> {
        None
    }

    #[inline]
    fn get_mut(&mut self) -> Option<&mut Queue> {
        None
    }

    const PARAMETERS: usize = 0;

    #[inline]
    fn set_parameters(&mut self, _: &[u32; MAX_PARAMS]) {}
}

impl QueueState for Queue {
    const NONE: Self = Self::NONE;

    #[inline]
    fn get(&self) -> Option<&Queue> {
        Some(self)
    }

    #[inline]
    fn get_mut(&mut self) -> Option<&mut Queue> {
        Some(self)
    }

    const PARAMETERS: usize = QueueParams::SPECS.len();

    #[inline]
    fn set_parameters(&mut self, values: &[u32; MAX_PARAMS]) {
        self.p = QueueParams::from_values(values, 0);
    }
}

/// Longest time that the rules tell from longer ones: 71 minutes, so that no product of times overflows.
const MAX_US: u64 = u32::MAX as u64;

/// Number of consecutive ProbeRTTs with the same RTT that indicate a longer path. Two also occur beside a slowly growing CUBIC.
const LONGER: u32 = 3;

/// State of bbr-lab's rules. Times are in µs, volumes in the edition's unit.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    pub(super) p: QueueParams,
    /// Smallest RTT of the present round.
    pub(super) round_us: u64,
    pub(super) windows: Windows,
    /// RTT of the path without a queue.
    pub(super) base_us: u64,
    /// Longest queue of a whole round lately.
    pub(super) longest_us: u64,
    /// Window between probes, as a factor of the BDP.
    pub(super) scale: u32,
    /// Window of the present probe, and its rounds.
    pub(super) probe_cwnd: u64,
    pub(super) probe_rounds: u32,
    pub(super) competitors: Competitors,
    pub(super) losses: Losses,
    /// True once a ProbeRTT has measured the path.
    pub(super) has_probed_rtt: bool,
}

/// Signs of flows that keep a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Competitors {
    /// True while v3's own window and probe hold.
    pub(super) present: bool,
    /// Rounds with a queue that became no shorter than `low_us`, and the time of the first.
    pub(super) rounds: u32,
    since: Time,
    low_us: u64,
    /// Rounds without a queue since the competitors appeared.
    calm_rounds: u32,
    /// Time at which they were last present.
    left: Option<Time>,
    /// Smallest RTT of the last ProbeRTT, and number of consecutive ones that matched the one before and exceeded the base.
    probed_us: u64,
    longer: u32,
}

impl Competitors {
    const NONE: Self = Self {
        present: false,
        rounds: 0,
        since: Time::ZERO,
        low_us: INFINITY,
        calm_rounds: 0,
        left: None,
        probed_us: 0,
        longer: 0,
    };
}

/// Losses by the part of the cycle to which they belong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Losses {
    /// Share lost without a queue, added to the loss threshold.
    pub(super) random: u32,
    /// The flow's totals at the start of this round, and of this round of loss.
    round: Volumes,
    loss_round: Volumes,
    /// Volume lost so far, and in this round for want of room.
    seen: u64,
    queued: u64,
    /// Volumes of this cycle: of cruising without a queue, and of probing and draining.
    pub(super) calm: Volumes,
    pub(super) probing: Volumes,
}

impl Losses {
    const NONE: Self = Self {
        random: 0,
        round: Volumes::NONE,
        seen: 0,
        queued: 0,
        loss_round: Volumes::NONE,
        calm: Volumes::NONE,
        probing: Volumes::NONE,
    };
}

/// Volume lost and delivered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Volumes {
    pub(super) lost: u64,
    pub(super) delivered: u64,
}

impl Volumes {
    const NONE: Self = Self { lost: 0, delivered: 0 };

    const fn of(ack: &Ack) -> Self {
        Self { lost: ack.lost, delivered: ack.delivered }
    }

    const fn since(self, start: Self) -> Self {
        Self { lost: self.lost.saturating_sub(start.lost), delivered: self.delivered.saturating_sub(start.delivered) }
    }

    const fn add(&mut self, more: Self) {
        self.lost = self.lost.saturating_add(more.lost);
        self.delivered = self.delivered.saturating_add(more.delivered);
    }

    /// Share that was lost, rounded down; 0 of nothing.
    const fn share(self) -> u64 {
        let all = self.lost.saturating_add(self.delivered);
        match wide::saturating_mul(self.lost, UNIT as u64).checked_div(all) {
            Some(share) => share,
            None => 0,
        }
    }
}

impl Queue {
    /// A flow without rules: the parameters are all zero.
    pub(super) const NONE: Self = Self {
        p: QueueParams::BLANK,
        round_us: INFINITY,
        windows: Windows::NONE,
        base_us: INFINITY,
        longest_us: 0,
        scale: UNIT,
        probe_cwnd: INFINITY,
        probe_rounds: 0,
        competitors: Competitors::NONE,
        losses: Losses::NONE,
        has_probed_rtt: false,
    };

    /// True if the rules are in force: without an aim the flow is v3's.
    const fn is_on(&self) -> bool {
        self.p.queue_aim > 0
    }

    /// Queue to aim at. Short paths have a shorter one, or it would be most of their RTT.
    pub(super) fn aim_us(&self, min_rtt_us: u64) -> u64 {
        u64::from(self.p.queue_aim).min(min_rtt_us / 4)
    }

    /// Smallest RTT for the timing of yields: shorter RTTs count as this one. Longer rounds look for a queue in windows of it.
    fn even_us(&self) -> u64 {
        u64::from(self.p.even_rtt).max(1)
    }

    /// Smallest factor of the BDP. Half a BDP is ProbeRTT's; where no queue has been long, yielding could not shorten the RTT.
    pub(super) fn floor(&self) -> u32 {
        let base = self.base_us.max(self.even_us());
        let part = wide::saturating_mul(self.longest_us / 2, u64::from(UNIT)) / base;
        UNIT - u32::try_from(part).map_or(UNIT / 2, |part| part.min(UNIT / 2))
    }

    /// Moves the window towards the aim: up by at most a sixteenth, down by half of the excess divided by the RTT. An RTT
    /// below `even_rtt` counts as `even_rtt`, so that a short path does not yield more to the same queue.
    pub(super) fn scale_towards(&mut self, rtt_us: u64, target_us: u64, most: u32) {
        let (scale, even) = (u64::from(self.scale), self.even_us());
        let weight = rtt_us.min(even);
        let next = if rtt_us <= target_us {
            scale + scale * weight / (16 * even)
        } else {
            let excess = scale * (rtt_us - target_us) / rtt_us.max(even) / 2;
            scale - excess * weight / even * weight / even
        };
        self.scale = u32::try_from(next).unwrap_or(most).max(self.floor()).min(most);
    }

    /// Longest queue that is no sign of a competitor.
    fn own_queue_us(&self, min_rtt_us: u64, packet_us: u64) -> u64 {
        let share = scaled(self.base_us, self.p.competitor_queue).max(2 * self.aim_us(min_rtt_us));
        share + (2 * packet_us).min(self.base_us / 4)
    }

    /// Records a round with a long queue between probes; returns true if it shows a competitor.
    fn is_competitors_round(&mut self, rtt_us: u64, now: Time) -> bool {
        let (queue, even) = (rtt_us - self.base_us, self.even_us());
        let competitors = &mut self.competitors;
        if competitors.rounds == 0 || queue + queue / 16 < competitors.low_us {
            (competitors.rounds, competitors.since, competitors.low_us) = (0, now, queue);
        }
        competitors.rounds += 1;
        let first = self.p.competitor_rounds;
        let round = Span::micros(even * even.max(rtt_us) / rtt_us.max(1));
        let is_return = competitors.left.is_some_and(|left| now.since(left).as_micros() < 2 * u64::from(first) * even);
        let needed = if is_return { first.div_ceil(2) } else { first };
        competitors.rounds >= needed
            && now.since(competitors.since).as_micros() >= u64::from(needed) * round.as_micros()
    }

    /// Ends competition with a smaller window: after it, the flows' estimates add up to more than the link's rate.
    fn end_competition(&mut self) {
        (self.competitors.present, self.scale) = (false, UNIT * 7 / 8);
    }

    /// Records the smallest RTT of a ProbeRTT. Returns true if the path has become longer: the RTT is the same each time, while
    /// a competitor's queue varies.
    fn is_path_longer(&mut self, rtt_us: u64, min_rtt_us: u64, packet_us: u64) -> bool {
        let last_us = core::mem::replace(&mut self.competitors.probed_us, rtt_us);
        let is_equal = rtt_us.abs_diff(last_us) <= rtt_us / 100 + packet_us / 2;
        let is_above = rtt_us.min(min_rtt_us) > self.base_us.saturating_add(self.base_us / 32);
        let longer = if self.competitors.present && is_equal && is_above { self.competitors.longer + 1 } else { 0 };
        self.competitors.longer = longer;
        longer >= LONGER - 1
    }

    /// Ends a cycle: derives the share of random loss from its volumes.
    fn end_cycle(&mut self, is_small: bool) {
        self.longest_us -= self.longest_us / 4;
        let losses = &mut self.losses;
        let calm = losses.calm.share() * 3 / 2;
        losses.random = if self.competitors.present || is_small || losses.probing.share() > 2 * calm {
            0
        } else if losses.calm.delivered == 0 {
            losses.random / 2
        } else {
            u32::try_from(calm).map_or(self.p.random_loss, |calm| calm.min(self.p.random_loss))
        };
        (losses.calm, losses.probing) = (Volumes::NONE, Volumes::NONE);
    }
}

impl<R: Rules> Bbr3<R> {
    /// Restarts the rules' state and keeps the parameters.
    pub(super) fn restart_queue(&mut self) {
        // Field by field: a whole value would take its size of a kernel's 512 bytes of stack.
        if let Some(queue) = self.queue.get_mut() {
            (queue.round_us, queue.base_us, queue.longest_us) = (INFINITY, INFINITY, 0);
            (queue.scale, queue.probe_cwnd, queue.probe_rounds) = (UNIT, INFINITY, 0);
            queue.windows = Windows::NONE;
            queue.competitors = Competitors::NONE;
            queue.losses = Losses::NONE;
            queue.has_probed_rtt = false;
        }
    }

    /// Records an ACK's RTT, and applies the rules at the end of a round.
    #[inline]
    pub(super) fn update_queue(&mut self, ack: &Ack) {
        let Some(queue) = self.queue.get_mut() else { return };
        if let Some(rtt) = ack.rs.rtt_us {
            let rtt_us = rtt.min(MAX_US);
            queue.round_us = queue.round_us.min(rtt_us);
            if queue.is_on() && queue.p.even_rtt > 0 {
                queue.windows.record(rtt_us, ack.now, queue.even_us());
            }
        }
        if ack.lost != queue.losses.seen {
            self.place_loss(ack);
        }
        let Some(queue) = self.queue.get() else { return };
        if self.model.rounds.start && queue.is_on() {
            self.end_queue_round(ack);
        }
    }

    #[inline(never)]
    fn end_queue_round(&mut self, ack: &Ack) {
        let (min_rtt_us, is_measured) = (self.path_us(), self.min_rtt.min_rtt_us != INFINITY);
        let is_cruise = matches!(self.phase, Phase::ProbeBwCruise);
        let Some(queue) = self.queue.get_mut() else { return };
        let rtt_us = core::mem::replace(&mut queue.round_us, INFINITY);
        let mean_us = queue.windows.end_round(is_cruise);
        if rtt_us == INFINITY || !is_measured {
            return;
        }
        // The minimum's filter forgets the path beside a competitor, whose queue never empties.
        let is_held = queue.competitors.present || queue.competitors.rounds > 0;
        queue.base_us = if is_held { queue.base_us.min(min_rtt_us) } else { min_rtt_us };
        if !self.full_pipe.reached {
            return;
        }
        queue.longest_us = queue.longest_us.max(rtt_us.saturating_sub(queue.base_us));
        self.postpone_probe_rtt(rtt_us, ack);
        self.count_loss(rtt_us, ack);
        self.watch_for_competitors(rtt_us, ack.now);
        // The smallest RTT of a long round is that of a longer time: by it, a long RTT would yield less than a short one.
        let is_quiet = self.queue.get().is_some_and(|queue| queue.competitors.rounds == 0);
        self.follow_queue(mean_us.filter(|_| is_quiet).unwrap_or(rtt_us));
    }

    // rule: ProbeRTT on demand
    fn postpone_probe_rtt(&mut self, rtt_us: u64, ack: &Ack) {
        let Some(queue) = self.queue.get_mut() else { return };
        let min_rtt_us = self.min_rtt.min_rtt_us.min(MAX_US);
        let most = min_rtt_us.saturating_add(scaled(min_rtt_us, queue.p.min_rtt_tolerance));
        let is_near = queue.p.min_rtt_tolerance > 0 && rtt_us <= most;
        if is_near && queue.has_probed_rtt && !queue.competitors.present {
            let tick = self.tick(ack.now, ack.tick);
            self.min_rtt.min_rtt_stamp = tick;
            self.min_rtt.set_probe_rtt_min_stamp(tick);
        }
    }

    /// Counts a loss as congestion if the ACK that reports it has the RTT of a long queue.
    // rule: random loss
    #[inline(never)]
    fn place_loss(&mut self, ack: &Ack) {
        let burst_us = self.burst_us();
        let Some(queue) = self.queue.get_mut() else { return };
        let lost = ack.lost.saturating_sub(core::mem::replace(&mut queue.losses.seen, ack.lost));
        let most = (queue.longest_us / 2).max(burst_us + burst_us / 2);
        if ack.rs.rtt_us.is_some_and(|rtt| rtt.min(MAX_US) > queue.base_us.saturating_add(most)) {
            queue.losses.queued = queue.losses.queued.saturating_add(lost);
        }
    }

    // rule: random loss
    fn count_loss(&mut self, rtt_us: u64, ack: &Ack) {
        let (min_rtt_us, packet_us) = (self.path_us(), self.packet_us());
        let Some(queue) = self.queue.get_mut() else { return };
        let now = Volumes::of(ack);
        let mut round = now.since(core::mem::replace(&mut queue.losses.round, now));
        let queued = core::mem::take(&mut queue.losses.queued);
        // In a shallow buffer even a full queue is short. Where none was longer than two packets, a full packet's own time is no
        // queue: the base may be a small packet's.
        let short_us = if queue.longest_us > 2 * packet_us { queue.longest_us / 4 } else { packet_us };
        let most = (queue.aim_us(min_rtt_us) + packet_us).min(short_us + 100);
        match self.phase {
            Phase::ProbeBwCruise if rtt_us <= queue.base_us + most => {
                round.lost = round.lost.saturating_sub(queued);
                queue.losses.calm.add(round);
            }
            Phase::ProbeBwUp(_) | Phase::ProbeBwDown => queue.losses.probing.add(round),
            _ => {}
        }
    }

    // rule: competitors
    fn watch_for_competitors(&mut self, rtt_us: u64, now: Time) {
        let (min_rtt_us, packet_us) = (self.path_us(), self.packet_us());
        let Some(queue) = self.queue.get_mut() else { return };
        if queue.p.competitor_queue == 0 {
            return;
        }
        let is_long = rtt_us > queue.base_us + queue.own_queue_us(min_rtt_us, packet_us);
        let is_between = matches!(self.phase, Phase::ProbeBwDown | Phase::ProbeBwCruise | Phase::ProbeBwRefill { .. });
        if !is_long {
            queue.competitors.rounds = 0;
            queue.competitors.calm_rounds += u32::from(queue.competitors.present);
            if queue.competitors.present && queue.competitors.calm_rounds >= queue.p.competitor_rounds {
                queue.end_competition();
                queue.competitors.left = Some(now);
                self.out.plan.forget();
            }
        } else if is_between && !queue.competitors.present && queue.is_competitors_round(rtt_us, now) {
            (queue.competitors.present, queue.competitors.calm_rounds) = (true, 0);
            queue.losses.random = 0;
            self.out.plan.forget();
        }
    }

    // rule: window by queue, probe by queue
    fn follow_queue(&mut self, rtt_us: u64) {
        let (most, gain, packet) = (self.most_scale(), self.p.probe_up_pacing_gain, self.smss());
        let (min_rtt_us, packet_us) = (self.path_us(), self.packet_us());
        let burst_us = self.burst_us();
        let Some(queue) = self.queue.get_mut() else { return };
        if queue.competitors.present {
            return;
        }
        let target_us = min_rtt_us + (queue.aim_us(min_rtt_us) + packet_us).max(burst_us);
        match self.phase {
            Phase::ProbeBwUp(_) => {
                queue.probe_rounds += 1;
                if queue.probe_rounds > 2 && rtt_us <= target_us {
                    queue.probe_cwnd = scaled(queue.probe_cwnd, gain).saturating_add(packet);
                }
            }
            Phase::ProbeBwDown | Phase::ProbeBwCruise => queue.scale_towards(rtt_us, target_us, most),
            _ => return,
        }
        self.out.plan.forget();
    }

    /// Begins a probe with this volume in flight.
    // rule: probe by queue
    pub(super) fn begin_queue_probe(&mut self, in_flight: u64) {
        let Some(queue) = self.queue.get() else { return };
        let cruise = self.queue_volume(self.bw(), queue.scale).min(in_flight).max(self.host.min_pipe_cwnd());
        let cwnd = scaled(cruise, self.p.probe_up_pacing_gain).saturating_add(2 * self.smss());
        if let Some(queue) = self.queue.get_mut() {
            (queue.probe_cwnd, queue.probe_rounds) = (cwnd, 0);
        }
    }

    /// True if a probe has kept a queue for a whole round.
    // rule: probe by queue
    #[inline]
    pub(super) fn has_probed_a_queue(&self) -> bool {
        let Some(queue) = self.queue.get() else { return false };
        if !self.model.rounds.start || !queue.is_on() || queue.p.probe_queue == 0 || queue.competitors.present {
            return false;
        }
        let aims = queue.aim_us(self.path_us()) * u64::from(queue.p.probe_queue);
        let most = self.path_us() + aims + self.packet_us();
        queue.probe_rounds >= 2 && queue.round_us != INFINITY && queue.round_us > most
    }

    /// Ends a cycle, when the next probe begins.
    // rule: random loss
    #[inline]
    pub(super) fn end_queue_cycle(&mut self) {
        if self.queue.get().is_none() {
            return;
        }
        let packets = self.bdp_multiple(self.model.max_bw(), UNIT) / self.smss().max(1);
        if let Some(queue) = self.queue.get_mut() {
            queue.end_cycle(packets < u64::from(queue.p.random_loss_bdp));
        }
    }

    /// Share of loss that is too much.
    // rule: random loss
    #[inline]
    pub(super) fn loss_thresh(&self) -> u32 {
        match self.queue.get() {
            Some(queue) => self.p.loss_thresh + queue.losses.random,
            None => self.p.loss_thresh,
        }
    }

    /// True if a round of loss lost so little that the short-term bounds stay.
    // rule: random loss
    #[inline]
    pub(super) fn is_loss_random(&mut self, ack: &Ack) -> bool {
        let thresh = self.loss_thresh();
        let Some(queue) = self.queue.get_mut() else { return false };
        let now = Volumes::of(ack);
        let round = now.since(core::mem::replace(&mut queue.losses.loss_round, now));
        queue.is_on() && queue.p.random_loss > 0 && round.share() <= u64::from(thresh)
    }

    /// Notes that a ProbeRTT has measured the path.
    // rule: competitors
    pub(super) fn note_probe_rtt(&mut self) {
        let rtt_us = self.min_rtt.probe_rtt_min_delay_us.min(MAX_US);
        let (min_rtt_us, packet_us) = (self.path_us(), self.packet_us());
        let Some(queue) = self.queue.get_mut() else { return };
        queue.has_probed_rtt = true;
        if queue.is_path_longer(rtt_us, min_rtt_us, packet_us) {
            queue.end_competition();
            (queue.competitors.rounds, queue.base_us, queue.longest_us) = (0, min_rtt_us, 0);
            self.out.plan.forget();
        }
    }

    /// Bounds v3's window by the queue.
    // rule: window by queue, probe by queue
    #[inline]
    pub(super) fn bound_by_queue(&self, bw: u64, max_inflight: u64) -> u64 {
        let Some(queue) = self.queue.get() else { return max_inflight };
        if !queue.is_on() || queue.competitors.present || !self.full_pipe.reached {
            return max_inflight;
        }
        max_inflight.min(match self.phase {
            Phase::ProbeBwDown | Phase::ProbeBwCruise | Phase::ProbeBwRefill { .. } => {
                self.queue_volume(bw, queue.scale)
            }
            Phase::ProbeBwUp(_) if queue.p.probe_queue > 0 => queue.probe_cwnd.saturating_add(self.extra_acked()),
            _ => INFINITY,
        })
    }

    /// Returns this factor of the BDP with room for aggregated ACKs, at least two bursts.
    fn queue_volume(&self, bw: u64, gain: u32) -> u64 {
        let volume = self.bdp_multiple(bw, gain).saturating_add(self.extra_acked());
        volume.max(self.two_bursts()).max(self.host.min_pipe_cwnd())
    }

    /// Largest factor of the BDP between probes: an eighth more than the BDP, or two bursts more, at most v3's window.
    // rule: window by queue
    fn most_scale(&self) -> u32 {
        let bdp = self.bdp_multiple(self.model.max_bw(), UNIT).max(1);
        let bursts = wide::saturating_mul(self.two_bursts(), u64::from(UNIT)) / bdp;
        let room = u32::try_from(bursts).map_or(UNIT, |bursts| bursts.min(UNIT));
        (UNIT + room.max(UNIT / 8)).min(self.p.default_cwnd_gain)
    }

    /// Volume of two bursts that leave at once.
    fn two_bursts(&self) -> u64 {
        wide::saturating_mul(self.out.send_quantum, 2)
    }

    /// True if Reno's sawtooth is no reason to probe yet. Where the BDP is few packets, the probes of a crowd would leave no
    /// time in which to tell its own queue from a competitor's.
    // rule: probe by queue
    #[inline]
    pub(super) fn is_too_early_for_renos_probe(&self, rounds: u64) -> bool {
        self.queue.get().is_some_and(|queue| {
            queue.is_on() && !queue.competitors.present && rounds < 2 * u64::from(queue.p.competitor_rounds)
        })
    }

    /// Time for which a burst that leaves at once queues behind itself.
    pub(super) fn burst_us(&self) -> u64 {
        let burst_us = wide::saturating_mul(self.out.send_quantum, MICROS_PER_SEC) / self.out.pacing_rate.max(1);
        burst_us.min(MAX_US)
    }

    /// The minimum RTT.
    fn path_us(&self) -> u64 {
        self.min_rtt.min_rtt_us.min(MAX_US)
    }

    /// Time of a full packet at the estimated bandwidth.
    fn packet_us(&self) -> u64 {
        (self.smss() << BW_SHIFT).checked_div(self.model.max_bw()).unwrap_or(0).min(MAX_US)
    }
}
