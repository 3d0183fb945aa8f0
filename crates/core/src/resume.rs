//! Careful resume: a flow that knows its path from an earlier connection need not discover it from ten packets.
//! Spec: draft-ietf-tsvwg-careful-resume. The algorithm itself is untouched: window and rate are raised for one flight, whose delivery
//! then shows its model what the path carries.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::host::RememberedPath;
use crate::units::{Rate, Span};

/// How far resuming has come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Resume {
    None,
    /// Until the first RTT says whether this is the same path.
    Remembered(RememberedPath),
    /// Window and rate are at least so high until this volume is delivered: the flight before the jump, and one of it.
    Jumped {
        cwnd_bytes: u64,
        rate: Rate,
        until: u64,
    },
}

impl Resume {
    /// The first RTT is known; `until` is what will have been delivered when all that is in flight is.
    pub(crate) fn begin(path: RememberedPath, rtt: Span, until: u64, counts_bytes: bool, mss: u32) -> Self {
        let (now, then) = (rtt.as_micros(), path.min_rtt.as_micros());
        // spec: draft-ietf-tsvwg-careful-resume, Reconnaissance: another RTT is another path
        if now < then / 2 || now > then.saturating_mul(10) || then == 0 {
            return Self::None;
        }
        // Half of what was known to fit: another flow may have taken its place.
        let cwnd_bytes = path.bw.bytes_in(path.min_rtt) / 2;
        let rate = Rate::bits_per_sec(path.bw.as_bits_per_sec() / 2);
        let volume = if counts_bytes { cwnd_bytes } else { cwnd_bytes / u64::from(mss.max(1)) };
        Self::Jumped { cwnd_bytes, rate, until: until.saturating_add(volume) }
    }

    /// The jump was validated, or it was too far.
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
