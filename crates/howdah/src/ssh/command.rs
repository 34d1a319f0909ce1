//! What is asked of ssh.

use super::SshConfig;
use crate::SshTarget;
use std::ffi::OsString;
use std::process::Command;

/// Found where a login shell would find it, and where people install things for themselves: the search
/// path of a command over ssh often lacks these. Read alike by sh, csh and fish.
const FIND: &str = "exec sh -c 'PATH=\"$PATH:$HOME/.local/bin:$HOME/.cargo/bin\"; export PATH; exec howdah internal far-end'";

/// Nothing of the user's configuration may add to what is needed here: no terminal, no forwarding, no
/// other command. Middle-boxes forget connections that are silent, and this one is while data flows.
const OPTIONS: [&str; 7] = [
    "-x",
    "-oClearAllForwardings=yes",
    "-oForwardAgent=no",
    "-oPermitLocalCommand=no",
    "-oRemoteCommand=none",
    "-oRequestTTY=no",
    "-oServerAliveInterval=15",
];

/// Starts the far end, with these options more.
pub(super) fn start(config: &SshConfig, target: &SshTarget, options: &[OsString]) -> Command {
    let mut command = program(config);
    command.args(OPTIONS).args(options);
    if !options.is_empty() && config.program().len() == 1 {
        // A connection that stays must not keep a file system busy. (Options may name files relative to here.)
        command.current_dir("/");
    }
    destination(&mut command, target);
    match &config.remote_howdah {
        None => command.arg(FIND),
        Some(howdah) => command.arg(format!("{howdah} internal far-end")),
    };
    command
}

/// Asks what ssh makes of the host's name.
pub(super) fn ask(config: &SshConfig, target: &SshTarget) -> Command {
    let mut command = program(config);
    command.arg("-G");
    destination(&mut command, target);
    command
}

/// Asks or tells something the ssh that holds a shared connection; `path_option`: where.
pub(super) fn control(
    config: &SshConfig,
    target: &SshTarget,
    what: &str,
    path_option: &str,
) -> Command {
    let mut command = program(config);
    command.args(["-O", what, path_option]);
    destination(&mut command, target);
    command
}

fn program(config: &SshConfig) -> Command {
    // Never empty; if it were, nothing would be started.
    let (program, arguments) = config
        .program()
        .split_first()
        .map_or(("", &[][..]), |(p, a)| (p, a));
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

fn destination(command: &mut Command, target: &SshTarget) {
    if let Some(user) = target.user() {
        command.args(["-l", user]);
    }
    if let Some(port) = target.port() {
        command.args(["-p", &port.to_string()]);
    }
    // What follows is no option, whatever it looks like.
    command.args(["--", target.host()]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Location;

    fn words(command: &Command) -> Vec<String> {
        let name = command.get_program();
        std::iter::once(name)
            .chain(command.get_args())
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    fn target(text: &str) -> SshTarget {
        match text.parse() {
            Ok(Location::Ssh(location)) => location.target,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a59_the_host_follows_the_end_of_options() {
        let mut config = SshConfig::default();
        config.set_program("my-ssh -F 'a file'").expect("words");
        config.remote_howdah = Some("/opt/howdah".to_owned());
        let command = start(&config, &target("ssh://anna@[::1]:2222/x"), &[]);
        let words = words(&command);
        assert_eq!(words[..3], ["my-ssh", "-F", "a file"]);
        let tail = [
            "-l",
            "anna",
            "-p",
            "2222",
            "--",
            "::1",
            "/opt/howdah internal far-end",
        ];
        assert_eq!(words[words.len() - tail.len()..], tail);
        let asked = ask(&SshConfig::default(), &target("h:x"));
        assert_eq!(self::words(&asked), ["ssh", "-G", "--", "h"]);
        assert!(config.set_program("'").is_err() && config.set_program(" ").is_err());
    }
}
