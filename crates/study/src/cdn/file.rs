//! A population file: classes of users, each with distributions of paths and objects. Each user's draws are independent
//! of the others'.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{NANOS_PER_SEC, Rng};
use serde::Deserialize;

use super::value_spec::ValueSpec;
use super::{Class, Design, Path, User};
use crate::{Error, Result};
use bbrlab_sim::metrics::fnv1a;
use bbrlab_sim::scenario::arrivals::uniform;
use bbrlab_sim::scenario::{BitRate, BufferSize, FlowSpec, LossModel, Problem, Ratio, TimeSpan, Volume, read_toml};
use bbrlab_sim::setup::Object;

/// First seed stream of users.
const STREAM: u64 = 0x6364_6e00_0000_0000;
/// Maximum users of a class. Ours: a guard against a slip.
const USERS_MAX: u32 = 1_000_000;
/// Maximum objects of a connection. Ours: a guard against a slip.
const OBJECTS_MAX: u32 = 10_000;
/// Maximum connections of a user. Ours.
const PARALLEL_MAX: u32 = 100;

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Population {
    /// Title of the population.
    #[serde(default)]
    pub title: String,
    /// Algorithms with their parameters, in the syntax of `--flow`; the last is the control.
    #[serde(default = "algorithms")]
    pub algorithms: Vec<String>,
    /// Users of each class without a number of its own.
    #[serde(default = "users")]
    pub users: u32,
    /// Time over which users arrive evenly.
    #[serde(default = "span")]
    pub span: TimeSpan,
    /// Time at which the hosts under test change to the first algorithm; half of the span by default.
    pub activation: Option<TimeSpan>,
    /// Share of users served by hosts under test.
    #[serde(default = "split")]
    pub split: Ratio,
    /// Width of the bins over time; a sixth of the span by default.
    pub bin: Option<TimeSpan>,
    pub class: Vec<ClassSpec>,
}

/// A class of users.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ClassSpec {
    pub name: String,
    /// Network of its users.
    #[serde(default)]
    pub network: String,
    /// Description in words.
    #[serde(default)]
    pub note: String,
    /// Number of users.
    pub users: Option<u32>,
    pub rate: ValueSpec<BitRate>,
    /// Two-way propagation time.
    pub rtt: ValueSpec<TimeSpan>,
    /// Random loss after the bottleneck.
    #[serde(default = "no_loss")]
    pub loss: ValueSpec<Ratio>,
    /// Bottleneck queue limit.
    #[serde(default = "one_bdp")]
    pub buffer: ValueSpec<BufferSize>,
    /// Size of each object.
    pub size: ValueSpec<Volume>,
    /// Objects of a connection.
    #[serde(default = "one")]
    pub objects: u32,
    /// Pause from the arrival of an object to the next request.
    #[serde(default = "no_pause")]
    pub pause: ValueSpec<TimeSpan>,
    /// Parallel connections of a user, each with its own objects.
    #[serde(default = "one")]
    pub parallel: u32,
    /// Bulk flows that share the bottleneck, in the syntax of `--flow`.
    #[serde(default)]
    pub rivals: Vec<FlowSpec>,
    /// Time for which the rivals have been running when the user arrives.
    #[serde(default = "lead")]
    pub lead: TimeSpan,
    /// Options of each of the user's connections, in the syntax of `--flow` after the algorithm.
    #[serde(default)]
    pub options: String,
    /// Maximum lifetime of a connection.
    #[serde(default = "life")]
    pub life: TimeSpan,
}

fn algorithms() -> Vec<String> {
    vec!["bbr1".to_owned(), "cubic".to_owned()]
}
const fn users() -> u32 {
    100
}
const fn span() -> TimeSpan {
    TimeSpan::secs(7200)
}
const fn split() -> Ratio {
    Ratio(0.5)
}
const fn no_loss() -> ValueSpec<Ratio> {
    ValueSpec::Always(Ratio(0.0))
}
const fn one_bdp() -> ValueSpec<BufferSize> {
    ValueSpec::Always(BufferSize::Bdp(1.0))
}
const fn one() -> u32 {
    1
}
const fn no_pause() -> ValueSpec<TimeSpan> {
    ValueSpec::Always(TimeSpan(0))
}
const fn lead() -> TimeSpan {
    TimeSpan::secs(3)
}
const fn life() -> TimeSpan {
    TimeSpan::secs(60)
}

impl Population {
    /// Reads a population from TOML; an error begins with its line.
    pub fn parse(text: &str) -> Result<Self> {
        let population: Self = read_toml(text).map_err(|(line, error)| match error.problem {
            Problem::MissingKey("class") => Error::at(1)(Error::NoTables("class")),
            _ => Error::at(line)(error),
        })?;
        population.check().map_err(Error::at(1))?;
        Ok(population)
    }

    /// Checks the population; the error describes the first problem.
    pub fn check(&self) -> Result<()> {
        check_algorithms(&self.algorithms)?;
        if !(1..=USERS_MAX).contains(&self.users) {
            return Err(Error::at("users")(Error::OutOfRange { found: self.users, max: USERS_MAX }));
        }
        if self.class.is_empty() {
            return Err(Error::NoTables("class"));
        }
        if self.span.0 == 0 || self.bin.is_some_and(|bin| bin.0 == 0) {
            return Err(Error::NoSpan);
        }
        for (nth, class) in self.class.iter().enumerate() {
            let twice = self.class[..nth].iter().any(|c| c.name == class.name && c.network == class.network);
            if class.name.is_empty() || twice {
                return Err(Error::at(format!("class {}", nth + 1))(Error::ClassName(class.name.clone())));
            }
            class.check().map_err(Error::at(format!("class {:?}", class.name)))?;
        }
        Ok(())
    }

    /// Returns the classes and the design of the study.
    pub fn design(&self) -> Design {
        let span_s = self.span.as_secs();
        Design {
            title: self.title.clone(),
            algorithms: self.algorithms.clone(),
            span_s,
            activation_s: self.activation.map_or(span_s / 2.0, TimeSpan::as_secs),
            bin_s: self.bin.map_or(span_s / 6.0, TimeSpan::as_secs),
            classes: self.class.iter().map(ClassSpec::class).collect(),
        }
    }

    /// Total number of users.
    pub fn count(&self) -> usize {
        self.class.iter().map(|class| class.users.unwrap_or(self.users) as usize).sum()
    }

    /// Draws the users, class by class, each with its own random numbers.
    pub fn draw(&self, seed: u64) -> Vec<User> {
        let mut users = Vec::with_capacity(self.count());
        for (index, class) in self.class.iter().enumerate() {
            let label = fnv1a(format!("{}/{}", class.name, class.network).as_bytes());
            for nth in 0..class.users.unwrap_or(self.users) {
                let mut rng = Rng::derive(seed, STREAM ^ label.wrapping_add(u64::from(nth)));
                let arrival_s = (1.0 - uniform(&mut rng)) * self.span.as_secs();
                let is_tested = uniform(&mut rng) <= self.split.0;
                users.push(class.user(&mut rng, index, format!("{} {nth}", class.name), arrival_s, is_tested));
            }
        }
        users
    }
}

/// Checks the algorithms of a study: one flow text each, without count, start or traffic.
pub fn check_algorithms(algorithms: &[String]) -> Result<()> {
    if algorithms.len() < 2 {
        return Err(Error::at("algorithms")(Error::NothingToCompare));
    }
    for (nth, text) in algorithms.iter().enumerate() {
        FlowSpec::bare(text).map_err(Error::at("algorithms"))?;
        if algorithms[..nth].contains(text) {
            return Err(Error::at("algorithms")(Error::Twice(text.clone())));
        }
    }
    Ok(())
}

impl ClassSpec {
    fn check(&self) -> Result<()> {
        self.rate.check("rate")?;
        self.rtt.check("rtt")?;
        self.loss.check("loss")?;
        self.buffer.check("buffer")?;
        self.size.check("size")?;
        self.pause.check("pause")?;
        let within = |key: &str, value: u32, max: u32| {
            if (1..=max).contains(&value) {
                Ok(())
            } else {
                Err(Error::at(key)(Error::OutOfRange { found: value, max }))
            }
        };
        within("users", self.users.unwrap_or(1), USERS_MAX)?;
        within("objects", self.objects, OBJECTS_MAX)?;
        within("parallel", self.parallel, PARALLEL_MAX)?;
        if self.life.0 < NANOS_PER_SEC / 1000 {
            return Err(Error::at("life")(Error::TooShort { found: self.life.to_string(), min: "1ms" }));
        }
        let options: FlowSpec = with_options("cubic", &self.options).parse().map_err(Error::at("options"))?;
        if !options.is_bulk() || !self.rivals.iter().all(FlowSpec::is_bulk) {
            return Err(Error::Traffic);
        }
        Ok(())
    }

    fn class(&self) -> Class {
        let mut about = vec![
            format!("rate {}", self.rate.shown()),
            format!("RTT {}", self.rtt.shown()),
            format!("loss {}", self.loss.shown()),
            format!("buffer {}", self.buffer.shown()),
            format!("{} × {}", self.objects, self.size.shown()),
        ];
        if self.pause != no_pause() {
            about.push(format!("pause {}", self.pause.shown()));
        }
        if self.parallel > 1 {
            about.push(format!("{} connections at once", self.parallel));
        }
        if !self.rivals.is_empty() {
            let rivals: Vec<String> = self.rivals.iter().map(ToString::to_string).collect();
            about.push(format!("beside {}", rivals.join(" and ")));
        }
        if !self.options.is_empty() {
            about.push(self.options.clone());
        }
        Class {
            name: self.name.clone(),
            network: self.network.clone(),
            note: self.note.clone(),
            about: about.join("; "),
        }
    }

    fn user(&self, rng: &mut Rng, class: usize, name: String, arrival_s: f64, is_tested: bool) -> User {
        let path = Path {
            rate: self.rate.draw(rng),
            rtt: self.rtt.draw(rng),
            loss: match self.loss.draw(rng) {
                Ratio(0.0) => LossModel::None,
                loss => LossModel::Bernoulli(loss),
            },
            buffer: self.buffer.draw(rng),
            rivals: self.rivals.clone(),
            lead: if self.rivals.is_empty() { TimeSpan(0) } else { self.lead },
            options: self.options.clone(),
            life: self.life,
        };
        let object = |rng: &mut Rng| Object { size: self.size.draw(rng).0, pause: self.pause.draw(rng).span() };
        let connections = (0..self.parallel).map(|_| (0..self.objects).map(|_| object(rng)).collect()).collect();
        User { name, class, arrival_s, is_tested, path, connections, seed: rng.next_u64() }
    }
}

/// Appends options to an algorithm's flow text.
pub(super) fn with_options(algorithm: &str, options: &str) -> String {
    if options.is_empty() { algorithm.to_owned() } else { format!("{algorithm},{options}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "users = 3\n[[class]]\nname = 'a'\nrate = '10mbit'\nrtt = '40ms'\nsize = '1MB'\n";

    #[test]
    fn users_repeat_with_their_seed_and_do_not_depend_on_other_classes() {
        let one = Population::parse(TEXT).unwrap();
        let other = TEXT.replace("users = 3\n", "").replace("'a'", "'b'");
        let two = Population::parse(&format!("users = 3\n{}{}", other, &TEXT[10..])).unwrap();
        assert_eq!(one.draw(7), one.draw(7));
        assert_ne!(one.draw(7), one.draw(8));
        let seeds = |users: &[User]| users.iter().map(|user| user.seed).collect::<Vec<_>>();
        assert_eq!(seeds(&one.draw(7)), seeds(&two.draw(7)[3..]));
    }

    #[test]
    fn a_slip_is_named_with_its_line() {
        for (slip, what) in [
            (TEXT.replace("10mbit", "ten"), "4: class 1: rate: "),
            (TEXT.replace("rate", "rat"), "4: class 1: unknown key \"rat\"; did you mean rate?"),
            (TEXT.replace("'1MB'", "{ uniform = { min = '2MB', max = '1MB' } }"), "class \"a\": size: out of range"),
            (format!("algorithms = ['bbr1']\n{TEXT}"), "at least two"),
            (format!("algorithms = ['bbr9', 'cubic']\n{TEXT}"), "bbr9"),
        ] {
            let error = Population::parse(&slip).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
