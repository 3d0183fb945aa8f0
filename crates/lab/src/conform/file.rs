//! Form of a case's file. No default decides a verdict.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;

use bbrlab_core::{AlgorithmConfig, State};
use serde::Deserialize;

use crate::expect::check_syntax;
use crate::{Error, Result};
use bbrlab_sim::script::StateMatch;

/// One of the draft's example test cases.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Number in the draft's appendix, from 1.
    pub number: u32,
    /// Heading in the draft.
    pub title: String,
    /// Anchor of the heading.
    pub anchor: String,
    /// Requirement, in our words.
    pub demand: String,
    /// Our interpretation where the draft leaves numbers open.
    pub reading: String,
    /// Algorithms to which the case applies.
    pub algorithms: Vec<String>,
    /// Algorithms to which the case does not apply, each with the reason.
    #[serde(default)]
    pub not: BTreeMap<String, String>,
    /// Reason, if any, for not applying to an algorithm in a QUIC stack.
    pub quic: Option<String>,
    /// Constants of the expressions, with an algorithm's own value where it differs.
    #[serde(default)]
    pub(super) constants: BTreeMap<String, Constant>,
    /// Algorithm parameters that suppress effects outside the case's subject; ignored for an algorithm that lacks them.
    #[serde(default)]
    pub(super) set: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) path: PathSpec,
    /// Maximum duration of a run, seconds.
    pub(super) duration: String,
    /// Changes during the run.
    #[serde(default)]
    pub(super) cue: Vec<TriggerSpec>,
    /// Named values of the finished run, in order.
    #[serde(default, rename = "let")]
    pub(super) lets: Vec<NamedValue>,
    pub(super) check: Vec<Check>,
}

/// A number, or one per algorithm.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Constant {
    One(f64),
    Each(BTreeMap<String, f64>),
}

/// A path described by expressions in the cell's variables.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PathSpec {
    /// Bottleneck rate, bit/s.
    pub(super) rate: String,
    /// Two-way propagation time, seconds.
    pub(super) rtt: String,
    /// Queue limit, bytes on the wire.
    pub(super) buffer: String,
    /// Period for which ACKs are held and then released together, seconds.
    pub(super) hold_acks: Option<String>,
    /// Token rate of a policer, bit/s.
    pub(super) policer_rate: Option<String>,
    /// Burst of the policer, bytes.
    pub(super) policer_burst: Option<String>,
    /// Rate at which the application writes, bit/s of payload; without it, writing is unlimited.
    pub(super) write: Option<String>,
}

impl Default for PathSpec {
    fn default() -> Self {
        Self {
            rate: "rate".into(),
            rtt: "rtt".into(),
            buffer: "deep".into(),
            hold_acks: None,
            policer_rate: None,
            policer_burst: None,
            write: None,
        }
    }
}

/// One change: its trigger, and exactly one action.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TriggerSpec {
    /// State and number of the entry that triggers the change: `drain#1`. Any part of ProbeBW is `probe_bw`, and
    /// `probe_bw_up>probe_bw_down#1` waits for a transition between two states.
    pub(super) at: String,
    /// Delay after the trigger, seconds.
    pub(super) after: Option<String>,
    /// New bottleneck rate, bit/s.
    pub(super) rate: Option<String>,
    /// New two-way propagation time of the path, seconds.
    pub(super) rtt: Option<String>,
    /// The bottleneck drops each packet whose number is a multiple of this; 0 ends that.
    pub(super) lose_every: Option<String>,
    /// New write rate of the application, bit/s of payload; 0 pauses it, `bulk` removes the limit.
    pub(super) write: Option<String>,
    /// Period for which ACKs are held, seconds.
    pub(super) hold_acks: Option<String>,
    /// Additional one-way delay of data, seconds.
    pub(super) detour: Option<String>,
    /// Ends the run.
    pub(super) end: Option<bool>,
}

/// A named value.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamedValue {
    pub(super) name: String,
    pub(super) value: String,
}

/// A number, or an expression that gives one.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Number {
    Plain(f64),
    Expression(String),
}

impl Number {
    pub(super) fn expression(&self) -> Option<&str> {
        match self {
            Self::Expression(text) => Some(text),
            Self::Plain(_) => None,
        }
    }
}

/// One requirement. Without bounds, its measure is a yes-or-no question whose answer must be yes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Check {
    pub(super) what: String,
    pub(super) measure: String,
    #[serde(default)]
    pub(super) unit: String,
    pub(super) min: Option<Number>,
    pub(super) max: Option<Number>,
    /// Rule that selects the cells to which the check applies.
    #[serde(rename = "where")]
    pub(super) rule: Option<String>,
    /// Reason for not applying to the other cells.
    pub(super) otherwise: Option<String>,
    /// Restricts the check to these algorithms.
    pub(super) only: Option<Vec<String>>,
}

impl Case {
    /// Formats the number as `01`.
    pub fn id(&self) -> String {
        format!("{:02}", self.number)
    }

    /// Reason why the case does not apply to an algorithm; `None` if it applies.
    pub fn not_for(&self, algorithm: &str) -> Option<String> {
        let draft = ["bbr3", "bbr3-draft06"];
        let is = |name: &String| name == algorithm || (draft.contains(&algorithm) && draft.contains(&name.as_str()));
        if self.algorithms.iter().any(is) {
            return None;
        }
        let known = self.not.get(algorithm).cloned();
        Some(known.unwrap_or_else(|| format!("the case's file does not say how {algorithm} should meet it")))
    }

    /// Values of the constants for this algorithm.
    pub(super) fn constants_of(&self, algorithm: &str) -> Vec<(String, f64)> {
        let of = |constant: &Constant| match constant {
            Constant::One(value) => *value,
            Constant::Each(values) => values.get(algorithm).or(values.get("draft")).copied().unwrap_or(f64::NAN),
        };
        self.constants.iter().map(|(name, constant)| (name.clone(), of(constant))).collect()
    }

    fn check(&self) -> Result<()> {
        if self.check.is_empty() {
            return Err(Error::Rule("no [[check]]: a case needs at least one check"));
        }
        let names = self.algorithms.iter().chain(self.not.keys());
        if let Some(name) = names.into_iter().find(|name| AlgorithmConfig::named(name).is_none()) {
            return Err(Error::UnknownAlgorithm(name.clone()));
        }
        for cue in &self.cue {
            cue.state_match().map_err(Error::at(format!("cue at {:?}", cue.at)))?;
            if cue.actions() != 1 {
                return Err(Error::at(format!("cue at {:?}", cue.at))(Error::Actions(cue.actions())));
            }
        }
        for check in &self.check {
            let at = || Error::at::<Error>(format!("check {:?}", check.what));
            if check.rule.is_some() != check.otherwise.is_some() {
                return Err(at()(Error::Rule("`where` and `otherwise` come together: a rule and its reason")));
            }
            check.expressions().try_for_each(check_syntax).map_err(at())?;
        }
        self.lets.iter().try_for_each(|named| check_syntax(&named.value))
    }
}

impl TriggerSpec {
    /// Parses the trigger: the state left, if that matters, the state entered, and the number of that entry.
    pub(super) fn state_match(&self) -> Result<(Option<StateMatch>, StateMatch, u32)> {
        let state = |name: &str| match State::ALL.iter().find(|state| state.name() == name) {
            Some(state) => Ok(StateMatch::State(*state)),
            None if name == "probe_bw" => Ok(StateMatch::ProbeBw),
            None => Err(Error::Cue),
        };
        let (change, nth) = self.at.split_once('#').ok_or(Error::Cue)?;
        let nth = nth.parse().ok().filter(|nth| *nth > 0).ok_or(Error::Cue)?;
        let (left, entered) = match change.split_once('>') {
            Some((left, entered)) => (Some(state(left)?), entered),
            None => (None, change),
        };
        Ok((left, state(entered)?, nth))
    }

    fn actions(&self) -> usize {
        let texts = [&self.rate, &self.rtt, &self.lose_every, &self.write, &self.hold_acks, &self.detour];
        texts.iter().filter(|text| text.is_some()).count() + usize::from(self.end == Some(true))
    }
}

/// Reads a case and checks everything that does not need a run. `origin` names the file in errors.
pub fn parse(text: &str, origin: &str) -> Result<Case> {
    let case: Case = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        Error::at(format!("{origin}:{line}"))(Error::CaseToml(error))
    })?;
    case.check().map_err(Error::at(origin))?;
    Ok(case)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "number=1\ntitle='t'\nanchor='a'\ndemand='d'\nreading='r'\nalgorithms=['bbr3']\nduration='1'\n";

    fn fault(body: &str) -> String {
        parse(&format!("{HEAD}{body}"), "x.toml").unwrap_err().to_string()
    }

    #[test]
    fn a_case_without_a_demand_is_refused() {
        assert!(fault("check=[]").contains("no [[check]]"));
    }

    #[test]
    fn a_rule_has_its_reason() {
        assert!(fault("[[check]]\nwhat='w'\nmeasure='1'\nwhere='1'\n").contains("otherwise"));
    }

    #[test]
    fn a_cue_has_one_action_at_one_state() {
        let check = "[[check]]\nwhat='w'\nmeasure='1'\n";
        assert!(fault(&format!("{check}[[cue]]\nat='lunch#1'\nend=true\n")).contains("as in drain#1"));
        assert!(fault(&format!("{check}[[cue]]\nat='drain#1'\nend=true\nrate='1'\n")).contains("2 things"));
    }

    #[test]
    fn the_drafts_algorithm_answers_to_both_its_names() {
        let case = parse(&format!("{HEAD}[[check]]\nwhat='w'\nmeasure='1'\n"), "x.toml").unwrap();
        assert_eq!(case.not_for("bbr3-draft06"), None);
        assert!(case.not_for("cubic").unwrap().contains("cubic"));
    }
}
