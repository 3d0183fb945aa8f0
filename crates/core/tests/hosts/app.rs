//! What the application has to send, and in packets of which size.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Rate, Rng, Span, Time};

/// When there is something to send.
#[derive(Clone, Copy, Debug)]
pub enum App {
    /// Always.
    Bulk,
    /// So much, every 10 ms.
    Limited(Rate),
    /// Always for `on`, then nothing for `off`, and so on.
    OnOff { on: Span, off: Span },
}

/// How large packets are.
#[derive(Clone, Copy, Debug)]
pub enum Sizes {
    Full,
    Of(u32),
    /// From 40 bytes to full ones.
    Mixed,
}

/// What may be sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Packet(u32),
    /// Nothing before this.
    Nothing(Time),
}

const TICK: Span = Span::millis(10);

impl App {
    /// `sent` bytes of it have left so far.
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
