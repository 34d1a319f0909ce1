//! Many wire segments that arrive as one super-packet.

use crate::{OneWay, Verdict};
use howdah_core::{Span, Time};

/// Segments of a super-packet that stay together: neighbours with the same fate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SegmentRun {
    /// Index of the first segment.
    pub first: u32,
    /// Number of segments, at least 1.
    pub count: u32,
    /// When the last one arrives: the whole run may be handed over then, not before.
    pub at: Time,
    /// The segment (then alone in its run) is damaged.
    pub corrupt: bool,
    /// The segment (then alone in its run) is delivered once more.
    pub duplicate_at: Option<Time>,
}

/// What becomes of the segments of one super-packet. Made once and used for every call, so that
/// no call allocates.
#[derive(Clone, Debug)]
pub struct SegmentVerdicts {
    runs: Vec<SegmentRun>,
    max_span: Span,
}

impl SegmentVerdicts {
    /// `max_span` bounds how far apart the arrivals in one run may be: a run is handed over at its
    /// last arrival, so this is the most by which its first segment is late.
    pub fn new(max_span: Span) -> Self {
        Self {
            runs: Vec::with_capacity(64),
            max_span,
        }
    }

    /// The runs that survive, in the order of their segments.
    pub fn runs(&self) -> &[SegmentRun] {
        &self.runs
    }
}

impl Default for SegmentVerdicts {
    /// Runs of any length in time.
    fn default() -> Self {
        Self::new(Span::MAX)
    }
}

impl OneWay {
    /// Offers `count` segments at once: all of `segment_ip_bytes` but the last, which has
    /// `last_segment_ip_bytes`. Each segment meets MTU, queue, rate and loss by itself, exactly as
    /// if [`offer`](Self::offer) had been called for each; only the results are bundled.
    ///
    /// # Panics
    /// If the path [stores packets](crate::PathConfig::stores_packets): a super-packet whose
    /// segments have no verdict yet cannot be cut.
    pub fn offer_segments(
        &mut self,
        now: Time,
        segment_ip_bytes: u32,
        count: u32,
        last_segment_ip_bytes: u32,
        out: &mut SegmentVerdicts,
    ) {
        out.runs.clear();
        // First arrival of the run that is being built; `None` if the next segment starts one.
        let mut open: Option<Time> = None;
        for index in 0..count {
            let bytes = if index + 1 == count {
                last_segment_ip_bytes
            } else {
                segment_ip_bytes
            };
            let (verdict, ordered) = self.offer_inner(now, bytes, howdah_core::Ecn::NotEct, 0);
            let delivery = match verdict {
                Verdict::Deliver(delivery) => delivery,
                Verdict::Drop(_) => {
                    open = None;
                    continue;
                }
                Verdict::Queued => panic!("segments cannot wait in a stored queue"),
            };
            let plain = ordered && !delivery.corrupt && delivery.duplicate_at.is_none();
            if plain
                && let Some(first_at) = open
                && delivery.at.since(first_at) <= out.max_span
                && let Some(run) = out.runs.last_mut()
            {
                run.count += 1;
                run.at = delivery.at;
                continue;
            }
            out.runs.push(SegmentRun {
                first: index,
                count: 1,
                at: delivery.at,
                corrupt: delivery.corrupt,
                duplicate_at: delivery.duplicate_at,
            });
            open = plain.then_some(delivery.at);
        }
    }
}
