//! The side that has the data.
//!
//! * [`scoreboard`]: what is outstanding;
//! * `ack`: what an acknowledgement says;
//! * [`loss`]: what it says about losses;
//! * `recovery`: what is done about them;
//! * `transmit`: what leaves, and [`defer`] what waits for more;
//! * [`local`]: what the host's own queue refuses;
//! * `walk`: what an old host spends on an acknowledgement;
//! * [`rto`], [`pacing`], [`rate_sample`]: clocks and measures.

mod ack;
mod defer;
mod local;
mod loss;
mod pacing;
mod rate_sample;
mod recovery;
mod rto;
mod scoreboard;
mod transmit;
mod walk;

use super::cc::{CcSettings, Congestion, CongestionControl, Phase};
use super::segment::{
    ACK, BASE_HEADER_BYTES, FIN, SYN, SackBlocks, Segment, Side, TIMESTAMPS_BYTES, Timestamps,
};
use super::{IPV4_BYTES, LossDetection, MetricsCache, Supply, TcpConfig};
use howdah_core::{Arrival, Snapshot, Span, Time, WakeReason};
use local::Leaving;
use loss::LossFinder;
use pacing::Pacer;
use rate_sample::Delivery;
use recovery::Repair;
use rto::RttEstimator;
use scoreboard::Scoreboard;

/// Where the connection is.
#[derive(Clone, Debug, Eq, PartialEq)]
enum State {
    /// Not driven yet.
    Fresh,
    SynSent,
    Established,
    /// Given up, and why.
    Failed(String),
}

/// A timestamp clock: a counter of ticks.
#[derive(Clone, Debug)]
pub(crate) struct TickClock {
    tick_ns: u64,
    value: u32,
    next_at_ns: u64,
}

impl TickClock {
    pub(crate) fn new(tick: Span) -> Self {
        Self {
            tick_ns: tick.as_nanos().max(1),
            value: 0,
            next_at_ns: 0,
        }
    }

    /// Ticks since the origin.
    #[inline]
    pub(crate) fn at(&mut self, now: Time) -> u32 {
        if now.as_nanos() >= self.next_at_ns {
            let ticks = now.as_nanos() / self.tick_ns;
            self.value = ticks as u32;
            self.next_at_ns = (ticks + 1) * self.tick_ns;
        }
        self.value
    }

    /// Ticks at any time, past ones too.
    pub(crate) const fn tick_of(&self, at: Time) -> u32 {
        (at.as_nanos() / self.tick_ns) as u32
    }
}

/// Earlier, on a clock that wraps.
pub(crate) const fn stamp_is_before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}

/// The sending side of a connection.
#[derive(Debug)]
pub(crate) struct Sender {
    config: TcpConfig,
    supply: Supply,
    seed: u64,
    cache: Option<MetricsCache>,
    state: State,
    started_at: Time,
    cc: Box<dyn CongestionControl>,

    // What the handshake settled.
    mss: u32,
    packet_bytes: u32,
    timestamps: bool,
    sack: bool,
    window_shift: u8,
    rack: bool,

    // The stream: bytes of payload, and segments on a grid of MSS. Both end where FIN stands.
    total_bytes: u64,
    total_segments: u64,
    board: Scoreboard,
    /// End of the receiver's window, in bytes of the stream.
    window_edge: u64,

    // The other side's sequence space holds SYN, perhaps FIN.
    peer_next: u32,
    peer_stamp: u32,
    clock: TickClock,
    owes_ack: bool,

    rtt: RttEstimator,
    delivery: Delivery,
    finder: LossFinder,
    repair: Repair,
    phase: Phase,
    /// Losses that a timer found: the congestion control hears of them with the next
    /// acknowledgement.
    untold_losses: u32,
    pacer: Pacer,
    last_blocks: SackBlocks,

    /// Window in whole segments: what the congestion control or the repair allows.
    window: u32,
    /// Whether the window held the sender back in this round trip, and what was out at most.
    cwnd_limited: bool,
    most_outstanding: u32,
    usage_end: u64,
    last_sent_at: Time,
    /// What left last, as long as the host may refuse it.
    leaving: Option<Leaving>,
    /// Segments that may still leave with the burst that has begun.
    burst_left: u32,

    rto_at: Option<Time>,
    probe_at: Option<Time>,
    /// A tail-loss probe may leave whatever the window says.
    probe_due: bool,
    /// A timeout's first retransmission likewise.
    timeout_due: bool,
    /// A timeout may send one segment into a closed window.
    persist_due: bool,
    /// When the driver is to wake us: never later than the earliest timer. It is not moved back
    /// when a timer is, which would cost the driver something with each acknowledgement.
    wake_at: Time,
    supply_at: Option<Time>,
    /// Segments that the application has supplied, as far as was asked.
    supplied: u64,
    paced_at: Option<Time>,
    /// Something was sent or acknowledged since the probe timer was set.
    probe_fresh: bool,
    syn_due: bool,
    syn_tries: u32,
    syn_sent_at: Time,

    sent_bytes: u64,
    retransmitted_bytes: u64,
    congestion_events: u64,
    timeouts: u64,
    finished_at: Option<Time>,
}

impl Sender {
    pub(crate) fn new(config: &TcpConfig, supply: Supply, seed: u64) -> Self {
        let mss = config.mss_bytes();
        let mut sender = Self {
            config: *config,
            supply,
            seed,
            cache: None,
            state: State::Fresh,
            started_at: Time::ZERO,
            cc: make_cc(config, mss, seed),
            mss,
            packet_bytes: 0,
            timestamps: config.timestamps,
            sack: config.sack,
            window_shift: 0,
            rack: false,
            total_bytes: u64::MAX,
            total_segments: u64::MAX,
            board: Scoreboard::new(),
            window_edge: 0,
            peer_next: 0,
            peer_stamp: 0,
            clock: TickClock::new(config.timestamp_tick),
            owes_ack: false,
            rtt: RttEstimator::new(config),
            delivery: Delivery::default(),
            finder: LossFinder::new(config),
            repair: Repair::default(),
            phase: Phase::Open,
            untold_losses: 0,
            pacer: Pacer::new(config.burst_segments),
            last_blocks: SackBlocks::default(),
            window: 1,
            cwnd_limited: false,
            most_outstanding: 0,
            usage_end: 0,
            last_sent_at: Time::ZERO,
            leaving: None,
            burst_left: 0,
            rto_at: None,
            probe_at: None,
            probe_due: false,
            timeout_due: false,
            persist_due: false,
            wake_at: Time::MAX,
            supply_at: None,
            supplied: 0,
            paced_at: None,
            probe_fresh: false,
            syn_due: false,
            syn_tries: 0,
            syn_sent_at: Time::ZERO,
            sent_bytes: 0,
            retransmitted_bytes: 0,
            congestion_events: 0,
            timeouts: 0,
            finished_at: None,
        };
        sender.lay_out(mss);
        sender
    }

    /// The same, with what the host remembers.
    pub(crate) fn remembering(mut self, cache: &MetricsCache) -> Self {
        self.cache = Some(cache.clone());
        self
    }

    /// Lays the grid of segments over the stream.
    fn lay_out(&mut self, mss: u32) {
        self.mss = mss.max(1);
        let options = if self.timestamps { TIMESTAMPS_BYTES } else { 0 };
        self.packet_bytes = IPV4_BYTES + BASE_HEADER_BYTES + options + self.mss;
        if let Some(bytes) = self.supply.total_bytes() {
            self.total_bytes = bytes;
            // FIN alone needs a segment too.
            self.total_segments = bytes.div_ceil(u64::from(self.mss)).max(1);
        }
    }

    pub(crate) fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        if arrival.corrupt {
            return;
        }
        let Some(segment) = Segment::decode(arrival.bytes) else {
            return;
        };
        if segment.side != Side::Receiver || !segment.has(ACK) {
            return;
        }
        match self.state {
            State::SynSent => self.on_syn_ack(now, &segment),
            State::Established => self.on_segment(now, &segment),
            State::Fresh | State::Failed(_) => {}
        }
    }

    fn on_syn_ack(&mut self, now: Time, segment: &Segment) {
        if !segment.has(SYN) || segment.ack != self.config.initial_sequence.wrapping_add(1) {
            return;
        }
        self.state = State::Established;
        self.peer_next = segment.seq.wrapping_add(1);
        self.timestamps = self.config.timestamps && segment.timestamps.is_some();
        self.peer_stamp = segment.timestamps.map_or(0, |stamps| stamps.value);
        self.sack = self.config.sack && segment.sack_permitted;
        self.rack = self.sack && self.config.loss_detection == LossDetection::RackTlp;
        self.window_shift = match segment.window_scale {
            // RFC 7323 section 2.3: more than 14 is taken as 14.
            Some(shift) if self.config.window_scaling => shift.min(14),
            _ => 0,
        };
        let announced = self
            .config
            .announced_mss()
            .min(segment.mss.unwrap_or(536).max(48));
        let options = if self.timestamps { TIMESTAMPS_BYTES } else { 0 };
        let mss = u32::from(announced) - options;
        let known = self
            .cache
            .as_ref()
            .and_then(MetricsCache::ssthresh_segments);
        if known.is_some() {
            self.config.slow_start.initial_ssthresh_segments = known;
        }
        if mss != self.mss || known.is_some() {
            self.cc = make_cc(&self.config, mss, self.seed);
        }
        self.lay_out(mss);
        // The window of a SYN is never scaled.
        self.window_edge = u64::from(segment.window);
        if self.syn_tries == 1 {
            self.rtt.sample(now.since(self.syn_sent_at));
        }
        self.rtt.progress();
        self.rto_at = None;
        self.owes_ack = true;
        self.refresh_window();
    }

    fn on_segment(&mut self, now: Time, segment: &Segment) {
        if segment.has(SYN) {
            // Our acknowledgement of its SYN was lost.
            self.owes_ack = true;
            return;
        }
        if let Some(stamps) = segment.timestamps
            && !stamp_is_before(stamps.value, self.peer_stamp)
        {
            self.peer_stamp = stamps.value;
        }
        if segment.has(FIN) {
            self.peer_next = segment.seq.wrapping_add(1);
            self.owes_ack = true;
        }
        self.on_ack(now, segment);
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        match self.state {
            State::Fresh => {
                self.state = State::SynSent;
                self.started_at = now;
                self.syn_due = true;
            }
            State::SynSent if self.rto_at.is_some_and(|at| at <= now) => {
                self.rtt.back_off();
                self.timeouts += 1;
                if self.syn_tries > self.config.max_syn_retries {
                    self.fail(format!("no answer to {} SYNs", self.syn_tries));
                } else {
                    self.syn_due = true;
                }
            }
            State::Established => self.run_timers(now),
            State::SynSent | State::Failed(_) => {}
        }
        if self.supply_at.is_some_and(|at| at <= now) {
            self.supply_at = None;
        }
        if self.wake_at <= now {
            self.wake_at = Time::MAX;
            self.arm();
        }
    }

    fn run_timers(&mut self, now: Time) {
        if self.finder.reorder_at.is_some_and(|at| at <= now) {
            self.on_reorder_timer(now);
        }
        if self.rto_at.is_some_and(|at| at <= now) {
            self.on_timeout(now);
        } else if self.probe_at.is_some_and(|at| at <= now) {
            self.on_probe_timer(now);
        }
    }

    fn fail(&mut self, why: String) {
        self.state = State::Failed(why);
        self.rto_at = None;
        self.probe_at = None;
        self.finder.reorder_at = None;
        self.supply_at = None;
    }

    /// Makes sure that the driver wakes us in time for the earliest timer.
    #[inline]
    fn arm(&mut self) {
        let timers = [self.rto_at, self.probe_at, self.finder.reorder_at];
        for at in timers.into_iter().flatten() {
            self.wake_at = self.wake_at.min(at);
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        match self.state {
            State::Fresh => return Some((Time::ZERO, WakeReason::Open)),
            State::Failed(_) => return None,
            State::SynSent | State::Established => {}
        }
        let mut wake = (self.wake_at, WakeReason::Retransmission);
        if let Some(at) = self.paced_at
            && at < wake.0
        {
            wake = (at, WakeReason::Pacing);
        }
        if let Some(at) = self.supply_at
            && at < wake.0
        {
            wake = (at, WakeReason::Supply);
        }
        (wake.0 < Time::MAX).then_some(wake)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let segment = u64::from(self.mss);
        let to_bytes = |segments: f64| (segments * segment as f64) as u64;
        let ssthresh = self.cc.ssthresh();
        Snapshot {
            algorithm: self.cc.name().into(),
            delivered_bytes: 0,
            sent_bytes: self.sent_bytes,
            retransmitted_bytes: self.retransmitted_bytes,
            lost_packets: self.delivery.lost,
            congestion_events: self.congestion_events,
            timeouts: self.timeouts,
            cwnd_bytes: Some(u64::from(self.window) * segment),
            ssthresh_bytes: ssthresh.is_finite().then(|| to_bytes(ssthresh)),
            in_flight_bytes: u64::from(self.board.in_flight()) * segment,
            pacing_rate: self.pacer.rate(),
            srtt: self.rtt.has_sample().then(|| self.rtt.srtt()),
            min_rtt: self.rtt.has_sample().then(|| self.rtt.min_rtt()),
            finished_at: self.finished_at,
            failed: match &self.state {
                State::Failed(why) => Some(why.clone()),
                _ => None,
            },
        }
    }

    /// First byte of a segment.
    #[inline]
    fn offset_of(&self, index: u64) -> u64 {
        index * u64::from(self.mss)
    }

    /// Payload bytes of a segment.
    #[inline]
    fn payload_of(&self, index: u64) -> u32 {
        if index + 1 == self.total_segments {
            (self.total_bytes - self.offset_of(index)) as u32
        } else {
            self.mss
        }
    }

    /// Works out how many segments may be in flight, and how fast they leave.
    fn refresh_window(&mut self) {
        let cwnd = self.cc.cwnd();
        let allowed = match self.phase {
            Phase::Recovery if !self.cc.owns_recovery() => self.repair.window,
            // Linux restarts from what is in flight and one; slow start ends where it ends.
            Phase::Loss => (cwnd + f64::from(self.repair.spared)).min(self.cc.ssthresh().max(cwnd)),
            Phase::Open => self.repair.cap.map_or(cwnd, |cap| cap.min(cwnd)),
            Phase::Recovery => cwnd,
        };
        // `as` saturates; a window below one would stop everything.
        self.window = (allowed as u32).max(1);
        let rate = self.cc.pacing_rate().or_else(|| self.own_pacing_rate(cwnd));
        self.pacer.set_rate(rate, self.packet_bytes);
    }

    /// Linux's pacing of algorithms that have no opinion.
    fn own_pacing_rate(&self, cwnd: f64) -> Option<howdah_core::Rate> {
        if !self.config.pacing || !self.rtt.has_sample() {
            return None;
        }
        let bits = cwnd * f64::from(self.packet_bytes) * 8.0;
        let rate = self.pacing_gain() * bits / self.rtt.srtt().as_secs_f64();
        Some(howdah_core::Rate::from_bits_per_sec(rate as u64))
    }

    /// Linux's rate is so many windows a round trip.
    fn pacing_gain(&self) -> f64 {
        if self.cc.cwnd() < self.cc.ssthresh() / 2.0 {
            2.0
        } else {
            1.2
        }
    }

    /// What a reduction is told.
    fn congestion(&self, now: Time, in_flight_segments: u32) -> Congestion {
        Congestion {
            now,
            in_flight_segments,
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min_rtt(),
            total_delivered_segments: self.delivery.delivered,
        }
    }

    /// A header from this side.
    fn header(&mut self, now: Time, offset: u64, flags: u8) -> Segment {
        let timestamps = self.timestamps.then(|| Timestamps {
            value: self.clock.at(now),
            echo: self.peer_stamp,
        });
        Segment {
            side: Side::Sender,
            seq: self
                .config
                .initial_sequence
                .wrapping_add(1)
                .wrapping_add(offset as u32),
            ack: self.peer_next,
            flags,
            // Nothing but FIN comes back.
            window: u16::MAX,
            timestamps,
            ..Segment::default()
        }
    }
}

fn make_cc(config: &TcpConfig, mss: u32, seed: u64) -> Box<dyn CongestionControl> {
    let options = if config.timestamps {
        TIMESTAMPS_BYTES
    } else {
        0
    };
    (config.congestion_control.make)(&CcSettings {
        initial_window_segments: config.initial_window_segments.max(1),
        mss_bytes: mss,
        packet_bytes: IPV4_BYTES + BASE_HEADER_BYTES + options + mss,
        seed,
        slow_start: config.slow_start,
    })
}
