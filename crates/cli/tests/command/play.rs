//! `bbrlab play`. A build without the page refuses; one with it serves it on loopback.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use super::{Dir, refused};

/// A running command, ended on drop.
struct Playing(Child);

impl Drop for Playing {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the command. Returns it with the address that it prints; `None` for a build without the page.
fn start(dir: &Dir, arguments: &[&str]) -> Option<(Playing, String)> {
    let mut command = dir.command(arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let playing = Playing(child);
    (!line.is_empty()).then(|| (playing, line.trim_end().to_owned()))
}

fn asked(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    String::from_utf8_lossy(&reply).into_owned()
}

#[test]
fn the_page_is_served_on_loopback_with_a_strict_policy() {
    let dir =
        Dir::new("play").with("own.toml", "rate = '5mbit'\nflow = ['bbr3']\n[[expect]]\nmeasure = 'r.jain'\nmin = 0\n");
    let Some((_playing, url)) = start(&dir, &["play", "own.toml", "--rtt", "20ms", "--no-open"]) else {
        refused(&dir, &["play", "--no-open"], "this build has no page; `make web build` builds it");
        return;
    };
    let (address, fragment) = url.strip_prefix("http://").unwrap().split_once("/#").unwrap();
    assert!(fragment.contains("json=%7B") && fragment.ends_with("&rtt=20ms"), "{fragment}");
    assert!(address.starts_with("127.0.0.1:") && !fragment.contains("jain"), "{url}");
    let get = |path: &str, host: &str, more: &str| {
        asked(address, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n"))
    };
    let page = get("/", address, "Accept-Encoding: gzip\r\n");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("content-encoding: gzip"), "{page}");
    assert!(
        page.contains("content-security-policy: default-src 'none'; script-src 'self' 'wasm-unsafe-eval'"),
        "{page}"
    );
    assert!(get("/bbrlab.wasm", address, "Accept-Encoding: gzip\r\n").contains("content-type: application/wasm"));
    for (path, host, status) in [("/../Cargo.toml", address, "404"), ("/", "example.org", "421"), ("/", address, "406")]
    {
        assert!(get(path, host, "").starts_with(&format!("HTTP/1.1 {status}")), "{path} {host}");
    }
}

#[test]
fn a_figure_of_a_run_links_to_the_page_of_that_run() {
    let dir = Dir::new("play-link").with("own.toml", "duration = '1s'\nflow = ['bbr3', 'cubic']\n");
    let output = dir.bbrlab(&["run", "own.toml", "--seed", "7", "--report", "r.html", "--json", "r.json"]);
    assert_eq!(output.status.code(), Some(0));
    let report = dir.text("r.html");
    let links: Vec<&str> =
        report.split("href=\"http://127.0.0.1:8227/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(links.len(), 2);
    assert!(links[0].contains("%22seed%22:7"), "{}", links[0]);
    let repeated = dir.bbrlab(&["run", "own.toml", "--repeat", "2", "--report", "repeated.html"]);
    assert_eq!(repeated.status.code(), Some(0));
    let repeated = dir.text("repeated.html");
    assert!(repeated.contains("%22seed%22:1") && repeated.contains("while <code>bbrlab play</code> runs"));
    // The result beside the report starts the same page.
    let Some((_playing, url)) = start(&dir, &["play", "r.json", "--port", "0", "--no-open"]) else { return };
    assert_eq!(url.split_once("/#").unwrap().1, &links[0][1..]);
}

#[test]
fn a_second_page_takes_a_free_port() {
    let dir = Dir::new("play-ports");
    let Some((_first, first)) = start(&dir, &["play", "--no-open"]) else { return };
    let (_second, second) = start(&dir, &["play", "--no-open"]).unwrap();
    assert_ne!(first, second);
    let port = second.trim_end_matches('/').rsplit(':').next().unwrap();
    refused(&dir, &["play", "--no-open", "--port", port], "bbrlab: --port: ");
}
