//! Queue disciplines as written in a scenario: `droptail`, `codel:target=5ms:ecn`, `red:min=30kB,max=90kB`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::text::{TextError, as_text, nearest};
use super::units::{PACKET_BYTES, Ratio, TimeSpan, Volume};
use super::values::Options;
use crate::link::{Aqm, Cake, Codel, DualPi2, Fq, FqCodel, Pie, Red, Tins};

/// A queue discipline with the options set in the scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AqmSpec {
    kind: Kind,
    options: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    DropTail,
    Red,
    Codel,
    FqCodel,
    Pie,
    DualPi2,
    Fq,
    Cake,
}

const KINDS: [(Kind, &str, &[&str], &str); 8] = [
    (Kind::DropTail, "droptail", &[], "droptail without options"),
    (
        Kind::Red,
        "red",
        &["min", "max", "p", "wlog", "gentle", "ecn"],
        "red:min=VOLUME,max=VOLUME,p=SHARE,wlog=N,gentle,ecn",
    ),
    (Kind::Codel, "codel", &["target", "interval", "ce", "ecn"], "codel:target=TIME,interval=TIME,ce=TIME,ecn"),
    (
        Kind::FqCodel,
        "fq_codel",
        &["target", "interval", "ce", "ect1", "ecn", "flows", "quantum"],
        "fq_codel:target=TIME,interval=TIME,ce=TIME,ect1,flows=N,quantum=BYTES,ecn",
    ),
    (
        Kind::Pie,
        "pie",
        &["target", "tupdate", "alpha", "beta", "burst", "ecn"],
        "pie:target=TIME,tupdate=TIME,alpha=X,beta=X,burst=TIME,ecn",
    ),
    (
        Kind::DualPi2,
        "dualpi2",
        &["target", "tupdate", "alpha", "beta", "coupling", "step", "min_qlen_step", "classic"],
        "dualpi2:target=TIME,tupdate=TIME,alpha=X,beta=X,coupling=X,step=TIME,min_qlen_step=N,classic=PERCENT",
    ),
    (
        Kind::Fq,
        "fq",
        &["flow_limit", "quantum", "initial_quantum", "ce"],
        "fq:flow_limit=N,quantum=BYTES,initial_quantum=BYTES,ce=TIME",
    ),
    (
        Kind::Cake,
        "cake",
        &["rtt", "besteffort", "diffserv3", "diffserv4", "flows", "triple-isolate"],
        "cake:rtt=TIME,diffserv3|diffserv4|besteffort,triple-isolate|flows",
    ),
];
/// Longest interval of CAKE, whose COBALT counts its nanoseconds in 32 bits in Linux.
const CAKE_RTT_MAX: TimeSpan = TimeSpan::secs(4);

impl Default for AqmSpec {
    fn default() -> Self {
        Self { kind: Kind::DropTail, options: String::new() }
    }
}

impl AqmSpec {
    /// True if its queue can remove an ACK that a newer one supersedes.
    pub(super) fn filters_acks(&self) -> bool {
        matches!(self.kind, Kind::DropTail | Kind::Cake)
    }

    /// Resolves the discipline for a queue of `buffer_bytes`.
    pub fn resolve(&self, buffer_bytes: u64) -> Result<Aqm, TextError> {
        let (_, _, known, form) = KINDS[self.kind as usize];
        if self.options.is_empty() {
            return self.build(buffer_bytes, &Options::none(form));
        }
        self.build(buffer_bytes, &Options::new(&self.options, form, known)?)
    }

    fn build(&self, buffer_bytes: u64, options: &Options<'_>) -> Result<Aqm, TextError> {
        Ok(match self.kind {
            Kind::DropTail => Aqm::DropTail,
            Kind::Red => Aqm::Red(red(buffer_bytes, options)?),
            Kind::Codel => Aqm::Codel(codel(options)?),
            Kind::FqCodel => Aqm::FqCodel(FqCodel {
                codel: fq_codel(options)?,
                flows: in_range(options, "flows", 1024, 1..=65_536)?,
                quantum: in_range(options, "quantum", 1514, 1..=1 << 20)?,
            }),
            Kind::Pie => Aqm::Pie(Pie {
                target: positive(options, "target", TimeSpan::millis(15))?.span(),
                tupdate: positive(options, "tupdate", TimeSpan::millis(15))?.span(),
                alpha: options.float("alpha", 0.125)?,
                beta: options.float("beta", 1.25)?,
                max_burst: options.get("burst")?.unwrap_or(TimeSpan::millis(150)).span(),
                ecn: options.switch("ecn")?,
            }),
            // Defaults of Linux `dualpi2_reset_default`.
            Kind::DualPi2 => Aqm::DualPi2(DualPi2 {
                target: positive(options, "target", TimeSpan::millis(15))?.span(),
                tupdate: positive(options, "tupdate", TimeSpan::millis(16))?.span(),
                alpha: options.float("alpha", 41.0 / 256.0)?,
                beta: options.float("beta", 819.0 / 256.0)?,
                coupling: options.float("coupling", 2.0)?,
                step: options.get("step")?.unwrap_or(TimeSpan::millis(1)).span(),
                min_qlen_step: in_range(options, "min_qlen_step", 0, 0..=1 << 20)?,
                classic_percent: in_range(options, "classic", 10, 0..=100)?,
            }),
            // Defaults of Linux `fq_init`.
            Kind::Fq => Aqm::Fq(Fq {
                flow_limit: in_range(options, "flow_limit", 100, 1..=1 << 20)?,
                quantum: in_range(options, "quantum", 3028, 1..=1 << 20)?,
                initial_quantum: in_range(options, "initial_quantum", 15_140, 1..=1 << 24)?,
                ce_threshold: options.get::<TimeSpan>("ce")?.map(TimeSpan::span),
                flows: [].into(),
            }),
            Kind::Cake => Aqm::Cake(cake(options)?),
        })
    }
}

// Defaults from `tc-red`: max a quarter of the limit, min a third of max, p 0.02; wlog as in Floyd 1997 (w_q 0.002).
fn red(buffer_bytes: u64, options: &Options<'_>) -> Result<Red, TextError> {
    let max = options.get::<Volume>("max")?.map_or((buffer_bytes / 4).max(2 * PACKET_BYTES), |max| max.0);
    let min = options.get::<Volume>("min")?.map_or((max / 3).max(1), |min| min.0);
    if min >= max {
        return Err(TextError(format!(
            "red: min {} is not below max {}; write min=VOLUME,max=VOLUME",
            Volume(min),
            Volume(max)
        )));
    }
    Ok(Red {
        min,
        max,
        probability: options.get("p")?.unwrap_or(Ratio(0.02)).0,
        wlog: in_range(options, "wlog", 9, 0..=30)?,
        gentle: options.switch("gentle")?,
        ecn: options.switch("ecn")?,
    })
}

fn codel(options: &Options<'_>) -> Result<Codel, TextError> {
    Ok(Codel {
        target: positive(options, "target", TimeSpan::millis(5))?.span(),
        interval: positive(options, "interval", TimeSpan::millis(100))?.span(),
        ecn: options.switch("ecn")?,
        ce_threshold: options.get::<TimeSpan>("ce")?.map(TimeSpan::span),
        ce_only_ect_1: false,
    })
}

fn fq_codel(options: &Options<'_>) -> Result<Codel, TextError> {
    let codel = Codel { ce_only_ect_1: options.switch("ect1")?, ..codel(options)? };
    if codel.ce_only_ect_1 && codel.ce_threshold.is_none() {
        return Err(TextError("ect1 selects the packets that ce=TIME marks; write ce=TIME,ect1".into()));
    }
    Ok(codel)
}

// Defaults of Linux `cake_init`; the target is a twentieth of the interval, as `tc` sets it.
fn cake(options: &Options<'_>) -> Result<Cake, TextError> {
    let interval = positive(options, "rtt", TimeSpan::millis(100))?;
    if interval > CAKE_RTT_MAX {
        return Err(TextError(format!("rtt: {interval} is out of range; write at most {CAKE_RTT_MAX}")));
    }
    let one_of = |keys: &'static [&'static str]| {
        let mut set = Vec::new();
        for key in keys {
            if options.switch(key)? {
                set.push(*key);
            }
        }
        match set[..] {
            [] => Ok(keys[0]),
            [only] => Ok(only),
            _ => Err(TextError(format!("{} exclude each other; write one of {}", set.join(" and "), keys.join(", ")))),
        }
    };
    Ok(Cake {
        tins: match one_of(&["diffserv3", "diffserv4", "besteffort"])? {
            "diffserv4" => Tins::Diffserv4,
            "besteffort" => Tins::BestEffort,
            _ => Tins::Diffserv3,
        },
        host_fairness: one_of(&["triple-isolate", "flows"])? == "triple-isolate",
        interval: interval.span(),
        target: TimeSpan((interval.0 / 20).max(1_000)).span(),
        // The flows of the scenario are not known here.
        packet_bytes: PACKET_BYTES as u32,
        flows: Arc::new([]),
    })
}

fn positive(options: &Options<'_>, key: &str, default: TimeSpan) -> Result<TimeSpan, TextError> {
    match options.get(key)?.unwrap_or(default) {
        TimeSpan(0) => Err(TextError(format!("{key}: 0s is out of range; write at least 1us"))),
        time => Ok(time),
    }
}

fn in_range(
    options: &Options<'_>,
    key: &str,
    default: u32,
    range: std::ops::RangeInclusive<u32>,
) -> Result<u32, TextError> {
    let value = options.number(key, default)?;
    if !range.contains(&value) {
        return Err(TextError(format!("{key}: {value} is out of range; write {} to {}", range.start(), range.end())));
    }
    Ok(value)
}

impl FromStr for AqmSpec {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let (name, options) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
        let names = KINDS.iter().map(|(_, name, ..)| *name);
        let Some((kind, _, _, form)) = KINDS.iter().find(|(_, known, ..)| *known == name) else {
            let near = nearest(name, names).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
            return Err(TextError(format!(
                "{name:?} is not a queue discipline{near}; write droptail, red, codel, fq_codel, fq, cake, pie or dualpi2, with :ecn if wanted"
            )));
        };
        if *kind == Kind::DropTail && !options.is_empty() {
            return Err(TextError(format!("droptail has no option {options:?}; write {form}")));
        }
        let spec = Self { kind: *kind, options: options.to_owned() };
        // A huge buffer, so that only the options themselves are checked.
        spec.resolve(1 << 40)?;
        let canonical = match options {
            "" => String::new(),
            options => Options::new(options, form, KINDS[*kind as usize].2)?
                .pairs
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(","),
        };
        Ok(Self { options: canonical, ..spec })
    }
}

impl fmt::Display for AqmSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(KINDS[self.kind as usize].1)?;
        if !self.options.is_empty() {
            write!(f, ":{}", self.options)?;
        }
        Ok(())
    }
}

as_text!(
    AqmSpec,
    "a queue discipline: droptail, red, codel, fq_codel, fq, cake, pie or dualpi2, with options after colons",
    ["droptail", "fq_codel:ecn", "codel:target=5ms,interval=100ms", "red:min=30kB,max=90kB,p=10%", "pie", "dualpi2"]
);
