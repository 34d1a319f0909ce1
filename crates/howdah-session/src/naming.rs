//! Names and paths as people write and read them.

use crate::entry::bounds;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// A path without the slashes and dots at its end that people write.
pub fn plain(path: &Path) -> PathBuf {
    let mut bytes = path.as_os_str().as_bytes();
    while let Some(rest) = bytes
        .strip_suffix(b"/")
        .or_else(|| bytes.strip_suffix(b"/."))
    {
        bytes = rest;
    }
    while let Some(rest) = bytes.strip_prefix(b"./") {
        bytes = rest;
    }
    if bytes == b"." {
        bytes = b"";
    }
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Quoted and escaped, so that a hostile name cannot forge a line.
#[expect(clippy::unnecessary_debug_formatting, reason = "Debug escapes")]
pub fn quoted(path: &Path) -> String {
    let top = Path::new(".");
    let path = if path.as_os_str().is_empty() {
        top
    } else {
        path
    };
    format!("{:?}", path.as_os_str())
}

/// Why a name cannot be one of a directory's.
pub fn bad_name(name: &[u8]) -> Option<&'static str> {
    match name {
        b"" => Some("it is empty"),
        b"." | b".." => Some("it leads elsewhere"),
        name if name.contains(&b'/') => Some("it contains a slash"),
        name if name.contains(&0) => Some("it contains a NUL byte"),
        name if name.len() > bounds::NAME => Some("it is longer than 255 bytes"),
        _ => None,
    }
}
