//! What a user wants of an algorithm, as one number between 0 and 1.
//! In: a run's figures. Out: its worth. Never: a goodput above the fair share that counts.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use serde::Serialize;

use crate::sweep::Row;

/// Payload of a full packet over its bytes on the wire: 1448/1514.
const EFFICIENCY: f64 = 1448.0 / 1514.0;

/// The worth is (goodput / fair share) × (base RTT / median RTT)^delay × (1 − retransmitted)^repeats ×
/// (others' goodput / their fair share)^others, each ratio at most 1. All exponents are ours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Objective {
    /// Its name.
    pub name: &'static str,
    /// How much delay counts.
    pub delay: f64,
    /// How much retransmissions count, for they cost others and the user's own traffic bill.
    pub repeats: f64,
    /// How much what is left to others counts.
    pub others: f64,
}

/// The objectives by name. Source: ours.
pub const OBJECTIVES: [Objective; 4] = [
    Objective { name: "balanced", delay: 0.25, repeats: 1.0, others: 0.5 },
    Objective { name: "throughput", delay: 0.0, repeats: 0.0, others: 0.0 },
    Objective { name: "delay", delay: 1.0, repeats: 1.0, others: 0.5 },
    Objective { name: "polite", delay: 0.25, repeats: 1.0, others: 1.0 },
];

impl Objective {
    /// The objective of this name.
    pub fn named(name: &str) -> Result<Self, String> {
        OBJECTIVES.into_iter().find(|objective| objective.name == name).ok_or_else(|| {
            let known = OBJECTIVES.map(|objective| objective.name).join(", ");
            format!("there is no objective {name:?}; there are {known}")
        })
    }

    /// The worth of a run, of a row's figures in their order.
    pub fn worth(&self, figures: &[f64]) -> f64 {
        let get = |name: &str| crate::sweep::figure(name).map_or(f64::NAN, |place| figures[place]);
        let room = get("rate_bps") * EFFICIENCY;
        let (own, all) = (get("first_flows"), get("flows"));
        let (first, total) = (get("first_goodput_bps"), get("goodput_bps"));
        let at_most_one = |ratio: f64| ratio.clamp(0.0, 1.0);
        let goodput = at_most_one(first / (room * own / all));
        let others = if all > own { at_most_one((total - first) / (room * (all - own) / all)) } else { 1.0 };
        let rtt = get("first_rtt_p50_ms");
        let delay = if rtt > 0.0 { at_most_one(get("rtt_base_ms") / rtt) } else { 1.0 };
        let repeats = 1.0 - at_most_one(get("first_retransmit_ratio"));
        goodput * delay.powf(self.delay) * repeats.powf(self.repeats) * others.powf(self.others)
    }

    /// The worth of a row.
    pub fn of(&self, row: &Row) -> f64 {
        self.worth(&row.figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::{FIGURES, figure};

    fn figures(set: &[(&str, f64)]) -> Vec<f64> {
        let mut figures = vec![f64::NAN; FIGURES.len()];
        let usual = [
            ("rate_bps", 10e6),
            ("rtt_base_ms", 40.0),
            ("flows", 2.0),
            ("first_flows", 1.0),
            ("goodput_bps", 9.5e6),
            ("first_goodput_bps", 4.7e6),
            ("first_rtt_p50_ms", 40.0),
            ("first_retransmit_ratio", 0.0),
        ];
        for (name, value) in usual.iter().chain(set) {
            figures[figure(name).unwrap()] = *value;
        }
        figures
    }

    #[test]
    fn more_than_the_fair_share_is_worth_no_more_and_what_it_takes_costs() {
        let balanced = Objective::named("balanced").unwrap();
        let fair = balanced.worth(&figures(&[]));
        let greedy = balanced.worth(&figures(&[("first_goodput_bps", 9e6)]));
        assert!(fair > 0.95 && greedy < 0.5 * fair, "{fair} {greedy}");
    }

    #[test]
    fn delay_and_repeats_count_as_the_objective_says() {
        let slow = figures(&[("first_rtt_p50_ms", 80.0)]);
        let wasteful = figures(&[("first_retransmit_ratio", 0.2)]);
        let worth = |name: &str, figures: &[f64]| Objective::named(name).unwrap().worth(figures);
        assert!((worth("delay", &slow) / worth("delay", &figures(&[])) - 0.5).abs() < 1e-9);
        assert_eq!(worth("throughput", &slow), worth("throughput", &wasteful));
        assert!((worth("delay", &wasteful) / worth("delay", &figures(&[])) - 0.8).abs() < 1e-9);
    }
}
