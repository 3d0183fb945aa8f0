//! A report as one HTML page that opens anywhere, offline.
//! In: a [`Report`]. Out: the page as text; equal reports give equal bytes. Never: a file, a clock, a network.
// SPDX-License-Identifier: Apache-2.0 OR MIT

mod compact;
mod html;
mod model;
mod payload;
mod run;

pub use model::*;
pub use run::for_run;

/// The chart library, unchanged.
const UPLOT_JS: &str = include_str!("assets/vendor/uplot/uPlot.iife.min.js");
const UPLOT_CSS: &str = include_str!("assets/vendor/uplot/uPlot.min.css");
const UPLOT_LICENSE: &str = include_str!("assets/vendor/uplot/LICENSE");

const CSS: &str = concat!(include_str!("assets/page.css"), include_str!("assets/figure.css"));

/// One script, in one scope.
const JS: &str = concat!(
    "(function () {\n'use strict';\n",
    include_str!("assets/data.js"),
    include_str!("assets/palette.js"),
    include_str!("assets/panel.js"),
    include_str!("assets/ribbon.js"),
    include_str!("assets/figure.js"),
    include_str!("assets/page.js"),
    "})();\n"
);

/// The symbols of the verdicts and of the theme button.
const ICONS: &str = include_str!("assets/icons.svg");

/// What a browser may load from this page: nothing but what is in it.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";

/// The report as one self-contained HTML page.
pub fn render(report: &Report) -> String {
    let title = html::escape(&report.title);
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
