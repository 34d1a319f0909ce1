//! Systems that lack what most have: no /proc, no IPv6. On either side, served and through ssh.
#![cfg(target_os = "linux")]

use crate::support::process::{Done, Input, Server};
use crate::support::sshd::Sshd;
use crate::support::{HOWDAH, Host, Site, write_own};
use rustix::fs::XattrFlags;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

// As `howdah --help` lists them.
const NETWORK: i32 = 5;
const DIFFERS: i32 = 15;
const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// A system that lacks something: the words in front of a command that runs it there.
type Bare = Vec<String>;

/// `words`, if a command works there; `None` with a printed reason.
fn probed(words: &[&str], what: &str) -> Option<Bare> {
    let [program, args @ ..] = words else {
        unreachable!("there is a program")
    };
    match Command::new(program).args(args).arg("true").output() {
        Ok(done) if done.status.success() => Some(words.iter().map(|&w| w.to_owned()).collect()),
        other => {
            println!("skipped: nothing runs {what} here: {other:?}");
            None
        }
    }
}

fn without_proc() -> Option<Bare> {
    let script = "mount -t tmpfs none /proc && exec \"$@\"";
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can take /proc away");
        return None;
    }
    probed(
        &["unshare", "--mount", "sh", "-c", script, "sh"],
        "without /proc",
    )
}

/// As a kernel that has no IPv6: seccomp refuses such sockets (seccomp(2), BPF as in linux/filter.h).
const NO_SOCKETS_OF_IPV6: &str = r#"
    my ($prctl, $socket) = `uname -m` =~ /x86_64/ ? (157, 41) : (167, 198);
    my @filter = (
        [0x20, 0, 0, 0], [0x15, 0, 3, $socket], [0x20, 0, 0, 16], [0x15, 0, 1, 10],
        [0x06, 0, 0, 0x00050000 | 97], [0x06, 0, 0, 0x7fff0000],
    );
    my $filter = join "", map { pack "S C C L", @$_ } @filter;
    my $program = pack "S x6 P", scalar @filter, $filter;
    syscall($prctl, 38, 1, 0, 0, 0) == 0 && syscall($prctl, 22, 2, $program, 0, 0) == 0 or die "no seccomp: $!";
    exec @ARGV or die;
"#;

fn without_ipv6() -> Option<Bare> {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        println!("skipped: the numbers of this processor's calls are not known here");
        return None;
    }
    probed(&["perl", "-e", NO_SOCKETS_OF_IPV6, "--"], "without IPv6")
}

/// howdah, in that system or in this one.
fn howdah(bare: Option<&Bare>) -> Command {
    let Some([program, args @ ..]) = bare.map(Vec::as_slice) else {
        return Command::new(HOWDAH);
    };
    let mut command = Command::new(program);
    command.args(args).arg(HOWDAH);
    command
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The far end of ssh runs in that system.
fn put_far_end_there(site: &Site, bare: &Bare) {
    let path = site.root(".local/bin/howdah");
    fs::remove_file(&path).unwrap();
    let words: Vec<_> = bare.iter().map(|word| quoted(word)).collect();
    write_own(
        Path::new(&path),
        &format!(
            "#!/bin/sh\nexec {} {} \"$@\"\n",
            words.join(" "),
            quoted(HOWDAH)
        ),
    );
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
}

/// Which side lacks it, and how the other one is reached.
struct Case<'a> {
    what: String,
    run: &'a dyn Fn(&[&str]) -> Done,
    from: &'a dyn Fn(&str) -> String,
    to: &'a dyn Fn(&str) -> String,
    source: &'a dyn Fn(&str) -> String,
    target: &'a dyn Fn(&str) -> String,
}

/// Up and down, with the near side, the far side or both in that system, on a server and through ssh.
fn every_side(bare: &Bare, says: &str, check: impl Fn(&Case<'_>)) {
    for (near, far) in [(true, false), (false, true), (true, true)] {
        for through_ssh in [false, true] {
            let site = Site::new(120);
            let (near_bare, far_bare) = (near.then_some(bare), far.then_some(bare));
            let (mut server, mut sshd) = (None, None);
            if through_ssh {
                let Some(there) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
                    return;
                };
                if far {
                    put_far_end_there(&site, bare);
                }
                sshd = Some(there);
            } else {
                let root = site.root("");
                let args = ["serve", "--listen", "[::]:0", "--root", &root];
                let mut process = site.start_by(howdah(far_bare), "server", &args, Input::None);
                if far && !says.is_empty() {
                    process.await_line(says, Duration::from_secs(20));
                }
                server = Some(Server::new(process));
            }
            let place = server.as_ref().map_or_else(
                || "far:".to_owned(),
                |server| format!("howdah://127.0.0.1:{}/", server.address.port()),
            );
            let ssh = sshd.as_ref().map(Sshd::ssh);
            let run = |args: &[&str]| {
                let (command, rest) = args.split_first().unwrap();
                let how = match &ssh {
                    Some(ssh) => vec!["--ssh", ssh],
                    None => vec!["--accept-new"],
                };
                let args = [&[*command, "--json"], &how[..], rest].concat();
                site.start_by(howdah(near_bare), "client", &args, Input::None)
                    .finish()
            };
            let (here, there) = (|path: &str| site.file(path), |path: &str| site.root(path));
            let url = |path: &str| format!("{place}{path}");
            let sides = format!("near {near}, far {far}, ssh {through_ssh}");
            check(&Case {
                what: format!("up, {sides}"),
                run: &run,
                from: &|path| here(&format!("up/{path}")),
                to: &|path| url(&format!("up/{path}")),
                source: &|path| here(&format!("up/{path}")),
                target: &|path| there(&format!("up/{path}")),
            });
            check(&Case {
                what: format!("down, {sides}"),
                run: &run,
                from: &|path| url(&format!("down/{path}")),
                to: &|path| here(&format!("down/{path}")),
                source: &|path| there(&format!("down/{path}")),
                target: &|path| here(&format!("down/{path}")),
            });
            if let Some(server) = server {
                server.stop();
            }
            site.assert_nothing_half_done();
        }
    }
}

/// An ACL with an entry about a user whom nobody here is (`linux/posix_acl_xattr.h`).
fn acl(bits: u16) -> Vec<u8> {
    let entries = [
        (0x01, 6, u32::MAX),
        (0x02, bits, 65_534),
        (0x04, 4, u32::MAX),
        (0x10, 7, u32::MAX),
        (0x20, 0, u32::MAX),
    ];
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        bytes.extend_from_slice(&u16::to_le_bytes(tag));
        bytes.extend_from_slice(&perm.to_le_bytes());
        bytes.extend_from_slice(&u32::to_le_bytes(id));
    }
    bytes
}

fn set(path: &str, name: &str, value: &[u8]) -> bool {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty()).is_ok()
}

/// All attributes that are kept, of all below.
fn attributes(top: &str) -> BTreeMap<String, Vec<u8>> {
    fn into(path: &Path, below: &str, all: &mut BTreeMap<String, Vec<u8>>) {
        for name in ["user.a", "user.old", ACCESS, DEFAULT] {
            let mut value = vec![0; 1000];
            if let Ok(len) = rustix::fs::lgetxattr(path, name, &mut *value) {
                value.truncate(len);
                all.insert(format!("{below} {name}"), value);
            }
        }
        if path.is_dir() && !path.is_symlink() {
            for entry in fs::read_dir(path).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                into(&entry.path(), &format!("{below}/{name}"), all);
            }
        }
    }
    let mut all = BTreeMap::new();
    into(Path::new(top), "", &mut all);
    all
}

/// A tree whose names have attributes, of every kind; `None` with a printed reason.
fn with_attributes(dir: &str) -> Option<()> {
    fs::create_dir_all(format!("{dir}/sub/deep")).unwrap();
    for (name, size) in [
        ("file", 5),
        ("empty", 0),
        ("sub/deep/other", 7),
        ("large", 5 << 20),
        ("closed", 3),
    ] {
        fs::write(format!("{dir}/{name}"), vec![7; size]).unwrap();
    }
    symlink("file", format!("{dir}/link")).unwrap();
    let all_set = ["", "/file", "/empty", "/sub", "/sub/deep/other", "/large"]
        .iter()
        .all(|name| set(&format!("{dir}{name}"), "user.a", name.as_bytes()));
    let has_acls = set(&format!("{dir}/file"), ACCESS, &acl(6))
        && set(&format!("{dir}/sub"), DEFAULT, &acl(7))
        && set(&format!("{dir}/sub/deep"), ACCESS, &acl(5));
    if !all_set || !has_acls {
        println!("skipped: this disk keeps no attributes");
        return None;
    }
    set(&format!("{dir}/closed"), "user.a", b"closed");
    let closed = Permissions::from_mode(0o200);
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(format!("{dir}/closed"), closed).unwrap();
    }
    for name in ["file", "empty", "large", "closed"] {
        let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let file = fs::File::options()
            .write(true)
            .open(format!("{dir}/{name}"));
        file.unwrap().set_modified(time).unwrap();
    }
    Some(())
}

#[test]
fn t19_attributes_are_kept_and_compared_where_there_is_no_proc() {
    let Some(bare) = without_proc() else { return };
    every_side(&bare, "", |case| {
        let from = (case.source)("s");
        fs::create_dir_all((case.target)("")).unwrap();
        if with_attributes(&from).is_none() {
            return;
        }
        let wanted = attributes(&from);
        assert!(wanted.len() >= 10, "{wanted:?}");
        for (n, command) in [
            &["sync", "-a"][..],
            &["cp", "-a"],
            &["sync", "-a", "--checksum"],
        ]
        .into_iter()
        .enumerate()
        {
            let to = format!("t{n}");
            let source = if command[0] == "cp" { "s/." } else { "s" };
            let (source, target) = ((case.from)(source), (case.to)(&to));
            let run = |code: i32, args: &[&str]| {
                let done = (case.run)(&[args, &[&source, &target]].concat());
                let what = format!("{} {args:?}: {}", case.what, done.err);
                assert_eq!(done.code, Some(code), "{what}");
                done
            };
            let made = (case.target)(&to);
            let done = run(0, command);
            assert_eq!(done.json()["tree"]["not_kept"], 0, "{}", done.err);
            assert_eq!(attributes(&made), wanted, "{} {command:?}", case.what);
            run(0, &["verify", "-a"]);
            if n > 0 {
                continue;
            }
            // What somebody else has set goes, and until then it is seen.
            let other = acl(2);
            for changes in [
                &[
                    ("file", "user.old", &b"old"[..]),
                    ("sub", "user.old", b"old"),
                    ("large", "user.old", b"old"),
                ][..],
                &[("empty", "user.a", b"other"), ("sub", DEFAULT, &other)],
                &[("file", ACCESS, &other)],
            ] {
                for (path, name, value) in changes {
                    let path = format!("{made}/{path}");
                    let mode = fs::metadata(&path).unwrap().permissions();
                    assert!(set(&path, name, value));
                    fs::set_permissions(&path, mode).unwrap();
                }
                let seen = run(DIFFERS, &["verify", "-a"]);
                let seen = String::from_utf8_lossy(&seen.out).into_owned();
                for (path, ..) in changes {
                    assert!(seen.contains(path), "{} {path}: {seen}", case.what);
                }
                let done = run(0, command);
                assert_eq!(done.json()["tree"]["files"], 0, "{}", done.err);
                assert_eq!(attributes(&made), wanted, "{} {changes:?}", case.what);
            }
        }
    });
}

/// What the kernel's file system is needed for otherwise: names below links, moves, holes, rights of what is replaced.
#[test]
fn t19_all_else_works_without_proc() {
    let Some(bare) = without_proc() else { return };
    every_side(&bare, "", |case| {
        let from = (case.source)("s");
        fs::create_dir_all(format!("{from}/dir")).unwrap();
        fs::create_dir_all((case.target)("")).unwrap();
        fs::write(format!("{from}/dir/file"), "text").unwrap();
        fs::write(format!("{from}/one"), "text").unwrap();
        fs::hard_link(format!("{from}/one"), format!("{from}/two")).unwrap();
        symlink("dir", format!("{from}/link")).unwrap();
        let sparse = fs::File::create(format!("{from}/sparse")).unwrap();
        sparse.set_len(20 << 20).unwrap();
        let run = |args: &[&str], source: &str, target: &str| {
            let (source, target) = ((case.from)(source), (case.to)(target));
            let done = (case.run)(&[args, &[&source, &target]].concat());
            let what = format!("{} {args:?} {source}: {}", case.what, done.err);
            assert_eq!(done.code, Some(0), "{what}");
            done
        };
        let text = |path: &str| fs::read((case.target)(path)).unwrap();
        run(&["sync", "-aL"], "s", "followed");
        assert_eq!(text("followed/link/file"), b"text");
        run(&["cp"], "s/link/file", "through");
        assert_eq!(text("through"), b"text");
        run(&["cp", "-r"], "s/link", "linked");
        assert_eq!(text("linked/file"), b"text");
        // What is replaced keeps its mode, also where nobody may read it.
        fs::set_permissions((case.target)("through"), Permissions::from_mode(0o620)).unwrap();
        fs::write(format!("{from}/dir/file"), "other").unwrap();
        run(&["cp"], "s/dir/file", "through");
        assert_eq!(text("through"), b"other");
        let mode = fs::metadata((case.target)("through")).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o620, "{}", case.what);
        run(
            &["sync", "-a", "--delete", "--backup-dir", ".old"],
            "s",
            "all",
        );
        run(&["verify", "-a"], "s", "all");
        run(&["sync", "-a", "--link-dest", "../all"], "s", "again");
        run(&["sync", "--remove-source-files"], "s/dir", "moved");
        assert_eq!(text("moved/file"), b"other");
        assert!(!fs::exists(format!("{from}/dir/file")).unwrap());
    });
}

#[test]
fn t32_everything_works_where_the_kernel_has_no_ipv6() {
    let Some(bare) = without_ipv6() else { return };
    every_side(&bare, "this machine has no IPv6", |case| {
        fs::create_dir_all(format!("{}/dir", (case.source)("s"))).unwrap();
        fs::create_dir_all((case.target)("")).unwrap();
        fs::write((case.source)("s/dir/file"), "text").unwrap();
        for (n, flags) in [&[][..], &["--transport", "tcp"], &["--transport", "udp"]]
            .into_iter()
            .enumerate()
        {
            let run = |command: &str, source: &str, target: &str| {
                let (source, target) = ((case.from)(source), (case.to)(target));
                let done = (case.run)(&[&[command], flags, &[&source, &target]].concat());
                let what = format!("{} {command} {flags:?}: {}", case.what, done.err);
                assert_eq!(done.code, Some(0), "{what}");
            };
            let to = format!("t{n}");
            run("sync", "s", &to);
            run("cp", "s/dir/file", &format!("{to}/one"));
            assert_eq!(
                fs::read((case.target)(&format!("{to}/dir/file"))).unwrap(),
                b"text"
            );
            assert_eq!(
                fs::read((case.target)(&format!("{to}/one"))).unwrap(),
                b"text"
            );
        }
    });
}

/// The near end of a copy between two others, and what is asked for by its IPv6 address.
#[test]
fn t32_who_has_no_ipv6_brings_others_together_and_says_what_it_cannot_reach() {
    let Some(bare) = without_ipv6() else { return };
    let site = Site::new(60);
    fs::write(site.root("f"), "text").unwrap();
    let run = |args: &[&str]| {
        site.start_by(howdah(Some(&bare)), "client", args, Input::None)
            .finish()
    };
    if let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") {
        put_far_end_there(&site, &bare);
        let done = run(&["cp", "--ssh", &sshd.ssh(), "far:f", "far2:g"]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert_eq!(fs::read(site.root("g")).unwrap(), b"text");
    }
    let server = site.serve();
    let port = server.address.port();
    let (named, numbered) = (
        format!("howdah://localhost:{port}/f"),
        format!("howdah://[::1]:{port}/f"),
    );
    let to = site.file("f");
    let done = run(&["cp", "--accept-new", &named, &to]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    run(&["cp", "--accept-new", &numbered, &to]).assert_failed(NETWORK, &["::1", "IPv6"]);
    server.stop();
    let root = site.root("");
    let args = ["serve", "--listen", "[::1]:0", "--root", &root];
    let done = site
        .start_by(howdah(Some(&bare)), "server", &args, Input::None)
        .finish();
    assert_ne!(done.code, Some(0));
    assert!(
        done.err.contains("[::1]:0") && done.err.contains("--listen"),
        "{}",
        done.err
    );
}
