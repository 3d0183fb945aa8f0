//! A path for measurements.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, unshare};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::{Pid, gettid};

pub fn ip(arguments: &str) {
    assert!(Command::new("ip").args(arguments.split(' ')).status().unwrap().success(), "ip {arguments}");
}

fn run_on(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu).unwrap();
    let _ = sched_setaffinity(Pid::from_raw(0), &set);
}

/// Runs the receiver in a network namespace of its own, on the second CPU.
fn receive(
    ready: &mpsc::Sender<i32>,
    connected: &mpsc::Receiver<()>,
    listening: &mpsc::Sender<()>,
    done: &mpsc::Sender<()>,
) {
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    ready.send(gettid().as_raw()).unwrap();
    connected.recv().unwrap();
    run_on(1);
    ip("addr add 10.9.9.2/24 dev cost1");
    ip("link set cost1 up");
    let listener = TcpListener::bind("10.9.9.2:5000").unwrap();
    listening.send(()).unwrap();
    let mut room = vec![0; 1 << 18];
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        while stream.read(&mut room).unwrap() > 0 {}
        done.send(()).unwrap();
    }
}

/// Two network namespaces of this process joined by veth: one sends, the other reads.
pub struct Path {
    done: mpsc::Receiver<()>,
    block: Vec<u8>,
}

impl Path {
    /// Creates the path, with packets of one segment each or with super-packets.
    pub fn new(one_segment: bool) -> Self {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let ((ready, is_ready), (connected, is_connected)) = (mpsc::channel(), mpsc::channel());
        let ((listening, is_listening), (done, is_done)) = (mpsc::channel(), mpsc::channel());
        thread::spawn(move || receive(&ready, &is_connected, &listening, &done));
        let thread = is_ready.recv().unwrap();
        ip(&format!("link add cost0 type veth peer name cost1 netns {thread}"));
        ip("addr add 10.9.9.1/24 dev cost0");
        if one_segment {
            ip("link set cost0 gso_max_segs 1");
        }
        ip("link set cost0 up");
        connected.send(()).unwrap();
        is_listening.recv().unwrap();
        run_on(0);
        Self { done: is_done, block: vec![1; 1 << 18] }
    }

    /// Sends this number of megabytes with the named congestion control, and waits until all are read.
    pub fn transfer(&self, name: &str, megabytes: usize) {
        let mut sender = TcpStream::connect("10.9.9.2:5000").unwrap();
        setsockopt(&sender, sockopt::TcpCongestion, &name.into()).unwrap();
        for _ in 0..megabytes * 4 {
            sender.write_all(&self.block).unwrap();
        }
        drop(sender);
        self.done.recv().unwrap();
    }
}
