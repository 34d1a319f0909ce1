//! T11: what is replaced or deleted is kept, wherever the directory for it lies.
#![cfg(target_os = "linux")]

use crate::support::place::SmallDisk;
use crate::support::process::{Done, Input};
use crate::support::{Host, Site};
use rustix::fs::{FileType, Mode, XattrFlags};
use std::fs::{self, Permissions};
use std::os::unix::fs::{
    FileExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink,
};

const PARTIAL: i32 = 6;
const OWNER: u32 = 1234;

/// What there was in a mirror, which is not in its source: changed, of another kind, or gone.
fn old(at: &str) {
    for dir in ["gone/deep/empty", "kind"] {
        fs::create_dir_all(format!("{at}/{dir}")).unwrap();
    }
    for name in ["changed", "gone/deep/file", "kind/file", "was a file"] {
        let path = format!("{at}/{name}");
        fs::write(&path, format!("old {name}")).unwrap();
        // Nobody writes to it, as with what was mounted read-only and copied.
        fs::set_permissions(&path, Permissions::from_mode(0o4510)).unwrap();
    }
    for name in ["was a link", "changed link", "gone/link"] {
        symlink("old target", format!("{at}/{name}")).unwrap();
    }
    let sparse = fs::File::create(format!("{at}/sparse")).unwrap();
    sparse.write_all_at(b"end", 6 << 20).unwrap();
    for name in ["changed", "gone/deep/file"] {
        let path = format!("{at}/{name}");
        std::os::unix::fs::chown(&path, Some(OWNER), Some(OWNER)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o4510)).unwrap();
        rustix::fs::setxattr(&*path, "user.a", b"kept", XattrFlags::empty()).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789);
        fs::File::open(&path).unwrap().set_modified(time).unwrap();
    }
}

fn source(at: &str) {
    fs::create_dir_all(format!("{at}/was a file")).unwrap();
    fs::create_dir_all(format!("{at}/dir")).unwrap();
    let names = ["changed", "kind", "was a link", "sparse"];
    for name in names.into_iter().chain(["a", "b", "c", "dir/d"]) {
        fs::write(format!("{at}/{name}"), "new").unwrap();
    }
    symlink("new target", format!("{at}/changed link")).unwrap();
}

/// All that [`old`] made is there, with all that it had.
fn assert_kept(at: &str, what: &str) {
    for name in ["changed", "gone/deep/file", "kind/file", "was a file"] {
        let path = format!("{at}/{name}");
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            format!("old {name}"),
            "{what}"
        );
        let mode = fs::metadata(&path).unwrap().mode() & 0o7777;
        assert_eq!(mode, 0o4510, "{what}: {name}");
    }
    for name in ["changed", "gone/deep/file"] {
        let path = format!("{at}/{name}");
        let stat = fs::metadata(&path).unwrap();
        assert_eq!((stat.uid(), stat.gid()), (OWNER, OWNER), "{what}: {name}");
        assert_eq!(
            (stat.mtime(), stat.mtime_nsec()),
            (1_000_000_000, 123_456_789)
        );
        let mut value = [0; 8];
        let len = rustix::fs::getxattr(&*path, "user.a", &mut value[..]).unwrap();
        assert_eq!(&value[..len], b"kept", "{what}: {name}");
    }
    for name in ["was a link", "changed link", "gone/link"] {
        let target = fs::read_link(format!("{at}/{name}")).unwrap();
        assert_eq!(target.to_str(), Some("old target"), "{what}: {name}");
    }
    assert!(
        fs::metadata(format!("{at}/gone/deep/empty"))
            .unwrap()
            .is_dir()
    );
    let sparse = fs::metadata(format!("{at}/sparse")).unwrap();
    assert_eq!(sparse.size(), (6 << 20) + 3, "{what}");
    assert!(sparse.blocks() < 1000, "{what}: its hole is one");
}

/// Up and down: `check(where the mirror lies, sync)`.
fn both_ways(check: impl Fn(&str, &dyn Fn(&[&str]) -> Done)) {
    let site = Site::new(240);
    let server = site.serve();
    for (from, to, at, source_at) in [
        (
            site.file("s"),
            server.url("d"),
            site.root("d"),
            site.file("s"),
        ),
        (
            server.url("s"),
            site.file("d"),
            site.file("d"),
            site.root("s"),
        ),
    ] {
        source(&source_at);
        source(&format!("{source_at}/sub"));
        fs::create_dir_all(&at).unwrap();
        check(&at, &|more| {
            let args = [&["sync", "--accept-new", "--backup-dir", ".old"], more];
            let args = [&args.concat()[..], &[&from, &to]].concat();
            site.run(Host::Here, "client", &args, Input::None)
        });
    }
    server.stop();
    site.assert_nothing_half_done();
}

#[test]
fn t11_backups_go_to_another_disk_and_come_from_one() {
    both_ways(|at, sync| {
        for disk in [".old", "sub"] {
            let _ = fs::remove_dir_all(at);
            fs::create_dir_all(format!("{at}/{disk}")).unwrap();
            let Some(_disk) = SmallDisk::mount(&format!("{at}/{disk}"), 16) else {
                return;
            };
            old(at);
            old(&format!("{at}/sub"));
            let flags = ["-a", "--delete"];
            let done = sync(&flags);
            assert_eq!(done.code, Some(0), "{disk}: {}", done.err);
            for _ in 0..2 {
                for part in ["", "sub"] {
                    assert_kept(&format!("{at}/.old/{part}"), disk);
                    let there = fs::read_to_string(format!("{at}/{part}/changed")).unwrap();
                    assert_eq!(there, "new", "{disk}");
                    assert!(!fs::exists(format!("{at}/{part}/gone")).unwrap());
                }
                let again = sync(&flags);
                assert_eq!(again.code, Some(0), "{disk}: {}", again.err);
                assert!(again.err.contains(" 0 files"), "{disk}: {}", again.err);
            }
        }
    });
}

/// What no copy brings along stays where it is, and so does what there is no room for.
#[test]
fn t11_what_another_disk_cannot_keep_is_not_taken_away() {
    both_ways(|at, sync| {
        let _ = fs::remove_dir_all(at);
        fs::create_dir_all(format!("{at}/.old")).unwrap();
        let Some(disk) = SmallDisk::mount(&format!("{at}/.old"), 1) else {
            return;
        };
        let pipe = format!("{at}/changed");
        rustix::fs::mknodat(rustix::fs::CWD, &*pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        fs::write(format!("{at}/gone"), vec![1; 3 << 20]).unwrap();
        let flags = ["--delete", "--wait-for-space", "0"];
        let done = sync(&flags);
        let parts = [
            "neither file nor link",
            "on another disk",
            "gone",
            "no space",
        ];
        done.assert_failed(PARTIAL, &parts);
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
        assert_eq!(fs::metadata(format!("{at}/gone")).unwrap().size(), 3 << 20);
        assert_eq!(fs::read_dir(format!("{at}/.old")).unwrap().count(), 0);
        // Somebody makes room.
        fs::remove_file(&pipe).unwrap();
        disk.resize(8);
        let done = sync(&flags);
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert_eq!(
            fs::metadata(format!("{at}/.old/gone")).unwrap().size(),
            3 << 20
        );
    });
}

/// Names of one file: each that is kept, moved to the backups or replaced changes the file that the others are, too, which is nobody
/// else's doing.
#[test]
fn t11_names_of_one_file_are_kept_one_after_the_other() {
    const NAMES: [&str; 6] = ["a", "b", "c", "dir/d", "kind/e", "gone/f"];
    both_ways(|at, sync| {
        for archive in [&[][..], &["-a"]] {
            for dir in ["", "sub"] {
                let _ = fs::remove_dir_all(format!("{at}/{dir}"));
                for dir in ["dir", "kind", "gone"].map(|name| format!("{at}/{dir}/{name}")) {
                    fs::create_dir_all(dir).unwrap();
                }
            }
            let first = format!("{at}/a");
            fs::write(&first, "old").unwrap();
            for dir in ["", "sub/"] {
                for name in NAMES.map(|name| format!("{at}/{dir}{name}")) {
                    if name != first {
                        fs::hard_link(&first, name).unwrap();
                    }
                }
            }
            let done = sync(&[&["--delete"], archive].concat());
            assert_eq!(done.code, Some(0), "{}", done.err);
            for dir in ["", "sub/"] {
                for name in NAMES {
                    let kept = format!("{at}/.old/{dir}{name}");
                    assert_eq!(fs::read_to_string(kept).unwrap(), "old", "{dir}{name}");
                }
                for name in ["a", "b", "c", "dir/d"] {
                    let there = fs::read_to_string(format!("{at}/{dir}{name}"));
                    assert_eq!(there.unwrap(), "new", "{dir}{name}");
                }
            }
            fs::remove_dir_all(format!("{at}/.old")).unwrap();
        }
    });
}
