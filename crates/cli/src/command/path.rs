//! `bbrlab path`: estimates the paths of the connections in captures, and writes one as a scenario.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::path::{Path, PathBuf};

use bbrlab_stats::number::{ms, percent, rate, seconds};
use bbrlab_stats::plural::counted;
use bbrlab_study::capture::{Estimate, Paths, Vantage};
use clap::Args;
use serde_json::json;

use crate::grid::{Align, aligned};
use crate::outputs::{self, Target};
use crate::{Error, Verdict, inputs, print};

/// Arguments of `bbrlab path`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        tcpdump -i eth0 -s 128 -w upload.pcap tcp port 443\n  \
        bbrlab path upload.pcap\n  \
        bbrlab path upload.pcap --out path.toml && bbrlab run --path path.toml --flow bbr3\n  \
        bbrlab advise --from upload.pcap\n\n\
        Capture at the sender of the data: a capture at its receiver shows neither RTT nor queue. The first 128 bytes of each \
        packet are enough.")]
pub struct PathArgs {
    /// Captures as pcap or pcapng, or qlogs; - for standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Number of connections in the table
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = crate::args::number::<usize>(1..=100_000))]
    pub top: usize,
    /// Connection to describe and to write, by its number in the table
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = crate::args::number::<usize>(1..=100_000))]
    pub connection: usize,
    /// Write the path of that connection as a scenario, for --path and for bbrlab run
    #[arg(long, short, value_name = "FILE.toml", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Write all estimates as JSON; - for standard output, instead of the table
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
}

/// A connection, with the file that it comes from.
struct Row<'a> {
    file: &'a str,
    estimate: &'a Estimate,
}

/// Runs the command.
pub fn path(args: &PathArgs) -> Result<Verdict, Error> {
    let out = Target::asked("--out", args.out.as_deref())?;
    let json = Target::asked("--json", args.json.as_deref())?;
    outputs::check_distinct(out.iter().chain(&json))?;
    let files: Vec<(String, Paths)> =
        args.files.iter().map(|file| Ok((inputs::name(file), read(file)?))).collect::<Result<_, Error>>()?;
    let mut rows: Vec<Row<'_>> = files
        .iter()
        .flat_map(|(file, paths)| paths.paths.iter().map(|estimate| Row { file: file.as_str(), estimate }))
        .collect();
    rows.sort_by(|a, b| b.estimate.delivered_bytes.total_cmp(&a.estimate.delivered_bytes));
    let Some(chosen) = rows.get(args.connection - 1) else {
        let problem = "is no connection of the captures; write a number of the table's first column";
        return Err(Error::Value { flag: "--connection", found: args.connection.to_string(), problem });
    };
    let mut written = Vec::new();
    if let Some(out) = &out {
        let text = chosen.estimate.toml(chosen.file).ok_or_else(|| Error::FileRule {
            file: chosen.file.to_owned(),
            rule: "rate or RTT of this connection is unknown, so it is no path; choose another with --connection",
        })?;
        written.extend(out.write(|to| to.write_all(text.as_bytes()))?);
    }
    if let Some(json) = &json {
        let document = document(&files);
        written.extend(json.write(|to| writeln!(to, "{document:#}"))?);
    }
    outputs::commit(written)?;
    if !outputs::take_stdout(out.iter().chain(&json)) {
        print(&shown(args, &files, &rows, chosen))?;
    }
    Ok(Verdict::Holds)
}

/// Reads a capture or a qlog.
pub fn read(file: &Path) -> Result<Paths, Error> {
    let from = inputs::stream(file).map_err(Error::at(inputs::name(file)))?;
    bbrlab_study::capture::read(from).map_err(Error::at(inputs::name(file)))
}

/// Rejects a capture that was recorded at the receiver and shows no path.
pub fn check_place(paths: &Paths, file: &str) -> Result<(), Error> {
    let is_at_receiver = paths.paths.first().is_some_and(|one| one.vantage == Vantage::Receiver);
    if is_at_receiver && !paths.paths.iter().any(Estimate::is_path) {
        let rule = "it was recorded at the receiver of the data, which shows no path; record at its sender";
        return Err(Error::FileRule { file: file.to_owned(), rule });
    }
    Ok(())
}

fn document(files: &[(String, Paths)]) -> serde_json::Value {
    let files: Vec<_> = files.iter().map(|(file, paths)| json!({ "file": file, "capture": paths })).collect();
    json!({ "version": env!("CARGO_PKG_VERSION"), "files": files })
}

fn shown(args: &PathArgs, files: &[(String, Paths)], rows: &[Row<'_>], chosen: &Row<'_>) -> String {
    let mut text = table(args, rows);
    if rows.len() > args.top {
        let left = rows.len() - args.top;
        text +=
            &format!("{} more: --top {} shows them, --json has them all\n", counted(left, "connection"), rows.len());
    }
    let estimate = chosen.estimate;
    text += &format!("\nconnection {}: {} → {}", args.connection, estimate.sender, estimate.receiver);
    text += &format!(", {} of {:.1} MB\n", seconds(estimate.duration_s), estimate.delivered_bytes / 1e6);
    let lines = estimate.lines().into_iter().map(|line| vec![line.name.to_owned(), line.value, line.from]);
    text += &aligned(&["property", "estimate", "from"], &[Align::Left, Align::Left, Align::Text], lines);
    for unknown in &estimate.unknown {
        text += &format!("unknown     {unknown}\n");
    }
    for (file, paths) in files {
        for note in &paths.notes {
            text += &format!("note        {file}: {note}\n");
        }
    }
    text
}

fn table(args: &PathArgs, rows: &[Row<'_>]) -> String {
    let has_files = args.files.len() > 1;
    let lines = rows.iter().take(args.top).enumerate().map(|(nth, row)| {
        let own = row.estimate;
        let mut cells = vec![(nth + 1).to_string()];
        if has_files {
            cells.push(row.file.to_owned());
        }
        let rtt = |of: fn(&bbrlab_study::capture::RttEstimate) -> f64| {
            own.rtt.as_ref().map_or_else(|| "–".to_owned(), |rtt| ms(of(rtt)))
        };
        cells.extend([
            own.sender.clone(),
            own.receiver.clone(),
            format!("{:.1} MB", own.delivered_bytes / 1e6),
            rate(own.goodput_bps),
            own.rate_text(),
            own.base_text(),
            rtt(|rtt| rtt.p95_ms),
            own.buffer_text(),
            match own.hides_loss() {
                true => "–".to_owned(),
                false => percent(own.retransmitted_bytes / own.sent_bytes.max(1.0)),
            },
            own.loss_text(),
        ]);
        cells
    });
    let mut head = vec!["#"];
    let mut align = vec![Align::Right];
    if has_files {
        head.push("file");
        align.push(Align::Left);
    }
    head.extend(["sender", "receiver", "delivered", "goodput", "rate", "base RTT ms", "p95 ms"]);
    head.extend(["buffer", "retransmit", "loss"]);
    align.extend([Align::Left, Align::Left, Align::Right, Align::Right, Align::Right, Align::Right, Align::Right]);
    align.extend([Align::Left, Align::Right, Align::Text]);
    aligned(&head, &align, lines)
}
