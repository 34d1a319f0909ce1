//! What is at a place: one side's manifest, told as it comes. No content is asked for.

use super::cursor::Cursor;
use super::{ComparisonState, EntryKind, OwnerSeen};
use crate::codec::{expect_version, refused};
use crate::pipe::{PipeReader, PipeWriter};
use crate::send::{PACK_END, SenderEnds};
use crate::workers::{self, FirstError, Workers};
use howdah_session::entry::{Entry, Meta};
use howdah_store::StoreError;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Names that nobody has taken yet.
const NAMES: usize = 4096;

/// A name that is there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listed {
    /// Below the place; empty for a directory that is the place itself.
    pub path: PathBuf,
    /// `None`: it cannot be read.
    pub kind: Option<EntryKind>,
    /// Bytes of a file.
    pub size: u64,
    /// The lower twelve bits of its mode, where that is known.
    pub mode: Option<u32>,
    /// When it was modified, in seconds since 1970.
    pub modified: Option<i64>,
    /// And nanoseconds.
    pub modified_ns: u32,
    /// Whose it is, if that was [asked for](howdah_session::TreeOptions::archive).
    pub owner: Option<OwnerSeen>,
    /// What a symbolic link points to.
    pub target: Option<Vec<u8>>,
}

/// What comes next.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Listing {
    /// A name. What is in a directory follows until it is [left](Self::Left).
    Name(Box<Listed>),
    /// A directory, where it stands among the other names; it will be named once more behind them.
    Ahead(PathBuf),
    /// The directory that was named last and has not been left yet has been told.
    Left,
    /// Nothing within the time.
    Nothing,
    /// That was all, or it has failed.
    End,
}

/// A listing under way. Dropping it ends it.
#[derive(Debug)]
pub struct TreeListing {
    shared: Arc<Shared>,
    names: Receiver<Listing>,
}

#[derive(Debug, Default)]
struct Shared {
    state: ComparisonState,
    error: FirstError,
}

impl Workers for Shared {
    fn fail(&self, error: StoreError) {
        self.error.note(error);
    }
}

impl TreeListing {
    /// Starts to read what a [`TreeDescriber`](crate::TreeDescriber) says.
    pub fn start(ends: SenderEnds) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared::default());
        let (out, names) = sync_channel(NAMES);
        workers::start(&shared, "howdah-list", move |shared| {
            let SenderEnds {
                manifest,
                packs,
                answers,
            } = ends;
            run(&shared.state, (manifest, answers), packs, &out)
        })?;
        Ok(Self { shared, names })
    }

    /// What comes next, after a wait of at most `patience`.
    pub fn next(&self, patience: Duration) -> Listing {
        match self.names.recv_timeout(patience) {
            Ok(next) => next,
            Err(RecvTimeoutError::Timeout) => Listing::Nothing,
            Err(RecvTimeoutError::Disconnected) => Listing::End,
        }
    }

    /// What ended it early.
    pub fn error(&self) -> Option<StoreError> {
        self.shared.error.get()
    }

    /// For whoever carries its streams.
    pub fn state(&self) -> ComparisonState {
        self.shared.state.clone()
    }
}

fn run(
    state: &ComparisonState,
    talk: (PipeReader, PipeWriter),
    mut packs: PipeReader,
    out: &SyncSender<Listing>,
) -> Result<(), StoreError> {
    expect_version(&mut packs)?;
    let mut cursor = Cursor::new(talk)?;
    let mut at = PathBuf::new();
    let tell = |what| out.send(what).map_err(|_| StoreError::Aborted);
    loop {
        if cursor.would_wait() {
            cursor.flush()?;
        }
        cursor.fill(state)?;
        let Some(entry) = cursor.take() else { continue };
        let kind = EntryKind::of(&entry);
        let listed = |path: PathBuf, size, meta: Option<&Meta>| Listed {
            path,
            kind,
            size,
            mode: meta.map(|meta| meta.mode),
            modified: meta.map(|meta| meta.mtime.secs),
            modified_ns: meta.map_or(0, |meta| meta.mtime.nanos),
            owner: meta
                .and_then(|meta| meta.owner)
                .map(|owner| cursor.owner(owner)),
            target: None,
        };
        let next = match entry {
            Entry::Top { meta } => listed(PathBuf::new(), 0, Some(&meta)),
            Entry::Dir { name, meta } => {
                at.push(OsStr::from_bytes(&name));
                listed(at.clone(), 0, Some(&meta))
            }
            Entry::Up { .. } => {
                if !at.pop() {
                    return Err(refused("it leaves the top directory"));
                }
                tell(Listing::Left)?;
                continue;
            }
            Entry::File {
                name, size, meta, ..
            } => {
                let listed = listed(below(&at, &name), size, Some(&meta));
                cursor.answer(false)?;
                listed
            }
            Entry::Symlink { name, target, meta } => Listed {
                target: Some(target),
                ..listed(below(&at, &name), 0, Some(&meta))
            },
            Entry::Other { name, .. } => listed(below(&at, &name), 0, None),
            Entry::Ahead { name } => {
                tell(Listing::Ahead(below(&at, &name)))?;
                continue;
            }
            Entry::Gap => continue,
            Entry::End { .. } => break,
            _ => return Err(refused("a record in the wrong place")),
        };
        tell(Listing::Name(Box::new(next)))?;
    }
    cursor.end()?;
    match packs.byte() {
        Ok(PACK_END) => {}
        Ok(_) => return Err(refused("hashes that nobody asked for")),
        Err(_) => return Err(StoreError::Aborted),
    }
    // While the streams are open: whoever feeds them must not take their end for a failure.
    state.finish();
    Ok(())
}

fn below(at: &Path, name: &[u8]) -> PathBuf {
    at.join(OsStr::from_bytes(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TreeDescriber, TreeSubject};
    use howdah_session::TreeOptions;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Everything that is told of a place, a word each.
    fn told(path: &Path, options: &TreeOptions) -> Vec<String> {
        let subject = TreeSubject::local(path).unwrap();
        let (_describer, ends) = TreeDescriber::start(subject, options, Arc::new(|| {})).unwrap();
        let listing = TreeListing::start(ends).unwrap();
        let mut all = Vec::new();
        loop {
            match listing.next(Duration::from_mins(1)) {
                Listing::Name(listed) => {
                    all.push(format!("{} {}", listed.path.display(), listed.size));
                }
                Listing::Ahead(path) => all.push(format!("{}/", path.display())),
                Listing::Left => all.push("..".to_owned()),
                Listing::Nothing => panic!("it says nothing: {all:?}"),
                Listing::End => break,
            }
        }
        assert!(listing.error().is_none() && listing.state().is_done());
        all
    }

    #[test]
    fn a_place_is_told_in_order_and_as_deep_as_asked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("top");
        fs::create_dir_all(path.join("b/deep")).unwrap();
        fs::write(path.join("a"), "12").unwrap();
        fs::write(path.join("c"), "123").unwrap();
        fs::write(path.join("b/deep/x"), "1").unwrap();
        symlink("a", path.join("link")).unwrap();
        let all = told(&path, &TreeOptions::default());
        let names = [
            "a 2",
            "b/",
            "c 3",
            "link 0",
            "b 0",
            "b/deep/",
            "b/deep 0",
            "b/deep/x 1",
        ];
        assert_eq!(all, [&[" 0"], &names[..], &["..", ".."]].concat());
        let one = TreeOptions {
            levels: Some(1),
            ..TreeOptions::default()
        };
        assert_eq!(
            told(&path, &one),
            [" 0", "a 2", "b/", "c 3", "link 0", "b 0", ".."]
        );
        assert_eq!(told(&path.join("c"), &one), ["c 3"]);
    }
}
