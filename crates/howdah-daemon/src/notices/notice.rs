//! What is told: a job is over, or will not be done by its time.

use crate::state::Happening;
use crate::time;
use serde::{Deserialize, Serialize};

/// What happens to a job that somebody may want to hear of.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// It is.
    Done,
    /// It will not be tried again.
    Failed,
    /// Somebody did not want it any more.
    Cancelled,
    /// It cannot be done by the time that was asked for (`--by`).
    Behind,
    /// It can again.
    OnTime,
}

impl Kind {
    /// As in the history.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Behind => "behind",
            Self::OnTime => "on_time",
        }
    }
}

/// Of the command line.
const COMMAND_BYTES: usize = 8 << 10;
/// Characters of a directory.
const DIRECTORY: usize = 4_096;
/// Of a reason.
const REASON: usize = 1_000;

/// As webhooks and commands get it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Notice {
    pub(super) schema: u32,
    /// The same however often it is told.
    pub(super) id: String,
    /// `job.failed`
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// When it happened.
    pub(super) timestamp: String,
    pub(super) data: Data,
    #[serde(skip)]
    pub(super) happened_ms: u64,
}

/// Of which job.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Data {
    /// Where the daemon is.
    pub(super) machine: String,
    pub(super) job: i64,
    /// `done`, `failed`, `cancelled`, `behind` or `on_time`.
    pub(super) what: String,
    pub(super) command: Vec<String>,
    /// There were more words in it.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) command_is_cut: bool,
    pub(super) directory: String,
    pub(super) labels: Vec<String>,
    /// Of the last attempt that ended by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exit_code: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Notice {
    /// Of what happened, told by that daemon.
    pub(super) fn new(instance: &str, happened: &Happening) -> Self {
        let spec = &happened.spec;
        let words = spec.kind.words().iter().copied();
        let mut command = Vec::new();
        let mut room = COMMAND_BYTES;
        let mut command_is_cut = false;
        for word in words.chain(spec.arguments.iter().map(String::as_str)) {
            let Some(left) = room.checked_sub(word.len() + 1) else {
                command_is_cut = true;
                break;
            };
            room = left;
            command.push(word.to_owned());
        }
        let is_running = matches!(happened.what.as_str(), "behind" | "on_time");
        let directory = spec.directory.to_string_lossy();
        Self {
            schema: 1,
            id: format!("howdah_{instance}_{}", happened.event),
            kind: format!("job.{}", happened.what),
            timestamp: time::printed(happened.time_ms),
            data: Data {
                machine: machine(),
                job: happened.job.0,
                what: happened.what.clone(),
                command,
                command_is_cut,
                directory: directory.chars().take(DIRECTORY).collect(),
                labels: spec.labels.clone(),
                exit_code: happened.exit_code.filter(|_| !is_running),
                reason: happened
                    .why
                    .as_ref()
                    .map(|why| why.chars().take(REASON).collect()),
            },
            happened_ms: happened.time_ms,
        }
    }

    /// One that tells of nothing: whether it arrives is what somebody wants to know.
    pub(super) fn test() -> Self {
        let now = time::now_ms();
        Self {
            schema: 1,
            id: format!("howdah_test_{now}"),
            kind: "test".to_owned(),
            timestamp: time::printed(now),
            data: Data {
                machine: machine(),
                job: 0,
                what: "test".to_owned(),
                command: Vec::new(),
                command_is_cut: false,
                directory: String::new(),
                labels: Vec::new(),
                exit_code: None,
                reason: None,
            },
            happened_ms: now,
        }
    }

    pub(super) fn json(&self) -> Vec<u8> {
        // There is nothing in it that JSON has not.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// For the log and for subjects: `job 12 failed`.
    pub(super) fn title(&self) -> String {
        if self.kind == "test" {
            return "this is a test".to_owned();
        }
        let what = match self.data.what.as_str() {
            "behind" => "will not be done by its time",
            "on_time" => "will be done by its time again",
            "done" => "is done",
            "cancelled" => "was cancelled",
            _ => "failed",
        };
        format!("job {} {what}", self.data.job)
    }
}

/// Where this is.
fn machine() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// Text that is one line, and does to a terminal or a mail nothing but be read; so many characters of it.
pub(super) fn plain(text: &str, most: usize) -> String {
    let is_odd = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    let mut rest = text.chars();
    let mut found: String = rest
        .by_ref()
        .take(most)
        .map(|c| if is_odd(c) { ' ' } else { c })
        .collect();
    if rest.next().is_some() {
        found.push('…');
    }
    found
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::job::{JobId, Spec};

    pub(in crate::notices) fn happening(what: &str, arguments: &[&str]) -> Happening {
        let spec = r#"{"kind":"cp","arguments":[],"directory":"/","labels":["night"]}"#;
        let spec: Spec = serde_json::from_str(spec).unwrap();
        Happening {
            event: 41,
            job: JobId(12),
            spec: Spec {
                arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
                ..spec
            },
            what: what.to_owned(),
            why: Some("x".repeat(REASON + 1)),
            exit_code: Some(5),
            time_ms: 0,
        }
    }

    #[test]
    fn it_says_what_became_of_which_job_in_bounds() {
        let notice = Notice::new("0123", &happening("failed", &["a\n\u{1b}[2J", "h:b"]));
        assert_eq!(notice.title(), "job 12 failed");
        let value: serde_json::Value = serde_json::from_slice(&notice.json()).unwrap();
        assert_eq!(value["id"], "howdah_0123_41");
        assert_eq!(value["type"], "job.failed");
        assert_eq!(value["timestamp"], "1970-01-01T00:00:00.000Z");
        let data = &value["data"];
        assert_eq!(data["job"], 12);
        assert_eq!(data["exit_code"], 5);
        assert_eq!(data["labels"][0], "night");
        assert_eq!(data["command"][1], "a\n\u{1b}[2J");
        assert_eq!(data["reason"].as_str().unwrap().len(), REASON);
        assert!(data.get("command_is_cut").is_none());
        // Control characters are escaped: one line, whatever it says.
        assert!(!notice.json().iter().any(u8::is_ascii_control));
        let long = "\u{1}".repeat(4_000);
        let mut much = happening("done", &[long.as_str(); 200]);
        much.spec.directory = format!("/{}", "\u{1}".repeat(100_000)).into();
        let notice = Notice::new("0123", &much);
        assert!(notice.data.command_is_cut);
        assert!(notice.json().len() < 128 << 10, "{}", notice.json().len());
        let running = Notice::new("0123", &happening("behind", &[]));
        assert_eq!(running.data.exit_code, None);
    }

    #[test]
    fn a_test_is_none_of_a_job() {
        let notice = Notice::test();
        assert_eq!(notice.title(), "this is a test");
        let value: serde_json::Value = serde_json::from_slice(&notice.json()).unwrap();
        assert_eq!(value["type"], "test");
        assert_eq!(value["data"]["job"], 0);
    }

    #[test]
    fn a_line_is_a_line() {
        assert_eq!(plain("a\r\nBcc: x\u{202e}\u{2028}é", 99), "a  Bcc: x  é");
        assert_eq!(plain("abc", 2), "ab…");
        assert_eq!(plain("abc", 3), "abc");
    }
}
