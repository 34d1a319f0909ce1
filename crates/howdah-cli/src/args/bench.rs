//! `howdah bench`.

use super::values;
use clap::Args;
use howdah_core::Span;
use std::ffi::OsString;
use std::path::PathBuf;

/// Measures what a copy to and from a host could reach, and says what would limit it
///
/// Moves made-up bytes from memory to memory in both directions for some seconds each, with a real copy's protocol. With --disk it
/// measures a local directory, too, and with a directory behind HOST the disk there: then it writes howdah-bench.tmp in it and leaves it
/// behind empty. Limits of the config file do not count.
///
/// HOST is howdah://HOST:PORT[/DIR] or, over ssh, [USER@]HOST[:DIR].
///
/// Examples:
///
///   howdah bench anna@site
///   howdah bench --time 10s howdah://site:4433
///   howdah bench --disk /data howdah://site/incoming
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct BenchArgs {
    /// Where to, with a directory if its disk is to be measured, too
    #[arg(value_name = "HOST")]
    pub(crate) target: String,

    /// How long each direction is measured, about
    #[arg(long, value_name = "TIME", value_parser = values::measured, default_value = "3s")]
    pub(crate) time: Span,

    /// Measure the disk of this local directory, too
    #[arg(long, value_name = "DIR")]
    pub(crate) disk: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Trust a server that was never met, and remember its key
    #[arg(long)]
    pub(crate) accept_new: bool,

    /// Private key of this machine [default: ~/.config/howdah/id_ed25519.pem]
    #[arg(long, value_name = "FILE")]
    pub(crate) identity: Option<PathBuf>,

    /// Keys of servers [default: ~/.config/howdah/known_hosts]
    #[arg(long, value_name = "FILE")]
    pub(crate) known_hosts: Option<PathBuf>,

    /// Program that HOST is reached with, and its options [default: $HOWDAH_SSH, else ssh]
    #[arg(long, short = 'S', value_name = "COMMAND")]
    pub(crate) ssh: Option<String>,

    /// What to start on HOST, as the shell there reads it [default: howdah]
    #[arg(long, value_name = "COMMAND")]
    pub(crate) remote_howdah: Option<String>,

    /// UDP port that HOST uses, or a range of which the first free one is taken
    #[arg(long, value_name = "PORT[-PORT]")]
    pub(crate) port: Option<String>,
}

impl BenchArgs {
    /// What `howdah cp` is to be told of this.
    pub(crate) fn copy_options(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["--quiet".into(), "--limit=none".into()];
        if self.accept_new {
            words.push("--accept-new".into());
        }
        let mut add = |name: &str, value: Option<OsString>| {
            if let Some(value) = value {
                words.extend([name.into(), value]);
            }
        };
        add("--identity", self.identity.clone().map(Into::into));
        add("--known-hosts", self.known_hosts.clone().map(Into::into));
        add("--ssh", self.ssh.clone().map(Into::into));
        add(
            "--remote-howdah",
            self.remote_howdah.clone().map(Into::into),
        );
        add("--port", self.port.clone().map(Into::into));
        words
    }
}
