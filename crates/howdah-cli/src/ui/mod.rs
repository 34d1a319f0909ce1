//! Everything that a person sees.

mod aside;
mod ask;
mod change;
mod difference;
mod events;
mod journal;
mod logfile;
mod out;
mod progress;
mod reporter;
mod signals;
mod style;
mod summary;
mod text;

pub(crate) use aside::log_aside;
pub(crate) use ask::ask_about;
pub(crate) use change::change_line;
pub(crate) use difference::{difference_line, verification_line};
pub(crate) use events::{Start, error as error_event, failure_json, name_fields, now_utc, object};
#[cfg(target_os = "linux")]
pub(crate) use out::after_much;
pub(crate) use out::{check_input, check_output, print, trouble};
pub(crate) use progress::{leave_question, with_a_question};
pub(crate) use reporter::{Reporter, Wishes};
pub(crate) use signals::{Signals, outlive_file_size_limit};
pub(crate) use style::{Color, Paint, choose as choose_color};
pub(crate) use summary::{dry_run_line, summary_line};
pub(crate) use text::printable;

use howdah::Level;
use std::io::{self, Write as _};

/// A line on standard error, with the program's name and without control characters.
pub(crate) fn say(message: &str) {
    line(Level::Info, "howdah:", message);
}

/// The same of what goes on for long, with the time, which the system's journal has itself.
pub(crate) fn log(level: Level, message: &str) {
    if journal::is_there() {
        aside::log(level, message.to_owned());
    } else {
        aside::log(level, format!("{} {message}", now_utc()));
    }
}

/// A line of it, with the time.
fn log_line(level: Level, text: &str) {
    line(level, "howdah:", text);
}

/// The reason why the program ends: red where there is colour.
pub(crate) fn say_error(message: &str) {
    line(Level::Error, &Paint::stderr().bad("howdah:"), message);
}

/// The same with a word of our own before the message, which may be coloured.
pub(crate) fn say_marked(word: &str, message: &str) {
    line(Level::Warning, &format!("howdah: {word}"), message);
}

fn line(level: Level, name: &str, message: &str) {
    let message = printable(message);
    // If even standard error is closed, there is nobody left to tell.
    let _ = if journal::is_there() {
        writeln!(io::stderr(), "<{}>{message}", journal::priority(level))
    } else {
        writeln!(io::stderr(), "{name} {message}")
    };
}
