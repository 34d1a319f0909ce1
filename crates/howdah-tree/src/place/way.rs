//! What is of another kind than what comes, and has its name.

use super::super::backup::{self, Keep};
use super::super::delete::{Act, Depth};
use super::super::ignored::{Rules, Told, Version};
use super::super::ignores;
use super::super::links::LinkLater;
use super::super::names::{kind, read_names};
use super::super::open::open_below;
use super::super::report::{Trouble, add};
use super::super::target::{DirState, TargetDir};
use super::Placer;
use howdah_session::Reasons;
use howdah_session::deletion::{TooMany, may_delete_so_many};
use howdah_session::naming::quoted;
use howdah_store::calls::retry;
use howdah_store::plain::irregular;
use howdah_store::unwritable;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

impl Placer<'_> {
    /// Takes out of the way what `stat` says to be there, in a mirror: into the backup directory if there is one. A
    /// directory goes with what is in it where the mirror deletes, else only an empty one. Why it stays,
    /// if it does. A dry run touches nothing.
    pub(super) fn clear(
        &self,
        fd: &OwnedFd,
        dir: &TargetDir,
        name: &OsStr,
        stat: &Stat,
        rules: Option<&Arc<Told>>,
    ) -> Result<(), String> {
        let shared = self.shared;
        let is_dir = kind(stat) == FileType::Directory;
        let is = irregular(kind(stat)).unwrap_or("a file");
        if !shared.options.mirror || shared.options.ignore_existing {
            return Err(format!("is {is} there and was left alone"));
        }
        if shared.add_only {
            return Err(format!(
                "is {is} there, and this key may only add what is not there"
            ));
        }
        let path = self.below_top(dir, name);
        if is_dir {
            return self.clear_dir(fd, dir, name, stat, rules);
        }
        let counted = self.may_go(1);
        counted.map_err(|why| format!("is {is} there, with which {why}"))?;
        if shared.options.dry_run {
            return unwritable::lets_go(fd, name, true).map_err(|e| {
                let why = unwritable::from_changing(fd, &path, "remove", e);
                format!("is {is} there, which cannot be replaced: {why}")
            });
        }
        if shared.options.backup_dir.is_some() {
            let kept = shared.back_up(fd, name, &path, Keep::Move);
            return kept.map(drop).map_err(|e| {
                let why = backup::failure(fd, &path, e);
                format!("is {is} there, which cannot be kept: {why}")
            });
        }
        retry(|| rustix::fs::unlinkat(fd, name, AtFlags::empty())).map_err(|e| {
            let why = unwritable::from_changing(fd, &path, "remove", e);
            format!("is {is} there, which cannot be replaced: {why}")
        })
    }

    /// [Clears](Self::clear) what a link could not take the place of.
    pub(super) fn make_way(
        &self,
        fd: &OwnedFd,
        dir: &TargetDir,
        name: &OsStr,
        rules: Option<&Arc<Told>>,
    ) -> Result<(), String> {
        match rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if !matches!(kind(&stat), FileType::RegularFile | FileType::Symlink) => {
                self.clear(fd, dir, name, &stat, rules)
            }
            // Whoever makes the link says what else is wrong.
            _ => Ok(()),
        }
    }

    /// The same for a further name; what stays is told of by whoever makes it.
    pub(super) fn make_way_for(&self, later: &LinkLater) -> bool {
        let rules = later.rules.as_ref();
        if matches!(later.dir.state, DirState::There | DirState::Fresh)
            && let Ok(fd) = self.shared.root.open_dir(&later.dir.path)
            && let Err(why) = self.make_way(&fd, &later.dir, &later.name, rules)
        {
            let path = later.dir.named().join(&later.name);
            self.shared.book.trouble(Trouble::Failed, &path, why);
            return false;
        }
        true
    }

    fn clear_dir(
        &self,
        fd: &OwnedFd,
        dir: &TargetDir,
        name: &OsStr,
        stat: &Stat,
        rules: Option<&Arc<Told>>,
    ) -> Result<(), String> {
        const STAYS: &str = "is a directory there, which";
        let shared = self.shared;
        let path = &*self.below_top(dir, name);
        let options = &shared.options;
        if !options.delete {
            if options.dry_run {
                let below = open_below(fd, name);
                let is_empty = below.and_then(|below| {
                    let mut names = 0;
                    read_names(&below, |_, _| names += 1)?;
                    Ok(names == 0)
                });
                return match is_empty {
                    Ok(true) => unwritable::lets_go(fd, name, true).map_err(|e| {
                        let why = unwritable::from_changing(fd, path, "remove", e);
                        format!("{STAYS} cannot be removed: {why}")
                    }),
                    Ok(false) => Err(format!("{STAYS} is not empty; --delete lets it go")),
                    Err(e) => Err(format!("{STAYS} cannot be looked into: {e}")),
                };
            }
            let gone = retry(|| rustix::fs::unlinkat(fd, name, AtFlags::REMOVEDIR));
            let gone = gone.and_then(|()| shared.back_up_dir(path, stat));
            return gone.map_err(|e| match e {
                Errno::NOTEMPTY | Errno::EXIST => {
                    format!("{STAYS} is not empty; --delete lets it go")
                }
                e => format!("{STAYS} cannot be removed: {e}"),
            });
        }
        let stays = || format!("{STAYS} could not be removed in whole");
        let deleter = self.deleter();
        let rules = self.rules_for(fd, dir, name, rules);
        let rules = Rules::default().of(shared, rules.as_ref());
        let rules = rules.map_err(|unknown| {
            let file = quoted(&unknown.file);
            let again = if unknown.is_kept {
                "it is not copied"
            } else {
                "it has not come yet; the same command again knows"
            };
            format!("{STAYS} may hold names that {file} leaves out: {again}")
        })?;
        let depth = Depth::top(rules.as_deref());
        let mut count = 0;
        let all = deleter.one(fd, name, path, Act::Count, depth, &mut |_| count += 1);
        if !all {
            return Err(format!(
                "{STAYS} holds names that are to stay: they are excluded, in use or on another file system"
            ));
        }
        let counted = self.may_go(count);
        counted.map_err(|why| format!("is a directory there, with which {why}"))?;
        add(&shared.book.deleted, count);
        if options.dry_run {
            // The directory itself is told of by what takes its place.
            let all = deleter.one(fd, name, path, Act::Tell, depth, &mut |gone| {
                if gone != path {
                    // An error here comes again with the next answer.
                    let gone = gone.to_path_buf();
                    let _ = self.tell_below(howdah_session::Act::Delete, Reasons::KIND, gone);
                }
            });
            return all.then_some(()).ok_or_else(stays);
        }
        let all = deleter.one(fd, name, path, Act::Delete, depth, &mut |_| {});
        all.then_some(()).ok_or_else(stays)
    }

    /// What may leave out names in a directory that is to give way.
    fn rules_for(
        &self,
        fd: &OwnedFd,
        dir: &TargetDir,
        name: &OsStr,
        told: Option<&Arc<Told>>,
    ) -> Option<Arc<Told>> {
        let beside = OsStr::new(ignores::NAME);
        let is_told = !self.shared.options.gitignore || name > beside;
        if is_told || rustix::fs::statat(fd, beside, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            return told.cloned();
        }
        // Names come in their order: the source has not told of its own yet.
        Some(Arc::new(Told {
            above: told.cloned(),
            path: dir.path.clone(),
            below: self.shared.below_top(dir.named()),
            version: Version::Any,
        }))
    }

    /// Counts names that are to go. Why none of them may, if it would be too many.
    pub(super) fn may_go(&self, count: u64) -> Result<(), String> {
        let shared = self.shared;
        let gone = self.cleared.get();
        if let Err(TooMany { count, max }) = may_delete_so_many(&shared.options, gone, count) {
            add(&shared.book.refused_deletes, count);
            let names = if count == 1 { "name" } else { "names" };
            let why = format!("{count} {names} would go, more than the {max} that may");
            return Err(match gone {
                0 => why,
                gone => format!("{why}, with the {gone} that gave way to what is of another kind"),
            });
        }
        self.cleared.set(gone.saturating_add(count));
        Ok(())
    }

    /// Where a name in that directory lies below the top of the copy.
    pub(super) fn below_top(&self, dir: &TargetDir, name: &OsStr) -> PathBuf {
        self.shared.below_top(&dir.named().join(name))
    }
}
