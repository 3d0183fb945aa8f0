//! A/B test of congestion controls on this host's own connections: its directory, the list of tests, and the run.
// SPDX-License-Identifier: Apache-2.0 OR MIT

#[cfg(feature = "load")]
mod arms;
#[cfg(feature = "load")]
mod attach;
mod folder;
mod read;
mod registry;
#[cfg(feature = "load")]
mod rule;
#[cfg(feature = "load")]
mod run;
#[cfg(feature = "load")]
mod store;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use bbrlab_study::ab::guard::Limits;
use bbrlab_study::ab::{AssignmentUnit, Key, PrefixLengths, Shares};

#[cfg(feature = "load")]
pub(crate) use arms::test_with;
#[cfg(feature = "load")]
pub use attach::{ARMS_MAX, AbConfig, Attached, BUCKETS, PORTS_MAX, PREFIXES_MAX, cgroup, check};
pub use folder::Folder;
pub use read::{Evidence, HostEvidence, RecordFiles, read_all};
pub use registry::{Entry, running};
#[cfg(feature = "load")]
pub use run::{Callbacks, Run};

/// Condition that ends a test.
#[derive(Clone, Copy, Debug)]
pub enum EndCondition {
    /// Only a signal or another command ends it.
    Interrupted,
    /// Seconds since the start.
    Seconds(f64),
    /// Connections that were assigned an arm.
    Connections(u64),
}

/// Connections to include, by which side opens them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Those that peers open.
    In,
    /// Those that this host opens.
    Out,
    /// Both.
    Both,
}

/// A rule of the policy in force, whose holdout is compared with the other clients that it takes.
#[derive(Clone, Debug)]
pub struct RuleRequest {
    pub name: String,
    /// True if a guardrail withdraws the rule.
    pub withdraws: bool,
}

/// A test to run.
#[derive(Clone, Debug)]
pub struct TestRequest {
    /// Rule to observe, from which everything up to `key` then follows.
    pub rule: Option<RuleRequest>,
    /// Congestion controls, the control first: the kernel's, or ours with their parameters.
    pub algorithms: Vec<String>,
    /// Share of each.
    pub shares: Shares,
    /// Cgroup of the connections; none: all.
    pub cgroup: Option<PathBuf>,
    /// Service ports; none: all.
    pub ports: Vec<u16>,
    /// Networks of the clients; none: all.
    pub prefixes: Vec<(IpAddr, u32)>,
    /// Opened by peers, by this host, or either.
    pub direction: Direction,
    /// Unit of assignment.
    pub by: AssignmentUnit,
    /// Length of a slot, if assigned by time.
    pub slot: Duration,
    /// Bits of a client's address to keep.
    pub keep: PrefixLengths,
    /// Key of the assignment; none: random.
    pub key: Option<Key>,
    /// Directory for the records, new or empty.
    pub out: PathBuf,
    /// End of the test.
    pub until: EndCondition,
    /// Interval between records of an open connection.
    pub every: Duration,
    /// Maximum size of the records, bytes.
    pub disk: u64,
    /// Guardrails.
    pub limits: Limits,
    /// Name of this host in a report of several.
    pub host: Option<String>,
    /// Runs even if another program acts on the same connections.
    pub is_shared: bool,
}
