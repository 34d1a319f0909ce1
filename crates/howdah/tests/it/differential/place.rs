//! A server in this process, and copies to and from it.

use howdah::{
    AuthorizedKeys, Cancel, ChangeLog, CopyConfig, Identity, KnownHosts, Location, Server,
    ServerConfig, TreeOptions, TreeReport, Trust,
};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

pub(crate) struct Place {
    /// What is served.
    dir: tempfile::TempDir,
    /// The client's side, if that is another disk.
    own: Option<tempfile::TempDir>,
    config: CopyConfig,
    port: u16,
    cancel: Cancel,
    server: Option<JoinHandle<()>>,
}

impl Place {
    pub(crate) fn open() -> Self {
        Self::serving(&test_dir(), None)
    }

    /// The source on one disk, and the destination on another one.
    pub(crate) fn across(source: &Path, destination: &Path, put: bool) -> Self {
        if put {
            Self::serving(destination, Some(source))
        } else {
            Self::serving(source, Some(destination))
        }
    }

    fn serving(at: &Path, own: Option<&Path>) -> Self {
        let dir = tempfile::tempdir_in(at).unwrap();
        let own = own.map(|own| tempfile::tempdir_in(own).unwrap());
        let (ours, theirs) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let known = KnownHosts::load(&dir.path().join("known")).unwrap();
        let mut config = CopyConfig::new(ours, known);
        config.trust = Trust::Exactly(*theirs.public_key());
        let keys = dir.path().join("authorized");
        let line = format!("metadata=\"all\" {}\n", config.identity.public_key());
        std::fs::write(&keys, line).unwrap();
        std::fs::set_permissions(&keys, PermissionsExt::from_mode(0o600)).unwrap();
        let authorized = AuthorizedKeys::load(&keys).unwrap();
        std::fs::remove_file(&keys).unwrap();
        let listen = "127.0.0.1:0".parse().unwrap();
        let server = ServerConfig::new(dir.path(), listen, theirs, authorized);
        let server = Server::bind(server).unwrap();
        let (port, cancel) = (server.local_addr().port(), Cancel::new());
        let stop = cancel.clone();
        let server = std::thread::spawn(move || server.run(&stop).unwrap());
        Self {
            dir,
            own,
            config,
            port,
            cancel,
            server: Some(server),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The same at the client's side.
    pub(crate) fn own(&self, name: &str) -> PathBuf {
        self.own.as_ref().unwrap_or(&self.dir).path().join(name)
    }

    fn url(&self, name: &str) -> Location {
        format!("howdah://127.0.0.1:{}/{name}", self.port)
            .parse()
            .unwrap()
    }

    /// Puts or fetches what is in `from`.
    pub(crate) fn copy(
        &self,
        (from, to): (&str, &str),
        put: bool,
        options: &TreeOptions,
    ) -> Result<TreeReport, String> {
        self.copy_heard((from, to), put, options).0
    }

    /// The same, and what a dry run says.
    pub(crate) fn copy_heard(
        &self,
        (from, to): (&str, &str),
        put: bool,
        options: &TreeOptions,
    ) -> (Result<TreeReport, String>, Vec<String>) {
        let contents = format!("{from}/.");
        let (source, target) = if put {
            let source = Location::File(self.own(&contents));
            (source, self.url(to))
        } else {
            (self.url(&contents), Location::File(self.own(to)))
        };
        let heard = Arc::new(Mutex::new(Vec::new()));
        let mut config = self.config.clone();
        let told = Arc::clone(&heard);
        if options.dry_run {
            config.changes = ChangeLog::new(move |changes| {
                let lines = changes.iter().map(|change| format!("{change:?}"));
                told.lock().unwrap().extend(lines);
            });
        }
        let options = TreeOptions {
            contents: true,
            recursive: true,
            ..options.clone()
        };
        let done = howdah::copy_tree(
            &[source],
            &target,
            &options,
            &config,
            &self.cancel,
            &mut |_| {},
        );
        let report = done
            .map_err(|e| e.to_string())
            .map(|summary| summary.tree.unwrap());
        let heard = std::mem::take(&mut *heard.lock().unwrap());
        (report, heard)
    }

    pub(crate) fn clear(&self, names: &[&str]) {
        for name in names {
            remove(&self.path(name));
            remove(&self.own(name));
        }
    }

    /// What is left under temporary names, and signs of unfinished copies.
    pub(crate) fn left_over(&self, name: &str) -> Vec<PathBuf> {
        fn into(dir: &Path, all: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(dir).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name().to_string_lossy().into_owned();
                if entry.file_type().unwrap().is_dir() {
                    into(&entry.path(), all);
                } else if name.contains(".howdah-") {
                    all.push(entry.path());
                }
            }
        }
        let mut all = Vec::new();
        into(&self.path(name), &mut all);
        all
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.cancel.cancel();
        let _ = self.server.take().unwrap().join();
        for dir in std::iter::once(&self.dir).chain(&self.own) {
            let all = std::fs::read_dir(dir.path()).into_iter();
            for entry in all.flatten().flatten() {
                remove(&entry.path());
            }
        }
    }
}

/// On which disk it is tested.
pub(crate) fn test_dir() -> PathBuf {
    let at = std::env::var_os("HOWDAH_TEST_DIR").map(PathBuf::from);
    at.unwrap_or_else(|| env!("CARGO_TARGET_TMPDIR").into())
}

/// Removes a tree, closed directories and all.
fn remove(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let Ok(meta) = std::fs::symlink_metadata(path) else {
        return;
    };
    if !meta.is_dir() {
        return std::fs::remove_file(path).unwrap();
    }
    let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700));
    for entry in std::fs::read_dir(path).unwrap() {
        remove(&entry.unwrap().path());
    }
    std::fs::remove_dir(path).unwrap();
}
