//! Tests of ranges, populations and runs on drawn paths.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use crate::choose::objective::Terms;
use crate::sweep::Metric;

fn spec(rate: &str, buffer: &str) -> KindSpec {
    KindSpec { rate: rate.to_owned(), rtt: "40ms".to_owned(), buffer: buffer.to_owned(), ..KindSpec::unknown() }
}

#[test]
fn draws_stay_in_their_ranges_and_come_back_with_their_number() {
    let population = Population::of(Kind::parse(&spec("1mbit..100mbit", "0.5bdp..2bdp")).unwrap());
    for nth in 0..200 {
        let path = population.draw(7, nth);
        let buffer = path.buffer_bytes / (path.rate_bps / 8.0 * path.rtt_s);
        assert!((1e6..=100e6).contains(&path.rate_bps) && path.rivals.len() <= 2, "{path:?}");
        assert!((0.49..=2.01).contains(&buffer) || path.buffer_bytes == PACKET, "{path:?}");
        assert!(path.loss == 0.0 || (LOSS_MIN..=0.001).contains(&path.loss), "{path:?}");
        assert_eq!(path, population.draw(7, nth));
    }
    assert_ne!(population.draw(7, 1), population.draw(8, 1));
}

/// Trap: a range that began at 0 and ended at the smallest loss gave 0 · ∞, which is NaN.
#[test]
fn every_draw_of_a_range_that_begins_at_0_lies_in_it() {
    for (loss, buffer, highest) in
        [("0%..0.001%", "1bdp", 1e-5), ("0%..0.0001%", "1bdp", 1e-6), ("0%", "0ms..10ms", 0.0)]
    {
        let kind = Kind::parse(&KindSpec { loss: loss.to_owned(), ..spec("50mbit", buffer) }).unwrap();
        for nth in 0..100 {
            let path = Population::of(kind.clone()).draw(1, nth);
            assert!((0.0..=highest).contains(&path.loss) && path.buffer_bytes.is_finite(), "{loss}: {path:?}");
            path.scenario(&Conditions::default(), "bbr1", 1).unwrap();
        }
    }
}

#[test]
fn the_unit_of_a_range_s_end_is_that_of_its_beginning_too() {
    let short = KindSpec { loss: "0.1..1%".to_owned(), ..spec("20..50mbit", "0.5..2bdp") };
    let long = KindSpec { loss: "0.1%..1%".to_owned(), ..spec("20mbit..50mbit", "0.5bdp..2bdp") };
    assert_eq!(Kind::parse(&short).unwrap(), Kind::parse(&long).unwrap());
}

#[test]
fn slips_are_named_by_their_key() {
    for (rate, buffer, what) in [
        ("fast", "1bdp", "rate: "),
        ("2mbit..1mbit", "1bdp", "backwards"),
        ("1mbit", "12p", "buffer: "),
        ("1mbit", "-1bdp", "buffer: "),
    ] {
        let error = Kind::parse(&spec(rate, buffer)).unwrap_err().to_string();
        assert!(error.contains(what), "{rate} {buffer}: {error}");
    }
    assert!(Population::from_toml("[[path]]\nrate = 1").unwrap_err().to_string().starts_with("line 2"));
    assert!(Population::from_toml("path = []").unwrap_err().to_string().contains("at least one"));
}

/// Trap: parameters tuned without rivals took 93 % of a link beside CUBIC, without any warning.
#[test]
fn a_population_has_rivals_unless_it_says_otherwise() {
    let file = |more: &str| Population::from_toml(&format!("[[path]]\nrate='5mbit'\nrtt='20ms'\n{more}")).unwrap();
    assert!(file("").has_rivals() && !file("rivals='0'").has_rivals() && !file("").without_rivals().has_rivals());
    let drawn = |population: &Population| (0..40).map(|nth| population.draw(1, nth).rivals.len()).max();
    assert_eq!((drawn(&file("")), drawn(&file("").without_rivals())), (Some(2), Some(0)));
}

#[test]
fn rivals_are_drawn_from_what_they_may_be_and_run_beside_the_flow() {
    let flows = ["cubic", "bbr1", "cubic,on=1s/off=1s"].map(str::to_owned).to_vec();
    let spec = KindSpec { rivals: "3".to_owned(), rival_flows: flows.clone(), ..spec("5mbit", "1bdp") };
    let kind = Kind::parse(&spec).unwrap();
    let drawn: Vec<Path> = (0..20).map(|nth| Population::of(kind.clone()).draw(1, nth)).collect();
    let rivals: BTreeSet<&String> = drawn.iter().flat_map(|path| &path.rivals).collect();
    assert_eq!(rivals.into_iter().cloned().collect::<BTreeSet<_>>(), flows.into_iter().collect());
    let row = drawn[0].run(&Conditions::default(), "bbr1", 1).unwrap();
    assert_eq!((row.get(Metric::Flows), row.get(Metric::FirstFlows)), (4.0, 1.0));
    let bad = KindSpec { rival_flows: vec!["cubic*2".to_owned()], ..spec };
    assert!(Kind::parse(&bad).unwrap_err().to_string().starts_with("rival_flows: \"cubic*2\""));
}

#[test]
fn a_run_ends_by_its_packets_but_not_before_its_rounds() {
    let path = Path { rate_bps: 10e9, rtt_s: 0.04, buffer_bytes: 5e7, loss: 0.0, rivals: Vec::new(), measured: None };
    let seconds = |packets: Option<f64>| Conditions { packets, ..Conditions::default() }.seconds(&path);
    assert_eq!((seconds(None), seconds(Some(1.0))), (SHORTEST_S, 1.2));
    assert!((seconds(Some(2e6)) - 2.42).abs() < 0.01);
}

#[test]
fn conditions_hold_on_every_path() {
    let path =
        Path { rate_bps: 5e6, rtt_s: 0.02, buffer_bytes: 20_000.0, loss: 0.0, rivals: Vec::new(), measured: None };
    let keys = vec![("policer".to_owned(), "rate=1mbit,burst=10kB".to_owned())];
    let policed = Conditions { keys, ..Conditions::default() };
    let row = path.run(&policed, "bbr1", 1).unwrap();
    assert!(row.get(Metric::GoodputBps) < 1.1e6);
    assert_eq!((row.get(Metric::RateBps), row.get(Metric::CapacityBps)), (5e6, 1e6));
    // Alone behind the policer, the flow gets most of its fair share.
    let [share, ..] = Terms::of(&row.figures).0;
    assert!(share > 0.8, "{share}");
    let trace = Some(("t".to_owned(), "12\n".to_owned()));
    let traced = Conditions { trace, ..Conditions::default() };
    let row = path.run(&traced, "bbr1", 1).unwrap();
    assert!((row.get(Metric::RateBps) - 1e6).abs() < 5e4, "{row}");
}

#[test]
fn a_path_runs() {
    let path =
        Path { rate_bps: 5e6, rtt_s: 0.02, buffer_bytes: 20_000.0, loss: 0.0, rivals: all_cubic(), measured: None };
    let row = path.run(&Conditions::default(), "bbr1", 1).unwrap();
    assert!(row.get(Metric::GoodputBps) > 4.5e6 && row.get(Metric::Flows) == 2.0, "{row}");
}
