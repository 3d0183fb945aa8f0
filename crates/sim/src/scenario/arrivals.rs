//! Random arrivals of flows: a Poisson process with a distribution of sizes, drawn from the scenario's seed.
//! The logarithm is our own, because a library's last bit differs between machines.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{NANOS_PER_SEC, Rng};
use serde::{Deserialize, Serialize};

use super::flow::FlowSpec;
use super::text::TextError;
use super::units::{TimeSpan, Volume};

/// Flows that arrive at random.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ArrivalSpec {
    /// Flow that each arrival starts, without count, start or size.
    pub flow: FlowSpec,
    /// Mean number of arrivals a second.
    pub rate: f64,
    /// Time of the first arrivals.
    #[serde(default)]
    pub from: TimeSpan,
    /// Time after which none arrives. Default: the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<TimeSpan>,
    /// Size of each transfer.
    pub size: SizeSpec,
}

/// A distribution of sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum SizeSpec {
    /// Always the same.
    Fixed(Volume),
    /// Each size in a range equally likely.
    Uniform {
        /// Smallest.
        min: Volume,
        /// Largest.
        max: Volume,
    },
    /// Exponential with this mean.
    Exponential {
        /// Mean.
        mean: Volume,
    },
    /// Log-normal.
    Lognormal {
        /// Median.
        median: Volume,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
    },
    /// Bounded Pareto.
    Pareto {
        /// Exponent of the tail.
        alpha: f64,
        /// Smallest.
        min: Volume,
        /// Largest.
        max: Volume,
    },
    /// Measured sizes with their weights.
    Empirical(Vec<(Volume, f64)>),
}

/// First part of the seed that is used for arrivals.
const STREAM: u64 = 0x6172_7269_7661_6c00;
/// Largest size of an object.
const SIZE_MAX: f64 = 1e15;

impl ArrivalSpec {
    /// Draws the arrivals of the process `index` before `end`, as (nanoseconds, bytes); at most `limit`.
    pub fn draw(&self, seed: u64, index: u64, end: TimeSpan, limit: u64) -> Result<Vec<(u64, u64)>, TextError> {
        self.check()?;
        let mut rng = Rng::derive(seed, STREAM + index);
        let until = self.until.unwrap_or(end).min(end);
        let mut now = self.from.as_secs();
        let mut arrivals = Vec::new();
        loop {
            now -= ln(uniform(&mut rng)) / self.rate;
            let nanos = now * NANOS_PER_SEC as f64;
            if nanos >= until.0 as f64 {
                return Ok(arrivals);
            }
            if arrivals.len() as u64 == limit {
                return Err(TextError(format!(
                    "rate: {} a second makes more than {limit} flows; lower rate or until",
                    self.rate
                )));
            }
            arrivals.push((nanos as u64, self.size.draw(&mut rng)));
        }
    }

    fn check(&self) -> Result<(), TextError> {
        if !(self.rate > 0.0 && self.rate <= 1e9) {
            return Err(TextError(format!(
                "rate: {} is not a rate of arrivals; write a number a second above 0",
                self.rate
            )));
        }
        let flow = &self.flow;
        if flow.count != 1 || flow.start.0 != 0 || flow.step.0 != 0 || flow.options.size.is_some() {
            return Err(TextError(format!(
                "flow: \"{flow}\" sets count, start or size, which arrivals set themselves; leave them out"
            )));
        }
        if flow.options.on.is_some() || flow.options.rate.is_some() || flow.options.request.is_some() {
            return Err(TextError(format!(
                "flow: \"{flow}\" sets what to send, but arrivals have a size of their own; leave it out"
            )));
        }
        self.size.check()
    }
}

impl SizeSpec {
    fn check(&self) -> Result<(), TextError> {
        let sound = match self {
            Self::Fixed(_) | Self::Exponential { .. } => true,
            Self::Uniform { min, max } => min <= max,
            Self::Lognormal { sigma, .. } => (0.0..=10.0).contains(sigma),
            Self::Pareto { alpha, min, max } => (0.01..=100.0).contains(alpha) && min < max,
            Self::Empirical(sizes) => {
                sizes.iter().all(|(_, weight)| *weight >= 0.0 && *weight < 1e12)
                    && sizes.iter().map(|(_, weight)| weight).sum::<f64>() > 0.0
            }
        };
        if sound {
            return Ok(());
        }
        Err(TextError(
            "size: out of range; write min below max, alpha 0.01 to 100, sigma 0 to 10, weights from 0 up, not all 0"
                .to_owned(),
        ))
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        let bytes = match self {
            Self::Fixed(size) => return size.0,
            Self::Uniform { min, max } => return min.0 + rng.below(max.0 - min.0 + 1),
            Self::Exponential { mean } => -(mean.0 as f64) * ln(uniform(rng)),
            Self::Lognormal { median, sigma } => median.0 as f64 * exp(sigma * normal(rng)),
            Self::Pareto { alpha, min, max } => {
                // Inverse of the bounded distribution function: u = 1 gives min, u towards 0 gives max.
                let (min, ratio) = (min.0 as f64, exp(alpha * ln(min.0 as f64 / max.0 as f64)));
                let u = uniform(rng);
                min * exp(-ln(u + (1.0 - u) * ratio) / alpha)
            }
            Self::Empirical(sizes) => {
                let total: f64 = sizes.iter().map(|(_, weight)| weight).sum();
                let mut rest = uniform(rng) * total;
                for (size, weight) in sizes {
                    rest -= weight;
                    if rest <= 0.0 && *weight > 0.0 {
                        return size.0;
                    }
                }
                sizes.last().map_or(1.0, |(size, _)| size.0 as f64)
            }
        };
        bytes.clamp(1.0, SIZE_MAX) as u64
    }
}

/// Draws a uniform number in (0, 1] with 53 bits.
pub fn uniform(rng: &mut Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// Draws a standard normal number by Marsaglia's polar method, which needs no sine.
pub fn normal(rng: &mut Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * uniform(rng) - 1.0, 2.0 * uniform(rng) - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * ln(square) / square).sqrt();
        }
    }
}

/// Natural logarithm of a positive normal number. It uses +, −, × and ÷ alone, so that every machine computes the same bits.
pub fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1023;
    let mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    // ln m = 2 artanh((m−1)/(m+1)); m lies in 1..2, so the series' argument stays below 1/3.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let (mut term, mut sum) = (z, z);
    for k in 1..20 {
        term *= z * z;
        sum += term / f64::from(2 * k + 1);
    }
    f64::from(exponent) * std::f64::consts::LN_2 + 2.0 * sum
}

/// Exponential function by +, −, × and ÷ alone; 0 and infinity beyond the range of f64.
pub fn exp(x: f64) -> f64 {
    let halvings = (x / std::f64::consts::LN_2).round().clamp(-1000.0, 1000.0);
    let rest = x - halvings * std::f64::consts::LN_2;
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..20 {
        term *= rest / f64::from(k);
        sum += term;
    }
    sum * f64::from_bits(((halvings as i64 + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(size: SizeSpec) -> ArrivalSpec {
        ArrivalSpec { flow: FlowSpec::of("cubic").unwrap(), rate: 100.0, from: TimeSpan(0), until: None, size }
    }

    fn mean(size: SizeSpec) -> f64 {
        let drawn = process(size).draw(1, 0, TimeSpan::secs(1000), 1_000_000).unwrap();
        drawn.iter().map(|(_, bytes)| *bytes as f64).sum::<f64>() / drawn.len() as f64
    }

    #[test]
    fn our_logarithm_and_exponential_agree_with_the_library_to_a_part_in_1e13() {
        for x in [1e-16, 0.001, 0.5, 1.0, 1.5, 2.0, 1e3, 1e15] {
            assert!((ln(x) - x.ln()).abs() <= 1e-13 * (1.0 + x.ln().abs()), "ln {x}");
        }
        for x in [-30.0, -1.0, -0.1, 0.0, 0.3, 1.0, 34.0] {
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-13, "exp {x}");
        }
    }

    #[test]
    fn arrivals_come_at_their_rate_and_repeat_with_their_seed() {
        let spec = process(SizeSpec::Fixed(Volume(10)));
        let first = spec.draw(7, 0, TimeSpan::secs(100), 1_000_000).unwrap();
        assert!((9_500..10_500).contains(&first.len()), "{}", first.len());
        assert_eq!(first, spec.draw(7, 0, TimeSpan::secs(100), 1_000_000).unwrap());
        assert_ne!(first, spec.draw(8, 0, TimeSpan::secs(100), 1_000_000).unwrap());
        assert!(first.is_sorted());
    }

    #[test]
    fn sizes_have_the_mean_of_their_distribution() {
        let near = |got: f64, want: f64| assert!((got / want - 1.0).abs() < 0.03, "{got} instead of {want}");
        near(mean(SizeSpec::Exponential { mean: Volume(100_000) }), 100_000.0);
        near(mean(SizeSpec::Uniform { min: Volume(1_000), max: Volume(3_000) }), 2_000.0);
        near(mean(SizeSpec::Lognormal { median: Volume(10_000), sigma: 1.0 }), 10_000.0 * 0.5_f64.exp());
        // Mean of a Pareto with exponent 2, bounded to 1000..100000: 2·L·(1−L/H)/(1−(L/H)²).
        near(mean(SizeSpec::Pareto { alpha: 2.0, min: Volume(1_000), max: Volume(100_000) }), 2_000.0 * 0.99 / 0.9999);
        near(mean(SizeSpec::Empirical(vec![(Volume(10), 1.0), (Volume(40), 2.0)])), 30.0);
    }

    #[test]
    fn an_absurd_rate_of_arrivals_is_refused() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let spec = ArrivalSpec { rate, ..process(SizeSpec::Fixed(Volume(1))) };
            assert!(spec.draw(1, 0, TimeSpan::secs(1), 10).is_err());
        }
        assert!(process(SizeSpec::Fixed(Volume(1))).draw(1, 0, TimeSpan::secs(10), 10).is_err());
    }
}
