//! A study's report: method, gains by class with intervals, curves over time, distributions, maps.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use serde_json::{Value, json};

use super::summary::{SummaryLine, lines};
use super::{Gain, Segment, Study, answer};
use crate::comparison::{
    Candidate, Interval, SpeedLine, cumulative, distribution_help, gains_over, judged, no_gain, share_axis,
    speed_table, speed_unit, value_axis,
};
use crate::judgement::Judgement;
use bbrlab_report::{Axis, Figure, Heat, Panel, Provenance, Report, Scale, Section, Series, Style, Table};
use bbrlab_stats::median;
use bbrlab_stats::number::{gain, hundredths, or_dash, significant};
use bbrlab_stats::quantile::nearest_rank;

/// Boundaries of the object sizes, bytes. Ours; 3 MB is the study's.
const SIZES: [f64; 9] = [0.0, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7, 3e7, 1e15];
/// Boundaries of the share retransmitted under the control. Ours.
const RETRANSMITS: [f64; 8] = [0.0, 1e-9, 0.002, 0.005, 0.01, 0.02, 0.05, 1.1];
/// Boundaries of the RTT, ms. Ours.
const RTTS: [f64; 7] = [0.0, 5.0, 25.0, 50.0, 100.0, 200.0, 1e9];
/// Boundaries of the connection age, seconds. Ours.
const AGES: [f64; 8] = [0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 1e9];
/// Percentiles at which distributions are compared.
const PERCENTILES: [u32; 19] = [5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95];
/// Minimum users behind a cell of a map or a point of a curve. Ours: three have a median and an interval.
const USERS_MIN: usize = 3;

/// Summary table: columns and rows.
pub fn rows(study: &Study) -> Table {
    let control = study.control();
    let columns = [
        "class",
        "judged by",
        "algorithm",
        "median",
        "control's",
        "gain, same users",
        "verdict",
        "rivals' rate",
        "gain, A/B split",
        "retransmitted",
        "control's",
        "users",
        "objects",
    ];
    let row = |line: SummaryLine| {
        let cut = Segment::judged(line.class, line.is_large);
        let middle = |arm: usize| middle_of(study, arm, &cut, line.is_large);
        let again = |arm: usize| format!("{} %", hundredths(100.0 * study.retransmit_ratio(arm, &cut)));
        vec![
            study.design.classes[line.class].label(),
            if line.is_large { "throughput, from 3 MB" } else { "completion, below 3 MB" }.to_owned(),
            study.design.algorithms[line.arm].clone(),
            middle(line.arm),
            middle(control),
            shown(&line.paired),
            said(line.paired.judgement()),
            shown(&study.rivals(line.arm, &Segment { class: Some(line.class), ..Segment::default() })),
            shown(&line.split),
            again(line.arm),
            again(control),
            line.paired.users.to_string(),
            line.paired.objects.to_string(),
        ]
    };
    let rows = lines(study).into_iter().map(row).collect();
    Table { columns: columns.map(str::to_owned).to_vec(), rows }
}

/// Table of the gains of the same users, as other comparisons show theirs.
fn gains(study: &Study) -> Table {
    let (control, algorithms) = (study.control(), &study.design.algorithms);
    let line = |line: SummaryLine| {
        let cut = Segment::judged(line.class, line.is_large);
        let Gain { gain: middle, low, high, .. } = line.paired;
        SpeedLine {
            class: study.design.classes[line.class].label(),
            is_throughput: line.is_large,
            candidate: line.arm,
            medians: [line.arm, control].map(|arm| middle_of(study, arm, &cut, line.is_large)),
            gain: Interval { middle, low, high },
            outcome: said(line.paired.judgement()),
        }
    };
    speed_table(&algorithms[control], &algorithms[..control], lines(study).into_iter().map(line))
}

/// Median of an arm with its unit.
fn middle_of(study: &Study, arm: usize, cut: &Segment, is_large: bool) -> String {
    let value = median(&mut study.values(arm, cut, is_large));
    or_dash(value, |value| format!("{} {}", hundredths(value), speed_unit(is_large)))
}

/// The columns of the summary that the table of gains does not have.
fn details(study: &Study) -> Section {
    let table = rows(study).keeping(&[0, 1, 2, 7, 8, 9, 10, 11, 12]);
    Section {
        id: "details".to_owned(),
        title: "Rivals, the A/B split, and retransmissions".to_owned(),
        runs_table: Some(table),
        ..Section::default()
    }
}

/// Formats a gain with its interval: `+6.1 % (+2 to +9.7)`.
fn shown(of: &Gain) -> String {
    gain(of.gain, of.low, of.high)
}

/// Builds the whole report.
pub fn report(study: &Study, title: &str, version: &str) -> Report {
    let sections = std::iter::once(section(study))
        .chain(std::iter::once(details(study)))
        .chain((0..study.design.classes.len()).map(|class| class_section(study, class)))
        .collect();
    Report {
        title: title.to_owned(),
        subtitle: answer::answer(study),
        provenance: Provenance::of_facts([
            ("compared", study.design.algorithms.join(", ")),
            ("users", study.users.len().to_string()),
            ("ran in", "the simulator".to_owned()),
            ("seed", study.seed.to_string()),
            ("version", format!("bbrlab {version}")),
        ]),
        numbers: answer::numbers(study),
        lead: vec![answer::forest(study)],
        sections,
        ..Report::default()
    }
}

/// Section with the method, the summary, and maps of the gain over size, age, RTT and retransmissions.
pub fn section(study: &Study) -> Section {
    let design = &study.design;
    let tested = design.algorithms[..study.control()].join(" and ");
    let control = &design.algorithms[study.control()];
    let open: usize = (0..design.algorithms.len()).map(|arm| study.unfinished(arm, &Segment::default())).sum();
    let cut_off = match open {
        0 => String::new(),
        n => format!(" {n} objects were incomplete when their connection ended; they count with the time until then."),
    };
    Section {
        id: "cdn".to_owned(),
        title: "Method and results".to_owned(),
        claim: format!(
            "Each of {} users has a bottleneck of its own and fetches objects over it, once under each algorithm with the \
             same random numbers: {tested} against {control}. Objects below 3 MB are judged by their completion time, larger ones by \
             throughput; a gain of 10 % is a tenth faster either way. A user counts once, with the geometric mean over \
             its objects; the gain is the median over users, with a 95 % bootstrap interval over users. Beside it stands \
             what rivals on the same path get while the user is served, against what they get beside {control}; and \
             what an operator sees who cannot run a user twice: from {} on, part of the users are served by hosts that \
             run {}, and the medians of both groups are compared.{cut_off}",
            study.users.len(),
            clock(design.activation_s),
            design.algorithms[0],
        ),
        heats: std::iter::once(headline(study)).chain(heats(study)).collect(),
        runs_table: Some(gains(study)),
        ..Section::default()
    }
}

/// Map of every class's gain with its interval, for the same users and as an A/B split would measure it.
fn headline(study: &Study) -> Heat {
    let lines = lines(study);
    let name = |line: &SummaryLine| {
        let arm = if study.control() > 1 { format!(", {}", study.design.algorithms[line.arm]) } else { String::new() };
        format!("{}, {}{arm}", study.design.classes[line.class].label(), judged(line.is_large))
    };
    let cells = |line: &SummaryLine| {
        [&line.paired, &line.split].map(|g| [g.gain, g.low, g.high].map(|part| 1.0 + part)).concat()
    };
    Heat {
        title: format!("How much faster than {}", study.design.algorithms[study.control()]),
        x: "gain".to_owned(),
        y: "class and judged by".to_owned(),
        xs: ["same users", "from", "to", "A/B split", "from", "to"].map(str::to_owned).to_vec(),
        ys: lines.iter().map(name).collect(),
        unit: "×".to_owned(),
        scale: Scale::AroundOne,
        cells: lines.iter().map(cells).collect(),
    }
}

/// Names an outcome; a unit of assignment is a user here.
fn said(judgement: Judgement) -> String {
    match judgement {
        Judgement::TooFew => "too few users".to_owned(),
        judgement => judgement.to_string(),
    }
}

/// Result for a class, one sentence per metric.
fn sentence(study: &Study, class: usize) -> String {
    let own = lines(study).into_iter().filter(|line| line.class == class);
    let one = |line: SummaryLine| {
        let kind = if line.is_large { "Objects from 3 MB" } else { "Objects below 3 MB" };
        let (name, control) = (&study.design.algorithms[line.arm], &study.design.algorithms[study.control()]);
        match line.paired.judgement() {
            Judgement::NoDifference => {
                format!(" {kind}: no difference between {name} and {control}, {}.", shown(&line.paired))
            }
            Judgement::TooFew => format!(" {kind}: too few users."),
            Judgement::Same => {
                format!(" {kind}: {name} and {control} differ by less than 1 %, {}.", shown(&line.paired))
            }
            outcome => format!(" {kind}: {name} is {outcome} than {control}, {}.", shown(&line.paired)),
        }
    };
    own.map(one).collect()
}

/// Formats a time in minutes or seconds.
fn clock(seconds: f64) -> String {
    if seconds >= 120.0 {
        format!("minute {}", hundredths(seconds / 60.0))
    } else {
        format!("second {}", hundredths(seconds))
    }
}

/// Figures and maps of all classes, for the catalogue's page.
pub fn figures(study: &Study) -> (Vec<Figure>, Vec<Heat>) {
    let classes = 0..study.design.classes.len();
    let heats = std::iter::once(headline(study)).chain(heats(study)).collect();
    (classes.map(|class| over_time(study, class)).collect(), heats)
}

/// A dimension along which a map splits the study.
struct SegmentRow {
    title: &'static str,
    what: &'static str,
    edges: &'static [f64],
    unit: &'static str,
    scale: f64,
    cut: fn(Segment, f64, f64) -> Segment,
}

const CUTTINGS: [SegmentRow; 4] = [
    SegmentRow {
        title: "Gain by size of the object",
        what: "size",
        edges: &SIZES,
        unit: "MB",
        scale: 1e-6,
        cut: |cut, from, below| Segment { size: Some((from as u64, below as u64)), ..cut },
    },
    SegmentRow {
        title: "Gain by age of the connection at the request",
        what: "age",
        edges: &AGES,
        unit: "s",
        scale: 1.0,
        cut: |cut, from, below| Segment { age_s: Some((from, below)), ..cut },
    },
    SegmentRow {
        title: "Gain by round-trip time of the path",
        what: "RTT",
        edges: &RTTS,
        unit: "ms",
        scale: 1.0,
        cut: |cut, from, below| Segment { rtt_ms: Some((from, below)), ..cut },
    },
    SegmentRow {
        title: "Gain by the control's retransmissions",
        what: "retransmitted",
        edges: &RETRANSMITS,
        unit: "%",
        scale: 100.0,
        cut: |cut, from, below| Segment { retransmits: Some((from, below)), ..cut },
    },
];

impl SegmentRow {
    fn label(&self, from: f64, below: f64) -> String {
        let number = |value: f64| significant(value * self.scale, 4);
        match (from, below) {
            (0.0, below) if below < 1e-6 => "none".to_owned(),
            (0.0, below) => format!("< {} {}", number(below), self.unit),
            (from, below) if below == self.edges[self.edges.len() - 1] => format!("≥ {} {}", number(from), self.unit),
            (from, below) if from < 1e-6 => format!("< {} {}", number(below), self.unit),
            (from, below) => format!("{}–{} {}", number(from), number(below), self.unit),
        }
    }

    /// Returns the gain of a class in each range.
    fn gains(&self, study: &Study, arm: usize, class: usize) -> Vec<((f64, f64), Gain)> {
        let cut = Segment { class: Some(class), ..Segment::default() };
        let ranges = self.edges.windows(2).map(|edges| (edges[0], edges[1]));
        ranges.map(|(from, below)| ((from, below), study.gain(arm, &(self.cut)(cut, from, below)))).collect()
    }
}

/// Maps of class against size, age, RTT and retransmissions: one for each dimension and algorithm.
fn heats(study: &Study) -> Vec<Heat> {
    let mut heats = Vec::new();
    for cutting in &CUTTINGS {
        for arm in 0..study.control() {
            let all: Vec<_> = (0..study.design.classes.len()).map(|class| cutting.gains(study, arm, class)).collect();
            let is_seen = |column: &usize| all.iter().any(|row| row[*column].1.users >= USERS_MIN);
            let columns: Vec<usize> = (0..cutting.edges.len() - 1).filter(is_seen).collect();
            let cell = |gain: &Gain| if gain.users >= USERS_MIN { 1.0 + gain.gain } else { f64::NAN };
            heats.push(Heat {
                title: format!("{}: {} over the control", cutting.title, study.design.algorithms[arm]),
                x: cutting.what.to_owned(),
                y: "class".to_owned(),
                xs: columns.iter().map(|&c| cutting.label(cutting.edges[c], cutting.edges[c + 1])).collect(),
                ys: study.design.classes.iter().map(super::Class::label).collect(),
                unit: "×".to_owned(),
                scale: Scale::AroundOne,
                cells: all.iter().map(|row| columns.iter().map(|&c| cell(&row[c].1)).collect()).collect(),
            });
        }
    }
    heats
}

/// Section of one class.
fn class_section(study: &Study, class: usize) -> Section {
    let about = &study.design.classes[class];
    let mut figures = vec![over_time(study, class), distribution(study, class), by_percentile(study, class)];
    figures.extend(CUTTINGS[..2].iter().filter_map(|cutting| by_range(study, class, cutting)));
    let note = if about.note.is_empty() { String::new() } else { format!("{}. ", about.note) };
    Section {
        id: format!("class-{}", class + 1),
        title: about.label(),
        claim: format!("{note}Paths and objects: {}.{}", about.about, sentence(study, class)),
        figures,
        ..Section::default()
    }
}

/// Returns true if most objects of a class are judged by throughput.
fn is_large(study: &Study, class: usize) -> bool {
    let count = |is_large: bool| study.values(study.control(), &Segment::judged(class, is_large), is_large).len();
    count(true) > count(false)
}

fn series(name: impl Into<String>, key: &str, style: Style, points: Vec<(f64, f64)>) -> Series {
    let (x, y) = points.into_iter().unzip();
    Series { name: name.into(), style, x, y, color_key: Some(key.to_owned()), ..Series::default() }
}

fn figure(study: &Study, class: usize, what: &str, title: &str, how_to_read: String) -> Figure {
    Figure {
        id: format!("cdn-{}-{what}", class + 1),
        title: format!("{}: {title}", study.design.classes[class].label()),
        how_to_read,
        ..Figure::default()
    }
}

/// Medians of both groups of users over time, with the time of the change.
fn over_time(study: &Study, class: usize) -> Figure {
    let design = &study.design;
    let (is_large, control, key) = (is_large(study, class), study.control(), design.algorithms[0].as_str());
    let (scale, unit) = if design.span_s > 600.0 { (60.0, "min") } else { (1.0, "s") };
    let bins = ((design.span_s / design.bin_s).ceil() as usize).clamp(1, 1000);
    let (mut tested, mut others) = (Vec::new(), Vec::new());
    for bin in 0..bins {
        let (from, to) =
            (bin as f64 * design.bin_s, (bin + 1) as f64 * design.bin_s + if bin + 1 == bins { 1.0 } else { 0.0 });
        let at = (from + design.bin_s / 2.0) / scale;
        let values = |arm: usize, is_tested: bool, from: f64, to: f64| {
            let cut = Segment::judged(class, is_large);
            study.values(arm, &Segment { arrival_s: Some((from, to)), is_tested: Some(is_tested), ..cut }, is_large)
        };
        let mut own = values(control, true, from, to.min(design.activation_s));
        own.extend(values(0, true, from.max(design.activation_s), to));
        tested.push((at, median(&mut own)));
        others.push((at, median(&mut values(control, false, from, to))));
    }
    let top = tested.iter().chain(&others).map(|point| point.1).fold(0.0, f64::max);
    let at = design.activation_s / scale;
    let moment = vec![(at, 0.0), (at, top * 1.1)];
    let read = format!(
        "Medians over the objects of users who arrived in each bin. Left of the line all hosts run {}; right of it the hosts \
         under test run {key}.",
        design.algorithms[control]
    );
    Figure {
        x: Axis {
            label: "arrival".to_owned(),
            unit: unit.to_owned(),
            min: Some(0.0),
            max: Some(design.span_s / scale),
            ..Axis::default()
        },
        panels: vec![Panel {
            y: Axis { min: Some(0.0), ..value_axis(is_large, false) },
            series: vec![
                series(format!("{key} is activated"), "activation", Style::Reference, moment),
                series("hosts under test", key, Style::Line, tested),
                series("other hosts", &design.algorithms[control], Style::Line, others),
            ],
        }],
        ..figure(study, class, "time", "medians over time", read)
    }
}

/// Cumulative distribution of the objects' values.
fn distribution(study: &Study, class: usize) -> Figure {
    let is_large = is_large(study, class);
    let cut = Segment::judged(class, is_large);
    let all = |end: f64| (0..=study.control()).map(move |arm| nearest_rank(&study.values(arm, &cut, is_large), end));
    // Over less than a decade a logarithmic axis has almost no labels.
    let is_wide = all(1.0).fold(0.0, f64::max) > 10.0 * all(0.0).fold(f64::INFINITY, f64::min);
    let one = |(arm, name): (usize, &String)| cumulative(name, &study.values(arm, &cut, is_large));
    let read = format!("The share of objects up to each value. {}", distribution_help(is_large));
    Figure {
        x: value_axis(is_large, is_wide),
        panels: vec![Panel {
            y: share_axis("objects"),
            series: study.design.algorithms.iter().enumerate().map(one).collect(),
        }],
        ..figure(study, class, "cdf", "distribution", read)
    }
}

/// Plots each percentile of one distribution against the same percentile of the other.
fn by_percentile(study: &Study, class: usize) -> Figure {
    let is_large = is_large(study, class);
    let cut = Segment::judged(class, is_large);
    let control = study.values(study.control(), &cut, is_large);
    let one = |arm: usize| {
        let own = study.values(arm, &cut, is_large);
        let gain = |percentile: u32| {
            let q = f64::from(percentile) / 100.0;
            let ratio = nearest_rank(&own, q) / nearest_rank(&control, q);
            100.0 * (if is_large { ratio } else { 1.0 / ratio } - 1.0)
        };
        let points = PERCENTILES.iter().map(|&p| (f64::from(p), gain(p))).collect();
        series(&study.design.algorithms[arm], &study.design.algorithms[arm], Style::Line, points)
    };
    let value = if is_large { "throughput" } else { "completion time" };
    let read =
        format!("Each percentile of {value} against the same percentile under the control: above 0 it is faster.");
    Figure {
        x: Axis { label: "percentile".to_owned(), min: Some(0.0), max: Some(100.0), ..Axis::default() },
        panels: vec![Panel {
            y: Axis { label: "gain".to_owned(), unit: "%".to_owned(), ..Axis::default() },
            series: std::iter::once(no_gain(0.0)).chain((0..study.control()).map(one)).collect(),
        }],
        ..figure(study, class, "percentile", "gain by percentile", read)
    }
}

/// Plots the gain and its interval over ranges of one quantity; `None` if fewer than two ranges have enough users.
fn by_range(study: &Study, class: usize, cutting: &SegmentRow) -> Option<Figure> {
    // Geometric middle; an open end counts as a factor of two and a half away.
    let middle = |(from, below): (f64, f64)| {
        let (from, below) = (if from > 0.0 { from } else { below / 5.0 }, below.min(from.max(1e-9) * 5.0));
        (from * if below > from { below } else { from * 5.0 }).sqrt() * cutting.scale
    };
    let estimate = |(range, gain): ((f64, f64), Gain)| {
        (middle(range), if gain.users >= USERS_MIN { gain.interval() } else { Interval::NONE })
    };
    let candidate = |arm: usize| Candidate {
        name: study.design.algorithms[arm].clone(),
        color_key: study.design.algorithms[arm].clone(),
        estimates: cutting.gains(study, arm, class).into_iter().map(estimate).collect(),
    };
    let read =
        "The median over users of each range, with its 95 % interval: above 0 it is faster. A gap has too few users.";
    Some(Figure {
        x: Axis { label: cutting.what.to_owned(), unit: cutting.unit.to_owned(), log: true, ..Axis::default() },
        panels: vec![gains_over("gain", (0..study.control()).map(candidate).collect())?],
        ..figure(study, class, cutting.what, &cutting.title.to_lowercase(), read.to_owned())
    })
}

/// Metrics of the study as JSON. Gains are ratios less 1.
pub fn json(study: &Study, version: &str) -> Value {
    let finite = |value: f64| if value.is_finite() { json!(value) } else { Value::Null };
    let gain = |gain: &Gain| json!({ "median": finite(gain.gain), "low": finite(gain.low), "high": finite(gain.high), "users": gain.users });
    let line = |line: &SummaryLine| {
        let cut = Segment::judged(line.class, line.is_large);
        let (class, control) = (&study.design.classes[line.class], study.control());
        let middle = |arm: usize| finite(median(&mut study.values(arm, &cut, line.is_large)));
        let value = if line.is_large { "throughput_mbps" } else { "completion_ms" };
        json!({ "class": class.name, "network": class.network, "paths": class.about,
                "algorithm": study.design.algorithms[line.arm], "judged_by": value,
                "median": middle(line.arm), "control_median": middle(control),
                "gain": gain(&line.paired), "split_gain": gain(&line.split), "verdict": said(line.paired.judgement()),
                "objects": line.paired.objects,
                "rivals": gain(&study.rivals(line.arm, &Segment { class: Some(line.class), ..Segment::default() })),
                "retransmit_ratio": finite(study.retransmit_ratio(line.arm, &cut)),
                "control_retransmit_ratio": finite(study.retransmit_ratio(control, &cut)) })
    };
    json!({ "schema": 1, "version": version, "seed": study.seed, "title": study.design.title,
            "algorithms": study.design.algorithms, "users": study.users.len(),
            "gains": lines(study).iter().map(line).collect::<Vec<Value>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cdn::Population;

    fn study(threads: usize) -> Study {
        let text = "users = 8\nspan = '10s'\n[[class]]\nname = 'a'\nnetwork = 'x'\nrate = '10mbit'\nrtt = '20ms'\n\
                    loss = '2%'\nsize = { uniform = { min = '10kB', max = '400kB' } }\nobjects = 3\n";
        let population = Population::parse(text).unwrap();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| Study::run(population.design(), population.draw(1), 1, &|| ())).unwrap()
    }

    #[test]
    fn a_page_is_the_same_whatever_the_number_of_threads() {
        let page = |threads| bbrlab_report::render(&report(&study(threads), "t", "v"));
        assert!(page(1) == page(3));
    }

    #[test]
    fn every_class_has_its_line_its_maps_and_its_figures() {
        let study = study(2);
        let table = rows(&study);
        assert_eq!((table.rows.len(), table.rows[0][0].as_str()), (1, "a/x"));
        assert_eq!(table.columns.len(), table.rows[0].len());
        let page = report(&study, "t", "v");
        assert_eq!((page.sections.len(), page.sections[0].heats.len()), (3, CUTTINGS.len() + 1));
        assert!(page.sections[2].figures.len() >= 4);
        let details = page.sections[1].runs_table.as_ref().unwrap();
        assert_eq!(details.columns[2..5], ["algorithm", "rivals' rate", "gain, A/B split"]);
        assert_eq!(details.columns[5..], ["retransmitted", "control's", "users", "objects"]);
        assert_eq!(json(&study, "v")["gains"][0]["judged_by"], "completion_ms");
    }

    #[test]
    fn a_gain_is_written_with_its_sign_and_interval() {
        let gain = Gain { gain: 0.061, low: -0.02, high: 0.0972, users: 9, objects: 9 };
        assert_eq!(shown(&gain), "+6.1 % (−2 to +9.72)");
    }
}
