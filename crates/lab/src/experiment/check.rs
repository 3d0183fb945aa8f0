//! Validation of an experiment file before anything runs.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::file::{Expect, ExperimentFile, FigureSpec, SeriesSpec};
use super::plan;
use crate::expect::{Axis, check_syntax};
use crate::{Error, Result};

/// Checks the file; the error describes the first problem.
pub(super) fn check(file: &ExperimentFile) -> Result<()> {
    for (key, text) in [("id", &file.id), ("title", &file.title), ("source", &file.source), ("claim", &file.claim)] {
        if text.trim().is_empty() {
            return Err(Error::EmptyKey(key));
        }
    }
    let (axes, _) = plan::plan(file)?;
    file.population.as_ref().map_or(Ok(()), |population| population.check().map_err(Error::at("population")))?;
    if file.expect.is_empty() {
        return Err(Error::Rule("no [[expect]]: a claim without a verdict"));
    }
    for expect in &file.expect {
        check_expect(expect, &axes).map_err(Error::at(format!("expect {:?}", expect.what)))?;
    }
    file.figure.iter().try_for_each(|f| check_figure(f).map_err(Error::at(format!("figure {:?}", f.title))))
}

fn check_expect(expect: &Expect, axes: &[Axis]) -> Result<()> {
    check_syntax(&expect.measure)?;
    if expect.min.is_none() && expect.max.is_none() && expect.near.is_none() {
        return Err(Error::Rule("no bound; give `min`, `max`, or `near` with `within` or `factor`"));
    }
    if expect.near.is_some() != (expect.within.is_some() || expect.factor.is_some()) {
        return Err(Error::Rule("`near` needs `within` or `factor`, and they need `near`"));
    }
    if expect.status.is_some() != expect.reason.is_some() {
        return Err(Error::Rule(
            "`status` (\"falls short\" or \"varies\") needs a `reason`, and a `reason` needs the status",
        ));
    }
    if let Some(label) = expect.short.keys().find(|label| expect.varies.contains_key(*label)) {
        return Err(Error::TwoMarks(label.clone()));
    }
    let labels = || expect.short.keys().chain(expect.varies.keys()).chain(expect.ours.labels());
    let rows = match &expect.each {
        None => match labels().find(|label| !label.is_empty()) {
            Some(label) => {
                return Err(Error::OneRow(label.clone()));
            }
            None => 1,
        },
        Some(name) => {
            let axis = axes.iter().find(|a| a.name == *name).ok_or_else(|| Error::NoAxis(name.clone()))?;
            let known = |label: &String| axis.values.iter().any(|(l, _)| l == label);
            if let Some(odd) =
                expect.at.iter().flatten().chain(labels()).chain(expect.kernel_short.keys()).find(|label| !known(label))
            {
                return Err(Error::UnknownValue { axis: name.clone(), value: odd.clone() });
            }
            expect.at.as_ref().map_or(axis.values.len(), Vec::len)
        }
    };
    let bounds = [&expect.min, &expect.max, &expect.near];
    match bounds.into_iter().flatten().filter_map(|b| b.len()).find(|len| *len != rows) {
        Some(bounds) => Err(Error::BoundCount { bounds, rows }),
        None => Ok(()),
    }
}

fn check_figure(figure: &FigureSpec) -> Result<()> {
    if figure.read.trim().is_empty() {
        return Err(Error::Rule("`read` is empty; say in one sentence what to look at"));
    }
    for series in figure.panel.iter().flat_map(|p| &p.series) {
        check_series(series).map_err(Error::at(format!("series {:?}", series.name)))?;
    }
    Ok(())
}

fn check_series(series: &SeriesSpec) -> Result<()> {
    let sources = [
        series.column.is_some(),
        series.over.is_some(),
        series.data.is_some(),
        series.points.is_some(),
        series.function.is_some(),
    ];
    if sources.iter().filter(|given| **given).count() != 1 {
        return Err(Error::Rule("give exactly one of column, over, data, points and function"));
    }
    if series.column.is_some() {
        let of = [series.flow.is_some(), series.flows.is_some(), series.link.is_some()];
        if of.iter().filter(|given| **given).count() != 1 {
            return Err(Error::Rule("a column is of one of flow, flows and link"));
        }
    }
    if series.over.is_some() != series.value.is_some() {
        return Err(Error::Rule("`over` and `value` come together"));
    }
    if series.data.is_some() && (series.x.is_none() || series.y.is_none()) {
        return Err(Error::Rule("`data` needs the columns `x` and `y`"));
    }
    series.value.iter().chain(&series.function).try_for_each(|expression| check_syntax(expression))
}

#[cfg(test)]
mod tests {
    use crate::experiment::parse;

    const HEAD: &str = "id='X'\ntitle='t'\nsource='s'\nclaim='c'\n[scenario]\nrate='1mbit'\n";
    const LOSS: &str = "[[vary]]\nname='loss'\nkey='loss'\nvalues=['1%','2%']\n";

    fn fault(body: &str) -> String {
        parse(&format!("{HEAD}{body}"), "x.toml").unwrap_err().to_string()
    }

    #[test]
    fn a_claim_without_an_expectation_is_refused() {
        assert!(fault("").contains("no [[expect]]"));
    }

    #[test]
    fn an_expectation_without_a_bound_is_refused() {
        assert!(fault("[[expect]]\nwhat='w'\nmeasure='1'\n").contains("no bound"));
    }

    #[test]
    fn a_measure_that_is_no_expression_is_refused() {
        assert!(fault("[[expect]]\nwhat='w'\nmeasure='1 +'\nmin=0\n").contains("1 +"));
    }

    #[test]
    fn a_mark_without_a_reason_is_refused() {
        assert!(fault("[[expect]]\nwhat='w'\nmeasure='1'\nmin=0\nstatus='falls short'\n").contains("reason"));
    }

    #[test]
    fn a_label_that_names_no_row_is_refused_in_every_mark() {
        for mark in ["short={'3%'='r'}", "varies={'3%'='r'}", "ours=['3%']"] {
            let expect = format!("[[expect]]\nwhat='w'\nmeasure='1'\nmin=0\n{mark}\n");
            assert!(fault(&expect).contains("3%"), "{mark}");
            assert!(fault(&format!("{LOSS}{expect}each='loss'\n")).contains("3%"), "{mark}");
        }
    }

    #[test]
    fn a_row_with_two_marks_is_refused() {
        let expect = "[[expect]]\nwhat='w'\nmeasure='1'\nmin=0\neach='loss'\nshort={'1%'='r'}\nvaries={'1%'='r'}\n";
        assert!(fault(&format!("{LOSS}{expect}")).contains("one mark"));
    }

    #[test]
    fn a_list_of_bounds_has_one_for_each_row() {
        let expect = "[[expect]]\nwhat='w'\nmeasure='1'\neach='loss'\nmin=[1,2,3]\n";
        assert!(fault(&format!("{LOSS}{expect}")).contains("3 bounds for 2 rows"));
    }

    #[test]
    fn a_label_that_the_axis_lacks_is_refused() {
        let expect = "[[expect]]\nwhat='w'\nmeasure='1'\neach='loss'\nat=['3%']\nmin=0\n";
        assert!(fault(&format!("{LOSS}{expect}")).contains("3%"));
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_place() {
        let fault = fault("[[expect]]\nwhat='w'\nmesure='1'\nmin=0\n");
        assert!(fault.contains("x.toml") && fault.contains("mesure"), "{fault}");
    }

    #[test]
    fn a_series_has_one_origin() {
        let figure = "[[figure]]\ntitle='f'\nread='r'\nx={label='x'}\n[[figure.panel]]\ny={label='y'}\n\
                      [[figure.panel.series]]\nover='loss'\nvalue='1'\npoints=[[0,0]]\n";
        let body = format!("{LOSS}[[expect]]\nwhat='w'\nmeasure='1'\nmin=0\n{figure}");
        assert!(fault(&body).contains("exactly one"));
    }
}
