//! Events in an algorithm's life that a log covers, so that "equal" states its coverage.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::Record;
use super::field::{Field, Kind};
use super::kernel_bbr::KernelBbr;

/// Names the events in a call of a BBR flow.
pub fn of_bbr(record: &Record, kind: Kind) -> Vec<&'static str> {
    let mut events: Vec<&'static str> = of_stack(record, kind).collect();
    if kind == Kind::CongControl {
        let state = KernelBbr::read(record);
        events.push(state.mode_name());
        let seen = [
            (state.lt_use_bw, "policed rate in use"),
            (state.packet_conservation, "packet conservation"),
            (record.get(Field::RsFlags) & 1 != 0, "app-limited sample"),
            (record.get_positive(Field::RsLosses).is_some_and(|losses| losses > 0), "ACKs that report a loss"),
        ];
        events.extend(seen.into_iter().filter(|(is, _)| *is).map(|(_, name)| name));
    }
    events
}

/// Names the events in a call of a CUBIC flow.
pub fn of_cubic(record: &Record, kind: Kind) -> Vec<&'static str> {
    let mut events: Vec<&'static str> = of_stack(record, kind).collect();
    if kind == Kind::CongAvoid {
        let in_slow_start = record.get(Field::Cwnd) < record.get(Field::Ssthresh);
        events.push(if in_slow_start { "slow start" } else { "congestion avoidance" });
    }
    if kind == Kind::PktsAcked && record.get(Field::Ssthresh) != record.get(Field::SsthreshAfter) {
        events.push("HyStart ends slow start");
    }
    events
}

fn of_stack(record: &Record, kind: Kind) -> impl Iterator<Item = &'static str> {
    let first = record.get(Field::ArgA);
    let name = match kind {
        Kind::Ssthresh => Some("loss episode begins"),
        Kind::Undo => Some("undo"),
        Kind::SetState if first == super::bbr::LOSS => Some("time-out"),
        Kind::CwndEvent if first == super::bbr::TX_START && record.get(Field::AppLimited) != 0 => {
            Some("restart from idle")
        }
        _ => None,
    };
    name.into_iter()
}
