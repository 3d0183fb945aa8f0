//! Figures of a scenario's flows from a capture at their senders, for a run that was made elsewhere.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::Read;

use bbrlab_core::{NANOS_PER_SEC, Rate, Span, Time};
use bbrlab_sim::record::result::{self, RunResult};
use bbrlab_sim::record::summary::{FlowCounts, LinkCounts, RttStats, summarise};
use bbrlab_sim::setup::{Setup, Traffic};

use super::Vantage;
use super::bottleneck::{Bottleneck, Passed, UNKNOWN};
use super::flow::Counters;
use super::headers::{Segment, flag};
use super::stream::{self, Packet};
use super::table::{CONNECTIONS_MAX, Connection};
use super::vantage;
use super::verdict::PACKETS_MIN;
use crate::{Error, Result};

/// Name of the backend in such a result.
pub const ON: &str = "capture";
/// Largest time between the end of a capture and that of its scenario. Ours: a sender may be idle at the end.
const MISSING: Span = Span::secs(1);

/// RTTs, delivered bytes and times of one direction of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    rtt: RttStats,
    min_rtt_ns: Option<u64>,
    /// Counters at the end of warm-up.
    pub before: Option<Counters>,
    /// Queueing delays in the measured time; empty if the path has other effects than one link and a constant delay.
    pub passed: Passed,
    /// Bytes delivered in each second.
    bins: Vec<u64>,
    /// Time of the newest data.
    pub sent_ns: u64,
    /// Time of the newest ACK of new data.
    acked_ns: u64,
    /// The two newest RTTs.
    rtts_ns: [Option<u64>; 2],
}

impl Tally {
    /// Notes an ACK of `bytes` new bytes at a time of the capture and of the run, with its RTT and whether that is measured.
    pub fn acked(&mut self, now_ns: u64, at: Time, bytes: u64, rtt: Option<(u64, bool)>) {
        let second = (at.as_nanos() / NANOS_PER_SEC) as usize;
        self.bins.resize(self.bins.len().max(second + 1), 0);
        self.bins[second] += bytes;
        self.acked_ns = now_ns;
        if let Some((rtt_ns, is_measuring)) = rtt {
            self.rtts_ns = [Some(rtt_ns), self.rtts_ns[0]];
            self.min_rtt_ns = Some(self.min_rtt_ns.map_or(rtt_ns, |least| least.min(rtt_ns)));
            self.rtt.add(u32::try_from(rtt_ns / 1_000).unwrap_or(u32::MAX), is_measuring);
        }
    }

    /// Time at which the last byte arrived: half a round trip before its ACK. If that was delayed, the RTT before it shows when
    /// a prompt one would have come.
    pub fn arrived_ns(&self) -> u64 {
        let rtt = self.rtts_ns.into_iter().flatten().min();
        let prompt = rtt.map_or(u64::MAX, |rtt| self.sent_ns.saturating_add(rtt));
        self.acked_ns.min(prompt).saturating_sub(self.min_rtt_ns.unwrap_or(0) / 2)
    }
}

/// A connection, with the time of its first packet.
struct Tracked {
    begun_ns: u64,
    connection: Connection,
    tallies: [Tally; 2],
}

/// The connections of a capture, in the order of their first packets.
struct Reader<'a> {
    setup: &'a Setup,
    link: Option<Bottleneck>,
    /// Start of the first flow.
    first: Time,
    /// Time of the first packet of the first connection with enough data: the start of the first flow.
    zero_ns: Option<u64>,
    last_ns: u64,
    seen: Vec<Tracked>,
}

impl Reader<'_> {
    /// Converts a capture's time to the run's.
    fn at(&self, now_ns: u64) -> Time {
        self.first + Span::nanos(now_ns.saturating_sub(self.zero_ns.unwrap_or(now_ns)))
    }

    fn on_segment(&mut self, now_ns: u64, segment: &Segment) -> Result<()> {
        self.last_ns = now_ns;
        let at = self.at(now_ns);
        if at > self.setup.duration {
            return Ok(());
        }
        let is_measuring = at > self.setup.warmup || self.setup.warmup <= self.first;
        let is_first = segment.from <= segment.to;
        let place = self.place(now_ns, segment, is_first)?;
        let Tracked { connection, tallies, begun_ns } = &mut self.seen[place];
        if is_measuring {
            for (tally, flow) in tallies.iter_mut().zip(&connection.flows) {
                tally.before.get_or_insert(flow.counters);
            }
        }
        let side = usize::from(!is_first);
        let delivered = connection.flows[1 - side].counters.delivered;
        connection.on_segment(now_ns, segment, side);
        if segment.payload > 0 {
            tallies[side].sent_ns = now_ns;
        }
        if self.zero_ns.is_none() && connection.flows[side].counters.packets >= PACKETS_MIN {
            self.zero_ns = Some(*begun_ns);
        }
        let (flow, tally) = (&connection.flows[1 - side], &mut tallies[1 - side]);
        let more = flow.counters.delivered - delivered;
        if more == 0 {
            return Ok(());
        }
        tally.acked(now_ns, at, more, flow.newest_rtt_ns.map(|rtt_ns| (rtt_ns, is_measuring)));
        if let Some(link) = self.link.as_ref().filter(|_| is_measuring) {
            let wire = |payload: u64| payload as f64 * flow.wire_ratio();
            tally.passed.on_ack(link, wire(more), wire(flow.mss()), flow.newest_rtt_ns);
        }
        Ok(())
    }

    /// Finds a segment's connection; the first segment begins one, as does a SYN after data.
    fn place(&mut self, now_ns: u64, segment: &Segment, is_first: bool) -> Result<usize> {
        let ends = if is_first { (segment.from, segment.to) } else { (segment.to, segment.from) };
        let begins = segment.has(flag::SYN) && !segment.has(flag::ACK);
        let is_of = |seen: &Tracked| seen.connection.ends == ends && !(begins && seen.connection.has_data());
        if let Some(place) = self.seen.iter().rposition(is_of) {
            return Ok(place);
        }
        if self.seen.len() == CONNECTIONS_MAX {
            return Err(Error::ManyConnections(CONNECTIONS_MAX));
        }
        self.seen.push(Tracked { begun_ns: now_ns, connection: Connection::new(ends), tallies: Default::default() });
        Ok(self.seen.len() - 1)
    }
}

/// Reads a capture, pcap or pcapng, of a run of a scenario. Its connections are the flows, in the order of their first packets
/// and of the flows' starts; if there are more, those with fewer than ten data packets are left out. Load, queue and drops of the
/// bottleneck are numbers where one link and a constant delay are the whole path.
pub fn result(from: impl Read + Send, setup: &Setup) -> Result<RunResult> {
    let first = setup.flows.iter().map(|flow| flow.start).min().unwrap_or(Time::ZERO);
    let mut reader = Reader { setup, link: Bottleneck::of(setup), first, zero_ns: None, last_ns: 0, seen: Vec::new() };
    let mut fault = None;
    let counts = stream::read(from, |t_ns, packet| {
        if let Packet::Tcp(segment) = packet {
            fault = fault.take().or_else(|| reader.on_segment(t_ns, &segment).err());
        }
    })?;
    stream::check(&counts)?;
    if let Some(fault) = fault {
        return Err(fault);
    }
    reader.finish()
}

impl Reader<'_> {
    fn finish(mut self) -> Result<RunResult> {
        let setup = self.setup;
        let wanted = setup.flows.len();
        let is_busy = |seen: &&Tracked| seen.connection.flows.iter().any(|flow| flow.counters.packets >= PACKETS_MIN);
        let busy = self.seen.iter().filter(is_busy).count();
        if busy > wanted || self.seen.len() < wanted {
            return Err(Error::OtherConnections { found: busy.max(self.seen.len()), wanted });
        }
        // The smallest are control connections, such as iperf3's.
        while self.seen.len() > wanted {
            let least = (0..self.seen.len()).min_by_key(|&nth| self.seen[nth].connection.delivered());
            self.seen.remove(least.unwrap_or(0));
        }
        let mut order: Vec<usize> = (0..setup.flows.len()).collect();
        order.sort_by_key(|&nth| setup.flows[nth].start);
        let mut counted: Vec<Option<Counted>> = vec![None; order.len()];
        for (nth, seen) in order.into_iter().zip(&mut self.seen) {
            counted[nth] = Some(Counted::of(setup, nth, seen)?);
        }
        let counted: Vec<Counted> = counted.into_iter().flatten().collect();
        let ended = self.at(self.last_ns);
        if counted.iter().any(|one| one.finished.is_none()) {
            check_end(setup, ended)?;
        }
        Ok(of_flows(setup, ON, &counted))
    }
}

/// Refuses a record that ends before its run.
pub(super) fn check_end(setup: &Setup, ended: Time) -> Result<()> {
    if ended + MISSING >= setup.duration {
        return Ok(());
    }
    let seconds = |time: Time| time.as_nanos() as f64 / 1e9;
    Err(Error::ShortCapture { lasts_s: seconds(ended), wanted_s: seconds(setup.duration) })
}

/// Result of these flows. The bottleneck's figures are NaN if they cannot be counted from the flows.
pub(super) fn of_flows(setup: &Setup, on: &'static str, counted: &[Counted]) -> RunResult {
    let flows: Vec<FlowCounts<'_>> = counted.iter().map(Counted::counts).collect();
    if let Some(link) = Bottleneck::of(setup) {
        return summarise(setup, on, setup.duration, &flows, &link.counts(counted));
    }
    let link = LinkCounts {
        arrivals: 0,
        drops: 0,
        marks: 0,
        departed_bytes: 0,
        capacity_bytes: 0.0,
        packets: 0,
        queue_ms: UNKNOWN,
    };
    let mut result = summarise(setup, on, setup.duration, &flows, &link);
    result.bottleneck =
        result::Bottleneck { utilisation: f64::NAN, drop_ratio: f64::NAN, queue_ms: UNKNOWN, ..result.bottleneck };
    result
}

/// Counts of one flow.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    /// During measurement.
    pub counters: Counters,
    pub mss: u64,
    pub wire_ratio: f64,
    pub tally: Tally,
    pub finished: Option<Time>,
}

impl Counted {
    fn of(setup: &Setup, nth: usize, seen: &mut Tracked) -> Result<Self> {
        let flows = &mut seen.connection.flows;
        // The data's direction is the one that carries more: a request is short.
        let side = usize::from(flows[1].counters.delivered > flows[0].counters.delivered);
        flows[side].finish();
        let flow = &flows[side];
        if vantage::vantage(&seen.connection.handshake, side, flow).0 == Vantage::Receiver {
            return Err(Error::AtReceiver);
        }
        let tally = std::mem::take(&mut seen.tallies[side]);
        let finished = match setup.flows[nth].traffic {
            Traffic::Size(bytes) if flow.counters.delivered >= bytes => {
                Some(setup.flows[nth].start + Span::nanos(tally.arrived_ns().saturating_sub(seen.begun_ns)))
            }
            _ => None,
        };
        Ok(Self {
            counters: flow.counters.since(&tally.before.unwrap_or(flow.counters)),
            mss: flow.mss(),
            wire_ratio: flow.wire_ratio(),
            tally,
            finished,
        })
    }

    /// Number of full segments for this many payload bytes. Captured frames are not counted, because offloads merge them.
    pub(super) fn segments(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.mss)
    }

    /// Bytes on the wire that arrived.
    pub(super) fn wire_bytes(&self) -> u64 {
        ((self.counters.delivered + self.counters.needless) as f64 * self.wire_ratio) as u64
    }

    /// Converts to the counts of a backend.
    fn counts(&self) -> FlowCounts<'_> {
        let Counters { sent, delivered, again, needless, .. } = self.counters;
        FlowCounts {
            received_bytes: delivered,
            received_wire_bytes: self.wire_bytes(),
            segments: self.segments(sent),
            retransmits: self.segments(again),
            duplicates: self.segments(needless),
            rto: 0,
            bottleneck: None,
            rtt: &self.tally.rtt,
            bins: &self.tally.bins,
            states: &[],
            finished: self.finished,
            exchanges: &[],
            client: None,
            bw: Rate::default(),
            min_rtt: self.tally.min_rtt_ns.map(Span::nanos),
        }
    }
}

#[cfg(test)]
mod tests {
    use bbrlab_report::export::pcap;
    use bbrlab_sim::engine;
    use bbrlab_sim::record::packets::Tap;
    use bbrlab_sim::scenario::ScenarioFile;
    use bbrlab_sim::setup::Capture;

    use super::*;

    /// Setup of a scenario, its simulated result, and its packets at one place.
    fn captured(text: &str, at: Tap) -> (Setup, RunResult, Vec<u8>) {
        let mut setup = ScenarioFile::from_toml(text, "x").unwrap().resolve(&|_| unreachable!("no trace")).unwrap();
        setup.capture = Capture::On { limit: usize::MAX, taps: &Tap::ALL };
        let output = engine::run(&setup);
        let names = setup.flows.iter().map(|flow| flow.name.as_str());
        let mut bytes = Vec::new();
        pcap::write(&output.packets.records, &[at], names, "", &mut bytes).unwrap();
        (setup, output.result, bytes)
    }

    fn is_near(found: f64, truth: f64, share: f64) -> bool {
        (found / truth - 1.0).abs() < share
    }

    const TWO: &str = "rate = '20mbit'\nrtt = '40ms'\nbuffer = '1bdp'\nloss = '0.2%'\nduration = '12s'\nwarmup = '4s'\n\
                       sample = '0s'\nflow = ['cubic', 'bbr1@1s']\n";

    #[test]
    fn figures_of_a_capture_are_those_of_its_run() {
        let (setup, truth, bytes) = captured(TWO, Tap::Sender);
        let found = result(bytes.as_slice(), &setup).unwrap();
        assert_eq!((&*found.on, found.seed, found.flows.len()), (ON, truth.seed, 2));
        for (own, truth) in found.flows.iter().zip(&truth.flows) {
            let (rtt, wanted) = (own.rtt_ms.as_ref().unwrap(), truth.rtt_ms.as_ref().unwrap());
            assert_eq!((&own.name, &own.cc), (&truth.name, &truth.cc));
            assert!(is_near(own.goodput_bps, truth.goodput_bps, 0.01), "{} {}", own.goodput_bps, truth.goodput_bps);
            assert!(is_near(rtt.p50, wanted.p50, 0.01) && is_near(rtt.p95, wanted.p95, 0.01), "{rtt:?} {wanted:?}");
            let apart = (own.retransmit_ratio - truth.retransmit_ratio).abs();
            assert!(apart < 3e-4, "{} {}", own.retransmit_ratio, truth.retransmit_ratio);
        }
        assert!((found.jain - truth.jain).abs() < 0.005, "{} {}", found.jain, truth.jain);
        // With random loss on the path, the bottleneck's figures are unknown.
        assert!(found.bottleneck.utilisation.is_nan() && found.bottleneck.queue_ms.p50.is_nan());
    }

    #[test]
    fn a_bottleneck_without_other_effects_shows_its_load_queue_and_drops() {
        for (path, flows) in [
            ("rate = '50mbit'\nrtt = '40ms'\nbuffer = '8bdp'", "cubic"),
            ("rate = '20mbit'\nrtt = '40ms'\nbuffer = '8bdp'", "bbr3*2"),
            ("rate = '20mbit'\nrtt = '40ms'\nbuffer = '0.5bdp'", "bbr1*2"),
            ("rate = '20mbit'\nrtt = '40ms'\nbuffer = '4bdp'\naqm = 'codel'", "bbr1*2"),
            ("rate = '20mbit'\nrtt = '40ms'\nbuffer = '1bdp'\nschedule = '9s:rate=10mbit'", "bbr3"),
        ] {
            let text = format!("{path}\nduration = '20s'\nwarmup = '5s'\nsample = '0s'\nflow = ['{flows}']\n");
            let (setup, truth, bytes) = captured(&text, Tap::Sender);
            let (found, truth) = (result(bytes.as_slice(), &setup).unwrap().bottleneck, truth.bottleneck);
            let said = format!("{text}{found:?}\n{truth:?}");
            // Half a round trip passes between departure and ACK.
            let shift = if setup.schedule.is_empty() { 5e-4 } else { 3e-3 };
            assert!((found.utilisation - truth.utilisation).abs() < shift, "{said}");
            assert!((found.drop_ratio - truth.drop_ratio).abs() < 1e-3, "{said}");
            let (own, wanted) = (found.queue_ms, truth.queue_ms);
            if setup.schedule.is_empty() {
                for (own, wanted) in [(own.mean, wanted.mean), (own.p50, wanted.p50), (own.p95, wanted.p95)] {
                    assert!((own - wanted).abs() < 0.2 + 0.04 * wanted, "{own} {wanted} {said}");
                }
            } else {
                assert!(own.mean.is_nan() && own.p95.is_nan(), "{said}");
            }
        }
    }

    #[test]
    fn transfers_end_when_they_did() {
        let text = "rate = '10mbit'\nrtt = '40ms'\nduration = '8s'\nsample = '0s'\nflow = ['reno*3@1s+1s,size=60kB']\n";
        let (setup, truth, bytes) = captured(text, Tap::Sender);
        let found = result(bytes.as_slice(), &setup).unwrap();
        for (own, truth) in found.flows.iter().zip(&truth.flows) {
            let (own, truth) = (own.fct_s.unwrap(), truth.fct_s.unwrap());
            assert!(is_near(own, truth, 0.01), "{own} {truth}");
        }
    }

    #[test]
    fn captures_of_something_else_are_refused() {
        let (setup, _, bytes) = captured(TWO, Tap::Sender);
        let refused = |bytes: &[u8], setup: &Setup| result(bytes, setup).unwrap_err().to_string();
        let mut fewer = setup.clone();
        fewer.flows.pop();
        assert_eq!(
            refused(&bytes, &fewer),
            "it holds 2 connections, and the scenario has 1 flow; capture all of the run's, and no others"
        );
        let mut longer = setup.clone();
        longer.duration += Span::secs(20);
        assert_eq!(refused(&bytes, &longer), "it ends after 12.0 s of 32.0; capture the whole run");
        let (_, _, behind) = captured(TWO, Tap::Receiver);
        assert_eq!(refused(&behind, &setup), "it was made at the receiver of the data; capture at its sender");
        assert_eq!(refused(&[], &setup), "it holds no packet; name a capture of TCP at its sender");
    }
}
