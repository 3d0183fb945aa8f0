//! The path of a QUIC connection from its sender's qlog: packets sent, and the ACKs received; where the log does not list their frames,
//! recovery's metrics after each ACK.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::Value;

use super::estimate::{AckEstimate, Estimate, Vantage};
use super::flow::{self, Flow};
use super::queue::Fate;
use super::signals::{AckSignal, Lost};
use super::verdict::hide_the_path;
use super::{Paths, judge, loss};
use crate::qlog::{self, Event};
use crate::{Error, Result};

/// Largest number of packets sent that are remembered. Ours: a window of 180 MB.
const SENT_MAX: usize = 131_072;
/// Largest number of lost packets that are remembered, as they may arrive late. Ours: 1 MB.
const LOST_MAX: usize = 16_384;
/// Largest number of connections of a log. Ours: a guard against a log of group identifiers that never repeat.
const CONNECTIONS_MAX: usize = 1_000;
/// Bytes of a packet if the log names no length. Source: RFC 9000 14.
const PACKET: u64 = 1200;
/// Bytes of Ethernet, IPv4 and UDP around a packet.
const HEADERS: u64 = 42;
/// Bytes received for each byte sent, from which the log is that of the data's receiver. Ours: its ACKs are a twentieth of the data.
const RECEIVER_SHARE: u64 = 2;
/// Largest time between two packets of a burst. Ours: the stack sends them in one go.
const BURST_NS: u64 = 5_000;
/// Bytes of a packet that are not data, where a log does not list its frames: a short header with a connection identifier of eight
/// bytes and a packet number of two, a STREAM frame's header, the AEAD's tag. Source: RFC 9000 17.3 and 19.8, RFC 9001 5.3.
const OVERHEAD: u64 = 11 + 6 + 16;

/// Connection of a log so far. Its counters are of whole packets.
#[derive(Default)]
pub(super) struct Log {
    pub flow: Flow,
    /// Bytes of stream data in the packets sent.
    data: u64,
    events: u64,
    name: String,
    sent: BTreeMap<Number, Sent>,
    /// The newest packet.
    newest: Sent,
    last_rtt_ns: u64,
    in_flight: u64,
    lost_bytes: u64,
    /// Bytes of packets received.
    received: u64,
    /// Bytes of each packet that its length in the log leaves out.
    hidden: u64,
    /// Bytes of packets since the newest datagram, and their number.
    undelimited: (u64, u64),
    /// The newest packet declared lost.
    lost: Number,
    /// Packets declared lost, with their bytes.
    given_up: BTreeMap<Number, u64>,
    /// True from the first ACK frame on: the metrics are needless.
    has_acks: bool,
}

/// Number space, and the packet's number in it.
type Number = (u8, u64);

/// A packet in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    at_ns: u64,
    bytes: u64,
    /// Number of the first packet that was sent at the same time, and bytes from there to the end of this one.
    first: Number,
    lead: u64,
}

/// Time of an event, and its RTT.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub now_ns: u64,
    /// RTT of an ACK of new data, if the log has a new one.
    pub rtt_ns: Option<u64>,
}

/// Reads a qlog, a document or a sequence.
pub fn read(from: impl Read) -> Result<Paths> {
    let (logs, is_cut) = connections(from, |_, _, _| ())?;
    let packets = logs.iter().map(|log| log.events).sum();
    let (mut paths, mut fault) = (Vec::new(), Error::NoMetrics);
    for log in logs {
        match log.finish() {
            Ok(path) => paths.push(path),
            Err(error) => fault = error,
        }
    }
    if paths.is_empty() {
        return Err(fault);
    }
    paths.sort_by(|a, b| b.delivered_bytes.total_cmp(&a.delivered_bytes));
    let notes =
        if is_cut { vec!["the log is cut off or damaged; it was read up to there".to_owned()] } else { Vec::new() };
    Ok(Paths { paths, notes, packets })
}

/// Reads the connections of a qlog, in the order of their first events, and reports each event with the place of its connection. Returns
/// whether the qlog is cut off or damaged, too.
pub(super) fn connections(from: impl Read, mut on_event: impl FnMut(usize, &Log, Moment)) -> Result<(Vec<Log>, bool)> {
    let mut logs: Vec<Log> = Vec::new();
    let damage = qlog::read(from, |event| {
        // A connection begins with a packet; a group without any, as of a link, is none.
        let begins = event.kind == "packet_sent" && logs.len() < CONNECTIONS_MAX;
        let place = logs.iter().rposition(|log| log.name == event.connection).unwrap_or(logs.len());
        if place == logs.len() && begins {
            logs.push(Log { name: event.connection.to_owned(), ..Log::default() });
        }
        if let Some(log) = logs.get_mut(place) {
            let step = log.take(event);
            on_event(place, log, step);
        }
    });
    match damage {
        Ok(_) if logs.is_empty() => Err(Error::NoMetrics),
        Ok(damage) => Ok((logs, damage.is_some())),
        Err(Error::QlogNotJson(_) | Error::NotAQlog) => Err(Error::NotACapture),
        Err(error) => Err(error),
    }
}

impl Log {
    fn take(&mut self, event: &Event<'_>) -> Moment {
        self.events += 1;
        let now_ns = (event.t_s * 1e9) as u64;
        let mut rtt_ns = None;
        match event.kind {
            "packet_sent" => self.on_sent(now_ns, event),
            "datagram_sent" | "datagrams_sent" => self.on_datagram(event),
            "packet_lost" => self.on_lost(now_ns, event),
            "packet_received" => rtt_ns = self.on_received(now_ns, event),
            "metrics_updated" | "recovery_metrics_updated" if !self.has_acks => rtt_ns = self.on_metrics(now_ns, event),
            _ => {}
        }
        Moment { now_ns, rtt_ns }
    }

    fn on_sent(&mut self, now_ns: u64, event: &Event<'_>) {
        let bytes = event.packet_bytes().unwrap_or(PACKET).saturating_add(self.hidden);
        self.undelimited = (self.undelimited.0.saturating_add(bytes), self.undelimited.1 + 1);
        let counters = &mut self.flow.counters;
        counters.packets += 1;
        counters.sent = counters.sent.saturating_add(bytes);
        if bytes > counters.largest {
            counters.largest = bytes;
            // RTTs of shorter packets say nothing of these.
            self.flow.signals.get_or_insert_default().floor_ns.iter_mut().skip(1).for_each(|floor| *floor = u64::MAX);
        }
        counters.headers = HEADERS;
        self.data = self.data.saturating_add(data_bytes(event, bytes));
        self.flow.first_ns.get_or_insert(now_ns);
        self.flow.signals.get_or_insert_default().on_sent(now_ns, bytes);
        if let Some(number) = number_of(event) {
            // A damaged log may number backwards.
            let follows = self.newest.lead > 0 && self.newest.first <= number;
            let is_burst = follows && now_ns.saturating_sub(self.newest.at_ns) <= BURST_NS;
            let (first, before) = if is_burst { (self.newest.first, self.newest.lead) } else { (number, 0) };
            self.newest = Sent { at_ns: now_ns, bytes, first, lead: before + bytes };
            self.sent.insert(number, self.newest);
            if number.0 == APPLICATION {
                self.flow.queue.on_sent(number.1, now_ns, bytes + HEADERS);
                self.settle(false);
            }
            while self.sent.len() > SENT_MAX {
                self.sent.pop_first();
            }
        }
    }

    /// Learns from a datagram of one packet what the lengths of packets leave out: the AEAD's tag in picoquic's logs.
    fn on_datagram(&mut self, event: &Event<'_>) {
        let (bytes, packets) = std::mem::take(&mut self.undelimited);
        let more = event.datagram_bytes().and_then(|datagram| datagram.checked_sub(bytes));
        if let Some(more) = more.filter(|more| packets == 1 && (1..=TAG).contains(more)) {
            self.hidden = more;
        }
    }

    fn on_lost(&mut self, now_ns: u64, event: &Event<'_>) {
        let Some(number) = number_of(event) else { return };
        // Where ACKs are known, a packet no longer in flight has arrived, or was declared lost before.
        if self.has_acks && !self.sent.contains_key(&number) {
            return;
        }
        self.lost = self.lost.max(number);
        let unknown = Sent { at_ns: now_ns, bytes: PACKET, first: number, lead: PACKET };
        let Sent { at_ns: sent_ns, bytes, .. } = self.sent.remove(&number).unwrap_or(unknown);
        self.given_up.insert(number, bytes);
        while self.given_up.len() > LOST_MAX {
            self.given_up.pop_first();
        }
        self.lost_bytes = self.lost_bytes.saturating_add(bytes);
        self.flow.counters.again = self.flow.counters.again.saturating_add(bytes);
        if number.0 == APPLICATION && self.flow.queue.on_fate(number.1, Fate::Lost(self.last_rtt_ns)) {
            self.settle(false);
        } else {
            let lost = lost(number.1, sent_ns, bytes, self.last_rtt_ns);
            self.flow.signals.get_or_insert_default().on_lost(&lost, PACKET);
        }
    }

    /// Takes over packets whose fate is known, with their RTTs by the queue.
    fn settle(&mut self, is_last: bool) {
        let Flow { signals, steps, queue, settled_ns, .. } = &mut self.flow;
        let signals = signals.get_or_insert_default();
        queue.settle(is_last, |packet, rtt_ns| {
            match packet.fate {
                Fate::Unknown => return,
                Fate::Lost(before_ns) => {
                    let bytes = packet.bytes.saturating_sub(HEADERS);
                    let rtt_ns = rtt_ns.unwrap_or(before_ns);
                    signals.on_lost(&lost(packet.number, packet.sent_ns, bytes, rtt_ns), PACKET);
                }
                Fate::Arrived => rtt_ns.into_iter().for_each(|rtt_ns| signals.on_passed(rtt_ns)),
            }
            // Without ACKs, packets that arrived are not known one by one.
            if self.has_acks {
                flow::add_step(steps, settled_ns, packet, rtt_ns, HEADERS);
            }
        });
    }

    /// Packets that an ACK acknowledges for the first time. Returns the RTT of the newest, if it is one of them.
    fn on_received(&mut self, now_ns: u64, event: &Event<'_>) -> Option<u64> {
        self.received = self.received.saturating_add(event.packet_bytes().unwrap_or(0));
        let ranges = event.acked_ranges()?;
        self.has_acks = true;
        let space = space(event);
        let newest = ranges.iter().map(|range| range.1).max()?;
        let sent = self.sent.get(&(space, newest)).copied();
        let mut bytes = 0_u64;
        for (from, to) in ranges.into_iter().filter(|(from, to)| from <= to) {
            let acked: Vec<Number> = self.sent.range((space, from)..=(space, to)).map(|(number, _)| *number).collect();
            for number in acked {
                bytes += self.sent.remove(&number).map_or(0, |sent| sent.bytes);
                if space == APPLICATION {
                    self.flow.queue.on_fate(number.1, Fate::Arrived);
                }
            }
            let late: Vec<Number> =
                self.given_up.range((space, from)..=(space, to)).map(|(number, _)| *number).collect();
            late.into_iter().for_each(|number| bytes += self.withdraw(number));
        }
        if bytes == 0 {
            return None;
        }
        let has_holes = self.sent.range((space, 0)..(space, newest)).next().is_some();
        let mss = self.flow.mss();
        // What had to pass before the newest packet is known if all of it arrived.
        let is_known = |sent: &Sent| {
            let has_arrived = self.sent.range(sent.first..(space, newest)).next().is_none();
            sent.lead.is_multiple_of(mss) && has_arrived && self.lost < sent.first
        };
        let lead = sent.filter(is_known).map(|sent| (sent.lead / mss) as usize);
        if let Some(sent) = sent.filter(|_| space != APPLICATION) {
            let rtt_ns = now_ns.saturating_sub(sent.at_ns).max(1);
            self.flow.signals.get_or_insert_default().on_handshake(rtt_ns, sent.lead);
            self.flow.queue.on_handshake(rtt_ns, sent.lead);
        }
        let delay_ns = event.ack_delay_s().map_or(0, |delay_s| (1e9 * delay_s) as u64);
        let rtt = sent.map(|sent| (sent.at_ns, self.without_delay(now_ns.saturating_sub(sent.at_ns).max(1), delay_ns)));
        if space == APPLICATION {
            if let Some((sent_ns, rtt_ns)) = rtt {
                self.flow.queue.on_ack(newest, sent_ns + rtt_ns);
            }
            self.settle(false);
        }
        self.last_rtt_ns = rtt.map_or(self.last_rtt_ns, |rtt| rtt.1);
        self.flow.counters.delivered = self.flow.counters.delivered.saturating_add(bytes);
        self.acked(&AckSignal { now_ns, bytes, rtt, lead, mss, has_holes });
        rtt.map(|rtt| rtt.1)
    }

    /// RTT without the time for which the receiver held back the ACK, unless that makes it half of the smallest: then the log has the time
    /// in another unit.
    fn without_delay(&self, rtt_ns: u64, delay_ns: u64) -> u64 {
        let least = self.flow.signals.as_deref().map_or(u64::MAX, |signals| signals.min_rtt_ns).min(rtt_ns);
        let without = rtt_ns.saturating_sub(delay_ns);
        if without >= least.div_ceil(2) { without } else { rtt_ns }
    }

    /// Withdraws the loss of a packet that arrived after all. Returns its bytes.
    fn withdraw(&mut self, number: Number) -> u64 {
        let bytes = self.given_up.remove(&number).unwrap_or(0);
        self.lost_bytes = self.lost_bytes.saturating_sub(bytes);
        self.flow.counters.needless = self.flow.counters.needless.saturating_add(bytes);
        if number.0 != APPLICATION || !self.flow.queue.on_late(number.1) {
            let Lost { from, to, .. } = lost(number.1, 0, 0, 0);
            self.flow.signals.get_or_insert_default().withdraw(from, to, PACKET);
        }
        bytes
    }

    fn acked(&mut self, signal: &AckSignal) {
        self.flow.last_ns = signal.now_ns;
        self.flow.counters.acks += 1;
        self.flow.signals.get_or_insert_default().on_ack(signal);
    }

    /// Recovery's metrics: what is no longer in flight and was not lost has arrived. Returns the RTT if it is new.
    fn on_metrics(&mut self, now_ns: u64, event: &Event<'_>) -> Option<u64> {
        let positive = |value: f64| (value > 0.0).then_some(value);
        let rtt_ns = event.seconds(&["latest_rtt"]).and_then(positive).map(|rtt| (rtt * 1e9) as u64);
        self.last_rtt_ns = rtt_ns.unwrap_or(self.last_rtt_ns);
        if let Some(bytes) = event.number(&["bytes_in_flight"]) {
            self.in_flight = bytes as u64;
        }
        let gone = self.flow.counters.sent.saturating_sub(self.lost_bytes).saturating_sub(self.in_flight);
        let bytes = gone.saturating_sub(self.flow.counters.delivered);
        if bytes == 0 || self.last_rtt_ns == 0 {
            return None;
        }
        self.flow.counters.delivered = gone;
        // The newest packet acknowledged left one RTT ago.
        let rtt = rtt_ns.map(|rtt_ns| (now_ns.saturating_sub(rtt_ns), rtt_ns));
        self.acked(&AckSignal { now_ns, bytes, rtt, lead: Some(1), mss: self.flow.mss(), has_holes: false });
        rtt_ns
    }

    /// Share of the packets' bytes that is stream data.
    pub fn data_share(&self) -> f64 {
        self.data as f64 / (self.flow.counters.sent as f64).max(1.0)
    }

    fn finish(mut self) -> Result<Estimate> {
        self.settle(true);
        self.flow.finish();
        let flow = &self.flow;
        let (Some(signals), Some(first_ns)) = (flow.signals.as_deref(), flow.first_ns) else {
            return Err(Error::NoMetrics);
        };
        let served = self.flow.queue.served().map(|served| judge::served(flow, &served));
        let Some(link) = served.or_else(|| judge::link(flow)) else { return Err(Error::NoMetrics) };
        let losses = loss::judge(flow, &link);
        let counters = flow.counters;
        let duration_s = flow.last_ns.saturating_sub(first_ns) as f64 / 1e9;
        let sent = (counters.sent as f64).max(1.0);
        let unknown = [
            "reordering, ACK spacing and the receiver's limits: they are not read from a qlog",
            "the congestion control: name it with --current where it matters",
        ];
        let is_sender = self.received < RECEIVER_SHARE * counters.sent;
        let mut own = Estimate {
            sender: self.name.clone(),
            receiver: "peer".to_owned(),
            vantage: if is_sender { Vantage::Sender } else { Vantage::Receiver },
            vantage_from: "bytes sent and received".to_owned(),
            start_s: 0.0,
            duration_s,
            sent_bytes: counters.sent as f64,
            retransmitted_bytes: counters.again as f64,
            delivered_bytes: counters.delivered as f64,
            goodput_bps: if duration_s > 0.0 { 8.0 * counters.delivered as f64 / duration_s } else { 0.0 },
            mss: flow.mss(),
            rate: Some(judge::rate(flow, &link)),
            rtt: judge::rtt(signals, &link),
            buffer: judge::buffer(flow, &link, &losses),
            loss_ratio: self.lost_bytes as f64 / sent,
            losses: losses.kinds,
            policer: losses.policer,
            needless_ratio: counters.needless as f64 / sent,
            reordered_ratio: 0.0,
            reordered_segments: 0.0,
            acks: AckEstimate { segments: 0.0, period_ms: None, from: "not in a qlog".to_owned() },
            application_limited: 0.0,
            receiver_limited: None,
            algorithm: None,
            unknown: unknown.map(str::to_owned).to_vec(),
        };
        if !is_sender {
            hide_the_path(&mut own);
        }
        Ok(own)
    }
}

/// Largest tag of an AEAD, bytes. Source: RFC 9001 5.3.
const TAG: u64 = 16;
/// Number space of 0-RTT and 1-RTT packets. Source: RFC 9000 12.3.
const APPLICATION: u8 = 2;

/// A lost packet, with the RTT of the nearest packet before it.
const fn lost(number: u64, sent_ns: u64, bytes: u64, rtt_ns: u64) -> Lost {
    let from = number.saturating_mul(PACKET);
    Lost { sent_ns, from, to: from.saturating_add(PACKET), bytes, before_ns: rtt_ns, after_ns: rtt_ns }
}

/// Number space of a packet, or of what it acknowledges.
fn space(event: &Event<'_>) -> u8 {
    match event.packet_type() {
        Some(kind) if kind.eq_ignore_ascii_case("initial") => 0,
        Some(kind) if kind.eq_ignore_ascii_case("handshake") => 1,
        _ => APPLICATION,
    }
}

fn number_of(event: &Event<'_>) -> Option<Number> {
    Some((space(event), event.packet_number()?))
}

/// Bytes of stream data in a packet: those of its frames where the log lists them, else all but headers of a packet after the handshake.
fn data_bytes(event: &Event<'_>, bytes: u64) -> u64 {
    let frames = event.data.get("frames").and_then(Value::as_array);
    let is_stream = |frame: &&Value| frame.get("frame_type").and_then(Value::as_str) == Some("stream");
    let of_frame = |frame: &Value| {
        let raw = frame.get("raw");
        let length = frame.get("length").or_else(|| raw?.get("payload_length"));
        length.and_then(Value::as_u64).map(|length| length.min(qlog::PACKET_MAX))
    };
    match frames {
        Some(frames) => match frames.iter().filter(is_stream).map(of_frame).sum() {
            Some(length) => length,
            None => bytes.saturating_sub(OVERHEAD),
        },
        None if space(event) != APPLICATION => 0,
        None => bytes.saturating_sub(OVERHEAD),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_beyond_any_packet_do_not_overflow() {
        let sent = |number: u64| {
            format!(
                "{{\"time\":1,\"name\":\"quic:packet_sent\",\"data\":{{\"header\":{{\"packet_number\":{number}}},\
                 \"raw\":{{\"length\":18446744073709551615}},\"frames\":[{{\"frame_type\":\"stream\",\"length\":18446744073709551615}},\
                 {{\"frame_type\":\"stream\",\"length\":18446744073709551615}}]}}}}\n"
            )
        };
        let text = [sent(0), sent(1), sent(2)].concat();
        let (logs, is_cut) = connections(text.as_bytes(), |_, _, _| ()).unwrap();
        assert_eq!((logs.len(), logs[0].flow.counters.sent, is_cut), (1, 3 * 65_535, false));
    }

    fn event(t_ms: f64, name: &str, number: u64, more: &str) -> String {
        let header = format!("{{\"packet_type\":\"1RTT\",\"packet_number\":{number}}}");
        format!("{{\"time\":{t_ms},\"name\":\"quic:{name}\",\"data\":{{\"header\":{header}{more}}}}}\n")
    }

    #[test]
    fn memory_is_bounded_without_acks() {
        let text: String = (0..60_000).map(|number| event(1.0, "packet_sent", number, "")).collect();
        let (logs, _) = connections(text.as_bytes(), |_, _, _| ()).unwrap();
        assert!(logs[0].flow.queue.len() < 20_000, "{}", logs[0].flow.queue.len());
    }

    fn log_of(text: &str) -> Log {
        connections(text.as_bytes(), |_, _, _| ()).unwrap().0.pop().unwrap()
    }

    fn ack(t_ms: f64, from: u64, to: u64) -> String {
        event(
            t_ms,
            "packet_received",
            0,
            &format!(",\"frames\":[{{\"frame_type\":\"ack\",\"acked_ranges\":[[{from},{to}]]}}]"),
        )
    }

    #[test]
    fn a_packet_declared_lost_that_arrives_is_a_needless_retransmission_and_no_loss() {
        let sent: String = (0..40).map(|number| event(number as f64, "packet_sent", number, "")).collect();
        let lost = |number| event(60.0, "packet_lost", number, "");
        let text = [sent, ack(50.0, 0, 9), lost(10), lost(11), lost(5), ack(80.0, 11, 39)].concat();
        let mut log = log_of(&text);
        log.settle(true);
        let signals = log.flow.signals.as_deref().unwrap();
        // Number 5 had been acknowledged, 10 is lost, and 11 came late.
        assert_eq!((log.lost_bytes, log.flow.counters.needless, signals.lost_segments), (PACKET, PACKET, 1));
        assert_eq!(log.flow.counters.delivered, 39 * PACKET);
    }

    #[test]
    fn late_arrivals_behind_the_memory_of_the_queue_are_no_losses() {
        let sent = |range: std::ops::Range<u64>| -> String {
            range.map(|number| event(1.0, "packet_sent", number, "")).collect()
        };
        let lost = event(2.0, "packet_lost", 3, "");
        let text = [sent(0..10), ack(2.0, 0, 2), lost, sent(10..40_000), ack(9.0, 3, 39_999)].concat();
        let log = log_of(&text);
        let signals = log.flow.signals.as_deref().unwrap();
        assert_eq!((log.lost_bytes, log.flow.counters.needless, signals.lost_segments), (0, PACKET, 0));
    }

    #[test]
    fn numbers_that_go_backwards_are_no_burst() {
        let sent = |number| event(1.0, "packet_sent", number, "");
        let log = log_of(&[sent(5), sent(3), sent(4), ack(2.0, 3, 3), ack(2.0, 3, 4)].concat());
        assert_eq!(log.flow.counters.delivered, 2 * PACKET);
    }

    #[test]
    fn what_lengths_leave_out_is_learnt_from_datagrams_of_one_packet() {
        let packet = |number| event(1.0, "packet_sent", number, ",\"raw\":{\"length\":1424}");
        let datagram = |bytes: u64| {
            format!("{{\"time\":1,\"name\":\"transport:datagram_sent\",\"data\":{{\"byte_length\":{bytes}}}}}\n")
        };
        let sent = |texts: &[String]| log_of(&texts.concat()).flow.counters.sent;
        assert_eq!(sent(&[packet(0), datagram(1440), packet(1), datagram(1440), packet(2)]), 1424 + 2 * 1440);
        assert_eq!(sent(&[packet(0), datagram(1424), packet(1)]), 2 * 1424);
        assert_eq!(sent(&[packet(0), datagram(1500), packet(1)]), 2 * 1424, "padding");
        assert_eq!(sent(&[packet(0), packet(1), datagram(2860), packet(2)]), 3 * 1424, "two packets");
    }

    #[test]
    fn the_log_of_a_receiver_gives_no_path() {
        let text: String = (0..100)
            .map(|number| {
                let t_ms = 10.0 * number as f64;
                let received = event(t_ms, "packet_received", number, ",\"raw\":{\"length\":1200}");
                let sent = event(t_ms, "packet_sent", number, ",\"raw\":{\"length\":40}");
                [received, sent, ack(t_ms + 5.0, number, number)].concat()
            })
            .collect();
        let own = &read(text.as_bytes()).unwrap().paths[0];
        assert!(own.vantage == Vantage::Receiver && own.rate.is_none() && own.losses.is_empty(), "{own:?}");
    }

    #[test]
    fn a_delay_in_another_unit_leaves_the_rtt_as_it_is() {
        let mut log = Log::default();
        assert_eq!(log.without_delay(40, 25), 40, "more than half of the only RTT");
        log.flow.signals.get_or_insert_default().min_rtt_ns = 20;
        assert_eq!((log.without_delay(40, 25), log.without_delay(40, 31), log.without_delay(40, 40)), (15, 40, 40));
    }

    /// Bursts of eight to ten packets at 10 Mbit/s over 20 ms, whose ACKs the receiver holds back for 15 ms.
    #[test]
    fn the_time_for_which_a_receiver_holds_back_its_acks_is_no_part_of_the_base_rtt() {
        let mut text = String::new();
        for burst in 0..300_u64 {
            let sent_ms = 60.0 * burst as f64;
            let packets = 10 - burst % 3;
            for nth in 0..packets {
                text += &event(sent_ms, "packet_sent", 10 * burst + nth, ",\"raw\":{\"length\":1208}");
            }
            let last = 10 * burst + packets - 1;
            let ack = format!(
                ",\"frames\":[{{\"frame_type\":\"ack\",\"ack_delay\":15,\"acked_ranges\":[[{},{last}]]}}]",
                10 * burst
            );
            text += &event(sent_ms + 20.0 + packets as f64 + 15.0, "packet_received", burst, &ack);
        }
        let own = &read(text.as_bytes()).unwrap().paths[0];
        let (rate, rtt) = (own.rate.as_ref().unwrap(), own.rtt.as_ref().unwrap());
        assert!((rate.bps / 10e6 - 1.0).abs() < 0.01 && (rtt.base_ms - 20.0).abs() < 0.1, "{own:?}");
    }
}
