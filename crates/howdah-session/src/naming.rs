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

/// Whether a path is written as what is in a directory, not as the directory by its name: it ends in dots, or is the root directory,
/// whatever slashes stand behind.
pub fn is_contents(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/');
    let named = &bytes[..end.map_or(0, |last| last + 1)];
    [&b""[..], b".", b".."].contains(&named) || named.ends_with(b"/.") || named.ends_with(b"/..")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_in_dots_is_what_is_in_a_directory_whatever_slashes_stand_behind() {
        for (path, contents) in [
            ("", true),
            ("/", true),
            ("//", true),
            ("/./", true),
            (".", true),
            ("./", true),
            ("..", true),
            ("../", true),
            ("../..//", true),
            ("a/.", true),
            ("a/./", true),
            ("a/..", true),
            ("/a/../", true),
            ("a", false),
            ("a/", false),
            ("../a", false),
            ("./a//", false),
            ("a.", false),
            ("a..", false),
            ("...", false),
            ("a/...", false),
        ] {
            assert_eq!(is_contents(Path::new(path)), contents, "{path:?}");
        }
    }
}
