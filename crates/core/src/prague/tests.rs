//! Tests of TCP Prague: its rules, and calls recorded from L4STeam's module.
// SPDX-License-Identifier: Apache-2.0 OR MIT

extern crate std;

use std::path::Path;
use std::vec::Vec;

use super::*;
use crate::units::{Span, Time};

fn flow(rtt_ms: u64) -> Prague {
    let init = Init { srtt: Some(Span::millis(rtt_ms)), ..Init::new(Time::ZERO).with_mss(1_448) };
    Prague::new(&PragueParams::default(), &init)
}

/// Runs a round of `packets` ACKs; the last `marked` ACKs report a mark.
fn round(flow: &mut Prague, nth: u64, rtt_ms: u64, packets: u64, marked: u64) {
    for packet in 0..packets {
        let is_marked = packet >= packets - marked;
        if is_marked {
            flow.on_congestion_mark(1);
            if flow.ca_state < CaState::Cwr {
                flow.on_ca_state(CaState::Cwr);
            }
        }
        let acked = nth * packets + packet + 1;
        let mut ack = Ack { una: acked, next: acked + packets, delivered: acked, cwnd_limited: true, ..Ack::default() };
        ack.now = Time::micros(1_000 * rtt_ms * nth + packet);
        ack.rs.acked_sacked = 1;
        ack.srtt = Some(Span::millis(rtt_ms));
        flow.on_ack(&ack);
    }
    flow.on_ca_state(CaState::Open);
}

/// QUIC stacks make their controllers before there is an RTT; Linux's module begins after the handshake.
#[test]
fn the_mean_rtt_begins_with_the_first_one_measured() {
    let mut late = Prague::new(&PragueParams::default(), &Init::new(Time::ZERO).with_mss(1_448));
    let mut early = flow(40);
    for flow in [&mut late, &mut early] {
        (0..3).for_each(|nth| round(flow, nth, 40, 10, 0));
    }
    assert_eq!((late.mean_rtt, late.mean_rtt >> MEAN_RTT_BITS), (early.mean_rtt, 8 * 40_000));
}

#[test]
fn the_first_mark_halves_the_window_and_ends_slow_start() {
    let mut flow = flow(50);
    (0..3).for_each(|nth| round(&mut flow, nth, 50, 10, 0));
    assert_eq!((flow.cwnd, flow.in_slow_start()), (40, true));
    round(&mut flow, 3, 50, 20, 1);
    assert!(flow.window < 31 * ONE && !flow.in_slow_start(), "{} {}", flow.window / ONE, flow.cwnd);
}

#[test]
fn above_the_target_rtt_a_round_without_marks_adds_a_packet() {
    let mut flow = flow(50);
    (flow.ssthresh, flow.has_seen_mark) = (10, true);
    let before = flow.window;
    (0..10).for_each(|nth| round(&mut flow, nth, 50, 10, 0));
    assert!((7..=10).contains(&((flow.window - before) / ONE)), "{}", (flow.window - before) / ONE);
}

#[test]
fn at_a_fifth_of_the_target_rtt_growth_a_round_is_a_twenty_fifth() {
    let mut flow = flow(5);
    (flow.ssthresh, flow.has_seen_mark, flow.rounds) = (10, true, 100);
    flow.update_growth();
    let before = flow.window;
    (0..25).for_each(|nth| round(&mut flow, nth, 5, 10, 0));
    let grown = flow.window - before;
    assert!((ONE * 9 / 10..=ONE * 11 / 10).contains(&grown), "{grown}");
}

#[test]
fn a_loss_halves_the_window_and_an_undo_restores_nearly_all_of_it() {
    let mut flow = flow(50);
    flow.set_window(100 * ONE);
    flow.rate = flow.window_to_rate();
    flow.on_ca_state(CaState::Recovery);
    flow.on_ack(&Ack::default());
    assert_eq!(flow.window, 50 * ONE);
    flow.on_undo(&Ack::default());
    // The module restores the rate, and takes a second for 2^23 eighths of a microsecond.
    assert!((95 * ONE..=96 * ONE).contains(&flow.window), "{}", flow.window);
}

/// Calls of a hand copy of L4STeam's module, version 0.7 (revision of Linux 6.18): random ACKs, marks, losses, time-outs
/// and undos on twelve flows. A line is a call and its inputs, and after an ACK the module's state.
const CALLS: &str = "src/prague/calls.txt";

/// State in the order of the recording.
fn state_of(flow: &Prague) -> [u64; 9] {
    let flags = u64::from(flow.has_seen_mark) << 2 | u64::from(flow.is_in_loss) << 1 | u64::from(flow.is_by_rate);
    let burst = flow.burst_bytes() / (flow.packet_bytes - HEADERS);
    let (cwnd, ssthresh) = (u64::from(flow.cwnd), u64::from(flow.ssthresh));
    [cwnd, ssthresh, flow.window, flow.alpha, flow.rate, flow.pacing_rate, burst, u64::from(flow.rounds), flags]
}

#[test]
fn every_recorded_call_of_the_linux_module_leaves_the_same_state() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // The published package leaves the recording out; only a package has this file.
    if root.join("Cargo.toml.orig").exists() {
        return;
    }
    let recording = std::fs::read_to_string(root.join(CALLS)).unwrap();
    let mut flow = Prague::new(&PragueParams::default(), &Init::new(Time::ZERO));
    let mut calls = 0;
    for (nth, line) in recording.lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let n = |at: usize| words[at].parse::<u64>().expect("a number");
        match words[0] {
            "flow" => {
                let max_rate = n(4).min(u64::MAX >> 3) << 3;
                let mut init = Init::new(Time::micros(n(6))).with_mss(n(1) as u32);
                (init.initial_cwnd, init.cwnd_clamp, init.delivered) = (n(2) as u32, n(3) as u32, 1);
                (init.srtt, init.max_pacing_rate) = (Some(Span::nanos(n(5) * 125)), Some(Rate::bits_per_sec(max_rate)));
                flow = Prague::new(&PragueParams::default(), &init);
            }
            "state" => flow.on_ca_state(if n(1) == 0 { CaState::Open } else { CaState::Recovery }),
            "rto" => flow.on_rto(&Ack { in_flight: n(1), ..Ack::default() }, n(2) == 1),
            "undo" => flow.on_undo(&Ack::default()),
            "ack" => {
                flow.on_congestion_mark(n(4));
                if n(5) == 1 {
                    flow.on_ca_state(CaState::Cwr);
                }
                let mut ack = Ack { una: n(7), next: n(8), delivered: n(9), in_flight: n(10), ..Ack::default() };
                (ack.now, ack.srtt) = (Time::micros(n(1)), Some(Span::nanos(n(2) * 125)));
                (ack.rs.acked_sacked, ack.cwnd_limited) = (n(3), n(6) == 1);
                flow.on_ack(&ack);
            }
            other => panic!("line {nth}: {other}"),
        }
        if !matches!(words[0], "flow" | "ack") {
            continue;
        }
        let expected: [u64; 9] = core::array::from_fn(|at| n(words.len() - 9 + at));
        assert_eq!(state_of(&flow), expected, "line {}: {line}", nth + 1);
        calls += 1;
    }
    assert!(calls > 2_100, "{calls}");
}
