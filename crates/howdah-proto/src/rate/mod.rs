//! How fast to send.
//!
//! The receiver measures, the sender decides: reports give what was delivered and when, by the
//! receiver's clock, so that delays of the reports themselves do not disturb the measurement.
//! Docs: docs/rate-control.md.

mod background;
mod company;
mod drains;
mod fair;
mod headroom;
mod history;
mod knowledge;
mod marks;
mod noise;
mod overflow;
mod room;
mod share;
pub(crate) mod sink;
pub(crate) mod socket;
mod startup;
mod trains;
mod yielding;

use background::Background;
use fair::Fair;
pub(crate) use history::Point;
use howdah_core::{Rate, Span, Time};
pub use knowledge::PathKnowledge;
pub use share::Share;
use smallvec::SmallVec;
pub(crate) use startup::BURST;
pub(crate) use trains::TrainPoint;

/// How the path is shared.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Policy {
    /// Fills the path, gives way when its queue grows.
    #[default]
    Fair,
    /// That rate of UDP payload, for a dedicated circuit. Falls back to `Fair` when less than 70 %
    /// of it is delivered.
    Fixed(Rate),
    /// Takes what nobody else wants: gives way to everybody who makes a queue.
    Background,
}

/// A fixed rate is given up when less than this share of it arrives.
const BREAKER_SHARE: f64 = 0.7;
/// ... for that many reports' windows in a row, each at least an RTT apart.
const BREAKER_ROUNDS: u32 = 8;

/// What one report says, put together with what was sent.
#[derive(Clone, Debug)]
pub(crate) struct Feedback<'a> {
    pub(crate) now: Time,
    pub(crate) point: Point,
    /// Round trip of the newest packet, if it was measured.
    pub(crate) rtt: Option<Span>,
    pub(crate) min_rtt: Span,
    pub(crate) smoothed_rtt: Span,
    /// Datagrams that the receiving socket dropped since the last report.
    pub(crate) socket_drops: u64,
    /// What the [sink] allows, if it is known.
    pub(crate) sink_limit: Option<Rate>,
    /// How fast the user allows it to be.
    pub(crate) cap: Option<Rate>,
    /// Packets that came as far as the receiving host were dropped there since the last report.
    pub(crate) host_drops: bool,
    /// Packets that the sink refused are being called lost.
    pub(crate) refusing: bool,
    /// When the packets were sent that this report calls lost on the way.
    pub(crate) lost_sent_at: &'a [Time],
    /// Packets that could be marked on the way and came, and those that were, since the beginning, if that can be believed.
    pub(crate) marks: Option<(u64, u64)>,
    /// Arrivals inside trains, oldest first.
    pub(crate) train: SmallVec<[TrainPoint; 8]>,
}

impl Feedback<'_> {
    /// So long what happened now is still seen in reports.
    fn echo(&self) -> Span {
        self.smoothed_rtt * 2 + Span::from_millis(100)
    }

    /// What limits apart from the path.
    fn limit(&self) -> Option<Rate> {
        match (self.sink_limit, self.cap) {
            (Some(sink), Some(cap)) => Some(sink.min(cap)),
            (sink, cap) => sink.or(cap),
        }
    }
}

/// What a policy is doing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// Looking for the capacity for the first time.
    Startup,
    /// Holding the queue at its target.
    Cruise,
    /// Letting the queue run empty, to see the delay without it.
    Drain,
}

/// What a policy has found out.
#[derive(Clone, Copy, Debug)]
struct Measured {
    phase: Phase,
    /// Of no meaning while start-up looks for it.
    capacity: Rate,
    /// Estimate of the time that packets wait in queues on the way.
    queue_delay: Span,
    /// Of the last RTT or so.
    sample: Option<history::Sample>,
}

/// The policy in force, with what only that has to know. Each goes through start-up by itself: [`Fair`] and [`Background`] hold where
/// they stand, a fixed rate needs none.
#[derive(Debug)]
enum InForce {
    Fair,
    /// [`Fair`] measures along, for the breaker and for the time after it.
    Fixed {
        rate: Rate,
        /// So many times in a row too little of it has arrived.
        starved: u32,
    },
    /// That fixed rate did not arrive: [`Fair`] decides until another policy is set.
    Tripped {
        rate: Rate,
    },
    Background(Box<Background>),
}

impl InForce {
    fn begin(policy: Policy) -> Self {
        match policy {
            Policy::Fair => Self::Fair,
            Policy::Fixed(rate) => Self::Fixed { rate, starved: 0 },
            Policy::Background => Self::Background(Box::new(Background::new())),
        }
    }

    /// What the user has set.
    fn policy(&self) -> Policy {
        match *self {
            Self::Fair => Policy::Fair,
            Self::Fixed { rate, .. } | Self::Tripped { rate } => Policy::Fixed(rate),
            Self::Background(_) => Policy::Background,
        }
    }
}

/// The rate control of one connection.
#[derive(Debug)]
pub(crate) struct RateControl {
    in_force: InForce,
    /// Whatever is in force, what it has learnt stays.
    fair: Box<Fair>,
    /// When a fixed rate was judged last: another one is not judged by the same round trip.
    judged_at: Time,
    /// Asked for each train and each wake-up, while it changes with reports.
    window_bytes: u64,
}

impl RateControl {
    pub(crate) fn new(policy: Policy, share: Share) -> Self {
        let mut control = Self {
            in_force: InForce::begin(policy),
            fair: Box::new(Fair::new(share)),
            judged_at: Time::ZERO,
            window_bytes: 0,
        };
        control.renew_window();
        control
    }

    /// Another policy from now on. What `Fair` has learnt stays; a fixed rate gets a new chance.
    pub(crate) fn set_policy(&mut self, policy: Policy, rtt: Span) {
        if policy == self.in_force.policy() {
            return;
        }
        self.in_force = InForce::begin(policy);
        if let InForce::Background(background) = &mut self.in_force {
            background.on_established(rtt);
        }
        self.renew_window();
    }

    /// What `Fair` counts for from now on.
    pub(crate) fn set_share(&mut self, share: Share) {
        self.fair.set_share(share);
        self.renew_window();
    }

    /// What decides now: a fixed rate that was given up is `Fair`.
    pub(crate) fn policy(&self) -> Policy {
        match &self.in_force {
            InForce::Tripped { .. } => Policy::Fair,
            other => other.policy(),
        }
    }

    /// The first RTT is known (from the handshake).
    pub(crate) fn on_established(&mut self, rtt: Span) {
        self.fair.on_established(rtt);
        if let InForce::Background(background) = &mut self.in_force {
            background.on_established(rtt);
        }
        self.renew_window();
    }

    pub(crate) fn on_feedback(&mut self, feedback: &Feedback<'_>) {
        match &mut self.in_force {
            InForce::Background(background) => background.on_feedback(feedback),
            InForce::Fair | InForce::Tripped { .. } => self.fair.on_feedback(feedback),
            InForce::Fixed { .. } => {
                self.fair.on_feedback(feedback);
                self.judge_fixed(feedback);
            }
        }
        self.renew_window();
    }

    /// Gives a fixed rate up of which too little arrives for too long.
    fn judge_fixed(&mut self, feedback: &Feedback<'_>) {
        let InForce::Fixed { rate, starved } = &mut self.in_force else {
            return;
        };
        if feedback.now.since(self.judged_at) < feedback.smoothed_rtt {
            return;
        }
        self.judged_at = feedback.now;
        let is_starved = self.fair.measured().sample.is_some_and(|sample| {
            sample.send_rate.as_f64() > BREAKER_SHARE * rate.as_f64()
                && sample.delivery_rate.as_f64() < BREAKER_SHARE * sample.send_rate.as_f64()
        });
        *starved = if is_starved { *starved + 1 } else { 0 };
        if *starved >= BREAKER_ROUNDS {
            self.in_force = InForce::Tripped { rate: *rate };
        }
    }

    /// The last connection over this path knew this of it: a hint, used if the handshake took as long as then.
    pub(crate) fn resume(&mut self, known: &PathKnowledge, rtt: Span) {
        if matches!(self.in_force, InForce::Fair) && known.fits(rtt) {
            self.fair.resume(known, rtt);
            self.renew_window();
        }
    }

    /// What came of the train that was sent with the handshake: its ends, and whether nearly all of it came.
    pub(crate) fn on_ahead(&mut self, now: Time, points: &[TrainPoint; 2], whole: bool) {
        if matches!(self.in_force, InForce::Fair) {
            self.fair.on_ahead(now, points, whole);
            self.renew_window();
        }
    }

    /// What the next connection over this path may begin with; nothing before start-up is over.
    pub(crate) fn knowledge(&self) -> Option<PathKnowledge> {
        self.fair.knowledge().filter(PathKnowledge::is_plausible)
    }

    /// No report came for so long that what was known is stale.
    pub(crate) fn on_blackout(&mut self) {
        self.fair.on_blackout();
        if let InForce::Background(background) = &mut self.in_force {
            background.on_blackout();
        }
        self.renew_window();
    }

    /// Rate of UDP payload bytes.
    pub(crate) fn pacing_rate(&self) -> Rate {
        match &self.in_force {
            InForce::Fair | InForce::Tripped { .. } => self.fair.pacing_rate(),
            InForce::Fixed { rate, .. } => *rate,
            InForce::Background(background) => background.pacing_rate(),
        }
    }

    /// Packets leave in bursts of that length instead of evenly, to measure the path.
    pub(crate) fn burst(&self) -> Option<Span> {
        match &self.in_force {
            InForce::Fair | InForce::Tripped { .. } => self.fair.burst(),
            // Bursts are a queue for others.
            InForce::Fixed { .. } | InForce::Background(_) => None,
        }
    }

    /// Nothing happens that more reports would tell more of.
    pub(crate) fn is_calm(&self, now: Time) -> bool {
        match &self.in_force {
            InForce::Fair | InForce::Tripped { .. } => self.fair.is_calm(now),
            InForce::Fixed { .. } | InForce::Background(_) => false,
        }
    }

    /// Whether the receiver is to be asked for a report, and to tell when the packets of the next bursts arrive.
    pub(crate) fn take_ask(&mut self) -> bool {
        self.fair.take_ask() && self.burst().is_some()
    }

    /// Bytes that leave at once when the rate becomes `rate`, where bursts measure the path.
    pub(crate) fn first_burst_bytes(&self, rate: Rate) -> Option<u64> {
        self.burst()?;
        self.fair.first_burst_bytes(rate)
    }

    /// Trains are to be short: the queue is, or is meant to be.
    pub(crate) fn wants_fine_pacing(&self) -> bool {
        match &self.in_force {
            InForce::Fair | InForce::Tripped { .. } => self.fair.wants_fine_pacing(),
            InForce::Fixed { .. } => false,
            InForce::Background(_) => true,
        }
    }

    /// Bytes that may leave at once when the connection is established.
    pub(crate) const fn opening_bytes() -> u64 {
        Fair::opening_bytes()
    }

    /// Bytes that may be unreported.
    pub(crate) fn window_bytes(&self) -> u64 {
        debug_assert_eq!(self.window_bytes, self.window());
        self.window_bytes
    }

    /// Whatever changes what decides calls this at its end.
    fn renew_window(&mut self) {
        self.window_bytes = self.window();
    }

    fn window(&self) -> u64 {
        match &self.in_force {
            InForce::Fair | InForce::Tripped { .. } => self.fair.window_bytes(),
            // Enough for reports that come late; the rate is what limits.
            InForce::Fixed { rate, .. } => rate
                .bytes_in(self.fair.base_rtt() * 2 + Span::from_millis(250))
                .max(1 << 16),
            InForce::Background(background) => background.window_bytes(),
        }
    }

    fn measured(&self) -> Measured {
        match &self.in_force {
            InForce::Background(background) => background.measured(),
            InForce::Fair | InForce::Fixed { .. } | InForce::Tripped { .. } => self.fair.measured(),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.measured().phase
    }

    /// What the path carries; zero while start-up looks for it.
    pub(crate) fn capacity(&self) -> Rate {
        match self.measured() {
            Measured {
                phase: Phase::Startup,
                ..
            } => Rate::ZERO,
            measured => measured.capacity,
        }
    }

    /// Estimate of the time that packets wait in queues on the way.
    pub(crate) fn queue_delay(&self) -> Span {
        self.measured().queue_delay
    }

    /// Loss over the last RTT or so.
    pub(crate) fn loss(&self) -> f64 {
        self.measured().sample.map_or(0.0, |sample| sample.loss)
    }

    /// Rate at which bytes arrived over the last RTT or so.
    pub(crate) fn delivery_rate(&self) -> Rate {
        let sample = self.measured().sample;
        sample.map_or(Rate::ZERO, |sample| sample.delivery_rate)
    }

    pub(crate) fn breaker_tripped(&self) -> bool {
        matches!(self.in_force, InForce::Tripped { .. })
    }

    /// One line for traces.
    pub(crate) fn describe(&self) -> String {
        match &self.in_force {
            InForce::Background(background) => background.describe(),
            InForce::Fair | InForce::Fixed { .. } | InForce::Tripped { .. } => self.fair.describe(),
        }
    }
}

#[cfg(test)]
mod tests;
