//! The dialogue of `howdah-session` in this library's words: failures, versions, and what a side has taken.

use crate::{Error, ErrorKind, SideUsage, versions};
use howdah_proto::Stats;
use howdah_session::message::{DecodeError, Message, Repeats, SideReport, VERSION, shown};
use howdah_session::selection::SelectionError;
use howdah_session::server::Unheard;
use howdah_session::{FailureKind, Misbehaved};
use howdah_store::StoreError;

/// IP and UDP headers of a datagram, as far as they are counted (IPv4).
pub(crate) const IP_UDP_BYTES: u64 = 28;

impl From<FailureKind> for ErrorKind {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Io => Self::Io,
            FailureKind::NotFound => Self::NotFound,
            FailureKind::Refused => Self::Refused,
            FailureKind::Integrity => Self::Integrity,
            FailureKind::NoSpace => Self::NoSpace,
            FailureKind::Cancelled => Self::Cancelled,
            FailureKind::SourceChanged => Self::SourceChanged,
            FailureKind::Usage => Self::Usage,
            FailureKind::Protocol => Self::Protocol,
            FailureKind::AtWork => Self::Network,
        }
    }
}

/// As it is told the other side. What is about the way to it, or about this side alone, is no kind of its own there.
fn told(kind: ErrorKind) -> FailureKind {
    match kind {
        ErrorKind::NotFound => FailureKind::NotFound,
        ErrorKind::Refused => FailureKind::Refused,
        ErrorKind::Integrity => FailureKind::Integrity,
        ErrorKind::NoSpace => FailureKind::NoSpace,
        ErrorKind::Cancelled => FailureKind::Cancelled,
        ErrorKind::SourceChanged => FailureKind::SourceChanged,
        ErrorKind::Usage => FailureKind::Usage,
        ErrorKind::Protocol => FailureKind::Protocol,
        ErrorKind::Io
        | ErrorKind::Network
        | ErrorKind::Auth
        | ErrorKind::Partial
        | ErrorKind::Limit => FailureKind::Io,
    }
}

impl From<Misbehaved> for Error {
    fn from(error: Misbehaved) -> Self {
        Self::new(ErrorKind::Protocol, error.to_string())
    }
}

impl From<Unheard> for Error {
    fn from(error: Unheard) -> Self {
        match error {
            Unheard::Misbehaved(error) => error.into(),
            Unheard::Selection(error) => error.into(),
        }
    }
}

impl From<SelectionError> for Error {
    fn from(error: SelectionError) -> Self {
        let kind = match &error {
            SelectionError::Senseless(senseless) => {
                return crate::error::from_store(&StoreError::from(senseless.clone()));
            }
            SelectionError::NoMemory { .. } => ErrorKind::Refused,
            SelectionError::LongPattern { .. }
            | SelectionError::LongPath { .. }
            | SelectionError::TooLong { .. } => ErrorKind::Usage,
        };
        Self::new(kind, error.to_string())
    }
}

/// That it failed.
pub(crate) fn fail(error: &Error) -> Message {
    let kind = if error.is_busy() && error.kind() == ErrorKind::Network {
        FailureKind::AtWork
    } else {
        told(error.kind())
    };
    Message::fail(kind, &error.to_string())
}

/// What a server hears of a client that gives up: its paths are nobody else's business, and stand in what it tells its user. That the two do not
/// understand each other is told in full, with the versions.
pub(crate) fn last_words(error: &Error) -> &str {
    match error.kind() {
        ErrorKind::Protocol => error.message(),
        ErrorKind::Usage => "what it was asked for makes no sense",
        ErrorKind::NotFound => "what it was to send is not there",
        ErrorKind::Refused => "its system does not let it",
        ErrorKind::Network => "it waits no longer",
        ErrorKind::Auth => "it does not trust this key",
        ErrorKind::Integrity => "what came is not what was sent",
        ErrorKind::NoSpace => "its disk is full",
        ErrorKind::Cancelled => "interrupted",
        ErrorKind::SourceChanged => "its source has changed",
        ErrorKind::Partial | ErrorKind::Io => "it could not read or write",
        ErrorKind::Limit => "a limit of its user's was reached",
    }
}

/// The same as a message.
pub(crate) fn client_fails(error: &Error) -> Message {
    Message::fail(told(error.kind()), last_words(error))
}

/// What it waits for, if it waits.
pub(crate) fn room(lack: Option<&StoreError>) -> Message {
    let lack = lack.map(|error| error.lack_of_space().unwrap_or_else(|| error.to_string()));
    Message::room(lack.as_deref())
}

/// A failure that the other side told.
pub(crate) fn failure(kind: u8, message: &str, peer: &str) -> Error {
    let kind = FailureKind::from_number(kind);
    let error = Error::new(kind.into(), format!("{peer}: {}", shown(message)));
    if kind == FailureKind::AtWork {
        return error.busy();
    }
    error
}

/// Reads a message. That the other side is of another version, or of another build that says something else, is said with what to do.
pub(crate) fn decode(bytes: &[u8]) -> Result<Message, Error> {
    let ours = format!("howdah {} (dialogue {VERSION})", versions::build());
    let text = match Message::decode(bytes) {
        Ok(Message::Fail { kind, message }) => {
            let failure = FailureKind::from_number(kind);
            let is_other = match bytes.first() {
                // It may be that the builds do not understand each other.
                Some(&VERSION) => {
                    failure == FailureKind::Protocol
                        && message.contains("(dialogue ")
                        && !message.contains(&ours)
                }
                Some(version) => !Message::is_near(*version),
                None => false,
            };
            return Ok(if is_other {
                Message::fail(failure, &format!("{message}; this is {ours}"))
            } else {
                Message::Fail { kind, message }
            });
        }
        Ok(message) => return Ok(message),
        Err(DecodeError::Empty) => "sent an empty message".to_owned(),
        Err(DecodeError::Nonsense) => format!(
            "sent a message that makes no sense to {ours}; if it is of another build, install the same one on both"
        ),
        Err(DecodeError::Unknown { version }) => format!(
            "sent a message (dialogue {version}) that {ours} does not know; {}",
            versions::REMEDY
        ),
        Err(DecodeError::TooFar { version }) => format!(
            "speaks another version of howdah (dialogue {version}) than {ours}; {}",
            versions::REMEDY
        ),
    };
    Err(Error::new(ErrorKind::Protocol, text))
}

/// What this process has taken since `start`, and that connection.
pub(crate) fn side_report(start: howdah_net::Usage, stats: &Stats) -> SideReport {
    let now = howdah_net::usage();
    SideReport {
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
        repeats: Repeats {
            tail_bytes: stats.tail_bytes_repeated,
            refused_bytes: stats
                .peer_sink_drops
                .saturating_mul(stats.datagram_size.into()),
        },
    }
}

impl From<SideReport> for SideUsage {
    fn from(side: SideReport) -> Self {
        Self {
            cpu_seconds: side.cpu_seconds,
            peak_rss_bytes: side.peak_rss_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o9_what_only_a_newer_one_knows_is_named_with_what_to_do() {
        let unknown = decode(&[VERSION + 1, 120, 1]).unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::Protocol);
        assert!(unknown.to_string().contains("does not know"), "{unknown}");
        assert!(
            unknown.to_string().contains("one minor version apart"),
            "{unknown}"
        );
    }

    #[test]
    fn o9_another_build_of_the_same_version_hears_which_this_is() {
        let unknown = decode(&[VERSION, 120, 1]).unwrap_err().to_string();
        assert!(unknown.contains(versions::build()), "{unknown}");
        assert!(unknown.contains("same one on both"), "{unknown}");
        // Whoever is told so by another build says what it is itself.
        let said =
            "sent a message that makes no sense to howdah 0.1.0 (commit 1234567) (dialogue 2)";
        let fail = fail(&Error::new(ErrorKind::Protocol, said));
        match decode(&fail.encode()).unwrap() {
            Message::Fail { message, .. } => {
                assert!(message.contains("; this is howdah"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn o9_versions_that_are_too_far_apart_are_named() {
        for version in [0, VERSION - 1, VERSION + 2, 255] {
            let bytes = [&[version], &Message::room(None).encode()[1..]].concat();
            let error = decode(&bytes).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Protocol);
            let text = error.to_string();
            assert!(text.contains(&format!("(dialogue {version})")), "{text}");
            assert!(
                text.contains(&format!("than howdah {}", versions::build())),
                "{text}"
            );
            // A failure is readable in all of them: it says what the other side is.
            let fail = fail(&Error::new(ErrorKind::Protocol, "I am howdah 9.1.0"));
            let bytes = [&[version], &fail.encode()[1..]].concat();
            match decode(&bytes).unwrap() {
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
            assert!(decode(nothing).is_err(), "{nothing:?}");
        }
    }

    #[test]
    fn control_characters_of_the_peer_do_not_reach_a_terminal() {
        let error = failure(4, "full\u{1b}[2J\n", "there");
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::NoSpace, "there: full[2J")
        );
    }

    #[test]
    fn kinds_of_failure_come_across() {
        for number in 0..=8 {
            let kind = FailureKind::from_number(number);
            assert_eq!(told(kind.into()), kind);
        }
    }
}
