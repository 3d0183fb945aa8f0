//! The parts of the page that need no script: heading, claims, sections, tables.
//! All text of the report is escaped.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::heat;
use super::model::{ClaimRow, Figure, Report, Section, Table, Verdict};

/// From how many rows a table of runs is folded away at first. Ours.
const RUNS_FOLDED_FROM: usize = 12;

/// Text as HTML shows it, fit for element content and for quoted attributes.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// An id as the page's anchors spell it.
fn slug(id: &str) -> String {
    id.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect()
}

/// Everything between the top bar and the footer.
pub fn body(report: &Report) -> String {
    let mut out = format!(
        "<header class=\"head\"><h1>{}</h1><p class=\"subtitle\">{}</p></header>\n",
        escape(&report.title),
        escape(&report.subtitle)
    );
    out += "<noscript><p class=\"callout\">This page draws its figures with JavaScript, which is switched off here. \
            The tables below are complete without it.</p></noscript>\n";
    if !report.claims.is_empty() {
        out += &claims(report);
    }
    let mut next_figure = 0;
    for part in &report.sections {
        out += &section(report, part, &mut next_figure);
    }
    out
}

/// The list of sections beside the page.
pub fn contents(report: &Report) -> String {
    let mut out = String::new();
    if !report.claims.is_empty() {
        out += "<li><a href=\"#claims\">Claims</a></li>";
    }
    for section in &report.sections {
        let verdict = worst(report, section).map_or(String::new(), icon);
        let badge = badge(report, section);
        let (id, title) = (slug(&section.id), escape(&section.title));
        out += &format!("<li><a href=\"#{id}\">{verdict}<span>{badge}{title}</span></a></li>");
    }
    out
}

/// The section's id as its readers know it, where it names a claim.
fn badge(report: &Report, section: &Section) -> String {
    let names_claim = report.claims.iter().any(|row| row.id == section.id);
    let shown = names_claim && !section.title.starts_with(&section.id);
    if shown { format!("<b class=\"id\">{}</b> ", escape(&section.id)) } else { String::new() }
}

/// The worst verdict among a section's rows.
fn worst(report: &Report, section: &Section) -> Option<Verdict> {
    section.rows.iter().filter_map(|&i| report.claims.get(i)).map(|row| row.verdict).max()
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::FallsShort => "short",
        Verdict::Fails => "fails",
    }
}

/// The verdict's symbol: a shape of its own, so that it reads without colour.
fn icon(verdict: Verdict) -> String {
    let (class, name) = (class(verdict), verdict.name());
    format!("<svg class=\"icon {class}\" role=\"img\" aria-label=\"{name}\"><use href=\"#icon-{class}\"/></svg>")
}

fn verdict_mark(verdict: Verdict) -> String {
    let (class, name) = (class(verdict), verdict.name());
    format!(
        "<span class=\"verdict {class}\"><svg class=\"icon\" aria-hidden=\"true\"><use href=\"#icon-{class}\"/></svg>{name}</span>"
    )
}

/// The page's opening: how many claims hold, and each of them.
fn claims(report: &Report) -> String {
    let rows = report.claims.len();
    let claims = report.claims.chunk_by(|a, b| a.id == b.id).count();
    let mut out = format!(
        "<section id=\"claims\"><h2>Claims</h2>\n<p class=\"source\">{} of {}, each with what its source \
         leads one to expect and what was measured here.</p>\n",
        counted(rows, "measured value"),
        counted(claims, "claim")
    );
    out += &tally(report);
    out += &format!("<div class=\"box\"><table class=\"claims\" id=\"claims-table\" data-rows=\"{rows}\">");
    out += "<caption class=\"hidden\">Each claim with its expected and measured value and its verdict</caption>";
    out += "<thead><tr><th scope=\"col\">What is measured</th>\
            <th scope=\"col\">Expected</th><th scope=\"col\">Measured</th><th scope=\"col\">Verdict</th></tr></thead>\n";
    for group in report.claims.chunk_by(|a, b| a.id == b.id) {
        out += "<tbody>";
        out += &group_head(report, &group[0]);
        for row in group {
            out += &claim_row(row);
        }
        out += "</tbody>\n";
    }
    out += "</table></div>\n<p class=\"empty\" hidden>No claim has this verdict.</p></section>\n";
    out
}

/// `1 figure`, `2 figures`.
fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// The counts by verdict, which also filter the table.
fn tally(report: &Report) -> String {
    let all = report.claims.len();
    let count = |verdict| report.claims.iter().filter(|row| row.verdict == verdict).count();
    let mut buttons = format!(
        "<button type=\"button\" data-filter=\"all\" aria-pressed=\"true\"><b>{all}</b><span>all rows</span></button>"
    );
    let mut bar = String::new();
    for verdict in Verdict::ALL {
        let (n, name, class) = (count(verdict), verdict.name(), class(verdict));
        buttons += &format!(
            "<button type=\"button\" class=\"{class}\" data-filter=\"{class}\" aria-pressed=\"false\"><b>{n}</b>\
             <span><svg class=\"icon\" aria-hidden=\"true\"><use href=\"#icon-{class}\"/></svg>{name}</span></button>"
        );
        bar += &format!("<i class=\"{class}\" style=\"flex:{n}\"></i>");
    }
    format!(
        "<div class=\"tally\" role=\"group\" aria-label=\"Show rows by verdict\">{buttons}</div>\
         <div class=\"bar\" aria-hidden=\"true\">{bar}</div>\n"
    )
}

fn group_head(report: &Report, row: &ClaimRow) -> String {
    let (id, title) = (escape(&row.id), escape(&row.title));
    let name = format!("<b class=\"id\">{id}</b> {title}");
    let section = report.sections.iter().find(|section| section.id == row.id);
    let name = match section {
        Some(_) => format!("<a href=\"#{}\">{name}</a>", slug(&row.id)),
        None => name,
    };
    let figures = section.map_or(0, |section| section.figures.len());
    let figures = if figures == 0 { String::new() } else { counted(figures, "figure") };
    let source = escape(&row.source);
    format!(
        "<tr class=\"group\"><th colspan=\"4\" scope=\"rowgroup\"><span>{name}</span> \
         <small>{source}</small> <small class=\"figures\">{figures}</small></th></tr>"
    )
}

fn claim_row(row: &ClaimRow) -> String {
    let class = class(row.verdict);
    let why = row.reason.as_deref().filter(|reason| !reason.is_empty());
    let why = why.map_or(String::new(), |reason| format!("<p class=\"why\">{}</p>", escape(reason)));
    format!(
        "<tr data-verdict=\"{class}\"><td class=\"what\">{}{why}</td><td data-label=\"Expected\">{}</td>\
         <td data-label=\"Measured\">{}</td><td class=\"mark\">{}</td></tr>",
        escape(&row.what),
        escape(&row.expected),
        escape(&row.measured),
        verdict_mark(row.verdict)
    )
}

fn section(report: &Report, section: &Section, next_figure: &mut usize) -> String {
    let (id, badge, title) = (slug(&section.id), badge(report, section), escape(&section.title));
    let mut out = format!("<section class=\"part\" id=\"{id}\"><h2>{badge}{title}</h2>\n");
    if !section.claim.is_empty() {
        out += &format!("<blockquote>{}</blockquote>\n", escape(&section.claim));
    }
    if !section.source.is_empty() {
        out += &format!("<p class=\"source\">Source: {}</p>\n", escape(&section.source));
    }
    if let Some(text) = &section.contradiction {
        out += &format!(
            "<p class=\"callout\"><strong>Where the sources contradict each other or themselves.</strong> {}</p>\n",
            escape(text)
        );
    }
    let rows: String = section.rows.iter().filter_map(|&i| report.claims.get(i)).map(claim_row).collect();
    if !rows.is_empty() {
        out += "<div class=\"box\"><table class=\"claims\"><thead><tr><th scope=\"col\">What is measured</th>\
                <th scope=\"col\">Expected</th><th scope=\"col\">Measured</th><th scope=\"col\">Verdict</th></tr></thead>";
        out += &format!("<tbody>{rows}</tbody></table></div>\n");
    }
    for item in &section.figures {
        out += &figure(item, *next_figure);
        *next_figure += 1;
    }
    if let Some(tree) = &section.tree {
        out += &heat::tree(tree);
    }
    if !section.heats.is_empty() {
        out += "<div class=\"heats\">";
        out.extend(section.heats.iter().map(heat::map));
        out += "</div>\n";
    }
    if let Some(table) = &section.runs_table {
        out += &runs(table);
    }
    if !report.claims.is_empty() {
        out += "<p class=\"back\"><a href=\"#claims\">Back to the claims</a></p>";
    }
    out + "</section>\n"
}

/// A figure's frame; the script fills it, by its number in the page.
fn figure(figure: &Figure, number: usize) -> String {
    let mut out = format!(
        "<figure id=\"fig-{}\" data-figure=\"{number}\" data-drawn=\"false\">\
         <div class=\"figure-head\"><h3>{}</h3><div class=\"tools\"></div></div>\n",
        slug(&figure.id),
        escape(&figure.title)
    );
    out += "<figcaption>";
    if !figure.how_to_read.is_empty() {
        out += &format!("<p>{}</p>", escape(&figure.how_to_read));
    }
    if !figure.source.is_empty() {
        out += &format!("<p class=\"source\">{}</p>", escape(&figure.source));
    }
    out + "</figcaption><div class=\"plots\"></div><p class=\"note\" hidden></p></figure>\n"
}

fn runs(table: &Table) -> String {
    let open = if table.rows.len() < RUNS_FOLDED_FROM { " open" } else { "" };
    let count = table.rows.len();
    let numeric: Vec<bool> = (0..table.columns.len()).map(|column| is_numeric(table, column)).collect();
    let class = |column: usize| if numeric[column] { " class=\"number\"" } else { "" };
    let mut out = format!(
        "<details class=\"runs\"{open}><summary>Table of values <span>({})</span></summary>",
        counted(count, "row")
    );
    out += "<div class=\"box\" tabindex=\"0\" role=\"region\" aria-label=\"Table of values\"><table><thead><tr>";
    for (column, name) in table.columns.iter().enumerate() {
        out += &format!("<th scope=\"col\"{}>{}</th>", class(column), escape(name));
    }
    out += "</tr></thead><tbody>";
    for row in &table.rows {
        out += "<tr>";
        for column in 0..table.columns.len() {
            out += &format!("<td{}>{}</td>", class(column), escape(row.get(column).map_or("", String::as_str)));
        }
        out += "</tr>";
    }
    out + "</tbody></table></div></details>\n"
}

/// Whether each cell that holds anything begins like a number.
fn is_numeric(table: &Table, column: usize) -> bool {
    let mut cells = table.rows.iter().filter_map(|row| row.get(column)).filter(|cell| !cell.is_empty()).peekable();
    let number_like =
        |cell: &String| cell.trim_start_matches(['-', '+', '−', '.']).starts_with(|c: char| c.is_ascii_digit());
    cells.peek().is_some() && cells.all(|cell| number_like(cell) || cell == "–" || cell == "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_with_a_meaning_in_html_is_escaped() {
        assert_eq!(escape("<a b='c' d=\"e\">&"), "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;");
    }

    #[test]
    fn an_anchor_holds_no_space_or_quote() {
        assert_eq!(slug("F4/F5 \"x\""), "F4-F5--x-");
    }

    #[test]
    fn a_column_is_numeric_only_if_each_of_its_cells_is() {
        let rows = vec![vec!["1.5".into(), "bbr1".into()], vec!["−2".into(), "2".into()]];
        let table = Table { columns: vec!["a".into(), "b".into()], rows };
        assert_eq!([is_numeric(&table, 0), is_numeric(&table, 1)], [true, false]);
    }
}
