//! Number formats of tables and pages: digits, units, signs. Every format gives the shortest text of its definition.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/// Rounds `value` to `digits` significant digits, so that its shortest decimal form is short.
pub fn round_to(value: f64, digits: usize) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    // The text of a finite float always parses.
    format!("{value:.*e}", digits - 1).parse().unwrap_or(value)
}

/// Formats a number with `digits` significant digits; digits before the point are rounded too: 1234 is 1230 in three.
pub fn rounded(value: f64, digits: usize) -> String {
    round_to(value, digits).to_string()
}

/// Formats a number with `digits` significant digits; all digits before the point are kept: 1234 is 1234 in three.
pub fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let before_point = value.abs().log10().floor() as i32 + 1;
    let places = usize::try_from((digits - before_point).max(0)).unwrap_or(0);
    trimmed(&format!("{value:.places$}"))
}

/// Formats a number with three digits, all those before the point, and at most two after it: 0.001 is 0.
pub fn hundredths(value: f64) -> String {
    let places = if value.abs() >= 100.0 { 0 } else { usize::from(value.abs() < 10.0) + 1 };
    trimmed(&format!("{value:.places$}"))
}

/// Formats a number with three digits and trailing zeros, for a column: at most four after the point.
pub fn column(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let digits = if value == 0.0 { 0 } else { (2 - value.abs().log10().floor() as i32).clamp(0, 4) };
    format!("{value:.*}", digits as usize)
}

/// Formats a value; a dash for NaN, a missing value.
pub fn or_dash(value: f64, format: impl FnOnce(f64) -> String) -> String {
    if value.is_nan() { "–".to_owned() } else { format(value) }
}

/// Removes trailing zeros after the point.
fn trimmed(text: &str) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text.to_owned() }
}

/// Formats a ratio less 1 in per cent, with its sign and without a unit.
pub fn signed_percent(value: f64) -> String {
    let text = hundredths(100.0 * value);
    if value > 0.0 { format!("+{text}") } else { text.replace('-', "−") }
}

/// Formats a gain in per cent with its interval: `+6.1 % (+2 to +9.7)`; a dash if either is missing.
pub fn gain(gain: f64, low: f64, high: f64) -> String {
    if gain.is_nan() || low.is_nan() {
        return "–".to_owned();
    }
    format!("{} % ({} to {})", signed_percent(gain), signed_percent(low), signed_percent(high))
}

/// Formats a ratio in per cent, with three digits or fewer.
pub fn percent(ratio: f64) -> String {
    match ratio * 100.0 {
        0.0 => "0 %".to_owned(),
        // As many digits as on the report page: .0996 % is not .100 %.
        x if x < 0.1 => format!("{} %", rounded(x, 3)),
        x if x < 10.0 => format!("{x:.2} %"),
        x => format!("{x:.1} %"),
    }
}

/// Unit in which a rate has one to three digits before the point, and that unit in bit/s.
pub const fn rate_unit(bps: f64) -> (&'static str, f64) {
    match bps {
        bps if bps >= 1e9 => ("Gbit/s", 1e9),
        bps if bps >= 1e6 => ("Mbit/s", 1e6),
        bps if bps >= 1e3 => ("kbit/s", 1e3),
        _ => ("bit/s", 1.0),
    }
}

/// Formats a rate with its unit for a column: two digits after the point, one of kbit/s, none of bit/s.
pub fn rate(bps: f64) -> String {
    let (unit, scale) = rate_unit(bps);
    let places = match scale {
        1.0 => 0,
        1e3 => 1,
        _ => 2,
    };
    format!("{:.places$} {unit}", bps / scale)
}

/// Formats a rate with its unit for a sentence: three significant digits.
pub fn rate_in_text(bps: f64) -> String {
    let (unit, scale) = rate_unit(bps);
    format!("{} {unit}", rounded(bps / scale, 3))
}

/// Formats milliseconds for a column, without the unit.
pub fn ms(ms: f64) -> String {
    if ms < 10.0 {
        format!("{ms:.2}")
    } else if ms < 10_000.0 {
        format!("{ms:.1}")
    } else {
        format!("{ms:.0}")
    }
}

/// Formats a duration, to a millisecond if that is significant.
pub fn seconds(seconds: f64) -> String {
    if seconds < 1.0 { format!("{} ms", ms(seconds * 1e3)) } else { format!("{seconds:.3} s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_before_the_point_are_kept_or_rounded_as_the_name_states() {
        let value = 1234.5;
        assert_eq!(
            [rounded(value, 3), significant(value, 3), hundredths(value), column(value)],
            ["1230", "1234", "1234", "1234"]
        );
        let value = 0.012_345;
        assert_eq!(
            [rounded(value, 3), significant(value, 3), hundredths(value), column(value)],
            ["0.0123", "0.0123", "0.01", "0.0123"]
        );
        let value = 2.5;
        assert_eq!(
            [rounded(value, 3), significant(value, 3), hundredths(value), column(value)],
            ["2.5", "2.5", "2.5", "2.50"]
        );
    }

    #[test]
    fn a_missing_value_is_a_dash() {
        assert_eq!([or_dash(f64::NAN, hundredths), column(f64::INFINITY), gain(f64::NAN, 0.0, 0.0)], ["–", "–", "–"]);
    }

    #[test]
    fn a_gain_has_its_sign_and_interval() {
        assert_eq!(gain(0.061, -0.02, 0.097), "+6.1 % (−2 to +9.7)");
    }

    #[test]
    fn a_rate_has_the_unit_of_its_size() {
        assert_eq!([999.0, 1e3, 1.234e6, 5e9].map(rate), ["999 bit/s", "1.0 kbit/s", "1.23 Mbit/s", "5.00 Gbit/s"]);
        assert_eq!([999.0, 1e3, 1.234e6, 5e9].map(rate_in_text), ["999 bit/s", "1 kbit/s", "1.23 Mbit/s", "5 Gbit/s"]);
    }

    #[test]
    fn percentages_and_times_keep_three_digits() {
        assert_eq!([0.0, 0.000_996, 0.05, 0.5].map(percent), ["0 %", "0.0996 %", "5.00 %", "50.0 %"]);
        assert_eq!([0.001_5, 2.0].map(seconds), ["1.50 ms", "2.000 s"]);
    }
}
