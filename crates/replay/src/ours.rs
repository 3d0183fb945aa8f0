//! Replays our algorithms' calls in a kernel on the same code here, with the inputs that the program had. The outputs must be
//! equal bit by bit. Nothing else of the log is put into the algorithm.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;

use bbrlab_bpf_shim::{CongestionOps, Cubic, Dctcp, Event, Flow, Input, Output, Parameters, Reno, Telemetry};
use bbrlab_core::concrete::{BbrAcd, BbrApg, BbrCpa, BbrS};
use bbrlab_core::{
    AlgorithmConfig, State,
    algorithms::{Bbr1, Bbr3, Davis, Draft06, Lab, LinuxV2, LinuxV3, Prague},
};

use super::calls::{Call, CallLog};
use super::compare::{Outputs, Unequal};
use super::{CONTEXT, Difference, Error, Header, Report, Result};

/// A connection of any algorithm.
trait Connection {
    fn call(&mut self, event: Event, input: Input, parameters: &Parameters) -> (Output, Telemetry);
}

impl<A: CongestionOps> Connection for Flow<A> {
    fn call(&mut self, event: Event, input: Input, parameters: &Parameters) -> (Output, Telemetry) {
        self.input = input;
        Self::call(self, event, parameters);
        (self.output, self.telemetry())
    }
}

fn connection(algorithm: &str) -> Option<Box<dyn Connection>> {
    fn of<A: CongestionOps + 'static>() -> Option<Box<dyn Connection>> {
        Some(Box::new(Flow::<A>::default()))
    }
    match algorithm {
        "bbr1" => of::<Bbr1>(),
        "bbr2" => of::<Bbr3<LinuxV2>>(),
        "bbr3" => of::<Bbr3<Draft06>>(),
        "bbr3-linux" => of::<Bbr3<LinuxV3>>(),
        "bbr-lab" => of::<Bbr3<Lab>>(),
        "bbr-cpa" => of::<BbrCpa>(),
        "acd-linux" => of::<BbrAcd>(),
        "bbr-s" => of::<BbrS>(),
        "bbr-apg" => of::<BbrApg>(),
        "davis" => of::<Davis>(),
        "cubic" => of::<Cubic>(),
        "reno" => of::<Reno>(),
        "dctcp" => of::<Dctcp>(),
        "prague" => of::<Prague>(),
        _ => None,
    }
}

/// Returns an algorithm with the parameters that the program had.
fn configured(text: &str, tick_ns: u64) -> Result<(AlgorithmConfig, Parameters)> {
    let mut parts = text.split(',');
    let name = parts.next().unwrap_or_default();
    let mut config = AlgorithmConfig::named(name).ok_or_else(|| Error::UnknownAlgorithm { text: text.to_owned() })?;
    for part in parts {
        let (key, value) = part.split_once('=').ok_or_else(|| Error::NotAParameter { text: text.to_owned() })?;
        config.set(key, value).map_err(|source| Error::Parameter {
            text: text.to_owned(),
            key: key.to_owned(),
            source,
        })?;
    }
    let mut values = config.values();
    if let Some(place) = config.parameters().position(|(spec, value)| spec.name == "hz" && value != 0) {
        values[place] = (1_000_000_000 / tick_ns.max(1)) as u32;
    }
    Ok((config, values))
}

/// Replays a log of our own algorithms.
pub fn replay_calls(log: &CallLog) -> Result<(Header, Report)> {
    let hz = u32::try_from(1_000_000_000 / log.header.tick_ns.max(1)).unwrap_or(0);
    let header = Header { kernel: log.header.kernel.clone(), situation: log.header.situation.clone(), hz };
    let algorithms: Vec<(AlgorithmConfig, Parameters)> =
        log.header.algorithms.iter().map(|text| configured(text, log.header.tick_ns)).collect::<Result<_>>()?;
    let mut report = Report { lost: log.lost, ..Report::default() };
    let mut flows: BTreeMap<u32, Box<dyn Connection>> = BTreeMap::new();
    let mut states: BTreeMap<u32, u32> = BTreeMap::new();
    for (nth, call) in log.records.iter().enumerate() {
        let event = Event::of(call.event()).ok_or(Error::UnknownEvent { number: nth, event: call.event() })?;
        let (config, parameters) = algorithms
            .get(usize::try_from(call.algorithm()).unwrap_or(usize::MAX))
            .ok_or(Error::UnnamedAlgorithm { number: nth, algorithm: call.algorithm() })?;
        if event == Event::Init {
            let new = connection(config.name()).ok_or(Error::NoProgram { algorithm: config.name() })?;
            flows.insert(call.flow, new);
            report.flows += 1;
        }
        // Calls of a connection without a recorded start prove nothing.
        let Some(flow) = flows.get_mut(&call.flow) else { continue };
        let (output, model) = flow.call(event, call.input(), parameters);
        report.calls += 1;
        report.acks += u64::from(event == Event::Ack);
        *report.events.entry(name(event)).or_default() += 1;
        if states.insert(call.flow, output.state) != Some(output.state) {
            let state = State::ALL.get(output.state as usize).map_or("?", |state| state.name());
            *report.events.entry(state).or_default() += 1;
        }
        let outputs = compared((call.output(), call.model()), (output, model));
        report.outputs += outputs.compared;
        if let Some(unequal) = outputs.unequal {
            report.difference = Some(difference(log, nth, unequal));
            break;
        }
    }
    Ok((header, report))
}

const fn name(event: Event) -> &'static str {
    match event {
        Event::Init => "beginning",
        Event::Ack => "ACK",
        Event::TxStart => "restart from idle",
        Event::Rto => "time-out",
        Event::CaState => "recovery state",
        Event::Undo => "undo",
        Event::Mss => "segment size",
        Event::MaxRate => "largest rate",
        Event::TlpAck => "answer to a tail-loss probe",
        Event::TlpRecovery => "loss repaired by a probe",
        Event::Lost => "loss",
        Event::Rtt => "RTT",
        Event::Threshold => "threshold",
    }
}

fn compared(kernel: (Output, Telemetry), core: (Output, Telemetry)) -> Outputs {
    let mut outputs = Outputs::default();
    macro_rules! compare {
        ($of:tt: $($field:ident)+) => {
            $( outputs.compare(stringify!($field), kernel.$of.$field, core.$of.$field); )+
        };
    }
    compare!(0: pacing_rate cwnd min_burst mark_app_limited state cwnd_count ssthresh);
    compare!(1: bw min_rtt_us round_count bw_shortterm inflight_shortterm inflight_longterm);
    compare!(1: state pacing_gain cwnd_gain ssthresh extra_acked marks);
    outputs
}

fn difference(log: &CallLog, nth: usize, unequal: Unequal) -> Difference {
    let flow = log.records[nth].flow;
    let before = log.records[..=nth].iter().enumerate().rev().filter(|(_, call)| call.flow == flow);
    let mut context: Vec<String> = before.take(CONTEXT).map(|(nth, call)| line(nth, call)).collect();
    context.reverse();
    let Unequal { name, kernel, core } = unequal;
    Difference { record: nth, unit: "call", flow, output: name, kernel, core, context }
}

fn line(nth: usize, call: &Call) -> String {
    let event = Event::of(call.event()).map_or("?", name);
    format!("{nth} {event}: {:?} → {:?} {:?}", call.input(), call.output(), call.model())
}
