//! The algorithms as congestion controllers of [s2n-quic](https://docs.rs/s2n-quic).
//!
//! ```no_run
//! use bbrlab_quic::s2n::Factory;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = s2n_quic::Server::builder()
//!     .with_congestion_controller(Factory::new("bbr3,loss_thresh=1%")?)?;
//! # let _ = server;
//! # Ok(())
//! # }
//! ```
//!
//! [`Named`] also accepts the stack's own by name: `s2n:bbr`, `s2n:cubic`.
//!
//! With the feature `events` the states of BBR and the pacing rates are published as s2n-quic events, like those of its own
//! BBR: `BbrStateChanged` and `PacingRateUpdated`, at the ACK or loss that changes them.
//!
//! # What s2n-quic does not report
//!
//! - **Each packet of an ACK**: only the total bytes and the newest packet. For algorithms that count packets
//!   (all but `bbr3`), the count is the bytes divided by the packet size, with the remainder carried over.
//! - **Spurious losses.** A packet declared lost that arrives late never counts as delivered, and no reduction is
//!   undone: where packets are reordered by more than QUIC's packet threshold, `bbr3` loses about 4 % of its goodput.
//! - **Packets discarded with a packet-number space**: bytes only, so the number of packets is estimated.
//! - **Probe timeouts.** No algorithm here reacts to one.
//!
//! s2n-quic sends a packet up to 1 ms before its departure time: at 20 Mbit/s packets leave in pairs.
//! It marks all packets as ECN-capable, even those of algorithms that do not support ECN.
// SPDX-License-Identifier: Apache-2.0 OR MIT

#[cfg(feature = "events")]
mod events;
mod named;

use std::fmt;
use std::time::Duration;

use bbrlab_core::{AckInfo, AlgorithmConfig, Controller, Loss, Pacer, PacketToken, Sent, Time};
use s2n_quic::provider::congestion_controller::{
    CongestionController, Endpoint, PathInfo, Publisher, RandomGenerator, RttEstimator, Timestamp,
};

use crate::Result;
use crate::settings::{Settings, setters};

pub use named::{Named, NamedController, NamedInfo};

/// Creates a controller for each path of an endpoint's connections: the argument of `with_congestion_controller`.
#[derive(Clone, Debug)]
pub struct Factory {
    settings: Settings,
    paces_all: bool,
    made: u64,
}

impl Factory {
    /// Creates a factory by name, with parameters: `bbr3,loss_thresh=1%`.
    pub fn new(text: &str) -> Result<Self> {
        crate::algorithm(text).map(Self::of)
    }

    /// Creates a factory from a configuration.
    pub const fn of(config: AlgorithmConfig) -> Self {
        Self { settings: Settings::new(config), paces_all: false, made: 0 }
    }

    setters!();

    /// Also paces algorithms that do not request it, `cubic` and `reno`.
    #[must_use]
    pub const fn with_pacing(mut self) -> Self {
        self.paces_all = true;
        self
    }
}

impl Endpoint for Factory {
    type CongestionController = Adapter;

    fn new_congestion_controller(&mut self, path: PathInfo) -> Adapter {
        self.made += 1;
        Adapter {
            settings: self.settings.clone(),
            paces_all: self.paces_all,
            nth: self.made,
            mss: u32::from(path.max_datagram_size),
            flow: None,
        }
    }
}

/// Data that s2n-quic stores with each packet for the adapter.
#[derive(Clone, Copy, Debug)]
pub struct PacketInfo {
    token: PacketToken,
    number: u64,
}

/// Controller of one path. It starts with the first packet, because no earlier call carries the time.
#[derive(Clone, Debug)]
pub struct Adapter {
    settings: Settings,
    paces_all: bool,
    /// Number of the connection.
    nth: u64,
    mss: u32,
    flow: Option<Box<Flow>>,
}

#[derive(Clone)]
struct Flow {
    cc: Controller,
    pacer: Pacer,
    epoch: Timestamp,
    /// Departure time of the next packet, for paced algorithms; cached because s2n-quic reads it more often than it sends.
    departure: Option<Timestamp>,
    is_paced: bool,
    /// True if window and application would let the next packet leave at once.
    waits_for_pacer: bool,
    /// Newest packet that carried more than an ACK, with its number.
    newest: PacketInfo,
    #[cfg(feature = "events")]
    published: events::LastPublished,
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow").field("state", &self.cc.state()).finish_non_exhaustive()
    }
}

impl Adapter {
    /// Returns the controller once a packet has been sent.
    pub fn controller(&self) -> Option<&Controller> {
        self.flow.as_ref().map(|flow| &flow.cc)
    }

    fn begin(&self, epoch: Timestamp) -> Box<Flow> {
        let cc = self.settings.controller(self.mss, self.nth);
        let is_paced = cc.needs_pacing() || self.paces_all;
        let newest = PacketInfo { token: PacketToken::default(), number: 0 };
        let departure = is_paced.then_some(epoch);
        Box::new(Flow {
            cc,
            pacer: Pacer::new(Time::ZERO),
            waits_for_pacer: false,
            epoch,
            departure,
            is_paced,
            newest,
            #[cfg(feature = "events")]
            published: events::LastPublished::default(),
        })
    }
}

impl Flow {
    fn at(&self, moment: Timestamp) -> Time {
        let since = moment.saturating_duration_since(self.epoch);
        Time::nanos(since.as_secs().saturating_mul(1_000_000_000).saturating_add(since.subsec_nanos().into()))
    }

    /// Publishes changes of the controller.
    #[cfg(feature = "events")]
    fn publish(&mut self, publisher: &mut impl Publisher) {
        self.published.update(&self.cc, publisher);
    }

    #[cfg(not(feature = "events"))]
    #[expect(clippy::unused_self, reason = "there is nothing to say it with")]
    const fn publish(&mut self, _: &mut impl Publisher) {}
}

impl CongestionController for Adapter {
    type PacketInfo = PacketInfo;

    fn congestion_window(&self) -> u32 {
        let window = match &self.flow {
            Some(flow) => flow.cc.cwnd_bytes(),
            None => self.settings.initial_bytes(self.mss),
        };
        u32::try_from(window).unwrap_or(u32::MAX)
    }

    fn bytes_in_flight(&self) -> u32 {
        let bytes = self.flow.as_ref().map_or(0, |flow| flow.cc.in_flight().bytes);
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    fn is_congestion_limited(&self) -> bool {
        self.congestion_window().saturating_sub(self.bytes_in_flight()) < self.mss
    }

    fn requires_fast_retransmission(&self) -> bool {
        false
    }

    fn on_packet_sent<P: Publisher>(
        &mut self,
        time_sent: Timestamp,
        sent_bytes: usize,
        app_limited: Option<bool>,
        _rtt: &RttEstimator,
        _publisher: &mut P,
    ) -> PacketInfo {
        if self.flow.is_none() {
            self.flow = Some(self.begin(time_sent));
        }
        let Some(flow) = &mut self.flow else { unreachable!("it was made above") };
        let bytes = u32::try_from(sent_bytes).unwrap_or(u32::MAX);
        if bytes == 0 {
            // An ACK alone. If it is the newest packet acknowledged by an ACK, the newest counted packet replaces it.
            return flow.newest;
        }
        let now = flow.at(time_sent);
        // A burst makes up for a late timer, not for a wait for the window or the application.
        let burst = if flow.waits_for_pacer { flow.cc.send_quantum() } else { bytes.into() };
        flow.pacer.on_sent_in_burst(now, bytes.into(), burst, flow.cc.pacing_rate());
        if flow.is_paced {
            flow.departure = flow.epoch.checked_add(Duration::from_nanos(flow.pacer.next_send_time().as_nanos()));
        }
        let token = flow.cc.on_sent(now, &Sent::packet(bytes));
        if app_limited == Some(true) {
            flow.cc.on_app_limited(None); // after this packet the application had no more data
        }
        let has_room = flow.cc.in_flight().bytes + u64::from(flow.cc.mss()) <= flow.cc.cwnd_bytes();
        flow.waits_for_pacer = has_room && app_limited != Some(true);
        flow.newest = PacketInfo { token, number: flow.newest.number + 1 };
        flow.newest
    }

    fn on_rtt_update<P: Publisher>(&mut self, _sent: Timestamp, _now: Timestamp, _rtt: &RttEstimator, _: &mut P) {
        // The RTT follows from the newest packet's token.
    }

    fn on_ack<P: Publisher>(
        &mut self,
        _newest_sent: Timestamp,
        bytes: usize,
        newest: PacketInfo,
        _rtt: &RttEstimator,
        _random: &mut dyn RandomGenerator,
        received: Timestamp,
        publisher: &mut P,
    ) {
        let Some(flow) = &mut self.flow else { return };
        let mut ack = flow.cc.begin_ack(flow.at(received));
        ack.delivered_bytes(bytes as u64, &newest.token);
        let open = flow.cc.on_delivered(ack);
        flow.cc.on_ack(open, &AckInfo::NONE.with_edt(flow.pacer.next_send_time()));
        flow.publish(publisher);
    }

    fn on_packet_lost<P: Publisher>(
        &mut self,
        _bytes: u32,
        info: PacketInfo,
        persistent_congestion: bool,
        _new_burst: bool,
        _random: &mut dyn RandomGenerator,
        timestamp: Timestamp,
        publisher: &mut P,
    ) {
        let Some(flow) = &mut self.flow else { return };
        let now = flow.at(timestamp);
        flow.cc.on_lost(now, &Loss::packet(&info.token, info.number));
        if persistent_congestion {
            flow.cc.on_persistent_congestion(now);
        }
        flow.publish(publisher);
    }

    fn on_explicit_congestion<P: Publisher>(&mut self, ce_count: u64, event_time: Timestamp, publisher: &mut P) {
        if let Some(flow) = &mut self.flow {
            flow.cc.on_congestion_mark(flow.at(event_time), ce_count);
            flow.publish(publisher);
        }
    }

    fn on_mtu_update<P: Publisher>(&mut self, max_data_size: u16, _publisher: &mut P) {
        self.mss = max_data_size.into();
        if let Some(flow) = &mut self.flow {
            flow.cc.on_mss(self.mss);
        }
    }

    fn on_packet_discarded<P: Publisher>(&mut self, bytes_sent: usize, _publisher: &mut P) {
        if let Some(flow) = &mut self.flow {
            flow.cc.on_discarded_bytes(bytes_sent as u64);
        }
    }

    fn earliest_departure_time(&self) -> Option<Timestamp> {
        self.flow.as_ref()?.departure
    }

    fn send_quantum(&self) -> Option<usize> {
        let quantum = self.flow.as_ref()?.cc.send_quantum();
        Some(usize::try_from(quantum).unwrap_or(usize::MAX))
    }
}

#[cfg(all(test, feature = "backend"))]
mod tests;
