//! Changes of the path over time: `20s:rate=20mbit;40s:link=2,rate=10mbit,rtt=80ms`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;
use std::str::FromStr;

use super::text::{TextError, as_text, nearest};
use super::units::{BitRate, BufferSize, TimeSpan};
use super::values::LossModel;

/// Steps by which a path changes over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule(pub Vec<Step>);

/// Changes at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Time of the step.
    pub at: TimeSpan,
    /// Link whose rate, buffer or loss changes; the first by default.
    pub link: Option<ChangedLink>,
    /// New rate of the link.
    pub rate: Option<BitRate>,
    /// New two-way propagation delay.
    pub rtt: Option<TimeSpan>,
    /// New buffer of the link.
    pub buffer: Option<BufferSize>,
    /// New random loss behind the link.
    pub loss: Option<LossModel>,
    /// New random loss of ACKs.
    pub ack_loss: Option<LossModel>,
}

/// A link that a step changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedLink {
    /// A bottleneck, counted from 1.
    Number(u32),
    /// The link of the reverse direction, that of the key `up`.
    Up,
}

impl FromStr for ChangedLink {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        match text {
            "up" => Ok(Self::Up),
            _ => text.parse().ok().filter(|number| *number > 0).map(Self::Number).ok_or_else(|| {
                TextError(format!("{text:?} is not a link; write a number, counted from 1, or up, as in link=2"))
            }),
        }
    }
}

impl fmt::Display for ChangedLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Up => f.write_str("up"),
        }
    }
}

const FORM: &str =
    "TIME:KEY=VALUE,…;… with rate, rtt, buffer, loss, ack_loss or link, as in 20s:rate=20mbit;40s:rtt=80ms";
const KEYS: [&str; 6] = ["rate", "rtt", "buffer", "loss", "ack_loss", "link"];

impl FromStr for Schedule {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let mut steps = text
            .split(';')
            .map(str::trim)
            .filter(|step| !step.is_empty())
            .map(|step| step.parse::<Step>().map_err(|error| TextError(format!("step {step:?}: {error}"))))
            .collect::<Result<Vec<_>, _>>()?;
        steps.sort_by_key(|step| step.at);
        Ok(Self(steps))
    }
}

impl FromStr for Step {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let form = || TextError(format!("{text:?} is not a change; write {FORM}"));
        let (at, changes) = text.split_once(':').ok_or_else(form)?;
        let mut step = Self { at: at.trim().parse()?, ..Self::default() };
        // A loss model contains commas itself: a piece without `=` belongs to the previous one.
        let mut pieces: Vec<String> = Vec::new();
        for piece in changes.split(',').map(str::trim) {
            match pieces.last_mut() {
                Some(last) if !piece.contains('=') => *last = format!("{last},{piece}"),
                _ => pieces.push(piece.to_owned()),
            }
        }
        for piece in &pieces {
            let (key, value) = piece.split_once('=').ok_or_else(form)?;
            if pieces.iter().filter(|other| other.split('=').next() == Some(key)).count() > 1 {
                return Err(TextError(format!("{key}: it is written twice; write it once")));
            }
            step.set(key, value)?;
        }
        let changed = [
            step.rate.is_some(),
            step.rtt.is_some(),
            step.buffer.is_some(),
            step.loss.is_some(),
            step.ack_loss.is_some(),
        ];
        if !changed.contains(&true) {
            return Err(form());
        }
        Ok(step)
    }
}

impl Step {
    /// The link that it changes.
    pub fn changed(&self) -> ChangedLink {
        self.link.unwrap_or(ChangedLink::Number(1))
    }

    /// Finds a key that both steps set at the same moment.
    pub(super) fn also_sets(&self, other: &Self) -> Option<&'static str> {
        let same_link = self.changed() == other.changed();
        let both = [
            ("rate", same_link && self.rate.is_some() && other.rate.is_some()),
            ("rtt", self.rtt.is_some() && other.rtt.is_some()),
            ("buffer", same_link && self.buffer.is_some() && other.buffer.is_some()),
            ("loss", same_link && self.loss.is_some() && other.loss.is_some()),
            ("ack_loss", self.ack_loss.is_some() && other.ack_loss.is_some()),
        ];
        both.into_iter().find(|(_, both)| *both && self.at == other.at).map(|(key, _)| key)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), TextError> {
        let named = |error: TextError| TextError(format!("{key}: {error}"));
        match key {
            "rate" => self.rate = Some(value.parse().map_err(named)?),
            "rtt" => self.rtt = Some(value.parse().map_err(named)?),
            "buffer" => self.buffer = Some(value.parse().map_err(named)?),
            "loss" => self.loss = Some(value.parse().map_err(named)?),
            "ack_loss" | "ack-loss" => self.ack_loss = Some(value.parse().map_err(named)?),
            "link" => self.link = Some(value.parse().map_err(named)?),
            _ => {
                let near = nearest(key, KEYS).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
                return Err(TextError(format!("nothing called {key:?} can change{near}; write {FORM}")));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            write!(f, "{}{step}", if index > 0 { ";" } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |key: &str, value: Option<String>| value.map(|value| format!("{key}={value}"));
        let changes: Vec<String> = [
            show("link", self.link.map(|link| link.to_string())),
            show("rate", self.rate.map(|rate| rate.to_string())),
            show("rtt", self.rtt.map(|rtt| rtt.to_string())),
            show("buffer", self.buffer.map(|buffer| buffer.to_string())),
            show("loss", self.loss.map(|loss| loss.to_string())),
            show("ack_loss", self.ack_loss.map(|loss| loss.to_string())),
        ]
        .into_iter()
        .flatten()
        .collect();
        write!(f, "{}:{}", self.at, changes.join(","))
    }
}

as_text!(Schedule, "changes of the path as TIME:KEY=VALUE,…;…", ["20s:rate=20mbit;40s:rate=10mbit,rtt=80ms"]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_model_with_commas_stays_in_one_piece() {
        let schedule: Schedule = "5s:loss=ge:1%,10%,rate=2mbit; 1s:rtt=80ms".parse().unwrap();
        assert_eq!(schedule.to_string(), "1s:rtt=80ms;5s:rate=2mbit,loss=ge:1%,10%,100%,0%");
    }

    #[test]
    fn a_step_that_changes_nothing_is_refused() {
        for text in ["5s", "5s:", "5s:link=2", "rate=5mbit", "5s:colour=red"] {
            assert!(text.parse::<Schedule>().is_err(), "{text}");
        }
    }
}
