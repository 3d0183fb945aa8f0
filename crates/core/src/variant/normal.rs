//! The normal distribution in integers: probability of a value below a bound, and the mean of such values.
//! Bounds are in standard deviations; results are in 1/65536.
//! A table with a point every eighth of a deviation, and linear interpolation; a test checks that it is within 0.001 of the functions.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/// One, in this file's fixed point.
pub(super) const ONE: i64 = 1 << 16;
/// The tables reach from −4 to +4 standard deviations.
const REACH: i64 = 4 * ONE;
/// Distance between two points.
const STEP: i64 = ONE / 8;
const POINTS: usize = 65;

/// Φ(z), the share of values below z, in 1/65536.
#[rustfmt::skip]
const BELOW: [u32; POINTS] = [
    2, 3, 6, 9, 15, 24, 38, 58, 88, 132, 195, 284, 407,
    575, 801, 1101, 1491, 1992, 2625, 3413, 4378, 5542, 6924, 8539, 10398, 12503,
    14852, 17432, 20220, 23189, 26299, 29508, 32768, 36028, 39237, 42347, 45316, 48104, 50684,
    53033, 55138, 56997, 58612, 59994, 61158, 62123, 62911, 63544, 64045, 64435, 64735, 64961,
    65129, 65252, 65341, 65404, 65448, 65478, 65498, 65512, 65521, 65527, 65530, 65533, 65534,
];

/// φ(z)/Φ(z): distance of the mean of all values below z from the overall mean, in deviations, in 1/65536.
#[rustfmt::skip]
const HAZARD: [u32; POINTS] = [
    276929, 269129, 261348, 253589, 245851, 238138, 230450, 222791, 215161, 207564, 200001, 192476, 184991,
    177551, 170158, 162816, 155531, 148306, 141148, 134061, 127053, 120130, 113300, 106570, 99951, 93452,
    87083, 80855, 74782, 68875, 63147, 57615, 52290, 47189, 42326, 37714, 33368, 29300, 25519,
    22033, 18848, 15966, 13384, 11097, 9096, 7366, 5890, 4649, 3621, 2781, 2106, 1572,
    1156, 838, 598, 420, 291, 198, 133, 88, 57, 37, 23, 14, 9,
];

/// Φ(z).
pub(super) fn below(z: i64) -> i64 {
    if z >= REACH { ONE } else { between(&BELOW, z).max(1) }
}

/// φ(z)/Φ(z).
pub(super) fn hazard(z: i64) -> i64 {
    if z >= REACH { 0 } else { between(&HAZARD, z) }
}

/// Interpolates between the two points beside `z`; below the table, its first value.
fn between(table: &[u32; POINTS], z: i64) -> i64 {
    let from_first = (z + REACH).clamp(0, 2 * REACH - 1);
    let index = (from_first / STEP) as usize;
    let (a, b) = (i64::from(table[index]), i64::from(table[index + 1]));
    a + (b - a) * (from_first % STEP) / STEP
}

#[cfg(test)]
pub(super) mod tests;
