//! Setting of keys by name, and the tables of a scenario: links and expectations.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use serde::{Deserialize, Serialize};

use super::aqm::AqmSpec;
use super::keys::{KEYS, Scenario, key};
use super::source::ScenarioError;
use super::text::{TextError, nearest};
use super::units::{BitRate, BufferSize, TimeSpan};
use super::values::{DemandLink, LossModel, TokenBucket};

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
    /// Claim to which the expectation belongs.
    pub id: String,
    /// Description of the measured value.
    pub what: String,
    /// The measured value, as an expression over the result.
    pub measure: String,
    /// Lower bound of the expected value, inclusive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Upper bound of the expected value, inclusive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Description of the expected value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub expected: String,
}

impl Scenario {
    /// Sets one key from text, as its flag does. `flow` adds a flow: clear [`Self::flow`] first to replace the file's.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), ScenarioError> {
        self.refuse_if_links_say_it(key)?;
        self.assign(key, text).map_err(|error| match key {
            "flow" => ScenarioError::new(format!("flow[{}]", self.flow.len()), error.0),
            _ => ScenarioError::new(key, error.0),
        })
    }

    /// True if it names a path or a workload.
    pub(super) const fn has_preset(&self) -> bool {
        self.path.is_some() || self.workload.is_some()
    }

    fn assign(&mut self, name: &str, text: &str) -> Result<(), TextError> {
        if let Some(set) = key(name).and_then(|key| key.set) {
            return set(self, text);
        }
        let names = KEYS.iter().filter(|key| key.is_flag()).map(|key| key.name);
        let near = nearest(name, names).map_or(String::new(), |near| format!("; did you mean {near}?"));
        Err(TextError(format!("no such key{near}")))
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

/// Returns the scenario language as JSON Schema.
#[cfg(feature = "schema")]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Scenario).to_value()
}
