//! Source locations of a scenario's values, so that an error names the line of the file or the flag.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::flow::FlowSpec;
use super::keys::{KEYS, Scenario};
use super::resolve::TraceReader;
use super::table::Table;
use super::text::nearest;
use crate::record::result::SCHEMA;
use crate::setup::Setup;

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
    pub fn from_toml(text: &str, file: &str) -> Result<Self, String> {
        let feeds = LineFeeds::of(text);
        let table = toml::de::DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| feeds.line_of(span.start));
            format!("{file}:{line}: {}", one_line(error.message()))
        })?;
        let mut source = Locations { file: file.to_owned(), ..Locations::default() };
        let mut spans = Vec::new();
        walk(table.get_ref(), "", &feeds, &mut source.lines, &mut spans);
        let scenario = toml::from_str(text).map_err(|error| {
            let at = error.span().unwrap_or(0..0);
            // The innermost value around the error is named.
            let around = spans.iter().filter(|(_, span)| span.start <= at.start && at.end <= span.end);
            let innermost = around.min_by_key(|(_, span)| span.len()).map_or("", |(path, _)| path.as_str());
            let (path, line) = match (innermost, bad_flow(table.get_ref())) {
                // TOML reports an error in an array for the array as a whole.
                ("flow", Some(index)) => {
                    let path = format!("flow[{index}]");
                    let line = source.lines.get(&path).copied();
                    (path, line)
                }
                _ => (innermost.to_owned(), None),
            };
            let line = line.unwrap_or_else(|| feeds.line_of(at.start));
            format!("{file}:{line}: {}", ScenarioError::new(path, explain(error.message())))
        })?;
        Ok(Self { scenario, source })
    }

    /// Reads a scenario in JSON, bare or as the `scenario` of a result; `file` is its name in errors.
    pub fn from_json(text: &str, file: &str) -> Result<Self, String> {
        let fault = |error: serde_json::Error| {
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            format!("{file}:{}: {}", error.line().max(1), explain(message))
        };
        let DistinctKeys = serde_json::from_str(text).map_err(fault)?;
        let mut value: serde_json::Value = serde_json::from_str(text).map_err(fault)?;
        if let Some(schema) = value.get("schema").filter(|schema| **schema != SCHEMA) {
            return Err(format!(
                "{file}: schema: {schema} is not a schema that this version reads; write {SCHEMA}, or use the version of \
                 bbrlab that wrote it"
            ));
        }
        if let Some(scenario) = value.get_mut("scenario") {
            value = scenario.take();
        }
        let Table(scenario) =
            serde_json::from_value(value).map_err(|error| format!("{file}: {}", explain(&error.to_string())))?;
        Ok(Self { scenario, source: Locations { file: file.to_owned(), ..Locations::default() } })
    }

    /// Overrides a key, as its flag does.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        self.source.flags.insert(key.to_owned());
        self.scenario.set(key, text).map_err(|error| self.source.place(&error))
    }

    /// Overrides the flows, as the flags do.
    pub fn set_flows(&mut self, flows: &[String]) -> Result<(), String> {
        self.scenario.flow.clear();
        flows.iter().try_for_each(|flow| self.set("flow", flow))
    }

    /// Resolves the scenario; `read` returns the text of a trace file.
    pub fn resolve(&self, read: &TraceReader<'_>) -> Result<Setup, String> {
        self.scenario.resolve_with(read).map_err(|error| self.source.place(&error))
    }
}

impl Locations {
    /// Formats an error with its place in front: the flag, or the file and line.
    pub fn place(&self, error: &ScenarioError) -> String {
        let key = error.path.split(['[', '.']).next().unwrap_or_default();
        if self.flags.contains(key) {
            // The flow's number is more specific than its flag, which is repeated for each flow.
            return match key {
                "flow" => error.to_string(),
                _ => format!("--{}: {}", key.replace('_', "-"), error.message),
            };
        }
        let mut path = error.path.as_str();
        while !path.is_empty() {
            if let Some(line) = self.lines.get(path) {
                return format!("{}:{line}: {error}", self.file);
            }
            path = path.rfind(['[', '.']).map_or("", |end| &path[..end]);
        }
        if self.file.is_empty() { error.to_string() } else { format!("{}: {error}", self.file) }
    }
}

/// Finds the first invalid flow of the file.
fn bad_flow(table: &toml::de::DeTable<'_>) -> Option<usize> {
    let flows = table.get("flow")?.get_ref().as_array()?;
    flows.iter().position(|flow| flow.get_ref().as_str().is_some_and(|text| text.parse::<FlowSpec>().is_err()))
}

type Spans = Vec<(String, std::ops::Range<usize>)>;

fn walk(
    table: &toml::de::DeTable<'_>,
    prefix: &str,
    feeds: &LineFeeds,
    lines: &mut BTreeMap<String, usize>,
    spans: &mut Spans,
) {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.get_ref().to_string() } else { format!("{prefix}.{}", key.get_ref()) };
        lines.insert(path.clone(), feeds.line_of(key.span().start));
        // An unknown key is an error of the table around it.
        spans.push((prefix.to_owned(), key.span()));
        note(value, path, feeds, lines, spans);
    }
}

fn note(
    value: &toml::Spanned<toml::de::DeValue<'_>>,
    path: String,
    feeds: &LineFeeds,
    lines: &mut BTreeMap<String, usize>,
    spans: &mut Spans,
) {
    use toml::de::DeValue;
    spans.push((path.clone(), value.span()));
    match value.get_ref() {
        DeValue::Table(table) => walk(table, &path, feeds, lines, spans),
        DeValue::Array(array) => {
            for (index, value) in array.iter().enumerate() {
                let path = format!("{path}[{index}]");
                lines.insert(path.clone(), feeds.line_of(value.span().start));
                note(value, path, feeds, lines, spans);
            }
        }
        _ => {}
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
                return Err(serde::de::Error::custom(format!("the key {key:?} appears twice; write it once")));
            }
            seen.insert(key);
            let Self = items.next_value()?;
        }
        Ok(self)
    }
}

/// End offsets of a text's lines.
struct LineFeeds(Vec<usize>);

impl LineFeeds {
    fn of(text: &str) -> Self {
        Self(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect())
    }

    fn line_of(&self, offset: usize) -> usize {
        self.0.partition_point(|feed| *feed < offset) + 1
    }
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Replacements of serde's terms by those of scenario errors.
const WORDS: [(&str, &str); 20] = [
    ("invalid type: sequence", "a list is not accepted"),
    ("invalid type: map", "a table is not accepted"),
    ("invalid type: null", "null is not accepted"),
    ("invalid type: ", "found "),
    ("invalid value: ", "found "),
    ("integer `", "the number `"),
    ("floating point `", "the number `"),
    ("boolean `", "`"),
    ("string \"", "the text \""),
    (", expected", "; write"),
    ("write u64", "write a whole number from 0 to 18446744073709551615"),
    ("write u32", "write a whole number from 0 to 4294967295"),
    ("write f64", "write a number"),
    ("write a string", "write a text in quotation marks"),
    ("write a sequence", "write a list in brackets, or a table of its own in double brackets for each"),
    ("write struct Scenario", "write the keys of a scenario in braces"),
    ("write struct LinkSpec", "write a [[link]] table"),
    ("write struct ExpectSpec", "write an [[expect]] table"),
    ("write struct ArrivalSpec", "write an [[arrivals]] table"),
    ("write struct ", "write a table: "),
];

/// Rewrites serde's messages in the terms of scenario errors. For an unknown key, suggests the nearest known one instead of listing all.
pub fn explain(message: &str) -> String {
    let message = one_line(message);
    if let Some(key) = message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next()) {
        return format!("{key:?} is missing; write it");
    }
    let Some(rest) = message.strip_prefix("unknown field `") else {
        let own = |text: String, (theirs, ours): &(&str, &str)| text.replacen(theirs, ours, 1);
        let is_serde = message.starts_with("invalid type: ") || message.starts_with("invalid value: ");
        return if is_serde { WORDS.iter().fold(message, own) } else { message };
    };
    let mut words = rest.split('`');
    let key = words.next().unwrap_or_default();
    let known: Vec<&str> = words.skip(1).step_by(2).collect();
    match nearest(key, known.iter().copied().chain(KEYS.iter().map(|key| key.name))) {
        Some(near) if known.contains(&near) => format!("unknown key {key:?}; did you mean {near}?"),
        _ => format!("unknown key {key:?}; the keys here are {}", known.join(", ")),
    }
}
