//! Applications of a flow as written: `video=throughput:300kbit/750kbit:segment=4s`, `call=2mbit/30/150ms`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;
use std::str::FromStr;

use bbrlab_core::{NANOS_PER_SEC, Span};

use super::text::{TextError, nearest};
use super::units::{BitRate, TimeSpan, Volume};
use crate::apps::call::CallSetup;
use crate::apps::page::PageSetup;
use crate::apps::video::{AbrRule, VideoSetup};

/// Playing time of a segment. Source: Huang et al., SIGCOMM 2014.
const SEGMENT_DEFAULT: TimeSpan = TimeSpan::secs(4);
/// Shortest and longest segment. Ours.
const SEGMENT_RANGE: (TimeSpan, TimeSpan) = (TimeSpan::millis(100), TimeSpan::secs(60));
/// Longest buffer. Ours.
const BUFFER_MAX: TimeSpan = TimeSpan::secs(3600);
/// Maximum number of bitrates. Ours.
const BITRATES_MAX: usize = 100;
/// Delay beyond which a frame is late. Source: ITU-T G.114, acceptable for most conversations.
const DEADLINE_DEFAULT: TimeSpan = TimeSpan::millis(150);
/// Largest number of frames per second. Ours.
const FPS_MAX: u32 = 1000;

/// A video as written.
#[derive(Clone, Debug, PartialEq)]
pub struct VideoSpec {
    /// Rule for the bitrate.
    pub rule: AbrRule,
    /// Bitrates, ascending.
    pub bitrates: Vec<BitRate>,
    /// Playing time of a segment.
    pub segment: Option<TimeSpan>,
    /// Media that the player buffers at most.
    pub buffer: Option<TimeSpan>,
    /// Latency target of live video.
    pub live: Option<TimeSpan>,
}

impl VideoSpec {
    /// The video with its defaults filled in.
    pub fn setup(&self) -> VideoSetup {
        VideoSetup {
            bitrates: self.bitrates.iter().map(|bitrate| bitrate.rate()).collect(),
            segment: self.segment.unwrap_or(SEGMENT_DEFAULT).span(),
            buffer: self.live.or(self.buffer).map_or(self.rule.usual_buffer(), TimeSpan::span),
            rule: self.rule,
            is_live: self.live.is_some(),
        }
    }

    fn set(&mut self, option: &str) -> Result<(), TextError> {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let place = match key {
            "segment" => &mut self.segment,
            "buffer" => &mut self.buffer,
            "live" => &mut self.live,
            _ => {
                let near = nearest(key, ["segment", "buffer", "live"])
                    .map_or(String::new(), |near| format!(" (did you mean {near}?)"));
                return Err(TextError(format!(
                    "{option:?} is not an option{near}; write segment=TIME, buffer=TIME or live=TIME"
                )));
            }
        };
        if place.is_some() {
            return Err(TextError(format!("{key} is written twice; write it once")));
        }
        *place = Some(value.parse().map_err(|error| TextError(format!("{key}: {error}")))?);
        Ok(())
    }

    fn check(&self) -> Result<(), TextError> {
        let segment = self.segment.unwrap_or(SEGMENT_DEFAULT);
        if segment < SEGMENT_RANGE.0 || segment > SEGMENT_RANGE.1 {
            let (min, max) = SEGMENT_RANGE;
            return Err(TextError(format!("segment: {segment} is out of range; write {min} to {max}")));
        }
        if self.buffer.is_some() && self.live.is_some() {
            return Err(TextError("buffer and live exclude each other; write one".to_owned()));
        }
        for (key, time) in [("buffer", self.buffer), ("live", self.live)] {
            if time.is_some_and(|time| time < segment || time > BUFFER_MAX) {
                let time = time.unwrap_or_default();
                let range = format!("write {segment}, one segment, to {BUFFER_MAX}");
                return Err(TextError(format!("{key}: {time} is out of range; {range}")));
            }
        }
        if self.bitrates.len() > BITRATES_MAX {
            return Err(TextError(format!(
                "{} bitrates are too many; write at most {BITRATES_MAX}",
                self.bitrates.len()
            )));
        }
        match self.bitrates.windows(2).find(|pair| pair[0] >= pair[1]) {
            Some(pair) => Err(TextError(format!(
                "{} before {} does not rise; write the bitrates from low to high",
                pair[0], pair[1]
            ))),
            None => Ok(()),
        }
    }
}

impl FromStr for VideoSpec {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let mut parts = text.split(':');
        let rule = parts.next().unwrap_or_default();
        let names = AbrRule::ALL.map(AbrRule::name);
        let rule = AbrRule::ALL.into_iter().find(|one| one.name() == rule).ok_or_else(|| {
            let near = nearest(rule, names).map_or(String::new(), |near| format!("did you mean {near}? "));
            TextError(format!("{rule:?} is not a rule; {near}write {}", names.join(" or ")))
        })?;
        let bitrates = parts.next().filter(|rates| !rates.is_empty() && !rates.contains('=')).ok_or_else(|| {
            let example = "as in throughput:300kbit/750kbit/2850kbit";
            TextError(format!("{text:?} names no bitrates; write RULE:RATE/RATE…, {example}"))
        })?;
        let bitrates = bitrates.split('/').map(str::parse).collect::<Result<_, _>>()?;
        let mut video = Self { rule, bitrates, segment: None, buffer: None, live: None };
        parts.try_for_each(|option| video.set(option))?;
        video.check()?;
        Ok(video)
    }
}

impl fmt::Display for VideoSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bitrates: Vec<String> = self.bitrates.iter().map(BitRate::to_string).collect();
        write!(f, "{}:{}", self.rule.name(), bitrates.join("/"))?;
        let options = [("segment", self.segment), ("buffer", self.buffer), ("live", self.live)];
        options
            .iter()
            .filter_map(|(key, time)| Some((key, (*time)?)))
            .try_for_each(|(key, time)| write!(f, ":{key}={time}"))
    }
}

/// A call as written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallSpec {
    /// Bitrate of its payload.
    pub bitrate: BitRate,
    /// Frames per second.
    pub fps: u32,
    /// Delay beyond which a frame is late.
    pub deadline: TimeSpan,
}

impl CallSpec {
    /// The call in the values of a setup.
    pub fn setup(self) -> CallSetup {
        let interval = Span::nanos(NANOS_PER_SEC / u64::from(self.fps));
        CallSetup { size: self.bitrate.rate().bytes_in(interval).max(1), interval, deadline: self.deadline.span() }
    }
}

impl FromStr for CallSpec {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let parts: Vec<&str> = text.split('/').collect();
        let (bitrate, fps, deadline) = match parts.as_slice() {
            [bitrate, fps] => (bitrate, fps, DEADLINE_DEFAULT),
            [bitrate, fps, deadline] => (bitrate, fps, deadline.parse()?),
            _ => {
                let form = "write BITRATE/FRAMES PER SECOND[/DEADLINE], as in 2mbit/30/150ms";
                return Err(TextError(format!("{text:?} is not a call; {form}")));
            }
        };
        let bitrate: BitRate = bitrate.parse()?;
        let fps: u32 =
            fps.parse().ok().filter(|fps| (1..=FPS_MAX).contains(fps)).ok_or_else(|| {
                TextError(format!("{fps:?} is not a number of frames per second; write 1 to {FPS_MAX}"))
            })?;
        if deadline < TimeSpan::millis(1) || deadline > TimeSpan::secs(60) {
            return Err(TextError(format!("the deadline of {deadline} is out of range; write 1ms to 60s")));
        }
        if bitrate.rate().bytes_in(Span::secs(1)) < u64::from(fps) {
            return Err(TextError(format!(
                "{bitrate} is less than a byte in each of {fps} frames; write a higher bitrate"
            )));
        }
        Ok(Self { bitrate, fps, deadline })
    }
}

impl fmt::Display for CallSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.bitrate, self.fps, self.deadline)
    }
}

/// Typical pages: name, objects, bytes of each. Requests and weight of desktop pages at the 10th, 50th and 90th percentile:
/// HTTP Archive, Web Almanac 2024 (24, 71, 176 requests) and 2025 (607, 2412, 9179 KiB). Ours: equal sizes.
const PAGES: [(&str, u32, Volume); 3] =
    [("light", 24, Volume(26_000)), ("median", 71, Volume(35_000)), ("heavy", 176, Volume(53_000))];
/// Maximum number of objects of a page. Ours.
const OBJECTS_MAX: u32 = 10_000;

/// Page loads as written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageSpec {
    /// Number of objects.
    pub objects: u32,
    /// Bytes of each.
    pub size: Volume,
    /// Time between two loads.
    pub pause: Option<TimeSpan>,
}

impl PageSpec {
    /// The loads in the values of a setup.
    pub fn setup(self) -> PageSetup {
        PageSetup { objects: self.objects, size: self.size.0, pause: self.pause.map(TimeSpan::span) }
    }
}

impl FromStr for PageSpec {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let (page, pause) = text.split_once('/').map_or((text, None), |(page, pause)| (page, Some(pause)));
        let pause = pause.map(str::parse).transpose()?;
        if let Some((_, objects, size)) = PAGES.iter().find(|(name, ..)| *name == page) {
            return Ok(Self { objects: *objects, size: *size, pause });
        }
        let Some((objects, size)) = page.split_once('*') else {
            let near = nearest(page, PAGES.map(|(name, ..)| name))
                .map_or(String::new(), |near| format!("did you mean {near}? "));
            let form = "write light, median, heavy or OBJECTS*SIZE, as in 71*34kB/5s";
            return Err(TextError(format!("{page:?} is not a page; {near}{form}")));
        };
        let objects =
            objects.parse().ok().filter(|objects| (1..=OBJECTS_MAX).contains(objects)).ok_or_else(|| {
                TextError(format!("{objects:?} is not a number of objects; write 1 to {OBJECTS_MAX}"))
            })?;
        let size: Volume = size.parse()?;
        Ok(Self { objects, size, pause })
    }
}

impl fmt::Display for PageSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}*{}", self.objects, self.size)?;
        self.pause.map_or(Ok(()), |pause| write!(f, "/{pause}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_video_and_a_call_parse_back_from_their_own_text() {
        for text in [
            "buffer:300kbit",
            "throughput:300kbit/750kbit/2850kbit:segment=2s:live=6s",
            "buffer:1mbit/2mbit:buffer=60s",
        ] {
            let video: VideoSpec = text.parse().unwrap();
            assert_eq!(video.to_string().parse(), Ok(video), "{text}");
        }
        for text in ["median", "heavy/5s", "3*1kB/100ms"] {
            let page: PageSpec = text.parse().unwrap();
            assert_eq!(page.to_string().parse(), Ok(page), "{text}");
        }
        let call: CallSpec = "2mbit/30".parse().unwrap();
        assert_eq!(call.to_string(), "2mbit/30/150ms");
        assert_eq!(call.setup().size, 8333);
    }

    #[test]
    fn what_is_left_out_has_the_rule_s_own_buffer() {
        let buffer = |text: &str| text.parse::<VideoSpec>().unwrap().setup().buffer;
        assert_eq!((buffer("buffer:1mbit"), buffer("throughput:1mbit")), (Span::secs(240), Span::secs(30)));
        assert_eq!(buffer("throughput:1mbit:live=6s"), Span::secs(6));
    }
}
