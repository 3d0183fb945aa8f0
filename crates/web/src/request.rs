//! Requests of a page.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use serde::Deserialize;

/// A scenario as the page has it: the text of a file, and what overrides it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Given {
    /// A scenario in JSON.
    pub json: Option<String>,
    /// Keys with their texts.
    pub keys: Vec<(String, String)>,
    /// Flows.
    pub flows: Vec<String>,
}

/// Event up to which a run is stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepTo {
    /// A packet leaves the flow's sender.
    Packet,
    /// An ACK arrives at the flow's sender.
    Ack,
    /// The flow's next packet-timed round trip begins.
    Round,
}

/// A request.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// Returns the tables of algorithms, parameters, keys and presets.
    Tables,
    /// Checks a scenario.
    Check { given: Given },
    /// Returns a scenario in TOML.
    Toml { given: Given },
    /// Creates a run: watched, or `ahead` for its result alone. The flow `hand` is steered by `inputs`, (ns, bit/s).
    Create {
        run: usize,
        given: Given,
        #[serde(default)]
        ahead: bool,
        hand: Option<usize>,
        #[serde(default)]
        inputs: Vec<(f64, f64)>,
    },
    /// Frees a run.
    Drop { run: usize },
    /// Advances a run and writes a frame, with or without its packets.
    Advance { run: usize, until_ns: f64, packets: bool },
    /// Advances a run to an event of a flow and writes a frame.
    Step { run: usize, flow: usize, what: StepTo },
    /// Takes over the changes of the path that are still to come.
    Change { run: usize, given: Given },
    /// Sets the rate of the flow that is steered by hand.
    Hand { run: usize, at_ns: f64, rate_bps: f64 },
    /// Ends a run that was created `ahead` and returns its result document.
    Finish { run: usize },
}
