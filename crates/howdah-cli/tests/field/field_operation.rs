//! A data manager's day: keys and logs that tell clients apart.

use crate::support::process::Input;
use crate::support::{Host, Site};
use std::fs;

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

/// What `howdah ARGS` prints; it must end with `code`.
#[track_caller]
fn key(site: &Site, who: &str, args: &[&str], code: i32) -> (String, String) {
    let args = [&["key"], args].concat();
    let done = site.run(Host::Here, who, &args, Input::None);
    assert_eq!(done.code, Some(code), "{args:?}: {}", done.err);
    (String::from_utf8(done.out).unwrap(), done.err)
}

#[test]
fn o10_a_comment_is_given_once_and_stays_with_the_key() {
    let site = Site::new(60);
    let (line, _) = key(
        &site,
        "anna",
        &["new", "--comment", "Anna's laptop, room 3"],
        0,
    );
    assert!(line.ends_with(" Anna's laptop, room 3\n"), "{line}");
    assert_eq!(key(&site, "anna", &["show"], 0).0, line);
    // A server lists it as it is.
    let keys = site.config("server").join("authorized_keys");
    fs::write(keys, &line).unwrap();
    fs::write(site.file("here"), "x").unwrap();
    let mut server = site.serve();
    let url = server.url("new");
    let copy = ["cp", "--accept-new", &site.file("here"), &url];
    let done = site.run(Host::Here, "anna", &copy, Input::None);
    assert_eq!(done.code, Some(0), "{}", done.err);
    server.await_line("Anna's laptop, room 3", PATIENCE);
    // What would forge a line makes no key.
    for (who, bad) in [("b", "a\nb"), ("c", "\u{1b}[2J"), ("d", &*"x".repeat(257))] {
        let (_, err) = key(&site, who, &["new", "--comment", bad], 2);
        assert!(err.contains("comment"), "{err}");
        assert!(!site.config(who).join("id_ed25519.pem").exists());
    }
}

#[test]
fn o10_a_fingerprint_can_be_had_of_everything_that_holds_a_key() {
    let site = Site::new(60);
    let (line, _) = key(&site, "anna", &["new", "--comment", "anna"], 0);
    let (own, _) = key(&site, "anna", &["fingerprint"], 0);
    assert!(
        own.starts_with("SHA256:") && own.ends_with(" anna\n"),
        "{own}"
    );
    let file = |name: &str| site.file(name);
    fs::write(file("public"), &line).unwrap();
    let other = site.make_key("ben");
    let list = format!("# people\n\nread-only {line}{other}");
    fs::write(file("list"), list).unwrap();
    fs::write(file("hosts"), format!("site.example:7117 {line}")).unwrap();
    let private = site.config("anna").join("id_ed25519.pem");
    let words: Vec<&str> = line.split_whitespace().collect();
    let of = |args: &[&str]| {
        let args = [&["fingerprint"], args].concat();
        key(&site, "nobody", &args, 0).0
    };
    assert_eq!(of(&[line.trim_end()]), own);
    assert_eq!(of(&words), own);
    assert_eq!(of(&[private.to_str().unwrap()]), own);
    assert_eq!(of(&[&file("public")]), own);
    assert_eq!(of(&[&file("hosts")]), own);
    let two = of(&[&file("list")]);
    assert!(
        two.starts_with(&own) && two.lines().count() == 2,
        "{two}{own}"
    );
    // Neither is one, and each is told as what it is.
    fs::write(file("nonsense"), "nonsense\n").unwrap();
    fs::write(file("empty"), "\n").unwrap();
    for (what, code) in [
        (file("none"), 3),
        (file("nonsense"), 2),
        (file("empty"), 2),
        ("howdah-ed25519 AAAA".to_owned(), 2),
    ] {
        key(&site, "nobody", &["fingerprint", &what], code);
    }
}

#[test]
fn o10_the_servers_log_says_who_what_when_and_which_content() {
    let site = Site::new(60);
    let (own, _) = key(&site, "client", &["fingerprint"], 0);
    let own = own.split_whitespace().next().unwrap().to_owned();
    let content = vec![7; 100_000];
    fs::write(site.file("here"), &content).unwrap();
    let hash = blake3(&content);
    let mut server = site.serve();
    let url = server.url("new");
    site.copy(Host::Here, &site.file("here"), &url)
        .assert_copied(100_000, "blake3");
    let line = server.await_line("put \"new\" done", PATIENCE);
    for part in [&*own, "100000 bytes", &*hash] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let stamp = line.split_whitespace().nth(1).unwrap();
    assert!(stamp.parse::<Stamp>().is_ok(), "{line}");
    site.copy(Host::Here, &url, &site.file("back"))
        .assert_copied(100_000, "blake3");
    let line = server.await_line("get \"new\" done", PATIENCE);
    for part in [&*own, "100000 bytes", &*hash] {
        assert!(line.contains(part), "{part}: {line}");
    }
    // Who is turned away can be told from others who are.
    site.make_key("stranger");
    let (strange, _) = key(&site, "stranger", &["fingerprint"], 0);
    let strange = strange.split_whitespace().next().unwrap().to_owned();
    let args = ["cp", "--accept-new", &url, &site.file("no")];
    let done = site.run(Host::Here, "stranger", &args, Input::None);
    assert_ne!(done.code, Some(0));
    let line = server.await_line(&strange, PATIENCE);
    assert!(line.contains("refused"), "{line}");
}

/// A time as `2026-11-25T11:30:00.123Z`.
struct Stamp;

impl std::str::FromStr for Stamp {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let shape: String = text
            .chars()
            .map(|c| if c.is_ascii_digit() { '0' } else { c })
            .collect();
        (shape == "0000-00-00T00:00:00.000Z")
            .then_some(Self)
            .ok_or(())
    }
}

fn blake3(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}
