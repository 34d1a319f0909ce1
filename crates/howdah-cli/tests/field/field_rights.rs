//! What a copy does to rights, and what rights do to a copy: the T rows of docs/faults.md about modes.

use crate::support;
use crate::support::process::{Done, Input};
use crate::support::{Host, Site, umask};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

/// Debian's `nobody`.
const NOBODY: u32 = 65534;

/// A client without any privilege, with the keys of `client` and files of its own.
struct Nobody<'a>(&'a Site);

impl<'a> Nobody<'a> {
    /// `None` with a printed reason where root is not there to become somebody else.
    fn on(site: &'a Site) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can become somebody else");
            return None;
        }
        fs::set_permissions(site.path(), Permissions::from_mode(0o755)).unwrap();
        for dir in [site.config("client"), site.file("").into()] {
            own(&dir);
        }
        Some(Self(site))
    }

    fn run(&self, args: &[&str]) -> Done {
        let mut words = vec!["--reuid=65534", "--regid=65534", "--clear-groups"];
        words.push(env!("CARGO_BIN_EXE_howdah"));
        words.extend(args);
        let mut command = Command::new("setpriv");
        command
            .args(words)
            .env("HOWDAH_CONFIG_DIR", self.0.config("client"))
            .env("HOME", self.0.file(""))
            .env("XDG_RUNTIME_DIR", self.0.file(""))
            .env("HOWDAH_RECONNECT", "0")
            .env("HOWDAH_DIE_WITH_PARENT", "1");
        support::process::Process::start(command, Input::None, self.0.limit()).finish()
    }
}

/// Gives `dir` and all below to [`NOBODY`].
fn own(dir: &Path) {
    chown(dir, Some(NOBODY), Some(NOBODY)).unwrap();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            own(&path);
        } else {
            std::os::unix::fs::lchown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
}

fn mode(path: &str) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &str, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn t10_directories_that_their_owner_may_not_write_to_are_copied_into_again_and_again() {
    let site = Site::new(120);
    let Some(nobody) = Nobody::on(&site) else {
        return;
    };
    for dir in ["s/a/deep", "s/b", "s/gone/deep"] {
        fs::create_dir_all(site.root(dir)).unwrap();
        fs::write(site.root(&format!("{dir}/file")), dir).unwrap();
    }
    let closed = [
        ("s/a/deep", 0o555),
        ("s/a", 0o500),
        ("s/b", 0o311),
        ("s/gone", 0o555),
    ];
    for (dir, mode) in closed {
        set_mode(&site.root(dir), mode);
    }
    let server = site.serve();
    let (from, to) = (server.url("s"), site.file("d"));
    let sync = ["sync", "--json", "--accept-new", "--delete", &*from, &*to];
    let done = nobody.run(&sync);
    assert_eq!(done.code, Some(0), "{}", done.err);
    for (dir, mode_of) in closed {
        let there = dir.replacen('s', &to, 1);
        assert_eq!(mode(&there), mode_of, "{dir}");
    }

    // Something changes below each of them, and a part goes.
    fs::write(site.root("s/a/deep/file"), "changed").unwrap();
    fs::write(site.root("s/b/new"), "new").unwrap();
    fs::remove_dir_all(site.root("s/gone")).unwrap();
    let done = nobody.run(&sync);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(fs::read(format!("{to}/a/deep/file")).unwrap(), b"changed");
    assert_eq!(fs::read(format!("{to}/b/new")).unwrap(), b"new");
    assert!(!fs::exists(format!("{to}/gone")).unwrap());
    for (dir, mode_of) in &closed[..3] {
        assert_eq!(mode(&dir.replacen('s', &to, 1)), *mode_of, "{dir}");
    }
    let done = nobody.run(&sync);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(done.json()["tree"]["files"], 0, "{}", done.json());
    server.stop();
    site.assert_nothing_half_done();
}

#[test]
fn t10_a_file_that_its_owner_may_not_read_becomes_what_its_source_is() {
    let site = Site::new(120);
    let Some(nobody) = Nobody::on(&site) else {
        return;
    };
    fs::create_dir(site.root("s")).unwrap();
    fs::write(site.root("s/file"), "text").unwrap();
    set_mode(&site.root("s/file"), 0o640);
    let server = site.serve();
    let (from, to, there) = (server.url("s/."), site.file("d/"), site.file("d/file"));
    let copy = |options: &[&str]| {
        let places = ["--json", "--accept-new", &*from, &*to];
        let done = nobody.run(&[options, &places[..]].concat());
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert!(!done.err.contains("cannot be set"), "{}", done.err);
    };
    copy(&["sync"]);
    for (options, expected) in [
        (&["sync"][..], 0o640),
        // The group is not that of the source, and has none of its rights.
        (&["sync", "-a"], 0o600),
        (&["cp", "-r", "--chmod", "F640"], 0o640),
    ] {
        for closed in [0, 0o300] {
            set_mode(&there, closed);
            copy(options);
            assert_eq!(mode(&there), expected, "{options:?} {closed:o}");
        }
    }
    // It may be told another time, and keeps its mode where none is to be set.
    set_mode(&there, 0o300);
    let file = fs::File::options()
        .write(true)
        .open(site.root("s/file"))
        .unwrap();
    file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_hours(400_000))
        .unwrap();
    copy(&["cp", "-r", "--size-only"]);
    let modified = |path: &str| fs::metadata(path).unwrap().modified().unwrap();
    assert_eq!(modified(&there), modified(&site.root("s/file")));
    assert_eq!(mode(&there), 0o300);
    server.stop();
    site.assert_nothing_half_done();
}

/// A copy to or from the server: the name of the source and that of the destination below each.
type Way<'a> = (
    &'a str,
    &'a dyn Fn(&str) -> String,
    &'a dyn Fn(&str) -> String,
);

/// Runs `check` for what is put and for what is fetched: with how a source's and a destination's path are written, and
/// where they lie.
fn both_ways(
    site: &Site,
    server: &support::process::Server,
    check: impl Fn(
        &dyn Fn(&[&str], &str, &str) -> Done,
        &dyn Fn(&str) -> String,
        &dyn Fn(&str) -> String,
    ),
) {
    let here = |name: &str| site.file(name);
    let there = |name: &str| site.root(name);
    let url = |name: &str| server.url(name);
    let ways: [(Way<'_>, Way<'_>); 2] = [
        (("put", &here, &here), ("put", &url, &there)),
        (("get", &url, &there), ("get", &here, &here)),
    ];
    for ((way, from, from_lies), (_, to, to_lies)) in ways {
        println!("{way}");
        let run = |options: &[&str], source: &str, target: &str| {
            let (source, target) = (from(source), to(target));
            let args = [options, &["--accept-new", &*source, &*target]].concat();
            site.run(Host::Here, "client", &args, Input::None)
        };
        check(&run, from_lies, to_lies);
    }
}

#[test]
fn n2_t09_a_single_file_has_the_rights_that_cp_and_scp_give_it() {
    let site = Site::new(120);
    let server = site.serve();
    let umask = umask();
    both_ways(&site, &server, |run, from, to| {
        for asked in [0o600, 0o640, 0o755, 0o777, 0o4755, 0o400] {
            let _ = fs::remove_file(from("s"));
            fs::write(from("s"), "secret").unwrap();
            set_mode(&from("s"), asked);
            for options in [&["cp"][..], &["cp", "-r"], &["cp", "--no-resume"]] {
                let _ = fs::remove_file(to("t"));
                let done = run(options, "s", "t");
                assert_eq!(done.code, Some(0), "{}", done.err);
                assert_eq!(
                    mode(&to("t")),
                    asked & 0o777 & !umask,
                    "{options:?} {asked:o}"
                );
            }
            // What is replaced keeps its own, and its owner.
            for options in [&["cp"][..], &["cp", "-r"]] {
                for kept in [0o600, 0o660, 0o755] {
                    let _ = fs::remove_file(to("t"));
                    fs::write(to("t"), "old").unwrap();
                    set_mode(&to("t"), kept);
                    let is_root = rustix::process::geteuid().is_root();
                    if is_root {
                        chown(to("t"), Some(NOBODY), Some(7)).unwrap();
                    }
                    let done = run(options, "s", "t");
                    assert_eq!(done.code, Some(0), "{}", done.err);
                    assert_eq!(fs::read(to("t")).unwrap(), b"secret");
                    assert_eq!(mode(&to("t")), kept, "{options:?} {asked:o}");
                    let stat = fs::metadata(to("t")).unwrap();
                    if is_root {
                        assert_eq!((stat.uid(), stat.gid()), (NOBODY, 7), "{options:?}");
                    }
                }
            }
            let done = run(&["cp", "-p"], "s", "t");
            assert_eq!(done.code, Some(0), "{}", done.err);
            assert_eq!(mode(&to("t")), asked & 0o777, "-p {asked:o}");
        }
        let _ = (fs::remove_file(from("s")), fs::remove_file(to("t")));
    });
    // A pipe has no rights of its own.
    let to = server.url("pipe");
    for mode_of in [None, Some(0o600)] {
        if let Some(mode) = mode_of {
            set_mode(&site.root("pipe"), mode);
        }
        let input = Input::Bytes(b"bytes".to_vec());
        let done = site.copy_with(Host::Here, &["-", &to], input);
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert_eq!(mode(&site.root("pipe")), mode_of.unwrap_or(0o666 & !umask));
    }
    server.stop();
    site.assert_nothing_half_done();
}

#[test]
fn n2_t09_what_is_replaced_keeps_its_attributes_where_cp_and_scp_keep_them() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    const NAME: &str = "user.origin";
    let site = Site::new(120);
    let server = site.serve();
    both_ways(&site, &server, |run, from, to| {
        fs::create_dir(from("s")).unwrap();
        fs::create_dir(to("d")).unwrap();
        fs::write(from("s/small"), "new").unwrap();
        let large = fs::File::create(from("s/large")).unwrap();
        large.set_len((4 << 20) + 1).unwrap();
        for (options, source, keeps) in [
            (&["cp"][..], "s/small", true),
            (&["cp", "-r"], "s/.", true),
            (&["cp", "-r", "-a"], "s/.", false),
        ] {
            for name in ["d/small", "d/large"] {
                fs::write(to(name), "old").unwrap();
                if let Err(e) = setxattr(to(name), NAME, b"kept", XattrFlags::empty()) {
                    println!("skipped: this disk has no attributes ({e})");
                    return;
                }
            }
            let is_tree = source.ends_with('.');
            let done = run(options, source, if is_tree { "d" } else { "d/small" });
            assert_eq!(done.code, Some(0), "{}", done.err);
            for name in ["d/small", "d/large"] {
                if !is_tree && name == "d/large" {
                    continue;
                }
                let mut value = [0; 8];
                let found = getxattr(to(name), NAME, &mut value).ok();
                assert_ne!(fs::read(to(name)).unwrap(), b"old", "{options:?}");
                assert_eq!(found, keeps.then_some(4), "{options:?} {name}");
                assert!(!keeps || value.starts_with(b"kept"), "{options:?}");
            }
        }
        for dir in [from("s"), to("d")] {
            fs::remove_dir_all(dir).unwrap();
        }
    });
    server.stop();
    site.assert_nothing_half_done();
}

#[test]
fn t03_t04_directories_that_were_there_keep_their_modes_and_new_ones_inherit() {
    let site = Site::new(120);
    let server = site.serve();
    let umask = umask();
    both_ways(&site, &server, |run, from, to| {
        let clean = || {
            for path in [from("s"), to("t")] {
                let _ = fs::remove_dir_all(path);
            }
        };
        for there in [0o755, 0o700, 0o2775, 0o1777] {
            clean();
            fs::create_dir_all(from("s/sub/new")).unwrap();
            for dir in ["s", "s/sub", "s/sub/new"] {
                set_mode(&from(dir), 0o777);
            }
            fs::create_dir_all(to("t/sub")).unwrap();
            for dir in ["t", "t/sub"] {
                set_mode(&to(dir), there);
            }
            let done = run(&["cp", "-r"], "s/.", "t");
            assert_eq!(done.code, Some(0), "{}", done.err);
            for dir in ["t", "t/sub"] {
                assert_eq!(mode(&to(dir)), there, "{dir}");
            }
            let inherited = there & 0o2000;
            assert_eq!(
                mode(&to("t/sub/new")),
                0o777 & !umask | inherited,
                "{there:o}"
            );

            // A mirror makes permissions equal, and takes no special bit away.
            let done = run(&["sync"], "s", "t");
            assert_eq!(done.code, Some(0), "{}", done.err);
            for dir in ["t", "t/sub"] {
                assert_eq!(mode(&to(dir)), 0o777 | there & 0o7000, "{dir}");
            }
            assert_eq!(mode(&to("t/sub/new")), 0o777 | inherited);
            let done = run(&["sync", "-a"], "s", "t");
            assert_eq!(done.code, Some(0), "{}", done.err);
            assert_eq!(mode(&to("t/sub")), 0o777, "equal");
        }
        clean();
    });
    server.stop();
}

/// Owners that cannot be kept are no reason to copy what is equal, and files of others are none of one's own.
#[test]
fn link_dest_links_for_an_ordinary_user_what_a_copy_would_be() {
    let site = Site::new(120);
    let Some(nobody) = Nobody::on(&site) else {
        return;
    };
    fs::create_dir(site.root("s")).unwrap();
    for name in ["mine", "foreign", "closed"] {
        fs::write(site.root(&format!("s/{name}")), name).unwrap();
    }
    set_mode(&site.root("s/closed"), 0o440);
    let server = site.serve();
    let from = server.url("s");
    let run = |flags: &[&str], to: &str| {
        let to = site.file(to);
        let args = [
            &["sync", "--json", "--accept-new", "-a"],
            flags,
            &[&*from, &*to],
        ]
        .concat();
        let done = nobody.run(&args);
        assert_eq!(done.code, Some(0), "{}", done.err);
        done.json()["tree"]["linked"].as_u64()
    };
    run(&[], "day1");
    // As it would be for its owner, which is somebody else than both.
    chown(site.file("day1/foreign"), Some(12), Some(NOBODY)).unwrap();
    let linked = run(&["--link-dest", "../day1"], "day2");
    assert_eq!(linked, Some(2));
    assert_eq!(run(&["--link-dest", "../day1"], "day2"), Some(0));
    let inode = |name: &str| fs::metadata(site.file(name)).unwrap().ino();
    for name in ["mine", "closed"] {
        assert_eq!(
            inode(&format!("day1/{name}")),
            inode(&format!("day2/{name}"))
        );
    }
    let foreign = fs::metadata(site.file("day2/foreign")).unwrap();
    assert_eq!((foreign.uid(), foreign.nlink()), (NOBODY, 1));
    server.stop();
}

/// What `--chmod` makes of an ACL is what it is to be: it is set once.
#[test]
fn chmod_of_what_has_an_acl_is_done_once() {
    let site = Site::new(60);
    let server = site.serve();
    for (from, to, here) in [
        (site.file("s"), server.url("d"), site.file("s")),
        (server.url("t"), site.file("e"), site.root("t")),
    ] {
        fs::create_dir_all(format!("{here}/dir")).unwrap();
        for name in ["file", "dir/other"] {
            fs::write(format!("{here}/{name}"), name).unwrap();
        }
        let args = ["-R", "-m", "u:65534:rwx,g:65534:r,m::rwx", &here];
        let set = Command::new("setfacl").args(args).status();
        if !set.is_ok_and(|status| status.success()) {
            println!("skipped: no ACLs here");
            return;
        }
        for modes in ["D755,F644", "g-w,o=", "u=rwX,go=rX", "F0600"] {
            let flags = ["sync", "--accept-new", "-a", "--chmod", modes];
            let sync = |more: &[&str]| {
                let args = [&flags[..], more, &[&from, &to]].concat();
                site.run(Host::Here, "client", &args, Input::None)
            };
            let done = sync(&[]);
            assert_eq!(done.code, Some(0), "{modes}: {}", done.err);
            let again = sync(&["--dry-run"]);
            let changes = String::from_utf8_lossy(&again.out).into_owned();
            assert_eq!((again.code, &*changes), (Some(0), ""), "{modes}");
        }
    }
    server.stop();
}

/// Only its owner may set the mode of a directory; one that has it already lacks nothing.
#[test]
fn a_directory_of_somebody_else_that_keeps_its_mode_is_no_loss() {
    let site = Site::new(60);
    let Some(nobody) = Nobody::on(&site) else {
        return;
    };
    let server = site.serve();
    fs::create_dir(site.root("s")).unwrap();
    fs::write(site.root("s/new"), "new").unwrap();
    let shared = site.file("shared");
    fs::create_dir(&shared).unwrap();
    set_mode(&shared, 0o1777);
    chown(&shared, Some(0), Some(0)).unwrap();
    let (from, inside) = (server.url("s"), server.url("s/."));
    let done = nobody.run(&["cp", "-r", "--accept-new", &inside, &shared]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(!done.err.contains("mode not kept"), "{}", done.err);
    assert!(fs::exists(format!("{shared}/new")).unwrap());
    // Another mode is asked for here, and missed.
    let done = nobody.run(&["sync", "--accept-new", &from, &shared]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("mode not kept"), "{}", done.err);
    assert_eq!(mode(&shared), 0o1777);
    server.stop();
}

/// In a directory like /tmp a name that somebody else's file has is not free, and it is said why.
#[test]
fn what_a_sticky_directory_keeps_is_told_with_its_owner() {
    let site = Site::new(120);
    let Some(nobody) = Nobody::on(&site) else {
        return;
    };
    let server = site.serve();
    fs::create_dir(site.root("s")).unwrap();
    for name in ["f", "mine"] {
        fs::write(site.root(&format!("s/{name}")), "new").unwrap();
    }
    let sticky = site.file("sticky");
    fs::create_dir(&sticky).unwrap();
    set_mode(&sticky, 0o1777);
    let theirs = format!("{sticky}/f");
    fs::write(&theirs, "theirs").unwrap();
    set_mode(&theirs, 0o666);
    fs::create_dir(format!("{sticky}/dir")).unwrap();
    let told = |done: &Done, code: i32| {
        assert_eq!(done.code, Some(code), "{}", done.err);
        for part in ["sticky bit", "user 0"] {
            assert!(done.err.contains(part), "{part}: {}", done.err);
        }
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
    };
    let there = |name: &str| server.url(name);
    told(
        &nobody.run(&["cp", "--accept-new", &there("s/f"), &theirs]),
        4,
    );
    told(&nobody.run(&["cp", "-r", &there("s/."), &sticky]), 6);
    told(&nobody.run(&["sync", "--delete", &there("s"), &sticky]), 6);
    assert_eq!(fs::read_to_string(format!("{sticky}/mine")).unwrap(), "new");
    // What would be moved stays there.
    told(
        &nobody.run(&["cp", "--remove-source-files", &theirs, &there("moved")]),
        6,
    );
    assert_eq!(fs::read_to_string(site.root("moved")).unwrap(), "theirs");
    server.stop();
}

/// More extended attributes than are told of one file: whoever has copied or compared the first of them only says so.
#[test]
fn of_more_attributes_than_are_compared_nobody_says_that_they_are_equal() {
    let site = Site::new(120);
    let server = site.serve();
    let file = site.file("f");
    fs::write(&file, "text").unwrap();
    let set = |path: &str, number: u32| {
        let name = format!("user.k{number}");
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(path, name, b"v", flags)
    };
    for number in 0..100 {
        if let Err(e) = set(&file, number) {
            println!("skipped: this disk does not take 100 attributes: {e}");
            return;
        }
    }
    let run = |args: &[&str]| {
        let args = [&args[..1], &["--accept-new"], &args[1..]].concat();
        site.run(Host::Here, "client", &args, Input::None)
    };
    let told = |done: &Done, code: i32| {
        assert_eq!(done.code, Some(code), "{}", done.err);
        assert!(done.err.contains("more than 64"), "{}", done.err);
    };
    let there = server.url("f");
    told(&run(&["cp", "-a", &file, &there]), 0);
    // Also if the machine that is not this one has said all before this one is asked.
    for _ in 0..3 {
        told(&run(&["verify", "-a", &file, &there]), 6);
        told(&run(&["verify", "-a", &there, &file]), 6);
    }
    // The same ones from everywhere: given again, nothing is to be done.
    let dry = run(&["cp", "-a", "-n", &file, &there]);
    assert_eq!(String::from_utf8_lossy(&dry.out), "");
    let fine = run(&["verify", &file, &there]);
    assert_eq!(fine.code, Some(0), "{}", fine.err);
    server.stop();
}
