//! The algorithms as congestion controllers of [quinn](https://docs.rs/quinn), by its sans-IO half `quinn-proto`.
//!
//! ```
//! use std::sync::Arc;
//! use bbrlab_quic::quinn::Factory;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut transport = quinn_proto::TransportConfig::default();
//! transport.congestion_controller_factory(Arc::new(Factory::new("cubic")?));
//! # Ok(())
//! # }
//! ```
//!
//! CUBIC and Reno run as designed. BBR needs a pacing rate, which quinn's trait lacks: [`Factory::new`] refuses it, and
//! `window_only` runs it by its window alone. quinn then paces at 5/4 of the window per smoothed round trip, while BBR's window
//! is twice what the path holds: a queue of one to two BDP remains, and gains below one do not drain it.
//!
//! # What quinn does not report
//!
//! - **Which packets were sent, acknowledged or lost**: a batch is sent as a sum of bytes, an acknowledgement has the send
//!   time of its packet, a loss is a sum of bytes with the send time of the newest. The adapter assumes full packets and that
//!   the oldest ones are lost. All packets of a batch share one sample.
//! - **Whether a batch counts as in flight**: an ACK alone does not. The bytes in flight at the end of each ACK reveal it, as
//!   they reveal packets discarded with their keys; until then they count.
//! - **Probes for a larger MTU**: they do not count as in flight, nor as delivered.
//! - **Spurious losses**, so no reduction is ever undone.
//! - **How many packets were marked**: one per call, so an algorithm that uses the share of marks underestimates it.
//! - **Whether a packet was application-limited** when it was sent: only reported at ACKs.
//!
//! quinn reports losses after the end of the ACK that reveals them. The adapter keeps the ACK open until the next call of another
//! kind.
//!
//! # With the patch
//!
//! `contrib/quinn/` has a patch of quinn-proto that adds to the trait a pacing rate, the identity of each packet, and spurious
//! losses. With it and `RUSTFLAGS="--cfg bbrlab_quinn_patched"`, [`Factory::new`] accepts every algorithm, `window_only` does
//! not exist, and of the list above only the number of marks and the application's limit remain.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bbrlab_core::{AckBatch, AckInfo, AlgorithmConfig, Controller, OpenAck, Time};
use quinn_proto::congestion::{self, ControllerFactory, ControllerMetrics};

use crate::settings::{Settings, setters};
use crate::{Result, nanos};

#[cfg(not(bbrlab_quinn_patched))]
mod batches;
#[cfg(bbrlab_quinn_patched)]
mod packets;
#[cfg(not(bbrlab_quinn_patched))]
use batches::Ledger;
#[cfg(bbrlab_quinn_patched)]
use packets::Ledger;

/// Creates a controller for each connection: the argument of `congestion_controller_factory`.
#[derive(Debug)]
pub struct Factory {
    settings: Settings,
    made: AtomicU64,
}

/// Creates a factory of an algorithm that needs a pacing rate, without one.
///
/// quinn paces by the window instead, so BBR keeps a standing queue of one to two BDP: see the module.
#[cfg(not(bbrlab_quinn_patched))]
pub fn window_only(text: &str) -> Result<Factory> {
    crate::algorithm(text).map(Factory::with)
}

impl Factory {
    /// Creates a factory by name, with parameters: `cubic,beta=60%`. An algorithm that needs a pacing rate is an error, unless
    /// quinn is patched.
    pub fn new(text: &str) -> Result<Self> {
        crate::algorithm(text).and_then(Self::of)
    }

    /// Creates a factory from a configuration, as [`Self::new`].
    pub fn of(config: AlgorithmConfig) -> Result<Self> {
        if cfg!(not(bbrlab_quinn_patched)) && config.info().needs_pacing {
            return Err(crate::Error::NeedsPacing { name: config.name().to_owned() });
        }
        Ok(Self::with(config))
    }

    pub(crate) const fn with(config: AlgorithmConfig) -> Self {
        Self { settings: Settings::new(config), made: AtomicU64::new(0) }
    }

    setters!();

    /// Creates a controller for a connection that begins now.
    pub fn make(&self, now: Instant, mtu: u16) -> Adapter {
        let made = self.made.fetch_add(1, Ordering::Relaxed) + 1;
        Adapter(Mutex::new(Flow {
            cc: self.settings.controller(mtu.into(), made),
            epoch: now,
            now: Time::ZERO,
            newest: now,
            initial_window: self.settings.initial_bytes(mtu.into()),
            ledger: Ledger::default(),
            batch: None,
            open: None,
        }))
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn congestion::Controller> {
        Box::new(self.make(now, current_mtu))
    }
}

/// Controller of one path. quinn reads the window through a shared reference, and reading may end an ACK: hence the lock, which
/// only those calls take.
pub struct Adapter(Mutex<Flow>);

struct Flow {
    cc: Controller,
    epoch: Instant,
    /// Latest time of any call, on both clocks.
    now: Time,
    newest: Instant,
    initial_window: u64,
    /// Packets in flight.
    ledger: Ledger,
    /// Deliveries of the ACK being processed.
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
        Self(Mutex::new(Flow {
            cc,
            epoch: flow.epoch,
            now: flow.now,
            newest: flow.newest,
            initial_window: flow.initial_window,
            ledger: Ledger::default(),
            batch: None,
            open: None,
        }))
    }
}

impl Flow {
    /// Converts a time, or returns the latest so far if that is later. The calls of an ACK share one time, which is converted once.
    #[inline]
    fn at(&mut self, moment: Instant) -> Time {
        if moment > self.newest {
            (self.newest, self.now) = (moment, Time::nanos(nanos(moment.saturating_duration_since(self.epoch))));
        }
        self.now
    }

    /// Returns the deliveries of the ACK being processed.
    #[inline]
    fn batch(&mut self, now: Instant) -> &mut AckBatch {
        if self.open.is_some() {
            self.end_ack();
        }
        let now = self.at(now);
        self.batch.get_or_insert_with(|| self.cc.begin_ack(now))
    }

    /// Counts the deliveries of an ACK, and leaves it open for its losses.
    #[inline]
    fn end_batch(&mut self) {
        if let Some(batch) = self.batch.take() {
            self.open = Some(self.cc.on_delivered(batch));
        }
    }

    /// Ends an ACK once its losses have been reported.
    #[inline]
    fn end_ack(&mut self) {
        self.end_batch();
        if let Some(open) = self.open.take() {
            self.cc.on_ack(open, &AckInfo::NONE);
        }
    }

    /// Converts the time of a loss, and ends an ACK that does not belong to it.
    fn at_loss(&mut self, moment: Instant) -> Time {
        let before = self.now;
        let now = self.at(moment);
        if now > before {
            self.end_ack(); // found by a timer
        }
        now
    }

    /// Records a mark, and persistent congestion.
    fn on_event(&mut self, now: Instant, is_persistent: bool, is_mark: bool) {
        let now = self.at_loss(now);
        if is_mark {
            self.cc.on_congestion_mark(now, 1);
        }
        if is_persistent {
            self.cc.on_persistent_congestion(now);
        }
    }
}

impl Adapter {
    fn lock(&self) -> MutexGuard<'_, Flow> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn flow(&mut self) -> &mut Flow {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Inspects the controller after ending any open ACK.
    pub fn with<R>(&self, look: impl FnOnce(&Controller) -> R) -> R {
        let mut flow = self.lock();
        flow.end_ack();
        look(&flow.cc)
    }
}

impl congestion::Controller for Adapter {
    #[cfg(not(bbrlab_quinn_patched))]
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.flow().on_sent(now, bytes, last_packet_number);
    }

    #[cfg(bbrlab_quinn_patched)]
    fn on_packet_sent(&mut self, now: Instant, packet: &congestion::PacketInfo) {
        self.flow().on_sent(now, packet);
    }

    #[cfg(not(bbrlab_quinn_patched))]
    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        _app_limited: bool,
        _rtt: &quinn_proto::RttEstimator,
    ) {
        self.on_bytes_acked(now, sent, bytes);
    }

    #[cfg(bbrlab_quinn_patched)]
    fn on_packet_acked(&mut self, now: Instant, packet: &congestion::PacketInfo) {
        self.flow().on_acked(now, packet);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _largest_acked: Option<u64>) {
        let flow = self.flow();
        flow.at(now);
        flow.end_batch();
        flow.settle(in_flight);
        if app_limited {
            flow.cc.on_app_limited(None);
        }
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent_congestion: bool, lost_bytes: u64) {
        let flow = self.flow();
        #[cfg(not(bbrlab_quinn_patched))]
        flow.on_lost(now, sent, lost_bytes);
        #[cfg(bbrlab_quinn_patched)]
        let _ = sent;
        flow.on_event(now, is_persistent_congestion, lost_bytes == 0);
    }

    #[cfg(bbrlab_quinn_patched)]
    fn on_packet_lost(&mut self, now: Instant, packet: &congestion::PacketInfo) {
        self.flow().on_lost(now, packet);
    }

    #[cfg(bbrlab_quinn_patched)]
    fn on_spurious_loss(&mut self, now: Instant, packet: &congestion::PacketInfo) {
        self.flow().on_spurious(now, packet);
    }

    #[cfg(bbrlab_quinn_patched)]
    fn on_packet_discarded(&mut self, packet: &congestion::PacketInfo) {
        self.flow().on_discarded(packet);
    }

    #[cfg(bbrlab_quinn_patched)]
    fn pacing_rate(&self) -> Option<u64> {
        self.with(|cc| cc.pacing_rate().filter(|_| cc.needs_pacing()).map(|rate| rate.as_bytes_per_sec()))
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        let flow = self.flow();
        // quinn reports it amid the acknowledgements that have shown it.
        if flow.batch.is_none() {
            flow.end_ack();
        }
        flow.cc.on_mss(new_mtu.into());
    }

    fn window(&self) -> u64 {
        // quinn sends while bytes in flight and the next packet are less than this, not equal.
        self.with(Controller::cwnd_bytes).saturating_add(1)
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut flow = self.lock();
        flow.end_ack();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = flow.cc.cwnd_bytes();
        if cfg!(bbrlab_quinn_patched) && flow.cc.needs_pacing() {
            metrics.pacing_rate = flow.cc.pacing_rate().map(|rate| rate.as_bits_per_sec());
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
