//! Where the sockets are.

use howdah::{Error, ErrorKind};
use rustix::fs::{Mode, OFlags, fstat, open};
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// `$XDG_RUNTIME_DIR/howdah`, or `/tmp/howdah-UID` where there is none.
pub(crate) fn directory() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(dir) if dir.is_absolute() => dir.join("howdah"),
        _ => PathBuf::from(format!(
            "/tmp/howdah-{}",
            rustix::process::geteuid().as_raw()
        )),
    }
}

/// Makes the directory if it is not there. Somebody else's, or one that others can enter, is refused (A57): the sockets
/// in it could be anybody's.
pub(crate) fn prepare(dir: &Path) -> Result<(), Error> {
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            let text = format!("cannot make {}: {error}", dir.display());
            return Err(Error::new(ErrorKind::Refused, text));
        }
        _ => {}
    }
    check(dir)
}

fn check(dir: &Path) -> Result<(), Error> {
    let refused = |why: &str| {
        let text = format!(
            "{} {why}; remove it, or set XDG_RUNTIME_DIR to a directory of your own",
            dir.display()
        );
        Err(Error::new(ErrorKind::Refused, text))
    };
    // Not through a symbolic link, and what is looked at is what was opened.
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(opened) = open(dir, flags, Mode::empty()) else {
        return refused("is no directory");
    };
    let Ok(stat) = fstat(&opened) else {
        return refused("cannot be looked at");
    };
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return refused("belongs to somebody else");
    }
    if stat.st_mode & 0o077 != 0 {
        return refused("can be entered by others");
    }
    Ok(())
}

/// The sockets of running copies.
#[derive(Debug)]
pub(crate) struct Sockets(Vec<(u32, PathBuf)>);

/// More processes of one user are not looked at.
const MAX_SOCKETS: usize = 1_024;

impl Sockets {
    /// Those in the user's directory, by process.
    pub(crate) fn find() -> Result<Self, Error> {
        let dir = directory();
        if !dir.exists() {
            return Ok(Self(Vec::new()));
        }
        check(&dir)?;
        let entries = fs::read_dir(&dir).map_err(|error| {
            let text = format!("cannot read {}: {error}", dir.display());
            Error::new(ErrorKind::Refused, text)
        })?;
        let mut found: Vec<(u32, PathBuf)> = entries
            .take(MAX_SOCKETS)
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                let name = path.file_name()?.to_str()?;
                let pid = name.strip_suffix(".sock")?.parse().ok()?;
                Some((pid, path))
            })
            .collect();
        found.sort();
        Ok(Self(found))
    }

    /// Where that process would have its own.
    #[cfg(target_os = "linux")]
    pub(crate) fn of(pid: u32) -> PathBuf {
        directory().join(format!("{pid}.sock"))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Path)> {
        self.0.iter().map(|(pid, path)| (*pid, path.as_path()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn a57_only_a_directory_of_our_own_will_do() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("howdah");
        prepare(&dir).unwrap();
        prepare(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o750)).unwrap();
        let error = prepare(&dir).unwrap_err();
        assert!(error.to_string().contains("entered by others"), "{error}");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        let link = place.path().join("link");
        symlink(&dir, &link).unwrap();
        let error = prepare(&link).unwrap_err();
        assert!(error.to_string().contains("is no directory"), "{error}");
    }
}
