//! Limits that jobs share, and machines.

use super::{client, failure, tell};
use crate::args::{JobHostArgs, JobLimitArgs};
use crate::ui;
use howdah_core::Rate;
use howdah_daemon::job::JobId;
use howdah_daemon::job::JobPace;
use howdah_daemon::limits::{HostSpec, HostView, LimitSpec, LimitsView};
use std::fmt::Write as _;

pub(super) fn limit(args: &JobLimitArgs) -> anyhow::Result<()> {
    let client = client(&args.place)?;
    let Some(limit) = &args.limit else {
        let limits = client.limits().map_err(failure)?;
        return tell_limits(&limits, args.json);
    };
    let spec = LimitSpec {
        limit: limit.clone(),
    };
    if args.jobs.is_empty() {
        let limits = client.set_limit(&spec).map_err(failure)?;
        return tell_limits(&limits, args.json);
    }
    args.jobs.iter().try_for_each(|job| {
        let job = client.limit_job(JobId(*job), &spec).map_err(failure)?;
        tell(&job, args.json)
    })
}

fn tell_limits(limits: &LimitsView, json: bool) -> anyhow::Result<()> {
    if json {
        return Ok(ui::print(&serde_json::to_string(limits)?)?);
    }
    let now = limits.allowed_bps.map_or_else(|| "none".to_owned(), rate);
    let text = match &limits.limit {
        None => "no limit".to_owned(),
        // As somebody has written it.
        Some(limit) => format!("limit {limit}: {now} now"),
    };
    let mut text = ui::printable(&text).into_owned();
    for running in &limits.running {
        let _ = write!(text, "\n  {}  {}", running.job, pace(&running.pace));
    }
    Ok(ui::print(&text)?)
}

fn rate(bps: u64) -> String {
    match bps {
        0 => "nothing".to_owned(),
        bps => Rate::from_bits_per_sec(bps).to_string(),
    }
}

/// How a running copy stands to its limits.
pub(super) fn pace(pace: &JobPace) -> String {
    let share = pace.share_bps.map_or_else(|| "no limit".to_owned(), rate);
    let mut text = format!("share {share}, takes {}", rate(pace.wire_bps));
    if let Some(needed) = pace.needed_bps {
        let _ = write!(text, ", needs {}", rate(needed));
    }
    if pace.meets == Some(false) {
        text.push_str(" and will be late");
    }
    text
}

pub(super) fn set_host(args: &JobHostArgs) -> anyhow::Result<()> {
    let client = client(&args.place)?;
    let name = args.host.to_ascii_lowercase();
    let known = client.hosts().map_err(failure)?;
    // What is not said stays as it is.
    let before = known.into_iter().find(|host| host.name == name);
    let before = before.map(|host| host.set).unwrap_or_default();
    let spec = HostSpec {
        limit: args.limit.clone().or(before.limit),
        max_running: match args.max_running {
            Some(0) => None,
            Some(most) => Some(most),
            None => before.max_running,
        },
    };
    let hosts = client.set_host(&name, &spec).map_err(failure)?;
    hosts
        .iter()
        .filter(|host| host.name == name)
        .try_for_each(|host| tell_host(host, args.json))
}

pub(super) fn tell_host(host: &HostView, json: bool) -> anyhow::Result<()> {
    if json {
        return Ok(ui::print(&serde_json::to_string(host)?)?);
    }
    let mut text = format!(
        "{}  {} running, {} waiting, {} jobs",
        host.name, host.running, host.waiting, host.jobs
    );
    if let Some(limit) = &host.set.limit {
        let _ = write!(text, "; limit {limit}");
    }
    if let Some(most) = host.set.max_running {
        let _ = write!(text, "; at most {most} run");
    }
    if let Some(path) = &host.facts.path {
        let _ = write!(
            text,
            "; path {}, {:.1} ms, loss {:.3} %, measured {} s ago",
            Rate::from_bits_per_sec(path.capacity_bps),
            path.rtt_seconds * 1e3,
            path.loss * 100.0,
            path.age_seconds
        );
    }
    for key in &host.facts.keys {
        let _ = write!(text, "; key {key}");
    }
    Ok(ui::print(&ui::printable(&text))?)
}
