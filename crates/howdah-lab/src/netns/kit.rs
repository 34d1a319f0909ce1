//! What runs need that is the same for all of them.

use super::Trouble;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

const RAM_DISK: &str = "/dev/shm";
/// Every scratch directory's name begins like this and goes on with the owner's process id.
const SCRATCH: &str = "howdah-lab-";

/// How long programs may take to get ready and to end, where nothing else is asked for.
const USUAL_PATIENCE: Duration = Duration::from_secs(20);

/// Where the programs are, how long they are waited for, and the keys that ours need.
#[derive(Debug)]
pub struct Kit {
    howdah: PathBuf,
    peers: PathBuf,
    patience: Duration,
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
        let keys = TempDir::with_prefix(format!("{SCRATCH}{}-", std::process::id()))
            .map_err(|error| KitError::Io("make a directory for keys".to_owned(), error))?;
        // Programs are started in directories of their own.
        let peers = std::path::absolute(&peers).unwrap_or(peers);
        let kit = Self {
            howdah,
            peers,
            patience: USUAL_PATIENCE,
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

    /// Programs that are not ready, or go on after the measurement, for so long are given up.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// How long programs are waited for.
    pub(super) fn patience(&self) -> Duration {
        self.patience
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
        let prefix = format!("{SCRATCH}{}-", std::process::id());
        let made = if Path::new(RAM_DISK).is_dir() {
            tempfile::Builder::new()
                .prefix(&prefix)
                .tempdir_in(RAM_DISK)
        } else {
            TempDir::with_prefix(&prefix)
        };
        made.map_err(Trouble::io("make a directory for a run"))
    }
}

/// Removes what killed runs have left: files on a RAM disk are memory.
pub(super) fn remove_stale() {
    for dir in [Path::new(RAM_DISK), &std::env::temp_dir()] {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(owner);
            if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
                // Somebody else may be doing the same.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// The process id in `howdah-lab-<pid>-<random>`.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(SCRATCH)?.split_once('-')?.0.parse().ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_directories_have_an_owner() {
        assert_eq!(owner("howdah-lab-12-aB3"), Some(12));
        for foreign in [
            "howdah-lab-aB3",
            "howdah-lab-x-1",
            "other-12-a",
            "howdah-lab-12",
        ] {
            assert_eq!(owner(foreign), None, "{foreign}");
        }
    }
}
