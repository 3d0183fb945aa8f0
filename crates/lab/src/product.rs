//! Axes and their product: each run's scenario merged and its `{axis}` places filled in, one run at a time.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use serde::Deserialize;
use toml::{Table, Value};

/// One axis of the product of runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vary {
    pub name: String,
    /// The scenario key that a plain value sets; without it the value only fills in `{name}` in the scenario's texts.
    pub key: Option<String>,
    /// Plain values, or tables with `label`, perhaps `x`, and scenario keys.
    pub values: Vec<Value>,
}

/// One value of an axis.
#[derive(Clone, Debug)]
pub struct Point {
    /// As it stands in the names of runs.
    pub label: String,
    /// The number that it stands for in pictures.
    pub x: f64,
    /// Scenario keys that it sets.
    set: Table,
}

impl Point {
    /// Whether it sets a key of the scenario.
    pub fn sets_anything(&self) -> bool {
        !self.set.is_empty()
    }
}

/// One run to come.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedRun {
    /// `cc=bbr1,loss=1%`, or the name that the author gave.
    pub name: String,
    /// The scenario's keys.
    pub scenario: Table,
}

/// All combinations of the values of some axes, the last axis running fastest.
#[derive(Clone, Debug)]
pub struct Product {
    base: Table,
    axes: Vec<(String, Vec<Point>)>,
}

impl Product {
    /// Checks the axes.
    pub fn new(base: &Table, axes: &[Vary]) -> Result<Self, String> {
        let axes: Vec<(String, Vec<Point>)> =
            axes.iter().map(|vary| Ok((vary.name.clone(), points(vary)?))).collect::<Result<_, String>>()?;
        if let Some((index, (name, _))) =
            axes.iter().enumerate().find(|(i, (n, _))| axes[..*i].iter().any(|a| a.0 == *n))
        {
            return Err(format!("axis {index} is named {name:?} as one before it; name it otherwise"));
        }
        Ok(Self { base: base.clone(), axes })
    }

    /// The axes: names and values.
    pub fn axes(&self) -> &[(String, Vec<Point>)] {
        &self.axes
    }

    /// How many combinations; without an axis there is one.
    pub fn len(&self) -> usize {
        self.axes.iter().fold(1, |all, (_, points)| all.saturating_mul(points.len()))
    }

    /// Whether there is none; never, for an axis has values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values of combination number `index`, one an axis.
    pub fn points(&self, index: usize) -> Vec<&Point> {
        let mut rest = index;
        let mut points: Vec<&Point> = self
            .axes
            .iter()
            .rev()
            .map(|(_, points)| {
                let point = &points[rest % points.len()];
                rest /= points.len();
                point
            })
            .collect();
        points.reverse();
        points
    }

    /// The run of combination number `index`.
    pub fn run(&self, index: usize) -> Result<PlannedRun, String> {
        let points = self.points(index);
        let mut scenario = self.base.clone();
        for point in &points {
            scenario = merged(&scenario, &point.set);
        }
        let labels: Vec<(&str, &str)> =
            self.axes.iter().zip(&points).map(|((name, _), point)| (name.as_str(), point.label.as_str())).collect();
        for value in scenario.iter_mut().map(|(_, value)| value) {
            fill_in(value, &labels);
        }
        if let Some(open) = scenario.values().find_map(open_place) {
            return Err(format!("{open:?} has a place that no axis fills in"));
        }
        let names: Vec<String> = labels.iter().map(|(axis, label)| format!("{axis}={label}")).collect();
        let name = if names.is_empty() { "run".to_owned() } else { names.join(",") };
        Ok(PlannedRun { name, scenario })
    }

    /// Whether a combination has every label of `skip`: axis = label, or axis = [labels].
    pub fn is_skipped(&self, index: usize, skip: &Table) -> bool {
        let points = self.points(index);
        skip.iter().all(|(axis, labels)| {
            let Some(at) = self.axes.iter().position(|(name, _)| name == axis) else { return false };
            match labels {
                Value::Array(labels) => labels.iter().any(|l| scalar(l).as_ref() == Some(&points[at].label)),
                label => scalar(label).as_ref() == Some(&points[at].label),
            }
        })
    }
}

/// A scenario's keys with some of them replaced.
pub fn merged(base: &Table, over: &Table) -> Table {
    let mut all = base.clone();
    all.extend(over.iter().map(|(key, value)| (key.clone(), value.clone())));
    all
}

/// Puts each label in place of its `{axis}`.
fn fill_in(value: &mut Value, labels: &[(&str, &str)]) {
    match value {
        Value::String(text) if text.contains('{') => {
            for (axis, label) in labels {
                *text = text.replace(&format!("{{{axis}}}"), label);
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
        return Err(format!("axis {name:?} has no values; write at least one"));
    }
    let mut points: Vec<Point> = Vec::new();
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
    if let Some((_, twice)) = points.iter().enumerate().find(|(n, p)| points[..*n].iter().any(|q| q.label == p.label)) {
        return Err(format!("axis {name:?}: {:?} stands there twice; write it once", twice.label));
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
