//! What a source is: what reading gives, not what its file system says.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use support::process::Input;
use support::{Host, Site};

/// Files whose size is told as 0 or as a page, and that hold something else; they do not change meanwhile.
const GENERATED: [&str; 4] = [
    "/proc/version",
    "/proc/sys/kernel/ostype",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/notes",
];

#[test]
fn t05_a_source_is_what_reading_gives() {
    let site = Site::new(60);
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
