//! A daemon where things are not as they should be.
#![cfg(target_os = "linux")]

use crate::support::place::{SmallDisk, content};
use crate::support::process::Input;
use crate::support::service::{PATIENCE, Service};
use crate::support::{HOWDAH, Host, Site, serve_as_us};
use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

#[test]
fn a_port_that_another_program_has_is_named() {
    let site = Site::new(60);
    let other = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = other.local_addr().unwrap().to_string();
    let done = site.run(
        Host::Here,
        "client",
        &["daemon", "--listen", &address],
        Input::None,
    );
    done.assert_failed(1, &[&address, "in use", "--listen"]);
    // Nothing of it is left that would stand in the next one's way.
    drop(Service::new(&site, &[]));
}

#[test]
fn a_disk_that_became_read_only_is_named_and_what_was_written_is_there_afterwards() {
    let site = Site::new(120);
    let state = site.config("client").join("daemon");
    fs::create_dir_all(&state).unwrap();
    let Some(disk) = SmallDisk::mount(&state.to_string_lossy(), 16) else {
        return;
    };
    fs::set_permissions(&state, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let mut service = Service::new(&site, &[]);
    let job = service.submit(&["--hold"], &["verify", "a", "b"]);
    service.kill();
    disk.remount("ro");
    let refused = site.run(Host::Here, "client", &["daemon"], Input::None);
    refused.assert_failed(4, &[&state.to_string_lossy(), "ead-only"]);
    disk.remount("rw");
    service.start(&[]);
    assert_eq!(service.show(&job)["state"], "held");
}

#[test]
fn a_copy_that_ended_on_a_full_disk_without_a_daemon_is_not_begun_again() {
    let site = Site::new(180);
    let server = site.serve();
    let attempts = site.config("client").join("daemon/attempts");
    fs::create_dir_all(&attempts).unwrap();
    let own = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(attempts.parent().unwrap(), own).unwrap();
    let Some(_disk) = SmallDisk::mount(&attempts.to_string_lossy(), 1) else {
        return;
    };
    let (from, to) = (site.file("big"), server.url("big"));
    fs::write(&from, content("big", 1 << 20)).unwrap();
    let mut service = Service::new(&site, &[]);
    let copy = ["cp", "--accept-new", "--limit", "2mbit", &from, &to];
    let job = service.submit(&[], &copy);
    let before = service.await_job(&job, |job| job["last"]["event"] == "progress");
    service.kill();
    let mut filler = fs::File::create(attempts.join("filler")).unwrap();
    while filler.write_all(&[1; 4096]).is_ok() {}
    // It ends while nobody looks.
    let pid = before["attempts"][0]["pid"].as_i64().unwrap();
    let is_there = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ")
            .next()
            .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
    };
    let end = Instant::now() + PATIENCE;
    while is_there() {
        assert!(Instant::now() < end);
    }
    service.start(&[]);
    let job = service.await_job(&job, |job| job["ended_ms"].is_number());
    assert_eq!(job["attempts"].as_array().unwrap().len(), 1, "{job}");
    // (What it says may not fit any more, which is an error; that it has ended does.)
    assert!(job["attempts"][0]["ended"]["code"].is_number(), "{job}");
    server.stop();
}

/// Those processes of `parent` that have ended and that nobody has asked about.
fn zombies(parent: i32) -> usize {
    let is_one = |path: &Path| {
        let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
        // After the name, which may be anything: the state, and the parent.
        let mut words = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        words.next() == Some("Z") && words.next() == Some(&parent.to_string())
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter(|entry| is_one(&entry.path())).count()
}

#[test]
fn a_host_that_never_answers_holds_up_no_other_job_and_nobody_stays_a_zombie() {
    let site = Site::new(120);
    let silent = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("howdah://{}/a", silent.local_addr().unwrap());
    let [from, same] = ["a", "b"].map(|name| site.file(name));
    for path in [&from, &same] {
        fs::write(path, "a").unwrap();
    }
    let service = Service::new(&site, &["--max-running", "2"]);
    let copy = ["cp", "--accept-new", "--transport", "udp", &from, &url];
    let waits = service.submit(&[], &copy);
    service.await_job(&waits, |job| job["state"] == "running");
    for _ in 0..3 {
        let other = service.submit(&[], &["verify", &from, &same]);
        let done = service.await_job(&other, |job| job["state"] == "done");
        assert_eq!(done["exit_code"], 0, "{done}");
    }
    assert_eq!(service.job(&["cancel", &waits]).code, Some(0));
    service.await_job(&waits, |job| job["state"] == "cancelled");
    while zombies(service.pid()) > 0 {
        assert!(Instant::now() < site.limit(), "children stay zombies");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// A process whose standard error is a file, which it takes for the journal if that is so.
fn with_journal(site: &Site, who: &str, args: &[&str], is_journal: bool) -> (Child, String) {
    let path = site.file(&format!("{who}-{is_journal}"));
    let file = fs::File::create(&path).unwrap();
    let found = file.metadata().unwrap();
    let inode = found.ino() + u64::from(!is_journal);
    let mut command = Command::new(HOWDAH);
    command
        .args(args)
        .env("HOWDAH_CONFIG_DIR", site.config(who))
        .env("XDG_RUNTIME_DIR", site.run_dir())
        .env("HOWDAH_DIE_WITH_PARENT", "1")
        .env("JOURNAL_STREAM", format!("{}:{inode}", found.dev()))
        .stdin(Stdio::null())
        .stderr(file);
    serve_as_us(&mut command);
    (command.spawn().unwrap(), path)
}

fn await_in(site: &Site, path: &str, part: &str) -> String {
    loop {
        let said = fs::read_to_string(path).unwrap();
        if said.contains(part) && said.ends_with('\n') {
            return said;
        }
        assert!(Instant::now() < site.limit(), "no {part}: {said}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn the_journal_is_told_how_much_a_line_matters_and_nobody_else_is() {
    let site = Site::new(120);
    let state = site.file("state");
    let daemon = ["daemon", "--state", &state];
    let (mut first, log) = with_journal(&site, "daemon", &daemon, true);
    let said = await_in(&site, &log, "taking jobs");
    assert!(said.lines().all(|line| line.starts_with("<6>")), "{said}");
    assert!(!said.contains("howdah:"), "it knows who says that: {said}");
    // Another one, of which there can be none.
    let (mut second, log) = with_journal(&site, "daemon2", &daemon, true);
    assert_eq!(second.wait().unwrap().code(), Some(4));
    let said = await_in(&site, &log, "another daemon");
    assert!(said.starts_with("<3>another daemon has"), "{said}");
    let (mut third, log) = with_journal(&site, "daemon2", &daemon, false);
    assert_eq!(third.wait().unwrap().code(), Some(4));
    let said = await_in(&site, &log, "another daemon");
    assert!(said.starts_with("howdah: another daemon"), "{said}");

    let root = site.root("");
    let serve = ["serve", "--listen", "127.0.0.1:0", "--root", &root];
    let (mut server, log) = with_journal(&site, "stranger", &serve, true);
    let said = await_in(&site, &log, "nobody gets in yet");
    let line = said.lines().find(|line| line.starts_with("<6>serving "));
    let (_, address) = line.unwrap().rsplit_once(' ').unwrap();
    let url = format!("howdah://{address}/a");
    fs::write(site.file("a"), "a").unwrap();
    let copy = site.copy(Host::Here, &site.file("a"), &url);
    assert_ne!(copy.code, Some(0));
    let said = await_in(&site, &log, "refused a key");
    let refused = said.lines().find(|line| line.contains("refused a key"));
    assert!(refused.unwrap().starts_with("<4>refused"), "{said}");
    assert!(said.lines().all(|line| line.starts_with('<')), "{said}");
    for child in [&mut first, &mut server] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
