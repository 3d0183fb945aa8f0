//! Observed controllers of s2n-quic connections: ours or s2n-quic's own.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Span, State, Time};
use bbrlab_sim::record::trace::ModelSample;
use bbrlab_sim::setup::FlowSetup;
use s2n_quic::provider::congestion_controller::{
    self as stack, CongestionController, Endpoint, PathInfo, Publisher, RandomGenerator, RttEstimator, Timestamp,
};
use s2n_quic_core::event::builder::{BbrState, SlowStartExitCause};
use s2n_quic_core::recovery::bandwidth::{Bandwidth, RateSample};
use s2n_quic_core::time::{Clock, NoopClock};

use crate::backend::debug;
use crate::backend::sender::{Sender, Shared};
use crate::s2n::{Factory, Named, NamedController, NamedInfo};

/// Creates the controller of one end of a flow.
#[derive(Debug)]
pub struct ObservedFactory {
    kind: Named,
    sender: Shared,
}

impl ObservedFactory {
    /// Creates the factory for a flow's sender.
    pub fn sender(flow: &FlowSetup, seed: u64, sender: Shared) -> Self {
        let kind = match flow.peer.map(|peer| peer.name) {
            Some("s2n:bbr") => Named::Bbr(stack::Bbr::default()),
            Some(_) => Named::Cubic(stack::Cubic::default()),
            None => {
                let factory = Factory::of(flow.algorithm).with_seed(seed).with_initial_window(flow.host.initial_cwnd);
                Named::Ours(if flow.host.pacing { factory.with_pacing() } else { factory })
            }
        };
        Self { kind, sender }
    }

    /// Creates the factory for a flow's receiver, whose ACKs no controller holds back.
    pub fn receiver() -> Self {
        Self { kind: Named::Cubic(stack::Cubic::default()), sender: Shared::default() }
    }
}

impl Endpoint for ObservedFactory {
    type CongestionController = ObservedController;

    fn new_congestion_controller(&mut self, path: PathInfo) -> ObservedController {
        let mss = path.max_datagram_size.into();
        let inner = self.kind.new_congestion_controller(path);
        let watched = ObservedController { inner, sender: self.sender.clone() };
        let mut sender = self.sender.lock();
        sender.now.mss = mss;
        watched.note(&mut sender, Time::ZERO);
        if matches!(watched.inner, NamedController::Bbr(_)) {
            sender.note_state(Time::ZERO, State::Startup);
        }
        drop(sender);
        watched
    }
}

/// A controller whose calls are recorded.
#[derive(Clone, Debug)]
pub struct ObservedController {
    inner: NamedController,
    sender: Shared,
}

/// Converts a timestamp to the run's time. The clocks count from its start, and s2n-quic's earliest timestamp is a microsecond.
pub fn at(moment: Timestamp) -> Time {
    let since = moment.saturating_duration_since(NoopClock.get_time()).as_nanos();
    Time::nanos(u64::try_from(since).unwrap_or(u64::MAX)) + Span::micros(1)
}

/// Records the events published by the stack's own controllers. Ours are read directly.
struct EventRecorder<'e, P> {
    inner: &'e mut P,
    sender: &'e Shared,
    now: Time,
    is_ours: bool,
}

impl<P: Publisher> Publisher for EventRecorder<'_, P> {
    fn on_slow_start_exited(&mut self, cause: SlowStartExitCause, congestion_window: u32) {
        self.inner.on_slow_start_exited(cause, congestion_window);
    }
    fn on_delivery_rate_sampled(&mut self, sample: RateSample) {
        self.inner.on_delivery_rate_sampled(sample);
    }
    fn on_pacing_rate_updated(&mut self, rate: Bandwidth, burst_size: u32, gain: num_rational::Ratio<u64>) {
        if self.is_ours {
            return self.inner.on_pacing_rate_updated(rate, burst_size, gain);
        }
        let bps = rate.as_bytes_per_second().saturating_mul(8);
        let mut sender = self.sender.lock();
        sender.pacing_gain = Some(*gain.numer() as f64 / *gain.denom() as f64);
        sender.now.pacing_bps = bps;
        // The rate is the estimate times the gain, minus 1 %.
        sender.now.bw_bps =
            (u128::from(bps) * u128::from(*gain.denom()) * 100 / u128::from((*gain.numer()).max(1)) / 99) as u64;
        drop(sender);
        self.inner.on_pacing_rate_updated(rate, burst_size, gain);
    }
    fn on_bbr_state_changed(&mut self, state: BbrState) {
        if self.is_ours {
            return self.inner.on_bbr_state_changed(state);
        }
        let known = match &state {
            BbrState::Startup => State::Startup,
            BbrState::Drain => State::Drain,
            BbrState::ProbeBwDown => State::ProbeBwDown,
            BbrState::ProbeBwCruise => State::ProbeBwCruise,
            BbrState::ProbeBwRefill => State::ProbeBwRefill,
            BbrState::ProbeBwUp => State::ProbeBwUp,
            BbrState::ProbeRtt => State::ProbeRtt,
        };
        self.sender.lock().note_state(self.now, known);
        self.inner.on_bbr_state_changed(state);
    }
}

impl ObservedController {
    const fn is_ours(&self) -> bool {
        matches!(self.inner, NamedController::Ours(_))
    }

    /// Records the controller's outputs.
    fn note(&self, sender: &mut Sender, now: Time) {
        if let NamedController::Ours(ours) = &self.inner {
            if let Some(cc) = ours.controller() {
                sender.note_ours(now, cc);
                if let Some(emitted) = sender.wanted() {
                    // The stack never detects a spurious loss.
                    sender.hear(now, emitted, ModelSample::of(cc, f64::NAN, f64::NAN, f64::NAN));
                }
            }
            return;
        }
        sender.now.cwnd = self.inner.congestion_window().into();
        sender.now.in_flight = self.inner.bytes_in_flight().into();
        if let NamedController::Bbr(own) = &self.inner
            && let Some(emitted) = sender.wanted()
        {
            let internals = debug::s2n_inside(&format!("{own:?}"));
            let pacing_gain = sender.pacing_gain.unwrap_or(f64::NAN);
            sender.hear(now, emitted, ModelSample { pacing_gain, ..internals });
        }
    }
}

impl CongestionController for ObservedController {
    type PacketInfo = NamedInfo;

    fn congestion_window(&self) -> u32 {
        self.inner.congestion_window()
    }
    fn bytes_in_flight(&self) -> u32 {
        self.inner.bytes_in_flight()
    }
    fn is_congestion_limited(&self) -> bool {
        self.inner.is_congestion_limited()
    }
    fn requires_fast_retransmission(&self) -> bool {
        self.inner.requires_fast_retransmission()
    }

    fn on_packet_sent<P: Publisher>(
        &mut self,
        time_sent: Timestamp,
        bytes: usize,
        app_limited: Option<bool>,
        rtt: &RttEstimator,
        publisher: &mut P,
    ) -> NamedInfo {
        let now = at(time_sent);
        let observer = &mut EventRecorder { inner: publisher, sender: &self.sender, now, is_ours: self.is_ours() };
        let info = self.inner.on_packet_sent(time_sent, bytes, app_limited, rtt, observer);
        if bytes > 0 {
            let mut sender = self.sender.lock();
            let is_first = sender.now.in_flight == 0;
            sender.on_sent(bytes as u64);
            if is_first {
                sender.on_news(bytes as u64);
                self.note(&mut sender, now);
            }
        }
        info
    }

    fn on_rtt_update<P: Publisher>(&mut self, sent: Timestamp, now: Timestamp, rtt: &RttEstimator, publisher: &mut P) {
        let moment = at(now);
        let observer =
            &mut EventRecorder { inner: publisher, sender: &self.sender, now: moment, is_ours: self.is_ours() };
        self.inner.on_rtt_update(sent, now, rtt, observer);
        let span = now.saturating_duration_since(sent).as_nanos();
        self.sender.lock().on_rtt(moment, Span::nanos(u64::try_from(span).unwrap_or(u64::MAX)));
    }

    fn on_ack<P: Publisher>(
        &mut self,
        newest_sent: Timestamp,
        bytes: usize,
        newest: NamedInfo,
        rtt: &RttEstimator,
        random: &mut dyn RandomGenerator,
        received: Timestamp,
        publisher: &mut P,
    ) {
        let now = at(received);
        let observer = &mut EventRecorder { inner: publisher, sender: &self.sender, now, is_ours: self.is_ours() };
        self.inner.on_ack(newest_sent, bytes, newest, rtt, random, received, observer);
        let mut sender = self.sender.lock();
        sender.on_acked(bytes as u64);
        sender.on_news(0);
        self.note(&mut sender, now);
    }

    fn on_packet_lost<P: Publisher>(
        &mut self,
        bytes: u32,
        info: NamedInfo,
        persistent_congestion: bool,
        new_burst: bool,
        random: &mut dyn RandomGenerator,
        timestamp: Timestamp,
        publisher: &mut P,
    ) {
        let now = at(timestamp);
        let observer = &mut EventRecorder { inner: publisher, sender: &self.sender, now, is_ours: self.is_ours() };
        self.inner.on_packet_lost(bytes, info, persistent_congestion, new_burst, random, timestamp, observer);
        let mut sender = self.sender.lock();
        sender.on_lost(bytes.into());
        sender.count.persistent += u64::from(persistent_congestion);
        self.note(&mut sender, now);
    }

    fn on_explicit_congestion<P: Publisher>(&mut self, ce_count: u64, event_time: Timestamp, publisher: &mut P) {
        let observer =
            &mut EventRecorder { inner: publisher, sender: &self.sender, now: at(event_time), is_ours: self.is_ours() };
        self.inner.on_explicit_congestion(ce_count, event_time, observer);
    }

    fn on_mtu_update<P: Publisher>(&mut self, max_data_size: u16, publisher: &mut P) {
        self.inner.on_mtu_update(max_data_size, publisher);
        self.sender.lock().now.mss = max_data_size.into();
    }

    fn on_packet_discarded<P: Publisher>(&mut self, bytes: usize, publisher: &mut P) {
        self.inner.on_packet_discarded(bytes, publisher);
    }

    fn earliest_departure_time(&self) -> Option<Timestamp> {
        self.inner.earliest_departure_time()
    }

    fn send_quantum(&self) -> Option<usize> {
        self.inner.send_quantum()
    }
}
