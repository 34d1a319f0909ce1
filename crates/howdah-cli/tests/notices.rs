//! Who is told what becomes of jobs.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod support;

use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use support::process::Input;
use support::service::{PATIENCE, Service};
use support::{Host, Site};

const REFUSED: i32 = 4;
const NETWORK: i32 = 5;

/// Somebody who hears webhooks, and answers the first one of each list with that code, then the next.
fn hear(mut codes: Vec<u16>) -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hunter2", listener.local_addr().unwrap());
    let (told, heard) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut came = Vec::new();
            let mut part = [0; 4096];
            while !came.ends_with(b"}}") {
                let n = stream.read(&mut part).unwrap();
                assert!(n > 0, "{}", String::from_utf8_lossy(&came));
                came.extend_from_slice(&part[..n]);
            }
            let text = String::from_utf8(came).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.contains("webhook-signature: v1,"), "{head}");
            let code = if codes.is_empty() {
                200
            } else {
                codes.remove(0)
            };
            if told.send(serde_json::from_str(body).unwrap()).is_err() {
                return;
            }
            let answer = format!("HTTP/1.1 {code} X\r\nContent-Length: 0\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes());
            // Until it is heard.
            let _ = stream.read(&mut part);
        }
    });
    (url, heard)
}

fn configure(service_dir: &Path, text: &str) {
    let path = service_dir.join("notify.toml");
    fs::create_dir_all(service_dir).unwrap();
    fs::set_permissions(service_dir, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn webhook(name: &str, url: &str, more: &str) -> String {
    format!(
        "[[webhook]]\nname = \"{name}\"\nurl = \"{url}\"\nsecret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\n{more}\n"
    )
}

/// Until a receiver has come as far as that notice.
#[track_caller]
fn until_remembered(service: &Service<'_>, name: &str, notice: &Value) {
    let id = notice["id"].as_str().unwrap();
    let event = id.rsplit('_').next().unwrap();
    let path = service.dir().join("notices").join(name);
    let end = Instant::now() + PATIENCE;
    while fs::read_to_string(&path).unwrap_or_default().trim() != event {
        assert!(Instant::now() < end, "{notice}");
        std::thread::yield_now();
    }
}

#[test]
fn the_end_of_a_job_is_told_once_whatever_becomes_of_the_daemon() {
    let site = Site::new(240);
    let (url, heard) = hear(vec![503]);
    // One that never says anything: jobs and others do not wait for it.
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let deaf_url = format!("http://{}/", deaf.local_addr().unwrap());
    let written = site.file("told");
    let script = format!("cat >> {written}");
    let text = [
        webhook("deaf", &deaf_url, "timeout_seconds = 600"),
        webhook("ops", &url, ""),
        format!(
            "[[command]]\nname = \"page\"\nprogram = \"/bin/sh\"\narguments = [\"-c\", \"{script}\"]\nevents = [\"failed\"]\n"
        ),
    ]
    .concat();
    configure(&site.config("client").join("daemon"), &text);
    let mut service = Service::new(&site, &[]);
    let server = site.serve();
    let (from, to) = (site.file("a"), server.url("b"));
    fs::write(&from, "content").unwrap();
    let good = service.submit(&["--label", "night\n"], &["cp", "--accept-new", &from, &to]);
    let next = || heard.recv_timeout(PATIENCE).unwrap();
    // The first try is answered with 503, and the second one is the same.
    let (first, again) = (next(), next());
    assert_eq!(first, again);
    assert_eq!(first["type"], "job.done");
    assert_eq!(first["data"]["job"].to_string(), good);
    assert_eq!(first["data"]["labels"][0], "night\n");
    let bad = service.submit(&[], &["cp", &site.file("missing"), &to]);
    let second = next();
    assert_eq!(second["type"], "job.failed");
    assert_eq!(second["data"]["job"].to_string(), bad);
    assert_eq!(second["data"]["exit_code"], 3);
    until_remembered(&service, "ops", &second);
    until_remembered(&service, "page", &second);
    service.kill();
    service.start(&[]);
    let last = service.submit(&[], &["cp", &from, &to]);
    let third = next();
    assert_eq!(third["data"]["job"].to_string(), last);
    until_remembered(&service, "ops", &third);
    let more = heard.recv_timeout(Duration::ZERO);
    assert_eq!(
        more,
        Err(RecvTimeoutError::Timeout),
        "nothing is told twice"
    );
    // The command was told of what failed, once.
    let lines = fs::read_to_string(&written).unwrap();
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines, [second]);
    server.stop();
}

#[test]
fn whom_the_file_names_can_be_told_that_it_is_a_test() {
    let site = Site::new(60);
    let dir = site.config("client").join("daemon");
    let test = || {
        let args = ["daemon", "--notify-test"];
        site.run(Host::Here, "client", &args, Input::None)
    };
    test().assert_failed(REFUSED, &["notify.toml", "nobody is named"]);
    let (url, heard) = hear(Vec::new());
    configure(&dir, &webhook("ops", &url, ""));
    let done = test();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("webhook 'ops' was told"), "{}", done.err);
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap()["type"], "test");
    // Nobody listens there.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}/hunter2", gone.local_addr().unwrap());
    drop(gone);
    configure(
        &dir,
        &[webhook("ops", &url, ""), webhook("gone", &nobody, "")].concat(),
    );
    let done = test();
    done.assert_failed(
        NETWORK,
        &["'ops' was told", "'gone' was not told", "1 of those"],
    );
    assert!(!done.err.contains("hunter2"), "{}", done.err);
}

#[test]
fn a_file_that_makes_no_sense_is_named_and_its_secrets_are_not() {
    let site = Site::new(60);
    let dir = site.config("client").join("daemon");
    let run = |args: &[&str]| {
        let args = [&["daemon"], args].concat();
        site.run(Host::Here, "client", &args, Input::None)
    };
    configure(&dir, &webhook("ops", "http://192.0.2.1/hunter2", ""));
    let done = run(&[]);
    done.assert_failed(REFUSED, &["notify.toml", "line 1", "plain = true"]);
    assert!(!done.err.contains("hunter2"), "{}", done.err);
    let path = dir.join("notify.toml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    run(&[]).assert_failed(REFUSED, &["notify.toml", "chmod 600"]);
    let missing = site.file("missing.toml");
    run(&["--notify", &missing]).assert_failed(REFUSED, &["missing.toml"]);
}
