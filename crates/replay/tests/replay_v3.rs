//! Google's BBRv3 in a real kernel, call by call, compared with core's `bbr3-linux`: the whole state equal after every ACK.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs;
use std::path::PathBuf;

use bbrlab_core::Rng;
use bbrlab_replay::{DRAWN, DRAWN_UNTOLD, Difference, Error, Report, replay_bytes, unpack};

fn packed(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/v3").join(format!("{name}.log.xz"));
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn text(name: &str) -> String {
    String::from_utf8(unpack(&packed(name)).unwrap().into_owned()).unwrap()
}

fn report(bytes: &[u8]) -> Report {
    replay_bytes(bytes).unwrap().1
}

/// Replays a log, and asserts that it is equal and contains each of these events.
fn holds(name: &str, events: &[&str]) -> Report {
    let report = report(&packed(name));
    assert!(report.is_equal(), "{name}: {:#?}", report.difference);
    for event in events {
        assert!(report.events.contains_key(event), "{name} has no {event:?}, but {:?}", report.events);
    }
    assert!(report.acks > 1_000 && report.outputs > 29 * (report.acks - report.flows), "{name}: {report:?}");
    report
}

fn difference(text: &str) -> Difference {
    report(text.as_bytes()).difference.expect("a difference")
}

/// Returns the text with each value of these keys changed, on lines of these kinds.
fn changed(text: &str, kinds: &[&str], keys: &[&str], change: impl Fn(u32) -> u32) -> String {
    let line = |line: &str| {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        if kinds.contains(&words[0].as_str()) {
            for at in 2..words.len() - 1 {
                if keys.contains(&words[at].as_str()) {
                    words[at + 1] = change(words[at + 1].parse().unwrap()).to_string();
                }
            }
        }
        words.join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn replay_of_a_policed_flow_equals_the_kernel() {
    let report =
        holds("policer", &["PROBE_RTT", "super-packet marked lost", "loss episode begins", "app-limited sample"]);
    assert_eq!(report.explained[DRAWN], 6);
}

#[test]
fn replay_of_flows_that_share_a_path_equals_the_kernel() {
    assert_eq!(holds("six", &["DRAIN", "super-packet marked lost"]).flows, 4);
}

#[test]
fn replay_of_an_on_off_application_equals_the_kernel() {
    holds("onoff", &["restart from idle", "packet marked lost"]);
}

#[test]
fn replay_of_requests_with_tail_losses_equals_the_kernel() {
    holds("req", &["loss repaired by a tail loss probe", "app-limited sample", "restart from idle"]);
}

#[test]
fn every_recorded_log_is_replayed() {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/v3");
    let mut there: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    there.retain(|name| name.ends_with(".xz"));
    there.sort();
    assert_eq!(there, ["onoff.log.xz", "policer.log.xz", "req.log.xz", "six.log.xz"]);
}

/// Goal: a comparison that can't fail proves nothing.
#[test]
fn every_value_of_a_state_counts() {
    let text = text("policer");
    let lines: Vec<&str> = text.lines().take(2_000).collect();
    let nth = (1_500..).find(|nth| lines[*nth].starts_with("V3S") && lines[*nth].contains(" m2 ")).unwrap();
    let words: Vec<&str> = lines[nth].split(' ').collect();
    for at in 3..words.len() {
        let end = words[at].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |end| end + 1);
        let (key, number) = words[at].split_at(end);
        let number: u64 = number.parse().unwrap();
        let mut edited: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        edited[at] = format!("{key}{}", if number > 0 { number - 1 } else { 1 });
        let mut log = lines.clone();
        let line = edited.join(" ");
        log[nth] = &line;
        let found = difference(&log.join("\n"));
        assert_eq!((found.record, found.unit), (nth + 1, "line"), "{}: {found:?}", words[at]);
        assert!(found.context.last().unwrap().starts_with(&format!("{} V3S", nth + 1)));
    }
}

#[test]
fn an_input_that_is_off_shows_in_the_state() {
    let text = text("policer");
    for (kind, key) in [("V3A", "as"), ("V3A", "los"), ("V3A", "tif"), ("V3L", "tif"), ("V3L", "lost"), ("V3L", "pc")] {
        let found = report(changed(&text, &[kind], &[key], |value| value + 1).as_bytes()).difference;
        assert!(found.is_some(), "{kind} {key}");
    }
}

#[test]
fn counters_may_wrap() {
    let text = text("policer");
    for back in [3, 2_000, 5_000] {
        let delivered = changed(&text, &["V3I", "V3A", "V3L"], &["D", "pd"], |value| value.wrapping_sub(back));
        assert!(report(delivered.as_bytes()).is_equal(), "delivered begins at -{back}");
    }
    let first: u32 = text.split(" j ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    for passed in [10, 700, 1_400] {
        let ticks = changed(&text, &["V3I", "V3A"], &["j"], |tick| tick.wrapping_sub(first).wrapping_sub(passed));
        assert!(report(ticks.as_bytes()).is_equal(), "jiffies wrap after {passed} ticks");
    }
}

#[test]
fn a_log_without_its_draws_takes_them_from_the_states() {
    let without: Vec<String> =
        text("policer").lines().filter(|line| !line.starts_with("V3D")).map(str::to_owned).collect();
    let report = report(without.join("\n").as_bytes());
    assert!(report.is_equal(), "{:#?}", report.difference);
    assert_eq!(report.explained[DRAWN_UNTOLD], 6);
}

#[test]
fn flows_are_told_apart_by_their_ports() {
    let text = text("req");
    let twice: Vec<String> =
        text.lines().flat_map(|line| [line.to_owned(), line.replacen("10000", "10001", 1)]).collect();
    let report = report(twice.join("\n").as_bytes());
    assert!(report.is_equal() && report.flows == 2, "{:#?}", report.difference);
}

#[test]
fn a_port_may_serve_a_second_connection() {
    let text = text("req");
    let report = report(format!("{text}{text}").as_bytes());
    assert!(report.is_equal() && report.flows == 2, "{:#?}", report.difference);
}

#[test]
fn a_log_that_lacks_a_line_is_refused_or_different() {
    let text = text("req");
    let without = |kind: &str| -> String {
        let mut left: Vec<&str> = text.lines().collect();
        let gone = left.iter().rposition(|line| line.starts_with(kind)).unwrap();
        left.remove(gone);
        left.join("\n")
    };
    assert!(replay_bytes(without("V3I").as_bytes()).unwrap_err().to_string().contains("its V3I is missing"));
    assert!(replay_bytes(without("V3A").as_bytes()).unwrap_err().to_string().contains("without an ACK before it"));
    assert!(report(without("V3L").as_bytes()).difference.is_some());
    assert_eq!(difference(&without("V3H")).output, "ssthresh asked");
}

/// A log may come from anyone: whatever it holds, replay reports it equal, different or invalid, and nothing panics.
#[test]
fn invalid_words_never_panic() {
    let text = text("six");
    let lines: Vec<&str> = text.lines().take(3_000).collect();
    let odd = ["0", "1", "4", "255", "2147483647", "4294967295", "-1", "9223372036854775807", "x", ""];
    let mut rng = Rng::new(3);
    for _ in 0..300 {
        let mut log: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        for _ in 0..=rng.below(3) {
            let nth = rng.below(log.len() as u64) as usize;
            let mut words: Vec<String> = log[nth].split(' ').map(str::to_owned).collect();
            let at = rng.below(words.len() as u64) as usize;
            odd[rng.below(odd.len() as u64) as usize].clone_into(&mut words[at]);
            log[nth] = words.join(" ");
        }
        if let Err(error) = replay_bytes(log.join("\n").as_bytes()) {
            assert!(matches!(error, Error::Line(_)) && !error.to_string().contains('\n'), "{error}");
        }
    }
}

/// Between two states, any calls may occur, with any numbers.
#[test]
fn calls_that_no_kernel_makes_never_panic() {
    let text = text("six");
    let lines: Vec<&str> = text.lines().collect();
    let first = |kind: &str| *lines.iter().find(|line| line.starts_with(kind)).unwrap();
    let begin = [lines[2], "V3U 10000 now 1 cw 1", "V3T 10000 now 1 al 0 D 1", "V3D 10000 rs 0 pw 2000000"];
    let calls = [begin[1], begin[2], begin[3], first("V3L"), first("V3H"), first("V3C"), first("V3X"), lines[2]];
    let odd = ["0", "1", "3", "4", "40", "2147483647", "4294967295", "-1", "2305843009213693951"];
    let mut rng = Rng::new(4);
    let mut answered = 0;
    for _ in 0..3_000 {
        let mut log = vec![lines[2].to_owned()];
        for nth in 0..=rng.below(40) {
            let call = if nth == 0 { lines[2] } else { calls[rng.below(calls.len() as u64) as usize] };
            let mut words: Vec<String> = call.split(' ').map(str::to_owned).collect();
            if rng.below(8) == 0 {
                let at = 3 + 2 * rng.below((words.len() as u64 - 2) / 2) as usize;
                odd[rng.below(odd.len() as u64) as usize].clone_into(&mut words[at]);
            }
            log.push(words.join(" "));
        }
        let mut words: Vec<&str> = lines[4].split(' ').collect();
        for _ in 0..rng.below(6) {
            let at = 3 + 2 * rng.below((words.len() as u64 - 2) / 2) as usize;
            words[at] = odd[rng.below(odd.len() as u64) as usize];
        }
        log.extend([words.join(" "), lines[5].to_owned()]);
        match replay_bytes(log.join("\n").as_bytes()) {
            Ok(_) => answered += 1,
            Err(error) => assert!(matches!(error, Error::Line(_)) && !error.to_string().contains('\n'), "{error}"),
        }
    }
    assert!(answered > 300, "{answered}");
}
