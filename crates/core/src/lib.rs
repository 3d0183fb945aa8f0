#![no_std]
#![forbid(unsafe_code)]
//! BBR congestion control, every version of it that matters, and its honest peers, for any transport.
//!
//! No std, no allocation, no dependency, integers only; the clock and the dice are arguments.
//!
//! A host does five things with a [`Controller`]:
//!
//! 1. [`Controller::on_sent`] for each packet, keeping the [`Token`] that it returns with the packet;
//! 2. for each ACK: [`Controller::on_delivered`] with the token of each packet that it newly acknowledges,
//!    [`Controller::on_lost_packet`] with that of each packet that it shows lost, [`Controller::on_ca_state`] if that begins or ends a recovery,
//! 3. and then [`Controller::on_ack`] once;
//! 4. [`Controller::on_app_limited`] when it has nothing to send, [`Controller::on_rto`] on a time-out;
//! 5. it sends while fewer than [`Controller::cwnd`] packets are in flight, no faster than
//!    [`Controller::pacing_rate`], in bursts of at most [`Controller::send_quantum`] bytes.
//!
//! ```
//! use bbrlab_core::*;
//! use std::collections::VecDeque;
//!
//! // A toy transport over a pipe of 10 packets a millisecond and 40 ms, which loses every 1000th packet.
//! let config = AlgorithmConfig::named("bbr1").unwrap();
//! let mut cc = Controller::new(&config, &Init::new(Time::ZERO, 1200, 1));
//! let mut recovery = SimpleRecovery::default();
//! let mut pipe: VecDeque<(Time, u64, Token)> = VecDeque::new(); // arrival of the ACK, number, token
//! let (mut now, mut next, mut link_free, mut pacer) = (Time::ZERO, 0u64, Time::ZERO, Time::ZERO);
//! while now < Time::ZERO + Span::secs(5) {
//!     while pipe.len() < cc.cwnd() as usize && pacer <= now {
//!         let token = cc.on_sent(now, 1, pipe.len() as u32, pipe.len() as u32, false);
//!         link_free = link_free.max(now) + Span::micros(100);
//!         pipe.push_back((link_free + Span::millis(40), next, token));
//!         pacer = pacer.max(now) + cc.pacing_rate().time_for(1200);
//!         next += 1;
//!     }
//!     let prior = pipe.len() as u32;
//!     while let Some(&(at, number, token)) = pipe.front().filter(|packet| packet.0 <= now) {
//!         pipe.pop_front();
//!         let state = if number % 1000 == 999 {
//!             cc.on_lost_packet(at, &token, number);
//!             recovery.on_lost(at)
//!         } else {
//!             cc.on_delivered(&token, number);
//!             recovery.on_delivered(&token)
//!         };
//!         cc.on_ca_state(state);
//!         let in_flight = pipe.len() as u32;
//!         cc.on_ack(&AckReport {
//!             now: at, rtt: Some(at.since(token.send_time())), rtt_oldest: Some(at.since(token.send_time())), prior_in_flight: prior, in_flight,
//!             packets_out: in_flight, una: number + 1, next, advanced: true, is_ack_delayed: false,
//!             cwnd_limited: true, may_raise_cwnd: true, edt: pacer, paced: true,
//!         });
//!     }
//!     now += Span::micros(50);
//! }
//! let found = cc.snapshot();
//! assert_eq!(found.min_rtt.unwrap().as_micros() / 1000, 40);
//! let packets_per_ms = found.bw.0 / 8 / 1200 / 1000;
//! assert!((9..=10).contains(&packets_per_ms), "{packets_per_ms}");
//! ```

mod algorithm;
mod bbr1;
mod bbr3;
mod controller;
mod cubic;
mod event;
mod fixed;
mod hystart;
mod loss_based;
mod minmax;
mod params;
mod rate_sample;
mod rng;
mod rtt;
mod shared;
mod state;
mod units;
mod variant;

pub use algorithm::{ALGORITHMS, AlgorithmConfig, AlgorithmInfo};
pub use bbr1::{Bbr1, Bbr1Inside, Bbr1Params};
pub use bbr3::{Bbr3, Bbr3Inside, Bbr3Params, Edition, GAIN_UNIT};
pub use controller::{AckReport, Controller, SimpleRecovery};
pub use cubic::{CubicInside, CubicParams};
pub use event::{Ack, Bounds, CaState, Init, Lost, Snapshot, TxStart};
pub use fixed::{Fixed, FixedParams};
pub use hystart::HyStartInside;
pub use loss_based::{HostWindow, LossBased, RenoParams};
pub use minmax::MinMax;
pub use params::{ParamError, ParamSpec, Unit};
pub use rate_sample::{FlightSample, RateSample, RateSampler, Token};
pub use rng::Rng;
pub use rtt::RttEstimator;
pub use state::State;
pub use units::{Gain, MICROS_PER_SEC, NANOS_PER_SEC, Rate, Span, Time};
pub use variant::{
    AcdParams, ApgParams, CpaParams, Davis, DavisParams, KalmanParams, QuantileParams, Variant, VariantName,
    VariantParams,
};
