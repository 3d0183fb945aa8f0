//! Log of our own algorithms in a kernel: the inputs and outputs of each call, as the program recorded them.
//! No input makes its reader panic.
// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A log is the eight bytes of [`MAGIC`], a version byte, a header and a sequence of entries. Numbers are coded as in a log of the tap.
//! An entry is a connection's number plus one, then the event and its words; or 0, the count of calls and the count of lost ones:
//! the end. Words are coded in groups of eight: a bit map of groups, for each a byte that marks the words that differ from those
//! of the connection's last call, and for each of these the signed difference. `algorithm` indexes the texts of the header.

use std::collections::BTreeMap;

use bbrlab_bpf_shim::{Input, Output, Telemetry};
use serde::{Deserialize, Serialize};

use super::log::{Bytes, put, unzigzag, zigzag};
use crate::{Error, Result};

/// First bytes of a log.
pub const MAGIC: &[u8; 8] = b"bbrcall\n";
/// Format version that this code writes and reads.
const VERSION: u8 = 1;
/// 64-bit words of a program's input.
const INPUT: usize = 36;
/// 64-bit words of its output.
const OUTPUT: usize = 4;
/// 64-bit words of its model.
const MODEL: usize = 9;
/// 64-bit words of a call.
pub const WORDS: usize = INPUT + OUTPUT + MODEL;
/// Words in a group.
const GROUP: usize = 8;
/// Groups of a call.
const GROUPS: usize = WORDS.div_ceil(GROUP);

/// Origin of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallHeader {
    /// `uname -r` and the machine.
    pub kernel: String,
    /// Description of the recorded situation.
    pub situation: String,
    /// Length of a tick of the kernel's clock.
    pub tick_ns: u64,
    /// The algorithms with their parameters, in the syntax of a flow.
    pub algorithms: Vec<String>,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Index of the algorithm in the header.
    pub algorithm: u32,
    /// Connection, numbered from 0 in the order of their start.
    pub flow: u32,
    /// Event: [`bbrlab_bpf_shim::Event`] by its number.
    pub event: u64,
    /// Inputs and outputs, in the order of the program's own record.
    pub words: [u64; WORDS],
}

impl Call {
    /// Inputs of the program.
    pub fn input(&self) -> Input {
        let mut words = WordReader(&self.words[..INPUT]);
        let mut input = Input {
            now_ns: words.one(),
            tick: words.one(),
            departure_ns: words.one(),
            delivered_us: words.one(),
            delivered: words.one(),
            lost: words.one(),
            srtt_us: words.one(),
            in_flight: words.one(),
            rs_delivered: words.one().cast_signed(),
            rs_interval_us: words.one().cast_signed(),
            rs_prior_delivered: words.one(),
            rs_rtt_us: words.one().cast_signed(),
            rs_losses: words.one(),
            rs_acked_sacked: words.one(),
            rs_prior_in_flight: words.one(),
            rs_marks: words.one(),
            ..Input::default()
        };
        [input.ca_state, input.marks] = words.halves();
        [input.mss, input.marked_since] = words.halves();
        (input.max_rate, input.tx_in_flight, input.lost_since) = (words.one(), words.one(), words.one());
        (input.min_rtt_us, input.idle_ns, input.rto_ns) = (words.one(), words.one(), words.one());
        (input.una, input.next, input.seed) = (words.one(), words.one(), words.one());
        (input.volume, input.seq) = (words.one(), words.one());
        (input.rounds, input.span_us, input.pacing_rate) = (words.one(), words.one(), words.one());
        [input.old_ca_state, input.packets_out] = words.halves();
        [input.cwnd, input.cwnd_clamp] = words.halves();
        [input.cwnd_count, input.ssthresh] = words.halves();
        [input.packets, input.newest_end] = words.halves();
        input
    }

    /// Outputs of the program.
    pub fn output(&self) -> Output {
        let mut words = WordReader(&self.words[INPUT..][..OUTPUT]);
        let mut output = Output { pacing_rate: words.one(), ..Output::default() };
        [output.cwnd, output.min_burst] = words.halves();
        [output.mark_app_limited, output.state] = words.halves();
        [output.cwnd_count, output.ssthresh] = words.halves();
        output
    }

    /// Model of the program's algorithm after the call.
    pub fn model(&self) -> Telemetry {
        let mut words = WordReader(&self.words[INPUT + OUTPUT..]);
        let mut model = Telemetry {
            bw: words.one(),
            min_rtt_us: words.one(),
            round_count: words.one(),
            bw_shortterm: words.one(),
            inflight_shortterm: words.one(),
            inflight_longterm: words.one(),
            ..Telemetry::default()
        };
        [model.state, model.pacing_gain] = words.halves();
        [model.cwnd_gain, model.ssthresh] = words.halves();
        [model.extra_acked, model.marks] = words.halves();
        model
    }
}

/// Consecutive words; two of 32 bits share one, the first in its low half.
struct WordReader<'a>(&'a [u64]);

impl WordReader<'_> {
    fn one(&mut self) -> u64 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn halves(&mut self) -> [u32; 2] {
        let both = self.one();
        [both as u32, (both >> 32) as u32]
    }
}

/// A log in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallLog {
    /// Origin of the log.
    pub header: CallHeader,
    /// The calls in order.
    pub calls: Vec<Call>,
    /// Calls for which the ring had no room.
    pub lost: u64,
}

/// Writes a log, one call at a time.
#[derive(Debug, Default)]
pub struct CallWriter {
    entries: Vec<u8>,
    last: BTreeMap<u32, [u64; WORDS]>,
    calls: u64,
}

impl CallWriter {
    /// Adds a call.
    pub fn push(&mut self, call: &Call) {
        for number in [u64::from(call.flow) + 1, call.algorithm.into(), call.event] {
            put(&mut self.entries, number);
        }
        let last = self.last.entry(call.flow).or_insert([0; WORDS]);
        let mut masks = [0_u8; GROUPS];
        for place in 0..WORDS {
            masks[place / GROUP] |= u8::from(call.words[place] != last[place]) << (place % GROUP);
        }
        let present = masks.iter().enumerate().fold(0_u64, |map, (at, mask)| map | u64::from(*mask != 0) << at);
        put(&mut self.entries, present);
        for (group, mask) in masks.iter().enumerate().filter(|(_, mask)| **mask != 0) {
            self.entries.push(*mask);
            for place in (group * GROUP..WORDS.min((group + 1) * GROUP)).filter(|at| mask >> (at % GROUP) & 1 != 0) {
                put(&mut self.entries, zigzag(call.words[place].wrapping_sub(last[place])));
            }
        }
        *last = call.words;
        self.calls += 1;
    }

    /// Returns the whole log; `lost` is the number of calls for which there was no room.
    pub fn finish(self, header: &CallHeader, lost: u64) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(VERSION);
        let text = serde_json::to_vec(header).unwrap_or_default();
        put(&mut bytes, text.len() as u64);
        bytes.extend_from_slice(&text);
        bytes.extend_from_slice(&self.entries);
        for number in [0, self.calls, lost] {
            put(&mut bytes, number);
        }
        bytes
    }
}

impl CallLog {
    /// Reads a log. The error names in one line the fault and its place.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut bytes = Bytes { all: bytes, at: MAGIC.len() };
        let mut log = Self { header: bytes.header(VERSION)?, ..Self::default() };
        let mut last: BTreeMap<u32, [u64; WORDS]> = BTreeMap::new();
        while let Some(flow) = bytes.number()?.checked_sub(1) {
            let nth = log.calls.len();
            let broken = |what: &'static str| Error::Damaged { unit: "call", number: nth, problem: what };
            let flow = u32::try_from(flow).map_err(|_| broken("an impossible connection"))?;
            let algorithm = u32::try_from(bytes.number()?).map_err(|_| broken("an impossible algorithm"))?;
            let (event, present) = (bytes.number()?, bytes.number()?);
            if present >> GROUPS != 0 {
                return Err(broken("words beyond the last"));
            }
            let words = last.entry(flow).or_insert([0; WORDS]);
            for group in (0..GROUPS).filter(|group| present >> group & 1 != 0) {
                let mask = bytes.byte()?;
                for place in (0..GROUP).filter(|place| mask >> place & 1 != 0) {
                    let difference = unzigzag(bytes.number()?);
                    let word = words.get_mut(group * GROUP + place).ok_or_else(|| broken("words beyond the last"))?;
                    *word = word.wrapping_add(difference);
                }
            }
            log.calls.push(Call { algorithm, flow, event, words: *words });
        }
        log.lost = bytes.end(log.calls.len())?;
        Ok(log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bbrlab_core::Rng;

    fn log(calls: usize) -> (CallLog, Vec<u8>) {
        let mut rng = Rng::new(3);
        let header = CallHeader { tick_ns: 4_000_000, algorithms: vec!["bbr1".to_owned()], ..CallHeader::default() };
        let mut log = CallLog { header, calls: Vec::new(), lost: 2 };
        let mut writer = CallWriter::default();
        for _ in 0..calls {
            let words = std::array::from_fn(|_| if rng.below(3) == 0 { rng.next_u64() } else { 7 });
            let call = Call { algorithm: 0, flow: rng.below(3) as u32, event: rng.below(13), words };
            writer.push(&call);
            log.calls.push(call);
        }
        let bytes = writer.finish(&log.header, log.lost);
        (log, bytes)
    }

    #[test]
    fn what_is_written_is_read() {
        let (log, bytes) = log(300);
        assert_eq!(CallLog::parse(&bytes).unwrap(), log);
    }

    #[test]
    fn every_truncation_is_an_error_of_one_line_and_damage_never_a_panic() {
        let (_, bytes) = log(5);
        for end in MAGIC.len()..bytes.len() {
            assert!(!CallLog::parse(&bytes[..end]).unwrap_err().to_string().contains('\n'));
        }
        let mut rng = Rng::new(9);
        for _ in 0..5_000 {
            let mut damaged = bytes.clone();
            damaged[8 + rng.below(bytes.len() as u64 - 8) as usize] = rng.next_u64() as u8;
            let _ = CallLog::parse(&damaged).map(|log| crate::ours::replay_calls(&log));
        }
    }

    /// Goal: the program's record is read correctly, word by word.
    #[test]
    fn words_stand_in_the_order_of_the_programs_record() {
        assert_eq!((size_of::<Input>(), size_of::<Output>()), (8 * INPUT, 8 * OUTPUT));
        assert_eq!(size_of::<Telemetry>(), 8 * MODEL);
        let header = include_str!("../../../bpf/cc/flow.h");
        // Three words come before ours: connection, number, event.
        assert!(header.contains(&format!("#define CALL_WORDS {}", WORDS + 3)));
        let words = std::array::from_fn(|place| (place as u64) << 32 | (100 + place as u64));
        let call = Call { algorithm: 0, flow: 0, event: 1, words };
        let (input, output, model) = (call.input(), call.output(), call.model());
        assert_eq!((input.tick, input.ca_state, input.marks), (1 << 32 | 101, 116, 16));
        assert_eq!((input.pacing_rate, input.packets, input.newest_end), (31 << 32 | 131, 135, 35));
        assert_eq!((output.pacing_rate, output.cwnd, output.ssthresh), (36 << 32 | 136, 137, 39));
        assert_eq!((model.bw, model.state, model.marks), (40 << 32 | 140, 146, 48));
    }
}
