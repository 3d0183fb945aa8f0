//! Tracks packets in flight with the published trait, which reports batches with their send times.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;
use std::time::Instant;

use bbrlab_core::{Loss, PacketToken, Sent};

use super::{Adapter, Flow};

/// Maximum number of batches. ACKs without data are batches too, and are known as such only once data is acknowledged: this
/// bounds the memory of a connection that receives. Ours: ten packets each, 10 Gbit/s over 600 ms.
const BATCHES_MAX: usize = 1 << 16;

/// Batches in order of transmission.
pub(super) type Ledger = VecDeque<Batch>;

/// Packets sent by one call; several may have the same time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    sent: Instant,
    token: PacketToken,
    /// Number of its last packet.
    number: u64,
    /// Packets neither acknowledged nor lost, estimated from the bytes, and their bytes. With no bytes it is done.
    pub(super) packets: u32,
    bytes: u32,
}

impl Batch {
    /// Takes up to these bytes, of one packet if `is_one`. Returns packets and bytes.
    fn take(&mut self, bytes: u64, mss: u32, is_one: bool) -> (u32, u32) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.bytes);
        let packets = match bytes {
            0 => 0,
            _ if bytes == self.bytes => self.packets,
            _ if is_one => 1,
            _ => bytes.div_ceil(mss),
        };
        // Something is left, so is a packet.
        let packets = packets.min(if bytes == self.bytes { self.packets } else { self.packets.saturating_sub(1) });
        self.bytes -= bytes;
        self.packets -= packets;
        (packets, bytes)
    }
}

impl Flow {
    pub(super) fn on_sent(&mut self, now: Instant, bytes: u64, number: u64) {
        self.end_ack();
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if bytes == 0 {
            return;
        }
        let at = self.at(now);
        let packets = bytes.div_ceil(self.cc.mss());
        let token = self.cc.on_sent(at, &Sent::burst(packets, bytes));
        if self.ledger.len() == BATCHES_MAX {
            self.forget_oldest();
        }
        self.ledger.push_back(Batch { sent: now, token, number, packets, bytes });
    }

    pub(super) fn on_acked(&mut self, now: Instant, sent: Instant, bytes: u64) {
        let mss = self.cc.mss();
        let first = self.ledger.partition_point(|batch| batch.sent < sent);
        let mut left = bytes;
        let mut index = first;
        while left > 0 {
            let Some(batch) = self.ledger.get_mut(index).filter(|batch| batch.sent == sent) else { break };
            index += 1;
            if batch.bytes == 0 {
                continue;
            }
            let (packets, taken) = batch.take(left, mss, true);
            let (token, number) = (batch.token, batch.number);
            left -= u64::from(taken);
            self.batch(now).delivered_run(packets.into(), taken.into(), &token, number);
        }
        self.remove_done();
    }

    /// Takes these lost bytes from the oldest batches sent until then.
    pub(super) fn on_lost(&mut self, now: Instant, sent: Instant, bytes: u64) {
        let at = self.at_loss(now);
        let mss = self.cc.mss();
        let mut left = bytes;
        for batch in self.ledger.iter_mut().take_while(|batch| batch.sent <= sent) {
            let first = batch.number + 1 - u64::from(batch.packets).min(batch.number + 1);
            let (packets, taken) = batch.take(left, mss, false);
            left -= u64::from(taken);
            if taken > 0 {
                self.cc.on_lost(at, &Loss::run(&batch.token, first, packets.max(1), taken));
            }
            if left == 0 {
                break;
            }
        }
        self.remove_done();
    }

    /// Discards what quinn does not count as in flight at the end of an ACK: ACKs without data, and packets whose keys are gone.
    pub(super) fn settle(&mut self, in_flight: u64) {
        let ours = self.cc.in_flight().bytes;
        if ours > in_flight {
            self.discard(ours - in_flight);
        }
        if in_flight == 0 {
            self.ledger.clear();
        }
    }

    /// Discards the oldest batches shorter than half a packet, which are likely ACKs without data, then the oldest of any kind.
    #[cold]
    fn discard(&mut self, bytes: u64) {
        let mss = self.cc.mss();
        let mut left = bytes;
        for is_short in [true, false] {
            for batch in &mut self.ledger {
                if left == 0 {
                    break;
                }
                if !is_short || (batch.bytes < mss / 2 && u64::from(batch.bytes) <= left) {
                    left -= u64::from(batch.take(left, mss, false).1);
                }
            }
        }
        self.cc.on_discarded_bytes(bytes);
        self.remove_done();
    }

    #[cold]
    fn forget_oldest(&mut self) {
        if let Some(batch) = self.ledger.pop_front() {
            self.cc.on_discarded_bytes(batch.bytes.into());
        }
    }

    fn remove_done(&mut self) {
        while self.ledger.front().is_some_and(|batch| batch.bytes == 0) {
            self.ledger.pop_front();
        }
    }
}

impl Adapter {
    /// Records the acknowledgement of a packet: `on_ack` of quinn's trait without its unused arguments, for callers other than
    /// quinn.
    pub fn on_bytes_acked(&mut self, now: Instant, sent: Instant, bytes: u64) {
        self.flow().on_acked(now, sent, bytes);
    }
}
