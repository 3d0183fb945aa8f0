//! Tracks packets in flight with the patched trait, which reports each packet with its number.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;
use std::time::Instant;

use bbrlab_core::{Loss, PacketToken, Sent, Span};
use quinn_proto::congestion::{PacketId, PacketInfo};

use super::Flow;

/// Time after which an acknowledgement of a lost packet is no longer expected. Ours: ten times the longest probe timeout of a
/// satellite path.
const FORGOTTEN: Span = Span::secs(60);

/// Packets in order of transmission. The lost ones are kept in case that they are acknowledged after all.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) sent: VecDeque<Packet>,
    lost: VecDeque<Packet>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    id: PacketId,
    sent: Instant,
    token: PacketToken,
    /// True once acknowledged, lost or discarded.
    is_done: bool,
}

/// Takes the packet out of the list, which is in order of transmission.
#[inline]
fn take(packets: &mut VecDeque<Packet>, info: &PacketInfo) -> Option<Packet> {
    let first = match packets.front() {
        Some(packet) if packet.id == info.id => 0, // usually it is the oldest
        _ => packets.partition_point(|packet| packet.sent < info.sent),
    };
    let packet = packets
        .range_mut(first..)
        .take_while(|packet| packet.sent == info.sent)
        .find(|packet| packet.id == info.id && !packet.is_done)?;
    packet.is_done = true;
    let taken = *packet;
    while packets.front().is_some_and(|packet| packet.is_done) {
        packets.pop_front();
    }
    Some(taken)
}

impl Flow {
    pub(super) fn on_sent(&mut self, now: Instant, info: &PacketInfo) {
        self.end_ack();
        let at = self.at(now);
        let token = self.cc.on_sent(at, &Sent::packet(info.bytes.into()));
        self.ledger.sent.push_back(Packet { id: info.id, sent: info.sent, token, is_done: false });
    }

    pub(super) fn on_acked(&mut self, now: Instant, info: &PacketInfo) {
        if let Some(packet) = take(&mut self.ledger.sent, info) {
            self.batch(now).delivered(&packet.token, info.id.number());
        }
    }

    pub(super) fn on_spurious(&mut self, now: Instant, info: &PacketInfo) {
        if let Some(packet) = take(&mut self.ledger.lost, info) {
            self.batch(now).delivered_late(&packet.token, info.id.number());
        }
    }

    pub(super) fn on_lost(&mut self, now: Instant, info: &PacketInfo) {
        let now = self.at_loss(now);
        if let Some(packet) = take(&mut self.ledger.sent, info) {
            self.cc.on_lost(now, &Loss::packet(&packet.token, info.id.number()));
            self.keep_lost(Packet { is_done: false, ..packet });
        }
    }

    /// Keeps a lost packet in the order of transmission; losses of two packet-number spaces may be reported out of that order.
    fn keep_lost(&mut self, packet: Packet) {
        let lost = &mut self.ledger.lost;
        while lost.front().is_some_and(|old| self.now.since(old.token.send_time()) > FORGOTTEN) {
            lost.pop_front();
        }
        let place = match lost.back() {
            Some(last) if last.sent > packet.sent => lost.partition_point(|old| old.sent <= packet.sent),
            _ => lost.len(),
        };
        lost.insert(place, packet);
    }

    pub(super) fn on_discarded(&mut self, info: &PacketInfo) {
        if let Some(packet) = take(&mut self.ledger.sent, info) {
            self.end_ack();
            self.cc.on_discarded(&packet.token);
        }
    }

    /// Does nothing: each packet has been reported.
    pub(super) const fn settle(&self, _in_flight: u64) {}
}
