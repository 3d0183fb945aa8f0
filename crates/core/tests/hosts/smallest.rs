//! The smallest host: it has bytes, and the newest packet of each ACK. It paces, but does not report its pacing.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::app::{App, Next};
use super::check::{Truth, check};
use super::link::{Link, Shape};
use bbrlab_core::{
    AckInfo, AlgorithmConfig, Controller, Flight, Init, Loss, Pacer, PacketToken, Rate, Sent, Span, Time,
};
use std::collections::{BTreeMap, VecDeque};

/// A run of the smallest host.
#[derive(Debug)]
pub struct Smallest {
    pub cc: Controller,
    pub name: &'static str,
    pub now: Time,
    pub arrived: u64,
    pub lost: u64,
    pub queues_us: Vec<u64>,
    pub app: App,
    pub size: u32,
    /// True if it reports when the application is the limit.
    pub tells_app_limits: bool,
    /// True if it follows the pacing rate.
    pub paces: bool,
    pub most_bw: Option<Rate>,
    link: Link,
    pacer: Pacer,
    /// Packets that are neither acknowledged nor lost, in the order of sending.
    packets: VecDeque<(u64, u32, PacketToken)>,
    /// Packet numbers by the arrival time of their ACK.
    acks: BTreeMap<(Time, u64), u64>,
    next: u64,
    sent: Flight,
    app_sent: u64,
}

impl Smallest {
    pub fn new(name: &'static str, shape: Shape, app: App) -> Self {
        let config = AlgorithmConfig::named(name).expect("a listed algorithm");
        Self {
            cc: Controller::new(&config, &Init::new(Time::ZERO).with_mss(1_200).with_seed(1)),
            name,
            now: Time::ZERO,
            arrived: 0,
            lost: 0,
            queues_us: Vec::new(),
            app,
            size: 1_200,
            tells_app_limits: true,
            paces: true,
            most_bw: None,
            link: Link::new(shape, 6),
            pacer: Pacer::new(Time::ZERO),
            packets: VecDeque::new(),
            acks: BTreeMap::new(),
            next: 0,
            sent: Flight::NONE,
            app_sent: 0,
        }
    }

    /// Reseeds the link, so that packets have a different fate.
    pub fn seed(&mut self, seed: u64) {
        self.link = Link::new(self.link.shape, seed);
    }

    pub fn run(mut self, span: Span) -> Self {
        let end = Time::ZERO + span;
        while self.now < end {
            let wake = self.send();
            let ack = self.acks.first_key_value().map(|(key, _)| key.0);
            // Without either, everything is lost: a time-out.
            let next = ack.into_iter().chain(wake).min().unwrap_or_else(|| self.time_out());
            self.now = next.min(end);
            while let Some(entry) = self.acks.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let number = entry.remove();
                self.on_ack(number);
            }
        }
        self
    }

    /// Sends what it may; returns the time at which it may send more.
    fn send(&mut self) -> Option<Time> {
        while self.in_flight() == 0 || self.in_flight() + u64::from(self.size) <= self.cc.cwnd_bytes() {
            if self.paces && self.cc.needs_pacing() && !self.pacer.may_send(self.now) {
                return Some(self.pacer.next_send_time());
            }
            match self.app.next(self.now, self.app_sent, self.size) {
                Next::Packet(bytes) => self.transmit(bytes),
                Next::Nothing(until) => {
                    if self.tells_app_limits {
                        self.cc.on_app_limited(None);
                        self.check();
                    }
                    return Some(until);
                }
            }
        }
        None
    }

    fn transmit(&mut self, bytes: u32) {
        let token = self.cc.on_sent(self.now, &Sent::packet(bytes));
        self.pacer.on_sent(self.now, bytes.into(), self.cc.pacing_rate());
        self.sent = Flight { bytes: self.sent.bytes + u64::from(bytes), packets: self.sent.packets + 1 };
        self.app_sent += u64::from(bytes);
        self.packets.push_back((self.next, bytes, token));
        self.check();
        self.queues_us.push(self.link.queue(self.now).as_micros());
        if let Some(arrival) = self.link.offer(self.now, bytes) {
            self.acks.insert((arrival.at + self.link.shape.delay, self.next), self.next);
        }
        self.next += 1;
    }

    /// Handles an ACK; the receiver acknowledges each packet by itself.
    fn on_ack(&mut self, number: u64) {
        let mut batch = self.cc.begin_ack(self.now);
        if let Ok(at) = self.packets.binary_search_by_key(&number, |packet| packet.0) {
            let (_, bytes, token) = self.packets.remove(at).expect("it was just found there");
            self.arrived += u64::from(bytes);
            batch.delivered_bytes(bytes.into(), &token);
        }
        let open = self.cc.on_delivered(batch);
        self.check();
        while self.packets.front().is_some_and(|packet| packet.0 + 3 <= number) {
            self.lose_first();
        }
        self.cc.on_ack(open, &AckInfo::NONE);
        self.check();
    }

    fn lose_first(&mut self) {
        if let Some((_, bytes, token)) = self.packets.pop_front() {
            self.lost += 1;
            self.app_sent -= u64::from(bytes);
            self.cc.on_lost(self.now, &Loss::packet(&token, 0));
            self.check();
        }
    }

    /// Marks everything lost after a second without an event.
    fn time_out(&mut self) -> Time {
        self.now += Span::secs(1);
        while !self.packets.is_empty() {
            self.lose_first();
        }
        self.now
    }

    fn in_flight(&self) -> u64 {
        self.packets.iter().map(|packet| u64::from(packet.1)).sum()
    }

    fn check(&self) {
        let truth = Truth {
            now: self.now,
            sent: self.sent,
            in_flight: Flight { bytes: self.in_flight(), packets: self.packets.len() as u32 },
            // The controller assumes packets of equal size, and these are.
            knows_packets: matches!(self.app, App::Bulk),
            min_rtt: self.link.shape.min_rtt(),
            most_bw: self.most_bw,
        };
        check(self.name, &self.cc, &truth);
    }
}
