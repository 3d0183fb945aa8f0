//! The policy that a test supports, class by class, as `bbrlab host policy` reads it.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write as _;

use super::page::what;
use super::{Comparison, Experiment, Findings, Prefixes, SegmentBy};
use crate::judgement::Judgement;
use crate::policy_file;
use bbrlab_stats::number::gain;
use bbrlab_stats::plural::counted;

/// Verdict of all comparisons of a class.
struct Evidence<'a> {
    class: &'a str,
    over: SegmentBy,
    /// Bounds of a range of RTT, µs.
    range: (u64, u64),
    /// The arm that is faster by one measure and slower by none; the fastest of several.
    better: Option<usize>,
    lines: Vec<&'a Comparison>,
}

/// Gathers the comparisons of each class that a rule can name: networks, ports, ranges of RTT and, last, all.
fn evidence(found: &Findings) -> Vec<Evidence<'_>> {
    let mut all: Vec<Evidence<'_>> = Vec::new();
    let order = [SegmentBy::Clients, SegmentBy::Port, SegmentBy::Rtt, SegmentBy::All];
    for line in order.iter().flat_map(|over| found.lines.iter().filter(move |line| line.class.over == *over)) {
        let class = &line.class;
        match all.iter_mut().find(|one| one.over == class.over && one.class == class.name) {
            Some(one) => one.lines.push(line),
            None => all.push(Evidence {
                class: &class.name,
                over: class.over,
                range: (class.from, class.below),
                better: None,
                lines: vec![line],
            }),
        }
    }
    for one in &mut all {
        let says =
            |arm: usize, what: Judgement| one.lines.iter().any(|line| line.arm == arm && line.judgement() == what);
        let gain = |arm: usize| {
            let own = one.lines.iter().filter(|line| line.arm == arm && line.judgement() == Judgement::Faster);
            own.map(|line| line.gain).fold(0.0, f64::max)
        };
        let arms = (0..found.arms.len()).filter(|&arm| says(arm, Judgement::Faster) && !says(arm, Judgement::Slower));
        one.better = arms.max_by(|&a, &b| gain(a).total_cmp(&gain(b)));
    }
    all
}

/// Writes a policy with a rule for each class in which an arm is faster by one measure and slower by none. The evidence
/// stands beside each rule; classes without evidence keep the default.
pub fn policy(test: &Experiment, found: &Findings, prefixes: &Prefixes, version: &str) -> String {
    let control = &test.arms[0].algorithm;
    let mut text = format!(
        "# Made by bbrlab {version} from a test of {} with {}.\n",
        test.labels().join(", "),
        counted(found.connections, "connection")
    );
    let doubts = [
        found.ratio.is_mismatch() || found.exclusion.differs(),
        found.shared.iter().any(|one| one.is_shared()),
        test.is_aa(),
    ];
    let why = [
        "the arms did not get their shares, or differ in what was left out",
        "the arms share bottlenecks, so the gains are not those of a full switch",
        "all arms are the same",
    ];
    for (_, why) in doubts.iter().zip(why).filter(|(is_so, _)| **is_so) {
        let _ = writeln!(text, "# No rule: {why}. See `bbrlab ab report`.");
    }
    let may_rule = !doubts.contains(&true);
    let _ = writeln!(text, "default = {control:?}");
    let mut rules = 0;
    let all = evidence(found);
    let general = all.iter().find(|one| one.over == SegmentBy::All).and_then(|one| one.better);
    for one in &all {
        text.push('\n');
        for line in one.lines.iter().filter(|line| line.judgement().is_judged()) {
            let _ = writeln!(
                text,
                "# {}, {}: {} {}, {}; {} and {} connections",
                one.class,
                what(line),
                test.arms[line.arm].label,
                line.judgement(),
                gain(line.gain, line.low, line.high),
                line.counts[0],
                line.counts[1]
            );
        }
        // Where the rule for all would do harm, a rule before it keeps the default.
        let is_harmed =
            |arm: usize| one.lines.iter().any(|line| line.arm == arm && line.judgement() == Judgement::Slower);
        let exception = general.filter(|&arm| is_harmed(arm)).map(|_| 0);
        let Some(arm) = one.better.or(exception).filter(|_| may_rule) else {
            let _ = writeln!(text, "# {}: keep the default; there is no evidence for another.", one.class);
            continue;
        };
        rules += 1;
        let _ = writeln!(text, "[[rule]]\nname = {:?}", one.class);
        match one.over {
            SegmentBy::Clients => {
                let networks = prefixes.networks_of(one.class.strip_prefix("clients ").unwrap_or(one.class));
                let _ = writeln!(text, "clients = {networks:?}");
            }
            SegmentBy::Port => {
                let _ = writeln!(text, "ports = [{}]", one.class.strip_prefix("port ").unwrap_or_default());
            }
            SegmentBy::Rtt => {
                let bounds =
                    [(">=", one.range.0), ("<", one.range.1)].into_iter().filter(|(_, us)| (2..u64::MAX).contains(us));
                let bounds: Vec<String> = bounds.map(|(sign, us)| format!("{sign} {}ms", us as f64 / 1e3)).collect();
                let _ = writeln!(text, "rtt = {:?}", bounds.join(", "));
            }
            _ => {}
        }
        text += &policy_file::algorithm(&test.arms[arm].algorithm, arm > 0);
    }
    if rules == 0 {
        text += &policy_file::keep_default(control);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ab::testing::experiment;
    use crate::ab::testing::judge;
    use crate::ab::{PrefixLengths, Row};

    /// Two networks at two RTTs; arm 1 takes `factor` of the time in the second.
    fn drawn(factor: f64) -> Vec<Row> {
        let row = |id: u64| {
            let (arm, network) = ((id / 2 % 2) as u8, id % 2);
            let busy_us = (100_000 + id * 131 % 30_011) as f64 * if arm == 1 && network == 1 { factor } else { 1.0 };
            Row {
                id,
                arm,
                epoch: 1,
                nth: 1,
                begun_unix_ns: id * 2_000_000_000,
                lasted_us: busy_us as u64,
                client: format!("192.0.{network}.0/24").parse().unwrap(),
                bytes_acked: 1_000_000,
                data_segs_out: 700,
                busy_us: busy_us as u64,
                min_rtt_us: 10_000 + 60_000 * network,
                ..Row::default()
            }
        };
        (0..1_200).map(row).collect()
    }

    #[test]
    fn a_policy_has_a_rule_where_there_is_evidence_and_the_default_elsewhere() {
        let test = experiment(&["cubic", "bbr3-linux"], "50,50");
        let classes = Prefixes::parse("192.0.0.0/24 home\n192.0.1.0/24 far\n", PrefixLengths::default()).unwrap();
        let text = policy(&test, &judge(&test, &drawn(0.7), &classes, 1), &classes, "0");
        let rule = "[[rule]]\nname = \"clients far\"\nclients = [\"192.0.1.0/24\"]\nalgorithm = \"bbr3-linux\"\nholdout = \"2%\"\n";
        assert!(text.contains(rule), "{text}");
        assert!(text.contains("rtt = \">= 50ms, < 100ms\"\n"), "{text}");
        assert!(text.contains("# clients home: keep the default; there is no evidence for another.\n"), "{text}");
        assert!(text.starts_with(
            "# Made by bbrlab 0 from a test of cubic, bbr3-linux with 1200 connections.\ndefault = \"cubic\"\n"
        ));
        let slower = policy(&test, &judge(&test, &drawn(1.0), &classes, 1), &classes, "0");
        assert!(slower.contains("# Keep the default: no class") && slower.matches("[[rule]]").count() == 1, "{slower}");
        let aa = experiment(&["cubic", "cubic"], "50,50");
        let text = policy(&aa, &judge(&aa, &drawn(0.7), &classes, 1), &classes, "0");
        assert!(text.contains("# No rule: all arms are the same.") && !text.contains("holdout"), "{text}");
    }
}
