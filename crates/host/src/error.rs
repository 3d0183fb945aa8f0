//! Errors about a host: each is one line that includes the remedy.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io;
use std::path::{Path, PathBuf};

/// Any error of a trial transfer.
pub type TrialError = Box<dyn std::error::Error + Send + Sync>;

/// Reason for which a change to the host failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The tests of several hosts are no one experiment.
    #[cfg(feature = "ab")]
    #[error(transparent)]
    Study(#[from] bbrlab_study::Error),
    /// The capabilities that are not needed cannot be given up.
    #[error("can't drop capabilities: {0}")]
    Rights(Box<dyn std::error::Error + Send + Sync>),
    /// No kernel program of that algorithm.
    #[error("{0}: it has no kernel program; write one of {names}", names = programs())]
    NoProgram(String),
    /// A word that is no parameter.
    #[error("{algorithm},{part}: write a parameter and its value, as in {algorithm},NAME=VALUE")]
    NotAParameter {
        /// The algorithm.
        algorithm: String,
        /// The word.
        part: String,
    },
    /// A parameter that the algorithm lacks, or a value that it refuses.
    #[error("{algorithm},{key}: {value} is {source}")]
    Parameter {
        /// The algorithm.
        algorithm: String,
        /// Name of the parameter.
        key: String,
        /// The value.
        value: String,
        /// The error.
        source: bbrlab_core::params::ParamError,
    },
    /// An arm of a test that neither the kernel nor bbrlab has.
    #[error("--arms: {source}; the kernel has {}", .available.join(", "))]
    Arm {
        /// The error.
        source: Box<Self>,
        /// Names that the kernel has.
        available: Vec<String>,
    },
    /// An arm that another test has loaded.
    #[error(
        "{0}: another test has loaded it and unloads it when it ends; name the algorithm, or load it with `bbrlab host load`"
    )]
    ArmOfATest(String),
    /// A running test uses the algorithm.
    #[error("{name}: a test uses it, in {out}; end that first, with `bbrlab ab stop`")]
    InTest {
        /// The name in the kernel.
        name: String,
        /// The test's directory.
        out: PathBuf,
    },
    /// The test transfer of an arm failed.
    #[error("{arm}: a transfer over it failed: {source}")]
    ArmTrial {
        /// The arm.
        arm: String,
        /// The error.
        source: TrialError,
    },
    /// Another program acts on the connections of a cgroup.
    #[error(
        "{cgroup}: another program already acts on its connections (BPF program {}); end that, or give --multi if both may, \
         see `bpftool prog show id {}`",
        joined(.programs), .programs[0]
    )]
    AnotherProgram {
        /// The cgroup.
        cgroup: PathBuf,
        /// Ids of the programs.
        programs: Vec<u32>,
    },
    /// The directory of a test cannot be used.
    #[error("--out: {path}: {source}")]
    Out {
        /// The directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The directory of a new test is not empty.
    #[error("--out: {0}: it is not empty; name a new directory")]
    OutNotEmpty(PathBuf),
    /// A test is running in the directory.
    #[error("--out: {0}: a test is running there")]
    OutInUse(PathBuf),
    /// The list of tests cannot be written.
    #[error("the list of tests: {0}")]
    ListOfTests(#[source] io::Error),
    /// The last records of a test could not become a table.
    #[error("{path}: {source}; the records stay in {spool}")]
    Saving {
        /// Directory of the test.
        path: PathBuf,
        /// The error.
        source: io::Error,
        /// File of the records.
        spool: &'static str,
    },
    /// The directory has no test.
    #[error("{0}: no test is recorded there; name the --out of `bbrlab ab start`")]
    NoRecords(PathBuf),
    /// A test of another version.
    #[cfg(feature = "ab")]
    #[error("{path}: its schema is {found}, and this bbrlab reads 1 to {}", bbrlab_study::ab::SCHEMA)]
    Schema {
        /// Description of the test.
        path: PathBuf,
        /// Its schema.
        found: u32,
    },
    /// Records that cannot be read.
    #[cfg(feature = "ab")]
    #[error("{path}: {source}")]
    Records {
        /// Their file.
        path: PathBuf,
        /// The error.
        source: Box<bbrlab_study::Error>,
    },
    /// A running test that does not answer.
    #[error("{0}: the test does not answer; see `bbrlab ab status`")]
    NoAnswer(PathBuf),
    /// No test is running in the directory.
    #[error("{0}: no test is running there; see `bbrlab ab status`")]
    NoTestThere(PathBuf),
    /// No test is running.
    #[error("no test is running; start one with `bbrlab ab start`")]
    NoTest,
    /// Several tests are running, and none was named.
    #[error("several tests are running; name one with --out; see `bbrlab ab status`")]
    SeveralTests,
    /// A name that the kernel would reject.
    #[error("--name {0:?}: write 1 to 15 letters, digits, '_' or '.', beginning with a letter")]
    BadName(String),
    /// A congestion control of that name is registered already.
    #[error("{0}: the kernel has a congestion control of that name; choose another with --name")]
    NameTaken(String),
    /// Nothing of ours is loaded under that name.
    #[error("{0}: not loaded by bbrlab; see `bbrlab host status`")]
    NotLoaded(String),
    /// A policy that cannot be put in force as it is written.
    #[error("{place}: {what}")]
    Policy {
        /// The file, or its line.
        place: String,
        /// The fault.
        what: String,
    },
    /// A policy whose description has no room in the kernel.
    #[error("the policy takes {kilobytes} kB as text; at most {most} kB fit")]
    PolicyTooLong {
        /// Its size.
        kilobytes: usize,
        /// The room.
        most: usize,
    },
    /// No policy is in force.
    #[error("no policy is in force; see `bbrlab host policy apply --help`")]
    NoPolicy,
    /// The policy in force has no rule of that name.
    #[error("{name}: the policy in force has no such rule; it has {rules}")]
    NoRule {
        /// The name.
        name: String,
        /// Names of its rules.
        rules: String,
    },
    /// A rule whose clients all have the same congestion control.
    #[error("rule {name}: {why}")]
    NothingToCompare {
        /// The rule.
        name: String,
        /// The reason, and the remedy.
        why: String,
    },
    /// A policy whose program keeps no decisions.
    #[error("the policy in force was applied by bbrlab {0}, which cannot be observed; apply it again")]
    PolicyOfBefore(String),
    /// A policy is in force on another cgroup.
    #[error("a policy is in force on {0}; `bbrlab host policy remove` first")]
    PolicyElsewhere(String),
    /// A directory of ours that somebody else can write in.
    #[error("{0}: must be a directory that only this user can write in")]
    NotOurs(PathBuf),
    /// A program that somebody but root can change.
    #[error(
        "{program}: users other than root can change {place}, and the unit runs the program as root at boot; install it first: \
         `sudo install -o root -m 755 {program} /usr/local/bin/bbrlab`"
    )]
    ProgramNotRoots {
        /// The program.
        program: PathBuf,
        /// The program or a folder on its path.
        place: PathBuf,
    },
    /// A parameter that only the kernel can set.
    #[error("{0}: it is this kernel's own; leave it out")]
    KernelsOwn(&'static str),
    /// The kernel has no congestion control of that name.
    #[error("{algorithm}: the kernel does not have it; it has {available}; as root: modprobe tcp_{algorithm}")]
    NotInKernel {
        /// The name.
        algorithm: String,
        /// Names that the kernel has.
        available: String,
    },
    /// The kernel has no type information.
    #[error("this kernel exposes no types (/sys/kernel/btf/vmlinux); use one with CONFIG_DEBUG_INFO_BTF")]
    NoTypes,
    /// An algorithm needs accurate ECN.
    #[error("{0} needs accurate ECN from the kernel; use Linux 7.0 or later")]
    NoAccurateEcn(&'static str),
    /// Rights to load programs are missing.
    #[error("this needs root, or CAP_BPF, CAP_NET_ADMIN and CAP_SYS_ADMIN; run it with sudo")]
    NoRights,
    /// Capabilities for a test are missing.
    #[error("this process lacks {}; run it with sudo, or give it these", .0.join(", "))]
    NoCapabilities(Vec<&'static str>),
    /// No cgroup file system of version 2.
    #[error("no cgroups of version 2 are mounted; mount -t cgroup2 none /sys/fs/cgroup")]
    NoCgroups,
    /// The path is not a cgroup of version 2.
    #[error("{path}: it is not a cgroup of version 2; name one below {root}")]
    NotACgroup {
        /// The path.
        path: PathBuf,
        /// Mount point of the cgroups.
        root: PathBuf,
    },
    /// Another command is running.
    #[error("another bbrlab command changes this host ({0}); wait for it")]
    Busy(PathBuf),
    /// A configuration is enabled already.
    #[error("something is enabled already; `bbrlab host disable` first")]
    AlreadyEnabled,
    /// An error on a file.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// An entry of the journal cannot be encoded.
    #[error("journal: {0}")]
    Encode(#[source] serde_json::Error),
    /// The journal cannot be decoded.
    #[error("{path}: {source}")]
    Decode {
        /// The journal.
        path: PathBuf,
        /// The error.
        source: serde_json::Error,
    },
    /// An error of the kernel's verifier or loader.
    #[cfg(feature = "load")]
    #[error("the kernel refuses {what}: {source}{}", after(.reason.as_deref(), *.advice))]
    Refused {
        /// The algorithm or the program.
        what: &'static str,
        /// Error of libbpf.
        source: libbpf_rs::Error,
        /// The last message of libbpf or the verifier, if any.
        reason: Option<String>,
        /// Remedy if there is no message.
        advice: Advice,
    },
    /// The program's object lacks a map or a program.
    #[error("the program's object has no {0}; it was built from other sources")]
    NoPart(String),
    /// The object of the iterator over sockets has no program.
    #[error("the iterator is empty")]
    EmptyIterator,
    /// A list of the kernel cannot be read.
    #[cfg(feature = "load")]
    #[error("{what}: {source}")]
    List {
        /// Name of the list.
        what: &'static str,
        /// The error.
        source: libbpf_rs::Error,
    },
    /// The test transfer of a loaded algorithm failed.
    #[error("a transfer over it failed, so it was unloaded: {0}")]
    Trial(#[source] TrialError),
    /// The test transfer did not use the loaded algorithm.
    #[error("a transfer over it failed, so it was unloaded: no connection began with it")]
    TrialUnused,
}

/// Result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Remedy for a program that the kernel refuses.
#[cfg(feature = "load")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// None.
    None,
    /// More rights.
    Root,
    /// The list of what this kernel supports.
    Doctor,
    /// A place without another program, or more rights.
    OtherProgram,
}

#[cfg(feature = "load")]
impl std::fmt::Display for Advice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "",
            Self::Root => "; run as root",
            Self::Doctor => "; see `bbrlab doctor`",
            Self::OtherProgram => "; another program is there alone, or a right is missing; see `bbrlab doctor`",
        })
    }
}

impl Error {
    /// Adapter for `map_err` on file operations.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}

#[cfg(feature = "load")]
fn after(reason: Option<&str>, advice: Advice) -> String {
    reason.map_or_else(|| advice.to_string(), |reason| format!(": {reason}"))
}

fn joined(programs: &[u32]) -> String {
    programs.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

fn programs() -> String {
    let names: Vec<&str> = crate::objects::OBJECTS.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// Describes a failure to write, with the remedy.
pub fn can_not(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "its directory cannot be created; name another place".to_owned(),
        io::ErrorKind::AlreadyExists => "it is a file; name a directory".to_owned(),
        io::ErrorKind::NotADirectory => "its directory is a file; name another place".to_owned(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "it cannot be written here; name another place".to_owned()
        }
        io::ErrorKind::StorageFull => "no space is left; free some or name another place".to_owned(),
        io::ErrorKind::InvalidFilename => "its name is too long; choose a shorter one".to_owned(),
        _ => error.to_string(),
    }
}
