//! Place of a capture, by the times on its two sides: from the handshake or timestamps; without them by data lost before it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::estimate::Vantage;
use super::flow::Flow;
use super::headers::Segment;
use super::table::Handshake;

/// Share of the round trip that the near end's half may take. Ours.
const NEAR_SHARE: f64 = 0.25;
/// Smallest number of echoed timestamps. Ours.
const ECHOES_MIN: u64 = 3;
/// Smallest share of data first seen after newer data where losses happen before the capture. Ours.
const FILLED_SHARE: f64 = 0.001;
/// Longest time to an ACK of a receiver at the capture, ns. Ours.
const AT_ONCE_NS: u64 = 1_000_000;
/// Smallest number of packets of bulk data. Ours.
const BULK_PACKETS: u64 = 100;
/// Mean frame of bulk data, in segments. Ours.
const BULK_SHARE: (f64, f64) = (0.8, 2.0);
/// Mean data in flight at a receiver, in frames. Ours: a sender starts with ten segments.
const BULK_IN_FLIGHT: f64 = 3.0;

/// Shortest time from an ACK to the data that echoes its timestamp: the round trip on the sender's side of the capture.
// spec: RFC 7323 3
#[derive(Clone, Copy, Debug, Default)]
pub struct Echoes {
    /// Timestamp and time of an ACK whose echo is expected.
    expected: Option<(u32, u64)>,
    newest: Option<u32>,
    least_ns: Option<u64>,
    count: u64,
}

impl Echoes {
    /// Notes a packet of the data's receiver.
    pub fn on_ack(&mut self, now_ns: u64, segment: &Segment) {
        let Some((value, _)) = segment.options.timestamp else { return };
        // Of several packets with one timestamp, the first may have caused the echo.
        if self.newest.replace(value).is_some_and(|newest| newest != value) && self.expected.is_none() {
            self.expected = Some((value, now_ns));
        }
    }

    /// Notes data.
    pub fn on_data(&mut self, now_ns: u64, segment: &Segment) {
        let (Some((_, echo)), Some((value, then_ns))) = (segment.options.timestamp, self.expected) else { return };
        if echo == value {
            self.count += 1;
            let time_ns = now_ns.saturating_sub(then_ns);
            self.least_ns = Some(self.least_ns.map_or(time_ns, |least_ns| least_ns.min(time_ns)));
        }
        if echo.wrapping_sub(value).cast_signed() >= 0 {
            self.expected = None;
        }
    }

    /// Forgets the expected echo after a step of the clock.
    pub const fn on_clock(&mut self) {
        self.expected = None;
    }
}

/// Finds the place of the capture, and names the basis.
pub fn vantage(handshake: &Handshake, side: usize, flow: &Flow) -> (Vantage, &'static str) {
    if let Some((there, back)) = handshake.halves_ns() {
        let is_client = (side == 0) == handshake.is_first;
        let (own, other) = if is_client { (there, back) } else { (back, there) };
        return (place(own, other), "the halves of the handshake");
    }
    let Echoes { least_ns, count, .. } = flow.echoes;
    if let (Some(own), Some(other)) = (flow.board.least_ns, least_ns.filter(|_| count >= ECHOES_MIN)) {
        return (place(own, other), "times from data to ACKs, and from ACKs to the echo of their timestamps");
    }
    let counters = flow.counters;
    if counters.filled as f64 > FILLED_SHARE * counters.sent as f64 && counters.filled > counters.again / 2 {
        return (Vantage::Receiver, "data seen for the first time behind later data");
    }
    if is_acknowledged_at_once(flow) {
        return (Vantage::Receiver, "bulk data is acknowledged at once");
    }
    (Vantage::Sender, "assumed: neither a handshake nor timestamps show it")
}

/// Place by the round trips on both sides of the capture, that of the data's receiver first.
fn place(own_ns: u64, other_ns: u64) -> Vantage {
    let (own, other) = (own_ns as f64, other_ns as f64);
    if other <= NEAR_SHARE * own {
        Vantage::Sender
    } else if own <= NEAR_SHARE * other {
        Vantage::Receiver
    } else {
        Vantage::Between
    }
}

/// True if few packets of bulk data are in flight, and ACKs come sooner than over any path.
fn is_acknowledged_at_once(flow: &Flow) -> bool {
    let counters = flow.counters;
    let packets = (counters.packets as f64).max(1.0);
    let (frame, in_flight) = (counters.sent as f64 / packets, counters.in_flight as f64 / packets);
    let segments = frame / flow.mss() as f64;
    counters.packets >= BULK_PACKETS
        && (BULK_SHARE.0..=BULK_SHARE.1).contains(&segments)
        && in_flight < BULK_IN_FLIGHT * frame
        && flow.board.least_ns.is_some_and(|least_ns| least_ns < AT_ONCE_NS)
}
