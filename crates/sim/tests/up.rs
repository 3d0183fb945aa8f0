//! The link of the reverse direction: ACKs that queue, uploads beside downloads, the ACK filter, and the probe's echoes.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_sim::engine::run;
use bbrlab_sim::record::fair;
use bbrlab_sim::record::result::RunResult;
use bbrlab_sim::scenario::Scenario;

fn result(keys: &[(&str, &str)]) -> RunResult {
    let mut scenario = Scenario::default();
    for (key, value) in keys {
        scenario.set(key, value).unwrap_or_else(|error| panic!("{key}={value}: {error}"));
    }
    run(&scenario.resolve().expect("a legal scenario")).result
}

const PATH: [(&str, &str); 4] = [("rate", "20mbit"), ("rtt", "20ms"), ("buffer", "1bdp"), ("duration", "20s")];

fn with(more: &[(&str, &str)]) -> RunResult {
    result(&[&PATH[..], more].concat())
}

fn rtt_ms(result: &RunResult, flow: usize) -> f64 {
    result.flows[flow].rtt_ms.as_ref().expect("the flow has RTTs").p50
}

#[test]
fn a_fast_link_for_acks_changes_little() {
    let (without, with_it) = (with(&[("flow", "cubic")]), with(&[("flow", "cubic"), ("up", "rate=20mbit")]));
    let ratio = with_it.flows[0].goodput_bps / without.flows[0].goodput_bps;
    assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
    let up = with_it.up.expect("the link has figures");
    // One ACK of 66 bytes for each two segments of 1514.
    assert!((0.015..0.03).contains(&up.utilisation) && up.drops == 0, "{up:?}");
    assert!(without.up.is_none());
}

#[test]
fn acks_that_need_more_than_the_link_has_limit_the_download() {
    // 20 Mbit/s of data need 0.43 Mbit/s of ACKs. Half of that is there.
    let up = ("up", "rate=200kbit,buffer=50p");
    let slow = with(&[("flow", "reno"), up]);
    let figures = slow.up.as_ref().unwrap();
    assert!(figures.utilisation > 0.9 && figures.drops > 0 && figures.filtered == 0, "{figures:?}");
    assert!(rtt_ms(&slow, 0) > 60.0, "{:?}", slow.flows[0].rtt_ms);
    for filter in ["ack_filter", "ack_filter,aqm=cake"] {
        let filtered = with(&[("flow", "reno"), (up.0, &format!("rate=200kbit,buffer=50p,{filter}"))]);
        let figures = filtered.up.as_ref().unwrap();
        assert!(figures.filtered > 1_000, "{figures:?}");
        // Those with SACK blocks stay.
        assert!(10 * figures.drops < slow.up.as_ref().unwrap().drops, "{figures:?}");
        assert!(rtt_ms(&filtered, 0) < rtt_ms(&slow, 0) / 1.5, "{:?}", filtered.flows[0].rtt_ms);
        assert!(filtered.flows[0].goodput_bps >= slow.flows[0].goodput_bps);
    }
}

#[test]
fn an_upload_fills_its_link_and_counts_its_losses_there() {
    let both = with(&[("flow", "cubic"), ("flow", "cubic,direction=up"), ("up", "rate=5mbit,buffer=30p")]);
    let (down, up) = (&both.flows[0], &both.flows[1]);
    assert!(up.goodput_bps > 4.2e6 && up.goodput_bps < 4.8e6, "{}", up.goodput_bps);
    // Its round trip is four times as long as its buffer is made for.
    assert!(down.goodput_bps > 12e6 && down.goodput_bps < 18e6, "{}", down.goodput_bps);
    let figures = both.up.as_ref().unwrap();
    assert!(figures.utilisation > 0.97 && figures.drops > 0, "{figures:?}");
    assert!(up.drop_ratio.is_some_and(|ratio| ratio > 0.0) && up.retransmit_ratio > 0.0, "{up:?}");
    // The download's ACKs wait behind the upload's data, of which 30 packets take 73 ms.
    assert!(figures.queue_ms.p50 > 10.0 && rtt_ms(&both, 0) > 30.0, "{:?}", figures.queue_ms);
}

#[test]
fn a_schedule_changes_this_link_and_no_other() {
    let up = ("up", "rate=5mbit,buffer=30p");
    let flows = [("flow", "cubic"), ("flow", "cubic,direction=up")];
    let run = |schedule| with(&[&flows[..], &[up, ("schedule", schedule)]].concat());
    let slower = run("10s:link=up,rate=1mbit");
    let figures = slower.up.as_ref().unwrap();
    // Half of the time at 5 Mbit/s, half at 1: the link is as full as before, and its share is of the mean.
    assert!(figures.utilisation > 0.97 && figures.utilisation <= 1.0, "{figures:?}");
    assert!((2.5e6..2.95e6).contains(&slower.flows[1].goodput_bps), "{}", slower.flows[1].goodput_bps);
    // Behind 30 packets of 5 Mbit/s one waits for up to 73 ms.
    let longest = |result: &RunResult| result.up.as_ref().unwrap().queue_ms.max;
    let (before, after) = (longest(&run("")), longest(&run("10s:link=up,buffer=100p")));
    assert!(before < 75.0 && after > 100.0, "{before} {after}");
}

#[test]
fn fair_shares_of_uploads_follow_the_schedule_of_their_link() {
    let mut scenario = Scenario::default();
    let keys =
        [("up", "rate=5mbit,buffer=30p"), ("schedule", "10s:link=up,rate=1mbit"), ("flow", "cubic,direction=up")];
    keys.iter().chain(&PATH).for_each(|(key, value)| scenario.set(key, value).unwrap());
    let setup = scenario.resolve().unwrap();
    let steps = fair::steps(&setup, &run(&setup).result.flows);
    let shares: Vec<(f64, f64)> = steps.iter().map(|step| (step.from_s, (step.shares_bps[0] / 1e4).round())).collect();
    // 1448 of 1514 bytes are payload.
    assert_eq!(shares, [(0.0, 478.0), (10.0, 96.0)]);
}

#[test]
fn an_acknowledgement_that_a_discipline_drops_is_no_loss_of_its_upload() {
    let aqm = [("rate", "1mbit"), ("aqm", "codel"), ("buffer", "100p"), ("up", "rate=20mbit,buffer=1000p")];
    let flows = [("flow", "cubic"), ("flow", "cubic,direction=up,rate=2mbit"), ("duration", "20s")];
    let run = result(&[&aqm[..], &flows[..]].concat());
    assert!(run.bottleneck.drops > 0 && run.up.as_ref().unwrap().drops == 0, "{:?}", run.bottleneck);
    assert_eq!(run.flows[1].drop_ratio, Some(0.0));
}

#[test]
fn an_upload_alone_runs_as_a_download_would() {
    let down = result(&[("rate", "10mbit"), ("duration", "20s"), ("flow", "bbr3")]);
    let up = result(&[
        ("rate", "1gbit"),
        ("buffer", "1000p"),
        ("duration", "20s"),
        ("flow", "bbr3,direction=up"),
        ("up", "rate=10mbit"),
    ]);
    let ratio = up.flows[0].goodput_bps / down.flows[0].goodput_bps;
    assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
    let rtt = rtt_ms(&up, 0) / rtt_ms(&down, 0);
    assert!((rtt - 1.0).abs() < 0.02, "{rtt}");
}

#[test]
fn echoes_of_the_probe_wait_behind_an_upload() {
    let probe = ("probe", "20ms");
    let quiet = with(&[("flow", "cubic,rate=100kbit"), probe, ("up", "rate=5mbit,buffer=100p")]);
    let loaded = with(&[("flow", "cubic,direction=up"), probe, ("up", "rate=5mbit,buffer=100p")]);
    let lag = |result: &RunResult| result.probe.as_ref().unwrap().rtt_ms.as_ref().unwrap().p50;
    assert!(lag(&quiet) < 21.0 && lag(&loaded) > 80.0, "{} {}", lag(&quiet), lag(&loaded));
}

#[test]
fn uploads_with_marks_and_every_discipline_run() {
    for aqm in ["fq_codel:ecn", "codel:ecn", "pie:ecn", "red:ecn", "fq", "dualpi2", "cake"] {
        let up = format!("rate=5mbit,buffer=200p,aqm={aqm}");
        let run = with(&[("flow", "bbr3"), ("flow", "cubic,direction=up,ecn=on"), ("up", &up)]);
        assert!(run.flows[1].goodput_bps > 3e6, "{aqm}: {}", run.flows[1].goodput_bps);
    }
}

/// Real kernels carry the requests too, and `validate` compares them.
#[test]
fn requests_wait_in_the_queue_of_the_link_and_lost_ones_are_repeated() {
    for option in ["request=1kB/50ms,deadline=1s", "page=3*1kB/200ms"] {
        let flow = format!("bbr1@3s,{option}");
        let median_ms = |up: &str| {
            let result = with(&[("flow", "cubic,direction=up"), ("flow", &flow), ("up", up)]);
            let flow = &result.flows[1];
            let page = flow.page.as_ref().and_then(|page| page.load_ms.clone());
            (
                result.up.unwrap().drops,
                page.or_else(|| flow.requests.as_ref().and_then(|one| one.time_ms.clone())).unwrap(),
            )
        };
        // A queue of 500 ms, and one of 5 ms.
        let ((_, deep), (drops, shallow)) = (median_ms("rate=2mbit,buffer=125kB"), median_ms("rate=20mbit,buffer=8p"));
        assert!(deep.p50 > 350.0 && 3.0 * shallow.p50 < deep.p50, "{option}: {deep:?} {shallow:?}");
        assert!(drops > 0 && shallow.max < 5_000.0, "{option}: {shallow:?}");
    }
}
