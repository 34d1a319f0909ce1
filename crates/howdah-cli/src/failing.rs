//! What is said of a failure, to people and to programs, before the program ends with its code.

use crate::args::instead_of;
use crate::exit::{Passed, code, kind, words};
use crate::ui;
use clap::error::{ContextKind, ContextValue};
use howdah::ErrorKind;
use std::io::{self, Write as _};

/// Says what failed, and gives the code of it.
pub(crate) fn of_failure(error: &anyhow::Error) -> u8 {
    if let Some(Passed(status)) = error.downcast_ref() {
        return *status;
    }
    if is_broken_pipe(error) {
        // Whoever reads our output has seen enough.
        return 0;
    }
    ui::leave_question();
    ui::say_error(&words(error));
    code(kind(error))
}

/// Prints help, version or what is wrong with the arguments.
pub(crate) fn of_usage(error: &mut clap::Error) -> u8 {
    if let Some((flag, instead)) = foreign(error) {
        let text = format!("there is no {flag} here: {instead}");
        ui::say_error(&text);
        tell_as_json(&howdah::Error::new(ErrorKind::Usage, text).into());
        return code(ErrorKind::Usage);
    }
    if error.kind() == clap::error::ErrorKind::UnknownArgument {
        // Hardly anybody who mistypes an option means a file of that name.
        error.remove(ContextKind::Suggested);
    }
    if error.use_stderr() {
        let text = error.render().to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        // If even standard error is closed or full, the code says it all.
        let _ = write!(io::stderr(), "howdah: {text}");
        // Its first paragraph: which arguments are missing stands in lines of their own.
        let lines = text.lines().map(str::trim);
        let lines: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
        tell_as_json(&howdah::Error::new(ErrorKind::Usage, lines.join(" ")).into());
        code(ErrorKind::Usage)
    } else {
        let written = ui::check_output().and_then(|()| error.print());
        match written.map_err(anyhow::Error::from) {
            Ok(()) => 0,
            Err(error) => of_failure(&error.context("cannot write to standard output")),
        }
    }
}

/// The last line of `--json` for an error before anything was begun: whoever reads lines gets one, always.
pub(crate) fn tell_as_json(error: &anyhow::Error) {
    let args: Vec<_> = std::env::args_os()
        .skip(1)
        .take_while(|arg| arg != "--")
        .collect();
    if !args.iter().any(|arg| arg == "--json") {
        return;
    }
    // Those that tell what happens as a stream of events end it with one.
    let has_events = ["cp", "sync", "verify", "ls", "du", "clean"];
    let line = if args
        .iter()
        .any(|arg| has_events.iter().any(|name| arg == name))
    {
        ui::error_event(error)
    } else {
        ui::failure_json(error)
    };
    if let Ok(line) = line {
        if args.last().is_some_and(|last| last == "-") {
            // Standard output is for data.
            let _ = writeln!(io::stderr(), "{line}");
        } else {
            let _ = ui::print(&line);
        }
    }
}

/// A flag of scp or rsync in a command that copies as they do, and what to write instead.
fn foreign(error: &clap::Error) -> Option<(&str, &'static str)> {
    // One of ours that clashes with another is no stranger.
    if error.kind() != clap::error::ErrorKind::UnknownArgument {
        return None;
    }
    let usage = error.get(ContextKind::Usage)?.to_string();
    if !["howdah cp ", "howdah sync "]
        .iter()
        .any(|command| usage.contains(command))
    {
        return None;
    }
    match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(flag) => Some((flag, instead_of(flag)?)),
        _ => None,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
