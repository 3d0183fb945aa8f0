//! Simulations in steps, several at once, in which a learner sets windows and rates.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bbrlab_core::{Rate, Span, Time};
use bbrlab_lab::session::Session;
use bbrlab_sim::engine::Stepper;
use bbrlab_sim::scenario::ScenarioFile;
use bbrlab_sim::setup::Setup;
use bbrlab_sim::tcp::{AckEvent, External, ExternalControl, Steering};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rayon::prelude::*;
use self_cell::self_cell;

use crate::external::ms;
use crate::{error, interrupt};

/// Values of an agent's observation, in the order of `FIELDS`.
const WIDTH: usize = 11;
/// Names of the values.
const FIELDS: [&str; WIDTH] = [
    "delivered_bytes",
    "lost_packets",
    "rtt_ms",
    "min_rtt_ms",
    "srtt_ms",
    "inflight_packets",
    "cwnd_packets",
    "acks",
    "others_bytes",
    "queue_packets",
    "step_s",
];

/// One learner's flow: the values in force, and what its ACKs have reported since the last step.
#[derive(Debug)]
struct Agent {
    steering: Steering,
    mss: u32,
    delivered: u64,
    lost: u64,
    acks: u64,
    rtt_ms_sum: f64,
    rtts: u64,
    last: [f64; 3],
    inflight: u32,
}

impl Agent {
    const fn new() -> Self {
        Self {
            steering: Steering { cwnd: 10, pacing_rate: None },
            mss: 0,
            delivered: 0,
            lost: 0,
            acks: 0,
            rtt_ms_sum: 0.0,
            rtts: 0,
            last: [0.0; 3],
            inflight: 0,
        }
    }

    /// Returns the values since the last step, and starts the next.
    fn observe(&mut self, others: u64, queue: u32, step_s: f64) -> [f64; WIDTH] {
        if self.rtts > 0 {
            self.last[0] = self.rtt_ms_sum / self.rtts as f64;
        }
        let values = [
            (self.delivered * u64::from(self.mss)) as f64,
            self.lost as f64,
            self.last[0],
            self.last[1],
            self.last[2],
            f64::from(self.inflight),
            f64::from(self.steering.cwnd),
            self.acks as f64,
            others as f64,
            f64::from(queue),
            step_s,
        ];
        (self.delivered, self.lost, self.acks, self.rtt_ms_sum, self.rtts) = (0, 0, 0, 0.0, 0);
        values
    }
}

/// The simulator's end of an agent.
struct Learner(Arc<Mutex<Agent>>);

fn locked(agent: &Mutex<Agent>) -> MutexGuard<'_, Agent> {
    agent.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ExternalControl for Learner {
    fn on_start(&mut self, _now: Time, mss: u32) -> Steering {
        let mut agent = locked(&self.0);
        agent.mss = mss;
        agent.steering
    }

    fn on_ack(&mut self, ack: &AckEvent) -> Steering {
        let mut agent = locked(&self.0);
        agent.delivered += ack.delivered;
        agent.lost += ack.lost;
        agent.acks += 1;
        if let Some(rtt) = ack.rtt {
            agent.rtt_ms_sum += ms(rtt);
            agent.rtts += 1;
        }
        agent.last[1] = ack.min_rtt.map_or(0.0, ms);
        agent.last[2] = ack.srtt.map_or(0.0, ms);
        agent.inflight = ack.inflight;
        agent.steering
    }
}

self_cell!(
    struct World {
        owner: Box<Setup>,
        #[not_covariant]
        dependent: Stepper,
    }
);

/// One simulation with its agents.
struct Env {
    world: World,
    agents: Vec<Arc<Mutex<Agent>>>,
    /// Flows of the agents.
    flows: Vec<usize>,
    received: Vec<u64>,
    is_over: bool,
}

impl Env {
    fn new(json: &str, flows: &[usize]) -> PyResult<Self> {
        let file = ScenarioFile::from_json(json, "").map_err(|fault| error::sim(&fault))?;
        let no_trace = |path: &str| Err(format!("{path:?}: an environment reads no files").into());
        let session = Session::of(&file, &no_trace).map_err(|fault| error::lab(&fault))?;
        let mut setup = session.setups[0].as_ref().clone();
        setup.sample = None;
        let mut agents = Vec::new();
        for flow in flows {
            let agent = Arc::new(Mutex::new(Agent::new()));
            setup.flows[*flow].external = Some(External::new("agent", Learner(Arc::clone(&agent))));
            agents.push(agent);
        }
        let received = vec![0; setup.flows.len()];
        let world = World::new(Box::new(setup), |setup| Stepper::new(setup));
        Ok(Self { world, agents, flows: flows.to_vec(), received, is_over: false })
    }

    /// Takes the actions, runs for `step`, or for the first agent's smoothed RTT, and appends each agent's observation.
    fn step(&mut self, actions: &[f64], step: Option<Span>, to: &mut Vec<f64>) {
        for (agent, action) in self.agents.iter().zip(actions.chunks_exact(2)) {
            let cwnd = if action[0].is_finite() { action[0].clamp(1.0, 1e8) as u32 } else { 1 };
            let rate = (action[1].is_finite() && action[1] >= 1.0).then(|| Rate::bits_per_sec(action[1] as u64));
            locked(agent).steering = Steering { cwnd, pacing_rate: rate };
        }
        let srtt_ms = self.agents.first().map_or(0.0, |agent| locked(agent).last[2]);
        let step = step.unwrap_or_else(|| Span::nanos((srtt_ms.max(1.0) * 1e6) as u64));
        let Self { world, received, .. } = self;
        let (queue, gained, is_over) = world.with_dependent_mut(|_, stepper| {
            stepper.step_until(stepper.now() + step);
            let gained: Vec<u64> = received
                .iter_mut()
                .enumerate()
                .map(|(flow, before)| {
                    let now = stepper.received_bytes(flow);
                    now - std::mem::replace(before, now)
                })
                .collect();
            (stepper.queue_packets(), gained, stepper.is_over())
        });
        self.is_over = is_over;
        let all: u64 = gained.iter().sum();
        for (agent, flow) in self.agents.iter().zip(&self.flows) {
            to.extend(locked(agent).observe(all - gained[*flow], queue, step.as_nanos() as f64 / 1e9));
        }
    }
}

/// Simulations that advance together, each on one of Rust's threads. Actions and observations are doubles in native order, as numpy
/// reads them: of each simulation and agent, cwnd in packets and pacing rate in bit/s (0: none); and the values of `fields`.
#[pyclass(frozen, module = "bbrlab")]
pub struct Envs {
    envs: Mutex<Vec<Env>>,
    flows: Vec<usize>,
    step: Option<Span>,
}

impl Envs {
    fn locked(&self) -> MutexGuard<'_, Vec<Env>> {
        self.envs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Envs {
    /// `scenarios`: one in JSON for each simulation. `flows`: the agents' flows, of the algorithm `fixed`. `step_s`: 0 for an RTT.
    #[new]
    fn new(scenarios: Vec<String>, flows: Vec<usize>, step_s: f64) -> PyResult<Self> {
        if !(step_s.is_finite() && (0.0..=3600.0).contains(&step_s)) {
            return Err(PyValueError::new_err(format!(
                "step_s: {step_s} is no step; pass seconds, or 0 for a round trip"
            )));
        }
        let envs = scenarios.iter().map(|json| Env::new(json, &flows)).collect::<PyResult<_>>()?;
        let step = (step_s > 0.0).then(|| Span::nanos((step_s * 1e9) as u64));
        Ok(Self { envs: Mutex::new(envs), flows, step })
    }

    /// Names of an observation's values.
    #[staticmethod]
    fn fields() -> [&'static str; WIDTH] {
        FIELDS
    }

    /// Replaces one simulation by a new one.
    fn reset(&self, index: usize, scenario: &str) -> PyResult<()> {
        let env = Env::new(scenario, &self.flows)?;
        let mut envs = self.locked();
        let count = envs.len();
        match envs.get_mut(index) {
            Some(place) => *place = env,
            None => return Err(PyValueError::new_err(format!("index: {index} of {count} simulations"))),
        }
        Ok(())
    }

    /// Advances every simulation that is not over. Returns the observations, and which simulations are over.
    fn step<'py>(&self, py: Python<'py>, actions: &[u8]) -> PyResult<(Bound<'py, PyBytes>, Vec<bool>)> {
        let mut envs = self.locked();
        let width = 2 * self.flows.len();
        let wanted = envs.len() * width;
        if actions.len() != wanted * 8 {
            return Err(PyValueError::new_err(format!("actions: {} bytes; pass {wanted} doubles", actions.len())));
        }
        let actions: Vec<f64> =
            actions.chunks_exact(8).map(|bytes| f64::from_ne_bytes(bytes.try_into().unwrap_or_default())).collect();
        let step = self.step;
        let one = |(env, actions): (&mut Env, &[f64])| {
            let mut values = Vec::with_capacity(env.agents.len() * WIDTH);
            env.step(actions, step, &mut values);
            values
        };
        let all: &mut Vec<Env> = &mut envs;
        let values: Vec<Vec<f64>> = if let [env] = all.as_mut_slice() {
            vec![one((env, &actions))]
        } else {
            let parts = actions.par_chunks_exact(width);
            let threads = interrupt::threads()?;
            interrupt::caught(|| py.detach(|| threads.install(|| all.par_iter_mut().zip(parts).map(one).collect())))?
        };
        let bytes: Vec<u8> = values.iter().flatten().flat_map(|value| value.to_ne_bytes()).collect();
        Ok((PyBytes::new(py, &bytes), envs.iter().map(|env| env.is_over).collect()))
    }

    fn __len__(&self) -> usize {
        self.locked().len()
    }
}
