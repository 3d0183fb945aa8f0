//! The first reading of a test's records: counts and totals, and what the later readings need to know beforehand.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::cells::counts;
use super::long::{LongConnection, LongRecords};
use super::record::STATES;
use super::segment::Prefixes;
use super::{AssignmentUnit, BUCKETS, Experiment, Records, Row};
use crate::cdn::LARGE;

/// Fields that it reads.
const FIELDS: &[&str] = &[
    "id",
    "arm",
    "bucket",
    "epoch",
    "nth",
    "is_open",
    "is_refused",
    "is_overridden",
    "begun_unix_ns",
    "lasted_us",
    "client",
    "port",
    "bytes_acked",
    "busy_us",
    "rwnd_limited_us",
    "sndbuf_limited_us",
    "data_segs_out",
    "retrans_segs",
    "min_rtt_us",
    "srtt_us",
    "state_us",
];

/// Returns true for a connection that ran its arm's algorithm and sent data.
pub(super) const fn is_compared(row: &Row) -> bool {
    !row.is_refused && !row.is_overridden && row.data_segs_out > 0 && row.bytes_acked > 0
}

/// Returns true for the only record of a connection. Those of longer ones have to be found together.
pub(super) const fn is_only(row: &Row) -> bool {
    row.nth <= 1 && !row.is_open
}

/// Counts of whole numbers, such as microseconds. Those below [`IN_PLACE`] index a list.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(into = "Vec<(u64, u32)>", from = "Vec<(u64, u32)>")]
pub(super) struct Counter {
    small: Vec<u32>,
    large: BTreeMap<u64, u32>,
    total: u64,
}

/// Numbers counted in place. Ours: 16 MB.
const IN_PLACE: u64 = 1 << 22;

impl Counter {
    fn add(&mut self, value: u64, times: u32) {
        self.total += u64::from(times);
        if value >= IN_PLACE {
            *self.large.entry(value).or_default() += times;
            return;
        }
        let place = value as usize;
        if place >= self.small.len() {
            self.small.resize(place + 1, 0);
        }
        self.small[place] += times;
    }

    fn all(&self) -> impl Iterator<Item = (u64, u32)> {
        let small = self.small.iter().enumerate().map(|(value, &times)| (value as u64, times));
        small.chain(self.large.iter().map(|(&value, &times)| (value, times)))
    }

    fn merge(&mut self, other: &Self) {
        other.all().filter(|(_, times)| *times > 0).for_each(|(value, times)| self.add(value, times));
    }

    /// The median, NaN for none.
    pub fn median(&self) -> f64 {
        let (mut seen, mut middle) = (0, [None; 2]);
        let places = [self.total.saturating_sub(1) / 2, self.total / 2];
        for (value, times) in self.all() {
            seen += u64::from(times);
            for (found, place) in middle.iter_mut().zip(places) {
                if found.is_none() && seen > place {
                    *found = Some(value as f64 / 1e3);
                }
            }
        }
        let [below, above] = middle.map(|value| value.unwrap_or(f64::NAN));
        if below.to_bits() == above.to_bits() { below } else { f64::midpoint(below, above) }
    }
}

/// Written with three digits: the middle of each bin of a histogram.
impl From<Counter> for Vec<(u64, u32)> {
    fn from(counter: Counter) -> Self {
        let mut bins = BTreeMap::<u64, u32>::new();
        if let Ok(histogram) = Histogram::<u64>::new(3) {
            for (value, times) in counter.all().filter(|(_, times)| *times > 0) {
                *bins.entry(histogram.median_equivalent(value)).or_default() += times;
            }
        }
        bins.into_iter().collect()
    }
}

impl From<Vec<(u64, u32)>> for Counter {
    fn from(bins: Vec<(u64, u32)>) -> Self {
        let mut counter = Self::default();
        bins.into_iter().for_each(|(value, times)| counter.add(value, times));
        counter
    }
}

/// Totals of an arm.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Totals {
    pub connections: u64,
    pub open: u64,
    pub refused: u64,
    pub overridden: u64,
    pub bytes: u64,
    pub segments: u64,
    pub retransmitted: u64,
    pub busy_us: u64,
    pub limited_us: u64,
    pub min_rtt_us: Counter,
    pub srtt_us: Counter,
    pub states_us: [u64; STATES],
}

impl Totals {
    fn add(&mut self, row: &Row) {
        self.connections += 1;
        self.open += u64::from(row.is_open);
        self.refused += u64::from(row.is_refused);
        self.overridden += u64::from(row.is_overridden && !row.is_refused);
        self.bytes += row.bytes_acked;
        self.segments += row.data_segs_out;
        self.retransmitted += row.retrans_segs;
        self.busy_us += row.busy_us;
        self.limited_us += row.rwnd_limited_us + row.sndbuf_limited_us;
        for (counter, value) in [(&mut self.min_rtt_us, row.min_rtt_us), (&mut self.srtt_us, row.srtt_us)] {
            if value > 0 {
                counter.add(value, 1);
            }
        }
        for (sum, us) in self.states_us.iter_mut().zip(row.state_us.unwrap_or_default()) {
            *sum += us;
        }
    }

    fn merge(&mut self, other: &Self) {
        self.connections += other.connections;
        self.open += other.open;
        self.refused += other.refused;
        self.overridden += other.overridden;
        self.bytes += other.bytes;
        self.segments += other.segments;
        self.retransmitted += other.retransmitted;
        self.busy_us += other.busy_us;
        self.limited_us += other.limited_us;
        self.min_rtt_us.merge(&other.min_rtt_us);
        self.srtt_us.merge(&other.srtt_us);
        self.states_us.iter_mut().zip(other.states_us).for_each(|(sum, us)| *sum += us);
    }
}

/// Connections of an arm under one split.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Share {
    /// Compared connections, and those left out.
    pub kept: u64,
    pub left_out: u64,
    /// Compared connections whose value counts: small and large ones.
    pub counting: [u64; 2],
    /// The same by bucket, where buckets are the units of assignment: compared connections, and those left out.
    #[serde(skip)]
    pub units: Vec<[u64; 2]>,
}

impl Share {
    /// Number of units of assignment with a compared connection.
    pub fn count(&self, by: AssignmentUnit) -> u64 {
        if by == AssignmentUnit::Connection {
            return self.kept;
        }
        self.units.iter().filter(|[kept, _]| *kept > 0).count() as u64
    }
}

/// The outcome of the first reading.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Survey {
    pub connections: u64,
    pub arms: Vec<Totals>,
    /// Shares of the arms under each split, by epoch.
    pub splits: BTreeMap<u32, Vec<Share>>,
    /// Records of connections that have several, until all are read.
    #[serde(skip)]
    records: LongRecords,
    /// The compared ones of those connections.
    #[serde(skip)]
    pub long: Vec<LongConnection>,
    /// The figures below are those of compared connections.
    pub compared: u64,
    pub ports: BTreeMap<u16, u64>,
    /// Last beginning, from that of the test.
    pub last_us: u64,
    pub unclassed: u64,
    pub bytes: u64,
    /// Bytes of connections that lasted longer than a slot.
    pub outlasting: u64,
}

impl Survey {
    pub fn new(test: &Experiment) -> Self {
        Self { arms: vec![Totals::default(); test.arms.len()], ..Self::default() }
    }

    /// Reads all records.
    pub fn of<R: Records + ?Sized>(test: &Experiment, records: &R, prefixes: &Prefixes) -> Result<Self, R::Error> {
        let add = |own: &mut Self, rows: &[Row]| rows.iter().for_each(|row| own.add(row, test, prefixes));
        Ok(Self::merged(records.scan(FIELDS, || Self::new(test), add)?, test, prefixes))
    }

    /// Takes a record.
    pub fn add(&mut self, row: &Row, test: &Experiment, prefixes: &Prefixes) {
        if is_only(row) {
            self.count(row, test, prefixes);
        } else {
            self.records.add(row);
        }
    }

    /// Counts a connection by its newest record.
    fn count(&mut self, row: &Row, test: &Experiment, prefixes: &Prefixes) {
        self.connections += 1;
        let arm = usize::from(row.arm);
        let arms = self.arms.len();
        if let Some(totals) = self.arms.get_mut(arm) {
            totals.add(row);
        }
        let is_compared = is_compared(row);
        let share = self.splits.entry(row.epoch).or_insert_with(|| vec![Share::default(); arms]).get_mut(arm);
        if let Some(share) = share {
            share.kept += u64::from(is_compared);
            share.left_out += u64::from(!is_compared);
            share.counting[usize::from(row.bytes_acked >= LARGE)] += u64::from(is_compared && counts(row));
            if test.by != AssignmentUnit::Connection {
                share.units.resize(BUCKETS, [0; 2]);
                share.units[usize::from(row.bucket).min(BUCKETS - 1)][usize::from(!is_compared)] += 1;
            }
        }
        if !is_compared {
            return;
        }
        self.compared += 1;
        *self.ports.entry(row.port).or_default() += 1;
        self.last_us = self.last_us.max(row.since_us(test));
        self.unclassed += u64::from(!prefixes.is_empty() && prefixes.of(row.client).is_none());
        self.bytes += row.bytes_acked;
        if row.lasted_us > (test.slot_s * 1e6) as u64 {
            self.outlasting += row.bytes_acked;
        }
    }

    /// Puts the outcomes of several threads together, and counts the connections of several records.
    pub fn merged(all: Vec<Self>, test: &Experiment, prefixes: &Prefixes) -> Self {
        let mut all = all.into_iter();
        let mut one = all.next().unwrap_or_else(|| Self::new(test));
        all.for_each(|other| one.merge(other));
        std::mem::take(&mut one.records).each(|newest, parts| {
            one.count(newest, test, prefixes);
            if is_compared(newest) {
                one.long.push(LongConnection::of(test, newest, parts));
            }
        });
        one
    }

    /// Adds the survey of other records.
    pub fn merge(&mut self, other: Self) {
        self.connections += other.connections;
        self.arms.iter_mut().zip(&other.arms).for_each(|(own, other)| own.merge(other));
        for (epoch, shares) in other.splits {
            let Some(own) = self.splits.get_mut(&epoch) else {
                self.splits.insert(epoch, shares);
                continue;
            };
            for (own, other) in own.iter_mut().zip(shares) {
                own.kept += other.kept;
                own.left_out += other.left_out;
                own.counting.iter_mut().zip(other.counting).for_each(|(own, other)| *own += other);
                own.units.resize(own.units.len().max(other.units.len()), [0; 2]);
                for (own, other) in own.units.iter_mut().zip(other.units) {
                    *own = [own[0] + other[0], own[1] + other[1]];
                }
            }
        }
        self.records.merge(other.records);
        self.compared += other.compared;
        other.ports.into_iter().for_each(|(port, count)| *self.ports.entry(port).or_default() += count);
        self.last_us = self.last_us.max(other.last_us);
        self.unclassed += other.unclassed;
        self.bytes += other.bytes;
        self.outlasting += other.outlasting;
    }
}

impl Row {
    /// Time from the test's beginning to the connection's.
    pub(super) fn since_us(&self, test: &Experiment) -> u64 {
        self.begun_unix_ns.saturating_sub((test.begun_unix_s * 1e9) as u64) / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ab::testing::experiment;

    #[test]
    fn counted_numbers_have_the_usual_median() {
        for numbers in [vec![], vec![3_000], vec![1, 2], vec![9_000_000, 1, 5_000_000], vec![7, 7, 7, 9_999_999]] {
            let mut counter = Counter::default();
            numbers.iter().for_each(|&value| counter.add(value, 1));
            let mut twice = counter.clone();
            twice.merge(&counter);
            let mut ms: Vec<f64> = numbers.iter().map(|&us| us as f64 / 1e3).collect();
            let wanted = bbrlab_stats::median(&mut ms);
            assert_eq!(counter.median().to_bits(), wanted.to_bits(), "{numbers:?}");
            if numbers.len() % 2 == 1 {
                assert_eq!(twice.median().to_bits(), wanted.to_bits(), "{numbers:?}");
            }
        }
    }

    /// Threads that share the records in any way count the same.
    #[test]
    fn threads_together_count_what_one_counts() {
        let mut test = experiment(&["cubic", "bbr3"], "50,50");
        test.by = AssignmentUnit::ClientPrefix;
        let row = |id: u64| Row {
            id: id / 3,
            arm: (id % 2) as u8,
            bucket: (id % 50) as u16,
            epoch: 1 + (id % 2) as u32,
            nth: 1 + (id % 3) as u32,
            is_open: id % 3 != 2,
            bytes_acked: id,
            data_segs_out: 1,
            busy_us: 5 * id,
            min_rtt_us: id,
            ..Row::default()
        };
        let prefixes = Prefixes::default();
        let one = |part: &dyn Fn(u64) -> bool| {
            let mut survey = Survey::new(&test);
            (0..600).filter(|id| part(*id)).for_each(|id| survey.add(&row(id), &test, &prefixes));
            survey
        };
        let alone = Survey::merged(vec![one(&|_| true)], &test, &prefixes);
        let shared = Survey::merged((0..3).map(|nth| one(&|id| id * 7 % 11 % 3 == nth)).collect(), &test, &prefixes);
        let shown = |survey: &Survey| {
            let mut long: Vec<_> =
                survey.long.iter().map(|long| (long.newest().id, long.newest().bytes_acked, long.ages)).collect();
            long.sort_unstable_by_key(|one| (one.0, one.1));
            let units = survey.splits.values().flatten().map(|share| share.count(test.by)).collect::<Vec<_>>();
            let medians = survey.arms.iter().map(|arm| arm.min_rtt_us.median()).collect::<Vec<_>>();
            (survey.connections, survey.compared, survey.bytes, long, units, medians)
        };
        assert_eq!(shown(&alone), shown(&shared));
        assert!(alone.long.len() > 100 && alone.connections < 600);
    }
}
