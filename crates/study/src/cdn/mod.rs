//! Evaluation of an algorithm on the users of a content network: an A/B test over a population. Every user has its own
//! path. The number of threads does not change the result.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod answer;
pub mod file;
pub mod gain;
mod page;
mod play;
mod summary;
pub mod table;
mod value_spec;

use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

pub use file::Population;
pub use gain::{Gain, Segment};
pub use page::{figures, json, report, rows, section};

use bbrlab_sim::scenario::{BitRate, BufferSize, FlowSpec, LossModel, TimeSpan};
use bbrlab_sim::setup::Object;

use crate::{Error, Result};

/// Object size from which throughput is judged rather than completion time. Source: the study.
pub const LARGE: u64 = 3_000_000;

/// Design of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    /// Title of the population.
    pub title: String,
    /// Flow texts; the last is the control.
    pub algorithms: Vec<String>,
    /// Time over which users arrive.
    pub span_s: f64,
    /// Time at which the hosts under test change over.
    pub activation_s: f64,
    /// Width of the bins over time.
    pub bin_s: f64,
    /// The classes of users.
    pub classes: Vec<Class>,
}

/// A class of users.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Class {
    pub name: String,
    /// Network of its users.
    pub network: String,
    /// Description.
    pub note: String,
    /// Description of its paths and objects.
    pub about: String,
}

/// The path of one user.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    pub rate: BitRate,
    /// Two-way propagation time.
    pub rtt: TimeSpan,
    /// Random loss after the bottleneck.
    pub loss: LossModel,
    /// Bottleneck queue limit.
    pub buffer: BufferSize,
    /// Bulk flows that share the bottleneck.
    pub rivals: Vec<FlowSpec>,
    /// Time for which the rivals have been running when the user arrives.
    pub lead: TimeSpan,
    /// Options of the user's connections.
    pub options: String,
    /// Maximum lifetime of a connection.
    pub life: TimeSpan,
}

#[derive(Clone, Debug, PartialEq)]
pub struct User {
    pub name: String,
    /// Index of its class.
    pub class: usize,
    /// Arrival time, seconds from the start of the study.
    pub arrival_s: f64,
    /// Served by a host under test.
    pub is_tested: bool,
    pub path: Path,
    /// Objects of each of its connections.
    pub connections: Vec<Vec<Object>>,
    /// Seed of its run, the same under each algorithm.
    pub seed: u64,
}

/// Outcome of one object.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectOutcome {
    /// Time from the start of the connection to the request.
    pub age_s: f64,
    /// Time from the request to the last byte; a lower bound if the connection ended first.
    pub time_s: f64,
    /// Received in full.
    pub is_whole: bool,
}

/// Result of one user under one algorithm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UserRun {
    /// Requested objects of each connection; shorter than the user's list if the connection ended first.
    pub connections: Vec<Vec<ObjectOutcome>>,
    /// Retransmitted over sent segments.
    pub retransmit_ratio: f64,
    pub rtt_ms: f64,
    /// Goodput of the rivals on the user's path while the user was served, bit/s; `None` without rivals.
    pub rivals_bps: Option<f64>,
}

/// A finished study.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    pub design: Design,
    pub users: Vec<User>,
    /// Each user's results, one per algorithm.
    pub lives: Vec<Vec<UserRun>>,
    pub seed: u64,
}

impl Study {
    /// Runs every user under every algorithm; `tick` is called after each run.
    pub fn run(design: Design, users: Vec<User>, seed: u64, tick: &(dyn Fn() + Sync)) -> Result<Self> {
        let runs = run_part(&design, &users, 0..users.len() * design.algorithms.len(), tick)?;
        Ok(Self::of(design, users, &runs, seed))
    }

    /// Takes the runs of all users, each under one algorithm after the other, as [`run_part`] returns them.
    pub fn of(design: Design, users: Vec<User>, runs: &[UserRun], seed: u64) -> Self {
        let lives = runs.chunks(design.algorithms.len()).map(<[UserRun]>::to_vec).collect();
        Self { design, users, lives, seed }
    }

    /// Index of the control.
    pub fn control(&self) -> usize {
        self.design.algorithms.len() - 1
    }

    /// Finds a class by its name, or by its name and network as `name/network`.
    pub fn class(&self, name: &str) -> Result<usize> {
        let is = |class: &Class| class.name == name || format!("{}/{}", class.name, class.network) == name;
        self.design.classes.iter().position(is).ok_or_else(|| {
            let known = self.design.classes.iter().map(Class::label).collect();
            Error::UnknownClass { name: name.to_owned(), known }
        })
    }
}

/// Runs some of the users' runs, numbered user by user and for each algorithm by algorithm; `tick` is called after each.
pub fn run_part(design: &Design, users: &[User], runs: Range<usize>, tick: &(dyn Fn() + Sync)) -> Result<Vec<UserRun>> {
    let arms = design.algorithms.len();
    let one = |run: usize| {
        let user = &users[run / arms];
        let life = play::life(user, &design.algorithms[run % arms]);
        tick();
        life.map_err(Error::at(format!("user {:?}", user.name)))
    };
    runs.into_par_iter().with_max_len(1).map(one).collect()
}

impl Class {
    /// Name of the class, with its network if it has one.
    pub fn label(&self) -> String {
        if self.network.is_empty() { self.name.clone() } else { format!("{}/{}", self.name, self.network) }
    }
}
