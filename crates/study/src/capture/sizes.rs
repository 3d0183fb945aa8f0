//! Segment size of a connection without a handshake, from the sizes of frames and of the steps of ACKs.
//! Offloads merge segments into frames of several, so the largest frame is no segment.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/// Sizes counted at a time. Ours: 256 bytes.
const SIZES_MAX: usize = 16;
/// Smallest size that counts. Source: the minimum MTU of IPv4, 576 bytes, less headers.
const SIZE_MIN: u64 = 500;
/// Largest segment over Ethernet without jumbo frames. Source: 1500 bytes, less the headers of IPv4 and TCP.
const ETHERNET_MAX: u64 = 1460;
/// Segments over Ethernet: IPv4 and IPv6, without timestamps and with them.
const ETHERNET: [u64; 4] = [1460, 1448, 1440, 1428];
/// Largest payload of a frame on the wire without offload. Source: jumbo frames.
pub const MTU_MAX: u64 = 9000;
/// Smallest share of the sizes that are multiples of the segment, over jumbo frames and otherwise. Ours: an application's writes end
/// in shorter segments, and a segment size that is too large would multiply the losses.
const JUMBO_SHARE: f64 = 0.98;
const SHARE: f64 = 0.8;
/// The same for a size that was seen itself, beside larger frames. Ours.
const SEEN_SHARE: f64 = 0.3;
/// Interval between judgements, in sizes; the first ones are judged one by one. Ours.
const EVERY: u64 = 64;

/// The most frequent sizes, with their counts.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    counts: Vec<(u64, u64)>,
    seen: u64,
    segment: Option<u64>,
}

impl Sizes {
    /// Segment size, once the sizes show it.
    pub const fn segment(&self) -> Option<u64> {
        self.segment
    }

    /// Counts a size of one segment or several.
    pub fn add(&mut self, size: u64) {
        if size < SIZE_MIN {
            return;
        }
        self.seen += 1;
        if let Some(one) = self.counts.iter_mut().find(|one| one.0 == size) {
            one.1 += 1;
        } else if self.counts.len() < SIZES_MAX {
            self.counts.push((size, 1));
        } else {
            // Rare sizes make room: the algorithm of Misra and Gries (1982) for frequent ones.
            self.counts.iter_mut().for_each(|one| one.1 -= 1);
            self.counts.retain(|one| one.1 > 0);
        }
        if self.seen <= EVERY || self.seen.is_multiple_of(EVERY) {
            self.segment = self.judge();
        }
    }

    fn judge(&self) -> Option<u64> {
        let sizes = || self.counts.iter().map(|one| one.0);
        let total: u64 = self.counts.iter().map(|one| one.1).sum();
        let share = |segment: u64| {
            let multiples = self.counts.iter().filter(|one| one.0.is_multiple_of(segment));
            multiples.map(|one| one.1).sum::<u64>() as f64 / total.max(1) as f64
        };
        let largest = |of: &mut dyn Iterator<Item = u64>, least: f64| of.filter(|size| share(*size) >= least).max();
        let is_whole = |size: &u64| (SIZE_MIN..=ETHERNET_MAX).contains(size);
        let is_jumbo = |size: &u64| {
            (ETHERNET_MAX + 1..=MTU_MAX).contains(size) && !ETHERNET.iter().any(|own| size.is_multiple_of(*own))
        };
        let common = || sizes().flat_map(|a| sizes().map(move |b| gcd(a, b)));
        largest(&mut sizes().filter(is_jumbo), JUMBO_SHARE)
            .or_else(|| largest(&mut ETHERNET.into_iter(), SHARE))
            .or_else(|| largest(&mut common().filter(is_whole), SHARE))
            .or_else(|| largest(&mut sizes().chain(ETHERNET).filter(is_whole), SEEN_SHARE))
    }
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(sizes: &[u64], times: usize) -> Option<u64> {
        let mut own = Sizes::default();
        sizes.iter().cycle().take(sizes.len() * times).for_each(|&size| own.add(size));
        own.segment()
    }

    #[test]
    fn frames_of_several_segments_show_the_size_of_one() {
        assert_eq!(segment(&[5792, 5792, 5792, 2896, 1448], 40), Some(1448));
        assert_eq!(segment(&[2896, 4344], 40), Some(1448));
        // All frames alike, as bulk data over jumbo frames and as offload leaves them.
        assert_eq!(segment(&[8948], 40), Some(8948));
        assert_eq!(segment(&[5792], 40), Some(1448));
        assert_eq!(segment(&[1448, 1448, 1448, 700], 40), Some(1448));
        assert_eq!(segment(&[1228, 2456], 40), Some(1228));
    }

    #[test]
    fn sizes_without_a_common_one_show_none() {
        let mut own = Sizes::default();
        let mut rng = bbrlab_core::Rng::new(3);
        (0..500).for_each(|_| own.add(600 + rng.below(800)));
        assert!(own.segment().is_none() && own.counts.len() <= SIZES_MAX, "{own:?}");
        assert_eq!(segment(&[100, 200], 40), None);
    }
}
