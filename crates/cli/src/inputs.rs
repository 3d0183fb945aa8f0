//! Files that the command reads: bounded, so that a wrong file name costs a line and not the machine's memory.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use bbrlab_lab::paths::Population;

/// Largest scenario that a person writes. Ours: a hundred thousand lines.
const TOML_MAX: usize = 4 << 20;
/// Largest result that is read back. Ours: a hundred thousand flows.
const JSON_MAX: usize = 1 << 30;
/// Largest delivery trace. Ours: ten bytes for each of the lines that a trace may have, and one to see that there are more.
const TRACE_MAX: usize = (10 << 24) + 1;
/// Largest recorded log. Ours: ten million calls.
const LOG_MAX: usize = 1 << 29;
/// Largest table of a population. Ours: ten million rows.
const TABLE_MAX: usize = 1 << 30;

/// The text of a scenario, in TOML, or of a result, in JSON.
pub fn scenario(path: &Path) -> Result<String, String> {
    let mut file = File::open(path).map_err(|error| fault(&error))?;
    let mut bytes = Vec::new();
    let is_json = |bytes: &[u8]| bytes.trim_ascii_start().starts_with(b"{");
    read(&mut file, TOML_MAX, &mut bytes)?;
    if is_json(&bytes) {
        read(&mut file, JSON_MAX, &mut bytes)?;
    }
    let max = if is_json(&bytes) { JSON_MAX } else { TOML_MAX };
    if bytes.len() > max {
        return Err(format!("it holds more than the {} MiB of a scenario", max >> 20));
    }
    text(bytes)
}

/// The text of a measurement, a population or a parameter file.
pub fn measurement(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    read(&mut File::open(path).map_err(|error| fault(&error))?, TOML_MAX, &mut bytes)?;
    if bytes.len() > TOML_MAX {
        return Err(format!("it holds more than {} MiB", TOML_MAX >> 20));
    }
    text(bytes)
}

/// A population out of its file.
pub fn population(path: &Path) -> Result<Population, String> {
    let place = |error: String| format!("{}: {error}", path.display());
    Population::from_toml(&measurement(path).map_err(place)?).map_err(place)
}

/// A flow with its parameter file read: `bbr3,params=tuned.toml,size=1MB` as `bbr3,beta=0.8,size=1MB`.
pub fn flow(text: &str) -> Result<String, String> {
    /// What `bbrlab tune` writes.
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Tuned {
        cc: String,
        parameters: std::collections::BTreeMap<String, String>,
    }
    let (head, options) = text.split_once(',').unwrap_or((text, ""));
    let mut parts = vec![head.to_owned()];
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let Some(file) = option.trim().strip_prefix("params=") else {
            parts.push(option.to_owned());
            continue;
        };
        let place = |error: &str| format!("params: {file}: {}", error.lines().next().unwrap_or_default());
        let tuned: Tuned = toml::from_str(&measurement(Path::new(file)).map_err(|error| place(&error))?)
            .map_err(|error| place(error.message()))?;
        let cc = head.split(['*', '@']).next().unwrap_or_default();
        if cc != tuned.cc {
            return Err(place(&format!("its parameters are those of {}, not of {cc}", tuned.cc)));
        }
        parts.extend(tuned.parameters.iter().map(|(name, value)| format!("{name}={value}")));
    }
    Ok(parts.join(","))
}

/// Algorithms with their parameters: `bbr1,cubic`, or `bbr1,lt_bw=off;cubic`.
pub fn algorithms(text: &str) -> Result<Vec<String>, String> {
    let separator = if text.contains(';') { ';' } else { ',' };
    text.split(separator).map(|name| flow(name.trim())).collect()
}

/// The text of a delivery trace.
pub fn trace(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    read(&mut File::open(path).map_err(|error| fault(&error))?, TRACE_MAX, &mut bytes)?;
    bytes.truncate(TRACE_MAX);
    text(bytes)
}

/// The bytes of a recorded log.
pub fn log(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    read(&mut File::open(path).map_err(|error| fault(&error))?, LOG_MAX, &mut bytes)?;
    if bytes.len() > LOG_MAX {
        return Err(format!("it holds more than the {} MiB of a log", LOG_MAX >> 20));
    }
    Ok(bytes)
}

/// The bytes of a population's table.
pub fn table(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    read(&mut File::open(path).map_err(|error| fault(&error))?, TABLE_MAX, &mut bytes)?;
    if bytes.len() > TABLE_MAX {
        return Err(format!("it holds more than the {} MiB of a table", TABLE_MAX >> 20));
    }
    Ok(bytes)
}

/// Reads on until there is one byte more than `max`.
fn read(file: &mut File, max: usize, bytes: &mut Vec<u8>) -> Result<(), String> {
    let room = (max + 1).saturating_sub(bytes.len()) as u64;
    file.take(room).read_to_end(bytes).map(drop).map_err(|error| fault(&error))
}

fn text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes)
        .map_err(|error| format!("it is no text: byte {} is not UTF-8", error.utf8_error().valid_up_to() + 1))
}

fn fault(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "it does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => "it may not be read".to_owned(),
        io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        _ => error.to_string(),
    }
}
