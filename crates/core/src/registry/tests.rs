//! The table's rows agree with what the algorithms themselves return.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use crate::algorithm::Algorithm;
use crate::algorithm::tests::probe::dropped;
use crate::units::Time;

#[test]
fn any_algorithm_passes_on_every_method() {
    let lost = dropped(AnyAlgorithm(Any::Probe(Probe::default())), |any| match &any.0 {
        Any::Probe(probe) => probe,
        _ => unreachable!(),
    });
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn a_row_states_of_its_algorithm_what_the_algorithm_returns() {
    for info in ALGORITHMS {
        let flow = AnyAlgorithm::new(&AlgorithmConfig::named(info.name).unwrap(), &Init::new(Time::ZERO));
        assert_eq!(info.needs_pacing, flow.needs_pacing(), "{}", info.name);
        assert_eq!(info.counts_bytes, flow.counts_bytes(), "{}", info.name);
    }
}

#[test]
fn a_name_or_an_alias_is_that_of_one_algorithm() {
    for info in ALGORITHMS {
        for name in info.aliases.iter().chain([&info.name]) {
            assert_eq!(AlgorithmConfig::named(name).unwrap().info(), info, "{name}");
            let rows = ALGORITHMS.iter().filter(|row| row.name == *name || row.aliases.contains(name));
            assert_eq!(rows.count(), 1, "{name}");
        }
    }
}

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
    let params = Bbr3Params::of(Edition::LinuxV3);
    let table = AlgorithmConfig::named("bbr3-linux").unwrap().values();
    assert_eq!(Bbr3Params::from_values(&table, 0), params);
    let mut cubic = AlgorithmConfig::named("cubic").unwrap();
    cubic.set("hystart", "off").unwrap();
    assert_eq!(AlgorithmConfig::Cubic(CubicParams::from_values(&cubic.values(), 0)), cubic);
}

#[cfg(feature = "variants")]
#[test]
fn a_variants_own_parameters_stand_before_its_bases() {
    let params = VariantParams::new(VariantName::AcdLinux);
    let table = AlgorithmConfig::AcdLinux(params).values();
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
