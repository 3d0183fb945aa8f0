//! End-to-end tests of `bbrlab emulate` and `--on kernel`: exit status, streams, and nothing left behind.
//! If the machine permits no namespaces or TUN devices, the reason is printed.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

fn bbrlab() -> Command {
    Command::new(env!("CARGO_BIN_EXE_bbrlab"))
}

/// The command without root privileges, as `nobody`.
fn bbrlab_as_nobody() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_bbrlab")]);
    command.env("HOME", "/nonexistent");
    command
}

fn emulate(args: &[&str]) -> Output {
    bbrlab().arg("emulate").args(args).output().unwrap()
}

/// True if this machine permits the emulator; if not, prints the reason under the test's name.
fn permitted(test: &str) -> bool {
    let tried = emulate(&["--", "true"]);
    let can = tried.status.success();
    if !can {
        println!("skipped: {test}: {}", String::from_utf8_lossy(&tried.stderr).trim());
    }
    can
}

/// A command behind the link that runs until it is ended, with its network namespace's number.
struct Endless {
    child: Child,
    namespace: String,
    interfaces: BTreeSet<String>,
}

impl Endless {
    fn start(mut command: Command) -> Self {
        let interfaces = interfaces();
        let script = "trap '' TERM; sleep 1000 & readlink /proc/self/ns/net; sleep 1000";
        let mut child = command
            .args([
                "emulate",
                "--rtt",
                "1ms",
                "--server",
                "sleep 1000 & echo ready >&2; exec sleep 1000",
                "--",
                "sh",
                "-c",
                script,
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut namespace = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut namespace).unwrap();
        assert!(namespace.starts_with("net:["), "{namespace:?}");
        let endless = Self { child, namespace: namespace.trim().to_owned(), interfaces };
        assert!(!endless.inhabitants().is_empty());
        endless
    }

    /// Processes in the command's network namespace, and threads that hold it open as the emulator does.
    fn inhabitants(&self) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with(|c: char| c.is_ascii_digit()) {
                continue;
            }
            let lives_in =
                fs::read_link(entry.path().join("ns/net")).is_ok_and(|at| at.to_string_lossy() == self.namespace);
            let holds = fs::read_dir(entry.path().join("fd"))
                .into_iter()
                .flatten()
                .flatten()
                .any(|fd| fs::read_link(fd.path()).is_ok_and(|at| at.to_string_lossy() == self.namespace));
            if lives_in || holds {
                found.push(name);
            }
        }
        found
    }

    /// Waits, for two seconds at most, until nothing is left.
    fn leaves_nothing(mut self) -> Option<i32> {
        let status = self.child.wait().unwrap().code();
        for _ in 0..200 {
            if self.inhabitants().is_empty() {
                break;
            }
            sleep(Duration::from_millis(10));
        }
        assert_eq!(self.inhabitants(), Vec::<String>::new());
        assert_eq!(interfaces(), self.interfaces);
        status
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.child.id())]).status().unwrap();
        assert!(sent.success());
    }
}

/// The host's interfaces.
fn interfaces() -> BTreeSet<String> {
    let all = fs::read_dir("/sys/class/net").unwrap();
    all.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Trap: an algorithm that the host has, but does not allow to everyone, was refused even to root.
#[test]
fn each_congestion_control_of_this_kernel_is_the_one_that_connections_use() {
    if !permitted("each_congestion_control_of_this_kernel_is_the_one_that_connections_use") {
        return;
    }
    let server = "exec python3 -c 'import socket as s, time; l = s.create_server((\"\", 5001)); c = l.accept()[0]; \
                  c.sendall(c.getsockopt(6, 13, 16).rstrip(bytes(1))); c.close(); time.sleep(9)'";
    let client = "import os, socket as s; c = s.create_connection((os.environ['BBRLAB_SERVER_IP'], 5001)); \
                  print(c.getsockopt(6, 13, 16).rstrip(bytes(1)).decode(), c.recv(16).decode())";
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    for cc in available.split_whitespace().filter(|cc| ["reno", "cubic", "bbr"].contains(cc)) {
        let done = emulate(&["--rtt", "2ms", "--cc", cc, "--server", server, "--", "python3", "-c", client]);
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        assert_eq!(text.trim(), format!("{cc} {cc}"), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

#[test]
fn the_command_keeps_its_streams_and_its_exit_status() {
    if !permitted("the_command_keeps_its_streams_and_its_exit_status") {
        return;
    }
    let mut child = bbrlab()
        .args(["emulate", "--rtt", "1ms", "--", "sh", "-c", "cat; echo to-stderr >&2; exit 7"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"through").unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(7));
    assert_eq!(done.stdout, b"through");
    assert!(String::from_utf8_lossy(&done.stderr).contains("to-stderr"));
}

#[test]
fn a_command_that_does_not_exist_ends_with_127() {
    if !permitted("a_command_that_does_not_exist_ends_with_127") {
        return;
    }
    let done = emulate(&["--", "/nowhere/no-such-command"]);
    assert_eq!(done.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&done.stderr).contains("/nowhere/no-such-command"));
}

#[test]
fn a_command_sees_its_own_processes_and_both_loopbacks_are_up() {
    if !permitted("a_command_sees_its_own_processes_and_both_loopbacks_are_up") {
        return;
    }
    let look =
        "cat /sys/class/net/lo/flags 2>/dev/null; grep -c : /proc/net/dev; test -d /proc/1 && echo $BBRLAB_SERVER_IP";
    let done = emulate(&["--", "sh", "-c", look]);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{text}");
    assert!(text.contains("\n2\n") || text.starts_with("2\n"), "loopback and the link, nothing else: {text}");
    assert!(text.trim_end().ends_with("192.0.2.2"), "{text}");
}

#[test]
fn bad_input_is_one_line_and_exit_status_2() {
    for args in [
        vec!["--rate", "10furlong", "--", "true"],
        vec!["--ack-loss", "1%", "--", "true"],
        vec!["--cc", "no-such-cc", "--", "true"],
        vec!["--rate", "10mbit"],
    ] {
        let done = emulate(&args);
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{args:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{args:?}: {text}");
        assert!(done.stdout.is_empty());
    }
}

#[test]
fn what_this_kernel_lacks_is_refused_in_one_line() {
    if !permitted("what_this_kernel_lacks_is_refused_in_one_line") {
        return;
    }
    // A build with our own programs supplies the algorithms that the kernel lacks.
    let lacked: &[&str] = if cfg!(feature = "host") { &[] } else { &["bbr1-draft00", "bbr1,pacing_gain_up=1.1"] };
    for flow in lacked.iter().chain(&["bbr-s-kalman", "cubic,gro=1ms"]) {
        let done = bbrlab().args(["run", "--on", "kernel", "--duration", "1s", "--flow", flow]).output().unwrap();
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{flow}: {text}");
        assert!(text.starts_with("bbrlab: --on kernel: flow") && text.lines().count() == 1, "{flow}: {text}");
    }
}

#[test]
fn sigkill_leaves_no_process_no_namespace_and_no_interface() {
    if !permitted("sigkill_leaves_no_process_no_namespace_and_no_interface") {
        return;
    }
    let endless = Endless::start(bbrlab());
    endless.signal("KILL");
    assert_eq!(endless.leaves_nothing(), None);
}

#[test]
fn sigkill_leaves_nothing_of_a_user_without_rights() {
    let tried = bbrlab_as_nobody().args(["emulate", "--", "true"]).output();
    if !tried.as_ref().is_ok_and(|done| done.status.success()) {
        println!("skipped: sigkill_leaves_nothing_of_a_user_without_rights: {tried:?}");
        return;
    }
    let endless = Endless::start(bbrlab_as_nobody());
    endless.signal("KILL");
    assert_eq!(endless.leaves_nothing(), None);
}

#[test]
fn an_interrupt_leaves_nothing_and_ends_with_130() {
    if !permitted("an_interrupt_leaves_nothing_and_ends_with_130") {
        return;
    }
    let endless = Endless::start(bbrlab());
    endless.signal("INT");
    assert_eq!(endless.leaves_nothing(), Some(130));
}

#[test]
fn an_interrupt_sent_to_a_command_without_rights_leaves_nothing() {
    let tried = bbrlab_as_nobody().args(["emulate", "--", "true"]).output();
    if !tried.as_ref().is_ok_and(|done| done.status.success()) {
        println!("skipped: an_interrupt_sent_to_a_command_without_rights_leaves_nothing: {tried:?}");
        return;
    }
    let endless = Endless::start(bbrlab_as_nobody());
    endless.signal("INT");
    assert_eq!(endless.leaves_nothing(), Some(130));
}

/// An interrupt from a terminal, in which `script` runs the command.
#[test]
fn a_command_that_survives_an_interrupt_ends_by_itself_with_or_without_rights() {
    for command in [bbrlab(), bbrlab_as_nobody()] {
        let words: Vec<&str> =
            [command.get_program()].into_iter().chain(command.get_args()).filter_map(|word| word.to_str()).collect();
        let emulate = format!("HOME=/ exec {} emulate --rtt 1ms --", words.join(" "));
        let in_terminal = |what: &str| {
            let mut script = Command::new("script");
            script.args(["-qec", &format!("{emulate} sh -c '{what}'"), "/dev/null"]).stdin(Stdio::piped());
            script.stdout(Stdio::piped()).spawn().unwrap()
        };
        if !in_terminal("exit").wait().unwrap().success() {
            println!("skipped: {emulate}");
            continue;
        }
        let mut endless = in_terminal("trap \"exit 7\" INT; echo ready; while :; do sleep 1; done");
        let mut line = String::new();
        // Open until the end: `script` writes there what the terminal echoes.
        let mut output = BufReader::new(endless.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready", "{emulate}");
        endless.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
        assert_eq!(endless.wait().unwrap().code(), Some(7), "{emulate}");
    }
}

#[test]
fn a_flow_on_this_kernel_fills_the_link_and_says_how_it_went() {
    if !permitted("a_flow_on_this_kernel_fills_the_link_and_says_how_it_went") {
        return;
    }
    let args = [
        "run",
        "--on",
        "kernel",
        "--rate",
        "10mbit",
        "--rtt",
        "20ms",
        "--duration",
        "3s",
        "--flow",
        "cubic",
        "--json",
        "-",
    ];
    let done = bbrlab().args(args).output().unwrap();
    let result: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let check = &result["provenance"]["self_check"];
    assert!(check["packets"].as_u64().unwrap() > 1000, "{check}");
    assert!(!result["provenance"]["environment"]["kernel"].as_str().unwrap().is_empty());
    if check["clean"] == true {
        let goodput = result["flows"][0]["goodput_bps"].as_f64().unwrap();
        assert!((8e6..9.7e6).contains(&goodput), "{goodput}");
        let rtt = result["flows"][0]["rtt_ms"]["min"].as_f64().unwrap();
        assert!((20.0..22.0).contains(&rtt), "{rtt}");
    } else {
        println!("disturbed: {check}");
    }
}

#[test]
fn a_probe_on_this_kernel_meets_the_flows_queue() {
    if !permitted("a_probe_on_this_kernel_meets_the_flows_queue") {
        return;
    }
    let path = ["--rate", "10mbit", "--rtt", "20ms", "--buffer", "50p", "--duration", "3s", "--warmup", "1s"];
    let result = on_kernel(&[&path[..], &["--flow", "cubic", "--probe", "10ms"]].concat());
    let (probe, check) = (&result["probe"], &result["provenance"]["self_check"]);
    let (sent, lost) = (probe["sent"].as_u64().unwrap(), probe["lost"].as_u64().unwrap());
    assert!((170..=200).contains(&sent) && lost < 20, "{probe}");
    if check["clean"] == true {
        // Fifty packets take 61 ms.
        let of = |figures: &serde_json::Value| figures["rtt_ms"]["p50"].as_f64().unwrap();
        let (own, flows) = (of(probe), of(&result["flows"][0]));
        assert!((30.0..85.0).contains(&own) && (own - flows).abs() < 10.0, "{own} {flows}");
    } else {
        println!("disturbed: {check}");
    }
}

/// The result of a run on this kernel.
fn on_kernel(flags: &[&str]) -> serde_json::Value {
    let done = bbrlab().args(["run", "--on", "kernel", "--json", "-"]).args(flags).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

#[test]
fn acks_and_an_upload_share_the_link_of_the_reverse_direction() {
    if !permitted("acks_and_an_upload_share_the_link_of_the_reverse_direction") {
        return;
    }
    let path = ["--rate", "20mbit", "--rtt", "20ms", "--duration", "3s", "--warmup", "1s"];
    // 20 Mbit/s of data need 0.43 Mbit/s of ACKs.
    let up = |up: &str| on_kernel(&[&path[..], &["--flow", "cubic", "--up", up]].concat())["up"].clone();
    let plain = up("rate=200kbit,buffer=20p");
    assert!(plain["utilisation"].as_f64().unwrap() > 0.9 && plain["drops"].as_u64().unwrap() > 100, "{plain}");
    assert_eq!(plain["filtered"].as_u64(), Some(0));
    let filtered = up("rate=200kbit,buffer=20p,ack_filter");
    assert!(filtered["filtered"].as_u64().unwrap() > 100 && filtered["drops"].as_u64().unwrap() < 50, "{filtered}");
    let flows = ["--up", "rate=5mbit,buffer=30p", "--flow", "cubic", "--flow", "cubic,direction=up"];
    let both = on_kernel(&[&path[..], &flows].concat());
    let goodput = |flow: usize| both["flows"][flow]["goodput_bps"].as_f64().unwrap();
    assert!((3.5e6..4.8e6).contains(&goodput(1)) && goodput(0) > 8e6, "{} {}", goodput(0), goodput(1));
}

/// Connections of this machine that their process has closed while data was still in flight.
fn orphans() -> u64 {
    let text = fs::read_to_string("/proc/net/sockstat").unwrap();
    let mut words = text.split_whitespace().skip_while(|word| *word != "orphan");
    words.nth(1).unwrap().parse().unwrap()
}

/// Otherwise the kernel keeps such a connection, its data and its namespace for a minute or more.
fn end_soon(before: u64) {
    let gone = (0..100).any(|_| {
        sleep(Duration::from_millis(100));
        orphans() <= before
    });
    assert!(gone, "{} connections are left, {before} were there", orphans());
}

#[test]
fn connections_end_with_their_run() {
    if !permitted("connections_end_with_their_run") {
        return;
    }
    let before = orphans();
    let flags = ["--rate", "1mbit", "--buffer", "1000p", "--flow", "cubic*3", "--duration", "2s", "-q"];
    let done = bbrlab().args(["run", "--on", "kernel"]).args(flags).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    end_soon(before);
    let server =
        "exec python3 -c 'import socket as s, time; l = s.create_server((\"\", 5001)); l.accept(); time.sleep(9)'";
    let client = "import os, socket as s; c = s.create_connection((os.environ['BBRLAB_SERVER_IP'], 5001)); \
                  c.setblocking(False); print(c.send(bytes(1 << 20)))";
    let done = emulate(&["--rate", "100kbit", "--server", server, "--", "python3", "-c", client]);
    let sent: u64 = String::from_utf8_lossy(&done.stdout).trim().parse().unwrap();
    assert!(done.status.success() && sent > 50_000, "{}", String::from_utf8_lossy(&done.stderr));
    end_soon(before);
}

#[test]
fn ipv6_passes_the_same_link() {
    if !permitted("ipv6_passes_the_same_link") {
        return;
    }
    let server = "exec python3 -c 'import socket as s; l = s.create_server((\"::\", 5001), family=s.AF_INET6); \
                  l.accept()[0].sendall(bytes(1000000))'";
    let client = "import os, socket as s, time; t = time.monotonic(); \
                  c = s.create_connection((os.environ['BBRLAB_SERVER_IP6'], 5001)); \
                  n = sum(len(b) for b in iter(lambda: c.recv(65536), b'')); print(n, time.monotonic() - t)";
    let flags = ["--rate", "10mbit", "--rtt", "20ms", "--buffer", "1000p", "--data", "down"];
    let done = emulate(&[&flags[..], &["--server", server, "--", "python3", "-c", client]].concat());
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let (bytes, seconds) = said.trim().split_once(' ').unwrap_or_else(|| panic!("{done:?}"));
    assert_eq!(bytes, "1000000");
    // At 10 Mbit/s they take 0.83 s on the wire, plus two round trips for opening and closing.
    assert!((0.84..1.5).contains(&seconds.parse::<f64>().unwrap()), "{said}");
}

/// Runs a command inside User Mode Linux, if it is available; if not, prints that under the test's name.
fn in_uml(test: &str, args: &[&str]) -> Option<Output> {
    let done = emulate(&[&["--on", "uml"], args].concat());
    let said = String::from_utf8_lossy(&done.stderr);
    if said.contains("make uml") {
        println!("skipped: {test}: {}", said.trim());
        return None;
    }
    Some(done)
}

#[test]
fn in_uml_a_command_keeps_its_streams_and_status_and_waits_for_nothing() {
    let test = "in_uml_a_command_keeps_its_streams_and_status_and_waits_for_nothing";
    let script = "sleep 100; printf 'a\\0\\nb'; echo to-stderr >&2; exit 7";
    let Some(done) = in_uml(test, &["--", "sh", "-c", script]) else { return };
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(7), "{said}");
    assert_eq!(done.stdout, b"a\0\nb");
    assert!(said.contains("to-stderr") && said.contains("100.0") && said.contains("s of virtual time"), "{said}");
}

#[test]
fn in_uml_the_hosts_files_are_read_only_and_tmp_is_empty() {
    let test = "in_uml_the_hosts_files_are_read_only_and_tmp_is_empty";
    let script = "touch /usr/bbrlab-never && echo written; ls -A /tmp; test -e /usr/bin/env && echo seen";
    let Some(done) = in_uml(test, &["--", "sh", "-c", script]) else { return };
    assert_eq!(String::from_utf8_lossy(&done.stdout), "seen\n");
}

/// The links of a transfer of 1 MB to the command through a queue of 20 packets.
fn links_of_a_transfer(test: &str, on: &str, flags: &[&str]) -> Option<Vec<serde_json::Value>> {
    let server =
        "exec python3 -c 'import socket as s; s.create_server((\"\", 5001)).accept()[0].sendall(bytes(1000000))'";
    let client = "import os, socket as s; c = s.create_connection((os.environ['BBRLAB_SERVER_IP'], 5001)); \
                  print(sum(len(b) for b in iter(lambda: c.recv(65536), b'')))";
    let file = std::env::temp_dir().join(format!("bbrlab-links-{}-{test}.json", std::process::id()));
    let path = ["--on", on, "--rate", "10mbit", "--rtt", "40ms", "--buffer", "20p", "--json", file.to_str().unwrap()];
    let done = emulate(&[&path, flags, &["--server", server, "--", "python3", "-c", client]].concat());
    let said = String::from_utf8_lossy(&done.stderr);
    if said.contains("make uml") {
        println!("skipped: {test}: {}", said.trim());
        return None;
    }
    assert_eq!(String::from_utf8_lossy(&done.stdout), "1000000\n", "{said}");
    let report: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    fs::remove_file(file).unwrap();
    Some(report["links"].as_array().unwrap().clone())
}

/// Checks the counts of the link of a transfer, and returns its number of drops.
fn check_down(link: &serde_json::Value) -> u64 {
    let count = |name: &str| link[name].as_u64().unwrap();
    let (arrivals, drops) = (count("arrivals"), count("drops"));
    assert_eq!(link["direction"], "down", "{link}");
    assert!((690..1200).contains(&arrivals) && (1_040_000..1_300_000).contains(&count("departed_bytes")), "{link}");
    let ratio = link["drop_ratio"].as_f64().unwrap();
    assert!((ratio * arrivals as f64 - drops as f64).abs() < 1e-6, "{link}");
    drops
}

#[test]
fn the_report_has_the_links_counts() {
    if !permitted("the_report_has_the_links_counts") {
        return;
    }
    let links = links_of_a_transfer("kernel", "kernel", &["--data", "down"]).unwrap();
    // 20 packets of 1514 bytes and the one being sent.
    let most_ms = links[0]["queue_ms"]["max"].as_f64().unwrap();
    assert!(links.len() == 1 && check_down(&links[0]) > 0 && (20.0..25.5).contains(&most_ms), "{links:?}");
    let links = links_of_a_transfer("kernel", "kernel", &[]).unwrap();
    let acks = links[1]["arrivals"].as_u64().unwrap();
    assert!(links.len() == 2 && check_down(&links[0]) > 0, "{links:?}");
    assert!(links[1]["direction"] == "up" && links[1]["drops"] == 0 && acks > 100, "{links:?}");
}

#[test]
fn in_uml_the_report_has_the_links_counts() {
    let test = "in_uml_the_report_has_the_links_counts";
    let Some(links) = links_of_a_transfer(test, "uml", &["--data", "down"]) else { return };
    assert!(links.len() == 1 && check_down(&links[0]) > 0 && links[0]["queue_ms"].is_null(), "{links:?}");
    let Some(links) = links_of_a_transfer(test, "uml", &[]) else { return };
    assert!(links.len() == 2 && check_down(&links[0]) > 0, "{links:?}");
    assert!(links[1]["direction"] == "up" && links[1]["drops"] == 0, "{links:?}");
    // At 3 Mbit/s and without a queue, a policer drops what the link would carry.
    let policed = ["--data", "down", "--policer", "rate=3mbit,burst=30kB"];
    let Some(links) = links_of_a_transfer(test, "uml", &policed) else { return };
    assert!(check_down(&links[0]) > 20, "{links:?}");
}
