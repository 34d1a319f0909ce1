//! A recording as bytes.
//!
//! Eight bytes that say what it is, a version, then facts and intervals as postcard writes them (variable-length integers).

use crate::{Facts, Interval, MOST_INTERVALS, Recording};
use serde::{Deserialize, Serialize};

/// No recording is larger.
pub const MOST_BYTES: usize = 1 << 20;
const MAGIC: &[u8; 8] = b"HWDFLGHT";
/// What this program writes, and reads.
const VERSION: u8 = 1;
/// Of the recorder's name, in bytes.
const MOST_NAME: usize = 100;

// 12 numbers and 8 shares of at most ten bytes, and room for the facts.
const _: () = assert!(MOST_INTERVALS * 20 * 10 + 1_024 <= MOST_BYTES);

/// Bytes that are no recording.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// Something else.
    #[error("it is no recording of howdah ('howdah cp --record' writes one)")]
    Foreign,
    /// Of another version of the format.
    #[error(
        "it is a recording of format {0}, and this howdah reads {VERSION}: use the howdah that made it, or a newer one"
    )]
    Version(u8),
    /// Longer than any.
    #[error("a recording has at most {MOST_BYTES} bytes")]
    TooLong,
    /// Cut off, or changed.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
}

#[derive(Serialize)]
struct Written<'a> {
    facts: &'a Facts,
    intervals: &'a [Interval],
}

#[derive(Deserialize)]
struct Read {
    facts: Facts,
    intervals: Vec<Interval>,
}

impl Recording {
    /// As bytes, at most [`MOST_BYTES`]; intervals beyond [`MOST_INTERVALS`] are not written.
    pub fn encode(&self) -> Vec<u8> {
        let most = self.intervals.len().min(MOST_INTERVALS);
        let written = Written {
            facts: &self.facts,
            intervals: &self.intervals[..most],
        };
        let head = [&MAGIC[..], &[VERSION]].concat();
        // Writing into memory does not fail.
        postcard::to_extend(&written, head).unwrap_or_default()
    }

    /// Whether a file that begins so is one, of whatever version.
    pub fn is_begun_by(head: &[u8]) -> bool {
        head.starts_with(MAGIC)
    }

    /// What [`encode`](Self::encode) wrote. Whatever the bytes are, memory is bounded and sums do not overflow.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > MOST_BYTES {
            return Err(DecodeError::TooLong);
        }
        let rest = bytes.strip_prefix(&MAGIC[..]).ok_or(DecodeError::Foreign)?;
        let (&version, rest) = rest
            .split_first()
            .ok_or(DecodeError::Damaged("it is cut off"))?;
        if version != VERSION {
            return Err(DecodeError::Version(version));
        }
        let (read, rest) = postcard::take_from_bytes::<Read>(rest)
            .map_err(|_| DecodeError::Damaged("it is cut off, or was changed"))?;
        if !rest.is_empty() {
            return Err(DecodeError::Damaged("something follows its end"));
        }
        let Read { facts, intervals } = read;
        check(&facts, &intervals).map_err(DecodeError::Damaged)?;
        Ok(Self { facts, intervals })
    }
}

fn check(facts: &Facts, intervals: &[Interval]) -> Result<(), &'static str> {
    if intervals.len() > MOST_INTERVALS {
        return Err("it has too many intervals");
    }
    let name = &facts.recorder;
    if name.len() > MOST_NAME || name.chars().any(char::is_control) {
        return Err("the recorder's name is none");
    }
    for interval in intervals {
        let held = interval
            .held_us
            .iter()
            .try_fold(0u64, |sum, us| sum.checked_add(*us));
        if interval.span_us == 0 || held != Some(interval.span_us) {
            return Err("times do not add up");
        }
        if interval.queue_min_us > interval.queue_max_us {
            return Err("a queue is shorter than its shortest");
        }
    }
    let counts: [fn(&Interval) -> u64; 6] = [
        |i| i.span_us,
        |i| i.delivered_bytes,
        |i| i.sent_packets,
        |i| i.lost_packets,
        |i| i.host_drops,
        |i| i.repeated_bytes,
    ];
    for count in counts {
        let sum = intervals
            .iter()
            .try_fold(0u64, |sum, interval| sum.checked_add(count(interval)));
        sum.ok_or("counts are larger than any copy")?;
    }
    Ok(())
}
