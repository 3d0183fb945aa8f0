//! A quantity that varies between users: one value, or a distribution to draw from. Written as `"100mbit"` or `{
//! lognormal = { median = "100mbit", sigma = 0.5 } }`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use bbrlab_core::Rng;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use bbrlab_sim::scenario::arrivals::{exp, ln, normal, uniform};
use bbrlab_sim::scenario::{BitRate, BufferSize, Ratio, TextError, TimeSpan, Volume};

use crate::Result;

/// A value with a unit that can be drawn.
pub trait Quantity: Copy + fmt::Display + FromStr<Err = TextError> {
    fn number(self) -> f64;
    /// Returns the value with this number in the same unit, clamped to the unit's limits.
    fn with(self, number: f64) -> Self;
}

impl Quantity for BitRate {
    fn number(self) -> f64 {
        self.0 as f64
    }
    fn with(self, number: f64) -> Self {
        Self(number.clamp(1e3, 1e13) as u64)
    }
}

impl Quantity for TimeSpan {
    fn number(self) -> f64 {
        self.0 as f64
    }
    fn with(self, number: f64) -> Self {
        Self(number.clamp(0.0, 1e13) as u64)
    }
}

impl Quantity for Volume {
    fn number(self) -> f64 {
        self.0 as f64
    }
    fn with(self, number: f64) -> Self {
        Self(number.clamp(1.0, 1e15) as u64)
    }
}

impl Quantity for Ratio {
    fn number(self) -> f64 {
        self.0
    }
    fn with(self, number: f64) -> Self {
        Self(number.clamp(0.0, 1.0))
    }
}

impl Quantity for BufferSize {
    fn number(self) -> f64 {
        match self {
            Self::Packets(packets) => packets as f64,
            Self::Bytes(bytes) => bytes.number(),
            Self::Bdp(bdps) => bdps,
            Self::Drain(time) => time.number(),
        }
    }
    fn with(self, number: f64) -> Self {
        match self {
            Self::Packets(_) => Self::Packets(number.clamp(1.0, 1e9) as u64),
            Self::Bytes(bytes) => Self::Bytes(bytes.with(number)),
            Self::Bdp(_) => Self::Bdp(number.clamp(1e-6, 1e6)),
            Self::Drain(time) => Self::Drain(time.with(number)),
        }
    }
}

/// One value, or a distribution.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueSpec<T> {
    Always(T),
    /// Drawn for each user.
    Drawn(Distribution<T>),
}

/// A distribution, in the vocabulary of a scenario's arrivals.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Distribution<T> {
    /// Each value in the range is equally likely.
    Uniform { min: T, max: T },
    /// Exponential with this mean.
    Exponential { mean: T },
    Lognormal {
        median: T,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
    },
    Pareto {
        /// Exponent of the tail.
        alpha: f64,
        min: T,
        max: T,
    },
    /// Values with their weights.
    Empirical(Vec<(T, f64)>),
}

impl<T: Quantity> ValueSpec<T> {
    /// Checks the distribution; the error describes the first problem.
    pub fn check(&self, key: &str) -> Result<()> {
        let Self::Drawn(law) = self else { return Ok(()) };
        let sound = match law {
            Distribution::Uniform { min, max } => min.number() <= max.number() && same_unit(*min, *max),
            Distribution::Exponential { .. } => true,
            Distribution::Lognormal { sigma, .. } => (0.0..=10.0).contains(sigma),
            Distribution::Pareto { alpha, min, max } => {
                (0.01..=100.0).contains(alpha)
                    && min.number() > 0.0
                    && min.number() < max.number()
                    && same_unit(*min, *max)
            }
            Distribution::Empirical(values) => {
                values.iter().all(|(_, weight)| (0.0..1e12).contains(weight))
                    && values.iter().map(|(_, weight)| weight).sum::<f64>() > 0.0
            }
        };
        if sound {
            return Ok(());
        }
        Err(crate::Error::at(key)(crate::Error::Distribution))
    }

    pub fn draw(&self, rng: &mut Rng) -> T {
        match self {
            Self::Always(value) => *value,
            Self::Drawn(law) => law.draw(rng),
        }
    }

    /// Formats the value or distribution for readers.
    pub fn shown(&self) -> String {
        match self {
            Self::Always(value) => value.to_string(),
            Self::Drawn(Distribution::Uniform { min, max }) => format!("{min} to {max}"),
            Self::Drawn(Distribution::Exponential { mean }) => format!("exponential, mean {mean}"),
            Self::Drawn(Distribution::Lognormal { median, sigma }) => format!("log-normal, median {median}, σ {sigma}"),
            Self::Drawn(Distribution::Pareto { alpha, min, max }) => format!("Pareto {alpha}, {min} to {max}"),
            Self::Drawn(Distribution::Empirical(values)) => {
                values.iter().map(|(value, _)| value.to_string()).collect::<Vec<_>>().join(" or ")
            }
        }
    }
}

/// Returns true if a number means the same in both.
fn same_unit<T: Quantity>(a: T, b: T) -> bool {
    a.with(b.number()).to_string() == b.to_string()
}

impl<T: Quantity> Distribution<T> {
    fn draw(&self, rng: &mut Rng) -> T {
        match self {
            Self::Uniform { min, max } => {
                let share = 1.0 - uniform(rng);
                min.with(min.number() + share * (max.number() - min.number()))
            }
            Self::Exponential { mean } => mean.with(-mean.number() * ln(uniform(rng))),
            Self::Lognormal { median, sigma } => median.with(median.number() * exp(sigma * normal(rng))),
            Self::Pareto { alpha, min, max } => {
                // Inverse of the bounded distribution function: u = 1 gives min, u near 0 gives max.
                let ratio = exp(alpha * ln(min.number() / max.number()));
                let u = uniform(rng);
                min.with(min.number() * exp(-ln(u + (1.0 - u) * ratio) / alpha))
            }
            Self::Empirical(values) => {
                let mut rest = uniform(rng) * values.iter().map(|(_, weight)| weight).sum::<f64>();
                let taken = values.iter().find(|(_, weight)| {
                    rest -= weight;
                    rest <= 0.0 && *weight > 0.0
                });
                // Rounding may leave a remainder after the last value; `check` ensures that there is one.
                taken.unwrap_or(&values[values.len() - 1]).0
            }
        }
    }
}

impl<'de, T: Quantity + Deserialize<'de>> Deserialize<'de> for ValueSpec<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);
        impl<'de, T: Quantity + Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = ValueSpec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value, or a distribution as in { lognormal = { median = …, sigma = 0.5 } }")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<ValueSpec<T>, E> {
                text.parse().map(ValueSpec::Always).map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<ValueSpec<T>, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<ValueSpec<T>, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ValueSpec<T>, A::Error> {
                Distribution::deserialize(MapAccessDeserializer::new(map)).map(ValueSpec::Drawn)
            }
        }
        from.deserialize_any(Either(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn spread<T: Quantity + for<'de> Deserialize<'de>>(text: &str) -> ValueSpec<T> {
        let mut keys: BTreeMap<String, ValueSpec<T>> = toml::from_str(&format!("x = {text}")).unwrap();
        keys.remove("x").unwrap()
    }

    #[test]
    fn a_plain_value_and_a_distribution_are_read_alike() {
        assert_eq!(spread::<Ratio>("'1%'"), ValueSpec::Always(Ratio(0.01)));
        let law = spread::<BitRate>("{ lognormal = { median = '10mbit', sigma = 0.5 } }");
        assert_eq!(law.shown(), "log-normal, median 10mbit, σ 0.5");
        assert!(spread::<BufferSize>("{ uniform = { min = '1bdp', max = '2bdp' } }").check("buffer").is_ok());
    }

    #[test]
    fn units_that_differ_and_ranges_upside_down_are_refused() {
        for text in ["{ uniform = { min = '1bdp', max = '20p' } }", "{ uniform = { min = '2bdp', max = '1bdp' } }"] {
            assert!(
                spread::<BufferSize>(text).check("buffer").unwrap_err().to_string().starts_with("buffer: "),
                "{text}"
            );
        }
    }

    #[test]
    fn values_have_the_middle_of_their_distribution() {
        let mut rng = Rng::new(1);
        let law = spread::<TimeSpan>("{ lognormal = { median = '40ms', sigma = 1.0 } }");
        let mut drawn: Vec<f64> = (0..4001).map(|_| law.draw(&mut rng).number() / 1e6).collect();
        let middle = bbrlab_stats::median(&mut drawn);
        assert!((middle / 40.0 - 1.0).abs() < 0.06, "{middle}");
        let either = spread::<Volume>("{ empirical = [['1MB', 1.0], ['5MB', 3.0]] }");
        let large = (0..4000).filter(|_| either.draw(&mut rng) == Volume(5_000_000)).count();
        assert!((2850..3150).contains(&large), "{large}");
    }
}
