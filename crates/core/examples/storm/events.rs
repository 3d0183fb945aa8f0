//! Events in any order with any values, for one controller. Shared by `examples/storm.rs` and the fuzz target `core_events`.
//! Panics when a guarantee is broken: a window of at least one packet, a rate and a quantum above zero.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{
    AckBatch, AckInfo, AckRtt, AlgorithmConfig, CaState, Controller, Flight, Init, Loss, OpenAck, PacketToken, Rate,
    RememberedPath, Sent, Span, Time,
};

/// Source of random values.
pub trait Source {
    fn u8(&mut self) -> u8;
    /// A number of any size, small ones as often as huge ones.
    fn u64(&mut self) -> u64;

    fn u32(&mut self) -> u32 {
        u32::try_from(self.u64()).unwrap_or(u32::MAX)
    }

    fn bool(&mut self) -> bool {
        self.u8() & 1 == 1
    }

    fn some(&mut self) -> Option<u64> {
        if self.bool() { Some(self.u64()) } else { None }
    }

    fn flight(&mut self) -> Flight {
        Flight { bytes: self.u64(), packets: self.u32() }
    }
}

/// One connection under test.
pub struct Storm {
    pub cc: Controller,
    now: Time,
    tokens: [PacketToken; 16],
    sent: usize,
    /// An ACK that was begun but not yet ended.
    open: Option<OpenAck>,
}

impl Storm {
    pub fn new(config: &AlgorithmConfig, source: &mut impl Source) -> Self {
        let now = Time::nanos(source.u64() >> 1);
        let mut init = Init::new(now).with_mss(source.u32()).with_seed(source.u64());
        init.initial_cwnd = source.u32();
        init.cwnd_clamp = source.some().map_or(u32::MAX, |max| u32::try_from(max).unwrap_or(u32::MAX));
        init.srtt = source.some().map(Span::nanos);
        init.min_rtt = source.some().map(Span::nanos);
        init.max_pacing_rate = source.some().map(Rate::bits_per_sec);
        init.selective_acks = source.bool();
        let cc = Controller::new(config, &init);
        let cc = if source.u8() & 3 == 0 { cc.with_host_recovery() } else { cc };
        let storm = Self { cc, now, tokens: [PacketToken::default(); 16], sent: 0, open: None };
        storm.check();
        storm
    }

    /// Applies one event.
    pub fn step(&mut self, source: &mut impl Source) {
        let event = source.u8();
        match event >> 3 {
            0..=9 => self.send(event, source),
            10..=20 => self.ack(event, source),
            21..=23 => self.lose(event, source),
            24 => self.recover(event, source),
            25 => self.mark(event, source),
            26..=28 => self.limit(event, source),
            _ => self.change(event, source),
        }
        self.check();
    }

    /// Checks the invariants that hold after each event.
    fn check(&self) {
        let cc = &self.cc;
        assert!(cc.cwnd() >= 1 && cc.cwnd_bytes() >= 1, "window {} packets, {} bytes", cc.cwnd(), cc.cwnd_bytes());
        assert!(cc.pacing_rate().is_none_or(|rate| rate.as_bits_per_sec() > 0), "a rate of nothing");
        assert!(cc.send_quantum() > 0 && cc.min_tso_segs() >= 1, "no quantum");
        let _ = (cc.in_slow_start(), cc.state(), cc.snapshot(), cc.rtt().rto(), cc.in_flight(), cc.mss());
    }

    fn token(&self, source: &mut impl Source) -> PacketToken {
        self.tokens[usize::from(source.u8()) % 16]
    }

    /// Moves time mostly forward, sometimes backward: a host's clock may be wrong.
    fn advance(&mut self, source: &mut impl Source) -> Time {
        self.now = if source.u8() == 0 { Time::nanos(source.u64()) } else { self.now + Span::nanos(source.u64()) };
        self.now
    }

    fn send(&mut self, event: u8, source: &mut impl Source) {
        let now = self.advance(source);
        let mut sent = Sent::packet(source.u32());
        if event & 7 == 7 {
            sent = Sent::burst(source.u32(), source.u32());
        }
        if event & 7 == 6 {
            sent = sent.with_in_flight(source.flight(), source.bool());
        }
        if event & 7 == 5 {
            sent = sent.retransmission();
        }
        let mut token = self.cc.on_sent(now, &sent);
        if event & 7 == 4 {
            token = self.cc.part_of_burst(&token, source.u32(), source.u32());
        }
        self.tokens[self.sent % 16] = token;
        self.sent += 1;
    }

    fn ack(&mut self, event: u8, source: &mut impl Source) {
        if event & 7 == 0 {
            return self.end_ack(source);
        }
        let now = self.advance(source);
        let mut batch = self.cc.begin_ack(now);
        for _ in 0..event & 3 {
            self.deliver(&mut batch, source);
        }
        let open = self.cc.on_delivered(batch);
        // An ACK that is still open is ended too late, or never.
        if event & 4 == 0 {
            self.end_ack(source);
        }
        self.open = Some(open);
        if source.u8() & 7 != 0 {
            self.end_ack(source);
        }
    }

    fn deliver(&mut self, batch: &mut AckBatch, source: &mut impl Source) {
        let token = self.token(source);
        match source.u8() % 16 {
            0 => batch.delivered_run(source.u64(), source.u64(), &token, source.u64()),
            1 | 2 => batch.delivered_bytes(source.u64(), &token),
            3 | 4 => batch.delivered_late(&token, source.u64()),
            _ => batch.delivered(&token, source.u64()),
        }
    }

    fn end_ack(&mut self, source: &mut impl Source) {
        let Some(open) = self.open.take() else { return };
        let mut info = AckInfo::NONE;
        let said = source.u8();
        match source.u8() % 8 {
            0 => info.rtt = AckRtt::None,
            1 => {
                info.rtt =
                    AckRtt::Measured { newest: source.some().map(Span::nanos), oldest: source.some().map(Span::nanos) }
            }
            _ => (),
        }
        if said & 1 != 0 {
            info.in_flight = source.some().map(|_| (source.flight(), source.flight()));
            info.packets_out = source.some().map(|_| source.u32());
        }
        if said & 2 != 0 {
            info.una_next = Some((source.u64(), source.u64()));
        }
        info.is_duplicate = said & 4 != 0;
        info.is_ack_delayed = said & 8 != 0;
        if said & 16 != 0 {
            info = info.with_cwnd_limited(source.bool());
            info.may_raise_cwnd = Some(source.bool());
        }
        if said & 32 != 0 {
            info = info.with_edt(Time::nanos(source.u64()));
        }
        info.is_unpaced = said & 64 != 0;
        self.cc.on_ack(open, &info);
    }

    fn lose(&mut self, event: u8, source: &mut impl Source) {
        let token = self.token(source);
        if event & 7 == 0 {
            return self.cc.on_discarded(&token);
        }
        let mut loss = Loss::packet(&token, source.u64());
        if event & 7 == 1 {
            loss = Loss::run(&token, source.u64(), source.u32(), source.u32());
        }
        if event & 7 == 2 {
            loss = loss.by_timer();
        }
        self.cc.on_lost(self.now, &loss);
    }

    fn recover(&mut self, event: u8, source: &mut impl Source) {
        const STATES: [CaState; 5] = [CaState::Open, CaState::Disorder, CaState::Cwr, CaState::Recovery, CaState::Loss];
        match event & 7 {
            0 => self.cc.on_persistent_congestion(self.now),
            1 => self.cc.on_rto(self.now, source.flight(), source.bool()),
            2 => self.cc.on_recovery_by_timer(self.now, source.flight()),
            3 => self.cc.on_undo(self.now),
            _ => self.cc.on_ca_state(STATES[usize::from(source.u8()) % 5]),
        }
    }

    fn mark(&mut self, event: u8, source: &mut impl Source) {
        match event & 7 {
            0 => self.cc.on_tlp_ack(),
            1 => self.cc.on_tlp_recovery(self.now, source.bool()),
            2 => self.cc.on_marked_round(source.u64(), source.u64()),
            _ => self.cc.on_congestion_mark(self.now, source.u64()),
        }
    }

    fn limit(&mut self, event: u8, source: &mut impl Source) {
        match event & 7 {
            0 => self.cc.on_cwnd_unused(source.u32()),
            1 | 2 => self.cc.on_cwnd_limited(),
            3 => self.cc.on_app_limited(Some(source.flight())),
            _ => self.cc.on_app_limited(None),
        }
    }

    /// Applies a rare event.
    fn change(&mut self, event: u8, source: &mut impl Source) {
        let is_rare = source.u8() & 7 == 0;
        match event & 7 {
            0 if is_rare => self.cc.on_mss(source.u32()),
            1 if is_rare => {
                let srtt = source.some().map(Span::nanos);
                self.cc.on_path_change(self.now, source.u32(), srtt);
            }
            2 => self.cc.on_ack_frequency(source.u32(), Span::nanos(source.u64())),
            3 => self.cc.resume(RememberedPath::new(Rate::bits_per_sec(source.u64()), Span::nanos(source.u64()))),
            4 if is_rare => self.cc.set_max_pacing_rate(source.some().map(Rate::bits_per_sec)),
            _ => self.now += Span::nanos(source.u64()),
        }
    }
}
