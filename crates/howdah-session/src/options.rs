//! What both sides of a tree transfer must know.

use crate::entry::Stamp;
use crate::matcher::Matcher;
use crate::naming::{bad_name, plain};
use crate::paths::PathList;
use crate::reserved::{may_be_reserved, may_be_room};
use crate::rules::RuleList;
use crate::{SessionError, SourceIdentity};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Directories that equal files may be linked from (`--link-dest`), as many as rsync takes.
pub const LINK_DESTS: usize = 20;

/// How a tree is to be copied. Goes over the wire.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct TreeOptions {
    /// The content of the one source goes into the destination, not the source itself.
    pub contents: bool,
    /// Directories may be copied.
    pub recursive: bool,
    /// Owners, hard links, extended attributes, ACLs and the special mode bits are kept, too.
    pub archive: bool,
    /// Contents are compared, not sizes and times.
    pub checksum: bool,
    /// Nothing is written.
    pub dry_run: bool,
    /// What the source's directories do not have is deleted in those of the destination.
    pub delete: bool,
    /// Nothing is deleted if more names than that would be.
    pub max_delete: Option<u64>,
    /// Below the destination: where files go that are deleted or replaced.
    pub backup_dir: Option<String>,
    /// Which names take part.
    pub rules: RuleList,
    /// Only these paths below the top, and what is in them.
    pub files: Option<PathList>,
    /// Smaller files are left out, in bytes.
    pub min_size: Option<u64>,
    /// Larger ones are, too.
    pub max_size: Option<u64>,
    /// Files modified before that are left out, in seconds since 1970.
    pub modified_since: Option<i64>,
    /// Files modified after that are, too.
    pub modified_until: Option<i64>,
    /// What an interrupted copy has left of large files is removed, not gone on with.
    pub anew: bool,
    /// When a file is on the disk, it is read back from the device and compared once more before it gets
    /// its name.
    pub reread: bool,
    /// The sender is told of each file that is in place.
    pub tells_files: bool,
    /// The destination becomes like the source: what is of another kind there gives way.
    pub mirror: bool,
    /// Permissions are made equal. Otherwise, and without [`archive`](Self::archive), the umask and what was there
    /// decide, as with `cp -r`.
    pub permissions: bool,
    /// Owners and entries of ACLs go by number, whatever these are called.
    pub numeric_ids: bool,
    /// Tells this source from others: an interrupted copy goes on where one of the same source began.
    pub origin: Option<u64>,
    /// What is mounted below the source is left out.
    pub one_file_system: bool,
    /// `.gitignore` files in the source leave out what they match.
    pub gitignore: bool,
    /// Also a source in which there is nothing at all deletes.
    pub delete_all: bool,
    /// For a listing: directories so many levels below the top are named, and nothing in them.
    pub levels: Option<u32>,
    /// Links in the source are followed.
    pub copy_links: bool,
    /// A link at the destination that leads to a directory is one.
    pub keep_dirlinks: bool,
    /// Files that are newer at the destination stay.
    pub update: bool,
    /// What is at the destination stays.
    pub ignore_existing: bool,
    /// Files of the same size are the same.
    pub size_only: bool,
    /// Changes of permissions, as [`ModeChanges`](crate::ModeChanges) reads them.
    pub chmod: Option<String>,
    /// The user and the group that everything is given to, by name or number.
    pub chown: Option<(Option<String>, Option<String>)>,
    /// Permissions are not made equal although [`archive`](Self::archive) is asked for.
    pub no_permissions: bool,
    /// Directories that the destination is to lie in are made.
    pub make_path: bool,
    /// Bytes of memory that each side may take instead of [`Memory::DEFAULT`](crate::Memory::DEFAULT).
    pub memory: Option<u64>,
    /// Of files that others write behind the end, what stood when reading began is taken.
    pub growing: bool,
    /// Each file and link of the source goes when it is at the destination, durably.
    pub remove_source: bool,
    /// Of [all files](Self::tells_files) it is told on this side that they are there, also of those that were there
    /// already. The other side need not know.
    #[serde(skip)]
    pub tells_all: bool,
    /// On this side [one hash](crate::TreeReport::blake3) is made of all files that are moved. The other side need not know.
    #[serde(skip)]
    pub sums: bool,
    /// Directories at the receiver, seen from the destination: an equal file there gets a further name instead of being
    /// moved. At most [`LINK_DESTS`].
    pub link_dest: Vec<String>,
}

impl TreeOptions {
    /// Whether a file of that size and time takes part.
    pub fn admits(&self, size: u64, modified: i64) -> bool {
        self.min_size.is_none_or(|min| size >= min)
            && self.max_size.is_none_or(|max| size <= max)
            && self.modified_since.is_none_or(|since| modified >= since)
            && self.modified_until.is_none_or(|until| modified <= until)
    }

    /// The time that a large file gets which is opened now: that of the version that comes, for somebody may have written to it since it was
    /// told. `None`: the one that was told.
    pub fn time_of(&self, source: &SourceIdentity) -> Option<Stamp> {
        let modified = source.modified()?;
        self.admits(source.size, modified.secs).then_some(modified)
    }

    /// Whether links are copied as links. Otherwise files stand for what they are.
    pub fn keeps_links(&self) -> bool {
        (self.recursive || self.contents) && !self.copy_links
    }

    /// Whether a directory with that path below the top is only named.
    pub fn names_only(&self, below: &Path) -> bool {
        let levels = self.levels.map(|levels| levels as usize);
        levels.is_some_and(|levels| below.iter().count() >= levels)
    }

    /// An error if one of the rules is none, if they are too many of a kind that takes much, or if what is replaced could
    /// not be kept where that is asked for.
    pub fn check(&self) -> Result<(), SessionError> {
        Matcher::check(&self.rules)?;
        self.check_deletion()?;
        self.check_backup()
    }

    /// A move that was interrupted and is given again would delete what it has moved.
    pub fn check_deletion(&self) -> Result<(), SessionError> {
        if self.delete && self.remove_source {
            let what = "what is moved is not at the source any more: with delete the next copy would remove it at the destination";
            let what = what.to_owned();
            return Err(SessionError::BadOption { what });
        }
        Ok(())
    }

    /// A backup directory is a plain path below the destination.
    pub fn check_backup(&self) -> Result<(), SessionError> {
        let Some(backup) = &self.backup_dir else {
            return Ok(());
        };
        let path = plain(Path::new(backup));
        let bad = |part: &OsStr| bad_name(part.as_bytes()).is_some();
        if path.as_os_str().is_empty() || path.is_absolute() || path.iter().any(bad) {
            let what = format!(
                "--backup-dir {backup:?} does not lie below the destination; name a directory in it, as in --backup-dir .old"
            );
            return Err(SessionError::BadOption { what });
        }
        // What lies in there is believed.
        if path
            .iter()
            .any(|part| may_be_reserved(part) || may_be_room(part))
        {
            let what = format!(
                "--backup-dir {backup:?} has a name that is kept for unfinished copies and plans; name another directory"
            );
            return Err(SessionError::BadOption { what });
        }
        Ok(())
    }

    /// Bytes that rules and list take in a request.
    pub fn request_bytes(&self) -> usize {
        let files = self
            .files
            .iter()
            .map(|files| usize::try_from(files.bytes()).unwrap_or(usize::MAX) + 4 * files.len());
        self.rules.bytes() + 4 * self.rules.len() + files.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// H17: what is replaced would come into the room of somebody's plan, under a name that is believed there.
    #[test]
    fn h18_nothing_is_kept_where_copies_keep_their_own_affairs() {
        let check = |backup: &str| {
            let options = TreeOptions {
                backup_dir: Some(backup.to_owned()),
                ..TreeOptions::default()
            };
            options.check_backup()
        };
        for bad in [
            ".x.0123456789abcdef.howdah-plan",
            "old/.x.0123456789abcdef.howdah-plan/7",
            ".howdah-unfinished",
            ".x.0123456789abcdef.howdah-part",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
        for good in [".old", "old/x.howdah-plan", "a/b"] {
            assert!(check(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn a_large_file_gets_the_time_of_the_version_that_comes_if_that_may_be() {
        let source = |secs, nanos| SourceIdentity {
            size: 5,
            mtime: (secs, nanos),
            ctime: (0, 0),
            inode: 1,
        };
        let options = TreeOptions {
            modified_until: Some(10),
            ..TreeOptions::default()
        };
        let stamp = |secs, nanos| Some(Stamp { secs, nanos });
        assert_eq!(options.time_of(&source(10, 7)), stamp(10, 7));
        assert_eq!(options.time_of(&source(11, 0)), None, "not asked for");
        assert_eq!(options.time_of(&source(1, 1_000_000_000)), None, "no time");
    }
}
