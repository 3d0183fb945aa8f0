//! Invariants that hold after every event, for any host of the controller.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Controller, Flight, Rate, Span, Time, algorithms::Algorithm};

/// Reference values from the host and the link.
#[derive(Clone, Copy, Debug)]
pub struct Truth {
    pub now: Time,
    /// Volume sent on this path.
    pub sent: Flight,
    /// The host's own count: sent − acked − lost − discarded.
    pub in_flight: Flight,
    /// True if the host counts packets, not only bytes.
    pub knows_packets: bool,
    pub min_rtt: Span,
    /// The largest bandwidth that is not an overestimate; `None` where the controller cannot be expected to meet it.
    pub most_bw: Option<Rate>,
}

/// Panics when a guarantee is broken.
pub fn check(name: &str, cc: &Controller, truth: &Truth) {
    let at = format_args!("{name} at {} µs", truth.now.as_micros()).to_string();
    outputs(&at, cc);
    let counted = cc.in_flight();
    assert_eq!(counted.bytes, truth.in_flight.bytes, "{at}: bytes in flight");
    if truth.knows_packets {
        assert_eq!(counted.packets, truth.in_flight.packets, "{at}: packets in flight");
    } else {
        assert!(counted.packets <= truth.sent.packets, "{at}: packets in flight");
        assert_eq!(counted.packets == 0, counted.bytes == 0, "{at}: {counted:?}");
    }
    let sent = if cc.algorithm().counts_bytes() { truth.sent.bytes } else { truth.sent.packets.into() };
    assert!(cc.sampler().delivered() <= sent, "{at}: {} of {sent} delivered", cc.sampler().delivered());
    let snapshot = cc.snapshot();
    if let Some(min_rtt) = snapshot.min_rtt.filter(|rtt| *rtt > Span::ZERO) {
        assert!(min_rtt >= truth.min_rtt, "{at}: smallest RTT {min_rtt:?}, and {:?} is possible", truth.min_rtt);
    }
    if let Some(max) = truth.most_bw {
        assert!(snapshot.bw <= max, "{at}: bandwidth {:?} over {max:?} in {:?}", snapshot.bw, snapshot.state);
    }
}

/// Checks the controller's guarantees on its outputs for any input.
pub fn outputs(at: &str, cc: &Controller) {
    let (packets, bytes, mss) = (cc.cwnd(), cc.cwnd_bytes(), u64::from(cc.mss()));
    assert!(packets >= 1, "{at}: no window");
    assert!(cc.pacing_rate() != Some(Rate::bits_per_sec(0)), "{at}: a rate of nothing");
    assert!(cc.send_quantum() > 0, "{at}: no quantum");
    if cc.algorithm().counts_bytes() {
        assert_eq!(u64::from(packets), (bytes / mss).clamp(1, u32::MAX.into()), "{at}: {bytes} bytes of {mss}");
    } else {
        let whole = u64::from(packets) * mss;
        assert!(bytes >= whole && bytes < whole.saturating_add(mss), "{at}: {packets} packets, {bytes} bytes");
    }
}

pub fn plus(flight: Flight, bytes: u32) -> Flight {
    Flight { bytes: flight.bytes + u64::from(bytes), packets: flight.packets + 1 }
}

pub fn minus(flight: Flight, bytes: u32) -> Flight {
    Flight { bytes: flight.bytes - u64::from(bytes), packets: flight.packets - 1 }
}
