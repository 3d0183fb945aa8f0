//! Score of a run, between 0 and 1, according to the user's objective. Goodput above the fair share does not count.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use serde::Serialize;

use crate::sweep::{Metric, Row};
use crate::{Error, Result};

/// Payload of a full packet over its bytes on the wire: 1448/1514.
const EFFICIENCY: f64 = 1448.0 / 1514.0;

/// Exponents of the score. The score is (goodput / fair share) × (base RTT / median RTT)^delay × (1 − retransmitted)^repeats ×
/// (others' goodput / their fair share)^others, each ratio at most 1. All exponents are ours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Objective {
    /// Name of the objective.
    pub name: &'static str,
    /// Weight of delay.
    pub delay: f64,
    /// Weight of retransmissions, which cost others and add to the user's own traffic bill.
    pub repeats: f64,
    /// Weight of the others' goodput.
    pub others: f64,
}

/// Objectives by name. Source: ours.
pub const OBJECTIVES: [Objective; 4] = [
    Objective { name: "balanced", delay: 0.25, repeats: 1.0, others: 0.5 },
    Objective { name: "throughput", delay: 0.0, repeats: 0.0, others: 0.0 },
    Objective { name: "delay", delay: 1.0, repeats: 1.0, others: 0.5 },
    Objective { name: "polite", delay: 0.25, repeats: 1.0, others: 1.0 },
];

impl Objective {
    /// Returns the objective with this name.
    pub fn named(name: &str) -> Result<Self> {
        OBJECTIVES.into_iter().find(|objective| objective.name == name).ok_or_else(|| {
            let known = OBJECTIVES.map(|objective| objective.name).join(", ");
            Error::UnknownObjective { name: name.to_owned(), known }
        })
    }

    /// Score of a run from a row's metrics, in their order.
    pub fn score(&self, figures: &[f64]) -> f64 {
        self.score_of_terms(&Terms::of(figures))
    }

    /// Score of a row.
    pub fn of(&self, row: &Row) -> f64 {
        self.score(&row.figures)
    }

    /// Score of these terms.
    pub fn score_of_terms(&self, terms: &Terms) -> f64 {
        let [goodput, delay, repeats, others] = terms.0;
        goodput * delay.powf(self.delay) * repeats.powf(self.repeats) * others.powf(self.others)
    }

    /// Contribution of each term to the difference between two scores: the mean effect over all orders of changing one
    /// into the other (Shapley value), so that the four add up to the difference.
    pub fn parts(&self, from: &Terms, to: &Terms) -> [f64; Terms::COUNT] {
        /// n! for the number of terms changed before and after.
        const FACTORIAL: [f64; Terms::COUNT + 1] = [1.0, 1.0, 2.0, 6.0, 24.0];
        let mixed = |changed: usize| {
            let pick = |term: usize| if changed >> term & 1 == 1 { to.0[term] } else { from.0[term] };
            self.score_of_terms(&Terms(std::array::from_fn(pick)))
        };
        let part = |term: usize| {
            let without = (0..1_usize << Terms::COUNT).filter(|changed| changed >> term & 1 == 0);
            let effect = |changed: usize| {
                let before = changed.count_ones() as usize;
                let weight = FACTORIAL[before] * FACTORIAL[Terms::COUNT - 1 - before] / FACTORIAL[Terms::COUNT];
                weight * (mixed(changed | 1 << term) - mixed(changed))
            };
            without.map(effect).sum()
        };
        std::array::from_fn(part)
    }
}

/// Terms of a score, each from 0 to 1 (best): goodput over the fair share, base RTT over median RTT, the share not
/// retransmitted, and others' goodput over their fair share. For an application that a flow runs, its quality takes the place of
/// goodput, and its delay is part of that; others are due what it leaves of the link, up to its fair share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms(pub [f64; Terms::COUNT]);

impl Terms {
    /// Number of terms.
    pub const COUNT: usize = 4;
    /// Index of goodput.
    pub const GOODPUT: usize = 0;
    /// Index of delay.
    pub const DELAY: usize = 1;
    /// Index of retransmissions.
    pub const REPEATS: usize = 2;
    /// Index of the others' goodput.
    pub const OTHERS: usize = 3;

    /// Terms of a run from a row's metrics, in their order.
    pub fn of(figures: &[f64]) -> Self {
        let get = |metric: Metric| figures[metric as usize];
        let room = get(Metric::CapacityBps) * EFFICIENCY;
        let (own, all) = (get(Metric::FirstFlows), get(Metric::Flows));
        let (first, total) = (get(Metric::FirstGoodputBps), get(Metric::GoodputBps));
        let at_most_one = |ratio: f64| ratio.clamp(0.0, 1.0);
        let repeats = 1.0 - at_most_one(get(Metric::FirstRetransmitRatio));
        let quality = get(Metric::FirstQuality);
        let fair = room * own / all;
        let due = if quality.is_finite() { room - first.min(fair) } else { room * (all - own) / all };
        let others = if all > own { at_most_one((total - first) / due) } else { 1.0 };
        if quality.is_finite() {
            return Self([quality, 1.0, repeats, others]);
        }
        let goodput = at_most_one(first / fair);
        let rtt = get(Metric::FirstRttP50Ms);
        let delay = if rtt > 0.0 { at_most_one(get(Metric::RttBaseMs) / rtt) } else { 1.0 };
        Self([goodput, delay, repeats, others])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(set: &[(Metric, f64)]) -> Vec<f64> {
        let mut figures = vec![f64::NAN; Metric::COUNT];
        let usual = [
            (Metric::CapacityBps, 10e6),
            (Metric::RttBaseMs, 40.0),
            (Metric::Flows, 2.0),
            (Metric::FirstFlows, 1.0),
            (Metric::GoodputBps, 9.5e6),
            (Metric::FirstGoodputBps, 4.7e6),
            (Metric::FirstRttP50Ms, 40.0),
            (Metric::FirstRetransmitRatio, 0.0),
        ];
        for (metric, value) in usual.iter().chain(set) {
            figures[*metric as usize] = *value;
        }
        figures
    }

    #[test]
    fn goodput_above_the_fair_share_scores_no_more_and_taking_it_from_others_costs() {
        let balanced = Objective::named("balanced").unwrap();
        let fair = balanced.score(&figures(&[]));
        let greedy = balanced.score(&figures(&[(Metric::FirstGoodputBps, 9e6)]));
        assert!(fair > 0.95 && greedy < 0.5 * fair, "{fair} {greedy}");
    }

    #[test]
    fn an_application_is_judged_by_its_quality_and_rivals_are_due_what_it_leaves() {
        let balanced = Objective::named("balanced").unwrap();
        let call = |quality: f64, total: f64| {
            balanced.score(&figures(&[
                (Metric::FirstQuality, quality),
                (Metric::FirstGoodputBps, 1e6),
                (Metric::GoodputBps, total),
                (Metric::FirstRttP50Ms, 80.0),
            ]))
        };
        assert!((call(1.0, 9.5645e6) - 1.0).abs() < 1e-3);
        assert!((call(0.5, 9.5645e6) - 0.5).abs() < 1e-3);
        assert!(call(1.0, 5e6) < 0.75);
    }

    #[test]
    fn the_parts_of_a_difference_add_up_to_it_and_fall_to_the_terms_that_differ() {
        let polite = Objective::named("polite").unwrap();
        let (from, to) = (Terms([0.5, 0.9, 0.99, 1.0]), Terms([0.95, 0.9, 0.95, 0.4]));
        let parts = polite.parts(&from, &to);
        let difference = polite.score_of_terms(&to) - polite.score_of_terms(&from);
        assert!((parts.iter().sum::<f64>() - difference).abs() < 1e-12, "{parts:?}");
        assert!(parts[0] > 0.0 && parts[1] == 0.0 && parts[2] < 0.0 && parts[3] < parts[2], "{parts:?}");
    }

    #[test]
    fn delay_and_repeats_count_as_the_objective_says() {
        let slow = figures(&[(Metric::FirstRttP50Ms, 80.0)]);
        let wasteful = figures(&[(Metric::FirstRetransmitRatio, 0.2)]);
        let score = |name: &str, figures: &[f64]| Objective::named(name).unwrap().score(figures);
        assert!((score("delay", &slow) / score("delay", &figures(&[])) - 0.5).abs() < 1e-9);
        assert_eq!(score("throughput", &slow), score("throughput", &wasteful));
        assert!((score("delay", &wasteful) / score("delay", &figures(&[])) - 0.8).abs() < 1e-9);
    }
}
