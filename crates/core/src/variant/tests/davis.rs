//! TCP Davis: its cycle over a pipe, its step, its slow start.
// SPDX-License-Identifier: Apache-2.0 OR MIT

extern crate std;

use std::vec::Vec;

use super::*;

/// A pipe of one packet per millisecond and 40 ms of delay: packets beyond 40 wait.
struct Pipe {
    flow: Davis,
    now_us: u64,
    delivered: u64,
    /// In 40ths of a packet.
    due: u64,
    /// Packets per millisecond.
    rate: u64,
}

impl Pipe {
    fn new() -> Self {
        let init = Init { srtt: Some(Span::micros(RTT_US)), ..Init::new(Time::ZERO).with_mss(1448).with_seed(1) };
        Self { flow: Davis::new(&DavisParams::default(), &init), now_us: 0, delivered: 0, due: 0, rate: 1 }
    }

    /// Runs one millisecond, in which as much arrives as window and pipe allow.
    fn tick(&mut self) {
        self.now_us += 1_000;
        let window = u64::from(self.flow.cwnd());
        let rtt_us = RTT_US.max(window * 1_000 / self.rate);
        self.due += window.min(40 * self.rate);
        self.delivered += self.due / 40;
        self.due %= 40;
        let mut ack = rtt_ack(self.now_us, rtt_us);
        ack.delivered = self.delivered;
        self.flow.on_ack(&ack);
    }

    fn until(&mut self, state: State) -> u64 {
        let since = self.now_us;
        while self.flow.state() != state {
            self.tick();
            assert!(self.now_us < since + 60_000_000, "never in {state:?}");
        }
        self.now_us - since
    }

    /// Creates a flow in the cycle, after slow start.
    fn cycling() -> Self {
        let mut pipe = Self::new();
        pipe.until(State::ProbeBwCruise);
        pipe
    }
}

#[test]
fn slow_start_grows_by_half_of_the_measured_bdp_until_that_stops_growing() {
    let mut pipe = Pipe::new();
    let (mut windows, mut last) = (Vec::new(), 0);
    while pipe.flow.state() == State::SlowStart {
        pipe.tick();
        if pipe.flow.cwnd() != last {
            last = pipe.flow.cwnd();
            windows.push(last);
        }
    }
    assert_eq!(windows.last(), Some(&4), "then the path is drained");
    let growing = &windows[..windows.len() - 1];
    assert!(growing.windows(2).all(|pair| pair[1] > pair[0]), "{windows:?}");
    assert!((58..=62).contains(growing.last().unwrap()), "1.5 BDP of 40 packets: {windows:?}");
}

#[test]
fn the_cycle_is_the_bdp_for_three_to_six_rtts_a_step_for_three_and_the_bdp_again() {
    let mut pipe = Pipe::cycling();
    for _ in 0..20 {
        pipe.until(State::ProbeBwCruise);
        let window = pipe.flow.cwnd();
        assert!((39..=41).contains(&window), "{window}");
        let stable = pipe.until(State::ProbeBwUp);
        assert!((3 * RTT_US..=7 * RTT_US).contains(&stable), "{stable}");
        assert_eq!(pipe.flow.cwnd(), window + 4, "the smallest step");
        let step = pipe.until(State::ProbeBwCruise);
        assert!((3 * RTT_US..=5 * RTT_US).contains(&step), "{step}");
    }
}

#[test]
fn a_wider_pipe_is_found_by_steps_as_large_as_the_last_change() {
    let mut pipe = Pipe::cycling();
    pipe.rate = 2;
    let since = pipe.now_us;
    while pipe.flow.cwnd() < 78 {
        pipe.tick();
        assert!(pipe.now_us < since + 10_000_000, "{}", pipe.flow.cwnd());
    }
}

#[test]
fn the_path_is_drained_when_the_smallest_rtt_is_ten_seconds_old() {
    let mut pipe = Pipe::cycling();
    // From here on, a packet of another flow waits in front of each of ours.
    let mut drained = None;
    while drained.is_none() && pipe.now_us < 40_000_000 {
        pipe.now_us += 1_000;
        pipe.delivered += 1;
        let mut ack = rtt_ack(pipe.now_us, 45_000);
        ack.delivered = pipe.delivered;
        pipe.flow.on_ack(&ack);
        drained = (pipe.flow.state() == State::Drain).then_some(pipe.now_us);
    }
    assert!(drained.is_some_and(|at| (10_000_000..13_000_000).contains(&at)), "{drained:?}");
    assert_eq!(pipe.flow.cwnd(), 4);
}

#[test]
fn equal_rtts_are_no_smaller_ones_so_the_path_is_drained_again() {
    let mut pipe = Pipe::cycling();
    let mut drains = 0;
    while pipe.now_us < 45_000_000 {
        pipe.until(State::ProbeBwUp);
        while !matches!(pipe.flow.state(), State::ProbeBwCruise | State::Drain) {
            pipe.tick();
        }
        drains += u32::from(pipe.flow.state() == State::Drain);
    }
    assert_eq!(drains, 4);
}

#[test]
fn slow_start_leaves_the_last_bdp_measured() {
    let mut pipe = Pipe::new();
    let mut windows = Vec::new();
    for rate in [10, 20, 15] {
        // Two RTTs of the step, and one of measuring at this rate of packets per 10 ms.
        for _ in 0..14 {
            pipe.now_us += 10_000;
            pipe.delivered += rate;
            let mut ack = rtt_ack(pipe.now_us, RTT_US);
            ack.delivered = pipe.delivered;
            pipe.flow.on_ack(&ack);
            windows.push(pipe.flow.cwnd());
        }
    }
    pipe.until(State::ProbeBwCruise);
    assert!(
        (59..=61).contains(&pipe.flow.cwnd()),
        "15 packets in 10 ms, 60 in 40 ms: {} after {windows:?}",
        pipe.flow.cwnd()
    );
}

#[test]
fn a_falling_bdp_never_enlarges_the_step() {
    let step = |reactivity: u32| {
        let p = DavisParams { reactivity, sensitivity: 128, ..DavisParams::default() };
        Davis::new(&p, &Init::new(Time::ZERO)).step_after(200, 100)
    };
    assert_eq!((step(1), step(129)), (step(129), 50));
}

#[test]
fn losses_change_nothing_but_an_undo_ends_slow_start() {
    let mut pipe = Pipe::new();
    let mut ack = rtt_ack(1_000, RTT_US);
    ack.rs.losses = 5;
    ack.ca_state = CaState::Recovery;
    pipe.flow.on_ack(&ack);
    assert_eq!((pipe.flow.cwnd(), pipe.flow.state()), (4, State::SlowStart));
    pipe.flow.on_undo(&ack);
    assert_eq!((pipe.flow.cwnd(), pipe.flow.state()), (4, State::Drain));
}

#[test]
fn a_time_out_leaves_the_hosts_window_until_the_next_ack() {
    let mut pipe = Pipe::cycling();
    pipe.flow.on_rto(&Ack::default(), true);
    assert_eq!(pipe.flow.cwnd(), 1);
    pipe.tick();
    assert_eq!(pipe.flow.cwnd(), 4);
    pipe.until(State::ProbeBwUp);
    assert!(pipe.flow.cwnd() > 40);
}
