//! Keys.

use crate::errors::Raise as _;
use pyo3::prelude::*;
use std::path::PathBuf;

/// A private key.
#[pyclass(frozen, module = "howdah", from_py_object)]
#[derive(Clone)]
pub(crate) struct Identity(pub(crate) howdah::Identity);

#[pymethods]
impl Identity {
    /// A new key that is nowhere but in memory.
    #[staticmethod]
    fn generate(py: Python<'_>) -> PyResult<Self> {
        howdah::Identity::generate().raise(py).map(Self)
    }

    /// The key in a file, which is made if it is not there.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "extracted from Python")]
    fn load_or_create(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let loaded = howdah::Identity::load_or_create(&path).raise(py)?;
        Ok(Self(loaded.0))
    }

    /// The line for a server's `authorized_keys`.
    #[getter]
    fn public_key(&self) -> String {
        self.0.public_key().to_string()
    }

    /// Short form for people to compare.
    #[getter]
    fn fingerprint(&self) -> String {
        self.0.public_key().fingerprint()
    }

    fn __repr__(&self) -> String {
        format!("Identity({})", self.0.public_key().fingerprint())
    }
}
