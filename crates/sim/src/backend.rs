//! Backends that run scenarios, with the capabilities of each: one table for parsing, checks and documentation.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;
use std::str::FromStr;

use bbrlab_core::AlgorithmConfig;

use crate::record::packets::Tap;
use crate::scenario::{TextError, nearest};
use crate::{Error, Result};

/// A backend that runs scenarios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The simulator.
    #[default]
    Sim,
    /// A real Linux kernel in virtual time (User Mode Linux).
    Uml,
    /// This host's kernel in real time.
    Kernel,
    /// A QUIC stack in virtual time.
    Quic(Stack),
}

/// A QUIC stack whose endpoints can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// s2n-quic.
    S2n,
    /// noq.
    Noq,
    /// quinn.
    Quinn,
}

/// Capabilities of a backend.
#[derive(Clone, Copy, Debug)]
pub struct BackendInfo {
    /// The backend.
    pub backend: Backend,
    /// Its name, as in `--on NAME`.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// One line on what it is.
    pub summary: &'static str,
    /// True if a run lasts as long as its scenario, and concurrent runs disturb each other.
    pub is_real_time: bool,
    /// Points at which it can capture packets.
    pub taps: &'static [Tap],
    /// True if it records packets for a qlog too, which must not delay the run.
    pub logs_packets: bool,
}

/// All backends, in the order of [`Backend::ALL`].
pub const BACKENDS: [BackendInfo; 6] = [
    BackendInfo {
        backend: Backend::Sim,
        name: "sim",
        aliases: &[],
        summary: "the simulator",
        is_real_time: false,
        taps: &Tap::ALL,
        logs_packets: true,
    },
    BackendInfo {
        backend: Backend::Uml,
        name: "uml",
        aliases: &[],
        summary: "a real Linux kernel in virtual time (User Mode Linux)",
        is_real_time: false,
        taps: &[Tap::Sender],
        logs_packets: false,
    },
    BackendInfo {
        backend: Backend::Kernel,
        name: "kernel",
        aliases: &[],
        summary: "this host's kernel in real time",
        is_real_time: true,
        taps: &[Tap::Sender],
        logs_packets: false,
    },
    BackendInfo {
        backend: Backend::Quic(Stack::S2n),
        name: "quic:s2n",
        aliases: &["quic"],
        summary: "s2n-quic in virtual time",
        is_real_time: false,
        taps: &[Tap::Sender],
        logs_packets: false,
    },
    BackendInfo {
        backend: Backend::Quic(Stack::Noq),
        name: "quic:noq",
        aliases: &[],
        summary: "noq in virtual time",
        is_real_time: false,
        taps: &[Tap::Sender],
        logs_packets: false,
    },
    BackendInfo {
        backend: Backend::Quic(Stack::Quinn),
        name: "quic:quinn",
        aliases: &[],
        summary: "quinn in virtual time",
        is_real_time: false,
        taps: &[Tap::Sender],
        logs_packets: false,
    },
];

impl Backend {
    /// All backends.
    pub const ALL: [Self; BACKENDS.len()] =
        [Self::Sim, Self::Uml, Self::Kernel, Self::Quic(Stack::S2n), Self::Quic(Stack::Noq), Self::Quic(Stack::Quinn)];

    /// Its row of the table.
    pub const fn info(self) -> &'static BackendInfo {
        &BACKENDS[match self {
            Self::Sim => 0,
            Self::Uml => 1,
            Self::Kernel => 2,
            Self::Quic(Stack::S2n) => 3,
            Self::Quic(Stack::Noq) => 4,
            Self::Quic(Stack::Quinn) => 5,
        }]
    }

    /// Its name, as in `--on NAME`.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// QUIC stack that it runs.
    pub const fn stack(self) -> Option<Stack> {
        match self {
            Self::Quic(stack) => Some(stack),
            Self::Sim | Self::Uml | Self::Kernel => None,
        }
    }
}

impl Stack {
    /// All stacks.
    pub const ALL: [Self; 3] = [Self::S2n, Self::Noq, Self::Quinn];

    /// Its name, as in `--on quic:NAME`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::S2n => "s2n",
            Self::Noq => "noq",
            Self::Quinn => "quinn",
        }
    }
}

/// Algorithms whose Linux module is not part of Linux, and the name under which a kernel has it. User Mode Linux runs them if its
/// kernel was built with the module: L4STeam's `tcp_prague`, Google's `tcp_bbr2` of v2alpha, and Google's `tcp_bbr` of v3, registered
/// as `bbr3` beside Linux's `bbr`.
const MODULES: [(&str, &str); 3] = [("prague", "prague"), ("bbr2", "bbr2"), ("bbr3-linux", "bbr3")];

/// Returns the kernel's name of an algorithm with default parameters, or the reason it has none.
pub fn kernel_cc(algorithm: &AlgorithmConfig) -> Result<&'static str> {
    with_defaults(algorithm, algorithm.info().linux_name)
}

/// Returns the name of an algorithm's module outside Linux, if it has one.
pub fn module_cc(algorithm: &AlgorithmConfig) -> Option<&'static str> {
    MODULES.iter().find(|(name, _)| *name == algorithm.name()).map(|(_, cc)| *cc)
}

/// Returns the name in a kernel that may have modules from outside, or the reason there is none.
pub fn uml_cc(algorithm: &AlgorithmConfig) -> Result<&'static str> {
    with_defaults(algorithm, algorithm.info().linux_name.or_else(|| module_cc(algorithm)))
}

fn with_defaults(algorithm: &AlgorithmConfig, cc: Option<&'static str>) -> Result<&'static str> {
    let name = algorithm.name();
    let Some(cc) = cc else {
        return Err(Error::NotInKernel { algorithm: name });
    };
    let default = AlgorithmConfig::named(name).unwrap_or(*algorithm);
    let changed = algorithm.parameters().zip(default.parameters()).find(|((_, now), (_, then))| now != then);
    match changed {
        Some(((spec, _), _)) => Err(Error::NotAKernelSwitch { algorithm: name, parameter: spec.name, cc }),
        None => Ok(cc),
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Backend {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let named = |info: &&BackendInfo| info.name == text || info.aliases.contains(&text);
        BACKENDS.iter().find(named).map(|info| info.backend).ok_or_else(|| {
            let names = BACKENDS.map(|info| info.name);
            let near = nearest(text, names).map_or(String::new(), |near| format!("did you mean {near}? "));
            let (last, others) =
                names.split_last().map_or(("", String::new()), |(last, others)| (last, others.join(", ")));
            TextError(format!("{text:?} is not a backend; {near}write {others} or {last}"))
        })
    }
}

impl serde::Serialize for Backend {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl<'de> serde::Deserialize<'de> for Backend {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text: std::borrow::Cow<'de, str> = serde::Deserialize::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Backend {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Backend".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let one = |info: &BackendInfo| serde_json::json!({ "const": info.name, "description": info.summary });
        schemars::json_schema!({
            "description": "A backend that runs scenarios.",
            "oneOf": BACKENDS.iter().map(one).collect::<Vec<_>>()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_backend_has_its_own_row_and_is_found_by_name() {
        for (backend, info) in Backend::ALL.into_iter().zip(&BACKENDS) {
            assert_eq!((backend.info().name, info.backend), (info.name, backend));
            for name in std::iter::once(&info.name).chain(info.aliases) {
                assert_eq!(name.parse(), Ok(backend));
            }
        }
        for stack in Stack::ALL {
            assert_eq!(Backend::Quic(stack).name(), format!("quic:{}", stack.name()));
        }
    }

    #[test]
    fn an_unknown_backend_is_refused_with_all_names() {
        assert_eq!(
            "kernell".parse::<Backend>(),
            Err(TextError(
                "\"kernell\" is not a backend; did you mean kernel? write sim, uml, kernel, quic:s2n, quic:noq or quic:quinn"
                    .into()
            ))
        );
    }
}
