//! Each rule of draft-ietf-ccwg-bbr-06 with its condition just met and just not met, and where the other editions differ.
//! In: hand-made ACKs and losses. Out: failures. Never: a transport.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use crate::event::Lost;

mod details;
mod editions;
mod kernel;
mod loss;
mod marks;
mod model;
mod output;
mod probe_bw;
mod states;

/// A packet, so that a byte a microsecond is a packet a millisecond.
const MSS: u32 = 1_000;
const PACKET: u64 = 1_000;
/// One packet a millisecond.
const RATE: u64 = BW_UNIT;
const RTT_US: u64 = 40_000;
/// What that makes in flight.
const BDP: u64 = 40 * PACKET;

impl Bbr3 {
    fn set_max_bw(&mut self, slots: [u64; 2]) {
        self.max_bw_filter = slots;
        self.max_bw = slots[0].max(slots[1]);
        self.bound_bw_for_model();
    }

    fn put_bw_shortterm(&mut self, bw: u64) {
        self.bw_shortterm = bw;
        self.bound_bw_for_model();
    }

    fn put_cwnd(&mut self, cwnd: u64) {
        self.cwnd = cwnd;
        self.note_cwnd();
    }
}

/// A flow with a clock and counters, fed by hand.
struct Driver {
    bbr: Bbr3,
    now_us: u64,
    delivered: u64,
    lost: u64,
    ca_state: CaState,
    cwnd_limited: bool,
}

impl Driver {
    /// Ten packets, 40 ms known from the handshake, at 1 s.
    fn new() -> Self {
        Self::of(Edition::Draft06)
    }

    fn of(edition: Edition) -> Self {
        Self::with(&Self::params(edition), edition, |_| {})
    }

    fn params(edition: Edition) -> Bbr3Params {
        let crate::AlgorithmConfig::Bbr3(_, params) = crate::AlgorithmConfig::named(match edition {
            Edition::Draft06 => "bbr3",
            Edition::Linux => "bbr3-linux",
            Edition::V2 => "bbr2",
            Edition::Ietf100 => "bbr2-ietf100",
        })
        .unwrap() else {
            unreachable!("those are editions of this algorithm");
        };
        params
    }

    fn with(params: &Bbr3Params, edition: Edition, edit: impl FnOnce(&mut Init)) -> Self {
        let now_us = 1_000_000;
        let mut init = Init { srtt: Some(Span::micros(RTT_US)), ..Init::new(Time::micros(now_us), MSS, 1) };
        edit(&mut init);
        let bbr = Bbr3::new(params, edition, &init);
        Self { bbr, now_us, delivered: 0, lost: 0, ca_state: CaState::Open, cwnd_limited: false }
    }

    /// In `state` of ProbeBW, with a full pipe of 40 packets and a window of 80; no probe is due.
    fn in_state(state: Phase) -> Self {
        Self::new().moved_to(state)
    }

    fn moved_to(mut self, state: Phase) -> Self {
        let packet = self.bbr.smss;
        self.delivered = 1_000;
        self.bbr.full_bw_reached = true;
        self.bbr.set_max_bw([RATE * packet / PACKET, RATE * packet / PACKET]);
        if packet == 1 {
            self.bbr.set_max_bw([BW_UNIT / 1_000; 2]);
        }
        self.bbr.rounds.begin(self.delivered);
        self.bbr.ecn.delivered = self.delivered;
        self.bbr.loss_round_delivered = self.delivered;
        self.bbr.put_cwnd(80 * packet);
        self.bbr.bw_probe_wait = Span::secs(3);
        self.bbr.cycle_stamp = Time::micros(self.now_us);
        self.bbr.ack_phase = AckPhase::Init;
        self.bbr.state = state;
        self.bbr.update_gains();
        self.bbr.set_pacing_rate();
        self.bbr.set_send_quantum();
        self.bbr.make_plan();
        self
    }

    /// An ACK of one packet at the present rate, `after_us` later, with 40 packets in flight, changed by `edit`.
    fn ack_with(&mut self, after_us: u64, edit: impl FnOnce(&mut Ack, &mut FlightSample)) {
        self.now_us += after_us;
        self.delivered += 1;
        let mut ack = Ack {
            now: Time::micros(self.now_us),
            rs: crate::RateSample {
                delivered: Some(40),
                interval_us: Some(RTT_US),
                prior_delivered: 0,
                rtt_us: Some(RTT_US),
                acked_sacked: 1,
                prior_in_flight: 40,
                ..crate::RateSample::default()
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
        self.bbr.on_ack(&ack, &flight);
    }

    fn ack(&mut self, after_us: u64) {
        self.ack_with(after_us, |_, _| {});
    }

    /// An ACK that begins a round, also one of loss, an RTT later.
    fn round_with(&mut self, edit: impl FnOnce(&mut Ack, &mut FlightSample)) {
        let prior = self.bbr.rounds.next_delivered.max(self.bbr.loss_round_delivered);
        self.ack_with(RTT_US, |ack, flight| {
            ack.rs.prior_delivered = prior;
            edit(ack, flight);
        });
    }

    /// A round whose sample is of so many packets in an RTT.
    fn round(&mut self, packets: u64) {
        self.round_with(|ack, _| ack.rs.delivered = Some(packets));
    }

    /// The packet `seq` is marked lost, of a flight of `tx_in_flight`, as the `lost`th since it was sent.
    fn lose(&mut self, seq: u64, tx_in_flight: u32, lost: u32) {
        self.lost += 1;
        self.bbr.on_lost_packet(&Lost {
            now: Time::micros(self.now_us),
            seq,
            tx_in_flight,
            lost,
            is_app_limited: false,
            delivered: self.delivered,
        });
    }

    fn ca_state(&mut self, new: CaState) {
        let old = core::mem::replace(&mut self.ca_state, new);
        self.bbr.on_ca_state(old, new);
    }

    fn bare(&self) -> Ack {
        Ack { now: Time::micros(self.now_us), delivered: self.delivered, ..Ack::default() }
    }

    fn restart(&mut self, app_limited: bool) {
        self.bbr.on_tx_start(&TxStart {
            now: Time::micros(self.now_us),
            delivered: self.delivered,
            app_limited,
            idle: Span::secs(1),
            delivered_time_us: self.now_us,
            srtt: Some(Span::micros(RTT_US)),
            rto: Span::secs(1),
            none_outstanding: true,
            tick: None,
        });
    }

    fn state(&self) -> State {
        self.bbr.state()
    }
}
