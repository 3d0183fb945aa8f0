//! Products of two 64-bit numbers beyond 64 bits, from 32-bit halves: BPF has no wider multiplication, not even to detect an overflow.
//! LLVM turns `u128`, and on BPF also `u64::saturating_mul` and `u64::checked_mul`, into a call of `__multi3`.
//! One code path for every machine; where a factor is known to have 32 bits, or to be a constant, most of it folds away.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/// The low half of 64 bits.
const LOW: u64 = u32::MAX as u64;

/// All 128 bits of a product: high, low.
#[inline]
pub(crate) const fn mul(a: u64, b: u64) -> (u64, u64) {
    let (a_high, a_low, b_high, b_low) = (a >> 32, a & LOW, b >> 32, b & LOW);
    let (low, cross, other) = (a_low * b_low, a_low * b_high, a_high * b_low);
    let middle = (low >> 32) + (cross & LOW) + (other & LOW);
    // The carry of `middle`, found from its remaining bits: from the usual shift LLVM would recognise the idiom, and turn all this
    // into the very multiplication that BPF lacks.
    let product = a.wrapping_mul(b);
    let carry = (middle - (product >> 32)) >> 32;
    (a_high * b_high + (cross >> 32) + (other >> 32) + carry, product)
}

/// Returns a product if it fits 64 bits.
#[inline]
pub(crate) const fn checked_mul(a: u64, b: u64) -> Option<u64> {
    if (a | b) >> 32 == 0 {
        return Some(a * b);
    }
    let (a_high, a_low, b_high, b_low) = (a >> 32, a & LOW, b >> 32, b & LOW);
    if a_high != 0 && b_high != 0 {
        return None;
    }
    // One of the two is 0, so the sum has 64 bits.
    let cross = a_high * b_low + a_low * b_high;
    let low = a_low * b_low;
    let high = cross + (low >> 32);
    if high >> 32 != 0 { None } else { Some(high << 32 | low & LOW) }
}

/// Returns a product, or the largest number if it does not fit 64 bits.
#[inline]
pub(crate) const fn saturating_mul(a: u64, b: u64) -> u64 {
    match checked_mul(a, b) {
        Some(product) => product,
        None => u64::MAX,
    }
}

/// `a` · `FACTOR`, or the largest number: one comparison.
#[inline]
pub(crate) const fn times<const FACTOR: u64>(a: u64) -> u64 {
    if a > u64::MAX / FACTOR { u64::MAX } else { a * FACTOR }
}

/// `a` · `b` / 2^`shift`, rounded down, saturating; `shift` is 1 to 63.
#[inline]
pub(crate) const fn mul_shr(a: u64, b: u64, shift: u32) -> u64 {
    if (a | b) >> 32 == 0 {
        return (a * b) >> shift; // a tenth of the work, for most paths
    }
    let (high, low) = mul(a, b);
    shr((high, low), shift)
}

/// 128 bits, high and low, divided by 2^`shift`, rounded down, saturating; `shift` is 1 to 63.
#[inline]
pub(crate) const fn shr((high, low): (u64, u64), shift: u32) -> u64 {
    if high >> shift != 0 { u64::MAX } else { high << (64 - shift) | low >> shift }
}

/// The sum of two such numbers, which must fit.
#[cfg(any(feature = "variants", test))]
#[inline]
pub(crate) const fn add(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    let low = a.1.wrapping_add(b.1);
    (a.0 + b.0 + (low < a.1) as u64, low)
}

/// Difference of two such numbers, or zero if it would be negative.
#[cfg(any(feature = "variants", test))]
#[inline]
pub(crate) const fn sub(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    let borrow = (a.1 < b.1) as u64;
    if a.0 < b.0 || (a.0 == b.0 && borrow == 1) {
        return (0, 0);
    }
    (a.0 - b.0 - borrow, a.1.wrapping_sub(b.1))
}

/// `a` · `b` / `divisor`, rounded down, saturating; a divisor of 0 counts as 1.
#[inline]
pub(crate) const fn mul_div(a: u64, b: u64, divisor: u64) -> u64 {
    match checked_mul(a, b) {
        Some(product) => product / at_least_1(divisor),
        None => div(mul(a, b), divisor).0,
    }
}

/// `a` · `b` / `divisor`, rounded up, saturating; a divisor of 0 counts as 1.
#[inline]
pub(crate) const fn mul_div_ceil(a: u64, b: u64, divisor: u64) -> u64 {
    match checked_mul(a, b) {
        Some(product) => product.div_ceil(at_least_1(divisor)),
        None => {
            let (quotient, has_rest) = div(mul(a, b), divisor);
            quotient.saturating_add(has_rest as u64)
        }
    }
}

const fn at_least_1(divisor: u64) -> u64 {
    if divisor == 0 { 1 } else { divisor }
}

/// Divides 128 bits by 64 bits, saturating; true if there is a remainder. Two digits of 32 bits by hand (Knuth, TAOCP
/// 2, 4.3.1, algorithm D).
#[inline]
const fn div((high, low): (u64, u64), divisor: u64) -> (u64, bool) {
    let divisor = at_least_1(divisor);
    if high >= divisor {
        return (u64::MAX, false);
    }
    // With its highest bit set, a divisor's first digit estimates each digit of the quotient to within two.
    let shift = divisor.leading_zeros();
    let divisor = divisor << shift;
    let top = if shift == 0 { high } else { high << shift | low >> (64 - shift) };
    let low = low << shift;
    let (first, rest) = digit(top, low >> 32, divisor);
    let (second, rest) = digit(rest, low & LOW, divisor);
    (first << 32 | second, rest != 0)
}

/// One digit of a quotient: (`top` · 2^32 + `next`) / `divisor`, and the remainder. `top` is below `divisor`.
#[inline]
const fn digit(top: u64, next: u64, divisor: u64) -> (u64, u64) {
    let (first, second) = (at_least_1(divisor >> 32), divisor & LOW);
    let (mut quotient, mut rest) = (top / first, top % first);
    let mut round = 0;
    while round < 2 {
        if rest <= LOW && (quotient > LOW || quotient * second > (rest << 32 | next)) {
            quotient -= 1;
            rest += first;
        }
        round += 1;
    }
    // Both are beyond 64 bits, but their difference is not.
    let left = (top << 32 | next).wrapping_sub(quotient.wrapping_mul(divisor));
    (quotient, left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    /// Numbers of every length, including the ends of each range.
    fn number(rng: &mut Rng) -> u64 {
        let bits = rng.below(65) as u32;
        let max = if bits == 0 { 0 } else { u64::MAX >> (64 - bits) };
        match rng.below(4) {
            0 => max,
            1 => max / 2 + 1,
            _ => rng.next_u64() & max,
        }
    }

    fn narrow(value: u128) -> u64 {
        u64::try_from(value).unwrap_or(u64::MAX)
    }

    #[test]
    fn every_product_is_that_of_128_bits() {
        let mut rng = Rng::new(1);
        for _ in 0..200_000 {
            let (a, b) = (number(&mut rng), number(&mut rng));
            let exact = u128::from(a) * u128::from(b);
            assert_eq!(mul(a, b), ((exact >> 64) as u64, exact as u64), "{a} {b}");
            assert_eq!(checked_mul(a, b), a.checked_mul(b), "{a} {b}");
            assert_eq!(saturating_mul(a, b), a.saturating_mul(b), "{a} {b}");
            assert_eq!(
                (times::<1_000>(a), times::<{ 1 << 24 }>(a)),
                (a.saturating_mul(1_000), a.saturating_mul(1 << 24))
            );
            let shift = 1 + rng.below(63) as u32;
            assert_eq!(mul_shr(a, b, shift), narrow(exact >> shift), "{a} {b} {shift}");
        }
    }

    #[test]
    fn sums_and_differences_are_those_of_128_bits() {
        let mut rng = Rng::new(3);
        let split = |value: u128| ((value >> 64) as u64, value as u64);
        for _ in 0..100_000 {
            let (a, b) = ((number(&mut rng) >> 1, number(&mut rng)), (number(&mut rng) >> 1, number(&mut rng)));
            let [x, y] = [a, b].map(|(high, low)| u128::from(high) << 64 | u128::from(low));
            assert_eq!((add(a, b), sub(a, b)), (split(x + y), split(x.saturating_sub(y))));
        }
    }

    #[test]
    fn every_quotient_is_that_of_128_bits() {
        let mut rng = Rng::new(2);
        for _ in 0..200_000 {
            let (a, b, divisor) = (number(&mut rng), number(&mut rng), number(&mut rng));
            let (exact, by) = (u128::from(a) * u128::from(b), u128::from(divisor.max(1)));
            assert_eq!(mul_div(a, b, divisor), narrow(exact / by), "{a} {b} {divisor}");
            assert_eq!(mul_div_ceil(a, b, divisor), narrow(exact.div_ceil(by)), "{a} {b} {divisor}");
        }
    }

    /// The second correction of a digit is rare in random numbers.
    #[test]
    fn digits_whose_estimate_is_two_too_large_are_corrected_twice() {
        for divisor in [0x8000_0000_ffff_ffff_u64, 0xffff_ffff_0000_0001, 0x8000_0000_0000_0001, u64::MAX, 1 << 63] {
            for high in [0, 1, divisor / 2, divisor - 2, divisor - 1] {
                for low in [0, 1, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
                    let exact = u128::from(high) << 64 | u128::from(low);
                    let by = u128::from(divisor);
                    assert_eq!(
                        div((high, low), divisor),
                        ((exact / by) as u64, exact % by != 0),
                        "{high} {low} {divisor}"
                    );
                }
            }
        }
    }
}
