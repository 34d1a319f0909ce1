//! What a process that speaks to the network can still do once it has all that it needs: whoever takes it over by a fault of
//! ours gets a few directories, and nothing else of the machine.
//!
//! `files` is Landlock: which directories, and no TCP connections. `calls` is seccomp: which system calls. Both hold for the
//! thread that enters and all that it starts, for good, so [`Sandbox::enter`] comes before the first thread. Names of users
//! and groups are looked up by a process of its own ([`names`]), since that may read anything and speak to anybody.

#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod files;
pub mod names;

use std::path::PathBuf;

/// What is left.
#[derive(Clone, Debug, Default)]
pub struct Sandbox {
    /// Directories in which everything may be done, but no devices made and no programs run.
    pub writable: Vec<PathBuf>,
    /// Files and directories that may be read.
    pub readable: Vec<PathBuf>,
    /// Directories for sockets of this process.
    pub sockets: Vec<PathBuf>,
    /// It may open sockets and connect them.
    pub connects: bool,
}

impl Sandbox {
    /// Enters it. What this kernel cannot give comes back, a line each.
    #[must_use]
    pub fn enter(&self) -> Vec<String> {
        #[cfg(target_os = "linux")]
        {
            let mut lacking = Vec::new();
            lacking.extend(files::enter(self));
            lacking.extend(calls::enter(self));
            lacking
        }
        #[cfg(not(target_os = "linux"))]
        {
            vec!["this system has no sandbox that this program knows".to_owned()]
        }
    }
}
