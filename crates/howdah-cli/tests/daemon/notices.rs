//! Who is told what becomes of jobs.
#![cfg(target_os = "linux")]

use crate::support::process::Input;
use crate::support::service::{PATIENCE, Service};
use crate::support::{Host, Site, quiet_port};
use rustix::net::{self, AddressFamily, SocketType};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

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
    let nobody = format!("http://127.0.0.1:{}/hunter2", quiet_port());
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

/// What a server of mail has heard of one: to whom it goes, and what is in it.
#[derive(Debug)]
struct Letter {
    to: Vec<String>,
    head: String,
    body: String,
}

impl Letter {
    #[track_caller]
    fn header(&self, name: &str) -> &str {
        let start = format!("{name}: ");
        let mut found = self
            .head
            .lines()
            .filter_map(|line| line.strip_prefix(&start));
        let value = found
            .next()
            .unwrap_or_else(|| panic!("no {name}: {self:?}"));
        assert_eq!(found.next(), None, "{self:?}");
        value
    }
}

/// A port that is ours, and at which nobody listens yet.
fn closed_port() -> (OwnedFd, u16) {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = SocketAddr::try_from(net::getsockname(&socket).unwrap()).unwrap();
    (socket, address.port())
}

/// A small server of mail (RFC 5321). While it is down it shuts the door in everybody's face.
fn take_mail(socket: OwnedFd, down: Arc<AtomicBool>) -> Receiver<Letter> {
    net::listen(&socket, 16).unwrap();
    let listener = TcpListener::from(socket);
    let (told, heard) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, told, down) = (stream.unwrap(), told.clone(), Arc::clone(&down));
            std::thread::spawn(move || take_letters(stream, &told, &down));
        }
    });
    heard
}

fn take_letters(mut stream: TcpStream, told: &Sender<Letter>, down: &AtomicBool) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut say = |text: &str| {
        let is_up = !down.load(Ordering::Relaxed);
        is_up.then(|| stream.write_all(text.as_bytes()).ok())?
    };
    say("220 mail.example.org\r\n")?;
    let mut to = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.get(..4)? {
            "RCPT" => {
                to.push(line.trim_end().to_owned());
                say("250 yes\r\n")?;
            }
            "DATA" => {
                say("354 go\r\n")?;
                let mut text = String::new();
                while !text.ends_with("\r\n.\r\n") {
                    if reader.read_line(&mut text).ok()? == 0 {
                        return None;
                    }
                }
                let (head, body) = text.split_once("\r\n\r\n")?;
                let letter = Letter {
                    to: std::mem::take(&mut to),
                    // Long lines are folded (RFC 5322, 2.2.3).
                    head: head.replace("\r\n ", " "),
                    body: body.to_owned(),
                };
                told.send(letter).ok()?;
                say("250 taken\r\n")?;
            }
            "QUIT" => return say("221 bye\r\n"),
            _ => say("250 yes\r\n")?,
        }
    }
}

#[test]
fn a_job_that_fails_is_written_of_once_also_if_the_server_of_mail_was_down() {
    let site = Site::new(240);
    let (socket, port) = closed_port();
    let text = format!(
        "[[mail]]\nname = \"team\"\nserver = \"127.0.0.1\"\nport = {port}\ntls = \"none\"\nfrom = \"Howdah <howdah@example.org>\"\n\
         to = [\"Ops <ops@example.org>\", \"anna@example.org\"]\n"
    );
    configure(&site.config("client").join("daemon"), &text);
    let mut service = Service::new(&site, &[]);
    let missing = site.file("missing");
    let fail = |service: &Service<'_>| {
        let options = ["--label", "night\r\nBcc: evil@example.org"];
        service.submit(&options, &["verify", &missing, &missing])
    };
    let first = fail(&service);
    let said = service.await_line("could not be told that");
    assert!(
        said.contains("mail 'team'") && said.contains("again in"),
        "{said}"
    );
    // The daemon comes again by itself.
    let down = Arc::new(AtomicBool::new(false));
    let heard = take_mail(socket, Arc::clone(&down));
    let check = |job: &str| {
        let letter = heard.recv_timeout(PATIENCE).unwrap();
        let to = ["RCPT TO:<ops@example.org>", "RCPT TO:<anna@example.org>"];
        assert_eq!(letter.to, to, "{letter:?}");
        assert!(
            letter.header("From").contains("<howdah@example.org>"),
            "{letter:?}"
        );
        assert!(
            letter.header("To").contains("anna@example.org"),
            "{letter:?}"
        );
        assert_eq!(letter.header("Auto-Submitted"), "auto-generated");
        let subject = letter.header("Subject");
        assert!(subject.contains(&format!("job {job} failed")), "{letter:?}");
        assert!(!letter.head.contains("\nBcc"), "{letter:?}");
        for part in [
            &*missing,
            "exit code  3",
            &*format!("howdah job show {job}"),
        ] {
            assert!(letter.body.contains(part), "{part}: {letter:?}");
        }
        // What remembers it is its number.
        let id = letter.header("Message-ID").trim_start_matches('<');
        let notice = serde_json::json!({ "id": id.split('@').next().unwrap() });
        (id.to_owned(), notice)
    };
    let (one, notice) = check(&first);
    until_remembered(&service, "team", &notice);
    // Down again, and the daemon is killed before it is up.
    down.store(true, Ordering::Relaxed);
    let second = fail(&service);
    service.await_line(&format!("could not be told that job {second}"));
    service.kill();
    down.store(false, Ordering::Relaxed);
    service.start(&[]);
    let (other, notice) = check(&second);
    assert_ne!(one, other);
    until_remembered(&service, "team", &notice);
    let more = heard.recv_timeout(Duration::ZERO);
    assert!(more.is_err(), "nothing is told twice: {more:?}");
}
