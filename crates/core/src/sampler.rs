//! The delivery-rate sampler with Linux's semantics (`tcp_rate.c`; draft-ietf-ccwg-bbr #delivery-rate-samples). Usable alone.
//!
//! It counts volume in the unit of its input: bytes, as in the draft, or packets, as in Linux.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::units::{Span, Time};

/// State that the sampler needs back when a packet is delivered or lost. The host stores it with each packet that it sends,
/// and replaces it when the packet is retransmitted. A token of another path, or of none ([`PacketToken::default`]), changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketToken {
    /// Draft: `P.delivered_time`, µs.
    delivered_time_us: u64,
    /// Draft: `P.send_time`, µs.
    send_us: u64,
    /// Draft: `P.delivered`.
    delivered: u64,
    /// Draft: `P.first_send_time`, µs; only the low bits, since only differences are used.
    first_send_us: u32,
    /// Draft: `P.lost`; low bits too.
    lost: u32,
    /// Packets reported with a congestion mark when this one was sent; low bits too.
    delivered_ce: u32,
    /// Draft: `P.tx_in_flight`.
    tx_in_flight: u32,
    /// Draft: `P.data_length`, bytes.
    bytes: u32,
    /// Path on which it was sent; 0 for none.
    epoch: u16,
    marks: u8,
}

/// Draft: `P.is_app_limited`.
const APP_LIMITED: u8 = 1;
/// Set for a retransmission.
const RETRANSMIT: u8 = 2;

impl PacketToken {
    pub(crate) const NONE: Self = Self {
        delivered_time_us: 0,
        send_us: 0,
        delivered: 0,
        first_send_us: 0,
        lost: 0,
        delivered_ce: 0,
        tx_in_flight: 0,
        bytes: 0,
        epoch: 0,
        marks: 0,
    };

    /// Time at which the packet was sent, rounded down to a microsecond.
    pub const fn send_time(&self) -> Time {
        Time::nanos(self.send_us.wrapping_mul(1_000)) // it was converted from nanoseconds that fit 64 bits
    }

    /// Time at which the packet was sent, in microseconds.
    #[inline]
    pub const fn send_us(&self) -> u64 {
        self.send_us
    }

    /// Bytes of the packet as the controller counts them.
    #[inline]
    pub const fn bytes(&self) -> u32 {
        self.bytes
    }

    /// True if the packet was a retransmission.
    pub const fn is_retransmit(&self) -> bool {
        self.marks & RETRANSMIT != 0
    }

    /// True if the application was the limit when the packet was sent.
    pub const fn is_app_limited(&self) -> bool {
        self.marks & APP_LIMITED != 0
    }

    /// Volume in flight right after the packet was sent, including itself (draft: `P.tx_in_flight`); 2^32 − 1 for more than that.
    #[inline]
    pub const fn tx_in_flight(&self) -> u32 {
        self.tx_in_flight
    }

    /// Path on which it was sent.
    #[inline]
    pub(crate) const fn epoch(&self) -> u16 {
        self.epoch
    }

    /// The same packet with this path and this size.
    #[inline]
    pub(crate) const fn of(mut self, epoch: u16, bytes: u32) -> Self {
        self.epoch = epoch;
        self.bytes = bytes;
        self
    }

    /// The same packet without `rest` of its burst in flight.
    // spec: google/bbr v3 tcp_fragment, tcp_shifted_skb
    pub(crate) const fn before(mut self, rest: u32) -> Self {
        self.tx_in_flight = self.tx_in_flight.saturating_sub(rest);
        self
    }

    /// True if sent later than the other; `number` and `other_number` decide between packets sent at the same time.
    #[inline]
    pub(crate) const fn is_newer(&self, number: u64, other: &Self, other_number: u64) -> bool {
        self.send_us > other.send_us || (self.send_us == other.send_us && number > other_number)
    }
}

/// Delivery-rate sample of one ACK (Linux `struct rate_sample`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateSample {
    /// Volume delivered over the interval; `None` if this ACK delivered nothing.
    pub delivered: Option<u64>,
    /// Length of the interval, µs; `None` if it is shorter than any real round trip.
    pub interval_us: Option<u64>,
    /// The connection's delivered count when the newest delivered packet was sent.
    pub prior_delivered: u64,
    /// RTT of this ACK, µs.
    pub rtt_us: Option<u64>,
    /// Volume newly marked lost.
    pub losses: u64,
    /// Volume newly delivered.
    pub acked_sacked: u64,
    /// Volume in flight before this ACK.
    pub prior_in_flight: u64,
    /// True if the sample measures the application rather than the path.
    pub is_app_limited: bool,
    /// True if the receiver probably delayed the ACK, so that its RTT is not the path's.
    pub is_ack_delayed: bool,
}

/// State of the flight in which an ACK's newest packet was sent. The rest of the draft's `RS`, used only by BBRv2 and later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlightSample {
    /// Volume in flight right after that packet was sent (draft: `RS.tx_in_flight`); 0 if the ACK delivered nothing.
    pub tx_in_flight: u32,
    /// Volume marked lost since then (draft: `RS.lost`).
    pub lost: u32,
    /// Packets delivered since then and reported with a congestion mark.
    pub delivered_ce: u32,
    /// True if the ACK reports a congestion mark.
    pub is_ece: bool,
    /// True if that packet was a retransmission.
    pub is_retransmit: bool,
}

/// The newest packet that the present ACK delivered.
#[derive(Clone, Copy, Debug, Default)]
struct NewestPacket {
    token: PacketToken,
    seq: u64,
    any: bool,
}

/// Counts the deliveries of a connection, and turns each ACK into a [`RateSample`].
///
/// ```
/// use bbrlab_core::{Span, Time, estimators::RateSampler};
/// let mut sampler = RateSampler::new(Time::ZERO);
/// let token = sampler.on_sent(Time::micros(0), 1_200, true, false);
/// sampler.on_delivered(1_200, &token, 0);
/// let sample = sampler.on_ack(Time::micros(40_000), Span::millis(40));
/// assert_eq!((sample.delivered, sample.interval_us), (Some(1_200), Some(40_000)));
/// ```
#[derive(Clone, Debug)]
pub struct RateSampler {
    /// Draft: `C.delivered`.
    delivered: u64,
    /// Draft: `C.delivered_time`, µs.
    delivered_time_us: u64,
    /// Draft: `C.first_send_time`, µs.
    first_send_us: u64,
    /// Draft: `C.app_limited`: the delivered count at which the bubble has left the path; 0 for none.
    app_limited: u64,
    /// Draft: `C.lost`.
    lost: u64,
    /// Packets reported with a congestion mark.
    delivered_ce: u64,
    /// `delivered` and `lost` when the last ACK had been processed.
    prior: (u64, u64),
    /// True if the ACK in progress reports a congestion mark.
    is_ece: bool,
    newest: NewestPacket,
}

impl RateSampler {
    /// Creates a sampler for a connection that begins now.
    pub const fn new(now: Time) -> Self {
        Self {
            delivered: 0,
            delivered_time_us: now.as_micros(),
            first_send_us: now.as_micros(),
            app_limited: 0,
            lost: 0,
            delivered_ce: 0,
            prior: (0, 0),
            is_ece: false,
            newest: NewestPacket { token: PacketToken::NONE, seq: 0, any: false },
        }
    }

    /// Volume delivered so far.
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Time at which the newest of it was reported, µs.
    pub const fn delivered_time_us(&self) -> u64 {
        self.delivered_time_us
    }

    /// Volume marked lost so far.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// True if packets sent now would be marked app-limited.
    pub const fn is_app_limited(&self) -> bool {
        self.app_limited != 0
    }

    /// Packets reported with a congestion mark so far.
    pub const fn delivered_ce(&self) -> u64 {
        self.delivered_ce
    }

    /// Records a packet that leaves at `now`; `in_flight` includes it. `none_outstanding` if nothing sent earlier awaits an ACK.
    // spec: draft-ietf-ccwg-bbr #transmitting-a-data-packet OnPacketSent. Differs: as in Linux, lost packets count as outstanding.
    #[inline]
    pub fn on_sent(&mut self, now: Time, in_flight: u64, none_outstanding: bool, is_retransmit: bool) -> PacketToken {
        let now_us = now.as_micros();
        if none_outstanding {
            self.first_send_us = now_us;
            self.delivered_time_us = now_us;
        }
        let app_limited = if self.app_limited == 0 { 0 } else { APP_LIMITED };
        let retransmit = if is_retransmit { RETRANSMIT } else { 0 };
        PacketToken {
            delivered_time_us: self.delivered_time_us,
            send_us: now_us,
            delivered: self.delivered,
            first_send_us: self.first_send_us as u32,
            lost: self.lost as u32,
            delivered_ce: self.delivered_ce as u32,
            tx_in_flight: if in_flight > u32::MAX as u64 { u32::MAX } else { in_flight as u32 },
            bytes: 0,
            epoch: 0,
            marks: app_limited | retransmit,
        }
    }

    /// Adds a volume delivered for the first time. `newest` is the token of its newest packet, by its time of sending, then by
    /// `seq`, which orders packets sent at the same time.
    // spec: draft-ietf-ccwg-bbr #upon-receiving-an-ack UpdateRateSample; Linux tcp_rate_skb_delivered
    #[inline]
    pub fn on_delivered(&mut self, volume: u64, newest: &PacketToken, seq: u64) {
        self.count(volume);
        if !self.newest.any || newest.is_newer(seq, &self.newest.token, self.newest.seq) {
            self.newest = NewestPacket { token: *newest, seq, any: true };
        }
    }

    /// Adds a volume that arrived more often than needed: it counts, but measures no packet's time.
    // spec: Linux tcp_dsack_seen
    pub const fn on_delivered_again(&mut self, volume: u64) {
        self.count(volume);
    }

    #[inline]
    const fn count(&mut self, volume: u64) {
        self.delivered = self.delivered.saturating_add(volume);
    }

    /// Volume that had been delivered when the newest packet of this ACK was sent. Call it before
    /// [`Self::on_ack`]; `None` if the ACK delivers nothing.
    pub fn newest_delivered_before(&self) -> Option<u64> {
        self.newest.any.then_some(self.newest.token.delivered)
    }

    /// Adds a volume marked lost.
    pub const fn on_lost(&mut self, volume: u64) {
        self.lost = self.lost.saturating_add(volume);
    }

    /// Adds a volume marked lost by a timer: it counts, but belongs to no ACK's sample.
    pub const fn on_lost_by_timer(&mut self, volume: u64) {
        self.lost = self.lost.saturating_add(volume);
        self.prior.1 = self.prior.1.saturating_add(volume);
    }

    /// Adds packets of this ACK that were reported with a congestion mark; 0 if only the mark itself was reported.
    pub const fn on_congestion_mark(&mut self, packets: u64) {
        self.delivered_ce = self.delivered_ce.saturating_add(packets);
        self.is_ece = true;
    }

    /// Returns the volume marked lost since a packet was sent.
    // 32 bits are exact if less than 2^32 is lost between a packet's sending and its end.
    pub const fn lost_since(&self, token: &PacketToken) -> u32 {
        (self.lost as u32).wrapping_sub(token.lost)
    }

    /// Returns the rest of the sample that [`Self::on_ack`] has just made. Call it after each ACK, or its marks count for the next.
    #[inline]
    pub fn flight(&mut self, sample: &RateSample) -> FlightSample {
        let is_ece = core::mem::take(&mut self.is_ece);
        if sample.delivered.is_none() {
            return FlightSample { is_ece, ..FlightSample::default() };
        }
        let token = &self.newest.token;
        FlightSample {
            tx_in_flight: token.tx_in_flight(),
            lost: self.lost_since(token),
            delivered_ce: (self.delivered_ce as u32).wrapping_sub(token.delivered_ce),
            is_ece,
            is_retransmit: token.is_retransmit(),
        }
    }

    /// Time taken to send the volume of the last sample from [`Self::on_ack`], µs; the sample's interval is that or longer.
    #[cfg(feature = "variants")]
    pub(crate) fn send_elapsed_us(&self) -> u64 {
        let packet = &self.newest.token;
        u64::from((packet.send_us as u32).wrapping_sub(packet.first_send_us))
    }

    /// Volume delivered since the newest packet of this ACK was sent, including that packet.
    pub(crate) fn delivered_since_newest(&self) -> Option<u64> {
        self.newest.any.then(|| self.delivered.saturating_sub(self.newest.token.delivered))
    }

    /// Volume that had been delivered when the newest packet of this ACK was sent, or of the last ACK that delivered any.
    pub(crate) const fn newest_prior_delivered(&self) -> u64 {
        self.newest.token.delivered
    }

    /// Marks the flow as limited by the application: samples of the data now in flight measure the application.
    // spec: draft-ietf-ccwg-bbr #detecting-application-limited-phases; Linux tcp_rate_check_app_limited
    pub fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited = self.delivered.saturating_add(in_flight).max(1);
    }

    /// Makes the sample, after all deliveries and losses of one ACK were reported. `min_rtt` is the connection's smallest RTT.
    // spec: draft-ietf-ccwg-bbr #upon-receiving-an-ack GenerateRateSample; Linux tcp_rate_gen
    #[inline]
    pub fn on_ack(&mut self, now: Time, min_rtt: Span) -> RateSample {
        self.sample(now, min_rtt.as_micros())
    }

    /// The same for a host that keeps its smallest RTT in µs.
    #[inline]
    pub(crate) fn sample(&mut self, now: Time, min_rtt_us: u64) -> RateSample {
        if self.app_limited != 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        let acked_sacked = self.delivered - self.prior.0;
        let losses = self.lost.saturating_sub(self.prior.1);
        self.prior = (self.delivered, self.lost);
        if acked_sacked > 0 {
            self.delivered_time_us = now.as_micros();
        }
        let mut sample = RateSample { losses, acked_sacked, ..RateSample::default() };
        if !self.newest.any {
            return sample;
        }
        self.newest.any = false;
        let packet = &self.newest.token;
        self.first_send_us = packet.send_us;
        sample.prior_delivered = packet.delivered;
        sample.is_app_limited = packet.is_app_limited();
        sample.delivered = Some(self.delivered.saturating_sub(packet.delivered));
        // Exact below 71 minutes; after that long without a delivery, the interval of the ACKs is the longer one.
        let send_elapsed = u64::from((packet.send_us as u32).wrapping_sub(packet.first_send_us));
        let ack_elapsed = now.as_micros().saturating_sub(packet.delivered_time_us);
        let interval_us = send_elapsed.max(ack_elapsed);
        // An interval below the smallest RTT comes from a spurious retransmission or a compressed clock.
        if interval_us >= min_rtt_us && interval_us > 0 {
            sample.interval_us = Some(interval_us);
        }
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::millis(40);

    /// Sends `n` packets `gap` µs apart, and delivers each `rtt` later with spacing `ack_gap`; returns the last sample.
    fn train(gap: u64, ack_gap: u64, n: u64) -> RateSample {
        let mut sampler = RateSampler::new(Time::ZERO);
        let mut tokens = [PacketToken::default(); 64];
        for i in 0..n {
            tokens[i as usize] = sampler.on_sent(Time::micros(1 + i * gap), 1, i == 0, false);
        }
        let mut last = RateSample::default();
        for i in 0..n {
            sampler.on_delivered(1, &tokens[i as usize], i);
            last = sampler.on_ack(Time::micros(1 + 40_000 + i * ack_gap), RTT);
        }
        last
    }

    #[test]
    fn the_rate_is_the_slower_of_sending_and_acking() {
        let fast_acks = train(1_000, 100, 50);
        assert_eq!(fast_acks.interval_us, Some(49_000));
        let slow_acks = train(100, 1_000, 50);
        assert_eq!(slow_acks.interval_us, Some(40_000 + 49_000));
    }

    #[test]
    fn an_interval_below_the_smallest_rtt_makes_no_rate_sample() {
        let mut sampler = RateSampler::new(Time::ZERO);
        let token = sampler.on_sent(Time::micros(10), 1, true, false);
        sampler.on_delivered(1, &token, 0);
        assert_eq!(sampler.on_ack(Time::micros(39_000), RTT).interval_us, None);
    }

    #[test]
    fn an_ack_that_delivers_nothing_makes_no_sample_but_reports_its_losses() {
        let mut sampler = RateSampler::new(Time::ZERO);
        sampler.on_lost(3);
        let sample = sampler.on_ack(Time::micros(5), RTT);
        assert_eq!((sample.delivered, sample.losses, sample.acked_sacked), (None, 3, 0));
    }

    #[test]
    fn packets_sent_in_an_application_bubble_are_marked_until_the_bubble_has_left() {
        let mut sampler = RateSampler::new(Time::ZERO);
        sampler.on_app_limited(1);
        let marked = sampler.on_sent(Time::micros(1), 1, true, false);
        sampler.on_delivered(1, &marked, 0);
        assert!(sampler.on_ack(Time::micros(40_001), RTT).is_app_limited);
        let still = sampler.on_sent(Time::micros(40_002), 1, true, false);
        sampler.on_delivered(1, &still, 1);
        sampler.on_ack(Time::micros(80_002), RTT);
        assert!(!sampler.is_app_limited());
    }

    #[test]
    fn a_bubble_before_the_first_packet_marks_it() {
        let mut sampler = RateSampler::new(Time::ZERO);
        sampler.on_app_limited(0);
        assert!(sampler.on_sent(Time::micros(1), 1, true, false).is_app_limited());
    }

    /// Pitfall: samples whose packet was sent before anything was delivered are valid too.
    #[test]
    fn the_first_flight_makes_valid_samples() {
        assert_eq!(train(100, 100, 1).delivered, Some(1));
    }

    #[test]
    fn idle_time_is_not_counted_into_the_next_sample() {
        let mut sampler = RateSampler::new(Time::ZERO);
        let first = sampler.on_sent(Time::micros(1), 1, true, false);
        sampler.on_delivered(1, &first, 0);
        sampler.on_ack(Time::micros(40_001), RTT);
        let later = sampler.on_sent(Time::micros(9_000_000), 1, true, false);
        sampler.on_delivered(1, &later, 1);
        assert_eq!(sampler.on_ack(Time::micros(9_040_000), RTT).interval_us, Some(40_000));
    }

    #[test]
    fn a_token_holds_the_state_at_transmission() {
        let mut sampler = RateSampler::new(Time::ZERO);
        let plain = sampler.on_sent(Time::micros(5), 7, true, false);
        assert_eq!((plain.send_us(), plain.send_time(), plain.tx_in_flight()), (5, Time::micros(5), 7));
        assert!(!plain.is_retransmit() && !plain.is_app_limited() && !sampler.is_app_limited());
        sampler.on_app_limited(1);
        let marked = sampler.on_sent(Time::micros(6), u64::MAX, false, true);
        assert!(marked.is_retransmit() && marked.is_app_limited() && sampler.is_app_limited());
        assert_eq!(marked.tx_in_flight(), u32::MAX, "as much as there is room for");
        let again = sampler.on_sent(Time::micros(7), 3, false, true);
        assert_eq!((again.tx_in_flight(), again.is_retransmit()), (3, true));
    }

    #[test]
    fn a_flight_sample_tells_losses_and_marks_since_the_newest_packet_left() {
        let mut sampler = RateSampler::new(Time::ZERO);
        sampler.on_lost(10);
        sampler.on_congestion_mark(20);
        let token = sampler.on_sent(Time::micros(1), 7, true, true);
        sampler.on_lost(2);
        sampler.on_congestion_mark(3);
        sampler.on_delivered(1, &token, 0);
        let sample = sampler.on_ack(Time::micros(40_001), RTT);
        let told = FlightSample { tx_in_flight: 7, lost: 2, delivered_ce: 3, is_ece: true, is_retransmit: true };
        assert_eq!(sampler.flight(&sample), told);
        assert_eq!(sampler.flight(&sample), FlightSample { is_ece: false, ..told }, "a mark is reported once");
        assert_eq!((sampler.lost(), sampler.delivered_ce()), (12, 23));
        sampler.on_congestion_mark(0);
        let nothing = sampler.on_ack(Time::micros(40_002), RTT);
        assert_eq!(sampler.flight(&nothing), FlightSample { is_ece: true, ..FlightSample::default() });
    }

    #[test]
    fn the_newest_packet_is_the_one_sent_last_and_among_equals_the_one_of_the_highest_place() {
        for (order, newest) in [([0, 1, 2], 2), ([2, 1, 0], 2), ([1, 2, 0], 2), ([1, 0, 0], 1)] {
            let mut sampler = RateSampler::new(Time::ZERO);
            // Distinguished by the volume in flight: the second and the third leave together.
            let tokens = [(1, 1), (9, 2), (9, 3)].map(|(us, n)| sampler.on_sent(Time::micros(us), n, n == 1, false));
            for which in order {
                sampler.on_delivered(1, &tokens[which], which as u64);
            }
            let sample = sampler.on_ack(Time::micros(50_000), RTT);
            assert_eq!(sampler.flight(&sample).tx_in_flight as usize, newest + 1, "{order:?}");
        }
    }

    #[test]
    fn a_run_of_packets_counts_each_and_an_ack_what_is_new() {
        let mut sampler = RateSampler::new(Time::ZERO);
        let token = sampler.on_sent(Time::micros(1), 3, true, false);
        sampler.on_delivered(3, &token, 2);
        assert_eq!(sampler.on_ack(Time::micros(40_001), RTT).acked_sacked, 3);
        sampler.on_delivered(1, &token, 3);
        assert_eq!((sampler.on_ack(Time::micros(40_002), RTT).acked_sacked, sampler.delivered()), (1, 4));
    }

    #[test]
    fn losses_by_timer_count_in_total_but_in_no_rate_sample() {
        let mut sampler = RateSampler::new(Time::ZERO);
        sampler.on_lost_by_timer(3);
        assert_eq!((sampler.lost(), sampler.on_ack(Time::micros(5), RTT).losses), (3, 0));
    }

    #[test]
    fn an_ack_that_delivers_nothing_leaves_the_time_of_delivery_alone() {
        let mut sampler = RateSampler::new(Time::micros(3));
        sampler.on_ack(Time::micros(5), RTT);
        assert_eq!(sampler.delivered_time_us(), 3);
    }

    #[test]
    fn a_zero_interval_makes_no_rate_sample() {
        let mut sampler = RateSampler::new(Time::ZERO);
        let token = sampler.on_sent(Time::micros(5), 1, true, false);
        sampler.on_delivered(1, &token, 0);
        assert_eq!(sampler.on_ack(Time::micros(5), Span::ZERO).interval_us, None);
    }
}
