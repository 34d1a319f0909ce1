//! What client and server say on the control stream: postcard behind a version byte. docs/protocol.md section 16 is the specification.

use crate::failure::FailureKind;
use crate::files::FilesRequest;
use crate::pace::Pace;
use crate::plans::{LeasePut, PlanPlace};
use crate::questions::{Finding, Question, Sum};
use crate::resume::{SourceIdentity, WireHeld, WireRanges};
use crate::selection::Selection;
use crate::{PathBytes, TreeOptions, TreeReport};
use howdah_core::{ObjectId, Span};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Version of this dialogue; the first byte of each message. It counts up with each minor version of the program.
pub const VERSION: u8 = 2;
/// The oldest one that is understood: that of the minor version before this one, as soon as there is one.
pub const OLDEST: u8 = 2;
/// The next one only adds what can be passed over (docs/versions.md).
const NEWEST: u8 = VERSION + 1;
/// More bytes than all fields have that one version adds to a message.
const ADDED_BYTES: usize = 64;

/// What one side says.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub enum Message {
    /// Client: I send `object`, put it under `path`.
    Put {
        /// The object in which it comes.
        object: ObjectId,
        /// Where to.
        path: PathBytes,
        /// If `path` is a directory, the name below it.
        name: Option<PathBytes>,
        /// In bytes; `None`: it ends when it ends.
        size: Option<u64>,
        /// The sender will tell a BLAKE3, check it.
        hash: bool,
        /// Which version of which file it is: the copy can be gone on with.
        source: Option<SourceIdentity>,
        /// Go on with what is there already.
        resume: bool,
        /// Read it back from the device at the end.
        reread: bool,
        /// Permission bits of the source.
        mode: Option<u32>,
    },
    /// Client: send me `path`. Bytes up to `window_end` may come at once.
    Get {
        /// Which file.
        path: PathBytes,
        /// The first byte that may not come yet; `None`: all may.
        window_end: Option<u64>,
        /// Tell a BLAKE3 at the end.
        hash: bool,
        /// What is here of it already.
        held: Option<WireHeld>,
        /// Tell the values of its groups.
        values: bool,
    },
    /// Server: it comes as `object`, with a BLAKE3 at its end or without.
    Sending {
        /// The object in which it comes.
        object: ObjectId,
        /// In bytes; `None`: it ends when it ends.
        size: Option<u64>,
        /// A BLAKE3 is told at the end.
        hash: bool,
        /// Which version of which file it is.
        source: Option<SourceIdentity>,
        /// What was held is not sent again.
        resumed: bool,
        /// Permission bits of the file.
        mode: Option<u32>,
    },
    /// Sender: the object ends there and hashes to that.
    End {
        /// Which object.
        object: ObjectId,
        /// All of it, in bytes.
        size: u64,
        /// Of its content, if that was promised and all of it was sent.
        blake3: Option<[u8; 32]>,
    },
    /// Receiver: verified, durable, in place.
    Done {
        /// Which object.
        object: ObjectId,
        /// What the receiver took.
        side: SideReport,
    },
    /// Sender: what it took; the answer to [`Message::Done`].
    Thanks {
        /// What the sender took.
        side: SideReport,
    },
    /// Either: it failed.
    Fail {
        /// The number of a [`FailureKind`].
        kind: u8,
        /// For people.
        message: String,
    },
    /// Client: send at this pace from now on, whatever it is that you send.
    Pace(Pace),
    /// Client: a tree comes, put it under `path`. `several`: more than one thing is at its top.
    TreePut {
        /// The object of the manifest.
        manifest: ObjectId,
        /// The object of the packs of small files.
        packs: ObjectId,
        /// Where to.
        path: PathBytes,
        /// More than one thing is at its top.
        several: bool,
        /// How.
        options: TreeOptions,
    },
    /// Server: the answers come as that object.
    TreeAccepted {
        /// The object of the answers.
        answers: ObjectId,
    },
    /// Client: send me the trees at these paths; the answers come as that object.
    TreeGet {
        /// The object of the answers.
        answers: ObjectId,
        /// Which.
        paths: Vec<PathBytes>,
        /// How.
        options: TreeOptions,
    },
    /// Server: they come as these objects.
    TreeComes {
        /// The object of the manifest.
        manifest: ObjectId,
        /// The object of the packs of small files.
        packs: ObjectId,
    },
    /// Sender: the large file `index` of the manifest comes as `object`.
    TreeFile {
        /// The object in which it comes.
        object: ObjectId,
        /// Its number among the files of the manifest.
        index: u64,
        /// In bytes.
        size: u64,
        /// Which version of it: it can be gone on with.
        source: Option<SourceIdentity>,
    },
    /// Sender: the rest of `object` does not come.
    TreeFileMissing {
        /// Which object.
        object: ObjectId,
    },
    /// Receiver: nothing more of `object` is needed; `stored`: because all of it is in place.
    TreeSettled {
        /// Which object.
        object: ObjectId,
        /// All of it is in place.
        stored: bool,
    },
    /// Receiver: everything is verified, durable, in place.
    TreeDone {
        /// What the receiver took.
        side: SideReport,
        /// What became of the files.
        report: TreeReport,
        /// [`TreeReport::renamed`], which an older side does not say.
        renamed: Option<bool>,
    },
    /// Sender: the answer to [`Message::TreeDone`].
    TreeThanks {
        /// What the sender took.
        side: SideReport,
        /// What became of the files.
        report: TreeReport,
    },
    /// Receiver (of a file that was put, or of a tree's): go on.
    Ready {
        /// Which object.
        object: ObjectId,
        /// These bytes are here already.
        held: WireRanges,
        /// Tell the values of its groups.
        values: bool,
        /// What was here was of another version of the source: how they differ.
        changed: Option<String>,
    },
    /// Sender: what the groups from `first` on hash to.
    Values {
        /// Which object.
        object: ObjectId,
        /// Number of the first group.
        first: u64,
        /// One for each group.
        values: Vec<[u8; 32]>,
    },
    /// Client: describe what is at that path, to be compared; the answers come as that object.
    TreeVerify {
        /// The object of the answers.
        answers: ObjectId,
        /// What.
        path: PathBytes,
        /// How.
        options: TreeOptions,
    },
    /// Receiver, if it was asked to: these small files of the manifest are in place. Pairs: how many after the
    /// end of the pair before, and how many in a row.
    TreePlaced {
        /// See above.
        runs: Vec<(u64, u64)>,
    },
    /// Sender, before it announces `object`: that has holes. These groups are nothing else and do not come.
    Holes {
        /// Which object.
        object: ObjectId,
        /// Its groups that are holes.
        ranges: WireRanges,
    },
    /// Receiver, to a client that has [told its patience](Message::encode_patient): it waits for space, which is
    /// why; none: it goes on.
    Room {
        /// What is lacking, for people.
        lack: Option<String>,
    },
    /// Client, before it asks for a tree or a comparison: a part of the names and rules of the request, which stand before
    /// those that the request itself has.
    Selection(Selection),
    /// Client: something that is no copy.
    Ask(Question),
    /// Server: the question is understood, and this was found; more may come.
    Findings(Vec<Finding>),
    /// Server: that was all.
    Answered(Sum),
    /// Client: I will ask about files.
    OpenFiles,
    /// Server: ask; the answers come as that object.
    FilesOpen {
        /// The object of the answers.
        answers: ObjectId,
    },
    /// Client: questions, each with a number that no other one that is open has.
    AskFiles(Vec<(u64, FilesRequest)>),
    /// Client: one lease of a plan comes.
    PutLease(LeasePut),
    /// Client: the tree that is put next goes into the room of a plan. The path that its request has means nothing.
    IntoPlan(PlanPlace),
    /// Server, to a client that has said behind its request [how many](crate::lanes::MOST) lanes it would use: others may bring a part
    /// of what moves.
    Lanes {
        /// What a connection has to know that joins.
        token: [u8; 32],
        /// So many connections may move it, this one included.
        most: u8,
    },
    /// Client, as the first on another connection: it moves a part of what another one of the same key moves.
    Join {
        /// As [`Message::Lanes`] told it.
        token: [u8; 32],
        /// The object in which its part comes, if the client sends.
        object: ObjectId,
    },
    /// Server: it does.
    Joined {
        /// The object in which its part comes, or goes.
        object: ObjectId,
    },
}

/// What one side used and sent.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct SideReport {
    /// User and system time, in seconds.
    pub cpu_seconds: f64,
    /// Peak resident set, in bytes.
    pub peak_rss_bytes: u64,
    /// IP packets' bytes sent.
    pub wire_bytes: u64,
    /// Payload bytes sent more than once.
    pub repeated_bytes: u64,
    /// Packets that the other side has confirmed.
    pub packets_acked: u64,
    /// Packets that were lost on the way.
    pub packets_lost: u64,
    /// Smallest round-trip time, in microseconds.
    pub rtt_min_us: u64,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// Index into [`BOTTLENECKS`].
    pub bottleneck: u8,
    /// Whether a key stood for the content ("blake3") or only the packets' seals ("aead").
    pub hashed: bool,
    /// Whether the device was read again.
    pub reread: bool,
    /// Told behind the last message of a sender only.
    #[serde(skip)]
    pub repeats: Repeats,
}

/// Why bytes were sent again, besides for those that were lost.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Repeats {
    /// The last ones go twice, so that a loss among them costs no round trip.
    pub tail_bytes: u64,
    /// The receiver's disk had no room for them when they came.
    pub refused_bytes: u64,
}

/// Names of what may have limited a sender.
pub const BOTTLENECKS: [&str; 5] = ["network", "source", "sink", "cpu", "rate cap"];

/// Index of the last one.
pub const RATE_CAP: u8 = 4;

impl SideReport {
    /// Share of the packets that did not arrive.
    pub fn loss_rate(&self) -> f64 {
        // The peer's figures: any.
        let packets = self.packets_acked.saturating_add(self.packets_lost);
        if packets == 0 {
            0.0
        } else {
            self.packets_lost as f64 / packets as f64
        }
    }
}

/// A receiver waits for space that long at most, whatever it is asked for.
const PATIENCE_MAX: Duration = Duration::from_hours(24);

/// Longest text of a failure that is sent, in bytes.
const MAX_TEXT: usize = 4_096;

/// Why a message is not understood.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// Not even a version.
    #[error("an empty message")]
    Empty,
    /// It is of this version, and makes no sense all the same: another build.
    #[error("a message of dialogue {VERSION} that makes no sense")]
    Nonsense,
    /// It is of a neighbouring version, which knows more.
    #[error("a message of dialogue {version} that is not known in {VERSION}")]
    Unknown {
        /// The version of the dialogue.
        version: u8,
    },
    /// It is of a version that is too far away.
    #[error("a message of dialogue {version}, which is too far from {VERSION}")]
    TooFar {
        /// The version of the dialogue.
        version: u8,
    },
}

impl Message {
    /// Whether a server keeps it, or something of it, until what it is about is over.
    pub fn stays_with_a_session(&self) -> bool {
        matches!(
            self,
            Self::Selection(_) | Self::IntoPlan(_) | Self::Holes { .. } | Self::AskFiles(_)
        )
    }

    /// That it failed. A text that is too long loses its end.
    pub fn fail(kind: FailureKind, text: &str) -> Self {
        Self::Fail {
            kind: kind.number(),
            message: bounded(text),
        }
    }

    /// What it waits for, if it waits.
    pub fn room(lack: Option<&str>) -> Self {
        let lack = lack.map(bounded);
        Self::Room { lack }
    }

    /// The same for want of a place or a thread, encoded: it is tried again after so many seconds, which stands behind it.
    pub fn busy(why: &str, again_s: u16) -> Vec<u8> {
        Self::room(Some(why)).encode_with(&again_s)
    }

    /// Its bytes.
    ///
    /// # Panics
    ///
    /// Never: a message is made of plain data, which can always be written.
    pub fn encode(&self) -> Vec<u8> {
        let bytes = postcard::to_extend(self, vec![VERSION]);
        let bytes = bytes.expect("a message is made of plain data");
        match self {
            // Who does not know what stands behind it does not see it.
            Self::Thanks { side } | Self::TreeThanks { side, .. } => {
                postcard::to_extend(&side.repeats, bytes).expect("numbers are plain data")
            }
            _ => bytes,
        }
    }

    /// With one more thing behind it. Who does not know it does not see it.
    ///
    /// # Panics
    ///
    /// That is no plain data: numbers, text and lists of them are.
    pub fn encode_with(&self, more: &impl Serialize) -> Vec<u8> {
        postcard::to_extend(more, self.encode()).expect("it is plain data")
    }

    /// What stands behind a message.
    pub fn more<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
        let (_, message) = bytes.split_first()?;
        let (_, rest) = postcard::take_from_bytes::<Self>(message).ok()?;
        postcard::from_bytes(rest).ok()
    }

    /// With the seconds behind it that the receiver may wait for space.
    pub fn encode_patient(&self, patience: Span) -> Vec<u8> {
        self.encode_with(&patience.as_millis().div_ceil(1000))
    }

    /// The patience behind a message; none if it has none.
    pub fn patience(bytes: &[u8]) -> Duration {
        Duration::from_secs(Self::more::<u64>(bytes).unwrap_or(0)).min(PATIENCE_MAX)
    }

    /// Whether all messages of that version are read.
    pub fn is_near(version: u8) -> bool {
        (OLDEST..=NEWEST).contains(&version)
    }

    /// Reads a message of this version, of the one before it and of the next one. What an older one does not say yet is zero,
    /// empty or absent; what a newer one says behind all that is known here is passed over. A [`Fail`](Self::Fail) keeps its form in
    /// all versions, so that they can say what is wrong: it is read whatever version it is of.
    ///
    /// # Errors
    ///
    /// It is of a version that is too far away, or makes no sense.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let Some((&version, rest)) = bytes.split_first() else {
            return Err(DecodeError::Empty);
        };
        let mut padded = rest.to_vec();
        padded.extend([0; ADDED_BYTES]);
        // Not more than there is: of an empty message, the zeros would be one.
        let read = postcard::take_from_bytes(&padded)
            .ok()
            .filter(|_| !rest.is_empty());
        let read = read.map(|(mut message, behind)| {
            if let Self::Thanks { side } | Self::TreeThanks { side, .. } = &mut message {
                side.repeats = postcard::from_bytes(behind).unwrap_or_default();
            }
            message
        });
        let is_near = Self::is_near(version);
        match read {
            Some(message) if is_near => Ok(message),
            Some(message @ Self::Fail { .. }) => Ok(message),
            None if version == VERSION => Err(DecodeError::Nonsense),
            None if is_near => Err(DecodeError::Unknown { version }),
            _ => Err(DecodeError::TooFar { version }),
        }
    }
}

fn bounded(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}

/// A peer's text as a terminal may have it.
pub fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests;
