//! Names that are made, changed or removed by themselves.

use super::{Place, Reach, Rights, expand, more_than_asked, open, opened};
use crate::error::from_store;
use crate::{Error, ErrorKind};
use howdah_store::{StoreError, may_be_reserved, may_be_room};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

impl Rights {
    /// A name itself, whatever has it: for somebody who may write here, and may know what is here.
    pub(crate) fn entry(&self, path: &Path) -> Result<Place, Error> {
        self.check_write()?;
        if self.only.is_some() {
            return Err(more_than_asked());
        }
        if self.is_blind() {
            let text = "this key may deliver files here and not look around: to make, rename or remove a name would tell what is there";
            return Err(Error::new(ErrorKind::Refused, text));
        }
        let bytes = path.as_os_str().as_bytes();
        let end = bytes
            .iter()
            .rposition(|&b| b != b'/')
            .map_or(0, |at| at + 1);
        let path = Path::new(OsStr::from_bytes(&bytes[..end]));
        let escapes = |reason| {
            from_store(&StoreError::PathEscapes {
                path: path.to_owned(),
                reason,
            })
        };
        match &self.reach {
            Reach::Below(root) => {
                if path
                    .iter()
                    .any(|name| may_be_reserved(name) || may_be_room(name))
                {
                    return Err(escapes("that name is kept for unfinished copies"));
                }
                Ok((opened(root)?, path.to_owned()))
            }
            Reach::User { home } => {
                let named = expand(home, path)?;
                match (named.parent(), named.file_name()) {
                    (Some(parent), Some(name)) => open(parent, name),
                    _ => Err(escapes("it is no name in a directory")),
                }
            }
        }
    }

    /// Refuses to change or remove what exists if only new files may come.
    pub(crate) fn check_change(&self, path: &Path) -> Result<(), Error> {
        if self.is_adding_only() {
            let path = path.to_owned();
            return Err(from_store(&StoreError::MayOnlyAdd { path }));
        }
        Ok(())
    }
}
