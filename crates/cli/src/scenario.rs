//! Loads a scenario from a file and flags.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::Path;

use bbrlab_sim::scenario::{KeyGroup, Preset, Scenario, ScenarioFile, TraceReadError, key};

use crate::{Error, command, inputs};

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
    overrides.try_for_each(|(key, text)| set(&mut sourced, key, text))?;
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

/// Overrides a key, as its flag does; a path may be a file.
pub fn set(sourced: &mut ScenarioFile, key: &str, text: &str) -> Result<(), Error> {
    match key {
        "path" if is_path_file(text) => set_path(sourced, Path::new(text)),
        _ => Ok(sourced.set(key, text)?),
    }
}

/// The keys that a flag sets, with their values: several for a path's file.
#[cfg(feature = "parquet")]
pub fn keys_of(key: &str, text: &str) -> Result<Vec<(String, String)>, Error> {
    match key {
        "path" if is_path_file(text) => path_keys(Path::new(text), &inputs::name(Path::new(text))),
        _ => Ok(vec![(key.to_owned(), text.to_owned())]),
    }
}

/// True if the value of `--path` is a file and no name of a typical path.
fn is_path_file(text: &str) -> bool {
    Preset::named(text).is_err() && (text.contains(['/', '.']) || Path::new(text).is_file())
}

/// Sets the keys of a path's file: a scenario, or the capture of a connection.
fn set_path(sourced: &mut ScenarioFile, path: &Path) -> Result<(), Error> {
    let shown = inputs::name(path);
    for (key, text) in path_keys(path, &shown)? {
        sourced.set(&key, &text).map_err(Error::at(&shown))?;
    }
    Ok(())
}

/// Keys of a path in a file, with their values.
fn path_keys(path: &Path, shown: &str) -> Result<Vec<(String, String)>, Error> {
    if inputs::is_capture(path) {
        let paths = command::path::read(path)?;
        command::path::check_place(&paths, shown)?;
        let largest = paths.paths.iter().find(|one| one.is_path()).ok_or_else(|| no_path(shown))?;
        return Ok(largest.keys().into_iter().map(|(key, text)| (key.to_owned(), text)).collect());
    }
    let scenario = read(path)?.scenario;
    let serde_json::Value::Object(all) = serde_json::to_value(&scenario)? else { return Err(no_path(shown)) };
    let default = serde_json::to_value(Scenario::default())?;
    let of_path = |name: &str| {
        key(name).is_some_and(|key| matches!(key.group, KeyGroup::Path | KeyGroup::Condition) && key.name != "path")
    };
    let own = all.into_iter().filter(|(name, value)| of_path(name) && default.get(name) != Some(value));
    let keys: Vec<_> = own.filter_map(|(name, value)| Some((name, value.as_str()?.to_owned()))).collect();
    if keys.is_empty() { Err(no_path(shown)) } else { Ok(keys) }
}

fn no_path(shown: &str) -> Error {
    let rule =
        "it describes no path; name a scenario with rate and rtt, as `bbrlab path --out` writes it, or a capture";
    Error::FileRule { file: shown.to_owned(), rule }
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
