//! `howdah job`: a client of the daemon's API.

pub(super) mod grammar;
mod limits;
mod reach;
mod table;

pub(super) use table::time as printed_time;

pub(super) use reach::client;

use crate::args::{
    JobActArgs, JobCommand, JobState, JobSubmitArgs, JobTimes, JobTraits, JobWaitArgs,
};
use crate::exit::{self, Passed};
use crate::ui;
use howdah::{Error, ErrorKind};
use howdah_daemon::client::{Action, Client, ClientError, Which};
use howdah_daemon::job::{JobId, JobView, Kind, Spec, State, deadline_in};
use howdah_daemon::times::Times;
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub(super) fn run(command: JobCommand) -> anyhow::Result<()> {
    match command {
        JobCommand::Submit(args) => submit(args),
        JobCommand::List(args) => {
            let which = Which {
                state: args.is.map(state),
                label: args.label,
                host: args.host,
                text: args.text,
                before: args.before.map(JobId),
            };
            let jobs = client(&args.place)?
                .list(&which, args.limit)
                .map_err(failure)?;
            jobs.jobs.iter().try_for_each(|job| tell(job, args.json))
        }
        JobCommand::Show(args) => {
            let job = client(&args.place)?
                .show(JobId(args.job), None)
                .map_err(failure)?;
            if args.json {
                tell(&job, true)
            } else {
                Ok(ui::print(&table::all(&job))?)
            }
        }
        JobCommand::Wait(args) => wait(&args),
        JobCommand::Cancel(args) => act(&args, Action::Cancel),
        JobCommand::Hold(args) => act(&args, Action::Hold),
        JobCommand::Release(args) => act(&args, Action::Release),
        JobCommand::Limit(args) => limits::limit(&args),
        JobCommand::Hosts(args) => {
            let hosts = client(&args.place)?.hosts().map_err(failure)?;
            hosts
                .iter()
                .try_for_each(|host| limits::tell_host(host, args.json))
        }
        JobCommand::Host(args) => limits::set_host(&args),
        JobCommand::Log(args) => {
            let client = client(&args.place)?;
            client.follow(JobId(args.job), ui::print).map_err(failure)
        }
    }
}

pub(super) fn failure(error: ClientError) -> anyhow::Error {
    let error = match error {
        // It is of standard output, as whatever else is printed.
        ClientError::Unheard(why) => return why.into(),
        error => error,
    };
    let kind = match &error {
        ClientError::Unheard(_) => ErrorKind::Io,
        ClientError::Nobody { .. } | ClientError::Unreachable { .. } | ClientError::Away(_) => {
            ErrorKind::Network
        }
        ClientError::Usage(_) => ErrorKind::Usage,
        ClientError::Untrusted(_) => ErrorKind::Auth,
        ClientError::Refused { kind, .. } => {
            let kinds = [
                ErrorKind::Usage,
                ErrorKind::Auth,
                ErrorKind::NotFound,
                ErrorKind::Refused,
                ErrorKind::Network,
            ];
            kinds
                .into_iter()
                .find(|known| exit::name(*known) == kind)
                .unwrap_or(ErrorKind::Io)
        }
    };
    Error::new(kind, error.to_string()).into()
}

fn state(given: JobState) -> State {
    match given {
        JobState::Waiting => State::Waiting,
        JobState::Held => State::Held,
        JobState::Running => State::Running,
        JobState::Done => State::Done,
        JobState::Failed => State::Failed,
        JobState::Cancelled => State::Cancelled,
    }
}

/// The job that a command line means, to run where we are, if the daemon is here, too.
pub(super) fn of_words(
    client: &Client,
    words: &[String],
    traits: JobTraits,
) -> anyhow::Result<Spec> {
    let (kind, arguments) = Kind::of_words(words).ok_or_else(|| {
        let text =
            "a job is cp, sync, verify or 'lab run', with what follows it on the command line";
        Error::new(ErrorKind::Usage, text)
    })?;
    Ok(Spec {
        kind,
        arguments: arguments.to_vec(),
        directory: directory(client, traits.runs_in)?,
        labels: traits.label,
        priority: traits.priority,
        retries: traits.retries,
        after: Vec::new(),
        deadline_ms: None,
        by_ms: None,
        submission: None,
        hold: false,
    })
}

/// A relative one is below the place that we are at, where the daemon is.
fn directory(client: &Client, named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    match named {
        Some(named) if named.is_absolute() => Ok(named),
        Some(named) => Ok(client.directory().map_err(failure)?.join(named)),
        None => client.directory().map_err(failure),
    }
}

/// What is said of all jobs that come again; the daemon refuses what makes no sense for them.
pub(super) fn give_times(given: JobTimes, job: &mut Spec) -> Times {
    job.after = given.after.into_iter().map(JobId).collect();
    Times {
        by: given.by,
        deadline_seconds: given.deadline.map(|time| time.as_millis().div_ceil(1_000)),
    }
}

/// In one line.
pub(super) fn times_line(times: &Times) -> Option<String> {
    let by = times.by.as_ref().map(|by| format!("is to be done by {by}"));
    let deadline = times.deadline_seconds;
    let deadline = deadline.map(|seconds| format!("has failed if it is not done in {seconds} s"));
    let both: Vec<_> = by.into_iter().chain(deadline).collect();
    (!both.is_empty()).then(|| format!("each job {}", both.join(", ")))
}

fn submit(args: JobSubmitArgs) -> anyhow::Result<()> {
    let client = client(&args.place)?;
    let spec = Spec {
        after: args.after.into_iter().map(JobId).collect(),
        deadline_ms: args
            .deadline
            .map(|span| deadline_in(Duration::from_nanos(span.as_nanos()))),
        by_ms: args.by,
        submission: args.id,
        hold: args.hold,
        ..of_words(&client, &args.command, args.traits)?
    };
    let submitted = client.submit(&spec).map_err(failure)?;
    if args.json {
        ui::print(&json!({ "id": submitted.id, "new": submitted.new }).to_string())?;
    } else {
        ui::print(&submitted.id.to_string())?;
    }
    Ok(())
}

fn tell(job: &JobView, json: bool) -> anyhow::Result<()> {
    if json {
        ui::print(&serde_json::to_string(job)?)?;
    } else {
        ui::print(&table::line(job))?;
    }
    Ok(())
}

fn act(args: &JobActArgs, action: Action) -> anyhow::Result<()> {
    let client = client(&args.place)?;
    for job in &args.jobs {
        tell(
            &client.act(JobId(*job), action).map_err(failure)?,
            args.json,
        )?;
    }
    Ok(())
}

fn wait(args: &JobWaitArgs) -> anyhow::Result<()> {
    let client = client(&args.place)?;
    let end = args
        .timeout
        .map(|span| Instant::now() + Duration::from_nanos(span.as_nanos()));
    let mut worst = 0;
    for job in &args.jobs {
        let job = await_end(&client, JobId(*job), end)?;
        tell(&job, args.json)?;
        if worst == 0 {
            worst = code(&job);
        }
    }
    match worst {
        0 => Ok(()),
        code => Err(Passed(code).into()),
    }
}

/// Waits for a job, also over a restart of the daemon.
fn await_end(client: &Client, id: JobId, end: Option<Instant>) -> anyhow::Result<JobView> {
    const AT_ONCE: u32 = 30;
    const PATIENCE: Duration = Duration::from_secs(30);
    const AGAIN: Duration = Duration::from_millis(200);
    let mut gone: Option<Instant> = None;
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let seconds = left.map_or(AT_ONCE, |left| {
            u32::try_from(left.as_secs() + 1)
                .unwrap_or(AT_ONCE)
                .min(AT_ONCE)
        });
        match client.show(id, Some(seconds)) {
            Ok(job) if job.state.is_final() => return Ok(job),
            Ok(_) => gone = None,
            Err(
                error @ (ClientError::Refused { .. }
                | ClientError::Usage(_)
                | ClientError::Untrusted(_)),
            ) => return Err(failure(error)),
            Err(error) => {
                if gone.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                    return Err(failure(error));
                }
                std::thread::sleep(AGAIN);
            }
        }
        if left.is_some_and(|left| left.is_zero()) {
            return Err(Error::new(ErrorKind::Limit, format!("job {id} is not over yet")).into());
        }
    }
}

/// As the command itself would have ended.
fn code(job: &JobView) -> u8 {
    match job.state {
        State::Done => 0,
        State::Cancelled => exit::code(ErrorKind::Cancelled),
        _ => job.exit_code.filter(|code| *code != 0).unwrap_or(1),
    }
}
