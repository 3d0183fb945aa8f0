//! `bbrlab score`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;

use super::{Dir, stderr};

fn json(dir: &Dir, args: &[&str]) -> serde_json::Value {
    let output = dir.bbrlab(args);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("the command writes JSON")
}

#[test]
fn a_score_has_the_means_of_all_algorithms_and_the_same_values_each_time() {
    let dir = Dir::new("score");
    let args = ["score", "bbr3", "bbr1", "--criterion", "5.1.3", "--repeat", "2", "--json", "-"];
    let card = json(&dir, &args);
    let measure = &card["criteria"][0]["measures"][0];
    let names: Vec<_> = measure["means"].as_array().unwrap().iter().map(|mean| mean["algorithm"].clone()).collect();
    assert_eq!(names, ["bbr3", "bbr1", "cubic", "reno"]);
    // BBRv1's known fault: sustained loss in shallow buffers.
    assert_eq!(measure["subjects"][1]["standing"], "worst", "{measure}");
    assert_eq!(measure["subjects"][1]["against"].as_array().unwrap().len(), 3);
    assert_eq!(card, json(&dir, &args));
}

#[test]
fn another_set_has_other_paths() {
    let dir = Dir::new("score-set");
    let of = |set: &str| {
        let args =
            ["score", "bbr1", "--compare", "cubic", "--criterion", "7.2", "--repeat", "1", "--set", set, "--json", "-"];
        json(&dir, &args)["criteria"][0]["cases"].clone()
    };
    assert_ne!(of("0"), of("1"));
}

#[test]
fn parameters_of_an_algorithm_reach_its_runs_and_the_page_is_written() {
    let dir = Dir::new("score-parameters");
    let args = [
        "score",
        "bbr3,loss_thresh=50%",
        "bbr3",
        "--compare",
        "bbr3",
        "--criterion",
        "5.1.3",
        "--repeat",
        "1",
        "--json",
        "-",
        "--report",
        "page.html",
    ];
    let card = json(&dir, &args);
    let means = &card["criteria"][0]["measures"][0]["means"];
    assert_ne!(means[0]["mean"], means[1]["mean"]);
    assert!(fs::read_to_string(dir.0.join("page.html")).unwrap().contains("Protection against high packet loss"));
}

/// The two logs of a run, sequence and document, in a folder of its case count once, and give its own score.
#[test]
fn a_folder_of_qlogs_scores_as_the_run_that_wrote_them() {
    let dir = Dir::new("score-qlogs");
    let of = ["--criterion", "6.1"];
    assert!(dir.bbrlab(&[&["score", "bbr3", "--cases", "cases"][..], &of].concat()).status.success());
    fs::create_dir_all(dir.0.join("results/6.1-1-1")).unwrap();
    assert!(dir.bbrlab(&["run", "cases/6.1-1.toml", "--qlog", "results/6.1-1-1/", "--quiet"]).status.success());
    assert_eq!(fs::read_dir(dir.0.join("results/6.1-1-1")).unwrap().count(), 2);
    let args = ["score", "mine=results", "bbr3", "--compare", "cubic", "--repeat", "1", "--json", "-"];
    let card = json(&dir, &[&args[..], &of].concat());
    let score_of = |name: &str| {
        let runs = card["criteria"][0]["cases"][0]["runs"].as_array().unwrap();
        let run = runs.iter().find(|run| run["algorithm"] == name).unwrap();
        run["values"][0][0].as_f64().unwrap()
    };
    let ratio = score_of("mine") / score_of("bbr3");
    assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
}
