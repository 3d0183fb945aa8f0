//! What a flow's congestion controller hears and answers, seen by whoever wraps it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bbrlab_core::{Controller, Rate, Span, State, Time};
use bbrlab_sim::metrics::Histogram;
use bbrlab_sim::record::trace::Inside;

/// The sender of a flow, shared between its controller and the counts of the run. Both live on one thread; the stacks ask for `Send`.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<Sender>>);

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, Sender> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts since the flow's start, and the controller as it is.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    pub count: Count,
    /// The controller as it was noted last.
    pub now: Outputs,
    /// Something has happened since.
    pub is_stale: bool,
    /// Distributions grow from the end of the warm-up on.
    pub is_measuring: bool,
    /// RTT of each ACK, µs.
    pub rtt: Histogram,
    /// Sum and number of |RTT(i) − RTT(i−1)|, µs.
    pub jitter: (u64, u64),
    /// RFC 3550 §6.4.1 jitter, µs.
    pub jitter_rfc3550: f64,
    pub last_rtt_us: u32,
    pub min_rtt_us: Option<u32>,
    /// Each sample, where the series are recorded.
    pub samples: Option<Vec<(Time, u32)>>,
    /// The state at each change.
    pub states: Vec<(Time, State)>,
    /// Of a run by a script: what has not been recorded yet.
    pub heard: Option<Vec<Heard>>,
    /// An ACK has ended, or a flight begun, and the controller was not looked at since; with the bytes that have left since.
    unheard: Option<u64>,
    /// How many states the controller had had when it was looked at.
    states_heard: usize,
    /// The gain that a stack's own controller published last.
    pub pacing_gain: Option<f64>,
}

/// The controller after an ACK, before anything new leaves.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    pub at: Time,
    pub row: Row,
    pub inside: Inside,
}

/// What a series has of a sender at one moment.
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
    /// Times of persistent congestion.
    pub persistent: u64,
    /// Reductions that the stack took back.
    pub undos: u64,
}

/// What a controller says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outputs {
    pub cwnd: u64,
    pub in_flight: u64,
    /// Bytes of a full packet.
    pub mss: u32,
    /// 0 where it does not pace.
    pub pacing_bps: u64,
    /// 0 where it does not know.
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

    /// The time since the newest packet that an ACK newly acknowledges was sent.
    pub fn on_rtt(&mut self, now: Time, rtt: Span) {
        let rtt_us = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX);
        if self.is_measuring {
            self.rtt.add(rtt_us.into());
            if self.last_rtt_us != 0 {
                let step = rtt_us.abs_diff(self.last_rtt_us);
                self.jitter.0 += u64::from(step);
                self.jitter.1 += 1;
                self.jitter_rfc3550 += (f64::from(step) - self.jitter_rfc3550) / 16.0;
            }
        }
        self.min_rtt_us = Some(self.min_rtt_us.map_or(rtt_us, |min| min.min(rtt_us)));
        self.last_rtt_us = rtt_us;
        if let Some(samples) = &mut self.samples {
            samples.push((now, rtt_us));
        }
    }

    /// The state, written down if it has changed.
    pub fn note_state(&mut self, now: Time, state: State) {
        if self.states.last().is_none_or(|last| last.1 != state) {
            self.states.push((now, state));
        }
    }

    pub fn row(&self) -> Row {
        Row { now: self.now, count: self.count, rtt_us: self.last_rtt_us, min_rtt: self.min_rtt() }
    }

    /// The handshake is over. By a script the flow's states and series begin here, as TCP's do.
    pub fn begin(&mut self, now: Time) {
        if let Some(heard) = &mut self.heard {
            heard.clear();
            self.states = self.states.last().map(|last| (now, last.1)).into_iter().collect();
            self.states_heard = 0;
        }
    }

    /// An ACK was taken in, or the first packet of a flight, of so many bytes, has left.
    pub fn on_news(&mut self, bytes: u64) {
        self.unheard = Some(bytes);
    }

    /// Whether the script wants the controller as it is: the bytes that have left since its news.
    pub fn wanted(&mut self) -> Option<u64> {
        let news = self.unheard.take();
        let has_changed = self.states.len() > std::mem::replace(&mut self.states_heard, self.states.len());
        news.or(has_changed.then_some(0)).filter(|_| self.heard.is_some())
    }

    /// Keeps the controller as it was just noted. `inside` knows all but what the stack counts.
    pub fn hear(&mut self, at: Time, emitted: u64, inside: Inside) {
        let row = self.row();
        let inflight = row.now.in_flight.saturating_sub(emitted) as f64 / f64::from(row.now.mss.max(1));
        if let Some(heard) = &mut self.heard {
            heard.push(Heard { at, row, inside: Inside { inflight, ..inside } });
        }
    }

    /// One of our controllers as it is.
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

    /// The bandwidth estimate.
    pub const fn bw(&self) -> Rate {
        Rate::bits_per_sec(self.now.bw_bps)
    }

    /// The smallest RTT by the model, else by the samples.
    pub fn min_rtt(&self) -> Option<Span> {
        self.now.min_rtt.or_else(|| self.min_rtt_us.map(|us| Span::micros(us.into())))
    }
}
