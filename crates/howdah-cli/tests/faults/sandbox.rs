//! What is left to a process that somebody has taken over: docs/security.md, "The sandbox".
#![cfg(target_os = "linux")]

use crate::support::process::{Done, Input, Process};
use crate::support::sshd::Sshd;
use crate::support::{Host, Site, serve_as_us};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// All that it tries; the last three need a process that may be looked into.
const OUTSIDE: [&str; 13] = [
    "read /etc/passwd",
    "list /",
    "write elsewhere",
    "replace elsewhere",
    "remove elsewhere",
    "connect",
    "listen",
    "send to others",
    "speak to a daemon",
    "run a program",
    "trace",
    "look into a process",
    "signal a process",
];

/// A server that tries what it is not for, once it serves.
fn taken_over(site: &Site, port: u16, options: &[&str]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_howdah"));
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--root", &site.root("")])
        .args(options)
        .env("HOWDAH_CONFIG_DIR", site.config("server"))
        .env("XDG_RUNTIME_DIR", site.run_dir())
        .env("HOWDAH_DIE_WITH_PARENT", "1")
        .env("HOWDAH_TEST_INSIDE", "1")
        .env("HOWDAH_TEST_OUTSIDE", site.run_dir())
        .env("HOWDAH_TEST_OURS", site.root("ours"))
        .env("HOWDAH_TEST_PORT", port.to_string());
    serve_as_us(&mut command);
    Process::start(command, Input::None, site.limit())
}

#[test]
fn a70_code_that_has_taken_over_a_server_reaches_nothing_else() {
    let site = Site::new(100);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let _daemon = UnixDatagram::bind(site.run_dir().join("socket")).unwrap();
    let outside = site.run_dir();
    for name in ["there", "gone"] {
        fs::write(outside.join(name), "content").unwrap();
    }
    let mut server = taken_over(&site, port, &[]);
    let mut first = server.await_line("inside: ", PATIENCE);
    if first.ends_with("done") {
        println!("skipped: this kernel has no Landlock");
        return;
    }
    for what in OUTSIDE {
        if !first.contains(what) {
            first = server.await_line(&format!("inside: {what}: "), PATIENCE);
        }
        assert!(first.ends_with("refused"), "{first}");
    }
    server.await_line("inside: start a thread: done", PATIENCE);
    drop(server);
    assert_eq!(fs::read(outside.join("there")).unwrap(), b"content");
    assert!(fs::exists(outside.join("gone")).unwrap() && !fs::exists(outside.join("new")).unwrap());

    // Without it all of that would have been possible: so the test sees it.
    let mut server = taken_over(&site, port, &["--no-sandbox"]);
    server.await_line("without a sandbox", PATIENCE);
    for what in &OUTSIDE[..10] {
        server.await_line(&format!("inside: {what}: done"), PATIENCE);
    }
}

/// A shell's redirection, a lock that a script holds: who takes the server over has no use of it.
#[test]
fn a70_what_was_left_open_in_a_server_is_closed() {
    let site = Site::new(60);
    let (left, named) = (site.file("left"), site.file("keys"));
    for path in [&left, &named] {
        fs::write(path, "").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let line = r#"exec 7<"$LEFT" 8>>"$LEFT" 9<"$NAMED"; exec "$H" serve --listen 127.0.0.1:0 --root "$ROOT" --authorized-keys /dev/fd/9"#;
    let mut command = Command::new("sh");
    command
        .args(["-c", line])
        .env("H", env!("CARGO_BIN_EXE_howdah"))
        .env("LEFT", &left)
        .env("NAMED", &named)
        .env("ROOT", site.root(""))
        .env("HOWDAH_CONFIG_DIR", site.config("server"))
        .env("HOWDAH_DUMPABLE", "1")
        .env("XDG_RUNTIME_DIR", site.run_dir())
        .env("HOWDAH_DIE_WITH_PARENT", "1");
    serve_as_us(&mut command);
    let mut server = Process::start(command, Input::None, site.limit());
    server.await_line(": serving ", PATIENCE);
    let open = fs::read_dir(format!("/proc/{}/fd", server.pid().as_raw_nonzero())).unwrap();
    let open: Vec<_> = open
        .filter_map(|fd| fs::read_link(fd.unwrap().path()).ok())
        .collect();
    assert!(!open.contains(&left.into()), "{open:?}");
    assert!(open.contains(&named.into()), "{open:?}");
}

/// What parses packets can reach no file at all: whoever takes it over has to get another thread to open one.
#[test]
fn a70_the_thread_that_hears_the_network_opens_nothing() {
    let site = Site::new(100);
    fs::write(site.root("ours"), "content").unwrap();
    let mut server = taken_over(&site, 1, &[]);
    for who in ["the network's thread", "its own thread"] {
        for what in OPENING {
            let line = server.await_line(&format!("inside: {who}: {what}: "), PATIENCE);
            assert!(line.ends_with("refused"), "{line}");
        }
    }
    assert_eq!(fs::read(site.root("ours")).unwrap(), b"content");
}

const OPENING: [&str; 4] = [
    "read a file of the root",
    "look at a file of the root",
    "remove a file of the root",
    "make a socket",
];

/// Names of users are asked of a process that may still look them up, and only as many as are needed.
#[test]
fn names_are_known_inside() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give files away");
        return;
    }
    let site = Site::new(100);
    let server = site.serve();
    fs::create_dir(site.file("tree")).unwrap();
    fs::write(site.file("tree/file"), "x").unwrap();
    std::os::unix::fs::chown(site.file("tree/file"), Some(65534), Some(65534)).unwrap();
    let to = server.url("tree");
    for args in [
        &["-a", &*site.file("tree"), &to][..],
        &["-a", &to, &site.file("back")],
        &[
            "-r",
            "--chown",
            "daemon:daemon",
            &site.file("tree"),
            &server.url("given"),
        ],
    ] {
        let done = site.copy_with(Host::Here, args, Input::None);
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert_eq!(done.json()["tree"]["not_kept"], 0, "{}", done.err);
    }
    let list = ["ls", "-l", "--accept-new", &to];
    let done = site.run(Host::Here, "client", &list, Input::None);
    assert!(
        String::from_utf8_lossy(&done.out).contains("nobody"),
        "{}",
        done.err
    );
    let given = fs::metadata(site.root("given/file")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&given), 1);
}

/// What a kernel cannot give is said, and the server serves.
#[test]
fn what_the_kernel_cannot_give_is_said_once() {
    if !Path::new("/usr/bin/strace").exists() {
        println!("skipped: no /usr/bin/strace");
        return;
    }
    for (call, what, line) in [
        ("landlock_create_ruleset", "error=ENOSYS", "Landlock"),
        // Linux 5.13 to 5.18, which would refuse hard links and backups.
        (
            "landlock_create_ruleset",
            "retval=1:when=1",
            "Landlock is not in force",
        ),
        ("seccomp", "error=ENOSYS", "seccomp is not in force"),
    ] {
        let site = Site::new(60);
        let inject = format!("inject={call}:{what}");
        let options = [
            "-f",
            "-o",
            "/dev/null",
            "-e",
            &format!("trace={call}"),
            "-e",
            &inject,
        ];
        let options = options.map(str::to_owned);
        let serve = ["serve", "--listen", "127.0.0.1:0", "--root", &site.root("")];
        let mut traced = site.start_traced(&options, "server", &serve);
        traced.await_line(line, PATIENCE);
        traced.await_line("serving ", PATIENCE);
    }
}

/// A far end that tries what it is not for before it does what it is for, and what became of it; and the copy is done.
fn far_end_taken_over(site: &Site, sshd: &Sshd, port: u16, words: &str, args: &[&str]) -> String {
    let howdah = format!(
        "env HOWDAH_TEST_INSIDE=1 HOWDAH_TEST_OUTSIDE={} HOWDAH_TEST_PORT={port} {words} howdah",
        site.run_dir().display()
    );
    let args = [&["--remote-howdah", &howdah], args].concat();
    let done = sshd.copy(site, &args);
    assert_eq!(done.code, Some(0), "{}", done.err);
    done.err
}

#[test]
fn a70_code_that_has_taken_over_a_far_end_reaches_nothing_else() {
    let site = Site::new(100);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let _daemon = UnixDatagram::bind(site.run_dir().join("socket")).unwrap();
    let outside = site.run_dir();
    let prepare = || {
        for name in ["there", "gone"] {
            fs::write(outside.join(name), "content").unwrap();
        }
    };
    prepare();
    for dir in ["here", "root/from", "root/to"] {
        fs::create_dir_all(site.path().join(dir)).unwrap();
    }
    fs::write(site.path().join("here/file"), "x").unwrap();
    fs::write(site.root("from/file"), "x").unwrap();
    let here = site.path().join("here").display().to_string();
    let copies: [&[&str]; 5] = [
        &["-a", &here, "far:to/"],
        &["-a", &format!("{here}/file"), "far:to/new"],
        &["-a", "far:from", &format!("{here}/back")],
        &["far:from/file", &format!("{here}/one")],
        &["-a", "far:from", "far2:to/between"],
    ];
    for args in copies {
        let err = far_end_taken_over(&site, &sshd, port, "", args);
        if err.contains("inside: read /etc/passwd: done") {
            println!("skipped: this kernel has no Landlock");
            return;
        }
        for what in OUTSIDE {
            let tried = format!("inside: {what}: ");
            let tried = err.lines().filter(|line| line.contains(&tried));
            let tried: Vec<_> = tried.collect();
            let ends = if args[1].starts_with("far:") && args[2].starts_with("far2:") {
                2
            } else {
                1
            };
            assert_eq!(tried.len(), ends, "{what}: {err}");
            for line in tried {
                // Who sends to another one opens sockets of its own for that.
                let sends = ends == 2 && line.contains(" far: ") && what == "send to others";
                let wanted = if sends { "done" } else { "refused" };
                assert!(line.ends_with(wanted), "{args:?}: {line}");
            }
        }
        assert!(err.contains("inside: start a thread: done"), "{err}");
    }
    assert_eq!(fs::read(outside.join("there")).unwrap(), b"content");
    assert!(fs::exists(outside.join("gone")).unwrap() && !fs::exists(outside.join("new")).unwrap());

    // Without it all of that would have been possible: so the test sees it.
    let wordy = [&["-v"], copies[0]].concat();
    let err = far_end_taken_over(&site, &sshd, port, "HOWDAH_SANDBOX=off", &wordy);
    assert!(err.contains("without a sandbox"), "{err}");
    for what in &OUTSIDE[..10] {
        assert!(
            err.contains(&format!("inside: {what}: done")),
            "{what}: {err}"
        );
    }
}

/// A client whose threads that hear the network try what they are not for before they do what they are for.
fn client_taken_over(site: &Site, port: u16, args: &[&str], env: &[&str]) -> Done {
    let mut command = Command::new("env");
    // Its key and the list of servers lie there.
    let outside = site.config("client");
    command
        .arg("HOWDAH_TEST_INSIDE=1")
        .arg(format!("HOWDAH_TEST_OUTSIDE={}", outside.display()))
        .arg(format!("HOWDAH_TEST_PORT={port}"))
        .args(env)
        .arg(env!("CARGO_BIN_EXE_howdah"));
    let done = site.start_by(command, "client", args, Input::None).finish();
    assert_eq!(done.code, Some(0), "{args:?}: {}", done.err);
    done
}

#[test]
fn a70_code_that_has_taken_over_a_client_reaches_nothing_else() {
    let site = Site::new(200);
    let sshd = Sshd::start(&site, Host::Here, "127.0.0.1");
    let server = site.serve();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let outside = site.config("client");
    let _daemon = UnixDatagram::bind(outside.join("socket")).unwrap();
    for name in ["there", "gone"] {
        fs::write(outside.join(name), "content").unwrap();
    }
    for dir in ["here", "root/from", "root/far"] {
        fs::create_dir_all(site.path().join(dir)).unwrap();
    }
    fs::write(site.path().join("here/file"), "x").unwrap();
    fs::write(site.root("from/file"), "x").unwrap();
    let here = site.path().join("here").display().to_string();
    let (up, down) = (server.url("up"), server.url("from"));
    let [file, back, one] = ["file", "back", "one"].map(|name| format!("{here}/{name}"));
    let single = server.url("from/file");
    // The first one meets the server.
    let mut copies = vec![
        vec!["cp", "--accept-new", "-a", &here, &up],
        vec!["cp", "-a", &down, &back],
        vec!["cp", &single, &one],
        vec!["sync", &down, &back],
        vec!["verify", &down, &back],
        vec!["ls", &down],
    ];
    let ssh = sshd.as_ref().map(Sshd::ssh).unwrap_or_default();
    if sshd.is_some() {
        copies.push(vec!["cp", "--ssh", &ssh, "-a", &file, "far:far/"]);
        copies.push(vec!["cp", "--ssh", &ssh, "-a", "far:from", &here]);
        copies.push(vec![
            "cp",
            "--ssh",
            &ssh,
            "--transport",
            "tcp",
            "far:from/file",
            &one,
        ]);
    }
    for args in copies {
        let err = client_taken_over(&site, port, &args, &[]).err;
        if err.contains("inside: read /etc/passwd: done") {
            println!("skipped: this kernel has no Landlock");
            return;
        }
        for what in OUTSIDE {
            let tried = format!("inside: {what}: ");
            let tried: Vec<_> = err.lines().filter(|line| line.contains(&tried)).collect();
            assert!(!tried.is_empty(), "{args:?}: {what}: {err}");
            for line in tried {
                assert!(line.ends_with("refused"), "{args:?}: {line}");
            }
        }
        assert!(err.contains("inside: start a thread: done"), "{err}");
    }
    assert_eq!(fs::read(outside.join("there")).unwrap(), b"content");
    assert!(fs::exists(outside.join("gone")).unwrap() && !fs::exists(outside.join("new")).unwrap());

    // Without it all of that would have been possible: so the test sees it.
    let args = ["cp", "-a", &here, &up];
    let err = client_taken_over(&site, port, &args, &["HOWDAH_SANDBOX=off"]).err;
    for what in &OUTSIDE[..10] {
        let done = format!("inside: {what}: done");
        assert!(err.contains(&done), "{what}: {err}");
    }
}
