//! Extended attributes as they are read.

use super::super::entry::{Xattrs, bounds};
use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// Attributes that mean something on another machine: the user's own, and ACLs. Those of the security
/// modules and of file systems do not, and capabilities are not for a peer to hand out.
pub(super) fn is_portable(name: &[u8]) -> bool {
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
    let dir = dir.as_fd();
    if name == "." {
        return xattrs_of(&Open(dir));
    }
    // The descriptor's own directory, then one name that is not followed: nothing to race with.
    let mut path = format!("/proc/self/fd/{}/", dir.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.as_bytes());
    match xattrs_of(&Named(path)) {
        // It may have vanished, or there is no /proc here: then it must be opened.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {
            let file = super::super::existing::open_plain_at(dir, name)?;
            xattrs_of(&Open(file.as_fd()))
        }
        result => result,
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn xattrs(_: impl AsFd, _: &OsStr) -> Result<(Xattrs, bool), Errno> {
    Ok((Vec::new(), false))
}

/// Where attributes are read.
#[cfg(target_os = "linux")]
trait Attributes {
    fn list(&self, buffer: &mut [u8]) -> Result<usize, Errno>;
    fn get(&self, name: &[u8], buffer: &mut [u8]) -> Result<usize, Errno>;
}

#[cfg(target_os = "linux")]
struct Named(Vec<u8>);

#[cfg(target_os = "linux")]
impl Attributes for Named {
    fn list(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        rustix::fs::llistxattr(&*self.0, buffer)
    }

    fn get(&self, name: &[u8], buffer: &mut [u8]) -> Result<usize, Errno> {
        rustix::fs::lgetxattr(&*self.0, name, buffer)
    }
}

#[cfg(target_os = "linux")]
struct Open<'a>(BorrowedFd<'a>);

#[cfg(target_os = "linux")]
impl Attributes for Open<'_> {
    fn list(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        rustix::fs::flistxattr(self.0, buffer)
    }

    fn get(&self, name: &[u8], buffer: &mut [u8]) -> Result<usize, Errno> {
        rustix::fs::fgetxattr(self.0, name, buffer)
    }
}

#[cfg(target_os = "linux")]
fn xattrs_of(place: &impl Attributes) -> Result<(Xattrs, bool), Errno> {
    let mut list = vec![0u8; 1024];
    let len = loop {
        match place.list(&mut list) {
            Err(Errno::RANGE) if list.len() < 64 << 10 => list.resize(list.len() * 8, 0),
            Err(Errno::NOTSUP) => return Ok((Vec::new(), false)),
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
        match place.get(attribute, &mut value) {
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
