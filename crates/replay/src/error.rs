//! Errors of logs: each names in one line the fault and its place.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::params::ParamError;

use crate::{Field, LineError};

/// A log that cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file holds nothing.
    #[error("empty; write one with `bbrlab record`")]
    Empty,
    /// The file does not begin like any known log.
    #[error("not a log of `bbrlab record` or of google/bbr v3: it does not begin with bbrtap, bbrcall or V3")]
    NotALog,
    /// The file cannot be decompressed.
    #[error("its xz compression is damaged or cut off: {}", .0.to_string().lines().next().unwrap_or_default())]
    Compression(#[source] std::io::Error),
    /// The log is too large once unpacked.
    #[error("unpacked it holds more than the {max_mib} MiB of a log")]
    TooLarge {
        /// Largest log, MiB.
        max_mib: u64,
    },
    /// A version that this build does not read.
    #[error("log version {found}, this bbrlab reads {accepted}; record it again")]
    Version {
        /// Version of the log.
        found: u8,
        /// Version that is read.
        accepted: u8,
    },
    /// The header is too long.
    #[error("its header claims more than {max} bytes")]
    HeaderTooLong {
        /// Longest header, bytes.
        max: u64,
    },
    /// The header is not valid JSON.
    #[error("its header is not the JSON of a log: {0}")]
    HeaderJson(#[source] serde_json::Error),
    /// The header lacks the kernel's tick rate.
    #[error("its header has no hz; record it again")]
    NoHz,
    /// The header names an algorithm that core does not have.
    #[error("its header names {text:?}: no algorithm of this bbrlab")]
    UnknownAlgorithm {
        /// The algorithm with its parameters.
        text: String,
    },
    /// A part of the header's algorithm is not of the form `name=value`.
    #[error("its header names {text:?}: no parameter")]
    NotAParameter {
        /// The algorithm with its parameters.
        text: String,
    },
    /// The header's algorithm has a parameter that is not accepted.
    #[error("its header names {text:?}: {key} is {source}")]
    Parameter {
        /// The algorithm with its parameters.
        text: String,
        /// Name of the parameter.
        key: String,
        /// The reason.
        source: ParamError,
    },
    /// The algorithm does not run as a kernel program.
    #[error("{algorithm}: no kernel program")]
    NoProgram {
        /// Name of the algorithm.
        algorithm: &'static str,
    },
    /// The log ends before its last record.
    #[error("truncated at byte {length}: its end is missing; record it again")]
    Truncated {
        /// Length of the log, bytes.
        length: usize,
    },
    /// A number does not fit in 64 bits.
    #[error("a number longer than 64 bits at byte {at}")]
    NumberTooLong {
        /// Offset of the byte after it.
        at: usize,
    },
    /// A record or a call with an impossible field.
    #[error("{unit} {number} has {problem}; the file is damaged, record it again")]
    Damaged {
        /// "record" or "call".
        unit: &'static str,
        /// Its index, from 0.
        number: usize,
        /// The impossible field.
        problem: &'static str,
    },
    /// The count at the end differs from the number of records.
    #[error("its end counts {counted} records, but it holds {read}; record it again")]
    Count {
        /// Number stated at the end.
        counted: u64,
        /// Number read.
        read: usize,
    },
    /// Bytes follow the end.
    #[error("{count} bytes follow its end at byte {at}")]
    Trailing {
        /// Number of bytes.
        count: usize,
        /// Offset of the end.
        at: usize,
    },
    /// A call of an unknown event.
    #[error("call {number} is of no event: {event}")]
    UnknownEvent {
        /// Index of the call, from 0.
        number: usize,
        /// Its event.
        event: u64,
    },
    /// A call of an algorithm that the header does not name.
    #[error("call {number} is of algorithm {algorithm}, which the header does not name")]
    UnnamedAlgorithm {
        /// Index of the call, from 0.
        number: usize,
        /// Index of the algorithm.
        algorithm: u64,
    },
    /// A record of an unknown kind.
    #[error("record {number} is of kind {kind}, which this bbrlab does not support")]
    UnknownKind {
        /// Index of the record, from 0.
        number: usize,
        /// Its kind.
        kind: u64,
    },
    /// A value outside the kernel's range.
    #[error("record {number}: {field:?} is {value}, which no kernel can hold")]
    Impossible {
        /// Index of the record, from 0.
        number: usize,
        /// The field.
        field: Field,
        /// Its value.
        value: u64,
    },
    /// A connection without its first call.
    #[error("record {number}: connection {flow} has no beginning")]
    NoBeginning {
        /// Index of the record, from 0.
        number: usize,
        /// The connection.
        flow: u32,
    },
    /// A faulty line of a text log.
    #[error(transparent)]
    Line(#[from] LineError),
}

/// Result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
