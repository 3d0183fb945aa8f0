//! The table of a flow's options: `bbr1,rtt=80ms,ecn=on`. Parsing, text, `bbrlab list keys` and `list backends` come from it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;
use std::str::FromStr;

use super::apps::{CallSpec, PageSpec, VideoSpec};
use super::classes::Dscp;
use super::flow_refusals as refusals;
use super::support::Refusal;
use super::text::TextError;
use super::units::{BitRate, BufferSize, TimeSpan, Volume};
use crate::setup::{AckEvery, Program, Transport};

/// One option of a flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowOption {
    /// Its name.
    pub name: &'static str,
    /// Form of its value.
    pub value: &'static str,
    /// Meaning.
    pub help: &'static [&'static str],
    /// Values refused by some backends.
    pub refused: &'static [Refusal],
    /// Flags that every backend accepts.
    pub example: &'static [&'static str],
}

/// Declares the options. Each has its documentation, name, type and form; how to read and write its value; an example.
macro_rules! flow_options {
    ($(
        $(#[doc = $help:literal])+
        $name:ident: $type:ty = $value:literal, $read:expr, $show:expr;
        $(example $example:literal;)?
        $(refused $refused:expr;)?
    )+) => {
        /// Options of a flow besides its algorithm.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct FlowOptions {
            $($(#[doc = $help])+ pub $name: Option<$type>,)+
        }

        /// All options, in the order in which a flow is written.
        pub const OPTIONS: &[FlowOption] = &[$(
            #[allow(clippy::needless_update, reason = "some options set every field")]
            FlowOption {
                name: stringify!($name),
                value: $value,
                help: &[$($help),+],
                $(refused: $refused,)?
                $(example: &["--flow", $example],)?
                ..NO_OPTION
            },
        )+];

        impl FlowOptions {
            /// Sets an option from text; the second value of one option is an error.
            pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), TextError> {
                match key {
                    $(stringify!($name) => {
                        let read: fn(&str) -> Result<$type, TextError> = $read;
                        let value = read(value)?;
                        if self.$name.replace(value).is_some() {
                            return Err(TextError("it is written twice; write it once".to_owned()));
                        }
                        Ok(())
                    })+
                    _ => Err(TextError("it is not an option of a flow".to_owned())),
                }
            }

            /// Yields the options that are set, as text.
            fn texts(&self) -> impl Iterator<Item = (&'static str, String)> {
                [$({
                    let show: fn(&$type) -> String = $show;
                    (stringify!($name), self.$name.as_ref().map(show))
                }),+]
                .into_iter()
                .filter_map(|(name, text)| Some((name, text?)))
            }
        }
    };
}

/// Fields that a row may leave out.
const NO_OPTION: FlowOption = FlowOption { name: "", value: "", help: &[], refused: &[], example: &[] };

flow_options! {
    /// Two-way propagation time of this flow, instead of the path's
    rtt: TimeSpan = "TIME", str::parse, TimeSpan::to_string;
    example "bbr1,rtt=80ms";

    /// Bytes to send; the flow then ends
    size: Volume = "VOLUME", str::parse, Volume::to_string;
    example "bbr1,size=1MB";

    /// Receive window: fixed, or Linux's autotuning up to 6 MiB or another limit
    rwnd: Window = "VOLUME|auto[/VOLUME]", str::parse, Window::to_string;
    example "cubic,rwnd=64KiB";
    refused &[refusals::SMALL_WINDOW, refusals::DIFFERENT_WINDOWS, refusals::AUTOTUNED_WINDOW];

    /// Length of a busy period; written with off, as in on=1s/off=2s
    on: TimeSpan = "TIME", str::parse, TimeSpan::to_string;
    example "bbr1,on=3s,off=5s";

    /// Length of an idle period
    off: TimeSpan = "TIME", str::parse, TimeSpan::to_string;
    example "bbr1,on=3s,off=5s";

    /// Payload bytes of a full segment
    mss: u32 = "BYTES", |value| whole(value, 64, 65_000, "bytes"), u32::to_string;
    example "bbr1,mss=1300";
    refused &[refusals::ODD_MSS];

    /// Name in results
    name: String = "TEXT", flow_name, String::clone;
    example "bbr1,name=a";

    /// Time at which the application stops writing
    stop: TimeSpan = "TIME", str::parse, TimeSpan::to_string;
    example "bbr1,stop=5s";

    /// Rate at which the application writes
    rate: BitRate = "RATE", str::parse, BitRate::to_string;
    example "bbr1,rate=1mbit";

    /// Size of each response, and the pause before the next request
    request: (Volume, TimeSpan) = "VOLUME/TIME", request, |(size, pause)| format!("{size}/{pause}");
    example "bbr1,request=100kB/1s";

    /// Longest time from a request to its response that is in time; written with request
    deadline: TimeSpan = "TIME", str::parse, TimeSpan::to_string;
    example "bbr1,request=10kB/1s,deadline=100ms";

    /// Page loads: a typical page, or its objects and their size; then the pause between two loads (without it, one load)
    page: PageSpec = "light|median|heavy|N*VOLUME[/TIME]", str::parse, PageSpec::to_string;
    refused &[refusals::PAGE];

    /// Video that a player requests segment by segment: its rule, the bitrates, and the length of a segment, the buffer or the
    /// latency target of live video
    video: VideoSpec = "buffer|throughput:RATE/RATE…[:segment=TIME][:buffer=TIME|:live=TIME]", str::parse, VideoSpec::to_string;
    refused &[refusals::VIDEO];

    /// Frames at a fixed rate, as of a call: bitrate, frames per second, and the delay after which one is late (150ms)
    call: CallSpec = "RATE/FPS[/TIME]", str::parse, CallSpec::to_string;
    refused &[refusals::CALL];

    /// ECN: RFC 3168's; with accurate feedback (RFC 9768); or that with ECT(1), for the low-latency queue of an L4S link
    ecn: Ecn = "on|off|accurate|l4s", Ecn::read, |ecn| ecn.name().to_owned();
    example "cubic,ecn=on";
    refused &[refusals::ECN_BESIDE_NONE, refusals::CLASSIC_DCTCP];

    /// Pacing by the host's `fq` qdisc for an algorithm that does not require it
    pacing: bool = "on|off", switch, on_off;
    example "bbr1,pacing=on";
    refused &[refusals::PACED_ACCESS, refusals::PACED_BY_FQ];

    /// Time within which receive offload merges segments
    gro: TimeSpan = "TIME", str::parse, TimeSpan::to_string;
    refused &[refusals::KERNEL_GRO, refusals::STACK_GRO];

    /// Largest TSO burst; off means single segments (`gso_max_segs 1`). Bursts remain after `ethtool -K DEVICE tso off gso off`
    tso: u32 = "VOLUME|off", tso, |v| if *v == 0 { "off".to_owned() } else { Volume((*v).into()).to_string() };
    example "bbr1,tso=64KiB";
    refused &[refusals::LARGE_TSO, refusals::OTHER_TSO, refusals::STACK_BURSTS];

    /// Initial window in segments
    iw: u32 = "N", |value| whole(value, 1, 1000, "segments"), u32::to_string;
    example "bbr1,iw=10";
    refused &[refusals::OTHER_INITIAL_WINDOW, refusals::PEERS_INITIAL_WINDOW];

    /// Fixed delayed-ACK timer, instead of Linux's, which adapts from 40 ms up to the RTT
    delack: TimeSpan = "TIME", str::parse, TimeSpan::to_string;
    refused &[refusals::KERNEL_DELACK, refusals::STACK_DELACK];

    /// ACK rule of the receiver: an ACK after this number of packets, or after this time
    ack: AckEvery = "PACKETS/TIME", ack_every, |v| format!("{}/{}", v.packets, TimeSpan(v.delay.as_nanos()));
    refused &[refusals::LINUX_ACKS, refusals::S2N_ACKS];

    /// Transport in the simulator: TCP, or QUIC with its loss detection and ACK rule, as in noq, in quinn or in s2n-quic
    transport: Transport = "tcp|quic|quic:quinn|quic:s2n", transport, |v| v.name().to_owned();
    refused &[refusals::KERNEL_TRANSPORT];

    /// First and last bottleneck that it crosses, counted from 1
    links: (u32, u32) = "FIRST..LAST", links, |(first, last)| format!("{first}..{last}");
    example "bbr1,links=1..1";

    /// DSCP of its packets, by which cake chooses their tin and fq their band (0)
    dscp: Dscp = "EF|VA|LE|CS0…CS7|AF11…AF43|0…63", str::parse, Dscp::to_string;
    example "bbr1,dscp=EF";

    /// Number of the host at the user's end, shared by the flows of this number; cake gives hosts equal shares (a host of its own)
    host: u16 = "N", host, u16::to_string;
    example "bbr1,host=1";
    refused &[refusals::UNEQUAL_HOST];

    /// Direction of its data: down, over the bottleneck; or up, over the link of `--up`, while its ACKs cross the bottleneck
    direction: FlowDirection = "down|up", direction, |v| v.name().to_owned();
    example "bbr1,direction=down";

    /// Access link of its own in front of the first bottleneck
    access: Access = "RATE/TIME[/SIZE]", access, |v| format!("{}/{}/{}", v.rate, v.rtt, v.buffer);
    example "bbr1,access=40mbit/20ms";

    /// On a real kernel: the kernel's own program of the algorithm, or ours
    program: Program = "kernel|bbrlab", program, |v| v.name().to_owned();
    example "bbr1,program=kernel";
    refused &[refusals::NO_BPF];
}

/// Direction of a flow's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowDirection {
    /// Over the links of the path.
    Down,
    /// Over the link of the reverse direction.
    Up,
}

impl FlowDirection {
    /// Name used in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
        }
    }
}

/// A receive window as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// A fixed window.
    Fixed(Volume),
    /// Linux's autotuning up to this much: `auto` or `auto/6MiB`.
    Auto(Volume),
}

/// An access link as written: `40mbit/20ms[/100p]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Access {
    /// Its rate.
    pub rate: BitRate,
    /// Its two-way delay.
    pub rtt: TimeSpan,
    /// Its buffer; by default 1000 packets, Linux's `txqueuelen`.
    pub buffer: BufferSize,
}

/// Limit of receive-window autotuning, Linux's `tcp_rmem[2]`.
const RWND_AUTO_MAX: Volume = Volume(6 << 20);

impl fmt::Display for FlowOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.texts().try_for_each(|(name, text)| match name {
            "on" => write!(f, ",on={text}"),
            // Both belong together.
            "off" => write!(f, "/off={text}"),
            _ => write!(f, ",{name}={text}"),
        })
    }
}

fn whole(value: &str, min: u32, max: u32, what: &str) -> Result<u32, TextError> {
    value
        .parse()
        .ok()
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| TextError(format!("{value:?} is not a number of {what}; write {min} to {max}")))
}

fn host(value: &str) -> Result<u16, TextError> {
    value.parse().map_err(|_| TextError(format!("{value:?} is not the number of a host; write 0 to {}", u16::MAX)))
}

fn request(value: &str) -> Result<(Volume, TimeSpan), TextError> {
    let error = || TextError(format!("{value:?} is not a request; write SIZE/PAUSE, as in 100kB/1s"));
    let (size, pause) = value.split_once('/').ok_or_else(error)?;
    Ok((size.parse()?, pause.parse()?))
}

fn ack_every(value: &str) -> Result<AckEvery, TextError> {
    let error = || TextError(format!("{value:?} is not an ACK rule; write PACKETS/TIME, as in 10/25ms"));
    let (packets, delay) = value.split_once('/').ok_or_else(error)?;
    let packets = packets.parse().ok().filter(|packets| (1..=250).contains(packets)).ok_or_else(error)?;
    let delay: TimeSpan = delay.parse()?;
    if delay.0 == 0 || delay > TimeSpan::secs(16) {
        return Err(TextError(format!("{value:?}: the time is out of range; write above 0s up to 16s")));
    }
    Ok(AckEvery { packets, delay: delay.span() })
}

fn switch(value: &str) -> Result<bool, TextError> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(TextError(format!("{value:?} is not a valid setting; write on or off"))),
    }
}

fn on_off(on: &bool) -> String {
    if *on { "on" } else { "off" }.to_owned()
}

fn transport(value: &str) -> Result<Transport, TextError> {
    Transport::named(value)
        .ok_or_else(|| TextError(format!("{value:?} is not a transport; write tcp, quic, quic:quinn or quic:s2n")))
}

fn direction(value: &str) -> Result<FlowDirection, TextError> {
    [FlowDirection::Down, FlowDirection::Up]
        .into_iter()
        .find(|direction| direction.name() == value)
        .ok_or_else(|| TextError(format!("{value:?} is not a direction; write down or up")))
}

fn program(value: &str) -> Result<Program, TextError> {
    Program::named(value)
        .ok_or_else(|| TextError(format!("{value:?} is not a source of kernel programs; write kernel or bbrlab")))
}

fn tso(value: &str) -> Result<u32, TextError> {
    if value == "off" {
        return Ok(0);
    }
    let error =
        || TextError(format!("{value:?} is not a burst size; write a volume up to 512KiB or off, as in tso=64KiB"));
    let volume: Volume = value.parse().map_err(|_| error())?;
    u32::try_from(volume.0).ok().filter(|bytes| *bytes <= 512 << 10).ok_or_else(error)
}

fn flow_name(value: &str) -> Result<String, TextError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._#-".contains(c);
    if value.is_empty() || value.len() > 64 || !value.chars().all(plain) {
        return Err(TextError(format!(
            "{value:?} is not a valid name; write up to 64 letters, digits, '.', '_', '-' or '#'"
        )));
    }
    Ok(value.to_owned())
}

fn links(value: &str) -> Result<(u32, u32), TextError> {
    let (first, last) = value.split_once("..").unwrap_or((value, value));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if 1 <= first && first <= last => Ok((first, last)),
        _ => Err(TextError(format!("{value:?} is not a range of links; links are counted from 1, as in links=1..2"))),
    }
}

fn access(value: &str) -> Result<Access, TextError> {
    let mut parts = value.split('/');
    let (Some(rate), Some(rtt), buffer, None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return Err(TextError(format!(
            "{value:?} is not an access link; write RATE/RTT[/BUFFER], as in 40mbit/20ms/100p"
        )));
    };
    let buffer = buffer.map_or(Ok(BufferSize::Packets(1000)), str::parse)?;
    Ok(Access { rate: rate.parse()?, rtt: rtt.parse()?, buffer })
}

impl FromStr for Window {
    type Err = TextError;

    fn from_str(value: &str) -> Result<Self, TextError> {
        match value.strip_prefix("auto") {
            Some("") => Ok(Self::Auto(RWND_AUTO_MAX)),
            Some(max) if max.starts_with('/') => Ok(Self::Auto(max[1..].parse()?)),
            _ => Ok(Self::Fixed(value.parse()?)),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(volume) => write!(f, "{volume}"),
            Self::Auto(RWND_AUTO_MAX) => f.write_str("auto"),
            Self::Auto(volume) => write!(f, "auto/{volume}"),
        }
    }
}

/// ECN of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// None.
    Off,
    /// RFC 3168.
    Classic,
    /// RFC 9768 with ECT(0).
    Accurate,
    /// RFC 9768 with ECT(1).
    L4s,
}

impl Ecn {
    const ALL: [Self; 4] = [Self::Off, Self::Classic, Self::Accurate, Self::L4s];

    const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Classic => "on",
            Self::Accurate => "accurate",
            Self::L4s => "l4s",
        }
    }

    fn read(text: &str) -> Result<Self, TextError> {
        let found = Self::ALL.into_iter().find(|ecn| ecn.name() == text);
        found.ok_or_else(|| TextError(format!("{text:?} is not a kind of ECN; write off, on, accurate or l4s")))
    }

    /// ECN of an algorithm that is built for it.
    pub fn usual(cc: &str) -> Self {
        match cc {
            "prague" => Self::L4s,
            "dctcp" => Self::Accurate,
            _ => Self::Off,
        }
    }
}
