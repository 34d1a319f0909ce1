//! A file or a tree moved by many hosts: `howdah plan`, `howdah cp --plan`, `howdah finish`. What makes it right is in `howdah-lease`; here are
//! the disk and the network that it talks of.

mod ended;
mod finish;
mod moved;
mod moving;
mod planning;
mod pushing;
mod pushing_tree;
mod run;
mod tree;
mod tree_finish;
mod written;

pub(super) use finish::run as finish;
pub(super) use moving::run as cp;
pub(super) use planning::run as plan;

use howdah::lease::{beneath, failed, identity, path_of, room, shape, version};
use howdah::{Error, ErrorKind, Location, PathBytes};
use howdah_lease::{Name, Planned, TEXT_MAX, TreePlan};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

fn read_plan(path: &Path) -> Result<Planned, Error> {
    if path.is_dir() {
        let text = format!("{} is a directory, and no plan of howdah's", path.display());
        return Err(Error::new(ErrorKind::Usage, text));
    }
    // One byte more than a plan may have, by which it is known to have too many.
    let text = File::open(path).and_then(|file| {
        let mut text = Vec::new();
        file.take(TEXT_MAX as u64 + 1).read_to_end(&mut text)?;
        Ok(text)
    });
    let text = text.map_err(|e| failed("read the plan", path, &e))?;
    Planned::decode(&String::from_utf8_lossy(&text))
        .map_err(|e| Error::new(ErrorKind::Usage, format!("{}: {e}", path.display())))
}

/// Where a plan says that it comes from.
fn source_of(planned: &Planned, path: &Path) -> Result<Location, Error> {
    Location::try_from(OsStr::new(planned.source()))
        .map_err(|e| Error::new(ErrorKind::Usage, format!("{}: {e}", path.display())))
}

/// Where it goes, if that is on another machine.
fn far_destination(planned: &Planned) -> Option<Location> {
    let place = Location::try_from(OsStr::new(planned.destination())).ok();
    place.filter(Location::is_remote)
}

/// A file of the tree at that place.
fn below(top: &Location, name: &Name) -> Location {
    let mut place = top.clone();
    if let Location::Remote { path, .. } = &mut place {
        *path = joined(path, name);
    } else if let Location::Ssh(there) = &mut place {
        there.path = joined(&there.path, name);
    }
    place
}

fn joined(path: &PathBytes, name: &Name) -> PathBytes {
    path.as_path().join(path_of(name)).as_os_str().into()
}

/// How what a plan is of is copied.
fn tree_options(plan: &TreePlan) -> howdah::TreeOptions {
    howdah::TreeOptions {
        contents: true,
        recursive: true,
        archive: plan.archive(),
        permissions: plan.permissions(),
        ..howdah::TreeOptions::default()
    }
}

/// Numbers as array jobs want them: `0,3-7`.
fn numbers(all: impl IntoIterator<Item = u64>) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in all {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let run = |(first, last)| {
        if first == last {
            format!("{first}")
        } else {
            format!("{first}-{last}")
        }
    };
    runs.into_iter().map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn numbers_are_written_as_array_jobs_want_them() {
        assert_eq!(numbers([]), "");
        assert_eq!(numbers([4]), "4");
        assert_eq!(numbers([0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }
}
