//! Results of runs of a scorecard's cases that were made elsewhere, and the cases as scenario files for whoever makes them.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::Arc;

use bbrlab_sim::record::Output;
use bbrlab_sim::record::packets::Packets;
use bbrlab_sim::record::result::RunResult;
use bbrlab_sim::record::trace::Trace;
use bbrlab_sim::scenario::Scenario;
use bbrlab_sim::setup::Setup;
use bbrlab_study::capture;
use serde_json::Value;

use super::{Criterion, Draw, Measured, Plan, REFERENCES};
use crate::expect::{Measurer, RunSet, RunView};
use crate::{Error, Result};

/// Keys in which the scenario of a result may differ from its case: the algorithm, the backend, the number of runs, and what is recorded.
const FREE: [&str; 5] = ["flow", "on", "seed", "repeat", "sample"];

/// Results of one algorithm: the runs of each case, by the case's id.
pub type Results = BTreeMap<String, Vec<RunResult>>;

/// Id of a case, and name of its file without the extension: `5.1.2-1`.
pub fn case_id(section: &str, nth: usize) -> String {
    format!("{section}-{}", nth + 1)
}

impl Plan {
    /// Ids of all cases.
    pub fn case_ids(&self) -> Vec<String> {
        let of = |one: &Criterion| (0..one.case.len()).map(|nth| case_id(&one.section, nth)).collect::<Vec<_>>();
        self.criteria.iter().flat_map(of).collect()
    }

    /// Result of a case from a capture of its run with this seed, pcap or pcapng. `None` if the scorecard has no run of this seed.
    pub fn captured(&self, id: &str, seed: u64, from: impl Read + Send) -> Result<Option<RunResult>> {
        self.recorded(id, seed, |setup| capture::result::result(from, setup))
    }

    /// Result of a case from qlogs of its run with this seed. `None` if the scorecard has no run of this seed.
    pub fn logged(&self, id: &str, seed: u64, logs: impl IntoIterator<Item = impl Read>) -> Result<Option<RunResult>> {
        self.recorded(id, seed, |setup| capture::logs::result(logs, setup))
    }

    fn recorded(
        &self,
        id: &str,
        seed: u64,
        read: impl FnOnce(&Setup) -> bbrlab_study::Result<RunResult>,
    ) -> Result<Option<RunResult>> {
        let of = |one: &Criterion| (0..one.case.len()).find(|&nth| case_id(&one.section, nth) == id);
        let Some((criterion, nth)) = self.criteria.iter().find_map(|one| Some((one, of(one)?))) else {
            return Ok(None);
        };
        let setups = self.setups(criterion, nth, REFERENCES[0])?;
        let Some((scenario, setup)) = setups.into_iter().find(|(scenario, _)| scenario.seed == seed) else {
            return Ok(None);
        };
        let mut found = read(&setup)?;
        let on = std::mem::take(&mut found.on);
        found.describe(&scenario).map_err(|error| Error::Backend(error.into()))?;
        found.on = on;
        Ok(Some(found))
    }

    /// The cases as scenarios in TOML, each with its id, with the first algorithm under test.
    pub fn case_files(&self) -> Result<Vec<(String, String)>> {
        let mut files = Vec::new();
        for criterion in &self.criteria {
            for nth in 0..criterion.case.len() {
                let draw = Draw::new(self.set, &criterion.section, nth);
                let sourced = criterion.case[nth].scenario(&self.subjects[0], self.on.name(), &draw)?;
                let text = toml::to_string(&sourced.scenario).map_err(|error| Error::Backend(error.into()))?;
                let title = format!("# {} {}: {}", criterion.section, criterion.title, criterion.case[nth].name);
                files.push((case_id(&criterion.section, nth), format!("{title}\n{text}")));
            }
        }
        Ok(files)
    }

    /// Values of a case from results. A measure of something that a result does not hold, as a series, is not a number.
    pub(super) fn measured_in(
        &self,
        results: &Results,
        criterion: &Criterion,
        nth: usize,
        setups: &[(Scenario, Arc<Setup>)],
    ) -> Result<Measured> {
        let id = case_id(&criterion.section, nth);
        let Some(runs) = results.get(&id) else {
            return Ok(Measured { seeds: Err(format!("there is no result {id}.json")) });
        };
        let values = |(scenario, setup): &(Scenario, Arc<Setup>)| {
            let of_seed: Vec<&RunResult> = runs.iter().filter(|run| run.seed == scenario.seed).collect();
            let place = || format!("result of {id}, seed {}", scenario.seed);
            let run = match of_seed[..] {
                [] => return Ok(vec![f64::NAN; criterion.measure.len()]),
                [run] => run,
                _ => return Err(Error::at(place())(Error::Rule("there are several; give each run a seed of its own"))),
            };
            check(run, scenario, setup).map_err(Error::at(place()))?;
            let output = Output { result: run.clone(), trace: Trace::default(), packets: Packets::default() };
            let view = RunView::new(&criterion.case[nth].name, Arc::clone(setup), Arc::new(output));
            let measurer = Measurer::new(Arc::new(RunSet::default()));
            let value = |expression: &str| measurer.measure_of(expression, &view).unwrap_or(f64::NAN);
            Ok(criterion.measure.iter().map(|measure| value(&measure.value)).collect())
        };
        Ok(Measured { seeds: Ok(setups.iter().map(values).collect::<Result<_>>()?) })
    }
}

/// Checks that a result is one of a case: the same path, and the same flows but for their algorithm.
fn check(run: &RunResult, scenario: &Scenario, setup: &Setup) -> Result<()> {
    let case = serde_json::to_value(scenario).map_err(|error| Error::Backend(error.into()))?;
    let keys = |value: &Value| value.as_object().map_or_else(Vec::new, |map| map.keys().cloned().collect());
    let keys: BTreeSet<String> = [keys(&case), keys(&run.scenario)].concat().into_iter().collect();
    let shown = |value: &Value| if value.is_null() { "not set".to_owned() } else { value.to_string() };
    for key in keys.into_iter().filter(|key| !FREE.contains(&key.as_str())) {
        let (found, wanted) = (&run.scenario[&key], &case[&key]);
        if found != wanted {
            return Err(Error::OtherCase { found: shown(found), wanted: shown(wanted), key });
        }
    }
    let found: Vec<&str> = run.flows.iter().map(|flow| &*flow.name).collect();
    let wanted: Vec<&str> = setup.flows.iter().map(|flow| &*flow.name).collect();
    if found != wanted {
        let key = "names of its flows".to_owned();
        return Err(Error::OtherCase { key, found: found.join(", "), wanted: wanted.join(", ") });
    }
    Ok(())
}
