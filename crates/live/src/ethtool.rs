//! Device offloads, set by the ioctl that `ethtool -K` uses.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io;
use std::os::fd::AsRawFd;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

/// The ioctl's number; with musl it has another type than the call's argument.
#[allow(clippy::unnecessary_cast, reason = "not with musl")]
const REQUEST: libc::Ioctl = libc::SIOCETHTOOL as libc::Ioctl;

/// The kernel's `ETHTOOL_STSO`.
const SET_TSO: u32 = 0x1f;

#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Makes the device segment super-packets in software before it sends them.
///
/// Up to the device they stay whole; everything behind it gets packets as a wire carries them.
pub fn segment_in_software(device: &str) -> io::Result<()> {
    let fd = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let mut value = Value { command: SET_TSO, data: 0 };
    // SAFETY: all zeroes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: `request` names a device and points to `value`; both outlive the call.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), REQUEST, &raw mut request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
