//! Validated flags of `bbrlab ab start`; nothing is changed before they are checked.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use bbrlab_host::ab::{EndCondition, TestRequest};
use bbrlab_sim::scenario::{TimeSpan, Volume};
use bbrlab_stats::plural::counted;
use bbrlab_study::ab::guard::Limits;
use bbrlab_study::ab::{ARMS_MAX, Key, PORTS_MAX, PREFIXES_MAX, PrefixLengths, Shares};

use super::StartArgs;
use crate::{Failure, inputs};

/// The test that the flags ask for.
pub fn request(args: &StartArgs) -> Result<TestRequest, Failure> {
    let algorithms = inputs::algorithms(&args.arms).map_err(|error| format!("--arms: {error}"))?;
    if !(2..=ARMS_MAX).contains(&algorithms.len()) {
        return Err(format!("--arms: {:?} has {}; write 2 to {ARMS_MAX}", args.arms, counted(algorithms.len(), "arm")));
    }
    let arms = algorithms.len();
    let shares = match (&args.split, &args.canary) {
        (Some(text), _) => Shares::parse(text, arms).map_err(|error| format!("--split: {error}"))?,
        (None, Some(text)) => Shares::canary(text, arms).map_err(|error| format!("--canary: {error}"))?,
        (None, None) => Shares::equal(arms),
    };
    for (flag, count, max) in [("--port", args.port.len(), PORTS_MAX), ("--prefix", args.prefix.len(), PREFIXES_MAX)] {
        if count > max {
            return Err(format!("{flag}: {count} of them; write {max} or fewer"));
        }
    }
    let prefixes = args.prefix.iter().map(|text| prefix(text)).collect::<Result<_, _>>()?;
    let key = args.key.as_deref().map(|path| {
        let text = fs::read_to_string(path).map_err(|error| error.to_string());
        text.and_then(|text| Ok(text.parse::<Key>()?)).map_err(|error| format!("--key: {}: {error}", path.display()))
    });
    let disk: Volume = args.disk.parse().map_err(|error| format!("--disk: {error}"))?;
    Ok(TestRequest {
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
        is_shared: args.multi,
        algorithms,
    })
}

fn time(flag: &str, text: &str, min: Duration) -> Result<Duration, Failure> {
    let span: TimeSpan = text.parse().map_err(|error| format!("{flag}: {error}"))?;
    let time = Duration::from_secs_f64(span.as_secs());
    if time < min {
        Err(format!("{flag}: {text:?} is too short; write {} ms or more", min.as_millis()))
    } else {
        Ok(time)
    }
}

fn until(text: Option<&str>) -> Result<EndCondition, Failure> {
    let Some(text) = text else { return Ok(EndCondition::Interrupted) };
    if let Ok(count) = text.parse::<u64>() {
        return if count > 0 {
            Ok(EndCondition::Connections(count))
        } else {
            Err("--stop-after: 0 connections are not a test; write 1 or more".to_owned())
        };
    }
    let span = time("--stop-after", text, Duration::from_millis(1));
    span.map(|span| EndCondition::Seconds(span.as_secs_f64()))
        .map_err(|error| format!("{error}; a plain number counts connections"))
}

fn prefix(text: &str) -> Result<(IpAddr, u32), Failure> {
    let fault = || format!("--prefix: {text:?} is not a network; write 192.0.2.0/24 or 2001:db8::/32");
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().map_err(|_| fault())?;
    let max = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Ok(max), |bits| bits.parse().map_err(|_| fault()))?;
    if bits > max { Err(fault()) } else { Ok((address, bits)) }
}

fn keep(text: &str) -> Result<PrefixLengths, Failure> {
    let bits = |text: &str, max: u8| text.trim().parse::<u8>().ok().filter(|bits| *bits <= max);
    let parts = text.split_once(',').and_then(|(v4, v6)| bits(v4, 32).zip(bits(v6, 128)));
    let (v4, v6) = parts
        .ok_or_else(|| format!("--keep: {text:?}; write bits of IPv4 (0 to 32) and of IPv6 (0 to 128), as in 24,48"))?;
    Ok(PrefixLengths { v4, v6 })
}

fn limits(args: &StartArgs) -> Result<Limits, Failure> {
    let share = |flag: &str, value: f64| {
        let is_share = (0.0..100.0).contains(&value);
        if is_share { Ok(value / 100.0) } else { Err(format!("{flag}: {value}; write a per cent from 0 to below 100")) }
    };
    Ok(Limits {
        retransmits: share("--guard-retransmits", args.guard_retransmits)?,
        goodput: share("--guard-goodput", args.guard_goodput)?,
        handshakes: share("--guard-handshakes", args.guard_handshakes)?,
    })
}
