//! How fast to send.
//!
//! The receiver measures, the sender decides: reports give what was delivered and when, by the
//! receiver's clock, so that delays of the reports themselves do not disturb the measurement.
//! Docs: docs/rate-control.md.

mod background;
mod company;
mod drains;
mod fair;
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
pub use fair::Phase;
pub(crate) use history::Point;
use howdah_core::{Rate, Span, Time};
pub use knowledge::PathKnowledge;
pub use share::Share;
use smallvec::SmallVec;
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

/// The rate control of one connection.
#[derive(Debug)]
pub(crate) struct RateControl {
    policy: Policy,
    fair: Box<Fair>,
    background: Option<Box<Background>>,
    breaker_rounds: u32,
    breaker_at: Time,
    tripped: bool,
    /// Asked for each train and each wake-up, while it changes with reports.
    window_bytes: u64,
}

impl RateControl {
    pub(crate) fn new(policy: Policy, share: Share) -> Self {
        let mut control = Self {
            policy,
            fair: Box::new(Fair::new(share)),
            background: (policy == Policy::Background).then(|| Box::new(Background::new())),
            breaker_rounds: 0,
            breaker_at: Time::ZERO,
            tripped: false,
            window_bytes: 0,
        };
        control.renew_window();
        control
    }

    /// Another policy from now on. What `Fair` has learnt stays; a fixed rate gets a new chance.
    pub(crate) fn set_policy(&mut self, policy: Policy, rtt: Span) {
        if policy == self.policy {
            return;
        }
        self.policy = policy;
        self.tripped = false;
        self.breaker_rounds = 0;
        self.background = (policy == Policy::Background).then(|| {
            let mut background = Background::new();
            background.on_established(rtt);
            Box::new(background)
        });
        self.renew_window();
    }

    /// What `Fair` counts for from now on.
    pub(crate) fn set_share(&mut self, share: Share) {
        self.fair.set_share(share);
        self.renew_window();
    }

    /// What decides now: a fixed rate that was given up is `Fair`.
    pub(crate) fn policy(&self) -> Policy {
        if self.tripped {
            Policy::Fair
        } else {
            self.policy
        }
    }

    /// The first RTT is known (from the handshake).
    pub(crate) fn on_established(&mut self, rtt: Span) {
        self.fair.on_established(rtt);
        if let Some(background) = &mut self.background {
            background.on_established(rtt);
        }
        self.renew_window();
    }

    pub(crate) fn on_feedback(&mut self, feedback: &Feedback<'_>) {
        match &mut self.background {
            Some(background) => background.on_feedback(feedback),
            None => self.on_feedback_without_background(feedback),
        }
        self.renew_window();
    }

    fn on_feedback_without_background(&mut self, feedback: &Feedback<'_>) {
        self.fair.on_feedback(feedback);
        if let Policy::Fixed(rate) = self.policy
            && !self.tripped
            && feedback.now.since(self.breaker_at) >= feedback.smoothed_rtt
        {
            self.breaker_at = feedback.now;
            let starved = self.fair.last_sample().is_some_and(|sample| {
                sample.send_rate.as_f64() > BREAKER_SHARE * rate.as_f64()
                    && sample.delivery_rate.as_f64() < BREAKER_SHARE * sample.send_rate.as_f64()
            });
            self.breaker_rounds = if starved { self.breaker_rounds + 1 } else { 0 };
            self.tripped = self.breaker_rounds >= BREAKER_ROUNDS;
        }
    }

    /// The last connection over this path knew this of it: a hint, used if the handshake took as long as then.
    pub(crate) fn resume(&mut self, known: &PathKnowledge, rtt: Span) {
        if self.policy == Policy::Fair && known.fits(rtt) {
            self.fair.resume(known);
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
        if let Some(background) = &mut self.background {
            background.on_blackout();
        }
        self.renew_window();
    }

    /// Rate of UDP payload bytes.
    pub(crate) fn pacing_rate(&self) -> Rate {
        match (self.policy, &self.background) {
            (Policy::Fixed(rate), _) if !self.tripped => rate,
            (_, Some(background)) => background.pacing_rate(),
            _ => self.fair.pacing_rate(),
        }
    }

    /// Packets leave in bursts of that length instead of evenly, to measure the path.
    pub(crate) fn burst(&self) -> Option<Span> {
        match self.policy {
            Policy::Fixed(_) if !self.tripped => None,
            // Bursts are a queue for others.
            Policy::Background => None,
            _ => self.fair.burst(),
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
        match self.policy {
            Policy::Fixed(_) if !self.tripped => false,
            _ => self.background.is_some() || self.fair.wants_fine_pacing(),
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
        match self.policy {
            Policy::Fixed(rate) if !self.tripped => {
                // Enough for reports that come late; the rate is what limits.
                rate.bytes_in(self.fair.base_rtt() * 2 + Span::from_millis(250))
                    .max(1 << 16)
            }
            _ => match &self.background {
                Some(background) => background.window_bytes(),
                None => self.fair.window_bytes(),
            },
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        let background = self.background.as_ref();
        background.map_or_else(|| self.fair.phase(), |b| b.phase())
    }

    /// What the path carries; zero while start-up looks for it.
    pub(crate) fn capacity(&self) -> Rate {
        let background = self.background.as_ref();
        background.map_or_else(|| self.fair.capacity(), |b| b.capacity())
    }

    /// Estimate of the time that packets wait in queues on the way.
    pub(crate) fn queue_delay(&self) -> Span {
        let background = self.background.as_ref();
        background.map_or_else(|| self.fair.queue_delay(), |b| b.queue_delay())
    }

    fn last_sample(&self) -> Option<history::Sample> {
        let background = self.background.as_ref();
        background.map_or_else(|| self.fair.last_sample(), |b| b.last_sample())
    }

    /// Loss over the last RTT or so.
    pub(crate) fn loss(&self) -> f64 {
        self.last_sample().map_or(0.0, |sample| sample.loss)
    }

    /// Rate at which bytes arrived over the last RTT or so.
    pub(crate) fn delivery_rate(&self) -> Rate {
        self.last_sample()
            .map_or(Rate::ZERO, |sample| sample.delivery_rate)
    }

    pub(crate) fn breaker_tripped(&self) -> bool {
        self.tripped
    }

    /// One line for traces.
    pub(crate) fn describe(&self) -> String {
        let background = self.background.as_ref();
        background.map_or_else(|| self.fair.describe(), |b| b.describe())
    }
}
