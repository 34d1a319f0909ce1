//! `howdah finish` of a tree: a lease after the other, so that no more than one is in memory.

use super::beneath::{self, Dir};
use super::finish::go_on;
use super::room::{self, MARK, Room, led_elsewhere};
use super::run::{hash_of, mark};
use super::{failed, numbers, path_of, shape};
use crate::args::FinishArgs;
use crate::exit::{self, Passed};
use crate::ui;
use howdah::lease::{no_directory, not_finished};
use howdah::{Cancel, Error, ErrorKind};
use howdah_lease::{Cover, Covered, Found, Mark, Name, TreePlan, Value, is_same_moment, sum_line};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Files that are named which could not be had.
const NAMED: u64 = 20;

/// What is known of a tree before it gets its name.
#[derive(Deserialize, Serialize)]
struct Known {
    blake3: String,
    files: u64,
    bytes: u64,
    lacking: u64,
    inode: u64,
}

pub(super) fn run(
    args: &FinishArgs,
    plan: &TreePlan,
    room: &Room,
    cancel: &Cancel,
) -> anyhow::Result<()> {
    if args.check {
        return check(args, plan, room);
    }
    let known = match finished_before(plan, room)? {
        Some(known) => known,
        None => finish(args, plan, room, cancel)?,
    };
    // A run that had begun to clear up had done it, and what it takes may be gone.
    if room.has_plan() {
        shape::restore_top(room)?;
    }
    if !args.keep {
        room.remove();
    }
    if args.json {
        let line = json!({
            "schema": 1,
            "plan": plan.id(),
            "destination": ui::printable(plan.destination()),
            "bytes": known.bytes,
            "files": known.files,
            "lacking": known.lacking,
            "leases": plan.leases(),
            "blake3": known.blake3,
        });
        ui::print(&line.to_string())?;
    } else {
        let destination = ui::printable(plan.destination());
        ui::print(&format!("{}  {destination}", known.blake3))?;
    }
    if known.lacking > 0 {
        ui::say_error(&format!(
            "{} files of the plan are not in {}",
            known.lacking,
            ui::printable(plan.destination())
        ));
        return Err(Passed(exit::code(ErrorKind::Partial)).into());
    }
    Ok(())
}

/// What no run has brought whole.
fn check(args: &FinishArgs, plan: &TreePlan, room: &Room) -> anyhow::Result<()> {
    let (mut missing, mut moved) = (Vec::new(), Vec::new());
    for lease in 0..plan.leases() {
        let records = room.tree_records(lease)?;
        let Some(record) = records.iter().rfind(|record| record.is_complete()) else {
            // What is finished lacks nothing, whatever is cleared up of its records.
            if room.has_plan() {
                missing.push(lease);
            }
            continue;
        };
        moved.push(json!({
            "lease": lease,
            "epoch": record.epoch,
            "bytes": record.bytes,
            "seconds": record.seconds,
        }));
    }
    if args.json {
        let line = json!({
            "schema": 1,
            "plan": plan.id(),
            "destination": ui::printable(plan.destination()),
            "bytes": plan.bytes(),
            "files": plan.files(),
            "leases": plan.leases(),
            "missing": missing,
            "moved": moved,
        });
        ui::print(&line.to_string())?;
        return Ok(());
    }
    let all = plan.leases();
    let moved = all - missing.len() as u64;
    ui::say(&format!("{moved} of {all} leases are moved"));
    if !missing.is_empty() {
        ui::print(&numbers(missing))?;
    }
    Ok(())
}

/// Checks, joins, sets permissions and times, syncs, renames.
fn finish(
    args: &FinishArgs,
    plan: &TreePlan,
    room: &Room,
    cancel: &Cancel,
) -> Result<Known, Error> {
    let mut sums = args.manifest.as_deref().map(Sums::begin).transpose()?;
    let top = room.tree()?;
    let mut lost = Vec::new();
    let covered = covered((plan, room, cancel), &top, &mut sums, &mut lost)?;
    if covered.lacking > 0 && !args.partial {
        let text = format!(
            "{} files changed, vanished or could not be read since they were planned, and are not there; plan anew, or finish \
             without them: --partial",
            covered.lacking
        );
        return Err(Error::new(ErrorKind::Partial, text));
    }
    for name in lost {
        match top.remove_file(&name) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(trouble("remove", &top, &name, &e));
            }
            _ => {}
        }
    }
    shape::restore(room)?;
    room::sync_all(&top)?;
    go_on(cancel)?;
    if let Some(sums) = sums {
        sums.end()?;
    }
    let seen = top.look(Path::new(""));
    let seen = seen.map_err(|e| failed("look at", top.path(), &e))?;
    let known = Known {
        blake3: blake3::Hash::from(covered.blake3).to_hex().to_string(),
        files: covered.files,
        bytes: covered.bytes,
        lacking: covered.lacking,
        inode: seen.inode,
    };
    let text = serde_json::to_string(&known).unwrap_or_default();
    room.write(MARK, text.as_bytes())?;
    publish(room, Path::new(plan.destination()))?;
    Ok(known)
}

/// What all records say together; each file is looked at. `lost`: large files of which something is not there.
fn covered(
    (plan, room, cancel): (&TreePlan, &Room, &Cancel),
    top: &Dir,
    sums: &mut Option<Sums>,
    lost: &mut Vec<PathBuf>,
) -> Result<Covered, Error> {
    let mut cover = Cover::new(plan);
    let (mut failure, mut named) = (None, 0);
    for lease in 0..plan.leases() {
        go_on(cancel)?;
        let sheet = room.sheet(plan, lease)?;
        let records = room.tree_records(lease)?;
        let tell = |found: Found<'_>| {
            if failure.is_some() {
                return;
            }
            failure = match found {
                Found::Small {
                    member,
                    blake3,
                    marks,
                } => {
                    let expected = (member.size, member.mtime);
                    small(top, path_of(&member.name), expected, &blake3, marks)
                        .and_then(|()| put(sums, &blake3, &member.name))
                        .err()
                }
                Found::Large { name, size, blake3 } => large(top, path_of(name), size)
                    .and_then(|()| put(sums, &blake3, name))
                    .err(),
                Found::Lacking {
                    name,
                    is_large,
                    why,
                } => {
                    let path = path_of(name);
                    named += 1;
                    if named <= NAMED {
                        ui::say_marked("warning", &format!("{}: {why}", path.display()));
                    }
                    if is_large {
                        lost.push(path.to_path_buf());
                    }
                    None
                }
            };
        };
        cover
            .add(&sheet, &records, tell)
            .map_err(|why| not_finished(&why))?;
        if let Some(error) = failure {
            return Err(error);
        }
    }
    cover.end().map_err(|why| not_finished(&why))
}

fn put(sums: &mut Option<Sums>, blake3: &Value, name: &Name) -> Result<(), Error> {
    sums.as_mut().map_or(Ok(()), |sums| sums.put(blake3, name))
}

fn trouble(what: &str, top: &Dir, name: &Path, error: &io::Error) -> Error {
    let path = top.path().join(name);
    if beneath::is_no_way(error) {
        return led_elsewhere(&path);
    }
    failed(what, &path, error)
}

/// Whether that is a file that one of the runs has put there, or one that is equal to it.
fn small(
    top: &Dir,
    name: &Path,
    (size, mtime): (u64, (i64, u32)),
    blake3: &Value,
    marks: &[Mark],
) -> Result<(), Error> {
    let seen = top.look(name);
    let seen = seen.map_err(|e| trouble("look at", top, name, &e))?;
    let is_so = seen.is_file() && seen.size == size && is_same_moment(seen.mtime, mtime);
    // Not every file system gives a file the same number for all hosts, and a further name of it may have come later.
    let is_it = marks.contains(&mark(&seen));
    if is_so && (is_it || hash_of(top, name).is_ok_and(|hash| hash == *blake3)) {
        return Ok(());
    }
    Err(other(&top.path().join(name)))
}

fn large(top: &Dir, name: &Path, size: u64) -> Result<(), Error> {
    let seen = top.look(name);
    let seen = seen.map_err(|e| trouble("look at", top, name, &e))?;
    if seen.is_file() && seen.size == size {
        return Ok(());
    }
    Err(other(&top.path().join(name)))
}

fn other(path: &Path) -> Error {
    let path = path.display();
    let text = format!("{path} is not what was put there: somebody else wrote to it; plan anew");
    Error::new(ErrorKind::Integrity, text)
}

/// Gives it its name. Nothing that is there is replaced.
fn publish(room: &Room, destination: &Path) -> Result<(), Error> {
    let renamed = room
        .at()
        .rename_new(room.work_in(), room.above(), room.target());
    renamed.map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => {
            let path = destination.display();
            let text = format!("{path} is there by now; move it away and finish again");
            Error::new(ErrorKind::Refused, text)
        }
        _ => failed("give its name to", destination, &e),
    })?;
    let above = room.above();
    above.sync().map_err(|e| failed("sync", above.path(), &e))
}

/// What is known, if an earlier run has given the tree its name and ended then.
fn finished_before(plan: &TreePlan, room: &Room) -> Result<Option<Known>, Error> {
    let Some(text) = room.read(MARK)? else {
        return Ok(None);
    };
    if room.is_there() {
        return Ok(None);
    }
    let known = serde_json::from_str::<Known>(&text).ok();
    let seen = room.above().look(room.target());
    let is_it = |known: &Known| {
        seen.as_ref()
            .is_ok_and(|seen| seen.is_dir() && seen.inode == known.inode)
    };
    match known {
        Some(known) if is_it(&known) => Ok(Some(known)),
        _ => {
            let path = ui::printable(plan.destination());
            let text = format!("the plan was finished, and {path} is another directory by now");
            Err(Error::new(ErrorKind::Io, text))
        }
    }
}

/// The list of all hashes, which appears whole.
struct Sums {
    file: BufWriter<NamedTempFile>,
    path: PathBuf,
}

impl Sums {
    fn begin(path: &Path) -> Result<Self, Error> {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        if let Some(dir) = dir.filter(|dir| !dir.is_dir()) {
            return Err(no_directory(dir));
        }
        let mut builder = tempfile::Builder::new();
        let everybody = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666);
        let made = builder
            .permissions(everybody)
            .tempfile_in(dir.unwrap_or_else(|| Path::new(".")));
        let file = made.map_err(|e| failed("write the list", path, &e))?;
        Ok(Self {
            file: BufWriter::new(file),
            path: path.to_path_buf(),
        })
    }

    fn put(&mut self, blake3: &Value, name: &Name) -> Result<(), Error> {
        let written = self.file.write_all(&sum_line(blake3, name));
        written.map_err(|e| failed("write the list", &self.path, &e))
    }

    fn end(self) -> Result<(), Error> {
        let write = || -> io::Result<()> {
            let file = self
                .file
                .into_inner()
                .map_err(io::IntoInnerError::into_error)?;
            file.as_file().sync_all()?;
            let _: File = file.persist(&self.path).map_err(|e| e.error)?;
            Ok(())
        };
        let path = self.path.clone();
        write().map_err(|e| failed("write the list", &path, &e))
    }
}
