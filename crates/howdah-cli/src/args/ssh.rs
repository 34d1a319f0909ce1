//! How other machines are reached.

use super::values;
use crate::own_dir;
use clap::{Args, ValueEnum};
use howdah::{DEFAULT_PORTS, Error, SshConfig, SshSharing, Transport};
use howdah_core::Span;
use std::ops::RangeInclusive;

#[derive(Args, Debug)]
#[command(next_help_heading = "The other side")]
pub(crate) struct SshArgs {
    /// Program that HOST:path is reached with, and its options [default: $HOWDAH_SSH, else ssh]
    #[arg(long, short = 'S', visible_short_alias = 'e', value_name = "COMMAND")]
    pub(crate) ssh: Option<String>,

    /// What to start on HOST, as the shell there reads it [default: howdah]
    #[arg(long, value_name = "COMMAND", value_parser = values::command)]
    pub(crate) remote_howdah: Option<String>,

    /// UDP and TCP port that HOST uses, or a range of which the first free one is taken [default: 4433-4532]
    #[arg(long, value_name = "PORT[-PORT]", value_parser = ports)]
    pub(crate) port: Option<RangeInclusive<u16>>,

    /// Keep ssh's connection for the next command that long, unless ssh's own settings share it already; 0: not at all
    #[arg(long, value_name = "TIME", value_parser = values::ssh_keep, default_value = "1min")]
    pub(crate) ssh_keep: Span,

    /// What carries the data: auto falls back to TCP where UDP does not get through within 3 s, and says so
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    pub(crate) transport: TransportArg,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum TransportArg {
    #[default]
    Auto,
    Udp,
    Tcp,
}

impl From<TransportArg> for Transport {
    fn from(arg: TransportArg) -> Self {
        match arg {
            TransportArg::Auto => Self::Auto,
            TransportArg::Udp => Self::Udp,
            TransportArg::Tcp => Self::Tcp,
        }
    }
}

impl SshArgs {
    pub(crate) fn config(&self) -> Result<SshConfig, Error> {
        let mut config = SshConfig::default();
        let variable = std::env::var("HOWDAH_SSH").ok();
        let variable = variable.filter(|line| !line.trim().is_empty());
        if let Some(line) = self.ssh.as_ref().or(variable.as_ref()) {
            config.set_program(line)?;
        }
        config.remote_howdah.clone_from(&self.remote_howdah);
        config.ports = self.port.clone().unwrap_or(DEFAULT_PORTS);
        // Where there is no directory that is the user's alone, a connection is made each time.
        let directory = own_dir::directory();
        let usable = self.ssh_keep > Span::ZERO && own_dir::prepare(&directory).is_ok();
        config.sharing = usable.then_some(SshSharing {
            directory,
            keep: self.ssh_keep,
        });
        Ok(config)
    }
}

fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last && first > 0 => Ok(first..=last),
        _ => Err("write a port from 1 to 65535, or two as 4433-4440".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_one_or_a_range() {
        assert_eq!(ports("7"), Ok(7..=7));
        assert_eq!(ports("4433-4440"), Ok(4433..=4440));
        for wrong in ["", "0", "0-4", "9-8", "1-", "1-70000", "a"] {
            assert!(ports(wrong).is_err(), "{wrong}");
        }
    }
}
