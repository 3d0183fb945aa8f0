//! Arbitrary calls of the adapters for noq and quinn: packets acknowledged twice, lost before they were sent, times that run backwards.
//! Each algorithm keeps a window of a packet or more, and a rate.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![no_main]

use std::time::{Duration, Instant};

use bbrlab_core::ALGORITHMS;
use bbrlab_quic::{noq, quinn};
use libfuzzer_sys::fuzz_target;
use noq_proto::congestion::Controller as _;
use quinn_proto::congestion::Controller as _;

/// A call, with small numbers: so that they often mean a packet that was sent.
struct Call {
    what: u8,
    /// Moves the clock.
    us: u64,
    number: u64,
    bytes: u16,
    is_true: bool,
}

impl Call {
    fn next(data: &mut &[u8]) -> Option<Self> {
        let (first, rest) = data.split_first_chunk::<5>()?;
        *data = rest;
        let [what, time, number, low, high] = *first;
        Some(Self {
            what: what % 8,
            us: u64::from(time).pow(1 + u32::from(what >> 6)),
            number: number.into(),
            bytes: u16::from_le_bytes([low, high]) % 9_000,
            is_true: what & 32 != 0,
        })
    }
}

/// The clock of a connection: the numbers of a call's packet and time say when it was sent.
struct Clock {
    origin: Instant,
    now_us: u64,
    sent_us: [u64; 256],
}

impl Clock {
    fn now(&mut self, call: &Call) -> Instant {
        // An hour at most, and sometimes backwards.
        self.now_us = if call.number == 255 { self.now_us / 2 } else { (self.now_us + call.us).min(3_600_000_000) };
        self.at(self.now_us)
    }

    fn at(&self, us: u64) -> Instant {
        self.origin + Duration::from_micros(us)
    }

    fn sent(&self, number: u64) -> Instant {
        self.at(self.sent_us[number as usize % 256])
    }
}

fn drive_noq(name: &str, clock: &mut Clock, mut data: &[u8]) {
    let mut adapter = noq::Factory::new(name).expect("a listed algorithm exists").make(clock.origin, 1_200);
    while let Some(call) = Call::next(&mut data) {
        let now = clock.now(&call);
        let sent = clock.sent(call.number);
        match call.what {
            0 | 1 => {
                clock.sent_us[call.number as usize % 256] = clock.now_us;
                adapter.on_packet_sent(now, call.bytes, call.number);
            }
            2 | 3 => adapter.on_packet_acked(now, sent, call.number),
            4 => adapter.on_end_acks(now, call.bytes.into(), call.is_true, call.is_true.then_some(call.number)),
            5 => adapter.on_packet_lost(call.bytes, call.number, now),
            6 => adapter.on_congestion_event(now, sent, call.is_true, call.number == 7, call.bytes.into(), call.number),
            _ if call.is_true => adapter.on_mtu_update(1_200 + call.bytes % 8_000),
            _ => adapter.on_spurious_congestion_event(),
        }
        assert!(adapter.window() >= 1_200, "{name}: the window is {}", adapter.window());
        assert!(adapter.metrics().pacing_rate != Some(0), "{name}: the rate is 0");
    }
}

fn drive_quinn(name: &str, clock: &mut Clock, mut data: &[u8]) {
    let mut adapter = quinn::window_only(name).expect("a listed algorithm exists").make(clock.origin, 1_200);
    while let Some(call) = Call::next(&mut data) {
        let now = clock.now(&call);
        let sent = clock.sent(call.number);
        match call.what {
            0 | 1 => {
                clock.sent_us[call.number as usize % 256] = clock.now_us;
                adapter.on_sent(now, u64::from(call.bytes) * if call.is_true { 10 } else { 1 }, call.number);
            }
            2 | 3 => adapter.on_bytes_acked(now, sent, call.bytes.into()),
            4 => adapter.on_end_acks(now, call.bytes.into(), call.is_true, call.is_true.then_some(call.number)),
            5 | 6 => adapter.on_congestion_event(now, sent, call.is_true, call.bytes.into()),
            _ => adapter.on_mtu_update(1_200 + call.bytes % 8_000),
        }
        // It is a byte more than the algorithm's.
        assert!(adapter.window() > 1_200, "{name}: the window is {}", adapter.window());
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let name = ALGORITHMS[usize::from(first >> 1) % ALGORITHMS.len()].name;
    #[expect(clippy::disallowed_methods, reason = "an origin to count from")]
    let mut clock = Clock { origin: Instant::now(), now_us: 0, sent_us: [0; 256] };
    if first & 1 == 0 { drive_noq(name, &mut clock, rest) } else { drive_quinn(name, &mut clock, rest) }
});
