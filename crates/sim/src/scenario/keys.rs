//! The table of scenario keys: name, type, default, help, and the values that a backend refuses.
//! The struct [`Scenario`], its parsing, the flags of `bbrlab run`, the JSON Schema, `bbrlab list keys`, `bbrlab list backends`
//! and a table of `docs/running.md` come from it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Rate, Span};
use serde::{Deserialize, Serialize};

use super::aqm::AqmSpec;
use super::arrivals::ArrivalSpec;
use super::flow::FlowSpec;
use super::model::{ExpectSpec, LinkSpec};
use super::presets::Preset;
use super::schedule::Schedule;
use super::support::{KERNEL, KERNELS, Refusal, STACKS, UML};
use super::text::TextError;
use super::units::{BitRate, BufferSize, Ratio, TimeSpan};
use super::up::{ACK_FILTER, ENCRYPTED_ACKS, UP_AQM, UP_BYTES, UpLink};
use super::values::{AckHold, DemandLink, Jitter, LossModel, TokenBucket};
use crate::backend::{Backend, uml_cc};
use crate::link::{AckAggregation, Aqm, Buffer, LinkConfig, Service};
use crate::metrics::secs;
use crate::setup::{Change, ChangeKind, FlowSetup, Setup};

/// Heading above a key in help and documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyGroup {
    /// Rate, RTT, buffer and loss of the path.
    Path,
    /// Everything else that describes the path.
    Condition,
    /// Flows, times, seeds and backend.
    Run,
    /// A list of tables, in files only.
    Table,
}

/// Function that sets a key from text.
pub(super) type SetKey = fn(&mut Scenario, &str) -> Result<(), TextError>;

/// One key of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name, as in files; its flag has hyphens for underscores.
    pub name: &'static str,
    /// Its heading.
    pub group: KeyGroup,
    /// Placeholder of its value in help.
    pub value: &'static str,
    /// Default in words; empty if there is none.
    pub default: &'static str,
    /// Meaning: one paragraph, and details after an empty line.
    pub help: &'static [&'static str],
    /// Keys that exclude it, as flags.
    pub conflicts: &'static [&'static str],
    /// Values refused by some backends.
    pub refused: &'static [Refusal],
    /// Flags that every backend accepts.
    pub example: &'static [&'static str],
    /// Sets it from text; `None` for a table.
    pub(super) set: Option<SetKey>,
}

impl Key {
    /// True if it can be set from text: by a flag, or by an axis of a sweep.
    pub const fn is_flag(&self) -> bool {
        self.set.is_some()
    }
}

/// Finds a key by its name.
pub fn key(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// Declares the keys. Each has its documentation, serde attributes, name, type and default; then its heading, placeholder and
/// default in words, and how to set it from text, unless it is a list of tables.
macro_rules! scenario_keys {
    ($(
        $(#[doc = $help:literal])+
        $(#[serde($($serde:tt)+)])?
        $name:ident: $type:ty = $default:expr;
        $group:ident $($value:literal, default $words:literal, set |$scenario:ident, $text:ident| $set:expr;)?
        $(conflicts $conflicts:expr;)?
        $(example $example:expr;)?
        $(refused $refused:expr;)?
    )+) => {
        /// One scenario. Every key may be left out.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(default, deny_unknown_fields)]
        pub struct Scenario {
            $($(#[doc = $help])+ $(#[serde($($serde)+)])? pub $name: $type,)+
        }

        impl Default for Scenario {
            fn default() -> Self {
                Self { $($name: $default,)+ }
            }
        }

        /// All keys, in the order in which they are documented.
        pub const KEYS: &[Key] = &[$(
            #[allow(clippy::needless_update, reason = "some keys set every field")]
            Key {
                name: stringify!($name),
                group: KeyGroup::$group,
                help: &[$($help),+],
                $(value: $value, default: $words, set: Some(|$scenario, $text| { $set; Ok(()) }),)?
                $(conflicts: $conflicts,)?
                $(example: $example,)?
                $(refused: $refused,)?
                ..NO_KEY
            },
        )+];
    };
}

/// Fields that a row may leave out.
const NO_KEY: Key = Key {
    name: "",
    group: KeyGroup::Table,
    value: "",
    default: "",
    help: &[],
    conflicts: &[],
    refused: &[],
    example: &[],
    set: None,
};

scenario_keys! {
    /// A typical path by name, as in starlink; keys beside it replace its own. `bbrlab list paths` has the names and sources
    ///
    /// As a flag it also takes a file: a scenario, as `bbrlab path --out` writes it, or a capture.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String> = None;
    Path "NAME|FILE", default "", set |scenario, text| Preset::named(text)?.apply(scenario)?;
    example &["--path", "geo"];

    /// Bottleneck rate, as in 10mbit (powers of 1000; bits)
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<BitRate> = None;
    Path "RATE", default "10mbit", set |scenario, text| {
        (scenario.rate, scenario.trace, scenario.demand) = (Some(text.parse()?), None, None)
    };
    example &["--rate", "20mbit"];
    refused &[RATE_TOO_HIGH];

    /// Two-way propagation time without queue or serialisation, as in 40ms
    rtt: TimeSpan = TimeSpan::millis(40);
    Path "TIME", default "40ms", set |scenario, text| scenario.rtt = text.parse()?;
    example &["--rtt", "20ms"];

    /// Bottleneck queue limit, as in 41p, 64KiB, 1.5bdp or 250ms of drain time
    #[serde(skip_serializing_if = "Option::is_none")]
    buffer: Option<BufferSize> = None;
    Path "SIZE", default "1bdp, at least 10p", set |scenario, text| scenario.buffer = Some(text.parse()?);
    example &["--buffer", "50p"];

    /// Random loss after the bottleneck, as in 1% or 0.001; in bursts as ge:p,r[,1-h[,1-k]]
    ///
    /// ge is the Gilbert-Elliott model with netem's parameters: p is the probability of going from good to bad, r of going
    /// back, 1-h the loss in the bad state (100% unless given), 1-k the loss in the good state (0%).
    loss: LossModel = LossModel::None;
    Path "LOSS", default "0%", set |scenario, text| scenario.loss = text.parse()?;
    example &["--loss", "ge:1%,10%,50%"];

    /// Random loss on the ACK path, in the same forms
    ack_loss: LossModel = LossModel::None;
    Condition "LOSS", default "0%", set |scenario, text| scenario.ack_loss = text.parse()?;
    example &["--ack-loss", "1%"];

    /// Random extra delay, as in 2ms (order kept) or 2ms:reorder
    jitter: Jitter = Jitter::default();
    Condition "TIME[:reorder]", default "0s", set |scenario, text| scenario.jitter = text.parse()?;
    example &["--jitter", "2ms:reorder"];
    refused &[JITTER_IN_ORDER];

    /// Share of data packets that overtake others by half of their delay, as in 1% or 0.01
    reorder: Ratio = Ratio(0.0);
    Condition "SHARE", default "0%", set |scenario, text| scenario.reorder = text.parse()?;
    example &["--reorder", "0%"];
    refused &[REORDERING];

    /// Share of data packets that arrive twice, as in 1% or 0.01
    duplicate: Ratio = Ratio(0.0);
    Condition "SHARE", default "0%", set |scenario, text| scenario.duplicate = text.parse()?;
    example &["--duplicate", "1%"];

    /// Queue discipline: droptail, red, codel, fq_codel, fq, cake, pie or dualpi2, with options as in codel:target=5ms:ecn
    ///
    /// Options: red:min=VOLUME,max=VOLUME,p=SHARE,wlog=N,gentle,ecn; codel:target=TIME,interval=TIME,ce=TIME,ecn;
    /// fq_codel: those of codel, ect1 (ce marks only ECT(1)), flows=N, quantum=BYTES; fq:flow_limit=N,quantum=BYTES,initial_quantum=BYTES,ce=TIME; pie:target=TIME,tupdate=TIME,alpha=X,beta=X,burst=TIME,ecn;
    /// dualpi2:target=TIME,tupdate=TIME,alpha=X,beta=X,coupling=X,step=TIME,classic=PERCENT;
    /// cake:rtt=TIME,diffserv3|diffserv4|besteffort,triple-isolate|flows.
    aqm: AqmSpec = AqmSpec::default();
    Condition "AQM", default "droptail", set |scenario, text| scenario.aqm = text.parse()?;
    example &["--aqm", "codel"];
    refused &[GENTLE_RED, COUPLING];

    /// Token-bucket policer in front of the queue, as in rate=10mbit,burst=125kB
    #[serde(skip_serializing_if = "Option::is_none")]
    policer: Option<TokenBucket> = None;
    Condition "POLICER", default "", set |scenario, text| scenario.policer = Some(text.parse()?);
    example &["--policer", "rate=5mbit,burst=50kB"];

    /// Link of the reverse direction, which ACKs share with uploads (flows with direction=up), as in rate=1mbit,buffer=50p
    ///
    /// Options: buffer=SIZE (1bdp, at least 10p); ack_filter, which removes an ACK from the queue (of droptail or cake) when a
    /// newer one of its flow arrives, unless one of them reports SACK blocks or another number of marks; last, aqm=AQM (droptail)
    /// with its options.
    #[serde(skip_serializing_if = "Option::is_none")]
    up: Option<UpLink> = None;
    Condition "LINK", default "", set |scenario, text| scenario.up = Some(text.parse()?);
    example &["--up", "rate=1mbit"];
    refused &[UP_AQM, UP_BYTES, ACK_FILTER, ENCRYPTED_ACKS];

    /// Hold ACKs and release them together, as in 20ms or 64KiB (or after 200ms)
    ack_aggregation: AckHold = AckHold::None;
    Condition "HOLD", default "none", set |scenario, text| scenario.ack_aggregation = text.parse()?;
    refused &[HELD_ACKS, ACKS_BY_BYTES];

    /// Changes of the path over time: rate, rtt, buffer, loss, ack_loss, as in 20s:rate=20mbit;40s:rtt=80ms; with link=2 or link=up, of that link
    schedule: Schedule = Schedule::default();
    Condition "STEPS", default "", set |scenario, text| scenario.schedule = text.parse()?;
    example &["--schedule", "10s:rate=5mbit,rtt=80ms"];
    refused &[BUFFER_OF_OTHER_QUEUE, BUFFER_OF_OTHER_UNIT];

    /// Mahimahi delivery trace to use as the bottleneck, instead of a rate
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<String> = None;
    Condition "FILE", default "", set |scenario, text| {
        (scenario.rate, scenario.trace, scenario.demand) = (None, Some(text.to_owned()), None)
    };
    conflicts &["rate", "demand"];
    refused &[TRACE];

    /// Bottleneck link that grants rate by backlog, as in min=1mbit,max=20mbit
    #[serde(skip_serializing_if = "Option::is_none")]
    demand: Option<DemandLink> = None;
    Condition "DEMAND", default "", set |scenario, text| {
        (scenario.rate, scenario.trace, scenario.demand) = (None, None, Some(text.parse()?))
    };
    conflicts &["rate"];
    refused &[DEMAND];

    /// Several bottlenecks in a row, in the order in which a packet meets them
    #[serde(skip_serializing_if = "Vec::is_empty")]
    link: Vec<LinkSpec> = Vec::new();
    Table

    /// Flows and a probe by name, as in rrul; keys beside it replace its own. `bbrlab list workloads` has the names and sources
    #[serde(skip_serializing_if = "Option::is_none")]
    workload: Option<String> = None;
    Run "NAME", default "", set |scenario, text| Preset::workload(text)?.apply(scenario)?;

    /// A flow, or several of the same kind: CC[*N][@START[+STEP]][,KEY=VALUE…], as in bbr1*6@0s+2s (repeatable)
    ///
    /// `bbrlab list keys` lists the keys of a flow; every other key is a parameter of the algorithm: see
    /// `bbrlab list parameters CC`.
    flow: Vec<FlowSpec> = Vec::new();
    Run "FLOW", default "bbr1", set |scenario, text| scenario.flow.push(text.parse()?);
    example &["--flow", "bbr1*2@0s+1s", "--flow", "cubic", "--flow", "reno"];
    refused &[TOO_MANY_FLOWS, NO_KERNEL_ALGORITHM, NO_KERNEL_PROGRAM, TCP_MODEL, TOO_MANY_CONNECTIONS];

    /// Interval of a lag probe: small packets that the receiver echoes, as in 20ms; adds their RTT and the run's RPM
    #[serde(skip_serializing_if = "Option::is_none")]
    probe: Option<TimeSpan> = None;
    Run "TIME", default "", set |scenario, text| scenario.probe = Some(text.parse()?);
    example &["--probe", "20ms"];

    /// Flows that arrive at random
    #[serde(skip_serializing_if = "Vec::is_empty")]
    arrivals: Vec<ArrivalSpec> = Vec::new();
    Table

    /// End of the run, in the backend's time
    duration: TimeSpan = TimeSpan::secs(60);
    Run "TIME", default "60s", set |scenario, text| scenario.duration = text.parse()?;
    example &["--duration", "30s"];

    /// Exclude the time before this from rates, delays, losses and shares
    warmup: TimeSpan = TimeSpan(0);
    Run "TIME", default "0s", set |scenario, text| scenario.warmup = text.parse()?;
    example &["--warmup", "1s"];

    /// Seed of all random numbers
    seed: u64 = 1;
    Run "N", default "1", set |scenario, text| scenario.seed = whole(text, "seed", 0, u64::MAX)?;
    example &["--seed", "7"];

    /// Number of runs, with seeds seed…seed+N−1: reports medians with 95 % bootstrap intervals, and adds jitter to the
    /// starts
    #[serde(deserialize_with = "number_of_runs")]
    repeat: u32 = 1;
    Run "N", default "1", set |scenario, text| scenario.repeat = whole(text, "number of runs", 1, 100_000)? as u32;
    example &["--repeat", "2"];

    /// Delay each flow's start by a random time below this; 0s for equal starts
    #[serde(skip_serializing_if = "Option::is_none")]
    start_jitter: Option<TimeSpan> = None;
    Run "TIME", default "0s; with --repeat, a round trip", set |scenario, text| scenario.start_jitter = Some(text.parse()?);
    example &["--start-jitter", "20ms"];

    /// Backend: sim; uml, a real Linux kernel in virtual time; kernel, this host's (see `bbrlab doctor`); quic:s2n,
    /// quic:noq or quic:quinn, a QUIC stack in virtual time
    on: Backend = Backend::Sim;
    Run "BACKEND", default "sim", set |scenario, text| scenario.on = text.parse()?;

    /// Interval of the recorded series; 0s records none
    #[serde(skip_serializing_if = "Option::is_none")]
    sample: Option<TimeSpan> = None;
    Run "TIME", default "a 6000th of the duration, at least 1ms", set |scenario, text| scenario.sample = Some(text.parse()?);
    example &["--sample", "50ms"];

    /// Name of the scenario in reports
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String = String::new();
    Run "TEXT", default "", set |scenario, text| scenario.name = text.to_owned();
    example &["--name", "a"];

    /// Expectations of the result
    #[serde(skip_serializing_if = "Vec::is_empty")]
    expect: Vec<ExpectSpec> = Vec::new();
    Table
}

fn whole(text: &str, what: &str, min: u64, max: u64) -> Result<u64, TextError> {
    text.parse()
        .ok()
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| TextError(format!("{text:?} is not a {what}; write a whole number from {min} to {max}")))
}

/// Maximum number of flows on a real kernel, limited by ports and addresses.
const FLOWS_MAX: usize = 10_000;
/// Maximum link rate of a real-time emulator: ten times what it carries on any machine we know of.
const RATE_MAX: Rate = Rate::bits_per_sec(100_000_000_000);
/// Maximum number of connections of a QUIC backend. Ours.
const CONNECTIONS_MAX: usize = 1_000;

const RATE_TOO_HIGH: Refusal = Refusal {
    on: KERNEL,
    values: "above 100gbit",
    why: "no real-time emulator is that fast",
    holds: |setup| {
        let rate = setup.links.iter().map(|link| link.service.nominal_rate()).max()?;
        (rate > RATE_MAX).then(|| format!("{} bit/s", rate.as_bits_per_sec()))
    },
    example: &["--rate", "10tbit", "--buffer", "100p"],
};

const JITTER_IN_ORDER: Refusal = Refusal {
    on: UML,
    values: "all without :reorder",
    why: "netem's jitter changes the order of packets",
    holds: |setup| {
        let path = setup.path;
        (path.jitter > Span::ZERO && !path.jitter_reorders).then(|| format!("{} µs", path.jitter.as_micros()))
    },
    example: &["--jitter", "2ms"],
};

const REORDERING: Refusal = Refusal {
    on: UML,
    values: "all",
    why: "netem's reordering follows another rule",
    holds: |setup| (setup.path.reorder > 0.0).then(|| format!("{} %", setup.path.reorder * 100.0)),
    example: &["--reorder", "1%"],
};

const GENTLE_RED: Refusal = Refusal {
    on: UML,
    values: "red with gentle",
    why: "the kernel's RED drops everything above max",
    holds: |setup| link(setup, |link| matches!(&link.aqm, Aqm::Red(red) if red.gentle), "red:gentle"),
    example: &["--aqm", "red:gentle", "--buffer", "4bdp"],
};

const COUPLING: Refusal = Refusal {
    on: UML,
    values: "dualpi2 with a fraction as coupling",
    why: "the kernel's coupling is a whole number",
    holds: |setup| {
        link(setup, |link| matches!(&link.aqm, Aqm::DualPi2(config) if config.coupling.fract() != 0.0), "coupling")
    },
    example: &["--aqm", "dualpi2:coupling=1.5"],
};

const HELD_ACKS: Refusal = Refusal {
    on: UML,
    values: "all",
    why: "no queueing discipline of Linux holds ACKs back",
    holds: |setup| match setup.path.ack_aggregation {
        AckAggregation::None => None,
        AckAggregation::Time(span) => Some(format!("{} µs", span.as_micros())),
        AckAggregation::Bytes(bytes) => Some(format!("{bytes} bytes")),
    },
    example: &["--ack-aggregation", "20ms"],
};

const ACKS_BY_BYTES: Refusal = Refusal {
    on: STACKS,
    values: "volumes",
    why: "the path cannot see the bytes that an encrypted QUIC packet acknowledges; write a time",
    holds: |setup| match setup.path.ack_aggregation {
        AckAggregation::None | AckAggregation::Time(_) => None,
        AckAggregation::Bytes(bytes) => Some(format!("{bytes} bytes")),
    },
    example: &["--ack-aggregation", "64KiB"],
};

const BUFFER_OF_OTHER_QUEUE: Refusal = Refusal {
    on: UML,
    values: "a change of buffer behind another queue than droptail",
    why: "the kernel's other queues would start from scratch",
    holds: |setup| {
        change(setup, "a buffer", |change| {
            matches!(change.what, ChangeKind::Buffer(_))
                && setup.changed_link(change).is_some_and(|link| !matches!(link.aqm, Aqm::DropTail))
        })
    },
    example: &["--schedule", "10s:buffer=100p", "--aqm", "codel"],
};

const BUFFER_OF_OTHER_UNIT: Refusal = Refusal {
    on: UML,
    values: "a buffer in packets after one in bytes, ms or bdp, and the other way round",
    why: "a Linux queue counts either packets or bytes, and keeps to it",
    holds: |setup| {
        let is_packets = |buffer: &Buffer| matches!(buffer, Buffer::Packets(_));
        change(
            setup,
            "a buffer of another unit",
            |change| matches!((&change.what, setup.changed_link(change)), (ChangeKind::Buffer(to), Some(link)) if is_packets(to) != is_packets(&link.buffer)),
        )
    },
    example: &["--schedule", "10s:buffer=100p", "--buffer", "4bdp"],
};

const TRACE: Refusal = Refusal {
    on: UML,
    values: "all",
    why: "no queueing discipline of Linux follows a delivery trace",
    holds: |setup| link(setup, |link| matches!(link.service, Service::Trace(_)), "a delivery trace"),
    example: &[],
};

const DEMAND: Refusal = Refusal {
    on: UML,
    values: "all",
    why: "no queueing discipline of Linux grants rate by backlog",
    holds: |setup| link(setup, |link| matches!(link.service, Service::Demand(_)), "a link on demand"),
    example: &["--demand", "min=1mbit,max=20mbit", "--buffer", "100p"],
};

const TOO_MANY_FLOWS: Refusal = Refusal {
    on: KERNELS,
    values: "more than 10000 flows",
    why: "a kernel has too few ports for them",
    holds: |setup| (setup.flows.len() > FLOWS_MAX).then(|| format!("{} flows", setup.flows.len())),
    example: &["--flow", "bbr1*10001"],
};

const NO_KERNEL_ALGORITHM: Refusal = Refusal {
    on: UML,
    values: "algorithms and parameters that the kernel lacks",
    why: "this backend runs the kernel's own algorithms",
    holds: |setup| unknown(setup, |flow| uml_cc(&flow.algorithm).map(|_| ())),
    example: &["--flow", "bbr3"],
};

const NO_KERNEL_PROGRAM: Refusal = Refusal {
    on: KERNEL,
    values: "algorithms without a kernel program",
    why: "this backend runs the kernel's own algorithms, and those of ours that are compiled for it",
    holds: |setup| {
        unknown(setup, |flow| {
            let name = flow.algorithm.name();
            let is_there = flow.kernels_own().is_some() || flow.algorithm.info().bpf_object.is_some();
            if is_there { Ok(()) } else { Err(crate::Error::NoProgram { algorithm: name }) }
        })
    },
    example: &["--flow", "bbr2-ietf100"],
};

const TCP_MODEL: Refusal = Refusal {
    on: KERNELS,
    values: "tcp:NAME",
    why: "it is a flow of the simulator's TCP model, and a kernel has its own TCP",
    holds: |setup| flow(setup, |flow| flow.is_tcp.then(|| flow.cc().to_owned())),
    example: &["--flow", "tcp:bbr1"],
};

// A stack's own algorithm runs only in that stack; the scenario itself names it, in every backend.
const TOO_MANY_CONNECTIONS: Refusal = Refusal {
    on: STACKS,
    values: "more than 1000 flows",
    why: "each is a real connection with endpoints of its own, in one process",
    holds: |setup| (setup.flows.len() > CONNECTIONS_MAX).then(|| format!("{} flows", setup.flows.len())),
    example: &["--flow", "bbr1*1001"],
};

/// Describes the first flow for which `held` returns a value.
pub(super) fn flow(setup: &Setup, held: impl Fn(&FlowSetup) -> Option<String>) -> Option<String> {
    setup.flows.iter().find_map(|flow| held(flow).map(|held| format!("{} holds {held}", flow.name)))
}

fn link(setup: &Setup, is_held: impl Fn(&LinkConfig) -> bool, what: &str) -> Option<String> {
    setup.links.iter().any(is_held).then(|| what.to_owned())
}

fn change(setup: &Setup, what: &str, is_held: impl Fn(&Change) -> bool) -> Option<String> {
    setup.schedule.iter().find(|change| is_held(change)).map(|change| format!("{what} at {} s", secs(change.at)))
}

fn unknown(setup: &Setup, check: impl Fn(&FlowSetup) -> crate::Result<()>) -> Option<String> {
    setup.flows.iter().find_map(|flow| check(flow).err().map(|what| format!("{} holds {what}", flow.name)))
}

/// Reads `repeat`; its limits are checked with those of the other keys.
fn number_of_runs<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    struct Runs;

    impl serde::de::Visitor<'_> for Runs {
        type Value = u32;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a whole number from 1 to 100000")
        }

        fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<u32, E> {
            u32::try_from(number).map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(number), &self))
        }

        fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<u32, E> {
            u32::try_from(number).map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(number), &self))
        }
    }

    from.deserialize_any(Runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Step;

    #[test]
    fn a_key_without_a_flag_is_a_list_of_tables() {
        for key in KEYS {
            assert_eq!(key.is_flag(), key.group != KeyGroup::Table, "{}", key.name);
            assert_eq!(key.is_flag(), !key.value.is_empty(), "{}", key.name);
            assert!(!key.help[0].trim().is_empty() && !key.help[0].contains("Default"), "{}", key.name);
        }
    }

    #[test]
    fn every_default_in_words_that_is_a_value_is_the_real_default() {
        for key in KEYS.iter().filter(|key| key.is_flag() && !key.default.is_empty()) {
            let mut scenario = Scenario::default();
            if scenario.set(key.name, key.default).is_ok() {
                assert_eq!(scenario.filled(), Scenario::default().filled(), "{}", key.name);
            }
        }
    }

    #[test]
    fn every_key_of_a_schedule_is_a_key_of_the_scenario() {
        for name in ["rate", "rtt", "buffer", "loss", "ack_loss"] {
            let value = key(name).unwrap().example[1];
            assert!(format!("1s:{name}={value}").parse::<Step>().is_ok(), "{name}");
        }
    }
}
