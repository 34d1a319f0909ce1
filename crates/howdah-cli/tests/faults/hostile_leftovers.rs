//! H9 of docs/security.md: what a client leaves on a server goes when nobody comes back for it.
#![cfg(target_os = "linux")]

use crate::support::process::{Input, Server};
use crate::support::{Host, Site, write_own};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// An unfinished file in that directory, untouched for so many days; it stays open.
fn part(dir: &str, digit: &str, days: u64) -> (String, File) {
    let path = format!("{dir}.t.{}.howdah-part", digit.repeat(16));
    write_own(Path::new(&path), "what came");
    let file = File::options().write(true).open(&path).unwrap();
    let then = SystemTime::now() - Duration::from_hours(24 * days);
    file.set_modified(then).unwrap();
    (path, file)
}

fn until_gone(site: &Site, path: &str) {
    let end = site.limit();
    while fs::exists(path).unwrap() {
        assert!(Instant::now() < end, "{path} stays");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn h9_unfinished_files_expire() {
    let site = Site::new(60);
    let serve = |more: &[&str]| {
        let root = site.root("");
        let args = ["serve", "--listen", "127.0.0.1:0", "--root", &root];
        Server::new(site.start(Host::Here, "server", &[&args, more].concat(), Input::None))
    };
    fs::create_dir(site.root("sub")).unwrap();
    let sub = site.root("sub/");
    let (old, _) = part(&sub, "0", 31);
    let (young, _) = part(&sub, "1", 29);
    // Somebody goes on with it.
    let (held, lock) = part(&sub, "2", 31);
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let server = serve(&[]);
    until_gone(&site, &old);
    server.stop();
    assert!(fs::exists(&young).unwrap() && fs::exists(&held).unwrap());

    let (old, _) = part(&sub, "0", 3_000);
    serve(&["--expire-unfinished", "0s"]).stop();
    assert!(fs::exists(&old).unwrap());

    let server = serve(&["--expire-unfinished", "1h"]);
    until_gone(&site, &young);
    until_gone(&site, &old);
    server.stop();
    assert!(fs::exists(&held).unwrap());
}
