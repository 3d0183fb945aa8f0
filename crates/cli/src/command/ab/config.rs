//! Validated flags of `bbrlab ab start`; nothing is changed before they are checked.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use bbrlab_host::ab::{EndCondition, RuleRequest, TestRequest};
use bbrlab_sim::scenario::{TimeSpan, Volume};
use bbrlab_study::ab::guard::Limits;
use bbrlab_study::ab::{ARMS_MAX, Key, PORTS_MAX, PREFIXES_MAX, PrefixLengths, Shares};

use super::StartArgs;
use crate::{Error, inputs};

/// The test that the flags ask for.
pub fn request(args: &StartArgs) -> Result<TestRequest, Error> {
    let text = args.arms.as_deref().unwrap_or_default();
    let algorithms = match &args.rule {
        // The policy in force names them.
        Some(_) => Vec::new(),
        None => inputs::algorithms(text).map_err(Error::flag("--arms"))?,
    };
    if args.rule.is_none() && !(2..=ARMS_MAX).contains(&algorithms.len()) {
        return Err(Error::ArmCount { text: text.to_owned(), found: algorithms.len(), max: ARMS_MAX });
    }
    if args.withdraw && args.rule.is_none() {
        return Err(Error::Rule {
            place: "--withdraw",
            rule: "only a test of a rule can withdraw it; give --rule NAME",
        });
    }
    let arms = algorithms.len();
    let shares = match (&args.split, &args.canary) {
        (Some(text), _) => Shares::parse(text, arms).map_err(Error::flag("--split"))?,
        (None, Some(text)) => Shares::canary(text, arms).map_err(Error::flag("--canary"))?,
        (None, None) => Shares::equal(arms),
    };
    for (flag, found, max) in [("--port", args.port.len(), PORTS_MAX), ("--prefix", args.prefix.len(), PREFIXES_MAX)] {
        if found > max {
            return Err(Error::TooMany { flag, found, max });
        }
    }
    let prefixes = args.prefix.iter().map(|text| prefix(text)).collect::<Result<_, _>>()?;
    let key = args.key.as_deref().map(|path| key(path).map_err(Error::flag("--key")));
    let disk: Volume = args.disk.parse().map_err(Error::flag("--disk"))?;
    let rule = args.rule.as_ref().map(|name| RuleRequest { name: name.clone(), withdraws: args.withdraw });
    Ok(TestRequest {
        rule,
        shares,
        cgroup: args.cgroup.clone(),
        ports: args.port.clone(),
        prefixes,
        direction: args.direction.into(),
        by: args.by.into(),
        slot: time("--slot", &args.slot, Duration::from_secs(1))?,
        keep: keep(&args.keep)?,
        key: key.transpose()?,
        out: args.out.clone(),
        until: until(args.stop_after.as_deref())?,
        every: time("--every", &args.every, Duration::from_millis(500))?,
        disk: disk.0,
        limits: limits(args)?,
        host: args.host.clone(),
        is_shared: args.multi,
        algorithms,
    })
}

/// Reads the hash key of an assignment.
fn key(path: &Path) -> Result<Key, Error> {
    let text = fs::read_to_string(path).map_err(Error::at(path.display()))?;
    text.parse().map_err(Error::at(path.display()))
}

fn time(flag: &'static str, text: &str, min: Duration) -> Result<Duration, Error> {
    let span: TimeSpan = text.parse().map_err(Error::flag(flag))?;
    let time = Duration::from_secs_f64(span.as_secs());
    if time < min { Err(Error::TooShort { flag, found: text.to_owned(), min_ms: min.as_millis() }) } else { Ok(time) }
}

fn until(text: Option<&str>) -> Result<EndCondition, Error> {
    let Some(text) = text else { return Ok(EndCondition::Interrupted) };
    if let Ok(count) = text.parse::<u64>() {
        return if count > 0 {
            Ok(EndCondition::Connections(count))
        } else {
            Err(Error::Rule { place: "--stop-after", rule: "0 connections are not a test; write 1 or more" })
        };
    }
    let span = time("--stop-after", text, Duration::from_millis(1));
    span.map(|span| EndCondition::Seconds(span.as_secs_f64())).map_err(|error| Error::StopAfter(Box::new(error)))
}

fn prefix(text: &str) -> Result<(IpAddr, u32), Error> {
    let problem = "is not a network; write 192.0.2.0/24 or 2001:db8::/32";
    let fault = || Error::Value { flag: "--prefix", found: text.to_owned(), problem };
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().map_err(|_| fault())?;
    let max = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Ok(max), |bits| bits.parse().map_err(|_| fault()))?;
    if bits > max { Err(fault()) } else { Ok((address, bits)) }
}

fn keep(text: &str) -> Result<PrefixLengths, Error> {
    let bits = |text: &str, max: u8| text.trim().parse::<u8>().ok().filter(|bits| *bits <= max);
    let parts = text.split_once(',').and_then(|(v4, v6)| bits(v4, 32).zip(bits(v6, 128)));
    let (v4, v6) = parts.ok_or_else(|| Error::Keep(text.to_owned()))?;
    Ok(PrefixLengths { v4, v6 })
}

fn limits(args: &StartArgs) -> Result<Limits, Error> {
    let share = |flag, found: f64| {
        let is_share = (0.0..100.0).contains(&found);
        if is_share { Ok(found / 100.0) } else { Err(Error::Percent { flag, found }) }
    };
    Ok(Limits {
        retransmits: share("--guard-retransmits", args.guard_retransmits)?,
        goodput: share("--guard-goodput", args.guard_goodput)?,
        handshakes: share("--guard-handshakes", args.guard_handshakes)?,
    })
}
