//! Connections of several records, which have to be found together.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;

use super::segment::{AGES, ages};
use super::{Client, Experiment, Row};

/// Key of a connection: its beginning, its cookie, and its epoch, which differs between hosts.
type Key = (u64, u64, u32);

/// Counters of one record of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub nth: u32,
    pub lasted_us: u64,
    pub bytes_acked: u64,
    pub busy_us: u64,
}

/// The records so far. A few long lists, because their memory is given back at once.
#[derive(Clone, Debug, Default)]
pub(super) struct LongRecords {
    /// Place of each connection among the newest records.
    places: BTreeMap<Key, u32>,
    newest: Vec<Row>,
    /// Each with the place of its connection.
    parts: Vec<(u32, Part)>,
}

impl LongRecords {
    pub fn add(&mut self, row: &Row) {
        let Row { nth, lasted_us, bytes_acked, busy_us, .. } = *row;
        let place = self.place(row);
        self.parts.push((place, Part { nth, lasted_us, bytes_acked, busy_us }));
    }

    /// Keeps a record if it is its connection's newest. Returns the connection's place.
    fn place(&mut self, row: &Row) -> u32 {
        let key = (row.begun_unix_ns, row.id, row.epoch);
        let Some(&place) = self.places.get(&key) else {
            let place = self.newest.len() as u32;
            self.places.insert(key, place);
            self.newest.push(row.clone());
            return place;
        };
        let known = &mut self.newest[place as usize];
        if row.nth > known.nth {
            known.clone_from(row);
        }
        place
    }

    pub fn merge(&mut self, other: Self) {
        let places: Vec<u32> = other.newest.iter().map(|row| self.place(row)).collect();
        self.parts.extend(other.parts.into_iter().map(|(place, part)| (places[place as usize], part)));
    }

    /// Passes each connection to `each`: its newest record, and its parts in their order.
    pub fn each(mut self, mut each: impl FnMut(&Row, &[Part])) {
        drop(self.places);
        self.parts.sort_unstable_by_key(|(place, part)| (*place, part.nth));
        let mut own = Vec::new();
        for same in self.parts.chunk_by(|a, b| a.0 == b.0) {
            own.clear();
            own.extend(same.iter().map(|(_, part)| *part));
            own.dedup_by_key(|part| part.nth);
            each(&self.newest[same[0].0 as usize], &own);
        }
    }
}

/// A compared connection of several records, as the later readings need it. There may be millions.
#[derive(Clone, Debug)]
pub(super) struct LongConnection {
    id: u64,
    begun_unix_ns: u64,
    lasted_us: u64,
    bytes_acked: u64,
    busy_us: u64,
    min_rtt_us: u64,
    srtt_us: u64,
    client: Client,
    epoch: u32,
    port: u16,
    bucket: u16,
    arm: u8,
    is_open: bool,
    /// Throughput in each range of age, Mbit/s.
    pub ages: [Option<f64>; AGES.len()],
}

impl LongConnection {
    pub fn of(test: &Experiment, newest: &Row, parts: &[Part]) -> Self {
        let Row { id, begun_unix_ns, lasted_us, bytes_acked, busy_us, min_rtt_us, srtt_us, .. } = *newest;
        let Row { client, epoch, port, bucket, arm, is_open, .. } = *newest;
        let ages = ages(test, newest, parts);
        Self {
            id,
            begun_unix_ns,
            lasted_us,
            bytes_acked,
            busy_us,
            min_rtt_us,
            srtt_us,
            client,
            epoch,
            port,
            bucket,
            arm,
            is_open,
            ages,
        }
    }

    /// Its newest record, with the fields that are kept.
    pub fn newest(&self) -> Row {
        let Self { id, begun_unix_ns, lasted_us, bytes_acked, busy_us, min_rtt_us, srtt_us, .. } = *self;
        let Self { client, epoch, port, bucket, arm, is_open, .. } = *self;
        Row {
            id,
            begun_unix_ns,
            lasted_us,
            bytes_acked,
            busy_us,
            min_rtt_us,
            srtt_us,
            client,
            epoch,
            port,
            bucket,
            arm,
            is_open,
            ..Row::default()
        }
    }
}
