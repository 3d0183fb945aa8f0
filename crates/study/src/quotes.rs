//! Detection of unterminated quotes in CSV: readers silently take everything that follows as one cell.
// SPDX-License-Identifier: Apache-2.0 OR MIT

/// Returns the line, counted from 1, that opens an unterminated quote. Lines that begin with `#` are comments.
pub fn left_open(bytes: &[u8]) -> Option<usize> {
    let (mut line, mut opened, mut cell_begins, mut line_begins, mut comment) = (1, None, true, true, false);
    let mut rest = bytes.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        match (byte, opened) {
            (b'"', Some(_)) if rest.peek() == Some(&b'"') => drop(rest.next()),
            (b'"', Some(_)) => opened = None,
            (b'"', None) if cell_begins && !comment => opened = Some(line),
            (b'#', None) if line_begins => comment = true,
            _ => {}
        }
        if byte == b'\n' {
            line += 1;
        }
        if opened.is_none() {
            comment &= byte != b'\n';
            line_begins = byte == b'\n';
            cell_begins = matches!(byte, b'\n' | b',');
        }
    }
    opened
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_quote_is_found_on_the_line_where_it_opens() {
        assert_eq!(left_open(b"a,b\n\"x,1\ny,2\n"), Some(2));
        assert_eq!(left_open(b"a,b\nx,\"1"), Some(2));
        assert_eq!(left_open(b"a,b\n\"x\"\"y\n,1"), Some(2));
    }

    #[test]
    fn closed_quotes_quotes_within_cells_and_those_of_comments_are_none() {
        for text in ["a,b\n\"x\n,y\",1\n", "a\n5\" pipe\n", "# \"note\na\n1\n", "", "\"\"\n", "a\n\"x\"\"y\"\n"] {
            assert_eq!(left_open(text.as_bytes()), None, "{text:?}");
        }
    }
}
