//! Extended attributes as they are read.

use howdah_session::entry::{Xattrs, bounds};
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

/// What of a name's attributes was not read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LeftOut {
    Nothing,
    /// What means nothing on another machine.
    Foreign,
    /// There are more than are told of one name.
    TooMany,
}

/// The portable attributes of `name` in `dir` (of `dir` itself: `"."`), the first of them by their names, and what was left
/// out. A link is not followed.
#[cfg(target_os = "linux")]
pub(crate) fn xattrs(dir: impl AsFd, name: &OsStr) -> Result<(Xattrs, LeftOut), Errno> {
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
            let file = super::super::open::open_plain_at(dir, name)?;
            xattrs_of(&Open(file.as_fd()))
        }
        result => result,
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn xattrs(_: impl AsFd, _: &OsStr) -> Result<(Xattrs, LeftOut), Errno> {
    Ok((Vec::new(), LeftOut::Nothing))
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
fn xattrs_of(place: &impl Attributes) -> Result<(Xattrs, LeftOut), Errno> {
    let mut list = vec![0u8; 1024];
    let len = loop {
        match place.list(&mut list) {
            Err(Errno::RANGE) if list.len() < 64 << 10 => list.resize(list.len() * 8, 0),
            Err(Errno::NOTSUP) => return Ok((Vec::new(), LeftOut::Nothing)),
            result => break result?,
        }
    };
    let (mut found, mut left_out) = (Vec::new(), LeftOut::Nothing);
    let names = list.get(..len).unwrap_or_default();
    // Each disk lists them in an order of its own.
    let mut names: Vec<_> = names.split(|&b| b == 0).collect();
    names.sort_unstable();
    for attribute in names.into_iter().filter(|name| !name.is_empty()) {
        if !is_portable(attribute) {
            // What SELinux gives every file is no loss, nor are names under which XFS has the very ACLs.
            let is_loss =
                attribute != b"security.selinux" && !attribute.starts_with(b"trusted.SGI_ACL_");
            if is_loss && left_out == LeftOut::Nothing {
                left_out = LeftOut::Foreign;
            }
            continue;
        }
        if found.len() as u64 >= bounds::XATTRS {
            left_out = LeftOut::TooMany;
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
    Ok((found, left_out))
}
