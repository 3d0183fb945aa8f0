//! Recorded decisions of a real kernel's BBR and CUBIC, repeated by core: every output equal, bit by bit.
//! `tools/oracle.sh situations` records them into `tests/data/replay`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::path::PathBuf;

use bbrlab_replay::{COLUMNS, Error, Field, JIFFIES_INSIDE, Kind, Log, Record, Report, replay, unpack};

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/replay").join(format!("{name}.tap.xz"))
}

fn log(name: &str) -> Log {
    let path = path(name);
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Log::parse(&unpack(&bytes).unwrap()).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Replays a log, and asserts that it is equal and contains each of these events.
fn holds(name: &str, events: &[&str]) -> Report {
    let report = replay(&log(name)).unwrap();
    assert!(report.is_equal(), "{name}: {:#?}", report.difference);
    for event in events {
        assert!(report.events.contains_key(event), "{name} has no {event:?}, but {:?}", report.events);
    }
    assert!(report.acks >= 10 && report.outputs > 20 * report.acks, "{name}: {report:?}");
    report
}

macro_rules! situations {
    ($($test:ident: $name:literal [$($event:literal),*];)*) => {
        $(#[test]
        fn $test() {
            holds($name, &[$($event),*]);
        })*

        #[test]
        fn every_recorded_log_is_replayed() {
            let mut tested = [$($name),*].map(|name| path(name).file_name().unwrap().to_owned()).to_vec();
            let dir = path("any").parent().unwrap().to_owned();
            let mut there: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            there.retain(|name| name.to_string_lossy().ends_with(".tap.xz"));
            tested.sort();
            there.sort();
            assert_eq!(tested, there);
        }
    };
}

situations! {
    bbr1_starts_up_as_the_kernel_does: "startup.bbr1" ["STARTUP", "DRAIN", "PROBE_BW"];
    bbr1_keeps_the_pipe_full_as_the_kernel_does: "steady.bbr1" ["PROBE_BW"];
    bbr1_bears_one_per_cent_of_loss_as_the_kernel_does: "loss-1.bbr1" ["PROBE_BW", "packet conservation", "loss episode begins"];
    bbr1_bears_twenty_per_cent_of_loss_as_the_kernel_does: "loss-20.bbr1" ["PROBE_BW", "ACKs that report a loss"];
    bbr1_finds_a_policer_as_the_kernel_does: "policer.bbr1" ["policed rate in use"];
    bbr1_bears_an_application_that_writes_little_as_the_kernel_does: "app-limited.bbr1" ["app-limited sample", "restart from idle"];
    bbr1_restarts_from_idle_as_the_kernel_does: "idle.bbr1" ["app-limited sample", "restart from idle"];
    bbr1_looks_for_the_paths_delay_as_the_kernel_does: "probe-rtt.bbr1" ["PROBE_RTT"];
    bbr1_survives_time_outs_as_the_kernel_does: "rto.bbr1" ["time-out", "undo"];
    bbr1_takes_reordering_as_the_kernel_does: "reorder.bbr1" ["undo"];
    bbr1_lives_on_10_kbit_as_the_kernel_does: "10-kbit.bbr1" ["STARTUP"];
    bbr1_fills_a_gigabit_as_the_kernel_does: "1-gbit.bbr1" ["STARTUP", "DRAIN", "PROBE_BW"];
    cubic_starts_up_as_the_kernel_does: "startup.cubic" ["slow start"];
    cubic_keeps_the_pipe_full_as_the_kernel_does: "steady.cubic" ["congestion avoidance"];
    cubic_bears_one_per_cent_of_loss_as_the_kernel_does: "loss-1.cubic" ["congestion avoidance", "loss episode begins"];
    cubic_bears_twenty_per_cent_of_loss_as_the_kernel_does: "loss-20.cubic" ["time-out"];
    cubic_bears_a_policer_as_the_kernel_does: "policer.cubic" ["loss episode begins"];
    cubic_bears_an_application_that_writes_little_as_the_kernel_does: "app-limited.cubic" ["restart from idle"];
    cubic_restarts_from_idle_as_the_kernel_does: "idle.cubic" ["restart from idle"];
    cubic_follows_its_curve_over_fourteen_seconds_as_the_kernel_does: "probe-rtt.cubic" ["congestion avoidance"];
    cubic_survives_time_outs_as_the_kernel_does: "rto.cubic" ["time-out", "undo"];
    cubic_takes_reordering_as_the_kernel_does: "reorder.cubic" ["undo"];
    cubic_lives_on_10_kbit_as_the_kernel_does: "10-kbit.cubic" ["slow start"];
    cubic_fills_a_gigabit_as_the_kernel_does: "1-gbit.cubic" ["slow start"];
}

/// A log with one column of one record changed.
fn with(log: &Log, nth: usize, place: usize, change: impl Fn(u64) -> u64) -> Log {
    let mut log = log.clone();
    let word = &mut log.records[nth].words[place];
    *word = change(*word);
    log
}

/// Goal: a comparison that can't fail proves nothing.
#[test]
fn an_output_that_is_one_off_is_found_where_it_is() {
    let log = log("loss-1.bbr1");
    let nth = log.records.len() / 2;
    let report = replay(&with(&log, nth, Field::CwndAfter as usize, |cwnd| cwnd + 1)).unwrap();
    let difference = report.difference.unwrap();
    assert_eq!((difference.record, difference.output), (nth, "snd_cwnd"));
    assert!(difference.context.last().unwrap().starts_with(&format!("{nth} ")));
}

/// The stack's call for the smallest burst after an ACK, with the ACK's answer, in the state that the ACK left.
fn burst_after(ack: &Record) -> Record {
    let mut burst = ack.clone();
    let mut set = |field: Field, value| burst.words[field as usize] = value;
    let left = [
        (Field::Cwnd, Field::CwndAfter),
        (Field::Ssthresh, Field::SsthreshAfter),
        (Field::AppLimited, Field::AppLimitedAfter),
        (Field::PacingRate, Field::PacingRateAfter),
        (Field::Jiffies, Field::JiffiesAfter),
    ];
    left.into_iter().for_each(|(before, after)| set(before, ack.get(after)));
    set(Field::Kind, MIN_TSO_SEGS);
    burst
}

/// Number of [`Kind::MinTsoSegs`] in a log.
const MIN_TSO_SEGS: u64 = 9;

/// The log as recorded by a tap that traces the kernel's functions: the smallest burst is in a record after each ACK's.
fn with_bursts(log: &Log) -> Log {
    let mut now = Log { records: Vec::new(), ..log.clone() };
    for record in &log.records {
        let mut ack = record.clone();
        let is_ack = record.kind() == Some(Kind::CongControl);
        if is_ack {
            ack.words[Field::Answer as usize] = 0;
        }
        now.records.push(ack);
        now.records.extend(is_ack.then(|| burst_after(record)));
    }
    now
}

#[test]
fn a_smallest_burst_is_compared_in_the_acks_record_and_in_its_own() {
    assert_eq!(Kind::of(MIN_TSO_SEGS), Some(Kind::MinTsoSegs));
    // Below the rate at which the answer changes, and above it.
    for name in ["10-kbit.bbr1", "loss-1.bbr1"] {
        let before = log(name);
        let now = with_bursts(&before);
        let (old, new) = (replay(&before).unwrap(), replay(&now).unwrap());
        assert!(old.is_equal() && new.is_equal(), "{name}: {:#?} {:#?}", old.difference, new.difference);
        assert_eq!((new.acks, new.calls), (old.acks, old.calls + old.acks), "{name}");
        for log in [before, now] {
            let has_burst = |record: &Record| {
                let of_kind = matches!(record.kind(), Some(Kind::CongControl | Kind::MinTsoSegs));
                of_kind && record.get(Field::Answer) != 0
            };
            let last = log.records.iter().rposition(has_burst).unwrap();
            let report = replay(&with(&log, last, Field::Answer as usize, |answer| 3 - answer)).unwrap();
            let difference = report.difference.unwrap();
            assert_eq!((difference.record, difference.output), (last, "min_tso_segs"), "{name}");
        }
    }
}

/// Goal: the first call of a connection is as long as any other, so a tick may occur inside it.
#[test]
fn a_tick_inside_the_first_call_is_explained() {
    let log = log("startup.bbr1");
    let tick = log.records[0].get(Field::Jiffies);
    let log = with(&log, 0, Field::JiffiesAfter as usize, |_| tick);
    let report = replay(&with(&log, 0, Field::Jiffies as usize, |tick| tick - 1)).unwrap();
    assert!(report.is_equal(), "{:#?}", report.difference);
    assert_eq!(report.explained.get(JIFFIES_INSIDE), Some(&1));
}

#[test]
fn an_ack_without_a_smallest_burst_has_one_comparison_less() {
    let log = log("10-kbit.bbr1");
    let ack = log.records.iter().position(|record| record.kind() == Some(Kind::CongControl)).unwrap();
    let (with_answer, without) =
        (replay(&log).unwrap(), replay(&with(&log, ack, Field::Answer as usize, |_| 0)).unwrap());
    assert!(without.is_equal());
    assert_eq!(without.outputs, with_answer.outputs - 1);
}

#[test]
fn every_bit_of_the_bandwidth_filter_counts() {
    let log = log("steady.bbr1");
    let nth = log.records.len() / 2;
    for bit in 0..32 {
        let word = COLUMNS - 26 + 4;
        let report = replay(&with(&log, nth, word, |value| value ^ (1 << bit))).unwrap();
        assert_eq!(report.difference.unwrap().output, "bw", "bit {bit}");
    }
}

#[test]
fn an_input_that_is_off_shows_in_an_output() {
    let log = log("startup.bbr1");
    let ack = log.records.iter().position(|record| record.get(Field::RsDelivered) as i64 > 20).unwrap();
    let report = replay(&with(&log, ack, Field::RsDelivered as usize, |delivered| delivered * 2)).unwrap();
    assert_eq!(report.difference.unwrap().record, ack);
}

#[test]
fn a_log_that_lost_calls_is_not_equal() {
    let log = Log { lost: 1, ..log("10-kbit.bbr1") };
    assert!(!replay(&log).unwrap().is_equal());
}

/// A log may come from anyone: whatever its columns hold, replay reports it equal, different or invalid, and nothing panics.
#[test]
fn invalid_column_values_never_panic() {
    for name in ["10-kbit.bbr1", "app-limited.bbr1", "1-gbit.cubic", "loss-1.cubic"] {
        let mut log = log(name);
        log.records.truncate(300);
        for place in 0..COLUMNS {
            for value in [0, 1, u64::from(u32::MAX), i64::MAX as u64, 1 << 63, u64::MAX] {
                let mut odd = log.clone();
                for record in odd.records.iter_mut().step_by(7) {
                    record.words[place] = value;
                }
                match replay(&odd) {
                    Ok(report) => assert!(report.calls > 0),
                    Err(error) => assert!(
                        matches!(
                            error,
                            Error::Impossible { .. } | Error::UnknownKind { .. } | Error::NoBeginning { .. }
                        ),
                        "{error}"
                    ),
                }
            }
        }
    }
}
