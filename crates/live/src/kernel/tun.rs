//! A TUN device: packets sent by its namespace are read here, packets written here arrive there.
//! Each IP packet follows a `virtio_net_hdr`. The device is removed when its descriptor is closed.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use serde::{Deserialize, Serialize};

use super::iface;
use super::ns::NetNs;
use crate::{Error, Result};

/// Bytes of the header before each packet: flags, GSO type, header length, GSO size, checksum start and offset.
/// Source: Linux include/uapi/linux/virtio_net.h, `struct virtio_net_hdr`.
pub const VNET: usize = 10;
/// Maximum length of an IP packet.
pub const IP_MAX: usize = 65_535;
/// The device's name in its namespace.
pub const NAME: &str = "bbrlab";
/// Packets that the device queues while the emulator does not run. Ours: .2 s of full-size packets at 1 Gbit/s.
const QUEUE_PACKETS: u32 = 20_000;

/// Size of the packets that the hosts hand over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offload {
    /// Packets of one MTU; the kernel segments.
    Packets,
    /// TSO: super-packets of up to 64 kB, segmented by the link model.
    SuperPackets,
}

/// A device, with its namespace.
#[derive(Debug)]
pub struct Tun {
    file: File,
}

/// Configuration of a device.
#[derive(Clone, Copy, Debug)]
pub struct TunConfig<'a> {
    /// Its addresses, with their prefix lengths.
    pub addresses: &'a [(IpAddr, u8)],
    /// The MTU.
    pub mtu: u32,
    /// Size of the packets that it hands over.
    pub offload: Offload,
}

impl Tun {
    /// Creates a device in `ns`, brings it up and assigns its addresses.
    pub fn new(ns: &NetNs, config: TunConfig<'_>) -> Result<Self> {
        ns.run(|| {
            quiet_ipv6();
            let tun = Self::attach(config.offload)?;
            iface::set_mtu(NAME, config.mtu)?;
            iface::set_queue(NAME, QUEUE_PACKETS)?;
            for &(address, prefix) in config.addresses {
                // A kernel without IPv6 still has IPv4.
                match iface::add_address(NAME, address, prefix) {
                    Err(_) if address.is_ipv6() => {}
                    done => done?,
                }
            }
            iface::up(NAME)?;
            Ok(tun)
        })
    }

    fn attach(offload: Offload) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(Error::NoTun)?;
        let mut request = iface::request(NAME)?;
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: TUNSETIFF takes a pointer to an `ifreq`, alive for the call.
        let status = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        if status < 0 {
            return Err(Error::io("/dev/net/tun: no device")(io::Error::last_os_error()));
        }
        let features = match offload {
            Offload::Packets => libc::TUN_F_CSUM,
            Offload::SuperPackets => libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN,
        };
        // SAFETY: TUNSETOFFLOAD takes a plain number.
        let status = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(features)) };
        if status < 0 {
            return Err(Error::io("/dev/net/tun: no offloads")(io::Error::last_os_error()));
        }
        Ok(Self { file })
    }

    /// Reads a packet with its header; `None` if none is available.
    #[inline]
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(buffer) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::WouldBlock || error.kind() == ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a packet with its header.
    #[inline]
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write(packet).map(drop)
    }

    /// Writes a packet that is stored in two parts.
    #[inline]
    pub fn write_parts(&self, head: &[u8], rest: &[u8]) -> io::Result<()> {
        (&self.file).write_vectored(&[IoSlice::new(head), IoSlice::new(rest)]).map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Keeps IPv6's control traffic (router solicitation, link-local addresses, duplicate detection) off the link.
fn quiet_ipv6() {
    for (name, value) in
        [("accept_dad", "0"), ("router_solicitations", "0"), ("addr_gen_mode", "1"), ("accept_ra", "0")]
    {
        // If IPv6 is absent there is nothing to suppress.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/default/{name}"), value);
    }
}
