//! The sender's first thread: walks through the tree and tells the receiver what is there.
//!
//! It keeps the names of the directories on its way down, and of what it has told the inodes of which further
//! names may come.

use super::codec::ManifestWriter;
use super::hashing::Hashers;
use super::ignores::Ignores;
use super::linked::{Linked, OneOf};
use super::meta::{self, LeftOut};
use super::moved::MovedLinks;
use super::names::kind;
use super::queue::Queue;
use super::report::{Book, Trouble, add};
use super::sent::SentFiles;
use super::source_dir::SourceDir;
use howdah_session::entry::{Entry, Meta, Other, bounds};
use howdah_session::naming::quoted;
use howdah_session::reserved::is_unfinished;
use howdah_session::{Filter, Metadata, TreeOptions};
use howdah_store::{Root, StoreError};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Stat};
use std::collections::{HashMap, HashSet, VecDeque, hash_map};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

mod follow;
mod item;
mod list;
mod subdirs;
mod told;
mod tops;

pub(crate) use item::Offered;
use item::{Class, ManifestItem, Real};
use subdirs::Subdirs;

/// A manifest that grows slowly is sent on at the latest after this.
const TOO_LONG: &str = "its path is longer than 4095 bytes";
const PATIENCE: Duration = Duration::from_millis(10);

/// One thing that is to be copied.
#[derive(Debug)]
pub(crate) struct Top {
    pub(crate) root: Arc<Root>,
    /// Below `root`: the thing itself; empty for the root.
    pub(crate) path: PathBuf,
    /// What it is called in the copy; nothing if it is the content that is copied.
    pub(crate) called: OsString,
}

struct Frame {
    dir: Arc<SourceDir>,
    subdirs: Subdirs,
    complete: bool,
    ignores: Option<Arc<Ignores>>,
    /// Nothing of it is told because it was left out: a source that has this only is not empty.
    is_named: bool,
}

pub(crate) struct Walker<'a> {
    pub(crate) options: &'a TreeOptions,
    pub(crate) manifest: ManifestWriter,
    pub(crate) offered: &'a Queue<Offered>,
    pub(crate) book: &'a Book,
    filter: &'a Filter,
    /// No more of the metadata is told, whatever is asked for.
    shows: Metadata,
    /// Told for a comparison: everything, and what it is.
    compares: bool,
    moved: MovedLinks<'a>,
    /// Inodes of which further names may come.
    links: HashMap<(u64, u64), Linked>,
    links_told: u64,
    owners: HashSet<(bool, u32)>,
    /// Of the directory that was named, if that counts.
    device: Option<u64>,
    /// The directories on the way down, if links are followed: one that leads to one of them has no end.
    way: Vec<(u64, u64)>,
    /// Of the next directory it is told which one it is.
    tells_place: bool,
    /// What is told next was found through a link: it is no further name of anything.
    is_followed: bool,
    /// Everything could be read so far.
    complete: bool,
    flushed: Instant,
    /// Once there is something to hash.
    hashers: Option<Hashers>,
    /// What is told when the hashes before it are there.
    line: VecDeque<ManifestItem>,
    /// Hears of further names, if somebody wants to hear of everything.
    sent: Option<&'a Mutex<SentFiles>>,
}

/// The receiver is gone; it or the connection says why.
pub(crate) struct Gone;

impl From<io::Error> for Gone {
    fn from(_: io::Error) -> Self {
        Self
    }
}

impl<'a> Walker<'a> {
    pub(crate) fn new(
        options: &'a TreeOptions,
        manifest: ManifestWriter,
        offered: &'a Queue<Offered>,
        book: &'a Book,
        filter: &'a Filter,
    ) -> Self {
        Self {
            filter,
            options,
            manifest,
            offered,
            book,
            shows: Metadata::All,
            compares: false,
            moved: MovedLinks::default(),
            links: HashMap::new(),
            links_told: 0,
            owners: HashSet::new(),
            device: None,
            way: Vec::new(),
            tells_place: false,
            is_followed: false,
            complete: true,
            flushed: Instant::now(),
            hashers: None,
            line: VecDeque::new(),
            sent: None,
        }
    }

    /// Tells what a comparison needs: also what is not copied, and nothing of what cannot be decided here.
    pub(crate) fn for_comparison(mut self) -> Self {
        self.compares = true;
        self
    }

    /// Tells no more of the metadata than that.
    pub(crate) fn showing(mut self, shows: Metadata) -> Self {
        self.shows = shows;
        self
    }

    /// In a move: notes what may go.
    pub(crate) fn moving(mut self, moved: MovedLinks<'a>) -> Self {
        self.moved = moved;
        self
    }

    /// `missing`: what was named besides and is not there.
    pub(crate) fn run(mut self, tops: &[Top], missing: &[StoreError]) -> Result<(), Gone> {
        for error in missing {
            self.complete = false;
            self.book.note(Trouble::Failed, || error.to_string());
        }
        if let (true, [top]) = (self.options.contents, tops) {
            let dir = Arc::new(SourceDir {
                root: Arc::clone(&top.root),
                path: top.path.clone(),
                below: PathBuf::new(),
            });
            match dir.open() {
                Ok(fd) => {
                    let meta = self.dir_meta(&fd, &dir)?;
                    self.place(&fd)?;
                    self.put(Entry::Top { meta })?;
                    self.is_elsewhere(&fd);
                    let frame = self.list(&fd, dir, None)?;
                    self.descend(frame)?;
                }
                Err(error) => self.unreadable(&dir.shown(OsStr::new("")), &error),
            }
        } else {
            self.tops(tops)?;
        }
        if !self.compares {
            self.filter.tell_missing(|path| {
                let what = match self.link_on_the_way(tops, path) {
                    Some(link) => format!(
                        "is in the list of files and lies behind the symbolic link {}: -L follows it",
                        quoted(&link)
                    ),
                    None => "is in the list of files and does not exist".to_owned(),
                };
                self.book.trouble(Trouble::Failed, path, what);
            });
        }
        if !self.compares {
            // What is only there may be kept from going.
            for doubt in self.filter.doubts(!self.options.delete) {
                self.book.note(Trouble::Notice, || doubt);
            }
        }
        // What cannot be hashed makes it incomplete.
        self.tell(0)?;
        let complete = self.complete;
        self.put(Entry::End { complete })?;
        self.manifest.flush()?;
        Ok(())
    }

    /// Walks through everything below a directory whose own entries have been told.
    fn descend(&mut self, top: Frame) -> Result<(), Gone> {
        let mut frames = vec![top];
        while let Some(frame) = frames.last_mut() {
            let Some((name, class)) = self.next_subdir(frame) else {
                let complete = frame.complete;
                frames.pop();
                self.way.pop();
                if !frames.is_empty() {
                    self.put(Entry::Up { complete })?;
                } else if !complete {
                    self.complete = false;
                }
                continue;
            };
            let dir = Arc::clone(&frame.dir);
            let ignores = frame.ignores.clone();
            let real = match class {
                Class::Dir => None,
                class => match self.real_dir(frame, &name, class) {
                    Some(real) => Some(real),
                    None => continue,
                },
            };
            let at_bottom = frames.len() >= bounds::DEPTH - 1;
            match self.open_subdir(&dir, &name, &name, (ignores, real), at_bottom)? {
                Opened::Frame(frame) => {
                    frames.push(frame);
                    subdirs::bound(&mut frames, |frame| &mut frame.subdirs);
                }
                Opened::ManifestItem => {}
                Opened::Vanished => {
                    if let Some(frame) = frames.last_mut() {
                        frame.complete = false;
                    }
                }
            }
        }
        Ok(())
    }

    /// A directory and everything below it.
    fn subdir(&mut self, dir: &Arc<SourceDir>, name: &[u8], called: &[u8]) -> Result<(), Gone> {
        self.device = None;
        self.tells_place = true;
        if let Opened::Frame(frame) = self.open_subdir(dir, name, called, (None, None), false)? {
            let complete = frame.complete;
            self.descend(frame)?;
            self.put(Entry::Up { complete })?;
        }
        Ok(())
    }

    fn open_subdir(
        &mut self,
        parent: &Arc<SourceDir>,
        name: &[u8],
        called: &[u8],
        (ignores, real): (Option<Arc<Ignores>>, Option<Real>),
        at_bottom: bool,
    ) -> Result<Opened, Gone> {
        let shown = parent.shown(OsStr::from_bytes(name));
        self.tells_place |= real.is_some() || self.options.remove_source;
        let (root, path) = real.unwrap_or_else(|| {
            let path = parent.path.join(OsStr::from_bytes(name));
            (Arc::clone(&parent.root), path)
        });
        let dir = Arc::new(SourceDir {
            root,
            path,
            below: parent.below.join(OsStr::from_bytes(called)),
        });
        if at_bottom || dir.path.as_os_str().len() > bounds::PATH {
            let what = "lies too deep (more than 4095 bytes of path or 2048 directories)";
            self.book.trouble(Trouble::Failed, &shown, what);
            self.complete = false;
            return Ok(Opened::Vanished);
        }
        match dir.open() {
            Ok(fd) => {
                let meta = self.dir_meta(&fd, &dir)?;
                let name = called.to_vec();
                if std::mem::take(&mut self.tells_place) {
                    self.place(&fd)?;
                }
                self.put(Entry::Dir { name, meta })?;
                let named = self.options.names_only(&dir.below);
                if named || self.is_elsewhere(&fd) {
                    if !named {
                        self.filter.pass_over(&dir.below);
                        let what = "is a mount point; what is mounted there was not copied (-x)";
                        self.book.trouble(Trouble::Special, &shown, what);
                    }
                    // Nothing is deleted in it.
                    self.put(Entry::Up { complete: named })?;
                    return Ok(Opened::ManifestItem);
                }
                Ok(Opened::Frame(self.list(&fd, dir, ignores)?))
            }
            Err(error @ StoreError::NotFound { .. }) => {
                self.unreadable(&shown, &error);
                Ok(Opened::Vanished)
            }
            Err(error) => {
                self.unreadable(&shown, &error);
                let stat = parent.open().ok().and_then(|fd| {
                    let name = OsStr::from_bytes(name);
                    rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()
                });
                let Some(stat) = stat.filter(|stat| kind(stat) == FileType::Directory) else {
                    return Ok(Opened::Vanished);
                };
                // It is there, and what lies in it is not known.
                self.filter.pass_over(&dir.below);
                let meta = self.meta_of(&stat);
                self.learn_owner(&meta)?;
                let name = called.to_vec();
                self.put(Entry::Dir { name, meta })?;
                if self.compares {
                    self.put(Entry::Gap)?;
                }
                self.put(Entry::Up { complete: false })?;
                Ok(Opened::ManifestItem)
            }
        }
    }

    /// Tells which directory it is that comes next.
    fn place(&mut self, fd: &OwnedFd) -> Result<(), Gone> {
        match super::inside::id_of(fd).filter(|_| !self.compares) {
            Some(id) => self.put(Entry::Place { id }),
            None => Ok(()),
        }
    }

    /// Whether a directory is on another file system than the one that was named, and that counts.
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_lossless,
        reason = "the field's type differs between systems"
    )]
    fn is_elsewhere(&mut self, fd: &OwnedFd) -> bool {
        if !self.options.one_file_system {
            return false;
        }
        let Ok(stat) = rustix::fs::fstat(fd) else {
            return false;
        };
        let device = stat.st_dev as u64;
        *self.device.get_or_insert(device) != device
    }

    /// Something that is there and is not copied.
    fn left_out(&mut self, name: &[u8], what: Other) -> Result<(), Gone> {
        let name = name.to_vec();
        if self.compares {
            self.put(Entry::Other { name, what })
        } else {
            self.put(Entry::Kept { name })
        }
    }

    /// Tells about something that is no directory.
    fn entry(
        &mut self,
        fd: &OwnedFd,
        dir: &Arc<SourceDir>,
        name: &[u8],
        called: &[u8],
        stat: &Stat,
    ) -> Result<(), Gone> {
        let shown = || dir.shown(OsStr::from_bytes(name));
        let path_bytes = dir.path.as_os_str().len() + 1 + name.len();
        if path_bytes > bounds::PATH {
            self.book.trouble(Trouble::Failed, &shown(), TOO_LONG);
            // What has its name at the destination stays.
            self.complete = false;
            return Ok(());
        }
        let mut meta = self.meta_of(stat);
        match kind(stat) {
            FileType::RegularFile => {
                // A comparison leaves out what neither side admits.
                if !self.compares && !self.options.admits(stat.st_size as u64, meta.mtime.secs) {
                    let name = called.to_vec();
                    return self.put(Entry::Kept { name });
                }
                let link = if self.is_followed {
                    None
                } else {
                    self.link(stat)
                };
                let link = match link {
                    Some(OneOf::Further { link, last }) if !self.compares => {
                        let (original, name) = (name, called.to_vec());
                        add(&self.book.links, 1);
                        self.moved.note(dir, original, stat);
                        self.tell_further(dir, called);
                        return self.put(Entry::Link { name, link, last });
                    }
                    Some(OneOf::First { link } | OneOf::Further { link, .. }) => Some(link),
                    None => None,
                };
                let size = match self.size(fd, dir, name, stat) {
                    Ok(size) => size,
                    Err(error) => {
                        self.unreadable(&shown(), &error);
                        return self.left_out(called, Other::Unread);
                    }
                };
                self.add_xattrs(fd, OsStr::from_bytes(name), &shown, &mut meta);
                self.learn_owner(&meta)?;
                let offered = Offered {
                    dir: Arc::clone(dir),
                    name: OsString::from_vec(name.to_vec()),
                    called: (name != called).then(|| OsStr::from_bytes(called).into()),
                    size,
                    mtime: meta.mtime,
                    version: self.moved.version(stat),
                    is_top: self.moved.at_tops,
                    unread: self.unread(dir, name),
                };
                let entry = Entry::File {
                    name: called.to_vec(),
                    size,
                    meta,
                    link,
                    hash: None,
                };
                if !self.options.checksum {
                    return self.offer(&entry, offered);
                }
                let hashers = self.hashers.get_or_insert_with(Hashers::new);
                let (root, path) = (Arc::clone(&dir.root), dir.path.join(&offered.name));
                let opened = path.clone();
                let hash = hashers.hash(&path, move || root.open_plain(&opened));
                let ahead = hashers.ahead();
                self.line.push_back(ManifestItem::File {
                    entry,
                    offered,
                    hash,
                });
                self.tell(ahead)
            }
            FileType::Symlink if !self.compares && !self.options.keeps_links() => {
                // Something replaced what had been named, or what a link led to.
                let what = "became a link while it was read";
                self.book.trouble(Trouble::Changed, &shown(), what);
                self.left_out(called, Other::Unread)
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(fd, OsStr::from_bytes(name), Vec::new());
                match target {
                    Ok(target) if target.as_bytes().len() <= bounds::TARGET => {
                        self.learn_owner(&meta)?;
                        add(&self.book.links, 1);
                        self.moved.note(dir, name, stat);
                        self.put(Entry::Symlink {
                            name: called.to_vec(),
                            target: target.into_bytes(),
                            meta,
                        })
                    }
                    Ok(_) => {
                        let what = "it points to more than 4095 bytes";
                        self.book.trouble(Trouble::Failed, &shown(), what);
                        self.left_out(called, Other::Unread)
                    }
                    Err(e) => {
                        let error = StoreError::from_io(&shown(), "read the link", e);
                        self.unreadable(&shown(), &error);
                        self.left_out(called, Other::Unread)
                    }
                }
            }
            FileType::Directory => {
                // Something replaced it after the directory was listed.
                let what = "became a directory while it was read";
                self.book.trouble(Trouble::Changed, &shown(), what);
                self.left_out(called, Other::Unread)
            }
            other => {
                let what = howdah_store::plain::irregular(other).unwrap_or("of an unknown kind");
                if !self.compares {
                    let what = format!("is {what} and was not copied");
                    self.book.trouble(Trouble::Special, &shown(), what);
                }
                let what = match other {
                    FileType::Fifo => Other::Fifo,
                    FileType::Socket => Other::Socket,
                    FileType::CharacterDevice => Other::CharacterDevice,
                    FileType::BlockDevice => Other::BlockDevice,
                    _ => Other::Unread,
                };
                self.left_out(called, what)
            }
        }
    }

    /// Which name of an inode with several names it is. Forgets the inode with its last one.
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_lossless,
        reason = "the fields' types differ between systems"
    )]
    fn link(&mut self, stat: &Stat) -> Option<OneOf> {
        if !self.options.archive || stat.st_nlink < 2 {
            return None;
        }
        match self.links.entry((stat.st_dev as u64, stat.st_ino as u64)) {
            hash_map::Entry::Vacant(entry) => {
                let link = self.links_told;
                self.links_told += 1;
                entry.insert(Linked::new(link, stat.st_nlink as u64));
                Some(OneOf::First { link })
            }
            hash_map::Entry::Occupied(mut entry) => {
                let (link, last) = (entry.get().link(), entry.get_mut().count());
                if last {
                    entry.remove();
                }
                Some(OneOf::Further { link, last })
            }
        }
    }

    fn dir_meta(&mut self, fd: &OwnedFd, dir: &Arc<SourceDir>) -> Result<Meta, Gone> {
        let mut meta = match rustix::fs::fstat(fd) {
            Ok(stat) => self.meta_of(&stat),
            Err(_) => Meta {
                mode: 0o755,
                ..Meta::default()
            },
        };
        let shown = || dir.shown(OsStr::new(""));
        self.add_xattrs(fd, OsStr::new("."), &shown, &mut meta);
        self.learn_owner(&meta)?;
        Ok(meta)
    }

    fn add_xattrs(
        &self,
        fd: impl AsFd,
        name: &OsStr,
        shown: &dyn Fn() -> PathBuf,
        meta: &mut Meta,
    ) {
        if !self.options.archive || self.shows < Metadata::All {
            return;
        }
        match meta::xattrs(fd, name) {
            Ok((found, left_out)) => {
                meta.xattrs = found;
                let (kind, what) = match left_out {
                    LeftOut::Foreign if !self.compares => {
                        let what = "attributes other than user.* and ACLs are not copied";
                        (Trouble::NotKept, what)
                    }
                    LeftOut::TooMany if self.compares => {
                        let what = "has more than 64 extended attributes; only the first of them were compared";
                        (Trouble::Failed, what)
                    }
                    LeftOut::TooMany => {
                        let what = "has more than 64 extended attributes; only the first of them are copied";
                        (Trouble::NotKept, what)
                    }
                    LeftOut::Foreign | LeftOut::Nothing => return,
                };
                self.book.trouble(kind, &shown(), what);
            }
            Err(e) => {
                let what = format!("its extended attributes cannot be read: {e}");
                self.book.trouble(Trouble::NotKept, &shown(), what);
            }
        }
    }

    fn unreadable(&mut self, shown: &Path, error: &StoreError) {
        self.complete = false;
        if matches!(error, StoreError::NotFound { .. }) {
            self.book
                .trouble(Trouble::Changed, shown, "vanished before it could be read");
        } else {
            self.book.note(Trouble::Failed, || error.to_string());
        }
    }
}

enum Opened {
    Frame(Frame),
    /// It was told, but not what is in it.
    ManifestItem,
    /// It was not told.
    Vanished,
}
