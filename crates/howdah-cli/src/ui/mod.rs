//! Everything that a person sees.

mod ask;
mod progress;
mod signals;
mod summary;
mod text;

pub(crate) use ask::ask_about;
pub(crate) use progress::ProgressBar;
pub(crate) use signals::Signals;
pub(crate) use summary::{Report, failure_json, summary_line};
pub(crate) use text::printable;

use std::io::{self, Write as _};

/// A line on standard error, with the program's name and without control characters.
pub(crate) fn say(message: &str) {
    // If even standard error is closed, there is nobody left to tell.
    let _ = writeln!(io::stderr(), "howdah: {}", printable(message));
}

/// A line on standard output.
pub(crate) fn print(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}
