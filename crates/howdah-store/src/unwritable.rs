//! Destinations that take no files, and why.

use crate::StoreError;
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

const NO_NEW: &str = "its file system takes no new files";
const REMOVED: &str = "the directory that it is to lie in was removed";

/// An error if what lies in `dir` is not on a disk but made by the kernel, as in /proc: some of these file systems say that there
/// is no such file when none can be made, others make something else.
pub fn check(dir: impl AsFd, path: &Path) -> Result<(), StoreError> {
    if is_view(dir) {
        let why = "the kernel makes what lies there (as in /proc and /sys), and it takes no files";
        return Err(not_writable(path, why));
    }
    Ok(())
}

/// Whether directories may be made in `dir`, as far as can be known without making one. `opens`: its owner lets himself.
pub fn takes_names(dir: impl AsFd, opens: bool) -> Result<(), Errno> {
    use rustix::fs::{Access, AtFlags, accessat, fstat};
    let is_ours = || {
        opens && fstat(&dir).is_ok_and(|stat| stat.st_uid == rustix::process::geteuid().as_raw())
    };
    match accessat(
        &dir,
        ".",
        Access::WRITE_OK | Access::EXEC_OK,
        AtFlags::EACCESS,
    ) {
        Err(Errno::ACCESS) if is_ours() => Ok(()),
        // The second one: nobody may, not even root (`chattr +i`).
        Err(e @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => Err(e),
        _ => Ok(()),
    }
}

/// Whether `name` can go from `dir`, as far as can be known without trying. `opens`: the directory's owner lets himself.
pub fn lets_go(dir: impl AsFd, name: &OsStr, opens: bool) -> Result<(), Errno> {
    takes_names(&dir, opens)?;
    match will_protect(dir, name) {
        Some(_) => Err(Errno::PERM),
        None => Ok(()),
    }
}

/// The same as [`takes_names`] of what is renamed when it is complete.
pub fn takes_files(dir: impl AsFd, opens: bool) -> Result<(), Errno> {
    takes_names(&dir, opens)?;
    if keeps_names(&dir) {
        return Err(Errno::PERM);
    }
    Ok(())
}

/// The error of making, or naming, something called `path` in `dir`: what of it is the destination's fault is said as that.
pub fn from_making(
    dir: impl AsFd,
    path: &Path,
    operation: &'static str,
    error: Errno,
) -> StoreError {
    let is_gone = || rustix::fs::fstat(&dir).is_ok_and(|stat| stat.st_nlink == 0);
    let why = match error {
        Errno::NOENT if is_gone() => REMOVED,
        Errno::NOENT | Errno::NOSYS | Errno::OPNOTSUPP | Errno::NODEV | Errno::NXIO => NO_NEW,
        Errno::NAMETOOLONG => "its file system does not take so long a name",
        Errno::INVAL | Errno::ILSEQ => "its file system does not take such a name",
        Errno::BUSY => "something is mounted under that name, or uses it",
        e => return from_changing(dir, path, operation, e),
    };
    not_writable(path, why)
}

/// The error of giving a complete file its name `path` in `dir`.
pub fn from_naming(dir: impl AsFd, path: &Path, error: Errno) -> StoreError {
    let is_gone = || rustix::fs::fstat(&dir).is_ok_and(|stat| stat.st_nlink == 0);
    match error {
        Errno::NOENT if is_gone() => not_writable(path, REMOVED),
        Errno::NOENT => {
            let why = "another program has removed or renamed its unfinished file meanwhile";
            not_writable(path, why)
        }
        Errno::BUSY | Errno::PERM => from_making(dir, path, "rename to", error),
        e => StoreError::from_io(path, "rename the finished file to", e),
    }
}

/// The error of changing, replacing or removing something called `path` in `dir`.
pub fn from_changing(
    dir: impl AsFd,
    path: &Path,
    operation: &'static str,
    error: Errno,
) -> StoreError {
    match (error, path.file_name()) {
        (Errno::PERM, Some(name)) => protection(dir, name).map_or_else(
            || StoreError::from_io(path, operation, error),
            |why| not_writable(path, why),
        ),
        _ => StoreError::from_io(path, operation, error),
    }
}

/// What keeps somebody who may write in `dir` from changing `name` there.
pub fn protection(dir: impl AsFd, name: &OsStr) -> Option<Cow<'static, str>> {
    attribute(&dir, name)
        .map(Cow::Borrowed)
        .or_else(|| sticky(dir, name).map(Cow::Owned))
}

/// What will keep us from changing `name` there, as far as that is known without trying.
pub fn will_protect(dir: impl AsFd, name: &OsStr) -> Option<Cow<'static, str>> {
    let is_root = rustix::process::geteuid().is_root();
    attribute(&dir, name).map(Cow::Borrowed).or_else(|| {
        // Root passes over the sticky bit.
        let sticky = (!is_root).then(|| sticky(dir, name));
        sticky.flatten().map(Cow::Owned)
    })
}

/// In a directory with the sticky bit names belong to whoever owns what has them.
#[allow(
    clippy::useless_conversion,
    reason = "the field's type differs between systems"
)]
fn sticky(dir: impl AsFd, name: &OsStr) -> Option<String> {
    use rustix::fs::{AtFlags, Mode, fstat, statat};
    let above = fstat(&dir).ok()?;
    let is_sticky = u32::from(above.st_mode) & Mode::SVTX.as_raw_mode() != 0;
    let it = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)
        .ok()
        .filter(|_| is_sticky)?;
    let we = rustix::process::geteuid().as_raw();
    (it.st_uid != we && above.st_uid != we).then(|| {
        format!(
            "it belongs to user {}, and its directory has the sticky bit (as /tmp has), so that only this user, or the \
             directory's owner, may replace or remove it; take another name or directory, or have it removed",
            it.st_uid
        )
    })
}

/// What attribute keeps even its owner, and root, from changing `name` in `dir`.
#[cfg(target_os = "linux")]
fn attribute(dir: impl AsFd, name: &OsStr) -> Option<&'static str> {
    use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};
    let of = |name: &OsStr, flags| {
        let found = statx(&dir, name, flags, StatxFlags::empty()).ok()?;
        Some(found.stx_attributes & found.stx_attributes_mask)
    };
    let has = |found: Option<StatxAttributes>, flag| found.is_some_and(|all| all.contains(flag));
    let it = of(name, AtFlags::SYMLINK_NOFOLLOW);
    let above = of(OsStr::new(""), AtFlags::EMPTY_PATH);
    if has(it, StatxAttributes::IMMUTABLE) {
        Some("it has the attribute i (immutable), which chattr -i takes away")
    } else if has(it, StatxAttributes::APPEND) {
        Some("it has the attribute a (append only), which chattr -a takes away")
    } else if has(above, StatxAttributes::IMMUTABLE) {
        Some("its directory has the attribute i (immutable), which chattr -i takes away")
    } else if has(above, StatxAttributes::APPEND) {
        Some("its directory has the attribute a (append only), which chattr -a takes away")
    } else {
        None
    }
}

/// Whether no name that is given in `dir` can be changed or taken away again (`chattr +a`): what is made there under a temporary
/// name would stay for ever.
#[cfg(target_os = "linux")]
pub fn keeps_names(dir: impl AsFd) -> bool {
    use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};
    let found = statx(dir, c"", AtFlags::EMPTY_PATH, StatxFlags::empty());
    found.is_ok_and(|found| {
        let all = found.stx_attributes & found.stx_attributes_mask;
        all.contains(StatxAttributes::APPEND)
    })
}

#[cfg(not(target_os = "linux"))]
pub fn keeps_names(_: impl AsFd) -> bool {
    false
}

/// An error if files that are to be renamed cannot be made in `dir`.
pub fn check_names(dir: impl AsFd, path: &Path) -> Result<(), StoreError> {
    if keeps_names(&dir) {
        return Err(from_changing(dir, path, "rename to", Errno::PERM));
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn attribute(_: impl AsFd, _: &OsStr) -> Option<&'static str> {
    None
}

/// That nothing can be made there.
pub fn not_writable(path: &Path, why: impl Into<Cow<'static, str>>) -> StoreError {
    StoreError::NotWritable {
        path: path.to_path_buf(),
        why: why.into(),
    }
}

/// Whether what lies there is made by the kernel when it is read.
#[cfg(target_os = "linux")]
pub fn is_view(dir: impl AsFd) -> bool {
    // linux/magic.h
    const VIEWS: [u32; 13] = [
        0x0000_9fa0, // proc
        0x6265_6572, // sysfs
        0x0027_e0eb, // cgroup
        0x6367_7270, // cgroup2
        0x6462_6720, // debugfs
        0x7472_6163, // tracefs
        0x7363_6673, // securityfs
        0xcafe_4a11, // bpf
        0x0000_1cd1, // devpts
        0xf97c_ff8c, // selinuxfs
        0xde5e_81e4, // efivarfs
        0x6265_6570, // configfs
        0x6573_5543, // fusectl
    ];
    rustix::fs::fstatfs(dir).is_ok_and(|fs| VIEWS.contains(&(fs.f_type as u32)))
}

#[cfg(not(target_os = "linux"))]
pub fn is_view(_: impl AsFd) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn o8_what_the_kernel_makes_takes_no_files() {
        for (dir, takes) in [
            ("/proc", false),
            ("/sys", false),
            ("/proc/self", false),
            ("/tmp", true),
        ] {
            let Ok(open) = File::open(dir) else { continue };
            assert_eq!(check(&open, Path::new("x")).is_ok(), takes, "{dir}");
        }
    }

    #[test]
    fn o8_a_place_that_takes_no_file_is_no_missing_source() {
        let place = tempfile::tempdir().unwrap();
        let gone = place.path().join("gone");
        std::fs::create_dir(&gone).unwrap();
        let dir = File::open(&gone).unwrap();
        std::fs::remove_dir(&gone).unwrap();
        let says = |errno, part: &str| {
            let error = from_making(&dir, Path::new("x"), "make", errno);
            assert!(matches!(error, StoreError::NotWritable { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.contains("\"x\"") && text.contains(part), "{text}");
        };
        says(Errno::NOENT, "was removed");
        says(Errno::ROFS, "read-only");
        says(Errno::NOSYS, NO_NEW);
        says(Errno::NAMETOOLONG, "so long a name");
        says(Errno::INVAL, "such a name");
        let full = from_making(&dir, Path::new("x"), "make", Errno::NOSPC);
        assert!(matches!(full, StoreError::NoSpace { .. }));
    }
}
