//! Places of packets: derived from their events, with a bounded number of notes for what a page draws once.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

use bbrlab_core::Time;
use bbrlab_sim::engine::watch::{PacketEvent, Stage};
use bbrlab_sim::tcp::mark;

/// Notes kept between two frames; older ones are left out. Ours: more than a page can show.
const NOTES_MAX: usize = 400;

/// Place of a packet, by the numbers that the page has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Queue = 0,
    Forward = 1,
    Reverse = 2,
}

/// A packet at its place, since `since`.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub seq: u64,
    pub sent: Time,
    pub since: Time,
    pub marks: u8,
}

/// Packets of one flow, in the order in which they came to each place.
#[derive(Clone, Debug, Default)]
pub struct FlowPackets {
    pub queue: VecDeque<Packet>,
    pub forward: VecDeque<Packet>,
    pub reverse: VecDeque<Packet>,
}

/// Packets of all flows.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    pub flows: Vec<FlowPackets>,
    /// Events for the page: drops, losses, and ACKs that arrived.
    pub notes: VecDeque<PacketEvent>,
}

impl Tracker {
    pub fn new(flows: usize) -> Self {
        Self { flows: vec![FlowPackets::default(); flows], notes: VecDeque::new() }
    }

    /// Moves packets by their events.
    pub fn follow(&mut self, events: &[PacketEvent]) {
        events.iter().for_each(|event| self.on_event(event));
    }

    fn on_event(&mut self, event: &PacketEvent) {
        let Some(flow) = self.flows.get_mut(event.flow as usize) else { return };
        let packet = Packet { seq: event.seq, sent: event.sent, since: event.at, marks: event.marks };
        match event.stage {
            Stage::Sent => return,
            Stage::Queued => flow.queue.push_back(packet),
            Stage::Departed => {
                take(&mut flow.queue, &packet);
                flow.forward.push_back(packet);
            }
            Stage::Arrived => take(&mut flow.forward, &packet),
            Stage::AckSent => flow.reverse.push_back(packet),
            Stage::Refused => take(&mut flow.queue, &packet),
            // Every queue drops the oldest packet of a flow.
            Stage::DroppedLater => drop(flow.queue.pop_front()),
            Stage::Lost => drop(flow.forward.pop_back()),
            Stage::AckLost => drop(flow.reverse.pop_back()),
            Stage::AckArrived => take(&mut flow.reverse, &packet),
        }
        let is_noted = matches!(
            event.stage,
            Stage::Refused | Stage::DroppedLater | Stage::Lost | Stage::AckLost | Stage::AckArrived
        );
        if is_noted {
            if self.notes.len() == NOTES_MAX {
                self.notes.pop_front();
            }
            self.notes.push_back(*event);
        }
    }
}

/// Removes a packet, which is near the front unless a path reorders.
fn take(place: &mut VecDeque<Packet>, packet: &Packet) {
    let is_same = |known: &Packet| {
        known.seq == packet.seq && known.sent == packet.sent && (known.marks ^ packet.marks) & mark::RETRANSMIT == 0
    };
    if let Some(index) = place.iter().position(is_same) {
        place.remove(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(stage: Stage, seq: u64) -> PacketEvent {
        PacketEvent { at: Time::nanos(seq), flow: 0, stage, seq, sent: Time::ZERO, marks: 0 }
    }

    #[test]
    fn a_packet_is_at_one_place() {
        let mut tracker = Tracker::new(1);
        tracker.follow(&[event(Stage::Queued, 1), event(Stage::Queued, 2), event(Stage::Refused, 2)]);
        tracker.follow(&[event(Stage::Departed, 1)]);
        let flow = &tracker.flows[0];
        assert_eq!((flow.queue.len(), flow.forward.len(), tracker.notes.len()), (0, 1, 1));
        tracker.follow(&[event(Stage::Arrived, 1), event(Stage::AckSent, 2), event(Stage::AckArrived, 2)]);
        let flow = &tracker.flows[0];
        assert_eq!((flow.forward.len(), flow.reverse.len(), tracker.notes.len()), (0, 0, 2));
    }
}
