//! Scorecards: criteria for congestion controls, as RFC 9743 lists them, each with cases that are run for the algorithms under
//! test and for the references.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod file;
mod judge;
mod page;
mod redraw;
mod results;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use bbrlab_sim::scenario::{Backend, Scenario, ScenarioFile};
use bbrlab_sim::setup::Setup;
use rayon::prelude::*;

use crate::expect::{Measurer, RunSet, RunView};
use crate::session::Runner;
use crate::{Error, Result};

pub use bbrlab_study::comparison::Better;
pub use file::{CARDS, Card, Case, Criterion, Measure};
pub use judge::{Line, Standing};
pub use page::page;
pub use redraw::Draw;
pub use results::{Results, case_id};
pub use write::{json, number, sentences, table};

/// Reference algorithms. Source: the standards that RFC 9743 §5.2.1 names, CUBIC and Reno, and the BBR versions in use.
pub const REFERENCES: [&str; 4] = ["cubic", "reno", "bbr1", "bbr3"];

/// Scorecard, algorithms and number of runs of a score.
#[derive(Clone, Debug)]
pub struct Plan {
    pub card: Card,
    pub criteria: Vec<Criterion>,
    /// Algorithms under test, as in `bbr3,loss_thresh=1%`; or any name that has `results`.
    pub subjects: Vec<String>,
    /// Results made elsewhere, by the name of the algorithm under test.
    pub results: BTreeMap<String, Results>,
    /// Algorithms to which they are compared; one may be under test too.
    pub references: Vec<String>,
    /// Scenario set; 0 is as written.
    pub set: u64,
    /// Runs of each case, with seeds 1, 2 …
    pub repeat: u32,
    pub on: Backend,
}

/// Values of one algorithm in one case.
#[derive(Clone, Debug)]
pub struct Measured {
    /// One list for each seed, in the order of the criterion's measures. An error is the reason why the backend cannot run it.
    pub seeds: std::result::Result<Vec<Vec<f64>>, String>,
}

/// A finished scorecard.
#[derive(Clone, Debug)]
pub struct Scorecard {
    pub plan: Plan,
    /// Values by criterion, case and algorithm.
    pub values: Vec<Vec<Vec<Measured>>>,
    /// Rows of the result, each a measure of a criterion.
    pub lines: Vec<Line>,
}

impl Scorecard {
    /// Number of lines on which a subject has a standing.
    pub fn count(&self, subject: usize, standing: Standing) -> usize {
        self.lines.iter().filter(|line| line.standings[subject] == standing).count()
    }
}

impl Plan {
    /// Builds a plan for the simulator, without results, from names, which it checks: no references stand for [`REFERENCES`], no sections
    /// for all.
    pub fn of(
        card: &str,
        sections: &[String],
        subjects: &[String],
        references: &[String],
        set: u64,
        repeat: u32,
    ) -> Result<Self> {
        let card = Card::named(card)?;
        let criteria = card.criteria(sections)?;
        let usual = REFERENCES.map(str::to_owned);
        let references = if references.is_empty() { &usual[..] } else { references };
        Ok(Self {
            card,
            criteria,
            subjects: distinct(subjects)?,
            results: BTreeMap::new(),
            references: distinct(references)?,
            set,
            repeat,
            on: Backend::Sim,
        })
    }

    /// All algorithms: the subjects, then the references that are none.
    pub fn algorithms(&self) -> Vec<&str> {
        let others = self.references.iter().filter(|name| !self.subjects.contains(name));
        self.subjects.iter().chain(others).map(String::as_str).collect()
    }

    /// Numbers among all algorithms of the references of a subject: all but itself.
    pub fn references_of(&self, subject: usize) -> Vec<usize> {
        let all = self.algorithms();
        let is_reference = |nth: &usize| *nth != subject && self.references.iter().any(|name| name == all[*nth]);
        (0..all.len()).filter(is_reference).collect()
    }

    /// Number of runs.
    pub fn runs(&self) -> usize {
        let cases: usize = self.criteria.iter().map(|criterion| criterion.case.len()).sum();
        cases * self.algorithms().len() * self.repeat as usize
    }

    /// Measures that all of several criteria have; empty if they differ.
    pub fn shared_measures(&self) -> &[Measure] {
        let Some((first, others)) = self.criteria.split_first() else { return &[] };
        let expressions = |of: &Criterion| of.measure.iter().map(|measure| measure.value.clone()).collect::<Vec<_>>();
        let is_same = |other: &Criterion| expressions(other) == expressions(first);
        if !others.is_empty() && others.iter().all(is_same) { &first.measure } else { &[] }
    }

    /// Title of the criterion of a line.
    pub fn title(&self, line: &Line) -> String {
        match line.criterion.map(|at| &self.criteria[at]) {
            Some(criterion) => format!("{} {}", criterion.section, criterion.title),
            None => "All cases".to_owned(),
        }
    }

    /// Measure of a line.
    pub fn measure(&self, line: &Line) -> &Measure {
        &self.criteria[line.criterion.unwrap_or(0)].measure[line.measure]
    }

    /// Setups of one case for one algorithm, each with its scenario.
    fn setups(&self, criterion: &Criterion, nth: usize, algorithm: &str) -> Result<Vec<(Scenario, Arc<Setup>)>> {
        let draw = Draw::new(self.set, &criterion.section, nth);
        let mut sourced = criterion.case[nth].scenario(algorithm, self.on.name(), &draw)?;
        let mut setups = Vec::new();
        for seed in 1..=u64::from(self.repeat) {
            sourced.scenario.seed = seed;
            let setup = sourced.resolve(&|file| Err(format!("{file}: a case has no trace").into()))?;
            setups.push((sourced.scenario.filled(), Arc::new(setup)));
        }
        Ok(setups)
    }
}

/// Checks that each text is an algorithm, and leaves repeated ones out.
fn distinct(names: &[String]) -> Result<Vec<String>> {
    let mut distinct: Vec<String> = Vec::new();
    for name in names {
        ScenarioFile::default().set_flows(std::slice::from_ref(name))?;
        if !distinct.contains(name) {
            distinct.push(name.clone());
        }
    }
    Ok(distinct)
}

/// Returns the reason why a backend cannot run a setup, if there is one.
pub type Refusal<'a> = dyn Fn(&Setup) -> Option<String> + Sync + 'a;

/// Runs a scorecard. `progress` is called after each run.
pub fn run(plan: Plan, runner: &dyn Runner, refusal: &Refusal<'_>, progress: &(dyn Fn() + Sync)) -> Result<Scorecard> {
    let mut work = Vec::new();
    for (criterion, of) in plan.criteria.iter().enumerate() {
        for case in 0..of.case.len() {
            work.extend((0..plan.algorithms().len()).map(|algorithm| (criterion, case, algorithm)));
        }
    }
    let algorithms = plan.algorithms();
    let one = |&(criterion, case, algorithm): &(usize, usize, usize)| {
        let criterion = &plan.criteria[criterion];
        if let Some(results) = plan.results.get(algorithms[algorithm]) {
            // The algorithm of the flows is not looked at.
            let setups = plan.setups(criterion, case, REFERENCES[0])?;
            setups.iter().for_each(|_| progress());
            return plan.measured_in(results, criterion, case, &setups);
        }
        let setups = plan.setups(criterion, case, algorithms[algorithm])?;
        if let Some(reason) = setups.first().and_then(|(_, setup)| refusal(setup)) {
            setups.iter().for_each(|_| progress());
            return Ok(Measured { seeds: Err(reason) });
        }
        let seeds = setups.iter().map(|(scenario, setup)| {
            let output = runner.run(scenario, setup, &mut |_| ()).map_err(Error::Backend)?;
            progress();
            let run = RunView::new(&criterion.case[case].name, Arc::clone(setup), Arc::new(output));
            let measurer = Measurer::new(Arc::new(RunSet::default()));
            let values = criterion.measure.iter().map(|measure| measurer.measure_of(&measure.value, &run));
            values.collect::<Result<Vec<f64>>>().map_err(|error| Error::at(run.name.to_string())(error))
        });
        Ok(Measured { seeds: Ok(seeds.collect::<Result<_>>()?) })
    };
    let measured: Vec<Measured> = if runner.is_real_time() {
        work.iter().map(one).collect::<Result<_>>()?
    } else {
        work.par_iter().with_max_len(1).map(one).collect::<Result<_>>()?
    };
    let mut measured = measured.into_iter();
    let mut of_case = || measured.by_ref().take(algorithms.len()).collect::<Vec<_>>();
    let values: Vec<Vec<Vec<Measured>>> =
        plan.criteria.iter().map(|criterion| criterion.case.iter().map(|_| of_case()).collect()).collect();
    let lines = judge::lines(&plan, &values);
    Ok(Scorecard { plan, values, lines })
}

#[cfg(test)]
mod tests;
