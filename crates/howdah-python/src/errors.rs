//! Failures as exceptions: `howdah._errors` has a class for each exit code.

use howdah::{Error, ErrorKind};
use pyo3::prelude::*;

/// The exception of a failure.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let kind = error.kind();
    let made = py
        .import("howdah._errors")
        .and_then(|errors| errors.getattr("of_kind"))
        .and_then(|of| of.call1((kind.name(), kind.exit_code(), error.to_string())));
    made.map_or_else(|failed| failed, PyErr::from_value)
}

/// What makes no sense.
pub(crate) fn usage(py: Python<'_>, text: impl Into<String>) -> PyErr {
    raised(py, &Error::new(ErrorKind::Usage, text))
}

/// A result of the library's as one of Python's.
pub(crate) trait Raise<T> {
    fn raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: Into<Error>> Raise<T> for Result<T, E> {
    fn raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raised(py, &error.into()))
    }
}
