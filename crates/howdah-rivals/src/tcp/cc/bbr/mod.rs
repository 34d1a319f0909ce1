//! What BBR v1 and v3 share: rounds, the model's arithmetic, and the allowance for aggregation.
//!
//! Bandwidths are in segments per second and volumes in segments, both fractional.

use super::filter::WindowedMax;
use super::{Ack, CcSettings, RateSample};
use howdah_core::{Rate, Span, Time};

#[cfg(test)]
pub(crate) mod harness;

/// Least window with which a receiver that acknowledges every other segment keeps the pipe moving
/// (draft-ietf-ccwg-bbr, `MinPipeCwnd`; Linux `bbr_cwnd_min_target`).
pub(crate) const MIN_PIPE_CWND: f64 = 4.0;

/// Share of the estimated bandwidth at which packets are paced: 1 % below it, so that a queue
/// drains on average (draft, `PacingMarginPercent`; Linux `bbr_pacing_margin_percent`).
pub(crate) const PACING_MARGIN: f64 = 0.99;

/// Rounds without growth after which the pipe counts as full (draft, section 5.3.1.2).
pub(crate) const FULL_BW_ROUNDS: u32 = 3;

/// Growth of the bandwidth in a round that counts as growth (draft, section 5.3.1.2).
pub(crate) const FULL_BW_GROWTH: f64 = 1.25;

/// Least time at the low window in `PROBE_RTT` (draft, `ProbeRTTDuration`).
pub(crate) const PROBE_RTT_TIME: Span = Span::from_millis(200);

/// Age at which a least round-trip time is given up (draft, `MinRTTFilterLen`).
pub(crate) const MIN_RTT_WINDOW: Span = Span::from_secs(10);

/// Delivery rate of a sample, in segments per second; `None` where the sample has no length.
pub(crate) fn bandwidth(sample: &RateSample) -> Option<f64> {
    let seconds = sample.interval.as_secs_f64();
    (seconds > 0.0 && sample.delivered_segments > 0)
        .then(|| sample.delivered_segments as f64 / seconds)
}

/// Round trips counted by packets (draft, section 5.5.1): one ends when a packet is acknowledged
/// that left after it began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds {
    next_delivered: u64,
    /// Rounds so far.
    pub(crate) count: u64,
    /// The acknowledgement at hand begins a round.
    pub(crate) started: bool,
}

impl Rounds {
    /// Takes in an acknowledgement.
    pub(crate) fn on_sample(&mut self, sample: &RateSample, total_delivered: u64) {
        self.started = sample.prior_delivered_segments >= self.next_delivered;
        if self.started {
            self.next_delivered = total_delivered;
            self.count += 1;
        }
    }

    /// Count of delivered segments at the beginning of the current round.
    pub(crate) const fn next_delivered(&self) -> u64 {
        self.next_delivered
    }

    /// Lets the current round begin now.
    pub(crate) fn restart(&mut self, total_delivered: u64) {
        self.next_delivered = total_delivered;
    }
}

/// Packets that leave during `PROBE_RTT` tell nothing of the path's rate: their samples count as
/// limited by the application (draft, `MarkConnectionAppLimited`). Counts of delivered segments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Muted {
    from: u64,
    until: u64,
    active: bool,
}

impl Muted {
    /// The samples of packets that leave from now on do not count, until what is in flight at the
    /// last such call has been delivered.
    pub(crate) fn mark(&mut self, total_delivered: u64, in_flight: u32) {
        if !self.active {
            self.active = true;
            self.from = total_delivered;
        }
        self.until = total_delivered + u64::from(in_flight);
    }

    /// Whether the sample's packet left in that time.
    pub(crate) fn covers(&mut self, sample: &RateSample) -> bool {
        if self.active && sample.prior_delivered_segments > self.until {
            self.active = false;
        }
        self.active && sample.prior_delivered_segments >= self.from
    }
}

/// How much more than the estimated bandwidth acknowledges comes in bursts: the allowance for
/// aggregating links and receivers (draft, section 5.5.9).
#[derive(Clone, Debug)]
pub(crate) struct Aggregation {
    epoch_start: Time,
    epoch_acked: f64,
    rounds_in_window: u32,
    window: u64,
    extra: WindowedMax<2>,
}

/// Rounds per window of the allowance; two windows are remembered, so it covers 5 to 10 rounds
/// (Linux `bbr_extra_acked_win_rtts`).
pub(crate) const AGGREGATION_WINDOW_ROUNDS: u32 = 5;

/// Longest burst that is allowed for (Linux `bbr_extra_acked_max_us`).
const AGGREGATION_MAX: Span = Span::from_millis(100);

impl Aggregation {
    pub(crate) const fn new() -> Self {
        Self {
            epoch_start: Time::ZERO,
            epoch_acked: 0.0,
            rounds_in_window: 0,
            window: 0,
            extra: WindowedMax::new(),
        }
    }

    /// Takes in an acknowledgement; `bw` is the model's bandwidth.
    pub(crate) fn on_ack(
        &mut self,
        ack: &Ack,
        round_started: bool,
        window_rounds: u32,
        bw: f64,
        cwnd: f64,
    ) {
        if ack.delivered_segments == 0 {
            return;
        }
        if round_started {
            self.rounds_in_window += 1;
            if self.rounds_in_window >= window_rounds {
                self.rounds_in_window = 0;
                self.window += 1;
            }
        }
        let expected = bw * ack.now.since(self.epoch_start).as_secs_f64();
        let excess = if self.epoch_acked <= expected {
            self.epoch_start = ack.now;
            self.epoch_acked = f64::from(ack.delivered_segments);
            self.epoch_acked
        } else {
            self.epoch_acked += f64::from(ack.delivered_segments);
            self.epoch_acked - expected
        };
        self.extra.update(self.window, excess.min(cwnd));
    }

    /// A burst has nothing to do with what was before an idle time.
    pub(crate) fn restart(&mut self, now: Time) {
        self.epoch_start = now;
        self.epoch_acked = 0.0;
    }

    /// The allowance in segments.
    pub(crate) fn segments(&self, bw: f64) -> f64 {
        self.extra.get().min(bw * AGGREGATION_MAX.as_secs_f64())
    }
}

/// The pacing rate, in segments per second, and what belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct Pacing {
    segment_bits: f64,
    mss_bytes: f64,
    initial_window: f64,
    segments_per_sec: f64,
    rtt_seen: bool,
}

impl Pacing {
    /// Before the first round-trip time the initial window is taken to leave in a millisecond
    /// (draft, `BBRInitPacingRate`).
    pub(crate) fn new(settings: &CcSettings, gain: f64) -> Self {
        let initial_window = f64::from(settings.initial_window_segments.max(1));
        Self {
            segment_bits: f64::from(settings.packet_bytes.max(1)) * 8.0,
            mss_bytes: f64::from(settings.mss_bytes.max(1)),
            initial_window,
            segments_per_sec: gain * initial_window / 1e-3,
            rtt_seen: false,
        }
    }

    /// The first round-trip time replaces that guess.
    pub(crate) fn on_srtt(&mut self, srtt: Span, gain: f64) {
        if !self.rtt_seen && !srtt.is_zero() {
            self.rtt_seen = true;
            self.segments_per_sec = gain * self.initial_window / srtt.as_secs_f64();
        }
    }

    /// Paces at `gain * bw`. Until the pipe has been full, only upwards: a slow application must
    /// not slow the search down.
    pub(crate) fn set(&mut self, bw: f64, gain: f64, full_pipe: bool) {
        let rate = bw * gain * PACING_MARGIN;
        if rate > 0.0 && (full_pipe || rate > self.segments_per_sec) {
            self.segments_per_sec = rate;
        }
    }

    pub(crate) fn rate(&self) -> Rate {
        // `as` saturates.
        Rate::from_bits_per_sec((self.segments_per_sec * self.segment_bits) as u64)
    }

    pub(crate) const fn initial_window(&self) -> f64 {
        self.initial_window
    }

    /// Segments that a host with segmentation offload hands over at a time: a millisecond's worth,
    /// at least two segments (one below 1.2 Mbit/s), at most 64 KB and 127 segments (Linux
    /// `bbr_tso_segs_goal`). The engine need not send in such bursts; the window allows for them.
    pub(crate) fn quantum(&self) -> f64 {
        let least = if self.segments_per_sec * self.segment_bits < 1.2e6 {
            1.0
        } else {
            2.0
        };
        let most = (65_536.0 / self.mss_bytes).floor().min(127.0);
        (self.segments_per_sec * 1e-3).floor().min(most).max(least)
    }
}

/// A small generator of random numbers for the few draws of a connection's life (`SplitMix64`,
/// Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub(crate) struct Lots(u64);

impl Lots {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in 0 to `n - 1`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}
