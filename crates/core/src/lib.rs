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
mod episode;
mod event;
mod fixed;
mod flow;
mod host;
mod hystart;
mod loss_based;
mod minmax;
mod pacer;
mod params;
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

pub use algorithm::{ALGORITHMS, AlgorithmConfig, AlgorithmInfo, MAX_PARAMS};
#[cfg(feature = "inside")]
pub use bbr1::Bbr1Inside;
pub use bbr1::{Bbr1, Bbr1Params};
pub use bbr3::{Bbr3, Bbr3Params, Draft06, Edition, Ietf100, Linux, Rules, V2};
#[cfg(feature = "inside")]
pub use bbr3::{Bbr3Inside, Bbr3Raw, GAIN_UNIT};
pub use controller::Controller;
#[cfg(feature = "inside")]
pub use cubic::CubicInside;
pub use cubic::CubicParams;
pub use event::{Ack, CaState, Init, Lost, TxStart};
pub use fixed::{Fixed, FixedParams};
pub use flow::{Algorithm, AnyAlgorithm, Outputs};
pub use host::{AckBatch, AckInfo, AckRtt, Flight, Loss, OpenAck, RememberedPath, Sent};
#[cfg(feature = "inside")]
pub use hystart::HyStartInside;
pub use loss_based::{HostWindow, LossBased, RenoParams};
pub use minmax::MinMax;
pub use pacer::Pacer;
pub use params::{ParamError, ParamSpec, Unit};
pub use rng::Rng;
pub use rtt::RttEstimator;
pub use sampler::{FlightSample, RateSample, RateSampler, Token};
pub use snapshot::{Bounds, Snapshot};
pub use state::{Cause, State};
pub use units::{MICROS_PER_SEC, NANOS_PER_SEC, Rate, Span, Time};
#[cfg(feature = "variants")]
pub use variant::{
    AcdParams, ApgParams, CpaParams, Davis, DavisParams, KalmanParams, QuantileParams, Variant, VariantName,
    VariantParams,
};
