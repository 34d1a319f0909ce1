//! From records to bytes.

use super::{
    AHEAD, COMPLETE, DIR, END, FILE, GAP, HAS_HASH, HAS_LINK, HAS_OWNER, HAS_XATTRS, KEPT, LAST,
    LINK, Memory, OTHER, OWNER, PLACE, SYMLINK, TOP, UNREAD, UP, zigzag,
};
use crate::entry::{Entry, Meta};
use crate::wire::{put_short, put_varint};

/// Writes a manifest behind its version.
#[derive(Debug, Default)]
pub struct ManifestEncoder {
    memory: Memory,
}

impl ManifestEncoder {
    /// Appends a record.
    pub fn encode(&mut self, entry: &Entry, out: &mut Vec<u8>) {
        match entry {
            Entry::Dir { name, meta } => {
                self.start(DIR, meta, out);
                self.name(name, out);
                self.meta(meta, out);
            }
            Entry::Top { meta } => {
                self.start(TOP, meta, out);
                self.meta(meta, out);
            }
            Entry::Up { complete } => out.push(UP | if *complete { COMPLETE } else { 0 }),
            Entry::End { complete } => out.push(END | if *complete { COMPLETE } else { 0 }),
            Entry::File {
                name,
                size,
                meta,
                link,
                hash,
            } => {
                let mut flags = 0;
                if link.is_some() {
                    flags |= HAS_LINK;
                }
                if hash.is_some() {
                    flags |= HAS_HASH;
                }
                self.start(FILE | flags, meta, out);
                self.name(name, out);
                put_varint(out, *size);
                self.meta(meta, out);
                if let Some(link) = link {
                    put_varint(out, *link);
                }
                if let Some(hash) = hash {
                    out.extend_from_slice(hash);
                }
            }
            Entry::Symlink { name, target, meta } => {
                self.start(SYMLINK, meta, out);
                self.name(name, out);
                put_short(out, target);
                self.meta(meta, out);
            }
            Entry::Link { name, link, last } => {
                out.push(LINK | if *last { LAST } else { 0 });
                self.name(name, out);
                put_varint(out, *link);
            }
            Entry::Kept { name } => {
                out.push(KEPT);
                self.name(name, out);
            }
            Entry::Owner { group, id, name } => {
                out.push(OWNER);
                out.push(u8::from(*group));
                put_varint(out, (*id).into());
                put_short(out, name);
            }
            Entry::Other { name, what } => {
                out.push(OTHER);
                self.name(name, out);
                out.push(*what as u8);
            }
            Entry::Ahead { name } => {
                out.push(AHEAD);
                self.name(name, out);
            }
            Entry::Gap => out.push(GAP),
            Entry::Unread => out.push(UNREAD),
            Entry::Place { id } => {
                out.push(PLACE);
                for number in [id.system, id.device, id.inode] {
                    put_varint(out, number);
                }
            }
        }
    }

    fn start(&self, kind: u8, meta: &Meta, out: &mut Vec<u8>) {
        let mut first = kind;
        if meta.owner != self.memory.owner {
            first |= HAS_OWNER;
        }
        if !meta.xattrs.is_empty() {
            first |= HAS_XATTRS;
        }
        out.push(first);
    }

    /// What it has in common with the name before, and the rest.
    fn name(&mut self, name: &[u8], out: &mut Vec<u8>) {
        let before = &mut self.memory.name;
        let common = name.iter().zip(&*before).take_while(|(a, b)| a == b);
        let common = u8::try_from(common.count()).unwrap_or(u8::MAX);
        out.push(common);
        put_short(out, &name[usize::from(common)..]);
        before.clear();
        before.extend_from_slice(name);
    }

    fn meta(&mut self, meta: &Meta, out: &mut Vec<u8>) {
        put_varint(out, meta.mode.into());
        put_varint(out, zigzag(meta.mtime.secs.wrapping_sub(self.memory.secs)));
        put_varint(out, meta.mtime.nanos.into());
        self.memory.secs = meta.mtime.secs;
        if meta.owner != self.memory.owner {
            // 0 takes the owner away.
            let (user, group) = meta.owner.unwrap_or_default();
            put_varint(out, meta.owner.map_or(0, |_| u64::from(user) + 1));
            put_varint(out, group.into());
            self.memory.owner = meta.owner;
        }
        if !meta.xattrs.is_empty() {
            put_varint(out, meta.xattrs.len() as u64);
            for (name, value) in &meta.xattrs {
                put_short(out, name);
                put_short(out, value);
            }
        }
    }
}
