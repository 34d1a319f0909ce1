//! What is wrong with a scenario, and where.

use std::path::{Path, PathBuf};

/// A scenario that cannot be run. Prints as `file:line: what is wrong`.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}{}: {message}", file.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct ScenarioError {
    file: PathBuf,
    line: Option<usize>,
    message: String,
}

impl ScenarioError {
    /// A mistake on a line, counted from 1.
    pub(crate) fn on_line(file: &Path, line: usize, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: Some(line),
            message: message.into(),
        }
    }

    /// A mistake of the file as a whole.
    pub(crate) fn in_file(file: &Path, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: None,
            message: message.into(),
        }
    }

    /// The file, as it was named.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The line, counted from 1.
    pub fn line(&self) -> Option<usize> {
        self.line
    }
}

/// The name among `known` that is most like `wrong`, if any is like it.
pub(crate) fn nearest<'a>(
    wrong: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(wrong, name), name))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// `; did you mean 'name'?`, or the list of all names where none is near.
pub(crate) fn hint(wrong: &str, known: &[&str]) -> String {
    match nearest(wrong, known.iter().copied()) {
        Some(name) => format!("; did you mean '{name}'?"),
        None if known.is_empty() => String::new(),
        None => format!("; known are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_finds_its_neighbour() {
        let known = ["buffer", "rate", "rtt", "loss"];
        assert_eq!(hint("bufer", &known), "; did you mean 'buffer'?");
        assert_eq!(hint("xyz", &known), "; known are buffer, rate, rtt, loss");
    }
}
