//! Observed controllers of quinn connections: ours or quinn's own.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Instant;

use bbrlab_core::{Span, Time};
use bbrlab_sim::record::trace::ModelSample;
use bbrlab_sim::setup::FlowSetup;
use quinn_proto::RttEstimator;
#[cfg(bbrlab_quinn_patched)]
use quinn_proto::congestion::PacketInfo;
use quinn_proto::congestion::{
    Bbr, BbrConfig, Controller, ControllerFactory, ControllerMetrics, CubicConfig, NewRenoConfig,
};

use crate::backend::debug;
use crate::backend::sender::{Outputs, Shared};
use crate::quinn::{Adapter, Factory};

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
            Some("quinn:bbr") => Inner::Bbr(Box::new(Bbr::new(Arc::new(BbrConfig::default()), mtu))),
            Some("quinn:cubic") => Inner::Other(Arc::new(CubicConfig::default()).build(now, mtu)),
            Some(_) => Inner::Other(Arc::new(NewRenoConfig::default()).build(now, mtu)),
            None => {
                let factory = Factory::with(self.flow.algorithm).with_seed(self.seed);
                Inner::Ours(Box::new(factory.with_initial_window(self.flow.host.initial_cwnd).make(now, mtu)))
            }
        };
        let observed = ObservedController {
            inner,
            origin: self.origin,
            now: Time::ZERO,
            mtu,
            sender: self.sender.clone(),
            newest: None,
        };
        observed.note(true);
        Box::new(observed)
    }
}

enum Inner {
    Ours(Box<Adapter>),
    Bbr(Box<Bbr>),
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

impl ObservedController {
    fn get(&self) -> &dyn Controller {
        match &self.inner {
            Inner::Ours(ours) => ours.as_ref(),
            Inner::Bbr(own) => own.as_ref(),
            Inner::Other(own) => own.as_ref(),
        }
    }

    fn get_mut(&mut self) -> &mut dyn Controller {
        match &mut self.inner {
            Inner::Ours(ours) => ours.as_mut(),
            Inner::Bbr(own) => own.as_mut(),
            Inner::Other(own) => own.as_mut(),
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
                sender.count.undos = cc.undone_episodes().into();
                if !cfg!(bbrlab_quinn_patched) {
                    // What the algorithm asks for, quinn does not hear.
                    sender.now.pacing_bps = 0;
                }
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
            // quinn's BBR computes a rate, by which nothing is sent.
            pacing_bps: 0,
            bw_bps: 0,
            min_rtt: None,
        };
        if let Inner::Bbr(own) = &self.inner {
            let own: &dyn Debug = own;
            let text = debug::head(own, debug::QUINN_LAST);
            if let Some(state) = debug::quinn_state(&text) {
                sender.note_state(self.now, state);
            }
        }
        if let Some(emitted) = sender.wanted() {
            let undos = sender.count.undos as f64;
            sender.hear(self.now, emitted, ModelSample { undos, ..ModelSample::UNKNOWN });
        }
    }

    /// Counts packets of this size in total as sent.
    fn count_sent(&mut self, bytes: u64) {
        let mut sender = self.sender.lock();
        let is_first = sender.now.in_flight == 0;
        for packet in self.packets(bytes) {
            sender.on_sent(packet);
        }
        sender.is_stale = true;
        if is_first {
            sender.on_news(bytes);
            drop(sender);
            self.note(true);
        }
    }

    /// Sizes of the packets of a batch: all are full, but the last.
    fn packets(&self, bytes: u64) -> impl Iterator<Item = u64> + use<> {
        let full = u64::from(self.mtu);
        (0..bytes.div_ceil(full)).map(move |nth| full.min(bytes - nth * full))
    }

    fn count_lost(&mut self, bytes: u64) {
        let mut sender = self.sender.lock();
        for packet in self.packets(bytes) {
            sender.on_lost(packet);
        }
        sender.is_stale = true;
    }
}

impl Controller for ObservedController {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.at(now);
        self.get_mut().on_sent(now, bytes, last_packet_number);
        if cfg!(not(bbrlab_quinn_patched)) {
            self.count_sent(bytes);
        }
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.at(now);
        self.get_mut().on_ack(now, sent, bytes, app_limited, rtt);
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

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        self.at(now);
        self.get_mut().on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
        if cfg!(not(bbrlab_quinn_patched)) {
            self.count_lost(lost_bytes);
        }
        self.sender.lock().count.persistent += u64::from(is_persistent_congestion);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.get_mut().on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.note(false);
        self.get().window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.note(false);
        self.get().metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let inner = match &self.inner {
            Inner::Ours(ours) => Inner::Ours(ours.clone()),
            Inner::Bbr(own) => Inner::Bbr(own.clone()),
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

    #[cfg(bbrlab_quinn_patched)]
    fn on_packet_sent(&mut self, now: Instant, packet: &PacketInfo) {
        self.at(now);
        self.get_mut().on_packet_sent(now, packet);
        self.count_sent(packet.bytes.into());
    }

    #[cfg(bbrlab_quinn_patched)]
    fn on_packet_acked(&mut self, now: Instant, packet: &PacketInfo) {
        self.get_mut().on_packet_acked(now, packet);
    }

    #[cfg(bbrlab_quinn_patched)]
    fn on_packet_lost(&mut self, now: Instant, packet: &PacketInfo) {
        self.at(now);
        self.get_mut().on_packet_lost(now, packet);
        self.count_lost(packet.bytes.into());
    }

    #[cfg(bbrlab_quinn_patched)]
    fn on_spurious_loss(&mut self, now: Instant, packet: &PacketInfo) {
        self.get_mut().on_spurious_loss(now, packet);
        let mut sender = self.sender.lock();
        sender.is_stale = true;
    }

    #[cfg(bbrlab_quinn_patched)]
    fn on_packet_discarded(&mut self, packet: &PacketInfo) {
        self.get_mut().on_packet_discarded(packet);
    }

    #[cfg(bbrlab_quinn_patched)]
    fn pacing_rate(&self) -> Option<u64> {
        self.get().pacing_rate()
    }
}
