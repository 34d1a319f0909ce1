//! `--record` and `--no-record` of cp and sync.

use crate::args::FlightArgs;
use crate::own_file;
use crate::ui::Reporter;
use howdah::{
    CopyConfig, Error, ErrorKind, FlightRecorder, Location, Recording, Slow, Summary, Verdict,
    default_recordings,
};
use std::path::Path;

/// A copy that was slower than half of its path for so many seconds leaves its recording ...
const HELD_UP_S: f64 = 60.0;
/// ... if that is at least this share of its time.
const HELD_UP_SHARE: f64 = 0.25;

/// Has the copy recorded that is about to begin.
pub(super) fn begin(
    args: &FlightArgs,
    sources: &[Location],
    destination: &Location,
    dry_run: bool,
    config: &mut CopyConfig,
) {
    let wanted = args.record.is_some() || !args.no_record;
    if wanted && !is_between(sources, destination) && !dry_run {
        config.flight = Some(FlightRecorder::new(config.policy));
    }
}

/// Before anything is done.
pub(super) fn check_place(
    args: &FlightArgs,
    sources: &[Location],
    destination: &Location,
) -> Result<(), Error> {
    let Some(path) = &args.record else {
        return Ok(());
    };
    if is_between(sources, destination) {
        let text = "--record: the data goes from one of the two machines to the other, and this one sees nothing of it";
        return Err(Error::new(ErrorKind::Usage, text));
    }
    check(path)
}

/// Also when it is to be written: what has come meanwhile may have the name.
fn check(path: &Path) -> Result<(), Error> {
    own_file::check("--record", path, Recording::is_begun_by)?;
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        let text = format!(
            "--record {}: there is something else than a file; name another one",
            path.display()
        );
        return Err(Error::new(ErrorKind::Usage, text));
    }
    Ok(())
}

fn is_between(sources: &[Location], destination: &Location) -> bool {
    let is_ssh = |place: &Location| matches!(place, Location::Ssh(_));
    is_ssh(destination) && sources.iter().any(is_ssh)
}

/// Writes the recording where it was asked for, or keeps that of a copy that was held up for long.
pub(super) fn end(
    args: &FlightArgs,
    config: &CopyConfig,
    result: anyhow::Result<Summary>,
    reporter: &Reporter,
) -> anyhow::Result<Summary> {
    let Some(flight) = &config.flight else {
        return result;
    };
    let summary = result.as_ref().ok();
    if let Some(path) = &args.record {
        let written = check(path).and_then(|()| flight.write(path, summary));
        return match (written, result) {
            (Ok(()), result) => result,
            (Err(error), Ok(_)) => {
                let text = format!("the copy is done, and its recording is not kept: {error}");
                Err(Error::new(error.kind(), text).into())
            }
            (Err(error), Err(first)) => {
                reporter.warn(&error.to_string());
                Err(first)
            }
        };
    }
    let recording = flight.recording(summary);
    if let Some(slow) = held_up(&recording.verdict())
        && let Some(kept) = default_recordings()
    {
        // That it could not be kept is no fault of the copy.
        if let Ok(path) = kept.keep(&recording) {
            reporter.tell(&format!(
                "for {:.0} s less than half of what the path carries went over it ({}); 'howdah lab replay --show {}' says more, --no-record keeps none",
                slow.seconds,
                slow.held.name(),
                path.display()
            ));
        }
    }
    result
}

/// When the copy was slower than its path, if that was for long.
fn held_up(verdict: &Verdict) -> Option<Slow> {
    let long =
        |slow: &Slow| slow.seconds > HELD_UP_S && slow.seconds > HELD_UP_SHARE * verdict.seconds;
    verdict.slow.filter(long)
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah::{Held, Interval};

    #[test]
    fn a_copy_is_held_up_when_it_was_slow_for_a_minute_and_a_quarter_of_its_time() {
        let of = |stretches: &[(u64, u64, Held)]| {
            let intervals = stretches.iter().map(|&(seconds, mbit, held)| {
                let mut made = Interval {
                    span_us: seconds * 1_000_000,
                    delivered_bytes: seconds * mbit * 125_000,
                    capacity_bps: 100_000_000,
                    ..Interval::default()
                };
                made.held_us[held.index()] = made.span_us;
                made
            });
            let recording = Recording {
                intervals: intervals.collect(),
                ..Recording::default()
            };
            held_up(&recording.verdict()).map(|slow| (slow.seconds, slow.held))
        };
        let sink = (61.0, Held::Sink);
        assert_eq!(
            of(&[(100, 90, Held::Path), (61, 10, Held::Sink)]),
            Some(sink)
        );
        assert_eq!(
            of(&[(100, 90, Held::Path), (59, 10, Held::Sink)]),
            None,
            "not for long"
        );
        assert_eq!(
            of(&[(300, 90, Held::Path), (61, 10, Held::Sink)]),
            None,
            "not much of it"
        );
        assert_eq!(of(&[(100, 60, Held::Sink)]), None, "more than half");
        assert_eq!(of(&[(100, 10, Held::Cap)]), None, "as the user wishes");
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn a_place_that_cannot_take_it_is_told_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| check(&dir.path().join(name)).map_err(|error| error.kind());
        assert_eq!(at("new.flight"), Ok(()));
        std::fs::write(dir.path().join("old.flight"), "").unwrap();
        assert_eq!(at("old.flight"), Ok(()));
        std::fs::write(dir.path().join("notes.txt"), "no recording").unwrap();
        assert_eq!(at("notes.txt"), Err(ErrorKind::Usage), "it would be lost");
        assert_eq!(at("no/new.flight"), Err(ErrorKind::Refused));
        assert_eq!(at(""), Err(ErrorKind::Usage));
        let null = check(Path::new("/dev/null")).unwrap_err();
        assert_eq!(null.kind(), ErrorKind::Usage, "it would be replaced");
        assert!(check(Path::new("here.flight")).is_ok());
    }
}
