//! Loading, unloading and everything between, on this machine's kernel.
//!
//! Each test runs in mount and network namespaces of its own, so that pins, journal and default are private to it.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![cfg(all(feature = "ab", feature = "load"))]

mod ab;
mod undo;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bbrlab_core::AlgorithmConfig;
use bbrlab_host::ab::{AbConfig, Attached, BUCKETS, PORTS_MAX, PREFIXES_MAX, cgroup};
use bbrlab_host::host_paths::HostPaths;
use bbrlab_host::journal::{self, Journal, Phase};
use bbrlab_host::manage::{Host, LoadRequest};
use bbrlab_host::program::Program;
use bbrlab_host::{Error, Result, TrialError, kernel, telemetry};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

/// Marks a process that runs inside its own namespaces, and names the task of a child.
const INSIDE: &str = "BBRLAB_TEST_INSIDE";
const TASK: &str = "BBRLAB_TEST_TASK";

/// Returns true inside the namespaces; false once the test has run there in another process.
fn inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        run("mount", &["-t", "tmpfs", "none", "/run"]);
        run("ip", &["link", "set", "lo", "up"]);
        // Without it DCTCP would hand its connections over to Reno.
        std::fs::write("/proc/sys/net/ipv4/tcp_ecn", "1").unwrap();
        return true;
    }
    let me = std::env::current_exe().unwrap();
    let status = Command::new("unshare")
        .args(["-mn", "--propagation", "private"])
        .arg(me)
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{test}: {status}");
    false
}

fn run(program: &str, arguments: &[&str]) {
    assert!(Command::new(program).args(arguments).status().unwrap().success(), "{program} {arguments:?}");
}

/// A name that no other test on this machine uses.
fn own_name(end: &str) -> String {
    format!("t{}{end}", std::process::id())
}

fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap().into()
}

fn wanted(algorithm: &str, name: &str, as_default: bool) -> LoadRequest {
    LoadRequest { config: AlgorithmConfig::named(algorithm).unwrap(), name: name.to_owned(), as_default }
}

/// Sends a megabyte over loopback with the named congestion control.
fn trial(name: &str) -> Result<(), TrialError> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut sender = TcpStream::connect(listener.local_addr().unwrap())?;
    setsockopt(&sender, sockopt::TcpCongestion, &name.into())?;
    let mut receiver = listener.accept()?.0;
    let reader = thread::spawn(move || receiver.read_to_end(&mut Vec::new()));
    sender.write_all(&vec![1; 1 << 20])?;
    drop(sender);
    match reader.join().unwrap() {
        Ok(count) if count == 1 << 20 => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

fn with<T>(work: impl FnOnce(&Host<'_>) -> T) -> T {
    work(&Host { places: HostPaths::default(), trial: &trial, before: &|_| {} })
}

/// IDs of the congestion controls that the kernel holds as BPF maps.
fn controls() -> BTreeSet<u32> {
    let all = libbpf_rs::query::MapInfoIter::default();
    all.filter(|map| map.ty == libbpf_rs::MapType::StructOps).map(|map| map.id).collect()
}

/// Asserts that nothing of ours is left; programs end a moment after their last socket.
fn assert_nothing_left(name: &str, before: &BTreeSet<u32>, default: &str) {
    assert!(!kernel::available().unwrap().contains(&name.to_owned()), "{name} is still registered");
    assert_eq!(kernel::default().unwrap(), default);
    assert!(journal::entries(&HostPaths::default().state).is_empty());
    assert!(!HostPaths::default().pins().exists(), "pins are left");
    assert!(!HostPaths::default().is_bpffs_mounted(), "the file system of pins is still mounted");
    for _ in 0..400 {
        if controls().is_subset(before) {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("programs are left: {:?}", controls().difference(before));
}

/// Connections on loopback that send continuously; each write is counted.
struct Traffic {
    stop: AtomicBool,
    writes: AtomicU64,
    broken: AtomicU64,
}

impl Traffic {
    fn run(connections: &[(TcpStream, TcpStream)], during: impl FnOnce(&Self)) {
        let traffic = Self { stop: AtomicBool::new(false), writes: AtomicU64::new(0), broken: AtomicU64::new(0) };
        thread::scope(|scope| {
            scope.spawn(|| traffic.drive(connections));
            during(&traffic);
            traffic.stop.store(true, Ordering::SeqCst);
        });
        assert_eq!(traffic.broken.load(Ordering::SeqCst), 0, "connections broke");
    }

    /// Drives the connections: the peer reads every write before the next turn, so data arrives whatever the algorithm.
    fn drive(&self, connections: &[(TcpStream, TcpStream)]) {
        let (block, mut room) = (vec![1; 16_384], vec![0; 16_384]);
        while !self.stop.load(Ordering::SeqCst) {
            for (sender, receiver) in connections {
                let (mut from, mut to) = (sender, receiver);
                let carried = from.write_all(&block).and_then(|()| to.read_exact(&mut room));
                self.broken.fetch_add(u64::from(carried.is_err()), Ordering::SeqCst);
                self.writes.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    fn wait_for(&self, more: u64) {
        let target = self.writes.load(Ordering::SeqCst) + more;
        while self.writes.load(Ordering::SeqCst) < target {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn connect(listener: &TcpListener, count: usize) -> Vec<(TcpStream, TcpStream)> {
    let one = |_| {
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let receiver = listener.accept().unwrap().0;
        for stream in [&sender, &receiver] {
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        }
        (sender, receiver)
    };
    (0..count).map(one).collect()
}

fn used(stream: &TcpStream) -> String {
    getsockopt(stream, sockopt::TcpCongestion).unwrap().to_string_lossy().trim_end_matches('\0').to_owned()
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn live_connections_outlive_what_controlled_them_and_nothing_is_left() {
    if !inside("live_connections_outlive_what_controlled_them_and_nothing_is_left") {
        return;
    }
    let (name, before, default) = (own_name("v3"), controls(), kernel::default().unwrap());
    with(|host| host.load(&wanted("bbr3-linux", &name, true))).unwrap();
    assert_eq!(kernel::default().unwrap(), name);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 4_096, 4_096).unwrap();
    let connections = connect(&listener, 1_000);
    assert!(connections.iter().all(|(sender, receiver)| used(sender) == name && used(receiver) == name));
    Traffic::run(&connections, |traffic| {
        traffic.wait_for(2_000);
        let status = with(|host| host.status()).unwrap();
        assert_eq!((status[0].is_registered, status[0].is_default), (true, true));
        assert_eq!((status[0].connections, status[0].listeners), (Some(2_000), Some(1)));
        assert!(status[0].begun >= Some(2_000));
        let told = telemetry::connections(&HostPaths::default().pins_of(&name).join("connections")).unwrap();
        assert_eq!(told.iter().filter(|one| one.delivered > 1).count(), 1_000, "senders");
        assert!(told.iter().all(|one| one.cwnd > 0 && one.bw_bps < 1 << 40));
        let undone = with(|host| host.unload(&name, None)).unwrap();
        assert_eq!(undone.left, 0);
        assert_eq!(undone.moved, 2_001);
        traffic.wait_for(2_000);
    });
    assert!(connections.iter().all(|(sender, receiver)| used(sender) == default && used(receiver) == default));
    // Connections accepted from now on use the default too.
    assert_eq!(used(&connect(&listener, 1)[0].1), default);
    assert_nothing_left(&name, &before, &default);
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn connections_may_end_by_themselves_before_they_are_moved() {
    if !inside("connections_may_end_by_themselves_before_they_are_moved") {
        return;
    }
    let (name, before, default) = (own_name("d"), controls(), kernel::default().unwrap());
    with(|host| host.load(&wanted("bbr1", &name, true))).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut some, rest) = (connect(&listener, 6), connect(&listener, 1));
    // They end once it waits for them, however long the steps before take.
    let (waits, is_waiting) = std::sync::mpsc::channel();
    let ends = thread::spawn(move || {
        is_waiting.recv().unwrap();
        thread::sleep(Duration::from_millis(400));
        some.clear();
    });
    let before_step = |step: &str| {
        if step == "wait for its connections" {
            waits.send(()).unwrap();
        }
    };
    let host = Host { places: HostPaths::default(), trial: &trial, before: &before_step };
    let undone = host.unload(&name, Some(Duration::from_secs(5))).unwrap();
    ends.join().unwrap();
    assert!(undone.drained >= 6, "{undone:?}");
    assert_eq!((undone.left, used(&rest[0].0), used(&rest[0].1)), (0, default.clone(), default.clone()));
    assert_nothing_left(&name, &before, &default);
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn every_algorithm_loads_carries_data_and_goes() {
    if !inside("every_algorithm_loads_carries_data_and_goes") {
        return;
    }
    let (before, default) = (controls(), kernel::default().unwrap());
    for (algorithm, _) in bbrlab_host::objects::OBJECTS {
        let name = own_name("a");
        if needs_more_than_this_kernel(algorithm) {
            let refused = with(|host| host.load(&wanted(algorithm, &name, false))).unwrap_err();
            assert!(refused.to_string().contains("accurate ECN"), "{refused}");
            assert_nothing_left(&name, &before, &default);
            continue;
        }
        with(|host| host.load(&wanted(algorithm, &name, false))).unwrap_or_else(|fault| panic!("{algorithm}: {fault}"));
        assert!(matches!(with(|host| host.load(&wanted(algorithm, &name, false))), Err(Error::NameTaken(_))));
        with(|host| host.unload(&name, None)).unwrap();
        assert_nothing_left(&name, &before, &default);
    }
}

/// True for Prague on a kernel without accurate ECN.
fn needs_more_than_this_kernel(algorithm: &str) -> bool {
    let parts = bbrlab_host::ability::parts();
    algorithm == "prague" && parts.iter().any(|part| part.name == "accurate ECN" && !part.works)
}

/// Goal: a machine that can load reports no missing capability; kernel hooks are counted, not guessed.
#[test]
#[ignore = "needs the right to load BPF programs"]
fn a_machine_that_can_load_reports_no_missing_capability() {
    let parts = bbrlab_host::ability::parts();
    let lacking: Vec<_> = parts.iter().filter(|part| part.name.starts_with("load: ") && !part.works).collect();
    assert!(parts.len() > 7 && lacking.is_empty(), "{lacking:?}");
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn what_is_bpf_is_told_from_the_kernels_own_whoever_loaded_it() {
    let name = own_name("o");
    let registered = Program::load(&AlgorithmConfig::named("reno").unwrap(), &name).unwrap().register().unwrap();
    let found = bbrlab_host::program::all_in_bpf();
    assert!(found.contains(&name) && !found.contains(&"reno".to_owned()), "{found:?}");
    drop(registered);
    assert!(!kernel::available().unwrap().contains(&name));
}

/// Goal: far below the verifier's limit of a million instructions. Other kernels' verifiers, which take other paths,
/// then accept the programs too.
#[test]
#[ignore = "needs the right to load BPF programs"]
fn the_kernel_verifies_each_program_soon() {
    for (algorithm, _) in bbrlab_host::objects::OBJECTS {
        let config = AlgorithmConfig::named(algorithm).unwrap();
        let begun = now();
        let program = match Program::load(&config, &own_name("v")) {
            Err(Error::NoAccurateEcn(_)) if needs_more_than_this_kernel(algorithm) => continue,
            program => program.unwrap_or_else(|fault| panic!("{algorithm}: {fault}")),
        };
        let took = now() - begun;
        let verified = program.verified();
        let (slowest, max) = verified.iter().max_by_key(|(_, walked)| *walked).unwrap();
        println!("{algorithm:<11} {max:>7} instructions of {slowest}, {} ms", took.as_millis());
        assert!((1..200_000).contains(max), "{algorithm}: {slowest} takes {max}");
    }
}

/// Task of a process that will be killed: load, unload or drain, up to a step.
#[test]
#[ignore = "a part of the next test"]
fn child() {
    let Ok(task) = std::env::var(TASK) else { return };
    let mut words = task.split(' ');
    let (what, name) = (words.next().unwrap(), words.next().unwrap());
    let last: u32 = words.next().unwrap().parse().unwrap();
    let step = Cell::new(0);
    let before = |_: &str| {
        step.set(step.get() + 1);
        if step.get() == last {
            kill(Pid::this(), Signal::SIGKILL).unwrap();
        }
    };
    let host = Host { places: HostPaths::default(), trial: &trial, before: &before };
    match what {
        "load" => host.load(&wanted("bbr1", name, true)).unwrap(),
        "drain" => assert_eq!(host.unload(name, Some(Duration::ZERO)).unwrap().left, 0),
        _ => assert_eq!(host.unload(name, None).unwrap().left, 0),
    }
}

/// Returns false if the child was killed at that step.
fn child_ends(what: &str, name: &str, step: u32) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--test-threads=1"])
        .env(TASK, format!("{what} {name} {step}"))
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success() || status.signal() == Some(9), "{what} up to step {step}: {status}");
    status.success()
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn killed_at_any_step_it_is_undone_or_finished_by_the_next_command() {
    if !inside("killed_at_any_step_it_is_undone_or_finished_by_the_next_command") {
        return;
    }
    let (before, default) = (controls(), kernel::default().unwrap());
    let name = own_name("k");
    let mut steps = [0, 0];
    for (nth, what) in ["load", "unload"].into_iter().enumerate() {
        for step in 1.. {
            if what == "unload" {
                with(|host| host.load(&wanted("bbr1", &name, true))).unwrap();
            }
            let ended = child_ends(what, &name, step);
            // The host works whatever was left behind: connections start and carry data.
            trial(&default).unwrap();
            if ended {
                steps[nth] = step;
                break;
            }
            let recovered = with(|host| host.recover_if_idle()).unwrap();
            let is_loaded = with(|host| host.status()).unwrap().iter().any(|one| one.entry.phase == Phase::Loaded);
            if is_loaded {
                // Killed before it recorded its intent: nothing was started.
                assert!(!recovered && what == "unload" && step == 1, "{what}, step {step}");
                with(|host| host.unload(&name, None)).unwrap();
            }
            assert_nothing_left(&name, &before, &default);
        }
        with(|host| host.unload(&name, None)).ok();
        assert_nothing_left(&name, &before, &default);
    }
    println!("killed before each of {} steps of load and {} of unload", steps[0] - 1, steps[1] - 1);
    assert!(steps[0] > 8 && steps[1] > 6, "{steps:?}");
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn a_second_command_waits_for_the_first() {
    if !inside("a_second_command_waits_for_the_first") {
        return;
    }
    let (before, default) = (controls(), kernel::default().unwrap());
    let names: Vec<String> = ["x", "y", "z"].into_iter().map(own_name).collect();
    thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| with(|host| host.load(&wanted("reno", name, false))).unwrap());
        }
    });
    assert_eq!(with(|host| host.status()).unwrap().len(), 3);
    thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| with(|host| host.unload(name, None)).unwrap());
        }
    });
    names.iter().for_each(|name| assert_nothing_left(name, &before, &default));
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn what_fails_leaves_nothing() {
    if !inside("what_fails_leaves_nothing") {
        return;
    }
    let (name, before, default) = (own_name("f"), controls(), kernel::default().unwrap());
    let broken = Host { places: HostPaths::default(), trial: &|_| Err("no data came".into()), before: &|_| {} };
    let fault = broken.load(&wanted("bbr1", &name, true)).unwrap_err();
    assert!(matches!(fault, Error::Trial(_)) && fault.to_string().contains("no data came"));
    assert_nothing_left(&name, &before, &default);
    // A trial that sends its data with another congestion control proves nothing.
    let lazy = Host { places: HostPaths::default(), trial: &|_| Ok(()), before: &|_| {} };
    assert!(matches!(lazy.load(&wanted("bbr1", &name, false)), Err(Error::TrialUnused)));
    assert_nothing_left(&name, &before, &default);
    // No space for the journal: refused before any change.
    fs::create_dir_all("/run/bbrlab").unwrap();
    run("mount", &["-t", "tmpfs", "-o", "size=8k,mode=0755", "none", "/run/bbrlab"]);
    fs::write("/run/bbrlab/filler", vec![0; 8_192]).unwrap();
    assert!(matches!(with(|host| host.load(&wanted("bbr1", &name, false))), Err(Error::File { .. })));
    assert_nothing_left(&name, &before, &default);
    // Full after loading: it can still be unloaded.
    fs::remove_file("/run/bbrlab/filler").unwrap();
    with(|host| host.load(&wanted("bbr1", &name, true))).unwrap();
    let _ = fs::write("/run/bbrlab/filler", vec![0; 8_192]);
    with(|host| host.unload(&name, None)).unwrap();
    assert_nothing_left(&name, &before, &default);
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn notes_that_are_lost_come_back_from_the_pins_and_those_of_pins_out_of_sight_stay() {
    if !inside("notes_that_are_lost_come_back_from_the_pins_and_those_of_pins_out_of_sight_stay") {
        return;
    }
    let (name, before, default) = (own_name("n"), controls(), kernel::default().unwrap());
    with(|host| host.load(&wanted("bbr1", &name, true))).unwrap();
    // A command in another mount namespace sees the notes and no pins: `ip netns exec` mounts no BPF file system there, a
    // container one of its own.
    for kind in ["tmpfs", "bpf"] {
        unshare_mounts_and(|| {
            run("mount", &["-t", kind, "none", "/sys/fs/bpf"]);
            assert!(!with(|host| host.recover_if_idle()).unwrap(), "{kind}");
            let found = &with(|host| host.status()).unwrap()[0];
            assert!(found.is_registered && found.is_default, "{kind}");
        });
    }
    fs::remove_dir_all("/run/bbrlab").unwrap();
    with(|host| host.recover_if_idle()).unwrap();
    let found = &with(|host| host.status()).unwrap()[0];
    assert_eq!((found.entry.name.as_str(), found.entry.algorithm.as_str()), (name.as_str(), "unknown"));
    with(|host| host.unload(&name, None)).unwrap();
    assert_ne!(kernel::default().unwrap(), name);
    kernel::set_default(&default).unwrap();
    // Who mounted the file system of pins was lost with the notes.
    run("umount", &["/sys/fs/bpf"]);
    assert_nothing_left(&name, &before, &default);
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn nobody_else_can_hold_the_lock_or_write_where_notes_are_trusted() {
    use std::os::unix::fs::PermissionsExt;
    if !inside("nobody_else_can_hold_the_lock_or_write_where_notes_are_trusted") {
        return;
    }
    let (name, before, default) = (own_name("p"), controls(), kernel::default().unwrap());
    fs::create_dir("/run/bbrlab").unwrap();
    fs::set_permissions("/run/bbrlab", fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(with(|host| host.load(&wanted("bbr1", &name, false))), Err(Error::NotOurs(_))));
    assert_nothing_left(&name, &before, &default);
    fs::set_permissions("/run/bbrlab", fs::Permissions::from_mode(0o755)).unwrap();
    with(|host| host.load(&wanted("bbr1", &name, false))).unwrap();
    assert_eq!(fs::metadata("/run/bbrlab/lock").unwrap().permissions().mode() & 0o777, 0o600);
    with(|host| host.unload(&name, None)).unwrap();
    assert_nothing_left(&name, &before, &default);
}

/// Runs a part in a mount namespace of its own.
fn unshare_mounts_and(part: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let own = scope.spawn(|| {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_FS | nix::sched::CloneFlags::CLONE_NEWNS).unwrap();
            part();
        });
        own.join().unwrap();
    });
}

/// `BBRLAB_LOADS` sets the number of rounds (default 20).
#[test]
#[ignore = "needs the right to load BPF programs"]
fn loads_and_unloads_in_a_row_break_no_connection_and_leave_nothing() {
    if !inside("loads_and_unloads_in_a_row_break_no_connection_and_leave_nothing") {
        return;
    }
    let (name, before, default) = (own_name("n"), controls(), kernel::default().unwrap());
    let count = std::env::var("BBRLAB_LOADS").map_or(20, |text| text.parse().unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let old = connect(&listener, 20);
    // DCTCP hands a connection without ECN over to Reno, as the kernel's own does.
    let needs_ecn = |algorithm: &str| ["dctcp", "prague"].contains(&algorithm);
    let objects: Vec<_> = bbrlab_host::objects::OBJECTS.iter().filter(|(name, _)| !needs_ecn(name)).collect();
    let begun = now();
    Traffic::run(&old, |traffic| {
        for nth in 0..count {
            let (algorithm, _) = objects[nth % objects.len()];
            with(|host| host.load(&wanted(algorithm, &name, true)))
                .unwrap_or_else(|fault| panic!("load {nth}: {fault}"));
            // Some of the old connections, and new ones, switch to it and back.
            setsockopt(&old[nth % old.len()].0, sockopt::TcpCongestion, &name.as_str().into()).unwrap();
            let new = connect(&listener, 3);
            assert!(new.iter().all(|(sender, _)| used(sender) == name));
            Traffic::run(&new, |more| more.wait_for(6));
            traffic.wait_for(20);
            let undone = with(|host| host.unload(&name, None)).unwrap_or_else(|fault| panic!("unload {nth}: {fault}"));
            assert_eq!(undone.left, 0, "unload {nth}");
        }
    });
    println!("{count} loads and unloads under traffic in {} s", (now() - begun).as_secs());
    assert!(old.iter().all(|(sender, receiver)| used(sender) == default && used(receiver) == default));
    assert_nothing_left(&name, &before, &default);
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn a_kernel_without_types_is_refused_before_anything_is_done() {
    if !inside("a_kernel_without_types_is_refused_before_anything_is_done") {
        return;
    }
    let (name, before, default) = (own_name("b"), controls(), kernel::default().unwrap());
    run("mount", &["-t", "tmpfs", "none", "/sys/kernel/btf"]);
    let fault = with(|host| host.load(&wanted("bbr1", &name, true))).unwrap_err();
    assert!(fault.to_string().contains("CONFIG_DEBUG_INFO_BTF"), "{fault}");
    assert!(with(|host| host.status()).unwrap().is_empty());
    assert!(bbrlab_host::ability::parts().iter().any(|part| part.name == "load: types" && !part.works));
    assert_nothing_left(&name, &before, &default);
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn without_rights_it_says_what_is_missing() {
    if !inside("without_rights_it_says_what_is_missing") {
        return;
    }
    let journal = Journal::open(&HostPaths::default().state, Duration::ZERO).unwrap();
    drop(journal);
    let status = Command::new("setpriv")
        .args(["--reuid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"])
        .arg("env")
        .arg(format!("{TASK}=1"))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "nobody", "--ignored"])
        .status()
        .unwrap();
    assert!(status.success());
}

/// The part of the test above that runs without privileges.
#[test]
#[ignore = "a part of the test above"]
fn nobody() {
    if std::env::var(TASK).is_err() {
        return;
    }
    let fault = with(|host| host.load(&wanted("bbr1", "nobody", false))).unwrap_err();
    assert!(fault.to_string().contains("root"), "{fault}");
    assert!(with(|host| host.status()).unwrap().is_empty());
}

/// Goal: the verifier accepts the program with every plan. It treats the settings as constants, so it takes other paths
/// for other plans.
#[test]
#[ignore = "needs the right to load BPF programs"]
fn the_kernel_verifies_the_program_whatever_it_is_told() {
    let group = cgroup(None).unwrap().join(format!("bbrlab-test-{}-plans", std::process::id()));
    fs::create_dir(&group).unwrap();
    for nth in 0..72_usize {
        let plan = AbConfig {
            key: [1, 2],
            by: (nth % 4) as u32,
            rule: 0,
            slot: Duration::from_secs(1),
            active: nth / 4 % 3 != 0,
            passive: nth / 4 % 3 != 1,
            ports: (0..[0, 1, PORTS_MAX as u16][nth / 12 % 3]).collect(),
            prefixes: vec![("192.0.2.0".parse().unwrap(), 24); [0, PREFIXES_MAX][nth / 36]],
            keep: (24, 48),
            names: vec!["cubic".to_owned(), "reno".to_owned()],
        };
        let attached = Attached::new(&group, &plan, &[0; BUCKETS], 0, None);
        let counters = attached.map(|attached| (attached.counters().unwrap(), attached.open().unwrap()));
        let (counters, open) = counters.unwrap_or_else(|fault| panic!("{plan:?}: {fault}"));
        assert_eq!((counters.arms.len(), counters.lost, open.len()), (2, 0, 0));
    }
    fs::remove_dir(group).unwrap();
}
