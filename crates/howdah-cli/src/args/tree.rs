//! What is kept of a tree.

use clap::Args;
use howdah::{LINK_DESTS, ModeChanges};

/// A user and a group, either of which may be left out.
pub(crate) type Owner = (Option<String>, Option<String>);

fn modes(text: &str) -> Result<String, String> {
    let known = text.parse::<ModeChanges>();
    known.map(|_| text.to_owned()).map_err(|e| e.to_string())
}

fn owner(text: &str) -> Result<Owner, String> {
    let (user, group) = match text.split_once(':') {
        Some((user, group)) if !group.is_empty() => (user, Some(group.to_owned())),
        None if !text.is_empty() => (text, None),
        _ => return Err("write USER, :GROUP or USER:GROUP".to_owned()),
    };
    if group.as_ref().is_some_and(|group| group.contains(':')) {
        return Err("a colon stands between USER and GROUP only".to_owned());
    }
    Ok(((!user.is_empty()).then(|| user.to_owned()), group))
}

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which files, and what of them")]
pub(crate) struct TreeArgs {
    /// Keep owners, hard links, extended attributes, ACLs and special mode bits as well
    ///
    /// Contents, times of modification and symbolic links are always kept, permissions with 'sync' and -p. What
    /// cannot be kept is counted and said; it is no failure. What the source has no more of these goes.
    #[arg(long, short = 'a')]
    pub(crate) archive: bool,

    /// Keep owners and entries of ACLs by number, not by what these are called on each side
    #[arg(long, requires = "archive")]
    pub(crate) numeric_ids: bool,

    /// Do not go into other file systems below SRC: mount points become empty directories, and nothing is deleted in them
    #[arg(long, short = 'x')]
    pub(crate) one_file_system: bool,

    /// Compare files by content (BLAKE3), not by size and time of modification
    #[arg(long, short = 'c')]
    pub(crate) checksum: bool,

    /// Compare files by size alone, not by time of modification: those of the same size keep their content and get the time
    #[arg(long, conflicts_with = "checksum")]
    pub(crate) size_only: bool,

    /// Leave files alone that were modified later at DST than at SRC
    #[arg(long, short = 'u')]
    pub(crate) update: bool,

    /// Leave everything alone that is at DST already, whatever it holds; directories are gone into
    #[arg(long)]
    pub(crate) ignore_existing: bool,

    /// Follow symbolic links in SRC: what they point to is copied under their names
    ///
    /// One that points to nothing, or to a directory that it lies in, is an error of that name. Links below a server's root
    /// are followed only as far as they stay below it.
    #[arg(long, short = 'L')]
    pub(crate) copy_links: bool,

    /// A symbolic link at DST that points to a directory is that directory, where SRC has one of its name
    ///
    /// Otherwise such a link is replaced ('sync') or an error ('cp'). Below a server's root none leads out of it.
    #[arg(long, short = 'K')]
    pub(crate) keep_dirlinks: bool,

    /// Change permissions at DST: MODES as for chmod, several with commas, those behind D for directories only, behind F for files
    ///
    /// What a file or directory would have without it is changed: D755,F644 or g+w,o-rwx or Dg+s. Without a letter before
    /// the sign the umask of the side that writes counts, as with chmod.
    #[arg(long, value_name = "MODES", allow_hyphen_values = true, value_parser = modes)]
    pub(crate) chmod: Option<String>,

    /// Give everything at DST to USER, GROUP or both, by the names or numbers there; needs root there
    ///
    /// What cannot be given is counted and said; it is no failure.
    #[arg(long, value_name = "USER:GROUP", value_parser = owner)]
    pub(crate) chown: Option<Owner>,

    /// Do not make permissions equal: as without -p and -a, which keep the rest
    #[arg(long)]
    pub(crate) no_perms: bool,

    /// Make directories on the way to DST that are not there; with a slash at its end DST, too
    #[arg(long)]
    pub(crate) mkpath: bool,

    /// Give files that are equal in DIR a further name instead of copying them, for snapshots; may be given 20 times
    ///
    /// DIR is on the side of DST, seen from DST: 'howdah sync -a --link-dest ../monday data site:snaps/tuesday'. Equal is what has the
    /// same size and time (--checksum: the same content) and all that is kept besides. Where the disk makes no such name, it may
    /// make a clone; otherwise the file is copied. A DIR that is not there is a warning. Below a server's root DIR lies there, too.
    #[arg(long, value_name = "DIR", value_parser = link_dest)]
    pub(crate) link_dest: Vec<String>,

    /// Write nothing; say what would be done with each name, and why
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,

    /// Take up to SIZE of memory on each side, for more speed on long paths
    ///
    /// What is under way between the two hosts is held in memory on both: at 10 Gbit/s and 100 ms that would be 125 MB.
    /// A server gives no more than its own --memory. Only trees of files take it, and as much as they need. From 40MiB to 4GiB.
    #[arg(long, value_name = "SIZE", default_value = "48MiB", value_parser = super::values::memory)]
    pub(crate) memory: u64,

    #[command(flatten)]
    pub(crate) listing: super::ManifestArgs,
}

fn link_dest(text: &str) -> Result<String, String> {
    /// Longest path on any system that this runs on, in bytes.
    const MAX_PATH: usize = 4095;
    match text.len() {
        0 => Err("name a directory, as it is seen from DST".to_owned()),
        1..=MAX_PATH => Ok(text.to_owned()),
        _ => Err("no path is longer than 4095 bytes".to_owned()),
    }
}

impl TreeArgs {
    /// What of these flags makes no sense together.
    pub(crate) fn clash(&self) -> Option<String> {
        let dirs = self.link_dest.len();
        (dirs > LINK_DESTS).then(|| {
            format!("--link-dest is given {dirs} times, and {LINK_DESTS} directories are the most")
        })
    }

    /// The first flag that means nothing to a single file, and nothing at all to a stream.
    pub(crate) fn about_directories(&self) -> Option<&'static str> {
        [
            (self.copy_links, "--copy-links"),
            (self.one_file_system, "--one-file-system"),
        ]
        .into_iter()
        .find_map(|(is_set, flag)| is_set.then_some(flag))
    }

    /// The first flag that is about files with names.
    pub(crate) fn about_names(&self) -> Option<&'static str> {
        [
            (self.archive, "-a"),
            (self.checksum, "--checksum"),
            (self.dry_run, "--dry-run"),
            (self.size_only, "--size-only"),
            (self.update, "--update"),
            (self.ignore_existing, "--ignore-existing"),
            (self.keep_dirlinks, "--keep-dirlinks"),
            (self.chmod.is_some(), "--chmod"),
            (self.chown.is_some(), "--chown"),
            (self.mkpath, "--mkpath"),
            (self.listing.manifest.is_some(), "--manifest"),
            (self.listing.receipt.is_some(), "--receipt"),
            (!self.link_dest.is_empty(), "--link-dest"),
        ]
        .into_iter()
        .find_map(|(is_set, flag)| is_set.then_some(flag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_written_as_for_chown() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(owner("anna"), Ok((some("anna"), None)));
        assert_eq!(owner(":team"), Ok((None, some("team"))));
        assert_eq!(owner("anna:1000"), Ok((some("anna"), some("1000"))));
        for bad in ["", ":", "anna:", "a:b:c"] {
            assert!(owner(bad).is_err(), "{bad}");
        }
    }
}
