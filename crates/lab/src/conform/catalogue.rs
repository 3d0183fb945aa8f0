//! Catalogue of the cases: the repository's `conformance/`, compiled in. They are in the draft's order; a test checks
//! that no file of the directory is missing.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::{Path, PathBuf};

use super::{Case, parse};
use crate::{Error, Result};

/// Draft whose appendix defines the cases.
pub const DRAFT: &str = "draft-ietf-ccwg-bbr-06";

/// Embeds files under `conformance/`, as name and text.
macro_rules! files {
    ($($path:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../conformance/", $path)))),+]
    };
}

/// One file per case, in the draft's order.
pub const CASES: &[(&str, &str)] = files![
    "01_startup_plateau.toml",
    "02_startup_loss.toml",
    "03_drain_inflight.toml",
    "04_drain_time.toml",
    "05_probe_up_plateau.toml",
    "06_probe_up_loss.toml",
    "07_app_limited_stays.toml",
    "08_probe_down_inflight.toml",
    "09_probe_down_time.toml",
    "10_probe_rtt.toml",
    "11_idle_skips_probe_rtt.toml",
    "12_startup_aggregation.toml",
    "13_cruise_aggregation.toml",
    "14_sub_packet_bdp.toml",
    "15_rate_up_10x.toml",
    "16_rate_down_10x.toml",
    "17_policer.toml",
    "18_spurious_recovery.toml",
    "19_spurious_rto.toml",
    "20_probe_rtt_in_startup.toml",
    "21_loss_in_probe_up.toml",
    "22_app_limited_refill.toml",
];

pub fn cases() -> Vec<Case> {
    let parsed =
        |(path, text): &(&str, &str)| parse(text, &format!("conformance/{path}")).expect("a test parses every file");
    CASES.iter().map(parsed).collect()
}

/// Reads every `*.toml` in a directory, in the order of their names; at least one.
pub fn load_dir(directory: &Path) -> Result<Vec<Case>> {
    let fault = |source| Error::Directory { path: directory.to_owned(), source, wanted: "cases" };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(fault)? {
        paths.push(entry.map_err(fault)?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    if paths.is_empty() {
        return Err(Error::NoFiles { path: directory.to_owned(), wanted: "cases" });
    }
    let read = |path: &PathBuf| {
        let origin = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| Error::File { path: path.clone(), source })?;
        parse(&text, &origin)
    };
    paths.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Algorithms for which every case must state its applicability.
    const SPOKEN_OF: [&str; 5] = ["bbr3", "bbr3-linux", "bbr2", "bbr1", "bbr-lab"];

    #[test]
    fn every_file_parses_and_bears_its_number() {
        for ((path, text), number) in CASES.iter().zip(1..) {
            let case = parse(text, path).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((case.number, path.starts_with(&case.id())), (number, true), "{path}");
        }
        assert_eq!(CASES.len(), 22);
    }

    #[test]
    fn every_file_in_the_directory_is_in_the_list() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
        let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
        let cases = files.filter(|name| name.to_string_lossy().ends_with(".toml")).count();
        assert_eq!(cases, CASES.len());
    }

    #[test]
    fn every_case_says_of_each_algorithm_whether_it_applies() {
        for case in cases() {
            for name in SPOKEN_OF {
                let spoken = case.algorithms.iter().any(|a| a == name) || case.not.contains_key(name);
                assert!(spoken, "case {} says nothing of {name}", case.id());
            }
            assert!(case.algorithms.iter().any(|name| name == "bbr3"), "case {}", case.id());
        }
    }
}
