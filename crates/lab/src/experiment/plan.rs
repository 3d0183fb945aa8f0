//! From axes to named runs: the cartesian product, with each run's scenario merged and its `{axis}` places filled in.
//! In: an experiment file. Out: names and scenario tables. Never: a resolved scenario.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use toml::{Table, Value};

use super::file::{ExperimentFile, Vary};
use crate::expect::Axis;

/// More runs than any experiment needs: a guard against a slip in an axis. Ours.
const MAX_RUNS: usize = 10_000;

/// One run to come.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlannedRun {
    /// `cc=bbr1,loss=1%`, or the name that the author gave.
    pub(super) name: String,
    /// The scenario's keys.
    pub(super) scenario: Table,
}

/// One value of an axis.
#[derive(Clone, Debug)]
struct Point {
    label: String,
    x: f64,
    /// Scenario keys that it sets.
    set: Table,
}

/// The axes, and all runs in the order of the file: the product first, its last axis running fastest, then the explicit runs.
pub(super) fn plan(file: &ExperimentFile) -> Result<(Vec<Axis>, Vec<PlannedRun>), String> {
    let mut axes = Vec::new();
    let mut product: Vec<Vec<(String, Point)>> = vec![Vec::new()];
    for vary in &file.vary {
        let points = points(vary)?;
        axes.push(Axis { name: vary.name.clone(), values: points.iter().map(|p| (p.label.clone(), p.x)).collect() });
        let longer = product.iter().flat_map(|before| {
            points.iter().map(|point| [before.as_slice(), &[(vary.name.clone(), point.clone())]].concat())
        });
        product = longer.collect();
        if product.len() > MAX_RUNS {
            return Err(format!("the axes make over {MAX_RUNS} runs; leave out some values"));
        }
    }
    product.retain(|run| !file.skip.iter().any(|skip| is_skipped(run, skip)));
    let alone = file.vary.is_empty() && file.run.is_empty();
    let mut runs = Vec::new();
    if alone || !file.vary.is_empty() {
        for labels in &product {
            runs.push(product_run(&file.scenario, labels)?);
        }
    }
    for explicit in &file.run {
        runs.push(PlannedRun { name: explicit.name.clone(), scenario: merged(&file.scenario, &explicit.set) });
    }
    check_names(&runs)?;
    Ok((axes, runs))
}

fn check_names(runs: &[PlannedRun]) -> Result<(), String> {
    let mut names: Vec<&str> = runs.iter().map(|r| r.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|w| w[0] == w[1]) {
        Some(twice) => Err(format!("two runs are named {:?}; name one otherwise", twice[0])),
        None => Ok(()),
    }
}

/// Whether a run has every label of a `[[skip]]`: axis = label, or axis = [labels].
fn is_skipped(run: &[(String, Point)], skip: &Table) -> bool {
    skip.iter().all(|(axis, labels)| {
        let Some((_, point)) = run.iter().find(|(name, _)| name == axis) else { return false };
        match labels {
            Value::Array(labels) => labels.iter().any(|l| scalar(l).as_ref() == Some(&point.label)),
            label => scalar(label).as_ref() == Some(&point.label),
        }
    })
}

fn product_run(base: &Table, labels: &[(String, Point)]) -> Result<PlannedRun, String> {
    let mut scenario = base.clone();
    for (_, point) in labels {
        scenario = merged(&scenario, &point.set);
    }
    for value in scenario.iter_mut().map(|(_, value)| value) {
        fill_in(value, labels);
    }
    if let Some(open) = scenario.values().find_map(open_place) {
        return Err(format!("{open:?} has a place that no axis fills in"));
    }
    let names: Vec<String> = labels.iter().map(|(axis, point)| format!("{axis}={}", point.label)).collect();
    let name = if names.is_empty() { "run".to_owned() } else { names.join(",") };
    Ok(PlannedRun { name, scenario })
}

fn merged(base: &Table, over: &Table) -> Table {
    let mut all = base.clone();
    all.extend(over.iter().map(|(key, value)| (key.clone(), value.clone())));
    all
}

/// Puts each label in place of its `{axis}`.
fn fill_in(value: &mut Value, labels: &[(String, Point)]) {
    match value {
        Value::String(text) => {
            for (axis, point) in labels {
                *text = text.replace(&format!("{{{axis}}}"), &point.label);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill_in(item, labels)),
        Value::Table(table) => table.iter_mut().for_each(|(_, item)| fill_in(item, labels)),
        _ => {}
    }
}

/// A text in which a `{place}` is left.
fn open_place(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) if text.contains('{') => Some(text),
        Value::Array(items) => items.iter().find_map(open_place),
        Value::Table(table) => table.values().find_map(open_place),
        _ => None,
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

fn points(vary: &Vary) -> Result<Vec<Point>, String> {
    let name = &vary.name;
    if vary.values.is_empty() {
        return Err(format!("axis {name:?} has no values"));
    }
    let mut points = Vec::new();
    for (index, value) in vary.values.iter().enumerate() {
        points.push(match value {
            Value::Table(table) => point_of_table(table, index).map_err(|e| format!("axis {name:?}: {e}"))?,
            plain => {
                let label =
                    scalar(plain).ok_or_else(|| format!("axis {name:?}: {plain} is no text, number or table"))?;
                let mut set = Table::new();
                if let Some(key) = &vary.key {
                    set.insert(key.clone(), plain.clone());
                }
                Point { x: leading_number(&label).unwrap_or(index as f64), label, set }
            }
        });
    }
    if let Some(bad) = points.iter().find(|p| p.label.contains([',', '='])) {
        return Err(format!(
            "axis {name:?}: label {:?} holds a comma or an equals sign; give a table with `label`",
            bad.label
        ));
    }
    Ok(points)
}

/// `{ label = …, x = …, any scenario key = … }`.
fn point_of_table(table: &Table, index: usize) -> Result<Point, String> {
    let mut set = table.clone();
    let label = set.remove("label").as_ref().and_then(scalar).ok_or("a value without `label`")?;
    let x = match set.remove("x") {
        None => leading_number(&label).unwrap_or(index as f64),
        Some(Value::Float(x)) => x,
        Some(Value::Integer(x)) => x as f64,
        Some(other) => return Err(format!("x of {label:?} is {other}, not a number")),
    };
    Ok(Point { label, x, set })
}

/// The number with which a label begins: 1 of `1%`.
fn leading_number(label: &str) -> Option<f64> {
    let end = label.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(label.len());
    label[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(axes: &str) -> ExperimentFile {
        let head = "id='X'\ntitle=''\nsource=''\nclaim=''\n[scenario]\nrate='10mbit'\nflow=['{cc},gain=1']\n";
        toml::from_str(&format!("{head}{axes}")).unwrap()
    }

    fn names(axes: &str) -> Vec<String> {
        plan(&file(axes)).unwrap().1.into_iter().map(|r| r.name).collect()
    }

    const CC: &str = "[[vary]]\nname='cc'\nvalues=['bbr1','cubic']\n";
    const LOSS: &str = "[[vary]]\nname='loss'\nkey='loss'\nvalues=['0.1%','2%']\n";

    #[test]
    fn axes_make_a_product_whose_last_axis_runs_fastest() {
        let expected = ["cc=bbr1,loss=0.1%", "cc=bbr1,loss=2%", "cc=cubic,loss=0.1%", "cc=cubic,loss=2%"];
        assert_eq!(names(&format!("{CC}{LOSS}")), expected);
    }

    #[test]
    fn labels_fill_their_places_and_keys_are_set() {
        let (_, runs) = plan(&file(&format!("{CC}{LOSS}"))).unwrap();
        assert_eq!(runs[3].scenario["flow"][0].as_str(), Some("cubic,gain=1"));
        assert_eq!(runs[3].scenario["loss"].as_str(), Some("2%"));
        assert_eq!(runs[3].scenario["rate"].as_str(), Some("10mbit"));
    }

    #[test]
    fn a_label_stands_for_the_number_that_it_begins_with_unless_told() {
        let axes = plan(&file(&format!("{CC}{LOSS}[[vary]]\nname='b'\nvalues=[{{label='big',x=7}}]"))).unwrap().0;
        assert_eq!(axes[1].values, [("0.1%".to_owned(), 0.1), ("2%".to_owned(), 2.0)]);
        assert_eq!(axes[0].values[1].1, 1.0);
        assert_eq!(axes[2].values[0].1, 7.0);
    }

    #[test]
    fn skipped_combinations_are_not_run() {
        let skip = "[[skip]]\ncc='cubic'\nloss=['2%']\n";
        assert_eq!(names(&format!("{CC}{LOSS}{skip}")).len(), 3);
    }

    #[test]
    fn a_place_that_no_axis_fills_is_refused() {
        assert!(plan(&file(LOSS)).unwrap_err().contains("{cc}"));
    }

    #[test]
    fn explicit_runs_follow_the_product() {
        let run = "[[run]]\nname='alone'\nset={flow=['bbr1']}\n";
        assert_eq!(names(run), ["alone"]);
        assert_eq!(names(&format!("{CC}{run}")), ["cc=bbr1", "cc=cubic", "alone"]);
    }

    #[test]
    fn two_runs_of_one_name_are_refused() {
        let run = "[[run]]\nname='a'\nset={}\n[[run]]\nname='a'\n";
        assert!(plan(&file(run)).unwrap_err().contains("two runs"));
    }
}
