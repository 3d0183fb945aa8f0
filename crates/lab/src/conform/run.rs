//! Runs a case in a cell: its path and script resolved, simulated, and judged.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::Arc;

use bbrlab_core::{AlgorithmConfig, NANOS_PER_SEC, ParamError, Rate, Span, Time};
use rayon::prelude::*;

use super::file::{Case, CueSpec};
use super::{CaseOutcome, Cell, CellOutcome, ConformError, judge, page};
use crate::expect::{Measurer, RunSet, RunView};
use bbrlab_sim::engine::run_scripted;
use bbrlab_sim::engine::script::{Action, Cue, Script};
use bbrlab_sim::link::{AckAggregation, Buffer, Policer};
use bbrlab_sim::setup::{ChangeKind, FlowSetup, Setup, Traffic};

/// An application that is the limit writes so often in a round trip, where its packets allow. Ours.
const WRITES_PER_ROUND: f64 = 8.0;
/// A pause has no end of its own.
const FOREVER: Span = Span::secs(1_000_000);

/// Evaluates a case's expressions before there is a run.
struct Scales {
    measurer: Measurer,
    values: Vec<(String, f64)>,
    mss: u32,
    /// Round-trip time of an idle path, seconds.
    round_s: f64,
}

impl Scales {
    fn number(&self, expression: &str) -> Result<f64, String> {
        let value = self.measurer.measure_with(expression, None, &self.values)?;
        if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(format!("{expression:?} is {value} here")) }
    }

    fn span(&self, expression: &str) -> Result<Span, String> {
        Ok(Span::nanos((self.number(expression)? * NANOS_PER_SEC as f64).round() as u64))
    }

    fn rate(&self, expression: &str) -> Result<Rate, String> {
        Ok(Rate::bits_per_sec(self.number(expression)?.round().max(1.0) as u64))
    }

    /// An application that writes whole packets at a rate, several times a round where they allow.
    fn traffic(&self, expression: &str) -> Result<Traffic, String> {
        if expression == "bulk" {
            return Ok(Traffic::Bulk);
        }
        let rate = self.number(expression)?;
        if rate <= 0.0 {
            return Ok(Traffic::Rate { rate: Rate::bits_per_sec(0), tick: FOREVER, unit: self.mss });
        }
        let packet_s = f64::from(self.mss) * 8.0 / rate;
        let packets = (self.round_s / WRITES_PER_ROUND / packet_s).floor().max(1.0);
        let tick = Span::nanos((packets * packet_s * NANOS_PER_SEC as f64).ceil() as u64);
        Ok(Traffic::Rate { rate: Rate::bits_per_sec(rate.round() as u64), tick, unit: self.mss })
    }
}

/// The path and the flow.
fn setup(case: &Case, config: AlgorithmConfig, scales: &Scales, cell: &Cell) -> Result<Setup, String> {
    let path = &case.path;
    let mut flow = FlowSetup::bulk(config.name(), config);
    flow.mss = scales.mss;
    if let Some(write) = &path.write {
        flow.traffic = scales.traffic(write)?;
    }
    let buffer = Buffer::Bytes(scales.number(&path.buffer)?.round() as u64);
    let (rate, rtt, duration) = (scales.rate(&path.rate)?, scales.span(&path.rtt)?, scales.span(&case.duration)?);
    let mut setup = Setup::one_link(rate, rtt, buffer, duration, vec![flow]);
    if let Some(hold) = &path.hold_acks {
        setup.path.ack_aggregation = AckAggregation::Time(scales.span(hold)?);
    }
    if let (Some(rate), Some(burst)) = (&path.policer_rate, &path.policer_burst) {
        let burst = scales.number(burst)?.round() as u64;
        setup.links[0].policer = Some(Policer { rate: scales.rate(rate)?, burst });
    }
    setup.seed = cell.rate.rotate_left(20).wrapping_add(cell.rtt_ns).wrapping_add(u64::from(case.number));
    Ok(setup)
}

fn cue(spec: &CueSpec, scales: &Scales) -> Result<Cue, String> {
    let (out_of, entered, nth) = spec.moment()?;
    let after = spec.after.as_ref().map_or(Ok(Span::ZERO), |after| scales.span(after))?;
    let what = if let Some(rate) = &spec.rate {
        Action::Path(ChangeKind::Rate(scales.rate(rate)?))
    } else if let Some(rtt) = &spec.rtt {
        Action::Path(ChangeKind::Rtt(scales.span(rtt)?))
    } else if let Some(n) = &spec.lose_every {
        Action::LoseEvery(scales.number(n)?.round() as u32)
    } else if let Some(write) = &spec.write {
        Action::Traffic(scales.traffic(write)?)
    } else if let Some(hold) = &spec.hold_acks {
        Action::HoldAcks(AckAggregation::Time(scales.span(hold)?))
    } else if let Some(detour) = &spec.detour {
        Action::Detour(scales.span(detour)?)
    } else {
        Action::End
    };
    Ok(Cue { entered, out_of, nth, after, what })
}

fn scales(case: &Case, algorithm: &str, cell: &Cell) -> Result<Scales, String> {
    let measurer = Measurer::new(Arc::new(RunSet::default()));
    let values_at = |mss: u32| {
        let mut values = cell.variables(mss);
        values.extend(case.constants_of(algorithm));
        values
    };
    // The run's length decides on the size of packets, which may change its length: the smallest packets say how long.
    let longest = measurer.measure_with(&case.duration, None, &values_at(cell.mss(0.0)))?;
    let mss = cell.mss(longest);
    let values = values_at(mss);
    let round_s = cell.rtt_ns as f64 * 1e-9 + f64::from(mss) * 8.0 / cell.rate as f64;
    Ok(Scales { measurer, values, mss, round_s })
}

/// Runs one case with one algorithm in one cell; the outcome holds a figure if it fails, and with `draw` in any case.
pub fn run_cell(case: &Case, algorithm: &str, cell: Cell, draw: bool) -> Result<CellOutcome, ConformError> {
    let (mut outcome, run) = run_view(case, algorithm, cell)?;
    if draw || outcome.verdict() == super::Verdict::Fails {
        outcome.figure = Some(page::trace_figure(case, algorithm, &cell, &run));
    }
    Ok(outcome)
}

/// The same with the run itself, for those who want to look at it.
pub fn run_view(case: &Case, algorithm: &str, cell: Cell) -> Result<(CellOutcome, RunView), ConformError> {
    let fault = |error: String| ConformError(format!("case {}, {algorithm}, {cell}: {error}", case.id()));
    let mut config = AlgorithmConfig::named(algorithm)
        .ok_or_else(|| fault(format!("no algorithm {algorithm:?}; see `bbrlab list algorithms`")))?;
    for (name, value) in &case.set {
        match config.set(name, value) {
            Ok(()) | Err(ParamError::Unknown) => {}
            Err(error) => return Err(fault(format!("set: {name} = {value:?} is {error}"))),
        }
    }
    let scales = scales(case, algorithm, &cell).map_err(fault)?;
    let mut setup = setup(case, config, &scales, &cell).map_err(fault)?;
    let cues = case.cue.iter().map(|spec| cue(spec, &scales).map_err(|error| format!("cue at {:?}: {error}", spec.at)));
    let script = Script { cues: cues.collect::<Result<_, _>>().map_err(fault)?, record: true };
    let output = run_scripted(&setup, &script);
    // The run may have ended by its script.
    setup.duration = output.trace.t_ns.last().map_or(setup.duration, |t| Time::nanos(*t));
    let run = RunView::new("", Arc::new(setup), Arc::new(output));
    let seen = judge::judge(case, algorithm, &run, &scales.values);
    Ok((CellOutcome { cell, mss: scales.mss, simulated_s: run.duration_s(), seen, figure: None }, run))
}

/// Runs cases with algorithms over cells, on all cores; outcomes stand in the order of the algorithms, then of the cases.
/// `shown` is the cell of which a figure is drawn also where nothing fails.
pub fn run_all(
    cases: &[Case],
    algorithms: &[String],
    cells: &[Cell],
    shown: Option<Cell>,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<CaseOutcome>, ConformError> {
    let mut outcomes: Vec<CaseOutcome> = algorithms
        .iter()
        .flat_map(|algorithm| {
            cases.iter().map(move |case| CaseOutcome {
                case: case.clone(),
                algorithm: algorithm.clone(),
                not: case.not_for(algorithm),
                cells: Vec::new(),
            })
        })
        .collect();
    let wanted = outcomes.iter().enumerate().filter(|(_, outcome)| outcome.not.is_none());
    let work: Vec<(usize, Cell)> = wanted.flat_map(|(i, _)| cells.iter().map(move |cell| (i, *cell))).collect();
    let one = |(index, cell): &(usize, Cell)| {
        let outcome = &outcomes[*index];
        let done = run_cell(&outcome.case, &outcome.algorithm, *cell, shown == Some(*cell));
        progress();
        done.map(|done| (*index, done))
    };
    let done: Vec<(usize, CellOutcome)> = work.par_iter().with_max_len(1).map(one).collect::<Result<_, _>>()?;
    for (index, cell) in done {
        outcomes[index].cells.push(cell);
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conform::{Verdict, cases, grid};

    #[test]
    fn every_case_can_be_measured_and_holds_in_the_middle_of_the_grid() {
        let cell: Cell = "20mbit/100ms".parse().unwrap();
        for case in cases() {
            let outcome = run_cell(&case, "bbr3", cell, true).unwrap();
            let faults: Vec<_> = outcome.seen.iter().filter(|seen| seen.verdict == Verdict::Fails).collect();
            assert!(faults.is_empty(), "case {}: {faults:?}", case.id());
            assert!(outcome.verdict() == Verdict::Holds && outcome.figure.is_some(), "case {}", case.id());
        }
    }

    #[test]
    fn outcomes_stand_in_the_order_of_the_cells_whatever_the_number_of_threads() {
        let case: Vec<Case> = cases().into_iter().filter(|case| case.number == 3).collect();
        let cells: Vec<Cell> = grid().into_iter().filter(|cell| cell.rate <= 1_000_000).collect();
        let outcome = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let algorithms = ["bbr3".to_owned()];
            pool.install(|| run_all(&case, &algorithms, &cells, None, &|| {})).unwrap().remove(0).cells
        };
        let one = outcome(1);
        assert_eq!(one.iter().map(|outcome| outcome.cell).collect::<Vec<_>>(), cells);
        assert_eq!(format!("{one:?}"), format!("{:?}", outcome(3)));
    }
}
