//! Names such as `s2n:bbr` and `s2n+bbr3`: a stack's own controller, and one of ours in that stack.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::AlgorithmConfig;
use bbrlab_lab::conform::{Cell, ScriptRun, Subject};
use bbrlab_sim::backend::Stack;
use bbrlab_sim::scenario::Backend;
use bbrlab_sim::setup::Peer;

use crate::Error;

/// Separator before one of our controllers; a stack's own follows a colon.
const OURS: char = '+';
/// Default cells: those of the grid whose packets a stack handles in seconds.
const CELLS: [&str; 6] = ["1mbit/10ms", "1mbit/100ms", "20mbit/10ms", "20mbit/100ms", "500mbit/10ms", "500mbit/100ms"];

/// Resolves the name, in these cells or the default ones; none if it does not belong to a stack.
pub fn named(name: &str, cells: &[Cell]) -> Option<Result<Subject, Error>> {
    if name == "quinn:bbr" {
        return Some(Err(Error::BbrWithoutModel(name.to_owned())));
    }
    if let Some(peer) = Peer::named(name) {
        return Some(
            is_bbr(name, peer.stack, name).and_then(|()| Ok(Subject::peer(peer, chosen(cells)?, play(name)?))),
        );
    }
    let (stack, algorithm) = name.split_once(OURS)?;
    Some(ours(name, stack, algorithm, cells))
}

fn ours(name: &str, stack: &str, algorithm: &str, cells: &[Cell]) -> Result<Subject, Error> {
    if AlgorithmConfig::named(algorithm).is_none() {
        return Err(Error::at(name)(Error::UnknownAlgorithm(algorithm.to_owned())));
    }
    let stacks = Backend::ALL.into_iter().filter_map(|on| on.stack());
    let Some(stack) = stacks.into_iter().find(|own| own.name() == stack) else {
        return Err(Error::UnknownStack { subject: name.to_owned(), stack: stack.to_owned() });
    };
    is_bbr(name, stack, algorithm)?;
    Ok(Subject::hosted(name, algorithm, chosen(cells)?, stack, play(name)?))
}

fn is_bbr(name: &str, stack: Stack, cc: &str) -> Result<(), Error> {
    if cc.rsplit(':').next().is_some_and(|own| own.starts_with("bbr")) {
        return Ok(());
    }
    Err(Error::NotBbr { subject: name.to_owned(), stack: stack.name() })
}

fn chosen(cells: &[Cell]) -> Result<Vec<Cell>, Error> {
    if !cells.is_empty() {
        return Ok(cells.to_vec());
    }
    CELLS.iter().map(|text| text.parse().map_err(Error::at(text))).collect()
}

#[cfg(feature = "quic")]
#[expect(clippy::unnecessary_wraps, reason = "a build without QUIC has none")]
fn play(_name: &str) -> Result<ScriptRun, Error> {
    Ok(|stack, setup, script| Ok(bbrlab_quic::backend::run_scripted(stack, setup, script)?))
}

#[cfg(not(feature = "quic"))]
fn play(name: &str) -> Result<ScriptRun, Error> {
    Err(Error::NoQuic(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "quic")]
    fn a_stacks_own_controller_and_ours_in_a_stack_are_told_apart_from_the_simulators() {
        let read_as = |name: &str| named(name, &[]).map(|found| found.unwrap().algorithm);
        assert_eq!(read_as("s2n:bbr").as_deref(), Some("bbr3"));
        assert_eq!(read_as("noq+bbr3-linux").as_deref(), Some("bbr3-linux"));
        assert_eq!(read_as("bbr3"), None);
    }

    #[test]
    fn what_is_no_bbr_of_a_stack_is_refused() {
        for (name, wrong) in [
            ("s2n+bbr9", "bbr9"),
            ("quiche+bbr3", "quiche"),
            ("noq:cubic", "BBR"),
            ("quinn:bbr", "BBRv1"),
            ("s2n+reno", "BBR"),
        ] {
            let said = named(name, &[]).and_then(Result::err).map_or_else(String::new, |error| error.to_string());
            assert!(said.starts_with(name) && said.contains(wrong), "{name}: {said}");
        }
    }
}
