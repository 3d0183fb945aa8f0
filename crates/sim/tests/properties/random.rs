//! Random scenarios over every feature of links, paths, flows and hosts.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::Arc;

use bbrlab_core::{ALGORITHMS, AlgorithmConfig, Rate, Rng, Span, Time};
use bbrlab_sim::apps::call::CallSetup;
use bbrlab_sim::apps::page::PageSetup;
use bbrlab_sim::apps::video::{AbrRule, VideoSetup};
use bbrlab_sim::link::{
    AckAggregation, Aqm, Buffer, Cake, Codel, DeliveryTrace, Demand, FlowClass, Fq, FqCodel, LinkConfig, Loss, Pie,
    Policer, Red, Service, Tins,
};
use bbrlab_sim::setup::{
    AccessSetup, AckEvery, Change, ChangeKind, FlowSetup, HostSetup, PathSetup, Rwnd, Setup, Traffic,
};

/// Maximum number of packets that the bottleneck carries in one scenario; the duration follows from it.
const PACKETS: f64 = 60_000.0;

struct Dice(Rng);

impl Dice {
    fn one_in(&mut self, n: u64) -> bool {
        self.0.below(n) == 0
    }

    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws a log-uniform number.
    fn log(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    fn span(&mut self, low: Span, high: Span) -> Span {
        Span::nanos(self.log(low.as_nanos() as f64, high.as_nanos() as f64) as u64)
    }

    fn loss(&mut self) -> Loss {
        match self.0.below(8) {
            0 => Loss::Bernoulli(self.log(1e-4, 0.3)),
            1 => Loss::GilbertElliott {
                p: self.log(1e-3, 0.1),
                r: self.log(0.05, 1.0),
                loss_bad: self.unit(),
                loss_good: self.log(1e-5, 1e-2),
            },
            _ => Loss::None,
        }
    }

    fn buffer(&mut self, rate: f64, rtt: Span) -> Buffer {
        let bdp = (rate / 8.0 * rtt.as_nanos() as f64 / 1e9).max(1514.0);
        match self.0.below(4) {
            0 => Buffer::Packets(self.between(1, 20)),
            1 => Buffer::Packets((bdp / 1514.0 * self.log(0.05, 8.0)).max(1.0) as u64),
            _ => Buffer::Bytes((bdp * self.log(0.05, 8.0)).max(1514.0) as u64),
        }
    }

    fn aqm(&mut self) -> Aqm {
        let ecn = self.one_in(2);
        let ce_threshold = self.one_in(4).then(|| self.span(Span::micros(100), Span::millis(20)));
        let codel = Codel {
            target: self.span(Span::micros(100), Span::millis(50)),
            interval: self.span(Span::millis(5), Span::millis(500)),
            ecn,
            ce_threshold,
            ce_only_ect_1: self.one_in(3),
        };
        match self.0.below(10) {
            0 => {
                let min = self.between(1_600, 100_000);
                Aqm::Red(Red {
                    min,
                    max: min * self.between(2, 4),
                    probability: self.log(0.01, 0.5),
                    wlog: self.between(1, 12) as u32,
                    gentle: self.one_in(2),
                    ecn,
                })
            }
            1 => Aqm::Codel(codel),
            2 => Aqm::FqCodel(FqCodel {
                codel,
                flows: self.between(1, 2048) as u32,
                quantum: self.between(64, 4000) as u32,
            }),
            3 => Aqm::Pie(Pie {
                target: self.span(Span::millis(1), Span::millis(50)),
                tupdate: self.span(Span::millis(1), Span::millis(50)),
                alpha: self.log(0.02, 1.0),
                beta: self.log(0.2, 5.0),
                max_burst: self.span(Span::millis(1), Span::millis(300)),
                ecn,
            }),
            4 => Aqm::Fq(Fq {
                flow_limit: self.between(1, 200) as u32,
                quantum: self.between(64, 4000) as u32,
                initial_quantum: self.between(64, 20_000) as u32,
                ce_threshold,
                flows: [0, 34, 36].map(|dscp| FlowClass { dscp, host: 0 }).into(),
            }),
            5 => Aqm::Cake(Cake {
                tins: [Tins::BestEffort, Tins::Diffserv3, Tins::Diffserv4][self.0.below(3) as usize],
                host_fairness: self.one_in(2),
                interval: codel.interval,
                target: codel.target,
                packet_bytes: 1514,
                flows: (0..4)
                    .map(|_| FlowClass { dscp: self.0.below(64) as u8, host: self.0.below(3) as u32 })
                    .collect(),
            }),
            _ => Aqm::DropTail,
        }
    }

    fn service(&mut self, rate: f64) -> Service {
        match self.0.below(12) {
            0 => {
                // About one opportunity in 12 kbit / rate, unevenly spaced.
                let count = (rate * 0.2 / 12_000.0).clamp(1.0, 5_000.0) as u64;
                let mut at: Vec<u64> = (0..count).map(|_| self.between(0, 200)).collect();
                at.push(200);
                at.sort_unstable();
                let text: String = at.iter().map(|ms| format!("{ms}\n")).collect();
                Service::Trace(Arc::new(DeliveryTrace::parse(&text).expect("a legal trace")))
            }
            1 => Service::Demand(Demand {
                min: Rate::bits_per_sec((rate / 10.0).max(1_000.0) as u64),
                max: Rate::bits_per_sec(rate as u64),
                steps: self.between(1, 20) as u32,
                period: self.span(Span::millis(1), Span::millis(500)),
                up_backlog: self.span(Span::micros(100), Span::millis(100)),
            }),
            _ => Service::Rate(Rate::bits_per_sec(rate as u64)),
        }
    }

    fn link(&mut self, rate: f64, rtt: Span) -> LinkConfig {
        let policer = self.one_in(8).then(|| Policer {
            rate: Rate::bits_per_sec((rate * self.log(0.2, 1.2)) as u64),
            burst: self.between(3_000, 300_000),
        });
        LinkConfig {
            service: self.service(rate),
            buffer: self.buffer(rate, rtt),
            aqm: self.aqm(),
            policer,
            loss: self.loss(),
            ack_filter: false,
        }
    }

    /// A link of the reverse direction, slower than the bottleneck.
    fn up(&mut self, rate: f64, rtt: Span) -> LinkConfig {
        let rate = rate * self.log(0.01, 1.0);
        let filtered = self.one_in(2);
        let link =
            LinkConfig { service: Service::Rate(Rate::bits_per_sec(rate.max(1_000.0) as u64)), ..self.link(rate, rtt) };
        if filtered { LinkConfig { aqm: Aqm::DropTail, ack_filter: true, ..link } } else { link }
    }

    fn path(&mut self, rtt: Span) -> PathSetup {
        PathSetup {
            rtt,
            jitter: if self.one_in(4) {
                self.span(Span::micros(1), Span::nanos(rtt.as_nanos().max(2_000)))
            } else {
                Span::ZERO
            },
            jitter_reorders: self.one_in(2),
            reorder: if self.one_in(6) { self.log(1e-3, 0.2) } else { 0.0 },
            duplicate: if self.one_in(6) { self.log(1e-3, 0.2) } else { 0.0 },
            ack_loss: self.loss(),
            ack_aggregation: match self.0.below(8) {
                0 => AckAggregation::Time(self.span(Span::micros(100), Span::millis(100))),
                1 => AckAggregation::Bytes(self.between(1_500, 200_000)),
                _ => AckAggregation::None,
            },
        }
    }

    fn schedule(&mut self, duration: Time, rate: f64, rtt: Span, links: &[LinkConfig]) -> Vec<Change> {
        let count = if self.one_in(3) { self.between(1, 6) } else { 0 };
        let mut times: Vec<Time> = (0..count).map(|_| Time::nanos(self.0.below(duration.as_nanos()))).collect();
        times.sort_unstable();
        let change = |at| {
            let link = self.0.below(links.len() as u64) as usize;
            let fixed = matches!(links[link].service, Service::Rate(_));
            let what = match self.0.below(5) {
                0 | 1 if fixed && self.one_in(4) => ChangeKind::Rate(Rate::bits_per_sec(self.between(1, 1_000))),
                0 | 1 if fixed => ChangeKind::Rate(Rate::bits_per_sec((rate * self.log(0.05, 2.0)).max(1.0) as u64)),
                2 => ChangeKind::Buffer(self.buffer(rate, rtt)),
                3 => ChangeKind::Rtt(Span::nanos((rtt.as_nanos() as f64 * self.log(0.1, 10.0)).clamp(1e3, 3e9) as u64)),
                4 => ChangeKind::AckLoss(self.loss()),
                _ => ChangeKind::Loss(self.loss()),
            };
            Change { at, link, what }
        };
        times.into_iter().map(change).collect()
    }

    fn traffic(&mut self, rate: f64, duration: Time) -> Traffic {
        let volume = rate / 8.0 * duration.as_nanos() as f64 / 1e9;
        match self.0.below(11) {
            0 => Traffic::Size(self.between(1, 3)),
            1 => Traffic::Size((volume * self.log(0.001, 1.0)).max(1.0) as u64),
            2 => Traffic::OnOff {
                on: self.span(Span::millis(1), Span::secs(3)),
                off: self.span(Span::millis(1), Span::secs(3)),
            },
            3 => Traffic::Rate {
                rate: Rate::bits_per_sec((rate * self.log(0.01, 2.0)).max(1.0) as u64),
                tick: self.span(Span::millis(1), Span::millis(200)),
                unit: 1,
            },
            4 => Traffic::RequestResponse {
                size: self.log(1.0, 1e6) as u64,
                think: self.span(Span::micros(100), Span::secs(1)),
            },
            7 => Traffic::Page(PageSetup {
                objects: self.between(1, 200) as u32,
                size: self.log(1.0, 1e5) as u64,
                pause: self.one_in(2).then(|| self.span(Span::micros(1), Span::secs(1))),
            }),
            5 => Traffic::Call(CallSetup {
                size: self.log(1.0, 1e5) as u64,
                interval: self.span(Span::millis(1), Span::millis(200)),
                deadline: self.span(Span::millis(1), Span::secs(1)),
            }),
            6 => {
                let segment = self.span(Span::millis(100), Span::secs(5));
                let lowest = (rate * self.log(0.01, 2.0)).max(8.0) as u64;
                Traffic::Video(Arc::new(VideoSetup {
                    bitrates: (1..=self.between(1, 6)).map(|n| Rate::bits_per_sec(lowest * n)).collect(),
                    segment,
                    buffer: self.span(segment, Span::secs(60)),
                    rule: AbrRule::ALL[self.0.below(2) as usize],
                    is_live: self.one_in(3),
                }))
            }
            _ => Traffic::Bulk,
        }
    }

    fn host(&mut self) -> HostSetup {
        HostSetup {
            pacing: self.one_in(3),
            tso_max: if self.one_in(3) { self.between(1, 200_000) as u32 } else { 65_536 },
            gro: self.one_in(4).then(|| self.span(Span::micros(1), Span::millis(2))),
            delayed_ack: self.one_in(2).then(|| self.span(Span::millis(1), Span::millis(200))),
            ecn: self.one_in(2),
            initial_cwnd: if self.one_in(3) { self.between(1, 100) as u32 } else { 10 },
            ack: self.one_in(6).then(|| AckEvery {
                packets: self.between(1, 100) as u32,
                delay: self.span(Span::millis(1), Span::millis(200)),
            }),
            ..HostSetup::default()
        }
    }

    fn flow(&mut self, index: usize, setup: &Setup, rate: f64) -> FlowSetup {
        let name = ALGORITHMS[self.0.below(ALGORITHMS.len() as u64) as usize].name;
        let start = if self.one_in(2) { Time::ZERO } else { Time::nanos(self.0.below(setup.duration.as_nanos() / 2)) };
        let links = setup.links.len();
        let first = self.0.below(links as u64) as usize;
        let last = first + 1 + self.0.below((links - first) as u64) as usize;
        let access_rate = rate * self.log(0.5, 20.0);
        let mss = if self.one_in(3) { self.between(64, 9_000) as u32 } else { 1_448 };
        FlowSetup {
            name: format!("{name}#{index}"),
            algorithm: AlgorithmConfig::named(name).expect("a listed algorithm exists"),
            peer: None,
            external: None,
            is_tcp: false,
            start,
            stop: self.one_in(6).then(|| start + Span::nanos(1 + self.0.below(setup.duration.as_nanos()))),
            rtt: self.one_in(4).then(|| self.span(Span::micros(1), Span::secs(1))),
            links: if self.one_in(3) { (first, last) } else { (0, links) },
            access: self.one_in(5).then(|| AccessSetup {
                rate: Rate::bits_per_sec(access_rate as u64),
                rtt: self.span(Span::micros(1), Span::millis(50)),
                buffer: self.buffer(access_rate, setup.path.rtt),
            }),
            mss,
            rwnd: match self.0.below(6) {
                0 => Rwnd::Fixed(self.log(1.0, 1e7) as u64),
                1 => Rwnd::Auto(self.log(1.0, 1e7) as u64),
                _ => Rwnd::Unlimited,
            },
            is_upload: false,
            deadline: self.one_in(2).then_some(Span::millis(100)),
            traffic: self.traffic(rate, setup.duration),
            host: self.host(),
            dscp: 0,
            shared_host: None,
        }
    }
}

/// Returns the scenario of this number.
pub fn setup(seed: u64, case: u64) -> Setup {
    let mut dice = Dice(Rng::derive(seed, case));
    let rate = dice.log(1e4, 1e9);
    let rtt = dice.span(Span::micros(1), Span::secs(2));
    let seconds = (PACKETS * 12_112.0 / rate).max(10.0 * rtt.as_nanos() as f64 / 1e9).clamp(0.05, 30.0);
    let duration = Time::nanos((seconds * 1e9) as u64);
    let links: Vec<_> = (0..if dice.one_in(4) { dice.between(2, 4) } else { 1 })
        .map(|_| {
            let share = dice.log(0.5, 2.0);
            dice.link(rate * share, rtt)
        })
        .collect();
    let mut setup = Setup {
        duration,
        warmup: if dice.one_in(3) { Time::nanos(dice.0.below(duration.as_nanos())) } else { Time::ZERO },
        seed: dice.0.next_u64(),
        probe: None,
        up: None,
        sample: dice.one_in(2).then(|| Span::nanos(duration.as_nanos() / 50 + 1)),
        bottleneck: dice.0.below(links.len() as u64) as usize,
        schedule: dice.schedule(duration, rate, rtt, &links),
        capture: bbrlab_sim::setup::Capture::Off,
        links,
        path: dice.path(rtt),
        flows: Vec::new(),
    };
    for index in 0..dice.between(1, 5) as usize {
        let flow = dice.flow(index, &setup, rate);
        setup.flows.push(flow);
    }
    if setup.path.ack_aggregation == AckAggregation::None && dice.one_in(3) {
        setup.up = Some(Box::new(dice.up(rate, rtt)));
        for flow in setup.flows.iter_mut().filter(|flow| flow.access.is_none()) {
            flow.is_upload = dice.one_in(3);
        }
        if dice.one_in(3) {
            let at = Time::nanos(dice.0.below(duration.as_nanos()));
            let up_rate = (rate * dice.log(0.01, 1.0)).max(1.0);
            let what = match dice.one_in(2) {
                true => ChangeKind::Rate(Rate::bits_per_sec(up_rate as u64)),
                false => ChangeKind::Buffer(dice.buffer(up_rate, rtt)),
            };
            let place = setup.schedule.partition_point(|change| change.at <= at);
            setup.schedule.insert(place, Change { at, link: setup.links.len(), what });
        }
    }
    setup.probe = dice.one_in(4).then(|| dice.span(Span::millis(1), Span::millis(100)));
    setup
}

/// Summarises a scenario, close to the arguments of `bbrlab run`.
pub fn describe(setup: &Setup) -> String {
    let link = &setup.links[setup.bottleneck];
    let rate = link.service.nominal_rate().as_bits_per_sec();
    let flows: Vec<_> = setup
        .flows
        .iter()
        .map(|flow| format!("--flow {}@{}ns", flow.algorithm.name(), flow.start.as_nanos()))
        .collect();
    format!(
        "about: bbrlab run --rate {rate}bit --rtt {}ns --duration {}ns --seed {} {}",
        setup.path.rtt.as_nanos(),
        setup.duration.as_nanos(),
        setup.seed,
        flows.join(" ")
    )
}
