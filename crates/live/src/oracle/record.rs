//! Records a run on this host's kernel: its own congestion control, recorded by the tap.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use bbrlab_core::AlgorithmConfig;
use bbrlab_replay::{Field, Header, Kind, Record, Writer};
use bbrlab_sim::setup::{FlowSetup, Setup};

use super::tap::{Raw, Tap, TapConfig, Tapped};
use super::{Recording, running_kernel};
use crate::kernel::run::{check, run_between, testbed_for};
use crate::{Error, Result};

/// Tick rates that Linux can be built with (`CONFIG_HZ`).
const HZ: [u64; 4] = [100, 250, 300, 1_000];
/// Maximum time between reads of the ring.
const TURN: Duration = Duration::from_millis(5);

/// Minimum span over which the kernel's tick is measured. Ours: an error of one tick must not change the rate found.
const SPAN_MIN_NS: u128 = 200_000_000;

/// Runs the flows and collects the tap's records.
pub fn record(setup: &Setup, situation: &str, ring_bytes: u32) -> Result<Recording> {
    check(setup)?;
    let flows: Vec<Tapped> = setup.flows.iter().map(tapped).collect::<Result<_>>()?;
    let mut algorithms = flows.clone();
    algorithms.sort();
    algorithms.dedup();
    algorithms.iter().try_for_each(|algorithm| in_kernel(*algorithm))?;
    let testbed = testbed_for(setup)?;
    let tap = Tap::load(TapConfig {
        algorithms: &algorithms,
        network: testbed.left.inode()?,
        connections: setup.flows.len() as u32,
        ring_bytes,
    })?;
    let names = flows.iter().map(|algorithm| tap.name(*algorithm)).collect();
    let mut collector = Collector::default();
    let (gathered, ran) = thread::scope(|scope| {
        let run = scope.spawn(|| run_between(&testbed, setup, names, &mut |_| {}));
        let gathered = tap.collect(TURN, &mut |raw| collector.take(&raw), &mut || !run.is_finished());
        (gathered, run.join())
    });
    let (output, _) = ran.map_err(|_| Error::ThreadEnded("the run"))??;
    gathered?;
    let lost = tap.lost()?;
    let header = Header { kernel: running_kernel(), situation: situation.to_owned(), hz: collector.hz()? };
    let records = collector.records;
    let received = output.result.flows.iter().map(|flow| flow.bytes).collect();
    Ok(Recording { log: collector.writer.finish(&header, lost), records, lost, received })
}

/// The kernel's algorithm of a flow.
fn tapped(flow: &FlowSetup) -> Result<Tapped> {
    match flow.algorithm {
        AlgorithmConfig::Bbr1(_) => Ok(Tapped::Bbr),
        AlgorithmConfig::Cubic(_) => Ok(Tapped::Cubic),
        _ => Err(Error::NotTapped(flow.name.clone())),
    }
}

/// Rejects an algorithm whose module is not loaded.
fn in_kernel(algorithm: Tapped) -> Result<()> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let available = fs::read_to_string(path).map_err(Error::io(path))?;
    match available.split_whitespace().any(|name| name == algorithm.name()) {
        true => Ok(()),
        false => Err(Error::NotLoaded { algorithm: algorithm.name(), available: available.trim().to_owned() }),
    }
}

/// Maps sockets to flow numbers, and writes records to a log.
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
        let record = Record { flow: self.begun, words: raw.columns };
        if record.kind() == Some(Kind::Init) {
            self.flows.insert(raw.socket, self.begun);
            self.begun += 1;
        }
        // A connection that started before the tap was loaded has no start to replay from.
        let Some(flow) = self.flows.get(&raw.socket) else {
            return;
        };
        let stamp = (record.get(Field::Jiffies), record.get(Field::ClockNs));
        self.first.get_or_insert(stamp);
        self.last = stamp;
        self.writer.push(&Record { flow: *flow, ..record });
        self.records += 1;
    }

    /// The kernel's ticks per second, from the two clocks that stamp each call.
    fn hz(&self) -> Result<u32> {
        let (jiffies, ns) = self.first.ok_or(Error::NothingRecorded)?;
        let ticks = self.last.0.saturating_sub(jiffies) as u128;
        let span = u128::from(self.last.1.saturating_sub(ns));
        if span < SPAN_MIN_NS {
            return Err(Error::TooShort);
        }
        let measured = (ticks * 1_000_000_000 / span) as u64;
        let nearest = HZ.into_iter().min_by_key(|hz| hz.abs_diff(measured)).unwrap_or(250);
        Ok(nearest as u32)
    }
}
