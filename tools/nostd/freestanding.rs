//! A host without an operating system. It calls every event of the controller, so that all of core is in the object.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![no_std]

use bbrlab_core::{
    ALGORITHMS, AckInfo, AckRtt, AlgorithmConfig, CaState, Controller, Flight, Init, Loss, Pacer, PacketToken, Rate,
    RememberedPath, Sent, Span, Time,
};

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

const MSS: u32 = 1448;

fn flight(packets: u32) -> Flight {
    Flight { bytes: u64::from(packets) * u64::from(MSS), packets }
}

fn run(config: &AlgorithmConfig, rounds: u32, seed: u64) -> u64 {
    let mut now = Time::ZERO;
    let mut cc = Controller::new(config, &Init::new(now).with_mss(MSS).with_seed(seed));
    if seed & 1 == 1 {
        cc = cc.with_host_recovery();
    }
    let mut pacer = Pacer::new(now);
    let mut sum = 0u64;
    for i in 0..rounds {
        let sent = match i % 4 {
            0 => Sent::packet(MSS),
            1 => Sent::burst(3, 3 * MSS),
            2 => Sent::packet(MSS).retransmission(),
            _ => Sent::packet(MSS).with_in_flight(flight(i % 3), i % 5 == 0),
        };
        let token = cc.on_sent(now, &sent);
        pacer.on_sent(now, sent.bytes.into(), cc.pacing_rate());
        now = now + Span::millis(1);
        ack(&mut cc, now, i, &token);
        let found = cc.snapshot();
        let may_send = u64::from(pacer.may_send(now));
        sum = sum.wrapping_add(
            cc.cwnd_bytes() ^ cc.pacing_rate().map_or(0, |rate| rate.as_bits_per_sec()) ^ cc.send_quantum() ^ may_send,
        );
        sum = sum.wrapping_add(found.bw.as_bits_per_sec() ^ cc.state() as u64 ^ u64::from(cc.min_tso_segs()));
    }
    sum
}

/// One ACK, with the events that may occur between its two halves.
fn ack(cc: &mut Controller, now: Time, i: u32, token: &PacketToken) {
    let number = u64::from(i);
    let mut batch = cc.begin_ack(now);
    match i % 5 {
        0 => batch.delivered_bytes(MSS.into(), token),
        1 => batch.delivered_late(token, number),
        2 => batch.delivered_run(2, 2 * u64::from(MSS), &cc.part_of_burst(token, 1, MSS), number),
        _ => batch.delivered(token, number),
    }
    let open = cc.on_delivered(batch);
    between(cc, now, i, token);
    let mut info = AckInfo::NONE.with_edt(now).with_cwnd_limited(i % 2 == 0);
    if i % 3 == 0 {
        info.rtt = AckRtt::Measured { newest: Some(Span::millis(1)), oldest: Some(Span::millis(2)) };
        info.in_flight = Some((flight(2), flight(1)));
        info.packets_out = Some(2);
        info.una_next = Some((number, number + 1));
        info.may_raise_cwnd = Some(true);
    }
    cc.on_ack(open, &info);
}

fn between(cc: &mut Controller, now: Time, i: u32, token: &PacketToken) {
    match i % 23 {
        0 => cc.on_lost(now, &Loss::packet(token, i.into())),
        1 => cc.on_lost(now, &Loss::run(token, i.into(), 2, 2 * MSS).by_timer()),
        2 => cc.on_ca_state(CaState::Recovery),
        3 => cc.on_ca_state(CaState::Open),
        4 => cc.on_rto(now, flight(1), true),
        5 => cc.on_undo(now),
        6 => cc.on_app_limited(Some(flight(3))),
        7 => cc.on_cwnd_unused(2),
        8 => cc.on_mss(1200),
        9 => cc.on_recovery_by_timer(now, flight(3)),
        10 => cc.on_discarded(token),
        11 => cc.on_persistent_congestion(now),
        12 => cc.on_tlp_ack(),
        13 => cc.on_tlp_recovery(now, false),
        14 => cc.on_congestion_mark(now, 1),
        15 => cc.on_cwnd_limited(),
        16 => cc.on_ack_frequency(4, Span::millis(25)),
        17 => cc.on_path_change(now, MSS, Some(Span::millis(30))),
        18 => {
            cc.resume(RememberedPath::new(Rate::bits_per_sec(10_000_000), Span::millis(20)));
        }
        19 => cc.set_max_pacing_rate(Some(Rate::bits_per_sec(50_000_000))),
        _ => {}
    }
}
