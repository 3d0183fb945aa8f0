//! Careful resume: uses the path's properties from an earlier connection, instead of starting from ten packets.
//! Spec: draft-ietf-tsvwg-careful-resume. The algorithm itself is unchanged: window and rate are raised for one flight, whose
//! delivery then shows its model the capacity of the path.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::host::RememberedPath;
use crate::units::{Rate, Span};

/// Progress of the resumption.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resume {
    None,
    /// Waits for the first RTT, which shows if this is the same path.
    Remembered(RememberedPath),
    /// Window and rate stay at least this high until `until` is delivered: the flight before the jump, and one of the jump.
    Jumped {
        cwnd_bytes: u64,
        rate: Rate,
        until: u64,
    },
}

impl Resume {
    /// Starts the jump after the first RTT; `until` is the delivered count once everything in flight is delivered.
    pub(crate) fn begin(path: RememberedPath, rtt: Span, until: u64, counts_bytes: bool, mss: u32) -> Self {
        let (now, then) = (rtt.as_micros(), path.min_rtt.as_micros());
        // spec: draft-ietf-tsvwg-careful-resume, Reconnaissance: another RTT is another path
        if now < then / 2 || now > then.saturating_mul(10) || then == 0 {
            return Self::None;
        }
        // Half of the remembered window: another flow may now use the rest.
        let cwnd_bytes = path.bw.bytes_in(path.min_rtt) / 2;
        let rate = Rate::bits_per_sec(path.bw.as_bits_per_sec() / 2);
        let volume = if counts_bytes { cwnd_bytes } else { cwnd_bytes / u64::from(mss.max(1)) };
        Self::Jumped { cwnd_bytes, rate, until: until.saturating_add(volume) }
    }

    /// Ends the jump, whether validated or too far.
    #[inline]
    pub(crate) fn end(&mut self) {
        if let Self::Jumped { .. } = self {
            *self = Self::None;
        }
    }

    pub(crate) fn on_delivered(&mut self, delivered: u64) {
        match self {
            Self::Jumped { until, .. } if delivered >= *until => *self = Self::None,
            _ => {}
        }
    }
}
