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

    /// What the test has mounted there by itself.
    pub(crate) fn mounted(at: &str) -> Self {
        Self(at.to_owned())
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

/// An ext4 in a file, mounted through a loop device. Dropping it unmounts it.
pub(crate) struct LoopDisk {
    image: String,
    /// `/sys/block/loop7/stat`
    stat: String,
    _mount: SmallDisk,
}

impl LoopDisk {
    /// Makes one of `mib` MiB in the file `image` and mounts it at `at`; `None` with a printed reason.
    pub(crate) fn make(image: &str, mib: u64, at: &str) -> Option<Self> {
        fs::File::create(image).unwrap().set_len(mib << 20).unwrap();
        // Nothing is to be written by itself later.
        let options = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
        match Command::new("mkfs.ext4").args(options).arg(image).output() {
            Ok(output) if output.status.success() => Self::mount(image, at),
            other => {
                println!("skipped: no mkfs.ext4: {other:?}");
                None
            }
        }
    }

    /// Mounts one that was made before, as after a power cut.
    pub(crate) fn mount(image: &str, at: &str) -> Option<Self> {
        let mount = Command::new("mount")
            .args(["-o", "loop", image, at])
            .output();
        match mount {
            Ok(output) if output.status.success() => {}
            other => {
                println!("skipped: no loop device can be mounted: {other:?}");
                return None;
            }
        }
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let at = at.trim_end_matches('/');
        let line = mounts
            .lines()
            .rfind(|line| line.split(' ').nth(1) == Some(at));
        let device = line.and_then(|line| line.split(' ').next()).unwrap();
        let device = device.trim_start_matches("/dev/");
        Some(Self {
            image: image.to_owned(),
            stat: format!("/sys/block/{device}/stat"),
            _mount: SmallDisk(at.to_owned()),
        })
    }

    /// What a power cut at this moment would leave: the device as it is, without anything that is still in
    /// the memory of the file system. The copy is repeated until nothing was written meanwhile, so it
    /// is one moment's. What the device was told has arrived in full and in order: writes that are torn or
    /// reordered inside of the device are not shown.
    pub(crate) fn cut(&self, to: &str) {
        // Writes completed, sectors written, requests in flight, flushes (Documentation/block/stat.rst).
        let look = || {
            let stat = fs::read_to_string(&self.stat).unwrap();
            let fields: Vec<u64> = stat
                .split_whitespace()
                .map(|field| field.parse().unwrap())
                .collect();
            [4, 6, 8, 15].map(|at| fields.get(at).copied().unwrap_or(0))
        };
        for _ in 0..100 {
            let before = look();
            let copied = Command::new("cp")
                .args(["--sparse=always", &self.image, to])
                .status();
            assert!(copied.unwrap().success(), "{} cannot be copied", self.image);
            if look() == before && before[2] == 0 {
                return;
            }
        }
        panic!("the disk never rests");
    }
}
