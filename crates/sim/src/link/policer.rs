//! The token-bucket policer: packets that exceed the available tokens are dropped, none ever waits.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{NANOS_PER_SEC, Time};

use super::config::Policer;

/// Tokens per byte: a token is the amount that a rate of 1 bit/s adds in a nanosecond.
const TOKENS_PER_BYTE: u128 = 8 * NANOS_PER_SEC as u128;

/// A bucket with its current tokens.
#[derive(Clone, Debug)]
pub(super) struct TokenBucket {
    rate_bps: u128,
    depth: u128,
    tokens: u128,
    filled_at: Time,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub fn new(policer: Policer) -> Self {
        let depth = u128::from(policer.burst) * TOKENS_PER_BYTE;
        Self { rate_bps: policer.rate.as_bits_per_sec().into(), depth, tokens: depth, filled_at: Time::ZERO }
    }

    /// Admits a packet and removes its tokens, or returns false.
    pub fn admit(&mut self, now: Time, wire_bytes: u32) -> bool {
        let earned = self.rate_bps * u128::from(now.since(self.filled_at).as_nanos());
        self.tokens = self.depth.min(self.tokens + earned);
        self.filled_at = now;
        let price = u128::from(wire_bytes) * TOKENS_PER_BYTE;
        if self.tokens < price {
            return false;
        }
        self.tokens -= price;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bbrlab_core::{Rate, Span};

    fn bucket() -> TokenBucket {
        TokenBucket::new(Policer { rate: Rate::bits_per_sec(10_000_000), burst: 125_000 })
    }

    #[test]
    fn a_full_bucket_passes_exactly_its_burst_at_once() {
        let mut bucket = bucket();
        let passed = (0..1000).filter(|_| bucket.admit(Time::ZERO, 1000)).count();
        assert_eq!(passed, 125);
    }

    #[test]
    fn overload_passes_the_rate_plus_one_burst() {
        let mut bucket = bucket();
        let mut bytes = 0_u64;
        // 100 Mbit/s offered for 10 s.
        for i in 0..125_000_u64 {
            if bucket.admit(Time::nanos(i * 80_000), 1000) {
                bytes += 1000;
            }
        }
        let allowed = 125_000 + 12_500_000;
        assert!(bytes <= allowed && bytes + 1000 > allowed - 1000, "{bytes} of {allowed}");
    }

    #[test]
    fn an_idle_bucket_holds_no_more_than_its_depth() {
        let mut bucket = bucket();
        let later = Time::ZERO + Span::secs(3600);
        let passed = (0..1000).filter(|_| bucket.admit(later, 1000)).count();
        assert_eq!(passed, 125);
    }

    #[test]
    fn tokens_return_exactly_at_the_rate() {
        let mut bucket = bucket();
        while bucket.admit(Time::ZERO, 1000) {}
        assert!(!bucket.admit(Time::nanos(799_999), 1000));
        assert!(bucket.admit(Time::nanos(800_000), 1000));
    }
}
