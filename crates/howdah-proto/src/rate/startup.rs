//! How the `fair` policy looks for the capacity for the first time: bursts show what the path could carry, and what
//! arrives is multiplied each round trip until it does not follow any more.

use super::history::{History, Point, Sample};
use super::trains::{TrainPoint, Trains};
use super::{Feedback, PathKnowledge};
use howdah_core::{Rate, Span};

/// Below that rate nothing is steered any more.
pub(super) const RATE_MIN: Rate = Rate::from_bits_per_sec(64_000);
/// Rate before anything is known: IW10 of RFC 6928 over 10 ms.
pub(super) const INITIAL_RATE: Rate = Rate::from_mbit_per_sec(12);
/// Until the start-up ends, bytes leave in bursts of that much time's worth.
pub(crate) const BURST: Span = Span::from_millis(4);
/// Fewer packets say nothing about a rate.
pub(super) const MIN_PACKETS: u64 = 16;
/// Fewer packets and reports do not end it, unless there is a crowd.
const TRUSTED_PACKETS: u64 = 48;
const TRUSTED_REPORTS: usize = 4;
/// Start-up takes less than that, and 8 RTT, which are so many windows.
const TOO_LONG: Span = Span::from_secs(1);
const TOO_LONG_RTTS: u64 = 8;
const TOO_LONG_WINDOWS: u64 = 32;
/// Share of what might have been sent for which a host has no time: more than bursts that leave some tenths of a millisecond late.
const UNSENT: f64 = 0.2;
/// Rate after the opening burst if it shows that the path is faster than this by some: above [`FAST`], and above [`FASTER`].
const SECOND_RATE: Rate = Rate::from_mbit_per_sec(250);
const FAST: Rate = Rate::from_mbit_per_sec(500);
const SECOND_RATE_FASTER: Rate = Rate::from_mbit_per_sec(800);
const FASTER: Rate = Rate::from_mbit_per_sec(1_200);
/// Share of what a burst proves at least that is used at once: of a short one, and of one to rely on.
const FLOOR_SHARE: f64 = 0.5;
const SURE_FLOOR_SHARE: f64 = 0.9;
/// The first burst after the opening is as long as [`BURST`] at what the opening proves, but no more than this: at 1 Gbit/s less than 5 ms of
/// queue, at 10 Gbit/s more than enough to be spread.
const FIRST_BURST_BYTES: u64 = 560_000;
/// Growth per RTT while bursts arrive as fast as they are sent.
const GROWTH_FAST: f64 = 8.0;
const GROWTH_FAST_BELOW: Rate = Rate::from_gbit_per_sec(1);
const GROWTH: f64 = 4.0;
/// Share of the capacity that bursts show which is gone to before any of it arrived. Others may be there: with all of it a flow that comes
/// to others' queue overflows it for a round trip (test `sharing`). Below [`JUMP_FROM`] growth is nearly as fast, and a queue that marks
/// remembers the jump for seconds (test `marks`).
const JUMP_SHARE: f64 = 0.9;
const JUMP_FROM: Rate = Rate::from_gbit_per_sec(2);
/// A burst too short to rely on may have been spread by a host that stood still: more than it shows is tried, by so much at a time.
const BEYOND_UNSURE: f64 = 1.5;
/// Share of the capacity that bursts show which is used in the end, and which has to arrive.
const TRAIN_SHARE: f64 = 0.95;
/// ... if bursts agree, and a round trip is so long that what is missing is missed. (Where it is short, newcomers would have their shares later.)
const TRAIN_SHARE_AGREED: f64 = 0.98;
const LONG: Span = Span::from_millis(10);
const REACHED_SHARE: f64 = 0.85;
/// With no more than this share of it, others are before this flow in the queue.
const LATE_SHARE: f64 = 0.5;
/// A share of sent bytes that arrives later than it was sent means that the path is full
/// (SEARCH, draft-chung-ccwg-search: 0.26).
const MAX_GAP: f64 = 0.26;
/// Loss at which it ends whatever else is seen.
const MAX_LOSS: f64 = 0.12;
/// Loss that is taken for random when it ends.
const RANDOM_LOSS: f64 = 0.02;
/// Where so much is missing of what was sent first, once it was that much, it ends although little is known: who
/// gets no more than a few reports through would never know more.
const MOST_LOST: f64 = 0.5;
const CROWDED_BYTES: u64 = 48_000;
/// More than that, and a fast burst is no promise.
const CLEAN_LOSS: f64 = 0.25;
/// For so many packets that were lost one must have come, or bursts show nothing of the link.
const SHOWN_OF: u64 = 5;
/// Reports in a row that show that the path is full.
const FULL_REPORTS: u32 = 2;

/// Share of a remembered capacity that is paced before anything is known of today's (RFC 9959, 4.2).
const RESUMED_SHARE: f64 = 0.5;
/// The same where that was lately, the handshake took no longer than the idle path then, so that nobody fills it, and its train came as fast, or
/// as fast as such a short one is sure to on a fast path: two hosts spread it by some ten microseconds.
const RESUMED_SHARE_SEEN: f64 = 0.95;
const SEEN_FAST: Rate = Rate::from_mbit_per_sec(1_500);
/// It is confirmed when bursts show this share of it ...
const CONFIRMED_SHARE: f64 = 0.8;
/// ... and given up at more loss than 1.5 times the remembered, and this.
const RESUMED_LOSS: f64 = 0.02;
const RESUMED_PACKETS: u64 = 32;
/// What of that which arrived is sent after that (RFC 9959, 4.4).
const RETREAT_SHARE: f64 = 0.5;

/// A remembered path that nothing has confirmed yet.
#[derive(Debug)]
struct Resumed {
    capacity: Rate,
    likely: bool,
    /// More than that is not the path's own.
    loss: f64,
}

/// What is known of a path before the first report.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Heard {
    Nothing,
    /// The train ahead has shown that it is fast.
    Train,
    /// It is remembered, or something has arrived.
    Path,
}

/// What the controller knows besides.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) sample: &'a Sample,
    /// That the sample may be of.
    pub(super) reports: usize,
    pub(super) queue: Span,
    pub(super) base_rtt: Span,
    pub(super) rate: Rate,
    /// Most of what arrives is marked by a queue on the way.
    pub(super) marked: bool,
    /// See [`without_time`].
    pub(super) without_time: Option<Rate>,
}

/// What has arrived since a start takes too long, if this host had no time all the while to send what it might.
pub(super) fn without_time(history: &History, base_rtt: Span) -> Option<Rate> {
    let window = TOO_LONG.max(base_rtt * TOO_LONG_RTTS);
    let long = history.sample(window, TRUSTED_PACKETS)?;
    (long.whole && !long.app_limited && long.was_not_sent(UNSENT)).then_some(long.delivery_rate)
}

/// What follows from a report.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Step {
    /// Go on with this rate.
    Grow(Rate),
    /// The path is full, or carries what was promised.
    End {
        capacity: Rate,
        /// Others were there before.
        late: bool,
    },
}

#[derive(Debug)]
pub(super) struct Startup {
    trains: Trains,
    /// The most that arrived.
    best: Rate,
    /// What is sent at least.
    opening_rate: Rate,
    full_reports: u32,
    resumed: Option<Resumed>,
    /// A round trip is.
    is_long: bool,
}

impl Startup {
    pub(super) fn new() -> Self {
        Self {
            trains: Trains::default(),
            best: Rate::ZERO,
            opening_rate: INITIAL_RATE,
            full_reports: 0,
            resumed: None,
            is_long: false,
        }
    }

    /// What bursts showed, now that it ends at `point`. Of those of which next to nothing came, what came may be the ends: all that was sent between
    /// counts as carried.
    pub(super) fn link(&self, point: &Point) -> Option<Rate> {
        let came = point.acked_packets.saturating_mul(SHOWN_OF) >= point.lost_packets;
        self.trains.capacity().filter(|_| came)
    }

    /// What bursts showed can be relied on.
    pub(super) fn is_sure(&self) -> bool {
        self.trains.is_sure()
    }

    fn train_share(&self) -> f64 {
        if self.is_long && self.trains.agree() {
            TRAIN_SHARE_AGREED
        } else {
            TRAIN_SHARE
        }
    }

    /// What bursts showed, if it can be.
    fn sure(&self) -> Option<Rate> {
        self.trains.capacity().filter(|_| self.is_sure())
    }

    /// The most that arrived so far.
    pub(super) fn best(&self) -> Rate {
        self.best
    }

    /// Begins with what was known of this path. Returns the rate of the first round trip.
    pub(super) fn resume(&mut self, known: &PathKnowledge, rtt: Span) -> Rate {
        self.resumed = Some(Resumed {
            capacity: known.capacity,
            likely: known.is_likely(rtt),
            loss: known.loss * 1.5 + RESUMED_LOSS,
        });
        known.capacity.mul_f64(RESUMED_SHARE).max(INITIAL_RATE)
    }

    /// What leaves at once when the rate becomes `rate`, where the opening shows that this is no flood.
    pub(super) fn first_burst_bytes(&self, rate: Rate) -> Option<u64> {
        let usual = rate.bytes_in(BURST);
        let floor = self.trains.floor();
        if floor < FAST {
            return None;
        }
        if self.trains.is_sure() {
            return Some(usual);
        }
        Some(usual.max(floor.bytes_in(BURST).min(FIRST_BURST_BYTES)))
    }

    pub(super) fn is_resuming(&self) -> bool {
        self.resumed.is_some()
    }

    /// Whether this report says that the path is not what it was: then it begins as if nothing had been known.
    fn is_refuted(&self, feedback: &Feedback<'_>, queue: Span, base_rtt: Span) -> bool {
        let Some(resumed) = &self.resumed else {
            return false;
        };
        let point = &feedback.point;
        let settled = point.acked_packets + point.lost_packets;
        let lost = point.lost_packets as f64 / settled.max(1) as f64;
        // (Not by what bursts show: hosts spread some, and what a path does not carry waits or is lost.)
        (settled >= RESUMED_PACKETS && lost > resumed.loss)
            || queue > queue_limit(base_rtt)
            || feedback.socket_drops > 0
    }

    pub(super) fn on_blackout(&mut self) {
        self.resumed = None;
        self.opening_rate = self.opening_rate.mul_f64(0.5).max(RATE_MIN);
    }

    /// Takes in the bursts that a report shows. Returns the rate that follows if there is nothing else to go by.
    pub(super) fn look(&mut self, feedback: &Feedback<'_>, rate: Rate) -> Rate {
        let point = &feedback.point;
        let newest = TrainPoint {
            sent_time: point.sent_time,
            sent_bytes: point.sent_bytes,
            rx_time: point.rx_time,
        };
        self.trains.on_points(&feedback.train, newest);
        self.grown(rate, self.trains.capacity(), feedback.socket_drops == 0)
    }

    /// Takes in what came of the train that was sent with the handshake, `whole` if nearly all of it. Returns the rate to begin with.
    pub(super) fn on_ahead(&mut self, points: &[TrainPoint; 2], whole: bool, rate: Rate) -> Rate {
        self.trains.on_ahead(points, FAST);
        if let Some(resumed) = &self.resumed {
            // What is remembered is paced, and confirmed or refuted by more than these few.
            let [first, last] = points;
            let bytes = last.sent_bytes.saturating_sub(first.sent_bytes);
            let came = Rate::from_bytes_over(bytes, last.rx_time.since(first.rx_time));
            let enough = resumed.capacity.mul_f64(CONFIRMED_SHARE).min(SEEN_FAST);
            if whole && resumed.likely && came >= enough {
                return rate.max(resumed.capacity.mul_f64(RESUMED_SHARE_SEEN));
            }
            return rate;
        }
        self.grown(rate, self.trains.capacity(), whole)
    }

    /// What has arrived lately: `short`, which is over `window`, or over longer on a path on which so few packets pass in it that a sample of that
    /// length would never be trusted, so that start-up never ended: a slow one, one of large packets, or one on which it has lasted too long.
    pub(super) fn sample(&self, history: &History, window: Span, short: Sample) -> Sample {
        let few = short.whole && short.packets < TRUSTED_PACKETS;
        let arrived = short.delivery_rate.bytes_in(short.span);
        let enough = arrived.saturating_mul(TRUSTED_PACKETS);
        let passes_few = |link: Rate| link.bytes_in(window).saturating_mul(short.packets) < enough;
        let slow =
            short.delivery_rate < INITIAL_RATE || self.trains.capacity().is_some_and(passes_few);
        if few && (slow || history.span() > TOO_LONG.max(window * TOO_LONG_WINDOWS)) {
            let longer = history.sample(window, TRUSTED_PACKETS);
            return longer.filter(|s| s.whole).unwrap_or(short);
        }
        short
    }

    /// What is known before the first report.
    pub(super) fn heard(&self) -> Heard {
        if self.best > Rate::ZERO || self.is_resuming() {
            Heard::Path
        } else if self.trains.floor() >= FAST {
            Heard::Train
        } else {
            Heard::Nothing
        }
    }

    pub(super) fn step(&mut self, feedback: &Feedback<'_>, view: &View<'_>) -> Step {
        let (point, sample) = (&feedback.point, view.sample);
        self.is_long = view.base_rtt >= LONG;
        let shown = self.trains.capacity();
        let delivered = sample.delivery_rate;
        // A few packets say nothing about rates or shares; bursts make a short queue by themselves.
        let trusted = sample.whole
            && sample.packets >= TRUSTED_PACKETS
            && view.reports >= TRUSTED_REPORTS
            && !sample.app_limited;
        let arrived = point.delivered_bytes as f64 / point.sent_bytes.max(1) as f64;
        let crowded = arrived < 1.0 - MOST_LOST && point.sent_bytes >= CROWDED_BYTES;
        let full = crowded || (trusted && is_full(feedback, view));
        self.full_reports = if full { self.full_reports + 1 } else { 0 };
        // What the bursts promised arrives, or all that the user allows.
        // (Less than sure is what a host may have made of a short burst.)
        let sure = self.sure();
        let seen = sure.filter(|_| self.trains.have_seen(view.rate.bytes_in(BURST)));
        let arrives = |c: Rate| delivered.as_f64() >= REACHED_SHARE * c.as_f64();
        let mut promises = [seen, feedback.cap].into_iter().flatten();
        let reached = trusted && promises.any(arrives);
        if self.is_refuted(feedback, view.queue, view.base_rtt) {
            self.resumed = None;
            self.full_reports = 0;
            self.best = self.best.max(delivered.mul_f64(RETREAT_SHARE / GROWTH));
            return Step::Grow(delivered.mul_f64(RETREAT_SHARE).max(self.opening_rate));
        }
        if self.full_reports >= FULL_REPORTS || reached {
            let capacity = delivered.mul_f64(1.0 / (1.0 - sample.loss.min(RANDOM_LOSS)));
            let follows = reached && self.full_reports == 0;
            let share = |c: Rate| delivered.as_f64() / c.as_f64().max(1.0);
            // (What a host drops are not others that are before it in the queue.)
            let late =
                !feedback.host_drops && !crowded && shown.is_some_and(|c| share(c) < LATE_SHARE);
            return Step::End {
                capacity: if follows {
                    let promised = |shown: Rate| shown.mul_f64(self.train_share());
                    capacity.max(match sure {
                        // Nearly all of what they agree on arrives: nobody else has it.
                        Some(shown) if self.trains.agree() && arrives(shown) => promised(shown),
                        // (More than bursts show, which was tried before there was enough of them, is no capacity.)
                        _ => view.rate.min(sure.map_or(Rate::MAX, promised)),
                    })
                } else {
                    capacity
                },
                late,
            };
        }
        if let Some(arrived) = view.without_time {
            // Nothing more will be seen by a host that has no time to send it; what bursts showed is the path's all the same.
            let promised = sure.map_or(Rate::ZERO, |shown| shown.mul_f64(self.train_share()));
            return Step::End {
                capacity: promised.max(arrived).max(self.best),
                late: false,
            };
        }
        if sample.whole {
            self.best = self.best.max(delivered);
        }
        // (A burst that came fast to a host that drops says nothing of what the host takes.)
        let clean = arrived > 1.0 - CLEAN_LOSS && feedback.socket_drops == 0;
        Step::Grow(self.grown(view.rate, shown, clean))
    }

    fn grown(&self, mut rate: Rate, shown: Option<Rate>, clean: bool) -> Rate {
        let mut wanted = self.opening_rate;
        let (floor, sure) = (self.trains.floor(), self.trains.is_sure());
        if clean && floor >= FAST {
            let second = if floor >= FASTER {
                let proved = self.trains.sure_floor().mul_f64(SURE_FLOOR_SHARE);
                let most = shown
                    .filter(|_| sure)
                    .map_or(Rate::MAX, |c| c.mul_f64(JUMP_SHARE));
                SECOND_RATE_FASTER
                    .max(floor.mul_f64(FLOOR_SHARE))
                    .max(proved.min(most))
            } else {
                SECOND_RATE
            };
            wanted = wanted.max(second);
        }
        if let Some(capacity) = shown.filter(|&shown| clean && sure && shown >= JUMP_FROM) {
            wanted = wanted.max(capacity.mul_f64(JUMP_SHARE));
        }
        let confirmed = |known: &&Resumed| {
            shown.is_some_and(|c| sure && c >= known.capacity.mul_f64(CONFIRMED_SHARE))
        };
        if clean && let (Some(_), Some(shown)) = (self.resumed.as_ref().filter(confirmed), shown) {
            wanted = wanted.max(shown);
        }
        let growth = if self.best < GROWTH_FAST_BELOW {
            GROWTH_FAST
        } else {
            GROWTH
        };
        wanted = wanted.max(self.best.mul_f64(growth));
        if let Some(capacity) = shown {
            // What arrived once was carried, whatever jitter makes of a later burst.
            let beyond = if sure { 1.0 } else { BEYOND_UNSURE };
            let capacity = capacity.max(self.best.mul_f64(beyond));
            wanted = wanted.min(capacity.mul_f64(self.train_share()));
            // Bursts that are spread more than others take a promise back.
            rate = rate.min(capacity.max(self.opening_rate));
        }
        // A few bursts that show more than ever arrived have been pressed together by a host.
        if let Some(known) = self.resumed.as_ref().filter(|_| !self.trains.agree()) {
            wanted = wanted.min(known.capacity);
        }
        rate.max(wanted)
    }
}

/// A queue above it is one that this flow fills, or others.
fn queue_limit(base_rtt: Span) -> Span {
    (base_rtt / 16).clamp(Span::from_millis(4), Span::from_millis(15))
}

/// Whether a trusted sample shows that the path is full.
fn is_full(feedback: &Feedback<'_>, view: &View<'_>) -> bool {
    let sample = view.sample;
    let gap = 1.0 - sample.delivery_rate.as_f64() / sample.send_rate.as_f64().max(1.0);
    view.queue > queue_limit(view.base_rtt)
        || (gap > MAX_GAP && sample.loss < gap && view.rate > SECOND_RATE)
        || sample.loss > MAX_LOSS
        || feedback.socket_drops > 0
        || view.marked
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_core::Time;

    /// 250 kB of which so many packets came, the first and the last among them, in 7 ms.
    fn link_shown_by(came: u64) -> Option<Rate> {
        let ms = |ms| Time::ZERO + Span::from_millis(ms);
        let points = [(0, 10), (250_000, 17)].map(|(sent_bytes, at)| TrainPoint {
            sent_time: Time::ZERO,
            sent_bytes,
            rx_time: ms(at),
        });
        let mut startup = Startup::new();
        startup.trains.on_points(&points, points[1]);
        startup.link(&Point {
            rx_time: ms(17),
            sent_time: Time::ZERO,
            sent_bytes: 250_000,
            delivered_bytes: came * 1_232,
            acked_packets: came,
            lost_packets: 203 - came,
            app_limited: false,
            unsent_bytes: 0,
        })
    }

    #[test]
    fn a_burst_of_which_next_to_nothing_came_shows_nothing_of_the_link() {
        assert_eq!(link_shown_by(1), None);
        // Of what overflowed a short queue a third or a fifth comes.
        let whole = link_shown_by(203);
        assert!(whole.is_some_and(|rate| rate > Rate::from_mbit_per_sec(280)));
        assert_eq!(link_shown_by(60), whole);
        assert_eq!(link_shown_by(36), whole);
    }

    /// A start from a path of 10 Gbit/s that was just known, after a burst that shows so much.
    fn resumed_and_shown(gbit: u64) -> Startup {
        let mut startup = Startup::new();
        let rtt = Span::from_millis(100);
        let known = PathKnowledge {
            capacity: Rate::from_gbit_per_sec(10),
            rtt,
            loss: 0.0,
            age: Span::ZERO,
            datagram_bytes: 0,
        };
        let half = startup.resume(&known, rtt);
        assert_eq!(half, Rate::from_gbit_per_sec(5));
        let points = [0, 2_500_000].map(|sent_bytes| TrainPoint {
            sent_time: Time::ZERO,
            sent_bytes,
            rx_time: Time::ZERO + Rate::from_gbit_per_sec(gbit).span_for(sent_bytes),
        });
        startup.trains.on_points(&points, points[1]);
        assert!(startup.sure().is_some());
        startup
    }

    /// Packets that a host pressed together show more than the path ever carried.
    #[test]
    fn a_burst_that_shows_more_than_is_known_promises_what_is_known() {
        let mbit = |shown| {
            let startup = resumed_and_shown(shown);
            let half = Rate::from_gbit_per_sec(5);
            let rate = startup.grown(half, startup.trains.capacity(), true);
            (rate.bits_per_sec() + 500_000) / 1_000_000
        };
        assert_eq!(mbit(18), 10_000);
        // Others may be there, or it is slower now: TRAIN_SHARE and JUMP_SHARE of what is shown.
        assert_eq!(mbit(9), 8_550);
        assert_eq!(mbit(6), 5_400);
    }

    /// A host spreads a burst; what a path does not carry waits or is lost.
    #[test]
    fn a_burst_that_shows_less_than_is_known_refutes_nothing() {
        let startup = resumed_and_shown(3);
        let refuted = |lost_packets, queue_ms, socket_drops| {
            let feedback = Feedback {
                now: Time::ZERO,
                point: Point {
                    rx_time: Time::ZERO,
                    sent_time: Time::ZERO,
                    sent_bytes: 2_500_000,
                    delivered_bytes: 2_500_000,
                    acked_packets: 300,
                    lost_packets,
                    app_limited: false,
                    unsent_bytes: 0,
                },
                rtt: None,
                min_rtt: Span::from_millis(100),
                smoothed_rtt: Span::from_millis(100),
                socket_drops,
                sink_limit: None,
                cap: None,
                host_drops: false,
                refusing: false,
                lost_sent_at: &[],
                marks: None,
                train: smallvec::SmallVec::new(),
            };
            startup.is_refuted(&feedback, Span::from_millis(queue_ms), feedback.min_rtt)
        };
        assert!(!refuted(0, 0, 0));
        assert!(refuted(30, 0, 0));
        assert!(refuted(0, 20, 0));
        assert!(refuted(0, 0, 1));
    }

    #[test]
    fn the_first_burst_is_as_long_as_the_opening_proves_and_no_longer() {
        let unheard = Startup::new().first_burst_bytes(SECOND_RATE);
        assert_eq!(unheard, None);
        // 38 kB within so many microseconds.
        for (arrival_us, most) in [(500, 256_000), (300, 384_000), (30, FIRST_BURST_BYTES)] {
            let points = [(0, 0), (38_400, arrival_us)].map(|(sent_bytes, at_us)| TrainPoint {
                sent_time: Time::ZERO,
                sent_bytes,
                rx_time: Time::ZERO + Span::from_micros(at_us),
            });
            let mut startup = Startup::new();
            startup.trains.on_points(&points, points[1]);
            assert_eq!(startup.first_burst_bytes(SECOND_RATE), Some(most));
            let fast = Rate::from_gbit_per_sec(5);
            assert_eq!(startup.first_burst_bytes(fast), Some(fast.bytes_in(BURST)));
        }
    }
}
