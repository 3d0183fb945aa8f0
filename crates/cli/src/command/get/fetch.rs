//! Runs all downloads of a command: their destinations, concurrency and output.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bbrlab_stats::plural::counted;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::file::Destination;
use super::transfer::{FinishedDownload, Settings, Url, fetch};
use super::trust::Trust;
use super::{GetArgs, shown};
use crate::command::serve::qlog::Logs;
use crate::command::serve::tcp;
use crate::progress::Progress;
use crate::{Failure, Verdict, print};

/// Minimum of `--patience`.
const PATIENCE_MIN: Duration = Duration::from_millis(100);

/// Destination of each URL.
fn places(args: &GetArgs, urls: &[Url]) -> Result<Vec<Destination>, Failure> {
    if args.repeat.is_some() {
        return Ok(vec![Destination::Nothing; urls.len()]);
    }
    if let Some(output) = &args.output {
        if urls.len() > 1 {
            return Err(format!(
                "--output: {} would go into one file; fetch them one by one",
                counted(urls.len(), "URL")
            ));
        }
        if args.json && output == Path::new("-") {
            return Err("--output: -: --json goes to standard output; write one of them".to_owned());
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
        Err(format!("{}: another URL goes into {name:?} too; fetch them one by one, with --output", url.text()))
    };
    urls.iter().map(place).collect()
}

/// Runs the downloads that the arguments request.
pub fn run(args: &GetArgs) -> Result<Verdict, Failure> {
    let urls: Vec<Url> = args.urls.iter().map(|url| Url::parse(url)).collect::<Result<_, _>>()?;
    let places = places(args, &urls)?;
    let patience = Duration::from_nanos(args.patience.0);
    if patience < PATIENCE_MIN {
        return Err(format!("--patience: \"{}\" is too short; write 100ms or more", args.patience));
    }
    if let Some(cc) = &args.cc {
        check(cc, &urls)?;
    }
    let is_quic = urls.iter().any(Url::is_quic);
    let trust = if is_quic { Some(Trust::of(args)?) } else { None };
    if args.qlog.is_some() && !is_quic {
        return Err("--qlog: qlog is QUIC's; fetch an https:// URL".to_owned());
    }
    let logs = Logs::of(args.qlog.as_deref())?;
    let settings = Arc::new(Settings { cc: args.cc.clone(), patience, trust, logs });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("get: threads: {error}"))?;
    let progress = Arc::new(Progress::new("fetching", 0));
    let wanted = urls.into_iter().zip(places).collect();
    let results = runtime.block_on(all(wanted, args, &settings, &progress));
    // Its thread would draw over the output that follows.
    drop(progress);
    runtime.shutdown_background();
    let (done, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    let done: Vec<FinishedDownload> = done.into_iter().flatten().collect();
    let failed: Vec<Failure> = failed.into_iter().filter_map(Result::err).collect();
    if args.output.as_deref() != Some(Path::new("-")) && !done.is_empty() {
        print(&if args.json { shown::json(&done)? } else { shown::table(&done) })?;
    }
    match failed.as_slice() {
        [] => Ok(Verdict::Holds),
        [one] => Err(one.clone()),
        [first, others @ ..] => Err(format!("{first}; {} failed too", counted(others.len(), "other transfer"))),
    }
}

/// Rejects a name that neither protocol supports, before anything is sent.
fn check(cc: &str, urls: &[Url]) -> Result<(), Failure> {
    if urls.iter().any(Url::is_quic) {
        bbrlab_quic::s2n::Named::new(cc).map_err(|error| format!("--cc: {error}"))?;
    }
    if !urls.iter().all(Url::is_quic) {
        tcp::kernels(cc).map_err(|what| format!("--cc: {what}"))?;
    }
    Ok(())
}

/// Runs the transfers, and returns the results in the order of the requests.
async fn all(
    wanted: Vec<(Url, Destination)>,
    args: &GetArgs,
    settings: &Arc<Settings>,
    progress: &Arc<Progress>,
) -> Vec<Result<FinishedDownload, Failure>> {
    let places = Arc::new(Semaphore::new(args.parallel as usize));
    let mut tasks = JoinSet::new();
    let rounds = args.repeat.unwrap_or(1) as usize;
    let resume = args.resume;
    let mut results = Vec::new();
    for (index, (url, place)) in wanted.iter().flat_map(|one| std::iter::repeat_n(one, rounds)).enumerate() {
        // Waits here, so that a hundred thousand pending transfers need no memory.
        let Ok(turn) = Arc::clone(&places).acquire_owned().await else { break };
        let (url, place, settings, progress) = (url.clone(), place.clone(), Arc::clone(settings), Arc::clone(progress));
        tasks.spawn(async move {
            let done = fetch(&url, &place, resume, &settings, &progress).await;
            drop(turn);
            (index, done)
        });
        while let Some(Ok(one)) = tasks.try_join_next() {
            results.push(one);
        }
    }
    while let Some(Ok(one)) = tasks.join_next().await {
        results.push(one);
    }
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, done)| done).collect()
}
