//! The native rate control: a sending period that shrinks by the estimated spare capacity and grows
//! by an eighth for losses.
//!
//! draft-gg-udt-03, section 3.6 and Gu, Hong and Grossman (2004, 2007); the values that differ between
//! versions are in [`Rules`]. Rates are in packets per second, periods in microseconds per packet.

use super::config::{LaterCuts, Rules, SYN, SYN_US, Start, WindowAt};
use howdah_core::{Span, Time};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Increase per SYN and per decade of spare capacity, in packets of a byte: the published 1.5e-6.
const BETA: f64 = 0.000_001_5;
/// The first report that cuts again where the distance doubles: 2^4.
const FIRST_LATER: u32 = 16;
/// A cut makes the period longer by an eighth: the rate falls to 8/9.
const CUT: f64 = 1.125;

/// What a sender knows about the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathState {
    pub(crate) rtt_us: u32,
    /// Smoothed speed of arrival.
    pub(crate) arrival_pps: u32,
    /// Smoothed capacity.
    pub(crate) capacity_pps: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct RateControl {
    rules: Rules,
    packet_bytes: u32,
    period_us: f64,
    window: f64,
    max_window: f64,
    starting: bool,
    last_update: Time,
    last_ack: u64,
    /// A report came since the last update.
    loss: bool,
    /// Highest packet sent at the last cut; losses above it begin a new epoch.
    last_cut: Option<u64>,
    period_before_cut_us: f64,
    average_reports: f64,
    reports: u32,
    cut_every: u32,
    later: u32,
    cuts: u64,
    rng: ChaCha8Rng,
}

/// What the sender has to do about a report.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum OnLoss {
    Nothing,
    /// Stop for one SYN.
    Freeze,
}

impl RateControl {
    pub(crate) fn new(
        rules: Rules,
        packet_bytes: u32,
        max_window: u32,
        seed: u64,
        now: Time,
    ) -> Self {
        Self {
            rules,
            packet_bytes,
            period_us: 1.0,
            // Where the receiver computes the window, that is the only one.
            window: match rules.window_at {
                WindowAt::Sender => 16.0,
                WindowAt::Receiver => f64::from(max_window),
            },
            max_window: f64::from(max_window),
            starting: true,
            last_update: now,
            last_ack: 0,
            loss: false,
            last_cut: None,
            period_before_cut_us: 1.0,
            average_reports: 0.0,
            reports: 0,
            cut_every: 1,
            later: 0,
            cuts: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// From one packet to the next.
    #[inline]
    pub(crate) fn period(&self) -> Span {
        Span::from_nanos((self.period_us * 1e3 + 0.5) as u64)
    }

    pub(crate) const fn period_us(&self) -> f64 {
        self.period_us
    }

    /// Most packets in flight, whatever the receiver has room for.
    #[inline]
    pub(crate) const fn window(&self) -> f64 {
        self.window
    }

    pub(crate) const fn is_starting(&self) -> bool {
        self.starting
    }

    pub(crate) const fn cuts(&self) -> u64 {
        self.cuts
    }

    /// An acknowledgement has moved on to `ack`. `announced` is the receiver's window, and whether it
    /// has left its start, where it computes one.
    pub(crate) fn on_ack(&mut self, now: Time, ack: u64, path: &PathState, announced: Option<u32>) {
        if matches!(self.rules.start, Start::Quick { .. })
            && self.starting
            && let Some(window) = announced
        {
            self.starting = false;
            let round_us = f64::from(path.rtt_us + SYN_US);
            self.period_us = (round_us / f64::from(window.max(1))).max(self.rules.least_period_us);
        }
        if now.since(self.last_update) < SYN {
            return;
        }
        self.last_update = now;
        if self.rules.window_at == WindowAt::Sender {
            self.update_window(ack, path);
        }
        if self.starting {
            return;
        }
        if std::mem::take(&mut self.loss) {
            return;
        }
        let increase = self.increase(path.capacity_pps);
        let syn = f64::from(SYN_US);
        let period = self.period_us * syn / (self.period_us * increase + syn);
        self.period_us = period.max(self.rules.least_period_us);
    }

    fn update_window(&mut self, ack: u64, path: &PathState) {
        let round_us = f64::from(path.rtt_us + SYN_US);
        if !self.starting {
            self.window = f64::from(path.arrival_pps) / 1e6 * round_us + 16.0;
            return;
        }
        // The library counts the packet at either end.
        self.window += (ack.saturating_sub(self.last_ack) + 1) as f64;
        self.last_ack = ack;
        if self.window > self.max_window {
            self.starting = false;
            self.period_us = if path.arrival_pps > 0 {
                1e6 / f64::from(path.arrival_pps)
            } else {
                round_us / self.window
            };
        }
    }

    /// Packets per SYN by which the rate grows: for a spare capacity of up to 10^k bit/s,
    /// 10^k * 1.5e-6 bytes. While the rate is below that of before the last cut, the spare capacity
    /// counts as a ninth of the whole at most.
    fn increase(&self, capacity_pps: u32) -> f64 {
        let packet = f64::from(self.packet_bytes);
        let least = self.rules.least_increase.unwrap_or(1.0 / packet);
        let capacity = i64::from(capacity_pps);
        let mut spare = (f64::from(capacity_pps) - 1e6 / self.period_us) as i64;
        if self.period_us > self.period_before_cut_us {
            spare = spare.min(capacity / 9);
        }
        if spare <= 0 {
            return least;
        }
        let decade = (spare as f64 * packet * 8.0).log10().ceil();
        (10_f64.powf(decade) * BETA / packet).max(least)
    }

    /// A report has come whose first missing packet is `first`; `sent` is the highest that was sent.
    pub(crate) fn on_loss(&mut self, first: u64, sent: u64, path: &PathState) -> OnLoss {
        if self.starting && self.rules.start == Start::Window {
            self.starting = false;
            if path.arrival_pps > 0 {
                self.period_us = 1e6 / f64::from(path.arrival_pps);
                return OnLoss::Nothing;
            }
        }
        self.loss = true;
        if self.last_cut.is_none_or(|last| first > last) {
            self.period_before_cut_us = self.period_us;
            self.cut(sent);
            let average = self.average_reports * 0.875 + f64::from(self.reports) * 0.125;
            self.average_reports = average.ceil() + self.rules.extra_average;
            self.reports = 1;
            self.later = 1;
            let unit = f64::from(self.rng.next_u32() >> 8) / f64::from(1 << 24);
            self.cut_every = (self.average_reports * unit).ceil().max(1.0) as u32;
            return if self.rules.freeze {
                OnLoss::Freeze
            } else {
                OnLoss::Nothing
            };
        }
        match self.rules.later_cuts {
            LaterCuts::Random { reports } => {
                let may = self.later < reports;
                self.later = self.later.saturating_add(1);
                if may {
                    self.reports = self.reports.saturating_add(1);
                    if self.reports.is_multiple_of(self.cut_every) {
                        self.cut(sent);
                    }
                }
            }
            LaterCuts::Doubling => {
                self.reports = self.reports.saturating_add(1);
                if self.reports >= FIRST_LATER && self.reports.is_power_of_two() {
                    self.cut(sent);
                }
            }
        }
        OnLoss::Nothing
    }

    fn cut(&mut self, sent: u64) {
        self.period_us *= CUT;
        if self.rules.whole_microseconds {
            self.period_us = self.period_us.ceil();
        }
        self.last_cut = Some(sent);
        self.cuts += 1;
    }

    /// The sender's timer has run out. The rate stays: 4.11 has the cut commented out.
    pub(crate) fn on_timeout(&mut self, path: &PathState) {
        if self.starting && self.rules.start == Start::Window {
            self.starting = false;
            if path.arrival_pps > 0 {
                self.period_us = 1e6 / f64::from(path.arrival_pps);
            }
        }
    }
}
