//! Flags shared by several commands. The scenario language parses their units, in files and flags alike.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::PathBuf;

use bbrlab_sim::setup::Program;
use clap::Args;

/// The path, in the scenario language.
#[derive(Clone, Debug, Default, Args)]
pub struct PathArgs {
    /// Bottleneck rate, as in 10mbit (powers of 1000; bits) [default: 10mbit]
    #[arg(long, value_name = "RATE", allow_hyphen_values = true, help_heading = "Path")]
    pub rate: Option<String>,
    /// Two-way propagation time without queue or serialisation, as in 40ms [default: 40ms]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Path")]
    pub rtt: Option<String>,
    /// Bottleneck queue limit, as in 41p, 64KiB, 1.5bdp or 250ms of drain time [default: 1bdp, at least 10p]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = "Path")]
    pub buffer: Option<String>,
    /// Random loss after the bottleneck, as in 1% or 0.001; in bursts as ge:p,r[,1-h[,1-k]] [default: 0%]
    ///
    /// ge is the Gilbert-Elliott model with netem's parameters: p is the probability of going from good to bad, r of
    /// going back, 1-h the loss in the bad state (100% unless given), 1-k the loss in the good state (0%).
    #[arg(long, value_name = "LOSS", allow_hyphen_values = true, help_heading = "Path")]
    pub loss: Option<String>,
    #[command(flatten)]
    pub more: ConditionArgs,
}

/// Properties of a path other than rate, RTT, buffer and loss.
#[derive(Clone, Debug, Default, Args)]
pub struct ConditionArgs {
    /// Random loss on the ACK path, in the same forms [default: 0%]
    #[arg(long, value_name = "LOSS", allow_hyphen_values = true, help_heading = "Path")]
    pub ack_loss: Option<String>,
    /// Random extra delay, as in 2ms (order kept) or 2ms:reorder [default: 0s]
    #[arg(long, value_name = "TIME[:reorder]", allow_hyphen_values = true, help_heading = "Path")]
    pub jitter: Option<String>,
    /// Share of data packets that overtake others, as in 1% or 0.01 [default: 0%]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, help_heading = "Path")]
    pub reorder: Option<String>,
    /// Share of data packets that arrive twice, as in 1% or 0.01 [default: 0%]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, help_heading = "Path")]
    pub duplicate: Option<String>,
    /// Queue discipline: droptail, red, codel, fq_codel or pie, with options as in codel:target=5ms:ecn [default:
    /// droptail]
    ///
    /// Options: red:min=VOLUME,max=VOLUME,p=SHARE,wlog=N,gentle,ecn; codel:target=TIME,interval=TIME,ce=TIME,ecn;
    /// fq_codel: those of codel, and flows=N, quantum=BYTES;
    /// pie:target=TIME,tupdate=TIME,alpha=X,beta=X,burst=TIME,ecn.
    #[arg(long, value_name = "AQM", allow_hyphen_values = true, help_heading = "Path")]
    pub aqm: Option<String>,
    /// Token-bucket policer in front of the queue, as in rate=10mbit,burst=125kB
    #[arg(long, value_name = "POLICER", allow_hyphen_values = true, help_heading = "Path")]
    pub policer: Option<String>,
    /// Hold ACKs and release them together, as in 20ms or 64KiB [default: none]
    #[arg(long, value_name = "HOLD", allow_hyphen_values = true, help_heading = "Path")]
    pub ack_aggregation: Option<String>,
    /// Changes of the path over time: rate, rtt, buffer, loss, ack_loss, as in 20s:rate=20mbit;40s:rate=10mbit,rtt=80ms
    #[arg(long, value_name = "STEPS", allow_hyphen_values = true, help_heading = "Path")]
    pub schedule: Option<String>,
    /// Mahimahi delivery trace to use as the bottleneck, instead of a rate
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "demand"], help_heading = "Path")]
    pub trace: Option<String>,
    /// Bottleneck link that grants rate by backlog, as in min=1mbit,max=20mbit
    #[arg(long, value_name = "DEMAND", conflicts_with = "rate", allow_hyphen_values = true, help_heading = "Path")]
    pub demand: Option<String>,
}

impl PathArgs {
    /// Yields the path's scenario keys with their flags' values.
    pub fn overrides(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [("rate", &self.rate), ("rtt", &self.rtt), ("buffer", &self.buffer), ("loss", &self.loss)]
            .into_iter()
            .filter_map(|(key, text)| Some((key, text.as_deref()?)))
            .chain(self.more.overrides())
    }
}

impl ConditionArgs {
    /// Yields the scenario keys with their flags' values.
    pub fn overrides(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("trace", &self.trace),
            ("demand", &self.demand),
            ("ack_loss", &self.ack_loss),
            ("jitter", &self.jitter),
            ("reorder", &self.reorder),
            ("duplicate", &self.duplicate),
            ("aqm", &self.aqm),
            ("policer", &self.policer),
            ("ack_aggregation", &self.ack_aggregation),
            ("schedule", &self.schedule),
        ]
        .into_iter()
        .filter_map(|(key, text)| Some((key, text.as_deref()?)))
    }
}

/// Output files for the series of a run.
#[derive(Debug, Default, Args)]
pub struct TraceArgs {
    /// Write the packets as pcapng, for Wireshark and tcptrace: FILE for the sender's view, DIR for one file each for
    /// sender, bottleneck-in, bottleneck-out and receiver (on a real kernel: sender only)
    #[arg(long, value_name = "FILE|DIR", help_heading = "Output")]
    pub pcap: Option<PathBuf>,
    /// Maximum number of packets that --pcap records in a run; each takes about 100 bytes of memory [default: 2000000]
    #[arg(long, value_name = "N", allow_hyphen_values = true, requires = "pcap", help_heading = "Output")]
    pub pcap_limit: Option<String>,
    /// Write the series, and in the simulator the sender's packets, as qlog: FILE.qlog in qvis's dialect, FILE.sqlog in
    /// the drafts' dialect; DIR gets both
    #[arg(long, value_name = "FILE|DIR", help_heading = "Output")]
    pub qlog: Option<PathBuf>,
    /// Write the series as Parquet: FILE for the samples, DIR for runs.parquet and samples.parquet
    #[arg(long, value_name = "FILE|DIR", help_heading = "Output")]
    pub parquet: Option<PathBuf>,
    /// Write the series as CSV: FILE for flows and links in one table, DIR for one file each
    #[arg(long, value_name = "FILE|DIR", help_heading = "Output")]
    pub csv: Option<PathBuf>,
}

/// Parses the source of the congestion-control programs on a real kernel.
pub fn program(text: &str) -> Result<Program, String> {
    Program::named(text).ok_or_else(|| "write kernel or bbrlab".to_owned())
}

/// Parses a random seed.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("write a whole number from 0 to {}", u64::MAX))
}
