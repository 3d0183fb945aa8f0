//! The path: one bottleneck with a drop-tail buffer in bytes, random loss, reordering and marks; the reverse path is pure delay.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Rate, RememberedPath, Rng, Span, Time};

/// Properties of the path.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub rate: Rate,
    /// Delay of each direction.
    pub delay: Span,
    pub buffer: u64,
    /// Packets lost at random, per million.
    pub loss_ppm: u64,
    /// Packets that arrive late, per million, and by how much.
    pub reorder_ppm: u64,
    pub reorder_by: Span,
    /// Packets are marked while more bytes than this are queued.
    pub mark_above: Option<u64>,
    /// Largest packet that is not dropped.
    pub mtu: u32,
}

impl Shape {
    /// 20 Mbit/s, 40 ms, a buffer of one BDP, and nothing else.
    pub const CLEAN: Self = Self {
        rate: Rate::bits_per_sec(20_000_000),
        delay: Span::millis(20),
        buffer: 100_000,
        loss_ppm: 0,
        reorder_ppm: 0,
        reorder_by: Span::ZERO,
        mark_above: None,
        mtu: 1_450,
    };

    /// The smallest possible RTT of a packet.
    pub const fn min_rtt(&self) -> Span {
        Span::nanos(2 * self.delay.as_nanos())
    }

    /// Path properties as a host would have stored them.
    pub const fn remembered(&self) -> RememberedPath {
        RememberedPath::new(self.rate, self.min_rtt())
    }
}

/// Time at which a packet arrives, and true if it carries a mark.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub at: Time,
    pub is_marked: bool,
}

/// The bottleneck. The same seed gives each packet the same fate.
#[derive(Debug)]
pub struct Link {
    pub shape: Shape,
    /// True while nothing arrives.
    pub is_dark: bool,
    rng: Rng,
    /// Time at which the last byte of the queue will have left.
    free: Time,
}

impl Link {
    pub fn new(shape: Shape, seed: u64) -> Self {
        Self { shape, is_dark: false, rng: Rng::new(seed), free: Time::ZERO }
    }

    /// Queueing delay of a packet that arrives now.
    pub fn queue(&self, now: Time) -> Span {
        self.free.since(now)
    }

    /// Sends a packet; returns its arrival at the other end, or `None`.
    pub fn offer(&mut self, now: Time, bytes: u32) -> Option<Arrival> {
        let queued = self.shape.rate.bytes_in(self.queue(now));
        let (is_lost, is_late) = (self.draw(self.shape.loss_ppm), self.draw(self.shape.reorder_ppm));
        if self.is_dark || is_lost || bytes > self.shape.mtu || queued + u64::from(bytes) > self.shape.buffer {
            return None;
        }
        self.free = self.free.max(now) + self.shape.rate.time_for(bytes.into());
        let late = if is_late { self.shape.reorder_by } else { Span::ZERO };
        let is_marked = self.shape.mark_above.is_some_and(|max| queued > max);
        Some(Arrival { at: self.free + self.shape.delay + late, is_marked })
    }

    fn draw(&mut self, ppm: u64) -> bool {
        ppm > 0 && self.rng.below(1_000_000) < ppm
    }
}
