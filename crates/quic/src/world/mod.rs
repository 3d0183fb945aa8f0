//! A scenario between the real endpoints of a QUIC stack: handshake, encryption, loss recovery and flow control are the
//! stack's, the path is `bbrlab_sim`'s, and time is virtual. The same setup gives the same figures.
//!
//! Each flow is a connection that uploads on one stream. What a result says of it differs from TCP's in this:
//!
//! - `goodput_bps` is of bytes that the receiving application was given, in their order.
//! - `retransmit_ratio` is packets declared lost over packets sent, and `spurious_retransmits` is how many more were declared
//!   lost than the path lost. QUIC repeats data, never packets.
//! - `rto` counts persistent congestion (RFC 9002 §7.6), which takes the place of a time-out.
//! - `model` and the trace count whole QUIC packets, not payload.
//!
//! A flow of [`FlowSetup::is_tcp`] is a connection of the lab's TCP model on the same path, with the simulator's own code for both
//! ends and for its figures.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod debug;
mod noq;
mod s2n;
mod sender;
mod stage;
mod store;
mod tally;
mod tcp;
mod tls;

use bbrlab_core::Time;
use bbrlab_sim::link::Buffer;
use bbrlab_sim::record::Output;
use bbrlab_sim::script::Script;
use bbrlab_sim::setup::{ChangeKind, FlowSetup, Rwnd, Setup, Stack};

/// What goes wrong, in one line.
pub type Failure = String;

/// What IPv4 and UDP put around a datagram, and Ethernet around that.
const IP_UDP: u32 = 28;
const ETHERNET: u32 = 14;
/// IPv4 and TCP with timestamps, around the payload that a scenario's `mss` is.
const IP_TCP: u32 = 52;
/// Bytes that an application hands over at once. Ours.
const CHUNK: usize = 64 << 10;
/// The smallest and largest send buffer. Ours: the larger holds 1 Gbit/s over 1 s, twice.
const SEND_BUFFER: (u64, u64) = (256 << 10, 256 << 20);

/// Runs a setup in a stack's endpoints. `progress` hears the run's time now and then.
pub fn run(stack: Stack, setup: &Setup, progress: &mut dyn FnMut(Time)) -> Result<Output, Failure> {
    play(stack, setup, None, progress)
}

/// Runs a setup by a script, as the simulator does. What differs from a run without one:
///
/// - Packets have their full size from the first on: there is no search for the path's MTU, and cases can count packets.
/// - The application hands over only what the controller soon lets go. A stack takes megabytes at once, so that a pause would
///   be felt many round trips later.
/// - Rates of the series are of payload, as if each packet carried what a TCP segment of its length does.
pub fn run_scripted(stack: Stack, setup: &Setup, script: &Script) -> Result<Output, Failure> {
    play(stack, setup, Some(script), &mut |_| {})
}

fn play(
    stack: Stack,
    setup: &Setup,
    script: Option<&Script>,
    progress: &mut dyn FnMut(Time),
) -> Result<Output, Failure> {
    if script.is_some() && setup.flows.first().is_some_and(|flow| flow.is_tcp) {
        return Err(format!("{}: a script follows a flow of the stack", setup.flows[0].name));
    }
    match stack {
        Stack::S2n => s2n::run(setup, script, progress),
        Stack::Noq => noq::run(setup, script, progress),
    }
}

/// The largest UDP payload of a flow: its IP packet is as long as that of a TCP segment with this `mss`.
const fn datagram(flow: &FlowSetup) -> u16 {
    let bytes = flow.mss + IP_TCP - IP_UDP;
    if bytes > u16::MAX as u32 { u16::MAX } else { bytes as u16 }
}

/// The receiver's window in bytes; a window that is never the limit is as large as both stacks can say.
const fn window(flow: &FlowSetup) -> u32 {
    match flow.rwnd {
        Rwnd::Fixed(bytes) if bytes < (1 << 30) => bytes as u32,
        Rwnd::Fixed(_) | Rwnd::Unlimited | Rwnd::Auto(_) => 1 << 30,
    }
}

/// How much of what an application wrote a stack holds until it is acknowledged: three times what the path holds at its
/// fastest and longest, so that it never is the limit.
fn send_buffer(setup: &Setup, flow: &FlowSetup) -> u32 {
    let rates = setup.links.iter().map(|link| link.service.nominal_rate());
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
    let queued = setup.links.iter().map(|link| match link.buffer {
        Buffer::Packets(packets) => packets.saturating_mul(packet),
        Buffer::Bytes(bytes) => bytes,
    });
    let held = queued.fold(rate.bytes_in(rtt), u64::saturating_add);
    held.saturating_mul(3).clamp(SEND_BUFFER.0, SEND_BUFFER.1) as u32
}
