//! bbr-lab's own rules, each with its condition just met and just not met.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::super::queue::{Queue, Volumes};
use super::*;
use crate::estimators::RateSample;

/// A flow in CRUISE on a path of 40 packets and 40 ms, fed by hand. Its rounds last as long as their RTT.
struct Flow {
    bbr: Bbr3<Lab>,
    now_us: u64,
    delivered: u64,
    lost: u64,
}

impl Flow {
    fn new(settings: &[(&str, &str)]) -> Self {
        let mut params = LabParams::default();
        for (name, value) in settings {
            params.set(name, value).unwrap();
        }
        let now_us = 1_000_000;
        let mut init = Init::new(Time::micros(now_us)).with_mss(MSS).with_seed(1);
        (init.srtt, init.min_rtt) = (Some(Span::micros(RTT_US)), Some(Span::micros(RTT_US)));
        let mut flow = Self { bbr: Bbr3::lab(&params, &init), now_us, delivered: BDP, lost: 0 };
        let bbr = &mut flow.bbr;
        bbr.full_pipe.reached = true;
        bbr.model.set_max_bw_filter([RATE, RATE]);
        bbr.probe.bw_probe_wait = Span::secs(1_000);
        bbr.probe.cycle_stamp = Time::micros(now_us);
        flow.enters(Phase::ProbeBwCruise)
    }

    fn enters(mut self, phase: Phase) -> Self {
        self.bbr.phase = phase;
        self.bbr.update_gains();
        self.bbr.make_plan(Some(Span::micros(RTT_US)));
        self
    }

    /// Feeds the ACK that begins a round whose RTTs were this long, after the round lost this volume.
    fn round_with_loss(&mut self, rtt_us: u64, lost: u64) {
        self.round_at(self.now_us + rtt_us, rtt_us, lost);
    }

    /// The same at this time.
    fn round_at(&mut self, now_us: u64, rtt_us: u64, lost: u64) {
        self.delivered += BDP - lost;
        self.lost += lost;
        let start = self.bbr.model.rounds.next_delivered.max(self.bbr.bounds.loss_round_delivered);
        self.ack_at(now_us, rtt_us, start);
    }

    /// Feeds an ACK for a packet that was sent when this volume had been delivered: at the round's start, it begins the next.
    fn ack_at(&mut self, now_us: u64, rtt_us: u64, prior_delivered: u64) {
        self.now_us = now_us;
        self.bbr.probe.rounds_since_probe_up = 0;
        let ack = Ack {
            now: Time::micros(self.now_us),
            rs: RateSample {
                delivered: Some(BDP),
                interval_us: Some(RTT_US),
                prior_delivered,
                rtt_us: Some(rtt_us),
                acked_sacked: PACKET,
                prior_in_flight: BDP,
                ..RateSample::default()
            },
            delivered: self.delivered,
            delivered_time_us: self.now_us,
            lost: self.lost,
            in_flight: BDP,
            srtt: Some(Span::micros(rtt_us)),
            ..Ack::default()
        };
        let flight = FlightSample { tx_in_flight: 40 * MSS, ..FlightSample::default() };
        self.bbr.on_ack(&ack, &flight);
    }

    fn round(&mut self, rtt_us: u64) {
        self.round_with_loss(rtt_us, 0);
    }

    fn rounds(&mut self, count: u32, rtt_us: u64) {
        (0..count).for_each(|_| self.round(rtt_us));
    }

    fn queue(&mut self) -> &mut Queue {
        &mut self.bbr.queue
    }

    /// Window that the present model admits.
    fn max_inflight(&self) -> u64 {
        self.bbr.bound_by_queue(self.bbr.bw(), 2 * BDP)
    }

    /// Ends a cycle whose calm and probing parts lost these numbers of 1000 packets; returns the loss threshold.
    fn thresh_after_cycle(&mut self, calm: u64, probing: u64) -> u32 {
        let of = |lost| Volumes { lost, delivered: 1_000 - lost };
        (self.queue().losses.calm, self.queue().losses.probing) = (of(calm), of(probing));
        self.bbr.end_queue_cycle();
        self.bbr.loss_thresh()
    }
}

#[test]
fn bbr_lab_has_at_most_eight_parameters_of_its_own() {
    assert!(QueueParams::SPECS.len() <= 8);
    assert!(QueueParams::SPECS.iter().all(|spec| spec.source.starts_with("ours: ")));
}

#[test]
fn no_rtt_however_long_overflows() {
    for rtt_us in [1, u64::from(u32::MAX), 1 << 33, 1 << 63, u64::MAX - 1] {
        for phase in [Phase::ProbeBwCruise, UP, Phase::ProbeBwDown] {
            let mut flow = Flow::new(&[]).enters(phase);
            (0..12).for_each(|_| flow.round_at(flow.now_us + RTT_US, rtt_us, 0));
            flow.bbr.min_rtt.min_rtt_us = rtt_us;
            (0..12).for_each(|_| flow.round_at(flow.now_us + RTT_US, rtt_us, 0));
            flow.rounds(12, RTT_US);
            assert!(flow.bbr.cwnd_bytes() >= PACKET);
        }
    }
}

#[test]
fn without_an_aim_every_window_and_rate_is_v3s() {
    let mut lab = Flow::new(&[("queue_aim", "0us")]);
    let mut v3 = lab.bbr.clone().under::<Draft06>();
    for nth in 0..300 {
        let rtt_us = RTT_US + 1_000 * (nth % 50);
        lab.round_with_loss(rtt_us, if nth % 7 == 0 { PACKET } else { 0 });
        v3.probe.rounds_since_probe_up = 0;
        let ack = Ack {
            now: Time::micros(lab.now_us),
            rs: RateSample {
                delivered: Some(BDP),
                interval_us: Some(RTT_US),
                prior_delivered: v3.model.rounds.next_delivered.max(v3.bounds.loss_round_delivered),
                rtt_us: Some(rtt_us),
                acked_sacked: PACKET,
                prior_in_flight: BDP,
                ..RateSample::default()
            },
            delivered: lab.delivered,
            delivered_time_us: lab.now_us,
            lost: lab.lost,
            in_flight: BDP,
            srtt: Some(Span::micros(rtt_us)),
            ..Ack::default()
        };
        v3.on_ack(&ack, &FlightSample { tx_in_flight: 40 * MSS, ..FlightSample::default() });
        assert_eq!(lab.bbr.internals(), v3.internals(), "round {nth}");
        assert_eq!((lab.bbr.cwnd_bytes(), lab.bbr.pacing_rate()), (v3.cwnd_bytes(), v3.pacing_rate()));
    }
}

#[test]
fn the_window_grows_by_a_sixteenth_of_the_bdp_up_to_the_aim_and_shrinks_by_half_of_the_excess() {
    // 40 ms, 1.5 ms of aim, and a packet of 1 ms; v3's window would be 80 packets.
    let mut flow = Flow::new(&[("extra_acked_gain", "0")]);
    flow.round(42_500);
    assert_eq!(flow.queue().scale, UNIT + UNIT / 16);
    assert_eq!(flow.max_inflight(), BDP + BDP / 16);
    let mut flow = Flow::new(&[("extra_acked_gain", "0"), ("competitor_queue", "0")]);
    flow.round(85_000);
    assert_eq!(flow.queue().scale, UNIT - UNIT / 4);
    assert_eq!(flow.max_inflight(), BDP * 3 / 4);
}

#[test]
fn the_window_grows_to_an_eighth_above_the_bdp_or_to_two_bursts() {
    let mut flow = Flow::new(&[]);
    flow.rounds(50, RTT_US);
    assert_eq!(flow.queue().scale, UNIT + UNIT / 8);
    // 40 packets of BDP: two bursts of ten are half of it, and two of forty more than v3's window.
    for (burst, most) in [("10", UNIT + UNIT / 2), ("40", 2 * UNIT)] {
        let mut flow = Flow::new(&[("send_quantum_min", burst)]);
        flow.bbr.set_send_quantum();
        flow.rounds(50, RTT_US);
        assert_eq!(flow.queue().scale, most, "{burst}");
    }
}

#[test]
fn a_burst_longer_than_the_aim_is_no_queue() {
    let mut flow = Flow::new(&[("queue_aim", "1us"), ("send_quantum_min", "10")]);
    flow.bbr.set_send_quantum();
    flow.round(50_000);
    assert!(flow.queue().scale > UNIT);
    flow.round(50_200);
    assert!(flow.queue().scale < UNIT + UNIT / 16);
}

#[test]
fn a_window_yields_to_half_a_bdp_and_not_at_all_where_no_queue_was_long() {
    let mut flow = Flow::new(&[]);
    flow.queue().base_us = RTT_US;
    assert_eq!(flow.queue().floor(), UNIT);
    flow.queue().longest_us = RTT_US / 4;
    assert_eq!(flow.queue().floor(), UNIT - UNIT / 8);
    flow.queue().longest_us = 5 * RTT_US;
    assert_eq!(flow.queue().floor(), UNIT / 2);
}

#[test]
fn a_short_rtt_yields_by_no_more_per_second_than_a_long_one() {
    let yielded = |rtt_us: u64, even: &str| {
        let mut flow = Flow::new(&[("even_rtt", even)]);
        flow.queue().longest_us = u64::MAX / u64::from(UNIT) / 2;
        flow.queue().base_us = 1;
        flow.queue().scale_towards(2 * rtt_us, rtt_us, 2 * UNIT);
        u64::from(UNIT - flow.queue().scale)
    };
    assert_eq!(yielded(10_000, "0us"), u64::from(UNIT) / 4);
    // The same queue is a quarter of the even RTT; a half of the RTT yields a quarter as much a round.
    assert_eq!(yielded(10_000, "40ms"), u64::from(UNIT) / 4 / 2 / 4);
    assert_eq!(yielded(20_000, "40ms"), u64::from(UNIT) / 4);
}

#[test]
fn a_long_round_in_cruise_yields_by_the_mean_of_its_windows_unless_its_queue_is_long() {
    // An RTT every 20 ms, after a round in this phase.
    let yields_after = |before: Phase, settings: &[(&str, &str)], rtts_ms: &[u64]| {
        let mut flow = Flow::new(settings).enters(before);
        flow.round(RTT_US);
        (flow.queue().scale, flow.queue().longest_us) = (UNIT, 10 * RTT_US);
        let mut flow = flow.enters(Phase::ProbeBwCruise);
        let start_us = flow.now_us;
        for (at_us, rtt_ms) in (1..).map(|ack| start_us + 20_000 * ack).zip(rtts_ms) {
            flow.ack_at(at_us, rtt_ms * 1_000, 0);
        }
        flow.round_at(flow.now_us + 20_000, 90_000, 0);
        UNIT - flow.queue().scale
    };
    let yields = |settings: &[(&str, &str)], rtts_ms: &[u64]| yields_after(Phase::ProbeBwCruise, settings, rtts_ms);
    // The smallest of each window of 40 ms are 44, 46, 48 and 50 ms; 20 ms of a fifth remain.
    let rtts_ms = [45, 44, 46, 47, 49, 48, 50, 51, 45];
    let of_min = yields(&[], &[44]);
    assert_eq!(yields(&[], &rtts_ms), yields(&[], &[47]));
    assert!(yields(&[], &[47]) > of_min);
    assert_eq!(yields(&[], &rtts_ms[..4]), yields(&[], &[45]), "two windows");
    assert_eq!(yields(&[], &rtts_ms[..3]), of_min, "one window");
    assert_eq!(yields_after(REFILL, &[], &rtts_ms), of_min, "a round that began in UP");
    assert_eq!(yields(&[("even_rtt", "0us")], &rtts_ms), yields(&[("even_rtt", "0us")], &[44]));
    let of_long = yields(&[], &[60]);
    assert_eq!(yields(&[], &[60, 60, 80, 80, 80, 80]), of_long);
    assert!(yields(&[("competitor_queue", "0")], &[60, 60, 80, 80, 80, 80]) > of_long);
}

#[test]
fn without_an_aim_no_window_is_counted() {
    let mut flow = Flow::new(&[("queue_aim", "0us")]);
    flow.queue().windows.count = u32::MAX;
    flow.rounds(5, RTT_US);
    assert_eq!(flow.queue().windows.count, u32::MAX);
}

#[test]
fn a_probe_starts_above_what_was_in_flight_and_grows_only_without_a_queue() {
    let mut flow = Flow::new(&[]).enters(REFILL);
    flow.round(RTT_US);
    assert!(flow.bbr.phase.is_up());
    let first = flow.queue().probe_cwnd;
    assert_eq!(first, BDP * 5 / 4 + 2 * PACKET);
    flow.rounds(2, RTT_US);
    assert_eq!(flow.queue().probe_cwnd, first * 5 / 4 + PACKET);
    let second = flow.queue().probe_cwnd;
    flow.round(44_000);
    assert_eq!(flow.queue().probe_cwnd, second);
}

#[test]
fn renos_sawtooth_begins_a_probe_after_ten_rounds_at_the_earliest_unless_a_competitor_is_there() {
    let mut flow = Flow::new(&[]);
    assert!(flow.bbr.is_too_early_for_renos_probe(9));
    assert!(!flow.bbr.is_too_early_for_renos_probe(10));
    flow.queue().competitors.present = true;
    assert!(!flow.bbr.is_too_early_for_renos_probe(0));
    assert!(!Flow::new(&[("queue_aim", "0us")]).bbr.is_too_early_for_renos_probe(0));
}

#[test]
fn a_probe_ends_after_a_whole_round_above_five_aims() {
    for (setting, rtt_us, ends) in [("5", 48_500, false), ("5", 48_501, true), ("0", 48_501, false)] {
        let mut flow = Flow::new(&[("probe_queue", setting)]).enters(REFILL);
        flow.rounds(2, RTT_US);
        flow.queue().round_us = rtt_us; // the cycle advances before the ACK's own RTT is taken
        flow.round(rtt_us);
        assert_eq!(!flow.bbr.phase.is_up(), ends, "{setting} {rtt_us}");
    }
}

#[test]
fn five_rounds_with_a_long_queue_bring_v3s_window_back() {
    let mut flow = Flow::new(&[]);
    flow.rounds(4, 60_000);
    assert!(!flow.queue().competitors.present);
    flow.round(60_000);
    assert!(flow.queue().competitors.present);
    assert_eq!(flow.max_inflight(), 2 * BDP);
    let mut flow = Flow::new(&[("competitor_queue", "0")]);
    flow.rounds(50, 60_000);
    assert!(!flow.queue().competitors.present);
}

#[test]
fn a_queue_within_a_fifth_of_the_rtt_or_one_that_becomes_shorter_is_no_rivals() {
    let mut flow = Flow::new(&[]);
    flow.rounds(50, 49_900);
    assert!(!flow.queue().competitors.present);
    let mut queue_us = 400_000;
    while queue_us > 12_000 {
        flow.round(RTT_US + queue_us);
        queue_us -= queue_us / 10;
    }
    assert!(!flow.queue().competitors.present);
}

#[test]
fn rivals_are_gone_after_five_rounds_without_a_queue_and_back_after_three_with_one() {
    let mut flow = Flow::new(&[]);
    flow.rounds(6, 60_000);
    flow.rounds(4, RTT_US);
    assert!(flow.queue().competitors.present);
    flow.round(RTT_US);
    assert!(!flow.queue().competitors.present);
    flow.rounds(4, 60_000);
    assert!(flow.queue().competitors.present);
    flow.rounds(5, RTT_US);
    flow.rounds(10, RTT_US);
    flow.rounds(4, 60_000);
    assert!(!flow.queue().competitors.present, "much later they need as long as the first time");
}

#[test]
fn beside_a_rival_the_path_keeps_its_rtt_though_the_minimums_filter_forgets_it() {
    let mut flow = Flow::new(&[]);
    flow.round(RTT_US);
    flow.rounds(400, 60_000);
    assert!(flow.bbr.min_rtt.min_rtt_us > RTT_US, "the filter is ten seconds long");
    assert_eq!(flow.queue().base_us, RTT_US);
    assert!(flow.queue().competitors.present);
}

#[test]
fn loss_without_a_queue_raises_the_threshold_by_half_as_much_again() {
    let thresh = Flow::new(&[]).thresh_after_cycle(20, 20);
    assert_eq!(thresh, 512 + UNIT * 3 / 100);
    assert_eq!(Flow::new(&[]).thresh_after_cycle(300, 300), 512 + 2_560, "at most a tenth");
    assert_eq!(Flow::new(&[("random_loss", "0")]).thresh_after_cycle(20, 20), 512);
}

#[test]
fn loss_is_not_random_where_probing_loses_three_times_as_much_or_the_window_is_small() {
    assert!(Flow::new(&[]).thresh_after_cycle(20, 60) > 512);
    assert_eq!(Flow::new(&[]).thresh_after_cycle(20, 61), 512);
    assert!(Flow::new(&[("random_loss_bdp", "40")]).thresh_after_cycle(20, 20) > 512);
    assert_eq!(Flow::new(&[("random_loss_bdp", "41")]).thresh_after_cycle(20, 20), 512);
}

#[test]
fn loss_that_an_ack_reports_after_queueing_is_not_random() {
    for (longest_us, extra_us, random) in [(0, 0, PACKET), (0, 1, 0), (20_000, 0, PACKET), (20_000, 1, 0)] {
        let mut flow = Flow::new(&[]);
        flow.round(RTT_US);
        flow.queue().longest_us = longest_us;
        let burst_us = flow.bbr.burst_us();
        let most_us = (longest_us / 2).max(burst_us + burst_us / 2);
        flow.queue().round_us = RTT_US;
        flow.round_with_loss(RTT_US + most_us + extra_us, PACKET);
        assert_eq!(flow.queue().losses.calm.lost, random, "{longest_us} {extra_us}");
    }
}

#[test]
fn a_full_packets_time_is_no_queue_where_only_a_small_one_measured_the_path() {
    for (rtt_us, is_calm) in [(RTT_US + 1_100, true), (RTT_US + 1_101, false)] {
        let mut flow = Flow::new(&[]);
        flow.round(RTT_US);
        flow.queue().longest_us = 0;
        flow.round_with_loss(rtt_us, PACKET);
        assert_eq!(flow.queue().losses.calm.lost > 0, is_calm, "{rtt_us}");
    }
}

#[test]
fn only_cruising_without_a_queue_counts_as_calm() {
    let mut flow = Flow::new(&[]);
    flow.round_with_loss(60_000, PACKET);
    assert_eq!(flow.queue().losses.calm.lost, 0);
    flow.round_with_loss(RTT_US, PACKET);
    assert_eq!(flow.queue().losses.calm.lost, PACKET);
    let mut flow = flow.enters(Phase::ProbeBwDown);
    flow.bbr.bounds.inflight_longterm = 0; // stays in DOWN
    flow.round_with_loss(RTT_US, PACKET);
    assert_eq!((flow.queue().losses.calm.lost, flow.queue().losses.probing.lost), (PACKET, PACKET));
}

#[test]
fn a_round_that_lost_no_more_than_the_threshold_leaves_the_short_term_bounds() {
    let bound_after = |settings: &[(&str, &str)], lost| {
        let mut flow = Flow::new(settings);
        flow.round(RTT_US);
        flow.bbr.on_loss(flow.delivered);
        flow.round_with_loss(RTT_US, lost);
        flow.bbr.bounds.inflight_shortterm
    };
    assert_eq!(bound_after(&[], BDP / 50), INFINITY);
    assert_ne!(bound_after(&[], BDP / 49), INFINITY);
    assert_ne!(bound_after(&[("random_loss", "0")], BDP / 50), INFINITY);
}

#[test]
fn an_rtt_near_the_minimum_postpones_probe_rtt_after_the_first() {
    let is_due = |settings: &[(&str, &str)], has_probed, rtt_us| {
        let mut flow = Flow::new(settings);
        flow.queue().has_probed_rtt = has_probed;
        (0..150).any(|_| {
            flow.round(rtt_us);
            flow.bbr.phase.is_probe_rtt()
        })
    };
    assert!(!is_due(&[], true, 41_200));
    assert!(is_due(&[], true, 41_201));
    assert!(is_due(&[], false, 41_200));
    assert!(is_due(&[("min_rtt_tolerance", "0")], true, 41_200));
}

/// Beside a competitor the base does not rise. On a longer path each ProbeRTT finds the same RTT, beside a queue of others not.
#[test]
fn three_probe_rtts_with_the_same_longer_rtt_are_a_longer_path() {
    let competes_after = |rtts_us: &[u64]| {
        let mut flow = Flow::new(&[]);
        flow.round(RTT_US);
        flow.queue().competitors.present = true;
        for rtt_us in rtts_us {
            flow.bbr.min_rtt.min_rtt_us = *rtt_us;
            flow.bbr.min_rtt.probe_rtt_min_delay_us = *rtt_us;
            flow.bbr.note_probe_rtt();
        }
        let queue = flow.queue();
        (queue.competitors.present, queue.base_us)
    };
    assert_eq!(competes_after(&[60_000; 2]), (true, RTT_US));
    assert_eq!(competes_after(&[60_000; 3]), (false, 60_000));
    // A hundredth and half a packet's time, which is 500 µs here.
    assert_eq!(competes_after(&[60_000, 61_050, 60_000]), (false, 60_000));
    assert_eq!(competes_after(&[60_000, 61_200, 60_000]), (true, RTT_US));
    assert_eq!(competes_after(&[60_000, 60_000, 90_000, 60_000, 60_000]), (true, RTT_US));
    // Hardly longer than it was.
    assert_eq!(competes_after(&[41_250; 3]), (true, RTT_US));
    assert_eq!(competes_after(&[41_251; 3]), (false, 41_251));
}
