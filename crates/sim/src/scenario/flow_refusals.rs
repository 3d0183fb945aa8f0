//! Values of a flow's options that some backends refuse.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::keys::flow;
use super::support::{KERNEL, KERNELS, NOT_SIM, Refusal, S2N, STACKS, UML};
use crate::setup::{FlowSetup, Program, Rwnd, Setup, Traffic};

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

pub(super) const SMALL_WINDOW: Refusal = Refusal {
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

pub(super) const DIFFERENT_WINDOWS: Refusal = Refusal {
    on: KERNEL,
    values: "windows that differ between flows",
    why: "all flows share one host, so all have the same window",
    holds: |setup| {
        let first = setup.flows.first()?.rwnd;
        flow(setup, |flow| (flow.rwnd != first).then(|| format!("{:?} beside {first:?}", flow.rwnd)))
    },
    example: &["--flow", "cubic,rwnd=64KiB", "--flow", "cubic"],
};

pub(super) const AUTOTUNED_WINDOW: Refusal = Refusal {
    on: STACKS,
    values: "auto",
    why: "the stack does not tune its windows by Linux's rule",
    holds: |setup| quic_flow(setup, |flow| matches!(flow.rwnd, Rwnd::Auto(_)).then(|| "auto".to_owned())),
    example: &["--flow", "cubic,rwnd=auto"],
};

pub(super) const ODD_MSS: Refusal = Refusal {
    on: STACKS,
    values: "below 1176 and above 8948 bytes",
    why: "QUIC's datagrams hold at least 1200 bytes, and more than a jumbo frame's is not tried",
    holds: |setup| {
        let odd = |flow: &FlowSetup| !(QUIC_MSS_MIN..=QUIC_MSS_MAX).contains(&flow.mss);
        quic_flow(setup, |flow| odd(flow).then(|| format!("{} bytes", flow.mss)))
    },
    example: &["--flow", "bbr1,mss=536"],
};

pub(super) const ECN_BESIDE_NONE: Refusal = Refusal {
    on: KERNEL,
    values: "different kinds side by side, except with dctcp and prague",
    why: "all flows share one host, so all negotiate the same",
    holds: |setup| {
        let kind = |flow: &FlowSetup| match flow.host {
            host if host.accurate_ecn => "accurate",
            host if host.ecn => "on",
            _ => "off",
        };
        let first = kind(setup.flows.iter().find(|flow| !flow.asks_for_ecn())?);
        let differs = |flow: &FlowSetup| !flow.asks_for_ecn() && kind(flow) != first;
        flow(setup, |flow| differs(flow).then(|| format!("{} beside {first}", kind(flow))))
    },
    example: &["--flow", "cubic,ecn=on", "--flow", "cubic"],
};

pub(super) const CLASSIC_DCTCP: Refusal = Refusal {
    on: KERNELS,
    values: "on with dctcp",
    why: "Linux gives its DCTCP no ECN unless the receiver runs DCTCP too; write accurate",
    holds: |setup| {
        flow(setup, |flow| {
            let is_classic = flow.host.ecn && !flow.host.accurate_ecn;
            (is_classic && flow.algorithm.info().linux_name == Some("dctcp")).then(|| "on".to_owned())
        })
    },
    example: &["--flow", "dctcp,ecn=on"],
};

pub(super) const PACED_ACCESS: Refusal = Refusal {
    on: UML,
    values: "on with access, unless the algorithm paces by itself",
    why: "the access link stands where fq would",
    holds: |setup| flow(setup, |flow| (flow.access.is_some() && flow.is_paced_by_fq()).then(|| "on".to_owned())),
    example: &["--flow", "cubic,pacing=on,access=40mbit/20ms"],
};

pub(super) const PACED_BY_FQ: Refusal = Refusal {
    on: KERNEL,
    values: "on, unless the algorithm paces by itself",
    why: "a TUN device has no fq in front of it",
    holds: |setup| flow(setup, |flow| flow.is_paced_by_fq().then(|| "on".to_owned())),
    example: &["--flow", "cubic,pacing=on"],
};

pub(super) const KERNEL_GRO: Refusal = Refusal {
    on: KERNELS,
    values: "all",
    why: "the devices of a real kernel merge by their own schedule, or not at all",
    holds: |setup| flow(setup, gro),
    example: &["--flow", "bbr1,gro=1ms"],
};

pub(super) const STACK_GRO: Refusal = Refusal {
    on: STACKS,
    values: "all",
    why: "the path delivers each datagram to the endpoint on its own",
    holds: |setup| quic_flow(setup, gro),
    example: &["--flow", "bbr1,gro=1ms"],
};

pub(super) const LARGE_TSO: Refusal = Refusal {
    on: UML,
    values: "above 64KiB",
    why: "the kernel's super-packets hold up to 65536 bytes",
    holds: |setup| flow(setup, |flow| odd_tso(flow, |bytes| bytes > TSO_MAX)),
    example: &["--flow", "bbr1,tso=128KiB"],
};

pub(super) const OTHER_TSO: Refusal = Refusal {
    on: KERNEL,
    values: "all but 64KiB",
    why: "the kernel's super-packets hold up to 65536 bytes",
    holds: |setup| flow(setup, |flow| odd_tso(flow, |bytes| bytes != TSO_MAX)),
    example: &["--flow", "bbr1,tso=off"],
};

pub(super) const STACK_BURSTS: Refusal = Refusal {
    on: STACKS,
    values: "all but 64KiB",
    why: "the stack's bursts follow its own rule",
    holds: |setup| quic_flow(setup, |flow| odd_tso(flow, |bytes| bytes != TSO_MAX)),
    example: &["--flow", "bbr1,tso=off"],
};

pub(super) const OTHER_INITIAL_WINDOW: Refusal = Refusal {
    on: KERNEL,
    values: "all but 10",
    why: "the kernel's initial window is 10 segments",
    holds: |setup| {
        let iw = |flow: &FlowSetup| flow.host.initial_cwnd;
        flow(setup, |flow| (iw(flow) != INITIAL_CWND).then(|| format!("{} segments", iw(flow))))
    },
    example: &["--flow", "bbr1,iw=32"],
};

pub(super) const PEERS_INITIAL_WINDOW: Refusal = Refusal {
    on: STACKS,
    values: "all but 10 with a stack's own congestion control",
    why: "a stack's own congestion control has its own initial window",
    holds: |setup| {
        let odd = |flow: &FlowSetup| flow.peer.is_some() && flow.host.initial_cwnd != INITIAL_CWND;
        flow(setup, |flow| odd(flow).then(|| format!("{} segments", flow.host.initial_cwnd)))
    },
    example: &[],
};

pub(super) const KERNEL_DELACK: Refusal = Refusal {
    on: KERNELS,
    values: "all",
    why: "the kernel's own delayed-ACK timer adapts, from 40 ms on",
    holds: |setup| flow(setup, delack),
    example: &["--flow", "bbr1,delack=40ms"],
};

pub(super) const STACK_DELACK: Refusal = Refusal {
    on: STACKS,
    values: "all",
    why: "the stack's receiver delays by its own timer; write ack",
    holds: |setup| quic_flow(setup, delack),
    example: &["--flow", "bbr1,delack=40ms"],
};

pub(super) const LINUX_ACKS: Refusal = Refusal {
    on: KERNELS,
    values: "all",
    why: "a kernel acknowledges by Linux's rules",
    holds: |setup| flow(setup, |flow| flow.host.ack.map(|ack| format!("{} packets", ack.packets))),
    example: &["--flow", "bbr1,ack=10/25ms"],
};

pub(super) const S2N_ACKS: Refusal = Refusal {
    on: S2N,
    values: "all but 10 packets",
    why: "its receiver acknowledges every tenth packet, and no setting changes that",
    holds: |setup| {
        let odd = |flow: &FlowSetup| flow.host.ack.filter(|ack| ack.packets != S2N_ACK_EVERY);
        quic_flow(setup, |flow| odd(flow).map(|ack| format!("{} packets", ack.packets)))
    },
    example: &["--flow", "bbr1,ack=4/25ms"],
};

pub(super) const KERNEL_TRANSPORT: Refusal = Refusal {
    on: KERNELS,
    values: "quic, quic:quinn and quic:s2n",
    why: "a kernel's transport is TCP",
    holds: |setup| {
        let quic = |flow: &FlowSetup| flow.host.transport.is_quic().then(|| flow.host.transport.name().to_owned());
        flow(setup, quic)
    },
    example: &["--flow", "bbr1,transport=quic"],
};

pub(super) const UNEQUAL_HOST: Refusal = Refusal {
    on: UML,
    values: "a host whose flows differ in direction, RTT, last link, window or ECN, with cake",
    why: "the kernel gives such flows different addresses",
    holds: |setup| {
        if !setup.has_cake() {
            return None;
        }
        // The user's end of an upload is its sender.
        let end = |flow: &FlowSetup| {
            let sender = flow.is_upload.then_some(flow.host);
            (sender, flow.rtt, flow.access.map(|access| access.rtt), flow.links.1, flow.rwnd, flow.host.ecn)
        };
        let first = |flow: &FlowSetup| setup.flows.iter().find(|other| other.shared_host == flow.shared_host).map(end);
        flow(setup, |flow| {
            flow.shared_host.filter(|_| first(flow) != Some(end(flow))).map(|host| format!("host {host}"))
        })
    },
    example: &["--flow", "cubic,host=1", "--flow", "cubic,host=1,rtt=80ms", "--aqm", "cake"],
};

pub(super) const NO_BPF: Refusal = Refusal {
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

fn delack(flow: &FlowSetup) -> Option<String> {
    flow.host.delayed_ack.map(|wait| format!("{} µs", wait.as_micros()))
}

fn gro(flow: &FlowSetup) -> Option<String> {
    flow.host.gro.map(|gro| format!("{} µs", gro.as_micros()))
}

fn odd_tso(flow: &FlowSetup, is_odd: impl Fn(u32) -> bool) -> Option<String> {
    is_odd(flow.host.tso_max).then(|| format!("{} bytes", flow.host.tso_max))
}

pub(super) const CALL: Refusal = Refusal {
    on: NOT_SIM,
    values: "all",
    why: "only the simulator has the call's receiver",
    holds: |setup| flow(setup, |flow| matches!(flow.traffic, Traffic::Call(_)).then(|| "a call".to_owned())),
    example: &["--flow", "bbr1,call=1mbit/30"],
};

pub(super) const PAGE: Refusal = Refusal {
    on: NOT_SIM,
    values: "all",
    why: "only the simulator has the browser; load pages of `bbrlab serve` behind `bbrlab emulate`",
    holds: |setup| flow(setup, |flow| matches!(flow.traffic, Traffic::Page(_)).then(|| "a page".to_owned())),
    example: &["--flow", "bbr1,page=median"],
};

pub(super) const VIDEO: Refusal = Refusal {
    on: NOT_SIM,
    values: "all",
    why: "only the simulator has the player; play a stream of `bbrlab serve` behind `bbrlab emulate`",
    holds: |setup| flow(setup, |flow| matches!(flow.traffic, Traffic::Video(_)).then(|| "a video".to_owned())),
    example: &["--flow", "bbr1,video=throughput:1mbit/2mbit"],
};
