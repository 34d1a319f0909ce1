//! One figure of a campaign over two of its axes: what `howdah lab table` prints.

use crate::figures::{self, Figure};
use crate::result::CellResult;
use crate::sheet::Sheet;
use crate::stats;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Axes that every cell has besides its scenario's.
const OWN_AXES: [&str; 3] = ["experiment", "subject", "testbed"];

/// A cell's place: the label on each axis.
pub type Place = BTreeMap<String, String>;

/// What to make of the values that meet in one field.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Meeting {
    /// Their median.
    #[default]
    Median,
    /// Their arithmetic mean.
    Mean,
    /// The least.
    Least,
    /// The greatest.
    Greatest,
    /// How many there are.
    Count,
}

impl Meeting {
    /// The word for it in captions.
    const fn word(self) -> &'static str {
        match self {
            Self::Median => "median",
            Self::Mean => "mean",
            Self::Least => "least",
            Self::Greatest => "greatest",
            Self::Count => "count",
        }
    }

    fn of(self, values: &[f64]) -> Option<f64> {
        match self {
            Self::Median => stats::median(values),
            Self::Mean => stats::mean(values),
            Self::Least => values.iter().copied().min_by(f64::total_cmp),
            Self::Greatest => values.iter().copied().max_by(f64::total_cmp),
            Self::Count => (!values.is_empty()).then_some(values.len() as f64),
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Pivot {
    /// Name of the figure as `figures.csv` has it: `goodput_bps`.
    pub figure: String,
    /// Axis of the rows; the axis `protocol`, or the only one, if none is named.
    pub rows: Option<String>,
    /// Axis of the columns; the one other axis that varies if none is named.
    pub columns: Option<String>,
    /// What to make of the values that meet in one field.
    pub meeting: Meeting,
    /// Each field as a multiple of its row's in the column of this label.
    pub relative_to: Option<String>,
}

/// What cannot be shown, and what could.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum PivotError {
    /// No cell has a result.
    #[error("no cell that was asked for has a result")]
    Nothing,
    /// No cell has such a figure.
    #[error("no figure '{figure}' here; there are: {known}")]
    Figure {
        /// What was asked for.
        figure: String,
        /// What there is.
        known: String,
    },
    /// Several flows, links or the like have the figure.
    #[error(
        "'{figure}' is known of {known}: choose with --only subject=NAME, or make 'subject' an axis"
    )]
    Subject {
        /// What was asked for.
        figure: String,
        /// Whose it could be.
        known: String,
    },
    /// No such axis.
    #[error("no axis '{axis}' here; there are: {known}")]
    Axis {
        /// What was asked for.
        axis: String,
        /// What there is.
        known: String,
    },
    /// Which axis makes the columns is open.
    #[error("which axis makes the columns? --columns names one of: {known}")]
    Columns {
        /// What there is.
        known: String,
    },
    /// No such column.
    #[error("no column '{label}'; there are: {known}")]
    Column {
        /// What was asked for.
        label: String,
        /// What there is.
        known: String,
    },
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pivoted {
    /// What is in it, in a sentence.
    pub caption: String,
    /// Axis of the rows.
    pub row_axis: String,
    /// Axis of the columns.
    pub column_axis: String,
    /// Unit of the fields; empty for plain numbers.
    pub unit: String,
    /// Labels of the columns.
    pub columns: Vec<String>,
    /// Label of each row, and its fields; `None` where no cell has a value.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
}

impl Pivoted {
    /// As Markdown.
    pub fn markdown(&self) -> String {
        // Labels are whatever a scenario has.
        let plain = |label: &String| label.replace('|', "\\|").replace(['\r', '\n'], " ");
        let heads = std::iter::once(&self.row_axis).chain(&self.columns);
        let heads: Vec<String> = heads.map(plain).collect();
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let mut sheet = Sheet::new(self.caption.clone(), &heads);
        for (label, fields) in &self.rows {
            let fields = fields.iter().map(|field| short(*field));
            let row = std::iter::once(plain(label)).chain(fields);
            sheet.rows.push(row.collect());
        }
        sheet.markdown()
    }
}

/// Three digits that count, and a dash where there is no value.
fn short(value: Option<f64>) -> String {
    let Some(value) = value else {
        return "\u{2013}".to_owned();
    };
    // Of what is less than a billionth nothing is left.
    let digits = match value.abs() {
        size if !(5e-10..100.0).contains(&size) => 0,
        size if size >= 1.0 => usize::from(size < 10.0) + 1,
        size => (2.0 - size.log10().floor()) as usize,
    };
    // Nothing has no sign.
    format!("{:.digits$}", value + 0.0)
}

/// People's unit for a figure, and how many of the figure's are one of it.
fn peoples(unit: &str) -> (&str, f64) {
    match unit {
        "bit/s" => ("Mbit/s", 1e6),
        "byte/GiB" => ("KiB/GiB", 1024.0),
        "byte" => ("MiB", f64::from(1 << 20)),
        "share" => ("%", 0.01),
        "round trip" => ("RTT", 1.0),
        other => (other, 1.0),
    }
}

fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: BTreeSet<&str> = names.into_iter().collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// Labels of an axis in the order in which cells have them.
fn labels(values: &[(Place, f64)], axis: &str) -> Vec<String> {
    let mut seen = Vec::<String>::new();
    for label in values.iter().filter_map(|(place, _)| place.get(axis)) {
        if !seen.contains(label) {
            seen.push(label.clone());
        }
    }
    seen
}

/// All places of figures in these cells, those without a result left out.
pub fn places(cells: &[CellResult]) -> BTreeSet<Place> {
    let figures = |cell| {
        let (figures, place) = (figures::of(cell), own_place(cell));
        figures.into_iter().map(move |figure| {
            let mut place = place.clone();
            place.insert("subject".to_owned(), figure.subject);
            place
        })
    };
    cells
        .iter()
        .filter(|cell| ran(cell))
        .flat_map(figures)
        .collect()
}

fn ran(cell: &CellResult) -> bool {
    cell.error.is_none() && cell.skipped.is_none()
}

/// Where a cell is, but for the subject.
fn own_place(cell: &CellResult) -> Place {
    let mut place = cell.at.clone();
    place.insert("experiment".to_owned(), cell.experiment.clone());
    place.insert("testbed".to_owned(), cell.testbed.clone());
    place
}

impl Pivot {
    /// Makes the table of those cells whose place `wanted` takes; a place has the axes `experiment`, `testbed` and `subject`
    /// (the flow, group, stream or link that the figure is of; empty for the cell as a whole) besides the scenario's.
    ///
    /// # Errors
    /// [`PivotError`]: it names what there is.
    pub fn table(
        &self,
        cells: &[CellResult],
        wanted: impl Fn(&Place) -> bool,
    ) -> Result<Pivoted, PivotError> {
        let values = self.values(cells, wanted)?;
        let (row_axis, column_axis) = self.axes(&values)?;
        let columns = labels(&values, &column_axis);
        let (unit, size) = match (self.meeting, figures::unit(&self.figure)) {
            (Meeting::Count, _) => ("", 1.0),
            (_, unit) => peoples(unit),
        };
        let base =
            match &self.relative_to {
                None => None,
                Some(label) => Some(columns.iter().position(|c| c == label).ok_or_else(|| {
                    PivotError::Column {
                        label: label.clone(),
                        known: list(columns.iter().map(String::as_str)),
                    }
                })?),
            };
        let mut most = 0;
        let mut field = |row: &str, column: &str| {
            let met = values.iter().filter(|(place, _)| {
                place.get(&row_axis).is_some_and(|label| label == row)
                    && place.get(&column_axis).is_some_and(|label| label == column)
            });
            let met: Vec<f64> = met.map(|(_, value)| *value).collect();
            most = most.max(met.len());
            self.meeting.of(&met).map(|value| value / size)
        };
        let mut rows: Vec<(String, Vec<Option<f64>>)> = labels(&values, &row_axis)
            .into_iter()
            .map(|row| {
                let fields = columns.iter().map(|column| field(&row, column)).collect();
                (row, fields)
            })
            .collect();
        if let Some(base) = base {
            for (_, fields) in &mut rows {
                let whole = fields[base].filter(|whole| *whole != 0.0);
                for field in fields {
                    *field = field.zip(whole).map(|(value, whole)| value / whole);
                }
            }
        }
        let unit = if base.is_some() { "" } else { unit };
        let caption = self.caption(&values, (&row_axis, &column_axis), unit, most);
        Ok(Pivoted {
            caption,
            row_axis,
            column_axis,
            unit: unit.to_owned(),
            columns,
            rows,
        })
    }

    /// The figure of each cell, with the cell's place.
    fn values(
        &self,
        cells: &[CellResult],
        wanted: impl Fn(&Place) -> bool,
    ) -> Result<Vec<(Place, f64)>, PivotError> {
        let mut values = Vec::new();
        let mut known = BTreeSet::new();
        for cell in cells.iter().filter(|cell| ran(cell)) {
            let mut place = own_place(cell);
            for Figure {
                subject,
                name,
                value,
            } in figures::of(cell)
            {
                place.insert("subject".to_owned(), subject);
                if !wanted(&place) {
                    continue;
                }
                if name == self.figure {
                    values.extend(value.as_f64().map(|value| (place.clone(), value)));
                } else if values.is_empty() {
                    known.insert(name);
                }
            }
        }
        match (values.is_empty(), known.is_empty()) {
            (false, _) => Ok(values),
            (true, true) => Err(PivotError::Nothing),
            (true, false) => Err(PivotError::Figure {
                figure: self.figure.clone(),
                known: list(known.iter().map(String::as_str)),
            }),
        }
    }

    /// Axes of rows and columns.
    fn axes(&self, values: &[(Place, f64)]) -> Result<(String, String), PivotError> {
        let all: BTreeSet<&str> = values
            .iter()
            .flat_map(|(place, _)| place.keys().map(String::as_str))
            .collect();
        let check = |axis: &String| {
            if all.contains(axis.as_str()) {
                return Ok(axis.clone());
            }
            let known = list(all.iter().copied());
            let axis = axis.clone();
            Err(PivotError::Axis { axis, known })
        };
        let varying: Vec<&str> = all
            .iter()
            .copied()
            .filter(|axis| labels(values, axis).len() > 1)
            .collect();
        let rows = match &self.rows {
            Some(axis) => check(axis)?,
            None if all.contains("protocol") => "protocol".to_owned(),
            None => {
                let first = varying.first().or(OWN_AXES.first());
                first.copied().unwrap_or_default().to_owned()
            }
        };
        let named = [Some(&rows), self.columns.as_ref()];
        if varying.contains(&"subject") && !named.contains(&Some(&"subject".to_owned())) {
            return Err(PivotError::Subject {
                figure: self.figure.clone(),
                known: list(labels(values, "subject").iter().map(String::as_str)),
            });
        }
        if let Some(axis) = &self.columns {
            return Ok((rows, check(axis)?));
        }
        let others = varying.iter().copied().filter(|axis| *axis != rows);
        let columns = match others.collect::<Vec<_>>()[..] {
            [] => "experiment".to_owned(),
            [one] => one.to_owned(),
            ref several => {
                let known = list(several.iter().copied());
                return Err(PivotError::Columns { known });
            }
        };
        Ok((rows, columns))
    }

    fn caption(
        &self,
        values: &[(Place, f64)],
        (rows, columns): (&str, &str),
        unit: &str,
        most: usize,
    ) -> String {
        let mut caption = format!("{} by {rows} and {columns}", self.figure.replace('_', " "));
        let subjects = labels(values, "subject");
        if let [subject] = &subjects[..]
            && !subject.is_empty()
        {
            caption = format!("{subject}: {caption}");
        }
        if let [experiment] = &labels(values, "experiment")[..] {
            caption = format!("{experiment}, {caption}");
        }
        if let Some(label) = &self.relative_to {
            let _ = write!(caption, ", as a multiple of {label}");
        } else if !unit.is_empty() {
            let _ = write!(caption, ", {unit}");
        }
        if most > 1 {
            let word = self.meeting.word();
            let _ = write!(caption, " ({word} of up to {most} cells each)");
        }
        caption + "."
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{FlowResult, LinkResult};

    fn cell(protocol: &str, loss: &str, seed: u64, goodput_bps: f64) -> CellResult {
        let at = [("protocol", protocol), ("loss", loss)];
        CellResult {
            experiment: "X1".to_owned(),
            testbed: "sim".to_owned(),
            seed,
            at: at.map(|(a, l)| (a.to_owned(), l.to_owned())).into(),
            flows: vec![FlowResult {
                name: "main".to_owned(),
                goodput_bps,
                ..FlowResult::default()
            }],
            links: ["a", "b"]
                .map(|name| LinkResult {
                    name: name.to_owned(),
                    queue_drops: seed,
                    ..LinkResult::default()
                })
                .into(),
            ..CellResult::default()
        }
    }

    fn cells() -> Vec<CellResult> {
        vec![
            cell("udt", "2%", 1, 10e6),
            cell("udt", "0%", 1, 100e6),
            cell("udt", "0%", 2, 300e6),
            cell("cubic", "0%", 1, 400e6),
        ]
    }

    fn goodput() -> Pivot {
        Pivot {
            figure: "goodput_bps".to_owned(),
            ..Pivot::default()
        }
    }

    #[test]
    fn one_figure_over_two_axes() {
        let table = goodput().table(&cells(), |_| true).unwrap();
        assert_eq!(
            table.markdown(),
            "X1, main: goodput bps by protocol and loss, Mbit/s (median of up to 2 cells each).\n\n\
             | protocol | 2% | 0% |\n| --- | ---: | ---: |\n| udt | 10.0 | 200 |\n| cubic | \u{2013} | 400 |\n"
        );
        let least = Pivot {
            meeting: Meeting::Least,
            relative_to: Some("0%".to_owned()),
            ..goodput()
        };
        let table = least.table(&cells(), |_| true).unwrap();
        assert_eq!(table.rows[0].1, [Some(0.1), Some(1.0)]);
        assert_eq!(table.rows[1].1, [None, Some(1.0)]);
        let turned = Pivot {
            rows: Some("loss".to_owned()),
            columns: Some("protocol".to_owned()),
            ..goodput()
        };
        let table = turned.table(&cells(), |_| true).unwrap();
        assert_eq!((table.columns.len(), &*table.rows[0].0), (2, "2%"));
    }

    #[test]
    fn labels_leave_the_table_whole() {
        let table = goodput().table(&[cell("udt", "a|b\nc", 1, 1e6)], |_| true);
        let table = Pivoted {
            columns: vec!["a|b\nc".to_owned()],
            ..table.unwrap()
        };
        let text = table.markdown();
        assert!(text.contains("| protocol | a\\|b c |\n"), "{text}");
    }

    #[test]
    fn small_values_keep_their_digits() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (931.4, "931"),
            (93.14, "93.1"),
            (9.314, "9.31"),
            (0.931, "0.931"),
            (0.0004, "0.000400"),
            (-0.012_34, "-0.0123"),
            (1e-10, "0"),
        ] {
            assert_eq!(short(Some(value)), text);
        }
    }

    #[test]
    fn what_is_not_there_is_named() {
        let refused = |pivot: Pivot| pivot.table(&cells(), |_| true).unwrap_err().to_string();
        let other = Pivot {
            figure: "godput".to_owned(),
            ..Pivot::default()
        };
        assert!(refused(other).contains("goodput_bps"));
        let axis = Pivot {
            rows: Some("rtt".to_owned()),
            ..goodput()
        };
        assert!(refused(axis).contains("loss, protocol"));
        let column = Pivot {
            relative_to: Some("1%".to_owned()),
            ..goodput()
        };
        assert_eq!(refused(column), "no column '1%'; there are: 0%, 2%");
        let drops = Pivot {
            figure: "queue_drops".to_owned(),
            ..Pivot::default()
        };
        assert!(refused(drops.clone()).contains("a, b"));
        let one = drops
            .table(&cells(), |place| place["subject"] == "b")
            .unwrap();
        assert_eq!(one.rows[0].1, [Some(1.0), Some(1.5)]);
        let none = goodput().table(&cells(), |_| false).unwrap_err();
        assert_eq!(none, PivotError::Nothing);
    }
}
