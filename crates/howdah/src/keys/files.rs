//! Opening and reading the files of keys with the suspicion they deserve.

use super::KeyError;
use howdah_store::names::sync_dir;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What other users may do with a file at most.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Exposure {
    /// Nothing: it holds a secret.
    Secret,
    /// Read it.
    Readable,
    /// Change it, too, and own it.
    Anything,
}

pub(super) fn io_error(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(std::io::Error) -> KeyError {
    let path = path.to_owned();
    move |source| KeyError::Io {
        action,
        path,
        source,
    }
}

/// Reads a whole file of at most `limit` bytes whose owner and mode are acceptable.
///
/// The checks look at the open file, not at its name, so that nobody can swap it in between.
pub(super) fn read(path: &Path, limit: u64, exposure: Exposure) -> Result<Vec<u8>, KeyError> {
    // A device would notice that it is opened.
    if path.metadata().is_ok_and(|meta| !meta.is_file()) {
        let path = path.to_owned();
        return Err(KeyError::NotAFile { path });
    }
    // Without O_NONBLOCK, opening a named pipe would wait for its writer.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
        .map_err(io_error("read", path))?;
    let meta = file.metadata().map_err(io_error("read", path))?;
    check(path, &meta, exposure)?;
    if exposure != Exposure::Anything {
        check_parent(path)?;
    }
    // As much as there may be: what grows leaves copies of a secret behind.
    let mut bytes = Vec::with_capacity(meta.len().min(limit) as usize + 2);
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(io_error("read", path))?;
    if bytes.len() as u64 > limit {
        return Err(KeyError::TooLarge {
            path: path.to_owned(),
            limit,
        });
    }
    Ok(bytes)
}

pub(super) fn check(path: &Path, meta: &Metadata, exposure: Exposure) -> Result<(), KeyError> {
    let path = path.to_owned();
    if !meta.is_file() {
        return Err(KeyError::NotAFile { path });
    }
    if exposure == Exposure::Anything {
        return Ok(());
    }
    let owner = meta.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(KeyError::OwnedByAnother { path, owner });
    }
    let mode = meta.mode() & 0o7777;
    match exposure {
        Exposure::Secret if mode & 0o077 != 0 => Err(KeyError::ReadableByOthers { path, mode }),
        Exposure::Readable if mode & 0o022 != 0 => Err(KeyError::WritableByOthers { path, mode }),
        _ => Ok(()),
    }
}

/// Refuses a file that somebody else may change or replace. What is no regular file, as a pipe, passes: its path was
/// named with care.
pub fn check_ours(path: &Path, file: &File) -> Result<(), KeyError> {
    let meta = file.metadata().map_err(io_error("read", path))?;
    if !meta.is_file() {
        return Ok(());
    }
    check(path, &meta, Exposure::Readable)?;
    check_parent(path)
}

/// Who may write to the directory of a file can put another one there; not where the sticky bit is set, as in /tmp.
fn check_parent(path: &Path) -> Result<(), KeyError> {
    // Where the file is, if its name is a link.
    let real = path.canonicalize().map_err(io_error("read", path))?;
    let Some(parent) = real.parent() else {
        return Ok(());
    };
    let meta = parent.metadata().map_err(io_error("examine", parent))?;
    let mode = meta.mode() & 0o7777;
    if mode & 0o022 != 0 && mode & 0o1000 == 0 {
        let path = parent.to_owned();
        return Err(KeyError::WritableByOthers { path, mode });
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let home = home.and_then(|home| home.canonicalize().ok());
    check_above(parent, home.as_deref())
}

/// Who may write to a directory further up can put another one in the place of all that is below, as sshd's `StrictModes`
/// says; looked at up to the home directory, or up to the root.
fn check_above(dir: &Path, home: Option<&Path>) -> Result<(), KeyError> {
    let us = rustix::process::geteuid().as_raw();
    let ours = rustix::process::getegid().as_raw();
    let mut below = dir;
    while Some(below) != home
        && let Some(above) = below.parent()
    {
        // What cannot be looked at cannot be told about either.
        let Ok(meta) = above.metadata() else {
            return Ok(());
        };
        let mode = meta.mode() & 0o7777;
        // Where everybody has a group of his own, that is nobody else.
        let private = meta.gid() == ours && ours == us;
        let others = if private { 0o002 } else { 0o022 };
        if mode & others != 0 && mode & 0o1000 == 0 {
            let path = above.to_owned();
            return Err(KeyError::WritableByOthers { path, mode });
        }
        below = above;
    }
    Ok(())
}

/// Makes the directory that will hold `path`, closed to others. Those that are new survive a power cut.
pub(super) fn create_parent(path: &Path) -> Result<(), KeyError> {
    let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    else {
        return Ok(());
    };
    let new: Vec<&Path> = parent.ancestors().take_while(|dir| is_new(dir)).collect();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(parent)
        .map_err(io_error("create the directory", parent))?;
    new.into_iter().try_for_each(sync_parent)
}

fn is_new(dir: &Path) -> bool {
    !dir.as_os_str().is_empty() && !dir.exists()
}

/// Makes the name of a new file survive a power cut.
pub(super) fn sync_parent(path: &Path) -> Result<(), KeyError> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(parent)
        .and_then(|dir| Ok(sync_dir(dir)?))
        .map_err(io_error("sync the directory", parent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{AuthorizedKeys, Identity, KnownHosts, read_public_lines};
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;

    #[test]
    fn a41_whatever_lies_where_a_key_should_be_ends_in_words() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("dir")).unwrap();
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        let huge = File::create(at("huge")).unwrap();
        huge.set_len(1 << 40).unwrap();
        fs::set_permissions(at("huge"), Permissions::from_mode(0o600)).unwrap();
        symlink("/dev/zero", at("device")).unwrap();
        symlink("around", at("around")).unwrap();
        for name in ["dir", "fifo", "socket", "huge", "device", "around"] {
            let path = at(name);
            let results = [
                Identity::load(&path).map(drop),
                AuthorizedKeys::load(&path).map(drop),
                KnownHosts::load(&path).map(drop),
                read_public_lines(&path).map(drop),
            ];
            for result in results {
                let text = result.expect_err(name).to_string();
                assert!(text.contains(name), "{text}");
            }
        }
    }

    #[test]
    fn h13_directories_further_up_are_looked_at_as_far_as_home() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (home, keys) = (top.join("open/home"), top.join("open/home/a/keys"));
        fs::create_dir_all(&keys).unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        for path in [&*home, &home.join("a"), &keys] {
            mode(path, 0o755);
        }
        let check = |home| check_above(&keys, home);
        for (bits, good) in [
            (0o755, true),
            (0o1777, true),
            (0o777, false),
            (0o757, false),
        ] {
            mode(&top.join("open"), bits);
            let text = check(None).err().map(|error| error.to_string());
            assert_eq!(text.is_none(), good, "{bits:o}: {text:?}");
            let names = |text: String| text.contains("chmod go-w") && text.contains("open");
            assert!(text.is_none_or(names));
            // Above the home directory is not looked at.
            check(Some(&home)).unwrap();
        }
        // What is below it is, and it itself.
        for path in [&home.join("a"), &home] {
            mode(path, 0o757);
            assert!(check(Some(&home)).is_err() && check(None).is_err());
            mode(path, 0o755);
        }
    }

    #[test]
    fn h13_a_directory_that_others_may_write_to_holds_no_keys() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("keys");
        fs::create_dir(&inner).unwrap();
        let file = inner.join("file");
        fs::write(&file, "text").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let link = dir.path().join("link");
        symlink(&file, &link).unwrap();
        for (mode, good) in [
            (0o700, true),
            (0o755, true),
            (0o1777, true),
            (0o777, false),
            (0o770, false),
            (0o702, false),
        ] {
            fs::set_permissions(&inner, Permissions::from_mode(mode)).unwrap();
            for path in [&file, &link] {
                let open = File::open(path).unwrap();
                let results = [
                    read(path, 10, Exposure::Secret).map(drop),
                    read(path, 10, Exposure::Readable).map(drop),
                    check_ours(path, &open),
                ];
                for result in results {
                    let text = result.err().map(|error| error.to_string());
                    assert_eq!(text.is_none(), good, "{mode:o}: {text:?}");
                    let remedy =
                        |text: String| text.contains("chmod go-w") && text.ends_with("keys");
                    assert!(text.is_none_or(remedy), "{mode:o}");
                }
                // Public lines are read from anywhere.
                read(path, 10, Exposure::Anything).unwrap();
            }
        }
    }
}
