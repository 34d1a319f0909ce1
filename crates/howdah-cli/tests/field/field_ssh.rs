//! ssh as it is: login scripts that talk, options that differ, users of domains.

use crate::support::process::{Done, Input};
use crate::support::sshd::Sshd;
use crate::support::{Host, Site};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

const NETWORK: i32 = 5;
const AUTH: i32 = 7;

/// An `ssh` that runs the command here after it has said `noise`, and ends as the command does.
fn fake_ssh(site: &Site, noise: &str) -> String {
    let path = site.file("ssh");
    let script = format!(
        "#!/bin/sh\nfor last; do :; done\ncase \"$*\" in *-G*) echo hostname 127.0.0.1; exit;; *' -O '*) exit 1;; esac\n\
         printf '%s' \"$*\" >{}\nprintf '{noise}'\nHOME={home}\nPATH={home}/.local/bin:$PATH\nexport HOME PATH\neval \"$last\"\n",
        site.file("args"),
        home = site.root(""),
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    // What the far end is called by, whatever is installed on this machine.
    let bin = site.root(".local/bin");
    fs::create_dir_all(&bin).unwrap();
    let _ = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_howdah"), format!("{bin}/howdah"));
    path
}

fn copy(site: &Site, args: &[&str]) -> Done {
    let args = [&["cp", "--json"], args].concat();
    site.run(Host::Here, "nobody", &args, Input::None)
}

#[test]
fn t02_what_a_login_script_says_does_not_hide_the_far_end() {
    let site = Site::new(120);
    fs::write(site.file("f"), "content").unwrap();
    for (number, noise) in [
        "Welcome ",
        "Welcome\\n",
        "\\033]0;title of the window\\007",
        "\\r\\033[2Khowdah-far-end \\033[0m",
        "no newline, but { braces } and howdah-far-end ",
    ]
    .iter()
    .enumerate()
    {
        let ssh = fake_ssh(&site, noise);
        let there = format!("far:new{number}");
        let done = copy(&site, &["--ssh", &ssh, &site.file("f"), &there]);
        assert_eq!(done.code, Some(0), "{noise}: {}", done.err);
        assert_eq!(
            fs::read(site.root(&format!("new{number}"))).unwrap(),
            b"content"
        );
        let back = site.file("back");
        let done = copy(&site, &["--ssh", &ssh, &there, &back]);
        assert_eq!(done.code, Some(0), "{noise}: {}", done.err);
        // As the source and the destination of a copy between two others.
        let third = format!("far2:third{number}");
        let done = copy(&site, &["--ssh", &ssh, &there, &third]);
        assert_eq!(done.code, Some(0), "{noise}: {}", done.err);
        assert_eq!(
            fs::read(site.root(&format!("third{number}"))).unwrap(),
            b"content"
        );
    }
}

#[test]
fn t12_users_are_what_ssh_takes() {
    let site = Site::new(60);
    fs::write(site.file("f"), "content").unwrap();
    let ssh = fake_ssh(&site, "");
    for user in [
        "CORP\\anna",
        "anna of sales",
        "pay$roll",
        "anna@corp.example",
        "a#b",
    ] {
        let done = copy(
            &site,
            &["--ssh", &ssh, &site.file("f"), &format!("{user}@far:x")],
        );
        assert_eq!(done.code, Some(0), "{user}: {}", done.err);
        let args = fs::read_to_string(site.file("args")).unwrap();
        assert!(args.contains(&format!("-l {user} ")), "{user}: {args}");
    }
    for user in ["-oProxyCommand=x", "a;b", "a`b`", "a -l b", "a\\"] {
        let done = copy(
            &site,
            &["--ssh", &ssh, &site.file("f"), &format!("{user}@far:x")],
        );
        assert_eq!(done.code, Some(2), "{user}: {}", done.err);
    }
}

#[test]
fn t14_a_kept_connection_serves_the_same_options_only() {
    let site = Site::new(120);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    fs::write(site.file("f"), "content").unwrap();
    let run = |ssh: &str, keep: &str| {
        let (from, args) = (site.file("f"), ["cp", "--json", "--ssh"]);
        let args = [&args[..], &[ssh, "--ssh-keep", keep, &*from, "far:x"]].concat();
        site.run(Host::Here, "nobody", &args, Input::None)
    };
    let ssh = sshd.ssh();
    assert_eq!(run(&ssh, "60s").code, Some(0));
    // With these there is no connection, so the kept one must not serve.
    for (options, code) in [
        ("-o ProxyCommand=false", NETWORK),
        ("-o PubkeyAuthentication=no", AUTH),
        ("-o UserKnownHostsFile=/dev/null", AUTH),
    ] {
        let done = run(&format!("{ssh} {options}"), "60s");
        assert_eq!(done.code, Some(code), "{options}: {}", done.err);
    }
    assert_eq!(run(&ssh, "60s").code, Some(0));
    for entry in fs::read_dir(site.run_dir().join("howdah")).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains("/ssh-") {
            let control = format!("ControlPath={}", path.display());
            let done = std::process::Command::new("ssh")
                .args(["-O", "exit", "-o", &control, "far"])
                .output();
            assert!(done.unwrap().status.success());
        }
    }
}
