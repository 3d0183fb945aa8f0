//! Lists of algorithms outside of core that no compiler holds to core's table: the report's palette, and the BPF objects.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![cfg(feature = "variants")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bbrlab_core::ALGORITHMS;

fn read(path: &str) -> String {
    let full = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&full).unwrap_or_else(|error| panic!("{}: {error}", full.display()))
}

/// The text between two marks.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(begin).unwrap_or_else(|| panic!("{begin} is missing"));
    rest.split_once(end).unwrap_or_else(|| panic!("{end} is missing")).0
}

#[test]
fn the_reports_palette_draws_each_algorithm_as_the_table_states() {
    let script = read("crates/report/src/assets/palette.js");
    let mut styles = BTreeMap::new();
    for entry in between(&script, "const ALGORITHMS = {", "};").split("],") {
        if let Some((name, style)) = entry.split_once(": [") {
            styles.insert(name.trim().trim_matches('\'').to_owned(), style.to_owned());
        }
    }
    for info in ALGORITHMS {
        let plot = format!("'{}', {}, '{}'", info.plot.hue, info.plot.dash, info.plot.marker);
        for name in info.aliases.iter().chain([&info.name]) {
            assert_eq!(styles.get(*name), Some(&plot), "{name} in palette.js");
        }
    }
}

#[test]
fn the_hosts_objects_are_those_of_the_table() {
    let source = read("crates/host/src/objects.rs");
    let mut listed: Vec<Vec<&str>> = between(&source, "objects! {", "}")
        .lines()
        .map(|line| line.split('"').filter(|word| !word.trim().is_empty()).collect())
        .filter(|words: &Vec<&str>| !words.is_empty())
        .collect();
    listed.sort();
    let mut expected: Vec<Vec<&str>> =
        ALGORITHMS.iter().filter_map(|info| Some(vec![info.name, info.bpf_object?])).collect();
    expected.sort();
    assert_eq!(listed, expected, "objects.rs");
}

#[test]
fn the_makefile_of_the_objects_builds_those_of_the_table() {
    let makefile = read("bpf/cc/Makefile");
    let variable = |name: &str| between(&makefile, &format!("\n{name} := "), "\n").to_owned();
    let mut built: Vec<String> = ["V1", "V3", "HOSTED"]
        .iter()
        .flat_map(|name| variable(name).split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .chain(["davis", "prague"].map(str::to_owned))
        .collect();
    built.sort();
    let mut expected: Vec<&str> = ALGORITHMS.iter().filter_map(|info| info.bpf_object).collect();
    expected.sort_unstable();
    assert_eq!(built, expected, "bpf/cc/Makefile");
}
