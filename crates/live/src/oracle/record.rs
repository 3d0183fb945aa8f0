//! A recording: path, tap and applications together.
//! In: a [`Setup`]. Out: a [`Recording`]. Never: a lost record that is not counted.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bbrlab_core::AlgorithmConfig;
use bbrlab_replay::{Field, Header, Kind, Record, Writer};
use bbrlab_sim::setup::{FlowSetup, Setup};

use super::path::Path;
use super::tap::{Raw, Tap};
use super::{Recording, app, path};
use crate::clock::now_ns;

/// Tick rates that Linux can be built with (`CONFIG_HZ`).
const HZ: [u64; 4] = [100, 250, 300, 1_000];
/// Longest that the ring goes unread.
const TURN: Duration = Duration::from_millis(5);

/// Shortest span in which the kernel's tick is measured: a tick more or less must not make one rate another. Ours.
const SPAN_MIN_NS: u128 = 200_000_000;

type Senders = Vec<JoinHandle<Result<Result<(), String>, String>>>;
type Receivers = Vec<JoinHandle<Result<Result<u64, String>, String>>>;

/// Carries the flows and collects what the tap says.
pub fn record(setup: &Setup, situation: &str, ring_bytes: u32) -> Result<Recording, String> {
    path::check(setup)?;
    setup.flows.iter().try_for_each(app::check)?;
    let tap = Tap::load(ring_bytes)?;
    let names: Vec<String> = setup.flows.iter().map(|flow| name(flow, &tap)).collect::<Result<_, _>>()?;
    let path = Path::new(setup)?;
    let stop = Arc::new(AtomicBool::new(false));
    let (senders, receivers) = start(setup, &names, &path, &stop)?;
    let mut collector = Collector::default();
    let gathered =
        tap.collect(TURN, &mut |raw| collector.take(&raw), &mut || senders.iter().any(|one| !one.is_finished()));
    stop.store(true, Ordering::Relaxed);
    for sender in senders {
        sender.join().map_err(|_| "a sender died".to_owned())???;
    }
    let mut received = Vec::new();
    for receiver in receivers {
        received.push(receiver.join().map_err(|_| "a receiver died".to_owned())???);
    }
    gathered?;
    let lost = tap.lost()?;
    let hz = collector.hz()?;
    let header = Header { kernel: kernel(), situation: situation.to_owned(), hz };
    let records = collector.records;
    Ok(Recording { log: collector.writer.finish(&header, lost), records, lost, received })
}

/// The tapped algorithm for a flow.
fn name(flow: &FlowSetup, tap: &Tap) -> Result<String, String> {
    match flow.algorithm {
        AlgorithmConfig::Bbr1(_) => Ok(tap.bbr.clone()),
        AlgorithmConfig::Cubic(_) => Ok(tap.cubic.clone()),
        _ => Err(format!("flow {}: the kernel's tap knows bbr1 and cubic only", flow.name)),
    }
}

fn start(setup: &Setup, names: &[String], path: &Path, stop: &Arc<AtomicBool>) -> Result<(Senders, Receivers), String> {
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    let (began, end) = (now_ns(), setup.duration);
    for nth in 0..setup.flows.len() {
        let stop = stop.clone();
        receivers.push(path.receivers.spawn(move || app::receive(nth, &stop))?);
    }
    for (nth, (flow, name)) in setup.flows.iter().zip(names).enumerate() {
        let (flow, name, stop) = (flow.clone(), name.clone(), stop.clone());
        senders.push(path.senders.spawn(move || app::send(nth, &flow, &name, began, end, &stop))?);
    }
    Ok((senders, receivers))
}

fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {} {}", release.trim(), std::env::consts::ARCH)
}

/// Turns sockets into flow numbers, and records into a log.
#[derive(Default)]
struct Collector {
    writer: Writer,
    flows: BTreeMap<u64, u32>,
    begun: u32,
    records: u64,
    first: Option<(u64, u64)>,
    last: (u64, u64),
}

impl Collector {
    fn take(&mut self, raw: &Raw) {
        let record = Record::new(0, raw.columns);
        if record.kind() == Some(Kind::Init) {
            self.flows.insert(raw.socket, self.begun);
            self.begun += 1;
        }
        // A connection that began before the tap could see it has no beginning to replay from.
        let Some(flow) = self.flows.get(&raw.socket) else {
            return;
        };
        let stamp = (record.get(Field::Jiffies), record.get(Field::ClockNs));
        self.first.get_or_insert(stamp);
        self.last = stamp;
        self.writer.push(&Record::new(*flow, raw.columns));
        self.records += 1;
    }

    /// The kernel's ticks a second, from the two clocks that it stamps calls with.
    fn hz(&self) -> Result<u32, String> {
        let (jiffies, ns) = self.first.ok_or("the tap saw no call; did the path let a packet through?")?;
        let ticks = self.last.0.saturating_sub(jiffies) as u128;
        let span = u128::from(self.last.1.saturating_sub(ns));
        if span < SPAN_MIN_NS {
            return Err(
                "the flows ended before the kernel's tick could be measured; record a quarter of a second or more"
                    .to_owned(),
            );
        }
        let measured = (ticks * 1_000_000_000 / span) as u64;
        let nearest = HZ.into_iter().min_by_key(|hz| hz.abs_diff(measured)).unwrap_or(250);
        Ok(nearest as u32)
    }
}
