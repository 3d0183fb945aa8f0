#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![doc = include_str!("../README.md")]
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod algorithm;
mod bbr1;
mod bbr3;
mod controller;
mod cubic;
mod dctcp;
mod episode;
mod event;
mod fixed;
mod host;
mod hystart;
mod loss_based;
mod minmax;
mod pacer;
pub mod params;
mod prague;
mod registry;
mod resume;
mod rng;
mod rtt;
mod sampler;
mod shared;
mod snapshot;
mod state;
mod units;
#[cfg(feature = "variants")]
mod variant;
mod wide;

#[cfg(feature = "variants")]
pub mod concrete;

/// Algorithms as types, with their inputs and outputs, for hosts that compile one algorithm (`Controller<Bbr1>`).
pub mod algorithms {
    pub use crate::algorithm::{Algorithm, Outputs};
    pub use crate::bbr1::Bbr1;
    pub use crate::bbr3::{Bbr3, Draft06, Edition, Ietf100, Lab, LinuxV2, LinuxV3, Rules};
    pub use crate::event::{Ack, Lost, TxStart};
    pub use crate::fixed::Fixed;
    pub use crate::loss_based::{HostWindow, LossBased};
    pub use crate::prague::Prague;
    pub use crate::registry::AnyAlgorithm;
    #[cfg(feature = "variants")]
    pub use crate::variant::{Davis, Variant, VariantName};
}

/// Delivery rate, RTT and windowed extremes, each usable without a controller.
pub mod estimators {
    pub use crate::minmax::MinMax;
    pub use crate::rtt::RttEstimator;
    pub use crate::sampler::{FlightSample, RateSample, RateSampler};
}

/// The complete state of an algorithm, for traces and comparisons. Exempt from semantic versioning.
#[cfg(feature = "unstable-internals")]
pub mod internals {
    pub use crate::bbr1::Bbr1Internals;
    pub use crate::bbr3::{Bbr3Internals, Bbr3Raw, GAIN_UNIT};
    pub use crate::cubic::CubicInternals;
    pub use crate::hystart::HyStartInternals;
}

pub use controller::Controller;
pub use event::{CaState, Init};
pub use host::{AckBatch, AckInfo, AckRtt, Flight, Loss, OpenAck, RememberedPath, Sent};
pub use pacer::Pacer;
pub use registry::{ALGORITHMS, AlgorithmConfig, AlgorithmInfo, PlotStyle};
pub use rng::Rng;
pub use sampler::PacketToken;
pub use snapshot::{Bounds, Snapshot};
pub use state::{Cause, State};
pub use units::{MICROS_PER_SEC, NANOS_PER_SEC, Rate, Span, Time};
