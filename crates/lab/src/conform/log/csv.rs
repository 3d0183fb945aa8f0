//! Reader for traces written by `bbrlab run --csv`: the table of flows, or the long table. A row that is incomplete is
//! an error that names its line.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::collections::BTreeMap;

use super::{FlowLog, Log, Phase, Sample};
use crate::{Error, Result};

/// Smallest common divisor of all volumes that counts as a packet size.
const MSS_MIN: u64 = 64;

pub(super) fn read(text: &str) -> Result<Log> {
    if let Some(line) = bbrlab_study::quotes::left_open(text.as_bytes()) {
        return Err(Error::at(format!("line {line}"))(Error::OpenQuote));
    }
    let heading: Vec<&str> = text.lines().next().unwrap_or("").split(',').map(str::trim).collect();
    let place = |name: &str| heading.iter().position(|column| *column == name);
    let flows = match (place("flow"), place("metric")) {
        (Some(flow), _) => wide(text, &heading, flow)?,
        (None, Some(_)) => long(text, &heading)?,
        _ => return Err(Error::NotATrace),
    };
    Ok(Log { form: "a CSV trace of bbrlab", flows: flows.into_values().map(FlowBuilder::finish).collect() })
}

/// A flow under construction. Windows are still in packets.
#[derive(Default)]
struct FlowBuilder {
    flow: FlowLog,
    divisor: u64,
}

impl FlowBuilder {
    fn of<'a>(flows: &'a mut BTreeMap<String, Self>, name: &str) -> &'a mut Self {
        flows.entry(name.to_owned()).or_insert_with(|| {
            let flow = FlowLog { name: name.to_owned(), is_timed: true, is_sampled: true, ..FlowLog::default() };
            Self { flow, divisor: 0 }
        })
    }

    fn put(&mut self, metric: &str, value: f64) {
        let Some(sample) = self.flow.samples.last_mut() else { return };
        // The trace writes 0 for an unknown value.
        let known = if value > 0.0 { value } else { f64::NAN };
        match metric {
            "cwnd" => sample.cwnd = value,
            "inflight" => sample.inflight = value,
            "pacing_bps" => sample.pacing_bps = known,
            "bw_bps" => sample.bw_bps = known,
            "rtt_us" => sample.rtt_s = known * 1e-6,
            "min_rtt_us" => sample.min_rtt_s = known * 1e-6,
            "lost" => sample.lost = value,
            "acked_bytes" => self.divisor = divisor(self.divisor, value as u64),
            _ => {}
        }
    }

    /// Completes the flow: every volume is a multiple of the packet size, so their common divisor gives that size.
    fn finish(mut self) -> FlowLog {
        if self.divisor >= MSS_MIN {
            self.flow.mss = Some(self.divisor as f64);
        }
        let bytes = self.flow.mss.unwrap_or(f64::NAN);
        for sample in &mut self.flow.samples {
            sample.cwnd *= bytes;
            sample.inflight *= bytes;
        }
        for pair in 1..self.flow.samples.len() {
            let (before, now) = (self.flow.samples[pair - 1], self.flow.samples[pair]);
            if now.lost > before.lost {
                self.flow.losses.push(now.t_s);
            }
        }
        self.flow
    }
}

fn divisor(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn cell(cells: &[&str], place: usize, line: usize) -> Result<f64> {
    let text = cells.get(place).map_or("", |cell| cell.trim());
    if text.is_empty() {
        return Ok(f64::NAN);
    }
    let at = Error::at(format!("line {}", line + 1));
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(_) => Err(at(Error::NotFinite(text.to_owned()))),
        Err(_) => Err(at(Error::NotANumber(text.to_owned()))),
    }
}

fn field_count(line: usize, fields: usize, columns: usize) -> Error {
    Error::at(format!("line {}", line + 1))(Error::FieldCount { fields, columns })
}

fn wide(text: &str, heading: &[&str], name: usize) -> Result<BTreeMap<String, FlowBuilder>> {
    let mut flows = BTreeMap::new();
    let state = heading.iter().position(|column| *column == "state");
    let cc = heading.iter().position(|column| *column == "cc");
    for (line, row) in text.lines().enumerate().skip(1).filter(|(_, row)| !row.trim().is_empty()) {
        let cells: Vec<&str> = row.split(',').collect();
        if cells.len() != heading.len() {
            return Err(field_count(line, cells.len(), heading.len()));
        }
        let t_s = cell(&cells, 0, line)?;
        let building = FlowBuilder::of(&mut flows, cells[name]);
        building.flow.cc = cc.map(|cc| cells[cc].trim().to_owned()).filter(|cc| !cc.is_empty());
        building.flow.samples.push(Sample { t_s, ..Sample::UNKNOWN });
        for (place, column) in heading.iter().enumerate() {
            if !matches!(*column, "t_s" | "flow" | "cc" | "state") {
                building.put(column, cell(&cells, place, line)?);
            }
        }
        let phase = state.and_then(|state| Phase::named(cells[state]));
        if let Some(phase) = phase
            && building.flow.phases.last().is_none_or(|(_, last)| *last != phase)
        {
            building.flow.phases.push((t_s, phase));
        }
    }
    Ok(flows)
}

/// Reads the long table: one row per sample, flow or link, and metric.
fn long(text: &str, heading: &[&str]) -> Result<BTreeMap<String, FlowBuilder>> {
    let place = |name: &str| {
        let found = heading.iter().position(|column| *column == name);
        found.ok_or_else(|| Error::NoLogColumn(name.to_owned()))
    };
    let (kind, name, metric, value) = (place("kind")?, place("name")?, place("metric")?, place("value")?);
    let cc = heading.iter().position(|column| *column == "cc");
    let mut flows = BTreeMap::new();
    for (line, row) in text.lines().enumerate().skip(1).filter(|(_, row)| !row.trim().is_empty()) {
        let cells: Vec<&str> = row.split(',').collect();
        if cells.len() != heading.len() {
            return Err(field_count(line, cells.len(), heading.len()));
        }
        if cells[kind] != "flow" {
            continue;
        }
        let t_s = cell(&cells, 0, line)?;
        let building = FlowBuilder::of(&mut flows, cells[name]);
        building.flow.cc = cc.map(|cc| cells[cc].trim().to_owned()).filter(|cc| !cc.is_empty());
        if building.flow.samples.last().is_none_or(|last| last.t_s != t_s) {
            building.flow.samples.push(Sample { t_s, ..Sample::UNKNOWN });
        }
        building.put(cells[metric], cell(&cells, value, line)?);
    }
    Ok(flows)
}

#[cfg(test)]
mod tests {
    use bbrlab_core::State;

    use super::*;

    #[test]
    fn the_table_of_flows_gives_windows_in_bytes_and_phases() {
        let text =
            "t_s,flow,cc,state,cwnd,acked_bytes,lost\n0.01,a,bbr3,startup,10,14480,0\n0.02,a,bbr3,drain,20,15928,2\n";
        let flow = &read(text).unwrap().flows[0];
        assert_eq!((flow.mss, flow.samples[1].cwnd), (Some(1448.0), 28_960.0));
        assert_eq!(flow.phases[1], (0.02, Phase::Known(State::Drain)));
        assert_eq!(flow.losses, [0.02]);
    }

    #[test]
    fn the_long_table_gives_the_same_samples() {
        let text = "t_s,kind,name,cc,metric,value\n0.01,flow,a,bbr3,cwnd,10\n0.01,flow,a,bbr3,acked_bytes,1448\n0.01,link,1,,drops,3\n";
        let flow = &read(text).unwrap().flows[0];
        assert_eq!((flow.samples.len(), flow.samples[0].cwnd), (1, 14_480.0));
        assert_eq!(flow.cc.as_deref(), Some("bbr3"));
    }

    #[test]
    fn a_row_that_is_not_whole_is_named() {
        assert!(read("t_s,flow,cwnd\n0,a\n").unwrap_err().to_string().contains("line 2"));
        assert!(read("t_s,flow,cwnd\n0,a,many\n").unwrap_err().to_string().contains("many"));
        assert!(read("t_s,what\n").unwrap_err().to_string().contains("first line"));
    }
}
