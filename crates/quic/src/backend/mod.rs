//! Scenarios between real endpoints of a QUIC stack, in virtual time. Handshake, encryption, loss recovery and flow control are
//! the stack's; the path is `bbrlab_sim`'s. The same setup produces the same figures.
//!
//! Each flow is a connection that uploads on one stream. Its results differ from TCP's as follows:
//!
//! - `goodput_bps` counts bytes delivered in order to the receiving application.
//! - `retransmit_ratio` is packets declared lost over packets sent, and `spurious_retransmits` is the number declared lost beyond
//!   those that the path lost. QUIC retransmits data, never packets.
//! - `rto` counts persistent congestion (RFC 9002 §7.6), which replaces a timeout.
//! - `model` and the trace count whole QUIC packets, not payload.
//!
//! A flow with [`FlowSetup::is_tcp`] is a connection of the simulator's TCP model on the same path, with the simulator's own
//! code for both ends and for its figures.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod debug;
mod noq;
mod quinn;
mod reader;
mod s2n;
mod sender;
mod stage;
mod store;
mod tally;
mod tcp;
mod tls;

use bbrlab_core::Time;
use bbrlab_sim::backend::Stack;
use bbrlab_sim::link::Buffer;
use bbrlab_sim::record::Output;
use bbrlab_sim::script::Script;
use bbrlab_sim::setup::{ChangeKind, FlowSetup, Rwnd, Setup};

use crate::{Error, Result};

/// Headers of IPv4 and UDP around a datagram, and of Ethernet around these.
const IP_UDP: u32 = 28;
const ETHERNET: u32 = 14;
/// Headers of IPv4 and TCP with timestamps, around the payload given by a scenario's `mss`.
const IP_TCP: u32 = 52;
/// Bytes that an application writes at once. Ours.
const CHUNK: usize = 64 << 10;
/// Smallest and largest send buffer. Ours: the larger holds 1 Gbit/s over 1 s, twice.
const SEND_BUFFER: (u64, u64) = (256 << 10, 256 << 20);

/// Runs a setup in a stack's endpoints. `progress` is called with the run's time at intervals.
pub fn run(stack: Stack, setup: &Setup, progress: &mut dyn FnMut(Time)) -> Result<Output> {
    play(stack, setup, None, progress)
}

/// Runs a setup with a script, as the simulator does. Differences from a run without one:
///
/// - Packets have their full size from the start: there is no search for the path's MTU, and cases can count packets.
/// - The application writes only what the controller will soon release. A stack accepts megabytes at once, which would delay
///   the effect of a pause by many round trips.
/// - Rates of the series are of payload, as if each packet carried as much as a TCP segment of its length.
pub fn run_scripted(stack: Stack, setup: &Setup, script: &Script) -> Result<Output> {
    play(stack, setup, Some(script), &mut |_| {})
}

fn play(stack: Stack, setup: &Setup, script: Option<&Script>, progress: &mut dyn FnMut(Time)) -> Result<Output> {
    if script.is_some() && setup.flows.first().is_some_and(|flow| flow.is_tcp) {
        return Err(Error::ScriptOnTcp { flow: setup.flows[0].name.clone() });
    }
    match stack {
        Stack::S2n => s2n::run(setup, script, progress),
        Stack::Noq => noq::run(setup, script, progress),
        Stack::Quinn => quinn::run(setup, script, progress),
    }
}

/// Largest UDP payload of a flow. Its IP packet is as long as that of a TCP segment with this `mss`.
const fn datagram(flow: &FlowSetup) -> u16 {
    let bytes = flow.mss + IP_TCP - IP_UDP;
    if bytes > u16::MAX as u32 { u16::MAX } else { bytes as u16 }
}

/// Receive window in bytes; a window that is never the limit gets the largest value that both stacks can express.
const fn window(flow: &FlowSetup) -> u32 {
    match flow.rwnd {
        Rwnd::Fixed(bytes) if bytes < (1 << 30) => bytes as u32,
        Rwnd::Fixed(_) | Rwnd::Unlimited | Rwnd::Auto(_) => 1 << 30,
    }
}

/// Size of a stack's send buffer for unacknowledged application data. It is three times the path's capacity at its highest rate
/// and longest RTT, so it is never the limit.
fn send_buffer(setup: &Setup, flow: &FlowSetup) -> u32 {
    let links = || setup.links.iter().chain(setup.up.as_deref());
    let rates = links().map(|link| link.service.nominal_rate());
    let changed = setup.schedule.iter().filter_map(|change| match change.what {
        ChangeKind::Rate(rate) => Some(rate),
        _ => None,
    });
    let rate = rates.chain(changed).max().unwrap_or_default();
    let rtts = setup.schedule.iter().filter_map(|change| match change.what {
        ChangeKind::Rtt(rtt) => Some(rtt),
        _ => None,
    });
    let rtt = rtts.chain([flow.rtt.unwrap_or(setup.path.rtt)]).max().unwrap_or_default();
    let packet = u64::from(datagram(flow)) + u64::from(IP_UDP + ETHERNET);
    let queued = links().map(|link| match link.buffer {
        Buffer::Packets(packets) => packets.saturating_mul(packet),
        Buffer::Bytes(bytes) => bytes,
    });
    let held = queued.fold(rate.bytes_in(rtt), u64::saturating_add);
    held.saturating_mul(3).clamp(SEND_BUFFER.0, SEND_BUFFER.1) as u32
}
