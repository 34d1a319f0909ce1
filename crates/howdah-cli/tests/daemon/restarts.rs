//! F69: a server is restarted under many copies. F19: the disk complains when a file is closed.
#![cfg(target_os = "linux")]

use crate::support::place::{content, hash_of};
use crate::support::process::{Input, Server};
use crate::support::{Host, Site};
use rustix::process::Signal;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// One half goes on by itself. The other was told not to: these copies end with a code that says "try again", and the same
/// command goes on where it was.
#[test]
fn f69_a_server_that_is_restarted_under_a_hundred_copies_loses_nothing() {
    const COPIES: usize = 100;
    const SIZE: usize = 10 << 20;
    // As `howdah --help` lists it.
    const NETWORK: i32 = 5;
    let site = Site::new(240);
    let server = site.serve();
    let address = server.address.to_string();
    let names: Vec<_> = (0..COPIES).map(|i| format!("f{i}")).collect();
    for name in &names {
        fs::write(site.file(name), content(name, SIZE)).unwrap();
    }
    let start = |server: &Server, name: &String, options: &[&str]| {
        let (source, target) = (site.file(name), server.url(name));
        let args = [options, &[&*source, &*target]].concat();
        site.start_copy(Host::Here, &args, Input::None)
    };
    let limited = |lasts: &'static str, names: &[String]| {
        let options = ["--limit", "4mbit", "--reconnect", lasts];
        let clients = names.iter().map(|name| start(&server, name, &options));
        clients.collect::<Vec<_>>()
    };
    let (alone, again) = names.split_at(COPIES / 2);
    let lasting = limited("2min", alone);
    let ending = limited("0", again);
    // Each would take twenty seconds, and a key has 64 under way at a time; the others wait. Something can be gone on with when a journal has
    // more than its first record.
    let is_begun = |entry: &fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        let journal = name
            .ends_with(".howdah-journal")
            .then(|| fs::read(entry.path()));
        // It may be gone by now.
        let Some(Ok(journal)) = journal else {
            return false;
        };
        let first = journal.first_chunk().map(|len| u32::from_le_bytes(*len));
        first.is_some_and(|len| journal.len() > 4 + len as usize + 16)
    };
    let begun = || {
        let entries = fs::read_dir(site.root("")).unwrap();
        entries
            .filter(|entry| is_begun(entry.as_ref().unwrap()))
            .count()
    };
    while begun() < COPIES / 3 {
        assert!(Instant::now() < site.limit());
        thread::sleep(Duration::from_millis(20));
    }
    server.process.signal(Signal::TERM);
    server.process.finish();
    for client in ending {
        let done = client.finish();
        assert_eq!(done.code, Some(NETWORK), "{}", done.err);
    }
    assert!(
        names
            .iter()
            .all(|name| !fs::exists(site.root(name)).unwrap())
    );

    let server = site.serve_at(Host::Here, &address, &site.root(""));
    let second = again.iter().map(|name| start(&server, name, &[]));
    let second = second.collect::<Vec<_>>();
    let mut resumed = 0;
    for (client, name) in lasting.into_iter().chain(second).zip(&names) {
        let done = client.finish();
        done.assert_copied(SIZE as u64, "blake3");
        resumed += usize::from(done.err.contains("going on with a copy"));
        let reconnects = done.json()["reconnects"].as_u64().unwrap();
        // One that falls silent on a busy machine does it twice.
        assert_eq!(reconnects > 0, alone.contains(name), "{name}");
        assert_eq!(hash_of(&site.root(name)), hash_of(&site.file(name)));
    }
    println!("{resumed} of {COPIES} went on where they were");
    assert!(resumed > COPIES / 4);
    site.assert_nothing_half_done();
    server.stop();
}

/// What was synced on the same descriptor is safe, whatever closing it says; nothing is lost and nobody stumbles.
#[test]
fn f19_an_error_of_close_after_the_sync_changes_nothing() {
    const SIZE: usize = 8 << 20;
    let strace = std::process::Command::new("strace").arg("-V").output();
    if strace.is_err() {
        println!("skipped: no strace");
        return;
    }
    let site = Site::new(100);
    fs::write(site.file("source"), content("close", SIZE)).unwrap();
    let (log, target) = (site.file("strace"), site.root("target"));
    let path = |name: &str| ["-P".to_owned(), site.root(name)];
    let words = [
        "-f",
        "-o",
        &log,
        "-e",
        "trace=close",
        "-e",
        "inject=close:error=EIO",
    ];
    let mut options = words.map(str::to_owned).to_vec();
    options.extend(path("target"));
    let serve = ["serve", "--listen", "127.0.0.1:0", "--root", &site.root("")];
    let server = Server::new(site.start_traced(&options, "server", &serve));
    let url = server.url("target");
    for _ in 0..3 {
        let done = site.copy(Host::Here, &site.file("source"), &url);
        done.assert_copied(SIZE as u64, "blake3");
        assert_eq!(hash_of(&target), hash_of(&site.file("source")));
    }
    drop(server);
    let injected = fs::read_to_string(&log)
        .unwrap()
        .matches("INJECTED")
        .count();
    println!("{injected} times closing failed");
    assert!(injected > 0);
    site.assert_nothing_half_done();
}
