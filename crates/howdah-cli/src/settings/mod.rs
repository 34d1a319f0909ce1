//! Config file < environment < flag.
//!
//! Every option of the commands in [`COMMANDS`] that makes sense as a habit can stand in the config file and in the environment
//! by its own name, so there is no second list of settings to keep: a value from there is put in front of the user's own
//! arguments, which are stronger.

mod file;
mod layers;
mod text;

pub(crate) use file::{ConfigFile, path};
pub(crate) use layers::{effective, keys};

use crate::args::Cli;
use crate::clashes::Line;
use clap::error::ErrorKind;
use clap::{ArgMatches, Command, CommandFactory as _, FromArgMatches as _};
use howdah::Error;
use std::ffi::{OsStr, OsString};

/// Commands with settings; those that move files share the top of the config file and the plain environment variables.
pub(crate) const COMMANDS: [&str; 11] = [
    "cp", "sync", "verify", "ls", "du", "clean", "plan", "bench", "predict", "doctor", "serve",
];
/// Its settings are its own: they are about this machine as a server.
pub(crate) const SERVE: &str = "serve";

/// Why there are no arguments.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Help, version, or arguments that make no sense.
    Usage(clap::Error),
    /// A config file or a variable that makes no sense.
    Settings(Error),
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        Self::Usage(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Settings(error)
    }
}

/// All commands, ready to be asked about their options.
pub(crate) fn commands() -> Command {
    let mut cli = Cli::command();
    for name in COMMANDS {
        if cli.find_subcommand(name).is_some() {
            // What is written later is stronger.
            cli = cli.mut_subcommand(name, |command| command.args_override_self(true));
        }
    }
    cli.build();
    for name in COMMANDS {
        // What comes from elsewhere was not typed, so it must not stand in the usage of an error.
        cli = cli.mut_subcommand(name, |mut command| {
            let usage = command.render_usage().to_string();
            match usage.strip_prefix("Usage: ") {
                Some(usage) => command.override_usage(usage.to_owned()),
                None => command,
            }
        });
    }
    cli
}

/// The arguments of this process with everything that stands elsewhere.
pub(crate) fn parse(args: impl Iterator<Item = OsString>) -> Result<Cli, Failure> {
    let args: Vec<OsString> = args.collect();
    let matches = matches(args, |name| std::env::var_os(name))?;
    Ok(Cli::from_arg_matches(&matches)?)
}

/// The same once more, after the config file may have changed.
pub(crate) fn reread() -> anyhow::Result<Cli> {
    parse(std::env::args_os()).map_err(|failure| match failure {
        Failure::Usage(error) => anyhow::anyhow!("{error}"),
        Failure::Settings(error) => error.into(),
    })
}

fn matches(
    args: Vec<OsString>,
    var: impl Fn(&str) -> Option<OsString>,
) -> Result<ArgMatches, Failure> {
    let cli = commands();
    let Some((at, command)) = find_command(&cli, &args) else {
        return Ok(cli.try_get_matches_from(args)?);
    };
    let name = command.get_name().to_owned();
    let (args, without) = take_denials(command, args, at);
    if asks_for_help(&args[at..]) {
        return Ok(cli.try_get_matches_from(args)?);
    }
    let file = ConfigFile::load(&cli, &var)?;
    // What makes sense only beside a setting was not typed for itself, and is taken as it is.
    let own = cli.clone().try_get_matches_from(args.clone());
    let own = own.as_ref().ok();
    let own = own.and_then(|own| own.subcommand_matches(&name));
    let with = |host: Option<&str>| -> Result<Vec<OsString>, Failure> {
        let mut settings = effective(command, file.as_ref(), host, &var);
        settings.retain(|setting| !without.contains(&setting.key));
        let mut all = args[..=at].to_vec();
        for setting in &settings {
            setting.check(command)?;
            if own.is_none_or(|own| setting.has_a_place(command, &settings, own)) {
                all.extend(setting.as_args(command));
            }
        }
        all.extend_from_slice(&args[at + 1..]);
        Ok(all)
    };
    let matches = cli.clone().try_get_matches_from(with(None)?)?;
    let host = matches
        .subcommand_matches(&name)
        .and_then(|matches| host_of(command, matches));
    let matches = match host {
        Some(host) if file.as_ref().is_some_and(|f| f.knows_host(&host)) => {
            cli.clone().try_get_matches_from(with(Some(&host))?)?
        }
        _ => matches,
    };
    let both = |own| Some((matches.subcommand_matches(&name)?, own));
    if let Some((all, own)) = own.and_then(both)
        && let Some(text) = Line::new(command, all, own).clash()
    {
        return Err(Error::new(howdah::ErrorKind::Usage, text).into());
    }
    Ok(matches)
}

/// What these arguments alone say, without config file and environment.
#[cfg(target_os = "linux")]
pub(crate) fn own_matches(cli: &Command, args: Vec<OsString>) -> Result<ArgMatches, clap::Error> {
    let args = match find_command(cli, &args) {
        Some((at, command)) => take_denials(command, args, at).0,
        None => args,
    };
    cli.clone().try_get_matches_from(args)
}

/// Where the command stands among the arguments, if it is one with settings.
fn find_command<'a>(cli: &'a Command, args: &[OsString]) -> Option<(usize, &'a Command)> {
    let mut at = 1;
    loop {
        let arg = args.get(at)?.to_str()?;
        if arg == "--color" {
            at += 2;
        } else if arg.starts_with('-') {
            at += 1;
        } else {
            let known = COMMANDS.contains(&arg).then(|| cli.find_subcommand(arg))?;
            return known.map(|command| (at, command));
        }
    }
}

fn asks_for_help(args: &[OsString]) -> bool {
    let own = args.iter().take_while(|arg| *arg != "--");
    own.into_iter()
        .any(|arg| ["-h", "--help", "-V", "--version"].iter().any(|h| arg == h))
}

/// `--no-KEY` undoes a switch that the config file or the environment turns on. Takes these out, and gives back the keys.
fn take_denials(command: &Command, args: Vec<OsString>, at: usize) -> (Vec<OsString>, Vec<String>) {
    let mut without = Vec::new();
    let mut own = true;
    let kept = args.into_iter().enumerate().filter(|(index, arg)| {
        if *index <= at || !own {
            return true;
        }
        own = arg != "--";
        let key = arg.to_str().and_then(|arg| arg.strip_prefix("--no-"));
        let Some(key) = key else { return true };
        let real = command
            .get_arguments()
            .any(|a| a.get_long() == Some(&*format!("no-{key}")));
        let switch = keys(command).any(|a| a.get_long() == Some(key) && layers::is_switch(a));
        if !real && switch {
            without.push(key.to_owned());
            return false;
        }
        true
    });
    let kept = kept.map(|(_, arg)| arg).collect();
    (kept, without)
}

/// The remote host among the things to copy.
fn host_of(command: &Command, matches: &ArgMatches) -> Option<String> {
    command
        .get_positionals()
        .filter_map(|arg| matches.get_raw(arg.get_id().as_str()))
        .flatten()
        .filter_map(OsStr::to_str)
        .find_map(remote_host)
}

/// `howdah://HOST:PORT/...` or `[user@]HOST:path`.
fn remote_host(text: &str) -> Option<String> {
    let bracketed = |text: &str| {
        let rest = text.strip_prefix('[')?;
        Some(rest.split_once(']')?.0.to_owned())
    };
    let host = if let Some(rest) = text.strip_prefix("howdah://") {
        let authority = rest.split('/').next()?;
        bracketed(authority).or_else(|| Some(authority.split(':').next()?.to_owned()))
    } else {
        let (head, _) = text.split_once(':')?;
        if head.contains('/') || ["zero", "null"].contains(&head) {
            return None;
        }
        let machine = text.split_once('@').map_or(text, |(_, machine)| machine);
        bracketed(machine).or_else(|| Some(machine.split(':').next()?.to_owned()))
    };
    host.filter(|host| !host.is_empty())
        .map(|host| host.to_ascii_lowercase())
}

/// Whether `error` is about a value, and not about what is missing beside it.
fn is_about_value(error: &clap::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidValue
            | ErrorKind::ValueValidation
            | ErrorKind::InvalidUtf8
            | ErrorKind::TooManyValues
            | ErrorKind::NoEquals
    )
}

#[cfg(test)]
mod tests;
