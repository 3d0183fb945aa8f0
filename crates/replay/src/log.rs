//! Log of a tap: compact, versioned, read and written without a clock or a file.
//! No input makes it panic.
// SPDX-License-Identifier: Apache-2.0 OR MIT
//!
//! A log is the eight bytes of [`MAGIC`], a version byte, a header and a sequence of entries.
//! Numbers are LEB128; signed ones are zigzag-coded first. The header is a length and that many bytes of JSON ([`Header`]).
//! An entry is a flow number plus one, then a record; or 0, the count of records and the count of lost ones: the end.
//! A record is a bit map of column groups (eight columns each), for each group present a byte that marks the columns
//! that differ from their forecast, and for each of those the signed difference.
//! A column's forecast is its value in the flow's last record (arguments, rate sample and answer: the last of the
//! same kind; the first: zeros), except where [`forecast`] derives a better one from the columns before it. Differences
//! wrap, so every 64-bit number is possible.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::field::{COLUMNS, FIELDS, Field, Kind, Record};
use crate::{Error, Result};

/// First bytes of a log. The line ends reveal a transfer that changed them.
pub const MAGIC: &[u8; 8] = b"bbrtap\r\n";
/// Format version that this code writes and reads.
pub const VERSION: u8 = 1;
/// Longest header that is accepted. Ours.
const HEADER_MAX: u64 = 1 << 16;
/// Columns in a group.
const GROUP: usize = 8;
/// Groups in a record.
const GROUPS: usize = COLUMNS.div_ceil(GROUP);

/// Origin of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// `uname -r` and the machine.
    pub kernel: String,
    /// Description of the recorded situation.
    pub situation: String,
    /// The kernel's ticks per second (`CONFIG_HZ`).
    pub hz: u32,
}

/// A log in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Origin of the log.
    pub header: Header,
    /// The calls in order.
    pub records: Vec<Record>,
    /// Number of records for which the tap had no room.
    pub lost: u64,
}

/// Last records of each flow.
#[derive(Debug, Default)]
struct Memory {
    /// Last record of any kind: the connection and the algorithm's state, which continue from call to call.
    flows: BTreeMap<u32, [u64; COLUMNS]>,
    /// Last record of one kind: arguments, rate sample and answer.
    kinds: BTreeMap<(u32, u64), [u64; COLUMNS]>,
}

impl Memory {
    /// Columns to compare with this flow's next record of this kind.
    fn last(&self, flow: u32, kind: u64) -> [u64; COLUMNS] {
        let zeros = [0; COLUMNS];
        let mut last = *self.flows.get(&flow).unwrap_or(&zeros);
        let own = self.kinds.get(&(flow, kind)).unwrap_or(&zeros);
        for field in FIELDS.iter().copied().filter(|field| belongs_to_kind(*field)) {
            last[field as usize] = own[field as usize];
        }
        last
    }

    fn note(&mut self, flow: u32, kind: u64, columns: &[u64; COLUMNS]) {
        self.flows.insert(flow, *columns);
        self.kinds.insert((flow, kind), *columns);
    }
}

/// True for fields whose meaning depends on the kind of call.
fn belongs_to_kind(field: Field) -> bool {
    let place = field as usize;
    place <= Field::ArgB as usize || (Field::RsPriorMstamp as usize..=Field::Answer as usize).contains(&place)
}

/// Word of `struct bbr` whose low bits count the packets of the aggregation epoch.
const EPOCH_ACKED: usize = 25;
/// Word of `struct bictcp` that counts the packets towards Reno's window.
const ACK_COUNT: usize = 8;

/// Forecast of column `place`, from the columns before it and the last record.
fn forecast(place: usize, last: &[u64; COLUMNS], now: &[u64; COLUMNS]) -> u64 {
    let is = |field: Field| now[field as usize];
    let kind = Kind::of(is(Field::Kind));
    match FIELDS.get(place) {
        Some(field) if kind == Some(Kind::CongControl) && (Field::RsPriorMstamp as usize..).contains(&place) => {
            forecast_sample(*field, last, now).unwrap_or_else(|| forecast_after(*field, last, now))
        }
        Some(field) if place >= Field::Answer as usize => forecast_after(*field, last, now),
        Some(field) => forecast_connection(*field, last, now),
        None if place == FIELDS.len() + EPOCH_ACKED && kind == Some(Kind::CongControl) => {
            last[place].wrapping_add(is(Field::RsAckedSacked))
        }
        None if place == FIELDS.len() + ACK_COUNT && kind == Some(Kind::CongAvoid) => {
            last[place].wrapping_add(is(Field::ArgB))
        }
        None => last[place],
    }
}

/// Forecast of the connection before the call: it continues from the state after the last call.
fn forecast_connection(field: Field, last: &[u64; COLUMNS], now: &[u64; COLUMNS]) -> u64 {
    let is = |field: Field| now[field as usize];
    let was = |field: Field| last[field as usize];
    let kind = Kind::of(is(Field::Kind));
    let is_ack = matches!(kind, Some(Kind::CongControl | Kind::CongAvoid));
    match field {
        Field::ArgA if kind == Some(Kind::CongAvoid) => was(Field::Una),
        Field::WstampNs => was(field).wrapping_add(is(Field::ClockNs).wrapping_sub(was(Field::ClockNs))),
        Field::MstampUs => is(Field::ClockNs) / 1_000,
        Field::DeliveredUs if is_ack => is(Field::MstampUs),
        Field::Delivered if kind == Some(Kind::CongControl) => {
            let advance = is(Field::ArgA).wrapping_sub(was(Field::Una)) & u64::from(u32::MAX);
            was(field).wrapping_add(advance / was(Field::Mss).max(1))
        }
        Field::LastSend => was(Field::Jiffies) & u64::from(u32::MAX),
        Field::Cwnd => was(Field::CwndAfter),
        Field::CwndCnt => was(Field::CwndCntAfter),
        Field::Ssthresh => was(Field::SsthreshAfter),
        Field::AppLimited => was(Field::AppLimitedAfter),
        Field::PacingRate => was(Field::PacingRateAfter),
        Field::PacingStatus => was(Field::PacingStatusAfter),
        Field::Una if is_ack => is(Field::ArgA),
        Field::Next => {
            // Full segments: the volume outstanding gives the distance of the newest from the oldest.
            let full = |of: &dyn Fn(Field) -> u64| of(Field::PacketsOut).wrapping_mul(of(Field::Mss));
            let rest = was(Field::Next).wrapping_sub(was(Field::Una)).wrapping_sub(full(&was));
            rest.wrapping_add(is(Field::Una)).wrapping_add(full(&is))
        }
        _ => was(field),
    }
}

/// Forecast of an ACK's rate sample: many of its fields follow from the connection.
fn forecast_sample(field: Field, last: &[u64; COLUMNS], now: &[u64; COLUMNS]) -> Option<u64> {
    let is = |field: Field| now[field as usize];
    let was = |field: Field| last[field as usize];
    let received = is(Field::MstampUs).wrapping_sub(is(Field::RsPriorMstamp));
    Some(match field {
        Field::RsDelivered => is(Field::Delivered).wrapping_sub(is(Field::RsPriorDelivered)),
        Field::RsIntervalUs | Field::RsRcvIntervalUs => received,
        Field::RsSndIntervalUs if is(Field::RsIntervalUs) != received => is(Field::RsIntervalUs),
        Field::RsRttUs => {
            // The smoothed RTT moved by an eighth of this sample's deviation.
            let before = was(Field::Srtt8Us);
            is(Field::Srtt8Us).wrapping_sub(before).wrapping_add(before >> 3)
        }
        Field::RsAckedSacked => is(Field::Delivered).wrapping_sub(was(Field::Delivered)),
        Field::RsPriorInFlight => {
            let left = is(Field::SackedOut).wrapping_add(is(Field::LostOut));
            let in_flight = is(Field::PacketsOut).wrapping_sub(left).wrapping_add(is(Field::RetransOut));
            in_flight.wrapping_add(is(Field::RsAckedSacked))
        }
        Field::RsLastEndSeq if is(Field::SackedOut) == 0 => is(Field::ArgA),
        Field::RsPriorMstamp | Field::RsPriorDelivered | Field::RsLosses | Field::RsFlags => was(field),
        Field::RsSndIntervalUs | Field::RsLastEndSeq => was(field),
        _ => return None,
    })
}

/// Forecast of the state after the call, mostly equal to the state before it.
fn forecast_after(field: Field, last: &[u64; COLUMNS], now: &[u64; COLUMNS]) -> u64 {
    let is = |field: Field| now[field as usize];
    match field {
        Field::JiffiesAfter => is(Field::Jiffies),
        Field::CwndAfter => is(Field::Cwnd),
        Field::CwndCntAfter if Kind::of(is(Field::Kind)) == Some(Kind::CongAvoid) => {
            is(Field::CwndCnt).wrapping_add(is(Field::ArgB))
        }
        Field::CwndCntAfter => is(Field::CwndCnt),
        Field::SsthreshAfter => is(Field::Ssthresh),
        Field::AppLimitedAfter => is(Field::AppLimited),
        Field::PacingRateAfter => is(Field::PacingRate),
        Field::PacingStatusAfter => is(Field::PacingStatus),
        _ => last[field as usize],
    }
}

/// Writes a log, one record at a time.
#[derive(Debug, Default)]
pub struct Writer {
    entries: Vec<u8>,
    memory: Memory,
    records: u64,
}

impl Writer {
    /// Adds a record.
    pub fn push(&mut self, record: &Record) {
        let columns = record.columns();
        let kind = record.get(Field::Kind);
        let last = self.memory.last(record.flow, kind);
        put(&mut self.entries, u64::from(record.flow) + 1);
        put(&mut self.entries, kind);
        let difference = |place: usize| columns[place].wrapping_sub(forecast(place, &last, columns));
        let mut masks = [0u8; GROUPS];
        for place in 1..COLUMNS {
            masks[place / GROUP] |= u8::from(difference(place) != 0) << (place % GROUP);
        }
        let present = masks.iter().enumerate().fold(0u64, |map, (at, mask)| map | u64::from(*mask != 0) << at);
        put(&mut self.entries, present);
        for (group, mask) in masks.iter().enumerate().filter(|(_, mask)| **mask != 0) {
            self.entries.push(*mask);
            for place in
                (group * GROUP..COLUMNS.min((group + 1) * GROUP)).filter(|place| mask >> (place % GROUP) & 1 != 0)
            {
                put(&mut self.entries, zigzag(difference(place)));
            }
        }
        self.memory.note(record.flow, kind, columns);
        self.records += 1;
    }

    /// Returns the whole log; `lost` is the number of records for which there was no room.
    pub fn finish(self, header: &Header, lost: u64) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(VERSION);
        let text = serde_json::to_vec(header).unwrap_or_default();
        put(&mut bytes, text.len() as u64);
        bytes.extend_from_slice(&text);
        bytes.extend_from_slice(&self.entries);
        for number in [0, self.records, lost] {
            put(&mut bytes, number);
        }
        bytes
    }
}

impl Log {
    /// Returns the log as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        for record in &self.records {
            writer.push(record);
        }
        writer.finish(&self.header, self.lost)
    }

    /// Reads a log. The error names in one line the fault and its place.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader { bytes: Bytes { all: bytes, at: 0 }, memory: Memory::default() };
        let header = reader.header()?;
        let mut log = Self { header, ..Self::default() };
        while let Some(record) = reader.record(log.records.len())? {
            log.records.push(record);
        }
        log.lost = reader.bytes.end(log.records.len())?;
        Ok(log)
    }
}

struct Reader<'a> {
    bytes: Bytes<'a>,
    memory: Memory,
}

impl Reader<'_> {
    fn header(&mut self) -> Result<Header> {
        if self.bytes.all.is_empty() {
            return Err(Error::Empty);
        }
        if !self.bytes.all.starts_with(MAGIC) {
            return Err(Error::NotALog);
        }
        self.bytes.at = MAGIC.len();
        self.bytes.header(VERSION)
    }

    /// Reads the next record; `None` at the end.
    fn record(&mut self, number: usize) -> Result<Option<Record>> {
        let Some(flow) = self.bytes.number()?.checked_sub(1) else {
            return Ok(None);
        };
        let broken = |problem| Error::Damaged { unit: "record", number, problem };
        let flow = u32::try_from(flow).map_err(|_| broken("an impossible flow number"))?;
        let kind = self.bytes.number()?;
        let present = self.bytes.number()?;
        if present >> GROUPS != 0 {
            return Err(broken("columns beyond the last"));
        }
        let mut masks = [0u8; GROUPS];
        let mut last = self.memory.last(flow, kind);
        last[0] = kind;
        let mut columns = last;
        for (group, mask) in masks.iter_mut().enumerate() {
            let is_there = present >> group & 1 != 0;
            *mask = if is_there { self.bytes.byte()? } else { 0 };
            for place in group * GROUP..COLUMNS.min((group + 1) * GROUP) {
                let differs = *mask >> (place % GROUP) & 1 != 0;
                let difference = if differs { unzigzag(self.bytes.number()?) } else { 0 };
                if place > 0 {
                    columns[place] = forecast(place, &last, &columns).wrapping_add(difference);
                }
            }
        }
        self.memory.note(flow, kind, &columns);
        Ok(Some(Record::new(flow, columns)))
    }
}

/// A log's bytes and the reading position.
pub(crate) struct Bytes<'a> {
    pub(crate) all: &'a [u8],
    pub(crate) at: usize,
}

impl Bytes<'_> {
    /// Reads version and header.
    pub(crate) fn header<T: DeserializeOwned>(&mut self, wanted: u8) -> Result<T> {
        let version = self.byte()?;
        if version != wanted {
            return Err(Error::Version { found: version, accepted: wanted });
        }
        let length = self.number()?;
        let rest = &self.all[self.at..];
        let length = usize::try_from(length.min(HEADER_MAX + 1)).unwrap_or(usize::MAX);
        if length as u64 > HEADER_MAX {
            return Err(Error::HeaderTooLong { max: HEADER_MAX });
        }
        let text = rest.get(..length).ok_or_else(|| self.truncated())?;
        self.at += length;
        serde_json::from_slice(text).map_err(Error::HeaderJson)
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        let byte = *self.all.get(self.at).ok_or_else(|| self.truncated())?;
        self.at += 1;
        Ok(byte)
    }

    pub(crate) fn number(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::NumberTooLong { at: self.at })
    }

    /// Reads the end; returns the count of lost records. Its count of records must match those read.
    pub(crate) fn end(&mut self, records: usize) -> Result<u64> {
        let (count, lost) = (self.number()?, self.number()?);
        if count != records as u64 {
            return Err(Error::Count { counted: count, read: records });
        }
        if self.at != self.all.len() {
            return Err(Error::Trailing { count: self.all.len() - self.at, at: self.at });
        }
        Ok(lost)
    }

    const fn truncated(&self) -> Error {
        Error::Truncated { length: self.all.len() }
    }
}

pub(crate) fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Codes a signed difference as a number that is small if the difference is.
pub(crate) const fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ (((difference as i64) >> 63) as u64)
}

pub(crate) const fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bbrlab_core::Rng;

    fn log(records: usize) -> Log {
        let mut rng = Rng::new(5);
        let records = (0..records).map(|_| {
            let mut columns = [0; COLUMNS];
            for column in &mut columns {
                *column = rng.next_u64() >> rng.below(64);
            }
            columns[0] = 1 + rng.below(8);
            Record::new(rng.below(3) as u32, columns)
        });
        let header = Header { kernel: "6.18".to_owned(), situation: "any".to_owned(), hz: 250 };
        Log { header, records: records.collect(), lost: 3 }
    }

    #[test]
    fn what_is_written_is_read() {
        let log = log(200);
        assert_eq!(Log::parse(&log.to_bytes()).unwrap(), log);
    }

    #[test]
    fn every_truncation_is_an_error_of_one_line() {
        let bytes = log(4).to_bytes();
        for end in 0..bytes.len() {
            let error = Log::parse(&bytes[..end]).unwrap_err().to_string();
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn damage_is_an_error_or_another_log_but_never_a_panic() {
        let bytes = log(6).to_bytes();
        let mut rng = Rng::new(9);
        for _ in 0..5_000 {
            let mut damaged = bytes.clone();
            for _ in 0..=rng.below(3) {
                let at = rng.below(damaged.len() as u64) as usize;
                damaged[at] = rng.next_u64() as u8;
            }
            if let Err(error) = Log::parse(&damaged) {
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }

    #[test]
    fn another_file_and_another_version_are_named() {
        assert!(matches!(Log::parse(b""), Err(Error::Empty)));
        assert!(matches!(Log::parse(b"\x7fELF...."), Err(Error::NotALog)));
        let mut bytes = log(1).to_bytes();
        bytes[8] = 77;
        assert!(matches!(Log::parse(&bytes), Err(Error::Version { found: 77, accepted: 1 })));
    }
}
