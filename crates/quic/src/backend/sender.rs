//! Record of the calls to a flow's congestion controller and of its outputs, kept by its wrapper.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bbrlab_core::{Controller, Rate, Span, State, Time};
use bbrlab_sim::record::summary::RttStats;
use bbrlab_sim::record::trace::ModelSample;

/// Sender of a flow, shared between its controller and the counters of the run. Both live on one thread; the stacks require `Send`.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<Sender>>);

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, Sender> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts since the flow's start, and the current outputs of the controller.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    pub count: Count,
    /// Outputs of the controller when last recorded.
    pub now: Outputs,
    /// True if an event has happened since.
    pub is_stale: bool,
    /// True from the end of the warm-up on, while distributions are collected.
    pub is_measuring: bool,
    /// RTT of each ACK.
    pub rtt: RttStats,
    pub min_rtt_us: Option<u32>,
    /// Each RTT sample, if the series are recorded.
    pub samples: Option<Vec<(Time, u32)>>,
    /// The state at each change.
    pub states: Vec<(Time, State)>,
    /// With a script: rows that have not been recorded yet.
    pub heard: Option<Vec<SenderSample>>,
    /// Bytes sent since an ACK ended or a flight began, if the controller has not been read since.
    unheard: Option<u64>,
    /// Number of states of the controller when it was last read.
    states_heard: usize,
    /// Gain last published by a stack's own controller.
    pub pacing_gain: Option<f64>,
}

/// State of the controller after an ACK, before new data is sent.
#[derive(Clone, Copy, Debug)]
pub struct SenderSample {
    pub at: Time,
    pub row: Row,
    pub internals: ModelSample,
}

/// Values of a sender at one moment for the series.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row {
    pub now: Outputs,
    pub count: Count,
    pub rtt_us: u32,
    pub min_rtt: Option<Span>,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    pub packets: u64,
    pub bytes: u64,
    pub acked_bytes: u64,
    pub lost: u64,
    /// Occurrences of persistent congestion.
    pub persistent: u64,
    /// Reductions undone by the stack.
    pub undos: u64,
}

/// Outputs of a controller.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outputs {
    pub cwnd: u64,
    pub in_flight: u64,
    /// Bytes of a full packet.
    pub mss: u32,
    /// Pacing rate; 0 without pacing.
    pub pacing_bps: u64,
    /// Bandwidth estimate; 0 if unknown.
    pub bw_bps: u64,
    pub min_rtt: Option<Span>,
}

impl Sender {
    pub fn on_sent(&mut self, bytes: u64) {
        self.count.packets += 1;
        self.count.bytes += bytes;
        self.now.in_flight += bytes;
    }

    pub fn on_lost(&mut self, bytes: u64) {
        self.count.lost += 1;
        self.now.in_flight = self.now.in_flight.saturating_sub(bytes);
    }

    pub fn on_acked(&mut self, bytes: u64) {
        self.count.acked_bytes += bytes;
        self.now.in_flight = self.now.in_flight.saturating_sub(bytes);
    }

    /// Records an RTT: the time since the newest packet newly acknowledged by an ACK was sent.
    pub fn on_rtt(&mut self, now: Time, rtt: Span) {
        let rtt_us = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX);
        self.rtt.add(rtt_us, self.is_measuring);
        self.min_rtt_us = Some(self.min_rtt_us.map_or(rtt_us, |min| min.min(rtt_us)));
        if let Some(samples) = &mut self.samples {
            samples.push((now, rtt_us));
        }
    }

    /// Records the state if it has changed.
    pub fn note_state(&mut self, now: Time, state: State) {
        if self.states.last().is_none_or(|last| last.1 != state) {
            self.states.push((now, state));
        }
    }

    pub fn row(&self) -> Row {
        Row { now: self.now, count: self.count, rtt_us: self.rtt.last_us, min_rtt: self.min_rtt() }
    }

    /// Ends the handshake. With a script the flow's states and series begin here, as TCP's do.
    pub fn begin(&mut self, now: Time) {
        if let Some(heard) = &mut self.heard {
            heard.clear();
            self.states = self.states.last().map(|last| (now, last.1)).into_iter().collect();
            self.states_heard = 0;
        }
    }

    /// Records that an ACK was processed, or that the first packet of a flight, of this size, was sent.
    pub fn on_news(&mut self, bytes: u64) {
        self.unheard = Some(bytes);
    }

    /// Returns the bytes sent since the last event if the script requires a row now.
    pub fn wanted(&mut self) -> Option<u64> {
        let news = self.unheard.take();
        let has_changed = self.states.len() > std::mem::replace(&mut self.states_heard, self.states.len());
        news.or(has_changed.then_some(0)).filter(|_| self.heard.is_some())
    }

    /// Stores a row with the outputs just recorded. `internals` holds everything except the stack's own counts.
    pub fn hear(&mut self, at: Time, emitted: u64, internals: ModelSample) {
        let row = self.row();
        let inflight = row.now.in_flight.saturating_sub(emitted) as f64 / f64::from(row.now.mss.max(1));
        if let Some(heard) = &mut self.heard {
            heard.push(SenderSample { at, row, internals: ModelSample { inflight, ..internals } });
        }
    }

    /// Records the current outputs of one of our controllers.
    pub fn note_ours(&mut self, now: Time, cc: &Controller) {
        let snapshot = cc.snapshot();
        self.now = Outputs {
            cwnd: cc.cwnd_bytes(),
            in_flight: cc.in_flight().bytes,
            mss: cc.mss(),
            pacing_bps: cc.pacing_rate().filter(|_| cc.needs_pacing()).map_or(0, |rate| rate.as_bits_per_sec()),
            bw_bps: snapshot.bw.as_bits_per_sec(),
            min_rtt: snapshot.min_rtt,
        };
        self.note_state(now, cc.state());
    }

    /// Bandwidth estimate.
    pub const fn bw(&self) -> Rate {
        Rate::bits_per_sec(self.now.bw_bps)
    }

    /// Minimum RTT from the model, or else from the samples.
    pub fn min_rtt(&self) -> Option<Span> {
        self.now.min_rtt.or_else(|| self.min_rtt_us.map(|us| Span::micros(us.into())))
    }
}
