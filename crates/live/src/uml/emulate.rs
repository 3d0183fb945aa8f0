//! Runs any command of the host's file system inside User Mode Linux, behind the kernel's own path.
//! It writes to the host's files only if that is allowed.
//!
//! With `data` up or both ways the command is on the sender's side of the path; with `data` down, or with a link of `up` for
//! the command's own data, on the receiver's. Its
//! output streams are files in the exchange directory, which the host reads while they grow; its input is empty.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;
use std::time::Duration;

use bbrlab_sim::setup::{Change, Setup};
use nix::mount::{MsFlags, mount};
use serde::{Deserialize, Serialize};

use super::devices::{self, EXCHANGE, TcProcess};
use super::guest;
use super::plan::{LinkDevices, Plan, plan};
use super::qdisc::Counters;
use crate::clock;
use crate::kernel::command::{self, Environment, serve_and_run};
use crate::kernel::emulate::{Direction, check};
use crate::link_report::{LinkReport, Way};
use crate::socket::within;
use crate::{Error, Result};

/// Name of the job file in the exchange directory.
pub const COMMAND_FILE: &str = "command.json";
/// Name of the file with the command's standard output.
pub const STDOUT: &str = "stdout";
/// Name of the file with the command's standard error.
pub const STDERR: &str = "stderr";

/// The command to run; strings are bytes, because file names need not be UTF-8.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommandSpec {
    /// The path, as a scenario's JSON; its flows are ignored.
    pub scenario: String,
    /// Direction that has the bottleneck.
    pub direction: Direction,
    /// Congestion control of both hosts, by the kernel's name.
    pub cc: Option<String>,
    /// The command and its arguments.
    pub command: Vec<Vec<u8>>,
    /// A shell command line, run at the other end.
    pub server: Option<String>,
    /// Working directory of both.
    pub directory: Vec<u8>,
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// True if they may write to the host's files.
    pub writable: bool,
    /// True if time passes as on the host, for programs that depend on the machine's speed.
    pub real_time: bool,
}

/// Result of the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EmulateOutput {
    /// The command's exit status.
    pub status: i32,
    /// Run time in seconds of the guest's clock; `None` if the command could not run.
    pub guest_s: Option<f64>,
    /// Release of the guest's kernel.
    pub release: String,
    /// The bottleneck of each direction that has one: down, then up.
    pub links: Vec<LinkReport>,
}

/// A bottleneck whose counters are read at the end: its direction, its device, and those through which packets come to a policer.
struct Watched {
    way: Way,
    counters: Counters,
    device: String,
    sources: Option<Vec<String>>,
}

/// Opens the counters of each direction's bottleneck.
fn watch(plan: &Plan, setup: &Setup, direction: Direction) -> Result<Vec<Watched>> {
    let index = setup.bottleneck;
    let open = |way, devices: LinkDevices, sources| -> Result<Watched> {
        let counters = Counters::open(devices::namespace_of(&devices.before)?).map_err(Error::io("netlink"))?;
        Ok(Watched { way, counters, device: devices.entry, sources })
    };
    let has_up = direction == Direction::Both && setup.up.is_some();
    let (ahead, back) =
        if direction == Direction::Down || has_up { (Way::Down, Way::Up) } else { (Way::Up, Way::Down) };
    let forward = plan.bottlenecks().swap_remove(index);
    let sources = setup.links[index].policer.map(|_| plan.sources(index));
    let mut watched = vec![open(ahead, forward, sources)?];
    let up = setup.up.as_ref().and_then(|_| plan.bottlenecks().pop());
    if let Some(devices) = up.or_else(|| plan.reverse(index)) {
        watched.push(open(back, devices, None)?);
    }
    watched.sort_by_key(|one| one.way);
    Ok(watched)
}

/// Rejects setups that the kernel's own path cannot express.
pub fn refuse(setup: &Setup, direction: Direction) -> Result<()> {
    check(setup, direction)?;
    if direction == Direction::Both && setup.up.is_none() && setup.links.iter().any(|link| link.policer.is_some()) {
        return Err(Error::PolicerBothWays);
    }
    plan(setup).map(drop)
}

/// Reads the host's command, if this kernel was started for one.
pub(super) fn command_spec() -> Result<Option<CommandSpec>> {
    match fs::read(Path::new(EXCHANGE).join(COMMAND_FILE)) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(Error::CommandJson),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("command")(error)),
    }
}

/// Runs the command; both ends are namespaces of this kernel.
pub(super) fn run(spec: &CommandSpec, setup: &Setup) -> Result<EmulateOutput> {
    let mut plan = plan(setup)?;
    if spec.direction == Direction::Both {
        plan.mirror();
    }
    let [end] = plan.ends.as_slice() else { return Err(Error::NotTwoEnds) };
    let (mut client, mut server) = ((end.sender.clone(), end.from), (end.receiver.clone(), end.to));
    // With a link of `up`, the command's data crosses it, and the server's the others.
    let has_up = spec.direction == Direction::Both && setup.up.is_some();
    if spec.direction == Direction::Down || has_up {
        std::mem::swap(&mut client, &mut server);
    }
    devices::make(&plan)?;
    for end in [&client, &server] {
        settle(&end.0, spec.cc.as_deref())?;
    }
    let (left, right) = (devices::namespace_of(&client.0)?, devices::namespace_of(&server.0)?);
    furnish(spec)?;
    let text = |bytes: &Vec<u8>| OsStr::from_bytes(bytes).to_owned();
    let mut variables: Vec<(OsString, OsString)> =
        spec.environment.iter().map(|(name, value)| (text(name), text(value))).collect();
    for (name, at) in [("BBRLAB_SERVER_IP", server.1), ("BBRLAB_CLIENT_IP", client.1)] {
        variables.push((name.into(), at.to_string().into()));
    }
    let watched = watch(&plan, setup, spec.direction)?;
    devices::reseed()?;
    follow(setup.schedule.clone(), plan)?;
    let command_spec =
        command::CommandSpec { command: spec.command.iter().map(text).collect(), server: spec.server.clone() };
    let around = Environment { bare: true, variables };
    let (status, ran_ns) = match serve_and_run(&command_spec, left.as_fd(), right.as_fd(), &around) {
        Ok((status, ran_ns)) => (status, Some(ran_ns)),
        Err((status, error)) => {
            eprintln!("bbrlab: {error}");
            (status, None)
        }
    };
    let report = |one: Watched| -> Result<LinkReport> {
        let counters = guest::link_seen(&one.counters, &one.device, one.sources.as_deref());
        Ok(LinkReport::of(one.way, &counters.map_err(Error::io("counters of the link"))?, None))
    };
    let links = watched.into_iter().map(report).collect::<Result<_>>()?;
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    Ok(EmulateOutput { status, guest_s: ran_ns.map(|ns| ns as f64 / 1e9), release, links })
}

/// Sets up a host: its loopback, and the requested congestion control.
fn settle(namespace: &str, cc: Option<&str>) -> Result<()> {
    let fd = devices::namespace_of(namespace)?;
    devices::batch("ip", Some(namespace), "link set dev lo up\n")?;
    let Some(cc) = cc else { return Ok(()) };
    let of = |name: &str| format!("/proc/sys/net/ipv4/tcp_{name}");
    within(fd.as_fd(), || fs::write(of("congestion_control"), cc)).map_err(|_| {
        let known = fs::read_to_string(of("available_congestion_control")).unwrap_or_default();
        Error::NotInKernel { cc: cc.to_owned(), available: known.trim().to_owned() }
    })
}

/// Mounts the file systems that programs rely on, and sets up the command's streams and directory.
fn furnish(spec: &CommandSpec) -> Result<()> {
    // Opened before another mount hides it.
    let directory = Path::new(OsStr::from_bytes(&spec.directory));
    std::env::set_current_dir(directory).map_err(Error::io(directory.display().to_string()))?;
    let over = |kind: &str, at: &str| {
        fs::create_dir_all(at)
            .and_then(|()| Ok(mount(Some(kind), at, Some(kind), MsFlags::empty(), None::<&str>)?))
            .map_err(Error::io(format!("{at}: {kind}")))
    };
    if !spec.writable {
        over("tmpfs", "/tmp")?;
    }
    over("tmpfs", "/dev/shm")?;
    over("devpts", "/dev/pts")?;
    for (name, to) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        // Some kernels create these themselves.
        let _ = symlink(format!("/proc/self/fd{to}"), format!("/dev/{name}"));
    }
    let stream = |name: &str| OpenOptions::new().append(true).open(Path::new(EXCHANGE).join(name));
    let redirect = || -> io::Result<()> {
        nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
        nix::unistd::dup2_stdout(stream(STDOUT)?)?;
        nix::unistd::dup2_stderr(stream(STDERR)?)?;
        Ok(())
    };
    redirect().map_err(Error::io("streams"))
}

/// Applies a schedule from now on, on a thread of its own.
fn follow(schedule: Vec<Change>, mut plan: Plan) -> Result<()> {
    let mut asked = Vec::new();
    for change in schedule {
        asked.push((change.at.as_nanos(), plan.change(&change)));
    }
    let mut changers: Vec<TcProcess> = Vec::new();
    for (namespace, _) in asked.iter().flat_map(|(_, lines)| lines) {
        if !changers.iter().any(|changer| changer.namespace == *namespace) {
            changers.push(TcProcess::start(namespace)?);
        }
    }
    let zero = clock::now_ns();
    thread::spawn(move || {
        for (at, lines) in asked {
            thread::sleep(Duration::from_nanos(at.saturating_sub(clock::now_ns() - zero)));
            for (namespace, line) in lines {
                let changer = changers.iter_mut().find(|changer| changer.namespace == namespace);
                if let Some(Err(what)) = changer.map(|changer| changer.ask(&line)) {
                    eprintln!("bbrlab: emulate: {what}");
                }
            }
        }
    });
    Ok(())
}
