//! The control channel: what the tools use a TCP connection for.
//!
//! The programs open a TCP connection beside their UDP socket. [`crate::tcp`] carries bytes that
//! are not there, one way; control messages have contents and go both ways. So this is a TCP in
//! miniature, over the same path as the data: three-way handshake, cumulative acknowledgements that
//! are delayed by 40 ms unless two segments wait, Nagle's algorithm where the program leaves it on,
//! slow start from 3 segments (Linux 2.6.18) and again after a pause, fast retransmit with
//! `NewReno`'s repair, a timer by RFC 6298 with Linux's floor of 200 ms, and an end. Segments weigh
//! what TCP's weigh (see [`Segment`]).
//!
//! A side that does not read closes its window at 128 KiB, and its peer then has to wait.
//!
//! Left out: selective acknowledgement (out-of-order segments are kept, so each hole costs one
//! segment), simultaneous open, reset.

use super::segment::{ACK, FIN, MAX_POSITION, MSS_BYTES, SYN, Segment};
use howdah_core::{Datagram, Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// Segments in flight at the beginning and after a pause.
const INITIAL_WINDOW: f64 = 3.0;
/// Most segments in flight: 256 KiB.
const MAX_WINDOW: f64 = 181.0;
/// Timer before the first round trip was measured (Linux 2.6).
const FIRST_TIMEOUT: Span = Span::from_secs(3);
const LEAST_TIMEOUT: Span = Span::from_millis(200);
const MOST_TIMEOUT: Span = Span::from_secs(120);
/// How long an acknowledgement waits for company.
const DELAYED_ACK: Span = Span::from_millis(40);
/// Attempts after which a handshake and a connection are given up (Linux: 5 and 15).
const HANDSHAKE_ATTEMPTS: u32 = 6;
const ATTEMPTS: u32 = 15;
/// Bytes that may wait to be read (a segment more may come), and bytes that may wait for a hole.
const INBOX_BYTES: usize = 128 << 10;
const EARLY_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Listening,
    Connecting,
    Accepting,
    Open,
    Failed(&'static str),
}

/// One end of the control channel.
#[derive(Debug)]
pub(crate) struct Channel {
    state: State,
    nagle: bool,
    handshake_due: bool,
    /// What is not acknowledged yet, from `acked` on.
    out: VecDeque<u8>,
    acked: u64,
    next: u64,
    /// One past the last byte that was ever sent.
    highest: u64,
    /// What the peer takes beyond `acked`.
    peer_window: u64,
    probe_due: bool,
    /// The last byte of `out` is the end.
    closed: bool,
    window: f64,
    threshold: f64,
    /// A repair is complete when this is acknowledged.
    recover: Option<u64>,
    duplicates: u32,
    repair_due: bool,
    srtt: Option<Span>,
    rttvar: Span,
    attempts: u32,
    timer: Option<Time>,
    last_sent: Time,
    timeouts: u64,
    inbox: VecDeque<u8>,
    awaited: u64,
    early: BTreeMap<u64, Box<[u8]>>,
    early_bytes: usize,
    end: Option<u64>,
    ended: bool,
    ack_due: bool,
    ack_at: Option<Time>,
    announced: usize,
    echo_us: u32,
}

impl Channel {
    pub(crate) fn new(nagle: bool) -> Self {
        Self {
            state: State::Listening,
            nagle,
            handshake_due: false,
            out: VecDeque::new(),
            acked: 0,
            next: 0,
            highest: 0,
            peer_window: INBOX_BYTES as u64,
            probe_due: false,
            closed: false,
            window: INITIAL_WINDOW,
            threshold: MAX_WINDOW,
            recover: None,
            duplicates: 0,
            repair_due: false,
            srtt: None,
            rttvar: Span::ZERO,
            attempts: 0,
            timer: None,
            last_sent: Time::ZERO,
            timeouts: 0,
            inbox: VecDeque::new(),
            awaited: 0,
            early: BTreeMap::new(),
            early_bytes: 0,
            end: None,
            ended: false,
            ack_due: false,
            ack_at: None,
            announced: INBOX_BYTES,
            echo_us: 0,
        }
    }

    /// Begins the handshake.
    pub(crate) fn connect(&mut self) {
        self.state = State::Connecting;
        self.handshake_due = true;
    }

    /// Appends to the stream.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        if !self.closed {
            self.out.extend(bytes);
        }
    }

    /// Ends the stream behind what was written.
    pub(crate) fn close(&mut self) {
        if !self.closed {
            self.out.push_back(0);
            self.closed = true;
        }
    }

    /// Takes `N` bytes from the stream, or none if they are not all there yet.
    pub(crate) fn read<const N: usize>(&mut self) -> Option<[u8; N]> {
        if self.inbox.len() < N {
            return None;
        }
        let mut bytes = [0; N];
        for (byte, got) in bytes.iter_mut().zip(self.inbox.drain(..N)) {
            *byte = got;
        }
        self.has_read();
        Some(bytes)
    }

    /// Takes `count` bytes from the stream, or none if they are not all there yet.
    pub(crate) fn read_exact(&mut self, count: usize) -> Option<Vec<u8>> {
        if self.inbox.len() < count {
            return None;
        }
        let bytes = self.inbox.drain(..count).collect();
        self.has_read();
        Some(bytes)
    }

    /// Takes a line, without its end, or nothing if no end is there yet.
    pub(crate) fn read_line(&mut self) -> Option<Vec<u8>> {
        let end = self.inbox.iter().position(|&byte| byte == b'\n')?;
        let line = self.inbox.drain(..end).collect();
        self.inbox.pop_front();
        Some(line)
    }

    /// Tells the peer when a window that was nearly closed is half open again.
    fn has_read(&mut self) {
        if self.announced < 2 * MSS_BYTES && self.window() >= INBOX_BYTES / 2 {
            self.ack_due = true;
        }
    }

    fn window(&self) -> usize {
        INBOX_BYTES.saturating_sub(self.inbox.len())
    }

    /// Bytes that were written and are not acknowledged.
    pub(crate) fn backlog(&self) -> usize {
        self.out.len()
    }

    /// The byte at that place of what was not read.
    pub(crate) fn peek(&self, at: usize) -> Option<u8> {
        self.inbox.get(at).copied()
    }

    /// Takes what was written for what has arrived.
    #[cfg(test)]
    pub(crate) fn loop_back(&mut self) {
        self.inbox.append(&mut self.out);
    }

    /// Bytes that have arrived in order and were not read.
    pub(crate) fn unread(&self) -> usize {
        self.inbox.len()
    }

    /// The peer has ended its stream, and everything before the end has arrived.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended
    }

    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    pub(crate) const fn failure(&self) -> Option<&'static str> {
        match self.state {
            State::Failed(why) => Some(why),
            _ => None,
        }
    }

    pub(crate) const fn srtt(&self) -> Option<Span> {
        self.srtt
    }

    pub(crate) const fn timeouts(&self) -> u64 {
        self.timeouts
    }

    fn timeout(&self) -> Span {
        let base = self.srtt.map_or(FIRST_TIMEOUT, |srtt| {
            (srtt + self.rttvar * 4).max(LEAST_TIMEOUT)
        });
        (base * (1 << self.attempts.min(10))).min(MOST_TIMEOUT)
    }

    fn end_of_out(&self) -> u64 {
        self.acked + self.out.len() as u64
    }

    /// Takes in a segment.
    pub(crate) fn handle(&mut self, now: Time, segment: &Segment<'_>) {
        match (self.state, segment.flags & SYN != 0) {
            (State::Listening, true) if segment.flags & ACK == 0 => {
                self.state = State::Accepting;
                self.handshake_due = true;
                self.echo_us = segment.sent_us;
            }
            (State::Accepting, true) => self.handshake_due = true,
            (State::Connecting, true) if segment.flags & ACK != 0 => {
                self.opened();
                self.echo_us = segment.sent_us;
                self.ack_due = true;
            }
            (State::Open, true) => self.ack_due = true,
            (State::Accepting, false) => {
                self.opened();
                self.take(now, segment);
            }
            (State::Open, false) => self.take(now, segment),
            _ => {}
        }
    }

    fn opened(&mut self) {
        self.state = State::Open;
        self.handshake_due = false;
        self.attempts = 0;
        self.timer = None;
    }

    fn take(&mut self, now: Time, segment: &Segment<'_>) {
        // RFC 7323: the time of what is awaited, or of a repetition, but not of what is early.
        if segment.position <= self.awaited {
            self.echo_us = segment.sent_us;
        }
        if segment.flags & ACK != 0 {
            if segment.awaited >= self.acked {
                self.peer_window = u64::from(segment.window_kib) << 10;
            }
            self.take_ack(now, segment);
        }
        if !segment.payload.is_empty() {
            self.take_payload(now, segment);
        }
    }

    fn take_ack(&mut self, now: Time, segment: &Segment<'_>) {
        let awaited = segment.awaited;
        if awaited > self.highest || awaited < self.acked {
            return;
        }
        if awaited == self.acked {
            if segment.payload.is_empty() && self.next > self.acked {
                self.duplicates += 1;
                if self.duplicates == 3 && self.recover.is_none() {
                    self.recover = Some(self.highest);
                    self.threshold = (self.flight_segments() / 2.0).max(2.0);
                    self.window = self.threshold;
                    self.repair_due = true;
                }
            }
            return;
        }
        self.measure(now, segment.echo_us);
        let newly = awaited - self.acked;
        self.out.drain(..newly as usize);
        self.acked = awaited;
        self.next = self.next.max(awaited);
        self.duplicates = 0;
        self.attempts = 0;
        match self.recover {
            Some(point) if awaited < point => self.repair_due = true,
            Some(_) => self.recover = None,
            None => {
                let segments = newly.div_ceil(MSS_BYTES as u64) as f64;
                self.window += if self.window < self.threshold {
                    segments
                } else {
                    segments / self.window
                };
                self.window = self.window.min(MAX_WINDOW);
            }
        }
        self.timer = (self.highest > self.acked).then(|| now + self.timeout());
    }

    fn flight_segments(&self) -> f64 {
        (self.next - self.acked).div_ceil(MSS_BYTES as u64) as f64
    }

    /// RFC 6298, section 2.
    fn measure(&mut self, now: Time, echo_us: u32) {
        let us = (now.as_micros() as u32).wrapping_sub(echo_us);
        // What is older than any connection is not an echo.
        if us > 600_000_000 {
            return;
        }
        let rtt = Span::from_micros(u64::from(us));
        if let Some(srtt) = self.srtt {
            let difference = Span::from_nanos(srtt.as_nanos().abs_diff(rtt.as_nanos()));
            self.rttvar = (self.rttvar * 3 + difference) / 4;
            self.srtt = Some((srtt * 7 + rtt) / 8);
        } else {
            self.srtt = Some(rtt);
            self.rttvar = rtt / 2;
        }
    }

    fn take_payload(&mut self, now: Time, segment: &Segment<'_>) {
        let start = segment.position;
        let end = start + segment.payload.len() as u64;
        if segment.flags & FIN != 0 {
            self.end = self.end.or(Some(end));
        }
        if end <= self.awaited || end > MAX_POSITION {
            self.ack_due = true;
            return;
        }
        if start > self.awaited {
            self.ack_due = true;
            if self.early_bytes + segment.payload.len() <= EARLY_BYTES {
                let old = self.early.insert(start, segment.payload.into());
                self.early_bytes += segment.payload.len();
                self.early_bytes -= old.map_or(0, |old| old.len());
            }
            return;
        }
        if self.inbox.len() >= INBOX_BYTES {
            self.ack_due = true;
            return;
        }
        self.append(start, segment.payload);
        while let Some(entry) = self.early.first_entry() {
            if *entry.key() > self.awaited {
                break;
            }
            let (start, bytes) = entry.remove_entry();
            self.early_bytes -= bytes.len();
            self.append(start, &bytes);
        }
        if self.end == Some(self.awaited) && !self.ended {
            self.inbox.pop_back();
            self.ended = true;
        }
        if self.ack_at.is_some() || !self.early.is_empty() || self.ended {
            self.ack_due = true;
        } else {
            self.ack_at = Some(now + DELAYED_ACK);
        }
    }

    fn append(&mut self, start: u64, bytes: &[u8]) {
        // Nothing counts behind the end.
        let limit = self.end.unwrap_or(MAX_POSITION);
        let skip = (self.awaited - start).min(bytes.len() as u64) as usize;
        let room = limit.saturating_sub(self.awaited) as usize;
        let fresh = &bytes[skip..];
        let fresh = &fresh[..fresh.len().min(room)];
        self.inbox.extend(fresh);
        self.awaited += fresh.len() as u64;
    }

    /// Lets time pass.
    pub(crate) fn on_timeout(&mut self, now: Time) {
        if self.ack_at.is_some_and(|at| at <= now) {
            self.ack_due = true;
        }
        if self.timer.is_none_or(|at| at > now) {
            return;
        }
        if self.state == State::Open && self.highest == self.acked {
            // The peer's window is closed, or it was and the news are lost.
            self.probe_due = self.next < self.end_of_out();
            self.timer = None;
            return;
        }
        self.attempts += 1;
        self.timeouts += 1;
        self.timer = Some(now + self.timeout());
        match self.state {
            State::Connecting | State::Accepting => {
                if self.attempts >= HANDSHAKE_ATTEMPTS {
                    self.fail("the control connection was not answered");
                } else {
                    self.handshake_due = true;
                }
            }
            State::Open if self.attempts > ATTEMPTS => {
                self.fail("the control connection timed out");
            }
            State::Open => {
                self.threshold = (self.flight_segments() / 2.0).max(2.0);
                self.window = 1.0;
                self.next = self.acked;
                if self.peer_window == 0 {
                    // A probe was lost. A closed window is no reason to give up.
                    self.probe_due = true;
                    self.attempts = self.attempts.min(8);
                }
                self.recover = None;
                self.duplicates = 0;
            }
            _ => self.timer = None,
        }
    }

    fn fail(&mut self, why: &'static str) {
        self.state = State::Failed(why);
        self.timer = None;
        self.ack_at = None;
    }

    /// When [`on_timeout`](Self::on_timeout) is due.
    pub(crate) fn next_at(&self) -> Option<Time> {
        match (self.timer, self.ack_at) {
            (Some(timer), Some(ack)) => Some(timer.min(ack)),
            (timer, ack) => timer.or(ack),
        }
    }

    /// The next segment that may leave.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Datagram> {
        match self.state {
            State::Connecting | State::Accepting if self.handshake_due => {
                self.handshake_due = false;
                self.timer = Some(now + self.timeout());
                let flags = if self.state == State::Connecting {
                    SYN
                } else {
                    SYN | ACK
                };
                Some(self.segment(now, flags, 0, 0))
            }
            State::Open => self.poll_open(now),
            _ => None,
        }
    }

    fn poll_open(&mut self, now: Time) -> Option<Datagram> {
        if self.repair_due && self.highest > self.acked {
            self.repair_due = false;
            return Some(self.data(now, self.acked));
        }
        if self.next < self.end_of_out() && self.may_send(now) {
            let segment = self.data(now, self.next);
            let sent = segment.bytes.len() - super::segment::SEGMENT_HEADER_BYTES;
            self.next += sent as u64;
            self.highest = self.highest.max(self.next);
            return Some(segment);
        }
        self.ack_due.then(|| self.segment(now, ACK, self.next, 0))
    }

    fn may_send(&mut self, now: Time) -> bool {
        if self.next == self.acked && now.since(self.last_sent) > self.timeout() {
            self.window = self.window.min(INITIAL_WINDOW);
        }
        if std::mem::take(&mut self.probe_due) {
            return true;
        }
        let flight = self.next - self.acked;
        if flight >= self.peer_window {
            if self.timer.is_none() {
                self.timer = Some(now + self.timeout());
            }
            return false;
        }
        let left = self.end_of_out() - self.next;
        let small = left < MSS_BYTES as u64;
        let held = self.nagle && small && flight > 0 && self.next == self.highest && !self.closed;
        !held && flight < (self.window * MSS_BYTES as f64) as u64
    }

    fn data(&mut self, now: Time, position: u64) -> Datagram {
        let length = MSS_BYTES.min((self.end_of_out() - position) as usize);
        let is_end = self.closed && position + length as u64 == self.end_of_out();
        let flags = if is_end { ACK | FIN } else { ACK };
        self.last_sent = now;
        if self.timer.is_none() {
            self.timer = Some(now + self.timeout());
        }
        self.segment(now, flags, position, length)
    }

    fn segment(&mut self, now: Time, flags: u8, position: u64, length: usize) -> Datagram {
        let from = (position - self.acked.min(position)) as usize;
        let payload: Vec<u8> = if length == 0 {
            Vec::new()
        } else {
            self.out.range(from..from + length).copied().collect()
        };
        self.ack_due = false;
        self.ack_at = None;
        let window_kib = (self.window() >> 10).min(255) as u8;
        self.announced = usize::from(window_kib) << 10;
        let segment = Segment {
            flags,
            window_kib,
            position,
            awaited: self.awaited,
            sent_us: now.as_micros() as u32,
            echo_us: self.echo_us,
            payload: &payload,
        };
        Datagram {
            bytes: segment.encode(),
            absent: 0,
        }
    }
}

#[cfg(test)]
#[path = "channel_tests.rs"]
mod tests;
