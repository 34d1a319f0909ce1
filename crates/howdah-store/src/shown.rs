//! Paths as messages show them.

use std::path::Path;

/// A place that may be the whole root, which has no name.
pub(crate) fn named(path: &Path) -> &Path {
    if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    }
}
