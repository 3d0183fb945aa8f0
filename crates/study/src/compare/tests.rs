//! Tests of comparisons on rows with known values.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Rng;
use serde_json::json;

use super::*;

fn row(seed: u64, goodput_bps: f64, queue_ms: f64) -> Row {
    let mut figures = [f64::NAN; Metric::COUNT];
    let mut set = |metric: Metric, value: f64| figures[metric as usize] = value;
    set(Metric::FirstGoodputBps, goodput_bps);
    set(Metric::GoodputBps, goodput_bps);
    set(Metric::QueueP50Ms, queue_ms);
    set(Metric::Flows, 1.0);
    set(Metric::FirstFlows, 1.0);
    Row { id: 0, seed, figures }
}

fn side(name: &str, cases: &[(&str, Vec<Row>)]) -> Side {
    let case = |(case, rows): &(&str, Vec<Row>)| Case {
        name: (*case).to_owned(),
        scenario: json!({ "rate": "10mbit", "flow": [name], "seed": rows[0].seed }),
        rows: rows.clone(),
    };
    Side {
        name: name.to_owned(),
        color_key: name.to_owned(),
        version: "0".to_owned(),
        cases: cases.iter().map(case).collect(),
    }
}

/// Rows whose goodput varies much by seed, and whose queue does not.
fn rows(seeds: std::ops::Range<u64>, factor: f64, queue_ms: f64) -> Vec<Row> {
    seeds.map(|seed| row(seed, factor * (1e6 + 4e5 * ((seed * 37 % 11) as f64)), queue_ms)).collect()
}

fn of<'f>(found: &'f Comparison, key: &str) -> &'f Estimate {
    let measure = MEASURES.iter().position(|measure| measure.key == key).unwrap();
    &found.main_lines().find(|line| line.measure == measure).unwrap().sides[1]
}

#[test]
fn pairs_show_a_small_difference_that_independent_runs_hide() {
    let base = || side("cubic", &[("", rows(1..21, 1.0, 30.0))]);
    let paired = Comparison::new(vec![base(), side("bbr3", &[("", rows(1..21, 1.05, 5.0))])]).unwrap();
    assert!(paired.is_paired && paired.pairs() == 20);
    let goodput = of(&paired, "goodput_bps");
    assert_eq!(goodput.outcome, Outcome::Better);
    assert!((goodput.relative.middle - 0.05).abs() < 1e-9, "{goodput:?}");
    assert_eq!(of(&paired, "queue_p50_ms").outcome, Outcome::Better);
    assert_eq!(answer(&paired), "bbr3 against cubic: better: goodput +5 %, median queueing delay −25 ms.");
    let apart = Comparison::new(vec![base(), side("bbr3", &[("", rows(101..121, 1.05, 5.0))])]).unwrap();
    assert!(!apart.is_paired);
    assert_eq!(of(&apart, "goodput_bps").outcome, Outcome::NoDifference);
    assert!(notes(&apart)[0].contains("no seed in common"));
}

#[test]
fn few_runs_and_immaterial_differences_are_not_called_better() {
    let few =
        Comparison::new(vec![side("a", &[("", rows(1..4, 1.0, 30.0))]), side("b", &[("", rows(1..4, 2.0, 30.0))])])
            .unwrap();
    assert_eq!(of(&few, "goodput_bps").outcome, Outcome::NotJudged);
    assert!(
        answer(&few).starts_with("b against a: not judged, too few runs: goodput +100 %, median queueing delay +0 ms"),
        "{}",
        answer(&few)
    );
    let close =
        Comparison::new(vec![side("a", &[("", rows(1..21, 1.0, 30.0))]), side("b", &[("", rows(1..21, 1.005, 30.0))])])
            .unwrap();
    assert_eq!(of(&close, "goodput_bps").outcome, Outcome::NoDifference);
}

#[test]
fn an_aa_comparison_finds_a_difference_as_seldom_as_its_intervals_promise() {
    let mut rng = Rng::new(7);
    let noise = |rng: &mut Rng| {
        (1..7).map(|seed| row(seed, 1e6 * (1.0 + 0.1 * bbrlab_stats::bootstrap::normal(rng)), 1.0)).collect::<Vec<_>>()
    };
    let mut claims = 0;
    for _ in 0..200 {
        let sides = vec![side("a", &[("", noise(&mut rng))]), side("b", &[("", noise(&mut rng))])];
        let found = Comparison::new(sides).unwrap();
        claims += u32::from(of(&found, "goodput_bps").outcome != Outcome::NoDifference);
    }
    // 5 % nominal: four standard deviations.
    assert!(claims <= 22, "{claims} of 200");
}

#[test]
fn cases_that_all_have_are_compared_and_others_counted() {
    let a = side("a", &[("one", rows(1..7, 1.0, 30.0)), ("two", rows(1..7, 10.0, 3.0))]);
    let b =
        side("b", &[("two", rows(1..7, 11.0, 3.0)), ("one", rows(1..7, 1.1, 30.0)), ("three", rows(1..7, 1.0, 1.0))]);
    let found = Comparison::new(vec![a.clone(), b]).unwrap();
    assert_eq!((&found.cases[..], found.left_out), (&["one".to_owned(), "two".to_owned()][..], 1));
    let goodput = of(&found, "goodput_bps");
    assert!((goodput.relative.middle - 0.1).abs() < 1e-9 && !goodput.difference.is_known());
    assert_eq!(found.lines_of(Some(1)).count(), found.lines_of(None).count());
    assert!(Comparison::new(vec![a, side("c", &[("four", rows(1..7, 1.0, 1.0))])]).is_none());
}

#[test]
fn what_differs_is_listed_without_the_seeds() {
    let sides = vec![side("a", &[("", rows(1..7, 1.0, 1.0))]), side("b", &[("", rows(3..9, 1.0, 1.0))])];
    let found = Comparison::new(sides).unwrap();
    assert_eq!(found.differing, [("flow".to_owned(), vec!["a".to_owned(), "b".to_owned()])]);
    assert_eq!(json(&found)["lines"][0]["sides"][1]["pairs"], 4);
}

#[test]
fn seeds_of_one_case_count_once_where_there_are_cases_enough() {
    let few = vec![vec![1.0, 3.0], vec![5.0]];
    assert_eq!(independent(few.clone()), [1.0, 3.0, 5.0]);
    let many = [few.clone(), few.clone(), few, vec![vec![f64::INFINITY]]].concat();
    assert_eq!(independent(many), [2.0, 5.0, 2.0, 5.0, 2.0, 5.0]);
}

#[test]
fn cases_without_common_seeds_are_compared_by_their_means() {
    let cases = |first: u64, factor: f64| -> Vec<(String, Vec<Row>)> {
        (0..6).map(|case| (case.to_string(), rows(first..first + 3, factor * (1.0 + case as f64), 30.0))).collect()
    };
    let of_cases = |name: &str, cases: &[(String, Vec<Row>)]| {
        side(name, &cases.iter().map(|(name, rows)| (&**name, rows.clone())).collect::<Vec<_>>())
    };
    let found = Comparison::new(vec![of_cases("cubic", &cases(1, 1.0)), of_cases("bbr3", &cases(101, 3.0))]).unwrap();
    assert!(!found.is_paired);
    let goodput = of(&found, "goodput_bps");
    assert!(goodput.relative.low > 0.5 && goodput.outcome == Outcome::Better, "{goodput:?}");
}

#[test]
fn a_transfer_that_does_not_end_is_not_left_out() {
    let times = |missing: usize| -> Vec<Row> {
        let mut all = rows(1..9, 1.0, 30.0);
        for row in all.iter_mut().skip(missing) {
            row.figures[Metric::FirstFctS as usize] = 2.0 + row.seed as f64 / 100.0;
        }
        all
    };
    for missing in [0, 2, 8] {
        let found =
            Comparison::new(vec![side("cubic", &[("", times(0))]), side("bbr3", &[("", times(missing))])]).unwrap();
        let expected = if missing == 0 { Outcome::NoDifference } else { Outcome::Incomplete };
        let time = of(&found, "fct_s");
        assert_eq!((time.missing, time.outcome), (missing, expected));
        assert_eq!(answer(&found).contains("some runs have no value: completion time"), missing > 0);
    }
    // A queue that was empty is no level, but a share has differences without one.
    let dropped = |ratio: f64| -> Vec<Row> {
        let mut all = rows(1..9, 1.0, 30.0);
        all.iter_mut().for_each(|row| row.figures[Metric::DropRatio as usize] = ratio);
        all
    };
    let cases = |ratio: f64| [("a", dropped(ratio)), ("b", dropped(ratio))];
    let found = Comparison::new(vec![side("cubic", &cases(0.0)), side("bbr3", &cases(0.01))]).unwrap();
    assert_eq!(of(&found, "drop_ratio").outcome, Outcome::Worse);
}

#[test]
fn a_measure_without_a_value_is_a_dash() {
    let completion = MEASURES.iter().find(|measure| measure.unit == "s").unwrap();
    assert_eq!([f64::NAN, 1.25].map(|value| words::value(completion, value)), ["–", "1.25 s"]);
}
