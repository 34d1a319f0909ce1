//! What a receiver answers to a manifest, in bytes. docs/trees.md is the specification.

use crate::change::Change;
use crate::entry::bounds;
use crate::wire::{put_short, put_varint, whole};
use crate::{SessionError, refused};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What the receiver answers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Answer {
    /// So many files in a row are wanted, or not.
    Files {
        /// They are.
        wanted: bool,
        /// How many, at least one.
        count: u64,
    },
    /// A word about something at the receiver, for the one who looks on.
    Note(Change),
    /// All files have been answered.
    End,
}

/// Writes answers, equal ones together. What it writes is appended to `out`.
#[derive(Debug, Default)]
pub struct AnswerEncoder {
    run: (bool, u64),
}

impl AnswerEncoder {
    /// One more file is wanted, or not.
    pub fn file(&mut self, wanted: bool, out: &mut Vec<u8>) {
        if self.run.0 != wanted {
            self.end_run(out);
            self.run.0 = wanted;
        }
        self.run.1 += 1;
    }

    /// A word about something.
    pub fn note(&mut self, change: &Change, out: &mut Vec<u8>) {
        self.end_run(out);
        put_varint(out, change.word() << 2 | 2);
        put_short(out, Change::told_path(&change.path));
    }

    /// That was all.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        self.end_run(out);
        out.push(3);
    }

    /// Writes what has been counted and not written.
    pub fn end_run(&mut self, out: &mut Vec<u8>) {
        let (wanted, count) = self.run;
        if count > 0 {
            put_varint(out, count << 2 | u64::from(wanted));
            self.run.1 = 0;
        }
    }
}

/// Takes an answer away; `None`: more of it is needed.
///
/// # Errors
///
/// It makes no sense.
pub fn decode_answer(bytes: &mut &[u8]) -> Result<Option<Answer>, SessionError> {
    whole(bytes, |from| {
        let word = from.varint()?;
        match word & 3 {
            3 if word == 3 => Ok(Answer::End),
            2 => {
                let path = Path::new(OsStr::from_bytes(from.short(bounds::NOTE, "a note")?));
                let change = Change::from_word(word >> 2, path.to_path_buf());
                let change = change.ok_or_else(|| refused("a note that makes no sense"))?;
                Ok(Answer::Note(change))
            }
            wanted @ (0 | 1) if word >> 2 > 0 => Ok(Answer::Files {
                wanted: wanted == 1,
                count: word >> 2,
            }),
            _ => Err(refused("an answer that makes no sense").into()),
        }
    })
}

#[cfg(test)]
mod tests;
