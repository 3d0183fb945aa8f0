//! Two hosts written from scratch, QUIC-shaped and the smallest possible, over one deterministic link: any transport
//! can host the controller.
// SPDX-License-Identifier: Apache-2.0 OR MIT

#[path = "hosts/app.rs"]
mod app;
#[path = "hosts/bad_input.rs"]
mod bad_input;
#[path = "hosts/check.rs"]
mod check;
#[path = "hosts/cost.rs"]
mod cost;
#[path = "hosts/link.rs"]
mod link;
#[path = "hosts/loss.rs"]
mod loss;
#[path = "hosts/plan.rs"]
mod plan;
#[path = "hosts/quic.rs"]
mod quic;
#[path = "hosts/quic_ack.rs"]
mod quic_ack;
#[path = "hosts/quic_tests.rs"]
mod quic_tests;
#[path = "hosts/receiver.rs"]
mod receiver;
#[path = "hosts/recovery.rs"]
mod recovery;
#[path = "hosts/smallest.rs"]
mod smallest;
#[path = "hosts/smallest_tests.rs"]
mod smallest_tests;
