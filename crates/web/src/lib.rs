#![deny(unsafe_code)]
//! The simulator for a browser's worker. A request is JSON, and so is its reply; the packets and models of a frame are doubles.
//!
//! The interface is plain C, so that no generator of bindings is needed: [`export::web_reserve`] returns the address for a
//! request, [`export::web_call`] handles it, and the others return the addresses of its reply and frame.
// SPDX-License-Identifier: Apache-2.0 OR MIT

pub mod export;
mod frame;
mod hand;
mod live;
mod request;
mod tables;
mod tracker;

use bbrlab_sim::link::Buffer;
use bbrlab_sim::scenario::support::refused_by_playground;
use bbrlab_sim::scenario::{PACKET_BYTES, ScenarioError, ScenarioFile};
use bbrlab_sim::setup::{Change, ChangeKind};
use serde_json::{Value, json};

pub use frame::{FLOW_FIELDS, HEAD_FIELDS, NOTE_FIELDS, PACKET_FIELDS};
use live::{Mode, Run};
use request::{Given, Request};

/// Largest number of runs that are advanced side by side. Ours: two side by side, and one that is written to a file.
const RUNS_MAX: usize = 3;

/// A request that cannot be met.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is not one.
    #[error("not a request: {0}")]
    Request(#[from] serde_json::Error),
    /// The scenario cannot be read or resolved.
    #[error(transparent)]
    Scenario(#[from] bbrlab_sim::Error),
    /// The scenario holds a value that a page cannot run.
    #[error("{flag}: {rule}")]
    Refused {
        /// The key as a flag.
        flag: &'static str,
        /// The value found, and those accepted.
        rule: &'static str,
    },
    /// The scenario cannot be written as TOML.
    #[error("the scenario has no form in TOML: {0}")]
    Toml(String),
    /// No run has this number.
    #[error("there is no run {0}")]
    NoRun(usize),
}

/// The runs of a page, and the reply to its last request.
#[derive(Default)]
pub struct Page {
    runs: [Option<Run>; RUNS_MAX],
    /// Doubles of the last frame: head, flows, packets, notes.
    pub frame: Vec<f64>,
    /// Bytes of the last reply.
    pub reply: Vec<u8>,
}

impl Page {
    /// Handles a request. The reply is an object, with `error` if it failed; a result is the document itself.
    pub fn call(&mut self, request: &[u8]) {
        self.frame.clear();
        let reply = serde_json::from_slice(request).map_err(Error::from).and_then(|request| self.handle(request));
        self.reply = match reply {
            Ok(Reply::Value(value)) => value.to_string().into_bytes(),
            Ok(Reply::Text(text)) => text.into_bytes(),
            Err(error) => json!({"error": error.to_string()}).to_string().into_bytes(),
        };
    }

    fn handle(&mut self, request: Request) -> Result<Reply, Error> {
        let done = json!({});
        Ok(Reply::Value(match request {
            Request::Tables => tables::all(),
            Request::Check { given } => check(&given)?,
            Request::Toml { given } => {
                let text = toml::to_string(&read(&given)?.scenario);
                return text.map(Reply::Text).map_err(|error| Error::Toml(error.to_string()));
            }
            Request::Create { run, given, ahead, hand, inputs } => {
                let mode = if ahead { Mode::Ahead } else { Mode::Watched };
                let created = Run::new(&read(&given)?, mode, hand, inputs)?;
                *self.runs.get_mut(run).ok_or(Error::NoRun(run))? = Some(created);
                done
            }
            Request::Drop { run } => {
                *self.runs.get_mut(run).ok_or(Error::NoRun(run))? = None;
                done
            }
            Request::Advance { run, until_ns, packets } => {
                let (run, frame) = self.run(run)?;
                run.advance(until_ns);
                run.write(frame, packets);
                json!({"over": run.is_over(), "now_ns": run.now_ns()})
            }
            Request::Step { run, flow, what } => {
                let (run, frame) = self.run(run)?;
                run.step(flow, what);
                run.write(frame, true);
                json!({"over": run.is_over(), "now_ns": run.now_ns()})
            }
            Request::Change { run, given } => {
                let file = read(&given)?;
                self.run(run)?.0.change(&file)?;
                done
            }
            Request::Hand { run, at_ns, rate_bps } => {
                self.run(run)?.0.steer(at_ns, rate_bps);
                done
            }
            Request::Finish { run } => {
                let finished = self.runs.get_mut(run).and_then(Option::take).ok_or(Error::NoRun(run))?;
                return Ok(Reply::Text(finished.document()?));
            }
        }))
    }

    fn run(&mut self, number: usize) -> Result<(&mut Run, &mut Vec<f64>), Error> {
        let run = self.runs.get_mut(number).and_then(Option::as_mut).ok_or(Error::NoRun(number))?;
        Ok((run, &mut self.frame))
    }
}

enum Reply {
    Value(Value),
    Text(String),
}

/// Reads the scenario of a page: JSON, then keys and flows, which override it as flags do.
fn read(given: &Given) -> Result<ScenarioFile, Error> {
    let mut file = match &given.json {
        Some(text) => ScenarioFile::from_json(text, "json")?,
        None => ScenarioFile::default(),
    };
    for key in bbrlab_sim::scenario::KEYS.iter().filter(|key| key.is_flag() && key.name != "flow") {
        if let Some((_, text)) = given.keys.iter().find(|(name, _)| name == key.name) {
            file.set(key.name, text)?;
        }
    }
    if let Some((name, _)) =
        given.keys.iter().find(|(name, _)| !bbrlab_sim::scenario::key(name).is_some_and(|key| key.is_flag()))
    {
        let names = bbrlab_sim::scenario::KEYS.iter().filter(|key| key.is_flag()).map(|key| key.name);
        let near = bbrlab_sim::scenario::nearest(name, names);
        let near =
            near.map_or_else(|| "write one of bbrlab list keys".to_owned(), |near| format!("did you mean {near}?"));
        let error = ScenarioError::new("", format!("no key {name:?}; {near}"));
        return Err(bbrlab_sim::Error::from(error).into());
    }
    if !given.flows.is_empty() {
        file.set_flows(&given.flows)?;
    }
    // Verdicts need the expression engine of the command.
    file.scenario.expect.clear();
    match refused_by_playground(&file.scenario.filled()) {
        Some((flag, rule)) => Err(Error::Refused { flag, rule }),
        None => Ok(file),
    }
}

fn buffer_packets(buffer: &Buffer) -> f64 {
    match buffer {
        Buffer::Packets(packets) => *packets as f64,
        Buffer::Bytes(bytes) => *bytes as f64 / PACKET_BYTES as f64,
    }
}

/// A change of the path as the page draws it.
fn change(change: &Change) -> Value {
    let at_ns = change.at.as_nanos() as f64;
    match change.what {
        ChangeKind::Rate(rate) => json!({"at_ns": at_ns, "rate_bps": rate.as_bits_per_sec() as f64}),
        ChangeKind::Buffer(buffer) => json!({"at_ns": at_ns, "buffer_packets": buffer_packets(&buffer)}),
        ChangeKind::Rtt(rtt) => json!({"at_ns": at_ns, "rtt_ns": rtt.as_nanos() as f64}),
        ChangeKind::Loss(_) | ChangeKind::AckLoss(_) => json!({"at_ns": at_ns}),
    }
}

/// Checks a scenario. Returns it with its defaults, and what a page shows of its path.
fn check(given: &Given) -> Result<Value, Error> {
    let file = read(given)?;
    let setup = file.resolve(&|_| Err("a page reads no files".into()))?;
    let link = &setup.links[setup.bottleneck];
    let flows = setup.flows.iter().map(|flow| {
        json!({"name": flow.name, "cc": flow.cc(), "start_ns": flow.start.as_nanos() as f64, "mss": flow.mss,
            "rtt_ns": flow.rtt.unwrap_or(setup.path.rtt).as_nanos() as f64})
    });
    Ok(json!({
        "scenario": file.scenario.filled(),
        "duration_ns": setup.duration.as_nanos() as f64,
        "rtt_ns": setup.path.rtt.as_nanos() as f64,
        "rate_bps": link.service.nominal_rate().as_bits_per_sec() as f64,
        "packets": live::packets(&setup),
        "buffer_packets": buffer_packets(&link.buffer),
        "changes": setup.schedule.iter().filter(|change| change.link == setup.bottleneck).map(change).collect::<Vec<Value>>(),
        "flows": flows.collect::<Vec<Value>>(),
    }))
}
