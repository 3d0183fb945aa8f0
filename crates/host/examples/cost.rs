//! What our algorithms cost in this kernel, beside its own BBR called from the same hooks: nanoseconds a call by the kernel's own
//! statistics, and CPU seconds a gigabyte, over loopback in a network namespace of its own, in turns.
//!
//! usage: cost [TURNS [MEGABYTES]]    as root
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;

use bbrlab_core::AlgorithmConfig;
use bbrlab_host::objects::OBJECTS;
use bbrlab_host::program::Program;
use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::socket::{setsockopt, sockopt};

const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// Calls and nanoseconds of the program that handles an ACK.
fn spent(program: &Program) -> (u64, u64) {
    let handler = program
        .object()
        .progs()
        .find(|one| ["cc_cong_control", "cc_cong_avoid"].iter().any(|name| one.name() == *name));
    let id = handler.and_then(|one| libbpf_rs::Program::id_from_fd(one.as_fd()).ok());
    let found = libbpf_rs::query::ProgInfoIter::default().find(|info| Some(info.id) == id);
    found.map_or((0, 0), |info| (info.run_cnt, info.run_time_ns))
}

fn cpu_seconds() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    [usage.user_time(), usage.system_time()].iter().map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6).sum()
}

fn transfer(name: &str, megabytes: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    setsockopt(&sender, sockopt::TcpCongestion, &name.into()).unwrap();
    let mut receiver = listener.accept().unwrap().0;
    let reader = thread::spawn(move || {
        let mut room = vec![0; 1 << 18];
        while receiver.read(&mut room).unwrap() > 0 {}
    });
    let block = vec![1; 1 << 18];
    for _ in 0..megabytes * 4 {
        sender.write_all(&block).unwrap();
    }
    drop(sender);
    reader.join().unwrap();
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>().unwrap());
    let (turns, megabytes) = (numbers.next().unwrap_or(5), numbers.next().unwrap_or(1_000));
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    assert!(std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
    let was = fs::read_to_string(STATISTICS).unwrap();
    let mut programs: Vec<(String, String, Program)> = Vec::new();
    let named = |nth: usize| format!("cost{nth}.{}", std::process::id());
    programs.push(("kernel's bbr".into(), named(0), Program::kernel_bbr(&named(0)).unwrap()));
    for (nth, (algorithm, _)) in OBJECTS.iter().enumerate() {
        let config = AlgorithmConfig::named(algorithm).unwrap();
        programs.push(((*algorithm).to_owned(), named(nth + 1), Program::load(&config, &named(nth + 1)).unwrap()));
    }
    let links: Vec<_> = programs.iter_mut().map(|(_, _, program)| program.register().unwrap()).collect();
    let mut cpu: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for _ in 0..turns {
        for (algorithm, name, _) in &programs {
            let before = cpu_seconds();
            transfer(name, megabytes);
            cpu.entry(algorithm.clone()).or_default().push((cpu_seconds() - before) * 1_000.0 / megabytes as f64);
        }
    }
    // Apart, for the statistics themselves cost time.
    fs::write(STATISTICS, "1").unwrap();
    for _ in 0..turns {
        for (_, name, _) in &programs {
            transfer(name, megabytes);
        }
    }
    fs::write(STATISTICS, was.trim()).unwrap();
    println!("algorithm      ns a call    calls    CPU s/GB, median   of the kernel's, median and range");
    let base = cpu["kernel's bbr"].clone();
    for (algorithm, _, program) in &programs {
        let (calls, ns) = spent(program);
        let mut own = cpu[algorithm].clone();
        let mut ratios: Vec<f64> = own.iter().zip(&base).map(|(own, base)| own / base).collect();
        own.sort_by(f64::total_cmp);
        ratios.sort_by(f64::total_cmp);
        println!(
            "{algorithm:<14} {:>9.0} {calls:>8}    {:>16.3}   {:.3} ({:.3} to {:.3})",
            ns as f64 / calls.max(1) as f64,
            own[own.len() / 2],
            ratios[ratios.len() / 2],
            ratios[0],
            ratios[ratios.len() - 1]
        );
    }
    drop(links);
}
