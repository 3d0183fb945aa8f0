//! Loads a scenario from a file and flags.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::Path;

use bbrlab_sim::scenario::{ScenarioFile, TraceReadError};

use crate::{Error, inputs};

/// Loads the scenario of a file; flags override it.
pub fn load<'a>(
    file: Option<&Path>,
    mut overrides: impl Iterator<Item = (&'static str, &'a str)>,
    flows: &[String],
) -> Result<ScenarioFile, Error> {
    let mut sourced = match file {
        Some(path) => read(path)?,
        None => ScenarioFile::default(),
    };
    overrides.try_for_each(|(key, text)| sourced.set(key, text))?;
    if !flows.is_empty() {
        let flows: Vec<String> = flows
            .iter()
            .enumerate()
            .map(|(nth, flow)| inputs::flow(flow).map_err(Error::at(format!("flow {}", nth + 1))))
            .collect::<Result<_, _>>()?;
        sourced.set_flows(&flows)?;
    }
    Ok(sourced)
}

fn read(path: &Path) -> Result<ScenarioFile, Error> {
    let shown = inputs::name(path);
    let wanted = "a scenario in TOML or the JSON of a result";
    let text = inputs::scenario(path).map_err(Error::input(&shown, wanted))?;
    // A result names its trace relative to the directory where the command ran.
    if text.trim_start().starts_with('{') || path.extension().is_some_and(|extension| extension == "json") {
        return Ok(ScenarioFile::from_json(&text, &shown)?);
    }
    let mut sourced = ScenarioFile::from_toml(&text, &shown)?;
    // A scenario names its trace relative to itself, so that both can move together.
    let beside = |trace: &mut String| {
        let moves = Path::new(trace).is_relative() && !inputs::is_stdin(Path::new(trace));
        if let Some(dir) = path.parent().filter(|_| moves) {
            *trace = dir.join(&*trace).to_string_lossy().into_owned();
        }
    };
    let scenario = &mut sourced.scenario;
    scenario.trace.iter_mut().chain(scenario.link.iter_mut().filter_map(|link| link.trace.as_mut())).for_each(beside);
    Ok(sourced)
}

/// Reads a delivery trace, or returns the error.
pub fn trace_reader(file: &str) -> Result<String, TraceReadError> {
    let path = Path::new(file);
    let shown = if inputs::is_stdin(path) { inputs::name(path) } else { format!("{file:?}") };
    Ok(inputs::trace(path).map_err(Error::input(&shown, "a mahimahi delivery trace"))?)
}
