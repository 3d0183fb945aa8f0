//! Loss episodes kept by the controller or by its host: the same losses give the same transitions.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{
    ALGORITHMS, AckInfo, AlgorithmConfig, CaState, Cause, Controller, Flight, Init, Loss, PacketToken, Rng, Sent, Span,
    State, Time,
};
use std::collections::VecDeque;

const MSS: u32 = 1_200;
const RTT: Span = Span::millis(40);

/// A host that sends what its window allows and gets an ACK for each packet, one by one. It names its recovery states itself, or
/// leaves them to the controller.
struct Scripted {
    cc: Controller,
    keeps_recovery: bool,
    now: Time,
    next: u64,
    packets: VecDeque<(u64, Time, PacketToken)>,
    /// Time at which the loss episode began, and whether it lasts.
    episode: Option<(Time, bool)>,
}

impl Scripted {
    fn new(name: &str, keeps_recovery: bool) -> Self {
        let config = AlgorithmConfig::named(name).expect("a listed algorithm");
        let mut cc = Controller::new(&config, &Init::new(Time::ZERO).with_mss(MSS).with_seed(1));
        if keeps_recovery {
            cc = cc.with_host_recovery();
        }
        Self { cc, keeps_recovery, now: Time::ZERO, next: 0, packets: VecDeque::new(), episode: None }
    }

    fn flight(&self) -> Flight {
        let packets = self.packets.len() as u32;
        Flight { bytes: u64::from(packets * MSS), packets }
    }

    fn send(&mut self) {
        while self.packets.len() < self.cc.cwnd().min(2_000) as usize {
            let sent = Sent::packet(MSS).with_in_flight(self.flight(), self.packets.is_empty());
            let token = self.cc.on_sent(self.now, &sent);
            self.packets.push_back((self.next, self.now, token));
            self.next += 1;
        }
    }

    /// Resolves the oldest packet: it is lost, or delivered after the losses before it have been reported.
    fn step(&mut self, spacing: Span, is_lost: &mut dyn FnMut(u64) -> bool) {
        self.send();
        let mut lost = Vec::new();
        while self.packets.len() > 1 && is_lost(self.packets[0].0) {
            lost.extend(self.packets.pop_front());
        }
        let before = Flight { bytes: self.flight().bytes + u64::from(MSS) * lost.len() as u64, packets: 0 };
        let before = Flight { packets: (before.bytes / u64::from(MSS)) as u32, ..before };
        let Some((number, sent, token)) = self.packets.pop_front() else { return };
        self.now = (self.now + spacing).max(sent + RTT);
        let mut batch = self.cc.begin_ack(self.now);
        batch.delivered(&token, number);
        let open = self.cc.on_delivered(batch);
        // RFC 9002 §7.3.2
        let is_in = |episode: Option<(Time, bool)>, sent: Time| episode.is_some_and(|(began, _)| sent <= began);
        let mut is_over = self.episode.is_some_and(|(_, lasts)| lasts) && !is_in(self.episode, sent);
        if self.cc.continues_recovery() && !lost.is_empty() {
            is_over = false;
        }
        for (number, left, token) in lost {
            self.cc.on_lost(self.now, &Loss::packet(&token, number));
            let lasts = self.episode.is_some_and(|(_, lasts)| lasts) && !is_over;
            if !lasts && !is_in(self.episode, left) {
                (self.episode, is_over) = (Some((self.now, true)), false);
                if self.keeps_recovery {
                    self.cc.on_ca_state(CaState::Open);
                    self.cc.on_ca_state(CaState::Recovery);
                }
            } else if self.cc.continues_recovery() && self.episode.is_some_and(|(_, lasts)| lasts) {
                self.episode = Some((self.now, true));
            }
        }
        let mut info = AckInfo::rtt(self.now.since(sent));
        info.in_flight = Some((before, self.flight()));
        self.cc.on_ack(open, &info);
        if is_over {
            self.episode = self.episode.map(|(began, _)| (began, false));
            if self.keeps_recovery {
                self.cc.on_ca_state(CaState::Open);
            }
        }
    }
}

/// Runs a script in both kinds of host; `each` sees both controllers after each ACK.
fn compare(name: &str, acks: u64, mut step: impl FnMut(&mut Scripted, u64), mut each: impl FnMut(u64, &Controller)) {
    let (mut own, mut host) = (Scripted::new(name, false), Scripted::new(name, true));
    for nth in 0..acks {
        step(&mut own, nth);
        step(&mut host, nth);
        let of = |cc: &Controller| (cc.snapshot(), cc.cwnd(), cc.pacing_rate(), cc.ca_state());
        assert_eq!(of(&own.cc), of(&host.cc), "{name}: after ACK {nth}, at {:?}", own.now);
        each(nth, &own.cc);
    }
}

#[test]
fn a_controller_that_keeps_its_own_episodes_follows_one_whose_host_keeps_them() {
    for info in ALGORITHMS {
        for seed in 0..12 {
            let mut rng = Rng::derive(7, seed);
            let (loss, spacing) = (1 + rng.below(60), Span::micros(50 + rng.below(1_000)));
            compare(
                info.name,
                4_000,
                |host, nth| {
                    host.step(spacing, &mut |number| Rng::derive(seed, number ^ (nth >> 9)).below(1_000) < loss)
                },
                |_, _| (),
            );
        }
    }
}

/// The ACK that starts a round of loss is the one that ends the episode: both begin with the first loss.
#[test]
fn bbr3_leaves_startup_by_loss_in_both_kinds_of_host() {
    for name in ["bbr3", "bbr3-linux", "bbr2"] {
        let mut left = None;
        // The rate keeps growing, and one packet in 20 is lost.
        let spacing = |nth: u64| Span::nanos(400_000_000 / (nth + 100));
        compare(
            name,
            3_000,
            |host, nth| host.step(spacing(nth), &mut |number| number % 20 == 19),
            |nth, cc| {
                let snapshot = cc.snapshot();
                if left.is_none() && snapshot.state != State::Startup {
                    left = Some((nth, snapshot.state, snapshot.cause));
                }
            },
        );
        assert!(matches!(left, Some((_, State::Drain, Cause::Loss))), "{name}: {left:?}");
    }
}
