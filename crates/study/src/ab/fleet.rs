//! One experiment on several hosts: their tests as one, in which connections are compared with those of the same host and split.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use serde::{Deserialize, Serialize};

use super::{ArmCounts, Experiment};
use crate::{Error, Result};

/// One host of an experiment, and the epochs of its splits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPart {
    pub name: String,
    pub first_epoch: u32,
    pub last_epoch: u32,
}

/// Puts the tests of several hosts together. Each split gets an epoch of its own, so that hosts are strata as splits are. Returns
/// what is to be added to the epochs of each host's records.
///
/// # Errors
/// The tests differ in what makes them one experiment, or two have the same host's name.
pub fn merge(tests: Vec<Experiment>) -> Result<(Experiment, Vec<u32>)> {
    let mut tests = tests.into_iter();
    let Some(mut all) = tests.next() else { return Err(Error::NoTests) };
    let mut offsets = vec![0];
    if tests.len() == 0 {
        return Ok((all, offsets));
    }
    let last = |test: &Experiment| test.splits.iter().map(|change| change.epoch).max().unwrap_or(0);
    let mut end = last(&all);
    let named = |test: &Experiment, nth: usize| test.host.clone().unwrap_or_else(|| format!("host {nth}"));
    // A test is known by the nanosecond in which it began.
    let mut begun = vec![all.begun_unix_s.to_bits()];
    let mut hosts = vec![HostPart { name: named(&all, 1), first_epoch: 0, last_epoch: end }];
    for (nth, mut test) in tests.enumerate() {
        let name = named(&test, nth + 2);
        let difference = [
            ("arms", test.labels() != all.labels()),
            ("--by", test.by != all.by),
            ("--slot", test.slot_s.to_bits() != all.slot_s.to_bits()),
            ("--keep", test.keep != all.keep),
        ];
        if let Some((what, _)) = difference.into_iter().find(|(_, differs)| *differs) {
            return Err(Error::HostsDiffer { one: hosts[0].name.clone(), other: name, what });
        }
        if hosts.iter().any(|host| host.name == name) || begun.contains(&test.begun_unix_s.to_bits()) {
            return Err(Error::HostTwice(name));
        }
        begun.push(test.begun_unix_s.to_bits());
        let from = end + 1;
        test.splits.iter_mut().for_each(|change| change.epoch += from);
        end = last(&test);
        offsets.push(from);
        all.splits.extend(test.splits);
        all.begun_unix_s = all.begun_unix_s.min(test.begun_unix_s);
        let counts = &test.counts;
        for (sum, own) in all.counts.arms.iter_mut().zip(&counts.arms) {
            *sum = ArmCounts {
                tried: sum.tried + own.tried,
                established: sum.established + own.established,
                failed: sum.failed + own.failed,
                refused: sum.refused + own.refused,
            };
        }
        all.counts.ring_lost += counts.ring_lost;
        all.counts.disk_lost += counts.disk_lost;
        all.counts.no_memory += counts.no_memory;
        all.counts.written += counts.written;
        hosts.push(HostPart { name, first_epoch: from, last_epoch: end });
    }
    all.hosts = hosts;
    Ok((all, offsets))
}

impl Experiment {
    /// The place of a split's host among the hosts; 0 for a test of one host.
    pub fn host_of(&self, epoch: u32) -> usize {
        let has = |host: &HostPart| (host.first_epoch..=host.last_epoch).contains(&epoch);
        self.hosts.iter().position(has).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use bbrlab_core::Rng;
    use bbrlab_stats::bootstrap::normal;

    use super::*;
    use crate::ab::testing::experiment;
    use crate::ab::testing::judge;
    use crate::ab::{BUCKETS, Prefixes, Row, SegmentBy, Table, notes};
    use crate::judgement::Judgement;

    /// A host whose connections take `takes` seconds, with its own split.
    fn host(name: &str, split: &str, takes: f64, factor: f64, seed: u64) -> (Experiment, Vec<Row>) {
        let mut test = experiment(&["cubic", "bbr3"], split);
        test.host = Some(name.to_owned());
        test.begun_unix_s = seed as f64;
        test.counts.arms = vec![ArmCounts { established: 750, ..ArmCounts::default() }; 2];
        let table = Table::new(&test.splits[0].shares);
        let mut rng = Rng::new(seed);
        let row = |id: u64| {
            let bucket = rng.below(BUCKETS as u64) as u16;
            let arm = table.arm(bucket).unwrap_or(0);
            let busy_s = takes * (0.4 * normal(&mut rng)).exp() * if arm == 1 { factor } else { 1.0 };
            Row {
                id,
                arm,
                bucket,
                epoch: 1,
                nth: 1,
                bytes_acked: 1_000_000,
                busy_us: (busy_s * 1e6) as u64,
                data_segs_out: 700,
                ..Row::default()
            }
        };
        let rows = (0..1_500).map(row).collect();
        (test, rows)
    }

    #[test]
    fn hosts_of_different_speeds_and_splits_are_compared_each_with_itself() {
        for (factor, says) in [(1.0, Judgement::NoDifference), (0.8, Judgement::Faster)] {
            let (tests, rows): (Vec<Experiment>, Vec<Vec<Row>>) =
                [host("near", "90,10", 0.1, factor, 1), host("far", "10,90", 2.0, factor, 2)].into_iter().unzip();
            let (test, offsets) = merge(tests).unwrap();
            let moved = |(rows, offset): (Vec<Row>, u32)| {
                rows.into_iter().map(move |row| Row { epoch: row.epoch + offset, ..row })
            };
            let rows: Vec<Row> = rows.into_iter().zip(offsets).flat_map(moved).collect();
            let found = judge(&test, &rows, &Prefixes::default(), 1);
            let line = |name: &str| found.lines.iter().find(|line| line.class.name == name).unwrap();
            assert_eq!(line("all").judgement(), says, "{:?}", line("all"));
            assert_eq!((found.connections, found.arms[0].connections + found.arms[1].connections), (3_000, 3_000));
            assert_eq!(line("host far").class.over, SegmentBy::Host);
            assert!(line("host near").counts.iter().sum::<usize>() == 1_500);
            assert!(!found.ratio.is_mismatch() && test.counts.arms[1].established == 1_500);
            assert!(notes(&test, &found).iter().any(|note| note.starts_with("2 hosts: near, far.")));
        }
    }

    #[test]
    fn tests_that_are_no_one_experiment_are_refused() {
        let (one, _) = host("a", "50,50", 0.1, 1.0, 1);
        let with = |change: &dyn Fn(&mut Experiment)| {
            let mut other = Experiment { host: Some("b".to_owned()), begun_unix_s: 9.0, ..one.clone() };
            change(&mut other);
            merge(vec![one.clone(), other]).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(with(&|_| ()), Ok(()));
        assert!(with(&|test| test.arms[1].label = "bbr1".to_owned()).unwrap_err().contains("arms"));
        assert!(with(&|test| test.slot_s = 1.0).unwrap_err().contains("--slot"));
        assert!(with(&|test| test.host = Some("a".to_owned())).unwrap_err().contains("twice"));
        assert!(with(&|test| test.begun_unix_s = one.begun_unix_s).unwrap_err().contains("twice"));
    }
}
