//! The application: data to send, and packet sizes.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Rate, Rng, Span, Time};

/// Pattern of available data.
#[derive(Clone, Copy, Debug)]
pub enum App {
    /// Always data to send.
    Bulk,
    /// This rate, in portions every 10 ms.
    Limited(Rate),
    /// Always data for `on`, then none for `off`, and so on.
    OnOff { on: Span, off: Span },
}

/// Sizes of packets.
#[derive(Clone, Copy, Debug)]
pub enum Sizes {
    Full,
    Of(u32),
    /// From 40 bytes to full packets.
    Mixed,
}

/// Next permitted send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Packet(u32),
    /// Nothing before this time.
    Nothing(Time),
}

const TICK: Span = Span::millis(10);

impl App {
    /// Returns the next send, after `sent` bytes have left.
    pub fn next(&self, now: Time, sent: u64, size: u32) -> Next {
        match *self {
            Self::Bulk => Next::Packet(size),
            Self::Limited(rate) => {
                let ticks = now.as_nanos() / TICK.as_nanos() + 1;
                let written = rate.bytes_in(Span::nanos(ticks * TICK.as_nanos()));
                let left = written.saturating_sub(sent);
                match u32::try_from(left).unwrap_or(u32::MAX).min(size) {
                    0 => Next::Nothing(Time::nanos(ticks * TICK.as_nanos())),
                    size => Next::Packet(size),
                }
            }
            Self::OnOff { on, off } => {
                let period = on.as_nanos() + off.as_nanos();
                let begin = now.as_nanos() / period * period;
                if now.as_nanos() - begin < on.as_nanos() {
                    Next::Packet(size)
                } else {
                    Next::Nothing(Time::nanos(begin + period))
                }
            }
        }
    }
}

impl Sizes {
    pub fn draw(self, mss: u32, rng: &mut Rng) -> u32 {
        match self {
            Self::Full => mss,
            Self::Of(bytes) => bytes,
            Self::Mixed => 40 + u32::try_from(rng.below(u64::from(mss) - 39)).unwrap_or(0),
        }
    }
}
