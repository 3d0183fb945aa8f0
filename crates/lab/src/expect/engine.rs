//! Expression engine (rhai, expressions only) over a set of named runs. An expression reads
//! `run("cc=bbr1,loss=1%").goodput_mbps()` or `sweep("loss", "cc=bbr1", "r.goodput_mbps()").half_point()`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::sync::Arc;

use rhai::{Dynamic, Engine, EvalAltResult, NativeCallContext, Scope};

use super::population::PopulationView;
use super::register;
use super::run::RunView;
use super::{Curve, FlowView};
use crate::{Error, Result};
use bbrlab_study::cdn::Study;

/// Maximum operations, more than any sensible measure needs; a runaway one is stopped. Ours.
const MAX_OPERATIONS: u64 = 1_000_000;
/// Maximum nesting of an expression. Ours.
const MAX_DEPTH: usize = 64;

/// One axis of an experiment: its labels and their numeric values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    pub name: String,
    /// Labels in file order, each with its number.
    pub values: Vec<(String, f64)>,
}

/// The finished runs of one experiment.
#[derive(Clone, Debug, Default)]
pub struct RunSet {
    /// Runs by name.
    pub runs: BTreeMap<String, RunView>,
    /// Axes that make up the runs' names.
    pub axes: Vec<Axis>,
    /// External data files for `data(FILE, X, Y, FILTER)`.
    pub files: BTreeMap<String, Arc<str>>,
    /// Study of the experiment's population.
    pub study: Option<Arc<Study>>,
}

/// Reads `cc=bbr1,loss=1%` into pairs.
pub fn parse_labels(text: &str) -> Result<BTreeMap<String, String>> {
    let pieces = text.split(',').map(str::trim).filter(|p| !p.is_empty());
    pieces
        .map(|piece| match piece.split_once('=') {
            Some((axis, label)) => Ok((axis.trim().to_owned(), label.trim().to_owned())),
            None => Err(Error::Label { text: text.to_owned(), piece: piece.to_owned() }),
        })
        .collect()
}

impl RunSet {
    /// Returns the run of that name; `""` is the only run. The order of the labels does not matter.
    pub fn run(&self, name: &str) -> Result<&RunView> {
        if let Some(run) = self.runs.get(name) {
            return Ok(run);
        }
        if name.is_empty() && self.runs.len() == 1 {
            return Ok(self.runs.values().next().expect("the length was just seen to be 1"));
        }
        let wanted = parse_labels(name).unwrap_or_default();
        let mut matching = self.runs.values().filter(|run| parse_labels(&run.name).is_ok_and(|has| has == wanted));
        match (matching.next(), wanted.is_empty()) {
            (Some(run), false) => Ok(run),
            _ => {
                let known = self.runs.keys().take(12).cloned().collect();
                Err(Error::UnknownRun { name: name.to_owned(), count: self.runs.len(), known })
            }
        }
    }

    /// Returns the run that differs from this one only in the given labels.
    pub fn sibling(&self, run: &RunView, other: &str) -> Result<&RunView> {
        let mut labels = parse_labels(&run.name)?;
        labels.extend(parse_labels(other)?);
        let name: Vec<String> = labels.iter().map(|(axis, label)| format!("{axis}={label}")).collect();
        self.run(&name.join(","))
    }

    /// Returns the axis of that name.
    pub fn axis(&self, name: &str) -> Result<&Axis> {
        self.axes.iter().find(|a| a.name == name).ok_or_else(|| {
            let known = self.axes.iter().map(|a| a.name.clone()).collect();
            Error::UnknownAxis { name: name.to_owned(), known }
        })
    }

    /// Returns the runs along an axis whose other labels are `fixed`, each with the axis value.
    pub fn along(&self, axis: &str, fixed: &str) -> Result<Vec<(f64, &RunView)>> {
        let axis = self.axis(axis)?;
        let fixed = parse_labels(fixed)?;
        let mut found = Vec::new();
        for run in self.runs.values() {
            let Ok(labels) = parse_labels(&run.name) else { continue };
            let fits = fixed.iter().all(|(key, value)| labels.get(key) == Some(value));
            let here = labels.get(&axis.name).and_then(|label| axis.values.iter().find(|(known, _)| known == label));
            if let (true, Some((_, x))) = (fits, here) {
                found.push((*x, run));
            }
        }
        if found.is_empty() { Err(Error::NoRunAlong { axis: axis.name.clone(), fixed }) } else { Ok(found) }
    }
}

/// Evaluator of measures over one experiment's runs.
pub struct Measurer {
    engine: Engine,
    runs: Arc<RunSet>,
}

fn bare_engine() -> Engine {
    let mut engine = Engine::new();
    engine.set_max_operations(MAX_OPERATIONS);
    engine.set_max_expr_depths(MAX_DEPTH);
    engine.disable_symbol("eval");
    engine.on_print(|_| {});
    engine.on_debug(|_, _, _| {});
    register::measures(&mut engine);
    engine
}

/// Checks that a measure is one expression.
pub fn check_syntax(expression: &str) -> Result<()> {
    match bare_engine().compile_expression(expression) {
        Ok(_) => Ok(()),
        Err(source) => Err(Error::Syntax { expression: expression.to_owned(), source }),
    }
}

/// Wraps a reason for the engine.
pub(super) fn fail(reason: Error) -> Box<EvalAltResult> {
    reason.to_string().into()
}

/// Converts any numeric type of rhai; booleans become 1 and 0.
pub(super) fn number(value: &Dynamic) -> Result<f64, Box<EvalAltResult>> {
    if let Ok(float) = value.as_float() {
        return Ok(float);
    }
    if let Ok(integer) = value.as_int() {
        return Ok(integer as f64);
    }
    match value.as_bool() {
        Ok(yes) => Ok(f64::from(u8::from(yes))),
        Err(_) => Err(fail(Error::Type(value.type_name()))),
    }
}

impl Measurer {
    /// Creates a measurer over these runs.
    pub fn new(runs: Arc<RunSet>) -> Self {
        let mut engine = bare_engine();
        let set = runs.clone();
        engine.register_fn("run", move |name: &str| set.run(name).cloned().map_err(fail));
        let set = runs.clone();
        engine.register_fn("run", move || set.run("").cloned().map_err(fail));
        let set = runs.clone();
        engine.register_fn("sweep", move |context: NativeCallContext, axis: &str, fixed: &str, each: &str| {
            sweep(&context, &set, axis, fixed, each)
        });
        let set = runs.clone();
        engine.register_fn("sibling", move |run: &mut RunView, other: &str| {
            set.sibling(run, other).cloned().map_err(fail)
        });
        let set = runs.clone();
        engine.register_fn("data", move |file: &str, x: &str, y: &str, filter: &str| {
            data(&set, file, x, y, filter).map_err(fail)
        });
        let set = runs.clone();
        engine.register_fn("population", move || {
            set.study.clone().map(PopulationView).ok_or_else(|| fail(Error::NoPopulation))
        });
        Self { engine, runs }
    }

    pub fn runs(&self) -> &RunSet {
        &self.runs
    }

    /// Evaluates an expression.
    pub fn measure(&self, expression: &str) -> Result<f64> {
        self.evaluate(expression, &mut Scope::new())
    }

    /// Evaluates an expression in which `r` is one run.
    pub fn measure_of(&self, expression: &str, run: &RunView) -> Result<f64> {
        let mut scope = Scope::new();
        scope.push_constant("r", run.clone());
        self.evaluate(expression, &mut scope)
    }

    /// Evaluates an expression over named values; with a run, `r` is that run and `f` its first flow.
    pub fn measure_with(&self, expression: &str, run: Option<&RunView>, values: &[(String, f64)]) -> Result<f64> {
        let mut scope = Scope::new();
        if let Some(run) = run {
            scope.push_constant("r", run.clone());
            scope.push_constant("f", FlowView { run: run.clone(), index: 0 });
        }
        for (name, value) in values {
            scope.push_constant(name.as_str(), *value);
        }
        self.evaluate(expression, &mut scope)
    }

    /// Evaluates an expression in `x`.
    pub fn measure_at(&self, expression: &str, x: f64) -> Result<f64> {
        let mut scope = Scope::new();
        scope.push_constant("x", x);
        self.evaluate(expression, &mut scope)
    }

    /// Evaluates an expression in `r` at each run along an axis; returns pairs of the axis value and the result.
    pub fn along(&self, axis: &str, fixed: &str, each: &str) -> Result<Vec<(f64, f64)>> {
        let runs = self.runs.along(axis, fixed)?.into_iter();
        runs.map(|(x, run)| self.measure_of(each, run).map(|y| (x, y))).collect()
    }

    /// Returns these values as a curve.
    pub fn sweep(&self, axis: &str, fixed: &str, each: &str) -> Result<Curve> {
        self.along(axis, fixed, each).map(Curve::new)
    }

    fn evaluate(&self, expression: &str, scope: &mut Scope) -> Result<f64> {
        let value = self.engine.eval_expression_with_scope::<Dynamic>(scope, expression);
        value.and_then(|v| number(&v)).map_err(|source| Error::Evaluation { expression: expression.to_owned(), source })
    }
}

fn sweep(
    context: &NativeCallContext,
    set: &RunSet,
    axis: &str,
    fixed: &str,
    each: &str,
) -> Result<Curve, Box<EvalAltResult>> {
    let mut points = Vec::new();
    for (x, run) in set.along(axis, fixed).map_err(fail)? {
        let mut scope = Scope::new();
        scope.push_constant("r", run.clone());
        let value = context.engine().eval_expression_with_scope::<Dynamic>(&mut scope, each)?;
        points.push((x, number(&value)?));
    }
    Ok(Curve::new(points))
}

/// Curve of external data: columns `x` and `y` of the rows of a CSV file that match `filter`.
fn data(set: &RunSet, file: &str, x: &str, y: &str, filter: &str) -> Result<Curve> {
    let text = set.files.get(file).ok_or_else(|| Error::NoData { kind: "data file", name: file.to_owned() })?;
    let (x, y) = super::csv::columns(text, x, y, &parse_labels(filter)?).map_err(Error::at(file))?;
    Ok(Curve::new(x.into_iter().zip(y).collect()))
}

/// Returns a flow by its number, or the reason why there is none.
pub(super) fn flow_of(run: &RunView, index: i64) -> Result<FlowView, Box<EvalAltResult>> {
    match usize::try_from(index) {
        Ok(index) if index < run.setup.flows.len() => Ok(FlowView { run: run.clone(), index }),
        _ => Err(fail(Error::NoFlow { run: run.name.to_string(), index, count: run.setup.flows.len() })),
    }
}
