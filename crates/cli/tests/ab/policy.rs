//! `bbrlab host policy`: each connection has what the first rule that takes it says, at every moment.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage, setsockopt, sockopt};

use crate::place::*;

impl Place {
    /// The name of its cgroup below the root.
    pub fn below(&self) -> String {
        self.cgroup.strip_prefix(&self.root).unwrap().to_str().unwrap().to_owned()
    }

    /// Puts a policy in force on the cgroup.
    pub fn apply(&self, text: &str) -> String {
        fs::write(self.dir.join("policy.toml"), text).unwrap();
        let output = self.bbrlab(&["host", "policy", "apply", "policy.toml", "--cgroup", &self.below()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn policy(&self, arguments: &[&str]) -> String {
        let output = self.bbrlab(&[&["host", "policy"], arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.policy(&["status", "--json"])).unwrap()
    }

    /// The congestion control of a server behind an emulated path of 60 ms.
    fn given_far(&self) -> String {
        fs::write(
            self.dir.join("server.py"),
            "import socket\n\
             here = socket.create_server((\"\", 8000))\n\
             one, _ = here.accept()\n\
             name = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)\n\
             one.sendall(name.strip(b\"\\0\"))\n",
        )
        .unwrap();
        let client = "import os, socket\n\
                      one = socket.create_connection((os.environ[\"BBRLAB_SERVER_IP\"], 8000))\n\
                      print(one.recv(16).decode())\n";
        let output = self.bbrlab(&[
            "emulate",
            "--rate",
            "50mbit",
            "--rtt",
            "60ms",
            "--server",
            "python3 server.py",
            "--",
            "python3",
            "-c",
            client,
        ]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().next().unwrap_or_default().to_owned()
    }

    pub fn assert_no_policy(&self) {
        self.assert_nothing_acts();
        assert_eq!(self.policy(&["remove"]), "no policy is in force\n");
        assert!(!available().contains("bbr3_linux"), "{}", available());
        assert!(!fs::exists("/sys/fs/bpf/bbrlab").unwrap());
        let mut left = fs::read_dir("/run/bbrlab").unwrap().map(|file| file.unwrap().file_name());
        assert!(left.all(|name| name == "lock"));
    }
}

/// The congestion control of a connection that a client of this address opens.
fn given(from: &str, listener: &TcpListener) -> String {
    let from: IpAddr = from.parse().unwrap();
    let family = if from.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let client = socket::socket(family, SockType::Stream, SockFlag::empty(), None).unwrap();
    socket::bind(client.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(from, 0))).unwrap();
    let to = SocketAddr::new(
        if from.is_ipv4() { [127, 0, 0, 1].into() } else { IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1_u16]) },
        listener.local_addr().unwrap().port(),
    );
    socket::connect(client.as_raw_fd(), &SockaddrStorage::from(to)).unwrap();
    let (server, _) = listener.accept().unwrap();
    name_of(&server)
}

fn listen(port: u16) -> TcpListener {
    TcpListener::bind(format!("[::]:{port}")).unwrap()
}

const POLICY: &str = r#"
default = "reno"
[[rule]]
name = "mobile"
clients = ["mobile.txt", "2001:db8:1::/48"]
algorithm = "bbr3-linux"
[[rule]]
name = "web"
ports = [8443, 8080]
algorithm = "cubic"
"#;

#[test]
#[ignore = "needs the right to load BPF programs"]
fn each_connection_has_what_its_first_rule_says_and_nothing_is_left() {
    inside!("policy::each_connection_has_what_its_first_rule_says_and_nothing_is_left");
    run("ip", &["address", "add", "2001:db8:1::7/128", "dev", "lo", "nodad"]);
    run("ip", &["address", "add", "2001:db8:2::7/128", "dev", "lo", "nodad"]);
    let place = Place::new("rules");
    fs::write(place.dir.join("mobile.txt"), "# phones\n127.1.0.0/16 # one\n127.2.3.4\n").unwrap();
    let said = place.apply(POLICY);
    assert!(said.starts_with("2 rules with 3 networks in force") && said.contains("loaded: bbr3_linux"), "{said}");
    let (other, web) = (listen(0), listen(8443));
    for (from, listener, wanted, why) in [
        ("127.1.2.3", &other, "bbr3_linux", "mobile takes it: bbr3-linux"),
        ("127.2.3.4", &web, "bbr3_linux", "mobile takes it: bbr3-linux"),
        ("127.2.3.5", &web, "cubic", "web takes it: cubic"),
        ("127.2.3.5", &other, "reno", "no rule takes it: reno"),
        ("2001:db8:1::7", &other, "bbr3_linux", "mobile takes it: bbr3-linux"),
        ("2001:db8:2::7", &web, "cubic", "web takes it: cubic"),
    ] {
        assert_eq!(given(from, listener), wanted, "{from}");
        let client = SocketAddr::new(from.parse().unwrap(), listener.local_addr().unwrap().port()).to_string();
        assert!(place.policy(&["explain", &client]).contains(why), "{client}");
    }
    let status = place.status();
    let taken: Vec<u64> =
        status["rules"].as_array().unwrap().iter().map(|rule| rule["taken"].as_u64().unwrap()).collect();
    assert_eq!(taken, [3, 2, 1], "{status}");
    let host = String::from_utf8(place.bbrlab(&["host", "status"]).stdout).unwrap();
    assert!(host.contains("policy     2 rules in force on "), "{host}");
    let dry = place.policy(&["apply", "policy.toml", "--dry-run"]);
    assert!(dry.contains("Nothing was changed"), "{dry}");
    assert!(place.policy(&["remove"]).contains("unloaded: bbr3_linux"));
    place.assert_no_policy();
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn the_rtt_of_the_handshake_and_the_cgroup_of_the_service_decide() {
    inside!("policy::the_rtt_of_the_handshake_and_the_cgroup_of_the_service_decide");
    let place = Place::new("rtt");
    let inner = place.cgroup.join("inner");
    fs::create_dir(&inner).unwrap();
    place.apply(&format!(
        "[[rule]]\nname = \"inner\"\ncgroup = \"{}/inner\"\nalgorithm = \"cubic\"\n[[rule]]\nname = \"far\"\nrtt = \">= 30ms\"\nalgorithm = \"reno\"\n",
        place.below()
    ));
    let here = listen(0);
    let default = default();
    assert_eq!(given("127.0.0.1", &here), default);
    assert_eq!(place.given_far(), "reno");
    place.enter(&inner);
    let there = listen(0);
    place.enter(&place.cgroup);
    assert_eq!(given("127.0.0.1", &there), "cubic");
    let said = place.policy(&["explain", "127.0.0.1", "--rtt", "10ms", "--cgroup", "elsewhere"]);
    assert!(said.contains("far does not: its RTT is from 30 ms") && said.contains("no rule takes it"), "{said}");
    place.policy(&["remove"]);
    drop(there);
    fs::remove_dir(inner).unwrap();
    place.assert_no_policy();
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn an_application_and_a_test_go_before_a_policy() {
    inside!("policy::an_application_and_a_test_go_before_a_policy");
    let place = Place::new("before");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = TcpListener::bind("127.0.0.1:0").unwrap();
    setsockopt(&own, sockopt::TcpCongestion, &"cubic".into()).unwrap();
    let rule = "[[rule]]\nname = \"all\"\nalgorithm = \"reno\"\n";
    for text in [rule.to_owned(), format!("override_application = true\n{rule}")] {
        // A policy first and a test after it, and the other way round.
        place.apply(&text);
        assert_eq!(connect(&listener).used(), "reno");
        assert_eq!(connect(&own).used(), if text == rule { "cubic" } else { "reno" });
        let test = place.start(&listener, &["--arms", "cubic,cubic"]);
        assert_eq!(connect(&listener).used(), "cubic");
        place.policy(&["remove"]);
        place.apply(&text);
        assert_eq!(connect(&listener).used(), "cubic");
        interrupt(test);
        assert_eq!(connect(&listener).used(), "reno");
        let chosen = place.status()["rules"][0]["chosen"].as_u64().unwrap();
        assert_eq!(chosen, 1, "the test's");
        fs::remove_dir_all(place.out()).unwrap();
        place.policy(&["remove"]);
    }
    place.assert_no_policy();
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn a_share_of_networks_is_held_out_and_stays_so() {
    inside!("policy::a_share_of_networks_is_held_out_and_stays_so");
    let place = Place::new("holdout");
    let text = "default = \"reno\"\n[[rule]]\nname = \"all\"\nalgorithm = \"cubic\"\nholdout = \"20%\"\n";
    place.apply(text);
    let listener = listen(0);
    let draw = || -> Vec<bool> {
        (0..500).map(|nth| given(&format!("127.{}.{}.9", 1 + nth / 250, nth % 250), &listener) == "reno").collect()
    };
    let first = draw();
    let count = first.iter().filter(|held| **held).count();
    // Four standard deviations of a binomial.
    assert!((64..=136).contains(&count), "{count} of 500");
    assert_eq!(draw(), first);
    assert!(place.apply(text).contains("in the place of the one before"));
    assert_eq!(draw(), first, "the key outlives a change of the policy");
    assert_eq!(place.status()["rules"][0]["held_out"], count);
    place.policy(&["remove"]);
    place.assert_no_policy();
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn a_policy_is_replaced_between_two_connections() {
    inside!("policy::a_policy_is_replaced_between_two_connections");
    let place = Place::new("replaced");
    let rule = |algorithm: &str| format!("[[rule]]\nname = \"all\"\nalgorithm = \"{algorithm}\"\n");
    place.apply(&rule("reno"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stop = AtomicBool::new(false);
    let (mut counts, mut others) = ([0_u32; 2], Vec::new());
    thread::scope(|scope| {
        let changes = scope.spawn(|| {
            for nth in 0..20 {
                place.apply(&rule(["cubic", "reno"][nth % 2]));
            }
            stop.store(true, Ordering::SeqCst);
        });
        while !stop.load(Ordering::SeqCst) && !changes.is_finished() {
            match connect(&listener).used().as_str() {
                "reno" => counts[0] += 1,
                "cubic" => counts[1] += 1,
                other => others.push(other.to_owned()),
            }
        }
    });
    assert!(counts.iter().all(|count| *count > 50) && others.is_empty(), "{counts:?} {others:?}");
    place.policy(&["remove"]);
    place.assert_no_policy();
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn killed_at_any_step_the_old_policy_or_the_new_one_is_in_force() {
    inside!("policy::killed_at_any_step_the_old_policy_or_the_new_one_is_in_force");
    let place = Place::new("killed");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (old, new) =
        ("[[rule]]\nname = \"old\"\nalgorithm = \"bbr1\"\n", "[[rule]]\nname = \"new\"\nalgorithm = \"bbr3-linux\"\n");
    let die = |arguments: &[&str], step: u32| {
        let below = place.below();
        let mut all = [&["host", "policy"], arguments].concat();
        if arguments[0] == "apply" {
            all.extend(["--cgroup", &below]);
        }
        let output =
            Command::new(BBRLAB).args(all).current_dir(&place.dir).env("BBRLAB_DIE_AT", step.to_string()).output();
        output.unwrap().status.success()
    };
    fs::write(place.dir.join("new.toml"), new).unwrap();
    let mut steps = [0, 0];
    for (nth, what) in ["apply", "remove"].into_iter().enumerate() {
        for step in 1..100 {
            place.apply(old);
            assert_eq!(connect(&listener).used(), "bbr1");
            let ended = die(if what == "apply" { &["apply", "new.toml"] } else { &["remove"] }, step);
            // Whatever was left, the next connection has a policy, or the default once there is none.
            let used = connect(&listener).used();
            let allowed = if what == "apply" { ["bbr1", "bbr3_linux"] } else { ["bbr1", &default()] };
            assert!(allowed.contains(&used.as_str()), "{what} to step {step}: {used}");
            place.policy(&["remove"]);
            place.assert_no_policy();
            if ended {
                steps[nth] = step;
                break;
            }
        }
    }
    assert!(steps.iter().all(|step| *step > 3), "{steps:?}");
}

#[test]
#[ignore = "needs the right to load BPF programs"]
fn a_policy_that_lost_its_program_its_algorithm_or_its_pin_is_applied_again() {
    inside!("policy::a_policy_that_lost_its_program_its_algorithm_or_its_pin_is_applied_again");
    let place = Place::new("lost");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = "[[rule]]\nname = \"own\"\nalgorithm = \"bbr3-linux\"\n";
    let again = |lost: &str| {
        place.apply(own);
        assert_eq!(connect(&listener).used(), "bbr3_linux", "{lost}");
    };
    again("nothing");
    // Another user takes the program from the hook.
    let links = Command::new("bpftool").args(["-j", "link", "show"]).output().unwrap().stdout;
    let links: serde_json::Value = serde_json::from_slice(&links).unwrap();
    let inode = fs::metadata(&place.cgroup).unwrap().ino();
    for link in links.as_array().unwrap().iter().filter(|link| link["cgroup_id"] == inode) {
        run("bpftool", &["link", "detach", "id", &link["id"].to_string()]);
    }
    assert_eq!(connect(&listener).used(), default());
    assert!(place.policy(&["status"]).starts_with("NOT in force: its program was taken from "));
    assert_eq!(place.status()["attached"], false);
    again("the program");
    assert!(place.bbrlab(&["host", "unload", "bbr3-linux"]).status.success());
    assert_eq!(connect(&listener).used(), default());
    again("the algorithm");
    // The list of what is loaded is lost, and the policy replaced: what it needs is not loaded twice.
    fs::remove_dir_all("/run/bbrlab").unwrap();
    again("the list");
    assert!(!available().contains("bbr3_linux."), "{}", available());
    fs::remove_file("/sys/fs/bpf/bbrlab/policy-link").unwrap();
    // The kernel gives a link up some time after its pin.
    let is_gone = |_| {
        thread::sleep(Duration::from_millis(10));
        connect(&listener).used() == default()
    };
    assert!((0..1_000).any(is_gone), "the policy outlives its pin");
    again("the pin");
    fs::remove_file("/sys/fs/bpf/bbrlab/policy-link").unwrap();
    place.policy(&["remove"]);
    place.assert_no_policy();
}

/// The kernel's own count of the program's time, with half a million networks: in a log, as it is a figure of this machine.
#[test]
#[ignore = "needs the right to load BPF programs"]
fn half_a_million_networks_fit() {
    inside!("policy::half_a_million_networks_fit");
    let place = Place::new("many");
    let list: String =
        (0..500_000_u32).map(|nth| format!("{}.{}.{}.0/24\n", 20 + nth / 65_536, nth / 256 % 256, nth % 256)).collect();
    fs::write(place.dir.join("many.txt"), list).unwrap();
    let said =
        place.apply("[[rule]]\nname = \"many\"\nclients = [\"many.txt\", \"127.5.0.0/16\"]\nalgorithm = \"reno\"\n");
    assert!(said.contains("500001 networks"), "{said}");
    let listener = listen(0);
    assert_eq!((given("127.5.1.1", &listener), given("127.6.1.1", &listener)), ("reno".to_owned(), default()));
    assert!(place.policy(&["explain", "21.2.3.4"]).contains("many takes it"));
    assert!(place.policy(&["explain", "19.2.3.4"]).contains("no network of many.txt"));
    // From now on clients have another cgroup: only the server's ends count.
    place.enter(&place.root);
    fs::write("/proc/sys/kernel/bpf_stats_enabled", "1").unwrap();
    for nth in 0..2_000 {
        given(&format!("127.5.{}.{}", nth / 250, 1 + nth % 250), &listener);
    }
    thread::sleep(Duration::from_millis(100));
    fs::write("/proc/sys/kernel/bpf_stats_enabled", "0").unwrap();
    println!("{} ns a connection", place.status()["ran_ns"].as_u64().unwrap() / 2_000);
    place.enter(&place.cgroup);
    place.policy(&["remove"]);
    place.assert_no_policy();
}
