//! Findings as a table, as JSON, and as a report page.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::figures::{by_range, distribution, forest};
use super::judge::judged_by;
use super::record::{STATES, states};
use super::{AssignmentUnit, Between, Comovement, Comparison, Experiment, Findings, SegmentBy};
use crate::comparison::{Interval, SpeedLine, speed_table, speed_unit};
use crate::judgement::Judgement;
use bbrlab_report::{Number, Provenance, Report, Section, Table};
use bbrlab_stats::number::{gain, hundredths, or_dash};
use bbrlab_stats::plural::{counted, verb};

/// Share of the data above which a note warns that connections outlast their slots. Ours.
const OUTLASTING: f64 = 0.05;

/// Names the metric; within age ranges connections of every size are judged by throughput.
pub(super) const fn what(line: &Comparison) -> &'static str {
    match line.class.over {
        SegmentBy::Age => "throughput",
        _ => judged_by(line.is_large),
    }
}

fn per_cent(value: f64) -> String {
    or_dash(value, |value| format!("{} %", hundredths(100.0 * value)))
}

/// Tables of the arms and of the comparisons.
pub fn rows(test: &Experiment, found: &Findings) -> (Table, Table) {
    let columns = [
        "arm",
        "connections",
        "planned",
        "data",
        "retransmitted",
        "min RTT",
        "RTT",
        "limited by peer",
        "handshakes failed",
        "open",
        "refused",
        "overridden",
        "no record",
    ];
    let total: f64 = found.ratio.expected.iter().sum();
    let arms = found.arms.iter().enumerate().map(|(at, arm)| {
        let ms = |value: f64| or_dash(value, |value| format!("{} ms", hundredths(value)));
        vec![
            arm.label.clone(),
            arm.connections.to_string(),
            per_cent(found.ratio.expected[at] / total),
            format!("{} MB", hundredths(arm.bytes as f64 / 1e6)),
            per_cent(arm.retransmit_ratio),
            ms(arm.min_rtt_ms),
            ms(arm.srtt_ms),
            per_cent(arm.limited),
            arm.handshakes_failed.map_or("–".to_owned(), per_cent),
            arm.open.to_string(),
            arm.refused.to_string(),
            arm.overridden.to_string(),
            arm.no_record.to_string(),
        ]
    });
    let arms = Table { columns: columns.map(str::to_owned).to_vec(), rows: arms.collect() };
    let columns = [
        "class",
        "judged by",
        "arm",
        "median",
        "control's",
        "gain",
        "verdict",
        "always valid",
        "p, corrected",
        "detectable gain",
        "connections",
        "control's",
    ];
    let lines = found.lines.iter().map(|line| {
        let is_known = line.judgement().is_judged();
        vec![
            line.class.name.clone(),
            what(line).to_owned(),
            test.arms[line.arm].label.clone(),
            with_unit(line, line.own),
            with_unit(line, line.control),
            gain(line.gain, line.low, line.high),
            line.judgement().to_string(),
            if is_known { gain(line.mean_gain, line.always_low, line.always_high) } else { "–".to_owned() },
            match (is_known, line.p < 0.001) {
                (false, _) => "–".to_owned(),
                (true, true) => "< 0.001".to_owned(),
                (true, false) => format!("{:.3}", line.p),
            },
            per_cent(line.detectable),
            line.counts[0].to_string(),
            line.counts[1].to_string(),
        ]
    });
    (arms, Table { columns: columns.map(str::to_owned).to_vec(), rows: lines.collect() })
}

/// Table of the gains, as other comparisons show theirs.
fn gains(test: &Experiment, found: &Findings) -> Table {
    let line = |line: &Comparison| SpeedLine {
        class: line.class.name.clone(),
        is_throughput: line.is_large,
        candidate: line.arm - 1,
        medians: [line.own, line.control].map(|value| with_unit(line, value)),
        gain: Interval { middle: line.gain, low: line.low, high: line.high },
        outcome: line.judgement().to_string(),
    };
    speed_table(&test.arms[0].label, &test.labels()[1..], found.lines.iter().map(line))
}

fn with_unit(line: &Comparison, value: f64) -> String {
    or_dash(value, |value| format!("{} {}", hundredths(value), speed_unit(line.is_large)))
}

/// Table of the time in each of BBR's states; `None` if no algorithm counts it.
pub fn state_rows(found: &Findings) -> Option<Table> {
    const COLUMNS: [&str; 1 + STATES] =
        ["arm", "Startup", "Drain", "ProbeBW Refill", "ProbeBW Up", "ProbeBW Down", "ProbeBW Cruise", "ProbeRTT"];
    let row = |arm: &super::judge::ArmSummary| {
        let shares = arm.state_shares?;
        Some(std::iter::once(arm.label.clone()).chain(shares.map(per_cent)).collect())
    };
    let rows: Vec<Vec<String>> = found.arms.iter().filter_map(row).collect();
    (!rows.is_empty()).then(|| Table { columns: COLUMNS.map(str::to_owned).to_vec(), rows })
}

/// States the result of the sample ratio check in one sentence.
fn split(test: &Experiment, found: &Findings) -> String {
    let ratio = &found.ratio;
    let numbers =
        format!("chi-squared {:.2} at {}, p {:.3}", ratio.chi_squared, counted(ratio.freedom, "degree"), ratio.p);
    if found.connections == 0 {
        "No connection was recorded.".to_owned()
    } else if ratio.is_mismatch() {
        format!(
            "The split of the compared connections is not the requested one ({numbers}): connections were left out, records are missing, or the \
             connections of one arm end differently; do not trust the gains until this is explained."
        )
    } else {
        format!("The split is the requested one, over {} ({numbers}).", test.by.units())
    }
}

/// States that more connections of one arm than of another were left out.
fn exclusion(found: &Findings) -> Option<String> {
    let share = |(arm, share): (&super::ArmSummary, &f64)| format!("{} of {}", per_cent(*share), arm.label);
    let shares: Vec<String> = found.arms.iter().zip(&found.exclusion.shares).map(share).collect();
    found.exclusion.differs().then(|| {
        format!(
            "The arms differ in what was left out: {}, because the kernel refused the arm's algorithm, the application chose another, or no \
             data was acknowledged. Do not trust the gains until this is explained.",
            shares.join(", ")
        )
    })
}

/// Section on bottlenecks shared by the arms.
fn sharing(test: &Experiment, found: &Findings) -> (bool, Option<String>) {
    let shown = |one: &Comovement| {
        let of = match one.between {
            Between::SameNetwork => "of one client network",
            Between::Networks => "of different client networks",
        };
        format!("{of}: correlation {:.2}, p {:.3}, {}", one.correlation, one.p, counted(one.pairs, "pair"))
    };
    let all: Vec<String> = found.shared.iter().map(shown).collect();
    let of = |between| found.shared.iter().any(|one| one.between == between && one.is_shared());
    let remedy = match (of(Between::SameNetwork), of(Between::Networks)) {
        (_, true) => "--by time, with slots much longer than connections",
        (true, false) => "--by client-prefix",
        (false, false) if found.shared.is_empty() && test.by == AssignmentUnit::Connection && !test.is_aa() => {
            return (false, Some(SHARING_UNKNOWN.to_owned()));
        }
        (false, false) if found.shared.is_empty() => return (false, None),
        (false, false) => {
            let text = format!("No sign that the arms share bottlenecks ({}).", all.join("; "));
            return (false, Some(text));
        }
    };
    let text = format!(
        "The arms share bottlenecks: where connections of both ended together, their queues rose and fell together ({}). What one arm gains the \
         other may lose, and effects on both, such as a shared queue, do not show: the gains are not those of a full switch. Test again {remedy} (Spang \
         et al., IMC 2021); `bbrlab reproduce AB-BIAS` shows how large the difference can be.",
        all.join("; ")
    );
    (true, Some(text))
}

const SHARING_UNKNOWN: &str = "Whether the arms share bottlenecks is not known: too few connections of both arms ended within a second of each \
    other. If they do, the gains are not those of a full switch; --by client-prefix and --by time separate them (Spang et al., IMC 2021).";

/// Caveats that must precede the gains, one sentence each.
pub fn notes(test: &Experiment, found: &Findings) -> Vec<String> {
    let mut notes: Vec<String> = exclusion(found).into_iter().collect();
    let (is_shared, sharing) = sharing(test, found);
    // Where it is so, it comes first: it changes what every gain means.
    notes.extend(sharing.iter().filter(|_| is_shared).cloned());
    notes.push(split(test, found));
    notes.extend(sharing.into_iter().filter(|_| !is_shared));
    if test.is_aa() {
        let differ =
            found.lines.iter().filter(|line| matches!(line.judgement(), Judgement::Faster | Judgement::Slower)).count();
        notes.push(match differ {
            0 => "A/A: all arms are the same algorithm, and no difference was found.".to_owned(),
            n => format!(
                "A/A: all arms are the same algorithm, and {} found a difference: this is chance, or a fault of the test.",
                counted(n, "comparison")
            ),
        });
    }
    if let Some(rule) = &test.rule {
        let control = &test.arms[0].label;
        notes.push(format!(
            "The arms are those of a policy: {control} is the holdout of rule {rule}, and the other arm the rest of its clients."
        ));
    }
    let lost = test.counts.ring_lost + test.counts.disk_lost;
    if lost > 0 {
        notes.push(format!(
            "{} of connections were lost (ring {}, disk {}).",
            counted(lost, "record"),
            test.counts.ring_lost,
            test.counts.disk_lost
        ));
    }
    if test.counts.no_memory > 0 {
        notes.push(format!("{} took no part: the table was full.", counted(test.counts.no_memory, "connection")));
    }
    if !test.hosts.is_empty() {
        let names: Vec<&str> = test.hosts.iter().map(|host| host.name.as_str()).collect();
        notes.push(format!(
            "{}: {}. Connections are compared with those of the same host and split.",
            counted(names.len(), "host"),
            names.join(", ")
        ));
    }
    if found.is_summarised {
        notes.push(
            "From summaries: medians are off by 0.1 % at most and gains by 0.2 %; there are no parts of the time."
                .to_owned(),
        );
    }
    let is_first = |epoch: u32| test.hosts.iter().any(|host| epoch == host.first_epoch + 1);
    for change in test.splits.iter().skip(1).filter(|change| test.hosts.is_empty() || !is_first(change.epoch)) {
        let host =
            test.hosts.get(test.host_of(change.epoch)).map_or(String::new(), |host| format!("{}: split", host.name));
        notes.push(format!(
            "{} {} from second {:.0} on: {}.",
            if host.is_empty() { "Split" } else { &host },
            change.shares.text(),
            change.at_unix_s - test.begun_unix_s,
            change.why
        ));
    }
    if found.shown_epoch.is_some() {
        notes.push(
            "The share of the arms changed during the test: gains compare connections of the same split. The totals of the arms cover all \
             splits and are not comparable with each other."
                .to_owned(),
        );
    }
    if found.without_peer > 0 {
        notes.push(format!(
            "{} not compared: no connection of another arm began under the same split.",
            verb(found.without_peer, "connection is", "connections are")
        ));
    }
    if let Some(outside @ 1..) = found.unclassed {
        notes.push(format!("{} in no network of the classes.", verb(outside, "connection is", "connections are")));
    }
    if let Some(share) = found.outlasting.filter(|share| *share > OUTLASTING) {
        notes.push(format!(
            "{} of the data came from connections that lasted longer than a slot of {} s, and so met those of the next: longer slots \
             keep the arms apart.",
            per_cent(share),
            test.slot_s
        ));
    }
    notes
}

const METHOD: &str = "A connection counts by its newest record. Below 3 MB it is judged by completion time, from there on by throughput; \
    both over its busy time, in which it had data to send or to be acknowledged, so that idle keep-alive does not count. A gain of 10 % is \
    a tenth faster either way: the ratio of the medians, with a 95 % percentile bootstrap (Efron 1979) over what was drawn. Connections are \
    compared only with those of the same split; splits are combined with overlap weights (Li, Morgan and Zaslavsky 2018). The verdict rests on \
    the probability corrected for all comparisons (Holm 1979). The always-valid interval is of the ratio of geometric means, an asymptotic \
    confidence sequence (Waudby-Smith et al., arXiv:2103.06476): it is valid at every look, and so may end the test. The detectable gain is \
    the smallest that a test of this size finds in 80 of 100 cases.";

const STATES_SAID: &str = "Shares of the time that connections were open, idle time included, all connections of an arm together. \
    Startup finds the bandwidth and Drain empties the queue that it left; ProbeBW tries for more (Refill, Up), gives back (Down) and holds (Cruise); \
    ProbeRTT looks for the path's own delay. BBRv1's ProbeBW has no Refill. The kernel's own algorithms do not report their states.";

const RANGES: &str = "Size and RTT (the minimum) are those of the connection; time is when it began. At an age counts what a connection \
    carried then, as its records show it, over its busy time. Arms can shift connections between ranges of RTT and age: one that leaves a \
    shorter queue, or ends sooner.";

/// Findings as JSON.
pub fn json(test: &Experiment, found: &Findings, version: &str) -> Value {
    let number = |value: f64| if value.is_finite() { json!(value) } else { Value::Null };
    let arm = |(at, arm): (usize, &super::judge::ArmSummary)| {
        json!({
            "arm": arm.label, "connections": arm.connections, "open": arm.open, "refused": arm.refused, "overridden": arm.overridden, "no_record": arm.no_record, "excluded_share": number(found.exclusion.shares[at]), "bytes_acked": arm.bytes,
            "expected": found.ratio.expected[at], "retransmit_ratio": number(arm.retransmit_ratio), "min_rtt_ms": number(arm.min_rtt_ms),
            "srtt_ms": number(arm.srtt_ms), "limited_share": number(arm.limited), "handshakes_failed": arm.handshakes_failed,
            "state_shares": arm.state_shares.map(|shares| states().zip(shares).collect::<BTreeMap<_, _>>()),
        })
    };
    let end = |line: &Comparison, value: u64| {
        let (unit, scale) = line.class.over.unit();
        (!unit.is_empty() && value < u64::MAX).then_some(value as f64 * scale)
    };
    let line = |line: &Comparison| {
        json!({
            "class": line.class.name, "over": line.class.over.name(), "from": end(line, line.class.from), "below": end(line, line.class.below),
            "unit_of_range": line.class.over.unit().0, "judged_by": if line.is_large { "throughput" } else { "completion" }, "arm": test.arms[line.arm].label,
            "unit": speed_unit(line.is_large), "median": number(line.own), "control_median": number(line.control), "verdict": line.judgement().to_string(),
            "gain": number(line.gain), "gain_low": number(line.low), "gain_high": number(line.high),
            "mean_gain": number(line.mean_gain), "always_low": number(line.always_low), "always_high": number(line.always_high),
            "p_corrected": number(line.p), "would_show": number(line.detectable),
            "connections": line.counts[0], "control_connections": line.counts[1], "units": line.units[0], "control_units": line.units[1],
        })
    };
    json!({
        "schema": 1,
        "version": version,
        "by": test.by,
        "control": test.arms[0].label,
        "is_aa": test.is_aa(),
        "connections": found.connections,
        "sample_ratio": {
            "seen": found.ratio.seen, "expected": found.ratio.expected, "chi_squared": number(found.ratio.chi_squared),
            "degrees_of_freedom": found.ratio.freedom, "p": found.ratio.p, "is_mismatch": found.ratio.is_mismatch(),
        },
        "exclusions_differ": found.exclusion.differs(),
        "shared_bottlenecks": found.shared.iter().map(|one| json!({
            "between": match one.between { Between::SameNetwork => "same network", Between::Networks => "networks" },
            "pairs": one.pairs, "correlation": one.correlation, "p": one.p, "is_shared": one.is_shared(),
        })).collect::<Vec<_>>(),
        "without_peer": found.without_peer,
        "counts": test.counts,
        "unclassed": found.unclassed,
        "outlasting_share": found.outlasting,
        "notes": notes(test, found),
        "arms": found.arms.iter().enumerate().map(arm).collect::<Vec<_>>(),
        "gains": found.lines.iter().map(line).collect::<Vec<_>>(),
    })
}

/// Answer in one sentence.
pub fn answer(test: &Experiment, found: &Findings) -> String {
    let of = |arm: usize| {
        let own: Vec<&Comparison> =
            found.lines.iter().filter(|line| line.arm == arm && line.class.over == SegmentBy::All).collect();
        let each: Vec<String> = own
            .iter()
            .map(|line| {
                let what = if line.is_large { "throughput from 3 MB" } else { "completion below 3 MB" };
                match line.judgement() {
                    outcome @ (Judgement::Faster | Judgement::Slower) => {
                        format!("{outcome} in {what}, {}", gain(line.gain, line.low, line.high))
                    }
                    outcome => format!("{outcome} in {what}"),
                }
            })
            .collect();
        format!(
            "{}: {}",
            test.arms[arm].label,
            if each.is_empty() { "no connection".to_owned() } else { each.join("; ") }
        )
    };
    let all: Vec<String> = (1..test.arms.len()).map(of).collect();
    let classes = |arm: usize| {
        let own: Vec<&Comparison> =
            found.lines.iter().filter(|line| line.arm == arm && line.class.over != SegmentBy::All).collect();
        let count = |outcome| own.iter().filter(|line| line.judgement() == outcome).count();
        let (faster, slower) = (count(Judgement::Faster), count(Judgement::Slower));
        (faster + slower > 0).then(|| {
            let name = &test.arms[arm].label;
            format!(
                " {name} is faster in {faster} and slower in {slower} of {} by class.",
                counted(own.len(), "comparison")
            )
        })
    };
    let classes: String = (1..test.arms.len()).filter_map(classes).collect();
    format!("Against {}: {}.{classes}", test.arms[0].label, all.join(". "))
}

/// Report page of the test.
pub fn report(test: &Experiment, found: &Findings, version: &str) -> Report {
    let hosts = if test.hosts.is_empty() { "a host".to_owned() } else { counted(test.hosts.len(), "host") };
    let (arms, lines) = rows(test, found);
    let numbers = found.arms.iter().map(|arm| Number {
        label: format!("Retransmitted by {}", arm.label),
        value: per_cent(arm.retransmit_ratio),
        note: counted(arm.connections, "connection"),
        color_key: Some(arm.label.clone()),
    });
    let facts = [
        ("arms", test.labels().join(", ")),
        ("control", test.arms[0].label.clone()),
        ("drawn by", test.by.units().to_owned()),
        ("connections", found.connections.to_string()),
        ("kernel", test.kernel.clone()),
        ("version", format!("bbrlab {version}")),
    ];
    let states = state_rows(found).map(|table| Section {
        id: "states".to_owned(),
        title: "Time in BBR's states".to_owned(),
        claim: STATES_SAID.to_owned(),
        runs_table: Some(table),
        ..Section::default()
    });
    Report {
        title: format!("{} on the users of {hosts}", test.labels().join(", ")),
        subtitle: answer(test, found),
        provenance: Provenance::of_facts(facts),
        numbers: numbers.collect(),
        lead: vec![forest(test, found)],
        sections: [
            Some(Section {
                id: "gains".to_owned(),
                title: "Gains".to_owned(),
                claim: METHOD.to_owned(),
                runs_table: Some(gains(test, found)),
                figures: [false, true].into_iter().filter_map(|is_large| distribution(test, found, is_large)).collect(),
                ..Section::default()
            }),
            Some(Section {
                id: "evidence".to_owned(),
                title: "Evidence for each gain".to_owned(),
                runs_table: Some(lines.keeping(&[0, 1, 2, 7, 8, 9, 10, 11])),
                ..Section::default()
            }),
            Some(Section {
                id: "ranges".to_owned(),
                title: "Gains over size, RTT, time and age".to_owned(),
                claim: RANGES.to_owned(),
                figures: [SegmentBy::Size, SegmentBy::Rtt, SegmentBy::Time, SegmentBy::Age]
                    .into_iter()
                    .filter_map(|over| by_range(test, found, over))
                    .collect(),
                ..Section::default()
            }),
            states,
            Some(Section {
                id: "arms".to_owned(),
                title: "The arms, and whether the test is sound".to_owned(),
                claim: notes(test, found).join("\n\n"),
                runs_table: Some(arms),
                ..Section::default()
            }),
        ]
        .into_iter()
        .flatten()
        .collect(),
        ..Report::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ab::testing::experiment;
    use crate::ab::testing::judge;
    use crate::ab::{AssignmentUnit, PrefixLengths, Prefixes, Row};

    #[test]
    fn a_test_with_nothing_recorded_still_has_a_table_a_page_and_json() {
        let test = experiment(&["cubic", "bbr3"], "50,50");
        let found = judge(&test, &[], &Prefixes::default(), 1);
        let (arms, lines) = rows(&test, &found);
        assert_eq!((arms.rows.len(), lines.rows.len()), (2, 0));
        assert!(arms.rows.iter().all(|row| row.len() == arms.columns.len()));
        assert_eq!(answer(&test, &found), "Against cubic: bbr3: no connection.");
        assert!(bbrlab_report::render(&report(&test, &found, "0")).starts_with("<!doctype html>"));
        assert_eq!(json(&test, &found, "0")["arms"][0]["retransmit_ratio"], Value::Null);
    }

    #[test]
    fn what_was_lost_changed_or_is_the_same_is_said() {
        let mut test = experiment(&["cubic", "cubic"], "50,50");
        test.counts.ring_lost = 1;
        test.splits.push(crate::ab::Change {
            epoch: 2,
            at_unix_s: 60.0,
            why: "ramp".to_owned(),
            ..test.splits[0].clone()
        });
        let row = |id: u64| Row {
            id,
            arm: (id % 2) as u8,
            epoch: 1,
            bytes_acked: 1_000,
            data_segs_out: 1,
            busy_us: 50_000,
            ..Row::default()
        };
        let found = judge(&test, &(0..100).map(row).collect::<Vec<_>>(), &Prefixes::default(), 1);
        let said = notes(&test, &found).join("\n");
        for part in [
            "The split is the requested one, over connections",
            "A/A",
            "1 record of connections were lost",
            "second 60 on: ramp",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(!said.contains("Spang"));
        test.arms[1].name = "bbr".to_owned();
        assert!(notes(&test, &found).join("").contains("Spang"));
    }
    /// Connections over two minutes, in two networks and at two RTTs, each sixth larger; arm 1 takes `factor` of the
    /// time.
    fn drawn(factor: f64) -> Vec<Row> {
        let row = |id: u64| {
            let arm = (id / 2 % 2) as u8;
            let busy_us = (100_000 + id * 131 % 30_011) as f64 * if arm == 1 { factor } else { 1.0 };
            let network = id % 2;
            Row {
                id,
                arm,
                bucket: (id % 10_000) as u16,
                epoch: 1,
                nth: 1,
                begun_unix_ns: id * 100_000_000,
                lasted_us: busy_us as u64,
                client: format!("192.0.{network}.0/24").parse().unwrap(),
                bytes_acked: if id % 6 == 1 { 1_000_000 } else { 100_000 },
                data_segs_out: 70,
                busy_us: busy_us as u64,
                min_rtt_us: 10_000 + 60_000 * network,
                state_us: (arm == 1).then_some([30_000, 10_000, 0, 0, 0, 40_000, 0]),
                ..Row::default()
            }
        };
        (0..1_200).map(row).collect()
    }

    #[test]
    fn gains_are_cut_by_client_size_rtt_time_and_age_in_table_page_and_json() {
        let test = experiment(&["cubic", "bbr3"], "50,50");
        let classes = Prefixes::parse("192.0.0.0/24 home\n198.51.100.0/24 nobody\n", PrefixLengths::default()).unwrap();
        let found = judge(&test, &drawn(0.8), &classes, 1);
        let (_, lines) = rows(&test, &found);
        let named: Vec<&str> = lines.rows.iter().map(|row| row[0].as_str()).collect();
        for name in ["all", "clients home", "300 kB to 3 MB", "RTT 50 to 100 ms", "begun at 0 to 20 s", "age below 1 s"]
        {
            let row = named.iter().position(|one| *one == name).map(|at| &lines.rows[at]);
            assert!(row.is_some_and(|row| row[6] == "faster"), "{name}: {named:?}");
            assert_eq!(row.is_some_and(|row| row[1] == "throughput"), name.starts_with("age"));
        }
        assert!(!named.contains(&"clients nobody"));
        assert!(notes(&test, &found).contains(&"600 connections are in no network of the classes.".to_owned()));
        let value = json(&test, &found, "0");
        let time = value["gains"].as_array().unwrap().iter().find(|line| line["over"] == "time").unwrap();
        assert_eq!((&time["from"], &time["below"], &time["unit_of_range"]), (&json!(0.0), &json!(20.0), &json!("s")));
        assert_eq!(value["arms"][0]["state_shares"], Value::Null);
        assert_eq!(value["arms"][1]["state_shares"]["probe_bw_cruise"], json!(0.5));
        assert_eq!(
            state_rows(&found).unwrap().rows,
            [["bbr3", "37.5 %", "12.5 %", "0 %", "0 %", "0 %", "50 %", "0 %"]]
        );
        let page = report(&test, &found, "0");
        assert!(page.sections.iter().any(|section| section.id == "states"));
        let evidence = page.sections[1].runs_table.as_ref().unwrap();
        assert_eq!(evidence.columns[2..5], ["arm", "always valid", "p, corrected"]);
        assert_eq!(evidence.columns[5..], ["detectable gain", "connections", "control's"]);
        let figures: Vec<&str> = page.sections[2].figures.iter().map(|figure| figure.title.as_str()).collect();
        assert_eq!(figures, ["Gain over size", "Gain over RTT", "Gain over time"]);
    }

    #[test]
    fn slots_that_connections_outlast_are_warned_of() {
        let mut test = experiment(&["cubic", "bbr3"], "50,50");
        test.by = AssignmentUnit::Time;
        let rows = drawn(0.8);
        let outlasting = |test: &Experiment, rows: &[Row]| {
            let found = judge(test, rows, &Prefixes::default(), 1);
            notes(test, &found).iter().any(|note| note.contains("longer than a slot"))
        };
        assert!(!outlasting(&test, &rows));
        test.slot_s = 0.1;
        assert!(outlasting(&test, &rows));
    }
}
