//! Support of each backend for every scenario key, flow option and flag: each is applied in full or refused.
//! The checks before a run, `bbrlab list backends` and the tests all read this one table.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod table;

use std::fmt::Write as _;

use bbrlab_sim::backend::{Backend, Stack};
use bbrlab_sim::setup::Setup;

use crate::flows::Failure;

pub use table::TABLE;

/// Values of a key that a backend refuses.
#[derive(Clone, Copy)]
pub struct Refusal {
    /// The refused values, as text.
    pub values: &'static str,
    pub why: &'static str,
    /// Returns the refused value that a setup holds, if any.
    holds: fn(&Setup) -> Option<String>,
    /// Flags that set such a value.
    pub example: &'static [&'static str],
}

/// One key, option or flag.
#[derive(Clone, Copy)]
pub struct Row {
    /// Its name; `flow: …` for a flow option, `--…` for a flag that is not a key.
    pub key: &'static str,
    /// Values refused by the simulator.
    pub sim: &'static [Refusal],
    /// Values refused by User Mode Linux.
    pub uml: &'static [Refusal],
    /// Values refused by the host's kernel.
    pub kernel: &'static [Refusal],
    /// Values refused by s2n-quic.
    pub s2n: &'static [Refusal],
    /// Values refused by noq.
    pub noq: &'static [Refusal],
    /// Flags that every backend accepts, if any work without a file.
    pub example: &'static [&'static str],
}

impl Row {
    /// Values refused by a backend.
    pub const fn refusals(&self, backend: Backend) -> &'static [Refusal] {
        match backend {
            Backend::Sim => self.sim,
            Backend::Uml => self.uml,
            Backend::Kernel => self.kernel,
            Backend::Quic(Stack::S2n) => self.s2n,
            Backend::Quic(Stack::Noq) => self.noq,
        }
    }

    /// True if a backend accepts everything that a setup holds for this key.
    fn is_taken(&self, backend: Backend, setup: &Setup) -> bool {
        self.refusals(backend).iter().all(|refusal| (refusal.holds)(setup).is_none())
    }
}

/// Rejects a setup that a backend cannot run, naming the value and a backend that can run it.
pub fn check(backend: Backend, setup: &Setup) -> Result<(), Failure> {
    for row in TABLE {
        for refusal in row.refusals(backend) {
            if let Some(held) = (refusal.holds)(setup) {
                let others =
                    Backend::ALL.into_iter().filter(|other| other.stack().is_none() && row.is_taken(*other, setup));
                let names: Vec<String> = others.map(|other| format!("--on {}", other.name())).collect();
                return Err(format!("{}: {held}: {}; use {}", row.key, refusal.why, names.join(" or ")));
            }
        }
    }
    Ok(())
}

/// The table as text, one line per key: the key, and for each backend `same` or the refused values.
pub fn rows() -> Vec<Vec<String>> {
    let cell = |refusals: &[Refusal]| {
        let mut text = String::new();
        for refusal in refusals {
            let comma = if text.is_empty() { "" } else { "; " };
            let _ = write!(text, "{comma}refuses {}: {}", refusal.values, refusal.why);
        }
        if text.is_empty() { "same".to_owned() } else { text }
    };
    let row = |row: &Row| {
        let cells = Backend::ALL.into_iter().map(|backend| cell(row.refusals(backend)));
        std::iter::once(row.key.to_owned()).chain(cells).collect()
    };
    TABLE.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use bbrlab_sim::scenario::{FLOW_KEYS, KEYS, Scenario};

    use super::*;

    fn setup(flags: &[&str]) -> Setup {
        let mut scenario = Scenario::default();
        for pair in flags.chunks(2).filter(|pair| pair.len() == 2 && pair[0] != "--json") {
            let key = pair[0].trim_start_matches("--").replace('-', "_");
            scenario.set(&key, pair[1]).unwrap_or_else(|error| panic!("{pair:?}: {error}"));
        }
        scenario.resolve().unwrap_or_else(|error| panic!("{flags:?}: {error}"))
    }

    #[test]
    fn every_key_and_every_option_of_a_flow_is_in_the_table_once() {
        let keys = KEYS.iter().map(|key| (*key).to_owned());
        let tables = ["link", "arrivals", "expect"].map(str::to_owned);
        for key in keys.chain(tables).chain(FLOW_KEYS.iter().map(|key| format!("flow: {key}"))) {
            assert_eq!(TABLE.iter().filter(|row| row.key == key).count(), 1, "{key}");
        }
    }

    #[test]
    fn what_the_table_refuses_is_refused_by_name_and_what_it_takes_is_taken() {
        for row in TABLE {
            for backend in Backend::ALL {
                assert_eq!(check(backend, &setup(row.example)), Ok(()), "{} on {}", row.key, backend.name());
                for refusal in row.refusals(backend).iter().filter(|refusal| !refusal.example.is_empty()) {
                    let line = check(backend, &setup(refusal.example)).expect_err(row.key);
                    assert!(line.starts_with(&format!("{}: ", row.key)), "{line}");
                    assert!(
                        line.contains(refusal.why) && line.contains("; use --on sim") && !line.contains('\n'),
                        "{line}"
                    );
                    assert!(!line.contains(&format!("--on {}", backend.name())), "{line}");
                }
            }
        }
    }

    #[test]
    fn a_refusal_says_what_is_held_and_which_world_can() {
        assert_eq!(
            check(Backend::Uml, &setup(&["--ack-aggregation", "20ms"])).unwrap_err().split_once("; use ").unwrap().1,
            "--on sim or --on kernel"
        );
        assert_eq!(
            check(Backend::Kernel, &setup(&["--flow", "bbr1,iw=32"])).unwrap_err(),
            "flow: iw: bbr1#0 holds 32 segments: the kernel's initial window is 10 segments; use --on sim or --on uml"
        );
    }

    #[test]
    fn what_is_refused_of_a_stacks_flow_is_taken_of_one_of_tcp_beside_it() {
        for option in ["rwnd=auto", "mss=536", "gro=1ms", "tso=off", "delack=100ms", "ack=4/25ms"] {
            let check = |tcp: &str, quic: &str| {
                check(
                    Backend::Quic(Stack::S2n),
                    &setup(&["--flow", &format!("{tcp}{option}"), "--flow", &format!("bbr3{quic}")]),
                )
            };
            assert_eq!(check("tcp:cubic,", ""), Ok(()), "{option}");
            let line = check("tcp:cubic,", &format!(",{option}")).expect_err(option);
            assert!(line.contains(": bbr3#0 holds "), "{line}");
        }
    }
}
