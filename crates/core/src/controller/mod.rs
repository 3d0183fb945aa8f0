//! The controller that a transport hosts. Inputs: packets sent, ACKs, losses. Outputs: window, pacing rate, send quantum.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod events;
mod outputs;

use crate::algorithm::{Algorithm, Outputs};
use crate::episode::{Episode, Outcome};
use crate::event::{Ack, CaState, Init, TxStart};
use crate::host::{AckBatch, AckInfo, AckRtt, AckStart, Flight, OpenAck, Sent};
use crate::registry::{AlgorithmConfig, AnyAlgorithm};
use crate::resume::Resume;
use crate::rtt::RttEstimator;
use crate::sampler::{PacketToken, RateSampler};
use crate::state::State;
use crate::units::{Rate, Span, Time};

/// A bound below this would stop the flow for good. Ours: a byte a second.
const LEAST_RATE: Rate = Rate::bytes_per_sec(1);

/// A congestion controller with its delivery-rate sampler, RTT estimator and count of the data in flight.
///
/// `Controller` runs the algorithm named by its configuration; `Controller<Bbr1>` contains that one alone, in less memory.
#[derive(Clone, Debug)]
pub struct Controller<A: Algorithm = AnyAlgorithm> {
    sampler: RateSampler,
    rtt: RttEstimator,
    algorithm: A,
    /// The algorithm counts bytes.
    counts_bytes: bool,
    /// The algorithm needs `on_lost` for every loss.
    needs_on_lost: bool,
    /// The algorithm requires a check for an idle application at each ACK and timer.
    checks_app_limit: bool,
    /// The outputs after the last event: hosts read them far more often than they change.
    cwnd: u32,
    cwnd_bytes: u64,
    pacing_rate: Option<Rate>,
    state: State,
    mss: u32,
    ca_state: CaState,
    /// Latest time reported by the host; an earlier one counts as this.
    now: Time,
    last_sent: Time,
    flight: Flight,
    /// Volume sent and not delivered, losses included: an upper bound of later deliveries.
    undelivered: u64,
    /// Bytes delivered but not yet counted, less than a packet.
    uncounted: u64,
    /// Delivered volume up to which the window was full.
    limited_until: u64,
    epoch: u16,
    /// The ACK that has not ended yet, and its number.
    open: Option<AckStart>,
    serial: u32,
    /// The host keeps its own count of the data in flight.
    host_counts: bool,
    /// The controller's own loss recovery; `None` if the host has one.
    episode: Option<Episode>,
    resume: Resume,
    init: Init,
}

impl Controller {
    /// A controller for a connection that begins now.
    pub fn new(config: &AlgorithmConfig, init: &Init) -> Self {
        Self::with_algorithm(AnyAlgorithm::new(config, init), init)
    }

    /// Complete state of BBRv2 and BBRv3; `None` for other algorithms.
    #[cfg(feature = "unstable-internals")]
    pub fn bbr3_internals(&self) -> Option<crate::bbr3::Bbr3Internals> {
        self.algorithm.bbr3_internals()
    }

    /// Complete state of BBRv1; `None` for other algorithms.
    #[cfg(feature = "unstable-internals")]
    pub fn bbr1_internals(&self) -> Option<crate::bbr1::Bbr1Internals> {
        self.algorithm.bbr1_internals()
    }
}

impl<A: Algorithm> Controller<A> {
    /// A controller that runs this algorithm, made with the same `init`.
    pub fn with_algorithm(algorithm: A, init: &Init) -> Self {
        let mut controller = Self {
            sampler: RateSampler::new(init.now),
            rtt: first_rtt(init),
            counts_bytes: algorithm.counts_bytes(),
            needs_on_lost: algorithm.needs_on_lost(),
            checks_app_limit: algorithm.wants_app_limited_checks(),
            episode: Some(Episode::new(algorithm.continues_recovery())),
            algorithm,
            cwnd: 0,
            cwnd_bytes: 0,
            pacing_rate: None,
            state: State::Startup,
            mss: init.mss.max(1),
            ca_state: CaState::Open,
            now: init.now,
            last_sent: init.now,
            flight: Flight::NONE,
            undelivered: 0,
            uncounted: 0,
            limited_until: 0,
            epoch: 1,
            open: None,
            serial: 0,
            host_counts: false,
            resume: Resume::None,
            init: *init,
        };
        controller.note_outputs();
        controller
    }

    /// Leaves loss recovery to the host, which reports it with [`Self::on_ca_state`], [`Self::on_rto`] and [`Self::on_undo`].
    ///
    /// By default the controller keeps loss episodes itself: one begins with the first loss or mark, and ends with the delivery of a
    /// packet sent after it; with algorithms that [continue recovery](Algorithm::continues_recovery), after its last loss. A packet
    /// sent before belongs to it, even if its loss is reported later.
    #[must_use]
    pub fn with_host_recovery(mut self) -> Self {
        self.episode = None;
        self
    }

    /// Volume in the algorithm's unit.
    #[inline]
    fn volume(&self, flight: Flight) -> u64 {
        if self.counts_bytes { flight.bytes } else { flight.packets.into() }
    }

    /// Stores the outputs after an event. Returns true if the data now in flight measures the algorithm, not the path.
    #[inline(never)]
    fn note_outputs(&mut self) -> bool {
        let outputs = self.algorithm.outputs(self.mss);
        self.take(&outputs)
    }

    /// Data in flight, in the unit of the window.
    ///
    /// If the controller keeps the count, it is by bytes, as its host sends. A window that followed the number of packets would grow
    /// without end over small ones, and not at all if losses reported in bytes were taken for too many packets.
    #[inline]
    fn in_window(&self, flight: Flight) -> u64 {
        if self.host_counts || self.counts_bytes {
            return self.volume(flight);
        }
        flight.bytes.div_ceil(self.mss.into())
    }

    #[inline]
    fn take(&mut self, outputs: &Outputs) -> bool {
        self.cwnd = outputs.cwnd;
        self.cwnd_bytes = outputs.cwnd_bytes;
        self.pacing_rate = outputs.pacing_rate;
        self.state = outputs.state;
        if let Resume::Jumped { cwnd_bytes, rate, .. } = self.resume {
            self.raise_outputs(cwnd_bytes, rate);
        }
        if let Some(max) = self.init.max_pacing_rate {
            let max = max.max(LEAST_RATE);
            self.pacing_rate = Some(self.pacing_rate.map_or(max, |rate| rate.min(max)));
        }
        outputs.is_app_limited
    }

    #[cold]
    fn raise_outputs(&mut self, cwnd_bytes: u64, rate: Rate) {
        if cwnd_bytes > self.cwnd_bytes {
            self.cwnd_bytes = cwnd_bytes;
            self.cwnd = whole_packets(cwnd_bytes, self.mss);
        }
        self.pacing_rate = self.pacing_rate.map(|own| own.max(rate));
    }

    /// Time never runs backwards.
    #[inline]
    fn clock(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }

    /// Reports a sent packet or burst. Keep the token with each packet; a retransmission gets a new one.
    #[inline]
    pub fn on_sent(&mut self, now: Time, sent: &Sent) -> PacketToken {
        if sent.bytes == 0 || sent.packets == 0 {
            return PacketToken::default();
        }
        let now = self.clock(now);
        if sent.in_flight.is_some() {
            self.host_counts = true;
        }
        let before = sent.in_flight.unwrap_or(self.flight);
        let none_outstanding = sent.none_outstanding.unwrap_or(before.packets == 0);
        if before.packets == 0 {
            self.on_tx_start(now, none_outstanding);
        }
        self.algorithm.on_sent(sent.packets);
        self.last_sent = now;
        let after = before.with(sent.bytes.into(), sent.packets);
        self.flight = after;
        let counts_bytes = self.counts_bytes;
        let sent_volume = u64::from(if counts_bytes { sent.bytes } else { sent.packets });
        self.undelivered = self.undelivered.wrapping_add(sent_volume); // no connection sends 2^64 bytes
        let in_flight = self.volume(after);
        let is_full = if counts_bytes {
            after.bytes.saturating_add(self.mss.into()) > self.cwnd_bytes
        } else if sent.in_flight.is_some() {
            after.packets >= self.cwnd
        } else {
            self.in_window(after) >= self.cwnd.into()
        };
        if is_full {
            self.limited_until = self.sampler.delivered().saturating_add(in_flight);
        }
        let leaves = sent.departure.map_or(now, |departure| departure.max(now));
        self.sampler.on_sent(leaves, in_flight, none_outstanding, sent.is_retransmit).of(self.epoch, sent.bytes)
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
        self.algorithm.on_tx_start(&start);
        self.note_outputs();
    }

    /// Token of a part of a burst, for hosts that send bursts and receive ACKs of their parts.
    ///
    /// `packets_after` and `bytes_after` are the rest of the burst, sent after this part.
    pub fn part_of_burst(&self, token: &PacketToken, packets_after: u32, bytes_after: u32) -> PacketToken {
        token.before(if self.counts_bytes { bytes_after } else { packets_after })
    }

    /// Returns an empty batch for one ACK. Add the packets that it delivers, then pass it to [`Self::on_delivered`].
    #[inline]
    pub fn begin_ack(&self, now: Time) -> AckBatch {
        AckBatch::new(self.now.max(now), self.epoch)
    }

    /// Counts the packets that an ACK delivers. Then report its losses, marks and changes of recovery, and end it with
    /// [`Self::on_ack`].
    ///
    /// The count never exceeds the data sent: a packet acknowledged twice counts twice only while others are missing.
    #[allow(clippy::inline_always, reason = "a batch that stays in registers costs nothing")]
    #[inline(always)]
    pub fn on_delivered(&mut self, batch: AckBatch) -> OpenAck {
        if self.open.is_some() {
            self.end_dropped_ack();
        }
        let open = OpenAck { epoch: batch.epoch, serial: self.serial, packets: batch.packets };
        if batch.epoch != self.epoch {
            return open;
        }
        let prior_in_flight = self.flight;
        let now = self.clock(batch.now);
        if batch.newest.epoch() != self.epoch {
            self.open = Some(AckStart { now, prior_in_flight, send_time: None });
            return open;
        }
        let mut packets = batch.packets;
        let mut gone = batch.packets;
        if batch.uncounted_bytes > 0 {
            packets = packets.saturating_add(self.full_packets(batch.uncounted_bytes));
            gone = gone.saturating_add(self.packets_gone(batch.uncounted_bytes));
        }
        self.flight = self.flight.without(batch.bytes - batch.late_bytes, gone - batch.late_packets);
        if self.flight.bytes == 0 {
            self.flight.packets = 0;
        }
        let volume = if self.counts_bytes { batch.bytes } else { packets }.min(self.undelivered);
        self.undelivered -= volume;
        self.sampler.on_delivered(volume, &batch.newest, batch.number);
        if let Some(episode) = &mut self.episode
            && episode.on_delivered(batch.newest.send_time(), batch.late_packets) == Outcome::Undone
        {
            self.on_undo(self.now);
        }
        let send_time = if batch.newest.is_retransmit() { None } else { Some(batch.newest.send_time()) };
        self.open = Some(AckStart { now, prior_in_flight, send_time });
        OpenAck { packets: gone, ..open }
    }

    /// Reports packets that arrived twice, by the DSACK of the ACK in progress. They count as delivered, as in Linux.
    ///
    /// Call it before [`Self::on_delivered`].
    // spec: Linux tcp_dsack_seen
    #[cold]
    pub fn on_delivered_again(&mut self, now: Time, packets: u64, bytes: u64) {
        self.clock(now);
        let volume = if self.counts_bytes { bytes } else { packets }.min(self.undelivered);
        self.undelivered -= volume;
        self.sampler.on_delivered_again(volume);
    }

    /// Full packets that equal `bytes`, for a host that counts no packets; the remainder is kept for the next call.
    #[cold]
    fn full_packets(&mut self, bytes: u64) -> u64 {
        let mss = u64::from(self.mss);
        let all = self.uncounted.saturating_add(bytes);
        if bytes >= self.flight.bytes {
            self.uncounted = 0;
            return all.div_ceil(mss);
        }
        self.uncounted = all % mss;
        all / mss
    }

    /// Number of packets in flight that `bytes` stand for, if all have the same size.
    #[cold]
    fn packets_gone(&self, bytes: u64) -> u64 {
        let packets = u64::from(self.flight.packets);
        let left = self.flight.bytes.saturating_sub(bytes);
        if left == 0 || packets == 0 {
            return packets;
        }
        packets.saturating_sub(left.div_ceil((self.flight.bytes / packets).max(1)))
    }

    /// Ends the controller's own loss episode if it is over. The ACK that shows it has updated the model before: a round of loss
    /// begins with the episode, and is judged by that same ACK.
    #[inline]
    fn end_episode(&mut self) {
        if self.episode.as_mut().is_some_and(Episode::end) {
            self.change_ca_state(CaState::Open);
        }
    }

    /// Ends an ACK: updates the model by everything reported since [`Self::on_delivered`]. An ACK of another path changes nothing.
    #[allow(clippy::inline_always, reason = "mostly defaults, constant at the call site")]
    #[inline(always)]
    pub fn on_ack(&mut self, open: OpenAck, info: &AckInfo) {
        if open.epoch != self.epoch || open.serial != self.serial {
            return;
        }
        if let Some(start) = self.open.take() {
            // The latest time: a host may hold an ACK for a while after `on_delivered`.
            self.end_ack(&AckStart { now: self.now, ..start }, info);
        }
    }

    /// Takes the RTTs that the host measured from an open ACK, for timers and loss detection that use the estimates before it ends.
    /// [`AckRtt::Taken`] then ends it; `una_next` and `is_ack_delayed` have to be the same in both.
    #[inline]
    pub fn on_rtt(&mut self, open: &OpenAck, info: &AckInfo) {
        if let AckRtt::Measured { newest, oldest } = info.rtt
            && open.epoch == self.epoch
            && open.serial == self.serial
            && let Some(start) = self.open
        {
            self.take_rtt(start.now, newest, oldest, self.is_delayed(info), info);
        }
    }

    /// True if the receiver may have delayed this ACK: a lone short packet, and nothing else was delivered since it was sent.
    // spec: Linux FLAG_ACK_MAYBE_DELAYED
    #[inline]
    fn is_delayed(&self, info: &AckInfo) -> bool {
        let one = if self.counts_bytes { self.mss.into() } else { 1 };
        info.is_ack_delayed && self.sampler.delivered_since_newest().is_some_and(|volume| volume <= one)
    }

    /// Gives these samples to the estimator.
    #[allow(clippy::inline_always, reason = "runs for each ACK")]
    #[inline(always)]
    fn take_rtt(
        &mut self,
        now: Time,
        newest: Option<Span>,
        oldest: Option<Span>,
        is_ack_delayed: bool,
        info: &AckInfo,
    ) {
        if let Some(rtt) = newest {
            if !(is_ack_delayed && self.rtt.min().is_some_and(|min| rtt > min)) {
                self.rtt.on_min_sample(now, rtt);
            }
        }
        if let Some(rtt) = oldest {
            let counts = (self.sampler.newest_prior_delivered(), self.sampler.delivered());
            let (una, next) = info.una_next.unwrap_or(counts);
            self.rtt.on_sample(now, rtt, una, next);
        }
    }

    /// Ends an open ACK that its host dropped, so that the model still gets it.
    #[cold]
    #[inline(never)]
    fn end_dropped_ack(&mut self) {
        if let Some(start) = self.open.take() {
            self.end_ack(&start, &AckInfo::NONE);
        }
    }

    #[allow(clippy::inline_always, reason = "mostly defaults, constant at the call site")]
    #[inline(always)]
    fn end_ack(&mut self, open: &AckStart, info: &AckInfo) {
        self.serial = self.serial.wrapping_add(1);
        let now = open.now;
        let is_ack_delayed = self.is_delayed(info);
        let (rtt, oldest) = match info.rtt {
            AckRtt::Measured { newest, oldest } => (newest, oldest),
            AckRtt::Taken { newest } => (newest, None),
            AckRtt::None => (None, None),
            AckRtt::Newest => {
                let rtt = open.send_time.map(|sent| now.since(sent));
                (rtt, rtt)
            }
        };
        let untaken = if matches!(info.rtt, AckRtt::Taken { .. }) { None } else { rtt };
        self.take_rtt(now, untaken, oldest, is_ack_delayed, info);
        let mut rs = self.sampler.sample(now, self.rtt.min_us());
        let (prior, after) = info.in_flight.unwrap_or((open.prior_in_flight, self.flight));
        self.flight = after;
        rs.rtt_us = rtt.map(Span::as_micros);
        rs.prior_in_flight = if info.in_flight.is_some() { self.volume(prior) } else { self.in_window(prior) };
        rs.is_ack_delayed = is_ack_delayed;
        let delivered = self.sampler.delivered();
        let (una, next) = info.una_next.unwrap_or((rs.prior_delivered, delivered));
        let in_flight = if info.in_flight.is_some() { self.volume(after) } else { self.in_window(after) };
        let ack = Ack {
            now,
            rs,
            delivered,
            delivered_time_us: self.sampler.delivered_time_us(),
            lost: self.sampler.lost(),
            in_flight,
            ca_state: self.ca_state,
            srtt: self.rtt.smoothed(),
            edt: info.edt.unwrap_or(now),
            una,
            next,
            advanced: !info.is_duplicate,
            // Before this ACK: one that delivers the whole window was limited by it.
            cwnd_limited: info.cwnd_limited.unwrap_or(delivered - rs.acked_sacked < self.limited_until),
            packets_out: info.packets_out.unwrap_or(after.packets),
            paced: !info.is_unpaced,
            may_raise_cwnd: info.may_raise_cwnd.unwrap_or(rs.acked_sacked > 0),
            tick: None,
        };
        if !matches!(self.resume, Resume::None) {
            self.resume.on_delivered(delivered);
            self.try_resume();
        }
        let outputs = self.algorithm.process(&ack, &mut self.sampler, self.mss);
        if self.take(&outputs) {
            self.sampler.on_app_limited(self.volume(after));
        }
        self.end_episode();
    }

    /// An [`Ack`] that delivers nothing, for events outside ACKs.
    fn bare_ack(&mut self, now: Time) -> Ack {
        Ack {
            now: self.clock(now),
            delivered: self.sampler.delivered(),
            delivered_time_us: self.sampler.delivered_time_us(),
            lost: self.sampler.lost(),
            in_flight: self.in_window(self.flight),
            ca_state: self.ca_state,
            srtt: self.rtt.smoothed(),
            ..Ack::default()
        }
    }
}

fn first_rtt(init: &Init) -> RttEstimator {
    let mut rtt = RttEstimator::default();
    if let Some(srtt) = init.srtt {
        rtt.on_min_sample(init.now, srtt);
        rtt.on_sample(init.now, srtt, 0, 0);
    }
    rtt
}

/// At least one.
fn whole_packets(bytes: u64, mss: u32) -> u32 {
    u32::try_from(bytes / u64::from(mss.max(1))).unwrap_or(u32::MAX).max(1)
}
