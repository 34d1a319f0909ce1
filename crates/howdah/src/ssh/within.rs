//! What of a machine's files a far end needs for what it was started for; the rest is kept from its process.
//!
//! Whoever asks has all rights of the user there: this bounds what somebody gets who takes the process over by a fault of ours.

use crate::access::expand;
use crate::sandbox::{self, Sandbox};
use crate::task::Task;
use crate::{Location, PathBytes};
use howdah_session::TreeOptions;
use howdah_session::questions::Question;
use howdah_tree::{TreeSource, is_begun};
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};

/// More paths than that are not told one by one.
const PATHS_MAX: usize = 256;

/// Paths as the user names them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Within {
    reads: Vec<PathBytes>,
    writes: Vec<PathBytes>,
    /// Seen from what is written.
    #[serde(default)]
    beside: Vec<String>,
    /// Links may lead anywhere, or there are too many paths.
    #[serde(default)]
    reads_all: bool,
    #[serde(default)]
    writes_all: bool,
    /// A receipt is to be signed.
    #[serde(default)]
    pub(crate) signs: bool,
    /// Names with wildcards are looked for.
    #[serde(default)]
    lists_all: bool,
}

impl Within {
    pub(crate) fn of(task: &Task) -> Self {
        match task {
            Task::Put { path, .. } => Self::of_put(path.clone(), None),
            Task::PutLease(lease) => Self::of_put(lease.path.clone(), None),
            Task::PutTree { path, options, .. } => Self::of_put(path.clone(), Some(options)),
            Task::Get { path, .. } | Task::Look(path, _) | Task::Range(path, _) => {
                Self::of_get(std::slice::from_ref(path), None)
            }
            Task::GetTree { paths, options, .. } => Self::of_get(paths, Some(options)),
            Task::Describe { path, options, .. } => Self {
                reads_all: options.copy_links || options.keep_dirlinks,
                ..Self::of_get(std::slice::from_ref(path), None)
            },
            Task::Files { desk } => desk.receipt_of().map_or_else(
                // What will be asked about is not known yet.
                Self::anything,
                |places| Self {
                    signs: true,
                    ..Self::of_get(places, None)
                },
            ),
            Task::Ask { question, .. } => match question {
                Question::Expand { .. } => Self {
                    lists_all: true,
                    ..Self::default()
                },
                Question::Clean { path, .. } => Self::of_put(path.clone(), None),
            },
        }
    }

    /// To compare what lies at a path of this machine.
    pub(crate) fn to_compare(path: &Path, options: &TreeOptions) -> Self {
        Self::of_get(&[whole(path)], Some(options))
    }

    /// The same of this machine.
    pub(crate) fn here(task: &Task) -> Self {
        match task {
            Task::Put { source, .. } => match source {
                Location::File(path) => Self::of_get(&[whole(path)], None),
                _ => Self::default(),
            },
            Task::PutLease(lease) => Self::of_get(&[whole(&lease.source)], None),
            Task::Get { destination, .. } => match destination {
                Location::File(path) => Self::of_put(whole(path), None),
                _ => Self::default(),
            },
            Task::PutTree {
                source, options, ..
            } => {
                let places = source.iter().flat_map(TreeSource::places);
                let places: Vec<_> = places.map(|place| whole(&place)).collect();
                Self::of_get(&places, Some(options))
            }
            Task::GetTree {
                target, options, ..
            } => target.as_ref().map_or_else(Self::default, |target| {
                Self::of_put(whole(&target.place()), Some(options))
            }),
            // The file of a range is open already.
            Task::Describe { .. }
            | Task::Ask { .. }
            | Task::Look(..)
            | Task::Range(..)
            | Task::Files { .. } => Self::default(),
        }
    }

    /// Something comes to that path; with options if it may be a tree.
    pub(crate) fn of_put(path: PathBytes, tree: Option<&TreeOptions>) -> Self {
        Self {
            writes: vec![path],
            beside: tree.map_or_else(Vec::new, |options| options.link_dest.clone()),
            writes_all: tree.is_some_and(|options| options.keep_dirlinks),
            ..Self::default()
        }
    }

    /// These are read; with options if they may be trees.
    pub(crate) fn of_get(paths: &[PathBytes], tree: Option<&TreeOptions>) -> Self {
        let goes = tree.is_some_and(|options| options.remove_source);
        if paths.len() > PATHS_MAX {
            return Self {
                reads_all: true,
                writes_all: goes,
                ..Self::default()
            };
        }
        Self {
            reads: paths.to_vec(),
            writes: if goes { paths.to_vec() } else { Vec::new() },
            reads_all: tree.is_some_and(|options| options.copy_links),
            ..Self::default()
        }
    }

    /// All that its user may touch: whoever asked said nothing about it.
    pub(crate) fn anything() -> Self {
        Self {
            writes_all: true,
            ..Self::default()
        }
    }

    /// The same as directories and files that are there.
    pub(crate) fn sandbox(&self, home: &Path) -> Sandbox {
        let mut sandbox = Sandbox::default();
        let all = || PathBuf::from("/");
        if self.writes_all {
            // Nothing besides: within a mount, the kernel lets nothing go from a place to one with more rights.
            sandbox.writable.push(all());
            return sandbox;
        }
        sandbox.readable.extend(self.reads_all.then(all));
        sandbox.listable.extend(self.lists_all.then(all));
        let homes = [home.to_owned()];
        for named in meant(home, &self.reads) {
            let Ok(real) = named.canonicalize() else {
                // What has no name, as a pipe that a shell hands over, can only be told apart from nothing.
                sandbox.readable.extend(named.exists().then(all));
                // What is not there is looked for.
                sandbox.listable.push(there(&named));
                continue;
            };
            sandbox.listable.extend(real.parent().map(Path::to_owned));
            if real.is_dir() {
                sandbox.readable.push(real);
            } else {
                // A file may be replaced until it is opened.
                sandbox.readable.extend(sandbox::reach(&real, &homes));
            }
        }
        for named in meant(home, &self.writes) {
            // What is new is made in the directory that it lies in, and becomes what it is there.
            let is_new = !named.is_dir() || is_begun(&named);
            let at = match named.parent() {
                Some(above) if is_new => there(above),
                _ => there(&named),
            };
            // Seen from a tree, or from the directory that one file comes to.
            let seen_from = [Some(&*named), named.parent()];
            let beside = seen_from.into_iter().flatten();
            let beside = beside.flat_map(|from| self.beside.iter().map(|dir| from.join(dir)));
            let beside = beside.map(|dir| dir.canonicalize().unwrap_or_else(|_| as_written(&dir)));
            let above = at.parent().map(Path::to_owned);
            sandbox.listable.extend(above);
            sandbox.writable.extend(beside.chain([at]));
        }
        sandbox
    }
}

fn whole(path: &Path) -> PathBytes {
    // Only an empty path has none, which nobody can open.
    let whole = std::path::absolute(path).unwrap_or_default();
    PathBytes::from(whole.as_os_str())
}

/// Those that are no sources or drains that are made up, as paths of this machine.
fn meant<'a>(home: &'a Path, paths: &'a [PathBytes]) -> impl Iterator<Item = PathBuf> + 'a {
    let made_up = |path: &&PathBytes| {
        let location = Location::try_from(path.as_path().as_os_str());
        matches!(location, Ok(Location::Zero(_) | Location::Null))
    };
    let named = paths.iter().filter(move |path| !made_up(path));
    named.filter_map(move |path| expand(home, path.as_path()).ok())
}

/// The path itself, or the nearest directory above it that is there.
fn there(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|at| at.canonicalize().ok());
    found.unwrap_or_else(|| PathBuf::from("/"))
}

/// What is not there yet has no links in it.
fn as_written(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a70_a_far_end_keeps_to_what_it_was_asked_about() {
        let dir = tempfile::tempdir().expect("a place");
        let home = dir.path().canonicalize().expect("there").join("home");
        let at = |path: &str| home.join(path);
        fs::create_dir_all(at("work/tree")).expect("made");
        fs::create_dir_all(at("data")).expect("made");
        fs::write(at("work/file"), "x").expect("written");
        fs::write(at("top"), "x").expect("written");
        symlink(at("work"), at("way")).expect("a link");

        let written = |path: &str, options: &TreeOptions| {
            Within::of_put(path.into(), Some(options)).sandbox(&home)
        };
        let plain = TreeOptions::default();
        for (path, wanted) in [
            ("work/tree", "work/tree"),
            ("way/tree", "work/tree"),
            ("~/work/./tree/", "work/tree"),
            ("work/tree/new", "work/tree"),
            ("work/tree/new/deep/er", "work/tree"),
            ("work/file", "work"),
            ("work/other", "work"),
            ("none", ""),
        ] {
            let sandbox = written(path, &plain);
            let wanted = if wanted.is_empty() {
                home.clone()
            } else {
                at(wanted)
            };
            assert_eq!(sandbox.writable, [wanted], "{path}");
            assert!(sandbox.readable.is_empty(), "{path}");
        }
        assert!(written("null:", &plain).writable.is_empty());
        let snapshot = TreeOptions {
            link_dest: vec!["../tree".to_owned(), at("data").display().to_string()],
            ..TreeOptions::default()
        };
        // Of a tree, of one file, and what comes.
        let all = ["work/tree", "data", "tree", "data", "work"].map(at);
        assert_eq!(written("work/today", &snapshot).writable, all);
        let wanted = BTreeSet::from(all);
        let found = written("way/today", &snapshot).writable;
        assert!(
            found.iter().filter(|path| wanted.contains(*path)).count() >= 4,
            "{found:?}"
        );

        let read = |path: &str, options: &TreeOptions| {
            Within::of_get(&[path.into()], Some(options)).sandbox(&home)
        };
        assert_eq!(read("way/tree", &plain).readable, [at("work/tree")]);
        assert_eq!(
            read("way/file", &plain).readable,
            [at("work/file"), at("work")]
        );
        // Not all of the home directory for a file in it.
        assert_eq!(read("top", &plain).readable, [at("top")]);
        assert!(read("none", &plain).readable.is_empty());
        assert!(read("zero:1G", &plain).readable.is_empty());
        let follows = TreeOptions {
            copy_links: true,
            ..TreeOptions::default()
        };
        assert!(
            read("way/tree", &follows)
                .readable
                .contains(&PathBuf::from("/"))
        );
        let goes = TreeOptions {
            remove_source: true,
            ..TreeOptions::default()
        };
        assert_eq!(read("work/file", &goes).writable, [at("work")]);
        let many = vec![PathBytes::from("work/file"); PATHS_MAX + 1];
        assert_eq!(
            Within::of_get(&many, None).sandbox(&home).readable,
            [Path::new("/")]
        );
    }
}
