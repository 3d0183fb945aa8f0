//! BBRv1's constants as parameters, with the kernel's values as defaults.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::params::params;

params! {
    /// BBRv1's parameters. Gains and shares are in 1/256.
    Bbr1Params {
        /// Pacing gain of Startup: the smallest that doubles the rate every round (2/ln 2).
        pacing_gain_startup: Gain = 739, 257, 2560, "Linux 6.12 bbr_high_gain";
        /// cwnd gain of Startup and Drain.
        cwnd_gain_startup: Gain = 739, 257, 2560, "Linux 6.12 bbr_high_gain";
        /// Pacing gain of Drain: the inverse of Startup's.
        pacing_gain_drain: Gain = 88, 1, 255, "Linux 6.12 bbr_drain_gain";
        /// Pacing gain of the gain cycle's probing phase.
        pacing_gain_up: Gain = 320, 256, 2560, "Linux 6.12 bbr_pacing_gain[0]";
        /// Pacing gain of the gain cycle's draining phase.
        pacing_gain_down: Gain = 192, 1, 256, "Linux 6.12 bbr_pacing_gain[1]";
        /// cwnd gain of ProbeBW.
        cwnd_gain: Gain = 512, 128, 25600, "Linux 6.12 bbr_cwnd_gain";
        /// Window of the bandwidth filter.
        bw_window: Rounds = 10, 1, 1000, "Linux 6.12 bbr_bw_rtts";
        /// Window of the RTprop filter, and so the time between ProbeRTTs.
        min_rtt_window: Micros = 10_000_000, 100_000, 3_600_000_000, "Linux 6.12 bbr_min_rtt_win_sec";
        /// Time for which ProbeRTT holds inflight low.
        probe_rtt_time: Micros = 200_000, 1_000, 10_000_000, "Linux 6.12 bbr_probe_rtt_mode_ms";
        /// Floor of the congestion window, and ProbeRTT's window.
        cwnd_min: Packets = 4, 1, 1000, "Linux 6.12 bbr_cwnd_min_target";
        /// Growth of bandwidth that shows that the pipe is not yet full.
        full_bw_growth: Gain = 320, 257, 2560, "Linux 6.12 bbr_full_bw_thresh";
        /// Rounds without that growth after which the pipe counts as full.
        full_bw_rounds: Rounds = 3, 1, 100, "Linux 6.12 bbr_full_bw_cnt";
        /// Per cent by which the pacing rate stays below the estimate.
        pacing_margin: Count = 1, 0, 50, "Linux 6.12 bbr_pacing_margin_percent";
        /// Detection of policers by long-term sampling.
        lt_bw: Switch = 1, 0, 1, "Linux 6.12 bbr_lt_bw_sampling";
        /// Shortest long-term sampling interval.
        lt_interval_min: Rounds = 4, 1, 100, "Linux 6.12 bbr_lt_intvl_min_rtts";
        /// lost/delivered from which an interval counts as policed.
        lt_loss_threshold: Share = 50, 1, 256, "Linux 6.12 bbr_lt_loss_thresh";
        /// Relative difference at which two intervals count as consistent.
        lt_bw_ratio: Share = 32, 0, 256, "Linux 6.12 bbr_lt_bw_ratio";
        /// Absolute difference at which two intervals count as consistent.
        lt_bw_diff: BytesPerSec = 500, 0, 1_000_000_000, "Linux 6.12 bbr_lt_bw_diff";
        /// Rounds for which a policed rate is used before it is probed again.
        lt_bw_max: Rounds = 48, 1, 10_000, "Linux 6.12 bbr_lt_bw_max_rtts";
        /// Gain of the allowance for aggregated ACKs; 0 switches it off.
        extra_acked_gain: Gain = 256, 0, 2560, "Linux 6.12 bbr_extra_acked_gain";
        /// Window of the filter for aggregated ACKs; two buckets of this length.
        extra_acked_window: Rounds = 5, 1, 31, "Linux 6.12 bbr_extra_acked_win_rtts";
        /// Cap on the allowance for aggregated ACKs, as time at the estimated bandwidth.
        extra_acked_max: Micros = 100_000, 0, 10_000_000, "Linux 6.12 bbr_extra_acked_max_us";
        /// Room for this many send quanta on top of each cwnd target.
        quantization: Count = 3, 0, 16, "Linux 6.12 bbr_quantization_budget";
        /// Correct inflight for data that the pacer has already scheduled (earliest departure time).
        edt: Switch = 1, 0, 1, "Linux 6.12 bbr_packets_in_net_at_edt";
        /// Ticks of the kernel's clock a second, to which the RTprop filter's stamps are rounded; 0 keeps them exact.
        hz: Count = 250, 0, 10_000, "Debian's CONFIG_HZ";
    }
}

impl Bbr1Params {
    /// Parameters of the first draft, whose rules have no policer, no aggregation and no kernel clock.
    pub fn draft00() -> Self {
        Self { lt_bw: 0, extra_acked_gain: 0, edt: 0, pacing_margin: 0, hz: 0, ..Self::default() }
    }
}
