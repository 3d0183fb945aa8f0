//! Errors of runs on real kernels: each names in one line its place, and the remedy if there is one.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitStatus;

use bbrlab_sim::scenario::support::Unsupported;

/// A run on a real kernel, or a look at its connections, that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A backend cannot run the setup.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// An error of a scenario.
    #[error(transparent)]
    Sim(#[from] bbrlab_sim::Error),
    /// An error of the kernel's programs.
    #[error(transparent)]
    Host(#[from] bbrlab_host::Error),
    /// The job's scenario cannot be resolved.
    #[error(transparent)]
    Scenario(Box<dyn std::error::Error + Send + Sync>),
    /// This build cannot load the flow's algorithm.
    #[error(
        "flow: {flow} holds {algorithm}: this build cannot load its kernel program; build with --features host, or use \
         --on sim"
    )]
    NoProgram {
        /// The flow.
        flow: String,
        /// Its algorithm.
        algorithm: &'static str,
    },
    /// Neither the kernel nor this build has the algorithm.
    #[error(
        "{algorithm}: the kernel does not have it, and this build cannot load it; build with --features host, or use \
         --on sim"
    )]
    NotLoadable {
        /// The algorithm.
        algorithm: &'static str,
    },
    /// The kernel lacks a flow's congestion control.
    #[error(
        "flow: {flow} holds {cc}: this kernel has no such congestion control; run modprobe tcp_{cc}, or write \
         program=bbrlab"
    )]
    NoKernelAlgorithm {
        /// The flow.
        flow: String,
        /// The kernel's name of its algorithm.
        cc: &'static str,
    },
    /// A kernel for User Mode Linux was built without a flow's congestion control.
    #[error("flow: {flow} holds {cc}: the kernel was built without tcp_{cc}")]
    NotBuiltIn {
        /// The flow.
        flow: String,
        /// The kernel's name of its algorithm.
        cc: &'static str,
    },
    /// The kernel has no such congestion control.
    #[error("--cc {cc}: this kernel has no such congestion control; write one of {available}")]
    NotInKernel {
        /// The name.
        cc: String,
        /// Names that the kernel has.
        available: String,
    },
    /// A system call or a file operation failed.
    #[error("{what}: {source}")]
    Io {
        /// The object, with the failed step if needed: `emulator: eventfd`.
        what: String,
        /// The error.
        source: io::Error,
    },
    /// A system call failed, shown with its error name.
    #[error("{what}: {source}")]
    Call {
        /// The object, with the failed step if needed.
        what: String,
        /// The error.
        source: nix::Error,
    },
    /// A thread panicked.
    #[error("{0} ended early")]
    ThreadEnded(&'static str),
    /// The emulator was never started.
    #[error("emulator: it was not started")]
    NotStarted,
    /// A network namespace cannot be made.
    #[error("network namespace: it may not be made ({0}); run as root, or see `bbrlab doctor`")]
    NoNamespace(#[source] nix::Error),
    /// A setting of the kernel cannot be written.
    #[error("{path}: {value:?} may not be written: {source}")]
    Sysctl {
        /// The setting.
        path: PathBuf,
        /// The value.
        value: String,
        /// The error.
        source: io::Error,
    },
    /// A name that no interface can have.
    #[error("interface {name:?}: {problem}")]
    InterfaceName {
        /// The name.
        name: String,
        /// The problem.
        problem: &'static str,
    },
    /// A route cannot be added.
    #[error("interface {interface}: route to {to} with {cc}: {source}")]
    Route {
        /// The interface.
        interface: String,
        /// Destination.
        to: IpAddr,
        /// Congestion control of the route.
        cc: String,
        /// The error.
        source: io::Error,
    },
    /// The kernel has no TUN devices.
    #[error("/dev/net/tun: {0}; `bbrlab doctor` names the remedy, or use --on sim")]
    NoTun(#[source] io::Error),
    /// The trial's connection has another congestion control.
    #[error("the connection had {0}")]
    TrialUsed(String),
    /// The trial lost data.
    #[error("{received} of {sent} bytes came")]
    TrialBytes {
        /// Bytes received.
        received: usize,
        /// Bytes sent.
        sent: usize,
    },
    /// A user namespace gives no rights.
    #[error("namespaces: a user namespace gives no rights here; run as root, or see `bbrlab doctor`")]
    NoRights,
    /// A user namespace cannot be made.
    #[error("namespaces: neither root nor a user namespace of our own ({0}); run as root, or see `bbrlab doctor`")]
    NoUserNamespace(#[source] io::Error),
    /// A process namespace cannot be made.
    #[error("emulate: no process namespace ({0}); run as root, or see `bbrlab doctor`")]
    NoProcessNamespace(#[source] nix::Error),
    /// ACK settings without a choice of the direction that carries ACKs.
    #[error(
        "emulate: --ack-loss and --ack-aggregation need a direction that carries ACKs; write --data down if the server \
         sends, --data up if the command does"
    )]
    NoAckDirection,
    /// A policer in both directions.
    #[error("emulate: policer: --on uml has it in one direction only; write --data down or --data up")]
    PolicerBothWays,
    /// A path that does not have two ends.
    #[error("emulate: a path has two ends")]
    NotTwoEnds,
    /// The command line is empty.
    #[error("emulate: no command; write one after --")]
    NoCommand,
    /// The command cannot be started.
    #[error("emulate: {}: {source}", .program.display())]
    Command {
        /// The program.
        program: std::ffi::OsString,
        /// The error.
        source: io::Error,
    },
    /// The server failed before the command began.
    #[error("emulate: --server {line:?}: it ended before the command began ({status})")]
    ServerEnded {
        /// Its command line.
        line: String,
        /// Its exit status.
        status: ExitStatus,
    },
    /// A kernel named by the environment does not exist.
    #[error("{variable}: {path}: no such file")]
    NoKernelFile {
        /// The environment variable.
        variable: &'static str,
        /// Its value.
        path: PathBuf,
    },
    /// The cache of kernels is unknown.
    #[error("no HOME in the environment; name a kernel with {variable}")]
    NoHome {
        /// The environment variable.
        variable: &'static str,
    },
    /// The cache has no kernel.
    #[error("no kernel in {0}; build one with: make uml")]
    NoKernel(PathBuf),
    /// Every kernel in the cache is too old for a setup.
    #[error("{what} needs a Linux of {}.{} or later; build one with: make uml-newer", since.0, since.1)]
    OldKernels {
        /// The missing feature, as in `dualpi2`.
        what: &'static str,
        /// The first series that has it.
        since: (u32, u32),
    },
    /// A module that is not part of Linux, and no kernel named that may have it.
    #[error("{cc} is not part of Linux; to run it on uml, set {variable} to a kernel that you built with tcp_{cc}")]
    NoModule {
        /// The kernel's name of the congestion control.
        cc: &'static str,
        /// The environment variable.
        variable: &'static str,
    },
    /// This host's kernel has no accurate ECN.
    #[error("accurate ECN needs Linux 7.0 or later; leave out ecn=accurate and ecn=l4s, or run it on sim or uml")]
    NoAccurateEcn,
    /// The kernel named by the environment has no `dualpi2`.
    #[error(
        "this kernel has no dualpi2, which needs CONFIG_NET_SCH_DUALPI2 of Linux 6.17 or later; build one with: make uml-newer"
    )]
    NoDualPi2,
    /// No directory has room for the guest's memory.
    #[error(
        "--on uml: no space for the kernel's memory, {needed_mb} MB: {}; free some, or name another directory with TMPDIR",
        .found.join(", ")
    )]
    NoMemoryRoom {
        /// Space that it needs.
        needed_mb: u64,
        /// Descriptions of the directories.
        found: Vec<String>,
    },
    /// The guest's memory was full.
    #[error("--on uml: no space is left for the kernel's memory; free some, or name another directory with TMPDIR")]
    MemoryFull,
    /// No room for the guest's results.
    #[error(
        "--on uml: {path}: {free_kb} kB left, a run needs {needed_kb} kB; free some, or name another directory with TMPDIR"
    )]
    NoExchangeRoom {
        /// The directory.
        path: PathBuf,
        /// Space left.
        free_kb: u64,
        /// Space that a run needs.
        needed_kb: u64,
    },
    /// A file of the exchange with the guest failed.
    #[error("--on uml: {what}: {source}")]
    Exchange {
        /// Its contents.
        what: &'static str,
        /// The error.
        source: io::Error,
    },
    /// A message to or from the guest is not valid JSON.
    #[error("--on uml: {what}: {source}")]
    ExchangeJson {
        /// The message.
        what: &'static str,
        /// The error.
        source: serde_json::Error,
    },
    /// The guest answered another job.
    #[error("--on uml: result: of another job")]
    OtherJob,
    /// The guest's kernel cannot be started.
    #[error("--on uml: {kernel}: {source}")]
    Launch {
        /// The kernel.
        kernel: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The guest ended without a result.
    #[error("--on uml: {kernel} ended without a result; its output: {output}")]
    NoResult {
        /// The kernel.
        kernel: PathBuf,
        /// End of its output.
        output: String,
    },
    /// The guest reported an error.
    #[error("--on uml: {0}")]
    Guest(String),
    /// The guest kernel does not take its random numbers from a seed.
    #[error(
        "this kernel's random numbers do not follow a seed, so its runs cannot be repeated; build one that does with: \
         make uml (or put tools/uml/random.patch into your own)"
    )]
    NoSeed,
    /// The guest cannot read its command.
    #[error("command: {0}")]
    CommandJson(#[source] serde_json::Error),
    /// The guest's `ip` or `tc` rejected a batch.
    #[error("{program}: {output} (in {namespace})")]
    Batch {
        /// The program.
        program: &'static str,
        /// Its output.
        output: String,
        /// The namespace; `-` for the first.
        namespace: String,
    },
    /// The guest's `tc` ended before a change.
    #[error("tc: ended with {status} before (in {namespace}): {line}")]
    TcEnded {
        /// Its exit status.
        status: ExitStatus,
        /// The namespace.
        namespace: String,
        /// The change.
        line: String,
    },
    /// The guest's `tc` takes no change.
    #[error("tc: {source} (in {namespace}): {line}")]
    TcWrite {
        /// The error.
        source: io::Error,
        /// The namespace.
        namespace: String,
        /// The change.
        line: String,
    },
    /// A change of the schedule failed in the guest.
    #[error("tc: a change of the schedule failed in {0}")]
    TcFailed(String),
    /// The guest's capture missed packets.
    #[error("tap: {0} packets passed between two samples, more than the buffer holds; write a finer --sample")]
    TapMissed(u32),
    /// The kernel does not list its sockets.
    #[error("sock_diag: {0}; it needs a kernel with CONFIG_INET_DIAG")]
    SockDiag(#[source] io::Error),
    /// The kernel refuses to list its sockets.
    #[error("sock_diag: the kernel reports: {0}")]
    SockDiagReports(#[source] io::Error),
    /// A message of the kernel is too short.
    #[error("sock_diag: a message of {0} bytes, which has no room for its header")]
    SockDiagShort(usize),
    /// The text is no network.
    #[error("{0:?} is neither an address nor a network; write 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32")]
    NotANetwork(String),
    /// The network's prefix is too long.
    #[error("{text:?}: a prefix has at most {max} bits here")]
    Prefix {
        /// The text.
        text: String,
        /// Largest number of bits.
        max: u32,
    },
    /// A recording of the kernel's algorithms and ours together.
    #[error(
        "flow {0}: it is the kernel's own and others are ours, and a log is of one or the other; add program=bbrlab"
    )]
    MixedRecording(String),
    /// This build has no tap.
    #[error(
        "this build has no BPF tap; install clang and libelf's headers (on Debian: apt-get install clang libelf-dev \
         zlib1g-dev make pkg-config) and build with `cargo build --release -p bbrlab --features bpf`"
    )]
    NoTap,
    /// This build cannot load programs.
    #[error("this build cannot load our kernel programs; build with --features host")]
    NoLoader,
    /// An algorithm that the tap does not support.
    #[error("flow {0}: the kernel's tap supports bbr1 and cubic only")]
    NotTapped(String),
    /// The tap recorded nothing.
    #[error("the tap recorded no call; does the path let packets through?")]
    NothingRecorded,
    /// The recording is too short to measure the kernel's tick.
    #[error("the flows ended before the kernel's tick could be measured; record a quarter of a second or more")]
    TooShort,
    /// The tap or a program lacks a part.
    #[error("{0}")]
    NoPart(&'static str),
    /// A BPF object cannot be used.
    #[cfg(any(tap, feature = "host"))]
    #[error("{what}: {source}")]
    Bpf {
        /// The object.
        what: String,
        /// Error of libbpf.
        source: libbpf_rs::Error,
    },
    /// The recorded algorithm's module is not loaded.
    #[cfg(tap)]
    #[error("{algorithm}: the kernel does not have it; it has {available}; as root: modprobe tcp_{algorithm}")]
    NotLoaded {
        /// The algorithm.
        algorithm: &'static str,
        /// Names that the kernel has.
        available: String,
    },
    /// The kernel refuses the tap.
    #[cfg(tap)]
    #[error("the kernel refuses the tap: {reason}{advice}")]
    TapRefused {
        /// The program, which has its function's name, and libbpf's reason.
        reason: String,
        /// Error of libbpf.
        source: libbpf_rs::Error,
        /// The remedy.
        advice: &'static str,
    },
}

impl Error {
    /// Adapter for `map_err` on operations of `what`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what: what.into(), source }
    }

    /// Adapter for `map_err` on system calls of `what`.
    pub(crate) fn call(what: impl Into<String>) -> impl FnOnce(nix::Error) -> Self {
        move |source| Self::Call { what: what.into(), source }
    }
}

/// Result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
