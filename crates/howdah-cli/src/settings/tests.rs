use super::*;
use crate::args;

fn config(text: &str) -> Result<ConfigFile, Error> {
    ConfigFile::parse(&commands(), std::path::Path::new("c.toml"), text)
}

/// The arguments of `howdah LINE` with a config file and variables.
fn run(text: &str, vars: &[(&str, &str)], line: &str) -> Result<args::CpArgs, String> {
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
    match Cli::from_arg_matches(&matches)
        .map_err(|e| e.to_string())?
        .command
    {
        args::Command::Cp(args) => Ok(*args),
        other => panic!("{other:?}"),
    }
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
