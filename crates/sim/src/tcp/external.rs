//! A congestion control outside of core: it receives one event per ACK, and answers with a window and a pacing rate.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bbrlab_core::{CaState, Rate, Span, Time};

use super::sender::Sender;

/// One ACK as the sender processed it. Packets are full segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AckEvent {
    /// Time of its arrival.
    pub now: Time,
    /// RTT of the newest segment that it delivers; `None` if that was retransmitted.
    pub rtt: Option<Span>,
    /// Minimum RTT of the connection.
    pub min_rtt: Option<Span>,
    /// Smoothed RTT.
    pub srtt: Option<Span>,
    /// Packets that it delivers, cumulatively or selectively.
    pub delivered: u64,
    /// Packets marked lost since the last event.
    pub lost: u64,
    /// Packets delivered since the connection began.
    pub delivered_total: u64,
    /// Packets in flight after it.
    pub inflight: u32,
    /// Payload delivered per second between the sending and the ACK of its newest segment; `None` without an RTT.
    pub delivery_rate: Option<Rate>,
    /// True if the application was the limit when that segment was sent.
    pub is_app_limited: bool,
    /// True in loss recovery.
    pub in_recovery: bool,
    /// True if a retransmission timeout preceded it since the last event.
    pub after_rto: bool,
}

/// Window in packets, and pacing rate; `None` sends without pacing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering {
    /// Congestion window; at least one packet is sent.
    pub cwnd: u32,
    /// Pacing rate of payload.
    pub pacing_rate: Option<Rate>,
}

/// A congestion control outside of core.
pub trait ExternalControl: Send {
    /// Returns the values for the start of the connection.
    fn on_start(&mut self, now: Time, mss: u32) -> Steering;
    /// Handles an ACK.
    fn on_ack(&mut self, ack: &AckEvent) -> Steering;
    /// Handles packets that leave, `inflight` of them in flight after it. Returns the values for what leaves next; by default `None`,
    /// which keeps them.
    fn on_sent(&mut self, _now: Time, _packets: u32, _inflight: u32) -> Option<Steering> {
        None
    }
    /// Handles a retransmission timeout, before anything is sent again. Returns the values from then on; by default `None`, which
    /// keeps them.
    fn on_rto(&mut self, _now: Time, _inflight: u32) -> Option<Steering> {
        None
    }
}

/// A shared external control, with the name that results show. Clones share it: a setup that has run once is used up.
#[derive(Clone)]
pub struct External {
    name: &'static str,
    control: Arc<Mutex<dyn ExternalControl>>,
}

impl External {
    /// Wraps a control.
    pub fn new(name: &'static str, control: impl ExternalControl + 'static) -> Self {
        Self { name, control: Arc::new(Mutex::new(control)) }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    fn call<T>(&self, with: impl FnOnce(&mut dyn ExternalControl) -> T) -> T {
        // A control that panicked ends the run; its state no longer matters.
        with(&mut *self.control.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("External").field(&self.name).finish()
    }
}

/// The sender's side of an external control.
#[derive(Clone, Debug)]
pub(super) struct Steered {
    pub external: External,
    lost: u64,
    rto: u64,
}

impl Steered {
    pub const fn new(external: External) -> Self {
        Self { external, lost: 0, rto: 0 }
    }
}

impl Sender {
    /// Gets the first window and rate of an external control.
    pub(super) fn start_steering(&mut self, now: Time) {
        if let Some(steered) = &self.steered {
            let Steering { cwnd, pacing_rate } = steered.external.call(|control| control.on_start(now, self.mss));
            self.cc.set_fixed(cwnd, pacing_rate);
        }
    }

    /// Passes packets just sent to an external control.
    #[cold]
    pub(super) fn steer_sent(&mut self, now: Time, packets: u32) {
        let inflight = self.in_flight();
        self.steer_by(|control| control.on_sent(now, packets, inflight));
    }

    /// Passes a retransmission timeout to an external control.
    #[cold]
    pub(super) fn steer_rto(&mut self, now: Time) {
        let inflight = self.in_flight();
        self.steer_by(|control| control.on_rto(now, inflight));
    }

    /// Calls an external control, and takes over the values that it returns.
    fn steer_by(&mut self, with: impl FnOnce(&mut dyn ExternalControl) -> Option<Steering>) {
        let steering = self.steered.as_ref().and_then(|steered| steered.external.call(with));
        if let Some(Steering { cwnd, pacing_rate }) = steering {
            self.cc.set_fixed(cwnd, pacing_rate);
        }
    }

    /// Passes an ACK to an external control, and takes over its window and rate. `before`: packets that had been delivered when its
    /// newest segment was sent.
    #[cold]
    pub(super) fn steer(&mut self, now: Time, rtt: Option<Span>, delivered: u64, before: Option<u64>) {
        let sampler = self.cc.sampler();
        let volume = before.map(|before| sampler.delivered() - before);
        let delivery_rate = rtt.zip(volume).and_then(|(rtt, packets)| {
            let bits = u128::from(packets) * u128::from(self.mss) * 8 * 1_000_000_000;
            let rate = bits.checked_div(u128::from(rtt.as_nanos()))?;
            Some(Rate::bits_per_sec(u64::try_from(rate).unwrap_or(u64::MAX)))
        });
        let (stats, estimator) = (self.stats, self.cc.rtt());
        let mut event = AckEvent {
            now,
            rtt,
            min_rtt: estimator.min(),
            srtt: estimator.smoothed(),
            delivered,
            lost: 0,
            delivered_total: sampler.delivered(),
            inflight: self.in_flight(),
            delivery_rate,
            is_app_limited: sampler.is_app_limited(),
            in_recovery: self.cc.ca_state() >= CaState::Recovery,
            after_rto: false,
        };
        let Some(steered) = &mut self.steered else { return };
        event.lost = stats.lost - std::mem::replace(&mut steered.lost, stats.lost);
        event.after_rto = stats.rto > std::mem::replace(&mut steered.rto, stats.rto);
        let Steering { cwnd, pacing_rate } = steered.external.call(|control| control.on_ack(&event));
        self.cc.set_fixed(cwnd, pacing_rate);
    }
}

#[cfg(test)]
mod tests {
    use bbrlab_core::AlgorithmConfig;

    use super::*;
    use crate::setup::FlowSetup;

    /// Records the times of what is sent.
    struct Clock(Arc<Mutex<Vec<Time>>>);

    const STEERING: Steering = Steering { cwnd: 20, pacing_rate: Some(Rate::bits_per_sec(1_000_000)) };

    impl ExternalControl for Clock {
        fn on_start(&mut self, _now: Time, _mss: u32) -> Steering {
            STEERING
        }

        fn on_ack(&mut self, _ack: &AckEvent) -> Steering {
            STEERING
        }

        fn on_sent(&mut self, now: Time, _packets: u32, _inflight: u32) -> Option<Steering> {
            self.0.lock().unwrap().push(now);
            None
        }
    }

    /// A probe does not wait for the pacer.
    #[test]
    fn a_packet_sent_ahead_of_the_pacer_is_reported_at_its_own_time() {
        let times = Arc::new(Mutex::new(Vec::new()));
        let mut setup = FlowSetup::bulk("mine", AlgorithmConfig::named("fixed").unwrap());
        setup.external = Some(External::new("mine", Clock(times.clone())));
        let mut sender = Sender::new(0, &setup, 1);
        let mut out = Vec::new();
        sender.start(Time::ZERO, &mut out);
        sender.on_syn_ack(Time::nanos(100_000_000), &setup, Time::ZERO, &mut out);
        let probe = Time::nanos(101_000_000);
        assert!(sender.edt() > probe);
        sender.write(probe, 1, &mut out);
        assert_eq!(times.lock().unwrap().last(), Some(&probe));
    }
}
