//! The doubles of a frame. The page reads them by these positions: `web/src/frame.ts` has the same.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Rate, Span, State, Time};
use bbrlab_sim::engine::watch::{FlowView, PacketEvent};
use bbrlab_sim::record::trace::LinkTrace;

use crate::tracker::{Packet, Place, Tracker};

/// Fields of the head: time, flows, packets, notes, then the bottleneck.
pub const HEAD_FIELDS: usize = 11;
/// Fields of a flow.
pub const FLOW_FIELDS: usize = 28;
/// Fields of a packet: flow, place, time since which it is there, sequence number, marks.
pub const PACKET_FIELDS: usize = 5;
/// Fields of a note: flow, stage, time, sequence number, echoed or own send time.
pub const NOTE_FIELDS: usize = 5;
/// Packets per flow and place in a frame; the page shows the count of the others. Ours: more than pixels.
const PACKETS_MAX: usize = 3_000;

const BYTES: f64 = 8.0;

fn ns(at: Time) -> f64 {
    at.as_nanos() as f64
}

fn span(span: Option<Span>) -> f64 {
    span.map_or(f64::NAN, |span| span.as_nanos() as f64)
}

fn rate(rate: Option<Rate>) -> f64 {
    rate.map_or(f64::NAN, |rate| rate.as_bits_per_sec() as f64)
}

/// Writes the head. The counts of packets and notes follow in `finish`.
pub fn head(frame: &mut Vec<f64>, now: Time, flows: usize, link: &LinkTrace) {
    let last = |column: &[u64]| column.last().map_or(0.0, |value| *value as f64);
    frame.extend([
        ns(now),
        flows as f64,
        0.0,
        0.0,
        f64::from(link.queue_packets.last().copied().unwrap_or(0)),
        last(&link.queue_bytes),
        last(&link.rate_bps),
        last(&link.arrivals),
        last(&link.drops),
        last(&link.marks),
        last(&link.departed_bytes),
    ]);
    debug_assert_eq!(frame.len(), HEAD_FIELDS);
}

/// Writes a flow.
pub fn flow(frame: &mut Vec<f64>, view: &FlowView, mss: u32, queued: usize, is_finished: bool) {
    let (snapshot, model) = (&view.snapshot, &view.model);
    let packets = |bytes: Option<u64>| bytes.map_or(f64::NAN, |bytes| bytes as f64 / f64::from(mss));
    let state = State::ALL.iter().position(|state| *state == snapshot.state);
    let before = frame.len();
    frame.extend([
        f64::from(view.cwnd),
        f64::from(view.in_flight),
        rate(view.pacing),
        if snapshot.bw.as_bits_per_sec() == 0 { f64::NAN } else { rate(Some(snapshot.bw)) },
        span(snapshot.min_rtt.or(view.min_rtt)),
        f64::from(view.rtt_us) * 1e3,
        span(view.srtt),
        state.map_or(f64::NAN, |state| state as f64),
        f64::from(view.ca_state as u8),
        snapshot.round_count as f64,
        f64::from(snapshot.pacing_gain) / 256.0,
        f64::from(snapshot.cwnd_gain) / 256.0,
        f64::from(u8::from(snapshot.full_bw_reached)),
        if snapshot.ssthresh == u32::MAX { f64::NAN } else { f64::from(snapshot.ssthresh) },
        rate(snapshot.bounds.bw_shortterm),
        packets(snapshot.bounds.inflight_shortterm),
        packets(snapshot.bounds.inflight_longterm),
        f64::from(snapshot.extra_acked),
        model.max_bw,
        model.bdp,
        view.sent as f64,
        view.retransmits as f64,
        view.lost as f64,
        view.acked_bytes as f64 * BYTES,
        view.received_bytes as f64 * BYTES,
        view.forward.as_nanos() as f64,
        view.reverse.as_nanos() as f64,
        if is_finished { -1.0 } else { queued as f64 },
    ]);
    debug_assert_eq!(frame.len() - before, FLOW_FIELDS);
}

/// Writes the packets and notes, and their counts into the head.
pub fn finish(frame: &mut Vec<f64>, tracker: &Tracker) {
    let mut packets = 0;
    for (flow, places) in tracker.flows.iter().enumerate() {
        let all = [(Place::Queue, &places.queue), (Place::Forward, &places.forward), (Place::Reverse, &places.reverse)];
        for (place, there) in all {
            for Packet { seq, since, marks, .. } in there.iter().take(PACKETS_MAX) {
                frame.extend([flow as f64, f64::from(place as u8), ns(*since), *seq as f64, f64::from(*marks)]);
                packets += 1;
            }
        }
    }
    for PacketEvent { at, flow, stage, seq, sent, .. } in &tracker.notes {
        frame.extend([f64::from(*flow), f64::from(*stage as u8), ns(*at), *seq as f64, ns(*sent)]);
    }
    (frame[2], frame[3]) = (f64::from(packets), tracker.notes.len() as f64);
}
