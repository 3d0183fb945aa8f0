// The doubles of a frame, by the positions of crates/web/src/frame.rs.
// SPDX-License-Identifier: Apache-2.0 OR MIT

export const HEAD = 11;
export const FLOW = 28;
export const PACKET = 5;
export const NOTE = 5;

export const enum Head { Now, Flows, Packets, Notes, QueuePackets, QueueBytes, RateBps, Arrivals, Drops, Marks, DepartedBytes }

export const enum Flow {
  Cwnd, InFlight, Pacing, Bw, MinRtt, Rtt, Srtt, State, Ca, Round, PacingGain, CwndGain, FullBw, Ssthresh, BwShort, InflightShort,
  InflightLong, ExtraAcked, MaxBw, Bdp, Sent, Retransmits, Lost, AckedBits, ReceivedBits, Forward, Reverse, Queued,
}

export const enum Packet { Flow, Place, Since, Seq, Marks }
export const enum Place { Queue, Forward, Reverse }
export const enum Note { Flow, Stage, At, Seq, Sent }
/** Positions in `Stage` of crates/sim/src/engine/watch.rs. */
export const enum Stage { Sent, Queued, Refused, DroppedLater, Departed, Lost, Arrived, AckSent, AckLost, AckArrived }

export const RETRANSMIT = 16;
export const CE = 4;

/** A value of a flow in a frame or in a sample, which begins like one. */
export function ofFlow(frame: Float64Array, flow: number, field: Flow, from = 0): number {
  return frame[from + HEAD + flow * FLOW + field];
}

/** Length of a sample: a frame without packets and notes. */
export function sampleLength(flows: number): number {
  return HEAD + flows * FLOW;
}
