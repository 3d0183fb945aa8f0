//! Limits of `bbrlab serve`: access to files, memory, connections.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, mkfifo};

use crate::bench::{COMMAND, Dir, LONG, Served, noise};

#[test]
fn what_lies_outside_the_root_is_not_served() {
    let dir = Dir::new("root");
    dir.file("secret", b"outside");
    dir.file("root/inside", b"inside");
    let root = dir.0.join("root");
    symlink("inside", root.join("good")).unwrap();
    symlink("../secret", root.join("out")).unwrap();
    symlink(dir.0.join("secret"), root.join("absolute")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("/etc", root.join("etc")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    mkfifo(&root.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let server = Served::of(&root, &[]);
    for path in ["/inside", "/good", "/./inside", "//inside", "/%69nside"] {
        assert_eq!(server.ask(&format!("GET {path} HTTP/1.1")).2, b"inside", "{path}");
    }
    for path in [
        "/out",
        "/absolute",
        "/up/secret",
        "/etc/passwd",
        "/loop",
        "/pipe",
        "/",
        "/up",
        "/../secret",
        "/../root/inside",
        "/%2e%2e/secret",
        "/%2E./secret",
        "/..%2fsecret",
        "/x/../../secret",
        "/inside/../../secret",
        "/..%5csecret",
        "/%252e%252e/secret",
        "/inside%00",
        "/%00",
        "/inside/",
        "/etc/..%2f..%2fetc/passwd",
        "/....//secret",
        "/%c0%ae%c0%ae/secret",
    ] {
        let (status, _, content) = server.ask(&format!("GET {path} HTTP/1.1"));
        assert!(status == 404 || path == "/inside/", "{path}: {status}");
        assert!(!content.windows(7).any(|part| part == b"outside") && !content.starts_with(b"root:"), "{path}");
    }
    for path in ["/out", "/etc/passwd", "/..%2fsecret", "/%2e%2e/secret"] {
        let line = dir.refused(&["--insecure", "--output", "x", &server.https(path)]);
        assert!(line.contains("the server answers 404"), "{line}");
    }
    assert!(!dir.0.join("x").exists() && !dir.0.join("x.part").exists());
}

#[test]
fn a_range_of_a_file_is_served() {
    let dir = Dir::new("range");
    dir.file("ten", b"0123456789");
    let server = Served::new(&dir, &[]);
    let ask = |more: &str| server.ask(&format!("GET /ten HTTP/1.1{more}"));
    let (status, _, content) = ask("");
    assert_eq!((status, content.as_slice()), (200, b"0123456789".as_slice()));
    for (range, content) in [("5-9", "56789"), ("5-", "56789"), ("-3", "789"), ("0-0", "0"), ("8-99", "89")] {
        let (status, head, found) = ask(&format!("\r\nRange: bytes={range}"));
        assert_eq!((status, found.as_slice()), (206, content.as_bytes()), "{range}");
        assert!(head.contains("content-range: bytes ") && head.contains("/10"), "{head}");
    }
    assert_eq!(ask("\r\nRange: bytes=5-\r\nIf-Range: \"other\"").0, 200);
    let (status, head, _) = ask("\r\nRange: bytes=10-");
    assert!(status == 416 && head.contains("content-range: bytes */10"), "{head}");
    for range in ["bytes=0-1,3-4", "bytes=x", "lines=1-2"] {
        assert_eq!(ask(&format!("\r\nRange: {range}")).0, 200, "{range}");
    }
    let (status, head, content) = server.ask("HEAD /ten HTTP/1.1");
    assert!(status == 200 && head.contains("content-length: 10") && content.is_empty(), "{head}");
    let (status, head, _) = server.ask("POST /ten HTTP/1.1\r\nContent-Length: 0");
    assert!(status == 405 && head.contains("allow: get, head"), "{head}");
}

#[test]
fn a_huge_request_is_refused_and_kept_nowhere() {
    let dir = Dir::new("huge");
    dir.file("ten", b"0123456789");
    let server = Served::new(&dir, &[]);
    let before = server.peak_mb();
    for head in [
        format!("GET /ten HTTP/1.1\r\nX: {}", "x".repeat(1 << 20)),
        format!("GET /{} HTTP/1.1", "x".repeat(1 << 20)),
        format!("GET /ten HTTP/1.1{}", "\r\nX: y".repeat(10_000)),
    ] {
        let mut stream = server.dial();
        let mut answer = Vec::new();
        for _ in 0..50 {
            // The server may close the connection before it has everything.
            if stream.write_all(head.as_bytes()).is_err() {
                break;
            }
        }
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.windows(10).any(|part| part == b"0123456789"), "it was answered");
    }
    let line = dir.refused(&["--insecure", "--output", "x", &server.https(&format!("/{}", "x".repeat(50_000)))]);
    assert!(line.len() < 1_000, "{line}");
    assert!(server.peak_mb() < before + 50, "{} MB, before {before} MB", server.peak_mb());
    assert_eq!(server.ask("GET /ten HTTP/1.1").0, 200);
}

/// Reads until the end of the stream, which must come within the test's timeout.
fn end_of(stream: &mut TcpStream) -> usize {
    let (mut room, mut taken) = (vec![0; 1 << 16], 0);
    loop {
        match stream.read(&mut room) {
            Ok(0) => return taken,
            Ok(bytes) => taken += bytes,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return taken,
            Err(error) => panic!("{error}: the connection is still there"),
        }
    }
}

#[test]
fn slow_requests_idle_clients_and_slow_readers_lose_their_place() {
    let dir = Dir::new("slow");
    let server = Served::new(&dir, &["--connections", "12", "--patience", "500ms"]);
    let mut drips = server.dial();
    let mut writer = drips.try_clone().unwrap();
    let dripping = thread::spawn(move || {
        writer.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        while writer.write_all(b"X: y\r\n").is_ok() {
            thread::sleep(Duration::from_millis(50));
        }
    });
    let mut idle = server.dial();
    idle.write_all(b"GET /bytes/1B HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    // All connections but these two.
    let mut readers: Vec<TcpStream> = (0..10)
        .map(|_| {
            let mut stream = server.dial();
            stream.write_all(b"GET /bytes/10GB HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            stream
        })
        .collect();
    // One more waits until they are gone.
    let done = dir.measured(&["--output", "/dev/null", &server.http("/bytes/1MB")]);
    assert!(done[0]["fct_s"].as_f64().unwrap() < LONG.as_secs_f64());
    // The last ones have reached their timeout too.
    thread::sleep(Duration::from_secs(3));
    end_of(&mut drips);
    dripping.join().unwrap();
    end_of(&mut idle);
    for reader in &mut readers {
        assert!(end_of(reader) < 1_000_000_000);
    }
    assert!(server.peak_mb() < 150, "{} MB", server.peak_mb());
}

/// A download in progress, killed on drop.
struct Getting(Child);

impl Getting {
    fn new(dir: &Dir, url: &str) -> Self {
        let part = dir.0.join("big.part");
        // A leftover of an earlier one would be mistaken for its own.
        let _ = fs::remove_file(&part);
        let spawn = || {
            let mut get = Command::new(COMMAND);
            get.args(["get", "--insecure", "--output", "big", url]).current_dir(&dir.0);
            Self(get.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
        };
        let mut getting = spawn();
        for _ in 0..3_000 {
            if fs::metadata(&part).is_ok_and(|meta| meta.len() > 1_000_000) {
                return getting;
            }
            // The place of a connection that has just ended may not be free yet.
            if getting.0.try_wait().unwrap().is_some() {
                getting = spawn();
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("nothing comes");
    }
}

impl Drop for Getting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn clients_over_quic_that_stop_reading_or_vanish_lose_their_place() {
    let dir = Dir::new("vanish");
    let server = Served::new(&dir, &["--connections", "1", "--patience", "3s"]);
    let is_freed = || {
        (0..100).any(|_| {
            thread::sleep(Duration::from_millis(100));
            dir.get(&["--insecure", "--output", "/dev/null", &server.https("/bytes/1MB")]).status.success()
        })
    };
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        let getting = Getting::new(&dir, &server.https("/bytes/10GB"));
        let over = dir.refused(&["--insecure", "--output", "/dev/null", &server.https("/bytes/1MB")]);
        assert!(over.contains("the server closed the connection"), "{over}");
        kill(Pid::from_raw(getting.0.id().cast_signed()), signal).unwrap();
        assert!(is_freed(), "{signal}");
        drop(getting);
        assert!(is_freed(), "{signal}");
    }
    assert!(server.peak_mb() < 200, "{} MB", server.peak_mb());
}

#[test]
fn half_open_handshakes_and_noise_cost_little() {
    let dir = Dir::new("half");
    let server = Served::new(&dir, &["--connections", "2"]);
    let before = server.peak_mb();
    // Long headers of QUIC version 1 without a handshake, short headers, and noise.
    for nth in 0..2_000_u32 {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut datagram = noise(1_200);
        datagram[0] = if nth % 2 == 0 { 0xc3 } else { 0x43 };
        datagram[1..5].copy_from_slice(&1_u32.to_be_bytes());
        datagram[5] = 8;
        datagram[6..10].copy_from_slice(&nth.to_be_bytes());
        socket.send_to(&datagram, server.quic).unwrap();
    }
    // Connections that never send a request.
    let open: Vec<TcpStream> = (0..2).map(|_| server.dial()).collect();
    dir.measured(&["--insecure", "--output", "/dev/null", &server.https("/bytes/1MB")]);
    assert!(server.peak_mb() < before + 50, "{} MB, before {before} MB", server.peak_mb());
    drop(open);
    dir.measured(&["--output", "/dev/null", &server.http("/bytes/1MB")]);
}

/// The first datagrams of our client: those of its ClientHello.
fn first_flight(dir: &Dir) -> Vec<Vec<u8>> {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/bytes/1kB", sink.local_addr().unwrap());
    let mut get = Command::new(COMMAND);
    get.args(["get", "--insecure", "--output", "/dev/null", &url]).current_dir(&dir.0);
    let mut get = get.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut flight = Vec::new();
    let mut patience = LONG;
    let mut datagram = [0; 2_048];
    loop {
        sink.set_read_timeout(Some(patience)).unwrap();
        let Ok(length) = sink.recv(&mut datagram) else { break };
        flight.push(datagram[..length].to_vec());
        patience = Duration::from_millis(20);
    }
    get.kill().unwrap();
    get.wait().unwrap();
    flight
}

#[test]
fn clients_that_never_answer_a_handshake_cost_little() {
    let dir = Dir::new("handshakes");
    let server = Served::new(&dir, &["--connections", "2"]);
    let before = server.peak_mb();
    // More than the number of concurrent handshakes without address validation.
    let clients: Vec<UdpSocket> = (0..100)
        .map(|_| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            for datagram in first_flight(&dir) {
                socket.send_to(&datagram, server.quic).unwrap();
            }
            socket
        })
        .collect();
    for client in [&clients[0], &clients[99]] {
        client.set_read_timeout(Some(LONG)).unwrap();
        assert!(client.recv(&mut [0; 2_048]).unwrap() > 0);
    }
    dir.measured(&["--insecure", "--output", "/dev/null", &server.https("/bytes/1MB")]);
    assert!(server.peak_mb() < before + 50, "{} MB, before {before} MB", server.peak_mb());
}

#[test]
fn a_file_that_becomes_shorter_ends_the_answer_early() {
    let dir = Dir::new("shrink");
    let path = dir.file("big", b"");
    File::options().write(true).open(&path).unwrap().set_len(2_000_000_000).unwrap();
    let server = Served::new(&dir, &[]);
    let mut stream = server.dial();
    stream.write_all(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    stream.read_exact(&mut [0; 100_000]).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    assert!(end_of(&mut stream) < 1_000_000_000);
}
