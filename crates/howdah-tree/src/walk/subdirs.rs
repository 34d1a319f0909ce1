//! The directories in a directory on the way down, which wait until everything else in it has been told.

use super::super::names::PART_BYTES;
use super::item::Class;
use super::{Frame, Walker};
use howdah_session::names::Names;
use howdah_store::StoreError;
use std::ffi::OsStr;

/// Names that are held of all directories on the way down; the others are read again when it is their turn.
const HELD_BYTES: usize = PART_BYTES / 2;

/// Sorted.
#[derive(Debug, Default)]
pub(super) struct Subdirs {
    names: Names,
    next: usize,
    /// There are, or may be, others behind the last one.
    is_cut: bool,
}

impl Subdirs {
    /// Notes the next one, if it is held.
    pub(super) fn push(&mut self, name: &[u8], class: Class) {
        if self.names.weight() >= HELD_BYTES {
            self.is_cut = true;
        }
        if !self.is_cut {
            self.names.push_as(name, class as u8);
        }
    }

    /// Holds half as many of those that are to come.
    fn halve(&mut self) {
        let left = self.names.len() - self.next;
        let keep = left.div_ceil(2);
        self.is_cut |= keep < left;
        // The last one that was taken says where to go on.
        let from = self.next.saturating_sub(1);
        self.names.keep(from..self.next + keep);
        self.next -= from;
    }
}

/// Lets those with most names hold fewer until all together hold no more than they may.
pub(super) fn bound<T>(all: &mut [T], of: fn(&mut T) -> &mut Subdirs) {
    let weight = |one: &mut T| of(one).names.weight();
    while all.iter_mut().map(weight).sum::<usize>() > HELD_BYTES
        && let Some(most) = all.iter_mut().map(of).max_by_key(|one| one.names.weight())
        && most.names.len() > 2
    {
        most.halve();
    }
}

impl Walker<'_> {
    /// The next directory in that one, and whether a link leads to it.
    pub(super) fn next_subdir(&mut self, frame: &mut Frame) -> Option<(Vec<u8>, Class)> {
        if frame.subdirs.next >= frame.subdirs.names.len() && frame.subdirs.is_cut {
            self.read_subdirs(frame);
        }
        let subdirs = &mut frame.subdirs;
        let name = subdirs.names.get(subdirs.next)?.to_vec();
        let class = Class::of(subdirs.names.class(subdirs.next));
        subdirs.next += 1;
        Some((name, class))
    }

    fn read_subdirs(&mut self, frame: &mut Frame) {
        let held = std::mem::take(&mut frame.subdirs);
        let after = held.names.len().checked_sub(1);
        let after = after
            .and_then(|last| held.names.get(last))
            .map(<[u8]>::to_vec);
        drop(held);
        let shown = frame.dir.shown(OsStr::new(""));
        let fd = match frame.dir.open() {
            Ok(fd) => fd,
            Err(error) => {
                self.unreadable(&shown, &error);
                frame.complete = false;
                return;
            }
        };
        let part = self.read(&fd, frame, (after.as_deref(), HELD_BYTES), |class| {
            matches!(class, Class::Dir | Class::Link)
        });
        if let Some(e) = part.error.filter(|_| frame.complete) {
            self.unreadable(&shown, &StoreError::from_io(&shown, "list", e));
            frame.complete = false;
        }
        frame.subdirs.is_cut = part.next().is_some();
        frame.subdirs.names = part.names;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t34_directories_in_directories_hold_no_more_names_than_one() {
        let mut all: Vec<Subdirs> = (0..40).map(|_| Subdirs::default()).collect();
        let name = |i: usize| format!("{i:0100}").into_bytes();
        let few = HELD_BYTES / 20 / name(0).len();
        for (held, one) in all.iter_mut().enumerate() {
            for i in 0..held * few {
                one.push(&name(i), Class::Dir);
            }
            one.next = held.min(1);
        }
        assert!(!all[1].is_cut && all[39].is_cut);
        bound(&mut all, |one| one);
        let weight: usize = all.iter().map(|one| one.names.weight()).sum();
        assert!(weight <= HELD_BYTES.max(80 * 108), "{weight}");
        for one in &all[1..] {
            // What comes next is still the next one.
            assert_eq!(one.names.get(one.next), Some(&*name(1)));
        }
    }
}
