//! Standard streams that are closed or full, and what `--json` says when nothing was begun.
#![cfg(target_os = "linux")]

use crate::support::process::{Done, Input, Process};
use crate::support::schema::violations;
use crate::support::{Host, Site};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs a line of the shell in which `$H` is howdah, with the keys of `client`.
fn shell(site: &Site, line: &str) -> Done {
    let mut command = Command::new("sh");
    command
        .args(["-c", line])
        .env("H", env!("CARGO_BIN_EXE_howdah"))
        .env("HOWDAH_CONFIG_DIR", site.config("client"))
        .env("XDG_RUNTIME_DIR", site.run_dir())
        .env("HOWDAH_RECONNECT", "0")
        .env("HOWDAH_ACCEPT_NEW", "true")
        .env("HOWDAH_DIE_WITH_PARENT", "1");
    Process::start(command, Input::None, site.limit()).finish()
}

#[test]
fn n8_closed_and_full_standard_streams_are_errors_and_dev_null_is_none() {
    let site = Site::new(120);
    let server = site.serve();
    fs::write(site.root("f"), "content").unwrap();
    fs::create_dir(site.file("s")).unwrap();
    fs::write(site.file("s/new"), "new").unwrap();
    let (f, d, s) = (server.url("f"), server.url("d"), site.file("s"));
    let lines = [
        format!("cp {f} -"),
        format!("sync -n {s} {d}"),
        format!("sync -n --json {s} {d}"),
        format!("cp --json {f} {s}/got"),
        format!("verify {s} {d}"),
        format!("verify --json {s} {d}"),
        "key show".to_owned(),
        "--version".to_owned(),
        "cp --help".to_owned(),
        "completions bash".to_owned(),
        "config show".to_owned(),
    ];
    fs::create_dir(site.root("d")).unwrap();
    for line in &lines {
        let verify = line.starts_with("verify");
        let fine = if verify { 15 } else { 0 };
        for (to, code) in [
            (">/dev/null", fine),
            // As Python's DEVNULL is.
            ("<>/dev/null >&0", fine),
            (">&-", 1),
            (">/dev/full", 1),
            (">&- 2>&-", 1),
        ] {
            let done = shell(&site, &format!("exec $H {line} {to}"));
            let full_disk = to == ">/dev/full" && line.ends_with(" -");
            let code = if full_disk { 11 } else { code };
            assert_eq!(done.code, Some(code), "{line} {to}: {}", done.err);
            if code == 1 && !to.contains("2>") {
                let said = done.err.contains("standard output");
                assert!(said, "{line} {to}: {}", done.err);
            }
        }
        // A reader that has seen enough is no failure.
        let done = shell(&site, &format!("$H {line} | true; exit ${{PIPESTATUS:-0}}"));
        assert_eq!(done.code, Some(0), "{line}: {}", done.err);
    }
    let done = shell(&site, &format!("exec $H cp - {d}/x <&-"));
    done.assert_failed(1, &["standard input is closed"]);
    assert!(!fs::exists(site.root("d/x")).unwrap());
    let done = shell(&site, &format!("exec $H sync --files-from - {s} {d} <&-"));
    done.assert_failed(1, &["standard input is closed"]);
    server.stop();
}

#[test]
fn o7_json_ends_with_the_error_whatever_is_wrong() {
    let site = Site::new(60);
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../../../docs/howdah-events.schema.json")).unwrap();
    fs::write(site.file("bad.toml"), "limit = 7\n").unwrap();
    let bad = site.file("bad.toml");
    for line in [
        "cp --json".to_owned(),
        "cp --json --nonsense a howdah://127.0.0.1:9/b".to_owned(),
        "cp --json --rsh x a howdah://127.0.0.1:9/b".to_owned(),
        "sync --json --max-delete 3 a howdah://127.0.0.1:9/b".to_owned(),
        "cp --json --limit 12 a howdah://127.0.0.1:9/b".to_owned(),
        "verify --json a b c".to_owned(),
        "cp --json a b".to_owned(),
    ] {
        for prefix in [
            "",
            "HOWDAH_LIMIT=nonsense ",
            &format!("HOWDAH_CONFIG={bad} "),
        ] {
            let done = shell(&site, &format!("{prefix}$H {line}"));
            assert_eq!(done.code, Some(2), "{prefix}{line}: {}", done.err);
            let out = String::from_utf8(done.out).unwrap();
            let last = out
                .lines()
                .last()
                .unwrap_or_else(|| panic!("{prefix}{line}: nothing"));
            let event: serde_json::Value = serde_json::from_str(last).unwrap();
            assert_eq!(violations(&schema, &event), Vec::<String>::new(), "{last}");
            assert_eq!(event["error"]["kind"], "usage", "{last}");
            if line == "cp --json" && prefix.is_empty() {
                let message = event["error"]["message"].as_str().unwrap();
                assert!(message.contains("<DST>"), "{message}");
            }
        }
    }
    // Those that print one object.
    for line in [
        "bench --json howdah://127.0.0.1:9",
        "finish --json nothing",
        "plan --json howdah://127.0.0.1:9/a b -o plan",
    ] {
        let done = shell(&site, &format!("$H {line}"));
        assert!(!matches!(done.code, None | Some(0)), "{line}: {}", done.err);
        let out = String::from_utf8(done.out).unwrap();
        let last = out
            .lines()
            .last()
            .unwrap_or_else(|| panic!("{line}: nothing"));
        let object: serde_json::Value = serde_json::from_str(last).unwrap();
        assert!(object["error"]["kind"].is_string(), "{line}: {last}");
    }
    // Where standard output is for data, it stays empty.
    let done = shell(&site, "$H cp --json --nonsense howdah://127.0.0.1:9/b -");
    assert!(
        done.out.is_empty() && done.err.contains("\"usage\""),
        "{}",
        done.err
    );
}

/// A program that cannot say what is wrong still ends with the code of it.
#[test]
fn n8_what_is_wrong_with_arguments_has_its_code_where_nobody_can_be_told() {
    let site = Site::new(30);
    for line in ["cp --bogus", "cp", "cp --json --bogus -", "bogus"] {
        for to in ["2>/dev/full", "2>&-", ">/dev/full 2>/dev/full"] {
            let done = shell(&site, &format!("exec $H {line} {to}"));
            assert_eq!(done.code, Some(2), "{line} {to}");
        }
    }
}

/// The copy is right all the same; who relies on the log hears of it, and once.
#[test]
fn n8_a_log_that_lacks_lines_is_told_of_once() {
    let site = Site::new(60);
    let server = site.serve();
    fs::create_dir(site.root("d")).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(site.root(&format!("d/{name}")), name).unwrap();
    }
    let (url, got) = (server.url("d"), site.file("got"));
    let line = format!("exec $H cp -r --each-file --log-file /dev/full {url} {got}");
    let done = shell(&site, &line);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let told = done.err.matches("the log /dev/full lacks lines").count();
    assert_eq!(told, 1, "{}", done.err);
    server.stop();
}

/// `--trace a a SERVER:` is one word too many, and was a source of no bytes, "verified".
#[test]
fn n8_no_file_beside_a_copy_is_written_over_what_is_copied() {
    let site = Site::new(120);
    let server = site.serve();
    let (source, tree) = (site.file("s"), site.file("tree"));
    fs::create_dir_all(site.file("tree/below")).unwrap();
    fs::create_dir(site.file("into")).unwrap();
    for path in [&source, &site.file("tree/below/in"), &site.root("there")] {
        fs::write(path, "what must not be lost").unwrap();
    }
    let other_name = site.file("other-name");
    fs::hard_link(&source, &other_name).unwrap();
    let (to, there) = (server.url("d"), server.url("there"));
    let (got, into) = (site.file("got"), site.file("into"));
    let in_into = site.file("into/there");
    let inside = site.file("tree/below/in");
    let content = |path: &str| fs::read_to_string(path).unwrap();
    for flag in ["--trace", "--record", "--log-file"] {
        let same: [&[&str]; 5] = [
            &["cp", flag, &source, &source, &to],
            &["cp", flag, &other_name, &source, &to],
            &["cp", flag, &got, &there, &got],
            &["cp", flag, &in_into, &there, &into],
            &["sync", flag, &tree, &tree, &to],
        ];
        for args in same {
            // A directory is none in any case.
            let names_tree = args.contains(&&*tree);
            if names_tree && flag == "--log-file" {
                continue;
            }
            let done = site.run(Host::Here, "client", args, Input::None);
            done.assert_failed(2, &[flag]);
        }
        // Not one of the places, and nothing of ours.
        for args in [
            &["cp", "-r", flag, &inside, &tree, &to][..],
            &["sync", flag, &inside, &tree, &to],
        ] {
            let done = site.run(Host::Here, "client", args, Input::None);
            done.assert_failed(2, &[flag, "another kind of file"]);
        }
        assert_eq!(content(&source), "what must not be lost");
        assert_eq!(content(&inside), "what must not be lost");
        assert!(!Path::new(&got).exists() && !Path::new(&in_into).exists());
        assert!(!Path::new(&site.root("d")).exists(), "it was copied");
        // Its own it writes anew.
        let own = site.file(&format!("own{flag}"));
        for _ in 0..2 {
            let null = server.url("null:");
            let args = [
                "cp",
                "--accept-new",
                "--limit",
                "8mbit",
                flag,
                &own,
                "zero:400kB",
                &null,
            ];
            let done = site.run(Host::Here, "client", &args, Input::None);
            assert_eq!(done.code, Some(0), "{}", done.err);
        }
        assert!(fs::metadata(&own).unwrap().len() > 0);
        // Also in a tree that goes with it.
        let in_tree = site.file(&format!("tree/own{flag}"));
        fs::copy(&own, &in_tree).unwrap();
        let all = server.url(&format!("all{flag}"));
        let args = ["cp", "-r", "--accept-new", flag, &in_tree, &tree, &all];
        let done = site.run(Host::Here, "client", &args, Input::None);
        assert_ne!(done.code, Some(2), "{}", done.err);
        fs::remove_file(&in_tree).unwrap();
        let nowhere = site.file("no/such");
        let args = ["cp", flag, &nowhere, &source, &to];
        let done = site.run(Host::Here, "client", &args, Input::None);
        done.assert_failed(4, &[&nowhere]);
    }
}

#[test]
fn n8_a_copy_that_fails_beside_a_full_disk_under_its_trace_is_not_done() {
    let site = Site::new(60);
    let server = site.serve();
    let line = format!(
        "$H cp --trace /dev/full {} {}",
        server.url("none"),
        site.file("x")
    );
    let done = shell(&site, &line);
    assert_eq!(done.code, Some(3), "{}", done.err);
    assert!(!done.err.contains("is done"), "{}", done.err);
    let line = format!(
        "$H cp --limit 8mbit --trace /dev/full zero:400kB {}",
        server.url("null:")
    );
    let done = shell(&site, &line);
    assert_eq!(done.code, Some(11), "{}", done.err);
    assert!(
        done.err
            .contains("the copy is done, and cannot write the trace /dev/full"),
        "{}",
        done.err
    );
}
