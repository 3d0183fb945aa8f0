//! One flow in the simulator: both ends, the way between them, and what is counted of it.
//! In: events of the world. Out: segments for the first link, ACKs for the way back. Never: another flow.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{NANOS_PER_SEC, Span, State, Time};

use super::lanes::plain;
use crate::link::{AckAggregation, AckHold, DelayConfig, DelayLine};
use crate::metrics::Histogram;
use crate::setup::{FlowSetup, PathSetup};
use crate::tcp::{AckPacket, Receiver, Segment, Sender, SenderStats};

/// The hop number of a flow's own access link.
pub const ACCESS_HOP: u8 = u8::MAX;

/// The way of the ACKs: held together, then delayed.
#[derive(Clone, Debug)]
pub struct Back {
    hold: AckHold<AckPacket>,
    line: DelayLine<AckPacket>,
    mss: u32,
}

impl Back {
    /// Sends an ACK on its way.
    #[inline]
    pub fn push(&mut self, now: Time, ack: AckPacket) {
        if self.hold.is_none() || ack.syn {
            self.line.push(now, ack);
        } else {
            self.hold.push(now, ack, u64::from(ack.fresh) * u64::from(self.mss));
        }
    }

    /// When something happens next.
    #[inline]
    pub fn next(&self) -> Time {
        self.hold.next().min(self.line.next())
    }

    /// The next ACK that arrives at `now`, after moving on what was held.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<AckPacket> {
        if !self.hold.is_none() {
            while let Some((at, ack)) = self.hold.pop(now) {
                self.line.push(at, ack);
            }
        }
        self.line.pop(now).map(|(_, ack)| ack)
    }
}

/// Counters at the moment when measuring begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark {
    /// Unique payload bytes that had arrived.
    pub bytes: u64,
    /// Wire bytes that had arrived.
    pub wire_bytes: u64,
    /// Segments that had arrived twice.
    pub duplicates: u64,
    /// The sender's counters.
    pub sender: SenderStats,
    /// Arrivals and drops at the bottleneck.
    pub bottleneck: (u64, u64),
}

/// What is counted of one flow.
#[derive(Clone, Debug, Default)]
pub struct FlowStats {
    /// RTT samples in µs, while measuring.
    pub rtt: Histogram,
    /// Sum and number of |RTT(i) − RTT(i−1)|, µs.
    pub jitter: (u64, u64),
    /// RFC 3550 §6.4.1 jitter, µs.
    pub jitter_rfc3550: f64,
    /// The last RTT sample, µs.
    pub last_rtt_us: u32,
    /// Unique payload bytes received in each second.
    pub bins: Vec<u64>,
    /// Arrivals and drops of this flow at the bottleneck.
    pub bottleneck: (u64, u64),
    /// The state at each change, with the time.
    pub states: Vec<(Time, State)>,
    /// When the last byte of a sized flow arrived.
    pub finished: Option<Time>,
    /// Completion times of responses.
    pub exchanges: Vec<Span>,
    /// When the present request was sent.
    request_sent: Time,
    /// Counters when measuring began.
    pub mark: Mark,
}

/// One flow.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The sending end.
    pub sender: Sender,
    /// The receiving end.
    pub receiver: Receiver,
    /// From the last link to the receiver.
    pub forward: DelayLine<Segment>,
    /// From the receiver to the sender.
    pub back: Back,
    /// Counters.
    pub stats: FlowStats,
    /// Its SYN has left.
    pub started: bool,
    /// Links that it crosses: first and one past the last.
    pub route: (u8, u8),
    /// Index of its access link, if it has one.
    pub access: Option<usize>,
    /// The lane that it shares with others, instead of `forward` and `back`.
    pub lane: Option<usize>,
    there: Span,
    one_way: Span,
}

impl Flow {
    /// A flow that has not begun.
    pub fn new(index: usize, setup: &FlowSetup, path: &PathSetup, access: Option<usize>, seed: u64) -> Self {
        let route = (setup.links.0 as u8, setup.links.1 as u8);
        let first_hop = if access.is_some() { ACCESS_HOP } else { route.0 };
        let (there, back) = Self::split(setup, path.rtt);
        let forward = DelayConfig {
            delay: there,
            jitter: path.jitter,
            jitter_reorders: path.jitter_reorders,
            reorder: path.reorder,
            duplicate: path.duplicate,
        };
        Self {
            sender: Sender::new(index as u32, setup, first_hop, seed),
            receiver: Receiver::new(setup.mss, setup.rwnd, &setup.host),
            forward: DelayLine::new(&forward, seed ^ 0x666f_7277),
            back: Back {
                hold: AckHold::new(path.ack_aggregation),
                line: DelayLine::new(&plain(back), seed ^ 0x6261_636b),
                mss: setup.mss,
            },
            stats: FlowStats::default(),
            started: false,
            route,
            access,
            lane: None,
            there,
            one_way: back,
        }
    }

    /// Propagation there and back: half of the flow's RTT each, a nanosecond that remains on the way back.
    fn split(setup: &FlowSetup, path_rtt: Span) -> (Span, Span) {
        let rtt = setup.rtt.unwrap_or(path_rtt) + setup.access.map_or(Span::ZERO, |access| access.rtt);
        (Span::nanos(rtt.as_nanos() / 2), Span::nanos(rtt.as_nanos() - rtt.as_nanos() / 2))
    }

    /// Propagation there and back.
    pub const fn delays(&self) -> (Span, Span) {
        (self.there, self.one_way)
    }

    /// ACKs are held from now on, where none were before.
    pub fn hold_acks(&mut self, mode: AckAggregation) {
        self.back.hold = AckHold::new(mode);
    }

    /// The path's propagation delay changes.
    pub fn set_path_rtt(&mut self, setup: &FlowSetup, path_rtt: Span) {
        let (there, back) = Self::split(setup, path_rtt);
        self.there = there;
        self.forward.set_delay(there);
        self.back.line.set_delay(back);
        self.one_way = back;
    }

    /// A segment arrives at the receiver. True: with it all that was asked for is there.
    #[inline]
    pub fn on_segment(&mut self, now: Time, segment: &Segment, acks: &mut Vec<AckPacket>) -> bool {
        let before = self.receiver.bytes;
        self.receiver.on_segment(now, segment, acks);
        let fresh = self.receiver.bytes - before;
        if fresh == 0 {
            return false;
        }
        self.count_arrival(now, fresh);
        self.sender.app.is_finite() && self.stats.finished.is_none() && self.take_whole(now)
    }

    #[inline]
    fn count_arrival(&mut self, now: Time, fresh: u64) {
        // The last bin is the present second's, from the first arrival in it.
        let second = self.stats.bins.len() as u64;
        if now.as_nanos() >= second * NANOS_PER_SEC {
            self.stats.bins.resize((now.as_nanos() / NANOS_PER_SEC) as usize + 1, 0);
        }
        if let Some(bin) = self.stats.bins.last_mut() {
            *bin += fresh;
        }
    }

    /// Whether all that was asked for has arrived; then the flow is finished, or asks for more.
    #[inline(never)]
    fn take_whole(&mut self, now: Time) -> bool {
        if let Some(total) = self.sender.app.total() {
            if self.receiver.in_order_bytes >= total {
                self.stats.finished = Some(now);
                return true;
            }
        } else if let Some(exchange) = self.sender.app.exchange()
            && self.receiver.in_order_bytes >= exchange.end
        {
            self.stats.exchanges.push(now.since(self.stats.request_sent));
            match exchange.pause {
                Some(pause) => {
                    self.stats.request_sent = now + pause;
                    self.sender.app.request_at(now + pause + self.one_way);
                }
                None => self.stats.finished = Some(now),
            }
            return true;
        }
        false
    }

    /// The flow's first request was sent at its start.
    pub fn begin(&mut self, now: Time) {
        self.started = true;
        self.stats.request_sent = now;
    }

    /// Takes the RTT sample and the state that an ACK left behind.
    pub fn after_ack(&mut self, now: Time, rtt: Option<Span>, measuring: bool) {
        if let Some(rtt) = rtt {
            let rtt_us = rtt.as_micros().min(u64::from(u32::MAX)) as u32;
            if measuring {
                self.stats.rtt.add(u64::from(rtt_us));
                if self.stats.last_rtt_us != 0 {
                    let step = rtt_us.abs_diff(self.stats.last_rtt_us);
                    self.stats.jitter.0 += u64::from(step);
                    self.stats.jitter.1 += 1;
                    self.stats.jitter_rfc3550 += (f64::from(step) - self.stats.jitter_rfc3550) / 16.0;
                }
            }
            self.stats.last_rtt_us = rtt_us;
        }
        self.note_state(now);
    }

    /// Writes the state down if it has changed.
    #[inline]
    pub fn note_state(&mut self, now: Time) {
        let state = self.sender.cc.state();
        if self.stats.states.last().is_none_or(|last| last.1 != state) {
            self.stats.states.push((now, state));
        }
    }

    /// Measuring begins.
    pub fn set_mark(&mut self) {
        self.stats.mark = Mark {
            bytes: self.receiver.bytes,
            wire_bytes: self.receiver.wire_bytes,
            duplicates: self.receiver.duplicates,
            sender: self.sender.stats,
            bottleneck: self.stats.bottleneck,
        };
    }
}
