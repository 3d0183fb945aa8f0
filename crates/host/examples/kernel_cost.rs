//! Cost of our algorithms in this kernel, compared with its own BBR called from the same hooks.
//!
//! Measures nanoseconds an ACK by the kernel's own statistics, all hooks counted, CPU seconds a gigabyte and the rate, over
//! veth between two network namespaces of its own. Transfers alternate: each one with our algorithm is paired with one by
//! the kernel's at about the same time.
//!
//! usage: cost acks|bytes|native [TURNS [MEGABYTES [ALGORITHM[,PARAMETER=VALUE…] …]]]    as root
//!   acks     packets of one segment each, an ACK for every two: nanoseconds an ACK
//!   bytes    super-packets, as a server sends them: CPU seconds a gigabyte, and nanoseconds an ACK
//!   native   super-packets, compared with the kernel's BBR as the kernel itself calls it: rate, and CPU seconds a gigabyte
// SPDX-License-Identifier: Apache-2.0 OR MIT

#[path = "path/mod.rs"]
mod path;

use std::fs;
use std::os::fd::AsFd;

use bbrlab_core::AlgorithmConfig;
use bbrlab_host::clock::Stopwatch;
use bbrlab_host::objects::OBJECTS;
use bbrlab_host::program::{Program, Registered};
use nix::sys::resource::{UsageWho, getrusage};
use path::Path;

const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// Restores the kernel's setting on drop.
struct Statistics(String);

impl Statistics {
    fn on() -> Self {
        let was = fs::read_to_string(STATISTICS).unwrap();
        fs::write(STATISTICS, "1").unwrap();
        Self(was)
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        let _ = fs::write(STATISTICS, self.0.trim());
    }
}

/// A registered congestion control of ours.
struct Candidate {
    algorithm: String,
    name: String,
    programs: Vec<(u32, bool)>,
    _registered: Registered,
}

impl Candidate {
    fn new(algorithm: &str, nth: usize, load: impl FnOnce(&str) -> Program) -> Self {
        let name = format!("cost{nth}.{}", std::process::id());
        let program = load(&name);
        let handles_acks = |name: &str| ["cc_cong_control", "cc_cong_avoid"].contains(&name);
        let hooks = program.object().progs().filter(|one| one.name().to_string_lossy().starts_with("cc_"));
        let programs = hooks
            .filter_map(|one| {
                let id = libbpf_rs::Program::id_from_fd(one.as_fd()).ok()?;
                Some((id, handles_acks(&one.name().to_string_lossy())))
            })
            .collect();
        let registered = program.register().unwrap();
        Self { algorithm: algorithm.to_owned(), name, programs, _registered: registered }
    }

    /// ACKs handled so far, and nanoseconds spent in all hooks.
    fn spent(&self) -> (u64, u64) {
        let (mut acks, mut ns) = (0, 0);
        for info in libbpf_rs::query::ProgInfoIter::default() {
            if let Some((_, handles_acks)) = self.programs.iter().find(|(id, _)| *id == info.id) {
                ns += info.run_time_ns;
                acks += if *handles_acks { info.run_cnt } else { 0 };
            }
        }
        (acks, ns)
    }
}

/// CPU seconds of this process and of the kernel threads that process packets.
fn cpu_seconds(softirqs: &[String]) -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let own = [usage.user_time(), usage.system_time()].map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6);
    let ns = |path: &String| fs::read_to_string(path).ok()?.split_whitespace().next()?.parse::<f64>().ok();
    own.iter().sum::<f64>() + softirqs.iter().filter_map(ns).sum::<f64>() / 1e9
}

/// Paths of the ksoftirqd threads' run times.
fn softirq_threads() -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let is_one =
        |path: &std::path::Path| fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with("ksoftirqd"));
    all.map(|entry| entry.path())
        .filter(|path| is_one(path))
        .map(|path| path.join("schedstat").display().to_string())
        .collect()
}

/// Median with a 95 % confidence interval from order statistics.
fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let (mut term, mut below, mut rank) = (0.5_f64.powi(n as i32), 0.0, 0);
    while below + term <= 0.025 && rank < n / 2 {
        below += term;
        term *= (n - rank) as f64 / (rank + 1) as f64;
        rank += 1;
    }
    let low = rank.saturating_sub(1);
    (values[n / 2], values[low], values[n - 1 - low])
}

/// The algorithm with its parameters: `bbr3-linux,beta=0.9`.
fn config(text: &str) -> AlgorithmConfig {
    let mut parts = text.split(',');
    let mut config = AlgorithmConfig::named(parts.next().unwrap_or_default()).unwrap();
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        config.set(name, value).unwrap();
    }
    config
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().unwrap_or_default();
    assert!(
        ["acks", "bytes", "native"].contains(&mode.as_str()),
        "usage: cost acks|bytes|native [TURNS [MEGABYTES [ALGORITHM…]]]"
    );
    let counts_acks = mode == "acks";
    let mut number = |otherwise| arguments.next().map_or(otherwise, |text: String| text.parse().unwrap());
    let (turns, megabytes) = (number(15), number(200));
    let chosen: Vec<String> = arguments.collect();
    let path = Path::new(counts_acks);
    let mut base = Candidate::new("the kernel's bbr", 0, |name| Program::kernel_bbr(name).unwrap());
    if mode == "native" {
        "bbr".clone_into(&mut base.name);
    }
    let all = || OBJECTS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let chosen = if chosen.is_empty() { all() } else { chosen };
    let ours: Vec<Candidate> = chosen
        .iter()
        .enumerate()
        .map(|(nth, algorithm)| {
            Candidate::new(algorithm, nth + 1, |name| Program::load(&config(algorithm), name).unwrap())
        })
        .collect();
    let softirqs = softirq_threads();
    path.transfer(&base.name, megabytes);
    let ns_an_ack = |one: &Candidate| {
        let (acks, ns) = one.spent();
        path.transfer(&one.name, megabytes);
        let (acks_after, ns_after) = one.spent();
        (ns_after - ns) as f64 / (acks_after - acks).max(1) as f64
    };
    let cpu_a_gigabyte = |one: &Candidate| {
        let before = cpu_seconds(&softirqs);
        path.transfer(&one.name, megabytes);
        (cpu_seconds(&softirqs) - before) * 1_000.0 / megabytes as f64
    };
    let rate = |one: &Candidate| {
        let begin = Stopwatch::start();
        path.transfer(&one.name, megabytes);
        megabytes as f64 * 8.0 / 1_000.0 / begin.seconds()
    };
    let compare = |what: &str, measure: &dyn Fn(&Candidate) -> f64| {
        println!("{what:<18}  median   the kernel's   ratio: median and its interval of 95 %, {turns} pairs");
        for one in &ours {
            // The first of a pair runs with cold caches.
            let pairs = (0..turns).map(|turn| match turn % 2 {
                0 => (measure(one), measure(&base)),
                _ => {
                    let base = measure(&base);
                    (measure(one), base)
                }
            });
            let (own, kernels): (Vec<f64>, Vec<f64>) = pairs.unzip();
            let ratios = own.iter().zip(&kernels).map(|(own, kernels)| own / kernels).collect();
            let (ratio, low, high) = median(ratios);
            println!(
                "{:<18} {:>7.3} {:>14.3}   {ratio:.3} ({low:.3} to {high:.3})",
                one.algorithm,
                median(own).0,
                median(kernels).0
            );
        }
    };
    if !counts_acks {
        compare("CPU s/GB", &cpu_a_gigabyte);
    }
    if mode == "native" {
        compare("Gbit/s", &rate);
        return;
    }
    let _on = Statistics::on();
    compare("ns an ACK", &ns_an_ack);
}
