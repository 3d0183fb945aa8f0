//! Segments of the connections that are compared separately: all, client networks from a file, and ranges of size, RTT,
//! time and age.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use super::assign::{mapped, mask};
use super::{Experiment, PrefixLengths, Row};
use crate::cdn::LARGE;
use crate::{Error, Result};
use bbrlab_stats::number::hundredths;

/// Maximum number of classes in a file: each adds a comparison that must be corrected for. Ours.
const CLASSES_MAX: usize = 64;
/// Number of segments of the test's duration. Ours.
const TIMES: usize = 6;
/// Maximum number of ports with their own lines. Ours.
const PORTS: usize = 8;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq)]
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

type Predicate = Box<dyn Fn(&Row) -> bool>;

/// Returns every class except those of age, each with its predicate.
pub(super) fn classes(test: &Experiment, rows: &[&Row], prefixes: &Prefixes) -> Vec<(Segment, Predicate)> {
    let mut classes: Vec<(Segment, Predicate)> = vec![(Segment::new("all", SegmentBy::All, 0, 0), Box::new(|_| true))];
    let known: Rc<BTreeMap<String, usize>> = Rc::new(prefixes.of_all(rows));
    for (nth, name) in prefixes.names.iter().enumerate() {
        let known = Rc::clone(&known);
        let takes = move |row: &Row| known.get(&row.client) == Some(&nth);
        classes.push((Segment::new(&format!("clients {name}"), SegmentBy::Clients, 0, 0), Box::new(takes)));
    }
    for host in &test.hosts {
        let epochs = host.first_epoch..=host.last_epoch;
        let class = Segment::new(&format!("host {}", host.name), SegmentBy::Host, 0, 0);
        classes.push((class, Box::new(move |row: &Row| epochs.contains(&row.epoch))));
    }
    for (name, from, below) in SIZES {
        let takes = move |row: &Row| (from..below).contains(&row.bytes_acked);
        classes.push((Segment::new(name, SegmentBy::Size, from, below), Box::new(takes)));
    }
    for (name, from, below) in RTTS {
        let takes = move |row: &Row| (from..below).contains(&row.min_rtt_us);
        classes.push((Segment::new(name, SegmentBy::Rtt, from, below), Box::new(takes)));
    }
    for class in times(test, rows) {
        let (from, below, begun_ns) = (class.from, class.below, (test.begun_unix_s * 1e9) as u64);
        let takes = move |row: &Row| (from..below).contains(&(row.begun_unix_ns.saturating_sub(begun_ns) / 1_000));
        classes.push((class, Box::new(takes)));
    }
    let mut ports: BTreeMap<u16, usize> = BTreeMap::new();
    rows.iter().for_each(|row| *ports.entry(row.port).or_default() += 1);
    let mut ports: Vec<(u16, usize)> = ports.into_iter().collect();
    ports.sort_by_key(|&(port, count)| (Reverse(count), port));
    if ports.len() > 1 {
        for (port, _) in ports.into_iter().take(PORTS) {
            let class = Segment::new(&format!("port {port}"), SegmentBy::Port, 0, 0);
            classes.push((class, Box::new(move |row| row.port == port)));
        }
    }
    classes
}

/// Splits the period in which connections began into equal parts; returns none if a part would be shorter than one
/// second.
fn times(test: &Experiment, rows: &[&Row]) -> Vec<Segment> {
    let begun_ns = (test.begun_unix_s * 1e9) as u64;
    let last_us = rows.iter().map(|row| row.begun_unix_ns.saturating_sub(begun_ns) / 1_000).max().unwrap_or(0);
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

/// Throughput of a connection within an age range.
pub(super) struct AgeShare {
    pub arm: u8,
    pub epoch: u32,
    pub bucket: u16,
    /// Mbit/s over the busy time.
    pub throughput: f64,
}

/// Returns the connections of each age range. A record's growth since the previous one counts at the age midway between
/// them.
pub(super) fn ages(test: &Experiment, rows: &[Row], is_compared: impl Fn(&Row) -> bool) -> [Vec<AgeShare>; AGES.len()] {
    let mut connections: BTreeMap<(u64, u64, u32), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        connections.entry((row.begun_unix_ns, row.id, row.epoch)).or_default().push(row);
    }
    let mut parts: [Vec<AgeShare>; AGES.len()] = Default::default();
    for mut records in connections.into_values() {
        records.sort_by_key(|row| row.nth);
        records.dedup_by_key(|row| row.nth);
        if !records.last().is_some_and(|row| is_compared(row)) {
            continue;
        }
        let mut sums = [(0_u64, 0_u64); AGES.len()];
        let (mut bytes, mut busy_us, mut lasted_us) = (0, 0, 0);
        for row in &records {
            let middle_us = u64::midpoint(lasted_us, row.lasted_us);
            let range = AGES.iter().position(|&(_, from, below)| (from..below).contains(&middle_us));
            let sum = &mut sums[range.unwrap_or(AGES.len() - 1)];
            sum.0 += row.bytes_acked.saturating_sub(bytes);
            sum.1 += row.busy_us.saturating_sub(busy_us);
            (bytes, busy_us, lasted_us) = (row.bytes_acked, row.busy_us, row.lasted_us);
        }
        let last = records[records.len() - 1];
        for (part, (bytes, busy_us)) in parts.iter_mut().zip(sums) {
            if bytes > 0 {
                let busy = Row { id: last.id, min_rtt_us: last.min_rtt_us, busy_us, ..Row::default() };
                let throughput = bytes as f64 * 8e-6 / busy.busy_s(test.tick_ns);
                part.push(AgeShare { arm: last.arm, epoch: last.epoch, bucket: last.bucket, throughput });
            }
        }
    }
    parts
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

    /// Returns the class of a recorded client such as `192.0.2.0/24` by longest-prefix match.
    pub fn of(&self, client: &str) -> Option<usize> {
        let (address, bits) = client.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let bits = bits.parse::<u32>().ok()? + if address.is_ipv4() { 96 } else { 0 };
        let own = mapped(address);
        let of_length = |&length: &u32| self.networks.get(&(length, own & mask(length))).copied();
        self.lengths.iter().filter(|length| **length <= bits).find_map(of_length)
    }

    fn of_all(&self, rows: &[&Row]) -> BTreeMap<String, usize> {
        let mut clients: Vec<&str> = rows.iter().map(|row| row.client.as_str()).collect();
        clients.sort_unstable();
        clients.dedup();
        clients.into_iter().filter_map(|client| Some((client.to_owned(), self.of(client)?))).collect()
    }

    /// Counts the connections in no class.
    pub(super) fn outside(&self, rows: &[&Row]) -> usize {
        let known = self.of_all(rows);
        rows.iter().filter(|row| !known.contains_key(&row.client)).count()
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
        let name = |client: &str| classes.of(client).map(|nth| classes.names[nth].as_str());
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
        assert_eq!(classes.of("192.0.0.0/16"), None);
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
        let parts = ages(&test, &rows, |_| true);
        let found: Vec<Vec<f64>> =
            parts.iter().map(|parts| parts.iter().map(|part| part.throughput.round()).collect()).collect();
        assert_eq!(found, [vec![], vec![8.0], vec![28.0], vec![]]);
        assert!(ages(&test, &rows, |row| row.nth < 4).iter().all(Vec::is_empty));
    }

    #[test]
    fn the_time_is_cut_into_equal_parts_of_whole_seconds() {
        let mut test = experiment(&["cubic", "bbr3"], "50,50");
        test.begun_unix_s = 100.0;
        let at = |second: u64| Row { begun_unix_ns: (100 + second) * 1_000_000_000, ..Row::default() };
        let (first, last) = (at(0), at(61));
        let found = times(&test, &[&first, &last]);
        let names: Vec<&str> = found.iter().map(|class| class.name.as_str()).collect();
        assert_eq!((names.len(), names[0], names[5]), (6, "begun at 0 to 11 s", "begun at 55 to 66 s"));
        assert_eq!(times(&test, &[&first, &at(5)]), []);
        let hours = times(&test, &[&at(86_400)]);
        assert_eq!((hours[1].name.as_str(), hours[1].middle()), ("begun at 4 to 8 h", 21_600.0));
    }
}
