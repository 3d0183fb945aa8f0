//! Series as Arrow tables, passed on by the PyCapsule interface.
// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt32Array, UInt64Array, cast::AsArray,
    types,
};
use arrow_schema::{ArrowError, DataType};
use bbrlab_core::Time;
use bbrlab_sim::record::packets::{Direction, Packets};
use bbrlab_sim::record::trace::{FlowTrace, Trace};
use bbrlab_sim::setup::Setup;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use crate::error;

/// Columns of equal length. pyarrow, pandas, polars and DuckDB read it without a copy, by `__arrow_c_stream__`.
#[pyclass(frozen, module = "bbrlab")]
pub struct Table {
    batch: RecordBatch,
}

impl Table {
    fn new(columns: Vec<(&str, ArrayRef)>) -> PyResult<Self> {
        let batch = RecordBatch::try_from_iter(columns).map_err(|fault| error::internal(&fault.to_string()))?;
        Ok(Self { batch })
    }

    /// One row for each sample and flow.
    pub fn of_flows(trace: &Trace, setup: &Setup) -> PyResult<Self> {
        let samples = trace.t_ns.len();
        let flows = || trace.flows.iter().zip(&setup.flows);
        macro_rules! wide {
            ($name:ident) => {
                Arc::new(flows().flat_map(|(flow, _)| padded(&flow.$name, samples)).collect::<UInt64Array>())
                    as ArrayRef
            };
        }
        let states = flows().flat_map(|(flow, _)| trace.t_ns.iter().map(|t_ns| state_at(flow, *t_ns)));
        let each = |text: &dyn Fn(usize) -> String| {
            let rows = (0..trace.flows.len()).flat_map(|flow| std::iter::repeat_n(text(flow), samples));
            Arc::new(StringArray::from_iter_values(rows)) as ArrayRef
        };
        let seconds = flows().flat_map(|_| trace.t_ns.iter().map(|t_ns| *t_ns as f64 / 1e9));
        Self::new(vec![
            ("t_s", Arc::new(Float64Array::from_iter_values(seconds))),
            ("flow", each(&|flow| setup.flows[flow].name.clone())),
            ("cc", each(&|flow| setup.flows[flow].cc().to_owned())),
            ("cwnd", wide!(cwnd)),
            ("inflight", wide!(inflight)),
            ("pacing_bps", wide!(pacing_bps)),
            ("bw_bps", wide!(bw_bps)),
            ("rtt_us", wide!(rtt_us)),
            ("min_rtt_us", wide!(min_rtt_us)),
            ("sent_bytes", wide!(sent_bytes)),
            ("acked_bytes", wide!(acked_bytes)),
            ("received_bytes", wide!(received_bytes)),
            ("lost", wide!(lost)),
            ("retransmitted", wide!(retransmitted)),
            ("state", Arc::new(StringArray::from_iter_values(states))),
        ])
    }

    /// One row for each sample and link.
    pub fn of_links(trace: &Trace) -> PyResult<Self> {
        let samples = trace.t_ns.len();
        macro_rules! wide {
            ($name:ident) => {
                Arc::new(trace.links.iter().flat_map(|link| padded(&link.$name, samples)).collect::<UInt64Array>())
                    as ArrayRef
            };
        }
        let links = 0..trace.links.len() as u32;
        let seconds = links.clone().flat_map(|_| trace.t_ns.iter().map(|t_ns| *t_ns as f64 / 1e9));
        Self::new(vec![
            ("t_s", Arc::new(Float64Array::from_iter_values(seconds))),
            ("link", Arc::new(links.flat_map(|link| std::iter::repeat_n(link, samples)).collect::<UInt32Array>())),
            ("queue_packets", wide!(queue_packets)),
            ("queue_bytes", wide!(queue_bytes)),
            ("rate_bps", wide!(rate_bps)),
            ("arrivals", wide!(arrivals)),
            ("drops", wide!(drops)),
            ("marks", wide!(marks)),
            ("departed_bytes", wide!(departed_bytes)),
        ])
    }

    /// One row for each recorded packet and place.
    pub fn of_packets(packets: &Packets) -> PyResult<Self> {
        let all = || packets.records.iter();
        let text = |rows: Vec<&'static str>| Arc::new(StringArray::from_iter_values(rows)) as ArrayRef;
        let direction = |direction| if direction == Direction::Data { "data" } else { "ack" };
        Self::new(vec![
            ("t_s", Arc::new(Float64Array::from_iter_values(all().map(|one| one.t_ns as f64 / 1e9)))),
            ("flow", Arc::new(UInt32Array::from_iter_values(all().map(|one| one.flow)))),
            ("tap", text(all().map(|one| one.tap.name()).collect())),
            ("direction", text(all().map(|one| direction(one.dir)).collect())),
            ("seq", Arc::new(UInt64Array::from_iter_values(all().map(|one| one.seq)))),
            ("ack", Arc::new(UInt64Array::from_iter_values(all().map(|one| one.ack)))),
            ("bytes", Arc::new(UInt32Array::from_iter_values(all().map(|one| one.len)))),
            ("window", Arc::new(UInt64Array::from_iter_values(all().map(|one| one.window)))),
        ])
    }
}

/// Values as they are; null where a series ended before.
fn padded<T: Copy + Into<u64>>(values: &[T], samples: usize) -> impl Iterator<Item = Option<u64>> + '_ {
    (0..samples).map(|index| values.get(index).map(|value| (*value).into()))
}

/// Name of the state at a time; empty before the first.
fn state_at(flow: &FlowTrace, t_ns: u64) -> &'static str {
    let before = flow.states.partition_point(|(at, _)| *at <= Time::nanos(t_ns));
    before.checked_sub(1).map_or("", |index| flow.states[index].1.name())
}

#[pymethods]
impl Table {
    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<bbrlab.Table of {} rows: {}>", self.batch.num_rows(), self.columns().join(", "))
    }

    /// A column as a list of Python values.
    fn __getitem__<'py>(&self, py: Python<'py>, column: &str) -> PyResult<Bound<'py, PyList>> {
        let Some(array) = self.batch.column_by_name(column) else {
            let names = self.columns().join(", ");
            return Err(pyo3::exceptions::PyKeyError::new_err(format!(
                "no column {column:?}; the columns are {names}"
            )));
        };
        match array.data_type() {
            DataType::Float64 => PyList::new(py, array.as_primitive::<types::Float64Type>().iter().collect::<Vec<_>>()),
            DataType::UInt32 => PyList::new(py, array.as_primitive::<types::UInt32Type>().iter().collect::<Vec<_>>()),
            DataType::UInt64 => PyList::new(py, array.as_primitive::<types::UInt64Type>().iter().collect::<Vec<_>>()),
            _ => PyList::new(py, array.as_string::<i32>().iter().collect::<Vec<_>>()),
        }
    }

    /// Arrow's PyCapsule interface: a stream of one batch.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema; // a consumer casts by itself, as the interface allows
        let batches: [Result<RecordBatch, ArrowError>; 1] = [Ok(self.batch.clone())];
        let reader = RecordBatchIterator::new(batches, self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
