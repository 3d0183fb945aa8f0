//! Classes of flows: the DSCP as written, and the table of flows that CAKE reads.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::text::TextError;
use crate::link::{Aqm, FlowClass, LinkConfig};
use crate::setup::{FlowSetup, Setup};
use crate::tcp::HEADER_BYTES;

/// A differentiated services code point: `EF`, `AF41`, `46`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dscp(pub u8);

/// Code points with names besides the regular ones. Sources: RFC 8622, RFC 5865, RFC 3246.
const NAMED: [(&str, u8); 4] = [("DF", 0), ("LE", 1), ("VA", 44), ("EF", 46)];
/// Largest code point.
const MAX: u8 = 63;

impl Dscp {
    /// All names: the class selectors (RFC 2474), assured forwarding (RFC 2597), and those of [`NAMED`].
    fn names() -> impl Iterator<Item = (String, u8)> {
        let named = NAMED.into_iter().map(|(name, code)| (name.to_owned(), code));
        let selectors = (0..8).map(|class| (format!("CS{class}"), 8 * class));
        let assured =
            (1..=4).flat_map(|class| (1..=3).map(move |drop| (format!("AF{class}{drop}"), 8 * class + 2 * drop)));
        named.chain(selectors).chain(assured)
    }
}

impl FromStr for Dscp {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let named = || Self::names().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, code)| code);
        let code = text.parse().ok().filter(|code| *code <= MAX).or_else(named);
        code.map(Self).ok_or_else(|| {
            TextError(format!("{text:?} is not a DSCP; write EF, VA, LE, CS0 to CS7, AF11 to AF43 or 0 to {MAX}"))
        })
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::names().find(|(_, code)| *code == self.0) {
            Some((name, _)) => f.write_str(&name),
            None => write!(f, "{}", self.0),
        }
    }
}

/// Hands the classes of the flows to the links that need them.
pub(super) fn classify(setup: &mut Setup) {
    let has_classes = |link: &LinkConfig| matches!(link.aqm, Aqm::Cake(_) | Aqm::Fq(_));
    if !setup.links.iter().chain(setup.up.as_deref()).any(has_classes) {
        return;
    }
    let classes = classes(&setup.flows);
    let segment = setup.flows.iter().map(|flow| flow.mss.saturating_add(HEADER_BYTES)).max().unwrap_or(0);
    for link in setup.links.iter_mut().chain(setup.up.as_deref_mut()) {
        match &mut link.aqm {
            Aqm::Cake(cake) => {
                cake.packet_bytes = cake.packet_bytes.max(segment);
                cake.flows = classes.clone();
            }
            Aqm::Fq(fq) => fq.flows = classes.clone(),
            _ => {}
        }
    }
}

fn classes(flows: &[FlowSetup]) -> Arc<[FlowClass]> {
    let mut first: BTreeMap<u16, u32> = BTreeMap::new();
    let class = |(index, flow): (u32, &FlowSetup)| {
        let host = flow.shared_host.map_or(index, |host| *first.entry(host).or_insert(index));
        FlowClass { dscp: flow.dscp, host }
    };
    (0..).zip(flows).map(class).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_code_points() {
        for (text, code) in
            [("EF", 46), ("ef", 46), ("AF41", 34), ("CS1", 8), ("LE", 1), ("0", 0), ("63", 63), ("AF11", 10)]
        {
            assert_eq!(text.parse(), Ok(Dscp(code)), "{text}");
        }
        for text in ["64", "-1", "AF44", "AF51", "CS8", "", "voice"] {
            assert!(text.parse::<Dscp>().is_err(), "{text}");
        }
    }

    #[test]
    fn each_code_point_is_written_as_it_is_read() {
        for code in 0..=MAX {
            assert_eq!(Dscp(code).to_string().parse(), Ok(Dscp(code)));
        }
    }

    #[test]
    fn flows_of_one_host_share_the_index_of_its_first() {
        let flow = |host| FlowSetup {
            shared_host: host,
            ..FlowSetup::bulk("a", bbrlab_core::AlgorithmConfig::named("cubic").unwrap())
        };
        let flows = [flow(None), flow(Some(7)), flow(None), flow(Some(7)), flow(Some(1))];
        assert_eq!(classes(&flows).iter().map(|class| class.host).collect::<Vec<_>>(), [0, 1, 2, 1, 4]);
    }
}
