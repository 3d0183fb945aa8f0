//! Path properties inferred from this machine's own connections.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bbrlab_live::watch::{ConnectionState, Filter, Watcher};
use bbrlab_study::measured::{Connection, LatestSamples};

use crate::Error;
use crate::progress::Progress;

/// Sampling interval. Rates are means over it: long enough that a burst of ACKs does not count as a rate.
const INTERVAL: Duration = Duration::from_secs(1);

/// Returns the connections that sent anything during `looks` intervals.
pub fn connections(looks: u32) -> Result<Vec<Connection>, Error> {
    let mut watcher = Watcher::default();
    watcher.sample(&Filter::default())?;
    let mut found = Findings::default();
    let progress = Progress::new("watching", looks as usize);
    for _ in 0..looks {
        std::thread::sleep(INTERVAL);
        found.add(&watcher.sample(&Filter::default())?);
        progress.tick();
    }
    drop(progress);
    let connections = found.into_connections();
    if connections.is_empty() {
        return Err(Error::NothingSent(looks));
    }
    Ok(connections)
}

type Endpoints = (String, String);

/// Findings so far.
#[derive(Default)]
struct Findings {
    connections: LatestSamples,
    /// For each pair of hosts: the highest joint rate of their connections in one interval, and each connection's part.
    best: BTreeMap<(IpAddr, IpAddr), (f64, BTreeMap<Endpoints, f64>)>,
}

impl Findings {
    fn add(&mut self, look: &[ConnectionState]) {
        let mut paths: BTreeMap<(IpAddr, IpAddr), Vec<&ConnectionState>> = BTreeMap::new();
        for seen in look.iter().filter(|seen| seen.retransmit_ratio.is_some()) {
            self.connections.add(connection(seen));
            paths.entry((plain(seen.local).ip(), plain(seen.remote).ip())).or_default().push(seen);
        }
        for (path, seen) in paths {
            // Application-limited senders give no information on the path's rate.
            if seen.iter().all(|one| one.is_app_limited) {
                continue;
            }
            let rates: BTreeMap<Endpoints, f64> =
                seen.iter().filter_map(|one| Some((ends(one), one.goodput_bps?))).collect();
            let total = rates.values().sum();
            let best = self.best.entry(path).or_default();
            if total > best.0 {
                *best = (total, rates);
            }
        }
    }

    fn into_connections(self) -> Vec<Connection> {
        let mut rates: BTreeMap<Endpoints, f64> = self.best.into_values().flat_map(|(_, rates)| rates).collect();
        let mut connections = self.connections.into_connections();
        for connection in &mut connections {
            connection.rate_bps = connection.ends.as_ref().and_then(|ends| rates.remove(ends));
        }
        connections
    }
}

fn plain(end: SocketAddr) -> SocketAddr {
    SocketAddr::new(end.ip().to_canonical(), end.port())
}

fn ends(seen: &ConnectionState) -> Endpoints {
    (plain(seen.local).to_string(), plain(seen.remote).to_string())
}

fn connection(seen: &ConnectionState) -> Connection {
    Connection {
        ends: Some(ends(seen)),
        cc: Some(seen.cc.clone()),
        // Filled in per path, at the end.
        rate_bps: None,
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

    fn look(port: u16, goodput: f64, is_app_limited: bool) -> ConnectionState {
        let mut one = seen(&format!("[::ffff:192.0.2.1]:{port}"), goodput, 50.0);
        one.is_app_limited = is_app_limited;
        one
    }

    #[test]
    fn a_connection_limited_by_its_application_tells_its_rtt_and_no_rate() {
        let mut found = Findings::default();
        found.add(&[look(9, 2e7, true)]);
        let own = &found.into_connections()[0];
        assert_eq!((own.rate_bps, own.rtt_s, own.is_app_limited), (None, Some(0.05), true));
        assert_eq!((own.min_rtt_s, own.again), (Some(0.04), Some(10_000.0)));
        assert_eq!(own.ends.as_ref().unwrap().1, "192.0.2.1:9");
    }

    /// Two connections that alternate on one path never had both of their best rates at once.
    #[test]
    fn a_path_has_what_its_connections_had_together() {
        let mut found = Findings::default();
        found.add(&[look(9, 4e7, false), look(10, 1e7, true)]);
        found.add(&[look(9, 1e7, false), look(10, 3e7, false)]);
        let rates: Vec<f64> = found.into_connections().iter().filter_map(|one| one.rate_bps).collect();
        assert_eq!(rates, [4e7, 1e7]);
    }
}
