//! Columns of a comma-separated file with a header line and `#` comments.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;

use crate::{Error, Result};

/// Reads the numbers of columns `x` and `y` from the rows that match `filter`.
pub fn columns(text: &str, x: &str, y: &str, filter: &BTreeMap<String, String>) -> Result<(Vec<f64>, Vec<f64>)> {
    let mut reader =
        csv::ReaderBuilder::new().comment(Some(b'#')).trim(csv::Trim::All).flexible(true).from_reader(text.as_bytes());
    let heading = reader.headers()?.clone();
    let place = |name: &str| {
        let found = heading.iter().position(|h| h == name);
        found.ok_or_else(|| Error::NoColumn {
            name: name.to_owned(),
            known: heading.iter().map(str::to_owned).collect(),
        })
    };
    let (at_x, at_y) = (place(x)?, place(y)?);
    let filter: Vec<(usize, &String)> =
        filter.iter().map(|(key, value)| place(key).map(|at| (at, value))).collect::<Result<_, _>>()?;
    let (mut xs, mut ys) = (Vec::new(), Vec::new());
    for row in reader.records() {
        let row = row?;
        if filter.iter().any(|(at, value)| row.get(*at) != Some(value.as_str())) {
            continue;
        }
        let cell = |at: usize| {
            let text = row.get(at).unwrap_or("");
            let line = row.position().map_or(0, csv::Position::line);
            text.parse::<f64>().map_err(|_| Error::at(format!("line {line}"))(Error::NotANumber(text.to_owned())))
        };
        xs.push(cell(at_x)?);
        ys.push(cell(at_y)?);
    }
    Ok((xs, ys))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# from a figure\ncc,loss,rate\nbbr,1,90.1\ncubic,1,1.3\nbbr,2,89.1\n";

    #[test]
    fn only_the_rows_of_the_filter_are_read() {
        let filter = BTreeMap::from([("cc".to_owned(), "bbr".to_owned())]);
        assert_eq!(columns(TEXT, "loss", "rate", &filter).unwrap(), (vec![1.0, 2.0], vec![90.1, 89.1]));
    }

    #[test]
    fn a_missing_column_names_those_that_there_are() {
        let error = columns(TEXT, "loss", "speed", &BTreeMap::new()).unwrap_err().to_string();
        assert!(error.contains("cc, loss, rate"), "{error}");
    }

    #[test]
    fn a_cell_that_is_no_number_is_named_with_its_line() {
        let error = columns(TEXT, "cc", "rate", &BTreeMap::new()).unwrap_err().to_string();
        assert!(error.contains("line 3") && error.contains("bbr"), "{error}");
    }
}
