//! Networks of clients, and the rules that name them.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::net::IpAddr;

/// A network in IPv6 form, IPv4 mapped into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    pub address: u128,
    pub bits: u32,
}

/// Mask of the first bits of an address.
const fn mask(bits: u32) -> u128 {
    match bits {
        0 => 0,
        bits => u128::MAX << (128 - bits),
    }
}

/// An address in IPv6 form.
pub(crate) fn mapped(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => u128::from(address.to_ipv6_mapped()),
        IpAddr::V6(address) => u128::from(address),
    }
}

impl Network {
    /// Parses `192.0.2.0/24`, or an address. The bits behind the prefix must be zero.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits: u32 = bits.map_or(Some(most), |bits| bits.parse().ok().filter(|bits| *bits <= most))?;
        let bits = if address.is_ipv4() { 96 + bits } else { bits };
        let address = match address {
            IpAddr::V4(address) => u128::from(address.to_ipv6_mapped()),
            IpAddr::V6(address) => u128::from(address),
        };
        (address & !mask(bits) == 0).then_some(Self { address, bits })
    }

    /// True if the other network lies in this one.
    const fn holds(&self, other: &Self) -> bool {
        other.bits >= self.bits && other.address & mask(self.bits) == self.address
    }
}

/// Rules by network, a bit each: of every network, those that name it or one around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(BTreeMap<Network, u64>);

impl Networks {
    /// Takes the networks of each rule.
    pub fn new(named: impl Iterator<Item = (Network, usize)>) -> Self {
        let mut all: BTreeMap<Network, u64> = BTreeMap::new();
        for (network, rule) in named {
            *all.entry(network).or_default() |= 1 << rule;
        }
        // In this order a network follows those around it.
        let mut around: Vec<(Network, u64)> = Vec::new();
        for (network, rules) in &mut all {
            while around.last().is_some_and(|(outer, _)| !outer.holds(network)) {
                around.pop();
            }
            *rules |= around.last().map_or(0, |(_, rules)| *rules);
            around.push((*network, *rules));
        }
        Self(all)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[cfg(feature = "load")]
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Network, &u64)> {
        self.0.iter()
    }

    /// The rules that name a network of an address.
    pub fn rules_of(&self, address: IpAddr) -> u64 {
        let address = mapped(address);
        let longest = (0..=128).rev().find_map(|bits| self.0.get(&Network { address: address & mask(bits), bits }));
        longest.copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use bbrlab_core::Rng;

    use super::*;

    #[test]
    fn networks_are_read_as_they_are_written() {
        for (text, bits) in
            [("192.0.2.0/24", 120), ("192.0.2.7", 128), ("::/0", 0), ("0.0.0.0/0", 96), ("2001:db8::/32", 32)]
        {
            assert_eq!(Network::parse(text).unwrap().bits, bits, "{text}");
        }
        for bad in ["", "192.0.2.1/24", "192.0.2.0/33", "x", "192.0.2.0/-1", "192.0.2.0/24 x", "2001:db8::1/32"] {
            assert_eq!(Network::parse(bad), None, "{bad}");
        }
    }

    /// Random networks, nested more often than not: the longest that holds an address says the same as all that do.
    #[test]
    fn the_longest_network_knows_the_rules_of_all_around_it() {
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let network = |rng: &mut Rng| {
                let bits = 96 + rng.below(9) as u32;
                let address = 0xffff_0000_0000 | u128::from(rng.below(256)) << 24;
                Network { address: address & mask(bits), bits }
            };
            let named: Vec<(Network, usize)> =
                (0..rng.below(30)).map(|_| (network(&mut rng), rng.below(64) as usize)).collect();
            let networks = Networks::new(named.iter().copied());
            for first in 0..=255_u8 {
                let address = IpAddr::from([first, 1, 2, 3]);
                let holds = |(network, _): &&(Network, usize)| mapped(address) & mask(network.bits) == network.address;
                let wanted = named.iter().filter(holds).fold(0, |rules, (_, rule)| rules | 1_u64 << rule);
                assert_eq!(networks.rules_of(address), wanted);
            }
        }
    }
}
