//! What a sender has sent, until the receiver says that it is in place.

use super::bounds::UNSETTLED;
use super::placed::PlacedFile;
use super::source_dir::SourceDir;
use howdah_session::unconfirmed::{Noted, Unconfirmed};
use howdah_store::identity::Identity;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// A file or link of the source that is to go.
#[derive(Debug)]
pub(crate) struct Leaver {
    pub(crate) dir: Arc<SourceDir>,
    pub(crate) name: OsString,
    /// What was read, or told.
    pub(crate) version: Identity,
    /// Somebody named it, not a directory that it lies in. It goes last: a copy that loses its connection looks
    /// for it again.
    pub(crate) is_top: bool,
}

/// A file or link of which the receiver is to say that it is in place.
#[derive(Debug)]
pub(crate) struct Sent {
    /// In the copy; none: nobody is told.
    pub(crate) path: Option<PathBuf>,
    pub(crate) bytes: u64,
    /// Of its content, as it was sent.
    pub(crate) hash: Option<[u8; 32]>,
    /// It goes then.
    pub(crate) leaver: Option<Leaver>,
}

/// What a sender has sent and nobody has said to be in place.
#[derive(Debug)]
pub(crate) struct SentFiles {
    waiting: Unconfirmed<Sent>,
    placed: Vec<PlacedFile>,
    leaving: Vec<Leaver>,
    /// Sources of which nobody will hear: too many were under way.
    forgotten: u64,
}

impl Default for SentFiles {
    fn default() -> Self {
        /// More than can be under way.
        const MOST: usize = 2 * UNSETTLED as usize;
        Self {
            waiting: Unconfirmed::new(MOST),
            placed: Vec::new(),
            leaving: Vec::new(),
            forgotten: 0,
        }
    }
}

impl SentFiles {
    pub(crate) fn put(&mut self, index: u64, sent: Sent) {
        match self.waiting.put(index, sent) {
            Noted::Waits => {}
            Noted::IsPlaced(sent) => self.place(index, sent),
            Noted::Forgets(sent) => self.forgotten += u64::from(sent.leaver.is_some()),
        }
    }

    /// Files before that one have been answered.
    pub(crate) fn set_answered(&mut self, answered: u64) {
        self.waiting.set_answered(answered);
    }

    /// Files and links that would go and of which nobody has said that they are in place.
    pub(crate) fn staying(&self) -> u64 {
        let waiting = self.waiting.waiting();
        self.forgotten + waiting.filter(|sent| sent.leaver.is_some()).count() as u64
    }

    /// These are in place. Whatever else the receiver names is nothing.
    pub(crate) fn are_placed(&mut self, first: u64, count: u64) {
        for (index, sent) in self.waiting.are_placed(first, count) {
            self.place(index, sent);
        }
    }

    fn place(&mut self, index: u64, sent: Sent) {
        let Sent {
            path,
            bytes,
            hash,
            leaver,
        } = sent;
        if let Some(path) = path {
            self.placed.push(PlacedFile {
                index,
                path,
                bytes,
                hash,
                kept: false,
            });
        }
        self.leaving.extend(leaver);
    }

    /// The receiver has it already, or gives it as a further name to one that it has.
    pub(crate) fn keep(&mut self, path: PathBuf) {
        self.placed.push(PlacedFile {
            index: 0,
            path,
            bytes: 0,
            hash: None,
            kept: true,
        });
    }

    pub(crate) fn take(&mut self) -> Vec<PlacedFile> {
        std::mem::take(&mut self.placed)
    }

    pub(crate) fn take_leaving(&mut self) -> Vec<Leaver> {
        std::mem::take(&mut self.leaving)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_told_once_and_what_was_not_never() {
        let mut sent = SentFiles::default();
        for index in [3, 4, 5, 9] {
            let file = Sent {
                path: Some(PathBuf::from(format!("f{index}"))),
                bytes: index * 10,
                hash: None,
                leaver: None,
            };
            sent.put(index, file);
        }
        sent.are_placed(4, 3);
        sent.are_placed(0, 2);
        sent.are_placed(9, u64::MAX);
        let told = |sent: &mut SentFiles| {
            let files = sent.take().into_iter();
            files
                .map(|file| (file.index, file.bytes))
                .collect::<Vec<_>>()
        };
        assert_eq!(told(&mut sent), [(4, 40), (5, 50), (9, 90)]);
        sent.are_placed(0, u64::MAX);
        assert_eq!(told(&mut sent), [(3, 30)]);
        sent.are_placed(0, u64::MAX);
        assert!(told(&mut sent).is_empty());
    }
}
