//! Summary of repeated runs: median and 95 % bootstrap interval of every metric. The same runs and seed give the same
//! interval.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeSet;

use bbrlab_core::Rng;
use serde_json::{Map, Value, json};

use crate::bootstrap::interval_of_median;
use crate::median;

/// Keys that describe the run or its duration rather than a measurement.
const NO_FIGURES: [&str; 7] = ["schema", "scenario", "on", "seed", "version", "wall_s", "expect"];
/// Seed stream of the bootstrap.
const STREAM: u64 = 0x626f_6f74_7374_7261;

/// Summarises every metric of `runs` as `{median, low, high, n}`, in the shape of a single result.
pub fn summarise(runs: &[Value], seed: u64) -> Value {
    let figures: Vec<Value> = runs
        .iter()
        .map(|run| {
            let mut run = run.clone();
            if let Some(map) = run.as_object_mut() {
                map.retain(|key, _| !NO_FIGURES.contains(&key.as_str()));
            }
            run
        })
        .collect();
    let mut rng = Rng::derive(seed, STREAM);
    merge(&figures.iter().collect::<Vec<_>>(), &mut rng)
}

fn merge(values: &[&Value], rng: &mut Rng) -> Value {
    let Some(first) = values.iter().find(|value| !value.is_null()) else { return Value::Null };
    match first {
        Value::Number(_) => figure(&values.iter().filter_map(|value| value.as_f64()).collect::<Vec<_>>(), rng),
        Value::Object(_) => objects(values, rng),
        Value::Array(items) if items.iter().all(Value::is_number) => places(values, rng),
        Value::Array(_) => named(values, rng),
        other => (*other).clone(),
    }
}

fn objects(values: &[&Value], rng: &mut Rng) -> Value {
    let keys: BTreeSet<&String> = values.iter().filter_map(|value| value.as_object()).flat_map(Map::keys).collect();
    let zero = json!(0.0);
    let merged = keys.into_iter().map(|key| {
        if key == "state_s" {
            return (key.clone(), states(values, &zero, rng));
        }
        (key.clone(), merge(&values.iter().filter_map(|value| value.get(key)).collect::<Vec<_>>(), rng))
    });
    Value::Object(merged.collect())
}

/// Merges times per state; a state that a run never entered counts as zero.
fn states(values: &[&Value], zero: &Value, rng: &mut Rng) -> Value {
    let maps: Vec<&Map<String, Value>> = values.iter().filter_map(|value| value.get("state_s")?.as_object()).collect();
    let names: BTreeSet<&String> = maps.iter().flat_map(|map| map.keys()).collect();
    let each = names.into_iter().map(|name| {
        let times: Vec<&Value> = maps.iter().map(|map| map.get(name).unwrap_or(zero)).collect();
        (name.clone(), merge(&times, rng))
    });
    Value::Object(each.collect())
}

/// Merges arrays of flows and groups by name, in order of first appearance.
fn named(values: &[&Value], rng: &mut Rng) -> Value {
    let name = |value: &Value| value.get("name").or(value.get("cc")).and_then(Value::as_str).map(str::to_owned);
    let mut seen = BTreeSet::new();
    let all = || values.iter().filter_map(|value| value.as_array()).flatten();
    let mut by_name: std::collections::BTreeMap<String, Vec<&Value>> = std::collections::BTreeMap::new();
    all()
        .filter_map(|value| Some((name(value)?, value)))
        .for_each(|(name, value)| by_name.entry(name).or_default().push(value));
    let order = all().filter_map(name).filter(|name| seen.insert(name.clone()));
    Value::Array(order.filter_map(|name| Some(merge(by_name.get(&name)?, rng))).collect())
}

/// Merges arrays of numbers element by element, e.g. both ends of an interval.
fn places(values: &[&Value], rng: &mut Rng) -> Value {
    let arrays: Vec<&Vec<Value>> = values.iter().filter_map(|value| value.as_array()).collect();
    let count = arrays.iter().map(|array| array.len()).max().unwrap_or(0);
    let place = |index: usize| arrays.iter().filter_map(|array| array.get(index)).collect::<Vec<_>>();
    Value::Array((0..count).map(|index| merge(&place(index), rng)).collect())
}

fn figure(values: &[f64], rng: &mut Rng) -> Value {
    let mut sorted = values.to_vec();
    let mid = median(&mut sorted);
    let (low, high) = interval_of_median(&sorted, rng);
    json!({ "median": mid, "low": low, "high": high, "n": values.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_has_median_interval_and_count_and_missing_states_count_as_no_time() {
        let run = |x: f64, state: &str| json!({ "seed": 1, "jain": x, "convergence_s": null, "flows": [{ "name": "a#0", "cc": "a", "state_s": { state: x } }] });
        let summary = summarise(&[run(1.0, "drain"), run(3.0, "startup"), run(2.0, "startup")], 1);
        assert_eq!(summary["jain"], json!({ "median": 2.0, "low": 1.0, "high": 3.0, "n": 3 }));
        assert_eq!(summary["flows"][0]["state_s"]["startup"]["median"], json!(2.0));
        assert_eq!(summary["flows"][0]["state_s"]["drain"]["n"], json!(3));
        assert_eq!((&summary["seed"], &summary["convergence_s"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn the_ends_of_the_common_interval_have_a_median_each() {
        let run = |to: f64| json!({ "interval_s": [0.0, to] });
        let summary = summarise(&[run(19.0), run(20.0), run(21.0)], 1);
        assert_eq!(summary["interval_s"][0]["median"], json!(0.0));
        assert_eq!(summary["interval_s"][1], json!({ "median": 20.0, "low": 19.0, "high": 21.0, "n": 3 }));
    }

    #[test]
    fn the_interval_of_many_values_encloses_the_median_closely_and_repeats() {
        let values: Vec<f64> = (0..101).map(f64::from).collect();
        let first = figure(&values, &mut Rng::new(1));
        assert_eq!(first, figure(&values, &mut Rng::new(1)));
        let (low, high) = (first["low"].as_f64().unwrap(), first["high"].as_f64().unwrap());
        assert!(low > 25.0 && low < 50.0 && high > 50.0 && high < 75.0, "{low} {high}");
    }
}
