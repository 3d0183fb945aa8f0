//! The downloads of a command: their destinations, and their output.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bbrlab_http::get::file::Destination;
use bbrlab_http::get::{self, Anchor, Downloads, FinishedDownload, Settings, Trust, Url};
use bbrlab_http::serve::qlog::Logs;

use super::{GetArgs, shown};
use crate::progress::Progress;
use crate::{Error, Verdict, interrupt, print};

/// Minimum of `--patience`.
const PATIENCE_MIN: Duration = Duration::from_millis(100);

impl get::Progress for Progress {
    fn expect(&self, more: u64) {
        Self::expect(self, more);
    }

    fn add(&self, more: u64) {
        Self::add(self, more);
    }
}

/// Runs the downloads that the arguments request.
pub fn run(args: &GetArgs) -> Result<Verdict, Error> {
    let urls: Vec<Url> = args.urls.iter().map(|url| Url::parse(url)).collect::<Result<_, _>>()?;
    let places = places(args, &urls)?;
    let patience = Duration::from_nanos(args.patience.0);
    if patience < PATIENCE_MIN {
        return Err(Error::too_short_patience(args.patience));
    }
    if let Some(cc) = &args.cc {
        get::check_cc(cc, &urls)?;
    }
    let is_quic = urls.iter().any(Url::is_quic);
    let trust = if is_quic { Some(Trust::new(anchor(args))?) } else { None };
    if args.qlog.is_some() && !is_quic {
        return Err(Error::Rule { place: "--qlog", rule: "qlog is QUIC's; fetch an https:// URL" });
    }
    let logs = Logs::of(args.qlog.as_deref())?;
    let settings = Settings { cc: args.cc.clone(), patience, trust, logs };
    interrupt::on_signal(|| {
        bbrlab_http::serve::qlog::finish_all();
        false
    });
    let progress = Arc::new(Progress::new("fetching", 0));
    let downloads = Downloads {
        wanted: urls.into_iter().zip(places).collect(),
        rounds: args.repeat.unwrap_or(1) as usize,
        parallel: args.parallel as usize,
    };
    // The bar's thread ends with the downloads: it would draw over the output that follows.
    let results = get::run(downloads, settings, progress)?;
    let (done, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    let done: Vec<FinishedDownload> = done.into_iter().flatten().collect();
    let mut failed = failed.into_iter().filter_map(Result::err);
    if args.output.as_deref() != Some(Path::new("-")) && !done.is_empty() {
        print(&if args.json { shown::json(&done)? } else { shown::table(&done) })?;
    }
    match (failed.next(), failed.count()) {
        (None, _) => Ok(Verdict::Holds),
        (Some(one), 0) => Err(one.into()),
        (Some(first), others) => Err(Error::Transfers { first: Box::new(first), others }),
    }
}

/// The servers that the flags trust.
fn anchor(args: &GetArgs) -> Anchor<'_> {
    match (&args.spki, args.insecure) {
        (_, true) => Anchor::Anyone,
        (Some(hash), _) => Anchor::Key(hash),
        (None, false) => Anchor::Authorities(args.ca.as_deref()),
    }
}

/// Destination of each URL.
fn places(args: &GetArgs, urls: &[Url]) -> Result<Vec<Destination>, Error> {
    if args.repeat.is_some() {
        return Ok(vec![Destination::Nothing; urls.len()]);
    }
    if let Some(output) = &args.output {
        if urls.len() > 1 {
            return Err(Error::OneOutput(urls.len()));
        }
        if args.json && output == Path::new("-") {
            let rule = "--json goes to standard output; write one of them";
            return Err(Error::PathRule { flag: "--output", path: output.clone(), rule });
        }
        return Ok(vec![Destination::of(output)?]);
    }
    let mut names = BTreeSet::new();
    let place = |url: &Url| {
        let name = url.file_name()?;
        let place = Destination::of(Path::new(&name))?;
        if names.insert(name.clone()) {
            return Ok(place);
        }
        Err(Error::OneName { url: url.text().to_owned(), name })
    };
    urls.iter().map(place).collect()
}
