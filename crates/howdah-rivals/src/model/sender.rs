//! The side that has the object.

use super::disk::Disk;
use super::law::{Pace, RoundTrip};
use super::wire::{self, Data, Hello, Message, Report, Request};
use super::{Drive, SILENCE, Settings};
use howdah_core::{Arrival, Datagram, Snapshot, Span, Time, WakeReason};
use std::collections::VecDeque;

/// How long an unanswered hello waits for the next.
const HELLO_EVERY: Span = Span::from_millis(250);
/// Most units of the tail that are sent again at a time.
const MOST_TAIL: u64 = 4096;
/// Most units that may wait to be served to a receiver that pulls: a bound for what a stranger can ask.
const MOST_SERVED: u64 = 1 << 24;
/// Round-trip time before the first sample.
const GUESS: Span = Span::from_millis(100);

/// See [the module](super).
#[derive(Debug)]
pub(super) struct Sender {
    settings: Settings,
    size_bytes: Option<u64>,
    /// How many units there are; no end is `u64::MAX`.
    units: u64,
    started: Option<Time>,
    hello_at: Time,
    answered: bool,
    heard_at: Time,
    /// First unit that was never sent.
    next_new: u64,
    /// First unit that the receiver lacks, as far as we know.
    acked: u64,
    /// First unit that may not be sent.
    credit: u64,
    /// To be sent again.
    repairs: VecDeque<u64>,
    /// When each unit of the window was last sent: microseconds in steps of 4, bit 0 set, bit 1 set for
    /// a repetition; 0 waits in `repairs`.
    stamps: Vec<u32>,
    /// What a receiver that pulls has asked for: first unit and how many.
    served: VecDeque<(u64, u32)>,
    served_units: u64,
    /// Stamp of its latest request.
    request_stamp: u32,
    pace: Pace,
    next_at: Time,
    burst_left: u32,
    last_sent_at: Time,
    rtt: RoundTrip,
    disk: Disk,
    goodbyes: u32,
    finished_at: Option<Time>,
    failed: Option<&'static str>,
    sent_bytes: u64,
    repeated_bytes: u64,
    repeated_packets: u64,
}

fn micros(now: Time) -> u32 {
    now.as_micros() as u32
}

impl Sender {
    pub(super) fn new(settings: Settings, size_bytes: Option<u64>) -> Self {
        let unit = u64::from(settings.unit_bytes);
        let pushes = matches!(settings.drive, Drive::Push(_));
        let ring = if pushes { settings.window_units() } else { 0 };
        Self {
            units: size_bytes.map_or(u64::MAX, |bytes| bytes.div_ceil(unit)),
            size_bytes,
            started: None,
            hello_at: Time::ZERO,
            answered: false,
            heard_at: Time::ZERO,
            next_new: 0,
            acked: 0,
            credit: 0,
            repairs: VecDeque::new(),
            stamps: vec![1; ring as usize],
            served: VecDeque::new(),
            served_units: 0,
            request_stamp: 0,
            pace: Pace::new(settings.law),
            next_at: Time::ZERO,
            burst_left: 0,
            last_sent_at: Time::ZERO,
            rtt: RoundTrip::default(),
            disk: Disk::new(settings.read),
            goodbyes: 0,
            finished_at: None,
            failed: None,
            sent_bytes: 0,
            repeated_bytes: 0,
            repeated_packets: 0,
            settings,
        }
    }

    pub(super) const fn unit_bytes(&self) -> u32 {
        self.settings.unit_bytes
    }

    pub(super) const fn finished_at(&self) -> Option<Time> {
        self.finished_at
    }

    fn begin(&mut self, now: Time) {
        if self.started.is_none() {
            self.started = Some(now);
            self.heard_at = now;
            self.hello_at = now;
        }
    }

    const fn is_over(&self) -> bool {
        self.finished_at.is_some() || self.failed.is_some()
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.begin(now);
        if !self.is_over() && now >= self.heard_at + SILENCE {
            self.failed = Some("no word from the receiver");
        }
    }

    pub(super) fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        self.begin(now);
        match wire::decode(arrival.bytes) {
            Some(Message::Report(report)) => self.on_report(now, &report),
            Some(Message::Request(request)) => self.on_request(now, &request),
            _ => {}
        }
    }

    fn heard(&mut self, now: Time) {
        self.heard_at = now;
        if !self.answered {
            self.answered = true;
            self.next_at = now;
        }
    }

    fn on_report(&mut self, now: Time, report: &Report<'_>) {
        if report.done {
            // Only of an object that was really sent.
            if self.failed.is_none() && report.next >= self.units && self.next_new >= self.units {
                self.heard(now);
                self.acked = self.units;
                self.finished_at.get_or_insert(now);
                self.goodbyes += 1;
            }
            return;
        }
        let end = report.next.saturating_add(u64::from(report.end));
        if self.is_over() || report.next > self.next_new || end > self.next_new {
            return;
        }
        self.heard(now);
        let Drive::Push(push) = &self.settings.drive else {
            return;
        };
        // The echo of a receiver that has no data yet is zero.
        if end > 0 {
            let us = micros(now).wrapping_sub(report.echo_us);
            if us < 60_000_000 {
                self.rtt.sample(Span::from_micros(u64::from(us)));
                self.pace.on_report(now, &self.rtt);
            }
        }
        // Reports overtaken by later ones say nothing about the window.
        if report.next >= self.acked {
            self.acked = report.next;
            self.credit = report.next.saturating_add(u64::from(report.credit));
        }
        let rtt = self.rtt.or(GUESS);
        let wait_us = rtt.mul_f64(push.repair_wait_rtts).as_micros().max(1);
        let tail_wait = rtt.mul_f64(1.25) + push.report_interval * 2;
        for unit in report.missing() {
            self.repair(now, unit, wait_us as u32);
        }
        // What was sent last may be lost without anything behind it that tells.
        if end < self.next_new
            && end >= self.acked
            && self.repairs.is_empty()
            && now >= self.last_sent_at + tail_wait
        {
            for unit in end..self.next_new.min(end + MOST_TAIL) {
                self.repair(now, unit, 0);
            }
        }
    }

    /// Queues a unit for repetition, unless it is queued or was just repeated.
    fn repair(&mut self, now: Time, unit: u64, wait_us: u32) {
        if unit < self.acked || unit >= self.next_new {
            return;
        }
        let at = self.slot(unit);
        let stamp = self.stamps[at];
        // Bit 1 marks repetitions. Of a first transmission a report of its loss is believed at once.
        let first = stamp & 2 == 0;
        if stamp != 0 && (first || micros(now).wrapping_sub(stamp & !3) >= wait_us) {
            self.stamps[at] = 0;
            self.repairs.push_back(unit);
        }
    }

    #[inline]
    fn slot(&self, unit: u64) -> usize {
        (unit % self.stamps.len() as u64) as usize
    }

    fn on_request(&mut self, now: Time, request: &Request) {
        let end = request.first.saturating_add(u64::from(request.count));
        let first_missing = request.first.saturating_sub(u64::from(request.ahead));
        if self.is_over()
            || request.count == 0
            || end > self.units
            || self.served_units + u64::from(request.count) > MOST_SERVED
        {
            return;
        }
        self.heard(now);
        self.acked = self.acked.max(first_missing.min(self.next_new));
        self.request_stamp = request.stamp_us;
        self.served.push_back((request.first, request.count));
        self.served_units += u64::from(request.count);
    }

    /// When the next data packet may leave, if there is one.
    fn data_at(&self) -> Option<Time> {
        let started = self.started.filter(|_| self.answered && !self.is_over())?;
        // What is left of a burst leaves at once.
        let paced = if self.burst_left > 0 {
            started
        } else {
            self.next_at
        };
        if !self.repairs.is_empty() {
            return Some(paced);
        }
        let new = match self.settings.drive {
            Drive::Push(_) => {
                let window = self.acked + self.stamps.len() as u64;
                let limit = self.credit.min(window).min(self.units);
                (self.next_new < limit).then_some(self.next_new)
            }
            Drive::Pull(_) => self.served.front().map(|served| served.0),
        }?;
        if self.disk.is_free() || new < self.next_new {
            return Some(paced);
        }
        let bytes = (new + 1).saturating_mul(u64::from(self.settings.unit_bytes));
        let bytes = self.size_bytes.map_or(bytes, |size| bytes.min(size));
        Some(paced.max(self.disk.ready_at(started, bytes)))
    }

    /// The unit to send now. Only after [`data_at`](Self::data_at) has said that there is one.
    fn take(&mut self) -> Option<u64> {
        if let Some(unit) = self.repairs.pop_front() {
            return Some(unit);
        }
        if matches!(self.settings.drive, Drive::Push(_)) {
            let window = self.acked + self.stamps.len() as u64;
            let is_open = self.next_new < self.credit.min(window).min(self.units);
            return is_open.then_some(self.next_new);
        }
        let served = self.served.front_mut()?;
        let unit = served.0;
        served.0 += 1;
        served.1 -= 1;
        if served.1 == 0 {
            self.served.pop_front();
        }
        self.served_units -= 1;
        Some(unit)
    }

    fn send(&mut self, now: Time, unit: u64) -> Datagram {
        let unit_bytes = u64::from(self.settings.unit_bytes);
        let bytes = self.size_bytes.map_or(unit_bytes, |size| {
            size.saturating_sub(unit * unit_bytes).min(unit_bytes)
        }) as u32;
        let again = unit < self.next_new;
        self.sent_bytes += u64::from(bytes);
        if again {
            self.repeated_bytes += u64::from(bytes);
            self.repeated_packets += 1;
        } else {
            self.next_new = unit + 1;
        }
        let mut stamp_us = micros(now);
        if self.stamps.is_empty() {
            stamp_us = self.request_stamp;
        } else {
            let at = self.slot(unit);
            self.stamps[at] = (stamp_us & !3) | 1 | if again { 2 } else { 0 };
        }
        self.last_sent_at = now;
        if self.burst_left == 0 {
            // A pacer that was held up catches up, but not with more than a millisecond.
            let due = self
                .next_at
                .max(now - Span::from_millis(1).min(now.since(Time::ZERO)));
            let burst = self.settings.burst_units.max(1);
            self.next_at = due + self.pace.rate().span_for(unit_bytes * u64::from(burst));
            self.burst_left = burst;
        }
        self.burst_left -= 1;
        let header = Data {
            again,
            bytes: bytes as u16,
            stamp_us,
            unit,
        };
        Datagram {
            bytes: header.encode(),
            absent: bytes,
        }
    }

    /// Appends until `out` has `most` entries.
    pub(super) fn poll_transmit(&mut self, now: Time, most: usize, out: &mut Vec<Datagram>) {
        self.begin(now);
        let control = |bytes| Datagram { bytes, absent: 0 };
        if !self.answered && !self.is_over() && now >= self.hello_at && out.len() < most {
            self.hello_at = now + HELLO_EVERY;
            let hello = Hello {
                stamp_us: micros(now),
                unit_bytes: self.settings.unit_bytes,
                size_bytes: self.size_bytes,
            };
            out.push(control(hello.encode()));
        }
        while self.goodbyes > 0 && out.len() < most {
            self.goodbyes -= 1;
            out.push(control(wire::goodbye()));
        }
        while out.len() < most {
            while self.repairs.front().is_some_and(|&unit| unit < self.acked) {
                self.repairs.pop_front();
            }
            if self.data_at().is_none_or(|at| at > now) {
                return;
            }
            let Some(unit) = self.take() else {
                return;
            };
            let datagram = self.send(now, unit);
            out.push(datagram);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        if self.started.is_none() {
            return Some((Time::ZERO, WakeReason::Open));
        }
        if self.is_over() {
            return None;
        }
        let silence = (self.heard_at + SILENCE, WakeReason::IdleTimeout);
        let next = if self.answered {
            self.data_at().map(|at| (at, WakeReason::Pacing))
        } else {
            Some((self.hello_at, WakeReason::HandshakeRetry))
        };
        Some(next.filter(|next| next.0 < silence.0).unwrap_or(silence))
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let unit = u64::from(self.settings.unit_bytes);
        let pushes = matches!(self.settings.drive, Drive::Push(_));
        Snapshot {
            algorithm: self.settings.name.into(),
            sent_bytes: self.sent_bytes,
            retransmitted_bytes: self.repeated_bytes,
            lost_packets: self.repeated_packets,
            cwnd_bytes: pushes.then_some(self.settings.window_bytes),
            in_flight_bytes: self.next_new.saturating_sub(self.acked) * unit,
            pacing_rate: Some(self.pace.rate()),
            srtt: self.rtt.smoothed,
            min_rtt: self.rtt.least,
            finished_at: self.finished_at,
            failed: self.failed.map(str::to_owned),
            ..Snapshot::default()
        }
    }
}
