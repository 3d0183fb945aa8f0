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
//! [`Named`] takes the stack's own by name, too: `s2n:bbr`, `s2n:cubic`.
//!
//! With the feature `events` the states of BBR and the pacing rates are among s2n-quic's events, as those of its own BBR are:
//! `BbrStateChanged` and `PacingRateUpdated`, at the ACK or loss that changes them.
//!
//! # What s2n-quic does not tell
//!
//! - **Each packet of an ACK**: only the bytes of all and the newest packet. Algorithms that count packets
//!   (all but `bbr3`) get bytes over the packet size, the remainder carried.
//! - **Losses that were a mistake.** What was taken for lost and arrives late never counts as delivered, and no reduction is
//!   taken back: where packets overtake each other by more than QUIC's packet threshold, `bbr3` loses about 4 % of its goodput.
//! - **What of a packet-number space is discarded**: bytes only, so the number of packets is estimated.
//! - **Probe time-outs.** No algorithm here reacts to one.
//!
//! s2n-quic lets a packet go up to 1 ms before its departure time: at 20 Mbit/s packets leave in pairs.
//! It marks all packets as ECN-capable, also those of algorithms that do not answer marks.
// SPDX-License-Identifier: Apache-2.0 OR MIT

#[cfg(feature = "events")]
mod events;
mod named;

use std::fmt;
use std::time::Duration;

use bbrlab_core::{AckInfo, AlgorithmConfig, Controller, Init, Loss, Pacer, Sent, Time, Token};
use s2n_quic::provider::congestion_controller::{
    CongestionController, Endpoint, PathInfo, Publisher, RandomGenerator, RttEstimator, Timestamp,
};

use crate::AlgorithmError;

pub use named::{Named, NamedController, NamedInfo};

/// Linux's initial window.
const INITIAL_WINDOW: u32 = 10;

/// Makes a controller for each path of an endpoint's connections: the argument of `with_congestion_controller`.
#[derive(Clone, Debug)]
pub struct Factory {
    config: AlgorithmConfig,
    seed: u64,
    initial_window: u32,
    paces_all: bool,
    made: u64,
}

impl Factory {
    /// By name, with parameters: `bbr3,loss_thresh=1%`.
    pub fn new(text: &str) -> Result<Self, AlgorithmError> {
        crate::algorithm(text).map(Self::of)
    }

    /// By configuration.
    pub const fn of(config: AlgorithmConfig) -> Self {
        Self { config, seed: 1, initial_window: INITIAL_WINDOW, paces_all: false, made: 0 }
    }

    /// The seed of the algorithms' random numbers; each connection derives its own. They keep flows from probing in step and
    /// need not be secret.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Packets of the initial window, 10 unless said.
    #[must_use]
    pub const fn with_initial_window(mut self, packets: u32) -> Self {
        self.initial_window = packets;
        self
    }

    /// Paces also algorithms that do not ask for it, `cubic` and `reno`.
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
            factory: Self { seed: self.seed.wrapping_add(self.made), ..self.clone() },
            mss: u32::from(path.max_datagram_size),
            flow: None,
        }
    }
}

/// What s2n-quic keeps with each packet for us.
#[derive(Clone, Copy, Debug)]
pub struct PacketInfo {
    token: Token,
    number: u64,
}

/// One path's controller. It begins with the first packet, for nothing earlier tells the time.
#[derive(Clone, Debug)]
pub struct Adapter {
    factory: Factory,
    mss: u32,
    flow: Option<Box<Flow>>,
}

#[derive(Clone)]
struct Flow {
    cc: Controller,
    pacer: Pacer,
    epoch: Timestamp,
    /// When the next packet may leave, of algorithms that are paced. s2n-quic asks more often than it sends.
    departure: Option<Timestamp>,
    is_paced: bool,
    /// The newest packet that carried more than an ACK, and the number of it.
    newest: PacketInfo,
    #[cfg(feature = "events")]
    published: events::Published,
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow").field("state", &self.cc.state()).finish_non_exhaustive()
    }
}

impl Adapter {
    /// The controller, once a packet has been sent.
    pub fn controller(&self) -> Option<&Controller> {
        self.flow.as_ref().map(|flow| &flow.cc)
    }

    fn begin(&self, epoch: Timestamp) -> Box<Flow> {
        let mut init = Init::new(Time::ZERO).with_mss(self.mss).with_seed(self.factory.seed);
        init.initial_cwnd = self.factory.initial_window;
        let cc = Controller::new(&self.factory.config, &init);
        let is_paced = cc.needs_pacing() || self.factory.paces_all;
        let newest = PacketInfo { token: Token::default(), number: 0 };
        let departure = is_paced.then_some(epoch);
        Box::new(Flow {
            cc,
            pacer: Pacer::new(Time::ZERO),
            epoch,
            departure,
            is_paced,
            newest,
            #[cfg(feature = "events")]
            published: events::Published::default(),
        })
    }
}

impl Flow {
    fn at(&self, moment: Timestamp) -> Time {
        let since = moment.saturating_duration_since(self.epoch);
        Time::nanos(since.as_secs().saturating_mul(1_000_000_000).saturating_add(since.subsec_nanos().into()))
    }

    /// Says what has changed in the controller.
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
            None => u64::from(self.factory.initial_window) * u64::from(self.mss),
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
            // An ACK alone. Where it is the newest packet of an ACK of ours, the newest one that counts stands for it.
            return flow.newest;
        }
        let now = flow.at(time_sent);
        flow.pacer.on_sent(now, bytes.into(), flow.cc.pacing_rate());
        if flow.is_paced {
            flow.departure = flow.epoch.checked_add(Duration::from_nanos(flow.pacer.next_send_time().as_nanos()));
        }
        let token = flow.cc.on_sent(now, &Sent::packet(bytes));
        if app_limited == Some(true) {
            flow.cc.on_app_limited(None); // with this packet the application had nothing left
        }
        flow.newest = PacketInfo { token, number: flow.newest.number + 1 };
        flow.newest
    }

    fn on_rtt_update<P: Publisher>(&mut self, _sent: Timestamp, _now: Timestamp, _rtt: &RttEstimator, _: &mut P) {
        // The newest packet's token tells the RTT.
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

#[cfg(all(test, feature = "world"))]
mod tests;
