//! `import howdah`: the facade for Python.
//!
//! This half keeps little: it turns places, settings and keys into those of the library, runs a task on a thread while the
//! interpreter is free, and hands results over as the JSON that `--json` prints. What people see (dataclasses, exceptions, asyncio)
//! is in `python/howdah`.

mod client;
mod errors;
mod files;
mod keys;
mod place;
mod server;
mod task;
mod told;

use pyo3::prelude::*;

/// The compiled half of `howdah`. Not an interface: use `howdah`.
#[pymodule(gil_used = false)]
fn _howdah(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<client::Client>()?;
    module.add_class::<files::Files>()?;
    module.add_class::<keys::Identity>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<task::Task>()
}
