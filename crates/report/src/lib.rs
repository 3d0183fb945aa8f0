#![forbid(unsafe_code)]
//! Reports as single HTML pages that work offline, and a run's series in the formats of other tools. Equal reports give
//! equal bytes.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod compact;
mod escape;
pub mod export;
mod heat;
mod html;
pub mod model;
mod payload;
pub mod play;
mod run;

pub use escape::escape;
pub use model::*;
pub use run::{for_run, for_runs};

/// Chart library, unmodified.
const UPLOT_JS: &str = include_str!("assets/vendor/uplot/uPlot.iife.min.js");
const UPLOT_CSS: &str = include_str!("assets/vendor/uplot/uPlot.min.css");
const UPLOT_LICENSE: &str = include_str!("assets/vendor/uplot/LICENSE");

const CSS: &str = concat!(include_str!("assets/page.css"), include_str!("assets/figure.css"));

/// All scripts, concatenated in one scope.
const JS: &str = concat!(
    "(function () {\n'use strict';\n",
    include_str!("assets/data.js"),
    include_str!("assets/palette.js"),
    include_str!("assets/scale.js"),
    include_str!("assets/panel.js"),
    include_str!("assets/ribbon.js"),
    include_str!("assets/picture.js"),
    include_str!("assets/figure.js"),
    include_str!("assets/page.js"),
    "})();\n"
);

/// Symbols of the verdicts and of the theme button.
const ICONS: &str = include_str!("assets/icons.svg");

/// Content security policy: the page loads nothing from outside.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

/// Renders the report as one self-contained HTML page.
pub fn render(report: &Report) -> String {
    let title = escape(&report.title);
    let (contents, body, data) = (html::contents(report), html::body(report), payload::payload(report));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"generator\" content=\"bbrlab\">\n\
         <title>{title}</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <style>{UPLOT_CSS}</style>\n<style>\n{CSS}</style>\n</head>\n<body>\n{ICONS}\
         <a class=\"skip\" href=\"#main\">Skip to the content</a>\n\
         <div class=\"top\"><a class=\"brand\" href=\"#main\">bbrlab</a><span class=\"where\">{title}</span>\
         <button type=\"button\" id=\"theme\" hidden><svg class=\"icon\" aria-hidden=\"true\">\
         <use href=\"#icon-theme\"/></svg><span>Dark</span></button></div>\n\
         <div class=\"layout\">\n<nav class=\"contents\" aria-label=\"Contents\"><ul>{contents}</ul></nav>\n\
         <main id=\"main\" tabindex=\"-1\">\n{body}</main>\n</div>\n\
         <footer><p>Made by bbrlab. Charts by uPlot (MIT licence).</p></footer>\n\
         <script type=\"application/json\" id=\"report-data\">{data}</script>\n\
         <!--\nuPlot is under this licence:\n{UPLOT_LICENSE}-->\n<script>{UPLOT_JS}</script>\n\
         <script>\n{JS}</script>\n</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report in which every text is `text` and every figure has `series` lines of `values` values.
    fn report(text: &str, series: usize, values: u32) -> Report {
        let row = ClaimRow {
            id: text.into(),
            title: text.into(),
            source: text.into(),
            claim: text.into(),
            contradiction: Some(text.into()),
            what: text.into(),
            expected: text.into(),
            measured: text.into(),
            verdict: Verdict::FallsShort,
            reason: Some(text.into()),
        };
        // Uneven x and noise-like y, which cannot be encoded compactly.
        let line = |n: usize| Series {
            name: text.into(),
            style: Style::Line,
            x: (0..values).map(|i| f64::from(i) + f64::from(i % 3) * 0.1).collect(),
            y: (0..values).map(|i| (f64::from(i) * 1.7 + n as f64).sin() * 100.0).collect(),
            color_key: Some(text.into()),
            ..Series::default()
        };
        let axis = Axis { label: text.into(), unit: text.into(), ..Axis::default() };
        let figure = Figure {
            id: text.into(),
            title: text.into(),
            how_to_read: text.into(),
            source: text.into(),
            x: axis.clone(),
            panels: vec![Panel { y: axis, series: (0..series).map(line).collect() }],
            ribbons: vec![Ribbon { name: text.into(), spans: vec![(0.0, 1.0, text.into())] }],
            regions: vec![Region { label: text.into(), from: 0.0, to: 1.0 }],
            command: text.into(),
            play: text.into(),
        };
        let section = Section {
            id: text.into(),
            title: text.into(),
            source: text.into(),
            claim: text.into(),
            contradiction: Some(text.into()),
            rows: vec![0, 7],
            figures: vec![figure],
            heats: Vec::new(),
            tree: None,
            runs_table: Some(Table { columns: vec![text.into()], rows: vec![vec![text.into()], vec![]] }),
            commands: vec![text.into()],
        };
        let lead = vec![Figure { id: "lead".into(), ..section.figures[0].clone() }];
        let number = Number { label: text.into(), value: text.into(), note: text.into(), color_key: Some(text.into()) };
        let cell = (Some(Verdict::Holds), text.to_owned());
        Report {
            title: text.into(),
            subtitle: text.into(),
            provenance: Provenance { command: text.into(), facts: vec![(text.into(), text.into())] },
            numbers: vec![number],
            lead,
            thumbnails: vec![Thumbnail { figure: text.into(), caption: text.into(), panel: 0 }],
            grid: Some(Grid {
                title: text.into(),
                how_to_read: text.into(),
                xs: vec![text.into()],
                ys: vec![(text.into(), text.into())],
                cells: vec![vec![cell]],
            }),
            claims: vec![row],
            sections: vec![section],
            rows_of: RowKind::Claims,
        }
    }

    /// The JSON of a page's data element.
    fn data(page: &str) -> serde_json::Value {
        let (_, rest) = page.split_once("id=\"report-data\">").unwrap();
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    }

    #[test]
    fn no_text_of_a_report_can_open_or_close_an_element() {
        let hostile = "</script><script>alert(1)</script><!-- \" ' & ]]> <img src=x onerror=alert(1)>";
        let (plain, page) = (render(&report("x", 1, 2)), render(&report(hostile, 1, 2)));
        for opening in ["<script", "</script", "<img", "<!--", "-->"] {
            assert_eq!(page.matches(opening).count(), plain.matches(opening).count(), "{opening}");
        }
    }

    #[test]
    fn a_hostile_name_reaches_the_script_unchanged() {
        let hostile = "</script> \u{2028} \" \\ <b>";
        assert_eq!(data(&render(&report(hostile, 1, 2)))["figures"][0]["panels"][0]["series"][0]["name"], hostile);
    }

    #[test]
    fn forty_million_values_make_a_page_of_a_few_megabytes() {
        let page = render(&report("x", 400, 100_000));
        assert!(page.len() < 2_000_000, "{} bytes", page.len());
    }

    #[test]
    fn equal_reports_give_equal_bytes() {
        assert!(render(&report("x", 3, 10_000)) == render(&report("x", 3, 10_000)));
    }

    #[test]
    fn the_page_names_nothing_to_load() {
        let page = render(&report("x", 1, 100));
        let own = page.replace(UPLOT_JS, "").replace(UPLOT_CSS, "").replace(UPLOT_LICENSE, "");
        let own = own.replace("url(#", ""); // a clip path inside an image
        let own = own.replace("<p class=\"play\"><a href=\"http", ""); // a link loads nothing
        for loader in [" src=", "url(", "@import", "href=\"http", "fetch(", "<link rel=\"stylesheet"] {
            assert!(!own.contains(loader), "{loader}");
        }
    }

    #[test]
    fn a_report_with_nothing_in_it_is_still_a_page() {
        let page = render(&Report::default());
        assert!(page.starts_with("<!doctype html>") && !page.contains("id=\"claims\""));
    }
}
