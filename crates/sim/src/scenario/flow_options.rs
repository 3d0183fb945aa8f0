//! The table of a flow's options: `bbr1,rtt=80ms,ecn=on`. Parsing, text, `bbrlab list keys` and `list backends` come from it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;
use std::str::FromStr;

use bbrlab_core::Span;

use super::keys::flow;
use super::support::{KERNEL, KERNELS, NOT_SIM, Refusal, S2N, STACKS, UML};
use super::text::TextError;
use super::units::{BitRate, BufferSize, TimeSpan, Volume};
use crate::setup::{AckEvery, FlowSetup, Program, Rwnd, Setup, Transport};

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
    refused &[SMALL_WINDOW, DIFFERENT_WINDOWS, AUTOTUNED_WINDOW];

    /// Length of a busy period; written with off, as in on=1s/off=2s
    on: TimeSpan = "TIME", str::parse, TimeSpan::to_string;
    example "bbr1,on=3s,off=5s";

    /// Length of an idle period
    off: TimeSpan = "TIME", str::parse, TimeSpan::to_string;
    example "bbr1,on=3s,off=5s";

    /// Payload bytes of a full segment
    mss: u32 = "BYTES", |value| whole(value, 64, 65_000, "bytes"), u32::to_string;
    example "bbr1,mss=1300";
    refused &[ODD_MSS];

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

    /// ECN: RFC 3168's; with accurate feedback (RFC 9768); or that with ECT(1), for the low-latency queue of an L4S link
    ecn: Ecn = "on|off|accurate|l4s", Ecn::read, |ecn| ecn.name().to_owned();
    example "cubic,ecn=on";
    refused &[ECN_BESIDE_NONE, ACCURATE_ECN];

    /// Pacing for an algorithm that does not require it
    pacing: bool = "on|off", switch, on_off;
    example "bbr1,pacing=on";
    refused &[PACED_ACCESS, PACED_BY_FQ];

    /// Time within which receive offload merges segments
    gro: TimeSpan = "TIME", str::parse, TimeSpan::to_string;
    refused &[KERNEL_GRO, STACK_GRO];

    /// Largest TSO burst
    tso: u32 = "VOLUME|off", tso, |v| if *v == 0 { "off".to_owned() } else { Volume((*v).into()).to_string() };
    example "bbr1,tso=64KiB";
    refused &[LARGE_TSO, OTHER_TSO, STACK_BURSTS];

    /// Initial window in segments
    iw: u32 = "N", |value| whole(value, 1, 1000, "segments"), u32::to_string;
    example "bbr1,iw=10";
    refused &[OTHER_INITIAL_WINDOW, PEERS_INITIAL_WINDOW];

    /// Delayed-ACK timer
    delack: TimeSpan = "TIME", str::parse, TimeSpan::to_string;
    example "bbr1,delack=40ms";
    refused &[KERNEL_DELACK, STACK_DELACK];

    /// ACK rule of the receiver: an ACK after this number of packets, or after this time
    ack: AckEvery = "PACKETS/TIME", ack_every, |v| format!("{}/{}", v.packets, TimeSpan(v.delay.as_nanos()));
    refused &[LINUX_ACKS, S2N_ACKS];

    /// Transport in the simulator: TCP, or QUIC with its loss detection and ACK rule, as in noq, in quinn or in s2n-quic
    transport: Transport = "tcp|quic|quic:quinn|quic:s2n", transport, |v| v.name().to_owned();
    refused &[KERNEL_TRANSPORT];

    /// First and last bottleneck that it crosses, counted from 1
    links: (u32, u32) = "FIRST..LAST", links, |(first, last)| format!("{first}..{last}");
    example "bbr1,links=1..1";

    /// Access link of its own in front of the first bottleneck
    access: Access = "RATE/TIME[/SIZE]", access, |v| format!("{}/{}/{}", v.rate, v.rtt, v.buffer);
    example "bbr1,access=40mbit/20ms";

    /// On a real kernel: the kernel's own program of the algorithm, or ours
    program: Program = "kernel|bbrlab", program, |v| v.name().to_owned();
    example "bbr1,program=kernel";
    refused &[NO_BPF];
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

/// The kernel's delayed-ACK timer.
const DELAYED_ACK: Span = Span::millis(40);
/// The kernel's own initial window, segments.
const INITIAL_CWND: u32 = 10;
/// The kernel's largest super-packet.
const TSO_MAX: u32 = 65_536;
/// The kernel's smallest receive window. Source: Linux `SOCK_MIN_RCVBUF` / 2.
const WINDOW_MIN: u64 = 2_304;
/// TCP payload in an IP packet as long as QUIC's smallest datagram (RFC 9000 §14), and as a jumbo frame.
const QUIC_MSS_MIN: u32 = 1_176;
const QUIC_MSS_MAX: u32 = 8_948;
/// Source: s2n-quic-transport 0.91, ack_manager.rs.
const S2N_ACK_EVERY: u32 = 10;

const SMALL_WINDOW: Refusal = Refusal {
    on: KERNELS,
    values: "below 2304 bytes",
    why: "the kernel's smallest window is 2304 bytes",
    holds: |setup| {
        flow(setup, |flow| match flow.rwnd {
            Rwnd::Fixed(bytes) if bytes < WINDOW_MIN => Some(format!("{bytes} bytes")),
            _ => None,
        })
    },
    example: &["--flow", "cubic,rwnd=1500B"],
};

const DIFFERENT_WINDOWS: Refusal = Refusal {
    on: KERNEL,
    values: "windows that differ between flows",
    why: "all flows share one host, so all have the same window",
    holds: |setup| {
        let first = setup.flows.first()?.rwnd;
        flow(setup, |flow| (flow.rwnd != first).then(|| format!("{:?} beside {first:?}", flow.rwnd)))
    },
    example: &["--flow", "cubic,rwnd=64KiB", "--flow", "cubic"],
};

const AUTOTUNED_WINDOW: Refusal = Refusal {
    on: STACKS,
    values: "auto",
    why: "the stack does not tune its windows by Linux's rule",
    holds: |setup| quic_flow(setup, |flow| matches!(flow.rwnd, Rwnd::Auto(_)).then(|| "auto".to_owned())),
    example: &["--flow", "cubic,rwnd=auto"],
};

const ODD_MSS: Refusal = Refusal {
    on: STACKS,
    values: "below 1176 and above 8948 bytes",
    why: "QUIC's datagrams hold at least 1200 bytes, and more than a jumbo frame's is not tried",
    holds: |setup| {
        let odd = |flow: &FlowSetup| !(QUIC_MSS_MIN..=QUIC_MSS_MAX).contains(&flow.mss);
        quic_flow(setup, |flow| odd(flow).then(|| format!("{} bytes", flow.mss)))
    },
    example: &["--flow", "bbr1,mss=536"],
};

const ECN_BESIDE_NONE: Refusal = Refusal {
    on: KERNEL,
    values: "on beside off",
    why: "all flows share one host, so all negotiate ECN or none",
    holds: |setup| {
        let first = setup.flows.first()?.host.ecn;
        flow(setup, |flow| (flow.host.ecn != first).then(|| format!("{} beside {first}", flow.host.ecn)))
    },
    example: &["--flow", "cubic,ecn=on", "--flow", "cubic"],
};

const ACCURATE_ECN: Refusal = Refusal {
    on: NOT_SIM,
    values: "accurate and l4s",
    why: "only the simulator's receiver reports the number of marked packets",
    holds: |setup| flow(setup, |flow| flow.host.accurate_ecn.then(|| "accurate feedback".to_owned())),
    example: &["--flow", "cubic,ecn=l4s"],
};

const PACED_ACCESS: Refusal = Refusal {
    on: UML,
    values: "on with access, unless the algorithm paces by itself",
    why: "the access link stands where fq would",
    holds: |setup| flow(setup, |flow| (flow.access.is_some() && is_paced_by_fq(flow)).then(|| "on".to_owned())),
    example: &["--flow", "cubic,pacing=on,access=40mbit/20ms"],
};

const PACED_BY_FQ: Refusal = Refusal {
    on: KERNEL,
    values: "on, unless the algorithm paces by itself",
    why: "a TUN device has no fq in front of it",
    holds: |setup| flow(setup, |flow| is_paced_by_fq(flow).then(|| "on".to_owned())),
    example: &["--flow", "cubic,pacing=on"],
};

const KERNEL_GRO: Refusal = Refusal {
    on: KERNELS,
    values: "all",
    why: "the devices of a real kernel merge by their own schedule, or not at all",
    holds: |setup| flow(setup, gro),
    example: &["--flow", "bbr1,gro=1ms"],
};

const STACK_GRO: Refusal = Refusal {
    on: STACKS,
    values: "all",
    why: "the path delivers each datagram to the endpoint on its own",
    holds: |setup| quic_flow(setup, gro),
    example: &["--flow", "bbr1,gro=1ms"],
};

const LARGE_TSO: Refusal = Refusal {
    on: UML,
    values: "above 64KiB",
    why: "the kernel's super-packets hold up to 65536 bytes",
    holds: |setup| flow(setup, |flow| odd_tso(flow, |bytes| bytes > TSO_MAX)),
    example: &["--flow", "bbr1,tso=128KiB"],
};

const OTHER_TSO: Refusal = Refusal {
    on: KERNEL,
    values: "all but 64KiB",
    why: "the kernel's super-packets hold up to 65536 bytes",
    holds: |setup| flow(setup, |flow| odd_tso(flow, |bytes| bytes != TSO_MAX)),
    example: &["--flow", "bbr1,tso=off"],
};

const STACK_BURSTS: Refusal = Refusal {
    on: STACKS,
    values: "all but 64KiB",
    why: "the stack's bursts follow its own rule",
    holds: |setup| quic_flow(setup, |flow| odd_tso(flow, |bytes| bytes != TSO_MAX)),
    example: &["--flow", "bbr1,tso=off"],
};

const OTHER_INITIAL_WINDOW: Refusal = Refusal {
    on: KERNEL,
    values: "all but 10",
    why: "the kernel's initial window is 10 segments",
    holds: |setup| {
        let iw = |flow: &FlowSetup| flow.host.initial_cwnd;
        flow(setup, |flow| (iw(flow) != INITIAL_CWND).then(|| format!("{} segments", iw(flow))))
    },
    example: &["--flow", "bbr1,iw=32"],
};

const PEERS_INITIAL_WINDOW: Refusal = Refusal {
    on: STACKS,
    values: "all but 10 with a stack's own congestion control",
    why: "a stack's own congestion control has its own initial window",
    holds: |setup| {
        let odd = |flow: &FlowSetup| flow.peer.is_some() && flow.host.initial_cwnd != INITIAL_CWND;
        flow(setup, |flow| odd(flow).then(|| format!("{} segments", flow.host.initial_cwnd)))
    },
    example: &[],
};

const KERNEL_DELACK: Refusal = Refusal {
    on: KERNELS,
    values: "all but 40ms",
    why: "the kernel's delayed-ACK timer is 40 ms",
    holds: |setup| flow(setup, odd_delack),
    example: &["--flow", "bbr1,delack=100ms"],
};

const STACK_DELACK: Refusal = Refusal {
    on: STACKS,
    values: "all but 40ms",
    why: "the stack's receiver delays by its own timer; write ack",
    holds: |setup| quic_flow(setup, odd_delack),
    example: &["--flow", "bbr1,delack=100ms"],
};

const LINUX_ACKS: Refusal = Refusal {
    on: KERNELS,
    values: "all",
    why: "a kernel acknowledges by Linux's rules",
    holds: |setup| flow(setup, |flow| flow.host.ack.map(|ack| format!("{} packets", ack.packets))),
    example: &["--flow", "bbr1,ack=10/25ms"],
};

const S2N_ACKS: Refusal = Refusal {
    on: S2N,
    values: "all but 10 packets",
    why: "its receiver acknowledges every tenth packet, and no setting changes that",
    holds: |setup| {
        let odd = |flow: &FlowSetup| flow.host.ack.filter(|ack| ack.packets != S2N_ACK_EVERY);
        quic_flow(setup, |flow| odd(flow).map(|ack| format!("{} packets", ack.packets)))
    },
    example: &["--flow", "bbr1,ack=4/25ms"],
};

const KERNEL_TRANSPORT: Refusal = Refusal {
    on: KERNELS,
    values: "quic, quic:quinn and quic:s2n",
    why: "a kernel's transport is TCP",
    holds: |setup| {
        let quic = |flow: &FlowSetup| flow.host.transport.is_quic().then(|| flow.host.transport.name().to_owned());
        flow(setup, quic)
    },
    example: &["--flow", "bbr1,transport=quic"],
};

const NO_BPF: Refusal = Refusal {
    on: UML,
    values: "bbrlab",
    why: "a User Mode kernel runs no BPF",
    holds: |setup| flow(setup, |flow| (flow.host.program == Program::Bbrlab).then(|| "bbrlab".to_owned())),
    example: &["--flow", "bbr1,program=bbrlab"],
};

/// Describes the first flow in a QUIC stack for which `held` returns a value.
fn quic_flow(setup: &Setup, held: impl Fn(&FlowSetup) -> Option<String>) -> Option<String> {
    flow(setup, |flow| if flow.is_tcp { None } else { held(flow) })
}

fn odd_delack(flow: &FlowSetup) -> Option<String> {
    let wait = flow.host.delayed_ack;
    (wait != DELAYED_ACK).then(|| format!("{} µs", wait.as_micros()))
}

fn gro(flow: &FlowSetup) -> Option<String> {
    flow.host.gro.map(|gro| format!("{} µs", gro.as_micros()))
}

fn is_paced_by_fq(flow: &FlowSetup) -> bool {
    flow.host.pacing && !flow.algorithm.info().needs_pacing
}

fn odd_tso(flow: &FlowSetup, is_odd: impl Fn(u32) -> bool) -> Option<String> {
    is_odd(flow.host.tso_max).then(|| format!("{} bytes", flow.host.tso_max))
}
