//! Input files of the command, `-` being standard input. Sizes are bounded, so that a wrong name costs one error message and not
//! the machine's memory.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_sim::scenario::read_toml;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bbrlab_study::capture;
use bbrlab_study::paths::Population;

use crate::Error;

/// Maximum size of a hand-written scenario. Ours: a hundred thousand lines.
const TOML_MAX: usize = 4 << 20;
/// Maximum size of a result that is read back. Ours: a hundred thousand flows.
const JSON_MAX: usize = 1 << 30;
/// Maximum size of a delivery trace. Ours: ten bytes for each permitted line, and one to detect longer files.
const TRACE_MAX: usize = (10 << 24) + 1;
/// Maximum size of a recorded log. Ours: ten million calls.
const LOG_MAX: usize = 1 << 29;
/// Maximum size of a population's table. Ours: ten million rows.
const TABLE_MAX: usize = 1 << 30;

/// Purpose and contents of standard input: it can be read once, but several seeds may need the same trace.
static STDIN: Mutex<Option<(&'static str, Vec<u8>)>> = Mutex::new(None);

/// Parameter file written by `bbrlab tune`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct TunedFile {
    cc: String,
    parameters: BTreeMap<String, String>,
}

/// True for standard input.
pub fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Files read so far, by their paths with links resolved.
static READ: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Opens an input file, and remembers it.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if let Ok(path) = fs::canonicalize(path) {
        READ.lock().unwrap_or_else(PoisonError::into_inner).insert(path);
    }
    Ok(file)
}

/// True if this file was read as an input.
pub fn was_read(path: &Path) -> bool {
    let known = READ.lock().unwrap_or_else(PoisonError::into_inner);
    !known.is_empty() && fs::canonicalize(path).is_ok_and(|path| known.contains(&path))
}

/// Name of a file in errors.
pub fn name(path: &Path) -> String {
    if is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() }
}

/// Reads a scenario, in TOML, or a result, in JSON.
pub fn scenario(path: &Path) -> Result<String, Error> {
    let is_json = |bytes: &[u8]| bytes.trim_ascii_start().starts_with(b"{");
    let bytes = bytes(path, "a scenario", |head| if is_json(head) { JSON_MAX } else { TOML_MAX })?;
    text(bytes)
}

/// Reads a measurement, a population or a parameter file; `what` names it in errors.
pub fn measurement(path: &Path, what: &'static str) -> Result<String, Error> {
    text(bytes(path, what, |_| TOML_MAX)?)
}

/// Reads a population from its file.
pub fn population(path: &Path) -> Result<Population, Error> {
    let text = measurement(path, "a population").map_err(Error::at(name(path)))?;
    Population::from_toml(&text).map_err(Error::at(name(path)))
}

/// Expands the parameter file of a flow: `bbr3,params=tuned.toml,size=1MB` becomes `bbr3,beta=0.8,size=1MB`.
pub fn flow(text: &str) -> Result<String, Error> {
    let (head, options) = text.split_once(',').unwrap_or((text, ""));
    let mut parts = vec![head.to_owned()];
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let Some(file) = option.trim().strip_prefix("params=") else {
            parts.push(option.to_owned());
            continue;
        };
        let path = Path::new(file);
        let tuned = parameters(path, head).map_err(Error::at(format!("params: {}", name(path))))?;
        parts.extend(tuned.iter().map(|(name, value)| format!("{name}={value}")));
    }
    Ok(parts.join(","))
}

/// Reads a parameter file, which is of the algorithm of the flow.
fn parameters(path: &Path, flow: &str) -> Result<BTreeMap<String, String>, Error> {
    let text = measurement(path, "parameters")?;
    let tuned: TunedFile = read_toml(&text).map_err(|(line, error)| Error::at(format!("line {line}"))(error))?;
    let cc = flow.split(['*', '@']).next().unwrap_or_default();
    if cc != tuned.cc {
        return Err(Error::ParametersOf { found: tuned.cc, flow: cc.to_owned() });
    }
    Ok(tuned.parameters)
}

/// Parses algorithms with their parameters: `bbr1,cubic`, or `bbr1,lt_bw=off;cubic`.
pub fn algorithms(text: &str) -> Result<Vec<String>, Error> {
    let separator = if text.contains(';') { ';' } else { ',' };
    text.split(separator).map(|name| flow(name.trim())).collect()
}

/// Reads a delivery trace. Of one that is too long, it reads a byte too many, so that the parser counts too many lines.
pub fn trace(path: &Path) -> Result<String, Error> {
    let mut bytes = raw(path, "a delivery trace", |_| TRACE_MAX)?;
    bytes.truncate(TRACE_MAX);
    text(bytes)
}

/// Reads a recorded log.
pub fn log(path: &Path) -> Result<Vec<u8>, Error> {
    bytes(path, "a log", |_| LOG_MAX)
}

/// Reads a population, in TOML, or its table.
pub fn table(path: &Path) -> Result<Vec<u8>, Error> {
    bytes(path, "a table", |_| TABLE_MAX)
}

/// Opens an input that is read piece by piece, whatever its size.
pub fn stream(path: &Path) -> Result<Box<dyn Read + Send>, Error> {
    if is_stdin(path) {
        return Ok(Box::new(io::stdin()));
    }
    let file = open(path).map_err(Error::Unreadable)?;
    if file.metadata().is_ok_and(|meta| meta.is_dir()) {
        return Err(Error::Unreadable(io::ErrorKind::IsADirectory.into()));
    }
    Ok(Box::new(file))
}

/// True if a file is a capture or a qlog. Standard input is never one.
pub fn is_capture(path: &Path) -> bool {
    if is_stdin(path) {
        return false;
    }
    let mut head = [0; 4];
    let is_read = File::open(path).is_ok_and(|mut file| file.read_exact(&mut head).is_ok());
    is_read && capture::is_capture(&head) || path.extension().is_some_and(|end| end == "qlog" || end == "sqlog")
}

/// Reads a file of networks and their classes.
#[cfg(feature = "parquet")]
pub fn classes(path: &Path) -> Result<String, Error> {
    text(bytes(path, "classes", |_| TABLE_MAX)?)
}

/// Reads a file of type `what`; `max` derives its maximum size from its first bytes.
fn bytes(path: &Path, what: &'static str, max: impl Fn(&[u8]) -> usize) -> Result<Vec<u8>, Error> {
    let bytes = raw(path, what, &max)?;
    let max = max(&bytes);
    if bytes.len() > max {
        return Err(Error::TooLarge { what, max_mib: max >> 20 });
    }
    Ok(bytes)
}

/// The same, but of a longer file one byte too many.
fn raw(path: &Path, what: &'static str, max: impl Fn(&[u8]) -> usize) -> Result<Vec<u8>, Error> {
    if !is_stdin(path) {
        return up_to(&mut open(path).map_err(Error::Unreadable)?, max);
    }
    let mut stdin = STDIN.lock().unwrap_or_else(PoisonError::into_inner);
    match stdin.as_ref() {
        Some((other, _)) if *other != what => {
            return Err(Error::StdinTwice(other));
        }
        Some((_, bytes)) => return Ok(bytes.clone()),
        None => {}
    }
    let bytes = up_to(&mut io::stdin().lock(), max)?;
    *stdin = Some((what, bytes.clone()));
    Ok(bytes)
}

/// Reads up to one byte more than `max` derives from the first bytes.
fn up_to(from: &mut dyn Read, max: impl Fn(&[u8]) -> usize) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        let room = (max(&bytes) + 1).saturating_sub(before).min(TOML_MAX) as u64;
        from.take(room).read_to_end(&mut bytes).map_err(Error::Unreadable)?;
        if bytes.len() == before {
            return Ok(bytes);
        }
    }
}

fn text(bytes: Vec<u8>) -> Result<String, Error> {
    String::from_utf8(bytes).map_err(Error::NotText)
}
