//! Watched directories: which files are complete, and the job that copies them. It has no clock and touches nothing.

use crate::job::{JobId, Kind, Spec};
use crate::times::Times;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use utoipa::ToSchema;

/// What is asked for.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchSpec {
    /// The directory, with all that is below it.
    #[schema(value_type = String)]
    pub path: PathBuf,
    /// A file that has not changed for so long is complete. One that was renamed into place is so at once.
    #[serde(default = "usual_quiet")]
    pub quiet_seconds: u32,
    /// What is submitted, for the files that are complete: `cp` or `sync` with options and, as the last argument, the place where they go.
    pub job: Spec,
    /// When each of its jobs is to be done.
    #[serde(default, skip_serializing_if = "Times::is_none")]
    pub times: Times,
}

/// How long a file is quiet before it is complete if nobody says it.
pub const USUAL_QUIET: u32 = 5;

fn usual_quiet() -> u32 {
    USUAL_QUIET
}

/// A watched directory, as it is told.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct WatchView {
    /// Never given twice.
    pub id: i64,
    /// What was asked for.
    pub spec: WatchSpec,
    /// Whether it rests until it is resumed. What comes meanwhile is found then.
    pub paused: bool,
    /// Files that are part of a job, or were.
    pub files: u64,
    /// The newest job.
    pub last_job: Option<JobId>,
    /// What is wrong, if something is.
    pub note: Option<String>,
    /// Whether it was looked at after all that the kernel has told of it, nothing waits there, and none of its jobs is under way.
    #[serde(default)]
    pub settled: bool,
}

impl WatchSpec {
    /// Whether it makes sense; what the arguments mean is for the grammar.
    pub fn check(&self) -> Result<(), String> {
        const LONGEST_QUIET: u32 = 24 * 3_600;
        if !self.path.is_absolute() {
            return Err("a watched directory is an absolute path".to_owned());
        }
        if !(1..=LONGEST_QUIET).contains(&self.quiet_seconds) {
            return Err("a file is quiet for 1 second to a day before it is complete".to_owned());
        }
        if !matches!(self.job.kind, Kind::Cp | Kind::Sync) {
            return Err("the job of a watched directory is cp or sync".to_owned());
        }
        let job = &self.job;
        if job.submission.is_some() || job.deadline_ms.is_some() || job.by_ms.is_some() || job.hold
        {
            return Err(
                "the job of a watched directory has no submission, deadline_ms, by_ms and hold of its own: 'times' is for all that come"
                    .to_owned(),
            );
        }
        if !job.after.is_empty() {
            return Err(
                "the job of a watched directory comes when files do, and after no other one"
                    .to_owned(),
            );
        }
        self.times.check(job.kind)?;
        let ours = |word: &String| {
            let name = word.split('=').next().unwrap_or_default();
            ["--files-from", "--from0", "-0", "--"].contains(&name)
        };
        if let Some(word) = job.arguments.iter().find(|word| ours(word)) {
            return Err(format!(
                "'{word}' is not for the job of a watched directory, which has a list of its own"
            ));
        }
        match self.job.arguments.last() {
            Some(last) if !last.starts_with('-') => Ok(()),
            _ => Err("the last argument is the place where the files go".to_owned()),
        }
    }

    /// The job for the files that are listed there, ended by zero bytes.
    pub fn job(&self, list: &Path) -> Result<Spec, String> {
        let text = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            text.ok_or_else(|| format!("{} is no UTF-8", path.display()))
        };
        let mut job = self.job.clone();
        let Some(place) = job.arguments.pop() else {
            return Err("the last argument is the place where the files go".to_owned());
        };
        let mut from = text(&self.path)?;
        if job.kind == Kind::Cp {
            job.arguments.push("--recursive".to_owned());
            // What is in it, not the directory itself.
            from.push_str("/.");
        }
        job.arguments.push("--from0".to_owned());
        job.arguments.push(format!("--files-from={}", text(list)?));
        job.arguments.extend(["--".to_owned(), from, place]);
        Ok(job)
    }
}

/// What a file looks like from outside; what was copied once is not copied again while it looks the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Look {
    pub(crate) size: u64,
    pub(crate) modified_ns: i64,
    pub(crate) inode: u64,
}

/// Files that are not complete yet.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// How they looked, and since when.
    seen: BTreeMap<PathBuf, (Look, u64)>,
    /// Renamed into place, with all below them.
    moved: BTreeSet<PathBuf>,
}

impl Pending {
    /// Something was renamed to that.
    pub(crate) fn moved_in(&mut self, path: PathBuf) {
        // Of so many at once each is complete when it is quiet.
        const MOST: usize = 10_000;
        if self.moved.len() < MOST {
            self.moved.insert(path);
        }
    }

    /// That is complete, but not part of a job yet.
    pub(crate) fn again(&mut self, path: PathBuf, look: Look) {
        self.seen.insert(path, (look, 0));
    }

    /// What a scan found that is not part of a job, at that time of a clock that is never set. Gives back what is complete,
    /// and when the next one may be.
    pub(crate) fn complete(
        &mut self,
        found: impl IntoIterator<Item = (PathBuf, Look)>,
        now_ms: u64,
        quiet_ms: u64,
    ) -> (Vec<(PathBuf, Look)>, Option<u64>) {
        let mut before = std::mem::take(&mut self.seen);
        let moved = std::mem::take(&mut self.moved);
        let (mut complete, mut next) = (Vec::new(), None::<u64>);
        for (path, look) in found {
            let since = match before.remove(&path) {
                Some((known, since)) if known == look => since,
                _ => now_ms,
            };
            let in_place = path.ancestors().any(|part| moved.contains(part));
            if in_place || now_ms.saturating_sub(since) >= quiet_ms {
                complete.push((path, look));
            } else {
                let when = since + quiet_ms;
                next = Some(next.map_or(when, |next| next.min(when)));
                self.seen.insert(path, (look, since));
            }
        }
        (complete, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spec(arguments: &[&str]) -> WatchSpec {
        let job = serde_json::json!({"kind": "cp", "arguments": arguments, "directory": "/"});
        let spec = serde_json::json!({"path": "/in", "job": job});
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn the_job_copies_what_is_listed_and_nothing_else() {
        let spec = spec(&["--archive", "site:store"]);
        assert_eq!(spec.check(), Ok(()));
        assert_eq!(spec.quiet_seconds, USUAL_QUIET);
        let job = spec.job(Path::new("/lists/1")).unwrap();
        assert_eq!(
            job.arguments,
            [
                "--archive",
                "--recursive",
                "--from0",
                "--files-from=/lists/1",
                "--",
                "/in/.",
                "site:store"
            ]
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let good = spec(&["site:store"]);
        let mut wrong = vec![spec(&[]), spec(&["site:store", "--archive"])];
        let with = |change: &dyn Fn(&mut WatchSpec)| {
            let mut spec = good.clone();
            change(&mut spec);
            spec
        };
        wrong.extend([
            with(&|spec| spec.path = "in".into()),
            with(&|spec| spec.quiet_seconds = 0),
            with(&|spec| spec.quiet_seconds = 86_401),
            with(&|spec| spec.job.kind = Kind::Verify),
            with(&|spec| spec.job.arguments.insert(0, "--files-from=x".into())),
            with(&|spec| spec.job.arguments.insert(0, "--".into())),
            with(&|spec| spec.job.hold = true),
            with(&|spec| spec.job.submission = Some("x".into())),
            with(&|spec| spec.job.after = vec![JobId(1)]),
            with(&|spec| spec.times.by = Some("25:00".into())),
        ]);
        for spec in wrong {
            assert!(spec.check().is_err(), "{spec:?}");
        }
    }

    fn look(size: u64) -> Look {
        Look {
            size,
            modified_ns: 1,
            inode: 1,
        }
    }

    fn file(name: &str, size: u64) -> (PathBuf, Look) {
        (PathBuf::from(name), look(size))
    }

    #[test]
    fn a_file_is_complete_when_it_was_quiet_or_was_renamed_into_place() {
        let mut pending = Pending::default();
        let nothing = Vec::new();
        assert_eq!(
            pending.complete([file("a", 1), file("b", 1)], 100, 50),
            (nothing.clone(), Some(150))
        );
        // One grows.
        assert_eq!(
            pending.complete([file("a", 1), file("b", 2)], 149, 50),
            (nothing.clone(), Some(150))
        );
        assert_eq!(
            pending.complete([file("a", 1), file("b", 2)], 150, 50),
            (vec![file("a", 1)], Some(199))
        );
        // A whole directory comes at once.
        pending.moved_in("d".into());
        assert_eq!(
            pending.complete([file("b", 3), file("d/x", 1), file("dd", 1)], 160, 50),
            (vec![file("d/x", 1)], Some(210))
        );
        // That was once.
        assert_eq!(
            pending.complete([file("d/y", 1)], 170, 50),
            (nothing, Some(220))
        );
    }

    proptest! {
        /// However often it is looked, and whatever changes: what is complete looked the same for that time.
        #[test]
        fn nothing_that_changes_is_complete(sizes in proptest::collection::vec((0..3_u64, 1..40_u64), 1..40)) {
            let mut pending = Pending::default();
            let (mut now, mut since) = (0, 0);
            let mut before = None;
            for (size, step) in sizes {
                now += step;
                if before != Some(size) {
                    since = now;
                }
                before = Some(size);
                let (complete, next) = pending.complete([file("a", size)], now, 50);
                prop_assert_eq!(!complete.is_empty(), now - since >= 50);
                prop_assert_eq!(next, complete.is_empty().then_some(since + 50));
                if !complete.is_empty() {
                    before = None;
                }
            }
        }
    }
}
