//! The argument of `--flow`: `CC[*N][@START[+STEP]][,KEY=VALUE…]`.
//! A flow's text parses back to the same value.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;
use std::str::FromStr;

use bbrlab_core::{
    AlgorithmConfig,
    params::{FixedParams, ParamError},
};

use super::text::{TextError, as_text, nearest};
use super::units::{BitRate, BufferSize, TimeSpan, Volume};
use crate::setup::{AckEvery, Peer, Program, TCP, over_tcp};

/// Keys of the flow itself; every other key is a parameter of its algorithm.
pub const KEYS: [&str; 20] = [
    "rtt", "size", "rwnd", "on", "off", "mss", "name", "stop", "rate", "request", "ecn", "pacing", "gro", "tso", "iw",
    "links", "access", "delack", "ack", "program",
];

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

/// Options of a flow besides its algorithm.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowOptions {
    /// Its own two-way propagation time.
    pub rtt: Option<TimeSpan>,
    /// Bytes to send before it ends.
    pub size: Option<Volume>,
    /// Receive window.
    pub rwnd: Option<Window>,
    /// Length of a busy period.
    pub on: Option<TimeSpan>,
    /// Length of a silent period.
    pub off: Option<TimeSpan>,
    /// Payload bytes of a full segment.
    pub mss: Option<u32>,
    /// Its name.
    pub name: Option<String>,
    /// Time at which its application stops writing.
    pub stop: Option<TimeSpan>,
    /// Payload rate of an application that is itself the limit.
    pub rate: Option<BitRate>,
    /// Size of responses, and the pause before each request.
    pub request: Option<(Volume, TimeSpan)>,
    /// RFC 3168 ECN.
    pub ecn: Option<bool>,
    /// Pacing for algorithms that do not request it.
    pub pacing: Option<bool>,
    /// Span within which receive offload merges segments.
    pub gro: Option<TimeSpan>,
    /// Largest TSO burst in bytes; 0 disables TSO.
    pub tso: Option<u32>,
    /// Initial window in segments.
    pub iw: Option<u32>,
    /// Delayed-ACK timer.
    pub delack: Option<TimeSpan>,
    /// The receiver's own rule for ACKs.
    pub ack: Option<AckEvery>,
    /// First and last bottleneck that it crosses, counted from 1.
    pub links: Option<(u32, u32)>,
    /// An access link of its own.
    pub access: Option<Access>,
    /// On a real kernel: the kernel's own program of the algorithm, or ours.
    pub program: Option<Program>,
}

/// A receive window as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// A fixed window.
    Fixed(Volume),
    /// Linux's autotuning up to this much: `auto` or `auto/6MiB`.
    Auto(Volume),
}

/// An access link as written: `40mbit/20ms[/100p]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Access {
    /// Its rate.
    pub rate: BitRate,
    /// Its two-way delay.
    pub rtt: TimeSpan,
    /// Its buffer; by default 1000 packets, Linux's `txqueuelen`.
    pub buffer: BufferSize,
}

/// Limit of receive-window autotuning, Linux's `tcp_rmem[2]`.
const RWND_AUTO_MAX: Volume = Volume(6 << 20);

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
            let what = "says what or when to send; write an algorithm and its parameters";
            return Err(TextError(format!("{text:?} {what}")));
        }
        Ok(flow)
    }

    /// True if it sends without end and without pauses.
    pub const fn is_bulk(&self) -> bool {
        let options = &self.options;
        options.size.is_none() && options.on.is_none() && options.rate.is_none() && options.request.is_none()
    }

    fn head(text: &str) -> Result<Self, TextError> {
        let (name, times) = text.split_once('@').map_or((text, None), |(name, times)| (name, Some(times)));
        let (cc, count) = name.split_once('*').map_or((name, None), |(cc, count)| (cc, Some(count)));
        let mut flow = Self::of(cc.trim())?;
        if let Some(count) = count {
            flow.count =
                count.trim().parse().ok().filter(|count| (1..=FLOWS_MAX).contains(&u64::from(*count))).ok_or_else(
                    || TextError(format!("{count:?} is no number of flows; write 1 to {FLOWS_MAX}, as in bbr1*6")),
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
        if KEYS.contains(&key) {
            return self.options.set(key, value).map_err(|error| TextError(format!("{key}: {error}")));
        }
        self.set_parameter(key, value)
    }

    fn set_parameter(&mut self, key: &str, value: &str) -> Result<(), TextError> {
        if let Some(peer) = self.peer {
            let what = "is no option of a flow, and what a stack brings has no parameters here";
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
                let names = self.algorithm.parameters().map(|(spec, _)| spec.name).chain(KEYS);
                let near = nearest(key, names).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
                format!("{cc} has no parameter {key:?}{near}; see `bbrlab list parameters {cc}`")
            }
            error => format!("{key}: {value:?} is {error}"),
        }))
    }
}

impl FlowOptions {
    fn set(&mut self, key: &str, value: &str) -> Result<(), TextError> {
        match key {
            "rtt" => once(&mut self.rtt, read(value)?),
            "size" => once(&mut self.size, read(value)?),
            "rwnd" => once(&mut self.rwnd, window(value)?),
            "on" => {
                let (on, off) = value.split_once('/').map_or((value, None), |(on, off)| (on, Some(off)));
                if let Some(off) = off {
                    once(&mut self.off, read(off.strip_prefix("off=").unwrap_or(off))?)?;
                }
                once(&mut self.on, read(on)?)
            }
            "off" => once(&mut self.off, read(value)?),
            "mss" => once(&mut self.mss, whole(value, 64, 65_000, "bytes")?),
            "name" => once(&mut self.name, flow_name(value)?),
            "stop" => once(&mut self.stop, read(value)?),
            "rate" => once(&mut self.rate, read(value)?),
            "request" => {
                let (size, think) = value
                    .split_once('/')
                    .ok_or_else(|| TextError(format!("{value:?} is no request; write SIZE/PAUSE, as in 100kB/1s")))?;
                once(&mut self.request, (read(size)?, read(think)?))
            }
            "ecn" => once(&mut self.ecn, switch(value)?),
            "pacing" => once(&mut self.pacing, switch(value)?),
            "gro" => once(&mut self.gro, read(value)?),
            "tso" if value == "off" => once(&mut self.tso, 0),
            "tso" => once(&mut self.tso, tso(value)?),
            "iw" => once(&mut self.iw, whole(value, 1, 1000, "segments")?),
            "delack" => once(&mut self.delack, read(value)?),
            "ack" => once(&mut self.ack, ack_every(value)?),
            "links" => once(&mut self.links, links(value)?),
            "access" => once(&mut self.access, access(value)?),
            "program" => once(&mut self.program, program(value)?),
            _ => Err(TextError("it is no option of a flow".to_owned())),
        }
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

fn once<T>(slot: &mut Option<T>, value: T) -> Result<(), TextError> {
    if slot.is_some() {
        return Err(TextError("it is written twice; write it once".to_owned()));
    }
    *slot = Some(value);
    Ok(())
}

fn read<T: FromStr<Err = TextError>>(value: &str) -> Result<T, TextError> {
    value.parse()
}

fn whole(value: &str, min: u32, max: u32, what: &str) -> Result<u32, TextError> {
    value
        .parse()
        .ok()
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| TextError(format!("{value:?} is no number of {what}; write {min} to {max}")))
}

fn ack_every(value: &str) -> Result<AckEvery, TextError> {
    let fault = || TextError(format!("{value:?} is no rule for ACKs; write PACKETS/TIME, as in 10/25ms"));
    let (packets, delay) = value.split_once('/').ok_or_else(fault)?;
    let packets = packets.parse().ok().filter(|packets| (1..=250).contains(packets)).ok_or_else(fault)?;
    let delay: TimeSpan = read(delay)?;
    if delay.0 == 0 || delay > TimeSpan::secs(16) {
        return Err(TextError(format!("{value:?}: the time is out of range; write above 0s up to 16s")));
    }
    Ok(AckEvery { packets, delay: delay.span() })
}

fn switch(value: &str) -> Result<bool, TextError> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(TextError(format!("{value:?} is no switch; write on or off"))),
    }
}

fn program(value: &str) -> Result<Program, TextError> {
    Program::named(value)
        .ok_or_else(|| TextError(format!("{value:?} has no programs for a kernel; write kernel or bbrlab")))
}

fn tso(value: &str) -> Result<u32, TextError> {
    let error = || TextError(format!("{value:?} is no burst; write a volume up to 512KiB or off, as in tso=64KiB"));
    let volume: Volume = value.parse().map_err(|_| error())?;
    u32::try_from(volume.0).ok().filter(|bytes| *bytes <= 512 << 10).ok_or_else(error)
}

fn flow_name(value: &str) -> Result<String, TextError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._#-".contains(c);
    if value.is_empty() || value.len() > 64 || !value.chars().all(plain) {
        return Err(TextError(format!("{value:?} is no name; write up to 64 letters, digits, '.', '_', '-' or '#'")));
    }
    Ok(value.to_owned())
}

fn links(value: &str) -> Result<(u32, u32), TextError> {
    let (first, last) = value.split_once("..").unwrap_or((value, value));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if 1 <= first && first <= last => Ok((first, last)),
        _ => Err(TextError(format!("{value:?} is no range of links; links are counted from 1, as in links=1..2"))),
    }
}

fn access(value: &str) -> Result<Access, TextError> {
    let mut parts = value.split('/');
    let (Some(rate), Some(rtt), buffer, None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return Err(TextError(format!("{value:?} is no access link; write RATE/RTT[/BUFFER], as in 40mbit/20ms/100p")));
    };
    let buffer = buffer.map_or(Ok(BufferSize::Packets(1000)), str::parse)?;
    Ok(Access { rate: rate.parse()?, rtt: rtt.parse()?, buffer })
}

fn window(value: &str) -> Result<Window, TextError> {
    if value == "auto" {
        return Ok(Window::Auto(RWND_AUTO_MAX));
    }
    if let Some(max) = value.strip_prefix("auto/") {
        return Ok(Window::Auto(max.parse()?));
    }
    Ok(Window::Fixed(value.parse()?))
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
                .ok_or_else(|| TextError(format!("{option:?} is no option; write KEY=VALUE, as in rtt=80ms")))?;
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
        ];
        let asked: Vec<&str> = kinds.iter().filter(|(_, asked)| *asked).map(|(name, _)| *name).collect();
        if asked.len() > 1 {
            return Err(TextError(format!(
                "{} exclude each other; write one of size, on/off, rate and request",
                asked.join(" and ")
            )));
        }
        let nothing = [("on", options.on), ("off", options.off), ("rtt", options.rtt)];
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

impl fmt::Display for FlowOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on_off = |on: bool| if on { "on" } else { "off" }.to_owned();
        let shown = [
            ("rtt", self.rtt.map(|v| v.to_string())),
            ("size", self.size.map(|v| v.to_string())),
            ("rwnd", self.rwnd.map(|v| v.to_string())),
            ("on", self.on.zip(self.off).map(|(on, off)| format!("{on}/off={off}"))),
            ("mss", self.mss.map(|v| v.to_string())),
            ("name", self.name.clone()),
            ("stop", self.stop.map(|v| v.to_string())),
            ("rate", self.rate.map(|v| v.to_string())),
            ("request", self.request.map(|(size, think)| format!("{size}/{think}"))),
            ("ecn", self.ecn.map(on_off)),
            ("pacing", self.pacing.map(on_off)),
            ("gro", self.gro.map(|v| v.to_string())),
            ("tso", self.tso.map(|v| if v == 0 { "off".to_owned() } else { Volume(v.into()).to_string() })),
            ("iw", self.iw.map(|v| v.to_string())),
            ("delack", self.delack.map(|v| v.to_string())),
            ("ack", self.ack.map(|v| format!("{}/{}", v.packets, TimeSpan(v.delay.as_nanos())))),
            ("links", self.links.map(|(first, last)| format!("{first}..{last}"))),
            ("access", self.access.map(|v| format!("{}/{}/{}", v.rate, v.rtt, v.buffer))),
            ("program", self.program.map(|v| v.name().to_owned())),
        ];
        shown
            .iter()
            .filter_map(|(key, value)| Some((key, value.as_ref()?)))
            .try_for_each(|(k, v)| write!(f, ",{k}={v}"))
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(volume) => write!(f, "{volume}"),
            Self::Auto(RWND_AUTO_MAX) => f.write_str("auto"),
            Self::Auto(volume) => write!(f, "auto/{volume}"),
        }
    }
}

as_text!(
    FlowSpec,
    "one or several like flows: CC[*N][@START[+STEP]][,KEY=VALUE…]",
    ["bbr1*6@0s+2s", "cubic", "bbr1,pacing_gain_up=1.1,lt_bw=off", "bbr1,size=500MB"]
);
