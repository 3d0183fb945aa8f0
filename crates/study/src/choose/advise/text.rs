//! Words about an advice: verdict, reasons and warnings, as the command and its page have them.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fmt::Write as _;

use bbrlab_stats::number::{or_dash, significant};

use super::{Advice, Agreement, Candidate, DRAWS_LEAST, Figure, Reason, SERVES, SURE, WORTH_A_CHANGE};
use crate::choose::objective::Objective;
use crate::comparison::Interval;

/// Share of their fair share, in per cent, below which rivals count as starved. Ours.
const STARVED: f64 = 50.0;
/// Fraction of the rivals' share under the current algorithm below which a choice causes a warning. Ours.
const TAKES: f64 = 0.8;

pub fn ratio(interval: &Interval) -> String {
    if !interval.is_known() {
        return "–".to_owned();
    }
    format!("×{:.2} ({:.2}…{:.2})", interval.middle, interval.low, interval.high)
}

/// Three significant digits: the interval of a few paths is wider than a fourth digit.
pub fn number(value: f64) -> String {
    or_dash(value, |value| significant(value, 3))
}

/// Definition of the score and of the runs.
pub fn footnote(advice: &Advice, objective: Objective) -> String {
    let lasts = match advice.seconds {
        (low, high) if number(low) == number(high) => number(low),
        (low, high) => format!("{} to {}", number(low), number(high)),
    };
    let quality = match advice.is_application {
        true => "quality of the call, (MOS − 1)/3.5, or of the video, QoE over its highest bitrate".to_owned(),
        false => format!("goodput within the fair share × (base RTT/RTT p50)^{}", objective.delay),
    };
    format!(
        "Score: {quality} × (1 − retransmitted)^{} × (rivals' fraction of their fair share)^{}, each at most 1. {} paths with the \
         same random numbers for each algorithm, simulated for {lasts} s; figures are means, in brackets 95 % intervals.\n",
        objective.repeats,
        objective.others,
        advice.paths.len()
    )
}

/// Figures shown as a ratio: index in [`Figure::ALL`] and heading.
pub const fn compared(advice: &Advice) -> [(usize, &'static str); 4] {
    const OTHERS: [(usize, &str); 3] = [(2, "RTT p50"), (5, "retransmitted"), (6, "rivals get")];
    let first = if advice.is_application { (7, "quality") } else { (0, "goodput") };
    [first, OTHERS[0], OTHERS[1], OTHERS[2]]
}

/// Figures of an advice, by index in [`Figure::ALL`]: of a bulk transfer its share, of an application its quality.
pub fn figures(advice: &Advice) -> impl Iterator<Item = usize> {
    let other = if advice.is_application { Figure::FairShare } else { Figure::Quality };
    (0..Figure::ALL.len()).filter(move |&nth| Figure::ALL[nth] != other)
}

/// A share of resampled populations, never shown as all of them, because few paths are resampled.
pub fn share(share: f64) -> String {
    match 100.0 * share {
        share if share > 99.0 => "> 99 %".to_owned(),
        share if share < 1.0 => "< 1 %".to_owned(),
        share => format!("{share:.0} %"),
    }
}

/// The verdict in a few words.
pub fn verdict(advice: &Advice) -> String {
    let choice = &advice.candidates[advice.choice].flow;
    match advice.choice {
        _ if is_off(advice) || !advice.serves() => "No advice".to_owned(),
        _ if !advice.is_clear() => "No clear winner".to_owned(),
        0 => format!("Keep {choice}"),
        _ => format!("Use {}", tied(advice)),
    }
}

/// The choice and the candidates tied with it: `bbr3 or bbr1`.
fn tied(advice: &Advice) -> String {
    let names: Vec<&str> = advice.tied.iter().map(|&one| advice.candidates[one].flow.as_str()).collect();
    let choice = &advice.candidates[advice.choice].flow;
    match names.split_last() {
        None => choice.clone(),
        Some((last, [])) => format!("{choice} or {last}"),
        Some((last, others)) => format!("{choice}, {} or {last}", others.join(", ")),
    }
}

/// True if the simulation of the algorithm in use contradicts the measurement.
fn is_off(advice: &Advice) -> bool {
    advice.agreement.is_some_and(|agreement| agreement.is_off())
}

/// The algorithm in use, simulated and measured.
fn beside(advice: &Advice, agreement: &Agreement) -> String {
    let ([own, seen], [again, again_seen]) = (agreement.rtt_ratio, agreement.retransmit_ratio);
    format!(
        "{} simulated on {} drawn paths: RTT {} × the base RTT (measured {} ×), goodput {} % of the measured, {} % retransmitted \
         (measured {} %)",
        advice.candidates[0].flow,
        agreement.paths,
        number(own),
        number(seen),
        number(100.0 * agreement.goodput),
        number(100.0 * again),
        number(100.0 * again_seen)
    )
}

pub fn headline(advice: &Advice, objective: Objective) -> String {
    let (current, choice) = (&advice.candidates[0], &advice.candidates[advice.choice]);
    let within = format!("{:.0} %", 100.0 * WORTH_A_CHANGE);
    let is_few = (advice.paths.len() as u64) < DRAWS_LEAST;
    let sure = match advice.sure {
        _ if is_few => {
            format!("not enough data: {} paths are too few to be sure; draw more with --draws", advice.paths.len())
        }
        sure if sure >= SURE => format!("sure: best, or within {within} of it, in {} of resampled paths", share(sure)),
        sure => format!("best, or within {within} of it, in {} of resampled paths", share(sure)),
    };
    if let Some(agreement) = advice.agreement.as_ref().filter(|agreement| agreement.is_off()) {
        return format!(
            "No advice: the simulation contradicts the measurement. {}. The paths are others than those that were measured: policed, \
             limited by the receiver, or shared with traffic that is not in the measurement.",
            beside(advice, agreement)
        );
    }
    if !advice.serves() {
        return format!(
            "No advice: no algorithm serves the objective {} on these paths; every score is below {SERVES}.",
            objective.name
        );
    }
    let is_sure = advice.is_clear() || is_few;
    if advice.choice == 0 && !is_sure {
        return format!("No clear winner for the objective {} ({sure}); keep {}.", objective.name, current.flow);
    }
    if advice.choice == 0 {
        return format!(
            "Don't change: {} is the best here, or within {within} of it, for the objective {} ({sure}).",
            current.flow, objective.name
        );
    }
    let percent = |ratio: f64| format!("{:+.0} %", 100.0 * (ratio - 1.0));
    let gain = choice.score_gain;
    // Advice that another draw of paths would not give is not presented as certain.
    let lead = match is_sure {
        true if advice.tied.is_empty() || is_few => format!("Use {} instead of {}: it", choice.flow, current.flow),
        true => format!("Use {} instead of {}: {}", tied(advice), current.flow, choice.flow),
        false => format!("No clear winner: {} against {}", choice.flow, current.flow),
    };
    format!(
        "{lead} scores {} ({} … {}) for the objective {} ({sure}).",
        percent(gain.middle),
        percent(gain.low),
        percent(gain.high),
        objective.name
    )
}

/// Formats the figures that decided; the table holds each of them.
pub fn why(advice: &Advice) -> String {
    if !advice.serves() {
        return "on these paths all candidates fail.".to_owned();
    }
    let base = &advice.candidates[0].flow;
    let one = &advice.candidates[if advice.choice == 0 { second(advice) } else { advice.choice }];
    let paths = advice.paths.len();
    let by = 100.0 * (one.score_gain.middle - 1.0);
    let scores = if advice.choice == 0 && by > 0.0 {
        format!("{}, the next best, scores only {by:.1} % more than {base}", one.flow)
    } else if advice.choice == 0 {
        format!("{}, the next best, scores {:.1} % less than {base}", one.flow, by.abs())
    } else {
        format!("{} scores {by:.0} % more than {base}", one.flow)
    };
    let (gains, costs): (Vec<&Reason>, Vec<&Reason>) = one.reasons.iter().partition(|reason| reason.part > 0.0);
    let list =
        |reasons: &[&Reason]| reasons.iter().map(|reason| said(reason, &one.flow, base)).collect::<Vec<_>>().join("; ");
    let mut text = format!("{scores}; it is better on {} of {paths} paths.", one.better_on);
    if !gains.is_empty() {
        let _ = write!(text, " Advantages: {}.", list(&gains));
    }
    if !costs.is_empty() {
        let _ = write!(text, " Disadvantages: {}.", list(&costs));
    }
    text
}

/// Formats one reason, with its effect on the score.
fn said(reason: &Reason, own: &str, other: &str) -> String {
    let (a, b) = (number(reason.own), number(reason.other));
    let part = format!("{:+.0} % of score", 100.0 * reason.part);
    let part = if reason.part.abs() < 0.01 { format!("{:+.1} % of score", 100.0 * reason.part) } else { part };
    match reason.figure {
        Figure::FairShare | Figure::Goodput => {
            format!("{own} reaches {a} % of its fair share, {other} {b} % ({part})")
        }
        Figure::RttRatio | Figure::RttP50 | Figure::RttP95 => {
            format!("its RTT is {a} times the base RTT, {other}'s {b} times ({part})")
        }
        Figure::Retransmitted => format!("it retransmits {a} %, {other} {b} % ({part})"),
        Figure::Quality => format!("{own} has a quality of {a} %, {other} {b} % ({part})"),
        Figure::Others => format!("its rivals get {a} % of their fair share, with {other} {b} % ({part})"),
    }
}

/// The simulation of the algorithm in use held against the measurement, if there is one.
pub fn checked(advice: &Advice) -> Option<String> {
    advice.agreement.as_ref().map(|agreement| beside(advice, agreement))
}

/// Warnings: large effects on others, and other caveats.
pub fn warnings(advice: &Advice) -> Vec<String> {
    const OTHERS: usize = 6;
    let current = &advice.candidates[0];
    let mut found = Vec::new();
    if advice.choice != 0 && advice.paths.iter().all(|path| path.rivals.is_empty()) {
        found.push(
            "no path had a rival, so this does not show what the choice takes from other flows; use --rivals 0..2."
                .to_owned(),
        );
    }
    let starves =
        |one: &Candidate| one.figures[OTHERS] < STARVED || (one.flow != current.flow && one.gain[OTHERS].high < TAKES);
    for one in &advice.candidates {
        let is_choice = one.flow == advice.candidates[advice.choice].flow;
        if one.flow.starts_with("bbr") && starves(one) {
            found.push(format!(
                "{}{} leaves its rivals {} % of their fair share{}.",
                one.flow,
                if is_choice { "" } else { ", which is not advised here," },
                number(one.figures[OTHERS]),
                if one.flow == current.flow {
                    String::new()
                } else {
                    format!("; {} leaves them {} %", current.flow, number(current.figures[OTHERS]))
                }
            ));
        }
    }
    found
}

/// The best candidate that is not in use.
fn second(advice: &Advice) -> usize {
    (1..advice.candidates.len())
        .max_by(|&a, &b| advice.candidates[a].score.total_cmp(&advice.candidates[b].score))
        .unwrap_or(0)
}
