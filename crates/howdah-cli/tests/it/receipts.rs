//! Receipts: both ends sign what was copied, and anybody can check it later.
#![cfg(target_os = "linux")]

use crate::support::process::{Done, Input};
use crate::support::schema::violations;
use crate::support::sshd::Sshd;
use crate::support::ways::{self, Way};
use crate::support::{Host, Site};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

const USAGE: i32 = 2;
const REFUSED: i32 = 4;
const KEYS: i32 = 7;
const ALTERED: i32 = 10;
const DIFFERENT: i32 = 16;

/// The user that ssh reaches has a key there.
fn give_the_far_user_a_key(site: &Site) {
    let path = site.root(".config/howdah/id_ed25519.pem");
    if !Path::new(&path).exists() {
        let args = ["key", "new", "--identity", &path];
        let done = site.run(Host::Here, "nobody", &args, Input::None);
        assert_eq!(done.code, Some(0), "{}", done.err);
    }
}

fn check(site: &Site, args: &[&str]) -> Done {
    let args = [&["receipt", "check"], args].concat();
    site.run(Host::Here, "stranger", &args, Input::None)
}

fn make_tree(dir: &str) {
    fs::create_dir_all(format!("{dir}/deep/er")).unwrap();
    fs::write(format!("{dir}/a"), "one").unwrap();
    fs::write(format!("{dir}/deep/er/new\nline"), "two").unwrap();
    fs::write(format!("{dir}/deep/empty"), "").unwrap();
    fs::write(
        Path::new(dir).join(OsStr::from_bytes(b"no\xfftext")),
        "three",
    )
    .unwrap();
    symlink("a", format!("{dir}/link")).unwrap();
}

fn lines(done: &Done) -> Vec<String> {
    let out = String::from_utf8_lossy(&done.out);
    out.lines().map(str::to_owned).collect()
}

#[test]
fn both_ends_sign_what_was_copied_and_it_can_be_checked_without_them() {
    ways::every_way(300, |way: &Way<'_>| {
        let site = way.site;
        let receipt = site.file(&format!("{}.receipt", way.what));
        let option = ["cp", "-r", "--receipt", &receipt];
        if way.what == "between" {
            way.fails(USAGE, &option, "x", "y", &["--receipt", "start"]);
            return;
        }
        give_the_far_user_a_key(site);
        site.run(Host::Here, "nobody", &["key", "new"], Input::None);
        make_tree(&(way.source)("run"));
        // Into a directory that is there, and as one that is not.
        fs::create_dir((way.target)("old")).unwrap();
        fs::write(format!("{}/other", (way.target)("old")), "").unwrap();
        for (to, below) in [("old", "old"), ("new", "new")] {
            let done = way.ok(&option, "run", to);
            let told = String::from_utf8_lossy(&done.out).into_owned();
            let told: Vec<Value> = told
                .lines()
                .map(|l| serde_json::from_str(l).unwrap())
                .collect();
            let schema = include_str!("../../../../docs/howdah-events.schema.json");
            let schema: Value = serde_json::from_str(schema).unwrap();
            for event in &told {
                assert_eq!(violations(&schema, event), Vec::<String>::new(), "{event}");
            }
            let told = told
                .iter()
                .find(|event| event["event"] == "receipt")
                .unwrap();
            assert_eq!(told["files"], 4, "{told}");
            let text = fs::read_to_string(&receipt).unwrap();
            let found: Value = serde_json::from_str(&text).unwrap();
            let goes = ["up", "ssh-up"].contains(&way.what);
            let direction = if goes { "to_server" } else { "from_server" };
            assert_eq!(found["statement"]["direction"], direction);
            assert_eq!(found["statement"]["bytes"], 11);
            assert_eq!(found["statement"]["whole"], to == "new", "{text}");
            let is_address = |end: &str| {
                !found["statement"][end]["address"]
                    .as_str()
                    .unwrap()
                    .is_empty()
            };
            assert!(is_address("client") && is_address("server"), "{text}");
            let dir = (way.target)(below);
            let done = check(site, &[&receipt, &dir]);
            assert_eq!(done.code, Some(0), "{}: {}", way.what, done.err);
            assert!(done.out.is_empty(), "{:?}", lines(&done));
            for key in ["client", "server"] {
                assert!(
                    done.err.contains(told[key].as_str().unwrap()),
                    "{}",
                    done.err
                );
            }
        }
        // The source has it, too, by the same names.
        assert_eq!(
            check(site, &[&receipt, &(way.source)("run")]).code,
            Some(0),
            "{}",
            way.what
        );
        // What is changed, gone or new is named.
        let dir = (way.target)("new");
        fs::write(format!("{dir}/a"), "eno").unwrap();
        fs::remove_file(format!("{dir}/deep/empty")).unwrap();
        fs::write(format!("{dir}/deep/er/more"), "").unwrap();
        let done = check(site, &[&receipt, &dir]);
        done.assert_failed(DIFFERENT, &[]);
        let wanted = [
            "differs: contents (first difference within bytes 0..3)  a",
            "missing in B  deep/empty",
            "missing in A  deep/er/more",
        ];
        assert_eq!(lines(&done), wanted);
        let done = check(site, &["--allow-extra", &receipt, &dir]);
        done.assert_failed(DIFFERENT, &[]);
        assert_eq!(lines(&done), wanted[..2]);
        if way.what.starts_with("ssh") {
            // What follows is the same by either way.
            return;
        }
        // A single file under another name; once more, which moves nothing; and as a mirror.
        for args in [
            &["cp", "--receipt", &receipt][..],
            &["cp", "--receipt", &receipt, "--checksum"],
        ] {
            way.ok(args, "run/a", "b");
            let done = check(
                site,
                &[
                    &receipt,
                    Path::new(&(way.target)("b"))
                        .parent()
                        .unwrap()
                        .to_str()
                        .unwrap(),
                ],
            );
            assert_eq!(done.code, Some(0), "{}: {}", way.what, done.err);
        }
        let (from, to) = ((way.from)("run"), (way.to)("mirror"));
        for _ in 0..2 {
            let done = (way.run)(&["sync", "--receipt", &receipt, &from, &to]);
            assert_eq!(done.code, Some(0), "{}: {}", way.what, done.err);
        }
        assert_eq!(
            check(site, &[&receipt, &(way.target)("mirror")]).code,
            Some(0)
        );
    });
}

#[test]
fn a_receipt_that_is_not_what_was_signed_does_not_hold() {
    let site = Site::new(60);
    let server = site.serve();
    let (from, receipt) = (site.file("a"), site.file("a.receipt"));
    fs::write(&from, "one").unwrap();
    let copy = || {
        site.copy_with(
            Host::Here,
            &["--receipt", &receipt, &from, &server.url("a")],
            Input::None,
        )
    };
    assert_eq!(copy().code, Some(0), "{}", copy().err);
    let files = site.file("");
    let key = |who: &str| {
        let done = site.run(Host::Here, who, &["key", "show"], Input::None);
        String::from_utf8(done.out).unwrap().trim().to_owned()
    };
    // Whoever checks knows whom he believes.
    let known = site.config("client").join("known_hosts");
    let signers = [
        "--signer",
        &key("client"),
        "--signer",
        known.to_str().unwrap(),
    ];
    let done = check(
        &site,
        &[&signers[..], &["--allow-extra", &receipt, &files]].concat(),
    );
    assert_eq!(done.code, Some(0), "{}", done.err);
    let done = check(&site, &["--signer", &key("client"), &receipt, &files]);
    done.assert_failed(KEYS, &["not among the keys"]);
    // From standard input.
    let text = fs::read(&receipt).unwrap();
    let args = ["receipt", "check", "-", &files];
    let done = site.run(Host::Here, "stranger", &args, Input::Bytes(text.clone()));
    assert_eq!(done.code, Some(0), "{}", done.err);
    for (from, to) in [
        ("\"bytes\":3,\"path\"", "\"bytes\":4,\"path\""),
        ("\"client\":\"", "\"client\": \""),
        ("to_server", "from_server"),
    ] {
        let text = String::from_utf8(text.clone()).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&receipt, text.replacen(from, to, 1)).unwrap();
        check(&site, &[&receipt, &files]).assert_failed(ALTERED, &["does not hold"]);
    }
    fs::write(&receipt, "{}").unwrap();
    let done = check(&site, &["--json", &receipt, &files]);
    assert_eq!(
        (done.code, done.json_error().as_str()),
        (Some(ALTERED), "integrity")
    );
    server.stop();
}

#[test]
fn who_would_not_sign_says_so_before_anything_is_copied() {
    let site = Site::new(120);
    site.grant("write-only");
    let server = site.serve();
    let (from, receipt) = (site.file("a"), site.file("a.receipt"));
    fs::write(&from, "one").unwrap();
    let copy = |args: &[&str], to: &str| {
        let args = [&["--receipt", &receipt], args, &[&from, to]].concat();
        site.copy_with(Host::Here, &args, Input::None)
    };
    let url = server.url("a");
    copy(&["--update"], &url).assert_failed(USAGE, &["--receipt", "--update"]);
    copy(&["--manifest", &site.file("m")], &url).assert_failed(USAGE, &["--manifest"]);
    copy(&["--dry-run"], &url).assert_failed(USAGE, &["--dry-run"]);
    copy(&[], &url).assert_failed(REFUSED, &["may write here and not read"]);
    if let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") {
        let ssh = sshd.ssh();
        let copy = |who: &str| {
            let args = [
                "cp",
                "--json",
                "--ssh",
                &ssh,
                "--receipt",
                &receipt,
                &from,
                "far:a",
            ];
            site.run(Host::Here, who, &args, Input::None)
        };
        copy("nobody").assert_failed(KEYS, &["howdah key new"]);
        copy("client").assert_failed(REFUSED, &["no key of its own", "howdah key new"]);
    }
    assert!(!Path::new(&site.root("a")).exists() && !Path::new(&receipt).exists());
    server.stop();
}
