//! What this machine's own connections say of their paths.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::net::SocketAddr;
use std::time::Duration;

use bbrlab_lab::measured::{Connection, Newest};
use bbrlab_live::watch::{Filter, Seen, Watcher};

use crate::Failure;
use crate::progress::Progress;

/// Time between looks: rates are means over it, long enough that no burst of ACKs passes for a rate.
const INTERVAL: Duration = Duration::from_secs(1);

/// The connections that sent something within `looks` intervals.
pub fn connections(looks: u32) -> Result<Vec<Connection>, Failure> {
    let mut watcher = Watcher::default();
    watcher.look(&Filter::default())?;
    let mut found = Newest::default();
    let progress = Progress::new("watching", looks as usize);
    for _ in 0..looks {
        std::thread::sleep(INTERVAL);
        for seen in watcher.look(&Filter::default())?.iter().filter(|seen| seen.retransmit_ratio.is_some()) {
            found.add(connection(seen));
        }
        progress.tick();
    }
    drop(progress);
    let found = found.into_connections();
    if found.is_empty() {
        return Err(format!(
            "no connection of this machine sent anything within {looks} s; try it under load, or say --rate and --rtt"
        ));
    }
    Ok(found)
}

fn connection(seen: &Seen) -> Connection {
    let plain = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port()).to_string();
    Connection {
        ends: Some((plain(seen.local), plain(seen.remote))),
        cc: Some(seen.cc.clone()),
        // A sender that had nothing to send says nothing of the path's rate.
        rate_bps: seen.goodput_bps.filter(|_| !seen.is_app_limited),
        is_app_limited: seen.is_app_limited,
        min_rtt_s: seen.min_rtt_ms.map(|ms| ms / 1e3),
        rtt_s: (seen.rtt_ms > 0.0).then_some(seen.rtt_ms / 1e3),
        sent: Some(seen.sent_bytes as f64),
        again: Some(seen.retransmitted_bytes as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::watch::tests::seen;

    #[test]
    fn a_connection_limited_by_its_application_tells_its_rtt_and_no_rate() {
        let mut one = seen("[::ffff:192.0.2.1]:9", 2e7, 50.0);
        assert_eq!((connection(&one).rate_bps, connection(&one).rtt_s), (None, Some(0.05)));
        one.is_app_limited = false;
        let own = connection(&one);
        assert_eq!((own.rate_bps, own.min_rtt_s, own.again), (Some(2e7), Some(0.04), Some(10_000.0)));
        assert_eq!(own.ends.unwrap().1, "192.0.2.1:9");
    }
}
