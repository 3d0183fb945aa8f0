//! The arms' congestion controls: found in the kernel, or loaded for the test.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::PathBuf;

use bbrlab_core::AlgorithmConfig;
use bbrlab_study::ab::{Arm, labels};

use super::run::Callbacks;
use super::{Entry, Folder};
use crate::host_paths::HostPaths;
use crate::journal::UNKNOWN;
use crate::objects::{self, kernel_name};
use crate::program::{Program, Registered};
use crate::{Error, Result, journal, kernel};

/// The journal entry of a congestion control that `bbrlab host load` loaded.
pub(super) fn found_in_kernel(name: &str) -> Option<journal::Entry> {
    journal::entries(&HostPaths::default().state).into_iter().find(|entry| entry.name == name)
}

/// True if an arm's entry now names another algorithm, or other parameters.
///
/// A lost entry, or one restored from the pins, names neither.
pub(super) fn is_replaced(before: Option<&journal::Entry>, now: Option<&journal::Entry>) -> bool {
    let Some(now) = now.filter(|now| now.algorithm != UNKNOWN) else { return false };
    before.is_none_or(|before| (&before.algorithm, &before.parameters) != (&now.algorithm, &now.parameters))
}

/// Finds each arm's congestion control, or loads it for the lifetime of this process.
pub(super) fn load(algorithms: &[String], callbacks: Callbacks) -> Result<(Vec<Arm>, Vec<Registered>)> {
    let available = kernel::available()?;
    let mut arms: Vec<Arm> = Vec::new();
    let mut loaded = Vec::new();
    for (text, label) in algorithms.iter().zip(labels(algorithms)) {
        if let Some(same) =
            arms.iter().position(|arm| label.strip_prefix(&arm.label).is_some_and(|rest| rest.starts_with('#')))
        {
            arms.push(Arm { label, ..arms[same].clone() });
            continue;
        }
        if let Some((name, algorithm)) = found(text, &available)? {
            arms.push(Arm { label, algorithm, name, is_loaded_for_it: false });
            continue;
        }
        let config = objects::parse(text)
            .map_err(|source| Error::Arm { source: Box::new(source), available: available.clone() })?;
        let name = free_name(&config, &available, &arms);
        let registered = Program::load(&config, &name)?.register()?;
        (callbacks.trial)(&name).map_err(|source| Error::ArmTrial { arm: text.clone(), source })?;
        loaded.push(registered);
        arms.push(Arm { label, algorithm: text.clone(), name, is_loaded_for_it: true });
    }
    Ok((arms, loaded))
}

/// The name in the kernel of an arm that is there already, and what it is: one of the kernel's own, or one that
/// `host load` loaded with the parameters asked for. A program of that name with other parameters, or of another test,
/// is not taken for it: the test then loads its own.
fn found(text: &str, available: &[String]) -> Result<Option<(String, String)>> {
    let name = [text.to_owned(), kernel_name(text)].into_iter().find(|name| available.contains(name));
    let Some(name) = name else { return Ok(None) };
    let asked = objects::parse(text).ok();
    let loaded = found_in_kernel(&name).map(|entry| spec(&entry));
    match (asked, loaded) {
        (_, None) if objects::is_kernels_own(&name) => Ok(Some((name, text.to_owned()))),
        (Some(asked), Some(spec)) if objects::parse(&spec).is_ok_and(|loaded| loaded == asked) => {
            Ok(Some((name, spec)))
        }
        (Some(_), _) => Ok(None),
        (None, Some(spec)) => Ok(Some((name, spec))),
        (None, None) if is_of_a_test(&name) => Err(Error::ArmOfATest(name)),
        (None, None) => Ok(Some((name, text.to_owned()))),
    }
}

/// An algorithm in the user's notation.
fn spec(entry: &journal::Entry) -> String {
    let parameters = entry.parameters.iter().map(|(name, value)| format!(",{name}={value}"));
    std::iter::once(entry.algorithm.clone()).chain(parameters).collect()
}

/// True if another test loaded it, and will take it along when it ends.
fn is_of_a_test(name: &str) -> bool {
    let running = Entry::all().into_iter().filter_map(|entry| Folder(entry.out).experiment().ok());
    running
        .filter(|test| test.ended.is_none())
        .flat_map(|test| test.arms)
        .any(|arm| arm.is_loaded_for_it && arm.name == name)
}

/// The running test that uses a congestion control, if any.
pub fn test_with(name: &str) -> Option<PathBuf> {
    let uses = |entry: &Entry| {
        let folder = Folder(entry.out.clone());
        folder.runs() && folder.experiment().is_ok_and(|test| test.arms.iter().any(|arm| arm.name == name))
    };
    Entry::all().into_iter().find(uses).map(|entry| entry.out)
}

fn free_name(config: &AlgorithmConfig, available: &[String], arms: &[Arm]) -> String {
    let own = kernel_name(config.name());
    let is_free = |name: &String| !available.contains(name) && !arms.iter().any(|arm| arm.name == *name);
    let numbered = (2..).map(|nth| format!("{own}.{nth}"));
    std::iter::once(own.clone()).chain(numbered).find(is_free).unwrap_or(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Phase;

    #[test]
    fn an_arm_is_replaced_only_by_another_algorithm_or_other_parameters() {
        let own = journal::Entry {
            name: "v3".to_owned(),
            algorithm: "bbr3-linux".to_owned(),
            parameters: Vec::new(),
            version: "0".to_owned(),
            phase: Phase::Loaded,
            default_before: None,
            mounted_bpffs: false,
        };
        let is_replaced = |now: journal::Entry| is_replaced(Some(&own), Some(&now));
        // Another algorithm was unloaded, and left its part of the undo to this one.
        assert!(!is_replaced(journal::Entry {
            mounted_bpffs: true,
            default_before: Some("bbr".to_owned()),
            ..own.clone()
        }));
        // The journal was lost, and the entry was then written anew from the pins.
        assert!(!super::is_replaced(Some(&own), None));
        assert!(!is_replaced(journal::Entry {
            algorithm: UNKNOWN.to_owned(),
            version: UNKNOWN.to_owned(),
            ..own.clone()
        }));
        assert!(is_replaced(journal::Entry { algorithm: "bbr1".to_owned(), ..own.clone() }));
        let beta = vec![("beta".to_owned(), "0.6".to_owned())];
        assert!(is_replaced(journal::Entry { parameters: beta, ..own.clone() }));
        assert!(super::is_replaced(None, Some(&own)));
    }
}
