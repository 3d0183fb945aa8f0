//! Metrics of a study: gains with intervals, medians over time, distributions. Objects of one connection do not count
//! as independent.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Rng;

use super::{LARGE, ObjectOutcome, Study, User, UserRun};
use crate::comparison::Interval;
use crate::judgement::Judgement;
use bbrlab_stats::bootstrap::{interval_of_median, interval_of_median_ratio};
use bbrlab_stats::median;
use bbrlab_stats::quantile::nearest_rank;

/// First seed stream of the bootstrap.
const STREAM: u64 = 0x6364_6e02_0000_0000;

/// Filter on the users and objects of a study. `None` selects all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Segment {
    /// Users of this class.
    pub class: Option<usize>,
    /// Object sizes, from the first up to but not including the second, bytes.
    pub size: Option<(u64, u64)>,
    /// Share retransmitted in the user's control run, from the first up to but not including the second.
    pub retransmits: Option<(f64, f64)>,
    /// Path RTT, from the first up to but not including the second, ms.
    pub rtt_ms: Option<(f64, f64)>,
    /// Age of the connection at which the control requested the object, seconds.
    pub age_s: Option<(f64, f64)>,
    /// Arrival time of the user, seconds.
    pub arrival_s: Option<(f64, f64)>,
    /// True selects users served by hosts under test, false the others.
    pub is_tested: Option<bool>,
}

/// Sizes of objects judged by completion time.
pub const SMALL_SIZES: (u64, u64) = (0, LARGE);
/// Sizes of objects judged by throughput.
pub const LARGE_SIZES: (u64, u64) = (LARGE, u64::MAX);

/// Gain of an algorithm over the control: 0.1 is a tenth faster, for completion times as for throughputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// The median over users.
    pub gain: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Number of users behind the gain.
    pub users: usize,
    /// Number of objects behind the gain.
    pub objects: usize,
}

/// Smallest gain worth reporting, even if a smaller one is significant. Ours.
const NOTICEABLE: f64 = 0.01;

impl Gain {
    /// Gain and its interval.
    pub const fn interval(&self) -> Interval {
        Interval { middle: self.gain, low: self.low, high: self.high }
    }

    /// Outcome that the interval supports.
    pub const fn judgement(&self) -> Judgement {
        if self.users < 2 {
            Judgement::TooFew
        } else if self.low > 0.0 && self.gain >= NOTICEABLE {
            Judgement::Faster
        } else if self.high < 0.0 && self.gain <= -NOTICEABLE {
            Judgement::Slower
        } else if self.low > 0.0 || self.high < 0.0 {
            Judgement::Same
        } else {
            Judgement::NoDifference
        }
    }
}

/// One object under two algorithms.
struct ObjectPair {
    size: u64,
    tested: ObjectOutcome,
    control: ObjectOutcome,
}

impl Segment {
    /// Selects the objects of one class that are judged by completion time, or those judged by throughput.
    pub fn judged(class: usize, is_large: bool) -> Self {
        let size = Some(if is_large { LARGE_SIZES } else { SMALL_SIZES });
        Self { class: Some(class), size, ..Self::default() }
    }

    fn takes_user(&self, user: &User, control: &UserRun) -> bool {
        self.class.is_none_or(|class| class == user.class)
            && within(self.retransmits, control.retransmit_ratio)
            && within(self.rtt_ms, user.path.rtt.as_secs() * 1e3)
            && within(self.arrival_s, user.arrival_s)
            && self.is_tested.is_none_or(|is_tested| is_tested == user.is_tested)
    }

    fn takes_size(&self, size: u64) -> bool {
        self.size.is_none_or(|(from, below)| size >= from && size < below)
    }
}

fn within(range: Option<(f64, f64)>, value: f64) -> bool {
    range.is_none_or(|(from, below)| value >= from && value < below)
}

/// Returns the size and outcome of each object served to a user.
fn objects<'a>(user: &'a User, life: &'a UserRun) -> impl Iterator<Item = (u64, ObjectOutcome)> + 'a {
    let connections = user.connections.iter().zip(&life.connections);
    connections.flat_map(|(objects, served)| objects.iter().map(|object| object.size).zip(served.iter().copied()))
}

impl Study {
    fn taken(&self, cut: &Segment) -> impl Iterator<Item = (&User, &[UserRun])> {
        let control = self.control();
        let all = self.users.iter().zip(self.lives.iter().map(Vec::as_slice));
        let cut = *cut;
        all.filter(move |(user, lives)| cut.takes_user(user, &lives[control]))
    }

    /// Pairs the objects requested under both algorithms. An object complete under neither is left out.
    fn pairs(user: &User, tested: &UserRun, control: &UserRun, cut: &Segment) -> Vec<ObjectPair> {
        let mut pairs = Vec::new();
        for ((list, tested), control) in user.connections.iter().zip(&tested.connections).zip(&control.connections) {
            for ((object, tested), control) in list.iter().zip(tested).zip(control) {
                pairs.push(ObjectPair { size: object.size, tested: *tested, control: *control });
            }
        }
        pairs.retain(|pair| {
            (pair.tested.is_whole || pair.control.is_whole)
                && cut.takes_size(pair.size)
                && within(cut.age_s, pair.control.age_s)
        });
        pairs
    }

    /// Gain of algorithm `arm`: each user is compared with the same user under the control. A user counts by the
    /// geometric mean over its objects.
    pub fn gain(&self, arm: usize, cut: &Segment) -> Gain {
        let control = self.control();
        let (mut ratios, mut objects) = (Vec::new(), 0);
        for (user, lives) in self.taken(cut) {
            let pairs = Self::pairs(user, &lives[arm], &lives[control], cut);
            if !pairs.is_empty() {
                let ratio = |pair: &ObjectPair| (pair.control.time_s / pair.tested.time_s).ln();
                ratios.push((pairs.iter().map(ratio).sum::<f64>() / pairs.len() as f64).exp());
                objects += pairs.len();
            }
        }
        let middle = median(&mut ratios);
        let (low, high) = interval_of_median(&ratios, &mut self.rng(arm));
        Gain { gain: middle - 1.0, low: low - 1.0, high: high - 1.0, users: ratios.len(), objects }
    }

    /// Relative change in rivals' goodput beside algorithm `arm`, compared with beside the control: −0.2 is a fifth
    /// less. The median over users with rivals.
    pub fn rivals(&self, arm: usize, cut: &Segment) -> Gain {
        let control = self.control();
        let ratio = |(_, lives): (&User, &[UserRun])| {
            let (own, base) = (lives[arm].rivals_bps?, lives[control].rivals_bps?);
            (base > 0.0).then(|| own / base)
        };
        let mut ratios: Vec<f64> = self.taken(cut).filter_map(ratio).collect();
        let middle = median(&mut ratios);
        let (low, high) = interval_of_median(&ratios, &mut self.rng(arm));
        Gain { gain: middle - 1.0, low: low - 1.0, high: high - 1.0, users: ratios.len(), objects: 0 }
    }

    /// Gain as an A/B test with two groups of users would measure it: the medians of one group against those of the
    /// other. The interval is wider, because the users differ.
    pub fn split_gain(&self, arm: usize, cut: &Segment, is_after: bool) -> Gain {
        let (from, to) = if is_after { (self.design.activation_s, f64::MAX) } else { (0.0, self.design.activation_s) };
        let group = |is_tested: bool| {
            let cut = Segment { arrival_s: Some((from, to)), is_tested: Some(is_tested), ..*cut };
            // Before the activation the control serves both groups.
            let arm = if is_tested && is_after { arm } else { self.control() };
            let mut values = self.user_speeds(arm, &cut);
            (median(&mut values), values)
        };
        let ((tested, tests), (control, controls)) = (group(true), group(false));
        let users = tests.len() + controls.len();
        let mut rng = self.rng(arm);
        if tests.len() < 2 || controls.len() < 2 {
            return Gain { gain: f64::NAN, low: f64::NAN, high: f64::NAN, users, objects: 0 };
        }
        let (low, high) = interval_of_median_ratio(&tests, &controls, &mut rng);
        Gain { gain: tested / control - 1.0, low: low - 1.0, high: high - 1.0, users, objects: 0 }
    }

    /// Returns each user's speed: the geometric mean of its objects' bytes per second.
    fn user_speeds(&self, arm: usize, cut: &Segment) -> Vec<f64> {
        let speed = |(user, lives): (&User, &[UserRun])| {
            let speeds: Vec<f64> = objects(user, &lives[arm])
                .filter(|(size, served)| served.is_whole && cut.takes_size(*size))
                .map(|(size, served)| (size as f64 / served.time_s).ln())
                .collect();
            (!speeds.is_empty()).then(|| (speeds.iter().sum::<f64>() / speeds.len() as f64).exp())
        };
        self.taken(cut).filter_map(speed).collect()
    }

    /// Sorted values of all complete objects: completion time in ms, or throughput in Mbit/s.
    pub fn values(&self, arm: usize, cut: &Segment, is_large: bool) -> Vec<f64> {
        let mut values = Vec::new();
        for (user, lives) in self.taken(cut) {
            let served = objects(user, &lives[arm]).filter(|(size, served)| served.is_whole && cut.takes_size(*size));
            values.extend(served.map(
                |(size, served)| {
                    if is_large { size as f64 * 8e-6 / served.time_s } else { served.time_s * 1e3 }
                },
            ));
        }
        values.sort_by(f64::total_cmp);
        values
    }

    /// Unevenness of completion: 90th over 10th percentile of the time relative to the minimum for path and size.
    pub fn spread(&self, arm: usize, cut: &Segment) -> f64 {
        let mut slowdowns = Vec::new();
        for (user, lives) in self.taken(cut) {
            let (rate, rtt_s) = (user.path.rate.0 as f64 / 8.0, user.path.rtt.as_secs());
            let served = objects(user, &lives[arm]).filter(|(size, served)| served.is_whole && cut.takes_size(*size));
            slowdowns.extend(served.map(|(size, served)| served.time_s / (size as f64 / rate + rtt_s)));
        }
        slowdowns.sort_by(f64::total_cmp);
        nearest_rank(&slowdowns, 0.9) / nearest_rank(&slowdowns, 0.1)
    }

    /// Retransmitted over sent segments, the median over users.
    pub fn retransmit_ratio(&self, arm: usize, cut: &Segment) -> f64 {
        let mut ratios: Vec<f64> = self.taken(cut).map(|(_, lives)| lives[arm].retransmit_ratio).collect();
        median(&mut ratios)
    }

    /// Counts the objects that were incomplete when their connection ended.
    pub fn unfinished(&self, arm: usize, cut: &Segment) -> usize {
        let open = |(user, lives): (&User, &[UserRun])| {
            let open = objects(user, &lives[arm]).filter(|(size, served)| !served.is_whole && cut.takes_size(*size));
            open.count()
        };
        self.taken(cut).map(open).sum()
    }

    /// Returns true if the class has objects that are judged this way.
    pub fn has(&self, class: usize, is_large: bool) -> bool {
        let cut = Segment::judged(class, is_large);
        let mut own = self.users.iter().filter(|user| user.class == class);
        own.any(|user| user.connections.iter().flatten().any(|object| cut.takes_size(object.size)))
    }

    /// Generator that depends on the study and algorithm only, so that no metric depends on earlier calls.
    fn rng(&self, arm: usize) -> Rng {
        Rng::derive(self.seed, STREAM + arm as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cdn::{Population, UserRun};

    /// Users whose objects take `slow` seconds under the control and 1 s under the algorithm.
    fn study(slow: &[f64]) -> Study {
        let text = "[[class]]\nname = 'a'\nrate = '10mbit'\nrtt = '40ms'\nsize = '1MB'\nobjects = 2\n";
        let population = Population::parse(&format!("users = {}\n{text}", slow.len())).unwrap();
        let served = |time_s: f64| ObjectOutcome { age_s: 0.0, time_s, is_whole: true };
        let life = |time_s: f64| UserRun { connections: vec![vec![served(time_s); 2]], ..UserRun::default() };
        let lives = slow.iter().map(|&time_s| vec![life(1.0), life(time_s)]).collect();
        Study { design: population.design(), users: population.draw(1), lives, seed: 1 }
    }

    #[test]
    fn a_gain_is_the_median_over_users_and_its_interval_holds_it() {
        let gain = study(&[1.1, 1.2, 1.3, 1.4, 1.5]).gain(0, &Segment::judged(0, false));
        assert!((gain.gain - 0.3).abs() < 1e-9 && gain.low <= gain.gain && gain.gain <= gain.high, "{gain:?}");
        assert_eq!((gain.users, gain.objects, gain.judgement()), (5, 10, Judgement::Faster));
    }

    #[test]
    fn a_gain_of_either_sign_that_is_chance_is_called_no_difference() {
        let gain = study(&[0.8, 1.25, 0.9, 1.1, 1.0, 0.7, 1.4]).gain(0, &Segment::default());
        assert_eq!(gain.judgement(), Judgement::NoDifference);
        assert_eq!(study(&[0.8, 0.9, 0.7, 0.8]).gain(0, &Segment::default()).judgement(), Judgement::Slower);
    }

    #[test]
    fn a_negligible_gain_is_not_called_faster() {
        let gain = study(&[1.001, 1.002, 1.001, 1.002]).gain(0, &Segment::default());
        assert!(gain.low > 0.0 && gain.judgement() == Judgement::Same, "{gain:?}");
        assert_eq!(study(&[0.999; 4]).gain(0, &Segment::default()).judgement(), Judgement::Same);
    }

    #[test]
    fn rivals_are_compared_user_by_user() {
        let mut study = study(&[1.0; 4]);
        assert_eq!(study.rivals(0, &Segment::default()).users, 0);
        for lives in &mut study.lives {
            lives[0].rivals_bps = Some(3e6);
            lives[1].rivals_bps = Some(4e6);
        }
        let rivals = study.rivals(0, &Segment::default());
        assert!((rivals.gain + 0.25).abs() < 1e-9 && rivals.users == 4, "{rivals:?}");
    }

    #[test]
    fn before_the_activation_both_groups_are_the_controls() {
        let study = study(&[2.0; 40]);
        let cut = Segment::judged(0, false);
        assert_eq!(study.split_gain(0, &cut, false).gain, 0.0);
        assert!((study.split_gain(0, &cut, true).gain - 1.0).abs() < 1e-9);
    }

    #[test]
    fn an_object_that_is_whole_under_neither_says_nothing() {
        let mut study = study(&[2.0, 2.0]);
        for life in study.lives.iter_mut().flatten() {
            life.connections[0][1].is_whole = false;
        }
        assert_eq!(study.gain(0, &Segment::default()).objects, 2);
        assert_eq!(study.unfinished(1, &Segment::default()), 2);
    }

    #[test]
    fn segments_select_the_values_within_them() {
        let study = study(&[2.0; 6]);
        let none = |cut: Segment| assert_eq!(study.gain(0, &cut).users, 0);
        none(Segment::judged(0, true));
        none(Segment { rtt_ms: Some((50.0, 100.0)), ..Segment::default() });
        none(Segment { retransmits: Some((0.01, 1.0)), ..Segment::default() });
        none(Segment { age_s: Some((1.0, 2.0)), ..Segment::default() });
        assert_eq!(study.gain(0, &Segment { rtt_ms: Some((40.0, 41.0)), ..Segment::default() }).users, 6);
    }
}
