//! How other machines are reached over ssh.

use crate::{Error, ErrorKind};
use howdah_core::Span;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// UDP and TCP ports of a far end, one for each session at the same time.
pub const DEFAULT_PORTS: RangeInclusive<u16> = 4433..=4532;

/// How other machines are reached.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SshConfig {
    pub(crate) program: Vec<String>,
    /// What is started there, as their shell reads it; `None`: `howdah`, from the search path or from where
    /// `cargo install` and people put it.
    pub remote_howdah: Option<String>,
    /// The far end takes the first of these that is free.
    pub ports: RangeInclusive<u16>,
    /// Connections of ssh stay for the next session to the same machine, where the user's own settings of ssh do not
    /// say anything about that.
    pub sharing: Option<SshSharing>,
    /// The far end also tells what its kernel cannot keep from it.
    pub wordy: bool,
}

impl Default for SshConfig {
    fn default() -> Self {
        Self {
            program: vec!["ssh".to_owned()],
            remote_howdah: None,
            ports: DEFAULT_PORTS,
            sharing: None,
            wordy: false,
        }
    }
}

impl SshConfig {
    /// Replaces `ssh` by a command line: words, quoted as in a shell, that `HOST COMMAND` can follow.
    pub fn set_program(&mut self, line: &str) -> Result<(), Error> {
        let words: Option<Vec<String>> = shlex::split(line);
        match words {
            Some(words) if !words.is_empty() => {
                self.program = usable(words)
                    .map_err(|why| Error::new(ErrorKind::Usage, format!("{line:?}: {why}")))?;
                Ok(())
            }
            _ => Err(Error::new(
                ErrorKind::Usage,
                format!("{line:?} is no command line; write it as 'ssh -F config'"),
            )),
        }
    }

    /// Its words.
    pub fn program(&self) -> &[String] {
        &self.program
    }
}

/// Where connections stay, and how long.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SshSharing {
    /// For their sockets. Nobody but the user may enter it.
    pub directory: PathBuf,
    /// After the last session over it.
    pub keep: Span,
}

/// Options of ssh that are followed by a value.
const WITH_VALUE: &str = "BDEFIJLPQRSWbceilmopw";

/// Those that let it do something else than start a program there and speak with it.
const SENSELESS: &str = "GNOQVWfs";

/// The words of ssh's command line without `-n`: what it keeps ssh from reading is the channel to the far end, not the
/// user's input. `-q` as the option that it stands for, which leaves room for another one before it.
fn usable(words: Vec<String>) -> Result<Vec<String>, String> {
    let Some(at) = words.iter().position(|word| is_ssh(word)) else {
        return Ok(words);
    };
    let mut left = words;
    let mut options = left.split_off(at + 1).into_iter();
    while let Some(word) = options.next() {
        let letters = word.strip_prefix('-').filter(|letters| !letters.is_empty());
        let Some(letters) = letters.filter(|letters| !letters.starts_with('-')) else {
            left.push(word);
            continue;
        };
        // The first one that takes a value takes the rest of the word.
        let value_at = letters.find(|c| WITH_VALUE.contains(c));
        let flags = &letters[..value_at.map_or(letters.len(), |at| at + 1)];
        if let Some(senseless) = flags.chars().find(|&c| SENSELESS.contains(c)) {
            return Err(format!(
                "with -{senseless}, ssh starts no howdah on the other side; leave it out"
            ));
        }
        let rest = value_at.map_or("", |at| &letters[at + 1..]);
        let takes_next = value_at.is_some() && rest.is_empty();
        let is_kept = |&c: &char| c != 'n' && c != 'q';
        let kept: String = flags.chars().filter(is_kept).collect();
        if flags.contains('q') {
            left.push("-oLogLevel=QUIET".to_owned());
        }
        if !kept.is_empty() {
            left.push(format!("-{kept}{rest}"));
        }
        if takes_next {
            left.extend(options.next());
        }
    }
    Ok(left)
}

/// What a program of another name makes of its words is its affair.
pub(crate) fn is_ssh(word: &str) -> bool {
    word == "ssh" || word.ends_with("/ssh")
}

#[cfg(test)]
mod tests {
    use super::usable;

    #[test]
    fn t02_what_keeps_ssh_from_speaking_with_the_far_end_is_left_out_or_named() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (line, want) in [
            ("ssh", "ssh"),
            ("ssh -n", "ssh"),
            (
                "/usr/bin/ssh -nq -F n -vn",
                "/usr/bin/ssh -oLogLevel=QUIET -F n -v",
            ),
            (
                "env A=b ssh -4nFconfig -p 22",
                "env A=b ssh -4Fconfig -p 22",
            ),
            ("ssh -o n -J -n -l f", "ssh -o n -J -n -l f"),
            ("my-ssh -n -N", "my-ssh -n -N"),
            ("ssh -i f - -- -x", "ssh -i f - -- -x"),
        ] {
            assert_eq!(usable(words(line)), Ok(words(want)), "{line}");
        }
        for (line, letter) in [
            ("ssh -N", 'N'),
            ("ssh -qf", 'f'),
            ("ssh -W h:1", 'W'),
            ("ssh -4s", 's'),
            ("ssh -O exit", 'O'),
        ] {
            let error = usable(words(line)).expect_err(line);
            assert!(error.contains(&format!("-{letter}")), "{line}: {error}");
        }
    }
}
