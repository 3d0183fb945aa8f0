//! The argument of `--flow`: `CC[*N][@START[+STEP]][,KEY=VALUE…]`.
//! A flow's text parses back to the same value.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;
use std::str::FromStr;

use bbrlab_core::{
    AlgorithmConfig,
    params::{FixedParams, ParamError},
};

use super::flow_options::{FlowOptions, OPTIONS};
use super::text::{TextError, as_text, nearest};
use super::units::TimeSpan;
use crate::setup::{Peer, TCP, over_tcp};

/// Largest number of flows in a run.
pub const FLOWS_MAX: u64 = 100_000;

/// One flow, or several identical ones.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSpec {
    /// The algorithm with its parameters set.
    pub algorithm: AlgorithmConfig,
    /// Congestion controller of a QUIC stack, used instead of it.
    pub peer: Option<Peer>,
    /// True to use the TCP model, whatever the backend's own transport: `tcp:NAME`.
    pub is_tcp: bool,
    /// Parameters as written, in their order.
    pub parameters: Vec<(String, String)>,
    /// Algorithm's name as written.
    pub cc: String,
    /// Number of flows.
    pub count: u32,
    /// Start of the first flow.
    pub start: TimeSpan,
    /// Interval between two starts.
    pub step: TimeSpan,
    /// All other options.
    pub options: FlowOptions,
}

impl FlowSpec {
    /// Creates one bulk flow of this algorithm.
    pub fn of(cc: &str) -> Result<Self, TextError> {
        let peer = Peer::named(cc);
        let name = cc.strip_prefix(TCP);
        Ok(Self {
            // The controllers of QUIC stacks have no parameters here.
            algorithm: if peer.is_some() {
                AlgorithmConfig::Fixed(FixedParams::default())
            } else {
                algorithm(name.unwrap_or(cc))?
            },
            peer,
            is_tcp: name.is_some(),
            parameters: Vec::new(),
            cc: cc.to_owned(),
            count: 1,
            start: TimeSpan(0),
            step: TimeSpan(0),
            options: FlowOptions::default(),
        })
    }

    /// Name of its congestion controller.
    pub fn name(&self) -> &'static str {
        match self.peer {
            Some(peer) => peer.name,
            None if self.is_tcp => over_tcp(self.algorithm.name()),
            None => self.algorithm.name(),
        }
    }

    /// Parses an algorithm with its parameters, without traffic, times or count.
    pub fn bare(text: &str) -> Result<Self, TextError> {
        let flow: Self = text.parse()?;
        if flow.count != 1 || flow.start.0 != 0 || !flow.is_bulk() {
            let what = "sets what or when to send; write only an algorithm and its parameters";
            return Err(TextError(format!("{text:?} {what}")));
        }
        Ok(flow)
    }

    /// True if it sends without end and without pauses.
    pub const fn is_bulk(&self) -> bool {
        let options = &self.options;
        options.size.is_none()
            && options.on.is_none()
            && options.rate.is_none()
            && options.request.is_none()
            && options.video.is_none()
            && options.call.is_none()
            && options.page.is_none()
    }

    fn head(text: &str) -> Result<Self, TextError> {
        let (name, times) = text.split_once('@').map_or((text, None), |(name, times)| (name, Some(times)));
        let (cc, count) = name.split_once('*').map_or((name, None), |(cc, count)| (cc, Some(count)));
        let mut flow = Self::of(cc.trim())?;
        if let Some(count) = count {
            flow.count =
                count.trim().parse().ok().filter(|count| (1..=FLOWS_MAX).contains(&u64::from(*count))).ok_or_else(
                    || TextError(format!("{count:?} is not a number of flows; write 1 to {FLOWS_MAX}, as in bbr1*6")),
                )?;
        }
        if let Some(times) = times {
            let (start, step) = times.split_once('+').unwrap_or((times, "0s"));
            flow.start = start.parse().map_err(|error| TextError(format!("start: {error}")))?;
            flow.step = step.parse().map_err(|error| TextError(format!("step: {error}")))?;
        }
        Ok(flow)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), TextError> {
        let named = |error| TextError(format!("{key}: {error}"));
        if key == "on"
            && let Some((on, off)) = value.split_once('/')
        {
            self.options.set("off", off.strip_prefix("off=").unwrap_or(off)).map_err(named)?;
            return self.options.set("on", on).map_err(named);
        }
        if OPTIONS.iter().any(|option| option.name == key) {
            return self.options.set(key, value).map_err(named);
        }
        self.set_parameter(key, value)
    }

    fn set_parameter(&mut self, key: &str, value: &str) -> Result<(), TextError> {
        if let Some(peer) = self.peer {
            let what = "is not an option of a flow, and what a stack brings has no parameters here";
            return Err(TextError(format!("{}: {key:?} {what}", peer.name)));
        }
        let error = match self.algorithm.set(key, value) {
            Ok(()) => {
                self.parameters.retain(|(name, _)| name != key);
                self.parameters.push((key.to_owned(), value.to_owned()));
                return Ok(());
            }
            Err(error) => error,
        };
        let cc = &self.cc;
        Err(TextError(match error {
            ParamError::Unknown => {
                let names = self
                    .algorithm
                    .parameters()
                    .map(|(spec, _)| spec.name)
                    .chain(OPTIONS.iter().map(|option| option.name));
                let near = nearest(key, names).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
                format!("{cc} has no parameter {key:?}{near}; see `bbrlab list parameters {cc}`")
            }
            error => format!("{key}: {value:?} is {error}"),
        }))
    }
}

/// Formats a parameter's integer as users write it.
pub fn unit_text(unit: bbrlab_core::params::Unit, value: u32) -> String {
    unit.text(value).to_string()
}

fn algorithm(cc: &str) -> Result<AlgorithmConfig, TextError> {
    if let Some(algorithm) = AlgorithmConfig::named(cc) {
        return Ok(algorithm);
    }
    Err(TextError(format!("no algorithm {cc:?}{}; see `bbrlab list algorithms`", meant(cc))))
}

/// Suggests names for an unknown one: the versions of that algorithm, or the nearest name.
pub fn meant(cc: &str) -> String {
    let word = cc.to_ascii_lowercase();
    let stem = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_version = |name: &&str| {
        let version = name.strip_prefix(stem).unwrap_or("");
        !stem.is_empty() && !version.is_empty() && version.chars().all(|c| c.is_ascii_digit())
    };
    let names = || bbrlab_core::ALGORITHMS.iter().map(|info| info.name);
    let exact = names().find(|name| *name == word);
    let mut found: Vec<&str> = exact.map_or_else(|| names().filter(is_version).collect(), |name| vec![name]);
    if found.is_empty() {
        found.extend(nearest(&word, names()).filter(|_| !word.is_empty()));
    }
    match found.split_last() {
        None => String::new(),
        Some((only, [])) => format!(" (did you mean {only}?)"),
        Some((last, others)) => format!(" (did you mean {} or {last}?)", others.join(", ")),
    }
}

impl FromStr for FlowSpec {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let (head, options) = text.split_once(',').map_or((text, None), |(head, options)| (head, Some(options)));
        let mut flow = Self::head(head.trim())?;
        let mut seen = Vec::new();
        for option in options.into_iter().flat_map(|options| options.split(',')) {
            let (key, value) = option
                .split_once('=')
                .ok_or_else(|| TextError(format!("{option:?} is not an option; write KEY=VALUE, as in rtt=80ms")))?;
            if seen.contains(&key.trim()) {
                return Err(TextError(format!("{}: it is written twice; write it once", key.trim())));
            }
            seen.push(key.trim());
            flow.set(key.trim(), value.trim())?;
        }
        flow.check()?;
        Ok(flow)
    }
}

impl FlowSpec {
    fn check(&self) -> Result<(), TextError> {
        let options = &self.options;
        let spells = options.on.is_some() || options.off.is_some();
        if spells && (options.on.is_none() || options.off.is_none()) {
            return Err(TextError("on and off belong together; write on=TIME/off=TIME, as in on=1s/off=2s".to_owned()));
        }
        let kinds = [
            ("size", options.size.is_some()),
            ("on", spells),
            ("rate", options.rate.is_some()),
            ("request", options.request.is_some()),
            ("video", options.video.is_some()),
            ("call", options.call.is_some()),
            ("page", options.page.is_some()),
        ];
        let asked: Vec<&str> = kinds.iter().filter(|(_, asked)| *asked).map(|(name, _)| *name).collect();
        if asked.len() > 1 {
            return Err(TextError(format!(
                "{} exclude each other; write one of size, on/off, rate, request, video, call and page",
                asked.join(" and ")
            )));
        }
        if options.deadline.is_some() && options.request.is_none() {
            return Err(TextError(
                "deadline belongs to request; write both, as in request=10kB/1s,deadline=100ms".to_owned(),
            ));
        }
        let nothing = [("deadline", options.deadline), ("on", options.on), ("off", options.off), ("rtt", options.rtt)];
        if let Some((key, _)) = nothing.iter().find(|(_, time)| matches!(time, Some(TimeSpan(nanos)) if *nanos < 1000))
        {
            return Err(TextError(format!("{key}: a time below 1us is out of range; write at least 1us")));
        }
        Ok(())
    }
}

impl fmt::Display for FlowSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cc)?;
        if self.count != 1 {
            write!(f, "*{}", self.count)?;
        }
        if self.start.0 != 0 || self.step.0 != 0 {
            write!(f, "@{}", self.start)?;
        }
        if self.step.0 != 0 {
            write!(f, "+{}", self.step)?;
        }
        self.options.fmt(f)?;
        self.parameters.iter().try_for_each(|(name, value)| write!(f, ",{name}={value}"))
    }
}

as_text!(
    FlowSpec,
    "texts, as in flow = [\"bbr3\", \"cubic*2@5s\"]: CC[*N][@START[+STEP]][,KEY=VALUE…]",
    ["bbr1*6@0s+2s", "cubic", "bbr1,pacing_gain_up=1.1,lt_bw=off", "bbr1,size=500MB"]
);
