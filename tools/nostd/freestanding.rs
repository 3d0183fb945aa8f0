//! A host without an operating system: uses every event of the controller, so that all of core is in the object.
//! In: bytes that stand for events. Out: a checksum. Never: std, an allocation, a float.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![no_std]

use bbrlab_core::{ALGORITHMS, AckReport, AlgorithmConfig, CaState, Controller, Init, Span, Time};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Runs every algorithm over `rounds` ACKs.
#[unsafe(no_mangle)]
pub extern "C" fn bbrlab_core_freestanding_run(rounds: u32, seed: u64) -> u64 {
    let mut sum = 0u64;
    for info in ALGORITHMS {
        let Some(mut config) = AlgorithmConfig::named(info.name) else { continue };
        let _ = config.set("cwnd_gain", "2.5");
        sum = sum.wrapping_add(run(&config, rounds, seed));
    }
    sum
}

fn run(config: &AlgorithmConfig, rounds: u32, seed: u64) -> u64 {
    let mut now = Time::ZERO;
    let mut cc = Controller::new(config, &Init::new(now, 1448, seed));
    let mut sum = 0u64;
    for i in 0..rounds {
        let token = cc.on_sent(now, 1, i % 3, i % 2, i % 5 == 0);
        now = now + Span::millis(1);
        cc.on_delivered(&token, u64::from(i));
        match i % 11 {
            0 => cc.on_lost(1),
            1 => cc.on_lost_by_timer(1),
            2 => cc.on_ca_state(CaState::Recovery),
            3 => cc.on_ca_state(CaState::Open),
            4 => cc.on_rto(now, 1, true),
            5 => cc.on_undo(now),
            6 => cc.on_app_limited(3),
            7 => cc.on_cwnd_unused(2),
            8 => cc.on_mss(1200),
            9 => cc.on_recovery_by_timer(now, 3),
            _ => {}
        }
        cc.on_ack(&AckReport {
            now,
            rtt: Some(Span::millis(1)),
            rtt_oldest: Some(Span::millis(1)),
            prior_in_flight: 2,
            in_flight: 1,
            packets_out: 2,
            una: u64::from(i),
            next: u64::from(i) + 1,
            advanced: true,
            is_ack_delayed: false,
            cwnd_limited: true,
            may_raise_cwnd: true,
            edt: now,
            paced: true,
        });
        let found = cc.snapshot();
        sum = sum.wrapping_add(u64::from(cc.cwnd()) ^ cc.pacing_rate().0 ^ cc.send_quantum() ^ found.bw.0);
    }
    sum
}
