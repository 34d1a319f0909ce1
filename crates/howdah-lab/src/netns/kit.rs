//! What runs need that is the same for all of them.

use super::Trouble;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Where the programs are, and the keys that ours need.
#[derive(Debug)]
pub struct Kit {
    howdah: PathBuf,
    peers: PathBuf,
    keys: TempDir,
}

/// Why there is no kit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KitError {
    /// A file or directory.
    #[error("cannot {0}: {1}")]
    Io(String, std::io::Error),
    /// `howdah key new` failed.
    #[error("'{program} key new' failed: {message}")]
    Keys {
        /// The program.
        program: String,
        /// What it said.
        message: String,
    },
}

impl Kit {
    /// `howdah` is our own program, `peers` the directory of those that `make peers` builds.
    pub fn new(howdah: PathBuf, peers: PathBuf) -> Result<Self, KitError> {
        let keys = TempDir::with_prefix("howdah-lab-")
            .map_err(|error| KitError::Io("make a directory for keys".to_owned(), error))?;
        let kit = Self {
            howdah,
            peers,
            keys,
        };
        let output = Command::new(&kit.howdah)
            .args(["key", "new", "--identity"])
            .arg(kit.key("client.pem"))
            .output()
            .map_err(|error| KitError::Io(format!("run {}", kit.howdah.display()), error))?;
        if !output.status.success() {
            return Err(KitError::Keys {
                program: kit.howdah.display().to_string(),
                message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            });
        }
        std::fs::write(kit.key("authorized_keys"), output.stdout)
            .map_err(|error| KitError::Io("write the list of keys".to_owned(), error))?;
        Ok(kit)
    }

    /// Our own program.
    pub(super) fn howdah(&self) -> &Path {
        &self.howdah
    }

    /// A file of the keys' directory.
    pub(super) fn key(&self, name: &str) -> PathBuf {
        self.keys.path().join(name)
    }

    /// A program that `make peers` builds, if it is there.
    pub(super) fn peer(&self, name: &str) -> Option<PathBuf> {
        let path = self.peers.join(name);
        path.is_file().then_some(path)
    }

    /// A directory for one run, on a RAM disk where there is one.
    pub(super) fn scratch() -> Result<TempDir, Trouble> {
        let ram = Path::new("/dev/shm");
        let made = if ram.is_dir() {
            tempfile::Builder::new()
                .prefix("howdah-lab-")
                .tempdir_in(ram)
        } else {
            TempDir::with_prefix("howdah-lab-")
        };
        made.map_err(Trouble::io("make a directory for a run"))
    }
}

/// A program of the system, as `command -v` finds it.
pub(super) fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    // Servers are often not in a user's path.
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
}
