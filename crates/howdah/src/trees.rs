//! Copies of whole trees between here and a server.

use crate::connect::{Remote, run};
use crate::error::from_store;
use crate::reconnect::{CopyKind, lasting};
use crate::ssh::{Order, copy_between};
use crate::task::Task;
use crate::{Cancel, CopyConfig, Error, ErrorKind, Location, PathBytes, Progress, Summary};
use howdah_session::naming;
use howdah_session::plans::PlanPlace;
use howdah_session::selection;
use howdah_session::{RuleList, RuleRef, TreeOptions};
use howdah_tree::{TreeSource, TreeTarget, origin_of};
use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Copies files and directories. Either all `sources` are local and `destination` is remote, or the other
/// way round; then all sources are on one host. Both may be on machines that ssh reaches: then the data
/// flows from one to the other directly.
///
/// As with `cp`, an existing directory as destination gets the sources below it; otherwise the one source
/// becomes the destination. With [`TreeOptions::contents`] what is in the one source goes into the
/// destination, which is made if it is not there, with a slash at its end or without.
///
/// A success may still have a [`Summary::shortfall`]: single files that could not be copied.
pub fn copy_tree(
    sources: &[Location],
    destination: &Location,
    options: &TreeOptions,
    config: &CopyConfig,
    cancel: &Cancel,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    lasting_tree(
        (sources, &Place::Named(destination)),
        options,
        (config, cancel),
        on_progress,
    )
}

/// [`copy_tree`] into an open directory of this machine: what is written stays in there, whatever becomes of its name meanwhile. `below`
/// is what the tree becomes in it, nothing for the directory itself; `path` is what it is called, for messages.
pub fn copy_tree_into(
    sources: &[Location],
    (dir, path, below): (BorrowedFd<'_>, &Path, &Path),
    options: &TreeOptions,
    config: &CopyConfig,
    cancel: &Cancel,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    lasting_tree(
        (sources, &Place::Open { dir, path, below }),
        options,
        (config, cancel),
        on_progress,
    )
}

/// Puts a tree of this machine into the room of a plan there.
pub(crate) fn copy_tree_into_plan(
    (source, destination): (&Location, &Location),
    into: &PlanPlace,
    options: &TreeOptions,
    (config, cancel): (&CopyConfig, &Cancel),
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    let place = &Place::Planned { destination, into };
    let sources = std::slice::from_ref(source);
    lasting_tree((sources, place), options, (config, cancel), on_progress)
}

/// Where a tree goes.
#[derive(Clone, Copy)]
enum Place<'a> {
    Named(&'a Location),
    /// Into the room of the plan of what that becomes.
    Planned {
        destination: &'a Location,
        into: &'a PlanPlace,
    },
    /// Something below a directory that is open.
    Open {
        dir: BorrowedFd<'a>,
        path: &'a Path,
        below: &'a Path,
    },
}

impl Place<'_> {
    fn location(&self) -> Location {
        match self {
            Self::Named(location)
            | Self::Planned {
                destination: location,
                ..
            } => (*location).clone(),
            Self::Open { path, below, .. } => Location::File(path.join(below)),
        }
    }

    /// As something of this machine that can be written to.
    fn target(&self, named: &Path, make_path: bool) -> Result<TreeTarget, Error> {
        let target = match self {
            Self::Named(_) if make_path => TreeTarget::local_to_make(named),
            Self::Named(_) | Self::Planned { .. } => TreeTarget::local(named),
            Self::Open { dir, path, below } => {
                let dir = dir.try_clone_to_owned();
                let dir = dir.map_err(|e| {
                    let text = format!("cannot share {}: {e}", path.display());
                    Error::new(ErrorKind::Io, text)
                })?;
                TreeTarget::opened(dir, path, below)
            }
        };
        target.map_err(|e| from_store(&e))
    }
}

fn lasting_tree(
    (sources, place): (&[Location], &Place<'_>),
    options: &TreeOptions,
    (config, cancel): (&CopyConfig, &Cancel),
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    let mut attempt = |config: &CopyConfig, on_progress: &mut dyn FnMut(&Progress)| {
        copy_tree_once((sources, place), options, (config, cancel), on_progress)
    };
    // Without resuming, files that the first connection has not reached would be gone on with, too.
    if options.dry_run || !config.resume {
        return attempt(&config.once(), on_progress);
    }
    lasting(CopyKind::Tree, (config, cancel), on_progress, &mut attempt)
}

/// With one connection.
fn copy_tree_once(
    (sources, place): (&[Location], &Place<'_>),
    options: &TreeOptions,
    (config, cancel): (&CopyConfig, &Cancel),
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    check_sources(sources)?;
    let destination = &place.location();
    let options = &TreeOptions {
        anew: !config.resume,
        reread: config.reread,
        tells_files: config.files.is_heard() || config.manifest.is_some(),
        tells_all: config.manifest.is_some(),
        sums: config.sums,
        ..options.clone()
    };
    if let Some(manifest) = &config.manifest {
        manifest.begin_round();
    }
    // Elsewhere a slash asks for a directory that is there. A mirror's destination is made if it is not.
    let mirror = options.contents.then(|| destination.without_end_slashes());
    let destination = mirror.as_ref().unwrap_or(destination);
    let mut asked = options.clone();
    let listed_here = matches!(sources.first(), Some(Location::File(_)));
    if listed_here {
        asked.files = None;
    }
    let named: Vec<_> = sources.iter().filter_map(Remote::of).collect();
    selection::check(named.iter().map(|(_, path)| path), &asked)?;
    drop(named);
    if let (Some(Location::Ssh(first)), Location::Ssh(to)) = (sources.first(), destination) {
        if options.tells_files {
            return usage("single files are told of in copies from or to this machine only");
        }
        let mut options = options.clone();
        let mut paths = Vec::new();
        for location in sources {
            match location {
                Location::Ssh(source) if source.target == first.target => {
                    options.contents |= is_contents(&source.path);
                    paths.push(source.path.clone());
                }
                other => return elsewhere(other, &sources[0]),
            }
        }
        alone(&options, paths.len())?;
        let order = Order {
            from: &first.target,
            sources: paths,
            to,
            tree: Some(options),
        };
        return copy_between(order, config, cancel, on_progress);
    }
    let (task, remote) = plan(sources, (destination, place), options)?;
    run(task, remote, config, cancel, on_progress)
}

fn usage<T>(text: impl Into<String>) -> Result<T, Error> {
    Err(Error::new(ErrorKind::Usage, text))
}

fn plan(
    sources: &[Location],
    (destination, place): (&Location, &Place<'_>),
    options: &TreeOptions,
) -> Result<(Task, Remote), Error> {
    let mut options = options.clone();
    let first = sources.first().map(|source| (source, Remote::of(source)));
    match (first, Remote::of(destination)) {
        (None, _) => usage("there is nothing to copy"),
        (Some(_), Some((remote, path))) => {
            if let Some(other) = sources.iter().find(|source| source.is_remote()) {
                return usage(format!(
                    "{other} and {destination} are both remote, which works only if ssh reaches both \
                     (HOST:path); copy to this machine first, or start the copy on one of them"
                ));
            }
            let mut task = put(sources, path, options)?;
            if let (Task::PutTree { into, .. }, Place::Planned { into: place, .. }) =
                (&mut task, place)
            {
                *into = Some((*place).clone());
            }
            Ok((task, remote))
        }
        (Some((first, Some((remote, _)))), None) => {
            let Location::File(target) = destination else {
                return usage(format!("a tree cannot go to {destination}"));
            };
            let mut paths = Vec::new();
            for location in sources {
                match Remote::of(location) {
                    Some((other, path)) if other == remote => {
                        options.contents |= is_contents(&path);
                        paths.push(path);
                    }
                    _ => return elsewhere(location, first),
                }
            }
            alone(&options, paths.len())?;
            let target = place.target(target, options.make_path)?;
            let names = paths.iter().filter_map(|path| path.as_path().file_name());
            let target = target.expecting(names.map(OsStr::to_os_string));
            options.origin = Some(origin(&format!("{remote:?}"), &paths));
            below_source(&mut options, &paths);
            let task = Task::GetTree {
                paths,
                target: Some(target),
                options,
            };
            Ok((task, remote))
        }
        (Some((source, None)), None) => usage(format!(
            "neither {source} nor {destination} is remote; write one as HOST:path or \
             howdah://HOST:PORT/path"
        )),
    }
}

/// The task of sending what is here to `path` there.
pub(crate) fn put(
    sources: &[Location],
    path: PathBytes,
    mut options: TreeOptions,
) -> Result<Task, Error> {
    let mut source = TreeSource::new();
    for location in sources {
        match location {
            Location::File(path) => {
                let added = source.add_local(path, options.contents);
                source
                    .or_missing(added, sources.len())
                    .map_err(|e| from_store(&e))?;
            }
            other => return usage(format!("{other} is not a file or directory")),
        }
    }
    if !options.recursive || options.copy_links {
        source.refuse_dangling();
    }
    source.check().map_err(|e| from_store(&e))?;
    options.contents |= source.is_contents();
    alone(&options, source.len())?;
    let real = source.places();
    let real: Vec<_> = real
        .map(|place| PathBytes::from(place.as_os_str()))
        .collect();
    options.origin = Some(origin(&this_machine(), &real));
    let named: Vec<_> = named_here(sources).chain(real).collect();
    below_source(&mut options, &named);
    Ok(Task::PutTree {
        source: Some(source),
        path,
        options,
        into: None,
    })
}

/// An error if the sources are not all on one machine, which it names.
pub fn check_sources(sources: &[Location]) -> Result<(), Error> {
    let Some(first) = sources.first() else {
        return Ok(());
    };
    let place = |location: &Location| Remote::of(location).map(|(remote, _)| remote);
    let name = |location: &Location| {
        if location.is_remote() {
            format!("{location} is on another machine")
        } else {
            format!("{location} is on this machine")
        }
    };
    let at = place(first);
    let Some(other) = sources.iter().find(|other| place(other) != at) else {
        return Ok(());
    };
    if first.is_remote() && other.is_remote() {
        return elsewhere(other, first);
    }
    usage(format!(
        "the sources are in two places: {}, {}; copy from one machine at a time",
        name(first),
        name(other)
    ))
}

fn elsewhere<T>(location: &Location, first: &Location) -> Result<T, Error> {
    usage(format!(
        "{location} is not on the same machine as {first}; copy from one machine at a time"
    ))
}

/// The whole paths of what is named here.
fn named_here(sources: &[Location]) -> impl Iterator<Item = PathBytes> + '_ {
    sources.iter().filter_map(|source| match source {
        Location::File(path) => {
            let path = std::path::absolute(path).ok()?;
            Some(PathBytes::from(path.as_os_str()))
        }
        _ => None,
    })
}

/// Patterns that name something below the source by its whole path mean it.
fn below_source(options: &mut TreeOptions, sources: &[PathBytes]) {
    let below = |pattern: &str| {
        if !pattern.starts_with('/') {
            return None;
        }
        sources.iter().find_map(|source| {
            let source = source.as_path();
            let top = if options.contents {
                Some(source)
            } else {
                source.parent()
            };
            let top = top?.to_str()?.trim_end_matches('/');
            let below = pattern.strip_prefix(top).filter(|_| !top.is_empty())?;
            below.starts_with('/').then(|| below.to_owned())
        })
    };
    if options
        .rules
        .iter()
        .all(|rule| below(rule.pattern).is_none())
    {
        return;
    }
    let mut rules = RuleList::default();
    for rule in options.rules.iter() {
        let below = below(rule.pattern);
        let pattern = below.as_deref().unwrap_or(rule.pattern);
        rules.push(RuleRef { pattern, ..rule });
    }
    options.rules = rules;
}

/// Which source it is, for the sign of an unfinished tree: where, and what there. Slashes at the end mean nothing.
fn origin(machine: &str, paths: &[PathBytes]) -> u64 {
    let paths = paths.iter().map(|path| {
        let mut bytes = path.as_path().as_os_str().as_bytes();
        while let Some(rest) = bytes
            .strip_suffix(b"/")
            .or_else(|| bytes.strip_suffix(b"/."))
        {
            bytes = rest;
        }
        bytes
    });
    origin_of(std::iter::once(machine.as_bytes()).chain(paths))
}

/// What tells this machine from others.
fn this_machine() -> String {
    let id = std::fs::read_to_string("/etc/machine-id");
    let id = id.unwrap_or_default().trim().to_owned();
    let name = rustix::system::uname();
    format!("{id} {}", name.nodename().to_string_lossy())
}

/// Whether a path on another machine means what is in a directory, as for `cp`.
pub(crate) fn is_contents(path: &PathBytes) -> bool {
    let path = path.as_path();
    // The home directory, over ssh.
    path == Path::new("~") || naming::is_contents(path)
}

fn alone(options: &TreeOptions, sources: usize) -> Result<(), Error> {
    if options.contents && sources > 1 {
        return usage("the content of a directory ('.') can only be copied alone");
    }
    Ok(())
}
