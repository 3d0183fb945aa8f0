//! Choice of an algorithm for given paths: each candidate runs on the same drawn paths with the same random numbers;
//! the scores are compared, with the reasons behind the choice.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod figure;
mod fit;
mod judge;
mod page;
mod policy;
mod request;
pub mod source;
pub mod text;

use bbrlab_core::Rng;
use rayon::prelude::*;
use serde::Serialize;

use super::objective::{Objective, Terms};
use crate::comparison::Interval;
use crate::paths::{ALTERNATIVES, Conditions, Path, Population};
use crate::sweep::{Metric, Row};
use crate::{Error, Result};
use bbrlab_stats::bootstrap::{RESAMPLES, resampled};
use bbrlab_stats::quantile::nearest_position;
use bbrlab_stats::{known_mean, mean};

pub use figure::Figure;
pub use judge::{AdviceQuality, judge, judge_measured};
pub use policy::policy;
pub use request::{Answer, Prepared, Request};

/// Minimum relative gain in score that justifies replacing the current algorithm: a change has a cost too. Ours.
pub const WORTH_A_CHANGE: f64 = 0.02;
/// Share of resampled populations from which a choice is called sure. Ours.
pub const SURE: f64 = 0.95;
/// Total number of packets of all runs of an answer, before it grows. Ours: about 5 s of CPU time.
const PACKETS_ALL: f64 = 80e6;
/// The same of an answer from measured connections. Ours: about 15 s. With fewer paths the answer depended on those that were drawn.
const PACKETS_MEASURED: f64 = 240e6;
/// Minimum number of drawn paths. Ours: fewer give no interval.
pub const DRAWS_LEAST: u64 = 8;
/// Factor between simulation and measurement up to which the paths count as those that were measured. Ours.
const AGREES: f64 = 2.0;
/// Mean share of retransmissions from which simulation and measurement must agree on it too. Ours.
const LOSSY: f64 = 0.02;
/// Most that the number of drawn paths grows until the choice is stable. Ours: about a minute on two cores.
pub const DRAWS_GROW: u64 = 4;
/// Minimum share of the difference for a term to be listed as a reason. Ours.
const PART_SAID: f64 = 0.1;

/// A reason for a difference in score: one term of the score, with the metric behind it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reason {
    /// Metric.
    pub figure: Figure,
    /// The candidate's value: a mean over the paths.
    pub own: f64,
    /// The other candidate's value.
    pub other: f64,
    /// Change in score caused by this term alone, as a share of the other's score.
    pub part: f64,
}

/// One candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// Flow in the syntax of `--flow`.
    pub flow: String,
    /// Mean score over the paths.
    pub score: f64,
    /// Means over the paths, in the order of [`Figure::ALL`]; NaN if not available.
    pub figures: Vec<f64>,
    /// Ratio of its means to those of the current algorithm, in the same order.
    pub gain: Vec<Interval>,
    /// Ratio of its score to that of the current algorithm.
    pub score_gain: Interval,
    /// Share of the resampled populations in which this candidate is the choice.
    pub wins: f64,
    /// Paths on which it scores higher than the current algorithm.
    pub better_on: usize,
    /// Reasons for its difference from the current algorithm, the largest part first.
    pub reasons: Vec<Reason>,
}

/// Result of the comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Candidates, the current algorithm first.
    pub candidates: Vec<Candidate>,
    /// Index of the recommended candidate.
    pub choice: usize,
    /// Share of the resampled populations in which the choice is the best candidate, or within [`WORTH_A_CHANGE`] of it.
    pub sure: f64,
    /// Other candidates, by index, that may be the best: with them the share reaches [`SURE`].
    pub tied: Vec<usize>,
    /// Drawn paths.
    pub paths: Vec<Path>,
    /// Score of each candidate on each path.
    pub worths: Vec<Vec<f64>>,
    /// True if an application's quality is judged.
    #[serde(skip)]
    pub is_application: bool,
    /// Shortest and longest run, seconds.
    pub seconds: (f64, f64),
    /// The current algorithm simulated on measured paths beside what was measured there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreement: Option<Agreement>,
}

/// The current algorithm in the simulation beside the measurement: geometric means over the drawn paths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// Drawn paths with a measured RTT.
    pub paths: usize,
    /// RTT over the base RTT, simulated and measured.
    pub rtt_ratio: [f64; 2],
    /// Goodput over what was delivered.
    pub goodput: f64,
    /// Retransmitted over sent, simulated and measured: means.
    pub retransmit_ratio: [f64; 2],
}

impl Agreement {
    fn of(paths: &[Path], rows: &[Row]) -> Option<Self> {
        let (mut logs, mut again, mut count) = ([0.0; 3], [0.0; 2], 0);
        for (path, row) in paths.iter().zip(rows) {
            let Some((measured, seen)) = path.measured.and_then(|one| Some((one, one.rtt_ratio?))) else { continue };
            let own = row.get(Metric::FirstRttP50Ms) / row.get(Metric::RttBaseMs);
            let goodput = row.get(Metric::FirstGoodputBps) / measured.rate_bps;
            if own.is_finite() && own > 0.0 && goodput > 0.0 && seen > 0.0 {
                logs.iter_mut().zip([own, seen, goodput]).for_each(|(sum, value)| *sum += value.ln());
                let own = row.get(Metric::FirstRetransmitRatio);
                again[0] += own;
                again[1] += measured.retransmit_ratio.unwrap_or(own);
                count += 1;
            }
        }
        let [own, seen, goodput] = logs.map(|sum| (sum / f64::from(count)).exp());
        let retransmit_ratio = again.map(|sum| sum / f64::from(count));
        (count > 0).then_some(Self { paths: count as usize, rtt_ratio: [own, seen], goodput, retransmit_ratio })
    }

    /// True if simulation and measurement differ too much for an advice.
    pub fn is_off(&self) -> bool {
        let ([own, seen], [again, again_seen]) = (self.rtt_ratio, self.retransmit_ratio);
        let is_far = |ratio: f64| !(1.0 / AGREES..=AGREES).contains(&ratio);
        // Few retransmissions vary much.
        let is_lossy = again.max(again_seen) >= LOSSY;
        is_far(own / seen) || is_far(self.goodput) || (is_lossy && is_far(again / again_seen))
    }
}

/// Input of the comparison.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// Population of paths.
    pub population: &'a Population,
    /// Conditions that apply to all paths.
    pub conditions: &'a Conditions,
    /// Algorithms, the current one first.
    pub flows: &'a [String],
    /// Objective of the score.
    pub objective: Objective,
    /// Number of paths to draw.
    pub draws: u64,
    /// Seed.
    pub seed: u64,
}

impl Question<'_> {
    /// Runs for each drawn path: those of the candidates, and of the current algorithm on paths that may fit a measurement.
    fn runs_each(&self) -> f64 {
        let fits = if self.population.is_measured() { ALTERNATIVES * fit::RUNS } else { 0 };
        (self.flows.len() + fits) as f64
    }

    /// Reduces draws and run lengths to a default budget, for callers that set no number of draws.
    pub fn affordable(&self) -> (u64, Conditions) {
        let budget = if self.population.is_measured() { PACKETS_MEASURED } else { PACKETS_ALL };
        let all: f64 =
            (0..self.draws).map(|nth| self.conditions.packets(&self.population.draw(self.seed, nth))).sum::<f64>()
                * self.runs_each();
        let draws = ((self.draws as f64 * budget / all) as u64).clamp(DRAWS_LEAST.min(self.draws), self.draws);
        let packets = budget / (draws as f64 * self.runs_each());
        (draws, Conditions { packets: Some(packets), ..self.conditions.clone() })
    }
}

/// Score below which an algorithm does not serve the objective. Ours.
pub(crate) const SERVES: f64 = 0.01;

impl Advice {
    /// True if it is sure whether to change, some algorithm serves the objective, and the paths agree with what was measured. Several
    /// new algorithms may be tied.
    pub fn is_clear(&self) -> bool {
        let is_settled = if self.choice == 0 { self.tied.is_empty() } else { !self.tied.contains(&0) };
        is_settled && self.serves() && !self.agreement.is_some_and(|agreement| agreement.is_off())
    }

    /// True if an algorithm serves the objective on these paths.
    pub fn serves(&self) -> bool {
        self.candidates.iter().any(|one| one.score >= SERVES)
    }
}

/// The drawn paths, and the runs of each candidate on them.
#[derive(Default)]
struct Runs {
    paths: Vec<Path>,
    rows: Vec<Vec<Row>>,
    /// Bulk transfers of the current algorithm on measured paths, if the question is about another application.
    bulk: Vec<Row>,
}

impl Runs {
    /// Draws paths up to this number, and runs every candidate on the new ones.
    fn extend(&mut self, question: &Question<'_>, draws: u64, tick: &(dyn Fn() + Sync)) -> Result<()> {
        let Question { conditions, flows, seed, .. } = *question;
        let known = self.paths.len();
        // A tick that unwinds ends only its own item, so it comes before the work.
        let draw = |nth| {
            tick();
            fit::fitting(question, nth)
        };
        self.paths.extend((known as u64..draws).into_par_iter().map(draw).collect::<Result<Vec<Path>>>()?);
        self.rows.resize_with(flows.len(), Vec::new);
        let new = &self.paths[known..];
        for (flow, rows) in flows.iter().zip(&mut self.rows) {
            let one = |(nth, path): (usize, &Path)| {
                tick();
                path.run(conditions, flow, seed.wrapping_add((known + nth) as u64))
            };
            rows.extend(new.par_iter().enumerate().map(one).collect::<Result<Vec<Row>>>()?);
        }
        if conditions.application.is_some() && question.population.is_measured() {
            let bulk = conditions.bulk();
            let one = |(nth, path): (usize, &Path)| path.run(&bulk, &flows[0], seed.wrapping_add((known + nth) as u64));
            self.bulk.extend(new.par_iter().enumerate().map(one).collect::<Result<Vec<Row>>>()?);
        }
        Ok(())
    }
}

/// Compares the candidates on the paths of a question.
pub fn advise(question: &Question<'_>, tick: &(dyn Fn() + Sync)) -> Result<Advice> {
    let mut runs = Runs::default();
    runs.extend(question, question.draws, tick)?;
    evaluate(question, &runs)
}

/// The same, with twice as many paths until two choices in a row agree and the last one is sure, or `max` are drawn.
pub fn advise_until_stable(question: &Question<'_>, max: u64, tick: &(dyn Fn() + Sync)) -> Result<Advice> {
    let mut runs = Runs::default();
    let (mut draws, mut before) = (question.draws, None);
    loop {
        runs.extend(question, draws, tick)?;
        let advice = evaluate(question, &runs)?;
        if draws >= max || (advice.sure >= SURE && before == Some(advice.choice)) {
            return Ok(advice);
        }
        before = Some(advice.choice);
        draws = (2 * draws).min(max);
    }
}

fn evaluate(question: &Question<'_>, runs: &Runs) -> Result<Advice> {
    let Question { conditions, flows, objective, seed, .. } = *question;
    let Runs { paths, rows, bulk } = runs;
    if rows.iter().flatten().all(|row| row.get(Metric::FirstGoodputBps) == 0.0) {
        return Err(Error::NothingDelivered);
    }
    let worths: Vec<Vec<f64>> = rows.iter().map(|rows| rows.iter().map(|row| objective.of(row)).collect()).collect();
    let mut rng = Rng::new(seed);
    let Chosen { choice, wins, sure, tied } = chosen(&worths, &mut rng);
    let candidate = |nth: usize, rng: &mut Rng| {
        let of = |which: usize, figure: Figure| -> Vec<f64> { rows[which].iter().map(|row| figure.of(row)).collect() };
        Candidate {
            flow: flows[nth].clone(),
            score: mean(&worths[nth]),
            figures: Figure::ALL.iter().map(|figure| known_mean(&of(nth, *figure))).collect(),
            gain: Figure::ALL.iter().map(|figure| ratio(&of(nth, *figure), &of(0, *figure), rng)).collect(),
            score_gain: ratio(&worths[nth], &worths[0], rng),
            wins: wins[nth],
            better_on: worths[nth].iter().zip(&worths[0]).filter(|(own, other)| own > other).count(),
            reasons: reasons(objective, &rows[nth], &rows[0]),
        }
    };
    let candidates = (0..flows.len()).map(|nth| candidate(nth, &mut rng)).collect();
    let lengths = paths.iter().map(|path| conditions.seconds(path));
    let seconds = lengths.fold((f64::INFINITY, 0.0_f64), |(low, high), s| (low.min(s), high.max(s)));
    let agreement = Agreement::of(paths, if bulk.is_empty() { &rows[0] } else { bulk });
    Ok(Advice {
        candidates,
        choice,
        sure,
        tied,
        paths: paths.clone(),
        worths,
        is_application: conditions.application.is_some(),
        seconds,
        agreement,
    })
}

/// Splits the difference between two candidates' mean scores into reasons. Each reason's metric differs in the
/// direction of its part, so that the reader can follow it; the parts of all terms add up to the difference.
fn reasons(objective: Objective, own: &[Row], other: &[Row]) -> Vec<Reason> {
    let n = own.len() as f64;
    let mut parts = [0.0; Terms::COUNT];
    for (own, other) in own.iter().zip(other) {
        let of_path = objective.parts(&Terms::of(&other.figures), &Terms::of(&own.figures));
        parts.iter_mut().zip(of_path).for_each(|(sum, part)| *sum += part / n);
    }
    let base = mean(&other.iter().map(|row| objective.of(row)).collect::<Vec<f64>>()).max(1e-9);
    let largest = parts.iter().fold(0.0_f64, |largest, part| largest.max(part.abs()));
    let figure_of = |rows: &[Row], figure: Figure| known_mean(&rows.iter().map(|r| figure.of(r)).collect::<Vec<f64>>());
    let reason = |(figure, part): (Figure, f64)| Reason {
        figure,
        own: figure_of(own, figure),
        other: figure_of(other, figure),
        part: part / base,
    };
    let figures = Figure::of_terms(own.iter().any(|row| row.get(Metric::FirstQuality).is_finite()));
    let mut found: Vec<Reason> = figures.into_iter().zip(parts).map(reason).collect();
    found.retain(|reason| {
        let rises = reason.own > reason.other;
        reason.part.abs() * base >= PART_SAID * largest
            && reason.part.abs() > 1e-4
            && (rises == reason.figure.is_gain()) == (reason.part > 0.0)
    });
    found.sort_by(|a, b| b.part.abs().total_cmp(&a.part.abs()));
    found
}

/// Returns the candidate with the highest mean score, unless the current algorithm is about as good.
pub fn best(means: &[f64]) -> usize {
    let best = (0..means.len()).max_by(|&a, &b| means[a].total_cmp(&means[b])).unwrap_or(0);
    if means[best] <= means[0] * (1.0 + WORTH_A_CHANGE) { 0 } else { best }
}

/// The choice, and its place in resampled populations.
struct Chosen {
    choice: usize,
    /// Share of the resampled populations in which each candidate is the choice.
    wins: Vec<f64>,
    sure: f64,
    tied: Vec<usize>,
}

fn chosen(worths: &[Vec<f64>], rng: &mut Rng) -> Chosen {
    let choice = best(&worths.iter().map(|worths| mean(worths)).collect::<Vec<_>>());
    let n = worths[0].len();
    let indices: Vec<f64> = (0..n).map(|index| index as f64).collect();
    let mut drawn = indices.clone();
    let resample = |_| {
        resampled(&indices, &mut drawn, rng);
        worths.iter().map(|worths| drawn.iter().map(|&index| worths[index as usize]).sum::<f64>()).collect()
    };
    let resamples: Vec<Vec<f64>> = (0..RESAMPLES).map(resample).collect();
    let count =
        |of: &dyn Fn(&Vec<f64>) -> bool| resamples.iter().filter(|means| of(means)).count() as f64 / RESAMPLES as f64;
    let wins: Vec<f64> = (0..worths.len()).map(|one| count(&|means| best(means) == one)).collect();
    let sure = count(&|means| is_best(means, &[choice]));
    let mut others: Vec<usize> = (0..worths.len()).filter(|&one| one != choice).collect();
    others.sort_by(|&a, &b| wins[b].total_cmp(&wins[a]));
    let mut set = vec![choice];
    for other in others {
        if count(&|means| is_best(means, &set)) < SURE {
            set.push(other);
        }
    }
    Chosen { choice, wins, sure, tied: set.split_off(1) }
}

/// True if one of a set is the best, or within [`WORTH_A_CHANGE`] of it; new algorithms must be better than the current one.
fn is_best(means: &[f64], set: &[usize]) -> bool {
    let max = |of: &mut dyn Iterator<Item = f64>| of.fold(0.0, f64::max);
    let own = max(&mut set.iter().map(|&one| means[one]));
    max(&mut means.iter().copied()) <= own * (1.0 + WORTH_A_CHANGE) && (set.contains(&0) || own > means[0])
}

/// Ratio of two means, with its interval over resampled paths. It equals the ratio of the two values displayed.
fn ratio(own: &[f64], base: &[f64], rng: &mut Rng) -> Interval {
    let pairs: Vec<(f64, f64)> =
        own.iter().zip(base).map(|(a, b)| (*a, *b)).filter(|(a, b)| a.is_finite() && b.is_finite()).collect();
    let of = |indices: &[f64]| {
        let sums =
            indices.iter().map(|&nth| pairs[nth as usize]).fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        sums.0 / sums.1
    };
    let indices: Vec<f64> = (0..pairs.len()).map(|nth| nth as f64).collect();
    let middle = of(&indices);
    if !middle.is_finite() {
        return Interval::NONE;
    }
    let mut drawn = indices.clone();
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            resampled(&indices, &mut drawn, rng);
            of(&drawn)
        })
        .filter(|ratio| ratio.is_finite())
        .collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| nearest_position(&ratios, share);
    if ratios.is_empty() { Interval::NONE } else { Interval { middle, low: at(0.025), high: at(0.975) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::{Kind, KindSpec};

    fn spec(rate: &str, buffer: &str, loss: &str) -> KindSpec {
        KindSpec {
            rate: rate.to_owned(),
            rtt: "40ms".to_owned(),
            buffer: buffer.to_owned(),
            loss: loss.to_owned(),
            rivals: "0".to_owned(),
            ..KindSpec::unknown()
        }
    }

    fn ask(spec: &KindSpec, objective: &str, draws: u64, seed: u64) -> Advice {
        let question = Question {
            population: &Population::of(Kind::parse(spec).unwrap()),
            conditions: &Conditions::default(),
            flows: &["cubic", "bbr1"].map(str::to_owned),
            objective: Objective::named(objective).unwrap(),
            draws,
            seed,
        };
        advise(&question, &|| ()).unwrap()
    }

    const GOODPUT: usize = 0;
    const OTHERS: usize = 6;

    #[test]
    fn a_lossy_path_wants_bbr_and_says_by_how_much_and_why() {
        let advice = ask(&spec("5mbit", "1bdp", "2%"), "throughput", 3, 1);
        let bbr1 = &advice.candidates[1];
        assert_eq!(advice.choice, 1);
        assert!(bbr1.gain[GOODPUT].low > 1.3 && advice.sure > SURE && bbr1.gain[OTHERS].middle.is_nan(), "{bbr1:?}");
        let first = bbr1.reasons[0];
        assert!(first.figure == Figure::FairShare && first.own > first.other && first.part > 0.3, "{first:?}");
        assert_eq!(bbr1.better_on, 3);
    }

    #[test]
    fn what_is_as_good_stays_as_it_is() {
        let advice = ask(&spec("5mbit", "4bdp", "0%"), "throughput", 3, 1);
        assert_eq!(advice.choice, 0, "{advice:?}");
        assert_eq!(best(&[1.0, 1.019]), 0);
        assert_eq!(best(&[1.0, 1.03]), 1);
    }

    #[test]
    fn algorithms_that_differ_by_chance_alone_are_tied() {
        // Each of the two is far better than the current one; which of them is best depends on the paths drawn.
        let noise = |nth: usize, by: f64| (0..24).map(|path| 0.8 + by * ((path * 7 + nth) % 5) as f64).collect();
        let worths = [vec![0.5; 24], noise(0, 0.04), noise(2, 0.04)];
        let Chosen { choice, tied, sure, .. } = chosen(&worths, &mut Rng::new(1));
        assert!(choice != 0 && tied == [3 - choice] && sure < SURE, "{choice} {tied:?} {sure}");
        // A difference that is not worth a change is none.
        let Chosen { tied, sure, .. } = chosen(&[vec![0.5; 24], noise(0, 0.001), noise(2, 0.001)], &mut Rng::new(1));
        assert!(tied.is_empty() && sure >= SURE, "{tied:?} {sure}");
        // The current one may be the best too.
        let Chosen { tied, choice, .. } = chosen(&[noise(0, 0.04), noise(2, 0.04)], &mut Rng::new(1));
        assert!(tied == [1 - choice], "{choice} {tied:?}");
    }

    #[test]
    fn where_nothing_works_there_is_no_advice() {
        let mut advice = ask(&spec("5mbit", "1bdp", "2%"), "throughput", 3, 1);
        assert!(advice.is_clear() && !text::verdict(&advice).starts_with("No"));
        for (candidate, nth) in advice.candidates.iter_mut().zip(0_u8..) {
            candidate.score = 0.001 * f64::from(nth);
            candidate.score_gain = Interval { low: f64::NAN, middle: f64::NAN, high: f64::NAN };
        }
        assert!(!advice.is_clear() && text::verdict(&advice) == "No advice");
        let said = text::headline(&advice, Objective::named("throughput").unwrap()) + &text::why(&advice);
        assert!(said.starts_with("No advice: no algorithm serves") && !said.contains("NaN"), "{said}");
    }

    #[test]
    fn the_same_question_gets_the_same_answer() {
        let one = || ask(&spec("2mbit..5mbit", "0.5bdp..2bdp", "0%..1%"), "balanced", 4, 9);
        assert_eq!(format!("{:?}", one()), format!("{:?}", one()));
    }

    #[test]
    fn a_ratio_is_that_of_the_figures_beside_it() {
        let advice = ask(&spec("2mbit..20mbit", "0.5bdp..8bdp", "0%..2%"), "balanced", 5, 2);
        let (cubic, bbr1) = (&advice.candidates[0], &advice.candidates[1]);
        let is_known = |(nth, _): &(usize, &Figure)| cubic.figures[*nth].is_finite();
        for (nth, figure) in Figure::ALL.iter().enumerate().filter(is_known) {
            let (shown, ratio) = (bbr1.figures[nth] / cubic.figures[nth], bbr1.gain[nth]);
            assert!((shown - ratio.middle).abs() < 1e-9, "{figure:?}: {shown} {ratio:?}");
            assert!(ratio.low <= ratio.middle && ratio.middle <= ratio.high, "{figure:?}: {ratio:?}");
        }
    }

    #[test]
    fn a_choice_has_a_reason_that_points_its_way() {
        for (nth, (buffer, loss, objective)) in [
            ("0.3bdp", "0%..3%", "balanced"),
            ("8bdp", "0%", "delay"),
            ("1bdp", "0.5%", "polite"),
            ("0.2bdp", "0%", "throughput"),
        ]
        .into_iter()
        .enumerate()
        {
            let rivals = KindSpec { rivals: "0..2".to_owned(), ..spec("5mbit", buffer, loss) };
            let advice = ask(&rivals, objective, 4, nth as u64);
            let other = &advice.candidates[1];
            let rises = other.score > advice.candidates[0].score;
            let differs = (other.score_gain.middle - 1.0).abs() > WORTH_A_CHANGE;
            let carries = other.reasons.first().is_some_and(|reason| (reason.part > 0.0) == rises);
            assert!(!differs || carries, "{objective}: {other:?}");
        }
    }

    /// Goal: of measured connections, those paths are drawn on which the algorithm in use does what was measured.
    #[test]
    fn drawn_paths_do_what_was_measured_on_them() {
        use crate::measured::{Connection, evidence};
        let one = |nth: u32, rate_bps: f64, min_rtt_s: f64, rise: f64, again: f64| Connection {
            ends: Some((format!("10.0.0.1:{nth}"), format!("10.1.0.{nth}:443"))),
            cc: Some("cubic".to_owned()),
            rate_bps: Some(rate_bps),
            min_rtt_s: Some(min_rtt_s),
            rtt_s: Some(min_rtt_s * rise),
            sent: Some(5e7),
            again: Some(again),
            ..Connection::default()
        };
        // A link that is filled, one where random losses keep the window small, and one with half of a shared buffer.
        let connections = [one(1, 9e6, 0.02, 2.0, 1e5), one(2, 3e6, 0.05, 1.02, 4e5), one(3, 5e6, 0.03, 1.5, 5e5)];
        let request = |connections: &[Connection]| Request {
            evidence: Some(("test".to_owned(), evidence(connections))),
            draws: Some(12),
            duration: Some("15s".to_owned()),
            seed: 1,
            ..Request::default()
        };
        let answer = request(&connections).prepare().unwrap().answer(&|| ()).unwrap();
        let agreement = answer.advice.agreement.unwrap();
        let [own, seen] = agreement.rtt_ratio;
        assert!((0.8..1.25).contains(&(own / seen)) && (0.8..1.25).contains(&agreement.goodput), "{agreement:?}");
        assert!(!agreement.is_off() && agreement.paths == 12);
        // Each of the three is among the draws.
        for rtt_s in [0.02, 0.05, 0.03] {
            assert!(answer.advice.paths.iter().any(|path| (path.rtt_s - rtt_s).abs() < 1e-9), "{rtt_s}");
        }
        // As behind a policer: no path of a queue and random losses costs CUBIC 8 % and leaves it this rate without a rise of the RTT.
        let policed = [one(1, 9e6, 0.02, 1.0, 4e6)];
        let answer = request(&policed).prepare().unwrap().answer(&|| ()).unwrap();
        let said = text::headline(&answer.advice, answer.objective);
        assert!(!answer.advice.is_clear() && said.starts_with("No advice"), "{said}");
    }

    #[test]
    fn fast_paths_are_drawn_less_often_and_run_for_a_shorter_time() {
        let ask = |rate: &str| {
            let population = Population::of(Kind::parse(&spec(rate, "1bdp", "0%")).unwrap());
            let question = Question {
                population: &population,
                conditions: &Conditions::default(),
                flows: &["cubic", "bbr1", "bbr3"].map(str::to_owned),
                objective: Objective::named("balanced").unwrap(),
                draws: 24,
                seed: 1,
            };
            let (draws, conditions) = question.affordable();
            (draws, conditions.seconds(&population.draw(1, 0)))
        };
        let (draws, seconds) = ask("10gbit");
        assert!(draws == DRAWS_LEAST && (3.0..6.0).contains(&seconds), "{draws} {seconds}");
        assert_eq!(ask("100mbit"), (24, 12.0));
    }
}
