//! Cartesian product of axes: merges each run's scenario and fills in its `{axis}` placeholders, one run at a time.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use serde::Deserialize;
use toml::{Table, Value};

use crate::{Error, Result};

/// One axis of the product.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vary {
    pub name: String,
    /// Scenario key set by a plain value; without it the value only fills in `{name}` in the scenario's texts.
    pub key: Option<String>,
    /// Plain values, or tables with `label`, optionally `x`, and scenario keys.
    pub values: Vec<Value>,
}

/// One value of an axis.
#[derive(Clone, Debug)]
pub struct Point {
    /// Label in the names of runs.
    pub label: String,
    /// Numeric position on a plot's axis.
    pub x: f64,
    /// Scenario keys that the value sets.
    set: Table,
}

impl Point {
    /// Returns true if the value sets a scenario key.
    pub fn sets_anything(&self) -> bool {
        !self.set.is_empty()
    }
}

/// A run of the product that has yet to be executed.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedRun {
    /// `cc=bbr1,loss=1%`, or the author's own name.
    pub name: String,
    /// Scenario keys of the run.
    pub scenario: Table,
}

/// All combinations of the axes' values; the last axis varies fastest.
#[derive(Clone, Debug)]
pub struct Product {
    base: Table,
    axes: Vec<(String, Vec<Point>)>,
}

impl Product {
    /// Checks the axes and builds the product.
    pub fn new(base: &Table, axes: &[Vary]) -> Result<Self> {
        let axes: Vec<(String, Vec<Point>)> =
            axes.iter().map(|vary| Ok((vary.name.clone(), points(vary)?))).collect::<Result<_>>()?;
        if let Some((index, (name, _))) =
            axes.iter().enumerate().find(|(i, (n, _))| axes[..*i].iter().any(|a| a.0 == *n))
        {
            return Err(Error::AxisTaken { index, name: name.clone() });
        }
        Ok(Self { base: base.clone(), axes })
    }

    /// Returns the names and values of the axes.
    pub fn axes(&self) -> &[(String, Vec<Point>)] {
        &self.axes
    }

    /// Number of combinations; without axes there is one.
    pub fn len(&self) -> usize {
        self.axes.iter().fold(1, |all, (_, points)| all.saturating_mul(points.len()))
    }

    /// Always false, since every axis has values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the values of combination `index`, one per axis.
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

    /// Returns the run of combination `index`.
    pub fn run(&self, index: usize) -> Result<PlannedRun> {
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
            return Err(Error::Placeholder(open.to_owned()));
        }
        let names: Vec<String> = labels.iter().map(|(axis, label)| format!("{axis}={label}")).collect();
        let name = if names.is_empty() { "run".to_owned() } else { names.join(",") };
        Ok(PlannedRun { name, scenario })
    }

    /// Returns true if a combination matches every entry of `skip`: `axis = label`, or `axis = [labels]`.
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

/// Merges two sets of scenario keys; those of `over` take precedence.
pub fn merged(base: &Table, over: &Table) -> Table {
    let mut all = base.clone();
    all.extend(over.iter().map(|(key, value)| (key.clone(), value.clone())));
    all
}

/// Replaces every `{axis}` with its label.
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

/// Returns a text that still contains a `{placeholder}`.
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

fn points(vary: &Vary) -> Result<Vec<Point>> {
    let name = &vary.name;
    let at = || Error::at::<Error>(format!("axis {name:?}"));
    if vary.values.is_empty() {
        return Err(Error::NoValues(name.clone()));
    }
    let mut points: Vec<Point> = Vec::new();
    for (index, value) in vary.values.iter().enumerate() {
        points.push(match value {
            Value::Table(table) => point_of_table(table, index).map_err(at())?,
            plain => {
                let label = scalar(plain).ok_or_else(|| at()(Error::AxisValue(plain.clone())))?;
                let mut set = Table::new();
                if let Some(key) = &vary.key {
                    set.insert(key.clone(), plain.clone());
                }
                Point { x: leading_number(&label).unwrap_or(index as f64), label, set }
            }
        });
    }
    if let Some((_, twice)) = points.iter().enumerate().find(|(n, p)| points[..*n].iter().any(|q| q.label == p.label)) {
        return Err(at()(Error::Twice(twice.label.clone())));
    }
    if let Some(bad) = points.iter().find(|p| p.label.contains([',', '='])) {
        return Err(at()(Error::Label(bad.label.clone())));
    }
    Ok(points)
}

/// Parses `{ label = …, x = …, any scenario key = … }`.
fn point_of_table(table: &Table, index: usize) -> Result<Point> {
    let mut set = table.clone();
    let label = set.remove("label").as_ref().and_then(scalar).ok_or(Error::NoLabel)?;
    let x = match set.remove("x") {
        None => leading_number(&label).unwrap_or(index as f64),
        Some(Value::Float(x)) => x,
        Some(Value::Integer(x)) => x as f64,
        Some(other) => return Err(Error::Position { label, found: other }),
    };
    Ok(Point { label, x, set })
}

/// Parses the number at the start of a label: 1 of `1%`.
fn leading_number(label: &str) -> Option<f64> {
    let end = label.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(label.len());
    label[..end].parse().ok()
}
