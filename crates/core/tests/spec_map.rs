//! Checks that docs/spec-map.tsv is complete: each function and constant of the draft, its place, its test, same or why not.
//! Checks that docs/spec-mutants.tsv has a mutation for each. `tools/spec_mutants.py` checks that the tests then fail.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    let full = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&full).unwrap_or_else(|error| panic!("{}: {error}", full.display()))
}

/// The names of the draft, with their kind.
fn names() -> Vec<(String, String)> {
    let text = read("tests/data/draft06-names.tsv");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split_once('\t').expect("a kind and a name"))
        .map(|(k, n)| (n.to_owned(), k.to_owned()))
        .collect()
}

/// A table's rows by the draft's name; each name occurs once.
fn rows_of(path: &str) -> BTreeMap<String, [String; 3]> {
    let mut rows = BTreeMap::new();
    for line in read(path).lines().skip(1) {
        let cells: Vec<String> = line.split('\t').map(str::to_owned).collect();
        let [name, a, b, c] = cells.try_into().unwrap_or_else(|_| panic!("not four cells: {line}"));
        assert!(rows.insert(name.clone(), [a, b, c]).is_none(), "{name} appears twice");
    }
    rows
}

/// Place, test and verdict for each name.
fn table() -> BTreeMap<String, [String; 3]> {
    rows_of("../../docs/spec-map.tsv")
}

/// File, original text and mutated text for each name.
fn mutations() -> BTreeMap<String, [String; 3]> {
    rows_of("../../docs/spec-mutants.tsv")
}

#[test]
fn every_function_and_constant_of_the_draft_is_in_the_table_and_nothing_else() {
    let mut rows = table();
    for (name, kind) in names() {
        assert!(rows.remove(&name).is_some(), "the {kind} {name} is missing");
    }
    assert!(rows.is_empty(), "not of the draft: {:?}", rows.keys());
}

#[test]
fn every_place_that_the_table_names_exists() {
    for (name, [place, ..]) in table() {
        let (file, item) = place.split_once("::").expect("file::item");
        let source = read(&format!("src/{file}"));
        let declares = source.contains(&format!("fn {item}(")) || source.contains(&format!("{item}: "));
        assert!(declares, "{name}: {file} declares no {item}");
    }
}

#[test]
fn every_test_that_the_table_names_exists() {
    for (name, [_, test, _]) in table() {
        let (module, function) = test.rsplit_once("::").expect("module::test");
        let folder = format!("src/{}", module.replace("::", "/"));
        let inline = folder.trim_end_matches("/tests").to_owned();
        let outside = format!("tests/{module}");
        let found = [folder, inline, outside].iter().any(|path| {
            let full = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("{path}.rs"));
            fs::read_to_string(full).is_ok_and(|source| source.contains(&format!("fn {function}()")))
        });
        assert!(found, "{name}: no test {test}");
    }
}

#[test]
fn every_verdict_is_one() {
    for (name, [.., verdict]) in table() {
        let is_one =
            verdict.starts_with("same") || verdict.starts_with("Differs: ") || verdict.starts_with("Decision: ");
        assert!(is_one, "{name}: {verdict}");
    }
}

#[test]
fn every_row_has_a_mutation_and_nothing_else_has() {
    let (rows, mutations) = (table(), mutations());
    assert!(rows.keys().eq(mutations.keys()), "{:?} and {:?}", rows.keys(), mutations.keys());
}

#[test]
fn every_mutation_applies_to_one_place() {
    for (name, [file, text, broken]) in mutations() {
        let there = read(&format!("src/{file}")).matches(text.as_str()).count();
        assert_eq!(there, 1, "{name}: so often stands in {file}: {text}");
        for cell in [&text, &broken] {
            assert!(!cell.is_empty() && cell.trim() == cell.as_str(), "{name}: spaces around, or nothing: {cell:?}");
        }
        assert_ne!(text, broken, "{name}: nothing changes");
    }
}
