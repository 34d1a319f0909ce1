//! What is plain: paths that are lists of names, files that are regular.

use crate::StoreError;
use rustix::fs::FileType;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Longest path that is accepted, in bytes (`PATH_MAX` without the closing NUL).
const MAX_PATH: usize = 4095;
/// Longest component that is accepted, in bytes (`NAME_MAX`).
const MAX_NAME: usize = 255;

/// What a file is, if it is not a regular one.
pub fn irregular(kind: FileType) -> Option<&'static str> {
    match kind {
        FileType::RegularFile => None,
        FileType::Directory => Some("a directory"),
        FileType::Symlink => Some("a symbolic link"),
        FileType::Fifo => Some("a fifo"),
        FileType::Socket => Some("a socket"),
        FileType::CharacterDevice => Some("a character device"),
        FileType::BlockDevice => Some("a block device"),
        FileType::Unknown => Some("of an unknown kind"),
    }
}

/// Refuses everything that is not a plain list of names.
pub fn check(path: &Path) -> Result<Vec<&OsStr>, StoreError> {
    let bytes = path.as_os_str().as_bytes();
    let refuse = |reason| {
        let shown = &bytes[..bytes.len().min(100)];
        Err(StoreError::PathEscapes {
            path: PathBuf::from(OsStr::from_bytes(shown)),
            reason,
        })
    };
    if bytes.is_empty() {
        return refuse("it is empty");
    }
    if bytes.len() > MAX_PATH {
        return refuse("it is longer than 4095 bytes");
    }
    if bytes.contains(&0) {
        return refuse("it contains a NUL byte");
    }
    if bytes[0] == b'/' {
        return refuse("it is absolute");
    }
    let mut names = Vec::new();
    for name in bytes.split(|&b| b == b'/') {
        match name {
            b"" if bytes.ends_with(b"/") => {
                return refuse("it ends with a slash, as what is a directory may (-r copies one)");
            }
            b"" => return refuse("it contains an empty name"),
            b"." => return refuse("it contains '.'"),
            b".." => return refuse("it contains '..'"),
            name if name.len() > MAX_NAME => return refuse("a name is longer than 255 bytes"),
            name => names.push(OsStr::from_bytes(name)),
        }
    }
    Ok(names)
}
