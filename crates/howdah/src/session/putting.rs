//! A server's place for what a client puts.

use super::plans;
use super::receiving::Place;
use crate::access::Rights;
use crate::error::from_store;
use crate::{Error, PathBytes};
use howdah_core::{RangeSet, Span, Time};
use howdah_session::Metadata;
use howdah_session::message::Message;
use howdah_session::naming::plain;
use howdah_session::resume::WireRanges;
use howdah_session::server;
use howdah_session::transfer::resumable;
use howdah_store::{RoomWait, Sink, SinkOptions, SourceIdentity, StoreError, Target, Wake};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A copy of the same source to the same place that is still under way is waited for that long:
/// longer than a lost client goes unnoticed, and than most disks stand still. Then this one begins anew beside it.
const BUSY_LIMIT: Span = Span::from_secs(30);

/// What a client puts.
#[derive(Clone, Debug)]
pub(crate) struct Put {
    pub(crate) asked: server::Put,
    /// When it was asked for.
    pub(crate) since: Time,
    /// It has ended an earlier copy, whose file is not closed yet.
    pub(crate) took_over: bool,
    /// Bytes of it that are on the account of the session.
    pub(crate) counted: u64,
    /// It is a lease of it.
    pub(crate) lease: Option<Arc<plans::Put>>,
}

impl Put {
    /// Whether both are copies of the same source to the same place.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let is_same_lease = match (&self.lease, &other.lease) {
            (None, None) => true,
            // Runs of leases are told apart by more than their places.
            (Some(lease), Some(other)) => lease.is_same(other),
            _ => false,
        };
        let (ours, theirs) = (&self.asked, &other.asked);
        ours.source.is_some()
            && is_same_lease
            && (&ours.path, &ours.name, ours.source) == (&theirs.path, &theirs.name, theirs.source)
    }

    /// What it takes in memory.
    pub(crate) fn held_bytes(&self) -> usize {
        let holes = self.asked.holes.as_ref().map_or(0, RangeSet::range_count);
        self.asked.path.as_bytes().len() + holes * RangeSet::RANGE_BYTES
    }

    /// Whether there is time left to wait for an earlier copy.
    pub(crate) fn may_wait(&self, now: Time) -> bool {
        now.since(self.since) < BUSY_LIMIT
    }

    /// A destination that takes no files is named as it was asked for: below what was opened it is only the last name.
    fn refused(&self, error: StoreError) -> Error {
        from_store(&match error {
            StoreError::NotWritable { why, .. } => StoreError::NotWritable {
                path: match self.asked.path.as_path() {
                    // What is asked for is all that is served.
                    all if all.as_os_str().is_empty() => PathBuf::from("/"),
                    path => path.to_owned(),
                },
                why,
            },
            other => other,
        })
    }

    /// Opens its place: goes on with what is there, or begins anew. The message is for the client.
    /// `None`: another copy is still there; ask again later.
    pub(crate) fn open(
        &self,
        rights: &Rights,
        now: Time,
        room: &RoomWait,
        wake: Wake,
    ) -> Result<Option<(Place, Message)>, Error> {
        let mut held = WireRanges::default();
        let (mut values, mut changed) = (false, None);
        let size = match &self.lease {
            Some(lease) => lease.bytes(),
            None => self.asked.size.unwrap_or(0),
        };
        let fits = rights.quota.check_bytes(self.asked.path.as_path(), size);
        fits.map_err(|e| from_store(&e))?;
        if let Some(lease) = &self.lease {
            let how = (self.asked.holes.clone(), room);
            let what = (&self.asked.path, self.asked.object);
            return lease.open(rights, what, how, (self.may_wait(now), wake));
        }
        rights.check_file(
            self.asked
                .name
                .as_ref()
                .map(|name| name.as_path().as_os_str()),
        )?;
        let place = if self.asked.path == *"null:" {
            rights.check_write()?;
            Place::Null { bytes: 0 }
        } else {
            let target = open_target(rights, self.asked.path.as_path(), self.asked.name.as_ref());
            let mut target = target.map_err(|error| match error {
                Ok(error) => self.refused(error),
                Err(error) => error,
            })?;
            if rights.is_adding_only() && target.is_taken() {
                return self.compare(target, wake).map(Some);
            }
            // A source that does not fit its own size is nobody's.
            let source = resumable(self.asked.source, self.asked.size, self.asked.hash);
            let same_is_busy = source
                .as_ref()
                .is_some_and(|source| target.is_being_written_from(source));
            let is_busy = same_is_busy || (self.took_over && target.is_being_written());
            if is_busy && self.may_wait(now) {
                return Ok(None);
            }
            if self.asked.resume {
                let past = target.held().map(|past| &past.source);
                changed = told_change(rights, past, source.as_ref());
            } else {
                target = target.anew();
            }
            let options = SinkOptions {
                hash: self.asked.hash,
                size: self.asked.size,
                source,
                holes: self.asked.holes.clone(),
                reread: self.asked.reread,
                mode: self.asked.mode.filter(|_| rights.sets() >= Metadata::Modes),
                room: room.clone(),
                ..SinkOptions::default()
            };
            let sink = Sink::resume(target, &options, wake).map_err(|e| self.refused(e))?;
            held = WireRanges::from(&sink.held());
            values = sink.wants_values();
            Place::Store(sink)
        };
        let ready = Message::Ready {
            object: self.asked.object,
            held,
            values,
            changed,
        };
        Ok(Some((place, ready)))
    }

    /// What is there must not be replaced: only the same is taken.
    fn compare(&self, target: Target, wake: Wake) -> Result<(Place, Message), Error> {
        let options = SinkOptions {
            hash: self.asked.hash,
            size: self.asked.size,
            holes: self.asked.holes.clone(),
            ..SinkOptions::default()
        };
        let sink = Sink::compare(target, &options, wake).map_err(|e| from_store(&e))?;
        let ready = Message::Ready {
            object: self.asked.object,
            held: WireRanges::default(),
            values: false,
            changed: None,
        };
        Ok((Place::Store(sink), ready))
    }
}

/// Why what an earlier copy has left is not gone on with. Whose it was is not known: who may not look around is not told that it is there.
fn told_change(
    rights: &Rights,
    past: Option<&SourceIdentity>,
    source: Option<&SourceIdentity>,
) -> Option<String> {
    let (past, source) = past.zip(source)?;
    past.difference(source).filter(|_| !rights.is_blind())
}

/// The place for `path`; if that is a directory, for `name` below it.
fn open_target(
    rights: &Rights,
    path: &Path,
    name: Option<&PathBytes>,
) -> Result<Target, Result<StoreError, Error>> {
    let (root, path) = rights.target(path).map_err(Err)?;
    // The peer's name is a part of the path that it gets.
    let open = |path: &Path| {
        rights.check_kept(path)?;
        Target::open(&root, path)
    };
    let is_directory = |path| {
        StoreError::NotWritable {
        path,
        why: "it is a directory, and what comes through a pipe has no name of its own; write the one that it is to get \
              behind it"
            .into(),
    }
    };
    // It may be written with slashes and dots at its end.
    let dir = if howdah_tree::is_directory(&path) {
        plain(&path)
    } else {
        path.clone()
    };
    let below = name.map(|name| dir.join(name.as_path()));
    let target = match below {
        None if path.as_os_str().is_empty() => Err(is_directory(root.path().to_owned())),
        // What comes through a pipe has no name that it could have in it.
        None if howdah_tree::is_directory(&path) => Err(is_directory(path.clone())),
        None => open(&path),
        // The peer's name is one name, whatever it holds.
        Some(below) if path.as_os_str().is_empty() => {
            open(Path::new(below.file_name().unwrap_or_default()))
        }
        Some(below) if howdah_tree::is_directory(&path) => open(&below),
        Some(below) => match open(&path) {
            Err(StoreError::TargetNotAFile {
                what: "a directory",
                ..
            }) => open(&below),
            result => result,
        },
    };
    target.map_err(Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// H3, H17: the path is a directory's, and the name what nobody may write there.
    #[test]
    fn h18_no_name_below_a_directory_is_one_that_copies_keep_for_themselves() {
        let dir = tempfile::tempdir().expect("a place");
        let room = dir.path().join("d/.x.0123456789abcdef.howdah-plan/7");
        std::fs::create_dir_all(&room).expect("made");
        let root = dir.path().to_owned();
        let open_root = move || Ok(Arc::new(howdah_store::Root::open(&root).expect("there")));
        let rights = Rights::below(open_root);
        for at in ["", ".", "d", "d/", "d/.", "d//"] {
            for name in [
                ".big.0123456789abcdef.howdah-part",
                ".big.0123456789abcdef.howdah-journal",
                ".howdah-unfinished",
            ] {
                let target = open_target(&rights, Path::new(at), Some(&name.into()));
                let refused = target.err().unwrap_or_else(|| panic!("{at:?} {name}"));
                let error = refused.expect("it is refused by name");
                assert!(error.to_string().contains("kept for unfinished"), "{error}");
            }
            let target = open_target(&rights, Path::new(at), Some(&"big".into()));
            assert!(target.is_ok(), "{at:?}");
        }
        for at in ["d", "d/", "d/."] {
            let name = ".x.0123456789abcdef.howdah-plan/7/record-1".into();
            assert!(open_target(&rights, Path::new(at), Some(&name)).is_err());
        }
    }

    #[test]
    fn h18_who_may_not_look_around_hears_nothing_of_what_others_have_left() {
        let of_size = |size| SourceIdentity {
            size,
            mtime: (1, 2),
            ctime: (3, 4),
            inode: 5,
        };
        let all = || Rights::of_user(PathBuf::from("/"));
        let told = |rights: &Rights| told_change(rights, Some(&of_size(7)), Some(&of_size(9)));
        let change = told(&all()).expect("another size");
        assert!(change.contains("had 7 bytes"), "{change}");
        let blind = all().restricted(false, true, None);
        assert!(blind.is_blind());
        assert_eq!(told(&blind), None);
        assert_eq!(told_change(&all(), None, Some(&of_size(9))), None);
    }
}
