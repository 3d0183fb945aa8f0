//! Applying and removing a policy, in steps each of which leaves the old one or the new one in force.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};

use super::kernel::{self, AppliedPolicy, Cgroup, Described};
use super::{Policy, Written};
use crate::host_paths::{HostPaths, own_folder};
use crate::manage::{Host, LoadRequest};
use crate::objects::{self, is_kernels_own, kernel_name};
use crate::{Error, Result, host_paths, journal};

/// Name of the pin below the folder of all our pins. No algorithm has it: names of the kernel have no `-`.
const PIN: &str = "policy-link";
/// Note of the algorithms that are, or are being, loaded for a policy.
const NOTE: &str = "policy.loading";

/// Names in the kernel of the congestion controls, by the policy's.
type Names = Vec<(String, String)>;

/// Outcome of `apply`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// True if another policy was in force.
    pub replaced: bool,
    /// Rules that stay withdrawn.
    pub withdrawn: Vec<String>,
    /// Algorithms that were loaded for it, by their names in the kernel.
    pub loaded: Vec<String>,
    /// Those of the policy before that nothing names any more.
    pub unloaded: Vec<String>,
}

/// Outcome of `remove`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    pub unloaded: Vec<String>,
}

fn pin(places: &HostPaths) -> PathBuf {
    places.pins().join(PIN)
}

/// The policy in force on this host.
pub fn in_force(places: &HostPaths) -> Result<Option<AppliedPolicy>> {
    AppliedPolicy::at(&pin(places))
}

/// Root of cgroup version 2.
fn cgroup_root() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let is_v2 = |line: &&str| line.split(' ').nth(2) == Some("cgroup2");
    let root = mounts.lines().find(is_v2).and_then(|line| line.split(' ').nth(1));
    Ok(PathBuf::from(root.ok_or(Error::NoCgroups)?))
}

/// ID of a cgroup, and its depth below the root.
fn cgroup(root: &Path, below: &str) -> Result<Cgroup> {
    let path = root.join(below);
    let is_one = path.is_dir() && statfs(&path).is_ok_and(|stat| stat.filesystem_type() == CGROUP2_SUPER_MAGIC);
    if !is_one {
        return Err(Error::NotACgroup { path, root: root.to_owned() });
    }
    // The inode of a cgroup's folder is the kernel's ID of it.
    let id = fs::metadata(&path).map_err(Error::file(&path))?.ino();
    Ok(Cgroup { id, level: below.split('/').filter(|part| !part.is_empty()).count() as u32 })
}

/// The cgroup of each rule that names one.
fn cgroups(root: &Path, policy: &Policy) -> Result<Vec<Option<Cgroup>>> {
    let found = |rule: &super::Rule| rule.cgroup.as_deref().map(|below| cgroup(root, below)).transpose();
    policy.rules.iter().map(found).collect()
}

/// Keeps the rules withdrawn that the policy in force has withdrawn, and that stand in the new one as they were. Returns their names.
fn keep_withdrawn(policy: &mut Policy, before: &Policy) -> Vec<String> {
    let mut kept = Vec::new();
    for rule in &mut policy.rules {
        let is_same = |other: &&super::Rule| super::Rule { withdrawn: None, ..(*other).clone() } == *rule;
        let withdrawn = before.rules.iter().find(is_same).and_then(|other| other.withdrawn.clone());
        if withdrawn.is_some() {
            rule.withdrawn = withdrawn;
            kept.push(rule.name.clone());
        }
    }
    kept
}

/// Withdraws a rule of the policy in force: from the next connection on, its clients keep the default.
pub fn withdraw(places: &HostPaths, name: &str, why: &str) -> Result<()> {
    let before = in_force(places)?.ok_or(Error::NoPolicy)?;
    let mut described = before.described.clone();
    let rule = described.policy.rules.iter_mut().find(|rule| rule.name == name);
    rule.ok_or_else(|| before.no_rule(name))?.withdrawn = Some(why.to_owned());
    let cgroups = cgroups(&cgroup_root()?, &described.policy)?;
    let object = kernel::load_beside(&described, &cgroups, &before)?;
    kernel::attach(&object, Path::new(&described.cgroup), &pin(places))
}

/// Puts a policy in force. `on`: the cgroup whose connections it decides on, by default all. Rules that were withdrawn stay so unless
/// they have changed or `reinstates`.
pub fn apply(host: &Host<'_>, written: &Written, on: Option<&str>, reinstates: bool) -> Result<Applied> {
    host_paths::check()?;
    recover(host)?;
    let places = &host.places;
    let mut policy = written.policy.clone();
    let root = cgroup_root()?;
    let on = root.join(on.unwrap_or_default());
    let cgroups = cgroups(&root, &policy)?;
    let before = in_force(places)?;
    let withdrawn = match &before {
        Some(before) if !reinstates => keep_withdrawn(&mut policy, &before.described.policy),
        _ => Vec::new(),
    };
    let is_moved =
        before.as_ref().is_some_and(|before| before.is_attached && Path::new(&before.described.cgroup) != on);
    if is_moved {
        return Err(Error::PolicyElsewhere(before.map_or(String::new(), |before| before.described.cgroup)));
    }
    let is_mounted = places.is_bpffs_mounted();
    let kept = before.as_ref().map_or(&[][..], |before| &before.described.loaded[..]);
    let known = before.as_ref().map_or(&[][..], |before| &before.described.names[..]);
    let (names, mut loaded) = load(host, &policy, kept, known)?;
    let undo = |loaded: &[String]| loaded.iter().for_each(|name| drop(host.unload(name, None)));
    let new: Vec<String> = loaded.clone();
    loaded.extend(kept.iter().filter(|name| names.iter().any(|(_, other)| other == *name)).cloned());
    let described = Described {
        policy,
        names,
        loaded: loaded.clone(),
        key: before.as_ref().map_or_else(new_key, |before| Ok(before.described.key))?,
        mounted_bpffs: before.as_ref().map_or(!is_mounted, |before| before.described.mounted_bpffs),
        cgroup: on.display().to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    (host.before)("have the kernel verify the policy's program");
    let attached = kernel::load(&described, &cgroups, &written.networks).and_then(|object| {
        if !places.is_bpffs_mounted() {
            host.mount()?;
        }
        fs::create_dir_all(places.pins()).map_err(Error::file(&places.pins()))?;
        (host.before)("put the policy in force");
        kernel::attach(&object, &on, &pin(places))
    });
    if let Err(fault) = attached {
        undo(&new);
        keep_note(places, kept);
        tidy(host, described.mounted_bpffs && before.is_none())?;
        return Err(fault);
    }
    (host.before)("unload what the policy before needed");
    let gone = kept.iter().filter(|name| !loaded.contains(name)).cloned().collect();
    let unloaded = unload(host, gone);
    keep_note(places, &loaded);
    Ok(Applied { replaced: before.is_some(), withdrawn, loaded: new, unloaded })
}

/// Takes the policy out of force, and unloads what was loaded for it; its connections move to the default.
pub fn remove(host: &Host<'_>) -> Result<Option<Removed>> {
    host_paths::check()?;
    recover(host)?;
    let places = &host.places;
    let Some(before) = in_force(places)? else { return Ok(None) };
    // Whoever finds the note and no policy knows what is left to unload.
    note(places, &before.described.loaded)?;
    (host.before)("take the policy out of force");
    kernel::detach(&pin(places))?;
    (host.before)("unload what it needed");
    let unloaded = unload(host, before.described.loaded);
    forget(places);
    tidy(host, before.described.mounted_bpffs)?;
    Ok(Some(Removed { unloaded }))
}

/// Removes the folder of pins if it is empty, and unmounts its file system if it was mounted for the policy.
fn tidy(host: &Host<'_>, mounted_bpffs: bool) -> Result<()> {
    let _ = fs::remove_dir(host.places.pins());
    if mounted_bpffs { host.unmount() } else { Ok(()) }
}

/// Unloads what an interrupted command has loaded, or was to unload, and what a policy needed whose pin somebody removed.
pub(crate) fn recover(host: &Host<'_>) -> Result<()> {
    let path = host.places.state.join(NOTE);
    let Ok(text) = fs::read_to_string(&path) else { return Ok(()) };
    let needed = in_force(&host.places)?.map_or(Vec::new(), |policy| policy.described.loaded);
    let left: Vec<String> =
        text.lines().filter(|name| !needed.iter().any(|other| other == name)).map(str::to_owned).collect();
    if !left.is_empty() || needed.is_empty() {
        unload(host, left);
        keep_note(&host.places, &needed);
    }
    Ok(())
}

fn note(places: &HostPaths, names: &[String]) -> Result<()> {
    own_folder(&places.state)?;
    let (path, part) = (places.state.join(NOTE), places.state.join(format!("{NOTE}.part")));
    let text = names.iter().fold(String::new(), |all, name| all + name + "\n");
    let written = fs::write(&part, text).and_then(|()| fs::rename(&part, &path));
    written.map_err(|fault| {
        let _ = fs::remove_file(&part);
        Error::file(&path)(fault)
    })
}

/// Writes the list of the algorithms that the policy in force needs. If the disk is full, the old list stays; [`recover`] unloads what is on
/// it and no longer needed.
fn keep_note(places: &HostPaths, needed: &[String]) {
    if needed.is_empty() {
        forget(places);
    } else {
        let _ = note(places, needed);
    }
}

fn forget(places: &HostPaths) {
    let _ = fs::remove_file(places.state.join(NOTE));
}

fn unload(host: &Host<'_>, names: Vec<String>) -> Vec<String> {
    names.into_iter().filter(|name| host.unload(name, None).is_ok()).collect()
}

/// Finds each algorithm's name in the kernel, and loads what is missing. `kept` was loaded for the policy before, which `known`
/// it by these names. Returns the names, and those it loaded.
fn load(host: &Host<'_>, policy: &Policy, kept: &[String], known: &[(String, String)]) -> Result<(Names, Vec<String>)> {
    let available = crate::kernel::available()?;
    let entries = journal::entries(&host.places.state);
    let mut wanted = Vec::new();
    let mut names = Vec::new();
    for algorithm in policy.algorithms() {
        let is_there = available.iter().any(|name| name == algorithm);
        if is_kernels_own(algorithm) || (is_there && objects::parse(algorithm).is_err()) {
            names.push((algorithm.to_owned(), algorithm.to_owned()));
            continue;
        }
        let config = objects::parse(algorithm)?;
        let is_same = |entry: &&journal::Entry| {
            entry.algorithm == config.name() && entry.parameters == crate::kernel::changed(&config)
        };
        if let Some(entry) = entries.iter().find(is_same) {
            names.push((algorithm.to_owned(), entry.name.clone()));
            continue;
        }
        // The list of what is loaded may be lost, with `/run`.
        let is_kept =
            |(other, name): &&(String, String)| other == algorithm && kept.contains(name) && available.contains(name);
        if let Some((_, name)) = known.iter().find(is_kept) {
            names.push((algorithm.to_owned(), name.clone()));
            continue;
        }
        let own = kernel_name(config.name());
        let is_free = |name: &String| !available.contains(name) && !names.iter().any(|(_, other)| other == name);
        let numbered = (2..).map(|nth| format!("{own}.{nth}"));
        let name = std::iter::once(own.clone()).chain(numbered).find(is_free).unwrap_or(own);
        names.push((algorithm.to_owned(), name.clone()));
        wanted.push(LoadRequest { config, name, as_default: false });
    }
    let new: Vec<String> = wanted.iter().map(|one| one.name.clone()).collect();
    (host.before)("note what is loaded for the policy");
    note(&host.places, &[kept, &new].concat())?;
    for (nth, one) in wanted.iter().enumerate() {
        if let Err(fault) = host.load(one) {
            new[..nth].iter().for_each(|name| drop(host.unload(name, None)));
            keep_note(&host.places, kept);
            return Err(fault);
        }
    }
    Ok((names, new))
}

fn new_key() -> Result<[u64; 2]> {
    let mut bytes = [0; 16];
    let random = Path::new("/dev/urandom");
    File::open(random).and_then(|mut file| file.read_exact(&mut bytes)).map_err(Error::file(random))?;
    let half = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
    Ok([half(0), half(8)])
}
