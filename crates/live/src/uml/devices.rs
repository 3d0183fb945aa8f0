//! Random numbers, namespaces, devices and disciplines inside User Mode Linux, made by the kernel's own tools.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path as FilePath;
use std::process::{Child, Command, Stdio};

use super::dualpi2;
use super::plan::{COMPRESSION_SHARE, Plan};
use crate::{Error, Result};
use crate::{ethtool, socket};

/// The kernel's `RNDRESEEDCRNG`: rekeys its random number generator.
const RESEED: libc::Ioctl = nix::request_code_none!(b'R', 0x07) as libc::Ioctl;
/// Mount point of the exchange directory in the guest.
pub(super) const EXCHANGE: &str = "/mnt";
/// PATH for a process without an environment.
const PROGRAMS: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Reseeds the random numbers, so that they do not depend on earlier consumers. Such are another version of `ip` or
/// `tc`, or a longer set-up.
pub(super) fn reseed() -> Result<()> {
    let ask = || {
        let device = File::open("/dev/random")?;
        // SAFETY: this request has no argument.
        let done = unsafe { libc::ioctl(device.as_raw_fd(), RESEED) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    ask().map_err(Error::io("/dev/random"))
}

/// Creates namespaces, devices and disciplines.
pub(super) fn make(plan: &Plan) -> Result<()> {
    batch("ip", None, &plan.wiring)?;
    for (namespace, values) in &plan.sysctls {
        let fd = namespace_of(namespace)?;
        let is_there = |path: &String| !path.ends_with(COMPRESSION_SHARE) || FilePath::new(path).exists();
        let set = || {
            let paths = values.iter().map(|(file, value)| (format!("/proc/sys/net/{file}"), value));
            paths.filter(|(path, _)| is_there(path)).try_for_each(|(path, value)| fs::write(path, value))
        };
        socket::within(fd.as_fd(), set).map_err(Error::io(format!("sysctl of {namespace}")))?;
    }
    for (namespace, device) in &plan.segmented {
        let fd = namespace_of(namespace)?;
        socket::within(fd.as_fd(), || ethtool::segment_in_software(device)).map_err(Error::io(device))?;
    }
    plan.addresses.iter().try_for_each(|(namespace, lines)| batch("ip", Some(namespace), lines))?;
    plan.disciplines.iter().try_for_each(|(namespace, lines)| batch("tc", Some(namespace), lines))?;
    plan.dualpi2.iter().try_for_each(dualpi2::add)
}

pub(super) fn namespace_of(name: &str) -> Result<OwnedFd> {
    File::open(format!("/run/netns/{name}")).map(Into::into).map_err(Error::io(format!("namespace {name}")))
}

/// Runs `ip` or `tc` with a batch of commands.
pub(super) fn batch(program: &'static str, namespace: Option<&str>, lines: &str) -> Result<()> {
    let mut command = Command::new(program);
    if let Some(namespace) = namespace {
        command.args(["-n", namespace]);
    }
    command.args(["-batch", "-"]).env("PATH", PROGRAMS).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).spawn().map_err(Error::io(program))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(lines.as_bytes()).map_err(Error::io(program))?;
    }
    let output = child.wait_with_output().map_err(Error::io(program))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::Batch {
        program,
        output: said.split_whitespace().collect::<Vec<_>>().join(" "),
        namespace: namespace.unwrap_or("-").to_owned(),
    })
}

/// A `tc` process that waits in a namespace for the commands of a schedule.
///
/// It is started before the run, because a process started while packets flow makes no progress in virtual time.
pub(super) struct TcProcess {
    pub(super) namespace: String,
    child: Child,
}

impl TcProcess {
    pub(super) fn start(namespace: &str) -> Result<Self> {
        let mut command = Command::new("tc");
        command.args(["-n", namespace, "-batch", "-"]).env("PATH", PROGRAMS);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(Error::io("tc"))?;
        Ok(Self { namespace: namespace.to_owned(), child })
    }

    pub(super) fn ask(&mut self, line: &str) -> Result<()> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(Error::TcEnded { status, namespace: self.namespace.clone(), line: line.to_owned() });
        }
        let Some(stdin) = &mut self.child.stdin else { return Ok(()) };
        stdin.write_all(line.as_bytes()).and_then(|()| stdin.write_all(b"\n")).map_err(|source| Error::TcWrite {
            source,
            namespace: self.namespace.clone(),
            line: line.to_owned(),
        })
    }

    /// Fails unless every command succeeded.
    pub(super) fn finish(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let status = self.child.wait().map_err(Error::io("tc"))?;
        if status.success() {
            return Ok(());
        }
        Err(Error::TcFailed(self.namespace))
    }
}
