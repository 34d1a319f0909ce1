//! Short real copies to a host, for their figures.

use crate::args::{Command, ProbeArgs};
use crate::settings::{self, Failure};
use crate::ui::{Reporter, Wishes};
use howdah::{Error, ErrorKind, Summary};
use howdah_core::Span;
use std::ffi::OsString;

/// The first run of a direction whose rate nobody knows.
pub(super) const FIRST_BYTES: u64 = 4 << 20;
/// Left behind empty.
const FAR_FILE: &str = "howdah-bench.tmp";
/// A far disk gets at most that much.
const FAR_DISK_MAX: u64 = 8 << 30;

/// `howdah cp` with these words.
pub(super) fn copy(args: &ProbeArgs, words: &[&str]) -> anyhow::Result<Summary> {
    copy_with(args.copy_options(), words)
}

/// A second of a copy to that host, for its figures.
pub(super) fn glance(host: &str) -> anyhow::Result<Summary> {
    let target = Target::parse(host)?.path("null:");
    let options = ["--quiet", "--limit=none"].map(OsString::from);
    copy_with(options.to_vec(), &["--time", "1s", "zero:", &target])
}

fn copy_with(options: Vec<OsString>, words: &[&str]) -> anyhow::Result<Summary> {
    let line = ["howdah", "cp"].into_iter().map(OsString::from);
    let line = line.chain(options).chain(words.iter().map(OsString::from));
    let cli = settings::parse(line).map_err(|failure| match failure {
        Failure::Usage(error) => {
            let text = error.to_string();
            let text = text.trim_start_matches("error: ").trim().to_owned();
            Error::new(ErrorKind::Usage, text)
        }
        Failure::Settings(error) => error,
    })?;
    let Command::Cp(copy) = cli.command else {
        return Err(Error::new(ErrorKind::Usage, "that is no copy").into());
    };
    let reporter = Reporter::new(Wishes {
        quiet: true,
        ..Wishes::default()
    })?;
    super::cp::copy(&copy, &reporter)
}

/// What the disk behind the host is written and read with, in about that time each; `rate` in bit/s is what comes there.
pub(super) fn far_disk(
    args: &ProbeArgs,
    target: &Target,
    rate: f64,
    time: Span,
) -> anyhow::Result<(Summary, Summary)> {
    let file = target.path(FAR_FILE);
    let bytes = (rate / 8.0 * time.as_secs_f64()) as u64;
    let bytes = bytes.clamp(FIRST_BYTES, FAR_DISK_MAX);
    let both = copy(args, &[&format!("zero:{bytes}"), &file])
        .and_then(|written| Ok((written, copy(args, &[&file, "null:"])?)));
    // Whatever came of it: the space is given back.
    copy(args, &["zero:0", &file])?;
    both
}

/// The host, and a directory on it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Target {
    /// Everything up to the path: `howdah://h:1/`, `anna@site:`.
    head: String,
    directory: String,
}

impl Target {
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let refused = |why: &str| {
            let text =
                format!("'{text}' {why}; write howdah://HOST:PORT[/DIR] or [USER@]HOST[:DIR]");
            Error::new(ErrorKind::Usage, text)
        };
        let (head, directory) = if let Some(rest) = text
            .strip_prefix("howdah://")
            .or_else(|| text.strip_prefix("ssh://"))
        {
            let scheme = &text[..text.len() - rest.len()];
            let (host, directory) = rest.split_once('/').unwrap_or((rest, ""));
            (format!("{scheme}{host}/"), directory)
        } else if let Some(at) = text.strip_prefix('[').and_then(|rest| rest.find("]:")) {
            (text[..at + 3].to_owned(), &text[at + 3..])
        } else {
            let (host, directory) = text.split_once(':').unwrap_or((text, ""));
            if host.contains('/') {
                return Err(refused("is no host"));
            }
            (format!("{host}:"), directory)
        };
        if text.is_empty() || head.starts_with(':') || head.ends_with("///") {
            return Err(refused("names no host"));
        }
        Ok(Self {
            head,
            directory: directory.to_owned(),
        })
    }

    pub(super) fn has_directory(&self) -> bool {
        !self.directory.is_empty()
    }

    /// A file in the directory, or made-up bytes.
    pub(super) fn path(&self, name: &str) -> String {
        let directory = self.directory.trim_end_matches('/');
        if name.contains(':') || directory.is_empty() {
            let root = if self.directory.starts_with('/') && !name.contains(':') {
                "/"
            } else {
                ""
            };
            format!("{}{root}{name}", self.head)
        } else {
            format!("{}{directory}/{name}", self.head)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_host_with_or_without_a_directory() {
        for (text, null, file) in [
            ("howdah://h:1", "howdah://h:1/null:", "howdah://h:1/f"),
            (
                "howdah://[::1]:1/a/b/",
                "howdah://[::1]:1/null:",
                "howdah://[::1]:1/a/b/f",
            ),
            ("anna@site", "anna@site:null:", "anna@site:f"),
            ("site:/data", "site:null:", "site:/data/f"),
            ("site:/", "site:null:", "site:/f"),
            ("[::1]:data", "[::1]:null:", "[::1]:data/f"),
        ] {
            let target = Target::parse(text).unwrap();
            assert_eq!(target.path("null:"), null, "{text}");
            assert_eq!(target.path("f"), file, "{text}");
        }
        for text in ["", ":x", "howdah:///x", "a/b"] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }
}
