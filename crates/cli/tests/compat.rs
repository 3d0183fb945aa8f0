//! Files of released versions, one directory a version in `tests/compat`: this version reads them, and writes what they have.
//! A release adds its directory, and changes none (docs/compatibility.md).
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn versions() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/compat");
    let found: Vec<_> = fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!found.is_empty());
    found
}

/// Standard output of a command that succeeds.
fn says(arguments: &[&str]) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_bbrlab")).args(arguments).output().unwrap();
    let fault = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "bbrlab {arguments:?}: {} {fault}", done.status);
    String::from_utf8(done.stdout).unwrap()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Asserts that every key of the old value is in the new one, with the same type. A value may become null, or stop being it.
/// The keys of `state_s` are the states that a flow visited, so they change with its behaviour.
fn holds(at: &str, old: &Value, new: &Value) {
    let (was, is) = (kind(old), kind(new));
    assert!(was == is || was == "null" || is == "null", "{at}: {was} before, {is} now");
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in old {
                let Some(found) = new.get(key) else {
                    assert!(at.ends_with(".state_s"), "{at}.{key} is gone");
                    continue;
                };
                holds(&format!("{at}.{key}"), value, found);
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            if let (Some(old), Some(new)) = (old.first(), new.first()) {
                holds(&format!("{at}[0]"), old, new);
            }
        }
        _ => {}
    }
}

/// The file beside what this command writes in its place.
fn same_keys(file: &Path, arguments: &[&str]) {
    let old: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let new: Value = serde_json::from_str(&says(arguments)).unwrap();
    assert_eq!(old["schema"], new["schema"], "a schema needs a directory of its own: {}", file.display());
    holds("", &old, &new);
}

#[test]
fn scenarios_and_results_of_every_version_run_and_keep_their_keys() {
    for version in versions() {
        let (scenario, result) = (version.join("scenario.toml"), version.join("result.json"));
        for file in [&scenario, &result] {
            same_keys(&result, &["run", file.to_str().unwrap(), "--json", "-"]);
        }
        says(&["compare", result.to_str().unwrap(), scenario.to_str().unwrap()]);
    }
}

#[test]
fn verdicts_keep_their_keys() {
    for version in versions() {
        same_keys(&version.join("reproduce.json"), &["reproduce", "F8", "--json", "-"]);
        let conform = ["conform", "bbr3", "--case", "14", "--cell", "20mbit/100ms", "--json", "-"];
        same_keys(&version.join("conform.json"), &conform);
    }
}

#[test]
fn a_missing_key_and_another_type_are_seen() {
    let old = serde_json::json!({ "a": [{ "b": 1 }], "c": null });
    holds("", &old, &serde_json::json!({ "a": [{ "b": 2, "d": 3 }], "c": 4 }));
    for new in [serde_json::json!({ "a": [{}], "c": null }), serde_json::json!({ "a": [{ "b": "1" }], "c": null })] {
        assert!(std::panic::catch_unwind(|| holds("", &old, &new)).is_err());
    }
}
