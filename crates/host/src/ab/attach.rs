//! Kernel program of an A/B test, attached to a cgroup. Only this process holds it, so the kernel removes it with the
//! process.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, ProgramInput, RingBufferBuilder};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};

use crate::interface::Interface;
use crate::objects::AB;
use crate::policy::DECISIONS;
use crate::{Advice, Error, Result, host_paths, program};

/// Limits, as in `bpf/cc/ab.bpf.c`.
pub const ARMS_MAX: usize = 8;
pub const PORTS_MAX: usize = 8;
pub const PREFIXES_MAX: usize = 16;
pub const BUCKETS: usize = 10_000;
const NAME: usize = 16;
/// [`AbConfig::by`] of a test of a rule.
pub(super) const BY_RULE: u32 = 3;

/// Configuration of the program, fixed at load time.
#[derive(Clone, Debug)]
pub struct AbConfig {
    pub key: [u64; 2],
    /// Unit of assignment, in the program's numbering: 0 connections, 1 client prefixes, 2 time, 3 the policy's rule.
    pub by: u32,
    /// Number of the rule.
    pub rule: u32,
    pub slot: Duration,
    /// Includes connections that this host opens, and those that its peers open.
    pub active: bool,
    pub passive: bool,
    /// Ports to include; none: all.
    pub ports: Vec<u16>,
    /// Client networks to include; none: all.
    pub prefixes: Vec<(IpAddr, u32)>,
    /// Bits of a client's address that are kept, of IPv4 and IPv6.
    pub keep: (u32, u32),
    /// The arms' congestion controls, by the kernel's names.
    pub names: Vec<String>,
}

const fn mask(bits: u32) -> u128 {
    match bits {
        0 => 0,
        bits => u128::MAX << (128 - bits),
    }
}

impl AbConfig {
    /// Encodes the plan as `struct settings`.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut words = |values: &[u32]| values.iter().for_each(|value| bytes.extend(value.to_ne_bytes()));
        let wide = |value: u64| [value as u32, (value >> 32) as u32];
        for value in [self.key[0], self.key[1], self.slot.as_nanos() as u64] {
            words(&wide(value));
        }
        let directions = u32::from(self.active) | u32::from(self.passive) << 1;
        words(&[self.by, directions, self.ports.len() as u32, self.prefixes.len() as u32, self.rule, 0]);
        // Addresses are in network byte order.
        let address = |value: u128| {
            let bytes = value.to_be_bytes();
            [0, 4, 8, 12].map(|at| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
        };
        words(&address(mask(96 + self.keep.0)));
        words(&address(mask(self.keep.1)));
        for nth in 0..PORTS_MAX {
            words(&[self.ports.get(nth).copied().map_or(0, u32::from)]);
        }
        for nth in 0..PREFIXES_MAX {
            let (own, bits) = match self.prefixes.get(nth) {
                Some((IpAddr::V4(own), bits)) => (u128::from(own.to_ipv6_mapped()), 96 + bits),
                Some((IpAddr::V6(own), bits)) => (u128::from(*own), *bits),
                None => (0, 0),
            };
            words(&address(own & mask(bits)));
            words(&address(mask(bits)));
        }
        for nth in 0..ARMS_MAX {
            let mut label = [0; NAME];
            let name = self.names.get(nth).map_or(&b""[..], String::as_bytes);
            label[..NAME - 1].iter_mut().zip(name).for_each(|(to, from)| *to = *from);
            bytes.extend(label);
        }
        bytes
    }
}

/// Kernel counters of one arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArmCounters {
    pub tried: u64,
    pub established: u64,
    pub failed: u64,
    pub refused: u64,
}

/// Kernel counters of the test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub arms: Vec<ArmCounters>,
    /// Records lost because the ring was full.
    pub lost: u64,
    /// Connections skipped for lack of memory.
    pub no_memory: u64,
}

/// The attached program.
#[derive(Debug)]
pub struct Attached {
    object: Object,
    arms: usize,
    _hook: Link,
    /// The kernel can read open connections.
    reads_open: bool,
}

fn refused(source: libbpf_rs::Error) -> Error {
    let is_denied = source.kind() == libbpf_rs::ErrorKind::PermissionDenied;
    match program::refused("the test's program", source) {
        Error::Refused { what, source, reason, .. } if is_denied => {
            Error::Refused { what, source, reason, advice: Advice::OtherProgram }
        }
        other => other,
    }
}

/// Fails if privileges are missing, and names them.
pub fn check() -> Result<()> {
    // Source: Linux include/uapi/linux/capability.h.
    const NEEDED: [(&str, u32); 3] = [("CAP_BPF", 39), ("CAP_NET_ADMIN", 12), ("CAP_PERFMON", 38)];
    const SYS_ADMIN: u64 = 1 << 21;
    host_paths::check_types()?;
    let held = host_paths::capabilities();
    let lacks = |bit: u32| held & (1 << bit | SYS_ADMIN) == 0 || (bit == 12 && held & 1 << bit == 0);
    let missing: Vec<&str> = NEEDED.iter().filter(|(_, bit)| lacks(*bit)).map(|(name, _)| *name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::NoCapabilities(missing))
}

/// Directory of a cgroup v2: the root's, a path, or a name below the root.
pub fn cgroup(asked: Option<&Path>) -> Result<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let is_v2 = |line: &&str| line.split(' ').nth(2) == Some("cgroup2");
    let root = mounts.lines().find(is_v2).and_then(|line| line.split(' ').nth(1));
    let root = PathBuf::from(root.ok_or(Error::NoCgroups)?);
    let path = match asked {
        None => return Ok(root),
        Some(path) if path.is_absolute() => path.to_owned(),
        Some(path) => root.join(path),
    };
    let path = path.canonicalize().map_err(Error::file(&path))?;
    let is_one = statfs(&path).is_ok_and(|stat| stat.filesystem_type() == CGROUP2_SUPER_MAGIC) && path.is_dir();
    if is_one { Ok(path) } else { Err(Error::NotACgroup { path, root }) }
}

impl Attached {
    /// Loads the program and attaches it to a cgroup. From then on new connections that match the plan are assigned an
    /// arm, or have the one of the policy's `decisions`.
    pub fn new(
        cgroup: &Path,
        plan: &AbConfig,
        split: &[u8],
        until_ns: u64,
        decisions: Option<&MapHandle>,
    ) -> Result<Self> {
        let folder = File::open(cgroup).map_err(Error::file(cgroup))?;
        let reads_open = Interface::of_kernel().is_some_and(|kernel| kernel.has_casts);
        program::listen();
        let mut unloaded = ObjectBuilder::default().open_memory(AB).map_err(refused)?;
        program::set(&mut unloaded, ".rodata.settings", &plan.bytes())?;
        if let Some(decisions) = decisions {
            let mut own = unloaded.maps_mut().find(|map| map.name() == DECISIONS);
            let own = own.as_mut().ok_or_else(|| Error::NoPart(DECISIONS.to_owned()))?;
            own.reuse_fd(decisions.as_fd()).map_err(refused)?;
        }
        for mut program in unloaded.progs_mut().filter(|program| program.name() == "open") {
            program.set_autoload(reads_open);
        }
        let object = unloaded.load().map_err(refused)?;
        // Set before it is attached, so that no connection meets a table of zeros.
        set_split(&object, 1, split)?;
        set_deadline(&object, until_ns)?;
        let hook = find(&object, "assign")?.attach_cgroup(folder.as_raw_fd()).map_err(refused)?;
        Ok(Self { object, arms: plan.names.len(), _hook: hook, reads_open })
    }

    /// Changes the split, starting with the next connection.
    pub fn set_split(&self, epoch: u32, split: &[u8]) -> Result<()> {
        set_split(&self.object, epoch, split)
    }

    /// Assigns connections until this time and no longer, so that a test that hangs leaves new connections alone.
    pub fn assign_until(&self, monotonic_ns: u64) -> Result<()> {
        set_deadline(&self.object, monotonic_ns)
    }

    /// The kernel's ID of the program that acts on connections.
    pub fn id(&self) -> Option<u32> {
        libbpf_rs::Program::id_from_fd(find(&self.object, "assign").ok()?.as_fd()).ok()
    }

    /// Reads the counters.
    pub fn counters(&self) -> Result<Counters> {
        let each =
            map(&self.object, "counters")?.lookup_percpu(&0_u32.to_ne_bytes(), MapFlags::ANY).map_err(refused)?;
        let each = each.unwrap_or_default();
        let word = |nth: usize| -> u64 {
            let own = each.iter().filter_map(|value| value.get(8 * nth..8 * nth + 8)?.try_into().ok());
            own.map(u64::from_ne_bytes).sum()
        };
        let arm = |nth: usize| ArmCounters {
            tried: word(4 * nth),
            established: word(4 * nth + 1),
            failed: word(4 * nth + 2),
            refused: word(4 * nth + 3),
        };
        let rest = 4 * ARMS_MAX;
        Ok(Counters { arms: (0..self.arms).map(arm).collect(), lost: word(rest), no_memory: word(rest + 1) })
    }

    /// Passes on the records of closed connections, and returns at once.
    pub fn closed(&self, each: impl FnMut(&[u8])) -> Result<()> {
        self.drain("records", each)
    }

    /// Concatenated records of open connections, in all network namespaces; none before Linux 6.2.
    pub fn open(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // As `struct walk`: the group of the table that is read next.
        let mut walk = [0; size_of::<u32>()];
        let mut is_more = self.reads_open;
        while is_more {
            let input = ProgramInput { context_in: Some(&mut walk), ..ProgramInput::default() };
            is_more = find(&self.object, "open")?.test_run(input).map_err(refused)?.return_value != 0;
            self.drain("opened", |record| bytes.extend_from_slice(record))?;
        }
        Ok(bytes)
    }

    /// Empties a ring.
    fn drain(&self, ring: &str, mut each: impl FnMut(&[u8])) -> Result<()> {
        let ring = map(&self.object, ring)?;
        let mut builder = RingBufferBuilder::new();
        let take = |record: &[u8]| {
            each(record);
            0
        };
        builder.add(&ring, take).map_err(refused)?;
        builder.build().map_err(refused)?.consume().map_err(refused)
    }
}

fn map<'o>(object: &'o Object, name: &str) -> Result<libbpf_rs::Map<'o>> {
    object.maps().find(|map| map.name() == name).ok_or_else(|| Error::NoPart(name.to_owned()))
}

fn find<'o>(object: &'o Object, name: &str) -> Result<libbpf_rs::ProgramMut<'o>> {
    object.progs_mut().find(|program| program.name() == name).ok_or_else(|| Error::NoPart(name.to_owned()))
}

fn set_split(object: &Object, epoch: u32, split: &[u8]) -> Result<()> {
    let value: Vec<u8> = epoch.to_ne_bytes().into_iter().chain(split.iter().copied()).collect();
    let done = map(object, "split")?.update(&0_u32.to_ne_bytes(), &value, MapFlags::ANY);
    done.map_err(refused)
}

fn set_deadline(object: &Object, monotonic_ns: u64) -> Result<()> {
    map(object, "deadline")?.update(&0_u32.to_ne_bytes(), &monotonic_ns.to_ne_bytes(), MapFlags::ANY).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_stands_where_the_program_reads_it() {
        let plan = AbConfig {
            key: [0x0102, 0x0304],
            by: 1,
            rule: 5,
            slot: Duration::from_secs(2),
            active: false,
            passive: true,
            ports: vec![443],
            prefixes: vec![("192.0.2.99".parse().unwrap(), 24), ("2001:db8::".parse().unwrap(), 32)],
            keep: (24, 48),
            names: vec!["cubic".to_owned(), "a_name_that_is_too_long".to_owned()],
        };
        let bytes = plan.bytes();
        assert_eq!(bytes.len(), 752);
        assert_eq!((bytes[0], bytes[8], bytes[24], bytes[28], bytes[32], bytes[36]), (2, 4, 1, 2, 1, 2));
        assert_eq!(u64::from_ne_bytes(bytes[16..24].try_into().unwrap()), 2_000_000_000);
        assert_eq!(bytes[40], 5);
        assert_eq!(bytes[48..64], [&[0xff; 15][..], &[0]].concat());
        assert_eq!(bytes[64..80], [&[0xff; 6][..], &[0; 10]].concat());
        assert_eq!(u32::from_ne_bytes(bytes[80..84].try_into().unwrap()), 443);
        assert_eq!(bytes[112..144], [&[0; 10][..], &[0xff, 0xff, 192, 0, 2, 0], &[0xff; 15], &[0]].concat());
        assert_eq!(bytes[144..148], [0x20, 1, 0x0d, 0xb8]);
        assert_eq!(&bytes[624..640], b"cubic\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(&bytes[640..656], b"a_name_that_is_\0");
    }
}
