//! This process as the attempt of a job: what it leaves for the daemon, whether or not there is one when it ends.

use crate::args::Command;
use crate::bounds;
use crate::ui;
use howdah::Error;
use howdah_daemon::process::OPTION;
use howdah_daemon::process::bounded::keep_within_bounds;
use howdah_daemon::process::record::{NotMine, put_down, take_up as claim};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::sync::OnceLock;

static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();

/// The directory of the attempt.
pub(crate) struct Record(PathBuf);

/// Takes the attempt up that the first argument names, if it names one. It comes before anything else: who does not get it
/// must not do anything.
pub(crate) fn take_up() -> Result<Option<Record>, NotMine> {
    let Some(first) = std::env::args_os().nth(1) else {
        return Ok(None);
    };
    let dir = first.as_bytes().strip_prefix(OPTION.as_bytes());
    let Some(dir) = dir.and_then(|rest| rest.strip_prefix(b"=")) else {
        return Ok(None);
    };
    let dir = PathBuf::from(OsString::from_vec(dir.to_vec()));
    claim(&dir)?;
    // The daemon sees to it, too; but it may be away.
    let _ = DIRECTORY.set(dir.clone());
    ui::after_much(|| {
        if let Some(dir) = DIRECTORY.get() {
            keep_within_bounds(dir);
        }
    });
    Ok(Some(Record(dir)))
}

impl Record {
    /// Keeps this process to what it may touch.
    pub(crate) fn confine(&self, command: &Command) -> Result<(), Error> {
        bounds::enter(&self.0, command)
    }

    /// Says how it ended.
    pub(crate) fn put_down(&self, code: u8) {
        if let Err(error) = put_down(&self.0, code) {
            ui::say(&format!(
                "cannot write how this job ended into {}: {error}",
                self.0.display()
            ));
        }
    }
}
