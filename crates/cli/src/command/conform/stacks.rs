//! `bbrlab conform s2n:bbr s2n+bbr3`: algorithms in QUIC stacks, held to those of the draft's demands that a log can show.
//! The draft's test cases change the path at moments of the flow's own; these runs do not.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write;

use bbrlab_core::AlgorithmConfig;
use bbrlab_lab::conform::log::{self, FlowLog, Log};
use bbrlab_lab::conform::{Cell, Seen, Verdict as Met};
use bbrlab_lab::export::{Record, qlog};
use bbrlab_lab::session::World as _;
use bbrlab_lab::words::{counted, verb};
use bbrlab_sim::scenario::{On, Scenario};
use bbrlab_sim::setup::{Peer, Stack};
use rayon::prelude::*;

use super::{FAULTS_SHOWN, word};
use crate::Failure;
use crate::grid::{Align, aligned};
use crate::progress::Progress;
use crate::worlds::World;

/// Where a stack's own controller stands before the colon, ours stands before the plus.
const OURS: char = '+';
/// The cells that are run unless others are asked for: those of the grid's that a second's work can show.
const CELLS: [&str; 6] = ["1mbit/10ms", "1mbit/100ms", "20mbit/10ms", "20mbit/100ms", "500mbit/10ms", "500mbit/100ms"];
/// Random losses of each cell.
const LOSSES: [&str; 2] = ["0%", "1%"];
/// Long enough for four ProbeRTTs, and for twenty round trips beyond them. Ours.
const DURATION_S: f64 = 30.0;
const ROUNDS: f64 = 20.0;
/// The buffer: two BDPs, at least twenty packets. Ours.
const BUFFER_BDPS: f64 = 2.0;
const BUFFER_MIN: f64 = 20.0 * 1514.0;
/// Finer than any stay in a state.
const SAMPLE: &str = "2ms";

/// An algorithm in a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// As it was asked for.
    name: String,
    on: On,
    /// Its name as a flow's.
    cc: String,
}

impl Subject {
    /// What `s2n:bbr` or `s2n+bbr3` means; none: the name is of no stack's.
    pub fn named(name: &str) -> Option<Result<Self, Failure>> {
        if let Some(peer) = Peer::named(name) {
            return Some(Self::of(name, peer.stack.name(), name));
        }
        let (stack, algorithm) = name.split_once(OURS)?;
        Some(match AlgorithmConfig::named(algorithm) {
            Some(_) => Self::of(name, stack, algorithm),
            None => Err(format!("{name}: no algorithm {algorithm:?}; see `bbrlab list algorithms`")),
        })
    }

    fn of(name: &str, stack: &str, cc: &str) -> Result<Self, Failure> {
        let Some(on) = On::ALL.into_iter().find(|on| on.stack().is_some_and(|own| own.name() == stack)) else {
            return Err(format!("{name}: no QUIC stack {stack:?}; write s2n or noq, as in s2n+bbr3"));
        };
        if !cc.rsplit(':').next().is_some_and(|own| own.starts_with("bbr")) {
            return Err(format!("{name}: what the draft demands, it demands of BBR; name one, as in {stack}+bbr3"));
        }
        Ok(Self { name: name.to_owned(), on, cc: cc.to_owned() })
    }
}

/// One run with what it shows.
struct Run {
    subject: usize,
    path: String,
    flow: FlowLog,
    seen: Vec<Seen>,
}

/// All runs, in the order of the subjects, then of the cells.
pub struct Runs {
    subjects: Vec<Subject>,
    runs: Vec<Run>,
}

/// Runs each subject over each cell, without loss and with it.
pub fn run(subjects: Vec<Subject>, cells: &[Cell]) -> Result<Runs, Failure> {
    let cells: Vec<Cell> = if cells.is_empty() {
        CELLS.iter().map(|text| text.parse().map_err(|error| format!("{text}: {error}"))).collect::<Result<_, _>>()?
    } else {
        cells.to_vec()
    };
    if !cfg!(feature = "quic") {
        let name = subjects.first().map_or("", |subject| &subject.name);
        return Err(format!("{name}: this build has no QUIC; build with the feature quic"));
    }
    let worlds: Vec<World> = subjects
        .iter()
        .map(|subject| World::of(subject.on).map_err(|what| format!("{}: {what}", subject.name)))
        .collect::<Result<_, _>>()?;
    let paths = || cells.iter().flat_map(|cell| LOSSES.map(|loss| (*cell, loss)));
    let work: Vec<(usize, Cell, &str)> =
        (0..subjects.len()).flat_map(|index| paths().map(move |(cell, loss)| (index, cell, loss))).collect();
    let progress = Progress::new("conforming", work.len());
    let one = |&(subject, cell, loss): &(usize, Cell, &str)| {
        let done = play(&subjects[subject], &worlds[subject], cell, loss);
        progress.tick();
        done.map(|(flow, seen)| Run { subject, path: path(cell, loss), flow, seen })
    };
    let runs = work.par_iter().with_max_len(1).map(one).collect::<Result<_, _>>()?;
    Ok(Runs { subjects, runs })
}

fn path(cell: Cell, loss: &str) -> String {
    format!("{cell}, {loss} loss")
}

fn scenario(subject: &Subject, cell: Cell, loss: &str) -> Result<Scenario, Failure> {
    let rtt_s = cell.rtt_ns as f64 * 1e-9;
    let buffer = (BUFFER_BDPS * cell.rate as f64 * rtt_s / 8.0).max(BUFFER_MIN);
    let mut scenario = Scenario::default();
    for (key, value) in [
        ("on", subject.on.name().to_owned()),
        ("rate", cell.rate_text()),
        ("rtt", cell.rtt_text()),
        ("buffer", format!("{buffer:.0}B")),
        ("loss", loss.to_owned()),
        ("duration", format!("{}ms", ((DURATION_S + ROUNDS * rtt_s) * 1e3).round())),
        ("sample", SAMPLE.to_owned()),
        ("flow", subject.cc.clone()),
    ] {
        scenario.set(key, &value).map_err(|error| format!("{key}: {error}"))?;
    }
    Ok(scenario)
}

/// One run as a log, and what that shows. Of a connection that the stack gives up nothing is concluded.
fn play(subject: &Subject, world: &World, cell: Cell, loss: &str) -> Result<(FlowLog, Vec<Seen>), Failure> {
    let name = format!("{} {}", subject.name, path(cell, loss));
    let fault = |what: String| format!("{name}: {what}");
    let scenario = scenario(subject, cell, loss).map_err(fault)?;
    let setup = scenario.resolve().map_err(|error| fault(error.to_string()))?;
    World::check(subject.on, &setup).map_err(fault)?;
    let mut flow = match world.run(&scenario.filled(), &setup, &mut |_| {}) {
        Ok(output) => {
            let mut text = Vec::new();
            let record = Record { setup: &setup, result: &output.result, trace: &output.trace };
            qlog::sequence(&record, &mut text).map_err(|error| fault(error.to_string()))?;
            let log = log::read(&String::from_utf8_lossy(&text)).map_err(fault)?;
            log.flows.into_iter().next().unwrap_or_default()
        }
        Err(what) => {
            let flow = FlowLog { name, cc: Some(subject.name.clone()), ..FlowLog::default() };
            return Ok((flow, vec![given_up(&what)]));
        }
    };
    flow.name = name;
    flow.cc = Some(subject.name.clone());
    let mut seen = log::judge(&flow);
    if Peer::named(&subject.cc).is_some_and(|peer| peer.stack == Stack::Noq) {
        seen.iter_mut().for_each(excuse_unseen_states);
    }
    Ok((flow, seen))
}

/// noq's own controller is asked for its state after each ACK: a state that ends sooner goes unseen, and the diagram seems broken.
fn excuse_unseen_states(seen: &mut Seen) {
    if seen.what == log::ORDER && seen.verdict == Met::Fails {
        seen.verdict = Met::NotApplicable;
        seen.reason = Some("noq's state is read once an ACK, and two changes within one look like this".to_owned());
    }
}

fn given_up(what: &str) -> Seen {
    Seen {
        what: "the run".to_owned(),
        expected: String::new(),
        measured: f64::NAN,
        unit: String::new(),
        verdict: Met::NotApplicable,
        reason: Some(format!("the stack gave the connection up: {what}")),
    }
}

impl Runs {
    /// As logs, for files.
    pub fn into_logs(self) -> (Log, Vec<Vec<Seen>>) {
        let (flows, seen) = self.runs.into_iter().map(|run| (run.flow, run.seen)).unzip();
        (Log { form: "runs in QUIC stacks, in virtual time", flows }, seen)
    }

    pub fn fails(&self) -> bool {
        self.runs.iter().flat_map(|run| &run.seen).any(|seen| seen.verdict == Met::Fails)
    }

    /// A line for each subject and demand, and the first paths where it fails.
    pub fn shown(&self) -> String {
        let demands = |subject: usize| {
            let mut named: Vec<&str> = Vec::new();
            for seen in self.runs.iter().filter(|run| run.subject == subject).flat_map(|run| &run.seen) {
                if !named.contains(&seen.what.as_str()) {
                    named.push(&seen.what);
                }
            }
            named.into_iter().map(move |what| (subject, what)).collect::<Vec<_>>()
        };
        let demands: Vec<(usize, &str)> = (0..self.subjects.len()).flat_map(demands).collect();
        let rows = demands.iter().map(|(subject, what)| {
            let met = |verdict| self.of(*subject, what).filter(|(_, seen)| seen.verdict == verdict).count();
            let overall = Met::of(self.of(*subject, what).map(|(_, seen)| seen.verdict));
            let counts = [Met::Holds, Met::Fails, Met::NotApplicable].map(|verdict| met(verdict).to_string());
            let [holds, fails, not] = counts;
            vec![self.subjects[*subject].name.clone(), word(overall), holds, fails, not, (*what).to_owned()]
        });
        let align = [Align::Left, Align::Left, Align::Right, Align::Right, Align::Right, Align::Text];
        let mut text = aligned(&["algorithm", "verdict", "hold", "fail", "n/a", "demand"], &align, rows);
        for (subject, what) in &demands {
            self.write_faults(&mut text, *subject, what);
        }
        let count = |met| {
            demands.iter().filter(|(of, what)| Met::of(self.of(*of, what).map(|(_, seen)| seen.verdict)) == met).count()
        };
        let held = count(Met::Holds);
        let _ = writeln!(
            text,
            "\n{} {}, {}, {} not visible",
            counted(held, "demand"),
            if held == 1 { "holds" } else { "hold" },
            verb(count(Met::Fails), "fails", "fail"),
            verb(count(Met::NotApplicable), "is", "are")
        );
        text
    }

    /// Where a demand was looked at, and what came of it.
    fn of<'a>(&'a self, subject: usize, what: &'a str) -> impl Iterator<Item = (&'a Run, &'a Seen)> {
        let runs = self.runs.iter().filter(move |run| run.subject == subject);
        runs.filter_map(move |run| run.seen.iter().find(|seen| seen.what == what).map(|seen| (run, seen)))
    }

    fn write_faults(&self, text: &mut String, subject: usize, what: &str) {
        let name = &self.subjects[subject].name;
        let failing = || self.of(subject, what).filter(|(_, seen)| seen.verdict == Met::Fails);
        for (run, seen) in failing().take(FAULTS_SHOWN) {
            let measured = seen.measured_text();
            let _ = writeln!(text, "{name} at {}: {what}: expected {}, measured {measured}", run.path, seen.expected);
        }
        let more = failing().count().saturating_sub(FAULTS_SHOWN);
        if more > 0 {
            let _ = writeln!(text, "{name}: {what}: fails on {more} more");
        }
        // Why nothing was seen, where nothing was anywhere, or the stack itself was the reason.
        let unseen: Vec<(&Run, &Seen)> = self.of(subject, what).filter(|(_, seen)| seen.reason.is_some()).collect();
        if let [(run, seen), ..] = unseen.as_slice()
            && unseen.len() == self.of(subject, what).count()
        {
            let _ = writeln!(text, "{name} at {}: {what}: {}", run.path, seen.reason.as_deref().unwrap_or(""));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stacks_own_controller_and_ours_in_a_stack_are_told_apart_from_the_simulators() {
        let named = |name: &str| Subject::named(name).map(|found| found.map(|s| (s.on, s.cc)));
        assert_eq!(named("s2n:bbr"), Some(Ok((On::S2n, "s2n:bbr".to_owned()))));
        assert_eq!(named("noq+bbr3-linux"), Some(Ok((On::Noq, "bbr3-linux".to_owned()))));
        assert_eq!(named("bbr3"), None);
        for (name, wrong) in [("s2n+bbr9", "bbr9"), ("quinn+bbr3", "quinn"), ("noq:cubic", "BBR"), ("s2n+reno", "BBR")]
        {
            let said = named(name).and_then(Result::err).unwrap_or_default();
            assert!(said.starts_with(name) && said.contains(wrong), "{name}: {said}");
        }
    }

    #[test]
    fn every_path_resolves_in_both_stacks() {
        for name in ["s2n:bbr", "noq:bbr3", "s2n+bbr3", "noq+bbr1"] {
            let subject = Subject::named(name).unwrap().unwrap();
            for cell in CELLS {
                let setup = scenario(&subject, cell.parse().unwrap(), LOSSES[1]).unwrap().resolve().unwrap();
                assert_eq!(World::check(subject.on, &setup), Ok(()), "{name} {cell}");
            }
        }
    }

    #[test]
    fn a_state_that_may_have_gone_unseen_is_no_failure() {
        let mut seen = Seen { what: log::ORDER.to_owned(), verdict: Met::Fails, reason: None, ..given_up("") };
        excuse_unseen_states(&mut seen);
        assert!(seen.verdict == Met::NotApplicable && seen.reason.is_some());
        let mut other = Seen { what: "smallest window".to_owned(), verdict: Met::Fails, ..given_up("") };
        excuse_unseen_states(&mut other);
        assert_eq!(other.verdict, Met::Fails);
    }

    #[test]
    #[cfg(feature = "quic")]
    fn ours_in_both_stacks_meets_what_a_run_shows() {
        let subjects = ["s2n+bbr3", "noq+bbr3"].map(|name| Subject::named(name).unwrap().unwrap()).to_vec();
        let runs = run(subjects, &["20mbit/100ms".parse().unwrap()]).unwrap();
        assert!(!runs.fails(), "{}", runs.shown());
        assert_eq!(runs.runs.len(), 4);
        assert!(runs.runs.iter().all(|run| run.seen.iter().filter(|seen| seen.verdict == Met::Holds).count() >= 14));
    }
}
