//! The controller that a transport hosts: events in, congestion window, pacing rate and send quantum out.
//! In: packets sent, delivered and lost, then one ACK at a time. Out: plain values. Never: a callback, a clock, an allocation.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::State;
use crate::algorithm::AlgorithmConfig;
use crate::bbr1::Bbr1;
use crate::bbr3::Bbr3;
use crate::event::{Ack, CaState, Init, Lost, Snapshot, TxStart};
use crate::fixed::Fixed;
use crate::loss_based::LossBased;
use crate::rate_sample::{RateSampler, Token};
use crate::rtt::RttEstimator;
use crate::units::{Rate, Span, Time};
use crate::variant::{Davis, Variant};

/// The running algorithm. An enum, so that the hot path pays no virtual call.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "core does not allocate, so a flow holds its algorithm in place")]
enum Algorithm {
    Fixed(Fixed),
    LossBased(LossBased),
    Bbr1(Bbr1),
    Bbr3(Bbr3),
    Variant(Variant),
    Davis(Davis),
}

/// Calls the same method of whichever algorithm runs.
macro_rules! each {
    ($algorithm:expr, $name:ident => $call:expr) => {
        match $algorithm {
            Algorithm::Fixed($name) => $call,
            Algorithm::LossBased($name) => $call,
            Algorithm::Bbr1($name) => $call,
            Algorithm::Bbr3($name) => $call,
            Algorithm::Variant($name) => $call,
            Algorithm::Davis($name) => $call,
        }
    };
}

/// One ACK as the host reports it, after it has told every packet that the ACK delivered or showed lost.
#[derive(Clone, Copy, Debug)]
pub struct AckReport {
    /// Now.
    pub now: Time,
    /// RTT of the newest packet that this ACK delivers, if it was sent once; the algorithm's sample.
    pub rtt: Option<Span>,
    /// RTT of the oldest such packet, which includes the receiver's delay; the time-out's sample.
    pub rtt_oldest: Option<Span>,
    /// Packets in flight before this ACK was processed.
    pub prior_in_flight: u32,
    /// Packets in flight now.
    pub in_flight: u32,
    /// Packets outstanding: sent, not cumulatively acknowledged.
    pub packets_out: u32,
    /// Oldest unacknowledged packet.
    pub una: u64,
    /// Next new packet.
    pub next: u64,
    /// The cumulative ACK advanced.
    pub advanced: bool,
    /// The receiver may have delayed this ACK: it is for one packet, shorter than the largest.
    pub is_ack_delayed: bool,
    /// The window was the limit in the last round.
    pub cwnd_limited: bool,
    /// Loss-based growth is allowed on this ACK.
    pub may_raise_cwnd: bool,
    /// When the pacer lets the next packet go.
    pub edt: Time,
    /// The host paces also algorithms that did not ask for it.
    pub paced: bool,
}

/// A congestion controller with its delivery-rate sampler and RTT estimator.
#[derive(Clone, Debug)]
pub struct Controller {
    sampler: RateSampler,
    rtt: RttEstimator,
    algorithm: Algorithm,
    ca_state: CaState,
    last_sent: Time,
    mss: u32,
    /// The algorithm's outputs after the last event: hosts ask for them far more often than they change.
    cwnd: u32,
    pacing_rate: Rate,
}

impl Controller {
    /// A controller for a connection that begins now.
    pub fn new(config: &AlgorithmConfig, init: &Init) -> Self {
        let algorithm = match config {
            AlgorithmConfig::Fixed(p) => Algorithm::Fixed(Fixed::new(p)),
            AlgorithmConfig::Reno(p) => Algorithm::LossBased(LossBased::reno(p, init)),
            AlgorithmConfig::Cubic(p) => Algorithm::LossBased(LossBased::cubic(p, init)),
            AlgorithmConfig::Bbr1(p) => Algorithm::Bbr1(Bbr1::new(p, init)),
            AlgorithmConfig::Bbr1Draft00(p) => Algorithm::Bbr1(Bbr1::new_draft00(p, init)),
            AlgorithmConfig::Bbr3(edition, p) => Algorithm::Bbr3(Bbr3::new(p, *edition, init)),
            AlgorithmConfig::Variant(p) => Algorithm::Variant(Variant::new(p, init)),
            AlgorithmConfig::Davis(p) => Algorithm::Davis(Davis::new(p, init)),
        };
        let mut rtt = RttEstimator::default();
        if let Some(srtt) = init.srtt {
            rtt.on_min_sample(init.now, srtt);
            rtt.on_sample(init.now, srtt, 0, 0);
        }
        let mut controller = Self {
            sampler: RateSampler::new(init.now),
            rtt,
            algorithm,
            ca_state: CaState::Open,
            last_sent: init.now,
            mss: init.mss.max(1),
            cwnd: 0,
            pacing_rate: Rate(0),
        };
        controller.note_outputs();
        controller
    }

    /// Ends every event that may have changed them.
    #[inline]
    fn note_outputs(&mut self) {
        (self.cwnd, self.pacing_rate) = match &self.algorithm {
            Algorithm::Fixed(flow) => (flow.cwnd(), flow.pacing_rate()),
            Algorithm::LossBased(flow) => (flow.cwnd(), flow.pacing_rate()),
            Algorithm::Bbr1(flow) => (flow.cwnd(), flow.pacing_rate()),
            Algorithm::Bbr3(flow) => (flow.cwnd(), flow.pacing_rate()),
            Algorithm::Variant(flow) => flow.outputs(),
            Algorithm::Davis(flow) => flow.outputs(),
        };
    }

    /// A burst of `packets` leaves at `now`, with `in_flight` others in flight and `packets_out` outstanding before it.
    /// Keep the token with each packet of the burst; a retransmission gets a new one.
    #[inline]
    pub fn on_sent(&mut self, now: Time, packets: u32, in_flight: u32, packets_out: u32, is_retransmit: bool) -> Token {
        if in_flight == 0 {
            self.on_tx_start(now, packets_out == 0);
        }
        if let Algorithm::LossBased(flow) = &mut self.algorithm {
            flow.on_sent(packets);
            self.note_outputs();
        }
        self.last_sent = now;
        self.sampler.on_sent(now, in_flight.saturating_add(packets), packets_out == 0, is_retransmit)
    }

    #[cold]
    fn on_tx_start(&mut self, now: Time, none_outstanding: bool) {
        let start = TxStart {
            now,
            delivered: self.sampler.delivered(),
            app_limited: self.sampler.is_app_limited(),
            idle: now.since(self.last_sent),
            delivered_time_us: self.sampler.delivered_time_us(),
            srtt: self.rtt.smoothed(),
            rto: self.rtt.rto(),
            none_outstanding,
            tick: None,
        };
        match &mut self.algorithm {
            Algorithm::Fixed(_) | Algorithm::Davis(_) => {}
            Algorithm::LossBased(flow) => flow.on_tx_start(&start),
            Algorithm::Bbr1(flow) => flow.on_tx_start(&start),
            Algorithm::Variant(flow) => flow.on_tx_start(&start),
            Algorithm::Bbr3(flow) => flow.on_tx_start(&start),
        }
        self.note_outputs();
    }

    /// A packet was reported delivered for the first time. `seq` is its place among packets sent at the same moment.
    #[inline]
    pub fn on_delivered(&mut self, token: &Token, seq: u64) {
        self.sampler.on_delivered(token, seq);
    }

    /// Several packets were reported delivered for the first time, of which this is the newest: by its time of sending, then by `seq`.
    #[inline]
    pub fn on_delivered_run(&mut self, packets: u64, newest: &Token, seq: u64) {
        self.sampler.on_delivered_run(packets, newest, seq);
    }

    /// Packets were marked lost. Hosts that know which ones say so by [`Self::on_lost_packet`]; BBRv2 and later need that.
    pub fn on_lost(&mut self, packets: u64) {
        self.sampler.on_lost(packets);
        if let Algorithm::Bbr3(flow) = &mut self.algorithm
            && packets > 0
        {
            flow.on_loss(self.sampler.delivered());
        }
    }

    /// Packets were marked lost by a timer, not by an ACK: they count, but belong to no sample.
    pub fn on_lost_by_timer(&mut self, packets: u64) {
        self.sampler.on_lost_by_timer(packets);
        if let Algorithm::Bbr3(flow) = &mut self.algorithm
            && packets > 0
        {
            flow.on_loss(self.sampler.delivered());
        }
    }

    /// This packet was marked lost. `seq` is its place in the stream: consecutive ones lost together are one gap.
    // spec: draft-ietf-ccwg-bbr #per-loss-steps HandleLostPacket
    pub fn on_lost_packet(&mut self, now: Time, token: &Token, seq: u64) {
        self.sampler.on_lost(1);
        self.tell_lost(now, token, seq);
    }

    /// This packet was marked lost by a timer, not by an ACK: it counts, but belongs to no sample.
    pub fn on_lost_packet_by_timer(&mut self, now: Time, token: &Token, seq: u64) {
        self.sampler.on_lost_by_timer(1);
        self.tell_lost(now, token, seq);
    }

    fn tell_lost(&mut self, now: Time, token: &Token, seq: u64) {
        if let Algorithm::Bbr3(flow) = &mut self.algorithm {
            flow.on_lost_packet(&Lost {
                now,
                seq,
                tx_in_flight: token.tx_in_flight(),
                lost: self.sampler.lost_since(token),
                is_app_limited: token.is_app_limited(),
                delivered: self.sampler.delivered(),
            });
            self.note_outputs();
        }
    }

    /// A tail loss probe that repeated data was answered; whether it repaired a loss is told by [`Self::on_tlp_recovery`].
    // spec: google/bbr v3 is_acking_tlp_retrans_seq
    pub const fn on_tlp_ack(&mut self) {
        if let Algorithm::Bbr3(flow) = &mut self.algorithm {
            flow.on_tlp_ack();
        }
    }

    /// A tail loss probe was answered in a way that shows that it repaired a loss. Tell it before the ACK that shows it;
    /// `app_limited` if the application was the limit when what it repeats was sent.
    // spec: google/bbr v3 CA_EVENT_TLP_RECOVERY
    pub fn on_tlp_recovery(&mut self, now: Time, app_limited: bool) {
        if let Algorithm::Bbr3(flow) = &mut self.algorithm {
            flow.on_tlp_recovery(now, self.sampler.delivered(), app_limited);
            self.note_outputs();
        }
    }

    /// The ACK in progress reports congestion marks; of the packets that it delivers, it counts so many as marked.
    // spec: Linux tcp_newly_delivered
    pub fn on_congestion_mark(&mut self, packets: u64) {
        if let Algorithm::Bbr3(flow) = &mut self.algorithm {
            self.sampler.on_congestion_mark(packets);
            flow.on_congestion_mark(packets);
        }
    }

    /// A timer began a recovery: loss-based algorithms reduce their window at once, as if one packet had been delivered.
    // spec: Linux tcp_rack_reo_timeout
    pub fn on_recovery_by_timer(&mut self, now: Time, in_flight: u32) {
        let mut ack = self.bare_ack(now);
        ack.in_flight = in_flight;
        ack.rs.acked_sacked = 1;
        if let Algorithm::LossBased(flow) = &mut self.algorithm {
            flow.reduce(&ack);
        }
        self.note_outputs();
    }

    /// The host's recovery state becomes `new`. Tell it before the ACK that shows why. For time-outs: [`Self::on_rto`].
    pub fn on_ca_state(&mut self, new: CaState) {
        let old = core::mem::replace(&mut self.ca_state, new);
        if new != old {
            match &mut self.algorithm {
                Algorithm::Fixed(_) | Algorithm::Davis(_) => {}
                Algorithm::LossBased(flow) => flow.on_ca_state(new),
                Algorithm::Bbr1(flow) => flow.on_ca_state(old, new),
                Algorithm::Variant(flow) => flow.on_ca_state(old, new),
                Algorithm::Bbr3(flow) => flow.on_ca_state(old, new),
            }
            self.note_outputs();
        }
    }

    /// A retransmission time-out; what it lost has been told. `first` of this loss episode: the past is worth remembering.
    pub fn on_rto(&mut self, now: Time, in_flight: u32, first: bool) {
        let mut ack = self.bare_ack(now);
        ack.in_flight = in_flight;
        self.ca_state = CaState::Loss;
        each!(&mut self.algorithm, flow => flow.on_rto(&ack, first));
        self.note_outputs();
    }

    /// What was marked lost in this episode had arrived after all: the reduction is taken back.
    pub fn on_undo(&mut self, now: Time) {
        let ack = self.bare_ack(now);
        each!(&mut self.algorithm, flow => flow.on_undo(&ack));
        self.note_outputs();
    }

    /// The application has nothing to send although window and pacer would let it.
    pub fn on_app_limited(&mut self, in_flight: u32) {
        self.sampler.on_app_limited(u64::from(in_flight));
    }

    /// The host should also look at the beginning of each ACK and timer whether the application has run dry, not only when it writes.
    // spec: draft-ietf-ccwg-bbr #detecting-application-limited-phases; google/bbr's kernel. Linux looks at writes only.
    pub const fn wants_app_limited_checks(&self) -> bool {
        matches!(self.algorithm, Algorithm::Bbr3(_))
    }

    /// For longer than a time-out no more than `used` packets of the window were used.
    pub fn on_cwnd_unused(&mut self, used: u32) {
        if let Algorithm::LossBased(flow) = &mut self.algorithm {
            flow.on_cwnd_unused(used);
        }
        self.note_outputs();
    }

    /// Payload bytes of a full packet changed.
    pub fn on_mss(&mut self, mss: u32) {
        self.mss = mss.max(1);
        match &mut self.algorithm {
            Algorithm::Fixed(_) => {}
            Algorithm::LossBased(flow) => flow.on_mss(mss),
            Algorithm::Bbr1(flow) => flow.on_mss(mss),
            Algorithm::Bbr3(flow) => flow.on_mss(mss),
            Algorithm::Variant(flow) => flow.on_mss(mss),
            Algorithm::Davis(flow) => flow.on_mss(mss),
        }
        self.note_outputs();
    }

    /// One ACK has been processed.
    pub fn on_ack(&mut self, report: &AckReport) {
        // Linux `FLAG_ACK_MAYBE_DELAYED`: a lone short packet, and nothing else was delivered since it was sent.
        let is_ack_delayed = report.is_ack_delayed && self.sampler.delivered_since_newest() == Some(1);
        if let Some(rtt) = report.rtt
            && !(is_ack_delayed && self.rtt.min().is_some_and(|min| rtt > min))
        {
            self.rtt.on_min_sample(report.now, rtt);
        }
        if let Some(rtt) = report.rtt_oldest {
            self.rtt.on_sample(report.now, rtt, report.una, report.next);
        }
        let min_rtt = self.rtt.min().unwrap_or(Span::ZERO);
        let mut rs = self.sampler.on_ack(report.now, min_rtt);
        rs.rtt_us = report.rtt.map(Span::as_micros);
        rs.prior_in_flight = u64::from(report.prior_in_flight);
        rs.is_ack_delayed = is_ack_delayed;
        let ack = Ack {
            now: report.now,
            rs,
            delivered: self.sampler.delivered(),
            delivered_time_us: self.sampler.delivered_time_us(),
            lost: self.sampler.lost(),
            in_flight: report.in_flight,
            ca_state: self.ca_state,
            srtt: self.rtt.smoothed(),
            edt: report.edt,
            una: report.una,
            next: report.next,
            advanced: report.advanced,
            cwnd_limited: report.cwnd_limited,
            packets_out: report.packets_out,
            paced: report.paced,
            may_raise_cwnd: report.may_raise_cwnd,
            tick: None,
        };
        let mut wants_app_limited = false;
        match &mut self.algorithm {
            Algorithm::Fixed(flow) => flow.on_ack(&ack),
            Algorithm::LossBased(flow) => flow.on_ack(&ack),
            Algorithm::Bbr1(flow) => {
                flow.on_ack(&ack);
                wants_app_limited = flow.wants_app_limited();
            }
            Algorithm::Bbr3(flow) => {
                flow.on_ack(&ack, &self.sampler.flight(&ack.rs));
                wants_app_limited = flow.wants_app_limited();
            }
            Algorithm::Variant(flow) => {
                flow.on_ack(&ack, self.sampler.send_elapsed_us());
                wants_app_limited = flow.wants_app_limited();
            }
            Algorithm::Davis(flow) => flow.on_ack(&ack),
        }
        self.note_outputs();
        if wants_app_limited {
            self.sampler.on_app_limited(u64::from(report.in_flight));
        }
    }

    /// An [`Ack`] that delivers nothing, for events outside ACKs.
    fn bare_ack(&self, now: Time) -> Ack {
        Ack {
            now,
            delivered: self.sampler.delivered(),
            delivered_time_us: self.sampler.delivered_time_us(),
            lost: self.sampler.lost(),
            ca_state: self.ca_state,
            srtt: self.rtt.smoothed(),
            ..Ack::default()
        }
    }

    /// Packets that may be in flight.
    #[inline]
    pub const fn cwnd(&self) -> u32 {
        self.cwnd
    }

    /// Bytes that may be in flight, for transports that count bytes.
    pub fn cwnd_bytes(&self) -> u64 {
        if let Algorithm::Bbr3(flow) = &self.algorithm {
            return flow.cwnd_bytes();
        }
        u64::from(self.cwnd()) * u64::from(self.mss)
    }

    /// The rate at which to send. Enforce it if [`Self::needs_pacing`]; it also sizes bursts.
    #[inline]
    pub const fn pacing_rate(&self) -> Rate {
        self.pacing_rate
    }

    /// The algorithm is only itself when its pacing rate is enforced.
    pub const fn needs_pacing(&self) -> bool {
        matches!(self.algorithm, Algorithm::Bbr1(_) | Algorithm::Bbr3(_) | Algorithm::Variant(_))
    }

    /// Bytes that may leave at once: about a millisecond of the pacing rate.
    // spec: Linux tcp_tso_autosize
    pub fn send_quantum(&self) -> u64 {
        if let Some(bytes) = self.own_quantum() {
            return bytes;
        }
        let burst = (self.pacing_rate().as_bytes_per_sec() >> 10).min(65_536);
        burst.max(u64::from(self.min_tso_segs()) * u64::from(self.mss))
    }

    /// The quantum in bytes, if the algorithm decides on it by itself, whatever else the host would do.
    // spec: draft-ietf-ccwg-bbr #send-quantum-bbrsendquantum
    pub const fn own_quantum(&self) -> Option<u64> {
        match &self.algorithm {
            Algorithm::Bbr3(flow) => flow.send_quantum(),
            _ => None,
        }
    }

    /// Smallest burst in packets (Linux `min_tso_segs`).
    pub const fn min_tso_segs(&self) -> u32 {
        match &self.algorithm {
            Algorithm::Bbr1(flow) => flow.min_tso_segs(),
            Algorithm::Bbr3(flow) => flow.min_tso_segs(),
            Algorithm::Variant(flow) => flow.min_tso_segs(),
            Algorithm::Fixed(_) | Algorithm::LossBased(_) | Algorithm::Davis(_) => 2,
        }
    }

    /// The window still doubles every round.
    pub fn in_slow_start(&self) -> bool {
        match &self.algorithm {
            Algorithm::Fixed(_) => false,
            Algorithm::LossBased(flow) => flow.in_slow_start(),
            // Linux: BBR never sets a threshold that its window would reach.
            Algorithm::Bbr1(flow) => flow.state() == State::Startup,
            Algorithm::Bbr3(flow) => flow.state() == State::Startup,
            Algorithm::Variant(flow) => flow.state() == State::Startup,
            Algorithm::Davis(flow) => flow.in_slow_start(),
        }
    }

    /// The recovery state last told.
    pub const fn ca_state(&self) -> CaState {
        self.ca_state
    }

    /// The RTT estimator.
    pub const fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// The delivery-rate sampler.
    pub const fn sampler(&self) -> &RateSampler {
        &self.sampler
    }

    /// What the algorithm is doing.
    pub fn state(&self) -> State {
        each!(&self.algorithm, flow => flow.state())
    }

    /// What the algorithm thinks, for traces.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = each!(&self.algorithm, flow => flow.snapshot());
        snapshot.min_rtt = snapshot.min_rtt.or(self.rtt.min());
        snapshot
    }

    /// The whole model of BBRv2 and BBRv3; `None` of the others.
    pub fn bbr3_inside(&self) -> Option<crate::Bbr3Inside> {
        match &self.algorithm {
            Algorithm::Bbr3(flow) => Some(flow.inside()),
            _ => None,
        }
    }

    /// Everything BBRv1 remembers; `None` of the others.
    pub fn bbr1_inside(&self) -> Option<crate::Bbr1Inside> {
        match &self.algorithm {
            Algorithm::Bbr1(flow) => Some(flow.inside()),
            _ => None,
        }
    }
}

/// Recovery for hosts that have no such state machine: an episode lasts until a packet sent after its beginning is delivered.
///
/// Tell each loss and each delivered token; hand the result to [`Controller::on_ca_state`] before [`Controller::on_ack`].
#[derive(Clone, Copy, Debug, Default)]
pub struct SimpleRecovery {
    began: Option<Time>,
}

impl SimpleRecovery {
    /// A packet was found lost at `now`.
    pub const fn on_lost(&mut self, now: Time) -> CaState {
        if self.began.is_none() {
            self.began = Some(now);
        }
        CaState::Recovery
    }

    /// A packet was delivered.
    #[inline]
    pub fn on_delivered(&mut self, token: &Token) -> CaState {
        if self.began.is_some_and(|began| token.send_time() > began) {
            self.began = None;
        }
        if self.began.is_some() { CaState::Recovery } else { CaState::Open }
    }
}
