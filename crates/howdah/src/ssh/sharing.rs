//! A connection of ssh that stays for a while, so that the next command need not make one.
//!
//! ssh does that itself (`ControlMaster`, `ControlPersist`: `ssh_config(5)`). Here it is decided when: not where the user has
//! arranged it already, and not with a connection that does not answer any more.

use super::{command, surroundings};
use crate::SshTarget;
use crate::{SshConfig, SshSharing};
use howdah_tree::origin_of;
use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a connection that is there already may take to bring the far end's answer. Then a new one is made: it may have
/// died with its network, which ssh itself finds out after three of its keep-alives.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// The same for the process that holds the connection, which needs a few milliseconds.
const ASK_PATIENCE: Duration = Duration::from_secs(1);
const ASK_LOOK_EVERY: Duration = Duration::from_millis(2);
/// A socket's path has 107 bytes at the most; 16 are those of a hash, and ssh appends 17 while it makes the socket.
const DIRECTORY_MAX: usize = 107 - "/ssh-".len() - 16 - 17;

impl SshSharing {
    /// ssh's option for the place of the socket, if the place is one that ssh can use.
    /// A connection serves those only who would make the same one: with the same `program` and what it makes of all
    /// `settings`, keys, gates and what it asks of the host among them, and with the same agent and whatever else of the
    /// `surroundings` it would look at.
    fn path_option(
        &self,
        program: &[String],
        settings: &str,
        surroundings: &[Vec<u8>],
    ) -> Option<String> {
        let directory = self.directory.to_str()?;
        // The rest means something to ssh, or might.
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        let usable = directory.len() <= DIRECTORY_MAX && directory.chars().all(plain);
        if !usable || settings.is_empty() {
            return None;
        }
        let words = program.iter().map(String::as_bytes);
        let surroundings = surroundings.iter().map(Vec::as_slice);
        // The first word and the settings cannot be taken for variables, whatever stands between them.
        let all = origin_of(words.chain([settings.as_bytes()]).chain(surroundings));
        Some(format!("-oControlPath={directory}/ssh-{all:016x}"))
    }

    fn keep_s(&self) -> u64 {
        self.keep.as_millis().div_ceil(1_000)
    }
}

/// Connections to one machine that are shared.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    config: &'a SshConfig,
    target: &'a SshTarget,
    path_option: String,
    keep_s: u64,
    /// There was one when it was looked.
    there: bool,
}

impl<'a> Shared<'a> {
    /// What may be shared with `target`, as the user wants it. Looks whether there is a connection, which takes some
    /// milliseconds.
    pub(super) fn look(
        config: &'a SshConfig,
        target: &'a SshTarget,
        settings: &str,
    ) -> Option<Self> {
        let sharing = config.sharing.as_ref().filter(|s| s.keep_s() > 0)?;
        let surroundings = surroundings::that_count(settings, std::env::vars_os());
        let mut shared = Self {
            config,
            target,
            path_option: sharing.path_option(config.program(), settings, &surroundings)?,
            keep_s: sharing.keep_s(),
            there: false,
        };
        shared.there = shared.ask("check");
        Some(shared)
    }

    /// Whether there was a connection already.
    pub(super) fn is_there(&self) -> bool {
        self.there
    }

    /// What ssh is told, so that it uses the connection or makes it.
    pub(super) fn options(&self) -> [OsString; 3] {
        let persist = format!("-oControlPersist={}", self.keep_s);
        let path = self.path_option.clone();
        ["-oControlMaster=auto".into(), path.into(), persist.into()]
    }

    /// The connection takes no more sessions, and ends with those that it has: others may be copying over it.
    pub(super) fn give_up(&mut self) {
        self.ask("stop");
        self.there = false;
    }

    /// Asks the process that holds the connection, which answers without the network.
    fn ask(&self, what: &str) -> bool {
        let mut ssh: Command = command::control(self.config, self.target, what, &self.path_option);
        let silent = ssh.stdin(Stdio::null()).stdout(Stdio::null());
        let Ok(mut child) = silent.stderr(Stdio::null()).spawn() else {
            return false;
        };
        let start = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return status.success(),
                Ok(None) if start.elapsed() < ASK_PATIENCE => std::thread::sleep(ASK_LOOK_EVERY),
                _ => {
                    // It is stopped, or hangs.
                    let _ = child.kill();
                    let _ = child.wait();
                    return false;
                }
            }
        }
    }
}

/// Whether `ssh -G` shows that its user has arranged sharing, which is left as it is then. What does not look like its output
/// is taken for that, too: it may not be OpenSSH.
pub(super) fn is_arranged(settings: &str) -> bool {
    let mut lines = settings.lines().map(str::trim);
    let known = settings.lines().any(|line| line.starts_with("hostname "));
    !known
        || lines.any(|line| {
            line.starts_with("controlpath ")
                || line
                    .strip_prefix("controlmaster ")
                    .is_some_and(|value| !["false", "no"].contains(&value))
        })
}

/// Whether a line of ssh's is about sharing, which is our affair and not the user's: another copy was quicker, or the
/// connection has as many sessions as the other side allows, and ssh makes a new one.
pub(super) fn is_about_it(line: &str) -> bool {
    line.starts_with("ControlSocket ") || line.starts_with("mux_client_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_core::Span;
    use std::path::PathBuf;

    #[test]
    fn what_the_user_has_arranged_is_left_alone() {
        let plain =
            "user anna\nhostname site.example.org\ncontrolmaster false\ncontrolpersist no\n";
        assert!(!is_arranged(plain));
        for own in [
            "controlpath /home/anna/.ssh/%C",
            "controlmaster auto",
            "controlmaster yes",
        ] {
            assert!(is_arranged(&format!("{plain}{own}\n")), "{own}");
        }
        for other in ["", "plink: unknown option \"-G\"\n"] {
            assert!(is_arranged(other), "{other:?}");
        }
    }

    #[test]
    fn a_place_that_ssh_cannot_use_is_not_used() {
        let option = |directory: &str| {
            let (directory, keep) = (PathBuf::from(directory), Span::from_secs(60));
            SshSharing { directory, keep }.path_option(&["ssh".to_owned()], "hostname x\n", &[])
        };
        let made = option("/run/user/1000/howdah").expect("a place");
        let digits = made.strip_prefix("-oControlPath=/run/user/1000/howdah/ssh-");
        assert_eq!(digits.map(str::len), Some(16), "{made}");
        for not in ["/run/a b", "/run/%h", "/run/\"", "/run/ä"] {
            assert_eq!(option(not), None, "{not}");
        }
        assert_eq!(option(&format!("/{}", "x".repeat(DIRECTORY_MAX))), None);
    }

    #[test]
    fn t14_a_connection_is_of_one_program_and_one_set_of_options() {
        let place = SshSharing {
            directory: PathBuf::from("/run/x"),
            keep: Span::from_secs(60),
        };
        let option = |program: &[&str], settings: &str| {
            let program: Vec<_> = program.iter().map(|word| (*word).to_owned()).collect();
            place.path_option(&program, settings, &[])
        };
        let plain = "hostname x\nidentityfile ~/.ssh/id\n";
        let first = option(&["ssh"], plain);
        assert_eq!(first, option(&["ssh"], plain));
        for (program, settings) in [
            (&["ssh", "-F", "other"][..], plain),
            (&["other-ssh"], plain),
            (&["ssh"], "hostname x\nidentityfile other\n"),
            (
                &["ssh"],
                "hostname x\nidentityfile ~/.ssh/id\nproxycommand false\n",
            ),
        ] {
            assert_ne!(first, option(program, settings), "{program:?} {settings}");
        }
        let agents = ["SSH_AUTH_SOCK=/a", "SSH_AUTH_SOCK=/b"].map(|agent| {
            let program = ["ssh".to_owned()];
            place.path_option(&program, plain, &[agent.as_bytes().to_vec()])
        });
        assert!(
            agents[0] != agents[1] && !agents.contains(&first),
            "{agents:?}"
        );
        assert_eq!(
            option(&["ssh"], ""),
            None,
            "ssh that cannot say what it would do"
        );
    }
}
