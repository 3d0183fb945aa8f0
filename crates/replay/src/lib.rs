#![warn(missing_docs)]
//! Replay: compares, call by call, the decisions of a real kernel's BBR and CUBIC with core's on the same inputs.
// SPDX-License-Identifier: Apache-2.0 OR MIT
//!
//! Core gets the kernel's inputs of each call, and never a value of its state: it keeps its own from the first call of a
//! connection to the last. Two inputs leave no trace in the log: the number that the kernel draws for the start of the gain
//! cycle, which is derived from the phase that follows, and a tick of `jiffies` inside a call, where both ticks are tried. Both
//! are counted by name. A log of v3 holds the numbers drawn, but may lack the tick at which sending began.

mod bbr;
mod calls;
mod compare;
mod cubic;
mod error;
mod events;
mod field;
mod frame;
mod kernel_bbr;
mod log;
mod ours;
mod packed;
mod v3;
mod v3_log;
mod v3_run;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use bbr::BbrFlow;
use compare::Outputs;
use cubic::CubicFlow;
use frame::Origin;

pub use calls::{CALL_WORDS, Call, CallHeader, CallLog, CallWriter};
pub use compare::Unequal;
pub use error::{Error, Result};
pub use field::{COLUMNS, FIELDS, Field, Kind, PRIVATE_WORDS};
use kernel_bbr::KernelBbr;
pub use log::{Header, Log, Record, Writer};
pub use ours::replay_calls;
pub use packed::unpack;
pub use v3_log::{Fault, LineError};
pub use v3_run::replay_v3;

/// An input that the tap can't see: the draw for the gain cycle's first phase.
pub const RANDOM: &str = "get_random_u32_below, for the gain cycle's first phase";
/// An input that the tap can't see: the tick read by a call during which a tick occurred.
pub const JIFFIES_INSIDE: &str = "jiffies, where the tick came inside the call";
/// An input that the tap can't see: changes to the window that the stack, not CUBIC, made since the last call.
pub const WINDOW: &str = "snd_cwnd as the stack left it between CUBIC's calls (PRR, time-out, undo, idleness)";
/// An input that a log of v3 holds beside the call: the wait for the next probe, as the kernel drew it.
pub const DRAWN: &str = "get_random_u32_below, for the wait before a probe, as the log has it";
/// The same where the log has no line for it: it is derived from the state that follows.
pub const DRAWN_UNTOLD: &str = "get_random_u32_below, for the wait before a probe, from the state that follows";
/// A call of v3 that proves nothing: its results are overwritten by `init`.
pub const BEFORE_INIT: &str = "the module's memory before init, on which the kernel runs it for the SYN-ACK";
/// An input that a log of v3 may lack: the tick at which sending began, in ProbeRTT.
pub const TICK_AT_START: &str = "jiffies when sending began in ProbeRTT, taken from the clock";
/// Records shown before a difference. Ours.
const CONTEXT: usize = 6;
/// `arg_a` of an `init` by the tap on BBR.
const BBR1: u64 = 1;
/// The same for CUBIC.
const CUBIC: u64 = 2;

/// Result of one call.
#[derive(Debug, Default)]
struct Step {
    outputs: Outputs,
    explained: Vec<&'static str>,
}

impl Step {
    /// Adds a later result.
    fn add(&mut self, later: Self) {
        self.outputs.add(later.outputs);
        self.explained.extend(later.explained);
    }
}

/// Makes a call with the tick before it; if a tick occurred inside, the kernel may have read the one after it instead.
fn try_ticks<F: Clone>(flow: &mut F, record: &Record, call: impl Fn(&mut F, u64) -> Outputs) -> Step {
    let (before, after) = (record.get(Field::Jiffies), record.get(Field::JiffiesAfter));
    let mut other = (after != before).then(|| flow.clone());
    let outputs = call(flow, before);
    if let (Some(other), Some(_)) = (&mut other, &outputs.unequal) {
        let later = call(other, after);
        if later.unequal.is_none() {
            flow.clone_from(other);
            return Step { outputs: later, explained: vec![JIFFIES_INSIDE] };
        }
    }
    Step { outputs, explained: Vec::new() }
}

/// Begins a flow with the tick before the call; if a tick occurred inside, the kernel may have read the one after it instead.
fn begin_at_ticks<F>(record: &Record, begin: impl Fn(u64) -> (F, Outputs)) -> (F, Step) {
    let (before, after) = (record.get(Field::Jiffies), record.get(Field::JiffiesAfter));
    let (flow, outputs) = begin(before);
    if after != before && outputs.unequal.is_some() {
        let (later, outputs) = begin(after);
        if outputs.unequal.is_none() {
            return (later, Step { outputs, explained: vec![JIFFIES_INSIDE] });
        }
    }
    (flow, Step { outputs, explained: Vec::new() })
}

/// A flow under comparison.
enum Flow {
    Bbr(Box<BbrFlow>),
    Cubic(Box<CubicFlow>),
    /// The connection was closed.
    Over,
    /// Its start is missing from the log, or its algorithm is not in core.
    Unknown,
}

/// Result of a replay.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Number of connections.
    pub flows: u64,
    /// Number of calls replayed.
    pub calls: u64,
    /// Number of ACKs among them.
    pub acks: u64,
    /// Number of outputs compared.
    pub outputs: u64,
    /// Calls whose outputs depend on an input that the tap can't see, by the name of the input.
    pub explained: BTreeMap<&'static str, u64>,
    /// Events covered by these calls, and their counts.
    pub events: BTreeMap<&'static str, u64>,
    /// Calls that the tap lost; the calls that follow prove nothing.
    pub lost: u64,
    /// The first difference.
    pub difference: Option<Difference>,
}

/// The first difference, with the calls that led to it.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// Index of the record, from 0; for a text log, the line, from 1.
    pub record: usize,
    /// Unit of that index: "record" or "line".
    pub unit: &'static str,
    /// The connection.
    pub flow: u32,
    /// The output, by the kernel's name.
    pub output: &'static str,
    /// The kernel's value.
    pub kernel: String,
    /// Core's value.
    pub core: String,
    /// The connection's calls up to this one, one per line.
    pub context: Vec<String>,
}

impl Report {
    /// True if every output is equal, or its difference explained.
    pub const fn is_equal(&self) -> bool {
        self.difference.is_none() && self.lost == 0
    }

    /// Counts the result of a call; returns its difference, if any.
    fn count(&mut self, step: Step) -> Option<Unequal> {
        self.outputs += step.outputs.compared;
        for name in step.explained {
            *self.explained.entry(name).or_default() += 1;
        }
        step.outputs.unequal
    }
}

/// Replays a log of any kind: of the tap, of our own programs or of google/bbr v3, plain or compressed with xz.
/// The error names in one line the fault and its place.
pub fn replay_bytes(bytes: &[u8]) -> Result<(Header, Report)> {
    let bytes = packed::unpack(bytes)?;
    if bytes.trim_ascii_start().starts_with(v3_run::BEGINNING) {
        return Ok((v3_run::header(), replay_v3(&bytes)?));
    }
    if bytes.starts_with(CallHeader::MAGIC) {
        return replay_calls(&CallLog::parse(&bytes)?);
    }
    let log = Log::parse(&bytes)?;
    let report = replay(&log)?;
    Ok((log.header, report))
}

/// The document of `bbrlab replay --json` on logs with the names of their files.
pub fn json(logs: &[(String, Header, Report)]) -> Value {
    let is_equal = logs.iter().all(|(_, _, report)| report.is_equal());
    let log = |(file, header, report): &(String, Header, Report)| json!({ "file": file, "header": header, "equal": report.is_equal(), "report": report });
    json!({ "schema": "bbrlab-replay-1", "equal": is_equal, "logs": logs.iter().map(log).collect::<Vec<Value>>() })
}

/// Replays a log of the tap.
pub fn replay(log: &Log) -> Result<Report> {
    if log.header.hz == 0 {
        return Err(Error::NoHz);
    }
    let mut report = Report { lost: log.lost, ..Report::default() };
    let mut flows: BTreeMap<u32, Flow> = BTreeMap::new();
    for (nth, record) in log.records.iter().enumerate() {
        let kind = record.kind().ok_or(Error::UnknownKind { number: nth, kind: record.get(Field::Kind) })?;
        if let Some(field) = record.impossible() {
            return Err(Error::Impossible { number: nth, field, value: record.get(field) });
        }
        if is_over(record, kind) {
            flows.insert(record.flow, Flow::Over);
        }
        let step = if kind == Kind::Init {
            report.flows += 1;
            let (flow, step) = begin(record, log.header.hz);
            flows.insert(record.flow, flow);
            step
        } else {
            match flows.get_mut(&record.flow) {
                Some(Flow::Bbr(flow)) => flow.step(record, kind),
                Some(Flow::Cubic(flow)) => flow.step(record, kind),
                Some(Flow::Over | Flow::Unknown) => continue,
                None => return Err(Error::NoBeginning { number: nth, flow: record.flow }),
            }
        };
        let events = match flows.get(&record.flow) {
            Some(Flow::Bbr(_)) => events::of_bbr(record, kind),
            Some(Flow::Cubic(_)) => events::of_cubic(record, kind),
            _ => Vec::new(),
        };
        for name in events {
            *report.events.entry(name).or_default() += 1;
        }
        report.calls += 1;
        report.acks += u64::from(matches!(kind, Kind::CongControl | Kind::PktsAcked));
        if let Some(unequal) = report.count(step) {
            report.difference = Some(difference(log, nth, unequal));
            break;
        }
    }
    Ok(report)
}

fn begin(record: &Record, hz: u32) -> (Flow, Step) {
    match record.get(Field::ArgA) {
        BBR1 => {
            let (flow, step) = BbrFlow::begin(record, hz);
            (Flow::Bbr(Box::new(flow)), step)
        }
        CUBIC => {
            let (flow, step) = CubicFlow::begin(record, hz);
            (Flow::Cubic(Box::new(flow)), step)
        }
        _ => (Flow::Unknown, Step::default()),
    }
}

/// True for the call made by closing, which sets the state once more after everything else has been cleared.
// spec: Linux tcp_disconnect
fn is_over(record: &Record, kind: Kind) -> bool {
    kind == Kind::SetState && record.get(Field::Delivered) == 0
}

fn difference(log: &Log, nth: usize, unequal: Unequal) -> Difference {
    let flow = log.records[nth].flow;
    let before = log.records[..=nth].iter().enumerate().rev().filter(|(_, record)| record.flow == flow);
    let mut context: Vec<String> = before.take(CONTEXT).map(|(nth, record)| line(nth, record)).collect();
    context.reverse();
    Difference {
        record: nth,
        unit: "record",
        flow,
        output: unequal.name,
        kernel: unequal.kernel,
        core: unequal.core,
        context,
    }
}

/// A call in one line, to help find the cause of a difference.
fn line(nth: usize, record: &Record) -> String {
    let kind = record.kind().map_or("?".to_owned(), |kind| format!("{kind:?}"));
    let get = |field| record.get(field) as i64;
    let state = KernelBbr::read(record);
    format!(
        "{nth} {kind}({}) tick {} clock {} delivered {} lost {} in flight {} ca {} cwnd {}→{} rate {}→{} \
         rs: delivered {} interval {} prior {} rtt {} losses {} acked {} flags {} → {} phase {} gain {} bw {} min_rtt {} lt {}/{}",
        get(Field::ArgA),
        get(Field::Jiffies),
        get(Field::ClockNs),
        get(Field::Delivered),
        get(Field::Lost),
        record.in_flight(),
        get(Field::CaState),
        get(Field::Cwnd),
        get(Field::CwndAfter),
        get(Field::PacingRate),
        get(Field::PacingRateAfter),
        get(Field::RsDelivered),
        get(Field::RsIntervalUs),
        get(Field::RsPriorDelivered),
        get(Field::RsRttUs),
        get(Field::RsLosses),
        get(Field::RsAckedSacked),
        get(Field::RsFlags),
        state.mode_name(),
        state.cycle_idx,
        state.pacing_gain,
        state.bw[0].1,
        state.min_rtt_us,
        state.lt_use_bw,
        state.lt_bw,
    )
}
