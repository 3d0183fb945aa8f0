//! `--on uml`: the command on a real kernel in virtual time. Ignored by default, because the kernel must be built
//! (`make uml`).
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

fn bbrlab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bbrlab")).args(args).output().expect("the command starts")
}

fn result(args: &[&str]) -> Value {
    let output = bbrlab(&[&["run", "--on", "uml", "--json", "-"], args].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn refusal(args: &[&str]) -> String {
    let output = bbrlab(&[&["run", "--on", "uml"], args].concat());
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr).expect("text")
}

#[test]
#[ignore = "needs the kernel of make uml"]
fn one_bbr_flow_fills_its_link_with_the_queue_that_linux_leaves() {
    let result =
        result(&["--rate", "10mbit", "--rtt", "40ms", "--buffer", "267p", "--flow", "bbr1", "--duration", "20s"]);
    let flow = &result["flows"][0];
    let goodput = flow["goodput_bps"].as_f64().unwrap();
    let rtt = flow["rtt_ms"]["mean"].as_f64().unwrap();
    assert!((9.3e6..9.57e6).contains(&goodput), "{goodput}");
    assert!((45.0..54.0).contains(&rtt), "{rtt}");
    assert_eq!((&result["on"], result["bottleneck"]["drops"].as_u64()), (&Value::from("uml"), Some(0)));
}

#[test]
#[ignore = "needs the kernel of make uml"]
fn a_transfer_ends_when_its_last_byte_has_arrived() {
    let result = result(&["--rate", "10mbit", "--rtt", "40ms", "--flow", "cubic,size=100kB", "--duration", "5s"]);
    let flow = &result["flows"][0];
    assert_eq!(flow["bytes"].as_u64(), Some(100_000));
    let fct = flow["fct_s"].as_f64().unwrap();
    assert!((0.17..0.22).contains(&fct), "{fct}");
}

#[test]
#[ignore = "needs the kernel of make uml"]
fn receivers_keep_what_they_have_reported_whatever_memory_the_hosts_take_together() {
    let path = ["--rate", "481.738mbit", "--rtt", "155.6ms", "--buffer", "4.74bdp", "--aqm", "codel"];
    let flows = ["--flow", "reno*2", "--flow", "bbr1", "--start-jitter", "155ms", "--seed", "3", "--duration", "8s"];
    let result = result(&[&path[..], &flows].concat());
    assert!(result["bottleneck"]["drops"].as_u64().unwrap() > 0, "{result}");
    for flow in result["flows"].as_array().unwrap() {
        assert_eq!((flow["rto"].as_u64(), flow["spurious_retransmits"].as_u64()), (Some(0), Some(0)), "{flow}");
    }
}

/// Types of the blocks of a pcapng file, in order.
fn blocks(file: &[u8]) -> Vec<u32> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut kinds) = (0, Vec::new());
    while at < file.len() {
        kinds.push(word(at));
        at += word(at + 4) as usize;
    }
    kinds
}

#[test]
#[ignore = "needs the kernel of make uml"]
fn a_capture_holds_every_packet_of_the_sender_up_to_its_limit() {
    let dir = std::env::temp_dir().join(format!("bbrlab-uml-pcap-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("sender.pcapng");
    let packets = |limit: &str| {
        let path = file.to_str().unwrap();
        let flags = ["--flow", "cubic,size=100kB", "--duration", "3s", "--pcap", path, "--pcap-limit", limit];
        let output = bbrlab(&[&["run", "--on", "uml", "-q"], &flags[..]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let count = blocks(&std::fs::read(&file).unwrap()).iter().filter(|kind| **kind == 6).count();
        (count, String::from_utf8(output.stderr).unwrap())
    };
    let (all, said) = packets("1000");
    // SYN, 70 segments, possibly FIN; at least one ACK for every two of them.
    assert!((71 + 36..=73 + 73).contains(&all), "{all} packets; {said}");
    let (some, said) = packets("50");
    assert!(some == 50 && said.contains("50 packets were recorded"), "{some} packets; {said}");
    // A directory gets the only view of a real kernel's path: the sender's.
    let output = bbrlab(&["run", "--on", "uml", "-q", "--duration", "1s", "--pcap", &format!("{}/", dir.display())]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(names, ["sender.pcapng"]);
}

#[test]
#[ignore = "needs the kernel of make uml"]
fn a_schedule_changes_the_path() {
    let args =
        ["--rate", "10mbit", "--rtt", "20ms", "--flow", "cubic", "--duration", "20s", "--schedule", "10s:rate=30mbit"];
    let goodput = result(&args)["flows"][0]["goodput_bps"].as_f64().unwrap();
    assert!((18e6..20e6).contains(&goodput), "{goodput}");
}

#[test]
#[ignore = "needs the kernel of make uml"]
fn a_policer_drops_what_exceeds_its_rate() {
    let result = result(&[
        "--rate",
        "100mbit",
        "--rtt",
        "40ms",
        "--policer",
        "rate=10mbit,burst=50kB",
        "--flow",
        "cubic",
        "--duration",
        "20s",
    ]);
    let goodput = result["flows"][0]["goodput_bps"].as_f64().unwrap();
    assert!((4e6..9.7e6).contains(&goodput), "{goodput}");
    assert!(result["bottleneck"]["drops"].as_u64().unwrap() > 10);
}

#[test]
#[ignore = "needs the kernel of make uml"]
fn acks_and_an_upload_share_the_link_of_the_reverse_direction() {
    let path = ["--rate", "20mbit", "--rtt", "20ms", "--duration", "10s"];
    let slow = result(&[&path[..], &["--up", "rate=200kbit,buffer=50p", "--flow", "reno"]].concat());
    // 20 Mbit/s of data need 0.43 Mbit/s of ACKs. Fifty of 66 bytes, without SACK blocks, wait for 132 ms.
    let up = &slow["up"];
    assert!(up["utilisation"].as_f64().unwrap() > 0.9 && up["drops"].as_u64().unwrap() > 100, "{up}");
    assert!((130.0..134.0).contains(&up["queue_ms"]["p50"].as_f64().unwrap()), "{up}");
    let flows = ["--up", "rate=5mbit,buffer=30p", "--flow", "cubic", "--flow", "cubic,direction=up"];
    let both = result(&[&path[..], &flows].concat());
    let goodput = |flow: usize| both["flows"][flow]["goodput_bps"].as_f64().unwrap();
    assert!((4.2e6..4.8e6).contains(&goodput(1)) && goodput(0) > 10e6, "{} {}", goodput(0), goodput(1));
}

#[test]
#[ignore = "needs the kernel of make uml"]
fn a_probe_takes_the_path_and_its_serialisation_and_waits_in_the_flows_queue() {
    let path = ["--rate", "20mbit", "--rtt", "40ms", "--buffer", "2bdp", "--duration", "5s", "--probe", "20ms"];
    let probe = |flags: &[&str]| result(&[&path[..], flags].concat())["probe"].clone();
    // 98 bytes at 20 Mbit/s take 39 µs.
    let idle = probe(&["--warmup", "1s", "--flow", "cubic,size=1kB"]);
    let figure = |name: &str| idle["rtt_ms"][name].as_f64();
    assert_eq!((figure("min"), figure("max"), idle["lost"].as_u64()), (Some(40.039), Some(40.039), Some(0)), "{idle}");
    let loaded = probe(&["--warmup", "2s", "--flow", "cubic"]);
    let rtt = loaded["rtt_ms"]["p50"].as_f64().unwrap();
    assert!((80.0..121.0).contains(&rtt) && loaded["rpm"]["rpm"].as_f64().unwrap() < 750.0, "{loaded}");
    let lossy = probe(&["--flow", "cubic,size=1kB", "--loss", "20%"]);
    assert!((0.1..0.3).contains(&lossy["loss_ratio"].as_f64().unwrap()), "{lossy}");
}

#[test]
fn what_a_kernel_cannot_express_is_refused_in_one_line() {
    if bbrlab(&["run", "--on", "uml", "--duration", "1s", "--flow", "fixed"]).status.code() != Some(2) {
        panic!("a kernel has no fixed window");
    }
    for args in [
        &["--ack-aggregation", "20ms"][..],
        &["--flow", "bbr1,pacing_gain_up=1.5"],
        &["--reorder", "1%"],
        &["--up", "rate=1mbit,ack_filter"],
        &["--buffer", "4bdp", "--schedule", "10s:buffer=100p"],
        &["--buffer", "100p", "--schedule", "10s:buffer=50p;20s:buffer=50ms"],
    ] {
        let said = refusal(args);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.starts_with("bbrlab: --on uml: "), "{said}");
    }
}

/// Twelve scenarios, one for each source of random numbers, each as short as possible.
const SCENARIOS: [&str; 12] = [
    "--rate 20mbit --rtt 20ms --loss 1% --flow bbr1",
    "--rate 20mbit --rtt 20ms --buffer 1bdp --flow bbr1 --flow cubic@500ms",
    "--rate 20mbit --rtt 30ms --aqm fq_codel --flow bbr1*3 --flow cubic,request=30kB/50ms",
    "--rate 10mbit --rtt 20ms --buffer 30p --aqm cake:diffserv4 --flow cubic*2,host=1 --flow bbr1,host=1,dscp=CS1",
    "--rate 10mbit --rtt 20ms --buffer 300p --aqm pie --probe 7ms --flow cubic*2",
    "--rate 10mbit --rtt 20ms --buffer 300p --aqm codel:ecn --flow cubic,ecn=on --flow reno,ecn=on",
    "--rate 10mbit --rtt 20ms --buffer 100p --aqm red:min=15kB,max=60kB,p=0.1 --flow reno*2",
    "--rate 20mbit --rtt 40ms --jitter 5ms:reorder --flow cubic",
    "--rate 20mbit --rtt 20ms --schedule 1s:rate=10mbit,loss=2%;2s:rtt=60ms --flow bbr1 --flow cubic",
    "--rate 50mbit --rtt 20ms --policer rate=10mbit,burst=30kB --loss ge:1%,20% --flow bbr1",
    "--rate 20mbit --rtt 20ms --ack-loss 10% --duplicate 1% --flow bbr1 --flow cubic,request=20kB/10ms",
    "--rate 20mbit --rtt 20ms --ack-loss 1% --up rate=2mbit,buffer=50p,aqm=fq_codel --flow bbr1 --flow cubic,direction=up",
];

/// Packets of a run, as written to a file, and its figures.
fn traced(scenario: &str, seed: &str) -> (Vec<u8>, Value) {
    let name = format!("bbrlab-uml-repeat-{}-{:?}.pcapng", std::process::id(), std::thread::current().id());
    let file = std::env::temp_dir().join(name);
    let fixed = ["--duration", "3s", "--seed", seed, "--pcap", file.to_str().unwrap()];
    let words: Vec<&str> = scenario.split(' ').chain(fixed).collect();
    let mut figures = result(&words);
    let packets = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    figures.as_object_mut().unwrap().remove("wall_s").expect("a result says how long it took");
    (packets, figures)
}

#[test]
#[ignore = "needs the kernel of make uml"]
fn a_real_kernel_gives_the_same_bytes_each_time() {
    for scenario in SCENARIOS {
        let (packets, figures) = traced(scenario, "7");
        let (again, figures_again) = traced(scenario, "7");
        assert!(packets.len() > 50_000, "{scenario}: {} bytes of packets", packets.len());
        assert!(packets == again, "{scenario}: other packets");
        assert_eq!(figures, figures_again, "{scenario}");
    }
}

#[test]
#[ignore = "needs the kernel of make uml"]
fn another_seed_gives_other_losses() {
    let (one, _) = traced(SCENARIOS[0], "7");
    let (other, _) = traced(SCENARIOS[0], "8");
    assert!(one != other);
}

#[test]
#[ignore = "needs the kernel of make uml"]
fn neither_a_home_nor_its_variables_matter() {
    let run = |command: &mut Command| {
        let args = ["run", "--on", "uml", "--loss", "1%", "--duration", "2s", "--seed", "3", "--json", "-"];
        let output = command.args(args).output().expect("the command starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut figures: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        figures.as_object_mut().unwrap().remove("wall_s");
        figures
    };
    let kernel = std::env::var_os("BBRLAB_UML_KERNEL");
    let cache = std::env::var_os("BBRLAB_UML_CACHE").or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(std::path::Path::new(&home).join(".cache/bbrlab/uml").into())
    });
    let command = || Command::new(env!("CARGO_BIN_EXE_bbrlab"));
    let mut bare = command();
    bare.env_clear().envs(kernel.map(|kernel| ("BBRLAB_UML_KERNEL", kernel)));
    bare.envs(cache.map(|cache| ("BBRLAB_UML_CACHE", cache))).env("PATH", std::env::var_os("PATH").unwrap());
    assert_eq!(run(&mut bare), run(command().env("SOMETHING", "else")));
}

#[test]
#[ignore = "needs the kernel of make uml"]
fn packets_side_by_side_end_with_the_first_that_differs() {
    let output =
        bbrlab(&["validate", "--packets", "--rate", "10mbit", "--flow", "reno", "--loss", "5%", "--duration", "2s"]);
    let said = String::from_utf8(output.stdout).expect("text");
    // The two runs lose different packets.
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("first different packet: at ") && said.contains("before it, and it:"), "{said}");
}

/// To the microsecond, 25,000 packets with the losses of slow start and their repair: model and kernel are identical.
#[test]
#[ignore = "needs the kernel of make uml"]
fn the_model_sends_the_packets_of_the_kernel() {
    let path = ["--rate", "10mbit", "--rtt", "40ms", "--flow", "cubic", "--duration", "20s"];
    let output = bbrlab(&[&["validate", "--packets"], &path[..]].concat());
    let said = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("first different packet: none") && said.contains("first different time: none"), "{said}");
}

/// Marks of CoDel, their echoes, the answers to CWR and the quick ACKs after a retransmission without ECT: 11,000 packets in the
/// kernel's order. The times differ by up to 5 µs; the kernel's CoDel counts in units of 1.024 µs.
#[test]
#[ignore = "needs the kernel of make uml"]
fn the_model_answers_marks_as_the_kernel_does() {
    let path = ["--rate", "20mbit", "--rtt", "40ms", "--buffer", "2bdp", "--aqm", "codel:ecn", "--duration", "5s"];
    let output =
        bbrlab(&[&["validate", "--packets", "--within", "10us", "--flow", "cubic,ecn=on"], &path[..]].concat());
    let said = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("first different packet: none"), "{said}");
}

/// A time-out of 256 ms and more ends on a multiple of 32 ms of the kernel's clock, so time zero is one. Without that, the run has
/// 5 % more packets.
#[test]
#[ignore = "needs the kernel of make uml"]
fn time_outs_end_when_the_kernels_do() {
    let path = ["--rate", "20mbit", "--rtt", "10ms", "--buffer", "2bdp", "--duration", "20s"];
    let flows = ["--up", "rate=500kbit,buffer=100p,aqm=codel", "--flow", "cubic", "--flow", "cubic,direction=up"];
    let output = bbrlab(&[&["validate", "--packets"], &path[..], &flows[..]].concat());
    let said = String::from_utf8(output.stdout).expect("text");
    let packets: Vec<f64> = said.split(' ').filter_map(|word| word.parse().ok()).take(2).collect();
    assert!(packets[0] > 30_000.0 && (packets[1] / packets[0] - 1.0).abs() < 0.002, "{said}");
}

#[test]
fn packets_are_of_one_scenario() {
    for args in [&["validate", "--rate", "10mbit"][..], &["validate", "--packets", "--within", "soon"]] {
        let output = bbrlab(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap().lines().count(), 1, "{args:?}");
    }
}

#[test]
#[ignore = "needs the kernel of make uml"]
fn a_killed_command_leaves_no_kernel_running_and_the_next_one_removes_its_directory() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_bbrlab"))
        .args(["run", "--on", "uml", "--duration", "600s"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    std::thread::sleep(Duration::from_secs(2));
    let exchange = format!("bbrlab-uml-{}-0", child.id());
    assert!(uses(&exchange) > 0, "a kernel runs");
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    let gone = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        uses(&exchange) == 0
    });
    assert!(gone, "the kernel outlives its command");
    result(&["--rate", "1mbit", "--duration", "1s", "--flow", "bbr1"]);
    assert!(!std::env::temp_dir().join(&exchange).exists());
}

/// Number of processes whose command line contains `text`.
fn uses(text: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let lines = entries.flatten().filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(text)).count()
}
