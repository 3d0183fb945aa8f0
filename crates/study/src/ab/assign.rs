//! Assignment of connections to arms: a keyed hash of the unit of assignment selects one of ten thousand buckets, and
//! each bucket belongs to an arm. `bpf/cc/ab.bpf.c` computes the same hash, so anyone with the key can repeat an
//! assignment.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt;
use std::hash::Hasher;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

use super::Client;
use crate::{Error, Result};

/// Number of hash buckets: shares are counted in hundredths of a per cent.
pub const BUCKETS: usize = 10_000;
/// Maximum number of arms. Ours.
pub const ARMS_MAX: usize = 8;
/// Maximum number of ports, and of prefixes, in the connection filter: the capacity of the BPF program.
pub const PORTS_MAX: usize = 8;
pub const PREFIXES_MAX: usize = 16;
/// Arm value of a bucket outside the test.
pub const OUTSIDE: u8 = 0xff;

/// Unit of assignment: everything that hashes alike keeps its arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AssignmentUnit {
    /// Addresses and ports of both endpoints.
    Connection,
    /// The client's prefix.
    ClientPrefix,
    /// Time slot: all connections that begin in one slot get the same arm.
    Time,
}

impl AssignmentUnit {
    /// Number of the variant in the BPF program.
    pub const fn number(self) -> u32 {
        match self {
            Self::Connection => 0,
            Self::ClientPrefix => 1,
            Self::Time => 2,
        }
    }

    /// Plural noun for the units of assignment.
    pub const fn units(self) -> &'static str {
        match self {
            Self::Connection => "connections",
            Self::ClientPrefix => "client prefixes",
            Self::Time => "time slots",
        }
    }
}

/// Key of a test's hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(pub [u64; 2]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)") // anyone with the key can target an arm
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.0[0], self.0[1])
    }
}

impl FromStr for Key {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let fault = || Error::NotAKey;
        let half = |range: std::ops::Range<usize>| {
            text.get(range).and_then(|half| u64::from_str_radix(half, 16).ok()).ok_or_else(fault)
        };
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(fault());
        }
        Ok(Self([half(0..16)?, half(16..32)?]))
    }
}

/// Prefix lengths to which client addresses are truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefixLengths {
    /// Prefix length for IPv4.
    pub v4: u8,
    /// Prefix length for IPv6.
    pub v6: u8,
}

impl Default for PrefixLengths {
    fn default() -> Self {
        Self { v4: 24, v6: 48 }
    }
}

/// Mask of the first bits of an address in its IPv6 form.
pub const fn mask(bits: u32) -> u128 {
    match bits {
        0 => 0,
        bits => u128::MAX << (128 - bits),
    }
}

/// Returns the address as IPv6; IPv4 is mapped into it.
pub fn mapped(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => u128::from(address.to_ipv6_mapped()),
        IpAddr::V6(address) => u128::from(address),
    }
}

impl PrefixLengths {
    /// Truncates an address to the prefix.
    pub fn of(self, address: IpAddr) -> u128 {
        let address = address.to_canonical();
        let bits = if address.is_ipv4() { 96 + u32::from(self.v4) } else { u32::from(self.v6) };
        mapped(address) & mask(bits)
    }

    /// The client's network of a truncated address.
    pub const fn client(self, kept: u128) -> Client {
        let is_v4 = Ipv6Addr::from_bits(kept).to_ipv4_mapped().is_some();
        Client::new(kept, if is_v4 { 96 + self.v4 as u32 } else { self.v6 as u32 })
    }
}

/// Keyed hash of a test.
#[derive(Clone, Copy, Debug)]
pub struct Assigner {
    pub key: Key,
    pub by: AssignmentUnit,
    pub keep: PrefixLengths,
}

impl Assigner {
    /// Returns the bucket of a connection that begins in time slot `slot`.
    pub fn bucket(&self, remote: SocketAddr, local: SocketAddr, slot: u64) -> u16 {
        let halves = |address: u128| {
            let bytes = address.to_be_bytes();
            let half = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
            [half(0), half(8)]
        };
        let mut words = [u64::from(self.by.number()) << 16, 0, 0, 0, 0];
        match self.by {
            AssignmentUnit::Time => words[1] = slot,
            AssignmentUnit::ClientPrefix => words[1..3].copy_from_slice(&halves(self.keep.of(remote.ip()))),
            AssignmentUnit::Connection => {
                words[1..3].copy_from_slice(&halves(mapped(remote.ip())));
                words[3..5].copy_from_slice(&halves(mapped(local.ip())));
                words[0] |= u64::from(remote.port()) | u64::from(local.port()) << 32;
            }
        }
        let mut hasher = SipHasher13::new_with_keys(self.key.0[0], self.key.0[1]);
        words.iter().for_each(|word| hasher.write(&word.to_le_bytes()));
        (hasher.finish() % BUCKETS as u64) as u16
    }
}

/// Each arm's share, in hundredths of a per cent; the rest stays outside the test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shares(pub Vec<u32>);

impl Shares {
    /// Parses `50,25,25`: one share per arm.
    pub fn parse(text: &str, arms: usize) -> Result<Self> {
        let shares: Vec<u32> = text.split(',').map(|one| hundredths(one.trim())).collect::<Result<_, _>>()?;
        if shares.len() != arms {
            return Err(Error::ShareCount { text: text.to_owned(), found: shares.len(), arms });
        }
        let sum: u32 = shares.iter().sum();
        if sum as usize > BUCKETS {
            return Err(Error::ShareSum { text: text.to_owned(), percent: f64::from(sum) / 100.0 });
        }
        if sum == 0 {
            return Err(Error::NoShare(text.to_owned()));
        }
        Ok(Self(shares))
    }

    /// Splits as equally as hundredths of a per cent allow; the first arm gets the remainder.
    pub fn equal(arms: usize) -> Self {
        let each = BUCKETS / arms.max(1);
        let mut shares = vec![each as u32; arms];
        if let Some(first) = shares.first_mut() {
            *first += (BUCKETS - each * arms) as u32;
        }
        Self(shares)
    }

    /// Gives every arm but the first the share in `text`; the first gets the rest.
    pub fn canary(text: &str, arms: usize) -> Result<Self> {
        let each = hundredths(text.trim())?;
        let others = each * (arms as u32 - 1);
        if each == 0 || others as usize >= BUCKETS {
            return Err(Error::CanaryShare { text: text.to_owned(), others: arms - 1 });
        }
        let mut shares = vec![each; arms];
        shares[0] = BUCKETS as u32 - others;
        Ok(Self(shares))
    }

    /// Returns the shares with one arm set to zero and its share moved to the first.
    #[must_use]
    pub fn without(&self, arm: usize) -> Self {
        let mut shares = self.0.clone();
        if arm > 0 && arm < shares.len() {
            shares[0] += std::mem::take(&mut shares[arm]);
        }
        Self(shares)
    }

    /// Formats the shares as `50, 25, 25` in per cent.
    pub fn text(&self) -> String {
        let each: Vec<String> = self.0.iter().map(|share| format!("{}", f64::from(*share) / 100.0)).collect();
        each.join(",")
    }
}

/// Parses a percentage with up to two decimals, with or without a sign.
fn hundredths(text: &str) -> Result<u32> {
    let fault = || Error::Share(text.to_owned());
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let value: f64 = number.parse().map_err(|_| fault())?;
    let scaled = value * 100.0;
    let is_whole = (scaled - scaled.round()).abs() < 1e-6;
    if (0.0..=10_000.0).contains(&scaled) && is_whole { Ok(scaled.round() as u32) } else { Err(fault()) }
}

/// Arm of each bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table(Vec<u8>);

impl Table {
    pub fn new(shares: &Shares) -> Self {
        Self(vec![OUTSIDE; BUCKETS]).changed(shares)
    }

    /// Applies new shares, moving as few buckets as possible: a bucket keeps its arm unless that arm shrinks.
    #[must_use]
    pub fn changed(&self, shares: &Shares) -> Self {
        let mut wanted: Vec<i64> = shares.0.iter().map(|&share| i64::from(share)).collect();
        let mut table = self.0.clone();
        for arm in &mut table {
            match wanted.get_mut(usize::from(*arm)) {
                Some(left) if *left > 0 => *left -= 1,
                _ => *arm = OUTSIDE,
            }
        }
        let missing = wanted.iter().enumerate().flat_map(|(arm, &left)| (0..left.max(0)).map(move |_| arm as u8));
        for (place, arm) in table.iter_mut().filter(|arm| **arm == OUTSIDE).zip(missing) {
            *place = arm;
        }
        Self(table)
    }

    pub fn arm(&self, bucket: u16) -> Option<u8> {
        self.0.get(usize::from(bucket)).copied().filter(|&arm| arm != OUTSIDE)
    }

    /// Table of arms as read by the BPF program.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigner(by: AssignmentUnit) -> Assigner {
        Assigner { key: "000102030405060708090a0b0c0d0e0f".parse().unwrap(), by, keep: PrefixLengths::default() }
    }

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn count(table: &Table, arm: Option<u8>) -> usize {
        (0..BUCKETS as u16).filter(|&bucket| table.arm(bucket) == arm).count()
    }

    #[test]
    fn a_connection_keeps_its_bucket_and_another_key_gives_another() {
        let one = assigner(AssignmentUnit::Connection);
        let (client, server) = (at("192.0.2.7:4000"), at("198.51.100.1:443"));
        assert_eq!(one.bucket(client, server, 0), one.bucket(client, server, 9));
        assert_eq!(one.bucket(client, server, 0), one.bucket(at("[::ffff:192.0.2.7]:4000"), server, 0));
        let other = Assigner { key: Key([1, 2]), ..one };
        let differ = (4000..4100).filter(|&port| {
            let client = SocketAddr::new(client.ip(), port);
            one.bucket(client, server, 0) != other.bucket(client, server, 0)
        });
        assert!(differ.count() > 95);
    }

    #[test]
    fn clients_of_one_prefix_share_a_bucket_and_slots_are_drawn_whatever_the_client() {
        let prefix = assigner(AssignmentUnit::ClientPrefix);
        let server = at("198.51.100.1:443");
        assert_eq!(prefix.bucket(at("192.0.2.7:1"), server, 0), prefix.bucket(at("192.0.2.250:9"), server, 5));
        assert_eq!(
            prefix.bucket(at("[2001:db8:1::1]:1"), server, 0),
            prefix.bucket(at("[2001:db8:1:2::9]:9"), server, 5)
        );
        assert_ne!(prefix.bucket(at("192.0.2.7:1"), server, 0), prefix.bucket(at("192.0.3.7:1"), server, 0));
        let time = assigner(AssignmentUnit::Time);
        assert_eq!(time.bucket(at("192.0.2.7:1"), server, 4), time.bucket(at("[2001:db8::1]:1"), server, 4));
        assert_ne!(time.bucket(server, server, 4), time.bucket(server, server, 5));
    }

    #[test]
    fn buckets_are_even() {
        let one = assigner(AssignmentUnit::Connection);
        let table = Table::new(&Shares::parse("50,25,25", 3).unwrap());
        let mut counts = [0_u32; 3];
        for port in 1..=40_000 {
            let bucket = one.bucket(SocketAddr::new("192.0.2.7".parse().unwrap(), port), at("198.51.100.1:443"), 0);
            counts[usize::from(table.arm(bucket).unwrap())] += 1;
        }
        // Tolerance: four standard deviations of a binomial.
        assert!(counts[0].abs_diff(20_000) < 400 && counts[1].abs_diff(10_000) < 350, "{counts:?}");
    }

    #[test]
    fn shares_are_counted_out_exactly_and_the_rest_stays_outside() {
        let table = Table::new(&Shares::parse("1, 0.25, 2.5%", 3).unwrap());
        assert_eq!([Some(0), Some(1), Some(2), None].map(|arm| count(&table, arm)), [100, 25, 250, 9_625]);
        assert_eq!(Shares::equal(3).0, [3_334, 3_333, 3_333]);
        assert_eq!(Shares::canary("1%", 3).unwrap().0, [9_800, 100, 100]);
        assert_eq!(Shares::canary("1%", 3).unwrap().without(1).0, [9_900, 0, 100]);
    }

    #[test]
    fn a_change_of_shares_moves_no_more_than_it_must() {
        let shares = |text: &str| Shares::parse(text, 3).unwrap();
        let before = Table::new(&shares("98,1,1"));
        let after = before.changed(&shares("90,5,5"));
        let moved = (0..BUCKETS as u16).filter(|&bucket| before.arm(bucket) != after.arm(bucket)).count();
        assert_eq!(moved, 800);
        assert_eq!([0, 1, 2].map(|arm| count(&after, Some(arm))), [9_000, 500, 500]);
        assert_eq!(after.changed(&shares("90,5,5")), after);
    }

    #[test]
    fn shares_that_mean_nothing_are_refused_in_a_sentence() {
        for (text, says) in [
            ("50,50", "for 3 arms"),
            ("50,50,1", "adds up to 101 %"),
            ("0,0,0", "no arm"),
            ("a,1,1", "is not a share"),
            ("-1,1,1", "is not a share"),
            ("0.001,1,1", "at most two decimals"),
            ("NaN,1,1", "is not a share"),
        ] {
            let error = Shares::parse(text, 3).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        assert!(Shares::canary("50", 3).is_err() && Shares::canary("0", 2).is_err());
    }

    #[test]
    fn a_key_reads_back_and_is_not_shown_by_accident() {
        let key: Key = "00ff02030405060708090a0b0c0d0e0f".parse().unwrap();
        assert_eq!(key.to_string().parse::<Key>().unwrap(), key);
        assert!(!format!("{key:?}").contains("ff02"));
        assert!("xyz".parse::<Key>().is_err() && "+0ff02030405060708090a0b0c0d0e0f".parse::<Key>().is_err());
    }
}
