//! Watched directories: each file is copied when it is complete, once, whatever becomes of the daemon.
#![cfg(target_os = "linux")]

use crate::support::Site;
use crate::support::place::content;
use crate::support::process::{Server, ok};
use crate::support::random::SplitMix;
use crate::support::service::Service;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_mins(2);

#[track_caller]
fn until<T: std::fmt::Debug>(look: impl Fn() -> T, wanted: impl Fn(&T) -> bool) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        let found = look();
        if wanted(&found) {
            return found;
        }
        assert!(Instant::now() < end, "{found:?}");
    }
}

fn jobs(service: &Service<'_>) -> Vec<Value> {
    let out = ok(&service.job(&["list", "--json"]));
    out.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// All jobs are over, and well.
#[track_caller]
fn all_done(service: &Service<'_>) {
    let over = until(
        || jobs(service),
        |jobs| {
            jobs.iter().all(|job| {
                ["done", "failed", "cancelled"].contains(&job["state"].as_str().unwrap())
            })
        },
    );
    assert!(over.iter().all(|job| job["state"] == "done"), "{over:?}");
}

/// How often each file was told of as copied, over all jobs.
fn copied(service: &Service<'_>) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for job in jobs(service) {
        let log = ok(&service.job(&["log", &job["id"].to_string()]));
        for line in log.lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            if event["event"] == "file" {
                *found
                    .entry(event["name"].as_str().unwrap().to_owned())
                    .or_default() += 1;
            }
        }
    }
    found
}

struct Watched {
    from: PathBuf,
    to: PathBuf,
    id: String,
}

fn watch(site: &Site, server: &Server, service: &Service<'_>, quiet: &str) -> Watched {
    let from = PathBuf::from(site.file("out"));
    fs::create_dir(&from).unwrap();
    fs::create_dir(site.root("in")).unwrap();
    let to = server.url("in");
    let add = [
        "watch",
        "add",
        from.to_str().unwrap(),
        "--quiet",
        quiet,
        "--label",
        "seen",
        "--deadline",
        "1d",
        "--",
        "cp",
        "--accept-new",
        "--each-file",
        &to,
    ];
    let id = ok(&service.ask(&add));
    Watched {
        from,
        to: PathBuf::from(site.root("in")),
        id,
    }
}

#[test]
fn a_file_is_copied_when_it_is_quiet_or_renamed_into_place_and_once() {
    let site = Site::new(300);
    let server = site.serve();
    let mut service = Service::new(&site, &[]);
    let Watched { from, to, id } = watch(&site, &server, &service, "1s");
    // What grows is not complete.
    let mut file = fs::File::create(from.join("grows")).unwrap();
    fs::create_dir_all(from.join("deep/er")).unwrap();
    fs::write(from.join("deep/er/quiet"), "quiet").unwrap();
    let end = Instant::now() + PATIENCE;
    while !to.join("deep/er/quiet").exists() {
        file.write_all(b"more ").unwrap();
        file.sync_all().unwrap();
        assert!(Instant::now() < end, "{:?}", jobs(&service));
        assert!(!to.join("grows").exists());
    }
    drop(file);
    until(|| to.join("grows").exists(), |is| *is);
    assert_eq!(
        fs::read(from.join("grows")).unwrap(),
        fs::read(to.join("grows")).unwrap()
    );
    all_done(&service);
    // Whoever looks again, and whatever daemon it is, copies nothing.
    service.kill();
    service.start(&[]);
    fs::write(site.file("elsewhere"), "in place").unwrap();
    fs::rename(site.file("elsewhere"), from.join("renamed")).unwrap();
    until(|| to.join("renamed").exists(), |is| *is);
    all_done(&service);
    let copied = copied(&service);
    assert_eq!(copied.len(), 3, "{copied:?}");
    assert!(copied.values().all(|times| *times == 1), "{copied:?}");
    let shown: Value =
        serde_json::from_str(&ok(&service.ask(&["watch", "show", "--json", &id]))).unwrap();
    assert_eq!(
        (&shown["files"], &shown["note"]),
        (&3.into(), &Value::Null),
        "{shown}"
    );
    let first = &jobs(&service)[0];
    assert_eq!(first["spec"]["labels"][0], "seen", "{first}");
    let times = ["submitted_ms", "spec"].map(|name| &first[name]);
    let deadline = times[1]["deadline_ms"].as_u64().unwrap();
    let day = deadline.abs_diff(times[0].as_u64().unwrap() + 86_400_000);
    assert!(day < 60_000, "{first}");
    // A file that changes is another one.
    fs::write(from.join("renamed"), "changed since").unwrap();
    until(
        || fs::read(to.join("renamed")).unwrap_or_default(),
        |text| text == b"changed since",
    );
    all_done(&service);
    server.stop();
}

#[test]
fn a_watch_that_rests_copies_nothing_and_finds_all_when_it_goes_on() {
    let site = Site::new(300);
    let server = site.serve();
    let service = Service::new(&site, &[]);
    let Watched { from, to, id } = watch(&site, &server, &service, "1s");
    let paused = ok(&service.ask(&["watch", "pause", &id]));
    assert!(paused.contains("paused"), "{paused}");
    fs::write(from.join("a"), "a").unwrap();
    // Another one that does not rest is served meanwhile.
    let second = PathBuf::from(site.file("second"));
    fs::create_dir(&second).unwrap();
    fs::write(second.join("b"), "b").unwrap();
    let url = server.url("in");
    ok(&service.ask(&[
        "watch",
        "add",
        second.to_str().unwrap(),
        "--quiet",
        "1s",
        "--",
        "cp",
        "--accept-new",
        "--each-file",
        &url,
    ]));
    until(|| to.join("b").exists(), |is| *is);
    assert!(!to.join("a").exists());
    ok(&service.ask(&["watch", "resume", &id]));
    until(|| to.join("a").exists(), |is| *is);
    all_done(&service);
    ok(&service.ask(&["watch", "remove", &id]));
    service
        .ask(&["watch", "show", &id])
        .assert_failed(3, &["no watched directory"]);
    assert_eq!(ok(&service.ask(&["watch", "list"])).lines().count(), 1);
    server.stop();
}

#[test]
fn a_file_that_can_never_be_copied_holds_up_no_other() {
    let site = Site::new(300);
    let server = site.serve();
    let service = Service::new(&site, &[]);
    let Watched { from, to, .. } = watch(&site, &server, &service, "1s");
    // A directory has its name there, and something is in it.
    fs::create_dir_all(to.join("bad/x")).unwrap();
    fs::write(from.join("bad"), "bad").unwrap();
    until(
        || jobs(&service),
        |jobs| jobs.iter().any(|job| job["exit_code"] == 6),
    );
    // What comes is not in one job with it, but where its time has come again just then.
    let come = std::cell::Cell::new(0);
    let next = || {
        come.set(come.get() + 1);
        fs::write(from.join(format!("good-{}", come.get())), "good").unwrap();
        jobs(&service)
    };
    until(next, |jobs| jobs.iter().any(|job| job["state"] == "done"));
    assert_eq!(fs::read(to.join("good-1")).unwrap(), b"good");
    server.stop();
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let site = Site::new(120);
    let service = Service::new(&site, &[]);
    let dir = site.file("out");
    fs::create_dir(&dir).unwrap();
    let nothing = site.file("nothing");
    for (args, part) in [
        (
            &[&nothing[..], "--", "cp", "h:b"][..],
            "there is no directory",
        ),
        (&[&dir, "--", "verify", "h:b"], "cp or sync"),
        (&[&dir, "--", "serve", "h:b"], "a job is cp"),
        (&[&dir, "--", "cp"], "the last argument"),
        (&[&dir, "--", "cp", "h:b", "--archive"], "the last argument"),
        (&[&dir, "--", "cp", "--ssh", "sh", "h:b"], "program to run"),
        (&[&dir, "--", "cp", "--frobnicate", "h:b"], "--frobnicate"),
        (
            &[&dir, "--", "cp", "--files-from", "x", "h:b"],
            "--files-from",
        ),
        (&[&dir, "--", "cp", "a", "h:b"], "only the place"),
        (
            &[&dir, "--after", "3", "--", "cp", "h:b"],
            "after no other one",
        ),
        (&[&dir, "--by", "25:00", "--", "cp", "h:b"], "06:00"),
        (
            &[&dir, "--quiet", "0s", "--", "cp", "h:b"],
            "1 second to a day",
        ),
        (
            &[&dir, "--quiet", "2d", "--", "cp", "h:b"],
            "1 second to a day",
        ),
    ] {
        let done = service.ask(&[&["watch", "add"], args].concat());
        done.assert_failed(2, &[part]);
    }
    assert_eq!(ok(&service.ask(&["watch", "list"])), "");
}

#[test]
fn a_watched_directory_is_one_that_jobs_may_touch() {
    let site = Site::new(300);
    let server = site.serve();
    let [out, other, link] = ["out", "other", "out/link"].map(|name| site.file(name));
    for dir in [&out, &other] {
        fs::create_dir(dir).unwrap();
    }
    std::os::unix::fs::symlink(&other, &link).unwrap();
    let service = Service::new(&site, &["--allow", &out]);
    let url = server.url("in");
    let add = |dir: &str, more: &[&str]| {
        let args = [
            &[
                "watch",
                "add",
                dir,
                "--quiet",
                "1s",
                "--directory",
                &out,
                "--",
                "cp",
                "--accept-new",
            ],
            more,
        ];
        service.ask(&args.concat())
    };
    let above = format!("{out}/../other");
    for dir in [&other, &link, &above] {
        add(dir, &[&url]).assert_failed(2, &["--allow"]);
    }
    add(&out, &["--exclude-from", "/etc/passwd", &url]).assert_failed(2, &["--allow"]);
    // (The command itself refuses that.)
    add(&out, &[&other]).assert_failed(2, &["both local"]);
    fs::create_dir(site.root("in")).unwrap();
    fs::write(format!("{out}/a"), "a").unwrap();
    ok(&add(&out, &[&url]));
    let there = PathBuf::from(site.root("in")).join("a");
    until(|| there.exists(), |is| *is);
    all_done(&service);
    server.stop();
}

#[test]
fn files_that_the_kernel_could_not_tell_of_are_not_forgotten() {
    // More than the kernel keeps notices of (fs.inotify.max_queued_events, 16,384 as a rule): each file is told of three times.
    const FILES: usize = 6_000;
    let site = Site::new(300);
    let service = Service::new(&site, &[]);
    let out = PathBuf::from(site.file("out"));
    fs::create_dir(&out).unwrap();
    // Nobody is there: what counts is what is part of a job.
    let nowhere = [
        "cp",
        "--accept-new",
        "--transport",
        "udp",
        "howdah://127.0.0.1:9/in",
    ];
    let add = ["watch", "add", out.to_str().unwrap(), "--quiet", "1s", "--"];
    let id = ok(&service.ask(&[&add[..], &nowhere].concat()));
    let show = || -> Value {
        serde_json::from_str(&ok(&service.ask(&["watch", "show", "--json", &id]))).unwrap()
    };
    let daemon = Pid::from_raw(service.pid()).unwrap();
    kill_process(daemon, Signal::STOP).unwrap();
    for n in 0..FILES {
        fs::write(out.join(n.to_string()), "a").unwrap();
    }
    kill_process(daemon, Signal::CONT).unwrap();
    until(show, |shown| shown["files"] == FILES);
}

#[test]
fn files_of_a_job_that_failed_are_not_forgotten() {
    let site = Site::new(300);
    let server = site.serve();
    let service = Service::new(&site, &[]);
    let from = PathBuf::from(site.file("out"));
    fs::create_dir(&from).unwrap();
    fs::write(from.join("a"), "a").unwrap();
    // There is no such directory there, and what has that name is a file.
    fs::write(site.root("in"), "in the way").unwrap();
    let url = server.url("in/");
    let add = [
        "watch",
        "add",
        from.to_str().unwrap(),
        "--quiet",
        "1s",
        "--",
        "cp",
        "--accept-new",
        &url,
    ];
    ok(&service.ask(&add));
    until(
        || jobs(&service),
        |jobs| jobs.iter().any(|job| job["state"] == "failed"),
    );
    fs::remove_file(site.root("in")).unwrap();
    fs::create_dir(site.root("in")).unwrap();
    until(
        || PathBuf::from(site.root("in")).join("a").exists(),
        |is| *is,
    );
    server.stop();
}

#[test]
fn files_that_come_while_daemons_are_killed_are_all_copied_once() {
    // More of them: HOWDAH_TEST_KILLS=100 HOWDAH_TEST_SEED=7
    let number = |name: &str, usual: u64| std::env::var(name).map_or(usual, |n| n.parse().unwrap());
    let (kills, seed) = (
        number("HOWDAH_TEST_KILLS", 8),
        number("HOWDAH_TEST_SEED", 20),
    );
    let site = Site::new(300 + 20 * kills);
    let server = site.serve();
    let mut service = Service::new(&site, &[]);
    let Watched { from, to, .. } = watch(&site, &server, &service, "1s");
    let mut random = SplitMix(seed);
    let mut names = Vec::new();
    for round in 0..kills {
        for n in 0..3 {
            let name = format!("{round}-{n}");
            let text = content(&name, 10_000 + n * 1_000);
            if n == 0 {
                // Renamed into place.
                fs::write(site.file(&name), text).unwrap();
                fs::rename(site.file(&name), from.join(&name)).unwrap();
            } else {
                fs::write(from.join(&name), text).unwrap();
            }
            names.push(name);
        }
        // Not a wait for anything: the moment is what is tried.
        std::thread::sleep(Duration::from_millis(random.next() % 2_500));
        service.kill();
        service.start(&[]);
    }
    let same = |name: &String| {
        fs::read(from.join(name)).unwrap() == fs::read(to.join(name)).unwrap_or_default()
    };
    until(|| names.iter().all(same), |all| *all);
    all_done(&service);
    let copied = copied(&service);
    assert_eq!(copied.len(), names.len(), "{copied:?}");
    assert!(copied.values().all(|times| *times == 1), "{copied:?}");
    println!(
        "{} files, {kills} kills, {} jobs",
        names.len(),
        jobs(&service).len()
    );
    server.stop();
}

/// Another directory has the name: the kernel tells of that one, and no more of the one that had it. By looks alone, a minute apart,
/// the files would take more than twice the patience.
#[test]
fn a_directory_that_is_made_anew_under_its_name_is_watched() {
    let site = Site::new(300);
    let server = site.serve();
    let service = Service::new(&site, &[]);
    let Watched { from, to, id } = watch(&site, &server, &service, "1s");
    let end = Instant::now() + PATIENCE;
    let comes = |name: &str| {
        fs::write(from.join(name), name).unwrap();
        while !to.join(name).exists() {
            assert!(Instant::now() < end, "{name}: {:?}", jobs(&service));
            std::thread::sleep(Duration::from_millis(50));
        }
        // While a job runs the daemon looks each second, and once more when it is over: that look is not to find the next one.
        let shown = || -> Value {
            serde_json::from_str(&ok(&service.ask(&["watch", "show", &id, "--json"]))).unwrap()
        };
        until(shown, |watch| watch["settled"] == true);
        all_done(&service);
    };
    comes("before");
    let aside = site.file("aside");
    fs::rename(&from, &aside).unwrap();
    fs::create_dir(&from).unwrap();
    for name in ["a", "b", "c", "d", "e"] {
        comes(name);
    }
    fs::remove_dir_all(&from).unwrap();
    fs::rename(&aside, &from).unwrap();
    comes("last");
    comes("not least");
    all_done(&service);
    server.stop();
}
