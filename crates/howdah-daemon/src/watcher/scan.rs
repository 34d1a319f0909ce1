//! What is in a directory now.

use crate::watch::Look;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Files and links below a directory, relative to it.
pub(super) struct Found {
    pub(super) files: Vec<(PathBuf, Look)>,
    /// What could not be looked at, if something could not.
    pub(super) wrong: Option<String>,
}

/// Deeper ones are a mistake.
const DEEPEST: usize = 1_000;
/// In the names of what copies to this directory have not finished.
const UNFINISHED: &str = ".howdah-";

/// Looks at everything, without following links.
pub(super) fn scan(top: &Path) -> Found {
    let mut found = Found {
        files: Vec::new(),
        wrong: None,
    };
    let mut open = vec![(PathBuf::new(), 0)];
    while let Some((dir, depth)) = open.pop() {
        match read(top, &dir, depth, &mut found.files, &mut open) {
            Ok(()) => {}
            // It went away in the meantime.
            Err(error) if depth > 0 && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let text = format!("cannot look at {}: {error}", top.join(&dir).display());
                found.wrong.get_or_insert(text);
            }
        }
    }
    found
}

fn read(
    top: &Path,
    dir: &Path,
    depth: usize,
    files: &mut Vec<(PathBuf, Look)>,
    open: &mut Vec<(PathBuf, usize)>,
) -> io::Result<()> {
    for entry in fs::read_dir(top.join(dir))? {
        let entry = entry?;
        let path = dir.join(entry.file_name());
        let metadata = match entry.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            metadata => metadata?,
        };
        if metadata.is_dir() {
            if depth < DEEPEST {
                open.push((path, depth + 1));
            }
        } else if (metadata.is_file() || metadata.is_symlink()) && !is_unfinished(&path) {
            files.push((
                path,
                Look {
                    size: metadata.size(),
                    modified_ns: metadata
                        .mtime()
                        .saturating_mul(1_000_000_000)
                        .saturating_add(metadata.mtime_nsec()),
                    inode: metadata.ino(),
                },
            ));
        }
    }
    Ok(())
}

fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| name.starts_with('.') && name.contains(UNFINISHED))
}
