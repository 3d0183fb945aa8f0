//! Segments of the connections that are compared separately: all, client networks from a file, and ranges of size, RTT,
//! time and age.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::assign::{mapped, mask};
use super::long::Part;
use super::survey::Survey;
use super::{Client, Experiment, PrefixLengths, Row};
use crate::cdn::LARGE;
use crate::{Error, Result};
use bbrlab_stats::number::hundredths;

/// Maximum number of classes in a file: each adds a comparison that must be corrected for. Ours.
const CLASSES_MAX: usize = 64;
/// Number of segments of the test's duration. Ours.
const TIMES: usize = 6;
/// Maximum number of ports with their own lines. Ours.
pub(super) const PORTS: usize = 8;
/// Boundaries of the ranges: bytes, milliseconds, seconds. Ours.
const SIZES: [(&str, u64, u64); 3] =
    [("below 30 kB", 0, 30_000), ("30 to 300 kB", 30_000, 300_000), ("300 kB to 3 MB", 300_000, LARGE)];
const RTTS: [(&str, u64, u64); 4] = [
    ("RTT below 20 ms", 1, 20_000),
    ("RTT 20 to 50 ms", 20_000, 50_000),
    ("RTT 50 to 100 ms", 50_000, 100_000),
    ("RTT from 100 ms", 100_000, u64::MAX),
];
pub(super) const AGES: [(&str, u64, u64); 4] = [
    ("age below 1 s", 0, 1_000_000),
    ("age 1 to 10 s", 1_000_000, 10_000_000),
    ("age 10 to 100 s", 10_000_000, 100_000_000),
    ("age from 100 s", 100_000_000, u64::MAX),
];

/// Dimension by which connections are segmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SegmentBy {
    All,
    Clients,
    Host,
    Port,
    Size,
    Rtt,
    Time,
    Age,
}

impl SegmentBy {
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Clients => "clients",
            Self::Host => "host",
            Self::Port => "port",
            Self::Size => "size",
            Self::Rtt => "RTT",
            Self::Time => "time",
            Self::Age => "age",
        }
    }

    /// (unit, scale) for printing range bounds.
    pub const fn unit(self) -> (&'static str, f64) {
        match self {
            Self::Size => ("kB", 1e-3),
            Self::Rtt => ("ms", 1e-3),
            Self::Time | Self::Age => ("s", 1e-6),
            Self::All | Self::Clients | Self::Host | Self::Port => ("", 1.0),
        }
    }
}

/// A segment of the connections, as named in a line of the report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    pub name: String,
    pub over: SegmentBy,
    /// Range in bytes or microseconds.
    pub from: u64,
    pub below: u64,
}

impl Segment {
    pub(super) fn new(name: &str, over: SegmentBy, from: u64, below: u64) -> Self {
        Self { name: name.to_owned(), over, from, below }
    }

    /// Geometric middle of the range, arithmetic for time; an open end is taken as a factor of ten away.
    pub fn middle(&self) -> f64 {
        let (from, below) = (self.from as f64, self.below as f64);
        let scale = self.over.unit().1;
        if self.over == SegmentBy::Time {
            return f64::midpoint(from, below) * scale;
        }
        let from = if from > 1.0 { from } else { below / 10.0 };
        (from * if self.below == u64::MAX { from * 10.0 } else { below }).sqrt() * scale
    }
}

type SegmentOf<'a> = Box<dyn Fn(&Row) -> Option<usize> + Sync + 'a>;

/// Segments of which a connection is in one at most.
pub(super) struct Family<'a> {
    pub segments: Vec<Segment>,
    /// Place of a connection's segment.
    pub segment_of: SegmentOf<'a>,
    /// Fields that it looks at.
    pub fields: &'static [&'static str],
}

impl<'a> Family<'a> {
    fn new(
        segments: Vec<Segment>,
        fields: &'static [&'static str],
        segment_of: impl Fn(&Row) -> Option<usize> + Sync + 'a,
    ) -> Self {
        Self { segments, segment_of: Box::new(segment_of), fields }
    }

    fn of_ranges(
        over: SegmentBy,
        ranges: &'static [(&'static str, u64, u64)],
        field: &'static [&'static str],
        value: fn(&Row) -> u64,
    ) -> Self {
        let segments = ranges.iter().map(|&(name, from, below)| Segment::new(name, over, from, below)).collect();
        Self::new(segments, field, move |row| {
            ranges.iter().position(|&(_, from, below)| (from..below).contains(&value(row)))
        })
    }
}

/// Returns all families except that of age, in the order of the report.
pub(super) fn families<'a>(test: &'a Experiment, survey: &Survey, prefixes: &'a Prefixes) -> Vec<Family<'a>> {
    let named = |name: &str, over: SegmentBy| Segment::new(name, over, 0, 0);
    let mut all = vec![Family::new(vec![named("all", SegmentBy::All)], &[], |_| Some(0))];
    if !prefixes.is_empty() {
        let segments = prefixes.names.iter().map(|name| named(&format!("clients {name}"), SegmentBy::Clients));
        all.push(Family::new(segments.collect(), &["client"], |row| prefixes.of(row.client)));
    }
    if !test.hosts.is_empty() {
        let segments = test.hosts.iter().map(|host| named(&format!("host {}", host.name), SegmentBy::Host));
        all.push(Family::new(segments.collect(), &["epoch"], |row| Some(test.host_of(row.epoch))));
    }
    all.push(Family::of_ranges(SegmentBy::Size, &SIZES, &["bytes_acked"], |row| row.bytes_acked));
    all.push(Family::of_ranges(SegmentBy::Rtt, &RTTS, &["min_rtt_us"], |row| row.min_rtt_us));
    let times = times(survey.last_us);
    if !times.is_empty() {
        let bounds: Vec<u64> = times.iter().map(|segment| segment.below).collect();
        let segment_of = move |row: &Row| bounds.iter().position(|below| row.since_us(test) < *below);
        all.push(Family::new(times, &["begun_unix_ns"], segment_of));
    }
    let mut ports: Vec<(u16, u64)> = survey.ports.iter().map(|(&port, &count)| (port, count)).collect();
    ports.sort_by_key(|&(port, count)| (Reverse(count), port));
    if ports.len() > 1 {
        let ports: Vec<u16> = ports.into_iter().take(PORTS).map(|(port, _)| port).collect();
        let segments = ports.iter().map(|port| named(&format!("port {port}"), SegmentBy::Port)).collect();
        all.push(Family::new(segments, &["port"], move |row| ports.iter().position(|port| *port == row.port)));
    }
    all
}

/// Splits the period in which connections began into equal parts; returns none if a part would be shorter than one
/// second.
fn times(last_us: u64) -> Vec<Segment> {
    let each_s = last_us.div_ceil(1_000_000).div_ceil(TIMES as u64);
    if last_us < TIMES as u64 * 1_000_000 {
        return Vec::new();
    }
    let (unit, unit_s) = match each_s {
        0..600 => ("s", 1.0),
        600..7_200 => ("min", 60.0),
        _ => ("h", 3_600.0),
    };
    let class = |nth: u64| {
        let (from, below) = (nth * each_s, (nth + 1) * each_s);
        let number = |at: u64| hundredths(at as f64 / unit_s);
        let from_text = if from == 0 { "0".to_owned() } else { number(from) };
        let name = format!("begun at {from_text} to {} {unit}", number(below));
        Segment::new(&name, SegmentBy::Time, from * 1_000_000, below * 1_000_000)
    };
    (0..TIMES as u64).map(class).collect()
}

/// Place of an age among [`AGES`].
pub(super) fn age(us: u64) -> usize {
    AGES.iter().position(|&(_, from, below)| (from..below).contains(&us)).unwrap_or(AGES.len() - 1)
}

/// Age of the only record of a connection: midway.
pub(super) fn age_of_only(row: &Row) -> usize {
    age(row.lasted_us / 2)
}

/// Throughput of a connection of several records in each range of age, in Mbit/s over the busy time. A record's growth since
/// the one before it counts at the age midway between them.
pub(super) fn ages(test: &Experiment, newest: &Row, parts: &[Part]) -> [Option<f64>; AGES.len()] {
    let mut sums = [(0_u64, 0_u64); AGES.len()];
    let (mut bytes, mut busy_us, mut lasted_us) = (0, 0, 0);
    for part in parts {
        let sum = &mut sums[age(u64::midpoint(lasted_us, part.lasted_us))];
        sum.0 += part.bytes_acked.saturating_sub(bytes);
        sum.1 += part.busy_us.saturating_sub(busy_us);
        (bytes, busy_us, lasted_us) = (part.bytes_acked, part.busy_us, part.lasted_us);
    }
    let Row { id, min_rtt_us, .. } = *newest;
    sums.map(|(bytes, busy_us)| {
        let busy = Row { id, min_rtt_us, busy_us, ..Row::default() };
        (bytes > 0).then(|| bytes as f64 * 8e-6 / busy.busy_s(test.tick_ns))
    })
}

/// Client classes defined by network prefixes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prefixes {
    names: Vec<String>,
    /// Class by prefix length and prefix bits, both in IPv6 form.
    networks: BTreeMap<(u32, u128), usize>,
    /// All prefix lengths in use, longest first.
    lengths: Vec<u32>,
}

impl Prefixes {
    /// The networks of a class, as they are written.
    pub(super) fn networks_of(&self, class: &str) -> Vec<String> {
        let nth = self.names.iter().position(|name| name == class);
        let own = self.networks.iter().filter(|(_, of)| Some(**of) == nth);
        own.map(|(&(bits, address), _)| match IpAddr::V6(address.into()).to_canonical() {
            IpAddr::V4(address) => format!("{address}/{}", bits - 96),
            IpAddr::V6(address) => format!("{address}/{bits}"),
        })
        .collect()
    }

    /// Parses lines with a network and its class, as in `192.0.2.0/24 home`; `#` begins a comment. The error lists
    /// every rejected line. Networks narrower than the recorded client prefix can match no client and are rejected.
    pub fn parse(text: &str, keep: PrefixLengths) -> Result<Self> {
        let mut all = Self::default();
        let mut faults: Vec<(usize, Error)> = Vec::new();
        for (nth, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            if let Err(fault) = all.add(line, keep) {
                faults.push((nth + 1, fault));
            }
        }
        let mut faults = faults.into_iter();
        let Some((line, first)) = faults.next() else {
            return if all.names.is_empty() { Err(Error::NoNetwork) } else { Ok(all) };
        };
        let others: Vec<usize> = faults.map(|(line, _)| line).collect();
        Err(match others.is_empty() {
            true => Error::at(format!("line {line}"))(first),
            false => Error::Lines { line, source: Box::new(first), others },
        })
    }

    fn add(&mut self, line: &str, keep: PrefixLengths) -> Result<()> {
        let (network, class) = line.split_once([' ', '\t', ',']).unwrap_or((line, ""));
        let class = class.trim_matches([' ', '\t', ',']);
        if class.is_empty() {
            return Err(Error::NoClass(line.to_owned()));
        }
        let fault = || Error::NotANetwork(network.to_owned());
        let (address, bits) = network.split_once('/').ok_or_else(fault)?;
        let address: IpAddr = address.parse().map_err(|_| fault())?;
        let bits: u32 = bits.parse().map_err(|_| fault())?;
        let (max, kept, before) = if address.is_ipv4() { (32, keep.v4, 96) } else { (128, keep.v6, 0) };
        if bits > max {
            return Err(fault());
        }
        if bits > u32::from(kept) {
            return Err(Error::Narrow { network: network.to_owned(), kept });
        }
        let place = (before + bits, mapped(address) & mask(before + bits));
        let nth = self.names.iter().position(|name| name == class).unwrap_or(self.names.len());
        if self.networks.get(&place).is_some_and(|&other| other != nth) {
            return Err(Error::OtherClass(network.to_owned()));
        }
        if nth == CLASSES_MAX {
            return Err(Error::TooManyClasses { class: class.to_owned(), max: CLASSES_MAX });
        }
        if nth == self.names.len() {
            self.names.push(class.to_owned());
        }
        self.networks.insert(place, nth);
        if !self.lengths.contains(&place.0) {
            self.lengths.push(place.0);
            self.lengths.sort_by_key(|&length| Reverse(length));
        }
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Names of the classes, in the order of the file.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the class of a recorded client by longest-prefix match.
    pub fn of(&self, client: Client) -> Option<usize> {
        let of_length = |&length: &u32| self.networks.get(&(length, client.address() & mask(length))).copied();
        self.lengths.iter().filter(|length| **length <= client.bits()).find_map(of_length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ab::testing::experiment;

    #[test]
    fn the_longest_network_of_either_family_gives_the_class() {
        let text = "# ours\n192.0.0.0/16 home\n192.0.2.0/24, mobile  # a part\n2001:db8::/32\toffice west\n2001:db8:1::/48 home\n0.0.0.0/0 rest\n";
        let classes = Prefixes::parse(text, PrefixLengths::default()).unwrap();
        let name = |client: &str| classes.of(client.parse().unwrap()).map(|nth| classes.names[nth].as_str());
        assert_eq!(name("192.0.2.0/24"), Some("mobile"));
        assert_eq!(name("192.0.3.0/24"), Some("home"));
        assert_eq!(name("198.51.100.0/24"), Some("rest"));
        assert_eq!(name("2001:db8:1::/48"), Some("home"));
        assert_eq!(name("2001:db8:2::/48"), Some("office west"));
        // IPv4 outside the mapped networks must not match IPv6.
        assert_eq!(name("2001:db9::/48"), None);
    }

    #[test]
    fn a_client_of_which_less_is_kept_than_a_network_names_is_in_none() {
        let classes = Prefixes::parse("192.0.2.0/24 home\n", PrefixLengths::default()).unwrap();
        assert_eq!(classes.of("192.0.0.0/16".parse().unwrap()), None);
    }

    #[test]
    fn lines_that_mean_nothing_are_refused_by_their_numbers() {
        for (text, says) in [
            ("", "names no network"),
            ("# nothing\n", "names no network"),
            ("192.0.2.0/24\n", "line 1: \"192.0.2.0/24\" has no class"),
            ("192.0.2.0/24 a\nhome b\n", "line 2: \"home\" is not a network"),
            ("192.0.2.0 a\n", "is not a network"),
            ("192.0.2.0/33 a\n", "is not a network"),
            ("192.0.2.0/28 a\n", "192.0.2.0/28 is narrower than the /24"),
            ("2001:db8::/64 a\n", "narrower than the /48"),
            ("192.0.2.0/24 a\n192.0.2.9/24 b\n", "line 2: 192.0.2.9/24 has another class above"),
            (
                "x a\n192.0.2.0/24 a\ny b\nz c\n",
                "line 1: \"x\" is not a network; write 192.0.2.0/24 or 2001:db8::/32; also refused: line 3, 4",
            ),
        ] {
            let error = Prefixes::parse(text, PrefixLengths::default()).unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
        let many: String = (0..65).map(|nth| format!("10.{nth}.0.0/16 c{nth}\n")).collect();
        assert!(matches!(Prefixes::parse(&many, PrefixLengths::default()), Err(Error::At { .. })));
        assert_eq!(Prefixes::parse("10.0.0.0/8 a\n10.0.0.0/8 a\n", PrefixLengths::default()).unwrap().names, ["a"]);
    }

    #[test]
    fn each_part_of_a_connection_counts_at_its_own_age() {
        let mut test = experiment(&["cubic", "bbr3"], "50,50");
        test.tick_ns = 0;
        let record = |nth: u32, lasted_s: u64, bytes_acked: u64, busy_ms: u64| Row {
            id: 7,
            nth,
            is_open: nth < 4,
            lasted_us: lasted_s * 1_000_000,
            bytes_acked,
            busy_us: busy_ms * 1_000,
            ..Row::default()
        };
        // 8 Mbit/s up to 10 s, then 16 Mbit/s, then 32 Mbit/s for equal periods; the last period is idle.
        let rows = [
            record(4, 400, 17_000_000, 12_000),
            record(1, 10, 10_000_000, 10_000),
            record(2, 20, 12_000_000, 11_000),
            record(3, 40, 17_000_000, 12_000),
        ];
        let prefixes = Prefixes::default();
        let mut survey = Survey::new(&test);
        rows.iter().for_each(|row| survey.add(&Row { data_segs_out: 1, ..row.clone() }, &test, &prefixes));
        let survey = Survey::merged(vec![survey], &test, &prefixes);
        assert_eq!(survey.long[0].ages.map(|found| found.map(f64::round)), [None, Some(8.0), Some(28.0), None]);
        assert_eq!([1, 3, 30, 300].map(|lasted_s| age_of_only(&record(1, lasted_s, 1, 1))), [0, 1, 2, 3]);
    }

    #[test]
    fn the_time_is_cut_into_equal_parts_of_whole_seconds() {
        let found = times(61_000_000);
        let names: Vec<&str> = found.iter().map(|class| class.name.as_str()).collect();
        assert_eq!((names.len(), names[0], names[5]), (6, "begun at 0 to 11 s", "begun at 55 to 66 s"));
        assert_eq!(times(5_000_000), []);
        let hours = times(86_400_000_000);
        assert_eq!((hours[1].name.as_str(), hours[1].middle()), ("begun at 4 to 8 h", 21_600.0));
    }
}
