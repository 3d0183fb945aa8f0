//! A synthetic report with every kind of figure, for work on the page itself: no value in it was measured.
//! Run: `cargo run -p bbrlab-report --example report_sample > out/sample.html`.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::f64::consts::TAU;

use bbrlab_report::{
    Axis, ClaimRow, Figure, Grid, Heat, Number, Panel, Provenance, Region, Report, Ribbon, Scale, Section, Series,
    Style, Table, Thumbnail, Tree, Verdict, render,
};

/// Phase length of v1's gain cycle on 10 Mbit/s and 40 ms: eight phases of one round trip.
const PHASE_S: f64 = 0.042;

fn main() {
    let claims = claims();
    let sections = vec![
        section(&claims, "F2", "Gain cycle", "Cardwell et al., CACM 2017, figure 2", None, vec![startup()]),
        section(
            &claims,
            "F6",
            "Five flows converge",
            "Cardwell et al., CACM 2017, figure 6",
            None,
            vec![convergence()],
        ),
        section(
            &claims,
            "F8",
            "Loss sweep",
            "Cardwell et al., CACM 2017, figure 8",
            Some("The text says “one tenth at 0.1 % loss”; the figure shows one fourteenth."),
            vec![loss_sweep()],
        ),
        section(
            &claims,
            "COMPETE",
            "Against CUBIC",
            "Seed 1; <script>alert('escaped?')</script>",
            None,
            vec![versions(), agreement()],
        ),
    ];
    let report = Report {
        title: "Sample report: values made up".into(),
        subtitle: "One sentence says what came out </script>.".into(),
        provenance: Provenance {
            command: "bbrlab reproduce F2 F6 F8 COMPETE </script>".into(),
            facts: vec![("ran in".into(), "nothing".into()), ("seed".into(), "1".into())],
        },
        numbers: vec![
            Number {
                label: "Goodput of bbr1".into(),
                value: "9.1 Mbit/s".into(),
                note: "91 % <b>".into(),
                color_key: Some("bbr1".into()),
            },
            Number { label: "Link used".into(), value: "98 %".into(), ..Number::default() },
        ],
        lead: vec![intervals()],
        thumbnails: ["F2-startup", "F6-throughput", "F8-sweep", "COMPETE-share"]
            .map(|id| Thumbnail { figure: id.into(), caption: id.into(), panel: 0 })
            .to_vec(),
        grid: Some(Grid {
            title: "Every claim in three backends".into(),
            how_to_read: "● holds, ▲ misses (explained), ✕ fails, · not applicable.".into(),
            xs: ["sim", "uml", "kernel"].map(str::to_owned).to_vec(),
            ys: ["F2", "F8"].map(|id| (id.to_owned(), id.to_owned())).to_vec(),
            cells: vec![
                [Some(Verdict::Holds), Some(Verdict::Holds), None].map(|verdict| (verdict, String::new())).to_vec(),
                [Some(Verdict::FallsShort), Some(Verdict::Fails), None].map(|verdict| (verdict, "<i>".into())).to_vec(),
            ],
        }),
        claims,
        sections,
        rows_of: bbrlab_report::model::RowKind::Claims,
    };
    print!("{}", render(&report));
}

fn claims() -> Vec<ClaimRow> {
    use Verdict::{Fails, FallsShort, Holds};
    let cacm = "Cardwell et al., CACM 2017";
    let long = "The kernel counts a lost segment when it is marked, we count it when it is resent; the difference is one round trip of data at 20 %.";
    let rows = [
        ("F2", "Gain cycle", "RTT peak above base", "(0.25 ± 0.05) · RTprop", "0.262 · RTprop", Holds, None),
        ("F2", "Gain cycle", "Peak over base of data in flight", "1.22–1.30", "1.27", Holds, None),
        ("F2", "Gain cycle", "Period of the cycle", "8.0–8.6 RTprop", "8.31 RTprop", Holds, None),
        ("F2", "Gain cycle", "Movement of the bandwidth estimate", "< 2 %", "0.41 %", Holds, None),
        ("F6", "Five flows converge", "Jain's index, 35–50 s, without dips", "≥ 0.98", "0.993", Holds, None),
        ("F6", "Five flows converge", "Spread of the second ProbeRTT", "≤ 1 s", "0.21 s", Holds, None),
        (
            "F6",
            "Five flows converge",
            "Time to convergence",
            "20–40 s",
            "43 s",
            FallsShort,
            Some("The last flow enters in the middle of a common ProbeRTT and waits one window of 10 s longer."),
        ),
        ("F8", "Loss sweep", "bbr1 at 1 % loss", "85.1–95.1 Mbit/s", "90.4 Mbit/s", Holds, None),
        ("F8", "Loss sweep", "bbr1 at 10 % loss", "72.4–82.4 Mbit/s", "79.9 Mbit/s", Holds, None),
        ("F8", "Loss sweep", "bbr1 at 15 % loss", "≥ 88 % of 91.9 · (1 − p)", "93.1 %", Holds, None),
        ("F8", "Loss sweep", "bbr1 at 20 % loss", "≤ 20 Mbit/s", "24.6 Mbit/s", FallsShort, Some(long)),
        ("F8", "Loss sweep", "cubic at 0.1 % loss", "3.3–13.2 Mbit/s", "6.9 Mbit/s", Holds, None),
        ("F8", "Loss sweep", "cubic at 1 % loss", "0.65–2.6 Mbit/s", "2.81 Mbit/s", Fails, None),
        ("COMPETE", "Against CUBIC", "Buffer at which the shares cross", "1–4 BDP", "2.3 BDP", Holds, None),
        ("COMPETE", "Against CUBIC", "Share falls with the buffer", "monotone", "monotone", Holds, None),
        (
            "COMPETE",
            "Against CUBIC",
            "Share of bbr1 at 16 BDP; scenario “</script><img src=x onerror=alert(1)>”",
            "< 0.2",
            "0.31",
            Fails,
            Some("Unknown."),
        ),
    ];
    rows.into_iter()
        .map(|(id, title, what, expected, measured, verdict, reason)| ClaimRow {
            id: id.into(),
            title: title.into(),
            source: cacm.into(),
            claim: "One flow keeps the bottleneck busy and its queue almost empty.".into(),
            contradiction: None,
            what: what.into(),
            expected: expected.into(),
            measured: measured.into(),
            verdict,
            reason: reason.map(str::to_owned),
        })
        .collect()
}

fn section(
    claims: &[ClaimRow],
    id: &str,
    title: &str,
    source: &str,
    contradiction: Option<&str>,
    figures: Vec<Figure>,
) -> Section {
    Section {
        id: id.into(),
        title: title.into(),
        source: source.into(),
        claim: "What the source says stands here in one sentence, so that the reader can judge the rows and the figure below it.".into(),
        contradiction: contradiction.map(str::to_owned),
        rows: (0..claims.len()).filter(|&i| claims[i].id == id).collect(),
        figures,
        runs_table: Some(runs(id)),
        heats: vec![Heat {
            title: "gain".to_owned(),
            x: "rate".to_owned(),
            y: "loss".to_owned(),
            xs: vec!["1mbit".to_owned(), "10mbit".to_owned()],
            ys: vec!["0%".to_owned(), "1%".to_owned()],
            unit: "×".to_owned(),
            scale: Scale::AroundOne,
            cells: vec![vec![0.8, 1.0], vec![1.6, f64::NAN]],
        }],
        tree: Some(Tree::Ask {
            question: "loss < 1 %".to_owned(),
            yes: Box::new(Tree::Answer { text: "cubic".to_owned(), detail: "best in 60 % of 5 cells".to_owned() }),
            no: Box::new(Tree::Answer { text: "bbr1".to_owned(), detail: "best in 90 % of 9 cells".to_owned() }),
        }),
        commands: Vec::new(),
    }
}

fn runs(id: &str) -> Table {
    let columns = [
        "scenario",
        "algorithm",
        "loss, %",
        "goodput, Mbit/s",
        "RTT p50, ms",
        "RTT p95, ms",
        "retransmitted, %",
        "seed",
    ];
    let row = |i: usize| {
        let n = i as f64;
        vec![
            format!("{id}-{i}"),
            ["bbr1", "cubic"][i % 2].into(),
            format!("{:.3}", 0.001 * 2_f64.powf(n)),
            format!("{:.1}", 91.0 - n),
            format!("{:.1}", 101.0 + n),
            format!("{:.1}", 109.0 + 2.0 * n),
            format!("{:.2}", n / 3.0),
            "1".into(),
        ]
    };
    Table {
        columns: columns.map(str::to_owned).to_vec(),
        rows: (0..if id == "F8" { 26 } else { 5 }).map(row).collect(),
    }
}

fn axis(label: &str, unit: &str, min: Option<f64>, max: Option<f64>) -> Axis {
    Axis { label: label.into(), unit: unit.into(), min, max, ..Axis::default() }
}

fn series(name: &str, style: Style, key: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
    let (x, y) = points.into_iter().unzip();
    Series { name: name.into(), style, x, y, color_key: (!key.is_empty()).then(|| key.to_owned()), ..Series::default() }
}

/// Start-up of v1 and CUBIC: RTTs of both, inflight, and both ribbons.
fn startup() -> Figure {
    let time = |n: u32| (0..n).map(|i| f64::from(i) * 0.01);
    let bbr_rtt = time(800).map(|t| {
        (
            t,
            match t {
                t if t < 0.37 => 41.5 + 83.0 * (t / 0.37).powi(4),
                t if t < 0.55 => 125.0,
                t if t < 0.74 => 125.0 - 83.0 * (t - 0.55) / 0.19,
                t => 41.6 + if (t % 0.336) < PHASE_S * 1.3 { 10.4 * (t % 0.336) / PHASE_S / 1.3 } else { 0.0 },
            },
        )
    });
    let cubic_rtt = time(800).map(|t| {
        (
            t,
            match t {
                t if t < 0.4 => 41.5 + 65.0 * (t / 0.4).powi(3),
                t if t < 3.35 => 107.0 + 143.0 * ((t - 0.4) / 2.95).powi(2),
                t => 184.0 + 66.0 * ((t - 3.35) % 2.6 / 2.6).sqrt(),
            },
        )
    });
    let bbr_rtt: Vec<_> = bbr_rtt.collect();
    let cubic_rtt: Vec<_> = cubic_rtt.collect();
    let inflight = |rtt: &[(f64, f64)]| rtt.iter().map(|&(t, ms)| (t, ms * 1.25)).collect::<Vec<_>>();
    let paper = [(0.2, 60.0), (0.45, 125.0), (0.75, 42.0), (2.0, 41.6), (4.0, 41.6), (6.0, 42.0)];
    Figure {
        id: "F2-startup".into(),
        title: "RTT and data in flight from the start".into(),
        how_to_read: "bbr1 fills the queue once, drains it at once, and from then on only touches it eight times every 2.7 s; cubic keeps it full.".into(),
        source: "Cardwell et al., CACM 2017, figures 2 and 4; the points are read off the printed figure.".into(),
        x: axis("Time", "s", Some(0.0), Some(8.0)),
        panels: vec![
            Panel { y: axis("RTT", "ms", Some(0.0), None), series: vec![
                series("bbr1", Style::Line, "bbr1", bbr_rtt.clone()),
                series("cubic", Style::Line, "cubic", cubic_rtt.clone()),
                series("bbr1, paper", Style::Points, "bbr1", paper),
                series("buffer full", Style::Reference, "", [(0.0, 250.0), (8.0, 250.0)]),
            ] },
            Panel { y: axis("In flight", "kB", Some(0.0), None), series: vec![
                series("bbr1", Style::Line, "bbr1", inflight(&bbr_rtt)),
                series("cubic", Style::Line, "cubic", inflight(&cubic_rtt)),
                // A spike that would flatten all other lines.
                series("bbr1 window", Style::Dashed, "bbr1", time(800).map(|t| (t, if t < 0.1 { 1500.0 } else { 104.0 }))),
                series("BDP", Style::Reference, "", [(0.0, 52.0)]),
            ] },
            Panel { y: axis("Delivery rate", "Mbit/s", Some(0.0), None), series: vec![
                series("capacity", Style::Area, "", (0..9).map(|i| (f64::from(i), 10.0 - f64::from(i % 3)))),
                series("bbr1", Style::Step, "bbr1", (0..80).map(|i| (f64::from(i) * 0.1, 9.5 + 0.2 * (f64::from(i) * 0.9).sin()))),
                series("cubic", Style::Step, "cubic", (0..80).map(|i| (f64::from(i) * 0.1, 9.3 + 0.3 * (f64::from(i) * 0.5).cos()))),
            ] },
        ],
        ribbons: vec![bbr_ribbon("bbr1", 8.0), Ribbon { name: "cubic".into(), spans: spans(&[
            (0.0, 0.4, "slow_start"), (0.4, 3.35, "congestion_avoidance"), (3.35, 3.7, "recovery"), (3.7, 5.95, "congestion_avoidance"),
            (5.95, 6.3, "recovery"), (6.3, 8.0, "congestion_avoidance"),
        ]) }],
        regions: vec![
            Region { label: "Startup: fills the queue".into(), from: 0.0, to: 0.55 },
            Region { label: "Drain".into(), from: 0.55, to: 0.74 },
        ],
        command: "bbrlab reproduce F2".into(),
        play: "rate=10mbit&rtt=40ms&flow=bbr1".into(),
    }
}

fn spans(spans: &[(f64, f64, &str)]) -> Vec<(f64, f64, String)> {
    spans.iter().map(|&(from, to, name)| (from, to, name.to_owned())).collect()
}

fn bbr_ribbon(name: &str, end: f64) -> Ribbon {
    let mut all = vec![(0.0, 0.55, "startup"), (0.55, 0.74, "drain")];
    let mut t = 0.74;
    while t < end {
        let phases = [(PHASE_S, "probe_bw_up"), (PHASE_S, "probe_bw_down"), (6.0 * PHASE_S, "probe_bw_cruise")];
        let phases = if t > 6.0 && t < 6.3 {
            [(0.2, "probe_rtt"), (PHASE_S, "probe_bw_up"), (PHASE_S, "probe_bw_cruise")]
        } else {
            phases
        };
        for (length, state) in phases {
            all.push((t, (t + length).min(end), state));
            t += length;
        }
    }
    Ribbon { name: name.into(), spans: spans(&all) }
}

fn convergence() -> Figure {
    let flow = |n: u32| {
        let start = 2 * n;
        (start..=50).map(move |s| {
            let t = f64::from(s);
            let fair = 19.1 + (0.8 - f64::from(n) * 0.3) * (t * 0.7 + f64::from(n)).sin();
            let early = if n == 0 { 95.0 } else { 3.0 + 7.0 * f64::from(n) };
            let settled = ((t - f64::from(start)) / 9.0).min(1.0);
            let dip = if s == 31 || s == 41 { 0.62 } else { 1.0 };
            (t, (early + (fair - early) * settled.powf(0.6)).max(0.0) * dip)
        })
    };
    let flows = (0..5).map(|n| series(&format!("bbr1#{n}"), Style::Step, &format!("bbr1#{n}"), flow(n)));
    let mut all: Vec<Series> = flows.collect();
    all.push(series("fair share", Style::Reference, "", [(0.0, 19.1), (50.0, 19.1)]));
    Figure {
        id: "F6-throughput".into(),
        title: "Throughput of five flows in bins of one second".into(),
        how_to_read: "Flows enter every 2 s; from about 30 s on they enter ProbeRTT together, seen as joint dips, and share the link evenly.".into(),
        source: "Cardwell et al., CACM 2017, figure 6.".into(),
        x: axis("Time", "s", Some(0.0), Some(50.0)),
        panels: vec![Panel { y: axis("Throughput", "Mbit/s", Some(0.0), Some(100.0)), series: all }],
        ribbons: (0..5).map(|n| Ribbon { name: format!("bbr1#{n}"), spans: spans(&[
            (f64::from(n) * 2.0, f64::from(n) * 2.0 + 0.6, "startup"), (f64::from(n) * 2.0 + 0.6, 30.7, "probe_bw_cruise"),
            (30.7, 31.0, "probe_rtt"), (31.0, 40.8, "probe_bw_cruise"), (40.8, 41.1, "probe_rtt"), (41.1, 50.0, "probe_bw_cruise"),
        ]) }).collect(),
        ..Figure::default()
    }
}

fn loss_sweep() -> Figure {
    let percent = [0.001, 0.01, 0.1, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0];
    let paper_bbr = [91.6, 91.9, 91.2, 90.1, 89.1, 87.1, 77.4, 73.1, 0.7, 0.5, 0.0, 0.0, 0.0];
    let paper_cubic = [95.0, 32.8, 6.6, 1.3, 0.9, 0.5, 0.2, 0.2, 0.1, 0.1, 0.0, 0.0, 0.0];
    let at = |y: [f64; 13]| percent.into_iter().zip(y);
    let ours = |y: [f64; 13], wobble: f64| {
        percent.into_iter().zip(y).map(move |(p, y)| (p, y * (1.0 + wobble * (p * TAU).cos())))
    };
    let limit = (0..=60).map(|i| 0.001 * 10_f64.powf(f64::from(i) * 4.7 / 60.0)).map(|p| (p, 92.0 * (1.0 - p / 100.0)));
    Figure {
        id: "F8-sweep".into(),
        title: "Goodput against random loss".into(),
        how_to_read: "bbr1 stays near the limit until the loss reaches its probing gain; cubic falls with the square root of the loss.".into(),
        source: "Cardwell et al., CACM 2017, figure 8; the points are read off the printed figure (± 0.7 Mbit/s).".into(),
        x: Axis { log: true, ..axis("Loss", "%", Some(0.001), Some(50.0)) },
        panels: vec![Panel { y: axis("Goodput", "Mbit/s", Some(0.0), Some(100.0)), series: vec![
            series("limit, 1 − p", Style::Reference, "", limit),
            series("bbr1", Style::Line, "bbr1", ours(paper_bbr, 0.02)),
            series("cubic", Style::Line, "cubic", ours(paper_cubic, 0.05)),
            series("bbr1, paper", Style::Points, "bbr1", at(paper_bbr)),
            series("cubic, paper", Style::Points, "cubic", at(paper_cubic)),
        ] }],
        ..Figure::default()
    }
}

/// Values with intervals over a categorical axis.
fn intervals() -> Figure {
    let names = ["goodput", "RTT p50", "retransmitted </script>"];
    let one = |name: &str, shift: f64, x: [f64; 3]| Series {
        low: x.map(|x| x * 0.8).to_vec(),
        high: x.map(|x| x * 1.3).to_vec(),
        ..series(name, Style::Points, name, x.into_iter().zip([0.0, 1.0, 2.0].map(|y| y + shift)))
    };
    Figure {
        id: "ratios".into(),
        title: "Against cubic".into(),
        how_to_read: "Right of the line is more.".into(),
        x: Axis { log: true, ..axis("ratio to cubic", "", None, None) },
        panels: vec![Panel {
            y: Axis { names: names.map(str::to_owned).to_vec(), ..Axis::default() },
            series: vec![
                series("as cubic", Style::Reference, "", [(1.0, -0.5), (1.0, 2.5)]),
                one("bbr1", -0.1, [1.8, 0.97, 7.9]),
                one("bbr3", 0.1, [1.1, 0.98, 2.3]),
            ],
        }],
        ..Figure::default()
    }
}

/// A log axis that begins just below a power of ten, for which the drawing library's own ticks would never end.
fn agreement() -> Figure {
    let queues = [0.121_215_5, 0.242_431_5, 0.484_863_5, 0.58, 3.67, 9.1, 36.4, 295.2];
    let ratios = queues.iter().enumerate().map(|(nth, queue)| (*queue, 1.0 + 0.6 / (1.0 + nth as f64)));
    Figure {
        id: "agreement".into(),
        title: "Queue in the simulator over a real kernel's".into(),
        how_to_read: "Each mark is a scenario; on the line both backends give the same.".into(),
        source: "Our own.".into(),
        x: Axis { log: true, ..axis("Queue, p50", "ms", None, None) },
        panels: vec![Panel {
            y: Axis { log: true, ..axis("Ratio", "", None, None) },
            series: vec![
                series("scenarios", Style::Points, "bbr1", ratios),
                series("equal", Style::Reference, "", [(1.0, 1.0)]),
            ],
        }],
        ..Figure::default()
    }
}

fn versions() -> Figure {
    let share = |base: f64, slope: f64| {
        (0..9).map(move |i| (2_f64.powi(i - 4), (base - slope * f64::from(i)).clamp(0.02, 0.98)))
    };
    let delay = |scale: f64| (0..9).map(move |i| (2_f64.powi(i - 4), scale * 2_f64.powi(i - 2)));
    let all = [
        ("bbr1", 0.92, 0.09, 30.0),
        ("bbr2", 0.62, 0.03, 18.0),
        ("bbr3", 0.66, 0.035, 14.0),
        ("bbr3-linux", 0.7, 0.045, 15.0),
        ("reno", 0.3, 0.02, 60.0),
        ("bbr-cpa", 0.8, 0.06, 11.0),
    ];
    let mut shares: Vec<Series> =
        all.iter().map(|&(name, base, slope, _)| series(name, Style::Line, name, share(base, slope))).collect();
    shares.push(series("fair", Style::Reference, "", [(0.06, 0.5), (16.0, 0.5)]));
    Figure {
        id: "COMPETE-share".into(),
        title: "Share of the link and its delay against the buffer".into(),
        how_to_read: "Above the dashed line an algorithm takes more than cubic beside it; below, less.".into(),
        source: "Our own grid; no published figure. A name that must be escaped: </script> & <b>.".into(),
        x: Axis { log: true, ..axis("Buffer", "BDP", None, None) },
        panels: vec![
            Panel { y: axis("Share", "", Some(0.0), Some(1.0)), series: shares },
            Panel {
                y: Axis { log: true, ..axis("Queue delay, p95", "ms", None, None) },
                series: all.iter().map(|&(name, _, _, scale)| series(name, Style::Line, name, delay(scale))).collect(),
            },
        ],
        ..Figure::default()
    }
}
