//! What is asked of another machine besides copies: what a name with wildcards means there, what interrupted copies
//! have left.

use crate::connect::{Remote, run};
use crate::error::from_store;
use crate::reconnect::preceding;
use crate::task::{Answers, Task};
use crate::{Cancel, CopyConfig, Error, ErrorKind, KnownHosts, Location, PathBytes, Progress};
use howdah_session::questions::{Finding, Question, Sum};
use howdah_store::Root;
use howdah_tree::{Fate, Leftovers, could_mean, has_wildcards};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest question, in bytes of names.
const PATTERNS_BYTES: usize = 24 << 10;

fn ask(
    remote: Remote,
    question: Question,
    (config, cancel): (&CopyConfig, &Cancel),
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<(Vec<Finding>, Sum), Error> {
    let answers = Answers::default();
    let task = Task::Ask {
        question,
        answers: answers.clone(),
    };
    run(task, remote, &config.once(), cancel, on_progress)?;
    Ok(answers.take())
}

/// A place that was named, or found for a name with wildcards.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Expanded {
    /// Where it is.
    pub location: Location,
    /// Which of the names that were given it stands for.
    pub of: usize,
    /// If it was found: whether it is a directory, and the bytes of a file.
    pub found: Option<(bool, u64)>,
}

/// Whether a place is named with wildcards that its machine would expand.
pub fn is_pattern(location: &Location) -> bool {
    Remote::of(location).is_some_and(|(_, path)| {
        let made_up = Location::try_from(path.as_os_str());
        let is_made_up = matches!(made_up, Ok(Location::Zero(_) | Location::Null));
        has_wildcards(path.as_path()) && !is_made_up
    })
}

/// Expands wildcards in the names of places on other machines, there, as a shell does: `*`, `?`, `[a-z]`, each within one name, no
/// hidden names unless the pattern begins with a dot. A name that is there as it is written is that one. All other places stay as they
/// are.
///
/// Nothing that matches the only name is an error; one of several stays as it is, for whoever uses it to miss.
pub fn expand(
    locations: &[Location],
    config: &mut CopyConfig,
    cancel: &Cancel,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Vec<Expanded>, Error> {
    let mut all: Vec<Vec<Expanded>> = locations
        .iter()
        .enumerate()
        .map(|(of, location)| {
            vec![Expanded {
                location: location.clone(),
                of,
                found: None,
            }]
        })
        .collect();
    let mut patterns: Vec<(usize, Remote, PathBytes)> = Vec::new();
    for (of, location) in locations.iter().enumerate().filter(|(_, l)| is_pattern(l)) {
        patterns.extend(Remote::of(location).map(|(remote, path)| (of, remote, path)));
    }
    while let Some((_, remote, _)) = patterns.first() {
        let remote = remote.clone();
        let (mut these, mut bytes) = (Vec::new(), 0);
        patterns.retain(|(of, other, path)| {
            let len = path.as_bytes().len() + 8;
            let fits = *other == remote && (these.is_empty() || bytes + len <= PATTERNS_BYTES);
            if fits {
                bytes += len;
                these.push((*of, path.clone()));
            }
            !fits
        });
        let question = Question::Expand {
            patterns: these.iter().map(|(_, path)| path.clone()).collect(),
        };
        let (found, _) = preceding((config, cancel), on_progress, |config, on_progress| {
            ask(
                remote.clone(),
                question.clone(),
                (config, cancel),
                on_progress,
            )
        })?;
        // Who was asked about a key is not asked again.
        if !config.known_hosts.path().as_os_str().is_empty() {
            config.known_hosts = KnownHosts::load(config.known_hosts.path())?;
        }
        let mut groups: Vec<Vec<Expanded>> = vec![Vec::new(); these.len()];
        for finding in found {
            let at = finding.of as usize;
            let not_asked = || {
                let text = "it found something for a name that was not asked for";
                Error::new(ErrorKind::Protocol, text)
            };
            let (Some(group), Some((of, pattern))) = (groups.get_mut(at), these.get(at)) else {
                return Err(not_asked());
            };
            if !could_mean(pattern.as_path(), finding.path.as_path()) {
                return Err(not_asked());
            }
            group.push(Expanded {
                location: with_path(&locations[*of], finding.path),
                of: *of,
                found: Some((finding.is_dir, finding.bytes)),
            });
        }
        for ((of, pattern), group) in these.into_iter().zip(groups) {
            if group.is_empty() && locations.len() == 1 {
                let text = format!("{}: nothing there matches {pattern:?}", locations[of]);
                return Err(Error::new(ErrorKind::NotFound, text));
            }
            if !group.is_empty() {
                all[of] = group;
            }
        }
    }
    Ok(all.into_iter().flatten().collect())
}

/// Another path on the same machine.
fn with_path(location: &Location, path: PathBytes) -> Location {
    let mut location = location.clone();
    match &mut location {
        Location::Remote { path: old, .. } => *old = path,
        Location::Ssh(there) => there.path = path,
        _ => {}
    }
    location
}

/// What interrupted copies had left at a place.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Cleaned {
    /// Removed, or what would be: names and the bytes that they took on the disk.
    pub names: u64,
    /// See `names`.
    pub bytes: u64,
    /// Somebody writes to these, or that cannot be known.
    pub in_use: u64,
    /// These could not be removed, or looked at.
    pub failed: u64,
    /// The first of what could not be looked at.
    pub notes: Vec<String>,
    /// Each of them, up to a large number: its path below the place, its bytes, what became of it.
    pub found: Vec<(PathBuf, u64, Fate)>,
}

/// Removes what interrupted copies have left in a directory and below it, here or on another machine, unless somebody
/// writes to it.
pub fn clean(
    place: &Location,
    what: Leftovers,
    config: &CopyConfig,
    cancel: &Cancel,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Cleaned, Error> {
    if let Some((remote, path)) = Remote::of(place) {
        let question = Question::Clean {
            path,
            dry_run: what.dry_run,
            modified_until: what.modified_until,
        };
        let (found, sum) = ask(remote, question, (config, cancel), on_progress)?;
        let found = found.into_iter().map(|finding| {
            let fate = match finding.fate {
                0 => Fate::Removed,
                1 => Fate::InUse,
                _ => Fate::Failed,
            };
            (finding.path.as_path().to_owned(), finding.bytes, fate)
        });
        return Ok(Cleaned {
            names: sum.names,
            bytes: sum.bytes,
            in_use: sum.in_use,
            failed: sum.failed,
            notes: sum.notes,
            found: found.collect(),
        });
    }
    let Location::File(path) = place else {
        let text = format!("nothing can be left at {place}; name a directory");
        return Err(Error::new(ErrorKind::Usage, text));
    };
    let root = Arc::new(Root::open(path).map_err(|e| from_store(&e))?);
    let mut cleaned = Cleaned::default();
    let unread = what.clean(&root, Path::new(""), &mut |left| {
        match left.fate {
            Fate::Removed => {
                cleaned.names += 1;
                cleaned.bytes += left.bytes;
            }
            Fate::InUse => cleaned.in_use += 1,
            Fate::Failed => cleaned.failed += 1,
        }
        cleaned.found.push((left.path, left.bytes, left.fate));
        if cancel.is_cancelled() {
            return Err(howdah_store::StoreError::Aborted);
        }
        Ok(())
    });
    let unread = unread.map_err(|e| {
        if cancel.is_cancelled() {
            Error::new(ErrorKind::Cancelled, "interrupted")
        } else {
            from_store(&e)
        }
    })?;
    cleaned.failed += unread.len() as u64;
    cleaned.notes = unread.iter().map(ToString::to_string).collect();
    Ok(cleaned)
}
