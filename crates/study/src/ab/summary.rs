//! Summary of a host's records for a report, without any single record: for hosts that cannot ship theirs.
//!
//! Counts and the sums for means are exact. Values are counted in bins of at most 1/1024 of their size, as an HDR histogram has
//! them, and medians are interpolated in a bin: a gain is off by 0.2 % at most. Hosts are strata of the comparison, so their histograms are never put together.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;

use bbrlab_stats::stratified::{Bins, Values};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize, de};

use super::cells::Cells;
use super::judge::{Conclusion, read};
use super::segment::{self, PORTS, Prefixes, Segment, SegmentBy};
use super::shared::{Comovement, comovement};
use super::survey::Survey;
use super::{AssignmentUnit, Experiment, Findings, Records, fleet};
use crate::{Error, Result};

/// Version of the file.
const SCHEMA: u32 = 1;
/// Digits of a histogram: bins of at most 1/1024.
const DIGITS: u8 = 3;
/// Whole numbers that stand for 1 ms or 1 Mbit/s.
const SCALE: f64 = 1e6;

/// A host's test, summarised.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    schema: u32,
    test: Experiment,
    /// Names of the client classes, if there was a file of them.
    classes: Vec<String>,
    survey: Survey,
    shared: Vec<Comovement>,
    families: Vec<FamilySummary>,
}

/// The values of a family's segments.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct FamilySummary {
    over: SegmentBy,
    segments: Vec<Segment>,
    cells: Vec<Cell>,
}

/// The values of one segment, size, arm and split.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Cell {
    segment: usize,
    is_large: bool,
    arm: usize,
    split: usize,
    log_sum: f64,
    log_squares: f64,
    /// Lowest number of each bin, and its count.
    bins: Vec<(u64, u64)>,
}

impl Cell {
    fn values(&self) -> Values {
        let Ok(histogram) = Histogram::<u64>::new(DIGITS) else { return Values::Binned(Bins::default()) };
        let ends = |low: u64| [low as f64 / SCALE, (histogram.highest_equivalent(low) + 1) as f64 / SCALE];
        let counts = self.bins.iter().map(|&(low, count)| (ends(low), usize::try_from(count).unwrap_or(usize::MAX)));
        Values::Binned(Bins::new(counts, self.log_sum, self.log_squares))
    }
}

impl FamilySummary {
    fn of(test: &Experiment, from: &Cells) -> Self {
        let mut cells = Vec::new();
        let Ok(histogram) = Histogram::<u64>::new(DIGITS) else { return Self::none(from) };
        for segment in 0..from.segments.len() {
            for (is_large, arm) in
                [false, true].iter().flat_map(|size| (0..test.arms.len()).map(move |arm| (*size, arm)))
            {
                for (split, values) in from.of(segment, is_large, arm).iter().enumerate() {
                    let mut bins = BTreeMap::<u64, u64>::new();
                    let (mut log_sum, mut log_squares) = (0.0, 0.0);
                    for value in values.iter() {
                        let log = value.ln();
                        (log_sum, log_squares) = (log_sum + log, log_squares + log * log);
                        *bins.entry(histogram.lowest_equivalent((value * SCALE) as u64)).or_default() += 1;
                    }
                    if !bins.is_empty() {
                        let bins = bins.into_iter().collect();
                        cells.push(Cell { segment, is_large, arm, split, log_sum, log_squares, bins });
                    }
                }
            }
        }
        Self { cells, ..Self::none(from) }
    }

    fn none(from: &Cells) -> Self {
        Self { over: from.segments[0].over, segments: from.segments.clone(), cells: Vec::new() }
    }
}

impl Summary {
    /// Summarises the records of a test on one host.
    ///
    /// # Errors
    /// The records cannot be read, or the test assigns other units than connections, which a summary does not keep.
    pub fn of<R: Records + ?Sized>(
        test: &Experiment,
        records: &R,
        prefixes: &Prefixes,
        seed: u64,
    ) -> Result<Self, R::Error>
    where
        R::Error: From<Error>,
    {
        if test.by != AssignmentUnit::Connection {
            return Err(Error::SummaryUnits(test.by.units()).into());
        }
        let survey = Survey::of(test, records, prefixes)?;
        let mut families = segment::families(test, &survey, prefixes);
        // Parts of the time depend on the whole test, which is that of all hosts.
        families.retain(|family| family.segments[0].over != SegmentBy::Time);
        let mut all = Vec::new();
        let ends = read(test, records, &survey, &families, |cells| all.push(FamilySummary::of(test, cells)))?;
        let shared = comovement(test, ends, seed);
        let (test, classes) = (test.clone(), prefixes.names().to_vec());
        Ok(Self { schema: SCHEMA, test, classes, survey, shared, families: all })
    }

    /// Parses a summary.
    ///
    /// # Errors
    /// The text is no summary, or one of another version.
    pub fn parse(text: &str) -> Result<Self> {
        let one: Self = serde_json::from_str(text).map_err(Error::NoSummary)?;
        if one.schema != SCHEMA {
            return Err(Error::SummarySchema(one.schema));
        }
        let arms = one.test.arms.len();
        let total = |cell: &Cell| cell.bins.iter().try_fold(0_u32, |sum, bin| sum.checked_add(bin.1.try_into().ok()?));
        let is_sound = arms > 0
            && one.survey.splits.values().all(|shares| shares.len() == arms)
            && one.families.iter().flat_map(|family| &family.cells).all(|cell| total(cell).is_some());
        if is_sound { Ok(one) } else { Err(Error::NoSummary(de::Error::custom("its arms or counts do not match"))) }
    }

    /// The test that it summarises.
    pub const fn test(&self) -> &Experiment {
        &self.test
    }

    fn family(&self, over: SegmentBy) -> Option<&FamilySummary> {
        self.families.iter().find(|family| family.over == over)
    }

    /// Values of a segment, by its name; those of all connections where the host has no other.
    fn values(&self, segment: &Segment, is_large: bool, arm: usize, split: usize) -> Values {
        let only_port = (self.survey.ports.len() == 1).then(|| self.survey.ports.keys().next()).flatten();
        let (over, name) = match segment.over {
            SegmentBy::Port if only_port.is_some_and(|port| segment.name == port_name(*port)) => {
                (SegmentBy::All, "all")
            }
            over => (over, segment.name.as_str()),
        };
        let none = || Values::Binned(Bins::default());
        let Some(family) = self.family(over) else { return none() };
        let Some(place) = family.segments.iter().position(|segment| segment.name == name) else { return none() };
        let own = |cell: &&Cell| (cell.segment, cell.is_large, cell.arm, cell.split) == (place, is_large, arm, split);
        family.cells.iter().find(own).map_or_else(none, Cell::values)
    }
}

fn port_name(port: u16) -> String {
    format!("port {port}")
}

/// Analyses one experiment by the summaries of its hosts.
///
/// # Errors
/// They are no one experiment, or their classes are not those of the file.
pub fn judge_summaries(all: Vec<Summary>, prefixes: &Prefixes, seed: u64) -> Result<(Experiment, Findings)> {
    if let Some(other) = all.iter().find(|one| one.classes != prefixes.names()) {
        return Err(Error::SummaryClasses(other.classes.join(", ")));
    }
    let (test, offsets) = fleet::merge(all.iter().map(|one| one.test.clone()).collect())?;
    let mut survey = Survey::new(&test);
    // Each split with the summary that has it, and its place there.
    let mut splits = Vec::new();
    for ((nth, one), epochs) in all.iter().enumerate().zip(offsets) {
        let mut own = one.survey.clone();
        own.splits = own.splits.into_iter().map(|(epoch, shares)| (epoch + epochs, shares)).collect();
        survey.merge(own);
        splits.extend((0..one.test.splits.len()).map(|place| (nth, place)));
    }
    let mut conclusion = Conclusion::new(&test, &survey, seed);
    let mut add = |segments: Vec<Segment>| {
        let shown = segments.clone();
        let values = |segment: usize, is_large: bool, arm: usize, stratum: usize| {
            let ((nth, split), segment): (_, &Segment) = (splits[stratum], &shown[segment]);
            match segment.over {
                SegmentBy::Host if segment.name != host_name(&test, nth) => Values::Binned(Bins::default()),
                SegmentBy::Host => all[nth].values(&Segment::new("all", SegmentBy::All, 0, 0), is_large, arm, split),
                _ => all[nth].values(segment, is_large, arm, split),
            }
        };
        if !shown.is_empty() {
            conclusion.add(&Cells::together(&test, segments, values));
        }
    };
    let of_first = |over: SegmentBy| {
        all.iter().find_map(|one| one.family(over)).map_or(Vec::new(), |family| family.segments.clone())
    };
    add(of_first(SegmentBy::All));
    add(of_first(SegmentBy::Clients));
    add((0..test.hosts.len()).map(|nth| Segment::new(&host_name(&test, nth), SegmentBy::Host, 0, 0)).collect());
    add(of_first(SegmentBy::Size));
    add(of_first(SegmentBy::Rtt));
    let mut ports: Vec<(u16, u64)> = survey.ports.iter().map(|(&port, &count)| (port, count)).collect();
    ports.sort_by_key(|&(port, count)| (std::cmp::Reverse(count), port));
    let ports = if ports.len() > 1 { &ports[..ports.len().min(PORTS)] } else { &[] };
    add(ports.iter().map(|(port, _)| Segment::new(&port_name(*port), SegmentBy::Port, 0, 0)).collect());
    add(of_first(SegmentBy::Age));
    let found = conclusion.findings(shared(&all), !prefixes.is_empty());
    Ok((test, Findings { is_summarised: true, ..found }))
}

fn host_name(test: &Experiment, nth: usize) -> String {
    format!("host {}", test.hosts[nth].name)
}

/// Of each kind the host with the clearest evidence of shared bottlenecks, corrected for their number.
fn shared(all: &[Summary]) -> Vec<Comovement> {
    let mut clearest: Vec<Comovement> = Vec::new();
    for one in all.iter().flat_map(|one| &one.shared) {
        let same = clearest.iter_mut().find(|known| known.between == one.between);
        match same {
            Some(known) if one.p < known.p => *known = *one,
            Some(_) => {}
            None => clearest.push(*one),
        }
    }
    clearest.iter_mut().for_each(|one| one.p = (one.p * all.len() as f64).min(1.0));
    clearest
}

#[cfg(test)]
mod tests {
    use bbrlab_core::Rng;
    use bbrlab_stats::bootstrap::normal;

    use super::*;
    use crate::ab::testing::{experiment, judge};
    use crate::ab::{BUCKETS, Row, Table};

    fn host(name: &str, seed: u64, ports: &[u16]) -> (Experiment, Vec<Row>) {
        let mut test = experiment(&["cubic", "bbr3"], "60,40");
        (test.host, test.begun_unix_s) = (Some(name.to_owned()), seed as f64);
        let table = Table::new(&test.splits[0].shares);
        let mut rng = Rng::new(seed);
        let row = |id: u64| {
            let bucket = rng.below(BUCKETS as u64) as u16;
            let arm = table.arm(bucket).unwrap_or(0);
            let busy_s = (0.5 * normal(&mut rng)).exp() * if arm == 1 { 0.9 } else { 1.0 };
            Row {
                id,
                arm,
                bucket,
                epoch: 1,
                nth: 1,
                port: ports[(id % ports.len() as u64) as usize],
                client: format!("192.0.{}.0/24", id % 7).parse().unwrap(),
                bytes_acked: if id.is_multiple_of(5) { 9_000_000 } else { 100_000 },
                busy_us: (busy_s * 1e6) as u64,
                lasted_us: (busy_s * 2e6) as u64,
                data_segs_out: 700,
                retrans_segs: 3,
                min_rtt_us: 20_000 + rng.below(40_000),
                srtt_us: 70_000,
                ..Row::default()
            }
        };
        let rows = (0..6_000).map(row).collect();
        (test, rows)
    }

    fn prefixes() -> Prefixes {
        Prefixes::parse("192.0.1.0/24 home\n192.0.2.0/23 mobile\n", crate::ab::PrefixLengths::default()).unwrap()
    }

    fn summary(test: &Experiment, rows: &[Row], prefixes: &Prefixes) -> Summary {
        struct InMemory<'a>(&'a [Row]);
        impl Records for InMemory<'_> {
            type Error = Error;
            fn scan<S: Send>(
                &self,
                fields: &[&str],
                new: impl Fn() -> S + Sync,
                each: impl Fn(&mut S, &[Row]) + Sync,
            ) -> Result<Vec<S>> {
                Ok(self.0.scan(fields, new, each).unwrap_or_else(|never| match never {}))
            }
        }
        let made = Summary::of(test, &InMemory(rows), prefixes, 1).unwrap();
        Summary::parse(&serde_json::to_string(&made).unwrap()).unwrap()
    }

    /// Goal: counts and means as by the records; each median in its bin of 1/1024, so that a gain is off by twice as much at most.
    #[test]
    fn summaries_say_what_the_records_say() {
        let hosts = [host("a", 1, &[443]), host("b", 2, &[443, 80])];
        let summaries = hosts.iter().map(|(test, rows)| summary(test, rows, &prefixes())).collect();
        let (test, found) = judge_summaries(summaries, &prefixes(), 1).unwrap();
        let offsets = fleet::merge(hosts.iter().map(|(test, _)| test.clone()).collect()).unwrap().1;
        let moved = hosts
            .iter()
            .zip(offsets)
            .flat_map(|((_, rows), by)| rows.iter().map(move |row| Row { epoch: row.epoch + by, ..row.clone() }));
        let wanted = judge(&test, &moved.collect::<Vec<Row>>(), &prefixes(), 1);
        assert_eq!((found.connections, &found.ratio, found.unclassed), (12_000, &wanted.ratio, wanted.unclassed));
        let lines: Vec<_> = wanted.lines.iter().filter(|line| line.class.over != SegmentBy::Time).collect();
        assert_eq!(found.lines.len(), lines.len());
        for (own, line) in found.lines.iter().zip(lines) {
            assert_eq!(
                (&own.class, own.is_large, own.arm, own.counts),
                (&line.class, line.is_large, line.arm, line.counts)
            );
            let close = |a: f64, b: f64| (a - b).abs() <= 2.0 / 1024.0 * (1.0 + b);
            assert!(
                close(own.gain, line.gain) && close(own.low, line.low) && close(own.high, line.high),
                "{own:?} {line:?}"
            );
            assert!((own.mean_gain - line.mean_gain).abs() < 1e-9 && (own.always_low - line.always_low).abs() < 1e-9);
        }
        assert!((found.arms[1].min_rtt_ms / wanted.arms[1].min_rtt_ms - 1.0).abs() < 0.001);
        assert_eq!(found.arms[0].bytes, wanted.arms[0].bytes);
    }

    #[test]
    fn summaries_that_cannot_be_used_are_refused() {
        let (mut test, rows) = host("a", 1, &[443]);
        let one = summary(&test, &rows, &prefixes());
        let error = judge_summaries(vec![one.clone()], &Prefixes::default(), 1).unwrap_err().to_string();
        assert!(error.contains("home, mobile"), "{error}");
        assert!(judge_summaries(vec![one.clone(), one], &prefixes(), 1).unwrap_err().to_string().contains("twice"));
        assert!(Summary::parse("{}").unwrap_err().to_string().contains("bbrlab ab summary"));
        let whole = serde_json::to_string(&summary(&test, &rows, &Prefixes::default())).unwrap();
        for (part, other) in [
            ("\"kept\":", "\"held\":"),
            (",1],[", ",18446744073709551615],["),
            ("\"splits\":{\"1\":[", "\"splits\":{\"7\":[],\"1\":["),
        ] {
            let changed = whole.replacen(part, other, 1);
            assert!(changed != whole && Summary::parse(&changed).is_err(), "{part}");
        }
        test.by = AssignmentUnit::ClientPrefix;
        let text =
            serde_json::to_string(&summary(&experiment(&["a", "b"], "50,50"), &[], &Prefixes::default())).unwrap();
        let other = text.replacen("\"schema\":1", "\"schema\":9", 1);
        assert!(Summary::parse(&other).unwrap_err().to_string().contains('9'), "{other}");
    }
}
