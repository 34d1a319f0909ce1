//! What jobs may touch of this machine, whoever has submitted them. It is decided by names when a job is submitted and again
//! when an attempt begins; its process keeps itself within the same, which is what holds against links that come meanwhile.

use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Component, Path, PathBuf};

/// The variable with the bounds of an attempt, as JSON.
pub const VARIABLE: &str = "HOWDAH_JOB_BOUNDS";

/// Directories that are allowed and such that are not.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Bounds {
    /// Jobs may touch nothing outside of these; none: all that the daemon's user may.
    pub allow: Vec<PathBuf>,
    /// Neither do they touch these, nor what lies below: what is the daemon's own.
    pub kept: Vec<PathBuf>,
    /// But for lists that the daemon makes itself for its jobs there.
    pub lists: PathBuf,
}

impl Bounds {
    /// The same with the real names of directories, as far as they are there.
    pub(crate) fn real(self) -> Self {
        // One within another could be made a link to somewhere else, and it adds nothing.
        let is_within = |dir: &PathBuf| {
            let mut others = self.allow.iter().filter(|other| *other != dir);
            others.any(|other| dir.starts_with(other))
        };
        let allow = self.allow.iter().filter(|dir| !is_within(dir));
        let kept = self.kept.iter();
        let kept = kept.map(|dir| real(dir).unwrap_or_else(|_| dir.clone()));
        Self {
            allow: allow.cloned().collect(),
            kept: kept.collect(),
            lists: real(&self.lists).unwrap_or_else(|_| self.lists.clone()),
        }
    }

    /// Why a job may not have these paths, which are relative to that directory.
    pub(crate) fn check(&self, directory: &Path, paths: &[PathBuf]) -> Result<(), String> {
        self.check_all(directory, paths, false)
    }

    /// Why nobody is told of that place, whose name is whole.
    pub(crate) fn check_place(&self, path: &Path) -> Result<(), String> {
        self.check_paths(Path::new("/"), &[path.to_owned()], false)
    }

    /// The same of a job that may be the daemon's own.
    pub(crate) fn check_again(&self, directory: &Path, paths: &[PathBuf]) -> Result<(), String> {
        self.check_all(directory, paths, true)
    }

    fn check_all(&self, directory: &Path, paths: &[PathBuf], lists: bool) -> Result<(), String> {
        if !self.allow.is_empty() {
            let checked = self.check_paths(directory, &[PathBuf::new()], false);
            checked.map_err(|why| {
                format!("{why}; a job runs within them: submit it from there, or name such a directory (--directory)")
            })?;
        }
        self.check_paths(directory, paths, lists)
    }

    fn check_paths(&self, directory: &Path, paths: &[PathBuf], lists: bool) -> Result<(), String> {
        for path in paths {
            let whole = directory.join(path);
            let shown = whole.display();
            let real = match real(&whole) {
                Ok(real) => real,
                // What cannot be reached is told by whoever tries; what a link will lead to nobody knows.
                // Where '..' leads from a directory that a job may yet make nobody knows, either.
                Err(error)
                    if self.allow.is_empty()
                        && error.kind() != io::ErrorKind::Other
                        && (self.kept.is_empty() || !climbs(path)) =>
                {
                    continue;
                }
                Err(error) => return Err(format!("{shown}: {error}")),
            };
            if lists && real.parent() == Some(&*self.lists) {
                continue;
            }
            let inside =
                |dir: &PathBuf| std::fs::canonicalize(dir).is_ok_and(|dir| real.starts_with(dir));
            if !self.allow.is_empty() && !self.allow.iter().any(inside) {
                return Err(format!(
                    "{shown} is in none of the directories that jobs of this daemon may touch (--allow)"
                ));
            }
            if self.kept.iter().any(|dir| real.starts_with(dir)) {
                return Err(format!(
                    "{shown} is the daemon's own: jobs touch neither its state nor its configuration and keys"
                ));
            }
        }
        Ok(())
    }
}

fn climbs(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
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
                let (Some(Component::Normal(name)), Some(parent)) =
                    (there.components().next_back(), there.parent())
                else {
                    let text = "has '..' below what is not there";
                    return Err(io::Error::new(io::ErrorKind::NotFound, text));
                };
                rest.push(name);
                there = parent;
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
        let allow = |dir: &Path| Bounds {
            allow: vec![dir.to_owned()],
            ..Bounds::default()
        };
        let bounds = allow(&inside);
        let may = |path: &str| bounds.check(&inside, &[PathBuf::from(path)]).is_ok();
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
        let check = |bounds: &Bounds, path: &str| bounds.check(&inside, &[path.into()]);
        assert!(check(&Bounds::default(), "/etc/passwd").is_ok());
        assert!(check(&Bounds::default(), "new/../../x").is_ok());
        assert!(check(&allow(Path::new("/nonexistent")), "a").is_err());
    }

    #[test]
    fn a_job_runs_within_what_is_allowed() {
        let place = tempfile::tempdir().unwrap();
        let inside = place.path().join("in");
        fs::create_dir_all(inside.join("own")).unwrap();
        symlink("/", inside.join("out")).unwrap();
        let bounds = Bounds {
            allow: vec![inside.clone()],
            kept: vec![inside.join("own")],
            ..Bounds::default()
        };
        let bounds = bounds.real();
        let may = |directory: &Path| bounds.check(directory, &[inside.join("a")]);
        assert_eq!(may(&inside), Ok(()));
        for directory in [
            place.path(),
            Path::new("/"),
            &inside.join("out"),
            &inside.join("own"),
        ] {
            let why = may(directory).unwrap_err();
            assert!(why.contains("--directory"), "{why}");
        }
        let open = Bounds::default();
        assert_eq!(open.check(Path::new("/"), &[inside.join("a")]), Ok(()));
    }

    #[test]
    fn what_lies_within_what_is_allowed_is_not_allowed_by_itself() {
        let allow = ["/a/b", "/a", "/ab", "/a"].map(PathBuf::from).to_vec();
        let bounds = Bounds {
            allow,
            ..Bounds::default()
        };
        let left = ["/a", "/ab", "/a"].map(PathBuf::from);
        assert_eq!(bounds.real().allow, left);
    }

    #[test]
    fn what_is_the_daemons_own_is_no_jobs_however_it_is_written() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let own = place.join("own");
        fs::create_dir_all(own.join("lists")).unwrap();
        symlink(&own, place.join("way")).unwrap();
        for allow in [Vec::new(), vec![place.clone()]] {
            let bounds = Bounds {
                allow,
                kept: vec![place.join("way"), place.join("way/../config")],
                lists: place.join("way/lists"),
            };
            let bounds = bounds.real();
            let may = |path: &str| bounds.check(&place, &[path.into()]).is_ok();
            for path in [
                "own",
                "own/tokens",
                "way",
                "way/x/y",
                "other/../own",
                "config/x",
                "own/lists/1",
            ] {
                assert!(!may(path), "{path}");
            }
            for path in [".", "owner", "other"] {
                assert!(may(path), "{path}");
            }
            let again = |path: &str| bounds.check_again(&place, &[path.into()]).is_ok();
            assert!(again("own/lists/1") && !again("own/lists") && !again("own/lists/../tokens"));
        }
    }
}
