//! Modes, times, owners and extended attributes: read at the source, set at the destination, always
//! through descriptors.

use super::entry::{Meta, Stamp, Xattrs, bounds};
use crate::root::retry;
use rustix::fd::{AsFd, AsRawFd as _};
use rustix::fs::{Gid, Mode, Stat, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Mutex;

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
        mtime: Stamp::modified(stat),
        owner: archive.then_some((stat.st_uid, stat.st_gid)),
        xattrs: Vec::new(),
    }
}

/// Attributes that mean something on another machine: the user's own, and ACLs. Those of the security
/// modules and of file systems do not, and capabilities are not for a peer to hand out.
fn is_portable(name: &[u8]) -> bool {
    name.starts_with(b"user.")
        || matches!(
            name,
            b"system.posix_acl_access" | b"system.posix_acl_default"
        )
}

/// The portable attributes of `name` in `dir` (of `dir` itself: `"."`), and whether others were left
/// out. A link is not followed.
#[cfg(target_os = "linux")]
pub(crate) fn xattrs(dir: impl AsFd, name: &OsStr) -> Result<(Xattrs, bool), Errno> {
    use rustix::fs::{lgetxattr, llistxattr};
    // The descriptor's own directory, then one name that is not followed: nothing to race with.
    let mut path = format!("/proc/self/fd/{}/", dir.as_fd().as_raw_fd()).into_bytes();
    path.extend_from_slice(name.as_bytes());
    let mut list = vec![0u8; 1024];
    let len = loop {
        match llistxattr(&*path, &mut *list) {
            Err(Errno::RANGE) if list.len() < 64 << 10 => list.resize(list.len() * 8, 0),
            Err(Errno::NOTSUP | Errno::NOENT) => return Ok((Vec::new(), false)),
            result => break result?,
        }
    };
    let (mut found, mut left_out) = (Vec::new(), false);
    let names = list.get(..len).unwrap_or_default();
    for attribute in names.split(|&b| b == 0).filter(|name| !name.is_empty()) {
        // What SELinux gives every file is no loss.
        if !is_portable(attribute) || found.len() as u64 >= bounds::XATTRS {
            left_out |= attribute != b"security.selinux";
            continue;
        }
        let mut value = vec![0u8; bounds::XATTR_VALUE];
        match lgetxattr(&*path, attribute, &mut *value) {
            Ok(len) => {
                value.truncate(len);
                value.shrink_to_fit();
                found.push((attribute.to_vec(), value));
            }
            Err(Errno::NODATA) => {}
            Err(e) => return Err(e),
        }
    }
    found.sort();
    Ok((found, left_out))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn xattrs(_: impl AsFd, _: &OsStr) -> Result<(Xattrs, bool), Errno> {
    Ok((Vec::new(), false))
}

/// What the receiver keeps, and who is who there.
#[derive(Debug)]
pub(crate) struct Keeper {
    archive: bool,
    root: bool,
    users: Mutex<HashMap<u32, u32>>,
    groups: Mutex<HashMap<u32, u32>>,
}

impl Keeper {
    pub(crate) fn new(archive: bool) -> Self {
        Self {
            archive,
            root: rustix::process::geteuid().is_root(),
            users: Mutex::default(),
            groups: Mutex::default(),
        }
    }

    /// The source calls that number so.
    pub(crate) fn learn(&self, group: bool, id: u32, name: &[u8]) {
        let Ok(name) = std::str::from_utf8(name) else {
            return;
        };
        let (map, here) = if group {
            let group = nix::unistd::Group::from_name(name).ok().flatten();
            (&self.groups, group.map(|group| group.gid.as_raw()))
        } else {
            let user = nix::unistd::User::from_name(name).ok().flatten();
            (&self.users, user.map(|user| user.uid.as_raw()))
        };
        if let Some(here) = here {
            let mut map = super::queue::lock(map);
            if map.len() < bounds::OWNERS {
                map.insert(id, here);
            }
        }
    }

    fn owner(&self, (user, group): (u32, u32)) -> (Uid, Gid) {
        let here = |map: &Mutex<HashMap<u32, u32>>, id| {
            super::queue::lock(map).get(&id).copied().unwrap_or(id)
        };
        (
            Uid::from_raw(here(&self.users, user)),
            Gid::from_raw(here(&self.groups, group)),
        )
    }

    /// Whether those are the owner and the group that it is to have.
    pub(crate) fn is_owner(&self, meta: &Meta, user: u32, group: u32) -> bool {
        meta.owner.is_none_or(|owner| {
            let (our_user, our_group) = self.owner(owner);
            (our_user.as_raw(), our_group.as_raw()) == (user, group)
        })
    }

    /// Whether an open directory has all that already.
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_lossless,
        reason = "the field's type differs between systems"
    )]
    pub(crate) fn is_kept(&self, dir: impl AsFd, meta: &Meta) -> bool {
        let Ok(stat) = rustix::fs::fstat(&dir) else {
            return false;
        };
        stat.st_mode as u32 & 0o7777 == self.mode(meta, true)
            && Stamp::modified(&stat).is_same_moment(meta.mtime)
            && (!self.archive
                || self.is_owner(meta, stat.st_uid, stat.st_gid)
                    && xattrs(&dir, OsStr::new(".")).is_ok_and(|(found, _)| found == meta.xattrs))
    }

    /// Mode bits that are set: the special ones only if the owner is kept as well.
    pub(crate) fn mode(&self, meta: &Meta, is_dir: bool) -> u32 {
        let special = self.archive && (self.root || is_dir);
        meta.mode & if special { 0o7777 } else { 0o777 }
    }

    /// Gives an open file or directory its owner, attributes, mode and times, in this order: a change
    /// of the owner takes the special bits away, and everything before changes the times.
    pub(crate) fn apply(&self, fd: impl AsFd, meta: &Meta, is_dir: bool) -> Vec<NotKept> {
        let fd = fd.as_fd();
        let mut not_kept = Vec::new();
        let mut note = |what, result: Result<(), Errno>| {
            if let Err(e) = result {
                not_kept.push((what, e));
            }
        };
        let mut mode = self.mode(meta, is_dir);
        if self.archive {
            if let Some(owner) = meta.owner {
                let (user, group) = self.owner(owner);
                let changed = rustix::fs::fstat(fd).and_then(|stat| {
                    if (stat.st_uid, stat.st_gid) == (user.as_raw(), group.as_raw()) {
                        return Ok(());
                    }
                    let new_user = (stat.st_uid != user.as_raw()).then_some(user);
                    retry(|| rustix::fs::fchown(fd, new_user, Some(group))).inspect_err(|_| {
                        // Somebody else than root may at least give it to one of his groups.
                        let _ = retry(|| rustix::fs::fchown(fd, None, Some(group)));
                    })
                });
                if changed.is_err() && !is_dir {
                    // Its bits were meant for another owner.
                    mode &= 0o777;
                }
                note("owner", changed);
            }
            for (name, value) in &meta.xattrs {
                if is_portable(name) {
                    let set = rustix::fs::fsetxattr(fd, &**name, value, XattrFlags::empty());
                    note("extended attribute", set);
                }
            }
        }
        let mode = Mode::from_raw_mode(mode);
        note("mode", retry(|| rustix::fs::fchmod(fd, mode)));
        note("time", set_time(fd, meta.mtime));
        not_kept
    }
}

/// Sets the time of modification; that of access is now.
pub(crate) fn set_time(fd: impl AsFd, mtime: Stamp) -> Result<(), Errno> {
    let times = times(mtime);
    retry(|| rustix::fs::futimens(fd.as_fd(), &times))
}

pub(crate) fn times(mtime: Stamp) -> Timestamps {
    Timestamps {
        last_access: rustix::fs::Timespec {
            tv_sec: 0,
            // Left out, FUSE file systems of libfuse 2 would leave both alone and say nothing.
            tv_nsec: rustix::fs::UTIME_NOW as _,
        },
        last_modification: mtime.to_timespec(),
    }
}

/// What a user or group is called here.
pub(crate) fn owner_name(group: bool, id: u32) -> Option<Vec<u8>> {
    let name = if group {
        nix::unistd::Group::from_gid(id.into()).ok()??.name
    } else {
        nix::unistd::User::from_uid(id.into()).ok()??.name
    };
    (name.len() <= bounds::OWNER).then(|| name.into_bytes())
}
