#![no_std]
#![forbid(unsafe_code)]
//! BBR congestion control and its peers for any transport.

mod algorithm;
pub mod bbr1;
pub mod cubic;
pub mod loss_based;
mod minmax;
mod params;
mod rng;
mod state;
mod units;

pub use algorithm::{ALGORITHMS, AlgorithmConfig, AlgorithmInfo};
pub use minmax::MinMax;
pub use params::{ParamError, ParamSpec, Unit};
pub use rng::Rng;
pub use state::State;
pub use units::{Gain, MICROS_PER_SEC, NANOS_PER_SEC, Rate, Span, Time};
