//! Signals of one direction of a connection, collected in bounded memory: RTTs, rates between ACKs, losses with the RTT
//! around them, bytes sent and lost over time, ACK clusters.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use hdrhistogram::Histogram;

/// Largest number of chunks kept. When there are more, every second one is dropped. Ours: 256 KiB.
const CHUNKS_MAX: usize = 4096;
/// Shortest chunk in segments: the first and the last ACK may each be one segment off. Ours.
const CHUNK_SEGMENTS: u64 = 24;
/// Share of the smallest RTT that a chunk lasts at least. Ours: BBR's probing fills a queue for about one.
const CHUNK_RTT_SHARE: u64 = 4;
/// Longest gap between ACKs of a chunk in multiples of its mean gap, if the sender paused as well. Ours.
const GAP_MAX: u64 = 4;
/// Largest number of runs of losses kept. When there are more, every second one is dropped. Ours: 448 KiB.
const RUNS_MAX: usize = 8192;
/// Largest number of bins over time. When there are more, each is twice as wide. Ours.
const BINS_MAX: usize = 32_768;
/// Width of the first bins. Ours: a packet at 50 Mbit/s.
const BIN_NS: u64 = 250_000;
/// Sizes of the first range of a frame, in segments, for which the smallest RTT is kept. Source: 64 KiB of 1448 bytes.
pub const LEADS: usize = 48;
/// Recent runs in which a duplicate report is searched.
const RECENT_RUNS: usize = 256;
/// ACKs closer than this share of the gap before their cluster belong to it. Ours.
const CLUSTER_SHARE: u64 = 8;

/// Data that was lost, by the evidence of its retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Time of its last transmission before.
    pub sent_ns: u64,
    /// First byte.
    pub from: u64,
    /// One past the last byte.
    pub to: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// RTT of the nearest data before it that arrived within a round trip of it; 0 if unknown.
    pub before_ns: u64,
    /// RTT of the nearest data after it that arrived within a round trip of it; 0 if unknown.
    pub after_ns: u64,
}

/// Consecutive data that was lost, and what of it was lost again at a time from which no RTT beside it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossRun {
    /// Send time of its first byte.
    pub first_ns: u64,
    /// Send time of its last segment.
    pub last_ns: u64,
    /// First byte.
    pub from: u64,
    /// One past the last byte.
    pub to: u64,
    /// RTT of the nearest data before or, if unknown, after it; 0 if both are.
    pub rtt_ns: u64,
    /// Transmissions lost, as segments.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// ACKs between two moments, and the data that they acknowledge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Time of its first ACK.
    pub first_ns: u64,
    /// Time of its last ACK.
    pub last_ns: u64,
    /// Bytes acknowledged after the first ACK.
    pub bytes: u64,
    /// Time from the first to the last transmission of that data.
    pub sent_span_ns: u64,
    /// Smallest RTT after the first ACK.
    pub min_rtt_ns: u64,
    /// Number of ACKs after the first.
    pub acks: u64,
    /// True if each of its ACKs has an RTT, and no data was missing meanwhile.
    pub is_plain: bool,
    /// Most bytes of one ACK.
    pub largest_ack: u64,
    first_sent_ns: u64,
}

impl Chunk {
    /// Bytes per second between its ACKs.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / (self.last_ns.saturating_sub(self.first_ns).max(1) as f64 / 1e9)
    }

    /// Time from its first to its last ACK.
    pub const fn span_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns)
    }
}

/// Bytes sent and lost over time, in bins that grow.
#[derive(Clone, Debug)]
pub struct Timeline {
    origin_ns: Option<u64>,
    /// Width of a bin.
    pub width_ns: u64,
    /// (sent, lost) in each bin.
    pub bins: Vec<(u32, u32)>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { origin_ns: None, width_ns: BIN_NS, bins: Vec::new() }
    }
}

impl Timeline {
    fn bin(&mut self, at_ns: u64) -> &mut (u32, u32) {
        let origin = *self.origin_ns.get_or_insert(at_ns);
        let since = at_ns.saturating_sub(origin);
        while since / self.width_ns >= BINS_MAX as u64 {
            self.width_ns = self.width_ns.saturating_mul(2);
            let sum = |sum: (u32, u32), one: &(u32, u32)| (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1));
            self.bins = self.bins.chunks(2).map(|pair| pair.iter().fold((0, 0), sum)).collect();
        }
        let nth = usize::try_from(since / self.width_ns).unwrap_or(0);
        if nth >= self.bins.len() {
            self.bins.resize(nth + 1, (0, 0));
        }
        &mut self.bins[nth]
    }

    fn sent(&mut self, at_ns: u64, bytes: u64) {
        let bin = self.bin(at_ns);
        bin.0 = bin.0.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    fn lost(&mut self, at_ns: u64, bytes: u64) {
        let bin = self.bin(at_ns);
        bin.1 = bin.1.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    fn found(&mut self, at_ns: u64, bytes: u64) {
        let bin = self.bin(at_ns);
        bin.1 = bin.1.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
    }
}

/// Clusters of ACKs, each after a gap.
#[derive(Clone, Debug, Default)]
pub struct Clusters {
    start_ns: u64,
    last_ns: u64,
    gap_ns: u64,
    bytes: u64,
    acks: u64,
    /// Clusters seen.
    pub count: u64,
    /// ACKs in all.
    pub all_acks: u64,
    /// (period in µs, bytes, ACKs) of a sample of them.
    pub sample: Vec<(u64, u64, u64)>,
    stride: u64,
}

/// Largest sample of clusters. Ours.
const CLUSTERS_MAX: usize = 1024;

impl Clusters {
    fn add(&mut self, now_ns: u64, bytes: u64) {
        let gap = now_ns.saturating_sub(self.last_ns);
        self.all_acks += 1;
        if self.acks > 0 && gap <= self.gap_ns / CLUSTER_SHARE {
            (self.bytes, self.acks) = (self.bytes + bytes, self.acks + 1);
        } else {
            if self.acks > 0 && self.count.is_multiple_of(self.stride.max(1)) {
                let period = now_ns.saturating_sub(self.start_ns) / 1000;
                self.sample.push((period, self.bytes, self.acks));
                if self.sample.len() >= CLUSTERS_MAX {
                    halve(&mut self.sample);
                    self.stride = self.stride.max(1) * 2;
                }
            }
            self.count += 1;
            (self.start_ns, self.gap_ns, self.bytes, self.acks) = (now_ns, gap, bytes, 1);
        }
        self.last_ns = now_ns;
    }
}

/// Drops every second element.
fn halve<T>(list: &mut Vec<T>) {
    let mut nth = 0_usize;
    list.retain(|_| {
        nth += 1;
        nth % 2 == 1
    });
}

/// All signals of one direction.
#[derive(Clone, Debug)]
pub struct Signals {
    /// Distribution of RTTs in µs, weighted by segments.
    pub rtt: Option<Histogram<u64>>,
    /// The same of each packet by the link's queue, where that was computed.
    pub passed: Option<Histogram<u64>>,
    /// Smallest RTT by the segments of the frame up to the acknowledged one; class 0 is the handshake.
    pub floor_ns: [u64; LEADS],
    /// Bytes of the handshake's packet.
    pub handshake_bytes: u64,
    /// Rates between ACKs.
    pub chunks: Vec<Chunk>,
    chunk: Option<Chunk>,
    chunk_stride: u64,
    chunks_seen: u64,
    /// Smallest RTT so far.
    pub min_rtt_ns: u64,
    /// Runs of losses, in the order in which they were found.
    pub runs: Vec<LossRun>,
    run_stride: u64,
    runs_seen: u64,
    /// Segments lost, reports of duplicates subtracted.
    pub lost_segments: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// Bytes over time.
    pub timeline: Timeline,
    /// ACK clusters.
    pub clusters: Clusters,
}

impl Default for Signals {
    fn default() -> Self {
        Self {
            rtt: histogram(),
            passed: None,
            floor_ns: [u64::MAX; LEADS],
            handshake_bytes: 0,
            chunks: Vec::new(),
            chunk: None,
            chunk_stride: 1,
            chunks_seen: 0,
            min_rtt_ns: u64::MAX,
            runs: Vec::new(),
            run_stride: 1,
            runs_seen: 0,
            lost_segments: 0,
            lost_bytes: 0,
            timeline: Timeline::default(),
            clusters: Clusters::default(),
        }
    }
}

/// One ACK of new data.
#[derive(Clone, Copy, Debug)]
pub struct AckSignal {
    /// Arrival at the sender.
    pub now_ns: u64,
    /// Bytes newly acknowledged.
    pub bytes: u64,
    /// Send time and RTT of the newest data, if unambiguous.
    pub rtt: Option<(u64, u64)>,
    /// Segments of the frame up to the acknowledged one, if known.
    pub lead: Option<usize>,
    /// Segment size.
    pub mss: u64,
    /// True if data below selectively acknowledged data is missing.
    pub has_holes: bool,
}

impl Signals {
    /// Number of items in memory, for tests of its bounds.
    #[cfg(test)]
    pub fn items(&self) -> usize {
        self.chunks.len() + self.runs.len() + self.timeline.bins.len() + self.clusters.sample.len()
    }

    /// Records `bytes` sent.
    pub fn on_sent(&mut self, now_ns: u64, bytes: u64) {
        self.timeline.sent(now_ns, bytes);
    }

    /// Records the RTT of the handshake, and the bytes whose serialisation is part of it.
    pub fn on_handshake(&mut self, rtt_ns: u64, bytes: u64) {
        if rtt_ns <= self.floor_ns[0] {
            (self.floor_ns[0], self.handshake_bytes) = (rtt_ns, bytes);
        }
        self.min_rtt_ns = self.min_rtt_ns.min(rtt_ns);
    }

    /// Records the RTT of a packet by the link's queue.
    pub fn on_passed(&mut self, rtt_ns: u64) {
        self.passed = self.passed.take().or_else(histogram);
        if let Some(all) = &mut self.passed {
            all.saturating_record((rtt_ns / 1000).max(1));
        }
    }

    /// RTTs of all packets: by the link's queue, or of their ACKs.
    pub fn waits(&self) -> Option<&Histogram<u64>> {
        self.passed.as_ref().or(self.rtt.as_ref())
    }

    /// Records an ACK of new data.
    pub fn on_ack(&mut self, ack: &AckSignal) {
        self.clusters.add(ack.now_ns, ack.bytes);
        if let Some((_, rtt_ns)) = ack.rtt {
            let segments = ack.bytes.div_ceil(ack.mss.max(1));
            // A value beyond the bounds counts as the largest.
            if let Some(all) = &mut self.rtt {
                all.saturating_record_n((rtt_ns / 1000).max(1), segments.max(1));
            }
            self.min_rtt_ns = self.min_rtt_ns.min(rtt_ns);
            if let Some(lead) = ack.lead {
                let lead = lead.clamp(1, LEADS - 1);
                self.floor_ns[lead] = self.floor_ns[lead].min(rtt_ns);
            }
        }
        self.extend_chunk(ack);
    }

    fn extend_chunk(&mut self, ack: &AckSignal) {
        let Some(chunk) = &mut self.chunk else {
            self.chunk = ack.rtt.map(|(sent_ns, _)| begin(ack.now_ns, sent_ns));
            return;
        };
        let gap = ack.now_ns.saturating_sub(chunk.last_ns);
        let mean = chunk.span_ns() / chunk.acks.max(1);
        let is_long = chunk.bytes >= CHUNK_SEGMENTS * ack.mss
            && chunk.span_ns() >= self.min_rtt_ns / CHUNK_RTT_SHARE
            && gap >= mean;
        let sent_gap = ack
            .rtt
            .map_or(0, |(sent_ns, _)| sent_ns.saturating_sub(chunk.first_sent_ns).saturating_sub(chunk.sent_span_ns));
        let has_paused = chunk.acks >= 2 && gap > GAP_MAX * mean && sent_gap * 2 > gap;
        if is_long || has_paused {
            let done = *chunk;
            self.keep(done);
            // Without a pause the next chunk begins where this one ends, and no ACK is left out.
            let Some((sent_ns, _)) = ack.rtt else {
                self.chunk = None;
                return;
            };
            if has_paused {
                self.chunk = Some(begin(ack.now_ns, sent_ns));
                return;
            }
            self.chunk = Some(begin(done.last_ns, done.first_sent_ns + done.sent_span_ns));
        }
        let Some(chunk) = &mut self.chunk else { return };
        chunk.last_ns = ack.now_ns;
        chunk.bytes += ack.bytes;
        chunk.acks += 1;
        chunk.is_plain &= ack.rtt.is_some() && !ack.has_holes;
        chunk.largest_ack = chunk.largest_ack.max(ack.bytes);
        if let Some((sent_ns, rtt_ns)) = ack.rtt {
            chunk.min_rtt_ns = chunk.min_rtt_ns.min(rtt_ns);
            chunk.sent_span_ns = chunk.sent_span_ns.max(sent_ns.saturating_sub(chunk.first_sent_ns));
        }
    }

    fn keep(&mut self, chunk: Chunk) {
        self.chunks_seen += 1;
        if chunk.acks < 3 || chunk.min_rtt_ns == u64::MAX || !self.chunks_seen.is_multiple_of(self.chunk_stride) {
            return;
        }
        self.chunks.push(chunk);
        if self.chunks.len() >= CHUNKS_MAX {
            halve(&mut self.chunks);
            self.chunk_stride *= 2;
        }
    }

    /// Handles a clock set back: the ACKs before it and after it have no common rate.
    pub fn on_clock(&mut self) {
        self.chunk = None;
    }

    /// Ends the connection: the last chunk counts too.
    pub fn finish(&mut self) {
        if let Some(chunk) = self.chunk.take() {
            self.keep(chunk);
        }
    }

    /// Records a loss in segments of `mss`.
    pub fn on_lost(&mut self, lost: &Lost, mss: u64) {
        let segments = (lost.to - lost.from).div_ceil(mss.max(1));
        self.lost_segments += segments;
        self.lost_bytes = self.lost_bytes.saturating_add(lost.bytes);
        self.timeline.lost(lost.sent_ns, lost.to - lost.from);
        let is_alone = lost.before_ns == 0 && lost.after_ns == 0;
        if let Some(last) = self.runs.last_mut()
            && (last.to == lost.from || is_alone && last.from <= lost.from && lost.to <= last.to)
            && lost.sent_ns >= last.last_ns
            && self.run_stride == 1
        {
            (last.to, last.last_ns) = (last.to.max(lost.to), lost.sent_ns);
            last.segments += segments;
            last.bytes = last.bytes.saturating_add(lost.bytes);
            return;
        }
        self.runs_seen += 1;
        if !self.runs_seen.is_multiple_of(self.run_stride) {
            return;
        }
        let rtt_ns = if lost.before_ns > 0 { lost.before_ns } else { lost.after_ns };
        let (first_ns, last_ns) = (lost.sent_ns, lost.sent_ns);
        let Lost { from, to, bytes, .. } = *lost;
        self.runs.push(LossRun { first_ns, last_ns, from, to, rtt_ns, segments, bytes });
        if self.runs.len() >= RUNS_MAX {
            halve(&mut self.runs);
            self.run_stride *= 2;
        }
    }

    /// Withdraws a loss that a duplicate report shows to have been none. Returns true if it was found.
    pub fn withdraw(&mut self, from: u64, to: u64, mss: u64) -> bool {
        let recent = self.runs.len().saturating_sub(RECENT_RUNS);
        let Some(nth) = self.runs[recent..].iter().rposition(|run| run.from < to && from < run.to) else {
            return false;
        };
        let run = &mut self.runs[recent + nth];
        let segments = (to - from).div_ceil(mss.max(1)).min(run.segments);
        let bytes = run.bytes * segments / run.segments.max(1);
        run.segments -= segments;
        run.bytes -= bytes;
        self.lost_bytes = self.lost_bytes.saturating_sub(bytes);
        self.lost_segments = self.lost_segments.saturating_sub(segments);
        self.timeline.found(run.first_ns, to - from);
        true
    }
}

/// 1 µs to 1000 s in two digits, which the constructor accepts.
fn histogram() -> Option<Histogram<u64>> {
    Histogram::new_with_bounds(1, 1_000_000_000, 2).ok()
}

const fn begin(now_ns: u64, sent_ns: u64) -> Chunk {
    Chunk {
        first_ns: now_ns,
        last_ns: now_ns,
        bytes: 0,
        sent_span_ns: 0,
        min_rtt_ns: u64::MAX,
        acks: 0,
        is_plain: true,
        largest_ack: 0,
        first_sent_ns: sent_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_lost_again_belongs_to_its_run_unless_other_data_passed_beside_it() {
        let mut signals = Signals::default();
        let lost =
            |sent_ns, from, to, rtt_ns| Lost { sent_ns, from, to, bytes: to - from, before_ns: rtt_ns, after_ns: 0 };
        signals.on_lost(&lost(1_000, 2_000, 3_000, 500), 1_000);
        signals.on_lost(&lost(1_100, 3_000, 5_000, 500), 1_000);
        // A time-out's retransmission, and the next one's.
        signals.on_lost(&lost(9_000, 2_000, 3_000, 0), 1_000);
        signals.on_lost(&lost(17_000, 2_000, 3_000, 0), 1_000);
        signals.on_lost(&lost(20_000, 2_000, 3_000, 600), 1_000);
        let runs: Vec<_> = signals.runs.iter().map(|run| (run.from, run.to, run.last_ns, run.segments)).collect();
        assert_eq!(runs, [(2_000, 5_000, 17_000, 5), (2_000, 3_000, 20_000, 1)]);
        assert_eq!(signals.lost_segments, 6);
    }
}
