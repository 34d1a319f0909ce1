//! What is in one directory: its names, a part at a time, and what each of them is to the walk.

use super::super::ignores::Ignores;
use super::super::inside;
use super::super::names::{PART_BYTES, Part};
use super::super::report::{Trouble, add};
use super::super::source_dir::SourceDir;
use super::item::Class;
use super::subdirs::Subdirs;
use super::{Frame, Gone, PATIENCE, TOO_LONG, Walker};
use howdah_session::entry::{Entry, Other, bounds};
use howdah_session::reserved::{is_room, is_unfinished};
use howdah_store::StoreError;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

/// Bytes that a name in it may have.
fn room_below(dir: &SourceDir) -> usize {
    bounds::PATH.saturating_sub(dir.below.as_os_str().len() + 1)
}

impl Walker<'_> {
    /// Tells everything in a directory but its directories.
    pub(super) fn list(
        &mut self,
        fd: &OwnedFd,
        dir: Arc<SourceDir>,
        above: Option<Arc<Ignores>>,
    ) -> Result<Frame, Gone> {
        add(&self.book.directories, 1);
        let ignores = if self.options.gitignore {
            Ignores::of(&dir, above, self.book)
        } else {
            None
        };
        let mut frame = Frame {
            is_named: !dir.below.as_os_str().is_empty(),
            dir,
            subdirs: Subdirs::default(),
            complete: true,
            ignores,
        };
        if self.follows() {
            self.way.push(inside::number_of(fd));
        }
        let mut after: Option<Vec<u8>> = None;
        loop {
            let place = (after.as_deref(), PART_BYTES);
            let part = self.read(fd, &mut frame, place, |_| true);
            let mut is_whole = true;
            if after.is_none() && part.longest > room_below(&frame.dir) {
                (is_whole, self.complete) = (false, false);
            }
            if let Some(e) = part.error.filter(|_| frame.complete) {
                let shown = frame.dir.shown(OsStr::new(""));
                self.unreadable(&shown, &StoreError::from_io(&shown, "list", e));
                is_whole = false;
            }
            if !is_whole && self.compares {
                self.put(Entry::Gap)?;
            }
            frame.complete &= is_whole;
            self.tell_part(fd, &mut frame, &part)?;
            after = part.next();
            if after.is_none() {
                break;
            }
        }
        if self.flushed.elapsed() >= PATIENCE {
            self.flush()?;
        }
        Ok(frame)
    }

    /// Links are followed.
    fn follows(&self) -> bool {
        self.options.copy_links && !self.compares
    }

    /// The names of a directory that count here and are `wanted`, behind that one and of so many bytes.
    pub(super) fn read(
        &self,
        fd: &OwnedFd,
        frame: &mut Frame,
        (after, bytes): (Option<&[u8]>, usize),
        wanted: impl Fn(Class) -> bool,
    ) -> Part {
        let (filter, follows) = (self.filter, self.follows());
        let room = room_below(&frame.dir);
        let Frame {
            dir,
            ignores,
            is_named,
            ..
        } = frame;
        let below = |name: &[u8]| dir.below.join(OsStr::from_bytes(name));
        let mut class = |name: &[u8], kind| {
            if name.len() > room {
                return Some(Class::TooLong);
            }
            // Where the hosts of a plan meet; it goes when the plan is finished.
            if is_room(OsStr::from_bytes(name)) {
                return None;
            }
            if follows && kind == FileType::Symlink {
                return Some(Class::Link);
            }
            let is_dir = kind == FileType::Directory;
            if !filter.is_empty() && !filter.admits(&below(name), is_dir) {
                let is_named = std::mem::replace(is_named, true);
                return (!is_named).then_some(Class::Kept);
            }
            let ignore = |ignores: &Arc<Ignores>| ignores.ignore(&below(name), is_dir);
            if ignores.as_ref().is_some_and(ignore) {
                filter.pass_over(&below(name));
                return Some(Class::Kept);
            }
            if is_dir {
                return Some(Class::Dir);
            }
            // What a copy into this directory has not finished is nobody's file yet.
            (!is_unfinished(name)).then_some(Class::Other)
        };
        Part::read(fd, after, bytes, |name, kind| {
            let class = class(name, kind).filter(|class| wanted(*class));
            class.map(|class| class as u8)
        })
    }

    /// Tells everything but directories, which are noted.
    fn tell_part(&mut self, fd: &OwnedFd, frame: &mut Frame, part: &Part) -> Result<(), Gone> {
        for (name, class) in part.all() {
            let shown = || frame.dir.shown(OsStr::from_bytes(name));
            match Class::of(class) {
                Class::TooLong => self.book.trouble(Trouble::Failed, &shown(), TOO_LONG),
                Class::Kept if self.compares => {}
                Class::Kept => {
                    let name = name.to_vec();
                    self.put(Entry::Kept { name })?;
                }
                Class::Link => {
                    if let Some(link) = self.link_to(frame, name) {
                        self.tell_link(frame, name, &link)?;
                    }
                }
                class @ (Class::Dir | Class::DirLink) => {
                    frame.subdirs.push(name, class);
                    if self.compares {
                        let name = name.to_vec();
                        self.put(Entry::Ahead { name })?;
                    }
                }
                Class::Other => {
                    let name_here = OsStr::from_bytes(name);
                    match rustix::fs::statat(fd, name_here, AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(stat) => self.entry(fd, &frame.dir, name, name, &stat)?,
                        Err(Errno::NOENT) => {
                            let what = "vanished before it could be read";
                            self.book.trouble(Trouble::Changed, &shown(), what);
                        }
                        Err(e) => {
                            let shown = shown();
                            self.unreadable(&shown, &StoreError::from_io(&shown, "examine", e));
                            self.left_out(name, Other::Unread)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
