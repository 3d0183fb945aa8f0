//! Loading and unloading for good: each step written down before it, undone where a later one fails or never came.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use bbrlab_core::AlgorithmConfig;
use nix::mount::{MsFlags, mount, umount};
use serde::Serialize;

use crate::journal::{Entry, Journal, Phase};
use crate::objects::kernel_name;
use crate::places::Places;
use crate::program::Program;
use crate::sockets::{Found, Sockets, Which};
use crate::{Fault, journal, kernel, namespaces, places, program, sockets};

/// How long a command waits for another one. Ours.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often connections that drain are counted.
const TURN: Duration = Duration::from_millis(200);
/// How often sockets are moved until none is left: each time some may have been accepted meanwhile. Ours.
const PASSES: u32 = 20;
/// What every file system of pins holds. Source: Linux kernel/bpf/preload.
const KERNELS_PINS: [&str; 2] = ["maps.debug", "progs.debug"];
/// Longest name of a congestion control. Source: Linux `TCP_CA_NAME_MAX`, less its final zero.
const NAME_MAX: usize = 15;

/// What to load.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The algorithm with its parameters.
    pub config: AlgorithmConfig,
    /// The name to register it by.
    pub name: String,
    /// New connections take it unless they choose another.
    pub as_default: bool,
}

/// What unloading did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Connections and listeners that were moved.
    pub moved: u64,
    /// Connections that ended by themselves while they were waited for.
    pub drained: u64,
    /// Sockets that still have it: it stays in memory for these until they close, under no name.
    pub left: u64,
}

/// One algorithm of ours as the kernel has it.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// What was written of it.
    #[serde(flatten)]
    pub entry: Entry,
    /// The kernel knows the name.
    pub is_registered: bool,
    /// New connections of this network namespace take it.
    pub is_default: bool,
    /// Connections that have it, in all network namespaces; unknown without rights.
    pub connections: Option<u64>,
    /// Listeners that have it.
    pub listeners: Option<u64>,
    /// Connections that have begun with it since it was loaded.
    pub begun: Option<u64>,
}

/// A host, with what a test replaces: where things stand, how an algorithm is tried, what is told of each step.
pub struct Host<'a> {
    /// Where things stand.
    pub places: Places,
    /// Sends data over the named congestion control, and says what went wrong.
    pub trial: &'a dyn Fn(&str) -> Result<(), String>,
    /// Hears the name of each step before it is taken.
    pub before: &'a dyn Fn(&str),
}

/// A name that the kernel takes, and that is one of a file too.
// Source: Linux bpf_obj_name_cpy, which names of struct_ops pass.
pub fn check_name(name: &str) -> Result<(), Fault> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
    let is_good =
        name.len() <= NAME_MAX && name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(is_plain);
    if is_good { Ok(()) } else { Err(Fault::BadName(name.to_owned())) }
}

impl Host<'_> {
    /// Loads an algorithm, tries it, and leaves it.
    pub fn load(&self, wanted: &Wanted) -> Result<(), Fault> {
        check_name(&wanted.name)?;
        places::check()?;
        let journal = Journal::open(&self.places.state, PATIENCE)?;
        self.recover(&journal)?;
        if kernel::available()?.contains(&wanted.name) {
            return Err(Fault::NameTaken(wanted.name.clone()));
        }
        let entry = Entry {
            name: wanted.name.clone(),
            algorithm: wanted.config.name().to_owned(),
            parameters: kernel::changed(&wanted.config),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            phase: Phase::Loading,
            default_before: if wanted.as_default { Some(kernel::default()?) } else { None },
            mounted_bpffs: !self.places.is_bpffs_mounted(),
        };
        (self.before)("write down what is about to be done");
        journal.write(&entry)?;
        match self.carry_out(&journal, wanted, &entry) {
            Ok(()) => Ok(()),
            Err(fault) => {
                self.undo(&journal, &entry, None)?;
                Err(fault)
            }
        }
    }

    fn carry_out(&self, journal: &Journal, wanted: &Wanted, entry: &Entry) -> Result<(), Fault> {
        if entry.mounted_bpffs {
            (self.before)("mount the file system of pins");
            let at = &self.places.bpffs;
            mount(Some("bpf"), at, Some("bpf"), MsFlags::empty(), Some("mode=0700"))
                .map_err(|error| Fault::File(at.clone(), error.into()))?;
        }
        let folder = self.places.pins_of(&wanted.name);
        (self.before)("make the folder of pins");
        fs::create_dir_all(&folder).map_err(Fault::file(&folder))?;
        (self.before)("have the kernel verify the programs");
        let mut program = Program::load(&wanted.config, &wanted.name)?;
        (self.before)("register the algorithm");
        let mut link = program.register()?;
        (self.before)("pin it");
        link.pin(folder.join("link"))
            .map_err(|error| Fault::Refused { what: "the pin".to_owned(), said: error.to_string() })?;
        (self.before)("pin what tells of its connections");
        program.pin_beside(&folder)?;
        (self.before)("send data over it");
        (self.trial)(&wanted.name).map_err(Fault::Trial)?;
        // The trial's connection began with it, in each direction or in one.
        if program.counters().is_none_or(|counters| counters.begun == 0) {
            return Err(Fault::Trial("no connection began with it".to_owned()));
        }
        if entry.default_before.is_some() {
            (self.before)("make it the default");
            kernel::set_default(&wanted.name)?;
        }
        (self.before)("write down that it is done");
        journal.write(&Entry { phase: Phase::Loaded, ..entry.clone() })
    }

    /// Takes an algorithm back. With `drain`, its connections have so long to end by themselves; then they are moved to the default.
    pub fn unload(&self, name: &str, drain: Option<Duration>) -> Result<Undone, Fault> {
        places::check()?;
        let journal = Journal::open(&self.places.state, PATIENCE)?;
        self.recover(&journal)?;
        // By its name in the kernel, or by the algorithm's that it was made of.
        let wanted = [name.to_owned(), kernel_name(name)];
        let entry = wanted.iter().find_map(|name| journal.entries().into_iter().find(|entry| entry.name == *name));
        let entry = entry.ok_or_else(|| Fault::NotLoaded(name.to_owned()))?;
        (self.before)("write down that it is being undone");
        // A disk that is full must not keep anyone from undoing: the entry as it is would do.
        let _ = journal.write(&Entry { phase: Phase::Unloading, ..entry.clone() });
        self.undo(&journal, &entry, drain)
    }

    /// Finishes or undoes what a command began that was killed. True: there was something.
    pub fn recover(&self, journal: &Journal) -> Result<bool, Fault> {
        let mut any = false;
        for entry in journal.entries() {
            let is_whole = entry.phase == Phase::Loaded && self.places.pins_of(&entry.name).join("link").exists();
            if !is_whole {
                self.undo(journal, &entry, None)?;
                any = true;
            }
        }
        Ok(any)
    }

    /// The same, unless another command is at work, which may be what looks unfinished.
    pub fn recover_if_idle(&self) -> Result<bool, Fault> {
        if journal::entries(&self.places.state).is_empty() || places::check().is_err() {
            return Ok(false);
        }
        match Journal::open(&self.places.state, Duration::ZERO) {
            Ok(journal) => self.recover(&journal),
            Err(Fault::Busy(_)) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    fn undo(&self, journal: &Journal, entry: &Entry, drain: Option<Duration>) -> Result<Undone, Fault> {
        let name = &entry.name;
        let to = self.substitute(entry)?;
        (self.before)("give back the default");
        // Also to namespaces that were made while it was the default, and inherited it. Reno is never gone.
        let give_back = || {
            let is_ours = kernel::default()? == *name;
            if is_ours { kernel::set_default(&to).or_else(|_| kernel::set_default("reno")) } else { Ok(()) }
        };
        namespaces::in_each(give_back).into_iter().collect::<Result<Vec<()>, Fault>>()?;
        let has_pins = self.places.pins_of(name).exists();
        let mut undone = Undone::default();
        if has_pins {
            (self.before)("move its listeners");
            undone.moved += self.moved(name, &to, Which::Listeners)?.moved;
            if drain.is_none() {
                (self.before)("move its connections");
                undone.moved += self.moved(name, &to, Which::All)?.moved;
            }
            (self.before)("unregister it");
            self.remove_pins(name)?;
            // What is gone from the list of names may still be in use.
            if let Some(most) = drain {
                (self.before)("wait for its connections");
                undone.drained = self.wait(name, most)?;
            }
            (self.before)("move what began meanwhile");
            for _ in 0..PASSES {
                let found = self.moved(name, &to, Which::All)?;
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
                // Whoever goes last unmounts it.
                Some(heir) => journal.write(&Entry { mounted_bpffs: true, ..heir })?,
                None => self.unmount()?,
            }
        }
        (self.before)("forget it");
        journal.forget(name)?;
        Ok(undone)
    }

    /// What connections get instead.
    fn substitute(&self, entry: &Entry) -> Result<String, Fault> {
        let default = kernel::default()?;
        if default != entry.name {
            return Ok(default);
        }
        let others = kernel::available()?;
        let is_known = |wanted: &&str| others.iter().any(|other| other == wanted && *other != entry.name);
        Ok(entry.default_before.as_deref().into_iter().chain(["cubic"]).find(is_known).unwrap_or("reno").to_owned())
    }

    fn moved(&self, name: &str, to: &str, which: Which) -> Result<Found, Fault> {
        Sockets::of(name, to, which)?.walk()
    }

    /// Connections that ended within the time.
    fn wait(&self, name: &str, most: Duration) -> Result<u64, Fault> {
        let at_first = sockets::count(name)?.connections;
        let mut left = at_first;
        let mut turns = most.as_millis().div_ceil(TURN.as_millis());
        while left > 0 && turns > 0 {
            turns -= 1;
            thread::sleep(TURN);
            left = sockets::count(name)?.connections;
        }
        Ok(at_first.saturating_sub(left))
    }

    fn remove_pins(&self, name: &str) -> Result<(), Fault> {
        let folder = self.places.pins_of(name);
        for pin in ["link", "connections", "counters"] {
            let path = folder.join(pin);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Fault::File(path, error)),
                _ => {}
            }
        }
        for folder in [&folder, &self.places.pins()] {
            match fs::remove_dir(folder) {
                // Others of ours are loaded.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Fault::File(folder.clone(), error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Unless somebody else has begun to use it.
    fn unmount(&self) -> Result<(), Fault> {
        let at = &self.places.bpffs;
        // The kernel's own, in every such file system.
        let is_kernels = |file: &fs::DirEntry| KERNELS_PINS.iter().any(|name| file.file_name() == *name);
        let is_empty = fs::read_dir(at).is_ok_and(|files| files.flatten().all(|file| is_kernels(&file)));
        if !self.places.is_bpffs_mounted() || !is_empty {
            return Ok(());
        }
        match umount(at) {
            Ok(()) | Err(nix::errno::Errno::EBUSY) => Ok(()),
            Err(error) => Err(Fault::File(at.clone(), error.into())),
        }
    }

    /// What of ours the kernel has.
    pub fn status(&self) -> Result<Vec<Status>, Fault> {
        let (available, default) = (kernel::available()?, kernel::default()?);
        let may_look = places::check().is_ok();
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
            assert!(matches!(check_name(bad), Err(Fault::BadName(_))), "{bad}");
        }
    }
}
