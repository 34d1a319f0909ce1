//! What a person sees of a copy that goes on, and of one that does not.
#![cfg(target_os = "linux")]

use crate::support::place::{content, hash_of};
use crate::support::process::{Done, Input, Server};
use crate::support::relay::{Fate, Relay, Way};
use crate::support::{Host, Site, await_kept, await_no_parts, parts};
use rustix::process::Signal;
use std::fs;
use std::time::Duration;

// As `howdah --help` lists them.
const CANCELLED: i32 = 12;

const SIZE: usize = 60 << 20;

const PATIENCE: Duration = Duration::from_secs(30);

/// A put that is interrupted when a part of the file is there and on record.
fn interrupted(site: &Site, server: &Server) -> Done {
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let (source, target) = (site.file("source"), relay.url("target"));
    // So slow that it does not end meanwhile.
    let args = ["--limit", "100mbit", &source, &target];
    let client = site.start_copy(Host::Here, &args, Input::None);
    await_kept(site, &site.root(""));
    client.signal(Signal::INT);
    client.finish()
}

fn copy(site: &Site, server: &Server, options: &[&str]) -> (Done, u64) {
    let (source, target) = (site.file("source"), server.url("target"));
    let args = [options, &[&*source, &*target]].concat();
    let done = site.copy_with(Host::Here, &args, Input::None);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(hash_of(&site.root("target")), hash_of(&source));
    // The server may yet be about to end the copy that was interrupted.
    await_no_parts(&site.root(""), PATIENCE);
    site.assert_nothing_half_done();
    let resumed = done.json()["resumed_bytes"].as_u64().unwrap();
    (done, resumed)
}

/// Everything that was said, in whatever form.
fn said(done: &Done) -> String {
    format!("{}{}", done.err, String::from_utf8_lossy(&done.out))
}

#[test]
fn an_interrupted_copy_says_so_and_goes_on_or_says_why_not() {
    let site = Site::new(120);
    let server = site.serve();
    fs::write(site.file("source"), content("resuming", SIZE)).unwrap();

    let done = interrupted(&site, &server);
    done.assert_failed(
        CANCELLED,
        &["the same command goes on where this one ended"],
    );
    assert_eq!(parts(site.root("")).len(), 1, "it is kept");
    let (done, resumed) = copy(&site, &server, &[]);
    assert!(resumed > 0 && resumed < SIZE as u64, "{resumed}");
    let text = said(&done);
    assert!(
        text.contains("going on with a copy that was interrupted"),
        "{text}"
    );

    // The source changes in between.
    interrupted(&site, &server);
    fs::write(site.file("source"), content("another", SIZE)).unwrap();
    let (done, resumed) = copy(&site, &server, &[]);
    assert_eq!(resumed, 0);
    let text = said(&done);
    assert!(text.contains("the source has changed since"), "{text}");

    // Nobody wants what is there.
    interrupted(&site, &server);
    let (_, resumed) = copy(&site, &server, &["--no-resume", "--verify", "reread"]);
    assert_eq!(resumed, 0);
    server.stop();
}

/// The large file of a tree: gone on with, told, or begun anew if that is asked for.
#[test]
fn a_tree_s_large_file_goes_on_and_is_told_or_begins_anew() {
    let site = Site::new(120);
    let server = site.serve();
    fs::create_dir(site.file("tree")).unwrap();
    fs::write(site.file("tree/large"), content("large", SIZE)).unwrap();
    fs::write(site.file("tree/small"), content("small", 1_000)).unwrap();
    for (options, goes_on) in [(&[][..], true), (&["--no-resume"], false)] {
        let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
        let args = [
            "-r",
            "--limit",
            "100mbit",
            &site.file("tree/."),
            &relay.url("there"),
        ];
        let client = site.start_copy(Host::Here, &args, Input::None);
        await_kept(&site, &site.root(""));
        client.signal(Signal::INT);
        assert_eq!(client.finish().code, Some(CANCELLED));
        let (tree, url) = (site.file("tree/."), server.url("there"));
        let args = [options, &["-r", &*tree, &*url]].concat();
        let done = site.copy_with(Host::Here, &args, Input::None);
        assert_eq!(done.code, Some(0), "{}", done.err);
        let json = done.json();
        let resumed = json["resumed_bytes"].as_u64().unwrap();
        assert_eq!(json["tree"]["resumed_bytes"], resumed, "{json}");
        assert_eq!(resumed > 0, goes_on, "{json}");
        assert!(resumed < SIZE as u64, "{json}");
        let there = site.root("there/large");
        assert_eq!(hash_of(&there), hash_of(&site.file("tree/large")));
        site.assert_nothing_half_done();
        fs::remove_dir_all(site.root("there")).unwrap();
    }
    server.stop();
}

/// F25: somebody replaces the target while the rest comes: theirs is not overwritten, and what came is
/// not lost.
#[test]
fn f25_a_target_that_appears_meanwhile_is_left_alone() {
    let site = Site::new(120);
    let server = site.serve();
    fs::write(site.file("source"), content("resuming", SIZE)).unwrap();
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let (source, target) = (site.file("source"), relay.url("target"));
    let args = ["--limit", "200mbit", &*source, &*target];
    let client = site.start_copy(Host::Here, &args, Input::None);
    relay.await_bytes(Way::ToServer, 45 << 20, site.limit());
    fs::write(site.root("target"), "precious").unwrap();
    client.finish().assert_failed(4, &["target"]);
    assert_eq!(fs::read_to_string(site.root("target")).unwrap(), "precious");
    let (_, resumed) = copy(&site, &server, &[]);
    assert!(resumed > SIZE as u64 / 2, "{resumed}");
    server.stop();
}

/// F25, F71: what appears is the very file that was to come, as when an earlier copy had everything and ended late.
#[test]
fn f25_the_same_file_that_appears_meanwhile_is_what_was_asked_for() {
    let site = Site::new(120);
    let server = site.serve();
    for size in [SIZE, 2 << 20] {
        let bytes = content("the same", size);
        fs::write(site.file("source"), &bytes).unwrap();
        let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
        let (source, target) = (site.file("source"), relay.url("target"));
        let args = ["--limit", "80mbit", &*source, &*target];
        let client = site.start_copy(Host::Here, &args, Input::None);
        relay.await_bytes(Way::ToServer, 1 << 20, site.limit());
        fs::write(site.root("target"), &bytes).unwrap();
        let done = client.finish();
        assert_eq!(done.code, Some(0), "{}", done.err);
        done.assert_copied(size as u64, "blake3");
        assert_eq!(hash_of(&site.root("target")), hash_of(&source));
        site.assert_nothing_half_done();
        fs::remove_file(site.root("target")).unwrap();
    }
    server.stop();
}
