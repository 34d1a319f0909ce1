//! What is asked of ssh.

use crate::SshConfig;
use crate::SshTarget;
use crate::ssh_config::is_ssh;
use std::ffi::OsString;
use std::process::Command;

/// What the shell there says first when it has come to what it was told: login scripts are through.
pub(super) const BEGUN: &str = "howdah-shell begun";
/// And then if there is no howdah.
pub(super) const ABSENT: &str = "howdah-shell absent";

/// Found where a login shell would find it, and where people install things for themselves: the search
/// path of a command over ssh often lacks these. Read alike by sh, csh and fish.
const FIND: &str = "exec sh -c 'echo howdah-shell begun; PATH=\"$PATH:$HOME/.local/bin:$HOME/.cargo/bin\"; export PATH; \
                    command -v howdah >/dev/null || { echo howdah-shell absent; exit 127; }; exec howdah internal far-end'";

/// Nothing of the user's configuration may add to what is needed here: no terminal, no forwarding, no
/// other command. Middle-boxes forget connections that are silent, and this one is while data flows.
const OPTIONS: [&str; 8] = [
    "-x",
    // The last one of -t and -T counts.
    "-T",
    "-oClearAllForwardings=yes",
    "-oForwardAgent=no",
    "-oPermitLocalCommand=no",
    "-oRemoteCommand=none",
    "-oRequestTTY=no",
    "-oServerAliveInterval=15",
];

/// Starts the far end, with these options more.
pub(super) fn start(
    config: &SshConfig,
    target: &SshTarget,
    corrections: &[&str],
    options: &[OsString],
) -> Command {
    let mut command = program(config, corrections);
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
    let mut command = program(config, &[]);
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
    let mut command = program(config, &[]);
    command.args(["-O", what, path_option]);
    destination(&mut command, target);
    command
}

/// ssh's words. What is `first` said of an option counts, so these stand before those of the user's.
fn program(config: &SshConfig, first: &[&str]) -> Command {
    // Never empty; if it were, nothing would be started.
    let (program, arguments) = config
        .program()
        .split_first()
        .map_or(("", &[][..]), |(p, a)| (p, a));
    let at = match config.program().iter().position(|word| is_ssh(word)) {
        Some(at) => at,
        None => arguments.len(),
    };
    let (before, after) = arguments.split_at(at);
    let mut command = Command::new(program);
    command.args(before).args(first).args(after);
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
        let command = start(&config, &target("ssh://anna@[::1]:2222/x"), &[], &[]);
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
        let corrected = start(&config, &target("h:x"), &["-oLogLevel=VERBOSE"], &[]);
        assert_eq!(self::words(&corrected)[3], "-oLogLevel=VERBOSE");
        config.set_program("env A=b /bin/ssh -v").expect("words");
        let corrected = start(&config, &target("h:x"), &["-oLogLevel=VERBOSE"], &[]);
        let first = ["env", "A=b", "/bin/ssh", "-oLogLevel=VERBOSE", "-v"];
        assert_eq!(self::words(&corrected)[..5], first);
        let asked = ask(&SshConfig::default(), &target("h:x"));
        assert_eq!(self::words(&asked), ["ssh", "-G", "--", "h"]);
        assert!(config.set_program("'").is_err() && config.set_program(" ").is_err());
    }
}
