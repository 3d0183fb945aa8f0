//! QUIC's loss detection: packet threshold, time threshold, persistent congestion (RFC 9002 §6.1, §7.6).
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::quic::Packet;
use bbrlab_core::{Span, Time};
use std::collections::BTreeMap;

pub const PACKET_THRESHOLD: u64 = 3;
const GRANULARITY: Span = Span::millis(1);

/// Numbers of lost packets, and the time of the next loss if nothing more arrives.
#[derive(Debug, Default)]
pub struct Found {
    pub lost: Vec<(usize, u64)>,
    pub next: Option<Time>,
}

/// RFC 9002 §6.1.2: 9/8 of the larger of the smoothed and the latest RTT.
pub fn time_threshold(srtt: Span, latest: Span) -> Span {
    Span::nanos((srtt.max(latest).as_nanos() / 8 * 9).max(GRANULARITY.as_nanos()))
}

/// Finds the lost packets of one packet-number space.
pub fn detect(
    packets: &BTreeMap<(usize, u64), Packet>,
    space: usize,
    largest_acked: u64,
    now: Time,
    threshold: Span,
) -> Found {
    let mut found = Found::default();
    for (key, packet) in packets.range((space, 0)..(space, largest_acked)) {
        let deadline = packet.sent + threshold;
        if largest_acked >= key.1 + PACKET_THRESHOLD || deadline <= now {
            found.lost.push(*key);
        } else {
            found.next = Some(found.next.map_or(deadline, |next| next.min(deadline)));
        }
    }
    found
}

/// RFC 9002 §7.6: true if everything sent over more than three probe time-outs was lost. `acked_until` is the time at which the
/// newest packet acknowledged before was sent.
pub fn is_persistent(lost: &[Packet], acked_until: Option<Time>, pto: Span) -> bool {
    let period = Span::nanos(pto.as_nanos().saturating_mul(3));
    let times = || lost.iter().filter(|packet| packet.bytes > 0).map(|packet| packet.sent);
    match (times().min(), times().max(), acked_until) {
        (Some(first), Some(last), Some(acked)) => first > acked && last.since(first) > period,
        _ => false,
    }
}
