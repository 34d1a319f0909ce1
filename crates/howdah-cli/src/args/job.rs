//! `howdah job`.

use super::DaemonPlace;
use clap::{Args, Subcommand, ValueEnum};
use howdah_core::{Span, units};
use std::path::PathBuf;

/// Gives the daemon work, and looks at it
///
/// A job is a command of 'howdah': cp, sync, verify or 'lab run', with all its options but those that name a program to run. It runs in
/// the directory that it was submitted from.
///
/// Examples:
///
///   howdah job submit cp -r data site:store/
///   howdah job submit --label nightly --after 12 -- sync --delete data site:data
///   howdah job list --is running
///   howdah job wait 12
///   howdah job cancel 12
#[derive(Debug, Subcommand)]
#[command(verbatim_doc_comment, subcommand_required = true)]
pub(crate) enum JobCommand {
    Submit(JobSubmitArgs),
    /// Lists jobs, the newest first
    List(JobListArgs),
    /// Shows all about a job: its attempts, and the last that it said
    Show(JobOneArgs),
    /// Waits until jobs are over; ends with the exit code of the first one that did not end well
    Wait(JobWaitArgs),
    /// Ends jobs: what runs is asked to stop, and killed if it does not within 30 s
    Cancel(JobActArgs),
    /// Lets jobs that do not run wait until they are released
    Hold(JobActArgs),
    /// Lets held jobs go, and those that wait for another attempt try now
    Release(JobActArgs),
    Limit(JobLimitArgs),
    /// Lists the machines that jobs speak with: how many run and wait, limits, keys, and the path as it was last measured
    Hosts(JobHostsArgs),
    Host(JobHostArgs),
    /// Prints what a job's processes say, as it comes, until the job is over: events as of --json
    Log(JobLogArgs),
}

/// What a job has whether it is submitted or comes by itself.
#[derive(Args, Debug)]
pub(crate) struct JobTraits {
    /// A word to find it by; may be given several times
    #[arg(long, value_name = "WORD")]
    pub(crate) label: Vec<String>,

    /// Jobs of a higher priority go first
    #[arg(
        long,
        value_name = "N",
        default_value = "0",
        allow_negative_numbers = true
    )]
    pub(crate) priority: i32,

    /// How often it is tried again after a failure that may pass: network (5), a changed source (13), or being stopped
    #[arg(long, value_name = "N", default_value_t = howdah_daemon::job::USUAL_RETRIES)]
    pub(crate) retries: u32,

    /// Where it runs, instead of where this is: relative names in its command are below that. A daemon with --allow runs jobs within it only
    #[arg(long = "directory", value_name = "DIR")]
    pub(crate) runs_in: Option<PathBuf>,
}

/// When each job of those that come again is to be done.
#[derive(Args, Debug)]
pub(crate) struct JobTimes {
    /// Each job fails if it is not done in that time, counted from when it was submitted: 8h; what runs then is stopped
    #[arg(long, value_name = "TIME", value_parser = units::parse_span)]
    pub(crate) deadline: Option<Span>,

    /// Each job is to be done by then, with the least rate that does it: 06:00 (the next time it is that late), or 8h after it was submitted
    #[arg(long, value_name = "TIME", value_parser = super::values::by_text)]
    pub(crate) by: Option<String>,

    /// The daemon says why that makes no sense
    #[arg(long, value_name = "JOB", hide = true)]
    pub(crate) after: Vec<i64>,
}

/// Submits a job and prints its number
///
/// Examples:
///
///   howdah job submit cp -r data site:store/
///   howdah job submit --id backup-2026-11-26 --retries 10 -- sync data site:data
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct JobSubmitArgs {
    #[command(flatten)]
    pub(crate) traits: JobTraits,

    /// Begin when that job is done; fails if it fails. May be given several times
    #[arg(long, value_name = "JOB")]
    pub(crate) after: Vec<i64>,

    /// Fail if it is not done in that time, counted from now: 8h; what runs then is stopped
    #[arg(long, value_name = "TIME", value_parser = units::parse_span)]
    pub(crate) deadline: Option<Span>,

    /// Be done by then, with the least rate that does it: 06:00 (the next time it is that late), or 8h
    ///
    /// What is needed is planned again every minute from what is left. That it cannot be met is said by 'howdah job list' and 'howdah job
    /// show'; the job goes on all the same.
    #[arg(long, value_name = "TIME", value_parser = super::values::by)]
    pub(crate) by: Option<u64>,

    /// A name of this submission: given again, the same job is meant, and nothing is submitted
    #[arg(long, value_name = "NAME")]
    pub(crate) id: Option<String>,

    /// Wait until it is released
    #[arg(long)]
    pub(crate) hold: bool,

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

/// `--is`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum JobState {
    Waiting,
    Held,
    Running,
    Done,
    Failed,
    Cancelled,
}

#[derive(Args, Debug)]
pub(crate) struct JobListArgs {
    /// Only those in that state
    #[arg(long, value_name = "STATE", value_enum)]
    pub(crate) is: Option<JobState>,

    /// Only those with that label
    #[arg(long, value_name = "WORD")]
    pub(crate) label: Option<String>,

    /// Only those that speak with that machine
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,

    /// Only those in whose number, command line, directory, labels or reason each of these words is
    #[arg(long, value_name = "WORDS")]
    pub(crate) text: Option<String>,

    /// Only older ones than that
    #[arg(long, value_name = "JOB")]
    pub(crate) before: Option<i64>,

    /// So many at the most
    #[arg(long, value_name = "N", default_value = "100")]
    pub(crate) limit: u32,

    /// Print a JSON object per job
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: DaemonPlace,
}

#[derive(Args, Debug)]
pub(crate) struct JobOneArgs {
    /// Its number
    #[arg(value_name = "JOB")]
    pub(crate) job: i64,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: DaemonPlace,
}

#[derive(Args, Debug)]
pub(crate) struct JobWaitArgs {
    /// Their numbers
    #[arg(value_name = "JOB", required = true)]
    pub(crate) jobs: Vec<i64>,

    /// Wait no longer than that; then the exit code is 8
    #[arg(long, value_name = "TIME", value_parser = units::parse_span)]
    pub(crate) timeout: Option<Span>,

    /// Print a JSON object per job
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: DaemonPlace,
}

#[derive(Args, Debug)]
pub(crate) struct JobActArgs {
    /// Their numbers
    #[arg(value_name = "JOB", required = true)]
    pub(crate) jobs: Vec<i64>,

    /// Print a JSON object per job
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: DaemonPlace,
}

#[derive(Args, Debug)]
pub(crate) struct JobLogArgs {
    /// Its number
    #[arg(value_name = "JOB")]
    pub(crate) job: i64,

    /// Print a JSON object per event, which is what it does in any case
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: DaemonPlace,
}

/// Shows or sets what running copies take of the wire; it acts at once
///
/// Without anything it shows the limit that all share, and what each running copy has of it. LIMIT is a rate, a timetable as of
/// 'howdah cp --limit', 'none', 'pause', or 'auto': what was there before. It is for all jobs together, or for each that is named.
///
/// Examples:
///
///   howdah job limit
///   howdah job limit 500mbit
///   howdah job limit auto
///   howdah job limit 100mbit 12 13
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct JobLimitArgs {
    /// 500mbit, a timetable, none, pause or auto
    #[arg(value_name = "LIMIT")]
    pub(crate) limit: Option<String>,

    /// Only of these
    #[arg(value_name = "JOB")]
    pub(crate) jobs: Vec<i64>,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: DaemonPlace,
}

#[derive(Args, Debug)]
pub(crate) struct JobHostsArgs {
    /// Print a JSON object per machine
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: DaemonPlace,
}

/// Sets what holds for a machine; it acts at once
///
/// Examples:
///
///   howdah job host site.example.org --limit 200mbit
///   howdah job host site.example.org --limit none --max-running 1
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct JobHostArgs {
    /// The machine, as jobs name it
    #[arg(value_name = "HOST")]
    pub(crate) host: String,

    /// What all running copies with it take of the wire together: as of 'howdah job limit'
    #[arg(long, value_name = "LIMIT", required_unless_present = "max_running")]
    pub(crate) limit: Option<String>,

    /// Jobs that run with it at a time; 0: as for all machines
    #[arg(long, value_name = "N")]
    pub(crate) max_running: Option<u32>,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: DaemonPlace,
}
