//! A scenario that is made here and kept where somebody says: it takes the place of no other file.

use crate::own_file;
use howdah::{Error, ErrorKind};
use std::path::Path;

/// What would fail after all the work fails now.
pub(super) fn check(out: &Path) -> Result<(), Error> {
    if out.exists() {
        let text = format!(
            "{} is there already; --out names another file",
            out.display()
        );
        return Err(Error::new(ErrorKind::Usage, text));
    }
    let dir = out.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = dir.unwrap_or_else(|| Path::new("."));
    let tried = tempfile::NamedTempFile::new_in(dir);
    tried.map(drop).map_err(|error| {
        let text = format!("cannot write into {}: {error}", dir.display());
        Error::new(ErrorKind::Refused, text)
    })
}

pub(super) fn write(out: &Path, scenario: &str) -> Result<(), Error> {
    own_file::make(out, scenario)
}
