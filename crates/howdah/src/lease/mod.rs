//! The place in which the hosts of a plan meet, on whichever machine the destination is: `howdah plan`, `cp --plan` and `finish` use it
//! where that is this one, and a server where it is its own.
//!
//! Public for the command alone.

pub mod beneath;
mod finishing;
mod landing;
mod local;
mod records;
pub mod room;
pub mod run;
mod scratch;
pub mod shape;
mod sheets;
mod tree_finishing;

pub use crate::far_plan::{
    FarPlan, FinishedTree, Landed, Looked, land_tree, push_range, push_tree,
};
pub use crate::range::fetch_range;
pub use crate::session::plans::told;
pub use finishing::{Ended, finish, not_finished};
pub use howdah_session::plans::{LeaseRun, PlanAnswer, PlanPlace, PlanRecord, PlanRequest};
pub use landing::{Landing, interrupted, stopped};
pub use local::{fetch_local, version_of};
pub use run::{Hashes, RunDir, check_highest, lacking_of, land_run};
pub(crate) use scratch::Come;
pub use tree_finishing::{Known, TreeEnded, Witness, finish_tree, lacking};

use crate::{Error, ErrorKind, SourceIdentity};
use howdah_lease::{Name, Version};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// As a plan has it.
pub fn version(identity: &SourceIdentity) -> Version {
    Version {
        size: identity.size,
        mtime: identity.mtime,
        ctime: identity.ctime,
        inode: identity.inode,
    }
}

/// A name of a tree, as a path.
pub fn path_of(name: &Name) -> &Path {
    Path::new(OsStr::from_bytes(name.as_bytes()))
}

/// As a source has it.
pub fn identity(version: &Version) -> SourceIdentity {
    SourceIdentity {
        size: version.size,
        mtime: version.mtime,
        ctime: version.ctime,
        inode: version.inode,
    }
}

/// Something of the system's, as a failure with a kind.
pub fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::Refused,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
        _ => ErrorKind::Io,
    };
    let remedy = match kind {
        ErrorKind::NoSpace => "; make room there and run it again",
        _ => "",
    };
    let text = format!("cannot {what} {}: {error}{remedy}", path.display());
    Error::new(kind, text)
}

/// What the store says, for who runs a step of a plan again and copies nothing.
pub(crate) fn of_store(error: &howdah_store::StoreError) -> Error {
    let error = crate::error::from_store(error);
    let text = error.to_string();
    match text.strip_suffix("copy again") {
        Some(text) => Error::new(error.kind(), format!("{text}run it again")),
        None => error,
    }
}

/// What something was to lie in is not there.
pub fn no_directory(path: &Path) -> Error {
    let text = format!(
        "there is no directory {}; make it first (mkdir -p)",
        path.display()
    );
    Error::new(ErrorKind::Refused, text)
}

/// The source is not what the plan is of, as `difference` says.
pub(crate) fn source_changed(difference: &str) -> Error {
    let text = format!("the source is not the one that was planned ({difference}); plan anew");
    Error::new(ErrorKind::SourceChanged, text)
}
