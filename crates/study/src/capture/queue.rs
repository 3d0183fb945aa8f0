//! The queue of a link, computed from the times at which packets were sent. Rate and base RTT are those at which such a queue explains when
//! the ACKs came: unlike the rate of ACKs, that needs neither a queue that stays busy nor many ACKs.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::VecDeque;

/// Packets from which rate and base RTT are found. Ours: 800 kB.
const WINDOW: usize = 16_384;
/// Attempts to find them. Ours: the application may be slower than the link at first.
const ATTEMPTS: usize = 4;
/// Packets of a short span and of a long one, unless the fate of one behind them is unknown. Ours: an ACK may come a packet early or late;
/// a short span is more often sent without a pause.
const SPAN_PACKETS: [usize; 2] = [8, 32];
/// Spans at the beginning, and the least share of their base RTT that the path's has. Ours: a connection begins on an empty link, and its
/// route may change.
const FIRST_SPANS: usize = 8;
const FIRST_SHARE: f64 = 0.5;
/// Rates tried, as multiples of what was delivered, and the ratio of each to the one before; the ratio close to the best one. Ours.
const RATES: (f64, f64, f64) = (0.9, 200.0, 1.02);
const FINE: f64 = 1.001;
/// Errors of an ACK's time from which a span does not agree, as shares of the time to serve the span, and an error that hosts may have, ns.
/// Ours: the smaller share tells rates apart, and the larger one allows for ACKs that come a packet early or late.
const ERROR_SHARES: [f64; 2] = [0.05, 0.2];
const ERROR_NS: f64 = 50_000.0;
/// Ratio from which a rate differs from the best one, and the number of spans by which the best must agree with more. Ours: where the link
/// is idle, spans agree with every rate above.
const APART: f64 = 1.25;
const GAIN: f64 = 10.0;
/// Least agreement. Ours: a link whose rate varies, or one shared with others, is not one queue of one rate.
const AGREEMENT: f64 = 0.35;

/// Share of the best agreement from which a faster link is as good, and the share of its agreement to which that of rates between falls.
/// Ours.
const AS_GOOD: f64 = 0.9;
const DIP: f64 = 0.8;

/// Fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Neither acknowledged nor declared lost.
    Unknown,
    /// Acknowledged.
    Arrived,
    /// Declared lost; the RTT of the newest ACK before, ns.
    Lost(u64),
}

/// A packet sent.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Number.
    pub number: u64,
    /// Time, ns.
    pub sent_ns: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Fate.
    pub fate: Fate,
    /// Arrival of the ACK whose newest packet it is, less the receiver's delay, ns; 0 if there is none.
    acked_ns: u64,
}

/// Rate and base RTT of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Served {
    /// Bytes on the wire per second.
    pub rate: f64,
    /// RTT without queue or serialisation, seconds.
    pub base_s: f64,
    /// Agreement of the times of ACKs with both, from 0 to 1.
    pub agreement: f64,
}

/// Smallest RTT of the handshake, and the bytes on the wire that it served.
#[derive(Clone, Copy, Debug)]
struct Handshake {
    rtt_ns: f64,
    bytes: f64,
}

/// Packets of a connection in the order in which they were sent.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    packets: VecDeque<Packet>,
    served: Option<Served>,
    attempts: usize,
    handshake: Option<Handshake>,
    /// Time at which the packet before had been served, on the clock of ACKs, ns.
    free_ns: f64,
}

impl Queue {
    /// Rate and base RTT, if they were found.
    pub const fn served(&self) -> Option<Served> {
        self.served
    }

    /// True if rate and base RTT were found, or are no longer looked for.
    pub const fn is_decided(&self) -> bool {
        self.served.is_some() || self.attempts == ATTEMPTS
    }

    /// Number of packets in memory.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Records the smallest RTT of the handshake, and the bytes on the wire that it served.
    pub fn on_handshake(&mut self, rtt_ns: u64, bytes: u64) {
        let seen = Handshake { rtt_ns: rtt_ns as f64, bytes: bytes as f64 };
        self.handshake = Some(self.handshake.filter(|before| before.rtt_ns <= seen.rtt_ns).unwrap_or(seen));
    }

    /// Records a packet sent.
    pub fn on_sent(&mut self, number: u64, sent_ns: u64, bytes: u64) {
        self.packets.push_back(Packet { number, sent_ns, bytes, fate: Fate::Unknown, acked_ns: 0 });
    }

    /// Records the fate of a packet, the first one it has. Returns false if the packet is not in memory.
    pub fn on_fate(&mut self, number: u64, fate: Fate) -> bool {
        let Some(packet) = self.packet(number) else { return false };
        if packet.fate == Fate::Unknown {
            packet.fate = fate;
        }
        true
    }

    /// Records that a packet declared lost has arrived. Returns false if it is not in memory.
    pub fn on_late(&mut self, number: u64) -> bool {
        let Some(packet) = self.packet(number) else { return false };
        packet.fate = Fate::Arrived;
        true
    }

    /// Records an ACK whose newest packet is this one, at the time at which it would have come without the receiver's delay.
    pub fn on_ack(&mut self, number: u64, acked_ns: u64) {
        if let Some(packet) = self.packet(number) {
            packet.acked_ns = acked_ns;
        }
    }

    fn packet(&mut self, number: u64) -> Option<&mut Packet> {
        let at = self.packets.binary_search_by_key(&number, |packet| packet.number).ok()?;
        self.packets.get_mut(at)
    }

    /// Hands over packets whose fate is known, in their order, each with its RTT by the queue, ns. There is none while rate and base RTT are
    /// unknown.
    pub fn settle(&mut self, is_last: bool, mut on_packet: impl FnMut(&Packet, Option<u64>)) {
        if self.served.is_none() {
            if self.packets.len() < WINDOW && !is_last {
                return;
            }
            if self.attempts < ATTEMPTS {
                self.attempts += 1;
                self.served = served(self.packets.make_contiguous(), self.handshake);
            }
        }
        while let Some(packet) = self.packets.front().copied() {
            if packet.fate == Fate::Unknown && !is_last && self.packets.len() < WINDOW {
                break;
            }
            self.packets.pop_front();
            let rtt_ns = self.served.map(|served| self.pass(&packet, &served));
            on_packet(&packet, rtt_ns);
        }
    }

    /// Serves a packet. Returns its RTT, ns; that of a lost one if the queue had had room.
    fn pass(&mut self, packet: &Packet, served: &Served) -> u64 {
        let base_ns = 1e9 * served.base_s;
        let sent_ns = packet.sent_ns as f64;
        let passed_ns = self.free_ns.max(sent_ns + base_ns) + 1e9 * packet.bytes as f64 / served.rate;
        if packet.acked_ns > 0 {
            self.free_ns = packet.acked_ns as f64;
        } else if packet.fate == Fate::Arrived {
            self.free_ns = passed_ns;
        }
        (passed_ns - sent_ns) as u64
    }
}

/// Packets behind an ACK's newest one up to that of a later ACK. Those that were lost are taken as dropped before the link.
#[derive(Clone, Copy, Debug)]
struct Span<'a> {
    /// Times of both ACKs, ns.
    free_ns: f64,
    acked_ns: f64,
    packets: &'a [Packet],
    bytes: f64,
}

fn spans(packets: &[Packet], least: usize) -> Vec<Span<'_>> {
    let newest: Vec<usize> = (0..packets.len()).filter(|&at| packets[at].acked_ns > 0).collect();
    let mut spans = Vec::new();
    let Some(&(mut from)) = newest.first() else { return spans };
    for pair in newest.windows(2) {
        let &[before, end] = pair else { continue };
        let is_known = packets[before + 1..=end].iter().all(|packet| packet.fate != Fate::Unknown);
        if !is_known || packets[end].acked_ns < packets[before].acked_ns {
            spans.extend(Span::of(packets, from, before));
            from = end;
        } else if end - from >= least {
            spans.extend(Span::of(packets, from, end));
            from = end;
        }
    }
    spans
}

impl<'a> Span<'a> {
    /// Packets behind the first place up to the last.
    fn of(packets: &'a [Packet], first: usize, last: usize) -> Option<Self> {
        let between = &packets[first + 1..=last];
        (last > first).then(|| Self {
            free_ns: packets[first].acked_ns as f64,
            acked_ns: packets[last].acked_ns as f64,
            packets: between,
            bytes: between.iter().filter(|packet| packet.fate == Fate::Arrived).map(|packet| packet.bytes as f64).sum(),
        })
    }

    /// Time at which its last packet's ACK comes if the link is free from `free_ns` on.
    fn served_ns(&self, free_ns: f64, base_ns: f64, byte_ns: f64) -> f64 {
        self.packets.iter().filter(|packet| packet.fate == Fate::Arrived).fold(free_ns, |free_ns, packet| {
            free_ns.max(packet.sent_ns as f64 + base_ns) + packet.bytes as f64 * byte_ns
        })
    }
}

/// Base RTT with this rate, ns: the smallest RTT less what a span's own packets wait for each other.
fn base_ns(spans: &[Span<'_>], byte_ns: f64) -> f64 {
    spans.iter().map(|span| span.acked_ns - span.served_ns(0.0, 0.0, byte_ns)).fold(f64::INFINITY, f64::min)
}

/// Base RTT with this rate, ns, and the agreement of the spans of each length with both.
fn agreement(spans: &[Vec<Span<'_>>], handshake: Option<Handshake>, rate: f64) -> (f64, f64) {
    let byte_ns = 1e9 / rate;
    let (first, rest) = spans[0].split_at(spans[0].len().min(FIRST_SPANS));
    let first_ns = base_ns(first, byte_ns);
    let base_ns = base_ns(rest, byte_ns).min(first_ns);
    let handshake_ns = handshake.map_or(0.0, |seen| seen.rtt_ns - seen.bytes * byte_ns);
    if base_ns < FIRST_SHARE * first_ns.max(handshake_ns) {
        return (base_ns, 0.0);
    }
    (base_ns, spans.iter().map(|spans| agreement_with(spans, base_ns, byte_ns)).sum::<f64>() / spans.len() as f64)
}

/// Agreement of the spans with a rate and a base RTT.
fn agreement_with(spans: &[Span<'_>], base_ns: f64, byte_ns: f64) -> f64 {
    let agrees = |span: &Span<'_>| {
        let error_ns = (span.acked_ns - span.served_ns(span.free_ns, base_ns, byte_ns)).abs();
        let within = |share: f64| (1.0 - error_ns / (ERROR_NS + share * span.bytes * byte_ns)).max(0.0);
        ERROR_SHARES.map(within).iter().sum::<f64>() / ERROR_SHARES.len() as f64
    };
    let (hit, all) = spans.iter().fold((0.0, 0.0), |sum, span| (sum.0 + span.bytes * agrees(span), sum.1 + span.bytes));
    hit / f64::max(all, 1.0)
}

/// Rate and base RTT of these packets; none if other rates explain them as well.
fn served(packets: &[Packet], handshake: Option<Handshake>) -> Option<Served> {
    let spans = SPAN_PACKETS.map(|least| spans(packets, least));
    let (first, last) = (spans[0].first()?, spans[0].last()?);
    let bytes: f64 = spans[0].iter().map(|span| span.bytes).sum();
    if bytes <= 0.0 {
        return None;
    }
    let delivered = bytes / (last.acked_ns - first.free_ns).max(1.0) * 1e9;
    let ladder = |from: f64, to: f64, ratio: f64| -> Vec<(f64, f64)> {
        let rates = std::iter::successors(Some(from), |rate| Some(rate * ratio)).take_while(|rate| *rate <= to);
        rates.map(|rate| (rate, agreement(&spans, handshake, rate).1)).collect()
    };
    let best_of = |tried: &[(f64, f64)]| tried.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    let (low, high, ratio) = RATES;
    let all = ladder(low * delivered, high * delivered, ratio);
    let tried = behind_policers(&all);
    let (near, _) = best_of(tried)?;
    // At either end of the ladder the best rate may be beyond it: nothing bounds the rate of a link that sends its packets in aggregates.
    if tried.first().is_none_or(|one| one.0 == near) || tried.last().is_none_or(|one| one.0 == near) {
        return None;
    }
    let (rate, agreed) = best_of(&ladder(near / ratio, near * ratio, FINE))?;
    let is_apart = |one: &&(f64, f64)| one.0 > APART * rate || one.0 < rate / APART;
    let apart = tried.iter().filter(is_apart).map(|one| one.1).fold(0.0, f64::max);
    let is_known = agreed >= AGREEMENT && (agreed - apart) * spans[0].len() as f64 >= GAIN;
    is_known.then(|| Served { rate, base_s: agreement(&spans, handshake, rate).0.max(0.0) / 1e9, agreement: agreed })
}

/// Leaves out the rates up to that of a policer, of (rate, agreement). Its tokens let packets pass at their rate, as a slower link would; the
/// link behind it agrees about as well. An idle link agrees with every rate above its own, too, but without a dip between.
fn behind_policers(tried: &[(f64, f64)]) -> &[(f64, f64)] {
    let mut best = (0, 0.0);
    for (nth, &(_, agreed)) in tried.iter().enumerate() {
        best = if agreed > best.1 { (nth, agreed) } else { best };
    }
    let mut dip = best;
    for (nth, &(_, agreed)) in tried.iter().enumerate().skip(best.0) {
        dip = if agreed < dip.1 { (nth, agreed) } else { dip };
        if dip.0 > best.0 && agreed >= AS_GOOD * best.1 && dip.1 < DIP * agreed {
            return behind_policers(&tried[dip.0..]);
        }
    }
    tried
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE_NS: u64 = 20_000_000;

    /// A queue that serves a burst at 10 Mbit/s every 30 ms, each acknowledged once; one of three is a packet longer. These packets are
    /// dropped before the link.
    fn served_bursts(is_lost: impl Fn(u64) -> bool) -> Queue {
        let mut queue = Queue::default();
        let (mut number, mut free_ns) = (0, 0);
        for burst in 0..400 {
            let sent_ns = burst * 30_000_000;
            let packets = if burst % 3 == 0 { 11 } else { 10 };
            let mut newest = number;
            for _ in 0..packets {
                queue.on_sent(number, sent_ns, 1250);
                let fate = if is_lost(number) { Fate::Lost(7) } else { Fate::Arrived };
                assert!(queue.on_fate(number, fate));
                if fate == Fate::Arrived {
                    free_ns = free_ns.max(sent_ns + BASE_NS) + 1_000_000;
                    newest = number;
                }
                number += 1;
            }
            queue.on_ack(newest, free_ns);
        }
        queue
    }

    /// RTTs of all packets by the queue, ns.
    fn settled(queue: &mut Queue) -> Vec<Option<u64>> {
        let mut rtts = Vec::new();
        queue.settle(true, |_, rtt_ns| rtts.push(rtt_ns));
        rtts
    }

    #[test]
    fn bursts_on_a_link_that_is_idle_in_between_show_its_rate() {
        let mut queue = served_bursts(|_| false);
        let rtts = settled(&mut queue);
        let served = queue.served().unwrap();
        assert!((8.0 * served.rate / 10e6 - 1.0).abs() < 2e-3, "{served:?}");
        assert!((1e3 * served.base_s - 20.0).abs() < 0.05 && served.agreement > 0.9, "{served:?}");
        // The first packet of a burst waits for none, the fifth for four.
        let near = |rtt: Option<u64>, ms: f64| (rtt.unwrap() as f64 / 1e6 - ms).abs() < 0.1;
        assert!(near(rtts[11], 21.0) && near(rtts[15], 25.0), "{:?}", &rtts[11..21]);
    }

    /// A busy link at 4 Mbit/s, whose receiver acknowledges by a timer of 25 ms that begins with a packet: of eight to nine packets, late.
    #[test]
    fn the_rate_is_right_where_acks_come_late_by_part_of_a_packet() {
        let mut queue = Queue::default();
        let served_ns = |number: u64| 2_500_000 * (number + 1) + BASE_NS;
        let (mut number, mut acked) = (0, 0);
        for (nth, packets) in [9, 9, 8, 10].into_iter().cycle().take(400).enumerate() {
            for _ in 0..packets {
                queue.on_sent(number, 2_400_000 * number, 1250);
                queue.on_fate(number, Fate::Arrived);
                number += 1;
            }
            acked = served_ns(number - 1) + [0, 1_900_000, 400_000, 1_200_000][nth % 4];
            queue.on_ack(number - 1, acked);
        }
        assert!(acked > 0 && settled(&mut queue).iter().all(Option::is_some));
        assert!((8.0 * queue.served().unwrap().rate / 4e6 - 1.0).abs() < 0.01, "{:?}", queue.served());
    }

    #[test]
    fn a_base_rtt_below_half_of_the_handshakes_is_none() {
        for (handshake_ms, has_rate) in [(30, true), (60, false)] {
            let mut queue = served_bursts(|_| false);
            queue.on_handshake(1_000_000 * handshake_ms, 1250);
            queue.on_handshake(2_000_000 * handshake_ms, 1250);
            settled(&mut queue);
            assert_eq!(queue.served().is_some(), has_rate, "{handshake_ms} ms");
        }
    }

    #[test]
    fn a_policer_that_agrees_as_well_as_the_faster_link_is_left_out() {
        let rate = |nth: usize| 1e6 * (1.0 + nth as f64);
        let tried = |agreed: &[f64]| -> Vec<(f64, f64)> {
            agreed.iter().enumerate().map(|(nth, &one)| (rate(nth), one)).collect()
        };
        let policed = tried(&[0.2, 0.67, 0.3, 0.2, 0.4, 0.65, 0.5]);
        assert_eq!(behind_policers(&policed), &policed[3..]);
        for alone in
            [tried(&[0.2, 0.97, 0.95, 0.96, 0.95]), tried(&[0.2, 0.67, 0.3, 0.2, 0.5, 0.3]), tried(&[0.0, 0.0])]
        {
            assert_eq!(behind_policers(&alone), &alone[..]);
        }
    }

    #[test]
    fn packets_one_by_one_on_an_idle_link_show_no_rate() {
        let mut queue = Queue::default();
        for number in 0..4000_u64 {
            queue.on_sent(number, number * 2_000_000, 1250);
            queue.on_fate(number, Fate::Arrived);
            // Two to ten at once would be served one after the other; these meet no other.
            queue.on_ack(number, number * 2_000_000 + BASE_NS);
        }
        assert!(settled(&mut queue).iter().all(Option::is_none) && queue.served().is_none());
    }

    #[test]
    fn losses_before_the_link_leave_the_rate_as_it_is_and_have_a_waiting_time() {
        let is_lost = |number: u64| number % 7 == 3;
        let mut queue = served_bursts(is_lost);
        let rtts = settled(&mut queue);
        assert!((8.0 * queue.served().unwrap().rate / 10e6 - 1.0).abs() < 2e-3);
        // The fourth packet, lost, would have waited for three.
        assert!((rtts[3].unwrap() as f64 / 1e6 - 24.0).abs() < 0.1, "{:?}", rtts[3]);
        assert!(!queue.on_fate(99_999, Fate::Arrived), "no such packet");
    }

    #[test]
    fn packets_declared_lost_after_their_acks_have_arrived() {
        let mut queue = served_bursts(|_| false);
        let known = (0..).take_while(|&number| queue.on_fate(number, Fate::Lost(7))).count();
        assert_eq!(known, 400 * 10 + 134);
        queue.settle(true, |packet, _| assert_eq!(packet.fate, Fate::Arrived));
        assert!(queue.served().is_some());
    }
}
