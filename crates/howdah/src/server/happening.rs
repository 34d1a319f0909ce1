//! What a server does, for whoever counts it.

use howdah_core::Span;
use howdah_proto::Stats;

/// Something that a server has done or seen.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ServerEvent {
    /// A client has come in.
    Session,
    /// Somebody did not come in.
    Refused(ServerRefusal),
    /// What a client asked for is done: a file, a tree, a list.
    Done,
    /// It is not.
    Failed,
    /// The destination has no room for what comes; it is waited for.
    NoRoom,
    /// What a session has moved since it was looked at before, about twice a second and at its end.
    Moved(SessionMoved),
}

/// Why somebody did not come in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ServerRefusal {
    /// No such key is listed.
    Key,
    /// The key is listed, and may not come in from there or just now.
    Rights,
    /// The key has as many sessions as it may.
    Sessions,
    /// There are too many clients or handshakes.
    Busy,
    /// The server is about to end.
    Draining,
}

/// What moved in a while.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SessionMoved {
    /// Bytes of packets that were sent.
    pub sent_bytes: u64,
    /// Bytes of packets that came.
    pub received_bytes: u64,
    /// Content that was sent again.
    pub repeated_bytes: u64,
    /// The round trip, smoothed; zero: not known.
    pub rtt: Span,
    /// What packets wait in queues of the network.
    pub queue: Span,
    /// The share of packets that were lost lately, 0 to 1.
    pub loss: f64,
}

impl SessionMoved {
    /// Between two looks.
    pub(super) fn between(before: &Stats, now: &Stats) -> Self {
        Self {
            sent_bytes: now.bytes_sent.saturating_sub(before.bytes_sent),
            received_bytes: now.bytes_received.saturating_sub(before.bytes_received),
            repeated_bytes: now
                .data_bytes_repeated
                .saturating_sub(before.data_bytes_repeated),
            rtt: now.rtt,
            queue: now.queue_delay,
            loss: now.recent_loss,
        }
    }
}
