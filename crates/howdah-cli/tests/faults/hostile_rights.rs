//! Keys that ask for more than they may: H6 of docs/security.md, and what else an option of a key takes away.
#![cfg(target_os = "linux")]

use crate::support::place::{SmallDisk, content};
use crate::support::process::{Done, Input, Process, Server};
use crate::support::{Host, Site};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const USAGE: i32 = 2;
const REFUSED: i32 = 4;
const NOBODY: u32 = 65534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn set_mode(path: &str, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn run(site: &Site, args: &[&str]) -> Done {
    let args = [&args[..1], &["--accept-new", "--json"], &args[1..]].concat();
    site.run(Host::Here, "client", &args, Input::None)
}

/// Everything in and below that directory that has a special bit, or belongs to somebody else than it.
fn foreign(dir: &Path) -> Vec<String> {
    let ours = fs::metadata(dir).unwrap();
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let is_ours = (meta.uid(), meta.gid()) == (ours.uid(), ours.gid());
            if meta.mode() & 0o7000 != 0 && !meta.is_symlink() || !is_ours {
                found.push(format!(
                    "{} {:o} {}",
                    path.display(),
                    meta.mode(),
                    meta.uid()
                ));
            }
            if meta.is_dir() {
                dirs.push(path);
            }
        }
    }
    found
}

/// A program of somebody else with all special bits, a directory of that kind, and a link.
fn hostile_tree(site: &Site) {
    let dir = site.file("tree");
    fs::create_dir_all(format!("{dir}/dir")).unwrap();
    for name in ["program", "dir/program"] {
        fs::write(format!("{dir}/{name}"), "#!/bin/sh\nid\n").unwrap();
    }
    fs::write(format!("{dir}/large"), content("large", 5 << 20)).unwrap();
    std::os::unix::fs::symlink("program", format!("{dir}/link")).unwrap();
    for name in ["program", "dir/program", "large", "dir"] {
        let path = format!("{dir}/{name}");
        if is_root() {
            chown(&path, Some(77), Some(88)).unwrap();
        }
        set_mode(&path, 0o6755);
    }
    if is_root() {
        std::os::unix::fs::lchown(format!("{dir}/link"), Some(77), Some(88)).unwrap();
    }
}

#[test]
fn h6_a_key_that_may_write_makes_no_programs_of_others() {
    let site = Site::new(200);
    site.grant("");
    hostile_tree(&site);
    let server = site.serve();
    let from = site.file("tree");
    for (number, args) in [
        &["cp", "-a"][..],
        &["sync", "-a"],
        &["cp", "-r", "-p", "--chmod", "u+s,g+s,+t"],
        &["cp", "-a", "--chmod", "F6755,D7777"],
        &["sync", "-a", "--chown", "0:0"],
        &["cp", "-a", "--numeric-ids"],
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("to-{number}");
        // New, and once more over what is there.
        for _ in 0..2 {
            let to = server.url(&name);
            let done = run(&site, &[args, &[&*from, &to]].concat());
            assert_eq!(done.code, Some(0), "{args:?}: {}", done.err);
            assert!(fs::exists(site.root(&name)).unwrap());
            assert_eq!(foreign(Path::new(&site.root(""))), [""; 0], "{args:?}");
            if args.contains(&"-a") {
                // Said once, however many names it is about.
                let told = done.err.matches("metadata=").count();
                assert!(told >= 1, "{args:?}: {}", done.err);
                assert!(
                    done.json()["tree"]["not_kept"].as_u64().unwrap() > 0,
                    "{}",
                    done.json()
                );
            }
        }
    }
    // Permissions and times are kept.
    let found = ["program", "tree/program", "dir/program", "tree/dir/program"]
        .map(|below| site.root(&format!("to-0/{below}")));
    let kept = found.iter().filter_map(|path| fs::metadata(path).ok());
    let source = fs::metadata(site.file("tree/program")).unwrap();
    let kept: Vec<_> = kept.map(|meta| meta.mode() & 0o777).collect();
    assert!(
        !kept.is_empty() && kept.iter().all(|mode| *mode == 0o755),
        "{kept:?}"
    );
    assert_eq!(source.mode() & 0o7777, 0o6755);
    drop(server);

    // The files that it may write are not its own: it may be told to keep all.
    site.grant("metadata=\"all\"");
    let server = site.serve();
    let done = run(&site, &["cp", "-a", &from, &server.url("all")]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let meta = fs::metadata(site.root("all/program")).unwrap();
    assert_eq!(meta.mode() & 0o7777, 0o6755);
    if is_root() {
        assert_eq!((meta.uid(), meta.gid()), (77, 88));
    }
}

#[test]
fn h6_less_is_kept_and_shown_where_a_key_says_so() {
    let site = Site::new(200);
    hostile_tree(&site);
    let from = site.file("tree/program");
    let source = fs::metadata(&from).unwrap();
    for (level, bits, time) in [
        ("none", 0o111, false),
        ("times", 0o111, true),
        ("modes", 0, true),
    ] {
        site.grant(&format!("metadata=\"{level}\""));
        let server = site.serve();
        for (number, args) in [&["cp", "-a"][..], &["cp", "-p"], &["sync"]]
            .into_iter()
            .enumerate()
        {
            let name = format!("{level}-{number}");
            let (source_path, to) = if args[0] == "sync" {
                (site.file("tree"), name.clone())
            } else {
                (from.clone(), format!("{name}-file"))
            };
            let done = run(&site, &[args, &[&*source_path, &server.url(&to)]].concat());
            assert_eq!(done.code, Some(0), "{level} {args:?}: {}", done.err);
            let path = if args[0] == "sync" {
                format!("{to}/program")
            } else {
                to
            };
            let meta = fs::metadata(site.root(&path)).unwrap();
            assert_eq!(meta.mode() & 0o7000, 0, "{level} {args:?}");
            assert_eq!(meta.mode() & bits, 0, "{level} {args:?} {:o}", meta.mode());
            assert_eq!(
                meta.mtime() == source.mtime() && meta.mtime_nsec() == source.mtime_nsec(),
                time,
                "{level} {args:?}"
            );
        }
        // And no more is shown.
        fs::write(site.root("shown"), "x").unwrap();
        set_mode(&site.root("shown"), 0o6755);
        for (number, args) in [&["cp", "-a"][..], &["cp", "-p"], &["cp"]]
            .into_iter()
            .enumerate()
        {
            let to = site.file(&format!("shown-{level}-{number}"));
            let done = run(&site, &[args, &[&server.url("shown"), &to]].concat());
            assert_eq!(done.code, Some(0), "{}", done.err);
            let meta = fs::metadata(&to).unwrap();
            assert_eq!(
                meta.mode() & (0o7000 | bits),
                0,
                "{level} {args:?} {:o}",
                meta.mode()
            );
            // What is set as it is told, whatever the umask, is nothing that everybody may write to.
            if args.len() > 1 {
                assert_eq!(meta.mode() & 0o022, 0, "{level} {args:?} {:o}", meta.mode());
            }
        }
    }
}

#[test]
fn h6_serve_runs_as_root_only_where_somebody_says_so() {
    let site = Site::new(100);
    let serve = |args: &[&str], user: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_howdah"));
        command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(args)
            .env("HOWDAH_CONFIG_DIR", site.config("server"))
            .env("XDG_RUNTIME_DIR", site.run_dir())
            .env("HOWDAH_DIE_WITH_PARENT", "1")
            .env_remove("HOWDAH_SERVE_USER");
        if let Some(user) = user {
            command.args(["--user", user]);
        }
        Process::start(command, Input::None, site.limit())
    };
    let root = site.root("");
    serve(&["--root", &root], Some("nobody-is-called-so"))
        .finish()
        .assert_failed(USAGE, &["--user nobody-is-called-so", "no such user"]);
    if !is_root() {
        serve(&["--root", &root], Some("root"))
            .finish()
            .assert_failed(USAGE, &["only root can become another user"]);
        return;
    }
    serve(&["--root", &root], None)
        .finish()
        .assert_failed(USAGE, &["does not run as root", "--user NAME"]);
    let deliberate = Server::new(serve(&["--root", &root], Some("root")));
    assert_eq!(users_of(&deliberate), [0]);
    drop(deliberate);

    // The way there is open to that user, the private key is root's alone, and the list of keys is for him to read.
    let mut above = site.path().to_path_buf();
    set_mode(above.to_str().unwrap(), 0o755);
    while above.pop() {
        if fs::metadata(&above).unwrap().mode() & 0o001 == 0 {
            println!("skipped: another user cannot reach {}", above.display());
            return;
        }
    }
    let config = site.config("server");
    set_mode(config.to_str().unwrap(), 0o755);
    let list = config.join("authorized_keys");
    set_mode(list.to_str().unwrap(), 0o600);
    chown(&root, Some(NOBODY), Some(NOBODY)).unwrap();
    serve(&["--root", &root], Some("nobody"))
        .finish()
        .assert_failed(1, &["authorized_keys", "Permission denied"]);
    set_mode(list.to_str().unwrap(), 0o644);
    let mut server = Server::new(serve(&["--root", &root], Some("nobody")));
    assert_eq!(users_of(&server), [NOBODY]);
    fs::write(site.file("here"), "from the client").unwrap();
    let done = site.copy(Host::Here, &site.file("here"), &server.url("there"));
    done.assert_copied(15, "blake3");
    let made = fs::metadata(site.root("there")).unwrap();
    assert_eq!(made.uid(), NOBODY);
    // What is not his he does not reach.
    fs::write(site.root("secret"), "x").unwrap();
    set_mode(&site.root("secret"), 0o600);
    let done = site.copy(Host::Here, &server.url("secret"), &site.file("target"));
    done.assert_failed(REFUSED, &["secret"]);
    // It can read its list again.
    fs::write(&list, "# nobody\n").unwrap();
    server.await_line("read again, 0 keys", Duration::from_secs(20));
}

/// Who may write below the root could let anybody in, and who may read there could be the server.
#[test]
fn h19_a_key_with_limits_reaches_no_keys_and_logs_of_the_server() {
    let site = Site::new(100);
    let root = site.root("");
    let (list, key) = (
        site.config("server").join("authorized_keys"),
        "id_ed25519.pem",
    );
    let key = site.config("server").join(key);
    for (inside, option) in [
        ("keys", "--authorized-keys"),
        ("key", "--identity"),
        ("audit", "--audit"),
    ] {
        let inside = site.root(inside);
        let from = if option == "--identity" { &key } else { &list };
        fs::copy(from, &inside).unwrap();
        let args = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--root",
            &root,
            option,
            &inside,
        ];
        let mut server = site.start(Host::Here, "server", &args, Input::None);
        let line = server.await_line("server's own", Duration::from_secs(20));
        assert!(line.contains(&inside) && line.contains(option), "{line}");
        Server::new(server).stop();
        fs::remove_file(&inside).unwrap();
    }
    // Also where a line of the list, which somebody adds while it runs, says so.
    let mut server = site.serve();
    let all = site.config("server");
    site.grant(&format!("root=\"{}\"", all.display()));
    server.await_line("read again, 1 keys", Duration::from_secs(20));
    let stolen = site.file("stolen");
    let done = site.copy(Host::Here, &server.url("id_ed25519.pem"), &stolen);
    done.assert_failed(REFUSED, &["cannot be used now"]);
    server.await_line("server's own", Duration::from_secs(20));
    assert!(!fs::exists(&stolen).unwrap());
}

/// What is wrong at a client is told to its user; the server, which others run, hears of what kind it is.
#[test]
fn h19_a_server_hears_no_path_of_its_client() {
    let site = Site::new(100);
    let Some(_disk) = SmallDisk::mount(&site.file(""), 8) else {
        return;
    };
    fs::write(site.root("big"), content("big", 16 << 20)).unwrap();
    let mut server = site.serve();
    let target = site.file("of-anna");
    let done = run(
        &site,
        &["cp", "--wait-for-space", "0", &server.url("big"), &target],
    );
    done.assert_failed(11, &["of-anna", "make room"]);
    let line = server.await_line("get \"big\" failed", Duration::from_secs(20));
    assert!(line.contains("its disk is full"), "{line}");
    assert!(
        !line.contains("of-anna") && !line.contains("files"),
        "{line}"
    );
}

/// Also of a tree: that some of it could not be written is no line as of one that is done.
#[test]
fn a_servers_log_says_what_of_a_tree_could_not_be_copied() {
    let site = Site::new(100);
    site.grant("no-delete");
    let tree = site.file("tree");
    fs::create_dir(&tree).unwrap();
    for name in ["new", "old"] {
        fs::write(format!("{tree}/{name}"), "x").unwrap();
    }
    fs::write(site.root("old"), "another content").unwrap();
    let mut server = site.serve();
    let done = run(&site, &["cp", "-r", &format!("{tree}/."), &server.url("")]);
    assert_eq!(done.code, Some(6), "{}", done.err);
    server.await_line("done, but for 1 names", Duration::from_secs(20));
}

/// The users that the threads of a server run as: real, effective, saved and of file systems, and their groups.
fn users_of(server: &Server) -> Vec<u32> {
    let tasks = format!("/proc/{}/task", server.process.pid().as_raw_nonzero());
    let mut users: Vec<u32> = Vec::new();
    for task in fs::read_dir(tasks).unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let lines = status
            .lines()
            .filter(|line| line.starts_with("Uid:") || line.starts_with("Gid:"));
        users.extend(
            lines
                .flat_map(|line| line.split_whitespace().skip(1))
                .map(|id| id.parse::<u32>().unwrap()),
        );
    }
    users.sort_unstable();
    users.dedup();
    users
}

#[test]
fn no_list_leaves_what_is_named() {
    let site = Site::new(100);
    site.grant("no-list");
    for dir in [site.root("dir"), site.file("tree")] {
        fs::create_dir(&dir).unwrap();
        fs::write(format!("{dir}/file"), "content").unwrap();
    }
    let server = site.serve();
    let to = site.file("to");
    for args in [
        &["cp", &*server.url("dir/file"), &to][..],
        &["cp", "-p", &server.url("dir/file"), &to],
        &["cp", &site.file("tree/file"), &server.url("new")],
        &["sync", &site.file("tree"), &server.url("new-tree")],
        &["verify", &site.file("tree/file"), &server.url("dir/file")],
    ] {
        let done = run(&site, args);
        assert_eq!(done.code, Some(0), "{args:?}: {}", done.err);
    }
    for args in [
        &["ls", &*server.url("")][..],
        &["ls", &server.url("dir")],
        &["du", &server.url("dir")],
        &["cp", &server.url("d*/file"), &to],
        &["cp", "-r", &server.url("dir"), &to],
        &["cp", "-r", &server.url("dir/."), &to],
        &["sync", &server.url("dir"), &to],
        &["verify", &site.file("tree"), &server.url("dir")],
        &[
            "sync",
            "--delete",
            "--dry-run",
            &site.file("tree"),
            &server.url("dir"),
        ],
        &[
            "cp",
            "-r",
            "--checksum",
            &site.file("tree"),
            &server.url("dir"),
        ],
    ] {
        let done = run(&site, args);
        done.assert_failed(REFUSED, &["no-list"]);
        assert!(!done.err.contains("content"), "{args:?}");
    }
}

/// Two clients that move something at a time get no more than the server may move together.
#[test]
fn max_rate_of_a_server_is_for_all_together() {
    const SIZE: usize = 1 << 20;
    let site = Site::new(200);
    fs::write(site.file("f"), content("f", SIZE)).unwrap();
    fs::write(site.root("f"), content("f", SIZE)).unwrap();
    // Of two that begin at the same moment on two loops neither has all for a while.
    for (loops, puts) in [("1", true), ("1", false), ("2", true), ("2", false)] {
        let root = site.root("");
        let serve = ["serve", "--listen", "127.0.0.1:0", "--root", &root];
        let limits = ["--max-rate", "8mbit", "--loops", loops];
        let serve = [&serve[..], &limits].concat();
        let server = Server::new(site.start(Host::Here, "server", &serve, Input::None));
        let started = Instant::now();
        let copies: Vec<_> = (0..2)
            .map(|number| {
                let (from, to) = if puts {
                    let to = server.url(&format!("put-{loops}-{number}"));
                    (site.file("f"), to)
                } else {
                    let to = site.file(&format!("got-{loops}-{number}"));
                    (server.url("f"), to)
                };
                site.start_copy(Host::Here, &[&from, &to], Input::None)
            })
            .collect();
        for copy in copies {
            copy.finish().assert_copied(SIZE as u64, "blake3");
        }
        // A limit is never faster; the queue in front of it holds 64 KiB of each.
        let least = (2 * SIZE - 2 * (64 << 10)) as f64 * 8.0 / 8e6;
        let took = started.elapsed().as_secs_f64();
        assert!(
            took > least * 0.9,
            "{took} s are faster than the limit, {loops} loops, puts: {puts}"
        );
    }
    for bad in ["0", "10bit", "much"] {
        let args = ["serve", "--root", &site.root(""), "--max-rate", bad];
        let done = site.run(Host::Here, "server", &args, Input::None);
        done.assert_failed(USAGE, &["--max-rate"]);
    }
}
