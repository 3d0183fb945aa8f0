//! Options of a sending socket: Nagle's algorithm, and limits on unsent data.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io;
use std::os::fd::OwnedFd;

use bbrlab_core::Span;
use bbrlab_sim::setup::{FlowSetup, Setup, Traffic};

use crate::socket;

/// Drain time of unsent data for an application that pauses.
///
/// Ours: well below a round trip, yet enough that the socket never runs dry before the next ACK wakes the writer.
const WAITING: Span = Span::millis(10);
/// Minimum of that amount, segments: two bursts of the slowest sender, twice.
const WAITING_LEAST: u64 = 4;
/// Maximum of that amount, bytes.
const WAITING_MOST: u64 = 1 << 20;

/// Switches Nagle's algorithm off where the application does, and limits unsent data so that an application that pauses
/// (`on`/`off`, `stop`) also goes silent on the path.
///
/// Otherwise the kernel keeps sending buffered data for most of a second.
pub fn prepare(setup: &Setup, flow: &FlowSetup, fd: &OwnedFd) -> io::Result<()> {
    if !flow.traffic.gathers() {
        socket::set_int(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    }
    let Some(max) = most_waiting(setup, flow) else { return Ok(()) };
    socket::set_int(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, i32::try_from(max).unwrap_or(i32::MAX))
}

fn most_waiting(setup: &Setup, flow: &FlowSetup) -> Option<u64> {
    let endless =
        matches!(flow.traffic, Traffic::OnOff { .. }) || matches!(flow.traffic, Traffic::Bulk) && flow.stop.is_some();
    let links = setup.links.get(flow.links.0..flow.links.1).filter(|_| endless)?;
    let rate = links.iter().map(|link| link.service.nominal_rate()).min()?;
    Some(rate.bytes_in(WAITING).max(WAITING_LEAST * u64::from(flow.mss)).min(WAITING_MOST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bbrlab_core::{AlgorithmConfig, Rate, Time};
    use bbrlab_sim::link::Buffer;

    #[test]
    fn only_a_pausing_or_stopping_application_has_a_small_send_buffer() {
        let flow = |change: fn(&mut FlowSetup)| {
            let mut flow = FlowSetup::bulk("a", AlgorithmConfig::named("bbr1").unwrap());
            change(&mut flow);
            let rate = Rate::bits_per_sec(100_000_000);
            let setup =
                Setup::one_link(rate, Span::millis(40), Buffer::Packets(100), Span::secs(10), vec![flow.clone()]);
            most_waiting(&setup, &flow)
        };
        assert_eq!(flow(|_| {}), None);
        assert_eq!(flow(|flow| flow.stop = Some(Time::ZERO + Span::secs(5))), Some(125_000));
        assert_eq!(flow(|flow| flow.traffic = Traffic::OnOff { on: Span::secs(1), off: Span::secs(1) }), Some(125_000));
        assert_eq!(flow(|flow| flow.traffic = Traffic::Size(1 << 20)), None);
    }
}
