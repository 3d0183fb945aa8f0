//! Text log of google/bbr v3's calls: one event per line, as printed by a kernel with an instrumented module.
// SPDX-License-Identifier: Apache-2.0 OR MIT
//!
//! `V3<kind> <source port> <key> <value> …`: the port identifies the flow. A state line has its key and value in one
//! word. Every key of a kind must occur once, and no other; only the tick of `X` may be missing.

/// Characters of a word that a message shows. Ours.
const SHOWN: usize = 24;
/// Largest time, ns: sums of two stay within 64 bits.
const TIME_MAX: i64 = i64::MAX / 4;
/// Largest of the kernel's unsigned counters.
const U32: i64 = u32::MAX as i64;
/// Largest of the kernel's signed counters.
const S32: i64 = i32::MAX as i64;

/// Fault in a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The line is not text.
    #[error("it is not UTF-8")]
    NotText,
    /// The line does not begin with a kind of event.
    #[error("it begins with {0:?}; an event is one of V3I A S L T H U C X D")]
    UnknownKind(String),
    /// The second word is not a port.
    #[error("its source port is {0:?}, which is not a number from 0 to 65535")]
    Port(String),
    /// The kind has no such key.
    #[error("this event has no key {0:?}")]
    UnknownKey(String),
    /// The key occurs a second time.
    #[error("{0} appears twice")]
    Twice(&'static str),
    /// The key has no value, or the line ends before this key.
    #[error("{0} has no value; is the line cut off?")]
    Missing(&'static str),
    /// The value is not a whole number.
    #[error("{0} is {1:?}, which is not a whole number")]
    NotANumber(&'static str, String),
    /// No kernel holds such a number there.
    #[error("{0} is {1}, which no kernel can hold")]
    OutOfRange(&'static str, i64),
    /// A call of a flow whose start is missing.
    #[error("flow {0} has no beginning: its V3I is missing")]
    NoBeginning(u16),
    /// A state without an ACK before it.
    #[error("a state of flow {0} without an ACK before it")]
    NoAck(u16),
    /// A second ACK before the first one's state.
    #[error("the last ACK of flow {0} has no state")]
    NoState(u16),
}

/// A line that does not belong in such a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct LineError {
    /// Line number, from 1.
    pub line: usize,
    /// Fault in the line.
    pub fault: Fault,
}

/// The module's state after an ACK, as printed by the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub cwnd: u64,
    pub pacing_rate: u64,
    /// In the order of [`STATE_KEYS`].
    pub values: [u64; STATE_KEYS.len()],
    /// `bw_hi` and `extra_acked`.
    pub bw_hi: [u64; 2],
    pub extra_acked: [u64; 2],
}

impl State {
    /// True if the module is not initialised yet: afterwards, `bl` holds at least 1.
    pub fn is_uninitialised(&self) -> bool {
        self.value("bl") == 0
    }

    /// Length of the wait for the next probe, as last drawn.
    pub fn wait_us(&self) -> u64 {
        self.value("pw")
    }

    /// Rounds since that draw, including those with which it began.
    pub fn rounds(&self) -> u64 {
        self.value("rs")
    }

    fn value(&self, key: &str) -> u64 {
        STATE_KEYS.iter().zip(self.values).find(|((name, _), _)| *name == key).map_or(0, |(_, value)| value)
    }
}

/// A key and the range of its value.
type Key = (&'static str, i64, i64);

/// Declares the events of one line each: their keys with the range of the value, and the field that holds it.
macro_rules! events {
    ($(
        $(#[$doc:meta])*
        $Event:ident: $kind:literal {
            $( $(#[$field_doc:meta])* $key:literal $min:expr, $max:expr => $field:ident: $type:ty; )+
        }
    )+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $Event {
                $( $(#[$field_doc])* pub $field: $type, )+
            }

            impl $Event {
                fn read<'a>(words: impl Iterator<Item = &'a str>) -> Result<Self, Fault> {
                    let mut values = read(&[$( ($key, $min as i64, $max) ),+], words)?.into_iter();
                    Ok(Self { $( $field: Value::of($key, values.next().flatten())?, )+ })
                }
            }
        )+

        /// One line.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Event {
            State(State),
            $( $Event($Event), )+
        }

        fn event<'a>(kind: &'a str, words: impl Iterator<Item = &'a str>) -> Result<Event, Fault> {
            match kind {
                "V3S" => state(words).map(Event::State),
                $( $kind => $Event::read(words).map(Event::$Event), )+
                _ => Err(Fault::UnknownKind(shown(kind))),
            }
        }
    };
}

events! {
    /// State after `init`.
    Init: "V3I" {
        "now" 0, TIME_MAX => now: u64;
        "j" 0, U32 => tick: u32;
        "D" 0, U32 => delivered: u32;
        "srtt" 0, U32 => srtt_us: u32;
        /// The kernel's `~0U` before any sample.
        "minrtt" 0, U32 => min_rtt_us: u32;
        "cw" 1, U32 => cwnd: u32;
        "mss" 1, U32 => mss: u32;
    }

    /// An ACK: rate sample and socket, before the module handles them. `None` where the kernel has −1.
    Ack: "V3A" {
        "now" 0, TIME_MAX => now: u64;
        "w" 0, TIME_MAX => wstamp: u64;
        "j" 0, U32 => tick: u32;
        "del" i32::MIN, S32 => rs_delivered: Option<u64>;
        "int" i32::MIN, TIME_MAX => interval_us: Option<u64>;
        "pd" 0, U32 => prior_delivered: u32;
        "rtt" i32::MIN, TIME_MAX => rtt_us: Option<u64>;
        "los" 0, S32 => losses: u32;
        "as" 0, U32 => acked_sacked: u32;
        "pif" 0, U32 => prior_in_flight: u32;
        "al" 0, U32 => is_app_limited: bool;
        "ad" 0, 1 => is_ack_delayed: bool;
        "tif" 0, U32 => tx_in_flight: u32;
        "lost" i32::MIN, S32 => rs_lost: u32;
        "ce" 0, S32 => delivered_ce: u32;
        "ece" 0, 1 => is_ece: bool;
        "tlp" 0, 1 => is_tlp: bool;
        "D" 0, U32 => delivered: u32;
        "dm" 0, TIME_MAX => delivered_us: u64;
        "L" 0, U32 => lost: u32;
        "if" 0, U32 => in_flight: u32;
        "ca" 0, 4 => ca_state: u32;
        "srtt" 0, U32 => srtt_us: u32;
        "cl" 0, 1 => cwnd_limited: bool;
        "po" 0, U32 => packets_out: u32;
        "cw" 0, U32 => cwnd: u32;
    }

    /// A packet, or a super-packet, marked lost.
    Lost: "V3L" {
        "now" 0, TIME_MAX => now: u64;
        "tif" 0, U32 => tx_in_flight: u32;
        "lost" i32::MIN, U32 => lost: u32;
        "pc" 0, U32 => packets: u32;
        "al" 0, U32 => is_app_limited: bool;
        "D" 0, U32 => delivered: u32;
    }

    /// A loss repaired by a tail loss probe.
    TlpRecovery: "V3T" {
        "now" 0, TIME_MAX => now: u64;
        "al" 0, U32 => is_app_limited: bool;
        "D" 0, U32 => delivered: u32;
    }

    /// A request for ssthresh.
    Ssthresh: "V3H" {
        "now" 0, TIME_MAX => now: u64;
        "cw" 0, U32 => cwnd: u32;
    }

    /// An undo.
    Undo: "V3U" {
        "now" 0, TIME_MAX => now: u64;
        "cw" 0, U32 => cwnd: u32;
    }

    /// A change of the recovery state.
    CaState: "V3C" {
        "now" 0, TIME_MAX => now: u64;
        "old" 0, 4 => old: u32;
        "new" 0, 4 => new: u32;
        "if" 0, U32 => in_flight: u32;
        "cw" 0, U32 => cwnd: u32;
    }

    /// The first packet sent while none is in flight. Some logs lack its tick.
    TxStart: "V3X" {
        "now" 0, TIME_MAX => now: u64;
        "al" 0, U32 => is_app_limited: bool;
        "j" 0, U32 => tick: Option<u32>;
    }

    /// A number drawn by the call before.
    Draw: "V3D" {
        "rs" 0, U32 => rounds: u32;
        "pw" 0, U32 => wait_us: u32;
    }
}

/// A type of field, made from the value of a key, if the line has it.
trait Value: Sized {
    fn of(key: &'static str, value: Option<i64>) -> Result<Self, Fault>;
}

/// A counter; 0 where the kernel's is negative.
impl Value for u64 {
    fn of(key: &'static str, value: Option<i64>) -> Result<Self, Fault> {
        Ok(Self::try_from(value.ok_or(Fault::Missing(key))?).unwrap_or(0))
    }
}

impl Value for u32 {
    fn of(key: &'static str, value: Option<i64>) -> Result<Self, Fault> {
        Ok(Self::try_from(u64::of(key, value)?).unwrap_or(Self::MAX))
    }
}

impl Value for bool {
    fn of(key: &'static str, value: Option<i64>) -> Result<Self, Fault> {
        Ok(u64::of(key, value)? != 0)
    }
}

impl Value for Option<u64> {
    fn of(key: &'static str, value: Option<i64>) -> Result<Self, Fault> {
        Ok(u64::try_from(value.ok_or(Fault::Missing(key))?).ok())
    }
}

/// A value that a line may lack.
impl Value for Option<u32> {
    fn of(_: &'static str, value: Option<i64>) -> Result<Self, Fault> {
        Ok(value.and_then(|value| u32::try_from(value).ok()))
    }
}

/// Keys of a state line's single values, and their names in the kernel.
pub const STATE_KEYS: [(&str, &str); 25] = [
    ("m", "mode"),
    ("c", "cycle_idx"),
    ("pg", "pacing_gain"),
    ("cg", "cwnd_gain"),
    ("bl", "bw_lo"),
    ("il", "inflight_lo"),
    ("ih", "inflight_hi"),
    ("mr", "min_rtt_us"),
    ("pm", "probe_rtt_min_us"),
    ("fb", "full_bw"),
    ("fr", "full_bw_reached"),
    ("fn", "full_bw_now"),
    ("fc", "full_bw_cnt"),
    ("ap", "ack_phase"),
    ("bs", "bw_probe_samples"),
    ("ph", "prev_probe_too_high"),
    ("sr", "stopped_risky_probe"),
    ("pw", "probe_wait_us"),
    ("rs", "rounds_since_probe"),
    ("pc", "prior_cwnd"),
    ("lr", "loss_in_round"),
    ("ls", "loss_round_start"),
    ("le", "loss_events_in_round"),
    ("bw", "bw_latest"),
    ("fl", "inflight_latest"),
];

/// Returns the flow and the event of line `line`, counted from 1; `None` for an empty one.
pub fn parse(line: usize, bytes: &[u8]) -> Result<Option<(u16, Event)>, LineError> {
    let fail = |fault| LineError { line, fault };
    let text = std::str::from_utf8(bytes).map_err(|_| fail(Fault::NotText))?;
    let mut words = text.split_ascii_whitespace();
    let Some(kind) = words.next() else {
        return Ok(None);
    };
    let port = words.next().unwrap_or_default();
    let flow = port.parse().map_err(|_| fail(Fault::Port(shown(port))))?;
    event(kind, words).map(|event| Some((flow, event))).map_err(fail)
}

fn state<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<State, Fault> {
    match words.next() {
        Some("ack") => {}
        other => return Err(Fault::UnknownKey(shown(other.unwrap_or_default()))),
    }
    let cwnd = number("cwnd", words.next().ok_or(Fault::Missing("cwnd"))?, 0, U32)? as u64;
    let pacing_rate = number("pacing rate", words.next().ok_or(Fault::Missing("pacing rate"))?, 0, i64::MAX)? as u64;
    let (mut values, mut bw_hi, mut extra_acked) = ([None; STATE_KEYS.len()], None, None);
    for word in words {
        let end = word.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(word.len());
        let (key, value) = word.split_at(end);
        match key {
            "bh" => put(&mut bw_hi, "bh", pair("bh", value)?)?,
            "ea" => put(&mut extra_acked, "ea", pair("ea", value)?)?,
            _ => {
                let place = STATE_KEYS.iter().position(|(name, _)| *name == key);
                let place = place.ok_or_else(|| Fault::UnknownKey(shown(word)))?;
                put(&mut values[place], STATE_KEYS[place].0, number(STATE_KEYS[place].0, value, 0, U32)? as u64)?;
            }
        }
    }
    let mut all = [0; STATE_KEYS.len()];
    for ((left, value), (key, _)) in all.iter_mut().zip(values).zip(STATE_KEYS) {
        *left = value.ok_or(Fault::Missing(key))?;
    }
    let (bw_hi, extra_acked) = (bw_hi.ok_or(Fault::Missing("bh"))?, extra_acked.ok_or(Fault::Missing("ea"))?);
    Ok(State { cwnd, pacing_rate, values: all, bw_hi, extra_acked })
}

fn pair(key: &'static str, text: &str) -> Result<[u64; 2], Fault> {
    let (first, second) = text.split_once(',').ok_or_else(|| Fault::NotANumber(key, shown(text)))?;
    Ok([number(key, first, 0, U32)? as u64, number(key, second, 0, U32)? as u64])
}

fn put<T>(place: &mut Option<T>, key: &'static str, value: T) -> Result<(), Fault> {
    if place.replace(value).is_some() { Err(Fault::Twice(key)) } else { Ok(()) }
}

fn number(key: &'static str, word: &str, min: i64, max: i64) -> Result<i64, Fault> {
    let value: i64 = word.parse().map_err(|_| Fault::NotANumber(key, shown(word)))?;
    if (min..=max).contains(&value) { Ok(value) } else { Err(Fault::OutOfRange(key, value)) }
}

/// Returns the start of a word, for a message of one line.
fn shown(word: &str) -> String {
    word.chars().take(SHOWN).collect()
}

/// Returns the values of a line, in the order of its kind's keys.
fn read<'a, const N: usize>(
    keys: &[Key; N],
    mut words: impl Iterator<Item = &'a str>,
) -> Result<[Option<i64>; N], Fault> {
    let mut values = [None; N];
    // The keys of a line are nearly always in the order of the table.
    let mut next = 0;
    while let Some(word) = words.next() {
        let place = match keys.get(next) {
            Some((key, ..)) if *key == word => next,
            _ => keys.iter().position(|(key, ..)| *key == word).ok_or_else(|| Fault::UnknownKey(shown(word)))?,
        };
        let (key, min, max) = keys[place];
        let value = number(key, words.next().ok_or(Fault::Missing(key))?, min, max)?;
        put(&mut values[place], key, value)?;
        next = place + 1;
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(line: &str) -> String {
        parse(7, line.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn keys_may_stand_in_any_order_and_the_tick_of_a_start_may_be_missing() {
        let start = |tick| Some((9, Event::TxStart(TxStart { now: 5, is_app_limited: true, tick })));
        assert_eq!(parse(1, b"V3X 9 al 3795 now 5").unwrap(), start(None));
        assert_eq!(parse(1, b"V3X 9 now 5 al 1 j 77").unwrap(), start(Some(77)));
        assert_eq!(parse(1, b"  ").unwrap(), None);
    }

    #[test]
    fn a_faulty_line_is_named_with_what_it_held() {
        assert_eq!(fault("V3Q 1"), "line 7: it begins with \"V3Q\"; an event is one of V3I A S L T H U C X D");
        assert_eq!(
            fault("V3H 70000 now 1 cw 1"),
            "line 7: its source port is \"70000\", which is not a number from 0 to 65535"
        );
        assert_eq!(fault("V3H 1 now 1"), "line 7: cw has no value; is the line cut off?");
        assert_eq!(fault("V3H 1 now 1 cw"), "line 7: cw has no value; is the line cut off?");
        assert_eq!(fault("V3H 1 now 1 cw 1 cw 1"), "line 7: cw appears twice");
        assert_eq!(fault("V3H 1 now 1 cw ten"), "line 7: cw is \"ten\", which is not a whole number");
        assert_eq!(fault("V3H 1 now -4 cw 1"), "line 7: now is -4, which no kernel can hold");
        assert_eq!(fault("V3H 1 now 1 cwnd 1"), "line 7: this event has no key \"cwnd\"");
        assert_eq!(fault("V3S 1 ack 11 900 m0"), "line 7: c has no value; is the line cut off?");
        assert_eq!(fault("V3S 1 ack 11 900 bh0"), "line 7: bh is \"0\", which is not a whole number");
    }
}
