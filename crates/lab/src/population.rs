//! Studies of users: a population under every algorithm, with the catalogue's expectations where it is the catalogue's.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::ops::Range;

use bbrlab_report::Report;
use bbrlab_sim::scenario::TimeSpan;
use bbrlab_study::cdn::{self, Design, Population, Study, User, UserRun, table};
use serde_json::Value;

use crate::experiment::{self, Experiment, ExperimentOutcome, claim_rows};
use crate::{Error, Result};

/// The experiment whose population is used without another.
const CATALOGUE: &str = "CDN";
/// Algorithms of a table, which names none.
const ALGORITHMS: [&str; 2] = ["bbr1", "cubic"];

/// Values that replace those of a population. Errors name the field.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Algorithms; the first is the one activated, the last is the control.
    pub algorithms: Option<Vec<String>>,
    /// Number of users in each class; of populations of distributions alone.
    pub users: Option<u32>,
    /// Time at which the hosts under test switch to the first algorithm.
    pub activation: Option<String>,
}

impl Changes {
    fn activation(&self) -> Result<Option<TimeSpan>> {
        let parsed = self.activation.as_deref().map(str::parse).transpose();
        Ok(parsed.map_err(bbrlab_study::Error::at("activation"))?)
    }

    /// Checks the values.
    pub fn check(&self) -> Result<()> {
        self.activation()?;
        self.algorithms.as_deref().map_or(Ok(()), |all| Ok(cdn::file::check_algorithms(all)?))
    }

    /// Checks the values for a table, which lists its own users.
    pub fn check_of_table(&self) -> Result<()> {
        match self.users {
            Some(_) => Err(bbrlab_study::Error::at("users")(bbrlab_study::Error::UsersOfATable).into()),
            None => self.check(),
        }
    }

    fn apply(&self, population: &mut Population) -> Result<()> {
        if let Some(users) = self.users {
            population.class.iter_mut().for_each(|class| class.users = Some(users));
        }
        population.activation = self.activation()?.or(population.activation);
        if let Some(algorithms) = &self.algorithms {
            population.algorithms.clone_from(algorithms);
        }
        Ok(())
    }
}

/// Work to do.
#[derive(Debug)]
pub enum Work {
    /// An experiment with its expectations.
    Catalogue(Box<Experiment>),
    /// Users alone.
    Users(Design, Vec<User>),
}

/// A study of users.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The study.
    pub study: Study,
    /// Outcome of the experiment, if the population is the catalogue's under its own algorithms.
    pub outcome: Option<ExperimentOutcome>,
    /// Seed.
    pub seed: u64,
}

impl Work {
    /// The catalogue's population; its expectations apply to its own algorithms alone.
    pub fn catalogue(changes: &Changes, seed: u64) -> Result<Self> {
        changes.check()?;
        let found = experiment::embedded().into_iter().find(|experiment| experiment.id == CATALOGUE);
        let mut experiment = found.ok_or(Error::NotInCatalogue(CATALOGUE))?;
        let population = experiment.population().ok_or(Error::NotOfUsers(CATALOGUE))?;
        changes.apply(population)?;
        Ok(match &changes.algorithms {
            None => Self::Catalogue(Box::new(experiment)),
            Some(_) => Self::Users(population.design(), population.draw(seed)),
        })
    }

    /// A population of distributions.
    pub fn distributions(mut population: Population, changes: &Changes, seed: u64) -> Result<Self> {
        changes.check()?;
        changes.apply(&mut population)?;
        population.check()?;
        Ok(Self::Users(population.design(), population.draw(seed)))
    }

    /// A table of users.
    pub fn table(sheet: &table::Sheet, changes: &Changes, seed: u64) -> Result<Self> {
        changes.check_of_table()?;
        let activation = changes.activation()?;
        let algorithms = changes.algorithms.clone().unwrap_or_else(|| ALGORITHMS.map(str::to_owned).to_vec());
        let (mut design, users) = table::population(sheet, algorithms, seed)?;
        design.activation_s = activation.map_or(design.activation_s, TimeSpan::as_secs);
        Ok(Self::Users(design, users))
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> usize {
        match self {
            Self::Catalogue(experiment) => experiment.run_count(),
            Self::Users(design, users) => users.len() * design.algorithms.len(),
        }
    }

    /// Its users, and what they are under.
    fn users(&mut self, seed: u64) -> Result<(Design, Vec<User>)> {
        match self {
            Self::Catalogue(experiment) => {
                let population = experiment.population().ok_or(Error::NotOfUsers(CATALOGUE))?;
                Ok((population.design(), population.draw(seed)))
            }
            Self::Users(design, users) => Ok((design.clone(), users.clone())),
        }
    }

    /// Runs some of its runs, for an engine that shares them among machines; `tick` is called after each.
    pub fn run_part(&mut self, runs: Range<usize>, seed: u64, tick: &(dyn Fn() + Sync)) -> Result<Vec<UserRun>> {
        let (design, users) = self.users(seed)?;
        Ok(cdn::run_part(&design, &users, runs, tick)?)
    }

    /// Concludes from all runs, in their order.
    pub fn conclude(mut self, runs: &[UserRun], seed: u64) -> Result<Answer> {
        let (design, users) = self.users(seed)?;
        let study = Study::of(design, users, runs, seed);
        match self {
            Self::Catalogue(mut experiment) => {
                experiment.finish(study);
                Self::Catalogue(experiment).run(seed, &|| ())
            }
            Self::Users(..) => Ok(Answer { study, outcome: None, seed }),
        }
    }

    /// Serves every user under every algorithm; `tick` is called after each run.
    pub fn run(self, seed: u64, tick: &(dyn Fn() + Sync)) -> Result<Answer> {
        match self {
            Self::Catalogue(experiment) => {
                let outcome = experiment::run(&experiment, seed, &|_, _| tick())?;
                let study = outcome.study.as_deref().cloned().ok_or(Error::NoStudy)?;
                Ok(Answer { study, outcome: Some(outcome), seed })
            }
            Self::Users(design, users) => {
                Ok(Answer { study: Study::run(design, users, seed, tick)?, outcome: None, seed })
            }
        }
    }
}

impl Answer {
    /// Returns the document of `bbrlab cdn --json`.
    pub fn json(&self, version: &str) -> Value {
        let mut value = cdn::json(&self.study, version);
        if let Some(outcome) = &self.outcome {
            let mut document = experiment::json(std::slice::from_ref(outcome), self.seed);
            value["expect"] = document["experiments"][0]["expect"].take();
        }
        value
    }

    /// Returns the page, titled so if the population has no title of its own; the caller adds its command.
    pub fn report(&self, title: &str, version: &str) -> Report {
        let own = self.study.design.title.as_str();
        let mut page = cdn::report(&self.study, if own.is_empty() { title } else { own }, version);
        if let Some(outcome) = &self.outcome {
            page.claims = claim_rows(outcome).collect();
            let first = &mut page.sections[0];
            first.id.clone_from(&outcome.id);
            first.rows = (0..page.claims.len()).collect();
            first.source.clone_from(&outcome.source);
            first.contradiction.clone_from(&outcome.contradiction);
        }
        page
    }
}
