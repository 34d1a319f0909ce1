//! What a job is: what was asked for, and what became of it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use utoipa::ToSchema;

/// A job, by the order of submission. Never given twice.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, ToSchema,
)]
#[serde(transparent)]
pub struct JobId(pub i64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a running job stands to its limits, as it is told.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
pub struct JobPace {
    /// What it may take of the wire; null: as much as it can.
    pub share_bps: Option<u64>,
    /// The least rate that meets its time, if it has one and knows how much there is.
    pub needed_bps: Option<u64>,
    /// Whether that is met, as far as can be seen.
    pub meets: Option<bool>,
    /// What it moved.
    pub bytes: u64,
    /// Of so much, as far as it knows.
    pub total_bytes: Option<u64>,
    /// Of content.
    pub goodput_bps: u64,
    /// With everything around it.
    pub wire_bps: u64,
}

/// The commands that can be jobs.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `howdah cp`
    Cp,
    /// `howdah sync`
    Sync,
    /// `howdah verify`
    Verify,
    /// `howdah lab run`
    LabRun,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Cp, Self::Sync, Self::Verify, Self::LabRun];

    /// As on the command line.
    pub fn words(self) -> &'static [&'static str] {
        match self {
            Self::Cp => &["cp"],
            Self::Sync => &["sync"],
            Self::Verify => &["verify"],
            Self::LabRun => &["lab", "run"],
        }
    }

    /// The kind that a command line begins with, and what follows.
    pub fn of_words(words: &[String]) -> Option<(Self, &[String])> {
        Self::ALL
            .into_iter()
            .find(|kind| {
                kind.words().len() <= words.len()
                    && kind.words().iter().eq(&words[..kind.words().len()])
            })
            .map(|kind| (kind, &words[kind.words().len()..]))
    }
}

/// What is asked for.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Which command.
    pub kind: Kind,
    /// What follows the command's name on the command line.
    pub arguments: Vec<String>,
    /// Where it runs: what relative paths are relative to.
    #[schema(value_type = String)]
    pub directory: PathBuf,
    /// Words to find it by.
    #[serde(default)]
    pub labels: Vec<String>,
    /// Higher ones go first.
    #[serde(default)]
    pub priority: i32,
    /// How often it is tried again after a failure that may pass.
    #[serde(default = "usual_retries")]
    pub retries: u32,
    /// Jobs that must be done before.
    #[serde(default)]
    pub after: Vec<JobId>,
    /// If it is not done by then, it has failed. In milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// It is to be done by then, with the least rate that does it. In milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_ms: Option<u64>,
    /// Given a second time, the job of the first time is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission: Option<String>,
    /// Waits until it is released.
    #[serde(default)]
    pub hold: bool,
}

/// How often a job is tried again if nobody says it.
pub const USUAL_RETRIES: u32 = 3;

fn usual_retries() -> u32 {
    USUAL_RETRIES
}

/// What a description may hold at the most.
mod most {
    pub(super) const ARGUMENTS: usize = 4_096;
    pub(super) const ARGUMENT_BYTES: usize = 256 << 10;
    /// No system call takes more.
    pub(super) const DIRECTORY_BYTES: usize = 4_096;
    pub(super) const LABELS: usize = 16;
    pub(super) const LABEL_BYTES: usize = 64;
    pub(super) const AFTER: usize = 64;
    pub(super) const SUBMISSION_BYTES: usize = 128;
    pub(super) const RETRIES: u32 = 1_000;
}

/// The job that a schedule submits at a time.
pub(crate) fn of_schedule(schedule: i64, due_ms: u64) -> String {
    format!("{OF_SCHEDULE}{schedule}-{due_ms}")
}

/// The job for the files of such a list of a watched directory.
pub(crate) fn of_watch(list: &str) -> String {
    format!("{OF_WATCH}{list}")
}

const OF_SCHEDULE: &str = "schedule-";
const OF_WATCH: &str = "watch-";

/// Whether a submission's name is one of those: whoever had it first would be taken for the daemon's own job, which then never runs.
fn is_of_daemon(name: &str) -> bool {
    let numbers = [OF_SCHEDULE, OF_WATCH]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix)?.split_once('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    numbers.is_some_and(|(which, when)| is_number(which) && is_number(when))
}

impl Spec {
    /// That command, as soon as may be and with nothing else said; not tried again.
    pub fn new(kind: Kind, arguments: Vec<String>, directory: impl Into<PathBuf>) -> Self {
        Self {
            kind,
            arguments,
            directory: directory.into(),
            labels: Vec::new(),
            priority: 0,
            retries: 0,
            after: Vec::new(),
            deadline_ms: None,
            by_ms: None,
            submission: None,
            hold: false,
        }
    }

    /// Whether it is within bounds; what the arguments mean is for the [`Grammar`].
    pub fn check(&self) -> Result<(), String> {
        let bytes: usize = self.arguments.iter().map(|word| word.len() + 1).sum();
        if self.arguments.len() > most::ARGUMENTS || bytes > most::ARGUMENT_BYTES {
            return Err(format!(
                "a job has at most {} arguments of {} bytes together; name a list in a file (--files-from)",
                most::ARGUMENTS,
                most::ARGUMENT_BYTES
            ));
        }
        if self.arguments.iter().any(|word| word.contains('\0')) {
            return Err("an argument has a zero byte in it".to_owned());
        }
        if !self.directory.is_absolute()
            || self.directory.as_os_str().as_encoded_bytes().contains(&0)
        {
            return Err("the directory of a job is an absolute path".to_owned());
        }
        if self.directory.as_os_str().len() > most::DIRECTORY_BYTES {
            return Err(format!(
                "the directory of a job has at most {} bytes",
                most::DIRECTORY_BYTES
            ));
        }
        if self.labels.len() > most::LABELS
            || self
                .labels
                .iter()
                .any(|label| label.is_empty() || label.len() > most::LABEL_BYTES)
        {
            return Err(format!(
                "a job has at most {} labels of 1 to {} bytes",
                most::LABELS,
                most::LABEL_BYTES
            ));
        }
        if self.after.len() > most::AFTER {
            return Err(format!("a job waits for at most {} others", most::AFTER));
        }
        if self.retries > most::RETRIES {
            return Err(format!(
                "a job is tried again at most {} times",
                most::RETRIES
            ));
        }
        if self.by_ms.is_some() && !matches!(self.kind, Kind::Cp | Kind::Sync) {
            return Err("a time to be done by is for jobs that move bytes: cp and sync".to_owned());
        }
        match &self.submission {
            Some(id) if id.is_empty() || id.len() > most::SUBMISSION_BYTES => Err(format!(
                "a submission's name has 1 to {} bytes",
                most::SUBMISSION_BYTES
            )),
            Some(id) if is_of_daemon(id) => Err(format!(
                "'{id}' is how the daemon names what it submits itself; choose another name"
            )),
            _ => Ok(()),
        }
    }

    /// Whether somebody who submits again means the same. Times may have been counted from now.
    pub fn means(&self, other: &Self) -> bool {
        let timeless = |spec: &Self| Self {
            deadline_ms: None,
            by_ms: None,
            ..spec.clone()
        };
        timeless(self) == timeless(other)
    }

    /// The command line, without the program.
    pub fn command_line(&self) -> Vec<String> {
        let words = self.kind.words().iter().map(|word| (*word).to_owned());
        let json = std::iter::once("--json".to_owned());
        words
            .chain(json)
            .chain(self.arguments.iter().cloned())
            .collect()
    }
}

/// The deadline of a job that is to be done in that time.
pub fn deadline_in(time: std::time::Duration) -> u64 {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    crate::time::now_ms().saturating_add(ms)
}

/// What the arguments of a job mean.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Meaning {
    /// Machines that it speaks with, each once.
    pub hosts: Vec<String>,
    /// Its places, as they were written.
    pub places: Vec<String>,
    /// Files and directories of this machine that it names.
    pub paths: Vec<PathBuf>,
    /// What it copies, if all of that is of this machine and no list says which part of it; otherwise none.
    pub sources: Vec<PathBuf>,
}

/// The command line's own parser, so that a job can say what a person can, and not more.
pub trait Grammar: Send + Sync + 'static {
    /// What it means, or why it makes no sense, or names a program to run.
    fn check(&self, spec: &Spec) -> Result<Meaning, String>;
}

/// How it stands.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// For its turn, for others, or for the time of its next attempt.
    Waiting,
    /// Until it is released.
    Held,
    /// A process works on it.
    Running,
    /// Its process has ended with code 0.
    Done,
    /// It will not be tried again.
    Failed,
    /// Somebody did not want it any more.
    Cancelled,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Waiting,
        Self::Held,
        Self::Running,
        Self::Done,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Whether nothing will happen to it any more.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }

    /// As in the API and in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The state of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How an attempt ended.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The process said so itself.
    Code(u8),
    /// It was killed.
    Signal(i32),
    /// It is gone, and nobody saw how: the daemon was not there, or the machine went down.
    Vanished,
    /// It never took its attempt up, so nothing was done.
    NeverBegan,
    /// The system did not start it.
    CannotStart(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(15) => f.write_str("ended with code 15: there are differences"),
            Self::Code(code) => write!(f, "ended with code {code}"),
            Self::Signal(signal) => write!(f, "killed by signal {signal}"),
            Self::Vanished => f.write_str("is gone, and nobody saw how it ended"),
            Self::NeverBegan => f.write_str("never began"),
            Self::CannotStart(why) => write!(f, "could not be started: {why}"),
        }
    }
}

/// Something that happened to a job, as it is told.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct Happened {
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// `submitted`, `cancelling`, `limited`, `behind` or `on_time`, or the name of its state from then on.
    pub what: String,
    /// If there is something to say.
    pub why: Option<String>,
}

/// An attempt, as it is told.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct AttemptView {
    /// From 1.
    pub number: u32,
    /// Of the process; none before it runs.
    pub pid: Option<u32>,
    /// Milliseconds since 1970.
    pub started_ms: u64,
    /// None while it runs.
    pub ended_ms: Option<u64>,
    /// None while it runs.
    pub ended: Option<Ended>,
}

/// A job, as it is told.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct JobView {
    /// Which one.
    pub id: JobId,
    /// What was asked for.
    pub spec: Spec,
    /// Machines that it speaks with.
    pub hosts: Vec<String>,
    /// How it stands.
    pub state: State,
    /// Why, in words, if there is something to say.
    pub reason: Option<String>,
    /// Of the last attempt that ended by itself.
    pub exit_code: Option<u8>,
    /// The next attempt does not begin before, in milliseconds since 1970.
    pub not_before_ms: Option<u64>,
    /// Whether somebody has asked to cancel it.
    pub cancelling: bool,
    /// Milliseconds since 1970.
    pub submitted_ms: u64,
    /// Milliseconds since 1970.
    pub ended_ms: Option<u64>,
    /// The first one first. Empty in lists.
    #[serde(default)]
    pub attempts: Vec<AttemptView>,
    /// What happened to it, the last 200 times. Empty in lists.
    #[serde(default)]
    pub history: Vec<Happened>,
    /// The limit that was set for it.
    #[serde(default)]
    pub limit: Option<String>,
    /// How it stands to its limits while it runs, as far as that is looked at: while something is limited. None in lists.
    #[serde(default)]
    pub pace: Option<JobPace>,
    /// The last event of its last attempt (docs/json.md). None in lists.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub last: Option<serde_json::Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_names_its_kind() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let line = words("lab run scenarios");
        let (kind, rest) = Kind::of_words(&line).unwrap();
        assert_eq!((kind, rest), (Kind::LabRun, &line[2..]));
        assert!(Kind::of_words(&words("lab")).is_none());
        assert!(Kind::of_words(&words("serve --root /")).is_none());
        assert!(Kind::of_words(&[]).is_none());
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        let spec: Spec =
            serde_json::from_str(r#"{"kind":"cp","arguments":["a","h:b"],"directory":"/"}"#)
                .unwrap();
        assert_eq!(spec.check(), Ok(()));
        assert_eq!(spec.retries, USUAL_RETRIES);
        for name in ["x", "schedule-night", "schedule-3", "watch-3-a", "watch--"] {
            let named = Spec {
                submission: Some(name.to_owned()),
                ..spec.clone()
            };
            assert_eq!(named.check(), Ok(()), "{name}");
        }
        let wrong = [
            Spec {
                directory: "tmp".into(),
                ..spec.clone()
            },
            Spec {
                directory: format!("/{}", "x".repeat(4_096)).into(),
                ..spec.clone()
            },
            Spec {
                arguments: vec!["a\0b".into()],
                ..spec.clone()
            },
            Spec {
                arguments: vec![String::new(); 5_000],
                ..spec.clone()
            },
            Spec {
                labels: vec![String::new()],
                ..spec.clone()
            },
            Spec {
                submission: Some(String::new()),
                ..spec.clone()
            },
            Spec {
                submission: Some(of_schedule(3, 1_795_746_600_000)),
                ..spec.clone()
            },
            Spec {
                submission: Some(of_watch("3-1795746600000")),
                ..spec.clone()
            },
            Spec {
                after: vec![JobId(1); 65],
                ..spec.clone()
            },
            Spec {
                retries: u32::MAX,
                ..spec
            },
        ];
        for spec in wrong {
            assert!(spec.check().is_err(), "{spec:?}");
        }
        let unknown = r#"{"kind":"cp","arguments":[],"directory":"/","program":"sh"}"#;
        assert!(serde_json::from_str::<Spec>(unknown).is_err());
    }
}
