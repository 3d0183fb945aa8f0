//! Frames at a fixed rate, as of a call or a game: each is written when it is captured, and is late if it arrives after a
//! deadline. Nagle's algorithm is off (`TCP_NODELAY`). The transport is reliable, so a late frame still arrives, and delays the
//! next ones.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{NANOS_PER_SEC, Rate, Span, Time};

use crate::metrics::Histogram;
use crate::record::result::CallResult;
use crate::scenario::arrivals::ln;

/// Rating factor R of a call without delay or loss. Source: Cole and Rosenbluth, CCR 2001.
const R_BEST: f64 = 94.2;
/// Delay beyond which conversation suffers more, ms. Source: the same.
const DELAY_KNEE_MS: f64 = 177.3;
/// Microseconds to milliseconds.
const US_TO_MS: f64 = 1e-3;

/// Frames of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSetup {
    /// Bytes of a frame.
    pub size: u64,
    /// Time between two frames.
    pub interval: Span,
    /// Longest delay from capture to arrival of a frame that is in time; it is played after this delay.
    pub deadline: Span,
}

impl CallSetup {
    /// Rate of its payload.
    pub fn rate(&self) -> Rate {
        let nanos = u128::from(self.interval.as_nanos().max(1));
        let per_second = u128::from(self.size) * u128::from(NANOS_PER_SEC) / nanos;
        Rate::bytes_per_sec(u64::try_from(per_second).unwrap_or(u64::MAX))
    }
}

/// Record of a receiver of frames.
#[derive(Clone, Debug)]
pub struct Frames {
    call: CallSetup,
    started: Time,
    arrived: u64,
    late: u64,
    delays_us: Histogram,
}

impl Frames {
    /// Starts recording a call whose first frame is captured at `now`.
    pub fn new(call: CallSetup, now: Time) -> Self {
        Self { call, started: now, arrived: 0, late: 0, delays_us: Histogram::default() }
    }

    /// Time at which a frame is captured.
    fn captured(&self, frame: u64) -> Time {
        self.started + Span::nanos(self.call.interval.as_nanos().saturating_mul(frame))
    }

    /// Records each frame whose last byte is among the first `in_order_bytes`, which have arrived in order by `now`.
    pub fn on_bytes(&mut self, now: Time, in_order_bytes: u64) {
        while (self.arrived + 1).saturating_mul(self.call.size) <= in_order_bytes {
            let delay = now.since(self.captured(self.arrived));
            self.delays_us.add(delay.as_micros());
            self.late += u64::from(delay > self.call.deadline);
            self.arrived += 1;
        }
    }

    /// Figures of frames that were due by `end`, or by the `stop` of their sender.
    pub fn result(&self, end: Time, stop: Option<Time>) -> CallResult {
        let (interval, deadline) = (self.call.interval.as_nanos(), self.call.deadline);
        let captured_by = |time: Time| time.since(self.started).as_nanos() / interval.max(1) + 1;
        // A frame counts once its deadline has passed. A stop forbids the write at its own moment.
        let until = Time::nanos(end.as_nanos().saturating_sub(deadline.as_nanos()));
        let due = if until < self.started { 0 } else { captured_by(until) };
        let written = stop.map_or(u64::MAX, |stop| captured_by(Time::nanos(stop.as_nanos().saturating_sub(1))));
        let frames = due.min(written).max(self.arrived);
        let late = self.late + (frames - self.arrived);
        let late_ratio = if frames == 0 { 0.0 } else { late as f64 / frames as f64 };
        CallResult {
            frames,
            late,
            late_ratio,
            deadline_ms: self.call.deadline.as_micros() as f64 * US_TO_MS,
            delay_ms: (self.delays_us.count() > 0).then(|| self.delays_us.distribution(US_TO_MS)),
            mos: mos(self.call.deadline.as_micros() as f64 * US_TO_MS, late_ratio),
        }
    }
}

/// Mean opinion score of a G.711 call by the E-model: 1 (bad) to 4.5. `loss` is the share of packets lost or too late.
// spec: Cole and Rosenbluth, "Voice over IP performance monitoring", CCR 31(2), 2001; MOS from R: ITU-T G.107 annex B
pub fn mos(mouth_to_ear_ms: f64, loss: f64) -> f64 {
    let delay = 0.024 * mouth_to_ear_ms + 0.11 * (mouth_to_ear_ms - DELAY_KNEE_MS).max(0.0);
    let r = R_BEST - delay - 30.0 * ln(1.0 + 15.0 * loss);
    match r {
        r if r < 0.0 => 1.0,
        r if r > 100.0 => 4.5,
        // Below R = 6.5 the polynomial is a little below the scale's end.
        r => (1.0 + 0.035 * r + 7e-6 * r * (r - 60.0) * (100.0 - r)).max(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::millis(millis)
    }

    fn call() -> Frames {
        let call = CallSetup { size: 1_000, interval: Span::millis(20), deadline: Span::millis(100) };
        Frames::new(call, at(0))
    }

    #[test]
    fn a_frame_is_late_after_its_deadline_whether_it_arrives_or_not() {
        let mut frames = call();
        frames.on_bytes(at(50), 1_999); // the first after 50 ms, half of the second
        frames.on_bytes(at(121), 3_000); // the second after 101 ms, the third after 81 ms
        let result = frames.result(at(199), None);
        // Due by 199 ms: those captured at 0, 20, 40, 60 and 80 ms.
        assert_eq!((result.frames, result.late), (5, 3));
        let delays = result.delay_ms.unwrap();
        assert_eq!((delays.min, delays.max), (Some(50.0), 101.0));
    }

    #[test]
    fn a_call_that_stopped_captures_no_more_frames() {
        let mut frames = call();
        frames.on_bytes(at(90), 3_000);
        let result = frames.result(at(10_000), Some(at(60)));
        assert_eq!((result.frames, result.late), (3, 0));
        assert_eq!(frames.result(at(50), None).frames, 3, "what has arrived counts");
    }

    #[test]
    fn mos_has_the_values_of_the_formula() {
        // 100 ms without loss: R = 91.8.
        assert!((mos(100.0, 0.0) - 4.38).abs() < 0.01, "{}", mos(100.0, 0.0));
        assert!((mos(150.0, 0.02) - 4.12).abs() < 0.01, "{}", mos(150.0, 0.02));
        assert!((0..100).all(|percent| mos(300.0, f64::from(percent) / 100.0) >= 1.0));
        assert!((mos(400.0, 0.1) - 1.72).abs() < 0.01 && (mos(2_000.0, 1.0) - 1.0).abs() < 1e-9);
    }
}
