//! The end of a plan of a tree: a lease after the other, so that no more than one is in memory.

use super::beneath::{self, Dir};
use super::room::{self, MARK, Room, led_elsewhere};
use super::run::{hash_of, mark};
use super::{failed, not_finished, path_of, shape};
use crate::{Error, ErrorKind};
use howdah_lease::{
    Cover, Covered, Found, Mark, Name, NotFinished, TreePlan, Value, is_same_moment, sum_line,
};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// What is known of a tree before it gets its name.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Known {
    /// Of the list of its files, in hexadecimal.
    pub blake3: String,
    /// How many files it has.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Files of the plan that could not be had.
    pub lacking: u64,
    inode: u64,
}

/// How far a plan is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TreeEnded {
    /// The tree has its name.
    Finished(Known),
    /// So many leases are missing, and the first of them.
    Missing(u64, u64),
    /// So many files could not be had, and it is to have its name only with all of them.
    Lacking(u64),
}

/// Who hears what a tree has while it is looked through.
pub trait Witness {
    /// A line of the list.
    ///
    /// # Errors
    ///
    /// It cannot be written down; then there is no name.
    fn sum(&mut self, line: &[u8]) -> Result<(), Error>;
    /// A file that could not be had.
    fn lacks(&mut self, name: &Path, why: &str);
    /// All is well, and the name comes next.
    ///
    /// # Errors
    ///
    /// There shall be none.
    fn ready(&mut self) -> Result<(), Error>;
}

/// Checks that the records cover the tree and agree, and that each file is the one that a record tells of; sets permissions and times, and
/// gives the tree its name, durably. `is_partial`: also without files that could not be had. What an earlier run has finished stays so.
///
/// # Errors
///
/// What is wrong; that `is_stopped`, before there is a name; the file system's.
pub fn finish_tree(
    (plan, room): (&TreePlan, &Room),
    is_partial: bool,
    witness: &mut dyn Witness,
    is_stopped: &dyn Fn() -> bool,
) -> Result<TreeEnded, Error> {
    let ended = match finished_before(plan, room)? {
        Some(known) => TreeEnded::Finished(known),
        None => alone(
            plan,
            room,
            finish(plan, room, is_partial, (witness, is_stopped)),
        )?,
    };
    // A run that had begun to clear up had done it, and what it takes may be gone.
    if matches!(ended, TreeEnded::Finished(_)) && room.has_plan() {
        let restored = shape::restore_top(room);
        // Nor does it matter to one that was through before.
        if room.has_plan() {
            restored?;
        }
    }
    Ok(ended)
}

/// What came of it, if nobody else has come to the end meanwhile: his clearing up looks like records that are missing, or like a plan that was forgotten.
fn alone(
    plan: &TreePlan,
    room: &Room,
    ended: Result<TreeEnded, Error>,
) -> Result<TreeEnded, Error> {
    let is_gone = match &ended {
        Ok(TreeEnded::Missing(..)) => true,
        Err(error) => error.kind() == ErrorKind::NotFound,
        Ok(_) => false,
    };
    if !is_gone || room.is_there() {
        return ended;
    }
    if let Ok(Some(known)) = finished_before(plan, room) {
        return Ok(TreeEnded::Finished(known));
    }
    let path = room.destination();
    let text = format!(
        "what was to become {} is not there any more: another 'howdah finish' has given it its name meanwhile, or the plan was forgotten",
        path.display()
    );
    Err(Error::new(ErrorKind::NotFound, text))
}

/// That files are lacking.
pub fn lacking(count: u64) -> Error {
    let text = format!(
        "{count} files changed, vanished or could not be read since they were planned, and are not there; plan anew, or finish \
         without them: --partial"
    );
    Error::new(ErrorKind::Partial, text)
}

/// Unless somebody has interrupted it.
fn go_on(is_stopped: &dyn Fn() -> bool) -> Result<(), Error> {
    if !is_stopped() {
        return Ok(());
    }
    let text = "interrupted; nothing has its name yet: finish again";
    Err(Error::new(ErrorKind::Cancelled, text))
}

/// Checks, joins, sets permissions and times, syncs, renames.
fn finish(
    plan: &TreePlan,
    room: &Room,
    is_partial: bool,
    (witness, is_stopped): (&mut dyn Witness, &dyn Fn() -> bool),
) -> Result<TreeEnded, Error> {
    let top = room.tree()?;
    let mut lost = Vec::new();
    let covered = covered((plan, room, is_stopped), &top, witness, &mut lost)?;
    let covered = match covered {
        Ok(covered) => covered,
        Err(NotFinished::Missing { count, first }) => {
            return Ok(TreeEnded::Missing(count, first));
        }
        Err(why) => return Err(not_finished(&why)),
    };
    if covered.lacking > 0 && !is_partial {
        return Ok(TreeEnded::Lacking(covered.lacking));
    }
    for name in lost {
        match top.remove_file(&name) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(trouble("remove", &top, &name, &e));
            }
            _ => {}
        }
    }
    let restored = shape::restore(room, is_stopped);
    go_on(is_stopped)?;
    restored?;
    room::sync_all(&top)?;
    go_on(is_stopped)?;
    witness.ready()?;
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
    publish(room)?;
    Ok(TreeEnded::Finished(known))
}

/// What all records say together; each file is looked at. `lost`: large files of which something is not there.
fn covered(
    (plan, room, is_stopped): (&TreePlan, &Room, &dyn Fn() -> bool),
    top: &Dir,
    witness: &mut dyn Witness,
    lost: &mut Vec<PathBuf>,
) -> Result<Result<Covered, NotFinished>, Error> {
    let mut cover = Cover::new(plan);
    let mut failure = None;
    for lease in 0..plan.leases() {
        go_on(is_stopped)?;
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
                    let name = path_of(&member.name);
                    small((top, is_stopped), name, expected, (&blake3, marks))
                        .and_then(|()| put(witness, &blake3, &member.name))
                        .err()
                }
                Found::Large { name, size, blake3 } => large(top, path_of(name), size)
                    .and_then(|()| put(witness, &blake3, name))
                    .err(),
                Found::Lacking {
                    name,
                    is_large,
                    why,
                } => {
                    let path = path_of(name);
                    witness.lacks(path, why);
                    if is_large {
                        lost.push(path.to_path_buf());
                    }
                    None
                }
            };
        };
        if let Err(why) = cover.add(&sheet, &records, tell) {
            return Ok(Err(why));
        }
        if let Some(error) = failure {
            return Err(error);
        }
    }
    Ok(cover.end())
}

fn put(witness: &mut dyn Witness, blake3: &Value, name: &Name) -> Result<(), Error> {
    witness.sum(&sum_line(blake3, name))
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
    (top, is_stopped): (&Dir, &dyn Fn() -> bool),
    name: &Path,
    (size, mtime): (u64, (i64, u32)),
    (blake3, marks): (&Value, &[Mark]),
) -> Result<(), Error> {
    go_on(is_stopped)?;
    let seen = top.look(name);
    let seen = seen.map_err(|e| trouble("look at", top, name, &e))?;
    let is_so = seen.is_file() && seen.size == size && is_same_moment(seen.mtime, mtime);
    // Not every file system gives a file the same number for all hosts, and a further name of it may have come later.
    let is_it = marks.contains(&mark(&seen));
    if is_so && (is_it || hash_of(top, name, is_stopped).is_ok_and(|hash| hash == *blake3)) {
        return Ok(());
    }
    go_on(is_stopped)?;
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
fn publish(room: &Room) -> Result<(), Error> {
    let renamed = room
        .at()
        .rename_new(room.work_in(), room.above(), room.target());
    renamed.map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => {
            let path = room.destination();
            let path = path.display();
            let text = format!("{path} is there by now; move it away and finish again");
            Error::new(ErrorKind::Refused, text)
        }
        _ => failed("give its name to", &room.destination(), &e),
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
            let path = plan.destination();
            let text = format!("the plan was finished, and {path} is another directory by now");
            Err(Error::new(ErrorKind::Io, text))
        }
    }
}
