//! Model of each connection's algorithm, read from the pinned iterator of a loaded program. Any user may read it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use bbrlab_core::State;
use serde::Serialize;

use crate::{Error, Result};

/// Bytes of `struct connection` in `bpf/cc/flow.h`.
pub const BYTES: usize = 152;
/// Linux `AF_INET6`.
const INET6: u16 = 10;

/// One connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Connection {
    /// Local address.
    pub local: SocketAddr,
    /// Remote address.
    pub remote: SocketAddr,
    /// The algorithm's state, as named in results.
    pub state: &'static str,
    /// Congestion window, packets.
    pub cwnd: u32,
    /// Packets.
    pub in_flight: u32,
    /// Payload bytes of a full packet.
    pub mss: u32,
    /// Smoothed RTT.
    pub srtt_us: u32,
    /// Pacing rate, bits a second.
    pub pacing_bps: u64,
    /// Bandwidth estimate, bits a second of payload.
    pub bw_bps: u64,
    /// Smallest RTT.
    pub min_rtt_us: u64,
    /// Packet-timed rounds.
    pub rounds: u64,
    /// Short-term bound of the rate, bits a second.
    pub bw_shortterm_bps: Option<u64>,
    /// Short-term bound of the data in flight, bytes.
    pub inflight_shortterm: Option<u64>,
    /// Long-term bound of the data in flight, bytes.
    pub inflight_longterm: Option<u64>,
    /// Pacing gain, in 1/256.
    pub pacing_gain: u32,
    /// Window gain, in 1/256.
    pub cwnd_gain: u32,
    /// Packets delivered.
    pub delivered: u64,
    /// Packets marked lost.
    pub lost: u64,
}

/// Connections of this network namespace that a loaded program controls.
pub fn connections(iterator: &Path) -> Result<Vec<Connection>> {
    let mut bytes = Vec::new();
    File::open(iterator).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(Error::file(iterator))?;
    Ok(bytes.chunks_exact(BYTES).filter_map(parse).collect())
}

/// Parses a row; `None` if an older or newer program wrote another format.
fn parse(row: &[u8]) -> Option<Connection> {
    let u16_at = |at: usize| row.get(at..at + 2).map(|b| u16::from_ne_bytes([b[0], b[1]]));
    let u32_at = |at: usize| Some(u32::from_ne_bytes(row.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |at: usize| Some(u64::from_ne_bytes(row.get(at..at + 8)?.try_into().ok()?));
    let bound = |value: u64| (value < u64::MAX).then_some(value);
    let is_v6 = u16_at(0)? == INET6;
    let address = |at: usize, port: u16| -> Option<SocketAddr> {
        let all: [u8; 16] = row.get(at..at + 16)?.try_into().ok()?;
        let v4 = Ipv4Addr::new(all[0], all[1], all[2], all[3]);
        let ip = if is_v6 { IpAddr::V6(Ipv6Addr::from(all)) } else { IpAddr::V4(v4) };
        Some(SocketAddr::new(ip, port))
    };
    Some(Connection {
        local: address(8, u16_at(2)?)?,
        remote: address(24, u16_at(4)?)?,
        cwnd: u32_at(40)?,
        in_flight: u32_at(44)?,
        srtt_us: u32_at(48)?,
        mss: u32_at(52)?,
        pacing_bps: u64_at(56)?.saturating_mul(8),
        delivered: u64_at(64)?,
        lost: u64_at(72)?,
        bw_bps: u64_at(80)?,
        min_rtt_us: u64_at(88)?,
        rounds: u64_at(96)?,
        bw_shortterm_bps: bound(u64_at(104)?).map(|rate| rate.saturating_mul(8)),
        inflight_shortterm: bound(u64_at(112)?),
        inflight_longterm: bound(u64_at(120)?),
        state: State::ALL.get(u32_at(128)? as usize)?.name(),
        pacing_gain: u32_at(132)?,
        cwnd_gain: u32_at(136)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_by_its_places_and_no_damage_panics() {
        let mut row = vec![0; BYTES];
        row[0] = 2;
        row[2..4].copy_from_slice(&5001_u16.to_ne_bytes());
        row[4..6].copy_from_slice(&80_u16.to_ne_bytes());
        row[8..12].copy_from_slice(&[10, 0, 0, 1]);
        row[24..28].copy_from_slice(&[10, 0, 0, 2]);
        row[40] = 17;
        row[104..128].fill(0xff);
        row[120..128].copy_from_slice(&9_u64.to_ne_bytes());
        row[128] = 6;
        let one = parse(&row).unwrap();
        assert_eq!((one.local.to_string().as_str(), one.remote.to_string().as_str()), ("10.0.0.1:5001", "10.0.0.2:80"));
        assert_eq!(
            (one.cwnd, one.state, one.inflight_shortterm, one.inflight_longterm),
            (17, "probe_rtt", None, Some(9))
        );
        for end in 0..BYTES {
            let _ = parse(&row[..end]);
        }
        row[128] = 0xff;
        assert_eq!(parse(&row), None);
    }
}
