//! The emulator's table: `cargo run --release -p bbrlab-live --example bench`.
use std::time::Duration;

use bbrlab_core::{Rate, Span};
use bbrlab_lab::link::Buffer;
use bbrlab_lab::setup::Setup;
use bbrlab_live::kernel::bench::{bulk, pings};
use bbrlab_live::kernel::tun::Offload;

fn setup(mbit: u64, rtt_ms: u64) -> Setup {
    let rate = Rate(mbit * 1_000_000);
    let bdp = rate.bytes_in(Span::millis(rtt_ms));
    Setup::one_link(rate, Span::millis(rtt_ms), Buffer::Bytes(bdp.max(64 * 1514)), Span::secs(60), Vec::new())
}

fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(6);
    let only = std::env::args().nth(2).unwrap_or_default();
    if only.is_empty() || only == "ping" {
        let pings = pings(&setup(100, 20), 300, Duration::from_millis(3)).unwrap();
        let us = |q: f64| pings.rtt.quantile(q) / 1e3;
        println!("ping 20 ms: n {} p50 {:.1} p99 {:.1} max {:.1} µs", pings.rtt.count(), us(0.5), us(0.99), us(1.0));
        println!("  {}", pings.check.line());
    }
    for (mbit, offload, name) in [
        (100, Offload::Packets, "packets"),
        (1000, Offload::Packets, "packets"),
        (1000, Offload::SuperPackets, "tso"),
        (10_000, Offload::SuperPackets, "tso"),
    ] {
        if !only.is_empty() && only != format!("{mbit}{name}") {
            continue;
        }
        let done = bulk(&setup(mbit, 20), offload, "bbr", seconds).unwrap();
        println!("{mbit} Mbit/s {name}: goodput {:.1} Mbit/s", done.goodput_bps / 1e6);
        println!("  {}", done.check.line());
    }
}
