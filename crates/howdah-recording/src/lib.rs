//! The flight recorder: what the path of one copy did, in time.
//!
//! Whoever drives a copy looks at its connection some fifty times a second and [pushes](Recorder::push) what that knows anyhow: bytes
//! and packets so far, rates, round trips, the queue, and what holds the copy [back](Held). The recorder keeps [`Interval`]s. When there
//! are too many it merges neighbours by twos, so that a copy of any length fits into [`MOST_BYTES`], and counts stay exact.
//!
//! A [`Recording`] holds no name of a file, no content, no host and no address: it can be given to others.
//! [`Recording::verdict`] says what held the copy up; the laboratory makes a network of it (`howdah lab replay`).

#![forbid(unsafe_code)]

mod codec;
mod interval;
mod recorder;
mod verdict;

pub use codec::{DecodeError, MOST_BYTES};
pub use interval::{Held, Interval};
pub use recorder::{MOST_INTERVALS, Recorder, Sample, Totals};
pub use verdict::{Slow, Verdict};

use serde::{Deserialize, Serialize};

/// Which end of the data's way was looked at.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Seen {
    /// The sender: it knows all of it.
    #[default]
    BySender,
    /// The receiver: what came, what was missing, and the round trip; no capacity, no queue.
    ByReceiver,
}

/// How the sender shared the path.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Sharing {
    /// Fairly.
    #[default]
    Fair,
    /// At a rate that it was told.
    Fixed,
    /// Taking what was left.
    Background,
}

/// What holds for the whole copy.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Facts {
    /// Program and version that recorded it, such as "howdah 0.1.0".
    pub recorder: String,
    /// Which end recorded.
    pub seen: Seen,
    /// How the path was shared.
    pub sharing: Sharing,
    /// Payload bytes of files that this copy moved.
    pub moved_bytes: u64,
    /// UDP payload of a full packet at the end, in bytes; 0 is unknown.
    pub datagram_bytes: u16,
    /// Headers in front of it, in bytes: 28 with IPv4, 48 with IPv6.
    pub header_bytes: u16,
    /// Processors of the machine that recorded.
    pub cores: u32,
    /// The data went through a tunnel over TCP or ssh.
    pub tunnelled: bool,
    /// Times that the connection was lost and made again.
    pub reconnects: u32,
    /// The copy ended well.
    pub completed: bool,
}

/// One copy.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Recording {
    /// What holds for all of it.
    pub facts: Facts,
    /// Its time, without a gap, from the first look on.
    pub intervals: Vec<Interval>,
}

impl Recording {
    /// How long it took, in microseconds.
    pub fn span_us(&self) -> u64 {
        let spans = self.intervals.iter().map(|interval| interval.span_us);
        spans.fold(0, u64::saturating_add)
    }
}
