//! `bbrlab compare`, and alternatives of a flow in `bbrlab run`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;

use serde_json::Value;

use super::{Dir, stderr, stdout};

const PATH: [&str; 7] = ["run", "--rate", "10mbit", "--duration", "4s", "--buffer", "4bdp"];

fn json(dir: &Dir, arguments: &[&str]) -> Value {
    let output = dir.bbrlab(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn outcome(found: &Value, measure: &str) -> String {
    let line = found["lines"].as_array().unwrap().iter().find(|line| line["measure"] == measure);
    line.unwrap()["sides"][1]["outcome"].as_str().unwrap().to_owned()
}

#[test]
fn alternatives_results_folders_and_scenarios_give_the_same_comparison() {
    let dir = Dir::new("compare");
    let run = |flow: &str, file: &str| {
        let output = dir.bbrlab(&[&PATH[..], &["--flow", flow, "--repeat", "6", "--quiet", "--json", file]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
    };
    run("cubic", "cubic.json");
    run("bbr3", "bbr3.json");
    let whole = json(&dir, &[&PATH[..], &["--flow", "cubic | bbr3", "--repeat", "6", "--json", "-"]].concat());
    assert_eq!(outcome(&whole, "queue_p50_ms"), "better", "{whole:#}");
    assert_eq!(whole["differing"].as_array().unwrap().len(), 1, "{whole:#}");
    let results = json(&dir, &["compare", "cubic.json", "bbr3.json", "--json", "-"]);
    assert_eq!(results, whole);
    // Folders: one case each, under the same name.
    for (file, folder) in [("cubic.json", "cubic"), ("bbr3.json", "bbr3")] {
        fs::create_dir(dir.0.join(folder)).unwrap();
        fs::copy(dir.0.join(file), dir.0.join(folder).join("case.json")).unwrap();
    }
    let folders = json(&dir, &["compare", "cubic", "bbr3", "--json", "-"]);
    assert_eq!((&folders["answer"], &folders["cases"][0]), (&whole["answer"], &"case".into()));
    // Scenarios, which are run.
    for flow in ["cubic", "bbr3"] {
        let text = format!("rate = \"10mbit\"\nduration = \"4s\"\nbuffer = \"4bdp\"\nflow = [\"{flow}\"]\n");
        fs::write(dir.0.join(format!("{flow}.toml")), text).unwrap();
    }
    let arguments = ["compare", "cubic.toml", "bbr3.toml", "--repeat", "6", "--json", "-", "--report", "page.html"];
    assert_eq!(json(&dir, &arguments), whole);
    let page = dir.text("page.html");
    assert!(
        page.contains("Goodput, delay and queue of the first seed") && page.contains("What differs in the scenarios")
    );
    // Without a folder's or a result's series there is no figure over time.
    let only = ["compare", "cubic.json", "bbr3.json", "--report", "results.html"];
    assert!(dir.bbrlab(&only).status.success());
    assert!(!dir.text("results.html").contains("of the first seed"));
}

#[test]
fn an_algorithm_compared_with_itself_differs_in_nothing() {
    let dir = Dir::new("compare-aa");
    let output = dir.bbrlab(&[&PATH[..], &["--flow", "bbr3 | bbr3", "--flow", "cubic", "--repeat", "6"]].concat());
    let text = stdout(&output);
    assert!(output.status.success() && !text.contains("better") && !text.contains("worse"), "{text}");
    assert!(!text.contains("differs") && text.contains("no clear difference"), "{text}");
}

#[test]
fn a_transfer_that_does_not_end_has_no_completion_time() {
    let dir = Dir::new("compare-unfinished");
    let flows = "bbr3,size=1MB | cubic,size=1GB";
    let output = dir.bbrlab(&["run", "--flow", flows, "--duration", "2s", "--report", "page.html"]);
    let line = |text: &str| text.lines().find(|line| line.starts_with("completion time")).unwrap().to_owned();
    let words: Vec<String> = line(&stdout(&output)).split_whitespace().map(str::to_owned).collect();
    assert!(words[3] == "s" && words[4..6] == ["–", "–"], "{words:?}");
    assert!(!dir.text("page.html").contains("NaN s"));
}

#[test]
fn folders_without_a_common_name_are_refused() {
    let dir = Dir::new("compare-names");
    for folder in ["a", "b"] {
        fs::create_dir(dir.0.join(folder)).unwrap();
        let file = format!("{folder}/{folder}.json");
        assert!(dir.bbrlab(&[&PATH[..], &["--flow", "bbr1", "--quiet", "--json", &file]].concat()).status.success());
    }
    let output = dir.bbrlab(&["compare", "a", "b"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output), "bbrlab: a, b: no result has the same file name in all of them\n");
    let output = dir.bbrlab(&["compare", "-", "-"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output), "bbrlab: -: standard input can be read only once; name a file\n");
}
