//! Time series and metrics as Parquet: tables `samples` (a row per sample and flow or link) and `runs` (a row per run).
//! Compressed with Snappy, written without Arrow, which would double the build time.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::io;
use std::sync::Arc;

use ::parquet::basic::Compression;
use ::parquet::column::writer::ColumnWriter;
use ::parquet::data_type::ByteArray;
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;

use super::Record;
use super::columns::{FLOW, LINK, state_at};

/// A column with its name; `None` is null.
struct Column {
    name: String,
    values: Values,
}

/// Values of one column; `None` is null.
pub enum Values {
    Whole(Vec<Option<u64>>),
    Float(Vec<Option<f64>>),
    Text(Vec<Option<String>>),
}

/// Writes the table of samples. `kind` is `flow` or `link`; columns of the other kind are null.
pub fn samples(record: &Record<'_>) -> io::Result<Vec<u8>> {
    let (trace, result) = (record.trace, record.result);
    let points = trace.t_ns.len();
    let (flows, links) = (trace.flows.len().min(result.flows.len()), trace.links.len());
    // Row order: flow by flow, then link by link, so that equal values are adjacent and compress well.
    let each_flow = |value: &dyn Fn(usize, usize) -> Option<u64>, of_links: bool| -> Vec<Option<u64>> {
        let rows = if of_links { links } else { flows };
        let cells = (0..rows).flat_map(|row| (0..points).map(move |index| (row, index)));
        let own: Vec<Option<u64>> = cells.map(|(row, index)| value(row, index)).collect();
        let other = vec![None; points * if of_links { flows } else { links }];
        if of_links { [other, own].concat() } else { [own, other].concat() }
    };
    let text = |flow: &dyn Fn(usize, usize) -> String, link: &dyn Fn(usize) -> Option<String>| -> Values {
        let flows = (0..flows).flat_map(|row| (0..points).map(move |index| (row, index)));
        let own = flows.map(|(row, index)| Some(flow(row, index)));
        let links = (0..links).flat_map(|row| (0..points).map(move |_| row));
        Values::Text(own.chain(links.map(link)).collect())
    };
    let times = (0..flows + links).flat_map(|_| trace.t_ns.iter().map(|&t_ns| Some(t_ns))).collect::<Vec<_>>();
    let rows = times.len();
    let mut columns = vec![
        Column::new("run_id", Values::Text(vec![Some(run_id(record)); rows])),
        Column::new("kind", text(&|_, _| "flow".to_owned(), &|_| Some("link".to_owned()))),
        Column::new("name", text(&|row, _| result.flows[row].name.clone(), &|row| Some((row + 1).to_string()))),
        Column::new("cc", text(&|row, _| result.flows[row].cc.clone(), &|_| None)),
        Column::new("t_ns", Values::Whole(times)),
        Column::new("state", text(&|row, index| state_at(&trace.flows[row], trace.t_ns[index]).to_owned(), &|_| None)),
    ];
    for (name, cell) in FLOW {
        columns.push(Column::new(name, Values::Whole(each_flow(&|row, index| cell(&trace.flows[row], index), false))));
    }
    for (name, cell) in LINK {
        columns.push(Column::new(name, Values::Whole(each_flow(&|row, index| cell(&trace.links[row], index), true))));
    }
    write("samples", &columns)
}

/// Writes the table of runs: one row.
pub fn runs(record: &Record<'_>) -> io::Result<Vec<u8>> {
    let result = record.result;
    let link = &result.bottleneck;
    let float = |name: &str, value: f64| Column::new(name, Values::Float(vec![Some(value)]));
    let whole = |name: &str, value: u64| Column::new(name, Values::Whole(vec![Some(value)]));
    let text = |name: &str, value: String| Column::new(name, Values::Text(vec![Some(value)]));
    write(
        "runs",
        &[
            text("run_id", run_id(record)),
            text("scenario", result.scenario.to_string()),
            text("on", result.on.clone()),
            text("version", result.version.clone()),
            whole("seed", result.seed),
            whole("flows", result.flows.len() as u64),
            float("duration_s", record.setup.duration.as_nanos() as f64 / 1e9),
            whole("events", result.events),
            whole("packets", result.packets),
            float("goodput_bps", result.total_goodput_bps()),
            float("utilisation", link.utilisation),
            whole("arrivals", link.arrivals),
            whole("drops", link.drops),
            float("drop_ratio", link.drop_ratio),
            whole("marks", link.marks),
            float("queue_mean_ms", link.queue_ms.mean),
            float("queue_p50_ms", link.queue_ms.p50),
            float("queue_p95_ms", link.queue_ms.p95),
            float("queue_p99_ms", link.queue_ms.p99),
            float("queue_max_ms", link.queue_ms.max),
            float("jain", result.jain),
            Column::new("convergence_s", Values::Float(vec![result.convergence_s])),
        ],
    )
}

/// Key that links samples to their run: equal scenarios with equal seeds are the same run.
fn run_id(record: &Record<'_>) -> String {
    let hash = bbrlab_sim::metrics::fnv1a(record.result.scenario.to_string().as_bytes());
    format!("{hash:016x}-{}", record.result.seed)
}

impl Column {
    fn new(name: &str, values: Values) -> Self {
        Self { name: name.to_owned(), values }
    }
}

impl Values {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Whole(_) => "INT64",
            Self::Float(_) => "DOUBLE",
            Self::Text(_) => "BYTE_ARRAY",
        }
    }
}

fn write(table: &str, columns: &[Column]) -> io::Result<Vec<u8>> {
    let fields: Vec<(&str, &Values)> = columns.iter().map(|column| (column.name.as_str(), &column.values)).collect();
    let mut writer = Writer::new(Vec::new(), table, &fields)?;
    writer.group(&columns.iter().map(|column| &column.values).collect::<Vec<_>>())?;
    writer.finish()
}

/// Writer of a table group by group, so that it may be larger than memory.
pub struct Writer<W: io::Write + Send> {
    writer: SerializedFileWriter<W>,
}

impl<W: io::Write + Send> Writer<W> {
    /// Begins a table; the values determine each column's type.
    pub fn new(to: W, table: &str, columns: &[(&str, &Values)]) -> io::Result<Self> {
        let field = |(name, values): &(&str, &Values)| {
            let text = if matches!(values, Values::Text(_)) { " (UTF8)" } else { "" };
            format!("OPTIONAL {} {name}{text};", values.kind())
        };
        let fields: Vec<String> = columns.iter().map(field).collect();
        let schema = parse_message_type(&format!("message {table} {{ {} }}", fields.join(" ")));
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = schema.and_then(|schema| SerializedFileWriter::new(to, Arc::new(schema), Arc::new(properties)));
        writer.map(|writer| Self { writer }).map_err(io::Error::other)
    }

    /// Writes some rows: the columns in their order, all of one length.
    pub fn group(&mut self, columns: &[&Values]) -> io::Result<()> {
        self.try_group(columns).map_err(io::Error::other)
    }

    fn try_group(&mut self, columns: &[&Values]) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for values in columns {
            let Some(mut open) = group.next_column()? else { break };
            match (open.untyped(), values) {
                (ColumnWriter::Int64ColumnWriter(to), Values::Whole(values)) => {
                    // Counters stay far below 2^63; a larger one could only be a fault, and is written as the maximum.
                    let (values, levels) = dense(values, |&value| i64::try_from(value).unwrap_or(i64::MAX));
                    to.write_batch(&values, Some(&levels), None)?;
                }
                (ColumnWriter::DoubleColumnWriter(to), Values::Float(values)) => {
                    let (values, levels) = dense(values, |&value| value);
                    to.write_batch(&values, Some(&levels), None)?;
                }
                (ColumnWriter::ByteArrayColumnWriter(to), Values::Text(values)) => {
                    let (values, levels) = dense(values, |value| ByteArray::from(value.as_str()));
                    to.write_batch(&values, Some(&levels), None)?;
                }
                _ => return Err(ParquetError::General("a column has another type than its schema".to_owned())),
            }
            open.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Ends the table.
    pub fn finish(self) -> io::Result<W> {
        self.writer.into_inner().map_err(io::Error::other)
    }
}

/// Converts to Parquet's form of optional values: the present values, and a level for each row.
fn dense<T, U>(values: &[Option<T>], take: impl Fn(&T) -> U) -> (Vec<U>, Vec<i16>) {
    let levels = values.iter().map(|value| i16::from(value.is_some())).collect();
    (values.iter().flatten().map(take).collect(), levels)
}

#[cfg(test)]
mod tests {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;
    use crate::export::testing::example;

    #[test]
    fn samples_read_back_with_a_row_for_each_flow_and_link() {
        let (setup, result, trace) = example();
        let bytes = samples(&Record { setup: &setup, result: &result, trace: &trace, packets: &[] }).unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let rows: Vec<String> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(rows.len(), 9);
        assert!(
            rows[1].contains("name: \"bbr1#0\"") && rows[1].contains("cwnd: 11") && rows[1].contains("drops: null"),
            "{}",
            rows[1]
        );
        assert!(
            rows[8].contains("kind: \"link\"") && rows[8].contains("drops: 1") && rows[8].contains("cwnd: null"),
            "{}",
            rows[8]
        );
    }

    #[test]
    fn a_run_reads_back_as_one_row_and_equal_runs_give_equal_bytes() {
        let (setup, result, trace) = example();
        let record = Record { setup: &setup, result: &result, trace: &trace, packets: &[] };
        let bytes = runs(&record).unwrap();
        assert_eq!(bytes, runs(&record).unwrap());
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        assert_eq!(reader.metadata().file_metadata().num_rows(), 1);
    }
}
