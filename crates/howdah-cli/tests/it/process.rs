//! The `howdah` program as scripts see it: exit codes, what is printed where, files it makes.
//!
//! Nothing here needs a network; transfers are tested in namespaces, elsewhere.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs howdah with its keys in `dir`; gives back exit code, standard output, standard error.
fn howdah(dir: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_howdah"));
    if rustix::process::geteuid().is_root() {
        command.env("HOWDAH_SERVE_USER", "root");
    }
    let output: Output = command
        .args(args)
        .env("HOWDAH_CONFIG_DIR", dir)
        .env("USER", "anna")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn a_key_is_made_once_shown_often_and_private() {
    let dir = tempfile::tempdir().unwrap();
    let keys = dir.path().join("keys");
    let (code, out, err) = howdah(&keys, &["key", "show"]);
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(err.contains("howdah key new"), "{err}");

    let (code, line, err) = howdah(&keys, &["key", "new"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        line.starts_with("howdah-ed25519 ") && line.contains(" anna@"),
        "{line}"
    );
    let file = keys.join("id_ed25519.pem");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(howdah(&keys, &["key", "show"]), (0, line, String::new()));

    let before = fs::read(&file).unwrap();
    let (code, _, err) = howdah(&keys, &["key", "new"]);
    assert_ne!(code, 0);
    assert!(err.contains("exists already"), "{err}");
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    howdah(dir.path(), &["key", "new"]);
    let file = dir.path().join("id_ed25519.pem");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let root = dir.path().to_str().unwrap();
    for args in [
        &["key", "show"][..],
        &["serve", "--root", root],
        &["cp", "a", "howdah://localhost/a"],
    ] {
        let (code, out, err) = howdah(dir.path(), args);
        assert_eq!((code, out.as_str()), (7, ""), "{args:?}: {err}");
        assert!(
            err.starts_with("howdah: others can read the private key "),
            "{err}"
        );
        assert!(err.contains("chmod 600"), "{err}");
    }
}

#[test]
fn a_copy_without_a_key_says_how_to_get_one() {
    let dir = tempfile::tempdir().unwrap();
    let (code, _, err) = howdah(dir.path(), &["cp", "a", "howdah://localhost/a"]);
    assert_eq!(code, 7);
    assert!(err.contains("howdah key new"), "{err}");
    assert!(!dir.path().join("id_ed25519.pem").exists());
}

#[test]
fn arguments_that_make_no_sense_are_a_usage_error() {
    let dir = tempfile::tempdir().unwrap();
    for (args, part) in [
        (&["frob"][..], "unrecognized subcommand"),
        (&["cp", "a"], "only place that is named"),
        (&["cp", "a", "b"], "both local"),
        (&["cp", "howdah://h/a", "howdah://h/b"], "both remote"),
        (&["cp", "null:", "howdah://h/b"], "only be the destination"),
        (&["cp", "a", "howdah://h:0/b"], "not a port"),
        (&["cp", "a", "howdah://[::1/b"], "missing ']'"),
        (&["cp", "zero:many", "howdah://h/b"], "not a size"),
        (&["cp", "a", "howdah://h/b", "--rate", "10"], "not a rate"),
        (&["cp", "a", "howdah://h/b", "--time", "5"], "not a time"),
        (&["serve"], "--root"),
        (&["serve", "--root", ".", "--listen", "here"], "--listen"),
        (&["wan", "--loss", "150%", "--hold"], "not a probability"),
        (&["wan", "--queue", "much", "--hold"], "25ms"),
        (&["wan", "--mtu", "100", "--hold"], "mtu"),
        (&["wan"], "--hold"),
    ] {
        let (code, out, err) = howdah(dir.path(), args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(
            err.starts_with("howdah: ") && err.contains(part),
            "{args:?}: {err}"
        );
    }
}

#[test]
fn a_failure_with_json_is_one_object_on_standard_output() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = howdah(dir.path(), &["cp", "--json", "a", "howdah://localhost/a"]);
    assert_eq!(code, 7);
    assert!(err.starts_with("howdah: "), "{err}");
    assert_eq!(out.lines().count(), 1);
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["schema"], 2);
    assert_eq!(value["event"], "error");
    assert_eq!(value["error"]["kind"], "auth");
    assert_eq!(value["error"]["exit_code"], 7);
    assert!(
        value["error"]["message"]
            .as_str()
            .unwrap()
            .contains("key new")
    );

    // Data has standard output for itself.
    let (_, out, err) = howdah(dir.path(), &["cp", "--json", "howdah://localhost/a", "-"]);
    assert_eq!(out, "");
    assert!(
        err.lines().next().unwrap().starts_with("{\"schema\":2,"),
        "{err}"
    );
}

#[test]
fn hostile_names_do_not_reach_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let (code, _, err) = howdah(dir.path(), &["cp", "a\x1b[2J\nb", "c"]);
    assert_eq!(code, 2);
    assert!(err.contains(r"a\u{1b}[2J\nb"), "{err}");
    assert_eq!(err.lines().count(), 1);
}

#[test]
fn a_server_names_what_is_wrong_with_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_str().unwrap();
    let (code, _, err) = howdah(dir.path(), &["serve", "--root", "/nonexistent/place"]);
    assert_eq!(code, 3);
    assert!(
        err.contains("/nonexistent/place is not a directory"),
        "{err}"
    );

    let missing = [
        "serve",
        "--root",
        root,
        "--authorized-keys",
        "/nonexistent/keys",
    ];
    let (code, _, err) = howdah(dir.path(), &missing);
    assert_eq!(code, 3, "{err}");
    for part in ["--authorized-keys /nonexistent/keys", "howdah key show"] {
        assert!(err.contains(part), "{err}");
    }

    let keys = dir.path().join("authorized_keys");
    fs::write(&keys, "# mine\nssh-ed25519 AAAA\n").unwrap();
    // Whatever the umask says.
    for (path, mode) in [(dir.path(), 0o700), (&*keys, 0o600)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let (code, _, err) = howdah(dir.path(), &["serve", "--root", root]);
    assert_eq!(code, 7);
    assert!(err.contains("authorized_keys:2: "), "{err}");

    fs::write(&keys, "").unwrap();
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o666)).unwrap();
    let (code, _, err) = howdah(dir.path(), &["serve", "--root", root]);
    assert_eq!(code, 7);
    assert!(err.contains("chmod go-w"), "{err}");
}

#[test]
fn help_version_and_completions_go_to_standard_output() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = howdah(dir.path(), &["--version"]);
    assert_eq!((code, err.as_str()), (0, ""));
    // Two builds of one version are not the same program.
    let start = format!("howdah {} (commit ", env!("CARGO_PKG_VERSION"));
    assert!(out.starts_with(&start) && out.ends_with(")\n"), "{out}");
    let (_, out, _) = howdah(dir.path(), &["-V"]);
    assert_eq!(out, format!("howdah {}\n", env!("CARGO_PKG_VERSION")));
    let (code, out, _) = howdah(dir.path(), &["--help"]);
    assert!(code == 0 && out.contains("Exit codes:") && !out.contains("internal"));
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, _) = howdah(dir.path(), &["completions", shell]);
        assert!(code == 0 && out.contains("howdah"), "{shell}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_howdah"))
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}
