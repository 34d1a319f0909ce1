//! `howdah schedule`.

use super::{DaemonPlace, JobTimes, JobTraits};
use clap::{Args, Subcommand, ValueEnum};

/// Jobs that are submitted again and again
///
/// A schedule is a time, and a command as after 'howdah job submit'. The daemon submits it whenever the time comes; 'howdah job list' shows
/// what became of it.
///
/// Examples:
///
///   howdah schedule add '30 2 * * 1-5' --zone Europe/Berlin -- sync data site:data
///   howdah schedule add @daily --missed skip --label nightly -- verify data site:data
///   howdah schedule list
///   howdah schedule pause 3
#[derive(Debug, Subcommand)]
#[command(verbatim_doc_comment, subcommand_required = true)]
pub(crate) enum ScheduleCommand {
    Add(ScheduleAddArgs),
    /// Lists schedules, the oldest first, with their next run
    List(ScheduleListArgs),
    /// Shows all about a schedule
    Show(ScheduleOneArgs),
    /// Removes schedules; the jobs that they have submitted are left alone
    Remove(ScheduleActArgs),
    /// Lets schedules rest; times that come meanwhile count as if they had never been
    Pause(ScheduleActArgs),
    /// Lets schedules go on with the first time that comes from now on
    Resume(ScheduleActArgs),
}

/// Adds a schedule and prints its number
///
/// WHEN has five fields: minute, hour, day of the month, month, day of the week (0-6 or sun-sat), each a number, a range (1-5), a list (1,15),
/// steps (*/10) or '*'. @hourly, @daily, @weekly, @monthly and @yearly are such times, too.
///
/// Examples:
///
///   howdah schedule add '30 2 * * 1-5' --zone Europe/Berlin -- sync data site:data
///   howdah schedule add '*/10 8-18 * * *' --overlap allow -- cp -r out site:in/
///   howdah schedule add '0 22 * * *' --by 06:00 -- sync data site:data
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct ScheduleAddArgs {
    /// Times: '30 2 * * 1-5', or @daily and the like
    #[arg(value_name = "WHEN")]
    pub(crate) cron: String,

    /// The time zone of these times: Europe/Berlin, UTC, or local (that of the daemon's machine)
    #[arg(long, value_name = "ZONE", default_value = "local")]
    pub(crate) zone: String,

    /// What becomes of runs whose time came while no daemon was there
    #[arg(long, value_enum, value_name = "POLICY", default_value = "once")]
    pub(crate) missed: MissedName,

    /// What becomes of a run whose time comes while the one before is not over
    #[arg(long, value_enum, value_name = "POLICY", default_value = "skip")]
    pub(crate) overlap: OverlapName,

    #[command(flatten)]
    pub(crate) traits: JobTraits,

    #[command(flatten)]
    pub(crate) times: JobTimes,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: DaemonPlace,

    /// The command, as after 'howdah'
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) command: Vec<String>,
}

/// `--missed`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum MissedName {
    /// One run for all of them, as soon as there is a daemon
    Once,
    /// None
    Skip,
}

/// `--overlap`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum OverlapName {
    /// It does not happen
    Skip,
    /// Both run
    Allow,
}

#[derive(Args, Debug)]
pub(crate) struct ScheduleListArgs {
    /// Print a JSON object per schedule
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: DaemonPlace,
}

#[derive(Args, Debug)]
pub(crate) struct ScheduleOneArgs {
    /// Its number
    #[arg(value_name = "SCHEDULE")]
    pub(crate) schedule: i64,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: DaemonPlace,
}

#[derive(Args, Debug)]
pub(crate) struct ScheduleActArgs {
    /// Their numbers
    #[arg(value_name = "SCHEDULE", required = true)]
    pub(crate) schedules: Vec<i64>,

    /// Print a JSON object per schedule
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: DaemonPlace,
}
