//! One side's manifest and the answers to it.

use super::ComparisonState;
use super::difference::OwnerSeen;
use crate::codec::{AnswerWriter, ManifestReader, refused};
use crate::meta;
use crate::pipe::{PipeReader, PipeWriter};
use howdah_session::entry::{Entry, Meta, Xattrs, bounds};
use howdah_store::StoreError;
use howdah_store::rights::{self, AclEntry, Tag};
use std::collections::HashMap;

pub(super) struct Cursor {
    manifest: ManifestReader,
    answers: AnswerWriter,
    next: Option<Entry>,
    users: HashMap<u32, Vec<u8>>,
    groups: HashMap<u32, Vec<u8>>,
    /// By link number: the first file with it that is on both sides.
    twins: HashMap<u64, u64>,
}

impl Cursor {
    pub(super) fn new((manifest, answers): (PipeReader, PipeWriter)) -> Result<Self, StoreError> {
        Ok(Self {
            manifest: ManifestReader::new(manifest),
            answers: AnswerWriter::new(answers).map_err(|_| StoreError::Aborted)?,
            next: None,
            users: HashMap::new(),
            groups: HashMap::new(),
            twins: HashMap::new(),
        })
    }

    /// Whether [`fill`](Self::fill) may have to wait.
    pub(super) fn would_wait(&mut self) -> bool {
        self.next.is_none() && !self.manifest.is_ready()
    }

    /// Reads the next entry unless it is there.
    pub(super) fn fill(&mut self, state: &ComparisonState) -> Result<(), StoreError> {
        while self.next.is_none() {
            let entry = self.manifest.next()?;
            state.note_move();
            match entry {
                Entry::Owner { group, id, name } => {
                    let names = if group {
                        &mut self.groups
                    } else {
                        &mut self.users
                    };
                    if names.len() < bounds::OWNERS {
                        names.insert(id, name);
                    }
                }
                Entry::Link { .. } | Entry::Kept { .. } => {
                    return Err(refused("it has a record that only copies have"));
                }
                entry => self.next = Some(entry),
            }
        }
        Ok(())
    }

    /// What [`fill`](Self::fill) has read.
    pub(super) fn peek(&self) -> Option<&Entry> {
        self.next.as_ref()
    }

    pub(super) fn take(&mut self) -> Option<Entry> {
        self.next.take()
    }

    /// Whether the last file that was taken is to be hashed.
    pub(super) fn answer(&mut self, wanted: bool) -> Result<(), StoreError> {
        self.answers.file(wanted).map_err(|_| StoreError::Aborted)
    }

    pub(super) fn flush(&mut self) -> Result<(), StoreError> {
        self.answers.flush().map_err(|_| StoreError::Aborted)
    }

    pub(super) fn end(&mut self) -> Result<(), StoreError> {
        self.answers.end().map_err(|_| StoreError::Aborted)
    }

    pub(super) fn owner(&self, (user, group): (u32, u32)) -> OwnerSeen {
        OwnerSeen {
            user: (user, self.users.get(&user).cloned()),
            group: (group, self.groups.get(&group).cloned()),
        }
    }

    /// Extended attributes, with the people in ACLs by what they are called on this side, if they are.
    pub(super) fn attributes(&self, meta: &Meta) -> Xattrs {
        let called = |(name, value): &(Vec<u8>, Vec<u8>)| {
            let known = meta::is_acl(name).then(|| rights::entries(value)).flatten();
            let Some(entries) = known else {
                return (name.clone(), value.clone());
            };
            let mut people: Vec<String> = entries
                .into_iter()
                .map(|AclEntry { tag, perm, id }| {
                    let called = match tag {
                        Tag::User => self.users.get(&id),
                        Tag::Group => self.groups.get(&id),
                        _ => return format!("{tag:?} {perm}"),
                    };
                    let called = called
                        .map_or_else(|| id.to_string(), |name| name.escape_ascii().to_string());
                    format!("{tag:?} {called} {perm}")
                })
                .collect();
            people.sort();
            (name.clone(), people.join(", ").into_bytes())
        };
        meta.xattrs.iter().map(called).collect()
    }

    /// Which file that one, number `index` of those on both sides, is a further name of; itself if of none.
    pub(super) fn twin(&mut self, link: Option<u64>, index: u64) -> u64 {
        link.map_or(index, |link| *self.twins.entry(link).or_insert(index))
    }
}
