//! Support of each backend for every scenario key, flow option and output flag: each is applied in full or refused.
//! The tables of keys and options hold the refusals; the checks before a run, `bbrlab list backends` and the tests read them.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;

use super::flow_options::OPTIONS;
use super::keys::{KEYS, Scenario};
use crate::backend::{Backend, Stack};
use crate::setup::{Capture, Setup};

/// All backends but the simulator.
pub(super) const NOT_SIM: &[Backend] =
    &[Backend::Uml, Backend::Kernel, Backend::Quic(Stack::S2n), Backend::Quic(Stack::Noq), Backend::Quic(Stack::Quinn)];
/// All backends that run a real Linux kernel.
pub(super) const KERNELS: &[Backend] = &[Backend::Uml, Backend::Kernel];
/// All QUIC stacks.
pub(super) const STACKS: &[Backend] =
    &[Backend::Quic(Stack::S2n), Backend::Quic(Stack::Noq), Backend::Quic(Stack::Quinn)];
/// User Mode Linux.
pub(super) const UML: &[Backend] = &[Backend::Uml];
/// This host's kernel.
pub(super) const KERNEL: &[Backend] = &[Backend::Kernel];
/// s2n-quic.
pub(super) const S2N: &[Backend] = &[Backend::Quic(Stack::S2n)];

/// Returns the flag whose value the playground refuses, and the rule, if there is one in a scenario with its defaults.
pub fn refused_by_playground(whole: &Scenario) -> Option<(&'static str, &'static str)> {
    let has_trace = whole.trace.is_some() || whole.link.iter().any(|link| link.trace.is_some());
    let rules = [
        (whole.on != Backend::Sim, "--on", "a browser has no kernel; write sim"),
        (whole.repeat > 1, "--repeat", "a page shows one seed; write 1, or use bbrlab run"),
        (whole.up.is_some(), "--up", "a page draws no queue on the reverse path; leave it out, or use bbrlab run"),
        (has_trace, "--trace", "a page reads no files; write a rate, or use bbrlab run"),
    ];
    rules.into_iter().find(|(is_refused, ..)| *is_refused).map(|(_, flag, rule)| (flag, rule))
}

/// Values of a key that some backends refuse.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// Backends that refuse the values.
    pub on: &'static [Backend],
    /// The refused values, as text.
    pub values: &'static str,
    /// The reason.
    pub why: &'static str,
    /// Returns the refused value that a setup holds, if any.
    pub(super) holds: fn(&Setup) -> Option<String>,
    /// Flags that set such a value.
    pub example: &'static [&'static str],
}

/// One row of the table of support.
#[derive(Clone, Debug)]
pub struct Support {
    /// Name of the key; `flow: …` for a flow option, `--…` for a flag that is not a key.
    pub key: String,
    /// Refused values.
    pub refused: &'static [Refusal],
    /// Flags that every backend accepts, if any work without a file.
    pub example: &'static [&'static str],
}

/// Flags of `bbrlab run` that are not keys of a scenario.
const FLAGS: [(&str, &[Refusal], &[&str]); 8] = [
    ("--json", &[], &["--json", "-"]),
    ("--report", &[], &[]),
    ("--pcap", &[ENCRYPTED], &[]),
    ("--pcap-limit", &[], &[]),
    ("--qlog", &[], &[]),
    ("--parquet", &[], &[]),
    ("--csv", &[], &[]),
    ("--quiet", &[], &["--quiet"]),
];

const ENCRYPTED: Refusal = Refusal {
    on: STACKS,
    values: "all",
    why: "QUIC packets are encrypted, and a capture here holds TCP headers",
    holds: |setup| (setup.capture != Capture::Off).then(|| "packets".to_owned()),
    example: &[],
};

/// A setup that a backend cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The key, option or flag.
    pub key: String,
    /// The value that the setup holds.
    pub held: String,
    /// The reason.
    pub why: &'static str,
    /// TCP backends that accept everything that the setup holds for this key.
    pub others: Vec<Backend>,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.others.iter().map(|other| format!("--on {other}")).collect();
        write!(f, "{}: {}: {}; use {}", self.key, self.held, self.why, names.join(" or "))
    }
}

impl std::error::Error for Unsupported {}

/// All keys, flow options and output flags, in the order of their tables.
pub fn table() -> impl Iterator<Item = Support> {
    let keys = KEYS.iter().map(|key| Support { key: key.name.to_owned(), refused: key.refused, example: key.example });
    let options = OPTIONS.iter().map(|option| Support {
        key: format!("flow: {}", option.name),
        refused: option.refused,
        example: option.example,
    });
    let flags = FLAGS.iter().map(|&(flag, refused, example)| Support { key: flag.to_owned(), refused, example });
    keys.chain(options).chain(flags)
}

impl Support {
    /// Values refused by a backend.
    pub fn refused_by(&self, backend: Backend) -> impl Iterator<Item = &'static Refusal> + use<> {
        self.refused.iter().filter(move |refusal| refusal.on.contains(&backend))
    }

    /// True if a backend accepts everything that a setup holds for this key.
    fn is_accepted(&self, backend: Backend, setup: &Setup) -> bool {
        self.refused_by(backend).all(|refusal| (refusal.holds)(setup).is_none())
    }
}

/// Rejects a setup that a backend cannot run, with the value and the backends that can run it.
pub fn check(backend: Backend, setup: &Setup) -> Result<(), Unsupported> {
    for row in table() {
        let found = row.refused_by(backend).find_map(|refusal| Some(((refusal.holds)(setup)?, refusal.why)));
        if let Some((held, why)) = found {
            let is_other = |other: &Backend| other.stack().is_none() && row.is_accepted(*other, setup);
            let others = Backend::ALL.into_iter().filter(is_other).collect();
            return Err(Unsupported { key: row.key, held, why, others });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn setup(flags: &[&str]) -> Setup {
        let mut scenario = Scenario::default();
        for pair in flags.chunks(2).filter(|pair| pair.len() == 2 && pair[0] != "--json") {
            let key = pair[0].trim_start_matches("--").replace('-', "_");
            scenario.set(&key, pair[1]).unwrap_or_else(|error| panic!("{pair:?}: {error}"));
        }
        scenario.resolve().unwrap_or_else(|error| panic!("{flags:?}: {error}"))
    }

    fn refused(backend: Backend, flags: &[&str]) -> String {
        check(backend, &setup(flags)).expect_err("it is accepted").to_string()
    }

    #[test]
    fn every_refusal_names_the_key_the_reason_and_another_backend() {
        for row in table() {
            for backend in Backend::ALL {
                assert_eq!(check(backend, &setup(row.example)), Ok(()), "{} on {backend}", row.key);
                for refusal in row.refused_by(backend).filter(|refusal| !refusal.example.is_empty()) {
                    let line = refused(backend, refusal.example);
                    assert!(line.starts_with(&format!("{}: ", row.key)), "{line}");
                    assert!(
                        line.contains(refusal.why) && line.contains("; use --on sim") && !line.contains('\n'),
                        "{line}"
                    );
                    assert!(!line.contains(&format!("--on {backend}")), "{line}");
                }
            }
        }
    }

    #[test]
    fn a_refusal_names_the_value_and_the_backends_that_accept_it() {
        assert_eq!(
            refused(Backend::Uml, &["--ack-aggregation", "20ms"]).split_once("; use ").unwrap().1,
            "--on sim or --on kernel"
        );
        assert_eq!(
            refused(Backend::Kernel, &["--flow", "bbr1,iw=32"]),
            "flow: iw: bbr1#0 holds 32 segments: the kernel's initial window is 10 segments; use --on sim or --on uml"
        );
    }

    #[test]
    fn an_option_refused_for_a_stacks_flow_is_accepted_for_a_tcp_flow_beside_it() {
        let s2n = Backend::Quic(Stack::S2n);
        for option in ["rwnd=auto", "mss=536", "gro=1ms", "tso=off", "delack=100ms", "ack=4/25ms"] {
            let tcp = format!("tcp:cubic,{option}");
            assert_eq!(check(s2n, &setup(&["--flow", &tcp, "--flow", "bbr3"])), Ok(()), "{option}");
            let line = refused(
                s2n,
                &["--flow", "tcp:cubic,", "--flow", &format!("bbr3,{option}")].map(|text| text.trim_end_matches(',')),
            );
            assert!(line.contains(": bbr3#0 holds "), "{line}");
        }
    }
}
