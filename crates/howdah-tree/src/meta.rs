//! Modes, times, owners and extended attributes: read at the source, set at the destination, always
//! through descriptors.

mod attributes;

pub(crate) use attributes::{LeftOut, xattrs};

use super::clock::Clock;
use super::stamps::{modified, set_time, times};
use crate::accounts;
use attributes::is_portable;
use howdah_session::entry::{Meta, Stamp, Xattrs, bounds};
use howdah_session::{Metadata, ModeChanges, Reasons, TreeOptions};
use howdah_store::StoreError;
use howdah_store::calls::retry;
use howdah_store::rights::umask;
use howdah_store::rights::{self, Tag};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Gid, Mode, Stat, Uid, XattrFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How it is told that the disk made another time of one.
const OUT_OF_REACH: &str = "the exact time, which this disk has not (as it perhaps has not those of others, which are not told),";

/// What an attribute could not be kept for.
pub(crate) type NotKept = (&'static str, Errno);

/// The metadata that the source's `stat` tells.
#[allow(
    clippy::unnecessary_cast,
    clippy::cast_lossless,
    reason = "the fields' types differ between systems"
)]
pub(crate) fn of_stat(stat: &Stat, archive: bool) -> Meta {
    Meta {
        mode: stat.st_mode as u32 & 0o7777,
        mtime: modified(stat),
        owner: archive.then_some((stat.st_uid, stat.st_gid)),
        xattrs: Vec::new(),
    }
}

/// Users and groups that the entries of ACLs are about: whether it is a group, and the number.
pub(crate) fn named_in_acls(xattrs: &Xattrs) -> impl Iterator<Item = (bool, u32)> + '_ {
    let acls = xattrs.iter().filter(|(name, _)| is_acl(name));
    let entries = acls.filter_map(|(_, value)| rights::entries(value));
    entries.flatten().filter_map(|entry| match entry.tag {
        Tag::User => Some((false, entry.id)),
        Tag::Group => Some((true, entry.id)),
        _ => None,
    })
}

pub(crate) fn is_acl(name: &[u8]) -> bool {
    name == rights::ACCESS || name == rights::DEFAULT
}

/// Who a number of the source is here.
#[derive(Clone, Copy, Debug)]
enum Here {
    Known(u32),
    /// Nobody here is called so.
    Unknown,
}

/// What the receiver keeps, and who is who there.
#[derive(Debug)]
pub(crate) struct Keeper {
    archive: bool,
    /// Permissions are made equal.
    exact: bool,
    /// So are ACLs.
    acls: bool,
    /// Changes of whatever permissions there would be.
    changes: Option<ModeChanges>,
    umask: u32,
    /// The user and the group that everything gets.
    given: (Option<u32>, Option<u32>),
    numeric: bool,
    root: bool,
    /// What may be set, whatever is asked for.
    allowed: Metadata,
    /// It is asked for more than that.
    asks_more: bool,
    /// Names that more was asked for of.
    withheld: AtomicU64,
    pub(crate) clock: Clock,
    users: Mutex<HashMap<u32, Here>>,
    groups: Mutex<HashMap<u32, Here>>,
}

impl Keeper {
    /// `allowed`: no more is set, whatever the options say.
    pub(crate) fn new(options: &TreeOptions, allowed: Metadata) -> Result<Self, StoreError> {
        let changes = options.chmod.as_deref().map(str::parse::<ModeChanges>);
        let changes = changes.transpose().map_err(|e| StoreError::BadOption {
            what: format!("--chmod: {e}"),
        })?;
        let chown = options.chown.as_ref();
        let (user, group) = chown.map_or((None, None), |(user, group)| {
            (user.as_deref(), group.as_deref())
        });
        let given = (
            user.map(|name| given(false, name)).transpose()?,
            group.map(|name| given(true, name)).transpose()?,
        );
        let exact = (options.archive || options.permissions) && !options.no_permissions;
        let (all, modes) = (allowed == Metadata::All, allowed >= Metadata::Modes);
        // What is everybody's default is not asked for, but a time that may not be set is missed.
        let asks_modes = exact || changes.is_some();
        Ok(Self {
            archive: options.archive && all,
            exact: exact && modes,
            acls: options.archive && !options.no_permissions && all,
            changes: changes.filter(|_| modes),
            umask: bits_of(umask()),
            asks_more: given != (None, None) && !all
                || asks_modes && !modes
                || allowed == Metadata::None,
            given: if all { given } else { (None, None) },
            allowed,
            withheld: AtomicU64::new(0),
            numeric: options.numeric_ids,
            root: rustix::process::geteuid().is_root(),
            clock: Clock::default(),
            users: Mutex::default(),
            groups: Mutex::default(),
        })
    }

    /// Of a copy of something that is here, with all that it has.
    pub(crate) fn of_everything() -> Result<Self, Errno> {
        let whole = TreeOptions {
            archive: true,
            numeric_ids: true,
            ..TreeOptions::default()
        };
        Self::new(&whole, Metadata::All).map_err(|_| Errno::INVAL)
    }

    /// Leaves of the metadata of something that came what may be set here, and counts it if that is less than was asked for.
    pub(crate) fn admit(&self, meta: &mut Meta, is_dir: bool) {
        if self.allowed == Metadata::All {
            return;
        }
        let is_ours = |owner: (u32, u32)| {
            let (user, group) = owner;
            let us = (rustix::process::geteuid(), rustix::process::getegid());
            (user, group) == (us.0.as_raw(), us.1.as_raw())
        };
        // There is an owner only if it is to be kept, and then so are the special bits.
        let asks_more = self.asks_more
            || meta
                .owner
                .is_some_and(|owner| !is_ours(owner) || meta.mode & 0o7000 != 0)
            || !meta.xattrs.is_empty()
            || self.changes.as_ref().is_some_and(|changes| {
                changes.apply(meta.mode & 0o777, is_dir, self.umask) & 0o7000 != 0
            });
        if asks_more {
            self.withheld.fetch_add(1, Ordering::Relaxed);
        }
        self.allowed.admit(meta, is_dir);
    }

    /// How many names were to get more than may be set here, and what is said of it.
    pub(crate) fn withheld(&self) -> Option<(u64, String)> {
        let names = self.withheld.load(Ordering::Relaxed);
        (names > 0).then(|| {
            let (kept, more) = (self.allowed.withheld(), self.allowed.enough());
            let text = format!(
                "{kept} of {names} names were not kept: this key may not set them there; ask whoever runs the server for \
                 metadata=\"{more}\""
            );
            (names, text)
        })
    }

    /// The user and the group that something with this metadata is to have here, as far as that is asked for.
    fn wanted_owner(&self, meta: &Meta) -> (Option<Uid>, Option<Gid>) {
        let theirs = meta.owner.filter(|_| self.archive);
        let (user, group) = theirs.map(|owner| self.owner(owner)).unzip();
        (
            self.given.0.map(Uid::from_raw).or(user),
            self.given.1.map(Gid::from_raw).or(group),
        )
    }

    fn changed(&self, mode: u32, is_dir: bool) -> u32 {
        let changes = self.changes.as_ref();
        let changed = changes.map_or(mode, |changes| changes.apply(mode, is_dir, self.umask));
        if self.allowed == Metadata::All {
            changed
        } else {
            changed & 0o777 | mode & 0o7000
        }
    }

    /// The source calls that number so. What nobody here is called is told, once.
    pub(crate) fn learn(&self, group: bool, id: u32, name: &[u8]) -> Option<String> {
        // Nobody is looked up who is given nothing.
        let matters = !self.numeric && self.allowed == Metadata::All;
        let name = std::str::from_utf8(name).ok().filter(|_| matters)?;
        let map = if group { &self.groups } else { &self.users };
        let known = super::queue::lock(map);
        // Each number once, and so many: whoever knows the names may be far away.
        if known.len() >= bounds::OWNERS || known.contains_key(&id) {
            return None;
        }
        drop(known);
        let here = accounts::id_of(group, name);
        let is = here.map_or(Here::Unknown, Here::Known);
        super::queue::lock(map).insert(id, is);
        here.is_none().then(|| {
            let kind = if group { "group" } else { "user" };
            format!(
                "there is no {kind} {name:?} here: what belongs to it gets the number {id}, and entries of ACLs about \
                 it are left out"
            )
        })
    }

    /// Who an owner's number is here; one that nobody here is called stays a number.
    fn owner(&self, (user, group): (u32, u32)) -> (Uid, Gid) {
        let here = |map: &Mutex<HashMap<u32, Here>>, id| match super::queue::lock(map).get(&id) {
            Some(Here::Known(here)) => *here,
            Some(Here::Unknown) | None => id,
        };
        (
            Uid::from_raw(here(&self.users, user)),
            Gid::from_raw(here(&self.groups, group)),
        )
    }

    /// An ACL of the source as one of here. An entry about somebody whom nobody here is called like goes: the
    /// number may be somebody else's.
    fn acl(&self, acl: &[u8]) -> Option<Vec<u8>> {
        if self.numeric {
            return Some(acl.to_vec());
        }
        let mut entries = rights::entries(acl)?;
        let (users, groups) = (
            super::queue::lock(&self.users),
            super::queue::lock(&self.groups),
        );
        entries.retain_mut(|entry| {
            let map = match entry.tag {
                Tag::User => &users,
                Tag::Group => &groups,
                _ => return true,
            };
            match map.get(&entry.id) {
                Some(Here::Known(here)) => entry.id = *here,
                Some(Here::Unknown) => return false,
                // The source has no name for it either.
                None => {}
            }
            true
        });
        Some(rights::acl_of_entries(&mut entries))
    }

    /// The attributes that a file with this metadata is to have here, sorted.
    pub(crate) fn attributes(&self, meta: &Meta, kept: Kept) -> Xattrs {
        let portable = meta
            .xattrs
            .iter()
            .filter(|(name, _)| is_portable(name) && (self.acls || !is_acl(name)));
        let here = portable.filter_map(|(name, value)| {
            if !is_acl(name) {
                return Some((name.clone(), value.clone()));
            }
            let acl = self.acl(value)?;
            if kept.group {
                return Some((name.clone(), acl));
            }
            Some((name.clone(), rights::for_another_group(&acl)?))
        });
        here.collect()
    }

    /// The same after the mode was set, which comes last and has its say about ACLs (`--chmod`).
    fn attributes_under(&self, mode: Option<u32>, meta: &Meta, kept: Kept) -> Xattrs {
        let mut wanted = self.attributes(meta, kept);
        let acl = wanted.iter_mut().find(|(name, _)| name == rights::ACCESS);
        if let (Some(mode), Some((_, acl))) = (mode, acl)
            && let Some(changed) = rights::after_chmod(acl, mode)
        {
            *acl = changed;
        }
        wanted
    }

    /// What of the owner that it is to have something that is there has, or can be given: by root, or to a group of
    /// one's own.
    fn could_keep(&self, meta: &Meta, stat: &Stat) -> Kept {
        if self.root {
            return Kept::ALL;
        }
        let (user, group) = self.wanted_owner(meta);
        let mine = rustix::process::geteuid().as_raw() == stat.st_uid;
        Kept {
            user: user.is_none_or(|user| user.as_raw() == stat.st_uid),
            group: group.is_none_or(|group| group.as_raw() == stat.st_gid || mine && is_in(group)),
        }
    }

    /// The mode that something with this metadata gets, if its mode matters: bits that were meant for another owner or
    /// group are for nobody. Those of the group are the mask of an ACL where there is one. `is`: the mode that it has.
    fn mode_of(&self, meta: &Meta, is_dir: bool, kept: Kept, is: u32) -> Option<u32> {
        if !is_dir && !self.exact {
            return self.changes.as_ref().map(|_| self.changed(is, false));
        }
        let mut mode = meta.mode;
        if !(is_dir || self.archive && kept == Kept::ALL) {
            mode &= 0o777;
        }
        // Those of files were meant for the owner that they had.
        if !is_dir && self.given.0.is_some() {
            mode &= !0o4000;
        }
        if !is_dir && self.given.1.is_some() {
            mode &= !0o2000;
        }
        let is_of_others = || self.wanted_owner(meta).1.is_some_and(|group| !is_in(group));
        if !is_dir && !self.root && is_of_others() {
            // The kernel would take it away without a word.
            mode &= !0o2000;
        }
        if self.exact && !kept.group && !meta.xattrs.iter().any(|(name, _)| name == rights::ACCESS)
        {
            mode = rights::without_group(mode);
        }
        // That of a directory is what it is to be already.
        Some(if is_dir {
            mode
        } else {
            self.changed(mode, false)
        })
    }

    /// In what something that is there differs from what it is to be, besides its content, as far as it could be kept.
    /// `found`: its extended attributes, which are asked for only if they are kept. `at`: a directory
    /// on its disk.
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_lossless,
        reason = "the field's type differs between systems"
    )]
    pub(crate) fn differs(
        &self,
        at: impl AsFd,
        stat: &Stat,
        meta: &Meta,
        is_dir: bool,
        found: impl FnOnce() -> Result<Xattrs, Errno>,
    ) -> Reasons {
        let at = at.as_fd();
        let kept = self.could_keep(meta, stat);
        let mode = self.mode_of(meta, is_dir, kept, bits(stat));
        // What the disk cannot hold would differ for ever.
        let same_mode = mode.is_none_or(|mode| {
            stat.st_mode as u32 & 0o7777 == mode || !self.clock.keeps_rights(at).0
        });
        let same_time =
            self.allowed == Metadata::None || self.clock.is_same(at, modified(stat), meta.mtime);
        let other_owner = self.would_change_owner(stat, meta) && self.clock.keeps_rights(at).1;
        let reasons = Reasons::default()
            .and(Reasons::TIME, !same_time)
            .and(Reasons::MODE, !same_mode)
            .and(Reasons::OWNER, other_owner);
        if !self.archive {
            return reasons;
        }
        let is_same = |mut found: Xattrs| {
            found.retain(|(name, _)| self.acls || !is_acl(name));
            found == self.attributes_under(mode, meta, kept)
        };
        reasons.and(Reasons::ATTRIBUTES, !found().is_ok_and(is_same))
    }

    /// Whether a file elsewhere is what a new one in `dir` would be, besides its content: it may have that name, too.
    pub(crate) fn is_as_new(
        &self,
        dir: impl AsFd,
        stat: &Stat,
        meta: &Meta,
        found: &impl Fn() -> Result<Xattrs, Errno>,
    ) -> bool {
        let is_ours = rustix::process::geteuid().as_raw() == stat.st_uid
            || self.is_owner(meta, stat.st_uid, stat.st_gid);
        if !is_ours || !self.differs(&dir, stat, meta, false, found).is_empty() {
            return false;
        }
        if self.acls {
            return true;
        }
        // It must not be open to more people than a copy would be.
        let is_plain = found().is_ok_and(|found| !found.iter().any(|(name, _)| is_acl(name)));
        let mode = self.changed(rights::new_mode(&dir, meta.mode), false);
        is_plain && (self.exact || bits(stat) == mode)
    }

    /// Whether a symbolic link belongs to whom it is to belong to.
    pub(crate) fn link_is_owned(&self, stat: &Stat, meta: &Meta) -> bool {
        self.is_owner(meta, stat.st_uid, stat.st_gid)
    }

    /// The same of a symbolic link, which has no attributes.
    pub(crate) fn link_differs(&self, dir: &OwnedFd, stat: &Stat, meta: &Meta) -> Reasons {
        let same_time =
            self.allowed == Metadata::None || self.clock.is_same(dir, modified(stat), meta.mtime);
        Reasons::default().and(Reasons::TIME, !same_time).and(
            Reasons::OWNER,
            self.would_change_owner(stat, meta) && self.clock.keeps_rights(dir).1,
        )
    }

    /// Attributes are for those who may write; the mode is set afterwards.
    fn open_up(&self, fd: BorrowedFd<'_>) {
        if let (false, Ok(stat)) = (self.root, rustix::fs::fstat(fd)) {
            let mode = Mode::from_raw_mode(stat.st_mode);
            if !mode.contains(Mode::WUSR) {
                let _ = retry(|| rustix::fs::fchmod(fd, mode | Mode::WUSR));
            }
        }
    }

    /// Gives a symbolic link its owner and its time; what could not be kept. Not every disk has times of links.
    pub(crate) fn apply_to_link(
        &self,
        dir: &OwnedFd,
        name: &OsStr,
        meta: &Meta,
    ) -> Option<NotKept> {
        let mut not_kept = None;
        let (user, group) = self.wanted_owner(meta);
        if user.is_some() || group.is_some() {
            let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
            let is_kept = stat.is_ok_and(|stat| self.is_owner(meta, stat.st_uid, stat.st_gid));
            let give = |user| {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                retry(|| rustix::fs::chownat(dir, name, user, group, flags))
            };
            if !is_kept && let Err(e) = give(user) {
                let _ = give(None);
                not_kept = Some(("owner", e));
            }
        }
        if self.allowed >= Metadata::Times {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let is = || rustix::fs::statat(dir, name, flags).map(|stat| modified(&stat));
            let before = is().ok();
            // Not every disk has times of links.
            let set = rustix::fs::utimensat(dir, name, &times(meta.mtime), flags);
            if set.is_ok() && self.clock.is_news(is().ok(), meta.mtime, before) {
                not_kept = not_kept.or(Some((OUT_OF_REACH, Errno::RANGE)));
            }
        }
        not_kept
    }

    /// Whether those are the owner and the group that it is to have.
    pub(crate) fn is_owner(&self, meta: &Meta, user: u32, group: u32) -> bool {
        let (our_user, our_group) = self.wanted_owner(meta);
        our_user.is_none_or(|ours| ours.as_raw() == user)
            && our_group.is_none_or(|ours| ours.as_raw() == group)
    }

    /// Whether the owner or the group is another, and can be changed: by root, or to a group of one's own.
    fn would_change_owner(&self, stat: &Stat, meta: &Meta) -> bool {
        if self.is_owner(meta, stat.st_uid, stat.st_gid) {
            return false;
        }
        if self.root {
            return true;
        }
        let (_, Some(group)) = self.wanted_owner(meta) else {
            return false;
        };
        let mine = rustix::process::geteuid().as_raw() == stat.st_uid;
        group.as_raw() != stat.st_gid && mine && is_in(group)
    }

    /// Whether an open directory has all that already.
    pub(crate) fn is_kept(&self, dir: impl AsFd, meta: &Meta) -> bool {
        let Ok(stat) = rustix::fs::fstat(&dir) else {
            return false;
        };
        let owned = self.is_owner(meta, stat.st_uid, stat.st_gid);
        let found = || xattrs(&dir, OsStr::new(".")).map(|(found, _)| found);
        owned && self.differs(&dir, &stat, meta, true, found).is_empty()
    }

    /// Whether files that are there get modes.
    pub(crate) fn sets_modes(&self) -> bool {
        self.exact || self.changes.is_some()
    }

    /// Whether permissions are made equal.
    pub(crate) fn is_exact(&self) -> bool {
        self.exact
    }

    /// The mode that a directory gets in the end: `fresh` if it was made just now in `parent`, and then `is` is what it
    /// inherited, else what it had.
    pub(crate) fn dir_mode(&self, parent: impl AsFd, fresh: bool, is: u32, asked: u32) -> u32 {
        const SET_GROUP: u32 = 0o2000;
        let mode = match (self.archive, self.exact, fresh) {
            (true, true, _) => asked & 0o7777,
            (_, true, true) => asked & 0o777 | is & SET_GROUP,
            (_, true, false) => asked & 0o777 | is & 0o7000,
            (_, false, true) => rights::new_mode(parent, asked) | is & SET_GROUP,
            (_, false, false) => is & 0o7777,
        };
        self.changed(mode, true)
    }

    /// Gives a file that is to take `name` in `dir` its owner, attributes, mode and times.
    pub(crate) fn apply_to_file(
        &self,
        file: &File,
        dir: &OwnedFd,
        name: &OsStr,
        meta: &Meta,
    ) -> Vec<NotKept> {
        if self.exact {
            // What its directory gives to others was not the source's.
            let _ = rights::drop_acl(file);
            return self.apply(file, meta, false);
        }
        let mut not_kept = Vec::new();
        if let Err(e) = rights::carry_attributes(file, dir, name) {
            not_kept.push(("extended attribute of the file that was replaced", e));
        }
        if let Err(e) = rights::settle(file, dir, name, Some(meta.mode)) {
            not_kept.push(("mode", e));
        }
        not_kept.extend(self.apply(file, meta, false));
        not_kept
    }

    /// Gives an open file or directory its owner, attributes, mode and times, in this order: a change
    /// of the owner takes the special bits away, and everything before changes the times. A directory's mode is the
    /// [final](Self::dir_mode) one.
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_lossless,
        reason = "the field's type differs between systems"
    )]
    pub(crate) fn apply(&self, fd: impl AsFd, meta: &Meta, is_dir: bool) -> Vec<NotKept> {
        let fd = fd.as_fd();
        let mut not_kept = Vec::new();
        let mut note = |what, result: Result<(), Errno>| {
            if let Err(e) = result {
                not_kept.push((what, e));
            }
        };
        let is = rustix::fs::fstat(fd).map_or(0o600, |stat| bits(&stat));
        let mut kept = Kept::ALL;
        let (user, group) = self.wanted_owner(meta);
        let changed = rustix::fs::fstat(fd).and_then(|stat| {
            let new_user = user.filter(|user| user.as_raw() != stat.st_uid);
            let has_group = group.is_none_or(|group| group.as_raw() == stat.st_gid);
            if new_user.is_none() && has_group {
                return Ok(());
            }
            retry(|| rustix::fs::fchown(fd, new_user, group)).inspect_err(|_| {
                // Somebody else than root may at least give it to one of his groups.
                let given = !has_group && retry(|| rustix::fs::fchown(fd, None, group)).is_ok();
                kept = Kept {
                    user: new_user.is_none(),
                    group: has_group || given,
                };
            })
        });
        note("owner", changed);
        let mut mode = self.mode_of(meta, is_dir, kept, is);
        if self.archive && mode.is_none() {
            // It is opened up below.
            mode = Some(is);
        }
        if self.archive {
            self.open_up(fd);
            let wanted = self.attributes(meta, kept);
            // What the source has not, or has no more: before the others need its room.
            let there = xattrs(fd, OsStr::new("."));
            for (name, _) in there.map_or_else(|_| Vec::new(), |(found, _)| found) {
                let is_ours = self.acls || !is_acl(&name);
                if is_ours && !wanted.iter().any(|(kept, _)| *kept == name) {
                    let gone = rustix::fs::fremovexattr(fd, &*name);
                    note("absence of an extended attribute", gone);
                }
            }
            // ACLs come last: they may shut their owner out from the others.
            for (name, value) in wanted.iter().rev() {
                let set = rustix::fs::fsetxattr(fd, &**name, value, XattrFlags::empty());
                if set.is_err() && name == rights::ACCESS {
                    mode = mode.map(|mode| rights::without_acl(mode, value));
                }
                note("extended attribute", set);
            }
            // One that makes no sense here, either.
            let acls = meta
                .xattrs
                .iter()
                .filter(|(name, _)| self.acls && is_acl(name));
            for (name, value) in acls {
                if !wanted.iter().any(|(kept, _)| kept == name) {
                    if name == rights::ACCESS {
                        mode = mode.map(|mode| rights::without_acl(mode, value));
                    }
                    note("extended attribute", Err(Errno::INVAL));
                }
            }
        } else if self.exact
            && let Some(mode) = mode
            && rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_mode as u32 & 0o7777 != mode)
        {
            // Its mask would open to more people than the bits stand for.
            let _ = rights::drop_acl(fd);
        }
        // Only its owner may set what it has already, and nothing is missed.
        let has = |mode| rustix::fs::fstat(fd).is_ok_and(|s| s.st_mode as u32 & 0o7777 == mode);
        if let Some(mode) = mode
            && !has(mode)
        {
            let mode = Mode::from_raw_mode(mode as _);
            note("mode", retry(|| rustix::fs::fchmod(fd, mode)));
        }
        not_kept.extend(self.set_time(fd, meta.mtime));
        not_kept
    }

    /// Sets the time of modification; what the disk cannot hold is told once.
    fn set_time(&self, fd: impl AsFd, mtime: Stamp) -> Option<NotKept> {
        if self.allowed == Metadata::None {
            return None;
        }
        let is = || rustix::fs::fstat(&fd).map(|stat| modified(&stat));
        let before = is().ok();
        match set_time(&fd, mtime) {
            Err(e) => Some(("time", e)),
            Ok(()) if self.clock.is_news(is().ok(), mtime, before) => {
                Some((OUT_OF_REACH, Errno::RANGE))
            }
            Ok(()) => None,
        }
    }
}

/// What of an owner something has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Kept {
    user: bool,
    group: bool,
}

impl Kept {
    pub(crate) const ALL: Self = Self {
        user: true,
        group: true,
    };
}

/// Whether the user of this process is in that group.
fn is_in(group: Gid) -> bool {
    rustix::process::getegid() == group
        || rustix::process::getgroups().is_ok_and(|groups| groups.contains(&group))
}

/// The bits of a mode.
#[allow(
    clippy::unnecessary_cast,
    clippy::cast_lossless,
    reason = "the field's type differs between systems"
)]
fn bits(stat: &Stat) -> u32 {
    stat.st_mode as u32 & 0o7777
}

#[allow(
    clippy::unnecessary_cast,
    clippy::cast_lossless,
    reason = "the type differs between systems"
)]
fn bits_of(mode: Mode) -> u32 {
    mode.bits() as u32
}

/// The number of a user or group that is named, by name or number.
fn given(group: bool, name: &str) -> Result<u32, StoreError> {
    let named = accounts::id_of(group, name);
    // The last number means nobody.
    let number = || name.parse().ok().filter(|number| *number != u32::MAX);
    named.or_else(number).ok_or_else(|| StoreError::BadOption {
        what: format!(
            "--chown: there is no {} {name:?} at the destination",
            if group { "group" } else { "user" }
        ),
    })
}

/// What a user or group is called here.
pub(crate) fn owner_name(group: bool, id: u32) -> Option<Vec<u8>> {
    accounts::name_of(group, id).filter(|name| name.len() <= bounds::OWNER)
}

#[cfg(test)]
mod tests;
