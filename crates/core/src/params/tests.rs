//! Values of parameters from text and back, and the error messages for those out of range.
// SPDX-License-Identifier: Apache-2.0 OR MIT

extern crate std;

use super::*;
use std::string::ToString;

fn spec(unit: Unit) -> ParamSpec {
    ParamSpec { name: "x", unit, default: 1, min: 0, max: u32::MAX, source: "", meaning: "" }
}

#[test]
fn gains_are_read_to_the_nearest_256th() {
    assert_eq!(parse(&spec(Unit::Gain), "1.25"), Ok(320));
    assert_eq!(parse(&spec(Unit::Gain), "1.1"), Ok(282));
    assert_eq!(parse(&spec(Unit::Gain), ".5"), Ok(128));
}

#[test]
fn fine_gains_and_shares_hold_per_cent_and_256ths_exactly() {
    assert_eq!(parse(&spec(Unit::FineGain), "2.77"), Ok(70_912));
    assert_eq!(parse(&spec(Unit::FineShare), "2%"), Ok(512));
    assert_eq!(parse(&spec(Unit::FineShare), "0.02"), Ok(512));
    assert_eq!(parse(&spec(Unit::FineShare), "1.953125%"), Ok(5 * 100));
}

#[test]
fn an_edition_changes_what_it_names_and_nothing_else() {
    const BASE: [ParamSpec; 2] = [
        ParamSpec { name: "a", unit: Unit::Count, default: 1, min: 0, max: 9, source: "s", meaning: "m" },
        ParamSpec { name: "ab", unit: Unit::Count, default: 2, min: 0, max: 9, source: "s", meaning: "m" },
    ];
    const OTHER: [ParamSpec; 2] = edition(&BASE, &[("ab", 7, "t")]);
    assert_eq!((OTHER[0].default, OTHER[1].default, OTHER[1].source), (1, 7, "t"));
}

#[test]
fn times_carry_their_unit() {
    assert_eq!(parse(&spec(Unit::Micros), "1.5ms"), Ok(1500));
    assert_eq!(parse(&spec(Unit::Micros), "10s"), Ok(10_000_000));
    assert_eq!(parse(&spec(Unit::Micros), "10"), Err(ParamError::Malformed(Unit::Micros)));
}

#[test]
fn shares_are_read_as_a_factor_or_as_per_cent() {
    assert_eq!(parse(&spec(Unit::Share), "0.5"), Ok(128));
    assert_eq!(parse(&spec(Unit::Share), "50%"), Ok(128));
}

#[test]
fn nonsense_is_refused_and_never_wraps() {
    for text in ["", ".", "-1", "1e3", "NaN", "99999999999999999999", "1.2.3", "1x"] {
        assert!(parse(&spec(Unit::Gain), text).is_err(), "{text}");
    }
}

#[test]
fn a_number_of_any_size_and_sign_is_told_the_range() {
    let spec = ParamSpec { min: 259, max: 2_560, ..spec(Unit::Gain) };
    for text in ["1", "10.1", "-1", "-0.001", "99999999999999999999", "0"] {
        let error = ParamError::OutOfRange { unit: Unit::Gain, min: 259, max: 2_560 };
        assert_eq!(parse(&spec, text), Err(error), "{text}");
    }
}

#[test]
fn a_value_is_written_as_it_is_read() {
    let units = [Unit::Gain, Unit::Share, Unit::FineGain, Unit::FineShare, Unit::Micros, Unit::Packets];
    for unit in units {
        for value in (0..30_000).chain([1_000_000, 3_600_000_000, u32::MAX]) {
            let text = unit.text(value).to_string();
            assert_eq!(parse(&spec(unit), &text), Ok(value), "{unit:?} {text}");
        }
    }
    assert_eq!([0, 1].map(|value| Unit::Switch.text(value).to_string()), ["off", "on"]);
}

#[test]
fn an_error_names_the_range_as_its_user_writes_it() {
    let ranges = [
        (Unit::Gain, 320, 2_560, "out of range; write 1.25 to 10"),
        (Unit::FineShare, 0, 512, "out of range; write 0 to 0.02"),
        (Unit::Micros, 100, 10_000_000, "out of range; write 100us to 10s"),
        (Unit::Packets, 1, 1_000, "out of range; write 1 to 1000 packets"),
        (Unit::BytesPerSec, 1, 9, "out of range; write 1 to 9 bytes/s"),
    ];
    for (unit, min, max, line) in ranges {
        assert_eq!(ParamError::OutOfRange { unit, min, max }.to_string(), line);
    }
    assert!(ParamError::Malformed(Unit::Micros).to_string().starts_with("not a time; write"));
}
