//! What a copy reports while it runs and when it is done.

use crate::{Error, ErrorKind};
use howdah_core::{Rate, Span};
use howdah_session::TreeReport;
use serde::{Deserialize, Serialize};

/// A look at a running copy.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Bytes that are known to be at the receiver.
    pub bytes: u64,
    /// Of them, those that an interrupted copy had brought there before.
    pub resumed_bytes: u64,
    /// How many there will be, if that is known yet.
    pub total_bytes: Option<u64>,
    /// Files that are complete and in place.
    pub files_done: u64,
    /// How many there will be, if that is known yet.
    pub files_total: Option<u64>,
    /// Names of files that are under way, a few at most, as they are: to be escaped where they are shown.
    pub current: Vec<String>,
    /// Time since the copy began.
    pub elapsed: Span,
    /// Time that a person took to judge the server's key, which does not count as the copy's.
    pub judged: Span,
    /// Goodput over the last second.
    pub goodput_now: Rate,
    /// IP packets' bytes with data, repairs and headers, over the last second.
    pub wire_rate_now: Rate,
    /// Smoothed round-trip time.
    pub rtt: Span,
    /// Fraction of the data's packets lost over the last second or so.
    pub loss: f64,
    /// Rate at which this side's packets may leave.
    pub pacing_rate: Rate,
    /// Time that this side's packets wait in queues on the way.
    pub queue_delay: Span,
    /// The cap on the rate that is in force.
    pub limit: Option<Rate>,
    /// Sending rests.
    pub paused: bool,
    /// The data goes through a tunnel over TCP or ssh.
    pub tunnelled: bool,
    /// The other end is who it should be, and has been asked for the copy.
    pub answered: bool,
}

/// What one process used for a copy.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct SideUsage {
    /// User and system CPU time, in seconds.
    pub cpu_seconds: f64,
    /// Peak resident set, in bytes.
    pub peak_rss_bytes: u64,
}

/// What a finished copy did. Printed by `--json`; the field names are stable.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)] // An older version does not tell all of it.
pub struct Summary {
    /// Payload bytes that the destination has now.
    pub bytes: u64,
    /// Of them, those that an interrupted copy had brought there before.
    pub resumed_bytes: u64,
    /// From the call to the confirmed end, in seconds.
    pub seconds: f64,
    /// `(bytes - resumed_bytes) * 8 / seconds`.
    pub goodput_bps: f64,
    /// IP packets' bytes that the data's sender put on the wire.
    pub wire_bytes: u64,
    /// Payload bytes sent more than once.
    pub retransmitted_bytes: u64,
    /// Of them, the last ones, which go twice so that a loss among them costs no round trip.
    #[serde(default)]
    pub repeated_tail_bytes: u64,
    /// Of them, those that the receiver's disk had no room for when they came first.
    #[serde(default)]
    pub repeated_refused_bytes: u64,
    /// IP packets' bytes that the data's receiver put on the wire.
    pub feedback_bytes: u64,
    /// Smallest round-trip time seen, in microseconds.
    pub rtt_min_us: u64,
    /// Share of the sender's packets that did not arrive.
    pub loss_rate: f64,
    /// Largest IP packet that the path carries, in bytes.
    pub mtu: u16,
    /// What the sending process used.
    pub sender: SideUsage,
    /// What the receiving process used.
    pub receiver: SideUsage,
    /// How the content was checked: "blake3" (end to end, written and fsynced where it is a file),
    /// "reread" (the same, and read back from the device) or "aead" (every packet authenticated, no
    /// storage involved).
    pub verified: String,
    /// What kept it from being faster: "network", "source", "sink", "cpu" or "rate cap".
    pub bottleneck: String,
    /// How often a connection was lost and made again. Of a tree everything else is the last connection's; of a file
    /// what counts packets and bytes on the wire, resources and single seconds is.
    pub reconnects: u32,
    /// Goodput of each second of the run, in bit/s.
    pub goodput_per_second_bps: Vec<f64>,
    /// BLAKE3 of the content of a file, where it was hashed; of a tree one hash of all files that were moved (docs/serve.md, "The audit log"),
    /// if that was [wanted](crate::CopyConfig::sums).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blake3: Option<String>,
    /// What became of the files of a tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeReport>,
}

impl Summary {
    /// What a tree's copy did not copy, as the failure that it is; `None` if all was copied.
    pub fn shortfall(&self) -> Option<Error> {
        let tree = self.tree.as_ref()?;
        if tree.refused_deletes > 0 {
            let text = format!(
                "{} names would be deleted or give way, more than --max-delete allows; they stay, and \
                 so nothing takes their place",
                tree.refused_deletes
            );
            return Some(Error::new(ErrorKind::Limit, text));
        }
        let first = tree.notes.first().map_or("", String::as_str);
        if tree.is_refused() {
            let text = format!("nothing could be written at the destination ({first})");
            return Some(Error::new(ErrorKind::Refused, text));
        }
        let kind = match (tree.failed, tree.changed) {
            (0, 0) => return None,
            (0, _) => ErrorKind::SourceChanged,
            _ => ErrorKind::Partial,
        };
        let text = format!(
            "{} could not be copied, {} changed or vanished meanwhile; the rest is in place ({first})",
            tree.failed, tree.changed
        );
        Some(Error::new(kind, text))
    }
}
