//! Files, disks and networks to test on.

use howdah_wan::{WanConfig, WanError, World};
use std::fs;
use std::path::Path;
use std::process::Command;

/// An emulated network, or `None` with a printed reason.
pub(crate) fn world(config: &WanConfig) -> Option<World> {
    if !Path::new("/dev/net/tun").exists() {
        println!("skipped: no /dev/net/tun");
        return None;
    }
    match World::create(config) {
        Ok(world) => Some(world),
        Err(error @ (WanError::NotPermitted | WanError::NoTun(_) | WanError::NoIproute(_))) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// `len` bytes that look random, and are the same for the same `seed`.
pub(crate) fn content(seed: &str, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut hasher = blake3::Hasher::new();
    hasher
        .update(seed.as_bytes())
        .finalize_xof()
        .fill(&mut bytes);
    bytes
}

pub(crate) fn hash_of(path: &str) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(fs::File::open(path).unwrap()).unwrap();
    hasher.finalize()
}

/// A file system of a few MiB in memory. Dropping it unmounts it.
pub(crate) struct SmallDisk(String);

impl SmallDisk {
    /// Mounts one over the directory `at`; `None` with a printed reason where that is not allowed.
    pub(crate) fn mount(at: &str, mib: u32) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can mount a small disk");
            return None;
        }
        let size = format!("size={mib}m");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "howdah-test"])
            .arg(at)
            .output();
        match mount {
            Ok(output) if output.status.success() => Some(Self(at.to_owned())),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr);
                println!("skipped: no tmpfs can be mounted: {why}");
                None
            }
            Err(error) => {
                println!("skipped: mount: {error}");
                None
            }
        }
    }

    /// Somebody makes room, or takes it.
    pub(crate) fn resize(&self, mib: u32) {
        self.remount(&format!("size={mib}m"));
    }

    pub(crate) fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        let mount = Command::new("mount")
            .args(["-o", &options, &self.0])
            .output()
            .unwrap();
        let why = String::from_utf8_lossy(&mount.stderr);
        assert!(mount.status.success(), "{options}: {why}");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a server may still have it open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
