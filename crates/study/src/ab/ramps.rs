//! Tests in which the split changes while the load does. A model of clients that download one file after the other over
//! one shared link: a connection takes the longer the more clients there are.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Rng;
use bbrlab_stats::bootstrap::normal;

use super::guard::{Guards, Limits};
use super::testing::{experiment, judge};
use super::{BUCKETS, Change, Experiment, Prefixes, Row, SegmentBy, Shares, Table};
use crate::judgement::Judgement;

/// Seconds of a test.
const LASTS: u64 = 240;
/// Tests of a kind: as many as `RAMP_TESTS` says.
fn tests() -> u64 {
    std::env::var("RAMP_TESTS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

/// The count of `all` that a share exceeds in 1 of 1,000 cases by chance.
fn at_most(share: f64, all: u32) -> u32 {
    let all = f64::from(all);
    (share * all + 3.1 * (share * (1.0 - share) * all).sqrt()) as u32
}

/// A kind of test.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    /// Splits, each with the second in which it begins.
    splits: &'static [(u64, &'static str)],
    /// Clients at the beginning and at the end, growing by a constant factor.
    clients: [f64; 2],
    /// Seconds that a connection of a lone client takes.
    alone: f64,
}

const KINDS: [Kind; 5] = [
    Kind { name: "canary, load 1 to 48", splits: &[(0, "99,1"), (80, "50,50")], clients: [1.0, 48.0], alone: 0.1 },
    Kind { name: "canary, load 4 to 8", splits: &[(0, "99,1"), (80, "50,50")], clients: [4.0, 8.0], alone: 0.1 },
    Kind {
        name: "ramp",
        splits: &[(0, "99,1"), (60, "90,10"), (120, "50,50"), (180, "10,90")],
        clients: [1.0, 48.0],
        alone: 0.1,
    },
    Kind { name: "stop", splits: &[(0, "50,50"), (60, "100,0")], clients: [2.0, 24.0], alone: 0.1 },
    Kind {
        name: "switch-back",
        splits: &[(0, "50,50"), (80, "1,99"), (160, "50,50")],
        clients: [12.0, 3.0],
        alone: 0.1,
    },
];

fn at_second(kind: &Kind, second: f64) -> f64 {
    let [first, last] = kind.clients;
    first * (last / first).powf(second / LASTS as f64)
}

/// Runs a test; arm 1 takes `factor` of the control's time. Returns the records in order of the connections' ends, each with its second.
fn draw(kind: &Kind, factor: f64, seed: u64) -> (Experiment, Vec<(f64, Row)>) {
    let mut test = experiment(if factor == 1.0 { &["cubic", "cubic"] } else { &["cubic", "bbr3"] }, kind.splits[0].1);
    let change = |(nth, &(from, text)): (usize, &(u64, &str))| Change {
        epoch: 1 + nth as u32,
        at_unix_s: from as f64,
        shares: Shares::parse(text, 2).unwrap(),
        why: "planned".to_owned(),
    };
    test.splits = kind.splits.iter().enumerate().map(change).collect();
    let mut tables = vec![Table::new(&test.splits[0].shares)];
    for change in &test.splits[1..] {
        tables.push(tables[tables.len() - 1].changed(&change.shares));
    }
    let mut rng = Rng::new(seed);
    // What all connections of a second have in common, as a queue in front of them has.
    let mut common = vec![0.0; LASTS as usize + 1];
    for second in 1..common.len() {
        common[second] = 0.9 * common[second - 1] + 0.15 * normal(&mut rng);
    }
    let mut rows = Vec::new();
    for client in 0..48 {
        let mut now = rng.below(1_000) as f64 / 1e3;
        while now < LASTS as f64 {
            if f64::from(client) >= at_second(kind, now) {
                now += 1.0;
                continue;
            }
            let place = test.splits.iter().rposition(|change| change.at_unix_s <= now).unwrap_or(0);
            let bucket = rng.below(BUCKETS as u64) as u16;
            let arm = tables[place].arm(bucket).unwrap_or(0);
            let noise = 0.4 * normal(&mut rng) + common[now as usize];
            let takes = kind.alone * at_second(kind, now) * noise.exp() * if arm == 1 { factor } else { 1.0 };
            let row = Row {
                id: rows.len() as u64,
                arm,
                bucket,
                epoch: test.splits[place].epoch,
                nth: 1,
                port: 443,
                begun_unix_ns: (now * 1e9) as u64,
                lasted_us: (takes * 1e6) as u64,
                busy_us: (takes * 1e6) as u64,
                bytes_acked: 4_000_000,
                data_segs_out: 2_800,
                retrans_segs: rng.below(40),
                min_rtt_us: 20_000,
                srtt_us: 30_000,
                ..Row::default()
            };
            now += takes;
            rows.push((now, row));
        }
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    (test, rows)
}

/// True if a guard stops arm 1, looking after every second.
fn is_stopped(test: &Experiment, rows: &[(f64, Row)]) -> bool {
    let mut guards = Guards::new(Limits::default(), 2, test.tick_ns);
    let mut places = 1;
    let mut rest = rows;
    (1..=LASTS).any(|second| {
        while test.splits.get(places).is_some_and(|change| change.at_unix_s < second as f64) {
            guards.begin_split(test.splits[places].epoch);
            places += 1;
        }
        let (now, later) = rest.split_at(rest.partition_point(|(end, _)| *end < second as f64));
        now.iter().for_each(|(_, row)| guards.add(row));
        rest = later;
        !guards.alarms().is_empty()
    })
}

/// Goal: of tests of the same against the same, at most 5 of 100 find a difference in any line, and at most 5 have an
/// always-valid interval without zero; a guard stops at most 2 of 100.
#[test]
fn changes_of_the_split_under_a_changing_load_find_no_difference_where_there_is_none() {
    let (mut differ, mut excluded, mut stopped) = (0, 0, 0);
    for kind in KINDS {
        let mut own = (0, 0, 0);
        for seed in 0..tests() {
            let (test, rows) = draw(&kind, 1.0, seed);
            own.2 += u32::from(is_stopped(&test, &rows));
            let rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
            let found = judge(&test, &rows, &Prefixes::default(), seed);
            let is_found = |outcome| matches!(outcome, Judgement::Faster | Judgement::Slower);
            own.0 += u32::from(found.lines.iter().any(|line| is_found(line.judgement())));
            let all = found.lines.iter().find(|line| line.class.over == SegmentBy::All && line.is_large).unwrap();
            own.1 += u32::from(!(all.always_low..=all.always_high).contains(&0.0));
        }
        println!("{}: of {} tests {} differ, {} exclude 0, {} stopped", kind.name, tests(), own.0, own.1, own.2);
        differ += own.0;
        excluded += own.1;
        stopped += own.2;
    }
    let all = tests() as u32 * KINDS.len() as u32;
    assert!(differ <= at_most(0.05, all) && excluded <= at_most(0.05, all), "{differ} and {excluded} of {all}");
    assert!(stopped <= at_most(0.02, all), "{stopped} of {all}");
}

/// Goal: the interval holds the true gain in at least 93 of 100 tests.
#[test]
fn under_a_changing_load_the_interval_holds_the_true_gain() {
    let (mut covered, mut always, mut all) = (0, 0, 0);
    for kind in KINDS {
        for seed in 0..tests() {
            let (test, rows) = draw(&kind, 0.8, 1_000 + seed);
            let rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
            let found = judge(&test, &rows, &Prefixes::default(), seed);
            let line = found.lines.iter().find(|line| line.class.over == SegmentBy::All && line.is_large).unwrap();
            covered += u32::from((line.low..=line.high).contains(&0.25));
            always += u32::from((line.always_low..=line.always_high).contains(&0.25));
            all += 1;
        }
    }
    println!("covered {covered}, always valid {always} of {all}");
    assert!(
        all - covered <= at_most(0.07, all) && all - always <= at_most(0.05, all),
        "{covered} and {always} of {all}"
    );
}
