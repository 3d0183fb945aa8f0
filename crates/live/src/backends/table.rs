//! The table itself, and the checks behind its refusals.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{Rate, Span};
use bbrlab_sim::link::{AckAggregation, Aqm, Buffer, LinkConfig, Service};
use bbrlab_sim::setup::{Capture, ChangeKind, FlowSetup, Program, Rwnd, Setup};

use super::{Refusal, Row};
use crate::flows::kernel_cc;
use crate::kernel::ours;

/// Maximum number of flows on a real kernel, limited by ports and addresses.
const FLOWS_MAX: usize = 10_000;
/// The kernel's delayed-ACK timer.
const DELAYED_ACK: Span = Span::millis(40);
/// The kernel's own initial window, segments.
const INITIAL_CWND: u32 = 10;
/// The kernel's largest super-packet.
const TSO_MAX: u32 = 65_536;
/// The kernel's smallest receive window. Source: Linux `SOCK_MIN_RCVBUF` / 2.
const WINDOW_MIN: u64 = 2_304;
/// Maximum link rate of a real-time emulator: ten times what it carries on any machine we know of.
const RATE_MAX: Rate = Rate::bits_per_sec(100_000_000_000);

/// Maximum number of connections of a QUIC backend. Ours.
const CONNECTIONS_MAX: usize = 1_000;
/// TCP payload in an IP packet as long as QUIC's smallest datagram (RFC 9000 §14), and as a jumbo frame.
const QUIC_MSS_MIN: u32 = 1_176;
const QUIC_MSS_MAX: u32 = 8_948;
/// Source: s2n-quic-transport 0.91, ack_manager.rs.
const S2N_ACK_EVERY: u32 = 10;

/// Describes the first flow for which `held` returns a value.
fn flow(setup: &Setup, held: impl Fn(&FlowSetup) -> Option<String>) -> Option<String> {
    setup.flows.iter().find_map(|flow| held(flow).map(|held| format!("{} holds {held}", flow.name)))
}

/// The same for flows that run in a QUIC stack.
fn quic_flow(setup: &Setup, held: impl Fn(&FlowSetup) -> Option<String>) -> Option<String> {
    flow(setup, |flow| if flow.is_tcp { None } else { held(flow) })
}

fn link(setup: &Setup, held: impl Fn(&LinkConfig) -> bool, what: &str) -> Option<String> {
    setup.links.iter().any(held).then(|| what.to_owned())
}

fn too_many(setup: &Setup) -> Option<String> {
    (setup.flows.len() > FLOWS_MAX).then(|| format!("{} flows", setup.flows.len()))
}

fn unknown(setup: &Setup, check: impl Fn(&FlowSetup) -> Result<(), String>) -> Option<String> {
    setup.flows.iter().find_map(|flow| check(flow).err().map(|what| format!("{} holds {what}", flow.name)))
}

const fn same(key: &'static str, example: &'static [&'static str]) -> Row {
    Row { key, sim: &[], uml: &[], kernel: &[], s2n: &[], noq: &[], example }
}

/// A row that every backend accepts.
const SAME: Row = same("", &[]);

/// Every key, every flow option, and every flag of `bbrlab run`.
pub const TABLE: &[Row] = &[
    same("name", &["--name", "a"]),
    Row {
        key: "rate",
        kernel: &[Refusal {
            values: "above 100gbit",
            why: "no emulator in real time is as fast",
            holds: |setup| {
                let rate = setup.links.iter().map(|link| link.service.nominal_rate()).max()?;
                (rate > RATE_MAX).then(|| format!("{} bit/s", rate.as_bits_per_sec()))
            },
            example: &["--rate", "10tbit", "--buffer", "100p"],
        }],
        example: &["--rate", "20mbit"],
        ..SAME
    },
    same("rtt", &["--rtt", "20ms"]),
    same("buffer", &["--buffer", "50p"]),
    same("loss", &["--loss", "ge:1%,10%,50%"]),
    same("ack_loss", &["--ack-loss", "1%"]),
    Row {
        key: "jitter",
        uml: &[Refusal {
            values: "all without :reorder",
            why: "netem's jitter changes the order of packets",
            holds: |setup| {
                let path = setup.path;
                (path.jitter > Span::ZERO && !path.jitter_reorders).then(|| format!("{} µs", path.jitter.as_micros()))
            },
            example: &["--jitter", "2ms"],
        }],
        example: &["--jitter", "2ms:reorder"],
        ..SAME
    },
    Row {
        key: "reorder",
        uml: &[Refusal {
            values: "all",
            why: "netem's reordering follows another rule",
            holds: |setup| (setup.path.reorder > 0.0).then(|| format!("{} %", setup.path.reorder * 100.0)),
            example: &["--reorder", "1%"],
        }],
        example: &["--reorder", "0%"],
        ..SAME
    },
    same("duplicate", &["--duplicate", "1%"]),
    Row {
        key: "aqm",
        uml: &[Refusal {
            values: "red with gentle",
            why: "the kernel's RED drops everything above max",
            holds: |setup| link(setup, |link| matches!(&link.aqm, Aqm::Red(red) if red.gentle), "red:gentle"),
            example: &["--aqm", "red:gentle", "--buffer", "4bdp"],
        }],
        example: &["--aqm", "codel"],
        ..SAME
    },
    same("policer", &["--policer", "rate=5mbit,burst=50kB"]),
    Row {
        key: "ack_aggregation",
        uml: &[Refusal {
            values: "all",
            why: "no queueing discipline of Linux holds ACKs back",
            holds: |setup| match setup.path.ack_aggregation {
                AckAggregation::None => None,
                AckAggregation::Time(span) => Some(format!("{} µs", span.as_micros())),
                AckAggregation::Bytes(bytes) => Some(format!("{bytes} bytes")),
            },
            example: &["--ack-aggregation", "20ms"],
        }],
        s2n: &[ACKS_BY_BYTES],
        noq: &[ACKS_BY_BYTES],
        example: &[],
        ..SAME
    },
    Row {
        key: "schedule",
        uml: &[
            Refusal {
                values: "a change of buffer behind another queue than droptail",
                why: "the kernel's other queues would start from scratch",
                holds: |setup| {
                    let odd = |change: &&bbrlab_sim::setup::Change| {
                        matches!(change.what, ChangeKind::Buffer(_))
                            && !matches!(setup.links[change.link].aqm, Aqm::DropTail)
                    };
                    setup.schedule.iter().find(odd).map(|change| format!("a buffer at {} s", secs(change)))
                },
                example: &["--schedule", "10s:buffer=100p", "--aqm", "codel"],
            },
            Refusal {
                values: "a buffer in packets after one in bytes, ms or bdp, and the other way round",
                why: "a queue of Linux counts packets or bytes, always the same",
                holds: |setup| {
                    let odd = |change: &&bbrlab_sim::setup::Change| {
                        matches!(change.what, ChangeKind::Buffer(to) if matches!(to, Buffer::Packets(_))
                        != matches!(setup.links[change.link].buffer, Buffer::Packets(_)))
                    };
                    setup
                        .schedule
                        .iter()
                        .find(odd)
                        .map(|change| format!("a buffer of another unit at {} s", secs(change)))
                },
                example: &["--schedule", "10s:buffer=100p", "--buffer", "4bdp"],
            },
        ],
        example: &["--schedule", "10s:rate=5mbit,rtt=80ms"],
        ..SAME
    },
    Row {
        key: "trace",
        uml: &[Refusal {
            values: "all",
            why: "no queueing discipline of Linux follows a delivery trace",
            holds: |setup| link(setup, |link| matches!(link.service, Service::Trace(_)), "a delivery trace"),
            example: &[],
        }],
        example: &[],
        ..SAME
    },
    Row {
        key: "demand",
        uml: &[Refusal {
            values: "all",
            why: "no queueing discipline of Linux grants rate by backlog",
            holds: |setup| link(setup, |link| matches!(link.service, Service::Demand(_)), "a link on demand"),
            example: &["--demand", "min=1mbit,max=20mbit", "--buffer", "100p"],
        }],
        example: &[],
        ..SAME
    },
    same("link", &[]),
    Row {
        key: "flow",
        uml: &[
            TOO_MANY_FLOWS,
            Refusal {
                values: "algorithms and parameters that the kernel has not",
                why: "a kernel runs its own",
                holds: |setup| unknown(setup, |flow| kernel_cc(&flow.algorithm).map(|_| ())),
                example: &["--flow", "bbr3"],
            },
            MODEL_OF_TCP,
        ],
        kernel: &[
            TOO_MANY_FLOWS,
            Refusal {
                values: "algorithms without a kernel program",
                why: "a kernel runs its own, and those of ours that are compiled for it",
                holds: |setup| unknown(setup, ours::check),
                example: &["--flow", "bbr2-ietf100"],
            },
            MODEL_OF_TCP,
        ],
        // A stack's own algorithm runs only in that stack; the scenario itself names it, in every backend.
        s2n: &[TOO_MANY_CONNECTIONS],
        noq: &[TOO_MANY_CONNECTIONS],
        example: &["--flow", "bbr1*2@0s+1s", "--flow", "cubic", "--flow", "reno"],
        ..SAME
    },
    same("arrivals", &[]),
    same("duration", &["--duration", "30s"]),
    same("warmup", &["--warmup", "1s"]),
    same("start_jitter", &["--start-jitter", "20ms"]),
    same("seed", &["--seed", "7"]),
    same("repeat", &["--repeat", "2"]),
    same("on", &[]),
    same("sample", &["--sample", "50ms"]),
    same("expect", &[]),
    same("flow: rtt", &["--flow", "bbr1,rtt=80ms"]),
    same("flow: size", &["--flow", "bbr1,size=1MB"]),
    Row {
        key: "flow: rwnd",
        uml: &[SMALL_WINDOW],
        kernel: &[
            SMALL_WINDOW,
            Refusal {
                values: "windows that differ between flows",
                why: "all flows share one host, so all have the same window",
                holds: |setup| {
                    let first = setup.flows.first()?.rwnd;
                    flow(setup, |flow| (flow.rwnd != first).then(|| format!("{:?} beside {first:?}", flow.rwnd)))
                },
                example: &["--flow", "cubic,rwnd=64KiB", "--flow", "cubic"],
            },
        ],
        s2n: &[TUNED_WINDOW],
        noq: &[TUNED_WINDOW],
        example: &["--flow", "cubic,rwnd=64KiB"],
        ..SAME
    },
    same("flow: on", &["--flow", "bbr1,on=3s,off=5s"]),
    same("flow: off", &["--flow", "bbr1,on=3s,off=5s"]),
    Row { key: "flow: mss", s2n: &[ODD_MSS], noq: &[ODD_MSS], example: &["--flow", "bbr1,mss=1300"], ..SAME },
    same("flow: name", &["--flow", "bbr1,name=a"]),
    same("flow: stop", &["--flow", "bbr1,stop=5s"]),
    same("flow: rate", &["--flow", "bbr1,rate=1mbit"]),
    same("flow: request", &["--flow", "bbr1,request=100kB/1s"]),
    Row {
        key: "flow: ecn",
        kernel: &[Refusal {
            values: "on beside off",
            why: "all flows share one host, so all negotiate ECN or none",
            holds: |setup| {
                let first = setup.flows.first()?.host.ecn;
                flow(setup, |flow| (flow.host.ecn != first).then(|| format!("{} beside {first}", flow.host.ecn)))
            },
            example: &["--flow", "cubic,ecn=on", "--flow", "cubic"],
        }],
        example: &["--flow", "cubic,ecn=on"],
        ..SAME
    },
    Row {
        key: "flow: pacing",
        uml: &[Refusal {
            values: "on with access, unless the algorithm paces by itself",
            why: "the access link stands where fq would",
            holds: |setup| flow(setup, |flow| (flow.access.is_some() && is_paced_by_fq(flow)).then(|| "on".to_owned())),
            example: &["--flow", "cubic,pacing=on,access=40mbit/20ms"],
        }],
        kernel: &[Refusal {
            values: "on, unless the algorithm paces by itself",
            why: "a TUN device has no fq in front of it",
            holds: |setup| flow(setup, |flow| is_paced_by_fq(flow).then(|| "on".to_owned())),
            example: &["--flow", "cubic,pacing=on"],
        }],
        example: &["--flow", "bbr1,pacing=on"],
        ..SAME
    },
    Row { key: "flow: gro", uml: &[GRO], kernel: &[GRO], s2n: &[NO_GRO], noq: &[NO_GRO], ..SAME },
    Row {
        key: "flow: tso",
        uml: &[Refusal {
            values: "above 64KiB",
            why: "the kernel's super-packets hold up to 65536 bytes",
            holds: |setup| flow(setup, |flow| tso(flow, |bytes| bytes > TSO_MAX)),
            example: &["--flow", "bbr1,tso=128KiB"],
        }],
        kernel: &[Refusal {
            values: "all but 64KiB",
            why: "the kernel's super-packets hold up to 65536 bytes",
            holds: |setup| flow(setup, |flow| tso(flow, |bytes| bytes != TSO_MAX)),
            example: &["--flow", "bbr1,tso=off"],
        }],
        s2n: &[OWN_BURSTS],
        noq: &[OWN_BURSTS],
        example: &["--flow", "bbr1,tso=64KiB"],
        ..SAME
    },
    Row {
        key: "flow: iw",
        kernel: &[Refusal {
            values: "all but 10",
            why: "the kernel's initial window is 10 segments",
            holds: |setup| {
                let iw = |flow: &FlowSetup| flow.host.initial_cwnd;
                flow(setup, |flow| (iw(flow) != INITIAL_CWND).then(|| format!("{} segments", iw(flow))))
            },
            example: &["--flow", "bbr1,iw=32"],
        }],
        s2n: &[PEERS_WINDOW],
        noq: &[PEERS_WINDOW],
        example: &["--flow", "bbr1,iw=10"],
        ..SAME
    },
    same("flow: links", &["--flow", "bbr1,links=1..1"]),
    same("flow: access", &["--flow", "bbr1,access=40mbit/20ms"]),
    Row {
        key: "flow: delack",
        uml: &[DELACK],
        kernel: &[DELACK],
        s2n: &[OWN_DELACK],
        noq: &[OWN_DELACK],
        example: &["--flow", "bbr1,delack=40ms"],
        ..SAME
    },
    Row {
        key: "flow: ack",
        uml: &[LINUX_ACKS],
        kernel: &[LINUX_ACKS],
        s2n: &[Refusal {
            values: "all but 10 packets",
            why: "its receiver acknowledges every tenth packet, and no setting changes that",
            holds: |setup| {
                let odd = |flow: &FlowSetup| flow.host.ack.filter(|ack| ack.packets != S2N_ACK_EVERY);
                quic_flow(setup, |flow| odd(flow).map(|ack| format!("{} packets", ack.packets)))
            },
            example: &["--flow", "bbr1,ack=4/25ms"],
        }],
        ..SAME
    },
    Row {
        key: "flow: program",
        uml: &[Refusal {
            values: "bbrlab",
            why: "a User Mode kernel runs no BPF",
            holds: |setup| flow(setup, |flow| (flow.host.program == Program::Bbrlab).then(|| "bbrlab".to_owned())),
            example: &["--flow", "bbr1,program=bbrlab"],
        }],
        example: &["--flow", "bbr1,program=kernel"],
        ..SAME
    },
    same("--json", &["--json", "-"]),
    same("--report", &[]),
    Row { key: "--pcap", s2n: &[ENCRYPTED], noq: &[ENCRYPTED], ..SAME },
    same("--pcap-limit", &[]),
    same("--qlog", &[]),
    same("--parquet", &[]),
    same("--csv", &[]),
    same("--quiet", &["--quiet"]),
];

const TOO_MANY_FLOWS: Refusal = Refusal {
    values: "more than 10000 flows",
    why: "a kernel has no more ports for them",
    holds: too_many,
    example: &["--flow", "bbr1*10001"],
};

const MODEL_OF_TCP: Refusal = Refusal {
    values: "tcp:NAME",
    why: "it asks for the simulator's model of TCP, and a kernel has a TCP of its own",
    holds: |setup| flow(setup, |flow| flow.is_tcp.then(|| flow.cc().to_owned())),
    example: &["--flow", "tcp:bbr1"],
};

const GRO: Refusal = Refusal {
    values: "all",
    why: "the devices of a real kernel merge by their own schedule, or not at all",
    holds: |setup| flow(setup, gro),
    example: &["--flow", "bbr1,gro=1ms"],
};

const DELACK: Refusal = Refusal {
    values: "all but 40ms",
    why: "the kernel's delayed-ACK timer is 40 ms",
    holds: |setup| flow(setup, odd_delack),
    example: &["--flow", "bbr1,delack=100ms"],
};

const LINUX_ACKS: Refusal = Refusal {
    values: "all",
    why: "a kernel acknowledges by Linux's rules",
    holds: |setup| flow(setup, |flow| flow.host.ack.map(|ack| format!("{} packets", ack.packets))),
    example: &["--flow", "bbr1,ack=10/25ms"],
};

const TOO_MANY_CONNECTIONS: Refusal = Refusal {
    values: "more than 1000 flows",
    why: "each is a real connection with endpoints of its own, in one process",
    holds: |setup| (setup.flows.len() > CONNECTIONS_MAX).then(|| format!("{} flows", setup.flows.len())),
    example: &["--flow", "bbr1*1001"],
};

const ACKS_BY_BYTES: Refusal = Refusal {
    values: "volumes",
    why: "what a QUIC packet acknowledges is encrypted; write a time",
    holds: |setup| match setup.path.ack_aggregation {
        AckAggregation::None | AckAggregation::Time(_) => None,
        AckAggregation::Bytes(bytes) => Some(format!("{bytes} bytes")),
    },
    example: &["--ack-aggregation", "64KiB"],
};

const TUNED_WINDOW: Refusal = Refusal {
    values: "auto",
    why: "the stack does not tune its windows by Linux's rule",
    holds: |setup| quic_flow(setup, |flow| matches!(flow.rwnd, Rwnd::Auto(_)).then(|| "auto".to_owned())),
    example: &["--flow", "cubic,rwnd=auto"],
};

const ODD_MSS: Refusal = Refusal {
    values: "below 1176 and above 8948 bytes",
    why: "QUIC's datagrams hold at least 1200 bytes, and more than a jumbo frame's is not tried",
    holds: |setup| {
        let odd = |flow: &FlowSetup| !(QUIC_MSS_MIN..=QUIC_MSS_MAX).contains(&flow.mss);
        quic_flow(setup, |flow| odd(flow).then(|| format!("{} bytes", flow.mss)))
    },
    example: &["--flow", "bbr1,mss=536"],
};

const NO_GRO: Refusal = Refusal {
    values: "all",
    why: "the path hands each datagram to the endpoint on its own",
    holds: |setup| quic_flow(setup, gro),
    example: GRO.example,
};

const OWN_BURSTS: Refusal = Refusal {
    values: "all but 64KiB",
    why: "the stack's bursts go by its own rule",
    holds: |setup| quic_flow(setup, |flow| tso(flow, |bytes| bytes != TSO_MAX)),
    example: &["--flow", "bbr1,tso=off"],
};

const PEERS_WINDOW: Refusal = Refusal {
    values: "all but 10 with a stack's own congestion control",
    why: "a stack's own congestion control has its own initial window",
    holds: |setup| {
        let odd = |flow: &FlowSetup| flow.peer.is_some() && flow.host.initial_cwnd != INITIAL_CWND;
        flow(setup, |flow| odd(flow).then(|| format!("{} segments", flow.host.initial_cwnd)))
    },
    example: &[],
};

const OWN_DELACK: Refusal = Refusal {
    values: "all but 40ms",
    why: "the stack's receiver delays by its own timer; write ack",
    holds: |setup| quic_flow(setup, odd_delack),
    example: &["--flow", "bbr1,delack=100ms"],
};

const ENCRYPTED: Refusal = Refusal {
    values: "all",
    why: "the packets are QUIC's, encrypted, and a capture here holds TCP's headers",
    holds: |setup| (setup.capture != Capture::Off).then(|| "packets".to_owned()),
    example: &[],
};

/// Receive windows below the kernel's minimum.
const SMALL_WINDOW: Refusal = Refusal {
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

fn odd_delack(flow: &FlowSetup) -> Option<String> {
    let wait = flow.host.delayed_ack;
    (wait != DELAYED_ACK).then(|| format!("{} µs", wait.as_micros()))
}

fn gro(flow: &FlowSetup) -> Option<String> {
    flow.host.gro.map(|gro| format!("{} µs", gro.as_micros()))
}

fn secs(change: &bbrlab_sim::setup::Change) -> f64 {
    bbrlab_sim::metrics::secs(change.at)
}

fn is_paced_by_fq(flow: &FlowSetup) -> bool {
    flow.host.pacing && !ours::paces_itself(&flow.algorithm)
}

fn tso(flow: &FlowSetup, odd: impl Fn(u32) -> bool) -> Option<String> {
    odd(flow.host.tso_max).then(|| format!("{} bytes", flow.host.tso_max))
}
