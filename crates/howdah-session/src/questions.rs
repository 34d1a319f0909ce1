//! Small questions that are no copies: what a name with wildcards means there, what interrupted copies have left.

use crate::PathBytes;
use serde::{Deserialize, Serialize};

/// What a server is asked.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub enum Question {
    /// What these names mean, with a name for each wildcard.
    Expand {
        /// The names.
        patterns: Vec<PathBytes>,
    },
    /// What have interrupted copies left in that directory and below? It goes, unless somebody writes to it.
    Clean {
        /// The directory.
        path: PathBytes,
        /// It stays all the same.
        dry_run: bool,
        /// In seconds since 1970: what is younger stays.
        modified_until: Option<i64>,
    },
}

/// Something that is there.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Finding {
    /// Number of the pattern.
    pub of: u32,
    /// Where it is.
    pub path: PathBytes,
    /// It is a directory.
    pub is_dir: bool,
    /// Its size.
    pub bytes: u64,
    /// Of what was left: 0 removed, 1 in use, 2 could not be removed.
    pub fate: u8,
}

/// All of it, counted.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Sum {
    /// Names that were found, or are removed.
    pub names: u64,
    /// Bytes of what is removed.
    pub bytes: u64,
    /// Names that somebody writes to.
    pub in_use: u64,
    /// Names that could not be removed or looked at.
    pub failed: u64,
    /// The first of what could not be looked at, a line each.
    pub notes: Vec<String>,
}

impl Question {
    /// What it is, and about which names: for the log.
    pub fn what(&self) -> (&'static str, &[PathBytes]) {
        match self {
            Self::Expand { patterns } => ("expand", patterns),
            Self::Clean { path, dry_run, .. } => {
                let word = if *dry_run {
                    "look for leftovers in"
                } else {
                    "clean"
                };
                (word, std::slice::from_ref(path))
            }
        }
    }
}
