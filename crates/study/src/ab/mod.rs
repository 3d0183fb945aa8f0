//! A/B tests of congestion controls on real connections: assignment, records, guardrails and analysis. `bbrlab ab` runs
//! one on a host.
// SPDX-License-Identifier: Apache-2.0 OR MIT

pub mod assign;
mod cells;
mod client;
mod figures;
pub mod fleet;
pub mod guard;
mod judge;
mod long;
mod page;
mod policy;
#[cfg(test)]
mod ramps;
pub mod record;
mod records;
mod segment;
mod shared;
mod soundness;
mod summary;
mod survey;

use serde::{Deserialize, Serialize};

pub use assign::{
    ARMS_MAX, Assigner, AssignmentUnit, BUCKETS, Key, PORTS_MAX, PREFIXES_MAX, PrefixLengths, Shares, Table,
};
pub use client::Client;
pub use judge::{ArmSummary, Comparison, Findings, judge};
pub use page::{answer, json, notes, report, rows, state_rows};
pub use policy::policy;
pub use record::Row;
pub use records::Records;
pub use segment::{Prefixes, Segment, SegmentBy};
pub use shared::{Between, Comovement};
pub use soundness::{Exclusion, Ratio};
pub use summary::{Summary, judge_summaries};

use fleet::HostPart;
use guard::Limits;

/// Version of `experiment.json`, and of the records beside it. 2: with the times in BBR's states.
pub const SCHEMA: u32 = 2;

/// An arm of the comparison; the first arm is the control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arm {
    /// Name in reports: the algorithm, numbered if it occurs twice.
    pub label: String,
    /// Algorithm as given by the user.
    pub algorithm: String,
    /// Name in the kernel.
    pub name: String,
    /// Loaded for the test and unloaded with it.
    pub is_loaded_for_it: bool,
}

/// A split and the time from which it applies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub epoch: u32,
    pub at_unix_s: f64,
    pub shares: Shares,
    /// Reason for the change.
    pub why: String,
}

/// Handshakes and refusals of an arm, as counted by the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArmCounts {
    /// Handshakes that began.
    pub tried: u64,
    /// Handshakes that ended in a connection.
    pub established: u64,
    /// Outgoing connections that were never established.
    pub failed: u64,
    /// Connections on which the kernel refused the arm's congestion control.
    pub refused: u64,
}

/// Counters of the test, including events that were not recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub arms: Vec<ArmCounts>,
    /// Records lost because the ring was full.
    pub ring_lost: u64,
    /// Connections outside the test because the table was full.
    pub no_memory: u64,
    /// Records written.
    pub written: u64,
    /// Records lost because the disk, or the limit on written data, was reached.
    pub disk_lost: u64,
}

/// End of a test and its reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestEnd {
    pub at_unix_s: f64,
    pub how: String,
}

/// A test, as `experiment.json` describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    pub schema: u32,
    pub version: String,
    pub kernel: String,
    pub arms: Vec<Arm>,
    pub by: AssignmentUnit,
    /// Length of a time slot.
    pub slot_s: f64,
    pub keep: PrefixLengths,
    pub cgroup: String,
    pub ports: Vec<u16>,
    pub prefixes: Vec<String>,
    pub direction: String,
    /// Rule of the policy in force that assigned the clients, if the test only observes: its holdout is the control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Kernel tick, the resolution of busy time.
    pub tick_ns: u64,
    pub unix_minus_monotonic_ns: u64,
    pub begun_unix_s: f64,
    pub limits: Limits,
    pub splits: Vec<Change>,
    pub counts: Counts,
    pub ended: Option<TestEnd>,
    /// Name of the host, `--host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The hosts of a test put together of several; never of one that was recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostPart>,
}

impl Experiment {
    pub fn labels(&self) -> Vec<String> {
        self.arms.iter().map(|arm| arm.label.clone()).collect()
    }

    /// Returns the split in force for new connections.
    pub fn split(&self) -> Option<&Change> {
        self.splits.last()
    }

    /// Shares with the arms' names: `cubic 50 %, bbr3 50 %`.
    pub fn shown(&self, shares: &Shares) -> String {
        let each = self.arms.iter().zip(&shares.0);
        each.map(|(arm, share)| format!("{} {} %", arm.label, f64::from(*share) / 100.0)).collect::<Vec<_>>().join(", ")
    }

    /// Returns true if all arms run the same algorithm: any difference is chance, or a fault of the test.
    pub fn is_aa(&self) -> bool {
        self.arms.iter().all(|arm| arm.name == self.arms[0].name)
    }
}

/// Labels of the arms; algorithms that occur twice are numbered.
pub fn labels(algorithms: &[String]) -> Vec<String> {
    let label = |(at, name): (usize, &String)| {
        let before = algorithms[..at].iter().filter(|other| *other == name).count();
        if before == 0 { name.clone() } else { format!("{name}#{}", before + 1) }
    };
    algorithms.iter().enumerate().map(label).collect()
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// The analysis of records in memory.
    pub fn judge(test: &Experiment, rows: &[Row], prefixes: &Prefixes, seed: u64) -> Findings {
        super::judge(test, rows, prefixes, seed).unwrap_or_else(|never| match never {})
    }

    pub fn experiment(arms: &[&str], split: &str) -> Experiment {
        let names: Vec<String> = arms.iter().map(|&name| name.to_owned()).collect();
        let treatment = |(label, name): (String, &String)| Arm {
            label,
            algorithm: name.clone(),
            name: name.clone(),
            is_loaded_for_it: false,
        };
        Experiment {
            schema: SCHEMA,
            version: "0".to_owned(),
            kernel: "6.18".to_owned(),
            arms: labels(&names).into_iter().zip(&names).map(treatment).collect(),
            by: AssignmentUnit::Connection,
            slot_s: 600.0,
            keep: PrefixLengths::default(),
            cgroup: "/".to_owned(),
            ports: vec![443],
            prefixes: Vec::new(),
            direction: "both".to_owned(),
            rule: None,
            tick_ns: 4_000_000,
            unix_minus_monotonic_ns: 0,
            begun_unix_s: 0.0,
            limits: Limits::default(),
            splits: vec![Change {
                epoch: 1,
                at_unix_s: 0.0,
                shares: Shares::parse(split, arms.len()).unwrap(),
                why: "start".to_owned(),
            }],
            counts: Counts::default(),
            ended: None,
            host: None,
            hosts: Vec::new(),
        }
    }

    #[test]
    fn arms_of_one_algorithm_are_numbered() {
        let names = ["cubic", "bbr1", "cubic", "cubic"].map(str::to_owned);
        assert_eq!(labels(&names), ["cubic", "bbr1", "cubic#2", "cubic#3"]);
        assert!(experiment(&["cubic", "cubic"], "50,50").is_aa() && !experiment(&["cubic", "bbr"], "50,50").is_aa());
    }
}
