//! `bbrlab serve` and `bbrlab get` with each other, and with misbehaving clients and servers; on loopback only.
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![cfg(feature = "quic")]

mod bench;
mod get;
mod limits;
mod qlog;

use std::fs;

use bench::{Dir, Served, noise, said, text};

#[test]
fn a_file_comes_whole_over_both_protocols_with_what_was_measured() {
    let (from, to) = (Dir::new("whole"), Dir::new("whole-to"));
    let bytes = noise(3_000_000);
    from.file("deep/a file", &bytes);
    let server = Served::new(&from, &["--tcp-cc", "reno", "--cc", "bbr3,loss_thresh=1%"]);
    for (url, protocol, cc) in [
        (server.http("/deep/a%20file"), "http/1.1", "reno"),
        (server.https("/deep/a%20file"), "h3", "bbr3,loss_thresh=1%"),
    ] {
        let done = to.measured(&["--spki", &server.spki, &url]);
        assert!(to.read("a file") == bytes, "{url}");
        let one = &done[0];
        assert_eq!((one["protocol"].as_str(), text(&one["bytes"])), (Some(protocol), 3_000_000));
        assert_eq!(one["sender"]["cc"], cc);
        assert!(one["sender"]["packets"].as_u64().unwrap() > 40, "{one}");
        assert!(one["sender"]["rtt_min_ms"].as_f64().unwrap() > 0.0 && one["rtt_ms"]["min"].as_f64().unwrap() > 0.0);
        let (connect, first, all) = (&one["connect_s"], &one["first_byte_s"], one["fct_s"].as_f64().unwrap());
        assert!(connect.as_f64() < first.as_f64() && first.as_f64().unwrap() <= all);
        assert!((one["goodput_bps"].as_f64().unwrap() * all / 24e6 - 1.0).abs() < 1e-6);
        assert!(fs::read_dir(&to.0).unwrap().count() == 1, "nothing else is left");
        fs::remove_file(to.0.join("a file")).unwrap();
    }
}

#[test]
fn bytes_made_on_the_fly_are_the_same_over_both_protocols_and_go_to_standard_output() {
    let dir = Dir::new("fly");
    let server = Served::new(&dir, &["--cc", "s2n:cubic"]);
    let over_tcp = dir.get(&["--output", "-", &server.http("/bytes/200kB")]);
    let over_quic = dir.get(&["--output", "-", "--insecure", &server.https("/bytes/200kB")]);
    assert!(over_tcp.status.success() && over_quic.status.success(), "{}", said(&over_quic));
    assert!(over_tcp.stdout.len() == 200_000 && over_tcp.stdout == over_quic.stdout);
    assert!(dir.refused(&[&server.http("/bytes/11GB")]).contains("the server answers 404"));
}

#[test]
fn transfers_are_repeated_some_at_once_and_nothing_is_kept() {
    let dir = Dir::new("repeat");
    let server = Served::new(&dir, &[]);
    let done = dir.measured(&[
        "--repeat",
        "6",
        "-P",
        "3",
        "--insecure",
        &server.https("/bytes/1MB"),
        &server.http("/bytes/2MB"),
    ]);
    let sizes: Vec<u64> = done.iter().map(|one| text(&one["bytes"])).collect();
    assert_eq!(sizes, [[1_000_000; 6], [2_000_000; 6]].concat());
    assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 0);
    let table = dir.get(&["--repeat", "2", &server.http("/bytes/1MB")]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.starts_with("url ") && table.contains("http/1.1") && table.contains("\nmedian "), "{table}");
}

#[test]
fn each_answer_is_a_line_of_the_log() {
    let dir = Dir::new("log");
    let mut server = Served::new(&dir, &["--log"]);
    for (url, line) in [
        (server.http("/bytes/1kB"), "http/1.1 GET /bytes/1kB 200"),
        (server.http("/missing"), "http/1.1 GET /missing 404"),
        (server.https("/bytes/1kB"), "h3 GET /bytes/1kB 200"),
        (server.https("/missing"), "h3 GET /missing 404"),
    ] {
        dir.get(&["--insecure", "--output", "/dev/null", &url]);
        // Over QUIC, get also requests the sender's statistics.
        let logged =
            server.lines.find(|line| !line.as_ref().unwrap().contains("/.well-known/bbrlab ")).unwrap().unwrap();
        let (from, what) = logged.split_once(' ').unwrap();
        assert!(from.starts_with("127.0.0.1:") && what == line, "{logged}");
    }
}
