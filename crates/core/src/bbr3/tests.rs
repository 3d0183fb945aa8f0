//! Each rule of draft-ietf-ccwg-bbr-06 with its condition just met and just not met, and the differences of the other editions.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use core::ops::{Deref, DerefMut};

use super::phase::Growth;
use super::probe::AckPhase;
use super::*;
use crate::event::Lost;
use crate::snapshot::Bounds;
use crate::units::Time;

mod corrections;
mod details;
mod draft;
mod editions;
mod kernel;
mod lab;
mod loss;
mod marks;
mod model;
mod output;
mod probe_bw;
mod states;

/// Bytes of a packet, so that a byte per microsecond is a packet per millisecond.
const MSS: u32 = 1_000;
const PACKET: u64 = 1_000;
/// One packet per millisecond.
const RATE: u64 = BW_UNIT;
const RTT_US: u64 = 40_000;
/// Volume in flight at that rate.
const BDP: u64 = 40 * PACKET;
/// A probe that has not begun to grow, in its first state.
const UP: Phase = Phase::ProbeBwUp(Growth::from(0));
const REFILL: Phase = Phase::ProbeBwRefill { up_rounds: 0 };

impl<R: Rules> Bbr3<R> {
    /// Converts the flow to other rules.
    fn under<S: Rules>(self) -> Bbr3<S> {
        Bbr3 {
            p: self.p,
            host: self.host,
            phase: self.phase,
            cause: self.cause,
            gains: self.gains,
            out: self.out,
            model: self.model,
            bounds: self.bounds,
            full_pipe: self.full_pipe,
            min_rtt: self.min_rtt,
            aggregation: self.aggregation,
            probe: self.probe,
            ecn: self.ecn,
            undo: self.undo,
            queue: S::Queue::NONE,
            seen: self.seen,
            prev_ca_state: self.prev_ca_state,
            idle_restart: self.idle_restart,
            mark_app_limited: self.mark_app_limited,
            rules: PhantomData,
        }
    }
}

/// A flow of an edition chosen by the test. Fields are the same for all; methods that depend on the rules are dispatched here.
#[derive(Clone, Debug)]
struct Flow {
    edition: Edition,
    bbr: Bbr3<Draft06>,
}

impl Deref for Flow {
    type Target = Bbr3<Draft06>;
    fn deref(&self) -> &Self::Target {
        &self.bbr
    }
}

impl DerefMut for Flow {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.bbr
    }
}

/// Defines methods that follow the rules of the flow's own edition.
macro_rules! by_edition {
    (read $( $name:ident($($arg:ident: $ty:ty),*) -> $out:ty; )+) => {
        $(
            #[allow(dead_code)]
            fn $name(&self, $($arg: $ty),*) -> $out {
                match self.edition {
                    Edition::Draft06 => self.bbr.$name($($arg),*),
                    Edition::LinuxV3 => self.bbr.clone().under::<LinuxV3>().$name($($arg),*),
                    Edition::LinuxV2 => self.bbr.clone().under::<LinuxV2>().$name($($arg),*),
                    Edition::Ietf100 => self.bbr.clone().under::<Ietf100>().$name($($arg),*),
                    Edition::Lab => unreachable!("tests/lab.rs has a flow of its own, with the state of the queue"),
                }
            }
        )+
    };
    ($( $name:ident($($arg:ident: $ty:ty),*) $(-> $out:ty)?; )+) => {
        $(
            #[allow(dead_code)]
            fn $name(&mut self, $($arg: $ty),*) $(-> $out)? {
                match self.edition {
                    Edition::Draft06 => self.bbr.$name($($arg),*),
                    Edition::LinuxV3 => self.under::<LinuxV3, _>(|bbr| bbr.$name($($arg),*)),
                    Edition::LinuxV2 => self.under::<LinuxV2, _>(|bbr| bbr.$name($($arg),*)),
                    Edition::Ietf100 => self.under::<Ietf100, _>(|bbr| bbr.$name($($arg),*)),
                    Edition::Lab => unreachable!("tests/lab.rs has a flow of its own, with the state of the queue"),
                }
            }
        )+
    };
}

impl Flow {
    fn under<R: Rules, T>(&mut self, call: impl FnOnce(&mut Bbr3<R>) -> T) -> T {
        let mut bbr = self.bbr.clone().under::<R>();
        let out = call(&mut bbr);
        self.bbr = bbr.under();
        out
    }

    by_edition! {
        init(params: &Bbr3Params, init: &Init);
        on_ack(ack: &Ack, flight: &FlightSample);
        on_lost_packet(lost: &Lost);
        on_loss(delivered: u64);
        on_tlp_recovery(now: Time, delivered: u64, is_app_limited: bool);
        on_ca_state(old: CaState, new: CaState);
        on_rto(ack: &Ack, first: bool);
        on_undo(ack: &Ack);
        on_tx_start(start: &TxStart);
        on_mss(mss: u32);
        set_prior_cwnd(packets: u32);
        update_gains();
        set_pacing_rate();
        set_send_quantum();
        make_plan(srtt: Option<Span>);
        set_cwnd(ack: &Ack);
        pick_probe_wait();
        start_probe_bw_cruise(cause: Cause);
        leave_startup_by_congestion(cause: Cause);
        ecn_lower_bounds() -> (u64, u64);
        update_ecn(ack: &Ack, flight: &FlightSample);
        save_cwnd();
    }

    by_edition! { read
        cwnd() -> u32;
        cwnd_bytes() -> u64;
        send_quantum() -> Option<u64>;
        min_tso_segs() -> u32;
        snapshot() -> Snapshot;
        internals() -> Bbr3Internals;
        bdp_multiple(bw: u64, gain: u32) -> u64;
        inflight(bw: u64, gain: u32) -> u64;
        extra_acked() -> u64;
        in_net_at_edt(ack: &Ack, inflight: u64) -> u64;
        inflight_at_loss(tx_in_flight: u64, lost: u64, size: u64) -> u64;
    }

    fn set_max_bw(&mut self, slots: [u64; 2]) {
        self.model.set_max_bw_filter(slots);
    }

    fn put_bw_shortterm(&mut self, bw: u64) {
        self.bounds.bw_shortterm = bw;
    }

    fn put_cwnd(&mut self, cwnd: u64) {
        self.out.cwnd = cwnd;
    }

    /// Growth of the bound in a probe.
    fn growth(&mut self) -> &mut Growth {
        match &mut self.bbr.phase {
            Phase::ProbeBwUp(growth) => growth,
            other => panic!("{other:?} is no probe"),
        }
    }

    fn put_gains(&mut self) {
        let (state, p) = (self.phase.state(), self.p);
        self.gains = match self.edition {
            Edition::Draft06 => Gains::of::<Draft06>(state, &p),
            _ => Gains::of::<LinuxV3>(state, &p),
        };
    }
}

/// A flow with a clock and counters, fed by hand. It counts in packets, whatever the unit of the flow.
struct Driver {
    bbr: Flow,
    now_us: u64,
    delivered: u64,
    lost: u64,
    ca_state: CaState,
    cwnd_limited: bool,
}

impl Driver {
    /// Creates a flow with ten packets, 40 ms from the handshake, at 1 s.
    fn new() -> Self {
        Self::of(Edition::Draft06)
    }

    fn of(edition: Edition) -> Self {
        Self::with(&Self::params(edition), edition, |_| {})
    }

    fn params(edition: Edition) -> Bbr3Params {
        Bbr3Params::of(edition)
    }

    fn with(params: &Bbr3Params, edition: Edition, edit: impl FnOnce(&mut Init)) -> Self {
        let now_us = 1_000_000;
        let mut init =
            Init { srtt: Some(Span::micros(RTT_US)), ..Init::new(Time::micros(now_us)).with_mss(MSS).with_seed(1) };
        edit(&mut init);
        let mut bbr = Flow { edition, bbr: Bbr3::new(params, &init) };
        bbr.init(params, &init);
        Self { bbr, now_us, delivered: 0, lost: 0, ca_state: CaState::Open, cwnd_limited: false }
    }

    /// Creates a flow in `state` of ProbeBW, with a full pipe of 40 packets and a window of 80; no probe is due.
    fn in_state(state: Phase) -> Self {
        Self::new().moved_to(state)
    }

    fn moved_to(mut self, state: Phase) -> Self {
        let packet = self.bbr.smss();
        self.delivered = 1_000;
        self.bbr.full_pipe.reached = true;
        self.bbr.set_max_bw([RATE, RATE]);
        if packet == 1 {
            self.bbr.set_max_bw([BW_UNIT / 1_000; 2]);
        }
        let delivered = self.volume();
        self.bbr.model.rounds.begin(delivered);
        self.bbr.ecn.delivered = delivered;
        self.bbr.bounds.loss_round_delivered = delivered;
        self.bbr.put_cwnd(80 * packet);
        self.bbr.probe.bw_probe_wait = Span::secs(3);
        self.bbr.probe.cycle_stamp = Time::micros(self.now_us);
        self.bbr.probe.ack_phase = AckPhase::Init;
        self.bbr.phase = state;
        self.bbr.put_gains();
        self.bbr.make_plan(None);
        self
    }

    /// Volume delivered, in the flow's unit.
    fn volume(&self) -> u64 {
        self.delivered * self.bbr.smss()
    }

    /// Converts an ACK in packets to the flow's unit.
    fn scaled(&self, ack: &Ack) -> Ack {
        let (mut ack, packet) = (*ack, self.bbr.smss());
        let rs = &mut ack.rs;
        rs.delivered = rs.delivered.map(|packets| packets * packet);
        for count in [&mut rs.prior_delivered, &mut rs.losses, &mut rs.acked_sacked, &mut rs.prior_in_flight] {
            *count *= packet;
        }
        for count in [&mut ack.delivered, &mut ack.lost, &mut ack.in_flight] {
            *count *= packet;
        }
        ack
    }

    /// Feeds an ACK of one packet at the present rate, `after_us` later, with 40 packets in flight, changed by `edit`.
    fn ack_with(&mut self, after_us: u64, edit: impl FnOnce(&mut Ack, &mut FlightSample)) {
        self.now_us += after_us;
        self.delivered += 1;
        let mut ack = Ack {
            now: Time::micros(self.now_us),
            rs: crate::estimators::RateSample {
                delivered: Some(40),
                interval_us: Some(RTT_US),
                prior_delivered: 0,
                rtt_us: Some(RTT_US),
                acked_sacked: 1,
                prior_in_flight: 40,
                ..crate::estimators::RateSample::default()
            },
            delivered: self.delivered,
            delivered_time_us: self.now_us,
            in_flight: 40,
            ca_state: self.ca_state,
            cwnd_limited: self.cwnd_limited,
            srtt: Some(Span::micros(RTT_US)),
            ..Ack::default()
        };
        let mut flight = FlightSample { tx_in_flight: 40, ..FlightSample::default() };
        edit(&mut ack, &mut flight);
        let packet = self.bbr.smss() as u32;
        (flight.tx_in_flight, flight.lost) = (flight.tx_in_flight * packet, flight.lost * packet);
        self.bbr.on_ack(&self.scaled(&ack), &flight);
    }

    fn ack(&mut self, after_us: u64) {
        self.ack_with(after_us, |_, _| {});
    }

    /// Feeds an ACK that begins a round, also one of loss, an RTT later.
    fn round_with(&mut self, edit: impl FnOnce(&mut Ack, &mut FlightSample)) {
        let prior = self.bbr.model.rounds.next_delivered.max(self.bbr.bounds.loss_round_delivered);
        let prior = prior.div_ceil(self.bbr.smss());
        self.ack_with(RTT_US, |ack, flight| {
            ack.rs.prior_delivered = prior;
            edit(ack, flight);
        });
    }

    /// Runs a round whose sample has this number of packets per RTT.
    fn round(&mut self, packets: u64) {
        self.round_with(|ack, _| ack.rs.delivered = Some(packets));
    }

    /// Marks the packet `seq` lost, of a flight of `tx_in_flight`, as the `lost`th since it was sent.
    fn lose(&mut self, seq: u64, tx_in_flight: u32, lost: u32) {
        self.lost += 1;
        let packet = self.bbr.smss();
        let lost = Lost {
            now: Time::micros(self.now_us),
            seq,
            packets: 1,
            volume: packet,
            tx_in_flight: u64::from(tx_in_flight) * packet,
            lost: u64::from(lost) * packet,
            is_app_limited: false,
            delivered: self.volume(),
        };
        self.bbr.on_lost_packet(&lost);
    }

    fn ca_state(&mut self, new: CaState) {
        let old = core::mem::replace(&mut self.ca_state, new);
        self.bbr.on_ca_state(old, new);
    }

    /// Triggers a time-out with this number of packets in flight.
    fn rto(&mut self, in_flight: u64, first: bool) {
        let ack = Ack { in_flight: in_flight * self.bbr.smss(), ..self.bare() };
        self.bbr.on_rto(&ack, first);
    }

    fn bare(&self) -> Ack {
        Ack { now: Time::micros(self.now_us), delivered: self.volume(), ..Ack::default() }
    }

    fn restart(&mut self, app_limited: bool) {
        let start = TxStart {
            now: Time::micros(self.now_us),
            delivered: self.volume(),
            app_limited,
            idle: Span::secs(1),
            delivered_time_us: self.now_us,
            srtt: Some(Span::micros(RTT_US)),
            rto: Span::secs(1),
            none_outstanding: true,
            tick: None,
        };
        self.bbr.on_tx_start(&start);
    }

    fn state(&self) -> State {
        self.bbr.state()
    }
}

impl Flow {
    /// Volume of a packet in the flow's own edition.
    fn smss(&self) -> u64 {
        self.host.smss()
    }
}
