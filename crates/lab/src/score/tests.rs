// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Time;
use bbrlab_sim::engine;
use bbrlab_sim::record::Output;

use super::*;
use crate::BoxError;

struct Simulator;

impl Runner for Simulator {
    fn is_real_time(&self) -> bool {
        false
    }

    fn run(&self, _: &Scenario, setup: &Setup, progress: &mut dyn FnMut(Time)) -> Result<Output, BoxError> {
        Ok(engine::run_with(setup, progress))
    }
}

fn plan(section: &str, subjects: &[&str]) -> Plan {
    let card = Card::named("rfc9743").unwrap();
    Plan {
        card,
        criteria: card.criteria(&[section.to_owned()]).unwrap(),
        subjects: subjects.iter().map(|&name| name.to_owned()).collect(),
        results: BTreeMap::new(),
        references: vec!["cubic".to_owned(), "reno".to_owned()],
        set: 0,
        repeat: 2,
        on: Backend::Sim,
    }
}

#[test]
fn bbr_keeps_shorter_queues_in_deep_buffers_than_both_standards() {
    let card = run(plan("5.1.2", &["bbr3"]), &Simulator, &|_| None, &|| ()).unwrap();
    assert_eq!(card.lines.len(), 3);
    assert_eq!(card.lines[0].standings, [Standing::Best]);
    let queue = card.lines[0].means[0].middle;
    assert!(queue < 0.5 * card.lines[0].means[1].middle, "{queue}");
    assert!(sentences(&card, &card.lines[0])[0].starts_with("bbr3: median queueing delay"));
    assert_eq!(json(&card)["criteria"][0]["cases"][0]["runs"].as_array().unwrap().len(), 3);
}

#[test]
fn a_case_that_the_backend_refuses_is_named_and_not_judged() {
    let refusal = |_: &Setup| Some("no such link".to_owned());
    let card = run(plan("7.9", &["bbr3"]), &Simulator, &refusal, &|| ()).unwrap();
    assert_eq!(card.lines[0].standings, [Standing::NotJudged]);
    assert_eq!(json(&card)["criteria"][0]["cases"][0]["runs"][0]["not_run"], "no such link");
    assert!(bbrlab_report::render(&page(&card)).contains("no such link"));
}

/// Goal: results of the very runs give the values of those runs, except where a measure needs a series.
#[test]
fn results_made_elsewhere_score_as_the_runs_themselves() {
    let own = plan("5.1.3", &["bbr3"]);
    let criterion = &own.criteria[0];
    let mut results = Results::new();
    for nth in 0..criterion.case.len() {
        let runs = own.setups(criterion, nth, "bbr3").unwrap().into_iter().map(|(scenario, setup)| {
            let mut result = engine::run(&setup).result;
            result.seed = scenario.seed;
            result.describe(&scenario).unwrap();
            result
        });
        results.insert(case_id("5.1.3", nth), runs.collect());
    }
    let read = |results: Results| {
        let plan = Plan {
            subjects: vec!["mine".to_owned()],
            results: [("mine".to_owned(), results)].into(),
            ..plan("5.1.3", &[])
        };
        run(plan, &Simulator, &|_| None, &|| ())
    };
    let (from_files, simulated) = (read(results.clone()).unwrap(), run(own, &Simulator, &|_| None, &|| ()).unwrap());
    for (read, run) in from_files.values[0].iter().zip(&simulated.values[0]) {
        assert_eq!(read[0].seeds, run[0].seeds);
    }
    assert_eq!(from_files.lines[0].standings, simulated.lines[0].standings);
    for (key, value, shown) in [("rate", "7mbit", "\"50mbit\""), ("policer", "rate=9mbit", "not set")] {
        let mut wrong = results.clone();
        wrong.get_mut("5.1.3-1").unwrap()[0].scenario[key] = value.into();
        let error = read(wrong).unwrap_err().to_string();
        assert_eq!(error, format!("result of 5.1.3-1, seed 1: {key}: \"{value}\"; in the case: {shown}"));
    }
    let mut wrong = results.clone();
    wrong.get_mut("5.1.3-1").unwrap()[0].flows[1].name = "mine".to_owned();
    let error = read(wrong).unwrap_err().to_string();
    assert_eq!(error, "result of 5.1.3-1, seed 1: names of its flows: own0#0, mine; in the case: own0#0, own0#1");
    let mut wrong = results.clone();
    wrong.get_mut("5.1.3-1").unwrap()[1].seed = 1;
    let error = read(wrong).unwrap_err().to_string();
    assert_eq!(error, "result of 5.1.3-1, seed 1: there are several; give each run a seed of its own");
    let mut first = results.clone();
    first.retain(|id, _| id == "5.1.3-1");
    let first = read(first).unwrap();
    let of_cubic = first.values[0][0][1].seeds.as_ref().unwrap();
    let mean = of_cubic.iter().map(|values| values[0]).sum::<f64>() / of_cubic.len() as f64;
    let [own, all] = [&first, &simulated].map(|card| card.lines[0].means[1].middle);
    assert!(
        (own - mean).abs() < 1e-9 && (all - mean).abs() > 1e-9,
        "means are of the cases that all have: {own}, {all}"
    );
    let missing = read(Results::new()).unwrap();
    assert_eq!(missing.values[0][0][0].seeds, Err("there is no result 5.1.3-1.json".to_owned()));
}

#[test]
fn a_case_has_a_result_from_qlogs_of_its_run() {
    use bbrlab_report::export::{Record, qlog};
    use bbrlab_sim::record::packets::Tap;
    use bbrlab_sim::setup::Capture;
    let own = plan("5.1.3", &["bbr3"]);
    let (_, setup) = own.setups(&own.criteria[0], 0, "bbr3").unwrap().swap_remove(0);
    let setup = Setup { capture: Capture::On { limit: usize::MAX, taps: &[Tap::Sender] }, ..(*setup).clone() };
    let run = engine::run(&setup);
    let record = Record { setup: &setup, result: &run.result, trace: &run.trace, packets: &run.packets.records };
    let mut log = Vec::new();
    qlog::sequence(&record, &mut log).unwrap();
    let found = own.logged("5.1.3-1", 1, [log.as_slice()]).unwrap().unwrap();
    assert_eq!((&*found.on, found.seed), ("qlog", 1));
    for (own, truth) in found.flows.iter().zip(&run.result.flows) {
        let ratio = own.goodput_bps / truth.goodput_bps;
        assert!((ratio - 1.0).abs() < 0.02, "{}: {ratio}", own.name);
    }
    assert!(own.logged("5.1.3-1", 3, [log.as_slice()]).unwrap().is_none(), "two seeds are asked");
    let error = own.logged("5.1.3-1", 1, [log.as_slice(), &log]).unwrap_err().to_string();
    assert!(error.contains("it holds 4 connections, and the scenario has 2 flows"), "{error}");
}

#[test]
fn the_cases_are_scenarios_that_resolve_to_the_same_runs() {
    let plan = plan("5.1.3", &["bbr3,loss_thresh=3%"]);
    for (nth, (id, text)) in plan.case_files().unwrap().into_iter().enumerate() {
        assert_eq!(id, case_id("5.1.3", nth));
        let sourced = ScenarioFile::from_toml(&text, &id).unwrap();
        let setup = sourced.resolve(&|_| unreachable!("no case has a trace")).unwrap();
        let own = &plan.setups(&plan.criteria[0], nth, "bbr3,loss_thresh=3%").unwrap()[0].1;
        assert_eq!(format!("{setup:?}"), format!("{own:?}"));
    }
}
