//! `bbrlab watch`: this machine's TCP connections with their congestion-control state, as a screen, a table, JSON lines
//! or
//! Prometheus metrics.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod exporter;
pub mod screen;
mod server;
mod steering;

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bbrlab_host::host_paths::HostPaths;
use bbrlab_host::{objects, telemetry};
use bbrlab_live::clock;
use bbrlab_live::watch::{ConnectionState, Filter, Model, Network, Watcher};
use bbrlab_sim::scenario::TimeSpan;
use bbrlab_stats::number::{ms, percent, rate};
use bbrlab_stats::plural::counted;
use clap::{Args, ValueEnum};

use crate::grid::{Align, aligned};
use crate::table::Style;
use crate::{Error, Verdict, print};

/// Arguments of `bbrlab watch`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        bbrlab watch --port 443\n  \
        bbrlab watch --once --sort retransmit\n  \
        bbrlab watch --json --cc bbr >> connections.jsonl\n  \
        bbrlab watch --prometheus 127.0.0.1:9435\n\n\
        The command needs no more rights than ss; only the models of our own algorithms (bbrlab host load) need root.")]
pub struct WatchArgs {
    /// Show only connections with this local or remote port
    #[arg(long, value_name = "PORT", value_parser = crate::args::number::<u16>(0..=65_535))]
    pub port: Option<u16>,
    /// Show only connections with this congestion control, by the kernel's name
    #[arg(long, value_name = "NAME")]
    pub cc: Option<String>,
    /// Show only connections to this address or network, as in 192.0.2.0/24
    #[arg(long, value_name = "NETWORK")]
    pub remote: Option<Network>,
    /// Sort order
    #[arg(long, value_enum, default_value_t = Sort::Goodput)]
    pub sort: Sort,
    /// Time between samples; rates are means over it
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub interval: String,
    /// Take two samples, one interval apart, print a table and exit
    #[arg(long)]
    pub once: bool,
    /// Print one JSON line per connection per sample, until interrupted; with --once, for one sample
    #[arg(long)]
    pub json: bool,
    /// Serve metrics in the OpenMetrics format at http://ADDR/metrics [default address: 127.0.0.1:9435]
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:9435", conflicts_with_all = ["once", "json"])]
    pub prometheus: Option<SocketAddr>,
    /// File with the token that scrapers must send (Authorization: Bearer …); needed for an address that is not loopback
    #[arg(long, value_name = "FILE", requires = "prometheus", conflicts_with_all = ["once", "json"])]
    pub token: Option<PathBuf>,
}

/// Sort key of the list: descending, except that addresses are ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    Goodput,
    Rtt,
    Retransmit,
    Cwnd,
    Remote,
}

impl Sort {
    const ALL: [Self; 5] = [Self::Goodput, Self::Rtt, Self::Retransmit, Self::Cwnd, Self::Remote];

    const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput",
            Self::Rtt => "RTT",
            Self::Retransmit => "retransmissions",
            Self::Cwnd => "window",
            Self::Remote => "remote address",
        }
    }

    const fn next(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::ALL.len()]
    }

    fn apply(self, seen: &mut [ConnectionState]) {
        let key = |one: &ConnectionState| match self {
            Self::Goodput => one.goodput_bps.unwrap_or(0.0),
            Self::Rtt => one.rtt_ms,
            Self::Retransmit => one.retransmit_ratio.unwrap_or(0.0),
            Self::Cwnd => f64::from(one.cwnd),
            Self::Remote => 0.0,
        };
        // The sort is stable: equal connections keep their order from sample to sample.
        seen.sort_by(|a, b| {
            key(b).total_cmp(&key(a)).then_with(|| (a.remote, a.local, a.cookie).cmp(&(b.remote, b.local, b.cookie)))
        });
    }
}

/// Minimum interval. Ours: the kernel walks all its sockets for each sample.
const INTERVAL_LEAST: Duration = Duration::from_millis(100);

/// Runs the command.
pub fn run(args: &WatchArgs) -> Result<Verdict, Error> {
    let time: TimeSpan = args.interval.parse().map_err(Error::flag("--interval"))?;
    let interval = Duration::from_secs_f64(time.as_secs());
    if interval < INTERVAL_LEAST {
        let problem = "is too short; give 100ms or more";
        return Err(Error::Value { flag: "--interval", found: args.interval.clone(), problem });
    }
    let filter = Filter { port: args.port, cc: args.cc.clone(), remote: args.remote };
    let mut source = Source { watcher: Watcher::default(), filter };
    match (args.prometheus, args.once, args.json) {
        (Some(address), ..) => {
            let token = args.token.as_deref().map(token).transpose()?;
            if token.is_none() && !address.ip().to_canonical().is_loopback() {
                return Err(Error::NoToken(address));
            }
            exporter::serve(&mut source, address, token, interval)
        }
        (None, true, json) => once(&mut source, interval, args.sort, json),
        (None, false, true) => lines(&mut source, interval),
        (None, false, false) if std::io::stdout().is_terminal() => screen::show(&mut source, interval, args.sort),
        _ => Err(Error::NotATerminal),
    }
}

/// Shortest token. Ours: 96 bits in base 64.
const TOKEN_LEAST: usize = 16;

/// Reads a token.
fn token(path: &Path) -> Result<String, Error> {
    let text = std::fs::read_to_string(path).map_err(Error::at(format!("--token: {}", path.display())))?;
    let token = text.trim();
    if token.len() < TOKEN_LEAST || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::Token { path: path.to_owned(), least: TOKEN_LEAST });
    }
    Ok(token.to_owned())
}

/// Source of the selected connections.
pub struct Source {
    watcher: Watcher,
    filter: Filter,
}

/// A sample.
pub struct Sample {
    pub seen: Vec<ConnectionState>,
    /// Note on missing data, with the reason.
    pub note: Option<String>,
}

impl Source {
    pub fn sample(&mut self) -> Result<Sample, Error> {
        let mut seen = self.watcher.sample(&self.filter)?;
        let note = add_models(&mut seen);
        Ok(Sample { seen, note })
    }
}

/// Adds the models exposed by our own algorithms' iterators. Returns the reason if any is missing.
fn add_models(seen: &mut [ConnectionState]) -> Option<String> {
    let pins = HostPaths::default().pins();
    let loaded = match std::fs::read_dir(&pins) {
        Ok(loaded) => loaded,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let ours = |one: &ConnectionState| one.model.is_none() && is_ours(&one.cc);
            let hidden = seen.iter().filter(|one| ours(one)).count();
            return (hidden > 0).then(|| {
                format!(
                    "the models of {} are not shown: reading {} needs root",
                    counted(hidden, "connection"),
                    pins.display()
                )
            });
        }
        Err(_) => return None,
    };
    let mut note = None;
    let mut told = BTreeMap::new();
    for pin in loaded.flatten() {
        match telemetry::connections(&pin.path().join("connections")) {
            Ok(all) => told.extend(all.into_iter().map(|one| (ends(one.local, one.remote), one))),
            Err(fault) => note = Some(fault.to_string()),
        }
    }
    for one in seen {
        if let Some(own) = told.get(&ends(one.local, one.remote)) {
            one.state = Some(own.state);
            one.model = Some(model(own));
        }
    }
    note
}

/// True if `bbrlab host load` gives this name to one of ours.
fn is_ours(name: &str) -> bool {
    objects::OBJECTS.iter().any(|(algorithm, _)| objects::kernel_name(algorithm) == name)
}

/// Both endpoints; an IPv4-mapped IPv6 address becomes an IPv4 address.
fn ends(local: SocketAddr, remote: SocketAddr) -> (SocketAddr, SocketAddr) {
    let plain = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
    (plain(local), plain(remote))
}

fn model(own: &telemetry::Connection) -> Model {
    Model {
        bw_bps: own.bw_bps,
        min_rtt_ms: own.min_rtt_us as f64 / 1e3,
        pacing_gain: f64::from(own.pacing_gain) / 256.0,
        cwnd_gain: f64::from(own.cwnd_gain) / 256.0,
        bw_shortterm_bps: own.bw_shortterm_bps,
        inflight_shortterm_bytes: own.inflight_shortterm,
        inflight_longterm_bytes: own.inflight_longterm,
        rounds: Some(own.rounds),
    }
}

fn once(source: &mut Source, interval: Duration, sort: Sort, json: bool) -> Result<Verdict, Error> {
    source.sample()?;
    std::thread::sleep(interval);
    let mut sample = source.sample()?;
    sort.apply(&mut sample.seen);
    if json {
        return print(&json_lines(&sample.seen)?);
    }
    if let Some(note) = &sample.note {
        eprintln!("{note}");
    }
    let rows = sample.seen.iter().map(row);
    let text = aligned(&COLUMNS.map(|(name, _)| name), &COLUMNS.map(|(_, align)| align), rows);
    let total = sample.seen.iter().filter_map(|one| one.goodput_bps).fold(0.0, |sum, bps| sum + bps);
    let sum = format!("\n{}, {} acknowledged\n", counted(sample.seen.len(), "connection"), rate(total));
    print(&format!("{}{sum}", Style::of_stdout().bold_first_line(&text)))
}

fn lines(source: &mut Source, interval: Duration) -> Result<Verdict, Error> {
    loop {
        let sample = source.sample()?;
        let text = json_lines(&sample.seen)?;
        let mut out = std::io::stdout().lock();
        if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // A reader that needs no more closes its end.
            return match error.kind() {
                std::io::ErrorKind::BrokenPipe => Ok(Verdict::Holds),
                _ => Err(Error::io("standard output")(error)),
            };
        }
        drop(out);
        std::thread::sleep(interval);
    }
}

fn json_lines(seen: &[ConnectionState]) -> Result<String, Error> {
    #[derive(serde::Serialize)]
    struct JsonLine<'a> {
        /// Seconds since 1970.
        time_s: f64,
        #[serde(flatten)]
        seen: &'a ConnectionState,
    }
    let time_s = (clock::wall_ns() / 1_000_000) as f64 / 1e3;
    let mut text = String::new();
    for seen in seen {
        text += &serde_json::to_string(&JsonLine { time_s, seen })?;
        text.push('\n');
    }
    Ok(text)
}

/// The columns of the table and the screen.
const COLUMNS: [(&str, Align); 13] = [
    ("local port", Align::Right),
    ("remote", Align::Left),
    ("cc", Align::Left),
    ("state", Align::Left),
    ("goodput", Align::Right),
    ("delivery", Align::Right),
    ("bw", Align::Right),
    ("RTT ms", Align::Right),
    ("min", Align::Right),
    ("cwnd", Align::Right),
    ("in flight", Align::Right),
    ("pacing", Align::Right),
    ("retransmit", Align::Right),
];

fn row(one: &ConnectionState) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    vec![
        one.local.port().to_string(),
        SocketAddr::new(one.remote.ip().to_canonical(), one.remote.port()).to_string(),
        one.cc.clone(),
        one.state.unwrap_or("–").to_owned(),
        or_dash(one.goodput_bps.map(rate)),
        // As in `ss`: this sample was application-limited.
        or_dash(one.delivery_bps.map(|bps| rate(bps as f64) + if one.is_app_limited { " app" } else { "" })),
        or_dash(one.model.as_ref().map(|model| rate(model.bw_bps as f64))),
        ms(one.rtt_ms),
        or_dash(one.min_rtt_ms.map(ms)),
        one.cwnd.to_string(),
        one.in_flight.to_string(),
        or_dash(one.pacing_bps.map(|bps| rate(bps as f64))),
        or_dash(one.retransmit_ratio.map(percent)),
    ]
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn seen(remote: &str, goodput: f64, rtt: f64) -> ConnectionState {
        ConnectionState {
            local: "10.0.0.1:443".parse().unwrap(),
            remote: remote.parse().unwrap(),
            cookie: 1,
            cc: "bbr3_linux".to_owned(),
            state: Some("probe_bw_cruise"),
            goodput_bps: Some(goodput),
            delivery_bps: Some(20_000_000),
            is_app_limited: true,
            pacing_bps: None,
            rtt_ms: rtt,
            min_rtt_ms: Some(40.0),
            cwnd: 80,
            in_flight: 60,
            mss: 1448,
            sent_bytes: 1_000_000,
            retransmitted_bytes: 10_000,
            acked_bytes: 900_000,
            retransmit_ratio: Some(0.01),
            idle_ms: 0,
            model: Some(Model { bw_bps: 19_000_000, min_rtt_ms: 40.0, ..Model::default() }),
        }
    }

    #[test]
    fn the_order_is_the_one_that_was_asked_for() {
        let mut all = vec![seen("192.0.2.1:1", 1.0, 9.0), seen("192.0.2.2:1", 5.0, 3.0), seen("192.0.2.0:1", 5.0, 6.0)];
        let mut order = |sort: Sort| {
            sort.apply(&mut all);
            all.iter().map(|one| one.remote.ip().to_string().pop().unwrap()).collect::<String>()
        };
        assert_eq!(order(Sort::Goodput), "021");
        assert_eq!(order(Sort::Rtt), "102");
        assert_eq!(order(Sort::Remote), "012");
        assert_eq!(Sort::Remote.next(), Sort::Goodput);
    }

    #[test]
    fn a_line_of_json_holds_the_connection_and_its_model() {
        let text = json_lines(&[seen("192.0.2.1:1", 1e6, 50.0)]).unwrap();
        let line: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
        assert_eq!((line["rtt_ms"].as_f64(), line["model"]["bw_bps"].as_u64()), (Some(50.0), Some(19_000_000)));
        assert!(line["time_s"].as_f64().unwrap() > 1.6e9 && line["remote"] == "192.0.2.1:1");
    }

    #[test]
    fn a_row_has_a_cell_for_each_column() {
        let cells = row(&seen("[::ffff:192.0.2.1]:1", 1e6, 50.0));
        assert_eq!(cells.len(), COLUMNS.len());
        assert_eq!(
            (cells[1].as_str(), cells[5].as_str(), cells[11].as_str()),
            ("192.0.2.1:1", "20.00 Mbit/s app", "–")
        );
    }
}
