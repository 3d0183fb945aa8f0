//! Core's sources contain no float, no unsafe code, and neither std nor alloc; its own tests may use floats.
//! `tools/nostd.sh` checks the same of the object code.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::path::{Path, PathBuf};

/// Collects the library's files, without its test modules.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("the folder can be read").path();
        let is_test = path.file_stem().is_some_and(|name| name == "tests");
        if path.is_dir() && !is_test {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") && !is_test {
            found.push(path);
        }
    }
}

fn lines_with(words: &[&str]) -> Vec<String> {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    assert!(files.len() > 15, "the sources were not found: {files:?}");
    let mut hits = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a source is text");
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let mut tokens = code.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            if tokens.any(|token| words.contains(&token)) {
                hits.push(format!("{}:{}: {line}", file.display(), number + 1));
            }
        }
    }
    hits
}

#[test]
fn no_source_of_core_names_a_float_type() {
    assert_eq!(lines_with(&["f16", "f32", "f64", "f128"]), Vec::<String>::new());
}

#[test]
fn no_source_of_core_is_unsafe() {
    assert_eq!(lines_with(&["unsafe"]), Vec::<String>::new());
}

#[test]
fn no_source_of_core_names_std_or_alloc() {
    assert_eq!(lines_with(&["std", "alloc", "Vec", "Box", "String", "HashMap"]), Vec::<String>::new());
}
