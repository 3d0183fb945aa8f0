//! A delay-based algorithm of one's own in bbrlab's `Controller`, over a toy path of 10 Mbit/s and 40 ms.
//!
//! `cargo run --manifest-path examples/own-algorithm/Cargo.toml`
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

use bbrlab_core::algorithms::{Ack, Algorithm};
use bbrlab_core::estimators::RateSampler;
use bbrlab_core::{AckInfo, CaState, Controller, Init, Sent, Span, State, Time};

/// Payload of a packet, bytes.
const MSS: u32 = 1_200;
/// Packets that the algorithm tries to keep in the bottleneck's queue.
const QUEUE_TARGET: u64 = 3;

/// Vegas in small: estimates its own queue from the RTT and moves the window by one packet per round.
struct Vegas {
    cwnd: u32,
    min_rtt_us: u64,
    next_round: u64,
}

impl Vegas {
    fn new(init: &Init) -> Self {
        Self { cwnd: init.initial_cwnd, min_rtt_us: u64::MAX, next_round: 0 }
    }
}

impl Algorithm for Vegas {
    fn restart(&mut self, init: &Init) {
        *self = Self::new(init);
    }

    fn on_ack(&mut self, ack: &Ack, _sampler: &mut RateSampler) {
        let Some(rtt_us) = ack.rs.rtt_us else { return };
        self.min_rtt_us = self.min_rtt_us.min(rtt_us);
        // A round is over when what was sent at its beginning has been delivered.
        if ack.ca_state != CaState::Open || ack.delivered < self.next_round {
            return;
        }
        self.next_round = ack.delivered + ack.in_flight;
        let queued = u64::from(self.cwnd) * (rtt_us - self.min_rtt_us) / rtt_us.max(1);
        self.cwnd = if queued < QUEUE_TARGET { self.cwnd + 1 } else { (self.cwnd - 1).max(2) };
    }

    fn on_ca_state(&mut self, old: CaState, new: CaState) {
        if old < CaState::Cwr && matches!(new, CaState::Cwr | CaState::Recovery) {
            self.cwnd = (self.cwnd / 2).max(2);
        }
    }

    fn on_rto(&mut self, _ack: &Ack, _first: bool) {
        self.cwnd = 2;
    }

    fn cwnd(&self) -> u32 {
        self.cwnd
    }
}

fn main() {
    let (rtt, serialisation) = (Span::millis(40), Span::micros(960)); // 1,200 bytes at 10 Mbit/s
    let init = Init::new(Time::ZERO).with_mss(MSS);
    let mut cc = Controller::with_algorithm(Vegas::new(&init), &init);
    let (mut now, mut link_free, mut number) = (Time::ZERO, Time::ZERO, 0_u64);
    let mut in_flight = VecDeque::new();
    while now < Time::ZERO + Span::secs(30) {
        while cc.can_send(MSS.into()) {
            link_free = link_free.max(now) + serialisation;
            in_flight.push_back((link_free + rtt, cc.on_sent(now, &Sent::packet(MSS)), number));
            number += 1;
        }
        let Some((arrival, token, number)) = in_flight.pop_front() else { break };
        now = arrival;
        let mut batch = cc.begin_ack(now);
        batch.delivered(&token, number);
        let open = cc.on_delivered(batch);
        cc.on_ack(open, &AckInfo::NONE);
    }
    let bits = cc.sampler().delivered() * u64::from(MSS) * 8;
    println!("{:.2} Mbit/s, window {} packets, {:?}", bits as f64 / 30e6, cc.cwnd(), cc.state());
    // The path holds 42 packets, and the algorithm keeps a few more in its queue.
    assert!((43..=50).contains(&cc.cwnd()), "window {}", cc.cwnd());
    assert!(bits > 30 * 9_000_000 && cc.state() == State::CongestionAvoidance && cc.pacing_rate().is_none());
}
