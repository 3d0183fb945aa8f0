//! Congestion controls written in Python.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bbrlab_core::{Rate, Span, Time};
use bbrlab_sim::setup::Setup;
use bbrlab_sim::tcp::{AckEvent, External, ExternalControl, Steering};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::error;

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
            now_s: event.now.as_nanos() as f64 / 1e9,
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

/// The optional methods that the class has.
#[derive(Clone, Copy)]
struct Methods {
    on_loss: bool,
    on_rto: bool,
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
    /// Gives the flows with these indices algorithms in Python. Each run of a flow gets an object of its own.
    pub fn attach(
        py: Python<'_>,
        setups: &mut [Arc<Setup>],
        classes: Vec<(usize, Py<PyAny>)>,
        is_failed: &Arc<AtomicBool>,
    ) -> PyResult<Vec<Handle>> {
        let mut handles = Vec::new();
        for setup in setups {
            for (index, class) in &classes {
                let flow = Arc::make_mut(setup).flows.get_mut(*index);
                let flow = flow.ok_or_else(|| error::internal("a flow without a setup"))?;
                let object = class.call0(py)?;
                let bound = object.bind(py);
                if !bound.hasattr("on_ack")? {
                    return Err(PyTypeError::new_err(format!(
                        "{}: an algorithm has a method on_ack(self, ack)",
                        bound.repr()?
                    )));
                }
                let name = interned(bound.get_type().name()?.to_string());
                let has = Methods { on_loss: bound.hasattr("on_loss")?, on_rto: bound.hasattr("on_rto")? };
                let failure = Arc::new(Failure { raised: Mutex::new(None), is_failed: Arc::clone(is_failed) });
                let last = Steering { cwnd: 10, pacing_rate: None };
                let control = Self { object, mss: flow.mss, has, last, failure: Arc::clone(&failure) };
                flow.external = Some(External::new(name, control));
                handles.push(Handle(failure));
            }
        }
        Ok(handles)
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
        self.call(|py, object, _| {
            object.setattr(pyo3::intern!(py, "mss"), mss)?;
            if object.hasattr(pyo3::intern!(py, "on_start"))? {
                object.call_method1(pyo3::intern!(py, "on_start"), (now.as_nanos() as f64 / 1e9,))?;
            }
            Ok(())
        })
    }

    fn on_ack(&mut self, ack: &AckEvent) -> Steering {
        self.call(|py, object, has| {
            let event = Bound::new(py, Ack::of(ack))?;
            if ack.after_rto && has.on_rto {
                object.call_method1(pyo3::intern!(py, "on_rto"), (&event,))?;
            }
            if ack.lost > 0 && has.on_loss {
                object.call_method1(pyo3::intern!(py, "on_loss"), (&event,))?;
            }
            object.call_method1(pyo3::intern!(py, "on_ack"), (event,))?;
            Ok(())
        })
    }
}
