//! Tests of the link as a whole: closed forms, and the disciplines under load.
//! Expected figures are calculated by hand, never measured first.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::Arc;

use bbrlab_core::{Rate, Rng, Span, Time};
use proptest::prelude::*;

use super::testing::{Packet, drain, drop_tail, link_config, paced, packet, play};
use super::*;

/// 1500 bytes at 12 Mbit/s take exactly a millisecond.
const RATE_BPS: u64 = 12_000_000;
const MS: u64 = 1_000_000;
const DEEP: Buffer = Buffer::Packets(100_000);
const CODEL: Codel = Codel {
    target: Span::millis(5),
    interval: Span::millis(100),
    ecn: false,
    ce_threshold: None,
    ce_only_ect_1: false,
};
const FQ: FqCodel = FqCodel { codel: CODEL, flows: 1024, quantum: 1514 };
const RED: Red = Red { min: 30_000, max: 90_000, probability: 0.1, wlog: 9, gentle: true, ecn: false };
const PIE: Pie = Pie {
    target: Span::millis(15),
    tupdate: Span::millis(15),
    alpha: 0.125,
    beta: 1.25,
    max_burst: Span::millis(150),
    ecn: false,
};

/// CAKE with flows of all classes, on three hosts.
fn cake(tins: Tins, interval: Span) -> Cake {
    let class = |flow: u32| FlowClass { dscp: [0, 8, 34, 46][flow as usize % 4], host: flow % 3 };
    let flows = (0..6).map(class).collect();
    let target = Span::nanos(interval.as_nanos() / 20);
    Cake { tins, host_fairness: true, interval, target, packet_bytes: 1514, flows }
}

fn rate_link(buffer: Buffer, aqm: Aqm) -> Link<Packet> {
    Link::new(&link_config(Service::Rate(Rate::bits_per_sec(RATE_BPS)), buffer, aqm), 1)
}

fn trace_link(text: &str) -> Link<Packet> {
    let trace = Arc::new(DeliveryTrace::parse(text).unwrap());
    Link::new(&link_config(Service::Trace(trace), DEEP, Aqm::DropTail), 1)
}

fn departure_times(departures: &[Departure<Packet>]) -> Vec<u64> {
    departures.iter().map(|departure| departure.at.as_nanos()).collect()
}

/// Offers packets for 60 s at `overload` times the rate. Returns the mean queue delay after the first 20 s, ms, with the link.
fn mean_delay_under(aqm: Aqm, overload: f64, ect: bool) -> (f64, Link<Packet>) {
    let mut link = rate_link(DEEP, aqm);
    let gap = (MS as f64 / overload) as u64;
    let (_, departures) = play(&mut link, paced(60_000 * MS / gap, gap, ect));
    let settled: Vec<f64> = departures
        .iter()
        .filter(|departure| (20_000 * MS..60_000 * MS).contains(&departure.at.as_nanos()))
        .map(|departure| departure.queue_delay.as_nanos() as f64 / 1e6)
        .collect();
    (settled.iter().sum::<f64>() / settled.len() as f64, link)
}

/// Runs one Reno flow of 1500-byte packets over 50 ms for 60 s. Returns its mean queue delay after the first 20 s, ms.
fn mean_delay_of_reno(aqm: Aqm) -> f64 {
    let rtt = Span::millis(50);
    let mut link = rate_link(Buffer::Packets(200), aqm);
    let delay = DelayConfig { delay: rtt, jitter: Span::ZERO, jitter_reorders: false, reorder: 0.0, duplicate: 0.0 };
    let mut acks: DelayLine<()> = DelayLine::new(&delay, 1);
    let (mut now, mut window, mut inflight, mut deaf_until) = (Time::ZERO, 10.0_f64, 0_u32, Time::ZERO);
    let (mut drops, mut sum, mut n) = (Vec::new(), 0.0, 0);
    while now < Time::ZERO + Span::secs(60) {
        while f64::from(inflight) < window {
            inflight += 1;
            if link.offer(now, packet(1500)) == Verdict::Dropped {
                drops.push(0);
                break;
            }
        }
        link.take_dropped(&mut drops);
        inflight -= drops.len() as u32;
        if !drops.is_empty() && now >= deaf_until {
            window = (window / 2.0).max(1.0);
            deaf_until = now + rtt + rtt;
        }
        drops.clear();
        now = link.next_departure().min(acks.next());
        if let Some(departure) = link.depart(now) {
            acks.push(now, ());
            if now.as_nanos() > 20_000 * MS {
                sum += departure.queue_delay.as_nanos() as f64 / 1e6;
                n += 1;
            }
        }
        while acks.pop(now).is_some() {
            inflight -= 1;
            window += 1.0 / window;
        }
    }
    sum / f64::from(n)
}

#[test]
fn packets_leave_back_to_back_and_waits_are_pure_waiting() {
    let mut link = drop_tail(RATE_BPS, DEEP);
    let arrivals = [0, 0, MS / 2, 10 * MS].map(|at| (Time::nanos(at), packet(1500)));
    let (_, departures) = play(&mut link, arrivals);
    assert_eq!(departure_times(&departures), [MS, 2 * MS, 3 * MS, 11 * MS]);
    let waits: Vec<u64> = departures.iter().map(|departure| departure.queue_delay.as_nanos()).collect();
    assert_eq!(waits, [0, MS, 3 * MS / 2, 0]);
}

#[test]
fn random_arrivals_wait_as_long_as_the_m_d_1_formula_says() {
    // At load ρ the mean wait is ρ/(2(1−ρ)) service times. Exponential gaps come from 64-bit random numbers.
    let (load, mut rng, mut now) = (0.8, Rng::new(5), 0.0);
    let arrivals = (0..400_000).map(|_| {
        now += -((rng.next_u64() as f64 + 1.0) / 18_446_744_073_709_551_616.0).ln() * MS as f64 / load;
        (Time::nanos(now as u64), packet(1500))
    });
    let (_, departures) = play(&mut drop_tail(RATE_BPS, DEEP), arrivals.collect::<Vec<_>>());
    let mean = departures.iter().map(|departure| departure.queue_delay.as_nanos() as f64).sum::<f64>()
        / departures.len() as f64;
    let expected = load / (2.0 * (1.0 - load)) * MS as f64;
    assert!((mean / expected - 1.0).abs() < 0.05, "mean wait {mean} ns, expected {expected}");
}

#[test]
fn drop_tail_holds_its_limit_and_the_packet_in_service() {
    for (buffer, held) in [
        (Buffer::Packets(5), 6),
        (Buffer::Packets(0), 1),
        (Buffer::Bytes(5 * 1500), 6),
        (Buffer::Bytes(6 * 1500 - 1), 6),
        (Buffer::Bytes(1499), 1),
    ] {
        let mut link = drop_tail(RATE_BPS, buffer);
        let queued = (0..20).filter(|_| link.offer(Time::ZERO, packet(1500)) == Verdict::Queued).count();
        assert_eq!((queued, link.queue_packets(), link.queue_bytes()), (held, held as u32, held as u64 * 1500));
        assert_eq!(link.stats().drops, 20 - held as u64);
    }
}

#[test]
fn a_smaller_buffer_keeps_what_waits_and_refuses_more() {
    let mut link = drop_tail(RATE_BPS, Buffer::Packets(5));
    for _ in 0..6 {
        link.offer(Time::ZERO, packet(1500));
    }
    link.set_buffer(Buffer::Packets(2));
    assert_eq!(link.offer(Time::ZERO, packet(1500)), Verdict::Dropped);
    assert_eq!(link.queue_packets(), 6);
}

#[test]
fn a_rate_change_mid_packet_splits_its_bits_and_the_capacity() {
    let mut link = drop_tail(8_000, DEEP);
    link.offer(Time::ZERO, packet(1000));
    link.set_rate(Time::nanos(250 * MS), Rate::bits_per_sec(16_000));
    assert_eq!(link.next_departure(), Time::nanos(625 * MS));
    let left = link.depart(Time::nanos(625 * MS)).unwrap();
    assert_eq!((left.at, left.queue_delay), (Time::nanos(625 * MS), Span::ZERO));
    assert_eq!(link.capacity_bytes_until(Time::nanos(625 * MS)), 1000);
}

#[test]
fn a_late_poll_still_returns_exact_departure_times() {
    let mut link = drop_tail(RATE_BPS, DEEP);
    for _ in 0..3 {
        link.offer(Time::ZERO, packet(1500));
    }
    let late: Vec<_> = std::iter::from_fn(|| link.depart(Time::nanos(100 * MS))).collect();
    assert_eq!(departure_times(&late), [MS, 2 * MS, 3 * MS]);
}

#[test]
fn policed_packets_never_reach_the_queue() {
    let mut config = link_config(Service::Rate(Rate::bits_per_sec(RATE_BPS)), DEEP, Aqm::DropTail);
    config.policer = Some(Policer { rate: Rate::bits_per_sec(1_200_000), burst: 15_000 });
    let mut link = Link::new(&config, 1);
    let (verdicts, departures) = play(&mut link, paced(10_000, MS, false));
    // 10 s at a tenth of the link, and a burst of ten packets minus the tenth that is due after the end.
    let passed = verdicts.iter().filter(|&&verdict| verdict == Verdict::Queued).count();
    assert_eq!((passed, departures.len()), (1009, 1009));
    assert_eq!(link.stats().policed, 10_000 - 1009);
}

#[test]
fn lost_packets_use_the_link_and_are_told() {
    let mut link = drop_tail(RATE_BPS, DEEP);
    link.set_loss(Loss::Bernoulli(0.25));
    let (_, departures) = play(&mut link, paced(10_000, MS, false));
    let lost = departures.iter().filter(|departure| departure.lost).count() as u64;
    assert_eq!((lost, departures.len()), (link.stats().lost, 10_000));
    assert!((2300..2700).contains(&lost), "{lost} lost");
    assert_eq!(link.stats().departed_bytes, link.capacity_bytes_until(Time::nanos(10_000 * MS)));
}

#[test]
fn trace_1_sends_a_packet_every_millisecond_and_wastes_what_nobody_uses() {
    let mut link = trace_link("1");
    let arrivals = [0, 0, 0, 10 * MS, 10 * MS + 1].map(|at| (Time::nanos(at), packet(1500)));
    let (_, departures) = play(&mut link, arrivals);
    assert_eq!(departure_times(&departures), [MS, 2 * MS, 3 * MS, 11 * MS, 12 * MS]);
    assert_eq!(departures[2].queue_delay, Span::millis(3));
    assert_eq!(link.capacity_bytes_until(Time::nanos(12 * MS)), 12 * 1500);
}

#[test]
fn a_packet_that_comes_with_an_opportunity_waits_for_the_next() {
    let mut link = trace_link("1");
    let (_, departures) = play(&mut link, [(Time::nanos(MS), packet(1500))]);
    assert_eq!(departure_times(&departures), [2 * MS]);
}

#[test]
fn what_an_idle_link_left_of_an_opportunity_is_lost() {
    let mut link = trace_link("1");
    let (_, departures) = play(&mut link, [(Time::nanos(0), packet(100)), (Time::nanos(MS), packet(100))]);
    assert_eq!(departure_times(&departures), [MS, 2 * MS]);
}

#[test]
fn a_trace_repeats_after_its_last_timestamp() {
    let mut link = trace_link("2\n3\n7\n");
    let (_, departures) = play(&mut link, (0..7).map(|_| (Time::ZERO, packet(1500))));
    assert_eq!(departure_times(&departures), [2, 3, 7, 9, 10, 14, 16].map(|ms| ms * MS));
}

#[test]
fn opportunities_are_shared_byte_by_byte() {
    let mut link = trace_link("1");
    let sizes = [500, 1000, 1600, 100, 1300, 4500];
    let (_, departures) = play(&mut link, sizes.map(|bytes| (Time::ZERO, packet(bytes))));
    // Cumulative bytes 500, 1500, 3100, 3200, 4500, 9000 over 1500 a millisecond.
    assert_eq!(departure_times(&departures), [1, 1, 3, 3, 3, 6].map(|ms| ms * MS));
}

#[test]
fn a_busy_trace_carries_exactly_its_capacity() {
    let mut link = trace_link("0\n2\n2\n5\n");
    let (_, departures) = play(&mut link, (0..1000).map(|_| (Time::ZERO, packet(1514))));
    // All but the first opportunity, which passed before the packets came, and the end of the last.
    let end = departures.last().unwrap().at;
    let carried = link.stats().departed_bytes;
    let capacity = link.capacity_bytes_until(end) - 1500;
    assert!(capacity - carried < 3 * 1500, "{carried} of {capacity}");
}

#[test]
fn a_trace_turned_into_a_rate_finishes_its_packet_at_that_rate() {
    let mut link = trace_link("1");
    link.offer(Time::ZERO, packet(4500));
    link.offer(Time::ZERO, packet(1500));
    drain(&mut link, Time::nanos(MS), true);
    link.set_rate(Time::nanos(MS + MS / 2), Rate::bits_per_sec(RATE_BPS));
    // The remaining 3000 bytes take two milliseconds, then the second packet one.
    let departures = drain(&mut link, Time::NEVER, false);
    assert_eq!(departure_times(&departures), [MS / 2 + 3 * MS, MS / 2 + 4 * MS]);
    assert_eq!(link.capacity_bytes_until(Time::nanos(2 * MS + MS / 2)), 3000);
}

#[test]
fn demand_grants_more_to_a_backlog_and_takes_it_from_an_idle_link() {
    let demand = Demand {
        min: Rate::bits_per_sec(1_000_000),
        max: Rate::bits_per_sec(16_000_000),
        steps: 4,
        period: Span::millis(50),
        up_backlog: Span::millis(10),
    };
    let mut link = Link::new(&link_config(Service::Demand(demand), DEEP, Aqm::DropTail), 1);
    for _ in 0..1000 {
        link.offer(Time::ZERO, packet(1500));
    }
    drain(&mut link, Time::nanos(99 * MS), true);
    assert_eq!(link.rate(), demand.min);
    // The first period began idle; each of the following four had a backlog throughout.
    drain(&mut link, Time::nanos(250 * MS), true);
    assert_eq!(link.rate(), demand.max);
    // 100 ms at 1, then 50 ms each at 2, 4 and 8 Mbit/s.
    assert_eq!(link.capacity_bytes_until(Time::nanos(250 * MS)), 12_500 + 7 * 12_500);
    drain(&mut link, Time::NEVER, false);
    assert_eq!((link.rate(), link.queue_packets(), link.next_departure()), (demand.min, 0, Time::NEVER));
}

#[test]
fn codel_holds_a_responsive_flow_near_its_target() {
    // Reno oscillates between half a window and a whole one, so the mean may lie on either side of the 5 ms.
    let mean = mean_delay_of_reno(Aqm::Codel(CODEL));
    assert!((1.0..8.0).contains(&mean), "mean {mean} ms");
    let without = mean_delay_of_reno(Aqm::DropTail);
    assert!(without > 10.0 * mean, "drop-tail {without} ms");
}

#[test]
fn codel_ends_an_unresponsive_overload_as_late_as_its_control_law_says() {
    // 1200 packets/s are offered for 1000. Drop n comes 100 ms·Σ1/√i ≈ 100 ms·(2√n − 1.46) after the first, so the drop rate is
    // (50·t + 7.3)/s and reaches the surplus of 200/s at 3.85 s. Until then 192.7²/100 = 371 packets accumulate, and 21 in the
    // 105 ms before the first drop. Drops are from the head, so 392 packets are a wait of 392/1200 s = 327 ms. After the same
    // time again they are drained.
    let mut link = rate_link(DEEP, Aqm::Codel(CODEL));
    let (_, departures) = play(&mut link, paced(12_000, MS * 5 / 6, false));
    let longest = departures.iter().map(|departure| departure.queue_delay.as_nanos() / MS).max().unwrap();
    assert!((315..340).contains(&longest), "longest wait {longest} ms");
    let after = departures
        .iter()
        .find(|departure| departure.at > Time::nanos(4000 * MS) && departure.queue_delay < CODEL.target);
    let after = after.unwrap().at.as_nanos() / MS;
    assert!((7500..8300).contains(&after), "back at target after {after} ms");
}

#[test]
fn pie_holds_an_overload_near_its_target() {
    let (mean, _) = mean_delay_under(Aqm::Pie(PIE), 1.2, false);
    assert!((10.0..20.0).contains(&mean), "mean {mean} ms");
}

#[test]
fn red_holds_the_mean_queue_between_min_and_twice_max() {
    // 30 kB are 20 ms; gentle RED ends at 180 kB = 120 ms. It must drop a sixth: at max it drops a tenth.
    let (mean, _) = mean_delay_under(Aqm::Red(RED), 1.2, false);
    assert!((20.0..120.0).contains(&mean), "mean {mean} ms");
    // At 5 % overload, less than a tenth suffices, so it stays below max.
    let (mean, _) = mean_delay_under(Aqm::Red(RED), 1.05, false);
    assert!((20.0..60.0).contains(&mean), "mean {mean} ms");
}

#[test]
fn ecn_marks_instead_of_dropping() {
    for aqm in [
        Aqm::Codel(Codel { ecn: true, ..CODEL }),
        Aqm::FqCodel(FqCodel { codel: Codel { ecn: true, ..CODEL }, ..FQ }),
        Aqm::Cake(cake(Tins::BestEffort, Span::millis(100))),
        Aqm::Red(Red { ecn: true, ..RED }),
        Aqm::Pie(Pie { ecn: true, ..PIE }),
    ] {
        let mut link = rate_link(DEEP, aqm.clone());
        // Twice the rate for 300 ms, then a bit less than the rate, so that PIE stays below a tenth.
        let burst = paced(600, MS / 2, true);
        let steady = paced(1000, MS, true).map(|(at, packet)| (Time::nanos(at.as_nanos() + 300 * MS), packet));
        let (_, departures) = play(&mut link, burst.chain(steady));
        let marked = departures.iter().filter(|departure| departure.packet.ce).count() as u64;
        assert!(marked > 0 && marked == link.stats().marks, "{aqm:?}: {:?}", link.stats());
        if !matches!(aqm, Aqm::Pie(_)) {
            assert_eq!(link.stats().drops, 0, "{aqm:?}");
        }
    }
}

#[test]
fn flow_queues_isolate_a_sparse_flow_from_a_bulk_flow() {
    for aqm in [Aqm::FqCodel(FQ), Aqm::Cake(cake(Tins::BestEffort, Span::millis(100)))] {
        let mut link = rate_link(Buffer::Packets(1000), aqm);
        let sparse = (1..200).map(|i| (Time::nanos(i * 50 * MS + 1), Packet { flow: 7, ..packet(200) }));
        let mut arrivals: Vec<_> = paced(20_000, MS / 2, false).chain(sparse).collect();
        arrivals.sort_by_key(|&(at, _)| at);
        let (_, departures) = play(&mut link, arrivals);
        let sparse: Vec<_> = departures.iter().filter(|departure| departure.packet.flow == 7).collect();
        assert_eq!(sparse.len(), 199);
        // A sparse packet waits at most for the packet in service.
        assert!(sparse.iter().all(|departure| departure.queue_delay <= Span::millis(1)));
    }
}

#[test]
fn drops_after_queueing_are_told_by_flow() {
    let mut link = rate_link(DEEP, Aqm::Codel(CODEL));
    for _ in 0..1000 {
        link.offer(Time::ZERO, Packet { flow: 9, ..packet(1500) });
    }
    drain(&mut link, Time::NEVER, false);
    let mut flows = Vec::new();
    link.take_dropped(&mut flows);
    assert_eq!(flows.len() as u64, link.stats().drops);
    assert!(!flows.is_empty() && flows.iter().all(|&flow| flow == 9));
    flows.clear();
    link.take_dropped(&mut flows);
    assert!(flows.is_empty());
}

fn any_aqm() -> impl Strategy<Value = Aqm> {
    (0..8_u8, any::<bool>()).prop_map(|(kind, ecn)| match kind {
        0 => Aqm::DropTail,
        1 => Aqm::Red(Red { min: 3000, max: 9000, wlog: 2, ecn, ..RED }),
        2 => {
            Aqm::Codel(Codel { ecn, interval: Span::millis(10), ce_threshold: ecn.then_some(Span::millis(3)), ..CODEL })
        }
        3 => {
            Aqm::FqCodel(FqCodel { codel: Codel { ecn, interval: Span::millis(10), ..CODEL }, flows: 3, quantum: 300 })
        }
        5 => Aqm::Fq(Fq {
            flow_limit: 9,
            quantum: 300,
            initial_quantum: 3000,
            ce_threshold: ecn.then_some(Span::millis(3)),
            flows: [0, 34, 36].map(|dscp| FlowClass { dscp, host: 0 }).into(),
        }),
        4 => Aqm::DualPi2(DualPi2 {
            target: Span::millis(3),
            tupdate: Span::millis(3),
            alpha: 0.16,
            beta: 3.2,
            coupling: 2.0,
            step: Span::millis(1),
            min_qlen_step: if ecn { 0 } else { 2 },
            classic_percent: if ecn { 10 } else { 50 },
        }),
        6 => Aqm::Cake(cake(if ecn { Tins::Diffserv4 } else { Tins::Diffserv3 }, Span::millis(10))),
        _ => {
            Aqm::Pie(Pie { ecn, target: Span::millis(3), tupdate: Span::millis(3), max_burst: Span::millis(5), ..PIE })
        }
    })
}

fn any_service() -> impl Strategy<Value = Service> {
    (0..3_u8, 1_000_000..100_000_000_u64).prop_map(|(kind, rate)| match kind {
        0 => Service::Rate(Rate::bits_per_sec(rate)),
        1 => Service::Trace(Arc::new(DeliveryTrace::parse("0\n1\n1\n4\n9\n").unwrap())),
        _ => Service::Demand(Demand {
            min: Rate::bits_per_sec(rate / 4),
            max: Rate::bits_per_sec(rate),
            steps: 3,
            period: Span::millis(7),
            up_backlog: Span::millis(2),
        }),
    })
}

fn any_buffer() -> impl Strategy<Value = Buffer> {
    prop_oneof![(0..60_u64).prop_map(Buffer::Packets), (0..90_000_u64).prop_map(Buffer::Bytes)]
}

proptest! {
    #[test]
    fn packets_are_conserved_and_departures_keep_time_under_any_discipline(
        aqm in any_aqm(),
        service in any_service(),
        buffer in any_buffer(),
        policed in any::<bool>(),
        steps in prop::collection::vec((0..3 * MS, 40..2000_u32, 0..6_u32, any::<bool>(), 0..200_u64), 1..400),
        seed in any::<u64>(),
    ) {
        let run = || {
            let mut config = link_config(service.clone(), buffer, aqm.clone());
            config.policer = policed.then_some(Policer { rate: Rate::bits_per_sec(5_000_000), burst: 20_000 });
            config.loss = Loss::Bernoulli(0.1);
            let (mut link, mut now, mut departures) = (Link::new(&config, seed), Time::ZERO, Vec::new());
            let (mut queued_drops, mut refused) = (Vec::new(), 0);
            for &(gap, bytes, flow, ect, change) in &steps {
                now += Span::nanos(gap);
                departures.extend(drain(&mut link, now, gap % 2 == 0));
                match change {
                    0 => link.set_rate(now, Rate::bits_per_sec(gap * 20)),
                    1 => link.set_buffer(Buffer::Packets(gap % 50)),
                    _ => {}
                }
                refused += u64::from(link.offer(now, Packet { id: 0, bytes, flow, ect, l4s: flow % 2 == 0, ce: false }) == Verdict::Dropped);
                link.take_dropped(&mut queued_drops);
                let stats = link.stats();
                let gone = stats.departed_packets + stats.drops + stats.policed;
                assert_eq!(stats.arrivals, gone + u64::from(link.queue_packets()));
                assert_eq!(stats.drops, refused + queued_drops.len() as u64);
                assert_eq!(link.queue_packets() == 0, link.queue_bytes() == 0);
            }
            link.set_rate(now, Rate::bits_per_sec(RATE_BPS)); // in case it was stalled
            departures.extend(drain(&mut link, Time::NEVER, false));
            assert_eq!((link.queue_packets(), link.queue_bytes()), (0, 0));
            (departures, *link.stats(), now)
        };
        let (departures, stats, _) = run();
        prop_assert!(departures.windows(2).all(|pair| pair[0].at <= pair[1].at));
        prop_assert_eq!(departures.len() as u64, stats.departed_packets);
        prop_assert_eq!(departures.iter().filter(|departure| departure.packet.ce).count() as u64 <= stats.marks, true);
        let (again, stats_again, _) = run();
        prop_assert_eq!((again, stats_again), (departures, stats));
    }
}
