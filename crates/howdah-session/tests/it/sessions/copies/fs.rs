//! A file system as a model: names, inodes with several names, and what of both a power cut takes.

use crate::sessions::disk::{Content, GARBAGE};
use howdah_session::entry::{Meta, Stamp, Xattrs};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng as _;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Data {
    Dir,
    /// As in [`disk`](crate::sessions::disk): a number for each group.
    File(Content),
    Link(String),
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Node {
    pub(crate) data: Data,
    pub(crate) mode: u32,
    pub(crate) mtime: i64,
    pub(crate) xattrs: Xattrs,
}

impl Node {
    pub(crate) fn is_dir(&self) -> bool {
        self.data == Data::Dir
    }

    pub(crate) fn content(&self) -> Option<&Content> {
        match &self.data {
            Data::File(content) => Some(content),
            _ => None,
        }
    }

    pub(crate) fn meta(&self, archive: bool) -> Meta {
        Meta {
            mode: self.mode,
            mtime: Stamp {
                secs: self.mtime,
                nanos: 0,
            },
            owner: None,
            xattrs: if archive {
                self.xattrs.clone()
            } else {
                Xattrs::new()
            },
        }
    }
}

/// Which inode it is, and when it was changed last.
pub(crate) type Version = (u64, u64);

#[derive(Clone, Debug)]
struct Inode {
    node: Node,
    changed: u64,
    /// Its content is on the device.
    is_synced: bool,
}

#[derive(Clone, Debug, Default)]
struct State {
    names: BTreeMap<PathBuf, u64>,
    inodes: BTreeMap<u64, Inode>,
}

/// A name that a copy works on, or a call that is about to fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Failed;

#[derive(Clone, Debug, Default)]
pub(crate) struct Fs {
    /// As programs see it.
    live: State,
    /// As the device has it.
    safe: State,
    next: u64,
    now: u64,
    /// The next call fails, that often.
    pub(crate) fails: u32,
}

impl Fs {
    /// Something that was there for long.
    pub(crate) fn put(&mut self, path: &Path, node: Node) {
        let id = self.new_inode(node);
        self.live.names.insert(path.to_owned(), id);
        self.settle();
    }

    /// A further name that was there for long.
    pub(crate) fn put_link(&mut self, from: &Path, to: &Path) {
        let id = self.live.names[from];
        self.live.names.insert(to.to_owned(), id);
        self.settle();
    }

    fn settle(&mut self) {
        for inode in self.live.inodes.values_mut() {
            inode.is_synced = true;
        }
        let used: BTreeSet<u64> = self.live.names.values().copied().collect();
        self.live.inodes.retain(|id, _| used.contains(id));
        self.safe = self.live.clone();
    }

    fn new_inode(&mut self, node: Node) -> u64 {
        self.next += 1;
        self.now += 1;
        let inode = Inode {
            node,
            changed: self.now,
            is_synced: false,
        };
        self.live.inodes.insert(self.next, inode);
        self.next
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.live.names.keys()
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&PathBuf, &Node)> {
        let names = self.live.names.iter();
        names.map(|(path, id)| (path, &self.live.inodes[id].node))
    }

    pub(crate) fn node(&self, path: &Path) -> Option<&Node> {
        let id = self.live.names.get(path)?;
        Some(&self.live.inodes[id].node)
    }

    /// What would be there after a power cut.
    pub(crate) fn safe_node(&self, path: &Path) -> Option<&Node> {
        let id = self.safe.names.get(path)?;
        Some(&self.safe.inodes[id].node)
    }

    pub(crate) fn id(&self, path: &Path) -> Option<u64> {
        self.live.names.get(path).copied()
    }

    pub(crate) fn version(&self, path: &Path) -> Option<Version> {
        let id = self.id(path)?;
        Some((id, self.live.inodes[&id].changed))
    }

    pub(crate) fn links(&self, path: &Path) -> usize {
        let id = self.id(path);
        self.live
            .names
            .values()
            .filter(|of| Some(**of) == id)
            .count()
    }

    /// What lies directly in a directory.
    pub(crate) fn list(&self, dir: &Path) -> Vec<PathBuf> {
        let names = self.live.names.keys();
        names
            .filter(|path| path.parent() == Some(dir) && *path != dir)
            .cloned()
            .collect()
    }

    /// That name and all below it, what lies in a directory first.
    pub(crate) fn below(&self, path: &Path) -> Vec<PathBuf> {
        let names = self.live.names.keys();
        names
            .filter(|name| name.starts_with(path))
            .rev()
            .cloned()
            .collect()
    }

    /// A call: it may fail.
    fn call(&mut self) -> Result<(), Failed> {
        self.now += 1;
        if self.fails > 0 {
            self.fails -= 1;
            return Err(Failed);
        }
        Ok(())
    }

    /// What is in a directory has changed.
    fn touch(&mut self, path: &Path) {
        let (now, parent) = (self.now, path.parent());
        let dir = parent.and_then(|parent| self.live.names.get(parent));
        if let Some(inode) = dir.and_then(|id| self.live.inodes.get_mut(id)) {
            inode.node.mtime = 1_000_000 + i64::try_from(now).unwrap_or(0);
            inode.changed = now;
        }
    }

    /// Writes what has no name yet.
    pub(crate) fn write(&mut self, node: Node) -> Result<u64, Failed> {
        self.call()?;
        Ok(self.new_inode(node))
    }

    /// Gives it its name, in the place of what had that.
    pub(crate) fn name(&mut self, id: u64, path: &Path) -> Result<(), Failed> {
        self.call()?;
        self.live.names.insert(path.to_owned(), id);
        self.touch(path);
        Ok(())
    }

    pub(crate) fn make(&mut self, path: &Path, node: Node) -> Result<(), Failed> {
        let id = self.write(node)?;
        self.name(id, path)
    }

    pub(crate) fn remove(&mut self, path: &Path) -> Result<(), Failed> {
        self.call()?;
        self.live.names.remove(path);
        self.touch(path);
        Ok(())
    }

    pub(crate) fn change(
        &mut self,
        path: &Path,
        what: impl FnOnce(&mut Node),
    ) -> Result<(), Failed> {
        self.call()?;
        let (now, id) = (self.now, self.live.names.get(path));
        if let Some(inode) = id.and_then(|id| self.live.inodes.get_mut(id)) {
            what(&mut inode.node);
            inode.changed = now;
        }
        Ok(())
    }

    /// Everything is on the device then.
    pub(crate) fn sync(&mut self) -> Result<(), Failed> {
        self.call()?;
        self.settle_synced();
        Ok(())
    }

    fn settle_synced(&mut self) {
        for inode in self.live.inodes.values_mut() {
            inode.is_synced = true;
        }
        self.safe = self.live.clone();
    }

    /// A file that was written and synced by itself has its name, and that is on the device.
    pub(crate) fn put_durable(&mut self, path: &Path, node: Node) -> Result<(), Failed> {
        self.make(path, node)?;
        let id = self.live.names[path];
        if let Some(inode) = self.live.inodes.get_mut(&id) {
            inode.is_synced = true;
        }
        // What lies above it is, too: it was synced before it was told of.
        let mut at = Some(path);
        while let Some(path) = at {
            if let Some(&id) = self.live.names.get(path)
                && let Some(inode) = self.live.inodes.get(&id)
            {
                self.safe.names.insert(path.to_owned(), id);
                self.safe.inodes.insert(id, inode.clone());
            }
            at = path.parent();
        }
        Ok(())
    }

    /// Power fails: of each name and inode that is not on the device, one state or the other is.
    pub(crate) fn crash(&mut self, random: &mut ChaCha8Rng) {
        let mut one_of_two = || random.next_u64().is_multiple_of(2);
        let mut after = State::default();
        let (live, safe) = (&self.live, &self.safe);
        let all: BTreeSet<&PathBuf> = live.names.keys().chain(safe.names.keys()).collect();
        let mut picked: BTreeMap<u64, Inode> = BTreeMap::new();
        let names = live.names.iter();
        let new_names = names.filter(|(path, id)| safe.names.get(*path) != Some(*id));
        let new_names: BTreeSet<u64> = new_names.map(|(_, id)| *id).collect();
        for path in all {
            let (new, old) = (live.names.get(path), safe.names.get(path));
            let is_new = new != old && one_of_two();
            let id = if is_new { new } else { old };
            let Some(&id) = id else {
                continue;
            };
            let lies = path.parent().filter(|parent| *parent != Path::new(""));
            let has_place = lies.is_none_or(|parent| {
                let dir = after.names.get(parent).and_then(|id| picked.get(id));
                dir.is_some_and(|dir: &Inode| dir.node.is_dir())
            });
            if !has_place {
                continue;
            }
            after.names.insert(path.clone(), id);
            picked.entry(id).or_insert_with(|| {
                let (new, old) = (live.inodes.get(&id), safe.inodes.get(&id));
                let mut inode = match (new, old) {
                    // What was done to an inode before it got a name is there with that name.
                    (Some(_), Some(old)) if !new_names.contains(&id) && one_of_two() => old.clone(),
                    (Some(inode), _) | (None, Some(inode)) => inode.clone(),
                    (None, None) => unreachable!("a name of nothing"),
                };
                if let (false, Data::File(content)) = (inode.is_synced, &mut inode.node.data) {
                    content.fill(GARBAGE);
                }
                inode
            });
        }
        after.inodes = picked;
        self.live = after;
        self.fails = 0;
        self.settle();
    }
}
