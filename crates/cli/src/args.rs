//! Flags shared by several commands. The scenario language parses their units, in files and flags alike.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Display;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use bbrlab_sim::scenario::{KEYS, Key, KeyGroup};
use bbrlab_sim::setup::Program;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use crate::Error;

/// Selection of a scenario's keys that a command has as flags.
pub trait KeySet {
    /// True if the key is one of the command's flags.
    fn has(key: &Key) -> bool;
}

/// Declares sets of keys: the groups, and the names of others.
macro_rules! key_sets {
    ($($(#[doc = $doc:literal])+ $(#[cfg($($cfg:tt)+)])? $name:ident: [$($group:ident),*] $(and [$($other:literal),+])?;)+) => {$(
        $(#[doc = $doc])+
        $(#[cfg($($cfg)+)])?
        #[derive(Debug, Default)]
        pub struct $name;

        $(#[cfg($($cfg)+)])?
        impl KeySet for $name {
            fn has(key: &Key) -> bool {
                key.is_flag() && (matches!(key.group, $(KeyGroup::$group)|*) $(|| matches!(key.name, $($other)|+))?)
            }
        }
    )+};
}

key_sets! {
    /// All keys: `run`.
    AllKeys: [Path, Condition, Run];
    /// Properties of a path other than rate, RTT, buffer and loss, which `advise` takes as ranges.
    ConditionKeys: [Condition];
    /// The path, and the seed of its random numbers: `emulate`.
    EmulateKeys: [Path, Condition] and ["seed"];
    /// The path, and a recording's flows: `record`.
    RecordKeys: [Path, Condition] and ["flow", "duration", "seed"];
    /// Keys that apply to every run of a sweep: `sweep`.
    #[cfg(feature = "parquet")]
    SweepKeys: [Path, Condition] and ["flow", "duration", "warmup", "seed", "repeat", "name"];
    /// Keys of the one scenario of `validate --packets`.
    PacketsKeys: [Path, Condition] and ["flow", "duration"];
}

/// Flags for a set of scenario keys, with the values that were given. The scenario language parses them.
#[derive(Debug, Default)]
pub struct KeyArgs<S> {
    given: Vec<(&'static str, String)>,
    set: PhantomData<S>,
}

impl<S: KeySet> KeyArgs<S> {
    /// Yields the given keys with their values, except for flows.
    pub fn overrides(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.given.iter().filter(|(key, _)| *key != FLOW).map(|(key, text)| (*key, text.as_str()))
    }

    /// Value of a key, if given.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.given.iter().find(|(given, _)| *given == key).map(|(_, text)| text.as_str())
    }

    /// The first given key.
    pub fn first(&self) -> Option<&'static str> {
        self.given.first().map(|(key, _)| *key)
    }

    /// The given flows.
    pub fn flows(&self) -> Vec<String> {
        self.given.iter().filter(|(key, _)| *key == FLOW).map(|(_, text)| text.clone()).collect()
    }

    fn keys() -> impl Iterator<Item = &'static Key> {
        KEYS.iter().filter(|key| S::has(key))
    }
}

/// The key that may be given several times.
const FLOW: &str = "flow";

impl<S: KeySet> Args for KeyArgs<S> {
    fn augment_args(command: Command) -> Command {
        Self::keys().fold(command, |command, key| command.arg(flag(key)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: KeySet> FromArgMatches for KeyArgs<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let values = |key: &'static Key| {
            matches.get_many::<String>(key.name).into_iter().flatten().map(|text| (key.name, text.clone()))
        };
        Ok(Self { given: Self::keys().flat_map(values).collect(), set: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Flag of a key, with help and default from the table of keys.
fn flag(key: &'static Key) -> Arg {
    let heading = if key.group == KeyGroup::Run { "Run" } else { "Path" };
    let (short, long) = help(key);
    let arg = Arg::new(key.name)
        .long(key.name.replace('_', "-"))
        .value_name(key.value)
        .action(if key.name == FLOW { ArgAction::Append } else { ArgAction::Set })
        .allow_hyphen_values(key.name != "trace")
        .conflicts_with_all(key.conflicts)
        .help_heading(heading)
        .help(short.clone());
    if long.is_empty() { arg } else { arg.long_help(format!("{short}\n\n{long}")) }
}

/// First paragraph of the documentation of a key or option.
pub fn summary(help: &[&str]) -> String {
    let lines: Vec<&str> = help.iter().map(|line| line.trim()).take_while(|line| !line.is_empty()).collect();
    lines.join(" ")
}

/// Help of a key: the first paragraph with the default, and the details.
fn help(key: &Key) -> (String, String) {
    let mut short = summary(key.help);
    if !key.default.is_empty() {
        short += &format!(" [default: {}]", key.default);
    }
    let details = key.help.iter().map(|line| line.trim()).skip_while(|line| !line.is_empty()).skip(1);
    (short, details.collect::<Vec<_>>().join(" "))
}

/// Output files for the series of a run.
#[derive(Debug, Default, Args)]
pub struct TraceArgs {
    /// Write the packets as pcapng, for Wireshark and tcptrace: FILE for the sender's view, DIR for one file each for
    /// sender, bottleneck-in, bottleneck-out and receiver (on a real kernel: sender only)
    #[arg(long, value_name = "FILE|DIR", help_heading = "Output")]
    pub pcap: Option<PathBuf>,
    /// Maximum number of packets that --pcap records in a run; each takes about 100 bytes of memory [default: 2000000]
    #[arg(long, value_name = "N", allow_hyphen_values = true, requires = "pcap", help_heading = "Output")]
    pub pcap_limit: Option<String>,
    /// Write the series, and in the simulator the sender's packets, as qlog: FILE.qlog in qvis's dialect, FILE.sqlog in
    /// the drafts' dialect; DIR gets both
    #[arg(long, value_name = "FILE|DIR", help_heading = "Output")]
    pub qlog: Option<PathBuf>,
    /// Write the series as Parquet: FILE for the samples, DIR for runs.parquet and samples.parquet
    #[arg(long, value_name = "FILE|DIR", help_heading = "Output")]
    pub parquet: Option<PathBuf>,
    /// Write the series as CSV: FILE for flows and links in one table, DIR for one file each
    #[arg(long, value_name = "FILE|DIR", help_heading = "Output")]
    pub csv: Option<PathBuf>,
}

impl TraceArgs {
    /// True if any of them is given.
    pub const fn are_asked(&self) -> bool {
        self.pcap.is_some() || self.qlog.is_some() || self.parquet.is_some() || self.csv.is_some()
    }
}

/// Parses the source of the congestion-control programs on a real kernel.
pub fn program(text: &str) -> Result<Program, Error> {
    Program::named(text).ok_or_else(|| Error::Program(text.to_owned()))
}

/// Parser of a whole number in a range.
pub fn number<T: FromStr + PartialOrd + Display + Copy>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, Error> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| not_a_number(text, range.start(), range.end()))
    }
}

/// Parses a random seed.
pub fn seed(text: &str) -> Result<u64, Error> {
    text.parse().map_err(|_| not_a_number(text, &0, &u64::MAX))
}

fn not_a_number<T: Display>(text: &str, min: &T, max: &T) -> Error {
    Error::Number { found: text.to_owned(), min: min.to_string(), max: max.to_string() }
}
