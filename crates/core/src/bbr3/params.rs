//! The constants of BBRv2 and BBRv3 as parameters: the draft's values, and the kernel's, v2's and the prototype's if different.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::params::{Change, ParamSpec, edition, params};

params! {
    /// The parameters of BBRv2 and BBRv3. Gains and shares are in 1/25600.
    Bbr3Params {
        /// Pacing gain of Startup: the smallest that doubles the rate every round (4 ln 2).
        startup_pacing_gain: FineGain = 70_912, 25_601, 256_000, "draft-06 StartupPacingGain";
        /// cwnd gain of Startup and Drain.
        startup_cwnd_gain: FineGain = 51_200, 25_601, 256_000, "draft-06 DefaultCwndGain";
        /// Pacing gain of Drain.
        drain_pacing_gain: FineGain = 12_800, 256, 25_599, "draft-06 DrainPacingGain";
        /// Rounds after which Drain ends whatever is in flight; 0 for no such limit.
        drain_rounds: Rounds = 3, 0, 100, "draft-06 CheckDrainDone";
        /// Per cent by which the pacing rate stays below the estimate.
        pacing_margin_percent: Count = 1, 0, 50, "draft-06 PacingMarginPercent";
        /// cwnd gain of ProbeBW, but for its probing phase.
        default_cwnd_gain: FineGain = 51_200, 12_800, 2_560_000, "draft-06 DefaultCwndGain";
        /// Pacing gain of ProbeBW's draining phase.
        probe_down_pacing_gain: FineGain = 23_040, 256, 25_600, "draft-06 #probebwdown";
        /// Pacing gain of ProbeBW's probing phase.
        probe_up_pacing_gain: FineGain = 32_000, 25_600, 256_000, "draft-06 #probebwup";
        /// cwnd gain of ProbeBW's probing phase.
        probe_up_cwnd_gain: FineGain = 57_600, 12_800, 2_560_000, "draft-06 #probebwup";
        /// Share of packets lost in a round above which probing has gone too far.
        loss_thresh: FineShare = 512, 0, 25_344, "draft-06 LossThresh";
        /// Factor on the bounds after a round with loss, or a probe that went too far.
        beta: FineShare = 17_920, 256, 25_600, "draft-06 Beta";
        /// Share of the long-term bound that cruising leaves to others.
        headroom: FineShare = 3_840, 0, 25_344, "draft-06 Headroom";
        /// Floor of the congestion window.
        min_pipe_cwnd: Packets = 4, 1, 1000, "draft-06 MinPipeCwnd";
        /// Growth of bandwidth that shows that the pipe is not yet full.
        full_bw_growth: FineGain = 32_000, 25_601, 256_000, "draft-06 CheckFullBWReached";
        /// Rounds without that growth after which the pipe counts as full.
        full_bw_rounds: Rounds = 3, 1, 100, "draft-06 CheckFullBWReached";
        /// Number of lost ranges in a round from which loss ends Startup; 0 for never.
        startup_full_loss_cnt: Count = 6, 0, 1000, "draft-06 BBRStartupFullLossCnt";
        /// Shortest wait between two probes for bandwidth.
        bw_probe_wait_base: Micros = 2_000_000, 1_000, 60_000_000, "draft-06 PickProbeWait";
        /// Largest random addition to `bw_probe_wait_base`.
        bw_probe_wait_rand: Micros = 1_000_000, 0, 60_000_000, "draft-06 PickProbeWait";
        /// Maximum rounds between two probes, so that Reno and CUBIC keep their share; fewer if the BDP in packets is smaller.
        bw_probe_max_rounds: Rounds = 63, 1, 1_000_000, "draft-06 IsRenoCoexistenceProbeTime";
        /// One more than the largest random reduction of `bw_probe_max_rounds`.
        bw_probe_rand_rounds: Rounds = 2, 1, 100, "draft-06 PickProbeWait";
        /// Window of the filter for aggregated ACKs.
        extra_acked_filter_len: Rounds = 10, 1, 1000, "draft-06 ExtraAckedFilterLen";
        /// Window of the filter for aggregated ACKs before the pipe is full.
        extra_acked_startup_len: Rounds = 1, 1, 1000, "draft-06 UpdateACKAggregation";
        /// Gain of the allowance for aggregated ACKs; 0 switches it off.
        extra_acked_gain: FineGain = 25_600, 0, 256_000, "draft-06 UpdateMaxInflight";
        /// Cap on the allowance for aggregated ACKs, as time at the estimated bandwidth; 0 for none.
        extra_acked_max: Micros = 0, 0, 10_000_000, "draft-06 UpdateACKAggregation";
        /// ProbeRTT's window, as a factor of the BDP.
        probe_rtt_cwnd_gain: FineGain = 12_800, 0, 25_600, "draft-06 ProbeRTTCwndGain";
        /// Time for which ProbeRTT holds inflight low.
        probe_rtt_duration: Micros = 200_000, 1_000, 10_000_000, "draft-06 ProbeRTTDuration";
        /// Time between two ProbeRTTs, if no sample is as low in between.
        probe_rtt_interval: Micros = 5_000_000, 100_000, 3_600_000_000, "draft-06 ProbeRTTInterval";
        /// Window of the minimum RTT.
        min_rtt_filter_len: Micros = 10_000_000, 100_000, 3_600_000_000, "draft-06 MinRTTFilterLen";
        /// A send quantum is this much time at the pacing rate; 0 for the kernel's 2^-10 s and its allowance for short paths.
        send_quantum_time: Micros = 1_000, 0, 100_000, "draft-06 SetSendQuantum";
        /// Largest send quantum, bytes.
        send_quantum_max: Count = 65_536, 1, 10_000_000, "draft-06 SetSendQuantum";
        /// Smallest send quantum.
        send_quantum_min: Packets = 2, 1, 100, "draft-06 SetSendQuantum";
        /// Send quanta that the window always admits.
        offload_quanta: Count = 3, 0, 16, "draft-06 UpdateOffloadBudget (TCP)";
        /// Treat packets reported with a congestion mark as congestion.
        ecn: Switch = 1, 0, 1, "draft-06 #ecn, ours in detail";
        /// Correct inflight for data that the pacer has already scheduled (earliest departure time).
        edt: Switch = 0, 0, 1, "not in draft-06";
        /// Ticks of the kernel's clock a second, to which stamps are rounded; 0 keeps them exact.
        hz: Count = 0, 0, 10_000, "not in draft-06";
        /// Largest minimum RTT at which marks are treated as those of a shallow threshold; 0 for any.
        ecn_max_rtt: Micros = 0, 0, 10_000_000, "not in draft-06";
        /// Weight of a round's share of marks in their mean.
        ecn_alpha_gain: FineShare = 1_600, 0, 25_600, "not in draft-06";
        /// Share by which a round with marks but no loss lowers the short-term bound.
        ecn_factor: FineShare = 8_500, 0, 25_600, "not in draft-06";
        /// Share of marks above which probing has gone too far.
        ecn_thresh: FineShare = 12_800, 0, 25_600, "not in draft-06";
        /// Number of rounds above `ecn_thresh` that end Startup; 0 for never.
        full_ecn_cnt: Rounds = 2, 0, 100, "not in draft-06";
        /// First step above the long-term bound after a cycle with marks and no loss, as its share; 0 for none.
        ecn_reprobe_gain: FineShare = 0, 0, 25_600, "not in draft-06";
    }
}

/// Number of parameters.
const N: usize = Bbr3Params::SPECS.len();
/// Number of parameters, the last ones, for Google's response to marks, which the draft does not have.
const OF_GOOGLES_MARKS: usize = 6;

/// The draft's.
pub(super) const DRAFT06: &[ParamSpec] = Bbr3Params::SPECS.split_at(N - OF_GOOGLES_MARKS).0;

/// Parameters of Google's BBRv3 for Linux, which differ from the draft: the kernel's 256ths, its clock, its pacer, its ECN.
pub(super) static LINUX: [ParamSpec; N] = LINUX_TABLE;
const LINUX_TABLE: [ParamSpec; N] = edition(Bbr3Params::SPECS, LINUX_CHANGES);

/// Parameters of v2alpha, which differ from those of Linux.
pub(super) static V2: [ParamSpec; N] = V2_TABLE;
const V2_TABLE: [ParamSpec; N] = edition(&LINUX_TABLE, V2_CHANGES);

/// Parameters of the prototype of IETF 100, which differ from v2alpha as far as its slides show.
pub(super) static IETF100: [ParamSpec; N] = edition(&V2_TABLE, IETF100_CHANGES);

const LINUX_CHANGES: &[Change] = &[
    ("startup_pacing_gain", 71_000, "google/bbr v3 bbr_startup_pacing_gain"),
    ("drain_pacing_gain", 8_800, "google/bbr v3 bbr_drain_gain"),
    ("drain_rounds", 0, "google/bbr v3 bbr_check_drain: no limit"),
    ("probe_down_pacing_gain", 23_200, "google/bbr v3 bbr_pacing_gain[DOWN]"),
    ("loss_thresh", 500, "google/bbr v3 bbr_loss_thresh"),
    ("beta", 18_000, "google/bbr v3 bbr_beta, as what is left"),
    ("headroom", 3_800, "google/bbr v3 bbr_inflight_headroom"),
    ("extra_acked_filter_len", 5, "google/bbr v3 bbr_extra_acked_win_rtts, two buckets"),
    ("extra_acked_max", 100_000, "google/bbr v3 bbr_extra_acked_max_us"),
    ("send_quantum_time", 0, "google/bbr v3 bbr_tso_segs_generic"),
    ("ecn", 0, "google/bbr v3 bbr_can_use_ecn: the route must say so"),
    ("ecn_max_rtt", 5_000, "google/bbr v3 bbr_ecn_max_rtt_us"),
    ("ecn_alpha_gain", 1_600, "google/bbr v3 bbr_ecn_alpha_gain"),
    ("ecn_factor", 8_500, "google/bbr v3 bbr_ecn_factor"),
    ("ecn_thresh", 12_800, "google/bbr v3 bbr_ecn_thresh"),
    ("full_ecn_cnt", 2, "google/bbr v3 bbr_full_ecn_cnt"),
    ("ecn_reprobe_gain", 12_800, "google/bbr v3 bbr_ecn_reprobe_gain"),
    ("edt", 1, "google/bbr v3 bbr_packets_in_net_at_edt"),
    ("hz", 250, "Debian's CONFIG_HZ"),
];

const V2_CHANGES: &[Change] = &[
    ("startup_pacing_gain", 73_900, "google/bbr v2alpha bbr_startup_pacing_gain"),
    ("startup_cwnd_gain", 73_900, "google/bbr v2alpha bbr_startup_cwnd_gain"),
    ("probe_down_pacing_gain", 19_200, "google/bbr v2alpha bbr_pacing_gain[DOWN]"),
    ("probe_up_cwnd_gain", 51_200, "google/bbr v2alpha bbr_cwnd_gain"),
    ("startup_full_loss_cnt", 8, "google/bbr v2alpha bbr_full_loss_cnt"),
    ("ecn_reprobe_gain", 0, "google/bbr v2alpha bbr_ecn_reprobe_gain"),
];

const IETF100_CHANGES: &[Change] = &[
    ("loss_thresh", 1_280, "IETF 100 slides: 5 % loss"),
    ("beta", 21_760, "IETF 100 slides: 0.85"),
    ("headroom", 0, "ours: the slides name none"),
    ("probe_down_pacing_gain", 19_200, "ours: BBRv1's draining phase"),
    ("bw_probe_wait_base", 1_000_000, "IETF 100 slides: 1 to 4 s"),
    ("bw_probe_wait_rand", 3_000_000, "IETF 100 slides: 1 to 4 s; here a range, not a random number"),
    ("bw_probe_max_rounds", 1_000_000, "ours: the wait is a time alone"),
    ("startup_full_loss_cnt", 1, "ours: the slides ask for a faster exit"),
];
