//! The draft's test cases as scenarios for the playground, with BBRv3 in one cell of the grid. A case's changes follow
//! the states of its flow, and a schedule follows the clock: its times are those of the case's own run.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{NANOS_PER_SEC, Rate, Time};
use bbrlab_sim::link::{AckAggregation, Buffer};
use bbrlab_sim::path::PathAction;
use bbrlab_sim::scenario::{BitRate, TimeSpan, TokenBucket, Volume};
use bbrlab_sim::script::{Action, Script, ScriptRunner};
use bbrlab_sim::setup::{ChangeKind, Setup};
use serde_json::{Value, json};

use super::run::{DELAYED_ACK, scales, script, setup};
use super::{Case, Cell, Subject};
use crate::Result;

/// Algorithm of the scenarios.
const ALGORITHM: &str = "bbr3";
/// Cell of the scenarios: the middle of the grid.
const MIDDLE: Cell = Cell { rate: 20_000_000, rtt_ns: 100_000_000 };
/// Cell of the case of sub-packet BDPs.
const SMALL: Cell = Cell { rate: 64_000, rtt_ns: 10_000_000 };
/// Number of the case of sub-packet BDPs.
const SUB_PACKET: u32 = 14;

/// Describes the cases for the page: those that a scenario expresses, with keys and flow, and the others with the reason.
pub fn playground(cases: &[Case]) -> Result<Value> {
    let (mut playable, mut others) = (Vec::new(), Vec::new());
    for case in cases {
        match keys(case)? {
            Ok((keys, flow)) => playable.push(json!({
                "number": case.number, "title": case.title, "demand": case.demand, "keys": keys, "flows": [flow],
            })),
            Err(why) => others.push(json!({ "number": case.number, "title": case.title, "why": why })),
        }
    }
    Ok(json!({ "cases": playable, "others": others }))
}

type Keys = (Vec<(&'static str, String)>, String);

const fn cell_of(case: &Case) -> Cell {
    if case.number == SUB_PACKET { SMALL } else { MIDDLE }
}

/// Returns a case's keys and flow, or the reason why a scenario has no word for it.
fn keys(case: &Case) -> Result<Result<Keys, &'static str>> {
    let cell = cell_of(case);
    let subject = Subject::simulated(ALGORITHM, vec![cell]);
    let scales = scales(case, &subject, &cell)?;
    let (setup, script) = (setup(case, &subject, &scales, &cell)?, script(case, &subject, &scales)?);
    if let Some(why) = script.cues.iter().find_map(|cue| inexpressible(&cue.what)) {
        return Ok(Err(why));
    }
    let config = subject.config()?;
    let is_known = |name: &str| config.parameters().any(|(spec, _)| spec.name == name);
    let set = case.set.iter().filter(|(name, _)| is_known(name)).map(|(name, value)| format!(",{name}={value}"));
    let delay = format!(",delack={}", TimeSpan(DELAYED_ACK.as_nanos()));
    let flow: String = [ALGORITHM.to_owned(), delay].into_iter().chain(set).collect();
    Ok(Ok((path(&setup, &script), flow)))
}

/// Returns what a scenario cannot express of an action.
const fn inexpressible(what: &Action) -> Option<&'static str> {
    match what {
        Action::End | Action::Path(PathAction::Change(_)) => None,
        Action::Traffic(_) => Some("the rate at which the application writes changes during the run"),
        Action::Path(PathAction::LoseEvery(_)) => Some("from a state of the flow on, every nth packet is dropped"),
        Action::Path(PathAction::HoldAcks(_)) => Some("from a state of the flow on, ACKs are held"),
        Action::Path(PathAction::Detour(_)) => Some("for a part of the run, packets take a longer route"),
    }
}

/// Keys of the path, with the changes at the times at which the script's run has them.
fn path(setup: &Setup, script: &Script) -> Vec<(&'static str, String)> {
    let output = bbrlab_sim::engine::run_scripted(setup, script);
    let mut runner = ScriptRunner::new(script);
    runner.follow(&output.trace.flows[0].states);
    let (mut end, mut steps) = (setup.duration, Vec::new());
    while runner.next() < end {
        let at = runner.next();
        for action in runner.take(at) {
            match action {
                Action::Path(PathAction::Change(ChangeKind::Rate(to))) => {
                    steps.push(format!("{}:rate={}", time(at), rate(to)));
                }
                Action::Path(PathAction::Change(ChangeKind::Rtt(to))) => {
                    steps.push(format!("{}:rtt={}", time(at), TimeSpan(to.as_nanos())));
                }
                _ => end = at,
            }
        }
    }
    // A whole hundredth of a second reads better, and shows the last state.
    let hundredths = end.as_nanos().div_ceil(NANOS_PER_SEC / 100);
    let link = &setup.links[0];
    let mut keys = vec![
        ("rate", rate(link.service.nominal_rate())),
        ("rtt", TimeSpan(setup.path.rtt.as_nanos()).to_string()),
        ("duration", TimeSpan(hundredths * (NANOS_PER_SEC / 100)).to_string()),
        ("seed", setup.seed.to_string()),
    ];
    if let Buffer::Bytes(bytes) = link.buffer {
        keys.push(("buffer", Volume(bytes).to_string()));
    }
    if let AckAggregation::Time(hold) = setup.path.ack_aggregation {
        keys.push(("ack_aggregation", TimeSpan(hold.as_nanos()).to_string()));
    }
    if let Some(policer) = link.policer {
        let bucket = TokenBucket { rate: BitRate(policer.rate.as_bits_per_sec()), burst: Volume(policer.burst) };
        keys.push(("policer", bucket.to_string()));
    }
    if !steps.is_empty() {
        keys.push(("schedule", steps.join(";")));
    }
    keys
}

fn rate(rate: Rate) -> String {
    BitRate(rate.as_bits_per_sec()).to_string()
}

fn time(at: Time) -> String {
    TimeSpan(at.as_nanos()).to_string()
}

#[cfg(test)]
mod tests {
    use bbrlab_sim::scenario::ScenarioFile;

    use super::*;
    use crate::conform::cases;

    #[test]
    fn a_scenario_visits_the_states_of_its_case_at_the_same_times() {
        let mut playable = 0;
        for case in cases() {
            let Ok((keys, flow)) = keys(&case).unwrap() else { continue };
            playable += 1;
            let mut file = ScenarioFile::default();
            keys.iter().for_each(|(key, text)| file.set(key, text).unwrap());
            file.set_flows(&[flow]).unwrap();
            let own = file.resolve(&|_| Err("no file".into())).unwrap();
            let cell = cell_of(&case);
            let subject = Subject::simulated(ALGORITHM, vec![cell]);
            let scales = scales(&case, &subject, &cell).unwrap();
            let scripted = bbrlab_sim::engine::run_scripted(
                &setup(&case, &subject, &scales, &cell).unwrap(),
                &script(&case, &subject, &scales).unwrap(),
            );
            let states = &scripted.trace.flows[0].states;
            let found = bbrlab_sim::engine::run(&own).trace.flows[0].states.clone();
            assert_eq!(found.get(..states.len()), Some(&states[..]), "case {}", case.id());
        }
        assert_eq!(playable, 10);
    }

    #[test]
    fn every_case_is_a_scenario_or_has_a_reason() {
        let page = playground(&cases()).unwrap();
        let count = |key: &str| page[key].as_array().unwrap().len();
        assert_eq!((count("cases"), count("others")), (10, 12));
    }
}
