//! H-TCP: growth that depends on the time since the last loss, and a decrease that depends on the
//! queue.
//!
//! Sources: D. Leith, R. Shorten, "H-TCP: TCP for high-speed and long-distance networks", PFLDnet
//! 2004, and draft-leith-tcp-htcp-06, in the form of Linux (`tcp_htcp.c`). With D the time
//! in seconds since the last congestion event ended, beyond a first second of Reno:
//!
//! ```text
//! f(D) = 1                                      D <= 1
//!        1 + 10 (D - 1) + ((D - 1)/2)^2         D > 1
//! alpha = 2 (1 - beta) max(f / s, 1)            segments per round trip
//! s = clamp(100 ms / minRTT, 0.5, 10)
//! beta = clamp(minRTT / maxRTT, 0.5, 0.8)
//! ```
//!
//! * **RTT scaling** (s) makes the growth per second the same at every RTT. Linux computes
//!   `s = (HZ << 3) / (10 minRTT)` in units of 1/8, which is 100 ms / minRTT.
//! * **Adaptive backoff**: beta is chosen so that the queue just empties. It stays 0.5 until one
//!   event has passed, if minRTT is at most 10 ms, and (**bandwidth switch**) if the highest
//!   throughput of this epoch differs by more than a fifth from that of the epoch before.
//!   The factor 2 (1 - beta) makes the time from a loss back to the window independent of beta.
//! * maxRTT is taken outside recovery only, rises by 20 ms at most for one sample, and forgets
//!   5 % of its excess over minRTT at each event.
//!
//! Growth counts acknowledged segments, so a receiver that delays acknowledgements does not slow
//! it. Linux computes in integers (f is cut to whole numbers
//! before the scaling): here it is fractional. JGN06 ran the Hamilton Institute's patch for Linux
//! 2.4.20 (altAIMD), whose defaults are not known to us; all three options are on, as in Linux 2.6.

use super::window::Window;
use super::{Ack, CcSettings, Congestion, CongestionControl, Entry, Phase};
use howdah_core::{Span, Time};

/// Registration.
pub const ENTRY: Entry = Entry {
    name: "htcp",
    about: "H-TCP (Leith, Shorten 2004; Linux) with RTT scaling and adaptive backoff",
    make: |settings| Box::new(Htcp::new(settings)),
};

/// Seconds of Reno after a congestion event.
const RENO_SECONDS: f64 = 1.0;
/// The RTT at which scaling changes nothing.
const REFERENCE_RTT_S: f64 = 0.1;
const LEAST_BETA: f64 = 0.5;
/// Linux: 102/128.
const MOST_BETA: f64 = 102.0 / 128.0;
/// Paths shorter than this get no adaptive backoff.
const ADAPTIVE_FROM: Span = Span::from_millis(10);
/// By how much one sample may raise the greatest RTT.
const MAX_RTT_STEP: Span = Span::from_millis(20);
/// What the greatest RTT keeps of its excess at each event.
const MAX_RTT_MEMORY: f64 = 0.95;
/// Throughput of two epochs that differs by more than this share switches the backoff.
const BANDWIDTH_SWITCH: f64 = 0.2;

/// What can be switched off.
#[derive(Clone, Copy, Debug)]
struct Options {
    rtt_scaling: bool,
    bandwidth_switch: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rtt_scaling: true,
            bandwidth_switch: true,
        }
    }
}

/// The state that a spurious reduction gives back.
#[derive(Clone, Copy, Debug)]
struct Before {
    last_event: Option<Time>,
    max_rtt: Span,
    last_epoch_rate: f64,
}

/// Throughput of this epoch and of the one before, in segments a second.
#[derive(Clone, Copy, Debug, Default)]
struct Throughput {
    segments: u64,
    since: Option<Time>,
    smoothed: f64,
    max: f64,
    last_epoch: f64,
}

impl Throughput {
    /// Counts an acknowledgement; takes a sample once a window and a least RTT have passed.
    fn on_ack(&mut self, ack: &Ack, window: f64, min_rtt: Span, young_epoch: bool) {
        if ack.phase != Phase::Open {
            self.segments = 0;
            self.since = Some(ack.now);
            return;
        }
        let since = *self.since.get_or_insert(ack.now);
        self.segments += u64::from(ack.acked_segments);
        let elapsed = ack.now.since(since);
        if (self.segments as f64) < window || elapsed < min_rtt || elapsed.is_zero() {
            return;
        }
        let sample = self.segments as f64 / elapsed.as_secs_f64();
        if young_epoch {
            self.smoothed = sample;
            self.max = sample;
        } else {
            self.smoothed = 0.75 * self.smoothed + 0.25 * sample;
            self.max = self.max.max(self.smoothed);
        }
        self.segments = 0;
        self.since = Some(ack.now);
    }

    /// Ends an epoch; whether its throughput was unlike that of the one before.
    fn changed_with_epoch(&mut self) -> bool {
        let before = std::mem::replace(&mut self.last_epoch, self.max);
        (self.max - before).abs() > BANDWIDTH_SWITCH * before
    }
}

/// H-TCP.
#[derive(Clone, Debug)]
pub struct Htcp {
    window: Window,
    options: Options,
    /// Segments per round trip.
    alpha: f64,
    beta: f64,
    /// An event has passed under steady throughput: beta may follow the queue.
    adaptive: bool,
    min_rtt: Option<Span>,
    max_rtt: Span,
    /// End of the last congestion event; before the first, the start.
    last_event: Option<Time>,
    in_event: bool,
    throughput: Throughput,
    before: Option<Before>,
}

impl Htcp {
    /// At the initial window, with every option on.
    pub fn new(settings: &CcSettings) -> Self {
        Self::with(settings, Options::default())
    }

    fn with(settings: &CcSettings, options: Options) -> Self {
        Self {
            window: Window::new(settings),
            options,
            alpha: 1.0,
            beta: LEAST_BETA,
            adaptive: false,
            min_rtt: None,
            max_rtt: Span::ZERO,
            last_event: None,
            in_event: false,
            throughput: Throughput::default(),
            before: None,
        }
    }

    fn measure_rtt(&mut self, rtt: Span, phase: Phase) {
        let min_rtt = self.min_rtt.map_or(rtt, |least| least.min(rtt));
        self.min_rtt = Some(min_rtt);
        if phase == Phase::Open {
            self.max_rtt = self.max_rtt.max(min_rtt);
            if rtt > self.max_rtt && rtt <= self.max_rtt + MAX_RTT_STEP {
                self.max_rtt = rtt;
            }
        }
    }

    fn since_event(&self, now: Time) -> Span {
        self.last_event.map_or(Span::ZERO, |event| now.since(event))
    }

    fn update_alpha(&mut self, now: Time) {
        let beyond = self.since_event(now).as_secs_f64() - RENO_SECONDS;
        let mut factor = 1.0;
        if beyond > 0.0 {
            factor += 10.0 * beyond + (beyond / 2.0) * (beyond / 2.0);
        }
        if let Some(min_rtt) = self.min_rtt.filter(|_| self.options.rtt_scaling) {
            let scale = (REFERENCE_RTT_S / min_rtt.as_secs_f64()).clamp(0.5, 10.0);
            factor = (factor / scale).max(1.0);
        }
        self.alpha = 2.0 * factor * (1.0 - self.beta);
    }

    fn update_beta(&mut self) {
        if self.options.bandwidth_switch && self.throughput.changed_with_epoch() {
            self.beta = LEAST_BETA;
            self.adaptive = false;
            return;
        }
        let min_rtt = self.min_rtt.unwrap_or(Span::ZERO);
        if self.adaptive && min_rtt > ADAPTIVE_FROM && !self.max_rtt.is_zero() {
            let ratio = min_rtt.as_secs_f64() / self.max_rtt.as_secs_f64();
            self.beta = ratio.clamp(LEAST_BETA, MOST_BETA);
        } else {
            self.beta = LEAST_BETA;
            self.adaptive = true;
        }
    }

    /// A congestion event begins; returns the window that shall stand after it.
    fn begin_event(&mut self, now: Time) -> f64 {
        self.before = Some(Before {
            last_event: self.last_event,
            max_rtt: self.max_rtt,
            last_epoch_rate: self.throughput.last_epoch,
        });
        self.update_beta();
        self.update_alpha(now);
        if let Some(min_rtt) = self.min_rtt {
            let excess = self.max_rtt.saturating_sub(min_rtt);
            self.max_rtt = min_rtt + excess.mul_f64(MAX_RTT_MEMORY);
        }
        self.last_event = Some(now);
        self.in_event = true;
        self.window.cwnd * self.beta
    }

    /// Time counts from the end of the event.
    fn end_event(&mut self, now: Time) {
        if self.in_event {
            self.in_event = false;
            self.last_event = Some(now);
        }
    }
}

impl CongestionControl for Htcp {
    fn name(&self) -> &'static str {
        "htcp"
    }

    fn cwnd(&self) -> f64 {
        self.window.cwnd
    }

    fn ssthresh(&self) -> f64 {
        self.window.ssthresh
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.last_event.get_or_insert(ack.now);
        if ack.phase == Phase::Open {
            self.end_event(ack.now);
        }
        if let Some(rtt) = ack.rtt {
            self.measure_rtt(rtt, ack.phase);
        }
        if self.options.bandwidth_switch
            && let Some(min_rtt) = self.min_rtt
        {
            let young = self.since_event(ack.now) < min_rtt * 4;
            let window = self.window.cwnd - self.alpha.max(1.0);
            self.throughput.on_ack(ack, window, min_rtt, young);
        }
        if !self.window.may_grow(ack) {
            return;
        }
        if self.window.in_slow_start() {
            self.window.grow_slow_start(ack);
        } else {
            self.update_alpha(ack.now);
            self.window.cwnd += self.alpha * f64::from(ack.acked_segments) / self.window.cwnd;
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        let target = self.begin_event(event.now);
        self.window.reduce_to(target);
    }

    fn on_recovered(&mut self, now: Time) {
        self.window.recovered();
        self.end_event(now);
    }

    fn on_timeout(&mut self, event: &Congestion) {
        let target = if self.window.timeout_is_news() {
            self.begin_event(event.now)
        } else {
            self.last_event = Some(event.now);
            self.window.ssthresh
        };
        self.window.collapse(target);
    }

    fn on_undo(&mut self, _now: Time) {
        self.window.undo();
        if let Some(before) = self.before.take() {
            self.last_event = before.last_event;
            self.max_rtt = before.max_rtt;
            self.throughput.last_epoch = before.last_epoch_rate;
            self.in_event = false;
        }
    }

    fn on_restart(&mut self, _now: Time, _idle: Span) {
        self.window.restart();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::testkit::{self, Pipe, START};

    const UNSCALED: Options = Options {
        rtt_scaling: false,
        bandwidth_switch: true,
    };

    /// Seconds from `from` to `to` segments at 180 ms after an event, with a fixed beta.
    fn ramp_seconds(options: Options, beta: f64, from: f64, to: f64) -> f64 {
        let mut htcp = Htcp::with(&testkit::settings(), options);
        htcp.window.cwnd = from;
        htcp.window.ssthresh = from;
        htcp.beta = beta;
        htcp.last_event = Some(START);
        let mut pipe = Pipe::new(htcp);
        pipe.base_rtt = Span::from_millis(180);
        pipe.run_until(|pipe| pipe.cc.cwnd() >= to).as_secs_f64()
    }

    #[test]
    fn the_ramp_at_1_gbit_and_180_ms() {
        // Integral of alpha(D)/RTT dD = 7300.
        let seconds = ramp_seconds(UNSCALED, 0.5, 7300.0, 14_600.0);
        assert!((seconds - 15.5).abs() < 0.3, "{seconds}");
        let seconds = ramp_seconds(Options::default(), 0.5, 7300.0, 14_600.0);
        assert!((seconds - 12.0).abs() < 0.3, "{seconds}");
        // The factor 2 (1 - beta) makes it independent of beta.
        let seconds = ramp_seconds(UNSCALED, 0.8, 11_680.0, 14_600.0);
        assert!((seconds - 15.5).abs() < 0.3, "{seconds}");
    }

    #[test]
    fn the_first_second_is_reno() {
        let mut htcp = Htcp::with(&testkit::settings(), UNSCALED);
        htcp.last_event = Some(Time::ZERO);
        htcp.update_alpha(Time::ZERO + Span::from_secs(1));
        testkit::assert_near(htcp.alpha, 1.0);
        htcp.update_alpha(Time::ZERO + Span::from_secs(3));
        testkit::assert_near(htcp.alpha, 22.0);
    }

    #[test]
    fn scaling_is_bounded() {
        let mut htcp = Htcp::new(&testkit::settings());
        htcp.last_event = Some(Time::ZERO);
        let now = Time::ZERO + Span::from_secs(3);
        for (rtt_ms, alpha) in [(1, 2.2), (100, 22.0), (180, 39.6), (400, 44.0)] {
            htcp.min_rtt = Some(Span::from_millis(rtt_ms));
            htcp.update_alpha(now);
            assert!(
                (htcp.alpha - alpha).abs() < 1e-9,
                "{rtt_ms}: {}",
                htcp.alpha
            );
        }
    }

    /// An event at a queue that makes the RTT `max_ms`, throughput steady unless `rates` differ.
    fn beta_after_events(min_ms: u64, max_ms: u64, rates: [f64; 3]) -> f64 {
        let mut htcp = Htcp::new(&testkit::settings());
        for rate in rates {
            htcp.min_rtt = Some(Span::from_millis(min_ms));
            htcp.max_rtt = Span::from_millis(max_ms);
            htcp.throughput.max = rate;
            htcp.on_congestion(&Congestion::default());
        }
        htcp.beta
    }

    #[test]
    fn backoff_follows_the_queue_when_throughput_is_steady() {
        let steady = [1000.0; 3];
        assert!((beta_after_events(100, 150, steady) - 100.0 / 150.0).abs() < 1e-9);
        testkit::assert_near(beta_after_events(100, 101, steady), MOST_BETA);
        testkit::assert_near(beta_after_events(100, 300, steady), LEAST_BETA);
        testkit::assert_near(beta_after_events(10, 12, steady), LEAST_BETA);
        let changed = [1000.0, 1000.0, 1300.0];
        testkit::assert_near(beta_after_events(100, 150, changed), LEAST_BETA);
    }

    #[test]
    fn the_greatest_rtt_climbs_in_steps_and_fades() {
        let mut htcp = Htcp::new(&testkit::settings());
        let ms = Span::from_millis;
        htcp.measure_rtt(ms(100), Phase::Open);
        htcp.measure_rtt(ms(130), Phase::Open);
        assert_eq!(htcp.max_rtt, ms(100), "more than 20 ms at once is ignored");
        htcp.measure_rtt(ms(120), Phase::Open);
        htcp.measure_rtt(ms(140), Phase::Recovery);
        assert_eq!(htcp.max_rtt, ms(120));
        htcp.on_congestion(&Congestion::default());
        assert_eq!(htcp.max_rtt, ms(119));
    }

    #[test]
    fn undo_restores_the_epoch() {
        let mut htcp = Htcp::new(&testkit::settings());
        htcp.window.cwnd = 1000.0;
        htcp.last_event = Some(Time::ZERO);
        let event = Congestion {
            now: Time::ZERO + Span::from_secs(10),
            ..Congestion::default()
        };
        htcp.on_congestion(&event);
        testkit::assert_near(htcp.cwnd(), 500.0);
        htcp.on_undo(event.now);
        testkit::assert_near(htcp.cwnd(), 1000.0);
        assert_eq!(htcp.last_event, Some(Time::ZERO));
    }

    #[test]
    fn time_counts_from_the_end_of_recovery() {
        let mut htcp = Htcp::new(&testkit::settings());
        htcp.on_congestion(&Congestion::default());
        let end = Time::ZERO + Span::from_millis(180);
        htcp.on_recovered(end);
        assert_eq!(htcp.last_event, Some(end));
    }
}
