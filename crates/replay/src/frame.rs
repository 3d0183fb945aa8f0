//! Frame of a log of calls: compact, versioned, read and written without a clock or a file. No input makes it panic.
// SPDX-License-Identifier: Apache-2.0 OR MIT
//!
//! A log is eight bytes that name its content, a version byte, a header and a sequence of records.
//! Numbers are LEB128; signed ones are zigzag-coded first. The header is a length and that many bytes of JSON.
//! A record is a flow number plus one, then its words; or 0, the count of records and the count of lost ones: the end.
//! Words are coded in groups of eight: a bit map of the groups, for each group present a byte that marks the words that differ
//! from those of the flow's last record (the first: from zeros), and for each of those the signed difference. Differences
//! wrap, so every 64-bit number is possible.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// Format version that this code writes and reads.
const VERSION: u8 = 2;
/// Longest header that is accepted. Ours.
const HEADER_MAX: u64 = 1 << 16;
/// Words in a group.
const GROUP: usize = 8;

/// Origin of a log, which decides on its content.
pub trait Origin: Serialize + DeserializeOwned + Default {
    /// First eight bytes of such a log.
    const MAGIC: &'static [u8; 8];
    /// Name of a record in messages.
    const UNIT: &'static str;
}

/// One call of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<const WORDS: usize> {
    /// Connection, numbered from 0 in the order of their start.
    pub flow: u32,
    /// The recorded numbers.
    pub words: [u64; WORDS],
}

/// A log in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log<H, const WORDS: usize> {
    /// Origin of the log.
    pub header: H,
    /// The calls in order.
    pub records: Vec<Record<WORDS>>,
    /// Number of calls for which the recorder had no room.
    pub lost: u64,
}

/// Writes a log, one record at a time.
#[derive(Debug)]
pub struct Writer<const WORDS: usize> {
    entries: Vec<u8>,
    last: BTreeMap<u32, [u64; WORDS]>,
    records: u64,
}

impl<const WORDS: usize> Default for Writer<WORDS> {
    fn default() -> Self {
        Self { entries: Vec::new(), last: BTreeMap::new(), records: 0 }
    }
}

impl<const WORDS: usize> Writer<WORDS> {
    /// Adds a record.
    pub fn push(&mut self, record: &Record<WORDS>) {
        put(&mut self.entries, u64::from(record.flow) + 1);
        let last = self.last.entry(record.flow).or_insert([0; WORDS]);
        let differences: Vec<u64> =
            record.words.iter().zip(&*last).map(|(now, last)| now.wrapping_sub(*last)).collect();
        let is_present = |group: &[u64]| group.iter().any(|difference| *difference != 0);
        let present = differences.chunks(GROUP).enumerate();
        put(&mut self.entries, present.fold(0, |map, (at, group)| map | u64::from(is_present(group)) << at));
        for group in differences.chunks(GROUP).filter(|group| is_present(group)) {
            let differs = group.iter().enumerate().filter(|(_, difference)| **difference != 0);
            self.entries.push(differs.clone().fold(0, |mask, (place, _)| mask | 1 << place));
            differs.for_each(|(_, difference)| put(&mut self.entries, zigzag(*difference)));
        }
        *last = record.words;
        self.records += 1;
    }

    /// Returns the whole log; `lost` is the number of calls for which there was no room.
    pub fn finish<H: Origin>(self, header: &H, lost: u64) -> Vec<u8> {
        let mut bytes = H::MAGIC.to_vec();
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

impl<H: Origin, const WORDS: usize> Log<H, WORDS> {
    /// Returns the log as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        self.records.iter().for_each(|record| writer.push(record));
        writer.finish(&self.header, self.lost)
    }

    /// Reads a log. The error names in one line the fault and its place.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() {
            return Err(Error::Empty);
        }
        let rest = bytes.strip_prefix(H::MAGIC).ok_or(Error::NotALog)?;
        let mut bytes = Bytes { all: bytes, at: bytes.len() - rest.len() };
        let (header, mut records) = (bytes.header()?, Vec::new());
        let mut last: BTreeMap<u32, [u64; WORDS]> = BTreeMap::new();
        while let Some(flow) = bytes.number()?.checked_sub(1) {
            let broken = |problem| Error::Damaged { unit: H::UNIT, number: records.len(), problem };
            let flow = u32::try_from(flow).map_err(|_| broken("an impossible flow number"))?;
            let words = last.entry(flow).or_insert([0; WORDS]);
            let present = bytes.number()?;
            if present >> WORDS.div_ceil(GROUP) != 0 {
                return Err(broken("words beyond the last"));
            }
            for (_, group) in words.chunks_mut(GROUP).enumerate().filter(|(at, _)| present >> at & 1 != 0) {
                let mask = bytes.byte()?;
                for place in (0..GROUP).filter(|place| mask >> place & 1 != 0) {
                    let word = group.get_mut(place).ok_or_else(|| broken("words beyond the last"))?;
                    *word = word.wrapping_add(unzigzag(bytes.number()?));
                }
            }
            records.push(Record { flow, words: *words });
        }
        let lost = bytes.end(records.len())?;
        Ok(Self { header, records, lost })
    }
}

/// A log's bytes and the reading position.
struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
}

impl Bytes<'_> {
    /// Reads version and header.
    fn header<H: DeserializeOwned>(&mut self) -> Result<H> {
        let version = self.byte()?;
        if version != VERSION {
            return Err(Error::Version { found: version, accepted: VERSION });
        }
        let length = self.number()?;
        if length > HEADER_MAX {
            return Err(Error::HeaderTooLong { max: HEADER_MAX });
        }
        let rest = &self.all[self.at..];
        let text = rest.get(..length as usize).ok_or_else(|| self.truncated())?;
        self.at += text.len();
        serde_json::from_slice(text).map_err(Error::HeaderJson)
    }

    fn byte(&mut self) -> Result<u8> {
        let byte = *self.all.get(self.at).ok_or_else(|| self.truncated())?;
        self.at += 1;
        Ok(byte)
    }

    fn number(&mut self) -> Result<u64> {
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
    fn end(&mut self, records: usize) -> Result<u64> {
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

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Codes a signed difference as a number that is small if the difference is.
const fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ (((difference as i64) >> 63) as u64)
}

const fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::{CallHeader, CallLog};
    use crate::{Header, Log};
    use bbrlab_core::Rng;

    fn records<const WORDS: usize>(count: usize) -> Vec<Record<WORDS>> {
        let mut rng = Rng::new(5);
        let mut number = |_| if rng.below(3) == 0 { rng.next_u64() >> rng.below(64) } else { 7 };
        (0..count).map(|nth| Record { flow: nth as u32 % 3, words: std::array::from_fn(&mut number) }).collect()
    }

    fn log(count: usize) -> Log {
        let header = Header { kernel: "6.18".to_owned(), situation: "any".to_owned(), hz: 250 };
        Log { header, records: records(count), lost: 3 }
    }

    fn calls(count: usize) -> CallLog {
        let header = CallHeader { tick_ns: 4_000_000, algorithms: vec!["bbr1".to_owned()], ..CallHeader::default() };
        let mut log = CallLog { header, records: records(count), lost: 2 };
        for record in &mut log.records {
            (record.words[0], record.words[1]) = (0, record.words[1] % 13);
        }
        log
    }

    #[test]
    fn what_is_written_is_read() {
        let (log, calls) = (log(200), calls(300));
        assert_eq!(Log::parse(&log.to_bytes()).unwrap(), log);
        assert_eq!(CallLog::parse(&calls.to_bytes()).unwrap(), calls);
    }

    #[test]
    fn every_truncation_is_an_error_of_one_line() {
        for bytes in [log(4).to_bytes(), calls(5).to_bytes()] {
            for end in 0..bytes.len() {
                let error = crate::replay_bytes(&bytes[..end]).unwrap_err().to_string();
                assert!(!error.contains('\n'), "{error}");
            }
        }
    }

    #[test]
    fn damage_is_an_error_or_another_log_but_never_a_panic() {
        let mut rng = Rng::new(9);
        for bytes in [log(6).to_bytes(), calls(5).to_bytes()] {
            for _ in 0..5_000 {
                let mut damaged = bytes.clone();
                for _ in 0..=rng.below(3) {
                    let at = rng.below(damaged.len() as u64) as usize;
                    damaged[at] = rng.next_u64() as u8;
                }
                if let Err(error) = crate::replay_bytes(&damaged) {
                    assert!(!error.to_string().contains('\n'), "{error}");
                }
            }
        }
    }

    #[test]
    fn another_file_and_another_version_are_named() {
        assert!(matches!(Log::parse(b""), Err(Error::Empty)));
        assert!(matches!(Log::parse(b"\x7fELF...."), Err(Error::NotALog)));
        let mut bytes = log(1).to_bytes();
        bytes[8] = 77;
        assert!(matches!(Log::parse(&bytes), Err(Error::Version { found: 77, accepted: VERSION })));
    }
}
