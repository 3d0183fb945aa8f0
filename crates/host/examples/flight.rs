//! Error of the estimates in `marks.h`: the data in flight, and lost, when a packet was sent.
//!
//! That packet is the newest that an ACK delivers. The reference is a program that recorded each packet as it left.
//! Runs over veth between two network namespaces of its own, plain or behind a token bucket.
//!
//! usage: flight [MEGABYTES [RATE]]    as root; RATE in `tc`'s notation, as in 100mbit
// SPDX-License-Identifier: Apache-2.0 OR MIT

#[path = "path/mod.rs"]
mod path;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bbrlab_core::AlgorithmConfig;
use bbrlab_host::program::Program;
use libbpf_rs::{MapCore as _, ObjectBuilder, RingBufferBuilder};
use path::Path;

static EGRESS: &[u8] = include_bytes!("../../../bpf/cc/objects/egress.bpf.o");

/// A cgroup for this process alone, removed at the end.
struct Group(PathBuf, PathBuf);

impl Group {
    fn enter() -> Self {
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let mount = mounts.lines().find_map(|line| line.strip_prefix("cgroup2 ")?.split(' ').next()).unwrap();
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
        let was = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap();
        let own = PathBuf::from(mount).join(format!("bbrlab-flight-{}", std::process::id()));
        fs::create_dir(&own).unwrap();
        fs::write(own.join("cgroup.procs"), "0").unwrap();
        Self(own, PathBuf::from(mount).join(was))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::write(self.1.join("cgroup.procs"), "0");
        let _ = fs::remove_dir(&self.0);
    }
}

/// A packet at departure: `struct sent` of `bpf/cc/egress.bpf.c`.
#[derive(Clone, Copy)]
struct Sent {
    at_ns: u64,
    in_flight: u32,
    lost: u32,
    segments: u32,
    bytes: u32,
}

/// Input of an ACK's handler: words of `struct input` in `bpf/cc/flow.h`.
#[derive(Clone, Copy)]
struct Told {
    now_ns: u64,
    lost: u64,
    newest_end: u32,
    estimate: u64,
    lost_since: u64,
    prior_in_flight: u64,
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn told(bytes: &[u8]) -> Option<Told> {
    // Preceded by connection, number and event; an ACK is event 1, with a sample.
    let input = &bytes[24..];
    if u64_at(bytes, 16) != 1 || (u64_at(input, 64) as i64) < 0 {
        return None;
    }
    Some(Told {
        now_ns: u64_at(input, 0),
        lost: u64_at(input, 40),
        newest_end: u32_at(input, 284),
        estimate: u64_at(input, 152),
        lost_since: u64_at(input, 160),
        prior_in_flight: u64_at(input, 112),
    })
}

#[derive(Default)]
struct Sums {
    acks: f64,
    truth: f64,
    off: f64,
    off_prior: f64,
    lost: f64,
    lost_off: f64,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let megabytes = arguments.next().map_or(200, |text| text.parse().unwrap());
    let rate = arguments.next();
    let _group = Group::enter();
    let path = Path::new(false);
    if let Some(rate) = &rate {
        let shape = ["qdisc", "add", "dev", "cost0", "root", "tbf", "rate", rate, "burst", "32kb", "limit", "150kb"];
        assert!(Command::new("tc").args(shape).status().unwrap().success());
    }
    let object = ObjectBuilder::default().open_memory(EGRESS).unwrap().load().unwrap();
    let group = fs::File::open(&_group.0).unwrap();
    let egress = object.progs_mut().find(|program| program.name() == "egress").unwrap();
    let _link = egress.attach_cgroup(std::os::fd::AsRawFd::as_raw_fd(&group.as_fd())).unwrap();
    let name = format!("flight.{}", std::process::id());
    let program = Program::load_recorded(&AlgorithmConfig::named("bbr3-linux").unwrap(), &name, 1 << 27).unwrap();
    let registered = program.register().unwrap();
    let (sents, acks) = (RefCell::new(BTreeMap::<u32, Vec<Sent>>::new()), RefCell::new(Vec::new()));
    let rings = [
        object.maps().find(|map| map.name() == "sents").unwrap(),
        registered.program().object().maps().find(|map| map.name() == "calls").unwrap(),
    ];
    let mut builder = RingBufferBuilder::new();
    let take_sent = |bytes: &[u8]| {
        let (begin, end) = (u32_at(bytes, 8), u32_at(bytes, 12));
        let sent = Sent {
            at_ns: u64_at(bytes, 0),
            in_flight: u32_at(bytes, 16),
            lost: u32_at(bytes, 20),
            segments: u32_at(bytes, 24),
            bytes: end.wrapping_sub(begin),
        };
        // One entry per segment end, because an ACK may end inside a super-packet.
        let mss = sent.bytes.div_ceil(sent.segments.max(1));
        for segment in 1..=sent.segments {
            let end = begin.wrapping_add((segment * mss).min(sent.bytes));
            sents.borrow_mut().entry(end).or_default().push(Sent { segments: segment, ..sent });
        }
        0
    };
    builder.add(&rings[0], take_sent).unwrap();
    builder
        .add(&rings[1], |bytes: &[u8]| {
            acks.borrow_mut().extend(told(bytes));
            0
        })
        .unwrap();
    let ring = builder.build().unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (done, name) = (&done, &name);
        scope.spawn(move || {
            path.transfer(name, megabytes);
            done.store(true, Ordering::SeqCst);
        });
        while !done.load(Ordering::SeqCst) {
            let _ = ring.poll(Duration::from_millis(2));
        }
    });
    ring.consume().unwrap();
    let mut sums = Sums::default();
    let mut unmatched = 0;
    for ack in acks.borrow().iter() {
        let sents = sents.borrow();
        let newest = sents.get(&ack.newest_end).and_then(|all| all.iter().rev().find(|sent| sent.at_ns <= ack.now_ns));
        let Some(sent) = newest else {
            unmatched += 1;
            continue;
        };
        let truth = f64::from(sent.in_flight + sent.segments);
        let lost = (ack.lost as u32).wrapping_sub(sent.lost);
        sums.acks += 1.0;
        sums.truth += truth;
        sums.off += (ack.estimate as f64 - truth).abs();
        sums.off_prior += (ack.prior_in_flight as f64 - truth).abs();
        sums.lost += f64::from(lost);
        sums.lost_off += (ack.lost_since as f64 - f64::from(lost)).abs();
    }
    let acks = sums.acks.max(1.0);
    println!(
        "{} ACKs matched, {unmatched} not. In flight when the newest was sent: {:.1} packets on average; the estimate is off by {:.2}, \
         prior_in_flight by {:.2}. Lost since: {:.2} packets on average; off by {:.3}",
        sums.acks,
        sums.truth / acks,
        sums.off / acks,
        sums.off_prior / acks,
        sums.lost / acks,
        sums.lost_off / acks
    );
}
