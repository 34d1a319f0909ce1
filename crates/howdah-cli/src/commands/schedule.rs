//! `howdah schedule`: a client of the daemon's API.

use super::job::{client, failure, give_times, of_words, printed_time, times_line};
use crate::args::{MissedName, OverlapName, ScheduleActArgs, ScheduleAddArgs, ScheduleCommand};
use crate::ui;
use howdah_daemon::client::{Client, ClientError};
use howdah_daemon::schedule::{Missed, Overlap, ScheduleSpec, ScheduleView};
use serde_json::json;
use std::fmt::Write as _;

pub(super) fn run(command: ScheduleCommand) -> anyhow::Result<()> {
    match command {
        ScheduleCommand::Add(args) => add(args),
        ScheduleCommand::List(args) => {
            let all = client(&args.place)?.schedules().map_err(failure)?;
            all.iter().try_for_each(|found| tell(found, args.json))
        }
        ScheduleCommand::Show(args) => {
            let client = client(&args.place)?;
            let found = client.schedule(args.schedule).map_err(failure)?;
            if args.json {
                tell(&found, true)
            } else {
                Ok(ui::print(&all(&found))?)
            }
        }
        ScheduleCommand::Remove(args) => {
            let client = client(&args.place)?;
            for id in &args.schedules {
                client.remove_schedule(*id).map_err(failure)?;
                if args.json {
                    ui::print(&json!({ "id": id, "removed": true }).to_string())?;
                }
            }
            Ok(())
        }
        ScheduleCommand::Pause(args) => act(&args, |client, id| client.pause_schedule(id, true)),
        ScheduleCommand::Resume(args) => act(&args, |client, id| client.pause_schedule(id, false)),
    }
}

fn add(args: ScheduleAddArgs) -> anyhow::Result<()> {
    let client = client(&args.place)?;
    let mut job = of_words(&client, &args.command, args.traits)?;
    let spec = ScheduleSpec {
        cron: args.cron,
        zone: args.zone,
        times: give_times(args.times, &mut job),
        job,
        missed: match args.missed {
            MissedName::Once => Missed::Once,
            MissedName::Skip => Missed::Skip,
        },
        overlap: match args.overlap {
            OverlapName::Skip => Overlap::Skip,
            OverlapName::Allow => Overlap::Allow,
        },
    };
    let id = client.add_schedule(&spec).map_err(failure)?;
    if args.json {
        ui::print(&json!({ "id": id }).to_string())?;
    } else {
        ui::print(&id.to_string())?;
    }
    Ok(())
}

fn act(
    args: &ScheduleActArgs,
    change: impl Fn(&Client, i64) -> Result<ScheduleView, ClientError>,
) -> anyhow::Result<()> {
    let client = client(&args.place)?;
    args.schedules
        .iter()
        .try_for_each(|id| tell(&change(&client, *id).map_err(failure)?, args.json))
}

fn tell(found: &ScheduleView, json: bool) -> anyhow::Result<()> {
    let text = if json {
        serde_json::to_string(found)?
    } else {
        line(found)
    };
    Ok(ui::print(&text)?)
}

/// A schedule in one line.
fn line(found: &ScheduleView) -> String {
    let next = match found.next_ms {
        _ if found.paused => "paused".to_owned(),
        Some(when) => format!("next {}", printed_time(when)),
        None => "comes no more".to_owned(),
    };
    let spec = &found.spec;
    let words = spec.job.kind.words().iter().copied();
    let words: Vec<_> = words
        .chain(spec.job.arguments.iter().map(String::as_str))
        .collect();
    let mut text = format!(
        "{}  {next}  {} ({})  {}",
        found.id,
        spec.cron,
        spec.zone,
        words.join(" ")
    );
    if !spec.job.labels.is_empty() {
        let _ = write!(text, "  [{}]", spec.job.labels.join(", "));
    }
    ui::printable(&text).into_owned()
}

/// All about it.
fn all(found: &ScheduleView) -> String {
    let mut lines = vec![
        line(found),
        format!("  in {}", found.spec.job.directory.display()),
    ];
    lines.push(match found.spec.missed {
        Missed::Once => "  what was missed is one run".to_owned(),
        Missed::Skip => "  what was missed does not run".to_owned(),
    });
    lines.push(match found.spec.overlap {
        Overlap::Skip => "  no run while the one before is not over".to_owned(),
        Overlap::Allow => "  runs may overlap".to_owned(),
    });
    lines.extend(times_line(&found.spec.times).map(|line| format!("  {line}")));
    if let Some(job) = found.last_job {
        lines.push(format!("  the last run is job {job}"));
    }
    if let Some(note) = &found.note {
        lines.push(format!("  the last time that came brought none: {note}"));
    }
    let lines: Vec<_> = lines.iter().map(|line| ui::printable(line)).collect();
    lines.join("\n")
}
