//! The file system of a directory.

use super::Finding;
use howdah_core::{Rate, units::format_bytes};
use rustix::fs::{XattrFlags, fsetxattr, fstatfs, fstatvfs, ioctl_ficlone};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Written to see how fast that is.
const PROBE_BYTES: usize = 64 << 20;
const BLOCK_BYTES: usize = 1 << 20;
/// Small writes, each made durable.
const SYNCS: usize = 7;
/// A slower fsync is worth a word: each file's end waits for one.
const SLOW_SYNC: Duration = Duration::from_millis(50);
/// Less free space is worth a word.
const LITTLE_SPACE: u64 = 1 << 30;

/// Magic numbers of include/uapi/linux/magic.h and of file systems outside the kernel.
const KINDS: [(u64, &str); 22] = [
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x0102_1994, "tmpfs"),
    (0x6969, "nfs"),
    (0x794c_7630, "overlay"),
    (0x2fc1_2fc1, "zfs"),
    (0x6573_5546, "fuse"),
    (0xfe53_4d42, "smb2"),
    (0xff53_4d42, "cifs"),
    (0x00c3_6400, "ceph"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x1983_0326, "beegfs"),
    (0xf2f5_2010, "f2fs"),
    (0xca45_1a4e, "bcachefs"),
    (0x0102_1997, "9p"),
    (0x4d44, "vfat"),
    (0x2011_bab0, "exfat"),
    (0x5346_544e, "ntfs"),
    (0x7366_746e, "ntfs3"),
    (0x7371_7368, "squashfs"),
];

/// What the kernel makes when it is read, of include/uapi/linux/magic.h: no file can be kept there. A copy refuses the same ones (`is_view` of
/// howdah-store).
const VIEWS: [(u64, &str); 13] = [
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0x7363_6673, "securityfs"),
    (0xcafe_4a11, "bpf"),
    (0x1cd1, "devpts"),
    (0xf97c_ff8c, "selinuxfs"),
    (0xde5e_81e4, "efivarfs"),
    (0x6265_6570, "configfs"),
    (0x6573_5543, "fusectl"),
];

pub(super) fn check(dir: &Path) -> Vec<Finding> {
    let kind = match kind(dir) {
        Ok(kind) => kind,
        // There is nothing more to find out.
        Err(why) => {
            let finding = Finding::change("file-system", why);
            let remedy = "name a directory on a disk, where files are to lie: howdah doctor DIR";
            return vec![finding.remedy(remedy)];
        }
    };
    let mut findings = vec![kind, space(dir)];
    match probe(dir) {
        Ok(found) => findings.extend(found),
        Err(error) => findings.push(Finding::note(
            "directory",
            format!(
                "nothing can be written in {} ({error}): copies can come from there, and none can go there",
                dir.display()
            ),
        )),
    }
    findings
}

/// What file system a directory is on, or why no files can lie there.
fn kind(dir: &Path) -> Result<Finding, String> {
    let shown = dir.display();
    let unseen = |e: io::Error| format!("{shown} cannot be opened: {e}");
    // Whoever opens a pipe waits for somebody who writes to it.
    if !dir.metadata().map_err(unseen)?.is_dir() {
        return Err(format!("{shown} is no directory"));
    }
    let found = File::open(dir).and_then(|opened| Ok(fstatfs(opened)?));
    let magic = found.map_err(unseen)?.f_type as u64 & 0xffff_ffff;
    if let Some((_, name)) = VIEWS.iter().find(|(number, _)| *number == magic) {
        return Err(format!(
            "{shown} is {name}, which is no disk: the kernel makes what lies there, and it takes no files"
        ));
    }
    Ok(match KINDS.iter().find(|(number, _)| *number == magic) {
        Some((_, "tmpfs")) => Finding::note(
            "file-system",
            format!("{shown} is a tmpfs: it is memory, and nothing in it survives a power cut"),
        ),
        Some((_, name @ ("nfs" | "cifs" | "smb2" | "fuse" | "9p"))) => Finding::note(
            "file-system",
            format!("{shown} is a {name}: it may be slower than the network"),
        ),
        Some((_, name)) => Finding::ok("file-system", format!("{shown} is {name}")),
        None => Finding::note(
            "file-system",
            format!("{shown} is of an unknown kind ({magic:#x})"),
        ),
    })
}

fn space(dir: &Path) -> Finding {
    let Ok(stat) = File::open(dir).and_then(|opened| Ok(fstatvfs(opened)?)) else {
        return Finding::note("free-space", "unknown");
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let text = format!("{}, {} files", format_bytes(free), stat.f_favail);
    if free < LITTLE_SPACE || (stat.f_files > 0 && stat.f_favail < 10_000) {
        Finding::note("free-space", format!("only {text}"))
    } else {
        Finding::ok("free-space", text)
    }
}

/// What only writing tells. The file goes away whatever happens.
fn probe(dir: &Path) -> io::Result<Vec<Finding>> {
    let mut file = tempfile::tempfile_in(dir)?;
    let mut findings = Vec::new();
    let mut times = Vec::new();
    for _ in 0..SYNCS {
        file.write_all(&[1; 4096])?;
        let before = Instant::now();
        file.sync_all()?;
        times.push(before.elapsed());
    }
    times.sort();
    let median = times[SYNCS / 2];
    let text = format!("{:.1} ms for 4 KiB", median.as_secs_f64() * 1e3);
    findings.push(if median > SLOW_SYNC {
        Finding::note(
            "fsync",
            format!("{text}: many small files will wait for it"),
        )
    } else {
        Finding::ok("fsync", text)
    });

    let before = Instant::now();
    // Not zeros: some file systems keep them as holes.
    let block: Vec<u8> = (0..BLOCK_BYTES)
        .map(|i| ((i * 31) >> 3) as u8 | 1)
        .collect();
    for _ in 0..PROBE_BYTES / BLOCK_BYTES {
        file.write_all(&block)?;
    }
    file.sync_all()?;
    let bytes_per_second = PROBE_BYTES as f64 / before.elapsed().as_secs_f64().max(1e-9);
    let rate = Rate::from_bits_per_sec((bytes_per_second * 8.0) as u64);
    findings.push(Finding::ok(
        "write-speed",
        format!(
            "{rate} ({} per second), 64 MiB with fsync",
            format_bytes(bytes_per_second as u64)
        ),
    ));

    let able = |id, able: bool, without: &str| {
        if able {
            Finding::ok(id, "supported")
        } else {
            Finding::note(id, format!("not supported: {without}"))
        }
    };
    let holes = tempfile::tempfile_in(dir)?;
    holes.set_len(1 << 20)?;
    let sparse = holes.metadata()?.blocks() == 0;
    findings.push(able(
        "sparse-files",
        sparse,
        "files with holes become full files",
    ));
    let clone = tempfile::tempfile_in(dir)?;
    let reflink = ioctl_ficlone(&clone, &holes).is_ok();
    findings.push(able(
        "reflink",
        reflink,
        "copies within it need space of their own",
    ));
    let named = fsetxattr(&holes, "user.howdah", b"1", XattrFlags::empty()).is_ok();
    findings.push(able(
        "xattrs",
        named,
        "extended attributes and ACLs cannot be kept",
    ));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::State;

    #[test]
    fn a_directory_is_looked_at_and_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let findings = check(dir.path());
        for id in [
            "file-system",
            "free-space",
            "fsync",
            "write-speed",
            "sparse-files",
        ] {
            assert!(findings.iter().any(|f| f.id == id), "{id}: {findings:?}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    /// Nothing is well there, and nothing else is worth a word.
    #[test]
    fn where_no_file_can_lie_is_said_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        for (place, why) in [
            (&*dir.path().join("none"), "No such file"),
            (&*file, "is no directory"),
            (Path::new("/dev/null"), "is no directory"),
            (Path::new("/proc"), "is proc, which is no disk"),
        ] {
            let findings = check(place);
            let [finding] = &*findings else {
                panic!("{place:?}: {findings:?}");
            };
            assert_eq!((finding.id, finding.state), ("file-system", State::Change));
            assert!(finding.text.contains(why), "{}", finding.text);
            assert_eq!(finding.remedy.len(), 1);
        }
    }
}
