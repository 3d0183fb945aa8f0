//! Populations of paths of which some things are known exactly and others as ranges.
//! A range is written `20mbit..80mbit`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Rng;
use serde::{Deserialize, Serialize};

use crate::sweep::Row;
use bbrlab_sim::scenario::{BitRate, Ratio, Scenario, Sourced, TimeSpan};

/// Packets that a run is meant to carry, so that fast paths cost no more than slow ones. Ours.
const PACKETS: f64 = 30_000.0;
/// Shortest run, and shortest in round trips: start-up must not be all of it. Ours.
const SHORTEST_S: f64 = 12.0;
const ROUNDS: f64 = 60.0;
/// Longest run. Ours.
const LONGEST_S: f64 = 60.0;
/// Bytes on the wire of a full packet.
const PACKET: f64 = 1514.0;
/// Smallest loss of a range that begins at 0: below it a minute holds no loss. Ours.
const LOSS_MIN: f64 = 1e-5;

/// From one value to another; equal ends are a value that is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    /// Smallest.
    pub low: f64,
    /// Largest.
    pub high: f64,
}

impl Range {
    /// A value that is known.
    pub const fn exactly(value: f64) -> Self {
        Self { low: value, high: value }
    }

    /// Whether there is one value only.
    pub fn is_known(&self) -> bool {
        self.low == self.high
    }

    /// Reads `A` or `A..B`, each end by `one`.
    fn parse(text: &str, one: &dyn Fn(&str) -> Result<f64, String>) -> Result<Self, String> {
        let (low, high) = text.split_once("..").unwrap_or((text, text));
        let range = Self { low: one(low.trim())?, high: one(high.trim())? };
        if range.low > range.high {
            return Err(format!("{text:?} runs backwards; write the smaller end first"));
        }
        Ok(range)
    }

    /// A value of the range, even by ratio.
    fn draw(&self, rng: &mut Rng) -> f64 {
        let share = rng.below(1 << 32) as f64 / (1u64 << 32) as f64;
        if self.is_known() { self.low } else { self.low * (self.high / self.low).powf(share) }
    }
}

/// What is known of a kind of paths, as text: the keys of a population file, and the flags of `bbrlab advise`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct KindSpec {
    /// Bottleneck rate: `20mbit`, `5mbit..50mbit`.
    pub rate: String,
    /// Two-way propagation time.
    pub rtt: String,
    /// Bottleneck buffer: `1bdp`, `0.3bdp..4bdp`, or a drain time.
    #[serde(default = "any_buffer")]
    pub buffer: String,
    /// Random loss.
    #[serde(default = "little_loss")]
    pub loss: String,
    /// Competing CUBIC flows: `0`, `0..4`.
    #[serde(default = "no_rivals")]
    pub rivals: String,
    /// How much of the population is of this kind.
    #[serde(default = "one")]
    pub weight: f64,
}

/// Where nothing is known of the buffer. Source: ours; shallow switches to bloated home routers.
fn any_buffer() -> String {
    "0.3bdp..8bdp".to_owned()
}

/// Where nothing is known of random loss. Source: ours.
fn little_loss() -> String {
    "0%..0.1%".to_owned()
}

/// Where nothing is known of competitors.
fn no_rivals() -> String {
    "0".to_owned()
}

impl KindSpec {
    /// Paths of which nothing is known; rate and RTT must be filled in.
    pub fn unknown() -> Self {
        Self {
            rate: String::new(),
            rtt: String::new(),
            buffer: any_buffer(),
            loss: little_loss(),
            rivals: no_rivals(),
            weight: 1.0,
        }
    }
}

const fn one() -> f64 {
    1.0
}

/// A kind of paths, read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Kind {
    rate_bps: Range,
    rtt_s: Range,
    /// In BDP, or as drain time in seconds.
    buffer: Range,
    is_drain: bool,
    loss: Range,
    rivals: Range,
    weight: f64,
}

impl Kind {
    /// Reads the texts; an error names the key.
    pub fn parse(spec: &KindSpec) -> Result<Self, String> {
        let fault = |key: &'static str| move |what: String| format!("{key}: {what}");
        let rate = |text: &str| text.parse::<BitRate>().map(|rate| rate.0 as f64).map_err(|e| e.to_string());
        let time = |text: &str| text.parse::<TimeSpan>().map(|time| time.0 as f64 / 1e9).map_err(|e| e.to_string());
        let is_drain = !spec.buffer.contains("bdp");
        let buffer = |text: &str| match text.strip_suffix("bdp") {
            Some(number) if !is_drain => number.parse::<f64>().ok().filter(|b| *b > 0.0).ok_or_else(|| no_buffer(text)),
            None if is_drain => time(text).map_err(|_| no_buffer(text)),
            _ => Err(no_buffer(text)),
        };
        let loss = |text: &str| text.parse::<Ratio>().map(|ratio| ratio.0).map_err(|e| e.to_string());
        let count = |text: &str| {
            let count = text.parse::<u32>().ok().filter(|count| *count <= 100);
            count.map(f64::from).ok_or_else(|| format!("{text:?} is no number of flows; write one from 0 to 100"))
        };
        let kind = Self {
            rate_bps: Range::parse(&spec.rate, &rate).map_err(fault("rate"))?,
            rtt_s: Range::parse(&spec.rtt, &time).map_err(fault("rtt"))?,
            buffer: Range::parse(&spec.buffer, &buffer).map_err(fault("buffer"))?,
            loss: Range::parse(&spec.loss, &loss).map_err(fault("loss"))?,
            rivals: Range::parse(&spec.rivals, &count).map_err(fault("rivals"))?,
            is_drain,
            weight: spec.weight,
        };
        if kind.rtt_s.low < 1e-6 {
            return Err("rtt: write at least 1us".to_owned());
        }
        if !(kind.weight.is_finite() && kind.weight > 0.0) {
            return Err(format!("weight: {} is no share; write a number above 0", kind.weight));
        }
        Ok(kind)
    }

    /// Whether nothing is left to chance but the random events of the path.
    pub fn is_known(&self) -> bool {
        [self.rate_bps, self.rtt_s, self.buffer, self.loss, self.rivals].iter().all(Range::is_known)
    }

    /// A path of this kind.
    pub fn draw(&self, rng: &mut Rng) -> Path {
        let (rate_bps, rtt_s) = (self.rate_bps.draw(rng), self.rtt_s.draw(rng));
        let buffer = self.buffer.draw(rng);
        let loss = if self.loss.low < LOSS_MIN && self.loss.high > LOSS_MIN {
            // Even by ratio above what a run can see; as often none.
            let seen = Range { low: LOSS_MIN, high: self.loss.high };
            let drawn = seen.draw(rng);
            if rng.below(4) == 0 { self.loss.low } else { drawn }
        } else {
            self.loss.draw(rng)
        };
        let span = (self.rivals.high - self.rivals.low) as u64;
        let rivals = self.rivals.low as u32 + u32::try_from(rng.below(span + 1)).unwrap_or(0);
        let bdp = rate_bps / 8.0 * rtt_s;
        let bytes = if self.is_drain { rate_bps / 8.0 * buffer } else { bdp * buffer };
        Path { rate_bps, rtt_s, buffer_bytes: bytes.max(PACKET), loss, rivals }
    }
}

fn no_buffer(text: &str) -> String {
    format!("{text:?} is no buffer; write multiples of the BDP or a drain time, as in 0.5bdp..4bdp or 50ms")
}

/// Paths that some users have: a TOML file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PopulationFile {
    /// What it is called.
    #[serde(default)]
    pub name: String,
    /// Its kinds of paths.
    pub path: Vec<KindSpec>,
}

/// A population, read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Population {
    /// What it is called.
    pub name: String,
    kinds: Vec<Kind>,
}

impl Population {
    /// One kind of paths.
    pub fn of(kind: Kind) -> Self {
        Self { name: String::new(), kinds: vec![kind] }
    }

    /// Reads a population file; an error names the path by its number.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        let file: PopulationFile = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            format!("line {line}: {}", error.message().lines().next().unwrap_or_default())
        })?;
        if file.path.is_empty() {
            return Err("it has no [[path]]; write at least one".to_owned());
        }
        let kind = |(nth, spec)| Kind::parse(spec).map_err(|error| format!("path {}: {error}", nth + 1));
        Ok(Self { name: file.name, kinds: file.path.iter().enumerate().map(kind).collect::<Result<_, _>>()? })
    }

    /// Whether there is one path only.
    pub fn is_one_path(&self) -> bool {
        matches!(self.kinds.as_slice(), [kind] if kind.is_known())
    }

    /// Path number `nth` of those that `seed` draws.
    pub fn draw(&self, seed: u64, nth: u64) -> Path {
        let mut rng = Rng::derive(seed, nth);
        let all: f64 = self.kinds.iter().map(|kind| kind.weight).sum();
        let mut at = rng.below(1 << 32) as f64 / (1u64 << 32) as f64 * all;
        for kind in &self.kinds {
            if at < kind.weight {
                return kind.draw(&mut rng);
            }
            at -= kind.weight;
        }
        self.kinds[self.kinds.len() - 1].draw(&mut rng)
    }
}

/// One path.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Path {
    /// Bottleneck rate, bit/s.
    pub rate_bps: f64,
    /// Two-way propagation time, seconds.
    pub rtt_s: f64,
    /// Buffer of the bottleneck, bytes.
    pub buffer_bytes: f64,
    /// Random loss.
    pub loss: f64,
    /// Competing CUBIC flows.
    pub rivals: u32,
}

impl Path {
    /// The scenario of one flow, as `--flow` writes it, on this path.
    pub fn scenario(&self, flow: &str, seed: u64) -> Result<Scenario, String> {
        let mut scenario = Scenario { seed, ..Scenario::default() };
        let mut set = |key: &str, text: String| scenario.set(key, &text).map_err(|error| error.to_string());
        set("rate", format!("{}bit", self.rate_bps.round()))?;
        set("rtt", format!("{}us", (self.rtt_s * 1e6).round().max(1.0)))?;
        set("buffer", format!("{}B", self.buffer_bytes.round()))?;
        set("loss", format!("{:.7}", self.loss))?;
        set("flow", flow.to_owned())?;
        if self.rivals > 0 {
            set("flow", format!("cubic*{},name=rival", self.rivals))?;
        }
        let seconds = (PACKETS * PACKET * 8.0 / self.rate_bps).max(SHORTEST_S).max(ROUNDS * self.rtt_s).min(LONGEST_S);
        set("duration", format!("{}ms", (seconds * 1e3).round()))?;
        set("sample", "0s".to_owned())?;
        Ok(scenario)
    }

    /// What an operator knows of such a path: rate and RTT to a tenth, buffer to a factor of 2, loss to one of 1.5.
    pub fn roughly(&self) -> Kind {
        let around = |value: f64, factor: f64| Range { low: value / factor, high: value * factor };
        Kind {
            rate_bps: around(self.rate_bps, 1.1),
            rtt_s: around(self.rtt_s, 1.1),
            buffer: around(self.buffer_bytes * 8.0 / self.rate_bps, 2.0),
            is_drain: true,
            loss: around(self.loss, 1.5),
            rivals: Range::exactly(f64::from(self.rivals)),
            weight: 1.0,
        }
    }

    /// What this flow does on the path.
    pub fn run(&self, flow: &str, seed: u64) -> Result<Row, String> {
        let sourced = Sourced::from(self.scenario(flow, seed)?);
        let setup = sourced.resolve(&|file| Err(file.to_owned()))?;
        let output = bbrlab_sim::engine::run(&setup);
        Ok(Row::new(&sourced.scenario, &setup, &output.result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Metric;

    fn spec(rate: &str, buffer: &str) -> KindSpec {
        let (rtt, loss, rivals) = ("40ms".to_owned(), little_loss(), "0..2".to_owned());
        KindSpec { rate: rate.to_owned(), rtt, buffer: buffer.to_owned(), loss, rivals, weight: 1.0 }
    }

    #[test]
    fn draws_stay_in_their_ranges_and_come_back_with_their_number() {
        let population = Population::of(Kind::parse(&spec("1mbit..100mbit", "0.5bdp..2bdp")).unwrap());
        for nth in 0..200 {
            let path = population.draw(7, nth);
            let buffer = path.buffer_bytes / (path.rate_bps / 8.0 * path.rtt_s);
            assert!((1e6..=100e6).contains(&path.rate_bps) && path.rivals <= 2, "{path:?}");
            assert!((0.49..=2.01).contains(&buffer) || path.buffer_bytes == PACKET, "{path:?}");
            assert!(path.loss == 0.0 || (LOSS_MIN..=0.001).contains(&path.loss), "{path:?}");
            assert_eq!(path, population.draw(7, nth));
        }
        assert_ne!(population.draw(7, 1), population.draw(8, 1));
    }

    #[test]
    fn slips_are_named_by_their_key() {
        for (rate, buffer, what) in [
            ("fast", "1bdp", "rate: "),
            ("2mbit..1mbit", "1bdp", "backwards"),
            ("1mbit", "12p", "buffer: "),
            ("1mbit", "-1bdp", "buffer: "),
        ] {
            let error = Kind::parse(&spec(rate, buffer)).unwrap_err();
            assert!(error.contains(what), "{rate} {buffer}: {error}");
        }
        assert!(Population::from_toml("[[path]]\nrate = 1").unwrap_err().starts_with("line 2"));
        assert!(Population::from_toml("path = []").unwrap_err().contains("at least one"));
    }

    #[test]
    fn a_path_runs() {
        let path = Path { rate_bps: 5e6, rtt_s: 0.02, buffer_bytes: 20_000.0, loss: 0.0, rivals: 1 };
        let row = path.run("bbr1", 1).unwrap();
        assert!(row.get(Metric::GoodputBps) > 4.5e6 && row.get(Metric::Flows) == 2.0, "{row}");
    }
}
