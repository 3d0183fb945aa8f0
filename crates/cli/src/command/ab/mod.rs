//! `bbrlab ab`: an A/B test of congestion controls on this host's own connections.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod config;
mod report;
#[cfg(feature = "host")]
mod start;
mod status;

use std::path::PathBuf;

use bbrlab_study::ab::AssignmentUnit;
use clap::{Args, Subcommand, ValueEnum};

use crate::{Error, Verdict};

/// Arguments of `bbrlab ab`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        sudo bbrlab ab start --arms cubic,bbr3-linux --canary 1% --port 443 --out test\n  \
        sudo bbrlab ab split 50,50\n  \
        sudo bbrlab ab start --rule mobile --withdraw --out mobile\n  \
        bbrlab ab report test --report test.html\n\n\
        The first arm is the control. A test needs Linux 6.1 or later with BTF, cgroup v2, and CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON.\n\
        It lasts as long as `start` runs. However `start` ends, new connections go back to the host's default.")]
pub struct AbArgs {
    #[command(subcommand)]
    what: AbCommand,
}

impl AbArgs {
    /// Returns true if the command runs a test.
    pub const fn is_start(&self) -> bool {
        matches!(self.what, AbCommand::Start(_))
    }
}

#[derive(Debug, Subcommand)]
enum AbCommand {
    /// Assign each new connection to an arm and record its progress, until interrupted
    Start(Box<StartArgs>),
    /// Change the shares of a running test
    Split(SplitArgs),
    /// End a running test, like Ctrl-C
    Stop(StopArgs),
    /// List running tests; clean up after a killed one
    Status(StatusArgs),
    /// Analyse the records of a test
    Report(ReportArgs),
    /// Summarise a host's records for `ab report`, in a small file without any single record
    Summary(SummaryArgs),
}

/// Flags of `bbrlab ab start`.
#[derive(Debug, Args)]
pub struct StartArgs {
    /// Congestion controls to compare, the control first: the kernel's, or ours, which are loaded for the test;
    /// separate with `;` instead of commas if one has parameters
    #[arg(long, value_name = "CC,…", required_unless_present = "rule")]
    pub arms: Option<String>,
    /// Assign nothing: compare the clients that this rule of the policy in force holds out with the others that it takes
    #[arg(long, value_name = "NAME", conflicts_with_all = ["arms", "split", "canary", "cgroup", "port", "prefix", "direction", "by", "slot", "keep", "key", "multi"])]
    pub rule: Option<String>,
    /// Withdraw the rule if a guardrail is violated: new connections of its clients get the default
    #[arg(long)]
    pub withdraw: bool,
    /// Share of each arm in per cent; below 100 in total, the other connections are not in the test [default: equal]
    #[arg(long, value_name = "P,…", conflicts_with = "canary")]
    pub split: Option<String>,
    /// Percentage for every arm but the control, which gets the rest
    #[arg(long, value_name = "P")]
    pub canary: Option<String>,
    /// Only connections of this cgroup (version 2) and its descendants: a path, or a name below the root [default: all]
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Only connections to this service port
    #[arg(long, value_name = "PORT,…", value_delimiter = ',')]
    pub port: Vec<u16>,
    /// Only connections with clients in this network, as in 192.0.2.0/24
    #[arg(long, value_name = "NETWORK,…", value_delimiter = ',')]
    pub prefix: Vec<String>,
    /// Only connections that peers open (in), only those that this host opens (out), or both
    #[arg(long, value_enum, default_value_t = Direction::Both)]
    pub direction: Direction,
    /// Unit of assignment; each unit keeps its arm
    #[arg(long, value_enum, default_value_t = Unit::Connection)]
    pub by: Unit,
    /// Length of a slot for --by time
    #[arg(long, value_name = "TIME", default_value = "600s")]
    pub slot: String,
    /// Bits of a client's IPv4 and IPv6 address to keep, which are also the prefix for --by client-prefix
    #[arg(long, value_name = "BITS,BITS", default_value = "24,48")]
    pub keep: String,
    /// File with the hash key, 32 hexadecimal digits, to repeat an assignment [default: random]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// New or empty directory for the records
    #[arg(long, value_name = "DIR", default_value = "out/ab")]
    pub out: PathBuf,
    /// End after this time or number of connections: 3600s, or 100000
    #[arg(long, value_name = "TIME|N")]
    pub stop_after: Option<String>,
    /// Interval between records of an open connection
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub every: String,
    /// Maximum size of the records; later ones are counted and dropped
    #[arg(long, value_name = "SIZE", default_value = "2GB")]
    pub disk: String,
    /// Stop an arm whose mean share of retransmitted segments exceeds the control's by this many percentage points
    #[arg(long, value_name = "P", default_value_t = 2.0)]
    pub guard_retransmits: f64,
    /// Stop an arm whose goodput is this many per cent below the control's
    #[arg(long, value_name = "P", default_value_t = 20.0)]
    pub guard_goodput: f64,
    /// Stop an arm whose share of failed handshakes exceeds the control's by this many percentage points
    #[arg(long, value_name = "P", default_value_t = 2.0)]
    pub guard_handshakes: f64,
    /// Name of this host, for a report of one experiment on several hosts
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Run even if another program acts on the same connections
    #[arg(long)]
    pub multi: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Direction {
    In,
    Out,
    Both,
}

impl From<Direction> for bbrlab_host::ab::Direction {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::In => Self::In,
            Direction::Out => Self::Out,
            Direction::Both => Self::Both,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Unit {
    Connection,
    ClientPrefix,
    Time,
}

impl From<Unit> for AssignmentUnit {
    fn from(unit: Unit) -> Self {
        match unit {
            Unit::Connection => Self::Connection,
            Unit::ClientPrefix => Self::ClientPrefix,
            Unit::Time => Self::Time,
        }
    }
}

#[derive(Debug, Args)]
pub struct SplitArgs {
    /// Share of each arm in per cent
    shares: String,
    /// Directory of the test [default: that of the only one running]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct StopArgs {
    /// Directory of the test [default: that of the only one running]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Flags of `bbrlab ab report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Directory of the test, which may still be running; of one experiment on several hosts, each host's directory or summary
    #[arg(value_name = "DIR", required = true)]
    pub tests: Vec<PathBuf>,
    /// File of client classes: one network and its class per line, as in `192.0.2.0/24 home`; the longest match counts
    #[arg(long, value_name = "FILE")]
    pub classes: Option<PathBuf>,
    /// Seed of the bootstrap
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = crate::args::seed)]
    pub seed: u64,
    /// Write one self-contained page that opens offline
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Write the findings as JSON; - for standard output, instead of the table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// Write the policy that the data support, class by class, for `bbrlab host policy`
    #[arg(long, value_name = "FILE.toml")]
    pub policy: Option<PathBuf>,
}

/// Flags of `bbrlab ab summary`.
#[derive(Debug, Args)]
pub struct SummaryArgs {
    /// Directory of the test, which may still be running
    #[arg(value_name = "DIR")]
    pub test: PathBuf,
    /// File of client classes, the same for all hosts and for the report
    #[arg(long, value_name = "FILE")]
    pub classes: Option<PathBuf>,
    /// Seed of the search for shared bottlenecks
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = crate::args::seed)]
    pub seed: u64,
    /// Write the summary here; - for standard output
    #[arg(long, value_name = "FILE.json", default_value = "-")]
    pub out: PathBuf,
}

/// Runs the requested subcommand.
pub fn ab(args: &AbArgs) -> Result<Verdict, Error> {
    match &args.what {
        AbCommand::Start(args) => start(args),
        AbCommand::Split(args) => status::split(args),
        AbCommand::Stop(args) => status::stop(args),
        AbCommand::Status(args) => status::status(args),
        AbCommand::Report(args) => report::report(args),
        AbCommand::Summary(args) => report::summary(args),
    }
}

#[cfg(feature = "host")]
fn start(args: &StartArgs) -> Result<Verdict, Error> {
    start::start(args)
}

#[cfg(not(feature = "host"))]
fn start(args: &StartArgs) -> Result<Verdict, Error> {
    let _ = config::request(args)?;
    Err(Error::NoLoader)
}
