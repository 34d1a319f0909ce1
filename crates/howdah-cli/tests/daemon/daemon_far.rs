//! A daemon that is asked from elsewhere, and what it writes down of that.
#![cfg(target_os = "linux")]

use crate::support::place::SmallDisk;
use crate::support::process::{Done, Input, Process};
use crate::support::service::PATIENCE;
use crate::support::{Host, Site};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Instant;

const USAGE: i32 = 2;
const REFUSED: i32 = 4;
const AUTH: i32 = 7;

/// A daemon that others reach, and its address and fingerprint.
struct Far<'a> {
    site: &'a Site,
    daemon: Process,
    url: String,
    fingerprint: String,
}

impl<'a> Far<'a> {
    fn new(site: &'a Site, more: &[&str]) -> Self {
        let args = [&["daemon", "--listen", "127.0.0.1:0", "--tls"], more].concat();
        let mut daemon = site.start(Host::Here, "client", &args, Input::None);
        let line = daemon.await_line("fingerprint", PATIENCE);
        let fingerprint = line.split_whitespace().last().unwrap().to_owned();
        let line = daemon.await_line("taking jobs", PATIENCE);
        let url = line
            .split_whitespace()
            .find(|word| word.starts_with("https://"));
        let url = url.unwrap().trim_end_matches(';').to_owned();
        Self {
            site,
            daemon,
            url,
            fingerprint,
        }
    }

    /// A file with the line of that role, and a name.
    fn token(&self, role: &str) -> String {
        let tokens = self.site.config("client").join("daemon/tokens");
        let text = fs::read_to_string(tokens).unwrap();
        let line = text.lines().find(|line| line.starts_with(role)).unwrap();
        let path = self.site.file(role);
        fs::write(&path, format!("{line} of the test\n")).unwrap();
        path
    }

    /// As somebody who has nothing here but a token.
    fn ask(&self, role: &str, args: &[&str]) -> Done {
        let token = self.token(role);
        let place = ["--daemon", &self.url, "--token-file", &token];
        let args = [args, &place[..]].concat();
        self.site.run(Host::Here, "other", &args, Input::None)
    }

    fn stop(self) {
        self.daemon.signal(Signal::TERM);
        assert_eq!(self.daemon.finish().code, Some(0));
    }
}

#[test]
fn it_is_asked_by_who_knows_it_and_has_a_token() {
    let site = Site::new(120);
    let far = Far::new(&site, &[]);
    let known = ["--fingerprint", &far.fingerprint];
    let ask = |role: &str, args: &[&str]| far.ask(role, &[args, &known[..]].concat());
    let done = ask("submit", &["job", "submit", "--hold"]);
    done.assert_failed(USAGE, &["COMMAND"]);
    let submit = |role: &str| {
        let token = far.token(role);
        let place = ["--daemon", &far.url, "--token-file", &token];
        let args = [
            &["job", "submit", "--hold"],
            &place[..],
            &known,
            &["verify", "a", "b"],
        ]
        .concat();
        site.run(Host::Here, "other", &args, Input::None)
    };
    submit("read").assert_failed(REFUSED, &["one of 'submit' may"]);
    let done = submit("submit");
    assert_eq!(done.code, Some(0), "{}", done.err);
    let shown = ask("read", &["job", "show", "--json", "1"]);
    assert_eq!(shown.code, Some(0), "{}", shown.err);
    // It runs in the home of the daemon's user, wherever who asks stands.
    let home = std::env::home_dir().unwrap_or_else(|| "/".into());
    assert_eq!(shown.json()["spec"]["directory"], home.to_str().unwrap());
    let certificate = site.config("client").join("daemon/tls-cert.pem");
    let done = far.ask(
        "read",
        &["job", "list", "--ca", certificate.to_str().unwrap()],
    );
    assert_eq!(done.code, Some(0), "{}", done.err);
    far.ask("read", &["job", "list"])
        .assert_failed(AUTH, &[&far.fingerprint]);
    let other = "0".repeat(64);
    far.ask("read", &["job", "list", "--fingerprint", &other])
        .assert_failed(AUTH, &[&far.fingerprint]);
    far.ask("read", &["job", "list", "--state", "x"])
        .assert_failed(USAGE, &["--state"]);
    let args = ["job", "list", "--token-file", "x"];
    site.run(Host::Here, "other", &args, Input::None)
        .assert_failed(USAGE, &["--daemon"]);
    let args = [
        "job",
        "list",
        "--daemon",
        "http://192.0.2.1",
        "--token-file",
        &far.token("read"),
    ];
    site.run(Host::Here, "other", &args, Input::None)
        .assert_failed(USAGE, &["https://"]);
    far.stop();
}

#[test]
fn another_address_takes_tls_and_a_certificate_its_key() {
    let site = Site::new(60);
    for (args, part) in [
        (&["--listen", "0.0.0.0:0"][..], "--tls"),
        (&["--tls"], "--listen"),
        (&["--listen", "127.0.0.1:0", "--tls-cert", "x"], "--tls-key"),
    ] {
        let args = [&["daemon"], args].concat();
        let done = site.run(Host::Here, "client", &args, Input::None);
        done.assert_failed(USAGE, &[part]);
    }
    let args = [
        "daemon",
        "--listen",
        "127.0.0.1:0",
        "--tls-cert",
        "nothing",
        "--tls-key",
        "nothing",
    ];
    let done = site.run(Host::Here, "client", &args, Input::None);
    done.assert_failed(REFUSED, &["nothing", "No such file"]);
}

fn lines(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn what_is_ordered_just_before_the_end_is_written_down() {
    const ORDERS: usize = 200;
    let site = Site::new(120);
    let log = site.file("audit");
    let far = Far::new(&site, &["--audit", &log]);
    // One after the other over one connection, of which the last closes it.
    let order = |more: &str| {
        format!(
            "POST /v1/jobs/7/cancel HTTP/1.1\r\nHost: localhost\r\n{more}Content-Length: 0\r\n\r\n"
        )
    };
    let orders = order("").repeat(ORDERS - 1) + &order("Connection: close\r\n");
    let socket = site.config("client").join("daemon/socket");
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(orders.as_bytes()).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    far.stop();
    assert_eq!(answers.matches("HTTP/1.1 404").count(), ORDERS, "{answers}");
    let refused = lines(&log);
    let refused = refused.iter().filter(|line| line["event"] == "refused");
    assert_eq!(refused.count(), ORDERS);
}

#[test]
fn who_ordered_what_is_written_down_and_how_it_ended() {
    let site = Site::new(120);
    let log = site.file("audit");
    let far = Far::new(&site, &["--audit", &log]);
    let here = |args: &[&str]| site.run(Host::Here, "client", args, Input::None);
    let nothing = site.file("nothing");
    assert_eq!(
        here(&[
            "job", "submit", "--label", "x", "verify", &nothing, &nothing
        ])
        .code,
        Some(0)
    );
    assert_eq!(here(&["job", "wait", "1"]).code, Some(3));
    let server = site.serve();
    fs::write(site.file("file"), "content").unwrap();
    let copy = [
        "cp",
        "--accept-new",
        &site.file("file"),
        &server.url("file"),
    ];
    let submitted = here(&[&["job", "submit"], &copy[..]].concat());
    assert_eq!(
        (submitted.code, here(&["job", "wait", "2"]).code),
        (Some(0), Some(0))
    );
    here(&["job", "cancel", "1"]).assert_failed(REFUSED, &["over"]);
    let known = ["--fingerprint", &far.fingerprint];
    let far_ask = |args: &[&str]| far.ask("read", &[args, &known[..]].concat());
    far_ask(&["job", "limit", "1mbit"]).assert_failed(REFUSED, &["admin"]);
    let end = Instant::now() + PATIENCE;
    while !lines(&log).iter().any(|line| line["event"] == "job_done") {
        assert!(Instant::now() < end, "{:?}", lines(&log));
    }
    let secret = fs::read_to_string(far.token("read")).unwrap();
    let secret = secret.split(' ').nth(1).unwrap().to_owned();
    far.stop();

    let all = lines(&log);
    let of = |request: &str| all.iter().find(|line| line["request"] == request).unwrap();
    let user = rustix::process::geteuid().as_raw();
    let submitted = of("POST /v1/jobs");
    assert_eq!(
        (&submitted["event"], &submitted["user"], &submitted["id"]),
        (&"done".into(), &user.into(), &1.into())
    );
    assert_eq!(
        submitted["asked"]["arguments"][0],
        nothing.as_str(),
        "{submitted}"
    );
    let cancelled = of("POST /v1/jobs/1/cancel");
    assert_eq!(
        (&cancelled["event"], &cancelled["status"]),
        (&"refused".into(), &409.into())
    );
    assert!(
        cancelled["error"].as_str().unwrap().contains("over"),
        "{cancelled}"
    );
    let limited = of("PUT /v1/limits");
    assert_eq!(
        (&limited["event"], &limited["role"], &limited["status"]),
        (&"refused".into(), &"read".into(), &403.into())
    );
    assert!(
        limited["address"]
            .as_str()
            .unwrap()
            .starts_with("127.0.0.1:"),
        "{limited}"
    );
    assert!(
        limited["token"].as_str().unwrap().starts_with("blake3:"),
        "{limited}"
    );
    let failed = all
        .iter()
        .find(|line| line["event"] == "job_failed")
        .unwrap();
    assert_eq!(
        (&failed["job"], &failed["exit_code"], &failed["labels"][0]),
        (&1.into(), &3.into(), &"x".into())
    );
    assert_eq!(failed["command"][0], "verify", "{failed}");
    let done = all.iter().find(|line| line["event"] == "job_done");
    let done = done.unwrap();
    let hash = blake3::hash(b"content").to_hex();
    assert_eq!(
        (&done["bytes"], &done["blake3"]),
        (&7.into(), &hash.as_str().into()),
        "{done}"
    );
    assert!(!fs::read_to_string(&log).unwrap().contains(&secret));

    // The next daemon does not tell it again.
    let far = Far::new(&site, &["--audit", &log]);
    assert_eq!(
        here(&["job", "submit", "--hold", "verify", &nothing, &nothing]).code,
        Some(0)
    );
    far.stop();
    let count = |event: &str| {
        lines(&log)
            .iter()
            .filter(|line| line["event"] == event)
            .count()
    };
    assert_eq!((count("job_failed"), count("done")), (1, 3));
}

#[test]
fn what_must_be_written_down_and_cannot_is_refused() {
    let site = Site::new(120);
    let dir = site.file("small");
    fs::create_dir(&dir).unwrap();
    let Some(_disk) = SmallDisk::mount(&dir, 1) else {
        return;
    };
    let log = format!("{dir}/audit");
    let mut far = Far::new(&site, &["--audit", &log, "--audit-required"]);
    let filler = format!("{dir}/filler");
    assert!(fs::write(&filler, vec![0; 2 << 20]).is_err(), "a full disk");
    let submit = || {
        let args = ["job", "submit", "--hold", "verify", "a", "b"];
        site.run(Host::Here, "client", &args, Input::None)
    };
    // Nobody knows yet.
    submit();
    far.daemon.await_line("cannot be written", PATIENCE);
    submit().assert_failed(REFUSED, &["cannot write its audit log"]);
    let done = site.run(Host::Here, "client", &["job", "list"], Input::None);
    assert_eq!(
        done.code,
        Some(0),
        "who only looks is answered: {}",
        done.err
    );
    fs::remove_file(&filler).unwrap();
    far.daemon.await_line("is written again", PATIENCE);
    assert_eq!(submit().code, Some(0));
    far.stop();
    let orders = lines(&log);
    let orders: Vec<_> = orders
        .iter()
        .filter(|line| line["request"] == "POST /v1/jobs")
        .collect();
    assert_eq!(
        orders.len(),
        2,
        "the first is not forgotten, the refused one is none: {orders:?}"
    );
}
