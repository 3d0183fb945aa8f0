//! Tests of the receiver's answers.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

/// Bytes that [`receiver`] has before segment 0.
const BEFORE: u64 = 1448;

/// A receiver to which data has arrived in order, before segment 0.
fn receiver() -> Receiver {
    let mut receiver = Receiver::new(1448, Rwnd::Unlimited, false, &HostSetup::default());
    receiver.on_handshake(Time::ZERO, Span::millis(40));
    (receiver.quick, receiver.bytes, receiver.in_order_bytes) = (0, BEFORE, BEFORE);
    receiver
}

/// Returns the last ACK triggered by a segment.
fn arrive(r: &mut Receiver, now: Time, segment: &Segment) -> Option<AckPacket> {
    let mut acks = Vec::new();
    r.on_segment(now, segment, &mut acks);
    acks.pop()
}

fn fire(r: &mut Receiver) -> Option<AckPacket> {
    let mut acks = Vec::new();
    r.on_timer(r.next_time(), &mut acks);
    acks.pop()
}

fn segment(seq: u64) -> Segment {
    Segment { seq, sent: Time::nanos(seq), flow: 0, len: 1448, hop: 0, marks: 0 }
}

/// Pushed data is acknowledged immediately once the application has read it, since Linux 6.7 for full segments too.
#[test]
fn what_is_pushed_is_acknowledged_to_a_prompt_reader() {
    for is_prompt in [false, true] {
        let mut receiver = Receiver::new(1448, Rwnd::Unlimited, is_prompt, &HostSetup::default());
        receiver.quick = 0;
        let mut answered = |seq, change: fn(&mut Segment)| {
            let mut own = segment(seq);
            change(&mut own);
            let answer = arrive(&mut receiver, Time::nanos(seq), &own);
            receiver.clear_timers();
            receiver.unacked_bytes = 0;
            answer.is_some()
        };
        assert!(!answered(0, |_| {}));
        assert_eq!(answered(1, |own| own.marks = mark::PUSH), is_prompt);
        assert_eq!(answered(2, |own| own.len = 100), is_prompt);
    }
}

/// A retransmission fills the hole; segments that left before it and arrive later are refused by their timestamps.
#[test]
fn a_late_segment_from_before_a_retransmission_is_refused() {
    let mut receiver = Receiver::new(1448, Rwnd::Unlimited, false, &HostSetup::default());
    let at = |ms| Time::ZERO + Span::millis(ms);
    let mut acks = Vec::new();
    let mut arrive = |now: u64, seq: u64, sent: u64| {
        let segment = Segment { seq, sent: at(sent), flow: 0, len: 1448, hop: 0, marks: 0 };
        receiver.on_segment(at(now), &segment, &mut acks);
        (receiver.next, acks.pop().map(|ack| ack.sack[0]))
    };
    assert_eq!(arrive(50, 1, 10), (0, Some((1, 2))));
    assert_eq!(arrive(100, 0, 60).0, 2);
    assert_eq!(arrive(101, 3, 20), (2, Some((0, 0))), "sent before the retransmission");
    assert_eq!(arrive(101, 5, 58), (2, Some((0, 0))), "two ticks before it");
    assert_eq!(arrive(101, 5, 59), (2, Some((3, 4))), "one tick before it");
    assert_eq!(arrive(102, 4, 61), (2, Some((2, 4))), "sent after it");
}

/// Linux begins quick ACKs with the first segment in order, unless an ACK has set the delay before it.
#[test]
fn a_first_segment_out_of_order_leaves_no_quick_acks() {
    for (is_opened_by_data, expected) in
        [(false, [0, 1, 2, 3, 4, 5, 6, 7, 9].as_slice()), (true, &[0, 1, 2, 3, 5, 6, 7, 9])]
    {
        let mut r = Receiver::new(1448, Rwnd::Unlimited, false, &HostSetup::default());
        r.on_handshake(Time::ZERO, Span::millis(40));
        r.is_opened_by_data = is_opened_by_data;
        let mut acked = Vec::new();
        for (i, seq) in [3, 4, 5, 6, 7, 0, 1, 2, 8, 9, 10].into_iter().enumerate() {
            if arrive(&mut r, Time::nanos(i as u64), &segment(seq)).is_some() {
                acked.push(i);
            }
        }
        assert_eq!(acked, expected, "all until the hole is filled, then every second");
    }
}

#[test]
fn the_first_17_segments_are_acknowledged_one_by_one() {
    let mut r = Receiver::new(1448, Rwnd::Unlimited, false, &HostSetup::default());
    r.on_handshake(Time::ZERO, Span::millis(40));
    let acked: Vec<u64> = (0..21).filter(|&seq| arrive(&mut r, Time::nanos(seq), &segment(seq)).is_some()).collect();
    assert_eq!(acked, (0..17).chain([18, 20]).collect::<Vec<_>>());
}

#[test]
fn no_duplicate_is_held_back_while_acks_are_quick() {
    let mut r = receiver();
    r.quick = 10;
    assert!((1..11).all(|seq| arrive(&mut r, Time::nanos(seq), &segment(2 * seq)).is_some()));
    assert!((11..14).all(|seq| arrive(&mut r, Time::nanos(seq), &segment(2 * seq)).is_some()));
    assert!(arrive(&mut r, Time::nanos(14), &segment(28)).is_none());
}

#[test]
fn every_second_segment_is_acknowledged() {
    let mut r = receiver();
    assert!(arrive(&mut r, Time::nanos(1), &segment(0)).is_none());
    assert_eq!(arrive(&mut r, Time::nanos(2), &segment(1)).map(|ack| ack.una), Some(2));
}

#[test]
fn a_lone_segment_is_acknowledged_on_the_first_tick_after_40_ms() {
    let mut r = receiver();
    assert!(arrive(&mut r, Time::nanos(1), &segment(0)).is_none());
    assert_eq!(r.next_time(), Time::ZERO + Span::millis(44));
    assert_eq!(fire(&mut r).map(|ack| ack.una), Some(1));
    assert_eq!(r.next_time(), Time::NEVER);
}

/// Linux waits for longer where segments come slowly, up to the RTT.
#[test]
fn the_delay_of_acks_follows_the_interval_between_segments() {
    for (rtt_ms, ticks) in [(40, 10), (44, 11), (100, 12)] {
        let mut r = receiver();
        r.on_handshake(Time::ZERO, Span::millis(rtt_ms));
        let mut now = Time::micros(100);
        arrive(&mut r, now, &segment(0));
        arrive(&mut r, now, &segment(1));
        // Seven ticks: half of ten, and seven.
        now += Span::millis(28);
        assert!(arrive(&mut r, now, &segment(2)).is_none());
        assert_eq!(r.next_time(), Time::ZERO + Span::millis(28) + Span::millis(4 * (ticks + 1)), "RTT of {rtt_ms} ms");
    }
}

#[test]
fn a_delayed_ack_that_no_second_segment_released_doubles_the_next_delay() {
    let mut r = receiver();
    r.on_handshake(Time::ZERO, Span::millis(200));
    arrive(&mut r, Time::micros(1), &segment(0));
    assert_eq!(fire(&mut r).map(|ack| ack.una), Some(1));
    // 44 ms: longer than before, shorter than twice that. Half of 20 ticks, and 11.
    arrive(&mut r, Time::ZERO + Span::millis(44), &segment(1));
    assert_eq!(r.next_time(), Time::ZERO + Span::millis(44) + Span::millis(4 * 22));
}

/// Only data in order ends a gap, so that a hole that lasted for longer than an RTO is followed by quick ACKs.
#[test]
fn a_long_hole_is_followed_by_quick_acks() {
    for (hole_ms, is_quick) in [(190, false), (250, true)] {
        let mut r = receiver();
        r.on_handshake(Time::ZERO, Span::millis(10));
        arrive(&mut r, Time::micros(1), &segment(0));
        for at in 2..hole_ms / 10 {
            arrive(&mut r, Time::ZERO + Span::millis(10 * at), &segment(at));
        }
        let end = Time::ZERO + Span::millis(hole_ms);
        arrive(&mut r, end, &segment(1));
        let next = r.next;
        let ack = arrive(&mut r, end + Span::millis(10), &segment(next));
        assert_eq!(ack.is_some(), is_quick, "{hole_ms} ms");
    }
}

#[test]
fn a_delay_of_acks_that_no_kernel_has_is_kept_to_the_nanosecond() {
    for wait in [Span::ZERO, Span::millis(1)] {
        let mut r = Receiver { delayed_ack: Some(wait), ..receiver() };
        arrive(&mut r, Time::nanos(5), &segment(0));
        assert_eq!(r.next_time(), Time::nanos(5) + wait);
    }
}

#[test]
fn the_newest_range_comes_first_among_sack_blocks() {
    let mut r = receiver();
    arrive(&mut r, Time::nanos(1), &segment(2));
    arrive(&mut r, Time::nanos(2), &segment(5));
    let ack = arrive(&mut r, Time::nanos(3), &segment(3)).unwrap();
    assert_eq!((ack.una, ack.sack), (0, [(2, 4), (5, 6), (0, 0)]));
}

/// Linux lists four blocks, and knows no others when it reports one.
#[test]
fn a_block_that_has_left_the_list_is_not_joined() {
    let mut r = receiver();
    for seq in [0, 3, 10, 20, 30, 40, 2] {
        arrive(&mut r, Time::micros(1), &segment(seq));
    }
    // 3 was the fifth block.
    let ack = fire(&mut r).expect("a compressed ACK");
    assert_eq!(ack.sack, [(1, 2), (39, 40), (29, 30)]);
    arrive(&mut r, Time::micros(2), &segment(41));
    let ack = fire(&mut r).expect("a compressed ACK");
    assert_eq!(ack.sack, [(39, 41), (1, 2), (29, 30)]);
}

#[test]
fn the_fourth_duplicate_is_held_for_a_twentieth_of_the_rtt_at_most_a_millisecond_and_the_timers_slack() {
    let mut r = receiver();
    for seq in 1..=3 {
        assert!(arrive(&mut r, Time::nanos(seq), &segment(seq)).is_some());
    }
    assert!(arrive(&mut r, Time::nanos(4), &segment(4)).is_none());
    assert_eq!(r.next_time(), Time::nanos(4) + Span::micros(1_100));
}

/// Trap: a compressed ACK that cannot list every new block makes holes look like reordering.
#[test]
fn a_compressed_ack_goes_out_before_a_third_block_hides_one() {
    let mut r = receiver();
    for seq in [1, 2, 3, 4, 6] {
        arrive(&mut r, Time::nanos(seq), &segment(seq));
    }
    assert!(r.compressed > 0);
    let mut acks = Vec::new();
    r.on_segment(Time::nanos(8), &segment(8), &mut acks);
    assert_eq!(acks.iter().map(|ack| ack.sack).collect::<Vec<_>>(), [[(6, 7), (1, 5), (0, 0)]]);
    assert_eq!(r.compressed, 0, "the segment that drew that ACK asks for no other");
}

/// A segment within a block extends that block. Source: Linux `tcp_sack_extend`.
#[test]
fn a_segment_within_a_listed_block_hides_no_other() {
    let mut r = receiver();
    for seq in [1, 2, 3, 6, 7] {
        arrive(&mut r, Time::nanos(seq), &segment(seq));
    }
    assert!(r.compressed > 0);
    assert!(arrive(&mut r, Time::nanos(9), &segment(2)).is_none());
}

#[test]
fn a_segment_that_arrives_twice_is_reported_by_dsack() {
    let mut r = receiver();
    arrive(&mut r, Time::nanos(1), &segment(0));
    let ack = arrive(&mut r, Time::nanos(2), &segment(0)).unwrap();
    assert_eq!((ack.dsack, r.duplicates, r.bytes - BEFORE), (Some(0), 1, 1448));
}

/// Above the left edge the ACK for a duplicate may be compressed; if more data arrives before it, its DSACK is lost.
#[test]
fn a_duplicate_beyond_a_hole_is_reported_by_an_ack_that_may_be_held() {
    for is_followed in [false, true] {
        let mut r = receiver();
        let dsacks = [1, 2, 2].map(|seq| arrive(&mut r, Time::nanos(seq), &segment(seq)).map(|ack| ack.dsack));
        assert_eq!(dsacks, [Some(None), Some(None), Some(Some(2))]);
        assert!(arrive(&mut r, Time::nanos(5), &segment(1)).is_none(), "the fourth is held");
        if is_followed {
            assert!(arrive(&mut r, Time::nanos(6), &segment(3)).is_none());
        }
        let ack = fire(&mut r).unwrap();
        assert_eq!((ack.dsack, r.duplicates), (if is_followed { None } else { Some(1) }, 2));
        assert_eq!(ack.sack[0], (1, if is_followed { 4 } else { 3 }));
    }
}

/// Linux discards a segment that ends before the acknowledged data, and keeps the timestamp of the last one in order.
#[test]
fn a_duplicate_below_the_edge_leaves_the_echoed_timestamp() {
    let mut receiver = receiver();
    let at = |ms| Time::ZERO + Span::millis(ms);
    for seq in 0..4 {
        arrive(&mut receiver, at(1), &Segment { sent: at(seq), ..segment(seq) });
    }
    let mut again =
        |seq, sent| arrive(&mut receiver, at(300), &Segment { sent: at(sent), ..segment(seq) }).unwrap().ts_echo;
    assert_eq!([again(2, 200), again(3, 201)], [at(2), at(201)]);
}

#[test]
fn a_filled_hole_is_acknowledged_at_once() {
    let mut r = receiver();
    arrive(&mut r, Time::nanos(1), &segment(1));
    assert_eq!(arrive(&mut r, Time::nanos(2), &segment(0)).map(|ack| ack.una), Some(2));
}

#[test]
fn gro_makes_one_ack_of_a_burst() {
    let mut r =
        Receiver::new(1448, Rwnd::Unlimited, false, &HostSetup { gro: Some(Span::micros(20)), ..HostSetup::default() });
    for seq in 0..10 {
        assert!(arrive(&mut r, Time::nanos(seq), &segment(seq)).is_none());
    }
    assert_eq!(fire(&mut r).map(|ack| ack.una), Some(10));
}

#[test]
fn bytes_in_order_count_short_segments_at_their_length() {
    let mut r = receiver();
    arrive(&mut r, Time::nanos(1), &Segment { len: 100, ..segment(1) });
    arrive(&mut r, Time::nanos(2), &segment(0));
    assert_eq!(r.in_order_bytes - BEFORE, 1548);
}

#[test]
fn a_receiver_with_a_rule_acknowledges_by_it() {
    let rule = AckEvery { packets: 4, delay: Span::millis(25) };
    let mut r = Receiver::new(1448, Rwnd::Unlimited, false, &HostSetup { ack: Some(rule), ..HostSetup::default() });
    let mut acks = |seqs: &[u64]| -> Vec<u64> {
        seqs.iter().filter_map(|seq| arrive(&mut r, Time::nanos(*seq), &segment(*seq))).map(|ack| ack.una).collect()
    };
    assert_eq!(acks(&[0, 1, 2, 3, 4]), [4], "one for four");
    assert_eq!(acks(&[6]), [5], "packets are missing");
    assert_eq!(acks(&[7, 8]), [0; 0], "and still are");
    assert_eq!(acks(&[5]), [9], "one comes late");
    assert_eq!(acks(&[9]), [0; 0]);
    assert_eq!(r.next_time(), Time::nanos(9) + rule.delay);
    assert_eq!(fire(&mut r).map(|ack| ack.una), Some(10));
}

/// Linux grows the window by two segments with each, answers each at once meanwhile, and enlarges the buffer once per round trip.
#[test]
fn an_autotuned_window_grows_with_the_data_of_each_round() {
    let mut r = Receiver::new(1448, Rwnd::Auto(1 << 20), true, &HostSetup::default());
    r.on_handshake(Time::ZERO, Span::millis(40));
    r.quick = 0;
    let mut windows = Vec::new();
    let mut seq = 0;
    for round in 0..6_u64 {
        for _ in 0..10 << round {
            let now = Time::ZERO + Span::millis(20 + 41 * round);
            let segment = Segment { sent: now, ..segment(seq) };
            seq += 1;
            windows.extend(arrive(&mut r, now, &segment).map(|ack| (ack.una, ack.window)));
        }
    }
    let at = |una: u64| windows.iter().find(|ack| ack.0 == una).map(|ack| ack.1);
    // As in a capture of Linux 6.12, but for the rounding to 256 bytes.
    assert_eq!((at(1), at(2)), (Some(66_984), Some(69_880)));
    // The first buffer ends the growth; without it every second segment is answered.
    assert_eq!((at(6), at(7), at(9)), (Some(81_464), Some(81_496), Some(81_496)));
    // The first of the third round sees 20 segments in the second, and each window is three times what is in flight, or more.
    assert!(at(31 + 19).is_some_and(|window| window > 120_000), "{windows:?}");
    assert_eq!(windows.last().map(|ack| ack.1), Some((1 << 20) - 1448));
}

/// Data behind a second hole occupies the buffer, so filling the first hole does not move the window's right edge. Source: Linux
/// `tcp_select_window`.
#[test]
fn out_of_order_data_takes_room_in_an_autotuned_window() {
    let windows = |rwnd, arrivals: &[u64]| {
        let mut r = Receiver::new(1448, rwnd, true, &HostSetup::default());
        r.on_handshake(Time::ZERO, Span::millis(40));
        let mut windows = Vec::new();
        for &seq in arrivals {
            if let Some(ack) =
                arrive(&mut r, Time::ZERO + Span::millis(20), &Segment { sent: Time::ZERO, ..segment(seq) })
            {
                windows.push((ack.una, ack.window + 1448 * ack.una));
            }
        }
        windows
    };
    // A buffer that has room for 40 segments; 0 and 10 are missing, then arrive.
    let arrivals: Vec<u64> = (1..10).chain(11..30).chain([0, 10]).collect();
    let after = |edges: &[(u64, u64)], una| edges.iter().rev().find(|edge| edge.0 == una).map(|edge| edge.1 / 1448);
    let edges = windows(Rwnd::Auto(40 * 1448), &arrivals);
    assert_eq!([0, 10, 30].map(|una| after(&edges, una)), [Some(40), Some(40), Some(70)]);
    // A fixed window has a larger buffer.
    let edges = windows(Rwnd::Fixed(40 * 1448), &arrivals);
    assert_eq!([0, 10, 30].map(|una| after(&edges, una)), [Some(40), Some(50), Some(70)]);
}

/// Quick ACKs end when less than half of the buffer is free. Source: Linux `__tcp_select_window`.
#[test]
fn a_buffer_half_full_of_out_of_order_data_ends_quick_acks() {
    for (segments, is_quick) in [(28, true), (32, false)] {
        let mut r = Receiver::new(1448, Rwnd::Auto(60 * 1448), true, &HostSetup::default());
        r.on_handshake(Time::ZERO, Span::millis(40));
        arrive(&mut r, Time::ZERO + Span::millis(20), &Segment { sent: Time::ZERO, ..segment(0) });
        r.quick = 100;
        for seq in 2..segments + 2 {
            arrive(&mut r, Time::ZERO + Span::millis(20), &Segment { sent: Time::ZERO, ..segment(seq) });
        }
        assert_eq!(r.quick > 0, is_quick, "{segments} segments");
    }
}
