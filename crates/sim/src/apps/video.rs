//! Video over one connection: a client that requests segment after segment, chooses the bitrate of each, and plays them.
//!
//! The player decides at the arrival of a segment, so it needs no timer: its buffer drains in real time in between. Playback
//! begins with the first segment, and after a stall with the next one. Segments of one bitrate have equal sizes.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::Arc;

use bbrlab_core::{NANOS_PER_SEC, Rate, Span, Time};

use crate::record::result::VideoResult;
use crate::scenario::arrivals::exp;

/// Share of the buffer below which the lowest bitrate is requested. Source: Huang et al., SIGCOMM 2014, BBA-0: 90 s of 240 s.
const RESERVOIR: f64 = 90.0 / 240.0;
/// Share of the buffer from which the highest bitrate is requested. Source: the same, a cushion of 126 s behind the reservoir.
const CUSHION_END: f64 = 216.0 / 240.0;
/// Share of the throughput that a segment may use. Source: dash.js 5, `bandwidthSafetyFactor`.
const SAFETY: f64 = 0.9;
/// Half-lives of the two throughput averages, weighted seconds of download; the smaller average counts. Source: dash.js 5,
/// `throughputFastHalfLifeSeconds`, `throughputSlowHalfLifeSeconds`.
const HALF_LIVES_S: [f64; 2] = [3.0, 8.0];
/// Weight of a second of download in these averages. Source: dash.js 5, `weightDownloadTimeMultiplicationFactor`.
const DOWNLOAD_WEIGHT: f64 = 1.5;
/// Weight of a change of bitrate in QoE. Source: Yin et al., SIGCOMM 2015, balanced preferences: λ.
const CHANGE_WEIGHT: f64 = 1.0;
/// Weight of a second of stall or start-up delay in QoE, kbit/s. Source: the same, μ and μ_s.
const WAIT_WEIGHT: f64 = 3000.0;
/// Bits in a byte.
const BITS: u64 = 8;

/// A video and the rule of its player.
#[derive(Clone, Debug, PartialEq)]
pub struct VideoSetup {
    /// Bitrates that the server offers, ascending; at least one.
    pub bitrates: Vec<Rate>,
    /// Playing time of a segment.
    pub segment: Span,
    /// Media that the player buffers at most. For live video, the latency target.
    pub buffer: Span,
    /// Rule for the bitrate.
    pub rule: AbrRule,
    /// True for live video: a segment can be requested once it has been produced.
    pub is_live: bool,
}

/// Rule by which a player chooses the bitrate of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbrRule {
    /// By the buffer alone: BBA-0, Huang et al., SIGCOMM 2014, algorithm 1.
    Buffer,
    /// By the throughput of past segments: as dash.js's `ThroughputRule`.
    Throughput,
}

impl AbrRule {
    /// All rules.
    pub const ALL: [Self; 2] = [Self::Buffer, Self::Throughput];

    /// Name used in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Buffer => "buffer",
            Self::Throughput => "throughput",
        }
    }

    /// The player's buffer unless the scenario sets one.
    pub const fn usual_buffer(self) -> Span {
        match self {
            // Source: Huang et al., SIGCOMM 2014.
            Self::Buffer => Span::secs(240),
            // Source: dash.js 5, `bufferTimeAtTopQuality`.
            Self::Throughput => Span::secs(30),
        }
    }
}

/// A player.
#[derive(Clone, Debug)]
pub struct Player {
    video: Arc<VideoSetup>,
    started: Time,
    /// Arrival of the first byte of the segment under way.
    first_byte: Option<Time>,
    /// Bitrate of the segment under way, and of the one before.
    quality: usize,
    before: Option<usize>,
    /// Media in the buffer at `seen`.
    buffered: Span,
    seen: Time,
    throughput: [HalfLifeMean; 2],
    startup: Option<Span>,
    stalls: u64,
    stalled: Span,
    segments: u64,
    switches: u64,
    /// Sum of the segments' bitrates, and of the changes between them, bit/s.
    bitrates: u64,
    changes: u64,
    bytes: u64,
}

/// Request that follows a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Bytes of the segment.
    pub size: u64,
    /// Time from now to the request.
    pub pause: Span,
}

impl Player {
    /// Creates a player that requests its first segment at `now`, at the lowest bitrate.
    pub fn new(video: Arc<VideoSetup>, now: Time) -> Self {
        Self {
            video,
            started: now,
            first_byte: None,
            quality: 0,
            before: None,
            buffered: Span::ZERO,
            seen: now,
            throughput: HALF_LIVES_S.map(HalfLifeMean::new),
            startup: None,
            stalls: 0,
            stalled: Span::ZERO,
            segments: 0,
            switches: 0,
            bitrates: 0,
            changes: 0,
            bytes: 0,
        }
    }

    /// Bytes of the segment under way.
    pub fn size(&self) -> u64 {
        self.video.bitrates[self.quality].bytes_in(self.video.segment).max(1)
    }

    /// Handles data of the stream: `in_order` bytes have arrived by `now`.
    pub fn on_bytes(&mut self, now: Time, in_order: u64) {
        if in_order > self.bytes {
            self.first_byte.get_or_insert(now);
        }
    }

    /// Plays up to `now`, at which the segment under way has arrived, and chooses the next one.
    pub fn on_segment(&mut self, now: Time) -> Request {
        self.play_until(now);
        self.startup.get_or_insert(now.since(self.started));
        let size = self.size();
        self.bytes += size;
        self.segments += 1;
        let bps = |place: usize| self.video.bitrates[place].as_bits_per_sec();
        self.bitrates += bps(self.quality);
        // A change counts once a segment of the new bitrate has arrived.
        if let Some(before) = self.before.replace(self.quality).filter(|before| *before != self.quality) {
            self.switches += 1;
            self.changes += bps(before).abs_diff(bps(self.quality));
        }
        self.buffered = self.buffered + self.video.segment;
        // A segment that arrives at one moment has no throughput.
        if let Some(took) = self.first_byte.take().map(|first| now.since(first)).filter(|took| *took > Span::ZERO) {
            for mean in &mut self.throughput {
                mean.add((size * BITS) as f64, took);
            }
        }
        self.quality = self.choose();
        Request { size: self.size(), pause: self.pause(now) }
    }

    /// Time until the next request: when the segment has room in the buffer, and has been produced.
    fn pause(&self, now: Time) -> Span {
        let video = &*self.video;
        if video.is_live {
            // At the start, as much as the latency target has been produced.
            let produced = video.segment.as_nanos().saturating_mul(self.segments + 1);
            let at = self.started + Span::nanos(produced.saturating_sub(video.buffer.as_nanos()));
            return at.since(now);
        }
        // spec: dash.js 5, ScheduleController: a buffer of one segment is refilled as soon as it is no longer full.
        let room = if video.buffer > video.segment { video.segment } else { Span::ZERO };
        minus(self.buffered + room, video.buffer)
    }

    fn play_until(&mut self, now: Time) {
        let passed = now.since(self.seen);
        self.seen = now;
        if self.startup.is_none() {
            return;
        }
        if passed > self.buffered {
            self.stalls += 1;
            self.stalled = self.stalled + minus(passed, self.buffered);
        }
        self.buffered = minus(self.buffered, passed);
    }

    /// Bitrate of the next segment, as its place in the list.
    fn choose(&self) -> usize {
        let bitrates = &self.video.bitrates;
        match self.video.rule {
            AbrRule::Buffer => by_buffer(bitrates, self.quality, self.buffered, self.video.buffer),
            AbrRule::Throughput => {
                let [fast, slow] = self.throughput.map(HalfLifeMean::get);
                fast.zip(slow).map_or(self.quality, |(fast, slow)| by_throughput(bitrates, fast.min(slow)))
            }
        }
    }

    /// Figures of a session that ended at `end`.
    pub fn result(&self, end: Time) -> VideoResult {
        let mut last = self.clone();
        last.play_until(end.max(self.seen));
        let seconds = |span: Span| span.as_nanos() as f64 / NANOS_PER_SEC as f64;
        let segments = self.segments.max(1) as f64;
        let bitrate_bps = self.bitrates as f64 / segments;
        let waited = last.startup.unwrap_or_else(|| end.since(self.started));
        let played = Span::nanos(self.video.segment.as_nanos() * self.segments - last.buffered.as_nanos());
        let change_kbps = self.changes as f64 / 1e3 / segments;
        VideoResult {
            rule: self.video.rule.name().to_owned(),
            startup_s: last.startup.map(seconds),
            stalls: last.stalls,
            stalled_s: seconds(last.stalled),
            played_s: seconds(played),
            segments: self.segments,
            bytes: self.bytes,
            bitrate_bps,
            switches: self.switches,
            qoe: bitrate_bps / 1e3
                - CHANGE_WEIGHT * change_kbps
                - WAIT_WEIGHT * (seconds(last.stalled) + seconds(waited)) / segments,
            latency_s: self.video.is_live.then(|| seconds(self.video.buffer + waited + last.stalled)),
        }
    }
}

/// The first span without the second; none if that is longer.
const fn minus(span: Span, other: Span) -> Span {
    Span::nanos(span.as_nanos().saturating_sub(other.as_nanos()))
}

// spec: Huang et al., SIGCOMM 2014, algorithm 1, with a linear map from reservoir to cushion
fn by_buffer(bitrates: &[Rate], now: usize, buffered: Span, capacity: Span) -> usize {
    let top = bitrates.len() - 1;
    let bps = |place: usize| bitrates[place].as_bits_per_sec() as f64;
    let fill = buffered.as_nanos() as f64 / capacity.as_nanos().max(1) as f64;
    if fill <= RESERVOIR {
        return 0;
    }
    if fill >= CUSHION_END {
        return top;
    }
    let allowed = bps(0) + (fill - RESERVOIR) / (CUSHION_END - RESERVOIR) * (bps(top) - bps(0));
    let (above, below) = ((now + 1).min(top), now.saturating_sub(1));
    if now < top && allowed >= bps(above) {
        // The highest below what the map allows.
        (0..=top).rev().find(|place| bps(*place) < allowed).unwrap_or(0)
    } else if now > 0 && allowed <= bps(below) {
        (0..=top).find(|place| bps(*place) > allowed).unwrap_or(top)
    } else {
        now
    }
}

// spec: dash.js 5, ThroughputRule
fn by_throughput(bitrates: &[Rate], mean_bps: f64) -> usize {
    let usable = bitrates.iter().take_while(|rate| rate.as_bits_per_sec() as f64 <= SAFETY * mean_bps).count();
    usable.saturating_sub(1)
}

/// An exponentially weighted mean of throughput, weighted by the time from first to last byte and corrected for its start.
// spec: dash.js 5, ThroughputController
#[derive(Clone, Copy, Debug)]
struct HalfLifeMean {
    half_life_s: f64,
    sum: f64,
    weight_s: f64,
}

impl HalfLifeMean {
    const fn new(half_life_s: f64) -> Self {
        Self { half_life_s, sum: 0.0, weight_s: 0.0 }
    }

    /// Share that is left after this time.
    fn left(self, seconds: f64) -> f64 {
        exp(-std::f64::consts::LN_2 * seconds / self.half_life_s)
    }

    fn add(&mut self, bits: f64, took: Span) {
        let took_s = took.as_nanos().max(1) as f64 / NANOS_PER_SEC as f64;
        let weight_s = DOWNLOAD_WEIGHT * took_s;
        let left = self.left(weight_s);
        self.sum = left * self.sum + (1.0 - left) * bits / took_s;
        self.weight_s += weight_s;
    }

    /// The mean, bit/s; `None` without values.
    fn get(self) -> Option<f64> {
        (self.weight_s > 0.0).then(|| self.sum / (1.0 - self.left(self.weight_s)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LADDER: [u64; 4] = [300, 750, 1_200, 2_850];

    fn ladder() -> Vec<Rate> {
        LADDER.iter().map(|kbps| Rate::bits_per_sec(kbps * 1_000)).collect()
    }

    fn player(rule: AbrRule, is_live: bool) -> Player {
        let buffer = if is_live { Span::secs(6) } else { rule.usual_buffer() };
        let video = VideoSetup { bitrates: ladder(), segment: Span::secs(4), buffer, rule, is_live };
        Player::new(Arc::new(video), Time::ZERO)
    }

    /// Downloads at a constant rate to `end`; the time without the pauses that the player makes.
    fn download(player: &mut Player, bps: u64, end: Time) {
        let (mut at, mut size) = (Time::ZERO, player.size());
        loop {
            let first = at;
            at += Rate::bits_per_sec(bps).time_for(size);
            if at > end {
                return;
            }
            player.on_bytes(first, player.bytes + 1);
            let next = player.on_segment(at);
            (at, size) = (at + next.pause, next.size);
        }
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::secs(seconds)
    }

    #[test]
    fn what_was_played_buffered_and_waited_for_adds_up_to_the_session() {
        for rule in AbrRule::ALL {
            for (bps, is_live) in [(200_000, false), (1_000_000, false), (9_000_000, false), (1_000_000, true)] {
                let mut player = player(rule, is_live);
                download(&mut player, bps, at(300));
                let result = player.result(at(300));
                let all = result.played_s + result.stalled_s + result.startup_s.unwrap();
                assert!((all - 300.0).abs() < 1e-6, "{rule:?} {bps} {result:?}");
                assert!(result.played_s <= 4.0 * result.segments as f64 + 1e-9);
            }
        }
    }

    #[test]
    fn a_fast_link_plays_the_highest_bitrate_without_a_stall_and_a_slow_one_stalls() {
        for rule in AbrRule::ALL {
            let mut fast = player(rule, false);
            download(&mut fast, 20_000_000, at(600));
            let result = fast.result(at(600));
            assert_eq!((result.stalls, fast.quality), (0, 3), "{result:?}");
            let mut slow = player(rule, false);
            download(&mut slow, 200_000, at(600));
            let result = slow.result(at(600));
            assert!(result.stalls > 10 && slow.quality == 0 && result.switches == 0, "{result:?}");
            // Two thirds of the media arrive in time.
            assert!((result.played_s / 600.0 - 2.0 / 3.0).abs() < 0.02, "{result:?}");
        }
    }

    #[test]
    fn the_buffer_rule_follows_its_map_and_keeps_the_bitrate_between_two_steps() {
        let of = |seconds, now| by_buffer(&ladder(), now, Span::secs(seconds), Span::secs(240));
        assert_eq!((of(90, 2), of(216, 0), of(240, 1)), (0, 3, 3));
        // At 112 s the map allows 745 kbit/s: not yet the second bitrate.
        assert_eq!((of(112, 0), of(113, 0)), (0, 1));
        // At 140 s it allows 1312 kbit/s, and at 100 s 502: a step down waits until the bitrate below is reached.
        assert_eq!((of(140, 0), of(140, 1), of(100, 1), of(91, 2)), (2, 2, 1, 1));
    }

    #[test]
    fn the_throughput_rule_takes_nine_tenths_of_the_smaller_mean() {
        assert_eq!(by_throughput(&ladder(), 1_333_000.0), 1);
        assert_eq!(by_throughput(&ladder(), 1_334_000.0), 2);
        assert_eq!(by_throughput(&ladder(), 0.0), 0);
        let mut means = HALF_LIVES_S.map(HalfLifeMean::new);
        for _ in 0..3 {
            means.iter_mut().for_each(|mean| mean.add(8e6, Span::secs(1)));
        }
        assert!(means.iter().all(|mean| (mean.get().unwrap() - 8e6).abs() < 1.0), "unbiased from the start");
        means.iter_mut().for_each(|mean| mean.add(8e6, Span::secs(8)));
        assert!(means[0].get() < means[1].get() && means[1].get() < Some(8e6));
    }

    #[test]
    fn the_wait_for_the_first_byte_does_not_count_and_a_segment_without_duration_changes_nothing() {
        let mut player = player(AbrRule::Throughput, false);
        player.on_bytes(at(3), 1);
        player.on_segment(at(4)); // 1.2 Mbit in the second since its first byte
        assert_eq!(player.throughput[0].get().map(f64::round), Some(1.2e6));
        assert_eq!(player.quality, 1);
        player.on_bytes(at(5), player.bytes + 1);
        player.on_segment(at(5));
        assert_eq!((player.throughput[0].get().map(f64::round), player.quality), (Some(1.2e6), 1));
    }

    #[test]
    fn live_video_waits_for_each_segment_and_its_latency_grows_by_what_it_waited() {
        let mut player = player(AbrRule::Throughput, true);
        // A target of 6 s: the first segment of 4 s exists, the second from 2 s on.
        let next = player.on_segment(at(1));
        assert_eq!(next.pause, Span::secs(1));
        let next = player.on_segment(at(3));
        assert_eq!(next.pause, Span::secs(3));
        let result = player.result(at(20));
        // Media of 8 s from 1 s on: silence from 9 s to 20 s.
        assert_eq!((result.stalls, result.stalled_s, result.latency_s), (1, 11.0, Some(18.0)));
    }

    #[test]
    fn a_bitrate_that_was_only_requested_is_no_change() {
        let mut player = player(AbrRule::Throughput, false);
        player.on_bytes(at(3), 1);
        player.on_segment(at(4));
        assert_eq!((player.quality, player.result(at(5)).switches), (1, 0));
        player.on_bytes(at(5), player.bytes + 1);
        player.on_segment(at(6));
        let result = player.result(at(7));
        assert_eq!((result.segments, result.switches, player.changes), (2, 1, 450_000));
    }

    #[test]
    fn a_buffer_of_one_segment_is_refilled_before_it_is_empty() {
        for rule in AbrRule::ALL {
            let segment = Span::secs(4);
            let video = VideoSetup { bitrates: ladder(), segment, buffer: segment, rule, is_live: false };
            let mut player = Player::new(Arc::new(video), Time::ZERO);
            download(&mut player, 20_000_000, at(60));
            assert_eq!(player.result(at(60)).stalls, 0);
        }
    }

    #[test]
    fn qoe_is_that_of_yin_and_others_for_each_segment() {
        let mut player = player(AbrRule::Throughput, false);
        download(&mut player, 10_000_000, at(60));
        let result = player.result(at(60));
        let changes = (2850.0 - 300.0) / result.segments as f64;
        let expected = result.bitrate_bps / 1e3 - changes - 3000.0 * result.startup_s.unwrap() / result.segments as f64;
        assert!((result.qoe - expected).abs() < 1e-6, "{result:?}");
    }
}
