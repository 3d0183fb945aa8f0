//! Execution of an experiment: all runs in parallel, then verdicts and figures.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::plan::plan;
use super::{Experiment, ExperimentOutcome, figure, verdict};
use crate::expect::{Measurer, RunSet, RunView};
use crate::{BoxError, Error, Result};
use bbrlab_report::Table;
use bbrlab_report::play::fragment;
use bbrlab_sim::record::Output;
use bbrlab_sim::scenario::{Scenario, ScenarioFile};
use bbrlab_sim::setup::Setup;
use bbrlab_stats::number::significant;
use bbrlab_stats::quantile::interpolated_percentile;
use bbrlab_study::cdn::{self, Study};
use bbrlab_study::product::PlannedRun;

/// A backend for runs.
pub type RunSetup<'a> = dyn Fn(&Scenario, &Setup) -> Result<Output, RunError> + Sync + 'a;

/// Reason why a run gave no result.
#[derive(Debug)]
pub enum RunError {
    /// This backend lacks the feature; others may have it.
    Unsupported,
    /// The run failed unexpectedly.
    Failed(BoxError),
}

/// The simulator, which supports every scenario.
pub fn simulator(_: &Scenario, setup: &Setup) -> Result<Output, RunError> {
    Ok(bbrlab_sim::engine::run(setup))
}

/// Runs one experiment in the simulator. `progress` is called with the number of finished runs and the total.
pub fn run(experiment: &Experiment, seed: u64, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<ExperimentOutcome> {
    let done = AtomicUsize::new(0);
    let total = experiment.run_count();
    run_counting(experiment, seed, &simulator, &|| progress(done.fetch_add(1, Ordering::Relaxed) + 1, total))
}

/// Runs several experiments in parallel, to keep every core busy; the outcomes are in the order of the experiments.
pub fn run_all(
    experiments: &[Experiment],
    seed: u64,
    runner: &RunSetup<'_>,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Vec<Result<ExperimentOutcome>> {
    let done = AtomicUsize::new(0);
    let total = experiments.iter().map(Experiment::run_count).sum();
    let tick = || progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
    experiments.par_iter().with_max_len(1).map(|experiment| run_counting(experiment, seed, runner, &tick)).collect()
}

fn run_counting(
    experiment: &Experiment,
    seed: u64,
    runner: &RunSetup<'_>,
    tick: &(dyn Fn() + Sync),
) -> Result<ExperimentOutcome> {
    let at = || Error::at::<Error>(&experiment.origin);
    let (axes, planned) = plan(&experiment.file).map_err(at())?;
    let resolved: Vec<(Scenario, Arc<Setup>)> =
        planned.iter().map(|p| resolve(experiment, p, seed).map_err(at())).collect::<Result<_, _>>()?;
    let one = |(planned, (scenario, setup)): (&PlannedRun, &(Scenario, Arc<Setup>))| {
        let output = runner(scenario, setup);
        tick();
        match output {
            Ok(output) => Ok(Some(RunView::new(&planned.name, setup.clone(), Arc::new(output)))),
            Err(RunError::Unsupported) => Ok(None),
            Err(RunError::Failed(error)) => {
                Err(at()(Error::at(format!("run {}", planned.name))(Error::Backend(error))))
            }
        }
    };
    let views: Vec<Option<RunView>> =
        planned.par_iter().zip(&resolved).with_max_len(1).map(one).collect::<Result<_, _>>()?;
    let study = study(experiment, seed, tick).map_err(at())?;
    let is_whole = views.iter().all(Option::is_some) && !experiment.is_without_population;
    let views: Vec<RunView> = views.into_iter().flatten().collect();
    let table = study.as_ref().map_or_else(|| table(&views), |study| cdn::rows(study));
    let runs: BTreeMap<String, RunView> = views.into_iter().map(|view| (view.name.to_string(), view)).collect();
    let measurer = Measurer::new(Arc::new(RunSet { runs, axes, files: experiment.data.clone(), study: study.clone() }));
    let mut rows = Vec::new();
    let judging = verdict::MarkPolicy { is_whole, is_strict: !experiment.is_lenient };
    for expect in &experiment.file.expect {
        let measured = verdict::rows(expect, &measurer, judging);
        rows.extend(measured.map_err(|error| at()(Error::at(format!("expect {:?}", expect.what))(error)))?);
    }
    let (mut figures, heats) = study.as_ref().map_or_else(Default::default, |study| cdn::figures(study));
    for (index, spec) in experiment.file.figure.iter().enumerate() {
        let id = format!("{}-{}", experiment.id, index + 1);
        match figure::draw(spec, &id, &experiment.source, &measurer) {
            Ok(mut figure) => {
                let run = figure::only_run(spec, measurer.runs());
                let place = run.and_then(|run| planned.iter().position(|planned| *planned.name == *run.name));
                let scenario = place.map(|place| serde_json::to_value(&resolved[place].0));
                figure.play = scenario.and_then(Result::ok).map(|scenario| fragment(&scenario)).unwrap_or_default();
                figures.push(figure);
            }
            // A figure of a run that this backend lacks.
            Err(_) if !is_whole => {}
            Err(error) => return Err(at()(Error::at(format!("figure {:?}", spec.title))(error))),
        }
    }
    Ok(ExperimentOutcome {
        id: experiment.id.clone(),
        title: experiment.title.clone(),
        source: experiment.source.clone(),
        claim: experiment.claim.clone(),
        contradiction: experiment.contradiction.clone(),
        rows,
        figures,
        heats,
        runs: table,
        study,
    })
}

/// Runs the experiment's population under each of its algorithms, unless that was done.
fn study(experiment: &Experiment, seed: u64, tick: &(dyn Fn() + Sync)) -> Result<Option<Arc<Study>>> {
    if experiment.finished.is_some() {
        return Ok(experiment.finished.clone());
    }
    let population = experiment.file.population.as_ref().filter(|_| !experiment.is_without_population);
    let study = population.map(|population| Study::run(population.design(), population.draw(seed), seed, tick));
    Ok(study.transpose()?.map(Arc::new))
}

/// Resolves a run's scenario and setup. A scenario's own seed is relative to the catalogue's seed, so that repetitions
/// differ.
pub(super) fn resolve(experiment: &Experiment, planned: &PlannedRun, seed: u64) -> Result<(Scenario, Arc<Setup>)> {
    let at = || Error::at::<Error>(format!("run {}", planned.name));
    let mut scenario = ScenarioFile::from_table(planned.scenario.clone()).map_err(|error| at()(error.into()))?.scenario;
    let read = |file: &str| {
        let text = experiment.data.get(file).map(|text| text.to_string());
        text.ok_or_else(|| Error::NoData { kind: "trace", name: file.to_owned() }.into())
    };
    scenario.seed = seed.wrapping_add(scenario.seed).wrapping_sub(1);
    let setup = scenario.resolve_with(&read).map_err(|error| at()(error.into()))?;
    Ok((scenario.filled(), Arc::new(setup)))
}

/// Table with the main metrics, one row per run.
fn table(views: &[RunView]) -> Table {
    let columns = ["run", "goodput, Mbit/s", "utilisation", "drops", "queue p50, ms", "RTT p50, ms", "Jain", "packets"];
    let mut rows = Vec::new();
    for view in views {
        let result = &view.output.result;
        let rtts: Vec<f64> = result.flows.iter().map(|f| f.rtt(|rtt| rtt.p50)).collect();
        rows.push(vec![
            view.name.to_string(),
            significant(result.total_goodput_bps() / 1e6, 4),
            significant(result.bottleneck.utilisation, 4),
            format!("{} %", significant(result.bottleneck.drop_ratio * 100.0, 4)),
            significant(result.bottleneck.queue_ms.p50, 4),
            significant(interpolated_percentile(&rtts, 50.0), 4),
            significant(result.jain, 4),
            result.packets.to_string(),
        ]);
    }
    Table { columns: columns.map(String::from).to_vec(), rows }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Verdict, parse};

    const TEXT: &str = "
        id = 'T'
        title = 'a test'
        source = 'this file'
        claim = 'a flow fills its link'
        [scenario]
        rate = '5mbit'
        rtt = '20ms'
        duration = '2s'
        sample = '10ms'
        flow = ['{cc}']
        [[vary]]
        name = 'cc'
        values = ['cubic', 'bbr1']
        [[expect]]
        what = 'goodput'
        each = 'cc'
        measure = 'r.goodput_mbps()'
        min = 3
        max = 4.8
        [[figure]]
        title = 'rate'
        read = 'two lines'
        x = { label = 'time', unit = 's' }
        [[figure.panel]]
        y = { label = 'goodput', unit = 'Mbit/s' }
        series = [{ run = 'cc=bbr1', flow = 0, column = 'goodput_mbps', bin = 0.5 }]
    ";

    fn outcome(threads: usize) -> ExperimentOutcome {
        let experiment = parse(TEXT, "test.toml").unwrap();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| run(&experiment, 1, &|_, _| {})).unwrap()
    }

    #[test]
    fn an_experiment_gives_a_row_a_picture_and_a_table_line_for_what_it_asks() {
        let outcome = outcome(2);
        assert_eq!(outcome.rows.iter().map(|r| &r.verdict).collect::<Vec<_>>(), [&Verdict::Holds; 2]);
        assert_eq!(outcome.figures[0].panels[0].series[0].y.len(), 4);
        assert_eq!(outcome.runs.rows.len(), 2);
        assert!(outcome.passes());
    }

    #[test]
    fn the_outcome_is_the_same_whatever_the_number_of_threads() {
        assert_eq!(outcome(1), outcome(3));
    }

    /// An experiment with users instead of runs.
    const USERS: &str = "
        id = 'P'
        title = 'a test'
        source = 'this file'
        claim = 'BBR is faster where packets are lost'
        [population]
        users = 6
        [[population.class]]
        name = 'home'
        network = 'x'
        rate = '10mbit'
        rtt = '40ms'
        loss = '2%'
        size = '500kB'
        objects = 2
        [[expect]]
        what = 'gain'
        measure = 'population().gain_low(\"home/x\", \"small\") - population().gain_at_age(\"home\", 100, 200)'
        min = 0
        [[expect]]
        what = 'again'
        measure = 'population().retransmit_ratio(\"home\", \"bbr1\") + population().spread(\"home\", \"cubic\")'
        min = 1
    ";

    #[test]
    fn a_population_is_measured_by_class_and_left_out_where_no_simulator_is() {
        let text = USERS.replace(" - population().gain_at_age(\"home\", 100, 200)", "");
        let mut experiment = parse(&text, "users.toml").unwrap();
        assert_eq!(experiment.run_count(), 12);
        let outcome = run(&experiment, 1, &|_, _| {}).unwrap();
        assert!(outcome.passes() && outcome.study.is_some() && !outcome.heats.is_empty(), "{:?}", outcome.rows);
        assert_eq!((outcome.figures.len(), outcome.runs.rows.len()), (1, 1));
        experiment.on_a_kernel();
        let outcome = run(&experiment, 1, &|_, _| {}).unwrap();
        assert!(outcome.study.is_none() && outcome.rows.iter().all(|row| row.verdict == Verdict::NotHere));
    }

    #[test]
    fn a_cut_without_users_measures_nothing_and_fails() {
        let experiment = parse(USERS, "users.toml").unwrap();
        let outcome = run(&experiment, 1, &|_, _| {}).unwrap();
        assert_eq!(outcome.rows[0].verdict, Verdict::Fails);
    }

    #[test]
    fn a_typical_path_gives_the_keys_that_the_file_does_not() {
        let experiment = parse(&TEXT.replace("rate = '5mbit'", "path = 'starlink'"), "test.toml").unwrap();
        let (_, planned) = plan(&experiment.file).unwrap();
        let (_, setup) = resolve(&experiment, &planned[0], 1).unwrap();
        assert_eq!(setup.links[0].service.nominal_rate().as_bytes_per_sec(), 105_000_000 / 8);
        // The file's own key stays.
        assert_eq!(setup.path.rtt.as_nanos(), 20_000_000);
    }

    #[test]
    fn starts_drawn_at_random_depend_on_the_catalogues_seed() {
        let experiment = parse(&TEXT.replace("rtt =", "start_jitter = '1s'\nrtt ="), "test.toml").unwrap();
        let (_, planned) = plan(&experiment.file).unwrap();
        let start = |seed| resolve(&experiment, &planned[0], seed).unwrap().1.flows[0].start;
        assert_ne!(start(1), start(2));
        assert_eq!(start(2), start(2));
    }

    /// Two rates of about 4 and one of 8 Mbit/s.
    #[test]
    fn a_row_over_a_free_axis_is_the_median_or_where_asked_for_the_mean() {
        let axis = "[[vary]]\nname = 'rate'\nkey = 'rate'\nvalues = ['4mbit', '4.01mbit', '8mbit']\n[[expect]]";
        let text = TEXT.split("[[figure]]").next().unwrap().replace("[[expect]]", axis);
        let text = text.replace("min = 3", "min = 0").replace("max = 4.8", "max = 20");
        let measured = |text: &str| run(&parse(text, "test.toml").unwrap(), 1, &|_, _| {}).unwrap().rows[0].measured;
        let (median, mean) = (measured(&text), measured(&text.replace("min = 0", "free = 'mean'\nmin = 0")));
        assert!((3.2..4.0).contains(&median) && (4.4..5.4).contains(&mean), "{median} {mean}");
    }

    #[test]
    fn a_scenario_that_does_not_resolve_names_file_and_run() {
        let experiment = parse(&TEXT.replace("5mbit", "five"), "test.toml").unwrap();
        let error = run(&experiment, 1, &|_, _| {}).unwrap_err().to_string();
        assert!(error.contains("test.toml") && error.contains("cc=cubic") && error.contains("five"), "{error}");
    }
}
