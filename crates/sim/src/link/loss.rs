//! Random loss: independent, or in bursts (Gilbert and Elliott).
//! No random number is drawn where the probability is zero.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Rng;

use super::config::Loss;

/// Decides on the loss of each packet in a stream.
#[derive(Clone, Debug)]
pub struct LossModel {
    kind: LossKind,
    /// True while a Gilbert–Elliott channel is in its bad state.
    bad: bool,
    rng: Rng,
}

/// Probabilities as thresholds: an event happens if 64 uniform bits are below.
#[derive(Clone, Copy, Debug)]
enum LossKind {
    None,
    Bernoulli(u64),
    Every { n: u32, seen: u32 },
    GilbertElliott { to_bad: u64, to_good: u64, loss_bad: u64, loss_good: u64 },
}

/// Converts a probability to a threshold for 64 uniform bits. Values outside 0..=1 are clamped, and NaN counts as 0.
pub(super) fn threshold(probability: f64) -> u64 {
    // A float that is too large saturates in the cast; NaN becomes 0.
    (probability * 18_446_744_073_709_551_616.0) as u64
}

/// Decides whether an event with this threshold happens now. Certain and impossible events draw no random number.
pub(super) fn happens(threshold: u64, rng: &mut Rng) -> bool {
    threshold != 0 && (threshold == u64::MAX || rng.next_u64() < threshold)
}

impl LossModel {
    /// Creates a model whose verdicts depend on `seed` alone. Gilbert–Elliott starts in its good state.
    pub fn new(loss: Loss, seed: u64) -> Self {
        Self { kind: LossKind::of(loss), bad: false, rng: Rng::derive(seed, 0x1055) }
    }

    /// Changes the model; random numbers and state continue.
    pub fn set(&mut self, loss: Loss) {
        self.kind = LossKind::of(loss);
    }

    /// Loses each packet whose number is divisible by `n`, from the next packet on; 0 for none.
    pub fn set_every(&mut self, n: u32) {
        self.kind = if n == 0 { LossKind::None } else { LossKind::Every { n, seen: 0 } };
    }

    /// True if it can never lose a packet.
    pub fn is_none(&self) -> bool {
        matches!(self.kind, LossKind::None)
    }

    /// Decides on the loss of the next packet.
    #[inline]
    pub fn lose(&mut self) -> bool {
        match &mut self.kind {
            LossKind::None => false,
            &mut LossKind::Bernoulli(p) => happens(p, &mut self.rng),
            LossKind::Every { n, seen } => {
                *seen = (*seen + 1) % *n;
                *seen == 0
            }
            &mut LossKind::GilbertElliott { to_bad, to_good, loss_bad, loss_good } => {
                // In netem's order: the current state applies to this packet, then the state changes.
                let (loss, leave) = if self.bad { (loss_bad, to_good) } else { (loss_good, to_bad) };
                let lost = happens(loss, &mut self.rng);
                self.bad ^= happens(leave, &mut self.rng);
                lost
            }
        }
    }
}

impl LossKind {
    fn of(loss: Loss) -> Self {
        match loss {
            Loss::None => Self::None,
            Loss::Bernoulli(p) if threshold(p) == 0 => Self::None,
            Loss::Bernoulli(p) => Self::Bernoulli(threshold(p)),
            Loss::GilbertElliott { p, r, loss_bad, loss_good } => Self::GilbertElliott {
                to_bad: threshold(p),
                to_good: threshold(r),
                loss_bad: threshold(loss_bad),
                loss_good: threshold(loss_good),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: usize = 1_000_000;

    fn losses(loss: Loss, seed: u64) -> Vec<bool> {
        let mut model = LossModel::new(loss, seed);
        (0..N).map(|_| model.lose()).collect()
    }

    fn ratio(losses: &[bool]) -> f64 {
        losses.iter().filter(|&&lost| lost).count() as f64 / losses.len() as f64
    }

    #[test]
    fn bernoulli_loses_its_share_within_four_standard_deviations() {
        for p in [0.0001, 0.01, 0.25, 0.9] {
            let sigma = (p * (1.0 - p) / N as f64).sqrt();
            let got = ratio(&losses(Loss::Bernoulli(p), 3));
            assert!((got - p).abs() < 4.0 * sigma, "p {p}: got {got}");
        }
    }

    #[test]
    fn certain_loss_loses_all_and_impossible_loss_nothing() {
        assert_eq!(ratio(&losses(Loss::Bernoulli(1.0), 1)), 1.0);
        assert_eq!(ratio(&losses(Loss::Bernoulli(0.0), 1)), 0.0);
        assert_eq!(ratio(&losses(Loss::Bernoulli(f64::NAN), 1)), 0.0);
        assert_eq!(ratio(&losses(Loss::None, 1)), 0.0);
    }

    #[test]
    fn gilbert_elliott_loses_its_stationary_share() {
        let loss = Loss::GilbertElliott { p: 0.01, r: 0.2, loss_bad: 0.5, loss_good: 0.001 };
        let bad = 0.01 / 0.21;
        let expected = bad * 0.5 + (1.0 - bad) * 0.001;
        let got = ratio(&losses(loss, 5));
        assert!((got / expected - 1.0).abs() < 0.03, "expected {expected}, got {got}");
    }

    #[test]
    fn gilbert_elliott_bursts_last_one_over_r_packets_on_average() {
        let lost = losses(Loss::GilbertElliott { p: 0.005, r: 0.125, loss_bad: 1.0, loss_good: 0.0 }, 7);
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let mean = lost.iter().filter(|&&lost| lost).count() as f64 / bursts as f64;
        assert!((mean - 8.0).abs() < 0.5, "mean burst {mean}");
    }

    #[test]
    fn same_seed_loses_the_same_packets_and_another_seed_others() {
        let loss = Loss::Bernoulli(0.5);
        assert_eq!(losses(loss, 9), losses(loss, 9));
        assert_ne!(losses(loss, 9), losses(loss, 10));
    }

    #[test]
    fn every_nth_packet_is_lost_from_the_change_on() {
        let mut model = LossModel::new(Loss::None, 1);
        model.set_every(3);
        let lost: Vec<bool> = (0..7).map(|_| model.lose()).collect();
        assert_eq!(lost, [false, false, true, false, false, true, false]);
        model.set_every(0);
        assert!(model.is_none());
    }

    #[test]
    fn a_changed_probability_holds_from_the_next_packet() {
        let mut model = LossModel::new(Loss::None, 1);
        assert!(!model.lose());
        model.set(Loss::Bernoulli(1.0));
        assert!(model.lose());
    }
}
