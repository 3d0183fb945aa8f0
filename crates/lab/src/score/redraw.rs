//! Scenario sets: set 0 is as written, every other one has rates, RTTs, buffers and losses drawn anew.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Rng;
use bbrlab_sim::metrics::fnv1a;

/// Ranges of the factors. Source: ours, as in the set on which the situations were first used.
const RATE: (f64, f64) = (0.6, 1.7);
const RTT: (f64, f64) = (0.6, 1.7);
const BUFFER: (f64, f64) = (0.6, 1.6);
const LOSS: (f64, f64) = (0.7, 1.4);

/// Factors of one case in one set.
#[derive(Clone, Debug)]
pub struct Draw {
    rate: f64,
    rtt: f64,
    buffer: f64,
    loss: f64,
}

impl Draw {
    /// Draws the factors of the n-th case of a criterion.
    pub fn new(set: u64, section: &str, nth: usize) -> Self {
        if set == 0 {
            return Self { rate: 1.0, rtt: 1.0, buffer: 1.0, loss: 1.0 };
        }
        let mut rng = Rng::derive(set, fnv1a(section.as_bytes()) ^ nth as u64);
        let mut within =
            |(low, high): (f64, f64)| low + (high - low) * rng.below(1 << 32) as f64 / (1_u64 << 32) as f64;
        Self { rate: within(RATE), rtt: within(RTT), buffer: within(BUFFER), loss: within(LOSS) }
    }

    /// Applies the factors to a scenario's keys. Buffers in packets or bytes, and paths by name, stay as written.
    pub fn redraw(&self, keys: &mut toml::Table) {
        for (key, value) in keys.iter_mut() {
            let toml::Value::String(text) = value else { continue };
            *text = match key.as_str() {
                "rate" => scaled(text, self.rate),
                "rtt" => scaled(text, self.rtt),
                "buffer" if text.ends_with("bdp") => scaled(text, self.buffer),
                "loss" if text.ends_with('%') && !text.contains(':') => scaled(text, self.loss),
                "policer" => within(text, "rate=", self.rate),
                "schedule" => within(&within(text, "rate=", self.rate), "rtt=", self.rtt),
                _ => continue,
            };
        }
    }

    /// Applies the factors to the options of a flow.
    pub(super) fn flow_keys(&self, keys: &str) -> String {
        within(&within(keys, "rate=", self.rate), "rtt=", self.rtt)
    }
}

/// Multiplies the number at the start of a text, and keeps its unit.
fn scaled(text: &str, factor: f64) -> String {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    match text[..end].parse::<f64>() {
        Ok(number) if (factor - 1.0).abs() > f64::EPSILON => {
            // Four digits, as a person would write it.
            let value = bbrlab_stats::number::significant(number * factor, 4);
            format!("{value}{}", &text[end..])
        }
        _ => text.to_owned(),
    }
}

/// Multiplies each number that follows a key in a text: `15s:rate=10mbit;30s:rate=50mbit`.
fn within(text: &str, key: &str, factor: f64) -> String {
    let mut parts = text.split(key);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out += key;
        out += &scaled(part, factor);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_0_is_as_written_and_another_set_is_the_same_each_time() {
        let keys: toml::Table =
            "rate = '50mbit'\nbuffer = '41p'\nloss = '1%'\nschedule = '15s:rate=10mbit;30s:rate=50mbit'"
                .parse()
                .unwrap();
        let drawn = |set| {
            let mut own = keys.clone();
            Draw::new(set, "5.1", 3).redraw(&mut own);
            own
        };
        assert_eq!(drawn(0), keys);
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
        assert_eq!(drawn(7)["buffer"], keys["buffer"]);
        let rate = drawn(7)["rate"].as_str().unwrap().to_owned();
        assert!(drawn(7)["schedule"].as_str().unwrap().ends_with(&format!("30s:rate={rate}")));
    }
}
