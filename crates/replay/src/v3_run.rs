//! A whole log of google/bbr v3: each line in order is passed to its flow, up to the first difference.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::{BTreeMap, VecDeque};

use super::compare::Unequal;
use super::v3::{HZ, V3Flow};
use super::v3_log::{Event, Fault, LineError, STATE_KEYS, parse};
use super::{CONTEXT, Difference, Header, Report};

/// First bytes of such a log.
pub const BEGINNING: &[u8] = b"V3";
/// `TCP_CA_Loss`.
const LOSS: u32 = 4;
/// The kernel's modes, by number.
const MODES: [&str; 4] = ["STARTUP", "DRAIN", "PROBE_BW", "PROBE_RTT"];

/// Header for such a log, which itself has no information on the kernel.
pub fn header() -> Header {
    Header { kernel: "google/bbr v3 on 6.12".to_owned(), situation: String::new(), hz: HZ }
}

/// A flow, and its last lines.
#[derive(Default)]
struct FlowState<'a> {
    flow: V3Flow,
    lines: VecDeque<(usize, &'a [u8])>,
}

impl<'a> FlowState<'a> {
    /// Keeps the newest lines, for a difference's context.
    fn tell(&mut self, line: usize, text: &'a [u8]) {
        if self.lines.len() == CONTEXT {
            self.lines.pop_front();
        }
        self.lines.push_back((line, text));
    }

    fn difference(&self, port: u16, line: usize, unequal: Unequal) -> Difference {
        let shown = |(line, text): &(usize, &[u8])| format!("{line} {}", String::from_utf8_lossy(text).trim());
        Difference {
            record: line,
            unit: "line",
            flow: port.into(),
            output: unequal.name,
            kernel: unequal.kernel,
            core: unequal.core,
            context: self.lines.iter().map(shown).collect(),
        }
    }
}

/// Replays a log of google/bbr v3's calls.
pub fn replay_v3(bytes: &[u8]) -> Result<Report, LineError> {
    let mut report = Report::default();
    let mut flows: BTreeMap<u16, FlowState<'_>> = BTreeMap::new();
    for (nth, text) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = nth + 1;
        let Some((port, event)) = parse(line, text)? else {
            continue;
        };
        let told = flows.entry(port).or_default();
        told.tell(line, text);
        let step = told.flow.step(port, event).map_err(|fault| LineError { line, fault })?;
        see(&mut report, &event);
        if let Some(unequal) = report.count(step) {
            report.difference = Some(told.difference(port, line, unequal));
            return Ok(report);
        }
    }
    let unknown = flows.iter().find(|(_, told)| !told.flow.has_begun());
    match unknown {
        Some((port, told)) => {
            let line = told.lines.back().map_or(0, |(line, _)| *line);
            Err(LineError { line, fault: Fault::NoBeginning(*port) })
        }
        None => Ok(report),
    }
}

/// Counts the event of this line, so that "equal" states its coverage.
fn see(report: &mut Report, event: &Event) {
    report.flows += u64::from(matches!(event, Event::Init(_)));
    report.acks += u64::from(matches!(event, Event::Ack(_)));
    report.calls += u64::from(!matches!(event, Event::State(_) | Event::Draw(_)));
    let mut seen = |name| *report.events.entry(name).or_default() += 1;
    match event {
        Event::Ack(acked) => {
            if acked.is_app_limited {
                seen("app-limited sample");
            }
            if acked.losses > 0 {
                seen("ACKs that report a loss");
            }
        }
        Event::State(state) => {
            debug_assert!(STATE_KEYS[0].0 == "m", "the mode comes first");
            seen(usize::try_from(state.values[0]).ok().and_then(|mode| MODES.get(mode)).copied().unwrap_or("?"));
        }
        Event::Lost(lost) if lost.packets > 1 => seen("super-packet marked lost"),
        Event::Lost(_) => seen("packet marked lost"),
        Event::TlpRecovery(_) => seen("loss repaired by a tail loss probe"),
        Event::Ssthresh(_) => seen("loss episode begins"),
        Event::Undo(_) => seen("undo"),
        Event::CaState(change) if change.new == LOSS => seen("time-out"),
        Event::TxStart(start) if start.is_app_limited => seen("restart from idle"),
        _ => {}
    }
}
