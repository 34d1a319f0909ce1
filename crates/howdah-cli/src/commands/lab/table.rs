//! `howdah lab table`.

use crate::args::{LabTableArgs, Of};
use crate::ui;
use howdah::{Error, ErrorKind};
use howdah_lab::run::Only;
use howdah_report::pivot::{self, Meeting, Pivot, Place};
use howdah_report::result::CellResult;
use std::collections::BTreeSet;

pub(super) fn run(args: &LabTableArgs) -> anyhow::Result<()> {
    let campaigns = super::unmixed(&args.dirs)?;
    let cells: Vec<CellResult> = campaigns.into_iter().flat_map(|one| one.cells).collect();
    let places = pivot::places(&cells);
    for only in &args.only {
        check(only, &places)?;
    }
    let pivot = Pivot {
        figure: args.figure.clone(),
        rows: args.rows.clone(),
        columns: args.columns.clone(),
        meeting: match args.of {
            Of::Median => Meeting::Median,
            Of::Mean => Meeting::Mean,
            Of::Least => Meeting::Least,
            Of::Greatest => Meeting::Greatest,
            Of::Count => Meeting::Count,
        },
        relative_to: args.relative_to.clone(),
    };
    let table = pivot
        .table(&cells, |place| args.only.iter().all(|only| only.has(place)))
        .map_err(|error| Error::new(ErrorKind::Usage, error.to_string()))?;
    if args.json {
        ui::print(&serde_json::to_string(&table)?)?;
    } else {
        ui::print(table.markdown().trim_end())?;
    }
    Ok(())
}

/// A label that nobody has is a slip of the pen.
fn check(only: &Only, places: &BTreeSet<Place>) -> Result<(), Error> {
    if places.is_empty() || places.iter().any(|place| only.has(place)) {
        return Ok(());
    }
    let labels: BTreeSet<&str> = (places.iter())
        .filter_map(|place| place.get(&only.axis).map(String::as_str))
        .filter(|label| !label.is_empty())
        .collect();
    let axes: BTreeSet<&str> = (places.iter())
        .flat_map(|place| place.keys().map(String::as_str))
        .collect();
    let list = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(", ");
    let message = if labels.is_empty() {
        format!(
            "--only: no axis '{}' here; there are: {}",
            only.axis,
            list(axes)
        )
    } else {
        let values = only.values.join(",");
        format!(
            "--only: no cell has {}={values}; there are: {}",
            only.axis,
            list(labels)
        )
    };
    Err(Error::new(ErrorKind::Usage, message))
}
