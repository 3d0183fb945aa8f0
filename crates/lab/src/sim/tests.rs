use bbrlab_core::{AlgorithmConfig, Rate, Span, Time};

use super::*;
use crate::link::{AckAggregation, Buffer};
use crate::setup::{Capture, FlowSetup, HostSetup, PathSetup, Rwnd, Traffic};

/// One bottleneck of `mbit`, `rtt_ms`, `buffer` packets, with the named algorithms.
pub(crate) fn dumbbell(mbit: u64, rtt_ms: u64, buffer: u64, seconds: u64, algorithms: &[&str]) -> Setup {
    let flows = algorithms
        .iter()
        .enumerate()
        .map(|(index, name)| FlowSetup {
            name: format!("{name}#{index}"),
            algorithm: AlgorithmConfig::named(name).unwrap(),
            start: Time::ZERO,
            stop: None,
            rtt: None,
            links: (0, 1),
            access: None,
            mss: 1448,
            rwnd: Rwnd::Unlimited,
            traffic: Traffic::Bulk,
            host: HostSetup::default(),
        })
        .collect();
    Setup {
        duration: Time::ZERO + Span::secs(seconds),
        warmup: Time::ZERO,
        seed: 1,
        sample: None,
        capture: Capture::Off,
        links: vec![LinkConfig {
            service: Service::Rate(Rate(mbit * 1_000_000)),
            buffer: Buffer::Packets(buffer),
            aqm: Aqm::DropTail,
            policer: None,
            loss: Loss::None,
        }],
        bottleneck: 0,
        path: PathSetup {
            rtt: Span::millis(rtt_ms),
            jitter: Span::ZERO,
            jitter_reorders: false,
            reorder: 0.0,
            duplicate: 0.0,
            ack_loss: Loss::None,
            ack_aggregation: AckAggregation::None,
        },
        schedule: Vec::new(),
        flows,
    }
}

#[test]
fn print_some() {
    for (mbit, rtt, buffer, secs, algos, loss) in [
        (10, 40, 267, 20, vec!["bbr1"], 0.0),
        (10, 40, 267, 20, vec!["cubic"], 0.0),
        (10, 40, 267, 20, vec!["reno"], 0.0),
        (100, 10, 333, 20, vec!["bbr1"; 5], 0.0),
        (100, 100, 41, 20, vec!["bbr1"; 6], 0.0),
        (100, 100, 41, 20, vec!["cubic"; 6], 0.0),
        (100, 100, 1000, 20, vec!["bbr1"], 0.01),
        (100, 100, 1000, 20, vec!["bbr1"], 0.15),
        (100, 100, 1000, 20, vec!["cubic"], 0.001),
    ] {
        let mut setup = dumbbell(mbit, rtt, buffer, secs, &algos);
        if loss > 0.0 {
            setup.links[0].loss = Loss::Bernoulli(loss);
        }
        let output = run(&setup);
        let r = &output.result;
        let total: f64 = r.flows.iter().map(|f| f.goodput_bps).sum::<f64>() / 1e6;
        eprintln!(
            "{mbit} {rtt} {buffer} {}x{} loss {loss}: {total:.2} Mbit/s util {:.3} drop {:.4} retr {:.4} rtt p50 {:.1} mean {:.1} q p50 {:.2} jain {:.3} rto {} events/pkt {:.2}",
            algos.len(),
            algos[0],
            r.bottleneck.utilisation,
            r.bottleneck.drop_ratio,
            r.flows[0].retransmit_ratio,
            r.flows[0].rtt_ms.p50,
            r.flows[0].rtt_ms.mean,
            r.bottleneck.queue_ms.p50,
            r.jain,
            r.flows[0].rto,
            r.events as f64 / r.packets as f64
        );
    }
}
