//! Namespaces, a cgroup and connections for each test.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Pid;

/// Environment variable that marks a process inside its own namespaces.
pub const INSIDE: &str = "BBRLAB_TEST_INSIDE";
pub const BBRLAB: &str = env!("CARGO_BIN_EXE_bbrlab");

/// Returns true inside the namespaces; false once the test has run there in another process.
pub fn inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        run("mount", &["-t", "tmpfs", "none", "/run"]);
        run("ip", &["link", "set", "lo", "up"]);
        return true;
    }
    let me = std::env::current_exe().unwrap();
    let status = Command::new("unshare")
        .args(["-mn", "--propagation", "private"])
        .arg(me)
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{test}: {status}");
    false
}

/// Leaves the test unless it runs in namespaces of its own.
macro_rules! inside {
    ($test:literal) => {
        if !inside($test) {
            return;
        }
    };
}

pub fn run(program: &str, arguments: &[&str]) {
    assert!(Command::new(program).args(arguments).status().unwrap().success(), "{program} {arguments:?}");
}

pub fn default() -> String {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap().trim().to_owned()
}

pub fn available() -> String {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap()
}

/// A cgroup with this process in it, and a directory; both are removed at the end.
pub struct Place {
    pub root: PathBuf,
    pub cgroup: PathBuf,
    pub dir: PathBuf,
}

impl Place {
    pub fn new(name: &str) -> Self {
        let root = bbrlab_host::ab::cgroup(None).unwrap();
        let name = format!("bbrlab-test-{}-{name}", std::process::id());
        let (cgroup, dir) = (root.join(&name), std::env::temp_dir().join(&name));
        fs::create_dir(&cgroup).unwrap();
        fs::create_dir(&dir).unwrap();
        let place = Self { root, cgroup, dir };
        place.enter(&place.cgroup);
        place
    }

    pub fn enter(&self, cgroup: &Path) {
        move_to(cgroup, std::process::id());
    }

    pub fn out(&self) -> PathBuf {
        self.dir.join("out")
    }

    /// Starts a test of connections to a port of ours, and waits until it runs.
    pub fn start(&self, listener: &TcpListener, more: &[&str]) -> Child {
        let port = listener.local_addr().unwrap().port().to_string();
        let cgroup = self.cgroup.to_str().unwrap();
        self.start_with(&[&["--direction", "in", "--port", &port, "--cgroup", cgroup], more].concat())
    }

    /// Starts a test, and waits until it runs. Open connections are recorded every second, unless the arguments say otherwise.
    pub fn start_with(&self, arguments: &[&str]) -> Child {
        let every: &[&str] = if arguments.contains(&"--every") { &[] } else { &["--every", "1s"] };
        let mut child = Command::new(BBRLAB)
            .args(["ab", "start", "--out"])
            .arg(self.out())
            .args(every)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
        if !first.contains("test on") {
            panic!("{first}{}", String::from_utf8_lossy(&child.wait_with_output().unwrap().stderr));
        }
        child
    }

    pub fn bbrlab(&self, arguments: &[&str]) -> Output {
        Command::new(BBRLAB).args(arguments).current_dir(&self.dir).output().unwrap()
    }

    pub fn report(&self) -> serde_json::Value {
        let output = self.bbrlab(&["ab", "report", "out", "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub fn assert_nothing_acts(&self) {
        let acting = || bbrlab_live::hook::sock_ops_of(&self.cgroup).unwrap();
        for _ in 0..10 {
            if acting().is_empty() {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("programs act on the cgroup: {:?}", acting());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.enter(&self.root.clone());
        // A failed test leaves its command running.
        let left = fs::read_to_string(self.cgroup.join("cgroup.procs")).unwrap_or_default();
        for process in left.lines().filter_map(|line| line.parse().ok()) {
            let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
            thread::sleep(Duration::from_millis(100));
        }
        let _ = fs::remove_dir(&self.cgroup);
        let _ = fs::remove_dir_all(&self.dir);
    }
}

pub fn move_to(cgroup: &Path, process: u32) {
    fs::write(cgroup.join("cgroup.procs"), process.to_string()).unwrap();
}

pub fn interrupt(child: Child) -> (String, String) {
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert!(output.status.success(), "{}", text(output.stderr));
    (text(output.stdout), text(output.stderr))
}

/// Both ends of an accepted connection.
pub struct Pair {
    pub client: TcpStream,
    pub server: TcpStream,
    pub from: SocketAddr,
    /// Time that the client waits before it reads.
    pub pause: Duration,
}

pub fn connect(listener: &TcpListener) -> Pair {
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, from) = listener.accept().unwrap();
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    }
    Pair { client, server, from, pause: Duration::ZERO }
}

/// Name of a socket's congestion control.
pub fn name_of(stream: &TcpStream) -> String {
    getsockopt(stream, sockopt::TcpCongestion).unwrap().to_string_lossy().trim_end_matches('\0').to_owned()
}

impl Pair {
    pub fn used(&self) -> String {
        name_of(&self.server)
    }

    pub fn carry(&mut self, bytes: usize) {
        let (block, mut room) = (vec![1; bytes], vec![0; bytes]);
        let mut server = self.server.try_clone().unwrap();
        let writer = thread::spawn(move || server.write_all(&block).unwrap());
        thread::sleep(self.pause);
        self.client.read_exact(&mut room).unwrap();
        writer.join().unwrap();
    }

    /// Closes the server's end, and waits for the client to close too.
    pub fn close(mut self) {
        self.server.shutdown(std::net::Shutdown::Write).unwrap();
        drop(self.client);
        assert_eq!(self.server.read(&mut [0]).unwrap(), 0);
    }
}
