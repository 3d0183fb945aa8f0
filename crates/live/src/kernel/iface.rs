//! Interfaces of the calling thread's network namespace: addresses, sizes, flags.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::ffi::CString;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

use crate::{Error, Result};

/// Returns an `ifreq` with the interface's name filled in.
pub(super) fn request(name: &str) -> Result<libc::ifreq> {
    let bytes = CString::new(name)
        .map_err(|_| Error::InterfaceName { name: name.to_owned(), problem: "a name holds no zero byte" })?;
    // SAFETY: an all-zero `ifreq` is a valid value of that C struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if bytes.as_bytes().len() >= request.ifr_name.len() {
        return Err(Error::InterfaceName { name: name.to_owned(), problem: "the name is too long" });
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes.as_bytes()) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    Ok(request)
}

/// Brings the interface up.
pub fn up(name: &str) -> Result<()> {
    let mut request = request(name)?;
    let socket = control(AddressFamily::Inet)?;
    call(&socket, libc::SIOCGIFFLAGS, &mut request, name)?;
    // SAFETY: the call before filled in this member of the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
    call(&socket, libc::SIOCSIFFLAGS, &mut request, name)
}

/// Sets the MTU.
pub fn set_mtu(name: &str, mtu: u32) -> Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_mtu = mtu.cast_signed();
    call(&control(AddressFamily::Inet)?, libc::SIOCSIFMTU, &mut request, name)
}

/// Sets the length of the device's transmit queue. Uses netlink, because the older ioctl requires privileges on the
/// host.
pub fn set_queue(name: &str, packets: u32) -> Result<()> {
    const LENGTH: u32 = 40;
    let mut named = request(name)?;
    call(&control(AddressFamily::Inet)?, libc::SIOCGIFINDEX, &mut named, name)?;
    // SAFETY: the call before filled in this member of the union.
    let index = unsafe { named.ifr_ifru.ifru_ifindex };
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
    // `nlmsghdr`, `ifinfomsg`, then one attribute.
    let mut message = Vec::with_capacity(LENGTH as usize);
    message.extend(LENGTH.to_ne_bytes());
    message.extend(libc::RTM_NEWLINK.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 12]);
    message.extend(index.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(8_u16.to_ne_bytes());
    message.extend(libc::IFLA_TXQLEN.to_ne_bytes());
    message.extend(packets.to_ne_bytes());
    ask_netlink(&message).map_err(Error::io(format!("interface {name}: queue")))
}

/// Adds a route to `host` whose connections use this congestion control (`ip route add HOST dev NAME congctl CC`).
///
/// A route accepts any algorithm of the kernel; a namespace's default accepts only those that the host allows to
/// everyone.
pub fn add_route(name: &str, host: IpAddr, cc: &str) -> Result<()> {
    /// `rtmsg` of a unicast route of the main table: TOS 0, RT_TABLE_MAIN, RTPROT_STATIC, scope, RTN_UNICAST.
    const RTM: [u8; 5] = [0, libc::RT_TABLE_MAIN, libc::RTPROT_STATIC, libc::RT_SCOPE_LINK, libc::RTN_UNICAST];
    /// Route metric for the congestion control. Source: include/uapi/linux/rtnetlink.h.
    const RTAX_CC_ALGO: u16 = 16;
    let mut named = request(name)?;
    call(&control(AddressFamily::Inet)?, libc::SIOCGIFINDEX, &mut named, name)?;
    // SAFETY: the call before filled in this member of the union.
    let index = unsafe { named.ifr_ifru.ifru_ifindex };
    let (family, address) = match host {
        IpAddr::V4(host) => (libc::AF_INET, host.octets().to_vec()),
        IpAddr::V6(host) => (libc::AF_INET6, host.octets().to_vec()),
    };
    let algorithm = attribute(RTAX_CC_ALGO, &[cc.as_bytes(), &[0]].concat());
    let mut body = vec![family as u8, (8 * address.len()) as u8, 0];
    body.extend(RTM);
    body.extend([0; 4]);
    body.extend(attribute(libc::RTA_DST, &address));
    body.extend(attribute(libc::RTA_OIF, &index.to_ne_bytes()));
    body.extend(attribute(libc::RTA_METRICS, &algorithm));
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE) as u16;
    let mut message = Vec::new();
    message.extend((16 + body.len() as u32).to_ne_bytes());
    message.extend(libc::RTM_NEWROUTE.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    ask_netlink(&message).map_err(|source| Error::Route {
        interface: name.to_owned(),
        to: host,
        cc: cc.to_owned(),
        source,
    })
}

/// Encodes a netlink attribute: length and kind, the value, and padding to a multiple of four.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = 4 + value.len();
    let mut text = (length as u16).to_ne_bytes().to_vec();
    text.extend(kind.to_ne_bytes());
    text.extend(value);
    text.resize(length.next_multiple_of(4), 0);
    text
}

/// Sends one request and returns the kernel's answer.
fn ask_netlink(message: &[u8]) -> io::Result<()> {
    let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
    send(socket.as_raw_fd(), message, MsgFlags::empty())?;
    let mut answer = [0; 256];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    // The header is followed by the negated errno, or 0.
    match answer[..length].get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(-error)),
        None => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
    }
}

/// Assigns an address to the interface; everything with the same first `prefix` bits is reached through it.
pub fn add_address(name: &str, address: IpAddr, prefix: u8) -> Result<()> {
    match address {
        IpAddr::V4(address) => add_ipv4(name, address, prefix),
        IpAddr::V6(address) => add_ipv6(name, address, prefix),
    }
}

fn add_ipv4(name: &str, address: Ipv4Addr, prefix: u8) -> Result<()> {
    let socket = control(AddressFamily::Inet)?;
    let mut request = request(name)?;
    request.ifr_ifru.ifru_addr = ipv4(address);
    call(&socket, libc::SIOCSIFADDR, &mut request, name)?;
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
    request.ifr_ifru.ifru_netmask = ipv4(Ipv4Addr::from(mask));
    call(&socket, libc::SIOCSIFNETMASK, &mut request, name)
}

fn add_ipv6(name: &str, address: Ipv6Addr, prefix: u8) -> Result<()> {
    let socket = control(AddressFamily::Inet6)?;
    let mut named = request(name)?;
    call(&socket, libc::SIOCGIFINDEX, &mut named, name)?;
    let mut request = libc::in6_ifreq {
        ifr6_addr: libc::in6_addr { s6_addr: address.octets() },
        ifr6_prefixlen: prefix.into(),
        // SAFETY: the call before filled in this member of the union.
        ifr6_ifindex: unsafe { named.ifr_ifru.ifru_ifindex },
    };
    call(&socket, libc::SIOCSIFADDR, &mut request, name)
}

/// Reads a counter of the interface, such as `tx_dropped`; 0 if the kernel has none.
pub fn counter(name: &str, counter: &str) -> u64 {
    // 8 columns for received, then 8 columns for transmitted.
    let column = match counter {
        "rx_packets" => 1,
        "rx_dropped" => 3,
        "tx_packets" => 9,
        "tx_dropped" => 11,
        _ => return 0,
    };
    let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let line = table.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().nth(column)?.parse().ok()).unwrap_or(0)
}

fn ipv4(address: Ipv4Addr) -> libc::sockaddr {
    let [a, b, c, d] = address.octets().map(|octet| libc::c_char::from_ne_bytes([octet]));
    // A `sockaddr_in`: port, then address.
    libc::sockaddr { sa_family: libc::AF_INET as u16, sa_data: [0, 0, a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0] }
}

fn control(family: AddressFamily) -> Result<OwnedFd> {
    socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None).map_err(Error::call("socket"))
}

fn call<T>(socket: &OwnedFd, number: libc::c_ulong, request: &mut T, name: &str) -> Result<()> {
    // SAFETY: `T` is the C struct that this request number takes (each caller above pairs them), alive for the call.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), number as libc::Ioctl, std::ptr::from_mut(request)) };
    match status {
        0.. => Ok(()),
        _ => Err(Error::io(format!("interface {name}"))(io::Error::last_os_error())),
    }
}
