//! The evaluation of an algorithm on the users of a content network: an A/B test over a population.
//! Every user has a path of their own. Threads do not change the result.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod answer;
pub mod file;
pub mod gain;
pub(crate) mod page;
mod play;
mod spread;
pub mod table;

use rayon::prelude::*;

pub use file::Population;
pub use gain::{Cut, Gain};
pub use page::{figures, json, report, rows, section};

use bbrlab_sim::scenario::{BitRate, BufferSize, FlowSpec, LossModel, TimeSpan};
use bbrlab_sim::setup::Object;

/// Objects below this size are judged by their completion time, others by their throughput. Source: the study.
pub const LARGE: u64 = 3_000_000;

/// What is done with the users.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    /// What the population is called.
    pub title: String,
    /// Flow texts; the last is the control.
    pub algorithms: Vec<String>,
    /// Users arrive over this time.
    pub span_s: f64,
    /// When the hosts under test change over.
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
    /// The network that its users are in.
    pub network: String,
    /// What it stands for.
    pub note: String,
    /// Paths and objects in words.
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
    /// Bulk flows that share it.
    pub rivals: Vec<FlowSpec>,
    /// How long they have been there.
    pub lead: TimeSpan,
    /// Options of the user's connections.
    pub options: String,
    /// When a connection ends at the latest.
    pub life: TimeSpan,
}

#[derive(Clone, Debug, PartialEq)]
pub struct User {
    pub name: String,
    /// Index of its class.
    pub class: usize,
    /// When it comes, seconds from the start of the study.
    pub arrival_s: f64,
    /// Whether a host under test serves it.
    pub is_tested: bool,
    pub path: Path,
    /// The objects of each of its connections.
    pub connections: Vec<Vec<Object>>,
    /// The seed of its run, the same under each algorithm.
    pub seed: u64,
}

/// One object as it was served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Served {
    /// From the start of the connection to the request.
    pub age_s: f64,
    /// From the request to the last byte; at least this where the connection ended before.
    pub time_s: f64,
    /// Whether it is whole.
    pub is_whole: bool,
}

/// One user under one algorithm.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Life {
    /// What was asked for of each connection; shorter than the user's list where the connection ended before.
    pub connections: Vec<Vec<Served>>,
    /// Retransmitted over sent segments.
    pub retransmit_ratio: f64,
    pub rtt_ms: f64,
    /// What rivals on the user's path got while it was served, bit/s; none where there are none.
    pub rivals_bps: Option<f64>,
}

/// A finished study.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// What was done.
    pub design: Design,
    pub users: Vec<User>,
    /// Each user's lives, one an algorithm.
    pub lives: Vec<Vec<Life>>,
    pub seed: u64,
}

impl Study {
    /// Runs every user under every algorithm; `tick` is called after each run.
    pub fn run(design: Design, users: Vec<User>, seed: u64, tick: &(dyn Fn() + Sync)) -> Result<Self, String> {
        let arms = design.algorithms.len();
        let runs: Vec<Life> = (0..users.len() * arms)
            .into_par_iter()
            .with_max_len(1)
            .map(|run| {
                let user = &users[run / arms];
                let life = play::life(user, &design.algorithms[run % arms]);
                tick();
                life.map_err(|error| format!("user {:?}: {error}", user.name))
            })
            .collect::<Result<_, _>>()?;
        let lives = runs.chunks(arms).map(<[Life]>::to_vec).collect();
        Ok(Self { design, users, lives, seed })
    }

    /// Index of the control.
    pub fn control(&self) -> usize {
        self.design.algorithms.len() - 1
    }

    /// A class by its name, or by its name and network as `name/network`.
    pub fn class(&self, name: &str) -> Result<usize, String> {
        let is = |class: &Class| class.name == name || format!("{}/{}", class.name, class.network) == name;
        self.design.classes.iter().position(is).ok_or_else(|| {
            let known: Vec<String> = self.design.classes.iter().map(Class::label).collect();
            format!("no class {name:?}; there are {}", known.join(", "))
        })
    }
}

impl Class {
    /// Its name, with its network where it has one.
    pub fn label(&self) -> String {
        if self.network.is_empty() { self.name.clone() } else { format!("{}/{}", self.name, self.network) }
    }
}
