//! Parts of the page that need no script: heading, claims, sections, tables. All text of the report is escaped.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use bbrlab_stats::plural::counted;

use super::model::{ClaimRow, Figure, Grid, Number, Provenance, Report, Section, Table, Thumbnail, Verdict};
use super::play::PORT;
use super::{escape, heat};

/// Number of rows from which a table of runs is collapsed initially, and written as tab-separated text that the script
/// renders: a third of the characters. Ours.
const RUNS_FOLDED_FROM: usize = 12;
/// Number of claims from which each is collapsed. Ours.
const FOLDED_FROM: usize = 4;
/// Number of figures from which a page's sections are collapsed. Ours.
const FIGURES_FOLDED_FROM: usize = 8;

/// Maximum summary numbers side by side; more are split into rows of equal length. Ours: a tile of 9 rem on a small
/// laptop.
const NUMBERS_IN_A_ROW: usize = 5;

/// Converts an id to an anchor.
fn slug(id: &str) -> String {
    id.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect()
}

/// Renders everything between the top bar and the footer: the answer first, then claims and sections.
pub fn body(report: &Report) -> String {
    let mut out = format!("<header class=\"head\"><h1>{}</h1>", escape(&report.title));
    if !report.subtitle.is_empty() {
        out += &format!("<p class=\"subtitle\">{}</p>", escape(&report.subtitle));
    }
    out += &provenance(&report.provenance);
    out += "</header>\n<noscript><p class=\"callout\">This page draws its figures with JavaScript, which is switched off \
            here. The tables below are complete without it.</p></noscript>\n";
    let page = Page { report, folds: folds(report) };
    out += &numbers(&report.numbers);
    if page.folds {
        out += &tally(report);
    }
    out.extend(report.lead.iter().map(|item| page.figure(item)));
    out += &thumbnails(report);
    out.extend(report.grid.as_ref().map(grid));
    if !report.claims.is_empty() {
        out += &page.claims();
    }
    for part in page.after_claims() {
        out += &page.section(part);
    }
    out
}

/// Returns true if each claim contains its own section, figures first and rows below them; on a page of many it is
/// collapsed.
fn folds(report: &Report) -> bool {
    let mut groups = report.claims.chunk_by(|a, b| a.id == b.id);
    let has_section = |group: &[ClaimRow]| report.sections.iter().any(|section| section.id == group[0].id);
    !report.claims.is_empty() && groups.all(has_section)
}

/// Renders the command and the facts of the question.
fn provenance(asked: &Provenance) -> String {
    let mut out = String::new();
    if !asked.facts.is_empty() {
        let fact = |(name, value): &(String, String)| {
            format!("<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value))
        };
        out += &format!("<dl class=\"facts\">{}</dl>", asked.facts.iter().map(fact).collect::<String>());
    }
    if !asked.command.is_empty() {
        out += &command("Command", &asked.command);
    }
    out
}

/// Renders a command line as text that a reader can copy.
fn command(what: &str, line: &str) -> String {
    format!("<p class=\"command\"><span>{what}</span> <code>{}</code></p>", escape(line))
}

fn numbers(numbers: &[Number]) -> String {
    if numbers.is_empty() {
        return String::new();
    }
    let one = |number: &Number| {
        let key = number.color_key.as_ref().map_or(String::new(), |key| format!(" data-key=\"{}\"", escape(key)));
        let note =
            if number.note.is_empty() { String::new() } else { format!("<small>{}</small>", escape(&number.note)) };
        let (label, value) = (escape(&number.label), escape(&number.value));
        format!("<div{key}><dt>{label}</dt><dd><b>{value}</b>{note}</dd></div>")
    };
    let columns = numbers.len().div_ceil(numbers.len().div_ceil(NUMBERS_IN_A_ROW));
    let tiles: String = numbers.iter().map(one).collect();
    format!("<dl class=\"numbers\" style=\"--columns:{columns}\">{tiles}</dl>\n")
}

/// Small figures that link to the rest of the page; the script draws them.
fn thumbnails(report: &Report) -> String {
    let first = report.lead.len();
    let place =
        |id: &str| report.sections.iter().flat_map(|section| &section.figures).position(|figure| figure.id == id);
    let one = |thumbnail: &Thumbnail| {
        let number = first + place(&thumbnail.figure)?;
        Some(format!(
            "<li><a href=\"#fig-{}\" data-thumbnail=\"{number}\" data-panel=\"{}\"><span class=\"picture\"></span>\
             <span class=\"name\">{}</span></a></li>",
            slug(&thumbnail.figure),
            thumbnail.panel,
            escape(&thumbnail.caption)
        ))
    };
    let all: String = report.thumbnails.iter().filter_map(one).collect();
    let count = report.thumbnails.iter().filter(|thumbnail| place(&thumbnail.figure).is_some()).count();
    // Five in rows of four would leave one alone.
    let columns = if count > 4 && count % 4 == 1 { 3 } else { 4 };
    match count {
        0 => all,
        _ => format!("<ul class=\"thumbnails\" style=\"--columns:{columns}\" aria-label=\"Figures\">{all}</ul>\n"),
    }
}

/// Renders verdicts as symbols; each row links to its section.
fn grid(grid: &Grid) -> String {
    let mut out = format!(
        "<section class=\"verdicts\" id=\"verdicts\"><h2>{}</h2><p class=\"source\">{}</p><div class=\"box\" tabindex=\"0\" \
         role=\"region\" aria-label=\"{0}\"><table><thead><tr><th></th>",
        escape(&grid.title),
        escape(&grid.how_to_read)
    );
    out.extend(grid.xs.iter().map(|x| format!("<th scope=\"col\"><span>{}</span></th>", escape(x))));
    out += "</tr></thead><tbody>";
    for ((label, id), row) in grid.ys.iter().zip(&grid.cells) {
        out += &format!("<tr><th scope=\"row\"><a href=\"#{}\">{}</a></th>", slug(id), escape(label));
        out.extend(row.iter().map(|(verdict, why)| {
            let (class, name) = verdict.map_or(("none", "not applicable"), |verdict| (class(verdict), verdict.name()));
            let why = if why.is_empty() { name.to_owned() } else { escape(why) };
            let mark = match verdict {
                Some(Verdict::Holds) => "●",
                Some(Verdict::FallsShort) => "▲",
                Some(Verdict::Fails) => "✕",
                None => "·",
            };
            format!("<td class=\"{class}\" title=\"{why}\"><span aria-hidden=\"true\">{mark}</span><span class=\"hidden\">{name}</span></td>")
        }));
        out += "</tr>";
    }
    out + "</tbody></table></div></section>\n"
}

/// Renders the table of contents beside the page.
pub fn contents(report: &Report) -> String {
    let mut out = String::from("<li><a href=\"#main\">The answer</a></li>");
    if !report.claims.is_empty() {
        out += &format!("<li><a href=\"#claims\">{}</a></li>", rows_of(report));
    }
    for section in &report.sections {
        let verdict = worst(report, section).map_or(String::new(), icon);
        let badge = badge(report, section);
        let (id, title) = (slug(&section.id), escape(&section.title));
        out += &format!("<li><a href=\"#{id}\">{verdict}<span>{badge}{title}</span></a></li>");
    }
    out
}

/// Heading of the rows: `Test cases`.
fn rows_of(report: &Report) -> String {
    let noun = report.rows_of.noun();
    format!("{}{}s", noun[..1].to_uppercase(), &noun[1..])
}

/// Returns the section's id as displayed, if it names a claim.
fn badge(report: &Report, section: &Section) -> String {
    let names_claim = report.claims.iter().any(|row| row.id == section.id);
    let shown = names_claim && !section.title.starts_with(&section.id);
    if shown { format!("<b class=\"id\">{}</b> ", escape(&section.id)) } else { String::new() }
}

/// Returns the worst verdict among a section's rows.
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

/// Renders the verdict's symbol, distinguishable by shape alone.
fn icon(verdict: Verdict) -> String {
    let (class, name) = (class(verdict), verdict.name());
    format!("<svg class=\"icon {class}\" role=\"img\" aria-label=\"{name}\"><use href=\"#icon-{class}\"/></svg>")
}

fn verdict_mark(verdict: Verdict) -> String {
    let (class, name) = (class(verdict), verdict.name());
    format!(
        "<span class=\"verdict {class}\"><svg aria-hidden=\"true\"><use href=\"#icon-{class}\"/></svg>{name}</span>"
    )
}

/// State of the rendering.
struct Page<'a> {
    report: &'a Report,
    /// Claims and their sections are collapsed.
    folds: bool,
}

impl<'a> Page<'a> {
    /// Returns the independent sections: all, or those without a claim if each claim contains its own.
    fn after_claims(&self) -> Vec<&'a Section> {
        let is_claim = |section: &&Section| self.report.claims.iter().any(|row| row.id == section.id);
        self.report.sections.iter().filter(|section| !self.folds || !is_claim(section)).collect()
    }

    /// Renders the number of claims that hold, and each claim.
    fn claims(&self) -> String {
        let rows = self.report.claims.len();
        let groups: Vec<&[ClaimRow]> = self.report.claims.chunk_by(|a, b| a.id == b.id).collect();
        let mut out = format!(
            "<section id=\"claims\"><h2>{}</h2>\n<p class=\"source\">{} of {}, each with its expected value.</p>\n",
            rows_of(self.report),
            counted(rows, "measured value"),
            counted(groups.len(), self.report.rows_of.noun())
        );
        if self.folds {
            out += "<p class=\"fold-all\" hidden><button type=\"button\" id=\"unfold\">Unfold all</button></p>";
            out += &format!("<div id=\"claims-table\" data-rows=\"{rows}\">\n");
            out.extend(groups.iter().map(|group| self.folded_claim(group)));
            out += "</div>\n";
        } else {
            out += &tally(self.report);
            out += &format!("<div class=\"box\"><table class=\"claims\" id=\"claims-table\" data-rows=\"{rows}\">");
            out +=
                "<caption class=\"hidden\">Each claim with its expected and measured value and its verdict</caption>";
            out += CLAIMS_HEAD;
            for group in groups {
                let rows: String = group.iter().map(claim_row).collect();
                out += &format!("<tbody class=\"claim\">{}{rows}</tbody>\n", group_head(self.report, &group[0]));
            }
            out += "</table></div>\n";
        }
        out += "<p class=\"empty\" hidden>No claim has this verdict.</p></section>\n";
        out
    }

    /// Renders one claim as a line that expands to everything on the page about it.
    fn folded_claim(&self, rows: &[ClaimRow]) -> String {
        let row = &rows[0];
        let Some(section) = self.report.sections.iter().find(|section| section.id == row.id) else {
            return String::new();
        };
        let worst = rows.iter().map(|row| row.verdict).max().unwrap_or(Verdict::Holds);
        let counts: String = Verdict::ALL
            .into_iter()
            .filter_map(|verdict| {
                let n = rows.iter().filter(|row| row.verdict == verdict).count();
                (n > 0).then(|| format!("<span class=\"verdict {}\">{}{n}</span>", class(verdict), icon(verdict)))
            })
            .collect();
        let title = row
            .title
            .strip_prefix(row.id.as_str())
            .map_or(row.title.as_str(), |rest| rest.trim_start_matches([':', ' ']));
        let figures = section.figures.len();
        let figures = if figures == 0 { String::new() } else { counted(figures, "figure") };
        let is_one_of_few = self.report.claims.chunk_by(|a, b| a.id == b.id).count() < FOLDED_FROM;
        let open = if is_one_of_few { " open" } else { "" };
        format!(
            "<details class=\"claim\" id=\"{}\"{open}><summary>{}<b class=\"id\">{}</b> <span class=\"title\">{}</span>\
             <small class=\"figures\">{figures}</small><span class=\"counts\">{counts}</span></summary>\
             <div class=\"body\">{}</div></details>\n",
            slug(&row.id),
            icon(worst),
            escape(&row.id),
            escape(title),
            self.inside(section)
        )
    }

    /// Renders an independent section; on a page of many figures it is collapsed unless it is the first.
    fn section(&self, section: &Section) -> String {
        let (id, badge, title) = (slug(&section.id), badge(self.report, section), escape(&section.title));
        let figures: usize = self.report.sections.iter().map(|section| section.figures.len()).sum();
        let is_first = self.report.sections.first().is_some_and(|first| std::ptr::eq(first, section));
        if figures >= FIGURES_FOLDED_FROM && !is_first {
            let figures =
                if section.figures.is_empty() { String::new() } else { counted(section.figures.len(), "figure") };
            let inside = self.inside(section);
            return format!(
                "<details class=\"part fold\" id=\"{id}\"><summary><h2>{badge}{title}</h2>\
                 <small class=\"figures\">{figures}</small></summary>{inside}</details>\n"
            );
        }
        format!("<section class=\"part\" id=\"{id}\"><h2>{badge}{title}</h2>\n{}</section>\n", self.inside(section))
    }

    /// Renders the contents of a section below its heading.
    fn inside(&self, section: &Section) -> String {
        let mut out = String::new();
        if !section.claim.is_empty() {
            let paragraphs = section.claim.split("\n\n").map(|part| format!("<p>{}</p>", escape(part)));
            out += &format!("<blockquote>{}</blockquote>\n", paragraphs.collect::<String>());
        }
        if !section.commands.is_empty() {
            out += &format!("<pre class=\"commands\"><code>{}</code></pre>\n", escape(&section.commands.join("\n")));
        }
        if !section.source.is_empty() {
            out += &format!("<p class=\"source\">Source: {}</p>\n", escape(&section.source));
        }
        if let Some(text) = &section.contradiction {
            out += &format!(
                "<p class=\"callout\"><strong>Contradictions between or within the sources.</strong> {}</p>\n",
                escape(text)
            );
        }
        out.extend(section.figures.iter().map(|item| self.figure(item)));
        if let Some(tree) = &section.tree {
            out += &heat::tree(tree);
        }
        if !section.heats.is_empty() {
            out += "<div class=\"heats\">";
            out.extend(section.heats.iter().map(heat::map));
            out += "</div>\n";
        }
        if self.folds && !section.rows.is_empty() {
            let rows: String = section.rows.iter().filter_map(|&i| self.report.claims.get(i)).map(claim_row).collect();
            out += &format!(
                "<div class=\"box rows\"><table class=\"claims\">{CLAIMS_HEAD}<tbody>{rows}</tbody></table></div>\n"
            );
        }
        if let Some(table) = &section.runs_table {
            out += &runs(table);
        }
        out
    }

    /// Renders a figure's frame; the script fills it, by its number in the page's data.
    fn figure(&self, figure: &Figure) -> String {
        let number = self.number_of(figure);
        let id = slug(&figure.id);
        let mut out = format!(
            "<figure id=\"fig-{id}\" data-figure=\"{number}\" data-drawn=\"false\"><div class=\"figure-head\"><h3>{}\
             <a class=\"anchor\" href=\"#fig-{id}\" aria-label=\"Link to this figure\" title=\"Link to this figure\">#</a></h3>\
             <div class=\"tools\"></div></div>\n<figcaption>",
            escape(&figure.title)
        );
        if !figure.how_to_read.is_empty() {
            out += &format!("<p>{}</p>", escape(&figure.how_to_read));
        }
        if !figure.source.is_empty() {
            out += &format!("<p class=\"source\">{}</p>", escape(&figure.source));
        }
        out += "</figcaption><div class=\"plots\"></div><p class=\"note\" hidden></p>";
        let made = if figure.command.is_empty() { &self.report.provenance.command } else { &figure.command };
        if !made.is_empty() {
            out += &command("Command", &format!("{made} --report page.html"));
        }
        if !figure.play.is_empty() {
            out += &format!(
                "<p class=\"play\"><a href=\"http://127.0.0.1:{PORT}/#{}\">Play it</a> while <code>bbrlab play</code> runs \
                 on this machine</p>",
                escape(&figure.play)
            );
        }
        out + "</figure>\n"
    }

    /// Index of the figure in the page's data: those that open the page first, then those of the sections in order.
    fn number_of(&self, figure: &Figure) -> usize {
        let figures = self.report.sections.iter().flat_map(|section| &section.figures);
        self.report.lead.iter().chain(figures).position(|other| std::ptr::eq(other, figure)).unwrap_or(0)
    }
}

const CLAIMS_HEAD: &str = "<thead><tr><th scope=\"col\">What is measured</th><th scope=\"col\">Expected</th>\
                           <th scope=\"col\">Measured</th><th scope=\"col\">Verdict</th></tr></thead>\n";

/// Counts by verdict, which also filter the table.
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
        "<tr data-verdict=\"{class}\"><td>{}{why}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        escape(&row.what),
        escape(&row.expected),
        escape(&row.measured),
        verdict_mark(row.verdict)
    )
}

fn runs(table: &Table) -> String {
    let count = table.rows.len();
    let is_folded = count >= RUNS_FOLDED_FROM;
    let open = if is_folded { "" } else { " open" };
    let out = format!(
        "<details class=\"runs\"{open}><summary>Table of values <span>({})</span></summary>\
         <div class=\"box\" tabindex=\"0\" role=\"region\" aria-label=\"Table of values\">",
        counted(count, "row")
    );
    let numeric: Vec<bool> = (0..table.columns.len()).map(|column| is_numeric(table, column)).collect();
    if is_folded {
        return out + as_text(table, &numeric).as_str() + "</div></details>\n";
    }
    out + as_table(table, &numeric).as_str() + "</div></details>\n"
}

fn as_table(table: &Table, numeric: &[bool]) -> String {
    let class = |column: usize| if numeric[column] { " class=\"number\"" } else { "" };
    let mut out = "<table><thead><tr>".to_owned();
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
    out + "</tbody></table>"
}

/// Formats one line per row, cells separated by tabs; the first line names the columns.
fn as_text(table: &Table, numeric: &[bool]) -> String {
    let cell = |text: &str| escape(&text.replace(['\t', '\n', '\r'], " "));
    let line = |cells: &[String]| -> String {
        let all = (0..table.columns.len()).map(|column| cell(cells.get(column).map_or("", String::as_str)));
        all.collect::<Vec<String>>().join("\t")
    };
    let lines: Vec<String> = std::iter::once(&table.columns).chain(&table.rows).map(|row| line(row)).collect();
    let numbers: Vec<String> =
        (0..numeric.len()).filter(|&column| numeric[column]).map(|column| column.to_string()).collect();
    format!("<pre class=\"values\" data-numbers=\"{}\">{}</pre>", numbers.join(" "), lines.join("\n"))
}

/// Returns true if every non-empty cell is a dash, a number with a unit, or an interval of such numbers.
fn is_numeric(table: &Table, column: usize) -> bool {
    let mut cells = table.rows.iter().filter_map(|row| row.get(column)).filter(|cell| !cell.is_empty()).peekable();
    let is_word = |word: &&str| *word != "to" && word.starts_with(char::is_alphabetic);
    let is_number = |cell: &str| {
        cell.trim_start_matches(['-', '+', '−', '.']).starts_with(|c: char| c.is_ascii_digit())
            && cell.split(' ').filter(is_word).count() <= 1
    };
    cells.peek().is_some() && cells.all(|cell| is_number(cell) || cell == "–" || cell == "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_holds_no_space_or_quote() {
        assert_eq!(slug("F4/F5 \"x\""), "F4-F5--x-");
    }

    #[test]
    fn a_column_is_numeric_only_if_each_of_its_cells_is() {
        let is_numeric = |cells: &[&str]| {
            let rows = cells.iter().map(|&cell| vec![cell.to_owned()]).collect();
            is_numeric(&Table { columns: vec![String::new()], rows }, 0)
        };
        assert!(is_numeric(&["1.5", "−2", "", "–"]));
        assert!(is_numeric(&["5 Mbit/s", "+6.1 % (+2 to +9.7)", "2 to 9 ms", "3 %"]));
        assert!(!is_numeric(&["bbr1", "2"]));
        assert!(!is_numeric(&["20 transfers of 100 kB alone", "1 % random loss"]));
        assert!(!is_numeric(&["5.1.2 Protection against bufferbloat"]));
        assert!(!is_numeric(&[""]));
    }
}
