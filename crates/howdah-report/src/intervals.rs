//! The series of a cell as Parquet: one row for each flow and interval, and one for each stream
//! and interval.
//!
//! Columns: `flow` (name), `t_s`, then the fields of [`Interval`] under their names, `jitter_ms`, which only streams
//! have, and what the cell is: `experiment`, `testbed`, `seed` and `at`, its place in the matrix as JSON. The same, with
//! the cell's id, its commit and the unit of each column, stands in the file's metadata under `howdah.…`. Any reader of Parquet opens it:
//! `duckdb -c "select at->>'protocol', seed, avg(goodput_bps) from 'intervals/*.parquet' where experiment = 'J-A1' group by all"`.

use crate::result::{CellResult, Interval};
use parquet::basic::Compression;
use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
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
    required binary experiment (UTF8);
    required binary testbed (UTF8);
    required int64 seed;
    required binary at (UTF8);
}";

/// Columns of numbers behind the name: the fields of [`Interval`], and jitter.
const NUMBERS: usize = 9;

/// What each column counts in.
const UNITS: &str = "{\"flow\":\"name in the scenario\",\"t_s\":\"s, end of the interval\",\"goodput_bps\":\"bit/s of user data\",\
\"wire_bps\":\"bit/s, IP packets\",\"retransmitted_bytes\":\"byte of payload in the interval\",\"cwnd_bytes\":\"byte\",\
\"in_flight_bytes\":\"byte\",\"srtt_ms\":\"ms\",\"queue_ms\":\"ms, mean wait in the bottleneck\",\
\"jitter_ms\":\"ms, RFC 3550 6.4.1\",\"experiment\":\"\",\"testbed\":\"\",\"seed\":\"\",\"at\":\"JSON, axis to value\"}";

struct Row<'a> {
    flow: &'a str,
    interval: Interval,
    jitter_ms: f64,
}

enum Column {
    Doubles(Vec<f64>),
    Counts(Vec<i64>),
    Texts(Vec<ByteArray>),
}

/// What the file says of the cell as a whole.
fn about(result: &CellResult, at: &str) -> Vec<KeyValue> {
    let seed = result.seed.to_string();
    let pairs = [
        ("cell", &*result.id),
        ("design", &result.design),
        ("experiment", &result.experiment),
        ("at", at),
        ("testbed", &result.testbed),
        ("seed", &seed),
        ("commit", &result.commit),
        ("units", UNITS),
    ];
    pairs
        .iter()
        .map(|(key, value)| KeyValue::new(format!("howdah.{key}"), (*value).to_owned()))
        .collect()
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
    let at =
        serde_json::to_string(&result.at).map_err(|error| ParquetError::External(error.into()))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_key_value_metadata(Some(about(result, &at)))
        .set_created_by("howdah".to_owned())
        .build();
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    let same = |text: &str| Column::Texts(vec![ByteArray::from(text); rows.len()]);
    let doubles = |pick: fn(&Row<'_>) -> f64| rows.iter().map(pick).collect::<Vec<f64>>();
    let counts = |pick: fn(&Row<'_>) -> u64| {
        rows.iter()
            .map(|row| pick(row).cast_signed())
            .collect::<Vec<i64>>()
    };
    for values in [
        Column::Texts(rows.iter().map(|row| row.flow.into()).collect()),
        Column::Doubles(doubles(|row| row.interval.t_s)),
        Column::Doubles(doubles(|row| row.interval.goodput_bps)),
        Column::Doubles(doubles(|row| row.interval.wire_bps)),
        Column::Counts(counts(|row| row.interval.retransmitted_bytes)),
        Column::Counts(counts(|row| row.interval.cwnd_bytes)),
        Column::Counts(counts(|row| row.interval.in_flight_bytes)),
        Column::Doubles(doubles(|row| row.interval.srtt_ms)),
        Column::Doubles(doubles(|row| row.interval.queue_ms)),
        Column::Doubles(doubles(|row| row.jitter_ms)),
        same(&result.experiment),
        same(&result.testbed),
        Column::Counts(vec![result.seed.cast_signed(); rows.len()]),
        same(&at),
    ] {
        let mut column = group.next_column()?.ok_or_else(missing)?;
        match values {
            Column::Doubles(values) => {
                column
                    .typed::<DoubleType>()
                    .write_batch(&values, None, None)?;
            }
            Column::Texts(values) => {
                column
                    .typed::<ByteArrayType>()
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
        // What follows says which cell it is, which is known here.
        for column in 1..group.num_columns().min(NUMBERS + 1) {
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
        if columns.len() != NUMBERS || columns.iter().any(|column| column.len() != names.len()) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::FlowResult;
    use parquet::record::RowAccessor as _;

    #[test]
    fn a_file_says_which_cell_it_is_of_and_in_which_units() {
        let cell = CellResult {
            id: "abc".to_owned(),
            experiment: "J-A1".to_owned(),
            at: [("protocol".to_owned(), "fast".to_owned())].into(),
            testbed: "sim".to_owned(),
            seed: 3,
            flows: vec![FlowResult {
                name: "main".to_owned(),
                intervals: vec![
                    Interval {
                        t_s: 1.0,
                        goodput_bps: 5e6,
                        ..Interval::default()
                    };
                    3
                ],
                ..FlowResult::default()
            }],
            ..CellResult::default()
        };
        let bytes = encode(&cell).unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes.clone())).unwrap();
        let said = reader
            .metadata()
            .file_metadata()
            .key_value_metadata()
            .unwrap();
        let of = |key: &str| {
            let pair = said.iter().find(|pair| pair.key == key).unwrap();
            pair.value.clone().unwrap()
        };
        assert_eq!(of("howdah.experiment"), "J-A1");
        assert_eq!(of("howdah.at"), r#"{"protocol":"fast"}"#);
        assert_eq!(of("howdah.seed"), "3");
        let units: serde_json::Value = serde_json::from_str(&of("howdah.units")).unwrap();
        let schema = reader.metadata().file_metadata().schema_descr();
        for column in schema.columns() {
            assert!(
                units.get(column.name()).is_some(),
                "no unit of {}",
                column.name()
            );
        }
        for row in reader.get_row_iter(None).unwrap() {
            let row = row.unwrap();
            assert_eq!(row.get_string(10).unwrap(), "J-A1");
            assert_eq!(row.get_long(12).unwrap(), 3);
            assert_eq!(row.get_string(13).unwrap(), r#"{"protocol":"fast"}"#);
        }
        let mut read = CellResult {
            flows: vec![FlowResult {
                name: "main".to_owned(),
                ..FlowResult::default()
            }],
            ..cell.clone()
        };
        decode(bytes, &mut read).unwrap();
        assert_eq!(read.flows, cell.flows);
    }
}
