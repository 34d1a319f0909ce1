//! Makes changes of a tree as whoever runs the test. What cannot be done is left out.

use crate::differential::ops::{Acl, Attributes, Op, Ops, Time, What};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};

/// What this user and this disk can do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Able {
    pub(crate) is_root: bool,
    pub(crate) has_xattrs: bool,
    pub(crate) has_acls: bool,
}

/// Some that nobody has here, and some that are known.
const IDS: [u32; 6] = [0, 70_000, 1, 70_001, 65_534, 70_002];
const KEYS: [&str; 5] = ["user.a", "user.b", "user.c", "user.\u{e9}", "user.long"];

impl Able {
    pub(crate) fn probe(dir: &Path) -> Self {
        let path = dir.join("probe");
        fs::write(&path, "").unwrap();
        let set = |name: &str, value: &[u8]| {
            let set = rustix::fs::setxattr(&path, name, value, XattrFlags::empty());
            if let Err(e) = &set {
                println!("left out: this disk has no {name} ({e})");
            }
            set.is_ok()
        };
        let acl = Acl {
            user: 6,
            users: vec![(1, 4)],
            group: 4,
            groups: Vec::new(),
            mask: 4,
            other: 0,
        };
        let able = Self {
            is_root: rustix::process::geteuid().is_root(),
            has_xattrs: set(KEYS[0], b"x"),
            has_acls: set("system.posix_acl_access", &bytes_of(&acl, 0)),
        };
        if !able.is_root {
            println!("left out: owners, for only root can give files away");
        }
        fs::remove_file(path).unwrap();
        able
    }

    /// What both disks keep.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            is_root: self.is_root,
            has_xattrs: self.has_xattrs && other.has_xattrs,
            has_acls: self.has_acls && other.has_acls,
        }
    }

    pub(crate) fn apply(self, top: &Path, ops: &Ops) {
        for op in &ops.0 {
            // A name that is taken, no room for attributes, and the like.
            let _ = self.one(top, op);
        }
    }

    fn one(self, top: &Path, op: &Op) -> io::Result<()> {
        let all = walk(top);
        let pick = |list: &[PathBuf], at: usize| match list.len() {
            0 => Err(io::Error::from(io::ErrorKind::NotFound)),
            len => Ok(list[at % len].clone()),
        };
        let dirs = || -> Vec<_> {
            let below = all.iter().filter(|path| is(path, FileType::Directory));
            std::iter::once(top.to_owned())
                .chain(below.cloned())
                .collect()
        };
        let files = || -> Vec<_> {
            let files = all.iter().filter(|path| is(path, FileType::RegularFile));
            files.cloned().collect()
        };
        match op {
            Op::Make(dir, name, what, attributes) => {
                let path = pick(&dirs(), *dir)?.join(OsStr::from_bytes(&name.0));
                self.make(&path, what, attributes)
            }
            Op::Twin(of, dir, name) => {
                let path = pick(&dirs(), *dir)?.join(OsStr::from_bytes(&name.0));
                let of = pick(&files(), *of)?;
                self.opened(&path, || fs::hard_link(of, &path))
            }
            Op::Remove(at) => {
                let path = pick(&all, *at)?;
                self.remove(&path)
            }
            Op::Rename(at, dir, name) => {
                let from = pick(&all, *at)?;
                let to = pick(&dirs(), *dir)?.join(OsStr::from_bytes(&name.0));
                if fs::symlink_metadata(&to).is_ok() {
                    return Ok(());
                }
                // A directory that moves has its own ".." to write.
                self.opened(&from, || self.opened(&to, || fs::rename(&from, &to)))
            }
            Op::Replace(at, what, attributes) => {
                let path = pick(&all, *at)?;
                self.remove(&path)?;
                self.make(&path, what, attributes)
            }
            Op::Rewrite(at, size, fill, time) => {
                let path = pick(&files(), *at)?;
                let meta = fs::metadata(&path)?;
                let was = (meta.mtime(), meta.mtime_nsec() as u32);
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
                fs::write(&path, vec![*fill; *size])?;
                fs::set_permissions(&path, meta.permissions())?;
                set_time(&path, time.unwrap_or(was))
            }
            Op::Time(at, time) => set_time(&pick(&all, *at)?, *time),
            Op::Mode(at, mode) => self.set_mode(&pick(&all, *at)?, *mode),
            Op::Owner(at, owner) => self.set_owner(&pick(&all, *at)?, *owner),
            Op::Xattr(at, key, value) => {
                self.set_xattr(&pick(&all, *at)?, KEYS[*key], value.as_ref())
            }
            Op::Acl(at, default, acl) => {
                let path = pick(&all, *at)?;
                let is_dir = is(&path, FileType::Directory);
                if !self.has_acls || is(&path, FileType::Symlink) || *default && !is_dir {
                    return Ok(());
                }
                let name = ["system.posix_acl_access", "system.posix_acl_default"];
                let name = name[usize::from(*default)];
                // Whoever owns it must be able to read it.
                let own = if *default { 0 } else { 4 + u16::from(is_dir) };
                match acl {
                    Some(acl) => {
                        let acl = bytes_of(acl, own);
                        rustix::fs::setxattr(&path, name, &acl, XattrFlags::empty())?;
                    }
                    None => rustix::fs::removexattr(&path, name)?,
                }
                Ok(())
            }
        }
    }

    fn make(self, path: &Path, what: &What, attributes: &Attributes) -> io::Result<()> {
        self.opened(path, || match what {
            What::File(size, fill, hole) => {
                let file = File::create_new(path)?;
                file.write_all_at(&vec![*fill; *size], 0)?;
                if *hole > 0 {
                    file.write_all_at(&[1], *size as u64 + u64::from(*hole))?;
                }
                Ok(())
            }
            What::Dir => fs::create_dir(path),
            What::Link(target) => symlink(OsStr::from_bytes(&target.0), path),
            What::Fifo => {
                let mode = Mode::RUSR | Mode::WUSR;
                Ok(rustix::fs::mknodat(CWD, path, FileType::Fifo, mode, 0)?)
            }
        })?;
        self.set_owner(path, attributes.owner)?;
        self.set_mode(path, attributes.mode)?;
        set_time(path, attributes.time)
    }

    fn remove(self, path: &Path) -> io::Result<()> {
        if is(path, FileType::Directory) {
            self.let_in(path)?;
            for entry in fs::read_dir(path)? {
                self.remove(&entry?.path())?;
            }
            return self.opened(path, || fs::remove_dir(path));
        }
        self.opened(path, || fs::remove_file(path))
    }

    /// Does something with a name in a directory that may be closed; its mode is the same afterwards.
    fn opened(self, path: &Path, act: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let dir = path.parent().unwrap();
        let mode = fs::metadata(dir)?.permissions();
        self.let_in(dir)?;
        let done = act();
        if !self.is_root {
            fs::set_permissions(dir, mode)?;
        }
        done
    }

    fn let_in(self, dir: &Path) -> io::Result<()> {
        if !self.is_root {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
        }
        Ok(())
    }

    fn set_mode(self, path: &Path, mode: u32) -> io::Result<()> {
        if is(path, FileType::Symlink) {
            return Ok(());
        }
        // Whoever owns it must be able to read it.
        let own = match (self.is_root, is(path, FileType::Directory)) {
            (true, _) => 0,
            (_, true) => 0o500,
            (_, false) => 0o400,
        };
        fs::set_permissions(path, fs::Permissions::from_mode(mode | own))
    }

    fn set_owner(self, path: &Path, owner: usize) -> io::Result<()> {
        if self.is_root {
            let group = IDS[(owner * 5 + 1) % IDS.len()];
            lchown(path, Some(IDS[owner]), Some(group))?;
        }
        Ok(())
    }

    fn set_xattr(self, path: &Path, key: &str, value: Option<&Vec<u8>>) -> io::Result<()> {
        if !self.has_xattrs || is(path, FileType::Symlink) {
            return Ok(());
        }
        let mode = fs::metadata(path)?.permissions();
        let key = if key == "user.long" {
            format!("user.{}", "l".repeat(200))
        } else {
            key.to_owned()
        };
        if !self.is_root {
            // Only what may be written to.
            fs::set_permissions(path, fs::Permissions::from_mode(mode.mode() | 0o200))?;
        }
        let done = match value {
            Some(value) => rustix::fs::setxattr(path, &*key, value, XattrFlags::empty()),
            None => rustix::fs::removexattr(path, &*key),
        };
        if !self.is_root {
            fs::set_permissions(path, mode)?;
        }
        Ok(done?)
    }
}

/// Gives another time to what was changed just now: rsync takes two times of one second for the same.
pub(crate) fn age(top: &Path) {
    let now = std::time::SystemTime::now();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    let all = std::iter::once(top.to_owned()).chain(walk(top));
    for (path, number) in all.zip(1..) {
        let time = fs::symlink_metadata(&path).unwrap().mtime();
        if (time - now).abs() < 3600 {
            set_time(&path, (1_000_000_000 + now % 1000 + 1000 * number, 5)).unwrap();
        }
    }
}

fn is(path: &Path, kind: FileType) -> bool {
    let stat = rustix::fs::lstat(path);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == kind)
}

/// Whatever is below `top` but for fifos, sorted.
fn walk(top: &Path) -> Vec<PathBuf> {
    fn into(dir: &Path, all: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).into_iter().flatten() {
            let path = entry.unwrap().path();
            if is(&path, FileType::Fifo) {
                continue;
            }
            if is(&path, FileType::Directory) {
                into(&path, all);
            }
            all.push(path);
        }
    }
    let mut all = Vec::new();
    into(top, &mut all);
    all.sort();
    all
}

fn set_time(path: &Path, (secs, nanos): Time) -> io::Result<()> {
    let time = Timespec {
        tv_sec: secs,
        tv_nsec: nanos.into(),
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    Ok(rustix::fs::utimensat(
        CWD,
        path,
        &times,
        AtFlags::SYMLINK_NOFOLLOW,
    )?)
}

/// As Linux takes it (`linux/posix_acl_xattr.h`). The owner has at least these bits.
fn bytes_of(acl: &Acl, own: u16) -> Vec<u8> {
    let none = u32::MAX;
    let named = |tag: u16, list: &[(usize, u16)]| {
        let ids = list.iter().map(|(at, perm)| (tag, *perm, IDS[1 + at]));
        let mut entries: Vec<_> = ids.collect();
        entries.sort_by_key(|entry| entry.2);
        entries.dedup_by_key(|entry| entry.2);
        entries
    };
    let mut entries = vec![(0x01, acl.user | own, none)];
    entries.extend(named(0x02, &acl.users));
    entries.push((0x04, acl.group, none));
    entries.extend(named(0x08, &acl.groups));
    if entries.len() > 2 {
        entries.push((0x10, acl.mask, none));
    }
    entries.push((0x20, acl.other, none));
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&perm.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}
