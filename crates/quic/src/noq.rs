//! The algorithms as congestion controllers of [noq](https://docs.rs/noq), by its sans-IO half `noq-proto`.
//!
//! ```
//! use std::sync::Arc;
//! use bbrlab_quic::noq::Factory;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut transport = noq_proto::TransportConfig::default();
//! transport.congestion_controller_factory(Arc::new(Factory::new("bbr3,loss_thresh=1%")?));
//! # Ok(())
//! # }
//! ```
//!
//! # What noq does not report
//!
//! - **Which packets were discarded** with their keys or as probes for a larger MTU. The bytes in flight at the end of
//!   each ACK reveal it; until then these packets count as in flight.
//! - **How many packets were marked**: one per call, so an algorithm that uses the share of marks (`bbr2`, `bbr3-linux`)
//!   underestimates it.
//! - **Whether a packet was application-limited** when it was sent: only reported at ACKs.
//! - **Each spurious loss**: reported only if all losses of a period were spurious, in which case the reduction is undone.
//!
//! noq reports losses after the end of the ACK that reveals them. The adapter keeps the ACK open until the next call of another
//! kind. noq also paces algorithms that do not request it, at 5/4 of the window per round trip.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bbrlab_core::{AckBatch, AckInfo, AlgorithmConfig, Controller, Loss, OpenAck, PacketToken, Rate, Sent, Span, Time};
use noq_proto::RttEstimator;
use noq_proto::congestion::{self, ControllerFactory, ControllerMetrics};

use crate::settings::{Settings, setters};
use crate::{Result, nanos};

/// Time after which a packet can no longer be in transit. Ours: ten times the longest probe timeout of a satellite path.
const FORGOTTEN: Span = Span::secs(60);

/// Creates a controller for each connection: the argument of `congestion_controller_factory`.
#[derive(Debug)]
pub struct Factory {
    settings: Settings,
    made: AtomicU64,
}

impl Factory {
    /// Creates a factory by name, with parameters: `bbr3,loss_thresh=1%`.
    pub fn new(text: &str) -> Result<Self> {
        crate::algorithm(text).map(Self::of)
    }

    /// Creates a factory from a configuration.
    pub const fn of(config: AlgorithmConfig) -> Self {
        Self { settings: Settings::new(config), made: AtomicU64::new(0) }
    }

    setters!();

    /// Creates a controller for a connection that begins now.
    pub fn make(&self, now: Instant, mtu: u16) -> Adapter {
        let made = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        let initial_window = self.settings.initial_bytes(mtu.into());
        Adapter::of(Flow {
            cc: self.settings.controller(mtu.into(), made),
            now: Time::ZERO,
            newest: now,
            initial_window,
            sent: VecDeque::new(),
            batch: None,
            open: None,
        })
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn congestion::Controller> {
        Box::new(self.make(now, current_mtu))
    }
}

/// Controller of one path. noq reads windows and rates through shared references, and reading may end an ACK: hence the lock,
/// which only the first reading after a change takes.
pub struct Adapter {
    flow: Mutex<Flow>,
    outputs: Outputs,
}

/// Window, pacing rate and burst size, kept because noq asks for them before each packet.
#[derive(Default)]
struct Outputs {
    /// True if they are those of the present state.
    are_known: AtomicBool,
    window: AtomicU64,
    /// Bytes per second; 0: none.
    pacing_rate: AtomicU64,
    send_quantum: AtomicU64,
}

/// A packet in transit. Numbers are reused across packet-number spaces, so the send time is part of the key.
#[derive(Clone, Copy, Debug)]
struct Packet {
    number: u64,
    sent: Instant,
    token: PacketToken,
    /// True once acknowledged, lost or discarded. The packet is kept until earlier ones have been removed.
    is_done: bool,
}

struct Flow {
    cc: Controller,
    /// Latest time of any call, on both clocks.
    now: Time,
    newest: Instant,
    initial_window: u64,
    /// Packets in order of transmission.
    sent: VecDeque<Packet>,
    /// The packets of the ACK being processed.
    batch: Option<AckBatch>,
    /// An ACK whose losses may still be reported.
    open: Option<OpenAck>,
}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adapter").field("state", &self.lock().cc.state()).finish_non_exhaustive()
    }
}

impl Clone for Adapter {
    /// Creates a controller for another path, to which packets of this one are not reported.
    fn clone(&self) -> Self {
        let mut flow = self.lock();
        flow.end_ack();
        let mut cc = flow.cc.clone();
        cc.on_discarded_bytes(cc.in_flight().bytes);
        Self::of(Flow {
            cc,
            now: flow.now,
            newest: flow.newest,
            initial_window: flow.initial_window,
            sent: VecDeque::new(),
            batch: None,
            open: None,
        })
    }
}

impl Flow {
    /// Converts a time, or returns the latest so far if that is later. The calls of an ACK share one time, which is converted once.
    #[inline]
    fn at(&mut self, moment: Instant) -> Time {
        if moment != self.newest
            && let Some(later) = moment.checked_duration_since(self.newest)
        {
            (self.newest, self.now) = (moment, self.now + Span::nanos(nanos(later)));
        }
        self.now
    }

    /// Records a packet. Returns true if it may have changed the outputs.
    fn on_sent(&mut self, now: Instant, bytes: u16, number: u64) -> bool {
        let changes = self.open.is_some() || self.cc.in_flight().packets == 0;
        self.end_ack();
        let at = self.at(now);
        let token = self.cc.on_sent(at, &Sent::packet(bytes.into()));
        self.sent.push_back(Packet { number, sent: now, token, is_done: false });
        changes
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, number: u64) {
        self.end_ack();
        let now = self.at(now);
        let is_it = |packet: &Packet| packet.number == number && packet.sent == sent && !packet.is_done;
        // Usually it is the oldest.
        let found = if self.sent.front().is_some_and(is_it) {
            self.sent.front_mut()
        } else {
            let first = self.sent.partition_point(|packet| packet.sent < sent);
            self.sent.range_mut(first..).take_while(|packet| packet.sent == sent).find(|packet| is_it(packet))
        };
        if let Some(packet) = found {
            packet.is_done = true;
            let batch = self.batch.get_or_insert_with(|| self.cc.begin_ack(now));
            batch.delivered(&packet.token, number);
            self.forget();
        }
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool) {
        self.end_ack();
        self.at(now);
        if let Some(batch) = self.batch.take() {
            self.open = Some(self.cc.on_delivered(batch));
        }
        let ours = self.cc.in_flight().bytes;
        if ours > in_flight {
            self.discard(ours - in_flight);
        }
        if in_flight == 0 {
            self.sent.clear();
        }
        // Packets discarded by noq but not identified here would otherwise block the removal of all later ones.
        while self
            .sent
            .front()
            .is_some_and(|packet| packet.is_done || self.now.since(packet.token.send_time()) > FORGOTTEN)
        {
            self.sent.pop_front();
        }
        if app_limited {
            self.cc.on_app_limited(None);
        }
    }

    fn on_lost(&mut self, now: Instant, number: u64) {
        let before = self.now;
        let now = self.at(now);
        if now > before {
            self.end_ack(); // found by a timer
        }
        if let Some(packet) = self.take_oldest(number) {
            self.cc.on_lost(now, &Loss::packet(&packet.token, packet.number));
        }
    }

    /// Ends an ACK once its losses have been reported.
    #[inline(always)] // asked for at every call, and once an ACK it is to be done
    fn end_ack(&mut self) {
        if self.open.is_some() {
            self.end_open_ack();
        }
    }

    #[inline(never)]
    fn end_open_ack(&mut self) {
        if let Some(open) = self.open.take() {
            self.cc.on_ack(open, &AckInfo::NONE);
        }
    }

    /// Takes the oldest packet with this number, since a loss is reported without its send time.
    fn take_oldest(&mut self, number: u64) -> Option<Packet> {
        let packet = self.sent.iter_mut().find(|packet| packet.number == number && !packet.is_done)?;
        packet.is_done = true;
        let taken = *packet;
        self.forget();
        Some(taken)
    }

    #[inline]
    fn forget(&mut self) {
        while self.sent.front().is_some_and(|packet| packet.is_done) {
            self.sent.pop_front();
        }
    }

    /// Discards packets after noq reported fewer bytes in flight. They are probes for a larger MTU, or the oldest.
    #[cold]
    fn discard(&mut self, mut bytes: u64) {
        let mss = self.cc.mss();
        for wants_probe in [true, false] {
            for packet in self.sent.iter_mut().filter(|packet| !packet.is_done) {
                let own = u64::from(packet.token.bytes());
                if own <= bytes && (!wants_probe || packet.token.bytes() > mss) {
                    packet.is_done = true;
                    self.cc.on_discarded(&packet.token);
                    bytes -= own;
                } else if !wants_probe {
                    break;
                }
            }
        }
        self.cc.on_discarded_bytes(bytes); // they match no packet: an earlier guess was wrong
        self.forget();
    }
}

impl Adapter {
    fn of(flow: Flow) -> Self {
        Self { flow: Mutex::new(flow), outputs: Outputs::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Flow> {
        self.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The flow, for a call that may change the outputs.
    #[inline]
    fn flow(&mut self) -> &mut Flow {
        *self.outputs.are_known.get_mut() = false;
        self.flow.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The outputs of the present state.
    // The atomics give no order of their own: noq changes a controller only through an exclusive reference.
    #[inline]
    fn outputs(&self) -> &Outputs {
        if !self.outputs.are_known.load(Ordering::Relaxed) {
            self.update_outputs();
        }
        debug_assert_eq!(self.outputs.window.load(Ordering::Relaxed), self.lock().cc.cwnd_bytes(), "a stale window");
        &self.outputs
    }

    #[cold]
    fn update_outputs(&self) {
        let mut flow = self.lock();
        flow.end_ack();
        let rate = if flow.cc.needs_pacing() { flow.cc.pacing_rate() } else { None };
        self.outputs.window.store(flow.cc.cwnd_bytes(), Ordering::Relaxed);
        self.outputs.pacing_rate.store(rate.map_or(0, Rate::as_bytes_per_sec), Ordering::Relaxed);
        self.outputs.send_quantum.store(flow.cc.send_quantum(), Ordering::Relaxed);
        self.outputs.are_known.store(true, Ordering::Relaxed);
    }

    /// Records the acknowledgement of a packet: [`congestion::Controller::on_ack`] without its unused arguments, for callers
    /// other than noq.
    pub fn on_packet_acked(&mut self, now: Instant, sent: Instant, number: u64) {
        self.flow().on_ack(now, sent, number);
    }

    /// Inspects the controller after ending any open ACK.
    pub fn with<R>(&self, look: impl FnOnce(&Controller) -> R) -> R {
        let mut flow = self.lock();
        flow.end_ack();
        look(&flow.cc)
    }
}

impl congestion::Controller for Adapter {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        let flow = self.flow.get_mut().unwrap_or_else(PoisonError::into_inner);
        if flow.on_sent(now, bytes, pn) {
            *self.outputs.are_known.get_mut() = false;
        }
    }

    fn on_cwnd_limited(&mut self) {
        let flow = self.flow();
        flow.end_ack();
        flow.cc.on_cwnd_limited();
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, _bytes: u64, pn: u64, _app_limited: bool, _rtt: &RttEstimator) {
        self.on_packet_acked(now, sent, pn);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _largest_acked: Option<u64>) {
        self.flow().on_end_acks(now, in_flight, app_limited);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        _sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        _lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        let flow = self.flow();
        let now = flow.at(now);
        if is_ecn {
            flow.cc.on_congestion_mark(now, 1);
        }
        if is_persistent_congestion {
            flow.cc.on_persistent_congestion(now);
        }
    }

    fn on_packet_lost(&mut self, _lost_bytes: u16, pn: u64, now: Instant) {
        self.flow().on_lost(now, pn);
    }

    fn on_spurious_congestion_event(&mut self) {
        let flow = self.flow();
        flow.end_ack();
        flow.cc.on_undo(flow.now);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        let flow = self.flow();
        flow.end_ack();
        flow.cc.on_mss(new_mtu.into());
    }

    fn on_ack_frequency_update(&mut self, ack_eliciting_threshold: u64, requested_max_ack_delay: Duration) {
        let flow = self.flow();
        flow.end_ack();
        // The threshold is the number of packets that may arrive without an ACK.
        let packets = u32::try_from(ack_eliciting_threshold.saturating_add(1)).unwrap_or(u32::MAX);
        flow.cc.on_ack_frequency(packets, Span::nanos(nanos(requested_max_ack_delay)));
    }

    fn window(&self) -> u64 {
        self.outputs().window.load(Ordering::Relaxed)
    }

    fn metrics(&self) -> ControllerMetrics {
        let outputs = self.outputs();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = outputs.window.load(Ordering::Relaxed);
        let rate = outputs.pacing_rate.load(Ordering::Relaxed);
        if rate > 0 {
            metrics.pacing_rate = Some(rate);
            metrics.send_quantum = Some(outputs.send_quantum.load(Ordering::Relaxed));
        }
        metrics
    }

    fn clone_box(&self) -> Box<dyn congestion::Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.lock().initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests;
