//! The loaded tap: programs at the functions of the kernel's own BBR and CUBIC, and the ring of their records.
//! Nothing is pinned: everything ends with the process.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod called;
mod traced;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bbrlab_replay::{COLUMNS, FIELDS, PRIVATE_WORDS};
use libbpf_rs::{Link, MapCore as _, MapFlags, Object, ObjectBuilder, OpenObject, PrintLevel, RingBufferBuilder};
use nix::unistd::geteuid;

use crate::{Error, Result};

/// 64-bit words of a record before its fields: the socket.
const HEAD: usize = 1;
/// 64-bit words of a record.
const WORDS: usize = HEAD + FIELDS.len() + PRIVATE_WORDS / 2;
/// Characters kept of a warning's end. Ours: the verifier's last lines, of a log of up to megabytes.
const WARNING_MAX: usize = 2_000;

/// Error for an object without its ring.
const NO_RING: &str = "the tap has no ring";

/// Warnings of libbpf during the latest loading, which name the program and the reason.
static WARNINGS: Mutex<String> = Mutex::new(String::new());

/// An algorithm of the kernel that the tap supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tapped {
    Bbr,
    Cubic,
}

impl Tapped {
    /// Name for `TCP_CONGESTION`, and that of the module after `tcp_`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bbr => "bbr",
            Self::Cubic => "cubic",
        }
    }
}

/// Selection of the recorded calls, and the memory for them.
#[derive(Clone, Copy, Debug)]
pub struct TapConfig<'a> {
    /// The algorithms.
    pub algorithms: &'a [Tapped],
    /// Inode number of the senders' network namespace.
    pub network: u32,
    /// Largest number of connections in it.
    pub connections: u32,
    /// Size of the ring, bytes.
    pub ring_bytes: u32,
}

/// One record as the kernel wrote it.
pub struct Raw {
    /// Address of the socket, unique while it lives.
    pub socket: u64,
    /// The log's columns.
    pub columns: [u64; COLUMNS],
}

/// Programs in the kernel.
struct Loaded {
    // Before the object, so that the programs are detached before they go.
    _links: Vec<Link>,
    object: Object,
}

/// The loaded tap.
pub struct Tap {
    loaded: Loaded,
    is_traced: bool,
}

impl Tap {
    /// Loads the tap for these algorithms.
    ///
    /// If the kernel refuses programs at its functions, congestion controls of our own call these functions.
    pub fn load(config: TapConfig<'_>) -> Result<Self> {
        libbpf_rs::set_print(Some((PrintLevel::Warn, keep_warning)));
        let traced = traced::load(config);
        let tap = match traced {
            Ok(loaded) => Ok(Self { loaded, is_traced: true }),
            Err(error) => called::load(config).map(|loaded| Self { loaded, is_traced: false }).map_err(|_| error),
        };
        libbpf_rs::set_print(None);
        tap
    }

    /// Name of the tapped algorithm for `TCP_CONGESTION`.
    pub fn name(&self, algorithm: Tapped) -> String {
        if self.is_traced { algorithm.name().to_owned() } else { called::name(algorithm) }
    }

    /// Passes each record to `take` while `goes_on` returns true; then drains the rest. Polls for at most `turn` at a
    /// time.
    pub fn collect(&self, turn: Duration, take: &mut dyn FnMut(Raw), goes_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let records = self.loaded.object.maps().find(|map| map.name() == "records").ok_or(Error::NoPart(NO_RING))?;
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&records, |bytes| {
                if let Some(raw) = parse(bytes) {
                    take(raw);
                }
                0
            })
            .map_err(fault("the tap's ring"))?;
        let ring = builder.build().map_err(fault("the tap's ring"))?;
        while goes_on() {
            // Interrupted by a signal: the next iteration polls again.
            let _ = ring.poll(turn);
        }
        ring.consume().map_err(fault("the tap's ring"))
    }

    /// Number of calls that were not recorded: the ring was full, or an interruption hid them.
    pub fn lost(&self) -> Result<u64> {
        let count = self
            .loaded
            .object
            .maps()
            .find(|map| map.name() == ".data.lost")
            .ok_or(Error::NoPart("the tap has no counter"))?;
        let value =
            count.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(fault("the tap's counter"))?.unwrap_or_default();
        Ok(word(&value, 0).unwrap_or(0))
    }
}

/// Reads an object.
fn open(bytes: &[u8]) -> Result<OpenObject> {
    WARNINGS.lock().unwrap_or_else(PoisonError::into_inner).clear();
    ObjectBuilder::default().open_memory(bytes).map_err(fault("the tap's BPF object can't be read"))
}

/// Sets the ring's size before loading.
fn set_ring(unloaded: &mut OpenObject, bytes: u32) -> Result<()> {
    let mut maps = unloaded.maps_mut();
    let mut records = maps.find(|map| map.name() == "records").ok_or(Error::NoPart(NO_RING))?;
    records.set_max_entries(bytes).map_err(fault(format!("the tap's ring of {bytes} bytes")))
}

fn fault(what: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> Error {
    move |source| Error::Bpf { what: what.into(), source }
}

fn refused(source: libbpf_rs::Error) -> Error {
    let reason = reason(&WARNINGS.lock().unwrap_or_else(PoisonError::into_inner));
    let is_denied = source.kind() == libbpf_rs::ErrorKind::PermissionDenied;
    // The verifier's refusals are of this kind too.
    let advice = match is_denied && !geteuid().is_root() {
        true => "; run as root, or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN",
        false => "; see `bbrlab doctor`",
    };
    Error::TapRefused { reason: reason.unwrap_or_else(|| source.to_string()), source, advice }
}

/// Keeps a warning of libbpf. The verifier's log is one, of up to megabytes: its end has the reason.
fn keep_warning(_: PrintLevel, warning: String) {
    let mut warnings = WARNINGS.lock().unwrap_or_else(PoisonError::into_inner);
    let warning = warning.trim();
    let from = warning.char_indices().rev().nth(WARNING_MAX).map_or(0, |(at, _)| at);
    warnings.push_str(&warning[from..]);
    warnings.push('\n');
}

/// The first warning in one line, which names the program; after it the last message of the verifier's log, if there is one.
fn reason(warnings: &str) -> Option<String> {
    let lines: Vec<&str> = warnings.lines().map(|line| line.trim().trim_start_matches("libbpf: ")).collect();
    let first = *lines.first().filter(|line| !line.is_empty())?;
    // The log's beginning may be cut off. Its last message precedes the verifier's count of instructions.
    let count = lines.iter().position(|line| line.starts_with("processed ")).unwrap_or(0);
    let message = count.checked_sub(1).map(|at| lines[at]).filter(|line| !line.ends_with("-- BEGIN PROG LOAD LOG --"));
    Some(message.map_or_else(|| first.to_owned(), |message| format!("{first}: {message}")))
}

fn parse(bytes: &[u8]) -> Option<Raw> {
    if bytes.len() < WORDS * 8 {
        return None;
    }
    let mut columns = [0; COLUMNS];
    for (place, column) in columns.iter_mut().enumerate().take(FIELDS.len()) {
        *column = word(bytes, HEAD + place)?;
    }
    for half in 0..PRIVATE_WORDS / 2 {
        let both = word(bytes, HEAD + FIELDS.len() + half)?;
        columns[FIELDS.len() + 2 * half] = both & 0xffff_ffff;
        columns[FIELDS.len() + 2 * half + 1] = both >> 32;
    }
    Some(Raw { socket: word(bytes, 0)?, columns })
}

fn word(bytes: &[u8], nth: usize) -> Option<u64> {
    let word = bytes.get(nth * 8..nth * 8 + 8)?;
    Some(u64::from_ne_bytes(word.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_function_is_named_with_libbpfs_reason() {
        let warnings = "libbpf: prog 'tap_in1_bbr_main': failed to find kernel BTF type ID of 'bbr_main': -ESRCH\n\
                        libbpf: failed to load object 'tap'\n";
        let expected = "prog 'tap_in1_bbr_main': failed to find kernel BTF type ID of 'bbr_main': -ESRCH";
        assert_eq!(reason(warnings).as_deref(), Some(expected));
        assert_eq!(reason(""), None);
    }

    #[test]
    fn a_refused_program_is_named_with_the_verifiers_last_message() {
        let failed = "prog 'tap_in1_bbr_init': BPF program load failed: -EINVAL";
        let end = "processed 9 insns (limit 1000000)\n-- END PROG LOAD LOG --\n";
        let message = "program of this type cannot use helper bpf_probe_read_kernel#113";
        let begin = "libbpf: prog 'tap_in1_bbr_init': -- BEGIN PROG LOAD LOG --";
        for log in [format!("{begin}\n0: R1=ctx() R10=fp0\n{message}\n{end}"), format!("x() R10=fp0\n{message}\n{end}")]
        {
            let warnings = format!("libbpf: {failed}\n{log}");
            assert_eq!(reason(&warnings), Some(format!("{failed}: {message}")));
        }
        // A log without a message.
        assert_eq!(reason(&format!("libbpf: {failed}\n{begin}\n{end}")).as_deref(), Some(failed));
    }
}
