//! Exceptions: `ScenarioError` for bad input, `InternalError` for faults of ours.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_sim::scenario::{Problem, ReadError, ScenarioError as Fault};
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    bbrlab,
    ScenarioError,
    PyValueError,
    "A scenario that cannot be read or run. Its text is the command's line; `where` names the key, `found` and `accepted` the values where they are known."
);
create_exception!(
    bbrlab,
    InternalError,
    PyRuntimeError,
    "A fault in bbrlab itself; please report it with the scenario."
);

/// Place, value found and values accepted, as far as an error has them.
#[derive(Default)]
struct Facts {
    place: String,
    found: Option<String>,
    accepted: Option<String>,
}

fn raise(line: String, facts: Facts) -> PyErr {
    // A scenario in Python has no file, whose name would come first.
    let error = ScenarioError::new_err(line.trim_start_matches(": ").to_owned());
    let set = Python::attach(|py| {
        let value = error.value(py);
        value.setattr("where", facts.place)?;
        value.setattr("found", facts.found)?;
        value.setattr("accepted", facts.accepted)
    });
    set.err().unwrap_or(error)
}

/// An error of the key `place`.
pub fn scenario(place: &str, message: &str) -> PyErr {
    raise(format!("{place}: {message}"), Facts { place: place.to_owned(), ..Facts::default() })
}

/// An error of the simulator's crate.
pub fn sim(error: &bbrlab_sim::Error) -> PyErr {
    use bbrlab_sim::Error;
    let facts = match error {
        Error::Toml { source, .. } | Error::Json { source, .. } => read(source),
        Error::Flag { source, .. } | Error::Line { source, .. } | Error::File { source, .. } => fault(source),
        Error::Scenario(source) => fault(source),
        _ => Facts::default(),
    };
    raise(error.to_string(), facts)
}

fn fault(source: &Fault) -> Facts {
    // Its message holds value and accepted values in one text; the caller knows both from the scenario and the table of keys.
    Facts { place: source.path.clone(), ..Facts::default() }
}

fn read(source: &ReadError) -> Facts {
    let place = source.path();
    let (found, accepted) = match &source.problem {
        Problem::UnknownKey { key, known } => (Some(key.clone()), Some(known.join(", "))),
        Problem::MissingKey(key) => (None, Some((*key).to_owned())),
        Problem::WrongType(wrong) => (wrong.value.clone(), Some(wrong.accepted.clone())),
        Problem::Value(_) => (None, None),
    };
    Facts { place, found, accepted }
}

/// An error of a session.
pub fn lab(error: &bbrlab_lab::Error) -> PyErr {
    match error {
        bbrlab_lab::Error::Sim(source) => sim(source),
        bbrlab_lab::Error::Study(source) => study(source),
        bbrlab_lab::Error::Scenario(source) => raise(source.to_string(), fault(source)),
        other => raise(other.to_string(), Facts::default()),
    }
}

/// An error of the study's crate, at a key or a file.
pub fn at(place: &str, error: &bbrlab_study::Error) -> PyErr {
    raise(format!("{place}: {error}"), Facts { place: place.to_owned(), ..Facts::default() })
}

/// An error of the study's crate.
pub fn study(error: &bbrlab_study::Error) -> PyErr {
    let place = if let bbrlab_study::Error::At { place, .. } = error { place.clone() } else { String::new() };
    raise(error.to_string(), Facts { place, ..Facts::default() })
}

/// A fault of ours.
pub fn internal(message: &str) -> PyErr {
    InternalError::new_err(message.to_owned())
}

/// Adds both to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("ScenarioError", py.get_type::<ScenarioError>())?;
    module.add("InternalError", py.get_type::<InternalError>())
}
