//! Records every call of our own algorithms in this kernel, under names private to this process.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use bbrlab_core::AlgorithmConfig;
use bbrlab_host::kernel;
use bbrlab_host::program::{Program, Registered};
use bbrlab_replay::{Call, CallHeader, CallWriter};
use bbrlab_sim::setup::Setup;
use libbpf_rs::{MapCore as _, RingBufferBuilder};

use super::{Recording, running_kernel};
use crate::kernel::ours::own_name;
use crate::kernel::run::{check, run_once};
use crate::{Error, Result};

/// Maximum time between reads of a ring.
const TURN: Duration = Duration::from_millis(5);

/// Runs the flows with our programs, and collects the recorded calls.
pub fn record(setup: &Setup, situation: &str, ring_bytes: u32) -> Result<Recording> {
    check(setup)?;
    let mut algorithms: Vec<AlgorithmConfig> = Vec::new();
    let mut names = Vec::new();
    for flow in &setup.flows {
        let known = algorithms.iter().position(|one| *one == flow.algorithm);
        let nth = known.unwrap_or(algorithms.len());
        if known.is_none() {
            algorithms.push(flow.algorithm);
        }
        names.push(own_name(nth));
    }
    let load = |(nth, algorithm)| Program::load_recorded(algorithm, &own_name(nth), ring_bytes)?.register();
    let programs: Vec<Registered> = algorithms.iter().enumerate().map(load).collect::<bbrlab_host::Result<_>>()?;
    let collector = RefCell::new(Collector::default());
    let (gathered, ran) = thread::scope(|scope| {
        let run = scope.spawn(|| run_once(setup, names, &mut |_| {}));
        let gathered = collect(&programs, &collector, &mut || !run.is_finished());
        (gathered, run.join())
    });
    let (output, _) = ran.map_err(|_| Error::ThreadEnded("the run"))??;
    gathered?;
    let lost = programs.iter().filter_map(|one| one.program().counters()).map(|counters| counters.calls_lost).sum();
    let header = CallHeader {
        kernel: running_kernel(),
        situation: situation.to_owned(),
        tick_ns: kernel::tick_ns(),
        algorithms: algorithms.iter().map(text).collect(),
    };
    let collector = collector.into_inner();
    let received = output.result.flows.iter().map(|flow| flow.bytes).collect();
    Ok(Recording { log: collector.writer.finish(&header, lost), records: collector.calls, lost, received })
}

/// An algorithm in the notation of a flow.
fn text(algorithm: &AlgorithmConfig) -> String {
    let changed = kernel::changed(algorithm).into_iter().map(|(name, value)| format!(",{name}={value}"));
    changed.fold(algorithm.name().to_owned(), |text, parameter| text + &parameter)
}

/// Collects from each program's ring while `goes_on` returns true, then drains the rest.
fn collect(programs: &[Registered], collector: &RefCell<Collector>, goes_on: &mut dyn FnMut() -> bool) -> Result<()> {
    let fault = |source| Error::Bpf { what: "the recording's ring".to_owned(), source };
    let maps: Vec<_> =
        programs.iter().map(|one| one.program().object().maps().find(|map| map.name() == "calls")).collect();
    let mut builder = RingBufferBuilder::new();
    for (algorithm, map) in maps.iter().enumerate() {
        let map = map.as_ref().ok_or(Error::NoPart("a program has no ring"))?;
        builder
            .add(map, move |bytes| {
                collector.borrow_mut().take(algorithm as u32, bytes);
                0
            })
            .map_err(fault)?;
    }
    let ring = builder.build().map_err(fault)?;
    while goes_on() {
        // Interrupted by a signal: the next iteration polls again.
        let _ = ring.poll(TURN);
    }
    ring.consume().map_err(fault)
}

/// Numbers connections across all programs, and writes the log.
#[derive(Default)]
struct Collector {
    writer: CallWriter,
    flows: BTreeMap<(u32, u64), u32>,
    calls: u64,
}

impl Collector {
    fn take(&mut self, algorithm: u32, bytes: &[u8]) {
        let word = |nth: usize| Some(u64::from_ne_bytes(bytes.get(nth * 8..nth * 8 + 8)?.try_into().ok()?));
        let Some(flow) = word(0) else { return };
        // A log's words begin with the algorithm where the ring has the call's number.
        let mut words = std::array::from_fn(|nth| word(1 + nth).unwrap_or(0));
        words[0] = algorithm.into();
        let begun = self.flows.len() as u32;
        let flow = *self.flows.entry((algorithm, flow)).or_insert(begun);
        self.writer.push(&Call { flow, words });
        self.calls += 1;
    }
}
