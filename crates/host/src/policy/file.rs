//! Policy files: rules in TOML, and lists of networks.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::networks::Network;
use super::{Direction, Networks, Policy, Rule};
use crate::objects::{self, is_kernels_own};
use crate::{Error, Result};

/// Maximum number of rules, and of ports of one: the capacity of the program.
pub const RULES_MAX: usize = 64;
const PORTS_MAX: usize = 8;
/// Maximum number of networks of all rules. The kernel's table takes up to 128 bytes for each.
pub const PREFIXES_MAX: usize = 1_000_000;
/// Largest policy file, and the longest line of a list.
const FILE_MAX: u64 = 1 << 16;
const LINE_MAX: u64 = 1_024;
/// No handshake takes longer: Linux gives a peer up after about two minutes.
const RTT_MAX_US: f64 = 120e6;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyText {
    default: Option<String>,
    #[serde(default)]
    connections: Direction,
    #[serde(default)]
    override_application: bool,
    #[serde(default, rename = "rule")]
    rules: Vec<RuleText>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    name: String,
    algorithm: String,
    clients: Option<Vec<String>>,
    ports: Option<Vec<u16>>,
    cgroup: Option<String>,
    rtt: Option<String>,
    holdout: Option<String>,
}

/// A policy as its file has it, with the networks of its rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    pub policy: Policy,
    pub networks: Networks,
}

/// Reads a policy and the lists that it names, which are looked for beside it.
pub fn read(path: &Path) -> Result<Written> {
    let mut text = String::new();
    let file = File::open(path).map_err(Error::file(path))?;
    file.take(FILE_MAX + 1).read_to_string(&mut text).map_err(Error::file(path))?;
    let fault = |what: String| Error::Policy { place: path.display().to_string(), what };
    if text.len() as u64 > FILE_MAX {
        return Err(fault(format!("larger than {} kB; lists of networks go into files of their own", FILE_MAX >> 10)));
    }
    let text: PolicyText = toml::from_str(&text).map_err(|error| {
        let line = error.span().map_or(0, |span| text[..span.start].lines().count().max(1));
        Error::Policy { place: format!("{}:{line}", path.display()), what: error.message().replace('\n', "; ") }
    })?;
    let rules = text.rules.iter().map(|rule| parsed(rule).map_err(|what| fault(format!("rule {}: {what}", rule.name))));
    let policy = Policy {
        default: text.default,
        direction: text.connections,
        override_application: text.override_application,
        rules: rules.collect::<Result<_>>()?,
    };
    check(&policy).map_err(fault)?;
    let networks = networks(&policy, path.parent().unwrap_or(Path::new("")))?;
    Ok(Written { policy, networks })
}

fn parsed(text: &RuleText) -> Result<Rule, String> {
    let is_empty = text.clients.as_ref().is_some_and(Vec::is_empty) || text.ports.as_ref().is_some_and(Vec::is_empty);
    if is_empty {
        return Err("an empty list takes no connection; leave it out for all".to_owned());
    }
    let ports = text.ports.clone().unwrap_or_default();
    if ports.len() > PORTS_MAX {
        return Err(format!("has {} ports; at most {PORTS_MAX} fit", ports.len()));
    }
    let holdout = text.holdout.as_deref().map_or(Ok(0), share)?;
    let is_relative = |path: &String| !path.starts_with('/') && !path.split('/').any(|part| part == "..");
    if let Some(path) = text.cgroup.as_ref().filter(|path| !is_relative(path)) {
        return Err(format!("cgroup {path}: name it below the root of version 2, as in system.slice/nginx.service"));
    }
    Ok(Rule {
        name: text.name.clone(),
        clients: text.clients.clone().unwrap_or_default(),
        ports,
        cgroup: text.cgroup.as_ref().map(|path| path.trim_end_matches('/').to_owned()),
        rtt_us: text.rtt.as_deref().map_or(Ok((0, u32::MAX)), rtt)?,
        algorithm: text.algorithm.clone(),
        holdout,
        withdrawn: None,
    })
}

/// `2%`, in hundredths of a per cent.
fn share(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').map(str::trim).and_then(|number| number.parse::<f64>().ok());
    let share = number.map(|number| (number * 100.0).round()).filter(|share| (0.0..=10_000.0).contains(share));
    share.map(|share| share as u32).ok_or_else(|| format!("holdout {text:?}: write a share from 0% to 100%"))
}

/// `>= 80ms`, `< 20ms`, or both with a comma.
fn rtt(text: &str) -> Result<(u32, u32), String> {
    let fault = || format!("rtt {text:?}: write >= 80ms, < 20ms, or both with a comma");
    let (mut from, mut below) = (0, u32::MAX);
    for part in text.split(',').map(str::trim) {
        let (is_from, number) = match (part.strip_prefix(">="), part.strip_prefix('<')) {
            (Some(number), _) => (true, number.trim()),
            (_, Some(number)) => (false, number.trim()),
            _ => return Err(fault()),
        };
        let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
        let us = units.iter().find_map(|(unit, us)| Some(number.strip_suffix(unit)?.trim().parse::<f64>().ok()? * us));
        let us = us.ok_or_else(fault)?;
        if !(us > 0.0 && us <= RTT_MAX_US) {
            return Err(format!("rtt {text:?}: no handshake takes that; write from 1us to 120s"));
        }
        *(if is_from { &mut from } else { &mut below }) = us as u32;
    }
    if from < below { Ok((from, below)) } else { Err(format!("rtt {text:?}: takes no connection")) }
}

/// Checks what one rule alone does not show.
fn check(policy: &Policy) -> Result<(), String> {
    let rules = &policy.rules;
    if rules.is_empty() {
        return Err("has no [[rule]]".to_owned());
    }
    if rules.len() > RULES_MAX {
        return Err(format!("has {} rules; at most {RULES_MAX} fit", rules.len()));
    }
    for (nth, rule) in rules.iter().enumerate() {
        if let Some(before) = rules[..nth].iter().find(|other| other.name == rule.name) {
            return Err(format!("two rules have the name {}", before.name));
        }
        let covers = |other: &&Rule| {
            let is_any = other.clients.is_empty() || other.clients == rule.clients;
            let ports = other.ports.is_empty()
                || (!rule.ports.is_empty() && rule.ports.iter().all(|port| other.ports.contains(port)));
            let cgroup = other.cgroup.is_none() || other.cgroup == rule.cgroup;
            is_any && ports && cgroup && other.rtt_us.0 <= rule.rtt_us.0 && other.rtt_us.1 >= rule.rtt_us.1
        };
        if let Some(before) = rules[..nth].iter().find(covers) {
            return Err(format!(
                "rule {} takes no connection: rule {} before it takes all of them",
                rule.name, before.name
            ));
        }
    }
    policy.algorithms().into_iter().try_for_each(|algorithm| {
        let is_known = is_kernels_own(algorithm)
            || crate::kernel::available().is_ok_and(|all| all.iter().any(|one| one == algorithm));
        if is_known { Ok(()) } else { objects::parse(algorithm).map(drop).map_err(|error| error.to_string()) }
    })
}

/// Source of a network: its list, or the policy, and the line.
struct Place {
    list: usize,
    line: usize,
    rule: usize,
}

/// Reads the networks of all rules. A network that two rules with the same other conditions name must get the same
/// algorithm of both.
fn networks(policy: &Policy, beside: &Path) -> Result<Networks> {
    let mut named: BTreeMap<Network, Vec<Place>> = BTreeMap::new();
    let mut lists: Vec<String> = Vec::new();
    let mut count = 0;
    for (rule, clients) in policy.rules.iter().enumerate().map(|(nth, rule)| (nth, &rule.clients)) {
        for entry in clients {
            lists.push(entry.clone());
            let list = lists.len() - 1;
            let mut add = |network: Network, line: usize| {
                count += 1;
                if count > PREFIXES_MAX {
                    let place = entry.clone();
                    let what = format!(
                        "more than {PREFIXES_MAX} networks in all rules; the kernel's table would take over {} MB",
                        (PREFIXES_MAX * 128) >> 20
                    );
                    return Err(Error::Policy { place, what });
                }
                let places = named.entry(network).or_default();
                let same = |other: &&Place| {
                    let (a, b) = (&policy.rules[other.rule], &policy.rules[rule]);
                    other.rule != rule
                        && a.ports == b.ports
                        && a.cgroup == b.cgroup
                        && a.rtt_us == b.rtt_us
                        && a.algorithm != b.algorithm
                };
                if let Some(other) = places.iter().find(same) {
                    let at = |list: usize, line: usize| {
                        if line == 0 { lists[list].clone() } else { format!("{}:{line}", lists[list]) }
                    };
                    let what = format!(
                        "rule {} gives this network {}, rule {} at {} gives it {}",
                        policy.rules[rule].name,
                        policy.rules[rule].algorithm,
                        policy.rules[other.rule].name,
                        at(other.list, other.line),
                        policy.rules[other.rule].algorithm
                    );
                    return Err(Error::Policy { place: at(list, line), what });
                }
                places.push(Place { list, line, rule });
                Ok(())
            };
            match Network::parse(entry) {
                Some(network) => add(network, 0)?,
                None => of_list(&beside.join(entry), entry, add)?,
            }
        }
    }
    let all =
        named.into_iter().flat_map(|(network, places)| places.into_iter().map(move |place| (network, place.rule)));
    Ok(Networks::new(all))
}

/// Reads a list: a network a line; `#` begins a comment.
fn of_list(path: &PathBuf, name: &str, mut add: impl FnMut(Network, usize) -> Result<()>) -> Result<()> {
    let file = File::open(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => {
            Error::Policy { place: name.to_owned(), what: "neither a network nor a file beside the policy".to_owned() }
        }
        _ => Error::file(path)(source),
    })?;
    let mut reader = BufReader::new(file);
    let mut line = String::new();
    for number in 1.. {
        line.clear();
        if (&mut reader).take(LINE_MAX).read_line(&mut line).map_err(Error::file(path))? == 0 {
            break;
        }
        let text = line.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        let network = Network::parse(text).ok_or_else(|| Error::Policy {
            place: format!("{name}:{number}"),
            what: format!(
                "{:?} is not a network, as in 192.0.2.0/24, with zeros behind the prefix",
                text.chars().take(60).collect::<String>()
            ),
        })?;
        add(network, number)?;
    }
    Ok(())
}
