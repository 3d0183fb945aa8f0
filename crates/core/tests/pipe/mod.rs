//! A toy transport over a toy link, for tests of whole controllers.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![allow(dead_code, reason = "each test crate uses a part of it")]

use bbrlab_core::{AckInfo, AckRtt, AlgorithmConfig, Controller, Init, PacketToken, Sent, Span, Time};

pub const MSS: u32 = 1448;
/// Every algorithm that models its path, except bbr-s-p85: its hundred samples are ten milliseconds of this pipe.
#[cfg(feature = "variants")]
pub const BBRS: [&str; 13] = [
    "bbr1",
    "bbr2-ietf100",
    "bbr2",
    "bbr3",
    "bbr3-linux",
    "bbr-lab",
    "bbr-cpa",
    "acd-linux",
    "acd-ns3",
    "acd-once",
    "bbr-s",
    "bbr-s-kalman",
    "bbr-apg",
];
/// Every algorithm that models its path.
#[cfg(not(feature = "variants"))]
pub const BBRS: [&str; 6] = ["bbr1", "bbr2-ietf100", "bbr2", "bbr3", "bbr3-linux", "bbr-lab"];

/// Algorithms whose estimate is the delivered rate. By design, bbr-s-kalman infers more if the sender's own rate was the limit.
pub fn measuring() -> impl Iterator<Item = &'static str> {
    BBRS.into_iter().filter(|name| *name != "bbr-s-kalman")
}

pub fn controller(name: &str, srtt: Option<Span>) -> Controller {
    let config = AlgorithmConfig::named(name).expect("a listed algorithm");
    let mut init = Init::new(Time::ZERO).with_mss(MSS).with_seed(1);
    init.srtt = srtt;
    Controller::new(&config, &init)
}

/// Sends a full packet.
pub fn send(cc: &mut Controller, now: Time) -> PacketToken {
    cc.on_sent(now, &Sent::packet(MSS))
}

/// ACK information reported by the hosts of these tests: this RTT, and that the window was the limit.
pub fn info(rtt: Option<Span>) -> AckInfo {
    let mut info = AckInfo::NONE.with_cwnd_limited(true);
    info.rtt = AckRtt::Measured { newest: rtt, oldest: rtt };
    info
}

/// Feeds an ACK that delivers this packet.
pub fn ack(cc: &mut Controller, now: Time, token: &PacketToken, number: u64, info: &AckInfo) {
    let mut batch = cc.begin_ack(now);
    batch.delivered(token, number);
    let open = cc.on_delivered(batch);
    cc.on_ack(open, info);
}

/// A pipe of 40 ms and, by default, ten packets per millisecond, with an unlimited buffer.
pub struct Pipe {
    pub cc: Controller,
    pub now_us: u64,
    /// Serialisation time of a packet.
    pub packet_us: u64,
    /// RTT without a queue.
    pub rtt_us: u64,
    /// The newest RTT.
    pub last_rtt_us: u64,
    pub in_flight: Vec<(u64, PacketToken)>,
    free_us: u64,
    next: u64,
    is_held_back: bool,
}

impl Pipe {
    pub fn new(cc: Controller) -> Self {
        Self {
            cc,
            now_us: 0,
            packet_us: 100,
            rtt_us: 40_000,
            last_rtt_us: 0,
            in_flight: Vec::new(),
            free_us: 0,
            next: 0,
            is_held_back: false,
        }
    }

    /// The pacing rate in bit/s; 0 without one.
    #[allow(dead_code, reason = "not every test that shares this file reads it")]
    pub fn pacing_bps(&self) -> u64 {
        self.cc.pacing_rate().map_or(0, |rate| rate.as_bits_per_sec())
    }

    /// Runs for `us` with at most `limit` packets in flight because the receiver's window is that small: no bubble, nothing to mark.
    pub fn run_held_back(&mut self, us: u64, limit: u32) {
        self.is_held_back = true;
        self.run(us, limit);
        self.is_held_back = false;
    }

    /// Runs for `us` with at most `limit` packets in flight, as for an application with little data.
    pub fn run(&mut self, us: u64, limit: u32) {
        let end = self.now_us + us;
        let mut may_send_us = self.now_us;
        while self.now_us < end {
            while self.out() < self.cc.cwnd().min(limit) && may_send_us <= self.now_us {
                let token = send(&mut self.cc, Time::micros(self.now_us));
                self.free_us = self.free_us.max(self.now_us) + self.packet_us;
                self.in_flight.push((self.free_us + self.rtt_us, token));
                may_send_us = may_send_us.max(self.now_us)
                    + self.cc.pacing_rate().map_or(0, |rate| rate.time_for(MSS.into()).as_micros());
                self.next += 1;
            }
            if self.out() == limit && limit < self.cc.cwnd() && !self.is_held_back {
                self.cc.on_app_limited(None);
            }
            while self.in_flight.first().is_some_and(|packet| packet.0 <= self.now_us) {
                self.deliver_first();
            }
            self.now_us += 25;
        }
    }

    fn deliver_first(&mut self) {
        let (_, token) = self.in_flight.remove(0);
        let now = Time::micros(self.now_us);
        self.last_rtt_us = now.since(token.send_time()).as_micros();
        ack(&mut self.cc, now, &token, self.next, &info(Some(now.since(token.send_time()))));
    }

    fn out(&self) -> u32 {
        self.in_flight.len() as u32
    }

    pub fn packets_per_s(&self) -> u64 {
        self.cc.snapshot().bw.as_bytes_per_sec() / u64::from(MSS)
    }
}
