//! Live TCP connections of this network namespace, from the kernel's `sock_diag` (the interface of `ss`).
//! Nothing is changed.
//! Source: Linux `include/uapi/linux/{netlink,sock_diag,inet_diag}.h`.
// SPDX-License-Identifier: Apache-2.0 OR MIT
//!
//! ```no_run
//! use bbrlab_live::sock_diag::{Query, dump};
//! for connection in dump(&Query::default())? {
//!     if let (Some(info), Some(bbr)) = (connection.info, connection.bbr) {
//!         println!("{} → {}: cwnd {}, bw {} B/s", connection.local, connection.remote, info.snd_cwnd, bbr.bw);
//!     }
//! }
//! # Ok::<(), bbrlab_live::Error>(())
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr as KernelAddress};

use crate::tcp_info::{BbrInfo, TcpInfo};
use crate::{Error, Result};

/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST` and `NLM_F_DUMP`.
const REQUEST_DUMP: u16 = 0x1 | 0x300;
/// `NLMSG_ERROR`.
const ERROR: u16 = 2;
/// `NLMSG_DONE`.
const DONE: u16 = 3;
/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Bytes of `struct inet_diag_req_v2`.
const REQUEST: usize = 56;
/// Bytes of `struct inet_diag_msg`.
const MESSAGE: usize = 72;
/// Attributes requested and read: `INET_DIAG_*`.
const INFO: u16 = 2;
const VEGASINFO: u16 = 3;
const CONG: u16 = 4;
const BBRINFO: u16 = 16;
/// Buffer for one reply: the kernel fills at most 32 KiB at a time.
const BUFFER: usize = 1 << 16;

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Address family; `None` for both.
    pub family: Option<Family>,
    /// One bit per TCP state: 1 << `TCP_ESTABLISHED` (1) and so on.
    pub states: u32,
    /// The local port to match, if any.
    pub local_port: Option<u16>,
    /// The remote port to match, if any.
    pub remote_port: Option<u16>,
}

impl Default for Query {
    /// Selects every established connection.
    fn default() -> Self {
        Self { family: None, states: 1 << 1, local_port: None, remote_port: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// TCP state; established is 1.
    pub state: u8,
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// Unique ID of the socket until the next reboot.
    pub cookie: u64,
    /// ID of the user who created it.
    pub uid: u32,
    /// Its inode, as in `/proc/PID/fd`.
    pub inode: u32,
    /// Bytes received and not yet read.
    pub receive_queue: u32,
    /// Bytes written and not yet acknowledged.
    pub send_queue: u32,
    pub congestion_control: Option<String>,
    /// Contents of `tcp_info`, if the kernel sent it.
    pub info: Option<TcpInfo>,
    /// BBR's own figures, if BBR controls the connection.
    pub bbr: Option<BbrInfo>,
}

/// Lists the connections of this network namespace. Requires no privileges.
pub fn dump(query: &Query) -> Result<Vec<Connection>> {
    let families: &[Family] = match query.family {
        None => &[Family::V4, Family::V6],
        Some(Family::V4) => &[Family::V4],
        Some(Family::V6) => &[Family::V6],
    };
    let mut all = Vec::new();
    for family in families {
        ask(query, *family, &mut all)?;
    }
    // The kernel filters by port only with a bytecode program; the list is short enough to filter here.
    let is_wanted = |wanted: Option<u16>, port: u16| wanted.is_none_or(|wanted| wanted == port);
    all.retain(|one| is_wanted(query.local_port, one.local.port()) && is_wanted(query.remote_port, one.remote.port()));
    Ok(all)
}

fn ask(query: &Query, family: Family, all: &mut Vec<Connection>) -> Result<()> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG).map_err(Error::SockDiag)?;
    socket.bind_auto().map_err(Error::SockDiag)?;
    socket.connect(&KernelAddress::new(0, 0)).map_err(Error::SockDiag)?;
    socket.send(&request(query, family), 0).map_err(Error::SockDiag)?;
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = socket.recv(&mut buffer.as_mut_slice(), 0).map_err(Error::SockDiag)?;
        if parse(&buffer[..length], all)? == DumpState::Last {
            return Ok(());
        }
    }
}

/// Encodes the request for the kernel.
fn request(query: &Query, family: Family) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + REQUEST);
    bytes.extend_from_slice(&((HEADER + REQUEST) as u32).to_ne_bytes());
    bytes.extend_from_slice(&BY_FAMILY.to_ne_bytes());
    bytes.extend_from_slice(&REQUEST_DUMP.to_ne_bytes());
    bytes.extend_from_slice(&[0; 8]); // sequence and sender
    let family = match family {
        Family::V4 => libc::AF_INET,
        Family::V6 => libc::AF_INET6,
    };
    let wanted = [INFO, VEGASINFO, CONG].iter().fold(0u8, |bits, attribute| bits | 1 << (attribute - 1));
    bytes.extend_from_slice(&[family as u8, libc::IPPROTO_TCP as u8, wanted, 0]);
    bytes.extend_from_slice(&query.states.to_ne_bytes());
    bytes.resize(HEADER + REQUEST, 0); // matches any socket
    bytes
}

/// State of a dump after one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpState {
    /// More datagrams follow.
    More,
    /// The dump is complete.
    Last,
}

/// Parses one datagram of the reply. Truncated or unknown parts are skipped.
pub fn parse(mut bytes: &[u8], all: &mut Vec<Connection>) -> Result<DumpState> {
    while bytes.len() >= HEADER {
        let length = usize::try_from(u32_at(bytes, 0)).unwrap_or(usize::MAX);
        let kind = u16_at(bytes, 4);
        if length < HEADER {
            return Err(Error::SockDiagShort(length));
        }
        let body = &bytes[HEADER..length.min(bytes.len())];
        match kind {
            DONE => return Ok(DumpState::Last),
            ERROR => {
                let number = u32_at(body, 0) as i32;
                let error = std::io::Error::from_raw_os_error(number.wrapping_neg());
                return if number == 0 { Ok(DumpState::Last) } else { Err(Error::SockDiagReports(error)) };
            }
            BY_FAMILY => all.extend(connection(body)),
            _ => {}
        }
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
    }
    Ok(DumpState::More)
}

/// Rounds up to a multiple of four, the alignment of netlink messages and attributes.
const fn aligned(length: usize) -> usize {
    length.saturating_add(3) & !3
}

fn connection(body: &[u8]) -> Option<Connection> {
    if body.len() < MESSAGE {
        return None;
    }
    let is_v6 = i32::from(body[0]) == libc::AF_INET6;
    let mut one = Connection {
        state: body[1],
        local: SocketAddr::new(address(&body[8..24], is_v6), port(&body[4..])),
        remote: SocketAddr::new(address(&body[24..40], is_v6), port(&body[6..])),
        cookie: u64::from(u32_at(body, 44)) | u64::from(u32_at(body, 48)) << 32,
        receive_queue: u32_at(body, 56),
        send_queue: u32_at(body, 60),
        uid: u32_at(body, 64),
        inode: u32_at(body, 68),
        congestion_control: None,
        info: None,
        bbr: None,
    };
    let mut rest = &body[MESSAGE..];
    while rest.len() >= 4 {
        let length = usize::from(u16_at(rest, 0));
        if length < 4 {
            break;
        }
        let value = &rest[4..length.min(rest.len())];
        // The two high bits are flags of netlink.
        match u16_at(rest, 2) & 0x3fff {
            INFO => one.info = Some(TcpInfo::parse(value)),
            BBRINFO => one.bbr = BbrInfo::parse(value),
            CONG => {
                let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
                one.congestion_control = Some(String::from_utf8_lossy(name).into_owned());
            }
            _ => {}
        }
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    Some(one)
}

/// Decodes a port, which is in network byte order.
fn port(bytes: &[u8]) -> u16 {
    u16_at(bytes, 0).to_be()
}

fn address(bytes: &[u8], is_v6: bool) -> IpAddr {
    let mut whole = [0; 16];
    whole.copy_from_slice(&bytes[..16]);
    if is_v6 { Ipv6Addr::from(whole).into() } else { Ipv4Addr::new(whole[0], whole[1], whole[2], whole[3]).into() }
}

fn u16_at(bytes: &[u8], place: usize) -> u16 {
    bytes.get(place..place + 2).map_or(0, |part| u16::from_ne_bytes([part[0], part[1]]))
}

fn u32_at(bytes: &[u8], place: usize) -> u32 {
    bytes.get(place..place + 4).map_or(0, |part| u32::from_ne_bytes([part[0], part[1], part[2], part[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;

    use bbrlab_core::Rng;

    /// A message for one connection with BBRv3's 52 bytes.
    fn message() -> Vec<u8> {
        let mut body = vec![0; MESSAGE];
        body[0] = libc::AF_INET as u8;
        body[1] = 1;
        body[4..8].copy_from_slice(&[0x13, 0x89, 0x00, 0x50]);
        body[8..12].copy_from_slice(&[10, 0, 0, 1]);
        body[24..28].copy_from_slice(&[10, 0, 0, 2]);
        let mut attribute = |kind: u16, value: &[u8]| {
            body.extend_from_slice(&((value.len() + 4) as u16).to_ne_bytes());
            body.extend_from_slice(&kind.to_ne_bytes());
            body.extend_from_slice(value);
            body.resize(aligned(body.len()), 0);
        };
        attribute(CONG, b"bbr\0");
        attribute(BBRINFO, &[7; 52]);
        attribute(INFO, &[9; 248]);
        let mut bytes = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend_from_slice(&BY_FAMILY.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend_from_slice(&body);
        bytes
    }

    #[test]
    fn a_message_is_read_whole() {
        let mut all = Vec::new();
        assert_eq!(parse(&message(), &mut all).unwrap(), DumpState::More);
        let one = &all[0];
        assert_eq!((one.local.to_string().as_str(), one.remote.to_string().as_str()), ("10.0.0.1:5001", "10.0.0.2:80"));
        assert_eq!(one.congestion_control.as_deref(), Some("bbr"));
        assert!(one.bbr.unwrap().v3.is_some());
        assert_eq!(one.info.unwrap().snd_cwnd, 0x0909_0909);
    }

    #[test]
    fn no_truncation_panics() {
        let bytes = message();
        for end in 0..bytes.len() {
            let mut all = Vec::new();
            parse(&bytes[..end], &mut all).unwrap();
        }
    }

    #[test]
    fn no_damage_panics() {
        let bytes = message();
        let mut rng = Rng::new(4);
        for _ in 0..20_000 {
            let mut damaged = bytes.clone();
            for _ in 0..=rng.below(4) {
                let place = rng.below(damaged.len() as u64) as usize;
                damaged[place] = rng.next_u64() as u8;
            }
            let _ = parse(&damaged, &mut Vec::new());
        }
    }

    #[test]
    fn the_kernels_refusal_is_one_line() {
        let mut bytes = 20u32.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&ERROR.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend_from_slice(&(-libc::ENOENT).to_ne_bytes());
        let error = parse(&bytes, &mut Vec::new()).unwrap_err();
        assert!(matches!(error, Error::SockDiagReports(_)) && !error.to_string().contains('\n'), "{error}");
    }

    /// A connection of our own on loopback: equal through `sock_diag` and `getsockopt`.
    #[test]
    #[ignore = "needs the kernel's sock_diag and a loopback socket"]
    fn a_connection_of_ours_is_listed_as_its_socket_says() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[1; 1000]).unwrap();
        server.read_exact(&mut [0; 1000]).unwrap();
        let port = client.local_addr().unwrap().port();
        let listed = dump(&Query { local_port: Some(port), ..Query::default() }).unwrap();
        assert_eq!(listed.len(), 1, "{listed:?}");
        let one = &listed[0];
        assert_eq!((one.local, one.remote), (client.local_addr().unwrap(), client.peer_addr().unwrap()));
        let asked = crate::socket::tcp_info(&OwnedFd::from(client)).unwrap();
        let info = one.info.unwrap();
        assert_eq!((info.length, info.snd_mss, info.data_segs_out), (asked.length, asked.snd_mss, asked.data_segs_out));
        assert!(info.has("delivered") && info.bytes_sent == 1000, "{info:?}");
        assert_eq!(one.bbr.is_some(), one.congestion_control.as_deref() == Some("bbr"));
    }
}
