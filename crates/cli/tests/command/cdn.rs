//! End-to-end tests of `bbrlab cdn`: the user's own populations, one-line errors, the same figures with any number of
//! threads.
//! The catalogue's own population takes seconds and is not run here.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;

use super::{Dir, refused, stderr};

const POPULATION: &str = "users = 6\nspan = '60s'\n[[class]]\nname = 'home'\nrate = '10mbit'\nrtt = '30ms'\nloss = '2%'\n\
                          size = { lognormal = { median = '200kB', sigma = 0.5 } }\nobjects = 2\n";
const PATHS: &str = "user,class,start_s,rate,rtt,loss,buffer,size\na,home,0,20mbit,40ms,1%,0.5bdp,500kB\n\
                     b,home,9,20mbit,60ms,1%,1bdp,500kB\na,home,0,20mbit,40ms,1%,0.5bdp,200kB\n";

#[test]
fn a_population_gives_table_page_and_json_the_same_whatever_the_threads() {
    let dir = Dir::new("threads");
    fs::write(dir.0.join("users.toml"), POPULATION).unwrap();
    let seen: Vec<[Vec<u8>; 3]> = ["1", "3"]
        .iter()
        .map(|threads| {
            let output = dir
                .command(&["cdn", "users.toml", "--report", "r.html", "--json", "r.json"])
                .env("RAYON_NUM_THREADS", threads)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
            [output.stdout, fs::read(dir.0.join("r.html")).unwrap(), fs::read(dir.0.join("r.json")).unwrap()]
        })
        .collect();
    assert!(seen[0] == seen[1]);
    let json: serde_json::Value = serde_json::from_slice(&seen[0][2]).unwrap();
    assert_eq!((&json["users"], &json["gains"][0]["verdict"]), (&6.into(), &"faster".into()));
}

#[test]
fn a_table_of_paths_is_read_the_same_way() {
    let dir = Dir::new("table");
    fs::write(dir.0.join("paths.csv"), PATHS).unwrap();
    let output = dir.bbrlab(&["cdn", "paths.csv", "--algorithms", "bbr3,bbr1,cubic", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let gains = json["gains"].as_array().unwrap();
    assert_eq!(gains.iter().map(|gain| &gain["algorithm"]).collect::<Vec<_>>(), ["bbr3", "bbr1"]);
    assert_eq!(gains[0]["objects"], 3);
}

#[test]
fn a_slip_is_one_line_with_file_and_line_and_status_2() {
    let dir = Dir::new("slips");
    let long = "x".repeat(10);
    for (file, text, line) in [
        ("p.toml", POPULATION.replace("'10mbit'", "'ten'"), "p.toml:5: class 1: rate: \"ten\" is not a rate"),
        (
            "p.toml",
            POPULATION.replace("objects = 2", "object = 2"),
            "p.toml:9: class 1: unknown key \"object\"; did you mean objects?",
        ),
        ("p.csv", PATHS.replace("60ms", "sixty"), "p.csv:3: column rtt: \"sixty\" is not a time"),
        ("p.csv", PATHS.replace("buffer", "buffers"), "p.csv:1: column \"buffers\" is unknown (did you mean buffer?)"),
        ("p.parquet", long, "p.parquet:1: it is not a readable Parquet file"),
    ] {
        fs::write(dir.0.join(file), text).unwrap();
        refused(&dir, &["cdn", file, "--report", "r.html"], &format!("bbrlab: {line}"));
        assert!(!dir.0.join("r.html").exists());
    }
    for (args, line) in [
        (&["cdn", "none.csv"][..], "none.csv: it does not exist"),
        (&["cdn", "p.txt"], "p.txt: it does not exist"),
        (&["cdn", "--algorithms", "bbr1"], "--algorithms: there is nothing to compare"),
        (&["cdn", "--activation", "soon"], "--activation: \"soon\" is not a time"),
    ] {
        refused(&dir, args, &format!("bbrlab: {line}"));
    }
}
