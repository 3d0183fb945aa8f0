//! Reader of an algorithm's model for the trace of a conformance run.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_core::{
    Controller,
    internals::{Bbr1Internals, Bbr3Internals, GAIN_UNIT},
};

use super::trace::ModelSample;

/// Gains of BBRv1 and of snapshots are in 256ths.
const GAIN_256: f64 = 256.0;
/// Ticks per second of BBRv1's stamps. Source: its parameter `hz`.
const KERNEL_HZ: f64 = 250.0;

impl ModelSample {
    /// Returns this controller's model, with its host's figures: packets in flight before any new ones leave, reductions undone, timeouts.
    pub fn of(cc: &Controller, in_flight: f64, undos: f64, rto: f64) -> Self {
        let mss = f64::from(cc.mss());
        let common = Self {
            inflight: in_flight,
            app_limited: f64::from(u8::from(cc.sampler().is_app_limited())),
            ca_state: f64::from(cc.ca_state() as u8),
            undos,
            rto,
            ..Self::UNKNOWN
        };
        if let Some(internals) = cc.bbr3_internals() {
            return common.with_bbr3(&internals, mss);
        }
        let snapshot = cc.snapshot();
        let bdp = snapshot.bw.as_bits_per_sec() as f64 / 8.0
            * snapshot.min_rtt.map_or(f64::NAN, |rtt| rtt.as_nanos() as f64 / 1e9)
            / mss;
        let common = Self {
            pacing_gain: f64::from(snapshot.pacing_gain) / GAIN_256,
            cwnd_gain: f64::from(snapshot.cwnd_gain) / GAIN_256,
            max_bw: snapshot.bw.as_bits_per_sec() as f64,
            bdp,
            extra_acked: f64::from(snapshot.extra_acked),
            full_bw_reached: f64::from(u8::from(snapshot.full_bw_reached)),
            round: snapshot.round_count as f64,
            ..common
        };
        cc.bbr1_internals().map_or(common, |internals| common.with_bbr1(&internals))
    }

    /// A model whose every field is NaN.
    pub const UNKNOWN: Self = Self {
        inflight: f64::NAN,
        pacing_gain: f64::NAN,
        cwnd_gain: f64::NAN,
        max_bw: f64::NAN,
        bw_shortterm: f64::NAN,
        inflight_longterm: f64::NAN,
        inflight_shortterm: f64::NAN,
        bdp: f64::NAN,
        inflight_target: f64::NAN,
        inflight_headroom: f64::NAN,
        extra_acked: f64::NAN,
        send_quantum: f64::NAN,
        full_bw_count: f64::NAN,
        full_bw_now: f64::NAN,
        full_bw_reached: f64::NAN,
        round: f64::NAN,
        rounds_since_probe: f64::NAN,
        probe_wait_s: f64::NAN,
        acked_per_inc: f64::NAN,
        probe_too_high: f64::NAN,
        probe_rtt_stamp_s: f64::NAN,
        idle_restart: f64::NAN,
        app_limited: f64::NAN,
        ca_state: f64::NAN,
        undos: f64::NAN,
        rto: f64::NAN,
    };

    fn with_bbr3(self, internals: &Bbr3Internals, mss: f64) -> Self {
        let packets = |bytes: u64| bytes as f64 / mss;
        let bound = |bytes: Option<u64>| bytes.map_or(f64::INFINITY, packets);
        let yes = |flag: bool| f64::from(u8::from(flag));
        let gain = |gain: u32| f64::from(gain) / f64::from(GAIN_UNIT);
        Self {
            pacing_gain: gain(internals.pacing_gain),
            cwnd_gain: gain(internals.cwnd_gain),
            max_bw: internals.max_bw as f64,
            bw_shortterm: internals.bw_shortterm.map_or(f64::INFINITY, |bw| bw as f64),
            inflight_longterm: bound(internals.inflight_longterm),
            inflight_shortterm: bound(internals.inflight_shortterm),
            bdp: packets(internals.bdp),
            inflight_target: packets(internals.inflight_target),
            inflight_headroom: bound(internals.inflight_with_headroom),
            extra_acked: packets(internals.extra_acked),
            send_quantum: packets(internals.send_quantum),
            full_bw_count: f64::from(internals.full_bw_count),
            full_bw_now: yes(internals.full_bw_now),
            full_bw_reached: yes(internals.full_bw_reached),
            round: internals.round_count as f64,
            rounds_since_probe: internals.rounds_since_probe_up as f64,
            probe_wait_s: internals.bw_probe_wait.as_nanos() as f64 / 1e9,
            acked_per_inc: bound(internals.probe_up_acked_per_inc),
            probe_too_high: yes(internals.prev_probe_too_high),
            probe_rtt_stamp_s: internals.probe_rtt_min_stamp.as_nanos() as f64 / 1e9,
            idle_restart: yes(internals.idle_restart),
            ..self
        }
    }

    fn with_bbr1(self, internals: &Bbr1Internals) -> Self {
        Self {
            full_bw_count: f64::from(internals.full_bw_cnt),
            probe_rtt_stamp_s: internals.min_rtt_stamp as f64 / KERNEL_HZ,
            idle_restart: f64::from(u8::from(internals.idle_restart)),
            ..self
        }
    }
}
