//! Control messages: postcard behind a version byte.

use super::chore::{Finding, Question, Sum};
use super::files::wire::FilesRequest;
use super::pace::Pace;
use super::plans::LeasePut;
use super::resume::{WireHeld, WireIdentity, WireRanges};
use super::selection::Selection;
use crate::{Error, ErrorKind, PathBytes, SideUsage, versions};
use howdah_core::Span;
use howdah_proto::Stats;
use howdah_store::{StoreError, TreeOptions, TreeReport};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Version of this dialogue; the first byte of each message. It counts up with each minor version of the program.
pub(crate) const VERSION: u8 = 2;
/// The oldest one that is understood: that of the minor version before this one, as soon as there is one.
pub(crate) const OLDEST: u8 = 2;
/// The next one only adds what can be passed over (docs/versions.md).
const NEWEST: u8 = VERSION + 1;
/// More bytes than all fields have that one version adds to a message.
const ADDED_BYTES: usize = 64;

/// IP and UDP headers of a datagram, as far as they are counted (IPv4).
pub(crate) const IP_UDP_BYTES: u64 = 28;

/// What one side says.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) enum Message {
    /// Client: I send `object`, put it under `path`.
    Put {
        object: u64,
        path: PathBytes,
        /// If `path` is a directory, the name below it.
        name: Option<PathBytes>,
        size: Option<u64>,
        /// The sender will tell a BLAKE3, check it.
        hash: bool,
        /// Which version of which file it is: the copy can be gone on with.
        source: Option<WireIdentity>,
        /// Go on with what is there already.
        resume: bool,
        /// Read it back from the device at the end.
        reread: bool,
        /// Permission bits of the source.
        mode: Option<u32>,
    },
    /// Client: send me `path`. Bytes up to `window_end` may come at once.
    Get {
        path: PathBytes,
        window_end: Option<u64>,
        hash: bool,
        /// What is here of it already.
        held: Option<WireHeld>,
        /// Tell the values of its groups.
        values: bool,
    },
    /// Server: it comes as `object`, with a BLAKE3 at its end or without.
    Sending {
        object: u64,
        size: Option<u64>,
        hash: bool,
        source: Option<WireIdentity>,
        /// What was held is not sent again.
        resumed: bool,
        /// Permission bits of the file.
        mode: Option<u32>,
    },
    /// Sender: the object ends there and hashes to that.
    End {
        object: u64,
        size: u64,
        blake3: Option<[u8; 32]>,
    },
    /// Receiver: verified, durable, in place.
    Done { object: u64, side: SideReport },
    /// Sender: what it took; the answer to [`Message::Done`].
    Thanks { side: SideReport },
    /// Either: it failed.
    Fail { kind: u8, message: String },
    /// Client: send at this pace from now on, whatever it is that you send.
    Pace(Pace),
    /// Client: a tree comes, put it under `path`. `several`: more than one thing is at its top.
    TreePut {
        manifest: u64,
        packs: u64,
        path: PathBytes,
        several: bool,
        options: TreeOptions,
    },
    /// Server: the answers come as that object.
    TreeAccepted { answers: u64 },
    /// Client: send me the trees at these paths; the answers come as that object.
    TreeGet {
        answers: u64,
        paths: Vec<PathBytes>,
        options: TreeOptions,
    },
    /// Server: they come as these objects.
    TreeComes { manifest: u64, packs: u64 },
    /// Sender: the large file `index` of the manifest comes as `object`.
    TreeFile {
        object: u64,
        index: u64,
        size: u64,
        /// Which version of it: it can be gone on with.
        source: Option<WireIdentity>,
    },
    /// Sender: the rest of `object` does not come.
    TreeFileMissing { object: u64 },
    /// Receiver: nothing more of `object` is needed; `stored`: because all of it is in place.
    TreeSettled { object: u64, stored: bool },
    /// Receiver: everything is verified, durable, in place.
    TreeDone {
        side: SideReport,
        report: TreeReport,
        /// [`TreeReport::renamed`], which an older side does not say.
        renamed: Option<bool>,
    },
    /// Sender: the answer to [`Message::TreeDone`].
    TreeThanks {
        side: SideReport,
        report: TreeReport,
    },
    /// Receiver (of a file that was put, or of a tree's): go on.
    Ready {
        object: u64,
        /// These bytes are here already.
        held: WireRanges,
        /// Tell the values of its groups.
        values: bool,
        /// What was here was of another version of the source: how they differ.
        changed: Option<String>,
    },
    /// Sender: what the groups from `first` on hash to.
    Values {
        object: u64,
        first: u64,
        values: Vec<[u8; 32]>,
    },
    /// Client: describe what is at that path, to be compared; the answers come as that object.
    TreeVerify {
        answers: u64,
        path: PathBytes,
        options: TreeOptions,
    },
    /// Receiver, if it was asked to: these small files of the manifest are in place. Pairs: how many after the
    /// end of the pair before, and how many in a row.
    TreePlaced { runs: Vec<(u64, u64)> },
    /// Sender, before it announces `object`: that has holes. These groups are nothing else and do not come.
    Holes { object: u64, ranges: WireRanges },
    /// Receiver, to a client that has [told its patience](Message::encode_patient): it waits for space, which is
    /// why; none: it goes on.
    Room { lack: Option<String> },
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
    FilesOpen { answers: u64 },
    /// Client: questions, each with a number that no other one that is open has.
    AskFiles(Vec<(u64, FilesRequest)>),
    /// Client: one lease of a plan comes.
    PutLease(LeasePut),
}

/// What one side used and sent.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct SideReport {
    pub(crate) cpu_seconds: f64,
    pub(crate) peak_rss_bytes: u64,
    /// IP packets' bytes sent.
    pub(crate) wire_bytes: u64,
    pub(crate) repeated_bytes: u64,
    pub(crate) packets_acked: u64,
    pub(crate) packets_lost: u64,
    pub(crate) rtt_min_us: u64,
    pub(crate) mtu: u16,
    /// Index into [`BOTTLENECKS`].
    pub(crate) bottleneck: u8,
    /// Whether a key stood for the content ("blake3") or only the packets' seals ("aead").
    pub(crate) hashed: bool,
    /// Whether the device was read again.
    pub(crate) reread: bool,
    /// Told behind the last message of a sender only.
    #[serde(skip)]
    pub(crate) repeats: Repeats,
}

/// Why bytes were sent again, besides for those that were lost.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Repeats {
    /// The last ones go twice, so that a loss among them costs no round trip.
    pub(crate) tail_bytes: u64,
    /// The receiver's disk had no room for them when they came.
    pub(crate) refused_bytes: u64,
}

impl Repeats {
    fn new(stats: &Stats) -> Self {
        let size = u64::from(stats.datagram_size);
        Self {
            tail_bytes: stats.tail_bytes_repeated,
            refused_bytes: stats.peer_sink_drops.saturating_mul(size),
        }
    }
}

/// Names of what may have limited a sender.
pub(crate) const BOTTLENECKS: [&str; 5] = ["network", "source", "sink", "cpu", "rate cap"];

/// Index of the last one.
pub(crate) const RATE_CAP: u8 = 4;

impl SideReport {
    /// This process since `start`, and that connection.
    pub(crate) fn new(start: howdah_net::Usage, stats: &Stats) -> Self {
        let now = howdah_net::usage();
        Self {
            cpu_seconds: now.cpu_seconds - start.cpu_seconds,
            peak_rss_bytes: now.peak_rss_bytes,
            wire_bytes: stats.bytes_sent + IP_UDP_BYTES * stats.datagrams_sent,
            repeated_bytes: stats.data_bytes_repeated,
            packets_acked: stats.packets_acked,
            // What the other side's disk had no room for was not lost on the way.
            packets_lost: stats.packets_lost.saturating_sub(stats.peer_sink_drops),
            rtt_min_us: stats.rtt_min.as_micros(),
            mtu: stats.datagram_size + IP_UDP_BYTES as u16,
            bottleneck: 0,
            hashed: false,
            reread: false,
            repeats: Repeats::new(stats),
        }
    }

    pub(crate) fn usage(&self) -> SideUsage {
        SideUsage {
            cpu_seconds: self.cpu_seconds,
            peak_rss_bytes: self.peak_rss_bytes,
        }
    }

    pub(crate) fn loss_rate(&self) -> f64 {
        // The peer's figures: any.
        let packets = self.packets_acked.saturating_add(self.packets_lost);
        if packets == 0 {
            0.0
        } else {
            self.packets_lost as f64 / packets as f64
        }
    }
}

/// Kinds of failure that have a number, which is their position.
pub(crate) const KINDS: [ErrorKind; 12] = [
    ErrorKind::Io,
    ErrorKind::NotFound,
    ErrorKind::Refused,
    ErrorKind::Integrity,
    ErrorKind::NoSpace,
    ErrorKind::Cancelled,
    ErrorKind::SourceChanged,
    ErrorKind::Usage,
    ErrorKind::Protocol,
    ErrorKind::Network,
    ErrorKind::Auth,
    ErrorKind::Partial,
];
/// Those that a peer may tell: the last three are about the way to it, or about this side's sum of all.
const TOLD_BY_PEERS: usize = 9;

/// A receiver waits for space that long at most, whatever it is asked for.
const PATIENCE_MAX: Duration = Duration::from_hours(24);

/// Longest text of a failure that is sent, in bytes.
const MAX_TEXT: usize = 4_096;

impl Message {
    pub(crate) fn fail(error: &Error) -> Self {
        let kind = KINDS[..TOLD_BY_PEERS]
            .iter()
            .position(|k| *k == error.kind())
            .unwrap_or(0) as u8;
        let message = bounded(error.to_string());
        Self::Fail { kind, message }
    }

    /// What it waits for, if it waits.
    pub(crate) fn room(lack: Option<&StoreError>) -> Self {
        let lack = lack.map(|error| error.lack_of_space().unwrap_or_else(|| error.to_string()));
        let lack = lack.map(bounded);
        Self::Room { lack }
    }

    /// The same for want of a place or a thread, encoded: it is tried again after so many seconds, which stands behind it.
    pub(crate) fn busy(why: &str, again_s: u16) -> Vec<u8> {
        let lack = Some(bounded(why.to_owned()));
        Self::Room { lack }.encode_with(&again_s)
    }

    /// A failure that the other side told.
    pub(crate) fn failure(kind: u8, message: &str, peer: &str) -> Error {
        let kind = KINDS[..TOLD_BY_PEERS]
            .get(usize::from(kind))
            .copied()
            .unwrap_or(ErrorKind::Io);
        Error::new(kind, format!("{peer}: {}", shown(message)))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
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
    pub(crate) fn encode_with(&self, more: &impl Serialize) -> Vec<u8> {
        postcard::to_extend(more, self.encode()).expect("it is plain data")
    }

    /// What stands behind a message.
    pub(crate) fn more<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
        let (_, message) = bytes.split_first()?;
        let (_, rest) = postcard::take_from_bytes::<Self>(message).ok()?;
        postcard::from_bytes(rest).ok()
    }

    /// With the seconds behind it that the receiver may wait for space.
    pub(crate) fn encode_patient(&self, patience: Span) -> Vec<u8> {
        self.encode_with(&patience.as_millis().div_ceil(1000))
    }

    /// The patience behind a message; none if it has none.
    pub(crate) fn patience(bytes: &[u8]) -> Duration {
        Duration::from_secs(Self::more::<u64>(bytes).unwrap_or(0)).min(PATIENCE_MAX)
    }

    /// Reads a message of this version, of the one before it and of the next one. What an older one does not say yet is zero,
    /// empty or absent; what a newer one says behind all that is known here is passed over.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let error = |text: String| Err(Error::new(ErrorKind::Protocol, text));
        let Some((&version, rest)) = bytes.split_first() else {
            return error("sent an empty message".to_owned());
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
        let ours = format!("howdah {} (dialogue {VERSION})", versions::build());
        let is_about_us = |kind: u8, text: &str| {
            let is_protocol = Some(&ErrorKind::Protocol) == KINDS.get(usize::from(kind));
            is_protocol && text.contains("(dialogue ") && !text.contains(&ours)
        };
        match read {
            // It may be that the builds do not understand each other.
            Some(Self::Fail { kind, message })
                if version == VERSION && is_about_us(kind, &message) =>
            {
                Ok(Self::Fail {
                    kind,
                    message: bounded(format!("{message}; this is {ours}")),
                })
            }
            Some(message) if (OLDEST..=NEWEST).contains(&version) => Ok(message),
            None if version == VERSION => error(format!(
                "sent a message that makes no sense to {ours}; if it is of another build, install the same one on both"
            )),
            None if (OLDEST..=NEWEST).contains(&version) => error(format!(
                "sent a message (dialogue {version}) that {ours} does not know; {}",
                versions::REMEDY
            )),
            // It keeps its form in all versions, so that they can say what is wrong.
            Some(Self::Fail { kind, message }) => Ok(Self::Fail {
                kind,
                message: bounded(format!("{message}; this is {ours}")),
            }),
            _ => error(format!(
                "speaks another version of howdah (dialogue {version}) than {ours}; {}",
                versions::REMEDY
            )),
        }
    }
}

fn bounded(mut text: String) -> String {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

/// A peer's text as a terminal may have it.
pub(crate) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::resume::samples::{held, identity};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_come_back_as_they_were() {
        for message in [
            Message::Put {
                object: 1,
                path: "a/b".into(),
                name: None,
                size: Some(7),
                hash: true,
                source: Some(WireIdentity::from(&identity())),
                resume: true,
                reread: false,
                mode: Some(0o640),
            },
            Message::Get {
                path: PathBytes::default(),
                window_end: Some(9),
                hash: false,
                held: Some(WireHeld::from(&held())),
                values: true,
            },
            Message::Values {
                object: 1,
                first: 2,
                values: vec![[3; 32]; 2],
            },
            Message::End {
                object: 1,
                size: 7,
                blake3: Some([7; 32]),
            },
            Message::Done {
                object: 1,
                side: SideReport::default(),
            },
            Message::Pace(Pace::default()),
            Message::Room {
                lack: Some("full".into()),
            },
            Message::fail(&Error::new(ErrorKind::NoSpace, "full")),
        ] {
            assert_eq!(Message::decode(&message.encode()).unwrap(), message);
        }
    }

    /// docs/protocol.md, A.5.
    #[test]
    fn bytes_are_those_of_the_specification() {
        let put = Message::Put {
            object: 0,
            path: "in/".into(),
            name: Some("a.dat".into()),
            size: Some(300),
            hash: true,
            source: None,
            resume: true,
            reread: false,
            mode: Some(0o640),
        };
        let start = b"\x02\x00\x00\x03in/\x01\x05a.dat\x01\xac\x02\x01\x00\x01\x00\x01\xa0\x03";
        assert_eq!(put.encode(), start);
        let mut ranges = howdah_core::RangeSet::new();
        ranges.insert(howdah_core::ByteRange::new(2 << 20, 5 << 20));
        let ready = Message::Ready {
            object: 0,
            held: (&ranges).into(),
            values: true,
            changed: None,
        };
        assert_eq!(ready.encode(), [2, 17, 0, 1, 2, 3, 1, 0]);
        let holes = Message::Holes {
            object: 0,
            ranges: (&ranges).into(),
        };
        assert_eq!(holes.encode(), [2, 21, 0, 1, 2, 3]);
    }

    #[test]
    fn f13_patience_stands_behind_a_message_where_older_programs_do_not_look() {
        let put = Message::Room { lack: None };
        assert_eq!(Message::patience(&put.encode()), Duration::ZERO);
        let bytes = put.encode_patient(Span::from_millis(299_001));
        assert_eq!(bytes, [2, 22, 0, 0xac, 0x02]);
        assert_eq!(Message::patience(&bytes), Duration::from_mins(5));
        assert_eq!(Message::decode(&bytes).unwrap(), put);
        let bytes = put.encode_patient(Span::from_secs(1 << 40));
        assert_eq!(Message::patience(&bytes), PATIENCE_MAX);
        assert_eq!(Message::patience(b""), Duration::ZERO);
        assert_eq!(Message::patience(b"\x02\xff"), Duration::ZERO);
    }

    #[test]
    fn o9_messages_of_neighbouring_versions_are_understood() {
        let room = Message::Room { lack: None };
        let bytes = room.encode();
        // A newer one says more, which is passed over.
        let newer = [&[VERSION + 1], &bytes[1..], &[7, 7, 7]].concat();
        assert_eq!(Message::decode(&newer).unwrap(), room);
        // An older one says less, which is zero: here the last field is cut off.
        let ready = Message::Ready {
            object: 3,
            held: (&howdah_core::RangeSet::new()).into(),
            values: true,
            changed: None,
        };
        let bytes = ready.encode();
        assert_eq!(Message::decode(&bytes[..bytes.len() - 1]).unwrap(), ready);
        // What only a newer one knows is named, with what to do.
        let unknown = Message::decode(&[VERSION + 1, 120, 1]).unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::Protocol);
        assert!(unknown.to_string().contains("does not know"), "{unknown}");
        assert!(
            unknown.to_string().contains("one minor version apart"),
            "{unknown}"
        );
    }

    #[test]
    fn o9_another_build_of_the_same_version_hears_which_this_is() {
        let unknown = Message::decode(&[VERSION, 120, 1]).unwrap_err().to_string();
        assert!(unknown.contains(versions::build()), "{unknown}");
        assert!(unknown.contains("same one on both"), "{unknown}");
        // Whoever is told so by another build says what it is itself.
        let said =
            "sent a message that makes no sense to howdah 0.1.0 (commit 1234567) (dialogue 2)";
        let fail = Message::fail(&Error::new(ErrorKind::Protocol, said));
        match Message::decode(&fail.encode()).unwrap() {
            Message::Fail { message, .. } => {
                assert!(message.contains("; this is howdah"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn o9_versions_that_are_too_far_apart_are_named() {
        for version in [0, OLDEST - 1, VERSION + 2, 255] {
            let bytes = [&[version], &Message::Room { lack: None }.encode()[1..]].concat();
            let error = Message::decode(&bytes).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Protocol);
            let text = error.to_string();
            assert!(text.contains(&format!("(dialogue {version})")), "{text}");
            assert!(
                text.contains(&format!("than howdah {}", versions::build())),
                "{text}"
            );
            // A failure is readable in all of them: it says what the other side is.
            let fail = Message::fail(&Error::new(ErrorKind::Protocol, "I am howdah 9.1.0"));
            let bytes = [&[version], &fail.encode()[1..]].concat();
            match Message::decode(&bytes).unwrap() {
                Message::Fail { message, .. } => {
                    assert!(
                        message.starts_with("I am howdah 9.1.0; this is howdah "),
                        "{message}"
                    );
                }
                other => panic!("{other:?}"),
            }
        }
        for nothing in [&b""[..], &[VERSION]] {
            assert!(Message::decode(nothing).is_err(), "{nothing:?}");
        }
    }

    #[test]
    fn o9_why_bytes_were_sent_again_stands_where_older_programs_do_not_look() {
        let side = SideReport {
            repeats: Repeats {
                tail_bytes: 7,
                refused_bytes: 9,
            },
            ..SideReport::default()
        };
        let thanks = Message::Thanks { side };
        assert_eq!(Message::decode(&thanks.encode()).unwrap(), thanks);
        let mut older = thanks.encode();
        older.truncate(older.len() - 2);
        let side = SideReport::default();
        assert_eq!(Message::decode(&older).unwrap(), Message::Thanks { side });
    }

    #[test]
    fn control_characters_of_the_peer_do_not_reach_a_terminal() {
        let error = Message::failure(4, "full\u{1b}[2J\n", "there");
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::NoSpace, "there: full[2J")
        );
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Message::decode(&bytes);
        }
    }
}
