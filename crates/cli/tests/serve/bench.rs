//! Directories, servers and downloads for the tests.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

pub const COMMAND: &str = env!("CARGO_BIN_EXE_bbrlab");
/// Far longer than anything takes on a busy machine.
pub const LONG: Duration = Duration::from_secs(30);

/// A directory, removed on drop.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new(test: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("bbrlab-serve-{}-{test}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.join(name)).unwrap()
    }

    pub fn get(&self, args: &[&str]) -> Output {
        Command::new(COMMAND).arg("get").args(args).current_dir(&self.0).output().unwrap()
    }

    /// Runs a download that must succeed, and returns its measurements.
    pub fn measured(&self, args: &[&str]) -> Vec<Value> {
        let output = self.get(&[&["--json"], args].concat());
        assert!(output.status.success(), "{args:?}: {}", said(&output));
        let mut document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["schema"], 1);
        serde_json::from_value(document["transfers"].take()).unwrap()
    }

    /// Runs a download that must fail with a one-line error.
    pub fn refused(&self, args: &[&str]) -> String {
        let output = self.get(args);
        let line = said(&output);
        assert!(output.status.code() == Some(2) && line.starts_with("bbrlab: ") && line.lines().count() == 1, "{line}");
        line
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Bytes without a period.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(next).collect()
}

/// A server, killed on drop.
pub struct Served {
    pub child: Child,
    pub tcp: SocketAddr,
    pub quic: SocketAddr,
    pub spki: String,
    /// Its output after the addresses.
    pub lines: Lines<BufReader<ChildStdout>>,
}

impl Served {
    pub fn new(dir: &Dir, more: &[&str]) -> Self {
        Self::of(&dir.0, more)
    }

    pub fn of(root: &Path, more: &[&str]) -> Self {
        let mut child = Command::new(COMMAND)
            .args(["serve", "--tcp", "0", "--quic", "0", "--memory", "10GB", "--root", "."])
            .args(more)
            .current_dir(root)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let [tcp, quic] = [0, 1].map(|_| lines.next().unwrap().unwrap());
        let at = |line: &str, scheme: &str| {
            line.strip_prefix(scheme).unwrap().split_once('/').unwrap().0.parse::<SocketAddr>().unwrap()
        };
        let spki = quic.split_once("--spki ").unwrap().1.to_owned();
        Self { child, tcp: at(&tcp, "http://"), quic: at(&quic, "https://"), spki, lines }
    }

    pub fn http(&self, path: &str) -> String {
        format!("http://{}{path}", self.tcp)
    }

    pub fn https(&self, path: &str) -> String {
        format!("https://{}{path}", self.quic)
    }

    pub fn dial(&self) -> TcpStream {
        let stream = TcpStream::connect(self.tcp).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// Sends a request verbatim, and returns status and content of the response.
    pub fn ask(&self, head: &str) -> (u16, String, Vec<u8>) {
        let mut stream = self.dial();
        let _ = stream.write_all(format!("{head}\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let end =
            answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or_else(|| panic!("{head}: {answer:?}"));
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        (head[9..12].parse().unwrap(), head.to_lowercase(), answer[end + 4..].to_vec())
    }

    /// Peak memory of the server, in MB.
    pub fn peak_mb(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn text(number: &Value) -> u64 {
    number.as_u64().unwrap()
}
