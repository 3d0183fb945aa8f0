//! The tables compared with the functions in floating point.
// SPDX-License-Identifier: Apache-2.0 OR MIT

extern crate std;

use super::*;

/// φ(z).
pub(in super::super) fn density(z: f64) -> f64 {
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// Φ(z), by its series around 0, which is accurate to a few digits beyond a double's for |z| ≤ 6.
pub(in super::super) fn share_below(z: f64) -> f64 {
    let (mut term, mut sum, mut k) = (z, z, 1.0);
    while term.abs() > 1e-18 {
        k += 2.0;
        term *= z * z / k;
        sum += term;
    }
    (0.5 + density(z) * sum).clamp(0.0, 1.0)
}

#[test]
fn both_tables_follow_their_functions_to_a_thousandth() {
    for step in -3_900..=3_999_i32 {
        let z = f64::from(step) / 1000.0;
        let at = (z * ONE as f64).round() as i64;
        let (share, mean) = (below(at) as f64 / ONE as f64, hazard(at) as f64 / ONE as f64);
        assert!((share - share_below(z)).abs() < 1e-3, "Φ({z}) {share}");
        let exact = density(z) / share_below(z);
        assert!((mean - exact).abs() < 1e-3, "φ/Φ({z}) {mean} {exact}");
    }
}

#[test]
fn beyond_the_tables_nothing_is_cut_or_nearly_everything() {
    for far in [4 * ONE, 8 * ONE, 1 << 40] {
        assert_eq!((below(far), hazard(far)), (ONE, 0));
        assert!(below(-far) >= 1 && hazard(-far) > 4 * ONE);
    }
}
