//! The side that wants the object.

use super::disk::Disk;
use super::pull::Puller;
use super::units::Units;
use super::wire::{self, Data, Hello, Message, Report};
use super::{Drive, Push, SILENCE, Settings};
use howdah_core::{Arrival, ByteRange, Datagram, HeaderBytes, Snapshot, Span, Time, WakeReason};

/// The end is repeated so often, unless a goodbye comes.
const MOST_ENDS: u32 = 100;
/// Distance of reports of the end.
const END_EVERY: Span = Span::from_millis(50);
/// How often a slow disk is looked at.
const DISK_EVERY: Span = Span::from_millis(10);
/// Units of an object whose window the sender and we agree on; bounds what a hello can make us reserve.
const MOST_UNIT_BYTES: u32 = 65_000;
const LEAST_UNIT_BYTES: u32 = 256;

/// See [the module](super).
#[derive(Debug)]
pub(super) struct Receiver {
    settings: Settings,
    hello: Option<Hello>,
    /// How many units there are; no end is `u64::MAX`.
    units: u64,
    have: Units,
    delivered_bytes: u64,
    accepted: Option<ByteRange>,
    duplicates: u64,
    heard_at: Time,
    disk: Disk,
    /// Bytes that are written, as far as is known, and when to look again.
    written: u64,
    disk_at: Time,
    work: Work,
    /// Sender's clock in the newest data packet, and when that came.
    echo: (u32, Time),
    finished_at: Option<Time>,
    ends: u32,
    end_at: Time,
    left: bool,
    failed: Option<&'static str>,
}

#[derive(Debug)]
enum Work {
    Push(Reporter),
    Pull(Puller),
}

/// When reports are due.
#[derive(Debug)]
struct Reporter {
    push: Push,
    at: Time,
    last_at: Time,
    /// The end at the last report: what is missing below it has had time to arrive out of order.
    seen_end: u64,
    /// A report is due, whatever the time.
    now: bool,
    parts: Vec<HeaderBytes>,
}

impl Receiver {
    pub(super) fn new(settings: Settings) -> Self {
        let work = match &settings.drive {
            Drive::Push(push) => Work::Push(Reporter {
                push: push.clone(),
                at: Time::ZERO,
                last_at: Time::ZERO,
                seen_end: 0,
                now: false,
                parts: Vec::new(),
            }),
            Drive::Pull(pull) => Work::Pull(Puller::new(pull.clone(), &settings)),
        };
        Self {
            hello: None,
            units: u64::MAX,
            have: Units::new(0),
            delivered_bytes: 0,
            accepted: None,
            duplicates: 0,
            heard_at: Time::ZERO,
            disk: Disk::new(settings.write),
            written: 0,
            disk_at: Time::ZERO,
            work,
            echo: (0, Time::ZERO),
            finished_at: None,
            ends: 0,
            end_at: Time::ZERO,
            left: false,
            failed: None,
            settings,
        }
    }

    pub(super) const fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// The bytes of the object that the last arrival brought, if they were new; once.
    pub(super) const fn take_accepted(&mut self) -> Option<ByteRange> {
        self.accepted.take()
    }

    pub(super) const fn finished_at(&self) -> Option<Time> {
        self.finished_at
    }

    pub(super) fn announced(&self) -> Option<(Option<u64>, u32)> {
        self.hello.map(|hello| (hello.size_bytes, hello.unit_bytes))
    }

    const fn is_over(&self) -> bool {
        self.finished_at.is_some() || self.failed.is_some()
    }

    pub(super) fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        match wire::decode(arrival.bytes) {
            Some(Message::Data(data)) => self.on_data(now, &data, arrival.absent),
            Some(Message::Hello(hello)) => self.on_hello(now, &hello),
            Some(Message::Goodbye) if self.finished_at.is_some() => self.left = true,
            _ => {}
        }
    }

    fn on_hello(&mut self, now: Time, hello: &Hello) {
        if self.hello.is_some() {
            // Our answer was lost.
            if let Work::Push(reporter) = &mut self.work {
                reporter.now = true;
            }
            return;
        }
        if !(LEAST_UNIT_BYTES..=MOST_UNIT_BYTES).contains(&hello.unit_bytes) {
            return;
        }
        self.hello = Some(*hello);
        self.settings.unit_bytes = hello.unit_bytes;
        self.units = hello.size_bytes.map_or(u64::MAX, |bytes| {
            bytes.div_ceil(u64::from(hello.unit_bytes))
        });
        self.heard_at = now;
        self.disk.begin(now);
        let window = self.settings.window_units();
        match &mut self.work {
            Work::Push(reporter) => {
                self.have = Units::new(window);
                reporter.now = true;
            }
            Work::Pull(puller) => {
                let room = puller.begin(window, self.units);
                self.have = Units::new(room);
            }
        }
        self.settle(now);
    }

    fn on_data(&mut self, now: Time, data: &Data, absent: u32) {
        let unit_bytes = u64::from(self.settings.unit_bytes);
        let expected = match self.hello.and_then(|hello| hello.size_bytes) {
            Some(size) => size
                .saturating_sub(data.unit.saturating_mul(unit_bytes))
                .min(unit_bytes),
            None => unit_bytes,
        };
        // A payload that is not carried is not there; a real one was counted by the driver.
        let wrong = u64::from(data.bytes) != expected || u64::from(absent) != expected;
        if self.hello.is_none() || self.is_over() || data.unit >= self.units || wrong {
            return;
        }
        self.heard_at = now;
        self.accepted = None;
        self.echo = (data.stamp_us, now);
        let before = self.have.end();
        if !self.have.insert(data.unit) {
            self.duplicates += 1;
            return;
        }
        self.delivered_bytes += expected;
        self.accepted = Some(ByteRange::with_len(data.unit * unit_bytes, expected));
        match &mut self.work {
            Work::Push(reporter) => {
                if let Some(interval) = reporter.push.gap_interval
                    && data.unit > before
                {
                    reporter.at = reporter.at.min(reporter.last_at + interval);
                }
                let news = self.have.end() - reporter.seen_end;
                reporter.now |= reporter
                    .push
                    .report_units
                    .is_some_and(|units| news >= units);
            }
            Work::Pull(puller) => puller.arrived(now, data),
        }
        if self.have.next() >= self.units || !self.disk.is_free() {
            self.settle(now);
        }
    }

    /// Lets the disk work, and sees whether all is done.
    fn settle(&mut self, now: Time) {
        if self.hello.is_none() || self.is_over() {
            return;
        }
        self.written = self.disk.work(now, self.delivered_bytes);
        self.disk_at = now + DISK_EVERY;
        let size = self.hello.and_then(|hello| hello.size_bytes);
        if size.is_some_and(|size| self.written >= size) {
            self.finished_at = Some(now);
            self.end_at = now;
        }
    }

    /// Units that have come and are not written.
    fn unwritten(&self) -> u64 {
        if self.disk.is_free() {
            return 0;
        }
        (self.delivered_bytes - self.written) / u64::from(self.settings.unit_bytes)
    }

    /// The first unit for which there is no room.
    fn credit(&self) -> u64 {
        let room = self
            .settings
            .window_units()
            .saturating_sub(self.unwritten());
        self.have.next() + room
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.hello.is_none() || self.is_over() {
            return;
        }
        self.settle(now);
        if now >= self.heard_at + SILENCE && !self.waits_for_disk() {
            self.failed = Some("no word from the sender");
        }
        if let Work::Pull(puller) = &mut self.work {
            puller.expire(now, &self.have);
        }
    }

    fn waits_for_disk(&self) -> bool {
        !self.disk.is_free() && self.written < self.delivered_bytes
    }

    /// Appends until `out` has `most` entries.
    pub(super) fn poll_transmit(&mut self, now: Time, most: usize, out: &mut Vec<Datagram>) {
        if self.hello.is_none() || self.failed.is_some() || out.len() >= most {
            return;
        }
        if self.finished_at.is_some() {
            if !self.left && self.ends < MOST_ENDS && now >= self.end_at {
                self.ends += 1;
                self.end_at = now + END_EVERY;
                out.push(control(self.header(now, true, &[]).encode()));
            }
            return;
        }
        let unwritten = self.unwritten();
        let header = self.header(now, false, &[]);
        match &mut self.work {
            Work::Pull(puller) => puller.poll_transmit(now, &self.have, unwritten, most, out),
            Work::Push(reporter) => {
                if reporter.now || now >= reporter.at {
                    reporter.report(now, &self.have, header);
                }
                while out.len() < most
                    && let Some(part) = reporter.parts.pop()
                {
                    out.push(control(part));
                }
            }
        }
    }

    fn header<'h>(&self, now: Time, done: bool, holes: &'h [u8]) -> Report<'h> {
        let next = self.have.next();
        let (echo, at) = self.echo;
        let bounded = |value: u64| value.saturating_sub(next).min(u64::from(u32::MAX)) as u32;
        Report {
            done,
            echo_us: echo.wrapping_add(now.since(at).as_micros() as u32),
            next,
            end: bounded(self.have.end()),
            credit: bounded(self.credit()),
            holes,
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        if self.hello.is_none() || self.failed.is_some() || self.left {
            return None;
        }
        if self.finished_at.is_some() {
            return (self.ends < MOST_ENDS).then_some((self.end_at, WakeReason::Close));
        }
        let work = match &self.work {
            Work::Push(reporter) if reporter.now || !reporter.parts.is_empty() => {
                Some((self.heard_at, WakeReason::Acknowledgement))
            }
            Work::Push(reporter) => Some((reporter.at, WakeReason::Acknowledgement)),
            Work::Pull(puller) => puller.poll_timeout().map(|at| (at, WakeReason::Request)),
        };
        let silence = Some((self.heard_at + SILENCE, WakeReason::IdleTimeout));
        let waits = self.waits_for_disk();
        let disk = waits.then_some((self.disk_at, WakeReason::Disk));
        let silence = silence.filter(|_| !waits);
        [work, disk, silence]
            .into_iter()
            .flatten()
            .min_by_key(|next| next.0)
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            algorithm: format!("receiver/{}", self.settings.name).into(),
            delivered_bytes: self.delivered_bytes,
            lost_packets: match &self.work {
                Work::Pull(puller) => puller.lost(),
                Work::Push(_) => 0,
            },
            congestion_events: match &self.work {
                Work::Pull(puller) => puller.cuts(),
                Work::Push(_) => 0,
            },
            finished_at: self.finished_at,
            failed: self.failed.map(str::to_owned),
            ..Snapshot::default()
        }
    }
}

fn control(bytes: HeaderBytes) -> Datagram {
    Datagram { bytes, absent: 0 }
}

impl Reporter {
    /// Makes a report, in as many parts as the list needs, the first at the end.
    fn report(&mut self, now: Time, have: &Units, header: Report<'_>) {
        self.now = false;
        self.at = now + self.push.report_interval;
        self.last_at = now;
        let mut holes: Vec<u8> = Vec::new();
        have.missing(self.seen_end, |unit| {
            let distance = (unit - header.next) as u32;
            holes.extend_from_slice(&distance.to_be_bytes());
            holes.len() < 16 * 4 * wire::MAX_HOLES
        });
        self.seen_end = have.end();
        self.parts.clear();
        for holes in holes.chunks(4 * wire::MAX_HOLES).rev() {
            self.parts.push(Report { holes, ..header }.encode());
        }
        if self.parts.is_empty() {
            self.parts.push(header.encode());
        }
    }
}
