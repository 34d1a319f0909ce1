//! Transfers that somebody or something ends: the other side notices, says so, and cleans up.
#![cfg(target_os = "linux")]

use crate::support::place::content;
use crate::support::process::{Input, Process, Server};
use crate::support::relay::{Fate, Relay, Way};
use crate::support::{Host, Site, await_no_parts, parts};
use rustix::process::Signal;
use std::fs;
use std::time::{Duration, Instant};

// As `howdah --help` lists them.
const NETWORK: i32 = 5;
const CANCELLED: i32 = 12;

/// Patience of either side, as documented, and some for a busy machine.
const NOTICED_WITHIN: Duration = Duration::from_secs(10);
/// More than what is on the way at any moment.
const SOME: usize = 6 << 20;

/// A pipe to `target` that is in the middle of its transfer, and stays there.
fn half_sent(site: &Site, url: &str) -> Process {
    let client = site.start_copy(Host::Here, &["-", url], Input::Held(content("half", SOME)));
    client.await_fed();
    client
}

/// A large file on its way to the client through a relay, which says when.
fn half_received(site: &Site, server: &Server) -> (Process, Relay) {
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let args = [&*relay.url("zero:3GiB"), &*site.file("target")];
    let client = site.start_copy(Host::Here, &args, Input::None);
    relay.await_bytes(Way::ToClient, SOME as u64, site.limit());
    (client, relay)
}

#[track_caller]
fn assert_absent(path: &str) {
    assert!(!fs::exists(path).unwrap(), "{path} exists");
}

/// The server is well: it takes one more file.
#[track_caller]
fn assert_serves(site: &Site, server: &Server) {
    let put = site.copy(Host::Here, "zero:100000", &server.url("next"));
    put.assert_copied(100_000, "blake3");
    let get = site.copy(Host::Here, &server.url("next"), "-");
    get.assert_copied(100_000, "blake3");
}

#[test]
fn a_killed_server_is_noticed_by_who_sends() {
    let site = Site::new(60);
    let server = site.serve();
    let client = half_sent(&site, &server.url("target"));
    let address = server.address.to_string();
    server.process.signal(Signal::KILL);
    let killed = Instant::now();
    let done = client.finish();
    done.assert_failed(NETWORK, &[&address, "silent"]);
    assert!(killed.elapsed() < NOTICED_WITHIN, "{:?}", killed.elapsed());
    assert_eq!(done.json_error(), "network");
    // Its temporary file could not be removed by anybody, but nothing has the name.
    assert_absent(&site.root("target"));
}

#[test]
fn a_killed_server_is_noticed_by_who_receives() {
    let site = Site::new(60);
    let server = site.serve();
    let (client, _relay) = half_received(&site, &server);
    server.process.signal(Signal::KILL);
    let killed = Instant::now();
    let done = client.finish();
    done.assert_failed(NETWORK, &["silent"]);
    assert!(killed.elapsed() < NOTICED_WITHIN, "{:?}", killed.elapsed());
    assert_absent(&site.file("target"));
    site.assert_nothing_half_done();
}

#[test]
fn a_killed_client_leaves_nothing_at_the_server() {
    let site = Site::new(60);
    let mut server = site.serve();
    let client = half_sent(&site, &server.url("target"));
    client.signal(Signal::KILL);
    server.await_line("put \"target\" failed: ", NOTICED_WITHIN);
    await_no_parts(&site.root(""), NOTICED_WITHIN);
    assert_absent(&site.root("target"));
    assert_serves(&site, &server);
    server.stop();
}

#[test]
fn a_killed_client_that_received_does_not_hold_up_the_server() {
    let site = Site::new(60);
    let mut server = site.serve();
    let (client, _relay) = half_received(&site, &server);
    client.signal(Signal::KILL);
    // Meanwhile others are served.
    assert_serves(&site, &server);
    server.await_line("get \"zero:3GiB\" failed: ", NOTICED_WITHIN);
    assert_absent(&site.file("target"));
    assert_serves(&site, &server);
    server.stop();
}

#[test]
fn what_a_killed_process_left_goes_with_the_next_copy_to_the_same_place() {
    let site = Site::new(60);
    let server = site.serve();
    let client = half_sent(&site, &server.url("target"));
    server.process.signal(Signal::KILL);
    client.finish();
    assert_eq!(parts(site.root("")).len(), 1, "nobody was left to tidy up");

    let server = site.serve();
    let other = half_sent(&site, &server.url("target"));
    // A copy to another place leaves it alone, and so does one to the same place while it is in use.
    site.copy(Host::Here, "zero:100000", &server.url("target2"))
        .assert_copied(100_000, "blake3");
    site.copy(Host::Here, "zero:100000", &server.url("target"))
        .assert_copied(100_000, "blake3");
    assert_eq!(parts(site.root("")).len(), 1, "that one is being written");
    other.signal(Signal::KILL);
    await_no_parts(&site.root(""), NOTICED_WITHIN);

    // The same at the client's side.
    let (client, _relay) = half_received(&site, &server);
    client.signal(Signal::KILL);
    client.finish();
    assert_eq!(parts(site.path()).len(), 1, "nobody was left to tidy up");
    site.copy(Host::Here, &server.url("zero:100000"), &site.file("target"))
        .assert_copied(100_000, "aead");
    site.assert_nothing_half_done();
    server.stop();
}

#[test]
fn an_interrupted_put_leaves_nothing() {
    let site = Site::new(60);
    let mut server = site.serve();
    let client = half_sent(&site, &server.url("target"));
    client.signal(Signal::INT);
    let interrupted = Instant::now();
    let done = client.ended();
    done.assert_failed(CANCELLED, &["interrupted"]);
    let took = interrupted.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(done.json_error(), "cancelled");
    server.await_line("put \"target\" failed: ", NOTICED_WITHIN);
    await_no_parts(&site.root(""), NOTICED_WITHIN);
    assert_absent(&site.root("target"));
    assert_serves(&site, &server);
    server.stop();
}

#[test]
fn an_interrupted_get_leaves_nothing() {
    let site = Site::new(60);
    let mut server = site.serve();
    let (client, _relay) = half_received(&site, &server);
    client.signal(Signal::TERM);
    let interrupted = Instant::now();
    client.finish().assert_failed(CANCELLED, &["interrupted"]);
    let took = interrupted.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_absent(&site.file("target"));
    site.assert_nothing_half_done();
    server.await_line("get \"zero:3GiB\" failed: ", NOTICED_WITHIN);
    server.stop();
}

#[test]
fn a_server_that_is_stopped_tells_its_clients() {
    let site = Site::new(60);
    let server = site.serve();
    let client = half_sent(&site, &server.url("target"));
    server.stop();
    let stopped = Instant::now();
    let done = client.finish();
    done.assert_failed(NETWORK, &["the server was stopped"]);
    let took = stopped.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_absent(&site.root("target"));
    site.assert_nothing_half_done();
}

#[test]
fn a_source_that_changes_meanwhile_is_not_taken_for_good() {
    let site = Site::new(60);
    let server = site.serve();
    let path = site.file("growing");
    fs::write(&path, content("growing", 200 << 20)).unwrap();
    // Slow enough that there is a middle. Not a fixed rate: on a busy machine the relay cannot follow one.
    let relay = Relay::start(server.address, |_, datagram| Fate::pass(datagram));
    let args = ["--limit", "400mbit", &path, &*relay.url("target")];
    let client = site.start_copy(Host::Here, &args, Input::None);
    relay.await_bytes(Way::ToServer, SOME as u64, site.limit());
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut file, b"more").unwrap();
    client.finish().assert_failed(13, &["growing", "changed"]);
    assert_absent(&site.root("target"));
    // What came of the old version is of no use to a copy of the new one.
    let again = site.copy(Host::Here, &path, &server.url("target"));
    again.assert_copied((200 << 20) + 4, "blake3");
    assert_eq!(again.json()["resumed_bytes"], 0);
    site.assert_nothing_half_done();
    server.stop();
}
