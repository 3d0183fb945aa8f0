//! `bbrlab get`: downloads that end early, or cannot begin.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::bench::{COMMAND, Dir, Served, said};

/// Answers a connection with a canned response, and closes it.
fn impostor(answer: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap()).lines();
        while reader.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let _ = stream.write_all(&answer);
    });
    at
}

#[test]
fn a_truncated_download_is_kept_and_a_wrong_answer_refused() {
    let dir = Dir::new("truncated");
    let short = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123".to_vec();
    let line = dir.refused(&[&format!("http://{}/file", impostor(short))]);
    let says = "the server closed the connection, after 4 of 10 bytes; file.part keeps the received part";
    assert!(line.contains(says), "{line}");
    assert_eq!(dir.read("file.part"), b"0123");
    for (answer, says) in [
        (b"220 mail.example ESMTP\r\n".to_vec(), "does not speak HTTP/1.1"),
        (b"".to_vec(), "the server closed the connection"),
        (b"HTTP/1.1 301 Moved\r\nLocation: /other\r\n\r\n".to_vec(), "it has moved to /other; use that URL"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".to_vec(), "after 0 of 5 bytes\n"),
    ] {
        let line = dir.refused(&["--output", "none", &format!("http://{}/", impostor(answer))]);
        assert!(line.contains(says), "{line}");
    }
    assert!(!dir.0.join("none").exists() && !dir.0.join("none.part").exists());
}

#[test]
fn a_server_that_vanishes_is_noticed_and_what_came_is_kept() {
    let dir = Dir::new("gone");
    for (is_quic, signal) in [(false, Signal::SIGKILL), (true, Signal::SIGKILL), (true, Signal::SIGSTOP)] {
        let server = Served::new(&dir, &[]);
        let url = if is_quic { server.https("/bytes/10GB") } else { server.http("/bytes/10GB") };
        let mut child = Command::new(COMMAND)
            .args(["get", "--insecure", "--patience", "5s", "--output", "big", &url])
            .current_dir(&dir.0)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let part = dir.0.join("big.part");
        while !fs::metadata(&part).is_ok_and(|meta| meta.len() > 1_000_000) {
            assert!(child.try_wait().unwrap().is_none(), "it ended before anything came");
            thread::sleep(Duration::from_millis(5));
        }
        kill(Pid::from_raw(server.child.id().cast_signed()), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        let line = said(&output);
        assert!(output.status.code() == Some(2) && line.lines().count() == 1, "{line}");
        assert!(line.contains("of 10000000000 bytes; big.part keeps the received part"), "{line}");
        assert!(
            line.contains("the server closed the connection") || line.contains("the server stopped sending"),
            "{line}"
        );
        fs::remove_file(part).unwrap();
        kill(Pid::from_raw(server.child.id().cast_signed()), Signal::SIGCONT).unwrap();
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", data_encoding::BASE64.encode(der))
}

#[test]
fn certificates_that_do_not_fit_are_refused_and_say_why() {
    let dir = Dir::new("certificate");
    let authority = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained); // `openssl req -x509` makes one
    let valid = |name: &str, names: &str, from: i32, until: i32| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut certificate = rcgen::CertificateParams::new([names.to_owned()]).unwrap();
        certificate.not_before = rcgen::date_time_ymd(from, 1, 1);
        certificate.not_after = rcgen::date_time_ymd(until, 1, 1);
        if name.ends_with("-ca") {
            certificate.is_ca = authority;
        }
        let certificate = certificate.self_signed(&key).unwrap();
        dir.file(&format!("{name}.crt"), pem("CERTIFICATE", certificate.der()).as_bytes());
        dir.file(&format!("{name}.key"), pem("PRIVATE KEY", &key.serialize_der()).as_bytes());
    };
    valid("own", "127.0.0.1", 2000, 3000);
    valid("other", "other.example", 2000, 3000);
    valid("old", "127.0.0.1", 2000, 2001);
    valid("new", "127.0.0.1", 2999, 3000);
    valid("own-ca", "127.0.0.1", 2000, 3000);
    valid("old-ca", "127.0.0.1", 2000, 2001);
    valid("other-ca", "other.example", 2000, 3000);
    dir.file("text", b"no PEM");
    let own = Served::new(&dir, &["--cert", "own.crt", "--key", "own.key"]);
    let url = own.https("/bytes/1kB");
    for trust in [["--ca", "own.crt"], ["--spki", &own.spki]] {
        dir.measured(&[&["--output", "/dev/null", &url][..], &trust[..]].concat());
    }
    let marked = ["own-ca", "old-ca", "other-ca"]
        .map(|name| Served::new(&dir, &["--cert", &format!("{name}.crt"), "--key", &format!("{name}.key")]));
    let [own_ca, old_ca, other_ca] = marked.each_ref().map(|server| server.https("/bytes/1kB"));
    dir.measured(&["--output", "/dev/null", "--ca", "own-ca.crt", &own_ca]);
    let other = Served::new(&dir, &["--cert", "other.crt", "--key", "other.key"]);
    let elsewhere = other.https("/bytes/1kB");
    let [old, new] = ["old", "new"]
        .map(|name| Served::new(&dir, &["--cert", &format!("{name}.crt"), "--key", &format!("{name}.key")]));
    let [expired, early] = [&old, &new].map(|server| server.https("/bytes/1kB"));
    for (args, says) in [
        (
            vec!["--ca", "other.crt", &url],
            "its certificate is not signed by a trusted authority; give --spki HASH, --ca FILE or --insecure",
        ),
        (vec!["--ca", "other.crt", &elsewhere], "its certificate is for another name; give --spki HASH"),
        (vec!["--ca", "old.crt", &expired], "its certificate has expired"),
        (vec!["--ca", "new.crt", &early], "its certificate is not valid yet"),
        (vec!["--ca", "old-ca.crt", &old_ca], "its certificate has expired"),
        (vec!["--ca", "other-ca.crt", &other_ca], "its certificate is for another name; give --spki HASH"),
        (vec!["--spki", &other.spki, &url], "its key does not match --spki"),
        (vec!["--spki", "short", &url], "--spki: \"short\" is not a SHA-256 hash in Base64"),
        (vec!["--ca", "text", &url], "--ca: text: it contains no certificate in PEM"),
        (vec!["--ca", "missing", &url], "--ca: missing: No such file"),
    ] {
        let line = dir.refused(&[&["--output", "x"], &args[..]].concat());
        assert!(line.contains(says), "{line}");
    }
    for (cert, key, says) in [
        ("own.crt", "other.key", "the private key does not match the certificate"),
        ("text", "own.key", "--cert: text: it holds no certificate in PEM"),
        ("own.crt", "text", "--key: text: it holds no private key in PEM"),
        ("missing", "own.key", "--cert: missing: No such file"),
    ] {
        let line = serve_refused(&dir, &["--memory", "1MB", "--quic", "0", "--cert", cert, "--key", key]);
        assert!(line.contains(says), "{line}");
    }
}

/// Runs a server that must fail to start, with a one-line error.
fn serve_refused(dir: &Dir, args: &[&str]) -> String {
    let output = Command::new(COMMAND).arg("serve").args(args).current_dir(&dir.0).output().unwrap();
    let line = said(&output);
    assert!(output.status.code() == Some(2) && line.starts_with("bbrlab: ") && line.lines().count() == 1, "{line}");
    line
}

#[test]
fn what_cannot_be_served_or_reached_is_said_in_a_line() {
    let dir = Dir::new("refusals");
    dir.file("file", b"");
    let taken = Served::new(&dir, &[]);
    let (tcp, quic) = (taken.tcp.to_string(), taken.quic.to_string());
    for (args, says) in [
        (vec![], "serve: nothing to serve; give --root DIR, --memory SIZE or both"),
        (vec!["--root", "missing"], "--root: missing: it does not exist"),
        (vec!["--root", "file"], "--root: file: it is not a directory"),
        (vec!["--memory", "1MB", "--tcp", &tcp], "something else listens there; name another port"),
        (vec!["--memory", "1MB", "--quic", &quic], "something else listens there; name another port"),
        (vec!["--memory", "1MB", "--quic", "192.0.2.1:4433"], "this host has no such address; name one of its own"),
        (vec!["--memory", "1MB", "--quic", "0", "--cc", "bbr9"], "--cc: no algorithm \"bbr9\"; there are "),
        (
            vec!["--memory", "1MB", "--quic", "0", "--cc", "s2n:reno"],
            "--cc: s2n-quic has no \"s2n:reno\"; it has s2n:bbr and s2n:cubic",
        ),
        (vec!["--memory", "1MB", "--tcp", "0", "--tcp-cc", "vegas9"], "this kernel has no congestion control vegas9"),
        (
            vec!["--memory", "1MB", "--tcp", "0", "--tcp-cc", "bbr3,beta=0.6"],
            "the kernel's algorithms take no parameters here",
        ),
        (vec!["--memory", "1MB", "--patience", "1ms"], "--patience: \"1ms\" is too short; write 100ms or more"),
    ] {
        let line = serve_refused(&dir, &args);
        assert!(line.contains(says), "{line}");
    }
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let at = |scheme: &str| format!("{scheme}://{free}/file");
    for (args, says) in [
        (vec!["http://nowhere.invalid/file"], "no address of \"nowhere.invalid\" was found; check the name"),
        (vec![&at("http")], "nothing listens there"),
        (
            vec!["--patience", "1s", "--insecure", &at("https")],
            "no answer over QUIC; does a server listen there, on UDP?",
        ),
        (vec!["file"], "file: write http://HOST:PORT/PATH for TCP or https://HOST:PORT/PATH for QUIC"),
        (vec!["http://u:p@127.0.0.1/file"], "names and passwords are not sent"),
        (vec!["http://127.0.0.1/"], "it names no file; give --output FILE"),
        (vec!["http://127.0.0.1/a", "http://127.0.0.2/a"], "another URL goes into \"a\" too"),
        (vec!["--output", "x", "http://127.0.0.1/a", "http://127.0.0.2/b"], "--output: 2 URLs would go into one file"),
        (vec!["--output", ".", "http://127.0.0.1/a"], ".: it is a directory; name a file"),
        (vec!["--output", "-", "--json", "http://127.0.0.1/a"], "--json goes to standard output"),
        (vec!["--output", "missing/x", &taken.http("/bytes/1kB")], "missing/x.part: its directory cannot be created"),
        (vec!["--cc", "bbr9", &taken.https("/bytes/1kB")], "--cc: no algorithm \"bbr9\""),
        (vec!["--patience", "1ms", "http://127.0.0.1/a"], "--patience: \"1ms\" is too short"),
    ] {
        let line = dir.refused(&args.iter().map(|word| &word[..]).collect::<Vec<_>>());
        assert!(line.contains(says), "{line}");
    }
    let line = dir.refused(&["--insecure", &taken.https("/no"), &taken.http("/no2"), &taken.http("/bytes/1kB")]);
    assert!(line.contains("the server answers 404 Not Found; 1 other transfer failed too"), "{line}");
    assert_eq!(dir.read("1kB").len(), 1000);
}
