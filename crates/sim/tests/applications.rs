//! Applications over the simulator's TCP: their figures agree with what the flow carried, and follow the link.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_sim::engine::{run, run_by_events};
use bbrlab_sim::record::result::{CallResult, FlowResult, VideoResult};
use bbrlab_sim::scenario::Scenario;
use bbrlab_sim::setup::Setup;

const LADDER: &str = "300kbit/750kbit/1200kbit/1850kbit/2850kbit/4300kbit";

fn setup(rate: &str, flows: &[&str], keys: &[(&str, &str)]) -> Setup {
    let mut scenario = Scenario::default();
    let base = [("rate", rate), ("rtt", "40ms"), ("duration", "120s")];
    for (key, text) in base.iter().chain(keys) {
        scenario.set(key, text).unwrap();
    }
    flows.iter().for_each(|flow| scenario.set("flow", flow).unwrap());
    scenario.resolve().unwrap()
}

fn flow(rate: &str, flow: &str) -> FlowResult {
    run(&setup(rate, &[flow], &[])).result.flows.remove(0)
}

fn video(rate: &str, options: &str) -> (VideoResult, FlowResult) {
    let flow = flow(rate, &format!("cubic,video={options}"));
    (*flow.video.clone().unwrap(), flow)
}

fn call(rate: &str, flows: &[&str], buffer: &str) -> CallResult {
    run(&setup(rate, flows, &[("buffer", buffer)])).result.flows.remove(0).call.map(|call| *call).unwrap()
}

#[test]
fn the_time_of_a_session_is_played_stalled_or_waited_for() {
    for rate in ["200kbit", "1mbit", "20mbit"] {
        for rule in ["buffer", "throughput"] {
            let (video, flow) = video(rate, &format!("{rule}:{LADDER}"));
            let all = video.played_s + video.stalled_s + video.startup_s.unwrap();
            assert!((all - 120.0).abs() < 1e-6, "{rate} {rule} {video:?}");
            // What has arrived is whole segments, and at most the one under way.
            assert!(video.bytes <= flow.bytes, "{rate} {rule} {video:?} {}", flow.bytes);
            assert!(flow.bytes - video.bytes < 4_300_000 / 8 * 4, "{rate} {rule}");
        }
    }
}

#[test]
fn a_wide_link_plays_the_highest_bitrate_and_one_below_the_lowest_stalls() {
    for rule in ["buffer:buffer=40s", "throughput"] {
        let (rule, rest) = rule.split_once(':').unwrap_or((rule, ""));
        let options = format!("{rule}:{LADDER}:{rest}");
        let (wide, _) = video("50mbit", options.trim_end_matches(':'));
        assert!(wide.stalls == 0 && wide.bitrate_bps > 3.3e6 && wide.startup_s.unwrap() < 0.5, "{wide:?}");
        let (slow, _) = video("250kbit", options.trim_end_matches(':'));
        assert!(slow.stalls > 3 && slow.bitrate_bps < 301e3 && slow.qoe < wide.qoe, "{slow:?}");
    }
}

#[test]
fn the_throughput_rule_leaves_a_tenth_of_the_link() {
    // 9/10 of what 2 Mbit/s carry is 1.71 Mbit/s: 1.2 fits, 1.85 does not.
    let (video, _) = video("2mbit", &format!("throughput:{LADDER}"));
    assert!((1.15e6..1.25e6).contains(&video.bitrate_bps) && video.switches <= 3, "{video:?}");
}

#[test]
fn live_video_keeps_its_latency_on_a_wide_link_and_loses_it_on_a_narrow_one() {
    let (wide, _) = video("20mbit", &format!("throughput:{LADDER}:segment=1s:live=3s"));
    assert!(wide.stalls == 0 && (3.0..3.4).contains(&wide.latency_s.unwrap()), "{wide:?}");
    // One segment a second and no more exist, and those of the first three seconds.
    assert!((118..=123).contains(&wide.segments), "{wide:?}");
    let (slow, _) = video("250kbit", &format!("throughput:{LADDER}:segment=1s:live=3s"));
    assert!(slow.latency_s.unwrap() > 20.0, "{slow:?}");
}

#[test]
fn a_call_alone_is_in_time_and_one_beside_a_bulk_flow_in_a_deep_buffer_is_not() {
    let alone = call("20mbit", &["cubic,call=1mbit/30"], "4bdp");
    assert_eq!(alone.late, 0);
    // 120 s less the handshake and the deadline.
    assert!((3590..=3600).contains(&alone.frames) && alone.mos > 4.2, "{alone:?}");
    let delay = alone.delay_ms.unwrap();
    // A frame of 4166 bytes: propagation, then three packets.
    assert!(delay.p50 > 20.0 && delay.p95 < 30.0, "{delay:?}");
    let beside = call("20mbit", &["cubic,call=1mbit/30", "cubic"], "8bdp");
    assert!(beside.late_ratio > 0.5 && beside.mos < 2.0, "{beside:?}");
}

#[test]
fn a_call_above_the_link_falls_behind_for_good() {
    let behind = call("500kbit", &["cubic,call=1mbit/30"], "20p");
    assert!(behind.late_ratio > 0.9 && behind.mos < 1.1, "{behind:?}");
}

#[test]
fn a_page_load_takes_its_round_trips_and_its_bytes() {
    // 3 objects in 3 levels: the handshake, then a round trip for each level. 30 kB fit into the initial windows of 10 packets
    // that grow as they are acknowledged.
    let small = flow("1gbit", "cubic,page=3*10kB").page.unwrap();
    let load = small.load_ms.unwrap();
    assert!(small.loads == 1 && (160.0..162.0).contains(&load.max), "{load:?}");
    // 2.5 MB at 10 Mbit/s take 1.93 s, and 1.2 ms less for each packet without headers.
    let large = flow("10mbit", "cubic,page=median");
    let page = large.page.unwrap();
    assert!((2_000.0..3_500.0).contains(&page.load_ms.unwrap().max), "{:?}", large.fct_s);
    assert_eq!((large.bytes, page.page_bytes), (71 * 35_000, 71 * 35_000));
    assert!(large.fct_s.is_some(), "one load ends the flow");
}

#[test]
fn pages_load_again_after_the_pause_and_slower_beside_a_bulk_flow() {
    let p50 = |flows: &[&str]| {
        let page = run(&setup("20mbit", flows, &[("buffer", "4bdp")])).result.flows.remove(0).page.unwrap();
        assert!(page.loads > 5, "{page:?}");
        page.load_ms.unwrap().p50
    };
    let (alone, beside) = (p50(&["cubic,page=median/5s"]), p50(&["cubic,page=median/5s", "cubic"]));
    assert!(beside > 1.5 * alone, "{alone} {beside}");
}

#[test]
fn a_response_is_late_after_its_deadline() {
    let requests = |deadline: &str| {
        let flow = flow("20mbit", &format!("cubic,request=10kB/100ms,deadline={deadline}"));
        (flow.requests.unwrap(), flow.fct_s.unwrap())
    };
    // 40 ms, and 4 ms for the bytes; the first waits for the handshake too.
    let (tight, mean_s) = requests("43ms");
    let (wide, _) = requests("50ms");
    assert_eq!((tight.late, wide.late), (tight.responses, 1));
    assert!(tight.responses > 800 && (wide.time_ms.unwrap().mean / 1e3 - mean_s).abs() < 1e-4);
}

#[test]
fn planning_ahead_gives_the_same_figures_as_going_event_by_event() {
    let first = format!("cubic,video=buffer:{LADDER}:buffer=60s");
    let flows = [&first, "bbr3,video=throughput:1mbit/4mbit:live=5s", "bbr1,call=1mbit/50", "reno,page=light/1s"];
    for keys in [&[][..], &[("loss", "1%")], &[("jitter", "5ms"), ("aqm", "fq_codel")]] {
        let setup = setup("8mbit", &flows, keys);
        assert_eq!(run(&setup).result.flows, run_by_events(&setup).result.flows, "{keys:?}");
    }
}
