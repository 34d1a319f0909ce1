//! The receiver that asks for each piece.

use super::law::RoundTrip;
use super::units::Units;
use super::wire::{Data, REQUEST_BYTES, Request};
use super::{Pull, Settings};
use howdah_core::{Datagram, Span, Time};
use std::collections::VecDeque;

/// A unit that does not come holds up no more than so many units: those are placed in the object, and
/// cost a bit each.
const ROOM_UNITS: u64 = 1 << 17;
/// The window is never smaller, in units.
const LEAST_WINDOW: u64 = 4;
/// Share of the greatest window by which it grows after a window without too much loss.
const GROWTH: u64 = 8;
/// Patience before the first sample of the round-trip time, as of RFC 6298.
const FIRST_TIMEOUT: Span = Span::from_secs(1);

/// What was asked for at once.
#[derive(Clone, Copy, Debug)]
struct Batch {
    first: u64,
    count: u32,
    at: Time,
}

/// The requests of a receiver.
#[derive(Debug)]
pub(super) struct Puller {
    pull: Pull,
    most: u64,
    window: u64,
    units: u64,
    room: u64,
    /// Asked for and neither come nor taken for lost.
    outstanding: u64,
    next_request: u64,
    batches: VecDeque<Batch>,
    /// Whether a unit is in a batch that counts, by its number in the ring.
    asked: Vec<bool>,
    lost: VecDeque<u64>,
    lost_units: u64,
    seen_loss: bool,
    period: (u64, u64),
    cuts: u64,
    rtt: RoundTrip,
}

impl Puller {
    pub(super) fn new(pull: Pull, settings: &Settings) -> Self {
        let most = settings.window_units();
        Self {
            pull,
            most,
            window: most,
            units: u64::MAX,
            room: 0,
            outstanding: 0,
            next_request: 0,
            batches: VecDeque::new(),
            asked: Vec::new(),
            lost: VecDeque::new(),
            lost_units: 0,
            seen_loss: false,
            period: (0, 0),
            cuts: 0,
            rtt: RoundTrip::default(),
        }
    }

    /// The object is known. Returns how many units there must be room for.
    pub(super) fn begin(&mut self, window: u64, units: u64) -> u64 {
        self.most = window;
        self.window = window;
        self.units = units;
        self.room = (4 * window).max(ROOM_UNITS);
        self.asked = vec![false; self.room as usize];
        self.room
    }

    pub(super) const fn lost(&self) -> u64 {
        self.lost_units
    }

    pub(super) const fn cuts(&self) -> u64 {
        self.cuts
    }

    fn slot(&self, unit: u64) -> usize {
        (unit % self.room) as usize
    }

    /// A unit has come for the first time.
    pub(super) fn arrived(&mut self, now: Time, data: &Data) {
        let us = (now.as_micros() as u32).wrapping_sub(data.stamp_us);
        if us < 60_000_000 {
            self.rtt.sample(Span::from_micros(u64::from(us)));
        }
        let at = self.slot(data.unit);
        if std::mem::take(&mut self.asked[at]) {
            self.outstanding -= 1;
        }
        self.count(1, 0);
    }

    /// The law: a window of units with too many losses halves the window.
    fn count(&mut self, arrived: u64, lost: u64) {
        self.period.0 += arrived;
        self.period.1 += lost;
        let all = self.period.0 + self.period.1;
        if all < self.most {
            return;
        }
        if self.period.1 as f64 > self.pull.loss_threshold * all as f64 {
            self.window = (self.window / 2).max(LEAST_WINDOW);
            self.cuts += 1;
        } else {
            self.window = (self.window + (self.most / GROWTH).max(1)).min(self.most);
        }
        self.period = (0, 0);
    }

    fn timeout(&self) -> Span {
        let usual = self.rtt.smoothed.map_or(FIRST_TIMEOUT, |rtt| rtt * 2);
        usual.max(self.pull.timeout_floor)
    }

    /// Takes for lost what was asked for long ago.
    pub(super) fn expire(&mut self, now: Time, have: &Units) {
        let timeout = self.timeout();
        while let Some(batch) = self.batches.front().copied()
            && batch.at + timeout <= now
        {
            self.batches.pop_front();
            for unit in batch.first..batch.first + u64::from(batch.count) {
                let at = self.slot(unit);
                if !have.has(unit) && std::mem::take(&mut self.asked[at]) {
                    self.outstanding -= 1;
                    self.lost.push_back(unit);
                    self.lost_units += 1;
                    self.seen_loss = true;
                    self.count(0, 1);
                }
            }
        }
    }

    /// Appends the requests that the window allows: what has come and is not written occupies it, too.
    pub(super) fn poll_transmit(
        &mut self,
        now: Time,
        have: &Units,
        unwritten: u64,
        most: usize,
        out: &mut Vec<Datagram>,
    ) {
        let limit = self.units.min(have.next() + self.room);
        while out.len() < most {
            while self.lost.front().is_some_and(|&unit| have.has(unit)) {
                self.lost.pop_front();
            }
            let want = self.window.saturating_sub(self.outstanding + unwritten);
            let again = self.lost.front().copied();
            let available = match again {
                // Neighbours that are lost together are asked for together.
                Some(first) => {
                    let run = self.lost.iter().enumerate();
                    let same = run.take_while(|&(at, &unit)| unit == first + at as u64);
                    same.take(self.pull.units_most as usize).count() as u64
                }
                None => limit.saturating_sub(self.next_request),
            };
            let usual = if self.seen_loss {
                self.pull.units_lossy
            } else {
                self.pull.units_clean
            };
            let usual = u64::from(usual).min((self.window / 4).max(1));
            if available == 0 || want == 0 || want < usual.min(available) {
                return;
            }
            // While the window fills for the first time, requests are larger.
            let filling = self.next_request < self.most && want > usual;
            let take = if filling {
                u64::from(self.pull.units_most).max(usual)
            } else {
                usual
            };
            let count = take.min(available).min(want) as u32;
            let first = again.unwrap_or(self.next_request);
            if again.is_some() {
                self.lost.drain(..count as usize);
            } else {
                self.next_request += u64::from(count);
            }
            for unit in first..first + u64::from(count) {
                let at = self.slot(unit);
                if !have.has(unit) && !std::mem::replace(&mut self.asked[at], true) {
                    self.outstanding += 1;
                }
            }
            self.batches.push_back(Batch {
                first,
                count,
                at: now,
            });
            let request = Request {
                again: again.is_some(),
                stamp_us: now.as_micros() as u32,
                first,
                count,
                ahead: first.saturating_sub(have.next()).min(u64::from(u32::MAX)) as u32,
            };
            out.push(Datagram {
                bytes: request.encode(),
                absent: self.pull.request_bytes - REQUEST_BYTES as u32,
            });
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.batches.front().map(|batch| batch.at + self.timeout())
    }
}
