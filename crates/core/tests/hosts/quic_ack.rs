//! ACK processing of the QUIC-shaped host: deliveries, losses, marks, and then the ACK's end, in the draft's order.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::check::minus;
use super::loss::{detect, is_persistent, time_threshold};
use super::quic::{Packet, Quic};
use super::receiver::Frame;
use bbrlab_core::{AckBatch, AckInfo, AckRtt, Loss, PacketToken, Span};

/// Send times of the packets that an ACK of this path newly acknowledges.
#[derive(Default)]
struct Acked {
    newest: Option<Packet>,
    oldest: Option<Packet>,
}

impl Quic {
    pub(super) fn on_frame(&mut self, frame: &Frame) {
        let mut batch = self.cc.begin_ack(self.now);
        let mut acked = Acked::default();
        let mut new_mss = None;
        let mut bytes = 0;
        for number in &frame.numbers {
            let key = (frame.space, *number);
            if let Some(packet) = self.packets.remove(&key) {
                bytes += self.acknowledge(&mut batch, &mut acked, &packet, *number);
                new_mss = new_mss.or(packet.is_mtu_probe.then_some(packet.bytes));
            } else if let Some(packet) = self.lost.remove(&key) {
                self.out.spurious += 1;
                if self.plan.signals.late {
                    batch.delivered_late(&packet.token, *number);
                }
            }
            let largest = &mut self.largest_acked[frame.space];
            *largest = (*largest).max(Some(*number));
        }
        if !self.plan.signals.packets {
            batch = self.cc.begin_ack(self.now);
            let newest = acked.newest.map_or(PacketToken::default(), |packet| packet.token);
            batch.delivered_bytes(bytes, &newest);
        }
        let open = self.cc.on_delivered(batch);
        self.check();
        let info = self.ack_info(&acked);
        let mut open = Some(open);
        if !self.plan.signals.losses_first {
            open.take().into_iter().for_each(|open| self.cc.on_ack(open, &info));
        }
        self.find_losses(false);
        self.take_marks(frame);
        self.acked_until = self.acked_until.max(acked.newest.map(|packet| packet.sent));
        open.take().into_iter().for_each(|open| self.cc.on_ack(open, &info));
        self.check();
        self.probes = 0;
        if let Some(mss) = new_mss {
            self.mss = mss;
            self.cc.on_mss(mss);
            self.check();
        }
        self.advance_handshake(frame.space);
    }

    /// Removes a packet from those in flight, and adds it to the batch.
    fn acknowledge(&mut self, batch: &mut AckBatch, acked: &mut Acked, packet: &Packet, number: u64) -> u64 {
        if self.plan.signals.packets {
            batch.delivered(&packet.token, number);
        }
        if packet.path != self.path || packet.bytes == 0 {
            return 0;
        }
        self.in_flight = minus(self.in_flight, packet.bytes);
        if acked.newest.is_none_or(|newest| newest.sent <= packet.sent) {
            acked.newest = Some(*packet);
        }
        if acked.oldest.is_none_or(|oldest| packet.sent < oldest.sent) {
            acked.oldest = Some(*packet);
        }
        packet.bytes.into()
    }

    fn ack_info(&mut self, acked: &Acked) -> AckInfo {
        let mut info = AckInfo::NONE;
        if self.plan.signals.edt {
            info = info.with_edt(self.pacer.next_send_time());
        }
        let (Some(newest), Some(oldest)) = (acked.newest, acked.oldest) else {
            info.rtt = AckRtt::None;
            return info;
        };
        let rtt = self.now.since(newest.sent);
        self.latest_rtt = rtt;
        self.srtt = Some(self.srtt.map_or(rtt, |srtt| Span::nanos(srtt.as_nanos() / 8 * 7 + rtt.as_nanos() / 8)));
        if self.plan.signals.rtt {
            info.rtt = AckRtt::Measured { newest: Some(rtt), oldest: Some(self.now.since(oldest.sent)) };
        }
        info
    }

    /// Reports the packets lost by now.
    pub(super) fn find_losses(&mut self, by_timer: bool) {
        let threshold = time_threshold(self.srtt.unwrap_or(Span::millis(333)), self.latest_rtt);
        let mut lost = Vec::new();
        for space in 0..2 {
            let Some(largest) = self.largest_acked[space] else { continue };
            let found = detect(&self.packets, space, largest, self.now, threshold);
            if let Some(at) = found.next {
                self.at_loss_time(at);
            }
            for key in found.lost {
                let packet = self.packets.remove(&key).expect("it was just found there");
                self.lose(key, &packet, by_timer);
                if packet.path == self.path && !packet.is_mtu_probe {
                    lost.push(packet);
                }
            }
        }
        if is_persistent(&lost, self.acked_until, self.pto()) {
            self.out.persistent += 1;
            self.cc.on_persistent_congestion(self.now);
            self.check();
        }
    }

    fn lose(&mut self, key: (usize, u64), packet: &Packet, by_timer: bool) {
        if packet.bytes > 0 && packet.path == self.path {
            self.in_flight = minus(self.in_flight, packet.bytes);
        }
        self.app_sent -= u64::from(packet.bytes);
        if packet.is_mtu_probe {
            self.out.discarded += 1;
            self.cc.on_discarded(&packet.token);
            return self.check();
        }
        let loss = Loss::packet(&packet.token, if self.plan.signals.numbers { key.1 } else { 0 });
        self.cc.on_lost(self.now, &if by_timer { loss.by_timer() } else { loss });
        self.check();
        if packet.bytes > 0 {
            self.out.lost += 1;
            self.lost.insert(key, *packet);
        }
    }

    fn take_marks(&mut self, frame: &Frame) {
        if frame.space == 1 && frame.marks > self.marks_seen {
            let marks = frame.marks - self.marks_seen;
            self.marks_seen = frame.marks;
            self.out.marks += marks;
            self.cc.on_congestion_mark(self.now, marks);
            self.check();
        }
    }

    /// Advances the handshake: the first ACK opens the next space; the first ACK there drops the handshake's keys, with
    /// everything in flight.
    fn advance_handshake(&mut self, space: usize) {
        if self.space == 0 {
            self.space = 1;
        } else if space == 1 && self.largest_acked[0] != Some(u64::MAX) {
            for _ in 0..3 {
                self.transmit(0, 300, false);
            }
            self.largest_acked[0] = Some(u64::MAX);
            let keys: Vec<_> = self.packets.range((0, 0)..(1, 0)).map(|(key, _)| *key).collect();
            for key in keys {
                let packet = self.packets.remove(&key).expect("it was just found there");
                if packet.bytes > 0 && packet.path == self.path {
                    self.in_flight = minus(self.in_flight, packet.bytes);
                    self.out.discarded += 1;
                }
                self.cc.on_discarded(&packet.token);
                self.check();
            }
        }
    }
}
