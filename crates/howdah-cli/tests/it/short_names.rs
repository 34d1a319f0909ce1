//! T18: disks with shorter names than others have, as those that encrypt names: encfs through FUSE.
#![cfg(target_os = "linux")]

use crate::support::place::{SmallDisk, content, hash_of};
use crate::support::process::{Done, Input};
use crate::support::sshd::Sshd;
use crate::support::{Host, Site, await_kept, await_no_parts, parts};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

// As `howdah --help` lists them.
const REFUSED: i32 = 4;
const PARTIAL: i32 = 6;
const MIB: usize = 1 << 20;

/// Mounts one at `at`; `None` with a printed reason.
fn mount(site: &Site, at: &str) -> Option<SmallDisk> {
    let hidden = site.config("hidden").display().to_string();
    for dir in [&hidden, at] {
        fs::create_dir(dir).unwrap();
    }
    let started = Command::new("encfs")
        .args(["--standard", "--stdinpass", &hidden, at])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let done = started.and_then(|mut encfs| {
        let mut input = encfs.stdin.take().unwrap();
        // It may have given up already.
        let _ = input.write_all(b"secret\n");
        drop(input);
        encfs.wait_with_output()
    });
    match done {
        Ok(done) if done.status.success() => Some(SmallDisk::mounted(at)),
        other => {
            println!("skipped: no encfs can be mounted here: {other:?}");
            None
        }
    }
}

/// The longest name that it takes, in bytes, whatever it says.
fn longest(dir: &str) -> usize {
    let takes = |len: &usize| {
        let path = format!("{dir}/{}", "n".repeat(*len));
        let made = fs::write(&path, "");
        let _ = fs::remove_file(path);
        made.is_ok()
    };
    (1..=255).rfind(takes).unwrap()
}

/// A name of so many bytes that begins so, not all of them of one letter each.
fn name(start: &str, len: usize) -> String {
    let mut name = format!("{start}{}", "\u{e9}n".repeat(255));
    name.truncate((0..=len).rfind(|&len| name.is_char_boundary(len)).unwrap());
    name
}

fn write(path: &str, seed: &str, len: usize) {
    fs::create_dir_all(Path::new(path).parent().unwrap()).unwrap();
    fs::write(path, content(seed, len)).unwrap();
    let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(time).unwrap();
}

fn is_same(ours: &str, theirs: &str, names: &[String]) {
    for name in names {
        let [ours, theirs] = [ours, theirs].map(|dir| hash_of(&format!("{dir}/{name}")));
        assert!(ours == theirs, "{name}");
    }
}

#[test]
fn t18_every_name_that_the_disk_takes_is_one_that_a_copy_can_give() {
    let site = Site::new(200);
    let Some(_disk) = mount(&site, &site.root("disk")) else {
        return;
    };
    let most = longest(&site.root("disk"));
    println!("names of {most} bytes");
    assert!((100..255).contains(&most));
    let mut names = Vec::new();
    for len in [most, most - 1, most - 2, most - 20, most - 40, 100] {
        for (kind, size) in [("e", 0), ("s", 4000), ("l", 5 * MIB)] {
            names.push(name(&format!("{kind}{len}"), len));
            write(
                &site.file(&format!("s/{}", names.last().unwrap())),
                kind,
                size,
            );
        }
    }
    let deep = format!("{}/{}", name("d", most), name("f", most));
    write(&site.file(&format!("s/{deep}")), "deep", 3000);
    names.push(deep);
    let server = site.serve();
    let sshd = Sshd::start(&site, Host::Here, "127.0.0.1");
    let run = |args: &[&str]| -> Done {
        let ssh = sshd.as_ref().map(Sshd::ssh);
        let (command, rest) = args.split_first().unwrap();
        let how = ssh.iter().flat_map(|ssh| ["--ssh", ssh]);
        let how = how.chain(["--json", "--accept-new"]);
        let args: Vec<&str> = [*command]
            .into_iter()
            .chain(how)
            .chain(rest.iter().copied())
            .collect();
        site.run(Host::Here, "client", &args, Input::None)
    };
    let mut places = vec![server.url("disk")];
    places.extend(sshd.as_ref().map(|_| "far:disk".to_owned()));
    let from = site.file("s");
    for place in places {
        for (n, flags) in [
            &["cp", "-r"][..],
            &["cp", "-a"],
            &["sync"],
            &["sync", "-a", "--delete", "--backup-dir", ".old"],
        ]
        .into_iter()
        .enumerate()
        {
            let to = format!("{place}/t{n}");
            let made = site.root(&format!("disk/t{n}"));
            let done = run(&[flags, &[&from, &to]].concat());
            assert_eq!(done.code, Some(0), "{flags:?} {place}: {}", done.err);
            is_same(&from, &made, &names);
            assert_eq!(parts(&made), Vec::<std::path::PathBuf>::new());
            // What is there is replaced, and kept; then there is nothing to do.
            if flags[0] == "sync" {
                for name in &names {
                    fs::write(format!("{made}/{name}"), "another").unwrap();
                }
                for files in [names.len(), 0] {
                    let done = run(&[flags, &[&from, &to]].concat());
                    assert_eq!(done.code, Some(0), "{flags:?} {place}: {}", done.err);
                    assert_eq!(done.json()["tree"]["files"], files, "{}", done.json());
                }
                is_same(&from, &made, &names);
            }
            // And back.
            let back = site.file("back");
            let done = run(&["sync", "-a", "--delete", &to, &back]);
            assert_eq!(done.code, Some(0), "{}", done.err);
            is_same(&from, &back, &names);
            fs::remove_dir_all(made).unwrap();
        }
        // By themselves.
        for name in &names[..6] {
            let to = format!("{place}/{name}");
            let done = run(&["cp", &format!("{from}/{name}"), &to]);
            assert_eq!(done.code, Some(0), "{place}: {}", done.err);
            let done = run(&["cp", &to, &site.file("one")]);
            assert_eq!(done.code, Some(0), "{place}: {}", done.err);
            fs::remove_file(site.file("one")).unwrap();
        }
        is_same(&from, &site.root("disk"), &names[..6]);
        for name in &names[..6] {
            fs::remove_file(site.root(&format!("disk/{name}"))).unwrap();
        }
    }
    server.stop();
    site.assert_nothing_half_done();
}

#[test]
fn t18_a_name_that_is_too_long_there_is_told_of_and_the_rest_comes() {
    let site = Site::new(100);
    let Some(_disk) = mount(&site, &site.root("disk")) else {
        return;
    };
    let most = longest(&site.root("disk"));
    let too_long = [
        name("small", most + 1),
        name("large", 255),
        name("dir", 250),
    ];
    let from = site.file("s");
    write(&format!("{from}/{}", too_long[0]), "small", 300);
    write(&format!("{from}/{}", too_long[1]), "large", 5 * MIB);
    write(&format!("{from}/{}/in", too_long[2]), "in", 300);
    std::os::unix::fs::symlink("x", format!("{from}/{}", name("link", most + 2))).unwrap();
    let well = ["a".to_owned(), name("z", most)];
    for name in &well {
        write(&format!("{from}/{name}"), "well", 300);
    }
    let server = site.serve();
    for flags in [&["cp", "-r"][..], &["sync", "--delete"], &["sync", "-a"]] {
        let to = server.url("disk/t");
        let args = [flags, &["--json", "--accept-new", &from, &to]].concat();
        let done = site.run(Host::Here, "client", &args, Input::None);
        assert_eq!(done.code, Some(PARTIAL), "{flags:?}: {}", done.err);
        assert_eq!(done.json()["tree"]["failed"], 4, "{flags:?}: {}", done.err);
        assert!(
            done.err.contains("longer than the disk there takes"),
            "{}",
            done.err
        );
        let made = site.root("disk/t");
        is_same(&from, &made, &well);
        fs::remove_dir_all(made).unwrap();
    }
    let done = site.copy(
        Host::Here,
        &format!("{from}/{}", too_long[0]),
        &server.url(&format!("disk/{}", too_long[0])),
    );
    done.assert_failed(REFUSED, &["longer than the disk there takes"]);
    server.stop();
    site.assert_nothing_half_done();
}

#[test]
fn t18_an_interrupted_copy_to_a_long_name_goes_on() {
    const SIZE: usize = 48 * MIB;
    let site = Site::new(100);
    let Some(_disk) = mount(&site, &site.root("disk")) else {
        return;
    };
    let most = longest(&site.root("disk"));
    let name = name("large", most);
    let from = site.file(&name);
    write(&from, "large", SIZE);
    let server = site.serve();
    let to = server.url(&format!("disk/{name}"));
    let args = ["--limit", "100mbit", &from, &to];
    let client = site.start_copy(Host::Here, &args, Input::None);
    await_kept(&site, &site.root("disk"));
    // Dropping it kills it.
    drop(client);
    let done = site.copy(Host::Here, &from, &to);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.json()["resumed_bytes"].as_u64().unwrap() > 0);
    let disk = site.root("disk");
    assert_eq!(hash_of(&format!("{disk}/{name}")), hash_of(&from));
    server.stop();
    await_no_parts(&disk, Duration::from_mins(1));
}
