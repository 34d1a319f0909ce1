//! The other end of a copy, started over the system's `ssh`.
//!
//! Both ends make a key for this one session and tell each other its public half through the channel that
//! ssh has opened and authenticated; then the data takes its own way, sealed under these keys. Nothing
//! secret stands in an argument, in an environment variable or in a file. See docs/ssh.md.

mod candidates;
mod channel;
mod command;
mod errand;
mod far_end;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod handover;
mod kinds;
mod launched;
mod link_local;
mod process;
mod settings;
mod sharing;
mod surroundings;
mod verdict;
mod watched;
mod within;

pub use far_end::{FarEndHost, serve_over_ssh};
pub use sharing::SshSharing;

pub(crate) use channel::FarEnd;
pub(crate) use errand::{Order, copy_between};
pub(crate) use watched::Watched;
pub(crate) use within::Within;

use crate::{Error, ErrorKind};
use std::ops::RangeInclusive;

/// UDP and TCP ports of a far end, one for each session at the same time.
pub const DEFAULT_PORTS: RangeInclusive<u16> = 4433..=4532;

/// How other machines are reached.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SshConfig {
    program: Vec<String>,
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
                self.program = command::usable(words)
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
