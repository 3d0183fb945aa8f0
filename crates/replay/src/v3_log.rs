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

/// State after `init`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    pub now: u64,
    pub tick: u32,
    pub delivered: u32,
    pub srtt_us: u32,
    /// `None` before any sample.
    pub min_rtt_us: Option<u32>,
    pub cwnd: u32,
    pub mss: u32,
}

/// An ACK: rate sample and socket, before the module handles them. `None` where the kernel has −1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    pub now: u64,
    pub wstamp: u64,
    pub tick: u32,
    pub rs_delivered: Option<u64>,
    pub interval_us: Option<u64>,
    pub prior_delivered: u32,
    pub rtt_us: Option<u64>,
    pub losses: u32,
    pub acked_sacked: u32,
    pub prior_in_flight: u32,
    pub is_app_limited: bool,
    pub is_ack_delayed: bool,
    pub tx_in_flight: u32,
    pub rs_lost: u32,
    pub delivered_ce: u32,
    pub is_ece: bool,
    pub is_tlp: bool,
    pub delivered: u32,
    pub delivered_us: u64,
    pub lost: u32,
    pub in_flight: u32,
    pub ca_state: u32,
    pub srtt_us: u32,
    pub cwnd_limited: bool,
    pub packets_out: u32,
    pub cwnd: u32,
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

/// A packet, or a super-packet, marked lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkedLost {
    pub now: u64,
    pub tx_in_flight: u32,
    pub lost: u32,
    pub packets: u32,
    pub is_app_limited: bool,
    pub delivered: u32,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Init(Begin),
    Ack(Acked),
    State(State),
    Lost(MarkedLost),
    TlpRecovery { now: u64, is_app_limited: bool, delivered: u32 },
    Ssthresh { cwnd: u32 },
    Undo { now: u64, cwnd: u32 },
    CaState { now: u64, old: u32, new: u32, in_flight: u32, cwnd: u32 },
    TxStart { now: u64, is_app_limited: bool, tick: Option<u32> },
    Draw { rounds: u32, wait_us: u32 },
}

/// A key and the range of its value.
type Key = (&'static str, i64, i64);

const INIT: &[Key] = &[
    ("now", 0, TIME_MAX),
    ("j", 0, U32),
    ("D", 0, U32),
    ("srtt", 0, U32),
    ("minrtt", 0, U32),
    ("cw", 1, U32),
    ("mss", 1, U32),
];
const ACK: &[Key] = &[
    ("now", 0, TIME_MAX),
    ("w", 0, TIME_MAX),
    ("j", 0, U32),
    ("del", i32::MIN as i64, S32),
    ("int", i32::MIN as i64, TIME_MAX),
    ("pd", 0, U32),
    ("rtt", i32::MIN as i64, TIME_MAX),
    ("los", 0, S32),
    ("as", 0, U32),
    ("pif", 0, U32),
    ("al", 0, U32),
    ("ad", 0, 1),
    ("tif", 0, U32),
    ("lost", i32::MIN as i64, S32),
    ("ce", 0, S32),
    ("ece", 0, 1),
    ("tlp", 0, 1),
    ("D", 0, U32),
    ("dm", 0, TIME_MAX),
    ("L", 0, U32),
    ("if", 0, U32),
    ("ca", 0, 4),
    ("srtt", 0, U32),
    ("cl", 0, 1),
    ("po", 0, U32),
    ("cw", 0, U32),
];
const LOST: &[Key] = &[
    ("now", 0, TIME_MAX),
    ("tif", 0, U32),
    ("lost", i32::MIN as i64, U32),
    ("pc", 0, U32),
    ("al", 0, U32),
    ("D", 0, U32),
];
const TLP: &[Key] = &[("now", 0, TIME_MAX), ("al", 0, U32), ("D", 0, U32)];
const WINDOW: &[Key] = &[("now", 0, TIME_MAX), ("cw", 0, U32)];
const CA_STATE: &[Key] = &[("now", 0, TIME_MAX), ("old", 0, 4), ("new", 0, 4), ("if", 0, U32), ("cw", 0, U32)];
const TX_START: &[Key] = &[("now", 0, TIME_MAX), ("al", 0, U32), ("j", 0, U32)];
const DRAW: &[Key] = &[("rs", 0, U32), ("pw", 0, U32)];

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

fn event<'a>(kind: &'a str, words: impl Iterator<Item = &'a str>) -> Result<Event, Fault> {
    Ok(match kind {
        "V3I" => begin(&Values::read(INIT, words)?)?,
        "V3A" => Event::Ack(acked(&Values::read(ACK, words)?)?),
        "V3S" => Event::State(state(words)?),
        "V3L" => {
            let of = Values::read(LOST, words)?;
            Event::Lost(MarkedLost {
                now: of.u64("now")?,
                tx_in_flight: of.u32("tif")?,
                lost: of.u32("lost")?,
                packets: of.u32("pc")?,
                is_app_limited: of.is("al")?,
                delivered: of.u32("D")?,
            })
        }
        "V3T" => {
            let of = Values::read(TLP, words)?;
            Event::TlpRecovery { now: of.u64("now")?, is_app_limited: of.is("al")?, delivered: of.u32("D")? }
        }
        "V3H" => Event::Ssthresh { cwnd: Values::read(WINDOW, words)?.u32("cw")? },
        "V3U" => {
            let of = Values::read(WINDOW, words)?;
            Event::Undo { now: of.u64("now")?, cwnd: of.u32("cw")? }
        }
        "V3C" => {
            let of = Values::read(CA_STATE, words)?;
            Event::CaState {
                now: of.u64("now")?,
                old: of.u32("old")?,
                new: of.u32("new")?,
                in_flight: of.u32("if")?,
                cwnd: of.u32("cw")?,
            }
        }
        "V3X" => {
            let of = Values::read(TX_START, words)?;
            let tick = of.find("j").and_then(|tick| u32::try_from(tick).ok());
            Event::TxStart { now: of.u64("now")?, is_app_limited: of.is("al")?, tick }
        }
        "V3D" => {
            let of = Values::read(DRAW, words)?;
            Event::Draw { rounds: of.u32("rs")?, wait_us: of.u32("pw")? }
        }
        _ => return Err(Fault::UnknownKind(shown(kind))),
    })
}

fn begin(of: &Values) -> Result<Event, Fault> {
    Ok(Event::Init(Begin {
        now: of.u64("now")?,
        tick: of.u32("j")?,
        delivered: of.u32("D")?,
        srtt_us: of.u32("srtt")?,
        min_rtt_us: Some(of.u32("minrtt")?).filter(|rtt| *rtt != u32::MAX),
        cwnd: of.u32("cw")?,
        mss: of.u32("mss")?,
    }))
}

fn acked(of: &Values) -> Result<Acked, Fault> {
    Ok(Acked {
        now: of.u64("now")?,
        wstamp: of.u64("w")?,
        tick: of.u32("j")?,
        rs_delivered: u64::try_from(of.get("del")?).ok(),
        interval_us: u64::try_from(of.get("int")?).ok().filter(|interval| *interval > 0),
        prior_delivered: of.u32("pd")?,
        rtt_us: u64::try_from(of.get("rtt")?).ok(),
        losses: of.u32("los")?,
        acked_sacked: of.u32("as")?,
        prior_in_flight: of.u32("pif")?,
        is_app_limited: of.is("al")?,
        is_ack_delayed: of.is("ad")?,
        tx_in_flight: of.u32("tif")?,
        rs_lost: of.u32("lost")?,
        delivered_ce: of.u32("ce")?,
        is_ece: of.is("ece")?,
        is_tlp: of.is("tlp")?,
        delivered: of.u32("D")?,
        delivered_us: of.u64("dm")?,
        lost: of.u32("L")?,
        in_flight: of.u32("if")?,
        ca_state: of.u32("ca")?,
        srtt_us: of.u32("srtt")?,
        cwnd_limited: of.is("cl")?,
        packets_out: of.u32("po")?,
        cwnd: of.u32("cw")?,
    })
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

/// The values of a line, in the order of its kind's keys.
struct Values {
    keys: &'static [Key],
    values: [Option<i64>; ACK.len()],
}

impl Values {
    fn read<'a>(keys: &'static [Key], mut words: impl Iterator<Item = &'a str>) -> Result<Self, Fault> {
        let mut values = [None; ACK.len()];
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
        Ok(Self { keys, values })
    }

    fn find(&self, key: &str) -> Option<i64> {
        let place = self.keys.iter().position(|(name, ..)| *name == key)?;
        self.values[place]
    }

    fn get(&self, key: &'static str) -> Result<i64, Fault> {
        self.find(key).ok_or(Fault::Missing(key))
    }

    /// Returns a counter; 0 where the kernel's is negative.
    fn u64(&self, key: &'static str) -> Result<u64, Fault> {
        Ok(u64::try_from(self.get(key)?).unwrap_or(0))
    }

    fn u32(&self, key: &'static str) -> Result<u32, Fault> {
        Ok(u32::try_from(self.get(key)?.max(0)).unwrap_or(u32::MAX))
    }

    fn is(&self, key: &'static str) -> Result<bool, Fault> {
        Ok(self.get(key)? != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(line: &str) -> String {
        parse(7, line.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn keys_may_stand_in_any_order_and_the_tick_of_a_start_may_be_missing() {
        let start = |tick| Some((9, Event::TxStart { now: 5, is_app_limited: true, tick }));
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
