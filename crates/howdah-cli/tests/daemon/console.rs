//! The console in a real browser. What is done in it is in crates/howdah-daemon/console/test/console.mjs.
#![cfg(target_os = "linux")]

use crate::support::place::content;
use crate::support::process::{Input, Process};
use crate::support::service::{PATIENCE, Service};
use crate::support::{HOWDAH, Host, Site, quiet_port};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn console() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../howdah-daemon/console")
}

/// The first of these programs that is there.
fn found(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let dirs: Vec<_> = std::env::split_paths(&path).collect();
    let places = names
        .iter()
        .flat_map(|name| dirs.iter().map(move |dir| dir.join(name)));
    places.into_iter().find(|place| place.is_file())
}

#[test]
fn the_console_in_a_browser() {
    let Some(node) = found(&["node"]) else {
        println!("skipped: there is no node");
        return;
    };
    let Some(chromium) = found(&["chromium", "chromium-browser", "google-chrome"]) else {
        println!("skipped: there is no chromium ('make setup-test' installs it)");
        return;
    };
    if !console().join("node_modules/playwright-core").is_dir() {
        println!("skipped: its libraries are not there ('make console-setup' fetches them)");
        return;
    }
    let site = Site::new(600);
    let server = site.serve();
    let tree = site.file("tree");
    fs::create_dir_all(format!("{tree}/small/deep")).unwrap();
    fs::write(format!("{tree}/large"), content("large", 64 << 20)).unwrap();
    for name in ["small/a", "small/b", "small/deep/c"] {
        fs::write(format!("{tree}/{name}"), content(name, 1_000)).unwrap();
    }
    // The same one after a restart.
    let address = format!("127.0.0.1:{}", quiet_port());
    let args = ["--listen", &address, "--max-running", "2"];
    let mut service = Service::new(&site, &args);
    let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/console.png");
    let shots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("console");
    let mut child = Command::new(node)
        .arg(console().join("test/console.mjs"))
        .env("ADDRESS", &address)
        .env("STATE", service.dir())
        .env("TO", server.url("copy"))
        .env("FILES", site.path().join("files"))
        .env("SHOTS", &shots)
        .env("CHROMIUM", chromium)
        // HOWDAH_BLESS=1 takes the picture of docs/daemon.md anew.
        .envs(std::env::var_os("HOWDAH_BLESS").map(|_| ("SCREENSHOT", picture)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        match &*line.unwrap() {
            "SITE kill" => service.kill(),
            "SITE start" => service.start(&args),
            other => {
                println!("{other}");
                continue;
            }
        }
        input.write_all(b"ok\n").unwrap();
    }
    assert!(child.wait().unwrap().success());
    println!("what it looked like: {}", shots.display());
    server.stop();
}

/// A daemon whose browser is a program that does nothing.
fn start(site: &Site, args: &[&str]) -> Process {
    let mut command = Command::new(HOWDAH);
    command.env("BROWSER", "true");
    site.start_by(command, "client", args, Input::None)
}

#[test]
fn a_browser_is_let_in_by_a_page_that_nobody_else_reads_once() {
    let site = Site::new(120);
    let mut daemon = start(&site, &["daemon", "--open", "--listen", "127.0.0.1:0"]);
    let line = daemon.await_line("showing http://", PATIENCE);
    let page = site.config("client").join("daemon/open.html");
    let read = || {
        let text = fs::read_to_string(&page).unwrap();
        let (_, ticket) = text.split_once("#ticket=").unwrap();
        ticket[..64].to_owned()
    };
    let mode = fs::metadata(&page).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let first = read();
    // Who asks for another one shows the console of the daemon that is there.
    let again = start(&site, &["daemon", "--open"]).finish();
    assert_eq!(again.code, Some(0), "{}", again.err);
    assert!(again.err.contains("showing http://"), "{}", again.err);
    assert_ne!(read(), first);
    let address = line.split("http://").nth(1).unwrap();
    let address = address.split('/').next().unwrap();
    let redeem = |ticket: &str| {
        let body = format!(r#"{{"ticket":"{ticket}"}}"#);
        let length = body.len();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "POST /v1/tickets/use HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    for ticket in [first, read()] {
        let answer = redeem(&ticket);
        assert!(
            answer.contains(" 200 ") && answer.contains("token"),
            "{answer}"
        );
        assert!(redeem(&ticket).contains(" 401 "));
    }
}

#[test]
fn without_a_place_for_a_browser_it_is_said_how_to_make_one() {
    let site = Site::new(120);
    let _service = Service::new(&site, &[]);
    let done = start(&site, &["daemon", "--open"]).finish();
    done.assert_failed(4, &["does not listen", "--listen 127.0.0.1:8470"]);
    let done = site.run(Host::Here, "client", &["daemon"], Input::None);
    done.assert_failed(4, &["another daemon"]);
}
