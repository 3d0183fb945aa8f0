//! Time series recorded in one run, with the same schema for every backend.
//! Columns of plain numbers, without interpretation.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{State, Time};
use serde::{Deserialize, Serialize};

use crate::link::{Link, LinkPacket};

/// The recorded series of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Sample times in nanoseconds, common to all columns below.
    pub t_ns: Vec<u64>,
    /// One entry per flow, in the order of the scenario.
    pub flows: Vec<FlowTrace>,
    /// One entry per bottleneck, in the order of the path.
    pub links: Vec<LinkTrace>,
    /// The reverse direction's link; null without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<Box<LinkTrace>>,
    /// RTT of each probe as (arrival of its echo, µs), if the run has a probe.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "rtt_samples")]
    pub probe: Vec<(Time, u32)>,
}

/// Columns of one flow. Counters are cumulative from the flow's start; a flow that is not running repeats its last values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowTrace {
    /// Congestion window, segments.
    pub cwnd: Vec<u32>,
    /// Segments in flight (Linux `tcp_packets_in_flight`).
    pub inflight: Vec<u32>,
    /// Pacing rate in bit/s of payload; 0 where the flow is not paced.
    pub pacing_bps: Vec<u64>,
    /// The model's bandwidth estimate, bit/s of payload; 0 where there is none.
    pub bw_bps: Vec<u64>,
    /// The newest RTT sample, µs; 0 before the first.
    pub rtt_us: Vec<u32>,
    /// The model's (or the connection's) minimum RTT, µs; 0 before the first sample.
    pub min_rtt_us: Vec<u32>,
    /// Payload bytes sent, retransmissions included.
    pub sent_bytes: Vec<u64>,
    /// Payload bytes cumulatively or selectively acknowledged, according to the sender.
    pub acked_bytes: Vec<u64>,
    /// Unique payload bytes that reached the receiver.
    pub received_bytes: Vec<u64>,
    /// Segments marked lost.
    pub lost: Vec<u64>,
    /// Segments retransmitted.
    pub retransmitted: Vec<u64>,
    /// The algorithm's state at each change, with the time.
    #[serde(with = "states")]
    pub states: Vec<(Time, State)>,
    /// Every RTT sample as (time, µs), if the run records them.
    #[serde(with = "rtt_samples")]
    pub rtt_samples: Vec<(Time, u32)>,
    /// The algorithm's model at each sample, if a conformance run records it; never written to a file.
    #[serde(skip)]
    pub internals: Vec<ModelSample>,
}

/// An algorithm's model at one moment, with the draft's names. Volumes are in packets, rates in bit/s of payload, spans in
/// seconds. A bound that is not set is infinite, and a value that an algorithm does not have is NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelSample {
    /// Packets in flight after the ACK, before new ones are sent.
    pub inflight: f64,
    /// Pacing gain.
    pub pacing_gain: f64,
    /// cwnd gain.
    pub cwnd_gain: f64,
    /// Long-term maximum of bandwidth.
    pub max_bw: f64,
    /// Short-term bound on bandwidth.
    pub bw_shortterm: f64,
    /// Long-term bound on inflight.
    pub inflight_longterm: f64,
    /// Short-term bound on inflight.
    pub inflight_shortterm: f64,
    /// BDP of the long-term maximum.
    pub bdp: f64,
    /// The BDP plus the allowance for bursts and the smallest window.
    pub inflight_target: f64,
    /// Long-term bound minus its headroom.
    pub inflight_headroom: f64,
    /// Allowance for aggregated ACKs.
    pub extra_acked: f64,
    /// Largest burst.
    pub send_quantum: f64,
    /// Rounds without growth.
    pub full_bw_count: f64,
    /// 1 if the pipe is full now.
    pub full_bw_now: f64,
    /// 1 once the pipe has been full.
    pub full_bw_reached: f64,
    /// Rounds so far.
    pub round: f64,
    /// Rounds since the last probe.
    pub rounds_since_probe: f64,
    /// Time to wait between two probes.
    pub probe_wait_s: f64,
    /// Packets to be acknowledged for an increase of the long-term bound by one.
    pub acked_per_inc: f64,
    /// 1 if the last probe went too far.
    pub probe_too_high: f64,
    /// Time at which the clock of the next ProbeRTT was last reset.
    pub probe_rtt_stamp_s: f64,
    /// 1 during a restart from idle.
    pub idle_restart: f64,
    /// 1 if the connection is marked app-limited.
    pub app_limited: f64,
    /// Recovery state: 0 open … 4 after a timeout.
    pub ca_state: f64,
    /// Reductions undone so far.
    pub undos: f64,
    /// Timeouts so far.
    pub rto: f64,
}

/// Columns of one bottleneck. Counters are cumulative from the start of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkTrace {
    /// Packets waiting or being serialised.
    pub queue_packets: Vec<u32>,
    /// Bytes waiting or being serialised.
    pub queue_bytes: Vec<u64>,
    /// Current rate, bit/s (0 for a delivery trace).
    pub rate_bps: Vec<u64>,
    /// Packets offered.
    pub arrivals: Vec<u64>,
    /// Packets dropped by policer or queue.
    pub drops: Vec<u64>,
    /// Packets marked.
    pub marks: Vec<u64>,
    /// Bytes on the wire that left.
    pub departed_bytes: Vec<u64>,
}

impl LinkTrace {
    /// Adds one sample of a link.
    pub fn sample<P: LinkPacket>(&mut self, link: &Link<P>) {
        let stats = link.stats();
        self.queue_packets.push(link.queue_packets());
        self.queue_bytes.push(link.queue_bytes());
        self.rate_bps.push(link.rate().as_bits_per_sec());
        self.arrivals.push(stats.arrivals);
        self.drops.push(stats.drops + stats.policed);
        self.marks.push(stats.marks);
        self.departed_bytes.push(stats.departed_bytes);
    }
}

/// Serialisation of states by their names.
mod states {
    use super::{State, Time};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(states: &[(Time, State)], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(states.iter().map(|(at, state)| (at.as_nanos(), state.name())))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(Time, State)>, D::Error> {
        let named = Vec::<(u64, String)>::deserialize(from)?;
        let state = |(at, name): (u64, String)| {
            let found = State::ALL.iter().find(|state| state.name() == name);
            found.map(|state| (Time::nanos(at), *state)).ok_or_else(|| D::Error::custom(format!("no state {name:?}")))
        };
        named.into_iter().map(state).collect()
    }
}

/// Serialisation of RTT samples as nanoseconds and µs.
mod rtt_samples {
    use super::Time;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(samples: &[(Time, u32)], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(samples.iter().map(|(at, us)| (at.as_nanos(), us)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(Time, u32)>, D::Error> {
        Ok(Vec::<(u64, u32)>::deserialize(from)?.into_iter().map(|(at, us)| (Time::nanos(at), us)).collect())
    }
}
