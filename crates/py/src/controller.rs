//! The controller itself, driven event by event: for transports in Python, and for their tests.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{
    AckInfo, AckRtt, AlgorithmConfig, Controller as Core, Init, Loss, PacketToken, Rate, Sent, Span, Time,
};
use bbrlab_sim::scenario::{FlowOptions, FlowSpec};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error;
use crate::external::ms;

/// State of one sent packet, which the controller gets back with its ACK or loss.
#[pyclass(frozen, module = "bbrlab")]
pub struct Token(PacketToken);

#[pymethods]
impl Token {
    /// Bytes of the packet.
    #[getter]
    fn bytes(&self) -> u32 {
        self.0.bytes()
    }
}

/// A congestion controller. Times are seconds on any clock that does not go back; sizes are bytes as the transport counts them.
#[pyclass(module = "bbrlab")]
pub struct Controller {
    core: Core,
}

fn time(now_s: f64) -> PyResult<Time> {
    if now_s.is_finite() && (0.0..1e9).contains(&now_s) {
        return Ok(Time::nanos((now_s * 1e9).round() as u64));
    }
    Err(PyValueError::new_err(format!("now_s: {now_s} is no time; pass seconds from 0 up")))
}

fn span(name: &str, span_s: f64) -> PyResult<Span> {
    if span_s.is_finite() && (0.0..1e6).contains(&span_s) {
        return Ok(Span::nanos((span_s * 1e9).round() as u64));
    }
    Err(PyValueError::new_err(format!("{name}: {span_s} is no duration; pass seconds from 0 up")))
}

/// Parses an algorithm of core with its parameters.
fn configured(text: &str) -> Result<AlgorithmConfig, String> {
    let flow = FlowSpec::bare(text).map_err(|fault| fault.to_string())?;
    if flow.peer.is_some() || flow.is_tcp {
        return Err(format!("{:?} belongs to another transport; pass one of bbrlab.algorithms()", flow.cc));
    }
    if flow.options != FlowOptions::default() {
        return Err(format!("{text:?} has options of a flow; pass only the algorithm and its parameters"));
    }
    Ok(flow.algorithm)
}

#[pymethods]
impl Controller {
    /// `algorithm` is a name with optional parameters, as in a scenario: "bbr3,loss_thresh=0.05". Keywords are parameters too.
    #[new]
    #[pyo3(signature = (algorithm, *, mss = 1200, now_s = 0.0, initial_cwnd = 10, seed = 1, **parameters))]
    fn new(
        algorithm: &str,
        mss: u32,
        now_s: f64,
        initial_cwnd: u32,
        seed: u64,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        if !(1..=65_535).contains(&mss) {
            return Err(PyValueError::new_err(format!("mss: {mss} is no payload; pass 1 to 65535 bytes")));
        }
        let mut text = algorithm.to_owned();
        for (name, value) in parameters.into_iter().flatten() {
            let value = match value.extract::<bool>() {
                Ok(switch) => if switch { "on" } else { "off" }.to_owned(),
                Err(_) => value.str()?.to_string(),
            };
            text += &format!(",{name}={value}");
        }
        let config = configured(&text).map_err(|fault| error::scenario("algorithm", &fault))?;
        let mut init = Init::new(time(now_s)?).with_mss(mss).with_seed(seed);
        init.initial_cwnd = initial_cwnd.max(1);
        Ok(Self { core: Core::new(&config, &init) })
    }

    /// Reports a sent packet. Keep the token with the packet; a retransmission gets a new one.
    #[pyo3(signature = (now_s, bytes, *, is_retransmit = false))]
    fn on_sent(&mut self, now_s: f64, bytes: u32, is_retransmit: bool) -> PyResult<Token> {
        let sent = Sent::packet(bytes);
        let sent = if is_retransmit { sent.retransmission() } else { sent };
        Ok(Token(self.core.on_sent(time(now_s)?, &sent)))
    }

    /// Reports an ACK: the tokens and numbers of the packets that it delivers, oldest first, and those now known to be lost.
    /// `rtt_s` is that of the newest, by default the time since it was sent.
    #[pyo3(signature = (now_s, delivered, *, lost = Vec::new(), rtt_s = None))]
    fn on_ack(
        &mut self,
        now_s: f64,
        delivered: Vec<(PyRef<'_, Token>, u64)>,
        lost: Vec<(PyRef<'_, Token>, u64)>,
        rtt_s: Option<f64>,
    ) -> PyResult<()> {
        let now = time(now_s)?;
        let rtt = rtt_s.map(|rtt_s| span("rtt_s", rtt_s)).transpose()?;
        let mut batch = self.core.begin_ack(now);
        for (token, number) in &delivered {
            batch.delivered(&token.0, *number);
        }
        let open = self.core.on_delivered(batch);
        for (token, number) in &lost {
            self.core.on_lost(now, &Loss::packet(&token.0, *number));
        }
        let mut info = AckInfo::NONE;
        info.rtt = rtt.map_or(AckRtt::Newest, |rtt| AckRtt::Measured { newest: Some(rtt), oldest: Some(rtt) });
        self.core.on_ack(open, &info);
        Ok(())
    }

    /// Reports a packet that a timer declared lost.
    fn on_lost(&mut self, now_s: f64, token: &Token, number: u64) -> PyResult<()> {
        self.core.on_lost(time(now_s)?, &Loss::packet(&token.0, number).by_timer());
        Ok(())
    }

    /// Reports a packet that is no longer in flight, though neither delivered nor lost: its keys were dropped, or it was a probe.
    fn on_discarded(&mut self, token: &Token) {
        self.core.on_discarded(&token.0);
    }

    /// Reports persistent congestion (RFC 9002 §7.6).
    fn on_persistent_congestion(&mut self, now_s: f64) -> PyResult<()> {
        self.core.on_persistent_congestion(time(now_s)?);
        Ok(())
    }

    /// Reports ECN marks on packets of the next ACK.
    fn on_congestion_mark(&mut self, now_s: f64, packets: u64) -> PyResult<()> {
        self.core.on_congestion_mark(time(now_s)?, packets);
        Ok(())
    }

    /// Reports that the application has nothing to send although window and pacer would allow it.
    fn on_app_limited(&mut self) {
        self.core.on_app_limited(None);
    }

    /// Congestion window, bytes.
    #[getter]
    fn cwnd(&self) -> u64 {
        self.core.cwnd_bytes()
    }

    /// Congestion window, full packets.
    #[getter]
    fn cwnd_packets(&self) -> u32 {
        self.core.cwnd()
    }

    /// Pacing rate, bit/s; None without one.
    #[getter]
    fn pacing_rate_bps(&self) -> Option<u64> {
        self.core.pacing_rate().map(Rate::as_bits_per_sec)
    }

    /// Bytes that may leave at once.
    #[getter]
    fn send_quantum(&self) -> u64 {
        self.core.send_quantum()
    }

    /// Bytes in flight, by the controller's count.
    #[getter]
    fn in_flight(&self) -> u64 {
        self.core.in_flight().bytes
    }

    /// True if a packet of that size may leave now; pacing is separate.
    fn can_send(&self, bytes: u64) -> bool {
        self.core.can_send(bytes)
    }

    /// Name of the algorithm's state.
    #[getter]
    fn state(&self) -> &'static str {
        self.core.state().name()
    }

    /// The model: state, estimates, gains and bounds.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let snapshot = self.core.snapshot();
        let dict = PyDict::new(py);
        dict.set_item("state", snapshot.state.name())?;
        dict.set_item("cause", snapshot.cause.name())?;
        dict.set_item("bw_bps", snapshot.bw.as_bits_per_sec())?;
        dict.set_item("min_rtt_ms", snapshot.min_rtt.map(ms))?;
        dict.set_item("pacing_gain", f64::from(snapshot.pacing_gain) / 256.0)?;
        dict.set_item("cwnd_gain", f64::from(snapshot.cwnd_gain) / 256.0)?;
        dict.set_item("round_count", snapshot.round_count)?;
        dict.set_item("full_bw_reached", snapshot.full_bw_reached)?;
        dict.set_item("bw_shortterm_bps", snapshot.bounds.bw_shortterm.map(Rate::as_bits_per_sec))?;
        dict.set_item("inflight_shortterm", snapshot.bounds.inflight_shortterm)?;
        dict.set_item("inflight_longterm", snapshot.bounds.inflight_longterm)?;
        Ok(dict)
    }

    fn __repr__(&self) -> String {
        format!("<bbrlab.Controller in {}, cwnd {} bytes>", self.core.state().name(), self.core.cwnd_bytes())
    }
}
