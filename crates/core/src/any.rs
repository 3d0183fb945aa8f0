//! The choice among all algorithms at run time.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use crate::algorithm::forward_algorithm;
#[cfg(test)]
use crate::algorithm::tests::probe::Probe;
use crate::bbr1::Bbr1;
use crate::bbr3::{Bbr3, Draft06, Edition, Ietf100, Linux, V2};
use crate::event::Init;
use crate::fixed::Fixed;
use crate::loss_based::LossBased;
use crate::registry::AlgorithmConfig;
#[cfg(feature = "variants")]
use crate::variant::{Davis, Variant};

/// Any algorithm, chosen by name when a connection begins. An enum, so that the hot path pays no virtual call.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "core does not allocate, so a flow holds its algorithm in place")]
pub struct AnyAlgorithm(Any);

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "core does not allocate, so a flow holds its algorithm in place")]
enum Any {
    Fixed(Fixed),
    LossBased(LossBased),
    Bbr1(Bbr1),
    Bbr3(Bbr3<Draft06>),
    Bbr3Linux(Bbr3<Linux>),
    Bbr2(Bbr3<V2>),
    Ietf100(Bbr3<Ietf100>),
    #[cfg(feature = "variants")]
    Variant(Variant),
    #[cfg(feature = "variants")]
    Davis(Davis),
    #[cfg(test)]
    Probe(Probe),
}

impl AnyAlgorithm {
    /// The algorithm of this name with these parameters.
    pub fn new(config: &AlgorithmConfig, init: &Init) -> Self {
        Self(match config {
            AlgorithmConfig::Fixed(p) => Any::Fixed(Fixed::new(p)),
            AlgorithmConfig::Reno(p) => Any::LossBased(LossBased::reno(p, init)),
            AlgorithmConfig::Cubic(p) => Any::LossBased(LossBased::cubic(p, init)),
            AlgorithmConfig::Bbr1(p) => Any::Bbr1(Bbr1::new(p, init)),
            AlgorithmConfig::Bbr1Draft00(p) => Any::Bbr1(Bbr1::new_draft00(p, init)),
            AlgorithmConfig::Bbr3(Edition::Draft06, p) => Any::Bbr3(Bbr3::new(p, init)),
            AlgorithmConfig::Bbr3(Edition::Linux, p) => Any::Bbr3Linux(Bbr3::new(p, init)),
            AlgorithmConfig::Bbr3(Edition::V2, p) => Any::Bbr2(Bbr3::new(p, init)),
            AlgorithmConfig::Bbr3(Edition::Ietf100, p) => Any::Ietf100(Bbr3::new(p, init)),
            #[cfg(feature = "variants")]
            AlgorithmConfig::Variant(p) => Any::Variant(Variant::new(p, init)),
            #[cfg(feature = "variants")]
            AlgorithmConfig::Davis(p) => Any::Davis(Davis::new(p, init)),
        })
    }

    /// Everything that BBRv2 and BBRv3 remember; `None` of the others.
    #[cfg(feature = "inside")]
    pub fn bbr3_inside(&self) -> Option<crate::bbr3::Bbr3Inside> {
        match &self.0 {
            Any::Bbr3(flow) => Some(flow.inside()),
            Any::Bbr3Linux(flow) => Some(flow.inside()),
            Any::Bbr2(flow) => Some(flow.inside()),
            Any::Ietf100(flow) => Some(flow.inside()),
            _ => None,
        }
    }

    /// Everything that BBRv1 remembers; `None` of the others.
    #[cfg(feature = "inside")]
    pub fn bbr1_inside(&self) -> Option<crate::bbr1::Bbr1Inside> {
        match &self.0 {
            Any::Bbr1(flow) => Some(flow.inside()),
            _ => None,
        }
    }
}

forward_algorithm! { in_place AnyAlgorithm (.0) Any {
    Fixed,
    LossBased,
    Bbr1,
    Bbr3,
    Bbr3Linux,
    Bbr2,
    Ietf100,
    #[cfg(feature = "variants")]
    Variant,
    #[cfg(feature = "variants")]
    Davis,
    #[cfg(test)]
    Probe,
} }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::tests::probe::dropped;

    #[test]
    fn any_algorithm_passes_on_every_method() {
        let lost = dropped(AnyAlgorithm(Any::Probe(Probe::default())), |any| match &any.0 {
            Any::Probe(probe) => probe,
            _ => unreachable!(),
        });
        assert!(lost.is_empty(), "{lost:?}");
    }
}
