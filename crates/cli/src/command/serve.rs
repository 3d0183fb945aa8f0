//! `bbrlab serve`: flags and addresses; `bbrlab_http::serve` is the server.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

#[cfg(feature = "quic")]
use std::time::Duration;

#[cfg(feature = "quic")]
use bbrlab_http::serve::Settings;
use bbrlab_sim::scenario::{TimeSpan, Volume};
use clap::Args;

use crate::{Error, Verdict};
#[cfg(feature = "quic")]
use crate::{interrupt, print};

/// Default listening addresses.
#[cfg(feature = "quic")]
const TCP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
#[cfg(feature = "quic")]
const QUIC: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4433);
/// Minimum of `--patience`: a path may be silent for a while.
#[cfg(feature = "quic")]
const PATIENCE_MIN: Duration = Duration::from_millis(100);

/// Arguments of `bbrlab serve`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        bbrlab serve --root . --cc bbr3 --tcp-cc bbr\n  \
        bbrlab serve --memory 1GB --quic 4433 --cc bbr3,loss_thresh=1%\n  \
        bbrlab emulate --rate 100mbit --rtt 20ms --data down \\\n    \
            --server 'bbrlab serve --memory 1GB --quic $BBRLAB_SERVER_IP:4433' -- \\\n    \
            sh -c 'bbrlab get --insecure --output /dev/null https://$BBRLAB_SERVER_IP:4433/bytes/100MB'\n\n\
        Without --tcp and --quic it listens on both, on loopback only: 127.0.0.1:8080 and 127.0.0.1:4433.\n\
        It runs until interrupted.")]
pub struct ServeArgs {
    /// Serve the files of this directory, and nothing outside of it
    #[arg(long, value_name = "DIR", help_heading = "Content")]
    pub root: Option<PathBuf>,
    /// Serve generated content at /bytes/SIZE, up to this size, as in /bytes/10MB
    #[arg(long, value_name = "SIZE", help_heading = "Content")]
    pub memory: Option<Volume>,
    /// Serve HTTP/1.1 on TCP at this port, or address and port; port 0 selects a free one
    #[arg(long, value_name = "[ADDR:]PORT", help_heading = "Addresses")]
    pub tcp: Option<ListenAddress>,
    /// Serve HTTP/3 on QUIC at this port, or address and port; port 0 selects a free one
    #[arg(long, value_name = "[ADDR:]PORT", help_heading = "Addresses")]
    pub quic: Option<ListenAddress>,
    /// Congestion control of QUIC: bbr3 or any other of `bbrlab list algorithms` with its parameters, s2n:bbr or s2n:cubic
    #[arg(long, value_name = "CC", default_value = "bbr3", help_heading = "Congestion control")]
    pub cc: String,
    /// Congestion control of TCP: one that the kernel has, as in bbr1 or cubic, or one of ours that `bbrlab host load`
    /// loaded [default: the kernel's]
    #[arg(long, value_name = "CC", help_heading = "Congestion control")]
    pub tcp_cc: Option<String>,
    /// Certificate with its chain, in PEM [default: generated at start, valid for 13 days]
    #[arg(long, value_name = "FILE", requires = "key", help_heading = "Certificate")]
    pub cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "Certificate")]
    pub key: Option<PathBuf>,
    /// Maximum number of concurrent connections on each of TCP and QUIC
    #[arg(long, value_name = "N", default_value = "256", value_parser = crate::args::number::<u32>(1..=100_000), help_heading = "Limits")]
    pub connections: u32,
    /// Close a connection that moves less than 1 kB in this time
    #[arg(long, value_name = "TIME", default_value = "30s", help_heading = "Limits")]
    pub patience: TimeSpan,
    /// Log the packets and the recovery of each QUIC connection to this directory as qlog: NAME.qlog in qvis's dialect,
    /// NAME.sqlog in the drafts' dialect
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub qlog: Option<PathBuf>,
    /// Print a line for each response
    #[arg(long, help_heading = "Output")]
    pub log: bool,
}

/// Listening address: the loopback address unless another is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddress(pub SocketAddr);

impl FromStr for ListenAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let port = text.strip_prefix(':').unwrap_or(text);
        let own = port.parse().map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
        own.or_else(|_| text.parse()).map(Self).map_err(|_| Error::Address(text.to_owned()))
    }
}

/// Serves until it is interrupted.
#[cfg(feature = "quic")]
pub fn run(args: &ServeArgs) -> Result<Verdict, Error> {
    let memory_bytes = args.memory.map_or(0, |size| size.0);
    if args.root.is_none() && memory_bytes == 0 {
        let rule = "nothing to serve; give --root DIR, --memory SIZE or both";
        return Err(Error::Rule { place: "serve", rule });
    }
    let patience = Duration::from_nanos(args.patience.0);
    if patience < PATIENCE_MIN {
        return Err(Error::too_short_patience(args.patience));
    }
    let (tcp, quic) = match (args.tcp, args.quic) {
        (None, None) => (Some(TCP), Some(QUIC)),
        (tcp, quic) => (tcp.map(|at| at.0), quic.map(|at| at.0)),
    };
    let settings = Settings {
        root: args.root.clone(),
        memory_bytes,
        tcp,
        tcp_cc: args.tcp_cc.clone(),
        quic,
        cc: args.cc.clone(),
        certificate: args.cert.clone().zip(args.key.clone()),
        connections: args.connections as usize,
        patience,
        qlog: args.qlog.clone(),
        log: args.log,
    };
    interrupt::on_signal(|| {
        bbrlab_http::serve::qlog::finish_all();
        false
    });
    bbrlab_http::serve::run(&settings, |said| Ok(print(said).map(drop)?))?;
    Ok(Verdict::Holds)
}

/// Reports the missing feature.
#[cfg(not(feature = "quic"))]
pub fn run(_args: &ServeArgs) -> Result<Verdict, Error> {
    Err(Error::NoQuic("serve".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_the_loopback_address() {
        for text in ["4433", ":4433", "127.0.0.1:4433"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().0.to_string(), "127.0.0.1:4433");
        }
        assert_eq!("0.0.0.0:80".parse::<ListenAddress>().unwrap().0.to_string(), "0.0.0.0:80");
        assert_eq!("[::1]:80".parse::<ListenAddress>().unwrap().0.to_string(), "[::1]:80");
        for text in ["", ":", "localhost:80", "70000", "1.2.3.4"] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }
}
