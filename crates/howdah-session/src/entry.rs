//! What a manifest says about one name.

/// Every bound on what a peer may announce.
pub mod bounds {
    /// A name, in bytes (`NAME_MAX`).
    pub const NAME: usize = 255;
    /// A path below the top, in bytes (`PATH_MAX` without the closing NUL).
    pub const PATH: usize = 4095;
    /// What a symbolic link points to, in bytes.
    pub const TARGET: usize = 4095;
    /// Directories in each other.
    pub const DEPTH: usize = 2048;
    /// Size of a file: what a signed 64-bit offset holds, halved.
    pub const SIZE: u64 = 1 << 62;
    /// Extended attributes of one file.
    pub const XATTRS: u64 = 64;
    /// One attribute's value, in bytes (`XATTR_SIZE_MAX`).
    pub const XATTR_VALUE: usize = 64 << 10;
    /// A user's or group's name, in bytes.
    pub const OWNER: usize = 255;
    /// Users and groups that may be named.
    pub const OWNERS: usize = 65_536;
    /// A note about an entry, in bytes.
    pub const NOTE: usize = 8192;
}

/// A time since 1970, to the nanosecond.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Stamp {
    /// Whole seconds.
    pub secs: i64,
    /// Nanoseconds on top of them.
    pub nanos: u32,
}

impl Stamp {
    /// Whether both may be times of one moment, of which one file system keeps less: NTFS 100 ns, UDF 1 us,
    /// exFAT 10 ms, others whole seconds, each cut off.
    pub fn is_same_moment(self, other: Self) -> bool {
        const KEPT_NS: [u32; 5] = [1, 100, 1_000, 10_000_000, 1_000_000_000];
        let (less, more) = (self.min(other), self.max(other));
        let cut = |unit| more.nanos - more.nanos % unit;
        self.secs == other.secs && KEPT_NS.iter().any(|&unit| cut(unit) == less.nanos)
    }

    /// Whether both may be times of one moment, of which one disk keeps the nearest that it has. Nobody need write to
    /// either, so the limits of the file systems are taken as their makers tell them. `coarse`: also even
    /// seconds, as FAT has them.
    pub fn is_held_as(self, other: Self, coarse: bool) -> bool {
        const FIRST: [i64; 4] = [
            i32::MIN as i64, // ext2, ext3, ext4, XFS and others
            315_532_800,     // FAT and exFAT, in UTC
            -2_082_844_800,  // HFS and HFS+
            -11_644_473_600, // NTFS and SMB
        ];
        const LAST: [i64; 9] = [
            i32::MAX as i64, // ext2, ext3, and ext4 with small inodes; XFS
            15_032_385_535,  // ext4
            16_299_260_425,  // XFS with bigtime
            4_354_819_199,   // exFAT, in UTC
            4_354_819_198,   // FAT, in UTC
            2_212_122_495,   // HFS and HFS+
            u32::MAX as i64, // NFS 3, Ceph and others
            910_692_730_085, // NTFS and SMB
            i64::MAX,
        ];
        const EVEN: i64 = 2;
        let (early, late) = (self.min(other), self.max(other));
        let is_even = |kept: Self, of: Self| {
            kept.nanos == 0
                && kept.secs % EVEN == 0
                && kept.secs == of.secs - of.secs.rem_euclid(EVEN)
        };
        self.is_same_moment(other)
            || late.nanos == 0 && FIRST.contains(&late.secs)
            || early.nanos == 0 && LAST.contains(&early.secs)
            || coarse && is_even(early, late)
    }
}

/// What is kept of a file or directory besides its content.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Meta {
    /// The lower twelve bits of `st_mode`.
    pub mode: u32,
    /// Of the last modification of the content.
    pub mtime: Stamp,
    /// User and group, if they are to be kept.
    pub owner: Option<(u32, u32)>,
    /// Extended attributes, ACLs among them, if they are to be kept.
    pub xattrs: Xattrs,
}

impl Meta {
    /// Bytes that it takes besides itself, about.
    pub fn weight(&self) -> usize {
        let xattrs = self.xattrs.iter();
        let each = xattrs.map(|(name, value)| name.len() + value.len() + 64);
        each.sum()
    }
}

/// Names and values of extended attributes.
pub type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// A directory, as the running system that has it knows it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DirId {
    /// Tells that from other systems, and from its other runs.
    pub system: u64,
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

/// Something that is not copied.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Other {
    /// It is there, and nobody knows what it is, or what it holds.
    Unread,
    /// A pipe with a name.
    Fifo,
    /// A socket.
    Socket,
    /// A device of characters.
    CharacterDevice,
    /// A device of blocks.
    BlockDevice,
}

impl Other {
    /// By their numbers on the wire.
    pub const ALL: [Self; 5] = [
        Self::Unread,
        Self::Fifo,
        Self::Socket,
        Self::CharacterDevice,
        Self::BlockDevice,
    ];
}

/// A record of the manifest. Directories nest: what follows a [`Dir`](Self::Dir) lies in it, up to
/// its [`Up`](Self::Up). In each directory everything else stands before the directories, and both
/// parts are sorted by the bytes of the names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Entry {
    /// Goes into a directory.
    Dir {
        /// Its name.
        name: Vec<u8>,
        /// What is kept of it.
        meta: Meta,
    },
    /// Leaves it.
    Up {
        /// Everything in it has been named.
        complete: bool,
    },
    /// A regular file.
    File {
        /// Its name.
        name: Vec<u8>,
        /// Bytes of its content.
        size: u64,
        /// What else is kept of it.
        meta: Meta,
        /// Names the inode if it has further names.
        link: Option<u64>,
        /// BLAKE3 of the content, if contents are compared.
        hash: Option<[u8; 32]>,
    },
    /// A symbolic link.
    Symlink {
        /// Its name.
        name: Vec<u8>,
        /// What it points to.
        target: Vec<u8>,
        /// What else is kept of it.
        meta: Meta,
    },
    /// A further name of a file.
    Link {
        /// The name.
        name: Vec<u8>,
        /// The file that was told with that number.
        link: u64,
        /// No other one comes.
        last: bool,
    },
    /// Exists at the source and is not copied: it is not to be deleted either.
    Kept {
        /// Its name.
        name: Vec<u8>,
    },
    /// The metadata of the top directory itself.
    Top {
        /// That metadata.
        meta: Meta,
    },
    /// What a number in [`Meta::owner`] is called.
    Owner {
        /// Of a group, not of a user.
        group: bool,
        /// The number.
        id: u32,
        /// What that is called at the sender.
        name: Vec<u8>,
    },
    /// In a dry run: the file that comes next cannot be read.
    Unread,
    /// Which directory of the sender's system it is that comes next ([`Dir`](Self::Dir) or [`Top`](Self::Top)).
    Place {
        /// That directory.
        id: DirId,
    },
    /// For a comparison: something that is neither file nor directory nor link, or cannot be read.
    Other {
        /// Its name.
        name: Vec<u8>,
        /// Which of them.
        what: Other,
    },
    /// For a comparison: a directory of that name follows behind everything else. So what is a directory
    /// on one side only is known when its name comes.
    Ahead {
        /// Its name.
        name: Vec<u8>,
    },
    /// For a comparison: not everything in this directory could be read. The first record in it.
    Gap,
    /// That was all.
    End {
        /// Nothing was unreadable.
        complete: bool,
    },
}

impl Entry {
    /// The metadata of what it names, and whether that is a directory.
    pub fn meta_mut(&mut self) -> Option<(&mut Meta, bool)> {
        match self {
            Self::Dir { meta, .. } | Self::Top { meta } => Some((meta, true)),
            Self::File { meta, .. } | Self::Symlink { meta, .. } => Some((meta, false)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_cut_off_is_of_the_same_moment() {
        let stamp = |secs, nanos| Stamp { secs, nanos };
        let exact = stamp(-5, 987_654_321);
        for kept in [987_654_321, 987_654_300, 987_654_000, 980_000_000, 0] {
            assert!(exact.is_same_moment(stamp(-5, kept)), "{kept}");
            assert!(stamp(-5, kept).is_same_moment(exact), "{kept}");
        }
        // Rounded up, cut off at what no file system keeps, and others.
        for other in [
            987_654_400,
            987_655_000,
            990_000_000,
            987_600_000,
            900_000_000,
            1,
        ] {
            assert!(!exact.is_same_moment(stamp(-5, other)), "{other}");
        }
        assert!(!exact.is_same_moment(stamp(-6, 987_654_321)));
        assert!(!stamp(1, 0).is_same_moment(stamp(0, 999_999_999)));
    }
}
