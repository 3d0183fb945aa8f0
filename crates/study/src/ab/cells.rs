//! The values that are compared, gathered from the records by class, size, arm and split.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bbrlab_stats::stratified::{Clustered, Values};
use rayon::prelude::*;

use super::segment::{AGES, Family, Segment, SegmentBy, age_of_only};
use super::shared::{self, End};
use super::survey::{Survey, is_compared, is_only};
use super::{AssignmentUnit, BUCKETS, Experiment, Records, Row};
use crate::cdn::LARGE;

/// Fields of every reading.
const FIELDS: &[&str] = &[
    "id",
    "arm",
    "bucket",
    "epoch",
    "nth",
    "is_open",
    "is_refused",
    "is_overridden",
    "bytes_acked",
    "busy_us",
    "data_segs_out",
    "min_rtt_us",
];

/// The values of a family's segments.
#[derive(Clone, Debug)]
pub(super) struct Cells {
    pub segments: Vec<Segment>,
    places: Places,
    values: Vec<Values>,
}

/// Numbers the combinations of segment, size, arm and stratum.
#[derive(Clone, Copy, Debug)]
struct Places {
    arms: usize,
    strata: usize,
}

impl Places {
    fn new(test: &Experiment) -> Self {
        Self { arms: test.arms.len(), strata: test.splits.len() }
    }

    const fn of(self, segment: usize, is_large: bool, arm: usize) -> usize {
        ((2 * segment + is_large as usize) * self.arms + arm) * self.strata
    }
}

impl Cells {
    /// Bytes of each value.
    pub fn bytes_of_value(test: &Experiment) -> u64 {
        if test.by == AssignmentUnit::Connection { 8 } else { 12 }
    }

    /// Number of units of assignment with a number. Each host has its own; connections need none.
    pub fn clusters(test: &Experiment) -> usize {
        if test.by == AssignmentUnit::Connection { 0 } else { BUCKETS * test.hosts.len().max(1) }
    }

    /// Sorted values of an arm in a segment, by stratum. Large connections count by throughput in Mbit/s, small ones by completion
    /// time in ms.
    pub fn of(&self, segment: usize, is_large: bool, arm: usize) -> &[Values] {
        let first = self.places.of(segment, is_large, arm);
        &self.values[first..first + self.places.strata]
    }

    /// Puts values together: `of` says those of each segment, size, arm and stratum.
    pub fn together(
        test: &Experiment,
        segments: Vec<Segment>,
        mut of: impl FnMut(usize, bool, usize, usize) -> Values,
    ) -> Self {
        let places = Places::new(test);
        let mut values = Vec::new();
        for segment in 0..segments.len() {
            for is_large in [false, true] {
                for arm in 0..places.arms {
                    values.extend((0..places.strata).map(|stratum| of(segment, is_large, arm, stratum)));
                }
            }
        }
        Self { segments, places, values }
    }

    /// Room for the values; for exactly as many as are known to come, if they are.
    fn new(test: &Experiment, segments: Vec<Segment>, places: Places, room: Option<&Vec<usize>>) -> Self {
        let none = |place: usize| {
            let room = room.map_or(0, |room| room[place]);
            match test.by {
                AssignmentUnit::Connection => Values::Apart(Vec::with_capacity(room)),
                AssignmentUnit::ClientPrefix | AssignmentUnit::Time => Values::Clustered(Vec::with_capacity(room)),
            }
        };
        let values = (0..places.of(segments.len(), false, 0)).map(none).collect();
        Self { segments, places, values }
    }

    fn push(&mut self, place: usize, cluster: u32, value: f64) {
        match &mut self.values[place] {
            Values::Apart(values) => values.push(value),
            Values::Clustered(values) => values.push(Clustered::new(value, cluster)),
            Values::Binned(_) => unreachable!("values are counted in summaries alone"),
        }
    }
}

/// A value, and the cell to which it is added.
struct Found {
    family: usize,
    place: usize,
    cluster: u32,
    value: f64,
}

/// Values and connection ends found in one batch of records.
#[derive(Default)]
struct Batch {
    values: Vec<Found>,
    ends: Vec<End>,
}

/// Result of one reading.
pub(super) struct Gathered {
    pub cells: Vec<Cells>,
    pub ends: Vec<End>,
    /// Number of values at each place of the families that the next reading gathers, so that it needs no more room than they take.
    pub next: Vec<Vec<usize>>,
}

impl Gathered {
    fn take(&mut self, batch: &mut Batch) {
        let here = self.cells.len();
        for Found { family, place, cluster, value } in batch.values.drain(..) {
            match family.checked_sub(here) {
                None => self.cells[family].push(place, cluster, value),
                Some(next) => self.next[next][place] += 1,
            }
        }
        self.ends.append(&mut batch.ends);
    }
}

/// One reading of the records.
pub(super) struct Reading<'a> {
    test: &'a Experiment,
    survey: &'a Survey,
    /// The families to gather, and those to count for the next reading; `None` stands for the ranges of age.
    families: &'a [Option<&'a Family<'a>>],
    /// Number of families to gather.
    here: usize,
    /// Also gathers the ends of connections.
    with_ends: bool,
    places: Places,
    /// Place of each split among the test's, and of its host, by epoch. Within one split, chance alone chose between the arms.
    splits: BTreeMap<u32, (usize, usize)>,
}

impl<'a> Reading<'a> {
    pub fn new(
        test: &'a Experiment,
        survey: &'a Survey,
        families: &'a [Option<&'a Family<'a>>],
        here: usize,
        with_ends: bool,
    ) -> Self {
        let split = |(place, epoch): (usize, u32)| (epoch, (place, test.host_of(epoch)));
        let splits = test.splits.iter().map(|change| change.epoch).enumerate().map(split).collect();
        let places = Places::new(test);
        let with_ends = with_ends && !shared::levels(test).is_empty();
        Self { test, survey, families, here, with_ends, places, splits }
    }

    /// Number of values at each place of the family of all connections.
    pub fn room_of_all(&self) -> Vec<usize> {
        let mut room = vec![0; self.places.of(1, false, 0)];
        for (epoch, shares) in &self.survey.splits {
            let Some(&(stratum, _)) = self.splits.get(epoch) else { continue };
            for (arm, share) in shares.iter().enumerate() {
                for is_large in [false, true] {
                    room[self.places.of(0, is_large, arm) + stratum] = share.counting[usize::from(is_large)] as usize;
                }
            }
        }
        room
    }

    /// Reads the records. `room` is the number of values at each place, if it is known.
    pub fn run<R: Records + ?Sized>(&self, records: &R, room: &[Vec<usize>]) -> Result<Gathered, R::Error> {
        let mut fields = FIELDS.to_vec();
        for family in self.families {
            fields.extend(family.map_or(&["lasted_us"][..], |family| family.fields));
        }
        fields.extend(if self.with_ends { shared::FIELDS } else { &[] });
        fields.sort_unstable();
        fields.dedup();
        let (here, next) = self.families.split_at(self.here);
        let cells = |(nth, family): (usize, &Option<&Family<'_>>)| {
            Cells::new(self.test, segments(*family), self.places, room.get(nth))
        };
        let none = |family: &Option<&Family<'_>>| vec![0; self.places.of(segments(*family).len(), false, 0)];
        let gathered = Mutex::new(Gathered {
            cells: here.iter().enumerate().map(cells).collect(),
            ends: Vec::new(),
            next: next.iter().map(none).collect(),
        });
        records.scan(&fields, Batch::default, |batch, rows| {
            for row in rows.iter().filter(|row| is_only(row) && is_compared(row)) {
                if let Some(from) = self.origin(row) {
                    self.add(row, &from, Some(age_of_only(row)), batch);
                }
            }
            gathered.lock().unwrap_or_else(PoisonError::into_inner).take(batch);
        })?;
        let mut gathered = gathered.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut batch = Batch::default();
        for long in &self.survey.long {
            let newest = long.newest();
            let Some(from) = self.origin(&newest) else { continue };
            self.add(&newest, &from, None, &mut batch);
            for family in (0..self.families.len()).filter(|&family| self.families[family].is_none()) {
                let known = long.ages.iter().enumerate().filter_map(|(age, value)| Some((age, (*value)?)));
                batch.values.extend(known.map(|(age, value)| self.found(family, age, true, &from, value)));
            }
            gathered.take(&mut batch);
        }
        gathered.cells.par_iter_mut().flat_map(|cells| &mut cells.values).for_each(Values::sort);
        Ok(gathered)
    }

    /// Arm, stratum and cluster of a compared connection; `None` if its split or arm is not the test's.
    fn origin(&self, row: &Row) -> Option<Origin> {
        let &(stratum, host) = self.splits.get(&row.epoch)?;
        let arm = usize::from(row.arm);
        let cluster = host * BUCKETS + usize::from(row.bucket).min(BUCKETS - 1);
        (arm < self.test.arms.len()).then_some(Origin { arm, stratum, cluster: cluster as u32 })
    }

    fn found(&self, family: usize, segment: usize, is_large: bool, from: &Origin, value: f64) -> Found {
        let place = self.places.of(segment, is_large, from.arm) + from.stratum;
        Found { family, place, cluster: from.cluster, value }
    }

    /// Adds a compared connection: by its only record, with its range of age, or by its newest.
    fn add(&self, row: &Row, from: &Origin, age: Option<usize>, batch: &mut Batch) {
        if self.with_ends {
            batch.ends.extend(End::of(row, self.survey.compared));
        }
        let is_large = row.bytes_acked >= LARGE;
        let busy_s = row.busy_s(self.test.tick_ns);
        let throughput = row.bytes_acked as f64 * 8e-6 / busy_s;
        let value = if is_large { throughput } else { busy_s * 1e3 };
        for (nth, family) in self.families.iter().enumerate() {
            let found = match family {
                Some(family) if counts(row) => {
                    (family.segment_of)(row).map(|segment| self.found(nth, segment, is_large, from, value))
                }
                Some(_) => None,
                None => age.map(|age| self.found(nth, age, true, from, throughput)),
            };
            batch.values.extend(found);
        }
    }
}

/// Arm, stratum and cluster of a connection.
struct Origin {
    arm: usize,
    stratum: usize,
    cluster: u32,
}

/// Returns true for a compared connection whose value counts. Small ones count by completion, so they must have ended.
pub(super) const fn counts(row: &Row) -> bool {
    row.bytes_acked >= LARGE || !row.is_open
}

fn segments(family: Option<&Family<'_>>) -> Vec<Segment> {
    let age = |&(name, from, below): &(&str, u64, u64)| Segment::new(name, SegmentBy::Age, from, below);
    family.map_or_else(|| AGES.iter().map(age).collect(), |family| family.segments.clone())
}
