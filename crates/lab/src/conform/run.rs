//! Execution of a case in a cell: path and script are resolved, simulated, and judged.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::Arc;

use bbrlab_core::{AlgorithmConfig, NANOS_PER_SEC, Rate, Span, State, Time, params::ParamError};
use rayon::prelude::*;

use super::file::{Case, TriggerSpec};
use super::{CaseOutcome, Cell, CellOutcome, Subject, Verdict, judge, page};
use crate::expect::columns::MODEL_COLUMNS;
use crate::expect::{Measurer, RunSet, RunView};
use crate::{Error, Result};

use bbrlab_sim::link::{AckAggregation, Buffer, Policer};
use bbrlab_sim::path::PathAction;
use bbrlab_sim::script::{Action, Script, StateMatch, Trigger};
use bbrlab_sim::setup::{ChangeKind, FlowSetup, Setup, Traffic};

/// Fixed delay of ACKs, Linux's least.
pub(super) const DELAYED_ACK: Span = Span::millis(40);
/// Writes per round trip of an application-limited flow, where its packets allow. Ours.
const WRITES_PER_ROUND: f64 = 8.0;
/// Parameter by which cases suppress ProbeRTT.
const PROBE_RTT_INTERVAL: &str = "probe_rtt_interval";
/// Length of a pause without an end.
const FOREVER: Span = Span::secs(1_000_000);

/// Evaluates a case's expressions before the run.
pub(super) struct Scales {
    measurer: Measurer,
    values: Vec<(String, f64)>,
    mss: u32,
    /// Round-trip time of an idle path, seconds.
    round_s: f64,
}

impl Scales {
    fn number(&self, expression: &str) -> Result<f64> {
        let value = self.measurer.measure_with(expression, None, &self.values)?;
        if value.is_finite() && value >= 0.0 {
            Ok(value)
        } else {
            Err(Error::Value { expression: expression.to_owned(), value })
        }
    }

    fn span(&self, expression: &str) -> Result<Span> {
        Ok(Span::nanos((self.number(expression)? * NANOS_PER_SEC as f64).round() as u64))
    }

    fn rate(&self, expression: &str) -> Result<Rate> {
        Ok(Rate::bits_per_sec(self.number(expression)?.round().max(1.0) as u64))
    }

    /// Traffic of an application that writes whole packets at a rate, several times a round where packet size allows.
    fn traffic(&self, expression: &str) -> Result<Traffic> {
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

/// Builds the path and the flow.
pub(super) fn setup(case: &Case, subject: &Subject, scales: &Scales, cell: &Cell) -> Result<Setup> {
    let path = &case.path;
    let mut flow = FlowSetup::bulk(&subject.name, configured(case, subject)?);
    flow.peer = subject.stack.and_then(|stack| stack.peer);
    flow.mss = scales.mss;
    // At 64 kbit/s Linux's own timer grows to half a second, and a rate sample would measure it.
    flow.host.delayed_ack = Some(DELAYED_ACK);
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

fn cue(spec: &TriggerSpec, scales: &Scales) -> Result<Trigger> {
    let (out_of, entered, nth) = spec.state_match()?;
    let after = spec.after.as_ref().map_or(Ok(Span::ZERO), |after| scales.span(after))?;
    let what = if let Some(rate) = &spec.rate {
        Action::Path(PathAction::Change(ChangeKind::Rate(scales.rate(rate)?)))
    } else if let Some(rtt) = &spec.rtt {
        Action::Path(PathAction::Change(ChangeKind::Rtt(scales.span(rtt)?)))
    } else if let Some(n) = &spec.lose_every {
        Action::Path(PathAction::LoseEvery(scales.number(n)?.round() as u32))
    } else if let Some(write) = &spec.write {
        Action::Traffic(scales.traffic(write)?)
    } else if let Some(hold) = &spec.hold_acks {
        Action::Path(PathAction::HoldAcks(AckAggregation::Time(scales.span(hold)?)))
    } else if let Some(detour) = &spec.detour {
        Action::Path(PathAction::Detour(scales.span(detour)?))
    } else {
        Action::End
    };
    Ok(Trigger { entered, out_of, nth, after, what })
}

pub(super) fn scales(case: &Case, subject: &Subject, cell: &Cell) -> Result<Scales> {
    let measurer = Measurer::new(Arc::new(RunSet::default()));
    let values_at = |mss: u32| {
        let mut values = cell.variables(mss);
        values.extend(case.constants_of(&subject.algorithm));
        values
    };
    // The run's length determines the packet size, which may change the length; the smallest packets give the bound.
    let longest = measurer.measure_with(&case.duration, None, &values_at(cell.mss(0.0)))?;
    let mss = cell.mss(longest).min(subject.largest_packet());
    let values = values_at(mss);
    let round_s = cell.rtt_ns as f64 * 1e-9 + f64::from(mss) * 8.0 / cell.rate as f64;
    Ok(Scales { measurer, values, mss, round_s })
}

/// Algorithm with the case's parameters; a stack's own controller has none.
fn configured(case: &Case, subject: &Subject) -> Result<AlgorithmConfig> {
    let mut config = subject.config()?;
    for (name, value) in &case.set {
        match config.set(name, value) {
            Ok(()) | Err(ParamError::Unknown) => {}
            Err(source) => return Err(Error::Set { name: name.clone(), value: value.clone(), source }),
        }
    }
    Ok(config)
}

/// Script of a run. If the case suppresses ProbeRTT and a stack's own controller cannot, the run ends at ProbeRTT.
pub(super) fn script(case: &Case, subject: &Subject, scales: &Scales) -> Result<Script> {
    let cue = |spec: &TriggerSpec| cue(spec, scales).map_err(Error::at(format!("cue at {:?}", spec.at)));
    let mut cues = case.cue.iter().map(cue).collect::<Result<Vec<_>, _>>()?;
    if is_cut_by_probe_rtt(case, subject) {
        let entered = StateMatch::State(State::ProbeRtt);
        cues.push(Trigger { entered, out_of: None, nth: 1, after: Span::ZERO, what: Action::End });
    }
    Ok(Script { cues, record: true })
}

fn is_cut_by_probe_rtt(case: &Case, subject: &Subject) -> bool {
    subject.is_peer() && case.set.contains_key(PROBE_RTT_INTERVAL)
}

/// Runs one case with one subject in one cell; the outcome holds a figure if it fails, and with `draw` in any case.
pub fn run_cell(case: &Case, subject: &Subject, cell: Cell, draw: bool) -> Result<CellOutcome> {
    let (mut outcome, run) = run_view(case, subject, cell)?;
    if let Some(run) = run.filter(|_| draw || outcome.verdict() == Verdict::Fails) {
        outcome.figure = Some(page::trace_figure(case, &subject.name, &cell, &run));
    }
    Ok(outcome)
}

/// Like [`run_cell`], and returns the run for inspection; `None` if the stack gave up the connection.
pub fn run_view(case: &Case, subject: &Subject, cell: Cell) -> Result<(CellOutcome, Option<RunView>)> {
    let at = || Error::at::<Error>(format!("case {}, {}, {cell}", case.id(), subject.name));
    let scales = scales(case, subject, &cell).map_err(at())?;
    let mut setup = setup(case, subject, &scales, &cell).map_err(at())?;
    let script = script(case, subject, &scales).map_err(at())?;
    let outcome = |simulated_s, seen| CellOutcome { cell, mss: scales.mss, simulated_s, seen, figure: None };
    let output = match subject.play(&setup, &script) {
        Ok(output) => output,
        Err(what) => {
            let reason = format!("the stack aborted the connection: {what}");
            return Ok((outcome(0.0, judge::none_seen(case, &subject.algorithm, &reason)), None));
        }
    };
    // The script may have ended the run early.
    setup.duration = output.trace.t_ns.last().map_or(setup.duration, |t| Time::nanos(*t));
    let run = RunView::new("", Arc::new(setup), Arc::new(output));
    let mut seen = judge::judge(case, &subject.algorithm, &run, &scales.values, &unseen(subject, &run));
    let states = run.output.trace.flows.first().map_or(&[][..], |flow| &flow.states);
    let is_cut = is_cut_by_probe_rtt(case, subject) && states.iter().any(|(_, state)| *state == State::ProbeRtt);
    if is_cut && seen.iter().any(|seen| seen.verdict == Verdict::Fails) {
        let reason = format!("ProbeRTT ended the run, and {} has no parameter that postpones it", subject.name);
        seen = judge::none_seen(case, &subject.algorithm, &reason);
    }
    Ok((outcome(run.duration_s(), seen), Some(run)))
}

/// Columns that a stack's run left empty. The simulator exposes everything that an algorithm has.
fn unseen(subject: &Subject, run: &RunView) -> judge::EmptyColumns {
    if subject.stack.is_none() {
        return Vec::new();
    }
    let is_empty = |column: &&str| run.flow_column(0, column).is_ok_and(|values| values.iter().all(|v| v.is_nan()));
    let names = MODEL_COLUMNS.iter().map(|(name, _)| *name);
    names.filter(is_empty).map(|name| (name, subject.silence(name))).collect()
}

/// Runs cases with subjects over the cells of each, on all cores; outcomes are ordered by subject, then by case.
/// `shown` is a cell whose figure is drawn even if nothing fails.
pub fn run_all(
    cases: &[Case],
    subjects: &[Subject],
    shown: Option<Cell>,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<CaseOutcome>> {
    let pairs: Vec<(&Subject, &Case)> =
        subjects.iter().flat_map(|subject| cases.iter().map(move |case| (subject, case))).collect();
    let outcome = |(subject, case): &(&Subject, &Case)| CaseOutcome {
        case: (*case).clone(),
        algorithm: subject.name.clone(),
        not: subject.not(case),
        cells: Vec::new(),
    };
    let mut outcomes: Vec<CaseOutcome> = pairs.iter().map(outcome).collect();
    let wanted = pairs.iter().enumerate().filter(|(index, _)| outcomes[*index].not.is_none());
    let work: Vec<(usize, Cell)> =
        wanted.flat_map(|(index, (subject, _))| subject.cells.iter().map(move |cell| (index, *cell))).collect();
    let one = |(index, cell): &(usize, Cell)| {
        let (subject, case) = pairs[*index];
        let done = run_cell(case, subject, *cell, shown == Some(*cell));
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
    use bbrlab_sim::backend::Stack;
    use bbrlab_sim::setup::Peer;

    use super::*;
    use crate::conform::{ScriptRun, cases, grid};

    #[test]
    fn every_case_can_be_measured_and_holds_in_the_middle_of_the_grid() {
        let cell: Cell = "20mbit/100ms".parse().unwrap();
        let subject = Subject::simulated("bbr3", vec![cell]);
        for case in cases() {
            let outcome = run_cell(&case, &subject, cell, true).unwrap();
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
            let subjects = [Subject::simulated("bbr3", cells.clone())];
            pool.install(|| run_all(&case, &subjects, None, &|| {})).unwrap().remove(0).cells
        };
        let one = outcome(1);
        assert_eq!(one.iter().map(|outcome| outcome.cell).collect::<Vec<_>>(), cells);
        assert_eq!(format!("{one:?}"), format!("{:?}", outcome(3)));
    }

    fn in_stack(number: u32, play: ScriptRun) -> CellOutcome {
        let case = cases().into_iter().find(|case| case.number == number).unwrap();
        let cell: Cell = "20mbit/100ms".parse().unwrap();
        run_cell(&case, &Subject::hosted("s2n+bbr3", "bbr3", vec![cell], Stack::S2n, play), cell, false).unwrap()
    }

    #[test]
    fn every_check_of_an_aborted_connection_is_not_applicable() {
        let outcome = in_stack(1, |_, _, _| Err("too many gaps".into()));
        assert!(outcome.verdict() == Verdict::NotApplicable && outcome.seen.len() > 4);
        assert!(outcome.seen.iter().all(|seen| seen.reason.as_ref().is_some_and(|why| why.contains("too many gaps"))));
    }

    #[test]
    fn what_a_stack_does_not_show_neither_holds_nor_fails() {
        let outcome = in_stack(18, |_, setup, script| {
            let mut output = bbrlab_sim::engine::run_scripted(setup, script);
            output.trace.flows[0].internals.iter_mut().for_each(|row| row.undos = f64::NAN);
            Ok(output)
        });
        let undone = outcome.seen.iter().find(|seen| seen.what == "recoveries undone").unwrap();
        assert_eq!(undone.verdict, Verdict::NotApplicable);
        assert!(undone.reason.as_ref().is_some_and(|why| why.contains("spurious losses")), "{undone:?}");
        // Checks at the time of the undo are not measurable either.
        assert!(outcome.seen.iter().all(|seen| seen.verdict == Verdict::NotApplicable), "{outcome:?}");
    }

    #[test]
    fn a_probe_rtt_that_a_peer_cannot_postpone_ends_the_run_without_a_failure() {
        let play: ScriptRun = |_, setup, script| {
            let mut setup = setup.clone();
            (setup.flows[0].peer, setup.flows[0].algorithm) = (None, AlgorithmConfig::named("bbr3").unwrap());
            Ok(bbrlab_sim::engine::run_scripted(&setup, script))
        };
        let cell: Cell = "20mbit/100ms".parse().unwrap();
        let of = |number: u32| {
            let case = cases().into_iter().find(|case| case.number == number).unwrap();
            run_view(&case, &Subject::peer(Peer::ALL[0], vec![cell], play), cell).unwrap()
        };
        assert_eq!(of(1).0.verdict(), Verdict::Holds, "it is over before");
        let (outcome, run) = of(16);
        assert!(outcome.verdict() == Verdict::NotApplicable && run.is_some_and(|run| run.duration_s() < 8.0));
        assert!(outcome.seen[0].reason.as_ref().is_some_and(|why| why.contains("s2n:bbr has no parameter")));
    }
}
