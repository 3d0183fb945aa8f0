//! Source locations of a scenario's values, so that an error names the line of the file or the flag.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::keys::Scenario;
use super::presets::Preset;
use super::read::{self, ReadError, read, read_toml};
use super::resolve::TraceReader;
use super::text::TextError;
use crate::record::result::SCHEMA;
use crate::setup::Setup;
use crate::{Error, Result};

/// An error in a scenario, formatted as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The key: `rate`, `flow[1]`, `link[0].rate`. Empty for the file as a whole.
    pub path: String,
    /// Value found and values accepted.
    pub message: String,
}

impl ScenarioError {
    /// Creates an error of the key `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }

    /// Returns the key counted from 1: `flow[1]` is flow 2.
    fn label(&self) -> String {
        let pieces = self.path.split('.').map(|piece| match piece.strip_suffix(']').and_then(|p| p.split_once('[')) {
            Some((key, index)) => format!("{key} {}", index.parse::<usize>().map_or(0, |index| index + 1)),
            None => piece.to_owned(),
        });
        pieces.collect::<Vec<_>>().join(": ")
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.label(), self.message)
    }
}

impl std::error::Error for ScenarioError {}

/// Source locations of a scenario's keys.
#[derive(Clone, Debug, Default)]
pub struct Locations {
    file: String,
    lines: BTreeMap<String, usize>,
    flags: BTreeSet<String>,
}

/// A scenario with its source locations.
#[derive(Clone, Debug, Default)]
pub struct ScenarioFile {
    /// The scenario.
    pub scenario: Scenario,
    source: Locations,
}

impl From<Scenario> for ScenarioFile {
    /// Wraps a scenario without source locations.
    fn from(scenario: Scenario) -> Self {
        Self { scenario, source: Locations::default() }
    }
}

impl ScenarioFile {
    /// Reads a scenario in TOML; `file` is its name in errors.
    pub fn from_toml(text: &str, file: &str) -> Result<Self> {
        let place = |(line, source): (usize, ReadError)| Error::Toml { file: file.to_owned(), line, source };
        let lines = read::lines(text).map_err(place)?;
        let scenario: Scenario = read_toml(text).map_err(place)?;
        let mut own = Self { scenario, source: Locations { file: file.to_owned(), lines, ..Locations::default() } };
        if own.scenario.has_preset() {
            let given: toml::Table = text.parse().unwrap_or_default();
            own.scenario = own.with_presets(|key| given.contains_key(key))?;
        }
        Ok(own)
    }

    /// Reads a scenario from a table of keys.
    pub fn from_table(table: toml::Table) -> std::result::Result<Self, toml::de::Error> {
        let given = table.clone();
        let own = Self::from(toml::Value::Table(table).try_into::<Scenario>()?);
        if !own.scenario.has_preset() {
            return Ok(own);
        }
        own.with_presets(|key| given.contains_key(key)).map(Self::from).map_err(serde::de::Error::custom)
    }

    /// Reads a scenario in JSON, bare or as the `scenario` of a result; `file` is its name in errors.
    pub fn from_json(text: &str, file: &str) -> Result<Self> {
        let fault = |source: serde_json::Error| Error::NotJson { file: file.to_owned(), source };
        let DistinctKeys = serde_json::from_str(text).map_err(fault)?;
        let mut value: serde_json::Value = serde_json::from_str(text).map_err(fault)?;
        if let Some(schema) = value.get("schema").filter(|schema| **schema != SCHEMA) {
            return Err(Error::Schema { file: file.to_owned(), found: schema.clone(), accepted: SCHEMA });
        }
        if let Some(scenario) = value.get_mut("scenario") {
            value = scenario.take();
        }
        let given = value.clone();
        let scenario: Scenario = read(value).map_err(|source| Error::Json { file: file.to_owned(), source })?;
        let mut own = Self { scenario, source: Locations { file: file.to_owned(), ..Locations::default() } };
        if own.scenario.has_preset() {
            own.scenario = own.with_presets(|key| given.get(key).is_some())?;
        }
        Ok(own)
    }

    /// The scenario with the keys of its path and workload by name, but for those that are given.
    fn with_presets(&self, is_given: impl Fn(&str) -> bool) -> Result<Scenario> {
        let place = |key| move |error: TextError| self.source.place(ScenarioError::new(key, error.0));
        let path = self.scenario.path.as_deref().map(Preset::named).transpose().map_err(place("path"))?;
        let workload =
            self.scenario.workload.as_deref().map(Preset::workload).transpose().map_err(place("workload"))?;
        let mut whole = self.scenario.clone();
        // A trace or a demand is a rate too.
        let has_service = ["rate", "trace", "demand"].iter().any(|key| is_given(key));
        for (key, text) in path.into_iter().chain(workload).flat_map(|preset| &preset.keys) {
            let is_own = is_given(key) || (key == "rate" && has_service);
            if !is_own {
                whole.set(key, text).map_err(|error| self.source.place(error))?;
            }
        }
        Ok(whole)
    }

    /// Overrides a key, as its flag does.
    pub fn set(&mut self, key: &str, text: &str) -> Result<()> {
        self.source.flags.insert(key.to_owned());
        self.scenario.set(key, text).map_err(|error| self.source.place(error))
    }

    /// Overrides the flows, as the flags do.
    pub fn set_flows(&mut self, flows: &[String]) -> Result<()> {
        self.scenario.flow.clear();
        flows.iter().try_for_each(|flow| self.set("flow", flow))
    }

    /// Resolves the scenario; `read` returns the text of a trace file.
    pub fn resolve(&self, read: &TraceReader<'_>) -> Result<Setup> {
        self.scenario.resolve_with(read).map_err(|error| self.source.place(error))
    }
}

impl Locations {
    /// Adds the place to an error: the flag, or the file and line.
    fn place(&self, source: ScenarioError) -> Error {
        let key = source.path.split(['[', '.']).next().unwrap_or_default();
        if self.flags.contains(key) {
            // The flow's number is more specific than its flag, which is repeated for each flow.
            return match key {
                "flow" => source.into(),
                _ => Error::Flag { flag: key.replace('_', "-"), source },
            };
        }
        let mut path = source.path.as_str();
        while !path.is_empty() {
            if let Some(line) = self.lines.get(path) {
                return Error::Line { file: self.file.clone(), line: *line, source };
            }
            path = path.rfind(['[', '.']).map_or("", |end| &path[..end]);
        }
        if self.file.is_empty() { source.into() } else { Error::File { file: self.file.clone(), source } }
    }
}

/// A value whose objects have distinct keys. Of two equal keys, serde_json silently keeps the last.
struct DistinctKeys;

impl<'de> serde::Deserialize<'de> for DistinctKeys {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Self)
    }
}

impl<'de> serde::de::Visitor<'de> for DistinctKeys {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while let Some(Self) = items.next_element()? {}
        Ok(self)
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = items.next_key::<String>()? {
            if seen.contains(&key) {
                return Err(serde::de::Error::custom(format!("duplicate key {key:?}")));
            }
            seen.insert(key);
            let Self = items.next_value()?;
        }
        Ok(self)
    }
}
