//! The `fair` policy: keep a small queue at the bottleneck, take random loss for what it is.
//!
//! * Capacity is what arrives, corrected for random loss: `delivery_rate / (1 - loss)`.
//! * The queue is seen as one-way delay above its recent minimum. The rate is steered so that the
//!   queue stays at a target: `rate = capacity * (1 + K * (target - queue) / horizon)`.
//! * The target falls with the rate, so that of two flows that see one queue the faster one yields.
//! * Loss is congestion only if it exceeds what is lost when the queue is short.
//! * While no queue can be seen the rate grows, slowly at first, faster as long as the delivery
//!   follows (RFC 9438 and BBR grow blindly; here every step is checked).

mod beside;
mod looking;
mod measure;
mod parts;
mod target;

use self::parts::{Bound, Delays, Echo, Losses, Probing, Receiver};
use super::company::{Company, Overflows};
use super::drains::{Drains, Seen};
use super::headroom::Headroom;
use super::history::{History, RECENT, Sample, one_way_delay};
use super::marks::{Marks, Weight};
use super::overflow::Overflow;
use super::room::Room;
use super::startup::{
    self, BURST, Heard, INITIAL_RATE, MIN_PACKETS, RATE_MIN, Startup, Step, View,
};
use super::trains::TrainPoint;
use super::yielding::Yielding;
use super::{Feedback, Measured, PathKnowledge, Phase, Share};
use crate::rtt::WindowedMin;
use howdah_core::{Rate, Span, Time};

/// Packets that open the connection, as one burst (RFC 6928 allows 10, large deployments use 32).
const OPENING_PACKETS: u64 = 32;
/// No more bytes are sent before the first report.
const UNHEARD_BYTES: u64 = 256_000;
/// ... and no more than this if the train ahead has shown that the path is fast: a burst that shows how fast. Whether others fill it only a report can tell.
const SHOWN_BYTES: u64 = 1_000_000;
/// Half of the queue target at `TARGET_AT_RATE`, without a cap; the other half falls with the rate.
const TARGET: Span = Span::from_micros(1_250);
const TARGET_AT_RATE: f64 = 10e9;
const TARGET_MAX: Span = Span::from_millis(20);
/// The target that start-up leaves behind.
const TARGET_FIRST: Span = Span::from_millis(3);
/// A queue that overflows below the target lowers the target to this share of where it did.
const TARGET_SHARE_OF_LIMIT: f64 = 0.6;
/// A queue that overflows below this is too short to steer by its length; it is shared by yielding.
const SHORT: Span = Span::from_millis(3);
/// A longer one is answered if it overflows for so long and 4 RTT, without a gap longer than this.
const DROPPING_LASTS: Span = Span::from_millis(1_500);
const DROPPING_GAP: Span = Span::from_millis(100);
/// Decreases in a short queue are at least so far apart, and 2 RTT; after so many without a loss it is
/// not taken for one any more.
const YIELD_EVERY: Span = Span::from_millis(250);
const YIELDS_WITHOUT_LOSS: u32 = 10;
/// Hosts are no more exact than this.
const SHORTEST: Span = Span::from_micros(400);
/// Packets: a queue that is no longer than these is none.
const SHORT_PACKETS: f64 = 3.0;
/// What `TARGET_SHARE_OF_LIMIT` is there: less, as a round trip's growth must fit above it.
const TARGET_SHARE_OF_SHORT: f64 = 0.4;
/// From this share of its largest on, the cap is not one that an overflow made of late.
const UNCAPPED: f64 = 0.5;
const TARGET_CAP_MIN: Span = Span::from_millis(1);
const TARGET_CAP_MIN_SHORT: Span = Span::from_micros(300);
/// Without overflow, the target comes back by this factor in each of these steps. All flows see the
/// next overflow and lower their targets alike, which is what makes them equal.
const TARGET_CAP_GROWTH: f64 = 1.1;
/// ... and by this one while it is what keeps the queue from overflowing.
const TARGET_CAP_GROWTH_BOUND: f64 = 1.02;
const TARGET_CAP_STEP: Span = Span::from_millis(500);
/// Gain of the queue controller; below pi/2 the loop with one RTT of delay is stable.
const K: f64 = 0.4;
/// Shortest time over which a queue error is corrected.
const HORIZON_MIN: Span = Span::from_millis(25);
const STEER_MIN: f64 = 0.7;
const STEER_MAX: f64 = 1.05;
/// The same for a flow that came to others' queue, for so long after it has learnt that. It has a small part of the path,
/// so it matters little to the stability of the whole.
const K_YOUNG: f64 = 1.2;
const STEER_MAX_YOUNG: f64 = 1.15;
/// Growth per RTT while no queue is seen, doubled each RTT that the delivery follows.
const PROBE_FIRST: f64 = 0.05;
/// So many round trips after start-up it goes beyond what that has shown by small steps.
const CAREFUL_RTTS: u64 = 12;
/// Growth per RTT on the way back to a rate that the receiving host lost and the path did not.
const PROBE_BACK: f64 = 1.0;
/// Share of that rate that is gone back to; also what is left of the memory after each relapse.
const BACK_SHARE: f64 = 0.9;

/// A fall that only a queue tells of goes down to the most that arrived in so long.
const ARRIVED_WINDOW: Span = Span::from_millis(60);
/// Share of what might have been sent from which on it says nothing of the path that no more of it arrived.
const UNSENT: f64 = 0.02;

/// Loss above `1.5 x floor + LOSS_SLACK` is congestion.
const LOSS_SLACK: f64 = 0.025;
const LOSS_FLOOR_WINDOW: Span = Span::from_secs(10);
/// The same where it is known to be a queue's.
const OVERFLOW_SLACK: f64 = 0.001;
/// Packets over which loss is compared with its floor.
const LOSS_PACKETS: u64 = 200;
/// A loss sample that is longer counts only if it began after the last answer to loss.
const STALE: Span = Span::from_millis(500);
/// Packets over which a loss floor is measured.
const LOSS_BLOCK_PACKETS: u64 = 4_000;
/// On a path this long a report or two come in that time, so that the shortest is no better than any.
const SPARSE: Span = Span::from_millis(100);
/// The delay base looks back that far; a drain episode within each window keeps it honest.
const BASE_WINDOW: Span = Span::from_secs(12);
/// The delay base is doubted after so long, if the rate has fallen to this share meanwhile.
const DOUBT_AFTER: Span = Span::from_millis(800);
const DOUBT_SHARE: f64 = 0.25;
/// In a queue that is so many times longer than its target something happens; and who has less than that share of the link that was ever seen
/// is not alone, or the link has changed.
const CALM_QUEUE: f64 = 1.5;
const CALM_SHARE: f64 = 0.9;
/// Slack of the window for reports that come late and hosts that schedule late.
const WINDOW_SLACK: Span = Span::from_millis(40);

/// What it is doing. Start-up comes once, and what it knows goes with it.
#[derive(Debug)]
enum Stage {
    Startup(Box<Startup>),
    Cruise,
    Drain,
}

impl Stage {
    fn phase(&self) -> Phase {
        match self {
            Self::Startup(_) => Phase::Startup,
            Self::Cruise => Phase::Cruise,
            Self::Drain => Phase::Drain,
        }
    }
}

#[derive(Debug)]
pub(super) struct Fair {
    share: Share,
    /// The most that this flow had, or start-up's trains showed.
    link_seen: Rate,
    stage: Stage,
    history: History,
    capacity: Rate,
    rate: Rate,
    delays: Delays,
    bound: Bound,
    losses: Losses,
    room: Room,
    marks: Marks,
    yielding: Yielding,
    company: Company,
    headroom: Headroom,
    last: Option<Sample>,
    probing: Probing,
    drains: Drains,
    echo: Echo,
    /// Largest capacity seen lately, as its complement.
    arrived: WindowedMin,
    host: Receiver,
}

/// What a report says of path and losses.
struct Judged {
    /// Losses at the largest delays, if they count.
    overflow: Option<Overflow>,
    overflows: Overflows,
    /// The queue overflows now.
    dropping: bool,
    congested: bool,
    /// Less was sent than could have been.
    idle: bool,
}

impl Fair {
    pub(super) fn new(share: Share) -> Self {
        Self {
            share,
            link_seen: Rate::ZERO,
            stage: Stage::Startup(Box::new(Startup::new())),
            history: History::default(),
            capacity: Rate::ZERO,
            rate: INITIAL_RATE,
            delays: Delays::new(),
            bound: Bound::new(),
            losses: Losses::new(),
            room: Room::default(),
            marks: Marks::new(Weight::Fair, share),
            yielding: Yielding::new(share),
            company: Company::new(share),
            headroom: Headroom::default(),
            last: None,
            probing: Probing::new(),
            drains: Drains::new(),
            echo: Echo::default(),
            arrived: WindowedMin::new(ARRIVED_WINDOW),
            host: Receiver::default(),
        }
    }

    /// What is known of others was reckoned for another share.
    pub(super) fn set_share(&mut self, share: Share) {
        if share != self.share {
            self.share = share;
            self.company = Company::new(share);
            self.yielding = Yielding::new(share);
            self.marks.set_share(share);
        }
    }

    pub(super) fn on_established(&mut self, rtt: Span) {
        self.delays.base_rtt = rtt;
        self.rate = INITIAL_RATE;
    }

    pub(super) fn resume(&mut self, known: &PathKnowledge, rtt: Span) {
        if let Stage::Startup(startup) = &mut self.stage {
            self.rate = startup.resume(known, rtt);
        }
    }

    /// What came of the train that was sent with the handshake.
    pub(super) fn on_ahead(&mut self, now: Time, points: &[TrainPoint; 2], whole: bool) {
        if let Stage::Startup(startup) = &mut self.stage {
            self.rate = startup.on_ahead(points, whole, self.rate);
            // Nothing of ours was before the first packet of all.
            let [first, _] = points;
            let delay = one_way_delay(first.sent_time, first.rx_time);
            self.delays.base_owd.push(now, delay);
        }
    }

    pub(super) fn knowledge(&self) -> Option<PathKnowledge> {
        (!self.starts()).then(|| PathKnowledge {
            capacity: self.capacity,
            rtt: self.delays.base_rtt,
            loss: self.losses.floor.min().map_or(0.0, |ppb| ppb as f64 / 1e9),
            age: Span::ZERO,
            datagram_bytes: 0,
        })
    }

    pub(super) fn first_burst_bytes(&self, rate: Rate) -> Option<u64> {
        match &self.stage {
            Stage::Startup(startup) => startup.first_burst_bytes(rate),
            Stage::Cruise | Stage::Drain => None,
        }
    }

    pub(super) const fn opening_bytes() -> u64 {
        OPENING_PACKETS * 1_200
    }

    fn starts(&self) -> bool {
        matches!(self.stage, Stage::Startup(_))
    }

    pub(super) fn measured(&self) -> Measured {
        Measured {
            phase: self.stage.phase(),
            capacity: self.capacity,
            queue_delay: self.delays.queue,
            sample: self.last,
        }
    }

    pub(super) fn base_rtt(&self) -> Span {
        self.delays.base_rtt
    }

    pub(super) fn pacing_rate(&self) -> Rate {
        self.rate
    }

    pub(super) fn window_bytes(&self) -> u64 {
        let initial = OPENING_PACKETS * 1_500 * 2;
        if let Stage::Startup(startup) = &self.stage {
            // What is unreported may grow with the rate, but not past two round trips of it; and the first report must
            // come before there is much. A round trip that is long because of a crowd is no reason to send more into it.
            let window = self.rate.bytes_in(self.delays.base_rtt * 2 + WINDOW_SLACK);
            let most = match startup.heard() {
                _ if self.history.len() > 0 => u64::MAX,
                Heard::Nothing => UNHEARD_BYTES,
                Heard::Train => SHOWN_BYTES,
                Heard::Path => u64::MAX,
            };
            return window.min(most).max(initial);
        }
        let rate = self.capacity.max(self.rate);
        if self.company.is_here() {
            return rate
                .bytes_in(self.company.rtt() + WINDOW_SLACK)
                .max(initial)
                .saturating_mul(5)
                / 4;
        }
        rate.bytes_in(self.delays.base_rtt + self.target() * 2 + WINDOW_SLACK)
            .max(initial)
            .saturating_mul(5)
            / 4
    }

    /// Of so long are samples once start-up is over.
    fn cruise_window(&self) -> Span {
        let (least, most) = (Span::from_millis(40), Span::from_millis(200));
        self.delays.base_rtt.clamp(least, most)
    }

    /// The queue is too short to steer by its length.
    fn is_short(&self) -> bool {
        self.bound.overflowed && self.bound.target_cap < SHORT.mul_f64(TARGET_SHARE_OF_SHORT)
    }

    pub(super) fn wants_fine_pacing(&self) -> bool {
        // (A queue that marks from a millisecond on marks trains of half of one.)
        self.is_short() || self.room.is_doubtful() || self.marks.is_fine() || self.company.is_here()
    }

    fn loss_threshold(&self) -> f64 {
        let floor = self.losses.floor.min().map_or(0.0, |ppb| ppb as f64 / 1e9);
        floor * 1.5 + LOSS_SLACK
    }

    pub(super) fn on_blackout(&mut self) {
        if let Stage::Startup(startup) = &mut self.stage {
            startup.on_blackout();
        }
        self.history.clear();
        self.capacity = self.capacity.mul_f64(0.5);
        self.rate = self.rate.mul_f64(0.5).max(RATE_MIN);
        self.delays.recent_owd.clear();
        self.losses.by_delay.clear();
    }

    pub(super) fn on_feedback(&mut self, feedback: &Feedback<'_>) {
        self.delays.base_rtt = feedback.min_rtt;
        self.history.push(feedback.point);
        self.measure_queue(feedback);
        self.room
            .on_report(self.delays.queue, !feedback.lost_sent_at.is_empty());
        let (window, first_look) = match &mut self.stage {
            Stage::Startup(startup) => {
                let window = (self.delays.base_rtt / 4).max(BURST * 2);
                // The opening burst is often all in the first report, which no sample can be made of.
                (window, Some(startup.look(feedback, self.rate)))
            }
            Stage::Cruise | Stage::Drain => (self.cruise_window(), None),
        };
        let Some(sample) = self.history.sample(window, MIN_PACKETS) else {
            if let Some(rate) = first_look {
                self.rate = rate.min(feedback.limit().unwrap_or(Rate::MAX));
            }
            return;
        };
        self.last = Some(sample);
        if feedback.refusing {
            self.host.refused_at = Some(feedback.now);
        }
        self.measure_loss_floor(feedback, &sample);
        self.heed_marks(feedback);
        if let Stage::Startup(startup) = &self.stage {
            let sample = startup.sample(&self.history, window, sample);
            self.start_up(feedback, &sample);
        } else {
            self.cruise(feedback, &sample);
            self.leave_room(feedback, &sample);
            self.see_calm(feedback, &sample);
        }
        let limit = feedback.limit().unwrap_or(Rate::MAX);
        self.host.limits = limit < self.rate;
        self.rate = self.rate.min(limit);
    }

    fn see_calm(&mut self, feedback: &Feedback<'_>, sample: &Sample) {
        let now = feedback.now;
        let most = self.link_seen.mul_f64(CALM_SHARE);
        // What overflowed a short queue may be others who come and go.
        let is_capped =
            !self.bound.is_opening && self.bound.target_cap < TARGET_MAX.mul_f64(UNCAPPED);
        let something_happens = self.starts()
            || is_capped
            || sample.delivery_rate < most
            || self.delays.queue > self.target().mul_f64(CALM_QUEUE)
            || self.drains.is_young(now)
            || self.drains.is_dip()
            || now < self.losses.congested_until
            || now < self.echo.until
            || self.probing.share > PROBE_FIRST
            || self.is_short()
            || self.marks.is_fine()
            || feedback.host_drops
            || self.host.limits;
        self.company.see_calm(now, something_happens);
    }

    /// Nothing happens that more reports would tell more of; what a drain does to the queue is told by many.
    pub(super) fn is_calm(&self, now: Time) -> bool {
        matches!(self.stage, Stage::Cruise)
            && !self.drains.is_echo(now)
            && self.burst().is_none()
            && self.company.is_calm(now, self.delays.base_rtt)
    }

    fn start_up(&mut self, feedback: &Feedback<'_>, sample: &Sample) {
        let Stage::Startup(startup) = &mut self.stage else {
            return;
        };
        let view = View {
            sample,
            without_time: startup::without_time(&self.history, self.delays.base_rtt),
            reports: self.history.len(),
            queue: self.delays.queue,
            base_rtt: self.delays.base_rtt,
            rate: self.rate,
            marked: self.marks.are_many(),
        };
        match startup.step(feedback, &view) {
            Step::Grow(rate) => {
                self.rate = rate;
                self.capacity = self.capacity.max(startup.best());
            }
            Step::End { capacity, late } => {
                if feedback.socket_drops > 0 {
                    self.host.before_drops = Some(startup.best());
                }
                (self.capacity, self.rate) = (capacity, capacity);
                let shown = startup.link(&feedback.point);
                let link = shown.unwrap_or(capacity).max(capacity);
                self.link_seen = link;
                let sure = shown.filter(|_| startup.is_sure());
                self.probing.looking.begin(sure);
                let careful_until = feedback.now + feedback.smoothed_rtt * CAREFUL_RTTS;
                self.probing.shown = shown.map(|link| (link, careful_until));
                self.company.on_arrived(feedback.now, link);
                self.stage = Stage::Cruise;
                if late {
                    self.company.came_late();
                } else {
                    self.open_target();
                    self.echo.ramp_until = feedback.now + self.cruise_window();
                }
                self.drains
                    .begin(feedback.now, self.delays.base_owd.min(), late);
                // Where nothing was lost so far, what comes after a round trip is of now.
                let echo = if feedback.point.lost_packets == 0 {
                    feedback.smoothed_rtt
                } else {
                    feedback.echo()
                };
                self.echo.until = feedback.now + echo;
                self.echo.marks_until = feedback.now + feedback.echo();
                self.losses.congested_until = feedback.now + feedback.smoothed_rtt;
            }
        }
    }

    fn heed_marks(&mut self, feedback: &Feedback<'_>) {
        let answers = !self.starts() && feedback.now >= self.echo.marks_until;
        self.marks.set_young(self.drains.is_young(feedback.now));
        // While it drains it sends less than it may.
        let rate = match self.stage {
            Stage::Drain => self.rate.max(self.capacity),
            Stage::Startup(_) | Stage::Cruise => self.rate,
        };
        self.marks.heed(feedback, self.delays.queue, rate, answers);
        if self.marks.is_fine() && self.marks.ceiling().is_some() {
            // A longer queue than such a queue marks is none that it means to have.
            self.bound.target_cap = self.bound.target_cap.min(TARGET_CAP_MIN);
        }
    }

    /// What arrives of what was sent, and so the capacity.
    fn judge(&mut self, feedback: &Feedback<'_>, sample: &Sample) -> Judged {
        let now = feedback.now;
        let random_loss = self.loss_threshold();
        // On slow paths a round trip has too few packets to tell loss rates apart. A sample that
        // reaches further back must not count what has been answered already.
        let window = self.delays.base_rtt.max(Span::from_millis(40));
        let lossy = self.history.sample(window, LOSS_PACKETS);
        let acked = sample.packets as f64 * (1.0 - sample.loss);
        let packets = sample.span.mul_f64(SHORT_PACKETS / acked.max(1.0));
        let least = packets.max(SHORTEST);
        let at_largest = self.losses.by_delay.overflow().filter(|o| o.limit >= least);
        let overflow = at_largest.filter(|o| self.counts(o, feedback));
        let threshold = overflow.map_or(random_loss, |o| {
            random_loss.min(o.floor * 1.5 + OVERFLOW_SLACK)
        });
        let dropping = overflow.is_some_and(|o| o.now);
        let congested = dropping
            || lossy.is_some_and(|l| {
                let answered = now.since(self.losses.congested_at);
                let fresh = if self.company.is_here() {
                    // (One overflow is one cut, however long a slow flow's sample is.)
                    l.span + feedback.smoothed_rtt < answered
                } else {
                    l.span <= (window * 2).max(STALE) || l.span < answered
                };
                // Which of the packets were lost and which refused is known only in all.
                let known = self.host.refused_at.is_none_or(|at| l.span < now.since(at));
                // What start-up lost is no measure: the flows that were there before hardly see it.
                let cruising = l.span < now.since(self.echo.until);
                l.packets >= LOSS_PACKETS && l.loss > random_loss && fresh && known && cruising
            });
        let loss = lossy.map_or(0.0, |l| l.loss).max(sample.loss);
        // (What start-up made overflow did not pass the bottleneck.)
        let elsewhere = if now < self.echo.until {
            0.0
        } else {
            loss.min(threshold)
        };
        self.losses.believed = elsewhere;
        let arrived = sample.delivery_rate.mul_f64(1.0 / (1.0 - elsewhere));
        // Less arriving means less capacity only if the path shows that it is full; else this
        // host, or the echo of an earlier pause, sent less.
        let idle = sample.app_limited || self.host.limits;
        // (What a host catches up looks like a queue.)
        let queued = self.delays.queue > self.target() / 2
            && now >= self.echo.ramp_until
            && !sample.was_not_sent(UNSENT);
        let full = !idle && (congested || queued);
        if feedback.socket_drops > 0 {
            let relapse = now >= self.losses.congested_until;
            let left = if relapse { BACK_SHARE } else { 1.0 };
            let before = self.host.before_drops.unwrap_or(Rate::ZERO).mul_f64(left);
            self.host.before_drops = Some(before.max(self.capacity));
            self.host.drops_felt_until = now + feedback.echo();
        }
        // The largest of the last moments: a host that pauses for some milliseconds delays and
        // gathers, which looks like a queue and a low rate and then like a high one.
        self.arrived.push(now, u64::MAX - arrived.bits_per_sec());
        let lately = Rate::from_bits_per_sec(u64::MAX - self.arrived.min().unwrap_or(u64::MAX));
        if congested || feedback.socket_drops > 0 {
            self.capacity = arrived;
            self.arrived.clear();
        } else if full || (arrived > self.capacity && !self.drains.is_dip()) {
            // (While others drain, more of what arrives is this flow's than the path has for it.)
            self.capacity = lately;
        }
        let overflows = if congested {
            Overflows::Much
        } else if at_largest.is_some_and(|o| o.now) {
            Overflows::AtLargestDelays
        } else {
            Overflows::No
        };
        Judged {
            overflow,
            overflows,
            dropping,
            congested,
            idle,
        }
    }

    fn cruise(&mut self, feedback: &Feedback<'_>, sample: &Sample) {
        let now = feedback.now;
        let judged = self.judge(feedback, sample);
        let Judged {
            dropping,
            congested,
            idle,
            ..
        } = judged;
        self.look_at_link(feedback, &judged);
        if judged.overflows != Overflows::No {
            self.heed_overflow(feedback, sample);
        }
        if self.beside_others(feedback, sample, idle, judged.overflows) {
            return;
        }
        let horizon = self.delays.base_rtt.max(HORIZON_MIN);
        let error = self.target().as_secs_f64() - self.delays.queue.as_secs_f64();
        if feedback.host_drops {
            self.drains.grow_up();
        }
        let (gain, most) = if error > 0.0 && self.drains.is_young(now) {
            (K_YOUNG, STEER_MAX_YOUNG)
        } else {
            (K, STEER_MAX)
        };
        let mut steer = (1.0 + gain * error / horizon.as_secs_f64()).clamp(STEER_MIN, most);
        if self.bound.is_opening && !congested && judged.overflows == Overflows::No {
            self.bound.target_cap = self.bound.target_cap.max(self.delays.queue.min(TARGET_MAX));
        }
        if now >= self.bound.next_cap_step {
            self.bound.next_cap_step = now + TARGET_CAP_STEP.max(feedback.smoothed_rtt);
            let bound = self.is_short() && self.yielding.rate(now).is_some();
            let growth = if self.is_short() && self.yielding.is_on_plateau(now) {
                1.0
            } else if bound || now < self.bound.slow_until {
                TARGET_CAP_GROWTH_BOUND
            } else {
                TARGET_CAP_GROWTH
            };
            self.bound.target_cap = self.bound.target_cap.mul_f64(growth).min(TARGET_MAX);
        }
        self.doubt_base(feedback);
        self.doubt_short(feedback);
        let reached = self.is_short() && self.delays.queue > self.target();
        if (dropping || reached) && !idle && now >= self.bound.yield_next {
            self.bound.yield_next = now + (feedback.smoothed_rtt * 2).max(YIELD_EVERY);
            let rtt = self.delays.base_rtt;
            self.yielding.on_full(now, self.capacity, rtt);
            self.bound.yields = if dropping { 0 } else { self.bound.yields + 1 };
            if self.bound.yields > YIELDS_WITHOUT_LOSS {
                // It is not this queue that is seen.
                self.leave_short();
            }
        }
        let queue_seen = self.delays.queue > self.target() / 2;
        if congested || feedback.socket_drops > 0 {
            self.losses.congested_at = now;
            self.losses.congested_until = now + feedback.smoothed_rtt * 2;
            self.probing.share = PROBE_FIRST;
            steer = steer.min(0.95);
            self.lower_cap(feedback, &judged);
        } else if queue_seen
            || now < self.losses.congested_until
            || self.drains.is_echo(now)
            || idle
        {
            self.probing.share = (self.probing.share / 4.0).max(PROBE_FIRST);
            self.probing.next_step = now + feedback.smoothed_rtt;
            self.probing.base = sample.delivery_rate;
        } else {
            let noise = self.delays.noise.allowance();
            self.probing
                .step(feedback.now, feedback.smoothed_rtt, sample, noise);
            steer = steer.max(self.probing.more(now, self.capacity));
        }
        self.rate = self.capacity.mul_f64(steer).max(RATE_MIN);
        if self.is_short()
            && let Some(rate) = self.yielding.rate(now)
        {
            self.rate = rate.max(RATE_MIN);
        }
        if let Some(back) = self.way_back(now) {
            self.rate = self.rate.max(back);
        }
        if let Some(ceiling) = self.marks.ceiling() {
            self.rate = self.rate.min(ceiling).max(RATE_MIN);
        }
        if self.is_testing(feedback) {
            return;
        }
        self.drain(feedback);
    }

    /// A queue that overflows is to be shorter from now on.
    fn lower_cap(&mut self, feedback: &Feedback<'_>, judged: &Judged) {
        let now = feedback.now;
        let longest = self.longest_queue();
        let limit = judged.overflow.map_or(longest, |o| o.limit.min(longest));
        self.bound.overflowed = limit < SHORT && (judged.dropping || self.is_short());
        if self.bound.overflowed {
            self.room.on_short();
        }
        let cap = if self.bound.overflowed {
            limit
                .mul_f64(TARGET_SHARE_OF_SHORT)
                .max(TARGET_CAP_MIN_SHORT)
        } else {
            limit.mul_f64(TARGET_SHARE_OF_LIMIT).max(TARGET_CAP_MIN)
        };
        if now >= self.echo.until || feedback.host_drops {
            self.bound.target_cap = self.bound.target_cap.min(cap);
            self.bound.is_opening = false;
            self.bound.next_cap_step = now + TARGET_CAP_STEP;
        }
    }

    /// A delay that stays although this flow has gone down to `DOUBT_SHARE` of its rate is not this flow's
    /// queue: the path has become longer, or others fill it. Take it for the path's own.
    fn doubt_base(&mut self, feedback: &Feedback<'_>) {
        let now = feedback.now;
        if self.delays.queue <= self.target().mul_f64(1.2) {
            self.delays.delayed_since = None;
            return;
        }
        let (since, rate) = *self.delays.delayed_since.get_or_insert((now, self.rate));
        let patience = DOUBT_AFTER.max(feedback.smoothed_rtt * 6);
        if now.since(since) >= patience && self.rate < rate.mul_f64(DOUBT_SHARE) {
            self.delays.base_owd.clear();
            self.delays.recent_owd.clear();
            self.losses.by_delay.clear();
            self.delays.queue = Span::ZERO;
            self.delays.delayed_since = None;
        }
    }

    /// A host that was busy for a moment drops what its path has carried. So the rate of before
    /// is gone back to in a few RTT, unless a queue or loss says meanwhile that the path is full.
    fn way_back(&mut self, now: Time) -> Option<Rate> {
        let goal = self.host.before_drops?.mul_f64(BACK_SHARE);
        if self.capacity >= goal {
            if now >= self.host.drops_felt_until {
                self.host.before_drops = None;
            }
            return None;
        }
        let clear = self.delays.queue <= self.target() / 2 && now >= self.losses.congested_until;
        clear.then(|| self.capacity.mul_f64(1.0 + PROBE_BACK).min(goal))
    }

    /// Lets the queue run empty now and then, to see the delay without it.
    fn drain(&mut self, feedback: &Feedback<'_>) {
        let sent = self.rate.as_f64() / self.capacity.as_f64().max(1.0);
        let seen = Seen {
            base: self.delays.base_owd.min().unwrap_or(0),
            queue: self.delays.queue,
            target: self.target(),
            delayed_since: self.delays.delayed_since.map(|(at, _)| at),
            suspects: self.company.suspects(),
            by_chance: self.losses.believed,
        };
        let left = self
            .drains
            .step(feedback.now, feedback.smoothed_rtt, sent, &seen);
        if let Some(share) = left
            && matches!(self.stage, Stage::Cruise)
            && self.delays.queue > self.target() / 2
        {
            let (until, look) = (self.drains.until(), self.look(feedback));
            self.company.on_drain(feedback.now, until, share, &look);
        }
        self.stage = match left {
            Some(share) => {
                let left = self.capacity.mul_f64(share);
                self.rate = self.rate.min(left).max(RATE_MIN);
                Stage::Drain
            }
            None => Stage::Cruise,
        };
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "{:?} rate {} capacity {} queue {} of {} loss {:.3}% (limit {:.2}%) probe {:.2} marks {}",
            self.stage.phase(),
            self.rate,
            self.capacity,
            self.delays.queue,
            self.target(),
            self.last.map_or(0.0, |s| s.loss * 100.0),
            self.loss_threshold() * 100.0,
            self.probing.share,
            self.marks.describe(),
        )
    }
}
