//! The side that gets the data.

mod autotune;
mod policy;

use super::ReceiverConfig;
use super::runs::Runs;
use super::segment::{
    ACK, FIN, MAX_SACK_BLOCKS, SYN, SackBlocks, Segment, Side, TIMESTAMPS_BYTES, Timestamps,
    unwrap_near,
};
use super::sender::{TickClock, stamp_is_before};
use autotune::Window;
use howdah_core::{Arrival, Datagram, Snapshot, Span, Time, WakeReason};
use policy::AckTimer;

/// SYN-ACK and FIN are sent again after this long, doubling (RFC 6298).
const INITIAL_RTO: Span = Span::from_secs(1);
/// So many times at most (`tcp_synack_retries`, `tcp_orphan_retries`).
const MAX_RETRIES: u32 = 8;

/// Where the connection is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Listen,
    SynReceived,
    Established,
    /// Everything has arrived, our own FIN is out.
    LastAck,
    Closed,
}

/// What is to be sent at the next opportunity.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Due {
    Nothing,
    SynAck,
    Ack,
    Fin,
}

/// The receiving side of a connection.
#[derive(Debug)]
pub(crate) struct Receiver {
    config: ReceiverConfig,
    state: State,
    due: Due,
    timestamps: bool,
    sack: bool,
    scaled: bool,
    window_shift: u8,
    peer_mss: u16,

    /// Sequence number of the sender's SYN.
    peer_initial: u32,
    /// Bytes of the stream that have arrived without a hole.
    next: u64,
    /// Where FIN stands, if it has been seen.
    end: Option<u64>,
    /// What has arrived beyond a hole.
    early: Runs,
    /// Runs to report, the most recently changed first.
    recent: [(u64, u64); MAX_SACK_BLOCKS],
    recent_len: usize,
    duplicate: Option<(u64, u64)>,
    largest: u32,

    window: Window,
    /// End of the window as far as it was advertised: it never moves back.
    advertised: u64,
    timer: AckTimer,
    clock: TickClock,
    peer_stamp: u32,
    last_ack_sent: u64,

    rto_at: Option<Time>,
    tries: u32,
    syn_ack_at: Time,
    wake_at: Time,
    finished_at: Option<Time>,
    failed: Option<String>,
    acks_sent: u64,
}

impl Receiver {
    pub(crate) fn new(config: &ReceiverConfig) -> Self {
        Self {
            config: *config,
            state: State::Listen,
            due: Due::Nothing,
            timestamps: false,
            sack: false,
            scaled: false,
            window_shift: 0,
            peer_mss: config.announced_mss(),
            peer_initial: 0,
            next: 0,
            end: None,
            early: Runs::default(),
            recent: [(0, 0); MAX_SACK_BLOCKS],
            recent_len: 0,
            duplicate: None,
            largest: 0,
            window: Window::new(config, config.max_window_bytes(), 1),
            advertised: 0,
            timer: AckTimer::new(config.acks),
            clock: TickClock::new(config.timestamp_tick),
            peer_stamp: 0,
            last_ack_sent: 0,
            rto_at: None,
            tries: 0,
            syn_ack_at: Time::ZERO,
            wake_at: Time::MAX,
            finished_at: None,
            failed: None,
            acks_sent: 0,
        }
    }

    pub(crate) const fn acks_sent(&self) -> u64 {
        self.acks_sent
    }

    pub(crate) fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        if arrival.corrupt {
            return;
        }
        let Some(segment) = Segment::decode(arrival.bytes) else {
            return;
        };
        if segment.side != Side::Sender {
            return;
        }
        if segment.has(SYN) {
            self.on_syn(&segment);
            return;
        }
        if !segment.has(ACK) || matches!(self.state, State::Listen | State::Closed) {
            if self.state == State::Closed && (segment.has(FIN) || arrival.absent > 0) {
                self.due = Due::Ack;
            }
            return;
        }
        self.on_segment(now, &segment, arrival.absent);
        self.arm();
    }

    fn on_syn(&mut self, segment: &Segment) {
        if self.state == State::Listen {
            self.state = State::SynReceived;
            self.peer_initial = segment.seq;
            self.timestamps = self.config.timestamps && segment.timestamps.is_some();
            self.peer_stamp = segment.timestamps.map_or(0, |stamps| stamps.value);
            self.sack = self.config.sack && segment.sack_permitted;
            self.peer_mss = segment.mss.unwrap_or(536);
            let mut max = self.config.max_window_bytes();
            self.scaled = segment.window_scale.is_some() && self.config.max_window_scale.is_some();
            if self.scaled {
                // The least shift that can say the largest window.
                while self.window_shift < 14 && max >> self.window_shift > u64::from(u16::MAX) {
                    self.window_shift += 1;
                }
            } else {
                max = max.min(u64::from(u16::MAX));
            }
            let mss = u32::from(self.peer_mss.min(self.config.announced_mss()).max(48));
            let options = if self.timestamps { TIMESTAMPS_BYTES } else { 0 };
            self.window = Window::new(&self.config, max, mss - options);
        }
        // Once established, a repeated SYN is an old one: acknowledging it does no harm.
        self.due = if self.state == State::SynReceived {
            Due::SynAck
        } else {
            Due::Ack
        };
    }

    fn on_segment(&mut self, now: Time, segment: &Segment, len: u32) {
        // Our SYN, and FIN where it is out, are what the sender can acknowledge.
        let acked = segment.ack.wrapping_sub(self.config.initial_sequence);
        if self.state == State::SynReceived {
            if acked != 1 {
                return;
            }
            self.state = State::Established;
            self.rto_at = None;
            if self.tries == 1 {
                self.window.on_rtt(now.since(self.syn_ack_at));
            }
        } else if self.state == State::LastAck && acked == 2 {
            self.state = State::Closed;
            self.rto_at = None;
        }
        let base = self.peer_initial.wrapping_add(1);
        let Some(start) = unwrap_near(self.next, segment.seq.wrapping_sub(base)) else {
            return;
        };
        let fin = segment.has(FIN);
        if let Some(stamps) = segment.timestamps
            && self.timestamps
        {
            // RFC 7323 section 5.3 (PAWS), with the one tick of tolerance that Linux gives.
            if stamp_is_before(stamps.value.wrapping_add(1), self.peer_stamp) && len > 0 {
                self.owe(Due::Ack);
                return;
            }
            // Section 4.3: only what begins at or before the last acknowledgement is echoed.
            if start <= self.last_ack_sent && !stamp_is_before(stamps.value, self.peer_stamp) {
                self.peer_stamp = stamps.value;
            }
        }
        if len == 0 && !fin {
            return;
        }
        let end = start + u64::from(len);
        if end > self.advertised || self.contradicts_end(end, fin) {
            // Beyond what was offered, or beyond FIN: the sender probes, or misbehaves.
            self.owe(Due::Ack);
            return;
        }
        self.largest = self.largest.max(len);
        self.on_data(now, (start, end), fin);
        if self.window.wants_update(now) {
            if let Some(stamps) = segment.timestamps
                && self.timestamps
            {
                let ticks = self.clock.at(now).wrapping_sub(stamps.echo);
                if ticks > 0 && ticks < 1 << 20 {
                    self.window
                        .on_rtt(self.config.timestamp_tick * u64::from(ticks));
                }
            }
            self.window.update(now, self.next);
        }
    }

    fn on_data(&mut self, now: Time, (start, end): (u64, u64), fin: bool) {
        if fin {
            self.end = Some(end);
        }
        if start > self.next {
            let mut added = false;
            // FIN takes a place in the sequence, and in what is reported of it.
            let past = end + u64::from(fin);
            let run = self.early.insert(start, past, |_, _| added = true);
            if added {
                self.note_recent(run.start, run.end);
            } else {
                self.duplicate = Some((start, past));
                self.timer.be_quick();
            }
            self.owe(Due::Ack);
            return;
        }
        let is_old = end < self.next || (end == self.next && (end > start || self.closed()));
        if is_old {
            if end > start {
                self.duplicate = Some((start, end));
            }
            self.timer.be_quick();
            self.owe(Due::Ack);
            return;
        }
        let had_holes = !self.early.is_empty();
        self.next = end;
        if had_holes {
            self.take_early();
        }
        if self.end.is_some_and(|end| self.next >= end) {
            self.next = self.end.unwrap_or(self.next);
            self.finish(now);
            return;
        }
        let full = end - start >= u64::from(self.largest);
        let quick = self.timer.on_arrival(now, full);
        if quick || had_holes {
            self.owe(Due::Ack);
        }
    }

    /// FIN stands in one place, and nothing stands behind it.
    fn contradicts_end(&self, end: u64, fin: bool) -> bool {
        match self.end {
            Some(known) => end > known || (fin && end != known),
            None => fin && end < self.early.last().map_or(self.next, |run| run.end),
        }
    }

    const fn closed(&self) -> bool {
        matches!(self.state, State::LastAck | State::Closed)
    }

    /// A hole was filled: what lies behind it is in order now.
    fn take_early(&mut self) {
        if let Some(first) = self.early.first()
            && first.start <= self.next
        {
            self.next = self.next.max(first.end);
            self.early.trim_below(self.next);
        }
        let next = self.next;
        self.retain_recent(|start, _| start > next);
    }

    fn finish(&mut self, now: Time) {
        if self.finished_at.is_some() {
            self.owe(Due::Ack);
            return;
        }
        self.finished_at = Some(now);
        self.early.clear();
        self.recent_len = 0;
        // The application has read the end and closes too.
        self.state = State::LastAck;
        self.tries = 0;
        self.due = Due::Fin;
    }

    fn note_recent(&mut self, start: u64, end: u64) {
        if self.recent_len > 0 && self.recent[0].0 == start {
            // The first run grew: the others are where they were. What it swallowed comes after
            // its old end, so only the last few could be affected.
            self.recent[0].1 = end;
            if self.recent_len == 1 {
                return;
            }
        }
        self.retain_recent(|from, to| from < start || to > end);
        self.recent_len = (self.recent_len + 1).min(MAX_SACK_BLOCKS);
        self.recent.copy_within(0..self.recent_len - 1, 1);
        self.recent[0] = (start, end);
    }

    fn retain_recent(&mut self, keep: impl Fn(u64, u64) -> bool) {
        let mut kept = 0;
        for at in 0..self.recent_len {
            let (start, end) = self.recent[at];
            if keep(start, end) {
                self.recent[kept] = (start, end);
                kept += 1;
            }
        }
        self.recent_len = kept;
    }

    const fn owe(&mut self, due: Due) {
        if matches!(self.due, Due::Nothing) {
            self.due = due;
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.timer.due_at().is_some_and(|at| at <= now) {
            self.owe(Due::Ack);
        }
        if self.rto_at.is_some_and(|at| at <= now) {
            self.rto_at = None;
            match self.state {
                State::SynReceived if self.tries > MAX_RETRIES => {
                    // Back to listening: a later SYN may still make a connection.
                    self.failed = Some(format!("no answer to {} SYN-ACKs", self.tries));
                }
                State::SynReceived => self.due = Due::SynAck,
                State::LastAck if self.tries > MAX_RETRIES => self.state = State::Closed,
                State::LastAck => self.due = Due::Fin,
                State::Listen | State::Established | State::Closed => {}
            }
        }
        if self.wake_at <= now {
            self.wake_at = Time::MAX;
            self.arm();
        }
    }

    #[inline]
    fn arm(&mut self) {
        for at in [self.rto_at, self.timer.due_at()].into_iter().flatten() {
            self.wake_at = self.wake_at.min(at);
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        (self.wake_at < Time::MAX).then_some((self.wake_at, WakeReason::Acknowledgement))
    }

    pub(crate) fn poll_transmit(
        &mut self,
        now: Time,
        max: usize,
        out: &mut Vec<Datagram>,
    ) -> usize {
        if max == 0 || self.due == Due::Nothing {
            return 0;
        }
        let due = std::mem::replace(&mut self.due, Due::Nothing);
        let segment = match due {
            Due::SynAck => self.syn_ack(now),
            _ => self.acknowledgement(now, due == Due::Fin),
        };
        if matches!(due, Due::SynAck | Due::Fin) {
            self.tries += 1;
            self.rto_at = Some(now + INITIAL_RTO * (1 << (self.tries - 1).min(6)));
            self.arm();
        }
        self.acks_sent += 1;
        out.push(Datagram {
            bytes: segment.encode(),
            absent: 0,
        });
        1
    }

    fn syn_ack(&mut self, now: Time) -> Segment {
        self.syn_ack_at = now;
        // The window of a SYN is never scaled, so its edge is at most 64 KiB away.
        let window = self.window.bytes().min(u64::from(u16::MAX)) as u16;
        self.advertised = self.advertised.max(u64::from(window));
        Segment {
            side: Side::Receiver,
            seq: self.config.initial_sequence,
            ack: self.peer_initial.wrapping_add(1),
            flags: SYN | ACK,
            window,
            mss: Some(self.config.announced_mss()),
            window_scale: self.scaled.then_some(self.window_shift),
            sack_permitted: self.sack,
            timestamps: self.stamps(now),
            ..Segment::default()
        }
    }

    fn acknowledgement(&mut self, now: Time, fin: bool) -> Segment {
        let base = self.peer_initial.wrapping_add(1);
        let sack = if self.sack && (self.recent_len > 0 || self.duplicate.is_some()) {
            self.blocks(base)
        } else {
            SackBlocks::default()
        };
        // Rounding down never takes back what was offered, for the edge is kept in bytes; it is
        // offered as the field can say it.
        let edge = (self.next + self.window.bytes()).max(self.advertised);
        let field = ((edge - self.next) >> self.window_shift).min(u64::from(u16::MAX));
        self.advertised = self
            .advertised
            .max(self.next + (field << self.window_shift));
        self.last_ack_sent = self.next;
        self.timer.on_ack_sent();
        let own_fin = u32::from(self.closed() && !fin);
        Segment {
            side: Side::Receiver,
            seq: self
                .config
                .initial_sequence
                .wrapping_add(1)
                .wrapping_add(own_fin),
            ack: base
                .wrapping_add(self.next as u32)
                .wrapping_add(u32::from(self.closed())),
            flags: if fin { ACK | FIN } else { ACK },
            window: field as u16,
            timestamps: self.stamps(now),
            sack,
            ..Segment::default()
        }
    }

    /// SACK blocks: a duplicate first (RFC 2883), then the most recently changed runs (RFC 2018).
    fn blocks(&mut self, base: u32) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let mut push = |(start, end): (u64, u64)| {
            blocks.push(
                base.wrapping_add(start as u32),
                base.wrapping_add(end as u32),
            );
        };
        if let Some(duplicate) = self.duplicate.take()
            && self.config.dsack
        {
            push(duplicate);
        }
        self.recent[..self.recent_len]
            .iter()
            .copied()
            .for_each(push);
        blocks
    }

    fn stamps(&mut self, now: Time) -> Option<Timestamps> {
        self.timestamps.then(|| Timestamps {
            value: self.clock.at(now),
            echo: self.peer_stamp,
        })
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            algorithm: format!("receiver/{}", self.timer.policy().name).into(),
            delivered_bytes: self.next,
            finished_at: self.finished_at,
            failed: self.failed.clone(),
            ..Snapshot::default()
        }
    }
}
