//! How commands that measure reach their host.

use super::KeysArgs;
use clap::Args;
use std::ffi::OsString;

#[derive(Args, Debug)]
pub(crate) struct ProbeArgs {
    #[command(flatten)]
    pub(crate) keys: KeysArgs,

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
        if self.keys.accept_new {
            words.push("--accept-new".into());
        }
        let mut add = |name: &str, value: Option<OsString>| {
            if let Some(value) = value {
                words.extend([name.into(), value]);
            }
        };
        add("--identity", self.keys.identity.clone().map(Into::into));
        add(
            "--known-hosts",
            self.keys.known_hosts.clone().map(Into::into),
        );
        add("--ssh", self.ssh.clone().map(Into::into));
        add(
            "--remote-howdah",
            self.remote_howdah.clone().map(Into::into),
        );
        add("--port", self.port.clone().map(Into::into));
        words
    }
}
