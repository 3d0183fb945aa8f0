//! Published variants of BBRv1, each BBRv1 with one part replaced, and TCP Davis, an algorithm of its own.
//! The papers leave much open: each parameter's source names what is ours, and such variants are called reconstructions.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod acd;
mod apg;
mod cpa;
mod davis;
mod flow;
mod kalman;
mod normal;
mod quantile;

use crate::bbr1::{Bbr1, Bbr1Params};
use crate::event::Init;
use crate::params::{Change, MAX_PARAMS, ParamError, ParamSpec, collect, edition};
use acd::Acd;
use apg::Apg;
use cpa::Cpa;
use kalman::Kalman;
use quantile::Quantile;

pub use acd::AcdParams;
pub use apg::ApgParams;
pub use cpa::CpaParams;
pub use davis::{Davis, DavisParams};
pub use kalman::KalmanParams;
pub use quantile::QuantileParams;

/// A variant of BBRv1 by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VariantName {
    /// BBR-CPA: predictive congestion detection (2024).
    Cpa,
    /// BBR-ACD: advanced congestion detection, the authors' Linux code.
    AcdLinux,
    /// BBR-ACD, the authors' ns-3 code.
    AcdNs3,
    /// BBR-ACD with one halving per recovery.
    AcdOnce,
    /// BBR-S as a median.
    S,
    /// BBR-S as an 85th percentile.
    SP85,
    /// BBR-S of 2021, a Kalman filter.
    SKalman,
    /// BBR-APG: adaptive pacing gain (2022).
    Apg,
}

impl VariantName {
    /// The descriptions of its part's parameters, and of BBRv1's.
    pub(crate) fn specs(self) -> [&'static [ParamSpec]; 2] {
        [part_specs(self), base_specs(self)]
    }
}

/// Parameters of the part that a variant replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartParams {
    Cpa(CpaParams),
    Acd(AcdParams),
    Quantile(QuantileParams),
    Kalman(KalmanParams),
    Apg(ApgParams),
}

/// A variant with all its parameters: those of its part, then BBRv1's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariantParams {
    name: VariantName,
    part: PartParams,
    base: Bbr1Params,
}

/// BBRv1's parameters where the authors started from Linux 4.14.
static LINUX_4_14: [ParamSpec; Bbr1Params::SPECS.len()] = edition(Bbr1Params::SPECS, LINUX_4_14_CHANGES);

const LINUX_4_14_CHANGES: &[Change] = &[
    ("pacing_margin", 0, "Linux 4.14 has none"),
    ("extra_acked_gain", 0, "Linux 4.14 has none"),
    ("edt", 0, "Linux 4.14 has none"),
];

/// BBRv1's parameters where the authors started from ns-3's.
static NS3: [ParamSpec; Bbr1Params::SPECS.len()] = edition(&LINUX_4_14, &[("lt_bw", 0, "ns-3 has none")]);

impl VariantParams {
    /// Creates the variant with its defaults.
    pub fn new(name: VariantName) -> Self {
        use VariantName::{AcdLinux, AcdNs3, AcdOnce, Apg, Cpa, S, SKalman, SP85};
        let part = match name {
            Cpa => PartParams::Cpa(CpaParams::default()),
            AcdLinux | AcdNs3 | AcdOnce => PartParams::Acd(AcdParams::default().with_defaults(part_specs(name))),
            S | SP85 => PartParams::Quantile(QuantileParams::default().with_defaults(part_specs(name))),
            SKalman => PartParams::Kalman(KalmanParams::default()),
            Apg => PartParams::Apg(ApgParams::default()),
        };
        Self { name, part, base: Bbr1Params::default().with_defaults(base_specs(name)) }
    }

    /// Returns the name of the variant.
    pub const fn variant(&self) -> VariantName {
        self.name
    }

    /// BBRv1's part of the parameters.
    pub const fn base(&self) -> &Bbr1Params {
        &self.base
    }

    /// Sets one parameter from text.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), ParamError> {
        let own = match &mut self.part {
            PartParams::Cpa(p) => p.set(name, text),
            PartParams::Acd(p) => p.set(name, text),
            PartParams::Quantile(p) => p.set(name, text),
            PartParams::Kalman(p) => p.set(name, text),
            PartParams::Apg(p) => p.set(name, text),
        };
        if own == Err(ParamError::Unknown) { self.base.set(name, text) } else { own }
    }

    /// Every present value, in the order of [`VariantName::specs`].
    pub(crate) fn values(&self) -> [u32; MAX_PARAMS] {
        let base = self.base.values();
        match &self.part {
            PartParams::Cpa(p) => collect(p.values().chain(base)),
            PartParams::Acd(p) => collect(p.values().chain(base)),
            PartParams::Quantile(p) => collect(p.values().chain(base)),
            PartParams::Kalman(p) => collect(p.values().chain(base)),
            PartParams::Apg(p) => collect(p.values().chain(base)),
        }
    }
}

fn part_specs(name: VariantName) -> &'static [ParamSpec] {
    match name {
        VariantName::Cpa => CpaParams::SPECS,
        VariantName::AcdLinux => AcdParams::SPECS,
        VariantName::AcdNs3 => &acd::NS3,
        VariantName::AcdOnce => &acd::ONCE,
        VariantName::S => QuantileParams::SPECS,
        VariantName::SP85 => &quantile::P85,
        VariantName::SKalman => KalmanParams::SPECS,
        VariantName::Apg => ApgParams::SPECS,
    }
}

fn base_specs(name: VariantName) -> &'static [ParamSpec] {
    match name {
        VariantName::AcdLinux | VariantName::AcdOnce => &LINUX_4_14,
        VariantName::AcdNs3 => &NS3,
        _ => Bbr1Params::SPECS,
    }
}

/// A running variant.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "core does not allocate, so a flow holds its algorithm in place")]
pub enum Variant {
    /// BBR-CPA.
    Cpa(Bbr1<Cpa>),
    /// BBR-ACD.
    Acd(Bbr1<Acd>),
    /// BBR-S by a quantile.
    Quantile(Bbr1<Quantile>),
    /// BBR-S by a Kalman filter.
    Kalman(Bbr1<Kalman>),
    /// BBR-APG.
    Apg(Bbr1<Apg>),
}

/// BBR-CPA by itself.
pub type BbrCpa = Bbr1<Cpa>;
/// BBR-ACD by itself; [`VariantParams`] distinguishes the editions.
pub type BbrAcd = Bbr1<Acd>;
/// BBR-S by a quantile, by itself.
pub type BbrS = Bbr1<Quantile>;
/// BBR-APG by itself.
pub type BbrApg = Bbr1<Apg>;

impl Variant {
    pub(crate) fn new(params: &VariantParams, init: &Init) -> Self {
        let base = &params.base;
        match &params.part {
            PartParams::Cpa(p) => Self::Cpa(Bbr1::with(base, p, init)),
            PartParams::Acd(p) => Self::Acd(Bbr1::with(base, p, init)),
            PartParams::Quantile(p) => Self::Quantile(Bbr1::with(base, p, init)),
            PartParams::Kalman(p) => Self::Kalman(Bbr1::with_part(base, init, Kalman::new(p))),
            PartParams::Apg(p) => Self::Apg(Bbr1::with(base, p, init)),
        }
    }
}

#[cfg(test)]
mod tests;
