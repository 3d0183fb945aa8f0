//! A run that a page advances, changes and draws.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, Time};
use bbrlab_sim::engine::Stepper;
use bbrlab_sim::engine::watch::Stage;
use bbrlab_sim::link::Service;
use bbrlab_sim::scenario::{Scenario, ScenarioFile};
use bbrlab_sim::setup::Setup;
use bbrlab_sim::tcp::External;
use self_cell::self_cell;

use crate::hand::{Hand, Inputs};
use crate::request::StepTo;
use crate::tracker::Tracker;
use crate::{Error, frame};

/// Events handled for one step at most. Ours: more than a round trip of the fastest path of the page has.
const STEP_EVENTS_MAX: usize = 200_000;
/// Bits of a full packet, for the estimate of a run's size.
const PACKET_BITS: f64 = 1514.0 * 8.0;

/// Purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is drawn, and may change.
    Watched,
    /// Its result is wanted, in the shortest time.
    Ahead,
}

/// The simulation, until its result is taken.
type Held<'a> = Option<Stepper<'a>>;

self_cell!(
    struct Simulated {
        owner: Box<Setup>,
        #[not_covariant]
        dependent: Held,
    }
);

/// A run.
pub struct Run {
    simulated: Simulated,
    scenario: Scenario,
    tracker: Tracker,
    mss: Vec<u32>,
    hand: Inputs,
    now: Time,
    is_over: bool,
}

impl Run {
    /// Creates a run at time zero. The flow `hand` is steered by `inputs`.
    pub fn new(file: &ScenarioFile, mode: Mode, hand: Option<usize>, inputs: Vec<(f64, f64)>) -> Result<Self, Error> {
        let mut setup = resolve(file)?;
        let steered = Inputs::default();
        for (at_ns, rate_bps) in inputs {
            steered.add(time(at_ns), rate_bps);
        }
        if let Some(flow) = hand.and_then(|index| setup.flows.get_mut(index)) {
            flow.external = Some(External::new("you", Hand(steered.clone())));
        }
        if mode == Mode::Watched {
            setup.sample = None;
        }
        let (flows, mss) = (setup.flows.len(), setup.flows.iter().map(|flow| flow.mss).collect());
        let simulated = Simulated::new(Box::new(setup), |setup| match mode {
            Mode::Watched => Some(Stepper::watched(setup)),
            Mode::Ahead => Some(Stepper::ahead(setup)),
        });
        let scenario = file.scenario.filled();
        Ok(Self {
            simulated,
            scenario,
            tracker: Tracker::new(flows),
            mss,
            hand: steered,
            now: Time::ZERO,
            is_over: false,
        })
    }

    /// True at the end of the run.
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Present time, nanoseconds.
    pub const fn now_ns(&self) -> f64 {
        self.now.as_nanos() as f64
    }

    /// Advances to `until_ns`.
    pub fn advance(&mut self, until_ns: f64) {
        self.drive(|stepper, tracker| {
            stepper.step_until(time(until_ns));
            tracker.follow(&stepper.take_events());
        });
    }

    /// Advances to the next event of a flow.
    pub fn step(&mut self, flow: usize, what: StepTo) {
        let wanted = if what == StepTo::Packet { Stage::Sent } else { Stage::AckArrived };
        self.drive(|stepper, tracker| {
            if tracker.flows.len() <= flow {
                return;
            }
            let round = |stepper: &Stepper<'_>| stepper.flow(flow).snapshot.round_count;
            let (from, before) = (stepper.now(), round(stepper));
            // An algorithm without rounds is stepped by its smoothed RTT.
            let view = stepper.flow(flow);
            let until = from + view.srtt.unwrap_or(view.forward + view.reverse);
            for _ in 0..STEP_EVENTS_MAX {
                if stepper.is_over() {
                    return;
                }
                stepper.step_until(stepper.next_time().max(stepper.now() + Span::nanos(1)));
                let events = stepper.take_events();
                tracker.follow(&events);
                let has_met = events.iter().any(|event| event.flow as usize == flow && event.stage == wanted);
                let has_round = has_met && (round(stepper) > before || before == 0 && stepper.now() >= until);
                if has_met && what != StepTo::Round || has_round {
                    return;
                }
            }
        });
    }

    /// Takes over the schedule of a changed scenario.
    pub fn change(&mut self, file: &ScenarioFile) -> Result<(), Error> {
        let schedule = resolve(file)?.schedule;
        self.scenario = file.scenario.filled();
        self.drive(|stepper, _| stepper.reschedule(schedule));
        Ok(())
    }

    /// Sets the rate of the flow that is steered by hand, from `at_ns` on.
    pub fn steer(&self, at_ns: f64, rate_bps: f64) {
        self.hand.add(time(at_ns), rate_bps);
    }

    /// Writes a frame: head and flows, and with `has_packets` packets and notes.
    pub fn write(&mut self, to: &mut Vec<f64>, has_packets: bool) {
        let Self { simulated, tracker, mss, now, .. } = self;
        simulated.with_dependent_mut(|setup, held| {
            let Some(stepper) = held else { return };
            frame::head(to, *now, mss.len(), &stepper.bottleneck());
            for (index, mss) in mss.iter().enumerate() {
                let queued = tracker.flows[index].queue.len();
                let is_finished = setup.flows[index].stop.is_some_and(|stop| stop <= *now);
                frame::flow(to, &stepper.flow(index), *mss, queued, is_finished);
            }
        });
        if has_packets {
            frame::finish(to, tracker);
            self.tracker.notes.clear();
        }
    }

    /// Runs to the end. Returns the result document, byte by byte as `bbrlab run --json` writes it but for `wall_s`.
    pub fn document(mut self) -> Result<String, Error> {
        let Some(output) = self.simulated.with_dependent_mut(|_, held| held.take().map(Stepper::finish)) else {
            return Ok(String::new());
        };
        let mut result = output.result;
        result.describe(&self.scenario)?;
        let document = serde_json::to_value(&result)?;
        Ok(serde_json::to_string_pretty(&document)? + "\n")
    }

    fn drive(&mut self, with: impl FnOnce(&mut Stepper<'_>, &mut Tracker)) {
        let Self { simulated, tracker, .. } = self;
        if let Some((now, is_over)) = simulated.with_dependent_mut(|_, held| {
            let stepper = held.as_mut()?;
            with(stepper, tracker);
            Some((stepper.now(), stepper.is_over()))
        }) {
            (self.now, self.is_over) = (now, is_over);
        }
    }
}

fn time(ns: f64) -> Time {
    if ns.is_finite() && ns > 0.0 { Time::nanos(ns as u64) } else { Time::ZERO }
}

fn resolve(file: &ScenarioFile) -> Result<Setup, Error> {
    Ok(file.resolve(&|_| Err("a page reads no files".into()))?)
}

/// Packets that the links of a run can carry.
pub fn packets(setup: &Setup) -> f64 {
    let rate = |service: &Service| match service {
        Service::Rate(rate) => rate.as_bits_per_sec() as f64,
        Service::Trace(trace) => trace.mean_rate().as_bits_per_sec() as f64,
        Service::Demand(demand) => demand.max.as_bits_per_sec() as f64,
    };
    let fastest = setup.links.iter().map(|link| rate(&link.service)).fold(0.0, f64::max);
    fastest * setup.duration.as_nanos() as f64 / 1e9 / PACKET_BITS
}
