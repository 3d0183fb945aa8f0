//! Limits of the sender: the application or the window, and changes of the application's traffic.
//! Spec: Linux 6.12 `tcp_rate.c`, `tcp_output.c`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Time;

use super::packet::Segment;
use super::sender::Sender;
use crate::setup::Traffic;

impl Sender {
    /// Payload of a full segment, bytes.
    pub const fn mss(&self) -> u32 {
        self.mss
    }

    /// Switches the application to other traffic.
    pub fn change_traffic(&mut self, now: Time, traffic: Traffic, out: &mut Vec<Segment>) {
        self.check_app_limited();
        self.app.change(now, traffic, self.next_bytes);
        if self.established {
            self.pump(now, out);
        }
    }

    /// Checks whether the application is about to write into an empty socket. The data in flight then measures the application.
    // spec: Linux tcp_rate_check_app_limited
    pub(super) fn check_app_limited(&mut self) {
        let unsent = self.app.written.saturating_sub(self.next_bytes);
        let in_flight = self.board.in_flight();
        if unsent < u64::from(self.mss)
            && self.host_queue == 0
            && self.host_fq.as_ref().is_none_or(|fq| fq.is_empty())
            && in_flight < self.cc.cwnd()
            && self.board.lost_out <= self.board.retrans_out
        {
            self.cc.on_app_limited(self.quic.is_none().then(|| self.flight()));
        }
    }

    /// Runs the same check at the start of an ACK or a timer, for algorithms that require it.
    // spec: draft-ietf-ccwg-bbr #detecting-application-limited-phases
    pub(super) fn check_app_limited_broadly(&mut self) {
        if self.established && self.cc.wants_app_limited_checks() && self.app.written == self.next_bytes {
            self.check_app_limited();
        }
    }

    /// Records whether the window was the limit in the last round.
    // spec: Linux tcp_cwnd_validate
    pub(super) fn validate_cwnd(&mut self, now: Time, sent: u32, cwnd_limited: bool) {
        let packets_out = self.board.packets_out();
        let limited = cwnd_limited || self.board.in_flight() >= self.cc.cwnd();
        if sent == 0 && packets_out > 0 && !limited {
            return;
        }
        if self.board.una >= self.cwnd_usage_seq
            || limited
            || (!self.is_cwnd_limited && packets_out > self.max_packets_out)
        {
            self.is_cwnd_limited = limited;
            self.max_packets_out = packets_out;
            self.cwnd_usage_seq = self.board.next;
        }
        if self.cwnd_limited() {
            self.cwnd_used = 0;
            self.cwnd_stamp = now;
            return;
        }
        self.cwnd_used = self.cwnd_used.max(packets_out);
        if now.since(self.cwnd_stamp) >= self.cc.rtt().rto() {
            self.cc.on_cwnd_unused(self.cwnd_used);
            self.cwnd_used = 0;
            self.cwnd_stamp = now;
        }
    }

    // spec: Linux tcp_is_cwnd_limited
    pub(super) fn cwnd_limited(&self) -> bool {
        self.is_cwnd_limited || (self.cc.in_slow_start() && self.cc.cwnd() < 2 * self.max_packets_out)
    }
}
