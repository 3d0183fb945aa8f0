//! Log of our own algorithms in a kernel: the inputs and outputs of each call, as the program recorded them.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_bpf_shim::{Input, Output, Telemetry};
use serde::{Deserialize, Serialize};

use crate::frame::{self, Origin};

/// 64-bit words before the program's: the algorithm and the event.
const HEAD: usize = 2;
/// 64-bit words of a program's input.
const INPUT: usize = 36;
/// 64-bit words of its output.
const OUTPUT: usize = 4;
/// 64-bit words of its model.
const MODEL: usize = 9;
/// 64-bit words of a call.
pub const CALL_WORDS: usize = HEAD + INPUT + OUTPUT + MODEL;

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

impl Origin for CallHeader {
    const MAGIC: &'static [u8; 8] = b"bbrcall\n";
    const UNIT: &'static str = "call";
}

/// A log of our own algorithms in memory.
pub type CallLog = frame::Log<CallHeader, CALL_WORDS>;
/// Writes such a log.
pub type CallWriter = frame::Writer<CALL_WORDS>;
/// One call: the algorithm's index in the header, the event, and the program's words in the order of its own record.
pub type Call = frame::Record<CALL_WORDS>;

impl Call {
    /// Index of the algorithm in the header.
    pub const fn algorithm(&self) -> u64 {
        self.words[0]
    }

    /// Event: [`bbrlab_bpf_shim::Event`] by its number.
    pub const fn event(&self) -> u64 {
        self.words[1]
    }

    /// Inputs of the program.
    pub fn input(&self) -> Input {
        let mut words = WordReader(&self.words[HEAD..][..INPUT]);
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
        let mut words = WordReader(&self.words[HEAD + INPUT..][..OUTPUT]);
        let mut output = Output { pacing_rate: words.one(), ..Output::default() };
        [output.cwnd, output.min_burst] = words.halves();
        [output.mark_app_limited, output.state] = words.halves();
        [output.cwnd_count, output.ssthresh] = words.halves();
        output
    }

    /// Model of the program's algorithm after the call.
    pub fn model(&self) -> Telemetry {
        let mut words = WordReader(&self.words[HEAD + INPUT + OUTPUT..]);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the program's record is read correctly, word by word.
    #[test]
    fn words_stand_in_the_order_of_the_programs_record() {
        assert_eq!((size_of::<Input>(), size_of::<Output>()), (8 * INPUT, 8 * OUTPUT));
        assert_eq!(size_of::<Telemetry>(), 8 * MODEL);
        let header = include_str!("../../../bpf/cc/flow.h");
        // Three words come before ours: connection, number, event.
        assert!(header.contains(&format!("#define CALL_WORDS {}", CALL_WORDS + 1)));
        let word = |nth: usize| nth.checked_sub(HEAD).map_or(0, |place| (place as u64) << 32 | (100 + place as u64));
        let call = Call { flow: 0, words: std::array::from_fn(word) };
        let (input, output, model) = (call.input(), call.output(), call.model());
        assert_eq!((input.tick, input.ca_state, input.marks), (1 << 32 | 101, 116, 16));
        assert_eq!((input.pacing_rate, input.packets, input.newest_end), (31 << 32 | 131, 135, 35));
        assert_eq!((output.pacing_rate, output.cwnd, output.ssthresh), (36 << 32 | 136, 137, 39));
        assert_eq!((model.bw, model.state, model.marks), (40 << 32 | 140, 146, 48));
    }
}
