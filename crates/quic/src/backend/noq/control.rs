//! Observed controllers of noq connections: ours or noq's own.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bbrlab_core::{Span, Time};
use bbrlab_sim::record::trace::ModelSample;
use bbrlab_sim::setup::FlowSetup;
use noq_proto::RttEstimator;
use noq_proto::congestion::{Bbr3Config, Controller, ControllerFactory, ControllerMetrics, CubicConfig, NewRenoConfig};

use crate::backend::debug;
use crate::backend::sender::{Outputs, Shared};
use crate::noq::{Adapter, Factory};

/// Creates the controller of one flow.
pub struct ObservedFactory {
    pub flow: FlowSetup,
    pub seed: u64,
    pub origin: Instant,
    pub sender: Shared,
}

impl ControllerFactory for ObservedFactory {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let inner = match self.flow.peer.map(|peer| peer.name) {
            Some("noq:bbr3") => Inner::Bbr3(Arc::new(Bbr3Config::default()).build(now, mtu)),
            Some("noq:cubic") => Inner::Other(Arc::new(CubicConfig::default()).build(now, mtu)),
            Some(_) => Inner::Other(Arc::new(NewRenoConfig::default()).build(now, mtu)),
            None => {
                let factory = Factory::of(self.flow.algorithm).with_seed(self.seed);
                Inner::Ours(Box::new(factory.with_initial_window(self.flow.host.initial_cwnd).make(now, mtu)))
            }
        };
        let watched = ObservedController {
            inner,
            origin: self.origin,
            now: Time::ZERO,
            mtu,
            sender: self.sender.clone(),
            newest: None,
        };
        watched.note(true);
        Box::new(watched)
    }
}

enum Inner {
    Ours(Box<Adapter>),
    Bbr3(Box<dyn Controller>),
    Other(Box<dyn Controller>),
}

/// A controller whose calls are recorded.
struct ObservedController {
    inner: Inner,
    origin: Instant,
    now: Time,
    mtu: u16,
    sender: Shared,
    /// Send time of the newest packet in the current ACK.
    newest: Option<Instant>,
}

impl fmt::Debug for ObservedController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

impl ObservedController {
    fn get(&self) -> &dyn Controller {
        match &self.inner {
            Inner::Ours(ours) => ours.as_ref(),
            Inner::Bbr3(own) | Inner::Other(own) => own.as_ref(),
        }
    }

    fn get_mut(&mut self) -> &mut dyn Controller {
        match &mut self.inner {
            Inner::Ours(ours) => ours.as_mut(),
            Inner::Bbr3(own) | Inner::Other(own) => own.as_mut(),
        }
    }

    fn at(&mut self, moment: Instant) -> Time {
        let since = moment.saturating_duration_since(self.origin).as_nanos();
        self.now = Time::nanos(u64::try_from(since).unwrap_or(u64::MAX));
        self.now
    }

    /// Records the controller's outputs if an event has happened since.
    fn note(&self, is_news: bool) {
        let mut sender = self.sender.lock();
        if !is_news && !sender.is_stale {
            return;
        }
        sender.is_stale = false;
        if let Inner::Ours(ours) = &self.inner {
            ours.with(|cc| {
                sender.note_ours(self.now, cc);
                if let Some(emitted) = sender.wanted() {
                    let undos = sender.count.undos as f64;
                    sender.hear(self.now, emitted, ModelSample::of(cc, f64::NAN, undos, f64::NAN));
                }
            });
            return;
        }
        let metrics = self.get().metrics();
        sender.now = Outputs {
            cwnd: metrics.congestion_window,
            in_flight: sender.now.in_flight,
            mss: self.mtu.into(),
            pacing_bps: metrics.pacing_rate.unwrap_or(0).saturating_mul(8),
            bw_bps: metrics.bandwidth_estimate.unwrap_or(0),
            min_rtt: None,
        };
        if let Inner::Bbr3(own) = &self.inner {
            let mut text = debug::head(own, debug::NOQ_PACKETS);
            let states = sender.states.len();
            if let Some(state) = debug::noq_state(&text) {
                sender.note_state(self.now, state);
            }
            if let Some(emitted) = sender.wanted() {
                // The fields after the packet list take long to print, so they are read only when a state begins.
                if sender.states.len() > states {
                    text = format!("{own:?}");
                }
                let undos = sender.count.undos as f64;
                sender.hear(self.now, emitted, ModelSample { undos, ..debug::noq_inside(&text, self.origin) });
            }
        }
    }
}

impl Controller for ObservedController {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        self.get_mut().on_sent(now, bytes, largest_pn);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.at(now);
        self.get_mut().on_packet_sent(now, bytes, pn);
        let mut sender = self.sender.lock();
        let is_first = sender.now.in_flight == 0;
        sender.on_sent(bytes.into());
        sender.is_stale = true;
        if is_first {
            sender.on_news(bytes.into());
            drop(sender);
            self.note(true);
        }
    }

    fn on_cwnd_limited(&mut self) {
        self.get_mut().on_cwnd_limited();
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, pn: u64, app_limited: bool, rtt: &RttEstimator) {
        self.at(now);
        self.get_mut().on_ack(now, sent, bytes, pn, app_limited, rtt);
        self.newest = self.newest.max(Some(sent));
        self.sender.lock().on_acked(bytes);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        let at = self.at(now);
        self.get_mut().on_end_acks(now, in_flight, app_limited, largest);
        let mut sender = self.sender.lock();
        sender.now.in_flight = in_flight;
        sender.is_stale = true;
        sender.on_news(0);
        if let Some(sent) = self.newest.take() {
            let rtt = now.saturating_duration_since(sent).as_nanos();
            sender.on_rtt(at, Span::nanos(u64::try_from(rtt).unwrap_or(u64::MAX)));
        }
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost_pn: u64,
    ) {
        self.get_mut().on_congestion_event(now, sent, is_persistent_congestion, is_ecn, lost_bytes, largest_lost_pn);
        self.sender.lock().count.persistent += u64::from(is_persistent_congestion);
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        self.at(now);
        self.get_mut().on_packet_lost(lost_bytes, pn, now);
        let mut sender = self.sender.lock();
        sender.on_lost(lost_bytes.into());
        sender.is_stale = true;
    }

    fn on_spurious_congestion_event(&mut self) {
        self.get_mut().on_spurious_congestion_event();
        let mut sender = self.sender.lock();
        sender.count.undos += 1;
        sender.is_stale = true;
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.get_mut().on_mtu_update(new_mtu);
    }

    fn on_ack_frequency_update(&mut self, threshold: u64, delay: Duration) {
        self.get_mut().on_ack_frequency_update(threshold, delay);
    }

    fn window(&self) -> u64 {
        self.get().window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.note(false);
        self.get().metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let inner = match &self.inner {
            Inner::Ours(ours) => Inner::Ours(ours.clone()),
            Inner::Bbr3(own) => Inner::Bbr3(own.clone_box()),
            Inner::Other(own) => Inner::Other(own.clone_box()),
        };
        Box::new(Self { inner, sender: self.sender.clone(), ..*self })
    }

    fn initial_window(&self) -> u64 {
        self.get().initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
