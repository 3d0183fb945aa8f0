//! The table of all algorithms: the only place in core that names each of them.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod declare;

use crate::algorithm::forward_algorithm;
#[cfg(test)]
use crate::algorithm::tests::probe::Probe;
use crate::bbr1::{Bbr1, Bbr1Params};
use crate::bbr3::{Bbr3, Bbr3Params, Draft06, Edition, Ietf100, Lab, LabParams, LinuxV2, LinuxV3, QueueParams};
use crate::cubic::CubicParams;
use crate::dctcp::DctcpParams;
use crate::event::Init;
use crate::fixed::{Fixed, FixedParams};
use crate::loss_based::{LossBased, RenoParams};
use crate::params::{MAX_PARAMS, ParamError, ParamSpec, collect};
use crate::prague::{Prague, PragueParams};
use crate::units::Rate;
#[cfg(feature = "variants")]
use crate::variant::{Davis, DavisParams, Variant, VariantName, VariantParams};

/// Facts about one algorithm, as `bbrlab list algorithms` shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AlgorithmInfo {
    /// Its name, as in `--flow NAME`.
    pub name: &'static str,
    /// Other names for the same algorithm.
    pub aliases: &'static [&'static str],
    /// One line on what it is.
    pub summary: &'static str,
    /// Paper, draft, RFC or code from which its rules come.
    pub source: &'static str,
    /// True if it depends on its pacing rate being enforced.
    pub needs_pacing: bool,
    /// True if its volumes are in bytes, false if in packets.
    pub counts_bytes: bool,
    /// Linux's own name of it; `None` if Linux has no such congestion control.
    pub linux_name: Option<&'static str>,
    /// Base name of its object in `bpf/cc/objects`; `None` if no kernel can load it.
    pub bpf_object: Option<&'static str>,
    /// Its look in figures.
    pub plot: PlotStyle,
}

/// Colour, dash and marker of an algorithm in every figure, by the names and numbers of the report's `palette.js`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlotStyle {
    /// Key of `HUES`. A family shares a hue.
    pub hue: &'static str,
    /// Index into `DASHES`.
    pub dash: u8,
    /// Element of `MARKERS`.
    pub marker: &'static str,
}

impl AnyAlgorithm {
    /// Sets window and rate of `fixed`. Returns false for any other algorithm.
    pub(crate) fn set_fixed(&mut self, cwnd: u32, pacing_rate: Option<Rate>) -> bool {
        let Any::Fixed(fixed) = &mut self.0 else { return false };
        fixed.set(cwnd, pacing_rate);
        true
    }
}

declare::algorithms! {
    types {
        Fixed(Fixed),
        LossBased(LossBased),
        Prague(Prague),
        Bbr1(Bbr1),
        Bbr3(Bbr3<Draft06>),
        Bbr3Linux(Bbr3<LinuxV3>),
        Bbr2(Bbr3<LinuxV2>),
        Ietf100(Bbr3<Ietf100>),
        BbrLab(Bbr3<Lab>),
        #[cfg(feature = "variants")]
        Variant(Variant),
        #[cfg(feature = "variants")]
        Davis(Davis),
        #[cfg(test)]
        Probe(Probe),
    }

    Fixed(FixedParams) {
        name: "fixed",
        summary: "a constant window without pacing, for reference",
        source: "CACM figure 1",
        defaults: FixedParams::default(),
        specs: [FixedParams::SPECS, &[]],
        runs: Fixed by Fixed::new,
        needs_pacing: false,
        counts_bytes: false,
        linux_name: None,
        bpf_object: None,
        plot: ("teal", 0, "circle"),
    }

    Reno(RenoParams) {
        name: "reno",
        summary: "Reno with SACK recovery and PRR, as in Linux",
        source: "RFC 5681, RFC 9937, Linux 6.12",
        defaults: RenoParams::default(),
        specs: [RenoParams::SPECS, &[]],
        runs: LossBased by LossBased::reno,
        needs_pacing: false,
        counts_bytes: false,
        linux_name: Some("reno"),
        bpf_object: Some("reno"),
        plot: ("grey", 0, "down"),
    }

    Cubic(CubicParams) {
        name: "cubic",
        summary: "CUBIC with HyStart, as in Linux; RFC 9438 by parameters",
        source: "RFC 9438, Linux 6.12 tcp_cubic.c",
        defaults: CubicParams::default(),
        specs: [CubicParams::SPECS, &[]],
        runs: LossBased by LossBased::cubic,
        needs_pacing: false,
        counts_bytes: false,
        linux_name: Some("cubic"),
        bpf_object: Some("cubic"),
        plot: ("orange", 0, "square"),
    }

    Dctcp(DctcpParams) {
        name: "dctcp",
        summary: "DCTCP: Reno whose window shrinks by the share of marked packets",
        source: "RFC 8257, Linux 6.12 tcp_dctcp.c",
        defaults: DctcpParams::default(),
        specs: [DctcpParams::SPECS, &[]],
        runs: LossBased by LossBased::dctcp,
        needs_pacing: false,
        counts_bytes: false,
        linux_name: Some("dctcp"),
        bpf_object: Some("dctcp"),
        plot: ("grey", 1, "square"),
    }

    Prague(PragueParams) {
        name: "prague",
        summary: "TCP Prague for L4S",
        source: "draft-briscoe-iccrg-prague-congestion-control, L4STeam's Linux module 0.7",
        defaults: PragueParams::default(),
        specs: [PragueParams::SPECS, &[]],
        runs: Prague by Prague::new,
        needs_pacing: true,
        counts_bytes: false,
        linux_name: None,
        bpf_object: Some("prague"),
        plot: ("grey", 2, "diamond"),
    }

    Bbr1(Bbr1Params) {
        name: "bbr1",
        summary: "BBRv1, the kernel's fixed point",
        source: "Linux 6.12 tcp_bbr.c",
        defaults: Bbr1Params::default(),
        specs: [Bbr1Params::SPECS, &[]],
        runs: Bbr1 by Bbr1::new,
        needs_pacing: true,
        counts_bytes: false,
        linux_name: Some("bbr"),
        bpf_object: Some("bbr1"),
        plot: ("blue", 0, "circle"),
    }

    Bbr1Draft00(Bbr1Params) {
        name: "bbr1-draft00",
        summary: "BBRv1 of the first draft: no policer detection, no ACK aggregation",
        source: "draft-cardwell-iccrg-bbr-congestion-control-00",
        defaults: Bbr1Params::draft00(),
        specs: [Bbr1Params::SPECS, &[]],
        runs: Bbr1 by Bbr1::new_draft00,
        needs_pacing: true,
        counts_bytes: false,
        linux_name: None,
        bpf_object: None,
        plot: ("blue", 1, "plus"),
    }

    Bbr2Ietf100(Bbr3Params) {
        name: "bbr2-ietf100",
        summary: "the prototype between v1 and v2: 5 % loss, x0.85; values missing from the slides are ours",
        source: "Cardwell et al., BBR update, IETF 100 (2017); google/bbr v2alpha",
        defaults: Bbr3Params::of(Edition::Ietf100),
        specs: [Bbr3Params::specs_of(Edition::Ietf100), &[]],
        runs: Ietf100 by Bbr3::new,
        needs_pacing: true,
        counts_bytes: false,
        linux_name: None,
        bpf_object: None,
        plot: ("green", 1, "down"),
    }

    Bbr2(Bbr3Params) {
        name: "bbr2",
        summary: "BBRv2 for Linux, packets",
        source: "google/bbr v2alpha tcp_bbr2.c",
        defaults: Bbr3Params::of(Edition::LinuxV2),
        specs: [Bbr3Params::specs_of(Edition::LinuxV2), &[]],
        runs: Bbr2 by Bbr3::new,
        needs_pacing: true,
        counts_bytes: false,
        linux_name: None,
        bpf_object: Some("bbr2"),
        plot: ("green", 0, "triangle"),
    }

    Bbr3(Bbr3Params) {
        name: "bbr3" or "bbr3-draft06",
        summary: "BBRv3 by the draft, byte-exact; also bbr3-draft06",
        source: "draft-ietf-ccwg-bbr-06",
        defaults: Bbr3Params::of(Edition::Draft06),
        specs: [Bbr3Params::specs_of(Edition::Draft06), &[]],
        runs: Bbr3 by Bbr3::new,
        needs_pacing: true,
        counts_bytes: true,
        linux_name: None,
        bpf_object: Some("bbr3"),
        plot: ("purple", 0, "diamond"),
    }

    Bbr3Linux(Bbr3Params) {
        name: "bbr3-linux",
        summary: "BBRv3 for Linux, packets",
        source: "google/bbr v3 tcp_bbr.c",
        defaults: Bbr3Params::of(Edition::LinuxV3),
        specs: [Bbr3Params::specs_of(Edition::LinuxV3), &[]],
        runs: Bbr3Linux by Bbr3::new,
        needs_pacing: true,
        counts_bytes: false,
        linux_name: None,
        bpf_object: Some("bbr3_linux"),
        plot: ("purple", 1, "plus"),
    }

    BbrLab(LabParams) {
        name: "bbr-lab",
        summary: "BBRv3 whose window and probes follow the queue; ours, experimental",
        source: "ours; draft-ietf-ccwg-bbr-06",
        defaults: LabParams::default(),
        specs: [QueueParams::SPECS, Bbr3Params::specs_of(Edition::Lab)],
        runs: BbrLab by Bbr3::lab,
        needs_pacing: true,
        counts_bytes: true,
        linux_name: None,
        bpf_object: Some("bbr_lab"),
        plot: ("rose", 0, "diamond"),
    }

    #[cfg(feature = "variants")]
    BbrCpa(VariantParams) {
        name: "bbr-cpa",
        summary: "v1 that predicts congestion from the RTT and averages bandwidth; a reconstruction",
        source: "Yang et al., J. Shenyang Aerospace Univ. 41(1) 2024",
        defaults: VariantParams::new(VariantName::Cpa),
        specs: VariantName::Cpa.specs(),
        runs: Variant by Variant::new,
        needs_pacing: true,
        counts_bytes: false,
        linux_name: None,
        bpf_object: Some("cpa"),
        plot: ("amber", 0, "down"),
    }

    #[cfg(feature = "variants")]
    AcdLinux(VariantParams) {
        name: "acd-linux" or "bbr-acd",
        summary: "v1 whose recovery halves the window if the RTT indicates congestion; also bbr-acd",
        source: "Mahmud et al., Electronics 9(1) 2020, its Linux code",
        defaults: VariantParams::new(VariantName::AcdLinux),
        specs: VariantName::AcdLinux.specs(),
        runs: Variant by Variant::new,
        needs_pacing: true,
        counts_bytes: false,
        linux_name: None,
        bpf_object: Some("acd"),
        plot: ("brown", 0, "plus"),
    }

    #[cfg(feature = "variants")]
    AcdNs3(VariantParams) {
        name: "acd-ns3",
        summary: "acd-linux without a detector, for the whole recovery",
        source: "Mahmud et al. 2020, its ns-3 code",
        defaults: VariantParams::new(VariantName::AcdNs3),
        specs: VariantName::AcdNs3.specs(),
        runs: Variant by Variant::new,
        needs_pacing: true,
        counts_bytes: false,
        linux_name: None,
        bpf_object: None,
        plot: ("brown", 1, "cross"),
    }

    #[cfg(feature = "variants")]
    AcdOnce(VariantParams) {
        name: "acd-once",
        summary: "acd-linux with one halving per recovery; a reconstruction",
        source: "Mahmud et al. 2020; ours",
        defaults: VariantParams::new(VariantName::AcdOnce),
        specs: VariantName::AcdOnce.specs(),
        runs: Variant by Variant::new,
        needs_pacing: true,
        counts_bytes: false,
        linux_name: None,
        bpf_object: None,
        plot: ("brown", 2, "down"),
    }

    #[cfg(feature = "variants")]
    BbrS(VariantParams) {
        name: "bbr-s",
        summary: "v1 with the median of bandwidth samples; a reconstruction",
        source: "Vargas et al., WWW'21, as described by Yang et al. 2024",
        defaults: VariantParams::new(VariantName::S),
        specs: VariantName::S.specs(),
        runs: Variant by Variant::new,
        needs_pacing: true,
        counts_bytes: false,
        linux_name: None,
        bpf_object: Some("bbrs"),
        plot: ("sky", 0, "square"),
    }

    #[cfg(feature = "variants")]
    BbrSP85(VariantParams) {
        name: "bbr-s-p85",
        summary: "v1 with their 85th percentile; a reconstruction",
        source: "Vargas et al., WWW'21, by its code",
        defaults: VariantParams::new(VariantName::SP85),
        specs: VariantName::SP85.specs(),
        runs: Variant by Variant::new,
        needs_pacing: true,
        counts_bytes: false,
        linux_name: None,
        bpf_object: None,
        plot: ("sky", 1, "plus"),
    }

    #[cfg(feature = "variants")]
    BbrSKalman(VariantParams) {
        name: "bbr-s-kalman",
        summary: "v1 with a Tobit Kalman filter of bandwidth; a reconstruction",
        source: "Chiariotti et al., IEEE Access 9, 2021",
        defaults: VariantParams::new(VariantName::SKalman),
        specs: VariantName::SKalman.specs(),
        runs: Variant by Variant::new,
        needs_pacing: true,
        counts_bytes: false,
        linux_name: None,
        bpf_object: None,
        plot: ("sky", 2, "cross"),
    }

    #[cfg(feature = "variants")]
    BbrApg(VariantParams) {
        name: "bbr-apg",
        summary: "v1 with probing gains that follow buffer and loss; a reconstruction, experimental",
        source: "Li et al., HotICN 2022, its abstract",
        defaults: VariantParams::new(VariantName::Apg),
        specs: VariantName::Apg.specs(),
        runs: Variant by Variant::new,
        needs_pacing: true,
        counts_bytes: false,
        linux_name: None,
        bpf_object: None,
        plot: ("olive", 4, "cross"),
    }

    #[cfg(feature = "variants")]
    Davis(DavisParams) {
        name: "davis",
        summary: "TCP Davis: a window of one BDP, stepped and measured",
        source: "Lynn, Ghosal, NAS 2022, tcp_davis",
        defaults: DavisParams::default(),
        specs: [DavisParams::SPECS, &[]],
        runs: Davis by Davis::new,
        needs_pacing: false,
        counts_bytes: false,
        linux_name: None,
        bpf_object: Some("davis"),
        plot: ("rose", 5, "triangle"),
    }
}

impl AlgorithmConfig {
    /// Returns the algorithm's name.
    pub const fn name(&self) -> &'static str {
        self.info().name
    }

    /// Returns the parameters: each description with the present value.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static ParamSpec, u32)> + use<> {
        let [own, base] = self.specs();
        own.iter().chain(base).zip(self.values())
    }
}

#[cfg(feature = "unstable-internals")]
impl AnyAlgorithm {
    /// Returns the whole state of BBRv2 or BBRv3; `None` for another algorithm.
    pub fn bbr3_internals(&self) -> Option<crate::bbr3::Bbr3Internals> {
        match &self.0 {
            Any::Bbr3(flow) => Some(flow.internals()),
            Any::Bbr3Linux(flow) => Some(flow.internals()),
            Any::Bbr2(flow) => Some(flow.internals()),
            Any::Ietf100(flow) => Some(flow.internals()),
            Any::BbrLab(flow) => Some(flow.internals()),
            _ => None,
        }
    }

    /// Returns the whole state of BBRv1; `None` for another algorithm.
    pub fn bbr1_internals(&self) -> Option<crate::bbr1::Bbr1Internals> {
        match &self.0 {
            Any::Bbr1(flow) => Some(flow.internals()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
