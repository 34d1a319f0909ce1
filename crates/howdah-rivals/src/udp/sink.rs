//! What the receiver of a stream counts.

use super::decode;
use howdah_core::{Arrival, Span, Time};

/// Sequence numbers below the highest for which a second arrival is told from a late one.
const WINDOW: u64 = 1 << 16;
/// No stream lasts that long; a higher number is not of ours.
const MAX_SEQUENCE: u64 = 1 << 62;
const WORDS: usize = (WINDOW / 64) as usize;

/// What a sink has received. Counters only grow, so the difference of two copies, taken by
/// [`since`](Self::since), is the interval between them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Received {
    /// Packets, each counted once.
    pub packets: u64,
    /// Their UDP payload in bytes.
    pub bytes: u64,
    /// Packets that must have been sent: the highest sequence number plus one.
    pub expected: u64,
    /// Packets that had arrived before.
    pub duplicates: u64,
    /// Packets that arrived after one with a higher number (RFC 4737, section 3).
    pub reordered: u64,
    /// Packets that came damaged, which a UDP checksum finds. They are not counted anywhere else.
    pub corrupt: u64,
    /// Datagrams that cannot be of a stream.
    pub malformed: u64,
    /// Interarrival jitter by RFC 3550, section 6.4.1, as it stands now, in nanoseconds: with each
    /// packet a sixteenth of the way towards the difference of its transit time to that of the
    /// packet before it.
    pub smoothed_jitter_ns: f64,
    /// Sum of those differences, in nanoseconds.
    pub jitter_sum_ns: f64,
    /// Sum of the smoothed jitter after each packet, in nanoseconds.
    pub smoothed_sum_ns: f64,
    /// How many differences there were: one fewer than packets.
    pub jitter_samples: u64,
    /// Sum of the transit times, in nanoseconds. Transit times mean something where both ends have
    /// the same clock, as in the simulator.
    pub transit_sum_ns: f64,
    /// Shortest transit time so far in nanoseconds; negative clocks apart.
    pub transit_min_ns: Option<i64>,
    /// Longest transit time so far in nanoseconds.
    pub transit_max_ns: Option<i64>,
}

impl Received {
    /// Packets that have not arrived, so far as later ones give them away.
    pub const fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.packets)
    }

    /// Their share of those that were sent; zero before the first.
    pub fn loss_ratio(&self) -> f64 {
        if self.expected == 0 {
            0.0
        } else {
            self.lost() as f64 / self.expected as f64
        }
    }

    /// The smoothed jitter now.
    pub fn smoothed_jitter(&self) -> Span {
        Span::from_nanos(self.smoothed_jitter_ns as u64)
    }

    /// Mean difference of the transit times of neighbours; zero before the second packet.
    pub fn mean_jitter(&self) -> Span {
        mean(self.jitter_sum_ns, self.jitter_samples)
    }

    /// Mean of the smoothed jitter over the packets: what a series of Iperf's reports averages to.
    pub fn mean_smoothed_jitter(&self) -> Span {
        mean(self.smoothed_sum_ns, self.jitter_samples)
    }

    /// Mean transit time; zero before the first packet.
    pub fn mean_transit(&self) -> Span {
        mean(self.transit_sum_ns, self.packets)
    }

    /// What came since `earlier`, a copy of the same sink's. The smoothed jitter and the extremes
    /// of the transit time are those of now: they have no difference. A packet that is late counts
    /// in the interval in which it arrives, whose losses are then fewer.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            packets: self.packets - earlier.packets,
            bytes: self.bytes - earlier.bytes,
            expected: self.expected - earlier.expected,
            duplicates: self.duplicates - earlier.duplicates,
            reordered: self.reordered - earlier.reordered,
            corrupt: self.corrupt - earlier.corrupt,
            malformed: self.malformed - earlier.malformed,
            jitter_sum_ns: self.jitter_sum_ns - earlier.jitter_sum_ns,
            smoothed_sum_ns: self.smoothed_sum_ns - earlier.smoothed_sum_ns,
            jitter_samples: self.jitter_samples - earlier.jitter_samples,
            transit_sum_ns: self.transit_sum_ns - earlier.transit_sum_ns,
            ..*self
        }
    }
}

fn mean(sum_ns: f64, count: u64) -> Span {
    if count == 0 {
        Span::ZERO
    } else {
        // `as` makes zero of a negative value: clocks that differ.
        Span::from_nanos((sum_ns / count as f64) as u64)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Sink {
    received: Received,
    /// A bit for each of the last [`WINDOW`] sequence numbers, at its number modulo that.
    seen: Box<[u64; WORDS]>,
    last_transit_ns: Option<i64>,
}

impl Default for Sink {
    fn default() -> Self {
        Self {
            received: Received::default(),
            seen: Box::new([0; WORDS]),
            last_transit_ns: None,
        }
    }
}

impl Sink {
    pub(super) const fn received(&self) -> &Received {
        &self.received
    }

    pub(super) fn on_arrival(&mut self, now: Time, arrival: Arrival<'_>) {
        if arrival.corrupt {
            self.received.corrupt += 1;
            return;
        }
        let header = decode(arrival.bytes).filter(|(sequence, _)| *sequence <= MAX_SEQUENCE);
        let Some((sequence, sent_at)) = header else {
            self.received.malformed += 1;
            return;
        };
        if !self.note(sequence) {
            self.received.duplicates += 1;
            return;
        }
        self.received.packets += 1;
        self.received.bytes += arrival.bytes.len() as u64 + u64::from(arrival.absent);
        self.note_transit(now.nanos_after(sent_at));
    }

    /// Whether this number is new. One that is too old to say counts as new and late.
    fn note(&mut self, sequence: u64) -> bool {
        let expected = self.received.expected;
        if sequence >= expected {
            // Slots between the old highest number and the new one are taken over by new numbers.
            let fresh = (sequence - expected).min(WINDOW - 1);
            for number in sequence - fresh..=sequence {
                self.mark(number, false);
            }
            self.mark(sequence, true);
            self.received.expected = sequence + 1;
            return true;
        }
        if expected - sequence <= WINDOW {
            if self.is_marked(sequence) {
                return false;
            }
            self.mark(sequence, true);
        }
        self.received.reordered += 1;
        true
    }

    fn mark(&mut self, number: u64, seen: bool) {
        let bit = number % WINDOW;
        let word = &mut self.seen[(bit / 64) as usize];
        if seen {
            *word |= 1 << (bit % 64);
        } else {
            *word &= !(1 << (bit % 64));
        }
    }

    fn is_marked(&self, number: u64) -> bool {
        let bit = number % WINDOW;
        self.seen[(bit / 64) as usize] & (1 << (bit % 64)) != 0
    }

    fn note_transit(&mut self, transit_ns: i64) {
        let received = &mut self.received;
        received.transit_sum_ns += transit_ns as f64;
        received.transit_min_ns = Some(
            received
                .transit_min_ns
                .map_or(transit_ns, |t| t.min(transit_ns)),
        );
        received.transit_max_ns = Some(
            received
                .transit_max_ns
                .map_or(transit_ns, |t| t.max(transit_ns)),
        );
        if let Some(last) = self.last_transit_ns {
            let difference = transit_ns.abs_diff(last) as f64;
            received.jitter_sum_ns += difference;
            received.smoothed_jitter_ns += (difference - received.smoothed_jitter_ns) / 16.0;
            received.smoothed_sum_ns += received.smoothed_jitter_ns;
            received.jitter_samples += 1;
        }
        self.last_transit_ns = Some(transit_ns);
    }
}
