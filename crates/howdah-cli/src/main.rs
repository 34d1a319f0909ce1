//! The `howdah` command: see `howdah --help`.
//!
//! Arguments ([`args`]) are read apart from what they do ([`commands`], a file per command);
//! [`exit`] lists the exit codes, [`ui`] is everything that a person sees.

#![cfg_attr(
    not(target_os = "linux"),
    allow(
        dead_code,
        unused_imports,
        reason = "the emulator's commands only say that they need Linux"
    )
)]

mod arenas;
mod args;
mod become_user;
#[cfg(target_os = "linux")]
mod bounds;
mod clashes;
mod commands;
mod control;
#[cfg(target_os = "linux")]
mod demo;
mod exit;
mod failing;
#[cfg(target_os = "linux")]
mod inherited;
mod limit;
mod open_files;
mod own_dir;
mod own_file;
#[cfg(target_os = "linux")]
mod record;
mod settings;
mod stack;
mod ui;
mod zone;

use settings::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    stack::with_enough(begin)
}

/// A frame of its own: that of `main` is there before there is enough for it.
#[inline(never)]
fn begin() -> ExitCode {
    arenas::share_one();
    #[cfg(target_os = "linux")]
    if std::env::var_os(demo::DIE_WITH_PARENT).is_some() {
        // The demo may be killed before it can stop its parts.
        let _ =
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    }
    howdah::name_build(env!("HOWDAH_VERSION"));
    ui::outlive_file_size_limit();
    #[cfg(target_os = "linux")]
    let record = match record::take_up() {
        Ok(record) => record,
        Err(error) => {
            ui::say_error(&error.to_string());
            return ExitCode::FAILURE;
        }
    };
    #[cfg(target_os = "linux")]
    let code = run(|command| {
        record
            .as_ref()
            .map_or(Ok(()), |record| record.confine(command))
    });
    #[cfg(not(target_os = "linux"))]
    let code = run(|_| Ok(()));
    #[cfg(target_os = "linux")]
    if let Some(record) = record {
        record.put_down(code);
    }
    ExitCode::from(code)
}

/// Does what the arguments say, once `confine` has kept this process to what it may touch; gives back the exit code.
fn run(confine: impl FnOnce(&args::Command) -> Result<(), howdah::Error>) -> u8 {
    let result = match settings::parse(std::env::args_os()) {
        Ok(cli) => {
            ui::choose_color(cli.color);
            #[cfg(target_os = "linux")]
            if cli.command.is_open_to_others() && cli.job_record.is_none() {
                inherited::close();
            }
            match confine(&cli.command) {
                Ok(()) => commands::run(cli.command),
                Err(error) => {
                    let error = error.into();
                    failing::tell_as_json(&error);
                    Err(error)
                }
            }
        }
        Err(Failure::Usage(mut error)) => return failing::of_usage(&mut error),
        Err(Failure::Settings(error)) => {
            let error = error.into();
            failing::tell_as_json(&error);
            Err(error)
        }
    };
    match (result, ui::trouble()) {
        (Ok(()), None) => 0,
        (Ok(()), Some(lost)) => failing::of_failure(&lost),
        // What was found is not known to whoever reads it, and a code alone may be taken for the whole of it.
        (Err(error), Some(lost)) if error.is::<exit::Passed>() => failing::of_failure(&lost),
        (Err(error), lost) => {
            if let Some(lost) = lost {
                ui::say_error(&exit::words(&lost));
            }
            failing::of_failure(&error)
        }
    }
}
