//! Congestion controls written in Python.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bbrlab_core::{Rate, Span, Time};
use bbrlab_lab::session::Session;
use bbrlab_sim::setup::Setup;
use bbrlab_sim::tcp::{AckEvent, External, ExternalControl, Steering};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::error;

/// Name of the algorithm for which a class stands.
pub const FIXED: &str = "fixed";
/// Largest window, as that of the algorithm `fixed`.
const CWND_MAX: f64 = 1e8;

/// One ACK, as an algorithm in Python gets it. Packets are full segments.
#[pyclass(frozen, get_all, module = "bbrlab")]
pub struct Ack {
    /// Time of its arrival, seconds since the start of the run.
    now_s: f64,
    /// RTT of the newest segment that it delivers, ms; None if that was retransmitted.
    rtt_ms: Option<f64>,
    /// Minimum RTT, ms.
    min_rtt_ms: Option<f64>,
    /// Smoothed RTT, ms.
    srtt_ms: Option<f64>,
    /// Packets that it delivers.
    delivered: u64,
    /// Packets marked lost since the last ACK.
    lost: u64,
    /// Packets delivered since the connection began.
    delivered_total: u64,
    /// Packets in flight after it.
    inflight: u32,
    /// Payload delivered per second over the newest segment's RTT, bit/s; None without an RTT.
    delivery_rate_bps: Option<f64>,
    /// True if the application was the limit.
    is_app_limited: bool,
    /// True in loss recovery.
    in_recovery: bool,
    /// True if a retransmission timeout preceded it.
    after_rto: bool,
}

pub fn ms(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e6
}

impl Ack {
    pub fn of(event: &AckEvent) -> Self {
        Self {
            now_s: seconds(event.now),
            rtt_ms: event.rtt.map(ms),
            min_rtt_ms: event.min_rtt.map(ms),
            srtt_ms: event.srtt.map(ms),
            delivered: event.delivered,
            lost: event.lost,
            delivered_total: event.delivered_total,
            inflight: event.inflight,
            delivery_rate_bps: event.delivery_rate.map(|rate| rate.as_bits_per_sec() as f64),
            is_app_limited: event.is_app_limited,
            in_recovery: event.in_recovery,
            after_rto: event.after_rto,
        }
    }
}

/// Packets that leave together.
#[pyclass(frozen, get_all, module = "bbrlab")]
pub struct Sent {
    /// Time at which they leave, seconds since the start of the run.
    now_s: f64,
    /// Their number; packets are full segments.
    packets: u32,
    /// Packets in flight, these included.
    inflight: u32,
}

/// A retransmission timeout.
#[pyclass(frozen, get_all, module = "bbrlab")]
pub struct Timeout {
    /// Its time, seconds since the start of the run.
    now_s: f64,
    /// Packets still in flight: those sent just before it.
    inflight: u32,
}

fn seconds(time: Time) -> f64 {
    time.as_nanos() as f64 / 1e9
}

#[pymethods]
impl Ack {
    fn __repr__(&self) -> String {
        format!("<bbrlab.Ack at {} s: {} delivered, {} lost>", self.now_s, self.delivered, self.lost)
    }
}

/// State shared by a Python algorithm and its caller: the first exception, and the flag that ends the run.
struct Failure {
    raised: Mutex<Option<PyErr>>,
    is_failed: Arc<AtomicBool>,
}

/// An algorithm in Python, as the simulator calls it.
pub struct PythonControl {
    object: Py<PyAny>,
    mss: u32,
    has: Methods,
    last: Steering,
    failure: Arc<Failure>,
}

/// Optional methods that the class overrides.
#[derive(Clone, Copy)]
struct Methods {
    on_start: bool,
    on_loss: bool,
    on_rto: bool,
    on_sent: bool,
}

impl Methods {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let base = object.py().import("bbrlab._algorithm")?.getattr("Algorithm")?;
        let class = object.get_type();
        let has = |name: &str| match class.getattr_opt(name)? {
            Some(method) => Ok(base.getattr_opt(name)?.is_none_or(|default| !method.is(&default))),
            None => object.hasattr(name),
        };
        Ok(Self {
            on_start: has("on_start")?,
            on_loss: has("on_loss")?,
            on_rto: has("on_rto")?,
            on_sent: has("on_sent")?,
        })
    }
}

/// The caller's end of a control.
pub struct Handle(Arc<Failure>);

/// Interns a name, so that it lives as long as a result may show it.
fn interned(name: String) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name.as_str()) {
        return known;
    }
    let name: &'static str = Box::leak(name.into_boxed_str());
    names.insert(name);
    name
}

impl PythonControl {
    /// Gives flows of a scenario algorithms in Python: (index of the flow's text, class). Each flow of each run gets an object of
    /// its own.
    pub fn attach(
        py: Python<'_>,
        session: &mut Session,
        classes: Vec<(usize, Py<PyAny>)>,
        is_failed: &Arc<AtomicBool>,
    ) -> PyResult<Vec<Handle>> {
        let mut handles = Vec::new();
        // A text may stand for several flows.
        let counts: Vec<usize> = session.scenario.flow.iter().map(|spec| spec.count as usize).collect();
        for setup in &mut session.setups {
            for (nth, class) in &classes {
                let first: usize = counts.iter().take(*nth).sum();
                let count = counts.get(*nth).copied().unwrap_or_default();
                let flows = Arc::make_mut(setup).flows.get_mut(first..first + count);
                for flow in flows.ok_or_else(|| error::internal("a flow without a setup"))? {
                    let control = Self::new(py, class, flow.mss, is_failed)?;
                    handles.push(Handle(Arc::clone(&control.failure)));
                    flow.external = Some(External::new(control.name(py)?, control));
                }
            }
        }
        Ok(handles)
    }

    /// Gives each flow of the algorithm `fixed` an object of the class.
    pub fn replace_fixed(
        py: Python<'_>,
        setup: &mut Setup,
        class: &Py<PyAny>,
        is_failed: &Arc<AtomicBool>,
    ) -> PyResult<Vec<Handle>> {
        let mut handles = Vec::new();
        for flow in setup.flows.iter_mut().filter(|flow| flow.algorithm.name() == FIXED) {
            let control = Self::new(py, class, flow.mss, is_failed)?;
            handles.push(Handle(Arc::clone(&control.failure)));
            flow.external = Some(External::new(control.name(py)?, control));
        }
        Ok(handles)
    }

    fn new(py: Python<'_>, class: &Py<PyAny>, mss: u32, is_failed: &Arc<AtomicBool>) -> PyResult<Self> {
        let object = class.call0(py)?;
        let bound = object.bind(py);
        if !bound.hasattr("on_ack")? {
            let line = format!("{}: an algorithm has a method on_ack(self, ack)", bound.repr()?);
            return Err(PyTypeError::new_err(line));
        }
        let has = Methods::of(bound)?;
        let failure = Arc::new(Failure { raised: Mutex::new(None), is_failed: Arc::clone(is_failed) });
        Ok(Self { object, mss, has, last: Steering { cwnd: 10, pacing_rate: None }, failure })
    }

    fn name(&self, py: Python<'_>) -> PyResult<&'static str> {
        Ok(interned(self.object.bind(py).get_type().name()?.to_string()))
    }

    /// The first exception of a control, if one was raised.
    pub fn take_error(handle: &Handle) -> Option<PyErr> {
        handle.0.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Calls the object; after an exception the values stay and the run ends.
    fn call(&mut self, with: impl FnOnce(Python<'_>, &Bound<'_, PyAny>, Methods) -> PyResult<()>) -> Steering {
        if self.failure.is_failed.load(Ordering::Relaxed) {
            return self.last;
        }
        let steering = Python::attach(|py| {
            let object = self.object.bind(py);
            with(py, object, self.has)?;
            self.read(object)
        });
        match steering {
            Ok(steering) => self.last = steering,
            Err(raised) => {
                self.failure.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(raised);
                self.failure.is_failed.store(true, Ordering::Relaxed);
            }
        }
        self.last
    }

    fn read(&self, object: &Bound<'_, PyAny>) -> PyResult<Steering> {
        let py = object.py();
        let number = |name: &Bound<'_, pyo3::types::PyString>| -> PyResult<Option<f64>> {
            match object.getattr_opt(name)? {
                Some(value) if !value.is_none() => {
                    let number: f64 = value.extract()?;
                    let is_valid = number.is_finite() && number >= 0.0;
                    is_valid.then_some(Some(number)).ok_or_else(|| refused(object, &name.to_string(), number))
                }
                _ => Ok(None),
            }
        };
        let packets = number(pyo3::intern!(py, "cwnd_packets"))?;
        let cwnd = match packets {
            Some(packets) => packets,
            None => number(pyo3::intern!(py, "cwnd_bytes"))?
                .map_or(f64::from(self.last.cwnd), |bytes| bytes / f64::from(self.mss)),
        };
        let rate = number(pyo3::intern!(py, "pacing_rate_bps"))?;
        Ok(Steering {
            cwnd: cwnd.clamp(1.0, CWND_MAX) as u32,
            pacing_rate: rate.filter(|rate| *rate >= 1.0).map(|rate| Rate::bits_per_sec(rate as u64)),
        })
    }
}

fn refused(object: &Bound<'_, PyAny>, name: &str, found: f64) -> PyErr {
    let class = object.get_type().name().map_or_else(|_| "algorithm".to_owned(), |name| name.to_string());
    PyValueError::new_err(format!("{class}.{name}: {found} is no window or rate; set a number from 0 up, or None"))
}

impl ExternalControl for PythonControl {
    fn on_start(&mut self, now: Time, mss: u32) -> Steering {
        self.mss = mss;
        self.call(|py, object, has| {
            object.setattr(pyo3::intern!(py, "mss"), mss)?;
            if has.on_start {
                object.call_method1(pyo3::intern!(py, "on_start"), (seconds(now),))?;
            }
            Ok(())
        })
    }

    fn on_ack(&mut self, ack: &AckEvent) -> Steering {
        self.call(|py, object, has| {
            let event = Bound::new(py, Ack::of(ack))?;
            if ack.lost > 0 && has.on_loss {
                object.call_method1(pyo3::intern!(py, "on_loss"), (&event,))?;
            }
            object.call_method1(pyo3::intern!(py, "on_ack"), (event,))?;
            Ok(())
        })
    }

    fn on_sent(&mut self, now: Time, packets: u32, inflight: u32) -> Option<Steering> {
        self.has.on_sent.then(|| {
            self.call(|py, object, _| {
                let event = Bound::new(py, Sent { now_s: seconds(now), packets, inflight })?;
                object.call_method1(pyo3::intern!(py, "on_sent"), (event,)).map(drop)
            })
        })
    }

    fn on_rto(&mut self, now: Time, inflight: u32) -> Option<Steering> {
        self.has.on_rto.then(|| {
            self.call(|py, object, _| {
                let event = Bound::new(py, Timeout { now_s: seconds(now), inflight })?;
                object.call_method1(pyo3::intern!(py, "on_rto"), (event,)).map(drop)
            })
        })
    }
}
