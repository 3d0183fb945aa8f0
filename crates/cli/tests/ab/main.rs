//! `bbrlab ab` on this machine's kernel. Each test has a cgroup, a mount namespace and a network namespace of its own.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![cfg(all(feature = "host", feature = "parquet"))]

#[macro_use]
mod place;
mod integrity;
mod policy;
mod rule;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use bbrlab_live::clock;
use bbrlab_study::ab::{Assigner, AssignmentUnit, PrefixLengths, Row, Shares, Table, record};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage};
use nix::unistd::Pid;

use place::*;

/// The records of the first table.
fn table(place: &Place) -> Vec<Row> {
    let mut rows = Vec::new();
    let file = fs::File::open(place.out().join("connections-00001.parquet")).unwrap();
    record::read(file, record::FIELDS, |some| rows.extend_from_slice(some)).unwrap();
    rows
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn each_connection_has_the_arm_that_its_hash_gives_and_is_recorded() {
    inside!("each_connection_has_the_arm_that_its_hash_gives_and_is_recorded");
    let place = Place::new("hash");
    let (named, other) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let child = place.start(&named, &["--arms", "cubic,reno,bbr1", "--split", "50,30,20"]);
    let key = fs::read_to_string(place.out().join("key")).unwrap().parse().unwrap();
    let assigner = Assigner { key, by: AssignmentUnit::Connection, keep: PrefixLengths::default() };
    let mut table = Table::new(&Shares::parse("50,30,20", 3).unwrap());
    let mut seen = [0_u64; 3];
    let mut serve = |table: &Table, count: usize| {
        for _ in 0..count {
            let mut pair = connect(&named);
            let arm = table.arm(assigner.bucket(pair.from, named.local_addr().unwrap(), 0)).unwrap();
            assert_eq!(pair.used(), ["cubic", "reno", "bbr1"][usize::from(arm)]);
            seen[usize::from(arm)] += 1;
            pair.carry(20_000);
            pair.close();
        }
    };
    serve(&table, 300);
    let split = place.bbrlab(&["ab", "split", "10,45,45"]);
    assert!(split.status.success(), "{}", String::from_utf8_lossy(&split.stderr));
    table = table.changed(&Shares::parse("10,45,45", 3).unwrap());
    serve(&table, 300);
    // Connections outside the filter keep the default; those open at the end are recorded too.
    assert_eq!(connect(&other).used(), default());
    let mut open = connect(&named);
    let arm = table.arm(assigner.bucket(open.from, named.local_addr().unwrap(), 0)).unwrap();
    seen[usize::from(arm)] += 1;
    open.carry(4_000_000);
    let status = String::from_utf8(place.bbrlab(&["ab", "status"]).stdout).unwrap();
    assert!(status.contains("runs (process") && status.contains("split 10,45,45"), "{status}");
    let (said, _) = interrupt(child);
    assert!(said.contains("601 connections") && said.contains(" 0 lost"), "{said}");
    place.assert_nothing_acts();
    assert!(!available().contains("bbr1"), "what was loaded for the test is still there");
    assert_eq!(connect(&named).used(), default());
    open.carry(4_000_000);
    let report = place.report();
    assert_eq!(report["sample_ratio"]["seen"], serde_json::json!(seen));
    assert_eq!((&report["connections"], &report["sample_ratio"]["is_mismatch"]), (&601.into(), &false.into()));
    let arms = report["arms"].as_array().unwrap();
    let sum = |key: &str| arms.iter().map(|arm| arm[key].as_u64().unwrap()).sum::<u64>();
    // Each end's FIN is acknowledged, and so counts a byte.
    assert!((16_000_000..16_001_000).contains(&sum("bytes_acked")) && sum("open") == 1, "{arms:?}");
    assert!(
        arms.iter()
            .all(|arm| arm["min_rtt_ms"].as_f64().unwrap() > 0.0 && arm["refused"] == 0 && arm["overridden"] == 0)
    );
    assert!(arms.iter().all(|arm| arm["handshakes_failed"] == 0.0), "{arms:?}");
    assert!(place.out().join("connections-00001.parquet").exists() && !place.out().join("records.open").exists());
    assert_eq!(
        String::from_utf8(place.bbrlab(&["ab", "status"]).stdout).unwrap(),
        "no test is running, and none was left behind\n"
    );
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn killed_it_leaves_connections_the_default_and_its_records() {
    inside!("killed_it_leaves_connections_the_default_and_its_records");
    let place = Place::new("kill");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut child = place.start(&listener, &["--arms", "reno,bbr3-linux"]);
    let mut open: Vec<Pair> = (0..20).map(|_| connect(&listener)).collect();
    assert!(open.iter().any(|pair| pair.used() == "bbr3_linux") && open.iter().any(|pair| pair.used() == "reno"));
    for _ in 0..100 {
        let mut pair = connect(&listener);
        pair.carry(1_000);
        pair.close();
    }
    thread::sleep(Duration::from_millis(500));
    child.kill().unwrap();
    child.wait().unwrap();
    place.assert_nothing_acts();
    assert_eq!(connect(&listener).used(), default());
    assert!(!available().contains("bbr3_linux"));
    open.iter_mut().for_each(|pair| pair.carry(100_000));
    let split = place.bbrlab(&["ab", "split", "50,50"]);
    assert_eq!(split.status.code(), Some(2));
    // The records can be read before the clean-up, and after.
    assert!(place.report()["connections"].as_u64().unwrap() >= 100);
    let status = String::from_utf8(place.bbrlab(&["ab", "status"]).stdout).unwrap();
    assert!(status.contains("ended without notice"), "{status}");
    assert!(place.report()["connections"].as_u64().unwrap() >= 100);
    assert!(!Path::new("/run/bbrlab/ab").exists());
    assert_eq!(
        String::from_utf8(place.bbrlab(&["ab", "status"]).stdout).unwrap(),
        "no test is running, and none was left behind\n"
    );
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn a_full_disk_costs_records_that_are_counted_and_no_connection() {
    inside!("a_full_disk_costs_records_that_are_counted_and_no_connection");
    let place = Place::new("full");
    fs::create_dir(place.out()).unwrap();
    run("mount", &["-t", "tmpfs", "-o", "size=64k", "none", place.out().to_str().unwrap()]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let child = place.start(&listener, &["--arms", "cubic,reno"]);
    let pid = Pid::from_raw(child.id().cast_signed());
    // More records than fit, at once: as many as there is space for are kept.
    kill(pid, Signal::SIGSTOP).unwrap();
    for _ in 0..600 {
        let mut pair = connect(&listener);
        pair.carry(1_000);
        pair.close();
    }
    kill(pid, Signal::SIGCONT).unwrap();
    thread::sleep(Duration::from_millis(1_500));
    // No block is left for the request file.
    let filler = fs::File::create(place.out().join("filler")).unwrap();
    while (&filler).write(&[0; 512]).is_ok_and(|written| written > 0) {}
    drop(filler);
    let stop = place.bbrlab(&["ab", "stop"]);
    assert!(stop.status.success(), "{}", String::from_utf8_lossy(&stop.stderr));
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("records are being lost: No space left on device"), "{said}");
    assert_eq!(said.matches("records are being lost").count(), 1, "{said}");
    place.assert_nothing_acts();
    let found = place.report();
    let kept = found["connections"].as_u64().unwrap();
    assert!((100..400).contains(&kept), "{kept}");
    run("umount", &[place.out().to_str().unwrap()]);
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn a_test_that_cannot_be_listed_leaves_its_directory_empty() {
    inside!("a_test_that_cannot_be_listed_leaves_its_directory_empty");
    let place = Place::new("unlisted");
    fs::write("/run/bbrlab", "").unwrap(); // where the list of tests has its directory
    let cgroup = place.cgroup.to_str().unwrap();
    let output = place.bbrlab(&["ab", "start", "--arms", "cubic,reno", "--cgroup", cgroup, "--out", "out"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("bbrlab: /run/bbrlab: ") && said.lines().count() == 1, "{said}");
    assert_eq!(fs::read_dir(place.out()).unwrap().count(), 0);
    place.assert_nothing_acts();
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn another_program_on_the_hook_is_left_alone_and_a_cgroup_that_goes_ends_the_test() {
    inside!("another_program_on_the_hook_is_left_alone_and_a_cgroup_that_goes_ends_the_test");
    let place = Place::new("hook");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let first = place.start(&listener, &["--arms", "reno,reno"]);
    let cgroup = place.cgroup.to_str().unwrap();
    let second = place.bbrlab(&["ab", "start", "--arms", "cubic,cubic", "--cgroup", cgroup, "--out", "second"]);
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(2));
    assert!(said.contains("another program already acts on its connections") && said.lines().count() == 1, "{said}");
    let both =
        ["ab", "start", "--arms", "cubic,cubic", "--cgroup", cgroup, "--out", "third", "--multi", "--stop-after", "1s"];
    assert!(place.bbrlab(&both).status.success());
    assert_eq!(connect(&listener).used(), "reno");
    move_to(&place.root, first.id());
    place.enter(&place.root);
    fs::remove_dir(&place.cgroup).unwrap();
    let output = first.wait_with_output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("its cgroup was removed"));
    let report = place.report();
    assert_eq!((&report["is_aa"], &report["connections"]), (&true.into(), &1.into()));
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn an_arm_that_is_far_slower_is_stopped_and_the_control_gets_its_share() {
    inside!("an_arm_that_is_far_slower_is_stopped_and_the_control_gets_its_share");
    let place = Place::new("guard");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let child = place.start(&listener, &["--arms", "cubic,reno"]);
    let stopped = || String::from_utf8(place.bbrlab(&["ab", "status"]).stdout).unwrap().contains("was stopped");
    let mut served = 0;
    while !stopped() {
        for _ in 0..100 {
            let mut pair = connect(&listener);
            // Loopback makes no algorithm slow; a client that reads late does.
            pair.pause = if pair.used() == "reno" { Duration::from_millis(20) } else { Duration::ZERO };
            pair.carry(2_000_000);
            pair.close();
        }
        served += 100;
        assert!(served < 2_000, "nothing was stopped");
    }
    assert!((0..50).all(|_| connect(&listener).used() == "cubic"));
    let (_, said) = interrupt(child);
    assert!(said.contains("reno was stopped: it "), "{said}");
    let notes = place.report()["notes"].to_string();
    assert!(notes.contains("Split 100,0") && notes.contains("was stopped"), "{notes}");
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn times_in_the_states_of_our_algorithms_add_up_to_the_connection() {
    inside!("times_in_the_states_of_our_algorithms_add_up_to_the_connection");
    let place = Place::new("states");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let child = place.start(&listener, &["--arms", "cubic,bbr1,bbr3-linux,bbr3", "--split", "25,25,25,25"]);
    let mut seen = [0; 4];
    let mut open = Vec::new();
    while seen.iter().any(|&count| count < 4) {
        let mut pair = connect(&listener);
        let arm = ["cubic", "bbr1", "bbr3_linux", "bbr3"].iter().position(|name| *name == pair.used()).unwrap();
        seen[arm] += 1;
        // The first connections send enough to end Startup, however busy the machine is.
        let bytes = if seen[arm] == 1 { 20_000_000 } else { 300_000 };
        for _ in 0..3 {
            pair.carry(bytes);
            thread::sleep(Duration::from_millis(5));
        }
        // Some stay open, so that their first record is made while they are.
        if seen[arm] == 1 {
            open.push(pair);
        } else {
            pair.close();
        }
    }
    thread::sleep(Duration::from_millis(2_500));
    open.into_iter().for_each(Pair::close);
    interrupt(child);
    let rows = table(&place);
    assert!(rows.iter().filter(|row| row.is_open).count() >= 4 && rows.len() >= 20, "{}", rows.len());
    for row in &rows {
        let Some(times) = row.state_us else {
            assert_eq!(row.arm, 0, "{row:?}");
            continue;
        };
        // The connection starts some microseconds before its algorithm; each time is rounded down.
        let sum: u64 = times.iter().sum();
        assert!(sum <= row.lasted_us && sum + 1_000 > row.lasted_us, "{sum} of {row:?}");
        assert!(row.arm > 0 && times[0] > 0, "{row:?}");
        // Loopback fills in no time; BBRv1 was never in a state that it does not have.
        assert!(row.arm > 1 || times[2] == 0, "{row:?}");
    }
    let left_startup = rows.iter().filter_map(|row| row.state_us).filter(|times| times[1..].iter().any(|&us| us > 0));
    assert!(left_startup.count() > 0);
    let shares = |arm: usize| place.report()["arms"][arm]["state_shares"].clone();
    assert!(shares(0).is_null());
    let total: f64 = shares(2).as_object().unwrap().values().map(|share| share.as_f64().unwrap()).sum();
    assert!((total - 1.0).abs() < 1e-9, "{total}");
}

/// Connects from one local address to another.
fn connect_to(from: IpAddr, at: SocketAddr, listener: &TcpListener) -> Pair {
    let family = if from.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket::socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(from, 0))).unwrap();
    socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(at)).unwrap();
    let (server, from) = listener.accept().unwrap();
    Pair { client: socket.into(), server, from, pause: Duration::ZERO }
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn clients_of_one_network_have_one_arm_in_either_family_and_a_class_in_the_report() {
    inside!("clients_of_one_network_have_one_arm_in_either_family_and_a_class_in_the_report");
    let place = Place::new("prefix");
    for network in 0..12 {
        run("ip", &["addr", "add", &format!("2001:db8:{network}::1/128"), "dev", "lo", "nodad"]);
    }
    // Accepts connections of both families, as most servers do.
    let listener = TcpListener::bind("[::]:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // With a random key, all networks of a class have the same arm in one test of eight, and nothing is compared.
    let key_file = place.dir.join("key");
    fs::write(&key_file, "000102030405060708090a0b0c0d0e0f").unwrap();
    let key_flag = ["--key", key_file.to_str().unwrap()];
    let child = place.start(&listener, &[&["--arms", "cubic,reno", "--by", "client-prefix"], &key_flag[..]].concat());
    let key = fs::read_to_string(place.out().join("key")).unwrap().parse().unwrap();
    let assigner = Assigner { key, by: AssignmentUnit::ClientPrefix, keep: PrefixLengths::default() };
    let table = Table::new(&Shares::parse("50,50", 2).unwrap());
    let mut arms = [0; 2];
    for network in 0..12 {
        let own: [IpAddr; 3] = [
            format!("127.0.{network}.5").parse().unwrap(),
            format!("127.0.{network}.9").parse().unwrap(),
            format!("2001:db8:{network}::1").parse().unwrap(),
        ];
        for from in own {
            let at: SocketAddr =
                if from.is_ipv4() { ([127, 0, 0, 1], port).into() } else { ([0, 0, 0, 0, 0, 0, 0, 1], port).into() };
            let mut pair = connect_to(from, at, &listener);
            let arm = usize::from(table.arm(assigner.bucket(pair.from, at, 0)).unwrap());
            assert_eq!(pair.used(), ["cubic", "reno"][arm], "{from}");
            arms[arm] += 1;
            pair.carry(20_000);
            pair.close();
        }
    }
    assert!(arms.iter().all(|&count| count > 0), "{arms:?}");
    interrupt(child);
    fs::write(place.dir.join("classes"), "127.0.0.0/21 near\n127.0.0.0/16 loop\n2001:db8::/32 six\n").unwrap();
    let output = place.bbrlab(&["ab", "report", "out", "--classes", "classes", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |class: &str| {
        let own = found["gains"].as_array().unwrap().iter().find(|line| line["class"] == format!("clients {class}"));
        own.map_or(0, |line| line["connections"].as_u64().unwrap() + line["control_connections"].as_u64().unwrap())
    };
    assert_eq!((of("near"), of("loop"), of("six"), &found["unclassed"]), (16, 8, 12, &0.into()));
}

/// A listener in a network namespace without a process, linked with ours.
fn listen_elsewhere() -> TcpListener {
    let me = std::process::id().to_string();
    let listener = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        run("ip", &["link", "add", "there", "type", "veth", "peer", "name", "here", "netns", &me]);
        run("ip", &["addr", "add", "192.0.2.1/30", "dev", "there"]);
        run("ip", &["link", "set", "there", "up"]);
        TcpListener::bind("192.0.2.1:0").unwrap()
    });
    let listener = listener.join().unwrap();
    run("ip", &["addr", "add", "192.0.2.2/30", "dev", "here"]);
    run("ip", &["link", "set", "here", "up"]);
    listener
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn a_connection_that_nobody_holds_in_a_namespace_without_a_process_is_recorded_while_open() {
    inside!("a_connection_that_nobody_holds_in_a_namespace_without_a_process_is_recorded_while_open");
    let place = Place::new("orphan");
    let listener = listen_elsewhere();
    let child = place.start(&listener, &["--arms", "cubic,reno"]);
    // The peer reads nothing, so the written data stays, and the socket with it, after it is closed.
    let Pair { client, mut server, .. } = connect(&listener);
    server.set_nonblocking(true).unwrap();
    while server.write(&[1; 65_536]).is_ok_and(|written| written > 0) {}
    drop((server, listener));
    let closed_ns = clock::wall_ns();
    thread::sleep(Duration::from_millis(2_500));
    let (said, _) = interrupt(child);
    assert!(said.contains("1 connection,") && !said.contains(" 0 records"), "{said}");
    let rows = table(&place);
    assert!(rows.iter().any(|row| row.is_open && row.begun_unix_ns + 1_000 * row.lasted_us > closed_ns), "{rows:?}");
    assert!(rows.iter().all(|row| row.is_open && row.bytes_acked > 0), "{rows:?}");
    drop(client);
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn many_open_connections_are_each_recorded_once_at_each_look() {
    inside!("many_open_connections_are_each_recorded_once_at_each_look");
    run("prlimit", &["--pid", &std::process::id().to_string(), "--nofile=4096:"]);
    let place = Place::new("many");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let child = place.start(&listener, &["--arms", "cubic,reno"]);
    // More than the kernel returns in one call.
    let open: Vec<Pair> = (0..1_500).map(|_| connect(&listener)).collect();
    thread::sleep(Duration::from_millis(2_500));
    interrupt(child);
    let mut seen = BTreeMap::<u64, Vec<u32>>::new();
    table(&place).iter().for_each(|row| seen.entry(row.id).or_default().push(row.nth));
    assert_eq!(seen.len(), open.len());
    let odd: Vec<_> = seen.iter().filter(|(_, nth)| !nth.starts_with(&[1, 2])).collect();
    assert!(odd.is_empty(), "{odd:?}");
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn connections_that_begin_in_one_slot_of_time_have_one_arm() {
    inside!("connections_that_begin_in_one_slot_of_time_have_one_arm");
    let place = Place::new("time");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let child = place.start(&listener, &["--arms", "cubic,reno", "--by", "time", "--slot", "1s"]);
    let key = fs::read_to_string(place.out().join("key")).unwrap().parse().unwrap();
    let assigner = Assigner { key, by: AssignmentUnit::Time, keep: PrefixLengths::default() };
    let table = Table::new(&Shares::parse("50,50", 2).unwrap());
    let slot = || clock::now_ns() / 1_000_000_000;
    let mut seen = [0; 2];
    // Both arms occur in twenty slots, except once in half a million runs.
    for _ in 0..200 {
        let before = slot();
        let pair = connect(&listener);
        if slot() == before {
            let arm =
                usize::from(table.arm(assigner.bucket(pair.from, listener.local_addr().unwrap(), before)).unwrap());
            assert_eq!(pair.used(), ["cubic", "reno"][arm]);
            seen[arm] += 1;
        }
        pair.close();
        if seen.iter().all(|&count| count > 0) {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
    interrupt(child);
    assert_eq!(place.report()["by"], "time");
}
