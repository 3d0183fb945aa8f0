//! A client's network, as far as a test keeps it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;
use std::net::{AddrParseError, IpAddr, Ipv6Addr};
use std::str::FromStr;

use super::assign::{mapped, mask};

/// A truncated client address, shown as `192.0.2.0/24`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Client {
    /// The address in IPv6 form.
    address: u128,
    /// Length of the prefix in that form.
    bits: u32,
}

impl Client {
    /// Truncates an address to `bits` of its IPv6 form.
    pub(super) const fn new(address: u128, bits: u32) -> Self {
        Self { address: address & mask(bits), bits }
    }

    pub(super) const fn address(self) -> u128 {
        self.address
    }

    pub(super) const fn bits(self) -> u32 {
        self.bits
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match IpAddr::V6(Ipv6Addr::from(self.address)).to_canonical() {
            IpAddr::V4(address) => write!(f, "{address}/{}", self.bits.saturating_sub(96)),
            IpAddr::V6(address) => write!(f, "{address}/{}", self.bits),
        }
    }
}

impl FromStr for Client {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, AddrParseError> {
        let (address, bits) = text.split_once('/').unwrap_or((text, ""));
        let address: IpAddr = address.parse()?;
        let (before, most) = if address.is_ipv4() { (96, 32) } else { (0, 128) };
        Ok(Self::new(mapped(address), before + bits.parse().unwrap_or(most).min(most)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_are_shown_as_they_are_read() {
        for text in ["192.0.2.0/24", "2001:db8::/48", "10.0.0.0/8", "::/48", "0.0.0.0/0"] {
            assert_eq!(text.parse::<Client>().unwrap().to_string(), text);
        }
        assert_eq!("192.0.2.77/24".parse::<Client>().unwrap().to_string(), "192.0.2.0/24");
        assert!("x/24".parse::<Client>().is_err() && "192.0.2/24".parse::<Client>().is_err());
    }
}
