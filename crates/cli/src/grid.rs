//! Aligned rows under headings; on a terminal, long texts wrap inside their own columns.
//! In a pipe each row stays on one line.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    /// Flush right, for figures.
    Right,
    /// Flush left, and wrapped if the terminal is too narrow.
    Text,
}

/// Minimum width of a column in which text wraps. Ours: three words.
const TEXT_MIN: usize = 16;
/// Space between columns.
const GAP: &str = "  ";

/// Formats rows under headings, each column as wide as its widest cell, or as the terminal allows.
pub fn aligned(head: &[&str], align: &[Align], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let terminal = terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0));
    within(terminal, head, align, rows)
}

fn within(
    terminal: Option<usize>,
    head: &[&str],
    align: &[Align],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let mut all: Vec<Vec<String>> = vec![head.iter().map(|&cell| cell.to_owned()).collect()];
    all.extend(rows);
    let width = |column: usize| all.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let mut widths: Vec<usize> = (0..head.len()).map(|column| width(column).unwrap_or(0)).collect();
    if let Some(terminal) = terminal {
        let word = |column: usize| {
            let words = all.iter().filter_map(|row| row.get(column)).flat_map(|cell| cell.split_whitespace());
            words.map(|word| word.chars().count()).max().unwrap_or(0).max(TEXT_MIN)
        };
        let min: Vec<usize> = (0..head.len()).map(word).collect();
        shrink(&mut widths, &min, align, terminal);
    }
    let mut text = String::new();
    for row in &all {
        let cells: Vec<Vec<String>> = row.iter().zip(&widths).map(|(cell, width)| wrapped(cell, *width)).collect();
        for line in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
            let pieces = cells.iter().zip(&widths).zip(align).map(|((cell, &width), align)| {
                let piece = cell.get(line).map_or("", String::as_str);
                if *align == Align::Right { format!("{piece:>width$}") } else { format!("{piece:<width$}") }
            });
            text.push_str(pieces.collect::<Vec<_>>().join(GAP).trim_end());
            text.push('\n');
        }
    }
    text
}

/// Narrows the text columns in proportion to their spare width until the row fits; if it cannot, the terminal wraps.
fn shrink(widths: &mut [usize], min: &[usize], align: &[Align], terminal: usize) {
    let total: usize = widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1);
    let is_text = |column: &usize| align[*column] == Align::Text && widths[*column] > min[*column];
    let texts: Vec<usize> = (0..widths.len()).filter(is_text).collect();
    let spare: usize = texts.iter().map(|&column| widths[column] - min[column]).sum();
    let Some(excess) = total.checked_sub(terminal).filter(|excess| (1..=spare).contains(excess)) else {
        return;
    };
    for &column in &texts {
        // Rounded up, so that the row fits; never below the minimum, because the excess is at most the spare width.
        widths[column] -= ((widths[column] - min[column]) * excess).div_ceil(spare);
    }
}

/// Wraps a cell to lines of at most `width` characters, with at least one word each.
pub fn wrapped(cell: &str, width: usize) -> Vec<String> {
    if cell.chars().count() <= width {
        return vec![cell.to_owned()];
    }
    let mut lines: Vec<String> = vec![String::new()];
    for word in cell.split_ascii_whitespace() {
        let last = lines.len() - 1;
        let used = lines[last].chars().count();
        if used > 0 && used + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if used > 0 {
                lines[last].push(' ');
            }
            lines[last].push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> [Vec<String>; 1] {
        [vec!["a".to_owned(), "10".to_owned(), "some words that are long".to_owned()]]
    }

    const HEAD: [&str; 3] = ["name", "n", "text"];
    const ALIGN: [Align; 3] = [Align::Left, Align::Right, Align::Text];

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_end_without_blanks() {
        let text = within(None, &HEAD, &ALIGN, rows());
        assert_eq!(text, "name   n  text\na     10  some words that are long\n");
    }

    #[test]
    fn text_wraps_in_its_own_column_on_a_narrow_terminal() {
        let text = within(Some(28), &HEAD, &ALIGN, rows());
        assert_eq!(text, "name   n  text\na     10  some words that\n          are long\n");
    }

    #[test]
    fn what_cannot_fit_stays_as_it_is() {
        assert_eq!(within(Some(12), &HEAD, &ALIGN, rows()), within(None, &HEAD, &ALIGN, rows()));
    }
}
