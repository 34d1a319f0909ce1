use super::*;
use crate::args;

fn config(text: &str) -> Result<ConfigFile, Error> {
    ConfigFile::parse(&commands(), std::path::Path::new("c.toml"), text)
}

/// The arguments of `howdah LINE` with a config file and variables.
fn run(text: &str, vars: &[(&str, &str)], line: &str) -> Result<args::CpArgs, String> {
    match command(text, vars, line)? {
        args::Command::Cp(args) => Ok(*args),
        other => panic!("{other:?}"),
    }
}

fn command(text: &str, vars: &[(&str, &str)], line: &str) -> Result<args::Command, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let words = std::iter::once("howdah").chain(line.split(' '));
    let var = |name: &str| {
        if name == "HOWDAH_CONFIG" {
            return Some(file.path().as_os_str().to_owned());
        }
        let found = vars.iter().find(|(n, _)| *n == name);
        found.map(|(_, value)| OsString::from(value))
    };
    let matches = matches(words.map(OsString::from).collect(), var);
    let matches = matches.map_err(|failure| match failure {
        Failure::Usage(error) => error.to_string(),
        Failure::Settings(error) => error.to_string(),
    })?;
    let cli = Cli::from_arg_matches(&matches).map_err(|e| e.to_string())?;
    Ok(cli.command)
}

fn limit(text: &str, vars: &[(&str, &str)], line: &str) -> String {
    let args = run(text, vars, line).unwrap();
    args.connect
        .pace
        .limit
        .map_or_else(|| "none".to_owned(), |limit| limit.to_string())
}

#[test]
fn a_flag_is_stronger_than_the_environment_and_that_than_the_file() {
    let file = "limit = '1gbit'\n[cp]\nlimit = '2gbit'\n[host.\"site\"]\nlimit = '3gbit'\n";
    let env = [("HOWDAH_LIMIT", "4gbit")];
    let put = "cp a howdah://other/b";
    let to_site = "cp a howdah://SITE:99/b";
    assert_eq!(limit("", &[], put), "none");
    assert_eq!(limit("limit = '1gbit'", &[], put), "1gbit");
    assert_eq!(limit(file, &[], put), "2gbit");
    assert_eq!(limit(file, &[], to_site), "3gbit");
    assert_eq!(limit(file, &env, to_site), "4gbit");
    assert_eq!(
        limit(file, &env, "cp --limit 5gbit a howdah://site/b"),
        "5gbit"
    );
    assert_eq!(
        limit(
            file,
            &env,
            "--color never cp --limit=5gbit a howdah://site/b"
        ),
        "5gbit"
    );
    assert_eq!(
        limit(file, &[("HOWDAH_LIMIT", "")], to_site),
        "3gbit",
        "empty is unset"
    );
}

#[test]
fn switches_can_be_turned_off_again() {
    let put = "cp a howdah://other/b";
    assert!(
        run("accept-new = true", &[], put)
            .unwrap()
            .connect
            .keys
            .accept_new
    );
    assert!(
        !run("accept-new = false", &[], put)
            .unwrap()
            .connect
            .keys
            .accept_new
    );
    assert!(
        !run("accept-new = true", &[("HOWDAH_ACCEPT_NEW", "no")], put)
            .unwrap()
            .connect
            .keys
            .accept_new
    );
    assert!(
        !run(
            "accept-new = true",
            &[],
            "cp --no-accept-new a howdah://h/b"
        )
        .unwrap()
        .connect
        .keys
        .accept_new
    );
    assert!(
        run("", &[("HOWDAH_ACCEPT_NEW", "1")], put)
            .unwrap()
            .connect
            .keys
            .accept_new
    );
}

/// Only what was typed clashes, and only what was typed needs something beside it.
#[test]
fn a_habit_that_has_no_place_is_silent() {
    let sync = |text: &str, line: &str| match command(text, &[], line) {
        Ok(args::Command::Sync(args)) => *args,
        other => panic!("{text} {line}: {other:?}"),
    };
    let many = "delete-all = true\nmax-delete = 5\nnumeric-ids = true\n";
    let plain = sync(many, "sync a h:b");
    assert!(!plain.delete_all && plain.max_delete.is_none() && !plain.tree.numeric_ids);
    let all = sync(many, "sync -a --delete a h:b");
    assert!(all.delete_all && all.max_delete == Some(5) && all.tree.numeric_ids);
    let both = sync("numeric-ids = true\narchive = true", "sync a h:b");
    assert!(both.tree.numeric_ids && both.tree.archive);
    let checked = sync(
        "checksum = true\nno-record = true",
        "sync --size-only a h:b",
    );
    assert!(checked.tree.size_only && !checked.tree.checksum && checked.flight.no_record);
    let recorded = sync("no-record = true", "sync --record r a h:b");
    assert!(recorded.flight.record.is_some() && !recorded.flight.no_record);
    let text = format!(
        "{many}archive = true\nexclude = ['x']\nchecksum = true\nmin-size = '1k'\ngitignore = true\nrecursive = true"
    );
    for line in [
        "cp h:a -",
        "cp - h:a",
        "cp zero:5 h:null:",
        "cp h:zero:5 null:",
    ] {
        let args = run(&text, &[], line).unwrap();
        assert!(
            !args.tree.archive && args.select.is_empty() && !args.is_tree(),
            "{line}"
        );
    }
    assert!(run(&text, &[], "cp h:a b").unwrap().tree.archive);
    assert!(
        run(&text, &[], "cp -a h:a -")
            .unwrap_err()
            .contains("files and directories")
    );
}

/// It would take away by habit.
#[test]
fn what_destroys_is_no_habit() {
    for key in ["delete", "remove-source-files"] {
        let error = command(&format!("{key} = true"), &[], "sync a h:b").unwrap_err();
        assert!(error.contains(key), "{error}");
        let name = format!("HOWDAH_{}", key.replace('-', "_").to_uppercase());
        let taken = command("", &[(&name, "true")], "sync a h:b");
        let Ok(args::Command::Sync(args)) = taken else {
            panic!("{taken:?}");
        };
        assert!(!args.delete && !args.outcome.remove_source_files);
    }
}

#[test]
fn a_key_that_is_not_known_is_named_with_the_nearest_one() {
    for (text, part) in [
        (
            "limt = '1gbit'",
            "c.toml:1: there is no key 'limt'; did you mean 'limit'?",
        ),
        (
            "\n\n[cp]\naccept_new = true",
            "c.toml:4: there is no key 'accept_new'; did you mean 'accept-new'?",
        ),
        (
            "[copy]\nlimit = '1gbit'",
            "c.toml:1: there is no section [copy]",
        ),
        (
            "[host.\"a\"]\nroot = '/'",
            "c.toml:2: there is no key 'root'",
        ),
        ("json = true", "there is no key 'json'"),
        ("accept-new = 'yes'", "'accept-new' must be true or false"),
        ("limit = ['a', 'b']", "'limit' must be a text or a number"),
        ("limit = ", "c.toml:1: "),
    ] {
        let error = config(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
        assert!(error.starts_with("c.toml:"), "{error}");
    }
}

#[test]
fn a_value_that_makes_no_sense_is_named_with_its_place() {
    let put = "cp a howdah://other/b";
    let error = run("# mine\nlimit = 'fast'", &[], put).unwrap_err();
    assert!(
        error.contains(":2: limit = 'fast': 'fast' is not a rate"),
        "{error}"
    );
    let error = run("", &[("HOWDAH_POLICY", "greedy")], put).unwrap_err();
    assert!(
        error.starts_with("HOWDAH_POLICY: policy = 'greedy': "),
        "{error}"
    );
    let error = run("", &[("HOWDAH_ACCEPT_NEW", "perhaps")], put).unwrap_err();
    assert!(error.contains("write true or false"), "{error}");
}

#[test]
fn help_is_there_whatever_the_file_says() {
    let error = run("limt = 1", &[], "cp --help").unwrap_err();
    assert!(error.contains("howdah cp big.tar"), "{error}");
}

#[test]
fn hosts_are_found_in_all_forms() {
    for (text, want) in [
        ("howdah://Site:4433/x", Some("site")),
        ("howdah://[fe80::1]:4433/x", Some("fe80::1")),
        ("anna@site.example.org:data/x", Some("site.example.org")),
        ("site:x", Some("site")),
        ("[::1]:x", Some("::1")),
        ("dir/with:colon", None),
        ("zero:5GiB", None),
        ("null:", None),
        ("file", None),
    ] {
        assert_eq!(remote_host(text).as_deref(), want, "{text}");
    }
    assert!(file::fits("*.example.org", "a.example.org"));
    assert!(!file::fits("*.example.org", ".example.org"));
    assert!(!file::fits("example.org", "a.example.org"));
}
