//! Controllers by name, ours or the stack's own. One type for all of them, so that an endpoint is compiled once.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use s2n_quic::provider::congestion_controller::{
    self as stack, CongestionController, Endpoint, PathInfo, Publisher, RandomGenerator, RttEstimator, Timestamp,
};

use super::{Adapter, Factory, PacketInfo};
use crate::{Error, Result};

type Bbr = <stack::Bbr as Endpoint>::CongestionController;
type Cubic = <stack::Cubic as Endpoint>::CongestionController;

/// Creates controllers of an algorithm given by name: the argument of `with_congestion_controller` in programs whose users choose it.
#[derive(Debug)]
pub enum Named {
    /// An algorithm of core.
    Ours(Factory),
    /// The stack's BBR, `s2n:bbr`.
    Bbr(stack::Bbr),
    /// The stack's CUBIC, `s2n:cubic`.
    Cubic(stack::Cubic),
}

impl Named {
    /// Parses `bbr3,loss_thresh=1%`, `s2n:bbr` or `s2n:cubic`.
    pub fn new(text: &str) -> Result<Self> {
        match text.strip_prefix("s2n:") {
            None => Factory::new(text).map(Self::Ours),
            Some("bbr") => Ok(Self::Bbr(stack::Bbr::default())),
            Some("cubic") => Ok(Self::Cubic(stack::Cubic::default())),
            Some(_) => Err(Error::NotInS2n { text: text.to_owned() }),
        }
    }
}

impl Endpoint for Named {
    type CongestionController = NamedController;

    fn new_congestion_controller(&mut self, path: PathInfo) -> NamedController {
        match self {
            Self::Ours(endpoint) => NamedController::Ours(Box::new(endpoint.new_congestion_controller(path))),
            Self::Bbr(endpoint) => NamedController::Bbr(Box::new(endpoint.new_congestion_controller(path))),
            Self::Cubic(endpoint) => NamedController::Cubic(Box::new(endpoint.new_congestion_controller(path))),
        }
    }
}

/// Controller of one path.
#[derive(Clone, Debug)]
pub enum NamedController {
    /// A controller of core.
    Ours(Box<Adapter>),
    /// The stack's BBR.
    Bbr(Box<Bbr>),
    /// The stack's CUBIC.
    Cubic(Box<Cubic>),
}

/// Per-packet data of a controller.
#[derive(Clone, Copy, Debug)]
pub enum NamedInfo {
    /// Data of a controller of core.
    Ours(PacketInfo),
    /// Data of the stack's BBR.
    Bbr(<Bbr as CongestionController>::PacketInfo),
    /// Data of the stack's CUBIC.
    Cubic(<Cubic as CongestionController>::PacketInfo),
}

macro_rules! each {
    ($self:expr, $inner:ident => $call:expr) => {
        match $self {
            NamedController::Ours($inner) => $call,
            NamedController::Bbr($inner) => $call,
            NamedController::Cubic($inner) => $call,
        }
    };
}

macro_rules! with_info {
    ($self:expr, $info:expr, $inner:ident, $kept:ident => $call:expr) => {
        match ($self, $info) {
            (NamedController::Ours($inner), NamedInfo::Ours($kept)) => $call,
            (NamedController::Bbr($inner), NamedInfo::Bbr($kept)) => $call,
            (NamedController::Cubic($inner), NamedInfo::Cubic($kept)) => $call,
            _ => {} // a packet of another controller: there is one per path
        }
    };
}

impl CongestionController for NamedController {
    type PacketInfo = NamedInfo;

    fn congestion_window(&self) -> u32 {
        each!(self, inner => inner.congestion_window())
    }
    fn bytes_in_flight(&self) -> u32 {
        each!(self, inner => inner.bytes_in_flight())
    }
    fn is_congestion_limited(&self) -> bool {
        each!(self, inner => inner.is_congestion_limited())
    }
    fn requires_fast_retransmission(&self) -> bool {
        each!(self, inner => inner.requires_fast_retransmission())
    }

    #[allow(clippy::unit_arg, reason = "what CUBIC keeps with a packet is nothing, in this version of the stack")]
    fn on_packet_sent<P: Publisher>(
        &mut self,
        time_sent: Timestamp,
        bytes: usize,
        app_limited: Option<bool>,
        rtt: &RttEstimator,
        publisher: &mut P,
    ) -> NamedInfo {
        match self {
            Self::Ours(inner) => NamedInfo::Ours(inner.on_packet_sent(time_sent, bytes, app_limited, rtt, publisher)),
            Self::Bbr(inner) => NamedInfo::Bbr(inner.on_packet_sent(time_sent, bytes, app_limited, rtt, publisher)),
            Self::Cubic(inner) => NamedInfo::Cubic(inner.on_packet_sent(time_sent, bytes, app_limited, rtt, publisher)),
        }
    }

    fn on_rtt_update<P: Publisher>(&mut self, sent: Timestamp, now: Timestamp, rtt: &RttEstimator, publisher: &mut P) {
        each!(self, inner => inner.on_rtt_update(sent, now, rtt, publisher));
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
        with_info!(self, newest, inner, kept => inner.on_ack(newest_sent, bytes, kept, rtt, random, received, publisher));
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
        with_info!(self, info, inner, kept =>
            inner.on_packet_lost(bytes, kept, persistent_congestion, new_burst, random, timestamp, publisher));
    }

    fn on_explicit_congestion<P: Publisher>(&mut self, ce_count: u64, event_time: Timestamp, publisher: &mut P) {
        each!(self, inner => inner.on_explicit_congestion(ce_count, event_time, publisher));
    }

    fn on_mtu_update<P: Publisher>(&mut self, max_data_size: u16, publisher: &mut P) {
        each!(self, inner => inner.on_mtu_update(max_data_size, publisher));
    }

    fn on_packet_discarded<P: Publisher>(&mut self, bytes: usize, publisher: &mut P) {
        each!(self, inner => inner.on_packet_discarded(bytes, publisher));
    }

    fn earliest_departure_time(&self) -> Option<Timestamp> {
        each!(self, inner => inner.earliest_departure_time())
    }

    fn send_quantum(&self) -> Option<usize> {
        each!(self, inner => inner.send_quantum())
    }
}
