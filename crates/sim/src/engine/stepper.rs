//! A simulation that its caller advances, reads in between, and ends.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Time;

use super::Simulation;
use super::capture::Capture;
use super::watch::{FlowView, PacketEvent, Watch};
use crate::path::FlowSharing;
use crate::record::Output;
use crate::record::trace::LinkTrace;
use crate::setup::{Change, Setup};

/// A simulation that is advanced step by step. Its result equals that of [`super::run`].
pub struct Stepper<'a>(Simulation<'a>);

impl<'a> Stepper<'a> {
    /// Creates a simulation at time zero.
    pub fn new(setup: &'a Setup) -> Self {
        let mut stepper = Self::ahead(setup);
        stepper.0.delivers_ahead = false;
        stepper
    }

    /// Creates a faster one, whose receivers may be ahead of its clock.
    pub fn ahead(setup: &'a Setup) -> Self {
        let mut simulation = Simulation::new(setup, None);
        simulation.plan_ahead();
        Self(simulation)
    }

    /// Creates a simulation that reports every packet's events, and whose schedule may change.
    pub fn watched(setup: &'a Setup) -> Self {
        let users = FlowSharing { unknown_flows: false, per_flow_delay: true };
        let mut simulation = Simulation::shared(setup, None, users);
        simulation.capture = Some(Capture::watching());
        Self(simulation)
    }

    /// Packet events since the last call, of a simulation from [`Self::watched`].
    pub fn take_events(&mut self) -> Vec<PacketEvent> {
        let watch = self.0.capture.as_mut().and_then(|capture| capture.watch.as_mut());
        watch.map(Watch::take).unwrap_or_default()
    }

    /// Replaces the changes of the path that are still to come, of a simulation from [`Self::watched`].
    pub fn reschedule(&mut self, schedule: Vec<Change>) {
        let simulation = &mut self.0;
        simulation.path.reschedule(simulation.now, schedule);
        simulation.plan_control();
    }

    /// Time of the next event.
    pub fn next_time(&self) -> Time {
        let Simulation { path, timers, .. } = &self.0;
        path.forward.next().min(path.reverse.next()).min(timers.earliest())
    }

    /// State of a flow now.
    pub fn flow(&self, flow: usize) -> FlowView {
        let Simulation { path, flows, .. } = &self.0;
        FlowView::of(&flows[flow], path.forward.delay_of(flow), path.reverse.delay_of(flow))
    }

    /// Counters of the bottleneck now, as one sample of its series.
    pub fn bottleneck(&mut self) -> LinkTrace {
        self.0.path.forward.settle(self.0.now);
        let mut sample = LinkTrace::default();
        sample.sample(self.0.path.forward.bottleneck());
        sample
    }

    /// Handles every event up to and including `until`, at most to the setup's end. Does nothing for a time in the past.
    pub fn step_until(&mut self, until: Time) {
        let simulation = &mut self.0;
        let until = until.min(simulation.setup.duration);
        if until > simulation.now && !simulation.is_over {
            simulation.run_until(until);
            if !simulation.is_over {
                simulation.now = until;
            }
        }
    }

    /// Current time.
    pub const fn now(&self) -> Time {
        self.0.now
    }

    /// True at the setup's end, or once the last list of objects is complete.
    pub fn is_over(&self) -> bool {
        self.0.is_over || self.0.now >= self.0.setup.duration
    }

    /// Unique payload bytes that have reached the flow's receiver, with [`Self::new`] up to now.
    pub fn received_bytes(&self, flow: usize) -> u64 {
        self.0.flows[flow].receiver.bytes
    }

    /// Packets waiting or being sent at the bottleneck.
    pub fn queue_packets(&mut self) -> u32 {
        self.0.path.forward.settle(self.0.now);
        self.0.path.forward.bottleneck().queue_packets()
    }

    /// Segments that the flow has marked lost.
    pub fn lost(&self, flow: usize) -> u64 {
        self.0.flows[flow].sender.stats.lost
    }

    /// Runs to the end and returns the results.
    pub fn finish(mut self) -> Output {
        self.0.run();
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use bbrlab_core::{AlgorithmConfig, Rate, Span};

    use super::*;
    use crate::engine::run;
    use crate::engine::watch::Stage;
    use crate::link::{Buffer, Loss};
    use crate::setup::{Change, ChangeKind, FlowSetup};
    use crate::tcp::{AckEvent, External, ExternalControl, Steering};

    fn setup(flows: &[&str]) -> Setup {
        let flow = |(index, name): (usize, &&str)| {
            FlowSetup::bulk(format!("{name}#{index}"), AlgorithmConfig::named(name).unwrap())
        };
        let flows = flows.iter().enumerate().map(flow).collect();
        let rate = Rate::bits_per_sec(20_000_000);
        Setup {
            sample: Some(Span::millis(10)),
            ..Setup::one_link(rate, Span::millis(20), Buffer::Packets(60), Span::secs(5), flows)
        }
    }

    #[test]
    fn a_run_in_steps_equals_one_in_a_piece() {
        let setup = setup(&["bbr3", "cubic"]);
        let mut stepper = Stepper::new(&setup);
        let mut received = 0;
        while !stepper.is_over() {
            stepper.step_until(stepper.now() + Span::micros(37_123));
            assert!(stepper.received_bytes(0) >= received && stepper.queue_packets() <= 61);
            received = stepper.received_bytes(0);
        }
        let (mut steps, whole) = (stepper.finish(), run(&setup));
        steps.result.events = whole.result.events;
        assert_eq!((steps.result, steps.trace), (whole.result, whole.trace));
    }

    #[test]
    fn a_watched_run_changed_on_the_way_equals_one_with_that_schedule() {
        let plain = setup(&["bbr3", "cubic"]);
        let change = |at_ms, what| Change { at: Time::ZERO + Span::millis(at_ms), link: 0, what };
        let mut scheduled = plain.clone();
        scheduled.schedule = vec![
            change(1_000, ChangeKind::Rate(Rate::bits_per_sec(8_000_000))),
            change(2_500, ChangeKind::Rtt(Span::millis(50))),
        ];
        let mut stepper = Stepper::watched(&plain);
        let mut drops = 0;
        for (until_ms, known) in [(900, 1), (2_400, 2), (5_000, 2)] {
            stepper.reschedule(scheduled.schedule[..known].to_vec());
            stepper.step_until(Time::ZERO + Span::millis(until_ms));
            drops += stepper.take_events().iter().filter(|event| event.stage == Stage::Refused).count();
        }
        assert_eq!(drops as u64, stepper.bottleneck().drops[0]);
        let (mut steps, whole) = (stepper.finish(), run(&scheduled));
        steps.result.events = whole.result.events;
        assert_eq!((steps.result, steps.trace), (whole.result, whole.trace));
    }

    /// A window of the path's BDP, paced at the link's rate.
    struct Ideal {
        acks: u64,
    }

    impl ExternalControl for Ideal {
        fn on_start(&mut self, _now: Time, mss: u32) -> Steering {
            assert_eq!(mss, 1448);
            Steering { cwnd: 10, pacing_rate: None }
        }

        fn on_ack(&mut self, ack: &AckEvent) -> Steering {
            self.acks += 1;
            assert!(ack.delivered_total >= self.acks && ack.min_rtt.unwrap() >= Span::millis(20));
            if self.acks > 100 {
                let rate = ack.delivery_rate.unwrap().as_bits_per_sec();
                assert!((17_000_000..20_000_000).contains(&rate), "{rate}");
            }
            Steering { cwnd: 34, pacing_rate: Some(Rate::bits_per_sec(19_100_000)) }
        }
    }

    /// A window of one packet after a timeout, which grows by one for each ACK.
    struct Restarting {
        cwnd: u32,
        sent: Arc<AtomicU32>,
        timeouts: Arc<AtomicU32>,
    }

    impl ExternalControl for Restarting {
        fn on_start(&mut self, _now: Time, _mss: u32) -> Steering {
            Steering { cwnd: self.cwnd, pacing_rate: None }
        }

        fn on_ack(&mut self, ack: &AckEvent) -> Steering {
            self.cwnd += ack.delivered as u32;
            Steering { cwnd: self.cwnd, pacing_rate: None }
        }

        fn on_sent(&mut self, _now: Time, packets: u32, inflight: u32) -> Option<Steering> {
            self.sent.fetch_add(packets, Ordering::Relaxed);
            assert!(inflight >= packets && inflight <= self.cwnd.max(packets));
            None
        }

        fn on_rto(&mut self, _now: Time, inflight: u32) -> Option<Steering> {
            assert_eq!(inflight, 0);
            self.timeouts.fetch_add(1, Ordering::Relaxed);
            self.cwnd = 1;
            Some(Steering { cwnd: 1, pacing_rate: None })
        }
    }

    #[test]
    fn an_external_control_is_called_for_each_packet_and_timeout() {
        let mut setup = setup(&["fixed"]);
        // Everything is lost for half a second, so that only a timeout goes on.
        let lose = |at, share| Change { at: Time::ZERO + Span::millis(at), link: 0, what: ChangeKind::Loss(share) };
        setup.schedule = vec![lose(1_000, Loss::Bernoulli(1.0)), lose(1_500, Loss::None)];
        let counts = [Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0))];
        let [sent, timeouts] = counts.clone();
        setup.flows[0].external = Some(External::new("restarting", Restarting { cwnd: 4, sent, timeouts }));
        let mut stepper = Stepper::new(&setup);
        stepper.step_until(setup.duration);
        let (segments, rto) = (stepper.0.flows[0].sender.stats.segments, stepper.0.flows[0].sender.stats.rto);
        let [sent, timeouts] = counts.map(|count| u64::from(count.load(Ordering::Relaxed)));
        assert!(rto >= 1 && stepper.now() == setup.duration, "{rto}");
        assert_eq!((sent, timeouts), (segments, rto));
    }

    #[test]
    fn an_external_control_decides_on_window_and_rate() {
        let mut setup = setup(&["fixed"]);
        setup.flows[0].external = Some(External::new("ideal", Ideal { acks: 0 }));
        let result = run(&setup).result;
        let flow = &result.flows[0];
        assert_eq!((flow.cc.as_str(), result.bottleneck.drops), ("ideal", 0));
        assert!(flow.goodput_bps > 18.3e6 && flow.rtt(|rtt| rtt.p95) < 23.0, "{flow:?}");
    }
}
