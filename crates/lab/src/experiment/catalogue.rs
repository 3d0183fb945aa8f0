//! Catalogue of claims: the repository's `experiments/`, compiled in, so that `bbrlab reproduce` needs no external
//! files. A test checks that no file of the directory is missing.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Experiment, parse};

/// Embeds files under `experiments/`, as path and text.
macro_rules! files {
    ($($path:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../experiments/", $path)))),+]
    };
}

/// One file per claim, in report order.
const FILES: &[(&str, &str)] = files![
    "cacm2016/f1_operating_point.toml",
    "cacm2016/f2_gain_cycle.toml",
    "cacm2016/f3_rate_step.toml",
    "cacm2016/f4_f5_startup.toml",
    "cacm2016/f6_convergence.toml",
    "cacm2016/f7_b4.toml",
    "cacm2016/f8_loss_sweep.toml",
    "cacm2016/f9_edge.toml",
    "cacm2016/f10_deep_buffers.toml",
    "cacm2016/startup.toml",
    "cacm2016/policer.toml",
    "cacm2016/ack_aggregation.toml",
    "cacm2016/cell.toml",
    "cacm2016/compete.toml",
    "cdn2020/cdn.toml",
    "cdn2020/when.toml",
    "cdn2020/cliff.toml",
    "ietf100/queue_n.toml",
    "ietf100/shallow_buffers.toml",
    "ccwg/loss_v3.toml",
    "ccwg/shallow_v3.toml",
    "ccwg/probe_rtt.toml",
    "ccwg/ecn.toml",
    "ccwg/latecomer.toml",
    "ccwg/policer_v3.toml",
    "ccwg/coexist.toml",
    "loopback/loopback.toml",
    "loopback/loopback-quic.toml",
    "cpa2024/dumbbell.toml",
    "cpa2024/setup.toml",
    "cpa2024/parameters.toml",
    "imc2021/ab_bias.toml",
    "l4s/dualpi2.toml",
    "l4s/coexist.toml",
    "l4s/one_queue.toml",
    "apps/audio_chunks.toml",
    "apps/live_startup.toml",
    "apps/realtime.toml",
    "apps/video_burst.toml",
    "apps/rpm_last_mile.toml",
    "apps/rpm_cable.toml",
    "apps/starlink.toml",
];

/// Digitised figures and delivery traces.
const DATA: &[(&str, &str)] = files!["data/cacm_fig8_digitised.csv", "data/cell_walk.mahi"];

/// The table of claims, files and states.
pub const README: &str = include_str!("../../../../experiments/README.md");

/// Returns the data that experiments refer to, by file name.
pub fn embedded_data() -> BTreeMap<String, Arc<str>> {
    let named = |(path, text): &(&str, &str)| (path.trim_start_matches("data/").to_owned(), Arc::from(*text));
    DATA.iter().map(named).collect()
}

/// Returns all experiments of the repository.
pub fn embedded() -> Vec<Experiment> {
    let parsed = |(path, text): &(&str, &str)| {
        parse(text, &format!("experiments/{path}")).expect("a test parses every file of the catalogue")
    };
    FILES.iter().map(parsed).collect()
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::experiment::{load_dir, plan, run};

    fn directory() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
    }

    #[test]
    fn every_file_of_the_catalogue_parses_and_its_runs_resolve() {
        for (path, text) in FILES {
            let experiment = parse(text, path).unwrap_or_else(|e| panic!("{e}"));
            let (_, runs) = plan::plan(&experiment.file).unwrap();
            for planned in &runs {
                run::resolve(&experiment, planned, 1).unwrap_or_else(|e| panic!("{path}: {e}"));
            }
        }
    }

    #[test]
    fn every_experiment_in_the_directory_is_in_the_catalogue() {
        assert_eq!(load_dir(&directory()).unwrap().len(), FILES.len());
    }

    #[test]
    fn every_claim_has_its_own_id() {
        let mut ids: Vec<String> = embedded().into_iter().map(|e| e.id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), FILES.len());
    }

    #[test]
    fn the_readme_lists_every_file_with_its_id() {
        for (path, text) in FILES {
            let id = parse(text, path).unwrap().id;
            let listed =
                README.lines().any(|line| line.contains(&format!("({path})")) && line.contains(&format!("| {id} |")));
            assert!(listed, "experiments/README.md has no row with {id} and ({path})");
        }
    }

    #[test]
    fn the_delivery_trace_is_what_its_documented_walk_gives() {
        assert_eq!(DATA[1].1, walk());
    }

    /// Generates the walk described in `experiments/data/README.md`, so that anyone can remake the file.
    fn walk() -> String {
        let mut rng = bbrlab_core::Rng::new(20_160_901);
        let (mut kbit, mut outage_ms, mut credit_bits) = (6_000_u64, 0_u64, 0_u64);
        let mut text = String::new();
        for ms in 1..=30_000_u64 {
            if ms % 100 == 0 {
                let step = [kbit * 3 / 4, kbit * 7 / 8, kbit, kbit * 8 / 7, kbit * 4 / 3][rng.below(5) as usize];
                kbit = step.clamp(500, 20_000);
                if outage_ms == 0 && rng.below(80) == 0 {
                    outage_ms = 100 + 100 * rng.below(6);
                }
            }
            if outage_ms > 0 {
                outage_ms -= 1;
                continue;
            }
            credit_bits += kbit;
            while credit_bits >= 12_000 {
                credit_bits -= 12_000;
                text.push_str(&format!("{ms}\n"));
            }
        }
        text
    }
}
