use super::*;
use crate::args::Cli;
use crate::commands;
use crate::settings;
use clap::FromArgMatches as _;
use std::ffi::OsString;

/// A value that makes sense, for each option that has one.
const VALUES: [(&str, &str); 39] = [
    ("backup-dir", "old"),
    ("chmod", "D755"),
    ("chown", "anna"),
    ("epoch", "1"),
    ("exclude", "*.o"),
    ("exclude-from", "leave"),
    ("files-from", "list"),
    ("identity", "key"),
    ("idle-timeout", "9s"),
    ("include", "*.c"),
    ("include-from", "take"),
    ("known-hosts", "known"),
    ("lease", "1"),
    ("limit", "2gbit"),
    ("link-dest", "../monday"),
    ("log-file", "log"),
    ("manifest", "sums"),
    ("manifest-hash", "b3"),
    ("max-age", "9d"),
    ("max-delete", "9"),
    ("loops", "2"),
    ("max-size", "9MB"),
    ("memory", "64MiB"),
    ("min-age", "1d"),
    ("min-size", "1MB"),
    ("plan", "plan"),
    ("policy", "background"),
    ("port", "4433"),
    ("rate", "1gbit"),
    ("receipt", "signed"),
    ("reconnect", "1min"),
    ("record", "flight"),
    ("remote-howdah", "howdah"),
    ("share", "1/8"),
    ("ssh", "ssh -v"),
    ("ssh-keep", "9s"),
    ("time", "9s"),
    ("trace", "trace"),
    ("wait-for-space", "9s"),
];
/// What an option wants beside it.
const WITH: [(&str, &[&str]); 7] = [
    ("numeric-ids", &["-a"]),
    ("from0", &["--files-from", "list"]),
    ("manifest-hash", &["--manifest", "sums"]),
    ("delete-all", &["--delete"]),
    ("max-delete", &["--delete"]),
    ("lease", &["--plan", "plan"]),
    ("epoch", &["--plan", "plan", "--lease", "1"]),
];

struct Lines(Command);

impl Lines {
    fn new() -> Self {
        Self(settings::commands())
    }

    /// The options of a command but for those of leases.
    fn options(&self, name: &str) -> Vec<String> {
        let command = self.0.find_subcommand(name).unwrap();
        let all = command.get_arguments().filter_map(|arg| arg.get_long());
        let others = ["help", "color", "job-record", "plan", "lease", "epoch"];
        let all = all.filter(|long| !others.contains(long));
        all.map(str::to_owned).collect()
    }

    /// As it is written, with what it wants.
    fn written(&self, name: &str, long: &str) -> Vec<String> {
        let command = self.0.find_subcommand(name).unwrap();
        let mut args = command.get_arguments();
        let arg = args.find(|arg| arg.get_long() == Some(long)).unwrap();
        let mut written = vec![format!("--{long}")];
        if arg.get_action().takes_values() {
            let value = VALUES.iter().find(|(of, _)| *of == long);
            let value = value.map(|(_, value)| (*value).to_owned());
            // The last one is never what holds anyway.
            let kinds = arg.get_possible_values();
            let kind = || Some(kinds.last()?.get_name().to_owned());
            written.push(value.or_else(kind).expect(long));
        }
        let with = WITH.iter().find(|(of, _)| *of == long);
        written.extend(
            with.iter()
                .flat_map(|(_, with)| with.iter().map(|&arg| arg.into())),
        );
        written
    }

    /// Why that is no command line.
    fn refusal(&mut self, words: &[&str]) -> Option<String> {
        let line = std::iter::once("howdah").chain(words.iter().copied());
        let line: Vec<OsString> = line.map(OsString::from).collect();
        let matches = match self.0.try_get_matches_from_mut(line) {
            Ok(matches) => matches,
            Err(error) => return Some(error.to_string()),
        };
        let (name, sub) = matches.subcommand().unwrap();
        let command = self.0.find_subcommand(name).unwrap();
        let clash = Line::new(command, sub, sub).clash();
        clash.or_else(|| {
            let cli = Cli::from_arg_matches(&matches).unwrap();
            commands::check(&cli.command).err().map(|e| e.to_string())
        })
    }

    /// Each option that is refused beside another one, with those that it is not refused beside of without that, `a: b c`.
    fn clashes(&mut self, name: &str, places: &[&str]) -> Vec<String> {
        let options = self.options(name);
        let written: Vec<_> = options
            .iter()
            .map(|long| self.written(name, long))
            .collect();
        let line = |parts: &[&Vec<String>]| -> Vec<String> {
            let mut words = vec![name.to_owned()];
            words.extend(parts.iter().flat_map(|part| part.iter().cloned()));
            words.extend(places.iter().map(|&place| place.to_owned()));
            words
        };
        let mut refused = |parts: &[&Vec<String>]| {
            let words = line(parts);
            let words: Vec<_> = words.iter().map(|word| &**word).collect();
            self.refusal(&words)
        };
        let mut found = Vec::new();
        for (at, one) in written.iter().enumerate() {
            if let Some(why) = refused(&[one]) {
                found.push(format!("{}: never", options[at]));
                let mut flags = one.iter().filter(|word| word.starts_with('-'));
                assert!(
                    flags.any(|flag| why.contains(&**flag) || why.contains(&flag[1..3])),
                    "{why}"
                );
                continue;
            }
            let mut others = Vec::new();
            for (other_at, other) in written.iter().enumerate().skip(at + 1) {
                if refused(&[other]).is_some() {
                    continue;
                }
                if let Some(why) = refused(&[one, other]) {
                    let named = |long: &str| {
                        let short = ["archive", "preserve", "recursive"].contains(&long);
                        why.contains(&format!("--{long}"))
                            || short && why.contains(&format!("-{}", &long[..1]))
                    };
                    let (one, other) = (&options[at], &options[other_at]);
                    let both = named(one) || WITH.iter().any(|(of, _)| of == one);
                    let both = both && (named(other) || WITH.iter().any(|(of, _)| of == other));
                    assert!(both, "--{one} and --{other}: {why}");
                    others.push(other.as_str());
                }
            }
            if !others.is_empty() {
                found.push(format!("{}: {}", options[at], others.join(" ")));
            }
        }
        found
    }
}

fn check(name: &str, places: &[&str], expected: &[&str]) {
    let found = Lines::new().clashes(name, places);
    assert_eq!(found, expected, "{name} {places:?}: {found:#?}");
}

#[test]
fn what_clashes_where_files_go_to_a_server() {
    check(
        "cp",
        &["a", "howdah://h/b"],
        &[
            "preserve: no-perms",
            "checksum: size-only ignore-existing",
            "size-only: ignore-existing",
            "update: receipt",
            "ignore-existing: receipt",
            "copy-links: remove-source-files",
            "link-dest: remove-source-files",
            "dry-run: manifest receipt manifest-hash record",
            "manifest: receipt",
            "receipt: manifest-hash remove-source-files",
            "include: never",
            "quiet: progress each-file",
            "port: never",
            "policy: rate share",
            "rate: share",
            "time: never",
            "record: no-record",
        ],
    );
}

#[test]
fn what_clashes_where_files_come_through_ssh() {
    check(
        "cp",
        &["h:a", "b"],
        &[
            "preserve: no-perms",
            "checksum: size-only ignore-existing",
            "size-only: ignore-existing",
            "update: receipt",
            "ignore-existing: receipt",
            "copy-links: remove-source-files",
            "link-dest: remove-source-files",
            "dry-run: manifest receipt manifest-hash record",
            "manifest: receipt",
            "receipt: manifest-hash remove-source-files",
            "include: never",
            "quiet: progress each-file",
            "identity: never",
            "known-hosts: never",
            "policy: rate share",
            "rate: share",
            "time: never",
            "record: no-record",
        ],
    );
}

#[test]
fn what_clashes_in_a_mirror() {
    check(
        "sync",
        &["a", "howdah://h/b"],
        &[
            "checksum: size-only ignore-existing",
            "size-only: ignore-existing",
            "update: receipt",
            "ignore-existing: receipt backup-dir",
            "copy-links: remove-source-files",
            "link-dest: remove-source-files",
            "dry-run: manifest receipt manifest-hash record",
            "manifest: receipt",
            "receipt: manifest-hash remove-source-files",
            "delete: remove-source-files files-from from0",
            "delete-all: remove-source-files files-from from0",
            "max-delete: remove-source-files files-from from0",
            "include: never",
            "quiet: progress each-file",
            "port: never",
            "policy: rate share",
            "rate: share",
            "no-resume: reconnect",
            "record: no-record",
        ],
    );
}

#[test]
fn what_clashes_with_pipes() {
    check(
        "cp",
        &["-", "howdah://h/b"],
        &[
            "recursive: never",
            "preserve: never",
            "archive: never",
            "numeric-ids: never",
            "one-file-system: never",
            "checksum: never",
            "size-only: never",
            "update: never",
            "ignore-existing: never",
            "copy-links: never",
            "keep-dirlinks: never",
            "chmod: never",
            "chown: never",
            "no-perms: never",
            "mkpath: never",
            "link-dest: never",
            "dry-run: never",
            "manifest: never",
            "receipt: never",
            "manifest-hash: never",
            "growing: never",
            "remove-source-files: never",
            "exclude: never",
            "include: never",
            "exclude-from: never",
            "include-from: never",
            "files-from: never",
            "from0: never",
            "gitignore: never",
            "min-size: never",
            "max-size: never",
            "min-age: never",
            "max-age: never",
            "quiet: progress each-file",
            "port: never",
            "policy: rate share",
            "rate: share",
            "record: no-record",
        ],
    );
}

#[test]
fn what_clashes_in_a_comparison() {
    check(
        "verify",
        &["a", "howdah://h/b"],
        &[
            "manifest: never",
            "manifest-hash: never",
            "quick: reread",
            "include: never",
            "quiet: progress",
            "port: never",
            "policy: rate share",
            "rate: share",
        ],
    );
}

#[test]
fn what_a_lease_heeds() {
    let mut lines = Lines::new();
    let mut heeded = Vec::new();
    for long in lines.options("cp") {
        let mut words = vec![
            "cp".to_owned(),
            "--plan".to_owned(),
            "p".to_owned(),
            "--lease".to_owned(),
            "1".to_owned(),
        ];
        words.extend(lines.written("cp", &long));
        let words: Vec<_> = words.iter().map(|word| &**word).collect();
        match lines.refusal(&words) {
            None => heeded.push(long),
            Some(why) => assert!(
                why.contains("--plan") && why.contains(&words[5][..2]),
                "{long}: {why}"
            ),
        }
    }
    assert_eq!(
        heeded,
        [
            "json",
            "quiet",
            "progress",
            "log-file",
            "ssh",
            "remote-howdah",
            "port",
            "ssh-keep",
            "transport",
            "accept-new",
            "identity",
            "known-hosts",
            "no-memory",
            "policy",
            "rate",
            "share",
            "limit",
            "idle-timeout",
            "wait-for-space",
            "reconnect",
            "each-file",
            "record",
            "no-record",
            "trace",
        ]
    );
}

#[test]
fn third_flags_values_and_files_decide() {
    let mut lines = Lines::new();
    let to = "howdah://h/b";
    for (words, part) in [
        (
            &["cp", "--policy", "fair", "--rate", "1gbit", "a", to][..],
            "--policy fair",
        ),
        (&["cp", "--policy", "fixed", "a", to], "--rate"),
        (
            &[
                "cp",
                "-r",
                "--min-size",
                "2MB",
                "--max-size",
                "1MB",
                "a",
                to,
            ],
            "--max-size",
        ),
        (
            &["cp", "-r", "--trace", "x", "--log-file", "./x", "a", to],
            "name one file",
        ),
        (
            &["cp", "-r", "--files-from", "x", "--trace", "x", "a", to],
            "name one file",
        ),
        (
            &["cp", "-r", "--record", "/./x", "--manifest", "/x", "a", to],
            "name one file",
        ),
        (&["cp", "--verify", "reread", to, "-"], "--verify"),
        (
            &["cp", "--verify", "reread", "zero:1", "h:null:"],
            "--verify",
        ),
        (&["cp", "--port", "5000", "a", to], "howdah://HOST:PORT"),
        (&["cp", "--identity", "key", "a", "h:b"], "ssh -i"),
        (
            &["verify", "--known-hosts", "known", "a", "h:b"],
            "UserKnownHostsFile",
        ),
        (&["ls", "--port", "5000", to], "--port"),
        (
            &["cp", "--plan", "p", "--lease", "1", "--exclude", "x"],
            "--exclude",
        ),
    ] {
        let why = lines.refusal(words);
        assert!(
            why.as_ref().is_some_and(|why| why.contains(part)),
            "{words:?}: {why:?}"
        );
    }
    for words in [
        &["cp", "--policy", "fixed", "--rate", "1gbit", "a", to][..],
        &[
            "cp",
            "-r",
            "--ignore-existing",
            "--checksum",
            "--link-dest",
            "../d",
            "a",
            to,
        ],
        &[
            "sync",
            "--ignore-existing",
            "--delete",
            "--backup-dir",
            "old",
            "a",
            to,
        ],
        &["cp", "-r", "--include", "*.c", "--exclude", "*", "a", to],
        &["cp", "-qv", "--json", "-r", "a", to],
        &[
            "cp",
            "--trace",
            "/dev/null",
            "--record",
            "f",
            "--log-file",
            "/dev/null",
            "a",
            to,
        ],
        &["sync", "--reconnect", "0s", "--no-resume", "a", to],
        &["cp", "--verify", "reread", "-", to],
        &["cp", "--port", "5000", "h:a", "b"],
        &["cp", "--identity", "key", "--receipt", "r", "h:a", "b"],
    ] {
        assert_eq!(lines.refusal(words), None, "{words:?}");
    }
}
