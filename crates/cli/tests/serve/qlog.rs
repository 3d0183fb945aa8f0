//! `--qlog` of both ends: complete logs, packet by packet, that `bbrlab conform --log` accepts.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use serde_json::Value;

use crate::bench::{COMMAND, Dir, LONG, Served, said, text};

const PAUSE: Duration = Duration::from_millis(20);

/// A log in qvis's dialect, once it is complete.
fn whole(dir: &Dir, name: &str) -> Value {
    for _ in 0..LONG.as_millis() / PAUSE.as_millis() {
        if let Ok(document) = serde_json::from_slice(&fs::read(dir.0.join(name)).unwrap_or_default()) {
            return document;
        }
        thread::sleep(PAUSE);
    }
    panic!("{name} is not whole")
}

#[test]
fn each_connection_is_logged_packet_by_packet_and_its_log_is_judged() {
    let dir = Dir::new("qlog");
    let server = Served::new(&dir, &["--cc", "s2n:bbr", "--qlog", "logs"]);
    let url = server.https("/bytes/5MB");
    let done = dir.measured(&["--insecure", "--repeat", "2", "--qlog", "logs/own", &url]);
    for (connection, done) in done.iter().enumerate() {
        let [at_server, at_client] = [format!("logs/server-{connection}"), format!("logs/own/client-{connection}")];
        let [server, client] = [&at_server, &at_client].map(|name| whole(&dir, &format!("{name}.qlog")));
        let packets = |log: &Value, name: &str| {
            let events = log["traces"][0]["events"].as_array().unwrap().iter();
            let named =
                events.filter(|event| event["name"] == name && event["data"]["header"]["packet_type"] == "1RTT");
            named.map(|event| text(&event["data"]["header"]["packet_number"])).collect::<Vec<u64>>()
        };
        let sent = packets(&server, "transport:packet_sent");
        assert!(sent.len() > 3_300 && sent.is_sorted(), "{} packets carried 5 MB", sent.len());
        assert!(sent.len() as u64 + 20 > text(&done["sender"]["packets"]), "{done}");
        // Everything that one end has received, the other has sent.
        let received = packets(&client, "transport:packet_received");
        let sent: BTreeSet<u64> = sent.into_iter().collect();
        assert!(received.len() > 3_300 && received.iter().all(|number| sent.contains(number)));
        for name in [at_server, at_client] {
            let own = name.rsplit('/').next().unwrap();
            for end in ["sqlog", "qlog"] {
                let path = format!("{name}.{end}");
                let output =
                    Command::new(COMMAND).args(["conform", "--log", &path]).current_dir(&dir.0).output().unwrap();
                let shown = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(output.status.code() != Some(2) && shown.contains(own), "{path}: {shown}{}", said(&output));
            }
        }
        let log = String::from_utf8(dir.read(&format!("logs/server-{connection}.sqlog"))).unwrap();
        assert!(log.contains("\"quic:recovery_metrics_updated\"") && log.contains("\"quic:congestion_state_updated\""));
        assert!(log.lines().skip(1).all(|line| line.contains(&format!("\"group_id\":\"server-{connection}\""))));
    }
}

#[test]
fn our_algorithms_tell_their_states_and_rates() {
    let dir = Dir::new("qlog-own");
    let server = Served::new(&dir, &["--cc", "bbr3", "--qlog", "logs"]);
    dir.measured(&["--insecure", "--repeat", "1", &server.https("/bytes/20MB")]);
    let log = whole(&dir, "logs/server-0.qlog");
    let events = log["traces"][0]["events"].as_array().unwrap();
    let data = |name: &'static str, key: &'static str| {
        let named = events.iter().filter(move |event| event["name"] == name);
        named.map(move |event| &event["data"][key]).filter(|value| !value.is_null()).collect::<Vec<_>>()
    };
    let states = data("recovery:congestion_state_updated", "new");
    // If Startup leaves no queue, Drain ends with the same ACK that starts it.
    assert!(states[0] == "startup" && states.iter().any(|state| *state == "probe_bw_cruise"), "{states:?}");
    let rates = data("recovery:metrics_updated", "pacing_rate");
    assert!(rates.len() > 3 && rates.iter().all(|rate| text(rate) > 0), "{rates:?}");
}

#[test]
fn a_log_is_whole_where_its_server_is_interrupted_and_the_next_one_leaves_it() {
    let dir = Dir::new("qlog-interrupted");
    let mut get = {
        let mut server = Served::new(&dir, &["--qlog", "logs"]);
        // Large enough to be in progress when the server ends.
        let mut get = Command::new(COMMAND);
        get.args(["get", "--insecure", "--output", "/dev/null", &server.https("/bytes/10GB")]).current_dir(&dir.0);
        let get = get.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let grown = || fs::metadata(dir.0.join("logs/server-0.qlog")).is_ok_and(|log| log.len() > 100_000);
        for _ in 0..LONG.as_millis() / PAUSE.as_millis() {
            if grown() {
                break;
            }
            thread::sleep(PAUSE);
        }
        assert!(grown());
        signal::kill(Pid::from_raw(server.child.id().cast_signed()), Signal::SIGINT).unwrap();
        assert_eq!(server.child.wait().unwrap().code(), Some(130));
        get
    };
    get.kill().unwrap();
    get.wait().unwrap();
    let first = whole(&dir, "logs/server-0.qlog");
    assert!(first["traces"][0]["events"].as_array().unwrap().len() > 100);
    let server = Served::new(&dir, &["--qlog", "logs"]);
    dir.measured(&["--insecure", "--repeat", "1", &server.https("/bytes/1kB")]);
    whole(&dir, "logs/server-1.qlog");
    assert_eq!(whole(&dir, "logs/server-0.qlog"), first);
}

#[test]
fn where_nothing_can_be_logged_nothing_is_fetched() {
    let dir = Dir::new("no-qlog");
    dir.file("taken", b"");
    let server = Served::new(&dir, &[]);
    let line = dir.refused(&["--output", "x", "--qlog", "logs", &server.http("/bytes/1kB")]);
    assert!(line.contains("--qlog: qlog is QUIC's; fetch an https:// URL"), "{line}");
    let line = dir.refused(&["--output", "x", "--insecure", "--qlog", "taken", &server.https("/bytes/1kB")]);
    assert!(line.contains("--qlog: taken: it is not a directory; name one"), "{line}");
    assert!(!dir.0.join("x").exists() && !dir.0.join("logs").exists());
}
