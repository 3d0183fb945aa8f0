//! TCP sockets inside network namespaces, and their state in the kernel.
//! No call blocks.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io;
use std::mem::size_of;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, connect, getpeername, listen, setsockopt, socket,
    sockopt,
};

use crate::tcp_info::{BbrInfo, TcpInfo};

/// Buffer size that suffices for any kernel.
const INFO_MAX: usize = 512;

/// Runs `work` in the network namespace `ns`, then returns to the previous one.
pub fn within<T>(ns: BorrowedFd<'_>, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let here = std::fs::File::open("/proc/thread-self/ns/net")?;
    setns(ns, CloneFlags::CLONE_NEWNET)?;
    let done = work();
    setns(here.as_fd(), CloneFlags::CLONE_NEWNET)?;
    done
}

fn tcp_socket() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    Ok(socket(AddressFamily::Inet, SockType::Stream, flags, None)?)
}

/// True if this kernel has a congestion control of this name, or loads its module now.
pub fn has_congestion_control(cc: &str) -> io::Result<bool> {
    let fd = tcp_socket()?;
    match set_raw(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, cc.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        // The kernel may have it and refuse it to this user; the run then reports that.
        _ => Ok(true),
    }
}

/// Creates a listening socket at `at`; its connections run `cc`, if there is one.
pub fn listener(at: SocketAddrV4, cc: Option<&str>) -> io::Result<OwnedFd> {
    let fd = tcp_socket()?;
    if let Some(cc) = cc {
        set_raw(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, cc.as_bytes())?;
    }
    setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    bind(fd.as_raw_fd(), &SockaddrIn::from(at))?;
    listen(&fd, Backlog::MAXCONN)?;
    Ok(fd)
}

/// Accepts the next pending connection of a listener, and returns its peer's port.
pub fn accept(listener: &OwnedFd) -> io::Result<Option<(OwnedFd, u16)>> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let raw = match nix::sys::socket::accept4(listener.as_raw_fd(), flags) {
        Ok(raw) => raw,
        Err(nix::errno::Errno::EAGAIN) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // SAFETY: accept4 has just created this descriptor, and no one else holds it.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    let peer: SockaddrIn = getpeername(raw)?;
    Ok(Some((fd, peer.port())))
}

/// Parameters of a sending socket.
#[derive(Clone, Copy, Debug)]
pub struct Dial<'a> {
    /// Congestion control, by the kernel's name.
    pub cc: &'a str,
    /// Payload bytes of a full segment, timestamps in the header.
    pub mss: u32,
    /// DSCP of its packets.
    pub dscp: u8,
    /// Its own address.
    pub from: SocketAddrV4,
    /// Address that it connects to.
    pub to: SocketAddrV4,
}

/// Bytes of TCP's timestamp option with its padding.
const TIMESTAMPS: u32 = 12;
/// Bits below the DSCP in the IP header's byte.
const ECN_BITS: u32 = 2;

/// Creates a socket and sends a SYN. The socket becomes writable once it is connected.
pub fn dial(dial: Dial<'_>) -> io::Result<OwnedFd> {
    let fd = tcp_socket()?;
    setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    set_raw(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CONGESTION, dial.cc.as_bytes())?;
    set_dscp(&fd, dial.dscp)?;
    setsockopt(&fd, sockopt::TcpMaxSeg, &(dial.mss + TIMESTAMPS))?;
    bind(fd.as_raw_fd(), &SockaddrIn::from(dial.from))?;
    match connect(fd.as_raw_fd(), &SockaddrIn::from(dial.to)) {
        Ok(()) | Err(nix::errno::Errno::EINPROGRESS) => Ok(fd),
        Err(error) => Err(error.into()),
    }
}

/// Sets the DSCP of a connection's packets, if it is not the default.
pub fn set_dscp(fd: &OwnedFd, dscp: u8) -> io::Result<()> {
    if dscp == 0 {
        return Ok(());
    }
    set_int(fd, libc::IPPROTO_IP, libc::IP_TOS, i32::from(dscp) << ECN_BITS)
}

fn set_raw(fd: RawFd, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which the kernel only reads.
    let done = unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), value.len() as libc::socklen_t) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets a socket option of type `int`.
pub fn set_int(fd: &OwnedFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    set_raw(fd.as_raw_fd(), level, name, &value.to_ne_bytes())
}

fn get_raw(fd: &OwnedFd, name: i32, buffer: &mut [u8; INFO_MAX]) -> io::Result<usize> {
    let mut length = size_of::<[u8; INFO_MAX]>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into the buffer, and returns their number.
    let done = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, name, buffer.as_mut_ptr().cast(), &raw mut length)
    };
    if done == 0 { Ok(length as usize) } else { Err(io::Error::last_os_error()) }
}

/// Reads `TCP_INFO` of a connection.
pub fn tcp_info(fd: &OwnedFd) -> io::Result<TcpInfo> {
    let mut buffer = [0; INFO_MAX];
    let length = get_raw(fd, libc::TCP_INFO, &mut buffer)?;
    Ok(TcpInfo::parse(&buffer[..length]))
}

/// Reads `TCP_CC_INFO` of a connection that BBR controls.
pub fn bbr_info(fd: &OwnedFd) -> io::Result<Option<BbrInfo>> {
    let mut buffer = [0; INFO_MAX];
    let length = get_raw(fd, libc::TCP_CC_INFO, &mut buffer)?;
    Ok(BbrInfo::parse(&buffer[..length]))
}

/// Sends filler bytes; returns the number that the socket accepted (0 if it is full).
pub fn write_some(fd: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = nix::sys::socket::MsgFlags::MSG_NOSIGNAL | nix::sys::socket::MsgFlags::MSG_DONTWAIT;
    match nix::sys::socket::send(fd.as_raw_fd(), bytes, flags) {
        Ok(taken) => Ok(taken),
        Err(nix::errno::Errno::EAGAIN) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Discards up to `max` bytes from the socket; `None` if it is empty.
pub fn discard(fd: &OwnedFd, max: usize) -> io::Result<Option<usize>> {
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing to the buffer, so none is needed.
    let taken = unsafe { libc::recv(fd.as_raw_fd(), std::ptr::null_mut(), max, libc::MSG_TRUNC | libc::MSG_DONTWAIT) };
    match usize::try_from(taken) {
        Ok(taken) => Ok(Some(taken)),
        Err(_) => {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) }
        }
    }
}

/// Sets the number of bytes from which a socket counts as readable.
pub fn set_low_water(fd: &OwnedFd, bytes: i32) -> io::Result<()> {
    set_int(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)
}

/// Makes `close` reset the connection and discard unsent data.
///
/// Otherwise the kernel keeps the connection, its data and its namespace for a minute or more, and its memory runs
/// short for other connections.
pub fn abort_on_close(fd: impl AsFd) -> io::Result<()> {
    setsockopt(&fd, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 }).map_err(io::Error::from)
}

/// Combines address and port.
pub const fn at(address: Ipv4Addr, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(address, port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_a_congestion_control_says_so() {
        assert!(has_congestion_control("reno").unwrap());
        assert!(!has_congestion_control("nosuchcc").unwrap());
    }
}
