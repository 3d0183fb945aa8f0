//! Comparisons of a study in the order in which they are shown: class by class, each algorithm against the control.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::{Gain, Segment, Study};

/// One line of the summary table: a class under one algorithm, judged by one metric.
pub(super) struct SummaryLine {
    pub(super) class: usize,
    pub(super) arm: usize,
    pub(super) is_large: bool,
    pub(super) paired: Gain,
    pub(super) split: Gain,
}

pub(super) fn lines(study: &Study) -> Vec<SummaryLine> {
    let mut lines = Vec::new();
    for class in 0..study.design.classes.len() {
        for is_large in [false, true].into_iter().filter(|&is_large| study.has(class, is_large)) {
            for arm in 0..study.control() {
                let cut = Segment::judged(class, is_large);
                let (paired, split) = (study.gain(arm, &cut), study.split_gain(arm, &cut, true));
                lines.push(SummaryLine { class, arm, is_large, paired, split });
            }
        }
    }
    lines
}
