//! The editions of BBRv2 and BBRv3 as tables of rules: the draft's are the defaults, every other edition lists its differences.
//! They are constants that the algorithm uses by name; the code of a rule stays with the algorithm.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::params::{self, Bbr3Params};
use super::queue::{Queue, QueueState};
use crate::params::{ParamError, ParamSpec};

/// Source text that is followed where editions differ by more than a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Edition {
    /// draft-ietf-ccwg-bbr-06: bytes, a byte-exact window.
    Draft06,
    /// Google's v3 for Linux: packets, the kernel's clock and rounding.
    LinuxV3,
    /// Google's v2alpha for Linux.
    LinuxV2,
    /// The prototype of IETF 100.
    Ietf100,
    /// The draft with bbr-lab's rules on the queue.
    Lab,
}

/// Meaning of a congestion mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// Equivalent to a loss.
    Loss,
    /// A sample of the share of marked packets, for a shallow threshold.
    Share,
}

/// Condition under which Linux skips most of its work for an application-limited sample without information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastPath {
    /// Never.
    None,
    /// While window and target agree; the latest delivery signals are still updated.
    KeepsSignals,
    /// The same, without updating them.
    SkipsSignals,
}

/// Bandwidth examined for a plateau, and the time of the examination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plateau {
    /// The sample that begins a round, in Startup and in each probe.
    RoundSample,
    /// Each sample for growth, but only the one that begins a round for the lack of it.
    EverySample,
    /// The windowed maximum at the start of a round, only in Startup.
    RoundMaximum,
}

/// Definition of a loss event in Startup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossEvents {
    /// A gap in the sequence, whatever its length, and an ACK with congestion marks.
    Gaps,
    /// An ACK with losses; checked before the plateau, until the pipe is full.
    AcksWithLoss,
}

/// Time at which the window and the state for an undo are saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saves {
    /// Once per recovery episode, at the first sign of loss.
    FirstSign,
    /// Each time the host requests a slow-start threshold.
    Reduction,
}

/// Effects of a time-out besides those on the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Nothing.
    WindowOnly,
    /// Restarts the search for a plateau; the larger of the windows bounds what follows.
    LargerWindowBounds,
    /// Restarts only its baseline; the window before the time-out bounds what follows.
    PriorWindowBounds,
}

/// Length of the wait before a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeWait {
    /// A random time; `true` if the end of its range can be drawn too.
    Random(bool),
    /// The length of Reno's sawtooth at this volume, within the same range.
    ByVolume,
}

/// Condition that ends a probe without congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeEnd {
    /// A plateau of the bandwidth.
    Plateau,
    /// A minimum RTT has passed, and the volume has reached the probing gain times the BDP.
    TimeAndVolume,
}

/// Long-term bound after a probe that went too far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooHigh {
    /// The volume in flight, but at least beta of the target.
    FlightOrTarget,
    /// Beta of the volume in flight.
    BetaOfFlight,
}

/// Long-term bound when congestion ends Startup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartupBound {
    /// The BDP or the volume delivered in a round; the bandwidth then counts as at its plateau.
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

/// Rule by which the filter of aggregated ACKs drops old values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckFilter {
    /// A windowed maximum.
    Window,
    /// Two buckets, with epochs that end.
    Buckets,
}

/// Condition up to which a window grows regardless of its target before the pipe is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyGrowth {
    /// Until an initial window has been delivered.
    InitialDelivered,
    /// Up to twice the initial window.
    TwiceInitial,
}

mod sealed {
    pub trait Sealed {}
}

/// The rules of one edition. Each default is the draft's.
pub trait Rules: sealed::Sealed + Copy + core::fmt::Debug + Default + Send + Sync + 'static {
    /// The edition.
    const EDITION: Edition;
    /// The edition's parameters with their defaults and sources.
    const SPECS: &'static [ParamSpec];
    /// State of bbr-lab's rules on the queue; `()` in every other edition.
    type Queue: QueueState;

    // Units and samples
    /// True if volumes are in packets, not bytes.
    const COUNTS_PACKETS: bool = false;
    /// Largest initial window that is stored, in full packets.
    const INITIAL_CWND_MAX: u64 = u64::MAX;
    /// True if a rate is rounded up, so that a low one can grow.
    const RATES_ROUND_UP: bool = false;
    /// True if a sample without a rate, or of data delivered before, is ignored.
    const SAMPLE_NEEDS_RATE: bool = false;
    /// The fast path for application-limited samples.
    const FAST_PATH: FastPath = FastPath::None;
    /// True if the latest delivery signals are reset before anything but the short-term bounds has used them.
    const FORGETS_SIGNALS_EARLY: bool = false;

    // Startup and Drain
    /// Bandwidth examined for a plateau.
    const PLATEAU: Plateau = Plateau::RoundSample;
    /// Loss events that end Startup.
    const LOSS_EVENTS: LossEvents = LossEvents::Gaps;
    /// Long-term bound after Startup ended by congestion.
    const STARTUP_BOUND: StartupBound = StartupBound::BdpOrLatest;
    /// True if Drain begins without the signals of Startup.
    const DRAIN_FORGETS_SIGNALS: bool = false;

    // Loss
    /// True if any loss is too much for hosts without selective ACKs.
    const NON_SACK_RULE: bool = true;
    /// True if a loss test treats a flight of unknown size as an empty one.
    const JUDGES_UNKNOWN_FLIGHT: bool = true;
    /// True if losses that an ACK reports count for the round in which it arrives, even if they have ended a state.
    const ACK_LOSSES_MARK_ROUND: bool = false;
    /// True if the sum of an ACK's losses can end a probe; if not, only each single loss is tested.
    const ACK_JUDGES_LOSS: bool = false;
    /// True if the computed prefix is at most the volume lost together. If not, it can exceed a super-packet of over 50 packets
    /// by one packet, and a super-packet larger than its flight or than the lost volume sets no bound.
    const PREFIX_WITHIN_LOSS: bool = true;
    /// Long-term bound after a probe that went too far.
    const TOO_HIGH: TooHigh = TooHigh::FlightOrTarget;
    /// True if tail-loss probes that repaired a loss are reported.
    const HEARS_TAIL_PROBES: bool = true;
    /// Time at which window and bounds are saved.
    const SAVES: Saves = Saves::FirstSign;
    /// True if any end of recovery restores the window. If not, only the end of a time-out does, even if fast recovery follows.
    const RESTORES_AFTER_RECOVERY: bool = true;
    /// True if an undo returns to the state that the losses ended.
    const UNDO_RETURNS: bool = true;
    /// True if an undo restores the old window, even where recovery had let it grow beyond.
    const UNDO_SETS_WINDOW: bool = false;
    /// Effects of a time-out.
    const TIMEOUT: Timeout = Timeout::WindowOnly;

    // Marks
    /// Meaning of a mark.
    const MARKS: Marks = Marks::Loss;
    /// True if their mean is updated on every path, not only on short ones.
    const MARKS_ON_ANY_PATH: bool = false;
    /// True if a share exactly at the threshold is too high.
    const MARKS_AT_THRESHOLD: bool = false;
    /// True if a marked round lowers the short-term rate too.
    const MARKS_CUT_RATE: bool = false;

    // The cycle
    /// True if an ACK that delivers nothing does not advance the cycle.
    const CYCLE_NEEDS_DATA: bool = true;
    /// The wait between probes.
    const PROBE_WAIT: ProbeWait = ProbeWait::Random(true);
    /// True if a cycle that ends early still ages the maximum of bandwidth.
    const ADVANCES_UNFINISHED_CYCLE: bool = true;
    /// True if the cycle is timed in whole microseconds.
    const CYCLE_IN_MICROS: bool = false;
    /// True if the cycle subtracts what the pacer still holds from the volume in flight.
    const CYCLE_SEES_PACER: bool = false;
    /// True if the test for cruising uses the volume in flight before the ACK, not after it.
    const CRUISE_BY_PRIOR_FLIGHT: bool = false;
    /// True if cruising begins with the short-term bound no higher than the long-term one.
    const CRUISE_LOWERS_SHORTTERM: bool = false;
    /// Condition that ends a probe for bandwidth.
    const PROBE_END: ProbeEnd = ProbeEnd::Plateau;
    /// True if volume acknowledged below the long-term bound counts for its growth later.
    const PROBE_CREDIT_LASTS: bool = true;

    // RTT
    /// True if RTTs of ACKs that the receiver delayed are accepted.
    const BELIEVES_DELAYED_ACKS: bool = true;
    /// Effect of an RTT equal to the minimum.
    const EQUAL_RTT: EqualRtt = EqualRtt::KeepsStamp;
    /// True if ProbeRTT's smaller window comes from its gain, not only from its cap.
    const PROBE_RTT_GAIN: bool = true;

    // Outputs
    /// True if the gains of a new state apply at once; if not, from the end of an ACK's steps.
    const GAINS_AT_ONCE: bool = true;
    /// True if the first rate is that of the initial window; if not, of the present one, less the margin.
    const FIRST_RATE_OF_INITIAL: bool = true;
    /// True if the algorithm sets the size of bursts in bytes; if not, it computes in packets what the host will do.
    const OWN_QUANTUM: bool = true;
    /// Rate below which a burst is one packet; bytes per second.
    const SMALL_BURST_RATE: u64 = 0;
    /// True if the target leaves room for bursts.
    const TARGET_HAS_ROOM: bool = false;
    /// Growth of the window before the path is known well.
    const EARLY_GROWTH: EarlyGrowth = EarlyGrowth::InitialDelivered;
    /// True if an ACK of nothing new only caps the window.
    const WINDOW_NEEDS_ACKED: bool = false;
    /// Filter for the aggregation of ACKs.
    const ACK_FILTER: AckFilter = AckFilter::Window;
}

/// draft-ietf-ccwg-bbr-06.
#[derive(Clone, Copy, Debug, Default)]
pub struct Draft06;
/// Google's v3 for Linux.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinuxV3;
/// Google's v2alpha for Linux.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinuxV2;
/// The prototype of IETF 100.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ietf100;
/// The draft with bbr-lab's rules on the queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lab;

impl sealed::Sealed for Draft06 {}
impl sealed::Sealed for LinuxV3 {}
impl sealed::Sealed for LinuxV2 {}
impl sealed::Sealed for Ietf100 {}
impl sealed::Sealed for Lab {}

impl Rules for Draft06 {
    const EDITION: Edition = Edition::Draft06;
    const SPECS: &'static [ParamSpec] = params::DRAFT06;
    type Queue = ();
}

impl Rules for Lab {
    const EDITION: Edition = Edition::Lab;
    const SPECS: &'static [ParamSpec] = params::DRAFT06;
    type Queue = Queue;
}

// Rules that all editions written for Linux share. spec: google/bbr v3 tcp_bbr.c, by the names of its functions.
macro_rules! kernel_rules {
    () => {
        type Queue = ();
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

// Rules that v2alpha and its prototype share. spec: google/bbr v2alpha tcp_bbr2.c, by the names of its functions.
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

impl Rules for LinuxV3 {
    kernel_rules!();
    const EDITION: Edition = Edition::LinuxV3;
    const SPECS: &'static [ParamSpec] = &params::LINUX;
    const PROBE_WAIT: ProbeWait = ProbeWait::Random(false); // bbr_pick_probe_wait
    const FAST_PATH: FastPath = FastPath::KeepsSignals; // bbr_main, bbr_run_fast_path
    const PLATEAU: Plateau = Plateau::EverySample; // bbr_check_full_bw_reached
    const STARTUP_BOUND: StartupBound = StartupBound::InflightOrLatest; // bbr_handle_queue_too_high_in_startup
    const TIMEOUT: Timeout = Timeout::LargerWindowBounds; // bbr_set_state
    const EQUAL_RTT: EqualRtt = EqualRtt::RenewsMinRtt; // bbr_update_min_rtt
}

impl Rules for LinuxV2 {
    v2_rules!();
    const EDITION: Edition = Edition::LinuxV2;
    const SPECS: &'static [ParamSpec] = &params::V2;
    const PROBE_WAIT: ProbeWait = ProbeWait::Random(false); // bbr_pick_probe_wait
}

impl Rules for Ietf100 {
    v2_rules!();
    const EDITION: Edition = Edition::Ietf100;
    const SPECS: &'static [ParamSpec] = &params::IETF100;
    // Ours: the slides require 1 to 4 s, by the bandwidth and fair to RTTs; Reno's sawtooth lasts a BDP of round trips.
    const PROBE_WAIT: ProbeWait = ProbeWait::ByVolume;
    // Ours: the slides' factor is subtracted once per trigger from the volume in flight.
    const TOO_HIGH: TooHigh = TooHigh::BetaOfFlight;
}

impl Bbr3Params {
    /// An edition's parameters, with its defaults and sources.
    pub const fn specs_of(edition: Edition) -> &'static [ParamSpec] {
        match edition {
            Edition::Draft06 => Draft06::SPECS,
            Edition::LinuxV3 => LinuxV3::SPECS,
            Edition::LinuxV2 => LinuxV2::SPECS,
            Edition::Ietf100 => Ietf100::SPECS,
            Edition::Lab => Lab::SPECS,
        }
    }

    /// Returns an edition's defaults.
    pub fn of(edition: Edition) -> Self {
        Self::default().with_defaults(Self::specs_of(edition))
    }

    /// Sets one parameter from text, if the edition has it.
    pub fn set_for(&mut self, edition: Edition, name: &str, text: &str) -> Result<(), ParamError> {
        if !Self::specs_of(edition).iter().any(|spec| spec.name == name) {
            return Err(ParamError::Unknown);
        }
        self.set(name, text)
    }
}
