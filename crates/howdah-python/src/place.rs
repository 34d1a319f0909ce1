//! What names a place.

use crate::errors::usage;
use howdah::Location;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::ffi::OsString;
use std::path::PathBuf;

/// A text is read as the command reads it; an `os.PathLike` is a path of this machine, whatever its name looks like.
pub(crate) fn place(given: &Bound<'_, PyAny>) -> PyResult<Location> {
    let py = given.py();
    if given.is_instance_of::<PyString>() {
        // What is not UTF-8 as well: `os.fsdecode` writes such names with lone surrogates.
        let text: OsString = given.extract()?;
        let place = Location::try_from(&*text);
        return place.map_err(|e| usage(py, e.to_string()));
    }
    given.extract::<PathBuf>().map(Location::File).map_err(|_| {
        let bytes = given.is_instance_of::<PyBytes>();
        let advice = if bytes {
            "; os.fsdecode makes a str of it"
        } else {
            ""
        };
        let what = given
            .repr()
            .map_or_else(|e| e.to_string(), |repr| repr.to_string());
        let text = format!("a place is a str or an os.PathLike, and not {what}{advice}");
        usage(py, text)
    })
}
