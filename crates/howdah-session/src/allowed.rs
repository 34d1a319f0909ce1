//! How much of the metadata somebody else may set here, or is shown: the right of a session, wherever the options of a
//! copy come from.
//!
//! Whatever arrives passes [`Metadata::admit`] before anything is made of it, and [`Keeper`](super::meta::Keeper) has the
//! options narrowed to the same: a key that may write must not make set-user-id programs, or give files to others (H6).

use crate::entry::Meta;
use std::fmt;
use std::str::FromStr;

/// See the module. Each allows what those before it do.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Metadata {
    /// None: files are new, and of usual permissions.
    None,
    /// The time of modification.
    Times,
    /// Permissions without the special bits, too.
    Modes,
    /// Owners, groups, extended attributes, ACLs, and the special bits, too.
    #[default]
    All,
}

/// Permissions of files and directories whose own do not count, before the umask.
const USUAL: u32 = 0o666;
const USUAL_DIR: u32 = 0o777;

impl Metadata {
    /// Leaves of something that came what may be made of it.
    pub fn admit(self, meta: &mut Meta, is_dir: bool) {
        if self < Self::All {
            meta.owner = None;
            meta.xattrs = Vec::new();
            meta.mode &= 0o777;
        }
        if self < Self::Modes {
            meta.mode = if is_dir { USUAL_DIR } else { USUAL };
        }
    }

    /// Leaves of something that is here what may be told of it. Whoever keeps permissions sets them as they are told, whatever his umask: so those
    /// that stand for others let nobody else write.
    pub fn show(self, meta: &mut Meta, is_dir: bool) {
        self.admit(meta, is_dir);
        if self < Self::Modes {
            meta.mode &= !0o022;
        }
    }

    /// What it keeps back, for people.
    pub fn withheld(self) -> &'static str {
        match self {
            Self::All => "nothing",
            Self::Modes => "owners, groups, attributes, ACLs and special bits",
            Self::Times => "permissions, owners, groups, attributes and ACLs",
            Self::None => "times, permissions, owners, groups, attributes and ACLs",
        }
    }

    /// The least that allows what was asked for.
    #[must_use]
    pub fn enough(self) -> Self {
        match self {
            Self::None => Self::Times,
            Self::Times => Self::Modes,
            Self::Modes | Self::All => Self::All,
        }
    }
}

impl FromStr for Metadata {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "none" => Ok(Self::None),
            "times" => Ok(Self::Times),
            "modes" => Ok(Self::Modes),
            "all" => Ok(Self::All),
            _ => Err(()),
        }
    }
}

impl fmt::Display for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Times => "times",
            Self::Modes => "modes",
            Self::All => "all",
        })
    }
}
