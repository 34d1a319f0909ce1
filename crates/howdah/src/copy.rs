//! One copy between two locations.

use crate::connect::{Remote, run};
use crate::reconnect::{CopyKind, lasting};
use crate::ssh::{Order, copy_between};
use crate::task::Task;
use crate::{Cancel, CopyConfig, Error, ErrorKind, Location, Progress, Summary};

/// Copies `source` to `destination`; one of them must be remote, and both may be machines that ssh
/// reaches: then the data flows from one to the other directly.
///
/// If the host has several addresses, they are tried one after the other until one answers.
/// `on_progress` is called about ten times a second on the calling thread.
pub fn copy(
    source: &Location,
    destination: &Location,
    config: &CopyConfig,
    cancel: &Cancel,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    if !can_go_on(source) || !can_go_on(destination) {
        return copy_once(source, destination, (&config.once(), cancel), on_progress);
    }
    let mut attempt = |config: &CopyConfig, on_progress: &mut dyn FnMut(&Progress)| {
        copy_once(source, destination, (config, cancel), on_progress)
    };
    lasting(CopyKind::File, (config, cancel), on_progress, &mut attempt)
}

/// Whether a second connection could go on where the first one ended.
fn can_go_on(place: &Location) -> bool {
    let path = match place {
        Location::File(_) => return true,
        Location::Stdio | Location::Zero(_) | Location::Null => return false,
        Location::Remote { path, .. } => path,
        Location::Ssh(place) => &place.path,
    };
    let made_up = Location::try_from(path.as_path().as_os_str());
    !matches!(made_up, Ok(Location::Zero(_) | Location::Null))
}

/// With one connection.
fn copy_once(
    source: &Location,
    destination: &Location,
    (config, cancel): (&CopyConfig, &Cancel),
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    if let (Location::Ssh(from), Location::Ssh(to)) = (source, destination) {
        let order = Order {
            from: &from.target,
            sources: vec![from.path.clone()],
            to,
            tree: None,
        };
        return copy_between(order, config, cancel, on_progress);
    }
    let (task, remote) = plan(source, destination)?;
    run(task, remote, config, cancel, on_progress)
}

/// Which side is remote, and whether the other one makes sense there.
fn plan(source: &Location, destination: &Location) -> Result<(Task, Remote), Error> {
    let usage = |text: String| Err(Error::new(ErrorKind::Usage, text));
    match (source, destination) {
        (Location::Null, _) => usage("null: cannot be read; use zero:SIZE as source".to_owned()),
        (_, Location::Zero(_)) => {
            usage("zero: cannot be written; use null: as destination".to_owned())
        }
        (source, destination) => match (Remote::of(source), Remote::of(destination)) {
            (Some(_), Some(_)) => usage(
                "both sides are remote, which works only if ssh reaches both (HOST:path); copy to this machine \
                 first, or start the copy on one of them"
                    .to_owned(),
            ),
            (None, Some((there, path))) => {
                let source = source.clone();
                Ok((Task::Put { source, path }, there))
            }
            (Some((there, path)), None) => {
                let destination = destination.clone();
                Ok((Task::Get { path, destination }, there))
            }
            (None, None) => usage(format!(
                "neither {source} nor {destination} is remote; write one as HOST:path or \
                 howdah://HOST:PORT/path"
            )),
        },
    }
}
