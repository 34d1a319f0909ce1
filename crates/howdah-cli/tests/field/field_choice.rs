//! Which files are copied and what of them: the flags that people bring from rsync and cp.
#![cfg(target_os = "linux")]

use crate::support::process::{Done, Input};
use crate::support::ways::every_way;
use crate::support::{Host, Site, umask};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

const USAGE: i32 = 2;
const NOT_FOUND: i32 = 3;
const REFUSED: i32 = 4;
const PARTIAL: i32 = 6;

fn write(path: impl AsRef<Path>, text: &str, mode: u32, seconds: u64) {
    fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    let file = fs::File::open(&path).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds))
        .unwrap();
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[track_caller]
fn holds(path: impl AsRef<Path>, text: &str) {
    let found = fs::read_to_string(&path);
    assert_eq!(
        found.ok().as_deref(),
        Some(text),
        "{}",
        path.as_ref().display()
    );
}

#[test]
fn links_are_followed_with_copy_links_and_never_without_end() {
    every_way(300, |way| {
        let dir = (way.source)("s");
        write(format!("{dir}/a/file"), "file", 0o644, 1000);
        write((way.source)("outside/deep"), "deep", 0o644, 1000);
        for (target, link) in [
            ("a/file", "to-file"),
            ("a", "to-dir"),
            ("to-dir", "to-link"),
            ("../to-dir/file", "a/through"),
            ("..", "a/up"),
            (".", "self"),
            ("nowhere", "dangling"),
            ("loop2", "loop1"),
            ("loop1", "loop2"),
        ] {
            symlink(target, format!("{dir}/{link}")).unwrap();
        }
        let to = (way.target)("d");
        // As links first: they give way.
        way.ok(&["sync"], "s", "d");
        assert!(
            fs::symlink_metadata(format!("{to}/to-dir"))
                .unwrap()
                .is_symlink()
        );
        let lost = ["a/up", "self", "dangling", "loop1", "loop2"];
        let names: Vec<String> = lost
            .iter()
            .map(|name| name.rsplit('/').next().unwrap().to_owned() + "\"")
            .collect();
        let parts: Vec<&str> = names.iter().map(String::as_str).collect();
        for args in [&["sync", "-L", "--delete"][..], &["sync", "--copy-links"]] {
            way.fails(PARTIAL, args, "s", "d", &parts);
        }
        for file in [
            "a/file",
            "to-file",
            "to-dir/file",
            "to-link/file",
            "a/through",
            "to-dir/through",
        ] {
            let path = format!("{to}/{file}");
            holds(&path, "file");
            assert!(!fs::symlink_metadata(&path).unwrap().is_symlink(), "{path}");
        }
        assert!(fs::metadata(format!("{to}/to-dir/file")).unwrap().nlink() == 1);
        for link in lost {
            let path = format!("{dir}/{link}");
            fs::remove_file(path).unwrap();
        }
        way.ok(&["sync", "-L", "-a", "--delete"], "s", "d");
        assert!(!fs::exists(format!("{to}/self")).unwrap());
        let done = way.ok(&["sync", "-L", "--dry-run"], "s", "d");
        assert!(
            !String::from_utf8_lossy(&done.out).contains("\"change\""),
            "{:?}",
            done.out
        );
        // Rules are about the names of links.
        way.ok(
            &["cp", "-rL", "--exclude", "to-*/", "--exclude", "a"],
            "s",
            "ruled",
        );
        assert!(
            fs::exists((way.target)("ruled/to-file")).unwrap()
                && !fs::exists((way.target)("ruled/to-dir")).unwrap()
        );
        symlink("../outside", format!("{dir}/sibling")).unwrap();
        way.ok(&["cp", "-rL"], "s", "sib");
        holds((way.target)("sib/sibling/deep"), "deep");
    });
}

#[test]
fn copy_links_does_not_lead_out_of_a_servers_root() {
    let site = Site::new(120);
    let server = site.serve();
    write(site.root("s/file"), "file", 0o644, 1000);
    fs::write(site.file("secret"), "secret").unwrap();
    fs::create_dir(site.file("secrets")).unwrap();
    for (target, link) in [
        (site.file("secret"), "absolute"),
        (site.file("secrets"), "dir"),
        ("../../files/secret".to_owned(), "relative"),
    ] {
        symlink(target, site.root(&format!("s/{link}"))).unwrap();
    }
    let done = site.copy_with(
        Host::Here,
        &["-rL", &server.url("s"), &site.file("d")],
        Input::None,
    );
    assert_eq!(done.code, Some(PARTIAL), "{}", done.err);
    for link in ["absolute", "dir", "relative"] {
        assert!(done.err.contains(&format!("{link}\"")), "{}", done.err);
        assert!(!fs::exists(site.file(&format!("d/{link}"))).unwrap());
    }
    holds(site.file("d/file"), "file");
    server.stop();
}

#[test]
fn a_link_to_a_directory_is_kept_with_keep_dirlinks() {
    every_way(300, |way| {
        for file in ["s/data/new", "s/data/deep/file", "s/z"] {
            write((way.source)(file), "text", 0o644, 1000);
        }
        let to = (way.target)("d");
        write((way.target)("other/old"), "old", 0o600, 1000);
        fs::create_dir_all(&to).unwrap();
        let link = format!("{to}/data");
        symlink(
            "../other".replace(
                "other",
                &Path::new(&(way.target)("other"))
                    .file_name()
                    .unwrap()
                    .to_string_lossy(),
            ),
            &link,
        )
        .unwrap();
        let dry = way.ok(&["sync", "-K", "--delete", "--dry-run"], "s", "d");
        let out = String::from_utf8_lossy(&dry.out).into_owned();
        for part in ["data/new", "data/deep", "data/old"] {
            if way.what == "between" {
                break;
            }
            assert!(out.contains(&format!("\"{part}\"")), "{part}: {out}");
        }
        holds((way.target)("other/old"), "old");
        way.ok(
            &["sync", "-K", "--delete", "--backup-dir", "kept"],
            "s",
            "d",
        );
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        holds((way.target)("other/new"), "text");
        holds((way.target)("other/deep/file"), "text");
        assert!(!fs::exists((way.target)("other/old")).unwrap());
        holds(format!("{to}/kept/data/old"), "old");
        let done = way.ok(
            &[
                "sync",
                "--keep-dirlinks",
                "--delete",
                "--backup-dir",
                "kept",
                "--dry-run",
            ],
            "s",
            "d",
        );
        assert!(
            !String::from_utf8_lossy(&done.out).contains("\"event\":\"change\""),
            "{:?}",
            String::from_utf8_lossy(&done.out)
        );
        way.ok(&["cp", "-rK"], "s/data", "d");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        // Without it the link is replaced, and what it points to stays.
        way.ok(&["sync"], "s", "d");
        assert!(fs::symlink_metadata(&link).unwrap().is_dir());
        holds((way.target)("other/new"), "text");
    });
}

/// What has come through a link does not go as what the source does not have: not in the same run and not in the next one.
#[test]
fn what_a_kept_link_leads_to_is_not_deleted_in_the_destination() {
    every_way(300, |way| {
        for file in ["s/a/new", "s/b/other", "s/lib/one", "s/usr/lib/two"] {
            write((way.source)(file), file, 0o644, 1000);
        }
        let to = (way.target)("d");
        // Which the source does not have, and of which it has one under both of its names.
        for file in ["store/real/there", "usr/lib/three", "extra/old"] {
            write(format!("{to}/{file}"), "old", 0o644, 1000);
        }
        for (link, at) in [("a", "store/real"), ("b", "store/real"), ("lib", "usr/lib")] {
            symlink(at, format!("{to}/{link}")).unwrap();
        }
        let deleted = |done: &Done| {
            let out = String::from_utf8_lossy(&done.out).into_owned();
            let last = out.lines().last().unwrap();
            let last: serde_json::Value = serde_json::from_str(last).unwrap();
            last["tree"]["deleted"].clone()
        };
        let sync = ["sync", "-K", "--delete"];
        let dry = way.ok(&[&sync[..], &["--dry-run"]].concat(), "s", "d");
        let done = way.ok(&sync, "s", "d");
        assert_eq!(deleted(&dry), 2, "{}", way.what);
        assert_eq!(deleted(&done), 2, "{}", way.what);
        assert!(done.err.contains("-K"), "{}", done.err);
        for _ in 0..2 {
            holds(format!("{to}/a/new"), "s/a/new");
            holds(format!("{to}/b/other"), "s/b/other");
            holds(format!("{to}/lib/one"), "s/lib/one");
            holds(format!("{to}/usr/lib/two"), "s/usr/lib/two");
            assert!(!fs::exists(format!("{to}/extra")).unwrap());
            let again = way.ok(&sync, "s", "d");
            assert_eq!(deleted(&again), 0, "{}", way.what);
        }
    });
}

#[test]
fn keep_dirlinks_does_not_lead_out_of_a_servers_root() {
    let site = Site::new(120);
    let server = site.serve();
    write(site.file("s/data/evil"), "evil", 0o644, 1000);
    fs::create_dir(site.root("d")).unwrap();
    fs::create_dir(site.file("safe")).unwrap();
    for target in [
        site.file("safe"),
        "../../files/safe".to_owned(),
        "../..".to_owned(),
        "..".to_owned(),
    ] {
        let link = site.root("d/data");
        symlink(&target, &link).unwrap();
        for command in [&["sync", "-K"][..], &["cp", "-rK"]] {
            let from = if command[0] == "cp" {
                site.file("s/data")
            } else {
                site.file("s")
            };
            let to = server.url("d");
            let args = [
                &[command[0], "--json", "--accept-new"],
                &command[1..],
                &[&*from, &*to],
            ]
            .concat();
            let done = site.run(Host::Here, "client", &args, Input::None);
            assert_eq!(done.code, Some(PARTIAL), "{target}: {}", done.err);
            assert!(done.err.contains("data"), "{}", done.err);
        }
        assert_eq!(
            fs::read_dir(site.file("safe")).unwrap().count(),
            0,
            "{target}"
        );
        assert!(
            !fs::exists(site.path().join("evil")).unwrap()
                && !fs::exists(site.root("evil")).unwrap()
        );
        fs::remove_file(&link).unwrap();
    }
    server.stop();
}

#[test]
fn newer_and_existing_files_and_those_of_the_same_size_are_left_alone() {
    every_way(300, |way| {
        let from = (way.source)("s");
        // (name, what is there, its time)
        let there = [
            ("older", "was", 500),
            ("newer", "mine", 2000),
            ("same", "text", 1000),
            ("resized", "longer than that", 1000),
            ("touched", "txet", 500),
        ];
        let fresh = |to: &str| {
            for (name, text, seconds) in there {
                write(format!("{to}/{name}"), text, 0o640, seconds);
            }
            symlink("elsewhere", format!("{to}/link")).unwrap();
        };
        for (name, ..) in there {
            write(format!("{from}/{name}"), "text", 0o644, 1000);
        }
        write(format!("{from}/new"), "text", 0o644, 1000);
        symlink("here", format!("{from}/link")).unwrap();
        let cases: [(&[&str], [&str; 5], &str); 5] = [
            (
                &["--update"],
                ["text", "mine", "text", "text", "text"],
                "here",
            ),
            (
                &["-u", "--checksum"],
                ["text", "mine", "text", "text", "text"],
                "here",
            ),
            (
                &["--ignore-existing"],
                ["was", "mine", "text", "longer than that", "txet"],
                "elsewhere",
            ),
            (
                &["--ignore-existing", "--update"],
                ["was", "mine", "text", "longer than that", "txet"],
                "elsewhere",
            ),
            (
                &["--size-only"],
                ["text", "mine", "text", "text", "txet"],
                "here",
            ),
        ];
        for (number, (flags, expected, link)) in cases.into_iter().enumerate() {
            let commands = [&["sync"][..], &["cp", "-a"]];
            // Each of these is like another one.
            let few = if matches!(number, 1 | 3) { 1 } else { 2 };
            for command in &commands[..few] {
                let name = format!("{}{number}", command[0]);
                let to = (way.target)(&name);
                fresh(&to);
                let args = [*command, flags].concat();
                let source = if command[0] == "sync" { "s" } else { "s/." };
                let dry = way.ok(&[&args[..], &["--dry-run"]].concat(), source, &name);
                let out = String::from_utf8_lossy(&dry.out).into_owned();
                way.ok(&args, source, &name);
                for ((file, before, _), text) in there.into_iter().zip(expected) {
                    holds(format!("{to}/{file}"), text);
                    let told = out
                        .lines()
                        .any(|l| l.contains("\"copy\"") && l.contains(&format!("\"{file}\"")));
                    let is_told = before != text;
                    assert_eq!(told, is_told, "{flags:?} {file}: {out}");
                }
                holds(format!("{to}/new"), "text");
                assert_eq!(
                    fs::read_link(format!("{to}/link")).unwrap(),
                    Path::new(link),
                    "{flags:?}"
                );
                let dry = way.ok(&[&args[..], &["--dry-run"]].concat(), source, &name);
                assert!(
                    !String::from_utf8_lossy(&dry.out).contains("\"event\":\"change\""),
                    "{flags:?}: {}",
                    String::from_utf8_lossy(&dry.out)
                );
            }
            // Single files.
            if !matches!(way.what, "up" | "down") {
                continue;
            }
            for ((file, ..), text) in there.into_iter().zip(expected) {
                let name = format!("one{number}");
                fresh_one(
                    &(way.target)(&name),
                    there.into_iter().find(|(n, ..)| *n == file).unwrap(),
                );
                way.ok(&[&["cp"][..], flags].concat(), &format!("s/{file}"), &name);
                holds(format!("{}/{file}", (way.target)(&name)), text);
            }
        }
        // What is compared is what is there.
        let (a, b) = ((way.from)("s"), (way.to)("sync2"));
        if way.what != "between" {
            let done = (way.run)(&["verify", &a, &b]);
            assert_eq!(done.code, Some(15), "{}", done.err);
        }
    });
}

fn fresh_one(dir: &str, (name, text, seconds): (&str, &str, u64)) {
    write(format!("{dir}/{name}"), text, 0o640, seconds);
}

#[test]
fn update_spares_newer_files_that_are_further_names_too() {
    every_way(300, |way| {
        let (from, to) = ((way.source)("s"), (way.target)("d"));
        write(format!("{from}/a"), "text", 0o644, 1000);
        fs::hard_link(format!("{from}/a"), format!("{from}/b")).unwrap();
        write(format!("{to}/b"), "mine", 0o644, 2000);
        way.ok(&["sync", "-a", "--update"], "s", "d");
        holds(format!("{to}/a"), "text");
        holds(format!("{to}/b"), "mine");
        way.ok(&["sync", "-a", "--ignore-existing"], "s", "d");
        holds(format!("{to}/b"), "mine");
        way.ok(&["sync", "-a"], "s", "d");
        holds(format!("{to}/b"), "text");
    });
}

#[test]
fn chmod_changes_what_there_would_be_and_no_perms_leaves_it() {
    every_way(300, |way| {
        let from = (way.source)("s");
        write(format!("{from}/dir/file"), "text", 0o640, 1000);
        write(format!("{from}/tool"), "text", 0o750, 1000);
        fs::set_permissions(format!("{from}/dir"), fs::Permissions::from_mode(0o750)).unwrap();
        let modes = |name: &str| {
            ["dir", "dir/file", "tool"].map(|file| mode((way.target)(&format!("{name}/{file}"))))
        };
        for (command, source) in [
            (&["sync"][..], "s"),
            (&["cp", "-r"], "s"),
            (&["cp", "-a"], "s/."),
            (&["cp", "-rp"], "s/."),
        ] {
            let name = command.concat();
            // It comes first, where permissions are not made equal.
            let left = if command == ["cp", "-r"] {
                !umask()
            } else {
                0o777
            };
            for (number, (chmod, expected)) in [
                ("D700,F600", [0o700, 0o600, 0o600]),
                ("u=rwX,go=", [0o700, 0o600, 0o700]),
                ("Fa-x,Do=rx", [0o750 & left | 5, 0o640 & left, 0o640 & left]),
                ("g=u,o=g", [0o777, 0o666, 0o777]),
            ]
            .into_iter()
            .enumerate()
            {
                let name = format!("{name}{number}");
                let args = [command, &["--chmod", chmod]].concat();
                way.ok(&args, source, &name);
                assert_eq!(modes(&name), expected, "{} {args:?}", way.what);
                // Again, and files that are there.
                write((way.target)(&format!("{name}/tool")), "other", 0o755, 5);
                way.ok(&args, source, &name);
                if command == ["cp", "-r"] {
                    // One level further down, as cp does it.
                    continue;
                }
                assert_eq!(modes(&name), expected, "{} {args:?}", way.what);
                let dry = way.ok(&[&args[..], &["--dry-run"]].concat(), source, &name);
                if command[0] == "sync" {
                    assert!(
                        !String::from_utf8_lossy(&dry.out).contains("\"event\":\"change\""),
                        "{args:?}"
                    );
                }
            }
        }
        // Single files.
        way.ok(&["cp", "--chmod", "0604"], "s/tool", "one");
        assert_eq!(mode((way.target)("one")), 0o604);
        // What is there keeps its own.
        write((way.target)("np/dir/file"), "old", 0o604, 5);
        fs::set_permissions((way.target)("np/dir"), fs::Permissions::from_mode(0o705)).unwrap();
        for args in [&["sync", "--no-perms"][..], &["sync", "-a", "--no-perms"]] {
            way.ok(args, "s", "np");
            holds((way.target)("np/dir/file"), "text");
            assert_eq!(
                [
                    mode((way.target)("np/dir")),
                    mode((way.target)("np/dir/file"))
                ],
                [0o705, 0o604],
                "{args:?}"
            );
        }
        way.ok(&["sync"], "s", "np");
        assert_eq!(mode((way.target)("np/dir/file")), 0o640);
    });
}

#[test]
fn chown_gives_everything_to_somebody_where_root_writes() {
    let is_root = rustix::process::geteuid().is_root();
    every_way(300, |way| {
        let from = (way.source)("s");
        write(format!("{from}/dir/file"), "text", 0o4755, 1000);
        symlink("dir", format!("{from}/link")).unwrap();
        let owner = |name: &str| {
            let found = fs::symlink_metadata((way.target)(name)).unwrap();
            (found.uid(), found.gid())
        };
        way.fails(
            USAGE,
            &["cp", "-r", "--chown", "nobody-is-called-so"],
            "s",
            "bad",
            &["nobody-is-called-so", "no user"],
        );
        assert!(!fs::exists((way.target)("bad")).unwrap());
        if !is_root {
            let done = way.ok(&["cp", "-r", "--chown", "0:0"], "s", "mine");
            assert!(done.err.contains("owner not kept"), "{}", done.err);
            return;
        }
        for (number, args) in [&["sync"][..], &["cp", "-r"], &["cp", "-a"]]
            .into_iter()
            .enumerate()
        {
            let name = format!("d{number}");
            for (chown, expected) in [
                ("nobody:12", (65534, 12)),
                (":13", (if number == 2 { 0 } else { 65534 }, 13)),
                ("77", (77, if number == 2 { 0 } else { 13 })),
            ] {
                let args = [args, &["--chown", chown]].concat();
                let source = if number == 0 { "s" } else { "s/." };
                way.ok(&args, source, &name);
                for file in ["dir", "dir/file", "link"] {
                    assert_eq!(
                        owner(&format!("{name}/{file}")),
                        expected,
                        "{} {args:?} {file}",
                        way.what
                    );
                }
                assert_eq!(
                    mode((way.target)(&format!("{name}/dir/file"))) & 0o4000,
                    if chown == ":13" && number == 2 {
                        0o4000
                    } else {
                        0
                    }
                );
                let dry = way.ok(&[&args[..], &["--dry-run"]].concat(), source, &name);
                assert!(
                    !String::from_utf8_lossy(&dry.out).contains("\"event\":\"change\""),
                    "{args:?}"
                );
            }
        }
        way.ok(&["cp", "--chown", "77:12"], "s/dir/file", "one");
        assert_eq!(owner("one"), (77, 12));
    });
}

#[test]
fn the_way_to_the_destination_is_made_with_mkpath() {
    every_way(300, |way| {
        write((way.source)("s/file"), "text", 0o644, 1000);
        way.fails(REFUSED, &["cp"], "s/file", "a/b/c", &["--mkpath"]);
        let dry = way.ok(&["cp", "--mkpath", "--dry-run"], "s/file", "a/b/c");
        let out = String::from_utf8_lossy(&dry.out).into_owned();
        assert!(way.what == "between" || out.contains("\"copy\""), "{out}");
        assert!(!fs::exists((way.target)("a")).unwrap());
        way.ok(&["cp", "--mkpath"], "s/file", "a/b/c");
        holds((way.target)("a/b/c"), "text");
        way.ok(&["cp", "--mkpath"], "s/file", "a/d/e/");
        holds((way.target)("a/d/e/file"), "text");
        way.ok(&["cp", "-r", "--mkpath"], "s", "x/y/z");
        holds((way.target)("x/y/z/file"), "text");
        way.ok(&["cp", "-r", "--mkpath"], "s", "x/y/");
        holds((way.target)("x/y/s/file"), "text");
        for args in [
            &["sync", "--mkpath", "--dry-run"][..],
            &["sync", "--mkpath"],
            &["sync", "--mkpath"],
        ] {
            way.ok(args, "s", "m/n/o");
        }
        holds((way.target)("m/n/o/file"), "text");
        // A file is no way.
        way.fails(REFUSED, &["cp", "--mkpath"], "s/file", "a/b/c/d/e", &[]);
        holds((way.target)("a/b/c"), "text");
    });
}

#[test]
fn mkpath_stays_below_a_servers_root() {
    let site = Site::new(120);
    let server = site.serve();
    fs::write(site.file("f"), "text").unwrap();
    fs::create_dir(site.file("out")).unwrap();
    symlink(site.file("out"), site.root("link")).unwrap();
    for path in ["../up/f", "link/a/f", "a/../../f"] {
        let done = site.copy_with(
            Host::Here,
            &["--mkpath", &site.file("f"), &server.url(path)],
            Input::None,
        );
        assert_eq!(done.code, Some(REFUSED), "{path}: {}", done.err);
    }
    assert_eq!(fs::read_dir(site.file("out")).unwrap().count(), 0);
    server.stop();
}

#[test]
fn t23_rules_that_match_nothing_are_told_of() {
    every_way(300, |way| {
        write((way.source)("s/build/file"), "text", 0o644, 1000);
        write((way.source)("s/x.o"), "text", 0o644, 1000);
        let told = |args: &[&str]| {
            let done = way.ok(&[&["sync"], args].concat(), "s", "d");
            done.err
                .lines()
                .filter(|line| line.contains("nothing"))
                .count()
        };
        for (args, warnings) in [
            (&["--exclude", "build"][..], 0),
            (&["--exclude", "./build/"], 0),
            (&["--exclude", "*.tmp"], 0),
            (&["--include", "*.o", "--exclude", "/x.o"], 1),
            (&["--exclude", "biuld"], 1),
            (&["--exclude", "/usr/share/doc"], 1),
            (&["--exclude", "../build"], 1),
            (&["--include", "a/*.c", "--exclude", "build/sub"], 2),
            // Kept at the destination, perhaps.
            (&["--delete", "--exclude", "biuld"], 0),
            (&["--delete", "--exclude", "../build"], 1),
        ] {
            assert_eq!(told(args), warnings, "{} {args:?}", way.what);
        }
    });
}

#[test]
fn t23_rules_in_files_need_not_match_and_an_empty_list_is_told_of() {
    let site = Site::new(120);
    let server = site.serve();
    write(site.file("s/file"), "text", 0o644, 1000);
    fs::write(site.file("rules"), "nothing\n/like/this\n").unwrap();
    let run = |args: &[&str]| {
        let (from, to) = (site.file("s"), server.url("d"));
        let args = [&["sync", "--json", "--accept-new"], args, &[&*from, &*to]].concat();
        site.run(Host::Here, "client", &args, Input::None)
    };
    let done = run(&["--exclude-from", &site.file("rules")]);
    assert_eq!(
        (done.code, done.err.contains("nothing")),
        (Some(0), false),
        "{}",
        done.err
    );
    fs::write(site.file("list"), "").unwrap();
    let list = site.file("list");
    let (from, to) = (site.file("s"), server.url("d"));
    let verify = ["verify", "--files-from", &list, &from, &to];
    for done in [
        run(&["--files-from", &list]),
        site.run(Host::Here, "client", &verify, Input::None),
    ] {
        assert_eq!(
            (done.code, done.err.contains("list of files is empty")),
            (Some(0), true),
            "{}",
            done.err
        );
    }
    server.stop();
}

#[test]
fn dangling_links_that_are_named_are_missing_unless_links_are_copied() {
    every_way(300, |way| {
        fs::create_dir_all((way.source)("s")).unwrap();
        symlink("nowhere", (way.source)("s/link")).unwrap();
        write((way.source)("s/file"), "text", 0o644, 1000);
        for args in [&["cp"][..], &["cp", "-p"], &["cp", "-rL"]] {
            way.fails(NOT_FOUND, args, "s/link", "d", &["link"]);
        }
        fs::create_dir((way.target)("two")).unwrap();
        let (link, file, to) = ((way.from)("s/link"), (way.from)("s/file"), (way.to)("two"));
        let done = (way.run)(&["cp", &link, &file, &to]);
        assert_eq!(done.code, Some(PARTIAL), "{}: {}", way.what, done.err);
        assert!(done.err.contains("link"), "{}", done.err);
        assert_eq!(fs::read_dir((way.target)("two")).unwrap().count(), 1);
        let done = (way.run)(&["cp", "-r", &link, &file, &to]);
        assert_eq!(done.code, Some(0), "{}: {}", way.what, done.err);
        assert!(
            fs::symlink_metadata((way.target)("two/link"))
                .unwrap()
                .is_symlink()
        );
    });
}

#[test]
fn clashes_are_named_before_anything_is_connected() {
    let site = Site::new(120);
    let nobody = "howdah://127.0.0.1:9/x";
    for (args, parts) in [
        (
            &["cp", "--size-only", "--checksum", "f"][..],
            &["--size-only", "--checksum"][..],
        ),
        (&["cp", "-p", "--no-perms", "f"], &["-p", "--no-perms"]),
        (&["cp", "--chmod", "u+q", "f"], &["--chmod", "u+q"]),
        (&["sync", "--chmod", "", "f"], &["--chmod"]),
        (&["cp", "--chown", "a:b:c", "f"], &["--chown"]),
        (
            &["cp", "--idle-timeout", "0", "f"],
            &["--idle-timeout", "100ms"],
        ),
        (&["sync", "--idle-timeout", "1us", "f"], &["--idle-timeout"]),
        (&["ls", "--idle-timeout", "2d"], &["--idle-timeout", "1d"]),
        (&["cp", "--remote-howdah", " ", "f"], &["--remote-howdah"]),
        (&["cp", "--time", "0", "zero:"], &["--time", "10ms"]),
        (&["bench", "--time", "1us"], &["--time"]),
        // A part of a file is not to have its name.
        (&["cp", "--time", "1s", "f"], &["--time", "part of f"]),
        (&["cp", "-r", "--time", "1s", "f"], &["--time", "part of f"]),
        (&["cp", "--mkpath", "-"], &["--mkpath", "-"]),
        (&["cp", "-L", "-"], &["--copy-links", "- is none"]),
        (&["cp", "-x", "zero:1"], &["--one-file-system", "zero:"]),
        (&["cp", "--lease", "1", "f"], &["--lease", "--plan"]),
        (&["cp", "--update", "zero:1"], &["--update", "zero:"]),
        (
            &["cp", "--filter", ":- .gitignore", "f"],
            &["--filter", "--gitignore"],
        ),
        (
            &["sync", "--filter=:- .gitignore", "f"],
            &["--filter", "--gitignore"],
        ),
    ] {
        let args = [args, &[nobody]].concat();
        let done = site.run(Host::Here, "client", &args, Input::None);
        assert_eq!(done.code, Some(USAGE), "{args:?}: {}", done.err);
        for part in parts {
            assert!(done.err.contains(part), "{args:?} {part}: {}", done.err);
        }
    }
    // Nothing but bytes goes there.
    for to in ["howdah://127.0.0.1:9/null:", "h:null:", "h:zero:1"] {
        for command in [
            &["sync", "d"][..],
            &["cp", "-r", "d"],
            &["cp", "f", "g"],
            &["cp", "-p", "f"],
        ] {
            let args = [command, &[to]].concat();
            let done = site.run(Host::Here, "client", &args, Input::None);
            done.assert_failed(USAGE, &[to]);
            let words = ["a tree cannot go to", "is about files and directories"];
            let is_said = words.iter().any(|word| done.err.contains(word));
            assert!(is_said, "{args:?}: {}", done.err);
        }
    }
}
