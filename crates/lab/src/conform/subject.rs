//! Subjects of the conformance cases: an algorithm in the simulator, or a controller in a QUIC stack.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{AlgorithmConfig, params::FixedParams};
use bbrlab_sim::backend::Stack;
use bbrlab_sim::engine;
use bbrlab_sim::record::Output;
use bbrlab_sim::script::Script;
use bbrlab_sim::setup::{Peer, Setup};

use super::Cell;
use super::file::Case;
use crate::{BoxError, Error, Result};

/// Largest payload in a QUIC stack: a jumbo frame's, as an offload burst is not a QUIC packet.
const JUMBO: u32 = 8_948;

/// Function that runs scripts on a stack's backend.
pub type ScriptRun = fn(Stack, &Setup, &Script) -> Result<Output, BoxError>;

/// A subject of the conformance cases.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Display name.
    pub name: String,
    /// Algorithm whose cases apply.
    pub algorithm: String,
    /// Cells in which the subject runs.
    pub cells: Vec<Cell>,
    pub(super) stack: Option<StackSubject>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct StackSubject {
    pub stack: Stack,
    /// Controller built into the stack.
    pub peer: Option<Peer>,
    play: ScriptRun,
}

impl Subject {
    /// Creates a subject for an algorithm in the simulator.
    pub fn simulated(algorithm: &str, cells: Vec<Cell>) -> Self {
        Self { name: algorithm.to_owned(), algorithm: algorithm.to_owned(), cells, stack: None }
    }

    /// Creates a subject for one of our algorithms in a QUIC stack.
    pub fn hosted(name: &str, algorithm: &str, cells: Vec<Cell>, stack: Stack, play: ScriptRun) -> Self {
        let stack = Some(StackSubject { stack, peer: None, play });
        Self { name: name.to_owned(), algorithm: algorithm.to_owned(), cells, stack }
    }

    /// Creates a subject for a stack's own controller, treated as the draft's algorithm.
    pub fn peer(peer: Peer, cells: Vec<Cell>, play: ScriptRun) -> Self {
        let stack = Some(StackSubject { stack: peer.stack, peer: Some(peer), play });
        Self { name: peer.name.to_owned(), algorithm: "bbr3".to_owned(), cells, stack }
    }

    pub(super) fn is_peer(&self) -> bool {
        self.stack.is_some_and(|stack| stack.peer.is_some())
    }

    /// Reason why a case does not apply; `None` if it applies.
    pub fn not(&self, case: &Case) -> Option<String> {
        let of_quic = case.quic.clone().filter(|_| self.stack.is_some());
        of_quic.or_else(|| case.not_for(&self.algorithm))
    }

    /// Payload bytes of the largest packet on its backend.
    pub(super) fn largest_packet(&self) -> u32 {
        if self.stack.is_some() { JUMBO } else { u32::MAX }
    }

    /// Our algorithm, or a placeholder if the stack's own runs.
    pub(super) fn config(&self) -> Result<AlgorithmConfig> {
        if self.is_peer() {
            return Ok(AlgorithmConfig::Fixed(FixedParams::default()));
        }
        let name = &self.algorithm;
        AlgorithmConfig::named(name).ok_or_else(|| Error::UnknownAlgorithm(name.clone()))
    }

    pub(super) fn play(&self, setup: &Setup, script: &Script) -> Result<Output, BoxError> {
        match self.stack {
            Some(StackSubject { stack, play, .. }) => play(stack, setup, script),
            None => Ok(engine::run_scripted(setup, script)),
        }
    }

    /// Reason why its run left a column empty.
    pub(super) fn silence(&self, column: &str) -> String {
        match (column, self.stack.map(|stack| stack.stack)) {
            ("rto", Some(_)) => "QUIC's probe time-out declares nothing lost".to_owned(),
            ("undos", Some(Stack::S2n)) => "s2n-quic does not detect spurious losses".to_owned(),
            _ => format!("{} does not show {column}", self.name),
        }
    }
}
