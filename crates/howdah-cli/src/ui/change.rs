//! What a dry run would do, for people and scripts.

use super::printable;
use howdah::Change;
use std::ffi::OsStr;
use std::path::Path;

/// `ACT PATH (REASON, ...)`; the path is what stands between the first space and the last " (".
pub(crate) fn change_line(change: &Change) -> String {
    let path = shown(&change.path).to_string_lossy();
    let (act, path) = (change.act.word(), printable(&path));
    format!("{act} {path} ({})", change.reasons.words().join(", "))
}

/// The top itself has a name, too.
pub(crate) fn shown(path: &Path) -> &OsStr {
    if path.as_os_str().is_empty() {
        OsStr::new(".")
    } else {
        path.as_os_str()
    }
}
