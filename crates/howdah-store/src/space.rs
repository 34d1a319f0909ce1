//! Room on a disk: whether something fits, and what is missing if not.

use crate::shown::named;
use howdah_core::units::format_bytes;
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// What a full disk lacks, as far as that is known.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Lack {
    /// Bytes that are still to be stored.
    pub needed: Option<u64>,
    /// Bytes that the file system has left for us.
    pub free: Option<u64>,
    /// It is a quota that is used up, not the disk.
    pub is_quota: bool,
    /// There is space, but no file can be made any more.
    pub is_inodes: bool,
}

/// What happened and what to do, for a user.
pub(crate) fn describe(path: &Path, lack: &Lack) -> String {
    let remedy = if lack.is_inodes {
        "remove some files there and copy again"
    } else if lack.is_quota {
        "remove something or have it raised, and copy again"
    } else {
        "make room there and copy again"
    };
    format!("{}; {remedy}", happened(path, lack))
}

/// What happened.
#[expect(clippy::unnecessary_debug_formatting, reason = "Debug escapes")]
pub(crate) fn happened(path: &Path, lack: &Lack) -> String {
    let path = named(path);
    let needed = lack.needed.map(format_bytes);
    if lack.is_inodes {
        return format!(
            "no space left for {path:?}: its file system can hold no more files (no inode is free)"
        );
    }
    if lack.is_quota {
        let needed =
            needed.map_or_else(String::new, |needed| format!(" ({needed} more are needed)"));
        return format!("no space left for {path:?}: the quota there is used up{needed}");
    }
    let figures = match (needed, lack.free.map(format_bytes)) {
        (Some(needed), Some(free)) => format!(": {needed} more are needed and {free} are free"),
        (Some(needed), None) => format!(": {needed} more are needed"),
        (None, Some(free)) => format!(": {free} are free"),
        (None, None) => String::new(),
    };
    format!("no space left for {path:?}{figures}")
}

/// Bytes of a file of `size` bytes for which it has no space yet.
pub(crate) fn lacks(file: &File, size: u64) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let allocated = file.metadata().map_or(0, |meta| meta.blocks() * 512);
    size.saturating_sub(allocated)
}

/// An early look at the free space, which costs no I/O: `NOSPC` if what a file of `size` bytes lacks
/// cannot fit.
pub(crate) fn fits(file: &File, size: u64) -> Result<(), Errno> {
    let size = lacks(file, size);
    match rustix::fs::fstatvfs(file) {
        // Some file systems (FUSE, network) report nothing: zero blocks in all.
        Ok(vfs) if vfs.f_blocks > 0 && size / vfs.f_frsize.max(1) > vfs.f_bfree => {
            Err(Errno::NOSPC)
        }
        _ => Ok(()),
    }
}

/// Whether what a file of `size` bytes lacks would fit if nothing else were there.
pub(crate) fn could_fit(file: &File, size: u64) -> bool {
    let size = lacks(file, size);
    rustix::fs::fstatvfs(file)
        .is_ok_and(|vfs| vfs.f_blocks == 0 || size / vfs.f_frsize.max(1) <= vfs.f_blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_as_far_as_it_is_known() {
        let says = |lack: Lack, words: &[&str]| {
            let text = describe(Path::new("a\nb"), &lack);
            for word in words {
                assert!(text.contains(word), "{text}");
            }
            assert!(text.starts_with(r#"no space left for "a\nb""#), "{text}");
        };
        let lack = Lack::default();
        says(lack, &["; make room there and copy again"]);
        let lack = Lack {
            needed: Some(5 << 20),
            free: Some(1 << 20),
            ..lack
        };
        says(
            lack,
            &["5.0 MiB more are needed and 1.0 MiB are free", "make room"],
        );
        let quota = Lack {
            is_quota: true,
            ..lack
        };
        says(
            quota,
            &[
                "the quota there is used up (5.0 MiB more are needed)",
                "raised",
            ],
        );
        let inodes = Lack {
            is_inodes: true,
            ..lack
        };
        says(inodes, &["no inode is free", "remove some files"]);
    }
}
