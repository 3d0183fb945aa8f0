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
