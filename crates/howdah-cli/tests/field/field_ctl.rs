//! `howdah ctl` for servers: who is there, letting them end, ending one.
#![cfg(target_os = "linux")]

use crate::support::place::content;
use crate::support::process::{Done, Input, Process, Server};
use crate::support::{Host, Site};
use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

fn ctl(site: &Site, args: &[&str]) -> Done {
    let args = [&["ctl"], args].concat();
    site.run(Host::Here, "client", &args, Input::None)
}

/// What `howdah ctl list --json` says of the one server.
fn server_of(site: &Site) -> Value {
    let done = ctl(site, &["list", "--json"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let out = String::from_utf8(done.out).unwrap();
    let all = out.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut servers = all.filter(|value: &Value| value["command"] == "serve");
    let server = servers.next().unwrap();
    assert!(servers.next().is_none(), "{out}");
    server
}

/// Waits until the server has that many sessions that do something.
#[track_caller]
fn await_sessions(site: &Site, busy: usize) -> Value {
    let end = Instant::now() + PATIENCE;
    loop {
        let server = server_of(site);
        let sessions = server["sessions"].as_array().unwrap();
        let moves = |s: &&Value| s["what"] != "" && s["bytes"].as_u64() > Some(0);
        if sessions.iter().filter(moves).count() == busy {
            return server;
        }
        assert!(Instant::now() < end, "{server}");
    }
}

/// A slow copy that is under way, and the server's number.
fn begin(site: &Site, server: &Server, name: &str, flags: &[&str]) -> Process {
    let (from, to) = (server.url("big"), site.file(name));
    let args = [&["--progress", "--limit", "2mbit"], flags, &[&from, &to]].concat();
    let mut copy = site.start_copy(Host::Here, &args, Input::None);
    copy.await_line("goodput", PATIENCE);
    copy
}

fn site() -> Site {
    let site = Site::new(120);
    fs::write(site.root("big"), content("big", 2 << 20)).unwrap();
    site
}

#[test]
fn a_server_shows_its_sessions_and_ends_one() {
    let site = site();
    let line = fs::read_to_string(site.config("server").join("authorized_keys")).unwrap();
    let words = line
        .split_whitespace()
        .skip_while(|word| *word != "howdah-ed25519");
    let words: Vec<&str> = words.take(2).collect();
    let line = format!("{} Anna of the lab\n", words.join(" "));
    fs::write(site.config("server").join("authorized_keys"), line).unwrap();
    let server = site.serve();
    let idle = server_of(&site);
    assert_eq!(idle["sessions"].as_array().unwrap().len(), 0, "{idle}");
    assert_eq!(idle["draining"], false);
    let pid = idle["pid"].to_string();
    // It would come back by itself if it were told that it may.
    let copy = begin(&site, &server, "a", &["--reconnect", "1min"]);
    let shown = await_sessions(&site, 1);
    let session = &shown["sessions"][0];
    let peer = session["peer"].as_str().unwrap();
    assert!(
        peer.starts_with("127.0.0.1:") && peer.contains("Anna of the lab"),
        "{peer}"
    );
    assert_eq!(session["what"], "get \"big\"");
    assert!(session["bytes"].as_u64() > Some(0), "{session}");
    let listed = ctl(&site, &["list"]);
    let text = String::from_utf8(listed.out).unwrap();
    assert!(
        text.contains("serve ") && text.contains("get \"big\""),
        "{text}"
    );
    // Orders that make no sense change nothing.
    ctl(&site, &["end", &pid, "9999"]).assert_failed(2, &["no session 9999"]);
    ctl(&site, &["limit", "1mbit", &pid]).assert_failed(2, &["this is a server"]);
    ctl(&site, &["drain", "1"]).assert_failed(3, &["no server of yours"]);
    ctl(&site, &["drain", &copy.pid().as_raw_nonzero().to_string()])
        .assert_failed(2, &["this is a copy"]);
    let ended = ctl(&site, &["end", &pid, &session["session"].to_string()]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    copy.finish().assert_failed(4, &["has ended this session"]);
    await_sessions(&site, 0);
    server.stop();
}

#[test]
fn a_server_that_drains_lets_its_sessions_end_and_goes() {
    let site = site();
    let mut server = site.serve();
    let pid = server_of(&site)["pid"].to_string();
    let copy = begin(&site, &server, "a", &[]);
    await_sessions(&site, 1);
    let told = ctl(&site, &["drain", &pid]);
    assert_eq!(told.code, Some(0), "{}", told.err);
    let text = String::from_utf8(told.out).unwrap();
    assert!(text.contains("ends with the last one"), "{text}");
    // Who comes now is told why, and that it may help to try again.
    let late = site.copy(Host::Here, &server.url("big"), &site.file("late"));
    late.assert_failed(5, &["the server is going away"]);
    assert_eq!(late.json()["error"]["retry_may_help"], true);
    copy.finish().assert_copied(2 << 20, "blake3");
    server.await_line("the last session has ended", PATIENCE);
    let done = server.process.finish();
    assert_eq!(done.code, Some(0), "{}", done.err);
    let none = ctl(&site, &["list", "--json"]);
    assert_eq!(
        String::from_utf8(none.out).unwrap(),
        "",
        "its socket is gone"
    );
}

#[test]
fn a_server_without_sessions_drains_at_once() {
    let site = site();
    let server = site.serve();
    let pid = server_of(&site)["pid"].to_string();
    assert_eq!(ctl(&site, &["drain", &pid]).code, Some(0));
    assert_eq!(server.process.finish().code, Some(0));
}
