//! `bbrlab watch` on this test's own loopback connections.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const COMMAND: &str = env!("CARGO_BIN_EXE_bbrlab");

/// Both ends of a connection that has sent data, and the listening port.
struct Pair {
    _ends: (TcpStream, TcpStream),
    _listener: TcpListener,
    port: u16,
}

fn pair() -> Pair {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    client.write_all(&[1; 1000]).unwrap();
    server.read_exact(&mut [0; 1000]).unwrap();
    Pair { _ends: (client, server), _listener: listener, port }
}

fn watch(args: &[&str], port: u16) -> Output {
    let port = port.to_string();
    Command::new(COMMAND).arg("watch").args(args).args(["--port", &port]).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_table_has_both_ends_of_a_connection_and_nothing_else() {
    let pair = pair();
    let table = text(&watch(&["--once", "--interval", "100ms"], pair.port));
    assert!(table.starts_with("local port  remote"), "{table}");
    assert_eq!(table.matches(&pair.port.to_string()).count(), 2, "{table}");
    assert!(table.ends_with("\n2 connections, 0 bit/s acknowledged\n"), "{table}");
}

#[test]
fn a_line_of_json_says_what_was_sent() {
    let pair = pair();
    let lines = text(&watch(&["--once", "--json", "--interval", "100ms"], pair.port));
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut sent: Vec<u64> = lines.iter().map(|line| line["sent_bytes"].as_u64().unwrap()).collect();
    sent.sort_unstable();
    assert_eq!(sent, [0, 1000]);
    assert!(lines.iter().all(|line| line["rtt_ms"].as_f64().unwrap() < 1000.0 && line["cc"].is_string()));
}

#[test]
fn lines_end_with_their_reader() {
    let pair = pair();
    let mut child = Command::new(COMMAND)
        .args(["watch", "--json", "--interval", "100ms", "--port", &pair.port.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    reader.read_line(&mut String::new()).unwrap();
    drop(reader);
    assert!(child.wait().unwrap().success());
}

/// An exporter, killed on drop.
struct Exporter(Child);

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts an exporter, and returns its address.
fn exporter(more: &[&str]) -> (Exporter, SocketAddr) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let child = Command::new(COMMAND)
        .args(["watch", "--interval", "100ms", "--prometheus", &free.to_string()])
        .args(more)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut exporter = Exporter(child);
    let mut said = String::new();
    BufReader::new(exporter.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, format!("http://{free}/metrics\n"));
    (exporter, free)
}

fn get(from: SocketAddr, path: &str, more: &str) -> String {
    let mut stream = TcpStream::connect(from).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {from}\r\n{more}Connection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn metrics_are_served_as_openmetrics() {
    let pair = pair();
    let (_exporter, from) = exporter(&[]);
    let wanted = format!("port=\"{}\"}} 1\n", pair.port);
    let found = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        get(from, "/metrics", "").contains(&wanted)
    });
    let reply = get(from, "/metrics", "");
    assert!(found, "{reply}");
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    assert!(reply.to_lowercase().contains("content-type: application/openmetrics-text"), "{reply}");
    assert!(reply.contains("# UNIT bbrlab_tcp_rtt_seconds seconds\n") && reply.contains("# EOF\n"), "{reply}");
    assert!(!reply.contains("127.0.0.1"), "no label holds an address: {reply}");
    assert!(get(from, "/", "").starts_with("HTTP/1.1 404"));
}

/// Half send nothing, the others half a request.
#[test]
fn a_thousand_idle_and_slow_clients_do_not_keep_a_scraper_out() {
    let (exporter, from) = exporter(&[]);
    let idle: Vec<TcpStream> = (0..1_000)
        .map(|nth| {
            let mut client = TcpStream::connect(from).unwrap();
            if nth % 2 == 0 {
                client.write_all(b"GET /metrics HTTP/1.1\r\nHost:").unwrap();
            }
            client
        })
        .collect();
    assert!(get(from, "/metrics", "").starts_with("HTTP/1.1 200"));
    let threads = std::fs::read_dir(format!("/proc/{}/task", exporter.0.id())).unwrap().count();
    assert!(threads < 10, "{threads} threads");
    drop(idle);
}

#[test]
fn a_token_is_asked_for_where_there_is_one() {
    let file = std::env::temp_dir().join(format!("bbrlab-token-{}", std::process::id()));
    std::fs::write(&file, "0123456789abcdef\n").unwrap();
    let (_exporter, from) = exporter(&["--token", file.to_str().unwrap()]);
    for wrong in ["", "Authorization: Bearer 0123456789abcdee\r\n", "Authorization: Basic 0123456789abcdef\r\n"] {
        assert!(get(from, "/metrics", wrong).starts_with("HTTP/1.1 401"), "{wrong}");
    }
    for right in ["Authorization: Bearer 0123456789abcdef\r\n", "Authorization: bearer 0123456789abcdef\r\n"] {
        assert!(get(from, "/metrics", right).starts_with("HTTP/1.1 200"), "{right}");
    }
    std::fs::remove_file(file).unwrap();
}
