//! ssh's connection stays for the next command, with a real sshd.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::place::content;
use crate::support::sshd::Sshd;
use crate::support::{Host, Site};
use rustix::process::Signal;
use std::fs;
use std::time::{Duration, Instant};

const NEWCOMER: &str = "Accepted publickey";
const KEEP: &str = "4s";

/// Copies a file there and says how the next one is called.
fn copy(site: &Site, sshd: &Sshd, name: &str, options: &[&str]) -> support::process::Done {
    let bytes = content(name, 100_000);
    fs::write(site.file(name), &bytes).unwrap();
    let (source, target) = (site.file(name), format!("far:{name}"));
    let args = [options, &[&*source, &*target]].concat();
    let done = sshd.copy(site, &args);
    done.assert_copied(bytes.len() as u64, "blake3");
    assert!(fs::read(site.root(name)).unwrap() == bytes, "{name}");
    done
}

/// Sockets of connections that stay.
fn sockets(site: &Site) -> usize {
    let entries = fs::read_dir(site.run_dir().join("howdah"));
    let names = entries
        .into_iter()
        .flatten()
        .map(|e| e.unwrap().file_name());
    names
        .filter(|n| n.to_string_lossy().starts_with("ssh-"))
        .count()
}

/// One whose connections can be counted and stopped.
fn sshd(site: &Site) -> Option<Sshd> {
    if !rustix::process::geteuid().is_root() {
        println!(
            "skipped: an sshd that root has not started has other processes, and a login more"
        );
        return None;
    }
    Sshd::start(site, Host::Here, "127.0.0.1")
}

#[test]
fn the_next_copy_takes_the_connection_that_is_there_and_it_ends_by_itself() {
    let site = Site::new(100);
    let Some(mut sshd) = sshd(&site) else {
        return;
    };
    for name in ["first", "second", "third"] {
        let done = copy(&site, &sshd, name, &["--ssh-keep", KEEP]);
        println!("{name}: {:?}", done.took);
        // Nothing of ssh's about it is the user's affair.
        assert!(
            !done.err.contains("ControlSocket") && !done.err.contains("mux"),
            "{}",
            done.err
        );
    }
    assert_eq!(sockets(&site), 1);
    // Without the flag nothing is shared, even if a connection is there.
    copy(&site, &sshd, "alone", &["--ssh-keep", "0"]);
    sshd.await_line(NEWCOMER);
    sshd.await_line(NEWCOMER);
    // The shared one ends when it was not used for that long.
    sshd.await_line("disconnected by user");
    sshd.await_line("disconnected by user");
    // It says so before it takes its socket away.
    let end = Instant::now() + Duration::from_secs(10);
    while sockets(&site) > 0 {
        assert!(Instant::now() < end, "the socket is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
    copy(&site, &sshd, "later", &["--ssh-keep", "1s"]);
    sshd.await_line(NEWCOMER);
    assert_eq!(sshd.lines_so_far(NEWCOMER), 3);
    site.assert_nothing_half_done();
}

/// A laptop that was closed, a network that has gone: the connection is there, and nobody answers.
#[test]
fn f70_a_connection_that_does_not_answer_is_given_up_for_a_new_one() {
    let site = Site::new(100);
    let Some(mut sshd) = sshd(&site) else {
        return;
    };
    let keep = ["--ssh-keep", "20s"];
    copy(&site, &sshd, "first", &keep);
    sshd.await_line(NEWCOMER);
    let stopped = sshd.signal_sessions(Signal::STOP);
    assert!(stopped > 0);
    let done = copy(&site, &sshd, "second", &keep);
    assert!(
        done.err.contains("does not answer; making another"),
        "{}",
        done.err
    );
    assert!(done.took < Duration::from_secs(15), "{:?}", done.took);
    sshd.await_line(NEWCOMER);
    // The new one is shared in turn.
    let done = copy(&site, &sshd, "third", &keep);
    assert!(!done.err.contains("making another"), "{}", done.err);
    assert_eq!(sshd.lines_so_far(NEWCOMER), 2);
}
