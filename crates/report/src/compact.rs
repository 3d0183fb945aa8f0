//! Compact series for a page: thinned if there are more values than pixels, and encoded as briefly as possible. A
//! thinned line keeps the extremes of each bucket.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;

use bbrlab_stats::number::round_to;
use serde_json::{Value, json};

/// Maximum values of a column that is written as plain JSON numbers. Ours: readable in the source, no longer than
/// base64.
const PLAIN_MAX: usize = 48;

/// Maximum grid steps of a thinned column's shortest gap. Ours.
const SHORTEST_GAP_MAX: u32 = 6;

/// Columns of a page, without duplicates.
#[derive(Default)]
pub struct ColumnPool {
    arrays: Vec<Value>,
    seen: BTreeMap<String, usize>,
}

impl ColumnPool {
    /// Adds a column and returns its number.
    pub fn add(&mut self, values: &[f64]) -> usize {
        let encoded = encode(values);
        self.insert(encoded)
    }

    /// Adds values that are drawn on a linear axis: a 65,534th of their range is far below a pixel.
    pub fn add_drawn(&mut self, values: &[f64]) -> usize {
        let encoded = encode_drawn(values);
        self.insert(encoded)
    }

    /// Adds the values of `all` listed in `kept` (ascending), as steps on a grid if `all` is one.
    pub fn add_kept(&mut self, all: &[f64], kept: &[usize]) -> usize {
        let encoded = encode_kept(all, kept);
        self.insert(encoded)
    }

    /// All columns, by number.
    pub fn into_values(self) -> Vec<Value> {
        self.arrays
    }

    fn insert(&mut self, encoded: Value) -> usize {
        let next = self.arrays.len();
        let index = *self.seen.entry(encoded.to_string()).or_insert(next);
        if index == next {
            self.arrays.push(encoded);
        }
        index
    }
}

/// Selects at most about `cap` values of a line to keep: each bucket's minimum and maximum, and both ends.
pub fn thin(y: &[f64], cap: usize) -> Vec<usize> {
    if y.len() <= cap {
        return (0..y.len()).collect();
    }
    let buckets = (cap / 2).max(1);
    let mut kept = vec![0];
    for bucket in 0..buckets {
        let (from, to) = (bucket * y.len() / buckets, (bucket + 1) * y.len() / buckets);
        keep_extremes(y, from, to, &mut kept);
    }
    kept.push(y.len() - 1);
    kept.dedup();
    kept
}

/// Adds the bucket's minimum and maximum in their order; a bucket that consists of gaps keeps one gap.
fn keep_extremes(y: &[f64], from: usize, to: usize, kept: &mut Vec<usize>) {
    let mut extremes: Option<(usize, usize)> = None;
    for i in (from..to).filter(|&i| !y[i].is_nan()) {
        let (low, high) = extremes.unwrap_or((i, i));
        extremes = Some((if y[i] < y[low] { i } else { low }, if y[i] > y[high] { i } else { high }));
    }
    let (low, high) = extremes.unwrap_or((from, from));
    for i in [low.min(high), low.max(high)] {
        if kept.last().is_none_or(|&last| last < i) {
            kept.push(i);
        }
    }
}

/// Returns the largest cap on the values per series that keeps the total within `budget`.
pub fn fair_cap(lengths: &[usize], max: usize, min: usize, budget: usize) -> usize {
    let total = |cap: usize| lengths.iter().map(|&n| n.min(cap)).sum::<usize>();
    let (mut low, mut high) = (min, max.max(min));
    while low < high {
        let middle = (low + high).div_ceil(2);
        if total(middle) <= budget { low = middle } else { high = middle - 1 }
    }
    low
}

/// Returns start and step if the values form an even grid.
fn grid(values: &[f64]) -> Option<(f64, f64)> {
    let (first, last) = (*values.first()?, *values.last()?);
    let step = round_to((last - first) / (values.len().checked_sub(1)?) as f64, 12);
    if values.len() < 8 || step.is_nan() || step <= 0.0 {
        return None;
    }
    let even = values.iter().enumerate().all(|(i, v)| (v - (first + i as f64 * step)).abs() < 1e-3 * step);
    even.then_some((round_to(first, 12), step))
}

fn encode(values: &[f64]) -> Value {
    if let Some((first, step)) = grid(values) {
        return json!({ "g": [first, step, values.len()] });
    }
    if values.len() <= PLAIN_MAX {
        return values.iter().map(|&v| json!(round_to(v, 6))).collect();
    }
    if let Some((step, ahead)) = steps(values) {
        return encode_steps(round_to(values[0], 12), step, &ahead);
    }
    if needs_f64(values) {
        return json!({ "d": base64(values.iter().flat_map(|v| v.to_le_bytes())) });
    }
    json!({ "f": base64(values.iter().flat_map(|&v| (v as f32).to_le_bytes())) })
}

/// Encodes a value in sixteen bits, from the minimum (0) to the maximum (65,534); 65,535 is a gap.
fn encode_drawn(values: &[f64]) -> Value {
    let finite = values.iter().copied().filter(|v| v.is_finite());
    let (low, high) = finite.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
    if values.len() <= PLAIN_MAX || low > high || grid(values).is_some() {
        return encode(values);
    }
    let (low, high) = (round_to(low, 9), round_to(high, 9));
    let level = |v: f64| match v.is_finite() {
        true if high > low => ((v - low) / (high - low) * 65_534.0).round().clamp(0.0, 65_534.0) as u16,
        true => 0,
        false => u16::MAX,
    };
    json!({ "q": [low, high, base64(values.iter().flat_map(|&v| level(v).to_le_bytes()))] })
}

fn encode_kept(all: &[f64], kept: &[usize]) -> Value {
    let picked: Vec<f64> = kept.iter().map(|&i| all[i]).collect();
    let Some((first, step)) = grid(all).filter(|_| kept.len() < all.len()) else { return encode(&picked) };
    let steps = kept.iter().scan(0, |before, &i| {
        let ahead = i - *before;
        *before = i;
        Some(u16::try_from(ahead))
    });
    match steps.collect::<Result<Vec<u16>, _>>() {
        Ok(steps) => encode_steps(first, step, &steps),
        Err(_) => encode(&picked), // a gap of 65,536 grid points or more: rare, and only takes more space
    }
}

/// Encodes the steps between values in the smallest number of bytes that holds the longest.
fn encode_steps(first: f64, step: f64, ahead: &[u16]) -> Value {
    match ahead.iter().map(|&steps| u8::try_from(steps)).collect::<Result<Vec<u8>, _>>() {
        Ok(short) => json!({ "b": [first, step, base64(short.into_iter())] }),
        Err(_) => json!({ "u": [first, step, base64(ahead.iter().flat_map(|steps| steps.to_le_bytes()))] }),
    }
}

/// Returns the step of a grid that contains all values, though some of its points are left out. Each value comes with
/// its distance in steps from the previous one.
fn steps(values: &[f64]) -> Option<(f64, Vec<u16>)> {
    let gaps: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let shortest = gaps.iter().copied().filter(|gap| *gap > 0.0).fold(f64::MAX, f64::min);
    if shortest == f64::MAX || gaps.iter().any(|gap| gap.is_nan() || *gap < 0.0) {
        return None;
    }
    (1..=SHORTEST_GAP_MAX).find_map(|parts| {
        let step = shortest / f64::from(parts);
        let ahead = |gap: &f64| {
            let steps = (gap / step).round();
            let is_on = (gap / step - steps).abs() < 1e-3 && steps <= f64::from(u16::MAX);
            is_on.then_some(steps as u16)
        };
        let ahead: Vec<u16> = gaps.iter().map(ahead).collect::<Option<_>>()?;
        let total: u64 = ahead.iter().copied().map(u64::from).sum();
        let even = (values[values.len() - 1] - values[0]) / total as f64;
        Some((round_to(even, 12), std::iter::once(0).chain(ahead).collect()))
    })
}

/// Returns true if 24 bits would merge neighbours: a short range far from zero.
fn needs_f64(values: &[f64]) -> bool {
    let finite = values.iter().filter(|v| v.is_finite());
    let (low, high) = finite.fold((f64::MAX, f64::MIN), |(low, high), &v| (low.min(v), high.max(v)));
    let largest = low.abs().max(high.abs());
    low < high && (largest > 64.0 * (high - low) || largest > f64::from(f32::MAX))
}

/// RFC 4648 base64 with padding.
fn base64(bytes: impl Iterator<Item = u8>) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = bytes.collect();
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_agrees_with_the_vectors_of_rfc_4648() {
        let text = |s: &str| base64(s.bytes());
        assert_eq!(["", "f", "fo", "foo", "foobar"].map(text), ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYmFy"]);
    }

    #[test]
    fn a_thinned_line_keeps_its_highest_and_lowest_value_and_both_ends() {
        let mut y: Vec<f64> = (0..100_000).map(|i| f64::from(i % 7)).collect();
        (y[33_333], y[77_777]) = (99.0, -99.0);
        let kept = thin(&y, 1000);
        assert!(kept.len() <= 1002 && kept.windows(2).all(|w| w[0] < w[1]));
        for index in [0, 33_333, 77_777, 99_999] {
            assert!(kept.contains(&index), "{index}");
        }
    }

    #[test]
    fn a_gap_that_fills_a_bucket_stays_a_gap() {
        let y: Vec<f64> = (0..1000).map(|i| if (300..600).contains(&i) { f64::NAN } else { 1.0 }).collect();
        assert!(thin(&y, 100).iter().any(|&i| y[i].is_nan()));
    }

    #[test]
    fn an_even_grid_is_written_as_start_step_and_count() {
        let x: Vec<f64> = (0..600).map(|i| f64::from(i) * 0.1).collect();
        assert_eq!(encode(&x).to_string(), r#"{"g":[0.0,0.1,600]}"#);
    }

    #[test]
    fn drawn_values_take_two_bytes_each_and_keep_their_gaps() {
        let mut y: Vec<f64> = (0..100).map(|i| f64::from(i * i)).collect();
        y[50] = f64::NAN;
        let encoded = encode_drawn(&y);
        assert_eq!((&encoded["q"][0], &encoded["q"][1]), (&json!(0.0), &json!(9801.0)));
        let text = encoded["q"][2].as_str().unwrap();
        assert_eq!(text.len(), 268); // 200 bytes
        assert!(text.ends_with("/v8=") && text.starts_with("AAAH")); // 65,534 last; 0 and 7 first
    }

    #[test]
    fn a_grid_with_points_left_out_takes_a_byte_a_value() {
        let x: Vec<f64> = (0..100_u32).map(|i| f64::from(i * 5 + 2 * (i % 2)) * 0.01).collect();
        let encoded = encode(&x);
        assert_eq!((&encoded["b"][0], &encoded["b"][1]), (&json!(0.0), &json!(0.01)));
        assert!(encoded["b"][2].as_str().unwrap().starts_with("AAcD")); // 0, then 7 and 3 in turn
        let uneven: Vec<f64> = (0..100_u32).map(|i| f64::from(i).sqrt()).collect();
        assert!(encode(&uneven)["f"].is_string());
    }

    #[test]
    fn equal_columns_are_written_once() {
        let mut pool = ColumnPool::default();
        assert_eq!((pool.add(&[1.0, 5.0]), pool.add(&[2.0, 5.0]), pool.add(&[1.0, 5.0])), (0, 1, 0));
        assert_eq!(pool.into_values().len(), 2);
    }

    #[test]
    fn the_cap_is_the_largest_that_keeps_within_the_budget() {
        assert_eq!(fair_cap(&[10, 5000, 5000], 4000, 200, 2010), 1000);
        assert_eq!(fair_cap(&[10, 500], 4000, 200, 2010), 4000);
        assert_eq!(fair_cap(&[5000; 1000], 4000, 200, 2010), 200);
    }

    #[test]
    fn values_in_a_narrow_range_far_from_zero_keep_all_their_bits() {
        assert!(needs_f64(&[1e6, 1e6 + 0.5]));
        assert!(!needs_f64(&[0.0, 60.0]));
    }
}
