//! BBR-APG: the effect of buffer and loss on the gains of probing.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;

/// A part that runs the cycle with this queue, and optionally loses packets while probing.
struct Cycle {
    part: Apg,
    now_us: u64,
}

impl Cycle {
    fn new() -> Self {
        Self { part: Apg::new(&ApgParams::default()), now_us: 1_000_000 }
    }

    /// Runs one cycle: a probe with `probe_rtt_us` and `losses`, its draining, six calm phases with `rtt_us`, and the
    /// next phase of probing.
    fn run(&mut self, probe_rtt_us: u64, losses: u64, rtt_us: u64) -> (u32, u32) {
        for phase in [0, 1, 2, 3, 4, 5, 6, 7, 0, 1] {
            let is_probe = phase < 2;
            let mut ack = rtt_ack(self.now_us, if is_probe { probe_rtt_us } else { rtt_us });
            ack.rs.losses = if phase == 0 { losses } else { 0 };
            self.part.observe(&seen(&ack, Some(phase)));
            self.now_us += RTT_US;
        }
        (self.part.gain_up(320), self.part.gain_down(192))
    }
}

#[test]
fn without_a_loss_the_gains_are_bbrv1s() {
    assert_eq!(Cycle::new().run(50_000, 0, RTT_US), (320, 192));
}

#[test]
fn after_a_probe_that_lost_packets_the_next_one_is_smaller_and_so_is_its_draining() {
    let mut cycle = Cycle::new();
    let before = cycle.run(50_000, 0, RTT_US);
    let (up, down) = cycle.run(50_000, 3, RTT_US);
    assert!(up < before.0 && down > before.1 && up + down == 512, "{up} {down}");
}

#[test]
fn a_full_buffer_leaves_the_smallest_probe() {
    let mut cycle = Cycle::new();
    cycle.run(80_000, 3, 80_000);
    assert_eq!(cycle.run(80_000, 3, 80_000).0, 269);
}

#[test]
fn a_queue_of_more_than_a_quarter_bdp_is_drained_by_its_own_size() {
    let mut cycle = Cycle::new();
    assert_eq!(cycle.run(56_000, 0, 56_000).1, 256 - 102, "a queue of 0.4 BDP");
    assert_eq!(cycle.run(120_000, 0, 120_000).1, 128, "never below one half");
}

#[test]
fn a_loss_is_forgotten_after_ten_seconds() {
    let mut cycle = Cycle::new();
    assert!(cycle.run(50_000, 3, 45_000).0 < 320);
    cycle.now_us += 10_000_000;
    cycle.run(50_000, 0, 45_000);
    assert_eq!(cycle.run(50_000, 0, 45_000).0, 320);
}

#[test]
fn probing_never_stops_being_probing_nor_draining_draining() {
    let mut rng = crate::Rng::new(3);
    let mut cycle = Cycle::new();
    for _ in 0..2_000 {
        let (up, down) = cycle.run(rng.below(1 << 30), rng.below(3), rng.below(1 << 20));
        assert!(up > 256 && (128..256).contains(&down), "{up} {down}");
    }
}
