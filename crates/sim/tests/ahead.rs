//! A run that plans ahead equals the same run event by event, over random scenarios that favour simultaneous events.
//! `BBRLAB_SEED` (a number, or a commit hash in hex) and `BBRLAB_CASES` select them.
// SPDX-License-Identifier: Apache-2.0 OR MIT

#[path = "properties/random.rs"]
mod random;
#[path = "properties/seed.rs"]
mod seed;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use bbrlab_core::Rng;
use bbrlab_sim::engine;
use bbrlab_sim::scenario::ScenarioFile;
use bbrlab_sim::setup::Setup;

/// Scenarios per run of this test, besides those of every feature.
const CASES: u64 = 600;

/// Draws a scenario on a grid of few rates, delays and times, so that events of different flows fall on the same nanosecond.
fn simultaneous(seed: u64, case: u64) -> String {
    let mut rng = Rng::derive(seed, case);
    let mut pick = |list: &[&str]| list[rng.below(list.len() as u64) as usize].to_string();
    let usually = |word: &str, pick: &mut dyn FnMut(&[&str]) -> String| -> bool { pick(&[word, "", "", ""]) == word };
    // 12.112 Mbit/s sends a full packet in exactly 1 ms.
    let rate = pick(&["1mbit", "5mbit", "12.112mbit", "12.112mbit", "24.224mbit", "50mbit", "121.12mbit", "1gbit"]);
    let rtt = pick(&["0ms", "1ms", "8ms", "16ms", "20ms", "40ms", "39.999ms", "100ms", "200ms"]);
    let buffer = pick(&["3p", "10p", "41p", "500p", "1bdp", "2bdp", "10kB", "64kB"]);
    let (warmup, sample) =
        (pick(&["0s", "400ms", "1s", "1.234567s"]), pick(&["0s", "0s", "1ms", "4ms", "7ms", "50ms"]));
    let mut text = format!(
        "duration = '2s'\nwarmup = '{warmup}'\nsample = '{sample}'\nseed = {case}\nrate = '{rate}'\nrtt = '{rtt}'\nbuffer = '{buffer}'\n"
    );
    for (key, values) in [
        ("loss", &["1%", "0.1%", "ge:1%,10%,50%"][..]),
        ("jitter", &["1ms", "5ms"]),
        ("reorder", &["1%"]),
        ("duplicate", &["1%"]),
        ("ack_loss", &["1%", "10%"]),
        ("ack_aggregation", &["5ms", "20kB"]),
        ("aqm", &["codel", "fq_codel", "cake", "pie", "red"]),
    ] {
        if usually(key, &mut pick) && usually(key, &mut pick) || key == "loss" && usually(key, &mut pick) {
            text += &format!("{key} = '{}'\n", pick(values));
        }
    }
    let mut flows = Vec::new();
    for _ in 0..1 + case % 4 {
        let cc = pick(&["bbr1", "bbr3", "cubic", "reno", "bbr2", "bbr3-linux", "fixed", "bbr-s"]);
        let many = pick(&["", "", "*2", "*7@0s+10ms", "*3@0s+0ms", "*20@0s+4ms"]);
        let option = pick(&[
            "",
            "",
            "",
            ",rtt=80ms",
            ",rtt=8ms",
            ",size=500kB",
            ",on=200ms/off=400ms",
            ",rate=1mbit",
            ",rwnd=64KiB",
            ",request=100kB/50ms",
            ",delack=200ms",
            ",gro=1ms",
            ",rwnd=auto",
            ",tso=off",
            ",mss=536",
            ",pacing=on",
            ",ecn=on",
            ",stop=1s",
            ",transport=quic",
            ",transport=quic:s2n",
            ",access=100mbit/2ms",
        ]);
        flows.push(format!("'{cc}{many}{option}'"));
    }
    text + &format!("flow = [{}]\n", flows.join(", "))
}

/// Compares both forms of a run. Returns true if planning ahead saved events.
fn is_ahead(setup: &Setup) -> Result<bool, String> {
    let (mut ahead, by_events) = (engine::run(setup), engine::run_by_events(setup));
    let saved = ahead.result.events < by_events.result.events;
    ahead.result.events = by_events.result.events;
    ahead.result.wall_s = by_events.result.wall_s;
    if ahead.result != by_events.result {
        return Err("results differ".into());
    }
    if ahead.trace != by_events.trace {
        return Err("series differ".into());
    }
    Ok(saved)
}

/// Runs cases in parallel. Returns how many saved events.
fn all(cases: u64, one: impl Fn(u64) -> Option<Result<bool, String>> + Sync) -> (u64, u64) {
    let (next, run, ahead) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8) {
            scope.spawn(|| {
                while let case = next.fetch_add(1, Ordering::Relaxed)
                    && case < cases
                {
                    match one(case) {
                        None => {}
                        Some(Ok(saved)) => {
                            run.fetch_add(1, Ordering::Relaxed);
                            ahead.fetch_add(u64::from(saved), Ordering::Relaxed);
                        }
                        Some(Err(fault)) => failures.lock().expect("no holder panics").push((case, fault)),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no holder panics");
    assert!(
        failures.is_empty(),
        "{} of {cases} scenarios differ; case {}: {}",
        failures.len(),
        failures[0].0,
        failures[0].1
    );
    (run.into_inner(), ahead.into_inner())
}

#[test]
fn simultaneous_events_have_one_order_in_both_forms() {
    let seed = seed::seed();
    let cases = std::env::var("BBRLAB_CASES").ok().map_or(CASES, |text| text.parse().expect("a number"));
    let (run, ahead) = all(cases, |case| {
        let text = simultaneous(seed, case);
        let setup = ScenarioFile::from_toml(&text, "random").ok()?.scenario.resolve().ok()?;
        Some(is_ahead(&setup).map_err(|fault| format!("{fault} (BBRLAB_SEED={seed})\n{text}")))
    });
    println!("{run} of {cases} scenarios ran, {ahead} of them ahead");
    assert!(run * 10 >= cases * 8, "only {run} of {cases} scenarios are legal");
    assert!(ahead * 2 >= run, "only {ahead} of {run} scenarios were planned ahead");
}

#[test]
fn every_feature_gives_the_same_in_both_forms() {
    let seed = seed::seed();
    all(100, |case| {
        let setup = random::setup(seed, case);
        Some(is_ahead(&setup).map_err(|fault| format!("{fault} (BBRLAB_SEED={seed})\n{}", random::describe(&setup))))
    });
}
