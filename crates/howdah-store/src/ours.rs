//! Whether a file is what we would have made.

use crate::plain::irregular;
use rustix::fd::AsFd;
use rustix::fs::{FileType, Mode, Stat};

/// Whether it is a regular file with one name.
pub fn is_plain(stat: &Stat) -> bool {
    irregular(FileType::from_raw_mode(stat.st_mode)).is_none() && stat.st_nlink == 1
}

/// Whether it is what we would have made in `dir`: anybody may have made something of that name.
pub(crate) fn is_ours(dir: impl AsFd, stat: &Stat) -> bool {
    is_plain(stat)
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && (Mode::from_raw_mode(stat.st_mode) == Mode::RUSR | Mode::WUSR || !keeps_modes(dir))
}

/// Whether files have modes of their own there, as far as the kind of file system tells.
#[cfg(target_os = "linux")]
fn keeps_modes(dir: impl AsFd) -> bool {
    const WITHOUT: [u32; 8] = [
        FUSE,        // exFAT and NTFS among others
        0x0000_4d44, // FAT
        0x2011_bab0, // exFAT
        0x5346_544e, // NTFS
        0x7366_746e, // NTFS 3
        0x0000_517b, // SMB
        0xff53_4d42, // CIFS
        0xfe53_4d42, // SMB 2
    ];
    rustix::fs::fstatfs(dir).is_ok_and(|fs| !WITHOUT.contains(&(fs.f_type as u32)))
}

#[cfg(not(target_os = "linux"))]
fn keeps_modes(_: impl AsFd) -> bool {
    true
}

/// `FUSE_SUPER_MAGIC` of linux/magic.h.
#[cfg(target_os = "linux")]
pub(crate) const FUSE: u32 = 0x6573_5546;
