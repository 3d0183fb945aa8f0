//! Paths on which the algorithm in use does what was measured: their rate is fitted, the rest of them is drawn.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Rng;

use super::Question;
use crate::Result;
use crate::paths::{Conditions, Measured, Path};
use crate::sweep::Metric;

/// Maximum number of runs in which a path's rate is fitted. Ours: goodput is nearly proportional to the rate.
pub(super) const RUNS: usize = 3;
/// Difference between simulated and measured goodput, as a logarithm, that needs no better fit. Ours: below that of two measurements.
const FITTED: f64 = 0.1;
/// Largest change of the rate in a step, and largest ratio of the link's rate to the measured one. Ours: with BBRv1 beside it in a
/// shallow buffer, CUBIC keeps a thirtieth.
const STEP: f64 = 8.0;
const RATE_RATIO_MAX: f64 = 32.0;
/// Separates the random numbers of the choice from those of the paths.
const APART: u64 = 1 << 41;

/// Path number `nth` of a question's population. For a measured one, several are drawn and fitted; one of them is chosen at random,
/// with a weight that falls exponentially with its distance from the measurement. So rivals, buffer and loss stay as uncertain as the
/// measurement leaves them.
pub(super) fn fitting(question: &Question<'_>, nth: u64) -> Result<Path> {
    let mut drawn = question.population.draw_alternatives(question.seed, nth);
    let Some(measured) = drawn[0].measured else { return Ok(drawn.swap_remove(0)) };
    let conditions = question.conditions.bulk();
    let one = |path| fitted(question, &conditions, path, measured, nth);
    let fits: Vec<(f64, Path)> = drawn.into_iter().map(one).collect::<Result<_>>()?;
    let nearest = fits.iter().fold(f64::INFINITY, |nearest, (distance, _)| nearest.min(*distance));
    let weight = |distance: f64| (nearest - distance).exp();
    let all: f64 = fits.iter().map(|(distance, _)| weight(*distance)).sum();
    let share = Rng::derive(question.seed ^ APART, nth).below(1 << 32) as f64 / (1_u64 << 32) as f64;
    let mut left = share * all;
    let chosen = fits.iter().position(|(distance, _)| {
        left -= weight(*distance);
        left < 0.0
    });
    Ok(fits.into_iter().nth(chosen.unwrap_or(0)).map(|(_, path)| path).expect("several paths are drawn"))
}

/// The path with the rate, among those tried, whose run is nearest to the measurement, and its distance.
fn fitted(
    question: &Question<'_>,
    conditions: &Conditions,
    mut path: Path,
    measured: Measured,
    nth: u64,
) -> Result<(f64, Path)> {
    let mut best = (f64::INFINITY, path.clone());
    for _ in 0..RUNS {
        let row = path.run(conditions, &question.flows[0], question.seed.wrapping_add(nth))?;
        let distance = measured.distance(&row);
        if distance < best.0 {
            best = (distance, path.clone());
        }
        let ratio = measured.rate_bps / row.get(Metric::FirstGoodputBps);
        if !ratio.is_finite() || ratio.ln().abs() < FITTED {
            break;
        }
        let rate_bps = path.rate_bps * ratio.clamp(1.0 / STEP, STEP);
        path.set_rate(rate_bps.clamp(measured.rate_bps, RATE_RATIO_MAX * measured.rate_bps));
    }
    Ok(best)
}
