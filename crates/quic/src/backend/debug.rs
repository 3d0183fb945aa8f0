//! Parser of the `Debug` output of stacks' own controllers, the only access to their models.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::{self, Debug, Write};
use std::time::Instant;

use bbrlab_core::State;
use bbrlab_sim::record::trace::ModelSample;

/// Start of the packet list in the output of noq's `Bbr3`, which is long.
pub const NOQ_PACKETS: &str = " packets: [";
/// Field of quinn's `Bbr` after the last that is read.
pub const QUINN_LAST: &str = " high_gain: ";
/// Minimum window in both stacks' BBRs. Source: theirs, `MIN_PIPE_CWND_PACKETS` and `min_pipe_cwnd`.
const FLOOR: f64 = 4.0;
/// Addition to BBRInflight in PROBE_UP. Source: theirs, `quantization_budget`.
const UP_EXTRA: f64 = 2.0;
/// Share of the long-term bound that is left free. Source: theirs, `HEADROOM`.
const HEADROOM: f64 = 0.15;

/// Collects text until it contains `end`, then stops the formatting.
struct Head<'e> {
    text: String,
    end: &'e str,
}

impl Write for Head<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.text.push_str(part);
        let from = self.text.len().saturating_sub(part.len() + self.end.len());
        let is_there = self.text.as_bytes()[from..].windows(self.end.len()).any(|window| window == self.end.as_bytes());
        if is_there { Err(fmt::Error) } else { Ok(()) }
    }
}

/// Returns a value's `Debug` output up to `end`.
pub fn head(value: &dyn Debug, end: &str) -> String {
    let mut head = Head { text: String::new(), end };
    // The error only ends the formatting.
    let _ = write!(head, "{value:?}");
    head.text
}

/// Returns the text after `name: `, up to the next comma or bracket.
pub fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let key = format!(" {name}: ");
    let at = text.find(&key)? + key.len();
    let rest = &text[at..];
    Some(&rest[..rest.find([',', '}', '{']).unwrap_or(rest.len())])
}

/// Parses the state of noq's `Bbr3`.
pub fn noq_state(text: &str) -> Option<State> {
    Some(match field(text, "state")? {
        "Startup" => State::Startup,
        "Drain" => State::Drain,
        "ProbeBw(Down)" => State::ProbeBwDown,
        "ProbeBw(Cruise)" => State::ProbeBwCruise,
        "ProbeBw(Refill)" => State::ProbeBwRefill,
        "ProbeBw(Up)" => State::ProbeBwUp,
        "ProbeRtt" => State::ProbeRtt,
        _ => return None,
    })
}

/// Parses the state of quinn's `Bbr`.
pub fn quinn_state(text: &str) -> Option<State> {
    Some(match field(text, "mode")? {
        "Startup" => State::Startup,
        "Drain" => State::Drain,
        "ProbeBw" => match field(text, "pacing_gain")? {
            "1.25" => State::ProbeBwUp,
            "0.75" => State::ProbeBwDown,
            _ => State::ProbeBwCruise,
        },
        "ProbeRtt" => State::ProbeRtt,
        _ => return None,
    })
}

/// Returns the text after `key`.
fn after<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    Some(&text[text.find(key)? + key.len()..])
}

/// Parses the number at the start of a text.
fn number(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '-')).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// Parses a `Duration` as seconds.
fn seconds(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let (value, unit): (f64, _) = (text[..end].parse().ok()?, &text[end..]);
    let scale = [("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    scale.into_iter().find(|(name, _)| unit.starts_with(name)).map(|(_, scale)| value * scale)
}

/// Parses an `Instant` as seconds from an origin of its own.
fn instant(text: &str) -> Option<f64> {
    Some(number(after(text, "tv_sec: ")?)? + number(after(text, "tv_nsec: ")?)? * 1e-9)
}

fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}

/// Converts bytes to packets; the largest number means no bound.
fn bound(bytes: f64, mss: f64) -> f64 {
    if bytes >= u64::MAX as f64 { f64::INFINITY } else { bytes / mss }
}

/// Computes BBRInflight(1.0) and the long-term bound minus its headroom as the stacks' functions do, since neither stack stores them.
fn targets(internals: ModelSample, is_up: bool) -> ModelSample {
    let need = internals.bdp.max(3.0 * internals.send_quantum).max(FLOOR);
    let extra = if is_up { UP_EXTRA } else { 0.0 };
    let headroom = ((1.0 - HEADROOM) * internals.inflight_longterm).max(FLOOR);
    ModelSample { inflight_target: need + extra, inflight_headroom: headroom, ..internals }
}

/// Parses the model of noq's `Bbr3`. Fields after its packets are read if `text` includes them.
pub fn noq_inside(text: &str, origin: Instant) -> ModelSample {
    let get = |name: &str| field(text, name).and_then(number).unwrap_or(f64::NAN);
    let is = |name: &str| field(text, name).map_or(f64::NAN, |value| flag(value == "true"));
    let mss = get("smss");
    let span = |name: &str| field(text, name).and_then(seconds).unwrap_or(f64::NAN);
    let stamp = after(text, " probe_rtt_min_stamp: Some(").and_then(instant);
    let began = instant(&format!("{origin:?}"));
    let internals = ModelSample {
        pacing_gain: get("pacing_gain"),
        cwnd_gain: get("cwnd_gain"),
        max_bw: get("max_bw") * 8.0,
        bw_shortterm: get("bw_shortterm") * 8.0,
        inflight_longterm: bound(get("inflight_longterm"), mss),
        inflight_shortterm: bound(get("inflight_shortterm"), mss),
        bdp: get("bdp") / mss,
        extra_acked: get("extra_acked") / mss,
        send_quantum: get("send_quantum") / mss,
        full_bw_count: get("full_bw_count"),
        full_bw_now: is("full_bw_now"),
        full_bw_reached: is("full_bw_reached"),
        round: get("round_count"),
        rounds_since_probe: get("rounds_since_bw_probe"),
        probe_wait_s: span("bw_probe_wait"),
        probe_rtt_stamp_s: stamp.zip(began).map_or(f64::NAN, |(stamp, began)| stamp - began),
        idle_restart: is("idle_restart"),
        app_limited: flag(get("app_limited") > 0.0),
        ..ModelSample::UNKNOWN
    };
    targets(internals, text.contains(" state: ProbeBw(Up)"))
}

/// Parses the model of s2n-quic's `BbrCongestionController`. It has no flag for a pipe that is full now, and does not include its gains.
pub fn s2n_inside(text: &str) -> ModelSample {
    let part = |key: &str| after(text, key).unwrap_or("");
    let get = |text: &str, key: &str| after(text, key).and_then(number).unwrap_or(f64::NAN);
    let bits = |text: &str, key: &str| 8.0 * 1024.0 * 1e9 / get(after(text, key).unwrap_or(""), "nanos_per_kibibyte: ");
    let mss = get(text, " max_datagram_size: ");
    let (rate, volume) = (part(" data_rate_model: "), part(" data_volume_model: "));
    let min_rtt =
        after(volume, " min_rtt: WindowedFilter { current_value: Some(").and_then(seconds).unwrap_or(f64::NAN);
    let max_bw = bits(rate, "max_bw_filter: ");
    let probe_rtt = after(volume, "last_updated: Some(Timestamp(").and_then(timestamp);
    let phase = part("state: ProbeBw(");
    let internals = ModelSample {
        max_bw,
        bw_shortterm: bits(rate, " bw_lo: "),
        inflight_longterm: bound(get(volume, " inflight_hi: "), mss),
        inflight_shortterm: bound(get(volume, " inflight_lo: "), mss),
        bdp: max_bw / 8.0 * min_rtt / mss,
        extra_acked: get(volume, "extra_acked_filter: WindowedFilter { current_value: Some(") / mss,
        send_quantum: get(text, " send_quantum: ") / mss,
        full_bw_count: get(text, " full_bw_count: Counter("),
        full_bw_reached: flag(part(" filled_pipe: ").starts_with("true")),
        round: get(text, " round_count: "),
        rounds_since_probe: get(phase, " rounds_since_bw_probe: Counter("),
        probe_wait_s: after(phase, " bw_probe_wait: ").and_then(seconds).unwrap_or(f64::NAN),
        probe_rtt_stamp_s: probe_rtt.unwrap_or(f64::NAN),
        idle_restart: flag(part(" idle_restart: ").starts_with("true")),
        app_limited: flag(part(" app_limited_delivered_bytes: ").starts_with("Some")),
        ..ModelSample::UNKNOWN
    };
    targets(internals, phase.starts_with("State { cycle_phase: Up"))
}

/// Parses an s2n-quic `Timestamp`, `0:01:02.345678`, as seconds.
fn timestamp(text: &str) -> Option<f64> {
    let text = &text[..text.find(')')?];
    text.split(':').try_fold(0.0, |sum, part| Some(sum * 60.0 + part.parse::<f64>().ok()?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noq_proto::congestion::{Bbr3Config, ControllerFactory};

    use super::*;

    #[test]
    fn the_state_of_noqs_bbr_is_read_from_what_it_prints() {
        #[expect(clippy::disallowed_methods, reason = "an origin to count from")]
        let now = std::time::Instant::now();
        let controller = Arc::new(Bbr3Config::default()).build(now, 1_200);
        let text = head(&controller, "undo_state");
        assert_eq!(noq_state(&text), Some(State::Startup), "{text}");
        assert!(text.len() < 2_000 && field(&text, "smss") == Some("1200"), "{text}");
        let own = quinn_proto::congestion::Bbr::new(Arc::default(), 1_200);
        assert_eq!(quinn_state(&head(&own, QUINN_LAST)), Some(State::Startup));
    }
}
