//! A QUIC-shaped host: bytes, two packet-number spaces, MTU probes, discarded keys, delayed ACKs, spurious losses, several paths.
//! Every event of the controller is followed by a check of all invariants.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::app::Next;
use super::check::{Truth, check, plus};
use super::link::Link;
use super::plan::{Action, Outcome, Plan};
use super::receiver::{Frame, Receiver};
use bbrlab_core::{AlgorithmConfig, Controller, Flight, Init, Pacer, PacketToken, Rate, Rng, Sent, Span, Time};
use std::collections::BTreeMap;

/// A packet that is or was in flight.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub bytes: u32,
    pub sent: Time,
    pub token: PacketToken,
    pub path: u32,
    pub is_mtu_probe: bool,
}

#[derive(Clone, Debug)]
enum Event {
    Arrives { space: usize, number: u64, bytes: u32, is_marked: bool },
    AckDue(usize),
    Ack(Frame),
    Wake,
    LossTimer,
    ProbeTimer,
    Do(Action),
}

/// The connection with both endpoints and the link between them.
#[derive(Debug)]
pub struct Quic {
    pub cc: Controller,
    pub plan: Plan,
    pub now: Time,
    pub out: Outcome,
    pub(super) pacer: Pacer,
    pub(super) packets: BTreeMap<(usize, u64), Packet>,
    pub(super) lost: BTreeMap<(usize, u64), Packet>,
    pub(super) in_flight: Flight,
    pub(super) sent: Flight,
    pub(super) path: u32,
    pub(super) mss: u32,
    pub(super) largest_acked: [Option<u64>; 2],
    pub(super) acked_until: Option<Time>,
    pub(super) srtt: Option<Span>,
    pub(super) latest_rtt: Span,
    pub(super) marks_seen: u64,
    pub(super) app_sent: u64,
    pub(super) probes: u32,
    pub(super) space: usize,
    is_bound: bool,
    link: Link,
    receivers: [Receiver; 2],
    events: BTreeMap<(Time, u64), Event>,
    events_made: u64,
    next_number: [u64; 2],
    last_sent: Time,
    wake_at: Option<Time>,
    loss_at: Option<Time>,
    rng: Rng,
}

impl Quic {
    pub fn new(plan: &Plan) -> Self {
        let config = AlgorithmConfig::named(plan.algorithm).expect("a listed algorithm");
        let mut quic = Self {
            cc: Controller::new(&config, &Init::new(Time::ZERO).with_mss(plan.mss).with_seed(plan.seed)),
            plan: plan.clone(),
            now: Time::ZERO,
            out: Outcome::default(),
            pacer: Pacer::new(Time::ZERO),
            packets: BTreeMap::new(),
            lost: BTreeMap::new(),
            in_flight: Flight::NONE,
            sent: Flight::NONE,
            path: 0,
            mss: plan.mss,
            largest_acked: [None; 2],
            acked_until: None,
            srtt: None,
            latest_rtt: Span::ZERO,
            marks_seen: 0,
            app_sent: 0,
            probes: 0,
            space: 0,
            is_bound: false,
            link: Link::new(plan.shape, plan.seed ^ 7),
            receivers: [Receiver::new(0, 1, Span::ZERO), Receiver::new(1, 2, Span::millis(25))],
            events: BTreeMap::new(),
            events_made: 0,
            next_number: [0; 2],
            last_sent: Time::ZERO,
            wake_at: Some(Time::ZERO),
            loss_at: None,
            rng: Rng::new(plan.seed ^ 9),
        };
        if let Some(path) = plan.resume {
            quic.cc.resume(path);
        }
        for (after, action) in &plan.script {
            quic.at(Time::ZERO + *after, Event::Do(*action));
        }
        quic.at(Time::ZERO, Event::Wake);
        quic.check();
        quic
    }

    /// Runs a plan from beginning to end.
    pub fn run(plan: &Plan, span: Span) -> Self {
        let mut quic = Self::new(plan);
        quic.run_until(Time::ZERO + span);
        quic
    }

    pub fn run_until(&mut self, end: Time) {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            self.handle(event);
        }
        self.now = end;
    }

    fn at(&mut self, time: Time, event: Event) {
        self.events_made += 1;
        self.events.insert((time.max(self.now), self.events_made), event);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrives { space, number, bytes, is_marked } => {
                self.out.arrived += u64::from(bytes);
                let due = self.receivers[space].on_packet(self.now, number, bytes > 0, is_marked);
                if let Some(due) = due {
                    self.at(due, Event::AckDue(space));
                }
            }
            Event::AckDue(space) => {
                if let Some(frame) = self.receivers[space].ack(self.now) {
                    self.at(self.now + self.link.shape.delay, Event::Ack(frame));
                }
            }
            Event::Ack(frame) => {
                self.on_frame(&frame);
                self.send();
            }
            Event::Wake if self.wake_at == Some(self.now) => {
                self.wake_at = None;
                self.send();
            }
            Event::LossTimer if self.loss_at == Some(self.now) => {
                self.loss_at = None;
                self.find_losses(true);
                self.send();
            }
            // Timers that have been set again since.
            Event::Wake | Event::LossTimer => (),
            Event::ProbeTimer => self.on_probe_timer(),
            Event::Do(action) => self.act(action),
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::ProbeMtu(bytes) => self.transmit(1, bytes, true),
            Action::AckEvery(packets, delay) => {
                (self.receivers[1].every, self.receivers[1].max_delay) = (packets, delay);
                self.cc.on_ack_frequency(packets, delay);
            }
            Action::MoveTo(shape) => {
                self.link = Link::new(shape, self.plan.seed ^ 11);
                self.plan.shape = shape;
                self.cc.on_path_change(self.now, self.mss, None);
                self.path += 1;
                (self.in_flight, self.sent) = (Flight::NONE, Flight::NONE);
                (self.srtt, self.acked_until) = (None, None);
                self.pacer = Pacer::new(self.now);
            }
            Action::Dark(is_dark) => self.link.is_dark = is_dark,
            Action::MaxRate(max) => {
                self.is_bound = max.is_some();
                self.cc.set_max_pacing_rate(max);
            }
            Action::LinkMtu(mtu) => self.link.shape.mtu = mtu,
        }
        self.check();
        self.send();
    }

    /// Sends everything that window, pacer and application allow.
    pub(super) fn send(&mut self) {
        loop {
            let size = self.plan.sizes.draw(self.mss, &mut self.rng);
            let room = self.in_flight.bytes + u64::from(size) <= self.cc.cwnd_bytes() || self.in_flight.bytes == 0;
            if !room {
                return;
            }
            if self.paces() && !self.pacer.may_send(self.now) {
                return self.wake(self.pacer.next_send_time());
            }
            match self.plan.app.next(self.now, self.app_sent, size) {
                Next::Packet(bytes) => self.transmit(self.space, bytes, false),
                Next::Nothing(until) => {
                    if self.plan.signals.app_limited {
                        self.cc.on_app_limited(None);
                        self.check();
                    }
                    return self.wake(until);
                }
            }
        }
    }

    /// True if the host paces: one that bounds the rate must pace even algorithms that do not require it; `fixed` has no rate.
    fn paces(&self) -> bool {
        let is_bound = self.is_bound && self.plan.algorithm != "fixed";
        self.plan.signals.paced && (self.cc.needs_pacing() || is_bound)
    }

    fn wake(&mut self, at: Time) {
        if self.wake_at.is_none_or(|wake| at < wake) {
            self.wake_at = Some(at);
            self.at(at, Event::Wake);
        }
    }

    /// Sends one packet; now and then a pure ACK goes with it, which has a number, but no bytes that count.
    pub(super) fn transmit(&mut self, space: usize, bytes: u32, is_mtu_probe: bool) {
        self.put(space, bytes, is_mtu_probe);
        if self.rng.below(16) == 0 {
            self.put(space, 0, false);
        }
        self.at(self.last_sent + self.probe_timeout(), Event::ProbeTimer);
    }

    fn put(&mut self, space: usize, bytes: u32, is_mtu_probe: bool) {
        let token = self.cc.on_sent(self.now, &Sent::packet(bytes));
        let number = self.next_number[space];
        self.next_number[space] += 1;
        self.packets.insert((space, number), Packet { bytes, sent: self.now, token, path: self.path, is_mtu_probe });
        if bytes > 0 {
            self.in_flight = plus(self.in_flight, bytes);
            self.sent = plus(self.sent, bytes);
            self.last_sent = self.now;
            self.app_sent += u64::from(bytes);
            self.pacer.on_sent(self.now, bytes.into(), self.cc.pacing_rate());
        }
        self.check();
        self.out.queues_us.push(self.link.queue(self.now).as_micros());
        if let Some(arrival) = self.link.offer(self.now, bytes) {
            self.at(arrival.at, Event::Arrives { space, number, bytes, is_marked: arrival.is_marked });
        }
    }

    pub(super) fn at_loss_time(&mut self, time: Time) {
        if self.loss_at.is_none_or(|at| time < at) {
            self.loss_at = Some(time);
            self.at(time, Event::LossTimer);
        }
    }

    fn probe_timeout(&self) -> Span {
        let base = self.pto();
        Span::nanos(base.as_nanos() << self.probes.min(6))
    }

    pub(super) fn pto(&self) -> Span {
        self.srtt.map_or(Span::millis(333), |srtt| Span::nanos(2 * srtt.as_nanos()) + Span::millis(25))
    }

    fn on_probe_timer(&mut self) {
        let due = self.last_sent + self.probe_timeout();
        if self.in_flight.bytes == 0 || due > self.now {
            return;
        }
        self.probes += 1;
        self.transmit(self.space, self.mss, false);
    }

    pub(super) fn check(&self) {
        let max = |percent| Rate::bits_per_sec(self.plan.shape.rate.as_bits_per_sec() / 100 * (100 + percent));
        let truth = Truth {
            now: self.now,
            sent: self.sent,
            in_flight: self.in_flight,
            knows_packets: self.plan.signals.packets,
            min_rtt: self.plan.shape.min_rtt(),
            most_bw: self.plan.most_bw_percent.map(max),
        };
        assert!(self.in_flight.bytes < 20_000_000, "{}: a window without end", self.plan.algorithm);
        check(self.plan.algorithm, &self.cc, &truth);
    }
}
