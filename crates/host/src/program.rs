//! An algorithm in the kernel: its object, configured, verified, and registered under a name.
//! Anything not pinned ends with the process.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bbrlab_core::{AlgorithmConfig, params::MAX_PARAMS};
pub use libbpf_rs::Link;
use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, OpenObject, PrintLevel};

use crate::interface::Interface;
use crate::objects::{KERNEL_BBR, object};
use crate::registration::Registration;
use crate::{Advice, Error, Result, ability, kernel};

/// Flag of a congestion control that needs accurate ECN, in the byte after its name. Source: Linux `TCP_CONG_NEEDS_ACCECN`.
const NEEDS_ACCECN: u8 = 1 << 2;
/// Maximum length of a congestion control's name, including the final zero. Source: Linux `TCP_CA_NAME_MAX`.
const NAME_MAX: usize = 16;
// Names of programs and maps in `bpf/cc`.
const CONTROL: &str = "cc";
const TRIAL: &str = "trial_event";
const TRIAL_FLOW: &str = "trial_flow";
const SETTINGS: &str = ".rodata.settings";
const COUNTERS: &str = ".bss";
const CONNECTIONS: &str = "connections";
const CALLS: &str = "calls";

/// Latest warnings of libbpf, which are more specific than its error number.
static SAID: Mutex<String> = Mutex::new(String::new());

fn note(level: PrintLevel, line: String) {
    if level == PrintLevel::Warn {
        let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
        // The verifier's log is one such line, of up to megabytes: the relevant part is its end.
        let line = line.trim();
        let from = line.char_indices().rev().nth(2_000).map_or(0, |(at, _)| at);
        said.push_str(&line[from..]);
        said.push('\n');
    }
}

/// Starts to collect libbpf's warnings, for [`refused`].
pub(crate) fn listen() {
    SAID.lock().unwrap_or_else(PoisonError::into_inner).clear();
    libbpf_rs::set_print(Some((PrintLevel::Warn, note)));
}

/// The error of a refused program, with the reason that libbpf or the verifier gave since [`listen`].
pub(crate) fn refused(what: &'static str, source: libbpf_rs::Error) -> Error {
    let told = reason(&std::mem::take(&mut *SAID.lock().unwrap_or_else(PoisonError::into_inner)));
    let reason = match (ability::missing(), told) {
        (Some(missing), Some(told)) => Some(format!("{missing} ({told})")),
        (missing, told) => missing.or(told),
    };
    let advice = match source.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => Advice::Root,
        _ => Advice::Doctor,
    };
    Error::Refused { what, source, reason, advice }
}

/// The most specific line of libbpf's warnings: the verifier's last message, else the first warning.
fn reason(warnings: &str) -> Option<String> {
    let lines: Vec<&str> = warnings.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let told = |mark: &str| lines.iter().rev().find(|line| line.contains(mark));
    // The verifier's last message precedes its count of instructions.
    let verifiers = || {
        let at = lines.iter().rposition(|line| line.starts_with("processed "))?;
        lines[..at].iter().rev().find(|line| !line.starts_with("libbpf: "))
    };
    let libbpfs = || lines.iter().find(|line| line.starts_with("libbpf: "));
    let found = told("too large").or_else(|| told("not allowed")).or_else(verifiers).or_else(libbpfs)?;
    Some(found.trim_start_matches("libbpf: ").to_owned())
}

/// An algorithm whose programs passed the kernel's verifier. [`Self::register`] makes it available.
#[derive(Debug)]
pub struct Program {
    object: Object,
    algorithm: &'static str,
    name: String,
}

/// A registered algorithm. Dropping it frees the name, unless it was pinned.
#[derive(Debug)]
pub struct Registered {
    // Before the program: without links, dropping it deletes the element of the program's map.
    link: Link,
    program: Program,
    _note: Option<Registration>,
}

impl Registered {
    /// Its program.
    pub const fn program(&self) -> &Program {
        &self.program
    }

    /// Pins the registration at the path of [`Program::register_at`]; it then outlives this process.
    pub fn pin(&mut self, path: &Path) -> Result<()> {
        listen();
        let algorithm = self.program.algorithm;
        if has_links() {
            self.link.pin(path).map_err(|error| refused(algorithm, error))?;
        } else {
            // The map is pinned already.
            self.link.disconnect();
        }
        Ok(())
    }

    /// Pins the connection iterator and the counters in a directory.
    pub fn pin_beside(&mut self, folder: &Path) -> Result<()> {
        self.program.pin_beside(folder)
    }
}

fn has_links() -> bool {
    Interface::of_kernel().is_none_or(|kernel| kernel.has_links)
}

/// Purpose for which a program is loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// A congestion control.
    Control,
    /// Direct calls on a connection of its own.
    Trial,
    /// A congestion control that records each call in a ring of this size in bytes.
    Recording(u32),
}

/// Counters of a loaded program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections that started with it.
    pub begun: u64,
    /// Hooks called on a connection without our per-socket memory.
    pub without_memory: u64,
    /// Calls lost because the recording's ring was full.
    pub calls_lost: u64,
}

impl Program {
    /// Loads and verifies an algorithm's programs; `name` is the name for its registration.
    pub fn load(config: &AlgorithmConfig, name: &str) -> Result<Self> {
        Self::with(config, name, kernel::tick_ns(), Purpose::Control)
    }

    /// The same with the programs for direct calls on a connection of their own, for comparisons.
    pub fn load_for_trial(config: &AlgorithmConfig, tick_ns: u64) -> Result<Self> {
        Self::with(config, "bbrlab_trial", tick_ns, Purpose::Trial)
    }

    /// Like [`Self::load`], but records each call in the ring `calls`, as `struct call` of `bpf/cc/flow.h`.
    pub fn load_recorded(config: &AlgorithmConfig, name: &str, ring_bytes: u32) -> Result<Self> {
        Self::with(config, name, kernel::tick_ns(), Purpose::Recording(ring_bytes))
    }

    /// Loads the kernel's own BBR, called from BPF, as a reference for measurements.
    pub fn kernel_bbr(name: &str) -> Result<Self> {
        let (algorithm, fault) = ("the kernel's bbr", |error: libbpf_rs::Error| refused("the kernel's bbr", error));
        listen();
        let mut open = ObjectBuilder::default().open_memory(KERNEL_BBR).map_err(fault)?;
        set(&mut open, CONTROL, &label(name))?;
        Ok(Self { object: open.load().map_err(fault)?, algorithm, name: name.to_owned() })
    }

    fn with(config: &AlgorithmConfig, name: &str, tick_ns: u64, purpose: Purpose) -> Result<Self> {
        let algorithm = config.name();
        let bytes = object(algorithm).ok_or_else(|| Error::NoProgram(algorithm.to_owned()))?;
        let fault = |error: libbpf_rs::Error| refused(algorithm, error);
        let kernel = Interface::of_kernel().ok_or(Error::NoTypes)?;
        listen();
        let mut open = ObjectBuilder::default().open_memory(bytes).map_err(fault)?;
        set_loaded_parts(&mut open, purpose).map_err(fault)?;
        let parameters = kernel::parameters(config, tick_ns);
        settle(&mut open, &parameters, tick_ns, purpose, kernel)?;
        set(&mut open, CONTROL, &label(name))?;
        adapt(&mut open, kernel, algorithm, purpose)?;
        let object = open.load().map_err(fault)?;
        Ok(Self { object, algorithm, name: name.to_owned() })
    }

    /// Registers it with the kernel until the returned value is dropped, or this process ends.
    pub fn register(mut self) -> Result<Registered> {
        let note = if has_links() { None } else { Some(Registration::note(&self.name)?) };
        let link = self.attach()?;
        Ok(Registered { link, program: self, _note: note })
    }

    /// Registers it with the kernel for longer than this process. [`Registered::pin`] completes it; until then, an
    /// interrupted registration is found by the pin at `path`, or has ended with this process.
    pub fn register_at(mut self, path: &Path) -> Result<Registered> {
        if !has_links() {
            let algorithm = self.algorithm;
            self.control()?.pin(path).map_err(|error| refused(algorithm, error))?;
        }
        let link = self.attach()?;
        Ok(Registered { link, program: self, _note: None })
    }

    fn attach(&mut self) -> Result<Link> {
        listen();
        let algorithm = self.algorithm;
        self.control()?.attach_struct_ops().map_err(|error| refused(algorithm, error))
    }

    fn control(&mut self) -> Result<libbpf_rs::MapMut<'_>> {
        self.object.maps_mut().find(|map| map.name() == CONTROL).ok_or_else(|| lacks(CONTROL))
    }

    /// Pins the objects that outlive this process besides the registration: its connection iterator and its counters.
    fn pin_beside(&mut self, folder: &Path) -> Result<()> {
        let algorithm = self.algorithm;
        let fault = |error: libbpf_rs::Error| refused(algorithm, error);
        let iterator = self.object.progs_mut().find(|program| program.name() == CONNECTIONS);
        let mut link = iterator.ok_or_else(|| lacks(CONNECTIONS))?.attach().map_err(fault)?;
        link.pin(folder.join("connections")).map_err(fault)?;
        let mut maps = self.object.maps_mut();
        let mut counters = maps.find(|map| is_counters(map.name())).ok_or_else(|| lacks(COUNTERS))?;
        counters.pin(folder.join("counters")).map_err(fault)
    }

    /// Reads its counters.
    pub fn counters(&self) -> Option<Counters> {
        counters(&self.object.maps().find(|map| is_counters(map.name()))?)
    }

    /// The kernel's objects, for measurements and tests.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Lists each program with the number of instructions that the verifier processed.
    pub fn verified(&self) -> Vec<(String, u32)> {
        use std::os::fd::AsFd;
        let walked = |program: &libbpf_rs::Program<'_>| {
            let id = libbpf_rs::Program::id_from_fd(program.as_fd()).ok()?;
            libbpf_rs::query::ProgInfoIter::default().find(|info| info.id == id).map(|info| info.verified_insns)
        };
        let programs = self.object.progs();
        programs.map(|program| (program.name().to_string_lossy().into_owned(), walked(&program).unwrap_or(0))).collect()
    }
}

/// Ends the registration that is pinned at a path; the pin itself stays. On kernels with links, removing the pin
/// suffices.
pub fn unregister(pin: &Path) -> Result<()> {
    if has_links() || !pin.exists() {
        return Ok(());
    }
    libbpf_rs::set_print(None);
    let map = libbpf_rs::MapHandle::from_pinned_path(pin);
    delete(&map.map_err(|source| Error::List { what: "the pinned registration", source })?)
}

/// Ends the registration of that name, whichever process made it, on kernels without links.
pub(crate) fn unregister_named(name: &str) -> Result<()> {
    controls().into_iter().filter(|(_, other)| other == name).try_for_each(|(map, _)| delete(&map))
}

fn delete(control: &libbpf_rs::MapHandle) -> Result<()> {
    match control.delete(&0_u32.to_ne_bytes()) {
        // Pinned, but not registered yet, or not any more.
        Err(error) if error.kind() == libbpf_rs::ErrorKind::NotFound => Ok(()),
        other => other.map_err(|source| Error::List { what: "the kernel's registration", source }),
    }
}

/// Reads the counters of a program loaded by another process, from their pin.
pub fn pinned_counters(folder: &Path) -> Option<Counters> {
    libbpf_rs::set_print(None);
    counters(&libbpf_rs::MapHandle::from_pinned_path(folder.join("counters")).ok()?)
}

/// Lists the names of all congestion controls in BPF, whoever loaded them; none without privileges.
pub fn all_in_bpf() -> Vec<String> {
    controls().into_iter().map(|(_, name)| name).collect()
}

/// All congestion controls in BPF, each with its name.
fn controls() -> Vec<(libbpf_rs::MapHandle, String)> {
    libbpf_rs::set_print(None);
    let Some((kind, at)) = name_in_value() else { return Vec::new() };
    let controls = libbpf_rs::query::MapInfoIter::default().filter(|map| map.btf_vmlinux_value_type_id == kind);
    let named = |map: libbpf_rs::query::MapInfo| {
        let map = libbpf_rs::MapHandle::from_map_id(map.id).ok()?;
        let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        let name = value.get(at..at + NAME_MAX)?.split(|byte| *byte == 0).next()?;
        let name = String::from_utf8_lossy(name).into_owned();
        Some((map, name))
    };
    controls.filter_map(named).collect()
}

/// Locates the name in the kernel's type of a registered congestion control.
fn name_in_value() -> Option<(u32, usize)> {
    use libbpf_rs::btf::Btf;
    use libbpf_rs::btf::types::{MemberAttr, Struct};

    let types = Btf::from_vmlinux().ok()?;
    let bytes_to =
        |outer: &Struct<'_>, member: &str| match outer.iter().find(|one| one.name == Some(member.as_ref()))?.attr {
            MemberAttr::Normal { offset } => Some(offset as usize / 8),
            MemberAttr::BitField { .. } => None,
        };
    let value = types.type_by_name::<Struct<'_>>("bpf_struct_ops_tcp_congestion_ops")?;
    let control = types.type_by_name::<Struct<'_>>("tcp_congestion_ops")?;
    Some((value.type_id().into(), bytes_to(&value, "data")? + bytes_to(&control, "name")?))
}

fn counters(map: &impl MapCore) -> Option<Counters> {
    let value = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok()??;
    let word = |at: usize| Some(u64::from_ne_bytes(value.get(at..at + 8)?.try_into().ok()?));
    Some(Counters { begun: word(0)?, without_memory: word(8)?, calls_lost: word(24)? })
}

fn is_counters(name: &std::ffi::OsStr) -> bool {
    name.to_string_lossy().ends_with(COUNTERS)
}

fn lacks(part: &str) -> Error {
    Error::NoPart(part.to_owned())
}

/// Selects the programs to load: those for comparisons are not loaded with a congestion control, nor the reverse.
fn set_loaded_parts(open: &mut OpenObject, purpose: Purpose) -> libbpf_rs::Result<()> {
    for mut program in open.progs_mut() {
        let is_trial = program.name() == TRIAL;
        program.set_autoload(is_trial == (purpose == Purpose::Trial));
    }
    for mut map in open.maps_mut() {
        let is_used = match &*map.name().to_string_lossy() {
            TRIAL_FLOW => purpose == Purpose::Trial,
            CONTROL => purpose != Purpose::Trial,
            CALLS => matches!(purpose, Purpose::Recording(_)),
            _ => continue,
        };
        map.set_autocreate(is_used)?;
        if let (CALLS, Purpose::Recording(bytes)) = (&*map.name().to_string_lossy(), purpose) {
            map.set_max_entries(bytes)?;
        }
    }
    Ok(())
}

/// Sets `struct settings` of `bpf/cc/flow.h` before loading.
fn settle(
    open: &mut OpenObject,
    parameters: &[u32; MAX_PARAMS],
    tick_ns: u64,
    purpose: Purpose,
    kernel: Interface,
) -> Result<()> {
    let records = matches!(purpose, Purpose::Recording(_)).into();
    let words = [tick_ns, records, (kernel.cong_control == 2).into(), (!kernel.has_links).into()];
    let settings = parameters.iter().flat_map(|value| value.to_ne_bytes());
    let settings: Vec<u8> = settings.chain(words.into_iter().flat_map(u64::to_ne_bytes)).collect();
    set(open, SETTINGS, &settings)
}

/// Removes from our `tcp_congestion_ops` what this kernel lacks; fails if the algorithm needs it.
fn adapt(open: &mut OpenObject, kernel: Interface, algorithm: &'static str, purpose: Purpose) -> Result<()> {
    let mut maps = open.maps_mut();
    let mut control = maps.find(|one| one.name() == CONTROL).ok_or_else(|| lacks(CONTROL))?;
    if !kernel.has_links {
        control.set_map_flags(0).map_err(|error| refused(CONTROL, error))?;
    }
    let value = control.initial_value_mut().ok_or_else(|| lacks(CONTROL))?;
    let needs_accurate_ecn = value.get(NAME_MAX).is_some_and(|flags| flags & NEEDS_ACCECN != 0);
    if needs_accurate_ecn && !kernel.has_accurate_ecn && purpose != Purpose::Trial {
        return Err(Error::NoAccurateEcn(algorithm));
    }
    if !kernel.has_tx_start {
        // The last member: see `bpf/kernel.h`.
        let last = value.len().saturating_sub(size_of::<u64>());
        value[last..].fill(0);
    }
    Ok(())
}

/// The first member of our `tcp_congestion_ops`.
fn label(name: &str) -> [u8; NAME_MAX] {
    let mut label = [0; NAME_MAX];
    for (to, from) in label[..NAME_MAX - 1].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    label
}

/// Initialises the first bytes of a map before the program is loaded.
pub(crate) fn set(open: &mut OpenObject, map: &str, bytes: &[u8]) -> Result<()> {
    let mut maps = open.maps_mut();
    let mut found = maps.find(|one| one.name().to_string_lossy().ends_with(map)).ok_or_else(|| lacks(map))?;
    let value = found.initial_value_mut().ok_or_else(|| lacks(map))?;
    value.get_mut(..bytes.len()).ok_or_else(|| lacks(map))?.copy_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_verifiers_last_message_or_libbpfs_first() {
        let verifier = "libbpf: prog 'cc_init': BPF program load failed: Permission denied\nlibbpf: prog 'cc_init': -- BEGIN PROG LOAD LOG --\n\
            0: (79) r6 = *(u64 *)(r1 +0)\nno write support to tcp_sock at off 2352\nprocessed 12 insns (limit 1000000)\n\
            -- END PROG LOAD LOG --\nlibbpf: prog 'cc_init': failed to load: -13\nlibbpf: failed to load object 'bbr1'\n";
        assert_eq!(reason(verifier).as_deref(), Some("no write support to tcp_sock at off 2352"));
        let no_types = "libbpf: kernel doesn't support global data\nlibbpf: failed to load object 'bbr1'\n";
        assert_eq!(reason(no_types).as_deref(), Some("kernel doesn't support global data"));
        assert_eq!(reason(""), None);
    }
}
