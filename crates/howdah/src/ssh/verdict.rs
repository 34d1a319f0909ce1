//! What the end of ssh without an answer means, sorted by what its user can do about it.
//!
//! Banners and login scripts may say anything. What counts is how far the command came that was asked for, as it says itself;
//! else ssh's exit status, and if that is of ssh itself, its last line.

use super::command::{ABSENT, BEGUN};
use super::process::{LastWords, SSH_FAILED, describe};
use crate::SshConfig;
use crate::{Error, ErrorKind};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::Path;

/// Last lines that are kept to explain a failure.
const KEPT_LINES: usize = 4;
/// Most of a line that is kept, in characters.
const KEPT_CHARS: usize = 300;

/// What has come from the far side before its answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    /// The shell there has come to what it was told.
    pub(super) begun: bool,
    /// It has found no howdah.
    pub(super) absent: bool,
    /// Last lines of what else was said.
    pub(super) noise: VecDeque<String>,
}

impl Heard {
    /// Takes a line in; what of it is for people.
    pub(super) fn hear(&mut self, line: &[u8]) -> Option<String> {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end();
        // Something without a newline may stand before it.
        let rest = match (line.strip_suffix(BEGUN), line.strip_suffix(ABSENT)) {
            (Some(rest), _) => {
                self.begun = true;
                rest
            }
            (_, Some(rest)) => {
                self.absent = true;
                rest
            }
            _ => line,
        };
        if rest.trim().is_empty() {
            return None;
        }
        if self.noise.len() == KEPT_LINES {
            self.noise.pop_front();
        }
        self.noise
            .push_back(rest.chars().take(KEPT_CHARS).collect());
        Some(rest.to_owned())
    }
}

/// What an account is that does not run what it is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Account {
    /// rbash, rksh, rssh and their like.
    Restricted,
    /// nologin and its like.
    NoLogin,
    SftpOnly,
    /// git-shell and its like.
    GitOnly,
    /// /bin/false, or a login script that ends it.
    Silent,
    Other,
}

/// Exit status of OpenSSH's sftp server when something else than sftp comes in.
const NOT_SFTP: i32 = 11;

impl Account {
    /// By what it says (of which the last lines are told) and by its exit status.
    fn of(said: &[&str], code: i32) -> Self {
        let says = |parts: &[&str]| {
            let mut lines = said.iter().map(|line| line.to_ascii_lowercase());
            lines.any(|line| parts.iter().any(|part| line.contains(part)))
        };
        if says(&["sftp"]) || (code == NOT_SFTP && said.is_empty()) {
            Self::SftpOnly
        } else if says(&[
            ": restricted",
            ":restricted",
            "is restricted",
            "restricted shell",
        ]) {
            Self::Restricted
        } else if says(&[
            "git shell",
            "git-shell",
            "git command",
            "fatal: unrecognized command",
        ]) {
            Self::GitOnly
        } else if says(&[
            "account is",
            "not available",
            "nologin",
            "no login",
            "no shell",
        ]) {
            Self::NoLogin
        } else if said.is_empty() {
            Self::Silent
        } else {
            Self::Other
        }
    }

    fn error(self, host: &str, config: &SshConfig, how: &str) -> Error {
        let howdah = config.remote_howdah.as_deref();
        let (what, help) = match self {
            Self::Restricted => (
                "has a restricted shell, which starts only what its administrator has put into its search path",
                match howdah {
                    Some(howdah) if !howdah.contains('/') => {
                        "; with howdah there, it can be started by its name"
                    }
                    _ => {
                        "; with howdah there, --remote-howdah howdah starts it (a name: such a shell takes no path with '/')"
                    }
                },
            ),
            Self::NoLogin => ("may not log in to run commands", ""),
            Self::SftpOnly => ("is for sftp only and runs no commands", ""),
            Self::GitOnly => (
                "runs git's commands only",
                "; if howdah is among its git-shell-commands, --remote-howdah howdah starts it",
            ),
            Self::Silent => (
                "runs no commands: its shell is /bin/false or nologin, or a login script ends it before",
                "",
            ),
            Self::Other => (
                "does not run what it is told: it has a forced command, a shell of another kind, or a login script that ends it before",
                "; --remote-howdah COMMAND names one that it takes, and command=\"howdah internal far-end\" in its \
                 authorized_keys forces howdah",
            ),
        };
        let text = format!(
            "the account that ssh reached on {host} {what} ({how}){help}; else take another account, or run 'howdah serve' \
             there"
        );
        Error::new(ErrorKind::Auth, text)
    }
}

/// Why no far end came about.
pub(super) fn why(host: &str, config: &SshConfig, ssh: &LastWords, heard: &Heard) -> Error {
    let code = ssh.status.and_then(|status| status.code());
    let last = ssh.words.iter().rev().find(|line| says_something(line));
    let last = last.map_or(String::new(), |last| format!(": {last}"));
    let status = || {
        ssh.status
            .map_or_else(|| "it has not ended".to_owned(), describe)
    };
    if heard.absent {
        return absent(host, config, "");
    }
    let ended = |kind| {
        let text = format!(
            "ssh to {host} ended before the other end said anything ({}){last}",
            status()
        );
        Error::new(kind, text)
    };
    match code {
        Some(SSH_FAILED) => match own(&ssh.words, ssh.logged_in || heard.begun) {
            Own::Keys(line) => {
                Error::new(ErrorKind::Auth, format!("ssh cannot reach {host}: {line}"))
            }
            Own::Broken(line) => Error::new(
                ErrorKind::Network,
                format!("ssh to {host} broke before the other end said anything: {line}"),
            ),
            Own::Unreached(line) => {
                let line = line.map_or(String::new(), |line| format!(": {line}"));
                Error::new(ErrorKind::Network, format!("ssh cannot reach {host}{line}"))
            }
            // It is the status of what ran there, or that was killed.
            Own::Nothing if heard.begun || config.remote_howdah.is_some() => {
                ended(ErrorKind::Network)
            }
            Own::Nothing => account(host, config, ssh, heard, SSH_FAILED),
        },
        None => ended(ErrorKind::Network),
        // The argument parser of a version that knows nothing of far ends.
        Some(2) if heard.begun || config.remote_howdah.is_some() || last.contains("far-end") => {
            Error::new(
                ErrorKind::Protocol,
                format!(
                    "the howdah on {host} is too old to be started over ssh; install the same version on both{last}"
                ),
            )
        }
        Some(code) => match &config.remote_howdah {
            None if !heard.begun => account(host, config, ssh, heard, code),
            None if matches!(code, 126 | 127) => absent(host, config, &last),
            Some(howdah) if is_not_found(code, howdah, &ssh.words) => absent(host, config, &last),
            // It may have been started and have failed; there is no telling apart but by what is said.
            Some(_) => match Account::of(&far_lines(ssh, heard), code) {
                Account::Other => ended(ErrorKind::Network),
                _ => account(host, config, ssh, heard, code),
            },
            None => ended(ErrorKind::Network),
        },
    }
}

fn account(host: &str, config: &SshConfig, ssh: &LastWords, heard: &Heard, code: i32) -> Error {
    let said = far_lines(ssh, heard);
    let last = said
        .last()
        .map_or(String::new(), |line| format!(": {line}"));
    let status = ssh.status.map_or_else(String::new, describe);
    let (account, how) = (Account::of(&said, code), format!("{status}{last}"));
    let program = config.program().first().map_or("", String::as_str);
    let is_ssh = Path::new(program).file_name() == Some(OsStr::new("ssh"));
    if !is_ssh && !ssh.logged_in && matches!(account, Account::Silent | Account::Other) {
        let text = format!(
            "{program:?}, which --ssh or HOWDAH_SSH names, ended without an answer from {host} ({how}): it has not reached that, or \
             the account there does not run what it is told"
        );
        return Error::new(ErrorKind::Network, text);
    }
    account.error(host, config, &how)
}

/// The last line of each of its outputs.
fn far_lines<'a>(ssh: &'a LastWords, heard: &'a Heard) -> Vec<&'a str> {
    let noise = heard.noise.back().map(String::as_str);
    let words = ssh.words.iter().rev().find(|line| says_something(line));
    noise.into_iter().chain(words.map(String::as_str)).collect()
}

/// A line that only points at a part of another one says nothing.
fn says_something(line: &str) -> bool {
    line.chars().any(char::is_alphanumeric)
}

/// Whether the shell there could not start `howdah`: most say so with their status, csh with its last line.
fn is_not_found(code: i32, howdah: &str, words: &[String]) -> bool {
    let csh = || {
        let name = howdah.split_whitespace().next().unwrap_or_default();
        let last = words.last().map_or("", String::as_str);
        last.strip_prefix(name)
            .is_some_and(|rest| [": Command not found.", ": Permission denied."].contains(&rest))
    };
    matches!(code, 126 | 127) || (code == 1 && csh())
}

fn absent(host: &str, config: &SshConfig, last: &str) -> Error {
    let what = match &config.remote_howdah {
        Some(howdah) => format!("{host} cannot start {howdah:?}{last}"),
        None if last.is_empty() => {
            format!("{host} has no program 'howdah' that a command over ssh finds")
        }
        None => format!("{host} cannot start its howdah{last}"),
    };
    Error::new(
        ErrorKind::Protocol,
        format!(
            "{what}; if its system is like this one's, this installs it: {} {host} 'mkdir -p \
             .local/bin && cat >.local/bin/howdah && chmod +x .local/bin/howdah' <\"$(command -v \
             howdah)\"; else build it there, or say where it is with --remote-howdah PATH",
            config.program().join(" ")
        ),
    )
}

/// What ssh itself says at its end.
#[derive(Debug, Eq, PartialEq)]
enum Own<'a> {
    /// Keys or host keys.
    Keys(&'a str),
    /// The connection was there, and broke.
    Broken(&'a str),
    /// There was no connection.
    Unreached(Option<&'a str>),
    /// Nothing: it is not ssh that failed.
    Nothing,
}

/// By its last line; those do not count that only follow another one.
fn own(words: &[String], logged_in: bool) -> Own<'_> {
    let mut own = words.iter().map(String::as_str).rev().skip_while(|line| {
        // Behind a jump host: the ssh that goes there has said why.
        line.starts_with("Connection closed by UNKNOWN port ")
            || line.ends_with(": Connection closed by remote host")
            || line.starts_with("Disconnected from ")
    });
    let (last, any) = (own.next(), words.last().map(String::as_str));
    if logged_in {
        return match last.or(any) {
            Some(line) if is_of_a_broken_one(line) => Own::Broken(line),
            _ => Own::Nothing,
        };
    }
    match last {
        Some(line) if is_about_keys(line) => Own::Keys(line),
        // The rest of it is banners and warnings, unless it is an error; ssh's own line is the last one.
        _ => Own::Unreached(any),
    }
}

fn is_of_a_broken_one(line: &str) -> bool {
    [
        "Connection to ",
        "Connection closed by ",
        "Connection reset by ",
        "Read from remote host ",
        "Received disconnect from ",
        "Timeout, server ",
        "client_loop: ",
        "packet_write_",
        "ssh_dispatch_run_fatal: ",
        "Corrupted MAC",
        "Bad packet length",
        // A connection that is to be shared, and has no place for its socket.
        "unix_listener: ",
        "ControlPath ",
        "ControlSocket ",
        "mux_client_",
        "muxclient: ",
    ]
    .iter()
    .any(|start| line.starts_with(start))
}

/// The forms in which OpenSSH's client says that keys, host keys or algorithms do not do.
fn is_about_keys(line: &str) -> bool {
    let denied = line.contains(": Permission denied (") && line.ends_with(").");
    let disconnected = line.starts_with("Received disconnect from ")
        && line.to_ascii_lowercase().contains("authentication");
    denied
        || disconnected
        || line == "Host key verification failed."
        || line.starts_with("Unable to negotiate with ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    fn last_words(code: i32, words: &[&str], logged_in: bool) -> LastWords {
        LastWords {
            status: Some(ExitStatus::from_raw(code << 8)),
            words: words.iter().map(|&line| line.to_owned()).collect(),
            logged_in,
        }
    }

    fn heard(said: &str) -> Heard {
        let mut heard = Heard::default();
        for line in said.lines() {
            heard.hear(line.as_bytes());
        }
        heard
    }

    #[test]
    fn f70_t24_ssh_itself_is_judged_by_its_last_line() {
        const BANNER: &str = "Authentication attempts are logged";
        let config = SshConfig::default();
        for (words, kind, part) in [
            (
                &["anna@h: Permission denied (publickey)."][..],
                ErrorKind::Auth,
                "Permission denied",
            ),
            (
                &[BANNER, "Host key verification failed."],
                ErrorKind::Auth,
                "verification",
            ),
            (
                &[
                    "Unable to negotiate with 192.0.2.1 port 22: no matching host key type found. Their offer: ssh-rsa",
                ],
                ErrorKind::Auth,
                "no matching",
            ),
            (
                &[
                    "Received disconnect from 192.0.2.1 port 22:2: Too many authentication failures",
                    "Disconnected from 192.0.2.1 port 22",
                ],
                ErrorKind::Auth,
                "Too many",
            ),
            // Of the jump host's.
            (
                &[
                    "jump: Permission denied (publickey).",
                    "Connection closed by UNKNOWN port 65535",
                ],
                ErrorKind::Auth,
                "jump: Permission",
            ),
            (
                &["ssh: connect to host h port 22: Connection refused"],
                ErrorKind::Network,
                "refused",
            ),
            (
                &[BANNER, "Connection closed by 192.0.2.1 port 22"],
                ErrorKind::Network,
                "closed by 192.0.2.1",
            ),
            (
                &[BANNER, "Connection closed by UNKNOWN port 65535"],
                ErrorKind::Network,
                "UNKNOWN",
            ),
            (
                &[
                    "root@h: Permission denied (publickey).",
                    "kex_exchange_identification: read: Connection reset by peer",
                ],
                ErrorKind::Network,
                "reset by peer",
            ),
            (
                &[
                    "REMOTE HOST IDENTIFICATION of verification failed: no matching",
                    "ssh: Could not resolve hostname h",
                ],
                ErrorKind::Network,
                "resolve",
            ),
            (&[], ErrorKind::Network, "ssh cannot reach h"),
        ] {
            let error = why(
                "h",
                &config,
                &last_words(255, words, false),
                &Heard::default(),
            );
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
        let broken = last_words(
            255,
            &["x: not found", "Connection to h closed by remote host."],
            true,
        );
        let error = why("h", &config, &broken, &Heard::default());
        assert_eq!(error.kind(), ErrorKind::Network);
        assert!(error.to_string().contains("broke before"), "{error}");
    }

    /// T24: a program of one's own says nothing of a log-in, and may fail here.
    #[test]
    fn t24_another_program_than_ssh_is_not_an_account_there() {
        let mut config = SshConfig::default();
        let judged = |config: &SshConfig, words: &[&str], logged_in| {
            let error = why(
                "h",
                config,
                &last_words(1, words, logged_in),
                &Heard::default(),
            );
            (error.kind(), error.to_string())
        };
        for (program, words, logged_in, part) in [
            (
                "/bin/false",
                &[][..],
                false,
                "\"/bin/false\", which --ssh or HOWDAH_SSH names",
            ),
            (
                "sleep 9",
                &["sleep: invalid option -- 'x'"],
                false,
                "invalid option",
            ),
            ("wrapped-ssh", &[], true, "the account that ssh reached"),
            (
                "/usr/bin/ssh -F x",
                &[],
                false,
                "the account that ssh reached",
            ),
            (
                "wrapped-ssh",
                &["This service allows sftp connections only."],
                false,
                "sftp only",
            ),
        ] {
            config.set_program(program).expect("a command line");
            let (kind, text) = judged(&config, words, logged_in);
            assert!(text.contains(part), "{program}: {text}");
            let blames_account = text.contains("the account that ssh reached");
            assert_eq!(kind == ErrorKind::Auth, blames_account, "{text}");
        }
    }

    #[test]
    fn f70_t24_how_far_the_command_came_says_what_is_missing() {
        let ours = SshConfig::default();
        let named = SshConfig {
            remote_howdah: Some("/opt/howdah -x".to_owned()),
            ..SshConfig::default()
        };
        for (config, said, code, words, kind, part) in [
            (
                &ours,
                "howdah-shell begun\nWelcome howdah-shell absent",
                127,
                &["fortune: command not found"][..],
                ErrorKind::Protocol,
                "cat >.local/bin/howdah",
            ),
            (
                &ours,
                "hi howdah-shell begun",
                127,
                &["sh: 1: exec: howdah: not found"],
                ErrorKind::Protocol,
                "cannot start its howdah: sh",
            ),
            (
                &ours,
                "howdah-shell begun",
                2,
                &["error: unrecognized subcommand 'far-end'"],
                ErrorKind::Protocol,
                "too old",
            ),
            (
                &ours,
                "howdah-shell begun",
                1,
                &["fortune: command not found"],
                ErrorKind::Network,
                "exit status 1",
            ),
            // The login script's are not ours.
            (
                &ours,
                "",
                127,
                &["fortune: command not found"],
                ErrorKind::Auth,
                "does not run what it is told",
            ),
            (
                &named,
                "",
                1,
                &["no quota"],
                ErrorKind::Network,
                "exit status 1",
            ),
            (
                &named,
                "",
                127,
                &["bash: line 1: /opt/howdah: No such file"],
                ErrorKind::Protocol,
                "cannot start \"/opt/howdah -x\"",
            ),
            (
                &named,
                "",
                1,
                &["/opt/howdah: Command not found."],
                ErrorKind::Protocol,
                "--remote-howdah",
            ),
            (
                &named,
                "",
                1,
                &["fortune: Command not found."],
                ErrorKind::Network,
                "exit status 1",
            ),
        ] {
            let error = why("h", config, &last_words(code, words, true), &heard(said));
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
        let killed = LastWords {
            status: Some(ExitStatus::from_raw(9)),
            ..LastWords::default()
        };
        let killed = why("h", &ours, &killed, &Heard::default());
        assert!(killed.to_string().contains("signal 9"), "{killed}");
    }

    #[test]
    fn t31_accounts_that_run_nothing_are_named() {
        for (remote, said, code, words, part) in [
            (
                None,
                "",
                1,
                &["rbash: line 1: exec: restricted"][..],
                "--remote-howdah howdah",
            ),
            (
                Some("/opt/howdah"),
                "",
                1,
                &["rbash: line 1: /opt/howdah: restricted: cannot specify `/' in command names"],
                "takes no path",
            ),
            (
                None,
                "This account is currently not available.",
                1,
                &[],
                "may not log in",
            ),
            (
                Some("howdah"),
                "This account is currently not available.",
                1,
                &[],
                "may not log in",
            ),
            (None, "", 1, &[], "/bin/false"),
            (None, "", 0, &[], "/bin/false"),
            (None, "", 255, &[], "/bin/false"),
            (Some("howdah"), "", 1, &[], "/bin/false"),
            (None, "", 11, &[], "sftp only"),
            (
                None,
                "This service allows sftp connections only.",
                1,
                &[],
                "sftp only",
            ),
            (
                None,
                "",
                128,
                &["fatal: unrecognized command 'exec sh'"],
                "git-shell-commands",
            ),
            (None, "Hi anna, no commands here", 1, &[], "forced command"),
            (None, "", 1, &["% Invalid input detected"], "forced command"),
        ] {
            let config = SshConfig {
                remote_howdah: remote.map(str::to_owned),
                ..SshConfig::default()
            };
            let error = why("h", &config, &last_words(code, words, true), &heard(said));
            assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
            assert!(error.to_string().contains(part), "{error}");
            assert!(error.to_string().contains("on h "), "{error}");
        }
    }
}
