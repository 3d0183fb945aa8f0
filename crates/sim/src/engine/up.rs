//! The link of the reverse direction, shared by ACKs, the probe's echoes and the data of uploads, whose ACKs cross the links of
//! the downloads' data.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

use bbrlab_core::Time;

use super::flow::Flow;
use super::observers::observer;
use super::{LossObserver, Simulation, observe};
use crate::link::{Link, Verdict};
use crate::metrics::QueueDelay;
use crate::path::{PathObserver, SojournTime};
use crate::record::result::UpLink;
use crate::record::summary::{LinkBaseline, up_link};
use crate::setup::Setup;
use crate::tcp::{AckPacket, Segment};

/// State of the reverse direction's link in a run: its statistics, and the uploads' ACKs in transit.
pub(super) struct Up {
    queue_delay: QueueDelay,
    mark: LinkBaseline,
    measured: (Time, Time),
    /// ACKs of each upload, on their way over the links of the downloads' data.
    acks: Vec<AcksInTransit>,
}

/// One flow's ACKs on a path that carries their numbers.
#[derive(Default)]
struct AcksInTransit {
    /// Number of the first.
    first: u64,
    acks: VecDeque<AckPacket>,
}

impl AcksInTransit {
    /// Puts an ACK on the path. Returns its number.
    fn push(&mut self, ack: AckPacket) -> u64 {
        self.acks.push_back(ack);
        self.first + self.acks.len() as u64 - 1
    }

    /// Takes the ACK with this number, and forgets those before it. `None` if a later one has arrived: an ACK that is late says
    /// nothing new.
    fn take(&mut self, number: u64) -> Option<AckPacket> {
        let past = number.checked_sub(self.first)? as usize;
        if past >= self.acks.len() {
            return None;
        }
        self.first = number + 1;
        self.acks.drain(..=past).next_back()
    }
}

impl Up {
    /// Prepares a run whose setup has this link.
    pub fn new(setup: &Setup) -> Option<Box<Self>> {
        setup.up.as_ref()?;
        Some(Box::new(Self {
            queue_delay: QueueDelay::starting_at(setup.warmup),
            mark: LinkBaseline::default(),
            measured: (setup.warmup, setup.duration),
            acks: setup.flows.iter().map(|_| AcksInTransit::default()).collect(),
        }))
    }

    /// Starts the measurement.
    pub fn set_mark(&mut self, link: &Link<AckPacket>, now: Time) {
        self.mark = LinkBaseline::of(link, now);
    }

    /// Figures of a run that ended at `now`.
    pub fn figures(&self, link: &Link<AckPacket>, now: Time) -> UpLink {
        let filtered = link.stats().filtered - self.mark.stats.filtered;
        up_link(&self.mark.counts(link, &self.queue_delay, now), filtered)
    }
}

/// Path observer of this link. Drops count for the flow whose data they are.
struct UpObserver<'w> {
    flows: &'w mut [Flow],
    up: &'w mut Up,
    lost: &'w mut bool,
}

impl PathObserver<AckPacket> for UpObserver<'_> {
    fn on_offered(&mut self, _now: Time, packet: &AckPacket, verdict: Verdict, _is_bottleneck: bool) {
        *self.lost |= verdict != Verdict::Queued;
        if packet.is_data
            && let Some(flow) = self.flows.get_mut(packet.flow as usize)
        {
            let counts = &mut flow.stats.bottleneck;
            counts.0 += 1;
            counts.1 += u64::from(verdict != Verdict::Queued);
        }
    }

    fn on_dropped_later(&mut self, flow: u32, _is_bottleneck: bool) {
        // The flow alone is reported; a download's ACK is no loss of its data.
        if let Some(flow) = self.flows.get_mut(flow as usize).filter(|flow| flow.is_upload) {
            flow.stats.bottleneck.1 += 1;
        }
    }

    fn on_departed(&mut self, at: Time, _: &mut AckPacket, stayed: SojournTime, _lost: bool, _is_bottleneck: bool) {
        if at > self.up.measured.0 && at <= self.up.measured.1 {
            self.up.queue_delay.on_left(at, stayed.waited, stayed.service);
        }
    }

    fn on_lost(&mut self, packet: &AckPacket) {
        LossObserver(self.lost).on_lost(packet);
    }
}

impl Simulation<'_> {
    /// Offers a packet to the link at `at`. Returns false if it is dropped on arrival.
    fn put_on_up(&mut self, at: Time, packet: AckPacket) -> bool {
        let mut lost = false;
        let Some(up) = &mut self.up else { return false };
        let observer = &mut UpObserver { flows: &mut self.flows, up, lost: &mut lost };
        self.path.reverse.offer(at, packet, None, observer);
        !lost
    }

    /// Offers an upload's segments in `out` from place `from` on.
    #[cold]
    pub(super) fn offer_up(&mut self, _index: usize, from: usize) {
        for place in from..self.out.len() {
            let segment = self.out[place];
            self.put_on_up(self.now, AckPacket::of_data(&segment));
        }
    }

    /// Sends the ACKs that a receiver wrote at `at`: a download's over the link, an upload's over the others.
    #[cold]
    pub(super) fn send_acks_over_links(&mut self, at: Time, index: usize) {
        let is_upload = self.flows[index].is_upload;
        for ack in std::mem::take(&mut self.acks) {
            let ack = ack.of(index);
            let is_sent = if is_upload { self.put_on_links(at, ack) } else { self.put_on_up(at, ack) };
            if let Some(capture) = &mut self.capture {
                capture.on_ack_sent(at, index, &ack, !is_sent);
            }
        }
    }

    /// Offers an upload's ACK to the links of the downloads' data.
    fn put_on_links(&mut self, at: Time, ack: AckPacket) -> bool {
        let Some(up) = &mut self.up else { return false };
        let number = up.acks[ack.flow as usize].push(ack);
        self.path.forward.offer(at, Segment::of_ack(&ack, number, at), None, observer!(self));
        true
    }

    /// Takes an upload's ACK or request that has arrived.
    #[cold]
    pub(super) fn take_ack_from_link(&mut self, segment: &Segment) {
        let Some(up) = &mut self.up else { return };
        if let Some(ack) = up.acks[segment.flow as usize].take(segment.ack_number()) {
            self.take_answer(&ack);
            self.after_acks(ack.flow);
        }
    }

    /// Sends the requests of a flow's client that are due.
    #[cold]
    pub(super) fn send_requests(&mut self, index: usize) {
        for number in self.flows[index].sender.app.take_requests() {
            let request = AckPacket::of_request(number, index, &self.setup.flows[index].host);
            if self.flows[index].is_upload {
                self.put_on_links(self.now, request);
            } else {
                self.put_on_up(self.now, request);
            }
        }
    }

    /// Delivers a packet of a flow's client to its sender: an ACK, or a request.
    fn take_answer(&mut self, packet: &AckPacket) {
        let index = packet.flow as usize;
        if !packet.is_request {
            return self.take_ack(index, packet);
        }
        // Segments due at this moment leave first, as before an ACK.
        if self.flows[index].sender.next_time() <= self.now {
            self.on_sender(index);
        }
        let before = self.out.len();
        let flow = &mut self.flows[index];
        flow.on_request(self.now, packet.una, &mut self.out);
        observe::sent(&mut self.observer, self.now, index, &flow.sender, &self.out[before..]);
        if self.director.is_some() {
            self.direct(index, self.out.len() - before, false);
        }
    }

    /// Moves a packet on the reverse path: an upload's data to its receiver, an echo to the probe, ACKs to their sender.
    #[cold]
    pub(super) fn on_up(&mut self) {
        let mut lost = false;
        let Some(up) = &mut self.up else { return };
        let observer = &mut UpObserver { flows: &mut self.flows, up, lost: &mut lost };
        let Some((_, packet)) = self.path.reverse.poll(observer) else { return };
        if packet.flow as usize == self.control {
            if let Some(prober) = &mut self.prober {
                prober.on_echo(self.now, &packet.data());
            }
        } else if packet.is_data {
            self.receive(&packet.data());
        } else {
            self.take_answer(&packet);
            while let Some(packet) = self.path.reverse.poll_flow(self.now, packet.flow) {
                self.take_answer(&packet);
            }
            self.after_acks(packet.flow);
        }
    }

    /// Sends a probe's echo, which is as long as the probe.
    #[cold]
    pub(super) fn echo_up(&mut self, probe: &Segment) {
        self.put_on_up(self.now, AckPacket::of_data(probe));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acks_are_taken_by_number_and_late_ones_are_dropped() {
        let mut path = AcksInTransit::default();
        let ack = |una| AckPacket { una, ..AckPacket::default() };
        for una in 0..4 {
            assert_eq!(path.push(ack(una)), una);
        }
        assert_eq!(path.take(1).map(|ack| ack.una), Some(1));
        assert_eq!((path.take(0), path.take(1)), (None, None));
        assert_eq!(path.push(ack(4)), 4);
        assert_eq!(path.take(4).map(|ack| ack.una), Some(4));
        assert_eq!((path.take(3), path.take(9)), (None, None));
        assert!(path.acks.is_empty());
    }
}
