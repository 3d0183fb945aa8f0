//! Tests of both directions of a path.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{AlgorithmConfig, Rate, Span, Time};

use super::{FlowSharing, OneWay, Path};
use crate::link::{Buffer, LinkConfig};
use crate::setup::{Change, ChangeKind, FlowSetup, Setup};
use crate::tcp::Segment;

/// 100 Mbit/s, 20 ms; from right to left 1 Mbit/s.
fn setup() -> Setup {
    let flow = FlowSetup::bulk("reno", AlgorithmConfig::named("reno").expect("reno exists"));
    let (rate, buffer) = (Rate::bits_per_sec(100_000_000), Buffer::Packets(100));
    let up = LinkConfig::drop_tail(Rate::bits_per_sec(1_000_000), Buffer::Packets(2));
    let change = ChangeKind::Rate(Rate::bits_per_sec(10_000_000));
    Setup {
        up: Some(Box::new(up)),
        schedule: vec![Change { at: Time::ZERO, link: 0, what: change }],
        ..Setup::one_link(rate, Span::millis(20), buffer, Span::secs(1), vec![flow])
    }
}

/// Offers five full packets together. Returns the times at which they arrive, µs.
fn arrivals(way: &mut OneWay<Segment>) -> Vec<u64> {
    let packet = Segment { seq: 0, sent: Time::ZERO, flow: 0, len: 1_448, hop: 0, marks: 0 };
    (0..5).for_each(|_| way.offer(Time::ZERO, packet, None, &mut ()));
    let mut times = Vec::new();
    while way.next() != Time::NEVER {
        times.extend(way.poll(&mut ()).map(|(at, _)| at.as_nanos() / 1_000));
    }
    times
}

#[test]
fn the_link_of_up_serves_the_reverse_direction_and_no_schedule_changes_it() {
    let users = FlowSharing::default();
    // 1,514 bytes at 10 Mbit/s take 1.2112 ms, at 1 Mbit/s 12.112 ms; two wait beside the one being sent.
    let (fast, slow) = (vec![11_211, 12_422, 13_633, 14_844, 16_056], vec![22_112, 34_224, 46_336]);
    let times = |mut path: Path<Segment, Segment>| {
        path.change(Time::ZERO);
        (arrivals(&mut path.forward), arrivals(&mut path.reverse))
    };
    assert_eq!(times(Path::new(&setup(), users)), (fast.clone(), slow.clone()));
    assert_eq!(times(Path::reversed(&setup(), users)), (slow.clone(), fast.clone()));
    // A download comes from right to left.
    assert_eq!(times(Path::both_ways(&setup(), users)), (slow, fast));
}
