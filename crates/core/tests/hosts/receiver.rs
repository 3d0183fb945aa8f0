//! The receiver: the time and content of its ACKs. ACKs are not lost.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, Time};

/// Content of an ACK.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    pub space: usize,
    /// Packets that arrived since the last ACK, in the order of arrival.
    pub numbers: Vec<u64>,
    /// Number of packets that have arrived with a mark so far.
    pub marks: u64,
}

/// The receiver of one packet-number space.
#[derive(Debug)]
pub struct Receiver {
    /// Number of packets per ACK.
    pub every: u32,
    /// Longest delay of an ACK after the first of them.
    pub max_delay: Span,
    space: usize,
    numbers: Vec<u64>,
    eliciting: u32,
    due: Option<Time>,
    next: u64,
    marks: u64,
}

impl Receiver {
    pub fn new(space: usize, every: u32, max_delay: Span) -> Self {
        Self { every, max_delay, space, numbers: Vec::new(), eliciting: 0, due: None, next: 0, marks: 0 }
    }

    /// Handles the arrival of a packet; returns the time of the receiver's next ACK, if nothing else happens.
    pub fn on_packet(&mut self, now: Time, number: u64, elicits: bool, is_marked: bool) -> Option<Time> {
        self.numbers.push(number);
        self.marks += u64::from(is_marked);
        let in_order = number == self.next;
        self.next = self.next.max(number + 1);
        if elicits {
            self.eliciting += 1;
            self.due.get_or_insert(now + self.max_delay);
            if self.eliciting >= self.every || !in_order {
                self.due = Some(now);
            }
        }
        self.due
    }

    /// Returns the ACK that is due.
    pub fn ack(&mut self, now: Time) -> Option<Frame> {
        if self.due.is_none_or(|due| due > now) {
            return None;
        }
        self.due = None;
        self.eliciting = 0;
        Some(Frame { space: self.space, numbers: std::mem::take(&mut self.numbers), marks: self.marks })
    }
}
