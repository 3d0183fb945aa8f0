//! What one run recorded over time, the same schema for every world.
//! In: samples on a grid. Out: columns of plain numbers. Never: an interpretation of them.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{State, Time};
use serde::{Deserialize, Serialize};

/// The recorded series of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Sample times in nanoseconds, common to all columns below.
    pub t_ns: Vec<u64>,
    /// One entry a flow, in the order of the scenario.
    pub flows: Vec<FlowTrace>,
    /// One entry a bottleneck, in the order of the path.
    pub links: Vec<LinkTrace>,
}

/// One flow's columns. Counters are cumulative from the flow's start; a flow that is not running repeats its last values.
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
    /// Payload bytes cumulatively or selectively acknowledged, as the sender knows.
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
    /// Every RTT sample as (time, µs), where the run was asked for them.
    #[serde(with = "rtt_samples")]
    pub rtt_samples: Vec<(Time, u32)>,
}

/// One bottleneck's columns. Counters are cumulative from the start of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkTrace {
    /// Packets waiting or being serialised.
    pub queue_packets: Vec<u32>,
    /// Bytes waiting or being serialised.
    pub queue_bytes: Vec<u64>,
    /// Present rate, bit/s (0 for a delivery trace).
    pub rate_bps: Vec<u64>,
    /// Packets offered.
    pub arrivals: Vec<u64>,
    /// Packets dropped by policer or queue.
    pub drops: Vec<u64>,
    /// Packets marked.
    pub marks: Vec<u64>,
    /// Bytes that left on the wire.
    pub departed_bytes: Vec<u64>,
}

/// States by their names.
mod states {
    use super::{State, Time};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(states: &[(Time, State)], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(states.iter().map(|(at, state)| (at.0, state.name())))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(Time, State)>, D::Error> {
        let named = Vec::<(u64, String)>::deserialize(from)?;
        let state = |(at, name): (u64, String)| {
            let found = State::ALL.iter().find(|state| state.name() == name);
            found.map(|state| (Time(at), *state)).ok_or_else(|| D::Error::custom(format!("no state {name:?}")))
        };
        named.into_iter().map(state).collect()
    }
}

/// RTT samples as nanoseconds and µs.
mod rtt_samples {
    use super::Time;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(samples: &[(Time, u32)], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(samples.iter().map(|(at, us)| (at.0, us)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(Time, u32)>, D::Error> {
        Ok(Vec::<(u64, u32)>::deserialize(from)?.into_iter().map(|(at, us)| (Time(at), us)).collect())
    }
}
