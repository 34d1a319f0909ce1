//! `howdah watch`: a client of the daemon's API.

use super::job::{client, failure, give_times, of_words, times_line};
use crate::args::{WatchActArgs, WatchAddArgs, WatchCommand};
use crate::ui;
use howdah::{Error, ErrorKind};
use howdah_daemon::watch::{WatchSpec, WatchView};
use serde_json::json;
use std::fmt::Write as _;

pub(super) fn run(command: WatchCommand) -> anyhow::Result<()> {
    match command {
        WatchCommand::Add(args) => add(args),
        WatchCommand::List(args) => {
            let all = client(&args.place)?.watches().map_err(failure)?;
            all.iter().try_for_each(|found| tell(found, args.json))
        }
        WatchCommand::Show(args) => {
            let found = client(&args.place)?.watch(args.watch).map_err(failure)?;
            tell(&found, args.json)
        }
        WatchCommand::Remove(args) => {
            let client = client(&args.place)?;
            for id in &args.watches {
                client.remove_watch(*id).map_err(failure)?;
                if args.json {
                    ui::print(&json!({ "id": id, "removed": true }).to_string())?;
                }
            }
            Ok(())
        }
        WatchCommand::Pause(args) => rest(&args, true),
        WatchCommand::Resume(args) => rest(&args, false),
    }
}

fn add(args: WatchAddArgs) -> anyhow::Result<()> {
    let client = client(&args.place)?;
    let seconds = args.quiet.as_nanos() / 1_000_000_000;
    let mut job = of_words(&client, &args.command, args.traits)?;
    let spec = WatchSpec {
        path: std::path::absolute(client.directory().map_err(failure)?.join(&args.directory))?,
        quiet_seconds: u32::try_from(seconds)
            .map_err(|_| Error::new(ErrorKind::Usage, "--quiet is from 1s to 1d"))?,
        times: give_times(args.times, &mut job),
        job,
    };
    let id = client.add_watch(&spec).map_err(failure)?;
    if args.json {
        ui::print(&json!({ "id": id }).to_string())?;
    } else {
        ui::print(&id.to_string())?;
    }
    Ok(())
}

fn rest(args: &WatchActArgs, paused: bool) -> anyhow::Result<()> {
    let client = client(&args.place)?;
    args.watches.iter().try_for_each(|id| {
        let found = client.pause_watch(*id, paused).map_err(failure)?;
        tell(&found, args.json)
    })
}

fn tell(found: &WatchView, json: bool) -> anyhow::Result<()> {
    let text = if json {
        serde_json::to_string(found)?
    } else {
        line(found)
    };
    Ok(ui::print(&text)?)
}

/// A watched directory in one line.
fn line(found: &WatchView) -> String {
    let spec = &found.spec;
    let state = if found.paused { "paused" } else { "watched" };
    let words = spec.job.kind.words().iter().copied();
    let words: Vec<_> = words
        .chain(spec.job.arguments.iter().map(String::as_str))
        .collect();
    let mut text = format!(
        "{}  {state}  {} ({} s)  {}  {} files",
        found.id,
        spec.path.display(),
        spec.quiet_seconds,
        words.join(" "),
        found.files
    );
    if let Some(times) = times_line(&spec.times) {
        let _ = write!(text, ", {times}");
    }
    if let Some(job) = found.last_job {
        let _ = write!(text, ", last job {job}");
    }
    if let Some(note) = &found.note {
        let _ = write!(text, "  ({note})");
    }
    ui::printable(&text).into_owned()
}
