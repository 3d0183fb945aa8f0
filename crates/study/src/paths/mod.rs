//! Populations of paths, with exact values and ranges such as `20mbit..80mbit`; and runs of a flow on a path drawn from
//! one.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod application;

use std::collections::BTreeSet;

use bbrlab_core::Rng;
use serde::{Deserialize, Serialize};

use crate::sweep::{Metric, Row};
use crate::{Error, Result};
use bbrlab_sim::scenario::{BitRate, FlowSpec, Problem, Ratio, Scenario, ScenarioFile, TimeSpan, read_toml};

pub use application::{APPLICATIONS, Application, quality};

/// Target number of packets of a run, so that fast paths cost no more than slow ones. Ours.
const PACKETS: f64 = 30_000.0;
/// Minimum duration, and minimum in round trips: start-up must not be all of it. Ours.
const SHORTEST_S: f64 = 12.0;
const ROUNDS: f64 = 60.0;
/// Maximum duration of a run. Ours.
const LONGEST_S: f64 = 60.0;
/// Bytes on the wire of a full packet.
pub(crate) const PACKET: f64 = 1514.0;
/// Paths drawn for each one that is to resemble a measurement. Ours: with more of them fewer paths can be afforded, which costs more.
pub(crate) const ALTERNATIVES: usize = 4;
/// Step of an additive sequence whose points are the most evenly spread. Source: the golden ratio's inverse.
const GOLDEN: f64 = 0.618_033_988_749_894_9;
/// Minimum loss of a range that begins at 0: below it a run of a minute has no loss. Ours.
const LOSS_MIN: f64 = 1e-5;

/// A range from one value to another; equal ends are a known value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Range {
    /// Creates a range with one known value.
    pub const fn exactly(value: f64) -> Self {
        Self { low: value, high: value }
    }

    /// Returns true if there is one value only.
    pub fn is_known(&self) -> bool {
        self.low == self.high
    }

    /// Parses `A` or `A..B`, each end by `one`.
    fn parse(text: &str, one: &dyn Fn(&str) -> Result<f64>) -> Result<Self> {
        if text.contains("...") {
            return Err(Error::ThreeDots { text: text.to_owned(), example: "LOW..HIGH" });
        }
        let (low, high) = text.split_once("..").unwrap_or((text, text));
        if low.trim().is_empty() != high.trim().is_empty() {
            return Err(Error::NoEnd(text.to_owned()));
        }
        let (low, high) = (low.trim(), high.trim());
        // A unit after the second end applies to both, as in 20..50mbit.
        let number = |c: char| c.is_ascii_digit() || c == '.';
        let unit = high.trim_start_matches(number);
        let is_unit = unit.starts_with(|c: char| c.is_ascii_alphabetic() || c == '%');
        let low = if is_unit && low.ends_with(number) { format!("{low}{unit}") } else { low.to_owned() };
        let range = Self { low: one(&low)?, high: one(high)? };
        if range.low > range.high {
            return Err(Error::Backwards(text.to_owned()));
        }
        Ok(range)
    }

    /// Draws a log-uniform value; a uniform one if the range begins at 0, where the logarithm is undefined.
    fn draw(&self, rng: &mut Rng) -> f64 {
        let share = rng.below(1 << 32) as f64 / (1u64 << 32) as f64;
        if self.is_known() {
            self.low
        } else if self.low > 0.0 {
            self.low * (self.high / self.low).powf(share)
        } else {
            self.high * share
        }
    }
}

/// Properties of a class of paths, as text: the keys of a population file, and the flags of `bbrlab advise`.
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
    /// Competing flows: `0`, `0..4`; by default `0..2`, as an answer must show the bandwidth that they are left with.
    #[serde(default = "some_rivals")]
    pub rivals: String,
    /// Algorithms of competing flows, in the syntax of `--flow`; with several, each rival is one at random.
    #[serde(default = "all_cubic")]
    pub rival_flows: Vec<String>,
    /// Weight of this class in the population.
    #[serde(default = "one")]
    pub weight: f64,
    /// Name of the class, for a policy.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Networks of its clients, for a policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<String>,
    /// Ports of its service, for a policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// Measurement of the connection that the path was derived from.
    #[serde(skip)]
    pub measured: Option<Measured>,
}

/// Measurements of one path, which a simulation of it should reproduce.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Delivered, bit/s.
    pub rate_bps: f64,
    /// Usual RTT over the smallest.
    pub rtt_ratio: Option<f64>,
    /// Retransmitted over sent.
    pub retransmit_ratio: Option<f64>,
}

impl Measured {
    /// Distance of a simulated run from the measurement; 1 is as far as two measurements of one path may be. The rate of the path is
    /// fitted to the goodput, so goodput is evidence only where no rate gives it.
    pub(crate) fn distance(&self, row: &Row) -> f64 {
        let log = |simulated: f64, measured: f64, scale: f64| {
            let ratio = (simulated / measured).ln().abs();
            if ratio.is_finite() { ratio / scale } else { FAR }
        };
        let rtt = row.get(Metric::FirstRttP50Ms) / row.get(Metric::RttBaseMs);
        let again = |ratio: f64| ratio + RETRANSMITS_SEEN;
        let misfit = log(row.get(Metric::FirstGoodputBps), self.rate_bps, 1.0);
        let goodput = (misfit - RATE_MISFIT).max(0.0) / RATE_SPREAD;
        let rtt = self.rtt_ratio.map_or(0.0, |seen| log(rtt, seen, RTT_SPREAD));
        let retransmits = self
            .retransmit_ratio
            .map_or(0.0, |seen| log(again(row.get(Metric::FirstRetransmitRatio)), again(seen), RETRANSMITS_SPREAD));
        goodput + rtt + retransmits
    }
}

/// Difference between measured goodput and that of a fitted path, as a logarithm, that is no evidence against the path: a factor of 2, as
/// the share among rivals varies from run to run. Ours.
const RATE_MISFIT: f64 = std::f64::consts::LN_2;
/// Spreads of rate and RTT between two measurements of one path, as logarithms; of retransmissions, which vary more. Ours.
const RATE_SPREAD: f64 = 0.2;
const RTT_SPREAD: f64 = 0.15;
const RETRANSMITS_SPREAD: f64 = 1.0;
/// Share of retransmissions below which two shares count as alike. Ours: one loss of start-up.
const RETRANSMITS_SEEN: f64 = 3e-4;
/// Distance of a run that delivered nothing.
const FAR: f64 = 1e3;

/// Default buffer if none is given. Source: ours; shallow switches to bloated home routers.
fn any_buffer() -> String {
    "0.3bdp..8bdp".to_owned()
}

/// Default random loss if none is given. Source: ours.
fn little_loss() -> String {
    "0%..0.1%".to_owned()
}

/// Default number of rivals if none is given. Source: ours; the answer must show the bandwidth that they are left with.
fn some_rivals() -> String {
    "0..2".to_owned()
}

fn all_cubic() -> Vec<String> {
    vec!["cubic".to_owned()]
}

impl KindSpec {
    /// A specification without information; rate and RTT must be filled in.
    pub fn unknown() -> Self {
        Self {
            rate: String::new(),
            rtt: String::new(),
            buffer: any_buffer(),
            loss: little_loss(),
            rivals: some_rivals(),
            rival_flows: all_cubic(),
            weight: 1.0,
            name: String::new(),
            clients: Vec::new(),
            ports: Vec::new(),
            measured: None,
        }
    }
}

const fn one() -> f64 {
    1.0
}

/// A class of paths, parsed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kind {
    rate_bps: Range,
    rtt_s: Range,
    /// Buffer in BDP, or as drain time in seconds.
    buffer: Range,
    is_drain: bool,
    /// Least buffer, bytes.
    #[serde(skip)]
    buffer_min: f64,
    loss: Range,
    rivals: Range,
    rival_flows: Vec<String>,
    weight: f64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) clients: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ports: Vec<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) measured: Option<Measured>,
}

impl Kind {
    /// Returns the range of its two-way propagation time, seconds.
    pub(crate) const fn rtt_s(&self) -> Range {
        self.rtt_s
    }

    /// Parses the texts; an error names the key.
    pub fn parse(spec: &KindSpec) -> Result<Self> {
        let rate = |text: &str| Ok(text.parse::<BitRate>()?.0 as f64);
        let time = |text: &str| Ok(text.parse::<TimeSpan>()?.0 as f64 / 1e9);
        let is_drain = !spec.buffer.contains("bdp");
        let buffer = |text: &str| match text.strip_suffix("bdp") {
            Some(number) if !is_drain => number.parse::<f64>().ok().filter(|b| *b > 0.0).ok_or_else(|| no_buffer(text)),
            None if is_drain => time(text).map_err(|_| no_buffer(text)),
            _ => Err(no_buffer(text)),
        };
        let loss = |text: &str| match text.parse::<Ratio>()?.0 {
            1.0 => Err(Error::LosesAll(text.to_owned())),
            ratio => Ok(ratio),
        };
        let count = |text: &str| {
            let count = text.parse::<u32>().ok().filter(|count| *count <= 100);
            count.map(f64::from).ok_or_else(|| Error::FlowCount(text.to_owned()))
        };
        let kind = Self {
            rate_bps: Range::parse(&spec.rate, &rate).map_err(Error::at("rate"))?,
            rtt_s: Range::parse(&spec.rtt, &time).map_err(Error::at("rtt"))?,
            buffer: Range::parse(&spec.buffer, &buffer).map_err(Error::at("buffer"))?,
            loss: Range::parse(&spec.loss, &loss).map_err(Error::at("loss"))?,
            rivals: Range::parse(&spec.rivals, &count).map_err(Error::at("rivals"))?,
            rival_flows: rival_flows(&spec.rival_flows).map_err(Error::at("rival_flows"))?,
            is_drain,
            // Where no buffer is written, as for `run`.
            buffer_min: if spec.buffer == any_buffer() { 10.0 * PACKET } else { PACKET },
            weight: spec.weight,
            name: spec.name.clone(),
            clients: spec.clients.clone(),
            ports: spec.ports.clone(),
            measured: spec.measured,
        };
        if kind.rtt_s.low < 1e-6 {
            return Err(Error::at("rtt")(Error::TooShort { found: format!("{:?}", spec.rtt), min: "1us" }));
        }
        if !(kind.weight.is_finite() && kind.weight > 0.0) {
            return Err(Error::at("weight")(Error::Weight(kind.weight)));
        }
        Ok(kind)
    }

    /// Returns true if all properties are exact, so that only the path's random events vary.
    pub fn is_known(&self) -> bool {
        [self.rate_bps, self.rtt_s, self.buffer, self.loss, self.rivals].iter().all(Range::is_known)
    }

    /// Draws a path of this class.
    pub fn draw(&self, rng: &mut Rng) -> Path {
        let (rate_bps, rtt_s) = (self.rate_bps.draw(rng), self.rtt_s.draw(rng));
        let buffer = self.buffer.draw(rng);
        let loss = if self.loss.low < LOSS_MIN && self.loss.high > LOSS_MIN {
            // Log-uniform above the smallest loss visible in a run; the lower end in one of four draws.
            let seen = Range { low: LOSS_MIN, high: self.loss.high };
            let drawn = seen.draw(rng);
            if rng.below(4) == 0 { self.loss.low } else { drawn }
        } else {
            self.loss.draw(rng)
        };
        let span = (self.rivals.high - self.rivals.low) as u64;
        let count = self.rivals.low as u32 + u32::try_from(rng.below(span + 1)).unwrap_or(0);
        let rival = |_| match self.rival_flows.as_slice() {
            [only] => only.clone(),
            several => several[rng.below(several.len() as u64) as usize].clone(),
        };
        let rivals = (0..count).map(rival).collect();
        let bdp = rate_bps / 8.0 * rtt_s;
        let bytes = if self.is_drain { rate_bps / 8.0 * buffer } else { bdp * buffer };
        Path { rate_bps, rtt_s, buffer_bytes: bytes.max(self.buffer_min), loss, rivals, measured: self.measured }
    }
}

/// Parses flows that may be rivals: one each, from the start, without a size or a name.
fn rival_flows(texts: &[String]) -> Result<Vec<String>> {
    if texts.is_empty() {
        return Err(Error::NoRivals);
    }
    for text in texts {
        let flow: FlowSpec = text.parse()?;
        if flow.count != 1 || flow.start.0 != 0 || flow.options.size.is_some() || flow.options.name.is_some() {
            return Err(Error::RivalOptions(text.clone()));
        }
    }
    Ok(texts.to_vec())
}

fn no_buffer(text: &str) -> Error {
    Error::Buffer(text.to_owned())
}

/// A population file in TOML.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PopulationFile {
    /// Name of the population.
    #[serde(default)]
    pub name: String,
    /// Classes of paths.
    pub path: Vec<KindSpec>,
}

/// A population, parsed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Population {
    /// Name of the population.
    pub name: String,
    kinds: Vec<Kind>,
}

impl Population {
    /// Creates a population of one class of paths.
    pub fn of(kind: Kind) -> Self {
        Self::of_all(vec![kind])
    }

    /// Creates a population of several classes, which must not be empty.
    pub(crate) fn of_all(kinds: Vec<Kind>) -> Self {
        Self { name: String::new(), kinds }
    }

    /// True if its classes are measured paths.
    pub(crate) fn is_measured(&self) -> bool {
        self.kinds.iter().any(|kind| kind.measured.is_some())
    }

    /// Parses a population file; an error gives the path's number.
    pub fn from_toml(text: &str) -> Result<Self> {
        let file: PopulationFile = read_toml(text).map_err(|(line, error)| match error.problem {
            Problem::MissingKey("path") => Error::NoTables("path"),
            _ => Error::at(format!("line {line}"))(error),
        })?;
        if file.path.is_empty() {
            return Err(Error::NoTables("path"));
        }
        let kind = |(nth, spec)| Kind::parse(spec).map_err(Error::at(format!("path {}", nth + 1)));
        Ok(Self { name: file.name, kinds: file.path.iter().enumerate().map(kind).collect::<Result<_, _>>()? })
    }

    /// Returns its classes of paths.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Returns true if some path may have competing flows.
    pub fn has_rivals(&self) -> bool {
        self.kinds.iter().any(|kind| kind.rivals.high > 0.0)
    }

    /// Returns the same paths without competing flows.
    #[must_use]
    pub fn without_rivals(mut self) -> Self {
        self.kinds.iter_mut().for_each(|kind| kind.rivals = Range::exactly(0.0));
        self
    }

    /// Possible rivals on any of its paths.
    pub fn rival_flows(&self) -> Vec<String> {
        let all: BTreeSet<&String> = self.kinds.iter().flat_map(|kind| &kind.rival_flows).collect();
        all.into_iter().cloned().collect()
    }

    /// Returns true if there is one path only.
    pub fn is_one_path(&self) -> bool {
        matches!(self.kinds.as_slice(), [kind] if kind.is_known())
    }

    /// Draws path number `nth` of those for `seed`.
    pub fn draw(&self, seed: u64, nth: u64) -> Path {
        let mut rng = Rng::derive(seed, nth);
        self.kind(seed, nth, &mut rng).draw(&mut rng)
    }

    /// Draws path number `nth`, followed by alternatives from the same class. Without a measurement, draws only that path.
    pub(crate) fn draw_alternatives(&self, seed: u64, nth: u64) -> Vec<Path> {
        let mut rng = Rng::derive(seed, nth);
        let kind = self.kind(seed, nth, &mut rng);
        let count = if kind.measured.is_some() { ALTERNATIVES } else { 1 };
        (0..count).map(|_| kind.draw(&mut rng)).collect()
    }

    fn kind(&self, seed: u64, nth: u64, rng: &mut Rng) -> &Kind {
        let all: f64 = self.kinds.iter().map(|kind| kind.weight).sum();
        let unit = |value: u64| value as f64 / (1u64 << 32) as f64;
        let mut at = match self.is_measured() {
            // One point in each class is known: an additive sequence visits them evenly, however many are drawn.
            true => (unit(Rng::derive(seed, u64::MAX).below(1 << 32)) + nth as f64 * GOLDEN).fract() * all,
            false => unit(rng.below(1 << 32)) * all,
        };
        for kind in &self.kinds {
            if at < kind.weight {
                return kind;
            }
            at -= kind.weight;
        }
        &self.kinds[self.kinds.len() - 1]
    }
}

/// Conditions shared by all paths of a question: keys of a scenario, and a delivery trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Conditions {
    /// Scenario keys with their texts: `aqm`, `policer`, `jitter`, …
    pub keys: Vec<(String, String)>,
    /// Delivery trace that replaces a rate: its name and its text.
    #[serde(skip)]
    pub trace: Option<(String, String)>,
    /// Duration of each run, seconds, instead of one derived from the path.
    pub duration_s: Option<f64>,
    /// Packets at the bottleneck's rate after which a run ends, provided that it lasts a minimum number of round trips.
    pub packets: Option<f64>,
    /// Application of the first flow, instead of a bulk transfer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<Application>,
}

/// Minimum round trips of a run shortened for its packets. Ours: start-up must not be most of it.
const ROUNDS_AT_LEAST: f64 = 30.0;

impl Conditions {
    /// Duration of a run on this path, seconds.
    pub fn seconds(&self, path: &Path) -> f64 {
        if let Some(seconds) = self.duration_s {
            return seconds;
        }
        let affordable = self.packets.map_or(f64::INFINITY, |packets| packets * PACKET * 8.0 / path.rate_bps);
        if let Some(application) = &self.application {
            return application.seconds(affordable);
        }
        let natural = (PACKETS * PACKET * 8.0 / path.rate_bps).max(SHORTEST_S).max(ROUNDS * path.rtt_s).min(LONGEST_S);
        natural.min(affordable.max(ROUNDS_AT_LEAST * path.rtt_s))
    }

    /// The same conditions for a bulk transfer.
    pub(crate) fn bulk(&self) -> Self {
        Self { application: None, ..self.clone() }
    }

    /// Packets that the bottleneck passes in a run on this path.
    pub fn packets(&self, path: &Path) -> f64 {
        self.seconds(path) * path.rate_bps / (8.0 * PACKET)
    }
}

/// One path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Path {
    /// Bottleneck rate, bit/s.
    pub rate_bps: f64,
    /// Two-way propagation time, seconds.
    pub rtt_s: f64,
    /// Buffer of the bottleneck, bytes.
    pub buffer_bytes: f64,
    /// Random loss.
    pub loss: f64,
    /// Competing flows.
    pub rivals: Vec<String>,
    /// What was measured on it.
    #[serde(skip)]
    pub measured: Option<Measured>,
}

impl Path {
    /// Scenario of one flow, in the syntax of `--flow`, on this path.
    pub fn scenario(&self, conditions: &Conditions, flow: &str, seed: u64) -> Result<Scenario> {
        let mut scenario = Scenario { seed, ..Scenario::default() };
        let mut set = |key: &str, text: String| scenario.set(key, &text);
        // A typical path has values of its own; those of this path and of the other keys replace them.
        let (typical, keys): (Vec<_>, Vec<_>) = conditions.keys.iter().partition(|(key, _)| key == "path");
        for (key, text) in typical {
            set(key, text.clone())?;
        }
        match &conditions.trace {
            Some((name, _)) => set("trace", name.clone())?,
            None => set("rate", format!("{}bit", self.rate_bps.round()))?,
        }
        set("rtt", format!("{}us", (self.rtt_s * 1e6).round().max(1.0)))?;
        set("buffer", format!("{}B", self.buffer_bytes.round()))?;
        set("loss", format!("{:.7}", self.loss))?;
        set("flow", conditions.application.map_or(flow.to_owned(), |one| format!("{flow},{}", one.option)))?;
        let kinds: BTreeSet<&String> = self.rivals.iter().collect();
        for (nth, kind) in kinds.iter().enumerate() {
            let count = self.rivals.iter().filter(|rival| rival == kind).count();
            let (cc, options) = kind.split_once(',').map_or((kind.as_str(), None), |(cc, rest)| (cc, Some(rest)));
            let name = if nth == 0 { "rival".to_owned() } else { format!("rival{}", nth + 1) };
            let options = options.map_or(String::new(), |options| format!(",{options}"));
            set("flow", format!("{cc}*{count},name={name}{options}"))?;
        }
        set("duration", format!("{}ms", (conditions.seconds(self) * 1e3).round().max(1.0)))?;
        set("sample", "0s".to_owned())?;
        for (key, text) in keys {
            set(key, text.clone())?;
        }
        Ok(scenario)
    }

    /// Imprecise knowledge of such a path, as an operator has it: rate and RTT to a tenth, buffer to a factor of 2,
    /// loss to one of 1.5; for rivals their number and the possible algorithms.
    pub fn roughly(&self, rival_flows: Vec<String>) -> Kind {
        let around = |value: f64, factor: f64| Range { low: value / factor, high: value * factor };
        Kind {
            rate_bps: around(self.rate_bps, 1.1),
            rtt_s: around(self.rtt_s, 1.1),
            buffer: around(self.buffer_bytes * 8.0 / self.rate_bps, 2.0),
            is_drain: true,
            buffer_min: PACKET,
            loss: around(self.loss, 1.5),
            rivals: Range::exactly(self.rivals.len() as f64),
            rival_flows,
            weight: 1.0,
            name: String::new(),
            clients: Vec::new(),
            ports: Vec::new(),
            measured: None,
        }
    }

    /// Changes the bottleneck's rate. Its buffer still drains in the same time.
    pub(crate) fn set_rate(&mut self, rate_bps: f64) {
        self.buffer_bytes = (self.buffer_bytes * rate_bps / self.rate_bps).max(PACKET);
        self.rate_bps = rate_bps;
    }

    /// Runs a flow on the path.
    pub fn run(&self, conditions: &Conditions, flow: &str, seed: u64) -> Result<Row> {
        let sourced = ScenarioFile::from(self.scenario(conditions, flow, seed)?);
        let trace = |file: &str| match &conditions.trace {
            Some((_, text)) => Ok(text.clone()),
            None => Err(file.into()),
        };
        let setup = sourced.resolve(&trace)?;
        let output = bbrlab_sim::engine::run(&setup);
        Ok(Row::new(&sourced.scenario, &setup, &output.result))
    }
}

#[cfg(test)]
mod tests;
