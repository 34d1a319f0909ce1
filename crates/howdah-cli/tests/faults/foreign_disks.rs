//! F26: disks as other systems format them, exFAT and NTFS, through FUSE: no owners, no modes, coarser times, no links.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::place::{content, hash_of};
use crate::support::process::{Done, Input};
use crate::support::{Host, Site, await_kept, parts};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Command;

// As `howdah --help` lists them.
const PARTIAL: i32 = 6;
const MIB: usize = 1 << 20;

/// A kind of disk: how it is made and mounted.
struct Kind {
    make: &'static [&'static str],
    mount: &'static str,
    /// Two names may be one file.
    has_links: bool,
}

const KINDS: [Kind; 2] = [
    Kind {
        make: &["mkfs.exfat"],
        mount: "mount.exfat-fuse",
        has_links: false,
    },
    Kind {
        make: &["mkfs.ntfs", "--quick", "--quiet"],
        mount: "ntfs-3g",
        has_links: true,
    },
];

/// One that is mounted. Dropping it unmounts it.
struct Disk {
    device: String,
    at: String,
}

/// What the command printed, or the reason why it cannot be.
fn run(program: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        let why = String::from_utf8_lossy(&output.stderr);
        Err(format!("{program} {args:?}: {why}"))
    }
}

impl Disk {
    /// Mounts one of 256 MiB over the server's root; `None` with a printed reason.
    fn mount(site: &Site, kind: &Kind) -> Option<Self> {
        let image = site.file("disk");
        fs::File::create(&image)
            .unwrap()
            .set_len(256 << 20)
            .unwrap();
        let device = match run("losetup", &["--find", "--show", &image]) {
            Ok(device) => device,
            Err(why) => {
                println!("skipped: no loop device: {why}");
                return None;
            }
        };
        // From here on the device is given back whatever happens.
        let disk = Self {
            device,
            at: site.root(""),
        };
        let [program, options @ ..] = kind.make else {
            unreachable!("each kind is made by a program")
        };
        let made = run(program, &[options, &[&*disk.device]].concat())
            .and_then(|_| run(kind.mount, &[&disk.device, &disk.at]));
        if let Err(why) = made {
            println!("skipped: {why}");
            return None;
        }
        Some(disk)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a server may still have it open.
        let _ = run("umount", &["--lazy", &self.at]);
        let _ = run("losetup", &["--detach", &self.device]);
    }
}

/// Runs `check` on each kind of disk that can be had here.
fn on_each(check: impl Fn(&Site, &Kind)) {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can mount a disk");
        return;
    }
    for kind in &KINDS {
        println!("{}", kind.mount);
        let site = Site::new(120);
        if let Some(_disk) = Disk::mount(&site, kind) {
            check(&site, kind);
        }
    }
}

/// Gives a file a time of modification that no other system keeps whole.
fn set_time(path: &str, secs: u64) {
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(secs, 987_654_321);
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(time).unwrap();
}

/// A tree of a few files.
fn tree(site: &Site) -> String {
    fs::create_dir_all(site.file("tree/below")).unwrap();
    for (i, name) in ["one", "two", "below/three"].iter().enumerate() {
        let path = site.file(&format!("tree/{name}"));
        fs::write(&path, content(name, 10_000 * (i + 1))).unwrap();
        set_time(&path, 1_700_000_001);
    }
    site.file("tree/.")
}

fn command(site: &Site, args: &[&str]) -> Done {
    site.run(Host::Here, "client", args, Input::None)
}

#[test]
fn f26_what_is_there_already_is_known_again_on_a_disk_with_other_times() {
    on_each(|site, _| {
        let source = tree(site);
        let server = site.serve();
        let to = server.url("tree");
        let sync = ["sync", "--json", "--accept-new", &*source, &*to];
        let done = command(site, &sync);
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert_eq!(done.json()["tree"]["files"], 3, "{}", done.json());
        let there = fs::metadata(site.root("tree/one")).unwrap();
        assert_eq!(there.mtime(), 1_700_000_001, "its time has come");
        assert_ne!(
            there.mtime_nsec(),
            987_654_321,
            "this disk keeps less of it"
        );

        let done = command(site, &sync);
        assert_eq!(done.code, Some(0), "{}", done.err);
        let json = done.json();
        assert_eq!(
            (&json["tree"]["files"], &json["tree"]["unchanged"]),
            (&0.into(), &3.into()),
            "{json}"
        );
        let verify = ["verify", "--accept-new", "--quick", &*source, &*to];
        let done = command(site, &verify);
        assert_eq!(done.code, Some(0), "{}", done.err);

        // Another time is another file all the same.
        set_time(&site.file("tree/one"), 1_700_000_002);
        let done = command(site, &sync);
        let json = done.json();
        assert_eq!(
            (&json["tree"]["files"], &json["tree"]["unchanged"]),
            (&1.into(), &2.into()),
            "{json}"
        );
        server.stop();
        site.assert_nothing_half_done();
    });
}

#[test]
fn f26_a_further_name_is_a_copy_where_there_are_no_links() {
    on_each(|site, kind| {
        let source = tree(site);
        fs::hard_link(site.file("tree/one"), site.file("tree/again")).unwrap();
        let server = site.serve();
        let to = server.url("tree");
        let copy = ["cp", "-a", "--accept-new", &*source, &*to];
        for attempt in 0..2 {
            let done = command(site, &copy);
            let told = done.err.contains("further name not kept, it is a copy");
            assert_eq!(told, !kind.has_links, "{}", done.err);
            assert_eq!(done.code, Some(0), "{}", done.err);
            for name in ["one", "again"] {
                let there = site.root(&format!("tree/{name}"));
                assert_eq!(
                    hash_of(&there),
                    hash_of(&site.file("tree/one")),
                    "{attempt}"
                );
            }
        }
        let inode = |name: &str| {
            fs::metadata(site.root(&format!("tree/{name}")))
                .unwrap()
                .ino()
        };
        assert_eq!(inode("one") == inode("again"), kind.has_links);
        server.stop();
        site.assert_nothing_half_done();
    });
}

/// exFAT and NTFS take modes and owners without a word, and have one for all files: nothing is changed for that, and no further
/// name made anew, at each run.
#[test]
fn t17_rights_that_the_disk_does_not_hold_are_no_change() {
    on_each(|site, kind| {
        let source = tree(site);
        if kind.has_links {
            fs::hard_link(site.file("tree/one"), site.file("tree/again")).unwrap();
        }
        for (name, mode) in [("one", 0o600), ("two", 0o4711), ("below", 0o1750)] {
            let path = site.file(&format!("tree/{name}"));
            std::os::unix::fs::chown(&path, Some(1234), Some(1234)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let server = site.serve();
        let to = server.url("tree");
        for flags in [
            &["sync"][..],
            &["sync", "-a"],
            &["cp", "-a"],
            &["cp", "-rp"],
        ] {
            let run = |more: &[&str]| {
                let args = [
                    &flags[..1],
                    &["--accept-new"],
                    &flags[1..],
                    more,
                    &[&source, &to],
                ];
                let done = command(site, &args.concat());
                assert_eq!(done.code, Some(0), "{flags:?} {more:?}: {}", done.err);
                done
            };
            run(&[]);
            let inode = || fs::metadata(site.root("tree/one")).unwrap().ino();
            let before = inode();
            let dry = run(&["-n"]);
            let told = String::from_utf8_lossy(&dry.out);
            for what in ["mode", "owner", "copy", "link", "time"] {
                assert!(!told.contains(what), "{flags:?}: {told}");
            }
            let again = run(&[]);
            assert!(again.err.contains(" 0 files"), "{flags:?}: {}", again.err);
            assert_eq!(inode(), before, "{flags:?}");
        }
        server.stop();
        site.assert_nothing_half_done();
    });
}

#[test]
fn f26_a_symbolic_link_is_named_where_there_are_none_and_the_rest_comes() {
    on_each(|site, kind| {
        let source = tree(site);
        std::os::unix::fs::symlink("one", site.file("tree/link")).unwrap();
        let server = site.serve();
        let to = server.url("tree");
        let done = command(site, &["cp", "-r", "--accept-new", &*source, &*to]);
        if kind.has_links {
            assert_eq!(done.code, Some(0), "{}", done.err);
            let there = fs::read_link(site.root("tree/link")).unwrap();
            assert_eq!(there.to_str(), Some("one"));
        } else {
            let parts = ["tree/link\": is a symbolic link", "exclude it"];
            done.assert_failed(PARTIAL, &parts);
        }
        for name in ["one", "two", "below/three"] {
            let name = format!("tree/{name}");
            assert_eq!(hash_of(&site.root(&name)), hash_of(&site.file(&name)));
        }
        // What was named is all that is missing.
        let done = command(
            site,
            &[
                "cp",
                "-r",
                "--accept-new",
                "--exclude",
                "link",
                &*source,
                &*to,
            ],
        );
        assert_eq!(done.code, Some(0), "{}", done.err);
        server.stop();
        site.assert_nothing_half_done();
    });
}

#[test]
fn f26_a_copy_goes_on_after_a_kill_and_leaves_nothing_on_a_disk_without_modes() {
    const SIZE: usize = 40 * MIB;
    on_each(|site, _| {
        let source = site.file("source");
        fs::write(&source, content("goes on", SIZE)).unwrap();
        fs::write(site.file("small"), content("small", 2 * MIB)).unwrap();
        // Two that cannot be gone on with: killed at any moment, and complete but for its name.
        for digit in ["1", "2"] {
            let part = format!(".small.{}.howdah-part", digit.repeat(16));
            fs::write(site.root(&part), "left behind").unwrap();
        }
        let server = site.serve();
        // Slow enough that a busy disk has confirmed a part of it by then.
        let args = ["--limit", "50mbit", &*source, &*server.url("target")];
        let client = site.start_copy(Host::Here, &args, Input::None);
        await_kept(site, &site.root(""));
        // Dropping them kills them.
        drop(server);
        drop(client);
        assert!(!parts(site.root("")).is_empty());

        let server = site.serve();
        let done = site.copy(Host::Here, &source, &server.url("target"));
        done.assert_copied(SIZE as u64, "blake3");
        let resumed = done.json()["resumed_bytes"].as_u64().unwrap();
        assert!(resumed > 0, "{}", done.json());
        let done = site.copy(Host::Here, &site.file("small"), &server.url("small"));
        done.assert_copied(2 * MIB as u64, "blake3");
        server.stop();
        site.assert_nothing_half_done();
    });
}

#[test]
fn t16_a_mirror_keeps_what_the_disk_takes_for_the_same_name() {
    on_each(|site, kind| {
        // NTFS through FUSE tells capital letters from small ones.
        if kind.has_links {
            return;
        }
        let source = site.file("s");
        let make = |names: &[&str]| {
            let _ = fs::remove_dir_all(&source);
            for name in names {
                let path = format!("{source}/{name}");
                fs::create_dir_all(std::path::Path::new(&path).parent().unwrap()).unwrap();
                fs::write(&path, content("t16", 3000)).unwrap();
                set_time(&path, 1_700_000_000);
            }
        };
        let server = site.serve();
        let to = server.url("d");
        let sync = |more: &[&str]| {
            let args = ["sync", "--json", "--accept-new", "--delete"];
            command(site, &[&args, more, &[&*source, &*to]].concat())
        };
        make(&["Report", "Sub/Inner", "stays", "Gr\u{fc}n"]);
        let done = sync(&[]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        fs::write(site.root("d/extra"), "goes").unwrap();
        fs::write(site.root("d/Sub/extra"), "goes, too").unwrap();

        // Only the spelling changes, of files and of a directory; then the content, too.
        for changed in [false, true] {
            make(&["REPORT", "SUB/INNER", "stays", "GR\u{dc}N"]);
            if changed {
                fs::write(format!("{source}/REPORT"), "another one").unwrap();
            }
            let done = sync(&["--dry-run"]);
            assert_eq!(done.code, Some(0), "{}", done.err);
            let done = sync(&[]);
            assert_eq!(done.code, Some(0), "{}", done.err);
            let deleted = if changed { 0 } else { 2 };
            assert_eq!(done.json()["tree"]["deleted"], deleted, "{}", done.json());
            for name in ["REPORT", "SUB/INNER", "stays", "GR\u{dc}N"] {
                let there = fs::read(site.root(&format!("d/{name}"))).unwrap();
                assert_eq!(
                    there,
                    fs::read(format!("{source}/{name}")).unwrap(),
                    "{name}"
                );
            }
            assert!(!fs::exists(site.root("d/extra")).unwrap());
            assert!(!fs::exists(site.root("d/Sub/extra")).unwrap());
        }
        server.stop();
        site.assert_nothing_half_done();
    });
}

#[test]
fn t16_two_names_that_are_one_there_are_both_told_of() {
    on_each(|site, kind| {
        for name in ["s/README", "s/readme", "s/Sub/one", "s/sub/two", "s/sub2/x"] {
            let path = site.file(name);
            fs::create_dir_all(std::path::Path::new(&path).parent().unwrap()).unwrap();
            fs::write(&path, name).unwrap();
        }
        let server = site.serve();
        // In a directory, and named.
        let (one, two) = (site.file("s/README"), site.file("s/readme"));
        fs::create_dir(site.root("named")).unwrap();
        let (tree, named) = (server.url("d"), server.url("named"));
        let source = site.file("s");
        for args in [
            &["sync", "--json", "--accept-new", &*source, &*tree][..],
            &[
                "sync",
                "--json",
                "--accept-new",
                "--dry-run",
                &source,
                &tree,
            ],
            &["sync", "--json", "--accept-new", &source, &tree],
            &["cp", "--json", "--accept-new", &one, &two, &named],
        ] {
            let done = command(site, args);
            // NTFS through FUSE tells capital letters from small ones.
            if kind.has_links {
                assert_eq!(done.code, Some(0), "{args:?}: {}", done.err);
                continue;
            }
            assert_eq!(done.code, Some(PARTIAL), "{args:?}: {}", done.err);
            for part in ["README\"", "readme\""] {
                assert!(done.err.contains(part), "{args:?}: {}", done.err);
            }
        }
        for dir in ["d", "named"] {
            let there = fs::read_to_string(site.root(&format!("{dir}/README"))).unwrap();
            assert_eq!(there, "s/README");
        }
        assert!(fs::exists(site.root("d/Sub/one")).unwrap());
        assert!(!fs::exists(site.root("d/Sub/two")).unwrap());
        assert!(fs::exists(site.root("d/sub2/x")).unwrap());
        server.stop();
        site.assert_nothing_half_done();
    });
}

/// Times that the disk rounds, or does not reach.
#[test]
fn t17_what_the_disk_makes_of_a_time_is_no_change() {
    on_each(|site, _| times(site, false));
}

/// The same on a disk that clamps: ext4 ends in 2446 and begins in 1901.
#[test]
fn t17_times_beyond_the_disk_are_told_once_and_copied_once() {
    let site = Site::new(200);
    let image = site.config("image").display().to_string();
    let disk = support::place::LoopDisk::make(&image, 64, &site.root(""));
    if disk.is_some() {
        times(&site, true);
    }
}

/// What a copy says once of times that the disk cannot hold.
const TOLD: &str = "this disk has not";

/// Copies a tree with strange times to a directory of the server and to one that is asked to bring it back there.
/// `tells`: the disk says at once what it made of a time, and not when it is mounted again.
fn times(site: &Site, tells: bool) {
    // 2500, 2200, 1899, 1950, before 1970, an odd second, one with more than a disk keeps.
    const TIMES: [(i64, i64); 7] = [
        (16_725_225_601, 5),
        (7_258_118_401, 0),
        (-2_240_524_799, 999_999_999),
        (-631_151_999, 1),
        (-1, 987_654_321),
        (1_700_000_001, 0),
        (1_700_000_003, 987_654_321),
    ];
    fs::create_dir_all(site.file("strange")).unwrap();
    let Some(_disk) = support::place::SmallDisk::mount(&site.file("strange"), 16) else {
        return;
    };
    let from = site.file("strange/tree");
    fs::create_dir_all(format!("{from}/below")).unwrap();
    let set = |path: &str, (tv_sec, tv_nsec): (i64, i64)| {
        let time = rustix::fs::Timespec { tv_sec, tv_nsec };
        let times = rustix::fs::Timestamps {
            last_access: time,
            last_modification: time,
        };
        rustix::fs::futimens(fs::File::open(path).unwrap(), &times).unwrap();
    };
    for (i, time) in TIMES.into_iter().enumerate() {
        let path = format!("{from}/below/{i}");
        fs::write(&path, "x").unwrap();
        set(&path, time);
    }
    fs::write(format!("{from}/large"), content("large", 5 * MIB)).unwrap();
    set(&format!("{from}/large"), TIMES[0]);
    set(&format!("{from}/below"), TIMES[2]);
    set(&from, TIMES[0]);
    let server = site.serve();
    let source = format!("{from}/.");
    let to = server.url("tree");
    for options in [&["sync"][..], &["cp", "-r"], &["sync", "-a"]] {
        for first in [true, false] {
            let words = ["--json", "--accept-new", &*source, &*to];
            let done = command(site, &[options, &words].concat());
            assert_eq!(done.code, Some(0), "{options:?} {}", done.err);
            let json = done.json();
            let is_new = first && options == ["sync"];
            let files = if is_new { 8 } else { 0 };
            assert_eq!(json["tree"]["files"], files, "{options:?} {json}");
            let told = done.err.matches(TOLD).count() + json.to_string().matches(TOLD).count();
            assert!(is_new || told == 0 || !tells, "{options:?} {}", done.err);
            assert!(told > 0 || !is_new || !tells, "{options:?} {}", done.err);
            let dry = [&options[..1], &["--dry-run"], &options[1..], &words].concat();
            let done = command(site, &dry);
            let json = done.json();
            assert_eq!(json["tree"]["files"], 0, "{options:?} {json}");
            assert!(!done.err.contains("time"), "{}", done.err);
        }
    }
    for (a, b) in [(&source, &to), (&to, &source)] {
        let done = command(site, &["verify", "--accept-new", a, b]);
        assert_eq!(
            done.code,
            Some(0),
            "{}{}",
            done.err,
            String::from_utf8_lossy(&done.out)
        );
    }
    // What changes is still copied.
    set(&format!("{from}/below/0"), (1_600_000_000, 0));
    let sync = ["sync", "--json", "--accept-new", &*source, &*to];
    let done = command(site, &sync);
    assert_eq!(done.json()["tree"]["files"], 1, "{}", done.json());
    server.stop();
    site.assert_nothing_half_done();
}
