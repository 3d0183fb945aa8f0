//! Any events in any order with any values: every algorithm keeps a window it promised and a positive rate.
//! In: bytes, read as events. Out: a panic where a promise is broken. Never: an event that a host could not send.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![no_main]

use bbrlab_core::{ALGORITHMS, AckReport, AlgorithmConfig, CaState, Controller, Init, Span, Time, Token};
use libfuzzer_sys::fuzz_target;

/// Reads integers of any size, small ones as often as wild ones.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn u8(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().map_or((0, [].as_slice()), |(first, rest)| (*first, rest));
        self.0 = rest;
        first
    }

    fn u64(&mut self) -> u64 {
        let size = self.u8();
        match size {
            0xff => u64::MAX,
            0xfe => u64::from(u32::MAX),
            0xfd => 1 << 63,
            _ => (0..size % 9).fold(0, |value, _| value << 8 | u64::from(self.u8())),
        }
    }

    fn u32(&mut self) -> u32 {
        u32::try_from(self.u64()).unwrap_or(u32::MAX)
    }

    fn span(&mut self) -> Option<Span> {
        let value = self.u64();
        (value != 3).then_some(Span(value))
    }
}

fn config(bytes: &mut Bytes<'_>) -> AlgorithmConfig {
    let name = ALGORITHMS[usize::from(bytes.u8()) % ALGORITHMS.len()].name;
    let mut config = AlgorithmConfig::named(name).expect("a listed algorithm exists");
    let specs: Vec<_> = config.parameters().collect();
    for _ in 0..bytes.u8() % 8 {
        let (spec, _) = specs[usize::from(bytes.u8()) % specs.len()];
        let value = spec.min + bytes.u32() % (spec.max - spec.min).saturating_add(1).max(1);
        // A legal value or a refusal; both are fine.
        let _ = config.set(spec.name, &bbrlab_lab::scenario::unit_text(spec.unit, value));
    }
    config
}

fn report(bytes: &mut Bytes<'_>, now: Time) -> AckReport {
    let flags = bytes.u8();
    AckReport {
        now,
        rtt: bytes.span(),
        rtt_oldest: bytes.span(),
        prior_in_flight: bytes.u32(),
        in_flight: bytes.u32(),
        packets_out: bytes.u32(),
        una: bytes.u64(),
        next: bytes.u64(),
        advanced: flags & 1 != 0,
        is_ack_delayed: flags & 2 != 0,
        cwnd_limited: flags & 4 != 0,
        may_raise_cwnd: flags & 8 != 0,
        edt: Time(bytes.u64()),
        paced: flags & 16 != 0,
    }
}

/// The window below which an algorithm promises never to go, whatever happens.
fn check(cc: &Controller) {
    assert!(cc.cwnd() >= 1, "window {}", cc.cwnd());
    assert!(cc.pacing_rate().0 > 0);
    assert!(cc.send_quantum() > 0);
    assert!(cc.min_tso_segs() >= 1);
    let _ = (cc.cwnd_bytes(), cc.in_slow_start(), cc.state(), cc.snapshot(), cc.rtt().rto());
}

fuzz_target!(|data: &[u8]| {
    let mut bytes = Bytes(data);
    let config = config(&mut bytes);
    let mut now = Time(bytes.u64());
    let init = Init {
        now,
        mss: bytes.u32(),
        initial_cwnd: bytes.u32(),
        srtt: bytes.span(),
        cwnd_clamp: bytes.u32(),
        selective_acks: bytes.u8() & 1 == 0,
        seed: bytes.u64(),
        ..Init::new(now, 1, 0)
    };
    let mut cc = Controller::new(&config, &init);
    check(&cc);
    let mut tokens = [Token::default(); 16];
    let mut sent = 0;
    while !bytes.0.is_empty() {
        let event = bytes.u8();
        match event >> 4 {
            0..=3 => {
                // Mostly forward, sometimes backward: a host's clock may be wrong.
                now = if event & 8 != 0 { Time(bytes.u64()) } else { now + Span(bytes.u64()) };
                let (packets, in_flight) = (bytes.u32(), bytes.u32());
                let out = if event & 4 != 0 { bytes.u32() } else { in_flight };
                tokens[sent % 16] = cc.on_sent(now, packets, in_flight, out, event & 2 != 0);
                sent += 1;
            }
            4..=5 => cc.on_delivered(&tokens[usize::from(event & 15)], bytes.u64()),
            6 => cc.on_delivered_run(bytes.u64(), &tokens[usize::from(event & 15)], bytes.u64()),
            7 if event & 8 != 0 => cc.on_lost_packet(now, &tokens[usize::from(event & 7)], bytes.u64()),
            7 => cc.on_lost(bytes.u64()),
            8 if event & 8 != 0 => cc.on_lost_packet_by_timer(now, &tokens[usize::from(event & 7)], bytes.u64()),
            8 => cc.on_lost_by_timer(bytes.u64()),
            9 => {
                let states = [CaState::Open, CaState::Disorder, CaState::Cwr, CaState::Recovery, CaState::Loss];
                cc.on_ca_state(states[usize::from(event & 15) % 5]);
            }
            10 => cc.on_rto(now, bytes.u32(), event & 1 != 0),
            11 if event & 8 != 0 => match event & 3 {
                0 => cc.on_tlp_ack(),
                1 => cc.on_tlp_recovery(now, event & 4 != 0),
                _ => cc.on_congestion_mark(bytes.u64()),
            },
            11 => match event & 3 {
                0 => cc.on_undo(now),
                1 => cc.on_app_limited(bytes.u32()),
                2 => cc.on_cwnd_unused(bytes.u32()),
                _ => cc.on_mss(bytes.u32()),
            },
            12 => cc.on_recovery_by_timer(now, bytes.u32()),
            _ => {
                now = now + Span(bytes.u64());
                let report = report(&mut bytes, now);
                cc.on_ack(&report);
            }
        }
        check(&cc);
    }
});
