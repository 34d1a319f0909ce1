//! Long requests: many names, long lists, many rules, between any two places.
#![cfg(target_os = "linux")]

use crate::support::process::{Done, Input};
use crate::support::random::SplitMix;
use crate::support::sshd::Sshd;
use crate::support::{Host, Site};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

const USAGE: i32 = 2;
const PARTIAL: i32 = 6;

fn copy(site: &Site, args: &[&str]) -> Done {
    site.copy_with(Host::Here, args, Input::None)
}

fn count(dir: &str) -> usize {
    fs::read_dir(dir).unwrap().count()
}

/// Names of 40 bytes.
fn name(number: usize) -> String {
    format!("{number:06}-a-name-that-is-neither-short-nor-long")
}

/// A list of those of a million names that are there, and of others that have no order, as hashes have none.
fn a_million(there: usize) -> String {
    let mut list = String::new();
    let mut random = SplitMix(1);
    for number in 0..1_000_000 {
        if number < there {
            writeln!(list, "{}", name(number)).unwrap();
        } else {
            let [a, b, c] = [(); 3].map(|()| random.next());
            writeln!(list, "{a:016x}{b:016x}{:08x}", c >> 32).unwrap();
        }
    }
    list
}

#[test]
fn t01_thousands_of_names_and_long_lists_come_from_one_host() {
    /// What a side takes at most; a development build has 2.7 MB more of its own (memory.rs).
    const MOST: u64 = if cfg!(debug_assertions) {
        51 << 20
    } else {
        48 << 20
    };
    let site = Site::new(300);
    let server = site.serve();
    fs::create_dir(site.root("s")).unwrap();
    for number in 0..3000 {
        fs::write(site.root(&format!("s/{}", name(number))), "x").unwrap();
    }
    fs::create_dir(site.file("d")).unwrap();
    let sources: Vec<_> = (0..3000)
        .map(|n| server.url(&format!("s/{}", name(n))))
        .collect();
    let to = site.file("d");
    let args: Vec<_> = sources.iter().chain([&to]).map(|s| &**s).collect();
    let done = copy(&site, &args);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(count(&to), 3000);
    fs::remove_dir_all(&to).unwrap();

    // Names and a list together; and one that names what is not there, a million times.
    let mut list = String::new();
    for number in 0..900 {
        writeln!(list, "{}", name(number)).unwrap();
    }
    fs::write(site.file("list"), &list).unwrap();
    let (from, list_file) = (server.url("s"), site.file("list"));
    let sync = |files: &str, from: &str, to: &str| {
        let args = [
            "sync",
            "--accept-new",
            "--json",
            "--files-from",
            files,
            from,
            to,
        ];
        site.run(Host::Here, "client", &args, Input::None)
    };
    let done = sync(&list_file, &from, &to);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(count(&to), 900);

    fs::write(site.file("list"), a_million(3000)).unwrap();
    for (from, to) in [
        (from.clone(), site.file("got")),
        (site.root("s"), server.url("put")),
    ] {
        let done = sync(&list_file, &from, &to);
        done.assert_failed(PARTIAL, &["is in the list of files and does not exist"]);
        let summary = done.json();
        assert_eq!(summary["tree"]["failed"], 997_000, "{summary}");
        for side in ["sender", "receiver"] {
            let peak = summary[side]["peak_rss_bytes"].as_u64().unwrap();
            println!("{from} to {to}, {side}: {peak} bytes");
            assert!(peak < MOST, "{from} to {to}, {side}: {} MiB", peak >> 20);
        }
    }
    assert_eq!(
        (count(&site.file("got")), count(&site.root("put"))),
        (3000, 3000)
    );
    server.stop();
}

#[test]
fn t01_what_is_beyond_a_limit_is_told_before_anything_is_sent() {
    let site = Site::new(60);
    let nobody = "howdah://127.0.0.1:9/x";
    let long = "x".repeat(100_000);
    fs::create_dir(site.file("s")).unwrap();
    fs::write(site.file("list"), &long).unwrap();
    for (from, to) in [
        (site.file("s"), nobody.to_owned()),
        (nobody.to_owned(), site.file("d")),
    ] {
        let args = ["-r", "--exclude", &long, &from, &to];
        copy(&site, &args).assert_failed(USAGE, &["100000 bytes", "32768"]);
    }
    let args = [
        "-r",
        "--files-from",
        &site.file("list"),
        nobody,
        &site.file("d"),
    ];
    copy(&site, &args).assert_failed(USAGE, &["path of 100000 bytes"]);
}

#[test]
fn t06_lists_and_rules_go_between_two_other_machines() {
    let site = Site::new(120);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    fs::create_dir(site.root("s")).unwrap();
    let mut list = String::new();
    for number in 0..2000 {
        fs::write(site.root(&format!("s/{}", name(number))), "x").unwrap();
        if number % 2 == 0 {
            writeln!(list, "{}", name(number)).unwrap();
        }
    }
    fs::write(site.file("list"), list).unwrap();
    let ssh = sshd.ssh();
    let sync = |more: &[&str]| {
        let args = [&["sync", "--json", "--ssh", &ssh], more].concat();
        site.run(Host::Here, "nobody", &args, Input::None)
    };
    let done = sync(&["--files-from", &site.file("list"), "far:s", "far2:d"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(count(&site.root("d")), 1000);

    let rules: Vec<_> = (0..1000)
        .map(|n| format!("--exclude={}", name(n)))
        .collect();
    let mut args: Vec<_> = rules.iter().map(|rule| &**rule).collect();
    args.extend(["far:s", "far2:e"]);
    let done = sync(&args);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(count(&site.root("e")), 1000);
    // And to here and from here.
    let (here, last) = (site.file("here"), args.len() - 1);
    args[last] = &here;
    assert_eq!(sync(&args).code, Some(0));
    assert_eq!(count(&here), 1000);
    args[last - 1] = &here;
    args[last] = "far:f";
    assert_eq!(sync(&args).code, Some(0));
    assert!(!fs::exists(site.root(&format!("f/{}", name(0)))).unwrap());
}

/// Peak memory of a process, in bytes; it is waited for, and its end is left to whoever started it.
fn peak(pid: Pid) -> u64 {
    let end = pidfd_open(pid, PidfdFlags::empty()).unwrap();
    let soon = Timespec::try_from(Duration::from_millis(10)).unwrap();
    let mut peak = 0;
    loop {
        // Gone, once it has ended; it only grows before.
        let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        peak = peak.max(kib.map_or(0, |kib| kib.parse::<u64>().unwrap() << 10));
        if poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&soon)).unwrap() > 0 {
            return peak;
        }
    }
}

#[test]
fn t06_a_million_names_go_between_two_other_machines_in_little_memory() {
    const MOST: u64 = 48 << 20;
    let site = Site::new(300);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    fs::create_dir(site.root("s")).unwrap();
    for number in 0..1000 {
        fs::write(site.root(&format!("s/{}", name(number))), "x").unwrap();
    }
    fs::write(site.file("list"), a_million(1000)).unwrap();
    let (list, ssh) = (site.file("list"), sshd.ssh());
    let args = [
        "sync",
        "--json",
        "--ssh",
        &ssh,
        "--files-from",
        &list,
        "far:s",
        "far2:d",
    ];
    let process = site.start(Host::Here, "nobody", &args, Input::None);
    let near = peak(process.pid());
    let done = process.finish();
    assert_eq!(done.code, Some(PARTIAL), "{}", done.err);
    assert_eq!(count(&site.root("d")), 1000);
    let summary = done.json();
    let side = |side: &str| summary[side]["peak_rss_bytes"].as_u64().unwrap();
    let peaks = [near, side("sender"), side("receiver")];
    println!("here, sender, receiver: {peaks:?} bytes");
    assert!(
        peaks.iter().all(|&peak| 0 < peak && peak < MOST),
        "{peaks:?}"
    );
}

/// As somebody makes it with `find . > rules`, and some that have wildcards.
#[test]
fn t06_half_a_million_rules_go_between_any_two_places() {
    const MOST: u64 = 96 << 20;
    let site = Site::new(300);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let server = site.serve();
    fs::create_dir_all(site.root("s/dir")).unwrap();
    for number in 0..1000 {
        fs::write(site.root(&format!("s/dir/{}", name(number))), "x").unwrap();
    }
    let mut rules = format!("+ {}\n+ /dir/0000??-*\n", name(200));
    for number in 100..500_000 {
        writeln!(rules, "./dir/{}", name(number)).unwrap();
    }
    fs::write(site.file("rules"), rules).unwrap();
    let (rules, ssh) = (site.file("rules"), sshd.ssh());
    let (here, there) = (site.root("s"), server.url("s"));
    for (at, (from, to)) in [
        ("far:s".to_owned(), "far2:d".to_owned()),
        (here.clone(), server.url("e")),
        (there, site.file("f")),
        (here, "far:g".to_owned()),
        ("far:s".to_owned(), site.file("h")),
    ]
    .into_iter()
    .enumerate()
    {
        let args = [
            "sync",
            "--json",
            "--accept-new",
            "--ssh",
            &ssh,
            "--exclude-from",
            &rules,
            &from,
            &to,
        ];
        let process = site.start(Host::Here, "client", &args, Input::None);
        let near = peak(process.pid());
        let done = process.finish();
        assert_eq!(done.code, Some(0), "{from} {to}: {}", done.err);
        let dirs = [
            site.root("d"),
            site.root("e"),
            site.file("f"),
            site.root("g"),
            site.file("h"),
        ];
        assert_eq!(count(&format!("{}/dir", dirs[at])), 101, "{from} {to}");
        let summary = done.json();
        let side = |side: &str| summary[side]["peak_rss_bytes"].as_u64().unwrap();
        let peaks = [near, side("sender"), side("receiver")];
        let mib = peaks.map(|peak| peak >> 20);
        println!("{from} {to}: {mib:?} MiB");
        assert!(
            peaks.iter().all(|&peak| peak < MOST),
            "{from} {to}: {mib:?}"
        );
    }
    server.stop();
}

#[test]
fn t01_rules_beyond_what_is_possible_are_told_before_anything_is_sent() {
    let site = Site::new(60);
    let nobody = "howdah://127.0.0.1:9/x";
    let (here, rules) = (site.file("s"), site.file("rules"));
    fs::create_dir(&here).unwrap();
    let mut wild = String::new();
    for number in 0..30_000 {
        writeln!(wild, "wild-{number}-*").unwrap();
    }
    let mut many = String::new();
    for number in 0..2_000_000 {
        writeln!(many, "{}", name(number)).unwrap();
    }
    for (text, words) in [
        (wild, ["256 KiB", "wildcards"]),
        (many, ["more than the 128", "copy in parts"]),
        ("a\nb[\n".to_owned(), ["\"b[\"", "pattern"]),
        ("/\n".to_owned(), ["\"/\"", "empty"]),
    ] {
        fs::write(&rules, text).unwrap();
        for (from, to) in [
            (&*here, nobody),
            (nobody, &here),
            ("a:x", "b:y"),
            (&here, "a:x"),
        ] {
            for what in [&["sync"][..], &["cp", "-r"]] {
                let rest = ["--ssh", "false", "--exclude-from", &rules, from, to];
                let done = site.run(Host::Here, "client", &[what, &rest].concat(), Input::None);
                done.assert_failed(USAGE, &words);
            }
        }
        let verify = ["verify", "--exclude-from", &rules, &here, nobody];
        let done = site.run(Host::Here, "client", &verify, Input::None);
        done.assert_failed(USAGE, &words);
    }
}

#[test]
fn t23_rules_may_name_what_is_below_the_source_by_its_whole_path() {
    let site = Site::new(60);
    let server = site.serve();
    for base in [site.file("s"), site.root("s")] {
        fs::create_dir_all(format!("{base}/build/deep")).unwrap();
        fs::create_dir_all(format!("{base}/sub/build")).unwrap();
        fs::write(format!("{base}/build/deep/x"), "x").unwrap();
        fs::write(format!("{base}/sub/build/x"), "x").unwrap();
    }
    let here = site.file("s");
    for rule in [
        format!("{here}/build"),
        "./build".to_owned(),
        "/build/".to_owned(),
    ] {
        let args = [
            "sync",
            "--accept-new",
            "--exclude",
            &rule,
            &here,
            &server.url("d"),
        ];
        let done = site.run(Host::Here, "client", &args, Input::None);
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert!(!fs::exists(site.root("d/build")).unwrap(), "{rule}");
        assert!(fs::exists(site.root("d/sub/build/x")).unwrap(), "{rule}");
        fs::remove_dir_all(site.root("d")).unwrap();
    }
    server.stop();
}

/// It was said not to exist.
#[test]
fn t67_what_a_list_names_behind_a_link_is_told_as_such() {
    let site = Site::new(60);
    let server = site.serve();
    for dir in [site.file("s"), site.root("s")] {
        fs::create_dir_all(format!("{dir}/d")).unwrap();
        fs::write(format!("{dir}/d/f"), "x").unwrap();
        std::os::unix::fs::symlink("d", format!("{dir}/link")).unwrap();
    }
    let list = site.file("list");
    fs::write(&list, "link/f\nd/none\n").unwrap();
    let behind = r#""link/f": is in the list of files and lies behind the symbolic link "link": -L follows it"#;
    let none = r#""d/none": is in the list of files and does not exist"#;
    let ways = [
        (site.file("s/"), server.url("up")),
        (server.url("s/"), site.file("down")),
    ];
    for (from, to) in ways {
        let copy = |more: &[&str]| {
            let args = [
                &["sync", "--accept-new", "--files-from", &list],
                more,
                &[&from, &to],
            ];
            site.run(Host::Here, "client", &args.concat(), Input::None)
        };
        copy(&[]).assert_failed(PARTIAL, &[behind, none]);
        copy(&["-L"]).assert_failed(PARTIAL, &[none]);
    }
    // What is copied by its name is listed with it.
    fs::write(&list, "s/link/f\n").unwrap();
    let copy = [
        "cp",
        "-r",
        "--accept-new",
        "--files-from",
        &list,
        &site.file("s"),
        &server.url(""),
    ];
    let done = site.run(Host::Here, "client", &copy, Input::None);
    done.assert_failed(
        PARTIAL,
        &[r#""s/link/f": is in the list of files and lies behind the symbolic link "s/link""#],
    );
    for got in [site.root("up"), site.file("down")] {
        assert_eq!(fs::read(format!("{got}/link/f")).unwrap(), b"x");
    }
    server.stop();
}

#[test]
fn n9_flags_that_clash_are_both_named() {
    let site = Site::new(20);
    let to = "howdah://127.0.0.1:9/x";
    let args = ["sync", "--delete", "--files-from", "list", ".", to];
    let done = site.run(Host::Here, "client", &args, Input::None);
    done.assert_failed(USAGE, &["--delete", "--files-from"]);
    assert!(!done.err.contains("there is no"), "{}", done.err);
    // What depends on more than two flags; all that clashes is in the table of the command line's own tests.
    for (args, parts) in [
        (
            &["cp", "-r", "--ignore-existing", "--checksum", ".", to][..],
            ["--ignore-existing", "--checksum"],
        ),
        (
            &["cp", "--policy", "fair", "--rate", "1gbit", ".", to],
            ["--rate", "--policy fair"],
        ),
        (
            &["cp", "--exclude", "x", "-", to],
            ["--exclude", "- is none"],
        ),
        (
            &["verify", "--port", "5000", ".", to],
            ["--port", "howdah://HOST:PORT"],
        ),
        (
            &["sync", "--trace", "x", "--record", "x", ".", to],
            ["--trace", "--record"],
        ),
    ] {
        let done = site.run(Host::Here, "client", args, Input::None);
        done.assert_failed(USAGE, &parts);
        assert_eq!(done.err.lines().count(), 1, "{}", done.err);
    }
    let args = ["cp", "--json", "--include", "*.c", "-r", ".", to];
    let done = site.run(Host::Here, "client", &args, Input::None);
    done.assert_failed(USAGE, &["--include without --exclude"]);
    assert_eq!(done.json()["error"]["kind"], "usage", "{}", done.err);
}

/// What never ends is no list, and is not read until memory ends.
#[test]
fn a41_lists_and_rules_without_end_are_refused() {
    let site = Site::new(60);
    fs::create_dir(site.file("s")).unwrap();
    for flag in ["--files-from", "--exclude-from", "--include-from"] {
        let args = [
            "cp",
            "-r",
            flag,
            "/dev/zero",
            &site.file("s"),
            "howdah://127.0.0.1:1/d",
        ];
        let done = site.run(Host::Here, "client", &args, Input::None);
        assert_eq!(done.code, Some(2), "{flag}: {}", done.err);
        assert!(
            done.err.contains("cannot read the list /dev/zero"),
            "{}",
            done.err
        );
    }
}
