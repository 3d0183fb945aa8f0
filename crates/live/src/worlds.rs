//! What each key of a scenario, option of a flow and flag of a run means in each world: the same, or it is refused.
//! The checks before a run, `bbrlab list worlds` and the tests all read this one table.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write as _;

use bbrlab_core::{Rate, Span};
use bbrlab_sim::link::{AckAggregation, Aqm, Buffer, LinkConfig, Service};
use bbrlab_sim::setup::{ChangeKind, FlowSetup, Program, Rwnd, Setup};

use crate::flows::{Failure, kernel_cc};
use crate::kernel::ours;

/// A world that runs scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    /// The simulator.
    Sim,
    /// A real Linux kernel in virtual time.
    Uml,
    /// This host's kernel in real time.
    Kernel,
}

impl World {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sim, Self::Uml, Self::Kernel];

    /// Its word in `--on`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Uml => "uml",
            Self::Kernel => "kernel",
        }
    }
}

/// What a world does not take.
#[derive(Clone, Copy)]
pub struct Refusal {
    /// Which values, in words.
    pub values: &'static str,
    pub why: &'static str,
    /// What a setup holds of them.
    holds: fn(&Setup) -> Option<String>,
    /// Flags that hold some.
    pub example: &'static [&'static str],
}

/// One key, option or flag.
#[derive(Clone, Copy)]
pub struct Row {
    /// Its name; `flow: …` for an option of a flow, `--…` for a flag that is no key.
    pub key: &'static str,
    /// What User Mode Linux does not take of it.
    pub uml: &'static [Refusal],
    /// What the host's kernel does not take of it.
    pub kernel: &'static [Refusal],
    /// Flags that every world takes, where there are any that need no file.
    pub example: &'static [&'static str],
}

impl Row {
    /// What a world does not take of it; the simulator takes all.
    pub const fn refusals(&self, world: World) -> &'static [Refusal] {
        match world {
            World::Sim => &[],
            World::Uml => self.uml,
            World::Kernel => self.kernel,
        }
    }

    /// Whether a world takes all that a setup holds of it.
    fn is_taken(&self, world: World, setup: &Setup) -> bool {
        self.refusals(world).iter().all(|refusal| (refusal.holds)(setup).is_none())
    }
}

/// Says in one line what of a setup a world cannot do, what the setup holds there, and which world can.
pub fn check(world: World, setup: &Setup) -> Result<(), Failure> {
    for row in TABLE {
        for refusal in row.refusals(world) {
            if let Some(held) = (refusal.holds)(setup) {
                let others = World::ALL.into_iter().filter(|other| row.is_taken(*other, setup));
                let names: Vec<String> = others.map(|other| format!("--on {}", other.name())).collect();
                return Err(format!("{}: {held}: {}; use {}", row.key, refusal.why, names.join(" or ")));
            }
        }
    }
    Ok(())
}

/// The table as text, a line a key: the key, and for each world `same` or what it refuses.
pub fn rows() -> Vec<Vec<String>> {
    let cell = |refusals: &[Refusal]| {
        let mut text = String::new();
        for refusal in refusals {
            let comma = if text.is_empty() { "" } else { "; " };
            let _ = write!(text, "{comma}refuses {}: {}", refusal.values, refusal.why);
        }
        if text.is_empty() { "same".to_owned() } else { text }
    };
    let row = |row: &Row| {
        let cells = World::ALL.into_iter().map(|world| cell(row.refusals(world)));
        std::iter::once(row.key.to_owned()).chain(cells).collect()
    };
    TABLE.iter().map(row).collect()
}

/// Most flows of a real kernel: ports and addresses.
const FLOWS_MAX: usize = 10_000;
/// Delayed-ACK timer of the kernel.
const DELAYED_ACK: Span = Span::millis(40);
/// The kernel's own initial window, segments.
const INITIAL_CWND: u32 = 10;
/// The kernel's largest super-packet.
const TSO_MAX: u32 = 65_536;
/// The kernel's smallest receive window. Source: Linux `SOCK_MIN_RCVBUF` / 2.
const WINDOW_MIN: u64 = 2_304;
/// Fastest link of an emulator in real time: ten times what it carries on any machine that we know.
const RATE_MAX: Rate = Rate::bits_per_sec(100_000_000_000);

/// The first flow of which something holds, with what it is.
fn flow(setup: &Setup, held: impl Fn(&FlowSetup) -> Option<String>) -> Option<String> {
    setup.flows.iter().find_map(|flow| held(flow).map(|held| format!("{} holds {held}", flow.name)))
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
    Row { key, uml: &[], kernel: &[], example }
}

const fn everywhere(key: &'static str, refusals: &'static [Refusal], example: &'static [&'static str]) -> Row {
    Row { key, uml: refusals, kernel: refusals, example }
}

/// Every key, every option of a flow, every flag of `bbrlab run`.
pub const TABLE: &[Row] = &[
    same("name", &["--name", "a"]),
    Row {
        key: "rate",
        uml: &[],
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
        kernel: &[],
        example: &["--jitter", "2ms:reorder"],
    },
    Row {
        key: "reorder",
        uml: &[Refusal {
            values: "all",
            why: "netem's reordering follows another rule",
            holds: |setup| (setup.path.reorder > 0.0).then(|| format!("{} %", setup.path.reorder * 100.0)),
            example: &["--reorder", "1%"],
        }],
        kernel: &[],
        example: &["--reorder", "0%"],
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
        kernel: &[],
        example: &["--aqm", "codel"],
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
        kernel: &[],
        example: &[],
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
        kernel: &[],
        example: &["--schedule", "10s:rate=5mbit,rtt=80ms"],
    },
    Row {
        key: "trace",
        uml: &[Refusal {
            values: "all",
            why: "no queueing discipline of Linux follows a delivery trace",
            holds: |setup| link(setup, |link| matches!(link.service, Service::Trace(_)), "a delivery trace"),
            example: &[],
        }],
        kernel: &[],
        example: &[],
    },
    Row {
        key: "demand",
        uml: &[Refusal {
            values: "all",
            why: "no queueing discipline of Linux grants rate by backlog",
            holds: |setup| link(setup, |link| matches!(link.service, Service::Demand(_)), "a link on demand"),
            example: &["--demand", "min=1mbit,max=20mbit", "--buffer", "100p"],
        }],
        kernel: &[],
        example: &[],
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
        ],
        kernel: &[
            TOO_MANY_FLOWS,
            Refusal {
                values: "algorithms without a kernel program",
                why: "a kernel runs its own, and those of ours that are compiled for it",
                holds: |setup| unknown(setup, ours::check),
                example: &["--flow", "bbr2-ietf100"],
            },
        ],
        example: &["--flow", "bbr1*2@0s+1s", "--flow", "cubic", "--flow", "reno"],
    },
    same("arrivals", &[]),
    same("duration", &["--duration", "30s"]),
    same("warmup", &["--warmup", "1s"]),
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
        example: &["--flow", "cubic,rwnd=64KiB"],
    },
    same("flow: on", &["--flow", "bbr1,on=3s,off=5s"]),
    same("flow: off", &["--flow", "bbr1,on=3s,off=5s"]),
    same("flow: mss", &["--flow", "bbr1,mss=536"]),
    same("flow: name", &["--flow", "bbr1,name=a"]),
    same("flow: stop", &["--flow", "bbr1,stop=5s"]),
    same("flow: rate", &["--flow", "bbr1,rate=1mbit"]),
    same("flow: request", &["--flow", "bbr1,request=100kB/1s"]),
    Row {
        key: "flow: ecn",
        uml: &[],
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
    },
    everywhere(
        "flow: gro",
        &[Refusal {
            values: "all",
            why: "the devices of a real kernel merge by their own schedule, or not at all",
            holds: |setup| flow(setup, |flow| flow.host.gro.map(|gro| format!("{} µs", gro.as_micros()))),
            example: &["--flow", "bbr1,gro=1ms"],
        }],
        &[],
    ),
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
        example: &["--flow", "bbr1,tso=64KiB"],
    },
    Row {
        key: "flow: iw",
        uml: &[],
        kernel: &[Refusal {
            values: "all but 10",
            why: "the kernel's initial window is 10 segments",
            holds: |setup| {
                let iw = |flow: &FlowSetup| flow.host.initial_cwnd;
                flow(setup, |flow| (iw(flow) != INITIAL_CWND).then(|| format!("{} segments", iw(flow))))
            },
            example: &["--flow", "bbr1,iw=32"],
        }],
        example: &["--flow", "bbr1,iw=10"],
    },
    same("flow: links", &["--flow", "bbr1,links=1..1"]),
    same("flow: access", &["--flow", "bbr1,access=40mbit/20ms"]),
    everywhere(
        "flow: delack",
        &[Refusal {
            values: "all but 40ms",
            why: "the kernel's delayed-ACK timer is 40 ms",
            holds: |setup| {
                let wait = |flow: &FlowSetup| flow.host.delayed_ack;
                flow(setup, |flow| (wait(flow) != DELAYED_ACK).then(|| format!("{} µs", wait(flow).as_micros())))
            },
            example: &["--flow", "bbr1,delack=100ms"],
        }],
        &["--flow", "bbr1,delack=40ms"],
    ),
    Row {
        key: "flow: program",
        uml: &[Refusal {
            values: "bbrlab",
            why: "a User Mode kernel runs no BPF",
            holds: |setup| flow(setup, |flow| (flow.host.program == Program::Bbrlab).then(|| "bbrlab".to_owned())),
            example: &["--flow", "bbr1,program=bbrlab"],
        }],
        kernel: &[],
        example: &["--flow", "bbr1,program=kernel"],
    },
    same("--json", &["--json", "-"]),
    same("--report", &[]),
    same("--pcap", &[]),
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

/// Kernels have a smallest window.
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

fn secs(change: &bbrlab_sim::setup::Change) -> f64 {
    bbrlab_sim::metrics::secs(change.at)
}

fn is_paced_by_fq(flow: &FlowSetup) -> bool {
    flow.host.pacing && !ours::paces_itself(&flow.algorithm)
}

fn tso(flow: &FlowSetup, odd: impl Fn(u32) -> bool) -> Option<String> {
    odd(flow.host.tso_max).then(|| format!("{} bytes", flow.host.tso_max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bbrlab_sim::scenario::{FLOW_KEYS, KEYS, Scenario};

    fn setup(flags: &[&str]) -> Setup {
        let mut scenario = Scenario::default();
        for pair in flags.chunks(2).filter(|pair| pair.len() == 2 && pair[0] != "--json") {
            let key = pair[0].trim_start_matches("--").replace('-', "_");
            scenario.set(&key, pair[1]).unwrap_or_else(|error| panic!("{pair:?}: {error}"));
        }
        scenario.resolve().unwrap_or_else(|error| panic!("{flags:?}: {error}"))
    }

    #[test]
    fn every_key_and_every_option_of_a_flow_is_in_the_table_once() {
        let keys = KEYS.iter().map(|key| (*key).to_owned());
        let tables = ["link", "arrivals", "expect"].map(str::to_owned);
        for key in keys.chain(tables).chain(FLOW_KEYS.iter().map(|key| format!("flow: {key}"))) {
            assert_eq!(TABLE.iter().filter(|row| row.key == key).count(), 1, "{key}");
        }
    }

    #[test]
    fn what_the_table_refuses_is_refused_by_name_and_what_it_takes_is_taken() {
        for row in TABLE {
            for world in World::ALL {
                assert_eq!(check(world, &setup(row.example)), Ok(()), "{} on {}", row.key, world.name());
                for refusal in row.refusals(world).iter().filter(|refusal| !refusal.example.is_empty()) {
                    let line = check(world, &setup(refusal.example)).expect_err(row.key);
                    assert!(line.starts_with(&format!("{}: ", row.key)), "{line}");
                    assert!(
                        line.contains(refusal.why) && line.contains("; use --on sim") && !line.contains('\n'),
                        "{line}"
                    );
                    assert!(!line.contains(&format!("--on {}", world.name())), "{line}");
                }
            }
        }
    }

    #[test]
    fn a_refusal_says_what_is_held_and_which_world_can() {
        assert_eq!(
            check(World::Uml, &setup(&["--ack-aggregation", "20ms"])).unwrap_err().split_once("; use ").unwrap().1,
            "--on sim or --on kernel"
        );
        assert_eq!(
            check(World::Kernel, &setup(&["--flow", "bbr1,iw=32"])).unwrap_err(),
            "flow: iw: bbr1#0 holds 32 segments: the kernel's initial window is 10 segments; use --on sim or --on uml"
        );
    }
}
