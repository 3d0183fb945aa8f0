//! The command line, defined once: help, man page and completions are generated from here.
//! In: nothing. Out: clap types. Never: a unit read here; the scenario language does that, for files and flags alike.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// BBR congestion control, every version of it, shown, proven and put to work.
#[derive(Debug, Parser)]
#[command(name = "bbrlab", version, max_term_width = 100)]
#[command(after_help = "Start with: bbrlab run --flow bbr1 --flow cubic\n\n\
    Exit status: 0 done and every expectation holds; 1 an expectation failed; 2 it could not run; 130 interrupted.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one scenario and print what it measured
    Run(Box<RunArgs>),
    /// Run any command behind the emulated link, with this host's kernel at both ends
    Emulate(Box<EmulateArgs>),
    /// Run the catalogue of published claims: of each the expected and the measured value, and a verdict
    Reproduce(ReproduceArgs),
    /// Run a scenario over this host's kernel, and record what its own BBR and CUBIC read and decide
    Record(Box<crate::record::RecordArgs>),
    /// Compare recorded decisions of a kernel's BBR and CUBIC with core's, bit by bit
    Replay(crate::replay::ReplayArgs),
    /// Run scenarios in the simulator and on a real kernel, and say how well both agree
    Agree(Box<AgreeArgs>),
    /// Run a scenario over ranges of anything, on all cores, and go on where it was interrupted
    Sweep(Box<crate::sweep::SweepArgs>),
    /// Say which algorithm suits a path or a population, what it gains and loses, and how sure that is
    Advise(Box<crate::advise::AdviseArgs>),
    /// Search an algorithm's parameters for a population of paths, and judge them on paths that the search has not seen
    Tune(crate::tune::TuneArgs),
    /// Evaluate an algorithm on the users of a content network: a population of paths, an A/B test, gains by class
    Cdn(crate::cdn::CdnArgs),
    /// Hold algorithms to the draft's example test cases over a grid of rates and RTTs, or judge somebody's log
    Conform(ConformArgs),
    /// List algorithms, experiments, an algorithm's parameters, or the scenario's JSON Schema
    List(ListArgs),
    /// Say what this machine can do, and what to do where it cannot
    Check,
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the man pages, in roff
    Man,
    /// The first process inside User Mode Linux
    #[command(hide = true)]
    UmlGuest {
        /// The directory of exchange with the host
        directory: String,
        /// What the kernel adds
        rest: Vec<String>,
    },
}

/// Flags of `bbrlab run`; each of the first group is also a key of the scenario file.
#[derive(Debug, Default, Args)]
#[command(after_help = "Examples:\n  \
        bbrlab run --rate 10mbit --rtt 40ms --buffer 1bdp --flow bbr1 --flow cubic@5s\n  \
        bbrlab run scenario.toml --seed 2 --report report.html --pcap sender.pcapng\n\n\
        Units: rates bit, kbit, mbit, gbit (powers of 1000); times ns, us, ms, s; volumes B, kB, MB, GB, KiB, MiB, GiB.")]
pub struct RunArgs {
    /// Scenario in TOML, or the JSON of an earlier result; flags override it
    pub file: Option<PathBuf>,

    #[command(flatten)]
    pub path: PathArgs,

    /// One or several like flows: CC[*N][@START[+STEP]][,KEY=VALUE…], as in bbr1*6@0s+2s (repeatable) [default: bbr1]
    ///
    /// Keys: rtt, size, rwnd (VOLUME or auto), on/off (on=1s/off=2s), mss, name, stop, rate (what the application writes),
    /// request (SIZE/PAUSE), ecn, pacing, gro, tso, iw, delack, links (1..2), access (RATE/RTT[/BUFFER]);
    /// every other key is a parameter of the algorithm: see `bbrlab list parameters CC`.
    #[arg(long, value_name = "FLOW", allow_hyphen_values = true, help_heading = "Run")]
    pub flow: Vec<String>,
    /// When the run ends, in simulated time [default: 60s]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Run")]
    pub duration: Option<String>,
    /// Metrics count from here [default: 0s]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Run")]
    pub warmup: Option<String>,
    /// Seed of all dice [default: 1]
    #[arg(long, value_name = "N", allow_hyphen_values = true, help_heading = "Run")]
    pub seed: Option<String>,
    /// Number of runs, with seeds seed…seed+N−1: medians with 95 % bootstrap intervals [default: 1]
    #[arg(long, value_name = "N", allow_hyphen_values = true, help_heading = "Run")]
    pub repeat: Option<String>,
    /// Where it runs: sim; uml, a real Linux kernel in virtual time; kernel, this host's (see `bbrlab check`) [default: sim]
    #[arg(long, value_name = "WORLD", allow_hyphen_values = true, help_heading = "Run")]
    pub on: Option<String>,
    /// Grid of the recorded series; 0s records none [default: a 6000th of the duration, at least 1ms]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Run")]
    pub sample: Option<String>,
    /// What the scenario is called in reports
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, help_heading = "Run")]
    pub name: Option<String>,

    /// Write the result as JSON; - for standard output, instead of the table
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Write one self-contained page that opens offline
    #[arg(long, value_name = "FILE.html", help_heading = "Output")]
    pub report: Option<PathBuf>,
    /// Write the packets as pcapng, for Wireshark and tcptrace: FILE as the sender sees them, DIR one file each for
    /// sender, bottleneck-in, bottleneck-out and receiver (on a real kernel: sender alone)
    #[arg(long, value_name = "FILE|DIR", help_heading = "Output")]
    pub pcap: Option<PathBuf>,
    /// Most packets that --pcap records of a run; about 100 bytes of memory each [default: 2000000]
    #[arg(long, value_name = "N", allow_hyphen_values = true, requires = "pcap", help_heading = "Output")]
    pub pcap_limit: Option<String>,
    /// Write the series as qlog: FILE.qlog in qvis's dialect, FILE.sqlog in the drafts'; DIR gets both
    #[arg(long, value_name = "FILE|DIR", help_heading = "Output")]
    pub qlog: Option<PathBuf>,
    /// Write the series as Parquet: FILE holds the samples, DIR runs.parquet and samples.parquet
    #[arg(long, value_name = "FILE|DIR", help_heading = "Output")]
    pub parquet: Option<PathBuf>,
    /// Write the series as CSV: FILE holds flows and links in one table, DIR one file each
    #[arg(long, value_name = "FILE|DIR", help_heading = "Output")]
    pub csv: Option<PathBuf>,
    /// Print no table
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

/// The path, in the words of the scenario language.
#[derive(Clone, Debug, Default, Args)]
pub struct PathArgs {
    /// Bottleneck rate, as in 10mbit (powers of 1000; bits) [default: 10mbit]
    #[arg(long, value_name = "RATE", allow_hyphen_values = true, help_heading = "Path")]
    pub rate: Option<String>,
    /// Two-way propagation time without queue or serialisation, as in 40ms [default: 40ms]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Path")]
    pub rtt: Option<String>,
    /// Bottleneck queue limit, as in 41p, 64KiB, 1.5bdp or 250ms of drain time [default: 1bdp, at least 10p]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "Path")]
    pub buffer: Option<String>,
    /// Random loss after the bottleneck, as in 1% or 0.001; in bursts as ge:p,r[,1-h[,1-k]] [default: 0%]
    ///
    /// ge is the Gilbert-Elliott model in netem's words: p from good to bad, r back, 1-h the loss in the bad state
    /// (100% unless written), 1-k the loss in the good one (0%).
    #[arg(long, value_name = "LOSS", allow_hyphen_values = true, help_heading = "Path")]
    pub loss: Option<String>,
    /// Random loss on the ACK path, in the same forms [default: 0%]
    #[arg(long, value_name = "LOSS", allow_hyphen_values = true, help_heading = "Path")]
    pub ack_loss: Option<String>,
    /// Added delay, as in 2ms (order kept) or 2ms:reorder [default: 0s]
    #[arg(long, value_name = "TIME[:reorder]", allow_hyphen_values = true, help_heading = "Path")]
    pub jitter: Option<String>,
    /// Share of data packets that overtake, as in 1% or 0.01 [default: 0%]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, help_heading = "Path")]
    pub reorder: Option<String>,
    /// Share of data packets that arrive twice, as in 1% or 0.01 [default: 0%]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, help_heading = "Path")]
    pub duplicate: Option<String>,
    /// Queue discipline: droptail, red, codel, fq_codel or pie, with options as in codel:target=5ms:ecn [default: droptail]
    ///
    /// Options: red:min=VOLUME,max=VOLUME,p=SHARE,wlog=N,gentle,ecn; codel:target=TIME,interval=TIME,ce=TIME,ecn;
    /// fq_codel: codel's, and flows=N, quantum=BYTES; pie:target=TIME,tupdate=TIME,alpha=X,beta=X,burst=TIME,ecn.
    #[arg(long, value_name = "AQM", allow_hyphen_values = true, help_heading = "Path")]
    pub aqm: Option<String>,
    /// Token-bucket policer in front of the queue, as in rate=10mbit,burst=125kB
    #[arg(long, value_name = "POLICER", allow_hyphen_values = true, help_heading = "Path")]
    pub policer: Option<String>,
    /// ACKs held and released together, as in 20ms or 64KiB [default: none]
    #[arg(long, value_name = "HOLD", allow_hyphen_values = true, help_heading = "Path")]
    pub ack_aggregation: Option<String>,
    /// Changes of the path in time: rate, rtt, buffer, loss, ack_loss, as in 20s:rate=20mbit;40s:rate=10mbit,rtt=80ms
    #[arg(long, value_name = "STEPS", allow_hyphen_values = true, help_heading = "Path")]
    pub schedule: Option<String>,
    /// mahimahi delivery trace as bottleneck, instead of a rate
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "demand"], help_heading = "Path")]
    pub trace: Option<String>,
    /// Link that grants rate by backlog as bottleneck, as in min=1mbit,max=20mbit
    #[arg(long, value_name = "DEMAND", conflicts_with = "rate", allow_hyphen_values = true, help_heading = "Path")]
    pub demand: Option<String>,
}

impl RunArgs {
    /// The scenario's keys with what their flags hold, without the flows.
    pub fn overrides(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("name", &self.name),
            ("duration", &self.duration),
            ("warmup", &self.warmup),
            ("seed", &self.seed),
            ("repeat", &self.repeat),
            ("on", &self.on),
            ("sample", &self.sample),
        ]
        .into_iter()
        .filter_map(|(key, text)| Some((key, text.as_deref()?)))
        .chain(self.path.overrides())
    }
}

impl PathArgs {
    /// The scenario's keys of the path with what their flags hold.
    pub fn overrides(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("rate", &self.rate),
            ("trace", &self.trace),
            ("demand", &self.demand),
            ("rtt", &self.rtt),
            ("buffer", &self.buffer),
            ("loss", &self.loss),
            ("ack_loss", &self.ack_loss),
            ("jitter", &self.jitter),
            ("reorder", &self.reorder),
            ("duplicate", &self.duplicate),
            ("aqm", &self.aqm),
            ("policer", &self.policer),
            ("ack_aggregation", &self.ack_aggregation),
            ("schedule", &self.schedule),
        ]
        .into_iter()
        .filter_map(|(key, text)| Some((key, text.as_deref()?)))
    }
}

/// Flags of `bbrlab emulate`.
#[derive(Debug, Args)]
#[command(after_help = "The command finds the server's address in BBRLAB_SERVER_IP and its own in BBRLAB_CLIENT_IP \
        (IPv6: …_IP6); so does the server. Exit status: the command's own; 2 if the link could not be made, 126 or 127 if \
        the command could not run.\n\n\
        Examples:\n  \
        bbrlab emulate --rate 20mbit --rtt 60ms --server 'python3 -m http.server 8000' -- \\\n    \
            sh -c 'curl -O http://$BBRLAB_SERVER_IP:8000/file'\n  \
        bbrlab emulate --rate 5mbit --loss 1% --data down --cc bbr1 --server 'iperf3 -s -1' -- bash\n  \
        bbrlab emulate --on uml --rate 10mbit --data down --server 'python3 -m http.server 8000' -- \\\n    \
            sh -c 'curl -o /dev/null http://$BBRLAB_SERVER_IP:8000/file'\n\n\
        With --on uml the whole of it takes place in virtual time: a minute of waiting is over at once. The command's \
        standard input is empty, and there is IPv4 only.")]
pub struct EmulateArgs {
    #[command(flatten)]
    pub path: PathArgs,

    /// Command line of a server at the other end of the link, for the shell; the command waits until it listens
    #[arg(long, value_name = "CMD", help_heading = "Run")]
    pub server: Option<String>,
    /// Which way has the bottleneck, while the other carries ACKs [default: both, each with a bottleneck of its own]
    #[arg(long, value_name = "WAY", help_heading = "Run")]
    pub data: Option<DataWay>,
    /// Congestion control of both ends, as in bbr1, cubic or the kernel's own name for it [default: the kernel's]
    #[arg(long, value_name = "CC", help_heading = "Run")]
    pub cc: Option<String>,
    /// What the hosts hand to the link: single packets, or super-packets (TSO) that the link takes apart
    /// [default: packets below 1.5 Gbit/s]
    #[arg(long, value_name = "KIND", help_heading = "Run")]
    pub offload: Option<OffloadKind>,
    /// Seed of all dice [default: 1]
    #[arg(long, value_name = "N", allow_hyphen_values = true, help_heading = "Run")]
    pub seed: Option<String>,
    /// Write the emulator's check of itself as JSON, with the machine that it ran on
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Measure the emulator itself on this machine, and print a table
    #[arg(long, conflicts_with_all = ["server", "data", "cc", "offload"], help_heading = "Run")]
    pub bench: bool,
    /// Whose kernel is at both ends: kernel, this host's, in real time; uml, a Linux of its own in virtual time
    #[arg(long, value_name = "WORLD", default_value = "kernel", help_heading = "Run")]
    pub on: EmulateOn,
    /// With --on uml: time passes as on this host, for what depends on how fast it computes [default: virtual time, in
    /// which computing takes none]
    #[arg(long, help_heading = "Run")]
    pub real_time: bool,
    /// With --on uml: the command may write to this host's files [default: it sees them read-only, and an empty /tmp]
    #[arg(long, help_heading = "Run")]
    pub rw: bool,
    /// The command and its arguments
    #[arg(last = true, required_unless_present = "bench", value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

/// Where a command is emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum EmulateOn {
    /// This host's kernel
    Kernel,
    /// User Mode Linux
    Uml,
}

/// Which way the data goes.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum DataWay {
    /// Each way has a bottleneck of its own
    Both,
    /// From the server to the command
    Down,
    /// From the command to the server
    Up,
}

/// What hosts hand to the link.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum OffloadKind {
    /// Packets of one MTU
    Packets,
    /// Super-packets of up to 64 kB
    Tso,
}

/// Flags of `bbrlab reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Claims to run, as in F8 [default: all]
    pub ids: Vec<String>,
    /// Write one self-contained page that opens offline
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// Write the verdicts as JSON; - for standard output, instead of the table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// Take the experiments from this directory instead of the ones built in
    #[arg(long, value_name = "DIR")]
    pub experiments: Option<PathBuf>,
    /// Seed of all dice
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true, value_parser = seed)]
    pub seed: u64,
    /// Where the runs take place: sim, or a real kernel (uml, kernel) with the simulator's figures beside it
    #[arg(long, value_name = "WORLD", default_value = "sim")]
    pub on: String,
    /// Where a claim is the median over several seeds, run the first seed only: faster, and less sure
    #[arg(long)]
    pub one_seed: bool,
}

/// Flags of `bbrlab agree`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status 1 if the simulator is farther off than its limits, or with --packets if a packet differs; the limits and the scenarios are those of docs/validation.md.\n\n\
        Examples:\n  \
        bbrlab agree --longest 60s --repeat 5\n  \
        bbrlab agree --packets --rate 10mbit --rtt 40ms --flow cubic --duration 60s"
)]
pub struct AgreeArgs {
    /// Scenario files in TOML [default: the matrix that is built in]
    pub files: Vec<PathBuf>,
    /// Lay the packets of one scenario side by side, of a file or of the flags below, and show the first that differs
    #[arg(long, conflicts_with_all = ["only", "longest", "every", "json", "report", "repeat"])]
    pub packets: bool,
    /// With --packets: how far apart in time both may have the same packet
    #[arg(long, value_name = "TIME", default_value = "1us", requires = "packets")]
    pub within: String,
    /// With --packets: packets shown before the first that differs
    #[arg(long, value_name = "N", default_value_t = 10, requires = "packets")]
    pub context: usize,
    #[command(flatten)]
    pub path: PathArgs,
    /// With --packets: the flows, as `bbrlab run` has them (repeatable) [default: bbr1]
    #[arg(long, value_name = "FLOW", allow_hyphen_values = true, requires = "packets", help_heading = "Path")]
    pub flow: Vec<String>,
    /// With --packets: when the run ends [default: 60s]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, requires = "packets", help_heading = "Path")]
    pub duration: Option<String>,
    /// The real kernel: uml, in virtual time, or kernel, this host's in real time, one run after another
    #[arg(long, value_name = "WORLD", default_value = "uml")]
    pub with: String,
    /// Runs of each scenario in each world
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Seed of all dice
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true, value_parser = seed)]
    pub seed: u64,
    /// Only scenarios of the matrix whose name holds this text
    #[arg(long, value_name = "TEXT", conflicts_with = "files")]
    pub only: Option<String>,
    /// Only scenarios of the matrix that take no longer than this, as in 60s
    #[arg(long, value_name = "TIME", conflicts_with = "files")]
    pub longest: Option<String>,
    /// Every N-th scenario of the matrix
    #[arg(long, value_name = "N", conflicts_with = "files", value_parser = clap::value_parser!(u32).range(1..))]
    pub every: Option<u32>,
    /// Write the comparison as JSON; - for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write one self-contained page that opens offline
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

/// Flags of `bbrlab conform`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status 1 if a case fails. What each case demands, and how it is read, stands in docs/conformance.md and in the report.\n\n\
        Examples:\n  \
        bbrlab conform bbr3 --report out/conform.html\n  \
        bbrlab conform bbr3 bbr3-linux --case 10 --cell 10gbit/500us --junit out/conform.xml\n  \
        bbrlab conform --log connection.sqlog"
)]
pub struct ConformArgs {
    /// Algorithms, as in bbr3 or bbr3-linux
    #[arg(required_unless_present = "log", value_name = "ALGO")]
    pub algorithms: Vec<String>,
    /// Only this case: its number in the draft's appendix, or the anchor of its heading (repeatable)
    #[arg(long, value_name = "ID")]
    pub case: Vec<String>,
    /// Only this cell of the grid, as in 20mbit/100ms (repeatable)
    #[arg(long, value_name = "RATE/RTT")]
    pub cell: Vec<String>,
    /// Take the cases from this directory instead of the ones built in
    #[arg(long, value_name = "DIR")]
    pub cases: Option<PathBuf>,
    /// Judge what a log of another implementation can show: qlog (either dialect), ss -tin, or a trace of bbrlab run
    #[arg(long, value_name = "FILE", conflicts_with_all = ["algorithms", "case", "cell", "draw"])]
    pub log: Option<PathBuf>,
    /// Write the verdicts as JSON; - for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the verdicts as JUnit XML, for CI
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write one self-contained page that opens offline
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
    /// The cell whose run the page draws where nothing fails [default: 20mbit/100ms]
    #[arg(long, value_name = "RATE/RTT", requires = "report")]
    pub draw: Option<String>,
}

/// A seed of dice.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("write a whole number from 0 to {}", u64::MAX))
}

/// Arguments of `bbrlab list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// What to list [default: algorithms]
    #[command(subcommand)]
    pub what: Option<ListWhat>,
}

/// What `bbrlab list` lists.
#[derive(Clone, Debug, Subcommand)]
pub enum ListWhat {
    /// Algorithms, with one line each and their source
    Algorithms,
    /// Experiments, with their claims' sources
    Experiments {
        /// Take them from this directory instead of the ones built in
        #[arg(long, value_name = "DIR")]
        experiments: Option<PathBuf>,
    },
    /// An algorithm's parameters: unit, default, range, source and meaning
    Parameters {
        /// The algorithm
        algorithm: String,
    },
    /// The scenario language as JSON Schema
    Schema,
}
