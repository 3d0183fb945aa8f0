//! Tests of the scenario language: exact error messages, and texts that parse back to the same values.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::{Debug, Display};
use std::str::FromStr;

use bbrlab_core::{Rate, Span, Time};
use proptest::prelude::*;

use super::*;
use crate::Result;
use crate::link::{Aqm, Buffer, Loss, Service};
use crate::setup::{ChangeKind, Program, Rwnd, Setup, Traffic};

fn read(toml: &str) -> Result<ScenarioFile> {
    ScenarioFile::from_toml(toml, "lab.toml")
}

fn setup(toml: &str) -> Setup {
    resolved(toml).unwrap()
}

fn resolved(toml: &str) -> Result<Setup> {
    read(toml)?.resolve(&|file| Err(format!("{file:?} is not there").into()))
}

/// Each invalid file with its one-line message.
const BAD_FILES: &[(&str, &str)] = &[
    (
        "rate = \"ten\"",
        "lab.toml:1: rate: \"ten\" is not a rate; write a number with bit, kbit, mbit, gbit or tbit, as in 10mbit",
    ),
    (
        "\nrate = 10",
        "lab.toml:2: rate: \"10\" is not a rate; write a number with bit, kbit, mbit, gbit or tbit, as in 10mbit",
    ),
    ("rate = \"0mbit\"", "lab.toml:1: rate: \"0mbit\" is out of range; rates go from 8bit to 10tbit a second"),
    ("rate = \"11tbit\"", "lab.toml:1: rate: \"11tbit\" is out of range; rates go from 8bit to 10tbit a second"),
    ("rtt = \"40\"", "lab.toml:1: rtt: \"40\" is not a time; write a number with h, min, s, ms, us or ns, as in 40ms"),
    ("rtt = \"0s\"", "lab.toml:1: rtt: 0s is too short; write at least 1us"),
    ("duration = \"20000000s\"", "lab.toml:1: duration: \"20000000s\" is too long; at most 10000000s"),
    ("duration = \"1us\"", "lab.toml:1: duration: 1us is too short; write at least 1ms"),
    ("warmup = \"60s\"", "lab.toml:1: warmup: 60s leaves nothing of 60s to measure; write less than duration"),
    ("buffer = \"0p\"", "lab.toml:1: buffer: \"0p\" holds no packet or too many; write at least 1p or 1514B"),
    ("buffer = \"1500B\"", "lab.toml:1: buffer: \"1500B\" holds no packet or too many; write at least 1p or 1514B"),
    (
        "rate = \"128kbit\"\nbuffer = \"1bdp\"",
        "lab.toml:2: buffer: 1bdp is 640 B at 128kbit and 40ms, less than one packet; write at least 1p or 1514B",
    ),
    (
        "buffer = \"big\"",
        "lab.toml:1: buffer: \"big\" is not a buffer size; write packets, bytes, BDPs or drain time, as in 41p, 64KiB, 1.5bdp or 250ms",
    ),
    ("loss = \"101%\"", "lab.toml:1: loss: \"101%\" is out of range; a share lies between 0% and 100%"),
    (
        "loss = -0.1",
        "lab.toml:1: loss: \"-0.1\" is not a loss rate; write a share or ge:p,r,1-h,1-k, as in 1% or ge:1%,10%",
    ),
    (
        "loss = nan",
        "lab.toml:1: loss: \"NaN\" is not a loss rate; write a share or ge:p,r,1-h,1-k, as in 1% or ge:1%,10%",
    ),
    ("loss = \"ge:1%\"", "lab.toml:1: loss: \"ge:1%\" has too few or too many shares; write ge:p,r[,1-h[,1-k]]"),
    (
        "jitter = \"2ms:shuffle\"",
        "lab.toml:1: jitter: \"shuffle\" is not a valid jitter; write a time or TIME:reorder, as in 2ms:reorder",
    ),
    (
        "aqm = \"codle\"",
        "lab.toml:1: aqm: \"codle\" is not a queue discipline (did you mean codel?); write droptail, red, codel, fq_codel, fq, cake, pie or dualpi2, with :ecn if wanted",
    ),
    ("aqm = \"droptail:ecn\"", "lab.toml:1: aqm: droptail has no option \"ecn\"; write droptail without options"),
    ("aqm = \"codel:target=0s\"", "lab.toml:1: aqm: target: 0s is out of range; write at least 1us"),
    (
        "aqm = \"red:min=90kB,max=30kB\"",
        "lab.toml:1: aqm: red: min 90kB is not below max 30kB; write min=VOLUME,max=VOLUME",
    ),
    (
        "policer = \"rate=10mbit\"",
        "lab.toml:1: policer: \"rate=10mbit\" lacks burst; write rate=RATE,burst=VOLUME, as in rate=10mbit,burst=125kB",
    ),
    (
        "ack_aggregation = \"some\"",
        "lab.toml:1: ack_aggregation: \"some\" is not a valid ACK aggregation; write a time, a volume or none, as in 20ms or 64KiB",
    ),
    (
        "schedule = \"20s:link=2,rate=1mbit\"",
        "lab.toml:1: schedule: step 20s:link=2,rate=1mbit: there is no link 2; the path has 1",
    ),
    (
        "schedule = \"20s:link=up,rate=1mbit\"",
        "lab.toml:1: schedule: step 20s:link=up,rate=1mbit: the reverse direction has no link; write up too, as in up=rate=1mbit",
    ),
    (
        "on = \"moon\"",
        "lab.toml:1: on: \"moon\" is not a backend; write sim, uml, kernel, quic:s2n, quic:noq or quic:quinn",
    ),
    ("repeat = 0", "lab.toml:1: repeat: 0 is out of range; write 1 to 100000"),
    ("repeat = 2.5", "lab.toml:1: repeat: found the number `2.5`; write a whole number from 1 to 100000"),
    ("ratee = 1", "lab.toml:1: unknown key \"ratee\"; did you mean rate?"),
    ("[[link]]\nrate = \"1mbit\"\nbufer = \"2p\"", "lab.toml:3: link 1: unknown key \"bufer\"; did you mean buffer?"),
    (
        "[[link]]\n[[link]]\nrate = \"1mb\"",
        "lab.toml:3: link 2: rate: \"1mb\" is not a rate; write a number with bit, kbit, mbit, gbit or tbit, as in 10mbit",
    ),
    ("loss = \"1%\"\n[[link]]", "lab.toml:1: loss: with [[link]] tables it belongs to one of them; write it there"),
    ("trace = \"a.trace\"", "lab.toml:1: trace: \"a.trace\" is not there"),
    (
        "rate = \"1mbit\"\ntrace = \"a.trace\"",
        "lab.toml:2: trace: rate, trace and demand exclude each other; write one",
    ),
    (
        "sample = \"1ns\"",
        "lab.toml:1: sample: 1ns makes more than 100000000 points, over all flows (1); write a coarser grid or 0s",
    ),
    ("rate = \"1mbit", "lab.toml:1: invalid basic string, expected `\"`"),
];

/// Each invalid flow with its one-line message after `--flow`.
const BAD_FLOWS: &[(&str, &str)] = &[
    ("bbr4", "flow 1: no algorithm \"bbr4\" (did you mean bbr1, bbr2 or bbr3?); see `bbrlab list algorithms`"),
    ("", "flow 1: no algorithm \"\"; see `bbrlab list algorithms`"),
    ("bbr1*0", "flow 1: \"0\" is not a number of flows; write 1 to 100000, as in bbr1*6"),
    ("bbr1*100001", "flow 1: \"100001\" is not a number of flows; write 1 to 100000, as in bbr1*6"),
    ("bbr1@x", "flow 1: start: \"x\" is not a time; write a number with h, min, s, ms, us or ns, as in 40ms"),
    ("bbr1@70s", "flow 1: bbr1#0 starts at 70s, after the end at 60s; start it earlier"),
    ("bbr1@5s,stop=5s", "flow 1: bbr1#0 stops at 5s, before its start at 5s; stop it later"),
    ("bbr1,size", "flow 1: \"size\" is not an option; write KEY=VALUE, as in rtt=80ms"),
    ("bbr1,size=0B", "flow 1: size: \"0B\" is out of range; volumes go from 1B to 1000TB"),
    ("bbr1,size=1MB,size=2MB", "flow 1: size: it is written twice; write it once"),
    (
        "bbr1,size=1MB,rate=1mbit",
        "flow 1: size and rate exclude each other; write one of size, on/off, rate, request, video, call and page",
    ),
    ("bbr1,on=1s", "flow 1: on and off belong together; write on=TIME/off=TIME, as in on=1s/off=2s"),
    ("bbr1,mss=0", "flow 1: mss: \"0\" is not a number of bytes; write 64 to 65000"),
    (
        "bbr1,name=a b",
        "flow 1: name: \"a b\" is not a valid name; write up to 64 letters, digits, '.', '_', '-' or '#'",
    ),
    ("bbr1,links=1..2", "flow 1: links=1..2: the path has 1; write links=1..1 or less"),
    (
        "bbr1,access=40mbit",
        "flow 1: access: \"40mbit\" is not an access link; write RATE/RTT[/BUFFER], as in 40mbit/20ms/100p",
    ),
    (
        "bbr1,pacing_gain_upp=1.1",
        "flow 1: bbr1 has no parameter \"pacing_gain_upp\" (did you mean pacing_gain_up?); see `bbrlab list parameters bbr1`",
    ),
    (
        "bbr1,pacing_gain_up=fast",
        "flow 1: pacing_gain_up: \"fast\" is not a factor; write a decimal number, such as 1.25",
    ),
    ("bbr1,pacing_gain_up=-1", "flow 1: pacing_gain_up: \"-1\" is out of range; write 1 to 10"),
    ("bbr1,min_rtt_window=1us", "flow 1: min_rtt_window: \"1us\" is out of range; write 100ms to 3600s"),
    ("bbr1,cwnd_min=0", "flow 1: cwnd_min: \"0\" is out of range; write 1 to 1000 packets"),
    ("bbr1,pacing_gain_up=99", "flow 1: pacing_gain_up: \"99\" is out of range; write 1 to 10"),
    ("bbr1,lt_bw=perhaps", "flow 1: lt_bw: \"perhaps\" is neither on nor off; write one of them"),
];

#[test]
fn every_bad_file_is_refused_in_one_line_that_says_where_and_what_would_do() {
    for (toml, line) in BAD_FILES {
        assert_eq!(resolved(toml).unwrap_err().to_string(), *line, "for {toml:?}");
        assert!(!line.contains('\n'));
    }
}

#[test]
fn every_bad_flow_is_refused_in_one_line_that_says_what_would_do() {
    for (text, line) in BAD_FLOWS {
        let mut sourced = ScenarioFile::default();
        let error =
            sourced.set_flows(&[(*text).to_owned()]).and_then(|()| sourced.resolve(&|_| Err("".into())).map(drop));
        assert_eq!(error.unwrap_err().to_string(), *line, "for {text:?}");
    }
}

#[test]
fn a_bad_flow_in_a_file_is_named_by_its_line_and_number() {
    let error = resolved("flow = [\n  \"bbr1\",\n  \"bbr4\",\n]").unwrap_err();
    assert_eq!(
        error.to_string(),
        "lab.toml:3: flow 2: no algorithm \"bbr4\" (did you mean bbr1, bbr2 or bbr3?); see `bbrlab list algorithms`"
    );
}

#[test]
fn a_bad_flag_is_named_by_its_flag() {
    let mut sourced = read("rate = \"5mbit\"").unwrap();
    let error = sourced.set("ack_loss", "x").unwrap_err();
    let line = "--ack-loss: \"x\" is not a loss rate; write a share or ge:p,r,1-h,1-k, as in 1% or ge:1%,10%";
    assert_eq!(error.to_string(), line);
    sourced.set("warmup", "90s").unwrap();
    let error = sourced.resolve(&|_| Err("".into())).unwrap_err();
    assert_eq!(error.to_string(), "--warmup: 90s leaves nothing of 60s to measure; write less than duration");
}

#[test]
fn a_flag_without_effect_on_a_files_own_links_is_refused() {
    let mut sourced = read("[[link]]\nrate = \"5mbit\"").unwrap();
    let error = sourced.set("rate", "9mbit").unwrap_err();
    assert_eq!(error.to_string(), "--rate: the scenario's [[link]] tables say it themselves; change it there");
}

#[test]
fn an_empty_scenario_is_one_bbr1_flow_over_10_mbit_and_40_ms_with_one_bdp_of_buffer() {
    let setup = setup("");
    assert!(matches!(setup.links[0].service, Service::Rate(rate) if rate == Rate::bits_per_sec(10_000_000)));
    assert_eq!(setup.links[0].buffer, Buffer::Bytes(50_000));
    assert_eq!(setup.path.rtt, Span::millis(40));
    assert_eq!((setup.duration, setup.flows.len()), (Time::nanos(60_000_000_000), 1));
    assert_eq!(setup.flows[0].name, "bbr1#0");
    assert_eq!(setup.sample, Some(Span::millis(10)));
}

#[test]
fn a_default_buffer_holds_ten_packets_even_on_a_tiny_path() {
    assert_eq!(setup("rate = \"128kbit\"").links[0].buffer, Buffer::Packets(10));
    // A packet in 10 ms is 1.2 Mbit/s, whatever the default rate.
    for keys in ["trace = \"slow\"", "[[link]]\ntrace = \"slow\""] {
        let file = read(&format!("rtt = \"30ms\"\n{keys}")).unwrap();
        let setup = file.resolve(&|_| Ok("10\n20\n".into())).unwrap();
        assert_eq!(setup.links[0].buffer, Buffer::Packets(10), "{keys}");
    }
}

#[test]
fn flows_start_in_steps_and_carry_names_that_count_over_the_scenario() {
    let setup = setup("flow = [\"bbr1*2@1s+2s\", \"cubic,name=x\", \"bbr1\", \"reno*2,name=y\"]");
    let names: Vec<_> =
        setup.flows.iter().map(|flow| (flow.name.as_str(), flow.start.as_nanos() / 1_000_000_000)).collect();
    assert_eq!(names, [("bbr1#0", 1), ("bbr1#1", 3), ("x", 0), ("bbr1#2", 0), ("y#0", 0), ("y#1", 0)]);
}

#[test]
fn every_option_of_a_flow_reaches_its_setup() {
    let text = "cubic@1s,rtt=80ms,rwnd=auto,mss=1200,request=100kB/1s,ecn=on,pacing=on,gro=50us,tso=off,iw=32,delack=0s,stop=9s,access=40mbit/20ms/100p,program=bbrlab";
    let flow = setup(&format!("flow = [{text:?}]")).flows.remove(0);
    assert_eq!((flow.rtt, flow.rwnd, flow.mss), (Some(Span::millis(80)), Rwnd::Auto(6 << 20), 1200));
    assert_eq!(flow.traffic, Traffic::RequestResponse { size: 100_000, think: Span::secs(1) });
    assert_eq!((flow.host.ecn, flow.host.pacing, flow.host.tso_max), (true, true, 1200));
    assert_eq!(flow.host.program, Program::Bbrlab);
    assert_eq!(
        (flow.host.gro, flow.host.initial_cwnd, flow.host.delayed_ack),
        (Some(Span::micros(50)), 32, Some(Span::ZERO))
    );
    assert_eq!(
        flow.access.map(|access| (access.rate, access.rtt, access.buffer)),
        Some((Rate::bits_per_sec(40_000_000), Span::millis(20), Buffer::Packets(100)))
    );
}

#[test]
fn a_flow_of_the_tcp_model_has_its_algorithms_parameters_and_a_name_of_its_own() {
    let text = "tcp:bbr1*2@1s,pacing_gain_up=1.1,rtt=80ms";
    let flow: FlowSpec = text.parse().unwrap();
    assert_eq!(flow.to_string().parse::<FlowSpec>().unwrap(), flow);
    let plain: FlowSpec = text.strip_prefix("tcp:").unwrap().parse().unwrap();
    assert_eq!((flow.algorithm, flow.is_tcp, plain.is_tcp), (plain.algorithm, true, false));
    let setup = setup("flow = [\"tcp:cubic*2\", \"cubic\"]");
    let named: Vec<_> = setup.flows.iter().map(|flow| (flow.name.as_str(), flow.cc(), flow.is_tcp)).collect();
    let tcp = |name| (name, "tcp:cubic", true);
    assert_eq!(named, [tcp("tcp:cubic#0"), tcp("tcp:cubic#1"), ("cubic#0", "cubic", false)]);
    let fault = |text: &str| text.parse::<FlowSpec>().unwrap_err().to_string();
    assert!(fault("tcp:moon").contains("no algorithm \"moon\"") && fault("tcp:s2n:bbr").contains("\"s2n:bbr\""));
}

#[test]
fn both_spellings_of_on_and_off_mean_the_same() {
    assert_eq!("bbr1,on=1s/off=2s".parse::<FlowSpec>(), "bbr1,on=1s,off=2s".parse());
}

#[test]
fn a_parking_lot_gives_each_flow_the_delay_of_the_links_that_it_crosses() {
    let setup = setup(
        "rtt = \"10ms\"\nflow = [\"bbr1\", \"cubic,links=2..2\"]\n\
         [[link]]\nrate = \"8mbit\"\n[[link]]\nrate = \"4mbit\"\ndelay = \"20ms\"\n[[link]]\ndelay = \"5ms\"",
    );
    assert_eq!(setup.path.rtt, Span::millis(35));
    assert_eq!((setup.flows[0].links, setup.flows[0].rtt), ((0, 3), None));
    assert_eq!((setup.flows[1].links, setup.flows[1].rtt), ((1, 2), Some(Span::millis(30))));
    assert_eq!(setup.bottleneck, 1);
}

#[test]
fn a_schedule_changes_the_path_in_order_and_measures_bdps_at_the_new_rate() {
    let setup = setup("schedule = \"40s:loss=ge:1%,10%,ack_loss=2%;20s:rate=20mbit,rtt=80ms,buffer=1bdp\"");
    let at: Vec<u64> = setup.schedule.iter().map(|change| change.at.as_nanos() / 1_000_000_000).collect();
    assert_eq!(at, [20, 20, 20, 40, 40]);
    assert!(matches!(setup.schedule[2].what, ChangeKind::Buffer(Buffer::Bytes(200_000))));
    let loss = Loss::GilbertElliott { p: 0.01, r: 0.1, loss_bad: 1.0, loss_good: 0.0 };
    assert!(matches!(setup.schedule[3].what, ChangeKind::Loss(change) if change == loss));
}

#[test]
fn queue_disciplines_take_their_options_after_colons_or_commas() {
    let Aqm::FqCodel(fq) = setup("aqm = \"fq_codel:target=2ms,flows=16:ecn\"").links[0].aqm.clone() else {
        panic!("fq_codel is another discipline");
    };
    assert_eq!((fq.codel.target, fq.flows, fq.codel.ecn, fq.quantum), (Span::millis(2), 16, true, 1514));
}

#[test]
fn arrivals_become_sized_flows_and_repeat_with_their_seed() {
    let toml = "duration = \"10s\"\n[[arrivals]]\nflow = \"cubic,rtt=20ms\"\nrate = 5\nsize = { pareto = { alpha = 1.2, min = \"10kB\", max = \"10MB\" } }";
    let sizes = |setup: &Setup| setup.flows.iter().map(|flow| (flow.start, flow.traffic.clone())).collect::<Vec<_>>();
    let first = setup(toml);
    assert!((30..75).contains(&first.flows.len()), "{}", first.flows.len());
    assert_eq!(sizes(&first), sizes(&setup(toml)));
    assert!(first.flows.iter().all(|flow| matches!(flow.traffic, Traffic::Size(10_000..=10_000_000))));
}

const EVERYTHING: &str = r#"
name = "all keys"
rtt = "40ms"
buffer = "2bdp"
ack_loss = 0.001
jitter = "2ms:reorder"
reorder = "1%"
duplicate = "0.5%"
aqm = "red:p=10%,gentle,ecn"
ack_aggregation = "20ms"
schedule = "5s:link=2,rate=2mbit,buffer=10p"
flow = ["bbr1*2@0s+1s,pacing_gain_up=1.1,lt_bw=off", "cubic,size=5MB,rwnd=64KiB,links=1..1", "reno,rate=1mbit"]
duration = "30s"
warmup = "1.5s"
seed = 7
repeat = 3
sample = "50ms"
[[link]]
demand = "min=1mbit,max=20mbit"
policer = "rate=10mbit,burst=125kB"
loss = "ge:1%,10%,50%"
[[link]]
rate = "8mbit"
delay = "2ms"
aqm = "pie:ecn"
[[arrivals]]
flow = "cubic"
rate = 2.5
from = "1s"
until = "20s"
size = { empirical = [["10kB", 1.0], ["1MB", 0.1]] }
[[expect]]
id = "X"
what = "share"
measure = "share(\"bbr1\")"
min = 0.4
"#;

#[test]
fn a_scenario_comes_back_from_json_and_from_toml_as_it_was() {
    let scenario = read(EVERYTHING).unwrap().scenario.filled();
    let json = serde_json::to_string(&scenario).unwrap();
    assert_eq!(ScenarioFile::from_json(&json, "x.json").unwrap().scenario, scenario);
    let toml = toml::to_string(&scenario).unwrap();
    assert_eq!(read(&toml).unwrap().scenario, scenario);
}

#[test]
fn a_filled_scenario_resolves_to_the_same_setup() {
    for toml in ["", EVERYTHING, "rate = \"128kbit\"\nflow = [\"cubic*3\"]"] {
        let scenario = read(toml).unwrap().scenario;
        let setups = [scenario.resolve(), scenario.filled().resolve()].map(|setup| format!("{:?}", setup.unwrap()));
        assert_eq!(setups[0], setups[1], "{toml}");
        assert_eq!(scenario.filled(), scenario.filled().filled());
    }
}

/// Goal: several runs of a path without loss differ; equal starts would stay in lockstep for every seed.
#[test]
fn repeated_runs_start_their_flows_with_jitter_unless_it_is_turned_off() {
    let starts = |toml: &str, seed: u64| {
        let scenario = Scenario { seed, ..read(toml).unwrap().scenario };
        scenario.resolve().unwrap().flows.iter().map(|flow| flow.start.as_nanos()).collect::<Vec<_>>()
    };
    let flows = "flow = ['cubic', 'cubic@1s,stop=1005ms']";
    assert_eq!(starts(flows, 1), [0, 1_000_000_000]);
    let repeated = format!("repeat = 5\n{flows}");
    let [first, second] = starts(&repeated, 1)[..] else { panic!() };
    assert!(first < 40_000_000 && (1_000_000_000..1_005_000_000).contains(&second), "{first} {second}");
    assert!((2..=5).all(|seed| starts(&repeated, seed) != starts(&repeated, 1)));
    assert_eq!(starts(&format!("start_jitter = '0s'\n{repeated}"), 3), [0, 1_000_000_000]);
    let one_of_them = read(&repeated).unwrap().scenario.filled();
    assert_eq!(starts(&toml::to_string(&Scenario { repeat: 1, ..one_of_them }).unwrap(), 1), [first, second]);
}

#[test]
fn the_scenario_of_a_result_is_read_from_the_result() {
    let json = r#"{"schema": 1, "scenario": {"rate": "5mbit"}}"#;
    assert_eq!(ScenarioFile::from_json(json, "r.json").unwrap().scenario.rate, Some(BitRate(5_000_000)));
}

#[test]
fn a_list_is_no_scenario_and_no_table_of_one() {
    for (json, says) in [
        (r#"["a", "5mbit", "10ms"]"#, "x.json: a list is not accepted; write the keys of a scenario in braces"),
        ("[]", "x.json: a list is not accepted; write the keys of a scenario in braces"),
        ("7", "x.json: found the number `7`; write the keys of a scenario in braces"),
        (
            r#"{"scenario": ["hello", "5mbit"]}"#,
            "x.json: a list is not accepted; write the keys of a scenario in braces",
        ),
        (r#"{"link": [["10mbit"]]}"#, "x.json: link 1: a list is not accepted; write a [[link]] table"),
        (r#"{"expect": [["X"]]}"#, "x.json: expect 1: a list is not accepted; write an [[expect]] table"),
        (r#"{"arrivals": [[]]}"#, "x.json: arrivals 1: a list is not accepted; write an [[arrivals]] table"),
    ] {
        assert_eq!(ScenarioFile::from_json(json, "x.json").unwrap_err().to_string(), says, "{json}");
    }
    let says = read("rtt = '1ms'\nlink = [['10mbit']]").unwrap_err();
    assert_eq!(says.to_string(), "lab.toml:2: link 1: a list is not accepted; write a [[link]] table");
}

fn reads_back<T: FromStr<Err = TextError> + Display + Debug + PartialEq>(value: &T) -> Result<(), TestCaseError> {
    let back = value.to_string().parse::<T>();
    prop_assert_eq!(back.as_ref(), Ok(value));
    Ok(())
}

fn rate() -> impl Strategy<Value = BitRate> {
    (8..=10_000_000_000_000_u64).prop_map(BitRate)
}

fn time() -> impl Strategy<Value = TimeSpan> {
    prop_oneof![0..=10_000_000_000_000_000_u64, 0..5_000_000_u64].prop_map(TimeSpan)
}

fn volume() -> impl Strategy<Value = Volume> {
    prop_oneof![1..=1_000_000_000_000_000_u64, (1..1_000_000_u64).prop_map(|kib| kib * 1024)].prop_map(Volume)
}

fn ratio() -> impl Strategy<Value = Ratio> {
    prop_oneof![(0.0..=1.0_f64), (0..=1000_u32).prop_map(|permille| f64::from(permille) / 1000.0)].prop_map(Ratio)
}

fn loss() -> impl Strategy<Value = LossModel> {
    let positive = ratio().prop_filter("nothing lost is None", |ratio| ratio.0 > 0.0);
    prop_oneof![
        Just(LossModel::None),
        positive.prop_map(LossModel::Bernoulli),
        (ratio(), ratio(), ratio(), ratio()).prop_map(|(p, r, loss_bad, loss_good)| LossModel::GilbertElliott {
            p,
            r,
            loss_bad,
            loss_good
        }),
    ]
}

fn buffer() -> impl Strategy<Value = BufferSize> {
    prop_oneof![
        (1..1_000_000_u64).prop_map(BufferSize::Packets),
        (PACKET_BYTES..1 << 40).prop_map(|bytes| BufferSize::Bytes(Volume(bytes))),
        (1e-6..1e6_f64).prop_map(BufferSize::Bdp),
        (1..1_000_000_000_000_u64).prop_map(|nanos| BufferSize::Drain(TimeSpan(nanos))),
    ]
}

proptest! {
    #[test]
    fn texts_of_units_read_back(rate in rate(), time in time(), volume in volume(), ratio in ratio(), loss in loss(), buffer in buffer()) {
        reads_back(&rate)?;
        reads_back(&time)?;
        reads_back(&volume)?;
        reads_back(&ratio)?;
        reads_back(&loss)?;
        reads_back(&buffer)?;
        reads_back(&Jitter { time, reorder: rate.0 % 2 == 0 })?;
        reads_back(&AckHold::Bytes(volume))?;
    }

    #[test]
    fn texts_of_schedules_read_back(steps in prop::collection::vec((time(), rate(), loss(), buffer(), 0..4_u32), 0..4)) {
        let links = [None, Some(ChangedLink::Number(1)), Some(ChangedLink::Number(7)), Some(ChangedLink::Up)];
        let steps = steps.into_iter().map(|(at, rate, loss, buffer, link)| Step {
            at, link: links[link as usize], rate: Some(rate), loss: Some(loss), buffer: Some(buffer), ..Step::default()
        });
        let schedule: Schedule = Schedule(steps.collect()).to_string().parse().unwrap();
        reads_back(&schedule)?;
    }

    #[test]
    fn texts_of_flows_read_back(
        count in 1..9_u32, start in time(), step in time(), size in volume(), mss in 64..65_000_u32, access in (rate(), time(), buffer()),
        iw in 1..1000_u32, ecn: bool, tso in 0..500_000_u32,
    ) {
        let mut flow = "bbr1,pacing_gain_up=1.1,lt_bw=off".parse::<FlowSpec>().unwrap();
        (flow.count, flow.start, flow.step) = (count, start, step);
        let (rate, rtt, buffer) = access;
        flow.options = FlowOptions {
            size: Some(size), mss: Some(mss), iw: Some(iw), ecn: Some(if ecn { Ecn::L4s } else { Ecn::Off }), tso: Some(tso), rwnd: Some(Window::Auto(size)),
            access: Some(Access { rate, rtt, buffer }), links: Some((1, iw)), name: Some("a#1".to_owned()), ..FlowOptions::default()
        };
        reads_back(&flow)?;
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in ".{0,40}") {
        let _ = (text.parse::<FlowSpec>(), text.parse::<Schedule>(), text.parse::<AqmSpec>(), text.parse::<BufferSize>());
        let _ = (text.parse::<LossModel>(), text.parse::<TokenBucket>(), text.parse::<DemandLink>(), text.parse::<Jitter>());
        let _ = resolved(&text);
    }
}
