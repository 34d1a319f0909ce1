//! A session that stays open: single files are looked at and read, many at a time, and answers come in any order.
//!
//! Questions are control messages; all answers go through one object of unknown length, so that the window of that object bounds
//! what is under way. docs/protocol.md section 16.7 specifies it.

pub(crate) mod attest;
pub(crate) mod serving;
mod worker;

use crate::{Error, ErrorKind};
use howdah_session::Metadata;
use howdah_session::files::{FileInfo, FileKind, info};
use howdah_store::{Found, FoundKind};

pub(crate) fn protocol(text: &str) -> Error {
    Error::new(ErrorKind::Protocol, text)
}

/// What somebody is shown of a file who may know that much.
fn shown(found: &Found, shows: Metadata) -> FileInfo {
    let bits = if shows >= Metadata::All {
        0o7777
    } else {
        0o777
    };
    let kind = match found.kind {
        FoundKind::File => FileKind::File,
        FoundKind::Directory => FileKind::Directory,
        FoundKind::Link => FileKind::Link,
        FoundKind::Other => FileKind::Other,
    };
    let mode = (shows >= Metadata::Modes).then_some(found.mode & bits);
    let owner = (shows >= Metadata::All).then_some((found.uid, found.gid));
    info(kind, found.is_link, found.identity.into(), mode, owner)
}
