//! Everything that a person sees.

mod ask;
mod change;
mod difference;
mod events;
mod logfile;
mod out;
mod progress;
mod reporter;
mod signals;
mod style;
mod summary;
mod text;

pub(crate) use ask::ask_about;
pub(crate) use change::change_line;
pub(crate) use difference::{difference_line, verification_line};
pub(crate) use events::{Start, error as error_event, failure_json, name_fields, now_utc, object};
pub(crate) use out::{check_input, check_output, print, trouble};
#[cfg(target_os = "linux")]
pub(crate) use out::after_much;
pub(crate) use progress::with_a_question;
pub(crate) use reporter::{Reporter, Wishes};
pub(crate) use signals::{Signals, outlive_file_size_limit};
pub(crate) use style::{Color, Paint, choose as choose_color};
pub(crate) use summary::{dry_run_line, summary_line};
pub(crate) use text::printable;

use std::io::{self, Write as _};

/// A line on standard error, with the program's name and without control characters.
pub(crate) fn say(message: &str) {
    // If even standard error is closed, there is nobody left to tell.
    let _ = writeln!(io::stderr(), "howdah: {}", printable(message));
}

/// The reason why the program ends: red where there is colour.
pub(crate) fn say_error(message: &str) {
    let name = Paint::stderr().bad("howdah:");
    let _ = writeln!(io::stderr(), "{name} {}", printable(message));
}

/// The same with a word of our own before the message, which may be coloured.
pub(crate) fn say_marked(word: &str, message: &str) {
    let _ = writeln!(io::stderr(), "howdah: {word} {}", printable(message));
}
