//! Looking at places: `howdah ls`, `du` and `clean`, and names with wildcards, here, over ssh and served.

use crate::support::process::{Done, Input};
use crate::support::sshd::Sshd;
use crate::support::{Host, Site};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

/// The same tree below each root.
fn tree(at: &str) {
    let path = |name: &str| format!("{at}/{name}");
    fs::create_dir_all(path("d/sub/deep")).unwrap();
    fs::write(path("d/b.tar"), "12").unwrap();
    fs::write(path("d/a.tar"), "1").unwrap();
    fs::write(path("d/.hidden.tar"), "1").unwrap();
    fs::write(path("d/sub/c.tar"), "123").unwrap();
    fs::write(path("d/sub/deep/x"), "1234").unwrap();
    fs::write(path("d/z[1].txt"), "literal").unwrap();
    fs::write(path("d/z1.txt"), "other").unwrap();
    symlink("a.tar", path("d/link")).unwrap();
    fs::write(path("d/evil\n\u{1b}[2J"), "").unwrap();
    fs::set_permissions(path("d/a.tar"), fs::Permissions::from_mode(0o640)).unwrap();
}

fn out(done: &Done) -> Vec<String> {
    let text = String::from_utf8(done.out.clone()).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Runs `howdah COMMAND ARGS` with what both ways need.
struct Ways<'a> {
    site: &'a Site,
    ssh: String,
}

impl Ways<'_> {
    fn run(&self, args: &[&str]) -> Done {
        let all = [
            &args[..1],
            &["--accept-new", "--ssh", &self.ssh],
            &args[1..],
        ]
        .concat();
        self.site.run(Host::Here, "client", &all, Input::None)
    }

    #[track_caller]
    fn ok(&self, args: &[&str]) -> Vec<String> {
        let done = self.run(args);
        assert_eq!(done.code, Some(0), "{args:?}: {}", done.err);
        out(&done)
    }

    #[track_caller]
    fn fails(&self, args: &[&str], code: i32, part: &str) {
        let done = self.run(args);
        assert_eq!(done.code, Some(code), "{args:?}: {}", done.err);
        assert!(done.err.contains(part), "{args:?}: {part}: {}", done.err);
    }
}

#[test]
fn ls_and_du_tell_what_is_there_on_any_side() {
    let site = Site::new(120);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let server = site.serve();
    let ways = Ways {
        site: &site,
        ssh: sshd.ssh(),
    };
    tree(&site.root(""));
    for place in [site.root("d"), "far:d".to_owned(), server.url("d")] {
        let place = &*place;
        let names = [
            ".hidden.tar",
            "a.tar",
            "b.tar",
            r"evil\n\u{1b}[2J",
            "link",
            "sub/",
            "z1.txt",
            "z[1].txt",
        ];
        assert_eq!(ways.ok(&["ls", place]), names, "{place}");
        let long = ways.ok(&["ls", "-l", place]);
        assert_eq!(long.len(), names.len(), "{long:?}");
        assert!(long[1].starts_with("-rw-r-----"), "{long:?}");
        assert!(
            long[1].contains(" 1 20") && long[1].ends_with("Z a.tar"),
            "{long:?}"
        );
        assert!(long[4].starts_with('l') && long[4].ends_with("link -> a.tar"));
        assert!(long[5].starts_with('d') && long[5].ends_with("sub/"));
        let deep = ways.ok(&["ls", "-R", place]);
        assert!(deep.contains(&"sub/deep/x".to_owned()), "{deep:?}");
        assert!(deep.contains(&"sub/deep/".to_owned()), "{deep:?}");
        assert_eq!(ways.ok(&["ls", &format!("{place}/a.tar")]), ["a.tar"]);
        let total = ways.ok(&["du", "-s", "-b", place]);
        let words: Vec<&str> = total[0].split_whitespace().collect();
        assert_eq!(
            (total.len(), words[0], words[1]),
            (1, "23", "11"),
            "{total:?}"
        );
        let each = ways.ok(&["du", "-b", place]);
        let sums: Vec<Vec<&str>> = each
            .iter()
            .map(|l| l.split_whitespace().collect())
            .collect();
        assert_eq!(
            sums.iter().map(|s| s[0]).collect::<Vec<_>>(),
            ["4", "7", "23"]
        );
        assert!(sums[0][2].ends_with("sub/deep"), "{each:?}");
        // Objects, the last of which sums up.
        let objects = ways.ok(&["ls", "--json", place]);
        let last: serde_json::Value = serde_json::from_str(objects.last().unwrap()).unwrap();
        assert_eq!(
            (&last["event"], &last["names"]),
            (&"summary".into(), &8.into())
        );
        let evil: serde_json::Value = serde_json::from_str(&objects[3]).unwrap();
        assert_eq!(evil["event"], "entry");
        assert!(evil["path_base64"].is_string(), "{evil}");
        let objects = ways.ok(&["du", "-s", "--json", place]);
        let first: serde_json::Value = serde_json::from_str(&objects[0]).unwrap();
        assert_eq!((&first["bytes"], &first["names"]), (&23.into(), &11.into()));
        ways.fails(&["ls", &format!("{place}/none")], 3, "none");
        ways.fails(&["du", &format!("{place}/none")], 3, "none");
    }
    // One that is missing keeps nobody from the others.
    let done = ways.run(&["ls", "far:none", "far:d/sub"]);
    assert_eq!(done.code, Some(6), "{}", done.err);
    assert_eq!(out(&done), ["far:d/sub:", "c.tar", "deep/"]);
    ways.fails(&["ls", "zero:5"], 2, "zero:5");
}

#[test]
fn rights_of_keys_hold_for_looking_too() {
    let site = Site::new(60);
    tree(&site.root(""));
    let with = |options: &str| site.grant(options);
    let run = |args: &[&str]| {
        let args = [&args[..1], &["--accept-new"], &args[1..]].concat();
        site.run(Host::Here, "client", &args, Input::None)
    };
    with("write-only");
    let server = site.serve();
    for args in [
        &["ls", &*server.url("d")][..],
        &["du", &server.url("d")],
        &["ls", &server.url("d/*.tar")],
        &["cp", &server.url("d/*.tar"), &site.file("x")],
    ] {
        let done = run(args);
        assert_eq!(done.code, Some(4), "{args:?}: {}", done.err);
    }
    server.stop();
    with("read-only");
    let server = site.serve();
    assert_eq!(run(&["ls", &server.url("d")]).code, Some(0));
    assert_eq!(run(&["clean", &server.url("d")]).code, Some(4));
    server.stop();
    with("no-delete");
    let server = site.serve();
    assert_eq!(run(&["clean", &server.url("d")]).code, Some(4));
    // Nothing above the root.
    for up in ["..", "../*", "d/../../*"] {
        let done = run(&["ls", &server.url(up)]);
        assert!(matches!(done.code, Some(3 | 4)), "{up}: {}", done.err);
        assert!(done.out.is_empty(), "{up}");
    }
    server.stop();
}

#[test]
fn names_with_wildcards_are_expanded_at_the_far_end() {
    let site = Site::new(400);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let server = site.serve();
    let ways = Ways {
        site: &site,
        ssh: sshd.ssh(),
    };
    tree(&site.root(""));
    let absolute = format!("far:{}", site.root("d/"));
    for (case, top) in [
        absolute,
        "far:~/d/".to_owned(),
        "far:d/".to_owned(),
        server.url("d/"),
    ]
    .iter()
    .enumerate()
    {
        let at = |pattern: &str| format!("{top}{pattern}");
        let to = |name: &str| site.file(&format!("{case}-{name}"));
        let names = |dir: &str| {
            let entries = fs::read_dir(dir).unwrap();
            let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name()).collect();
            names.sort();
            names
        };
        fs::create_dir(to("many")).unwrap();
        ways.ok(&["cp", &at("*.tar"), &to("many")]);
        assert_eq!(
            names(&to("many")),
            ["a.tar", "b.tar"],
            "{top}: no hidden ones"
        );
        // One match is that file; a name that is there is no pattern.
        ways.ok(&["cp", &at("a.*"), &to("one")]);
        assert_eq!(fs::read(to("one")).unwrap(), b"1");
        ways.ok(&["cp", &at("z[1].txt"), &to("literal")]);
        assert_eq!(fs::read(to("literal")).unwrap(), b"literal");
        ways.ok(&["cp", &at(r"z\[1].txt"), &to("escaped")]);
        assert_eq!(fs::read(to("escaped")).unwrap(), b"literal");
        ways.ok(&["cp", "-r", &at("s*"), &to("tree")]);
        assert_eq!(fs::read(to("tree") + "/deep/x").unwrap(), b"1234");
        let listed = ways.ok(&["ls", &at("*.tar")]);
        assert_eq!(listed.len(), 2, "{listed:?}");
        assert!(listed[0].ends_with("a.tar") && listed[1].ends_with("b.tar"));
        assert_eq!(ways.ok(&["ls", &at("s?b")]), ["c.tar", "deep/"]);
        let total = ways.ok(&["du", "-b", "-s", &at("[ab].tar")]);
        assert_eq!(total.len(), 2, "{total:?}");
        ways.ok(&["verify", &at("su*"), &to("tree")]);
        // Nothing matches: the pattern is named.
        for command in ["ls", "du"] {
            ways.fails(&[command, &at("*.zip")], 3, "*.zip");
        }
        ways.fails(&["cp", &at("*.zip"), &to("none")], 3, "*.zip");
        ways.fails(&["verify", &at("*.zip"), &to("tree")], 3, "*.zip");
        ways.fails(&["verify", &at("*.tar"), &to("tree")], 2, "*.tar");
        // Several, one of which nothing matches: the rest comes.
        fs::create_dir(to("rest")).unwrap();
        ways.fails(&["cp", &at("*.zip"), &at("a*"), &to("rest")], 6, "*.zip");
        assert_eq!(names(&to("rest")), ["a.tar"]);
        // Two stars are one.
        assert!(ways.ok(&["ls", &at("**.tar")]).len() == 2);
    }
    // From one machine to another.
    fs::create_dir(site.root("copies")).unwrap();
    ways.ok(&["cp", "far:d/*.tar", "far2:copies"]);
    assert!(Path::new(&site.root("copies/b.tar")).exists());
}

/// What a pattern found is a file, however it is called; so is what is named with `./` in front.
#[test]
fn a_file_that_is_called_like_made_up_bytes_is_that_file() {
    let site = Site::new(100);
    let server = site.serve();
    let ways = Ways {
        site: &site,
        ssh: "ssh".to_owned(),
    };
    for name in ["zero:5", "null:"] {
        fs::write(site.root(name), name).unwrap();
    }
    let to = |name: &str| site.file(name);
    for (index, (source, content)) in [
        ("zero?5", "zero:5"),
        ("zero*", "zero:5"),
        ("n*", "null:"),
        ("./zero:5", "zero:5"),
        ("zero:5", "\0\0\0\0\0"),
    ]
    .iter()
    .enumerate()
    {
        let copy = to(&format!("copy{index}"));
        ways.ok(&["cp", &server.url(source), &copy]);
        assert_eq!(fs::read_to_string(copy).unwrap(), *content, "{source}");
    }
    fs::write(to("new"), "new").unwrap();
    ways.ok(&["cp", &to("new"), &server.url("./null:")]);
    assert_eq!(fs::read_to_string(site.root("null:")).unwrap(), "new");
    ways.ok(&["cp", &to("new"), &server.url("null:")]);
    ways.ok(&["verify", &to("new"), &server.url("n*")]);
    ways.ok(&[
        "cp",
        "--remove-source-files",
        &server.url("z*"),
        &to("moved"),
    ]);
    assert_eq!(fs::read_to_string(to("moved")).unwrap(), "zero:5");
    assert!(!Path::new(&site.root("zero:5")).exists());
}

#[test]
fn clean_removes_what_nobody_writes_and_says_so() {
    let site = Site::new(120);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let server = site.serve();
    let ways = Ways {
        site: &site,
        ssh: sshd.ssh(),
    };
    let part = |digit: &str| format!("d/sub/.t.{}.howdah-part", digit.repeat(16));
    let journal = |digit: &str| format!("d/.t.{}.howdah-journal", digit.repeat(16));
    for place in [site.root("d"), "far:d".to_owned(), server.url("d")] {
        let place = &*place;
        fs::create_dir_all(site.root("d/sub")).unwrap();
        for name in [part("0"), journal("1"), part("2"), "d/file".to_owned()] {
            fs::write(site.root(&name), vec![1; 10_000]).unwrap();
        }
        let held = fs::File::open(site.root(&part("2"))).unwrap();
        rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let done = ways.run(&["clean", "--dry-run", place]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        let lines = out(&done);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(
            done.err.contains("2 names would be removed, "),
            "{}",
            done.err
        );
        assert!(done.err.contains("1 may be in use"), "{}", done.err);
        assert!(fs::exists(site.root(&part("0"))).unwrap());
        let young = ways.run(&["clean", "--older-than", "7d", place]);
        assert!(young.err.contains("0 names removed, 0 B"), "{}", young.err);
        let done = ways.run(&["clean", "--json", place]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        let last = done.json();
        assert_eq!(
            (&last["names"], &last["in_use"]),
            (&2.into(), &1.into()),
            "{last}"
        );
        assert!(last["bytes"].as_u64() >= Some(20_000), "{last}");
        assert!(!fs::exists(site.root(&part("0"))).unwrap());
        assert!(!fs::exists(site.root(&journal("1"))).unwrap());
        assert!(
            fs::exists(site.root(&part("2"))).unwrap(),
            "its writer lives"
        );
        assert!(fs::exists(site.root("d/file")).unwrap());
        drop(held);
        ways.ok(&["clean", place]);
        assert!(!fs::exists(site.root(&part("2"))).unwrap());
        ways.fails(&["clean", &format!("{place}/none")], 3, "none");
    }
}

#[test]
fn what_makes_no_sense_is_told_before_a_connection_is_made() {
    let site = Site::new(60);
    for (args, part) in [
        (&["ls"][..], "<PLACE>"),
        (&["ls", "null:"], "null:"),
        (&["ls", "h:x", "-"], "-"),
        (&["du", "zero:5"], "zero:5"),
        (&["clean", "-"], "-"),
        (&["clean", "--older-than", "soon", "h:x"], "not a time"),
        (&["ctl", "end", "1"], "<SESSION>"),
        (&["ctl", "drain", "all"], "all"),
    ] {
        let done = site.run(Host::Here, "client", args, Input::None);
        assert_eq!(done.code, Some(2), "{args:?}: {}", done.err);
        assert!(done.err.contains(part), "{args:?}: {}", done.err);
    }
}

#[test]
fn hostile_names_reach_no_terminal() {
    let site = Site::new(60);
    let server = site.serve();
    fs::create_dir(site.root("d")).unwrap();
    let name = std::ffi::OsStr::from_bytes(b"a\xff\x1b]0;x\x07\n");
    fs::write(Path::new(&site.root("d")).join(name), "x").unwrap();
    for args in [
        &["ls", "-l", &*server.url("d")][..],
        &["ls", &server.url("d/a*")],
        &["du", &server.url("d/a*")],
        &["ls", "--json", &server.url("d")],
    ] {
        let args = [&args[..1], &["--accept-new"], &args[1..]].concat();
        let done = site.run(Host::Here, "client", &args, Input::None);
        assert_eq!(done.code, Some(0), "{args:?}: {}", done.err);
        let text = String::from_utf8(done.out).unwrap();
        assert!(
            !text.trim_end().contains('\u{1b}') && text.lines().count() <= 2,
            "{text:?}"
        );
    }
}
