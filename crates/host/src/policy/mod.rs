//! A policy that lasts: which new connections of this host get which congestion control.
//!
//! A policy is a list of rules; the first that takes a connection decides. A program on a cgroup applies it from the
//! next connection on, and is replaced as a whole, rules, networks and description in one step. What is in force is
//! read back from the kernel alone, so nothing can contradict it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod file;
#[cfg(feature = "load")]
mod kernel;
#[cfg(feature = "load")]
mod manage;
mod networks;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

pub use file::{PREFIXES_MAX, RULES_MAX, Written, read};
#[cfg(feature = "load")]
pub(crate) use kernel::DECISIONS;
#[cfg(feature = "load")]
pub use kernel::{AppliedPolicy, Counters};
#[cfg(feature = "load")]
pub use manage::{Applied, Removed, apply, in_force, remove, withdraw};
pub use networks::Networks;

/// Directions in which a connection may be opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// By peers.
    #[default]
    In,
    /// By this host.
    Out,
    Both,
}

/// One rule. A condition that is absent takes every connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    pub name: String,
    /// The files and networks of its clients, as written; empty: any client.
    pub clients: Vec<String>,
    /// Ports of the service; empty: any.
    pub ports: Vec<u16>,
    /// Control group, below the root of version 2.
    pub cgroup: Option<String>,
    /// RTT of the handshake, µs, from and below.
    pub rtt_us: (u32, u32),
    /// The kernel's congestion control, or one of ours with its parameters.
    pub algorithm: String,
    /// Share of client networks that keep the default, in hundredths of a per cent.
    pub holdout: u32,
    /// Reason for which it was withdrawn: all its clients keep the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdrawn: Option<String>,
}

/// Properties of a connection that rules test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub client: IpAddr,
    /// Port of the service; `None`: not known.
    pub port: Option<u16>,
    /// µs; 0: not known.
    pub rtt_us: u32,
    /// Path below the root of version 2; `None`: not known.
    pub cgroup: Option<String>,
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Algorithm of connections that no rule takes, or that are held out; `None`: unchanged.
    pub default: Option<String>,
    pub direction: Direction,
    /// Overrides a congestion control that the application chose.
    pub override_application: bool,
    pub rules: Vec<Rule>,
}

/// Reason for which a rule does not take a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    Client,
    Port,
    Rtt,
    Cgroup,
}

impl Policy {
    /// Rules for clients of any network, a bit each.
    pub fn any_client(&self) -> u64 {
        self.rules.iter().enumerate().filter(|(_, rule)| rule.clients.is_empty()).map(|(nth, _)| 1 << nth).sum()
    }

    /// The first rule that takes a connection. `named` has a bit for each rule that names a network of the client.
    pub fn rule_of(&self, one: &Candidate, named: u64) -> Option<usize> {
        (0..self.rules.len()).find(|&nth| self.mismatch(nth, one, named).is_none())
    }

    /// The first condition of a rule that a connection does not meet. What is not known of it meets a condition.
    pub fn mismatch(&self, nth: usize, one: &Candidate, named: u64) -> Option<Mismatch> {
        let rule = &self.rules[nth];
        let (from, below) = rule.rtt_us;
        if (named | self.any_client()) >> nth & 1 == 0 {
            return Some(Mismatch::Client);
        }
        if !rule.ports.is_empty() && one.port.is_some_and(|port| !rule.ports.contains(&port)) {
            return Some(Mismatch::Port);
        }
        if one.rtt_us > 0 && !(from..below).contains(&one.rtt_us) {
            return Some(Mismatch::Rtt);
        }
        let is_below = |wanted: &str, own: &str| {
            own.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        match (&rule.cgroup, &one.cgroup) {
            (Some(wanted), Some(own)) if !is_below(wanted, own) => Some(Mismatch::Cgroup),
            _ => None,
        }
    }

    /// Every congestion control that it names, once each.
    pub fn algorithms(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for name in self.rules.iter().map(|rule| rule.algorithm.as_str()).chain(self.default.as_deref()) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        all
    }
}
