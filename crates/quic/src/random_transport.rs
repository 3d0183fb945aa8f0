//! Random event sequences for the tests of the adapters: packets sent, acknowledged, lost and discarded.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Rng;

/// Number of events per algorithm. `BBRLAB_EVENTS` overrides it.
pub fn events() -> u64 {
    std::env::var("BBRLAB_EVENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(100_000)
}

/// A packet in transit.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T> {
    pub number: u64,
    pub sent_us: u64,
    pub bytes: u32,
    #[allow(dead_code, reason = "only the test of s2n reads it")]
    pub kept: T,
}

/// Next event of a sequence.
#[derive(Debug)]
pub enum Event<T> {
    /// A packet is sent; with 0 bytes it is an ACK alone.
    Send(u32),
    /// Packets acknowledged, packets lost before them, and the number of marks.
    Ack {
        acked: Vec<Packet<T>>,
        lost: Vec<Packet<T>>,
        marks: u64,
    },
    /// Packets declared lost by a timer, and whether the path has failed.
    Lost(Vec<Packet<T>>, bool),
    /// The keys of the oldest packets are dropped.
    Discarded(Vec<Packet<T>>),
    Mtu(u16),
    /// The application had nothing to send.
    Idle,
}

/// A transport with random events, realistic only in its calls.
pub struct RandomTransport<T> {
    rng: Rng,
    pub now_us: u64,
    pub number: u64,
    pub mtu: u16,
    pub under_way: Vec<Packet<T>>,
}

impl<T: Copy> RandomTransport<T> {
    pub fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), now_us: 0, number: 0, mtu: 1_200, under_way: Vec::new() }
    }

    pub fn in_flight(&self) -> u64 {
        self.under_way.iter().map(|packet| u64::from(packet.bytes)).sum()
    }

    /// Draws the next event; the window in bytes limits transmission.
    pub fn next(&mut self, window: u64) -> Event<T> {
        self.now_us += [0, 1, 20, 400, 9_000, 3_000_000][self.rng.below(40).saturating_sub(34) as usize];
        let has_room = self.in_flight() + u64::from(self.mtu) <= window && self.under_way.len() < 500;
        match self.rng.below(100) {
            0 => Event::Mtu(self.set_mtu()),
            1 => Event::Idle,
            2 => Event::Send(0),
            3 => Event::Discarded(self.cut(3)),
            4 => {
                let lost = self.cut(20);
                Event::Lost(lost, self.rng.below(5) == 0)
            }
            5..=70 if has_room => Event::Send(match self.rng.below(4) {
                0 => 30 + self.rng.below(300) as u32,
                _ => self.mtu.into(),
            }),
            _ => {
                let lost = if self.rng.below(10) == 0 { self.cut(4) } else { Vec::new() };
                let acked = if self.rng.below(8) == 0 { self.pick() } else { self.cut(12) };
                Event::Ack { acked, lost, marks: self.rng.below(20).saturating_sub(17) }
            }
        }
    }

    pub fn sent(&mut self, bytes: u32, kept: T) {
        self.under_way.push(Packet { number: self.number, sent_us: self.now_us, bytes, kept });
        self.number += 1;
    }

    fn set_mtu(&mut self) -> u16 {
        self.mtu = 1_200 + self.rng.below(400) as u16;
        self.mtu
    }

    /// Removes some of the oldest packets.
    fn cut(&mut self, max: u64) -> Vec<Packet<T>> {
        let count = (self.rng.below(max + 1) as usize).min(self.under_way.len());
        self.under_way.drain(..count).collect()
    }

    /// Removes one packet at any position.
    fn pick(&mut self) -> Vec<Packet<T>> {
        if self.under_way.is_empty() {
            return Vec::new();
        }
        let at = self.rng.below(self.under_way.len() as u64) as usize;
        vec![self.under_way.remove(at)]
    }
}
