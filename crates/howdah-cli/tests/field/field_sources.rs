//! What a source is: what reading gives, not what its file system says.
#![cfg(target_os = "linux")]

use crate::support::place::content;
use crate::support::process::Input;
use crate::support::relay::{Fate, Relay, Way};
use crate::support::{Host, Site};
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::os::unix::fs::PermissionsExt as _;

const DIFFERENT: i32 = 15;
const CHANGED: i32 = 13;

/// Files whose size is told as 0 or as a page, and that hold something else; they do not change meanwhile.
const GENERATED: [&str; 4] = [
    "/proc/version",
    "/proc/sys/kernel/ostype",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/notes",
];

#[test]
fn t05_a_source_is_what_reading_gives() {
    let site = Site::new(240);
    // Below the root of all, so that it can be fetched from, too.
    let server = site.serve_at(Host::Here, "127.0.0.1:0", "/");
    let mut tried = 0;
    for path in GENERATED {
        let Ok(content) = fs::read(path) else {
            println!("skipped: no {path} here");
            continue;
        };
        let told = fs::metadata(path).unwrap().len();
        if told == content.len() as u64 {
            println!("skipped: {path} is as large as it says");
            continue;
        }
        tried += 1;
        let mode = fs::metadata(path).unwrap().permissions().mode();
        let there = site.root("keep");
        let url = |path: &str| format!("howdah://{}{path}", server.address);
        for (way, from, to) in [
            ("put", path.to_owned(), url(&there)),
            ("get", url(path), there.clone()),
        ] {
            for options in [&["cp", "--json"][..], &["cp", "--json", "-r"]] {
                // One of a run before may be closed to its owner.
                let _ = fs::remove_file(&there);
                fs::write(&there, "precious").unwrap();
                fs::set_permissions(&there, fs::Permissions::from_mode(0o600)).unwrap();
                let args = [options, &["--accept-new", &*from, &*to]].concat();
                let done = site.run(Host::Here, "client", &args, Input::None);
                assert_eq!(done.code, Some(0), "{way} {options:?} {path}: {}", done.err);
                assert_eq!(
                    fs::read(&there).unwrap(),
                    content,
                    "{way} {options:?} {path}"
                );
                if options.len() == 2 {
                    assert_eq!(done.json()["bytes"], content.len(), "{}", done.json());
                    assert_eq!(done.json()["verified"], "blake3");
                }
                // What is compared is what reading gives, too.
                if options.len() == 2 {
                    let args = ["verify", "--accept-new", path, &url(&there)];
                    let verify = || site.run(Host::Here, "client", &args, Input::None).code;
                    assert_eq!(verify(), Some(0), "{way} {path}");
                    let other = content.iter().map(|byte| byte ^ 1);
                    fs::write(&there, other.collect::<Vec<_>>()).unwrap();
                    assert_eq!(verify(), Some(DIFFERENT), "{way} {path}");
                }
                fs::remove_file(&there).unwrap();
                // A new one is not read by more people than the source.
                let done = site.run(Host::Here, "client", &args, Input::None);
                assert_eq!(done.code, Some(0), "{}", done.err);
                let new = fs::metadata(&there).unwrap().permissions().mode();
                assert_eq!(new & 0o777 & !mode, 0, "{way} {options:?} {path}");
            }
        }
        let args = ["cp", "--accept-new", &*url(path), "-"];
        let done = site.run(Host::Here, "client", &args, Input::None);
        assert_eq!(
            (done.code, done.out),
            (Some(0), content),
            "{path}: {}",
            done.err
        );
    }
    assert!(tried > 0);
    server.stop();
}

/// What cannot be read is no empty file, whatever size it is said to have.
#[test]
fn t05_what_cannot_be_read_is_named_and_replaces_nothing() {
    let site = Site::new(240);
    let server = site.serve_at(Host::Here, "127.0.0.1:0", "/");
    let (here, there) = (site.file("keep"), site.root("keep"));
    let url = |path: &str| format!("howdah://{}{path}", server.address);
    // Whoever opens it has nothing at its beginning.
    let path = "/proc/self/mem";
    assert!(fs::read(path).is_err());
    for (from, to, keep) in [
        (path.to_owned(), url(&there), &there),
        (url(path), here.clone(), &here),
    ] {
        for options in [&["cp"][..], &["cp", "-r"], &["cp", "-p"]] {
            fs::write(keep, "precious").unwrap();
            let args = [options, &["--accept-new", &*from, &*to]].concat();
            let done = site.run(Host::Here, "client", &args, Input::None);
            assert!(done.code != Some(0), "{args:?}");
            assert!(done.err.contains("mem\""), "{args:?}: {}", done.err);
            assert_eq!(fs::read_to_string(keep).unwrap(), "precious", "{args:?}");
        }
    }
    server.stop();
}

/// A file is read ahead and hashed, and what is sent is read once more: what somebody wrote in between arrives otherwise than it was hashed.
/// That is a source that has changed, and nothing that was wrong on the way.
#[test]
fn what_is_written_over_before_it_is_sent_has_changed() {
    const SIZE: usize = 24 << 20;
    let site = Site::new(240);
    let server = site.serve();
    for (way, options) in [
        (Way::ToServer, &[][..]),
        (Way::ToClient, &[]),
        (Way::ToServer, &["-r"]),
        (Way::ToClient, &["-r"]),
    ] {
        let name = format!("{way:?}{}", options.concat());
        let (here, there) = (site.file(&name), site.root(&name));
        let (source, target) = match way {
            Way::ToServer => (here, there),
            Way::ToClient => (there, here),
        };
        fs::write(&source, content("image", SIZE)).unwrap();
        let path = source.clone();
        let mut came = 0;
        let relay = Relay::start(server.address, move |to, datagram| {
            let before = came;
            came += if to == way { datagram.len() } else { 0 };
            // Not more than what is on its way has been sent by then.
            if before < 2 << 20 && came >= 2 << 20 {
                let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
                file.write_all_at(&vec![0; 1 << 20], 20 << 20).unwrap();
            }
            Fate::pass(datagram)
        });
        let copy = |url: String| {
            let (from, to) = match way {
                Way::ToServer => (source.clone(), url),
                Way::ToClient => (url, target.clone()),
            };
            let args = ["cp", "--accept-new", "--limit", "60mbit", &from, &to];
            site.run(
                Host::Here,
                "client",
                &[&args[..], options].concat(),
                Input::None,
            )
        };
        let done = copy(relay.url(&name));
        done.assert_failed(CHANGED, &[&name, "changed while it was read"]);
        assert!(!std::path::Path::new(&target).exists(), "{name}");
        // And then it comes.
        let done = copy(server.url(&name));
        assert_eq!(done.code, Some(0), "{name}: {}", done.err);
        assert!(fs::read(&target).unwrap() == fs::read(&source).unwrap());
    }
    server.stop();
}
