//! The lag probe on a real kernel: echo requests as `ping` sends them. The receiving host's kernel answers them, and their RTTs
//! are measured from the packets that pass, as those of TCP are.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use bbrlab_core::{Span, Time};
use bbrlab_sim::apps::probe::{PROBE_BYTES, ProbeLog};
use bbrlab_sim::setup::Setup;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, bind, sendto};

use crate::{socket, wire};

/// Protocol number of ICMP, and its message types. Source: RFC 792.
const ICMP: u8 = 1;
const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST: u8 = 8;
/// Bytes of the ICMP, IPv4 and Ethernet headers.
const ICMP_HEADER: usize = 8;
const IP_HEADER: usize = 20;
const ETHERNET: usize = 14;
/// Bytes of a message: as long on the wire as the simulator's probe.
const MESSAGE: usize = PROBE_BYTES as usize - IP_HEADER - ETHERNET;
/// Identifier of our messages. Ours.
const IDENTIFIER: [u8; 2] = *b"bl";
/// Bytes of a probe's number, at the start of the data; the sequence number holds its low 16 bits.
const NUMBER: usize = size_of::<u64>();
/// The kernel's `ICMP_FILTER`: one bit for each message type that a socket does not receive.
const ICMP_FILTER: i32 = 1;
const NO_TYPE: i32 = -1;

/// Sends the probes of a run from the host on the left.
#[derive(Debug)]
pub struct ProbeSender {
    fd: OwnedFd,
    to: SockaddrIn,
    interval: Span,
    /// Probes sent so far.
    sent: u64,
}

impl ProbeSender {
    /// Opens a socket in a namespace, between two addresses, for probes at this interval.
    pub fn open(interval: Span, namespace: BorrowedFd<'_>, from: Ipv4Addr, to: Ipv4Addr) -> io::Result<Self> {
        let fd = socket::within(namespace, || {
            let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
            let fd = nix::sys::socket::socket(AddressFamily::Inet, SockType::Raw, flags, SockProtocol::Icmp)?;
            // Echoes are seen as they pass; nothing reads them here.
            socket::set_int(&fd, libc::SOL_RAW, ICMP_FILTER, NO_TYPE)?;
            bind(fd.as_raw_fd(), &SockaddrIn::from(socket::at(from, 0)))?;
            Ok(fd)
        })?;
        Ok(Self { fd, to: SockaddrIn::from(socket::at(to, 0)), interval, sent: 0 })
    }

    /// Sends all probes that are due, and returns the time of the next one.
    pub fn act(&mut self, now: Time) -> io::Result<Time> {
        while self.next() <= now {
            match sendto(self.fd.as_raw_fd(), &request(self.sent), &self.to, MsgFlags::MSG_DONTWAIT) {
                // The host's own queue is full: the probe is lost there.
                Ok(_) | Err(Errno::EAGAIN | Errno::ENOBUFS) => self.sent += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.next())
    }

    fn next(&self) -> Time {
        Time::nanos(self.interval.as_nanos().saturating_mul(self.sent))
    }
}

/// Measures probes from the packets at their sender.
#[derive(Clone, Debug)]
pub struct ProbeMeter {
    log: ProbeLog,
    /// Time at which each probe left; [`Time::NEVER`] for one that did not.
    sent: Vec<Time>,
}

impl ProbeMeter {
    /// Creates the meter of a setup, if it has a probe.
    pub fn new(setup: &Setup) -> Option<Self> {
        Some(Self { log: ProbeLog::new(setup)?, sent: Vec::new() })
    }

    /// The probes sent and their echoes.
    pub const fn log(&self) -> &ProbeLog {
        &self.log
    }

    /// Records a packet that leaves the sender, if it is a probe.
    pub fn on_sent(&mut self, now_ns: u64, packet: &[u8]) {
        let Some(number) = number_of(packet, ECHO_REQUEST) else { return };
        let place = number as usize;
        if place >= self.sent.len() {
            self.sent.resize(place + 1, Time::NEVER);
        }
        self.sent[place] = Time::nanos(now_ns);
        self.log.on_sent(number);
    }

    /// Records a packet that reaches the sender, if it is the echo of a probe.
    pub fn on_delivered(&mut self, now_ns: u64, packet: &[u8]) {
        if let Some(number) = number_of(packet, ECHO_REPLY)
            && let Some(sent) = self.sent.get(number as usize)
        {
            self.log.on_echo(number, *sent, Time::nanos(now_ns));
        }
    }
}

/// An echo request with a probe's number.
fn request(number: u64) -> [u8; MESSAGE] {
    let mut message = [0; MESSAGE];
    message[0] = ECHO_REQUEST;
    message[4..6].copy_from_slice(&IDENTIFIER);
    message[6..8].copy_from_slice(&(number as u16).to_be_bytes());
    message[ICMP_HEADER..ICMP_HEADER + NUMBER].copy_from_slice(&number.to_be_bytes());
    let checksum = !wire::sum(&message, 0);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    message
}

/// Number of the probe in an IP packet, if it is one of ours with this message type.
fn number_of(packet: &[u8], kind: u8) -> Option<u64> {
    let ip = wire::ip(packet)?;
    let message = packet.get(ip.header..)?;
    let is_ours = ip.protocol == ICMP
        && !ip.fragment
        && ip.total == ip.header + MESSAGE
        && message.first() == Some(&kind)
        && message.get(4..6) == Some(&IDENTIFIER);
    let number = message.get(ICMP_HEADER..)?.first_chunk()?;
    is_ours.then(|| u64::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bbrlab_sim::scenario::Scenario;

    /// A message in an IP packet, as its sender or its receiver's kernel sends it.
    fn packet(number: u64, kind: u8) -> Vec<u8> {
        let total = (IP_HEADER + MESSAGE) as u16;
        let mut packet = vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, ICMP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        packet.extend(request(number));
        packet[IP_HEADER] = kind;
        packet
    }

    fn meter(keys: &[(&str, &str)]) -> (Setup, ProbeMeter) {
        let mut scenario = Scenario::default();
        let all = [("probe", "20ms"), ("duration", "1s")];
        all.iter().chain(keys).for_each(|(key, text)| scenario.set(key, text).unwrap());
        let setup = scenario.resolve().unwrap();
        let meter = ProbeMeter::new(&setup).unwrap();
        (setup, meter)
    }

    #[test]
    fn a_request_has_a_valid_checksum_and_the_length_of_a_ping() {
        let message = request(70_000);
        assert_eq!((wire::sum(&message, 0), message.len()), (0xffff, 64));
        assert_eq!(number_of(&packet(70_000, ECHO_REQUEST), ECHO_REQUEST), Some(70_000));
    }

    #[test]
    fn only_whole_packets_of_ours_are_probes() {
        let whole = packet(3, ECHO_REPLY);
        assert_eq!(number_of(&whole, ECHO_REQUEST), None);
        for end in 0..IP_HEADER + ICMP_HEADER + NUMBER {
            assert_eq!(number_of(&whole[..end], ECHO_REPLY), None, "{end} bytes");
        }
        let mut other = whole.clone();
        other[IP_HEADER + 4] ^= 1;
        assert_eq!((number_of(&other, ECHO_REPLY), number_of(&whole, ECHO_REPLY)), (None, Some(3)));
    }

    #[test]
    fn an_echo_gives_the_time_since_its_probe_left_and_a_missing_one_is_a_loss() {
        let (setup, mut meter) = meter(&[("warmup", "100ms")]);
        for number in 0..10_u64 {
            let left = number * 20_000_000 + 1000;
            meter.on_sent(left, &packet(number, ECHO_REQUEST));
            if number != 7 {
                meter.on_delivered(left + 5_000_000, &packet(number, ECHO_REPLY));
            }
        }
        // A duplicate, and an echo of nothing that was sent.
        meter.on_delivered(900_000_000, &packet(8, ECHO_REPLY));
        meter.on_delivered(900_000_000, &packet(40, ECHO_REPLY));
        let result = meter.log().result(&setup, setup.duration, std::iter::empty());
        let rtt = result.rtt_ms.unwrap();
        assert_eq!((result.sent, result.lost, rtt.min, rtt.max), (5, 1, Some(5.0), 5.0));
    }
}
