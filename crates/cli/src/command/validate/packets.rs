//! `bbrlab validate --packets`: compares one scenario in the simulator and on a real kernel, packet by packet.
//! Exit status 1 if a packet differs: the output names it, with its time, the difference, and the packets before it on
//! both sides.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write as _;
use std::path::PathBuf;

use bbrlab_core::{Span, Time};
use bbrlab_lab::BoxError;
use bbrlab_lab::session::Runner as _;
use bbrlab_lab::validate::packets::{self, Compared, Difference, DifferenceKind, PacketLine};
use bbrlab_sim::record::Output;
use bbrlab_sim::record::packets::{Direction, Packets, Tap};
use bbrlab_sim::scenario::{Backend, TimeSpan};
use bbrlab_sim::setup::{Capture, Setup};
use bbrlab_stats::plural::counted;

use super::ValidateArgs;
use crate::grid::{Align, aligned};
use crate::runner::Runner;
use crate::scenario::{load, trace_reader};
use crate::{Error, Verdict, print};

/// Maximum number of packets per run. Ours: about 200 MB, and a minute at 200 Mbit/s.
const LIMIT: usize = 2_000_000;

/// Runs the scenario on both sides and shows the first difference.
pub fn compare(args: &ValidateArgs, on: Backend) -> Result<Verdict, Error> {
    let within: TimeSpan = args.within.parse().map_err(Error::flag("--within"))?;
    let within = Span::nanos(within.0);
    if let [_, second, ..] = args.files.as_slice() {
        let rule = "one scenario at a time";
        return Err(Error::PathRule { flag: "--packets", path: second.clone(), rule });
    }
    let seed = args.seed.to_string();
    let keys = std::iter::once(("seed", seed.as_str())).chain(args.keys.overrides());
    let sourced = load(args.files.first().map(PathBuf::as_path), keys, &args.keys.flows())?;
    let (scenario, mut setup) = (sourced.scenario.filled(), sourced.resolve(&trace_reader)?);
    Runner::check(on, &setup)?;
    let real = Runner::of(on)?;
    setup.capture = Capture::On { limit: LIMIT, taps: &[Tap::Sender] };
    let (sim, real) = rayon::join(
        || Runner::simulator().run(&scenario, &setup, &mut |_| {}),
        || real.run(&scenario, &setup, &mut |_| {}),
    );
    let packets = |ran: Result<Output, BoxError>| ran.map(|output| output.packets).map_err(Error::Run);
    let (mut sim, mut real) = (packets(sim)?, packets(real)?);
    [&mut sim, &mut real].into_iter().for_each(packets::from_first);
    let end = setup.duration;
    let found = packets::compare(&sim, &real, end, within);
    print(&shown(args, &setup, [&sim, &real], &found))?;
    Ok(if found.is_equal() { Verdict::Holds } else { Verdict::Fails })
}

fn shown(args: &ValidateArgs, setup: &Setup, [sim, real]: [&Packets; 2], found: &Compared) -> String {
    let mut text = String::new();
    let with = args.with.as_str();
    let until = [sim.cut, real.cut]
        .into_iter()
        .flatten()
        .min()
        .map_or(String::new(), |cut| format!(", up to {}, when {LIMIT} packets were recorded", moment(cut)));
    let _ = writeln!(
        text,
        "{} in the simulator, {} on {with}; {} compared{until}; the same packet is at most {} apart",
        counted(sim.records.len(), "packet"),
        real.records.len(),
        counted(found.pairs, "pair"),
        span(found.farthest),
    );
    for (what, difference) in [("packet", &found.content), ("time", &found.time)] {
        let _ = match difference {
            None => writeln!(text, "first different {what}: none"),
            Some(difference) => writeln!(text, "first different {what}: {}", described(setup, difference, with)),
        };
    }
    if let Some(first) = found.first() {
        let _ = writeln!(text, "\nbefore it, and it:");
        let lines = |packets: &Packets, own| -> Vec<String> {
            packets::before(packets, first, own, args.context)
                .iter()
                .map(|packet| PacketLine(packet).to_string())
                .collect()
        };
        let (left, right) = (lines(sim, first.left), lines(real, first.right));
        let rows = left.len().max(right.len());
        // Both excerpts end with the differing packet.
        let at = |lines: &Vec<String>, row: usize| {
            (row + lines.len()).checked_sub(rows).and_then(|row| lines.get(row)).cloned().unwrap_or_default()
        };
        let rows = (0..rows).map(|row| vec![at(&left, row), at(&right, row)]);
        text.push_str(&aligned(&["sim", with], &[Align::Left, Align::Left], rows));
    }
    text
}

fn moment(at: Time) -> String {
    format!("{}.{:06} s", at.as_nanos() / 1_000_000_000, at.as_nanos() % 1_000_000_000 / 1000)
}

fn span(span: Span) -> String {
    format!("{}.{:03} µs", span.as_nanos() / 1000, span.as_nanos() % 1000)
}

fn described(setup: &Setup, difference: &Difference, with: &str) -> String {
    let name = setup.flows.get(difference.flow as usize).map_or("", |flow| flow.name.as_str());
    let what = if difference.dir == Direction::Data { "data packet" } else { "ACK" };
    let side =
        |packet: &Option<_>| packet.as_ref().map_or("nothing".to_owned(), |packet| PacketLine(packet).to_string());
    let apart = match (difference.kind, difference.left, difference.right) {
        (DifferenceKind::Time, Some(left), Some(right)) => {
            let later = if left.t_ns > right.t_ns { "sim" } else { with };
            format!(", {later} later by {}", span(Span::nanos(left.t_ns.abs_diff(right.t_ns))))
        }
        _ => String::new(),
    };
    format!(
        "at {}, {name}, {what} {}: sim {}; {with} {}{apart}",
        moment(difference.at()),
        difference.nth + 1,
        side(&difference.left),
        side(&difference.right),
    )
}
