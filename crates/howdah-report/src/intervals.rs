//! The series of a cell as Parquet: one row for each flow and interval, and one for each stream
//! and interval.
//!
//! Columns: `flow` (name), `t_s`, then the fields of [`Interval`] under their names, and
//! `jitter_ms`, which only streams have. Any reader of Parquet opens it:
//! `duckdb -c "select flow, avg(goodput_bps) from 'intervals/*.parquet' group by flow"`.

use crate::result::{CellResult, Interval};
use parquet::basic::Compression;
use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;

const SCHEMA: &str = "message intervals {
    required binary flow (UTF8);
    required double t_s;
    required double goodput_bps;
    required double wire_bps;
    required int64 retransmitted_bytes;
    required int64 cwnd_bytes;
    required int64 in_flight_bytes;
    required double srtt_ms;
    required double queue_ms;
    required double jitter_ms;
}";

struct Row<'a> {
    flow: &'a str,
    interval: Interval,
    jitter_ms: f64,
}

enum Column {
    Doubles(Vec<f64>),
    Counts(Vec<i64>),
}

fn rows(result: &CellResult) -> Vec<Row<'_>> {
    let flows = result.flows.iter().flat_map(|flow| {
        flow.intervals.iter().map(|&interval| Row {
            flow: &flow.name,
            interval,
            jitter_ms: 0.0,
        })
    });
    let streams = result.streams.iter().flat_map(|stream| {
        let series = stream.intervals.iter().zip(&stream.jitter_series_ms);
        series.map(|(&interval, &jitter_ms)| Row {
            flow: &stream.name,
            interval,
            jitter_ms,
        })
    });
    flows.chain(streams).collect()
}

/// The file of a cell.
pub(crate) fn encode(result: &CellResult) -> Result<Vec<u8>> {
    let rows = rows(result);
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_created_by("howdah".to_owned())
        .build();
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    let names: Vec<ByteArray> = rows.iter().map(|row| row.flow.into()).collect();
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column
        .typed::<ByteArrayType>()
        .write_batch(&names, None, None)?;
    column.close()?;
    let doubles = |pick: fn(&Row<'_>) -> f64| rows.iter().map(pick).collect::<Vec<f64>>();
    let counts = |pick: fn(&Row<'_>) -> u64| {
        rows.iter()
            .map(|row| pick(row).cast_signed())
            .collect::<Vec<i64>>()
    };
    for values in [
        Column::Doubles(doubles(|row| row.interval.t_s)),
        Column::Doubles(doubles(|row| row.interval.goodput_bps)),
        Column::Doubles(doubles(|row| row.interval.wire_bps)),
        Column::Counts(counts(|row| row.interval.retransmitted_bytes)),
        Column::Counts(counts(|row| row.interval.cwnd_bytes)),
        Column::Counts(counts(|row| row.interval.in_flight_bytes)),
        Column::Doubles(doubles(|row| row.interval.srtt_ms)),
        Column::Doubles(doubles(|row| row.interval.queue_ms)),
        Column::Doubles(doubles(|row| row.jitter_ms)),
    ] {
        let mut column = group.next_column()?.ok_or_else(missing)?;
        match values {
            Column::Doubles(values) => {
                column
                    .typed::<DoubleType>()
                    .write_batch(&values, None, None)?;
            }
            Column::Counts(values) => {
                column
                    .typed::<Int64Type>()
                    .write_batch(&values, None, None)?;
            }
        }
        column.close()?;
    }
    group.close()?;
    writer.into_inner()
}

fn missing() -> ParquetError {
    ParquetError::General("a column is missing".to_owned())
}

/// Puts the series of a file back to the flows and streams of their names.
pub(crate) fn decode(bytes: Vec<u8>, result: &mut CellResult) -> Result<()> {
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes))?;
    for flow in &mut result.flows {
        flow.intervals.clear();
    }
    for stream in &mut result.streams {
        stream.intervals.clear();
        stream.jitter_series_ms.clear();
    }
    for index in 0..reader.num_row_groups() {
        let group = reader.get_row_group(index)?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let names = match group.get_column_reader(0)? {
            ColumnReader::ByteArrayColumnReader(mut reader) => {
                let mut values = Vec::with_capacity(rows);
                reader.read_records(rows, None, None, &mut values)?;
                values
            }
            _ => return Err(missing()),
        };
        let mut columns = Vec::new();
        for column in 1..group.num_columns() {
            columns.push(match group.get_column_reader(column)? {
                ColumnReader::DoubleColumnReader(mut reader) => {
                    let mut values = Vec::with_capacity(rows);
                    reader.read_records(rows, None, None, &mut values)?;
                    values
                }
                ColumnReader::Int64ColumnReader(mut reader) => {
                    let mut values = Vec::with_capacity(rows);
                    reader.read_records(rows, None, None, &mut values)?;
                    values.into_iter().map(|value| value as f64).collect()
                }
                _ => return Err(missing()),
            });
        }
        if columns.len() != 9 || columns.iter().any(|column| column.len() != names.len()) {
            return Err(missing());
        }
        for (row, name) in names.iter().enumerate() {
            let at = |column: usize| columns[column][row];
            let interval = Interval {
                t_s: at(0),
                goodput_bps: at(1),
                wire_bps: at(2),
                retransmitted_bytes: at(3) as u64,
                cwnd_bytes: at(4) as u64,
                in_flight_bytes: at(5) as u64,
                srtt_ms: at(6),
                queue_ms: at(7),
            };
            let name = name.as_utf8()?;
            if let Some(flow) = result.flows.iter_mut().find(|flow| flow.name == name) {
                flow.intervals.push(interval);
            } else if let Some(stream) = result.streams.iter_mut().find(|s| s.name == name) {
                stream.intervals.push(interval);
                stream.jitter_series_ms.push(at(8));
            }
        }
    }
    Ok(())
}
