//! Keys of a scenario; each is also a flag of `bbrlab run`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use serde::{Deserialize, Serialize};

use super::aqm::AqmSpec;
use super::arrivals::ArrivalSpec;
use super::flow::FlowSpec;
use super::schedule::Schedule;
use super::source::ScenarioError;
use super::table::tables;
use super::text::{TextError, nearest};
use super::units::{BitRate, BufferSize, Ratio, TimeSpan};
use super::values::{AckHold, DemandLink, Jitter, LossModel, TokenBucket};
use crate::backend::Backend;

/// One scenario. Every key may be left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// Name in reports.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Bottleneck rate. Default: 10mbit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// Two-way propagation time without queue or serialisation. Default: 40ms.
    pub rtt: TimeSpan,
    /// Bottleneck queue limit: what waits, not what is in the delay line. Default: 1bdp, and at least 10p.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<BufferSize>,
    /// Random loss after the bottleneck.
    pub loss: LossModel,
    /// Random loss on the ACK path.
    pub ack_loss: LossModel,
    /// Added delay.
    pub jitter: Jitter,
    /// Share of data packets that overtake.
    pub reorder: Ratio,
    /// Share of data packets that arrive twice.
    pub duplicate: Ratio,
    /// Queue discipline. Default: droptail.
    pub aqm: AqmSpec,
    /// Token-bucket policer in front of the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer: Option<TokenBucket>,
    /// ACKs held and released together.
    pub ack_aggregation: AckHold,
    /// Changes of the path in time.
    pub schedule: Schedule,
    /// A mahimahi delivery trace as bottleneck, instead of a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// A link that grants rate by backlog as bottleneck, instead of a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demand: Option<DemandLink>,
    /// Several bottlenecks in a row, in the order in which a packet meets them.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "tables")]
    pub link: Vec<LinkSpec>,
    /// The flows. Default: one bbr1.
    pub flow: Vec<FlowSpec>,
    /// Flows that arrive at random.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "tables")]
    pub arrivals: Vec<ArrivalSpec>,
    /// Length of the run. Default: 60s.
    pub duration: TimeSpan,
    /// Metrics count from here. Default: 0s.
    pub warmup: TimeSpan,
    /// Seed of all random numbers. Default: 1.
    pub seed: u64,
    /// Number of runs, with seeds seed…seed+N−1. Default: 1.
    pub repeat: u32,
    /// Each flow starts later by a random time below this. Default: none for one run, a round trip for several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_jitter: Option<TimeSpan>,
    /// Backend that runs it. Default: sim.
    pub on: Backend,
    /// Grid of the recorded series; 0s records none. Default: a 6000th of the duration, at least 1ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<TimeSpan>,
    /// Expectations of the result.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "tables")]
    pub expect: Vec<ExpectSpec>,
}

/// One of several bottlenecks. Rate, buffer and AQM come from the scenario's own keys where they are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LinkSpec {
    /// Rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// Two-way delay that this link adds to the scenario's rtt for the flows that cross it.
    pub delay: TimeSpan,
    /// Queue limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<BufferSize>,
    /// Queue discipline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aqm: Option<AqmSpec>,
    /// Token-bucket policer in front of the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer: Option<TokenBucket>,
    /// Random loss behind this link.
    pub loss: LossModel,
    /// A mahimahi delivery trace instead of a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// A link that grants rate by backlog instead of a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demand: Option<DemandLink>,
}

/// An expectation of a result; `bbrlab_lab::expect` evaluates it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ExpectSpec {
    /// The claim it belongs to.
    pub id: String,
    /// Description of the measured value.
    pub what: String,
    /// The measured value, as an expression over the result.
    pub measure: String,
    /// It holds from here up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// It holds up to here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Description of the expected value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub expected: String,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            name: String::new(),
            rate: None,
            rtt: TimeSpan::millis(40),
            buffer: None,
            loss: LossModel::None,
            ack_loss: LossModel::None,
            jitter: Jitter::default(),
            reorder: Ratio(0.0),
            duplicate: Ratio(0.0),
            aqm: AqmSpec::default(),
            policer: None,
            ack_aggregation: AckHold::None,
            schedule: Schedule::default(),
            trace: None,
            demand: None,
            link: Vec::new(),
            flow: Vec::new(),
            arrivals: Vec::new(),
            duration: TimeSpan::secs(60),
            warmup: TimeSpan(0),
            seed: 1,
            repeat: 1,
            start_jitter: None,
            on: Backend::Sim,
            sample: None,
            expect: Vec::new(),
        }
    }
}

/// Keys accepted by [`Scenario::set`].
pub const KEYS: [&str; 23] = [
    "name",
    "rate",
    "rtt",
    "buffer",
    "loss",
    "ack_loss",
    "jitter",
    "reorder",
    "duplicate",
    "aqm",
    "policer",
    "ack_aggregation",
    "schedule",
    "trace",
    "demand",
    "flow",
    "duration",
    "warmup",
    "seed",
    "repeat",
    "start_jitter",
    "on",
    "sample",
];

impl Scenario {
    /// Sets one key from text, as its flag does. `flow` adds a flow: clear [`Self::flow`] first to replace the file's.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), ScenarioError> {
        self.refuse_if_links_say_it(key)?;
        self.assign(key, text).map_err(|error| match key {
            "flow" => ScenarioError::new(format!("flow[{}]", self.flow.len()), error.0),
            _ => ScenarioError::new(key, error.0),
        })
    }

    fn assign(&mut self, key: &str, text: &str) -> Result<(), TextError> {
        match key {
            "name" => self.name = text.to_owned(),
            "rate" => (self.rate, self.trace, self.demand) = (Some(text.parse()?), None, None),
            "rtt" => self.rtt = text.parse()?,
            "buffer" => self.buffer = Some(text.parse()?),
            "loss" => self.loss = text.parse()?,
            "ack_loss" => self.ack_loss = text.parse()?,
            "jitter" => self.jitter = text.parse()?,
            "reorder" => self.reorder = text.parse()?,
            "duplicate" => self.duplicate = text.parse()?,
            "aqm" => self.aqm = text.parse()?,
            "policer" => self.policer = Some(text.parse()?),
            "ack_aggregation" => self.ack_aggregation = text.parse()?,
            "schedule" => self.schedule = text.parse()?,
            "trace" => (self.rate, self.trace, self.demand) = (None, Some(text.to_owned()), None),
            "demand" => (self.rate, self.trace, self.demand) = (None, None, Some(text.parse()?)),
            "flow" => self.flow.push(text.parse()?),
            "duration" => self.duration = text.parse()?,
            "warmup" => self.warmup = text.parse()?,
            "seed" => self.seed = whole(text, "seed", 0, u64::MAX)?,
            "repeat" => self.repeat = whole(text, "number of runs", 1, 100_000)? as u32,
            "start_jitter" => self.start_jitter = Some(text.parse()?),
            "on" => self.on = text.parse()?,
            "sample" => self.sample = Some(text.parse()?),
            _ => {
                let near = nearest(key, KEYS).map_or(String::new(), |near| format!("; did you mean {near}?"));
                return Err(TextError(format!("no such key{near}")));
            }
        }
        Ok(())
    }

    /// Refuses a flag that all links override, since it would have no effect.
    fn refuse_if_links_say_it(&self, key: &str) -> Result<(), ScenarioError> {
        let said = |link: &LinkSpec| match key {
            "rate" => link.rate.is_some() || link.trace.is_some() || link.demand.is_some(),
            "buffer" => link.buffer.is_some(),
            "aqm" => link.aqm.is_some(),
            "policer" | "loss" | "trace" | "demand" => true,
            _ => false,
        };
        if self.link.iter().any(said) {
            return Err(ScenarioError::new(key, "the scenario's [[link]] tables say it themselves; change it there"));
        }
        Ok(())
    }
}

fn whole(text: &str, what: &str, min: u64, max: u64) -> Result<u64, TextError> {
    text.parse()
        .ok()
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| TextError(format!("{text:?} is no {what}; write a whole number from {min} to {max}")))
}

/// Returns the scenario language as JSON Schema.
#[cfg(feature = "schema")]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Scenario).to_value()
}
