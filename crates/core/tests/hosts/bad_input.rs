//! Mistakes of a host: each is ignored or absorbed, for every algorithm, and nothing wraps.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::check::outputs;
use bbrlab_core::{
    ALGORITHMS, AckInfo, AckRtt, AlgorithmConfig, Controller, Flight, Init, Loss, PacketToken, Rate, RememberedPath,
    Sent, Span, Time, algorithms::Algorithm,
};

const MSS: u32 = 1_200;

/// Runs a test on each algorithm with ten packets in flight, the first already delivered.
fn each(test: impl Fn(&str, &mut Controller, &[PacketToken])) {
    for info in ALGORITHMS {
        let config = AlgorithmConfig::named(info.name).expect("a listed algorithm");
        let mut cc = Controller::new(&config, &Init::new(Time::ZERO).with_mss(MSS).with_seed(1));
        let tokens: Vec<_> = (0..10).map(|i| cc.on_sent(Time::micros(i * 100), &Sent::packet(MSS))).collect();
        acknowledge(&mut cc, 40_000, &tokens[0]);
        test(info.name, &mut cc, &tokens);
        outputs(info.name, &cc);
        // It still works.
        let token = cc.on_sent(Time::micros(900_000), &Sent::packet(MSS));
        acknowledge(&mut cc, 940_000, &token);
        outputs(info.name, &cc);
    }
}

fn acknowledge(cc: &mut Controller, us: u64, token: &PacketToken) {
    let mut batch = cc.begin_ack(Time::micros(us));
    batch.delivered(token, 0);
    let open = cc.on_delivered(batch);
    cc.on_ack(open, &AckInfo::NONE);
}

fn packets(packets: u32) -> Flight {
    Flight { bytes: u64::from(packets * MSS), packets }
}

/// Number of packets delivered.
fn delivered(cc: &Controller) -> u64 {
    cc.sampler().delivered() / if cc.algorithm().counts_bytes() { u64::from(MSS) } else { 1 }
}

#[test]
fn a_packet_acknowledged_twice_counts_only_while_others_are_missing() {
    each(|name, cc, tokens| {
        for us in 0..20 {
            acknowledge(cc, 50_000 + us, &tokens[1]);
        }
        assert_eq!((cc.in_flight(), delivered(cc)), (Flight::NONE, 10), "{name}");
    });
}

#[test]
fn a_loss_of_more_than_is_in_flight_is_ignored() {
    each(|name, cc, tokens| {
        for token in tokens {
            acknowledge(cc, 50_000, token);
        }
        let lost = cc.sampler().lost();
        cc.on_lost(Time::micros(60_000), &Loss::packet(&tokens[3], 3));
        assert_eq!((cc.in_flight(), cc.sampler().lost()), (Flight::NONE, lost), "{name}");
    });
}

#[test]
fn a_packet_acknowledged_after_it_was_discarded_takes_nothing_below_zero() {
    each(|name, cc, tokens| {
        for token in &tokens[1..] {
            cc.on_discarded(token);
        }
        assert_eq!(cc.in_flight(), Flight::NONE, "{name}");
        cc.on_discarded(&tokens[2]);
        acknowledge(cc, 50_000, &tokens[2]);
        assert_eq!(cc.in_flight(), Flight::NONE, "{name}");
    });
}

#[test]
fn a_token_of_another_path_changes_nothing() {
    each(|name, cc, tokens| {
        cc.on_path_change(Time::micros(45_000), MSS, None);
        let new = cc.on_sent(Time::micros(46_000), &Sent::packet(MSS));
        let before = format!("{:?} {:?}", cc.snapshot(), cc.sampler());
        acknowledge(cc, 50_000, &tokens[1]);
        cc.on_lost(Time::micros(50_000), &Loss::packet(&tokens[2], 2));
        cc.on_discarded(&tokens[3]);
        assert_eq!(cc.in_flight(), packets(1), "{name}");
        assert_eq!((delivered(cc), cc.sampler().lost(), cc.rtt().min()), (0, 0, None), "{name}");
        assert_eq!(format!("{:?} {:?}", cc.snapshot(), cc.sampler()), before, "{name}");
        acknowledge(cc, 90_000, &new);
        assert_eq!((cc.in_flight(), delivered(cc)), (Flight::NONE, 1), "{name}");
    });
}

#[test]
fn a_late_ack_of_another_path_does_not_end_the_new_paths_recovery_or_give_it_an_rtt() {
    each(|name, cc, tokens| {
        let mut batch = cc.begin_ack(Time::micros(41_000));
        batch.delivered(&tokens[1], 1);
        cc.on_path_change(Time::micros(45_000), MSS, None);
        let open = cc.on_delivered(batch);
        let mut info = AckInfo::NONE;
        info.rtt = AckRtt::Measured { newest: Some(Span::micros(7)), oldest: Some(Span::micros(9)) };
        cc.on_ack(open, &info);
        assert_eq!((cc.rtt().min(), cc.in_flight()), (None, Flight::NONE), "{name}");
    });
}

#[test]
fn an_ack_that_ends_after_a_path_change_changes_nothing() {
    each(|name, cc, tokens| {
        let mut batch = cc.begin_ack(Time::micros(41_000));
        batch.delivered(&tokens[1], 1);
        let open = cc.on_delivered(batch);
        cc.on_path_change(Time::micros(45_000), MSS, None);
        let before = format!("{:?} {:?} {:?}", cc.snapshot(), cc.sampler(), cc.rtt());
        cc.on_rtt(&open, &AckInfo::rtt(Span::micros(1)));
        cc.on_ack(open, &AckInfo::rtt(Span::micros(1)));
        assert_eq!(format!("{:?} {:?} {:?}", cc.snapshot(), cc.sampler(), cc.rtt()), before, "{name}");
    });
}

/// An RTT that is taken before the end of its ACK is in the estimates then, and the model is the same after it.
#[test]
fn an_rtt_taken_early_counts_once() {
    each(|name, cc, tokens| {
        let [late, early] = [false, true].map(|is_early| {
            let mut cc = cc.clone();
            let mut batch = cc.begin_ack(Time::micros(41_000));
            batch.delivered(&tokens[1], 1);
            let open = cc.on_delivered(batch);
            let mut info = AckInfo::rtt(Span::micros(7_000));
            if is_early {
                cc.on_rtt(&open, &info);
                assert_eq!(cc.rtt().min(), Some(Span::micros(7_000)), "{name}");
                info.rtt = AckRtt::Taken { newest: Some(Span::micros(7_000)) };
            }
            cc.on_ack(open, &info);
            format!("{:?} {:?} {:?}", cc.snapshot(), cc.sampler(), cc.rtt())
        });
        assert_eq!(late, early, "{name}");
    });
}

#[test]
fn the_token_of_no_packet_changes_nothing() {
    each(|name, cc, _| {
        acknowledge(cc, 50_000, &PacketToken::default());
        cc.on_lost(Time::micros(50_000), &Loss::packet(&PacketToken::default(), 2));
        cc.on_discarded(&PacketToken::default());
        assert_eq!((cc.in_flight(), delivered(cc), cc.sampler().lost()), (packets(9), 1, 0), "{name}");
    });
}

#[test]
fn a_packet_of_no_bytes_is_not_in_flight() {
    each(|name, cc, _| {
        let token = cc.on_sent(Time::micros(50_000), &Sent::packet(0));
        assert_eq!((token, cc.in_flight()), (PacketToken::default(), packets(9)), "{name}");
    });
}

#[test]
fn a_clock_that_runs_backwards_stands_still() {
    each(|name, cc, tokens| {
        let token = cc.on_sent(Time::micros(1), &Sent::packet(MSS));
        assert!(token.send_time() >= Time::micros(40_000), "{name}: {:?}", token.send_time());
        acknowledge(cc, 2, &tokens[9]);
        cc.on_lost(Time::ZERO, &Loss::packet(&tokens[8], 8));
        cc.on_persistent_congestion(Time::ZERO);
        assert_eq!(cc.in_flight(), packets(8), "{name}");
    });
}

#[test]
fn an_mss_of_zero_is_treated_as_one_byte() {
    each(|name, cc, _| {
        cc.on_mss(0);
        assert_eq!(cc.mss(), 1, "{name}");
        outputs(name, cc);
        cc.on_path_change(Time::micros(50_000), 0, None);
        assert_eq!(cc.mss(), 1, "{name}");
        outputs(name, cc);
        cc.on_mss(MSS);
    });
    for info in ALGORITHMS {
        let config = AlgorithmConfig::named(info.name).expect("a listed algorithm");
        outputs(info.name, &Controller::new(&config, &Init::new(Time::ZERO).with_mss(0).with_seed(1)));
    }
}

#[test]
fn huge_values_are_absorbed() {
    each(|name, cc, tokens| {
        let huge = cc.on_sent(Time::micros(41_000), &Sent::burst(u32::MAX, u32::MAX));
        let _ = cc.on_sent(Time::micros(41_000), &Sent::burst(u32::MAX, u32::MAX));
        outputs(name, cc);
        let mut batch = cc.begin_ack(Time::micros(50_000));
        batch.delivered_run(u64::MAX, u64::MAX, &huge, u64::MAX);
        batch.delivered_late(&huge, u64::MAX);
        batch.delivered_bytes(u64::MAX, &tokens[3]);
        let open = cc.on_delivered(batch);
        cc.on_lost(Time::micros(50_000), &Loss::run(&huge, u64::MAX, u32::MAX, u32::MAX));
        cc.on_congestion_mark(Time::micros(50_000), u64::MAX);
        outputs(name, cc);
        cc.on_ack(open, &AckInfo::rtt(Span::nanos(u64::MAX)));
        outputs(name, cc);
        cc.on_mss(u32::MAX);
        cc.on_cwnd_unused(u32::MAX);
        cc.set_max_pacing_rate(Some(Rate::bits_per_sec(u64::MAX)));
        cc.resume(RememberedPath::new(Rate::bits_per_sec(u64::MAX), Span::nanos(u64::MAX)));
        cc.on_ack_frequency(u32::MAX, Span::nanos(u64::MAX));
        outputs(name, cc);
        cc.on_mss(MSS);
    });
}

#[test]
fn a_loss_of_an_acknowledged_packet_counts_while_others_are_in_flight() {
    each(|name, cc, tokens| {
        cc.on_lost(Time::micros(50_000), &Loss::packet(&tokens[0], 0));
        assert_eq!(cc.in_flight(), packets(8), "{name}: the controller keeps no list of packets");
    });
}
