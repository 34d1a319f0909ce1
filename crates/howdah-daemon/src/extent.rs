//! How much there is to copy, as far as it can be seen from outside before a copy says it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Disks that hang hold up nobody: then it is not known.
const PATIENCE: Duration = Duration::from_secs(1);
/// More names than that are not looked at.
const MOST: usize = 100_000;

/// Bytes of these files, and of all files below these directories; None if that cannot be seen soon.
pub(crate) fn of(directory: &Path, sources: &[PathBuf]) -> Option<u64> {
    if sources.is_empty() {
        return None;
    }
    let sources: Vec<_> = sources.iter().map(|path| directory.join(path)).collect();
    let (sender, found) = mpsc::channel();
    let look = move || {
        // Nobody may wait any more.
        let _ = sender.send(look(&sources, MOST));
    };
    thread::Builder::new()
        .name("howdah-extent".to_owned())
        .spawn(look)
        .ok()?;
    found.recv_timeout(PATIENCE).ok()?.ok()?
}

/// None if there are more names than that.
fn look(sources: &[PathBuf], most: usize) -> io::Result<Option<u64>> {
    let mut bytes = 0_u64;
    let mut names = 0;
    let mut directories = Vec::new();
    for path in sources {
        // A link that is named is what it leads to; those below are links.
        let found = fs::metadata(path)?;
        if found.is_dir() {
            directories.push(path.clone());
        }
        bytes = bytes.saturating_add(if found.is_file() { found.len() } else { 0 });
    }
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            names += 1;
            if names > most {
                return Ok(None);
            }
            let kind = entry.file_type()?;
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file() {
                bytes = bytes.saturating_add(entry.metadata()?.len());
            }
        }
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn it_is_that_of_files_and_of_all_below_directories() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("tree/sub")).unwrap();
        fs::write(at("file"), [0; 100]).unwrap();
        fs::write(at("tree/a"), [0; 20]).unwrap();
        fs::write(at("tree/sub/b"), [0; 3]).unwrap();
        symlink("/", at("tree/link")).unwrap();
        symlink("file", at("way")).unwrap();
        let of = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(PathBuf::from).collect();
            of(dir.path(), &names)
        };
        assert_eq!(of(&["file", "tree"]), Some(123));
        assert_eq!(of(&["way"]), Some(100));
        assert_eq!(of(&["file", "missing"]), None);
        assert_eq!(of(&[]), None);
        assert_eq!(look(&[at("tree")], 3).unwrap(), None);
        assert_eq!(look(&[at("tree")], 4).unwrap(), Some(23));
    }
}
