//! Who may do what with a file that takes its name: docs/trees.md has the rule.
//!
//! A new file gets the bits that its sender names, through the umask or the default ACL of its directory, as open(2)
//! does it. One that replaces another keeps that one's owner, group, bits, ACL and `user.*` attributes. What cannot be kept makes
//! it narrower, never wider.

use crate::calls::retry;
use crate::descriptors::opened;
use rustix::fd::{AsFd, AsRawFd as _, OwnedFd};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid, XattrFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;

/// The attribute with the ACL of a file.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute with the ACL that a directory gives to what is made in it.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";
/// Larger ones are nobody's.
const ACL_MAX: usize = 64 << 10;

/// Bits of a file of which nothing else is known: as open(2) is asked by programs.
const USUAL: u32 = 0o666;

/// Gives a complete file its rights before it takes `name` in `dir`. `asked`: the permission bits of its source, if it
/// has any.
pub fn settle(file: &File, dir: &OwnedFd, name: &OsStr, asked: Option<u32>) -> Result<(), Errno> {
    let there = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    let there = there.ok().filter(is_file);
    let mode = match &there {
        Some(before) => carry(file, dir, name, before)?,
        None => new_mode(dir, asked.unwrap_or(USUAL)),
    };
    retry(|| rustix::fs::fchmod(file, Mode::from_raw_mode(mode as _)))
}

fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Gives `file` owner, group and ACL of what it replaces, as far as may be; the bits that it should get then.
#[allow(
    clippy::unnecessary_cast,
    clippy::cast_lossless,
    reason = "the fields' types differ between systems"
)]
fn carry(file: &File, dir: &OwnedFd, name: &OsStr, before: &Stat) -> Result<u32, Errno> {
    let mut mode = before.st_mode as u32 & 0o777;
    let now = rustix::fs::fstat(file)?;
    let (user, group) = (Uid::from_raw(before.st_uid), Gid::from_raw(before.st_gid));
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid) {
        let both = retry(|| rustix::fs::fchown(file, Some(user), Some(group)));
        if both.is_err() && retry(|| rustix::fs::fchown(file, None, Some(group))).is_err() {
            // Another group would get what was that one's.
            mode = without_group(mode);
        }
    }
    match acl_of(dir, name, before) {
        Ok(Some(acl)) => {
            let set = rustix::fs::fsetxattr(file, ACCESS, &acl, XattrFlags::empty());
            if set.is_err() {
                mode = without_acl(mode, &acl);
            }
        }
        Ok(None) => drop_acl(file)?,
        Err(_) => {
            drop_acl(file)?;
            // Not known: the mask's bits may be more than the group had.
            mode &= !0o070;
        }
    }
    Ok(mode)
}

/// Gives `file` the `user.*` attributes of the file that it is to replace, if there is one: `cp` and `scp` write into that
/// one, and so keep them.
pub fn carry_attributes(file: &File, dir: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    let there = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
    let Some(there) = there.ok().filter(is_file) else {
        return Ok(());
    };
    let mut list = vec![0; ACL_MAX];
    let old = open_same(dir, name, &there)?;
    let listed = match &old {
        Some(old) => rustix::fs::flistxattr(old, &mut *list),
        // What cannot be read has perhaps none.
        None => rustix::fs::llistxattr(&*path_of(dir, name), &mut *list),
    };
    let len = match listed {
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(()),
        listed => listed?,
    };
    let names = list.get(..len).unwrap_or_default().split(|&b| b == 0);
    let carry = |name: &[u8]| {
        let value = attribute(old.as_ref().ok_or(Errno::ACCESS)?, name)?;
        rustix::fs::fsetxattr(file, name, &value, XattrFlags::empty())
    };
    // One that fails keeps no other from coming.
    names
        .filter(|name| name.starts_with(b"user."))
        .map(carry)
        .fold(Ok(()), Result::and)
}

/// What `file` inherited from its directory goes.
pub fn drop_acl(file: impl AsFd) -> Result<(), Errno> {
    match rustix::fs::fremovexattr(file, ACCESS) {
        Err(Errno::NODATA | Errno::NOTSUP | Errno::NOSYS) => Ok(()),
        result => result,
    }
}

/// The ACL of a file, if it has one beyond its bits.
fn acl_of(dir: &OwnedFd, name: &OsStr, stat: &Stat) -> Result<Option<Vec<u8>>, Errno> {
    let read = if let Some(fd) = open_same(dir, name, stat)? {
        attribute(&fd, ACCESS)
    } else {
        // It cannot be read, but its attributes may be, by name.
        let mut value = vec![0; ACL_MAX];
        rustix::fs::lgetxattr(&*path_of(dir, name), ACCESS, &mut *value).map(|len| {
            value.truncate(len);
            value
        })
    };
    match read {
        Ok(acl) => Ok(Some(acl)),
        Err(Errno::NODATA | Errno::NOTSUP | Errno::NOSYS) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Opens that file, if it may be read.
fn open_same(dir: &OwnedFd, name: &OsStr, stat: &Stat) -> Result<Option<OwnedFd>, Errno> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let Ok(fd) = opened(|| rustix::fs::openat(dir, name, flags, Mode::empty())) else {
        return Ok(None);
    };
    let now = rustix::fs::fstat(&fd)?;
    if (now.st_dev, now.st_ino) != (stat.st_dev, stat.st_ino) {
        return Err(Errno::STALE);
    }
    Ok(Some(fd))
}

fn path_of(dir: &OwnedFd, name: &OsStr) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}/", dir.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.as_bytes());
    path
}

fn attribute(fd: impl AsFd, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; ACL_MAX];
    let len = rustix::fs::fgetxattr(fd.as_fd(), name, &mut *value)?;
    value.truncate(len);
    Ok(value)
}

/// Bits that open(2) gives a new file in `dir` when it is asked for `asked`: the umask takes some away, or a default
/// ACL (acl(5), "Object creation and default ACLs").
#[allow(
    clippy::unnecessary_cast,
    clippy::cast_lossless,
    reason = "the type of a mode differs between systems"
)]
pub fn new_mode(dir: impl AsFd, asked: u32) -> u32 {
    let asked = asked & 0o777;
    let default = attribute(dir, DEFAULT).ok();
    if let Some(bits) = default.as_deref().and_then(Bits::of) {
        return asked & (bits.user << 6 | bits.mask.unwrap_or(bits.group) << 3 | bits.other);
    }
    let mode = Mode::from_raw_mode(asked as _).difference(umask());
    mode.bits() as u32
}

/// The process's file mode creation mask.
pub fn umask() -> Mode {
    let from_proc = || {
        let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("Umask:"))?;
        u32::from_str_radix(line.trim(), 8).ok()
    };
    if let Some(mask) = from_proc() {
        return Mode::from_bits_truncate(mask as _);
    }
    // The only portable way to read it is to set it.
    let mask = rustix::process::umask(Mode::from_raw_mode(0o077));
    rustix::process::umask(mask);
    mask
}

/// The mode of a file that has this ACL, where that cannot be kept: the bits of the group are those of the mask, and
/// the group may have less.
pub fn without_acl(mode: u32, acl: &[u8]) -> u32 {
    mode & (!0o070 | group_bits(acl) << 3)
}

/// The same mode for a group that is another one: it has no more than others.
pub fn without_group(mode: u32) -> u32 {
    mode & (!0o070 | (mode & 0o007) << 3)
}

/// The same of an ACL.
pub fn for_another_group(acl: &[u8]) -> Option<Vec<u8>> {
    let mut entries = entries(acl)?;
    let others = entries.iter().find(|entry| entry.tag == Tag::Other)?.perm;
    for entry in &mut entries {
        if entry.tag == Tag::GroupObj {
            entry.perm &= others;
        }
    }
    Some(acl_of_entries(&mut entries))
}

/// What chmod(2) makes of an ACL: bits of the group are those of its mask, where it has one.
pub fn after_chmod(acl: &[u8], mode: u32) -> Option<Vec<u8>> {
    let mut entries = entries(acl)?;
    let has_mask = entries.iter().any(|entry| entry.tag == Tag::Mask);
    for entry in &mut entries {
        let shift = match entry.tag {
            Tag::UserObj => 6,
            Tag::Mask => 3,
            Tag::GroupObj if !has_mask => 3,
            Tag::Other => 0,
            Tag::GroupObj | Tag::User | Tag::Group => continue,
        };
        entry.perm = (mode >> shift & 7) as u16;
    }
    Some(acl_of_entries(&mut entries))
}

fn group_bits(acl: &[u8]) -> u32 {
    Bits::of(acl).map_or(0, |bits| bits.group & bits.mask.unwrap_or(0o7))
}

/// The entries of an ACL that bits of a mode stand for, three bits each.
#[derive(Debug, Default)]
struct Bits {
    user: u32,
    group: u32,
    mask: Option<u32>,
    other: u32,
}

impl Bits {
    fn of(acl: &[u8]) -> Option<Self> {
        let mut bits = Self::default();
        for entry in entries(acl)? {
            let perm = u32::from(entry.perm & 7);
            match entry.tag {
                Tag::UserObj => bits.user = perm,
                Tag::GroupObj => bits.group = perm,
                Tag::Mask => bits.mask = Some(perm),
                Tag::Other => bits.other = perm,
                Tag::User | Tag::Group => {}
            }
        }
        Some(bits)
    }
}

/// Whom an entry of an ACL is about (`linux/posix_acl.h`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Tag {
    /// The owner.
    UserObj,
    /// Another user.
    User,
    /// The group of the file.
    GroupObj,
    /// Another group.
    Group,
    /// The most that other users, and any group, get.
    Mask,
    /// Everybody else.
    Other,
}

/// An entry of an ACL.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AclEntry {
    /// Whom it is about.
    pub tag: Tag,
    /// Read, write, execute, as in a mode.
    pub perm: u16,
    /// Of a user or group.
    pub id: u32,
}

const VERSION: [u8; 4] = 2u32.to_le_bytes();
const TAGS: [(u16, Tag); 6] = [
    (0x01, Tag::UserObj),
    (0x02, Tag::User),
    (0x04, Tag::GroupObj),
    (0x08, Tag::Group),
    (0x10, Tag::Mask),
    (0x20, Tag::Other),
];

/// The entries of an ACL as Linux writes it into an attribute (`linux/posix_acl_xattr.h`); `None` if it is none.
pub fn entries(acl: &[u8]) -> Option<Vec<AclEntry>> {
    let rest = acl.strip_prefix(&VERSION)?;
    let (chunks, []) = rest.as_chunks::<8>() else {
        return None;
    };
    chunks
        .iter()
        .map(|&[t0, t1, p0, p1, id @ ..]| {
            let number = u16::from_le_bytes([t0, t1]);
            let (_, tag) = TAGS.into_iter().find(|(n, _)| *n == number)?;
            Some(AclEntry {
                tag,
                perm: u16::from_le_bytes([p0, p1]),
                id: u32::from_le_bytes(id),
            })
        })
        .collect()
}

/// The same back to bytes. Linux wants the entries sorted.
pub fn acl_of_entries(entries: &mut [AclEntry]) -> Vec<u8> {
    let number = |tag| {
        TAGS.into_iter()
            .find(|(_, t)| *t == tag)
            .map_or(0, |(n, _)| n)
    };
    entries.sort_by_key(|entry| (number(entry.tag), entry.id));
    let mut acl = VERSION.to_vec();
    for entry in entries {
        acl.extend_from_slice(&number(entry.tag).to_le_bytes());
        acl.extend_from_slice(&entry.perm.to_le_bytes());
        acl.extend_from_slice(&entry.id.to_le_bytes());
    }
    acl
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(list: &[(Tag, u16, u32)]) -> Vec<u8> {
        let entry = |&(tag, perm, id)| AclEntry { tag, perm, id };
        acl_of_entries(&mut list.iter().map(entry).collect::<Vec<_>>())
    }

    #[test]
    fn an_acl_is_read_as_it_is_written() {
        let none = u32::MAX;
        let written = acl(&[
            (Tag::Other, 0, none),
            (Tag::UserObj, 7, none),
            (Tag::Group, 5, 100),
            (Tag::GroupObj, 5, none),
            (Tag::Mask, 6, none),
            (Tag::User, 4, 1001),
        ]);
        assert_eq!(written.len(), 4 + 6 * 8);
        let read = entries(&written).unwrap();
        assert_eq!(read[1].tag, Tag::User);
        assert_eq!((read[1].perm, read[1].id), (4, 1001));
        let bits = Bits::of(&written).unwrap();
        assert_eq!(
            (bits.user, bits.group, bits.mask, bits.other),
            (7, 5, Some(6), 0)
        );
        assert_eq!(group_bits(&written), 4);
        for bad in [
            &b""[..],
            &written[..9],
            b"\x01\0\0\0",
            b"\x02\0\0\0\x03\0\0\0\0\0\0\0",
        ] {
            assert!(entries(bad).is_none(), "{bad:?}");
        }
    }
}
