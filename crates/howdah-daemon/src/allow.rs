//! Directories that jobs may touch.

use std::io;
use std::path::{Component, Path, PathBuf};

/// Why a job may not have that path.
pub(crate) fn check(
    allowed: &[PathBuf],
    directory: &Path,
    paths: &[PathBuf],
) -> Result<(), String> {
    if allowed.is_empty() {
        return Ok(());
    }
    for path in paths {
        let whole = directory.join(path);
        let real = real(&whole).map_err(|error| format!("{}: {error}", whole.display()))?;
        let inside =
            |dir: &PathBuf| std::fs::canonicalize(dir).is_ok_and(|dir| real.starts_with(dir));
        if !allowed.iter().any(inside) {
            return Err(format!(
                "{} is in none of the directories that jobs of this daemon may touch (--allow)",
                whole.display()
            ));
        }
    }
    Ok(())
}

/// Where a path leads, with all links followed; its end may not be there yet.
fn real(path: &Path) -> io::Result<PathBuf> {
    let mut there = path;
    let mut rest = Vec::new();
    loop {
        match std::fs::canonicalize(there) {
            Ok(mut found) => {
                found.extend(rest.iter().rev());
                return Ok(found);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A link that leads nowhere yet could be made to lead anywhere.
                if there.symlink_metadata().is_ok() {
                    return Err(io::Error::other("is a link that leads nowhere"));
                }
                match (there.components().next_back(), there.parent()) {
                    (Some(Component::Normal(name)), Some(parent)) => {
                        rest.push(name);
                        there = parent;
                    }
                    _ => return Err(io::Error::other("has '..' below what is not there")),
                }
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_job_touches_what_is_allowed_however_it_is_written() {
        let place = tempfile::tempdir().unwrap();
        let inside = place.path().join("in");
        fs::create_dir_all(inside.join("sub")).unwrap();
        fs::create_dir(place.path().join("inner")).unwrap();
        symlink("/etc", inside.join("out")).unwrap();
        symlink("nowhere", inside.join("dangling")).unwrap();
        symlink(&inside, place.path().join("way")).unwrap();
        let allowed = [inside.clone()];
        let may = |path: &str| check(&allowed, &inside, &[PathBuf::from(path)]).is_ok();
        for path in ["a", "sub", "sub/new/newer", ".", "sub/../a"] {
            assert!(may(path), "{path}");
        }
        assert!(may(place.path().join("way/a").to_str().unwrap()));
        for path in [
            "/etc/passwd",
            "/",
            "..",
            "../inner",
            "../inner/x",
            "out/passwd",
            "out/new",
            "sub/../../inner",
            "new/../../x",
            "dangling",
            "dangling/x",
            "/proc/self/root/etc",
        ] {
            assert!(!may(path), "{path}");
        }
        assert!(check(&[], &inside, &["/etc/passwd".into()]).is_ok());
        assert!(check(&["/nonexistent".into()], &inside, &["a".into()]).is_err());
    }
}
