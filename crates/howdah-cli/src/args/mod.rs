//! What can be written on the command line. What it does is in [`crate::commands`].

#![expect(
    clippy::doc_markdown,
    reason = "these comments are the help text on a terminal"
)]

mod arrival;
mod audit;
mod bench;
mod config;
mod connect;
mod cp;
mod ctl;
#[cfg(target_os = "linux")]
mod daemon;
mod demo;
mod doctor;
mod flight;
mod foreign;
mod internal;
#[cfg(target_os = "linux")]
mod job;
mod key;
mod lab;
mod lease;
mod manifest;
mod outcome;
mod pace;
mod path;
mod places;
mod predict;
mod probe;
mod receipt;
mod rival;
#[cfg(target_os = "linux")]
mod schedule;
mod select;
mod serve;
mod ssh;
mod sync;
mod telling;
mod tree;
mod values;
mod verify;
mod wan;
#[cfg(target_os = "linux")]
mod watch;

pub(crate) use arrival::{ArrivalArgs, Verify};
pub(crate) use bench::BenchArgs;
pub(crate) use config::{ConfigCommand, ConfigShowArgs};
pub(crate) use connect::{ConnectArgs, KeysArgs};
pub(crate) use cp::CpArgs;
pub(crate) use ctl::{CtlArgs, CtlCommand, Which};
#[cfg(target_os = "linux")]
pub(crate) use daemon::{DaemonArgs, DaemonPlace};
pub(crate) use demo::DemoArgs;
pub(crate) use doctor::DoctorArgs;
pub(crate) use flight::FlightArgs;
pub(crate) use foreign::instead_of;
pub(crate) use internal::{
    InternalCommand, ShortSendArgs, StreamSendArgs, TcpRecvArgs, TcpSendArgs,
};
#[cfg(target_os = "linux")]
pub(crate) use job::{
    JobActArgs, JobCommand, JobHostArgs, JobLimitArgs, JobState, JobSubmitArgs, JobTimes,
    JobTraits, JobWaitArgs,
};
pub(crate) use key::{FingerprintArgs, KeyArgs, KeyCommand};
#[cfg(target_os = "linux")]
pub(crate) use lab::LabCalibrateArgs;
pub(crate) use lab::{
    LabAttackArgs, LabCommand, LabGateArgs, LabLedgerArgs, LabListArgs, LabReplayArgs,
    LabReportArgs, LabRunArgs, LabTableArgs, Of, Testbed,
};
pub(crate) use lease::{FinishArgs, LeaseArgs, PlanArgs};
pub(crate) use manifest::ManifestArgs;
pub(crate) use outcome::OutcomeArgs;
pub(crate) use pace::PaceArgs;
pub(crate) use path::PathArgs;
pub(crate) use places::{CleanArgs, DuArgs, LsArgs};
pub(crate) use predict::PredictArgs;
pub(crate) use probe::ProbeArgs;
pub(crate) use receipt::{ReceiptCheckArgs, ReceiptCommand};
pub(crate) use rival::{RivalArgs, RivalCommand, RivalName, RivalRecvArgs, RivalSendArgs};
#[cfg(target_os = "linux")]
pub(crate) use schedule::{
    MissedName, OverlapName, ScheduleActArgs, ScheduleAddArgs, ScheduleCommand,
};
pub(crate) use select::{SelectArgs, Written, add_lines};
pub(crate) use serve::ServeArgs;
pub(crate) use ssh::SshArgs;
pub(crate) use sync::SyncArgs;
pub(crate) use telling::TellingArgs;
pub(crate) use tree::TreeArgs;
pub(crate) use values::{GilbertElliott, Queue, location};
pub(crate) use verify::VerifyArgs;
pub(crate) use wan::WanArgs;
#[cfg(target_os = "linux")]
pub(crate) use watch::{WatchActArgs, WatchAddArgs, WatchCommand};

use crate::ui::Color;
use clap::{Parser, Subcommand};
use clap_complete::Shell;

/// Moves big data over long fat networks at the rate of the link.
#[derive(Debug, Parser)]
#[command(
    name = "howdah",
    version,
    long_version = env!("HOWDAH_VERSION"),
    max_term_width = 100,
    after_help = "'howdah COMMAND --help' says more about a command, with examples.",
    after_long_help = crate::exit::HELP
)]
pub(crate) struct Cli {
    /// Colour on the terminal; NO_COLOR in the environment turns it off, too
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        hide_short_help = true
    )]
    pub(crate) color: Color,

    /// Of the daemon: the directory of the attempt that this process is
    #[cfg(target_os = "linux")]
    #[arg(long, hide = true, value_name = "DIR", require_equals = true)]
    // main looks for it before anything else.
    pub(crate) job_record: Option<std::path::PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Cp(Box<CpArgs>),
    Sync(Box<SyncArgs>),
    Verify(Box<VerifyArgs>),
    Ls(Box<LsArgs>),
    Du(Box<DuArgs>),
    Clean(Box<CleanArgs>),
    Plan(Box<PlanArgs>),
    Finish(FinishArgs),
    Serve(ServeArgs),
    Ctl(CtlArgs),
    #[cfg(target_os = "linux")]
    Daemon(DaemonArgs),
    #[cfg(target_os = "linux")]
    #[command(subcommand)]
    Job(JobCommand),
    #[cfg(target_os = "linux")]
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    #[cfg(target_os = "linux")]
    #[command(subcommand)]
    Watch(WatchCommand),
    Bench(Box<BenchArgs>),
    Predict(Box<PredictArgs>),
    Doctor(DoctorArgs),
    /// Shows the settings of this user, and where each is from
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Makes and shows the key that this machine proves itself with
    #[command(subcommand)]
    Key(KeyCommand),
    /// Checks what both ends of a copy have signed (cp and sync --receipt)
    #[command(subcommand)]
    Receipt(ReceiptCommand),
    Wan(WanArgs),
    Demo(DemoArgs),
    #[command(subcommand)]
    Lab(LabCommand),
    #[command(subcommand)]
    Rival(RivalCommand),
    /// Prints the completion script of a shell
    ///
    /// For example, for bash:
    ///
    ///   howdah completions bash > ~/.local/share/bash-completion/completions/howdah
    #[command(verbatim_doc_comment)]
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Writes the man pages of all commands into a directory
    #[command(hide = true)]
    Man {
        /// Where; it must exist
        dir: std::path::PathBuf,
    },
    /// Parts of other commands that run as processes of their own
    #[command(subcommand, hide = true)]
    Internal(InternalCommand),
}

impl Command {
    /// Whether it does what others ask for.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_open_to_others(&self) -> bool {
        matches!(
            self,
            Self::Serve(_) | Self::Internal(InternalCommand::FarEnd)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_declarations_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_help_with_an_example() {
        let mut cli = Cli::command();
        cli.build();
        for command in cli.get_subcommands_mut().filter(|c| !c.is_hide_set()) {
            if !["help", "key", "config", "receipt"].contains(&command.get_name()) {
                let help = command.render_long_help().to_string();
                assert!(help.contains("  howdah "), "{}", command.get_name());
            }
        }
    }
}
