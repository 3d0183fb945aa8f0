//! Congestion control that persists across a reboot: a list of changes, each shown beforehand, each with its undo.
//!
//! The whole list is written down before the first change, so that [`Machine::disable`] can undo whatever was applied.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Error, Result, kernel};

/// Our sysctl file, which sorts after the distribution's.
const SYSCTL_FILE: &str = "etc/sysctl.d/90-bbrlab.conf";
const UNITS: &str = "etc/systemd/system";
const WANTS: &str = "etc/systemd/system/multi-user.target.wants";
/// Place of a unit in the boot: before the network, and after the files and settings that it needs.
///
/// Others before the network, as cloud-init, come before sysinit.target: after it, which is the default, would be a cycle.
const ORDER: &str = "DefaultDependencies=no\nAfter=local-fs.target sys-fs-bpf.mount systemd-sysctl.service\n\
    Before=network-pre.target shutdown.target\nWants=network-pre.target\nConflicts=shutdown.target\n";
const JOURNAL: &str = "var/lib/bbrlab/enabled.json";
const SYSCTLS: &str = "proc/sys";

/// One change to the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// A setting of the running kernel.
    Sysctl {
        /// Name, in `sysctl`'s notation.
        key: String,
        /// New value.
        value: String,
        /// Previous value.
        before: String,
    },
    /// A file.
    File {
        /// Path below the root.
        path: PathBuf,
        /// New contents.
        text: String,
        /// Previous contents; `None` if there was no file.
        before: Option<String>,
    },
    /// A new symbolic link.
    Link {
        /// Path below the root.
        path: PathBuf,
        /// Its target.
        target: PathBuf,
    },
}

/// Input of [`Machine::plan`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnableOptions {
    /// The kernel's own congestion control, or one of ours in the user's notation: `bbr3-linux,beta=0.6`.
    pub algorithm: String,
    /// For one of ours: the name under which it is loaded at boot, and the program that loads it.
    pub ours: Option<(String, PathBuf)>,
}

/// Refuses a program that somebody but root can change, or a folder on its way: a unit would run it as root at boot.
pub fn check_program(program: &Path) -> Result<()> {
    for path in program.ancestors() {
        let meta = fs::metadata(path).map_err(Error::file(path))?;
        if meta.uid() != 0 || meta.mode() & 0o022 != 0 {
            return Err(Error::ProgramNotRoots { program: program.to_owned(), place: path.to_owned() });
        }
    }
    Ok(())
}

/// A host below a root directory, which is `/` except in tests.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its root directory.
    pub root: PathBuf,
}

impl Default for Machine {
    fn default() -> Self {
        Self { root: "/".into() }
    }
}

impl Machine {
    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    fn sysctl(&self, key: &str) -> PathBuf {
        self.at(SYSCTLS).join(key.replace('.', "/"))
    }

    fn read(&self, path: &Path) -> Result<Option<String>> {
        let path = self.at(path);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::File { path, source: error }),
        }
    }

    /// True if the kernel has the fair queue, which paces each flow; without it TCP paces by itself.
    pub fn has_fq(&self) -> bool {
        let modules = self.at("lib/modules").join(kernel::release());
        let listed = |file: &str| fs::read_to_string(modules.join(file)).is_ok_and(|text| text.contains("/sch_fq.ko"));
        listed("modules.builtin") || listed("modules.dep")
    }

    /// Lists the required changes, without making any.
    pub fn plan(&self, wanted: &EnableOptions) -> Result<Vec<Change>> {
        if self.read(Path::new(JOURNAL))?.is_some() {
            return Err(Error::AlreadyEnabled);
        }
        match &wanted.ours {
            None => self.plan_of_kernels(&wanted.algorithm),
            Some((name, program)) => self.plan_of_ours(&wanted.algorithm, name, program),
        }
    }

    fn plan_of_kernels(&self, algorithm: &str) -> Result<Vec<Change>> {
        let available = self.sysctl("net.ipv4.tcp_available_congestion_control");
        let known = fs::read_to_string(&available).map_err(Error::file(&available))?;
        if !known.split_whitespace().any(|one| one == algorithm) {
            return Err(Error::NotInKernel { algorithm: algorithm.to_owned(), available: known.trim().to_owned() });
        }
        let mut settings = vec![("net.ipv4.tcp_congestion_control", algorithm)];
        if algorithm == "bbr" && self.has_fq() {
            settings.insert(0, ("net.core.default_qdisc", "fq"));
        }
        let text = settings.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        let path = PathBuf::from(SYSCTL_FILE);
        let mut changes = vec![Change::File { before: self.read(&path)?, path, text }];
        for (key, value) in settings {
            let path = self.sysctl(key);
            let before = fs::read_to_string(&path).map_err(Error::file(&path))?.trim().to_owned();
            if before != value {
                changes.push(Change::Sysctl { key: key.to_owned(), value: value.to_owned(), before });
            }
        }
        Ok(changes)
    }

    fn plan_of_ours(&self, algorithm: &str, name: &str, program: &Path) -> Result<Vec<Change>> {
        let unit = format!("bbrlab-{name}.service");
        let program = program.display();
        let text = format!(
            "[Unit]\nDescription=Congestion control {algorithm} as the default, by bbrlab\n{ORDER}\n\
             [Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart={program} host load {algorithm} --name {name} --default\n\
             ExecStop={program} host unload {name}\n\n[Install]\nWantedBy=multi-user.target\n"
        );
        let path = Path::new(UNITS).join(&unit);
        Ok(vec![
            Change::File { before: self.read(&path)?, text, path: path.clone() },
            Change::Link { path: Path::new(WANTS).join(&unit), target: Path::new("/").join(path) },
        ])
    }

    /// Makes the changes.
    pub fn enable(&self, changes: &[Change]) -> Result<()> {
        let text = serde_json::to_string_pretty(changes).map_err(Error::Encode)?;
        self.write(Path::new(JOURNAL), &text)?;
        for change in changes {
            if let Err(fault) = self.make(change) {
                self.disable()?;
                return Err(fault);
            }
        }
        Ok(())
    }

    fn make(&self, change: &Change) -> Result<()> {
        match change {
            Change::Sysctl { key, value, .. } => self.set_sysctl(key, value),
            Change::File { path, text, .. } => self.write(path, text),
            Change::Link { path, target } => {
                let path = self.at(path);
                fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(Error::file(&path))?;
                symlink(target, &path).map_err(Error::file(&path))
            }
        }
    }

    /// Lists the changes in effect, with their undo; empty if nothing is enabled.
    pub fn enabled(&self) -> Result<Vec<Change>> {
        let Some(text) = self.read(Path::new(JOURNAL))? else { return Ok(Vec::new()) };
        serde_json::from_str(&text).map_err(|source| Error::Decode { path: Path::new("/").join(JOURNAL), source })
    }

    /// Undoes the changes that were made. Returns those that somebody else has changed since: they stay.
    pub fn disable(&self) -> Result<Vec<Change>> {
        let mut left = Vec::new();
        for change in self.enabled()?.into_iter().rev() {
            if !self.undo(&change)? {
                left.push(change);
            }
        }
        self.remove(Path::new(JOURNAL))?;
        Ok(left)
    }

    /// Returns false if the host has neither the change nor what was there before it.
    fn undo(&self, change: &Change) -> Result<bool> {
        match change {
            Change::Sysctl { key, value, before } => {
                let path = self.sysctl(key);
                let now = fs::read_to_string(&path).map_err(Error::file(&path))?;
                if now.trim() != value {
                    return Ok(now.trim() == before);
                }
                self.set_sysctl(key, before)?;
            }
            Change::File { path, text, before } => {
                let now = self.read(path)?;
                match before {
                    _ if now.as_ref() != Some(text) => return Ok(now == *before),
                    Some(before) => self.write(path, before)?,
                    None => self.remove(path)?,
                }
            }
            Change::Link { path, target } => match fs::read_link(self.at(path)) {
                Ok(now) if now == *target => self.remove(path)?,
                other => return Ok(other.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)),
            },
        }
        Ok(true)
    }

    fn set_sysctl(&self, key: &str, value: &str) -> Result<()> {
        let path = self.sysctl(key);
        fs::write(&path, value).map_err(Error::file(&path))
    }

    /// Writes a file atomically.
    fn write(&self, path: &Path, text: &str) -> Result<()> {
        let path = self.at(path);
        let draft = path.with_extension("bbrlab-draft");
        fs::create_dir_all(path.parent().unwrap_or(&path)).map_err(Error::file(&path))?;
        let put = fs::write(&draft, text).and_then(|()| fs::rename(&draft, &path));
        put.map_err(|error| {
            let _ = fs::remove_file(&draft);
            Error::File { path, source: error }
        })
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let path = self.at(path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::File { path, source: error }),
            _ => Ok(()),
        }
    }
}

impl Change {
    /// The setting, file or link.
    pub fn subject(&self) -> String {
        match self {
            Self::Sysctl { key, .. } => key.clone(),
            Self::File { path, .. } | Self::Link { path, .. } => format!("/{}", path.display()),
        }
    }

    /// Describes the change for the user: the action, and its undo.
    pub fn lines(&self) -> String {
        match self {
            Self::Sysctl { key, value, before } => format!("set {key} = {value}        (it is {before})\n"),
            Self::File { path, text, before } => {
                let what = if before.is_some() { "replace" } else { "write" };
                let text = text.lines().fold(String::new(), |all, line| all + "    " + line + "\n");
                format!("{what} /{}\n{text}", path.display())
            }
            Self::Link { path, target } => format!("link /{} to {}\n", path.display(), target.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str) -> Machine {
        let root = std::env::temp_dir().join(format!("bbrlab-enable-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("proc/sys/net/ipv4")).unwrap();
        fs::write(root.join("proc/sys/net/ipv4/tcp_available_congestion_control"), "reno cubic bbr\n").unwrap();
        fs::write(root.join("proc/sys/net/ipv4/tcp_congestion_control"), "cubic\n").unwrap();
        Machine { root }
    }

    /// Every file below the root with its contents.
    fn image(root: &Path) -> Vec<(PathBuf, String)> {
        let mut all = Vec::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
                if path.is_dir() {
                    folders.push(path)
                } else {
                    all.push((path.clone(), fs::read_to_string(path).unwrap_or_default().trim().to_owned()))
                }
            }
        }
        all.sort();
        all
    }

    fn bbr() -> EnableOptions {
        EnableOptions { algorithm: "bbr".to_owned(), ours: None }
    }

    #[test]
    fn what_was_enabled_is_undone_to_the_last_byte() {
        let machine = machine("undo");
        fs::create_dir_all(machine.at("etc/sysctl.d")).unwrap();
        fs::write(machine.at(SYSCTL_FILE), "net.ipv4.tcp_ecn = 1").unwrap();
        let before = image(&machine.root);
        machine.enable(&machine.plan(&bbr()).unwrap()).unwrap();
        assert_eq!(fs::read_to_string(machine.at("proc/sys/net/ipv4/tcp_congestion_control")).unwrap(), "bbr");
        assert_eq!(fs::read_to_string(machine.at(SYSCTL_FILE)).unwrap(), "net.ipv4.tcp_congestion_control = bbr\n");
        assert!(matches!(machine.plan(&bbr()), Err(Error::AlreadyEnabled)));
        machine.disable().unwrap();
        assert_eq!(image(&machine.root), before);
        fs::remove_dir_all(machine.root).unwrap();
    }

    #[test]
    fn a_plan_changes_nothing() {
        let machine = machine("plan");
        let before = image(&machine.root);
        let ours = EnableOptions {
            algorithm: "bbr3-linux,beta=0.6".to_owned(),
            ours: Some(("bbr3".to_owned(), "/usr/bin/bbrlab".into())),
        };
        let shown: String = machine.plan(&ours).unwrap().iter().map(Change::lines).collect();
        assert!(
            shown.contains("ExecStart=/usr/bin/bbrlab host load bbr3-linux,beta=0.6 --name bbr3 --default"),
            "{shown}"
        );
        machine.plan(&bbr()).unwrap();
        assert_eq!(image(&machine.root), before);
        fs::remove_dir_all(machine.root).unwrap();
    }

    /// Units with the default dependencies start after sysinit.target, for which cloud-init and what it orders wait.
    #[test]
    fn units_before_the_network_do_not_wait_for_the_whole_boot() {
        let machine = machine("order");
        let ours =
            EnableOptions { algorithm: "bbr3".to_owned(), ours: Some(("v3".to_owned(), "/usr/bin/bbrlab".into())) };
        let Change::File { text: own, .. } = &machine.plan(&ours).unwrap()[0] else { panic!("no unit") };
        for unit in [own, include_str!("../../../contrib/bbrlab-policy.service")] {
            let has = |line: &str| unit.lines().any(|one| one == line);
            assert!(has("DefaultDependencies=no") && has("Conflicts=shutdown.target"), "{unit}");
            assert!(has("After=local-fs.target sys-fs-bpf.mount systemd-sysctl.service"), "{unit}");
            assert!(has("Before=network-pre.target shutdown.target") && has("Wants=network-pre.target"), "{unit}");
        }
        fs::remove_dir_all(machine.root).unwrap();
    }

    #[test]
    fn a_change_that_fails_undoes_those_before_it() {
        let machine = machine("fails");
        let before = image(&machine.root);
        let mut changes = machine.plan(&bbr()).unwrap();
        changes.push(Change::Sysctl { key: "no.such.folder.key".into(), value: "1".into(), before: "0".into() });
        assert!(machine.enable(&changes[..2]).is_ok());
        machine.disable().unwrap();
        assert!(matches!(machine.enable(&changes), Err(Error::File { .. })));
        // The setting does not exist, so it cannot be read back either: the changes made stay recorded, to be undone by
        // hand or later.
        assert!(!machine.enabled().unwrap().is_empty());
        fs::create_dir_all(machine.at("proc/sys/no/such/folder")).unwrap();
        fs::write(machine.at("proc/sys/no/such/folder/key"), "0").unwrap();
        machine.disable().unwrap();
        fs::remove_dir_all(machine.at("proc/sys/no")).unwrap();
        assert_eq!(image(&machine.root), before);
        fs::remove_dir_all(machine.root).unwrap();
    }

    #[test]
    fn a_program_that_others_can_change_is_refused_with_the_place() {
        use std::os::unix::fs::PermissionsExt;
        check_program(Path::new("/usr/bin/env")).unwrap();
        let place = machine("program").root;
        let program = place.join("bbrlab");
        fs::write(&program, "").unwrap();
        let refused = |path: &Path| match check_program(path) {
            Err(Error::ProgramNotRoots { place, .. }) => place,
            other => panic!("{other:?}"),
        };
        fs::set_permissions(&program, fs::Permissions::from_mode(0o775)).unwrap();
        assert_eq!(refused(&program), program);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o777)).unwrap();
        if nix::unistd::geteuid().is_root() {
            assert_eq!(refused(&program), place);
        }
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn what_somebody_else_has_set_since_stays() {
        let machine = machine("else");
        machine.enable(&machine.plan(&bbr()).unwrap()).unwrap();
        fs::write(machine.at("proc/sys/net/ipv4/tcp_congestion_control"), "reno\n").unwrap();
        machine.disable().unwrap();
        assert_eq!(fs::read_to_string(machine.at("proc/sys/net/ipv4/tcp_congestion_control")).unwrap(), "reno\n");
        fs::remove_dir_all(machine.root).unwrap();
    }

    #[test]
    fn files_and_links_that_somebody_else_has_changed_since_stay() {
        let machine = machine("edited");
        let ours =
            EnableOptions { algorithm: "bbr3".to_owned(), ours: Some(("v3".to_owned(), "/usr/bin/bbrlab".into())) };
        let changes = machine.plan(&ours).unwrap();
        let [Change::File { path: file, .. }, Change::Link { path: link, .. }] = &changes[..] else {
            panic!("{changes:?}")
        };
        machine.enable(&changes).unwrap();
        fs::write(machine.at(file), "[Service]\n").unwrap();
        fs::remove_file(machine.at(link)).unwrap();
        symlink("/dev/null", machine.at(link)).unwrap();
        let left = machine.disable().unwrap();
        assert_eq!(fs::read_to_string(machine.at(file)).unwrap(), "[Service]\n");
        assert_eq!(fs::read_link(machine.at(link)).unwrap(), Path::new("/dev/null"));
        assert_eq!(
            left.iter().map(Change::subject).collect::<Vec<_>>(),
            [link, file].map(|path| format!("/{}", path.display()))
        );
        assert!(machine.enabled().unwrap().is_empty());
        fs::remove_dir_all(machine.root).unwrap();
    }

    #[test]
    fn what_the_kernel_has_not_is_refused() {
        let machine = machine("not");
        let vegas = EnableOptions { algorithm: "vegas".to_owned(), ours: None };
        assert!(matches!(machine.plan(&vegas), Err(Error::NotInKernel { algorithm, .. }) if algorithm == "vegas"));
        fs::remove_dir_all(machine.root).unwrap();
    }
}
