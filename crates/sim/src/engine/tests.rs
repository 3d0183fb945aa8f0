use bbrlab_core::{AlgorithmConfig, Rate, Span};

use super::*;
use crate::link::{Buffer, Loss};
use crate::setup::FlowSetup;

/// One drop-tail link of `mbit`, `rtt_ms`, `buffer` packets, with the named algorithms, for 20 s.
fn shared(mbit: u64, rtt_ms: u64, buffer: u64, algorithms: &[&str]) -> Setup {
    let flow = |(index, name): (usize, &&str)| {
        FlowSetup::bulk(format!("{name}#{index}"), AlgorithmConfig::named(name).unwrap())
    };
    let flows = algorithms.iter().enumerate().map(flow).collect();
    let rate = Rate::bits_per_sec(mbit * 1_000_000);
    Setup::one_link(rate, Span::millis(rtt_ms), Buffer::Packets(buffer), Span::secs(20), flows)
}

/// The scenario of these keys, resolved.
fn setup_of(keys: &[(&str, &str)]) -> Setup {
    let mut scenario = crate::scenario::Scenario::default();
    keys.iter().for_each(|(key, text)| scenario.set(key, text).unwrap());
    scenario.resolve().unwrap()
}

fn total_mbps(output: &Output) -> f64 {
    output.result.total_goodput_bps() / 1e6
}

// The next four compare the simulator with means from a real Linux 6.18 on the same paths; the tolerances are ours.

/// Linux 6.18: 9.56 Mbit/s, mean RTT 47 to 49 ms.
#[test]
fn one_bbr1_flow_fills_its_link_with_the_standing_queue_that_linux_has() {
    let output = run(&shared(10, 40, 267, &["bbr1"]));
    let rtt_ms = output.result.flows[0].rtt(|rtt| rtt.mean);
    assert!((9.3..=9.57).contains(&total_mbps(&output)), "{}", total_mbps(&output));
    assert!((45.0..=53.0).contains(&rtt_ms), "{rtt_ms}");
}

/// Linux 6.18: 9.35 Mbit/s, mean RTT 284 ms.
#[test]
fn one_cubic_flow_keeps_a_deep_buffer_nearly_full() {
    let output = run(&shared(10, 40, 267, &["cubic"]));
    let rtt_ms = output.result.flows[0].rtt(|rtt| rtt.mean);
    assert!((9.2..=9.57).contains(&total_mbps(&output)), "{}", total_mbps(&output));
    assert!((255.0..=315.0).contains(&rtt_ms), "{rtt_ms}");
}

/// Linux 6.18: 95.0 Mbit/s, Jain 1.00, mean RTT 27.8 ms, no loss.
#[test]
fn five_bbr1_flows_share_without_loss_at_twice_the_rtt() {
    let output = run(&shared(100, 10, 333, &["bbr1"; 5]));
    let rtt_ms = output.result.flows[0].rtt(|rtt| rtt.mean);
    assert!((93.5..=95.7).contains(&total_mbps(&output)), "{}", total_mbps(&output));
    assert!((26.0..=30.0).contains(&rtt_ms), "{rtt_ms}");
    assert_eq!(output.result.bottleneck.drops, 0);
    assert!(output.result.jain > 0.97, "{}", output.result.jain);
}

/// Linux 6.18: 11.4 to 13.7 % of loss, mean RTT 105 ms.
#[test]
fn six_bbr1_flows_overrun_a_buffer_of_41_packets() {
    let output = run(&shared(100, 100, 41, &["bbr1"; 6]));
    let (drop_ratio, rtt_ms) = (output.result.bottleneck.drop_ratio, output.result.flows[0].rtt(|rtt| rtt.mean));
    assert!((0.09..=0.18).contains(&drop_ratio), "{drop_ratio}");
    assert!((103.0..=107.0).contains(&rtt_ms), "{rtt_ms}");
}

#[test]
fn one_per_cent_of_random_loss_costs_cubic_almost_all_and_bbr1_almost_nothing() {
    let under_loss = |algorithm| {
        let mut setup = shared(100, 100, 1000, &[algorithm]);
        setup.links[0].loss = Loss::Bernoulli(0.01);
        total_mbps(&run(&setup))
    };
    let (bbr1, cubic) = (under_loss("bbr1"), under_loss("cubic"));
    assert!(bbr1 > 80.0 && cubic < 5.0, "{bbr1} {cubic}");
}

/// Goal: neither the cost of an event nor the number of events may depend on the number of packets in flight.
#[test]
fn a_packet_costs_at_most_three_events_and_one_if_planned_ahead_however_many_are_in_flight() {
    for (mbit, rtt_ms) in [(10, 40), (100, 100), (400, 200)] {
        let setup = shared(mbit, rtt_ms, 20_000, &["bbr1"]);
        let per_packet = |output: Output| output.result.events as f64 / output.result.packets as f64;
        let (ahead, by_events) = (per_packet(run(&setup)), per_packet(run_by_events(&setup)));
        assert!((2.0..=3.2).contains(&by_events) && ahead <= 1.1, "{mbit} Mbit/s: {by_events}, {ahead}");
    }
}

#[test]
fn equal_setups_give_equal_results_and_another_seed_another() {
    let mut setup = shared(20, 40, 60, &["bbr1", "cubic"]);
    setup.links[0].loss = Loss::Bernoulli(0.002);
    setup.sample = Some(Span::millis(100));
    let (once, again) = (run(&setup), run(&setup));
    assert_eq!((&once.result, &once.trace), (&again.result, &again.trace));
    setup.seed = 2;
    assert_ne!(once.result.flows, run(&setup).result.flows);
}

/// BBR's pacer and the ACKs of the previous round's packets are due at the same moments. Their order decides a sample.
#[test]
fn what_the_pacer_lets_go_leaves_before_an_ack_of_the_same_moment() {
    let mut setup = shared(50, 100, 125, &["bbr1"]);
    setup.duration = Time::ZERO + Span::millis(400);
    setup.capture = crate::setup::Capture::On { limit: 1_000, taps: &[Tap::Sender] };
    let packets = run(&setup).packets.records;
    let ack = packets.iter().position(|packet| packet.ack == 1 + 13 * 1448).unwrap();
    let sent = packets.iter().position(|packet| packet.len > 0 && packet.seq == 1 + 32 * 1448).unwrap();
    assert_eq!(packets[ack].t_ns, packets[sent].t_ns, "no longer a case of what this test is about");
    assert!(sent < ack);
}

/// Sized flows one after another, staggered starts, and arrivals beside a bulk flow.
#[test]
fn no_group_and_no_sum_of_groups_exceeds_the_link_however_flows_come_and_go() {
    let arrivals = "duration = '20s'\nflow = ['cubic,name=bulk']\n[[arrivals]]\nrate = 5\nflow = 'bbr1'\nsize = { fixed = '40kB' }";
    for (link_mbps, toml) in [
        (25.0, "rate = '25mbit'\nflow = ['bbr1*200@0s+50ms,size=100kB']"),
        (10.0, "duration = '20s'\nflow = ['bbr1*6@0s+2s']"),
        (10.0, "duration = '20s'\nwarmup = '5s'\nflow = ['bbr1*3@0s+4s', 'cubic*3@2s+3s,size=1MB']"),
        (10.0, arrivals),
    ] {
        let read = crate::scenario::ScenarioFile::from_toml(toml, "a test").unwrap();
        let result = run(&read.scenario.resolve().unwrap()).result;
        let total: f64 = result.groups.iter().map(|group| group.goodput_bps).sum();
        assert!(total <= link_mbps * 1e6 && total > 0.5 * link_mbps * 1e6, "{toml}: {total}");
        let bytes: u64 = result.flows.iter().map(|flow| flow.bytes).sum();
        for group in &result.groups {
            let own: u64 = result.flows.iter().filter(|flow| flow.cc == group.cc).map(|flow| flow.bytes).sum();
            assert!((group.share - own as f64 / bytes as f64).abs() < 1e-12, "{toml}: {group:?}");
        }
    }
}

#[test]
fn an_rtt_that_was_never_measured_is_null_in_json_and_not_zero() {
    let text = "duration = '1s'\nflow = ['bbr1', 'cubic@999ms']";
    let read = crate::scenario::ScenarioFile::from_toml(text, "a test").unwrap();
    let result = run(&read.scenario.resolve().unwrap()).result;
    let json = serde_json::to_value(&result).unwrap();
    assert!(json["flows"][0]["rtt_ms"]["p50"].as_f64().unwrap() >= 40.0);
    assert!(json["flows"][1]["rtt_ms"].is_null() && json["flows"][1]["model"]["min_rtt_ms"].is_null(), "{json}");
    assert_eq!(serde_json::from_value::<crate::record::result::RunResult>(json).unwrap(), result);
}

#[test]
fn the_interval_ends_with_the_last_completion_where_every_flow_completes() {
    let text = "duration = '20s'\nflow = ['bbr1@1s,size=100kB', 'cubic@3s,size=100kB']";
    let read = crate::scenario::ScenarioFile::from_toml(text, "a test").unwrap();
    let result = run(&read.scenario.resolve().unwrap()).result;
    let last = result.flows[1].start_s + result.flows[1].fct_s.unwrap();
    assert_eq!(result.interval_s[0], 1.0);
    assert!((result.interval_s[1] - last).abs() < 1e-9 && last < 4.0, "{:?}", result.interval_s);
}

/// Packets that arrive at time zero count, dropped or not.
#[test]
fn an_incast_at_the_beginning_is_counted_whole() {
    let mut setup = shared(100, 1, 10, &["cubic"; 60]);
    setup.duration = Time::ZERO + Span::secs(10);
    for flow in &mut setup.flows {
        flow.traffic = crate::setup::Traffic::Size(1_000);
    }
    let result = run(&setup).result;
    let bottleneck = &result.bottleneck;
    assert!(bottleneck.drops >= 50, "{bottleneck:?}");
    assert_eq!(bottleneck.arrivals, result.packets + bottleneck.drops);
}

/// A queue discipline may drop packets that arrived during the warm-up after it.
#[test]
fn no_more_packets_are_dropped_than_have_arrived() {
    let keys = [("rate", "1kbit"), ("aqm", "cake"), ("flow", "cubic*3"), ("duration", "120s"), ("warmup", "100s")];
    let result = run(&setup_of(&keys)).result;
    let ratios = result.flows.iter().filter_map(|flow| flow.drop_ratio).chain([result.bottleneck.drop_ratio]);
    assert!(result.bottleneck.drops > 0 && ratios.into_iter().all(|ratio| ratio <= 1.0), "{result:?}");
}

/// Linux sends ECN-capable SYNs for algorithms that need ECN, so DualPI2 serves Prague's in the low-latency queue.
#[test]
fn the_handshake_of_prague_does_not_wait_behind_cubic() {
    let fct = |flow: &str| {
        let path = [("rate", "20mbit"), ("rtt", "10ms"), ("buffer", "1000p"), ("aqm", "dualpi2"), ("duration", "8s")];
        let setup = setup_of(&[&path[..], &[("flow", "cubic"), ("flow", flow)]].concat());
        run(&setup).result.flows[1].fct_s.unwrap()
    };
    let (prague, bbr3) = (fct("prague@5s,size=1kB"), fct("bbr3@5s,size=1kB,ecn=l4s"));
    assert!(prague < 0.02 && bbr3 > prague + 0.005, "{prague} s, {bbr3} s");
}

/// BBRv1 conserves packets for the first round of an episode. With episodes of one round each, its window would never grow.
#[test]
fn bbr1_keeps_its_rate_under_frequent_loss_over_quic() {
    for name in ["bbr1", "bbr1-draft00", "bbr-cpa"] {
        let [tcp, quic] = ["", ",transport=quic"].map(|transport| {
            let path = [("rate", "100mbit"), ("rtt", "100ms"), ("buffer", "4bdp"), ("loss", "2%"), ("duration", "10s")];
            let setup = setup_of(&[&path[..], &[("flow", &format!("{name}{transport}"))]].concat());
            total_mbps(&run(&setup))
        });
        assert!(quic > 0.9 * tcp, "{name}: {quic} Mbit/s over QUIC, {tcp} over TCP");
    }
}
