//! What the two ends tell each other through the ssh channel: a line each, a word and a JSON object.
//!
//! The first member of both objects names the versions and keeps its form, so that ends of any two versions
//! can tell each other apart. Everything else may change with the versions.

use super::within::Within;
use crate::access::Only;
use crate::versions::{self, Spoken};
use crate::{Error, ErrorKind, PathBytes, PublicKey, Summary};
use howdah_proto::WIRE_VERSION as WIRE;
use howdah_session::TreeOptions;
use howdah_session::message;
use howdah_session::pace::Pace;
use howdah_session::selection::{Asked, Selection, Telling};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, BufRead, Read as _, Write};
use std::net::{IpAddr, SocketAddr};

/// Version of these lines. Members may come without a new one: who does not know them passes them over.
const HANDOVER: u32 = 1;
/// The oldest that are understood.
const HANDOVER_OLDEST: u32 = 1;
/// More bytes than all fields have that one version adds to what is packed.
const ADDED_BYTES: usize = 64;
/// Longest line that the far end says, in bytes; what a login script says may stand before it.
const LINE_MAX: usize = 1 << 20;
/// Longest line that it is told: whoever has logged in may name a million files.
const ASK_MAX: usize = 512 << 20;
/// Before the far end speaks, a login script may say something: so much of it is passed over.
const NOISE_LINES: usize = 5_000;
const NOISE_BYTES: usize = 4 << 20;
/// First word of what the far end is told.
const ASK: &str = "howdah-ask ";
/// First word of what it answers.
const ANSWER: &str = "howdah-far-end ";

/// From the line after this one on, the channel carries datagrams.
const TUNNEL: &[u8] = b"howdah-tunnel";

/// Longest line of [`CopyEvent`], in bytes: a summary names the goodput of each second.
const TOLD_MAX: usize = 8 << 20;

/// What one end speaks.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Versions {
    /// Of the program.
    program: String,
    handover: u32,
    wire: u32,
    dialogue: u32,
    /// Program and commit, for people.
    #[serde(default)]
    build: String,
    /// The oldest of each that it speaks; who does not say speaks one only.
    #[serde(default)]
    handover_oldest: Option<u32>,
    #[serde(default)]
    wire_oldest: Option<u32>,
    #[serde(default)]
    dialogue_oldest: Option<u32>,
}

impl Versions {
    pub(crate) fn ours() -> Self {
        Self {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            handover: HANDOVER,
            wire: WIRE,
            dialogue: message::VERSION.into(),
            build: versions::build().to_owned(),
            handover_oldest: Some(HANDOVER_OLDEST),
            wire_oldest: Some(WIRE),
            dialogue_oldest: Some(message::OLDEST.into()),
        }
    }

    fn spoken(&self) -> [Spoken; 3] {
        [
            (self.handover, self.handover_oldest),
            (self.wire, self.wire_oldest),
            (self.dialogue, self.dialogue_oldest),
        ]
        .map(|(number, oldest)| Spoken {
            number,
            oldest: oldest.unwrap_or(number),
        })
    }

    fn fits(&self, other: &Self) -> bool {
        let mut pairs = self.spoken().into_iter().zip(other.spoken());
        versions::are_near(&self.program, &other.program)
            && pairs.all(|(ours, theirs)| ours.fits(theirs))
    }

    /// Both, as they are told to people, if they are not of the same build.
    fn unlike(&self, other: &Self) -> Option<(String, String)> {
        let is_other = (&self.program, &self.build) != (&other.program, &other.build);
        is_other.then(|| (other.describe(), self.describe()))
    }

    fn describe(&self) -> String {
        let name = if self.build.is_empty() {
            &self.program
        } else {
            &self.build
        };
        let [handover, wire, dialogue] = self.spoken().map(|spoken| {
            let (oldest, number) = (spoken.oldest & 0xff, spoken.number & 0xff);
            if oldest == number {
                number.to_string()
            } else {
                format!("{oldest}-{number}")
            }
        });
        format!(
            "{:.80} (protocol {handover}.{wire}.{dialogue})",
            name.escape_debug().to_string(),
        )
    }
}

/// What the far end shall do.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) enum Ask {
    /// Answer one session of the holder of that key, on one of these ports.
    Serve {
        key: String,
        ports: (u16, u16),
        /// The holder of the key is to do nothing else than that copy.
        #[serde(default)]
        only: Option<Box<OneCopy>>,
        /// The files that it is about; who does not tell it means all.
        #[serde(default)]
        within: Option<Within>,
        /// Whoever asks wants to hear what the kernel there cannot keep from the process.
        #[serde(default)]
        wordy: bool,
    },
    /// Make a key; a [`ThirdPartyCopy`] will follow.
    Send,
    /// Send something to another far end.
    Errand(Box<ThirdPartyCopy>),
    /// The user wants another pace from now on.
    Pace(Pace),
    /// Names and rules of the [`ThirdPartyCopy`] that follows, which would be too long with them.
    Part(#[serde(with = "packed")] Selection),
}

/// What a far end that receives from another one lets it do.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct OneCopy {
    pub(crate) destination: PathBytes,
    /// Of what is copied: the last components.
    #[serde(with = "packed")]
    pub(crate) names: Vec<PathBytes>,
    /// How, if they are trees; without its list of files.
    #[serde(with = "packed")]
    pub(crate) tree: Option<TreeOptions>,
    /// What tells its rules from others; older versions do not tell it.
    #[serde(default)]
    pub(crate) selection: Option<[u8; 32]>,
}

impl From<OneCopy> for Only {
    fn from(copy: OneCopy) -> Self {
        let name = |name: &PathBytes| name.as_path().as_os_str().to_owned();
        Self {
            names: copy.names.iter().map(name).collect(),
            destination: copy.destination,
            tree: copy.tree,
            selection: copy.selection,
        }
    }
}

/// What the sender of a copy between two far ends is told.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct ThirdPartyCopy {
    #[serde(with = "packed")]
    pub(crate) sources: Vec<PathBytes>,
    pub(crate) destination: PathBytes,
    /// If they are trees, and not one file.
    #[serde(with = "packed")]
    pub(crate) tree: Option<TreeOptions>,
    /// Of the receiver: how the user calls it, where it may be reached, the key that it shows.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) key: String,
    pub(crate) pace: Pace,
    /// 0: auto, 1: UDP, 2: TCP.
    pub(crate) transport: u8,
    /// One file: what is there of it is gone on with.
    pub(crate) resume: bool,
    /// One file: it is read back from the device.
    pub(crate) reread: bool,
    /// Seconds; who does not tell it does not wait.
    #[serde(default)]
    pub(crate) wait_for_space_s: u64,
    /// Whoever asks tells [`CopyEvent::Note`] from a warning.
    #[serde(default)]
    pub(crate) hears_notes: bool,
    /// The receiver counts as lost after that long; who does not tell it means the sender's default.
    #[serde(default)]
    pub(crate) idle_timeout_ms: Option<u64>,
    /// One file: it may grow.
    #[serde(default)]
    pub(crate) growing: bool,
    /// As in [`Ask::Serve`].
    #[serde(default)]
    pub(crate) wordy: bool,
    /// Whoever asks shows what a dry run would do.
    #[serde(default)]
    pub(crate) hears_changes: bool,
}

/// Lists of names may be long: the bytes of their postcard in base64 take a third more, as JSON they took four times as
/// much.
mod packed {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::{DeserializeOwned, Error as _};
    use serde::ser::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<T: Serialize, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let bytes = postcard::to_stdvec(value).map_err(S::Error::custom)?;
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'a, T: DeserializeOwned, D: Deserializer<'a>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut bytes = STANDARD.decode(text).map_err(D::Error::custom)?;
        // What an older version does not say yet is zero, empty or absent.
        bytes.extend([0; super::ADDED_BYTES]);
        postcard::from_bytes(&bytes).map_err(D::Error::custom)
    }
}

/// What the sender tells of it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) enum CopyEvent {
    Progress {
        bytes: u64,
        total_bytes: Option<u64>,
        files_done: u64,
        files_total: Option<u64>,
        elapsed_us: u64,
        goodput_bps: u64,
        wire_bps: u64,
        rtt_us: u64,
        loss: f64,
        #[serde(default)]
        current: Vec<String>,
        /// The receiver is there; who does not tell it is not asked again.
        #[serde(default)]
        answered: bool,
        #[serde(default)]
        resumed_bytes: u64,
    },
    Warning(String),
    Done(Box<Summary>),
    Failed {
        kind: u8,
        message: String,
        /// Another connection would do no better.
        #[serde(default)]
        stuck: bool,
    },
    /// Something that goes well.
    Note(String),
    /// What a dry run would do with a name, to whoever hears of it.
    Change {
        word: u64,
        #[serde(with = "packed")]
        path: PathBytes,
    },
}

/// What the far end says to it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Answer {
    /// It waits on that port.
    Ready {
        port: u16,
        key: String,
        /// Its address as ssh reached it.
        address: Option<IpAddr>,
    },
    /// It sends under that key.
    Sender { key: String },
    /// It cannot. The kind of the failure as a number; who does not tell it has trouble of its own.
    Failed {
        message: String,
        #[serde(default)]
        kind: Option<u8>,
    },
}

#[derive(Deserialize, Serialize)]
struct Line<T> {
    versions: Versions,
    said: T,
}

#[derive(Deserialize)]
struct Head {
    versions: Versions,
}

/// Why a line is not what it should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandoverError {
    #[error("the channel closed before the other side said anything")]
    Closed,
    #[error("a line is longer than this program reads")]
    TooLong,
    #[error("what came is no line of howdah")]
    Nonsense,
    #[error("what came is no line of howdah, and does not end")]
    Noise,
    #[error("the other side is howdah {theirs}, this is howdah {ours}")]
    Versions { theirs: String, ours: String },
    /// The numbers fit, and it says something that only another build knows.
    #[error(
        "the other side is howdah {theirs}, this is howdah {ours}, and they do not understand each other"
    )]
    Builds { theirs: String, ours: String },
    #[error("the channel failed: {0}")]
    Io(#[from] io::Error),
}

impl HandoverError {
    /// As `host` is to blame for it.
    pub(crate) fn at(&self, host: &str) -> Error {
        match self {
            Self::Versions { theirs, ours } | Self::Builds { theirs, ours } => Error::new(
                ErrorKind::Protocol,
                format!(
                    "{host} has howdah {theirs}, this is howdah {ours}: they do not understand each \
                     other; {}",
                    versions::REMEDY
                ),
            ),
            Self::Closed | Self::Io(_) => {
                Error::new(ErrorKind::Network, format!("ssh to {host}: {self}"))
            }
            _ => Error::new(ErrorKind::Protocol, format!("ssh to {host}: {self}")),
        }
    }
}

fn write_line<T: Serialize>(mut out: impl Write, word: &str, said: T) -> io::Result<()> {
    let versions = Versions::ours();
    let mut line = word.to_owned().into_bytes();
    serde_json::to_writer(&mut line, &Line { versions, said })?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

fn read_said<T: DeserializeOwned>(text: &[u8]) -> Result<T, HandoverError> {
    let head: Head = serde_json::from_slice(text).map_err(|_| HandoverError::Nonsense)?;
    let ours = Versions::ours();
    if !ours.fits(&head.versions) {
        return Err(HandoverError::Versions {
            theirs: head.versions.describe(),
            ours: ours.describe(),
        });
    }
    serde_json::from_slice(text)
        .map(|line: Line<T>| line.said)
        .map_err(|_| {
            ours.unlike(&head.versions)
                .map_or(HandoverError::Nonsense, |(theirs, ours)| {
                    HandoverError::Builds { theirs, ours }
                })
        })
}

/// What the other side answers. Its failure may be that it is another build, so it says which.
fn read_answer_said(text: &[u8]) -> Result<Answer, HandoverError> {
    let mut answer = read_said(text)?;
    if let Answer::Failed {
        message,
        kind: told,
    } = &mut answer
        && matches!(
            told.map(super::kinds::kind),
            None | Some(ErrorKind::Network | ErrorKind::Protocol)
        )
        && let Ok(head) = serde_json::from_slice::<Head>(text)
        && let Some((theirs, ours)) = Versions::ours().unlike(&head.versions)
        && !message.contains(&theirs)
    {
        *message = format!(
            "{message}; or because it is howdah {theirs}, and this is howdah {ours}: {}",
            versions::REMEDY
        );
    }
    Ok(answer)
}

/// A line without its end; `None` at the end of everything.
pub(crate) fn read_line(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, HandoverError> {
    read_line_of(input, LINE_MAX)
}

fn read_line_of(input: &mut impl BufRead, max: usize) -> Result<Option<Vec<u8>>, HandoverError> {
    let mut line = Vec::new();
    input
        .by_ref()
        .take(max as u64 + 1)
        .read_until(b'\n', &mut line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
        Ok(Some(line))
    } else if line.len() > max {
        Err(HandoverError::TooLong)
    } else if line.is_empty() {
        Ok(None)
    } else {
        Ok(Some(line))
    }
}

pub(crate) fn write_ask(out: impl Write, ask: &Ask) -> io::Result<()> {
    write_line(out, ASK, ask)
}

pub(crate) fn read_ask(input: &mut impl BufRead) -> Result<Ask, HandoverError> {
    let line = read_line_of(input, ASK_MAX)?.ok_or(HandoverError::Closed)?;
    let text = line
        .strip_prefix(ASK.as_bytes())
        .ok_or(HandoverError::Nonsense)?;
    read_said(text)
}

/// An errand, behind parts of its names and rules if these are many: neither side holds a line with all of them.
pub(crate) fn write_errand(mut out: impl Write, mut errand: ThirdPartyCopy) -> io::Result<()> {
    if let Some(options) = errand.tree.take() {
        let mut telling = Telling::new(std::mem::take(&mut errand.sources), options);
        while let Some(part) = telling.part() {
            write_ask(&mut out, &Ask::Part(part))?;
        }
        let (sources, options) = telling.take_rest();
        (errand.sources, errand.tree) = (sources, Some(options));
    }
    write_ask(out, &Ask::Errand(Box::new(errand)))
}

/// An errand with all that came before it, or whatever came instead.
pub(crate) fn read_errand(input: &mut impl BufRead) -> Result<Ask, HandoverError> {
    let mut asked = Asked::default();
    loop {
        match read_ask(input)? {
            Ask::Part(part) => asked.note(part).map_err(|_| HandoverError::TooLong)?,
            Ask::Errand(mut errand) => {
                if let Some(options) = &mut errand.tree {
                    asked.restore(&mut errand.sources, options);
                }
                return Ok(Ask::Errand(errand));
            }
            other => return Ok(other),
        }
    }
}

pub(crate) fn write_answer(out: impl Write, answer: &Answer) -> io::Result<()> {
    write_line(out, ANSWER, answer)
}

/// The answer; lines before it go to `noise`.
pub(crate) fn read_answer(
    input: &mut impl BufRead,
    mut noise: impl FnMut(&[u8]),
) -> Result<Answer, HandoverError> {
    let mut bytes = 0;
    for _ in 0..NOISE_LINES {
        let line = match read_line(input) {
            Err(HandoverError::TooLong) => return Err(HandoverError::Noise),
            line => line?.ok_or(HandoverError::Closed)?,
        };
        // A login script may have said something without ending its line, or set the window's title.
        let said = [ANSWER.as_bytes(), b"{"].concat();
        let at = line.windows(said.len()).rposition(|part| part == said);
        if let Some(at) = at {
            if at > 0 {
                noise(&line[..at]);
            }
            return read_answer_said(line[at + ANSWER.len()..].trim_ascii_end());
        }
        noise(&line);
        bytes += line.len();
        if bytes > NOISE_BYTES {
            break;
        }
    }
    Err(HandoverError::Noise)
}

pub(crate) fn write_told(mut out: impl Write, told: &CopyEvent) -> io::Result<()> {
    let mut line = serde_json::to_vec(told)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// The next thing that is told; `None` at the end, also if what comes makes no sense.
pub(crate) fn read_told(input: &mut impl BufRead) -> Option<CopyEvent> {
    let line = read_told_line(input)?;
    let mut told: Value = serde_json::from_slice(&line).ok()?;
    clean(&mut told);
    serde_json::from_value(told).ok()
}

/// Whatever the other side says may end at a terminal.
fn clean(value: &mut Value) {
    match value {
        Value::String(text) => text.retain(|c| !c.is_control()),
        Value::Array(values) => values.iter_mut().for_each(clean),
        Value::Object(values) => values.values_mut().for_each(clean),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn read_told_line(input: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let mut limited = input.by_ref().take(TOLD_MAX as u64);
    limited.read_until(b'\n', &mut line).ok()?;
    (line.last() == Some(&b'\n')).then_some(line)
}

pub(crate) fn write_tunnel(mut out: impl Write) -> io::Result<()> {
    out.write_all(&[TUNNEL, b"\n"].concat())?;
    out.flush()
}

/// Whether the channel is to carry datagrams. Else it is over, or makes no sense.
pub(crate) fn read_tunnel(input: &mut impl BufRead) -> bool {
    matches!(read_line(input), Ok(Some(line)) if line == TUNNEL)
}

/// A key that the other side told.
pub(crate) fn key(text: &str) -> Result<PublicKey, HandoverError> {
    text.parse().map_err(|_| HandoverError::Nonsense)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ready() -> Answer {
        Answer::Ready {
            port: 4433,
            key: "howdah-ed25519 x".to_owned(),
            address: Some([192, 0, 2, 1].into()),
        }
    }

    #[test]
    fn lines_come_back_as_they_were_and_login_scripts_do_not_matter() {
        let ask = Ask::Serve {
            key: "k".to_owned(),
            ports: (1, 2),
            only: None,
            within: None,
            wordy: false,
        };
        let mut bytes = Vec::new();
        write_ask(&mut bytes, &ask).expect("memory");
        assert_eq!(read_ask(&mut &*bytes).expect("a line"), ask);
        assert_eq!(
            bytes.iter().position(|&b| b == b'\n'),
            Some(bytes.len() - 1)
        );

        let mut bytes = b"Welcome!\n\n\x1b[1mfortune\n".to_vec();
        write_answer(&mut bytes, &ready()).expect("memory");
        let mut noise = 0;
        let answer = read_answer(&mut &*bytes, |_| noise += 1);
        assert_eq!((answer.expect("a line"), noise), (ready(), 3));
    }

    #[test]
    fn another_version_is_named_whatever_else_it_says() {
        let line = br#"howdah-far-end {"versions":{"program":"9.1.0","handover":7,"wire":1,"dialogue":2,"more":0},"new":[]}"#;
        let error = read_answer(&mut &line[..], |_| ()).expect_err("a newer one");
        let text = error.at("site").to_string();
        assert!(
            text.starts_with("site has howdah 9.1.0 (protocol 7.1.2), this is"),
            "{text}"
        );
        assert_eq!(error.at("site").kind(), ErrorKind::Protocol);
    }

    /// Builds of one version between two releases.
    #[test]
    fn o9_an_older_build_of_the_same_version_is_named() {
        let mut versions = Versions::ours();
        versions.build = "0.1.0 (commit 1234567)".to_owned();
        let (theirs, ours) = (versions.describe(), Versions::ours().describe());
        let of = |word: &str, said: Value, versions: &Versions| {
            let mut line = word.as_bytes().to_vec();
            let versions = versions.clone();
            serde_json::to_writer(&mut line, &Line { versions, said }).expect("memory");
            line
        };
        // It says what only it knows, or says that we do.
        let unknown = serde_json::json!({ "Later": { "more": 1 } });
        let line = of(ANSWER, unknown.clone(), &versions);
        let answer = read_answer(&mut &*line, |_| ()).expect_err("nobody knows it");
        let line = of(ASK, unknown.clone(), &versions);
        let ask = read_ask(&mut &*line).expect_err("nobody knows it");
        for error in [answer, ask] {
            let text = error.at("site").to_string();
            assert!(text.contains(&theirs) && text.contains(&ours), "{text}");
        }
        // What came is nonsense to it.
        let failed = |kind| {
            let failed = Answer::Failed {
                message: "no line of howdah".into(),
                kind: Some(super::super::kinds::kind_number(kind)),
            };
            serde_json::to_value(failed).expect("plain data")
        };
        for (kind, versions, named) in [
            (ErrorKind::Network, &versions, true),
            (ErrorKind::Protocol, &versions, true),
            (ErrorKind::NotFound, &versions, false),
            (ErrorKind::Network, &Versions::ours(), false),
        ] {
            let line = of(ANSWER, failed(kind), versions);
            match read_answer(&mut &*line, |_| ()) {
                Ok(Answer::Failed { message, .. }) => {
                    assert_eq!(message.contains(&theirs), named, "{kind:?}: {message}");
                    assert_eq!(message.contains(&ours), named, "{kind:?}: {message}");
                }
                other => panic!("{other:?}"),
            }
        }
        // One of our own says nothing that we do not know.
        let line = of(ANSWER, unknown, &Versions::ours());
        assert!(matches!(
            read_answer(&mut &*line, |_| ()),
            Err(HandoverError::Nonsense)
        ));
    }

    fn announced(change: impl FnOnce(&mut Versions)) -> Result<Answer, HandoverError> {
        let mut versions = Versions::ours();
        change(&mut versions);
        let mut line = ANSWER.as_bytes().to_vec();
        let said = ready();
        serde_json::to_writer(&mut line, &Line { versions, said }).expect("memory");
        read_answer(&mut &*line, |_| ())
    }

    fn neighbour(minors: i32) -> String {
        let program = Versions::ours().program;
        let mut parts = program
            .split('.')
            .map(|n| n.parse::<i32>().expect("a number"));
        let (major, minor) = (parts.next().expect("one"), parts.next().expect("two"));
        format!("{major}.{}.0", minor + minors)
    }

    #[test]
    fn o9_a_neighbouring_minor_version_works_in_both_directions() {
        let ours = Versions::ours();
        for result in [
            announced(|_| ()),
            announced(|v| (v.program, v.dialogue) = (neighbour(1), ours.dialogue + 1)),
            announced(|v| (v.handover, v.dialogue) = (ours.handover + 1, ours.dialogue + 1)),
            announced(|v| v.program = neighbour(-1)),
            // Who does not say more than its numbers, and those are ours.
            announced(|v| {
                v.build.clear();
                (v.handover_oldest, v.wire_oldest, v.dialogue_oldest) = (None, None, None);
            }),
        ] {
            assert_eq!(result.expect("it is near"), ready());
        }
    }

    #[test]
    fn o9_what_is_farther_away_is_refused_and_both_are_named() {
        let ours = Versions::ours();
        for result in [
            announced(|v| v.program = neighbour(2)),
            announced(|v| v.program = "77.1.0".to_owned()),
            announced(|v| (v.dialogue, v.dialogue_oldest) = (9, Some(ours.dialogue + 1))),
            announced(|v| (v.dialogue, v.dialogue_oldest) = (ours.dialogue + 1, None)),
            announced(|v| (v.dialogue, v.dialogue_oldest) = (ours.dialogue - 1, None)),
            announced(|v| (v.wire, v.wire_oldest) = (ours.wire + 1, None)),
            announced(|v| (v.handover, v.handover_oldest) = (0, None)),
        ] {
            let error = result.expect_err("it is far away").at("site");
            let text = error.to_string();
            assert_eq!(error.kind(), ErrorKind::Protocol);
            assert!(
                text.starts_with("site has howdah ") && text.contains("this is howdah "),
                "{text}"
            );
            assert!(text.contains("at most one minor version apart"), "{text}");
        }
    }

    #[test]
    fn what_never_ends_is_cut_off() {
        let endless = vec![b'x'; 10 * LINE_MAX];
        let read = read_answer(&mut &*endless, |_| ());
        assert!(matches!(read, Err(HandoverError::Noise)));
        let lines = b"noise\n".repeat(10 * NOISE_LINES);
        let mut seen = 0;
        let result = read_answer(&mut &*lines, |_| seen += 1);
        assert!(matches!(result, Err(HandoverError::Noise)));
        assert_eq!(seen, NOISE_LINES);
        let long = [vec![b'x'; LINE_MAX - 1], vec![b'\n']].concat().repeat(9);
        let result = read_answer(&mut &*long, |_| ());
        assert!(matches!(result, Err(HandoverError::Noise)));
        assert!(matches!(
            read_ask(&mut &b""[..]),
            Err(HandoverError::Closed)
        ));
    }

    #[test]
    fn a59_nothing_that_a_sender_tells_can_write_to_a_terminal() {
        let evil = "a\u{1b}]0;x\u{7}\u{9b}2Jb\r\nc";
        let mut summary = Summary::default();
        (summary.bottleneck, summary.verified) = (evil.to_owned(), evil.to_owned());
        let progress = |current| CopyEvent::Progress {
            bytes: 1,
            total_bytes: None,
            files_done: 0,
            files_total: None,
            elapsed_us: 0,
            goodput_bps: 0,
            wire_bps: 0,
            rtt_us: 0,
            loss: 0.0,
            current,
            answered: true,
            resumed_bytes: 0,
        };
        for told in [
            progress(vec![evil.to_owned()]),
            CopyEvent::Warning(evil.to_owned()),
            CopyEvent::Note(evil.to_owned()),
            CopyEvent::Done(Box::new(summary)),
            CopyEvent::Failed {
                kind: 1,
                message: evil.to_owned(),
                stuck: true,
            },
        ] {
            let mut line = Vec::new();
            write_told(&mut line, &told).expect("memory");
            let heard = read_told(&mut &*line).expect("a line");
            let heard = serde_json::to_string(&heard).expect("memory");
            assert!(
                heard.contains("a]0;x2Jbc") && !heard.contains("\\u"),
                "{heard}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_line_or_an_error(bytes: Vec<u8>) {
            let _ = read_ask(&mut &*bytes);
            let _ = read_answer(&mut &*bytes, |_| ());
            let _ = read_ask(&mut &*[ASK.as_bytes(), &bytes].concat());
        }
    }
}
