//! Persistent load and unload with a write-ahead journal; failed or interrupted steps are rolled back.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use bbrlab_core::AlgorithmConfig;
use nix::mount::{MsFlags, mount, umount};
use serde::Serialize;

use crate::host_paths::HostPaths;
use crate::journal::{Entry, Journal, Phase, UNKNOWN};
use crate::objects::kernel_name;
use crate::program::Program;
use crate::sockets::{MoveScope, SocketCounts, Sockets};
use crate::{Error, Result, TrialError, host_paths, journal, kernel, namespaces, program, registration, sockets};

/// Maximum time to wait for another command. Ours.
const PATIENCE: Duration = Duration::from_secs(60);
/// Polling interval for draining connections.
const TURN: Duration = Duration::from_millis(200);
/// Maximum passes over the sockets: each pass can miss those accepted in the meantime. Ours.
const PASSES: u32 = 20;
/// Files that every BPF file system contains. Source: Linux kernel/bpf/preload.
const KERNELS_PINS: [&str; 2] = ["maps.debug", "progs.debug"];
/// Pin of a registration: its link or, before Linux 6.4, its map.
const REGISTRATION: &str = "link";
/// Maximum length of a congestion control's name. Source: Linux `TCP_CA_NAME_MAX`, less its final zero.
const NAME_MAX: usize = 15;

/// Input of [`Host::load`].
#[derive(Clone, Debug)]
pub struct LoadRequest {
    /// The algorithm with its parameters.
    pub config: AlgorithmConfig,
    /// The name to register it by.
    pub name: String,
    /// True if new connections use it unless they choose another.
    pub as_default: bool,
}

/// Result of unloading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnloadSummary {
    /// Connections and listeners that were moved.
    pub moved: u64,
    /// Connections that ended by themselves during the drain.
    pub drained: u64,
    /// Sockets that still use it: it stays in memory for them until they close, but has no name.
    pub left: u64,
}

/// State of one of our algorithms in the kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Its journal entry.
    #[serde(flatten)]
    pub entry: Entry,
    /// True if the kernel lists the name.
    pub is_registered: bool,
    /// True if new connections of this network namespace use it.
    pub is_default: bool,
    /// Connections that use it, in all network namespaces; unknown without privileges.
    pub connections: Option<u64>,
    /// Listeners that use it.
    pub listeners: Option<u64>,
    /// Connections that started with it since it was loaded.
    pub begun: Option<u64>,
}

/// A host, with the parts that a test replaces: paths, trial transfer, step callback.
pub struct Host<'a> {
    /// Paths on the host.
    pub places: HostPaths,
    /// Sends data with the named congestion control, and returns the error if it fails.
    pub trial: &'a dyn Fn(&str) -> Result<(), TrialError>,
    /// Called with the name of each step before it is taken.
    pub before: &'a dyn Fn(&str),
}

/// Checks that a name is accepted by the kernel and valid as a file name.
// Source: Linux bpf_obj_name_cpy, which checks the names of struct_ops.
pub fn check_name(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
    let is_good =
        name.len() <= NAME_MAX && name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_plain);
    if is_good { Ok(()) } else { Err(Error::BadName(name.to_owned())) }
}

impl Host<'_> {
    /// Loads an algorithm, tests it with a transfer, and leaves it loaded.
    pub fn load(&self, wanted: &LoadRequest) -> Result<()> {
        check_name(&wanted.name)?;
        host_paths::check()?;
        let journal = Journal::open(&self.places.state, PATIENCE)?;
        self.recover(&journal)?;
        if kernel::available()?.contains(&wanted.name) {
            return Err(Error::NameTaken(wanted.name.clone()));
        }
        // Verified before anything is written: a kernel that refuses them, or the iterator that an undo needs, stays as
        // it is.
        (self.before)("have the kernel verify the programs");
        let program = Program::load(&wanted.config, &wanted.name)?;
        Sockets::of(&wanted.name, "", MoveScope::None)?;
        let entry = Entry {
            name: wanted.name.clone(),
            algorithm: wanted.config.name().to_owned(),
            parameters: kernel::changed(&wanted.config),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            phase: Phase::Loading,
            default_before: if wanted.as_default { Some(kernel::default()?) } else { None },
            mounted_bpffs: !self.places.is_bpffs_mounted(),
        };
        (self.before)("record the steps to be done");
        journal.write(&entry)?;
        match self.carry_out(&journal, program, &entry) {
            Ok(()) => Ok(()),
            Err(fault) => {
                self.undo(&journal, &entry, None)?;
                Err(fault)
            }
        }
    }

    fn carry_out(&self, journal: &Journal, program: Program, entry: &Entry) -> Result<()> {
        if entry.mounted_bpffs {
            (self.before)("mount the file system of pins");
            self.mount()?;
        }
        let folder = self.places.pins_of(&entry.name);
        (self.before)("make the folder of pins");
        fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
        (self.before)("register the algorithm");
        let pin = folder.join(REGISTRATION);
        let mut registered = program.register_at(&pin)?;
        (self.before)("pin it");
        registered.pin(&pin)?;
        (self.before)("pin the iterator over its connections");
        registered.pin_beside(&folder)?;
        (self.before)("send data over it");
        (self.trial)(&entry.name).map_err(Error::Trial)?;
        // The trial's connection started with it, in one direction or in both.
        if registered.program().counters().is_none_or(|counters| counters.begun == 0) {
            return Err(Error::TrialUnused);
        }
        if entry.default_before.is_some() {
            (self.before)("make it the default");
            kernel::set_default(&entry.name)?;
        }
        (self.before)("record that it is done");
        journal.write(&Entry { phase: Phase::Loaded, ..entry.clone() })
    }

    /// Unloads an algorithm. With `drain`, its connections get that time to end by themselves; the rest move to the
    /// default.
    pub fn unload(&self, name: &str, drain: Option<Duration>) -> Result<UnloadSummary> {
        host_paths::check()?;
        let journal = Journal::open(&self.places.state, PATIENCE)?;
        self.recover(&journal)?;
        // Matches its name in the kernel, or the name of its algorithm.
        let wanted = [name.to_owned(), kernel_name(name)];
        let entry = wanted.iter().find_map(|name| journal.entries().into_iter().find(|entry| entry.name == *name));
        let entry = entry.ok_or_else(|| Error::NotLoaded(name.to_owned()))?;
        #[cfg(feature = "ab")]
        if let Some(out) = crate::ab::test_with(&entry.name) {
            return Err(Error::InTest { name: entry.name, out });
        }
        (self.before)("record that it is being undone");
        // A full disk must not prevent an undo: the existing entry suffices for it.
        let _ = journal.write(&Entry { phase: Phase::Unloading, ..entry.clone() });
        self.undo(&journal, &entry, drain)
    }

    /// Completes or rolls back an interrupted command. Returns true if there was one.
    pub fn recover(&self, journal: &Journal) -> Result<bool> {
        let mut any = false;
        self.adopt(journal)?;
        for entry in journal.entries() {
            let is_pinned = self.places.pins_of(&entry.name).join(REGISTRATION).exists();
            // Registered without a pin here: it is pinned in another mount namespace, as the host's is for a container.
            let is_elsewhere = || Ok::<_, Error>(!is_pinned && kernel::available()?.contains(&entry.name));
            let is_whole = entry.phase == Phase::Loaded && (is_pinned || is_elsewhere()?);
            if !is_whole {
                self.undo(journal, &entry, None)?;
                any = true;
            }
        }
        Ok(any)
    }

    /// Writes entries for algorithms whose pins are there without one: the notes were lost, with `/run`. A load writes
    /// its entry before it pins anything.
    fn adopt(&self, journal: &Journal) -> Result<()> {
        let known: Vec<String> = journal.entries().into_iter().map(|entry| entry.name).collect();
        let pinned = fs::read_dir(self.places.pins()).into_iter().flatten().flatten();
        for name in pinned.filter(|folder| folder.path().join(REGISTRATION).exists()).map(|folder| folder.file_name()) {
            let Ok(name) = name.into_string().map(|name| name.replace('-', ".")) else { continue };
            if known.contains(&name) {
                continue;
            }
            journal.write(&Entry {
                algorithm: UNKNOWN.to_owned(),
                parameters: Vec::new(),
                version: UNKNOWN.to_owned(),
                phase: Phase::Loaded,
                default_before: None,
                mounted_bpffs: false,
                name,
            })?;
        }
        Ok(())
    }

    /// The same, unless another command is running, which may be the one that appears interrupted.
    pub fn recover_if_idle(&self) -> Result<bool> {
        if host_paths::check().is_err() {
            return Ok(false);
        }
        registration::recover();
        if journal::entries(&self.places.state).is_empty() && !self.places.pins().exists() {
            return Ok(false);
        }
        match Journal::open(&self.places.state, Duration::ZERO) {
            Ok(journal) => self.recover(&journal),
            Err(Error::Busy(_)) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    fn undo(&self, journal: &Journal, entry: &Entry, drain: Option<Duration>) -> Result<UnloadSummary> {
        let name = &entry.name;
        let to = self.substitute(entry)?;
        (self.before)("restore the default");
        // Includes namespaces that were created while it was the default and inherited it. Reno always exists.
        let give_back = || {
            let is_ours = kernel::default()? == *name;
            if is_ours { kernel::set_default(&to).or_else(|_| kernel::set_default("reno")) } else { Ok(()) }
        };
        namespaces::in_each(give_back).into_iter().collect::<Result<Vec<()>>>()?;
        let has_pins = self.places.pins_of(name).exists();
        let mut undone = UnloadSummary::default();
        if has_pins {
            (self.before)("move its listeners");
            undone.moved += self.moved(name, &to, MoveScope::Listeners)?.moved;
            if drain.is_none() {
                (self.before)("move its connections");
                undone.moved += self.moved(name, &to, MoveScope::All)?.moved;
            }
            (self.before)("unregister it");
            self.remove_pins(name)?;
            if let Some(max) = drain {
                (self.before)("wait for its connections");
                undone.drained = self.wait(name, max)?;
            }
        }
        // An algorithm that is no longer listed may still be in use. Before its pins exist it never was.
        if has_pins || entry.phase != Phase::Loading {
            (self.before)("move the connections that began meanwhile");
            for _ in 0..PASSES {
                let found = self.moved(name, &to, MoveScope::All)?;
                undone.moved += found.moved;
                undone.left = sockets::count(name).map(|found| found.connections + found.listeners)?;
                if undone.left == 0 {
                    break;
                }
            }
        }
        if entry.mounted_bpffs {
            (self.before)("unmount the file system of pins");
            match journal.entries().into_iter().find(|other| other.name != *name) {
                // The last one to be unloaded unmounts it.
                Some(heir) => journal.write(&Entry { mounted_bpffs: true, ..heir })?,
                None => self.unmount()?,
            }
        }
        (self.before)("leave the default before it to those loaded after it");
        for heir in journal.entries().into_iter().filter(|other| other.default_before.as_ref() == Some(name)) {
            // As for its own entry, a full disk does not prevent the undo.
            let _ = journal.write(&Entry { default_before: entry.default_before.clone(), ..heir });
        }
        (self.before)("forget it");
        journal.forget(name)?;
        Ok(undone)
    }

    /// The congestion control that its connections get instead.
    fn substitute(&self, entry: &Entry) -> Result<String> {
        let default = kernel::default()?;
        if default != entry.name {
            return Ok(default);
        }
        let others = kernel::available()?;
        let is_known = |wanted: &&str| others.iter().any(|other| other == wanted && *other != entry.name);
        Ok(entry.default_before.as_deref().into_iter().chain(["cubic"]).find(is_known).unwrap_or("reno").to_owned())
    }

    fn moved(&self, name: &str, to: &str, which: MoveScope) -> Result<SocketCounts> {
        Sockets::of(name, to, which)?.walk()
    }

    /// Waits for connections to end, and returns the number that did.
    fn wait(&self, name: &str, max: Duration) -> Result<u64> {
        let at_first = sockets::count(name)?.connections;
        let mut left = at_first;
        let mut turns = max.as_millis().div_ceil(TURN.as_millis());
        while left > 0 && turns > 0 {
            turns -= 1;
            thread::sleep(TURN);
            left = sockets::count(name)?.connections;
        }
        Ok(at_first.saturating_sub(left))
    }

    fn remove_pins(&self, name: &str) -> Result<()> {
        let folder = self.places.pins_of(name);
        program::unregister(&folder.join(REGISTRATION))?;
        for pin in [REGISTRATION, "connections", "counters"] {
            let path = folder.join(pin);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::File { path, source: error });
                }
                _ => {}
            }
        }
        for folder in [&folder, &self.places.pins()] {
            match fs::remove_dir(folder) {
                // Other algorithms of ours are still loaded.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::File { path: folder.clone(), source: error });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Mounts the BPF file system.
    pub(crate) fn mount(&self) -> Result<()> {
        let at = &self.places.bpffs;
        mount(Some("bpf"), at, Some("bpf"), MsFlags::empty(), Some("mode=0700"))
            .map_err(|error| Error::File { path: at.clone(), source: error.into() })
    }

    /// Unmounts the BPF file system unless someone else has begun to use it.
    pub(crate) fn unmount(&self) -> Result<()> {
        let at = &self.places.bpffs;
        // The kernel creates these in every BPF file system.
        let is_kernels = |file: &fs::DirEntry| KERNELS_PINS.iter().any(|name| file.file_name() == *name);
        let is_empty = fs::read_dir(at).is_ok_and(|files| files.flatten().all(|file| is_kernels(&file)));
        if !self.places.is_bpffs_mounted() || !is_empty {
            return Ok(());
        }
        match umount(at) {
            Ok(()) | Err(nix::errno::Errno::EBUSY) => Ok(()),
            Err(error) => Err(Error::File { path: at.clone(), source: error.into() }),
        }
    }

    /// State of all our algorithms in the kernel.
    pub fn status(&self) -> Result<Vec<Status>> {
        let (available, default) = (kernel::available()?, kernel::default()?);
        let may_look = host_paths::check().is_ok();
        let entries = journal::entries(&self.places.state);
        let told = entries.into_iter().map(|entry| {
            let found = if may_look { sockets::count(&entry.name).ok() } else { None };
            Status {
                is_registered: available.contains(&entry.name),
                is_default: default == entry.name,
                connections: found.map(|found| found.connections),
                listeners: found.map(|found| found.listeners),
                begun: program::pinned_counters(&self.places.pins_of(&entry.name)).map(|counters| counters.begun),
                entry,
            }
        });
        Ok(told.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_of_the_kernel_and_of_a_file() {
        let own = crate::objects::OBJECTS.iter().map(|(name, _)| kernel_name(name));
        for good in ["bbr3", "a.b_c9", "fifteen.letters"].into_iter().map(str::to_owned).chain(own) {
            assert!(check_name(&good).is_ok(), "{good}");
        }
        for bad in ["", "9a", "../x", "bbr3-linux", "a/b", "sixteen.letters.", "a b", "ä", ".hidden"] {
            assert!(matches!(check_name(bad), Err(Error::BadName(_))), "{bad}");
        }
    }
}
