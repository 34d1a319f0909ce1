//! What ssh lands in: shells of every kind, accounts that run nothing, login scripts that hang, options that keep ssh silent.
//! With a real sshd, whose forced commands stand for the accounts' shells.

use crate::support::process::{Done, Input, Process};
use crate::support::sshd::Sshd;
use crate::support::{Host, Site};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

const NETWORK: i32 = 5;
/// Keys, accounts and programs that are not as they must be.
const AUTH: i32 = 7;

/// A place whose account does what it is told to.
struct Account<'a> {
    site: &'a Site,
    ssh: String,
    key: String,
    keys: PathBuf,
}

impl<'a> Account<'a> {
    fn new(site: &'a Site, sshd: &Sshd) -> Self {
        let keys = sshd.file("authorized_keys");
        let key = fs::read_to_string(&keys).unwrap();
        fs::write(site.file("f"), "content").unwrap();
        let ssh = sshd.ssh();
        Self {
            site,
            ssh,
            key,
            keys,
        }
    }

    /// From now on it runs `command` instead of what it is asked for, which is `$SSH_ORIGINAL_COMMAND`.
    fn forces(&self, command: &str) {
        let command = command.replace('"', "\\\"");
        let line = format!("command=\"{command}\" {}", self.key);
        fs::write(&self.keys, line).unwrap();
    }

    fn start(&self, args: &[&str]) -> Process {
        let named = args.contains(&"--ssh");
        let ssh = ["--ssh", &*self.ssh];
        let ssh = if named { &[][..] } else { &ssh[..] };
        let args = [&["cp", "--json"], ssh, args].concat();
        self.site.start(Host::Here, "nobody", &args, Input::None)
    }

    fn put(&self, options: &[&str]) -> Done {
        let file = self.site.file("f");
        self.start(&[options, &[&file, "far:x"]].concat()).finish()
    }

    #[track_caller]
    fn assert_works(&self, options: &[&str]) {
        let _ = fs::remove_file(self.site.root("x"));
        let done = self.put(options);
        assert_eq!(done.code, Some(0), "{options:?}: {}", done.err);
        assert_eq!(fs::read(self.site.root("x")).unwrap(), b"content");
        let back = self.site.file("back");
        let get = [options, &["far:x", &back]].concat();
        let done = self.start(&get).finish();
        assert_eq!(done.code, Some(0), "{options:?}: {}", done.err);
    }
}

/// Where a program is; says that a part is skipped if it is not there.
fn program(name: &str) -> Option<String> {
    let places = ["/bin", "/usr/bin", "/usr/sbin", "/sbin"].map(|dir| format!("{dir}/{name}"));
    let found = places.into_iter().find(|path| Path::new(path).exists());
    if found.is_none() {
        println!("skipped in part: no {name}");
    }
    found
}

#[test]
fn t24_every_kind_of_shell_starts_a_far_end_and_says_what_is_missing() {
    let site = Site::new(200);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let account = Account::new(&site, &sshd);
    let howdah = site.root(".local/bin/howdah");
    for name in ["sh", "bash", "dash", "fish", "tcsh", "zsh", "ksh"] {
        let Some(shell) = program(name) else { continue };
        // A login script that lacks something is no howdah that is missing.
        let noise = "echo 'fortune: command not found' >&2; printf 'No such file or directory'";
        account.forces(&format!(
            "{noise}; exec {shell} -c \"$SSH_ORIGINAL_COMMAND\""
        ));
        account.assert_works(&[]);
        account.assert_works(&["--remote-howdah", &howdah]);
        let missing = account.put(&["--remote-howdah", "/nonexistent/howdah"]);
        missing.assert_failed(
            AUTH,
            &[
                "cannot start \"/nonexistent/howdah\"",
                "--remote-howdah PATH",
            ],
        );
        let ended = account.put(&["--remote-howdah", "sh -c 'exit 9' x"]);
        ended.assert_failed(NETWORK, &["exit status 9"]);
        assert!(
            !ended.err.contains("has no program"),
            "{name}: {}",
            ended.err
        );
        assert!(!ended.err.contains("cannot start"), "{name}: {}", ended.err);
    }
    fs::remove_file(&howdah).unwrap();
    if program("howdah").is_none() {
        account
            .put(&[])
            .assert_failed(AUTH, &["has no program 'howdah'"]);
    }
    // What is there cannot be started.
    fs::write(&howdah, "#!/nonexistent/interpreter\n").unwrap();
    std::process::Command::new("chmod")
        .args(["+x", &howdah])
        .status()
        .unwrap();
    account
        .put(&[])
        .assert_failed(AUTH, &["cannot start its howdah"]);
}

#[test]
fn t24_banners_do_not_judge() {
    let site = Site::new(100);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let account = Account::new(&site, &sshd);
    let script = site.file("ssh");
    for (number, (words, code)) in [
        ("Authentication attempts are logged\nConnection closed by 192.0.2.1 port 22", NETWORK),
        ("Permission denied to strangers\nkex_exchange_identification: Connection closed by remote host", NETWORK),
        ("x: Permission denied (publickey).\nssh: connect to host h port 22: Connection timed out", NETWORK),
        ("Host key verification failed.\nssh: Could not resolve hostname h: Name or service not known", NETWORK),
        ("All is well\nanna@h: Permission denied (publickey,password).", AUTH),
        ("No authentication here\nHost key verification failed.", AUTH),
        ("g: Permission denied (publickey).\nConnection closed by UNKNOWN port 65535", AUTH),
    ]
    .into_iter()
    .enumerate()
    {
        let text = format!(
            "#!/bin/sh\ncase \"$*\" in *-G*) echo hostname h; exit;; esac\ncat >&2 <<'E'\n{words}\nE\nexit 255\n"
        );
        let script = format!("{script}{number}");
        fs::write(&script, text).unwrap();
        let ssh = format!("sh {script}");
        for args in [[&*site.file("f"), "far:x"], ["far:x", &site.file("y")], ["far:x", "far2:y"]] {
            let args = [&["cp", "--json", "--ssh", &ssh], &args[..]].concat();
            let done = site.run(Host::Here, "nobody", &args, Input::None);
            done.assert_failed(code, &["ssh cannot reach far"]);
        }
    }
    drop(account);
}

#[test]
fn t31_accounts_that_run_nothing_are_told_as_what_they_are() {
    let site = Site::new(200);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let account = Account::new(&site, &sshd);
    for (shell, said, helps) in [
        ("rbash", "restricted shell", true),
        ("nologin", "may not log in", false),
        ("false", "/bin/false", false),
        ("true", "/bin/false", false),
        ("git-shell", "git's commands only", true),
    ] {
        let Some(shell) = program(shell) else {
            continue;
        };
        account.forces(&format!("exec {shell} -c \"$SSH_ORIGINAL_COMMAND\""));
        let done = account.put(&[]);
        done.assert_failed(AUTH, &["the account that ssh reached on far", said]);
        assert_eq!(
            done.err.contains("--remote-howdah howdah"),
            helps,
            "{}",
            done.err
        );
        let named = account.put(&["--remote-howdah", &site.root(".local/bin/howdah")]);
        named.assert_failed(AUTH, &[said]);
        let third = account.start(&["far:x", "far2:y"]).finish();
        third.assert_failed(AUTH, &[said]);
    }
    for (forced, said) in [
        ("internal-sftp", "sftp only"),
        (
            "echo This service allows sftp connections only.; exit 1",
            "sftp only",
        ),
        ("echo Welcome to the menu; exit 3", "forced command"),
        ("exit 255", "/bin/false"),
    ] {
        account.forces(forced);
        account.put(&[]).assert_failed(AUTH, &[said]);
        account
            .start(&["far:x", &site.file("y")])
            .finish()
            .assert_failed(AUTH, &[said]);
    }
    // What helps.
    if let Some(shell) = program("rbash") {
        account.forces(&format!("exec {shell} -c \"$SSH_ORIGINAL_COMMAND\""));
        account.assert_works(&["--remote-howdah", "howdah"]);
    }
    if let Some(shell) = program("git-shell") {
        fs::create_dir(site.root("git-shell-commands")).unwrap();
        symlink(
            env!("CARGO_BIN_EXE_howdah"),
            site.root("git-shell-commands/howdah"),
        )
        .unwrap();
        // It finds them from the home directory.
        account.forces(&format!("cd; exec {shell} -c \"$SSH_ORIGINAL_COMMAND\""));
        account.assert_works(&["--remote-howdah", "howdah"]);
    }
}

#[test]
fn t02_a_login_script_that_hangs_is_told_within_seconds() {
    let site = Site::new(200);
    let Some(mut sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let account = Account::new(&site, &sshd);
    let (file, back) = (site.file("f"), site.file("back"));
    let patience = Duration::from_secs(90);
    let said = "ssh has logged in to far, but no howdah has answered there";
    // It is not waited for for ever, however silent ssh is told to be.
    let silent = ["LogLevel=ERROR", "LogLevel=INFO"].map(|level| {
        let ssh = format!("{} -o {level}", sshd.ssh());
        account.forces("sleep 1000");
        let copy = account.start(&["--ssh", &ssh, &file, "far:x"]);
        sshd.await_line("Accepted publickey");
        copy
    });
    let mut waiting = Vec::new();
    for (forced, ends) in [
        ("sleep 1000", [&*file, "far:x"]),
        ("sleep 1000", ["far:x", &*back]),
        ("sleep 1000", ["far:x", "far2:y"]),
        ("printf 'Password: '; exec sleep 1000", [&*file, "far:x"]),
        (
            "while sleep 1; do echo still waiting; done",
            [&*file, "far:x"],
        ),
        ("cat >/dev/null; sleep 1000", ["far:x", "far2:y"]),
    ] {
        account.forces(forced);
        waiting.push(account.start(&ends));
        sshd.await_line("Accepted publickey");
    }
    for mut copy in waiting {
        let line = copy.await_line(said, patience);
        assert!(line.contains("a login script there"), "{line}");
        copy.signal(Signal::INT);
        assert_eq!(copy.finish().code, Some(12));
    }
    for copy in silent {
        let done = copy.finish();
        done.assert_failed(NETWORK, &[said, "within 45 s", "true' should end at once"]);
    }
}

#[test]
fn t02_a_login_script_that_eats_or_floods_is_blamed() {
    let site = Site::new(100);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let account = Account::new(&site, &sshd);
    for (forced, said) in [
        (
            "read x; eval \"$SSH_ORIGINAL_COMMAND\"",
            "has read standard input",
        ),
        (
            "head -c 3 >/dev/null; eval \"$SSH_ORIGINAL_COMMAND\"",
            "has read standard input",
        ),
        (
            "exec </dev/null; eval \"$SSH_ORIGINAL_COMMAND\"",
            "has read standard input",
        ),
        ("yes; eval \"$SSH_ORIGINAL_COMMAND\"", "prints without end"),
        (
            "yes | tr -d '\\n'; eval \"$SSH_ORIGINAL_COMMAND\"",
            "prints without end",
        ),
    ] {
        account.forces(forced);
        account
            .put(&[])
            .assert_failed(NETWORK, &["a login script", said]);
        let third = account.start(&["far:x", "far2:y"]).finish();
        third.assert_failed(NETWORK, &["a login script", said]);
    }
    // As much as somebody may have to say does no harm.
    account.forces("seq 1000; eval \"$SSH_ORIGINAL_COMMAND\"");
    account.assert_works(&[]);
}

#[test]
fn t02_options_that_keep_ssh_silent_do_not_keep_the_copy_away() {
    let site = Site::new(100);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let account = Account::new(&site, &sshd);
    let ssh = sshd.ssh();
    for options in [
        "-n",
        "-q",
        "-nq",
        "-v",
        "-tt",
        "-o LogLevel=QUIET",
        "-o LogLevel=DEBUG",
    ] {
        account.assert_works(&["--ssh", &format!("{ssh} {options}")]);
    }
    let config = fs::read_to_string(sshd.file("ssh_config")).unwrap();
    let probe = std::process::Command::new("ssh")
        .args(["-G", "h"])
        .output()
        .unwrap();
    if String::from_utf8_lossy(&probe.stdout).contains("stdinnull") {
        for setting in [
            "StdinNull yes",
            "SessionType none",
            "ForkAfterAuthentication yes",
        ] {
            let at = sshd.file("odd_config");
            fs::write(&at, format!("{setting}\n{config}")).unwrap();
            account.assert_works(&["--ssh", &format!("ssh -F {}", at.display())]);
        }
    } else {
        println!("skipped in part: this ssh has no such settings");
    }
    for options in ["-N", "-f", "-s", "-W h:1"] {
        let done = account.put(&["--ssh", &format!("{ssh} {options}")]);
        done.assert_failed(2, &["leave it out", &options[..2]]);
    }
    // What it says at another level is not shown.
    let done = account.put(&[]);
    for chatter in ["Authenticated to", "Transferred", "Bytes per second"] {
        assert!(!done.err.contains(chatter), "{}", done.err);
    }
}
