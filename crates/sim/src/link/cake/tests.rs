//! Tests of CAKE's scheduler; expected figures are calculated by hand.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::Arc;

use bbrlab_core::Span;

use super::*;
use crate::link::testing::{Packet, packet};
use crate::link::{Buffer, FlowClass};

const BEST_EFFORT: u8 = 0;
const BULK: u8 = 8;
const VIDEO: u8 = 34;
const VOICE: u8 = 46;

/// A queue whose flows have these classes.
fn queue(tins: Tins, host_fairness: bool, classes: &[(u8, u32)]) -> (Cake<Packet>, Tally) {
    let flows: Arc<[FlowClass]> = classes.iter().map(|&(dscp, host)| FlowClass { dscp, host }).collect();
    let (interval, target) = (Span::millis(100), Span::millis(5));
    let config = CakeConfig { tins, host_fairness, interval, target, packet_bytes: 1514, flows };
    (Cake::new(config, Rng::new(3)), Tally::default())
}

fn of_flow(flow: u32, bytes: u32) -> Entry<Packet> {
    Entry { packet: Packet { flow, ..packet(bytes) }, arrived: Time::ZERO }
}

/// Fills the queue with `each` packets of each flow.
fn fill(cake: &mut Cake<Packet>, flows: u32, each: u32, tally: &mut Tally) {
    for flow in (0..each).flat_map(|_| 0..flows) {
        cake.enqueue(Time::ZERO, of_flow(flow, 1514), Limit::NONE, tally);
    }
}

/// Flows of the next `n` packets; one leaves each `gap`. No packet waits, so that COBALT stays quiet.
fn served(cake: &mut Cake<Packet>, n: u64, gap: Span, tally: &mut Tally) -> Vec<u32> {
    let at = |nth: u64| Time::ZERO + Span::nanos(nth * gap.as_nanos());
    (0..n).filter_map(|nth| cake.dequeue(at(nth), tally)).map(|entry| entry.packet.flow).collect()
}

fn count(flows: &[u32], flow: u32) -> usize {
    flows.iter().filter(|other| **other == flow).count()
}

#[test]
fn code_points_lead_to_the_tins_of_linux() {
    let of = |tins: Tins| [0, 1, 4, 8, 10, 16, 24, 32, 34, 40, 44, 46, 48, 56, 63].map(|dscp| tins.of(dscp));
    assert_eq!(of(Tins::BestEffort), [0; 15]);
    assert_eq!(of(Tins::Diffserv3), [0, 1, 2, 1, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 0]);
    assert_eq!(of(Tins::Diffserv4), [0, 1, 2, 1, 0, 2, 2, 3, 2, 3, 3, 3, 3, 3, 0]);
}

#[test]
fn flows_of_a_tin_take_turns_and_a_sparse_flow_goes_first() {
    let (mut cake, mut tally) = queue(Tins::BestEffort, false, &[]);
    fill(&mut cake, 3, 40, &mut tally);
    let flows = served(&mut cake, 90, Span::ZERO, &mut tally);
    assert!((0..3).all(|flow| (29..=31).contains(&count(&flows, flow))), "{flows:?}");
    cake.enqueue(Time::ZERO, of_flow(7, 100), Limit::NONE, &mut tally);
    assert_eq!(served(&mut cake, 1, Span::ZERO, &mut tally), [7]);
    assert_eq!((cake.len(), cake.bytes()), (30, 30 * 1514));
}

#[test]
fn hosts_have_equal_shares_whatever_the_number_of_their_flows() {
    let classes = [(0, 0), (0, 0), (0, 0), (0, 3)];
    for (host_fairness, of_last) in [(true, 290..=310), (false, 145..=155)] {
        let (mut cake, mut tally) = queue(Tins::BestEffort, host_fairness, &classes);
        fill(&mut cake, 4, 400, &mut tally);
        let flows = served(&mut cake, 600, Span::ZERO, &mut tally);
        assert!(of_last.contains(&count(&flows, 3)), "{host_fairness}: {}", count(&flows, 3));
    }
}

#[test]
fn a_tin_within_its_rate_goes_before_lower_ones_and_the_rest_is_shared_by_rates() {
    let classes = [(BEST_EFFORT, 0), (BULK, 1), (VIDEO, 2), (VOICE, 3)];
    let (mut cake, mut tally) = queue(Tins::Diffserv4, true, &classes);
    cake.set_rate(Rate::bits_per_sec(12_112_000));
    fill(&mut cake, 4, 2000, &mut tally);
    let flows = served(&mut cake, 1600, Span::millis(1), &mut tally);
    // Voice has a quarter, video half, bulk a sixteenth; best effort the rest.
    let shares = [0, 1, 2, 3].map(|flow| count(&flows, flow));
    for (share, expected) in shares.into_iter().zip([300, 100, 800, 400]) {
        assert!(share.abs_diff(expected) <= 15, "{shares:?}");
    }
}

#[test]
fn on_an_unshaped_link_tins_share_by_their_weights() {
    let classes = [(BEST_EFFORT, 0), (BULK, 1), (VIDEO, 2), (VOICE, 3)];
    let (mut cake, mut tally) = queue(Tins::Diffserv4, true, &classes);
    fill(&mut cake, 4, 2000, &mut tally);
    let flows = served(&mut cake, 1600, Span::ZERO, &mut tally);
    let shares = [0, 1, 2, 3].map(|flow| count(&flows, flow));
    // 1024, 64, 512 and 256 of 1856.
    for (share, expected) in shares.into_iter().zip([883, 55, 441, 221]) {
        assert!(share.abs_diff(expected) <= 10, "{shares:?}");
    }
}

#[test]
fn a_full_buffer_drops_from_the_head_of_the_longest_queue() {
    let (mut cake, mut tally) = queue(Tins::Diffserv3, true, &[]);
    let limit = Limit::of(Buffer::Packets(10));
    for id in 0..9 {
        let entry = Entry { packet: Packet { id, flow: 1, ..packet(1514) }, arrived: Time::ZERO };
        assert_eq!(cake.enqueue(Time::ZERO, entry, limit, &mut tally), Verdict::Queued);
    }
    for _ in 0..3 {
        assert_eq!(cake.enqueue(Time::ZERO, of_flow(2, 1514), limit, &mut tally), Verdict::Queued);
    }
    assert_eq!((cake.len(), tally.stats.drops, tally.dropped.as_slice()), (10, 2, &[1, 1][..]));
    let first = std::iter::from_fn(|| cake.dequeue(Time::ZERO, &mut tally)).find(|entry| entry.packet.flow == 1);
    assert_eq!(first.map(|entry| entry.packet.id), Some(2));
}

#[test]
fn an_arrival_longer_than_all_queues_is_itself_dropped() {
    let (mut cake, mut tally) = queue(Tins::Diffserv3, true, &[]);
    let limit = Limit::of(Buffer::Bytes(2000));
    assert_eq!(cake.enqueue(Time::ZERO, of_flow(1, 600), limit, &mut tally), Verdict::Queued);
    assert_eq!(cake.enqueue(Time::ZERO, of_flow(2, 1514), limit, &mut tally), Verdict::Dropped);
    assert_eq!((tally.stats.drops, tally.dropped.len(), cake.len()), (1, 0, 1));
}

#[test]
fn a_standing_queue_is_marked_or_dropped_and_its_last_packet_is_kept() {
    for (ect, marks, drops) in [(true, 1, 0), (false, 0, 1)] {
        let (mut cake, mut tally) = queue(Tins::Diffserv3, true, &[]);
        for _ in 0..3 {
            let entry = Entry { packet: Packet { flow: 1, ect, ..packet(1514) }, arrived: Time::ZERO };
            cake.enqueue(Time::ZERO, entry, Limit::NONE, &mut tally);
        }
        let at = |ms| Time::ZERO + Span::millis(ms);
        let sent = [6, 7, 8].map(|ms| cake.dequeue(at(ms), &mut tally).is_some());
        assert_eq!((tally.stats.marks, tally.stats.drops), (marks, drops));
        assert_eq!(sent, [true, true, ect]);
    }
}

#[test]
fn each_of_a_hundred_flows_has_a_queue_of_its_own() {
    let (mut cake, mut tally) = queue(Tins::BestEffort, false, &[]);
    fill(&mut cake, 100, 5, &mut tally);
    let flows = served(&mut cake, 200, Span::ZERO, &mut tally);
    assert!((0..100).all(|flow| (1..=3).contains(&count(&flows, flow))), "{flows:?}");
}

#[test]
fn a_slow_link_raises_target_and_interval() {
    // At 1 Mbit/s a packet takes 12.112 ms, and a packet and a half 18.168 ms.
    let (mut cake, mut tally) = queue(Tins::BestEffort, true, &[]);
    cake.set_rate(Rate::bits_per_sec(1_000_000));
    let mut first = None;
    for nth in 0..60 {
        cake.enqueue(Time::ZERO, of_flow(1, 1514), Limit::NONE, &mut tally);
        cake.enqueue(Time::ZERO, of_flow(1, 1514), Limit::NONE, &mut tally);
        let now = Time::ZERO + Span::millis(nth);
        cake.dequeue(now, &mut tally);
        if tally.stats.drops > 0 {
            first.get_or_insert(nth);
        }
    }
    // Above four packets, 48.4 ms, the second packet is dropped.
    assert_eq!(first, Some(50));
}
