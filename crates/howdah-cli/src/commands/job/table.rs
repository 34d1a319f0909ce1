//! Jobs in words.

use crate::ui;
use howdah_daemon::job::JobView;
use std::fmt::Write as _;

/// A job in one line.
pub(super) fn line(job: &JobView) -> String {
    let state = if job.cancelling && !job.state.is_final() {
        "cancelling"
    } else {
        job.state.name()
    };
    let mut text = format!("{}  {state}  {}", job.id, command(job));
    if !job.spec.labels.is_empty() {
        let _ = write!(text, "  [{}]", job.spec.labels.join(", "));
    }
    if let Some(reason) = &job.reason {
        let _ = write!(text, "  ({reason})");
    }
    ui::printable(&text).into_owned()
}

/// As somebody would write it.
fn command(job: &JobView) -> String {
    let words = job.spec.kind.words().iter().copied();
    let words: Vec<_> = words
        .chain(job.spec.arguments.iter().map(String::as_str))
        .collect();
    words.join(" ")
}

/// All about it.
pub(super) fn all(job: &JobView) -> String {
    let mut lines = vec![line(job), format!("  in {}", job.spec.directory.display())];
    lines.push(format!("  submitted {}", time(job.submitted_ms)));
    if let Some(when) = job.spec.by_ms {
        lines.push(format!("  to be done by {}", time(when)));
    }
    if let Some(limit) = &job.limit {
        lines.push(format!("  limit {limit}"));
    }
    if let Some(pace) = &job.pace {
        lines.push(format!("  {}", super::limits::pace(pace)));
    }
    if let Some(when) = job.not_before_ms {
        lines.push(format!("  next attempt {}", time(when)));
    }
    for attempt in &job.attempts {
        let mut text = format!(
            "  attempt {} from {}",
            attempt.number,
            time(attempt.started_ms)
        );
        if let (Some(when), Some(how)) = (attempt.ended_ms, &attempt.ended) {
            let _ = write!(text, " to {}: {how}", time(when));
        } else if let Some(pid) = attempt.pid {
            let _ = write!(text, ", process {pid}");
        }
        lines.push(text);
    }
    if let Some(message) = job
        .last
        .as_ref()
        .and_then(|last| last["error"]["message"].as_str())
    {
        lines.push(format!("  {message}"));
    }
    let lines: Vec<_> = lines.iter().map(|line| ui::printable(line)).collect();
    lines.join("\n")
}

pub(in crate::commands) fn time(ms: u64) -> String {
    let time = i64::try_from(ms)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| "?".to_owned(), |time| format!("{time:.0}"))
}
