//! Guarantees for a host that has only bytes and the newest packet.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::app::App;
use super::link::Shape;
use super::smallest::Smallest;
use bbrlab_core::{ALGORITHMS, Rate, Span};

const LOSSY: Shape = Shape { loss_ppm: 10_000, ..Shape::CLEAN };

fn every(shape: Shape, app: App, span: Span, size: u32) -> Vec<Smallest> {
    let run = |name| {
        let mut host = Smallest::new(name, shape, app);
        host.size = size;
        host.run(span)
    };
    ALGORITHMS.iter().map(|info| run(info.name)).collect()
}

fn utilisation(host: &Smallest) -> u64 {
    host.arrived * 100 / Shape::CLEAN.rate.bytes_in(host.now.since(bbrlab_core::Time::ZERO))
}

#[test]
fn bytes_and_the_newest_packet_suffice_to_fill_a_clean_link() {
    for host in every(Shape::CLEAN, App::Bulk, Span::secs(10), 1_200) {
        let min = match host.name {
            "fixed" => 1,
            "davis" => 10,
            _ => 85,
        };
        assert!(utilisation(&host) >= min, "{}: {} %", host.name, utilisation(&host));
    }
}

#[test]
fn bytes_and_the_newest_packet_suffice_for_every_promise_under_loss_and_reordering() {
    let reordering = Shape { reorder_ppm: 5_000, reorder_by: Span::millis(8), ..Shape::CLEAN };
    for shape in [LOSSY, Shape { loss_ppm: 20_000, ..reordering }] {
        for host in every(shape, App::Bulk, Span::secs(5), 1_200) {
            assert!(host.lost > 0, "{}: nothing was lost", host.name);
        }
    }
}

#[test]
fn bytes_and_the_newest_packet_suffice_for_every_promise_while_the_application_pauses() {
    let pauses = App::OnOff { on: Span::millis(700), off: Span::millis(1_500) };
    for app in [pauses, App::Limited(Rate::bits_per_sec(3_000_000))] {
        every(LOSSY, app, Span::secs(6), 1_200);
    }
}

#[test]
fn small_packets_of_which_only_bytes_are_known_break_no_promise() {
    every(LOSSY, App::Bulk, Span::secs(3), 200);
}

#[test]
fn the_bandwidth_estimate_of_bytes_alone_stays_below_the_link() {
    for (name, size) in [("bbr1", 1_200), ("bbr3", 1_200), ("bbr3-linux", 1_200), ("bbr3", 200)] {
        let mut host = Smallest::new(name, LOSSY, App::Bulk);
        host.size = size;
        host.most_bw = Some(Rate::bits_per_sec(20_800_000));
        let host = host.run(Span::secs(8));
        assert!(utilisation(&host) >= 50, "{name} in packets of {size} bytes: {} %", utilisation(&host));
    }
}

#[test]
fn random_loss_of_one_per_cent_costs_bbr_little_even_where_little_is_known() {
    for (name, min) in [("bbr1", 85), ("bbr3", 60), ("bbr3-linux", 60)] {
        let host = Smallest::new(name, LOSSY, App::Bulk).run(Span::secs(20));
        assert!(utilisation(&host) >= min, "{name}: {} %", utilisation(&host));
    }
}
