//! Effects of a path on packets, as written in a scenario: loss, jitter, ACK aggregation, policer, demand. Also the backend (`on`).
//! Every value parses back from its own text.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;
use std::str::FromStr;

use super::text::{OptionPair, TextError, as_text, pairs};
use super::units::{BitRate, Ratio, TimeSpan, Volume};
use crate::link::{AckAggregation, Demand, Loss, Policer};

/// Random loss: `1%`, `0.001` or netem's Gilbert–Elliott `ge:p,r,1-h,1-k`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum LossModel {
    /// No loss.
    #[default]
    None,
    /// Independent loss of each packet.
    Bernoulli(Ratio),
    /// Gilbert–Elliott, in netem's order.
    GilbertElliott {
        /// Probability per packet of a change from good to bad.
        p: Ratio,
        /// Probability per packet of a change from bad to good.
        r: Ratio,
        /// Loss in the bad state, netem's `1-h`; 100 % by default.
        loss_bad: Ratio,
        /// Loss in the good state, netem's `1-k`; 0 by default.
        loss_good: Ratio,
    },
}

impl LossModel {
    /// Converts it to the link's type.
    pub const fn loss(self) -> Loss {
        match self {
            Self::None => Loss::None,
            Self::Bernoulli(ratio) => Loss::Bernoulli(ratio.0),
            Self::GilbertElliott { p, r, loss_bad, loss_good } => {
                Loss::GilbertElliott { p: p.0, r: r.0, loss_bad: loss_bad.0, loss_good: loss_good.0 }
            }
        }
    }
}

impl FromStr for LossModel {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let Some(rest) = text.trim().strip_prefix("ge:") else {
            if !Ratio::is_written(text) {
                return Err(TextError(format!(
                    "{text:?} is not a loss rate; write a share or ge:p,r,1-h,1-k, as in 1% or ge:1%,10%"
                )));
            }
            let ratio: Ratio = text.parse()?;
            return Ok(if ratio.0 == 0.0 { Self::None } else { Self::Bernoulli(ratio) });
        };
        let shares = rest.split(',').map(|share| share.trim().parse()).collect::<Result<Vec<Ratio>, _>>()?;
        if shares.len() < 2 || shares.len() > 4 {
            return Err(TextError(format!("{text:?} has too few or too many shares; write ge:p,r[,1-h[,1-k]]")));
        }
        let share = |index: usize, default: f64| shares.get(index).copied().unwrap_or(Ratio(default));
        Ok(Self::GilbertElliott { p: shares[0], r: shares[1], loss_bad: share(2, 1.0), loss_good: share(3, 0.0) })
    }
}

impl fmt::Display for LossModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("0%"),
            Self::Bernoulli(ratio) => write!(f, "{ratio}"),
            Self::GilbertElliott { p, r, loss_bad, loss_good } => write!(f, "ge:{p},{r},{loss_bad},{loss_good}"),
        }
    }
}

/// Added delay: `2ms` keeps the order of packets, `2ms:reorder` does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jitter {
    /// Added delay, uniform between zero and this.
    pub time: TimeSpan,
    /// True if packets may overtake.
    pub reorder: bool,
}

impl FromStr for Jitter {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let (time, reorder) = match text.split_once(':') {
            Some((time, "reorder")) => (time, true),
            Some((_, other)) => {
                return Err(TextError(format!(
                    "{other:?} is not a valid jitter; write a time or TIME:reorder, as in 2ms:reorder"
                )));
            }
            None => (text, false),
        };
        Ok(Self { time: time.parse()?, reorder })
    }
}

impl fmt::Display for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.time, if self.reorder { ":reorder" } else { "" })
    }
}

/// ACKs held and released together: `20ms`, `64KiB` or `none`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckHold {
    /// No holding.
    #[default]
    None,
    /// Held for this long after the first held ACK.
    Time(TimeSpan),
    /// Held until this volume is acknowledged.
    Bytes(Volume),
}

impl AckHold {
    /// Converts it to the path's type.
    pub const fn aggregation(self) -> AckAggregation {
        match self {
            Self::None => AckAggregation::None,
            Self::Time(time) => AckAggregation::Time(time.span()),
            Self::Bytes(volume) => AckAggregation::Bytes(volume.0),
        }
    }
}

impl FromStr for AckHold {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        if text == "none" {
            return Ok(Self::None);
        }
        if let Ok(time) = text.parse::<TimeSpan>() {
            return Ok(if time.0 == 0 { Self::None } else { Self::Time(time) });
        }
        let volume = text.parse().map_err(|_| {
            TextError(format!(
                "{text:?} is not a valid ACK aggregation; write a time, a volume or none, as in 20ms or 64KiB"
            ))
        })?;
        Ok(Self::Bytes(volume))
    }
}

impl fmt::Display for AckHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Time(time) => write!(f, "{time}"),
            Self::Bytes(volume) => write!(f, "{volume}"),
        }
    }
}

/// A token bucket: `rate=10mbit,burst=125kB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    /// Rate at which tokens arrive.
    pub rate: BitRate,
    /// Depth of the bucket.
    pub burst: Volume,
}

const POLICER_FORM: &str = "rate=RATE,burst=VOLUME, as in rate=10mbit,burst=125kB";

impl TokenBucket {
    /// Converts it to the link's type.
    pub const fn policer(self) -> Policer {
        Policer { rate: self.rate.rate(), burst: self.burst.0 }
    }
}

impl FromStr for TokenBucket {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let options = Options::new(text, POLICER_FORM, &["rate", "burst"])?;
        let bucket = Self { rate: options.need("rate")?, burst: options.need("burst")? };
        if bucket.burst.0 < super::PACKET_BYTES {
            return Err(TextError(format!(
                "{text:?}: a burst of {} passes no packet; write at least 1514B",
                bucket.burst
            )));
        }
        Ok(bucket)
    }
}

impl fmt::Display for TokenBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rate={},burst={}", self.rate, self.burst)
    }
}

/// A link that grants rate by backlog: `min=1mbit,max=20mbit,steps=20,period=100ms,backlog=20ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DemandLink {
    /// Lowest rate granted.
    pub min: BitRate,
    /// Highest rate granted.
    pub max: BitRate,
    /// Number of equal ratios between them.
    pub steps: u32,
    /// Interval between reviews of the grant.
    pub period: TimeSpan,
    /// Backlog that raises the grant.
    pub backlog: TimeSpan,
}

const DEMAND_FORM: &str = "min=RATE,max=RATE[,steps=N][,period=TIME][,backlog=TIME], as in min=1mbit,max=20mbit";

impl DemandLink {
    /// Converts it to the link's type.
    pub const fn demand(self) -> Demand {
        Demand {
            min: self.min.rate(),
            max: self.max.rate(),
            steps: self.steps,
            period: self.period.span(),
            up_backlog: self.backlog.span(),
        }
    }
}

impl FromStr for DemandLink {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let options = Options::new(text, DEMAND_FORM, &["min", "max", "steps", "period", "backlog"])?;
        let link = Self {
            min: options.need("min")?,
            max: options.need("max")?,
            steps: options.number("steps", 20)?,
            period: options.get("period")?.unwrap_or(TimeSpan::millis(100)),
            backlog: options.get("backlog")?.unwrap_or(TimeSpan::millis(20)),
        };
        if link.min > link.max || link.steps == 0 || link.steps > 1000 || link.period.0 == 0 {
            return Err(TextError(format!(
                "{text:?} grants nothing; write min below max, 1 to 1000 steps and a period above 0s"
            )));
        }
        Ok(link)
    }
}

impl fmt::Display for DemandLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { min, max, steps, period, backlog } = self;
        write!(f, "min={min},max={max},steps={steps},period={period},backlog={backlog}")
    }
}

/// The `key=value` pieces of one text, checked for unknown and repeated keys.
pub(super) struct Options<'a> {
    text: &'a str,
    form: &'a str,
    pub(super) pairs: Vec<OptionPair>,
}

impl<'a> Options<'a> {
    /// Creates an empty option list.
    pub(super) const fn none(form: &'a str) -> Self {
        Self { text: "", form, pairs: Vec::new() }
    }

    pub(super) fn new(text: &'a str, form: &'a str, known: &[&str]) -> Result<Self, TextError> {
        let pairs = pairs(text, &[',', ':'], form)?;
        for (index, pair) in pairs.iter().enumerate() {
            let again = pairs[..index].iter().any(|other| other.key == pair.key);
            if again || !known.contains(&pair.key.as_str()) {
                let what = if again { "given twice" } else { "unknown" };
                return Err(TextError(format!("{text:?}: option {:?} is {what}; write {form}", pair.key)));
            }
        }
        Ok(Self { text, form, pairs })
    }

    /// Value of `key`, if present.
    pub(super) fn get<T: FromStr<Err = TextError>>(&self, key: &str) -> Result<Option<T>, TextError> {
        let Some(pair) = self.pairs.iter().find(|pair| pair.key == key) else { return Ok(None) };
        let value = pair.value.as_deref().unwrap_or_default();
        value.parse().map(Some).map_err(|error| TextError(format!("{key}: {error}")))
    }

    pub(super) fn need<T: FromStr<Err = TextError>>(&self, key: &str) -> Result<T, TextError> {
        self.get(key)?.ok_or_else(|| TextError(format!("{:?} lacks {key}; write {}", self.text, self.form)))
    }

    /// Whole number under `key`, or `default`.
    pub(super) fn number(&self, key: &str, default: u32) -> Result<u32, TextError> {
        let Some(pair) = self.pairs.iter().find(|pair| pair.key == key) else { return Ok(default) };
        let value = pair.value.as_deref().unwrap_or_default();
        let right = if value.ends_with('%') { "it without the sign" } else { self.form };
        value.parse().map_err(|_| TextError(format!("{key}: {value:?} is not a whole number; write {right}")))
    }

    /// Decimal under `key`, or `default`.
    pub(super) fn float(&self, key: &str, default: f64) -> Result<f64, TextError> {
        let Some(pair) = self.pairs.iter().find(|pair| pair.key == key) else { return Ok(default) };
        let value = pair.value.as_deref().unwrap_or_default();
        super::text::float(value)
            .ok_or_else(|| TextError(format!("{key}: {value:?} is not a decimal number; write {}", self.form)))
    }

    /// Boolean option: the bare key, `key=on` or `key=off`.
    pub(super) fn switch(&self, key: &str) -> Result<bool, TextError> {
        match self.pairs.iter().find(|pair| pair.key == key).map(|pair| pair.value.as_deref()) {
            None | Some(Some("off")) => Ok(false),
            Some(None | Some("on")) => Ok(true),
            Some(Some(value)) => Err(TextError(format!("{key}: {value:?} is not a valid setting; write on or off"))),
        }
    }
}

as_text!(LossModel, "random loss as a share or as ge:p,r,1-h,1-k", ["1%", "0.001", "ge:1%,10%,100%,0%"]);
as_text!(Jitter, "added delay as TIME or TIME:reorder", ["2ms", "2ms:reorder"]);
as_text!(AckHold, "ACK aggregation as a time, a volume or none", ["20ms", "64KiB", "none"]);
as_text!(TokenBucket, "a token-bucket policer as rate=RATE,burst=VOLUME", ["rate=10mbit,burst=125kB"]);
as_text!(
    DemandLink,
    "a demand-driven link as min=RATE,max=RATE,steps=N,period=TIME,backlog=TIME",
    ["min=1mbit,max=20mbit,steps=20,period=100ms,backlog=20ms"]
);
