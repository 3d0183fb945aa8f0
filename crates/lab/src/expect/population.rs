//! Measures of a population: gains in per cent, with the ends of their intervals, by class and kind of object.
//! `experiments/README.md` lists them for authors of experiments.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::Arc;

use rhai::{Dynamic, Engine, EvalAltResult};

use super::engine::{fail, number};
use crate::{Error, Result};
use bbrlab_stats::median;
use bbrlab_study::cdn::gain::{LARGE_SIZES, SMALL_SIZES};
use bbrlab_study::cdn::{Gain, Segment, Study};

/// Result of a measure, for the engine.
type MeasureResult = Result<f64, Box<EvalAltResult>>;

/// A finished study, for use in measures.
#[derive(Clone, Debug)]
pub struct PopulationView(pub Arc<Study>);

impl PopulationView {
    /// Selects the objects of a class (`""`: all classes): `small`, `large` or `all`.
    fn cut(&self, class: &str, which: &str) -> Result<Segment> {
        let class = if class.is_empty() { None } else { Some(self.0.class(class)?) };
        let size = match which {
            "small" => Some(SMALL_SIZES),
            "large" => Some(LARGE_SIZES),
            "all" => None,
            _ => return Err(Error::UnknownObjects(which.to_owned())),
        };
        Ok(Segment { class, size, ..Segment::default() })
    }

    /// Index of an algorithm.
    fn arm(&self, algorithm: &str) -> Result<usize> {
        let all = &self.0.design.algorithms;
        all.iter()
            .position(|known| known == algorithm)
            .ok_or_else(|| Error::NotCompared { name: algorithm.to_owned(), known: all.clone() })
    }

    fn gain(&self, class: &str, which: &str) -> Result<Gain> {
        Ok(self.0.gain(0, &self.cut(class, which)?))
    }
}

/// Function that returns the gain or an end of its interval.
type GainPart = fn(Gain) -> f64;
const PARTS: [(&str, GainPart); 3] = [("gain", |g| g.gain), ("gain_low", |g| g.low), ("gain_high", |g| g.high)];

/// Registers every measure of a population.
pub(super) fn measures(engine: &mut Engine) {
    engine.register_type_with_name::<PopulationView>("Population");
    for (name, part) in PARTS {
        engine.register_fn(name, move |all: &mut PopulationView, class: &str, which: &str| -> MeasureResult {
            all.gain(class, which).map(|gain| 100.0 * part(gain)).map_err(fail)
        });
        engine.register_fn(
            format!("{name}_at_age"),
            move |all: &mut PopulationView, class: &str, from: Dynamic, to: Dynamic| -> MeasureResult {
                let (from, to) = (number(&from)?, number(&to)?);
                let cut = Segment { age_s: Some((from, to)), ..all.cut(class, "all").map_err(fail)? };
                Ok(100.0 * part(all.0.gain(0, &cut)))
            },
        );
    }
    engine
        .register_fn("split_gain", |all: &mut PopulationView, class: &str, which: &str| -> MeasureResult {
            let cut = all.cut(class, which).map_err(fail)?;
            Ok(100.0 * all.0.split_gain(0, &cut, true).gain)
        })
        .register_fn("spread", |all: &mut PopulationView, class: &str, algorithm: &str| -> MeasureResult {
            let cut = all.cut(class, "small").map_err(fail)?;
            Ok(all.0.spread(all.arm(algorithm).map_err(fail)?, &cut))
        })
        .register_fn("retransmit_ratio", |all: &mut PopulationView, class: &str, algorithm: &str| -> MeasureResult {
            let cut = all.cut(class, "all").map_err(fail)?;
            Ok(all.0.retransmit_ratio(all.arm(algorithm).map_err(fail)?, &cut))
        })
        .register_fn("completion_ms", |all: &mut PopulationView, class: &str, algorithm: &str| -> MeasureResult {
            let cut = all.cut(class, "small").map_err(fail)?;
            Ok(median(&mut all.0.values(all.arm(algorithm).map_err(fail)?, &cut, false)))
        })
        .register_fn("throughput_mbps", |all: &mut PopulationView, class: &str, algorithm: &str| -> MeasureResult {
            let cut = all.cut(class, "large").map_err(fail)?;
            Ok(median(&mut all.0.values(all.arm(algorithm).map_err(fail)?, &cut, true)))
        });
}
