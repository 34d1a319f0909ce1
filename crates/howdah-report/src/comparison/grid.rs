//! Cells of an experiment as a table: a column for each system, a row for each place in the matrix.

use super::words;
use crate::result::CellResult;
use std::fmt::Write as _;

/// Both in the order in which the cells have them, which is the scenario's.
pub(super) struct Grid<'a> {
    /// All axes but the one that names the system.
    axes: Vec<&'a str>,
    places: Vec<Vec<&'a str>>,
    systems: Vec<&'a str>,
    cells: Vec<(usize, usize, &'a CellResult)>,
}

impl<'a> Grid<'a> {
    pub(super) fn of(cells: &[&'a CellResult]) -> Self {
        let mut grid = Self {
            axes: Vec::new(),
            places: Vec::new(),
            systems: Vec::new(),
            cells: Vec::new(),
        };
        for cell in cells {
            for axis in cell.at.keys().filter(|axis| *axis != words::PROTOCOL) {
                index_of(&mut grid.axes, axis.as_str());
            }
        }
        for cell in cells {
            let value = |axis: &&str| cell.at.get(*axis).map_or("", String::as_str);
            let place = grid.axes.iter().map(value).collect();
            let row = index_of(&mut grid.places, place);
            let column = index_of(&mut grid.systems, words::system(cell));
            grid.cells.push((row, column, cell));
        }
        grid
    }

    /// Rows and columns without a value are left out; nothing is written where there is none at all.
    pub(super) fn table(
        &self,
        out: &mut String,
        title: &str,
        of: &dyn Fn(&CellResult) -> Option<String>,
    ) {
        let values: Vec<(usize, usize, String)> = (self.cells.iter())
            .filter_map(|(row, column, cell)| Some((*row, *column, of(cell)?)))
            .collect();
        let columns: Vec<usize> = (0..self.systems.len())
            .filter(|at| values.iter().any(|(_, column, _)| column == at))
            .collect();
        if columns.is_empty() {
            return;
        }
        let names: Vec<String> = (columns.iter())
            .map(|&at| words::clean(self.systems[at]))
            .collect();
        let axes = if self.axes.is_empty() {
            String::new()
        } else {
            format!(" ({})", self.axes.join(", "))
        };
        let _ = writeln!(out, "| {title}{axes} | {} |", names.join(" | "));
        let _ = writeln!(out, "| --- |{}", " ---: |".repeat(columns.len()));
        for (row, place) in self.places.iter().enumerate() {
            if !values.iter().any(|(at, ..)| *at == row) {
                continue;
            }
            let _ = write!(out, "| {} |", words::clean(&place.join(", ")));
            for column in &columns {
                let value = values
                    .iter()
                    .rfind(|(at, of, _)| *at == row && of == column);
                let text = value.map_or("", |(_, _, text)| text.as_str());
                let _ = write!(out, " {text} |");
            }
            out.push('\n');
        }
        out.push('\n');
    }
}

/// The place of `item` in the list, to which it is added if it is new.
fn index_of<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    if let Some(at) = list.iter().position(|known| *known == item) {
        return at;
    }
    list.push(item);
    list.len() - 1
}
