//! The algorithms by name, with their parameters.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::bbr1::Bbr1Params;
use crate::bbr3::{Bbr3Params, Edition};
use crate::cubic::CubicParams;
use crate::fixed::FixedParams;
use crate::loss_based::RenoParams;
use crate::params::{ParamError, ParamSpec};
#[cfg(feature = "variants")]
use crate::variant::{DavisParams, VariantName, VariantParams};

/// An algorithm with all its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AlgorithmConfig {
    /// A constant window.
    Fixed(FixedParams),
    /// Reno with Linux's rules.
    Reno(RenoParams),
    /// CUBIC, Linux's or RFC 9438's.
    Cubic(CubicParams),
    /// BBRv1 as in Linux.
    Bbr1(Bbr1Params),
    /// BBRv1 as in draft-cardwell-iccrg-bbr-congestion-control-00.
    Bbr1Draft00(Bbr1Params),
    /// BBRv2 or BBRv3, in one of their editions.
    Bbr3(Edition, Bbr3Params),
    /// BBRv1 with one part replaced.
    #[cfg(feature = "variants")]
    Variant(VariantParams),
    /// TCP Davis.
    #[cfg(feature = "variants")]
    Davis(DavisParams),
}

/// What `bbrlab list algorithms` says of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AlgorithmInfo {
    /// Its name, as in `--flow NAME`.
    pub name: &'static str,
    /// One line on what it is.
    pub summary: &'static str,
    /// Where its rules come from.
    pub source: &'static str,
}

/// All algorithms, in the order in which `bbrlab list algorithms` shows them.
pub const ALGORITHMS: &[AlgorithmInfo] = &[
    AlgorithmInfo { name: "fixed", summary: "a constant window without pacing, a yardstick", source: "CACM figure 1" },
    AlgorithmInfo {
        name: "reno",
        summary: "Reno with SACK recovery and PRR, as in Linux",
        source: "RFC 5681, RFC 9937, Linux 6.12",
    },
    AlgorithmInfo {
        name: "cubic",
        summary: "CUBIC with HyStart, as in Linux; RFC 9438 by parameters",
        source: "RFC 9438, Linux 6.12 tcp_cubic.c",
    },
    AlgorithmInfo { name: "bbr1", summary: "BBRv1, the kernel's fixed point", source: "Linux 6.12 tcp_bbr.c" },
    AlgorithmInfo {
        name: "bbr1-draft00",
        summary: "BBRv1 of the first draft: no policer detection, no ACK aggregation",
        source: "draft-cardwell-iccrg-bbr-congestion-control-00",
    },
    AlgorithmInfo {
        name: "bbr2-ietf100",
        summary: "the prototype between v1 and v2: 5 % loss, x0.85; what its slides leave open is ours",
        source: "Cardwell et al., BBR update, IETF 100 (2017); google/bbr v2alpha",
    },
    AlgorithmInfo { name: "bbr2", summary: "BBRv2 for Linux, packets", source: "google/bbr v2alpha tcp_bbr2.c" },
    AlgorithmInfo {
        name: "bbr3",
        summary: "BBRv3 by the draft, byte-exact; also bbr3-draft06",
        source: "draft-ietf-ccwg-bbr-06",
    },
    AlgorithmInfo { name: "bbr3-linux", summary: "BBRv3 for Linux, packets", source: "google/bbr v3 tcp_bbr.c" },
    #[cfg(feature = "variants")]
    AlgorithmInfo {
        name: "bbr-cpa",
        summary: "v1 that predicts congestion from the RTT and averages bandwidth; a reconstruction",
        source: "Yang et al., J. Shenyang Aerospace Univ. 41(1) 2024",
    },
    #[cfg(feature = "variants")]
    AlgorithmInfo {
        name: "acd-linux",
        summary: "v1 whose recovery halves the window if the RTT agrees; also bbr-acd",
        source: "Mahmud et al., Electronics 9(1) 2020, its Linux code",
    },
    #[cfg(feature = "variants")]
    AlgorithmInfo {
        name: "acd-ns3",
        summary: "the same without a detector, for the whole recovery",
        source: "Mahmud et al. 2020, its ns-3 code",
    },
    #[cfg(feature = "variants")]
    AlgorithmInfo {
        name: "acd-once",
        summary: "the same with one halving a recovery; a reconstruction",
        source: "Mahmud et al. 2020; ours",
    },
    #[cfg(feature = "variants")]
    AlgorithmInfo {
        name: "bbr-s",
        summary: "v1 with the median of bandwidth samples; a reconstruction",
        source: "Vargas et al., WWW'21, as described by Yang et al. 2024",
    },
    #[cfg(feature = "variants")]
    AlgorithmInfo {
        name: "bbr-s-p85",
        summary: "v1 with their 85th percentile; a reconstruction",
        source: "Vargas et al., WWW'21, by its code",
    },
    #[cfg(feature = "variants")]
    AlgorithmInfo {
        name: "bbr-s-kalman",
        summary: "v1 with a Tobit Kalman filter of bandwidth; a reconstruction",
        source: "Chiariotti et al., IEEE Access 9, 2021",
    },
    #[cfg(feature = "variants")]
    AlgorithmInfo {
        name: "bbr-apg",
        summary: "v1 with probing gains that follow buffer and loss; a reconstruction, experimental",
        source: "Li et al., HotICN 2022, its abstract",
    },
    #[cfg(feature = "variants")]
    AlgorithmInfo {
        name: "davis",
        summary: "TCP Davis: a window of one BDP, stepped and measured",
        source: "Lynn, Ghosal, NAS 2022, tcp_davis",
    },
];

impl AlgorithmConfig {
    /// The algorithm of that name with its defaults.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "fixed" => Self::Fixed(FixedParams::default()),
            "reno" => Self::Reno(RenoParams::default()),
            "cubic" => Self::Cubic(CubicParams::default()),
            "bbr1" => Self::Bbr1(Bbr1Params::default()),
            "bbr1-draft00" => Self::Bbr1Draft00(Bbr1Params::draft00()),
            "bbr2-ietf100" => Self::bbr3(Edition::Ietf100),
            "bbr2" => Self::bbr3(Edition::V2),
            "bbr3" | "bbr3-draft06" => Self::bbr3(Edition::Draft06),
            "bbr3-linux" => Self::bbr3(Edition::Linux),
            #[cfg(feature = "variants")]
            "bbr-cpa" => Self::variant(VariantName::Cpa),
            #[cfg(feature = "variants")]
            "acd-linux" | "bbr-acd" => Self::variant(VariantName::AcdLinux),
            #[cfg(feature = "variants")]
            "acd-ns3" => Self::variant(VariantName::AcdNs3),
            #[cfg(feature = "variants")]
            "acd-once" => Self::variant(VariantName::AcdOnce),
            #[cfg(feature = "variants")]
            "bbr-s" => Self::variant(VariantName::S),
            #[cfg(feature = "variants")]
            "bbr-s-p85" => Self::variant(VariantName::SP85),
            #[cfg(feature = "variants")]
            "bbr-s-kalman" => Self::variant(VariantName::SKalman),
            #[cfg(feature = "variants")]
            "bbr-apg" => Self::variant(VariantName::Apg),
            #[cfg(feature = "variants")]
            "davis" => Self::Davis(DavisParams::default()),
            _ => return None,
        })
    }

    fn bbr3(edition: Edition) -> Self {
        Self::Bbr3(edition, Bbr3Params::of(edition))
    }

    #[cfg(feature = "variants")]
    fn variant(name: VariantName) -> Self {
        Self::Variant(VariantParams::new(name))
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fixed(_) => "fixed",
            Self::Reno(_) => "reno",
            Self::Cubic(_) => "cubic",
            Self::Bbr1(_) => "bbr1",
            Self::Bbr1Draft00(_) => "bbr1-draft00",
            Self::Bbr3(Edition::Ietf100, _) => "bbr2-ietf100",
            Self::Bbr3(Edition::V2, _) => "bbr2",
            Self::Bbr3(Edition::Draft06, _) => "bbr3",
            Self::Bbr3(Edition::Linux, _) => "bbr3-linux",
            #[cfg(feature = "variants")]
            Self::Variant(p) => p.variant().name(),
            #[cfg(feature = "variants")]
            Self::Davis(_) => "davis",
        }
    }

    /// Sets one parameter from text.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), ParamError> {
        match self {
            Self::Fixed(p) => p.set(name, text),
            Self::Reno(p) => p.set(name, text),
            Self::Cubic(p) => p.set(name, text),
            Self::Bbr1(p) | Self::Bbr1Draft00(p) => p.set(name, text),
            Self::Bbr3(edition, p) => p.set_for(*edition, name, text),
            #[cfg(feature = "variants")]
            Self::Variant(p) => p.set(name, text),
            #[cfg(feature = "variants")]
            Self::Davis(p) => p.set(name, text),
        }
    }

    /// The parameters: each description with the present value.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static ParamSpec, u32)> + use<> {
        let specs: [&'static [ParamSpec]; 2] = match self {
            Self::Fixed(_) => [FixedParams::SPECS, &[]],
            Self::Reno(_) => [RenoParams::SPECS, &[]],
            Self::Cubic(_) => [CubicParams::SPECS, &[]],
            Self::Bbr1(_) | Self::Bbr1Draft00(_) => [Bbr1Params::SPECS, &[]],
            Self::Bbr3(edition, _) => [Bbr3Params::specs_of(*edition), &[]],
            #[cfg(feature = "variants")]
            Self::Variant(p) => p.specs(),
            #[cfg(feature = "variants")]
            Self::Davis(_) => [DavisParams::SPECS, &[]],
        };
        specs[0].iter().chain(specs[1]).zip(self.values())
    }

    /// The present values, zeros behind them, for `from_values` of the parameters' type; a variant's own stand before BBRv1's.
    pub fn values(&self) -> [u32; MAX_PARAMS] {
        match self {
            Self::Fixed(p) => collect(p.values()),
            Self::Reno(p) => collect(p.values()),
            Self::Cubic(p) => collect(p.values()),
            Self::Bbr1(p) | Self::Bbr1Draft00(p) => collect(p.values()),
            Self::Bbr3(_, p) => collect(p.values()),
            #[cfg(feature = "variants")]
            Self::Variant(p) => p.values(),
            #[cfg(feature = "variants")]
            Self::Davis(p) => collect(p.values()),
        }
    }
}

/// No algorithm has more parameters than this.
pub const MAX_PARAMS: usize = 64;

pub(crate) fn collect(values: impl Iterator<Item = u32>) -> [u32; MAX_PARAMS] {
    let mut all = [0; MAX_PARAMS];
    for (slot, value) in all.iter_mut().zip(values) {
        *slot = value;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_algorithm_exists_under_its_own_name_with_defaults_in_range() {
        for info in ALGORITHMS {
            let config = AlgorithmConfig::named(info.name).unwrap();
            assert_eq!(config.name(), info.name);
            assert!(config.parameters().count() <= MAX_PARAMS);
            for (spec, value) in config.parameters() {
                assert!(spec.min <= value && value <= spec.max, "{} {}", info.name, spec.name);
                assert!(!spec.source.is_empty() && !spec.meaning.trim().is_empty(), "{} {}", info.name, spec.name);
            }
        }
    }

    #[test]
    fn a_table_of_values_makes_the_same_parameters() {
        let AlgorithmConfig::Bbr3(_, params) = AlgorithmConfig::bbr3(Edition::Linux) else { unreachable!() };
        let table = AlgorithmConfig::bbr3(Edition::Linux).values();
        assert_eq!(Bbr3Params::from_values(&table, 0), params);
        let mut cubic = AlgorithmConfig::named("cubic").unwrap();
        cubic.set("hystart", "off").unwrap();
        assert_eq!(AlgorithmConfig::Cubic(CubicParams::from_values(&cubic.values(), 0)), cubic);
    }

    #[cfg(feature = "variants")]
    #[test]
    fn a_variants_own_parameters_stand_before_its_bases() {
        let AlgorithmConfig::Variant(params) = AlgorithmConfig::variant(VariantName::AcdLinux) else { unreachable!() };
        let table = AlgorithmConfig::Variant(params).values();
        assert_eq!(&Bbr1Params::from_values(&table, crate::params::AcdParams::SPECS.len()), params.base());
        assert_eq!(crate::params::AcdParams::from_values(&table, 0), crate::params::AcdParams::default());
    }

    #[test]
    fn an_unknown_parameter_is_refused_by_every_algorithm() {
        for info in ALGORITHMS {
            let mut config = AlgorithmConfig::named(info.name).unwrap();
            assert_eq!(config.set("no_such_parameter", "1"), Err(ParamError::Unknown));
        }
    }
}
