//! What `--json` prints: one object per line, described in docs/json.md and docs/howdah-events.schema.json.

use crate::exit::{self, words};
use crate::limit::{Allowed, Limit};
use crate::ui::change::shown;
use crate::ui::difference::{owner, time};
use crate::ui::printable;
use crate::ui::progress::{mean, remaining};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use howdah::{
    Change, Difference, DifferenceKind, Location, PlacedFile, Progress, PublicKey, RatePolicy,
    Receipt, Summary, Verification,
};
use serde::Serialize;
use std::path::Path;

/// Version of the objects. It changes when a field changes its meaning or goes away.
pub(crate) const SCHEMA: u32 = 2;

/// What stands in every object.
#[derive(Debug, Serialize)]
struct Envelope<'a, T: Serialize> {
    schema: u32,
    event: &'a str,
    time_utc: &'a str,
    #[serde(flatten)]
    body: T,
}

/// The object as a line without its end.
fn line<T: Serialize>(event: &str, body: T) -> serde_json::Result<String> {
    line_at(&now_utc(), event, body)
}

fn line_at<T: Serialize>(time_utc: &str, event: &str, body: T) -> serde_json::Result<String> {
    serde_json::to_string(&Envelope {
        schema: SCHEMA,
        event,
        time_utc,
        body,
    })
}

/// A policy as events and tables name it.
fn policy_name(policy: RatePolicy) -> &'static str {
    match policy {
        RatePolicy::Fair => "fair",
        RatePolicy::Background => "background",
        RatePolicy::Fixed(_) => "fixed",
    }
}

/// The time of now, to the millisecond.
pub(crate) fn now_utc() -> String {
    let now = jiff::Timestamp::now();
    now.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// What is about to happen.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Start {
    /// "cp", "sync".
    pub(crate) command: &'static str,
    pub(crate) version: &'static str,
    pub(crate) pid: u32,
    pub(crate) sources: Vec<String>,
    pub(crate) destination: String,
    /// "fair", "background" or "fixed".
    pub(crate) policy: &'static str,
    pub(crate) rate_bps: Option<u64>,
    pub(crate) limit_bps: Option<u64>,
}

impl Start {
    pub(crate) fn new<'a>(
        command: &'static str,
        sources: impl IntoIterator<Item = &'a Location>,
        destination: &Location,
    ) -> Self {
        Self {
            command,
            sources: sources.into_iter().map(Location::to_string).collect(),
            destination: destination.to_string(),
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            policy: "fair",
            ..Self::default()
        }
    }

    pub(crate) fn set_pace(&mut self, policy: RatePolicy, limit: Option<&Limit>) {
        self.policy = policy_name(policy);
        if let RatePolicy::Fixed(rate) = policy {
            self.rate_bps = Some(rate.bits_per_sec());
        }
        if let Some(Allowed::AtMost(limit)) = limit.map(Limit::now) {
            self.limit_bps = Some(limit.bits_per_sec());
        }
    }

    pub(crate) fn to_json(&self) -> serde_json::Result<String> {
        let mut start = self.clone();
        start.sources = self.sources.iter().map(|s| printable(s).into()).collect();
        start.destination = printable(&self.destination).into();
        line("start", start)
    }
}

#[derive(Serialize)]
struct ProgressBody {
    elapsed_seconds: f64,
    bytes: u64,
    total_bytes: Option<u64>,
    files_done: u64,
    files_total: Option<u64>,
    goodput_bps: u64,
    goodput_mean_bps: u64,
    wire_bps: u64,
    loss_rate: f64,
    rtt_us: u64,
    queue_us: u64,
    pacing_bps: u64,
    limit_bps: Option<u64>,
    paused: bool,
    eta_seconds: Option<f64>,
    current: Vec<String>,
}

pub(crate) fn progress(p: &Progress) -> serde_json::Result<String> {
    line(
        "progress",
        ProgressBody {
            elapsed_seconds: p.elapsed.as_secs_f64(),
            bytes: p.bytes,
            total_bytes: p.total_bytes,
            files_done: p.files_done,
            files_total: p.files_total,
            goodput_bps: p.goodput_now.bits_per_sec(),
            goodput_mean_bps: mean(p).bits_per_sec(),
            wire_bps: p.wire_rate_now.bits_per_sec(),
            loss_rate: p.loss,
            rtt_us: p.rtt.as_micros(),
            queue_us: p.queue_delay.as_micros(),
            pacing_bps: p.pacing_rate.bits_per_sec(),
            limit_bps: p.limit.map(howdah_core::Rate::bits_per_sec),
            paused: p.paused,
            eta_seconds: remaining(p)
                .filter(|_| !p.paused)
                .map(howdah_core::Span::as_secs_f64),
            current: p
                .current
                .iter()
                .map(|name| printable(name).into())
                .collect(),
        },
    )
}

/// What became of a file.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileState {
    /// Complete, verified and in place.
    Done,
}

#[derive(Serialize)]
struct FileBody<'a> {
    /// For people: control characters are escaped.
    name: String,
    /// The name's bytes, where `name` is not exactly the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    name_base64: Option<String>,
    state: FileState,
    bytes: u64,
    verified: &'a str,
}

pub(crate) fn file(
    name: &Path,
    state: FileState,
    bytes: u64,
    verified: &str,
) -> serde_json::Result<String> {
    file_at(&now_utc(), name, state, bytes, verified)
}

/// Files of a tree that are in place: a line each, the last one without its end.
pub(crate) fn files(files: &[PlacedFile], verified: &str) -> serde_json::Result<String> {
    let now = now_utc();
    let lines = files
        .iter()
        .map(|file| file_at(&now, &file.path, FileState::Done, file.bytes, verified));
    let lines = lines.collect::<Result<Vec<_>, _>>()?;
    Ok(lines.join("\n"))
}

fn file_at(
    time_utc: &str,
    name: &Path,
    state: FileState,
    bytes: u64,
    verified: &str,
) -> serde_json::Result<String> {
    let (name, name_base64) = name_of(name.as_os_str().as_encoded_bytes());
    line_at(
        time_utc,
        "file",
        FileBody {
            name,
            name_base64,
            state,
            bytes,
            verified,
        },
    )
}

/// The list of a copy's files is written.
pub(crate) fn manifest(path: &Path, files: u64, hash: &str) -> serde_json::Result<String> {
    let mut fields = name_fields("path", path.as_os_str().as_encoded_bytes());
    fields.insert("files".to_owned(), files.into());
    fields.insert("hash".to_owned(), hash.into());
    object("manifest", &fields.into())
}

/// Both ends have signed.
pub(crate) fn receipt(path: &Path, receipt: &Receipt) -> serde_json::Result<String> {
    let stated = receipt.statement();
    let mut fields = name_fields("path", path.as_os_str().as_encoded_bytes());
    fields.insert("files".to_owned(), stated.files.into());
    fields.insert("bytes".to_owned(), stated.bytes.into());
    fields.insert("root".to_owned(), stated.root.as_str().into());
    for (name, end) in [("client", &stated.client), ("server", &stated.server)] {
        fields.insert(name.to_owned(), fingerprint(&end.key).into());
    }
    fields.insert("signed_utc".to_owned(), stated.signed_utc.as_str().into());
    object("receipt", &fields.into())
}

/// Of a key that was read already.
pub(crate) fn fingerprint(key: &str) -> String {
    let key = key.parse::<PublicKey>();
    key.map_or_else(|error| error.to_string(), |key| key.fingerprint())
}

#[derive(Serialize)]
struct ChangeBody {
    what: &'static str,
    path: String,
    /// The path's bytes, where `path` is not exactly the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
    reasons: Vec<&'static str>,
}

/// What a dry run would do: a line each, the last one without its end.
pub(crate) fn changes(changes: &[Change]) -> serde_json::Result<String> {
    let now = now_utc();
    let lines = changes.iter().map(|change| {
        let (path, path_base64) = name_of(shown(&change.path).as_encoded_bytes());
        let body = ChangeBody {
            what: change.act.word(),
            path,
            path_base64,
            reasons: change.reasons.words(),
        };
        line_at(&now, "change", body)
    });
    Ok(lines.collect::<Result<Vec<_>, _>>()?.join("\n"))
}

#[derive(Serialize)]
struct WarningBody<'a> {
    message: &'a str,
}

pub(crate) fn warning(message: &str) -> serde_json::Result<String> {
    let message = &*printable(message);
    line("warning", WarningBody { message })
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: ErrorFields<'a>,
}

#[derive(Serialize)]
struct ErrorFields<'a> {
    kind: &'a str,
    message: String,
    exit_code: u8,
    /// Whether the same command may succeed later.
    retry_may_help: bool,
}

pub(crate) fn error(error: &anyhow::Error) -> serde_json::Result<String> {
    let kind = exit::kind(error);
    line(
        "error",
        ErrorBody {
            error: ErrorFields {
                kind: exit::name(kind),
                message: printable(&words(error)).into(),
                exit_code: exit::code(kind),
                retry_may_help: exit::retry_may_help(kind),
            },
        },
    )
}

/// The one object of a command that prints nothing else (`howdah rival`): without the envelope.
pub(crate) fn failure_json(error: &anyhow::Error) -> serde_json::Result<String> {
    let kind = exit::name(exit::kind(error));
    let message = words(error);
    let message = &*printable(&message);
    serde_json::to_string(&serde_json::json!({
        "schema": 1,
        "error": { "kind": kind, "message": message },
    }))
}

pub(crate) fn summary(summary: &Summary) -> serde_json::Result<String> {
    line("summary", summary)
}

/// An event with these fields.
pub(crate) fn object(event: &str, fields: &serde_json::Value) -> serde_json::Result<String> {
    line(event, fields)
}

/// A name as fields: for people, and in base64 where that is not exactly the name.
pub(crate) fn name_fields(key: &str, exact: &[u8]) -> serde_json::Map<String, serde_json::Value> {
    let (name, base64) = name_of(exact);
    let mut fields = serde_json::Map::new();
    fields.insert(key.to_owned(), name.into());
    if let Some(base64) = base64 {
        fields.insert(format!("{key}_base64"), base64.into());
    }
    fields
}

/// Bytes from elsewhere for people, and as they are where that is not the same.
fn name_of(exact: &[u8]) -> (String, Option<String>) {
    let lossy = String::from_utf8_lossy(exact);
    let shown = printable(&lossy);
    let base64 = (shown.as_bytes() != exact).then(|| STANDARD.encode(exact));
    (shown.into_owned(), base64)
}

#[derive(Serialize)]
struct DifferenceBody {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_base64: Option<String>,
    is_directory: bool,
    what: &'static str,
    /// What it is like on each side.
    #[serde(skip_serializing_if = "Option::is_none")]
    a: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    b: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_byte: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_byte: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    names_inside: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<Vec<String>>,
}

/// Something in which two places differ.
pub(crate) fn difference(difference: &Difference) -> serde_json::Result<String> {
    use serde_json::json;
    let (name, name_base64) = name_of(&difference.path);
    let mut body = DifferenceBody {
        name,
        name_base64,
        is_directory: difference.is_dir,
        what: "",
        a: None,
        b: None,
        start_byte: None,
        end_byte: None,
        names_inside: None,
        attributes: None,
    };
    let mut sides = |a, b| (body.a, body.b) = (Some(a), Some(b));
    body.what = match &difference.what {
        DifferenceKind::MissingInA { inside } => {
            body.names_inside = Some(*inside);
            "missing_in_a"
        }
        DifferenceKind::MissingInB { inside } => {
            body.names_inside = Some(*inside);
            "missing_in_b"
        }
        DifferenceKind::Kind { a, b } => {
            sides(json!(a), json!(b));
            "kind"
        }
        DifferenceKind::Size { a, b } => {
            sides(json!(a), json!(b));
            "size"
        }
        DifferenceKind::Contents { start, end } => {
            (body.start_byte, body.end_byte) = (Some(*start), Some(*end));
            "contents"
        }
        DifferenceKind::Target { a, b } => {
            sides(json!(name_of(a).0), json!(name_of(b).0));
            "target"
        }
        DifferenceKind::Mode { a, b } => {
            sides(json!(format!("{a:04o}")), json!(format!("{b:04o}")));
            "mode"
        }
        DifferenceKind::Time { a, b } => {
            sides(json!(time(*a)), json!(time(*b)));
            "time"
        }
        DifferenceKind::Owner { a, b } => {
            sides(json!(owner(a)), json!(owner(b)));
            "owner"
        }
        DifferenceKind::Attributes(names) => {
            body.attributes = Some(names.iter().map(|name| name_of(name).0).collect());
            "attributes"
        }
        DifferenceKind::HardLinks => "hard_links",
        DifferenceKind::Unread { a, b } => {
            sides(json!(a), json!(b));
            "unread"
        }
    };
    line("difference", body)
}

#[derive(Serialize)]
struct VerificationBody<'a> {
    seconds: f64,
    verify: &'a Verification,
}

/// What came of a comparison.
pub(crate) fn verification(found: &Verification) -> serde_json::Result<String> {
    let notes = found.notes.iter().map(|note| printable(note).into());
    let verify = &Verification {
        notes: notes.collect(),
        ..found.clone()
    };
    let seconds = found.seconds;
    line("summary", VerificationBody { seconds, verify })
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah::ErrorKind;
    use std::os::unix::ffi::OsStrExt as _;

    fn parse(line: serde_json::Result<String>) -> serde_json::Value {
        serde_json::from_str(&line.unwrap()).unwrap()
    }

    #[test]
    fn a_summary_has_all_that_was_promised() {
        let value = parse(summary(&Summary::default()));
        assert_eq!(value["schema"], SCHEMA);
        assert_eq!(value["event"], "summary");
        for field in [
            "bytes",
            "resumed_bytes",
            "seconds",
            "goodput_bps",
            "wire_bytes",
            "retransmitted_bytes",
            "feedback_bytes",
            "rtt_min_us",
            "loss_rate",
            "mtu",
            "verified",
            "bottleneck",
            "goodput_per_second_bps",
        ] {
            assert!(!value[field].is_null(), "{field}");
        }
        for side in ["sender", "receiver"] {
            assert!(value[side]["cpu_seconds"].is_number());
            assert!(value[side]["peak_rss_bytes"].is_number());
        }
    }

    #[test]
    fn an_error_says_what_a_script_needs() {
        let network = howdah::Error::new(ErrorKind::Network, "nobody answers at [::1]:1");
        let value = parse(error(&network.into()));
        assert_eq!(value["event"], "error");
        assert_eq!(value["error"]["kind"], "network");
        assert_eq!(value["error"]["message"], "nobody answers at [::1]:1");
        assert_eq!(value["error"]["exit_code"], 5);
        assert_eq!(value["error"]["retry_may_help"], true);
    }

    #[test]
    fn a59_no_event_carries_a_control_character() {
        let evil = "a\x1b]0;title\x07\nb";
        let progress_now = Progress {
            current: vec![evil.to_owned()],
            ..Progress::default()
        };
        let place = Location::File(evil.into());
        let start = Start::new("cp", [&place], &place);
        let failure = howdah::Error::new(ErrorKind::Io, evil);
        for value in [
            parse(start.to_json()),
            parse(progress(&progress_now)),
            parse(warning(evil)),
            parse(error(&failure.into())),
            parse(file(Path::new(evil), FileState::Done, 1, "blake3")),
        ] {
            fn check(value: &serde_json::Value) {
                match value {
                    serde_json::Value::String(text) => {
                        assert!(!text.chars().any(char::is_control), "{text:?}");
                    }
                    serde_json::Value::Array(items) => items.iter().for_each(check),
                    serde_json::Value::Object(fields) => fields.values().for_each(check),
                    _ => {}
                }
            }
            check(&value);
        }
    }

    #[test]
    fn a_name_that_is_not_shown_as_it_is_comes_in_base64_too() {
        let plain = parse(file(Path::new("a/b"), FileState::Done, 1, "aead"));
        assert!(plain["name_base64"].is_null());
        let bytes = std::ffi::OsStr::from_bytes(b"a\xff\n");
        let odd = parse(file(Path::new(bytes), FileState::Done, 1, "aead"));
        assert_eq!(odd["name_base64"], STANDARD.encode(b"a\xff\n"));
    }
}
