//! The editions of BBRv2 and BBRv3 as tables of rules: the draft's are the defaults, each other edition lists what differs.
//! They are constants that the algorithm asks for by name; the code of a rule stays with the algorithm.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::params;
use crate::params::ParamSpec;

/// Which text is followed where they differ by more than a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Edition {
    /// draft-ietf-ccwg-bbr-06: bytes, a byte-exact window.
    Draft06,
    /// Google's v3 for Linux: packets, the kernel's clock and rounding.
    Linux,
    /// Google's v2alpha for Linux.
    V2,
    /// The prototype of IETF 100.
    Ietf100,
}

/// What a congestion mark means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// The same as a loss.
    Loss,
    /// A sample of the share of marks, as a shallow threshold gives it.
    Share,
}

/// When an application-limited sample that can teach nothing spares Linux most of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastPath {
    /// Never.
    None,
    /// While window and target agree; the latest delivery signals are still taken.
    KeepsSignals,
    /// The same, without them.
    SkipsSignals,
}

/// What is looked at for a plateau of the bandwidth, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plateau {
    /// The sample that begins a round, in Startup and in each probe.
    RoundSample,
    /// Each sample for growth, and that of a round for the lack of it.
    EverySample,
    /// The windowed maximum at the beginning of a round, in Startup alone.
    RoundMaximum,
}

/// What counts as an event of loss in Startup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossEvents {
    /// A gap in the sequence, whatever its length, and an ACK with congestion marks.
    Gaps,
    /// An ACK with losses; looked at before the plateau, until the pipe is full.
    AcksWithLoss,
}

/// When the window and what undoes an episode are saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saves {
    /// At the first sign of an episode, once.
    FirstSign,
    /// Whenever the host asks for a slow-start threshold.
    Reduction,
}

/// What a time-out changes besides the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Nothing.
    WindowOnly,
    /// The search for a plateau begins anew, and the larger of the windows bounds what follows.
    LargerWindowBounds,
    /// Its baseline alone does, and the window before bounds what follows.
    PriorWindowBounds,
}

/// How long a flow waits before it probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeWait {
    /// A random time; `true`: the end of its range can be drawn too.
    Random(bool),
    /// As long as Reno's sawtooth lasts at this volume, within the same range.
    ByVolume,
}

/// What ends a probe that meets no congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeEnd {
    /// A plateau of the bandwidth.
    Plateau,
    /// A minimum RTT and a volume of the probing gain times the BDP.
    TimeAndVolume,
}

/// What a probe that went too far leaves of the long-term bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooHigh {
    /// What was in flight, but no less than beta of the target.
    FlightOrTarget,
    /// Beta of what was in flight.
    BetaOfFlight,
}

/// What the end of Startup by congestion takes for the long-term bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartupBound {
    /// The BDP or what was delivered in a round; and the bandwidth counts as at its plateau.
    BdpOrLatest,
    /// The same, with room for bursts in the BDP.
    InflightOrLatest,
    /// The BDP with room for bursts.
    Inflight,
}

/// Effect of an RTT equal to the minimum on the stamps of the two filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EqualRtt {
    /// Both stamps stay: only a lower RTT renews them.
    KeepsStamp,
    /// Renews the stamp of min_rtt, the longer filter.
    RenewsMinRtt,
    /// Renews the stamps of min_rtt and of ProbeRTT's shorter filter.
    RenewsBothFilters,
}

/// How the filter of aggregated ACKs forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckFilter {
    /// A windowed maximum.
    Window,
    /// Two buckets, of epochs with an end.
    Buckets,
}

/// Until when a window before the pipe is full grows whatever its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyGrowth {
    /// Until an initial window was delivered.
    InitialDelivered,
    /// Up to twice the initial window.
    TwiceInitial,
}

mod sealed {
    pub trait Sealed {}
}

/// The rules of one edition. Each default is the draft's.
pub trait Rules: sealed::Sealed + Copy + core::fmt::Debug + Default + Send + Sync + 'static {
    /// Its name.
    const EDITION: Edition;
    /// Its parameters with their defaults and sources.
    const SPECS: &'static [ParamSpec];

    // Units and samples
    /// Volumes are packets, not bytes.
    const COUNTS_PACKETS: bool = false;
    /// Largest initial window that is remembered, full packets.
    const INITIAL_CWND_MAX: u64 = u64::MAX;
    /// A rate is rounded up, so that a low one can grow.
    const RATES_ROUND_UP: bool = false;
    /// A sample without a rate, or of what was delivered before, is none.
    const SAMPLE_NEEDS_RATE: bool = false;
    /// The short cut for application-limited samples.
    const FAST_PATH: FastPath = FastPath::None;
    /// The latest delivery signals are forgotten before anything but the short-term bounds has seen them.
    const FORGETS_SIGNALS_EARLY: bool = false;

    // Startup and Drain
    /// The plateau of the bandwidth.
    const PLATEAU: Plateau = Plateau::RoundSample;
    /// The events of loss that end Startup.
    const LOSS_EVENTS: LossEvents = LossEvents::Gaps;
    /// The long-term bound after that.
    const STARTUP_BOUND: StartupBound = StartupBound::BdpOrLatest;
    /// Drain begins without the signals of Startup.
    const DRAIN_FORGETS_SIGNALS: bool = false;

    // Loss
    /// For hosts without selective ACKs any loss is too much.
    const NON_SACK_RULE: bool = true;
    /// A flight of unknown size is judged as one of none.
    const JUDGES_UNKNOWN_FLIGHT: bool = true;
    /// Losses that an ACK reports belong to the round in which it comes, whatever state they have ended.
    const ACK_LOSSES_MARK_ROUND: bool = false;
    /// An ACK's sum of losses can end a probe; if not, each loss has been judged by itself.
    const ACK_JUDGES_LOSS: bool = false;
    /// Of what was lost together no more fits than there was. If not, a super-packet of over 50 packets can fit by one more than it
    /// has, and one larger than its flight, or than what was lost, knows no bound.
    const PREFIX_WITHIN_LOSS: bool = true;
    /// What a probe that went too far leaves.
    const TOO_HIGH: TooHigh = TooHigh::FlightOrTarget;
    /// Tail-loss probes that repaired a loss are reported.
    const HEARS_TAIL_PROBES: bool = true;
    /// The saving of window and bounds.
    const SAVES: Saves = Saves::FirstSign;
    /// The window comes back when recovery of any kind is over; if not, when a time-out is, also if fast recovery follows.
    const RESTORES_AFTER_RECOVERY: bool = true;
    /// An undo returns to the state that the losses ended.
    const UNDO_RETURNS: bool = true;
    /// An undo puts the window back to what it was, also where recovery had let it grow beyond.
    const UNDO_SETS_WINDOW: bool = false;
    /// What a time-out changes.
    const TIMEOUT: Timeout = Timeout::WindowOnly;

    // Marks
    /// Their meaning.
    const MARKS: Marks = Marks::Loss;
    /// Their mean is taken on every path, not only on short ones.
    const MARKS_ON_ANY_PATH: bool = false;
    /// Exactly the threshold is too much.
    const MARKS_AT_THRESHOLD: bool = false;
    /// A marked round lowers the short-term rate too.
    const MARKS_CUT_RATE: bool = false;

    // The cycle
    /// An ACK that delivers nothing does not move the cycle.
    const CYCLE_NEEDS_DATA: bool = true;
    /// The wait between probes.
    const PROBE_WAIT: ProbeWait = ProbeWait::Random(true);
    /// A cycle that is over before its round is counts for the maximum of bandwidth.
    const ADVANCES_UNFINISHED_CYCLE: bool = true;
    /// The cycle is timed in whole microseconds.
    const CYCLE_IN_MICROS: bool = false;
    /// The cycle takes off what was in flight what the pacer still holds.
    const CYCLE_SEES_PACER: bool = false;
    /// Cruising begins by what was in flight before the ACK, not after it.
    const CRUISE_BY_PRIOR_FLIGHT: bool = false;
    /// Cruising begins with the short-term bound no higher than the long-term one.
    const CRUISE_LOWERS_SHORTTERM: bool = false;
    /// What ends a probe for bandwidth.
    const PROBE_END: ProbeEnd = ProbeEnd::Plateau;
    /// What was acknowledged below the long-term bound counts for its growth later.
    const PROBE_CREDIT_LASTS: bool = true;

    // RTT
    /// ACKs that the receiver delayed are believed.
    const BELIEVES_DELAYED_ACKS: bool = true;
    /// Effect of an RTT equal to the minimum.
    const EQUAL_RTT: EqualRtt = EqualRtt::KeepsStamp;
    /// ProbeRTT's smaller window is a matter of its gain, not only of its cap.
    const PROBE_RTT_GAIN: bool = true;

    // Outputs
    /// The gains of a new state hold at once; if not, from the end of an ACK's steps.
    const GAINS_AT_ONCE: bool = true;
    /// The first rate is that of the initial window; if not, of the present one, less the margin.
    const FIRST_RATE_OF_INITIAL: bool = true;
    /// The algorithm decides on the size of bursts in bytes; if not, it counts in packets what the host will do.
    const OWN_QUANTUM: bool = true;
    /// Below this rate a burst is one packet; bytes a second.
    const SMALL_BURST_RATE: u64 = 0;
    /// The target leaves room for bursts.
    const TARGET_HAS_ROOM: bool = false;
    /// The growth of a window about whose path little is known.
    const EARLY_GROWTH: EarlyGrowth = EarlyGrowth::InitialDelivered;
    /// An ACK of nothing new only caps the window.
    const WINDOW_NEEDS_ACKED: bool = false;
    /// The aggregation of ACKs.
    const ACK_FILTER: AckFilter = AckFilter::Window;
}

/// draft-ietf-ccwg-bbr-06.
#[derive(Clone, Copy, Debug, Default)]
pub struct Draft06;
/// Google's v3 for Linux.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;
/// Google's v2alpha for Linux.
#[derive(Clone, Copy, Debug, Default)]
pub struct V2;
/// The prototype of IETF 100.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ietf100;

impl sealed::Sealed for Draft06 {}
impl sealed::Sealed for Linux {}
impl sealed::Sealed for V2 {}
impl sealed::Sealed for Ietf100 {}

impl Rules for Draft06 {
    const EDITION: Edition = Edition::Draft06;
    const SPECS: &'static [ParamSpec] = params::DRAFT06;
}

// What all that was written for Linux has in common. spec: google/bbr v3 tcp_bbr.c, by the names of its functions.
macro_rules! kernel_rules {
    () => {
        const COUNTS_PACKETS: bool = true;
        const INITIAL_CWND_MAX: u64 = 127; // struct bbr, init_cwnd:7
        const RATES_ROUND_UP: bool = true; // bbr_calculate_bw_sample
        const SAMPLE_NEEDS_RATE: bool = true; // bbr_update_congestion_signals
        const LOSS_EVENTS: LossEvents = LossEvents::AcksWithLoss; // bbr_check_loss_too_high_in_startup
        const DRAIN_FORGETS_SIGNALS: bool = true; // bbr_check_drain
        const NON_SACK_RULE: bool = false; // bbr_is_inflight_too_high
        const JUDGES_UNKNOWN_FLIGHT: bool = false; // bbr_is_inflight_too_high
        const ACK_LOSSES_MARK_ROUND: bool = true; // bbr_update_congestion_signals
        const ACK_JUDGES_LOSS: bool = true; // bbr_adapt_upper_bounds
        const PREFIX_WITHIN_LOSS: bool = false; // bbr_inflight_hi_from_lost_skb
        const SAVES: Saves = Saves::Reduction; // bbr_ssthresh
        const RESTORES_AFTER_RECOVERY: bool = false; // bbr_set_state
        const UNDO_RETURNS: bool = false; // bbr_undo_cwnd
        const UNDO_SETS_WINDOW: bool = true; // bbr_undo_cwnd
        const MARKS: Marks = Marks::Share; // bbr_update_ecn_alpha
        const CYCLE_NEEDS_DATA: bool = false; // bbr_update_cycle_phase
        const ADVANCES_UNFINISHED_CYCLE: bool = false; // bbr_adapt_upper_bounds
        const CYCLE_IN_MICROS: bool = true; // bbr_has_elapsed_in_phase
        const CYCLE_SEES_PACER: bool = true; // bbr_update_cycle_phase
        const CRUISE_BY_PRIOR_FLIGHT: bool = true; // bbr_update_cycle_phase
        const CRUISE_LOWERS_SHORTTERM: bool = true; // bbr_start_bw_probe_cruise
        const BELIEVES_DELAYED_ACKS: bool = false; // bbr_update_min_rtt
        const PROBE_RTT_GAIN: bool = false; // bbr_update_gains
        const GAINS_AT_ONCE: bool = false; // bbr_main
        const FIRST_RATE_OF_INITIAL: bool = false; // bbr_init_pacing_rate_from_rtt
        const OWN_QUANTUM: bool = false; // bbr_tso_segs_generic
        const TARGET_HAS_ROOM: bool = true; // bbr_target_inflight
        const EARLY_GROWTH: EarlyGrowth = EarlyGrowth::TwiceInitial; // bbr_set_cwnd
        const WINDOW_NEEDS_ACKED: bool = true; // bbr_set_cwnd
        const ACK_FILTER: AckFilter = AckFilter::Buckets; // bbr_update_ack_aggregation
    };
}

// What v2alpha and its prototype have in common. spec: google/bbr v2alpha tcp_bbr2.c, by the names of its functions.
macro_rules! v2_rules {
    () => {
        kernel_rules!();
        const FAST_PATH: FastPath = FastPath::SkipsSignals; // bbr2_main
        const FORGETS_SIGNALS_EARLY: bool = true; // bbr2_update_congestion_signals
        const PLATEAU: Plateau = Plateau::RoundMaximum; // bbr_check_full_bw_reached
        const STARTUP_BOUND: StartupBound = StartupBound::Inflight; // bbr2_handle_queue_too_high_in_startup
        const HEARS_TAIL_PROBES: bool = false; // bbr_cwnd_event knows no CA_EVENT_TLP_RECOVERY
        const TIMEOUT: Timeout = Timeout::PriorWindowBounds; // bbr2_set_state
        const MARKS_ON_ANY_PATH: bool = true; // bbr2_update_ecn_alpha
        const MARKS_AT_THRESHOLD: bool = true; // bbr2_is_inflight_too_high
        const MARKS_CUT_RATE: bool = true; // bbr2_adapt_lower_bounds
        const PROBE_END: ProbeEnd = ProbeEnd::TimeAndVolume; // bbr2_update_cycle_phase
        const PROBE_CREDIT_LASTS: bool = false; // bbr2_probe_inflight_hi_upward
        const EQUAL_RTT: EqualRtt = EqualRtt::RenewsBothFilters; // bbr_update_min_rtt
        const SMALL_BURST_RATE: u64 = 1_200_000 / 8; // bbr_min_tso_rate, in bits a second
    };
}

impl Rules for Linux {
    kernel_rules!();
    const EDITION: Edition = Edition::Linux;
    const SPECS: &'static [ParamSpec] = &params::LINUX;
    const PROBE_WAIT: ProbeWait = ProbeWait::Random(false); // bbr_pick_probe_wait
    const FAST_PATH: FastPath = FastPath::KeepsSignals; // bbr_main, bbr_run_fast_path
    const PLATEAU: Plateau = Plateau::EverySample; // bbr_check_full_bw_reached
    const STARTUP_BOUND: StartupBound = StartupBound::InflightOrLatest; // bbr_handle_queue_too_high_in_startup
    const TIMEOUT: Timeout = Timeout::LargerWindowBounds; // bbr_set_state
    const EQUAL_RTT: EqualRtt = EqualRtt::RenewsMinRtt; // bbr_update_min_rtt
}

impl Rules for V2 {
    v2_rules!();
    const EDITION: Edition = Edition::V2;
    const SPECS: &'static [ParamSpec] = &params::V2;
    const PROBE_WAIT: ProbeWait = ProbeWait::Random(false); // bbr_pick_probe_wait
}

impl Rules for Ietf100 {
    v2_rules!();
    const EDITION: Edition = Edition::Ietf100;
    const SPECS: &'static [ParamSpec] = &params::IETF100;
    // Ours: the slides ask for 1 to 4 s, by the bandwidth and fair to RTTs; Reno's sawtooth lasts a BDP of round trips.
    const PROBE_WAIT: ProbeWait = ProbeWait::ByVolume;
    // Ours: once a trigger, the slides' factor is taken off what was in flight.
    const TOO_HIGH: TooHigh = TooHigh::BetaOfFlight;
}
