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
    /// Content that was sent, with names and lists of trees, each byte once.
    pub content_sent_bytes: u64,
    /// The same of what came.
    pub content_received_bytes: u64,
    /// Time in which what was to be sent was not read yet.
    pub read_wait: Span,
    /// Time in which what came could not be written fast enough.
    pub write_wait: Span,
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
    /// Between two looks with so much time between them. `reads`: what is to be sent was not read yet at the second one.
    pub(super) fn between(before: &Stats, now: &Stats, time: Span, reads: bool) -> Self {
        let had_no_room = now.data_packets_without_room > before.data_packets_without_room;
        let waited = |is: bool| if is { time } else { Span::ZERO };
        let (new, old) = (content(now), content(before));
        Self {
            sent_bytes: now.bytes_sent.saturating_sub(before.bytes_sent),
            received_bytes: now.bytes_received.saturating_sub(before.bytes_received),
            content_sent_bytes: new[0].saturating_sub(old[0]),
            content_received_bytes: new[1].saturating_sub(old[1]),
            read_wait: waited(reads),
            write_wait: waited(had_no_room),
            repeated_bytes: now
                .data_bytes_repeated
                .saturating_sub(before.data_bytes_repeated),
            rtt: now.rtt,
            queue: now.queue_delay,
            loss: now.recent_loss,
        }
    }
}

/// Sent and received so far, each byte once.
pub(super) fn content(stats: &Stats) -> [u64; 2] {
    let sent = stats
        .data_bytes_sent
        .saturating_sub(stats.data_bytes_repeated);
    [sent, stats.data_bytes_received]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_counted_once_and_waits_as_long_as_they_may_have_been() {
        let before = Stats {
            data_bytes_sent: 100,
            ..Stats::default()
        };
        let now = Stats {
            data_bytes_sent: 180,
            data_bytes_repeated: 30,
            data_bytes_received: 7,
            ..before
        };
        let half = Span::from_millis(500);
        let moved = SessionMoved::between(&before, &now, half, true);
        assert_eq!(
            (moved.content_sent_bytes, moved.content_received_bytes),
            (50, 7)
        );
        assert_eq!((moved.read_wait, moved.write_wait), (half, Span::ZERO));
        let full = Stats {
            data_packets_without_room: 1,
            ..now
        };
        let moved = SessionMoved::between(&now, &full, half, false);
        assert_eq!((moved.read_wait, moved.write_wait), (Span::ZERO, half));
        assert_eq!(moved.content_sent_bytes, 0);
    }
}
