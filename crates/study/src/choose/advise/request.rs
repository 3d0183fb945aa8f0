//! A request for advice as text, and its answer: what the command's flags and the keywords in Python stand for.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_report::Report;
use bbrlab_sim::link::DeliveryTrace;
use bbrlab_sim::scenario::{BitRate, BufferSize, DemandLink, FlowSpec, Preset, Scenario, Schedule, TimeSpan};
use serde::Deserialize;
use serde_json::{Value, json};

use super::policy::conditions;
use super::{Advice, DRAWS_GROW, Figure, Question, advise_until_stable, page};
use crate::choose::objective::Objective;
use crate::measured::Evidence;
use crate::paths::{Application, Conditions, Kind, KindSpec, PACKET, Population};
use crate::{Error, Result};

/// Number of paths drawn if anything is uncertain, and of runs if everything is known. Of measured paths more, as each has its own rivals
/// and they cannot be seen. Ours.
const DRAWS: u64 = 24;
const DRAWS_KNOWN: u64 = 8;
const DRAWS_MEASURED: u64 = 96;
/// Duration of a run on a typical path that changes over time. Ours: four of Starlink's intervals.
const STEPS_LAST: &str = "60s";
/// Candidates without others named.
const CANDIDATES: [&str; 3] = ["bbr1", "bbr3", "cubic"];

/// A request for advice. An unknown value may be a range, `LOW..HIGH`. Errors name the field.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Request {
    /// Bottleneck rate: `20mbit`, `5mbit..50mbit`.
    pub rate: Option<String>,
    /// Two-way propagation time.
    pub rtt: Option<String>,
    /// Buffer of the bottleneck, in BDP or as drain time.
    pub buffer: Option<String>,
    /// Random loss.
    pub loss: Option<String>,
    /// Number of competing flows.
    pub rivals: Option<String>,
    /// Algorithms of the competing flows, in the syntax of `--flow`; each flow uses one at random.
    pub rival_flows: Option<Vec<String>>,
    /// Keys of the scenario that apply to every path: `aqm`, `policer`, `schedule`, …; `path` is a typical path by name, whose rate,
    /// RTT, buffer and loss replace those that the request does not have.
    pub conditions: Vec<(String, String)>,
    /// Delivery trace that replaces the rate: its name and its text.
    #[serde(skip)]
    pub trace: Option<(String, String)>,
    /// Measurement to start from, and its name.
    #[serde(skip)]
    pub evidence: Option<(String, Evidence)>,
    /// Population, instead of all of the above but the conditions.
    #[serde(skip)]
    pub population: Option<Population>,
    /// Algorithm in use now: that of the measurement if none is given, else CUBIC.
    pub current: Option<String>,
    /// Candidates; BBRv1, BBRv3 and CUBIC if there are none.
    pub algorithms: Vec<String>,
    /// Application whose quality is judged: `video`, `live` or `calls`; if there is none, a bulk transfer.
    #[serde(rename = "for")]
    pub application: Option<String>,
    /// Name of the objective; `balanced` if there is none.
    pub objective: Option<String>,
    /// Number of paths to draw. If there is none: 24, 8 if everything is known, or fewer if runs are costly, and up to four times as
    /// many until the choice is stable.
    pub draws: Option<u64>,
    /// Duration of each run in simulated time; from the path if there is none.
    pub duration: Option<String>,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// A request that was understood, ready to run.
#[derive(Clone, Debug)]
pub struct Prepared {
    population: Population,
    conditions: Conditions,
    flows: Vec<String>,
    objective: Objective,
    draws: u64,
    /// Number of paths up to which more are drawn if the choice is not stable.
    draws_max: u64,
    seed: u64,
    said: Vec<String>,
}

/// An advice and what it rests on.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The advice.
    pub advice: Advice,
    /// Objective of the score.
    pub objective: Objective,
    /// Population of paths.
    pub population: Population,
    /// Conditions that apply to all paths.
    pub conditions: Conditions,
    /// Values inferred from the measurement, one sentence each.
    pub said: Vec<String>,
    /// Seed.
    pub seed: u64,
}

impl Request {
    /// Reads the request.
    pub fn prepare(&self) -> Result<Prepared> {
        match self.conditions.iter().find(|(key, _)| key == "path") {
            Some((_, name)) => self.on_path(name)?.prepared(),
            None => self.prepared(),
        }
    }

    /// The same request on a typical path: the path's values where the request has none.
    fn on_path(&self, name: &str) -> Result<Self> {
        let path = Preset::named(name).map_err(|error| Error::at("path")(Error::Value(error.to_string())))?;
        let mut request = self.clone();
        let own = |key: &str| path.keys.iter().find(|(own, _)| own == key).map(|(_, text)| text.clone());
        let rate = own("rate");
        request.buffer = request.buffer.or_else(|| own("buffer").map(|text| drain_time(&text, rate.as_deref())));
        request.rate = request.rate.or(rate);
        request.rtt = request.rtt.or_else(|| own("rtt"));
        request.loss = request.loss.or_else(|| own("loss"));
        let has_steps = own("schedule").is_some() && !self.conditions.iter().any(|(key, _)| key == "schedule");
        if has_steps && request.duration.is_none() {
            request.duration = Some(STEPS_LAST.to_owned());
        }
        Ok(request)
    }

    fn prepared(&self) -> Result<Prepared> {
        let objective = self.objective()?;
        let conditions = self.conditions()?;
        let (population, said, measured) = self.paths(&conditions)?;
        let usual = match population.is_one_path() {
            true => DRAWS_KNOWN,
            false if population.is_measured() => DRAWS_MEASURED,
            false => DRAWS,
        };
        let flows = self.flows(measured.as_deref())?;
        let draws = self.draws.unwrap_or(usual);
        let seed = self.seed;
        let mut prepared = Prepared { population, conditions, flows, objective, draws, draws_max: draws, seed, said };
        if self.draws.is_none() {
            if self.duration.is_none() {
                (prepared.draws, prepared.conditions) = prepared.question().affordable();
            }
            prepared.draws_max = DRAWS_GROW * prepared.draws;
        }
        Ok(prepared)
    }

    /// Returns the objective.
    pub fn objective(&self) -> Result<Objective> {
        Objective::named(self.objective.as_deref().unwrap_or("balanced")).map_err(Error::at("objective"))
    }

    /// Returns the algorithm in use, followed by the candidates.
    pub fn flows(&self, measured: Option<&str>) -> Result<Vec<String>> {
        let current = self.current.as_deref().or(measured).unwrap_or("cubic");
        FlowSpec::bare(current).map_err(Error::at("current"))?;
        let mut flows = vec![current.to_owned()];
        let named = self.algorithms.iter().map(String::as_str);
        let usual = CANDIDATES.into_iter().take(if self.algorithms.is_empty() { CANDIDATES.len() } else { 0 });
        for flow in named.chain(usual) {
            FlowSpec::bare(flow).map_err(Error::at("algorithms"))?;
            if flows.iter().all(|known| known != flow) {
                flows.push(flow.to_owned());
            }
        }
        if flows.len() < 2 {
            return Err(Error::at("algorithms")(Error::OneAlgorithm));
        }
        Ok(flows)
    }

    /// The population of paths, what was inferred for it, and the algorithm that the measurement shows.
    fn paths(&self, conditions: &Conditions) -> Result<(Population, Vec<String>, Option<String>)> {
        if let Some(population) = &self.population {
            return Ok((population.clone(), Vec::new(), None));
        }
        let mut specs = self.evidence.as_ref().map_or_else(Vec::new, |(_, evidence)| evidence.specs.clone());
        if specs.is_empty() {
            specs.push(KindSpec::unknown());
        }
        let own_rate = own_rate(conditions)?;
        for spec in &mut specs {
            self.complete(spec, own_rate.as_deref())?;
        }
        // Where everything is given, what was measured on each path makes no difference.
        specs.dedup();
        let population = Population::of_all(specs.iter().map(Kind::parse).collect::<Result<_>>()?);
        let (said, current) =
            self.evidence.as_ref().map_or((Vec::new(), None), |(_, one)| (one.said.clone(), one.current.clone()));
        Ok((population, said, current))
    }

    /// Replaces what was measured of a path by what was asked for; rate and RTT must then be known.
    fn complete(&self, spec: &mut KindSpec, own_rate: Option<&str>) -> Result<()> {
        for (text, own) in [
            (&self.rtt, &mut spec.rtt),
            (&self.buffer, &mut spec.buffer),
            (&self.loss, &mut spec.loss),
            (&self.rivals, &mut spec.rivals),
        ] {
            if let Some(text) = text {
                own.clone_from(text);
            }
        }
        if let Some(flows) = &self.rival_flows {
            spec.rival_flows.clone_from(flows);
        }
        if let Some(rate) = own_rate.or(self.rate.as_deref()) {
            // It is the link's, and another than the measurement's.
            rate.clone_into(&mut spec.rate);
            spec.measured = None;
        }
        if let (true, Some((name, Evidence { no_rate: Some(reason), .. }))) = (spec.rate.is_empty(), &self.evidence) {
            return Err(Error::NoRate { file: name.clone(), reason: reason.clone() });
        }
        for (place, value) in [("rate", &spec.rate), ("rtt", &spec.rtt)] {
            if value.is_empty() {
                return Err(Error::at(place)(Error::PathUnknown));
            }
        }
        Ok(())
    }

    /// Conditions of every path.
    fn conditions(&self) -> Result<Conditions> {
        let application = self.application.as_deref().map(Application::named).transpose().map_err(Error::at("for"))?;
        let mut conditions =
            Conditions { trace: self.trace.clone(), application: application.flatten(), ..Conditions::default() };
        for (key, text) in &self.conditions {
            let mut scenario = Scenario::default();
            scenario.set(key, text).map_err(|source| Error::at(key)(Error::Value(source.message)))?;
            conditions.keys.push((key.clone(), text.clone()));
        }
        if let Some(text) = &self.duration {
            let duration: TimeSpan = text.parse().map_err(Error::at("duration"))?;
            if duration < TimeSpan::millis(1) {
                let error = Error::TooShort { found: duration.to_string(), min: "1ms" };
                return Err(Error::at("duration")(error));
            }
            conditions.duration_s = Some(duration.as_secs());
        } else if let Some((_, text)) = self.conditions.iter().find(|(key, _)| key == "schedule") {
            /// Duration of a run after its last scheduled change, relative to the time before. Ours.
            const AFTER: f64 = 1.5;
            let schedule: Schedule = text.parse().map_err(Error::at("schedule"))?;
            let last = schedule.0.last().map_or(0.0, |step| step.at.as_secs());
            conditions.duration_s = Some((AFTER * last).max(12.0));
        }
        Ok(conditions)
    }
}

/// A buffer in packets as the time in which the link drains it, since `advise` knows buffers as volumes of time or in BDP.
fn drain_time(buffer: &str, rate: Option<&str>) -> String {
    match (buffer.parse(), rate.map(str::parse::<BitRate>)) {
        (Ok(BufferSize::Packets(packets)), Some(Ok(rate))) => {
            let time = rate.rate().time_for(packets.saturating_mul(PACKET as u64));
            TimeSpan(time.as_nanos()).to_string()
        }
        _ => buffer.to_owned(),
    }
}

/// Rate of a trace, or the maximum of a link that grants rate by demand; it becomes the paths' rate.
fn own_rate(conditions: &Conditions) -> Result<Option<String>> {
    if let Some((name, text)) = &conditions.trace {
        let trace = DeliveryTrace::parse(text)
            .map_err(|fault| Error::at("trace")(Error::Value(format!("{name:?}: {fault}"))))?;
        return Ok(Some(format!("{}bit", trace.mean_rate().as_bits_per_sec())));
    }
    let demand = conditions.keys.iter().find(|(key, _)| key == "demand");
    let demand: Option<DemandLink> = demand.and_then(|(_, text)| text.parse().ok());
    Ok(demand.map(|demand| demand.max.to_string()))
}

impl Prepared {
    fn question(&self) -> Question<'_> {
        Question {
            population: &self.population,
            conditions: &self.conditions,
            flows: &self.flows,
            objective: self.objective,
            draws: self.draws,
            seed: self.seed,
        }
    }

    /// Returns the largest number of ticks of the answer.
    pub fn ticks(&self) -> usize {
        (1 + self.flows.len()) * usize::try_from(self.draws_max).unwrap_or(usize::MAX)
    }

    /// Divides the request into one for each class of its population; [`policy`](super::policy) makes one policy of the answers. Each
    /// class must have what a rule can name: clients, ports, or a range of RTTs.
    pub fn by_class(&self) -> Result<Vec<Self>> {
        let one = |(nth, kind): (usize, &Kind)| {
            if conditions(kind).is_empty() {
                return Err(Error::at(format!("path {}", nth + 1))(Error::NoCondition));
            }
            Ok(Self { population: Population::of(kind.clone()), ..self.clone() })
        };
        self.population.kinds().iter().enumerate().map(one).collect()
    }

    /// Runs every candidate on every path; `tick` is called before each path and each run.
    pub fn answer(self, tick: &(dyn Fn() + Sync)) -> Result<Answer> {
        let advice = advise_until_stable(&self.question(), self.draws_max, tick)?;
        let Self { population, conditions, objective, seed, said, .. } = self;
        Ok(Answer { advice, objective, population, conditions, said, seed })
    }
}

impl Answer {
    /// Returns the document of `bbrlab advise --json`.
    pub fn json(&self, version: &str) -> Value {
        json!({
            "schema": 1, "version": version, "seed": self.seed, "objective": self.objective, "population": self.population,
            "conditions": self.conditions, "said": self.said, "advice": self.advice,
            "shown": Figure::ALL.map(|figure| format!("{}, {}", figure.name(), figure.unit())),
        })
    }

    /// Returns the page; the caller adds its command.
    pub fn report(&self, version: &str) -> Report {
        page::report(self, version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(conditions: &[(&str, &str)]) -> Request {
        let conditions = conditions.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
        Request { conditions, seed: 1, ..Request::default() }
    }

    #[test]
    fn a_typical_path_gives_what_the_request_does_not() {
        let prepared =
            Request { rtt: Some("30ms".to_owned()), ..on(&[("path", "wifi"), ("jitter", "1ms")]) }.prepare().unwrap();
        let path = prepared.population.draw(1, 0);
        assert_eq!((path.rate_bps, path.rtt_s), (150e6, 0.03));
        let scenario = path.scenario(&prepared.conditions, "bbr3", 1).unwrap();
        let whole = serde_json::to_value(&scenario).unwrap();
        assert_eq!(whole["ack_aggregation"], "5ms", "the preset's own key");
        assert_eq!((&whole["jitter"], &whole["rtt"]), (&"1ms".into(), &"30ms".into()), "a value beside it");
        assert!(!path.rivals.is_empty() || prepared.population.has_rivals());
    }

    #[test]
    fn every_typical_path_can_be_asked_about() {
        for preset in bbrlab_sim::scenario::PRESETS.iter() {
            let prepared =
                on(&[("path", preset.name)]).prepare().unwrap_or_else(|error| panic!("{}: {error}", preset.name));
            let path = prepared.population.draw(1, 0);
            let scenario = path.scenario(&prepared.conditions, "bbr3", 1).unwrap();
            assert!(scenario.resolve().is_ok(), "{}", preset.name);
            let is_long = preset.keys.iter().any(|(key, _)| key == "schedule");
            assert_eq!(prepared.conditions.duration_s, is_long.then_some(60.0), "{}", preset.name);
        }
        // 100 packets at 10 Gbit/s.
        assert_eq!(drain_time("100p", Some("10gbit")), "121.12us");
        assert!(on(&[("path", "starlnk")]).prepare().unwrap_err().to_string().contains("did you mean starlink?"));
    }
}
