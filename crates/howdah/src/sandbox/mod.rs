//! What a process that speaks to the network can still do once it has all that it needs: whoever takes it over by a fault of
//! ours gets a few directories, and nothing else of the machine.
//!
//! `files` is Landlock: which directories, and no TCP connections. `calls` is seccomp: which system calls. Both hold for the
//! thread that enters and all that it starts, for good, so [`Sandbox::enter`] of a server comes before the first thread. Names of users
//! and groups are looked up by a process of its own ([`names`]), since that may read anything and speak to anybody. Of a client
//! only the threads that hear others are inside (`inside`). Of a server the one that hears the network opens nothing besides.
//!
//! [`Bounds`] are for a process that works for somebody who may not touch all that its user may.

#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod files;
pub mod names;

use std::path::{Path, PathBuf};

/// What is left.
#[derive(Clone, Debug, Default)]
pub struct Sandbox {
    /// Directories in which everything may be done, but no devices made and no programs run.
    pub writable: Vec<PathBuf>,
    /// Files and directories that may be read.
    pub readable: Vec<PathBuf>,
    /// Directories whose names may be read, and those of all that lie in them.
    pub listable: Vec<PathBuf>,
    /// Directories for sockets of this process.
    pub sockets: Vec<PathBuf>,
    /// Ports that it may connect TCP to; with one, it may open further sockets of the Internet.
    pub connects: Vec<u16>,
}

/// The files of a process that does what somebody asks for who may not touch all that its user may: Landlock alone, since such
/// a process starts others and speaks to anybody.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// Directories in which everything may be done, but no devices made and no programs run. The threads of a copy that read
    /// and write files, which are in a [`Sandbox`], stay within these alone.
    pub within: Vec<PathBuf>,
    /// The same for the process itself, for what it keeps there of its own.
    pub own: Vec<PathBuf>,
    /// Files and directories that it may read.
    pub readable: Vec<PathBuf>,
    /// Directories whose names it may read.
    pub listable: Vec<PathBuf>,
    /// Programs, and what belongs to them.
    pub runnable: Vec<PathBuf>,
    /// Devices that it may read and write.
    pub devices: Vec<PathBuf>,
}

impl Bounds {
    /// Leaves the calling thread, and all that it starts, nothing else. Comes before the first thread, and once.
    ///
    /// # Errors
    /// Why it is not in force.
    #[cfg(target_os = "linux")]
    pub fn enter(&self) -> Result<(), String> {
        files::bound(self)
    }

    /// Whether this kernel has what it takes: Landlock of Linux 5.19 or later.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn are_known() -> bool {
        files::are_bounds_known()
    }
}

/// What `root` may turn out to be when it is asked for: it, and what takes its place or is mounted over it later, which the
/// kernel only knows by the directory that it lies in. That one is left out where it is the root of all or leads to one of
/// those home directories.
pub fn reach(root: &Path, homes: &[PathBuf]) -> Vec<PathBuf> {
    let named = std::path::absolute(root).ok();
    let above = named.as_deref().and_then(Path::parent);
    let above = above.and_then(|above| above.canonicalize().ok());
    let homes = homes.iter().filter_map(|home| home.canonicalize().ok());
    let homes: Vec<_> = homes.collect();
    let leads_home = |above: &Path| homes.iter().any(|home| home.starts_with(above));
    let above = above.filter(|above| above.parent().is_some() && !leads_home(above));
    let both = [Some(root.to_path_buf()), above];
    both.into_iter().flatten().collect()
}

/// Leaves the calling thread nothing but what is open, if that is wanted.
pub(crate) fn keep_what_is_open(wanted: bool) {
    if wanted {
        // What the kernel cannot give is said by others.
        let _ = Sandbox::default().enter();
    }
}

/// Leaves the calling thread what is open, and no way to more: no files, names of files or sockets. Why that is not in force.
pub(crate) fn open_nothing() -> Option<String> {
    #[cfg(target_os = "linux")]
    {
        calls::open_nothing()
    }
    #[cfg(not(target_os = "linux"))]
    {
        None
    }
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
