//! Whether there is colour. It never says anything that the words beside it do not say.

use clap::ValueEnum;
use std::io::IsTerminal as _;
use std::sync::OnceLock;

/// `--color`.
#[expect(
    clippy::doc_markdown,
    reason = "these comments are the help text on a terminal"
)]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Also into files and pipes
    Always,
    /// Nowhere
    Never,
}

static CHOICE: OnceLock<Color> = OnceLock::new();

/// What the user wants, once it is known.
pub(crate) fn choose(color: Color) {
    let _ = CHOICE.set(color);
}

/// Turns text into coloured text, or leaves it alone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    /// For standard error.
    pub(crate) fn stderr() -> Self {
        let choice = CHOICE.get().copied().unwrap_or_default();
        Self(wanted(
            choice,
            std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
            is_dumb(),
            std::io::stderr().is_terminal(),
        ))
    }

    /// For standard output.
    pub(crate) fn stdout() -> Self {
        let choice = CHOICE.get().copied().unwrap_or_default();
        Self(wanted(
            choice,
            std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
            is_dumb(),
            std::io::stdout().is_terminal(),
        ))
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(crate) fn warning(self, text: &str) -> String {
        self.with("33", text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.with("31", text)
    }
}

/// A terminal that can neither colour nor go back in a line.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// <https://no-color.org>: the variable counts unless it is empty; a flag is stronger.
fn wanted(choice: Color, no_color: bool, dumb: bool, terminal: bool) -> bool {
    match choice {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => terminal && !no_color && !dumb,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_stronger_than_the_variable() {
        assert!(wanted(Color::Auto, false, false, true));
        assert!(!wanted(Color::Auto, false, false, false));
        assert!(!wanted(Color::Auto, true, false, true));
        assert!(!wanted(Color::Auto, false, true, true));
        assert!(wanted(Color::Always, true, true, false));
        assert!(!wanted(Color::Never, false, false, true));
    }

    #[test]
    fn without_colour_the_words_are_the_same() {
        let plain = Paint(false);
        assert_eq!(plain.warning("loss"), "loss");
        let coloured = Paint(true).warning("loss");
        assert_eq!(console::strip_ansi_codes(&coloured), "loss");
    }
}
