//! One flow in the simulator: both ends, and what is counted of it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{NANOS_PER_SEC, Span, State, Time};

use crate::metrics::Histogram;
use crate::setup::FlowSetup;
use crate::tcp::{AckPacket, Receiver, Segment, Sender, SenderStats};

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
    /// Counters.
    pub stats: FlowStats,
    /// Its SYN has left.
    pub started: bool,
    /// Propagation of its ACKs, and so of a request.
    pub ack_delay: Span,
}

impl Flow {
    /// A flow that has not begun.
    pub fn new(index: usize, setup: &FlowSetup, ack_delay: Span, seed: u64) -> Self {
        Self {
            sender: Sender::new(index as u32, setup, seed),
            receiver: Receiver::new(setup.mss, setup.rwnd, setup.reads_at_once(), &setup.host),
            stats: FlowStats::default(),
            started: false,
            ack_delay,
        }
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
                    self.sender.app.request_at(now + pause + self.ack_delay);
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
