//! Events that a host reports outside of ACKs: losses, time-outs, marks, its recovery; limits, sizes, and path changes.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Controller, first_rtt};
use crate::algorithm::Algorithm;
use crate::episode::Episode;
use crate::event::{CaState, Lost};
use crate::host::{Flight, Loss, RememberedPath};
use crate::resume::Resume;
use crate::sampler::{PacketToken, RateSampler};
use crate::units::{Rate, Span, Time};

impl Controller {
    /// Sets the window in packets and the pacing rate of the algorithm `fixed`, for a host that computes them itself. Returns
    /// false for any other algorithm, which is not changed.
    pub fn set_fixed(&mut self, cwnd: u32, pacing_rate: Option<Rate>) -> bool {
        let is_fixed = self.algorithm.set_fixed(cwnd, pacing_rate);
        self.note_outputs();
        is_fixed
    }
}

impl<A: Algorithm> Controller<A> {
    /// Reports packets marked lost. If the controller keeps the count, a loss of more than was in flight is ignored.
    // spec: draft-ietf-ccwg-bbr #per-loss-steps HandleLostPacket
    pub fn on_lost(&mut self, now: Time, loss: &Loss) {
        let is_impossible = loss.packets == 0 || loss.bytes == 0 || (self.flight.bytes == 0 && !self.host_counts);
        if loss.token.epoch() != self.epoch || is_impossible {
            return;
        }
        let now = self.clock(now);
        self.flight = self.flight.without(loss.bytes.into(), loss.packets.into());
        self.settle_flight();
        let volume = u64::from(if self.counts_bytes { loss.bytes } else { loss.packets });
        if loss.by_timer {
            self.sampler.on_lost_by_timer(volume);
        } else {
            self.sampler.on_lost(volume);
        }
        self.resume.end();
        let sent = loss.token.send_time();
        if self.episode.is_some_and(|episode| episode.begins_another(sent)) {
            self.end_episode(); // if it is over: this loss begins the next, whose undo is saved before the algorithm answers
        }
        if self.needs_on_lost {
            self.algorithm.on_lost(&Lost {
                now,
                seq: loss.number,
                packets: loss.packets,
                volume,
                tx_in_flight: loss.token.tx_in_flight().into(),
                lost: self.sampler.lost_since(&loss.token).into(),
                is_app_limited: loss.token.is_app_limited(),
                delivered: self.sampler.delivered(),
            });
            self.note_outputs();
        }
        if let Some(episode) = &mut self.episode
            && episode.on_lost(now, sent, loss.packets)
            && self.ca_state < CaState::Recovery
        {
            self.change_ca_state(CaState::Recovery);
        }
    }

    /// Reports a packet no longer in flight, though neither delivered nor lost: its keys were dropped, or it was an MTU probe.
    /// Must not be a packet already reported acknowledged or lost: the controller keeps no list of packets.
    pub fn on_discarded(&mut self, token: &PacketToken) {
        if token.epoch() == self.epoch {
            self.flight = self.flight.without(token.bytes().into(), 1);
            self.settle_flight();
        }
    }

    /// The same for packets that the host counts in bytes only; their number is estimated from the mean size in flight.
    pub fn on_discarded_bytes(&mut self, bytes: u64) {
        let packets = self.packets_gone(bytes);
        self.flight = self.flight.without(bytes, packets);
        self.settle_flight();
    }

    /// Estimates the number of packets where a host reports only bytes: it is zero exactly when there are no bytes.
    fn settle_flight(&mut self) {
        if !self.host_counts && (self.flight.packets == 0) != (self.flight.bytes == 0) {
            self.flight.packets = u32::from(self.flight.bytes > 0);
        }
    }

    /// Reports that everything sent over more than the persistent-congestion period was lost (RFC 9002 §7.6). All algorithms treat
    /// this like a retransmission time-out.
    pub fn on_persistent_congestion(&mut self, now: Time) {
        let first = self.ca_state != CaState::Loss;
        let now = self.clock(now);
        self.end_episode();
        if let Some(episode) = &mut self.episode {
            episode.on_lost(now, now, 0);
        }
        self.on_rto(now, self.flight, first);
    }

    /// Reports a retransmission time-out, after the host has marked the lost packets. `first` if no earlier one belongs to the same losses.
    pub fn on_rto(&mut self, now: Time, in_flight: Flight, first: bool) {
        let mut ack = self.bare_ack(now);
        ack.in_flight = self.in_window(in_flight);
        self.ca_state = CaState::Loss;
        self.resume.end();
        self.algorithm.on_rto(&ack, first);
        self.note_outputs();
    }

    /// Reports an ACK of a tail loss probe that repeated data; use [`Self::on_tlp_recovery`] if the probe repaired a loss.
    // spec: google/bbr v3 is_acking_tlp_retrans_seq
    pub fn on_tlp_ack(&mut self) {
        self.algorithm.on_tlp_ack();
    }

    /// Reports that a tail loss probe has repaired a loss. Call it before the ACK that shows it;
    /// `app_limited` if the application was the limit when the repeated packet was first sent.
    // spec: google/bbr v3 CA_EVENT_TLP_RECOVERY
    pub fn on_tlp_recovery(&mut self, now: Time, app_limited: bool) {
        let now = self.clock(now);
        self.algorithm.on_tlp_recovery(now, self.sampler.delivered(), app_limited);
        self.note_outputs();
    }

    /// Reports congestion marks in the ACK in progress; `packets` of the packets that it delivers are marked.
    // spec: Linux tcp_newly_delivered; RFC 9002 §7.1
    pub fn on_congestion_mark(&mut self, now: Time, packets: u64) {
        let now = self.clock(now);
        self.sampler.on_congestion_mark(packets);
        self.algorithm.on_congestion_mark(packets);
        self.resume.end();
        if packets > 0 {
            self.end_episode();
        }
        if packets > 0 && self.ca_state < CaState::Cwr {
            if let Some(episode) = &mut self.episode {
                episode.on_marks(now);
                self.change_ca_state(CaState::Cwr);
            }
        }
        self.note_outputs();
    }

    /// Reports the sequence numbers of the ACK in progress, after its marks and before the [reduction](Self::on_ca_state) that they
    /// cause, so that it counts the marks of a round that ends now. For hosts with their own recovery; the numbers are those of
    /// [`AckInfo::una_next`](crate::host::AckInfo::una_next).
    // spec: Linux 7.3 tcp_in_ack_event
    pub fn on_marked_round(&mut self, una: u64, next: u64) {
        self.algorithm.on_marked_round(una, next, self.sampler.delivered());
    }

    /// Reports a recovery begun by a timer: loss-based algorithms reduce their window at once, as if one packet had been delivered.
    // spec: Linux tcp_rack_reo_timeout
    pub fn on_recovery_by_timer(&mut self, now: Time, in_flight: Flight) {
        let mut ack = self.bare_ack(now);
        ack.in_flight = self.in_window(in_flight);
        ack.rs.acked_sacked = 1;
        self.algorithm.on_recovery_by_timer(&ack);
        self.note_outputs();
    }

    /// Reports a change of the host's recovery state, before the ACK that changed it ends. For hosts with their own recovery.
    pub fn on_ca_state(&mut self, new: CaState) {
        if new != self.ca_state {
            self.change_ca_state(new);
        }
    }

    pub(super) fn change_ca_state(&mut self, new: CaState) {
        let old = core::mem::replace(&mut self.ca_state, new);
        self.algorithm.on_ca_state(old, new);
        self.note_outputs();
    }

    /// Reports that the losses of this episode were spurious: the reduction is undone, unless marks in the controller's own episode
    /// justify it.
    pub fn on_undo(&mut self, now: Time) {
        if self.episode.as_ref().is_some_and(Episode::is_marked) {
            return;
        }
        let ack = self.bare_ack(now);
        self.algorithm.on_undo(&ack);
        self.note_outputs();
        if self.episode.as_mut().is_some_and(Episode::undo) {
            self.change_ca_state(CaState::Open);
        }
    }

    /// Reports that the losses were spurious but ECN marks justify the reduction: cwnd stays as it is, and the reduction ends.
    // spec: Linux tcp_undo_cwnd_reduction without prior_ssthresh
    pub fn on_reduction_stopped(&mut self) {
        self.algorithm.on_reduction_stopped();
        self.note_outputs();
    }

    /// Reports that the application has nothing to send although window and pacer would allow it. `in_flight` by the
    /// host's count, if it keeps one.
    pub fn on_app_limited(&mut self, in_flight: Option<Flight>) {
        self.sampler.on_app_limited(self.volume(in_flight.unwrap_or(self.flight)));
    }

    /// Reports that the window was the limit, for hosts that do so when it occurs rather than with each ACK.
    pub fn on_cwnd_limited(&mut self) {
        self.limited_until = self.sampler.delivered().saturating_add(self.volume(self.flight)).max(1);
    }

    /// Reports that at most `used` packets of the window were used for longer than a time-out.
    pub fn on_cwnd_unused(&mut self, used: u32) {
        self.algorithm.on_cwnd_unused(used);
        self.note_outputs();
    }

    /// Sets the payload bytes of a full packet after a change of the path MTU; 0 counts as 1.
    pub fn on_mss(&mut self, mss: u32) {
        self.mss = mss.max(1);
        self.algorithm.on_mss(self.mss);
        self.note_outputs();
    }

    /// Reports a request to the receiver for one ACK per `packets` packets, or `max_ack_delay` after the first (QUIC's ACK_FREQUENCY).
    pub fn on_ack_frequency(&mut self, packets: u32, max_ack_delay: Span) {
        self.algorithm.on_ack_frequency(packets, max_ack_delay);
        self.note_outputs();
    }

    /// Reports a move to another path: all measurements are discarded, and tokens of the old path have no effect.
    pub fn on_path_change(&mut self, now: Time, mss: u32, srtt: Option<Span>) {
        let now = self.clock(now);
        let mut init = self.init;
        init.now = now;
        init.mss = mss.max(1);
        init.srtt = srtt;
        init.min_rtt = None;
        init.delivered_time_us = now.as_micros();
        init.seed = self.init.seed.wrapping_add(self.epoch.into());
        self.algorithm.restart(&init);
        self.sampler = RateSampler::new(now);
        self.rtt = first_rtt(&init);
        self.mss = init.mss;
        self.ca_state = CaState::Open;
        self.last_sent = now;
        self.flight = Flight::NONE;
        self.undelivered = 0;
        self.uncounted = 0;
        self.limited_until = 0;
        self.epoch = self.epoch.checked_add(1).unwrap_or(1);
        self.open = None;
        self.episode = self.episode.map(|_| Episode::new(self.algorithm.continues_recovery()));
        self.resume = Resume::None;
        self.note_outputs();
    }

    /// Passes on properties of this path from an earlier connection. If the first RTT agrees, the flow uses half of that
    /// path's BDP at once, until its first flight is delivered, unless there is a loss.
    // spec: draft-ietf-tsvwg-careful-resume
    pub fn resume(&mut self, path: RememberedPath) {
        self.resume = Resume::Remembered(path);
        self.try_resume();
    }

    #[cold]
    pub(super) fn try_resume(&mut self) {
        if let (Resume::Remembered(path), Some(rtt)) = (self.resume, self.rtt.min()) {
            let until = self.sampler.delivered().saturating_add(self.volume(self.flight));
            self.resume = Resume::begin(path, rtt, until, self.counts_bytes, self.mss);
            if !self.algorithm.in_slow_start() {
                self.resume.end();
            }
            self.note_outputs();
        }
    }

    /// Sets an upper bound on the pacing rate (Linux `SO_MAX_PACING_RATE`); `None` for no bound. Under a bound, pace even
    /// algorithms that do not require it, as Linux does.
    pub fn set_max_pacing_rate(&mut self, max: Option<Rate>) {
        self.init.max_pacing_rate = max;
        self.algorithm.set_max_pacing_rate(max);
        self.note_outputs();
    }
}
