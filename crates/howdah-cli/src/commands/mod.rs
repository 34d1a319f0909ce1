//! What the commands do, a file per command.

#[cfg(target_os = "linux")]
mod bench;
mod clean;
mod completions;
mod config;
#[cfg(target_os = "linux")]
mod congestion;
mod connect;
mod course;
mod cp;
mod ctl;
#[cfg(target_os = "linux")]
mod daemon;
#[cfg(target_os = "linux")]
mod demo;
#[cfg(target_os = "linux")]
mod doctor;
mod du;
mod far_end;
mod flight;
mod hints;
#[cfg(target_os = "linux")]
mod internal;
#[cfg(target_os = "linux")]
mod job;
mod key;
mod lab;
mod lease;
mod ls;
mod man;
mod manifest;
mod outcome;
mod path_model;
mod places;
#[cfg(target_os = "linux")]
mod predict;
#[cfg(target_os = "linux")]
mod probe;
mod receipt;
mod rival;
#[cfg(target_os = "linux")]
mod schedule;
mod select;
mod serve;
mod sync;
mod verify;
#[cfg(target_os = "linux")]
mod wan;
#[cfg(target_os = "linux")]
mod watch;

use crate::args::{Command, InternalCommand};
use crate::failing::tell_as_json;
use crate::open_files::let_open_enough;
use std::path::PathBuf;

pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    if holds_secrets(&command) {
        keep_memory_private();
    }
    if opens_many(&command) {
        let enough = let_open_enough().map_err(anyhow::Error::from);
        enough.inspect_err(tell_as_json)?;
    }
    match command {
        Command::Cp(args) => match &args.lease.plan {
            Some(plan) => lease::cp(&args, plan),
            None => cp::run(&args),
        },
        Command::Plan(args) => one_object(lease::plan(&args)),
        Command::Finish(args) => one_object(lease::finish(&args)),
        Command::Sync(args) => sync::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Ls(args) => ls::run(&args),
        Command::Du(args) => du::run(&args),
        Command::Clean(args) => clean::run(&args),
        Command::Serve(args) => serve::run(args),
        Command::Ctl(args) => ctl::run(args),
        #[cfg(target_os = "linux")]
        Command::Daemon(args) => daemon::run(&args),
        #[cfg(target_os = "linux")]
        Command::Job(command) => job::run(command),
        #[cfg(target_os = "linux")]
        Command::Schedule(command) => schedule::run(command),
        #[cfg(target_os = "linux")]
        Command::Watch(command) => watch::run(command),
        Command::Config(command) => config::run(&command),
        Command::Key(command) => key::run(&command),
        Command::Receipt(command) => receipt::run(&command),
        Command::Lab(command) => lab::run(&command),
        Command::Rival(command) => rival::run(&command),
        Command::Man { dir } => man::run(&dir),
        Command::Completions { shell } => completions::run(shell),
        #[cfg(target_os = "linux")]
        Command::Wan(args) => wan::run(&args),
        #[cfg(target_os = "linux")]
        Command::Doctor(args) => doctor::run(&args),
        #[cfg(target_os = "linux")]
        Command::Bench(args) => one_object(bench::run(&args)),
        #[cfg(target_os = "linux")]
        Command::Predict(args) => one_object(predict::run(&args)),
        #[cfg(target_os = "linux")]
        Command::Demo(args) => demo::run(&args),
        #[cfg(target_os = "linux")]
        Command::Internal(command) => internal::run(&command),
        #[cfg(not(target_os = "linux"))]
        Command::Internal(InternalCommand::FarEnd) => far_end::run(&crate::ui::Signals::install()?),
        #[cfg(not(target_os = "linux"))]
        Command::Wan(_)
        | Command::Demo(_)
        | Command::Doctor(_)
        | Command::Bench(_)
        | Command::Predict(_)
        | Command::Internal(_) => Err(howdah::Error::new(
            howdah::ErrorKind::Usage,
            "this command looks into the kernel of Linux and does not run elsewhere",
        )
        .into()),
    }
}

/// What makes no sense on a command line that its parser has taken, and is told before anything is done.
#[cfg(test)]
pub(crate) fn check(command: &Command) -> Result<(), howdah::Error> {
    match command {
        Command::Cp(args) if args.lease.plan.is_none() => cp::check(args),
        Command::Sync(args) => sync::check(args),
        Command::Verify(args) => verify::check(args),
        _ => Ok(()),
    }
}

/// Of a command that prints one object with `--json`: if it fails, that is the error.
fn one_object(result: anyhow::Result<()>) -> anyhow::Result<()> {
    result.inspect_err(tell_as_json)
}

/// Whether it has a private key, that of a session, or a token in its memory. Each command is named, so that somebody thinks of it.
fn holds_secrets(command: &Command) -> bool {
    match command {
        Command::Cp(_)
        | Command::Sync(_)
        | Command::Verify(_)
        | Command::Ls(_)
        | Command::Du(_)
        | Command::Clean(_)
        | Command::Plan(_)
        | Command::Serve(_)
        | Command::Key(_)
        | Command::Bench(_)
        | Command::Predict(_) => true,
        // The key of its TLS, tokens, and addresses that are told what becomes of jobs; its clients have tokens.
        #[cfg(target_os = "linux")]
        Command::Daemon(_) | Command::Job(_) | Command::Schedule(_) | Command::Watch(_) => true,
        Command::Internal(command) => matches!(command, InternalCommand::FarEnd),
        Command::Finish(_)
        | Command::Ctl(_)
        | Command::Doctor(_)
        | Command::Config(_)
        | Command::Receipt(_)
        | Command::Wan(_)
        | Command::Lab(_)
        | Command::Rival(_)
        // Its keys are good for what it shows and for nothing else.
        | Command::Demo(_)
        | Command::Completions { .. }
        | Command::Man { .. } => false,
    }
}

/// Whether it reads and writes files of others, or serves them: for that a process must be able to open some at a time.
fn opens_many(command: &Command) -> bool {
    match command {
        // They look at what copies have left.
        Command::Finish(_) | Command::Receipt(_) => true,
        Command::Key(_) => false,
        // These tell a daemon what to do.
        #[cfg(target_os = "linux")]
        Command::Job(_) | Command::Schedule(_) | Command::Watch(_) => false,
        // Who has a key of its own has it for that.
        other => holds_secrets(other),
    }
}

/// What this process knows is not for a core dump, nor for other processes of the same user to look at. For `perf` and
/// debuggers run by that user `HOWDAH_DUMPABLE=1` leaves it as it is.
fn keep_memory_private() {
    #[cfg(target_os = "linux")]
    if std::env::var_os("HOWDAH_DUMPABLE").is_none_or(|value| value != "1") {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // The kernel refuses values that it does not know, and this one is as old as the call.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

/// The file that the user named, or the usual one.
fn key_file(named: Option<&PathBuf>, usual: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let why =
        "there is no place for keys: none of HOWDAH_CONFIG_DIR, XDG_CONFIG_HOME and HOME is set";
    let none = || howdah::Error::new(howdah::ErrorKind::Usage, why);
    Ok(named.cloned().or(usual).ok_or_else(none)?)
}
