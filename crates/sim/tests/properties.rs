//! Properties that every run must satisfy, over random scenarios of every feature.
//! `BBRLAB_SEED` (a number, or a commit hash in hex), `BBRLAB_CASES` and `BBRLAB_CASE` select them; a failure prints the
//! command that repeats it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

#[path = "properties/check.rs"]
mod check;
#[path = "properties/random.rs"]
mod random;
#[path = "properties/seed.rs"]
mod seed;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use bbrlab_sim::engine;
use bbrlab_sim::record::Output;
use bbrlab_sim::setup::Setup;

use check::Checker;

/// Scenarios per run of this test.
const CASES: u64 = 300;
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} held {text:?}; write a number")))
}

/// Compares the parts of two outputs that equal runs share.
fn same(a: &Output, b: &Output) -> bool {
    let mut a_result = a.result.clone();
    a_result.wall_s = b.result.wall_s;
    a_result.events = b.result.events; // an observed run does not plan ahead
    a_result == b.result && a.trace == b.trace
}

fn run_checked(setup: &Setup) -> Result<Output, String> {
    let mut checker = Checker::new(setup);
    let output = catch_unwind(AssertUnwindSafe(|| engine::run_observed(setup, &mut checker))).map_err(|cause| {
        let text = cause.downcast_ref::<String>().cloned();
        text.or(cause.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_else(|| "a panic".into())
    })?;
    checker.finish(&output)?;
    Ok(output)
}

/// Runs one case: it must satisfy every property, and a second, unobserved run must produce the same output.
fn one_case(seed: u64, case: u64) -> Result<u64, String> {
    let setup = random::setup(seed, case);
    let describe = |fault: String| {
        format!(
            "{fault}\n  repeat: BBRLAB_SEED={seed} BBRLAB_CASE={case} cargo test -p bbrlab-sim --test properties\n  {}\n  {setup:#?}",
            random::describe(&setup)
        )
    };
    let first = run_checked(&setup).map_err(describe)?;
    if case.is_multiple_of(4) && !same(&first, &engine::run(&setup)) {
        return Err(describe("two runs of the same setup differ".into()));
    }
    Ok(first.result.events)
}

/// Goal: whatever the scenario, bytes are conserved, windows and pacing hold, no flow hangs, the run ends and is reproducible.
#[test]
fn every_scenario_keeps_every_property() {
    let seed = seed::seed();
    let (next, last) = match number("BBRLAB_CASE") {
        Some(case) => (case, case + 1),
        None => (0, number("BBRLAB_CASES").unwrap_or(CASES)),
    };
    let next = AtomicU64::new(next);
    let failures = std::sync::Mutex::new(Vec::new());
    let events = AtomicU64::new(0);
    // Several threads, because a run must not depend on another one.
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8) {
            scope.spawn(|| {
                while let case = next.fetch_add(1, Ordering::Relaxed)
                    && case < last
                {
                    match one_case(seed, case) {
                        Ok(count) => _ = events.fetch_add(count, Ordering::Relaxed),
                        Err(fault) => failures.lock().expect("no holder panics").push(fault),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no holder panics");
    for failure in &failures {
        println!("{}", failure.lines().take(2).collect::<String>());
    }
    assert!(failures.is_empty(), "{} scenarios failed; the first:\n{}", failures.len(), failures[0]);
    println!("seed {seed}: {} events", events.into_inner());
}
