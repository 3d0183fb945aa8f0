//! Random scenarios for `bbrlab validate --random`: drawn from a seed, each determined by its number alone.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Rng;
use bbrlab_sim::scenario::arrivals::uniform;
use bbrlab_sim::scenario::{Scenario, ScenarioError};

use super::{Cell, GOODPUT, RTT_P50, Row};

/// Tolerance for a metric.
const WITHIN: f64 = 0.05;
/// Allowed share of metrics outside the tolerance.
const OUTSIDE: f64 = 0.05;
/// Maximum amount that a run carries, in full packets, so that none takes long.
const PACKETS: f64 = 400_000.0;
/// Smallest buffer with RED, packets.
const RED_MIN: f64 = 50.0;
/// Bits of a full packet on the wire.
const PACKET_BITS: f64 = 1514.0 * 8.0;

/// Draws scenario number `nth` of `seed`: rates of 1 to 500 Mbit/s, 2 to 300 ms, .1 to 8 BDP, one flow or several, equal or not,
/// on hosts that differ; with or without random loss, a queue discipline, lost or held ACKs, a link of the reverse direction, a
/// changing rate or RTT.
pub fn scenario(seed: u64, nth: u64) -> Result<Scenario, ScenarioError> {
    let rng = &mut Rng::derive(seed, nth);
    let rate = by_ratio(rng, 1e6, 500e6);
    let rtt_ms = by_ratio(rng, 2.0, 300.0);
    let buffer = by_ratio(rng, 0.1, 8.0);
    let seconds = (PACKETS * PACKET_BITS / rate).clamp(15.0, 40.0);
    let mut scenario = Scenario::default();
    let mut name = format!("{nth}: {:.3} Mbit/s, {rtt_ms:.1} ms, {buffer:.2} BDP", rate / 1e6);
    let mut set = |key: &str, text: String| {
        if !matches!(key, "rate" | "rtt" | "buffer" | "duration" | "warmup" | "sample") {
            name += &format!(", {key} {text}");
        }
        scenario.set(key, &text)
    };
    set("rate", format!("{}bit", rate.round()))?;
    set("rtt", format!("{}us", (rtt_ms * 1e3).round()))?;
    // At least four packets: a smaller buffer is a case of its own.
    let packets = (buffer * rate * rtt_ms / 1e3 / PACKET_BITS).round().max(4.0);
    set("buffer", format!("{packets}p"))?;
    set("duration", format!("{}ms", (seconds * 1e3).round()))?;
    set("warmup", "3s".to_owned())?;
    set("sample", "0s".to_owned())?;
    const KINDS: [&str; 3] = ["bbr1", "cubic", "reno"];
    for _ in 0..1 + rng.below(3) {
        let kind = KINDS[rng.below(3) as usize];
        let count = [1, 1, 2, 5][rng.below(4) as usize];
        let host = match rng.below(10) {
            0 if kind != "bbr1" => ",pacing=on".to_owned(),
            0 | 1 => ",tso=off".to_owned(),
            2 => ",rwnd=auto".to_owned(),
            3 => format!(",rtt={:.0}us", rtt_ms * 1e3 * by_ratio(rng, 0.3, 3.0)),
            4 => format!(",mss={}", [536, 1200, 1460][rng.below(3) as usize]),
            5 => format!(
                ",request={}kB/{}ms",
                [20, 200, 1000][rng.below(3) as usize],
                [50, 300, 1500][rng.below(3) as usize]
            ),
            _ => String::new(),
        };
        set("flow", format!("{kind}*{count}{host}"))?;
    }
    const QUEUES: [&str; 6] = ["codel", "fq_codel", "pie", "cake", "fq", "red"];
    match rng.below(12) {
        0 | 1 => set("loss", format!("{:.5}", by_ratio(rng, 1e-4, 0.05)))?,
        2 => set("ack_loss", format!("{:.4}", by_ratio(rng, 0.01, 0.3)))?,
        3 | 4 => match QUEUES[rng.below(QUEUES.len() as u64) as usize] {
            "red" if packets < RED_MIN => {} // `tc` finds no parameters for it
            queue => set("aqm", queue.to_owned())?,
        },
        5 => set("ack_aggregation", format!("{}ms", 1 + rng.below(20)))?,
        6 => set("schedule", format!("{:.0}ms:rate={:.0}bit", seconds * 500.0, rate * by_ratio(rng, 0.3, 3.0)))?,
        7 => set("schedule", format!("{:.0}ms:rtt={:.0}us", seconds * 500.0, rtt_ms * 1e3 * by_ratio(rng, 0.4, 3.0)))?,
        8 => set("up", format!("rate={:.0}bit,buffer={}p", rate * by_ratio(rng, 0.01, 0.3), 20 + rng.below(200)))?,
        _ => {}
    }
    scenario.name = name;
    Ok(scenario)
}

/// Draws a value between two bounds, log-uniformly.
fn by_ratio(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low * (high / low).powf(uniform(rng))
}

/// Requirement on drawn scenarios: nearly all agree closely in goodput and in the median RTT.
pub fn judge(cells: &[Cell]) -> Vec<Row> {
    [(GOODPUT, "goodput"), (RTT_P50, "RTT p50")]
        .map(|(figure, what)| {
            let mut off: Vec<(f64, &str)> =
                cells.iter().map(|cell| ((cell.figures[figure].ratio - 1.0).abs(), cell.name.as_str())).collect();
            off.sort_by(|a, b| b.0.total_cmp(&a.0));
            let outside = off.iter().filter(|(off, _)| off.is_nan() || *off > WITHIN).count();
            let share = outside as f64 / off.len().max(1) as f64;
            Row {
                what: format!("{what}: share of the scenarios that are more than {WITHIN} off"),
                limit: OUTSIDE,
                measured: share,
                holds: share <= OUTSIDE,
                worst: off.iter().take(3).map(|(off, name)| format!("{name} ({off:.3})")).collect(),
            }
        })
        .to_vec()
}

#[cfg(test)]
mod tests {
    use super::super::Compared;
    use super::*;

    #[test]
    fn every_drawn_scenario_resolves_and_comes_back_with_its_number() {
        for nth in 0..300 {
            let drawn = scenario(5, nth).unwrap();
            drawn.resolve().unwrap_or_else(|error| panic!("{}: {error}", drawn.name));
            assert_eq!(drawn, scenario(5, nth).unwrap());
        }
        assert_ne!(scenario(5, 1).unwrap(), scenario(6, 1).unwrap());
    }

    #[test]
    fn one_in_twenty_may_be_off_and_what_cannot_be_compared_is_off() {
        let cell = |ratio: f64| {
            let one = Compared { sim: 1.0, real: 1.0, ratio, low: ratio, high: ratio };
            Cell { name: format!("{ratio}"), figures: vec![one; super::super::FIGURES.len()] }
        };
        let mut cells = vec![cell(1.01); 20];
        cells[3] = cell(1.2);
        assert!(judge(&cells).iter().all(|row| row.holds));
        cells[4] = cell(f64::NAN);
        assert!(judge(&cells).iter().all(|row| !row.holds));
    }
}
