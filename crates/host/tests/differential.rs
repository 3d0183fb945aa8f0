//! Compares the kernel's programs with the same code run natively: random calls, equal output and equal model after
//! each.
//!
//! `BBRLAB_CALLS` sets the number of calls per algorithm (default 100,000), `BBRLAB_SEED` the seed.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![cfg(feature = "load")]

use std::collections::BTreeSet;

use bbrlab_bpf_shim::{CongestionOps, Cubic, Dctcp, Event, Flow, Input, Output, Parameters, Reno, Telemetry, mark};
use bbrlab_core::concrete::{BbrAcd, BbrCpa, BbrS};
use bbrlab_core::{
    AlgorithmConfig, Rng,
    algorithms::{Bbr1, Bbr3, Davis, Draft06, Lab, LinuxV2, LinuxV3, Prague},
};
use bbrlab_host::kernel;
use bbrlab_host::program::Program;
use libbpf_rs::ProgramInput;

/// Tick of the comparison's clock in ns, as in a typical kernel.
const TICK_NS: u64 = 4_000_000;
/// Calls per connection.
const CONNECTION: u64 = 5_000;

/// `struct trial` of `bpf/cc/trial.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    event: u64,
    input: Input,
    output: Output,
    model: Telemetry,
}

impl Trial {
    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: it holds integers without a gap between them, so each byte is one, and any bytes are a value of it.
        unsafe { std::slice::from_raw_parts_mut(std::ptr::from_mut(self).cast(), size_of::<Self>()) }
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return otherwise };
    // A commit hash is accepted as a seed too.
    text.parse().ok().or_else(|| u64::from_str_radix(text.get(..15)?, 16).ok()).unwrap_or(otherwise)
}

/// A simulated connection that goes through every event, with the values a kernel might read at each.
struct Connection {
    rng: Rng,
    input: Input,
    base_rtt_us: u64,
    /// Size of a packet in the unit that the algorithm counts: bytes, else 1.
    unit: u64,
}

impl Connection {
    fn below(&mut self, n: u64) -> u64 {
        self.rng.below(n.max(1))
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn begin(seed: u64, counts_bytes: bool) -> Self {
        let mut one = Self { rng: Rng::new(seed), input: Input::default(), base_rtt_us: 0, unit: 1 };
        one.base_rtt_us = 20 + one.below(if seed & 3 == 0 { 2_000_000 } else { 100_000 });
        let mss = 200 + one.below(9_000) as u32;
        one.unit = if counts_bytes { mss.into() } else { 1 };
        let now_ns = one.below(1 << 50);
        one.input = Input {
            now_ns,
            tick: one.below(1 << 33),
            mss,
            cwnd: 10,
            cwnd_clamp: u32::MAX,
            min_rtt_us: one.base_rtt_us,
            srtt_us: one.base_rtt_us,
            seed: one.rng.next_u64(),
            delivered: one.below(1 << 32) * one.unit,
            delivered_us: now_ns / 1_000,
            lost: one.below(1 << 31) * one.unit,
            max_rate: u64::MAX,
            ssthresh: 0x7fff_ffff,
            pacing_rate: 1_000_000,
            ..Input::default()
        };
        one
    }

    /// Generates the next event, given the previous output.
    fn step(&mut self, left: &Output, events: &[Event]) -> Event {
        let event = if self.one_in(60) { events[self.below(events.len() as u64) as usize] } else { events[0] };
        let longest_ns = if self.one_in(1_000) { 30_000_000_000 } else { 2_000_000 };
        let passed_ns = 1_000 + self.below(longest_ns);
        let (unit, cwnd) = (self.unit, u64::from(left.cwnd));
        let delivered = if self.one_in(20) { 0 } else { self.below(40) };
        let lost = if self.one_in(50) { self.below(20) } else { 0 };
        let (rtt_us, interval_us) = (self.base_rtt_us + self.below(30_000), 1 + self.below(self.base_rtt_us + 30_000));
        let (in_flight, sampled) = (self.below(2 * cwnd + 4), delivered + self.below(cwnd + 2));
        let (edt, jump) = (self.below(300_000), self.below(TICK_NS));
        let (marked, queued, deep) = (self.below(5) as u32, self.below(5) as u32, self.below(cwnd + 20));
        let (ca_state, marks, sent) = (self.below(5) as u32, self.rng.next_u64() as u32 & 0xff, self.below(60));
        let app_limited = self.one_in(20);
        let (no_rtt, no_sample, changes_state) = (self.one_in(10), self.one_in(30), self.one_in(40));
        let (some_rate, some_mss) = (1_000 + self.below(1 << 34), 200 + self.below(9_000) as u32);
        let has_marks = self.one_in(30);
        let input = &mut self.input;
        input.now_ns += passed_ns;
        input.tick += passed_ns / TICK_NS + u64::from(jump < passed_ns % TICK_NS);
        input.departure_ns = (input.now_ns + edt).saturating_sub(100_000);
        input.delivered = input.delivered.wrapping_add(delivered * unit);
        if delivered > 0 {
            input.delivered_us = input.now_ns / 1_000;
        }
        input.lost += lost * unit;
        input.srtt_us = rtt_us;
        input.in_flight = in_flight * unit;
        input.packets_out = in_flight as u32 + queued;
        input.old_ca_state = input.ca_state;
        if changes_state || event == Event::CaState {
            input.ca_state = ca_state;
        }
        input.una = input.una.wrapping_add(delivered * 1_448);
        input.next = input.una.wrapping_add(sent * 1_448);
        input.marks = (marks & !(mark::ECE | mark::APP_LIMITED)) | if has_marks { mark::ECE } else { 0 };
        input.marks |= if app_limited { mark::APP_LIMITED } else { 0 };
        input.cwnd = left.cwnd;
        input.cwnd_count = left.cwnd_count;
        input.ssthresh = left.ssthresh;
        input.idle_ns = passed_ns;
        let has_sample = delivered > 0 && !no_sample;
        input.rs_delivered = if has_sample { (sampled * unit) as i64 } else { -1 };
        input.rs_interval_us = if has_sample { interval_us as i64 } else { -1 };
        input.rs_prior_delivered = input.delivered.saturating_sub(sampled * unit);
        input.rs_rtt_us = if no_rtt { -1 } else { rtt_us as i64 };
        input.rs_losses = lost * unit;
        input.rs_acked_sacked = delivered * unit;
        input.rs_prior_in_flight = (in_flight + delivered) * unit;
        input.rs_marks = u64::from(app_limited) | u64::from(no_rtt) << 1;
        input.tx_in_flight = deep * unit;
        input.lost_since = lost * unit;
        input.marked_since = if has_marks { marked } else { 0 };
        input.packets = lost as u32 + 1;
        input.volume = (lost + 1) * unit;
        input.seq = input.lost;
        input.pacing_rate = some_rate;
        match event {
            Event::Mss => input.mss = some_mss,
            Event::MaxRate => input.max_rate = if app_limited { u64::MAX } else { some_rate },
            _ => {}
        }
        event
    }
}

/// Number of equal calls, and the states reached.
struct Outcome {
    calls: u64,
    states: BTreeSet<u32>,
}

/// The same code compiled for this machine: processes an event on this input, with these parameters.
type Native<'a> = &'a mut dyn FnMut(Event, &Input, &Parameters) -> (Output, Telemetry);

/// Makes the same calls to both and compares the results.
fn compare(config: &AlgorithmConfig, calls: u64, events: &[Event], counts_bytes: bool, native: Native<'_>) -> Outcome {
    let name = config.name();
    let program = Program::load_for_trial(config, TICK_NS).unwrap_or_else(|fault| panic!("{name}: {fault}"));
    let parameters = kernel::parameters(config, TICK_NS);
    let mut outcome = Outcome { calls: 0, states: BTreeSet::new() };
    let mut programs = program.object().progs_mut();
    let trial = programs.find(|program| program.name() == "trial_event").unwrap();
    let seed = number("BBRLAB_SEED", 1);
    while outcome.calls < calls {
        let mut connection = Connection::begin(Rng::derive(seed, outcome.calls).next_u64(), counts_bytes);
        let mut event = Event::Init;
        for _ in 0..CONNECTION.min(calls - outcome.calls) {
            let mut asked = Trial { event: event as u64, input: connection.input, ..Trial::default() };
            let input = ProgramInput { context_in: Some(asked.bytes()), ..ProgramInput::default() };
            let ran = trial.test_run(input).unwrap_or_else(|error| panic!("{name}: event {event:?}: {error}"));
            assert_eq!(ran.return_value, 0, "{name}: event {event:?}");
            let (output, model) = native(event, &connection.input, &parameters);
            let (call, read) = (outcome.calls, &connection.input);
            assert_eq!(asked.output, output, "{name}, seed {seed}, call {call}: event {event:?} of {read:?}");
            assert_eq!(asked.model, model, "{name}, seed {seed}, call {call}: event {event:?} of {read:?}");
            outcome.states.insert(output.state);
            outcome.calls += 1;
            event = connection.step(&output, events);
        }
    }
    outcome
}

/// A configuration of the same algorithm with every parameter drawn from its range.
fn drawn(config: &AlgorithmConfig, seed: u64) -> AlgorithmConfig {
    let (mut rng, mut drawn) = (Rng::new(seed), *config);
    let specs: Vec<_> = config.parameters().map(|(spec, _)| *spec).filter(|spec| spec.name != "hz").collect();
    for spec in specs {
        let value = spec.min + rng.below(u64::from(spec.max - spec.min) + 1) as u32;
        // If a value's text rounds beyond the range, the default stays.
        let _ = drawn.set(spec.name, &spec.unit.text(value).to_string());
    }
    drawn
}

/// Compares a loaded program with the native code. A quarter of the calls use other parameters.
fn differential<A: CongestionOps>(name: &str, states: usize, counts_bytes: bool, events: &[Event]) {
    let calls = number("BBRLAB_CALLS", 100_000);
    let plain = AlgorithmConfig::named(name).unwrap();
    let (mut all, mut met) = (0, BTreeSet::new());
    for (config, calls) in [(plain, calls - calls / 4), (drawn(&plain, number("BBRLAB_SEED", 1)), calls / 4)] {
        let mut flow = Box::new(Flow::<A>::default());
        let mut native = |event: Event, input: &Input, parameters: &Parameters| {
            flow.input = *input;
            flow.call(event, parameters);
            (flow.output, flow.telemetry())
        };
        let outcome = compare(&config, calls, events, counts_bytes, &mut native);
        all += outcome.calls;
        met.extend(outcome.states);
    }
    println!("{name}: {all} calls, 0 differences, {} states", met.len());
    assert!(met.len() >= states, "{name}: only the states {met:?} were met");
}

/// Events for every algorithm that sets the window itself.
const COMMON: &[Event] =
    &[Event::Ack, Event::TxStart, Event::Rto, Event::CaState, Event::Undo, Event::Mss, Event::MaxRate];
/// Additional events for BBRv2 and BBRv3.
const PROBES: &[Event] = &[Event::TlpAck, Event::TlpRecovery, Event::Lost];
/// Events for algorithms whose window the kernel reduces.
const HOSTED: &[Event] = &[Event::Ack, Event::TxStart, Event::Rto, Event::Mss, Event::Rtt, Event::Threshold];

macro_rules! differential {
    ($($test:ident: $algorithm:ty, $name:literal, $states:literal, $bytes:literal, $events:expr;)+) => {
        $(
            #[test]
            #[ignore = "needs the right to load BPF programs"]
            fn $test() {
                differential::<$algorithm>($name, $states, $bytes, $events);
            }
        )+
    };
}

differential! {
    bbr1: Bbr1, "bbr1", 4, false, COMMON;
    cpa: BbrCpa, "bbr-cpa", 4, false, COMMON;
    acd: BbrAcd, "acd-linux", 4, false, COMMON;
    bbrs: BbrS, "bbr-s", 4, false, COMMON;
    davis: Davis, "davis", 3, false, COMMON;
    bbr2: Bbr3<LinuxV2>, "bbr2", 6, false, &[COMMON, PROBES].concat();
    bbr3: Bbr3<Draft06>, "bbr3", 6, true, &[COMMON, PROBES].concat();
    bbr3_linux: Bbr3<LinuxV3>, "bbr3-linux", 6, false, &[COMMON, PROBES].concat();
    bbr_lab: Bbr3<Lab>, "bbr-lab", 6, true, &[COMMON, PROBES].concat();
    cubic: Cubic, "cubic", 2, false, HOSTED;
    reno: Reno, "reno", 2, false, HOSTED;
    dctcp: Dctcp, "dctcp", 2, false, &[HOSTED, &[Event::CaState]].concat();
    prague: Prague, "prague", 4, false, COMMON;
}
