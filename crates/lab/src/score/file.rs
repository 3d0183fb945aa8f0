//! Files of a scorecard: criteria, each with measures and cases.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_sim::scenario::ScenarioFile;
use bbrlab_study::comparison::Better;
use serde::Deserialize;

use super::redraw::Draw;
use crate::expect::{check_syntax, objective::OWN};
use crate::{Error, Result};

/// Placeholder of the algorithm under test in a case's flows.
const SUBJECT: &str = "X";

/// A scorecard: its name, and its files.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// Name, as in `--card NAME`.
    pub name: &'static str,
    /// Title on the page.
    pub title: &'static str,
    files: &'static [(&'static str, &'static str)],
}

/// Embeds files under `scorecard/`, as name and text.
macro_rules! files {
    ($($path:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../scorecard/", $path)))),+]
    };
}

/// All scorecards; the first is the default.
pub const CARDS: [Card; 3] = [
    Card {
        name: "rfc9743",
        title: "RFC 9743",
        files: files!["1_alone.toml", "2_mixed.toml", "3_other.toml", "4_general.toml", "5_special.toml"],
    },
    Card { name: "situations", title: "97 situations", files: files!["situations.toml"] },
    Card { name: "applications", title: "Applications", files: files!["applications.toml"] },
];

/// A measure of a criterion.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Name in tables.
    pub what: String,
    /// Unit; may be empty.
    #[serde(default)]
    pub unit: String,
    /// Expression over a run `r`.
    pub value: String,
    pub better: Better,
}

/// A case: a scenario with the subject among its flows.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// Name in tables.
    pub name: String,
    flow: Vec<String>,
    /// Keys of the scenario.
    #[serde(flatten)]
    keys: toml::Table,
}

/// A criterion.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Criterion {
    /// Number of its section: `5.1.2`.
    pub section: String,
    pub title: String,
    /// Requirement, in our words.
    #[serde(default)]
    pub asks: String,
    /// True if facts from the implementation belong to it.
    #[serde(default)]
    pub facts: bool,
    #[serde(default)]
    pub measure: Vec<Measure>,
    #[serde(default)]
    pub case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CardFile {
    criterion: Vec<Criterion>,
}

impl Card {
    /// Returns the scorecard with this name.
    pub fn named(name: &str) -> Result<Self> {
        CARDS.into_iter().find(|card| card.name == name).ok_or_else(|| {
            let known = CARDS.map(|card| card.name).join(", ");
            Error::UnknownCard { name: name.to_owned(), known }
        })
    }

    /// Criteria in order; with sections, only these.
    pub fn criteria(&self, sections: &[String]) -> Result<Vec<Criterion>> {
        let mut all = Vec::new();
        for (path, text) in self.files {
            all.extend(parse(text, path)?);
        }
        if sections.is_empty() {
            return Ok(all);
        }
        if let Some(unknown) = sections.iter().find(|&section| all.iter().all(|one| one.section != *section)) {
            let known = all.iter().map(|one| one.section.clone()).collect::<Vec<_>>().join(", ");
            return Err(Error::UnknownCriterion { section: unknown.clone(), known });
        }
        all.retain(|one| sections.contains(&one.section));
        Ok(all)
    }
}

/// Parses a file of criteria; `path` is its name in errors.
fn parse(text: &str, path: &str) -> Result<Vec<Criterion>> {
    let at = |place: String| Error::at::<Error>(format!("scorecard/{path}: {place}"));
    let file: CardFile = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].lines().count());
        at(format!("line {line}"))(Error::CaseToml(error))
    })?;
    for criterion in &file.criterion {
        for measure in &criterion.measure {
            check_syntax(&measure.value).map_err(|error| at(criterion.section.clone())(error))?;
        }
    }
    Ok(file.criterion)
}

impl Case {
    /// Builds the scenario for an algorithm, `bbr3,loss_thresh=1%`, on a backend.
    pub fn scenario(&self, algorithm: &str, on: &str, draw: &Draw) -> Result<ScenarioFile> {
        let mut keys = self.keys.clone();
        draw.redraw(&mut keys);
        let fault = |error: bbrlab_sim::Error| Error::at(self.name.clone())(error);
        let table = |error: toml::de::Error| Error::at(self.name.clone())(Error::CaseToml(error));
        let mut sourced = ScenarioFile::from_table(keys).map_err(table)?;
        let flows: Vec<String> =
            self.flow.iter().enumerate().map(|(nth, flow)| flow_of(flow, algorithm, nth, draw)).collect();
        sourced.set_flows(&flows).map_err(fault)?;
        sourced.set("on", on).map_err(fault)?;
        Ok(sourced)
    }
}

/// Text of a flow: `X*4@0s+1s,size=1MB` with the algorithm and its parameters in place of X, and a name.
fn flow_of(text: &str, algorithm: &str, nth: usize, draw: &Draw) -> String {
    let (head, keys) = text.split_once(',').unwrap_or((text, ""));
    let keys = draw.flow_keys(keys);
    let is_named = keys.starts_with("name=");
    let (cc, parameters) = algorithm.split_once(',').unwrap_or((algorithm, ""));
    let mut parts = Vec::new();
    match head.strip_prefix(SUBJECT) {
        Some(counts) => {
            parts.push(format!("{cc}{counts}"));
            if !is_named {
                parts.push(format!("name={OWN}{nth}"));
            }
            if !parameters.is_empty() {
                parts.push(parameters.to_owned());
            }
        }
        None => {
            parts.push(head.to_owned());
            if !is_named {
                parts.push(format!("name=other{nth}"));
            }
        }
    }
    if !keys.is_empty() {
        parts.push(keys);
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_of_every_card_resolves_as_written_and_redrawn() {
        for card in CARDS {
            for criterion in card.criteria(&[]).unwrap() {
                assert_eq!(criterion.case.is_empty(), criterion.measure.is_empty(), "{}", criterion.section);
                for (nth, case) in criterion.case.iter().enumerate() {
                    for set in 0..3 {
                        let draw = Draw::new(set, &criterion.section, nth);
                        let scenario = case.scenario("bbr3,loss_thresh=3%", "sim", &draw).unwrap();
                        let trace = |_: &str| unreachable!("no case has a trace");
                        scenario.resolve(&trace).unwrap_or_else(|error| panic!("{}: {error}", case.name));
                    }
                }
            }
        }
    }

    #[test]
    fn a_flow_gets_the_algorithm_its_parameters_and_a_name() {
        let draw = Draw::new(0, "", 0);
        assert_eq!(flow_of("X*4@0s+1s,size=1MB", "bbr3,a=1", 0, &draw), "bbr3*4@0s+1s,name=own0,a=1,size=1MB");
        assert_eq!(flow_of("cubic", "bbr3", 1, &draw), "cubic,name=other1");
        assert_eq!(flow_of("X*2,name=short,size=1MB", "reno", 0, &draw), "reno*2,name=short,size=1MB");
    }

    #[test]
    fn an_unknown_card_or_criterion_is_named_with_those_that_exist() {
        assert!(Card::named("rfc").unwrap_err().to_string().contains("rfc9743, situations"));
        let error = CARDS[0].criteria(&["9.9".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("9.9") && error.contains("5.1.1"), "{error}");
    }
}
