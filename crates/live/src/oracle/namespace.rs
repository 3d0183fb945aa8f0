//! A network namespace without a name, with one TUN device in it; both vanish with their descriptors.
//! In: an address. Out: descriptors. Never: a change outside of the namespace that it made.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

/// Bytes of an IP packet on the device: Ethernet's.
const MTU: libc::c_int = 1500;
/// Where the kernel hands out TUN devices.
const TUN: &str = "/dev/net/tun";

/// A namespace and its way out.
pub struct Namespace {
    /// Holds the namespace.
    net: File,
    /// The network's end of its device, non-blocking.
    pub tun: File,
}

impl Namespace {
    /// A namespace whose only way out is a device with this address in a network of 256.
    pub fn new(address: Ipv4Addr) -> Result<Self, String> {
        thread::spawn(move || Self::make(address)).join().map_err(|_| "a namespace's thread died".to_owned())?
    }

    fn make(address: Ipv4Addr) -> Result<Self, String> {
        unshare(CloneFlags::CLONE_NEWNET)
            .map_err(|error| format!("may not make a network namespace ({error}); run as root"))?;
        let net =
            File::open("/proc/thread-self/ns/net").map_err(|error| format!("/proc/thread-self/ns/net: {error}"))?;
        let tun = device(address)?;
        // A record of a path that no longer exists would decide how the next flow begins.
        let _ = std::fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1");
        Ok(Self { net, tun })
    }

    /// Runs `work` on a thread inside.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<thread::JoinHandle<Result<T, String>>, String> {
        let net = self.net.try_clone().map_err(|error| format!("a namespace's descriptor: {error}"))?;
        Ok(thread::spawn(move || {
            setns(&net, CloneFlags::CLONE_NEWNET).map_err(|error| format!("may not enter a namespace: {error}"))?;
            drop(net);
            Ok(work())
        }))
    }
}

/// A TUN device of this namespace, up, with its address.
fn device(address: Ipv4Addr) -> Result<File, String> {
    let fault = |what: &str| format!("{TUN}: {what}: {}", io::Error::last_os_error());
    // SAFETY: the path is a C string, and the descriptor is checked before anyone owns it.
    let fd = unsafe { libc::open(c"/dev/net/tun".as_ptr(), libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(fault("may not be opened"));
    }
    // SAFETY: just opened, and owned by nobody else.
    let tun = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    let mut request = request();
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    control(tun.as_raw_fd(), libc::TUNSETIFF, &mut request).map_err(|()| fault("makes no device"))?;
    // SAFETY: socket takes no pointer; the descriptor is checked.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(fault("no socket to set the device up"));
    }
    // SAFETY: just opened, and owned by nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let set = |what: libc::Ioctl, request: &mut libc::ifreq| control(socket.as_raw_fd(), what, request);
    request.ifr_ifru.ifru_addr = internet(address);
    set(libc::SIOCSIFADDR, &mut request).map_err(|()| fault("takes no address"))?;
    request.ifr_ifru.ifru_netmask = internet(Ipv4Addr::new(255, 255, 255, 0));
    set(libc::SIOCSIFNETMASK, &mut request).map_err(|()| fault("takes no netmask"))?;
    request.ifr_ifru.ifru_mtu = MTU;
    set(libc::SIOCSIFMTU, &mut request).map_err(|()| fault("takes no MTU"))?;
    // Its queue is not the path's: what waits there waits in the link.
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    set(libc::SIOCSIFFLAGS, &mut request).map_err(|()| fault("does not come up"))?;
    Ok(tun)
}

/// A request for the device `path`.
fn request() -> libc::ifreq {
    // SAFETY: ifreq is plain data, and all zeros is an empty request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"path") {
        *to = *from as libc::c_char;
    }
    request
}

fn control(fd: libc::c_int, what: libc::Ioctl, request: &mut libc::ifreq) -> Result<(), ()> {
    // SAFETY: every request used here takes a pointer to an ifreq, which outlives the call.
    if unsafe { libc::ioctl(fd, what, std::ptr::from_mut(request)) } < 0 { Err(()) } else { Ok(()) }
}

fn internet(address: Ipv4Addr) -> libc::sockaddr {
    // SAFETY: sockaddr is plain data.
    let mut plain: libc::sockaddr = unsafe { std::mem::zeroed() };
    plain.sa_family = libc::AF_INET as libc::sa_family_t;
    // Port, then address, as sockaddr_in has them.
    for (to, from) in plain.sa_data[2..6].iter_mut().zip(address.octets()) {
        *to = from as libc::c_char;
    }
    plain
}
