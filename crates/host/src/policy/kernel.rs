//! The program that applies a policy, and what is read back of it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::{self, File};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use libbpf_rs::query::{LinkTypeInfo, ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject};
use serde::{Deserialize, Serialize};

use super::networks::mapped;
use super::{Direction, Networks, Policy, RULES_MAX};
use crate::objects::POLICY;
use crate::{Error, Result, program};

/// Limits, as in `bpf/cc/policy.bpf.c`.
const PORTS: usize = 8;
const NAME: usize = 16;
const TEXT_MAX: usize = 1 << 18;
/// Buckets of the hash that selects the networks to hold out.
const OUT_OF: u32 = 10_000;
/// Map that its program shares with that of a test of one of its rules.
pub(crate) const DECISIONS: &str = "decisions";
/// Networks written at a time.
const BATCH: usize = 4_096;

/// State kept in the kernel beside the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Described {
    pub policy: Policy,
    /// Names in the kernel of the congestion controls, by the policy's.
    pub names: Vec<(String, String)>,
    /// Names of those that were loaded for this policy, and go with it.
    pub loaded: Vec<String>,
    /// Key of the holdout, which later versions of the policy keep.
    pub key: [u64; 2],
    /// True if the BPF file system was mounted for it.
    pub mounted_bpffs: bool,
    /// Cgroup whose connections it decides on.
    pub cgroup: String,
    /// Version of bbrlab that applied it.
    pub version: String,
}

/// Counters of the connections that a rule took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    pub taken: u64,
    /// Got the rule's congestion control, or had it.
    pub set: u64,
    pub held_out: u64,
    /// The kernel refused it.
    pub refused: u64,
    /// Kept what the application, or a test, had chosen.
    pub chosen: u64,
    /// Time of the last one, on the monotonic clock; 0: none yet.
    pub last_ns: u64,
}

/// ID and depth of a cgroup; the root's depth is 0.
pub(super) struct Cgroup {
    pub id: u64,
    pub level: u32,
}

fn words(name: &str) -> [u8; NAME] {
    let mut padded = [0; NAME];
    padded[..NAME - 1].iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
    padded
}

/// Encodes the rules as `struct settings`.
pub(super) fn settings(described: &Described, cgroups: &[Option<Cgroup>]) -> Vec<u8> {
    let policy = &described.policy;
    let name = |algorithm: &str| {
        let known = described.names.iter().find(|(own, _)| own == algorithm);
        words(known.map_or(algorithm, |(_, name)| name))
    };
    let mut bytes = Vec::new();
    described.key.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
    bytes.extend(policy.any_client().to_ne_bytes());
    bytes.extend(policy.default.as_deref().map_or([0; NAME], name));
    let directions = match policy.direction {
        Direction::Out => 1,
        Direction::In => 2,
        Direction::Both => 3_u32,
    };
    let uses_rtt = policy.rules.iter().any(|rule| rule.rtt_us != (0, u32::MAX));
    for value in [policy.rules.len() as u32, directions, policy.override_application.into(), uses_rtt.into()] {
        bytes.extend(value.to_ne_bytes());
    }
    for (rule, cgroup) in policy.rules.iter().zip(cgroups) {
        bytes.extend(cgroup.as_ref().map_or(0, |cgroup| cgroup.id).to_ne_bytes());
        bytes.extend(name(&rule.algorithm));
        let level = cgroup.as_ref().map_or(0, |cgroup| cgroup.level);
        let holdout = if rule.withdrawn.is_some() { OUT_OF } else { rule.holdout };
        for value in [level, rule.rtt_us.0, rule.rtt_us.1, holdout, rule.ports.len() as u32, 0] {
            bytes.extend(value.to_ne_bytes());
        }
        for nth in 0..PORTS {
            bytes.extend(rule.ports.get(nth).copied().unwrap_or(0).to_ne_bytes());
        }
    }
    bytes.resize(56 + RULES_MAX * 64, 0);
    bytes
}

fn refused(source: libbpf_rs::Error) -> Error {
    program::refused("the policy's program", source)
}

fn no_part(name: &str) -> Error {
    Error::NoPart(name.to_owned())
}

/// Loads the program with its rules and networks, attached to nothing yet.
pub(super) fn load(described: &Described, cgroups: &[Option<Cgroup>], networks: &Networks) -> Result<Object> {
    program::listen();
    let mut open = ObjectBuilder::default().open_memory(POLICY).map_err(refused)?;
    let size = networks.len().max(1) as u32;
    let mut table = open.maps_mut().find(|map| map.name() == "networks").ok_or_else(|| no_part("networks"))?;
    table.set_max_entries(size).map_err(refused)?;
    let object = load_object(open, described, cgroups)?;
    let table = map(&object, "networks")?;
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    let mut nth = 0;
    for (network, rules) in networks.iter() {
        keys.extend(network.bits.to_ne_bytes());
        keys.extend(network.address.to_be_bytes());
        values.extend(rules.to_ne_bytes());
        nth += 1;
        if nth % BATCH == 0 || nth == networks.len() {
            let count = (values.len() / 8) as u32;
            table.update_batch(&keys, &values, count, MapFlags::ANY, MapFlags::ANY).map_err(refused)?;
            keys.clear();
            values.clear();
        }
    }
    Ok(object)
}

/// Loads the program with other rules and the networks of a policy in force.
pub(super) fn load_beside(
    described: &Described,
    cgroups: &[Option<Cgroup>],
    in_force: &AppliedPolicy,
) -> Result<Object> {
    program::listen();
    let mut open = ObjectBuilder::default().open_memory(POLICY).map_err(refused)?;
    for kept in [&in_force.networks, &in_force.counters] {
        let mut own = open.maps_mut().find(|map| map.name() == kept.name());
        own.as_mut().ok_or_else(|| no_part("networks"))?.reuse_fd(kept.as_fd()).map_err(refused)?;
    }
    load_object(open, described, cgroups)
}

fn map<'o>(object: &'o Object, name: &str) -> Result<libbpf_rs::Map<'o>> {
    object.maps().find(|map| map.name() == name).ok_or_else(|| no_part(name))
}

fn load_object(mut open: OpenObject, described: &Described, cgroups: &[Option<Cgroup>]) -> Result<Object> {
    program::set(&mut open, ".rodata.settings", &settings(described, cgroups))?;
    let object = open.load().map_err(refused)?;
    let mut text = serde_json::to_vec(described).map_err(Error::Encode)?;
    if text.len() >= TEXT_MAX {
        return Err(Error::PolicyTooLong { kilobytes: text.len() >> 10, most: TEXT_MAX >> 10 });
    }
    text.resize(TEXT_MAX, 0);
    map(&object, "text")?.update(&0_u32.to_ne_bytes(), &text, MapFlags::ANY).map_err(refused)?;
    Ok(object)
}

/// Puts a program in force: in the place of the one whose link is pinned, in one step, or as a new one.
pub(super) fn attach(object: &Object, cgroup: &Path, pin: &Path) -> Result<()> {
    let program = object.progs().find(|program| program.name() == "apply").ok_or_else(|| no_part("apply"))?;
    if pin.exists() {
        let mut link = Link::open(pin).map_err(refused)?;
        if is_attached(&link).map_err(refused)? {
            return link.update_prog(&program).map_err(refused);
        }
        // Nothing can attach this link again.
        detach(pin)?;
    }
    let folder = File::open(cgroup).map_err(Error::file(cgroup))?;
    let program = object.progs_mut().find(|program| program.name() == "apply").ok_or_else(|| no_part("apply"))?;
    let mut link = program.attach_cgroup(folder.as_raw_fd()).map_err(refused)?;
    link.pin(pin).map_err(refused)
}

/// Returns false if the program was taken from its cgroup by another user, or the cgroup was removed.
fn is_attached(link: &Link) -> libbpf_rs::Result<bool> {
    Ok(!matches!(link.info()?.info, LinkTypeInfo::Cgroup(info) if info.cgroup_id == 0))
}

/// The policy in force, read from the kernel.
pub struct AppliedPolicy {
    pub described: Described,
    /// False if the program was taken from its cgroup by another user, or the cgroup was removed.
    pub is_attached: bool,
    /// The kernel's ID of its program.
    pub program: u32,
    /// Time that the program has run, where the kernel counts it (`kernel.bpf_stats_enabled`).
    pub ran_ns: u64,
    counters: MapHandle,
    networks: MapHandle,
    decisions: Option<MapHandle>,
}

impl AppliedPolicy {
    /// Finds the program behind a pinned link. `None`: there is none.
    pub fn at(pin: &Path) -> Result<Option<Self>> {
        libbpf_rs::set_print(None);
        let fault = |source| Error::List { what: "the policy in force", source };
        if !pin.exists() {
            return Ok(None);
        }
        let link = Link::open(pin).map_err(fault)?;
        let is_attached = is_attached(&link).map_err(fault)?;
        let program = link.info().map_err(fault)?.prog_id;
        let options = ProgInfoQueryOptions::default().include_map_ids(true);
        let info = ProgInfoIter::with_query_opts(options).find(|info| info.id == program);
        let maps: Vec<MapHandle> =
            info.iter().flat_map(|info| &info.map_ids).filter_map(|id| MapHandle::from_map_id(*id).ok()).collect();
        let by_name = |name: &str| {
            let found = maps.iter().find(|map| map.name() == name).ok_or_else(|| no_part(name))?;
            MapHandle::try_from(found).map_err(fault)
        };
        let (text, counters, networks) = (by_name("text")?, by_name("counters")?, by_name("networks")?);
        let decisions = by_name(DECISIONS).ok();
        let text = text.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).map_err(fault)?.unwrap_or_default();
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let described =
            serde_json::from_slice(text).map_err(|source| Error::Decode { path: pin.to_owned(), source })?;
        let ran_ns = info.map_or(0, |info| info.run_time_ns);
        Ok(Some(Self { described, is_attached, program, ran_ns, counters, networks, decisions }))
    }

    /// The error for a name that none of its rules has.
    pub(crate) fn no_rule(&self, name: &str) -> Error {
        let rules: Vec<&str> = self.described.policy.rules.iter().map(|rule| rule.name.as_str()).collect();
        Error::NoRule { name: name.to_owned(), rules: rules.join(", ") }
    }

    /// Per-CPU map with the program's latest decision, which a test of a rule reads.
    pub(crate) fn decisions(&self) -> Result<&MapHandle> {
        self.decisions.as_ref().ok_or_else(|| Error::PolicyOfBefore(self.described.version.clone()))
    }

    /// Counters of each rule, and last those of connections that none took.
    pub fn counters(&self) -> Result<Vec<Counters>> {
        let fault = |source| Error::List { what: "the policy's counters", source };
        let one = |nth: usize| {
            let each = self.counters.lookup_percpu(&(nth as u32).to_ne_bytes(), MapFlags::ANY).map_err(fault)?;
            let each = each.unwrap_or_default();
            let words = |at: usize| {
                each.iter()
                    .filter_map(move |value| value.get(8 * at..8 * at + 8)?.try_into().ok())
                    .map(u64::from_ne_bytes)
            };
            Ok(Counters {
                taken: words(0).sum(),
                set: words(1).sum(),
                held_out: words(2).sum(),
                refused: words(3).sum(),
                chosen: words(4).sum(),
                last_ns: words(5).max().unwrap_or(0),
            })
        };
        (0..self.described.policy.rules.len()).chain([RULES_MAX]).map(one).collect()
    }

    /// The rules that name a network of an address.
    pub fn rules_of(&self, address: IpAddr) -> Result<u64> {
        let fault = |source| Error::List { what: "the policy's networks", source };
        let key: Vec<u8> = 128_u32.to_ne_bytes().into_iter().chain(mapped(address).to_be_bytes()).collect();
        let found = self.networks.lookup(&key, MapFlags::ANY).map_err(fault)?;
        Ok(found.and_then(|value| value.try_into().ok()).map_or(0, u64::from_ne_bytes))
    }
}

/// Removes the program by its pin.
pub(super) fn detach(pin: &Path) -> Result<()> {
    fs::remove_file(pin).map_err(Error::file(pin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Rule;

    #[test]
    fn the_rules_stand_where_the_program_reads_them() {
        let rule = Rule {
            name: "far".to_owned(),
            clients: Vec::new(),
            ports: vec![443, 80],
            cgroup: None,
            rtt_us: (80_000, u32::MAX),
            algorithm: "bbr3-linux".to_owned(),
            holdout: 200,
            withdrawn: None,
        };
        let policy = Policy {
            default: Some("cubic".to_owned()),
            direction: Direction::Both,
            override_application: false,
            rules: vec![rule],
        };
        let described = Described {
            policy,
            names: vec![("bbr3-linux".to_owned(), "bbr3_linux".to_owned())],
            loaded: Vec::new(),
            key: [1, 2],
            mounted_bpffs: false,
            cgroup: "/".to_owned(),
            version: "0".to_owned(),
        };
        let bytes = settings(&described, &[Some(Cgroup { id: 7, level: 3 })]);
        assert_eq!(bytes.len(), 56 + 64 * 64);
        assert_eq!((bytes[0], bytes[8], bytes[16]), (1, 2, 1));
        assert_eq!(&bytes[24..30], b"cubic\0");
        assert_eq!((bytes[40], bytes[44], bytes[48], bytes[52]), (1, 3, 0, 1));
        assert_eq!((bytes[56], &bytes[64..75], bytes[80]), (7, &b"bbr3_linux\0"[..], 3));
        assert_eq!(u32::from_ne_bytes(bytes[84..88].try_into().unwrap()), 80_000);
        assert_eq!((bytes[92], bytes[96]), (200, 2));
        assert_eq!(u16::from_ne_bytes(bytes[104..106].try_into().unwrap()), 443);
    }
}
