//! Tests of the translation to `ip` and `tc`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use bbrlab_sim::scenario::Scenario;

fn planned(keys: &[(&str, &str)]) -> Plan {
    let mut scenario = Scenario::default();
    keys.iter().for_each(|(key, text)| scenario.set(key, text).unwrap());
    plan(&scenario.resolve().unwrap()).unwrap()
}

/// The guest plans too, where nothing names the kernel that it runs.
#[test]
fn a_plan_needs_no_name_of_a_kernel_with_the_module() {
    assert_eq!(planned(&[("flow", "bbr3-linux"), ("flow", "prague")]).ends.len(), 2);
}

#[test]
fn cake_is_the_shaper_and_hosts_have_addresses_of_their_own() {
    let flows = ["cubic,host=1", "cubic,host=2", "cubic,host=1", "cubic"].map(|flow| ("flow", flow));
    let path = [("rate", "20mbit"), ("buffer", "100p"), ("aqm", "cake:diffserv4,rtt=50ms")];
    let mut plan = planned(&[&path[..], &flows].concat());
    let line = "root handle 1: cake bandwidth 20000000bit diffserv4 triple-isolate rtt 50000.000us memlimit 228000";
    assert_eq!(plan.disciplines["n0"].trim(), format!("qdisc add dev l0 {line}"));
    let ends: Vec<(u8, u8)> = plan.ends.iter().map(|end| (end.from.octets()[3], end.to.octets()[3])).collect();
    assert_eq!(ends, [(1, 1), (2, 2), (3, 1), (4, 3)]);
    let what = ChangeKind::Rate(Rate::bits_per_sec(5_000_000));
    let changed = plan.change(&Change { at: bbrlab_core::Time::ZERO, link: 0, what });
    assert!(changed[0].1.starts_with("qdisc change dev l0 root handle 1: cake bandwidth 5000000bit"), "{changed:?}");
}

#[test]
fn without_cake_equal_flows_share_their_addresses() {
    let plan = planned(&[("flow", "cubic,host=1"), ("flow", "bbr1"), ("aqm", "codel")]);
    assert_eq!((plan.ends[0].from, plan.ends[0].to), (plan.ends[1].from, plan.ends[1].to));
}

#[test]
fn a_queue_hangs_below_htb() {
    for (aqm, queue) in [
        ("droptail", " bfifo limit "),
        ("codel", " codel limit "),
        ("fq:flow_limit=50", " fq limit 82 flow_limit 50 quantum 3028 initial_quantum 15140"),
        // 16 ms are four ticks of the kernel, and its timer adds one.
        ("pie:tupdate=16ms", " tupdate 12000.000us "),
        ("dualpi2", ""),
    ] {
        let plan = planned(&[("buffer", "125kB"), ("flow", "cubic"), ("aqm", aqm)]);
        let commands = &plan.disciplines["n0"];
        assert!(commands.contains(" htb ") && commands.contains(queue), "{aqm}: {commands}");
        let queues: Vec<_> = plan.dualpi2.iter().map(|queue| (queue.device.as_str(), queue.limit)).collect();
        assert_eq!(queues, if aqm == "dualpi2" { vec![("l0", 82)] } else { vec![] });
    }
}

/// The commands of all namespaces that name a device.
fn of_device(plan: &Plan, device: &str) -> Vec<String> {
    let lines = plan.disciplines.values().flat_map(|text| text.lines());
    lines.filter(|line| line.contains(&format!("dev {device} "))).map(str::to_owned).collect()
}

const UP: [(&str, &str); 4] =
    [("rate", "20mbit"), ("rtt", "40ms"), ("buffer", "100p"), ("up", "rate=1mbit,buffer=50p")];

#[test]
fn the_link_of_the_reverse_direction_has_its_own_rate_and_queue() {
    let plan = planned(&[&UP[..], &[("flow", "cubic"), ("ack_loss", "1%")]].concat());
    assert_eq!(
        of_device(&plan, "lup"),
        [
            "qdisc add dev lup root handle 1: htb default 1",
            "class add dev lup parent 1: classid 1:1 htb rate 1000000bit burst 1b cburst 1b quantum 1514",
            "qdisc add dev lup parent 1:1 handle 2: pfifo limit 50",
        ]
    );
    assert_eq!(of_device(&plan, "eup"), ["qdisc add dev eup root handle 1: netem limit 10000000 rate 1000000bit"]);
    // ACKs are lost before it, and delayed behind it.
    assert_eq!(of_device(&plan, "a1"), ["qdisc add dev a1 root handle 1: netem limit 10000000 loss random 1.000000%"]);
    for (host, router) in [("s0", "n0"), ("r0", "n1")] {
        let line = format!("qdisc add dev {host} root handle 1: netem limit 10000000 delay 20000.000us");
        assert_eq!(of_device(&plan, host), [line.as_str()]);
        assert!(plan.disciplines[router].contains(&line));
    }
    let last = plan.bottlenecks().pop().unwrap();
    assert_eq!((plan.bottlenecks().len(), last.before.as_str(), last.entry.as_str()), (2, "u0", "lup"));
    let dual = planned(&[&UP[..3], &[("flow", "cubic"), ("up", "rate=1mbit,buffer=50p,aqm=dualpi2")]].concat()).dualpi2;
    let queues: Vec<_> = dual.iter().map(|queue| (&*queue.namespace, &*queue.device, queue.limit)).collect();
    assert_eq!(queues, [("u0", "lup", 50)]);
}

#[test]
fn no_packet_comes_back_over_a_link_of_the_other_direction() {
    let plan = planned(&[&UP[..], &[("flow", "cubic")]].concat());
    let back = |namespace: &str| {
        let lines = plan.addresses[namespace].lines();
        lines.filter(|line| line.starts_with("route add 10.1.")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(back("n1"), ["route add 10.1.0.0/16 dev a1"]);
    assert_eq!(back("m0"), [""; 0]);
    assert_eq!(back("u2"), ["route add 10.1.0.1/32 dev b0"]);
    assert_eq!(back("n0"), ["route add 10.1.0.1/32 dev s0"]);
}

#[test]
fn an_upload_sends_from_the_right_and_is_paced_there() {
    let plan = planned(&[&UP[..], &[("flow", "cubic"), ("flow", "cubic,direction=up,pacing=on")]].concat());
    let (down, up) = (&plan.ends[0], &plan.ends[1]);
    let ends = |end: &Endpoints| (end.from.octets(), end.to.octets());
    assert_eq!(ends(down), ([10, 1, 0, 1], [10, 2, 0, 1]));
    assert_eq!(ends(up), ([10, 2, 100, 2], [10, 1, 100, 2]));
    assert!(plan.addresses["n1"].contains("route add 10.2.100.2/32 dev s1"));
    assert!(plan.addresses["u2"].contains("route add 10.1.100.2/32 dev b0"));
    assert!(plan.disciplines["s1"].contains("root fq "));
    // Its ACKs enter the link of the downloads' data beside those downloads.
    assert_eq!(plan.sources(0), ["s0", "r1"]);
}

#[test]
fn a_probe_crosses_every_link_with_the_delay_of_the_path() {
    let links = [("rtt", "40ms"), ("probe", "20ms")];
    let mut scenario =
        bbrlab_sim::scenario::ScenarioFile::from_toml("link = [{ rate = '20mbit' }, { rate = '30mbit' }]", "test")
            .unwrap()
            .scenario;
    let flow = [("flow", "cubic,links=2,rtt=10ms")];
    links.iter().chain(&flow).for_each(|(key, text)| scenario.set(key, text).unwrap());
    let plan = plan(&scenario.resolve().unwrap()).unwrap();
    let probe = plan.probe.as_ref().unwrap();
    let names = |ends: &Endpoints| (ends.sender.clone(), ends.receiver.clone());
    assert_eq!((names(&plan.ends[0]), names(probe)), (("s0".into(), "r0".into()), ("s1".into(), "r1".into())));
    assert!(plan.addresses["n0"].contains(&format!("route add {}/32 dev s1", probe.from)));
    let delay = "root handle 1: netem limit 10000000 delay 20000.000us";
    assert_eq!(of_device(&plan, "r1").iter().filter(|line| line.ends_with(delay)).count(), 2);
    assert_eq!(planned(&[("flow", "cubic")]).probe, None);
}

#[test]
fn a_change_of_the_path_leaves_the_link_of_the_reverse_direction_as_it_is() {
    let mut plan = planned(&[&UP[..], &[("flow", "cubic")]].concat());
    let mut changed = |what| {
        let asked = plan.change(&Change { at: bbrlab_core::Time::ZERO, link: 0, what });
        asked.into_iter().map(|(namespace, line)| format!("{namespace}: {line}")).collect::<Vec<_>>()
    };
    assert_eq!(
        changed(ChangeKind::Rate(Rate::bits_per_sec(5_000_000))),
        [
            "n0: class change dev l0 parent 1: classid 1:1 htb rate 5000000bit burst 1b cburst 1b quantum 1514",
            "m0: qdisc change dev e0 root handle 1: netem limit 10000000 rate 5000000bit",
        ]
    );
    assert_eq!(
        changed(ChangeKind::Rtt(Span::millis(60))),
        [
            "n0: qdisc change dev s0 root handle 1: netem limit 10000000 delay 30000.000us",
            "n1: qdisc change dev r0 root handle 1: netem limit 10000000 delay 30000.000us",
            "n1: qdisc change dev a1 root handle 1: netem limit 10000000",
        ]
    );
}

#[test]
fn a_change_of_the_link_of_the_reverse_direction_leaves_the_others_as_they_are() {
    let mut plan = planned(&[&UP[..], &[("flow", "cubic")]].concat());
    let what = ChangeKind::Rate(Rate::bits_per_sec(500_000));
    let asked = plan.change(&Change { at: bbrlab_core::Time::ZERO, link: 1, what });
    let lines: Vec<String> = asked.into_iter().map(|(namespace, line)| format!("{namespace}: {line}")).collect();
    assert_eq!(
        lines,
        [
            "u0: class change dev lup parent 1: classid 1:1 htb rate 500000bit burst 1b cburst 1b quantum 1514",
            "u1: qdisc change dev eup root handle 1: netem limit 10000000 rate 500000bit",
        ]
    );
}

#[test]
fn a_mirrored_link_changes_in_both_directions() {
    let mut plan = planned(&[("rate", "20mbit"), ("rtt", "40ms"), ("buffer", "100p"), ("flow", "cubic")]);
    plan.mirror();
    let at = of_device(&plan, "e0");
    assert!(
        at.iter().any(|line| line.contains("htb rate 20000000bit")) && at.iter().any(|line| line.contains("pfifo"))
    );
    let what = ChangeKind::Buffer(Buffer::Packets(7));
    let asked = plan.change(&Change { at: bbrlab_core::Time::ZERO, link: 0, what });
    let line = |device| format!("qdisc change dev {device} parent 1:1 handle 2: pfifo limit 7");
    assert_eq!(asked, [("n0".to_owned(), line("l0")), ("n1".to_owned(), line("e0"))]);
}

#[test]
fn a_link_of_the_reverse_direction_is_not_mirrored() {
    let mut plan = planned(&[&UP[..], &[("flow", "cubic")]].concat());
    let before = plan.disciplines.clone();
    plan.mirror();
    assert_eq!(plan.disciplines, before);
    assert_eq!(plan.segmented.len(), 2);
}

#[test]
fn bursts_are_limited_in_segments() {
    let burst = |flow: &str| {
        let plan = planned(&[("flow", flow)]);
        plan.addresses["s0"].lines().find(|line| line.contains("gso")).map(str::to_owned)
    };
    assert_eq!(burst("bbr1"), None);
    assert_eq!(burst("bbr1,tso=off").as_deref(), Some("link set dev s0 gso_max_segs 1"));
    assert_eq!(burst("bbr1,tso=15kB,mss=1000").as_deref(), Some("link set dev s0 gso_max_segs 15"));
}
