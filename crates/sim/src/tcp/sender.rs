//! The Linux-like sender: its state, the handshake, and transmission under pacing, TSO bursts and windows.
//! Spec: Linux 6.12 `tcp_output.c`. Sizes are in `bursts.rs`, recovery in `recovery.rs`, timers in `timers.rs`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::ops::Range;

use bbrlab_core::{Controller, Flight, Init, PacketToken, Rate, Sent, Span, Time};

use super::app::App;
use super::external::Steered;
use super::host_queue::HostFq;
use super::packet::{Segment, mark};
use super::quic::QuicSender;
use super::rack::Rack;
use super::scoreboard::Scoreboard;
use super::timers::{Timer, TimerKind, fires_at};
use super::undo::{rtt_by_stamp, stamp};
use crate::setup::{FlowSetup, Rwnd};

/// Data segments sent before pacing begins. Source: Linux `tcp_update_skb_after_send`.
const UNPACED_SEGMENTS: u64 = 10;
/// First timeout of a SYN. Source: RFC 6298; Linux `TCP_TIMEOUT_INIT`.
const SYN_TIMEOUT: Span = Span::secs(1);
/// SYN timeouts of equal length; each later one doubles the previous. Source: Linux `tcp_syn_linear_timeouts`.
const SYN_LINEAR: u32 = 4;
/// Transmissions of a SYN before the flow gives up and ends. Source: Linux `tcp_syn_retries` + 1, and the linear ones.
const SYN_TRIES: u32 = 7 + SYN_LINEAR;

/// Counters of a flow's sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct SenderStats {
    /// Data segments sent, retransmissions included.
    pub segments: u64,
    /// Retransmissions.
    pub retransmits: u64,
    /// Payload bytes sent, retransmissions included.
    pub sent_bytes: u64,
    /// Payload bytes acknowledged or SACKed.
    pub acked_bytes: u64,
    /// Retransmission timeouts.
    pub rto: u64,
    /// Tail loss probes.
    pub probes: u64,
    /// Window reductions that were undone.
    pub undos: u64,
    /// Segments marked lost, retransmissions included.
    pub lost: u64,
    /// Time of the first loss mark.
    pub first_loss: Option<Time>,
}

/// Sending end of a flow.
#[derive(Clone, Debug)]
pub struct Sender {
    pub(super) flow: u32,
    /// The congestion controller.
    pub cc: Controller,
    pub(super) board: Scoreboard,
    /// The application.
    pub app: App,
    pub(super) mss: u32,
    pub(super) tso_max: u64,
    pub(super) initial_cwnd: u32,
    // Bytes
    pub(super) next_bytes: u64,
    pub(super) una_bytes: u64,
    pub(super) window: u64,
    /// End of the super-packet to be sent next, bytes.
    pub(super) super_end: u64,
    /// End of the newest super-packet whose last segment is pushed.
    pub(super) push_at: u64,
    /// End of the data when the socket last pushed. Source: Linux `pushed_seq`.
    pub(super) pushed: u64,
    /// End of the newest segment shorter than the MSS. Source: Linux `snd_sml`.
    pub(super) short_end: u64,
    /// Start of the super-packets built after the receive window was known.
    pub(super) wide_from: u64,
    // Pacing
    paced: bool,
    /// True if TCP itself waits for departure times; false behind `fq`.
    is_self_paced: bool,
    pub(super) wstamp: Time,
    pub(super) pace_at: Time,
    data_segments_out: u64,
    pub(super) min_rtt_us: u64,
    // Congestion state (Linux `icsk_ca_state` and friends)
    pub(super) high_seq: u64,
    pub(super) undo_marker: Option<u64>,
    pub(super) undo_retrans: i64,
    /// True if an undo restores cwnd: no ECN mark was part of the episode (Linux: `prior_ssthresh` is not 0).
    pub(super) undo_restores: bool,
    pub(super) retrans_stamp: Option<Time>,
    pub(super) frto: bool,
    /// Segments that arrived twice, according to DSACKs.
    pub(super) duplicates: u64,
    pub(super) retransmits_in_row: u32,
    pub(super) backoff: u32,
    pub(super) rack: Rack,
    pub(super) tlp_high_seq: Option<u64>,
    pub(super) tlp_retrans: bool,
    /// True if the segment repeated by the probe was first sent while application-limited.
    pub(super) tlp_app_limited: bool,
    pub(super) timer: Timer,
    // cwnd validation
    pub(super) is_cwnd_limited: bool,
    pub(super) max_packets_out: u32,
    pub(super) cwnd_usage_seq: u64,
    pub(super) cwnd_used: u32,
    pub(super) cwnd_stamp: Time,
    // ECN
    pub(super) ecn: bool,
    pub(super) has_accurate_ecn: bool,
    /// True if retransmissions are ECN-capable too.
    pub(super) retransmits_as_ect: bool,
    is_l4s: bool,
    syn_is_ect: bool,
    /// Marked packets reported so far.
    pub(super) ce: u32,
    /// True if the next new segment carries CWR (RFC 3168; Linux `TCP_ECN_QUEUE_CWR`).
    pub(super) send_cwr: bool,
    // Handshake
    pub(super) established: bool,
    pub(super) syn_tries: u32,
    /// Send time of the first SYN.
    syn_sent: Time,
    seed: u64,
    /// State of QUIC, if that is its transport and the handshake is done.
    pub(super) quic: Option<Box<QuicSender>>,
    /// True if the handshake is done and it sends over QUIC or through `fq`.
    has_own_pump: bool,
    // Host queue (TSQ)
    pub(super) has_access_link: bool,
    pub(super) has_host_queue: bool,
    pub(super) host_queue: u64,
    pub(super) tsq_blocked: bool,
    /// The qdisc that paces in place of TCP, if there is one.
    pub(super) host_fq: Option<Box<HostFq>>,
    /// A congestion control outside of core, if it has one.
    pub(super) steered: Option<Box<Steered>>,
    /// Counters.
    pub stats: SenderStats,
}

impl Sender {
    /// Creates a flow that has not started.
    pub fn new(flow: u32, setup: &FlowSetup, seed: u64) -> Self {
        let mut init = Init::new(setup.start).with_mss(setup.mss).with_seed(seed);
        init.initial_cwnd = setup.host.initial_cwnd;
        let cc = Controller::new(&setup.algorithm, &init).with_host_recovery();
        let paced = setup.host.pacing || cc.needs_pacing() || setup.external.is_some();
        let fq = setup.is_paced_by_fq();
        Self {
            flow,
            paced,
            is_self_paced: paced && !fq,
            cc,
            board: Scoreboard::default(),
            app: App::new(setup.traffic.clone(), setup.start, setup.stop),
            mss: setup.mss,
            tso_max: u64::from(setup.host.tso_max.max(setup.mss)),
            initial_cwnd: setup.host.initial_cwnd,
            next_bytes: 0,
            una_bytes: 0,
            window: match setup.rwnd {
                Rwnd::Unlimited => u64::MAX,
                Rwnd::Fixed(bytes) => bytes,
                Rwnd::Auto(limit) => limit.min(65_535),
            },
            super_end: 0,
            push_at: 0,
            pushed: 0,
            short_end: 0,
            wide_from: 0,
            wstamp: Time::ZERO,
            pace_at: Time::NEVER,
            data_segments_out: 0,
            min_rtt_us: u64::MAX,
            high_seq: 0,
            undo_marker: None,
            undo_retrans: 0,
            undo_restores: false,
            retrans_stamp: None,
            frto: false,
            duplicates: 0,
            retransmits_in_row: 0,
            backoff: 0,
            rack: Rack::default(),
            tlp_high_seq: None,
            tlp_retrans: false,
            tlp_app_limited: false,
            timer: Timer::default(),
            is_cwnd_limited: false,
            max_packets_out: 0,
            cwnd_usage_seq: 0,
            cwnd_used: 0,
            cwnd_stamp: setup.start,
            ecn: setup.host.ecn,
            has_accurate_ecn: setup.host.accurate_ecn && !setup.host.dctcp_receiver,
            retransmits_as_ect: setup.host.accurate_ecn,
            is_l4s: setup.host.l4s,
            syn_is_ect: setup.host.ecn_syn,
            ce: 0,
            send_cwr: false,
            established: false,
            syn_tries: 0,
            syn_sent: Time::ZERO,
            seed,
            quic: None,
            has_own_pump: false,
            has_access_link: setup.access.is_some(),
            has_host_queue: setup.access.is_some() || fq,
            host_queue: 0,
            tsq_blocked: false,
            host_fq: fq.then(Box::default),
            steered: setup.external.clone().map(|external| Box::new(Steered::new(external))),
            stats: SenderStats::default(),
        }
    }

    /// Time of the next call to [`Self::on_time`].
    pub fn next_time(&self) -> Time {
        let app = if self.established { self.app.next } else { Time::NEVER };
        self.pace_at.min(self.timer.at).min(app)
    }

    /// Segments in flight.
    pub const fn in_flight(&self) -> u32 {
        self.board.in_flight()
    }

    /// In-flight count with its bytes.
    #[inline]
    pub(super) const fn flight(&self) -> Flight {
        let packets = self.board.in_flight();
        if !self.cc.counts_bytes() {
            return Flight { bytes: 0, packets };
        }
        let marked = self.board.sacked_bytes + self.board.lost_bytes;
        Flight { bytes: self.next_bytes - self.una_bytes + self.board.retrans_bytes - marked, packets }
    }

    /// Description for the controller of a burst about to leave.
    fn burst(&self, segments: u32, bytes: u64) -> Sent {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Sent::burst(segments, bytes).with_in_flight(self.flight(), self.board.packets_out() == 0)
    }

    /// Segments sent but not cumulatively acknowledged.
    pub const fn packets_out(&self) -> u32 {
        self.board.packets_out()
    }

    /// True once the handshake is done.
    pub const fn is_established(&self) -> bool {
        self.established
    }

    /// Largest burst that would be sent now, payload bytes.
    pub fn largest_burst(&self) -> u64 {
        u64::from(self.burst_segments()) * u64::from(self.mss)
    }

    /// Sends the first SYN, or the next one after a timeout.
    pub fn start(&mut self, now: Time, out: &mut Vec<Segment>) {
        self.syn_tries += 1;
        if self.syn_tries > SYN_TRIES {
            self.timer = Timer::default();
            return;
        }
        if self.syn_tries == 1 {
            self.syn_sent = now;
        } else {
            self.stats.rto += 1;
        }
        let wait = Span::nanos(SYN_TIMEOUT.as_nanos() << self.syn_tries.saturating_sub(SYN_LINEAR + 1));
        self.timer = Timer { kind: TimerKind::Syn, at: fires_at(now, wait) };
        let marks = if self.syn_is_ect { mark::SYN | self.ect() } else { mark::SYN };
        out.push(Segment { seq: 0, sent: now, flow: self.flow, len: 0, hop: 0, marks });
    }

    /// Establishes the connection with the handshake's measurements when the SYN is answered. Returns false if it was before.
    pub fn on_syn_ack(&mut self, now: Time, setup: &FlowSetup, sent: Time, out: &mut Vec<Segment>) -> bool {
        if self.established {
            return false;
        }
        self.established = true;
        let rtt = now.since(sent);
        let mut init = Init::new(now).with_mss(self.mss).with_seed(self.seed);
        // RFC 5681: after more than one SYN loss the initial window is one segment. An answer to the first SYN shows that none
        // was lost (Linux `tcp_try_undo_spurious_syn`).
        let was_lost = stamp(sent) != stamp(self.syn_sent);
        init.initial_cwnd = if self.syn_tries > 2 && was_lost { 1 } else { self.initial_cwnd };
        self.quic = QuicSender::new(&setup.host, rtt);
        let sample = if self.quic.is_none() && self.syn_tries > 1 { rtt_by_stamp(now, sent) } else { rtt };
        init.srtt = Some(sample);
        let cc = Controller::new(&setup.algorithm, &init);
        self.has_own_pump = self.quic.is_some() || self.host_fq.is_some();
        self.cc = if self.quic.is_some() { cc } else { cc.with_host_recovery() };
        self.min_rtt_us = sample.as_micros();
        self.wstamp = now;
        self.cwnd_stamp = now;
        self.timer = Timer::default();
        self.app = App::connected(setup.traffic.clone(), now, setup.stop, self.app.request_delay, rtt);
        self.app.begin_client(setup.start);
        self.start_steering(now);
        // The handshake's last packet leaves on its own, before any data: Linux `tcp_rcv_synsent_state_process`.
        out.push(Segment { seq: 0, sent: now, flow: self.flow, len: 0, hop: 0, marks: mark::BARE });
        self.pump(now, out);
        self.fill_socket();
        true
    }

    /// Handles the expiry of its timer, pacer or application.
    pub fn on_time(&mut self, now: Time, out: &mut Vec<Segment>) {
        if self.host_fq.is_some() && self.on_fq_timer(now, out) {
            return;
        }
        if self.established && self.app.next <= now {
            self.check_app_limited();
            self.on_write(now, out, |app, sent| app.on_time(now, sent));
        }
        if self.timer.at <= now {
            self.check_app_limited_broadly();
            match self.timer.kind {
                TimerKind::Syn => {
                    self.start(now, out);
                    return;
                }
                kind => self.on_timer(now, kind, out),
            }
        }
        if self.established {
            self.pump(now, out);
        }
    }

    /// Handles the arrival of a request that crossed a link.
    pub fn on_request(&mut self, now: Time, number: u64, out: &mut Vec<Segment>) {
        self.check_app_limited();
        self.on_write(now, out, |app, _| app.on_request(now, number));
    }

    /// Sends all that windows and pacer allow: retransmissions first, then new data.
    pub fn pump(&mut self, now: Time, out: &mut Vec<Segment>) {
        if self.has_own_pump {
            self.pump_own(now, out);
            return;
        }
        self.pace_at = Time::NEVER;
        if self.board.lost_out > self.board.retrans_out {
            self.retransmit_lost(now, out);
        }
        if self.is_self_paced && self.wstamp > now && self.next_bytes < self.app.written && self.board.packets_out() > 0
        {
            self.pace_at = self.wstamp; // as for most ACKs: `write` would do nothing else
            return;
        }
        self.write(now, u32::MAX, out);
    }

    // spec: Linux tcp_xmit_retransmit_queue
    #[inline(never)]
    pub(super) fn retransmit_lost(&mut self, now: Time, out: &mut Vec<Segment>) {
        while self.board.in_flight() < self.cc.cwnd() {
            if self.blocked_by_pacer(now) {
                return;
            }
            let room = self.cc.cwnd() - self.board.in_flight();
            let Some(run) = self.board.next_pending_run(self.burst_segments().min(room)) else {
                return;
            };
            if self.blocked_by_host_queue((run.end - run.start) as u32, 2) {
                return;
            }
            self.retransmit(now, run, out);
        }
    }

    /// Retransmits these segments in sequence as one burst.
    // spec: Linux tcp_retransmit_skb
    pub(super) fn retransmit(&mut self, now: Time, run: Range<u64>, out: &mut Vec<Segment>) {
        let first_in_queue = run.start == self.board.una;
        if self.retrans_stamp.is_none() {
            self.retrans_stamp = Some(self.wstamp.max(now));
        }
        self.undo_retrans = self.undo_retrans.max(0) + (run.end - run.start) as i64;
        self.send_again(now, run, Scoreboard::mark_retransmitted, out);
        if first_in_queue && self.timer.kind != TimerKind::Reorder {
            self.rearm_rto(now);
        }
    }

    /// Sends these segments again. `record` enters each on the scoreboard.
    // spec: Linux __tcp_retransmit_skb
    pub(super) fn send_again(
        &mut self,
        now: Time,
        run: Range<u64>,
        record: impl Fn(&mut Scoreboard, u64, PacketToken, u64),
        out: &mut Vec<Segment>,
    ) {
        let segments = (run.end - run.start) as u32;
        // The sum is needed beforehand only by algorithms that count bytes, since some segments may be shorter than the MSS.
        let max = u64::from(segments) * u64::from(self.mss);
        let bytes = if self.cc.counts_bytes() { self.board.bytes_of(run.clone()) } else { max };
        let leaves = self.wstamp.max(now);
        let token = self.cc.on_sent(now, &self.burst(segments, bytes).with_departure(leaves).retransmission());
        self.stats.retransmits += u64::from(segments);
        let end = run.end;
        let mut bytes = 0;
        for seq in run {
            record(&mut self.board, seq, token, end - seq - 1);
            self.board.sent_log.push_back((seq, leaves.as_micros()));
            let len = self.board.peek(seq).len;
            bytes += u64::from(len);
            self.emit(leaves, seq, len, mark::RETRANSMIT, out);
        }
        self.after_send(leaves, bytes, segments, out);
        if self.steered.is_some() {
            self.steer_sent(now, segments);
        }
    }

    #[inline(always)]
    fn blocked_by_pacer(&mut self, now: Time) -> bool {
        if self.is_self_paced && self.wstamp > now {
            self.pace_at = self.wstamp;
            return true;
        }
        false
    }

    /// Sends new data, at most `limit` segments. Returns the number sent.
    // spec: Linux tcp_write_xmit
    pub(super) fn write(&mut self, now: Time, limit: u32, out: &mut Vec<Segment>) -> u32 {
        let mut sent = 0;
        let mut cwnd_limited = false;
        let probe = limit == 1;
        let needs_rto =
            self.board.packets_out() == 0 || matches!(self.timer.kind, TimerKind::None | TimerKind::LossProbe);
        while sent < limit && self.next_bytes < self.app.written {
            if !probe && self.blocked_by_pacer(now) {
                break;
            }
            let (cwnd, in_flight) = (self.cc.cwnd(), self.board.in_flight());
            let mut quota = if in_flight < cwnd { (cwnd - in_flight).min((cwnd >> 1).max(1)) } else { 0 };
            if quota == 0 {
                if !probe {
                    cwnd_limited = true;
                    break;
                }
                quota = 1;
            }
            let burst = self.burst_segments();
            if !probe && burst > 1 && self.should_defer(now, cwnd, in_flight, burst, &mut cwnd_limited) {
                break;
            }
            let segments = burst.min(quota).min(limit - sent);
            if !probe && self.blocked_by_host_queue(segments, 1) {
                break;
            }
            let n = self.send_burst(now, segments, probe, out);
            if n == 0 {
                break; // the receive window is full, or a short segment waits
            }
            sent += n;
        }
        // The probe's timer replaces the retransmission timer, which then need not be set.
        if sent > 0 && (probe || !self.schedule_loss_probe(now, false)) && needs_rto {
            self.rearm_rto(now);
        }
        self.validate_cwnd(now, sent, cwnd_limited);
        sent
    }

    /// Sends one burst of new segments. Returns 0 if the receive window is full, or if a short segment must wait for more data.
    #[inline(never)] // keeps a call that finds the pacer closed short
    fn send_burst(&mut self, now: Time, segments: u32, probe: bool, out: &mut Vec<Segment>) -> u32 {
        let end = self.una_bytes.saturating_add(self.window).min(self.app.written);
        let room = end.saturating_sub(self.next_bytes);
        let first = self.board.packets_out() == 0;
        // A window below one full segment is filled partially if nothing else will open it (Linux lowers its MSS).
        if room == 0 || (room < u64::from(self.mss) && end < self.app.written && !first) {
            return 0;
        }
        // Recovery counts the segments actually sent, not those allowed.
        let mss = u64::from(self.mss);
        let segments = match room {
            _ if room >= u64::from(segments) * mss => segments,
            _ => room.div_ceil(mss) as u32,
        };
        // A short segment waits while an earlier short one is outstanding: Minshall's variant of Nagle's algorithm. The same
        // holds for a segment that the receive window makes short.
        // spec: Linux tcp_nagle_check, tcp_mss_split_point
        let is_short = u64::from(segments) * mss > room;
        let is_behind = is_short && !first && !probe && self.short_end > self.una_bytes;
        let segments = segments - u32::from(is_behind && self.app.gathers());
        if segments == 0 {
            return 0;
        }
        let before = self.cc.cwnd();
        let leaves = self.wstamp.max(now);
        let token =
            self.cc.on_sent(now, &self.burst(segments, room.min(u64::from(segments) * mss)).with_departure(leaves));
        // A restart after idle may just have reduced the window. spec: Linux tcp_cwnd_restart
        if self.cc.cwnd() < before {
            (self.cwnd_stamp, self.cwnd_used) = (now, 0);
        }
        let segments = segments.min(self.cc.cwnd().saturating_sub(self.board.in_flight()).max(1));
        let (mut n, mut bytes, sent_us) = (0, 0, token.send_us());
        let sent_ns = leaves.as_nanos().wrapping_sub(sent_us * 1000) as u16;
        debug_assert!(sent_ns < 1_000);
        while n < segments {
            let len = mss.min(end - self.next_bytes);
            let seq = self.board.push(token, sent_ns, len as u16, segments - n - 1);
            self.board.sent_log.push_back((seq, sent_us));
            self.next_bytes += len;
            bytes += len;
            n += 1;
            let is_pushed =
                n == segments && (n > 1 || self.next_bytes == self.app.written || self.next_bytes == self.push_at);
            self.emit(leaves, seq, len as u16, if is_pushed { mark::PUSH } else { 0 }, out);
        }
        if bytes < u64::from(n) * mss {
            self.short_end = self.next_bytes;
        }
        while self.super_end <= self.next_bytes {
            self.append_super();
        }
        self.after_send(leaves, bytes, n, out);
        if self.steered.is_some() {
            self.steer_sent(now, n);
        }
        n
    }

    /// ECN codepoint of its packets.
    const fn ect(&self) -> u8 {
        if self.is_l4s { mark::ECT | mark::ECT_1 } else { mark::ECT }
    }

    pub(super) fn emit(&mut self, now: Time, seq: u64, len: u16, extra: u8, out: &mut Vec<Segment>) {
        let mut marks = extra;
        // spec: Linux tcp_ecn_send
        if self.ecn && (extra & mark::RETRANSMIT == 0 || self.retransmits_as_ect) {
            marks |= self.ect();
            if self.send_cwr && extra & mark::RETRANSMIT == 0 {
                self.send_cwr = false;
                marks |= mark::CWR;
            }
        }
        let segment = Segment { seq, sent: now, flow: self.flow, len, hop: 0, marks };
        if self.has_access_link {
            self.host_queue += u64::from(crate::link::LinkPacket::wire_bytes(&segment));
        }
        out.push(segment);
    }

    /// Advances the pacer past a burst with this departure time, less a credit for lateness. Behind `fq` the burst moves there from `out`.
    // spec: Linux tcp_update_skb_after_send
    fn after_send(&mut self, leaves: Time, bytes: u64, segments: u32, out: &mut Vec<Segment>) {
        let late = Span::nanos(leaves.as_nanos() - self.wstamp.as_nanos());
        self.wstamp = leaves;
        if self.host_fq.is_some() {
            self.hold_burst(leaves, bytes, segments, out);
        }
        self.data_segments_out += u64::from(segments);
        if self.data_segments_out >= UNPACED_SEGMENTS
            && let Some(rate) = self.pacing_rate()
        {
            let mut span = rate.time_for(bytes);
            span = Span::nanos(span.as_nanos() - late.as_nanos().min(span.as_nanos() / 2));
            self.wstamp += span;
        }
        self.stats.segments += u64::from(segments);
        self.stats.sent_bytes += bytes;
    }

    /// Earliest departure time of the next burst.
    pub(super) const fn edt(&self) -> Time {
        self.wstamp
    }

    /// Rate that the pacer enforces; `None` without a pacer or without a pacing rate.
    pub const fn pacing_rate(&self) -> Option<Rate> {
        if self.paced { self.cc.pacing_rate() } else { None }
    }

    /// Token of a segment in the scoreboard.
    pub(super) fn token(&self, seq: u64) -> PacketToken {
        self.board.peek(seq).token
    }
}
