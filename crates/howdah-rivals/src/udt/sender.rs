//! The sending half: what leaves, and when.

use super::config::{SYN, SYN_US, Start, UdtConfig, WindowAt};
use super::connection::Connection;
use super::control::{OnLoss, PathState, RateControl};
use super::sequence::{on_wire, position};
use super::window_set::WindowSet;
use super::wire::{Ack, Body, DataHeader, Losses, encode_data};
use howdah_core::{ByteRange, Datagram, Rate, Snapshot, Span, Time, WakeReason};

/// Expiries in a row after which the connection is given up, if that is also [`GIVE_UP_AFTER`].
pub(crate) const MAX_EXPIRIES: u64 = 16;
pub(crate) const GIVE_UP_AFTER: Span = Span::from_secs(5);
/// Least time to an expiry, for each expiry so far.
pub(crate) const MIN_EXPIRY: Span = Span::from_millis(300);

/// Round-trip times as both halves keep them, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    pub(crate) mean_us: u32,
    pub(crate) var_us: u32,
}

impl Rtt {
    /// Before the first sample: 100 ms.
    pub(crate) const START: Self = Self {
        mean_us: 10 * SYN_US,
        var_us: 5 * SYN_US,
    };

    pub(crate) fn sample(&mut self, rtt_us: u32) {
        let rtt_us = rtt_us.min(60_000_000);
        self.var_us = (self.var_us * 3 + rtt_us.abs_diff(self.mean_us)) / 4;
        self.mean_us = (self.mean_us * 7 + rtt_us) / 8;
    }

    /// RTT + 4 deviations.
    pub(crate) fn timeout(self) -> Span {
        Span::from_micros(u64::from(self.mean_us) + 4 * u64::from(self.var_us))
    }

    /// The `expiries`-th timeout without a sign of life.
    pub(crate) fn expiry(self, expiries: u64) -> Span {
        (self.timeout() * expiries + SYN).max(MIN_EXPIRY * expiries)
    }
}

/// How an object lies in packets: each write of the application begins a packet of its own.
#[derive(Clone, Copy, Debug)]
struct Layout {
    payload: u64,
    write: u64,
    packets_per_write: u64,
    /// `None` is without end.
    bytes: Option<u64>,
}

impl Layout {
    fn new(payload: u32, write: Option<u32>, bytes: Option<u64>) -> Self {
        let payload = u64::from(payload);
        let write = write.map_or(payload, |write| u64::from(write.max(1)));
        Self {
            payload,
            write,
            packets_per_write: write.div_ceil(payload),
            bytes,
        }
    }

    fn packets(&self) -> u64 {
        let Some(bytes) = self.bytes else {
            return u64::MAX;
        };
        bytes / self.write * self.packets_per_write + (bytes % self.write).div_ceil(self.payload)
    }

    /// The write, and the bytes, of a packet.
    #[inline]
    fn packet(&self, at: u64) -> (u64, ByteRange) {
        let (write, piece) = if self.packets_per_write == 1 {
            (at, 0)
        } else {
            (at / self.packets_per_write, at % self.packets_per_write)
        };
        let start = write * self.write + piece * self.payload;
        let end = (start + self.payload)
            .min((write + 1) * self.write)
            .min(self.bytes.unwrap_or(u64::MAX));
        (write, ByteRange::new(start, end))
    }
}

#[derive(Debug)]
pub(crate) struct Sender {
    config: UdtConfig,
    object_bytes: Option<u64>,
    seed: u64,
    layout: Layout,
    total: u64,
    control: RateControl,
    /// The next new packet.
    next: u64,
    /// Acknowledged, by light acknowledgements too.
    acked: u64,
    /// Acknowledged by full ones: what leaves the send buffer.
    released: u64,
    flow_window: u64,
    lost: WindowSet,
    rtt: Rtt,
    arrival_pps: u32,
    capacity_pps: u32,
    /// When the next packet leaves; `None` while the window is full or there is nothing to send.
    next_send: Option<Time>,
    freeze: bool,
    last_ack2_at: Time,
    last_ack2: Option<u32>,
    heard_at: Time,
    expiries: u64,
    sent_bytes: u64,
    again_bytes: u64,
    lost_packets: u64,
    timeouts: u64,
    finished_at: Option<Time>,
}

impl Sender {
    pub(crate) fn new(config: UdtConfig, object_bytes: Option<u64>, seed: u64) -> Self {
        let layout = Layout::new(
            config.payload_bytes(),
            config.rules.write_bytes,
            object_bytes,
        );
        Self {
            config,
            object_bytes,
            seed,
            layout,
            total: layout.packets(),
            control: RateControl::new(config.rules, config.packet_bytes, 1, seed, Time::ZERO),
            next: 0,
            acked: 0,
            released: 0,
            flow_window: 0,
            // No more can be in flight than is kept for repetition.
            lost: WindowSet::new(config.send_buffer_packets as usize),
            rtt: Rtt::START,
            arrival_pps: 16,
            capacity_pps: 1,
            next_send: None,
            freeze: false,
            last_ack2_at: Time::ZERO,
            last_ack2: None,
            heard_at: Time::ZERO,
            expiries: 1,
            sent_bytes: 0,
            again_bytes: 0,
            lost_packets: 0,
            timeouts: 0,
            finished_at: None,
        }
    }

    /// The connection is open.
    pub(crate) fn open(&mut self, now: Time, connection: &mut Connection) {
        self.config.packet_bytes = connection.packet_bytes;
        self.layout = Layout::new(
            self.config.payload_bytes(),
            self.config.rules.write_bytes,
            self.object_bytes,
        );
        self.total = self.layout.packets();
        let flight = connection.peer_flight.min(self.config.flight_packets);
        self.control = RateControl::new(
            self.config.rules,
            self.config.packet_bytes,
            flight,
            self.seed,
            now,
        );
        self.flow_window = match self.config.rules.window_at {
            WindowAt::Sender => u64::from(flight),
            WindowAt::Receiver => 16,
        };
        self.heard_at = now;
        self.next_send = Some(now);
        if self.total == 0 {
            self.finish(now, connection);
        }
    }

    fn finish(&mut self, now: Time, connection: &mut Connection) {
        self.finished_at = Some(now);
        self.next_send = None;
        connection.end(now);
    }

    fn path(&self) -> PathState {
        PathState {
            rtt_us: self.rtt.mean_us,
            arrival_pps: self.arrival_pps,
            capacity_pps: self.capacity_pps,
        }
    }

    /// Anything has come from the other side.
    pub(crate) fn on_sign_of_life(&mut self, now: Time) {
        self.heard_at = now;
        self.expiries = 1;
    }

    pub(crate) fn on_ack(&mut self, now: Time, ack: &Ack, connection: &mut Connection) {
        let initial = connection.initial_sequence;
        let to = position(initial, self.acked, ack.next);
        let Some(report) = ack.report else {
            // A light one only moves the window on; it wakes nobody (core.cpp).
            if let Some(to) = to.filter(|&to| to >= self.acked && to <= self.next) {
                self.flow_window = self.flow_window.saturating_sub(to - self.acked);
                self.acked = to;
            }
            return;
        };
        if now.since(self.last_ack2_at) > SYN
            || self.last_ack2.is_none()
            || self.last_ack2 == Some(ack.number)
        {
            connection.send(now, Body::Ack2(ack.number));
            self.last_ack2 = Some(ack.number);
            self.last_ack2_at = now;
        }
        let Some(to) = to else { return };
        if to > self.next {
            connection.fail("the peer acknowledges what was not sent".to_owned());
            return;
        }
        if to >= self.acked {
            self.flow_window = u64::from(report.window_packets);
            self.acked = to;
        }
        if to <= self.released {
            return;
        }
        self.released = to;
        self.lost.slide(to);
        if self.next_send.is_none() {
            self.next_send = Some(now);
        }
        self.rtt.sample(report.rtt_us);
        let smooth = |old: u32, new: Option<u32>| match new {
            // The library's values have a sign, and its estimate of pairs without a gap is the least of all.
            Some(new) if new > 0 && new <= i32::MAX.cast_unsigned() => {
                ((u64::from(old) * 7 + u64::from(new)) / 8) as u32
            }
            _ => old,
        };
        self.arrival_pps = smooth(self.arrival_pps, report.arrival_pps);
        self.capacity_pps = smooth(self.capacity_pps, report.capacity_pps);
        let announced = report
            .capacity_pps
            .filter(|&pps| pps > 0)
            .map(|_| report.window_packets);
        let path = self.path();
        self.control.on_ack(now, to, &path, announced);
        if to >= self.total {
            self.finish(now, connection);
        }
    }

    pub(crate) fn on_nak(&mut self, now: Time, losses: &Losses<'_>, connection: &mut Connection) {
        let initial = connection.initial_sequence;
        let at = |sequence| position(initial, self.acked, sequence);
        if let Some((first, _)) = losses.iter().next() {
            // What lies before the first packet is older than anything.
            let first = at(first).unwrap_or(0);
            let path = self.path();
            let sent = self.next.saturating_sub(1);
            if self.control.on_loss(first, sent, &path) == OnLoss::Freeze {
                self.freeze = true;
            }
        }
        for (first, last) in losses.iter() {
            let Some(last) = at(last) else { continue };
            let first = at(first).unwrap_or(0);
            if last < first || last >= self.next {
                connection.fail("the peer misses what was not sent".to_owned());
                return;
            }
            if last >= self.acked {
                self.lost_packets += self.lost.insert(first.max(self.acked), last + 1);
            }
        }
        if self.config.rules.loss_wakes || self.next_send.is_none() {
            self.next_send = Some(now);
        }
    }

    pub(crate) fn on_timeout(&mut self, now: Time, connection: &mut Connection) {
        if now < self.expires_at() {
            return;
        }
        if self.expiries > MAX_EXPIRIES && now.since(self.heard_at) > GIVE_UP_AFTER {
            connection.fail("the other side has fallen silent".to_owned());
            return;
        }
        if self.next > self.released {
            if self.next > self.acked && self.lost.is_empty() {
                self.lost_packets += self.lost.insert(self.acked, self.next);
            }
            self.timeouts += 1;
            let path = self.path();
            self.control.on_timeout(&path);
            self.next_send = Some(now);
        } else {
            connection.send(now, Body::KeepAlive);
        }
        self.expiries += 1;
        self.heard_at = now;
    }

    fn expires_at(&self) -> Time {
        self.heard_at + self.rtt.expiry(self.expiries)
    }

    pub(crate) fn next_timeout(&self) -> (Time, WakeReason) {
        let expires = self.expires_at();
        match self.next_send {
            Some(at) if at <= expires => (at, WakeReason::Pacing),
            _ => (expires, WakeReason::IdleTimeout),
        }
    }

    /// Packets in flight that may be, the next one included.
    #[inline]
    fn may_send_new(&self) -> bool {
        let window = (self.flow_window as f64).min(self.control.window()) as u64;
        self.next < self.total
            && window > self.next - self.acked
            && self.next - self.released < u64::from(self.config.send_buffer_packets)
    }

    #[inline]
    pub(crate) fn poll_transmit(
        &mut self,
        now: Time,
        max: usize,
        out: &mut Vec<Datagram>,
        connection: &Connection,
    ) -> usize {
        let mut sent = 0;
        while sent < max && self.next_send.is_some_and(|at| at <= now) {
            let (at, again) = if let Some(at) = self.lost.first() {
                self.lost.remove(at);
                (at, true)
            } else if self.may_send_new() {
                self.next += 1;
                (self.next - 1, false)
            } else {
                self.next_send = None;
                break;
            };
            out.push(self.packet(now, at, again, connection));
            sent += 1;
            // A new packet whose number is a multiple of 16 is followed at once by the next: the pair
            // measures the capacity.
            let pair = !again && on_wire(connection.initial_sequence, at).is_multiple_of(16);
            self.next_send = Some(if pair {
                now
            } else if std::mem::take(&mut self.freeze) {
                now + SYN + self.control.period()
            } else {
                now + self.control.period()
            });
        }
        sent
    }

    #[inline]
    fn packet(&mut self, now: Time, at: u64, again: bool, connection: &Connection) -> Datagram {
        let (write, bytes) = self.layout.packet(at);
        let len = bytes.len();
        self.sent_bytes += len;
        if again {
            self.again_bytes += len;
        }
        let start = write * self.layout.write;
        let end = start + self.layout.write;
        let header = DataHeader {
            sequence: on_wire(connection.initial_sequence, at),
            first: bytes.start == start,
            last: bytes.end == end || Some(bytes.end) == self.object_bytes,
            in_order: false,
            // 29 bits, from 1 to 2^29 - 1 and then from 1 again.
            message: (write % ((1 << 29) - 1)) as u32 + 1,
            timestamp_us: connection.timestamp_us(now),
            destination: connection.peer,
        };
        Datagram {
            bytes: encode_data(connection.format, &header),
            absent: len as u32,
        }
    }

    /// Bytes of the object that the packet with this sequence number carries.
    pub(crate) fn payload_of(&self, sequence: u32, connection: &Connection) -> Option<ByteRange> {
        let at = position(connection.initial_sequence, self.next, sequence)?;
        (at < self.next).then(|| self.layout.packet(at).1)
    }

    pub(crate) const fn period_us(&self) -> f64 {
        self.control.period_us()
    }

    pub(crate) fn capacity(&self) -> Rate {
        Rate::from_bits_per_sec(
            u64::from(self.capacity_pps) * u64::from(self.config.packet_bytes) * 8,
        )
    }

    pub(crate) fn snapshot(&self, failed: Option<String>) -> Snapshot {
        let payload = u64::from(self.config.payload_bytes());
        let window = (self.flow_window as f64).min(self.control.window());
        let paced = !self.control.is_starting() || self.config.rules.start != Start::Window;
        Snapshot {
            algorithm: self.config.rules.name.into(),
            sent_bytes: self.sent_bytes,
            retransmitted_bytes: self.again_bytes,
            lost_packets: self.lost_packets,
            congestion_events: self.control.cuts(),
            timeouts: self.timeouts,
            cwnd_bytes: Some((window * payload as f64) as u64),
            in_flight_bytes: (self.next - self.acked).saturating_sub(self.lost.len()) * payload,
            pacing_rate: paced.then(|| {
                let bits = payload as f64 * 8e6 / self.control.period_us();
                Rate::from_bits_per_sec(bits as u64)
            }),
            srtt: Some(Span::from_micros(u64::from(self.rtt.mean_us))),
            finished_at: self.finished_at,
            failed,
            ..Snapshot::default()
        }
    }
}
