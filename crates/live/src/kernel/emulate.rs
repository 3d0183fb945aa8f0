//! `bbrlab emulate` on this host's kernel: runs a command behind a path and reports on both.
//! Nothing of ours is written to the command's standard streams.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Time;
use bbrlab_sim::link::{AckAggregation, Loss, Service};
use bbrlab_sim::metrics::QueueDelay;
use bbrlab_sim::path::{FlowSharing, Path, SojournTime};
use bbrlab_sim::record::summary::NS_TO_MS;
use bbrlab_sim::setup::{ChangeKind, Setup};
use serde::{Deserialize, Serialize};

use super::command::CommandSpec;
use super::emulator::EmulatorConfig;
use super::packet::Packet;
use super::relay::{EmulatedPath, LEFTWARD, Observer, RIGHTWARD};
use super::run::link_seen;
use super::self_check::SelfCheck;
use super::testbed::{Environment, Testbed};
use super::tun::Offload;
use crate::link_report::{LinkReport, Way};
use crate::{Error, Result};
use crate::{clock, wire};

/// Rate from which hosts hand over super-packets: single packets would saturate a core. Ours.
const SUPER_FROM_BPS: u64 = 1_500_000_000;
/// MTU of the devices. Source: Ethernet.
pub const MTU: u32 = 1500;

/// Direction of the data, and so of the bottleneck; the other direction carries the ACKs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// Each direction has a bottleneck of its own; with a link of `up`, that is the one from the command to the server.
    #[default]
    Both,
    /// From the server to the command.
    Down,
    /// From the command to the server.
    Up,
}

/// Input of [`emulate`].
#[derive(Clone, Debug)]
pub struct EmulateRequest {
    /// The path; its flows are ignored.
    pub setup: Setup,
    /// Direction that has the bottleneck.
    pub direction: Direction,
    /// Size of the packets that the hosts hand over; chosen by the rate if `None`.
    pub offload: Option<Offload>,
    /// Congestion control of both hosts, by the kernel's name.
    pub cc: Option<String>,
    pub command: CommandSpec,
}

/// Result of [`emulate`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The command's exit status.
    pub status: i32,
    /// Run time of the command, seconds.
    pub wall_s: f64,
    /// The bottleneck of each direction that has one: down, then up.
    pub links: Vec<LinkReport>,
    /// The emulator's self-check.
    pub self_check: SelfCheck,
    pub environment: Environment,
}

/// Runs a command behind the path.
pub fn emulate(job: EmulateRequest) -> Result<Report> {
    let mut setup = job.setup;
    setup.flows.clear();
    check(&setup, job.direction)?;
    let offload = job.offload.unwrap_or_else(|| offload_for(&setup));
    let testbed = Testbed::new(offload, MTU)?;
    let notes = testbed.tune();
    if let Some(cc) = &job.cc {
        testbed.set_congestion_control(cc)?;
    }
    let environment = testbed.environment(notes);
    let keeper = job.command.prepare(&testbed)?;
    let start_ns = clock::now_ns();
    let plan = EmulatorConfig { start_ns, end: Time::NEVER, sample: None, offload, mtu: MTU, punctual: false };
    let running = testbed.start(plan, path(&setup, job.direction), LinkObserver::default())?;
    let status = keeper.run();
    let wall_s = (clock::now_ns() - start_ns) as f64 / 1e9;
    let (LinkObserver { links, .. }, self_check) = testbed.finish(running, true, setup.path.rtt)?;
    Ok(Report { status: status?, wall_s, links, self_check, environment })
}

/// Rejects path settings that make no sense with these bottlenecks.
pub fn check(setup: &Setup, direction: Direction) -> Result<()> {
    let path = &setup.path;
    let changes_acks = setup.schedule.iter().any(|change| matches!(change.what, ChangeKind::AckLoss(_)));
    let has_acks = path.ack_loss != Loss::None || path.ack_aggregation != AckAggregation::None || changes_acks;
    if has_acks && direction == Direction::Both {
        return Err(Error::NoAckDirection);
    }
    Ok(())
}

/// Chooses the offload for these rates.
pub fn offload_for(setup: &Setup) -> Offload {
    let fast = |service: &Service| service.nominal_rate().as_bits_per_sec() >= SUPER_FROM_BPS;
    if setup.links.iter().chain(setup.up.as_deref()).all(|link| fast(&link.service)) {
        Offload::SuperPackets
    } else {
        Offload::Packets
    }
}

fn path(setup: &Setup, direction: Direction) -> EmulatedPath {
    let users = FlowSharing { unknown_flows: true, per_flow_delay: false };
    match direction {
        Direction::Both => Path::both_ways(setup, users),
        Direction::Up => Path::new(setup, users),
        Direction::Down => Path::reversed(setup, users),
    }
}

/// Counts what each bottleneck does, and classifies flows by addresses and ports, for disciplines with per-flow queues.
#[derive(Default)]
struct LinkObserver {
    delays: [QueueDelay; 2],
    links: Vec<LinkReport>,
}

impl Observer for LinkObserver {
    fn flow_of(&mut self, _way: usize, packet: &[u8]) -> u32 {
        wire::flow_hash(packet)
    }

    fn on_left(&mut self, direction: usize, at: Time, _packet: &Packet, stayed: SojournTime, _lost: bool) {
        self.delays[direction].on_left(at, stayed.waited, stayed.service);
    }

    fn on_end(&mut self, now: Time, path: &EmulatedPath) {
        for (way, one_way, index) in [(Way::Down, &path.reverse, LEFTWARD), (Way::Up, &path.forward, RIGHTWARD)] {
            if !one_way.links().is_empty() {
                let queue_ms = self.delays[index].distribution(now, NS_TO_MS);
                self.links.push(LinkReport::of(way, &link_seen(one_way.bottleneck()), Some(queue_ms)));
            }
        }
    }
}
