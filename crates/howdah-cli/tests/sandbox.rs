//! What is left to a process that somebody has taken over: docs/security.md, "The sandbox".
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod support;

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use support::process::{Input, Process};
use support::{Host, Site, serve_as_us};

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
    for (call, line) in [
        ("landlock_create_ruleset", "no Landlock"),
        ("seccomp", "seccomp is not in force"),
    ] {
        let site = Site::new(60);
        let inject = format!("inject={call}:error=ENOSYS");
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
