//! From a recording to the network that it saw.

use howdah_recording::{Held, Interval, Recording, Seen};

/// Steps of the traces are that long, and at least two round trips: within one nobody knows what a change did.
const STEP_US: u64 = 100_000;
/// A queue that is never shorter than that is never empty: what arrives is what the path gave.
const QUEUED_US: u64 = 500;
/// The programs at both ends are part of the network if they held the copy back for this share of its time.
const PROGRAMS_SHARE: f64 = 0.03;
/// Of the longest queue: what is lost beside one that is so long overflowed, ...
const OVERFLOWING: f64 = 0.8;
/// ... if it is so many times what is lost beside shorter ones.
const MORE_LOST: f64 = 3.0;
/// The round trip is longer, and not the queue, from this share of it on.
const LONGER: f64 = 0.1;
/// Bytes that end a copy and are no part of it: words of both sides.
const LAST_WORDS: u64 = 20_000;
/// Ethernet, as scenarios count it.
const OVERHEAD: u64 = 38;
/// A path on which nothing moves, in bit/s.
const DEAD_BPS: u64 = 8_000;
/// What a copy may take in a replay: so many times what it took, and so many seconds.
const PATIENCE: (f64, f64) = (5.0, 10.0);

/// Why no network can be made of a recording.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotReplayable {
    /// Too little moved.
    #[error(
        "too little moved to say anything of the path: a copy of a second and a megabyte is the least"
    )]
    Short,
    /// No round trip was measured.
    #[error("no round trip was measured")]
    NoRoundTrip,
    /// Nobody measured that.
    #[error("its numbers are of no network that can be simulated")]
    OutOfRange,
}

/// A value from a time on, in microseconds since the copy began.
pub(super) type Steps<T> = Vec<(u64, T)>;

/// The network of a recording. Rates are on the wire, Ethernet included.
#[derive(Clone, Debug, PartialEq)]
pub struct PathModel {
    /// Seconds from the first packet until all bytes were known to be there.
    pub recorded_s: f64,
    /// Payload that moved.
    pub moved_bytes: u64,
    /// Least round trip.
    pub rtt_us: u64,
    /// Largest IP packet in bytes.
    pub mtu_bytes: u64,
    /// How long the queue can get.
    pub buffer_us: u64,
    /// It was seen to overflow there; otherwise it is assumed.
    pub overflowed: bool,
    /// What the path carries, in bit/s.
    pub(super) rate: Steps<u64>,
    /// What the programs at both ends give and take, in bit/s; empty if they held nothing up.
    pub(super) programs: Steps<u64>,
    /// Random loss; empty if there is none.
    pub(super) loss: Steps<f64>,
    /// What the round trip is longer by; empty if it never is.
    pub(super) longer_us: Steps<u64>,
}

impl PathModel {
    /// What `recording` says of its path.
    pub fn new(recording: &Recording) -> Result<Self, NotReplayable> {
        let copy = Copy::of(recording)?;
        let blocks = copy.blocks();
        let queue_us = blocks
            .iter()
            .map(|(_, b)| b.queue_max_us)
            .max()
            .unwrap_or(0);
        let (random, overflowed) = losses(&blocks, queue_us);
        let rate = rates(&blocks, &random, recording.facts.seen, &copy);
        let fastest = rate.iter().map(|step| step.1).max().unwrap_or(DEAD_BPS);
        let buffer_us = if overflowed {
            queue_us
        } else {
            queue_us.saturating_mul(2).max(copy.rtt_us)
        };
        Ok(Self {
            recorded_s: (copy.until_us - copy.from_us) as f64 / 1e6,
            moved_bytes: recording.facts.moved_bytes,
            rtt_us: copy.rtt_us,
            mtu_bytes: copy.ip_bytes,
            // Some packets always fit.
            buffer_us: buffer_us.max(20 * copy.ip_bytes * 8_000_000 / fastest.max(1)),
            overflowed,
            programs: programs(&blocks, &random, fastest, &copy),
            loss: if random.iter().all(|step| step.1 == 0.0) {
                Vec::new()
            } else {
                deduplicated(random)
            },
            longer_us: longer(&blocks, copy.rtt_us),
            rate: deduplicated(rate),
        })
    }

    /// What the copy got, in bit/s.
    pub fn recorded_bps(&self) -> f64 {
        self.moved_bytes as f64 * 8.0 / self.recorded_s.max(1e-6)
    }

    /// A replay that takes longer is ended.
    pub fn patience_s(&self) -> f64 {
        self.recorded_s * PATIENCE.0 + PATIENCE.1
    }

    /// The longest queue at the mean rate, in bytes on the wire.
    pub fn buffer_bytes(&self) -> u64 {
        (self.mean_rate_bps() / 8e6 * self.buffer_us as f64) as u64
    }

    /// Whether the programs at both ends are part of it.
    pub fn has_programs(&self) -> bool {
        !self.programs.is_empty()
    }

    /// Mean of the random loss over time.
    pub fn mean_loss(&self) -> f64 {
        mean(&self.loss, self.recorded_s)
    }

    /// Mean of what the path carries, in bit/s on the wire.
    pub fn mean_rate_bps(&self) -> f64 {
        let rate: Steps<f64> = self
            .rate
            .iter()
            .map(|(at, bps)| (*at, *bps as f64))
            .collect();
        mean(&rate, self.recorded_s)
    }
}

fn mean(steps: &[(u64, f64)], seconds: f64) -> f64 {
    let end_us = (seconds * 1e6) as u64;
    let until = steps.iter().skip(1).map(|step| step.0).chain([end_us]);
    let sums = steps
        .iter()
        .zip(until)
        .map(|((from, value), until)| until.min(end_us).saturating_sub(*from) as f64 * value);
    // The sum of nothing is a negative zero.
    (sums.sum::<f64>() + 0.0) / end_us.max(1) as f64
}

/// Leaves out steps that change nothing.
fn deduplicated<T: PartialEq>(mut steps: Steps<T>) -> Steps<T> {
    steps.dedup_by(|next, before| next.1 == before.1);
    steps
}

/// The part of a recording in which bytes moved.
struct Copy<'a> {
    intervals: &'a [Interval],
    rtt_us: u64,
    /// Largest IP packet.
    ip_bytes: u64,
    /// Bits on the wire for a bit of UDP payload.
    wire: f64,
    /// Since the recording began: a round trip before the first packet with data, for the handshake, ...
    from_us: u64,
    /// ... and when the last byte was known to be there.
    until_us: u64,
}

impl<'a> Copy<'a> {
    fn of(recording: &'a Recording) -> Result<Self, NotReplayable> {
        let (facts, intervals) = (&recording.facts, &recording.intervals);
        let known = intervals.iter().map(|i| i.base_rtt_us).filter(|us| *us > 0);
        let rtt_us = known.min().ok_or(NotReplayable::NoRoundTrip)?;
        let first = intervals.iter().position(|i| i.mostly() != Held::Talk);
        let first = first.ok_or(NotReplayable::Short)?;
        let all: u64 = intervals.iter().map(|i| i.delivered_bytes).sum();
        let (mut came, mut at_us) = (0, 0);
        let (mut from_us, mut until_us) = (0, 0);
        for (index, interval) in intervals.iter().enumerate() {
            if index == first {
                from_us = at_us;
            }
            at_us += interval.span_us;
            came += interval.delivered_bytes;
            if until_us == 0 && came.saturating_add(LAST_WORDS) >= all {
                until_us = at_us;
            }
        }
        let from_us = from_us.saturating_sub(rtt_us);
        let spans = until_us.saturating_sub(from_us);
        if spans < 1_000_000 || facts.moved_bytes < 1_000_000 {
            return Err(NotReplayable::Short);
        }
        let payload = u64::from(facts.datagram_bytes).max(512);
        let ip_bytes = payload + u64::from(facts.header_bytes.max(28));
        Ok(Self {
            intervals,
            rtt_us,
            ip_bytes,
            wire: (ip_bytes + OVERHEAD) as f64 / payload as f64,
            from_us,
            until_us,
        })
    }

    /// Its time in equal pieces, each with when it begins, in microseconds since `from_us`.
    fn blocks(&self) -> Steps<Interval> {
        let longest = self.intervals.iter().map(|i| i.span_us).max().unwrap_or(0);
        let step_us = STEP_US.max(self.rtt_us.saturating_mul(2)).max(longest);
        let mut blocks: Steps<Interval> = Vec::new();
        let mut at_us = 0;
        for interval in self.intervals {
            let begins = at_us;
            at_us += interval.span_us;
            if at_us <= self.from_us || begins >= self.until_us {
                continue;
            }
            let since = begins.saturating_sub(self.from_us);
            match blocks.last_mut() {
                Some((from, block)) if since < from.saturating_add(step_us) => {
                    *block = block.merged(interval);
                }
                _ => blocks.push((since, *interval)),
            }
        }
        if let Some(first) = blocks.first_mut() {
            first.0 = 0;
        }
        // In the last one the copy ended. A replay that takes longer has what there was before.
        if blocks.len() > 2 {
            blocks.pop();
        }
        blocks
    }

    /// What arrived, and the share of it that was lost at random behind the bottleneck, in bit/s on the wire.
    fn came_bps(&self, block: &Interval, loss: f64) -> f64 {
        block.delivered_bps() * self.wire / (1.0 - loss)
    }
}

/// What held the copy back that is neither the path nor what the ends say to each other.
const PROGRAMS: [Held; 4] = [Held::Source, Held::Sink, Held::Host, Held::Cap];

fn held_by_programs(block: &Interval) -> f64 {
    PROGRAMS.iter().map(|held| block.share(*held)).sum()
}

/// Random loss in time, and whether the rest was a queue that overflowed.
fn losses(blocks: &[(u64, Interval)], queue_us: u64) -> (Steps<f64>, bool) {
    let is_long = |block: &Interval| block.queue_max_us as f64 >= OVERFLOWING * queue_us as f64;
    let lost = |long: bool| {
        let (mut lost, mut sent) = (0u64, 0u64);
        for (_, block) in blocks.iter().filter(|(_, block)| is_long(block) == long) {
            lost += block.lost_on_path();
            sent += block.sent_packets;
        }
        (lost as f64 / sent.max(1) as f64, sent)
    };
    let ((beside_long, _), (beside_short, short_sent)) = (lost(true), lost(false));
    let overflowed = short_sent > 0 && beside_long > MORE_LOST * beside_short + 1e-6;
    let random = blocks.iter().map(|(at, block)| {
        let loss = block.lost_on_path() as f64 / block.sent_packets.max(1) as f64;
        // A stall that a connection took for losses is no lossy path.
        let loss = if overflowed && is_long(block) {
            beside_short
        } else {
            loss
        };
        (*at, loss.clamp(0.0, 0.9))
    });
    (random.collect(), overflowed)
}

/// What the path carried: what arrived where the copy filled it, and what lies between elsewhere.
fn rates(
    blocks: &[(u64, Interval)],
    random: &[(u64, f64)],
    seen: Seen,
    copy: &Copy<'_>,
) -> Steps<u64> {
    let filled = |block: &Interval| block.share(Held::Path) >= 0.5;
    let all = blocks.iter().zip(random);
    let known: Vec<Option<f64>> = all
        .clone()
        .map(|((_, block), (_, loss))| {
            let came = copy.came_bps(block, *loss);
            let estimate = block.capacity_bps as f64 * copy.wire;
            filled(block).then(|| {
                if block.queue_min_us >= QUEUED_US {
                    came
                } else {
                    came.max(estimate)
                }
            })
        })
        .collect();
    // The receiver does not know that the sender still looks for the capacity.
    let mut known = known;
    if seen == Seen::ByReceiver {
        let mut sorted: Vec<f64> = known.iter().copied().flatten().collect();
        sorted.sort_by(f64::total_cmp);
        let usual = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
        for value in &mut known {
            if value.is_some_and(|value| value >= 0.7 * usual) {
                break;
            }
            *value = None;
        }
    }
    // A path that was never filled has carried at any time what it carried at one: in the first moments of a copy next to nothing is sent.
    let came = all
        .clone()
        .map(|((_, block), (_, loss))| copy.came_bps(block, *loss));
    let most = came.fold(0.0, f64::max);
    let mut steps = Vec::with_capacity(blocks.len());
    let mut before: Option<f64> = None;
    for (index, ((at, block), (_, loss))) in all.enumerate() {
        let value = known[index].unwrap_or_else(|| {
            let next = known[index..].iter().copied().flatten().next();
            let between = before.into_iter().chain(next).fold(0.0, f64::max);
            let carried = if between > 0.0 {
                copy.came_bps(block, *loss)
            } else {
                most
            };
            between.max(carried)
        });
        before = known[index].or(before);
        let is_dead = block.share(Held::Away) > 0.5;
        let bps = if is_dead {
            DEAD_BPS
        } else {
            (value as u64).max(DEAD_BPS)
        };
        steps.push((*at, bps));
    }
    steps
}

/// What programs gave and took where they held the copy back; elsewhere ten times what the path carries.
fn programs(
    blocks: &[(u64, Interval)],
    random: &[(u64, f64)],
    fastest: u64,
    copy: &Copy<'_>,
) -> Steps<u64> {
    let held: f64 = blocks
        .iter()
        .map(|(_, b)| held_by_programs(b) * b.span_us as f64)
        .sum();
    let all: f64 = blocks.iter().map(|(_, b)| b.span_us as f64).sum();
    if held < PROGRAMS_SHARE * all {
        return Vec::new();
    }
    let each = blocks.iter().zip(random).map(|((at, block), (_, loss))| {
        let is_held = held_by_programs(block) >= 0.5;
        let bps = if is_held {
            (copy.came_bps(block, *loss) as u64).max(DEAD_BPS)
        } else {
            fastest.saturating_mul(10)
        };
        (*at, bps)
    });
    deduplicated(each.collect())
}

/// By how much the round trip is longer than at its shortest while there is no queue.
fn longer(blocks: &[(u64, Interval)], rtt_us: u64) -> Steps<u64> {
    let least = ((rtt_us as f64 * LONGER) as u64).max(2_000);
    let each: Steps<u64> = blocks
        .iter()
        .map(|(at, block)| {
            let more = block
                .rtt_us
                .saturating_sub(rtt_us)
                .saturating_sub(block.queue_max_us);
            (*at, if more >= least { more } else { 0 })
        })
        .collect();
    if each.iter().all(|step| step.1 == 0) {
        return Vec::new();
    }
    deduplicated(each)
}

#[cfg(test)]
mod tests {
    use super::mean;

    /// A path that loses nothing loses 0.000 % of it, and not -0.000 %.
    #[test]
    fn the_mean_of_nothing_has_no_sign() {
        assert!(mean(&[], 3.0).is_sign_positive());
        assert!((mean(&[(0, 1.0), (1_000_000, 3.0)], 2.0) - 2.0).abs() < 1e-12);
    }
}
