//! What names a place.

use crate::errors::{Raise as _, usage};
use howdah::{Location, Place as _};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::path::PathBuf;

/// A text is read as the command reads it; an `os.PathLike` is a path of this machine, whatever its name looks like.
pub(crate) fn place(given: &Bound<'_, PyAny>) -> PyResult<Location> {
    let py = given.py();
    if let Ok(text) = given.cast::<PyString>() {
        return match text.to_cow() {
            Ok(text) => text.place().raise(py),
            // Not UTF-8: `os.fsdecode` writes such names with lone surrogates.
            Err(_) => Ok(Location::File(given.extract()?)),
        };
    }
    given.extract::<PathBuf>().map(Location::File).map_err(|_| {
        let what = given.get_type().to_string();
        usage(
            py,
            format!("a place is a str or an os.PathLike, not {what}"),
        )
    })
}
