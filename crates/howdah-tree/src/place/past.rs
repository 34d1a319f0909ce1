//! Equal files in other directories of the receiver (`--link-dest`): they get a further name instead of coming again, as
//! snapshots of a tree that has hardly changed want it. Where the disk makes no such name, it may make a clone.
//!
//! What is linked is never written to: whatever changes a file makes a new one in its place, and so does what would set
//! its attributes ([`Placer::keep`]).

use super::super::commit::give_name;
use super::super::disks::SyncWay;
use super::super::kept::or_undone;
use super::super::meta;
use super::super::names::kind;
use super::super::open::open_plain_at;
use super::super::report::{Trouble, add};
use super::super::stamps::modified;
use super::super::target::{DirState, TreeTarget};
use super::super::write::create;
use super::Placer;
use super::found::{Decision, Found, Like, Of, Past, PastHere};
use howdah_session::LINK_DESTS;
use howdah_session::TreeOptions;
use howdah_session::naming::quoted;
use howdah_session::{Act, Reasons};
use howdah_store::identity::Identity;
use howdah_store::names::sync_dir;
use howdah_store::stale::temp_name;
use howdah_store::{Root, StoreError, may_be_room};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Refuses what no copy can mean, and on a server what leads out, before anything is done.
pub(in super::super) fn check(
    options: &TreeOptions,
    target: &TreeTarget,
) -> Result<(), StoreError> {
    let dirs = &options.link_dest;
    if dirs.len() > LINK_DESTS {
        let what = format!(
            "--link-dest is given {} times, and {LINK_DESTS} directories are the most",
            dirs.len()
        );
        return Err(StoreError::BadOption { what });
    }
    for dir in dirs {
        if dir.is_empty() || dir.contains('\0') {
            let what = "--link-dest names no directory".to_owned();
            return Err(StoreError::BadOption { what });
        }
        if !target.root.is_of_user() {
            let found = below(&target.at, dir)?;
            if found.iter().any(may_be_room) {
                // As what is not there: it is of one key.
                return Err(StoreError::NotFound { path: found });
            }
        }
    }
    Ok(())
}

/// Where a directory is that is seen from `base`, both below a root that nothing leads out of. An absolute path begins at
/// the root.
fn below(base: &Path, dir: &str) -> Result<PathBuf, StoreError> {
    let path = Path::new(dir);
    let mut at = if path.has_root() {
        PathBuf::new()
    } else {
        base.to_path_buf()
    };
    for part in path.components() {
        let stays = match part {
            Component::Normal(name) => {
                at.push(name);
                true
            }
            Component::ParentDir => at.pop(),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => true,
        };
        if !stays {
            return Err(StoreError::PathEscapes {
                path: path.to_path_buf(),
                reason: "a directory of --link-dest must lie below the directory that is served",
            });
        }
    }
    Ok(at)
}

/// The same for somebody who may go everywhere: seen from `base` as a shell there would see it, whether that has been
/// made already or not.
fn seen_from(base: &Path, dir: &str) -> PathBuf {
    if base.is_dir() {
        return base.join(dir);
    }
    let mut at = std::path::absolute(base).unwrap_or_else(|_| base.to_path_buf());
    for part in Path::new(dir).components() {
        match part {
            Component::ParentDir => {
                at.pop();
            }
            part => at.push(part),
        }
    }
    at
}

fn find(root: &Arc<Root>, base: &Path, dir: &str) -> Result<(Arc<Root>, PathBuf), StoreError> {
    if root.is_of_user() {
        let at = seen_from(&root.path().join(base), dir);
        return Ok((Arc::new(Root::open(at)?), PathBuf::new()));
    }
    let at = below(base, dir)?;
    root.open_dir(&at)?;
    Ok((Arc::clone(root), at))
}

impl Placer<'_> {
    /// Opens the directories, once it is known where the copy goes. One that is not there is told, and no error.
    fn open_past(&self) -> Result<Past, StoreError> {
        let shared = self.shared;
        let top = self.levels.first().map(|level| &*level.dir.path);
        // The one thing that comes may become the destination, which is not there yet.
        let base = match (&self.rename_top, self.levels.len()) {
            (Some(_), 2..) => &*shared.at,
            _ => top.unwrap_or(&shared.at),
        };
        let mut dirs = Vec::new();
        for (asked, dir) in shared.options.link_dest.iter().enumerate() {
            if !shared.root.is_of_user() {
                below(base, dir)?;
            }
            match find(&shared.root, base, dir) {
                Ok((root, at)) => dirs.push((asked, root, at)),
                Err(error) => shared.book.note(Trouble::Notice, || {
                    format!("nothing is linked from --link-dest {dir:?}: {error}")
                }),
            }
        }
        Ok(Past {
            dirs,
            base: base.to_path_buf(),
            no_clones: Vec::new(),
            told: false,
        })
    }

    /// What the directory that the manifest is in is in those, for a file that may be wanted.
    pub(super) fn past_here(
        &mut self,
        decision: &Decision,
    ) -> Result<Option<PastHere>, StoreError> {
        let shared = self.shared;
        let is_wanted = matches!(decision, Decision::Want(..) | Decision::Hash { .. });
        // In a move the source would go, whose content must be known.
        let may_link = !shared.blind && !shared.options.remove_source;
        if shared.options.link_dest.is_empty() || !may_link || !is_wanted {
            return Ok(None);
        }
        if self.past.is_none() {
            self.past = Some(self.open_past()?);
        }
        let (Some(past), Some(level)) = (&self.past, self.levels.last_mut()) else {
            return Ok(None);
        };
        let here = level.past.get_or_insert_with(|| {
            let Ok(below) = level.dir.named().strip_prefix(&past.base) else {
                return Arc::new([]);
            };
            let open = |(asked, root, at): &(usize, Arc<Root>, PathBuf)| {
                // Joined to nothing, a path would get a slash at its end.
                let here = at.iter().chain(below).collect::<PathBuf>();
                // One that is not there, or cannot be looked into, has no equal files.
                let opened = root.open_dir(&here).ok()?;
                Some((*asked, Arc::new(opened)))
            };
            past.dirs.iter().filter_map(open).collect()
        });
        Ok((!here.is_empty()).then(|| Arc::clone(here)))
    }

    /// Looks for an equal file elsewhere, if one is wanted: from that place in the list on.
    pub(super) fn seek(&mut self, found: &mut Found, first: usize) -> Result<(), StoreError> {
        let shared = self.shared;
        let (Decision::Want(before, reasons), Some(past)) = (&found.decision, found.past.clone())
        else {
            return Ok(());
        };
        let (before, reasons) = (*before, *reasons);
        // What is replaced gives its permissions to what comes where they are not made equal.
        if before.is_some() && (shared.add_only || !shared.keeper.is_exact()) {
            return Ok(());
        }
        if found.fd.is_none() && found.dir.state == DirState::Fresh {
            found.fd = self.shared_fd()?;
        }
        for (place, (asked, dir)) in past.iter().enumerate().skip(first) {
            let Some(stat) = self.is_like(dir, found) else {
                continue;
            };
            let like = Like {
                place,
                asked: *asked,
                dir: Arc::clone(dir),
                stat: Box::new(stat),
                before,
                reasons,
            };
            found.decision = match found.hash {
                None => Decision::Link(like),
                Some(expected) => Decision::Hash {
                    pending: self.hash(dir, found),
                    expected,
                    of: Of::Elsewhere(like),
                },
            };
            return Ok(());
        }
        Ok(())
    }

    /// Whether a file there is the very one that would come, as far as its attributes tell.
    fn is_like(&self, dir: &OwnedFd, found: &Found) -> Option<Stat> {
        let Found { name, meta, .. } = found;
        let (shared, keeper) = (self.shared, &self.shared.keeper);
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if kind(&stat) != FileType::RegularFile || stat.st_size as u64 != found.size {
            return None;
        }
        let same_time = || keeper.clock.is_same(dir, modified(&stat), meta.mtime);
        let is_quick = found.hash.is_none() && !shared.options.size_only;
        if is_quick && !same_time() {
            return None;
        }
        let attributes = || meta::xattrs(dir, name).map(|(found, _)| found);
        // In a dry run the directory may not be there; that one is like it.
        let place = found.fd.as_deref().unwrap_or(dir);
        keeper
            .is_as_new(place, &stat, meta, &attributes)
            .then_some(stat)
    }

    /// Gives an equal file the name, or a clone of it. Whether that is settled; otherwise it is to come.
    pub(super) fn give_like(&mut self, found: &Found, like: &Like) -> Result<bool, StoreError> {
        let shared = self.shared;
        if shared.options.dry_run {
            let fd = found.fd.as_deref();
            let is_far = fd.is_some_and(|fd| device_of(fd) != Some(device(&like.stat)));
            if is_far {
                return Ok(false);
            }
            add(&shared.book.linked, 1);
            shared.placed.keep(found.dir.named(), &found.name);
            let reasons = like.reasons.and(Reasons::LINK_DEST, true);
            self.tell(Act::Link, reasons, &found.path())?;
            return Ok(true);
        }
        let Some(to) = found.fd.as_deref() else {
            return Ok(false);
        };
        let temp = temp_name(to, &found.name);
        let (made, temp) =
            match rustix::fs::linkat(&*like.dir, &found.name, to, &temp, AtFlags::empty()) {
                // It may have become something else meanwhile.
                Ok(()) if is_still(to, &temp, like) => (true, temp),
                Ok(()) => {
                    remove(to, &temp);
                    return Ok(false);
                }
                Err(
                    e
                    @ (Errno::XDEV | Errno::PERM | Errno::MLINK | Errno::OPNOTSUPP | Errno::NOSYS),
                ) => match self.clone_like(found, like, to, e) {
                    Some(temp) => (false, temp),
                    None => return Ok(false),
                },
                // Whatever is wrong with the directory is told when the file comes.
                Err(_) => return Ok(false),
            };
        let (mut before, mut as_it_was) = (like.before, None);
        if before.is_some() && shared.options.backup_dir.is_some() {
            let kept = self.back_up(Some(to), &found.dir, &found.name);
            match kept.inspect_err(|_| remove(to, &temp))? {
                Ok(now) => (before, as_it_was) = now,
                Err(error) => {
                    remove(to, &temp);
                    shared.book.note(Trouble::Failed, || error.to_string());
                    return Ok(true);
                }
            }
        }
        let given = give_name(to, &temp, &found.name, before.as_ref());
        let given = or_undone(given, as_it_was.as_ref(), to, &found.name);
        if given.is_err() || made && before.is_some() {
            // Where the very same file has the name already, the other name stays.
            remove(to, &temp);
        }
        if given.is_err() {
            return Ok(false);
        }
        if found.dir.sync == SyncWay::Each && found.dir.meta.is_none() {
            let path = &found.dir.path;
            sync_dir(to).map_err(|e| StoreError::from_io(path, "sync the directory", e))?;
        }
        add(&shared.book.linked, 1);
        shared.placed.keep(found.dir.named(), &found.name);
        Ok(true)
    }

    /// Makes a clone of an equal file under a temporary name, with all that it is to have. It needs no sync of its own: a disk
    /// that clones has the content before, and keeps the order of clone and name.
    fn clone_like(
        &mut self,
        found: &Found,
        like: &Like,
        to: &OwnedFd,
        unlinked: Errno,
    ) -> Option<OsString> {
        let shared = self.shared;
        let pair = (device(&like.stat), device_of(to)?);
        if self.past.as_ref()?.no_clones.contains(&pair) {
            return None;
        }
        let source = open_plain_at(&*like.dir, &found.name).ok()?;
        let opened = rustix::fs::fstat(&source).ok()?;
        if Identity::new(&opened) != Identity::new(&like.stat) {
            return None;
        }
        let (temp, file) = create(to, &found.name).ok()?;
        let cloned = clone(&file, &source);
        if let Err(e) = cloned {
            remove(to, &temp);
            let is_none = matches!(
                e,
                Errno::XDEV | Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL | Errno::NOSYS
            );
            let past = self.past.as_mut().filter(|_| is_none)?;
            past.no_clones.push(pair);
            if unlinked == Errno::XDEV && !std::mem::replace(&mut past.told, true) {
                let dir = shared.options.link_dest.get(like.asked)?;
                shared.book.note(Trouble::Notice, || {
                    format!(
                        "--link-dest {dir:?} is on another disk than {}, and what is equal there can be neither linked nor cloned: it is copied",
                        quoted(&found.path())
                    )
                });
            }
            return None;
        }
        for (what, e) in shared
            .keeper
            .apply_to_file(&file, to, &found.name, &found.meta)
        {
            let what = format!("{what} not kept: {e}");
            shared.book.trouble(Trouble::NotKept, &found.path(), what);
        }
        Some(temp)
    }
}

#[cfg(target_os = "linux")]
fn clone(to: &File, from: &File) -> Result<(), Errno> {
    rustix::fs::ioctl_ficlone(to, from)
}

#[cfg(not(target_os = "linux"))]
fn clone(_: &File, _: &File) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

/// Whether that name is one of the file that was looked at, which nobody has written to.
fn is_still(dir: &OwnedFd, name: &OsStr, like: &Like) -> bool {
    let now = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    now.is_ok_and(|now| {
        let then = &like.stat;
        super::number(&now) == super::number(then)
            && now.st_size == then.st_size
            && modified(&now) == modified(then)
            && (now.st_mode, now.st_uid, now.st_gid) == (then.st_mode, then.st_uid, then.st_gid)
    })
}

fn remove(dir: &OwnedFd, name: &OsStr) {
    let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
}

fn device(stat: &Stat) -> u64 {
    super::number(stat).0
}

fn device_of(dir: &OwnedFd) -> Option<u64> {
    rustix::fs::fstat(dir).ok().map(|stat| device(&stat))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_below_a_root_never_leads_out() {
        let at = |base: &str, dir: &str| below(Path::new(base), dir).ok();
        let is = |path: &str| Some(PathBuf::from(path));
        assert_eq!(at("snap/day2", "../day1"), is("snap/day1"));
        assert_eq!(at("snap/day2", "./../day1/."), is("snap/day1"));
        assert_eq!(at("snap/day2", "/snap/day1"), is("snap/day1"));
        assert_eq!(at("day2", ".."), is(""));
        assert_eq!(at("", "old"), is("old"));
        for out in ["../../etc", "../x/../../etc", "/..", "../.."] {
            assert_eq!(at("day2", out), None, "{out}");
        }
        assert_eq!(at("", ".."), None);
    }

    /// H17: whoever compares with what lies in there learns what another key's hosts have moved.
    #[test]
    fn h18_nobody_compares_with_what_is_in_the_room_of_a_plan() {
        let dir = tempfile::tempdir().unwrap();
        let root = Arc::new(Root::open(dir.path()).unwrap());
        let target = TreeTarget::below_to_make(&root, Path::new("a/b"), true).unwrap();
        let asks_for = |dir: &str| {
            let options = TreeOptions {
                link_dest: vec![dir.to_owned()],
                ..TreeOptions::default()
            };
            check(&options, &target)
        };
        let room = ".x.0123456789abcdef.howdah-plan";
        for path in [format!("../{room}"), format!("/{room}/7"), room.to_owned()] {
            let refused = asks_for(&path);
            assert!(
                matches!(refused, Err(StoreError::NotFound { .. })),
                "{path}: {refused:?}"
            );
        }
        assert!(asks_for("../old").is_ok());
    }

    #[test]
    fn a_directory_is_seen_from_a_place_that_is_not_there_yet() {
        let dir = tempfile::tempdir().unwrap();
        let there = dir.path().join("day1");
        std::fs::create_dir(&there).unwrap();
        for base in ["day1", "day2"] {
            let seen = seen_from(&dir.path().join(base), "../day1");
            assert_eq!(
                seen.canonicalize().unwrap(),
                there.canonicalize().unwrap(),
                "{base}"
            );
        }
        assert_eq!(seen_from(dir.path(), "/x"), Path::new("/x"));
    }
}
