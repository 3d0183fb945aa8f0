//! Control events of a run: the schedule, the script, samples.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::Time;

use super::Simulation;
use super::observers::{QueueObserver, observer};
use crate::record::summary::LinkBaseline;
use crate::script::Action;
use crate::tcp::Segment;

impl Simulation<'_> {
    /// Handles the end of warm-up, changes of the path, the script, and samples of the series.
    pub(super) fn on_control(&mut self) {
        if !self.measuring && self.now >= self.setup.warmup {
            self.measuring = true;
            self.path.forward.settle(self.now);
            for flow in &mut self.flows {
                flow.set_mark();
            }
            let link = self.path.forward.bottleneck();
            self.mark = LinkBaseline::of(link, self.now);
            if let (Some(up), [link]) = (&mut self.up, self.path.reverse.links()) {
                up.set_mark(link, self.now);
            }
        }
        if self.path.next_change() <= self.now {
            self.path.change(self.now);
            self.note_delays();
            if let Some(prober) = &mut self.prober {
                prober.follow(self.setup, self.now);
            }
        }
        if self.director.is_some() {
            self.act();
        }
        if self.prober.is_some() {
            self.send_probe();
        }
        if self.recorder.next() <= self.now {
            self.path.forward.settle(self.now);
            self.recorder.sample(self.now, &mut self.flows, &self.path);
        }
        self.plan_control();
    }

    pub(super) fn plan_control(&mut self) {
        let warmup = if self.measuring { Time::NEVER } else { self.setup.warmup };
        let change = self.path.next_change();
        let cue = self.director.as_ref().map_or(Time::NEVER, |director| director.next());
        let probe = self.prober.as_ref().map_or(Time::NEVER, |prober| prober.next());
        let next = warmup.min(change).min(cue).min(probe).min(self.recorder.next());
        self.timers.set(super::FLOW_SOURCES * self.control, next);
    }

    /// Offers the probe that is due to the path.
    #[cold]
    fn send_probe(&mut self) {
        let Some(prober) = self.prober.as_mut().filter(|prober| prober.next() <= self.now) else { return };
        let probe = [prober.send(self.now)];
        if !self.delivers_ahead {
            self.path.forward.offer_burst(self.now, &probe, observer!(self));
            return;
        }
        let back = self.path.reverse.delay_of(self.control);
        let measured = (self.setup.warmup, self.setup.duration);
        let mut observer = QueueObserver { queue_delay: &mut self.queue_delay, measured };
        let arrive = |probe: &Segment, at| prober.on_arrival(at, probe, back);
        self.path.forward.send_burst(self.now, &probe, &mut observer, arrive);
    }

    /// Echoes a probe that has arrived.
    #[cold]
    pub(super) fn receive_probe(&mut self, probe: &Segment) {
        if self.up.is_some() {
            return self.echo_up(probe);
        }
        let back = self.path.reverse.delay_of(self.control);
        if let Some(prober) = &mut self.prober {
            prober.on_arrival(self.now, probe, back);
        }
    }

    /// Advances the script after the first flow received an ACK or acted; `emitted` of its segments have not left yet.
    #[cold]
    pub(super) fn direct(&mut self, index: usize, emitted: usize, is_ack: bool) {
        if index != 0 {
            return;
        }
        let Some(director) = &mut self.director else {
            return;
        };
        let flow = &self.flows[0];
        let entered = director.is_behind(&flow.stats.states);
        let idle_restart = !is_ack && emitted > 0 && flow.sender.in_flight() as usize == emitted;
        if director.records() && (is_ack || entered || idle_restart) {
            self.recorder.sample_inside(self.now, &mut self.flows, &self.path, emitted);
        }
        if director.follow(&self.flows[0].stats.states) {
            self.plan_control();
        }
    }

    /// Performs the script's actions that are due.
    pub(super) fn act(&mut self) {
        let due = self.director.as_mut().map_or_else(Vec::new, |director| director.take(self.now));
        for action in due {
            match action {
                Action::Path(what) => {
                    self.path.act(self.now, self.setup.bottleneck, what);
                    self.note_delays();
                }
                Action::End => self.horizon = self.now,
                Action::Traffic(traffic) => {
                    self.flows[0].sender.change_traffic(self.now, traffic, &mut self.out);
                    self.direct(0, self.out.len(), false);
                    let next = self.emit(0, 0);
                    self.timers.set(self.source(0, super::SENDER), next);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bbrlab_core::{AlgorithmConfig, Rate, Span, State};

    use crate::engine::run_scripted;
    use crate::link::Buffer;
    use crate::path::PathAction;
    use crate::script::{Action, Script, StateMatch, Trigger};
    use crate::setup::{FlowSetup, Setup, Traffic};

    fn setup() -> Setup {
        let flow = FlowSetup::bulk("bbr3", AlgorithmConfig::named("bbr3").unwrap());
        Setup::one_link(
            Rate::bits_per_sec(20_000_000),
            Span::millis(20),
            Buffer::Packets(400),
            Span::secs(5),
            vec![flow],
        )
    }

    fn at(entered: StateMatch, out_of: Option<StateMatch>, after: Span, what: Action) -> Trigger {
        Trigger { entered, out_of, nth: 1, after, what }
    }

    #[test]
    fn a_run_ends_when_its_script_says_so() {
        let cue = at(StateMatch::State(State::Drain), None, Span::millis(7), Action::End);
        let output = run_scripted(&setup(), &Script { cues: vec![cue], record: true });
        let states = &output.trace.flows[0].states;
        let drain = states.iter().find(|(_, state)| *state == State::Drain).unwrap().0;
        let last = *output.trace.t_ns.last().unwrap();
        assert!(last <= (drain + Span::millis(7)).as_nanos() && last > drain.as_nanos(), "{last} {drain:?}");
        assert_eq!(output.trace.flows[0].internals.len(), output.trace.t_ns.len());
    }

    #[test]
    fn losses_and_silence_begin_when_their_state_does() {
        let up = |after: u64, what| at(StateMatch::State(State::ProbeBwUp), None, Span::millis(after), what);
        let silence = Action::Traffic(Traffic::Rate { rate: Rate::bits_per_sec(0), tick: Span::secs(100), unit: 1 });
        let cues = vec![
            up(0, Action::Path(PathAction::LoseEvery(10))),
            up(40, Action::Path(PathAction::LoseEvery(0))),
            up(60, silence),
        ];
        let output = run_scripted(&setup(), &Script { cues, record: true });
        let flow = &output.trace.flows[0];
        let up = flow.states.iter().find(|(_, state)| *state == State::ProbeBwUp).unwrap().0;
        let place = output.trace.t_ns.partition_point(|t| *t < up.as_nanos());
        assert!(flow.lost[place] == 0 && *flow.lost.last().unwrap() > 0);
        assert!(
            *flow.inflight.last().unwrap() == 0
                && *output.trace.t_ns.last().unwrap() < (up + Span::millis(500)).as_nanos()
        );
    }
}
