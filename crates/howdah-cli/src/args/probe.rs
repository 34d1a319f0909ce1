//! How commands that measure reach their host.

use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct ProbeArgs {
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

impl ProbeArgs {
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
