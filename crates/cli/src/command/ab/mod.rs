//! `bbrlab ab`: an A/B test of congestion controls on this host's own connections.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod folder;
mod report;
#[cfg(feature = "host")]
mod start;
mod status;
#[cfg(feature = "host")]
mod store;
mod wanted;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use bbrlab_lab::ab::By;
use clap::{Args, Subcommand, ValueEnum};

use crate::{Failure, Verdict};

/// Arguments of `bbrlab ab`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        sudo bbrlab ab start --arms cubic,bbr3-linux --canary 1% --port 443 --out test\n  \
        sudo bbrlab ab split 50,50\n  \
        bbrlab ab report test --report test.html\n\n\
        The first arm is the control. It needs Linux 6.10 or later with BTF, cgroup v2, and CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON.\n\
        The test lives as long as `start` does: when that ends, in whatever way, new connections have the host's default.")]
pub struct AbArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Give each new connection an arm and record what it does, until interrupted
    Start(Box<StartArgs>),
    /// Change the shares of a running test
    Split(SplitArgs),
    /// End a running test, as Ctrl-C does
    Stop(StopArgs),
    /// Say what tests run; clear up after one that was killed
    Status(StatusArgs),
    /// What the records of a test say
    Report(ReportArgs),
}

/// Flags of `bbrlab ab start`.
#[derive(Debug, Args)]
pub struct StartArgs {
    /// What is compared, the control first: the kernel's congestion controls, or ours, which are loaded for the test; `;` instead
    /// of commas where one holds parameters
    #[arg(long, value_name = "CC,…")]
    pub arms: String,
    /// Each arm's share in per cent; what is left of 100 has no part in the test [default: equal]
    #[arg(long, value_name = "P,…", conflicts_with = "canary")]
    pub split: Option<String>,
    /// So many per cent for every arm but the control, which has the rest
    #[arg(long, value_name = "P")]
    pub canary: Option<String>,
    /// Connections of this cgroup (version 2) and those below it: a path, or a name below the root [default: all]
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Only connections to this port of the service
    #[arg(long, value_name = "PORT,…", value_delimiter = ',')]
    pub port: Vec<u16>,
    /// Only connections with this client or network, as in 192.0.2.0/24
    #[arg(long, value_name = "NETWORK,…", value_delimiter = ',')]
    pub prefix: Vec<String>,
    /// Connections that peers open, that this host opens, or both
    #[arg(long, value_enum, default_value_t = Direction::Both)]
    pub direction: Direction,
    /// What is drawn and keeps its arm
    #[arg(long, value_enum, default_value_t = Unit::Connection)]
    pub by: Unit,
    /// Length of a slot of --by time
    #[arg(long, value_name = "TIME", default_value = "600s")]
    pub slot: String,
    /// Bits of a client's IPv4 and IPv6 address that are kept and, by client-prefix, drawn
    #[arg(long, value_name = "BITS,BITS", default_value = "24,48")]
    pub keep: String,
    /// Key of the hash, 32 hexadecimal digits, to repeat an assignment [default: random]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// A new or empty directory for the records
    #[arg(long, value_name = "DIR", default_value = "out/ab")]
    pub out: PathBuf,
    /// End after this time, or after so many connections: 3600s, or 100000
    #[arg(long, value_name = "TIME|N")]
    pub stop_after: Option<String>,
    /// How often open connections are recorded
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub every: String,
    /// Write no more than this; later records are counted and dropped
    #[arg(long, value_name = "SIZE", default_value = "2GB")]
    pub disk: String,
    /// Stop an arm whose mean share of retransmitted segments is above the control's by so many points
    #[arg(long, value_name = "P", default_value_t = 2.0)]
    pub guard_retransmits: f64,
    /// Stop an arm whose goodput is below the control's by so many per cent
    #[arg(long, value_name = "P", default_value_t = 20.0)]
    pub guard_goodput: f64,
    /// Stop an arm of whose handshakes more fail than of the control's, by so many points
    #[arg(long, value_name = "P", default_value_t = 2.0)]
    pub guard_handshakes: f64,
    /// Go on where another program acts on the same connections
    #[arg(long)]
    pub multi: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Direction {
    In,
    Out,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Unit {
    Connection,
    ClientPrefix,
    Time,
}

impl From<Unit> for By {
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
    /// Each arm's share in per cent
    shares: String,
    /// The test's directory [default: that of the only one that runs]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct StopArgs {
    /// The test's directory [default: that of the only one that runs]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Flags of `bbrlab ab report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The test's directory; the test may still be running
    pub dir: PathBuf,
    /// Classes of clients: lines of a network and its class, as in `192.0.2.0/24 home`; the longest network counts
    #[arg(long, value_name = "FILE")]
    pub classes: Option<PathBuf>,
    /// Seed of the bootstrap
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write one self-contained page that opens offline
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Write the findings as JSON; - for standard output, instead of the table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
}

/// A test runs in this process, and was asked to end.
static RUNS: AtomicBool = AtomicBool::new(false);
static ENDS: AtomicBool = AtomicBool::new(false);

/// On a signal: whether a test runs here, which then ends by itself. The second signal ends the process.
pub fn end_in_order() -> bool {
    RUNS.load(Ordering::SeqCst) && !ENDS.swap(true, Ordering::SeqCst)
}

/// Does what the arguments say.
pub fn ab(args: &AbArgs) -> Result<Verdict, Failure> {
    match &args.what {
        What::Start(args) => start(args),
        What::Split(args) => status::split(args),
        What::Stop(args) => status::stop(args),
        What::Status(args) => status::status(args),
        What::Report(args) => report::report(args),
    }
}

#[cfg(feature = "host")]
fn start(args: &StartArgs) -> Result<Verdict, Failure> {
    start::start(args)
}

#[cfg(not(feature = "host"))]
fn start(args: &StartArgs) -> Result<Verdict, Failure> {
    let (_, _) = (wanted::Wanted::new(args)?, By::from(args.by));
    Err(super::host::WITHOUT.to_owned())
}
