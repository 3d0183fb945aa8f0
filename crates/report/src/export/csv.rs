//! Time series as CSV: a table of flows and one of links, or both in one long table. RFC 4180 with line feeds; no name
//! contains a comma, so no field is quoted.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io::{self, Write};

use super::Record;
use super::columns::{FLOW, LINK, seconds, state_at};

/// Writes the flows: one row per sample and flow.
pub fn flows(record: &Record<'_>, to: &mut dyn Write) -> io::Result<()> {
    let names: Vec<&str> = FLOW.iter().map(|(name, _)| *name).collect();
    writeln!(to, "t_s,flow,cc,state,{}", names.join(","))?;
    for (index, &t_ns) in record.trace.t_ns.iter().enumerate() {
        for (flow, result) in record.trace.flows.iter().zip(&record.result.flows) {
            write!(to, "{},{},{},{}", seconds(t_ns), result.name, result.cc, state_at(flow, t_ns))?;
            FLOW.iter().try_for_each(|(_, cell)| field(to, cell(flow, index)))?;
            writeln!(to)?;
        }
    }
    Ok(())
}

/// Writes the links: one row per sample and link; links are counted from 1.
pub fn links(record: &Record<'_>, to: &mut dyn Write) -> io::Result<()> {
    let names: Vec<&str> = LINK.iter().map(|(name, _)| *name).collect();
    writeln!(to, "t_s,link,{}", names.join(","))?;
    for (index, &t_ns) in record.trace.t_ns.iter().enumerate() {
        for (link, number) in record.trace.links.iter().zip(1..) {
            write!(to, "{},{number}", seconds(t_ns))?;
            LINK.iter().try_for_each(|(_, cell)| field(to, cell(link, index)))?;
            writeln!(to)?;
        }
    }
    Ok(())
}

/// Writes flows and links as one long table: one row per sample, flow or link, and metric.
pub fn long(record: &Record<'_>, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "t_s,kind,name,cc,metric,value")?;
    for (index, &t_ns) in record.trace.t_ns.iter().enumerate() {
        let t_s = seconds(t_ns);
        for (flow, result) in record.trace.flows.iter().zip(&record.result.flows) {
            for (metric, value) in FLOW.iter().filter_map(|(name, cell)| Some((name, cell(flow, index)?))) {
                writeln!(to, "{t_s},flow,{},{},{metric},{value}", result.name, result.cc)?;
            }
        }
        for (link, number) in record.trace.links.iter().zip(1..) {
            for (metric, value) in LINK.iter().filter_map(|(name, cell)| Some((name, cell(link, index)?))) {
                writeln!(to, "{t_s},link,{number},,{metric},{value}")?;
            }
        }
    }
    Ok(())
}

fn field(to: &mut dyn Write, value: Option<u64>) -> io::Result<()> {
    match value {
        Some(value) => write!(to, ",{value}"),
        None => write!(to, ","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::testing::example;

    fn text(fill: fn(&Record<'_>, &mut dyn Write) -> io::Result<()>) -> String {
        let (setup, result, trace) = example();
        let mut bytes = Vec::new();
        fill(&Record { setup: &setup, result: &result, trace: &trace, packets: &[] }, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn the_flows_table_names_each_flows_state_at_each_sample() {
        let text = text(flows);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("t_s,flow,cc,state,cwnd,inflight,pacing_bps"));
        assert_eq!(lines[3], "0.01,bbr1#0,bbr1,startup,11,2,5000000,4000000,41000,41000,1448,0,1448,0,0");
        assert_eq!(lines[6], "0.02,peer,cubic,recovery,21,3,6000000,4000000,42500,41000,2896,1448,1448,1,0");
    }

    #[test]
    fn every_row_has_as_many_fields_as_the_heading() {
        for text in [text(flows), text(links), text(long)] {
            let fields = |line: &str| line.matches(',').count();
            assert!(
                text.lines().count() > 1
                    && text.lines().all(|line| fields(line) == fields(text.lines().next().unwrap()))
            );
        }
    }

    #[test]
    fn the_long_table_holds_flows_and_links() {
        let text = text(long);
        assert!(text.contains("\n0.02,link,1,,queue_packets,7\n") && text.contains("\n0.01,flow,peer,cubic,cwnd,21\n"));
    }
}
