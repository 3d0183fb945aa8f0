//! Headers of the packets that pass a device, read from a packet socket's ring.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::ffi::{CString, c_void};
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// Bytes kept of each packet: Ethernet, IP and TCP headers with all options.
const SNAP: u32 = 134;
/// Bytes of a slot in the ring: the kernel's own header, and the captured bytes.
const FRAME: usize = 256;
/// Bytes of the blocks that form the ring.
const BLOCK: usize = 1 << 16;
/// Slots in the ring: at 10 Gbit/s, 10 ms are 8,333 full packets.
const FRAMES: usize = 1 << 16;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// The kernel's `ETH_P_ALL`, in network order.
const ALL: u16 = (libc::ETH_P_ALL as u16).to_be();

/// A captured packet.
pub struct CapturedPacket<'a> {
    /// Timestamp of the real-time clock, nanoseconds.
    pub at_ns: u64,
    /// True if the device's host sent it.
    pub outgoing: bool,
    /// The captured bytes, starting at the IP header.
    pub headers: &'a [u8],
}

/// A ring of packets that pass a device.
pub struct Tap {
    fd: OwnedFd,
    ring: NonNull<c_void>,
    next: usize,
}

impl Tap {
    /// Captures on `device` of the current namespace; `incoming_only` excludes packets sent by its own host.
    pub fn open(device: &str, incoming_only: bool) -> io::Result<Self> {
        // SAFETY: a plain system call; the descriptor is checked before it is owned.
        let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: socket has just created this descriptor, and no one else holds it.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        set(&fd, libc::SOL_PACKET, libc::PACKET_VERSION, &libc::tpacket_versions::TPACKET_V2)?;
        if incoming_only {
            set(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32)?;
        }
        // The whole program is: keep SNAP bytes of every packet.
        let mut program = [libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: SNAP }];
        let filter = libc::sock_fprog { len: 1, filter: program.as_mut_ptr() };
        set(&fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)?;
        let size = FRAMES * FRAME;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: (size / BLOCK) as u32,
            tp_frame_size: FRAME as u32,
            tp_frame_nr: FRAMES as u32,
        };
        set(&fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let length = NonZeroUsize::new(size).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: a fresh mapping of the ring that the kernel has just made, of exactly its size.
        let ring =
            unsafe { mmap(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED, &fd, 0)? };
        let tap = Self { fd, ring, next: 0 };
        tap.bind(device)?;
        Ok(tap)
    }

    fn bind(&self, device: &str) -> io::Result<()> {
        let name = CString::new(device)?;
        // SAFETY: `name` is a C string that outlives the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: all zeroes are a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = ALL;
        address.sll_ifindex = index as i32;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: pointer and length describe `address`, which the kernel only reads.
        let done = unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), length) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Passes on the packets since the previous call.
    pub fn drain(&mut self, mut take: impl FnMut(CapturedPacket<'_>)) {
        loop {
            // SAFETY: `next` is below FRAMES, so the place lies inside the mapping, aligned to FRAME.
            let place = unsafe { self.ring.as_ptr().cast::<u8>().add(self.next * FRAME) };
            let header = place.cast::<libc::tpacket2_hdr>();
            // SAFETY: every place begins with this header; the kernel changes tp_status alone while it is ours to read.
            let status = unsafe { (&raw const (*header).tp_status).read_volatile() };
            if status & libc::TP_STATUS_USER == 0 {
                return;
            }
            fence(Ordering::Acquire);
            // SAFETY: TP_STATUS_USER says that the place is ours, and the kernel keeps tp_mac + tp_snaplen within it.
            let (header_read, link, kept) = unsafe {
                let read = header.read();
                let from = usize::from(read.tp_mac).min(FRAME);
                let kept = (read.tp_snaplen as usize).min(FRAME - from);
                let link = place.add(TPACKET2_HDRLEN_WITHOUT_ADDRESS).cast::<libc::sockaddr_ll>().read_unaligned();
                (read, link, std::slice::from_raw_parts(place.add(from), kept))
            };
            take(CapturedPacket {
                at_ns: u64::from(header_read.tp_sec) * 1_000_000_000 + u64::from(header_read.tp_nsec),
                outgoing: link.sll_pkttype == libc::PACKET_OUTGOING,
                headers: kept.get(ETHERNET..).unwrap_or_default(),
            });
            fence(Ordering::Release);
            // SAFETY: the place goes back to the kernel; nothing of it is read afterwards.
            unsafe { (&raw mut (*header).tp_status).write_volatile(libc::TP_STATUS_KERNEL) };
            self.next = (self.next + 1) % FRAMES;
        }
    }

    /// Packets lost to a full ring since the previous call.
    pub fn missed(&self) -> io::Result<u32> {
        let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to `stats`.
        let done = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut length,
            )
        };
        if done == 0 { Ok(stats.tp_drops) } else { Err(io::Error::last_os_error()) }
    }
}

/// Offset of a slot's link-layer address. Source: `TPACKET_ALIGN(sizeof(struct tpacket2_hdr))`.
const TPACKET2_HDRLEN_WITHOUT_ADDRESS: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(16);

impl Drop for Tap {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `open` with this size, and no one holds a reference into it.
        let _ = unsafe { munmap(self.ring, FRAMES * FRAME) };
    }
}

fn set<T>(fd: &OwnedFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: pointer and length describe `value`, which the kernel only reads.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const *value).cast(), length) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
